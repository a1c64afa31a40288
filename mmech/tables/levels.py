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
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.domain.domain import Domain
from mmech.exceptions import ParameterError
from mmech.mechanism import MatrixMechanism
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.strategies import StrategyResult
from mmech.tables.noise import ErrorLaw, Noise, error_law, subsets_of

__all__ = [
    *("Chain", "LevelEstimate", "LevelNoise", "chain_of", "families_of"),
    "level_strategy",
]

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

    def place(self, subset: Sequence[int]) -> tuple[int, Subset]:
        """Return the level of a table, and its other attributes."""
        level = next((k for k, i in enumerate(self.axes, 1) if i in subset), 0)
        return level, tuple(i for i in subset if i not in self.axes)

    def first(self, level: int) -> Integers:
        """Return the first child of every node of the level above."""
        return np.flatnonzero(np.diff(self.parents[level - 1], prepend=-1))

    def up(self, level: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return sums over the children of every node of the level above."""
        return np.asarray(np.add.reduceat(values, self.first(level), axis=0))

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


def chain_of(domain: Domain, names: Sequence[str]) -> Chain | None:
    """Return the levels of the one hierarchy that tables have several levels of."""
    found = None
    for own in domain.attributes:
        axes = tuple(i for i, n in enumerate(names) if domain.levels[n] == own.name)
        if len(axes) < 2:
            continue
        if found is not None:
            raise ParameterError(
                "tables",
                "must have several levels of one hierarchy only, but have those of "
                f"{found[0]!r} and of {own.name!r}",
                remedy="name one level of one of the two in all tables",
            )
        nodes = [np.zeros(own.size, np.int64), *(own.nodes(names[i]) for i in axes)]
        parents = []
        for above, below in pairwise(nodes):
            first = np.flatnonzero(np.diff(below, prepend=-1))
            parents.append(above[first])
        found = own.name, Chain(axes, tuple(parents))
    return None if found is None else found[1]


def families_of(chain: Chain, subsets: Sequence[Subset]) -> list[Subset]:
    """Return sets of other attributes that tables below the topmost level link."""
    found: list[set[int]] = []
    for subset in subsets:
        level, others = chain.place(subset)
        if level > 1:
            linked = [own for own in found if own & set(others)]
            found = [own for own in found if own not in linked]
            found.append(set(others).union(*linked))
    return sorted({tuple(sorted(own)) for own in found if own}) or [()]


# ---- a tree ---------------------------------------------------------------------


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
    variances : list of ndarray
        V of all nodes, by level.
    gains : list of ndarray
        G of all nodes.
    """

    def __init__(self, chain: Chain, precisions: Sequence[Any]) -> None:
        last = max(k for k, own in enumerate(precisions) if own)
        self.chain, self.precisions = chain, precisions[: last + 1]
        own = np.full(chain.size(last), precisions[last])
        self._up, self._sums = [own], []
        for level in range(last, 0, -1):
            self._sums.insert(0, chain.up(level, 1 / self._up[0]))
            self._up.insert(0, precisions[level - 1] + 1 / self._sums[0])
        self.variances, self.gains = [1 / self._up[0]], [np.ones(1)]
        for level in range(1, last + 1):
            spread = chain.down(level, self._sums[level - 1])
            gain = 1 / (self._up[level] * spread)
            left = spread - chain.down(level, self.variances[-1])
            self.gains.append(gain)
            self.variances.append(1 / self._up[level] - np.square(gain) * left)

    def estimate(self, values: Sequence[Floats | None]) -> list[Floats]:
        """Return the estimates of all nodes, by level.

        Parameters
        ----------
        values : sequence of ndarray, shape (nodes, columns)
            What was measured, by level; ``None`` where nothing was.
        """
        found, sums = [], []
        for level in range(len(self.precisions) - 1, -1, -1):
            total: Any = 0.0
            if found:
                sums.insert(0, self.chain.up(level + 1, found[0]))
                total = sums[0] / self._sums[level][:, None]
            own = values[level]
            if own is not None:
                total = total + own * self.precisions[level]
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


# ---- weights --------------------------------------------------------------------


def level_strategy(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> StrategyResult:
    r"""Return the tables with weights of the least error of an average cell of each.

    Errors :math:`V_t`, the sums of squares over the cells of tables, add up over all
    tables, each divided by its number of cells: a table of many cells so counts no more
    than a small one above it. With the pull :math:`g_j` of a table, the fall of the
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
    search = _Search(chain, sizes, subsets)
    cells = np.array([product_of(sizes[i] for i in subset) for subset in subsets])
    weights, losses = np.ones(len(subsets)), [np.inf]
    for _ in range(ITERATIONS):
        weights = np.maximum(weights / weights.sum(), LEAST)
        weights /= np.linalg.norm(weights, norm)
        errors = search.errors(np.square(weights))
        losses.append(float((errors / cells).sum()))
        if losses[-2] - losses[-1] <= TOLERANCE * losses[-1]:
            break
        weights = np.power(weights**4 * search.pulls(np.square(weights), cells), power)
    strategy = Marginals(
        tuple(sizes), dict(zip(subsets, weights.tolist(), strict=True))
    )
    return StrategyResult(
        strategy,
        "marginals",
        float(errors.sum()),
        len(losses) - 1,
        message="weights of tables by all levels",
        norm="L1" if norm == 1 else "L2",
    )


class _Search:
    """Errors of tables, summed over their cells, for squared weights of the tables."""

    def __init__(
        self, chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset]
    ) -> None:
        places = [chain.place(subset) for subset in subsets]
        parts = sorted({part for _, others in places for part in subsets_of(others)})
        self.chain, self._levels = chain, np.array([level for level, _ in places])
        self._ranks = [product_of(sizes[i] - 1 for i in part) for part in parts]
        # By interaction and table: how much of the one the other measures.
        self._shares = np.zeros((len(parts), len(subsets)))
        for row, part in enumerate(parts):
            for j, (_, others) in enumerate(places):
                if set(part) <= set(others):
                    rest = product_of(sizes[i] for i in others if i not in part)
                    self._shares[row, j] = 1 / rest

    def errors(self, squares: Floats) -> Floats:
        """Return the error of every table."""
        found = np.zeros(squares.size)
        for rank, share in zip(self._ranks, self._shares, strict=True):
            precisions = np.bincount(self._levels, share * squares).tolist()
            tree = Tree(self.chain, precisions)
            sums = np.zeros(len(self.chain.axes) + 1)
            sums[: len(tree.variances)] = [own.sum() for own in tree.variances]
            found += rank * share * sums[self._levels]
        return found

    def pulls(self, squares: Floats, cells: Floats) -> Floats:
        """Return how the sum of errors over cells falls with each squared weight."""
        found = np.zeros(squares.size)
        for rank, share in zip(self._ranks, self._shares, strict=True):
            precisions = np.bincount(self._levels, share * squares)
            wanted = np.bincount(self._levels, share / cells)
            falls = np.zeros(precisions.size)
            for level in np.flatnonzero(precisions):
                moved = precisions.astype(np.complex128)
                moved[level] *= 1 + STEP * 1j
                own = Tree(self.chain, moved.tolist()).variances
                loss = sum(v.sum() * w for v, w in zip(own, wanted, strict=False))
                falls[level] = -loss.imag / (STEP * precisions[level])
            found += rank * share * falls[self._levels]
        return found


# ---- errors ---------------------------------------------------------------------


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
        self._trees: dict[Subset, Tree] = {}
        self._errors: dict[tuple[Subset, Subset], NodeErrors] = {}

    def estimate(self, values: ArrayLike) -> LevelEstimate:  # type: ignore[override]
        """Return the least-squares estimate from measured values, (p,)."""
        return LevelEstimate(self, np.asarray(values, np.float64))

    def measures(self, subset: Subset) -> bool:
        """Return whether tables that were measured add up to one of a subset."""
        return self.reaches(*self.chain.place(subset))

    def reaches(self, level: int, part: Subset) -> bool:
        """Return whether interactions were measured at a level, or below."""
        return any(k >= level and set(part) <= set(a) for k, a in self._places)

    def tree(self, part: Subset) -> Tree:
        """Return the tree of the interactions of some of the other attributes."""
        if part not in self._trees:
            precisions = np.zeros(len(self.chain.axes) + 1)
            for (level, others), share in zip(
                self._places, self._node_shares, strict=True
            ):
                if set(part) <= set(others):
                    precisions[level] += share
            cells = product_of(self.domain_shape[i] for i in part)
            self._trees[part] = Tree(self.chain, (precisions * cells).tolist())
        return self._trees[part]

    def contrast_variance(self, subset: Subset) -> float:
        """Return the mean variance of a contrast of the others, over the nodes."""
        level, others = self.chain.place(subset)
        return float(self.tree(others).variances[level].mean())

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the error of a count."""
        return float(self.variances(*self.chain.place(subset)).mean())

    def law(  # type: ignore[override]
        self, subset: Subset, together: Subset | None = None
    ) -> NodeErrors:
        """Return the errors of the entries of a table, which differ by node.

        Parameters
        ----------
        subset : tuple of int
            Attributes of the table.
        together : tuple of int, optional
            How many values of each attribute the entry counts together; 1 by default.
        """
        counted = together or (1,) * len(subset)
        if (subset, counted) not in self._errors:
            self._errors[subset, counted] = self._node_errors(subset, counted)
        return self._errors[subset, counted]

    def variances(
        self, level: int, others: Subset, counted: Subset | None = None
    ) -> Floats:
        """Return the variances of counts at the nodes of a level, shape (nodes,).

        Interactions that were not measured are taken for zero.
        """
        found = np.zeros(self.chain.size(level))
        for part in subsets_of(others):
            square = 1.0
            for i, m in zip(others, counted or (1,) * len(others), strict=True):
                n = self.domain_shape[i]
                square *= m * (1 - m / n) if i in part else (m / n) ** 2
            if self.reaches(level, part):
                found += square * self.tree(part).variances[level]
        return found

    def _node_errors(self, subset: Subset, counted: Subset) -> NodeErrors:
        level, others = self.chain.place(subset)
        own = tuple(m for i, m in zip(subset, counted, strict=True) if i in others)
        variance = self.variances(level, others, own)
        covariances: dict[tuple[Subset, int], Floats] = {}
        for part in subsets_of(others):
            tree = self.tree(part)
            cells = product_of(self.domain_shape[i] for i in part)
            for k in range(len(tree.variances)):
                found = tree.covariances(max(k, level))[min(k, level)]
                covariances[part, k] = cells * found
        terms = []
        for place, (k, measured) in enumerate(self._places):
            common = [j for j, i in enumerate(others) if i in measured]
            inside = product_of(self.domain_shape[others[j]] for j in common)
            cells = self._cells[place] / self.chain.size(k) / inside
            for found, number in self._patterns(
                others, own, common, lambda part, k=k: covariances[part, k]
            ):
                coefficient = np.abs(found * self._node_shares[place])
                numbers = np.full(coefficient.size, float(number * cells))
                if k > level:  # as many equal ones, of the same sums of squares
                    nodes = self.chain.ancestors(k, level)
                    squares = np.bincount(nodes, coefficient**2)
                    fourth = np.bincount(nodes, coefficient**4)
                    many = np.where(fourth > 0, squares**2, 1.0)
                    many /= np.where(fourth > 0, fourth, 1.0)
                    coefficient, numbers = np.sqrt(squares / many), numbers[0] * many
                law = self._variances[place], self._parameters[place]
                terms.append((coefficient, numbers, *law))
        coefficients, numbers, *laws = zip(*terms, strict=True)
        return NodeErrors(
            self._law, variance, np.stack(coefficients), np.stack(numbers), *laws
        )


@dataclass(frozen=True, eq=False)
class NodeErrors:
    """The laws of the errors of counts at the nodes of a level.

    Noise of a node, of those above and of those below it is told apart. The noise of
    all others is taken for a normal error, and for that of one count more, and the
    wider law is kept.

    Attributes
    ----------
    law : Law
        Of the noise of one row.
    variances : ndarray, shape (nodes,)
        Of the errors.
    coefficients, numbers : ndarray, shape (terms, nodes)
        Of noise, and how many rows have each.
    row_variances, parameters : tuple of float
        The variance and the parameter of the noise of every term.
    """

    law: Any
    variances: Floats
    coefficients: Floats
    numbers: Floats
    row_variances: tuple[float, ...]
    parameters: tuple[float, ...]

    @property
    def standard_errors(self) -> Floats:
        """Standard errors of the counts of all nodes, shape (nodes,)."""
        return np.sqrt(self.variances)

    @property
    def standard_error(self) -> float:
        """Root of the mean squared standard error."""
        return float(np.sqrt(self.variances.mean()))

    def half_width(self, level: float) -> float:
        """Return the mean half width of the intervals of a table."""
        return float(self.half_widths(level).mean())

    def at(self, level: float, nodes: Integers) -> tuple[Floats, Floats]:
        """Return the standard errors and half widths at nodes."""
        return self.standard_errors[nodes], self.half_widths(level)[nodes]

    def half_widths(self, level: float) -> Floats:
        """Return what errors stay below with a probability, shape (nodes,)."""
        errors = self.standard_errors
        first, kind = self._kinds
        widths = np.array(
            [
                max(law.half_width(level) for law in self._laws(i)) + self._gap(i) / 2
                for i in first
            ]
        )
        return np.asarray((widths / errors[first])[kind] * errors)

    @cached_property
    def _kinds(self) -> tuple[Integers, Integers]:
        """A node of every kind, and the kind of every node."""
        roots = self.coefficients * np.sqrt(self.row_variances)[:, None]
        shares = np.sqrt(self.numbers) * roots / self.standard_errors / ALIKE
        keys = np.rint(np.concatenate([shares, 4 * np.log2(self.numbers)]))
        _, first, kind = np.unique(
            keys.astype(np.int32), axis=1, return_index=True, return_inverse=True
        )
        return first, kind.ravel()

    def _gap(self, node: int) -> float:
        """Return how far values of an error are apart, but for a little noise.

        Whole noise makes them multiples of a common divisor of coefficients, about; it
        is found by Euclid's algorithm.
        """
        own = self.coefficients[:, node]
        spreads = np.sqrt(self.numbers[:, node] * self.row_variances)
        gap = float(own.max())
        for value, spread in zip(own.tolist(), spreads.tolist(), strict=True):
            large = value
            while (left := abs(large - gap * round(large / gap))) * spread > gap / 4:
                gap, large = left, gap
        return gap

    def _laws(self, node: int) -> Iterator[ErrorLaw]:
        own, numbers = self.coefficients[:, node], self.numbers[:, node]
        parts = numbers * np.square(own) * self.row_variances
        rest = max(self.variances[node] - parts.sum(), 0.0)
        most = int(parts.argmax())
        variance = self.row_variances[most]
        for number in (MANY, 1) if rest > self.variances[node] / MANY else (1,):
            yield error_law(
                self.law,
                np.append(own, np.sqrt(rest / (number * variance))),
                np.append(numbers, number),
                np.append(self.row_variances, variance),
                np.append(self.parameters, self.parameters[most]),
            )


class LevelEstimate:
    """Unbiased tables by the levels of a hierarchy, by least squares.

    Parameters
    ----------
    noise : LevelNoise
    values : ndarray, shape (p,)
        What was measured.
    """

    def __init__(self, noise: LevelNoise, values: Floats) -> None:
        self.noise, self.domain_shape = noise, noise.domain_shape
        self._tables = []
        start = 0
        for attributes, size in zip(
            noise._weights, noise._cells.astype(int).tolist(), strict=True
        ):
            shape = [self.domain_shape[i] for i in attributes]
            table = values[start : start + size].reshape(shape)
            level, _ = noise.chain.place(attributes)
            if level:
                table = np.moveaxis(
                    table, attributes.index(noise.chain.axes[level - 1]), 0
                )
            self._tables.append(table.reshape(noise.chain.size(level), -1))
            start += size
        self._parts: dict[Subset, list[Floats]] = {}

    def marginal(self, attributes: Any) -> Floats:
        """Return a table in C order of its attributes."""
        subset = tuple(attributes)
        level, others = self.noise.chain.place(subset)
        table = self.at_level(level, others)
        if level:
            sizes = [self.domain_shape[i] for i in others]
            axis = subset.index(self.noise.chain.axes[level - 1])
            table = np.moveaxis(table.reshape(-1, *sizes), 0, axis)
        return table.ravel()

    def at_level(self, level: int, others: Subset) -> Floats:
        """Return a table of the nodes of a level, shape (nodes, cells)."""
        sizes = [self.domain_shape[i] for i in others]
        table = np.zeros((self.noise.chain.size(level), *sizes))
        for part in filter(partial(self.noise.reaches, level), subsets_of(others)):
            own = self._part(part)[level]
            shape = [n if i in part else 1 for i, n in zip(others, sizes, strict=True)]
            spread = product_of(sizes) / own.shape[1]
            table += own.reshape(-1, *shape) / spread
        return table.reshape(len(table), -1)

    def _part(self, part: Subset) -> list[Floats]:
        """Return the interactions of some of the others at all nodes, by level."""
        if part not in self._parts:
            tree, noise = self.noise.tree(part), self.noise
            found: list[Any] = [None] * len(tree.precisions)
            cells = product_of(self.domain_shape[i] for i in part)
            for (level, others), share, table in zip(
                noise._places, noise._node_shares, self._tables, strict=True
            ):
                if not set(part) <= set(others):
                    continue
                weight = share * cells / tree.precisions[level]
                own = weight * self._interaction(table, others, part)
                found[level] = own if found[level] is None else found[level] + own
            self._parts[part] = tree.estimate(found)
        return self._parts[part]

    def _interaction(self, table: Floats, others: Subset, part: Subset) -> Floats:
        """Return sums over others with the means along every axis taken off."""
        array = table.reshape(-1, *(self.domain_shape[i] for i in others))
        out = tuple(a for a, i in enumerate(others, 1) if i not in part)
        array = array.sum(axis=out)
        for axis in range(1, array.ndim):
            array = array - array.mean(axis=axis, keepdims=True)
        return np.asarray(array.reshape(len(table), -1))
