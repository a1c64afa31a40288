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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.domain.domain import Domain
from mmech.exceptions import ParameterError
from mmech.mechanism import MatrixMechanism
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.strategies import StrategyResult
from mmech.tables.noise import Noise, error_law, step_of, subsets_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Subset = tuple[int, ...]

ITERATIONS, TOLERANCE = 300, 1e-6
"""Limits of the search for the weights of tables."""

LEAST = 1e-3
"""Share of the least weight in their sum: all tables stay measured."""

STEP = 1e-30
"""Imaginary step of derivatives, which have no cancellation."""

ALIKE = 0.005
"""Nodes whose errors are made of noise in about the same shares have one law: the
square roots of shares are rounded to multiples of this."""

MANY = 20_000
"""Counts whose noise together is normal: none is more than a hundredth of it."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The levels of a hierarchy that occur in tables; the total is level 0.

    Attributes
    ----------
    axes : tuple of int
        Places of the levels among all that tables are made of, topmost first.
    parents : tuple of ndarray of int64
        For every level the node above each of its nodes, increasing.
    """

    axes: Subset
    parents: tuple[Integers, ...]

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
    """Return the levels of the one hierarchy that tables have several levels of."""
    found: dict[str, Chain] = {}
    for own in domain.attributes:
        axes = tuple(i for i, n in enumerate(names) if domain.levels[n] == own.name)
        if len(axes) > 1:
            nodes = [np.zeros(own.size, np.int64), *(own.nodes(names[i]) for i in axes)]
            firsts = [np.flatnonzero(np.diff(below, prepend=-1)) for below in nodes]
            parents = [a[first] for a, first in zip(nodes, firsts[1:], strict=False)]
            found[own.name] = Chain(axes, tuple(parents))
    if len(found) > 1:
        raise ParameterError(
            "tables",
            f"must not have several levels of both {' and '.join(found)}",
            remedy="name one level of all hierarchies but one",
        )
    return next(iter(found.values()), None)


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
        found, product = [self.variances[level]], self.gains[level]
        for above in range(level - 1, -1, -1):
            nodes = self.chain.ancestors(level, above)
            found.insert(0, product * self.variances[above][nodes])
            product = product * self.gains[above][nodes]
        return found


