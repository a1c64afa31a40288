r"""Errors of ranges and prefix sums under strategies of sine waves, at any size.

A strategy is A = F S, F of a tau algebra and S of scales. The covariance of the
estimate is :math:`M = S^{-1} F^{-2} S^{-1}`, whose entry (i, j) is ``(h(i - j) - h(i +
j)) / (s_i s_j)``. The gram of the queries is semiseparable: ``a_i b_j`` for i <= j.
Sums over i < j are a convolution for the Toeplitz part; for the Hankel part the cells
are halved again and again, with a convolution for each half.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from mmech.arrays import Floats
from mmech.error.rules import known_gain, known_rows
from mmech.limits import LIMITS
from mmech.operators.basic import AllRange, Identity, Ones, Prefix, Suffix
from mmech.operators.ranges import Ranges
from mmech.operators.tau import Tau
from mmech.structure.blocks import separable_terms

SMALL_BLOCK = 16
"""Sums within blocks of so many cells are taken pair by pair."""


@known_gain.rule(Tau, AllRange | Prefix | Suffix | Ones)
def _(workload: AllRange | Prefix | Suffix | Ones, strategy: Tau) -> float | None:
    terms = separable_terms(workload)
    if terms is None or not strategy.is_regular:
        return None
    a, b = (factor / strategy._scales for factor in terms[0][:2])
    if strategy.free_end == "first":
        a, b = b[::-1].copy(), a[::-1].copy()
    inverse = _forward(strategy)
    pairs = b @ _sums_before(inverse, a)
    return float((a * b) @ inverse.diag() + 2.0 * pairs)


@known_gain.rule(Tau, Identity)
def _(workload: Identity, strategy: Tau) -> float | None:
    if not strategy.is_regular:
        return None
    variances = strategy.diagonal_of(strategy.eigenvalues**-2.0)
    return float((variances / np.square(strategy._scales.astype(np.float64))).sum())


@known_gain.rule(Tau, Ranges)
def _(workload: Ranges, strategy: Tau) -> float | None:
    """Add up quadratic forms of ranges, by one transform each."""
    m, n = workload.shape
    few = m * n <= LIMITS.summed_entries and len(workload.domain_shape) == 1
    if not few or strategy.free_end == "first" or not strategy.is_regular:
        return None
    inverse, length = _forward(strategy), next_fast_len(2 * n + 1, real=True)
    entries = inverse.between(0, 2 * n + 1)
    toeplitz, hankel = np.zeros((2, length))
    toeplitz[:n], toeplitz[length - n + 1 :] = entries[:n], entries[n - 1 : 0 : -1]
    hankel[: 2 * n - 1] = entries[2:]
    both = rfft(toeplitz).real, rfft(hankel).conj()
    twice = np.full(both[0].size, 2.0)
    twice[0] = 1.0
    twice[-1] -= length % 2 == 0
    places, own = np.arange(n), 1.0 / strategy._scales.astype(np.float64)
    total, height = 0.0, max(1, LIMITS.block_entries // length)
    for start in range(0, m, height):
        lower, upper = (
            ends[start : start + height] for ends in (workload._lower, workload._upper)
        )
        rows = np.where((lower <= places) & (places <= upper), own, 0.0)
        waves = rfft(rows, length, axis=1)
        squares = np.square(waves.real) + np.square(waves.imag)
        pairs = (squares @ (twice * both[0])).sum()
        crossed = np.square(waves, out=waves) @ (twice * both[1])
        total += float(pairs - crossed.real.sum()) / length
    return total


@known_rows.rule(Tau, Prefix | Suffix)
def _(workload: Prefix | Suffix, strategy: Tau) -> Floats | None:
    if not strategy.is_regular:
        return None
    own = 1.0 / strategy._scales.astype(np.float64)
    inverse = _forward(strategy)
    turned = strategy.free_end == "first"
    if turned:
        own = own[::-1].copy()
    sums = _sums_behind if workload.backward != turned else _sums_before
    steps = own * (own * inverse.diag() + 2.0 * sums(inverse, own))
    steps = steps[::-1] if turned else steps
    if workload.backward:
        return np.cumsum(steps[::-1])[::-1].copy()
    return np.cumsum(steps)


def _forward(strategy: Tau) -> Tau:
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
