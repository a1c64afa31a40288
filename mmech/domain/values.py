"""Raw values: which are missing, and which category or number the others mean.

Every value is read by itself: what a cell of a table becomes never depends on
another cell. Privacy requires it: one record must not change how another one is
counted. So a column of few distinct values reads each of them once. Values that compare
equal but print differently, such as ``1`` and ``True``, are kept apart there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmech.checks import read_float

# Markers of cells that have no code yet.
MISSING, UNKNOWN, OUTSIDE, INFINITE, NO_NUMBER = -1, -2, -3, -4, -5
NO_DATE, OTHER_TIME, NO_PATH = -6, -7, -8

_MISSING_TYPES = ("NAType", "NaTType", "MaskedConstant")  # of pandas and NumPy
_TRUTH = {"True": 1, "true": 1, "False": 0, "false": 0}  # booleans in a csv file
_CACHEABLE = (str, int, float, np.number, np.bool_)  # bool is an int


def is_missing(value: Any) -> bool:
    """Tell whether a raw value is None, NaN, an empty field or a question mark."""
    if isinstance(value, str):
        return value.strip() in ("", "?")
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return isinstance(value, (np.datetime64, np.timedelta64)) and bool(np.isnat(value))


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts a raw value can be read as, the most literal one first.

    Text reads as the float or boolean that it is the usual form of, as a csv file has
    them: a whole number is written as 5.0 where another cell of its column is missing.

    >>> texts("med"), texts(1.0), texts("1.0"), texts(True)
    (('med',), ('1.0', '1'), ('1.0', '1'), ('True', 'true', '1'))
    """
    if isinstance(value, str):
        meant = _meant_by(value)
        others = () if meant is None else texts(meant)
        return (str(value), *(text for text in others if text != value))
    if isinstance(value, (bool, np.bool_)):
        return (str(value), str(value).lower(), str(int(value)))
    if isinstance(value, (float, np.floating)):
        # -0.0 equals 0.0 and must read alike; float32 stays float32 on NumPy 1 too
        value = value + type(value)(0)
        if math.isfinite(value) and value == math.floor(value):
            return (str(value), str(int(value)))
    return (str(value),)


def _meant_by(text: str) -> float | bool | None:
    """Return the boolean or float that a text is the usual form of, if any."""
    if text in ("True", "False"):
        return text == "True"
    try:
        number = float(text)
    except ValueError:
        return None
    return number if str(number) == text else None


class CategoryTable:
    """Codes of raw values: by equality first, then by their text.

    The code of a category is its position. `groups` are raw values that read as a
    category; where `value_map` is given, only the raw values it lists are known.
    """

    def __init__(
        self,
        categories: Sequence[Any],
        groups: Mapping[Any, Sequence[Any]] | None = None,
        value_map: Mapping[Any, Any] | None = None,
    ) -> None:
        self._exact: dict[Any, int] = {}
        self._text: dict[str, int] = {}
        code_of = {category: code for code, category in enumerate(categories)}
        for category, members in (groups or {}).items():
            for member in members:
                self._exact[member] = code_of[category]
        for category, code in code_of.items():
            self._exact.setdefault(category, code)
        self._index_texts()
        if value_map is not None:
            coded = {raw: self.code(category) for raw, category in value_map.items()}
            self._exact, self._text = coded, {}
            self._index_texts()
        self._missing = code_of.get("?", MISSING)
        self._dtype = code_type(len(categories))

    def _index_texts(self) -> None:
        # literal texts of all values come before the second readings of any
        readings = [(texts(value), code) for value, code in self._exact.items()]
        for depth in range(3):
            for words, code in readings:
                if depth < len(words):
                    self._text.setdefault(words[depth], code)

    def code(self, value: Any) -> int:
        """Return the code of one raw value, MISSING or UNKNOWN."""
        try:
            code = self._exact.get(value)
            if code is not None:
                return code
            if is_missing(value):  # before texts: None is not the category "None"
                return self._missing
            words = texts(value)
        except Exception:
            # Unhashable, or with more digits than Python prints: nothing that one value
            # does may stop the reading of all others.
            return self._missing if is_missing(value) else UNKNOWN
        for text in words:
            if text in self._text:
                return self._text[text]
        return UNKNOWN

    def codes(self, values: NDArray[Any]) -> NDArray[np.signedinteger[Any]]:
        """Return the code of every raw value of a column, shape (N,)."""
        if values.dtype.kind in "biuf":
            distinct, inverse = np.unique(values, return_inverse=True)
            return np.array([*map(self.code, distinct)], self._dtype)[inverse.ravel()]
        read = lru_cache(maxsize=None, typed=True)(self.code)
        found = (
            read(cell) if isinstance(cell, _CACHEABLE) else self.code(cell)
            for cell in values.tolist()
        )
        return np.fromiter(found, self._dtype, len(values))


