"""Reading for schemas: raw values, raw tables and the three kinds of schema file.

Every value is read by itself: what a cell of a table becomes never depends on
another cell. That is a privacy requirement (one record must not change how
another one is counted), and the reason why values that compare equal but print
differently, such as ``1`` and ``True``, are kept apart when results are cached.
"""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice

__all__ = [
    "FORMAT",
    "MISSING",
    "OUTSIDE",
    "UNKNOWN",
    "CategoryTable",
    "Table",
    "is_missing",
    "label_of_type",
    "number_values",
    "parse_document",
    "read_document",
    "read_table",
    "read_vector",
]

FORMAT = "mmech-schema"
VERSION = 1

# Markers of cells that have no code yet.
MISSING, UNKNOWN, OUTSIDE = -1, -2, -3

_MISSING_TYPES = ("NAType", "NaTType")  # of pandas, which is not imported here
_CACHEABLE = (str, int, float, np.number, np.bool_)  # bool is an int


# ---------------------------------------------------------------- single values


def is_missing(value: Any) -> bool:
    """Tell whether a raw value is None, NaN, an empty field or a question mark."""
    if isinstance(value, str):
        return value.strip() in ("", "?")
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    if isinstance(value, (float, np.floating, Decimal)):
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


_LABEL_TYPES: dict[str, type] = {"int": int, "bool": bool, "str": str}
_LABEL_WORDS = {"true": True, "1": True, "false": False, "0": False}


def label_of_type(label: Any, kind: str) -> Any:
    """Return a public class label as an integer, a boolean or text, or raise.

    >>> label_of_type("-1", "int"), label_of_type("False", "bool")
    (-1, False)
    """
    check_choice(kind, "the type of the class labels", _LABEL_TYPES)
    if isinstance(label, _LABEL_TYPES[kind]) and not (
        kind == "int" and isinstance(label, bool)
    ):
        return label
    try:
        if kind == "int":
            return int(str(label))
        if kind == "bool":
            return _LABEL_WORDS[str(label).lower()]
    except (KeyError, ValueError):
        raise ValueError(
            f"the class label {label!r} cannot be written as {kind}; correct the label "
            "or the type"
        ) from None
    return str(label)


class CategoryTable:
    """Codes of raw values: by equality first, then by their text.

    Parameters
    ----------
    categories : sequence of str, bool, int or float
        The code of a category is its position.
    groups : mapping from category to sequence of raw values, optional
        Raw values that read as the category.
    value_map : mapping from raw value to category, optional
        When given, only the raw values it lists are known.
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
        self._missing = next(
            (code for code, category in enumerate(categories) if category == "?"),
            MISSING,
        )

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
        except TypeError:  # unhashable
            return UNKNOWN
        if code is not None:
            return code
        if is_missing(value):  # before texts: None is not the category "None"
            return self._missing
        for text in texts(value):
            if text in self._text:
                return self._text[text]
        return UNKNOWN

    def codes(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the code of every raw value of a column, shape (N,)."""
        if values.dtype.kind in "biuf":
            distinct, inverse = np.unique(values, return_inverse=True)
            table = np.array([self.code(value) for value in distinct], dtype=np.int64)
            return table[inverse.ravel()] if distinct.size else table
        cells = values.tolist()
        memos = {kind: _Memo(self.code, kind) for kind in set(map(type, cells))}
        if len(memos) == 1 and next(iter(memos.values())).cacheable:
            read = next(iter(memos.values())).__getitem__
            return np.fromiter(map(read, cells), np.int64, len(cells))
        return np.fromiter(
            (
                memo[cell] if (memo := memos[type(cell)]).cacheable else self.code(cell)
                for cell in cells
            ),
            np.int64,
            len(cells),
        )


class _Memo(dict[Any, int]):
    """Remember the codes of values of one type, within which equal reads alike."""

    def __init__(self, code: Callable[[Any], int], kind: type) -> None:
        super().__init__()
        self._code = code
        self.cacheable = issubclass(kind, _CACHEABLE)

    def __missing__(self, value: Any) -> int:
        code = self._code(value)
        if value == value:  # every NaN would be a new key
            self[value] = code
        return code


