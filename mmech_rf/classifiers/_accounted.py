"""How the releases of a fit are paid for, in either kind of budget, and told of."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from mmech import (
    GaussianMeasurement,
    GaussianMechanism,
    MatrixMechanism,
    Measurement,
    QueryMatrix,
    Records,
    exponential_mechanism,
)
from mmech.budget import LedgerEntry
from mmech_rf.classifiers._additive import SUMS
from mmech_rf.classifiers._base import ForestClassifier
from mmech_rf.classifiers._block_design import BLOCK
from mmech_rf.classifiers._choice import Choice
from mmech_rf.classifiers._concentrated import in_rho
from mmech_rf.classifiers._label_forest import LABELS
from mmech_rf.classifiers._payments import (
    ConcentratedPayments,
    ConcentratedRelease,
    Payments,
    PurePayments,
)
from mmech_rf.classifiers._selected_trees import DRAWN

__all__ = ["NUMBER", "AccountedForest"]

NUMBER = "number of records"
"""Words for the noisy number of records."""


class AccountedForest(ForestClassifier):
    """A classifier whose releases cost pure epsilon, or rho where that does better."""

    choice_: Choice

    def _concentrate(self) -> None:
        """Account for what was released, and for what follows, in zCDP.

        No ledger of this fit is the sign of it: one would count pure epsilon.
        """
        self.releases_ = in_rho(self.releases_)
        self.ledger_ = None

    @property
    def _accounting(self) -> str:
        return "zcdp" if self.ledger_ is None else "pure"

    def _payments(self, cost: Fraction) -> Payments:
        terms = self._insecure_rng, self._note
        if self.ledger_ is None:
            return ConcentratedPayments(self._terms.neighbours, cost, *terms)
        return PurePayments(self._terms.neighbours, self.ledger_, *terms)

    def _draw(self, scores: Sequence[int], epsilon: Fraction, what: str) -> int:
        """Draw by scores of sensitivity one, and remember what was released."""
        with self._timed("measurement"):
            drawn = exponential_mechanism(
                scores,
                epsilon=epsilon,
                released=what,
                neighbours=self._terms.neighbours,
                ledger=self.ledger_,
                insecure_rng=self._insecure_rng,
            )
        self._note(epsilon, what, 1.0)
        return drawn

    def _release(
        self, strategy: QueryMatrix, cost: Fraction, counts: Any, what: str
    ) -> Measurement | GaussianMeasurement:
        """Measure once, and remember what was released."""
        terms: dict[str, Any] = {
            "neighbours": self._terms.neighbours,
            "signed": isinstance(counts, Records) and counts.signed,
            "insecure_rng": self._insecure_rng,
        }
        mechanism: MatrixMechanism | GaussianMechanism
        if self.ledger_ is None:
            mechanism = GaussianMechanism(strategy, strategy, rho=cost, **terms)
        else:
            mechanism = MatrixMechanism(
                strategy, strategy, epsilon=cost, ledger=self.ledger_, **terms
            )
        measurement = mechanism.measure(counts)
        released = f"{what} measured by {strategy._label()}"
        self._note(cost, released, measurement.sensitivity)
        return measurement

    def _note(self, cost: Fraction, released: str, sensitivity: float) -> None:
        """Remember what was released; without a ledger, in zCDP."""
        kind = ConcentratedRelease if self.ledger_ is None else LedgerEntry
        entry = kind(cost, released, sensitivity, insecure=self._terms.insecure)
        self.releases_ = (*self.releases_, entry)

    def _how(self, entry: Any) -> str:
        concentrated = isinstance(entry, ConcentratedRelease)
        if entry.released.endswith(DRAWN) or entry.released.startswith(BLOCK):
            return "drawn by the exponential mechanism, score of sensitivity 1"
        if entry.released == LABELS:
            return "drawn by permute-and-flip, scores of sensitivity 1 in one leaf"
        if concentrated and not entry.released.startswith(NUMBER):
            return (
                f"L2 sensitivity {entry.sensitivity:g}, exact discrete Gaussian noise"
            )
        if entry.released == SUMS:
            return (
                f"sensitivity {entry.sensitivity:g} in the largest norm of an "
                "attribute, exact noise shaped like this norm"
            )
        return super()._how(entry)

    def _cost(self, entries: Sequence[Any]) -> str:
        if not isinstance(entries[0], ConcentratedRelease):
            return super()._cost(entries)
        spent = sum((entry.rho for entry in entries), Fraction(0))
        return f"rho = {float(spent):g}"

    def _spent(self) -> str:
        if self._terms.promised is None:
            return super()._spent()
        epsilon, delta = self._terms.promised
        kind = {"pure": "pure", "zcdp": "zCDP with"}[self.choice_.accounting]
        return (
            f"(epsilon, delta)-differential privacy with epsilon = {epsilon:g} and "
            f"delta = {delta:g}, from {kind} {self._cost(self.releases_)},"
        )
