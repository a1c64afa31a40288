"""Records to codes and back: tables of any kind, unknown and missing values."""

import csv
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from schema_cases import COLOUR, SIZE, TOY, one

from mmech import Domain, ParameterError, read
from mmech.domain.parts import read_whole
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
    for labels in (["a", "b"], [-1, 1], [0.5, 1.5], [False, True]):
        decoded = Schema([SIZE], labels).decode_target([1, 0])
        assert decoded.dtype == np.array(labels).dtype
        assert decoded.tolist() == labels[::-1]


# ------------------------------------------------- unknown and missing values


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
    swapped = {"weight": [1, ""], "size": ["big", "big"]}
    named = REQUIRED.encode(swapped, [0, 1], **options)
    assert named[0].tolist() == [[1]]


def test_required_columns_do_not_matter_where_missing_is_a_category():
    schema = Schema([COLOUR], [0, 1], required=["weight"])
    options = {"handle_missing": "category"}
    assert schema.encode([["red"]], [0], **options)[0].tolist() == [[0]]


@given(st.data())
def test_removing_a_record_leaves_the_codes_of_the_others(data):
    cell = st.sampled_from(["red", "blue", "", None, 1, 50, 1e9, "big", "small", "?"])
    label = st.sampled_from(["no", "yes", "maybe", None])
    drawn = data.draw(
        st.lists(st.tuples(cell, cell, cell, label), min_size=1, max_size=6)
    )
    rows, labels = [own[:3] for own in drawn], [own[3] for own in drawn]
    gone = data.draw(st.integers(0, len(rows) - 1))
    options = {"handle_unknown": "drop", "handle_missing": "drop", "return_index": True}
    codes, classes, index = TOY.encode(rows, labels, **options)
    fewer = TOY.encode(
        rows[:gone] + rows[gone + 1 :], labels[:gone] + labels[gone + 1 :], **options
    )
    stay = index != gone
    assert fewer[0].tolist() == codes[stay].tolist()
    assert fewer[1].tolist() == classes[stay].tolist()
    assert fewer[2].tolist() == [i - (i > gone) for i in index[stay]]


# ------------------------------------------------------------- what does not fit


ZONE = "America/New_York"
NIGHT = [datetime(2026, 1, 1, 23, 30), datetime(2026, 1, 2, 0, 30)]
SUMMER = datetime(2026, 7, 1, 23)
ZONED = [time.replace(tzinfo=ZoneInfo(ZONE)) for time in (*NIGHT, SUMMER)]
LARGE = [2**53 + 1, 2**53, 2**53 + 2]
NAMES = ["x", "a name that is longer", "y"]
KINDS = {
    "dates": ([date(2026, 1, 2), date(2025, 12, 31)], "date32", "Date", "object"),
    "booleans": ([True, False], "bool_", "Boolean", "boolean"),
    "bytes": ([7, 0, 200], "uint8", "UInt8", "UInt8"),
    "integers": (LARGE, "int64", "Int64", "Int64"),
    "unsigned": ([2**63 + 1, 2**63], "uint64", "UInt64", "UInt64"),
    "decimals": ([Decimal("1.50"), Decimal("2.25")], "decimal128 9 2", "Decimal 9 2",
        "object"),
    "floats": ([0.1, 2.0], "float64", "Float64", "float64"),
    "short floats": ([0.1, 2.0], "float32", "Float32", "Float32"),
    "text": (NAMES, "string", "String", "object"),
    "categories": (NAMES, "large_string", "Categorical", "category"),
    "a closed list": (NAMES, "string", "Enum", "category"),
}  # fmt: skip
"""Values, and their type in pyarrow, polars and pandas."""

for _unit in ("us", "ns"):
    KINDS |= {
        f"times in {_unit}": (NIGHT, f"timestamp {_unit}", f"Datetime {_unit}",
            f"datetime64[{_unit}]"),
        f"zoned times in {_unit}": (ZONED, f"timestamp {_unit} {ZONE}",
            f"Datetime {_unit} {ZONE}", f"datetime64[{_unit}, {ZONE}]"),
    }  # fmt: skip


def _typed(library, kind):
    name, *arguments = kind.split()
    made = getattr(pytest.importorskip(library), name)
    arguments = [int(a) if a.isdigit() else a for a in arguments]
    return made([*NAMES, "z"]) if name == "Enum" else made(*arguments)


def _in_memory(values, arrow_kind, polars_kind, pandas_kind):
    """Return tables of one column, each with the labels that it holds."""
    arrow, polars = map(pytest.importorskip, ("pyarrow", "polars"))
    objects = np.array([*values, None], dtype=object)[:-1]
    held = arrow.array(values, _typed("pyarrow", arrow_kind))
    parts = [arrow.table({"a": part}) for part in (held[:1], held[1:])]
    column = pd.Series(objects)
    extended = pd.Series(pd.arrays.ArrowExtensionArray(held))
    series = polars.Series("a", values, _typed("polars", polars_kind))
    yield "rows", [[value] for value in values], values
    yield "rows that are dicts", [{"a": value} for value in values], tuple(values)
    for name, table in {
        "dict of lists": {"a": values},
        "dict of arrays": {"a": objects},
        "dict of series": {"a": series},
        "pandas of objects": column.to_frame("a"),
        "pandas": column.astype(pandas_kind).to_frame("a"),
        "pandas of categories": column.astype("category").to_frame("a"),
        "pandas of Arrow": extended.to_frame("a"),
        "polars": series.to_frame(),
        "lazy polars": series.to_frame().lazy(),
        "pyarrow": arrow.table({"a": held}),
        "pyarrow in parts": arrow.concat_tables(parts),
        "pyarrow dictionary": arrow.table({"a": held.dictionary_encode()}),
    }.items():
        yield name, table, table
    for name, array in {
        "array of objects": objects[:, None],
        "array": np.array([[value] for value in values]),
    }.items():
        yield name, array, array[:, 0]


