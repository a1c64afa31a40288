"""What keeps budgets and exact records from being rewritten, or used in two places."""

from __future__ import annotations

import os
from typing import Any

from mmech.exceptions import BudgetExceededError


class Settled:
    """Base of objects whose public attributes are assigned once, when they are made.

    Attributes
    ----------
    _kind : str
        What the object is, in a word.
    """

    _kind: str

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse_if_settled(name)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        self._refuse_if_settled(name)
        super().__delattr__(name)

    def _refuse_if_settled(self, name: str) -> None:
        if not name.startswith("_") and name in vars(self):
            raise AttributeError(
                f"{name} was settled when this {self._kind} was made, because what was "
                f"spent and how much noise was added follow from it; make another "
                f"{self._kind}"
            )


def check_process(home: int, what: str) -> None:
    """Raise unless this is the process, by its id, that something was made in.

    A fork copies all objects. Both copies of a budget could be spent, and neither
    would know of the other.
    """
    if os.getpid() != home:
        raise BudgetExceededError(
            f"{what} belongs to the process that made it, and this is a copy in "
            "another one, so nothing was released; use n_jobs=1 or threads, or release "
            "in the process that made it and give the others what was released"
        )
