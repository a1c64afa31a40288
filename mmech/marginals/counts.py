"""Counts of occupied cells: what every release needs of records, and what adds up.

A release looks at records through a table of counts over their domain. Most cells of
a large domain are empty: the table is kept as the cells that records are in, with how
many are in each. Tables of parts of the records add up to the table of all of them, in
any order and grouping. So parts can be read, counted and thrown away one at a time, or
by several workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_codes
from mmech.domain.domain import Domain, warn_if_read
from mmech.domain.encoding import narrow_type
from mmech.domain.frames import read_table
from mmech.domain.parts import Part, first_row, of_parts
from mmech.exceptions import ParameterError, located
from mmech.operators.marginals import check_domain_shape

Columns: TypeAlias = Sequence[NDArray[Any]] | NDArray[Any]
"""Codes of rows, attribute by attribute: shape (d, N), or d arrays of shape (N,)."""

Cells: TypeAlias = tuple[NDArray[Any], NDArray[np.int64]]
"""Codes of rows (M, d), and how often each is there (M,)."""

MOST_RECORDS = 2**62
"""Arithmetic: most records that are counted, so that sums stay inside int64."""

_BLOCK = 2**16
"""Memory: rows that are numbered at a time, few enough for a fast cache."""

_TABLE = 2**22
"""Memory: cells of a table that is faster to fill than a few rows are to sort."""

_FAN_IN = 8
"""Memory: partial counts that one task adds up."""


class Counts:
    """Occupied cells of a product domain, and how many records are in each. Sensitive.

    Parameters
    ----------
    codes : array_like of int, shape (N, d)
        Value of every attribute, ``0 <= codes[:, i] < domain_shape[i]``.
    domain_shape : sequence of int
        Number of values of every attribute. Public.
    chunk_id : hashable, default=None
        Name of this part of the records, such as a file and its rows. A record counts
        once: two counts with a name in common do not add.

    Raises
    ------
    TypeError
        If codes are not integers.
    ValueError
        If they do not have the shape or lie outside the domain.

    See Also
    --------
    count : makes them of raw records.
    MatrixMechanism.measure : takes them in place of a table of all cells.

    Notes
    -----
    ``a + b`` are the counts of both parts; it is associative and commutative, and
    empty counts change nothing. More than 2^62 records are refused. The object is a
    plain value and may be pickled, to send it between workers that are trusted with the
    records; its text shows neither counts nor how many there are.

    Examples
    --------
    >>> from mmech import Counts
    >>> a = Counts([[0, 1], [0, 1]], (2, 3), chunk_id="first")
    >>> b = Counts([[1, 2], [0, 1]], (2, 3), chunk_id="second")
    >>> a + b
    Counts(2 attributes) [exact and sensitive: do not publish]
    >>> a + b == b + a
    True
    """

    __slots__ = ("_chunks", "_codes", "_multiplicities", "domain_shape")

    def __init__(
        self, codes: ArrayLike, domain_shape: Any, *, chunk_id: Hashable | None = None
    ) -> None:
        shape = check_domain_shape(domain_shape)
        array = check_codes(codes, shape)
        self.domain_shape, self._chunks = shape, chunk_names(chunk_id)
        once = np.broadcast_to(np.int64(1), len(array))
        self._codes, self._multiplicities = occupied_cells([(array.T, once)], shape)

    @classmethod
    def _as_given(
        cls, codes: ArrayLike, domain_shape: Any, times: NDArray[np.int64] | None = None
    ) -> Counts:
        """Return records that are measured but never added to others, not sorted.

        Their codes are inside of the domain. `times` says how often each is there; None
        stands for once.
        """
        array = np.asarray(codes).astype(narrow_type(domain_shape), copy=False)
        once = np.broadcast_to(np.int64(1), len(array))
        cells = array, once if times is None else times
        return cls._of(tuple(domain_shape), cells, frozenset())

    @classmethod
    def _of(
        cls, shape: tuple[int, ...], cells: Cells, chunks: frozenset[Hashable]
    ) -> Counts:
        found = cls.__new__(cls)
        found.domain_shape, found._chunks = shape, chunks
        found._codes, found._multiplicities = cells
        return found

    def __add__(self, other: object) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if other.domain_shape != self.domain_shape:
            raise ValueError(
                f"counts over {len(self.domain_shape)} and over "
                f"{len(other.domain_shape)} attributes do not add, or their sizes "
                "differ; both must be over the same domain"
            )
        check_chunks(self._chunks, other._chunks)
        if self._total() + other._total() > MOST_RECORDS:
            raise OverflowError(
                "counts must be of at most 2^62 records; release them in parts"
            )
        parts = [(own._codes.T, own._multiplicities) for own in (self, other)]
        cells = occupied_cells(parts, self.domain_shape)
        return self._of(self.domain_shape, cells, self._chunks | other._chunks)

    def __radd__(self, other: object) -> Counts:
        """Return these counts for zero, where `sum` starts."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and (
            self.domain_shape == other.domain_shape
            and np.array_equal(self._codes, other._codes)
            and np.array_equal(self._multiplicities, other._multiplicities)
            and self._chunks == other._chunks
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Counts({len(self.domain_shape)} attributes) "
            "[exact and sensitive: do not publish]"
        )

    def _named(self, chunk_id: Hashable | None) -> Counts:
        """Return these counts under one name, in place of those of their parts."""
        cells = self._codes, self._multiplicities
        return self._of(self.domain_shape, cells, chunk_names(chunk_id))

    def _total(self) -> int:
        """Return the number of records. Sensitive."""
        return int(self._multiplicities.sum())


