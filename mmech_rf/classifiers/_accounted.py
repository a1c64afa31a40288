"""Classifiers that pay in epsilon, or in rho where that leaves less noise."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from mmech import MatrixMechanism, Measurement, QueryMatrix, Records
from mmech._validation import check_epsilon
from mmech.privacy.cost import rho_from_epsilon_delta
from mmech.privacy.ledger import LedgerEntry
from mmech.selection import select
from mmech_rf.classifiers._base import ForestClassifier
from mmech_rf.classifiers._choice import Choice
from mmech_rf.classifiers._payments import Payments

__all__ = ["NUMBER", "AccountedForest"]

NUMBER = "number of records"
"""Words for the noisy number of records."""


class AccountedForest(ForestClassifier):
    """A classifier whose releases cost pure epsilon, or rho where that does better."""

    choice_: Choice
    delta: float | None

    def _remaining_rho(self) -> Fraction:
        """Return the rho that is left of this fit's (epsilon, delta), if it has one."""
        if self.delta is None:
            return Fraction(0)
        if self.ledger_.currency == "epsilon":
            return self.ledger_.remaining_rho(self.delta)
        total = rho_from_epsilon_delta(check_epsilon(self.epsilon), self.delta)
        return Fraction(total) - sum((e.cost for e in self.releases_), Fraction(0))

    def _concentrate(self) -> None:
        """Account for what was released, and for what follows, in zCDP."""
        if self.ledger_.currency == "rho":
            return
        assert self.delta is not None
        self.ledger_ = self.ledger_.concentrate(self.delta)
        self.releases_ = self.ledger_.entries

    @property
    def _accounting(self) -> str:
        return "zcdp" if self.ledger_.currency == "rho" else "pure"

    def _payments(self) -> Payments:
        return Payments(self.ledger_, self._insecure_rng, self._note)

    def _draw(self, scores: Sequence[int], epsilon: Fraction, what: str) -> int:
        """Draw by scores of sensitivity one, and remember what was released."""
        with self._timed("measurement"):
            drawn, entry = select(
                np.asarray(scores, np.int64),
                epsilon,
                "epsilon",
                released=what,
                relation=self._terms.relation,
                ledger=self.ledger_,
                noise=self._insecure_rng,
            )
        self._note(entry)
        return drawn

    def _release(
        self,
        strategy: QueryMatrix,
        cost: Fraction,
        counts: Any,
        what: str,
        *,
        currency: str | None = None,
    ) -> Measurement:
        """Measure once, and remember what was released."""
        price: dict[str, Any] = {currency or self.ledger_.currency: cost}
        mechanism = MatrixMechanism(
            strategy,
            strategy,
            **price,
            neighbours=self._terms.neighbours,
            records_per_person=self._terms.records_per_person,
            signed=isinstance(counts, Records) and counts.signed,
            ledger=self.ledger_,
        )
        mechanism._noise = self._insecure_rng
        released = f"{what} measured by {strategy._label()}"
        measurement = mechanism.measure(counts, released=released)
        self._note(measurement.entry)
        return measurement

    def _note(self, entry: LedgerEntry) -> None:
        """Remember what was released."""
        self.releases_ = (*self.releases_, entry)

    def _spent(self) -> str:
        if self._terms.promised is None:
            return super()._spent()
        epsilon, delta = self._terms.promised
        kind = {"pure": "pure", "zcdp": "zCDP with"}[self.choice_.accounting]
        return (
            f"(epsilon, delta)-differential privacy with epsilon = {epsilon:g} and "
            f"delta = {delta:g}, from {kind} {self._cost(self.releases_)},"
        )
