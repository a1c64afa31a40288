"""Intervals of tables: the laws of the errors of a field, by table, node or cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple, Self

import numpy as np

from mmech.arrays import Floats, Integers, Subset
from mmech.mechanism import MatrixMechanism
from mmech.noise import Law
from mmech.noise.tails import CellLaws, ErrorLaw, Errors, Tails, laws_of_rows
from mmech.operators.base import product_of
from mmech.tables.field import (
    FLAT,
    VARIANCE_FLOOR,
    Field,
    Measured,
    Solution,
    measured_by,
)
from mmech.tables.levels import Chain, subsets_of
from mmech.tables.norm_tails import set_law

LISTED = 2**24
"""Most coefficients of noise of a table with closed cells that are listed."""


class Intervals(Field):
    """A field whose errors have laws: those of the noise of mechanisms.

    The law of the noise of a later step is known given what was measured before. What
    was *chosen* depends on the first tables. So numbers of all steps together are for
    published counts, and those of one step, by `step`, for intervals.

    Parameters
    ----------
    mechanisms : sequence of MatrixMechanism
        Measure marginals, in steps: single attributes first.
    known, closed, chain
        As in `Field`.
    part : collection of tuple of int, optional
        The tables that count, of those that are measured.

    Attributes
    ----------
    steps : sequence of Intervals
        One for every mechanism.
    """

    def __init__(
        self,
        mechanisms: Sequence[MatrixMechanism],
        known: Mapping[Subset, Any] = {},
        closed: Mapping[Subset, Any] = {},
        chain: Chain = FLAT,
        part: Collection[Subset] | None = None,
    ) -> None:
        form: Any = mechanisms[0].released.form  # of marginals, these are `Marginals`
        measured = [
            table
            for of in mechanisms
            for table in measured_by(of)
            if part is None or table.subset in part
        ]
        super().__init__(form.domain_shape, measured, known, closed, chain)
        self._law = mechanisms[0].law
        self._laws: dict[Subset, Errors] = {}
        self.steps: Sequence[Intervals] = [self]
        if len(mechanisms) > 1:
            self.steps = [Intervals([mechanism]) for mechanism in mechanisms]

    @classmethod
    def of(
        cls,
        law: Law,
        sizes: Sequence[int],
        measured: Sequence[Measured],
        chain: Chain = FLAT,
    ) -> Self:
        """Return the same of tables with independent noise of a law."""
        made = cls.__new__(cls)
        Field.__init__(made, sizes, measured, chain=chain)
        made._law, made._laws, made.steps = law, {}, [made]
        return made

    def step(self, subset: Subset) -> int:
        """Return the step that a table has its intervals from."""
        first = min(len(subset) // 2, len(self.steps) - 1, 1)
        steps = range(first, len(self.steps))
        return next((k for k in steps if self.steps[k].measures(subset)), -1)

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of errors; in steps, of what margins do not tell."""
        if len(self.steps) == 1:
            return super().spread(subset)
        rest = np.prod([1 - 1 / self.sizes[i] for i in subset])
        return max(self.contrast_variance(subset) * float(rest), VARIANCE_FLOOR)

    def errors(self, subset: Subset, level: float) -> tuple[Floats, Floats]:
        """Return the standard errors, and half the widths of intervals, of all cells.

        Parameters
        ----------
        subset : tuple of int
        level : float
            Probability of an interval.
        """
        step = self.steps[self.step(subset)]
        places: Any = np.arange(self._cells(subset))
        if not step._closed:
            nodes: Any = np.arange(product_of(step._nodes(step._deep(subset))))
            places = step._at_cells(nodes, subset).ravel()
        error, width = step.law(subset).at(level, places)
        return np.broadcast_to(error, places.size), np.broadcast_to(width, places.size)

    def law(self, subset: Subset) -> Errors:
        """Return the laws of errors by node of a table, or by cell if some are closed.

        A table without levels is one node, and noise of all counts is told apart. At
        nodes of a tree noise of a node, and above and below it, is told apart.
        """
        if subset not in self._laws:
            if self._closed:
                self._laws[subset] = self._cell_laws(subset)
            elif any(m.total is not None for m in self.measured):
                self._laws[subset] = set_law(self, subset)
            else:
                self._laws[subset] = self._tails(subset)
        return self._laws[subset]

    def _tails(self, subset: Subset) -> Tails:
        levels, others = self.chain.places(subset)
        n_nodes, terms = product_of(self._nodes(levels)), []
        # Measured tables at the same levels, and with the same of the axes, are alike.
        held = self._holds[: self._n, list(others)] @ (1 << np.arange(len(others)))
        keys = np.column_stack([self._levels[: self._n], held])
        kinds, which = np.unique(keys, axis=0, return_inverse=True)
        for j, (*key, mask) in enumerate(kinds.tolist()):
            measured = tuple(key)
            common = tuple(i for a, i in enumerate(others) if mask >> a & 1)
            at, nodes = (
                np.flatnonzero(which.ravel() == j),
                self._below(measured, levels),
            )
            rows = self._flat[at] / self._cells(common)
            shares = self._shares[at] / self._flat[at]
            patterns = self._patterns(others, common, measured, levels)
            for _, coefficient, number in patterns:
                size, many = np.abs(coefficient), np.ones(n_nodes)
                if nodes is not None:  # as many equal ones, of the same sums of squares
                    squares, fourth = (np.bincount(nodes, size**p) for p in (2, 4))
                    some = fourth > 0
                    many = np.where(some, squares**2, 1.0) / np.where(some, fourth, 1.0)
                    size = np.sqrt(squares / many)
                terms.append(
                    (
                        np.multiply.outer(shares, np.broadcast_to(size, n_nodes)),
                        np.multiply.outer(rows * number, many),
                        at,
                    )
                )
        each = [np.concatenate(column) for column in zip(*terms, strict=True)]
        sizes, numbers, at = each or (*np.zeros((2, 0, n_nodes)), np.zeros(0, np.int64))
        if self.chain.axes:  # steps of coefficients are looked for table by table
            order = np.argsort(at, kind="stable")
            sizes, numbers, at = sizes[order], numbers[order], at[order]
        return Tails(
            self._law,
            self.node_variances(subset),
            sizes,
            numbers,
            self._variances[at],
            self._parameters[at],
        )

    def _patterns(
        self,
        others: Subset,
        common: Subset,
        measured: Subset,
        levels: Subset,
    ) -> Iterator[tuple[Subset, Floats, int]]:
        """Yield axes that match, what cells count for where they do, and how many do.

        `common` are the axes in which they may match a table of the levels `measured`.
        """

        @cache
        def covariance(part: Subset) -> Floats:
            each = zip(self.trees(part), measured, levels, strict=True)
            factors = [t.covariances(max(k, n))[min(k, n)] for t, k, n in each]
            return self._cells(part) * reduce(np.multiply.outer, factors).ravel()

        for matching in subsets_of(common):
            number = product_of(self.sizes[i] - 1 for i in common if i not in matching)
            coefficient: Any = 0.0
            for part in subsets_of(common):
                share = covariance(part)
                for i in others:
                    even = 1 / self.sizes[i]
                    share = share * ((i in matching) - even if i in part else even)
                coefficient = coefficient + share
            if number and np.any(coefficient):
                yield matching, coefficient, number

    def _below(self, measured: Subset, levels: Subset) -> Integers | None:
        """Return the nodes of levels above all those that are measured below them."""
        if all(k <= level for k, level in zip(measured, levels, strict=True)):
            return None
        nodes = np.zeros(1, np.int64)
        for hierarchy, k, level in zip(self.chain.all, measured, levels, strict=True):
            above = hierarchy.ancestors(max(k, level), level)
            nodes = np.add.outer(nodes * hierarchy.size(level), above).ravel()
        return nodes

    def laws(self, coefficients: Floats) -> list[ErrorLaw]:
        """Return the law of every row of coefficients of all noise, (rows, p)."""
        cells = [self._cells(m.subset) for m in self.measured]
        of_cells = (np.repeat(a, cells) for a in (self._variances, self._parameters))
        return laws_of_rows(self._law, coefficients, *of_cells)

    def _cell_laws(self, subset: Subset) -> Errors:
        """Return the laws of errors of all cells of a table, where some are closed."""
        first, which = self.alike(subset)
        if first.size * sum(self._cells(m.subset) for m in self.measured) <= LISTED:
            return CellLaws(self.laws(self.coefficients(subset, first)), which)
        return self._cell_tails(subset, first, which)

    def _cell_tails(self, subset: Subset, first: Integers, which: Integers) -> Tails:
        """Return the laws of errors of cells from the counts that hold each of them.

        Those are one in every measured table of a level of the cell, or above, and of
        some of its flat axes. All other noise is not told apart. `first` are cells that
        stand for others, and `which` the number of each cell's.
        """
        levels, others = self.chain.places(subset)
        nodes, codes = self._places(subset, first)
        sizes, holding = [], []
        moved = self.moved(subset, first)
        for j, m in enumerate(self.measured):
            above, common = self.chain.places(m.subset)
            if {*common} <= {*others} and (self._levels[j] <= levels).all():
                patterns = self._patterns(others, common, above, levels)
                most = {axes: size for axes, size, _ in patterns}.get(common)
                if most is not None:
                    cells = self._held_by(codes, nodes, m.subset)
                    own_moved = self.moved(m.subset, cells)
                    plain = self._at_cells(most / self._flat[j], subset).reshape(-1)[
                        first
                    ]
                    rest = plain - np.einsum("ij,ij->i", moved, own_moved)
                    sizes.append(np.abs(rest) * self._shares[j])
                    holding.append(j)
        if not sizes:  # noise of any table stands for what is not told apart
            holding, sizes = [0], [np.zeros(first.size)]
        return Tails(
            self._law,
            self.variances(subset).ravel()[first],
            np.array(sizes),
            np.ones((len(sizes), first.size)),
            self._variances[holding],
            self._parameters[holding],
            which,
        )

    def cells_above(self, subset: Subset, other: Subset) -> Integers:
        """Return the cell of a coarser table that holds each one of a table."""
        nodes, codes = self._places(subset, np.arange(self._cells(subset)))
        return self._held_by(codes, nodes, other)

    def _held_by(
        self, codes: Mapping[int, Integers], nodes: Any, other: Subset
    ) -> Integers:
        """Return the cell of a coarser table that holds each of some, (cells,)."""
        codes = dict(codes)
        for hierarchy, (level, at) in zip(self.chain.all, nodes, strict=True):
            for k, axis in enumerate(hierarchy.axes[:level], 1):
                codes[axis] = hierarchy.ancestors(level, k)[at]
        place: Any = np.zeros(len(nodes[0][1]), np.int64)
        for i in other:
            place = place * self.sizes[i] + codes[i]
        return place