def number_values(
    values: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a column as floats, missing cells NaN, and where it is no number."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64), np.zeros(values.shape, dtype=bool)
    cells = values.tolist()
    bad = np.zeros(len(cells), dtype=bool)
    try:
        return np.array(list(map(float, cells)), dtype=np.float64), bad
    except (TypeError, ValueError, OverflowError):
        out = np.full(len(cells), np.nan)
        for row, cell in enumerate(cells):
            try:
                out[row] = float(cell)
            except (TypeError, ValueError, OverflowError):
                bad[row] = not is_missing(cell)
        return out, bad


# ------------------------------------------------------------------- raw tables


@dataclass(frozen=True)
class Table:
    """A raw table seen as columns: `column(j)` is an array of shape (n_rows,)."""

    n_rows: int
    n_columns: int
    names: tuple[str, ...] | None
    column: Callable[[int], NDArray[Any]]

    def locate(
        self,
        features: Sequence[str],
        required: Sequence[str],
        *,
        read_required: bool,
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Return the positions of the attributes and of the required columns."""
        d, r = len(features), len(required) if read_required else 0
        if self.n_rows == 0 and self.n_columns == 0:
            return range(d), range(0)
        if self.names is not None:
            return (
                [self._position(name) for name in features],
                [self._position(name) for name in required[:r]],
            )
        if self.n_columns == d + len(required):
            return range(d), range(d, d + r)
        if self.n_columns == d and r:
            raise ValueError(
                f"X has only the {d} attributes, but the schema also requires the "
                f"columns {', '.join(required)}, to know which records miss them; "
                "append them, pass a frame, or name the columns with columns="
            )
        if self.n_columns != d:
            raise ValueError(
                f"X has {self.n_columns} columns but the schema has {d} attributes; "
                "pass the attributes in schema order, a frame, or name the columns "
                "with columns="
            )
        return range(d), range(0)

    def _position(self, name: str) -> int:
        names = self.names or ()
        if (count := names.count(name)) != 1:
            problem = "no column" if count == 0 else f"{count} columns"
            raise ValueError(
                f"X has {problem} named {name!r} but the schema needs exactly one; "
                "rename or select the columns of X to match the schema"
            )
        return names.index(name)


def _object_column(cells: list[Any]) -> NDArray[Any]:
    column = np.empty(len(cells), dtype=object)
    for row, cell in enumerate(cells):  # slice assignment would unpack sequences
        column[row] = cell
    return column


def _plain(column: Any) -> NDArray[Any]:
    values = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if values.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: X must hold text, numbers or booleans; "
            "split complex columns into real ones"
        )
    return values.astype(str) if values.dtype.kind == "S" else values


def _not_two_dimensional(shape: tuple[int, ...]) -> NoReturn:
    raise ValueError(
        "X must be two-dimensional, one row per record and one column per "
        f"attribute, got shape {shape}; reshape it, or wrap a single record in a list"
    )


def read_table(X: Any, columns: Iterable[str] | None = None) -> Table:
    """View a frame, array or list of rows as a `Table`."""
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        if columns is not None:
            raise ValueError(
                "columns= names the columns of an array or of rows, got a frame, "
                "which names its own; leave columns out"
            )
        labels = list(X.columns)
        names = tuple(str(label) for label in labels)
        if len(set(labels)) == len(labels):
            return Table(len(X), len(labels), names, lambda j: _plain(X[labels[j]]))
        # a name that occurs twice is an error only where the schema asks for it
        return Table(len(X), len(labels), names, lambda j: _plain(X.iloc[:, j]))
    if hasattr(X, "toarray"):
        raise TypeError(
            "X must be dense, got a sparse matrix; call .toarray() on it first"
        )
    if isinstance(X, (str, bytes, Mapping)):
        raise TypeError(
            "X must be a frame, an array or a list of rows, "
            f"got {type(X).__name__}; wrap a single record in a list"
        )
    if isinstance(X, (list, tuple)):
        if any(isinstance(row, Mapping) for row in X):
            return _mapping_rows(X, columns)
        table = _sequence_rows(X)
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            _not_two_dimensional(array.shape)
        n_rows, n_columns = array.shape
        table = Table(n_rows, n_columns, None, lambda j: _plain(array[:, j]))
    if columns is None:
        return table
    names = tuple(str(name) for name in columns)
    if len(names) != table.n_columns and not (table.n_rows == table.n_columns == 0):
        raise ValueError(
            f"columns has {len(names)} names but X has {table.n_columns} columns; "
            "give one name per column"
        )
    return Table(table.n_rows, len(names), names, table.column)


def _mapping_rows(rows: Sequence[Any], columns: Iterable[str] | None) -> Table:
    if columns is not None:
        raise ValueError(
            "columns= names the columns of an array or of rows, got rows that are "
            "dicts, which name their own; leave columns out"
        )
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"every row of X must be a dict when one is, got "
                f"{type(row).__name__} in row {number}; use one kind of row"
            )
        names.update((name, None) for name in row)
    keys = list(names)
    return Table(
        len(rows),
        len(keys),
        tuple(str(key) for key in keys),
        lambda j: _object_column([row.get(keys[j]) for row in rows]),
    )


def _sequence_rows(rows: Sequence[Any]) -> Table:
    width = -1
    cells = []
    for number, row in enumerate(rows):
        if isinstance(row, (str, bytes, Set)) or not hasattr(row, "__len__"):
            _not_two_dimensional((len(rows),))
        cells.append(list(row))
        if width >= 0 and len(row) != width:
            raise ValueError(
                f"row {number} of X has {len(row)} values but row 0 has {width}; "
                "every row needs one value per column"
            )
        width = len(row)
    return Table(
        len(rows),
        max(width, 0),
        None,
        lambda j: _object_column([row[j] for row in cells]),
    )


def read_vector(y: Any) -> NDArray[Any]:
    """View class labels as a one-dimensional array."""
    if isinstance(y, (list, tuple)):
        return _object_column(list(y))
    values = _plain(y)
    if values.ndim != 1:
        raise ValueError(
            "y must be one-dimensional, one class label per record, "
            f"got shape {values.shape}; select one column or ravel it"
        )
    return values


# ----------------------------------------------------------------- schema files


def read_document(source: Any) -> dict[str, Any]:
    """Return the JSON object in a path, an open file, a JSON text or a dict."""
    if isinstance(source, Mapping):
        return dict(source)
    if hasattr(source, "read"):
        text = source.read()
    elif isinstance(source, str) and source.lstrip().startswith("{"):
        text = source
    elif isinstance(source, (str, os.PathLike)):
        with open(source, encoding="utf-8") as stream:
            text = stream.read()
    else:
        raise TypeError(
            "a schema is read from a path, an open file, a JSON text or a dict, "
            f"got {type(source).__name__}; pass one of those"
        )
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"the schema is not valid JSON ({error}); check the file"
        ) from None
    if not isinstance(document, dict):
        raise ValueError(
            f"the schema must be a JSON object, got {type(document).__name__}; "
            "check the file"
        )
    return document


def parse_document(
    document: dict[str, Any], *, n_bins: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the arguments of the attributes and of the schema in a document."""
    try:
        if "format" in document:
            return _parse_own(document)
        if "features" in document:
            return _parse_features(document, n_bins)
        if "attributes" in document:
            return _parse_mrf(document)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"the schema is malformed near {error}; compare it with a file "
            "written by Schema.to_json"
        ) from error
    raise ValueError(
        "the schema is of no known kind: it needs 'format' (written by "
        "Schema.to_json), 'features' with 'target', or 'attributes' with 'target'; "
        "add what is missing"
    )


def _parse_own(
    document: dict[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError(
            f"the schema must have format {FORMAT!r} version {VERSION}, got "
            f"{document['format']!r} version {document.get('version')!r}; "
            "read it with the release that wrote it"
        )
    _check_keys(document, _SCHEMA_KEYS["own"], "the schema")
    _check_keys(document["target"], ("name", "type", "labels"), "the target")
    attributes = []
    for entry in document["attributes"]:
        _check_keys(entry, _OWN_KEYS, f"attribute {entry['name']!r}")
        fields = dict(entry)
        for key in ("groups", "value_map"):
            if key in fields:  # pairs, because JSON keys would all become text
                fields[key] = {raw: value for raw, value in fields[key]}
        attributes.append(fields)
    return attributes, {
        "class_labels": document["target"]["labels"],
        "label_type": document["target"].get("type"),
        "target": document["target"]["name"],
        "name": document.get("name"),
        "required": document.get("required", ()),
    }


_REMARKS = frozenset(
    [
        *("bounds_note", "derivation", "description", "dropped_lines"),
        *("feature_domain_size", "integer", "interval_rule", "missing", "n_rows"),
        *("note", "notes", "one_hot_groups", "paper_name", "shape", "source"),
        *("split", "unit", "value_map_to_mrf"),
    ]
)
"""Keys that say something to people, and may stand anywhere."""

_SCHEMA_KEYS = {
    "own": ("format", "version", "name", "target", "attributes", "required"),
    "features": ("name", "features", "target"),
    "mrf": ("name", "attributes", "target", "dropped_after", "not_used"),
}
_OWN_KEYS = (
    "name",
    "kind",
    "categories",
    "lower",
    "upper",
    "cut_points",
    "groups",
    "value_map",
    "n_bins",
    "other",
)
_MRF_KEYS = ("name", "type", "categories", "cutoffs", "groups", "value_map")


def _check_keys(entry: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Raise for a key that would be ignored, and name the nearest that would not."""
    if not isinstance(entry, Mapping):
        raise TypeError(f"{what}, which must be an object")
    for key in entry:
        if key in known or key in _REMARKS:
            continue
        near = difflib.get_close_matches(key, known, n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else f"it may have {', '.join(known)}"
        )
        raise ValueError(f"unknown key {key!r} of {what}; {hint}")


_NUMERIC_KEYS = ("lower", "upper", "cut_points", "n_bins", "quantiles")
"""How an entry of "features" may say where a number is cut."""


def _parse_features(
    document: dict[str, Any], n_bins: int
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    _check_keys(document, _SCHEMA_KEYS["features"], "the schema")
    _check_keys(document["target"], ("name", "type", "categories"), "the target")
    attributes = []
    for entry in document["features"]:
        fields: dict[str, Any] = {"name": entry["name"]}
        numeric = entry["type"] == "numeric"
        own_keys = _NUMERIC_KEYS if numeric else ("categories", "ordered")
        what = f"attribute {entry['name']!r}, which is {entry['type']}"
        _check_keys(entry, ("name", "type", *own_keys, "other"), what)
        if numeric:
            fields["kind"] = "numeric"
            own = {key: entry[key] for key in _NUMERIC_KEYS if key in entry}
            if "cut_points" not in own:
                fields |= {"n_bins": n_bins}
                own = {"lower": entry["lower"], "upper": entry["upper"]} | own
            fields |= own
        else:
            kind = "ordinal" if entry.get("ordered") else entry["type"]
            fields |= {"kind": kind, "categories": entry["categories"]}
        if "other" in entry:
            fields["other"] = entry["other"]
        attributes.append(fields)
    return attributes, {
        "class_labels": document["target"]["categories"],
        "label_type": document["target"].get("type"),
        "target": document["target"]["name"],
        "name": document.get("name"),
    }


def _parse_mrf(
    document: dict[str, Any],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    _check_keys(document, _SCHEMA_KEYS["mrf"], "the schema")
    target = document["target"]
    required = tuple(document.get("dropped_after", ()))
    left_out = {target, *required, *document.get("not_used", ())}
    attributes, class_labels = [], None
    for entry in document["attributes"]:
        _check_keys(entry, _MRF_KEYS, f"attribute {entry['name']!r}")
        if entry["name"] == target:
            class_labels = entry["categories"]
        if entry["name"] in left_out:
            continue
        fields = {"name": entry["name"], "kind": entry["type"]}
        fields["categories"] = entry.get("categories", ())
        if entry["type"] == "numeric":
            fields["cut_points"] = entry["cutoffs"]
        for key in ("groups", "value_map"):
            if entry.get(key):
                fields[key] = entry[key]
        attributes.append(fields)
    if class_labels is None:
        raise ValueError(
            f"the schema names the target {target!r} but has no attribute of that "
            "name with its categories; add it"
        )
    return attributes, {
        "class_labels": class_labels,
        "target": target,
        "name": document.get("name"),
        "required": required,
    }
