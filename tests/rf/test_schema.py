"""Schemas: construction, matching of raw values, encoding, files and inference."""

import csv
import gzip
import io
import json
import os
import pickle
import re
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmech.exceptions import PrivacyLeakWarning
from mmech_rf.schema import Attribute, Schema

DATA_DIR = os.environ.get("MMECH_DATA_DIR", "")
SCHEMA_FILES = [
    path.name for path in sorted(Path(DATA_DIR).glob("*schema.json")) if DATA_DIR
]
needs_data = pytest.mark.skipif(
    not DATA_DIR, reason="MMECH_DATA_DIR does not name the folder of data files"
)

COLOUR = Attribute.categorical("colour", ["red", "green", "?"])
SIZE = Attribute.ordinal("size", ["small", "big"])
AGE = Attribute.numeric("age", lower=0, upper=100, n_bins=4)
TOY = Schema([COLOUR, SIZE, AGE], ["no", "yes"], name="toy")


def one(attribute, value, **options):
    """Return the code of one value."""
    return int(Schema([attribute], ["no", "yes"]).encode([[value]], **options)[0, 0])


def read_frame(name):
    with gzip.open(Path(DATA_DIR) / f"{name}.csv.gz", "rt", newline="") as stream:
        header, *rows = csv.reader(stream)
    return pd.DataFrame(np.array(rows, dtype=object), columns=header)


# ---------------------------------------------------------------- construction


def test_sizes_and_names():
    assert TOY.domain_shape == (3, 2, 4)
    assert TOY.n_cells == 24
    assert type(TOY.n_cells) is int
    assert (TOY.n_features, TOY.n_classes) == (3, 2)
    assert TOY.feature_names == ("colour", "size", "age")
    assert TOY.class_labels == ("no", "yes")


def test_domains_of_any_size():
    schema = Schema(
        [Attribute.categorical(f"a{j}", [0, 1]) for j in range(123)], [0, 1]
    )
    assert schema.n_cells == 2**123
    assert "1.06e+37" in repr(schema)
    assert "123 attributes" in repr(schema)


def test_schemas_are_immutable_values():
    twin = Schema.from_json(TOY.to_json())
    assert twin == TOY
    assert hash(twin) == hash(TOY)
    assert pickle.loads(pickle.dumps(TOY)) == TOY
    with pytest.raises(AttributeError):
        TOY.name = "other"
    with pytest.raises(AttributeError):
        AGE.lower = 1


def test_numpy_scalars_become_python_scalars():
    attribute = Attribute.categorical("a", np.array([1, 2]))
    schema = Schema([attribute], np.array([-1.0, 1.0]))
    assert [type(c) for c in attribute.categories] == [int, int]
    assert [type(c) for c in schema.class_labels] == [float, float]


def test_cells_of_numeric_attributes():
    assert AGE.cut_points == (25, 50, 75)
    assert Attribute.numeric("a", lower=0, upper=1).size == 10
    assert Attribute.numeric("a", lower=0, upper=1, n_bins=1).size == 1
    assert Attribute.numeric("a", cut_points=[1, 2]).size == 3
    assert Attribute.numeric("a", cut_points=[1, 2], other="none").size == 4


def test_equal_width_cut_points_are_the_printed_decimals():
    cuts = Attribute.numeric("a", lower=0, upper=0.6, n_bins=6).cut_points
    assert cuts == (0.1, 0.2, 0.3, 0.4, 0.5)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"lower": 0, "upper": 3, "n_bins": 2}, ("[0, 1.5]", "(1.5, 3]")),
        ({"lower": 0, "upper": 3, "n_bins": 1}, ("[0, 3]",)),
        ({"lower": 0, "upper": 3, "cut_points": [0]}, ("[0, 0]", "(0, 3]")),
        ({"cut_points": [1, 2]}, ("<= 1", "(1, 2]", "> 2")),
        ({"cut_points": [1], "other": "none"}, ("<= 1", "> 1", "none")),
        ({"cut_points": [1], "categories": ["lo", "hi"]}, ("lo", "hi")),
    ],
)
def test_labels_of_numeric_attributes(options, labels):
    assert Attribute.numeric("a", **options).labels == labels


