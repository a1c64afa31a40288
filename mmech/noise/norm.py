r"""Noise whose density falls with a norm, drawn exactly.

Coordinates come in groups of sizes m, and :math:`\|z\| = \max_g \|z_g\|_1` is the
largest L1 norm of a group. The noise has :math:`P(z) \propto q^{\|z\|}`, :math:`q =
e^{-1/t}`, on whole numbers whose groups of the same *block* have equal totals, as
one-way tables of the same records have. Different noise on their totals would be of no
use. Blocks of one group bind nothing. The noise has D dimensions: in every block one,
and m - 1 for each group.

**A ball of random radius.** Because :math:`q^n = (1 - q) \sum_{r \ge n} q^r`, the noise
is a uniform point of the ball of radius R, where R = r has weight :math:`V(r) q^r`.
V(r) is the number of points of that ball: a product over blocks of

.. math:: \sum_{n=-r}^{r} \prod_g S_{m_g}(u, v), \quad
    u = \lfloor (r + n) / 2 \rfloor, \; v = \lfloor (r - n) / 2 \rfloor .

There n is the total of the block, and S the number of points of a group with that
total: the sums of their positive and of their negative coordinates are at most u and v
in absolute value. That holds once it holds for the first m - 1 coordinates, and the
total gives the last one, so that S has the generating function
:math:`\sum S_m(u, v) x^u y^v = (1 - xy)^{m-1} / ((1 - x) (1 - y))^m`.

**The radius.** The corners of the unit ball are what one record can change, and
whole; its facets are :math:`\sum_i \pm z_i = 1`. So V is a polynomial of degree D in r,
and :math:`\sum_r V(r) x^r = h(x) / (1 - x)^{D+1}`. The coefficients of h are whole, not
negative [1]_, and the same when read from behind [2]_. Put :math:`x \to q x`: R is the
sum of D + 1 geometric numbers, :math:`P(G = g) \propto q^g`, and of an independent
shift from 0 to D with weights :math:`h_k q^k`. Nothing is proposed and rejected. The
shift compares random bits with the binary expansions of its cumulative probabilities.
A geometric number is read off discrete Laplace noise X, as X where X ≥ 0 and as -X - 1
where X < 0: given either sign, it is geometric.

**The point.** Blocks are independent given R = r. A total is proposed uniformly from
-r..r and accepted in proportion to its weight above. That is largest where u and v
differ by at most one, and takes about :math:`\sqrt{D}` attempts. Given the total,
groups are independent. Among their first m - 1 coordinates i are positive with a sum of
at most u. The others are not, with a sum of at least -v. There are
:math:`\binom{m-1}{i} \binom{u}{i} \binom{v+m-1-i}{m-1-i}` points; given i, the positive
ones are a uniform subset, and their values and those of the others are gaps of uniform
subsets.

References
----------
.. [1] Stanley, "Decompositions of rational convex polytopes", Annals of Discrete
   Mathematics 6, 1980. For groups of one, h has the Eulerian numbers of type B: Brenti,
   "q-Eulerian polynomials arising from Coxeter groups", European Journal of
   Combinatorics 15, 1994.
.. [2] Hibi, "Dual polytopes of rational convex polytopes", Combinatorica 12, 1992.
.. [3] Hardt, Talwar, "On the geometry of differential privacy", STOC 2010.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.noise.exact import exp_bounds, position_by_weight
from mmech.noise.laplace import check_scale, discrete_laplace, discrete_laplace_variance
from mmech.noise.seam import sampler
from mmech.noise.system import Rng, integers_below, random_words

Groups = Sequence[int | Sequence[int]]
Block = tuple[int, ...]
"""Sizes of groups of equal totals; functions of their counts alone take them sorted."""
Blocks = tuple[Block, ...]


@sampler("k_norm")
def norm_noise(
    scale: Any, groups: Groups, columns: int, *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    """Draw independent columns of noise for a maximum of L1 norms, exactly.

    A column takes O(D) steps for groups of one, and about sqrt(D) attempts of O(m)
    steps with large integers for others. The first call for some group sizes takes
    O(D²) sums of integers of D log D bits; for groups of equal totals as many for every
    row of each size, and O(D²) products: some ms for D = 100, a second or two for 1000.

    Parameters
    ----------
    scale : Fraction or int
        Scale t > 0, in counts: P(z) is proportional to exp(-max_g ‖z_g‖₁ / t).
    groups : sequence of int, or of sequences of int
        Sizes of consecutive groups of rows, at least one each. Sizes that are put
        together into a sequence are those of groups of equal totals.
    columns : int
        Number of independent columns.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (rows, columns)

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
    >>> tables = norm_noise(64, [(2, 3)], 1)
    >>> tables[:2].sum() == tables[2:].sum()
    np.True_
    """
    blocks = as_blocks(groups)
    exact = check_norm_scale(scale, blocks)
    radii = _radii(exact, _sorted(blocks), columns, insecure_rng)
    return _points(blocks, radii, insecure_rng)


def as_blocks(groups: Groups) -> Blocks:
    """Return groups as blocks of equal totals; a size alone is a block of its own."""
    each = [np.atleast_1d(np.array(block, np.int64)).tolist() for block in groups]
    return tuple(map(tuple, each))  # NumPy's integers would overflow


def dimension(groups: Groups) -> int:
    """Return the number of dimensions of the noise."""
    return sum(1 + sum(block) - len(block) for block in as_blocks(groups))


def check_norm_scale(scale: Any, groups: Groups) -> Fraction:
    """Return the scale as a fraction whose radii 64-bit sums can carry."""
    rows = dimension(groups) + 1
    return check_scale(rows * Fraction(scale)) / rows


def norm_noise_variance(scale: Any, groups: Groups) -> NDArray[np.float64]:
    r"""Return the variance of every row of the noise, shape (rows,).

    About :math:`2 (D + 1) (D + 2) t^2 / ((m + 1) (m + 2))` for a row in a group of m
    that is a block of its own, as for continuous noise; less where t is small. Never
    zero, but at least the smallest positive double.

    Parameters
    ----------
    scale : Fraction or float
        Scale t > 0, in counts.
    groups : sequence of int, or of sequences of int
        Sizes of consecutive groups of rows; together, of groups of equal totals.

    Notes
    -----
    The sum of z₁² over the points of a ball is a polynomial in r of degree D + 2. So
    the moment of the noise is ``g(q) / (h(q) (1 - q)²)``. The polynomial g has whole
    coefficients and is palindromic, too. In a group, z₁ = p - q for p of
    the u and q of the v that the m - 1 other coordinates leave.

    Examples
    --------
    >>> from mmech.noise import norm_noise_variance
    >>> norm_noise_variance(10, [1, 1]).round(1)
    array([399.9, 399.9])
    """
    blocks = as_blocks(groups)
    found = _variances(1 / Fraction(scale), _sorted(blocks))
    rows = [(tuple(sorted(b)), size) for b in blocks for size in b for _ in range(size)]
    return np.array([found[row] for row in rows])


def norm_noise_components(
    scale: Any, sizes: Sequence[int]
) -> tuple[float, NDArray[np.float64]]:
    r"""Return the variance of the total of a block, and of contrasts of its groups.

    Rows of a group are exchangeable, and groups depend on each other by their total T
    alone. So the covariance of rows i of g and j of h is
    :math:`(\delta_{ij} - 1 / m_g)\,\delta_{gh} c_g + \mathrm{Var}(T) / (m_g m_h)`.
    With the variance v of a row, :math:`(m - 1) c = m v - \mathrm{Var}(T) / m`.

    Parameters
    ----------
    scale : Fraction or float
        Scale t > 0, in counts.
    sizes : sequence of int
        Sizes of the groups of one block.

    Returns
    -------
    total : float
        Variance of T.
    contrasts : ndarray of float64, shape (groups,)
        Variance c of a contrast of unit length between the rows of each group. A group
        of one row has no contrast: the variance of the row.

    Examples
    --------
    >>> from mmech.noise.norm import norm_noise_components
    >>> total, contrasts = norm_noise_components(10, (4, 4))
    >>> round(total, 1), contrasts.round(1)
    (1550.7, array([485.6, 485.6]))
    """
    if len(sizes) == 1:  # Laplace noise
        row = discrete_laplace_variance(scale)
        return sizes[0] * row, np.array([row])
    (block,) = _sorted(as_blocks([sizes]))
    found = _variances(1 / Fraction(scale), (block,))
    total = found[block, 1]
    rows = np.array([found[block, size] for size in sizes])
    m = np.array(sizes)
    contrasts = (m * rows - total / m) / np.maximum(m - 1, 1)
    return total, np.where(m > 1, contrasts, rows)


# ------------------------------------------------------------------ counting points


def _sorted(blocks: Blocks) -> Blocks:
    return tuple(sorted(tuple(sorted(block)) for block in blocks))


def _counts(
    block: Block, count: int
) -> tuple[NDArray[Any], Mapping[int, NDArray[Any]]]:
    """Return the points of balls of radius 0..count-1, and sums of z₁² by group size.

    Those of one group alone have the generating functions (1 + x)^m / (1 - x)^(m+1) and
    2 x (1 + x)^m / (1 - x)^(m+3); others are added up over totals n and -n. A group of
    one is the total, so that its sums are there in any case.
    """
    if len(block) == 1:
        points = np.full(count, 1, object)
        for _ in range(block[0]):
            points = np.cumsum(points + np.append([0], points[:-1]))
        sums = 2 * np.append([0], np.cumsum(np.cumsum(points))[:-1])
        return points, {1: block[0] * sums, block[0]: sums}
    powers = {size: _powers(size, count) for size in {1, *block}}
    points = np.zeros(count, object)
    squares = {size: np.zeros(count, object) for size in powers}
    for n in range(count):
        v, both = np.arange(count - n) // 2, 2 if n else 1
        slices = {size: _slices(size, n, power) for size, power in powers.items()}
        row = math.prod(slices[m][0] ** times for m, times in Counter(block).items())
        points[n:] += both * row[v]
        for size, (weights, sums) in slices.items():
            squares[size][n:] += both * (row // weights * sums)[v]
    return points, squares


def _powers(size: int, count: int) -> NDArray[Any]:
    """Return coefficients of Σ p^j x^p / (1 - x)^(m-1) for j = 0, 1, 2."""
    powers = np.arange(count, dtype=object) ** [[0], [1], [2]]
    for _ in range(size - 1):
        powers = np.cumsum(powers, axis=1)
    return powers


def _slices(size: int, n: int, powers: NDArray[Any]) -> NDArray[Any]:
    """Return S(v + n, v), and sums of z₁² there, for v + n + v below the count."""
    length = (powers.shape[1] - n + 1) // 2
    (one, first, second), u = powers[:, :length], powers[:, n : n + length]
    points = u[0] * one
    squares = u[2] * one - 2 * u[1] * first + u[0] * second
    return _differences(np.stack([points, squares]), size - 1)


def _differences(values: NDArray[Any], times: int) -> NDArray[Any]:
    """Return (1 - x)^times times a series, along the last axis."""
    for _ in range(times):
        values = np.diff(values, prepend=0)
    return values


def _numerator(values: NDArray[Any], degree: int) -> tuple[int, ...]:
    """Return all coefficients of (1 - x)^(degree + 1) times a series.

    They read the same from behind, so that half of the series is enough.
    """
    values = _differences(values[: degree // 2 + 1], degree + 1)
    half = [int(value) for value in values]
    return (*half, *half[(degree + 1) // 2 - 1 :: -1])


@lru_cache(maxsize=64)
def numerators(
    blocks: Blocks,
) -> tuple[tuple[int, ...], Mapping[tuple[Block, int], tuple[int, ...]]]:
    """Return h₀..h_D and, for the total and groups of each block, g₀..g_(D+2).

    Σ V(r) x^r = h(x) / (1 - x)^(D+1), and sums of z₁² have g(x) / (1 - x)^(D+3).
    """
    degree = dimension(blocks)
    found = {block: _counts(block, degree // 2 + 2) for block in set(blocks)}
    every: Any = math.prod(found[block][0] for block in blocks)
    squares = {
        (block, size): s * (every // points)
        for block, (points, sums) in found.items()
        for size, s in sums.items()
    }
    return _numerator(every, degree), {
        key: _numerator(values, degree + 2) for key, values in squares.items()
    }


@lru_cache(maxsize=256)
def _variances(rate: Fraction, blocks: Blocks) -> Mapping[tuple[Block, int], float]:
    """Return the variance of a coordinate of groups, and of the total, of each block.

    By the block and the size of the group; 1 for the total.
    """
    weights, squares = numerators(blocks)
    precision = sum(weights).bit_length() + 1200  # q may be as small as a double
    ratio, _ = exp_bounds(rate, precision)
    bottom = _partial_sums(weights, ratio, precision)[-1]
    square = math.expm1(-float(rate)) ** 2
    tops = {
        key: _partial_sums(terms, ratio, precision)[-1]
        for key, terms in squares.items()
    }
    return {key: max(top / bottom / square, 5e-324) for key, top in tops.items()}


# -------------------------------------------------------------------------- radius


def _radii(
    scale: Fraction, blocks: Blocks, size: int, insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw radii, r with probability proportional to V(r) q^r."""
    laplace = discrete_laplace(
        scale, (dimension(blocks) + 1, size), insecure_rng=insecure_rng
    )
    geometric = np.where(laplace < 0, ~laplace, laplace)
    table = _shift_table(scale, blocks)
    words = random_words(size, insecure_rng)
    shifts = np.searchsorted(table, words)
    for i in np.flatnonzero(np.isin(words, table)).tolist():
        shifts[i] = _settle(int(words[i]), scale, blocks, insecure_rng)
    return np.asarray(geometric.sum(axis=0) + shifts, np.int64)


