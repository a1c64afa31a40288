"""What a stream measures, at which time, and how large the errors are.

Gaussian noise is added to the rows of a lower triangular matrix, one at every time.
Laplace noise is added to the nodes of a tree, and drawn before their first count. All
factors are whole numbers, so that sums and sensitivities are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, singledispatch
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.signal import fftconvolve

from mmech.arrays import Floats, Integers
from mmech.exceptions import UnsupportedWorkloadError
from mmech.families.circulant import Toeplitz, reciprocal
from mmech.families.hierarchy import Hierarchy, best_tree
from mmech.families.ranges import WidthRange
from mmech.families.separable import Prefix
from mmech.operators.convolution import IntegerFilter
from mmech.structure.blocks import block_energies

Variance = Callable[[Fraction], float]
"""Variance of the noise of a row, from the last entry of its `Run`."""

SYMBOL_UNITS = 2**11
SCALE_UNITS = 2**11
ROW_UNITS = 2**16
"""Grids of the symbol, of the scales of columns, at least, and of the weights of rows:
they add .1 % to the mean squared error at a horizon of 16,384."""

PIECES = 2**12
"""Number of scales at most, so that errors add up in O(T) for each. They add less than
.1 % to the mean squared error at a horizon of 65,536."""

ROW_PROFILE = (0.341, 0.054, 1.12, -0.829)
"""Logarithm of the heights of rows for prefix sums, in log(1 - u), log u, u and u² at
u = (t + 1/2) / T: fitted at T = 512 and within .1 % of the best at T = 16 to 1,024."""

MOST_SUMS = 2**62 - 1
"""Largest sum that is measured, so that noise fits beside it."""

PART_UNITS = 2**10
"""Grid of the parts of the budget of levels."""

SEARCHED = 2**12
"""Times that a tree is searched for, or eight times the longest window."""


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


def whole_numbers(
    numbers: Any, size: int, least: float = -math.inf, most: float = math.inf
) -> Integers:
    """Return as many whole numbers, shape (size,), or raise unless all are inside."""
    found = np.asarray(numbers) if size else np.zeros(len(numbers), np.int64)
    if found.dtype.kind != "i" or found.shape != (size,):
        raise ValueError(f"{size} whole numbers are needed")
    if size and not least <= found.min() <= found.max() <= most:
        raise ValueError(f"whole numbers from {least} to {most} are needed")
    return found.astype(np.int64)


# ---- Gaussian noise --------------------------------------------------------------


class ToeplitzRows:
    r"""Rows of a lower triangular Toeplitz matrix with scaled columns, whole numbers.

    Row t is :math:`\sum_{s \le t} c_{t-s} d_s x_s`, with noise of variance
    :math:`K / (2 \rho k_t)`. Here :math:`K = \max_s d_s^2 \sum_t k_t c_{t-s}^2` is the
    exact squared sensitivity. An answer is ``w`` applied to the counts that solve the
    equations so far, so that it costs O(T) per time.

    Parameters
    ----------
    weights : ndarray, shape (T,)
        Weights w of the answers.
    variance : callable
        Variance of the noise of a row, from its own sensitivity.
    symbol, scales, heights : array_like of int, shape (T,)
        c, d and k: positive, but for c[1:].

    Notes
    -----
    The symbol c is the square root of the power series of w [1]_. Scales d make columns
    of equal length. For prefix sums, rows have the heights of `ROW_PROFILE` as well.

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
    ):
        n = weights.size
        self.weights, self.variance = weights, variance
        self._weights_back = weights[::-1].copy()
        self._scaled = np.zeros(n, np.int64)
        self._solved, self._counts = np.zeros((2, n))
        self.symbol = whole_numbers(symbol, n, -SYMBOL_UNITS, SYMBOL_UNITS)
        self.scales = whole_numbers(scales, n, 1, 2**31)
        self.heights = whole_numbers(heights, n, 1, ROW_UNITS)
        self.settings = self.symbol, self.scales, self.heights
        self._symbol_back = self.symbol[::-1].copy()
        squares = _convolved(np.square(self.symbol), self.heights[::-1])[::-1]
        gains = np.square(self.scales).astype(object) * squares
        self.sensitivity = int(gains.max())
        # Then sums are below 2^60 for counts of one: c d is at most the root of this.
        if self.symbol[0] < 1 or self.sensitivity > SCALE_UNITS**2 * int(squares.max()):
            raise ValueError("columns of about equal length are needed")
        largest_sum = int(_convolved(np.abs(self.symbol), self.scales).max())
        self.largest_count = MOST_SUMS // largest_sum
        ends = self.heights.max(), self.heights.min()
        self.least, self.largest = (Fraction(self.sensitivity, int(k)) for k in ends)

    @classmethod
    def best(cls, weights: Floats, variance: Variance) -> ToeplitzRows:
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
            if n > PIECES:
                # Where steps of scales cost least, their size is as the square root.
                steps = np.sqrt(np.abs(np.diff(np.log(scales))))
                piece = np.cumsum([0.0, *steps]) * (PIECES - 1) // (steps.sum() or 1.0)
                starts = np.flatnonzero(np.diff(piece, prepend=-1.0))
                lengths = np.diff(starts, append=n)
                scales = np.repeat(np.minimum.reduceat(scales, starts), lengths)
        return cls(weights, variance, symbol, scales, heights)

    def _row(self, time: int) -> Integers:
        return self._symbol_back[self._symbol_back.size - 1 - time :]

    def runs(self, time: int) -> list[tuple[int, int, Fraction]]:
        """Return the one row of a time, with what a record changes it by, squared."""
        return [(0, 1, Fraction(self.sensitivity, int(self.heights[time])))]

    def sums(self, time: int, count: int) -> Integers:
        """Return the exact row of a time, shape (1,). Sensitive."""
        row = self._row(time)
        last = int(row[time]) * int(self.scales[time]) * count
        return np.array([int(row[:time] @ self._scaled[:time]) + last])

    def take(self, time: int, count: int, noisy: Integers) -> None:
        """Take in the count and the noisy row of a time, in place of what was there."""
        row = self._row(time)
        rest = float(noisy[0]) - float(row[:time] @ self._solved[:time])
        self._solved[time] = rest / float(row[time])
        self._counts[time] = self._solved[time] / self.scales[time]
        self._scaled[time] = int(self.scales[time]) * count

    def answer(self, time: int) -> float:
        """Return the answer for a time, once its row is taken in."""
        back = self._weights_back[self._weights_back.size - 1 - time :]
        return float(back @ self._counts[: time + 1])

    @cached_property
    def _noise(self) -> Floats:
        """Variance of the noise of every row."""
        different, place = np.unique(self.heights, return_inverse=True)
        sizes = [Fraction(self.sensitivity, height) for height in different.tolist()]
        return np.array([self.variance(size) for size in sizes])[place]

    @cached_property
    def _inverse(self) -> Floats:
        return reciprocal(self.symbol.astype(np.float64))

    def squared_error(self, time: int) -> float:
        """Return the expected squared error of the answer for a time, O(T log T)."""
        stop = time + 1
        asked = self.weights[time::-1] / self.scales[:stop]
        factors = fftconvolve(asked, self._inverse[stop - 1 :: -1])[time:]
        return float(np.square(factors) @ self._noise[:stop])

    def total_error(self) -> float:
        """Return the sum of the expected squared errors of all answers.

        An answer is weighted by F = W D⁻¹ C⁻¹. One row differs from the next one by a
        shift, while the scales of the counts that come and go are the same.
        Sums over these rows and their squares are differences of running sums. There
        are at most 2 `PIECES` spans of equal scales, and each takes O(T).
        """
        n, width = self.weights.size, _width(self.weights)
        if width is None:
            factors = fftconvolve(self.weights, self._inverse)[:n]
            return float(np.arange(n, 0, -1) @ np.square(factors) * self._noise[0])
        # An answer's weights of rows that began i times before it, from i = n down, and
        # sums and sums of squares over i; so for what a window leaves behind.
        sums = np.concatenate([[0.0], np.cumsum(self._inverse)])
        left = np.pad(sums, (width, 0))[: n + 1]
        runs = sums, left, sums * sums, left * sums, left * left
        lines, gone, square, both, gone_square = np.cumsum(runs, axis=1)[:, ::-1].copy()
        sums, left = sums[::-1].copy(), left[::-1].copy()
        edges = np.flatnonzero(np.diff(self.scales)) + 1
        starts = {0, width, *edges.tolist(), *(edges + width).tolist()}
        spans = sorted(start for start in starts if start < n)
        factors, noise, total = np.zeros(n), self._noise, 0.0
        for start, stop in pairwise([*spans, n]):
            a, b = slice(n - start, n), slice(n - stop, n)
            shape, line, squares = sums, lines, square
            u = 1 / self.scales[start]
            if start >= width:
                v = self.scales[start] / self.scales[start - width]
                shape, line = sums - v * left, lines - v * gone
                squares = square - 2 * v * both + v * v * gone_square
            rest = factors[:start] - u * shape[a]
            weighted = noise[:start] * rest
            total += (stop - start) * float(weighted @ rest)
            total += 2 * u * float(weighted @ line[b][:start] - weighted @ line[a])
            total += (
                u * u * float(noise[:stop] @ squares[b] - noise[:start] @ squares[a])
            )
            factors[:stop] = u * shape[b]
            factors[:start] += rest
        return total