@pytest.mark.parametrize(
    ("kind", "options", "error", "message"),
    [
        ("nominal", {}, ValueError, "kind of attribute 'a' must be one of"),
        ("categorical", {}, ValueError, "categories .* at least 1, got 0; list every"),
        ("ordinal", {"categories": "ab"}, TypeError, "must be a sequence, got str"),
        ("ordinal", {"categories": 3}, TypeError, "must be a sequence, got int"),
        ("ordinal", {"categories": [1, 1.0]}, ValueError, "must be distinct, also"),
        ("ordinal", {"categories": [1, "1"]}, ValueError, "must be distinct, also"),
        ("ordinal", {"categories": [""]}, ValueError, "not be empty.*write '\\?'"),
        ("ordinal", {"categories": [np.nan]}, ValueError, "not be empty, NaN or inf"),
        ("ordinal", {"categories": [np.inf]}, ValueError, "not be empty, NaN or inf"),
        ("ordinal", {"categories": [None]}, TypeError, "got NoneType; convert it"),
        ("ordinal", {"categories": [(1,)]}, TypeError, "got tuple; convert it"),
        (
            "ordinal",
            {"categories": [1], "lower": 0},
            ValueError,
            "is ordinal and takes no bounds",
        ),
        (
            "categorical",
            {"categories": [1], "n_bins": 3},
            ValueError,
            "takes no bounds, cut_points or n_bins; leave them out",
        ),
        (
            "categorical",
            {"categories": ["x"], "groups": {"y": ["1"]}},
            ValueError,
            "every group of attribute 'a' must be one of its categories",
        ),
        (
            "categorical",
            {"categories": ["x", "y"], "groups": {"x": ["1"], "y": ["1"]}},
            ValueError,
            "may occur in one group of attribute 'a' only",
        ),
        (
            "categorical",
            {"categories": ["x"], "groups": {"x": "1"}},
            TypeError,
            "groups of attribute 'a' must be a sequence",
        ),
        (
            "categorical",
            {"categories": ["x"], "value_map": {"1": "y"}},
            ValueError,
            "every value of value_map of attribute 'a' must be one of its categories",
        ),
        (
            "categorical",
            {"categories": ["x"], "other": "y"},
            ValueError,
            "other of attribute 'a' must be one of its categories, got 'y'",
        ),
        ("numeric", {}, ValueError, "needs lower and upper, or cut_points, got neith"),
        ("numeric", {"lower": 0}, ValueError, "needs both lower and upper, got one"),
        (
            "numeric",
            {"lower": 1, "upper": 1},
            ValueError,
            "lower must be below upper in attribute 'a', got 1.0 and 1.0",
        ),
        ("numeric", {"lower": 0, "upper": "x"}, TypeError, "upper .* be a number"),
        ("numeric", {"lower": 0, "upper": np.inf}, ValueError, "upper .* be finite"),
        ("numeric", {"cut_points": [1, np.nan]}, ValueError, "cut point .* be finite"),
        ("numeric", {"cut_points": [2, 1]}, ValueError, "be strictly increasing; sort"),
        ("numeric", {"cut_points": [1, 1]}, ValueError, "be strictly increasing; sort"),
        ("numeric", {"cut_points": 5}, TypeError, "cut_points .* must be a sequence"),
        (
            "numeric",
            {"lower": 0, "upper": 2, "cut_points": [2]},
            ValueError,
            "must lie inside its bounds 0 to 2",
        ),
        (
            "numeric",
            {"lower": 0, "upper": 2, "cut_points": [-1]},
            ValueError,
            "must lie inside its bounds 0 to 2",
        ),
        (
            "numeric",
            {"cut_points": [1], "n_bins": 3},
            ValueError,
            "has 1 cut points, so 2 bins, but n_bins is 3",
        ),
        (
            "numeric",
            {"lower": 1.0, "upper": 1.0 + 1e-15},
            ValueError,
            "bounds too close for 10 bins",
        ),
        (
            "numeric",
            {"cut_points": [1], "categories": ["x"]},
            ValueError,
            "has 2 bins but 1 categories; name every bin or none",
        ),
        (
            "numeric",
            {"cut_points": [1], "categories": ["x", "y"], "other": "x"},
            ValueError,
            "must be distinct",
        ),
        (
            "numeric",
            {"cut_points": [1], "groups": {}},
            ValueError,
            "is numeric and takes no groups or value_map",
        ),
        (
            "numeric",
            {"lower": 0, "upper": 1, "n_bins": 0},
            ValueError,
            "n_bins of attribute 'a' must be an integer >= 1, got 0",
        ),
        ("numeric", {"cut_points": [1], "other": 3}, TypeError, "other .* be a string"),
    ],
)
def test_attribute_errors(kind, options, error, message):
    with pytest.raises(error, match=message):
        Attribute("a", kind, **options)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", ValueError, "name of an attribute must not be empty"),
        (3, TypeError, "name of an attribute must be a string, got int"),
    ],
)
def test_attribute_name_errors(name, error, message):
    with pytest.raises(error, match=message):
        Attribute.categorical(name, ["x"])


@pytest.mark.parametrize(
    ("attributes", "labels", "options", "error", "message"),
    [
        ([], ["a", "b"], {}, ValueError, "at least one attribute, got none"),
        (["x"], ["a", "b"], {}, TypeError, "must be Attribute objects, got str"),
        ([AGE, AGE], ["a", "b"], {}, ValueError, "name 'age' occurs twice"),
        ([AGE], [], {}, ValueError, r"\(the classes\) must list at least 2, got 0"),
        ([AGE], ["a"], {}, ValueError, r"\(the classes\) must list at least 2, got 1"),
        ([AGE], ["a", "a"], {}, ValueError, "class_labels .* must be distinct"),
        ([AGE], "ab", {}, TypeError, "class_labels .* must be a sequence, got str"),
        ([AGE], ["a", None], {}, TypeError, "class_labels .* got NoneType"),
        ([AGE], ["a", "b"], {"target": "age"}, ValueError, "'age' occurs twice"),
        ([AGE], ["a", "b"], {"target": 1}, TypeError, "target must be a string"),
        ([AGE], ["a", "b"], {"name": 1}, TypeError, "name must be a string"),
        ([AGE], ["a", "b"], {"required": ["age"]}, ValueError, "'age' occurs twice"),
        ([AGE], ["a", "b"], {"required": [1]}, TypeError, "name in required must be"),
        ([AGE], ["a", "b"], {"required": "sex"}, TypeError, "required must be a seq"),
    ],
)
def test_schema_errors(attributes, labels, options, error, message):
    with pytest.raises(error, match=message):
        Schema(attributes, labels, **options)


def test_select():
    assert TOY.select([2, "colour"]).feature_names == ("age", "colour")
    assert TOY.select(np.array([1])).domain_shape == (2,)
    assert TOY.select([0]).class_labels == TOY.class_labels
    assert TOY.select([0]).name == "toy"


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (["weight"], ValueError, "no attribute 'weight'; choose from colour, size"),
        ([3], ValueError, "must be below 3, the number of attributes, got 3"),
        ([-1], ValueError, "a selected feature must be an integer >= 0, got -1"),
        ([1.5], TypeError, "a selected feature must be an integer"),
        ("age", TypeError, "features must be a sequence, got str"),
        ([0, "colour"], ValueError, "'colour' occurs twice"),
        ([], ValueError, "at least one attribute"),
    ],
)
def test_select_errors(features, error, message):
    with pytest.raises(error, match=message):
        TOY.select(features)


def test_display():
    assert repr(TOY) == (
        "Schema('toy', domain_shape=(3, 2, 4), n_cells=24, class_labels=('no', 'yes'))"
    )
    lines = str(TOY).splitlines()
    assert lines[1].split() == ["colour", "categorical", "3", "red,", "green,", "?"]
    assert lines[-1].split() == ["class", "classes", "2", "no,", "yes"]
    assert repr(Schema([SIZE], [0, 1])).startswith("Schema(domain_shape=(2,), ")
    assert eval(repr(AGE)) == AGE
    assert "..." in str(Schema([Attribute.categorical("a", range(99))], [0, 1]))


