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

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial, reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.domain.domain import Domain
from mmech.mechanism import MatrixMechanism
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.strategies import StrategyResult
from mmech.tables.noise import Noise, error_law, step_of, subsets_of

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Subset = tuple[int, ...]
Nodes = dict[Subset, Floats]

ITERATIONS, TOLERANCE = 300, 1e-6
"""Limits of the search for the weights of tables."""

LEAST, LEAST_OF_FACTORS = 1e-3, 0.02
"""Share of the least weight in their sum: all tables stay measured. Products of factors
must be near whole multiples of the grid of weights."""

ROUNDS = 4
"""Times that the factors of weights of several hierarchies are optimized in turn."""

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
            {own: k for k, own in enumerate(dict.fromkeys(map(_within(x), subsets)))}
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
    norm = 1 if currency == "epsilon" else 2
    parts = chain.factors(subsets)
    at = [np.array([own[s] for s in map(_within(own), subsets)]) for own in parts]
    alone = np.array([1 / product_of(sizes[i] for i in own) for own in subsets])
    weights = [np.ones(len(own)) for own in parts]
    errors, steps = weights[:], 0
    rounds, least = (ROUNDS, LEAST_OF_FACTORS) if chain.beside else (1, LEAST)
    for _ in range(rounds):
        for k, (own, part) in enumerate(zip(chain.all, parts, strict=True)):
            others = [e[a] for e, a in zip(errors, at, strict=True)]
            others[k] = alone
            counted = np.bincount(at[k], np.prod(others, axis=0)).astype(np.float64)
            found = _lightest(own, sizes, list(part), counted, norm, least)
            weights[k], errors[k], steps = found[0], found[1], steps + found[2]
    products = reduce(np.multiply.outer, weights).ravel().tolist()
    of_tables = [e[a] for e, a in zip(errors, at, strict=True)]
    return StrategyResult(
        Marginals(
            tuple(sizes), dict(zip(chain.measured(subsets), products, strict=True))
        ),
        "marginals",
        float(np.prod(of_tables, axis=0).sum()),
        steps,
        message="weights of tables by all levels",
        norm="L1" if norm == 1 else "L2",
    )


def _lightest(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    counted: Floats,
    norm: int,
    least: float,
) -> tuple[Floats, Floats, int]:
    """Return the weights of tables of the least error, the errors, and steps."""
    weights, losses = np.ones(len(subsets)), [np.inf]
    for _ in range(ITERATIONS):
        weights = np.maximum(weights / weights.sum(), least)
        weights /= np.linalg.norm(weights, norm)
        errors, pulls = _errors_and_pulls(
            chain, sizes, subsets, np.square(weights), counted
        )
        losses.append(float(errors @ counted))
        if losses[-2] - losses[-1] <= TOLERANCE * losses[-1]:
            break
        weights = np.power(weights**4 * pulls, 1 / 3 if norm == 1 else 1 / 4)
    return weights, errors, len(losses) - 1


def _within(part: Iterable[Any]) -> Callable[[Subset], Subset]:
    """Return what takes the attributes of a table that are in a part."""
    inside = {i for own in part for i in (own if isinstance(own, tuple) else (own,))}
    return lambda subset: tuple(i for i in subset if i in inside)


