r"""Noise whose density falls with a norm, drawn exactly.

Coordinates come in groups of sizes m, D in all, and
:math:`\|z\| = \max_g \|z_g\|_1` is the largest L1 norm of a group. The noise has
:math:`P(z) \propto q^{\|z\|}` on the integers, :math:`q = e^{-1/t}`.

**A ball of random radius.** Because :math:`q^n = (1 - q) \sum_{r \ge n} q^r`, the noise
is a uniform point of the ball of radius R, where R = r has weight :math:`V(r) q^r` and
:math:`V(r) = \prod_g B_{m_g}(r)` is the number of points of that ball,
:math:`B_m(r) = \sum_k 2^k \binom{m}{k} \binom{r}{k}` that of an L1 ball in m
dimensions.

**The radius.** V is a polynomial of degree D in r, which counts the lattice points of
a lattice polytope (a product of cross-polytopes) enlarged r times. So
:math:`\sum_r V(r) x^r = h(x) / (1 - x)^{D+1}` with a polynomial h of degree D, whose
coefficients are whole numbers and not negative [1]_. Put :math:`x \to q x`: R is the
sum of D + 1 geometric numbers, :math:`P(G = g) \propto q^g`, and of an independent
shift from 0 to D with weights :math:`h_k q^k`. Nothing is proposed and rejected. The
shift compares random bits with the binary expansions of its cumulative probabilities,
and a geometric number is read off discrete Laplace noise X, as X where X ≥ 0 and as
-X - 1 where X < 0: given either sign, it is geometric.

**The point.** Groups are independent given R = r. In a group of one the point is
uniform in -r..r. In others, write a coordinate as a where it is not negative and as
-a - 1 where it is, a ≥ 0 (the two terms of
:math:`\sum_z x^{|z|} = (1 + x) / (1 - x)`). Points with j negative coordinates are a
subset of j coordinates and an a whose sum is at most r - j, so that j has weight
:math:`\binom{m}{j} \binom{r - j + m}{m}`; given j, both are uniform.

References
----------
.. [1] Stanley, "Decompositions of rational convex polytopes", Annals of Discrete
   Mathematics 6, 1980. For groups of one, h has the Eulerian numbers of type B: Brenti,
   "q-Eulerian polynomials arising from Coxeter groups", European Journal of
   Combinatorics 15, 1994.
.. [2] Hardt, Talwar, "On the geometry of differential privacy", STOC 2010.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.noise.choice import integers_below
from mmech.noise.laplace import check_scale, discrete_laplace
from mmech.noise.system import random_words
from mmech.noise.thresholds import exp_bounds
from mmech.noise.weighted import position_by_weight

__all__ = ["norm_noise", "norm_noise_variance"]

Rng = np.random.Generator | None
Groups = tuple[int, ...]
"""Sizes of the groups; functions of their counts alone take them sorted."""


def norm_noise(
    scale: Any, groups: Sequence[int], columns: int, *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    """Draw independent columns of noise for a maximum of L1 norms, exactly.

    Time per column is O(D) for groups of one and O(m²) for each group of m. The first
    call for some group sizes takes O(D²) additions of integers of D log D bits: some
    milliseconds for D = 100, half a second for D = 1000.

    Parameters
    ----------
    scale : Fraction or int
        Scale t > 0, in counts: P(z) is proportional to exp(-max_g ‖z_g‖₁ / t).
    groups : sequence of int
        Sizes of consecutive groups of rows, at least one each; D in all.
    columns : int
        Number of independent columns.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (D, columns)

    Raises
    ------
    ValueError
        If the scale is not positive, or (D + 1) t too large for 64-bit sums.

    Notes
    -----
    Proof: ``notebooks/proofs/k_norm.md``.

    Examples
    --------
    >>> from mmech.noise import norm_noise
    >>> norm_noise(64, [1, 1, 3], 2).shape
    (5, 2)
    """
    groups = tuple(map(int, groups))  # NumPy's integers would overflow
    exact = check_norm_scale(scale, groups)
    radii = _radii(exact, tuple(sorted(groups)), columns, insecure_rng)
    return _points(groups, radii, insecure_rng)


def check_norm_scale(scale: Any, groups: Sequence[int]) -> Fraction:
    """Return the scale as a fraction whose radii 64-bit sums can carry."""
    rows = sum(groups) + 1
    return check_scale(rows * Fraction(scale)) / rows


def norm_noise_variance(scale: Any, groups: Sequence[int]) -> NDArray[np.float64]:
    r"""Return the variance of every row of the noise, shape (D,).

    About :math:`2 (D + 1) (D + 2) t^2 / ((m + 1) (m + 2))` for a row in a group of m,
    that of continuous noise; less where t is small. Never zero, but at least the
    smallest positive double.

    Parameters
    ----------
    scale : Fraction or float
        Scale t > 0, in counts.
    groups : sequence of int
        Sizes of consecutive groups of rows.

    Notes
    -----
    The sum of z₁² over an L1 ball in m dimensions has the generating function
    2 x (1 + x)^m / (1 - x)^(m+3), twice that of the ball sizes, summed up twice and
    moved by one. Times the sizes of the other balls, it is a polynomial in r of degree
    D + 2, so that the moment of the noise is g(q) / (h(q) (1 - q)²) with another
    numerator g of whole numbers.

    Examples
    --------
    >>> from mmech.noise import norm_noise_variance
    >>> norm_noise_variance(10, [1, 1]).round(1)
    array([399.9, 399.9])
    """
    groups = tuple(map(int, groups))
    rate = 1 / Fraction(scale)
    ordered = tuple(sorted(groups))
    by_size = {size: _variance(rate, ordered, size) for size in set(groups)}
    return np.repeat([by_size[size] for size in groups], groups)


# ------------------------------------------------------------------ counting points


def ball_sizes(dimension: int, count: int) -> NDArray[Any]:
    """Return the number of integer points of L1 balls of radius 0..count-1.

    Their generating function is (1 + x)^m / (1 - x)^(m+1).
    """
    sizes = np.full(count, 1, object)
    for _ in range(dimension):
        sizes = np.cumsum(sizes + np.append([0], sizes[:-1]))
    return sizes


def _products(groups: Groups, count: int) -> NDArray[Any]:
    """Return V(0..count-1), the number of points of products of balls."""
    points = np.full(count, 1, object)
    for size, times in Counter(groups).items():
        points = points * ball_sizes(size, count) ** times
    return points


def _numerator(values: NDArray[Any], power: int) -> list[int]:
    """Return the leading coefficients of (1 - x)^power times a series."""
    for _ in range(power):
        values = np.diff(values, prepend=0)
    return [int(value) for value in values]


@lru_cache(maxsize=64)
def shift_weights(groups: Groups) -> tuple[int, ...]:
    """Return h₀..h_D, where Σ V(r) x^r = h(x) / (1 - x)^(D+1)."""
    degree = sum(groups)
    return tuple(_numerator(_products(groups, degree + 1), degree + 1))


@lru_cache(maxsize=256)
def _variance(rate: Fraction, groups: Groups, size: int) -> float:
    """Return the variance of one coordinate in a group of a size."""
    others = list(groups)
    others.remove(size)
    degree = sum(groups) + 2
    balls = ball_sizes(size, degree + 1)
    squares = 2 * np.append([0], np.cumsum(np.cumsum(balls))[:-1])
    numerator = _numerator(squares * _products(tuple(others), degree + 1), degree + 1)
    weights = shift_weights(groups)
    precision = sum(weights).bit_length() + 1200  # q may be as small as a double
    ratio, _ = exp_bounds(rate, precision)
    top = _partial_sums(numerator, ratio, precision)[-1]
    bottom = _partial_sums(weights, ratio, precision)[-1]
    return max(top / bottom / math.expm1(-float(rate)) ** 2, 5e-324)


# -------------------------------------------------------------------------- radius


def _radii(
    scale: Fraction, groups: Groups, size: int, insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw radii, r with probability proportional to V(r) q^r."""
    laplace = discrete_laplace(
        scale, (sum(groups) + 1, size), insecure_rng=insecure_rng
    )
    geometric = np.where(laplace < 0, ~laplace, laplace)
    table = _shift_table(scale, groups)
    words = random_words(size, insecure_rng)
    shifts = np.searchsorted(table, words)
    for i in np.flatnonzero(np.isin(words, table)).tolist():
        shifts[i] = _settle(int(words[i]), scale, groups, insecure_rng)
    return np.asarray(geometric.sum(axis=0) + shifts, np.int64)


