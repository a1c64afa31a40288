"""All ranges of ordered cells, and all sums from one end: their grams are separable.

Entry (i, j) of the gram is a_i b_j for i <= j. A strategy A = F S of sine waves has F
of a tau algebra and scales S. The covariance of the estimate is
:math:`M = S^{-1} F^{-2} S^{-1}`, with ``(h(i - j) - h(i + j)) / (s_i s_j)`` at (i, j).
Sums over i < j are a convolution for the Toeplitz part. For the Hankel part the cells
are halved again and again, with a convolution for each half.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from mmech.arrays import Floats
from mmech.error.rules import known_gain, known_rows
from mmech.operators.base import Array, QueryMatrix, ZeroOne, query_matrix
from mmech.operators.basic import Identity, Ones, SeparableGram, Sized, scan
from mmech.operators.compose import Product, VStack
from mmech.operators.explicit import Sparse
from mmech.operators.known import BOUNDS, has_full_column_rank
from mmech.operators.kronecker import apply_along, axis_kind
from mmech.operators.pinv import joint_inverse_gram
from mmech.operators.tau import Tau
from mmech.reduction.cells import DESCRIBED
from mmech.structure.blocks import (
    Overlaps,
    Separable,
    asks_ranges,
    energies,
    overlaps,
    separable,
    separable_terms,
    waves_of,
)
from mmech.structure.exact import zeros_and_ones
from mmech.structure.shape import closed_singular_values, frobenius_squared

SMALL_BLOCK = 16
"""Sums within blocks of so many cells are taken pair by pair."""


class _Cumulative(Sized, ZeroOne):
    """Base of the sums from one end of the domain to every cell."""

    backward: ClassVar[bool]

    def _matmat(self, x: Array, /) -> Array:
        return scan(x[None], backward=self.backward)[0]

    def _rmatmat(self, y: Array, /) -> Array:
        return scan(y[None], backward=not self.backward)[0]

    def pinv(self) -> QueryMatrix:
        """Return the inverse: differences of neighbouring cells."""
        return _differences(self.n, 1 if self.backward else -1)

    def _power_sums(self, power: int, axis: int) -> Array:
        lengths = np.arange(1, self.n + 1)
        return lengths if self.backward == (axis == 0) else lengths[::-1].copy()

    def sensitivity(self) -> float:
        """Return n: a cell at one end lies in every sum."""
        return float(self.n)

    def diag(self) -> Array:
        return np.ones(self.n, np.int64)


@query_matrix("Prefix")
class Prefix(_Cumulative):
    """All prefix sums (the empirical distribution function): row r sums cells 0..r.

    Products cost O(n) per vector.

    Parameters
    ----------
    n : int
        Number of domain cells, in order.

    Examples
    --------
    >>> from mmech import Prefix
    >>> Prefix(4) @ [1, 2, 3, 4]
    array([ 1,  3,  6, 10])
    >>> Prefix(4).sensitivity()
    4.0
    """

    backward = False

    @property
    def T(self) -> Suffix:
        return Suffix(self.n)


@query_matrix("Suffix")
class Suffix(_Cumulative):
    """All suffix sums (the survival function): row r sums cells r..n-1.

    Products cost O(n) per vector.

    Parameters
    ----------
    n : int
        Number of domain cells, in order.

    Examples
    --------
    >>> from mmech import Suffix
    >>> Suffix(4) @ [1, 2, 3, 4]
    array([10,  9,  7,  4])
    >>> Suffix(4).sensitivity()
    4.0
    """

    backward = True

    @property
    def T(self) -> Prefix:
        return Prefix(self.n)


def _differences(n: int, offset: int) -> QueryMatrix:
    """Return I - S, where S shifts by one cell along the diagonal at this offset."""
    if n == 1:
        return Identity(1)
    ones = np.ones(n, np.int64)
    diagonals = sp.diags_array([ones, -ones[1:]], offsets=[0, offset], dtype=np.int64)
    return Sparse(diagonals)


@query_matrix("AllRange")
class AllRange(Sized, ZeroOne):
    """All n(n+1)/2 sums over contiguous ranges of an ordered domain.

    Row (lo, hi) sums the cells lo..hi inclusive; rows are in lexicographic
    order. Products cost O(n²) per vector (the size of the answer); products
    with the gram cost O(n).

    Parameters
    ----------
    n : int
        Number of domain cells, in order.

    Examples
    --------
    >>> from mmech import AllRange
    >>> AllRange(3) @ [1, 2, 3]
    array([1, 3, 6, 2, 5, 3])
    """

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n * (self.n + 1) // 2, self.n)

    def _matmat(self, x: Array, /) -> Array:
        from mmech import _kernels

        sums = np.zeros((self.n + 1, x.shape[1]), x.dtype)
        np.cumsum(x, axis=0, out=sums[1:])
        out = np.empty((self.shape[0], x.shape[1]), x.dtype)
        _kernels.all_range_matmat(sums, out)
        return out

    def _rmatmat(self, y: Array, /) -> Array:
        from mmech import _kernels

        out = np.zeros((self.n, y.shape[1]), y.dtype)
        _kernels.all_range_rmatmat(y, out)
        return out

    def sensitivity(self) -> float:
        """Return the number of ranges that share a middle cell."""
        return float((self.n + 1) // 2 * ((self.n + 2) // 2))

    def gram(self) -> SeparableGram:
        """Return V_ij = (min(i, j) + 1)(n - max(i, j)), at O(n) per product."""
        rising = np.arange(1, self.n + 1)
        return SeparableGram(rising, rising[::-1], rising * rising[::-1])

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 0:  # ranges that contain each cell
            j = np.arange(self.n)
            return (j + 1) * (self.n - j)
        lo, hi = np.triu_indices(self.n)
        return np.asarray(hi - lo + 1, np.int64)


# ---- rules -------------------------------------------------------------------------

DESCRIBED.update(map(zeros_and_ones, (AllRange, Prefix, Suffix)))
has_full_column_rank.register(AllRange | Prefix | Suffix, lambda strategy: True)

axis_kind.register(Prefix | Suffix, lambda factor: "scan")
apply_along.register(
    Prefix | Suffix,
    lambda factor, matrix, x, transpose: scan(x, factor.backward != transpose),
)
asks_ranges.register(Prefix | Suffix, lambda workload: True)


BOUNDS[Prefix] = BOUNDS[Suffix] = lambda a: (a.n, a.n)
BOUNDS[AllRange] = lambda a: (a.n, (a.n + 1) ** 2)

frobenius_squared.register(AllRange, lambda w: w.n * (w.n + 1) * (w.n + 2) / 6)
frobenius_squared.register(Prefix | Suffix, lambda w: w.n * (w.n + 1) / 2)


@closed_singular_values.register(AllRange)
def _(workload: AllRange) -> NDArray[np.float64] | None:
    # The gram is n + 1 times the inverse of the second difference, whose eigenvalues
    # are 2 - 2 cos(kπ / (n+1)).
    angles = np.arange(1, workload.n + 1) * (math.pi / (2 * (workload.n + 1)))
    return math.sqrt(workload.n + 1) / (2.0 * np.sin(angles))


@closed_singular_values.register(Prefix | Suffix)
def _(workload: Prefix | Suffix) -> NDArray[np.float64] | None:
    # The same with one free end: 2 - 2 cos((2k-1)π / (2n+1)).
    angles = np.arange(1, 2 * workload.n, 2) * (math.pi / (2 * (2 * workload.n + 1)))
    return 1.0 / (2.0 * np.sin(angles))


@separable.register(AllRange | Prefix | Suffix)
def _(workload: AllRange | Prefix | Suffix) -> Separable:
    up, one = np.arange(1.0, workload.n + 1), np.ones(workload.n)
    a = one if isinstance(workload, Prefix) else up
    b = one if isinstance(workload, Suffix) else up[::-1].copy()
    return a, b, a * b


@overlaps.register(AllRange | Prefix | Suffix)
def _(workload: AllRange | Prefix | Suffix) -> Overlaps:
    """Add up squared overlaps of ranges and blocks.

    A block of m cells with s cells before and t after it is covered whole by ranges
    that start before and end after it. For every cell outside where one end of a range
    may be, the other end is in the block once for each overlap 1, ..., m.
    """
    n = workload.n

    def energy(first: int, size: int, count: int) -> int:
        whole, ends = size**2, size * (size + 1) * (2 * size + 1) // 6
        # Sums over the blocks of s = first + i size, t = after - i size, and s t.
        after = n - first - size
        steps = size * (count * (count - 1) // 2)
        squares = size**2 * ((count - 1) * count * (2 * count - 1) // 6)
        before_sum, after_sum = count * first + steps, count * after - steps
        if isinstance(workload, Prefix):
            return count * ends + whole * after_sum
        if isinstance(workload, Suffix):
            return count * ends + whole * before_sum
        inside = size * (size + 1) ** 2 * (size + 2) // 12
        products = count * first * after + (after - first) * steps - squares
        return count * inside + ends * (before_sum + after_sum) + whole * products

    return energy


# ---- waves -------------------------------------------------------------------------

waves_of.register(AllRange, lambda workload: "none")
waves_of.register(Prefix, lambda workload: "first")
waves_of.register(Suffix, lambda workload: "last")


def energies_of_sums(angles: Floats) -> Floats:
    """Return the eigenvalues of the gram of prefix sums for waves of angles."""
    halves = np.maximum(angles, angles[angles > 0].min() / 2) / 2
    return np.asarray(0.25 / np.square(np.sin(halves)))


energies.register(Prefix | Suffix, lambda workload, angles: energies_of_sums(angles))


@energies.register(AllRange)
def _(workload: AllRange, angles: Floats) -> Floats:
    return (workload.n + 1) * energies_of_sums(angles)


@known_gain.rule(Tau, AllRange | Prefix | Suffix | Ones | Product)
def _(workload: QueryMatrix, strategy: Tau) -> float | None:
    terms = separable_terms(workload)
    if terms is None or not strategy.is_regular:
        return None
    a, b = (factor / strategy._scales for factor in terms[0][:2])
    if strategy.free_end == "first":
        a, b = b[::-1].copy(), a[::-1].copy()
    inverse = forward(strategy)
    pairs = b @ _sums_before(inverse, a)
    return float((a * b) @ inverse.diag() + 2.0 * pairs)


@known_gain.rule(Tau, Identity)
def _(workload: Identity, strategy: Tau) -> float | None:
    if not strategy.is_regular:
        return None
    variances = strategy.diagonal_of(strategy.eigenvalues**-2.0)
    return float((variances / np.square(strategy._scales.astype(np.float64))).sum())


@known_rows.rule(Tau, Prefix | Suffix)
def _(workload: Prefix | Suffix, strategy: Tau) -> Floats | None:
    if not strategy.is_regular:
        return None
    own = 1.0 / strategy._scales.astype(np.float64)
    inverse = forward(strategy)
    turned = strategy.free_end == "first"
    if turned:
        own = own[::-1].copy()
    sums = _sums_behind if workload.backward != turned else _sums_before
    steps = own * (own * inverse.diag() + 2.0 * sums(inverse, own))
    steps = steps[::-1] if turned else steps
    if workload.backward:
        return np.cumsum(steps[::-1])[::-1].copy()
    return np.cumsum(steps)


@known_rows.rule(VStack, Prefix | Suffix)
def _(workload: Prefix | Suffix, strategy: VStack) -> Floats | None:
    """Take a sum as whole blocks and cells of one, in the basis of both levels.

    Row k s + q is p_k ⊗ 1 + e_k ⊗ p_q, for sums p of blocks and of the cells of one.
    """
    inverse = joint_inverse_gram(strategy)
    if inverse is None or len(inverse.transforms) != 2:
        return None
    (outer, inner), variances = inverse.transforms, 1.0 / inverse.spectrum
    order = slice(None, None, -1 if workload.backward else 1)
    outer, inner = outer[order], inner[order]
    before, within = np.cumsum(outer, axis=0) - outer, np.cumsum(inner, axis=0)
    blocks, cells = inner.sum(axis=0), np.square(within)
    whole = np.square(before) @ (variances @ np.square(blocks))
    both = ((before * outer) @ variances * blocks) @ within.T
    part = (np.square(outer) @ variances) @ cells.T
    return (whole[:, None] + 2.0 * both + part).ravel()[order]


def forward(strategy: Tau) -> Tau:
    """Return F⁻², with its cells in the order in which a free end is the last."""
    end = "none" if strategy.free_end == "none" else "last"
    return Tau.of_eigenvalues(strategy.eigenvalues**-2.0, end)


def _sums_behind(matrix: Tau, weights: Floats) -> Floats:
    """Return Σ_{i > j} weights_i M_ij for every j, shape (n,)."""
    every = matrix._matmat(weights[:, None])[:, 0]
    return every - weights * matrix.diag() - _sums_before(matrix, weights)


def _sums_before(matrix: Tau, weights: Floats) -> Floats:
    """Return Σ_{i < j} weights_i M_ij for every j, shape (n,)."""
    n = weights.size
    length = next_fast_len(2 * n, real=True)
    column = matrix.between(0, n).copy()
    column[0] = 0.0
    product = rfft(weights, length) * rfft(column, length)
    return irfft(product, length)[:n] - _hankel_before(matrix, weights)


def _hankel_before(matrix: Tau, weights: Floats) -> Floats:
    """Return Σ_{i < j} weights_i h(i + j) for every j from 1 to n."""
    n = weights.size
    size = max(SMALL_BLOCK, 1 << (n - 1).bit_length())
    h = np.zeros(2 * size + 2)
    h[: 2 * n + 1] = matrix.between(0, 2 * n + 1)
    padded = np.zeros(size)
    padded[:n] = weights
    out = np.zeros(size)
    small, found = (v.reshape(-1, SMALL_BLOCK) for v in (padded, out))
    seen = np.lib.stride_tricks.sliding_window_view(h, 2 * SMALL_BLOCK + 2)
    seen = seen[:: 2 * SMALL_BLOCK]
    for gap in range(1, SMALL_BLOCK):
        found[:, gap:] += small[:, :-gap] * seen[:, gap + 2 : -gap : 2]
    block = 2 * SMALL_BLOCK
    while block <= size:
        # First halves, weighed, are seen from second halves at distances i + j.
        blocks = padded.reshape(-1, block)
        seen = np.lib.stride_tricks.sliding_window_view(h, block)
        seen = seen[block // 2 + 2 :: 2 * block][: len(blocks)]
        first = rfft(blocks[:, : block // 2], block, axis=1)
        found = irfft(first.conj() * rfft(seen, axis=1), block, axis=1)
        out.reshape(-1, block)[:, block // 2 :] += found[:, : block // 2]
        block *= 2
    return out[:n]
