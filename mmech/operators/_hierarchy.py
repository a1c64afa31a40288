"""Sums over nested blocks of neighbours: trees over an ordered domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech._validation import check_integer
from mmech.operators._base import Array, QueryMatrix, read_only
from mmech.operators._basic import AllRange, Identity, Ones, Prefix, Suffix
from mmech.operators._compose import Scaled, check_weight
from mmech.operators._stack import VStack

__all__ = ["Hierarchy", "HierarchyInverseGram", "block_energies"]

MAX_CELLS = 2**26
"""Largest ordered domain that is summed cell by cell."""

EXPLICIT_CELLS = 4096
"""Up to this size the gram of a workload of any kind is summed over blocks."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Hierarchy(QueryMatrix):
    """Sums over blocks of neighbours whose sizes divide each other: a tree.

    A level of block size m holds the sums of every m neighbouring cells, times its
    weight. Products and the pseudoinverse cost O(n) per level.

    Parameters
    ----------
    n : int
        Number of cells.
    weights : mapping of int to float
        Weight of the level of every block size; sizes divide n and each the next
        larger one. Rows come by block size, smallest first.

    Raises
    ------
    ValueError
        If sizes do not divide each other and n, or all weights are zero.

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
    >>> Hierarchy(4, {1: 2, 2: 1}).to_dense()
    array([[2, 0, 0, 0],
           [0, 2, 0, 0],
           [0, 0, 2, 0],
           [0, 0, 0, 2],
           [1, 1, 0, 0],
           [0, 0, 1, 1]])
    """

    n: int
    weights: Mapping[int, float]

    def __init__(self, n: int, weights: Mapping[int, float]) -> None:
        cells = check_integer(n, "n")
        levels = {
            check_integer(size, "a block size"): check_weight(weight)
            for size, weight in dict(weights).items()
        }
        sizes = sorted(levels)
        if any(large % small for small, large in pairwise([*sizes, cells])):
            raise ValueError(
                f"block sizes must divide each other and n = {cells}, got {sizes}"
            )
        if not any(levels.values()):
            raise ValueError("the weights are all zero; at least one level needs one")
        object.__setattr__(self, "n", cells)
        object.__setattr__(
            self, "weights", MappingProxyType({m: levels[m] for m in sizes})
        )

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return (type(self), (self.n, dict(self.weights)))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of blocks in all, and number of cells."""
        return (sum(self.n // m for m in self.weights), self.n)

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
            shape = (self.n // m, m // size, x.shape[1])
            sums = sums.reshape(shape).sum(axis=1, dtype=x.dtype)
            size = m
            levels.append(sums * x.dtype.type(weight))
        return np.concatenate(levels)

    def _rmatmat(self, y: Array, /) -> Array:
        size, stop = self.n, y.shape[0]
        out = np.zeros((1, y.shape[1]), y.dtype)
        for m, weight in reversed(list(self.weights.items())):
            start = stop - self.n // m
            out = np.repeat(out, size // m, axis=0)
            out += y[start:stop] * y.dtype.type(weight)
            size, stop = m, start
        return np.repeat(out, size, axis=0)

    @cached_property
    def precisions(self) -> NDArray[np.float64]:
        """κ_l = Σ w² m over the levels of blocks of at most m_l; one per level."""
        parts = [float(weight) ** 2 * m for m, weight in self.weights.items()]
        return read_only(np.cumsum(parts))

    def pinv(self) -> QueryMatrix:
        """Return (AᵀA)⁻¹Aᵀ where cells are measured, else the general form."""
        if self.weights.get(1, 0) == 0:
            return super().pinv()
        return HierarchyInverseGram(self) @ self.T

    def abs(self) -> QueryMatrix:
        """Return the hierarchy of absolute weights."""
        return Hierarchy(self.n, {m: abs(w) for m, w in self.weights.items()})

    def column_abs_sums(self) -> Array:
        """Return the L1 norm of every column, the same for all, shape (n,)."""
        return np.full(self.n, sum(abs(weight) for weight in self.weights.values()))

    def column_square_sums(self) -> Array:
        """Return the squared L2 norm of every column, shape (n,)."""
        return np.full(self.n, sum(weight**2 for weight in self.weights.values()))

    def sensitivity(self) -> float:
        """Return the sum of the absolute weights."""
        return float(sum(abs(weight) for weight in self.weights.values()))


@dataclass(frozen=True, eq=False, repr=False)
class HierarchyInverseGram(QueryMatrix):
    """(AᵀA)⁻¹ of a hierarchy that measures the cells.

    With B_m the averages over blocks of size m, AᵀA = Σ w_m² m B_m is diagonal in the
    nested spaces of block averages, with the precisions κ as eigenvalues.

    Parameters
    ----------
    strategy : Hierarchy
        The strategy A, with a weight on blocks of size one.
    """

    strategy: Hierarchy

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells, twice."""
        return (self.strategy.n, self.strategy.n)

    def _arguments(self) -> str:
        return self.strategy._label()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always float64."""
        return np.dtype(np.float64)

    def _matmat(self, x: Array, /) -> Array:
        sizes = list(self.strategy.weights)
        inverse = 1.0 / self.strategy.precisions
        means, blocks = [], x.astype(np.float64, copy=False)
        for small, large in pairwise([1, *sizes]):
            shape = (self.strategy.n // large, large // small, x.shape[1])
            blocks = blocks.reshape(shape).mean(axis=1)
            means.append(blocks)
        # From the largest blocks down: Σ_l (B_l - B_{l+1}) x / κ_l.
        out = means[-1] * inverse[-1]
        for level in range(len(sizes) - 2, -1, -1):
            times = sizes[level + 1] // sizes[level]
            coarse = np.repeat(means[level + 1], times, axis=0)
            out = np.repeat(out, times, axis=0)
            out += (means[level] - coarse) * inverse[level]
        return out.astype(x.dtype, copy=False)

    _rmatmat = _matmat

    @property
    def T(self) -> HierarchyInverseGram:
        """The operator itself, which is symmetric."""
        return self


def block_energies(
    workload: QueryMatrix, sizes: Sequence[int]
) -> NDArray[np.float64] | None:
    """Return tr(B_m WᵀW) for averages B_m over blocks of every size m.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Ranges, prefixes and suffixes of any size, unions of such; other workloads of
        up to 4096 cells.
    sizes : sequence of int
        Block sizes that divide n.

    Returns
    -------
    ndarray of float64, one per size, or None
        ``None`` for a workload that is out of reach.
    """
    n = workload.shape[1]
    if isinstance(workload, Scaled):
        inner = block_energies(workload.operator, sizes)
        return None if inner is None else float(workload.weight) ** 2 * inner
    if isinstance(workload, Identity):
        return np.array([n / m for m in sizes])
    if isinstance(workload, Ones):
        return np.full(len(sizes), float(workload.m) * n)
    if isinstance(workload, VStack):
        parts = [block_energies(block, sizes) for block in workload.blocks]
        known = [part for part in parts if part is not None]
        return np.sum(known, axis=0) if len(known) == len(parts) else None
    if n > MAX_CELLS:
        return None
    if isinstance(workload, (AllRange, Prefix, Suffix)):
        rising, falling = np.arange(1.0, n + 1), np.arange(float(n), 0.0, -1.0)
        ones = np.ones(n)
    if isinstance(workload, AllRange):  # V_ij = min(i, j) (n + 1 - max(i, j))
        return _separable_energies(rising, falling, sizes)
    if isinstance(workload, Prefix):
        return _separable_energies(ones, falling, sizes)
    if isinstance(workload, Suffix):
        return _separable_energies(rising, ones, sizes)
    if n > EXPLICIT_CELLS:
        return None
    gram = workload.gram()._dense().astype(np.float64)
    return np.array(
        [np.einsum("bibj->", gram.reshape(n // m, m, n // m, m)) / m for m in sizes]
    )


def _separable_energies(
    low: NDArray[np.float64], high: NDArray[np.float64], sizes: Sequence[int]
) -> NDArray[np.float64]:
    """Return the energies of a gram V_ij = low_i high_j for i <= j."""
    out = []
    for m in sizes:
        below, above = low.reshape(-1, m), high.reshape(-1, m)
        earlier = np.cumsum(below, axis=1) - below
        out.append(float((above * (below + 2.0 * earlier)).sum()) / m)
    return np.array(out)