def _root(weights: Floats) -> Floats:
    """Return what to measure: the square root of a power series, where it is stable.

    Leading zeros are left out. Counts themselves are measured where that is better.
    """
    first = int(np.flatnonzero(weights)[0])
    series = np.zeros(weights.size)
    series[: series.size - first] = weights[first:] / weights[first]
    root = np.eye(1, series.size)[0]
    counts = root.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        size = 1
        while size < series.size:  # Newton: the number of right coefficients doubles
            size = min(2 * size, series.size)
            ratio = fftconvolve(series[:size], reciprocal(root[:size]))[:size]
            root[:size] = (root[:size] + ratio) / 2
        losses = [_loss(weights, symbol) for symbol in (root, counts)]
    return root if losses[0] < losses[1] else counts


def _loss(weights: Floats, symbol: Floats) -> float:
    """Return the squared error of all answers at unit noise, without scales."""
    factors = fftconvolve(weights, reciprocal(symbol))[: weights.size]
    left = np.arange(weights.size, 0, -1)
    return float(np.square(symbol).sum() * (left @ np.square(factors)))


def _convolved(a: Integers, b: Integers) -> Integers:
    """Return the first n entries of the convolution of whole numbers, exactly."""
    length = 1 << (2 * a.size - 1).bit_length()
    column, values = np.zeros((2, length), np.int64)
    column[: a.size], values[: b.size] = a, b
    return IntegerFilter(column)(values)[: a.size]


