"""What is measured for statistics: plans, parts of the budget, and noisy numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.checks import check_choice, check_epsilon, magnitude, number_of
from mmech.domain.attribute import Attribute
from mmech.domain.dates import day_values
from mmech.domain.discretise import fine_grid, number_text
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.domain.values import number_values, read_once
from mmech.exceptions import ParameterError
from mmech.families.separable import Prefix
from mmech.limits import LIMITS
from mmech.marginals.counts import Counts
from mmech.mechanism import MatrixMechanism
from mmech.noise import OF_CURRENCY, Law
from mmech.noise.system import Rng
from mmech.noise.tails import Tails
from mmech.operators.base import QueryMatrix, product_of
from mmech.privacy.ledger import PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.release import Measurement, ledger_or_own
from mmech.session import Session
from mmech.storage.codec import storable
from mmech.strategies import optimize
from mmech.tables.columns import OF_STATISTICS
from mmech.tables.field import FLAT, VARIANCE_FLOOR, Measured, Solution
from mmech.tables.intervals import Intervals
from mmech.tables.levels import chain_of
from mmech.tables.rounding import added_up, divided
from mmech.tables.statistics import (
    FINEST,
    CountsByTable,
    Histogram,
    Mean,
    Quantiles,
    Ratio,
    StandardDeviation,
    Statistic,
    Sum,
    TableCounts,
)

SHARES = 1000
"""What the least part of a budget is a part of."""

NODES = np.geomspace(1 / SHARES, 1, 13)
"""Parts of a budget at which errors are computed, and interpolated between."""

TINY, HUGE = 1e-300, 1e30
"""Squared errors in place of zero, and of noise that is too large for whole numbers."""


# ---- plans -----------------------------------------------------------------------


@storable("StatisticPlan", version=3)
@dataclass(frozen=True, eq=False)
class StatisticPlan:
    """What is measured for a statistic, at what cost; holds no records.

    Attributes
    ----------
    statistic : Statistic
    domain : Domain
        Its attribute, and those whose levels are its groups.
    currency : {"epsilon", "rho"}
    cost : Fraction
        Of this statistic, in its currency.
    relation : Relation
        Who is a neighbour.
    all_count : bool
        Whether every record has a number: none is dropped or has a cell for others.
    also : tuple of Statistic, default=()
        Others that are measured with it: means beside sums, and both by ever larger
        groups, which add up.
    """

    statistic: Statistic
    domain: Domain
    currency: str
    cost: Fraction
    relation: Relation
    all_count: bool
    also: tuple[Statistic, ...] = ()

    def __post_init__(self) -> None:
        statistic, attribute = self.statistic, self.domain.attributes[0]
        dated = self.is_date and isinstance(statistic, (Mean, Quantiles))
        if attribute.kind != "numeric" and not dated:
            raise ParameterError(
                "statistics",
                "must be about numeric attributes, or means and quantiles of dates, "
                f"but {attribute.name!r} of the {statistic} is {attribute.kind}",
                remedy="count its values in a table",
            )
        if self.lower >= self.upper:
            low, high = number_text(self.lower), number_text(self.upper)
            raise ParameterError(
                "lower",
                f"of the {statistic} must be below {{upper}}",
                f"{low} and {high}",
            )
        width = self.upper - self.lower
        n = round(min(width / self.step, 2.0**53)) if self.step > 0 else 0
        if statistic.step is not None and (
            not 1 <= n <= statistic.most
            or not math.isclose(n * self.step, width, rel_tol=1e-9)
        ):
            raise ParameterError(
                "step",
                f"of the {statistic} must cut the range {number_text(self.lower)} to "
                f"{number_text(self.upper)} into 1 to {statistic.most:,} whole steps",
                number_text(self.step),
            )
        rows = 1 if isinstance(statistic, Ratio) else self.n_steps + 1
        if rows * self.n_groups > LIMITS.listed_cells:
            raise ParameterError(
                "by",
                f"of the {statistic} makes {magnitude(self.n_groups)} groups, which "
                "are too many",
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
        if self.is_date:
            if given is not None:
                raise ParameterError(
                    end,
                    f"of the {self.statistic} must be left out, because its attribute "
                    "has dates as bounds",
                    given,
                )
            bound = np.datetime64(bound, "D").astype(np.int64)
        if bound is None:
            raise ParameterError(
                end,
                f"of the {self.statistic} must be given, because its attribute has no "
                "bounds",
                remedy="take it from public documentation",
            )
        return float(bound)

    @property
    def is_date(self) -> bool:
        """Whether numbers are days since 1970-01-01, which are published as dates."""
        return self.domain.attributes[0].kind == "date"

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """All statistics that are made of what is measured."""
        return (self.statistic, *self.also)

    @property
    def title(self) -> str:
        """What all of them are called."""
        return " and ".join(map(str, self.statistics))

    @cached_property
    def shared_step(self) -> float:
        """Width of a step of the grid that sums and means share."""
        statistic, width = self.statistic, self.upper - self.lower
        if statistic.step is not None:
            return statistic.step
        binned = isinstance(statistic, Histogram)
        if self.whole and width <= statistic.most and not binned:
            return 1.0
        return width / statistic.steps

    @property
    def largest(self) -> float:
        """The largest number in magnitude."""
        return max(abs(self.lower), abs(self.upper))

    def agrees_with(self, other: StatisticPlan) -> bool:
        """Return whether sums and means are about the same numbers and groups."""
        return self._numbers == other._numbers and {*self.by} == {*other.by}

    def adds_up_to(self, other: StatisticPlan) -> bool:
        """Return whether others are by larger groups, of the largest of these.

        Sums always add up. Others are apart where their numbers of rows differ, the
        number of records is public, or shares are given.
        """
        each = self.statistics, other.statistics
        sums = all(any(type(one) is Sum for one in some) for some in each)
        shares = any(one.share for some in each for one in some)
        apart = self.squared != other.squared or other.total_is_public or shares
        if self._numbers != other._numbers or (apart and not sums):
            return False
        owner, order = self.domain.levels, [*self.domain.levels]
        largest = {owner[name]: order.index(name) for name in self.statistics[-1].by}
        made_of = {*other.names} <= {*order} and all(
            order.index(name) <= largest.get(owner[name], -1) for name in other.names
        )
        names = {*self.names, *other.names}
        chain = chain_of(self.domain, [name for name in order if name in names])
        return made_of and (chain is None or not chain.beside)  # one tree at levels

    @property
    def _numbers(self) -> Any:
        """What sums and means that agree have in common; nothing else has it."""
        if not isinstance(self.statistic, Ratio):
            return self
        return self.statistic.name, self.lower, self.upper, self.shared_step

    @property
    def are_sums(self) -> bool:
        """Whether sums are asked for only, with steps that need no lower bound."""
        step = self.statistic.step
        fits = step is None or self.largest <= FINEST * step
        return fits and all(type(each) is Sum for each in self.statistics)

    @cached_property
    def alone(self) -> bool:
        """Whether sums have rows of their own, since no mean shares them."""
        return self.are_sums and not self.total_is_public

    @cached_property
    def squared(self) -> bool:
        """Whether squares are measured, for a deviation."""
        return any(isinstance(each, StandardDeviation) for each in self.statistics)

    @cached_property
    def step(self) -> float:
        """Width of a step of the grid, in units of the attribute."""
        if not self.alone or self.statistic.step is not None:
            return self.shared_step
        finest = self.largest / FINEST
        return max(finest, 1.0) if self.whole else finest

    @property
    def start(self) -> float:
        """The number at the first place, or zero where a sum has its own row."""
        return 0.0 if self.alone else self.lower

    @cached_property
    def first(self) -> int:
        """Steps from `start` to the lower bound."""
        return round((self.lower - self.start) / self.step)

    @cached_property
    def n_steps(self) -> int:
        """Number of steps of the grid."""
        if self.uneven:
            return len(self.grid) - 1
        return round((self.upper - self.start) / self.step) - self.first

    @property
    def whole(self) -> bool:
        """Whether numbers are whole, and stay so where they are clipped."""
        ends = self.lower % 1 == 0 == self.upper % 1
        return (self.is_date or bool(self.domain.attributes[0].integer)) and ends

    @property
    def half(self) -> float:
        """What rounding changes a number by at most: half a step, or nothing."""
        return 0.0 if self.whole and self.step == 1 else self.step / 2

    @property
    def uneven(self) -> bool:
        """Whether quantiles have a grid that is finer near zero."""
        near = max(self.lower, -self.upper) < self.upper - self.lower
        free = isinstance(self.statistic, Quantiles) and self.statistic.step is None
        return free and not self.is_date and near and self.half > 0

    @cached_property
    def grid(self) -> Floats:
        """The number of every place of quantiles, (g + 1,)."""
        if not self.uneven:
            return self.at(np.arange(self.n_steps + 1) / self.n_steps)
        inner = fine_grid(self.lower, self.upper, self.statistic.steps)
        numbers = np.array([self.lower, *inner, self.upper])
        return np.unique(np.rint(numbers) if self.whole else numbers)

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
        bounds: dict[str, Any] = {"lower": self.lower, "upper": self.upper}
        return Attribute.numeric("x", n_bins=self.n_steps, **bounds)

    @cached_property
    def levels(self) -> Domain:
        """An attribute for each level of the domain."""
        return self.domain.by_level()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All levels that groups are made of, in the order of the domain."""
        used = {name for each in self.statistics for name in each.by}
        return tuple(name for name in self.levels.names[1:] if name in used)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of nodes of each of these levels."""
        size = dict(zip(self.levels.names, self.levels.shape, strict=True))
        return tuple(size[name] for name in self.names)

    def axes(self, statistic: Statistic) -> Subset:
        """Return which of these levels make the groups of a statistic."""
        return tuple(i for i, name in enumerate(self.names) if name in statistic.by)

    @cached_property
    def tables(self) -> tuple[Subset, ...]:
        """The levels of what is measured, smallest groups first."""
        return tuple(dict.fromkeys(map(self.axes, self.statistics)))

    @property
    def by(self) -> tuple[str, ...]:
        """The levels of the smallest groups, in the order of the domain."""
        return tuple(self.names[i] for i in self.tables[0])

    def cells(self, table: Subset) -> int:
        """Return the number of groups by some levels."""
        return product_of(self.sizes[i] for i in table)

    @property
    def n_groups(self) -> int:
        """Number of the smallest groups."""
        return self.cells(self.tables[0])

    @cached_property
    def field(self) -> Intervals:
        """Errors of a measured row, by all groups; those of larger ones add up."""
        noise = float(self.law.variance(self.parameter)), float(self.parameter)
        measured = [
            Measured(t, max(noise[0], VARIANCE_FLOOR), noise[1]) for t in self.tables
        ]
        chain = chain_of(self.domain, self.names) or FLAT
        return Intervals.of(self.law, self.sizes, measured, chain)

    @property
    def law(self) -> Law:
        """Law of the noise."""
        return OF_CURRENCY[self.currency]

    @property
    def has_numbers(self) -> bool:
        """Whether every record that tables count has a number."""
        return self.domain.attributes[0].other_code is None

    @property
    def total_is_public(self) -> bool:
        """Whether a ratio has a public number of records: as many in all neighbours."""
        same = self.relation.neighbours == "replace" and isinstance(
            self.statistic, Ratio
        )
        return same and self.all_count and not self.statistic.by and not self.squared

    def of_distances(self, above: float, below: float) -> tuple[float, ...]:
        """Return weights of what is measured, for a weighted sum of A and B."""
        if self.squared:  # whose second sum is in both
            g = self.n_steps
            return above / g, (above + below) / (2 * g), below / g
        # One noise is half of both, with two signs, where their sum is public.
        return ((above - below) / 2,) if self.total_is_public else (above, below)

    def error_law(self, table: Subset, *weights: float) -> Tails:
        """Return the laws of errors of a weighted sum of measured rows, by group."""
        return cast("Tails", self.field.law(table)).weighted(*weights)

    def errors(
        self, table: Subset, level: float, *weights: float
    ) -> tuple[Floats, Floats]:
        """Return standard errors and half widths of groups, or one of all of them."""
        places: Any = self.field.places_of(table) if len(self.tables) > 1 else [0]
        return self.error_law(table, *weights).at(level, places)

    @property
    def per_record(self) -> tuple[float, ...]:
        """Weights of measured rows for a number of records; none where none is held."""
        if self.alone or self.total_is_public:
            return ()
        return self.of_distances(1 / self.n_steps, 1 / self.n_steps)

    @property
    def signs(self) -> tuple[float, float]:
        """The least and the largest sum of any number of records."""
        least = 0.0 if self.lower >= 0 else -math.inf
        return least, 0.0 if self.upper <= 0 else math.inf

    @property
    def squared_error(self) -> float:
        """Expected squared errors of average numbers of all statistics, in records."""
        each = self.statistics
        return sum(one.squared_error(self) / one.size(self) ** 2 for one in each)

    @property
    def expected(self) -> str:
        """The errors to expect, in words."""
        paid, lines = f"{self.currency} = {self.cost}", []
        for one in self.statistics:
            error = math.sqrt(one.squared_error(self))
            words = f"{one}: {paid}, a standard error of {error:.3g} ({one.unit})"
            if one.value == "sum":
                least = math.ceil(10 * error / one.size(self))
                words += (
                    ", which is more than a tenth of the sum in every group of fewer "
                    f"than {least:,} records"
                )
            lines.append(words)
            paid = "from the same noisy numbers"
        return "; ".join(lines)

    @cached_property
    def mechanism(self) -> MatrixMechanism:
        """What quantiles are reconstructed with."""
        return self._mechanism()

    def _mechanism(self, **paid: Any) -> MatrixMechanism:
        """Return what measures cumulative counts."""
        strategy = _cumulative(self.n_steps + 1, self.law.privacy)
        options: dict[str, Any] = {self.currency: self.cost, **asdict(self.relation)}
        return MatrixMechanism(Prefix(self.n_steps + 1), strategy, **options, **paid)

    def measure(
        self, session: Session, codes: NDArray[Any]
    ) -> tuple[Measurement, int | None]:
        """Measure it from the codes of its groups, and places in the last column.

        Places beyond the grid are those of records without a number. Sensitive. Returns
        the number of records, too, where it is public.
        """
        codes = codes[codes[:, -1] <= self.n_steps].astype(np.int64)
        groups = np.zeros(len(codes), np.int64)
        for i in self.tables[0]:
            place = self.statistic.by.index(self.names[i])
            groups = groups * self.sizes[i] + codes[:, place]
        values = self.statistic.values(self, codes[:, -1], groups)
        if len(self.tables) > 1:
            above = [self.above(table) for table in self.tables]
            values = np.stack(
                [np.concatenate([added_up(row, a) for a in above]) for row in values]
            )
        number = sum(map(self.cells, self.tables))
        what = f"{self.title} of {number_of(number, 'group')}"
        if isinstance(self.statistic, Quantiles):
            paid = {"ledger": session.ledger, "insecure_rng": session.noise}
            measured = session.measure(self._mechanism(**paid), values, what)
        else:
            price: Any = {"currency": self.currency, "times": len(self.tables)}
            measured = session.add_noise(values, self.cost, what, self.unit, **price)
        return measured, len(codes) if self.total_is_public else None

    def above(self, table: Subset) -> Integers:
        """Return the group by some levels that holds each of the smallest ones."""
        return self.field.cells_above(self.tables[0], table)

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
        return self.law.parameter(size * len(self.tables), self.cost)

    @property
    def unit(self) -> int:
        """How much one record changes what is measured, by the same levels."""
        if self.alone:
            return max(abs(self.first), abs(self.first + self.n_steps))
        if not isinstance(self.statistic, Ratio):
            return 1
        return self.n_steps**2 if self.squared else self.n_steps


@lru_cache(maxsize=16)
def _cumulative(n: int, privacy: str) -> QueryMatrix:
    """Return what measures n cumulative counts, at any cost."""
    template = {"pure": "hierarchy", "zcdp": "spectral"}[privacy]
    return optimize(Prefix(n), template=template, privacy=privacy).strategy


# ---- noisy numbers ---------------------------------------------------------------


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

    @cached_property
    def estimate(self) -> Solution:
        """Unbiased rows of all groups, where they have several tables."""
        return self.plan.field.estimate(self.measurement.values.T)

    def rows(self, table: Subset) -> Floats:
        """Return unbiased numbers of groups for all that is measured, (rows, k)."""
        if len(self.plan.tables) > 1:
            return self.estimate.table(table).T
        return np.atleast_2d(self.measurement.values.astype(np.float64))

    def weighted(self, table: Subset, a: float, b: float) -> Floats:
        """Return a A + b B, of the distances A and B from both bounds, (k,)."""
        weights = np.array(self.plan.of_distances(a, b))
        known = (a + b) / 2 * self.plan.n_steps * (self.n_records or 0)
        return np.asarray(weights @ self.rows(table) + known)

    @property
    def counted(self) -> Iterator[tuple[Subset, Any, float]]:
        """Yield what is measured of numbers of records, by table, and the variance."""
        plan = self.plan
        if isinstance(plan.statistic, Ratio) and plan.per_record:
            weights = np.array(plan.per_record)
            variance = plan.law.variance(plan.parameter) * float(weights @ weights)
            stops = np.cumsum([plan.cells(table) for table in plan.tables])[:-1]
            numbers = np.split(weights @ self.measurement.values, stops)
            yield from zip(plan.tables, numbers, repeat(variance))

    def numbers(self, table: Subset, counts: TableCounts) -> Floats:
        """Return numbers of records, (k,), by what tables count, too."""
        plan = self.plan
        total = self.weighted(table, 1 / plan.n_steps, 1 / plan.n_steps)
        if plan.per_record and counts.estimate is not None:
            ours = np.square(plan.per_record).sum() * plan.field.spread(table)
            theirs = max(counts.variance, VARIANCE_FLOOR)
            total += ours / (theirs + ours) * (counts.estimate - total)
        return total

    @cached_property
    def sums(self) -> dict[Subset, Integers]:
        """Whole sums by themselves, in steps, which add up."""
        whole: dict[Subset, Integers] = {}
        low, high = self.plan.signs
        for table in reversed(self.plan.tables):
            self._settle(whole, table, self.rows(table)[0], low, high)
        return whole

    def means(self, counts: CountsByTable) -> dict[Subset, tuple[Integers, Floats]]:
        """Return numbers of records as published, and means as shares of the range.

        The sums and the numbers of groups add up to those of larger ones.
        """
        plan = self.plan
        numbers, places = dict[Subset, Integers](), dict[Subset, Integers]()
        means: dict[Subset, tuple[Integers, Floats]] = {}
        for k, table in reversed([*enumerate(plan.tables)]):
            total = self.numbers(table, counts[table])
            fixed: Any = 0, np.inf
            for finer in plan.tables[: k + 1]:  # tables that count them agree
                published = counts[finer].published
                if published is not None:
                    above = plan.field.cells_above(finer, table)
                    fixed = (added_up(published, above),) * 2
            number = self._settle(numbers, table, total, *fixed)
            some = np.where(total > 0, total, np.inf)
            difference = self.weighted(table, 1, -1) / (2 * plan.n_steps * some)
            share = np.clip(0.5 + difference, 0, 1)
            if len(plan.tables) > 1:
                most = plan.n_steps * number
                whole = self._settle(places, table, share * most, 0, most)
                share = np.where(most > 0, whole / np.maximum(most, 1), share)
            means[table] = number, share
        return means

    def _settle(
        self,
        whole: dict[Subset, Integers],
        table: Subset,
        values: Floats,
        low: Any,
        high: Any,
    ) -> Integers:
        """Make numbers of groups whole, so that they add up to those of larger ones."""
        made = np.rint(np.clip(values, low, high)).astype(np.int64)
        if whole:
            above, sums = next(reversed(whole.items()))
            parents = self.plan.field.cells_above(table, above)
            made = divided(values, parents, sums, low, high)
        whole[table] = made
        return made

    def columns(
        self,
        level: float,
        counts: Mapping[Subset, TableCounts] = {},
        statistic: Statistic | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Return a column per attribute of the groups, and those of a statistic."""
        plan, statistic = self.plan, statistic or self.plan.statistic
        of_all = {table: counts.get(table, TableCounts()) for table in plan.tables}
        values = statistic.columns(self, level, of_all)
        axes = plan.axes(statistic)
        shape = [plan.sizes[i] for i in axes]
        rows = np.arange(len(values["lower"])).reshape(*shape, -1)
        turned = [axes.index(plan.names.index(name)) for name in statistic.by]
        rows = rows.transpose(*turned, -1)
        levels = dict(zip(plan.levels.names, plan.levels.attributes, strict=True))
        groups: dict[str, NDArray[Any]] = {}
        for name, nodes in zip(statistic.by, np.indices(rows.shape), strict=False):
            groups |= levels[name]._shown(nodes.ravel())
        return groups | {name: each[rows.ravel()] for name, each in values.items()}

    @property
    def _range(self) -> tuple[str, str, str]:
        """Bounds and step as text."""
        plan = self.plan
        low, high, step = map(number_text, (plan.lower, plan.upper, plan.step))
        if plan.is_date:
            low, high = _texts([plan.lower, plan.upper]).tolist()
        return low, high, step

    @property
    def words(self) -> str:
        """What becomes of numbers, in a sentence."""
        plan, (low, high, step) = self.plan, self._range
        cut = "cut into" if isinstance(plan.statistic, Histogram) else "rounded to"
        steps = f"steps of {step}" + " days" * plan.is_date
        if plan.uneven:
            steps = f"{plan.n_steps} steps that are finer near zero"
        adding = "; sums of larger groups are those of the groups in them"
        return (
            f"{plan.title}: numbers are clipped to the range {low} to {high}, and "
            f"{cut} {steps}{adding * (len(plan.tables) > 1)}."
        )

    @property
    def facts(self) -> list[dict[str, Any]]:
        """The same for machines, of every statistic."""
        plan, entry = self.plan, self.measurement.entry
        low, high = self._range[:2] if plan.is_date else (plan.lower, plan.upper)
        facts = {
            "lower": low,
            "upper": high,
            "step": None if plan.uneven else plan.step,
            "cost": str(plan.cost),
            "noise": entry.kind,
            "sensitivity": entry.sensitivity,
        }
        return [
            {
                "statistic": str(one),
                "by": list(one.by),
                **facts,
                "measured_with": [str(o) for o in plan.statistics if o is not one],
            }
            for one in plan.statistics
        ]

    def with_note(
        self,
        name: str,
        numbers: Floats,
        low: Floats,
        high: Floats,
        bounds: tuple[float, float] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Return values and intervals, and what to say.

        Where an interval is the whole range, nothing is known of a value.
        """
        plan = self.plan
        least, most = bounds or (plan.lower, plan.upper)
        ends = low <= least, high >= most
        empty, some = np.logical_and(*ends), np.logical_or(*ends)
        words = "too few records for the noise: any value within the bounds is possible"
        note = "the interval includes half a step of rounding" if plan.half else ""
        both = [note] if note else []
        if isinstance(plan.statistic, Quantiles):  # others have no number at a bound
            both.append("numbers beyond a bound count as the bound")
        values: list[NDArray[Any]] = [np.where(empty, np.nan, numbers), low, high]
        if plan.is_date:
            days = np.rint(numbers), np.floor(low), np.ceil(high)
            values = [*map(_texts, days)]
            values[0] = np.where(empty, "", values[0])
        return {
            **dict(zip((name, "lower", "upper"), values, strict=True)),
            "note": np.select([empty, some], [words, "; ".join(both)], note),
        }


def _texts(days: Any) -> NDArray[Any]:
    """Return dates as text, such as "2026-01-31", from days since 1970-01-01."""
    return np.datetime_as_string(np.asarray(days, np.int64).astype("M8[D]"))


# ---- parts of the budget ---------------------------------------------------------


@dataclass(frozen=True, repr=False)
class ReadDomain(Domain):
    """A domain whose codes are followed by the places of numbers, one per statistic.

    Parameters
    ----------
    plans : tuple of StatisticPlan
        Attributes of the domain in all of them.
    """

    plans: tuple[StatisticPlan, ...] = ()

    def _encode(
        self,
        X: Any,
        *,
        narrow: bool,
        first_row: int = 0,
        **policies: str,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        codes, keep = super()._encode(X, narrow=narrow, first_row=first_row, **policies)
        table = read_table(X)
        columns_of = list(codes.T)
        for plan in self.plans:
            i = self.names.index(plan.statistic.name)
            (where,), _ = table.locate([plan.statistic.name], self._noun)
            if plan.is_date:  # a period by its name stands at its first day
                days, _, named = day_values(table.column(where))
                first = self.attributes[i]._first_days()
                starts = first.take(codes[:, i], mode="clip")  # records to drop, too
                numbers = np.where(named, starts, days)
            else:
                column = table.read(where)
                numbers = read_once(column, lambda values: number_values(values)[0])
            none = np.isnan(numbers) | (codes[:, i] == self.attributes[i].other_code)
            places = plan.statistic.places(plan, np.where(none, 0.0, numbers))
            columns_of.append(np.where(none, plan.n_steps + 1, places))
        return np.stack(columns_of).T, keep

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of every code."""
        return (*self.shape, *(plan.n_steps + 2 for plan in self.plans))

    def measure(
        self, records: Counts, plan: Any, ledger: PrivacyLedger | None, noise: Rng
    ) -> Iterator[MeasuredStatistic]:
        """Return what measures the statistics, one after another; not the tables.

        This domain has encoded the records. A ledger that does not cover statistics and
        tables is charged for neither.
        """
        held = ledger_or_own(ledger, self.plans[0].law, plan.relation)
        held.check_relation(plan.relation)
        held.check(plan.total_cost, currency=plan.currency)
        session, codes = Session(held, noise), records._codes

        def rows(by: Any, j: int) -> NDArray[Any]:
            distinct = np.column_stack([self.at_levels(codes, by), codes[:, j]])
            return np.repeat(distinct, records._multiplicities, axis=0)

        return (
            MeasuredStatistic(p, *p.measure(session, rows(p.statistic.by, j)))
            for j, p in enumerate(self.plans, len(self.names))
        )


def listed(statistics: Any) -> list[Statistic]:
    """Return statistics as a list, or raise."""
    several = list(statistics) if isinstance(statistics, Iterable) else [statistics]
    for statistic in several:
        if not isinstance(statistic, Statistic):
            raise TypeError(
                "statistics must be Mean, Sum, StandardDeviation, Histogram or "
                f"Quantiles, got {type(statistic).__name__}"
            )
    return several


def plan_statistics(
    statistics: Sequence[Statistic], domain: Domain, tables: Any, share: Any = None
) -> tuple[ReadDomain, Fraction]:
    """Check statistics, and split the budget between them and count tables.

    Shares make the sum of expected squared errors least: over all tables, of an average
    cell, and all statistics, of an average number in records. Sums and means of one
    number by the same groups, with the same bounds and steps, are one measurement.

    Parameters
    ----------
    statistics : sequence of Statistic
    domain : Domain
    tables : TablePlan
        Of the count tables, with the whole budget.
    share : float, str or Fraction, default=None
        What part of the budget these have; ``None`` is the best one.

    Returns
    -------
    ReadDomain
        What reads all records, with a plan of every statistic.
    Fraction
        What is left for the tables.
    """
    currency, cost, relation = tables.currency, tables.cost, tables.relation
    plans: list[StatisticPlan] = []
    for statistic in statistics:
        names = (statistic.name, *statistic.by)
        for name in names:
            check_choice(name, f"an attribute of the {statistic}", tuple(domain.levels))
        owners = [domain.levels[name] for name in names]
        taken = {c for a in domain.attributes if a.name in owners for c in a.columns}
        if len(set(owners)) < len(owners) or OF_STATISTICS & {*names, *taken}:
            raise ParameterError(
                "by",
                f"of the {statistic} must name other attributes, each once, and none "
                "that is called like a column of the statistic",
                list(statistic.by),
            )
        part = domain.select(owners)
        all_count = not tables.drops and part.attributes[0].other_code is None
        plans.append(
            StatisticPlan(statistic, part, currency, cost, relation, all_count)
        )
    if len({str(statistic) for statistic in statistics}) < len(statistics):
        raise ParameterError("statistics", "must name each statistic once")
    together = _that_add_up(plans)
    costs = _costs([*together, tables], share, cost)
    paid = [replace(plan, cost=c) for plan, c in zip(together, costs, strict=False)]
    for plan in paid:
        plan.check_noise()
    used = {name for plan in paid for name in plan.domain.names}
    used -= {*tables.domain.names}
    added = [attribute for attribute in domain.attributes if attribute.name in used]
    reading = ReadDomain(
        (*tables.domain.attributes, *added),
        name=domain.name,
        read_from_records=domain.read_from_records,
        plans=tuple(paid),
    )
    return reading, costs[-1]


def _that_add_up(plans: Sequence[StatisticPlan]) -> list[StatisticPlan]:
    """Return plans with those together that one measurement tells: they add up."""
    order = [plan.statistic for plan in plans]
    for joined in (StatisticPlan.agrees_with, StatisticPlan.adds_up_to):
        together: list[StatisticPlan] = []
        for plan in sorted(plans, key=lambda plan: -plan.n_groups):
            for i, finer in enumerate(together):
                if joined(finer, plan):
                    together[i] = replace(finer, also=(*finer.also, *plan.statistics))
                    break
            else:
                together.append(plan)
        plans = together
    return sorted(plans, key=lambda plan: min(map(order.index, plan.statistics)))


def _costs(plans: Sequence[Any], share: Any, cost: Fraction) -> list[Fraction]:
    """Return the costs of statistics and, at the end, of tables.

    What has no share of its own gets the best part of what is left.
    """
    shares = [sum(s.share or Fraction() for s in p.statistics) for p in plans[:-1]]
    shares.append(Fraction() if share is None else check_epsilon(share, "share"))
    free, left = [i for i, part in enumerate(shares) if not part], 1 - sum(shares)
    if left < 0 or (left == 0) != (not free):
        raise ParameterError(
            "share",
            "must add up to 1 over the tables and all that is measured for statistics, "
            "or to less where some have none",
            str(1 - left),
            'write fractions as text, such as "1/3"',
        )
    if free:
        at = [replace(plans[i], cost=cost * left) for i in free]
        for i, weight in zip(free, _weights(at), strict=True):
            shares[i] = left * Fraction(weight, SHARES)
    return [cost * part for part in shares]


def unequal(plans: Sequence[StatisticPlan]) -> list[str]:
    """Say which sums and means are not made of the same noisy numbers, but could be."""
    alike: dict[Any, dict[int, str]] = {}
    for i, plan in enumerate(plans):
        for one in plan.statistics:
            keys: list[Any] = [one.name] if type(one) is Sum else []
            if isinstance(one, Ratio):
                keys.append((one.name, frozenset(one.by)))
            for key in keys:
                alike.setdefault(key, {}).setdefault(i, str(one))
    totals = "each is measured by itself, so that their totals need not agree"
    groups = "bounds or steps differ, so that each is measured by itself, and they need"
    return [
        f"{', '.join(titles.values())}: "
        + (totals if isinstance(key, str) else f"{groups} not agree")
        for key, titles in alike.items()
        if len(titles) > 1
    ]


def _weights(plans: Sequence[Any]) -> list[int]:
    """Return parts of the budget in `SHARES`, each at least one.

    Errors fall with the budget, the less the more of it there is: so each part goes to
    the plan that gains most by it. Noise is whole, and its variance is no power of the
    budget: the law of each share says what is gained.
    """
    from scipy.interpolate import PchipInterpolator

    gains: list[Any] = []
    for plan in plans:
        errors = np.log([_squared(plan, share) for share in NODES])
        curve = PchipInterpolator(np.log(NODES), errors)
        squared = np.exp(curve(np.log(np.arange(1, SHARES + 1) / SHARES)))
        gains.append(np.minimum.accumulate(-np.diff(squared)))
    best = np.argsort(-np.concatenate(gains), kind="stable")[: SHARES - len(plans)]
    parts = np.bincount(best // (SHARES - 1), minlength=len(plans)) + 1
    return [int(part) for part in parts]


def _squared(plan: Any, share: float) -> float:
    """Return the squared error of a plan with a share of its cost, or a huge one."""
    try:
        at = replace(plan, cost=plan.cost * Fraction(share))
        return max(at.squared_error, TINY)
    except ValueError:  # the noise does not fit
        return HUGE / share**2
