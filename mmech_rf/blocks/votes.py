"""How the trees of a forest on blocks of attributes vote, from released tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mmech import MaximumEntropy, ShrunkEstimate
from mmech_rf.blocks.settings import BlockSettings
from mmech_rf.private.votes import Experts

__all__ = [
    "Differences",
    "Distribution",
    "LogOdds",
    "Weights",
]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]


class LogOdds(Experts):
    """Product of experts: log p(c) + Σ_a log p(x_a | c) from shrunk tables.

    Parameters
    ----------
    estimate : ShrunkEstimate
        Posterior means and variances of the tables of all blocks, by class.
    blocks : sequence of tuple of int
        Disjoint sets of attributes.
    settings : BlockSettings, optional
        Smoothing and prior floor.
    """

    voting = "log-odds"

    def __init__(
        self,
        estimate: ShrunkEstimate,
        blocks: Sequence[tuple[int, ...]],
        settings: BlockSettings | None = None,
    ) -> None:
        settings = settings or BlockSettings()
        self._smoothing = settings.smoothing
        self._blocks = list(blocks)
        self._sizes = estimate.domain_shape
        totals = estimate.marginal(())[0]
        least = settings.prior_floor * max(float(totals.sum()), 1.0) / totals.size
        totals = np.maximum(totals, least)
        self.class_shares = totals / totals.sum()
        self.log_tables = [self._log_table(estimate, block) for block in blocks]

    def _log_table(self, estimate: ShrunkEstimate, block: tuple[int, ...]) -> Floats:
        """Return log p(x_a | c), smoothed by the deviation of the counts, (n_a, k)."""
        deviation = np.sqrt(estimate.variance(block))
        added = np.maximum(deviation, self._smoothing) * self.class_shares
        smooth = np.maximum(estimate.marginal(block), 0.0) + added
        return np.log(smooth / smooth.sum(axis=0))

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.tile(np.log(self.class_shares), (codes.shape[0], 1))
        for block, table in zip(self._blocks, self.log_tables, strict=True):
            place = np.zeros(codes.shape[0], np.int64)
            for i in block:
                place = place * self._sizes[i] + codes[:, i]
            out += table[place]
        return out


class Weights(Experts):
    """Shrunk contrasts between the classes, for attributes taken as evenly spread.

    With n times the contrast of a cell over N the excess of a class's probability over
    1/k, the log-odds are k times that, to first order.

    Parameters
    ----------
    estimate : ShrunkEstimate
        Of tables by class.
    n_records : float
        Number of records N.
    """

    voting = "weight"

    def __init__(self, estimate: ShrunkEstimate, n_records: float) -> None:
        self._estimate = estimate
        self._n_records = n_records

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        contrasts = self._estimate.contrast_scores(codes)
        return contrasts * (contrasts.shape[1] / self._n_records)


class Differences(Weights):
    """`Weights` of the first of two classes less the second, of a signed release."""

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, 2)."""
        margin = self._estimate.contrast_scores(codes) / self._n_records
        return np.hstack([margin, -margin])


class Distribution(Experts):
    """The joint distribution of cells and classes of maximum entropy.

    Parameters
    ----------
    fit : MaximumEntropy
        Fitted to tables by class.
    """

    voting = "maximum-entropy"

    def __init__(self, fit: MaximumEntropy) -> None:
        self.fit = fit

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        return self.fit.log_joint(codes)
