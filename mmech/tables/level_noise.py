"""Estimates of tables by levels of hierarchies, and the laws of their errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmech.arrays import Floats, Integers, Subset
from mmech.mechanism import MatrixMechanism
from mmech.noise.tails import error_law, step_of
from mmech.operators.base import product_of
from mmech.tables.levels import Chain, Tree, subsets_of
from mmech.tables.noise import Noise

Nodes = dict[Subset, Floats]


ALIKE = 0.005
"""Nodes whose errors are made of noise in about the same shares have one law: the
square roots of shares are rounded to multiples of this."""


MANY = 20_000
"""Counts whose noise together is normal: none is more than a hundredth of it."""


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
