"""What drawing trees, counting and choosing cost, in one kind of budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech import Measurement, PrivacyLedger, laplace_release, permute_and_flip
from mmech_rf.tree_selection import SelectedTree, select_tree
from mmech_rf.views import Views

__all__ = ["PurePayments"]


@dataclass(frozen=True)
class PurePayments:
    """Releases that cost epsilon, each charged to one ledger before it is drawn.

    Attributes
    ----------
    neighbours : {"add_remove", "replace"}
        Neighbour relation of the guarantee.
    ledger : PrivacyLedger
        Budget to charge.
    insecure_rng : numpy.random.Generator or None
        Source for tests.
    note : callable
        Told the cost, what was released and its sensitivity, of every release.
    """

    neighbours: str
    ledger: PrivacyLedger
    insecure_rng: np.random.Generator | None
    note: Callable[[Fraction, str, float], None]

    def draw_tree(
        self,
        views: Views,
        cells: NDArray[np.uint8],
        class_codes: NDArray[np.int64],
        cost: Fraction,
        what: str,
        *,
        n_classes: int,
        n_records: float,
        weights: NDArray[np.int64] | None = None,
        unit: int = 1,
    ) -> SelectedTree:
        """Draw a labelled tree; the arguments are those of `select_tree`."""
        tree = select_tree(
            views,
            cells,
            class_codes,
            n_classes=n_classes,
            epsilon=cost,
            n_records=n_records,
            weights=weights,
            unit=unit,
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self.insecure_rng,
        )
        self.note(cost, what, 1.0)
        return tree

    def release(
        self, counts: NDArray[np.int64], cost: Fraction, what: str, unit: int = 1
    ) -> Measurement:
        """Release counts, of which one record changes one by at most `unit`."""
        measured = laplace_release(
            counts,
            sensitivity=unit,
            epsilon=cost,
            released=what,
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self.insecure_rng,
        )
        self.note(cost, what, measured.sensitivity)
        return measured

    def choose(self, scores: ArrayLike, cost: Fraction, what: str) -> int:
        """Choose by scores, of which one more record raises each by at most one."""
        chosen = permute_and_flip(
            scores,
            epsilon=cost,
            released=what,
            monotone=True,
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self.insecure_rng,
        )
        self.note(cost, what, 1.0)
        return chosen