@lru_cache(maxsize=256)
def _shift_table(scale: Fraction, groups: Groups) -> NDArray[np.uint64]:
    """Return the first 64 bits of the cumulative probabilities of the shift."""
    table = np.array(cumulative_bits(shift_weights(groups), scale, 64), np.uint64)
    table.setflags(write=False)
    return table


def cumulative_bits(weights: Sequence[int], scale: Fraction, bits: int) -> list[int]:
    """Return floor(2**bits * C_k) for the cumulative probabilities, the last left out.

    C_k = (Σ_{j ≤ k} h_j q^j) / (Σ_j h_j q^j) is irrational, because q is transcendental
    (Lindemann), so that the floors are decided at some precision.
    """
    precision = bits + sum(weights).bit_length() + 32
    while True:
        lo, hi = exp_bounds(1 / scale, precision)
        below = _partial_sums(weights, lo, precision)
        above = _partial_sums(weights, hi, precision, up=True)
        # A share head / (head + tail) grows with its head and falls with its tail.
        lowest = [
            (head << bits) // (head + above[-1] - other)
            for head, other in zip(below[:-1], above[:-1], strict=True)
        ]
        highest = [
            min((head << bits) // (head + below[-1] - other), 2**bits - 1)
            for head, other in zip(above[:-1], below[:-1], strict=True)
        ]
        if lowest == highest:
            return lowest
        precision *= 2


def _partial_sums(
    weights: Sequence[int], ratio: int, precision: int, *, up: bool = False
) -> list[int]:
    """Return Σ_{j ≤ k} h_j x^j for x = ratio / 2**precision, in units of 2**-precision.

    Powers are rounded down, or all up.
    """
    rounding = 2**precision - 1 if up else 0
    power, total = 2**precision, 0
    sums = []
    for weight in weights:
        total += weight * power
        sums.append(total)
        power = (power * ratio + rounding) >> precision
    return sums


def _settle(word: int, scale: Fraction, groups: Groups, insecure_rng: Rng) -> int:
    """Return the shift of a uniform number whose first 64 bits leave it undecided."""
    bits = 64
    while True:
        bits += 64
        word = word << 64 | int(random_words(1, insecure_rng)[0])
        table = cumulative_bits(shift_weights(groups), scale, bits)
        if word not in table:
            return bisect_left(table, word)


# --------------------------------------------------------------------------- point


def _points(
    groups: Groups, radii: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw a uniform point of the product of balls of every radius, shape (D, n)."""
    noise = np.empty((sum(groups), radii.size), np.int64)
    sizes = np.array(groups)
    stops = np.cumsum(sizes)
    singles = stops[sizes == 1] - 1
    reach = np.tile(radii, singles.size)
    points = integers_below(2 * reach + 1, insecure_rng=insecure_rng) - reach
    noise[singles] = points.reshape(singles.size, radii.size)
    for size in set(groups) - {1}:
        rows = stops[sizes == size] - np.arange(size, 0, -1)[:, None]
        reach = np.tile(radii, rows.shape[1])
        points = _ball_points(size, reach, insecure_rng)
        noise[rows] = points.reshape(*rows.shape, radii.size)
    return noise


def _ball_points(
    dimension: int, radii: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw a uniform integer point of an L1 ball of every radius, shape (m, n)."""
    negative = np.array(
        [_negatives(dimension, radius, insecure_rng) for radius in radii.tolist()],
        np.int64,
    )
    # The gaps of a subset of 1..(r - j + m) of size m, each less one, are the a.
    places = _subsets(dimension, radii - negative + dimension, insecure_rng)
    steps = np.diff(places, axis=0, prepend=0) - 1
    return np.where(_marks(dimension, negative, insecure_rng), ~steps, steps)


def _negatives(dimension: int, radius: int, insecure_rng: Rng) -> int:
    """Draw the number of negative coordinates of a uniform point of a ball."""
    weights = [math.comb(radius + dimension, dimension)]
    for j in range(min(dimension, radius)):
        more = (dimension - j) * (radius - j)
        fewer = (j + 1) * (radius - j + dimension)
        weights.append(weights[-1] * more // fewer)
    return position_by_weight(weights, insecure_rng)


def _subsets(
    size: int, largest: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw a uniform subset of 1..n for every n, in order, shape (size, n).

    Floyd's algorithm: Bentley, "Programming pearls", CACM 30(9), 1987.
    """
    chosen = np.arange(1 - size, 1)[:, None] + largest
    picks = integers_below(chosen.ravel(), insecure_rng=insecure_rng) + 1
    for i, pick in enumerate(picks.reshape(chosen.shape)):
        fresh = (chosen[:i] != pick).all(axis=0)
        chosen[i, fresh] = pick[fresh]
    chosen.sort(axis=0)
    return chosen


def _marks(
    size: int, marked: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.bool_]:
    """Mark a uniform subset of so many places, for every column, shape (size, n)."""
    left = np.repeat(np.arange(size, 0, -1), marked.size)
    draws = integers_below(left, insecure_rng=insecure_rng).reshape(size, -1)
    marks = np.empty(draws.shape, bool)
    missing = marked.copy()
    for mark, draw in zip(marks, draws, strict=True):
        np.less(draw, missing, out=mark)
        missing -= mark
    return marks