def count(records: Any, schema_or_domain: Any, y: Any = None) -> Counts:
    """Count raw records by the cell that each is in, and by their class if given.

    Time and memory are linear in the records, for domains of any size.

    Parameters
    ----------
    records : frame, array, dictionary of columns or list of rows, shape (N, d)
        Raw values, as `Domain.encode` reads them. Also what `read` takes apart: files,
        folders, and iterables of frames, of arrays or of pairs (X, y), which have the
        class of a schema in them. Also a Dask frame, a Dask array or a list of delayed
        parts, whose partitions are counted where they are.
    schema_or_domain : Domain or mmech_rf.Schema
        Public; what encodes the records.
    y : sequence of class labels, shape (N,), default=None
        Where there are classes, they are one more attribute, the last one. Needs a
        schema with class labels.

    Returns
    -------
    Counts
        Exact and sensitive: `MatrixMechanism.answer` measures them.

    Raises
    ------
    TypeError
        If nothing encodes the records, or there are labels but no classes.
    ValueError
        What `Domain.encode` raises.

    Warns
    -----
    PrivacyLeakWarning
        If the schema says that its values were read from the records.

    Examples
    --------
    >>> from mmech import Attribute, Domain, MatrixMechanism, Prefix, count
    >>> age = Attribute.numeric("age", lower=0, upper=100, n_bins=4)
    >>> D = count([[20], [31], [67]], Domain([age]))
    >>> D
    Counts(1 attributes) [exact and sensitive: do not publish]
    >>> MatrixMechanism(Prefix(4), epsilon=1).answer(D).shape
    (4,)
    """
    own, kind = schema_or_domain, type(schema_or_domain).__name__
    if not callable(getattr(own, "encode", None)):
        raise TypeError(
            "schema_or_domain must be a Schema or a Domain, which encodes records, "
            f"got {kind}; build one from public facts"
        )
    if y is not None and not hasattr(own, "n_classes"):
        raise TypeError(
            f"y needs the class labels of a Schema, got a {kind}; pass a Schema, or "
            "leave y out"
        )
    if getattr(own, "read_from_records", False):
        warn_if_read(own, "schema", stacklevel=2)

    def counted(X: Any, y: Any = None, first_row: int = 0) -> Counts:
        how: dict[str, Any] = {"narrow": True, "first_row": first_row}
        if y is None:
            return Counts(own.encode(X, **how), own.shape)
        codes = np.column_stack(own.encode(X, y, **how))
        return Counts(codes, (*own.shape, own.n_classes))

    if is_lazy(records) or is_lazy(y):
        both = (records,) if y is None else (records, y)
        return count_partitions(counted, *both)

    def of_part(part: Part) -> Counts:
        return counted(part.X, part.y, first_row(part))

    total: Any = sum(of_parts(records, own, of_part, y))
    return total