def level_strategy(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> StrategyResult:
    r"""Return the tables with weights of the least error of an average cell of each.

    Errors, the sums of squares over the cells of tables, add up over all tables, each
    divided by its number of cells: a table of many cells so counts no more than a small
    one above it. With the pull :math:`g_j` of a table, the fall of the
    loss with its squared weight, the loss is at most
    :math:`\sum_j \theta_j^4 g_j / w_j^2` for weights w, and equal to it at the weights
    θ at hand. So w in proportion to the cube root of :math:`\theta_j^4 g_j` under pure
    epsilon, and to the fourth root under rho, never raises the loss.

    Parameters
    ----------
    chain : Chain
    sizes : sequence of int
        Number of values of all that tables are made of.
    subsets : sequence of tuple of int
        The tables.
    currency : {"epsilon", "rho"}
    """
    power, norm = (1 / 3, 1) if currency == "epsilon" else (1 / 4, 2)
    cells = np.array([product_of(sizes[i] for i in subset) for subset in subsets])
    weights, losses = np.ones(len(subsets)), [np.inf]
    for _ in range(ITERATIONS):
        weights = np.maximum(weights / weights.sum(), LEAST)
        weights /= np.linalg.norm(weights, norm)
        loss, pulls = _loss(chain, sizes, subsets, np.square(weights), 1 / cells)
        losses.append(loss)
        if losses[-2] - loss <= TOLERANCE * loss:
            break
        weights = np.power(weights**4 * pulls, power)
    kept = dict(zip(subsets, weights.tolist(), strict=True))
    loss, _ = _loss(chain, sizes, subsets, np.square(weights), np.ones(len(subsets)))
    return StrategyResult(
        Marginals(tuple(sizes), kept),
        "marginals",
        loss,
        len(losses) - 1,
        message="weights of tables by all levels",
        norm="L1" if norm == 1 else "L2",
    )


def _loss(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    squares: Floats,
    counted: Floats,
) -> tuple[float, Floats]:
    """Return a weighted sum of the errors of tables, and the pulls of tables."""
    places = [chain.place(subset) for subset in subsets]
    levels, loss = np.array([level for level, _ in places]), 0.0
    pulls = np.zeros(squares.size)
    for part in {part for _, others in places for part in subsets_of(others)}:
        rests = [
            product_of(sizes[i] for i in others if i not in part)
            if {*part} <= {*others}
            else np.inf
            for _, others in places
        ]
        share, rank = 1 / np.array(rests), product_of(sizes[i] - 1 for i in part)
        precisions = np.bincount(levels, share * squares)
        wanted = rank * np.bincount(levels, share * counted)
        found, falls = 0.0j, np.zeros(precisions.size)
        for level in np.flatnonzero(precisions).tolist():
            moved = precisions.astype(np.complex128)
            moved[level] *= 1 + STEP * 1j
            own = Tree(chain, moved.tolist()).variances
            found = sum(v.sum() * w for v, w in zip(own, wanted, strict=False))
            falls[level] = -found.imag / (STEP * precisions[level])
        loss += found.real
        pulls += share * falls[levels]
    return loss, pulls


class LevelNoise(Noise):
    """What is known of the errors of tables by the levels of a hierarchy.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures marginals.
    chain : Chain
    """

    def __init__(self, mechanism: MatrixMechanism, chain: Chain) -> None:
        super().__init__(mechanism)
        self.chain = chain
        self._places = [chain.place(attributes) for attributes in self._weights]
        nodes = np.array([chain.size(level) for level, _ in self._places])
        self._node_shares = self._shares * nodes
        self._made: dict[Any, Any] = {}

    def estimate(self, values: ArrayLike) -> Any:
        """Return the least-squares estimate from measured values, (p,)."""
        return LevelEstimate(self, np.asarray(values, np.float64))

    def measures(self, subset: Subset) -> bool:
        """Return whether tables that were measured add up to one of a subset."""
        level, others = self.chain.place(subset)
        return any(k >= level and {*others} <= {*a} for k, a in self._places)

    def parts(self, level: int, others: Subset) -> Iterator[Subset]:
        """Yield the interactions of others that were measured at a level, or below."""
        axis = self.chain.axes[level - 1 : level] if level else ()
        return (p for p in subsets_of(others) if self.measures((*axis, *p)))

    def tree(self, part: Subset) -> Tree:
        """Return the tree of the interactions of some of the other attributes."""
        if part in self._made:
            return self._made[part]
        precisions = np.zeros(len(self.chain.axes) + 1)
        for (level, others), share in zip(self._places, self._node_shares, strict=True):
            precisions[level] += share * ({*part} <= {*others})
        tree = Tree(self.chain, (precisions * self._cells_of(part)).tolist())
        return self._made.setdefault(part, tree)

    def _cells_of(self, part: Subset) -> int:
        return product_of(self.domain_shape[i] for i in part)

    def contrast_variance(self, subset: Subset) -> float:
        """Return the mean variance of a contrast of the others, over the nodes."""
        level, others = self.chain.place(subset)
        return float(self.tree(others).variances[level].mean())

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the error of a count."""
        return float(self.variances(*self.chain.place(subset)).mean())

    def variances(self, level: int, others: Subset, together: Any = None) -> Floats:
        """Return the variances of counts at the nodes of a level, shape (nodes,).

        Interactions that were not measured are taken for zero. `together` is how many
        values of each of the others a count has.
        """
        found = np.zeros(self.chain.size(level))
        for part in self.parts(level, others):
            square = 1.0
            for i, m in zip(others, together or (1,) * len(others), strict=True):
                n = self.domain_shape[i]
                square *= m * (1 - m / n) if i in part else (m / n) ** 2
            found += square * self.tree(part).variances[level]
        return found

    def law(self, subset: Subset, together: Subset | None = None) -> Any:
        """Return the errors of the entries of a table, which differ by node."""
        if (subset, together) not in self._made:
            self._made[subset, together] = self._errors(subset, together)
        return self._made[subset, together]

    def _errors(self, subset: Subset, together: Subset | None) -> NodeErrors:
        level, others = self.chain.place(subset)
        counted = dict(zip(subset, together or (1,) * len(subset), strict=True))
        own = tuple(counted[i] for i in others)

        @cache
        def covariance(part: Subset, k: int) -> Floats:
            found = self.tree(part).covariances(max(k, level))[min(k, level)]
            return self._cells_of(part) * found

        terms = []
        for j, (k, measured) in enumerate(self._places):
            common = [a for a, i in enumerate(others) if i in measured]
            inside = self._cells_of(tuple(others[a] for a in common))
            rows = self._cells[j] / self.chain.size(k) / inside
            found = self._patterns(others, own, common, partial(covariance, k=k))
            for coefficient, number in found:
                size = np.abs(coefficient * self._node_shares[j])
                numbers = np.full(size.size, float(number * rows))
                if k > level:  # as many equal ones, of the same sums of squares
                    nodes = self.chain.ancestors(k, level)
                    squares, fourth = (np.bincount(nodes, size**p) for p in (2, 4))
                    many = np.where(fourth > 0, squares**2, 1) / (
                        fourth + (fourth == 0)
                    )
                    size, numbers = np.sqrt(squares / many), numbers[0] * many
                terms.append((size, numbers, self._variances[j], self._parameters[j]))
        arrays = map(np.array, zip(*terms, strict=True))
        return NodeErrors(self._law, self.variances(level, others, own), *arrays)


@dataclass(frozen=True, eq=False)
class NodeErrors:
    """The laws of the errors of counts at the nodes of a level.

    Noise of a node, of nodes above and below it is told apart. All other noise is taken
    for a normal error, and for the noise of one more count. The wider law is kept.

    Attributes
    ----------
    law : Law
        Of the noise of one row.
    variances : ndarray, shape (nodes,)
        Of the errors.
    coefficients, numbers : ndarray, shape (terms, nodes)
        Magnitudes of coefficients of noise, and how many rows have each.
    row_variances, parameters : ndarray, shape (terms,)
        The variance and the parameter of the noise of every term.
    """

    law: Any
    variances: Floats
    coefficients: Floats
    numbers: Floats
    row_variances: Floats
    parameters: Floats

    @property
    def standard_error(self) -> float:
        """Root of the mean squared standard error."""
        return float(np.sqrt(self.variances.mean()))

    def half_width(self, level: float) -> float:
        """Return the mean half width of the intervals of a table."""
        return float(self.at(level, slice(None))[1].mean())

    def at(self, level: float, nodes: Any) -> tuple[Floats, Floats]:
        """Return the standard errors, and half the widths of intervals, at nodes."""
        errors = np.sqrt(self.variances)
        roots = self.coefficients * np.sqrt(self.numbers * self.row_variances[:, None])
        keys = np.rint(
            np.concatenate([roots / errors / ALIKE, 4 * np.log2(self.numbers)])
        )
        _, first, kind = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        widths = [self._width(node, level) / errors[node] for node in first.tolist()]
        return errors[nodes], (np.array(widths)[kind.ravel()] * errors)[nodes]

    def _width(self, node: int, level: float) -> float:
        """Return what the error of a node stays below with a probability."""
        own, numbers = self.coefficients[:, node], self.numbers[:, node]
        spreads = np.sqrt(numbers * self.row_variances)
        most = int((own * spreads).argmax())
        variance, total = self.row_variances[most], self.variances[node]
        rest = max(total - float(np.square(own * spreads).sum()), 0.0)
        laws = [
            error_law(
                self.law,
                np.append(own, np.sqrt(rest / (number * variance))),
                np.append(numbers, number),
                np.append(self.row_variances, variance),
                np.append(self.parameters, self.parameters[most]),
            )
            for number in ((MANY, 1) if rest > total / MANY else (1,))
        ]
        half = max(law.half_width(level) for law in laws)
        return half + step_of(own, spreads) / 2


class LevelEstimate:
    """Unbiased tables by the levels of a hierarchy, by least squares.

    Parameters
    ----------
    noise : LevelNoise
    values : ndarray, shape (p,)
        What was measured.
    """

    def __init__(self, noise: LevelNoise, values: Floats) -> None:
        self.noise, self._tables = noise, []
        parts = np.split(values, np.cumsum(noise._cells.astype(int))[:-1])
        for attributes, part in zip(noise._weights, parts, strict=True):
            table = part.reshape([1, *(noise.domain_shape[i] for i in attributes)])
            level, _ = noise.chain.place(attributes)
            if level:  # nodes first
                axis = attributes.index(noise.chain.axes[level - 1])
                table = np.moveaxis(table[0], axis, 0)
            self._tables.append(table)
        self._parts: dict[Subset, list[Floats]] = {}

    def marginal(self, attributes: Any) -> Floats:
        """Return a table in C order of its attributes."""
        subset, chain = tuple(attributes), self.noise.chain
        level, others = chain.place(subset)
        sizes = [self.noise.domain_shape[i] for i in others]
        table = np.zeros((chain.size(level), *sizes))
        for part in self.noise.parts(level, others):
            if part not in self._parts:
                self._parts[part] = self._interactions(part)
            own = self._parts[part][level]
            shape = [n if i in part else 1 for i, n in zip(others, sizes, strict=True)]
            spread = product_of(sizes) / own.shape[1]
            table += own.reshape(-1, *shape) / spread
        if level:
            table = np.moveaxis(table, 0, subset.index(chain.axes[level - 1]))
        return table.ravel()

    def _interactions(self, part: Subset) -> list[Floats]:
        """Return those of some of the others at all nodes, by level."""
        tree, noise = self.noise.tree(part), self.noise
        found: list[Any] = [0.0] * len(tree.precisions)
        measured = zip(noise._places, noise._node_shares, self._tables, strict=True)
        for (level, others), share, table in measured:
            if {*part} <= {*others}:
                out = tuple(a for a, i in enumerate(others, 1) if i not in part)
                own = table.sum(axis=out)
                for axis in range(1, own.ndim):
                    own = own - own.mean(axis=axis, keepdims=True)
                own = own.reshape(len(own), -1)
                found[level] = found[level] + share * noise._cells_of(part) * own
        return tree.estimate(found)
