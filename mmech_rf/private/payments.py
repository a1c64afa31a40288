"""Drawing trees, counting and adding up, paid from one ledger in either currency."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from mmech import Measurement, PrivacyLedger
from mmech.noise import GAUSSIAN, LAPLACE, Law, k_norm
from mmech.noise.norm import Groups, as_blocks, dimension
from mmech.privacy.ledger import LedgerEntry
from mmech.quantiles import select_quantiles
from mmech.release import charge, measure
from mmech.selection import epsilon_of_draw
from mmech_rf.arrays import Integers
from mmech_rf.drawn.draw import SelectedTree, select_tree

__all__ = ["Payments"]


@dataclass(frozen=True)
class Payments:
    """Releases of a fit, each charged to one ledger before it is drawn.

    Costs are in the currency of the ledger, which decides the law of the noise.
    """

    ledger: PrivacyLedger  # knows the neighbour relation
    noise: np.random.Generator | None  # predictable source for tests
    note: Callable[[LedgerEntry], None]  # given the entry of every release

    def draw_tree(
        self, cost: Fraction, what: str, *seen: Any, **settings: Any
    ) -> SelectedTree:
        """Draw a labelled tree; further arguments are those of `select_tree`."""
        currency = self.ledger.currency
        entry = LedgerEntry(cost, what, "exponential", currency=currency)
        return select_tree(
            *seen,
            **settings,
            epsilon=epsilon_of_draw(cost, currency),
            relation=self.ledger.relation,
            pay=partial(self._pay, entry),
            noise=self.noise,
        )

    def cut(
        self,
        counts: Integers,
        n_bins: int,
        n_records: float,
        cost: Fraction,
        currency: str,
        what: str,
    ) -> Integers:
        """Release edges that cut the cells of a grid into bins of about equal parts.

        A pure epsilon is also paid from a ledger of rho.
        """
        cuts, entry = select_quantiles(
            counts,
            n_bins,
            n_records,
            cost,
            currency,
            released=what,
            relation=self.ledger.relation,
            ledger=self.ledger,
            noise=self.noise,
        )
        self.note(entry)
        return cuts

    def release(
        self, counts: Integers, cost: Fraction, what: str, unit: int = 1
    ) -> Measurement:
        """Release counts, of which one record changes one by at most `unit`."""
        law = LAPLACE if self.ledger.currency == "epsilon" else GAUSSIAN
        return self._measure(counts, Fraction(unit) ** law.power, law, cost, what)

    def release_sums(
        self, sums: Integers, groups: Groups, cost: Fraction, what: str, unit: int
    ) -> Measurement:
        """Release sums, of which one record changes every group by at most `unit`.

        In L1 norm, and so in L2 norm; and in one column only. Groups that are put
        together have equal totals. Gaussian noise on these alone would be the noise
        on all rows, projected: it is in the least squares fit to what is released.
        """
        if self.ledger.currency == "epsilon":
            return self._measure(sums, Fraction(unit), k_norm(groups), cost, what)
        squared = Fraction(unit**2 * sum(map(len, as_blocks(groups))))
        return self._measure(sums, squared, GAUSSIAN, cost, what)

    def deviation(
        self, groups: Groups, cost: Fraction, *, by_row: bool = False
    ) -> float:
        """Return about what `release_sums` adds to a group of one row.

        By row, times the rows of a group, which share out its records: noise that is
        shaped like the norm is less in each row of a large group, Gaussian is not.
        """
        size = self.ledger.relation.factor
        if self.ledger.currency == "rho":
            sizes = [n for block in as_blocks(groups) for n in block]
            rows = sum(sizes) / len(sizes) if by_row else 1
            return size * rows * math.sqrt(len(sizes) / (2 * cost))
        d = dimension(groups)
        return float(size / cost) * math.sqrt((d + 1) * (d + 2) / 3)

    def _measure(
        self, values: Integers, own: Fraction, law: Law, cost: Fraction, what: str
    ) -> Measurement:
        measured = measure(
            values,
            [(0, len(values), own)],
            law,
            cost,
            released=what,
            relation=self.ledger.relation,
            ledger=self.ledger,
            noise=self.noise,
        )
        self.note(measured.entry)
        return measured

    def _pay(self, entry: LedgerEntry) -> None:
        self.note(charge(self.ledger, entry, self.ledger.relation, self.noise))