def encoded_records(
    data: Any,
    own: Domain,
    domain: Domain,
    sizes: tuple[int, ...],
    policies: Mapping[str, str],
) -> tuple[Counts, int]:
    """Return records of any form as counts of cells, and how many are left out.

    Both are sensitive. Records in memory are counted one by one, in their order.

    Parameters
    ----------
    data : as in `count`
    own : Domain
        What encodes the records: part of the domain, maybe with more codes.
    domain : Domain
        Attributes of tables without names, in their order.
    sizes : tuple of int
        Number of values of every code.
    policies : dict
        What becomes of unknown and of missing values.
    """
    if isinstance(data, Counts):
        if data.domain_shape != domain.shape:
            raise ValueError(
                f"data must be counts over the {len(domain.shape)} attributes of the "
                f"domain, got {data!r}, or other sizes; count the records with it"
            )
        codes = data._codes[:, [domain.names.index(name) for name in own.names]]
        return Counts._as_given(codes, sizes, data._multiplicities), 0

    def encoded(X: Any, first: int = 0) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        table = read_table(X)
        if table.names is None:
            names, _ = domain._columns(with_target=False)
            table.locate(names, "domain")
            table = replace(table, names=tuple(names))
        return own._encode(table, narrow=True, first_row=first, **policies)

    if is_lazy(data):

        def counted(X: Any) -> Counts:  # whether a record is kept is its first code
            codes, keep = encoded(X)
            rows = np.column_stack([keep, np.where(keep[:, None], codes, 0)])
            return Counts(rows, (2, *sizes))

        columns, _ = own._columns(with_target=False)
        total = count_partitions(counted, data, columns=columns)
        kept, times = total._codes[:, 0] > 0, total._multiplicities
        rows = total._codes[kept, 1:]
        return Counts._as_given(rows, sizes, times[kept]), int(times[~kept].sum())
    parts = of_parts(data, own, lambda part: encoded(part.X, first_row(part)))
    codes, keep = map(np.concatenate, zip(*parts, strict=True))
    codes = codes if keep.all() else codes[keep]
    return Counts._as_given(codes, sizes), len(keep) - int(keep.sum())


# ---- records that Dask holds -----------------------------------------------------


def is_lazy(records: Any) -> bool:
    """Whether records are a Dask frame, a Dask array, or a list of delayed parts."""
    parts = records if isinstance(records, (list, tuple)) else [records]
    return len(parts) > 0 and all(hasattr(part, "__dask_graph__") for part in parts)


def count_partitions(
    counted: Callable[..., Counts], *both: Any, columns: Sequence[str] = ()
) -> Counts:
    """Return the counts of lazy records, or of records and their classes: sensitive.

    One task counts each partition, in whatever process, and only counts move. No task
    draws anything at random, so that a partition that is lost with its worker is
    counted again, to the same counts. It has a number, so that no sum holds it twice.
    Errors name the partition, and the row in it; the records are neither in the message
    nor in the logs of workers. A frame is read in its `columns` only.
    """
    from dask import delayed

    task = partial(_counts_or_error, counted)
    if all(hasattr(type(table), "map_partitions") for table in both) and hasattr(
        type(both[0]), "columns"
    ):
        X, *labels = both
        _check_as_many([table.npartitions for table in both])
        if columns and all(list(X.columns).count(name) == 1 for name in columns):
            X = X[list(columns)]
        # One expression, so that both are read at once, and nothing else is.
        own = {"meta": (None, object), "enforce_metadata": False}
        found = X.map_partitions(task, *labels, align_dataframes=False, **own)
        parts = found.to_delayed()
    else:
        if all(hasattr(type(table), "rechunk") for table in both):
            rows = both[0].chunks[0]
            if all(len(table) == len(both[0]) for table in both):
                both = tuple(t.rechunk((rows, *t.shape[1:])) for t in both)
        tables = [_delayed_parts(t, name) for t, name in zip(both, "Xy", strict=False)]
        _check_as_many(list(map(len, tables)))
        parts = [delayed(task)(*part) for part in zip(*tables, strict=True)]
    sums = [delayed(_numbered_part)(part, i) for i, part in enumerate(parts)]
    while sums[1:]:
        firsts = range(0, len(sums), _FAN_IN)
        sums = [delayed(sum)(sums[first : first + _FAN_IN]) for first in firsts]
    total: Counts = sums[0].compute()
    return total._named(None)


def _delayed_parts(table: Any, name: str) -> list[Any]:
    """Return the partitions of a Dask array, or of a list of delayed parts."""
    if not is_lazy(table):
        raise TypeError(
            f"{name} must be lazy where the other of X and y is, got "
            f"{type(table).__name__}; give both to Dask, or compute() both"
        )
    if hasattr(type(table), "to_delayed"):
        return list(np.ravel(table.to_delayed()))
    parts = list(table) if isinstance(table, (list, tuple)) else [table]
    if len({part.key for part in parts}) < len(parts):
        raise ValueError(f"{name} has a delayed part twice; every record counts once")
    return parts


def _check_as_many(partitions: list[int]) -> None:
    if len(set(partitions)) > 1:
        raise ValueError(
            f"X has {partitions[0]} partitions but y has {partitions[1]}; take both "
            "from one frame, or rechunk them alike"
        )


