"""Tables in memory: raw tables read column by column, and frames made of columns.

Narwhals turns columns that NumPy does not hold into columns of pyarrow, and collects
lazy frames (polars, DuckDB, Ibis, PySpark).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, nearest
from mmech.domain.values import Dictionary, as_objects, object_column, of_arrow
from mmech.exceptions import ParameterError


@dataclass(frozen=True)
class Table:
    """A raw table seen as columns of any kind, each of them read where it is asked for.

    `names` is None for arrays and rows, whose columns have none.
    """

    n_rows: int
    columns: Sequence[Any]
    names: tuple[str, ...] | None

    def read(self, j: int) -> NDArray[Any] | Dictionary:
        """Return a column: its values (n_rows,), or a dictionary where it is one."""
        if not self.n_rows:
            return np.empty(0, object)
        return _held(self.columns[j], self.names[j] if self.names else f"x{j}")

    def column(self, j: int) -> NDArray[Any]:
        """Return the raw values of a column, shape (n_rows,)."""
        column = self.read(j)
        return column.values() if isinstance(column, Dictionary) else column

    def cells(self) -> NDArray[np.object_]:
        """Return the raw values of all columns, shape (n_rows, n_columns)."""
        cells = np.empty((self.n_rows, len(self.columns)), dtype=object)
        for j in range(len(self.columns)):
            cells[:, j] = as_objects(self.column(j))
        return cells

    def locate(
        self,
        attributes: Sequence[str],
        noun: str,
        required: Sequence[str] = (),
        *,
        read_required: bool = True,
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Return the positions of the attributes, and of other required columns.

        Messages call by `noun` what requires them, such as ``"domain"``.
        """
        d, more = len(attributes), required if read_required else ()
        places: Sequence[int] = range(d + len(more))
        if self.names is not None:
            remedy = f"rename or select the columns of X to match the {noun}"
            known = {*attributes, *required}
            places = column_places([*attributes, *more], self.names, "X", remedy, known)
        elif not self.n_rows and not len(self.columns):
            places = range(d)
        elif len(self.columns) not in (d + len(more), d + len(required)):
            others = f" and requires the columns {', '.join(more)}" if more else ""
            raise ValueError(
                f"X has {len(self.columns)} columns but the {noun} has {d} attributes"
                f"{others}; pass them in {noun} order, or name them, as a frame does"
            )
        return places[:d], places[d:]


def column_places(
    wanted: Sequence[str],
    names: Sequence[str],
    what: str,
    remedy: str,
    known: Collection[str] = (),
) -> list[int]:
    """Return the positions of wanted columns, or raise unless each is there once.

    What is wanted or known anyway is not suggested in place of a column.
    """
    for name in wanted:
        if (count := names.count(name)) != 1:
            others = [own for own in names if own not in wanted and own not in known]
            hint = "keep one of them" if count else nearest(name, others, remedy)
            found = f"{count} columns" if count else "no column"
            raise ValueError(
                f"{what} has {found} named {name!r}, but exactly one is needed; {hint}"
            )
    return list(map(names.index, wanted))


def _held(column: Any, name: str) -> NDArray[Any] | Dictionary:
    """Return a column as it is held: a dictionary where that is one."""
    if isinstance(column, (list, tuple)):
        return object_column(list(column))
    if hasattr(column, "cat") and hasattr(column.cat, "codes"):  # pandas
        return Dictionary(_plain(column.cat.categories), column.cat.codes.to_numpy())
    if isinstance(getattr(column, "dtype", None), np.dtype):
        return _plain(column)
    if not hasattr(column, "dictionary_encode"):
        import narwhals.stable.v2 as nw

        series = nw.from_native(column, series_only=True, pass_through=True)
        if not isinstance(series, nw.Series):
            return _plain(column)
        if series.dtype in (nw.Object, nw.Unknown, nw.Int128, nw.UInt128):
            return object_column(series.to_list())  # Arrow holds none of these
        column = series.to_arrow()
    check_flat(column.type, name)
    return of_arrow(column)


def _plain(column: Any) -> NDArray[Any]:
    if isinstance(column, np.ma.MaskedArray):
        gaps: Any = column.astype(object)
        return np.asarray(gaps.filled(None))
    values = np.asarray(column)
    if values.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported: X must hold text, numbers or booleans; "
            "split complex columns into real ones"
        )
    if values.dtype.kind in "mM" and np.datetime_data(values.dtype)[0] == "ns":
        return values.astype(f"{values.dtype.kind}8[us]")  # Python has no shorter times
    return values.astype(str) if values.dtype.kind == "S" else values


def read_table(X: Any) -> Table:
    """View a frame, array, dictionary of columns or list of rows as a `Table`."""
    return X if isinstance(X, Table) else _viewed(in_memory(X))


def _viewed(X: Any) -> Table:
    """View what names its columns. They may repeat where nobody asks for them."""
    import narwhals.stable.v2 as nw

    names: Iterable[Any]
    if isinstance(X, (list, tuple)) and any(isinstance(row, Mapping) for row in X):
        X = _by_column(X)
    if hasattr(X, "iloc"):
        names, columns = X.columns, [X.iloc[:, j] for j in range(len(X.columns))]
    elif hasattr(X, "num_rows"):  # pyarrow
        names, columns = X.schema.names, X.columns
    elif isinstance(frame := nw.from_native(X, pass_through=True), nw.DataFrame):
        names, columns = frame.columns, list(frame.iter_columns())
    elif isinstance(X, (str, bytes, Mapping)):
        columns = [] if isinstance(X, (str, bytes)) else list(X.values())
        if not columns or not all(map(_is_column, columns)):
            raise TypeError(
                "X must be a frame, an array or a list of rows, got "
                f"{type(X).__name__}; wrap a single record in a list"
            )
        names = X
    else:
        return _unnamed(X)
    names = tuple(map(str, names))
    _check_alike("column", columns, names)
    return Table(len(columns[0] if columns else X), columns, names)