# -------------------------------------------------------------------- matching


@pytest.mark.parametrize(
    ("categories", "value", "code"),
    [
        (["low", "med"], "med", 1),
        (["low", "med"], np.str_("med"), 1),
        (["false", "true"], True, 1),
        (["False", "True"], np.False_, 0),
        ([False, True], "true", 1),
        ([False, True], "False", 0),
        ([False, True], 1, 1),
        (["0", "1"], True, 1),
        (["0", "1"], 1, 1),
        (["0", "1"], 1.0, 1),
        (["0", "1"], -0.0, 0),
        (["0", "1"], np.int8(1), 1),
        (["0", "1"], np.float32(1), 1),
        ([0, 1], "1", 1),
        ([0.0, 1.0], "1", 1),
        ([0.0, 1.0], "1.0", 1),
        ([0.1, 0.2], np.float32(0.2), 1),
        (["0.1", "0.2"], 0.2, 1),
        (["0.1", "0.2"], Decimal("0.2"), 1),
        (["-1", "1"], -1, 0),
        ([10**30, 1], str(10**30), 0),
        (["None", "x"], "None", 0),
        (["x", "?"], "", 1),
        (["x", "?"], None, 1),
        (["x", "?"], np.nan, 1),
        (["x", "?"], "?", 1),
        (["x", "?"], pd.NA, 1),
        (["x", "?"], pd.NaT, 1),
        (["x", "?"], Decimal("nan"), 1),
        (["x", "?"], np.datetime64("nat"), 1),
    ],
)
def test_values_match_by_equality_then_as_text(categories, value, code):
    assert one(Attribute.categorical("a", categories), value) == code


@pytest.mark.parametrize("value", ["Low", " low", "lo", 0, True, b"low", ["low"], {}])
def test_values_that_match_nothing(value):
    with pytest.raises(ValueError, match="a value outside the domain"):
        one(Attribute.categorical("a", ["low", "med"]), value)


@pytest.mark.parametrize("value", [None, np.nan, pd.NA, "", "  ", "?"])
def test_missing_values_never_match_text(value):
    attribute = Attribute.categorical("a", ["None", "nan", "<NA>"])
    with pytest.raises(ValueError, match="missing value"):
        one(attribute, value)


def test_groups_map_raw_values_then_their_own_names():
    attribute = Attribute.categorical(
        "work", ["Public", "Private"], groups={"Public": ["State", "City", 7]}
    )
    column = [["State"], ["City"], ["7"], ["Public"], ["Private"]]
    codes = Schema([attribute], [0, 1]).encode(column)
    assert codes.ravel().tolist() == [0, 0, 0, 0, 1]


def test_group_members_win_over_names_of_groups():
    attribute = Attribute.categorical("a", ["x", "y"], groups={"x": ["y"], "y": ["x"]})
    assert one(attribute, "y") == 0
    assert one(attribute, "x") == 1


def test_value_map_is_read_as_text_and_strict():
    attribute = Attribute.categorical(
        "thal", ["0", "1", "2", "?"], value_map={"3": 0, "6": 1, "7": 2}
    )
    assert [one(attribute, v) for v in ("3", 6, 7.0, None)] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="a value outside the domain"):
        one(attribute, "0")


@pytest.mark.parametrize(
    ("value", "code"),
    [(0, 0), (25, 0), (25.000001, 1), ("50", 1), (True, 0), (Decimal(75), 2), (100, 3)],
)
def test_bins_are_closed_on_the_right(value, code):
    assert one(AGE, value) == code


def test_without_bounds_every_finite_number_is_known():
    attribute = Attribute.numeric("a", cut_points=[0])
    assert one(attribute, -1e300) == 0
    assert one(attribute, 1e300) == 1
    with pytest.raises(ValueError, match=r"outside the bounds .* or infinity"):
        one(attribute, np.inf)


MIXED = st.sampled_from(
    [
        *(0, 1, 0.0, -0.0, 1.0, True, False, "0", "1", "true", "x", "", None, np.nan),
        *(np.True_, np.int64(1), np.float32(0), Decimal(1), Decimal("1.0"), pd.NA),
    ]
)


@given(
    st.lists(MIXED, min_size=1, max_size=12),
    st.sampled_from([("0", "1"), ("false", "true"), (True, "x"), ("1.0", "?")]),
)
def test_a_value_is_read_the_same_whatever_stands_beside_it(values, categories):
    attribute = Attribute.categorical("a", [*categories, "rest"], other="rest")
    schema = Schema([attribute], [0, 1])
    options = {"handle_unknown": "category", "handle_missing": "category"}
    together = schema.encode([[value] for value in values], **options)
    alone = [schema.encode([[value]], **options)[0, 0] for value in values]
    assert together[:, 0].tolist() == alone


@given(st.lists(st.one_of(MIXED, st.floats(), st.just("1e3")), min_size=1, max_size=9))
def test_a_number_is_read_the_same_whatever_stands_beside_it(values):
    attribute = Attribute.numeric("a", lower=0, upper=9, n_bins=3, other="rest")
    schema = Schema([attribute], [0, 1])
    options = {"handle_unknown": "category", "handle_missing": "category"}
    together = schema.encode([[value] for value in values], **options)
    alone = [schema.encode([[value]], **options)[0, 0] for value in values]
    assert together[:, 0].tolist() == alone


# -------------------------------------------------------------------- encoding

ROWS = [["red", "big", 30], ["green", "small", 99.5], [None, "big", 0]]
CODES = [[0, 1, 1], [1, 0, 3], [2, 1, 0]]


def frame():
    return pd.DataFrame(ROWS, columns=["colour", "size", "age"])


