"""Records as they are, for domains whose cells are too many to count.

A table of counts over 120 binary attributes has more cells than atoms in a person;
the records are a few thousand rows. Strategies that know how are measured from the
records, block by block, with the same exact integers as from the counts.
"""

from __future__ import annotations

import os
from functools import singledispatch
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_codes, check_integer, magnitude, plain_array
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.marginals.counts import MOST_RECORDS, Counts
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.marginals import check_domain_shape
from mmech.operators.merged import Merged
from mmech.operators.partition import PartitionStack
from mmech.privacy.guards import check_process
from mmech.structure.by_marginals import answers_by_marginals

__all__ = ["Records", "exact_answers"]


class Records:
    """Encoded records over a product domain. Sensitive.

    Stands for the counts (n,) or (n, k) of its cells wherever a mechanism measures,
    without listing them. One record is one count: adding or removing one changes
    the answers of a strategy by one of its columns.

    Parameters
    ----------
    codes : array_like of int, shape (N, d)
        Value of every attribute, ``0 <= codes[:, i] < domain_shape[i]``.
    domain_shape : sequence of int
        Number of values of every attribute. Public.
    columns : array_like of int, shape (N,), default=None
        Column of the table of counts, such as a class, of every record.
    n_columns : int, default=1
        Number of columns k. Public: never taken from the records.
    signs : array_like of int, shape (N,), default=None
        1 or -1 for every record, to measure a difference of two classes: every record
        then adds its sign, and a mechanism needs ``signed=True``.
    multiplicities : array_like of int, shape (N,), default=None
        How often every record is there; ``None`` for once.

    Raises
    ------
    TypeError
        If codes, columns or multiplicities are not integers.
    ValueError
        If they do not have the shape or lie outside the domain. The message does
        not tell any value.
    OverflowError
        If there are more than 2^62 records.

    See Also
    --------
    MatrixMechanism.measure : takes records in place of counts.
    Counts : records as occupied cells, which add up.

    Notes
    -----
    The object holds the records: it cannot be pickled or copied, and its text shows
    neither values nor how many there are. In a process that was forked from its own
    it is not measured.

    Examples
    --------
    >>> from mmech import Marginals, MatrixMechanism, Records
    >>> sizes = (2,) * 120
    >>> records = Records([[0] * 120, [1] * 120], sizes)
    >>> records
    Records(120 attributes, 1 column) [holds sensitive records: do not save or share]
    >>> strategy = Marginals(sizes, {(0, 1): 1})
    >>> mechanism = MatrixMechanism(strategy, strategy, epsilon=1.0)
    >>> mechanism.measure(records).values.shape
    (4,)
    """

    __slots__ = (
        "_codes",
        "_columns",
        "_multiplicities",
        "_negative",
        "_process",
        "domain_shape",
        "n_columns",
    )

    domain_shape: tuple[int, ...]
    n_columns: int

    def __init__(
        self,
        codes: ArrayLike,
        domain_shape: Any,
        *,
        columns: ArrayLike | None = None,
        n_columns: int = 1,
        signs: ArrayLike | None = None,
        multiplicities: ArrayLike | None = None,
    ) -> None:
        self._process = os.getpid()
        self.domain_shape = check_domain_shape(domain_shape)
        self.n_columns = check_integer(n_columns, "n_columns")
        array = check_codes(codes, self.domain_shape)
        self._codes = _by_attribute(array, self.domain_shape)
        self._columns: NDArray[np.int64] | None = None
        if columns is not None:
            self._columns = _check_columns(columns, array.shape[0], self.n_columns)
        elif self.n_columns != 1:
            raise ValueError(
                f"columns must say which of the {self.n_columns} columns every record "
                "belongs to, got None"
            )

        self._negative: NDArray[np.bool_] | None = None
        if signs is not None:
            self._negative = _check_signs(signs, array.shape[0])
        self._multiplicities: NDArray[np.int64] | None = None
        if multiplicities is not None:
            self._multiplicities = _check_multiplicities(multiplicities, array.shape[0])

    @classmethod
    def _of(cls, counts: Counts, n_cells: int) -> Records:
        """Return counted records over so many cells, and perhaps a column of a table.

        Where the last attribute is one more than the cells have, it is the column.
        """
        shape, codes = counts.domain_shape, counts._codes
        # Counts were checked where they were made.
        found = cls.__new__(cls)
        found._process, found.n_columns = os.getpid(), 1
        found._columns = found._negative = None
        if len(shape) > 1 and product_of(shape[:-1]) == n_cells != product_of(shape):
            found.n_columns, found._columns = shape[-1], codes[:, -1].astype(np.int64)
            shape, codes = shape[:-1], codes[:, :-1]
        found.domain_shape = shape
        found._codes = _by_attribute(codes, shape)
        found._multiplicities = counts._multiplicities
        return found

    @property
    def _number(self) -> int:
        """Number of records. Sensitive."""
        if self._multiplicities is None:
            return self._codes.shape[1]
        return int(self._multiplicities.sum())

    @property
    def signed(self) -> bool:
        """Whether records count with a sign."""
        return self._negative is not None

    def _tally(self, place: NDArray[np.int64], entries: int) -> NDArray[np.int64]:
        """Return how many records lie at each place, by their signs. Sensitive."""
        if self._multiplicities is not None:
            numbers = self._multiplicities
            if self._negative is not None:
                numbers = np.where(self._negative, -numbers, numbers)
            sums = np.zeros(entries, np.int64)
            np.add.at(sums, place, numbers)
            return sums
        counts = np.bincount(place, minlength=entries)
        if self._negative is None:
            return counts
        return counts - 2 * np.bincount(place[self._negative], minlength=entries)

    def __repr__(self) -> str:
        columns = f"{self.n_columns} column{'s' if self.n_columns > 1 else ''}"
        return (
            f"Records({len(self.domain_shape)} attributes, {columns}) "
            "[holds sensitive records: do not save or share]"
        )

    def _refuse(self, *args: Any) -> NoReturn:
        raise TypeError(
            "Records hold sensitive data and cannot be pickled or copied; save what a "
            "mechanism released instead"
        )

    __reduce_ex__ = __reduce__ = __copy__ = __deepcopy__ = __getstate__ = _refuse

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "Records are not an array of counts; pass them to measure() or answer()"
        )

    @property
    def n_cells(self) -> int:
        """Number of cells of the domain, however large."""
        return product_of(self.domain_shape)

    def _table(self, attributes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the exact marginal over some attributes, shape (n_a, k). Sensitive."""
        sizes = [self.domain_shape[i] for i in attributes]
        entries = product_of(sizes) * self.n_columns
        if entries > LIMITS.table_entries:
            raise DomainTooLargeError(
                f"a table of counts over {len(attributes)} attributes has "
                f"{magnitude(entries)} entries, too many (at most "
                f"{LIMITS.table_entries}); measure marginals over fewer attributes, "
                "such as optimize(workload, template='marginals') chooses"
            )
        place = np.zeros(self._codes.shape[1], np.int64)
        for i, size in zip(attributes, sizes, strict=True):
            place = place * size + self._codes[i]
        if self._columns is not None:
            place = place * self.n_columns + self._columns
        return self._tally(place, entries).reshape(-1, self.n_columns)

    def _cells(self) -> NDArray[np.int64]:
        """Return the cell of every record. Sensitive."""
        place = np.zeros(self._codes.shape[1], np.int64)
        for size, codes in zip(self.domain_shape, self._codes, strict=True):
            place = place * size + codes
        return place

    def _grouped(self, groups: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
        """Return the number of records by group of their cell; -1 is none."""
        own = groups[self._cells()].astype(np.int64)
        place = own * self.n_columns
        if self._columns is not None:
            place = place + self._columns
        # Records outside all groups go to a last place that is dropped.
        entries = n_groups * self.n_columns
        counts = self._tally(np.where(own < 0, entries, place), entries + 1)
        return counts[:entries].reshape(n_groups, self.n_columns)


def exact_answers(strategy: QueryMatrix, records: Records) -> NDArray[Any]:
    """Return A D of the records, without noise and without the cells. Sensitive.

    Marginals, boxes, products of attributes, labelled partitions and what is composed
    of them are tabulated from the records; other strategies from the counts of the
    cells. Right where the number of records times the sensitivity is below 2^62, which
    depends on records: a mechanism checks it after it was paid.

    Raises
    ------
    ValueError
        If the domains differ.
    DomainTooLargeError
        If a table of counts would have more than 2^27 entries.
    """
    check_process(records._process, "a set of Records")
    known = getattr(strategy, "domain_shape", None) or records.domain_shape
    if strategy.shape[1] != records.n_cells or tuple(known) != records.domain_shape:
        raise ValueError(
            f"the records are over {_named(records.domain_shape)} but the strategy is "
            f"over {_named(tuple(known), strategy.shape[1])}; both must be the same "
            "domain"
        )
    answers = _answers(strategy, records)
    return answers if records._columns is not None else answers[:, 0]


@singledispatch
def _answers(strategy: QueryMatrix, records: Records) -> NDArray[Any]:
    answers = answers_by_marginals(strategy, records.domain_shape, records._table)
    if answers is None:
        cells = records._table(tuple(range(len(records.domain_shape))))
        answers = strategy.matmat(cells)
    return np.asarray(answers)


@_answers.register(PartitionStack)
def _(strategy: PartitionStack, records: Records) -> NDArray[Any]:
    partitions = zip(strategy._labels, np.asarray(strategy.n_groups), strict=True)
    return np.concatenate(
        [records._grouped(labels, int(size)) for labels, size in partitions]
    )


@_answers.register(Merged)
def _(strategy: Merged, records: Records) -> NDArray[Any]:
    inner = strategy.operator
    merged = records._grouped(strategy._groups, inner.shape[1])
    return np.asarray(inner.matmat(merged))


def _named(domain_shape: tuple[int, ...], n_cells: int | None = None) -> str:
    cells = product_of(domain_shape) if n_cells is None else n_cells
    return f"{len(domain_shape)} attributes with {magnitude(cells)} cells"


def _check_columns(columns: ArrayLike, n: int, k: int) -> NDArray[np.int64]:
    array = plain_array(columns, "columns")
    if array.dtype.kind not in "iu":
        raise TypeError(f"columns must be integers, got dtype {array.dtype}")
    if array.shape != (n,):
        raise ValueError(
            "columns must hold one entry per record, in a vector as long as codes"
        )
    if ((array < 0) | (array >= k)).any():
        raise ValueError(
            f"columns must lie in 0..{k - 1}, as n_columns={k} says; some record lies "
            "outside"
        )
    return _frozen(array.astype(np.int64))


def _check_multiplicities(multiplicities: ArrayLike, n: int) -> NDArray[np.int64]:
    array = plain_array(multiplicities, "multiplicities")
    if array.dtype.kind not in "iu":
        raise TypeError(f"multiplicities must be integers, got dtype {array.dtype}")
    if array.shape != (n,) or (array < 0).any():
        raise ValueError(
            "multiplicities must hold one number of at least zero for every record"
        )
    if array.sum(dtype=np.float64) > MOST_RECORDS:
        raise OverflowError(
            "records must be at most 2^62, each as often as it is there; release them "
            "in parts"
        )
    return _frozen(array.astype(np.int64))


def _check_signs(signs: ArrayLike, n: int) -> NDArray[np.bool_]:
    array = plain_array(signs, "signs")
    if array.dtype.kind != "i":
        raise TypeError(f"signs must be signed integers, got dtype {array.dtype}")
    if array.shape != (n,) or (np.abs(array) != 1).any():
        raise ValueError("signs must hold 1 or -1 for every record")
    negative: NDArray[np.bool_] = _frozen(array < 0)
    return negative


def _by_attribute(codes: NDArray[Any], domain_shape: tuple[int, ...]) -> NDArray[Any]:
    """Return a copy of codes (N, d) as (d, N), in the narrowest type."""
    narrow = np.min_scalar_type(max(domain_shape) - 1)
    return _frozen(np.array(codes.T, dtype=narrow, order="C", copy=True))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
