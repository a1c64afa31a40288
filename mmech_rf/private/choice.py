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
    method : {"trees", "blocks", "labels"}
        What was released.
    voting : str
        How trees vote.
    n_trees : int
        Number of trees: drawn ones, or one per block.
    rounds : int
        Number of trees that were drawn for what those before them get wrong.
    n_scores : int
        Number of attributes, or of pairs of neighbours, of which drawn trees have
        scores to stand for; zero where none were released.
    blocks : tuple of tuple of int
        Attributes of every tree of the methods "blocks" and "labels".
    shares : tuple of float
        Share of the measurement's cost of every block.
    signed : bool
        Whether differences of two classes were measured.
    risk : float
        Expected squared error of the contrasts of blocks, relative to no measurement;
        NaN for "trees".
    log_evidence : float
        Log marginal likelihood of the release of blocks over that of no signal, nats;
        NaN for "trees".
    accounting : {"pure", "zcdp"}
        Kind of budget that releases were paid with. Of ``privacy="zcdp"`` it is the
        better one by public numbers.
    """

    n_records: float
    stated: bool
    method: str
    voting: str
    n_trees: int
    rounds: int = 0
    n_scores: int = 0
    blocks: tuple[tuple[int, ...], ...] = ()
    shares: tuple[float, ...] = ()
    signed: bool = False
    risk: float = math.nan
    log_evidence: float = math.nan
    accounting: str = "pure"

    def __post_init__(self) -> None:
        check_choice(self.accounting, "accounting", ("pure", "zcdp"))
        listed = [i for block in self.blocks for i in block]
        if (
            not 1 <= self.n_records < math.inf
            or self.n_trees < 1
            or len(set(listed)) < len(listed)
            or any(list(block) != sorted(block) for block in self.blocks)
            or len(self.shares) != len(self.blocks) * (self.method == "blocks")
        ):
            raise ValueError(f"what was chosen does not fit together: {self}")
