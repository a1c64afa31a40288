"""Answers of strategies from occupied cells, where all cells are too many to list.

A table of counts over 120 binary attributes has more cells than atoms in a person;
the cells that records are in are a few thousand rows. Strategies that know how are
measured from these, block by block, with the same exact integers as from the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import magnitude
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.marginals.counts import Counts
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.compose import Merged
from mmech.operators.partition import PartitionStack
from mmech.structure.spectrum import answers_by_marginals


@dataclass(frozen=True, eq=False)
class OccupiedCells:
    """Codes of cells attribute by attribute, with their numbers of records. Sensitive.

    `codes` are of shape (d, M). `columns` (M,) says in which of the columns of the
    table, such as classes, the records are, where there are several.
    """

    domain_shape: tuple[int, ...]
    codes: NDArray[Any]
    multiplicities: NDArray[np.int64]
    columns: NDArray[np.int64] | None
    n_columns: int

    @classmethod
    def of(cls, counts: Counts, n_cells: int) -> OccupiedCells:
        """Return counts over so many cells, and perhaps a column of a table.

        Where the last attribute is one more than the cells have, it is the column.
        """
        shape, codes = counts.domain_shape, counts._codes
        columns, n_columns = None, 1
        if len(shape) > 1 and product_of(shape[:-1]) == n_cells != product_of(shape):
            n_columns, columns = shape[-1], codes[:, -1].astype(np.int64)
            shape, codes = shape[:-1], codes[:, :-1]
        by_attribute = np.ascontiguousarray(codes.T)
        return cls(shape, by_attribute, counts._multiplicities, columns, n_columns)

    def tally(self, place: NDArray[np.int64], entries: int) -> NDArray[np.int64]:
        """Return how many records lie at each place, by column, (entries, k)."""
        if self.columns is not None:
            place = place * self.n_columns + self.columns
        sums = np.zeros(entries * self.n_columns, np.int64)
        np.add.at(sums, place, self.multiplicities)
        return sums.reshape(entries, self.n_columns)

    def table(self, attributes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the exact marginal over some attributes, shape (n_a, k)."""
        sizes = [self.domain_shape[i] for i in attributes]
        entries = product_of(sizes)
        if entries * self.n_columns > LIMITS.table_entries:
            raise DomainTooLargeError(
                f"a table of counts over {len(attributes)} attributes has "
                f"{magnitude(entries * self.n_columns)} entries, too many (at most "
                f"{LIMITS.table_entries}); measure marginals over fewer attributes, "
                "such as optimize(workload, template='marginals') chooses"
            )
        return self.tally(self.cells(attributes), entries)

    def cells(self, attributes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the cell of every row in the marginal over some attributes."""
        place = np.zeros(self.codes.shape[1], np.int64)
        for i in attributes:
            place = place * self.domain_shape[i] + self.codes[i]
        return place

    @property
    def attributes(self) -> tuple[int, ...]:
        """The positions of all attributes."""
        return tuple(range(len(self.domain_shape)))

    def grouped(self, groups: NDArray[Any], n_groups: int) -> NDArray[np.int64]:
        """Return the number of records by group of their cell; -1 is none."""
        own = groups[self.cells(self.attributes)].astype(np.int64)
        # Records outside all groups go to a last place that is dropped.
        return self.tally(np.where(own < 0, n_groups, own), n_groups + 1)[:-1]


def exact_answers(strategy: QueryMatrix, records: OccupiedCells) -> NDArray[Any]:
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
    own = records.domain_shape
    known = tuple(getattr(strategy, "domain_shape", None) or own)
    if strategy.shape[1] != product_of(own) or known != own:
        raise ValueError(
            f"the records are over {_named(own)} but the strategy is over "
            f"{_named(known, strategy.shape[1])}; both must be the same domain"
        )
    answers = _answers(strategy, records)
    return answers if records.columns is not None else answers[:, 0]


@singledispatch
def _answers(strategy: QueryMatrix, records: OccupiedCells) -> NDArray[Any]:
    answers = answers_by_marginals(strategy, records.domain_shape, records.table)
    if answers is None:
        answers = strategy.matmat(records.table(records.attributes))
    return np.asarray(answers)


@_answers.register(PartitionStack)
def _(strategy: PartitionStack, records: OccupiedCells) -> NDArray[Any]:
    partitions = zip(strategy._labels, np.asarray(strategy.n_groups), strict=True)
    return np.concatenate(
        [records.grouped(labels, int(size)) for labels, size in partitions]
    )


@_answers.register(Merged)
def _(strategy: Merged, records: OccupiedCells) -> NDArray[Any]:
    inner = strategy.operator
    return np.asarray(inner.matmat(records.grouped(strategy._groups, inner.shape[1])))


def _named(domain_shape: tuple[int, ...], n_cells: int | None = None) -> str:
    cells = product_of(domain_shape) if n_cells is None else n_cells
    return f"{len(domain_shape)} attributes with {magnitude(cells)} cells"