# ---- Laplace noise ---------------------------------------------------------------


class TreeRows:
    r"""Nodes of a tree over the times, whose noise is drawn before their first count.

    All nodes have noise z, one for every row of the tree A. Two kinds of numbers are
    known of :math:`y = A x + z` at a time. These are the leaves so far, :math:`y_s =
    x_s + z_s`, and the residues of larger nodes: their noise less the sum of their
    leaves'. Residues do not depend on counts. The least squares answer :math:`W A^+ y`
    of all nodes, whole or not, is :math:`\sum_s w_{t-s} y_s` and a correction made of
    residues alone.

    Parameters
    ----------
    weights : ndarray, shape (T,)
        Weights w of the answers.
    variance : callable
        Variance of the noise of a row, from its own sensitivity.
    sizes, parts : sequence of int
        Times in a node, from 1 up, and the part of the budget, of every level.

    Notes
    -----
    The estimates of the times in a node have the covariance :math:`V - V 1 1^T V / (v +
    1^T V 1)`. V is the covariance by its children, which are independent, and v the
    variance of its own row. Errors follow from this.

    References
    ----------
    .. [1] Andersson, Pagh, Steiner, Torkamani, "Count on your elders: Laplace vs
       Gaussian noise", 2024 (noise of nodes that are not whole).
    .. [2] Qardaji, Yang, Li, "Understanding hierarchical methods for differentially
       private histograms", VLDB 2013 (least squares).
    """

    def __init__(
        self,
        weights: Floats,
        variance: Variance,
        sizes: Sequence[int],
        parts: Sequence[int],
    ) -> None:
        n, levels = weights.size, len(sizes)
        self.sizes = whole_numbers(sizes, levels, 1, 2 * n - 1).tolist()
        shares = whole_numbers(parts, levels, 1, PART_UNITS).tolist()
        if self.sizes[0] != 1 or any(b % a or a == b for a, b in pairwise(self.sizes)):
            raise ValueError("sizes from 1 up that divide each other are needed")
        self.weights, self.settings = weights, [self.sizes, shares]
        self._own = [Fraction(sum(shares), part) for part in shares]
        self.sensitivity = self.least = min(self._own)
        self.largest = max(self._own)
        self.largest_count = MOST_SUMS
        self._noises = [variance(size) for size in self._own]
        self._weights_back = weights[::-1].copy()
        self._ahead = np.zeros(n, np.int64)  # noise of the leaves
        self._counts, self._corrections = np.zeros((2, n))

    @classmethod
    def best(cls, weights: Floats, variance: Variance) -> TreeRows:
        """Return the tree of least expected error, on the first times if these do."""
        n = min(weights.size, max(SEARCHED, 8 * np.trim_zeros(weights, "b").size))
        whole = (weights == 1).all()
        prefix = block_energies(Prefix(n)) if whole else None
        energies = prefix or _BlockEnergies(weights[:n])
        found = cast(Hierarchy, best_tree(n, energies).strategy)
        shares = np.array(list(found.weights.values()))
        parts = np.rint(PART_UNITS * shares / shares.sum()).astype(int).tolist()
        pairs = zip(found.weights, parts, strict=True)
        kept = [(size, max(part, 1)) for size, part in pairs if part or size == 1]
        return cls(weights, variance, *zip(*kept, strict=True))

    def _from(self, time: int) -> Hierarchy | None:
        """Return the tree of the largest node that begins at a time, if one does.

        Its answers need no noise of others.
        """
        if time % self.sizes[-1]:
            return None
        levels = zip(self.sizes, self._noises, strict=True)
        n = min(self.sizes[-1], self.weights.size - time)
        return Hierarchy(n, {m: 1 / math.sqrt(noise) for m, noise in levels})

    def runs(self, time: int) -> list[tuple[int, int, Fraction]]:
        """Return the rows that are drawn at a time: a largest node's, as it begins."""
        tree = self._from(time)
        stops = np.cumsum([0, *tree.counts]).tolist() if tree else [0]
        return list(zip(stops, stops[1:], self._own, strict=False))

    def sums(self, time: int, count: int) -> Integers:
        """Return what noise is added to: nothing, since it is drawn ahead."""
        tree = self._from(time)
        return np.zeros(tree.shape[0] if tree else 0, np.int64)

    def take(self, time: int, count: int, noisy: Integers) -> None:
        """Take in the count of a time, and what was drawn at it."""
        tree = self._from(time)
        if tree:
            n, stop = tree.n, time + tree.n
            drawn = np.split(noisy, np.cumsum(tree.counts)[:-1])
            leaves, residues = drawn[0], [np.zeros(n)]
            levels = zip(self.sizes, drawn, self._noises, strict=True)
            for size, nodes, noise in list(levels)[1:]:
                inside = np.add.reduceat(leaves, np.arange(0, n, size))
                residues.append((nodes - inside) / math.sqrt(noise))
            self._ahead[time:stop] = leaves
            self._corrections[time:stop] = tree.pinv() @ np.concatenate(residues)
        noisy_count = count + int(self._ahead[time])
        self._counts[time] = noisy_count + self._corrections[time]

    def answer(self, time: int) -> float:
        """Return the answer for a time, once its count is taken in."""
        back = self._weights_back[self._weights_back.size - 1 - time :]
        return float(back @ self._counts[: time + 1])

    # ---- errors ------------------------------------------------------------------

    @cached_property
    def _squared_errors(self) -> Floats:
        """Expected squared errors of all answers, shape (T,): O(T log T) a level."""
        energies, n = _BlockEnergies(self.weights), self.weights.size
        found = self._noises[0] * np.cumsum(np.square(self.weights))
        sums = np.full(n, self._noises[0])  # V 1
        for size, noise in zip(self.sizes[1:], self._noises[1:], strict=True):
            start = (n - 1) // size * size
            inside = sums[0] * min(size, n)
            blocks = np.zeros((-(-n // size), size))
            blocks.ravel()[:n] = energies.windows(size)
            of_whole = blocks.cumsum(axis=0).ravel()[:n]
            of_whole[start:] -= blocks[0, : n - start]  # in the last block
            found -= np.square(sums[0]) / (noise + inside) * of_whole
            last = sums[start:]
            asked = fftconvolve(self.weights[: n - start], last)[: n - start]
            found[start:] -= np.square(asked) / (noise + last.sum())
            sums[start:] *= noise / (noise + last.sum())
            sums[:start] *= noise / (noise + inside)
        return found

    def squared_error(self, time: int) -> float:
        """Return the expected squared error of the answer for a time."""
        return float(self._squared_errors[time])

    def total_error(self) -> float:
        """Return the sum of the expected squared errors of all answers."""
        return float(self._squared_errors.sum())


class _BlockEnergies:
    """What weighted sums over time ask of blocks of times (`BlockEnergies`)."""

    def __init__(self, weights: Floats) -> None:
        self._sums = np.concatenate([[0.0], np.cumsum(weights)])
        self._known: dict[tuple[int, int, int], float] = {}

    def windows(self, size: int) -> Floats:
        """Return the squared weights of a block in answers from its start on."""
        before = np.pad(self._sums, (size, 0))[: self._sums.size]
        return np.square(self._sums - before)[1:]

    def of_blocks(self, first: int, size: int, count: int, /) -> float:
        blocks = first, size, count
        if blocks not in self._known:
            totals = np.cumsum(self.windows(size))
            left = totals.size - first - size * np.arange(count)
            self._known[blocks] = float(totals[left - 1].sum())
        return self._known[blocks]

    def of_segments(self, edges: Sequence[int], /) -> Floats:
        stop = self._sums.size - np.array(edges)
        size = int(stop[0])
        columns = [np.pad(self._sums[:end], (size - end, 0)) for end in stop.tolist()]
        asked = -np.diff(columns, axis=0)
        return np.asarray(asked @ asked.T)
