"""Generated data sets against the published files, and reading of csv files."""

import csv
import gzip
from collections import Counter

import numpy as np
import pytest

from mmech_rf.data import generated
from mmech_rf.data.catalogue import BUILT_IN, CATALOGUE, DataSet
from mmech_rf.data.openml import load_schema
from mmech_rf.datasets import DATASETS, fetch, load_csv, load_iris
from mmech_rf.evaluation import load_records
from mmech_rf.schema import Attribute, Schema

RULES = [name for name in DATASETS if name != "iris"]


def read_rows(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.parametrize("name", RULES)
def test_generated_sets_are_those_of_the_files(name, data_dir):
    header, *rows = read_rows(data_dir / f"{name}.csv.gz")
    bunch = DATASETS[name]()
    assert bunch.feature_names == header[:-1]
    assert bunch.data.tolist() == [row[:-1] for row in rows]
    assert bunch.target.tolist() == [row[-1] for row in rows]
    filed = Schema.from_json(data_dir / f"{name}.schema.json")
    assert bunch.schema.class_labels == filed.class_labels
    for ours, theirs in zip(bunch.schema.attributes, filed.attributes, strict=True):
        assert (ours.name, ours.categories) == (theirs.name, theirs.categories)


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("car", (1728, 6), {"unacc": 1210, "acc": 384, "good": 69, "vgood": 65}),
        ("nursery", (12960, 8),
         {"not_recom": 4320, "priority": 4266, "spec_prior": 4044, "very_recom": 328,
         "recommend": 2}),
        ("balance-scale", (625, 4), {"L": 288, "B": 49, "R": 288}),
        ("tic-tac-toe", (958, 9), {"positive": 626, "negative": 332}),
        ("monks-1", (432, 6), {"0": 216, "1": 216}),
        ("monks-2", (432, 6), {"0": 290, "1": 142}),
        ("monks-3", (432, 6), {"0": 204, "1": 228}),
        ("iris", (150, 4),
         {"Iris-setosa": 50, "Iris-versicolor": 50, "Iris-virginica": 50}),
    ],
)  # fmt: skip
def test_sizes_and_class_counts(name, shape, counts):
    bunch = DATASETS[name]()
    assert bunch.name == bunch.schema.name == name
    assert bunch.data.shape == shape
    assert Counter(bunch.target.tolist()) == counts
    assert set(counts) == set(bunch.schema.class_labels)
    codes, labels = bunch.schema.encode(bunch.data, bunch.target)
    assert codes.shape == shape
    assert (bunch.schema.decode_target(labels) == bunch.target).all()


PAPER = {
    "heart": (1_119_744, 297, {"0": 160, "1": 137}),
    "mushroom": (1_638_333_457_367_040, 8_124, {"e": 4_208, "p": 3_916}),
    "adult": (168_000, 45_222, {"<=50K": 34_014, ">50K": 11_208}),
    "adult-binary": (2**123, 30_956, {"-1": 23_510, "1": 7_446}),
}
"""Sets of the matrix-random-forest paper: cells, records that remain, and classes."""


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", PAPER)
def test_sets_of_the_paper_have_its_cells_and_records(name, data_dir):
    n_cells, n_records, n_per_class = PAPER[name]
    filed = data_dir / f"{name}.mrf_schema.json"
    schema = load_schema(name) if name in CATALOGUE else Schema.from_json(filed)
    bunch = load_csv(data_dir / f"{name}.csv.gz", schema)
    codes, classes = schema.encode(bunch.data, bunch.target, handle_missing="drop")
    assert schema.n_cells == n_cells
    assert codes.shape == (n_records, schema.n_features)
    assert Counter(schema.decode_target(classes).tolist()) == n_per_class


def test_iris_differs_from_the_file_as_documented_and_codes_do_not(data_dir):
    rows = read_rows(data_dir / "iris.csv.gz")[1:]
    filed = np.array([row[:-1] for row in rows], dtype=float)
    iris = load_iris()
    other = np.nonzero(iris.data != filed)
    assert np.transpose(other).tolist() == [[34, 3], [37, 1], [37, 2]]
    assert iris.data[other].tolist() == [0.2, 3.6, 1.4]
    assert filed[other].tolist() == [0.1, 3.1, 1.5]
    assert iris.target.tolist() == [row[-1] for row in rows]
    paper = Schema.from_json(data_dir / "iris.mrf_schema.json")
    assert iris.schema.domain_shape == paper.domain_shape == (4, 3, 6, 5)
    assert (iris.schema.encode(iris.data) == paper.encode(filed)).all()