def _errors_and_pulls(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    squares: Floats,
    counted: Floats,
) -> tuple[Floats, Floats]:
    """Return the errors of tables, and the pulls on tables of their weighted sum."""
    places = [chain.place(subset) for subset in subsets]
    levels = np.array([level for level, _ in places])
    errors, pulls = np.zeros(squares.size), np.zeros(squares.size)
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
        sums, falls = np.zeros(precisions.size), np.zeros(precisions.size)
        for level in np.flatnonzero(precisions).tolist():
            moved = precisions.astype(np.complex128)
            moved[level] *= 1 + STEP * 1j
            own = Tree(chain, moved.tolist()).variances
            found = sum(v.sum() * w for v, w in zip(own, wanted, strict=False))
            falls[level] = -found.imag / (STEP * precisions[level])
            sums[: len(own)] = [v.sum().real for v in own]
        errors += rank * share * sums[levels]
        pulls += share * falls[levels]
    return errors, pulls


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
        self._places = [chain.places(attributes) for attributes in self._weights]
        self._nodes = np.array([self.n_nodes(levels) for levels, _ in self._places])
        self._node_shares = self._shares * self._nodes
        self._made: dict[Any, Any] = {}
        self._beside: list[Tree] = []
        self._rounding = 1.0
        if chain.beside:
            self._factorize()

    def _factorize(self) -> None:
        """Take precisions for products of factors, which they are but for rounding.

        Errors are as if all variances were larger, by the most that one of them is.
        """
        precisions, factors = 1 / self._variances, np.ones(self._variances.size)
        for k, own in enumerate(self.chain.beside, 1):
            levels = [place[k] for place, _ in self._places]
            shares = np.bincount(levels, precisions) / precisions.sum()
            self._beside.append(Tree(own, shares.tolist()))
            factors *= shares[levels]
        tables: dict[Any, list[int]] = {}
        for j, (place, others) in enumerate(self._places):
            tables.setdefault((place[0], others), []).append(j)
        for same in tables.values():
            factors[same] *= precisions[same].sum()
        self._rounding = float((factors / precisions).max())
        self._node_shares *= factors / precisions

    def n_nodes(self, levels: Subset) -> int:
        """Return the number of combinations of nodes of a level per hierarchy."""
        each = zip(self.chain.all, levels, strict=True)
        return product_of(own.size(level) for own, level in each)

    def estimate(self, values: ArrayLike) -> Any:
        """Return the least-squares estimate from measured values, (p,)."""
        return LevelEstimate(self, np.asarray(values, np.float64))

    def measures(self, subset: Subset) -> bool:
        """Return whether tables that were measured add up to one of a subset."""
        levels, others = self.chain.places(subset)
        return any(
            all(k >= level for k, level in zip(own, levels, strict=True))
            and {*others} <= {*a}
            for own, a in self._places
        )

    def parts(self, levels: Subset, others: Subset) -> Iterator[Subset]:
        """Yield the interactions of others that were measured at levels, or below."""
        each = zip(self.chain.all, levels, strict=True)
        axes = [own.axes[level - 1] for own, level in each if level]
        return (p for p in subsets_of(others) if self.measures((*axes, *p)))

    def trees(self, part: Subset) -> list[Tree]:
        """Return the tree of every hierarchy, for interactions of the others."""
        return [self.tree(part), *self._beside]

    def tree(self, part: Subset) -> Tree:
        """Return the tree of the interactions of some of the other attributes."""
        if part in self._made:
            return self._made[part]
        precisions = np.zeros(len(self.chain.axes) + 1)
        for (levels, others), share in zip(
            self._places, self._node_shares, strict=True
        ):
            precisions[levels[0]] += share * ({*part} <= {*others})
        tree = Tree(self.chain, (precisions * self._cells_of(part)).tolist())
        return self._made.setdefault(part, tree)

    def _cells_of(self, part: Subset) -> int:
        return product_of(self.domain_shape[i] for i in part)

    def contrast_variance(self, subset: Subset) -> float:
        """Return the mean variance of a contrast of the others, over the nodes."""
        levels, others = self.chain.places(subset)
        return float(self._variance(others, levels).mean())

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the error of a count."""
        return float(self.variances(*self.chain.places(subset)).mean())

    def _variance(self, part: Subset, levels: Subset) -> Floats:
        """Return V of interactions of others at the nodes of levels, (nodes,)."""
        each = zip(self.trees(part), levels, strict=True)
        found = reduce(np.multiply.outer, (t.variances[k] for t, k in each)).ravel()
        return np.asarray(found * self._rounding)

    def variances(self, levels: Subset, others: Subset, together: Any = None) -> Floats:
        """Return the variances of counts at the nodes of levels, shape (nodes,).

        Interactions that were not measured are taken for zero. `together` is how many
        values of each of the others a count has.
        """
        found = np.zeros(self.n_nodes(levels))
        for part in self.parts(levels, others):
            square = 1.0
            for i, m in zip(others, together or (1,) * len(others), strict=True):
                n = self.domain_shape[i]
                square *= m * (1 - m / n) if i in part else (m / n) ** 2
            found += square * self._variance(part, levels)
        return found

    def law(self, subset: Subset, together: Subset | None = None) -> Any:
        """Return the errors of the entries of a table, which differ by node."""
        if (subset, together) not in self._made:
            self._made[subset, together] = self._errors(subset, together)
        return self._made[subset, together]

    def _errors(self, subset: Subset, together: Subset | None) -> NodeErrors:
        levels, others = self.chain.places(subset)
        counted = dict(zip(subset, together or (1,) * len(subset), strict=True))
        own = tuple(counted[i] for i in others)

        @cache
        def covariance(part: Subset, measured: Subset) -> Floats:
            each = zip(self.trees(part), measured, levels, strict=True)
            found = [t.covariances(max(k, n))[min(k, n)] for t, k, n in each]
            return self._cells_of(part) * reduce(np.multiply.outer, found).ravel()

        terms = []
        for j, (measured, others_of) in enumerate(self._places):
            common = [a for a, i in enumerate(others) if i in others_of]
            inside = self._cells_of(tuple(others[a] for a in common))
            rows = self._cells[j] / self._nodes[j] / inside
            nodes = self._below(measured, levels)
            found = self._patterns(
                others, own, common, partial(covariance, measured=measured)
            )
            for coefficient, number in found:
                size = np.abs(coefficient * self._node_shares[j])
                numbers = np.full(size.size, float(number * rows))
                if nodes is not None:  # as many equal ones, of the same sums of squares
                    squares, fourth = (np.bincount(nodes, size**p) for p in (2, 4))
                    many = np.where(fourth > 0, squares**2, 1) / (
                        fourth + (fourth == 0)
                    )
                    size, numbers = np.sqrt(squares / many), numbers[0] * many
                terms.append((size, numbers, self._variances[j], self._parameters[j]))
        arrays = map(np.array, zip(*terms, strict=True))
        return NodeErrors(self._law, self.variances(levels, others, own), *arrays)

    def _below(self, measured: Subset, levels: Subset) -> Integers | None:
        """Return the nodes of levels above all those that are measured below them."""
        if all(k <= level for k, level in zip(measured, levels, strict=True)):
            return None
        nodes = np.zeros(1, np.int64)
        for own, k, level in zip(self.chain.all, measured, levels, strict=True):
            above = own.ancestors(max(k, level), level)
            nodes = np.add.outer(nodes * own.size(level), above).ravel()
        return nodes


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
            table = part.reshape([noise.domain_shape[i] for i in attributes])
            axes, missing = self._axes(attributes)
            moved = np.moveaxis(table, axes, range(len(axes)))  # nodes first
            self._tables.append(np.expand_dims(moved, missing))
        self._parts: dict[Subset, Nodes] = {}

    def _axes(self, subset: Subset) -> tuple[list[int], tuple[int, ...]]:
        """Return the axes of levels in a table, and hierarchies without one."""
        chains = self.noise.chain.all
        levels, _ = self.noise.chain.places(subset)
        each = list(zip(chains, levels, strict=True))
        axes = [subset.index(own.axes[level - 1]) for own, level in each if level]
        return axes, tuple(k for k, level in enumerate(levels) if not level)

    def marginal(self, attributes: Any) -> Floats:
        """Return a table in C order of its attributes."""
        subset, noise = tuple(attributes), self.noise
        levels, others = noise.chain.places(subset)
        sizes = [noise.domain_shape[i] for i in others]
        nodes = [c.size(k) for c, k in zip(noise.chain.all, levels, strict=True)]
        table = np.zeros((*nodes, *sizes))
        for part in noise.parts(levels, others):
            if part not in self._parts:
                self._parts[part] = self._interactions(part)
            own = self._parts[part][levels]
            shape = [n if i in part else 1 for i, n in zip(others, sizes, strict=True)]
            spread = product_of(sizes) / own.shape[-1]
            table += own.reshape(*nodes, *shape) / spread
        axes, missing = self._axes(subset)
        return np.moveaxis(table.squeeze(missing), range(len(axes)), axes).ravel()

    def _interactions(self, part: Subset) -> Nodes:
        """Return those of some of the others at all nodes, by levels."""
        noise, found = self.noise, dict[Subset, Any]()
        measured = zip(noise._places, noise._node_shares, self._tables, strict=True)
        first = len(noise.chain.all)
        for (levels, others), share, table in measured:
            if {*part} <= {*others}:
                out = tuple(a for a, i in enumerate(others, first) if i not in part)
                own = table.sum(axis=out)
                for axis in range(first, own.ndim):
                    own = own - own.mean(axis=axis, keepdims=True)
                own = own.reshape(*own.shape[:first], -1)
                more = share * noise._cells_of(part) * own
                found[levels] = found.get(levels, 0.0) + more
        for axis, tree in reversed(list(enumerate(noise.trees(part)))):
            found = tree.along(found, axis)
        return found
