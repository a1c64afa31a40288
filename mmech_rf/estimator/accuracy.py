"""How often a released model is right, from noisy counts of held-out records."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.special import betaincinv

from mmech.noise import LAWS
from mmech.privacy.ledger import LedgerEntry
from mmech.storage.codec import storable
from mmech_rf.estimator.votes import check_that

HELD_OUT = 5
"""One record in so many is held out, on average."""

LEVEL = 0.95
"""Probability that an interval holds the accuracy, at least."""

RISK_OF_NOISE = 0.01
"""Probability that noise is larger than intervals allow for, at most."""


@storable("Accuracy")
@dataclass(frozen=True)
class Accuracy:
    """Noisy counts of the right and wrong labels of records that were held out.

    Attributes
    ----------
    right, wrong : int
        As released; noise may take them below zero.
    entry : LedgerEntry
        What they cost, and the noise on each of them.

    Examples
    --------
    >>> from mmech.privacy.ledger import LedgerEntry
    >>> entry = LedgerEntry(1, "right and wrong labels", "laplace")
    >>> found = Accuracy(180, 20, entry)
    >>> round(found.estimate, 2), [round(bound, 2) for bound in found.interval]
    (0.9, [0.81, 0.96])
    """

    right: int
    wrong: int
    entry: LedgerEntry

    def __post_init__(self) -> None:
        law = LAWS.get(self.entry.kind)
        known = law is not None and law.grouped is None
        check_that(known and self.entry.cost > 0 and self.reach >= 0, "accuracies")

    @property
    def estimate(self) -> float:
        """Share of right labels; half a record is added to both counts."""
        right, wrong = max(self.right, 0) + 0.5, max(self.wrong, 0) + 0.5
        return right / (right + wrong)

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds on the accuracy of new records like these, at 95 %.

        Both noises are within `reach` of zero with a probability of 99 %; then bounds
        of Clopper and Pearson at 96 % hold for the counts that are least in favour.
        Records are taken to be drawn independently.
        """
        risk, reach = (1 - LEVEL - RISK_OF_NOISE) / 2, self.reach
        lower = _least_share(self.right - reach, self.wrong + reach, risk)
        upper = 1 - _least_share(self.wrong - reach, self.right + reach, risk)
        return lower, upper

    @property
    def reach(self) -> int:
        """What both noises stay within with a probability of 99 %, in counts."""
        law = LAWS[self.entry.kind]
        size = Fraction(self.entry.sensitivity) ** law.power
        return law.tail(law.parameter(size, self.entry.cost), RISK_OF_NOISE / 2)

    def __str__(self) -> str:
        lower, upper = self.interval  # rounded outwards
        lower, upper = math.floor(1e3 * lower) / 1e3, math.ceil(1e3 * upper) / 1e3
        return f"{self.estimate:.3f}, {LEVEL:.0%} interval {lower:.3f} to {upper:.3f}"

    @property
    def remarks(self) -> list[str]:
        """What a privacy statement says of it."""
        return [
            "Every record is in one of the two parts, drawn for it by itself, so that "
            "together they cost as much as one.",
            f"Accuracy on new records: {self}, for records that are drawn like those "
            f"held out, one in {HELD_OUT}.",
        ]

    def card(self) -> dict[str, Any]:
        """Return the facts for a model card."""
        lower, upper = self.interval
        return {
            "estimate": self.estimate,
            "lower": lower,
            "upper": upper,
            "level": LEVEL,
            "right": self.right,
            "wrong": self.wrong,
        }


def _least_share(hits: int, misses: int, risk: float) -> float:
    """Return the share of hits below which so many have at most this probability."""
    return float(betaincinv(hits, max(misses, 0) + 1, risk)) if hits > 0 else 0.0