@pytest.mark.parametrize(
    "X",
    [
        ROWS,
        [tuple(row) for row in ROWS],
        tuple(ROWS),
        np.array(ROWS, dtype=object),
        np.array([["red", "big", "30"], ["green", "small", "99.5"], ["", "big", "0"]]),
        [np.array(row, dtype=object) for row in ROWS],
        frame(),
        frame()[["age", "colour", "size"]].assign(extra=1),
        frame().astype({"colour": "category", "age": "Float64"}),
        frame().to_dict("records"),
        [*frame().to_dict("records")[:2], {"size": "big", "age": 0}],
    ],
)
def test_tables_of_every_kind(X):
    codes = TOY.encode(X)
    assert codes.tolist() == CODES
    assert codes.dtype == np.int64
    assert codes.flags.c_contiguous


@pytest.mark.parametrize(
    "dtype", [np.int64, np.uint8, np.float32, np.float64, bool, object, str, "S1"]
)
def test_arrays_of_every_dtype(dtype):
    X = np.array([[0, 1], [1, 0]])
    X = X.astype(str if dtype == "S1" else object).astype(dtype)
    schema = Schema([Attribute.categorical(n, ["0", "1"]) for n in "ab"], [0, 1])
    assert schema.encode(X).tolist() == [[0, 1], [1, 0]]


def test_frames_match_columns_by_name_as_text():
    schema = Schema([Attribute.categorical(n, ["a", "b"]) for n in "01"], [0, 1])
    assert schema.encode(pd.DataFrame({1: ["b"], 0: ["a"]})).tolist() == [[0, 1]]


def test_other_frames_are_recognised_by_their_columns():
    class Column(list):
        def to_numpy(self):
            return np.array(self)

    class Frame(dict):
        columns = property(dict.keys)

        def __len__(self):
            return 2

    X = Frame(size=Column(["big", "small"]), age=Column([1, 2]), colour=["red", "red"])
    assert TOY.encode(X).tolist() == [[0, 1, 0], [0, 0, 0]]


def test_repeated_columns_matter_only_where_they_are_read():
    X = pd.concat([frame(), frame()[["size"]]], axis=1)
    with pytest.raises(ValueError, match="X has 2 columns named 'size'"):
        TOY.encode(X)
    assert TOY.select(["age", "colour"]).encode(X)[:, 0].tolist() == [1, 3, 0]


def test_columns_name_those_of_arrays():
    X = np.array(ROWS, dtype=object)[:, ::-1]
    names = ["age", "size", "colour"]
    assert TOY.encode(X, columns=names).tolist() == CODES
    assert TOY.encode(X.tolist(), columns=names).tolist() == CODES


@pytest.mark.parametrize("X", [[], np.empty((0, 3)), frame()[:0]])
def test_no_records(X):
    assert TOY.encode(X).shape == (0, 3)
    codes, labels = TOY.encode(X, [])
    assert codes.shape == (0, 3)
    assert labels.shape == (0,)


def test_classes_of_any_type():
    schema = Schema([SIZE], [-1, 1])
    for y in ([1, -1], (1.0, -1.0), np.array(["1", "-1"]), pd.Series([1, -1])):
        assert schema.encode([["big"], ["big"]], y)[1].tolist() == [1, 0]
    assert schema.encode_target([]).tolist() == []
    booleans = Schema([SIZE], [False, True])
    assert booleans.encode_target(["true", False, np.True_, 0]).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(["a", "b"], "U"), ([-1, 1], "i"), ([0.5, 1.5], "f"), ([False, True], "b")],
)
def test_decode_target_keeps_the_type_of_labels(labels, kind):
    decoded = Schema([SIZE], labels).decode_target([1, 0])
    assert decoded.dtype.kind == kind
    assert decoded.tolist() == labels[::-1]


def test_decode_target_of_mixed_labels():
    assert Schema([SIZE], [0, "b"]).decode_target([1, 0]).tolist() == ["b", 0]


def test_decode():
    assert TOY.decode(CODES).tolist() == [
        ["red", "big", "(25, 50]"],
        ["green", "small", "(75, 100]"],
        ["?", "big", "[0, 25]"],
    ]
    assert TOY.decode([0, 1, 3]).tolist() == ["red", "big", "(75, 100]"]
    assert TOY.decode(np.empty((0, 3), dtype=int)).shape == (0, 3)


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        ([[0, 2, 0]], ValueError, "codes of attribute 'size' must be at least 0 and"),
        ([[0, -1, 0]], ValueError, "codes of attribute 'size' .* below 2"),
        ([[0, 1]], ValueError, r"shape \(N, 3\) or \(3,\), got \(1, 2\)"),
        ([[0.0, 1, 1]], TypeError, "codes must be integers, got dtype float64"),
    ],
)
def test_decode_errors(codes, error, message):
    with pytest.raises(error, match=message):
        TOY.decode(codes)


def test_decode_target_errors():
    with pytest.raises(ValueError, match="class codes must be at least 0 and below 2"):
        TOY.decode_target([2])


class Sparse:
    """Stands for a sparse matrix."""

    shape = (1, 3)

    def toarray(self):
        return np.zeros(self.shape)


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        ([["red", "big"]], {}, ValueError, "X has 2 columns but the schema has 3 attr"),
        (["red"], {}, ValueError, r"must be two-dimensional.* got shape \(1,\)"),
        ([1, 2], {}, ValueError, r"must be two-dimensional.* got shape \(2,\)"),
        (np.zeros(3), {}, ValueError, r"got shape \(3,\); reshape it, or wrap"),
        (np.zeros((1, 1, 3)), {}, ValueError, "must be two-dimensional"),
        (np.zeros((1, 3), complex), {}, ValueError, "Complex data not supported"),
        ([["red", "big", 1], ["red"]], {}, ValueError, "row 1 of X has 1 values but"),
        (frame().drop(columns="age"), {}, ValueError, "X has no column named 'age'"),
        ([{"colour": "red"}], {}, ValueError, "X has no column named 'size'"),
        ([{"age": 1}, ["red"]], {}, TypeError, "must be a dict when one is, got list"),
        ({"age": [1]}, {}, TypeError, "X must be a frame, an array or a list of rows"),
        ("red", {}, TypeError, "X must be a frame, .* got str; wrap a single record"),
        (Sparse(), {}, TypeError, "X must be dense, got a sparse matrix"),
        (ROWS, {"columns": ["age"]}, ValueError, "columns has 1 names but X has 3"),
        (frame(), {"columns": ["age"]}, ValueError, "got a frame, which names its own"),
        ([{"age": 1}], {"columns": ["age"]}, ValueError, "rows that are dicts, which"),
        (ROWS, {"handle_unknown": "ignore"}, ValueError, "handle_unknown must be one"),
        (ROWS, {"handle_missing": "clip"}, ValueError, "handle_missing must be one of"),
        (ROWS, {"handle_unknown": "drop"}, ValueError, "'drop' needs y, because every"),
        (ROWS, {"handle_missing": "drop"}, ValueError, "'drop' needs y, because every"),
        (ROWS, {"return_index": True}, ValueError, "return_index=True needs y"),
    ],
)
def test_encode_errors(X, options, error, message):
    with pytest.raises(error, match=message):
        TOY.encode(X, **options)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["no"], "X has 3 rows but y has 1 labels"),
        (["no", "maybe", "yes"], "row 1 of y holds a label that is not one of the cl"),
        (["no", "yes", None], "row 2 of y holds a missing value"),
        ([[0], [1], [1]], "row 0 of y holds a label that is not"),
        (np.zeros((3, 1)), r"y must be one-dimensional.* got shape \(3, 1\)"),
    ],
)
def test_target_errors(y, message):
    with pytest.raises(ValueError, match=message):
        TOY.encode(ROWS, y)