class Apart(Intervals):
    """Intervals of parts of tables, each with a least squares of its own.

    A table has those of the part that tells it best.

    Parameters
    ----------
    mechanism : MatrixMechanism
    parts : sequence of (Chain, sequence of tuple of int)
        Tables that are measured, each in one part, with the hierarchy of the part.
    chain : Chain
        All hierarchies.
    """

    def __init__(
        self,
        mechanism: MatrixMechanism,
        parts: Sequence[tuple[Chain, Sequence[Subset]]],
        chain: Chain,
    ) -> None:
        self.steps = [
            Intervals([mechanism], chain=alone, part=tables) for alone, tables in parts
        ]
        self.chain, self.sizes = chain, self.steps[0].sizes
        self.measured = tuple(measured_by(mechanism))
        self._best: dict[Subset, int] = {}

    def step(self, subset: Subset) -> int:
        """Return the part that a table is told by."""
        if subset not in self._best:
            errors = [
                part.node_variances(subset).mean() if part.measures(subset) else np.inf
                for part in self.steps
            ]
            self._best[subset] = int(np.argmin(errors))
        return self._best[subset]

    def measures(self, subset: Subset) -> bool:
        """Return whether tables of a part add up to one."""
        return any(part.measures(subset) for part in self.steps)

    def estimate(self, values: Any) -> Any:
        """Return the tables of least error of each part."""
        array = np.asarray(values, np.float64)
        cells = [self._cells(table.subset) for table in self.measured]
        tables = np.split(array, np.cumsum(cells)[:-1])
        solutions = []
        for part in self.steps:
            held = {table.subset for table in part.measured}
            each = zip(self.measured, tables, strict=True)
            noisy = np.concatenate([table for m, table in each if m.subset in held])
            solutions.append(part.estimate(noisy))
        return ApartSolution(self, solutions)

    def law(self, subset: Subset) -> Errors:
        """Return the laws of errors of a table."""
        return self.steps[self.step(subset)].law(subset)

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of errors."""
        return self.steps[self.step(subset)].spread(subset)

    def variances(self, subset: Subset) -> Floats:
        """Return the variances of all cells of a table."""
        return self.steps[self.step(subset)].variances(subset)

    def contrast_variance(self, subset: Subset) -> float:
        """Return the mean variance of a contrast."""
        return self.steps[self.step(subset)].contrast_variance(subset)


class ApartSolution(NamedTuple):
    """Estimates of tables, each by the part that tells it best."""

    field: Apart
    parts: Sequence[Solution]

    def marginal(self, attributes: Any) -> Floats:
        """Return a table in C order of its attributes, (cells,)."""
        subset = tuple(attributes)
        return self.parts[self.field.step(subset)].marginal(subset)
