"""Intervals of tables: the laws of the errors of a field, by table, node or cell."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any, NamedTuple, Self

import numpy as np

from mmech.arrays import Floats, Integers, Subset
from mmech.mechanism import MatrixMechanism
from mmech.noise import Law
from mmech.noise.tails import LEAST_SHARE, CellLaws, Errors, Tails, laws_of_rows
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
    ) -> None:
        form: Any = mechanisms[0].released.form  # of marginals, these are `Marginals`
        measured = [table for of in mechanisms for table in measured_by(of)]
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
        places = step.places_of(subset)
        error, width = step.law(subset).at(level, places)
        return np.broadcast_to(error, places.size), np.broadcast_to(width, places.size)

    def places_of(self, subset: Subset) -> Integers:
        """Return the place in the laws of a table of every cell."""
        if self._closed:
            return np.arange(self._cells(subset))
        nodes: Any = np.arange(product_of(self._nodes(self._deep(subset))))
        return self._at_cells(nodes, subset).ravel().astype(np.int64)

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
            at = np.flatnonzero(which.ravel() == j)
            nodes = self._below(measured, levels)
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

    def _cell_laws(self, subset: Subset) -> Errors:
        """Return the laws of errors of all cells of a table, where some are closed."""
        first, which = self.alike(subset)
        cells = [self._cells(m.subset) for m in self.measured]
        if first.size * sum(cells) > LISTED:
            return self._cell_tails(subset, first, which)
        laws = laws_of_rows(
            self._law,
            self.coefficients(subset, first),
            np.repeat(self._variances, cells),
            np.repeat(self._parameters, cells),
            LEAST_SHARE * float(self._variances.max()),
        )
        return CellLaws(laws, which)

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
                    plain = self._at_cells(most / self._flat[j], subset).ravel()[first]
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


class Apart(Intervals):
    """Intervals of tables, each told by the tree of the hierarchy that tells it best.

    Beside a tree, levels of other hierarchies are attributes like any other. Where all
    combinations of levels are measured in a row, all hierarchies tell as well. Tables
    of equal totals have no levels, and tell themselves.

    Parameters
    ----------
    law : Law
        Of tables with independent noise.
    sizes, measured
        As in `Field`.
    chain : Chain
        All hierarchies.
    asked : collection of tuple of int
        Tables that are told as a whole: they have intervals.
    """

    def __init__(
        self,
        law: Law,
        sizes: Sequence[int],
        measured: Sequence[Measured],
        chain: Chain,
        asked: Collection[Subset],
    ) -> None:
        self.sizes, self.measured, self.chain = tuple(sizes), tuple(measured), chain
        self._law, self.asked = law, asked
        alone = [k for k, m in enumerate(measured) if m.total is None]
        rows = chain.grids([measured[k].subset for k in alone])
        parts = [(alone, tree) for tree in chain.apart]
        parts += [(alone[row], chain) for row in rows]
        parts += [([k for k in range(len(measured)) if k not in {*alone}], FLAT)]
        self._tables = [tables for tables, _ in parts if tables]
        self.steps = [
            Intervals.of(law, sizes, [measured[k] for k in tables], tree)
            for tables, tree in parts
            if tables
        ]
        self._told: dict[Subset, tuple[int, Subset] | None] = {}

    def with_more(self, measured: Sequence[Measured]) -> Self:
        """Return the same of these tables, too."""
        together = [*self.measured, *measured]
        return type(self)(self._law, self.sizes, together, self.chain, self.asked)

    def told(self, subset: Subset) -> tuple[int, Subset] | None:
        """Return the tree that tells a table best, or one of its parts, and which.

        None where no table that is measured adds up to it.
        """
        if subset not in self._told:
            parts, whole = [subset], tuple(sorted(subset))
            for table in () if subset in self.asked else self.measured:
                common = self.chain.common(subset, table.subset)
                parts += [table.subset] * (common == whole)
            errors = {
                (k, part): tree.node_variances(part).mean() * self._cells(part)
                for part in parts
                for k, tree in enumerate(self.steps)
                if tree.measures(part)
            }
            self._told[subset] = min(errors, key=errors.__getitem__, default=None)
        return self._told[subset]

    def step(self, subset: Subset) -> int:
        """Return the tree that a table is told by."""
        told = self.told(subset)
        assert told is not None
        return told[0]

    def measures(self, subset: Subset) -> bool:
        """Return whether a table that is measured adds up to one."""
        return self.told(subset) is not None

    def estimate(self, values: Any) -> Any:
        """Return the tables of least error of each tree."""
        stops = np.cumsum([self._cells(m.subset) for m in self.measured])
        tables = np.split(np.asarray(values), stops[:-1])
        each = zip(self.steps, self._tables, strict=True)
        return ApartSolution(
            self,
            [
                step.estimate(np.concatenate([tables[k] for k in at]))
                for step, at in each
            ],
        )

    def law(self, subset: Subset) -> Errors:
        """Return the laws of errors of a table."""
        return self.steps[self.step(subset)].law(subset)

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of errors, or what it is about."""
        told, cells = self.told(subset), self._cells(subset)
        if told is not None:
            k, part = told
            return self.steps[k].spread(part) * self._cells(part) / cells
        return sum(
            self.spread(part) * (self._cells(part) / cells) ** 2
            for part, _ in self.margins(subset)
        )

    def variances(self, subset: Subset) -> Floats:
        """Return the variances of all cells of a table."""
        return self.steps[self.step(subset)].variances(subset)

    def contrast_variance(self, subset: Subset) -> float:
        """Return the mean variance of a contrast, or of a cell where parts add up."""
        told = self.told(subset)
        if told is None or told[1] != subset:
            return self.spread(subset)
        return self.steps[told[0]].contrast_variance(subset)


class ApartSolution(NamedTuple):
    """Estimates of tables, each by the tree that tells it best."""

    field: Apart
    trees: Sequence[Solution]

    def marginal(self, attributes: Any) -> Floats:
        """Return a table in C order of its attributes, (cells,)."""
        subset, field = tuple(attributes), self.field
        told = field.told(subset)
        if told is None:
            return field.fitted(subset, self.marginal)
        k, part = told
        table = self.trees[k].marginal(part)
        if part == subset:
            return table
        cells = field.cells_above(part, subset)
        return np.bincount(cells, table, field._cells(subset)).astype(np.float64)
