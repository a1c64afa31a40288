"""Classifiers that look at the budget and the number of records before they release.

Private bins are numeric attributes that are cut where their records are. These are
first encoded by a fine public grid between the bounds of the attribute. From the counts
of its cells cut points are drawn together (`mmech.quantiles`), and cells become bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmech import Attribute, ParameterError
from mmech.checks import nearest
from mmech.domain.discretise import fine_grid
from mmech.privacy.cost import ROUNDED_UP, in_rho
from mmech.privacy.neighbours import Relation
from mmech.selection import epsilon_of_draw, fixed_point_rate
from mmech.storage.codec import storable
from mmech_rf.estimator.accuracy import HELD_OUT
from mmech_rf.estimator.base import ForestClassifier
from mmech_rf.estimator.monotone import MonotoneGrid, check_grid
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords, check_n_records, in_bins
from mmech_rf.estimator.votes import Experts
from mmech_rf.schema import Schema

NUMBER = "number of records"
"""Name of the noisy number of records in ledgers and privacy statements."""

FEWEST_RECORDS = 8.0
"""Noise guard: a noisy number of records below this counts as this."""

# Provenance: as `mmech_rf.DrawnSettings`.

COUNT_SHARE = Fraction(3, 100)
"""Budget split: share of epsilon that a noisy number of records costs."""

BIN_SHARE = Fraction(1, 5)
"""Budget split: share of epsilon that private bins cost together."""

MOST_BINS = 8
"""Bin resolution: largest number of private bins of an attribute."""


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
    n_trees : int
        Number of trees that were drawn.
    rounds : int
        Number of trees that were drawn for what those before them get wrong.
    n_scores : int
        Number of attributes, or of pairs of neighbours, of which drawn trees have
        scores to stand for; zero where none were released.
    """

    n_records: float
    stated: bool
    n_trees: int
    rounds: int = 0
    n_scores: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.n_records < math.inf or self.n_trees < 1:
            raise ValueError(f"what was chosen does not fit together: {self}")


