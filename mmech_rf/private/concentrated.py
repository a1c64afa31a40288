r"""When a fit of an :math:`(\epsilon, \delta)` is accounted in zCDP, and its plan.

Pure epsilon implies :math:`(\epsilon, \delta)` for every delta, and keeps all of
epsilon for a few releases; zCDP has to put some of it aside for the delta, but costs
less for each of many releases. Which is better follows from public numbers and from a
noisy number of records that was paid for first (`PrivacyLedger.concentrate` has the
proof that the accounting may depend on it).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from mmech import BudgetExceededError, ParameterError, PrivacyLedger
from mmech.checks import check_choice, check_delta
from mmech_rf.drawn import trees as pure
from mmech_rf.drawn.trees import Plan, share_of

__all__ = ["check_ledger", "check_privacy", "concentrated_plan"]

PRIVACY = ("pure", "zcdp")

MOST_ROUNDS = 12
"""Further trees; more cost time and gain little."""


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


def concentrated_plan(
    other: Plan,
    n_records: float,
    epsilon: Fraction,
    rho: Fraction,
    n_features: int,
    *,
    better: bool = True,
) -> Plan | None:
    r"""Return shares of rho, or None where a pure epsilon does better.

    Every release is as strong, beside the others, as a plan of pure epsilon has it: a
    draw with :math:`\epsilon_0` costs :math:`\epsilon_0^2 / 8`; counts with the
    variance of Laplace noise of :math:`\epsilon_0` cost :math:`\epsilon_0^2 / 4`; and
    sums of d attributes with the variance of noise of :math:`\epsilon_0` in their norm,
    about :math:`(d + 1)^2 / 3 \epsilon_0^2`, cost :math:`3 \epsilon_0^2 / 2 (d + 1)`.
    It does better if it draws further trees, as many as the plan of pure epsilon, with
    at least the epsilon of that one.

    Parameters
    ----------
    other : Plan
        Plan of the pure epsilon.
    n_records : float
        Public number of records, roughly.
    epsilon, rho : Fraction
        Budgets of which one can be spent.
    n_features : int
        Number of attributes.
    better : bool, default=True
        Whether to return None where the pure epsilon does better; otherwise only where
        it draws no further trees.
    """
    if rho <= 0 or not other.rounds:
        return None
    information = n_records**2 * float(rho)
    first, first_selection = _tree(pure.RECORDS_OF_FIRST, pure.FIRST_SELECTION)
    further, selection = _tree(pure.RECORDS_PER_ROUND, pure.SELECTION)
    sums = 1.5 * float(epsilon * other.scores) ** 2 / (n_features + 1)
    scores = min(pure.MOST_WITH_BOOSTING, share_of(sums, float(rho)))
    scores = scores if other.scores else Fraction(0)
    start = min(pure.FIRST_SHARE, share_of(first, information))
    rest = 1 - scores - start
    rounds = min(max(int(information * float(rest) // further), 1), MOST_ROUNDS)
    if better and 8 * rho * rest * selection / other.rounds < (
        (epsilon * other.further * other.selection) ** 2
    ):
        return None
    return Plan(
        scores,
        start,
        rest / rounds,
        rounds,
        by_score=other.by_score,
        first_selection=first_selection,
        selection=selection,
    )


def _tree(records: float, selection: Fraction) -> tuple[float, Fraction]:
    """Return what a tree costs, times records squared, and the share that draws it."""
    draw, count = selection**2 / 8, (1 - selection) ** 2 / 4
    return records**2 * float(draw + count), draw / (draw + count)
