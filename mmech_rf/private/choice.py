"""What the fit of a forest went by, and chose."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mmech.checks import check_choice
from mmech.storage.codec import storable

__all__ = ["Choice"]


@storable("Choice")
@dataclass(frozen=True)
class Choice:
    """What a fit chose, and from what.

    Attributes
    ----------
    n_records : float
        Number of records that choices went by: stated, or a noisy count.
    stated : bool
        Whether the user stated it.
    method : str
        What was released: "trees" of `PrivateForestClassifier`.
    voting : str
        How trees vote.
    n_trees : int
        Number of trees that were drawn.
    rounds : int
        Number of trees that were drawn for what those before them get wrong.
    n_scores : int
        Number of attributes, or of pairs of neighbours, of which drawn trees have
        scores to stand for; zero where none were released.
    accounting : {"pure", "zcdp"}
        Kind of budget that releases were paid with. With ``privacy="zcdp"`` public
        numbers say which is better.
    """

    n_records: float
    stated: bool
    method: str
    voting: str
    n_trees: int
    rounds: int = 0
    n_scores: int = 0
    accounting: str = "pure"

    def __post_init__(self) -> None:
        check_choice(self.accounting, "accounting", ("pure", "zcdp"))
        if not 1 <= self.n_records < math.inf or self.n_trees < 1:
            raise ValueError(f"what was chosen does not fit together: {self}")
