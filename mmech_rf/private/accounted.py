"""Classifiers that look at the budget and the number of records before they release.

They pay in pure epsilon, or in rho of zCDP where that leaves less noise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmech import (
    BudgetExceededError,
    ParameterError,
    PrivacyLedger,
    rho_from_epsilon_delta,
)
from mmech.checks import check_choice, check_delta, check_epsilon
from mmech.privacy.cost import bounded_range_epsilon, warn_if_delta_is_large
from mmech.privacy.neighbours import Relation
from mmech.selection import fixed_point_rate
from mmech_rf.private.cuts import fine_schema, places_to_cut, release_bins
from mmech_rf.private.estimator import estimator
from mmech_rf.private.monotone import MonotoneGrid, check_grid
from mmech_rf.private.records import EncodedRecords, check_n_records
from mmech_rf.private.settings import CountSettings
from mmech_rf.private.shown import ShownForest
from mmech_rf.private.terms import Choice
from mmech_rf.private.votes import Experts, check_that
from mmech_rf.schema import Schema

NUMBER = "number of records"
"""Name of the noisy number of records in ledgers and privacy statements."""

FEWEST_RECORDS = 8.0
"""Noise guard: a noisy number of records below this counts as this."""

LEAST_EPSILON = Fraction(1, 100_000)
"""Numerical guard: smallest epsilon that trees are drawn with, for each record that
comes or goes. Roundings of the arithmetic, which are paid for, would use up a smaller
one."""


@estimator
class AccountedForest(ShownForest):
    """Base of the forests that first ask for the number of records.

    A subclass releases (`_release_model`) and shows its trees (`_shown_trees`).

    Parameters
    ----------
    privacy : {"pure", "zcdp"}, default="pure"
        "pure": a fit guarantees pure epsilon. "zcdp": it guarantees (epsilon, delta),
        which is weaker: with a probability of up to delta, more than epsilon may be
        learnt. Releases are then accounted in zCDP if this means less noise, that is,
        with many records times epsilon.
    delta : float, default=None
        Probability for ``privacy="zcdp"``, well below one over the number of records.
    n_records : int, default=None
        Number of records, roughly, where it is public; ``None`` pays for a noisy count
        with 3 % of epsilon.
    private_bins : sequence of str or "all", default=()
        Numeric attributes with public bounds whose cut points are private quantiles, in
        place of their bins in the schema; "all" for all with bounds. The quantiles cost
        a fifth of epsilon. They gain where the bounds may be far too wide, and lose
        where bins were well chosen.

    Attributes
    ----------
    choice_ : Choice
        What was released and how it votes.
    """

    privacy: str = "pure"
    delta: float | None = None
    n_records: int | None = None
    private_bins: Sequence[str] | str = ()
    settings: Any = field(default=None, init=False)

    choice_: Choice = field(init=False)
    _experts: Experts = field(init=False)
    _method: ClassVar[str]
    _keeps_order = True
    _released: ClassVar[tuple[str, ...]] = ("choice_", "_experts")
    _defaults: ClassVar[CountSettings] = CountSettings()
    """Settings in use where none are given; others are of the same type."""

    @property
    def _public(self) -> str:  # type: ignore[override]
        cut = ", but for the cut points named above," if len(self.private_bins) else ""
        return (
            f"The schema{cut} and the parameters do not depend on records; all the "
            "rest follows from the releases."
        )

    def _check_parameters(self) -> Fraction:
        check_n_records(self.n_records, "for a noisy count")
        if not isinstance(self.settings, type(self._defaults) | None):
            raise TypeError(
                f"settings must be None or {type(self._defaults).__name__}, got "
                f"{type(self.settings).__name__}; leave it out for the defaults"
            )
        _check_privacy(self.privacy, self.delta)
        epsilon = super()._check_parameters()
        if self.schema is not None:
            cut = places_to_cut(self.schema, self.private_bins)
            self._check_draws(epsilon, len(cut))
            if self.schema.monotone:
                most = self._settings.most_bins + 1
                check_grid(
                    [
                        max(a.size, most) if i in cut else a.size
                        for i, a in enumerate(self.schema.attributes)
                        if a.monotone is not None
                    ]
                )
        elif not isinstance(self.private_bins, Sequence) or len(self.private_bins):
            raise ParameterError(
                "private_bins",
                "needs a schema, which has the public bounds of attributes",
                self.private_bins,
                ("pass a Schema",),
            )
        return epsilon

    def _check_draws(self, epsilon: Fraction, n_cut: int) -> None:
        """Raise unless epsilon pays for the roundings of draws of cut points."""
        if not n_cut:
            return
        s = self._settings
        each = epsilon * (1 - s.count_share) * s.bin_share / n_cut
        relation = Relation(self.neighbours, self.records_per_person)
        try:
            fixed_point_rate(
                each, monotone=True, relation=relation, roundings=s.most_bins
            )
        except ValueError:
            raise ParameterError(
                "epsilon",
                f"must be larger to cut {n_cut} attributes where their records are",
                f"{float(epsilon):g}",
                ("raise it", "leave {private_bins} out"),
            ) from None

    def _reading_schema(self, schema: Schema) -> Schema:
        places = places_to_cut(schema, self.private_bins)
        return fine_schema(schema, places) if places else schema

    @property
    def _least_epsilon(self) -> Fraction:
        """Smallest epsilon that trees are drawn with. Public."""
        return LEAST_EPSILON * Relation(self.neighbours, self.records_per_person).factor

    @property
    def _settings(self) -> Any:
        """Settings in use, of the type of the subclass."""
        return self._defaults if self.settings is None else self.settings

    def _check_fit(self) -> None:
        if self.delta is not None:
            warn_if_delta_is_large(self.delta, self.n_records, stacklevel=6)
        _check_ledger(self.ledger, self.privacy)
        super()._check_fit()

    # ---- what is released ------------------------------------------------

    def _fit_counts(self, records: EncodedRecords) -> None:
        epsilon = check_epsilon(self.epsilon)
        self._reserve()
        spent = Fraction(0)
        if self.n_records is None:
            spent = self._count_epsilon(epsilon)
            with self._timed("measurement"):
                noisy = self._session.add_noise(
                    np.array([records.number]), spent, NUMBER, currency="epsilon"
                )
            n_records = max(float(noisy.values[0]), FEWEST_RECORDS)
        else:
            n_records = max(float(self.n_records) * self._training_share, 1.0)
        if self.delta is not None:
            promised = float(epsilon), float(self.delta)
            self._terms = replace(self._terms, promised=promised)
        epsilon -= spent
        places = places_to_cut(self.schema_, self.private_bins)
        if places:
            records, cut = self._release_bins(records, places, epsilon, n_records)
            epsilon -= cut
        self._release_model(records, epsilon, n_records)

    def _release_bins(
        self,
        records: EncodedRecords,
        places: list[int],
        epsilon: Fraction,
        n_records: float,
    ) -> tuple[EncodedRecords, Fraction]:
        """Cut attributes; return the records in the new bins, and the epsilon spent."""
        share = self._settings.bin_share
        shared = self.ledger_.currency == "rho"
        cost = (self._remaining_rho() if shared else epsilon) * share
        with self._timed("measurement"):
            self.schema_, records = release_bins(
                self._session,
                self.schema_,
                records,
                places,
                cost / len(places),
                n_records=n_records,
                most_bins=self._settings.most_bins,
            )
        if self._distinct:
            records = records.added_up(self.schema_)
        return records, epsilon * share

    @abstractmethod
    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        """Release trees for what is left of epsilon, or of `_remaining_rho`."""

    def _reserve(self) -> None:
        """Raise before anything is drawn unless all of this fit's budget is left."""
        if self.ledger_.currency == "epsilon":
            self.ledger_.hold(check_epsilon(self.epsilon))
        else:
            self.ledger_.hold(self._own_rho(), currency="rho")

    def _count_epsilon(self, epsilon: Fraction) -> Fraction:
        """Return what the number of records costs: its share of the budget.

        In a shared ledger of rho it costs up to epsilon² / 2, which for a large epsilon
        would be more than all of this fit's rho; there the share is one of rho as well.
        """
        share = self._settings.count_share
        cost = epsilon * share
        if self.ledger_.currency == "rho":
            # A draw costs epsilon² / 8, so that a quarter of rho pays for epsilon² / 2.
            cost = min(cost, bounded_range_epsilon(self._own_rho() * share / 4))
        return cost

    def _remaining_rho(self) -> Fraction:
        """Return the rho that is left of this fit's (epsilon, delta), if it has one."""
        if self.delta is None:
            return Fraction(0)
        if self.ledger_.currency == "epsilon":
            return self.ledger_.remaining_rho(self.delta)
        return self._own_rho() - sum((e.cost for e in self.releases_), Fraction(0))

    def _own_rho(self) -> Fraction:
        """Return the rho that this fit's (epsilon, delta) implies.

        As the float that it is and as its decimal digits, whichever is less: a ledger
        that was made for this fit has one of the two as its total.
        """
        assert self.delta is not None
        rho = rho_from_epsilon_delta(check_epsilon(self.epsilon), self.delta)
        return min(Fraction(rho), check_epsilon(rho, "rho"))

    @property
    def _accounting(self) -> str:
        return "zcdp" if self.ledger_.currency == "rho" else "pure"

    def _choose(self, n_records: float, **chosen: Any) -> None:
        """Say what the fit went by, and chose."""
        chosen |= {"stated": self.n_records is not None, "method": self._method}
        self.choice_ = Choice(n_records, accounting=self._accounting, **chosen)

    def _guarantee(self) -> str:
        cost = super()._guarantee()
        if self._terms.promised is None:
            return cost
        epsilon, delta = self._terms.promised
        kind = {"pure": "pure", "zcdp": "zCDP with"}[self.choice_.accounting]
        return (
            f"(epsilon, delta)-differential privacy with epsilon = {epsilon:g} and "
            f"delta = {delta:g}, from {kind} {cost},"
        )

    def _settle(self) -> None:
        super()._settle()
        choice = self.choice_
        votes = choice.method, choice.voting
        check_that(votes == (self._method, self._experts.voting), "votes")
        self._experts.check(self.schema_.domain_shape, self.schema_.n_classes)
        currency = {"pure": "epsilon", "zcdp": "rho"}[choice.accounting]
        check_that({entry.currency for entry in self.releases_} == {currency}, "costs")
        pure = choice.accounting == "pure"
        check_that(pure or self._terms.promised is not None, "promises")

    # ---- post-processing -------------------------------------------------

    def _predict_classes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.schema_.monotone:
            median: NDArray[np.int64] = (self._later_classes(codes) > 0.5).sum(axis=1)
            return median
        return self._break_ties(self._experts.log_odds(codes), codes)

    def _later_classes(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how likely classes from the second, third, ... on are, (b, k - 1).

        They keep to monotone attributes.
        """
        grid = MonotoneGrid(self.schema_.attributes)
        return grid.later(codes, self._experts.probabilities)

    def _probabilities(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._experts.probabilities(codes)

    def _probabilities_in_order(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return probabilities that keep to monotone attributes, shape (b, k)."""
        if not self.schema_.monotone:
            return self._probabilities(codes)
        later = np.pad(self._later_classes(codes), ((0, 0), (1, 1)))
        later[:, 0] = 1.0
        return np.asarray(-np.diff(later, axis=1))


# ---- accounting in zCDP ------------------------------------------------------


def _check_privacy(privacy: Any, delta: Any) -> None:
    """Raise unless a delta goes with the kind of privacy."""
    check_choice(privacy, "privacy", ("pure", "zcdp"))
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


def _check_ledger(ledger: PrivacyLedger | None, privacy: str) -> None:
    """Raise if a ledger cannot pay for a kind of privacy."""
    if ledger is None:
        return
    if ledger.currency == "epsilon" and privacy == "zcdp" and ledger.remaining == 0:
        raise BudgetExceededError(
            "the ledger is spent, like the ledger of every copied or loaded model, "
            "and nothing was released; set ledger=None to spend (epsilon, delta) anew"
        )
    currency = {"pure": "epsilon", "zcdp": "rho"}[privacy]
    if ledger.currency != currency:
        raise ParameterError(
            "ledger",
            f"must count {currency} with {{privacy={privacy!r}}}, but counts "
            f"{ledger.currency}",
            remedy=(
                f"use one with the currency {currency}",
                "leave {ledger} out, where every fit spends its budget anew",
            ),
        )