def _on_disk(values, column, folder):
    """Return files of the column and labels, and how each is to be read."""
    frame = column.to_frame().with_columns(column.alias("c"))
    names = ("pyarrow.parquet", "pyarrow.dataset")
    parquet, datasets = map(pytest.importorskip, names)
    parquet.write_table(frame.to_arrow(), folder / "table.parquet")
    rows = [["" if value is None else str(value)] * 2 for value in values]
    with open(folder / "text.csv", "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([["a", "c"], *rows])
    yield from ((path.name, path, {}) for path in sorted(folder.iterdir()))
    yield "csv by lines", folder / "text.csv", {"na": "-"}
    yield "frame in parts", frame, {}
    yield "dataset", datasets.dataset(frame.to_arrow()), {}


WITHOUT_GAPS = ("booleans", "bytes", "integers", "short floats")
"""Kinds that some libraries hold otherwise once a value is missing."""


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("kind", "gap"), [*((k, True) for k in KINDS), *((k, False) for k in WITHOUT_GAPS)]
)
def test_a_value_means_the_same_in_every_container(kind, gap, tmp_path):
    """In tables and in forests, in attributes of every kind and in labels."""
    values, *kinds = KINDS[kind]
    texts = list(map(str, values))
    expected = {Attribute.categorical("a", [*texts, "?"]): range(len(values))}
    if isinstance(values[0], date):
        first = date(2025, 12, 1).toordinal()
        daily = Attribute.date("a", "2025-12-01", "2026-07-31", "day", other="none")
        expected[daily] = [value.toordinal() - first for value in values]
    elif not isinstance(values[0], str):
        numbers = list(map(float, values))
        cut = (min(numbers) + max(numbers)) / 2
        halves = Attribute.numeric("a", cut_points=[cut], other="none")
        expected[halves] = [number > cut for number in numbers]
    given = [*values, None] if gap else values
    tables = list(_in_memory(given, *kinds))
    column = next(table for name, table, _ in tables if name == "polars")["a"]
    drop, other = {"handle_missing": "drop"}, {"handle_missing": "category"}
    for attribute, codes in expected.items():
        schema = Schema([attribute], texts, target="c")
        domain, labels = Domain([attribute]), list(range(len(values)))
        codes = [[int(code)] for code in codes]
        with_gap = [*codes, [attribute.other_code]] if gap else codes
        for name, X, y in tables:
            assert domain.encode(X, **other).tolist() == with_gap, name
            misfits = domain.check(X, handle_unknown="error")
            assert {misfit.row for misfit in misfits} <= {len(values)}, name
            found = schema.encode(X, y, narrow=True, **drop)
            assert [part.tolist() for part in found] == [codes, labels], name
        for name, source, form in _on_disk(given, column, tmp_path):
            if isinstance(source, Path):
                X = read_whole(source, domain, **form).X
                assert domain.encode(X, **other).tolist() == with_gap, name
            ((X, *_),) = read(source, domain, **form)
            assert domain.encode(X, narrow=True, **other).tolist() == with_gap, name
            ((X, y, _),) = read(source, schema, **form)
            found = schema.encode(X, y, **drop)
            assert [part.tolist() for part in found] == [codes, labels], name


@pytest.mark.parametrize(
    "X",
    [
        np.ma.array([[30.0], [99.0]], mask=[[False], [True]]),
        np.ma.array([["30"], ["99"]], mask=[[False], [True]]),
        [np.ma.array([30.0]), np.ma.array([99.0], mask=[True])],
        [[30], [Decimal("sNaN")]],
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


def test_numbers_beyond_all_doubles_are_clipped():
    domain = Domain([Attribute.numeric("a", lower=0, upper=10, n_bins=5)])
    rows = [[10**400], [Fraction(10**400)], [Decimal("1e400")], ["1e400"], [3]]
    codes = domain.encode(rows, handle_unknown="clip").ravel()
    assert codes.tolist() == [4, 4, 4, 4, 1]
    misfits = domain.check(rows, handle_unknown="error")
    assert [misfit.row for misfit in misfits] == [0, 1, 2, 3]


@pytest.mark.parametrize("categories", [["4", "5"], [4, 5], [4.0, 5.0], ["4.0", "5.0"]])
@pytest.mark.parametrize("value", ["5", "5.0", 5, 5.0, np.float32(5)])
def test_whole_numbers_may_be_written_as_floats(categories, value):
    """As pandas does where another cell of the column is missing."""
    schema = Schema([Attribute.categorical("a", categories)], categories)
    assert schema.encode([[value]], [value])[0].tolist() == [[1]]
    assert schema.encode_target([value]).tolist() == [1]
    grouped = Attribute.categorical("a", ["few", "many"], groups={"many": categories})
    assert one(grouped, value) == 1


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
    without = [m for m in found if m.column != "class"]
    assert TOY.check(X, handle_unknown="drop") == without
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