def _counts_or_error(counted: Callable[..., Counts], *both: Any) -> Counts | Exception:
    """Return an error, because workers log the arguments of tasks that raise."""
    try:
        return counted(*both)
    except (TypeError, ValueError) as error:
        return error.with_traceback(None)


def _numbered_part(found: Counts | Exception, number: int) -> Counts:
    """Return the counts of a partition under its number, or raise what it has found."""
    with located(f"partition {number}"):
        if isinstance(found, Exception):
            raise found
    return found._named(number)


def chunk_names(chunk_id: Hashable | None) -> frozenset[Hashable]:
    """Return the name of a part of the records, if it has one."""
    try:
        return frozenset() if chunk_id is None else frozenset([chunk_id])
    except TypeError:
        raise TypeError(
            "chunk_id must be hashable, such as a number, text or a tuple of these, "
            f"got {type(chunk_id).__name__}"
        ) from None


def check_chunks(known: Set[Hashable], new: Set[Hashable]) -> None:
    """Raise if a part of the records has the name of one that was counted."""
    common = known & new
    if common:
        name = min(map(repr, common))
        raise ParameterError(
            "chunk_id",
            "must name other records than before",
            f"{name} twice",
            "count every part of the records once",
        )


def occupied_cells(
    parts: Sequence[tuple[Columns, NDArray[np.int64]]], domain_shape: tuple[int, ...]
) -> Cells:
    """Return distinct rows (M, d) in lexicographic order, and how often each occurs.

    A part is columns of codes inside the domain, and how often each row is there. The
    rows are unsigned integers.
    """
    n_rows = sum(len(columns[0]) for columns, _ in parts)
    n_cells = math.prod(domain_shape)
    if n_cells <= max(4 * n_rows, min(16 * n_rows, _TABLE), 2**12):
        table = np.zeros(n_cells, np.int64)
        for columns, multiplicities in parts:
            for start in range(0, len(columns[0]), _BLOCK):
                rows = slice(start, start + _BLOCK)
                (cells,) = _numbered([c[rows] for c in columns], domain_shape)
                np.add.at(table, cells.astype(np.intp), multiplicities[rows])
        found = np.flatnonzero(table != 0)
        return _rows_of(found, domain_shape), table[found]
    joined = [np.concatenate(both) for both in zip(*(c for c, _ in parts), strict=True)]
    words = _numbered(joined, domain_shape)
    # Counts are in order: a stable sort merges them with what is added.
    order = (
        np.lexsort(words[::-1]) if words[1:] else np.argsort(words[0], kind="stable")
    )
    new = np.ones(n_rows, bool)
    new[1:] = False
    for word in words:
        ordered = word[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    firsts = np.flatnonzero(new)
    times = np.concatenate([numbers for _, numbers in parts])
    codes = np.empty((firsts.size, len(joined)), narrow_type(domain_shape))
    for i, column in enumerate(joined):
        codes[:, i] = column[order[firsts]]
    return codes, np.add.reduceat(times[order], firsts)


def _rows_of(cells: NDArray[np.intp], domain_shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the codes of cells that are numbered in C order, shape (M, d)."""
    codes = np.empty((cells.size, len(domain_shape)), narrow_type(domain_shape))
    rest = cells.astype(np.min_scalar_type(math.prod(domain_shape)))
    for i in reversed(range(len(domain_shape))):
        rest, codes[:, i] = np.divmod(rest, rest.dtype.type(domain_shape[i]))
    return codes


def _numbered(columns: Columns, domain_shape: tuple[int, ...]) -> list[NDArray[Any]]:
    """Return numbers of cells, of as many neighbouring attributes as a word holds.

    Attributes are joined in the narrowest type first, so that most of the work is on
    bytes, many at a time.
    """
    words = [
        (column, size)
        for column, size in zip(columns, domain_shape, strict=True)
        if size > 1
    ]
    for bits in (8, 16, 32, 63):
        kind = np.dtype(f"u{-(-bits // 8)}")
        joined: list[tuple[NDArray[Any], int]] = []
        for word, size in words:
            if joined and joined[-1][1] * size <= 2**bits:
                before, cells = joined[-1]
                number = before.astype(kind)
                number *= kind.type(size)
                number += word.astype(kind, copy=False)
                joined[-1] = number, cells * size
            else:
                joined.append((word, size))
        words = joined
    return [word for word, _ in words] or [np.zeros(columns[0].shape[0], np.int64)]
