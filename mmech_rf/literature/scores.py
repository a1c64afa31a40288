r"""What makes a test good: whole numbers that one record moves within a known window.

A test splits the records of a node into children, with n(v, c) records of class c in
child v. A score is a sum over children of a term of their class counts, so that a
record changes one term only. The exponential mechanism at rate :math:`\epsilon / w` is
:math:`\epsilon`-private for scores that an added record moves within an interval of
length w (`mmech.exponential_mechanism`).

=======  ======================================================  ====================
median   -abs(n(left) - n(right))                                [-1, 1]
max      sum_v max_c n(v, c)                                     [0, 1]
gini     -sum_v (n(v) - sum_c n(v, c)^2 / n(v))                  (-2, 0]
entropy  -sum_v n(v) H(v), in bits                               log2(kN + 1) + 1.44
gain     (1 + 1 / log2(number of children)) / 2 of the gain,     twice that
         n H - sum_v n(v) H(v): the mean of gain and gain ratio
=======  ======================================================  ====================

The last is "gain-and-ratio"; the information of a split is taken from even children,
which is public. For one node the entropy ranks tests as the information gain does.

Fractions are counted on a grid of 2^-6, rounded term by term. Counts of entropies
are clamped at a public N.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from mmech_rf.arrays import Integers

GRID = 6
"""Scores that are not whole are counted in units of 2**-6."""

MOST = 2**24
"""Larger counts, of which squares do not fit, count as this; that keeps the windows."""

LARGEST_TABLE = 2**22
"""Most entries of the table of n log n: beyond, counts are clamped earlier."""


@dataclass(frozen=True)
class Score:
    """A score of tests."""

    # From class counts (..., k) of a child to its term, (...).
    term: Callable[[Integers], Integers]
    window: int  # that an added record moves all scores within
    contrast: bool = False  # minus the difference of two terms, not their sum
    ratio: bool = False  # gains over the node, and ratios by the number of children
    grid: int = 1  # units of the score to one record, or bit

    @property
    def size(self) -> float:
        """Length of the window, in records or bits."""
        return self.window / self.grid

    def two_way(self, left: Integers, right: Integers) -> Integers:
        """Return the scores of tests with two outcomes."""
        one, other = self.term(left), self.term(right)
        if self.contrast:
            return -abs(one - other)
        if self.ratio:
            return one + other - self.term(left + right)
        return one + other

    def multiway(self, children: Integers) -> Integers:
        """Return the scores of tests with a child per value, from (..., values, k)."""
        found = self.term(children).sum(axis=-1)
        if self.ratio:
            mean = round(2**15 * (1 + 1 / math.log2(children.shape[-2])))
            return (found - self.term(children.sum(axis=-2))) * mean // 2**16
        return found


def _size(counts: Integers) -> Integers:
    return np.asarray(counts.sum(axis=-1))


def _largest(counts: Integers) -> Integers:
    return np.asarray(counts.max(axis=-1))


def _gini(counts: Integers) -> Integers:
    counts = np.minimum(counts, MOST)
    total = counts.sum(axis=-1)
    squares = (counts * counts).sum(axis=-1) << GRID
    return squares // np.maximum(total, 1) - (total << GRID)


def _entropy(table: Integers, most: int, counts: Integers) -> Integers:
    counts = np.minimum(counts, most)
    return np.asarray(table[counts].sum(axis=-1) - table[counts.sum(axis=-1)])


@lru_cache(maxsize=2)  # a fit asks for the most records, and for those there are
def _n_log_n(most: int) -> tuple[Integers, int]:
    """Return n log2(n) on the grid, for n = 0 .. most, and the window of its terms."""
    n = np.arange(most + 1, dtype=np.float64)
    table = np.rint(n * np.log2(np.maximum(n, 1)) * 2**GRID).astype(np.int64)
    table.flags.writeable = False
    # A term changes by a step of the table at n(v, c), less one at n(v) >= n(v, c);
    # steps increase, but for the rounding of the table.
    steps = np.diff(table)
    overshoot = (np.maximum.accumulate(steps) - steps).max()
    return table, int(steps.max() - steps.min() + overshoot)


def score_for(name: str, n_classes: int, n_records: float, unit: int = 1) -> Score:
    """Return a score, with the window that holds for records of weights up to `unit`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech_rf.literature.scores import score_for
    >>> gini = score_for("gini", n_classes=2, n_records=100)
    >>> gini.two_way(np.array([3, 1]), np.array([0, 4])) / 64
    np.float64(-1.5)
    """
    if name == "median":
        return Score(_size, 2 * unit, contrast=True)
    if name == "max":
        return Score(_largest, unit)
    if name == "gini":
        return Score(_gini, (2 ** (GRID + 1) + 2) * unit, grid=2**GRID)
    most = min(math.ceil(2 * n_records) * unit, LARGEST_TABLE // n_classes)
    table, window = _n_log_n(n_classes * most)
    window *= unit
    term = partial(_entropy, table, most)
    if name == "entropy":
        return Score(term, window, grid=2**GRID)
    # The node and one child change, and a product is rounded down.
    return Score(term, 2 * window + 2, ratio=True, grid=2**GRID)
