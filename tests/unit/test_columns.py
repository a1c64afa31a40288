"""Columns of every kind: each value means what it means by itself."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mmech import Attribute, Domain
from mmech.domain.frames import read_vector
from mmech.domain.values import FEW, as_dictionary

WORDS = Attribute.categorical("a", ["x", "1", "2.5", "True", "-7", "?"])
NUMBERS = Attribute.numeric("a", lower=-5, upper=300, n_bins=7, other="none")
MANY = Attribute.categorical("a", [*range(-3, 200), "x"], other="x")
ATTRIBUTES = [WORDS, NUMBERS, MANY]
POLICIES = {"handle_unknown": "category", "handle_missing": "category"}

INTEGERS = [-7, -1, 0, 1, 2, 99, 127]
COLUMNS = {
    "bool": np.array([True, False, True]),
    "int8": np.array(INTEGERS, np.int8),
    "int8 from end to end": np.array([-128, 1, 127], np.int8),
    "int16 from end to end": np.array([-(2**15), 1, 2**15 - 1], np.int16),
    "int64": np.array(INTEGERS * 300),
    "int64 of a range that is neither short nor wide": np.arange(-900, 900)[::2],
    "int64 far apart": np.array([-(2**63), 1, 2**63 - 1]),
    "int64 at the lower end": np.array([-(2**63), 2 - 2**63]),
    "uint64 at 2^63": np.array([2**63 - 1, 2**63 + 1], np.uint64),
    "float": np.array([1.0, np.nan, -0.0, 2.5, -7, np.inf]),
    "text": np.array(["x", "1", "1.0", "True", "true", "", "?", " ", "nan", "y"]),
    "text objects": np.array(["x", None, "1.0", np.nan, "true", "x"], dtype=object),
    "objects": np.array([1, True, "1", 2.5, None, "x", [1], pd.NA], dtype=object),
    "equal but not alike": np.array([True, 1, 1.0, "True"], dtype=object),
}


def codes_one_by_one(attribute, values):
    """Codes of a column whose rows are tables of their own."""
    table = np.empty((1, 1), dtype=object)
    known = {}
    for value in values:
        if (type(value), repr(value)) not in known:
            table[0, 0] = value
            (code,) = Domain([attribute]).encode(table, **POLICIES)[0].tolist()
            known[type(value), repr(value)] = code
    return [known[type(value), repr(value)] for value in values]


@pytest.mark.by_day(6)
@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=["words", "numbers", "many"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_means_what_it_means_by_itself(attribute, name):
    values = COLUMNS[name]
    expected = codes_one_by_one(attribute, values)
    frame = pd.DataFrame({"a": values})
    for table in (values[:, None], frame):
        codes = Domain([attribute]).encode(table, **POLICIES)
        assert codes.dtype == np.int64
        assert codes[:, 0].tolist() == expected


@pytest.mark.parametrize("size", [2, 256, 257])
def test_the_narrowest_type_holds_every_code(size):
    domain = Domain([Attribute.numeric("a", lower=0, upper=size, n_bins=size)])
    X = np.array([[0.5], [size - 0.5]])
    codes = domain.encode(X, narrow=True)
    assert codes.dtype == np.min_scalar_type(size - 1)
    assert codes.tolist() == domain.encode(X).tolist() == [[0], [size - 1]]


def test_dictionaries_of_integers_hold_what_is_there():
    for column in (np.array([-FEW, -1]), np.array([250, 250 + FEW - 1], np.uint64)):
        held = as_dictionary(column)
        assert held.values().tolist() == column.tolist()
        assert len(held.entries) == FEW
    for column in ([0, FEW], [0.5], []):
        assert as_dictionary(np.array(column)) is None


@pytest.mark.parametrize("method", ["collect", "compute"])
def test_lazy_tables_are_to_be_read_first(method):
    lazy = type("Lazy", (SimpleNamespace,), {method: None})(columns=["a"])
    with pytest.raises(TypeError, match=rf"in memory, got a lazy Lazy; call .{method}"):
        Domain([WORDS]).encode(lazy)
    # Names of columns are not methods.
    frame = pd.DataFrame({method: ["x"]})
    named = Domain([Attribute.categorical(method, ["y", "x"])])
    assert named.encode(frame).tolist() == [[1]]


TABLES = {
    "text": ["x", "1", None, "2.5", "y"],
    "many texts": [*map(str, range(300)), None, "x"],
    "integers": [1, 2, 99, 1, -7],
    "integers and gaps": [1, None, 99, 1, -7],
    "numbers and gaps": [1.0, None, 2.5, 1.0, -7.0],
    "booleans and gaps": [True, None, False],
    "nothing": [],
}


@pytest.mark.by_day(7)
@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=["words", "numbers", "many"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_of_arrow(attribute, name):
    values = TABLES[name]
    plain = pa.table({"b": [0] * len(values), "a": pa.array(values)})
    tables = [plain, pa.concat_tables([plain.slice(0, 2), plain.slice(2)])]
    if values:
        tables += [plain.to_batches()[0]]
        held = pa.array(values).dictionary_encode()
        parts = [held.slice(0, 1), pa.array(values[1:]).dictionary_encode()]
        tables += [
            pa.table({"a": held}),
            pa.table({"a": pa.chunked_array(parts)}),
        ]
    for table in tables:
        codes = Domain([attribute]).encode(table, **POLICIES)
        assert codes[:, 0].tolist() == codes_one_by_one(attribute, values)


def test_frames_of_one_column_hold_labels():
    pl, columns = pytest.importorskip("polars"), {"class": ["1", "x"]}
    table = pd.DataFrame(columns)
    tables = [table, pa.table(columns), pl.DataFrame(columns)]
    for labels in (*tables, dict(table), ["1", "x"]):
        assert read_vector(labels).tolist() == ["1", "x"]
    with pytest.raises(ValueError, match="a frame with 2 columns; select the column"):
        read_vector(pd.DataFrame({"a": [1], "b": [1]}))