_LAZY = ("collect", "compute", "execute")
"""Methods that compute a lazy frame: polars and PySpark, Dask, DuckDB and Ibis."""


def in_memory(X: Any, name: str = "X") -> Any:
    """Return a lazy frame as one in memory, and everything else as it is."""
    method = next((method for method in _LAZY if hasattr(type(X), method)), None)
    if method is None:
        return X
    if method != "compute":  # Dask is for records that do not fit into memory
        import narwhals.stable.v2 as nw

        frame = nw.from_native(X, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            return frame.collect().to_native()
    raise TypeError(
        f"{name} must be in memory, got a lazy {type(X).__name__}; call .{method}() on "
        "it first"
    )


def _check_alike(kind: str, parts: Sequence[Any], names: Sequence[Any]) -> None:
    """Raise unless all rows, or all columns, of a table have equally many values."""
    for name, part in zip(names, parts, strict=True):
        if len(part) != len(parts[0]):
            raise ValueError(
                f"every {kind} of X needs equally many values, but {kind} {names[0]!r} "
                f"has {len(parts[0])} and {kind} {name!r} has {len(part)}; correct one"
            )


def _is_column(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))


def _by_column(rows: Sequence[Any]) -> dict[str, list[Any]]:
    """Return rows that name their values as columns."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"every row of X must be a dict when one is, got "
                f"{type(row).__name__} in row {number}; use one kind of row"
            )
    return {name: [r.get(name) for r in rows] for name in chain.from_iterable(rows)}


def _unnamed(X: Any) -> Table:
    """View an array or rows."""
    if hasattr(X, "toarray"):
        raise TypeError(
            "X must be dense, got a sparse matrix; call .toarray() on it first"
        )
    columns: Any
    if not isinstance(X, (list, tuple)):
        array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
        shape, columns = array.shape, array.T
    elif all(_is_column(row) and not isinstance(row, Set) for row in X):
        _check_alike("row", X, range(len(X)))
        shape, columns = (len(X), 0), list(zip(*X, strict=True))
    else:
        shape = (len(X),)
    if len(shape) != 2:
        raise ValueError(
            "X must be two-dimensional, one row per record and one column per "
            f"attribute, got {f'shape {shape}' if shape else type(X).__name__}; give X "
            "before y, reshape it, or wrap a single record in a list"
        )
    return Table(shape[0], columns, None)


def read_vector(y: Any) -> NDArray[Any]:
    """View class labels, or a frame with one column, as a one-dimensional array."""
    held = read_held(y)
    return held.values() if isinstance(held, Dictionary) else held


def read_held(y: Any) -> NDArray[Any] | Dictionary:
    """View class labels as `read_vector` does, or a dictionary of them as it is."""
    y = in_memory(y)
    if hasattr(y, "columns") or isinstance(y, Mapping):
        table = read_table(y)
        if len(table.columns) != 1:
            raise ValueError(
                "y must hold one class label per record, got a frame with "
                f"{len(table.columns)} columns; select the column of the class"
            )
        return table.read(0)
    held = _held(y, "y")
    if not isinstance(held, Dictionary) and held.ndim != 1:
        raise ValueError(
            "y must be one-dimensional, one class label per record, "
            f"got {f'shape {held.shape}' if held.ndim else type(y).__name__}; select "
            "one column or ravel it"
        )
    return held


def check_flat(kind: Any, name: str) -> None:
    """Raise for a column whose type, of pyarrow or polars, holds several values."""
    if str(kind).lower().startswith(_NESTED):
        raise ValueError(
            f"column {name!r} holds several values in each cell ({kind!s:.60}); put "
            "each of them in a column of its own"
        )


_NESTED = ("list", "large_list", "fixed_size_list", "array", "struct", "map")


# ---- made of columns ---------------------------------------------------------


FRAMES = ("pandas", "polars", "pyarrow", "dict")
"""Kinds of frames that are made of columns."""


def kind_of_frame(data: Any) -> str | None:
    """Return the kind of frame that data are, or ``None`` if they are no frame."""
    library = type(data).__module__.partition(".")[0]
    return library if library in FRAMES and library != "dict" else None


def as_frame(columns: Mapping[str, NDArray[Any]], kind: str | None = None) -> Any:
    """Return columns as a frame; of pandas by default, or a dict without it."""
    if kind is None:
        kind = "pandas" if importlib.util.find_spec("pandas") else "dict"
    check_choice(kind, "frame", FRAMES)
    if kind == "dict":
        return dict(columns)
    import narwhals.stable.v2 as nw

    try:
        return nw.from_dict(dict(columns), backend=kind).to_native()
    except ImportError:
        raise ParameterError(
            "frame",
            f"needs a library that is not installed, {kind}",
            kind,
            ("install it", "choose {frame='dict'}"),
        ) from None


def as_column(values: tuple[Any, ...], codes: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values that codes stand for, as text or numbers where all are."""
    kinds = {type(value) for value in values}
    plain = kinds <= {str} or kinds <= {bool} or kinds <= {int, float}
    table = np.empty(len(values), dtype=object)
    table[:] = values
    return (np.array(list(values)) if plain else table)[codes]
