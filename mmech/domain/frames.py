"""Tables in memory: raw tables read column by column, and frames made of columns.

Narwhals turns columns that NumPy does not hold into columns of pyarrow, and collects
lazy frames (polars, DuckDB, Ibis, PySpark).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, nearest
from mmech.domain.values import Dictionary, as_objects, object_column, of_arrow
from mmech.exceptions import ParameterError


@dataclass(frozen=True)
class Table:
    """A raw table seen as columns.

    `read(j)` is an array of shape (n_rows,), or a dictionary where a frame holds one.
    """

    n_rows: int
    n_columns: int
    names: tuple[str, ...] | None
    read: Callable[[int], NDArray[Any] | Dictionary]

    def column(self, j: int) -> NDArray[Any]:
        """Return the raw values of a column, shape (n_rows,)."""
        column = self.read(j)
        return column.values() if isinstance(column, Dictionary) else column

    def cells(self) -> NDArray[np.object_]:
        """Return the raw values of all columns, shape (n_rows, n_columns)."""
        cells = np.empty((self.n_rows, self.n_columns), dtype=object)
        for j in range(self.n_columns):
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
        d, r = len(attributes), len(required) if read_required else 0
        if self.names is not None:
            wanted = {*attributes, *required}
            others = [name for name in self.names if name not in wanted]
            return (
                [self._position(name, noun, others) for name in attributes],
                [self._position(name, noun, others) for name in required[:r]],
            )
        if self.n_rows == 0 and self.n_columns == 0:
            return range(d), range(0)
        if self.n_columns == d + len(required):
            return range(d), range(d, d + r)
        if self.n_columns == d and r:
            raise ValueError(
                f"X has only the {d} attributes, but the {noun} also requires the "
                f"columns {', '.join(required)}, to know which records miss them; "
                "append them, pass a frame, or name the columns with columns="
            )
        if self.n_columns != d:
            raise ValueError(
                f"X has {self.n_columns} columns but the {noun} has {d} attributes; "
                f"pass the attributes in {noun} order, a frame, or name the columns "
                "with columns="
            )
        return range(d), range(0)

    def _position(self, name: str, noun: str, others: Iterable[str]) -> int:
        names = self.names or ()
        if (count := names.count(name)) != 1:
            remedy = f"rename or select the columns of X to match the {noun}"
            if not count:
                remedy = nearest(name, others, remedy)
            raise ValueError(
                f"X has {columns_named(count)} named {name!r} but the {noun} needs "
                f"exactly one; {remedy}"
            )
        return names.index(name)


def _held(column: Any, name: str = "y") -> NDArray[Any] | Dictionary:
    """Return a column of a frame as it is held: a dictionary where that is one."""
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


def _not_two_dimensional(shape: tuple[int, ...] | str) -> NoReturn:
    got = shape if isinstance(shape, str) else f"shape {shape}"
    raise ValueError(
        "X must be two-dimensional, one row per record and one column per "
        f"attribute, got {got}; give X before y, reshape it, or wrap a single "
        "record in a list"
    )


def read_table(X: Any, columns: Iterable[str] | None = None) -> Table:
    """View a frame, array, dictionary of columns or list of rows as a `Table`.

    `columns` names the columns of an array or of rows.
    """
    table = X if isinstance(X, Table) else _viewed(in_memory(X))
    if columns is None:
        return table
    if table.names is not None:
        raise ValueError(
            "columns= names the columns of an array or of rows, got a table that names "
            "its own; leave columns out"
        )
    names = tuple(str(name) for name in columns)
    if len(names) != table.n_columns and not (table.n_rows == table.n_columns == 0):
        raise ValueError(
            f"columns has {len(names)} names but X has {table.n_columns} columns; "
            "give one name per column"
        )
    return replace(table, n_columns=len(names), names=names)


def _viewed(X: Any) -> Table:
    if (frame := _frame_columns(X)) is not None:
        labels, n_rows, column = frame
        names = tuple(map(str, labels))
        return Table(n_rows, len(names), names, lambda j: _held(column(j), names[j]))
    if hasattr(X, "toarray"):
        raise TypeError(
            "X must be dense, got a sparse matrix; call .toarray() on it first"
        )
    if isinstance(X, Mapping) and X and all(map(_is_column, X.values())):
        return _mapping_columns(X)
    if isinstance(X, (str, bytes, Mapping)):
        raise TypeError(
            "X must be a frame, an array or a list of rows, "
            f"got {type(X).__name__}; wrap a single record in a list"
        )
    if isinstance(X, (list, tuple)):
        if any(isinstance(row, Mapping) for row in X):
            return _mapping_rows(X)
        return _sequence_rows(X)
    array = X if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if array.ndim != 2:
        _not_two_dimensional(array.shape or type(X).__name__)
    n_rows, n_columns = array.shape
    return Table(n_rows, n_columns, None, lambda j: _plain(array[:, j]))


def _frame_columns(X: Any) -> tuple[Iterable[Any], int, Callable[[int], Any]] | None:
    """Return names, number of rows and columns of a frame, or None for no frame.

    Names may repeat: `Table.locate` refuses those that are asked for.
    """
    if hasattr(X, "iloc"):
        return X.columns, len(X), lambda j: X.iloc[:, j]
    if hasattr(X, "num_rows"):  # pyarrow
        return X.schema.names, X.num_rows, X.column
    import narwhals.stable.v2 as nw

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None
    return frame.columns, len(frame), lambda j: frame[:, j].to_native()


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


def _is_column(values: Any) -> bool:
    return hasattr(values, "__len__") and not isinstance(values, (str, bytes, Mapping))


def _mapping_columns(X: Mapping[Any, Any]) -> Table:
    names = tuple(map(str, X))
    columns = [
        object_column(list(values))
        if isinstance(values, (list, tuple))
        else _held(values, str(name))
        for name, values in X.items()
    ]
    lengths = [len(values) for values in X.values()] or [0]
    if len(set(lengths)) > 1:
        wrong = next(j for j, length in enumerate(lengths) if length != lengths[0])
        raise ValueError(
            f"every column of X needs one value per record, but {names[0]!r} has "
            f"{lengths[0]} and {names[wrong]!r} has {lengths[wrong]}; make them equal"
        )
    return Table(lengths[0], len(names), names, lambda j: columns[j])


def _mapping_rows(rows: Sequence[Any]) -> Table:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise TypeError(
                f"every row of X must be a dict when one is, got "
                f"{type(row).__name__} in row {number}; use one kind of row"
            )
        names.update((name, None) for name in row)
    return _mapping_columns({name: [row.get(name) for row in rows] for name in names})


def _sequence_rows(rows: Sequence[Any]) -> Table:
    if any(isinstance(r, (str, bytes, Set)) or not hasattr(r, "__len__") for r in rows):
        _not_two_dimensional((len(rows),))
    cells = [r.tolist() if isinstance(r, np.ma.MaskedArray) else list(r) for r in rows]
    width = len(cells[0]) if cells else 0
    for number, row in enumerate(cells):
        if len(row) != width:
            raise ValueError(
                f"row {number} of X has {len(row)} values but row 0 has {width}; "
                "every row needs one value per column"
            )
    return Table(
        len(rows), width, None, lambda j: object_column([row[j] for row in cells])
    )


def read_vector(y: Any) -> NDArray[Any]:
    """View class labels, or a frame with one column, as a one-dimensional array."""
    held = read_held(y)
    return held.values() if isinstance(held, Dictionary) else held


def read_held(y: Any) -> NDArray[Any] | Dictionary:
    """View class labels as `read_vector` does, or a dictionary of them as it is."""
    if isinstance(y, (list, tuple)):
        return object_column(list(y))
    y = in_memory(y)
    if hasattr(y, "columns") or isinstance(y, Mapping):
        table = read_table(y)
        if table.n_columns != 1:
            raise ValueError(
                "y must hold one class label per record, got a frame with "
                f"{table.n_columns} columns; select the column of the class"
            )
        return table.read(0)
    held = _held(y)
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


def columns_named(count: int) -> str:
    """Return how many columns have a name, in words."""
    return f"{count} columns" if count else "no column"


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
