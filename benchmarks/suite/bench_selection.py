"""Choices in many rows, beside the loop over the choice of one."""

from fractions import Fraction

import numpy as np

from mmech.noise import FRACTION_BITS, weighted_choice, weighted_choices
from mmech.privacy.neighbours import Relation
from mmech.selection import choose_rows

from ._common import check

ROWS = 10**6
LOOP_ROWS = 10**4
"""The loop is slow: multiply its time by a hundred."""


class Rows:
    """A million rows; seconds are microseconds per row."""

    params = ([2, 8, 32],)
    param_names = ("candidates",)

    def setup(self, candidates):
        rng = np.random.default_rng(0)
        self.logs = rng.integers(
            -2 * 2**FRACTION_BITS, 1, (ROWS, candidates), dtype=np.int64
        )
        self.scores = rng.integers(0, 100, (ROWS, candidates))
        # Shares of a million draws have errors of half a thousandth.
        first = np.tile(self.logs[:1], (ROWS, 1))
        weights = np.exp(np.ldexp(self.logs[0].astype(float), -FRACTION_BITS))
        found = np.bincount(weighted_choices(first), minlength=candidates) / ROWS
        check(found, weights / weights.sum(), rtol=0.02)

    def time_rows_mmech(self, candidates):
        return weighted_choices(self.logs)

    def time_rows_of_scores_mmech(self, candidates):
        return choose_rows(
            self.scores, Fraction(1), window=2, relation=Relation(), noise=None
        )

    def time_hundredth_in_a_loop(self, candidates):
        return [weighted_choice(row) for row in self.logs[:LOOP_ROWS]]

    def time_rows_numpy_inexact(self, candidates):
        weights = np.exp(np.ldexp(self.logs.astype(float), -FRACTION_BITS))
        sums = np.cumsum(weights, axis=1)
        picks = np.random.default_rng().random((ROWS, 1)) * sums[:, -1:]
        return (sums <= picks).sum(axis=1)
