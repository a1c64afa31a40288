"""Trees as experts: log-odds and shrunk counts of disjoint blocks of attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from mmech import ShrunkEstimate

__all__ = ["Experts"]

Floats = NDArray[np.float64]

SMOOTHING = 0.5
"""Smallest count that is added to every cell, shared out as the classes are."""

RAREST = 0.01
"""No class counts for less than this part of an equal share."""


class Experts:
    """Votes of one complete tree per block, from shrunk tables.

    Parameters
    ----------
    estimate : ShrunkEstimate
        Posterior means and variances of the tables of all blocks.
    blocks : sequence of tuple of int
        Disjoint sets of attributes.
    voting : {"auto", "log-odds", "weight"}
        How they vote; "auto" is settled from the estimate.
    """

    def __init__(
        self,
        estimate: ShrunkEstimate,
        blocks: Sequence[tuple[int, ...]],
        voting: str,
    ) -> None:
        self._estimate = estimate
        self._blocks = list(blocks)
        self.voting = "log-odds" if voting == "auto" else voting
        k = estimate.n_columns
        totals = estimate.marginal(())[0]
        least = RAREST * max(float(totals.sum()), 1.0) / k
        totals = np.maximum(totals, least)
        self.class_shares = totals / totals.sum()
        self.log_tables = [self._log_table(block) for block in self._blocks]

    def _log_table(self, block: tuple[int, ...]) -> Floats:
        """Return log p(x_a | c), smoothed by the deviation of the counts, (n_a, k)."""
        counts = self._estimate.marginal(block)
        deviation = np.sqrt(self._estimate.variance(block))
        added = np.maximum(deviation, SMOOTHING) * self.class_shares
        smooth = np.maximum(counts, 0.0) + added
        return np.log(smooth / smooth.sum(axis=0))

    def _log_odds(self, codes: NDArray[np.int64]) -> Floats:
        out = np.tile(np.log(self.class_shares), (codes.shape[0], 1))
        for block, table in zip(self._blocks, self.log_tables, strict=True):
            place = np.zeros(codes.shape[0], np.int64)
            for i in block:
                place = place * self._estimate.domain_shape[i] + codes[:, i]
            out += table[place]
        return out

    def scores(self, codes: NDArray[np.int64]) -> Floats:
        """Return the votes for every class, shape (b, k)."""
        if self.voting == "weight":
            return self._estimate.contrast_scores(codes)
        return self._log_odds(codes)

    def probabilities(self, codes: NDArray[np.int64]) -> Floats:
        """Return class probabilities, shape (b, k)."""
        logs = self._log_odds(codes)
        return np.asarray(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))