# ------------------------------------------------- unknown and missing values


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size", "secret", "row 1, column 'size' of X holds a value outside the domai"),
        ("age", "secret", "row 1, column 'age' of X holds a value outside the domain"),
        ("age", 123.25, "row 1, column 'age' of X holds a number outside the bounds"),
        ("age", -np.inf, "row 1, column 'age' of X holds a number .* or infinity; "),
        ("size", "", r"row 1, column 'size' of X holds a missing value \(empty, None"),
        ("age", np.nan, "row 1, column 'age' of X holds a missing value .* NaN"),
        ("age", "", "row 1, column 'age' of X holds a missing value"),
        ("age", 10**400, "row 1, column 'age' of X holds a value outside"),
        ("age", [1], "row 1, column 'age' of X holds a value outside"),
    ],
)
def test_default_errors_name_the_place_but_not_the_value(column, value, message):
    X = frame().astype(object)
    X.at[1, column] = value
    with pytest.raises(ValueError, match=message) as caught:
        TOY.encode(X)
    assert "secret" not in str(caught.value)
    assert "123" not in str(caught.value)
    assert re.search("handle_(unknown|missing)=", str(caught.value))


def test_category_uses_the_designated_cell():
    schema = Schema(
        [
            Attribute.categorical("a", ["x", "rest"], other="rest"),
            Attribute.categorical("b", ["x", "?"]),
            Attribute.numeric("n", lower=0, upper=1, n_bins=2, other="none"),
        ],
        [0, 1],
    )
    assert schema.domain_shape == (2, 2, 3)
    assert [attribute.other_code for attribute in schema.attributes] == [1, 1, 2]
    options = {"handle_unknown": "category", "handle_missing": "category"}
    X = [["x", "x", 1], ["y", "y", 2], [None, None, None], ["y", "x", "text"]]
    expected = [[0, 0, 1], [1, 1, 2], [1, 1, 2], [1, 0, 2]]
    assert schema.encode(X, **options).tolist() == expected


def test_the_other_cell_is_not_reached_by_default():
    attribute = Attribute.categorical("a", ["x", "rest"], other="rest")
    with pytest.raises(ValueError, match="a value outside the domain"):
        one(attribute, "y")
    with pytest.raises(ValueError, match="a missing value"):
        one(attribute, None)


def test_category_needs_a_declared_cell():
    with pytest.raises(ValueError, match="and no attribute of this schema declares"):
        one(SIZE, "big", handle_missing="category")
    with pytest.raises(ValueError, match="declares no category for it: add '\\?'"):
        TOY.encode([["red", "huge", 1]], handle_unknown="category")


@pytest.mark.parametrize(("other", "code"), [("red", 0), ("?", 1)])
def test_unknown_goes_to_other_and_missing_to_the_question_mark(other, code):
    attribute = Attribute.categorical("a", ["red", "?"], other=other)
    assert one(attribute, None, handle_missing="category") == 1
    assert one(attribute, "blue", handle_unknown="category") == code


def test_clip_moves_numbers_and_nothing_else():
    assert one(AGE, -5, handle_unknown="clip") == 0
    assert one(AGE, "1e9", handle_unknown="clip") == 3
    assert one(AGE, np.inf, handle_unknown="clip") == 3
    with pytest.raises(ValueError, match="a value outside the domain"):
        one(AGE, "old", handle_unknown="clip")
    with pytest.raises(ValueError, match="a missing value"):
        one(AGE, None, handle_unknown="clip")
    with pytest.raises(ValueError, match="a value outside the domain"):
        one(SIZE, "huge", handle_unknown="clip")


def test_drop_leaves_records_out():
    X = [["red", "big", 1], ["red", "huge", 1], ["red", "big", None], ["?", "big", 101]]
    y = ["yes", "no", "yes", "no"]
    with pytest.raises(ValueError, match="row 2, column 'age'"):
        TOY.encode(X, y, handle_unknown="drop")
    codes, labels, index = TOY.encode(
        X, y, handle_unknown="drop", handle_missing="drop", return_index=True
    )
    assert codes.tolist() == [[0, 1, 0]]
    assert codes.flags.c_contiguous
    assert labels.tolist() == [1]
    assert index.tolist() == [0]
    assert index.dtype == np.int64


def test_labels_of_dropped_records_are_checked():
    with pytest.raises(ValueError, match="row 0 of y"):
        TOY.encode([["red", "huge", 1]], ["maybe"], handle_unknown="drop")


REQUIRED = Schema([SIZE], [0, 1], required=["weight"])


