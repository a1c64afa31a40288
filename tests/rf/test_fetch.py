"""Downloads from OpenML, through scikit-learn's own code, and UCI; see `conftest`."""

from collections import Counter

import numpy as np
import pytest

from mmech_rf import BatchTrainingClassifier, Schema, datasets, fetch
from mmech_rf.data.catalogue import CATALOGUE, UCI, DataSet, OpenML
from mmech_rf.datasets import DATASETS, load_csv


def as_text(rows):
    return [tuple(map(text, row)) for row in rows]


def text(value):
    try:
        return f"{float(value):g}"
    except ValueError:
        return str(value)


@pytest.mark.parametrize("name", fetch.FETCHERS)
def test_fetched_records_read_by_their_schema(name, asked, tmp_path):
    bunch = fetch.FETCHERS[name](data_home=tmp_path)
    assert bunch.data.shape == (12, len(bunch.feature_names))
    assert bunch.name == bunch.schema.name == name
    assert bunch.schema == fetch.load_schema(name)
    X, y, kept = bunch.schema.encode(
        bunch.data, bunch.target, handle_missing="drop", return_index=True
    )
    assert X.shape == (kept.size, bunch.schema.n_features)
    assert len(set(y)) > 1
    assert kept.size == {"adult": 8, "heart": 11}.get(name, 12)
    files = [one for one in asked if "download" in one or "databases" in one]
    assert len(files) == 1
    options = {"n_ensembles": 2, "max_features": 4, "template": "identity"}
    model = BatchTrainingClassifier(
        bunch.schema, epsilon=1, n_trees=4, handle_missing="drop", **options
    )
    labels = model.fit(bunch.data, bunch.target).predict(bunch.data[kept])
    assert set(labels) <= set(bunch.schema.class_labels)


FUNCTIONS = [name for name in fetch.__all__ if name.startswith("fetch_")]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_are_called_as_their_sets(function, asked, tmp_path):
    name = function.removeprefix("fetch_").replace("_", "-")
    bunch = getattr(fetch, function)(data_home=tmp_path)
    assert bunch.name == name
    if name not in DATASETS:
        same = datasets.fetch(name, data_home=tmp_path)
        assert same.data.tolist() == bunch.data.tolist()


@pytest.mark.parametrize("name", fetch.FETCHERS)
def test_the_second_call_asks_nobody(name, asked, tmp_path):
    first = fetch.FETCHERS[name](data_home=tmp_path)
    n_asked = len(asked)
    second = fetch.FETCHERS[name](data_home=tmp_path)
    assert len(asked) == n_asked
    assert second.data.tolist() == first.data.tolist()
    assert second.target.tolist() == first.target.tolist()


@pytest.mark.parametrize("name", fetch.FETCHERS)
def test_fetched_records_are_those_of_the_repository(name, asked, tmp_path, data_dir):
    """Names and codes are translated: every row is one of the UCI file."""
    if name == "adult-binary":
        pytest.skip("its file holds a sample of adult; see the next test")
    bunch = fetch.FETCHERS[name](data_home=tmp_path)
    filed = load_csv(data_dir / f"{name}.csv.gz", bunch.schema)
    rows = set(as_text(np.column_stack([filed.data, filed.target])))
    found = as_text(np.column_stack([bunch.data, bunch.target]))
    changed = 1 if name == "heart" else 0  # one was given a missing value
    assert sum(row not in rows for row in found) == changed


def test_binary_adult_is_that_of_libsvm(data_dir):
    """All records of adult.data hold those of a1a.t, encoded, as often as there."""
    raw = load_csv(data_dir / "adult.csv.gz", fetch.load_schema("adult", n_bins=2))
    encoded = fetch.one_hot_adult(raw.data[:32561])
    filed = load_csv(
        data_dir / "adult-binary.csv.gz", fetch.load_schema("adult-binary")
    )
    labels = {"<=50K": "-1", ">50K": "1"}
    ours = Counter(
        "".join(row) + labels[y]
        for row, y in zip(encoded.tolist(), raw.target[:32561], strict=True)
    )
    theirs = Counter(
        "".join(row) + y
        for row, y in zip(filed.data.tolist(), filed.target, strict=True)
    )
    assert filed.data.shape == (30956, 123)
    assert not theirs - ours
    assert (ours - theirs).total() == 1605  # a1a itself


def test_a_missing_value_has_no_column(asked, tmp_path):
    bunch = fetch.fetch_adult_binary(data_home=tmp_path)
    ones = (bunch.data[:, 5:13] == "1").sum(axis=1)  # workclass
    assert set(ones) == {0, 1}
    assert set((bunch.data[:, :5] == "1").sum(axis=1)) == {1}  # age
    assert set(bunch.target) == {"-1", "1"}


@pytest.mark.parametrize("name", ["heart", "iris", "adult"])
def test_bins_of_equal_width_take_the_place_of_the_paper(name, asked, tmp_path):
    bunch = fetch.FETCHERS[name](data_home=tmp_path, n_bins=3)
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
        fetch.fetch_heart(data_home=tmp_path)


def test_without_a_connection_to_the_uci_repository(asked, tmp_path):
    asked.down = True
    with pytest.raises(ConnectionError, match=r"fetch 'magic', file https.*magic04"):
        fetch.fetch_magic(data_home=tmp_path)
    asked.down = False
    assert fetch.fetch_magic(data_home=tmp_path).data.shape == (12, 10)


def test_a_file_of_another_length_is_refused(asked, tmp_path, monkeypatch):
    source = UCI("magic/magic04.data", 13, 11)
    monkeypatch.setitem(CATALOGUE, "magic", DataSet(uci=source, numeric=True))
    with pytest.raises(ValueError, match=r"must have 13 lines of 11 values, got 12"):
        fetch.fetch_magic(data_home=tmp_path)


def test_lines_without_one_class_are_left_out(asked, tmp_path):
    """Two lines of the excerpt have no class, or two."""
    bunch = fetch.fetch_claves(data_home=tmp_path)
    assert CATALOGUE["claves"].uci.n_lines == 14
    assert Counter(bunch.target.tolist()) == dict.fromkeys(bunch.schema.class_labels, 3)


def test_a_set_that_lost_a_column(asked, tmp_path, monkeypatch):
    source = OpenML("iris", 1, {"sepal_length": "sepal.length"})
    monkeypatch.setitem(CATALOGUE, "iris", DataSet(openml=source))
    with pytest.raises(ValueError, match=r"OpenML has no column 'sepal\.length'"):
        fetch.fetch_iris(data_home=tmp_path)


def test_there_is_no_such_schema():
    with pytest.raises(ValueError, match="no schema of 'cars'; choose from adult"):
        fetch.load_schema("cars")


@pytest.mark.parametrize("name", fetch.FETCHERS)
def test_shipped_schemas_say_what_the_documentation_says(name, data_dir):
    filed = data_dir / f"{name}.schema.json"
    assert fetch.load_schema(name, n_bins=5) == Schema.from_json(filed, n_bins=5)
    paper = data_dir / f"{name}.mrf_schema.json"
    if paper.exists():
        assert fetch.load_schema(name) == Schema.from_json(paper)


@pytest.mark.parametrize("name", ["nursery", "car", "tic-tac-toe", "balance-scale"])
def test_shipped_schemas_have_the_cells_of_the_generated_sets(name):
    ours, theirs = fetch.load_schema(name), DATASETS[name]().schema
    assert ours.domain_shape == theirs.domain_shape
    assert ours.feature_names == theirs.feature_names
    assert ours.class_labels == theirs.class_labels