def code_type(n_codes: int) -> np.dtype[np.signedinteger[Any]]:
    """Return the narrowest type of so many codes, and of markers."""
    return np.min_scalar_type(min(-n_codes, NO_PATH))


def number_values(
    values: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a column as floats, missing cells NaN, and where it is no number."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64), np.zeros(values.shape, dtype=bool)
    if values.dtype.kind in "mM":  # dates in nanoseconds would pass for integers
        return np.full(values.shape, np.nan), ~np.isnat(values)
    cells = values.tolist()
    bad = np.zeros(len(cells), dtype=bool)
    try:
        if any("_" in cell for cell in cells if isinstance(cell, str)):
            raise ValueError
        return np.array(list(map(float, cells)), dtype=np.float64), bad
    except Exception:
        out = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            try:
                out[row] = read_float(_TRUTH.get(cell, cell))
            except OverflowError:  # an integer or a fraction beyond all doubles
                out[row] = math.inf if cell > 0 else -math.inf
            except Exception:
                bad[row] = not is_missing(cell)
        return out, bad


def as_objects(values: NDArray[Any]) -> NDArray[np.object_]:
    """Return a column (N,) as objects; NumPy would widen its short floats."""
    if values.dtype.kind == "f" and values.itemsize < 8:
        return np.fromiter(values, object, len(values))
    return values.astype(object)


# ---- columns of few distinct values --------------------------------------------

FEW = 256
"""Reading: ranges of so many integers are read as a whole, whichever are there."""


class Dictionary(NamedTuple):
    """A column (N,) as its distinct values (m,), and the place of every row's value.

    The place is -1 where a value is missing.
    """

    entries: NDArray[Any]
    indices: NDArray[np.integer[Any]]

    def values(self) -> NDArray[np.object_]:
        """Return the raw values of all rows, shape (N,)."""
        return np.append(as_objects(self.entries), [None])[self.indices]


def object_column(cells: list[Any]) -> NDArray[np.object_]:
    """Return cells as a column, whatever they are."""
    column = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):  # slice assignment would unpack sequences
        column[row] = cell
    return column


def of_arrow(column: Any) -> NDArray[Any] | Dictionary:
    """Return a column of pyarrow; integers without gaps, and floats, as they are.

    A gap in a column of floats is NaN, so that the others keep their width.
    """
    if (numbers := _numbers(column)) is not None:
        return numbers
    if str(column.type) == "null":
        return object_column(column.to_pylist())
    try:
        column = column.dictionary_encode()
    except NotImplementedError:  # values that no cell reads
        return object_column(column.to_pylist())
    if hasattr(column, "unify_dictionaries"):
        column = column.unify_dictionaries().combine_chunks()
    indices = column.indices
    if indices.null_count:
        indices = indices.cast("int64").fill_null(-1)  # they may be unsigned
    entries = _numbers(column.dictionary)
    if entries is None:
        entries = object_column(column.dictionary.to_pylist())
    return Dictionary(entries, indices.to_numpy(zero_copy_only=False))


def _numbers(column: Any) -> NDArray[Any] | None:
    """Return a column of pyarrow that NumPy holds: floats, integers without gaps."""
    kind = str(column.type)
    whole = kind.startswith(("int", "uint")) and not column.null_count
    is_one = whole or kind in ("halffloat", "float", "double")
    return np.asarray(column) if is_one else None


def as_dictionary(column: NDArray[Any]) -> Dictionary | None:
    """Return integers of a short range, or text with gaps, as a dictionary."""
    kind = column.dtype
    if kind.kind in "biu" and column.size:
        lowest = int(column.min())
        width = int(column.max()) - lowest + 1
        if width <= FEW:
            # A byte is enough, and wraps where the difference would.
            places = column.astype(np.uint8, copy=False) - np.uint8(lowest % FEW)
            entries = np.array([lowest + i for i in range(width)], kind)
            return Dictionary(entries, places)
    if kind.kind in "OU" and column.size:
        import pyarrow

        try:
            held = pyarrow.array(column, from_pandas=True)
        except Exception:  # values of several types
            return None
        if str(held.type).endswith("string"):
            found = of_arrow(held)
            return found if isinstance(found, Dictionary) else None
    return None


def read_once(
    column: NDArray[Any] | Dictionary,
    read: Callable[[NDArray[Any]], NDArray[Any]],
) -> NDArray[Any]:
    """Return what is read of a column (N,); equal values are read once if it is fast.

    What `read` makes of a value must not depend on the others.
    """
    if not isinstance(column, Dictionary):
        short = as_dictionary(column)
        if short is None:
            return read(column)
        column = short
    # The last entry is for missing values, whose index is -1.
    return np.concatenate([read(column.entries), read(np.array([None]))])[
        column.indices
    ]