@lru_cache(maxsize=256)
def _shift_table(scale: Fraction, blocks: Blocks) -> NDArray[np.uint64]:
    """Return the first 64 bits of the cumulative probabilities of the shift."""
    table = np.array(cumulative_bits(numerators(blocks)[0], scale, 64), np.uint64)
    table.setflags(write=False)
    return table


def cumulative_bits(weights: Sequence[int], scale: Fraction, bits: int) -> list[int]:
    """Return floor(2**bits * C_k) for the cumulative probabilities, the last left out.

    C_k = (Σ_{j ≤ k} h_j q^j) / (Σ_j h_j q^j) is irrational, because q is transcendental
    (Lindemann). So the floors are decided at some precision.
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


def _settle(word: int, scale: Fraction, blocks: Blocks, insecure_rng: Rng) -> int:
    """Return the shift of a uniform number whose first 64 bits leave it undecided."""
    bits = 64
    while True:
        bits += 64
        word = word << 64 | int(random_words(1, insecure_rng)[0])
        table = cumulative_bits(numerators(blocks)[0], scale, bits)
        if word not in table:
            return bisect_left(table, word)


# --------------------------------------------------------------------------- point


def _points(
    blocks: Blocks, radii: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw a uniform point of the ball of every radius, shape (rows, n)."""
    totals = _totals(blocks, radii, insecure_rng)
    of_groups = np.repeat(totals, [len(block) for block in blocks], axis=0)
    sizes = np.concatenate(blocks)
    stops = np.cumsum(sizes)
    noise = np.empty((stops[-1], radii.size), np.int64)
    for size in set(sizes.tolist()):
        rows = stops[sizes == size] - np.arange(size, 0, -1)[:, None]
        n = of_groups[sizes == size].ravel()
        r = np.tile(radii, rows.shape[1])
        points = _slice_points(size, (r + n) // 2, (r - n) // 2, insecure_rng)
        noise[rows] = points.reshape(*rows.shape, radii.size)
    return noise


def _totals(
    blocks: Blocks, radii: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw the totals of blocks of a uniform point of every ball, (blocks, n)."""
    left = np.arange(len(blocks) * radii.size)
    totals = np.empty(left.size, np.int64)
    while left.size:
        reach = radii[left % radii.size]
        totals[left] = integers_below(2 * reach + 1, insecure_rng=insecure_rng) - reach
        asked = np.stack([left // radii.size, reach, totals[left]], axis=1)
        kept = [_accepts(blocks[i], r, n, insecure_rng) for i, r, n in asked.tolist()]
        left = left[~np.array(kept)]
    return totals.reshape(len(blocks), radii.size)


def _accepts(block: Block, radius: int, total: int, insecure_rng: Rng) -> bool:
    """Accept a total with a probability in proportion to the points that have it."""
    if block == (1,):
        return True
    weight, most = 1, 1
    for size, times in Counter(block).items():
        drawn = _slice_weights(size, (radius + total) // 2, (radius - total) // 2)
        even = _slice_weights(size, (radius + 1) // 2, radius // 2)
        weight, most = weight * sum(drawn) ** times, most * sum(even) ** times
    return position_by_weight([weight, most - weight], insecure_rng) == 0


def _slice_weights(size: int, u: int, v: int) -> list[int]:
    """Return how many points of a group have 0, 1, ... positive coordinates.

    Not counting its last one.
    """
    others = size - 1
    weights = [math.comb(v + others, others)]
    for i in range(min(others, u)):
        more = (others - i) ** 2 * (u - i)
        fewer = (i + 1) ** 2 * (v + others - i)
        weights.append(weights[-1] * more // fewer)
    return weights


def _slice_points(
    size: int, u: NDArray[np.int64], v: NDArray[np.int64], insecure_rng: Rng
) -> NDArray[np.int64]:
    """Draw a uniform point of a group, of total u - v, for all u and v, (m, n)."""
    if size == 1:
        return (u - v)[None]
    found = np.empty((size, u.size), np.int64)
    asked = zip(u.tolist(), v.tolist(), strict=True)
    positive = np.array(
        [position_by_weight(_slice_weights(size, *one), insecure_rng) for one in asked]
    )
    marks = _marks(size - 1, positive, insecure_rng)
    for i in set(positive.tolist()):
        at = np.flatnonzero(positive == i)
        rest = size - 1 - i
        up = np.diff(_subsets(i, u[at], insecure_rng), axis=0, prepend=0)
        down = np.diff(_subsets(rest, v[at] + rest, insecure_rng), axis=0, prepend=0)
        first = np.argsort(~marks[:, at], axis=0, kind="stable")
        found[first, at] = np.concatenate([up, 1 - down])
    found[-1] = u - v - found[:-1].sum(axis=0)
    return found


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
