"""Downloads from OpenML, through scikit-learn's own code; see `conftest`."""

import numpy as np
import pytest

from mmech_rf import BatchTrainingClassifier, Schema
from mmech_rf.data.catalogue import BUILT_IN, CATALOGUE, DataSet, OpenML
from mmech_rf.data.openml import load_schema
from mmech_rf.datasets import fetch, load_csv

DOWNLOADED = [name for name in CATALOGUE if name not in BUILT_IN]


def as_text(rows):
    return [tuple(map(text, row)) for row in rows]


def text(value):
    try:
        return f"{float(value):g}"
    except ValueError:
        return str(value)


@pytest.mark.parametrize("name", DOWNLOADED)
def test_fetched_records_read_by_their_schema(name, asked, tmp_path):
    bunch = fetch(name, data_home=tmp_path)
    assert bunch.data.shape == (12, len(bunch.feature_names))
    assert bunch.name == bunch.schema.name == name
    assert bunch.schema == load_schema(name)
    X, y, kept = bunch.schema.encode(
        bunch.data, bunch.target, handle_missing="drop", return_index=True
    )
    assert X.shape == (kept.size, bunch.schema.n_features)
    assert len(set(y)) > 1
    assert kept.size == {"adult": 8, "heart": 11}.get(name, 12)
    again = fetch(name, data_home=tmp_path)
    assert again.data.tolist() == bunch.data.tolist()
    files = [one for one in asked if "download" in one]
    assert len(files) == 1
    options = {"n_ensembles": 2, "max_features": 4, "template": "identity"}
    model = BatchTrainingClassifier(
        bunch.schema, epsilon=1, n_trees=4, handle_missing="drop", **options
    )
    labels = model.fit(bunch.data, bunch.target).predict(bunch.data[kept])
    assert set(labels) <= set(bunch.schema.class_labels)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", DOWNLOADED)
def test_fetched_records_are_those_of_the_repository(name, asked, tmp_path, data_dir):
    """Names and codes are translated: every row is one of the UCI file."""
    bunch = fetch(name, data_home=tmp_path)
    filed = load_csv(data_dir / f"{name}.csv.gz", bunch.schema)
    rows = set(as_text(np.column_stack([filed.data, filed.target])))
    found = as_text(np.column_stack([bunch.data, bunch.target]))
    changed = 1 if name == "heart" else 0  # one was given a missing value
    assert sum(row not in rows for row in found) == changed


@pytest.mark.parametrize("name", ["heart", "adult"])
def test_bins_of_equal_width_take_the_place_of_the_paper(name, asked, tmp_path):
    bunch = fetch(name, data_home=tmp_path, n_bins=3)
    numeric = [a for a in bunch.schema.attributes if a.kind == "numeric"]
    assert numeric
    assert all(a.size == 3 and a.lower is not None for a in numeric)
    bunch.schema.encode(bunch.data, bunch.target, handle_missing="drop")


def test_without_a_connection(asked, tmp_path):
    asked.down = True
    with (
        pytest.warns(UserWarning, match="network error"),
        pytest.raises(ConnectionError, match=r"fetch 'heart', data set 'heart-c'"),
    ):
        fetch("heart", data_home=tmp_path)


def test_a_set_that_lost_a_column(asked, tmp_path, monkeypatch):
    source = OpenML("mushroom", 1, {"odor": "smell"})
    monkeypatch.setitem(CATALOGUE, "mushroom", DataSet(openml=source))
    with pytest.raises(ValueError, match="OpenML has no column 'smell'"):
        fetch("mushroom", data_home=tmp_path)


@pytest.mark.parametrize("name", DOWNLOADED)
def test_shipped_schemas_say_what_the_documentation_says(name, data_dir):
    filed = data_dir / f"{name}.schema.json"
    assert load_schema(name, n_bins=5) == Schema.from_json(filed, n_bins=5)
    paper = data_dir / f"{name}.mrf_schema.json"
    if paper.exists():
        assert load_schema(name) == Schema.from_json(paper)