def test_iris_bins_of_equal_width_inside_public_bounds():
    schema = fetch("iris", n_bins=5).schema
    assert schema.domain_shape == (5, 5, 5, 5)
    assert [attribute.upper for attribute in schema.attributes] == [10, 5, 10, 5]


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_set_that_can_be_made_is_not_downloaded(name, asked):
    found, same = fetch(name), DATASETS[name]()
    assert found.name == found.schema.name == name
    assert found.schema == same.schema
    assert found.data.tolist() == same.data.tolist()
    assert asked == []


def test_a_set_that_is_added_is_known_everywhere(monkeypatch):
    """As the page for maintainers says: a function, and an entry of the table."""

    def load_dice():
        sides = [str(side) for side in range(1, 7)]
        dice = [Attribute.ordinal(name, sides) for name in ("first", "second")]
        schema = Schema(dice, ["low", "high"], name="dice")
        rows = [[a, b] for a in sides for b in sides]
        target = ["high" if int(a) + int(b) > 7 else "low" for a, b in rows]
        return generated._bunch(rows, target, schema)

    # Adding a set is adding a function to a module.
    monkeypatch.setattr(generated, "load_dice", load_dice, raising=False)
    monkeypatch.setitem(CATALOGUE, "dice", DataSet("load_dice"))
    bunch = fetch("dice")
    assert bunch.data.shape == (36, 2)
    assert (bunch.target == "high").sum() == 15
    assert load_records("dice").schema == bunch.schema
    with pytest.raises(ValueError, match="mushroom, dice, or give the path"):
        load_records("cars")


def test_the_mapping_of_loaders_is_read_only():
    with pytest.raises(TypeError):
        DATASETS["car"] = None


# ------------------------------------------------------------------------- csv

SCHEMA = Schema(
    [Attribute.categorical("a", ["x", "y"]), Attribute.numeric("n", cut_points=[2])],
    [0, 1],
    target="label",
    name="toy",
)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_load_csv(tmp_path, suffix):
    path = tmp_path / f"toy.{suffix}"
    opener = gzip.open if suffix.endswith("gz") else open
    with opener(path, "wt", encoding="utf-8") as stream:
        stream.write('\ufeffextra,n,label,a\n9,2.5,1,x\n\n"q,q",,0,y\n')
    bunch = load_csv(path, SCHEMA)
    assert bunch.data.tolist() == [["x", "2.5"], ["y", ""]]
    assert bunch.target.tolist() == [1, 0]  # raw labels of the schema, not text
    assert bunch.feature_names == ["a", "n"]
    assert bunch.name == "toy"
    assert bunch.schema is SCHEMA


def test_load_csv_appends_required_columns(tmp_path):
    schema = Schema([Attribute.categorical("a", ["x"])], [0, 1], required=["r"])
    path = tmp_path / "toy.csv"
    path.write_text("r,class,a\n,1,x\n7,0,x\n")
    bunch = load_csv(path, schema)
    assert bunch.feature_names == ["a", "r"]
    assert bunch.data.tolist() == [["x", ""], ["x", "7"]]
    codes, labels = schema.encode(bunch.data, bunch.target, handle_missing="drop")
    assert codes.tolist() == [[0]]
    assert labels.tolist() == [0]


SWALLOWING = 'x,1,1,"never closed\n' + "y,1,0,fine\n" * 1000


@pytest.mark.parametrize("end", ["", 'x,1,1,"closed"\n', 'x,1,1,""\n', 'x,1,1,a"\n'])
@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_a_quote_that_is_not_closed_swallows_no_lines(tmp_path, suffix, end):
    """The column is not named by the schema, and counts all the same."""
    path = tmp_path / f"bad.{suffix}"
    opener = gzip.open if suffix.endswith("gz") else open
    with opener(path, "wt", encoding="utf-8") as stream:
        stream.write("a,n,label,note\nx,1,1,SECRET\n" + SWALLOWING + end)
    with pytest.raises(ValueError, match="line 3 of the file opens a quote") as caught:
        load_csv(path, SCHEMA)
    assert "multiline=True" in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_fields_may_hold_line_breaks_where_that_is_declared(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text('a,n,label,note\nx,1,1,"one\ntwo\r\nthree"\ny,3,0,"""four"""\n')
    with pytest.raises(ValueError, match="line 2 of the file opens a quote"):
        load_csv(path, SCHEMA)
    bunch = load_csv(path, SCHEMA, multiline=True)
    assert bunch.data.tolist() == [["x", "1"], ["y", "3"]]
    path.write_text("a,n,label,note\n" + SWALLOWING)
    with pytest.raises(ValueError, match=r"line 2 of the file opens a quote"):
        load_csv(path, SCHEMA, multiline=True)
    path.write_text('a,n,label,note\nx,1,1,"one\ntwo"\nx,1,1\n')
    with pytest.raises(ValueError, match="line 4 of the file has 3 fields"):
        load_csv(path, SCHEMA, multiline=True)