def test_required_columns_make_records_incomplete():
    X = pd.DataFrame({"weight": [1, None, 3], "size": ["big", "big", None]})
    y = [0, 1, 1]
    with pytest.raises(ValueError, match="row 2, column 'size' of X holds a missing"):
        REQUIRED.encode(X, y)
    with pytest.raises(ValueError, match="row 1, column 'weight' of X holds a missing"):
        REQUIRED.encode(X[:2], y[:2])
    codes, _, index = REQUIRED.encode(X, y, handle_missing="drop", return_index=True)
    assert codes.tolist() == [[1]]
    assert index.tolist() == [0]
    assert REQUIRED.encode(X[:2]).tolist() == [[1], [1]]  # queries need an answer


def test_required_columns_of_arrays_follow_the_attributes():
    X = [["big", 1], ["big", ""]]
    options = {"handle_missing": "drop"}
    assert REQUIRED.encode(X, [0, 1], **options)[0].tolist() == [[1]]
    assert REQUIRED.encode(X).tolist() == [[1], [1]]
    assert REQUIRED.encode([["big"]]).tolist() == [[1]]
    named = REQUIRED.encode(
        [row[::-1] for row in X], [0, 1], columns=["weight", "size"], **options
    )
    assert named[0].tolist() == [[1]]
    with pytest.raises(ValueError, match="also requires the columns weight"):
        REQUIRED.encode([["big"]], [0])
    with pytest.raises(ValueError, match="X has no column named 'weight'"):
        REQUIRED.encode(pd.DataFrame({"size": ["big"]}), [0])


def test_required_columns_do_not_matter_where_missing_is_a_category():
    schema = Schema([COLOUR], [0, 1], required=["weight"])
    options = {"handle_missing": "category"}
    assert schema.encode([["red"]], [0], **options)[0].tolist() == [[0]]


@given(st.data())
def test_removing_a_record_leaves_the_codes_of_the_others(data):
    cell = st.sampled_from(["red", "blue", "", None, 1, 50, 1e9, "big", "small", "?"])
    rows = data.draw(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=6))
    labels = data.draw(
        st.lists(st.sampled_from(["no", "yes"]), min_size=len(rows), max_size=len(rows))
    )
    gone = data.draw(st.integers(0, len(rows) - 1))
    options = {
        "handle_unknown": "drop",
        "handle_missing": "drop",
        "return_index": True,
    }
    codes, classes, index = TOY.encode(rows, labels, **options)
    fewer = TOY.encode(
        rows[:gone] + rows[gone + 1 :], labels[:gone] + labels[gone + 1 :], **options
    )
    stay = index != gone
    assert fewer[0].tolist() == codes[stay].tolist()
    assert fewer[1].tolist() == classes[stay].tolist()
    assert fewer[2].tolist() == [i - (i > gone) for i in index[stay]]


# ----------------------------------------------------------------------- files

WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="?"), min_size=1, max_size=5
).filter(str.strip)
SCALARS = st.one_of(
    WORDS, st.booleans(), st.integers(-9, 9), st.floats(-9, 9).filter(bool)
)
CATEGORIES = st.lists(SCALARS, min_size=2, max_size=5, unique_by=(str, lambda v: v))


@st.composite
def attributes(draw, name):
    if draw(st.booleans()):
        categories = draw(CATEGORIES)
        options = {}
        if draw(st.booleans()):
            options["other"] = draw(
                st.sampled_from([c for c in categories if isinstance(c, str)] or [None])
            )
        if draw(st.booleans()):
            options["groups"] = {categories[0]: ["raw 1", 17.5]}
        if draw(st.booleans()):
            options["value_map"] = {"raw 2": categories[1], 99: categories[0]}
        kind = draw(st.sampled_from(["categorical", "ordinal"]))
        return Attribute(name, kind, categories, **options)
    cuts = draw(st.lists(st.floats(-1e6, 1e6), unique=True, max_size=4).map(sorted))
    cuts = [c + 0.0 for c in cuts]
    options = {"other": draw(st.sampled_from([None, "none"]))}
    if draw(st.booleans()) or not cuts:
        options |= {"lower": -2e6, "upper": draw(st.floats(2e6, 1e9))}
    if cuts and draw(st.booleans()):
        options["categories"] = [f"bin {k}" for k in range(len(cuts) + 1)]
    if not cuts:
        options["n_bins"] = draw(st.integers(1, 7))
    return Attribute.numeric(name, cut_points=cuts, **options)


@st.composite
def schemas(draw):
    d = draw(st.integers(1, 4))
    return Schema(
        [draw(attributes(f"a{j}")) for j in range(d)],
        draw(CATEGORIES),
        target=draw(st.sampled_from(["class", "y"])),
        name=draw(st.sampled_from([None, "toy"])),
        required=draw(st.sampled_from([(), ("r", "s")])),
    )


@given(schemas())
def test_json_round_trip(schema):
    assert Schema.from_json(schema.to_json()) == schema


@given(schemas(), st.data())
def test_decode_then_encode_is_the_identity(schema, data):
    invertible = [
        j
        for j, attribute in enumerate(schema.attributes)
        if attribute.kind != "numeric" and attribute.value_map is None
    ]
    if not invertible:
        return
    schema = schema.select(invertible)
    codes = [data.draw(st.integers(0, size - 1)) for size in schema.domain_shape]
    assert schema.encode([schema.decode(codes)]).tolist() == [codes]
    labels = schema.decode_target([0, schema.n_classes - 1])
    assert schema.encode_target(labels).tolist() == [0, schema.n_classes - 1]


@given(schemas(), st.data())
def test_every_known_value_gets_a_code_inside_the_domain(schema, data):
    for attribute in schema.attributes:
        if attribute.kind == "numeric":
            bounds = (-2e6, attribute.upper or 1e9)
            value = data.draw(st.floats(*bounds))
            code = one(attribute, value)
            assert 0 <= code <= len(attribute.cut_points)
            assert code == sum(value > cut for cut in attribute.cut_points)


def test_sources_of_json(tmp_path):
    text = TOY.to_json()
    path = tmp_path / "toy.json"
    assert TOY.to_json(path) is None
    with open(path, "rb") as stream:
        assert Schema.from_json(stream) == TOY
    for source in (path, str(path), text, io.StringIO(text), json.loads(text)):
        assert Schema.from_json(source) == TOY