@estimator
class AccountedForest(ForestClassifier):
    """Base of the forests that first ask for the number of records.

    A subclass releases (`_release_model`) and shows its trees (`_shown_trees`).

    Parameters
    ----------
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
        What was released, and from how many records.
    """

    n_records: int | None = None
    private_bins: Sequence[str] | str = ()

    choice_: Choice = field(init=False)
    _experts: Experts = field(init=False)
    _keeps_order = True
    _released: ClassVar[tuple[str, ...]] = ("choice_", "_experts")

    @property
    def _public(self) -> str:  # type: ignore[override]
        cut = ", but for the cut points named above," if len(self.private_bins) else ""
        return (
            f"The schema{cut} and the parameters do not depend on records; all the "
            "rest follows from the releases."
        )

    def _check_parameters(self) -> Fraction:
        check_n_records(self.n_records, "for a noisy count")
        epsilon = super()._check_parameters()
        if self.schema is not None:
            cut = places_to_cut(self.schema, self.private_bins)
            self._check_draws(epsilon, len(cut))
            if self.schema.monotone:
                check_grid(
                    [
                        max(a.size, MOST_BINS + 1) if i in cut else a.size
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
        each = epsilon * (1 - COUNT_SHARE) * BIN_SHARE / n_cut
        relation = Relation(self.neighbours, self.records_per_person)
        try:
            fixed_point_rate(
                each, monotone=True, relation=relation, roundings=MOST_BINS
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

    # ---- what is released ------------------------------------------------

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
        self._reserve(epsilon)
        spent = Fraction(0)
        if self.n_records is None:
            spent = epsilon * COUNT_SHARE
            with self._timed("measurement"):
                noisy = self._session.add_noise(
                    np.array([records.number]), spent, NUMBER
                )
            n_records = max(float(noisy.values[0]), FEWEST_RECORDS)
        else:
            trained = 1 - 1 / HELD_OUT if self.estimate_accuracy else 1.0
            n_records = max(float(self.n_records) * trained, 1.0)
        epsilon -= spent
        places = places_to_cut(self.schema_, self.private_bins)
        if places:
            cost = epsilon * BIN_SHARE
            epsilon -= cost
            with self._timed("measurement"):
                records = self._release_bins(records, places, cost, n_records)
        self._release_model(records, epsilon, n_records)

    def _release_bins(
        self, records: EncodedRecords, places: list[int], cost: Fraction, n: float
    ) -> EncodedRecords:
        """Release the cut points of attributes, of about n records, in equal parts.

        Records come in cells of fine grids (`fine_schema`), and are returned in the
        bins of a new schema.
        """
        read_in, session, cost = self.schema_, self._session, cost / len(places)
        epsilon = epsilon_of_draw(cost, session.currency)
        n_bins = number_of_bins(n, epsilon)
        attributes = list(read_in.attributes)
        for place in places:
            fine = attributes[place]
            grid = np.array(fine.cut_points)
            counts = np.bincount(
                records.codes[:, place], records.multiplicities, minlength=fine.size
            ).astype(np.int64)[: len(grid) + 1]
            what = f"cut points of attribute {fine.name!r}"
            cuts = session.cut(counts, n_bins, n, cost, what)
            attributes[place] = _with_cuts(fine, grid[cuts - 1].tolist())
        self.schema_ = replace(read_in, attributes=tuple(attributes))
        records = in_bins(records, read_in, self.schema_)
        return records.added_up(self.schema_) if self._distinct else records

    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        """Release trees for what is left of epsilon."""
        raise NotImplementedError(f"{type(self).__name__} must define _release_model")

    def _reserve(self, epsilon: Fraction) -> None:
        """Raise before anything is drawn unless all of this fit's budget is left.

        A ledger of rho is charged for every release by itself, which is less in all.
        """
        if self.ledger_.currency == "epsilon":
            self.ledger_.hold(epsilon)
        else:
            self.ledger_.hold(in_rho(epsilon) * ROUNDED_UP, currency="rho")

    def _choose(self, n_records: float, **chosen: Any) -> None:
        """Say what the fit went by, and chose."""
        self.choice_ = Choice(n_records, self.n_records is not None, **chosen)

    def _settle(self) -> None:
        super()._settle()
        self._experts.check(self.schema_.domain_shape, self.schema_.n_classes)

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


GRID_CELLS = 1024
"""Bin resolution: cells of the public grid that private bins are made of."""

BIN_SIGNAL = 1.5
"""Bin resolution: records times epsilon of a draw that so many bins need, relative to
the logarithm of the number of ways to cut."""


def places_to_cut(schema: Schema, names: Sequence[str] | str) -> list[int]:
    """Return the places of the attributes that get private bins, or raise.

    ``"all"`` stands for all numeric attributes with bounds.
    """
    bounded = {
        a.name: place
        for place, a in enumerate(schema.attributes)
        if a.kind == "numeric" and a.lower is not None
    }
    if isinstance(names, str) and names == "all":
        return list(bounded.values())
    if not (
        isinstance(names, Iterable)
        and not isinstance(names, str)
        and all(isinstance(name, str) for name in names)
    ):
        raise TypeError(
            "private_bins must be a sequence of names of attributes, or 'all', got "
            f"{names!r}; pass a tuple"
        )
    known = ", ".join(bounded) or "none"
    otherwise = f"choose from those with bounds, {known}, or give it lower and upper"
    for name in names:
        if name not in bounded:
            raise ParameterError(
                "private_bins",
                "must name numeric attributes of the schema with public bounds",
                repr(name),
                nearest(name, bounded, otherwise),
            )
    return sorted({bounded[name] for name in names})


def fine_schema(schema: Schema, places: Sequence[int]) -> Schema:
    """Return a schema with fine public grids in place of the bins of attributes."""
    attributes = list(schema.attributes)
    for place in places:
        attribute = attributes[place]
        assert attribute.lower is not None
        assert attribute.upper is not None
        grid = fine_grid(attribute.lower, attribute.upper, GRID_CELLS)
        attributes[place] = _with_cuts(attribute, grid)
    return replace(schema, attributes=tuple(attributes))


def number_of_bins(n_records: float, epsilon: Fraction) -> int:
    """Return the largest power of two that a draw with this epsilon pays for.

    Let E be the logarithm of the number of ways to cut, divided by epsilon. The bins of
    the drawn cut hold about E records too many. Bins are doubled while E is at most 1 /
    BIN_SIGNAL of all records.
    """
    bins = 2
    while 2 * bins <= MOST_BINS:
        ways = math.lgamma(GRID_CELLS) - math.lgamma(2 * bins)
        ways -= math.lgamma(GRID_CELLS - 2 * bins + 1)
        if n_records * float(epsilon) < BIN_SIGNAL * ways:
            break
        bins *= 2
    return bins


def _with_cuts(attribute: Attribute, cuts: Sequence[Any]) -> Attribute:
    """Return an attribute with other cut points; names of its bins do not fit them."""
    return replace(attribute, cut_points=tuple(cuts), n_bins=None, categories=())
