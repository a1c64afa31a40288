"""The privacy ledger: every release is paid for here before noise is drawn."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

from mmech._validation import check_choice, check_epsilon
from mmech.exceptions import BudgetExceededError

__all__ = ["LedgerEntry", "PrivacyLedger"]

NEIGHBOURS = ("add_remove", "replace")


@dataclass(frozen=True)
class LedgerEntry:
    """One release that was paid for.

    Attributes
    ----------
    epsilon : Fraction
        What the release cost.
    released : str
        What was measured, in words.
    sensitivity : float
        L1 sensitivity that the noise was calibrated to.

    Examples
    --------
    >>> from mmech import PrivacyLedger
    >>> PrivacyLedger("1/2").spend("1/8", "a histogram", sensitivity=1)
    LedgerEntry(epsilon=Fraction(1, 8), released='a histogram', sensitivity=1.0)
    """

    epsilon: Fraction
    released: str
    sensitivity: float


class PrivacyLedger:
    """A budget that several mechanisms and estimators can share.

    Releases add up (sequential composition), in exact fractions: three releases
    at ``0.1`` fit a ledger of ``0.3``. A release that does not fit is refused
    before any noise is drawn. Safe to use from several threads.

    Parameters
    ----------
    epsilon_total : float, str, Fraction or ``math.inf``
        Budget; ``math.inf`` records releases without limiting them.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation that the budget refers to.

    Examples
    --------
    >>> from mmech import PrivacyLedger
    >>> ledger = PrivacyLedger("0.3")
    >>> for _ in range(3):
    ...     entry = ledger.spend(0.1, "a histogram", sensitivity=1)
    >>> ledger.remaining
    Fraction(0, 1)
    """

    def __init__(self, epsilon_total: Any, *, neighbours: str = "add_remove") -> None:
        self.neighbours = check_choice(neighbours, "neighbours", NEIGHBOURS)
        self.epsilon_total: Fraction | float
        if isinstance(epsilon_total, float) and epsilon_total == math.inf:
            self.epsilon_total = math.inf
        else:
            self.epsilon_total = check_epsilon(epsilon_total, "epsilon_total")
        self._entries: list[LedgerEntry] = []
        self._lock = threading.Lock()

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All releases so far, in order."""
        return tuple(self._entries)

    @property
    def spent(self) -> Fraction:
        """Sum of the epsilons of all releases so far."""
        return sum((entry.epsilon for entry in self._entries), Fraction(0))

    @property
    def remaining(self) -> Fraction | float:
        """What is left of the budget."""
        if isinstance(self.epsilon_total, float):
            return math.inf
        return self.epsilon_total - self.spent

    def check(self, epsilon: Any) -> Fraction:
        """Return `epsilon` as a fraction, or raise if it no longer fits.

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller.
        """
        exact = check_epsilon(epsilon)
        if exact > self.remaining:
            raise BudgetExceededError(
                f"this release needs epsilon = {float(exact):g} but only "
                f"{float(self.remaining):g} of {float(self.epsilon_total):g} is left; "
                "nothing was released: use a larger ledger or reuse what was released"
            )
        return exact

    def spend(self, epsilon: Any, released: str, *, sensitivity: float) -> LedgerEntry:
        """Pay for a release, before its noise is drawn.

        Parameters
        ----------
        epsilon : float, str or Fraction
            Cost of the release.
        released : str
            What is measured, in words.
        sensitivity : float
            L1 sensitivity that the noise is calibrated to.

        Returns
        -------
        LedgerEntry

        Raises
        ------
        BudgetExceededError
            If the remaining budget is smaller; nothing is spent.
        """
        with self._lock:
            entry = LedgerEntry(self.check(epsilon), released, float(sensitivity))
            self._entries.append(entry)
        return entry

    def __copy__(self) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    def __sklearn_clone__(self) -> PrivacyLedger:
        """Return the ledger itself: a copy would double the budget."""
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a PrivacyLedger cannot be pickled, because a copy in another process "
            "would spend the same budget again; use n_jobs=1 or threads"
        )

    def __repr__(self) -> str:
        return (
            f"PrivacyLedger(epsilon_total={float(self.epsilon_total):g}, "
            f"spent={float(self.spent):g}, neighbours={self.neighbours!r}, "
            f"releases={len(self._entries)})"
        )
