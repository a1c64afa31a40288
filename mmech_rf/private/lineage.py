"""How often an estimator and its clones were fitted, to warn of budgets that add up.

A fit without a shared ledger has a budget of its own. Each fit of one object keeps its
promise, and cross-validation, which fits clones, spends as many budgets as it has folds
without that any of them could know.
"""

from __future__ import annotations

import uuid
import warnings
from fractions import Fraction
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from mmech import PrivacyLeakWarning


class Lineage:
    """An estimator, its clones and its copies before they were fitted.

    What is counted is fits, whatever they were given: whether two fits saw the same
    records must not be found out from the records. Processes count by themselves;
    copies find each other by name after pickling. Workers of a cross-validation cannot
    warn, but the process that clones for them can.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = uuid.uuid4().hex if name is None else name
        self.budgets: list[Fraction] = []
        self.warned = self.warned_of_clones = False
        # What was cloned since the last fit in this process.
        self.waiting: WeakSet[Any] = WeakSet()
        _KNOWN[self.name] = self

    def fits_again(self, epsilon: Fraction) -> None:
        """Warn, once, that a fit spends a budget beside those of earlier ones."""
        if self.budgets and not self.warned:
            self.warned = True
            total = float(sum(self.budgets, epsilon))
            warnings.warn(
                "this estimator, or a clone of it as in cross-validation, was fitted "
                "before, and every fit spends a budget of its own: if the records are "
                f"the same, epsilon = {total:g} in all with this fit, and more with "
                "each that follows; pass one ledger=PrivacyLedger(total) to limit the "
                "sum",
                PrivacyLeakWarning,
                stacklevel=5,
            )

    def fitted(self, epsilon: Fraction) -> None:
        """Remember a fit that begins to look at records."""
        self.budgets.append(epsilon)
        self.waiting.clear()

    def cloned(self, model: Any) -> None:
        """Warn, once, where a model is cloned again and no clone was fitted here."""
        again = model in self.waiting
        self.waiting.add(model)
        if again and not self.warned_of_clones:
            self.warned_of_clones = True
            warnings.warn(
                "this estimator, or a clone of it, was cloned again before a fit, as "
                "for the workers of a cross-validation: every fit spends a budget of "
                "its own, and on the same records they add up; pass one "
                "ledger=PrivacyLedger.open(path, total=...), which workers share, to "
                "limit the sum",
                PrivacyLeakWarning,
                stacklevel=4,
            )

    def __reduce__(self) -> Any:
        return _known_as, (self.name,)


_KNOWN: WeakValueDictionary[str, Lineage] = WeakValueDictionary()


def _known_as(name: str) -> Lineage:
    """Return the lineage of that name in this process."""
    return _KNOWN.get(name) or Lineage(name)
