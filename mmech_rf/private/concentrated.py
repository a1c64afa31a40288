"""Whether a fit may be accounted in zCDP: its parameters and its ledger."""

from __future__ import annotations

from typing import Any

from mmech import BudgetExceededError, ParameterError, PrivacyLedger
from mmech.checks import check_choice, check_delta

__all__ = ["check_ledger", "check_privacy"]

PRIVACY = ("pure", "zcdp")


def check_privacy(privacy: Any, delta: Any) -> None:
    """Raise unless a delta goes with the kind of privacy."""
    check_choice(privacy, "privacy", PRIVACY)
    if privacy == "pure":
        if delta is not None:
            raise ParameterError(
                "delta",
                "goes with {privacy='zcdp'} only",
                delta,
                ("leave {delta} out", "choose {privacy='zcdp'}"),
            )
        return
    if delta is None:
        raise ParameterError(
            "delta",
            "{privacy='zcdp'} needs {delta}, the probability that epsilon may not hold",
            remedy="give one well below one over the number of records, such as 1e-6",
        )
    check_delta(delta)


def check_ledger(ledger: Any, privacy: str) -> None:
    """Raise if a ledger cannot pay for a kind of privacy."""
    if not isinstance(ledger, PrivacyLedger):
        return
    if ledger.currency == "epsilon" and privacy == "zcdp" and ledger.remaining == 0:
        raise BudgetExceededError(
            "the ledger is spent, as that of every copied or loaded model is, and "
            "nothing was released; set ledger=None to spend (epsilon, delta) anew"
        )
    currency = {"pure": "epsilon", "zcdp": "rho"}[privacy]
    if ledger.currency != currency:
        raise ParameterError(
            "ledger",
            f"{{privacy={privacy!r}}} takes a ledger of {currency}, but this one "
            f"counts {ledger.currency}",
            remedy=(
                f'use PrivacyLedger(total, currency="{currency}")',
                "leave {ledger} out, where every fit spends its budget anew",
            ),
        )
