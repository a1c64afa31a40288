r"""What a stream measures: rows that are whole at the time when they are drawn.

Gaussian noise is added to :math:`y_t = \sum_{s \le t} c_{t-s} d_s x_s`, one row at
every time, Laplace noise to the nodes of a tree, each when its last leaf has come. All
factors are whole numbers, so that sums and sensitivities are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.signal import fftconvolve

from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators.basic import Prefix
from mmech.operators.circulant import Toeplitz
from mmech.operators.convolution import IntegerFilter
from mmech.operators.ranges import WidthRange

__all__ = ["TreeRows", "TriangularRows", "weights_of"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Variance = Callable[[Fraction], float]
"""Variance of the noise of a row, from the last entry of its `Run`."""

SYMBOL_UNITS = 2**11
SCALE_UNITS = 2**11
ROW_UNITS = 2**16
"""Grids of the symbol, of the scales of columns, at least, and of the weights of rows:
they add .1 % to the mean squared error at a horizon of 16,384."""

ROW_PROFILE = (0.341, 0.054, 1.12, -0.829)
"""Logarithm of the heights of rows for prefix sums, in log(1 - u), log u, u and u² at
u = (t + 1/2) / T: fitted at T = 512 and within .1 % of the best at T = 16 to 1,024."""

MOST_SUMS = 2**62 - 1
"""Largest sum that is measured, so that noise fits beside it."""

LARGEST_BRANCHING = 32


# ---- workloads -------------------------------------------------------------------


@singledispatch
def weights_of(workload: Any) -> Floats:
    """Return the weights w of answers, the sums over s of w[t - s] x[s], shape (T,)."""
    raise UnsupportedWorkloadError(
        "a stream answers 'prefix', a Prefix, a WidthRange, or a lower triangular "
        f"Toeplitz, got {workload!r}"
    )


@weights_of.register
def _(workload: Prefix) -> Floats:
    return np.ones(workload.n)


@weights_of.register
def _(workload: WidthRange) -> Floats:
    return (np.arange(workload.n) < workload.width).astype(np.float64)


@weights_of.register
def _(workload: Toeplitz) -> Floats:
    column = np.asarray(workload.first_column, np.float64)
    row = np.asarray(workload.first_row)
    if row.size != column.size or row[1:].any() or not column.any():
        raise UnsupportedWorkloadError(
            "a Toeplitz workload of a stream is square, lower triangular and not zero, "
            f"got {workload!r}; pass first_row=[first_column[0], 0, ..., 0]"
        )
    return column


def _width(weights: Floats) -> int | None:
    """Return how many counts an answer sums up, ``None`` where weights differ."""
    width = int(np.count_nonzero(weights))
    return width if (weights[:width] == 1).all() else None


# ---- Gaussian noise --------------------------------------------------------------


class TriangularRows:
    r"""Rows of a lower triangular Toeplitz matrix with scaled columns.

    Row t is :math:`\sum_{s \le t} c_{t-s} d_s x_s`, with noise of variance
    :math:`K / (2 \rho k_t)`, where :math:`K = \max_s d_s^2 \sum_{t \ge s} k_t
    c_{t-s}^2` is the exact squared sensitivity. An answer is ``w`` applied to the
    counts that solve the equations so far, so that it costs O(T) per time.

    Parameters
    ----------
    weights : ndarray, shape (T,)
        Weights w of the answers.
    variance : callable
        Variance of the noise of a row, from its own sensitivity.
    symbol, scales, heights : array_like of int, shape (T,)
        c, d and k; positive, but for c[1:].

    Notes
    -----
    The symbol is the square root of the power series of w [1]_. Scales make columns of
    equal length. For prefix sums, rows have the heights of `ROW_PROFILE` as well.

    References
    ----------
    .. [1] Fichtenberger, Henzinger, Upadhyay, "Constant matters: fine-grained error
       bound on differentially private continual observation", ICML 2023.
    """

    def __init__(
        self,
        weights: Floats,
        variance: Variance,
        symbol: ArrayLike,
        scales: ArrayLike,
        heights: ArrayLike,
    ) -> None:
        self.weights, self.variance = weights, variance
        self.symbol, self.scales, self.heights = self.settings = tuple(
            np.array(numbers, np.int64) for numbers in (symbol, scales, heights)
        )
        n = weights.size
        squares = _convolved(np.square(self.symbol), self.heights[::-1])[::-1]
        gains = np.square(self.scales).astype(object) * squares
        self.sensitivity = int(gains.max())
        self.largest = Fraction(self.sensitivity, int(self.heights.min()))
        largest = int(_convolved(np.abs(self.symbol), self.scales).max())
        self.largest_count = MOST_SUMS // largest
        # From the last to the first, for products with what is in order.
        self._symbol_back = self.symbol[::-1].copy()
        self._floats_back = self._symbol_back.astype(np.float64)
        self._weights_back = weights[::-1].copy()
        self._scaled = np.zeros(n, np.int64)
        self._solved, self._counts = np.zeros((2, n))

    @classmethod
    def best(cls, weights: Floats, variance: Variance) -> TriangularRows:
        """Return the rows for some weights."""
        n = weights.size
        root = _root(weights)
        symbol = np.rint(root * (SYMBOL_UNITS / np.abs(root).max())).astype(np.int64)
        symbol[0] = max(symbol[0], 1)
        heights, scales = np.ones((2, n), np.int64)
        width = _width(weights)
        if width == n:
            u = (np.arange(n) + 0.5) / n
            features = np.log1p(-u), np.log(u), u, u * u
            squares = np.exp(2 * np.tensordot(ROW_PROFILE, features, 1))
            heights = np.rint(ROW_UNITS * squares / squares.max()).astype(np.int64)
            heights = np.maximum(heights, 1)
        if width is not None:
            gains = _convolved(np.square(symbol), heights[::-1])[::-1].tolist()
            most = SCALE_UNITS**2 * max(gains)
            scales = np.array([math.isqrt(most // gain) for gain in gains])
        return cls(weights, variance, symbol, scales, heights)

    def runs(self, time: int) -> list[tuple[int, int, Fraction]]:
        """Return the one row of a time, with what a record changes it by, squared."""
        return [(0, 1, Fraction(self.sensitivity, int(self.heights[time])))]

    def sums(self, time: int, count: int) -> Integers:
        """Return the exact row of a time, shape (1,). Sensitive."""
        back = self._symbol_back[self._symbol_back.size - 1 - time : -1]
        own = int(self.symbol[0]) * int(self.scales[time]) * count
        return np.array([int(back @ self._scaled[:time]) + own])

    def take(self, time: int, count: int, noisy: Integers) -> None:
        """Take in the count and the noisy row of a time, in place of what was there."""
        back = self._floats_back[self._floats_back.size - 1 - time : -1]
        rest = float(noisy[0]) - float(back @ self._solved[:time])
        self._solved[time] = rest / float(self.symbol[0])
        self._counts[time] = self._solved[time] / self.scales[time]
        self._scaled[time] = int(self.scales[time]) * count

    def answer(self, time: int) -> float:
        """Return the answer for a time, once its row is taken in."""
        back = self._weights_back[self._weights_back.size - 1 - time :]
        return float(back @ self._counts[: time + 1])

    # ---- errors ------------------------------------------------------------------

    @cached_property
    def _noise(self) -> Floats:
        """Variance of the noise of every row."""
        different, place = np.unique(self.heights, return_inverse=True)
        own = [Fraction(self.sensitivity, height) for height in different.tolist()]
        return np.array([self.variance(size) for size in own])[place]

    @cached_property
    def _inverse(self) -> Floats:
        return _inverse(self.symbol.astype(np.float64))

    def squared_error(self, time: int) -> float:
        """Return the expected squared error of the answer for a time, O(T log T)."""
        stop = time + 1
        asked = self.weights[time::-1] / self.scales[:stop]
        factors = fftconvolve(asked, self._inverse[stop - 1 :: -1])[time:]
        return float(np.square(factors) @ self._noise[:stop])

    @cached_property
    def squared_errors(self) -> Floats:
        """Expected squared errors of all answers, shape (T,): O(T²) if scaled."""
        n = self.weights.size
        width = _width(self.weights)
        if width is None:
            factors = fftconvolve(self.weights, self._inverse)[:n]
            return np.cumsum(np.square(factors)) * self._noise[0]
        found, factors = np.empty(n), np.zeros(n)
        back = self._inverse[::-1].copy()
        for time in range(n):
            factors[: time + 1] += back[n - 1 - time :] / self.scales[time]
            if time >= width:
                gone = time - width
                factors[: gone + 1] -= back[n - 1 - gone :] / self.scales[gone]
            used = factors[: time + 1]
            found[time] = (used * used) @ self._noise[: time + 1]
        return found


def _root(weights: Floats) -> Floats:
    """Return what to measure: the square root of a power series, where it is stable.

    Leading zeros are left out. Counts themselves are measured where that is better.
    """
    first = int(np.flatnonzero(weights)[0])
    own = np.zeros(weights.size)
    own[: own.size - first] = weights[first:] / weights[first]
    root = np.eye(1, own.size)[0]
    counts = root.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        size = 1
        while size < own.size:  # Newton: the number of right coefficients doubles
            size = min(2 * size, own.size)
            ratio = fftconvolve(own[:size], _inverse(root[:size]))[:size]
            root[:size] = (root[:size] + ratio) / 2
        losses = [_loss(weights, symbol) for symbol in (root, counts)]
    return root if losses[0] < losses[1] else counts


def _loss(weights: Floats, symbol: Floats) -> float:
    """Return the squared error of all answers at unit noise, without scales."""
    factors = fftconvolve(weights, _inverse(symbol))[: weights.size]
    left = np.arange(weights.size, 0, -1)
    return float(np.square(symbol).sum() * (left @ np.square(factors)))


def _inverse(symbol: Floats) -> Floats:
    """Return the reciprocal of a power series, by Newton's method."""
    out, size = np.array([1.0 / symbol[0]]), 1
    while size < symbol.size:
        size = min(2 * size, symbol.size)
        error = -fftconvolve(symbol[:size], out)[:size]
        error[0] += 2.0
        out = fftconvolve(out, error)[:size]
    return out


