"""Records to codes and back: tables of any kind, unknown and missing values."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from schema_cases import COLOUR, SIZE, TOY, one

from mmech import Domain, ParameterError
from mmech_rf.schema import Attribute, Schema

# -------------------------------------------------------------------- encoding

ROWS = [["red", "big", 30], ["green", "small", 99.5], [None, "big", 0]]


def frame():
    return pd.DataFrame(ROWS, columns=["colour", "size", "age"])


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
    refused(lambda: TOY.encode(X), "X has 2 columns named 'size'", ValueError)
    assert TOY.select(["age", "colour"]).encode(X)[:, 0].tolist() == [1, 3, 0]


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
        (np.zeros(3), {}, ValueError, r"got shape \(3,\); give X before y"),
        (3, {}, ValueError, "X must be two-dimensional"),
        (np.zeros((1, 3), complex), {}, ValueError, "Complex data not supported"),
        ([["red", "big", 1], ["red"]], {}, ValueError, "row 1 of X has 1 values but"),
        (frame().drop(columns="age"), {}, ValueError, "X has no column named 'age'"),
        ([{"colour": "red"}], {}, ValueError, "X has no column named 'size'"),
        ([{"age": 1}, ["red"]], {}, TypeError, "must be a dict when one is, got list"),
        ({"age": [1]}, {}, ValueError, "X has no column named 'colour'"),
        ("red", {}, TypeError, "X must be a frame, .* got str; wrap a single record"),
        (Sparse(), {}, TypeError, "X must be dense, got a sparse matrix"),
        (ROWS, {"columns": ["age"]}, ValueError, "columns has 1 names but X has 3"),
        (frame(), {"columns": ["age"]}, ValueError, "got a frame, which names its own"),
        ([{"age": 1}], {"columns": ["age"]}, ValueError, "rows that are dicts, which"),
        (ROWS, {"handle_unknown": "ignore"}, ValueError, "handle_unknown must be one"),
        (ROWS, {"handle_missing": "clip"}, ValueError, "handle_missing must be one of"),
        (ROWS, {"handle_unknown": "drop"}, ValueError, "'drop' needs y, because every"),
        (ROWS, {"return_index": True}, ValueError, "return_index=True needs y"),
    ],
)
def test_encode_errors(X, options, error, message):
    refused(lambda: TOY.encode(X, **options), message, error)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: TOY.decode([[0, 2, 0]]), ValueError, "codes of attribute 'size' must"),
        (lambda: TOY.decode([[0, -1, 0]]), ValueError, "attribute 'size' .* below 2"),
        (lambda: TOY.decode([[0, 1]]), ValueError, r"shape \(N, 3\), .* got 2 columns"),
        (
            lambda: TOY.decode([[0.0, 1, 1]]),
            TypeError,
            "must be integers, got dtype",
        ),
        (lambda: TOY.decode_target([2]), ValueError, "class codes must be at least 0"),
        (lambda: TOY.encode(ROWS, [[0]] * 3), ValueError, "row 0 of y holds a label"),
        (
            lambda: TOY.encode(ROWS, np.zeros((3, 1))),
            ValueError,
            "one-dimensional",
        ),
    ],
)
def test_codes_and_labels_that_do_not_fit(call, error, message):
    refused(call, message, error)


# ------------------------------------------------- unknown and missing values


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size", "secret", "row 1, column 'size' of X holds a value outside the domai"),
        ("age", "secret", "row 1, column 'age' of X holds a value that is not a numb"),
        ("age", 123.25, "row 1, column 'age' of X holds a number outside the bounds"),
        ("age", -np.inf, "row 1, column 'age' of X holds a number .* or infinity; "),
        ("size", "", r"row 1, column 'size' of X holds a missing value \(empty, None"),
        ("age", np.nan, "row 1, column 'age' of X holds a missing value .* NaN"),
        ("age", "", "row 1, column 'age' of X holds a missing value"),
        ("age", 10**400, "row 1, column 'age' of X holds a number outside"),
        ("age", "1_000", "row 1, column 'age' of X holds a value that is not a numbe"),
        ("age", [1], "row 1, column 'age' of X holds a value that is not a number"),
    ],
)
def test_errors_name_the_place_but_not_the_value(column, value, message):
    X = frame().astype(object)
    X.at[1, column] = value
    with pytest.raises(ValueError, match=message) as caught:
        TOY.encode(X, handle_unknown="error")
    assert "secret" not in str(caught.value)
    assert "123" not in str(caught.value)
    assert re.search("handle_(unknown|missing)=", str(caught.value))


@pytest.mark.parametrize(("other", "code"), [("red", 0), ("?", 1)])
def test_unknown_goes_to_other_and_missing_to_the_question_mark(other, code):
    attribute = Attribute.categorical("a", ["red", "?"], other=other)
    assert one(attribute, None, handle_missing="category") == 1
    assert one(attribute, "blue", handle_unknown="category") == code


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


@pytest.mark.parametrize(
    ("label", "policy"), [("maybe", "handle_unknown"), (None, "handle_missing")]
)
def test_labels_that_do_not_fit_drop_their_record_only(label, policy):
    X, y = [["red", "big", 1]] * 3, ["yes", label, "no"]
    codes, labels, index = TOY.encode(X, y, **{policy: "drop"}, return_index=True)
    assert codes.shape == (2, 3)
    assert labels.tolist() == [1, 0]
    assert index.tolist() == [0, 2]
    for other in ("error", "category"):
        with pytest.raises(ValueError, match="row 1 of y holds"):
            TOY.encode(X, y, **{policy: other})


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
        st.lists(
            st.sampled_from(["no", "yes", "maybe", None]),
            min_size=len(rows),
            max_size=len(rows),
        )
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


# ------------------------------------------------------------- what does not fit


HELD = {
    "pandas float32": lambda values: pd.DataFrame({"a": pd.Series(values, dtype="f4")}),
    "pandas Float32": lambda values: _pandas(values, "Float32"),
    "pandas Int64": lambda values: _pandas(values, "Int64"),
    "pandas float[pyarrow]": lambda values: _pandas(values, "float[pyarrow]"),
    "pandas int64[pyarrow]": lambda values: _pandas(values, "int64[pyarrow]"),
    "pyarrow float": lambda values: _arrow(values, "float32"),
    "pyarrow int64": lambda values: _arrow(values, "int64"),
    "polars Float32": lambda values: _polars(values, "Float32"),
    "polars Int64": lambda values: _polars(values, "Int64"),
}
"""Columns as libraries hold them, some with a gap."""


def _pandas(values, kind):
    if "pyarrow" in kind:
        pytest.importorskip("pyarrow")
    # From a list with a gap pandas would make floats first.
    column = pd.array([0 if value is None else value for value in values], dtype=kind)
    column[[value is None for value in values]] = None
    return pd.DataFrame({"a": column})


def _arrow(values, kind):
    arrow = pytest.importorskip("pyarrow")
    return arrow.table({"a": arrow.array(values, getattr(arrow, kind)())})


def _polars(values, kind):
    polars = pytest.importorskip("polars")
    return polars.DataFrame({"a": polars.Series(values, dtype=getattr(polars, kind))})


@pytest.mark.parametrize("held", HELD)
def test_a_missing_value_leaves_what_others_mean(held):
    odd = [0.1, 0.7] if "loat" in held else [2**53 + 1, 2**60 + 1]
    domain = Domain([Attribute.categorical("a", [*odd, "?"])])
    assert domain.encode(HELD[held](odd)).ravel().tolist() == [0, 1]
    assert domain.encode(HELD[held]([*odd, None])).ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "X",
    [
        np.ma.array([[30.0], [99.0]], mask=[[False], [True]]),
        np.ma.array([["30"], ["99"]], mask=[[False], [True]]),
        [np.ma.array([30.0]), np.ma.array([99.0], mask=[True])],
    ],
)
def test_what_a_mask_hides_is_missing(X):
    age = Attribute.numeric("age", lower=0, upper=100, n_bins=4, other="none")
    assert Domain([age]).encode(X, handle_missing="category").tolist() == [[1], [4]]
    known = Attribute.categorical("age", [30, 99, "?"])
    assert Domain([known]).encode(X).tolist() == [[0], [2]]
    schema = Schema([known], [30, 99])
    labels = np.ma.array([30, 99], mask=[False, True])
    with pytest.raises(ParameterError, match="row 1 of y holds a missing value"):
        schema.encode(X, labels)


def test_gaps_of_dictionaries_without_negative_indices():
    arrow = pytest.importorskip("pyarrow")
    indices = arrow.array([1, None, 0], arrow.uint8())
    column = arrow.DictionaryArray.from_arrays(indices, arrow.array(["p", "q"]))
    domain = Domain([Attribute.categorical("a", ["p", "q", "?"])])
    assert domain.encode(arrow.table({"a": column})).ravel().tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    "huge",
    [10**400, Fraction(10**400), Decimal("1e400"), "1e400"],
    ids=["int", "Fraction", "Decimal", "str"],
)
def test_numbers_beyond_all_doubles_are_clipped(huge):
    domain = Domain([Attribute.numeric("a", lower=0, upper=10, n_bins=5)])
    assert domain.encode([[huge], [3]], handle_unknown="clip").tolist() == [[4], [1]]
    with pytest.raises(ParameterError, match="a number outside the bounds"):
        domain.encode([[huge]], handle_unknown="error")


def test_a_signalling_nan_is_missing():
    number = Attribute.numeric("a", lower=0, upper=10, n_bins=5, other="none")
    category = Attribute.categorical("b", ["p", "?"])
    rows = [[Decimal("sNaN"), Decimal("sNaN")]]
    codes = Domain([number, category]).encode(rows, handle_missing="category")
    assert codes.tolist() == [[5, 1]]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_are_not_numbers(unit):
    domain = Domain([Attribute.numeric("a", lower=0, upper=10, n_bins=5)])
    dates = np.array([["2020-01-01"]], dtype=f"M8[{unit}]")
    with pytest.raises(
        ParameterError, match="'a' of X holds a value that is not a num"
    ):
        domain.encode(dates, handle_unknown="clip")


@pytest.mark.parametrize("X", [pd.DataFrame(), pd.DataFrame(index=[0, 1])])
def test_a_frame_without_columns(X):
    refused(lambda: TOY.encode(X), "X has no column named 'colour'", ValueError)


@pytest.mark.parametrize("categories", [["4", "5"], [4, 5], [4.0, 5.0], ["4.0", "5.0"]])
@pytest.mark.parametrize("value", ["5", "5.0", 5, 5.0, np.float32(5)])
def test_whole_numbers_may_be_written_as_floats(categories, value):
    """As pandas does where another cell of the column is missing."""
    schema = Schema([Attribute.categorical("a", categories)], categories)
    assert schema.encode([[value]], [value])[0].tolist() == [[1]]
    assert schema.encode_target([value]).tolist() == [1]
    grouped = Attribute.categorical("a", ["few", "many"], groups={"many": categories})
    assert one(grouped, value) == 1


@pytest.mark.parametrize("dtype", ["object", "string[python]", "string[pyarrow]"])
def test_text_of_pandas_reads_the_same_however_it_is_held(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    schema = Schema([Attribute.categorical("a", ["x", "blå", "?"])], ["no", "yes"])
    cells, labels = ["blå", "x", None, "blå"], ["yes", "no", "yes", "no"]
    frame = pd.DataFrame({"a": cells, "class": labels}).astype(dtype)
    codes, classes = schema.encode(frame[1:], frame["class"][1:])
    assert codes.tolist() == [[0], [2], [1]]
    assert classes.tolist() == [0, 1, 0]
    wrong = pd.DataFrame({"a": [*cells, "secret"]}).astype(dtype)
    refused(lambda: schema.encode(wrong), "row 4, column 'a'", ValueError)


def test_texts_that_look_alike_stay_apart():
    attribute = Attribute.categorical("a", ["05", "5", "5.0", "1e+16", "0", "inf"])
    cells = ["05", "5", "5.0", "1e+16", "0", "inf", "10000000000000000", "-0.0", 1e16]
    assert [one(attribute, cell) for cell in cells] == [0, 1, 2, 3, 4, 5, 3, 4, 3]
    for cell in ("5.00", "5.", " 5", "+5", "005"):
        with pytest.raises(ValueError, match="outside the domain"):
            one(attribute, cell)


def test_check_lists_every_cell_that_does_not_fit():
    X = frame().astype(object)
    X.at[0, "size"] = "huge"
    X.at[2, "age"] = 1000
    X.at[2, "size"] = None
    found = TOY.check(X, ["no", "maybe", None], handle_unknown="error")
    assert [(m.row, m.column, m.value) for m in found] == [
        (0, "size", "huge"),
        (1, "class", "maybe"),
        (2, "size", None),
        (2, "age", 1000),
        (2, "class", None),
    ]
    assert TOY.check(X, handle_unknown="drop") == [
        m for m in found if m.column != "class"
    ]
    assert TOY.check(frame(), ["no"] * 3) == []
    assert TOY.check([], []) == []
    kept = TOY.encode(
        *(X, ["no", "maybe", None]), handle_unknown="drop", handle_missing="drop"
    )
    assert len(kept[0]) == len(X) - len({m.row for m in found})


def test_check_looks_at_required_columns_of_records():
    X = pd.DataFrame({"weight": [1, None], "size": ["big", "big"]})
    (misfit,) = REQUIRED.check(X, [0, 1])
    assert misfit[:2] == (1, "weight")
    assert REQUIRED.check(X) == []