def test_json_keeps_types_and_letters():
    attribute = Attribute.categorical(
        "größe", ["ß", True, 2, 2.5], groups={2: [7, "z"]}
    )
    schema = Schema([attribute], [-1, 1])
    text = schema.to_json()
    assert "größe" in text
    twin = Schema.from_json(text)
    assert [type(c) for c in twin.attributes[0].categories] == [str, bool, int, float]
    assert twin.attributes[0].groups == {2: (7, "z")}


FEATURES = {
    "name": "toy",
    "features": [
        {"name": "a", "type": "categorical", "categories": ["x", "y"]},
        {"name": "b", "type": "categorical", "categories": ["1"], "ordered": True},
        {"name": "n", "type": "numeric", "lower": 0, "upper": 1, "integer": True},
    ],
    "target": {"name": "label", "categories": ["0", "1"]},
}
MRF = {
    "attributes": [
        {"name": "n", "type": "numeric", "cutoffs": [1], "categories": ["lo", "hi"]},
        {"name": "late", "type": "categorical", "categories": ["x"]},
        {"name": "unused", "type": "categorical", "categories": ["x"]},
        {"name": "class", "type": "categorical", "categories": ["0", "1"]},
    ],
    "target": "class",
    "dropped_after": ["late"],
    "not_used": ["unused", "never"],
}


def test_files_with_features():
    schema = Schema.from_json(FEATURES)
    assert [a.kind for a in schema.attributes] == ["categorical", "ordinal", "numeric"]
    assert schema.domain_shape == (2, 1, 10)
    assert (schema.name, schema.target) == ("toy", "label")
    assert Schema.from_json(FEATURES, n_bins=3).domain_shape == (2, 1, 3)


def test_files_of_the_paper():
    schema = Schema.from_json(MRF)
    assert schema.feature_names == ("n",)
    assert schema.required == ("late",)
    assert schema.class_labels == ("0", "1")
    assert schema.decode([[1]]).tolist() == [["hi"]]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("{", ValueError, "the schema is not valid JSON"),
        (io.StringIO("[]"), ValueError, "must be a JSON object, got list"),
        (3, TypeError, "from a path, an open file, a JSON text or a dict, got int"),
        ({}, ValueError, "of no known kind: it needs 'format'"),
        (
            {"format": "mmech-schema", "version": 2},
            ValueError,
            "must have format 'mmech-schema' version 1, got 'mmech-schema' version 2",
        ),
        ({"format": "mmech-schema"}, ValueError, "malformed near 'version'"),
        ({"features": []}, ValueError, "malformed near 'target'"),
        (FEATURES | {"features": []}, ValueError, "at least one attribute"),
        (FEATURES | {"features": [{"name": "a"}]}, ValueError, "malformed near 'type'"),
        (FEATURES | {"features": 3}, ValueError, "malformed"),
        (FEATURES | {"target": "class"}, ValueError, "malformed"),
        (
            FEATURES | {"target": {"name": "c", "categories": []}},
            ValueError,
            "class_labels",
        ),
        (MRF | {"target": "income"}, ValueError, "target 'income' but has no attribu"),
        (
            {
                "format": "mmech-schema",
                "version": 1,
                "target": {"name": "c", "labels": [0, 1]},
                "attributes": [{"name": "a", "kind": "ordinal", "size": 3}],
            },
            ValueError,
            "the schema is malformed: .*size",
        ),
    ],
)
def test_from_json_errors(source, error, message):
    with pytest.raises(error, match=message):
        Schema.from_json(source)


def test_missing_files_are_reported_as_such(tmp_path):
    with pytest.raises(FileNotFoundError):
        Schema.from_json(tmp_path / "none.json")


# ------------------------------------------------------- the published schemas


@needs_data
@pytest.mark.parametrize("file", SCHEMA_FILES)
def test_published_schemas_load_and_encode_their_data(file):
    schema = Schema.from_json(Path(DATA_DIR) / file)
    document = json.loads((Path(DATA_DIR) / file).read_text())
    X = read_frame(schema.name)
    y = X["class"]
    if "n_rows" in document:
        assert len(X) == document["n_rows"]
    if "shape" in document:
        sizes = dict(
            zip(
                (entry["name"] for entry in document["attributes"]),
                document["shape"],
                strict=True,
            )
        )
        assert schema.domain_shape == tuple(sizes[n] for n in schema.feature_names)
        assert schema.n_classes == sizes["class"]
    complete = not (X[[*schema.feature_names, *schema.required]] == "").any(axis=None)
    mode = "error" if complete or schema.name == "mushroom" else "drop"
    if file == "mushroom.schema.json":
        mode = "drop"
    codes, labels = schema.encode(X, y, handle_missing=mode)
    assert codes.shape[1] == schema.n_features
    assert ((codes >= 0) & (codes < np.array(schema.domain_shape))).all()
    assert len(np.unique(labels)) == schema.n_classes
    if mode == "error":
        assert len(codes) == len(X)
    assert Schema.from_json(schema.to_json()) == schema


@needs_data
def test_adult_repeats_the_preprocessing_of_the_paper():
    schema = Schema.from_json(Path(DATA_DIR) / "adult.mrf_schema.json")
    assert schema.domain_shape == (4, 4, 7, 5, 6, 5, 2, 5)
    assert schema.n_cells == 168_000
    X = read_frame("adult")
    assert len(X) == 48_842
    codes, labels = schema.encode(X, X["class"], handle_missing="drop")
    assert codes.shape == (45_222, 8)
    assert labels.shape == (45_222,)
    with pytest.raises(ValueError, match="missing value"):
        schema.encode(X, X["class"])


@needs_data
def test_adult_raw_schema_with_a_cell_for_missing_values():
    schema = Schema.from_json(Path(DATA_DIR) / "adult.schema.json")
    X = read_frame("adult")
    with pytest.raises(ValueError, match="column 'workclass' of X holds a missing"):
        schema.encode(X)
    document = json.loads(schema.to_json())
    for entry in document["attributes"]:
        if entry["kind"] == "categorical":
            entry["categories"].append("?")
    wider = Schema.from_json(document)
    codes = wider.encode(X)
    column = wider.feature_names.index("workclass")
    assert (codes[:, column] == wider.domain_shape[column] - 1).sum() == 2799