def _convolved(a: Integers, b: Integers) -> Integers:
    """Return the first n entries of the convolution of whole numbers, exactly."""
    length = 1 << (2 * a.size - 1).bit_length()
    column, values = np.zeros((2, length), np.int64)
    column[: a.size], values[: b.size] = a, b
    return IntegerFilter(column)(values)[: a.size]


# ---- Laplace noise ---------------------------------------------------------------


class TreeRows:
    r"""Nodes of a tree over the times, each drawn when its last leaf has come.

    A level has nodes of :math:`m = b^l` times. Every count is in one node of each of
    the h levels, so that noise of scale :math:`h / \varepsilon` hides a record. The
    answer for a time is the sum of the nodes that its digits name, each estimated by
    its own row and by those of its children: least squares, given all rows so far.

    Parameters
    ----------
    weights : ndarray, shape (T,)
        Weights w of the answers: ones, for prefix sums.
    variance : callable
        Variance of the noise of a row, from its own sensitivity.
    branching, levels : int
        b and h.

    References
    ----------
    .. [1] Chan, Shi, Song, "Private and continual release of statistics", ACM TISSEC
       14(3), 2011.
    .. [2] Honaker, "Efficient use of differentially private binary trees", TPDP 2015.
    """

    def __init__(
        self, weights: Floats, variance: Variance, branching: int, levels: int
    ) -> None:
        self.horizon = horizon = weights.size
        self.branching, self.settings = branching, [branching, levels]
        self.sensitivity, self.largest = levels, Fraction(levels)
        self.largest_count = MOST_SUMS // horizon
        self.sizes = [branching**level for level in range(levels)]
        noise = variance(Fraction(levels))
        self.variances, self.shares = [noise], [1.0]
        for _ in self.sizes[1:]:
            inside = branching * self.variances[-1]
            self.shares.append(inside / (inside + noise))
            self.variances.append(self.shares[-1] * noise)
        self._totals = np.zeros(horizon + 1, np.int64)
        self._nodes = [np.zeros(horizon // size) for size in self.sizes]

    @classmethod
    def best(cls, weights: Floats, variance: Variance) -> TreeRows:
        """Return the tree of least mean squared error, with levels of equal weight."""
        if _width(weights) != weights.size:
            raise UnsupportedWorkloadError(
                "under epsilon= a stream answers prefix sums only; use rho=, or take "
                "differences of prefix sums"
            )
        found, n = [], weights.size
        for branching in range(2, min(LARGEST_BRANCHING, max(n, 2)) + 1):
            levels = 1 + math.ceil(math.log(n, branching))
            for own in range(1, levels + 1):
                tree = cls(weights, lambda size: float(size**2), branching, own)
                found.append((tree.squared_errors.sum(), branching, own))
        return cls(weights, variance, *min(found)[1:])

    def _whole(self, time: int) -> list[int]:
        """Return the levels whose nodes are whole at a time."""
        whole = [(time + 1) % size == 0 for size in self.sizes]
        return [level for level, is_whole in enumerate(whole) if is_whole]

    def runs(self, time: int) -> list[tuple[int, int, Fraction]]:
        """Return the rows of a time, with what a record changes all rows by."""
        return [(0, len(self._whole(time)), Fraction(self.sensitivity))]

    def sums(self, time: int, count: int) -> Integers:
        """Return the exact nodes of a time. Sensitive."""
        starts = [time + 1 - self.sizes[level] for level in self._whole(time)]
        return self._totals[time] + count - self._totals[starts]

    def take(self, time: int, count: int, noisy: Integers) -> None:
        """Take in the count and noisy rows of a time, in place of what was there."""
        self._totals[time + 1] = self._totals[time] + count
        for level, value in zip(self._whole(time), noisy.tolist(), strict=True):
            place, share, inside = time // self.sizes[level], self.shares[level], 0.0
            if level:
                first = place * self.branching
                inside = self._nodes[level - 1][first : first + self.branching].sum()
            self._nodes[level][place] = share * value + (1 - share) * inside

    def answer(self, time: int) -> float:
        """Return the answer for a time, once its rows are taken in."""
        places = [(time + 1) // size for size in self.sizes]
        parts = [
            self._nodes[level][place - place % self.branching : place].sum()
            for level, place in enumerate(places[:-1])
        ]
        return float(sum(parts) + self._nodes[-1][: places[-1]].sum())

    # ---- errors ------------------------------------------------------------------

    @cached_property
    def squared_errors(self) -> Floats:
        """Expected squared errors of all answers, shape (T,)."""
        places = [np.arange(1, self.horizon + 1) // size for size in self.sizes]
        digits = [place % self.branching for place in places[:-1]] + places[-1:]
        return np.asarray(self.variances @ np.stack(digits).astype(np.float64))

    def squared_error(self, time: int) -> float:
        """Return the expected squared error of the answer for a time."""
        return float(self.squared_errors[time])
