"""What is measured for a statistic, at what cost, and what came out; no records."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.checks import magnitude
from mmech.domain.attribute import Attribute
from mmech.domain.discretise import fine_grid, number_text
from mmech.domain.domain import Domain
from mmech.domain.frames import as_column
from mmech.exceptions import ParameterError
from mmech.families.separable import Prefix
from mmech.limits import LIMITS
from mmech.mechanism import MatrixMechanism
from mmech.noise import OF_CURRENCY, Law
from mmech.noise.tails import ErrorLaw, error_law
from mmech.operators.base import QueryMatrix, product_of
from mmech.privacy.neighbours import Relation
from mmech.release import Measurement
from mmech.session import Session
from mmech.storage.codec import storable
from mmech.strategies import optimize
from mmech.tables.statistics import Histogram, Quantiles, Ratio, Statistic


@storable("StatisticPlan")
@dataclass(frozen=True, eq=False)
class StatisticPlan:
    """A statistic, the public facts that it needs, and what it costs; no records.

    Attributes
    ----------
    statistic : Statistic
    domain : Domain
        Its attribute, and those of its groups.
    currency : {"epsilon", "rho"}
    cost : Fraction
        Of this statistic, in its currency.
    relation : Relation
        Who is a neighbour.
    all_count : bool
        Whether every record has a number: none is dropped or has a cell for others.
    """

    statistic: Statistic
    domain: Domain
    currency: str
    cost: Fraction
    relation: Relation
    all_count: bool

    def __post_init__(self) -> None:
        own, attribute = self.statistic, self.domain.attributes[0]
        if attribute.kind != "numeric":
            raise ParameterError(
                "statistics",
                f"must be about numeric attributes, but {attribute.name!r} of the "
                f"{own} is {attribute.kind}",
                remedy="count its values in a table",
            )
        if self.lower >= self.upper:
            low, high = number_text(self.lower), number_text(self.upper)
            raise ParameterError(
                "lower", f"of the {own} must be below {{upper}}", f"{low} and {high}"
            )
        elif not self.uneven and (
            not 1 <= self.n_steps <= own.most
            or not math.isclose(
                self.n_steps * self.step, self.upper - self.lower, rel_tol=1e-9
            )
        ):
            raise ParameterError(
                "step",
                f"of the {own} must cut the range {number_text(self.lower)} to "
                f"{number_text(self.upper)} into 1 to {own.most:,} whole steps",
                number_text(self.step),
            )
        rows = 1 if isinstance(own, Ratio) else self.n_steps + 1
        if rows * self.n_groups > LIMITS.listed_cells:
            raise ParameterError(
                "by",
                f"of the {own} makes {magnitude(self.n_groups)} groups, which are too "
                "many",
                remedy="take fewer attributes",
            )

    @cached_property
    def lower(self) -> float:
        """Public lower bound."""
        return self._bound("lower")

    @cached_property
    def upper(self) -> float:
        """Public upper bound."""
        return self._bound("upper")

    def _bound(self, end: str) -> float:
        given = getattr(self.statistic, end)
        bound = getattr(self.domain.attributes[0], end) if given is None else given
        if bound is None:
            raise ParameterError(
                end,
                f"of the {self.statistic} must be given, because its attribute has no "
                "bounds",
                remedy="take it from public documentation",
            )
        return float(bound)

    @cached_property
    def step(self) -> float:
        """Width of a step of the grid, in units of the attribute."""
        own, width = self.statistic, self.upper - self.lower
        if own.step is not None:
            return own.step
        if self.whole and width <= own.most and not isinstance(own, Histogram):
            return 1.0
        return width / own.steps

    @cached_property
    def n_steps(self) -> int:
        """Number of steps of the grid."""
        if self.uneven:
            return len(self.grid) - 1
        if not self.step > 0:
            return 0
        return round(min((self.upper - self.lower) / self.step, 2.0**53))

    @property
    def whole(self) -> bool:
        """Whether numbers are whole, and stay so where they are clipped."""
        ends = self.lower % 1 == 0 == self.upper % 1
        return bool(self.domain.attributes[0].integer) and ends

    @property
    def half(self) -> float:
        """What rounding changes a number by at most: half a step, or nothing."""
        return 0.0 if self.whole and self.step == 1 else self.step / 2

    @property
    def uneven(self) -> bool:
        """Whether quantiles have a grid that is finer near zero."""
        near = max(self.lower, -self.upper) < self.upper - self.lower
        own = self.statistic
        free = isinstance(own, Quantiles) and own.step is None
        return free and near and self.half > 0

    @cached_property
    def grid(self) -> Floats:
        """The number of every place of quantiles, (g + 1,)."""
        if not self.uneven:
            return self.at(np.arange(self.n_steps + 1) / self.n_steps)
        inner = fine_grid(self.lower, self.upper, self.statistic.steps)
        found = np.array([self.lower, *inner, self.upper])
        return np.unique(np.rint(found) if self.whole else found)

    @cached_property
    def cuts(self) -> Floats:
        """Numbers halfway between two places of quantiles, (g,)."""
        return (self.grid[1:] + self.grid[:-1]) / 2

    def at(self, shares: Floats) -> Floats:
        """Return numbers from shares of the range, which are cut off at 0 and 1."""
        return np.interp(shares, [0.0, 1.0], [self.lower, self.upper])

    @cached_property
    def bins(self) -> Attribute:
        """Bins of a histogram."""
        own: dict[str, Any] = {"lower": self.lower, "upper": self.upper}
        return Attribute.numeric("x", n_bins=self.n_steps, **own)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return product_of(self.domain.shape[1:])

    @property
    def law(self) -> Law:
        """Law of the noise."""
        return OF_CURRENCY[self.currency]

    @property
    def total_is_public(self) -> bool:
        """Whether a ratio has a public number of records: as many in all neighbours."""
        same = self.relation.neighbours == "replace" and isinstance(
            self.statistic, Ratio
        )
        return same and self.all_count and not self.statistic.by

    @property
    def squared_error(self) -> float:
        """Expected squared error of an average number, in records or ranges."""
        return self.statistic.variance(self)

    @property
    def expected(self) -> str:
        """The error to expect, in words."""
        own = self.statistic
        size = self.upper - self.lower if isinstance(own, Ratio) else 1.0
        error = math.sqrt(self.squared_error) * size
        return (
            f"{own}: {self.currency} = {self.cost}, a standard error of {error:.3g}"
            f"{own.of}"
        )

    @cached_property
    def mechanism(self) -> MatrixMechanism:
        """What quantiles are reconstructed with."""
        return self._mechanism()

    def _mechanism(self, session: Session | None = None) -> MatrixMechanism:
        """Return what measures cumulative counts, paid for by a session if given."""
        workload = Prefix(self.n_steps + 1)
        strategy = _cumulative(self.n_steps + 1, self.law.privacy)
        options: dict[str, Any] = {self.currency: self.cost, **asdict(self.relation)}
        if session is None:
            return MatrixMechanism(workload, strategy, **options)
        return session.mechanism(workload, strategy, **options)

    def measure(self, session: Session, codes: NDArray[Any]) -> MeasuredStatistic:
        """Measure it from the codes of its groups, and places in the last column.

        Places beyond the grid are those of records without a number. Sensitive.
        """
        codes = codes[codes[:, -1] <= self.n_steps].astype(np.int64)
        groups = np.zeros(len(codes), np.int64)
        for j, size in enumerate(self.domain.shape[1:]):
            groups = groups * size + codes[:, j]
        values = self.statistic.values(self, codes[:, -1], groups)
        what = f"{self.statistic} of {self.n_groups} groups"
        if isinstance(self.statistic, Quantiles):
            found = session.measure(self._mechanism(session), values, what)
        else:
            own: Any = {"unit": self.unit, "currency": self.currency}
            found = session.add_noise(values, self.cost, what, **own)
        known = len(codes) if self.total_is_public else None
        return MeasuredStatistic(self, found, known)

    def check_noise(self) -> None:
        """Raise where the noise does not fit into 64 bits."""
        if isinstance(self.statistic, Quantiles):
            _ = self.mechanism.planned
        else:
            _ = self.parameter

    @property
    def parameter(self) -> Fraction:
        """Exact parameter of the noise, but of quantiles."""
        size = Fraction(self.relation.factor * self.unit) ** self.law.power
        return self.law.parameter(size, self.cost)

    @property
    def unit(self) -> int:
        """How much one record changes what is measured."""
        return self.n_steps if isinstance(self.statistic, Ratio) else 1

    def with_note(
        self, name: str, found: Floats, low: Floats, high: Floats
    ) -> dict[str, NDArray[Any]]:
        """Return values and intervals, and what to say.

        Where an interval is the whole range, nothing is known of a value.
        """
        ends = low <= self.lower, high >= self.upper
        empty, some = np.logical_and(*ends), np.logical_or(*ends)
        words = "too few records for the noise: any value within the bounds is possible"
        note = "the interval includes half a step of rounding" if self.half else ""
        both = [note] if note else []
        if isinstance(self.statistic, Quantiles):  # others have no number at a bound
            both.append("numbers beyond a bound count as the bound")
        return {
            name: np.where(empty, np.nan, found),
            "lower": low,
            "upper": high,
            "note": np.select([empty, some], [words, "; ".join(both)], note),
        }


@lru_cache(maxsize=16)
def _cumulative(n: int, privacy: str) -> QueryMatrix:
    """Return what measures n cumulative counts, at any cost."""
    template = {"pure": "hierarchy", "zcdp": "spectral"}[privacy]
    return optimize(Prefix(n), template=template, privacy=privacy).strategy


@storable("MeasuredStatistic")
@dataclass(frozen=True, eq=False)
class MeasuredStatistic:
    """Noisy numbers of a statistic; it may be published.

    Attributes
    ----------
    plan : StatisticPlan
    measurement : Measurement
    n_records : int or None
        Number of records, where it is public.
    """

    plan: StatisticPlan
    measurement: Measurement
    n_records: int | None = None

    @property
    def distances(self) -> tuple[Floats, Floats]:
        """Noisy distances A and B from both bounds, (k,) each."""
        noisy = self.measurement.values.astype(np.float64)
        if self.n_records is None:
            return noisy[0], noisy[1]
        total = float(self.plan.n_steps * self.n_records)
        return (total + noisy) / 2, (total - noisy) / 2

    def law(self, *weights: float) -> ErrorLaw:
        """Return the law of the error of a weighted sum of rows, or of A and B."""
        if self.n_records is not None:  # one noise is half of both, with two signs
            weights = ((weights[0] - weights[1]) / 2,)
        plan, own = self.plan, np.array([weight for weight in weights if weight])
        t, rows = plan.parameter, np.ones(own.size)
        found = error_law(
            plan.law, own, rows, rows * plan.law.variance(t), rows * float(t)
        )
        # Noise takes steps, which `error_law` fills by a uniform error of one step.
        return replace(found, step=float(np.abs(own).max()))

    def columns(self, level: float) -> dict[str, NDArray[Any]]:
        """Return a column per attribute of the groups, and those of the statistic."""
        plan = self.plan
        values = plan.statistic.columns(self, level)
        rows = len(values["lower"]) // plan.n_groups
        shape = plan.domain.shape[1:]
        at = np.repeat(
            np.indices(shape).reshape(len(shape), plan.n_groups), rows, axis=1
        )
        groups = {
            attribute.name: as_column(attribute.labels, own)
            for attribute, own in zip(plan.domain.attributes[1:], at, strict=True)
        }
        return groups | values

    @property
    def words(self) -> str:
        """What becomes of numbers, in a sentence."""
        own = self.plan
        low, high, step = map(number_text, (own.lower, own.upper, own.step))
        cut = "cut into" if isinstance(own.statistic, Histogram) else "rounded to"
        steps = f"steps of {step}"
        if own.uneven:
            steps = f"{own.n_steps} steps that are finer near zero"
        return (
            f"{own.statistic}: numbers are clipped to the range {low} to {high}, and "
            f"{cut} {steps}."
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The same for machines."""
        own, entry = self.plan, self.measurement.entry
        given = {"statistic": str(own.statistic), "by": list(own.statistic.by)}
        step = None if own.uneven else own.step
        grid = {"lower": own.lower, "upper": own.upper, "step": step}
        paid = {"cost": str(own.cost), "noise": entry.kind}
        return {**given, **grid, **paid, "sensitivity": entry.sensitivity}
