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
tree after another, and covariances are products, whatever the trees are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.domain.domain import Domain

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

    def places(self, subset: Sequence[int]) -> tuple[Subset, Subset]:
        """Return the level of a table in each hierarchy, and its other attributes."""
        levels, others = [], tuple(subset)
        for own in self.all:
            level, others = own.place(others)
            levels.append(level)
        return tuple(levels), others

    def factors(self, subsets: Sequence[Subset]) -> list[dict[Subset, int]]:
        """Return tables without the levels of other hierarchies, and levels of each.

        Every combination of one of each is measured. Numbered in their order.
        """
        others = {i for own in self.beside for i in own.axes}
        inside = [{*range(1 + max(map(max, filter(None, subsets))))} - others]
        inside += [{*own.axes} for own in self.beside]
        return [
            {own: k for k, own in enumerate(dict.fromkeys(map(within(x), subsets)))}
            for x in inside
        ]

    def measured(self, subsets: Sequence[Subset]) -> list[Subset]:
        """Return the tables that are measured."""
        found = product(*self.factors(subsets))
        return [tuple(sorted(sum(parts, ()))) for parts in found]

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
        for own in range(level, above, -1):
            nodes = self.parents[own - 1][nodes]
        return nodes

    def size(self, level: int) -> int:
        """Return the number of nodes of a level."""
        return len(self.parents[level - 1]) if level else 1

    def families(self, subsets: Sequence[Subset]) -> list[Subset]:
        """Return none, and the others that tables below the topmost level link."""
        found: list[set[int]] = []
        for level, others in map(self.place, subsets):
            if level > 1 and others:
                linked = [own for own in found if own & set(others)]
                found = [own for own in found if own not in linked]
                found.append(set(others).union(*linked))
        return [(), *sorted(tuple(sorted(own)) for own in found)]


def chain_of(domain: Domain, names: Sequence[str]) -> Chain | None:
    """Return the levels of the first hierarchy that tables have several levels of."""
    found: list[Chain] = []
    for own in domain.attributes:
        axes = tuple(i for i, n in enumerate(names) if domain.levels[n] == own.name)
        if len(axes) > 1:
            nodes = [np.zeros(own.size, np.int64), *(own.nodes(names[i]) for i in axes)]
            firsts = [np.flatnonzero(np.diff(below, prepend=-1)) for below in nodes]
            parents = [a[first] for a, first in zip(nodes, firsts[1:], strict=False)]
            found.append(Chain(axes, tuple(parents)))
    return replace(found[0], beside=tuple(found[1:])) if found else None


class Tree:
    """Least squares over the nodes of a chain, with a precision per level.

    Parameters
    ----------
    chain : Chain
    precisions : sequence of float or complex
        Of what is measured, from the total down; zero where nothing is. Levels below
        the last that is measured are left out.

    Attributes
    ----------
    variances, gains : list of ndarray
        V and G of all nodes, by level.
    """

    def __init__(self, chain: Chain, precisions: Sequence[Any]) -> None:
        last = max(k for k, own in enumerate(precisions) if own)
        self.chain, self.precisions = chain, precisions[: last + 1]
        self._up: list[Any] = [np.full(chain.size(last), precisions[last])]
        self._sums: list[Any] = []
        for level in range(last, 0, -1):
            self._sums.insert(0, chain.up(level, 1 / self._up[0]))
            self._up.insert(0, precisions[level - 1] + 1 / self._sums[0])
        self.variances, self.gains = [1 / self._up[0]], [np.ones(1)]
        for level in range(1, last + 1):
            spread, own = chain.down(level, self._sums[level - 1]), self._up[level]
            left = spread - chain.down(level, self.variances[-1])
            self.gains.append(1 / (own * spread))
            self.variances.append(1 / own - np.square(self.gains[-1]) * left)

    def estimate(self, values: Sequence[Any]) -> list[Floats]:
        """Return the estimates of all nodes, by level.

        Parameters
        ----------
        values : sequence of ndarray, shape (nodes, columns)
            What was measured, times its precision, by level; zero where nothing was.
        """
        found: list[Any] = []
        sums: list[Any] = []
        for level in range(len(self.precisions) - 1, -1, -1):
            total = values[level]
            if found:
                sums.insert(0, self.chain.up(level + 1, found[0]))
                total = total + sums[0] / self._sums[level][:, None]
            found.insert(0, total / self._up[level][:, None])
        for level in range(1, len(found)):
            apart = self.chain.down(level, found[level - 1] - sums[level - 1])
            found[level] = found[level] + self.gains[level][:, None] * apart
        return found

    def covariances(self, level: int) -> list[Floats]:
        """Return those of the nodes of a level with the ones above them, by level."""
        found, gains = [self.variances[level]], self.gains[level]
        for above in range(level - 1, -1, -1):
            nodes = self.chain.ancestors(level, above)
            found.insert(0, gains * self.variances[above][nodes])
            gains = gains * self.gains[above][nodes]
        return found

    def along(self, values: Nodes, axis: int) -> Nodes:
        """Return the estimates of all nodes, from values by the levels of all chains.

        Parameters
        ----------
        values : dict of tuple to ndarray
            As `estimate` takes them, by the level of every chain: an axis for the nodes
            of each, and one for all else.
        axis : int
            Which of these are the nodes of this tree.
        """
        found = {}
        for rest in dict.fromkeys((*key[:axis], *key[axis + 1 :]) for key in values):
            own: list[Any] = [0.0] * len(self.precisions)
            shape: tuple[int, ...] = ()
            for level in range(len(own)):
                table = values.get((*rest[:axis], level, *rest[axis:]))
                if table is not None:
                    moved = np.moveaxis(table, axis, 0)
                    own[level], shape = moved.reshape(len(moved), -1), moved.shape[1:]
            for level, table in enumerate(self.estimate(own)):
                made = np.moveaxis(table.reshape(len(table), *shape), 0, axis)
                found[(*rest[:axis], level, *rest[axis:])] = made
        return found


def within(part: Iterable[Any]) -> Callable[[Subset], Subset]:
    """Return what takes the attributes of a table that are in a part."""
    inside = {i for own in part for i in (own if isinstance(own, tuple) else (own,))}
    return lambda subset: tuple(i for i in subset if i in inside)
