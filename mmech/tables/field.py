"""Unbiased tables of counts and their errors: one least squares for all of them.

An axis is flat, or one of the levels of a tree. What is measured, known or impossible
is one thing: sums of cells with an error of some variance, or none.

Interactions s of the flat axes are uncorrelated, so that each has a problem of its own:
numbers at the nodes of the tree, which is one node where no axis is a level. There is
one precision per level, infinite where a table is known. So the covariance V of all
tables is a sum over s of trees times centrings of axes, and is never listed:

* V times anything is a `Solution`: axes are summed and centred, and go up and down the
  tree. Measured numbers over their variances make the estimate, a one a column of V.
* Its diagonal is one number per node.
* Single cells that are closed are conditioned on: V' = V - V C' (C V C')^+ C V.

Coefficients of noise in an error are covariances with what is measured, over variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from fractions import Fraction
from functools import cached_property, reduce
from itertools import product
from typing import Any, NamedTuple, Self, cast

import numpy as np

from mmech.arrays import Floats, Integers, Mask, Subset
from mmech.error.shared_totals import EqualTotals
from mmech.mechanism import MatrixMechanism
from mmech.noise.tails import LEAST_SHARE
from mmech.operators.base import product_of
from mmech.tables.levels import Chain, Tree, subsets_of

FLAT = Chain((), ())
"""No axis is a level: a tree of one node."""

VARIANCE_FLOOR = 1e-24
"""Smallest variance of noise that least squares weights by."""

BLOCK = 2**23
"""Numbers that are held at once of what closed cells move."""

SWEEPS = 25
"""Sweeps of proportional fitting that bring a table near its margins."""

RANK = 1e-10
"""Least eigenvalue of the covariance of closed cells, as a share of the largest."""


class Measured(NamedTuple):
    """A table with independent noise of one law in all of its cells.

    Under noise of equal totals `variance` is the one of contrasts. The first table of a
    set has the variance of the total as `total`. All others have an infinite one: a
    total counts once.
    """

    subset: Subset
    variance: float
    parameter: float = 0.0
    total: float | None = None


def measured_by(mechanism: MatrixMechanism) -> list[Measured]:
    """Return the tables that a mechanism of marginals measures."""
    law, released, sets = mechanism.law, mechanism.released, mechanism.equal_totals
    if sets is not None:
        return measured_in(sets, list(map(float, mechanism._parameters())))
    factor, form = mechanism.relation.factor**law.power, cast("Any", released.form)
    measured = []
    for subset, block in zip(form.weights, released.blocks, strict=True):
        size = factor * Fraction(released.sensitivity, block.weight)
        parameter = law.parameter(size, mechanism.cost)
        variance = max(float(law.variance(parameter)), VARIANCE_FLOOR)
        measured.append(Measured(subset, variance, float(parameter)))
    return measured


def measured_in(sets: EqualTotals, scales: Sequence[float]) -> list[Measured]:
    """Return tables in sets of equal totals, whose noise has these scales.

    A set of one has independent noise.
    """
    variances, measured = iter(sets.contrasts.tolist()), []
    for tables, total, scale in zip(sets.sets, sets.totals, scales, strict=True):
        totals: list[Any] = [float(total)] + [math.inf] * (len(tables) - 1)
        for subset, own in zip(tables, totals if totals[1:] else [None], strict=True):
            measured.append(Measured(subset, next(variances), scale, own))
    return measured


class Source(NamedTuple):
    """A table of which V times a share is asked for.

    Attributes
    ----------
    subset : tuple of int
    table : ndarray, shape (cells, columns)
    share, total : float
        What its interactions, and its total, are multiplied by; over the number of
        cells by flat axes.
    """

    subset: Subset
    table: Floats
    share: float
    total: float


def swept(table: Floats, margins: Sequence[tuple[Integers, Any]]) -> Floats:
    """Return a table, (cells,), moved to margins in turn by proportional fitting.

    Each has the place in it of every cell, and its counts.
    """
    for _ in range(SWEEPS):
        for above, margin in margins:
            sums = np.bincount(above, table, margin.size)
            table = table * (margin / np.where(sums > 0, sums, 1.0))[above]
    return table


class Field:
    """Unbiased tables, and the covariances of their errors.

    Parameters
    ----------
    sizes : sequence of int
        Number of values of every axis; levels of a hierarchy are an axis each.
    measured : sequence of Measured
    known : mapping of tuple to ndarray, default={}
        Tables without an error, an axis for each attribute. Their margins need not be
        listed.
    closed : mapping of tuple to (ndarray of bool, ndarray), default={}
        Which cells of tables have no error, and the numbers of all cells.
    chain : Chain, default=FLAT
        Which axes are levels of hierarchies.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        measured: Sequence[Measured],
        known: Mapping[Subset, Any] = {},
        closed: Mapping[Subset, tuple[Any, Any]] = {},
        chain: Chain = FLAT,
    ) -> None:
        self.sizes, self.measured = tuple(sizes), tuple(measured)
        self.chain = chain
        self.known = {s: np.asarray(t, np.float64) for s, t in known.items()}
        if chain.beside:  # precisions are products, and no infinite one is: condition
            all_of = {s: (np.ones(t.shape, bool), t) for s, t in self.known.items()}
            closed, self.known = {**closed, **all_of}, {}
        self._masks: dict[Subset, Mask] = {
            s: np.asarray(m) for s, (m, _) in closed.items()
        }
        self._closed = {
            s: (np.flatnonzero(mask), np.asarray(value, np.float64)[mask])
            for s, (mask, value) in closed.items()
        }
        tables = [*(table.subset for table in measured), *self.known]
        places = [chain.places(s) for s in tables]
        self._n = len(self.measured)
        self._levels = np.array([levels for levels, _ in places])
        self._holds = np.zeros((len(tables), len(self.sizes)), bool)
        for j, (_, others) in enumerate(places):
            self._holds[j, list(others)] = True
        laws = np.array([[m.variance, m.parameter] for m in self.measured])
        self._variances, self._parameters = laws.T
        self._flat = np.array(
            [self._cells(a) for _, a in places[: self._n]], np.float64
        )
        self._shares = 1 / np.maximum(self._variances, VARIANCE_FLOOR)
        self._beside: list[Tree] = []
        self._rounding = 1.0
        if chain.beside:
            self._factorize(places)
        each = zip(self._shares, self._flat, self.measured, strict=True)
        totals = [
            share if m.total is None else n / max(m.total, VARIANCE_FLOOR)
            for share, n, m in each
        ]
        self._totals = np.array(totals)
        self._trees: dict[Subset, Tree] = {}

    def with_more(self, measured: Sequence[Measured]) -> Self:
        """Return the field of these tables, too; there is one hierarchy at most."""
        field = copy(self)
        field.__dict__.pop("_root", None)
        closed = {s: (mask, np.zeros(mask.shape)) for s, mask in self._masks.items()}
        together = [*self.measured, *measured]
        Field.__init__(field, self.sizes, together, self.known, closed, self.chain)
        return field

    def _factorize(self, places: Sequence[tuple[Subset, Subset]]) -> None:
        """Take precisions for products of factors, which they are but for rounding.

        Errors are as if all variances were larger, by the most that one of them is.
        """
        precisions, factors = self._shares, np.ones(self._n)
        for k, hierarchy in enumerate(self.chain.beside, 1):
            levels = self._levels[: self._n, k]
            shares = np.bincount(levels, precisions) / precisions.sum()
            self._beside.append(Tree(hierarchy, shares.tolist()))
            factors *= shares[levels]
        tables: dict[Any, list[int]] = {}
        for j, (deep, others) in enumerate(places):
            tables.setdefault((deep[0], others), []).append(j)
        for same in tables.values():
            factors[same] *= precisions[same].sum()
        self._rounding = float((factors / precisions).max())
        self._shares = factors

    def _cells(self, subset: Sequence[int]) -> int:
        return product_of(self.sizes[i] for i in subset)

    def _nodes(self, levels: Subset) -> tuple[int, ...]:
        """Return the number of nodes of a level, per hierarchy."""
        each = zip(self.chain.all, levels, strict=True)
        return tuple(hierarchy.size(level) for hierarchy, level in each)

    def measures(self, subset: Subset) -> bool:
        """Return whether tables that are measured or known add up to one."""
        levels, others = self.chain.places(subset)
        several = [i for i in others if self.sizes[i] > 1]
        return bool(self._at(levels)[:, several].all(axis=1).any())

    def _at(self, levels: Subset) -> Any:
        """Return which flat axes tables at some levels, or below them, have."""
        return self._holds[(self._levels >= levels).all(axis=1)]

    def _parts(self, levels: Subset, others: Subset) -> Iterator[Subset]:
        """Yield the interactions of flat axes that are measured at levels, or below."""
        holds = self._at(levels)
        return (p for p in subsets_of(others) if holds[:, list(p)].all(axis=1).any())

    def trees(self, part: Subset) -> list[Tree]:
        """Return the errors of interactions of some flat axes, by hierarchy."""
        if part not in self._trees:
            n, held = self._n, np.asarray(self._holds[:, list(part)].all(axis=1))
            shares = (self._shares if part else self._totals) / self._flat * held[:n]
            levels = self._levels[:, 0]
            precisions = np.bincount(levels[:n], shares, len(self.chain.axes) + 1)
            precisions *= self._cells(part)
            precisions[levels[n:][held[n:]]] = math.inf
            self._trees[part] = Tree(self.chain, precisions.tolist())
        return [self._trees[part], *self._beside]

    # ---- estimates, and V times anything ---------------------------------------------

    def estimate(self, values: Any) -> Solution:
        """Return the tables of least error from measured values, (p,) or (p, k)."""
        array = np.asarray(values, np.float64)
        shapes = [(m.subset, self._cells(m.subset)) for m in self.measured]
        tables = np.split(array, np.cumsum([cells for _, cells in shapes])[:-1])
        each = zip(shapes, tables, self._shares, self._totals, strict=True)
        sources = [
            Source(subset, table.reshape(cells, -1), share, total)
            for (subset, cells), table, share, total in each
        ]
        solution = Solution(self, sources, self.known, single=array.ndim == 1)
        return self._conditioned(solution, [c for _, c in self._closed.values()])

    def _conditioned(self, plain: Solution, closed: Sequence[Floats] = ()) -> Solution:
        """Return a solution with these numbers at closed cells, or with zeros."""
        if not self._closed:
            return plain
        apart = self._at_closed(plain)
        if closed:
            apart -= np.concatenate(closed)[:, None]
        return plain.with_more(self._closed_by(-self._root @ (self._root.T @ apart)))

    def _at_closed(self, solution: Solution) -> Floats:
        """Return a solution at all closed cells, (closed, columns)."""
        return np.concatenate(
            [solution.table(s)[at] for s, (at, _) in self._closed.items()]
        )

    def _closed_by(self, weights: Floats) -> list[Source]:
        """Return sources of weights at all closed cells, (closed, columns)."""
        sources, start = [], 0
        for subset, (at, _) in self._closed.items():
            table = np.zeros((self._cells(subset), weights.shape[1]))
            table[at] = weights[start : start + at.size]
            sources.append(Source(subset, table, 1.0, 1.0))
            start += at.size
        return sources

    @cached_property
    def _root(self) -> Floats:
        """Return R with R R' = (C V C')^+, (closed, rank)."""
        covariance = np.concatenate(
            [self._with_closed(s, at) for s, (at, _) in self._closed.items()]
        )
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        kept = values > RANK * values.max(initial=0.0)
        return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))

    def _with_closed(self, subset: Subset, rows: Integers) -> Floats:
        """Return V C' of cells, (rows, closed)."""
        each = self._closed.items()
        return np.hstack([self._listed(subset, rows, s, at) for s, (at, _) in each])

    def moved(self, subset: Subset, rows: Integers) -> Floats:
        """Return V C' R of cells, (rows, rank).

        Closed cells take products of rows off covariances. What they take off the
        variance of a sum of cells is the square of the sum of its rows.
        """
        return self._with_closed(subset, rows) @ self._root

    def _blocks(self, rows: Integers) -> Iterator[slice]:
        """Yield runs of rows, as many at once as are held with all closed cells."""
        step = max(1, BLOCK // max(1, sum(at.size for at, _ in self._closed.values())))
        return (slice(start, start + step) for start in range(0, rows.size, step))

    # ---- errors ----------------------------------------------------------------------

    def _listed(
        self, subset: Subset, rows: Integers, other: Subset, columns: Integers
    ) -> Floats:
        """Return V of cells of two tables, closed cells aside, (rows, columns)."""
        (k, a), (m, b) = self._places(subset, rows), self._places(other, columns)
        first, second = (self.chain.places(table)[1] for table in (subset, other))
        common = tuple(i for i in first if i in second)
        apart = {i: (a[i][:, None] == b[i]) * self.sizes[i] - 1.0 for i in common}
        even = 1 / (self._cells(first) * self._cells(second))
        values = np.zeros((len(rows), len(columns)))
        both = zip(self._deep(subset), self._deep(other), strict=True)
        for part in self._parts(tuple(map(max, both)), common):
            term: Any = even * self._cells(part)
            for tree, *places in zip(self.trees(part), k, m, strict=True):
                (level, nodes), (beside, more) = places
                term = term * tree.listed(level, nodes, beside, more)
            for i in part:
                term *= apart[i]
            values += term
        return values

    def _deep(self, subset: Subset) -> Subset:
        """Return the level of a table in each hierarchy."""
        return self.chain.places(subset)[0]

    def _places(
        self, subset: Subset, rows: Integers
    ) -> tuple[Any, dict[int, Integers]]:
        """Return level and nodes of cells by hierarchy, and their codes by axis."""
        shape = [self.sizes[i] for i in subset]
        each = np.unravel_index(rows, shape) if shape else ()
        codes = dict(zip(subset, each, strict=True))
        nodes = [
            (k, codes[hierarchy.axes[k - 1]] if k else np.zeros(len(rows), np.int64))
            for hierarchy, k in zip(self.chain.all, self._deep(subset), strict=True)
        ]
        return nodes, codes

    def coefficients(self, subset: Subset, rows: Integers) -> Floats:
        """Return the coefficients of all noise in the errors of cells, (rows, p)."""
        table = np.zeros((self._cells(subset), len(rows)))
        table[rows, np.arange(len(rows))] = 1.0
        solution = Solution(self, [Source(subset, table, 1.0, 1.0)])
        solution = self._conditioned(solution)
        each = zip(self.measured, self._shares, strict=True)
        return np.hstack([solution.table(m.subset).T * share for m, share in each])

    def node_variances(self, subset: Subset) -> Floats:
        """Return variances at the nodes of a table, (nodes,), closed cells aside.

        All its cells at a node have the same. Interactions that were not measured are
        taken for zero.
        """
        levels, others = self.chain.places(subset)
        variances = np.zeros(product_of(self._nodes(levels)))
        for part in self._parts(levels, others):
            square = self._rounding
            for i in others:
                n = self.sizes[i]
                square *= 1 - 1 / n if i in part else (1 / n) ** 2
            variances += square * self._of_nodes(part, levels)
        return np.maximum(variances, 0.0)

    def _of_nodes(self, part: Subset, levels: Subset) -> Floats:
        """Return V of contrasts of interactions at the nodes of levels, (nodes,)."""
        each = zip(self.trees(part), levels, strict=True)
        return reduce(np.multiply.outer, (t.variances[k] for t, k in each)).ravel()

    def variances(self, subset: Subset) -> Floats:
        """Return the variances of all cells of a table, an axis for each attribute.

        Where cells share numbers, it is a view of these, not to be written to.
        """
        plain = self._at_cells(self.node_variances(subset), subset)
        if not self._closed:
            return plain
        first, which = self.alike(subset)
        variances = plain.reshape(-1)[first]
        for block in self._blocks(first):
            moved = self.moved(subset, first[block])
            variances[block] -= self._rounding * np.square(moved).sum(axis=1)
        variances[variances <= LEAST_SHARE * self._variances.max()] = 0.0
        return variances[which].reshape(plain.shape)

    def _at_cells(self, values: Floats, subset: Subset) -> Floats:
        """Return a view of values at nodes as a table, an axis for each attribute."""
        levels, others = self.chain.places(subset)
        nodes = self._nodes(levels)
        shape = (*nodes, *(self.sizes[i] for i in others))
        table = values.reshape(*nodes, *[1] * len(others))
        return self.levels_back(np.broadcast_to(table, shape), subset)

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the errors of counts that have any."""
        errors = self.variances(subset) if self._closed else self.node_variances(subset)
        some = max(1, int(np.count_nonzero(errors)))
        return max(float(errors.sum()) / some, VARIANCE_FLOOR)

    def contrast_variance(self, subset: Subset) -> float:
        """Return the mean variance of a contrast of the flat axes, over the nodes.

        Axes of one value have no contrasts, and need not be measured.
        """
        levels, others = self.chain.places(subset)
        several = tuple(i for i in others if self.sizes[i] > 1)
        return float(self._of_nodes(several, levels).mean()) * self._rounding

    def alike(self, subset: Subset) -> tuple[Integers, Integers]:
        """Return cells that stand for all of a table, and the number of each cell's.

        To swap values of a flat axis that no closed cell tells apart changes nothing.
        """
        levels = {i for hierarchy in self.chain.all for i in hierarchy.axes}
        first, which = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for i in subset:
            n, kinds = self.sizes[i], np.arange(self.sizes[i])
            if i not in levels:
                told = [
                    np.packbits(np.moveaxis(mask, s.index(i), 0).reshape(n, -1), axis=1)
                    for s, mask in self._masks.items()
                    if i in s
                ]
                rows = np.hstack(told) if told else np.zeros((n, 0), np.uint8)
                numbers: dict[bytes, int] = {}
                kinds = np.array(
                    [numbers.setdefault(r.tobytes(), len(numbers)) for r in rows]
                )
            _, representatives = np.unique(kinds, return_index=True)
            first = np.add.outer(first * n, representatives).ravel()
            which = np.add.outer(which * representatives.size, kinds).ravel()
        return first, which

    # ---- tables that none tells ------------------------------------------------------

    def margins(self, subset: Subset) -> list[tuple[Subset, Integers]]:
        """Return tables that tell together of one that none tells, finest first.

        Each with the cell of it that holds every cell of the table.
        """
        levels, others = self.chain.places(subset)
        axes: list[tuple[Subset, ...]] = [
            ((), *((i,) for i in hierarchy.axes[:level]))
            for hierarchy, level in zip(self.chain.all, levels, strict=True)
        ]
        axes += [((), (i,)) for i in others]
        found: dict[Subset, Any] = {}
        for places in sorted(product(*(range(len(a)) for a in axes)), key=sum)[::-1]:
            each = zip(axes, places, strict=True)
            table = tuple(sorted(sum((a[k] for a, k in each), ())))
            finer = (np.greater_equal(other, places).all() for other in found.values())
            if self.measures(table) and not any(finer):
                found[table] = places
        return [(table, self.cells_above(subset, table)) for table in found]

    def fitted(self, subset: Subset, marginal: Callable[[Subset], Floats]) -> Floats:
        """Return a table that none tells by proportional fitting to those that do.

        It is a product of factors of these tables: none of its counts is cut off. Where
        they agree it adds up to them. `marginal` gives them, (cells,).
        """
        table = np.ones(self._cells(subset))
        margins = [
            (above, np.maximum(marginal(part), 0.0))
            for part, above in self.margins(subset)
        ]
        return swept(table, margins)

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

    # ---- axes ------------------------------------------------------------------------

    def level_axes(self, subset: Subset) -> tuple[list[int], tuple[int, ...]]:
        """Return the axes of levels in a table, and the hierarchies without one."""
        levels, _ = self.chain.places(subset)
        each = list(zip(self.chain.all, levels, strict=True))
        axes = [subset.index(chain.axes[level - 1]) for chain, level in each if level]
        return axes, tuple(k for k, level in enumerate(levels) if not level)

    def levels_first(self, table: Floats, subset: Subset) -> Floats:
        """Return a table with an axis for the nodes of every hierarchy in front."""
        axes, missing = self.level_axes(subset)
        return np.expand_dims(np.moveaxis(table, axes, range(len(axes))), missing)

    def levels_back(self, table: Floats, subset: Subset) -> Floats:
        """Return what `levels_first` was given."""
        axes, missing = self.level_axes(subset)
        return np.moveaxis(table.squeeze(missing), range(len(axes)), axes)


class Solution:
    """V times some tables, as tables; without closed cells.

    Parameters
    ----------
    field : Field
    sources : sequence of Source
    known : mapping of tuple to ndarray, default={}
        Known tables that are not zero.
    single : bool, default=False
        Whether `marginal` has no axis of columns.
    """

    def __init__(
        self,
        field: Field,
        sources: Sequence[Source],
        known: Mapping[Subset, Any] = {},
        single: bool = False,
    ) -> None:
        self.field, self.sources, self.known = field, [*sources], known
        self._single, self._columns = single, sources[0].table.shape[1]
        self._sources = [self._placed(source) for source in sources]
        self._known = [
            self._placed(Source(s, table.reshape(-1, 1), 1.0, 1.0))
            for s, table in known.items()
        ]
        self._found: dict[Subset, dict[Subset, Floats] | None] = {}

    def with_more(self, sources: Sequence[Source]) -> Solution:
        """Return the solution of more sources."""
        together = [*self.sources, *sources]
        return Solution(self.field, together, self.known, self._single)

    def _placed(self, source: Source) -> Any:
        """Return levels, flat axes, the table with nodes first, and shares."""
        field, (levels, others) = self.field, self.field.chain.places(source.subset)
        shape = [field.sizes[i] for i in source.subset]
        table = field.levels_first(source.table.reshape(*shape, -1), source.subset)
        even = field._cells(others)
        return levels, others, table, source.share / even, source.total / even

    def marginal(self, attributes: Any) -> Floats:
        """Return a table in C order of its attributes, (cells,) or (cells, k)."""
        subset = tuple(attributes)
        if not self._single:
            return self.table(subset)
        if not self.field.measures(subset):
            return self.field.fitted(subset, self.marginal)
        return self.table(subset)[:, 0]

    def table(self, subset: Subset) -> Floats:
        """Return a table in C order of its attributes, (cells, columns)."""
        field = self.field
        levels, others = field.chain.places(subset)
        nodes, sizes = field._nodes(levels), [field.sizes[i] for i in others]
        table = np.zeros((*nodes, *sizes, self._columns))
        for part in field._parts(levels, others):
            if part not in self._found:
                self._found[part] = self._interactions(part)
            interactions = self._found[part]
            if interactions is not None:
                shape = [field.sizes[i] if i in part else 1 for i in others]
                share = field._cells(part) / field._cells(others)
                table += interactions[levels].reshape(*nodes, *shape, -1) * share
        return field.levels_back(table, subset).reshape(-1, self._columns)

    def _interactions(self, part: Subset) -> dict[Subset, Floats] | None:
        """Return those of some flat axes at all nodes, by levels; none where zero."""
        field, nodes, known = self.field, dict[Subset, Any](), {}
        trees, first = field.trees(part), len(field.chain.all)
        for levels, others, table, share, total in self._sources:
            each = zip(levels, trees, strict=True)
            below = any(k >= len(tree.precisions) for k, tree in each)
            if {*part} <= {*others} and not below:
                centred = _centred(table, others, part, first)
                centred = centred * ((share if part else total) * field._cells(part))
                nodes[levels] = nodes.get(levels, 0.0) + centred
        for levels, others, table, *_ in self._known:
            if {*part} <= {*others}:
                centred = _centred(table, others, part, first)
                centred = np.repeat(centred, self._columns, axis=1)
                known[levels[0]] = centred
                nodes.setdefault(levels, np.zeros_like(centred))
        if not nodes:
            return None
        for axis, tree in reversed(list(enumerate(trees))):
            nodes = tree.along(nodes, axis, known)
        return nodes


def _centred(table: Floats, others: Subset, part: Subset, first: int) -> Floats:
    """Return interactions of a table of nodes, axes and columns, (nodes, n_s k)."""
    out = tuple(a for a, i in enumerate(others, first) if i not in part)
    centred = table.sum(axis=out)
    for axis in range(first, centred.ndim - 1):
        centred = centred - centred.mean(axis=axis, keepdims=True)
    return centred.reshape(*centred.shape[:first], -1)
