r"""Tables by several levels of one hierarchy: what is measured, errors, whole counts.

A table counts by the nodes of a level and by other attributes a. Interactions of the
others are uncorrelated, so that each subset s of them has a least-squares problem of
its own: the interaction at every node of a tree, whose children add up to it, with one
precision :math:`\pi_l = n_s \sum_{a \supseteq s} \theta_{la}^2 / n_a` per level l.
Precisions go up the tree, with :math:`C_p` the variance of what the children c of a
node p add up to,

.. math:: C_p = \sum_c 1 / U_c , \qquad U_p = \pi_l + 1 / C_p , \qquad
          G_c = 1 / (U_c C_p) ,

and variances go down: :math:`V_c = 1 / U_c - G_c^2 (C_p - V_p)`. Estimates go the same
ways. The covariance of a node with one above is the product of the G between them,
times the V of the one above.

Every further hierarchy is measured at all of its levels beside all of these tables. Its
levels have shares of the weight of a table, the same of each. So precisions of counts
by the nodes of several hierarchies are Kronecker products: estimates go up and down one
tree after another, and covariances are products, whatever the trees are. Where this
costs more, only the tables that are asked for are measured, or these in parts. Then
each is told by one tree: beside it, levels of other hierarchies are attributes like any
other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.domain.domain import Domain
from mmech.limits import LIMITS

Nodes = dict[Subset, Floats]


@dataclass(frozen=True, eq=False)
class Chain:
    """The levels of a hierarchy that occur in tables; the total is level 0.

    Attributes
    ----------
    axes : tuple of int
        Places of the levels among all that tables are made of, topmost first.
    parents : tuple of ndarray of int64
        For every level the node above each of its nodes, increasing.
    beside : tuple of Chain, default=()
        Those of the other hierarchies that have several levels in tables.
    """

    axes: Subset
    parents: tuple[Integers, ...]
    beside: tuple[Chain, ...] = ()

    @property
    def all(self) -> tuple[Chain, ...]:
        """Return the chain, and those beside it."""
        return (self, *self.beside)

    @property
    def apart(self) -> list[Chain]:
        """Return every one of these with none beside it."""
        return [replace(hierarchy, beside=()) for hierarchy in self.all]

    @property
    def lower(self) -> set[int]:
        """All levels but the topmost of each hierarchy."""
        return {i for hierarchy in self.all for i in hierarchy.axes[1:]}

    def places(self, subset: Sequence[int]) -> tuple[Subset, Subset]:
        """Return the level of a table in each hierarchy, and its other attributes."""
        levels, others = [], tuple(subset)
        for hierarchy in self.all:
            level, others = hierarchy.place(others)
            levels.append(level)
        return tuple(levels), others

    def common(self, one: Subset, other: Subset) -> Subset:
        """Return the finest table that two tables both add up to."""
        (levels, first), (more, second) = map(self.places, (one, other))
        shared = zip(self.all, map(min, levels, more), strict=True)
        nodes = [hierarchy.axes[k - 1] for hierarchy, k in shared if k]
        return tuple(sorted([*nodes, *{*first} & {*second}]))

    def factors(self, subsets: Sequence[Subset]) -> list[dict[Subset, int]]:
        """Return tables without the levels of other hierarchies, and levels of each.

        Every combination of one of each is measured. Numbered in their order.
        """
        others = {i for hierarchy in self.beside for i in hierarchy.axes}
        inside = [{*range(1 + max(map(max, filter(None, subsets))))} - others]
        inside += [{*hierarchy.axes} for hierarchy in self.beside]
        return [
            {part: k for k, part in enumerate(dict.fromkeys(map(within(x), subsets)))}
            for x in inside
        ]

    def measured(self, subsets: Sequence[Subset]) -> list[Subset]:
        """Return the tables that are measured."""
        combinations_ = product(*self.factors(subsets))
        return [tuple(sorted(sum(parts, ()))) for parts in combinations_]

    def grids(self, tables: Sequence[Subset]) -> list[slice]:
        """Return the longest runs of tables that are all combinations of some levels.

        Several hierarchies have two or more of these, as in `measured`.
        """
        keys: list[Any] = []
        for table in tables:
            (level, *levels), others = self.places(table)
            keys.append(((level, others), *levels))
        found: list[slice] = []
        for start in range(len(keys) if self.beside else 0):
            last = start
            for stop in range(start + 4, len(keys) + 1):
                run = {*keys[start:stop]}
                sizes = [len({*values}) for values in zip(*run, strict=True)]
                if stop - start == len(run) == math.prod(sizes) > max(sizes):
                    last = stop
            if last > max((run.stop for run in found), default=start):
                found.append(slice(start, last))
        return found

    def most_cells(self, table: Subset) -> int:
        """Return the most cells that a table may have."""
        if not self.lower & {*table}:
            return LIMITS.published_cells
        crossed = sum(level > 0 for level in self.places(table)[0]) > 1
        return LIMITS.level_cells // (4 if crossed else 1)

    @cached_property
    def first(self) -> tuple[Integers, ...]:
        """For every level the first child of each node above it."""
        return tuple(np.flatnonzero(np.diff(p, prepend=-1)) for p in self.parents)

    def place(self, subset: Sequence[int]) -> tuple[int, Subset]:
        """Return the level of a table, and its other attributes."""
        level = next((k for k, i in enumerate(self.axes, 1) if i in subset), 0)
        return level, tuple(i for i in subset if i not in self.axes)

    def up(self, level: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return sums over the children of every node of the level above."""
        return np.asarray(np.add.reduceat(values, self.first[level - 1], axis=0))

    def down(self, level: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return what the level above has, for each of its children."""
        return values[self.parents[level - 1]]

    def ancestors(self, level: int, above: int) -> Integers:
        """Return the node of a level above that holds each of those of a level."""
        nodes = np.arange(self.size(level))
        for below in range(level, above, -1):
            nodes = self.parents[below - 1][nodes]
        return nodes

    def size(self, level: int) -> int:
        """Return the number of nodes of a level."""
        return len(self.parents[level - 1]) if level else 1

    def families(self, subsets: Sequence[Subset]) -> list[Subset]:
        """Return none, and the others that tables below the topmost level link."""
        families: list[set[int]] = []
        for level, others in map(self.place, subsets):
            if level > 1 and others:
                linked = [family for family in families if family & set(others)]
                families = [family for family in families if family not in linked]
                families.append(set(others).union(*linked))
        return [(), *sorted(tuple(sorted(family)) for family in families)]


def chain_of(domain: Domain, names: Sequence[str]) -> Chain | None:
    """Return the levels of the first hierarchy that tables have several levels of."""
    chains: list[Chain] = []
    for owner in domain.attributes:
        axes = tuple(i for i, n in enumerate(names) if domain.levels[n] == owner.name)
        if len(axes) > 1:
            levels = [owner.nodes(names[i]) for i in axes]
            nodes = [np.zeros(owner.size, np.int64), *levels]
            firsts = [np.flatnonzero(np.diff(below, prepend=-1)) for below in nodes]
            parents = [a[first] for a, first in zip(nodes, firsts[1:], strict=False)]
            chains.append(Chain(axes, tuple(parents)))
    return replace(chains[0], beside=tuple(chains[1:])) if chains else None


class Tree:
    """Least squares over the nodes of a chain, with a precision per level.

    Parameters
    ----------
    chain : Chain
    precisions : sequence of float or complex
        Of what is measured, from the total down; zero where nothing is, infinite where
        all is known. Levels below the last that is measured are left out.

    Attributes
    ----------
    variances, gains : list of ndarray
        V and G of all nodes, by level.
    """

    def __init__(self, chain: Chain, precisions: Sequence[Any]) -> None:
        last = max(k for k, precision in enumerate(precisions) if precision)
        self.chain, self.precisions = chain, precisions[: last + 1]
        # 1 / U: the variance of a node by all that is measured at it, and below it.
        self._below: list[Any] = [np.full(chain.size(last), 1 / precisions[last])]
        self._sums: list[Any] = []
        for level in range(last, 0, -1):
            sums, precision = chain.up(level, self._below[0]), precisions[level - 1]
            self._sums.insert(0, sums)
            self._below.insert(
                0, 0 * sums if np.isinf(precision) else sums / (1 + precision * sums)
            )
        self.variances, self.gains = [self._below[0]], [np.ones(1)]
        for level in range(1, last + 1):
            spread, below = chain.down(level, self._sums[level - 1]), self._below[level]
            left = spread - chain.down(level, self.variances[-1])
            self.gains.append(_ratio(below, spread))
            self.variances.append(below - np.square(self.gains[-1]) * left)

    def estimate(
        self, values: Sequence[Any], known: Mapping[int, Floats] = {}
    ) -> list[Floats]:
        """Return the estimates of all nodes, by level: V times values.

        Parameters
        ----------
        values : sequence of ndarray, shape (nodes, columns)
            What was measured, times its precision, by level; zero where nothing was.
        known : mapping of int to ndarray, shape (nodes, columns), default={}
            The numbers of levels of infinite precision, where they are not zero.
        """
        estimates: list[Any] = []
        sums: list[Any] = []
        for level in range(len(self.precisions) - 1, -1, -1):
            total = values[level]
            if estimates:
                sums.insert(0, self.chain.up(level + 1, estimates[0]))
                spread = self._sums[level][:, None]
                total = total + _ratio(sums[0], spread)
            node_values = self._below[level][:, None] * total
            if level in known:
                node_values = known[level]
            elif estimates and not spread.all():  # children that are known add up
                node_values = np.where(spread == 0, sums[0], node_values)
            estimates.insert(0, node_values)
        for level in range(1, len(estimates)):
            apart = self.chain.down(level, estimates[level - 1] - sums[level - 1])
            estimates[level] = estimates[level] + self.gains[level][:, None] * apart
        return estimates

    def covariances(self, level: int) -> list[Floats]:
        """Return those of the nodes of a level with the ones above them, by level."""
        covariances, gains = [self.variances[level]], self.gains[level]
        for above in range(level - 1, -1, -1):
            nodes = self.chain.ancestors(level, above)
            covariances.insert(0, gains * self.variances[above][nodes])
            gains = gains * self.gains[above][nodes]
        return covariances

    def listed(self, k: int, a: Integers, m: int, b: Integers) -> Floats:
        """Return covariances of nodes a of level k with nodes b of level m, (a, b)."""
        first, second = self._paths(k, a), self._paths(m, b)
        covariances = np.zeros((len(a), len(b)))
        for level in range(min(k, m) + 1):  # the last one that has both below it stays
            (places, gains), (other, more) = first[level], second[level]
            same = places[:, None] == other
            value = self.variances[level][places]
            if level < min(k, m):
                value = value - self._sums[level][places]
            np.copyto(covariances, (value * gains)[:, None] * more, where=same)
        return covariances

    def _paths(self, level: int, nodes: Integers) -> list[tuple[Integers, Floats]]:
        """Return the nodes above some by level, with products of the gains between."""
        path, gains = [(nodes, np.ones(len(nodes)))], np.ones(len(nodes))
        for below in range(level, 0, -1):
            gains = gains * self.gains[below][nodes]
            nodes = self.chain.parents[below - 1][nodes]
            path.insert(0, (nodes, gains))
        return path

    def along(
        self, values: Nodes, axis: int, known: Mapping[int, Floats] = {}
    ) -> Nodes:
        """Return the estimates of all nodes, from values by the levels of all chains.

        Parameters
        ----------
        values : dict of tuple to ndarray
            As `estimate` takes them, by the level of every chain: an axis for the nodes
            of each, and one for all else.
        axis : int
            Which of these are the nodes of this tree.
        known : mapping of int to ndarray, shape (nodes, columns), default={}
            As `estimate` takes them, of a tree that is the only one.
        """
        estimates = {}
        for rest in dict.fromkeys((*key[:axis], *key[axis + 1 :]) for key in values):
            sums: list[Any] = [0.0] * len(self.precisions)
            shape: tuple[int, ...] = ()
            for level in range(len(sums)):
                table = values.get((*rest[:axis], level, *rest[axis:]))
                if table is not None:
                    moved = np.moveaxis(table, axis, 0)
                    sums[level], shape = moved.reshape(len(moved), -1), moved.shape[1:]
            for level, table in enumerate(self.estimate(sums, known)):
                made = np.moveaxis(table.reshape(len(table), *shape), 0, axis)
                estimates[(*rest[:axis], level, *rest[axis:])] = made
        return estimates


def _ratio(above: Any, below: Any) -> Any:
    """Return quotients, zero where nothing is divided by nothing."""
    out = np.zeros(np.broadcast(above, below).shape, np.result_type(above, below))
    return np.divide(above, below, out=out, where=below != 0)


def subsets_of(places: Sequence[int]) -> Iterator[Subset]:
    """Yield all subsets, smallest first."""
    sizes = range(len(places) + 1)
    return chain.from_iterable(combinations(places, size) for size in sizes)


def within(part: Iterable[Any]) -> Callable[[Subset], Subset]:
    """Return what takes the attributes of a table that are in a part."""
    inside = {i for x in part for i in (x if isinstance(x, tuple) else (x,))}
    return lambda subset: tuple(i for i in subset if i in inside)
