"""Sums over nested blocks of neighbours: trees over an ordered domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from mmech.checks import check_integer
from mmech.operators.base import Array, QueryMatrix, Symmetric, exact_sums, query_matrix
from mmech.operators.compose import check_weight


@query_matrix("Hierarchy", init=False)
class Hierarchy(QueryMatrix):
    """Sums over blocks of neighbours whose sizes divide each other: a tree.

    A level of block size m holds the sums of every m neighbouring cells, times its
    weight. The end of the domain cuts the last block of a level off where m does not
    divide n. Products and the pseudoinverse cost O(n) per level.

    Parameters
    ----------
    n : int
        Number of cells.
    weights : mapping of int to float
        Weight of the level of every block size; each size divides the next larger
        one, and a block of n cells or more is the total. Rows come by block size,
        smallest first.

    Raises
    ------
    ValueError
        If sizes do not divide each other, or all weights are zero.

    See Also
    --------
    Marginals : the same for nested sets of attributes.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially
       private histograms through consistency", VLDB 2010 (binary trees).
    .. [2] Qardaji, Yang, Li, "Understanding hierarchical methods for differentially
       private histograms", VLDB 2013 (branching).

    Examples
    --------
    >>> from mmech import Hierarchy
    >>> Hierarchy(3, {1: 2, 2: 1}).to_dense()
    array([[2, 0, 0],
           [0, 2, 0],
           [0, 0, 2],
           [1, 1, 0],
           [0, 0, 1]])
    """

    n: int
    weights: Mapping[int, float]

    def __init__(self, n: int, weights: Mapping[int, float]) -> None:
        cells = check_integer(n, "n")
        if not isinstance(weights, Mapping):
            raise TypeError(f"weights must map block sizes to weights, got {weights!r}")
        levels = {
            check_integer(size, "a block size"): check_weight(weight)
            for size, weight in weights.items()
        }
        sizes = sorted(levels)
        if any(large % small for small, large in pairwise(sizes)):
            raise ValueError(f"block sizes must divide each other, got {sizes}")
        if not any(levels.values()):
            raise ValueError("the weights are all zero; at least one level needs one")
        self._set(n=cells, weights=MappingProxyType({m: levels[m] for m in sizes}))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return (type(self), (self.n, dict(self.weights)))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks of every level."""
        return tuple(-(-self.n // m) for m in self.weights)

    @property
    def shape(self) -> tuple[int, int]:
        return (sum(self.counts), self.n)

    def _arguments(self) -> str:
        return f"n={self.n}, blocks of {', '.join(str(m) for m in self.weights)}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """``int64`` if all weights are integers, else ``float64``."""
        whole = all(isinstance(weight, int) for weight in self.weights.values())
        return np.dtype(np.int64 if whole else np.float64)

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no weight is negative."""
        return all(weight >= 0 for weight in self.weights.values())

    def _matmat(self, x: Array, /) -> Array:
        levels, sums, size = [], x, 1
        for m, weight in self.weights.items():
            sums, size = _block_sums(sums, m // size), m
            levels.append(sums * x.dtype.type(weight))
        return np.concatenate(levels)

    def _rmatmat(self, y: Array, /) -> Array:
        sizes, counts = [1, *self.weights], [self.n, *self.counts]
        out, stop = np.zeros((counts[-1], y.shape[1]), y.dtype), y.shape[0]
        for level in range(len(sizes) - 1, 0, -1):
            start = stop - counts[level]
            out += y[start:stop] * y.dtype.type(self.weights[sizes[level]])
            stop = start
            out = _spread(out, sizes[level] // sizes[level - 1], counts[level - 1])
        return out

    @cached_property
    def inside(self) -> Mapping[int, tuple[float, float]]:
        """Variance of the sum of a block from what is measured inside it, by size.

        A pair: the variance of every block but the last of its level, and the variance
        of the last one. The noise has variance one; cells have infinity. Blocks are
        independent, so that variances of parts add up; the block's own measurement is
        left out.
        """
        variances = {1: (math.inf, math.inf)}
        size, count = 1, self.n
        for m, blocks in zip(self.weights, self.counts, strict=True):
            if m > 1:
                whole, last = (
                    self.variance(size, before) for before in variances[size]
                )
                parts = count - (blocks - 1) * (m // size)
                variances[m] = (m // size * whole, (parts - 1) * whole + last)
                size, count = m, blocks
        return MappingProxyType(variances)

    def variance(self, size: int, inside: float) -> float:
        """Return the variance of the sum of a block, its measurement included.

        Parameters
        ----------
        size : int
            Size of the blocks of its level, one for cells.
        inside : float
            The variance without its own measurement.
        """
        precision = float(self.weights.get(size, 0)) ** 2 + 1.0 / inside
        return 1.0 / precision if precision else math.inf

    def pinv(self) -> QueryMatrix:
        """Return (AᵀA)⁻¹Aᵀ where cells are measured, else the general form."""
        if self.weights.get(1, 0) == 0:
            return super().pinv()
        return HierarchyInverseGram(self) @ self.T

    def abs(self) -> QueryMatrix:
        return Hierarchy(self.n, {m: abs(w) for m, w in self.weights.items()})

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return super()._power_sums(power, axis)
        total = sum(abs(weight) ** power for weight in self.weights.values())
        return exact_sums(np.full(self.n, total, np.float64), self.dtype)

    def sensitivity(self) -> float:
        return float(sum(abs(weight) for weight in self.weights.values()))

    def to_sparse(self) -> sp.csr_array:
        """Return the explicit matrix in compressed sparse rows, n entries a level."""
        own = self._entries(np.array(list(self.weights.values()), self._entry_dtype))
        levels = enumerate(zip(self.weights, self.counts, strict=True))
        ends = [
            level * self.n + np.minimum(m * np.arange(1, count + 1), self.n)
            for level, (m, count) in levels
        ]
        entries = np.repeat(own, self.n)
        cells = np.tile(np.arange(self.n), own.size)
        rows = np.concatenate([[0], *ends])
        matrix = sp.csr_array((entries, cells, rows), shape=self.shape)
        matrix.eliminate_zeros()
        return matrix


@query_matrix("HierarchyInverseGram")
class HierarchyInverseGram(Symmetric):
    """(AᵀA)⁻¹ of a hierarchy A that measures the cells.

    A level adds w² 11ᵀ to the gram of every block, which is a rank-one change of its
    inverse (Sherman and Morrison): sums go up the tree, corrections come down.
    """

    strategy: Hierarchy

    @property
    def shape(self) -> tuple[int, int]:
        return (self.strategy.n, self.strategy.n)

    def _matmat(self, x: Array, /) -> Array:
        weights, counts = self.strategy.weights, self.strategy.counts
        cells = x.astype(np.float64, copy=False)
        # Bottom up: 1ᵀGx of every block, for the inverse G of its gram so far; its
        # own measurement of weight w multiplies that by 1 / (1 + w² 1ᵀG1).
        estimates, sums = cells * (1.0 / float(weights[1]) ** 2), []
        for small, large in pairwise(weights):
            sums.append(_block_sums(estimates, large // small))
            estimates = self._shrunk(sums[-1], large)
        # Top down: multiples of G1 that are taken off Gx.
        taken = np.zeros((counts[-1], x.shape[1]))
        for level, (small, large) in reversed([*enumerate(pairwise(weights))]):
            own = sums[level] * float(weights[large]) ** 2
            taken = self._shrunk(own + taken, large)
            taken = _spread(taken, large // small, counts[level])
        out = (cells - taken) * (1.0 / float(weights[1]) ** 2)
        return out.astype(x.dtype, copy=False)

    def _shrunk(self, blocks: Array, size: int) -> Array:
        """Return values of all blocks of a size, times 1 / (1 + w² 1ᵀG1)."""
        square = float(self.strategy.weights[size]) ** 2
        whole, last = (
            1.0 / (1.0 + square * before) for before in self.strategy.inside[size]
        )
        out = blocks * whole
        out[-1] = blocks[-1] * last
        return out


def _block_sums(x: Array, times: int) -> Array:
    """Return sums of every `times` rows; the last sum may have fewer."""
    if times == 1:
        return x
    whole = x.shape[0] // times
    cut = whole * times
    sums = x[:cut].reshape(whole, times, x.shape[1]).sum(axis=1, dtype=x.dtype)
    if cut == x.shape[0]:
        return sums
    last = x[cut:].sum(axis=0, keepdims=True, dtype=x.dtype)
    return np.concatenate([sums, last])


def _spread(blocks: Array, times: int, count: int) -> Array:
    """Return every row `times` times, the last one as often as makes `count` rows."""
    return np.repeat(blocks, min(times, count), axis=0)[:count]