@needs_data
def test_mushroom_question_marks_are_empty_fields():
    schema = Schema.from_json(Path(DATA_DIR) / "mushroom.mrf_schema.json")
    X = read_frame("mushroom")
    codes = schema.encode(X)
    column = schema.feature_names.index("stalk-root")
    mark = schema.attributes[column].categories.index("?")
    assert (codes[:, column] == mark).sum() == 2480
    marked = X.replace({"stalk-root": {"": "?"}})
    assert (schema.encode(marked) == codes).all()
    raw = Schema.from_json(Path(DATA_DIR) / "mushroom.schema.json")
    kept = raw.encode(X, X["class"], handle_missing="drop")[0]
    assert len(kept) == 8124 - 2480


@needs_data
def test_heart_value_map_gives_the_recoded_multiset():
    schema = Schema.from_json(Path(DATA_DIR) / "heart.mrf_schema.json")
    raw = Schema.from_json(Path(DATA_DIR) / "heart.schema.json")
    X = read_frame("heart")
    recoded = X.copy()
    recoded["cp"] = [str(int(v) - 1) for v in X["cp"]]
    recoded["slope"] = [str(int(v) - 1) for v in X["slope"]]
    recoded["thal"] = [{"3": "0", "6": "1", "7": "2"}[v] for v in X["thal"]]
    plain = Schema(
        [
            Attribute(a.name, a.kind, a.categories, cut_points=a.cut_points)
            for a in schema.attributes
        ],
        schema.class_labels,
    )
    ours, theirs = schema.encode(X), plain.encode(recoded)
    assert Counter(map(tuple, ours)) == Counter(map(tuple, theirs))
    for name in ("cp", "slope", "thal"):
        j = schema.feature_names.index(name)
        assert (ours[:, j] == raw.encode(X)[:, j]).all()


@needs_data
def test_adult_binary_reads_integers_booleans_and_text():
    schema = Schema.from_json(Path(DATA_DIR) / "adult-binary.mrf_schema.json")
    X = read_frame("adult-binary")[:500]
    codes, labels = schema.encode(X, X["class"])
    assert schema.n_cells == 2**123
    integers = X.drop(columns="class").astype(int)
    assert (schema.encode(integers) == codes).all()
    assert (schema.encode(integers.astype(bool)) == codes).all()
    assert (schema.encode(integers.to_numpy(dtype=float)) == codes).all()
    assert (schema.encode_target(X["class"].astype(int)) == labels).all()


@needs_data
def test_tennis_booleans_match_text():
    schema = Schema.from_json(Path(DATA_DIR) / "tennis.schema.json")
    X = read_frame("tennis")
    booleans = X.assign(windy=X["windy"] == "true")
    assert (schema.encode(booleans) == schema.encode(X)).all()


# ------------------------------------------------------------------- inference


def infer(X, y, **options):
    with pytest.warns(PrivacyLeakWarning, match="are read from the data, which voids"):
        return Schema.infer(X, y, **options)


def test_infer_reads_numbers_as_bounds_and_the_rest_as_categories():
    X = pd.DataFrame(
        {
            "n": [1, 2, 5],
            "m": np.array([0.5, 1, 0], dtype=object),
            "b": [True, False, True],
            "s": ["y", "x", None],
        }
    )
    schema = infer(X, [2, 0, 2], n_bins=4, target="t", name="toy")
    n, m, b, s = schema.attributes
    assert (n.kind, n.lower, n.upper, n.size) == ("numeric", 1, 5, 4)
    assert (m.kind, m.lower, m.upper) == ("numeric", 0, 1)
    assert (b.kind, b.categories) == ("categorical", (False, True))
    assert s.categories == ("x", "y", "?")
    assert schema.class_labels == (0, 2)
    assert (schema.target, schema.name) == ("t", "toy")
    assert schema.encode(X).shape == (3, 4)


def test_infer_from_arrays_and_rows():
    X = np.random.default_rng(0).normal(size=(20, 3))
    y = X[:, 0] > 0
    schema = infer(X, y)
    assert schema.feature_names == ("x0", "x1", "x2")
    assert schema.domain_shape == (10, 10, 10)
    assert schema.class_labels == (False, True)
    assert infer(X.tolist(), y.tolist()) == schema
    assert infer(X, y, columns=["a", "b", "c"]).feature_names == ("a", "b", "c")
    assert (schema.encode(X).min(0) == 0).all()
    assert (schema.encode(X).max(0) == 9).all()


@pytest.mark.parametrize("value", [0.0, 5, -3.5, 1e308, -1e308, 1e-320])
def test_infer_from_a_constant_column(value):
    schema = infer([[value], [value]], ["a", "b"])
    assert schema.attributes[0].lower < value < schema.attributes[0].upper
    assert schema.encode([[value]]).shape == (1, 1)


def test_infer_mixed_and_empty_columns():
    schema = infer([["x", None], [1, ""], ["1", None]], ["a", "b", "b"])
    assert schema.attributes[0].categories == (1, "x")
    assert schema.attributes[1].categories == ("?",)
    assert schema.encode([["1", None]]).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("X", "y", "error", "message"),
    [
        ([[1.0], [np.nan]], [0, 1], ValueError, "row 1, column 'x0'.*missing.*NaN"),
        ([[1.0], [None]], [0, 1], ValueError, "row 1, column 'x0'.*missing.*NaN"),
        ([[1.0], [np.inf]], [0, 1], ValueError, "row 1, column 'x0'.*infinity"),
        ([[1.0], [2.0]], [0, 0], ValueError, r"\(the classes\) .* 2, got 1"),
        ([[1.0], [2.0]], [0, np.nan], ValueError, "y holds a missing value"),
        ([[{}], ["x"]], [0, 1], TypeError, "value of type dict, but each must be a st"),
    ],
)
def test_infer_errors(X, y, error, message):
    with pytest.raises(error, match=message):
        infer(X, y)


def test_nothing_else_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TOY.encode(ROWS, ["no", "yes", "no"])
