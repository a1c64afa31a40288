"""One fit's or release's door to the records: charge, draw, and keep what was paid.

A session has the ledger, the neighbour relation that the ledger knows, and the source
of noise. Methods that hold one need none of the three, and its entries are what
statements and cards are printed from.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from fractions import Fraction
from functools import partial
from typing import Any

from mmech.arrays import Integers
from mmech.error.result import StrategyResult
from mmech.mechanism import MatrixMechanism
from mmech.noise import OF_CURRENCY, Law, k_norm
from mmech.noise.norm import Groups, dimension
from mmech.noise.system import Rng
from mmech.operators.base import QueryMatrix
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.quantiles import select_quantiles
from mmech.release import Measurement, charge, measure
from mmech.selection import epsilon_of_draw


class Session:
    """Releases of one fit, each charged to a ledger before it is drawn.

    The currency of costs decides the law of the noise. A ledger of rho charges for pure
    epsilon at its price in rho.

    Parameters
    ----------
    ledger : PrivacyLedger
        What pays; it knows the neighbour relation.
    noise : numpy.random.Generator, default=None
        Predictable source for tests; ``None`` for the system's entropy.
    entries : tuple of LedgerEntry, default=()
        What was paid before, of a model that is read from a file.
    currency : {"epsilon", "rho"}, default=None
        Currency of costs; ``None`` takes the currency of the ledger.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import numpy as np
    >>> from mmech import PrivacyLedger
    >>> from mmech.session import Session
    >>> session = Session(PrivacyLedger(1))
    >>> noisy = session.add_noise(np.array([3, 4]), Fraction(1, 2), "two counts")
    >>> [(str(entry.cost), entry.kind) for entry in session.entries]
    [('1/2', 'laplace')]
    """

    def __init__(
        self,
        ledger: PrivacyLedger,
        noise: Rng = None,
        entries: tuple[LedgerEntry, ...] = (),
        *,
        currency: str | None = None,
    ) -> None:
        self.ledger, self.noise, self.entries = ledger, noise, entries
        self.currency = currency or ledger.currency

    @property
    def relation(self) -> Relation:
        """Neighbour relation of the ledger."""
        return self.ledger.relation

    def note(self, entry: LedgerEntry) -> None:
        """Keep the entry of a release that was paid for elsewhere."""
        self.entries = (*self.entries, entry)

    def pay(self, entry: LedgerEntry, ledger: PrivacyLedger | None = None) -> None:
        """Charge what the caller draws, to a part of the ledger if one is given."""
        ledger = ledger or self.ledger
        self.note(charge(ledger, entry, ledger.relation, self.noise))

    # ---- the matrix mechanism ----------------------------------------------------

    def mechanism(
        self,
        workload: QueryMatrix,
        strategy: QueryMatrix | StrategyResult,
        **options: Any,
    ) -> MatrixMechanism:
        """Return a mechanism that this session pays for."""
        ours = {"ledger": self.ledger, "insecure_rng": self.noise}
        return MatrixMechanism(
            workload, strategy, **{**ours, **asdict(self.relation), **options}
        )

    def measure(
        self, mechanism: MatrixMechanism, counts: Any, what: str
    ) -> Measurement:
        """Measure exact counts, and note what was released."""
        released = f"{what} measured by {mechanism.strategy._label()}"
        measured = mechanism._measured(counts, released, mechanism._price)
        self.note(measured.entry)
        return measured

    # ---- numbers with noise --------------------------------------------------------

    def add_noise(
        self,
        counts: Integers,
        cost: Fraction,
        what: str,
        unit: int = 1,
        *,
        times: int = 1,
        currency: str | None = None,
    ) -> Measurement:
        """Release counts, of which one record changes some by at most `unit` each.

        One of them, or as many as `times` says. The cost is in the currency of the
        session, or in another one.
        """
        law = OF_CURRENCY[currency or self.currency]
        size = times * Fraction(unit) ** law.power
        return self._measured(counts, size, law, cost, what)

    def add_noise_to_groups(
        self, sums: Integers, groups: Groups, cost: Fraction, what: str, unit: int
    ) -> Measurement:
        """Release sums, of which one record changes every group by at most `unit`.

        In L1 norm, and in one column only, for a cost in pure epsilon. Groups that are
        put together have equal totals.
        """
        return self._measured(sums, Fraction(unit), k_norm(groups), cost, what)

    def deviation(self, groups: Groups, cost: Fraction) -> float:
        """Return about what `add_noise_to_groups` adds to a group of one row."""
        d = dimension(groups)
        scale = float(self.relation.factor / cost)
        return scale * math.sqrt((d + 1) * (d + 2) / 3)

    def _measured(
        self, values: Integers, size: Fraction, law: Law, cost: Fraction, what: str
    ) -> Measurement:
        measured = measure(
            values,
            [(0, len(values), size)],
            law,
            cost,
            released=what,
            relation=self.relation,
            ledger=self.ledger,
            noise=self.noise,
        )
        self.note(measured.entry)
        return measured

    # ---- draws ---------------------------------------------------------------------

    def draw(self, cost: Fraction, what: str) -> dict[str, Any]:
        """Return what one draw of an exponential mechanism is given, `pay` included."""
        entry = LedgerEntry(cost, what, "exponential", currency=self.currency)
        return {
            "epsilon": epsilon_of_draw(cost, self.currency),
            "relation": self.relation,
            "pay": partial(self.pay, entry),
            "noise": self.noise,
        }

    def cut(
        self,
        counts: Integers,
        n_bins: int,
        n_records: float,
        cost: Fraction,
        what: str,
    ) -> Integers:
        """Release edges that cut the cells of a grid into bins of about equal parts."""
        cuts, entry = select_quantiles(
            counts,
            n_bins,
            n_records,
            cost,
            self.currency,
            released=what,
            relation=self.relation,
            ledger=self.ledger,
            noise=self.noise,
        )
        self.note(entry)
        return cuts
