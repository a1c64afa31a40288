"""What is measured for a statistic, and the errors to expect; holds no records."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.checks import magnitude
from mmech.domain.attribute import Attribute
from mmech.domain.discretise import fine_grid, number_text
from mmech.domain.domain import Domain
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
from mmech.tables.field import FLAT, VARIANCE_FLOOR, Measured
from mmech.tables.intervals import Intervals
from mmech.tables.levels import chain_of
from mmech.tables.rounding import added_up
from mmech.tables.statistics import (
    FINEST,
    Histogram,
    Mean,
    Quantiles,
    Ratio,
    StandardDeviation,
    Statistic,
    Sum,
)


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
        Others that are measured with it: means beside sums, or sums by themselves by
        ever larger groups, which add up.
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

    def adds_up_to(self, other: StatisticPlan) -> bool:
        """Return whether the groups of other sums are made of the largest of these."""
        owner, order = self.domain.levels, [*self.domain.levels]
        largest = {owner[name]: order.index(name) for name in self.statistics[-1].by}
        made_of = {*other.names} <= {*order} and all(
            order.index(name) <= largest.get(owner[name], -1) for name in other.names
        )
        if not (self.are_sums and made_of and self._numbers == other._numbers):
            return False
        names = {*self.names, *other.names}
        chain = chain_of(self.domain, [name for name in order if name in names])
        return chain is None or not chain.beside  # one tree at several levels

    @property
    def _numbers(self) -> tuple[Any, ...]:
        """What sums that add up have in common."""
        step = self.statistic.step
        return self.are_sums, self.statistic.name, self.lower, self.upper, step

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
    def errors_of_sums(self) -> Intervals:
        """Errors of sums by themselves, in steps; those by larger groups add up."""
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

    def error_law(self, *weights: float) -> ErrorLaw:
        """Return the law of the error of a weighted sum of measured rows."""
        t, sizes = self.parameter, np.array([weight for weight in weights if weight])
        rows = np.ones(sizes.size)
        law = error_law(
            self.law, sizes, rows, rows * self.law.variance(t), rows * float(t)
        )
        # Noise takes steps, which `error_law` fills by a uniform error of one step.
        return replace(law, step=float(np.abs(sizes).max()))

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
            values = np.concatenate(
                [added_up(values[0], self.above(table)) for table in self.tables]
            )[None]
        number = sum(map(self.cells, self.tables))
        what = f"{self.title} of {number} groups"
        if isinstance(self.statistic, Quantiles):
            paid = {"ledger": session.ledger, "insecure_rng": session.noise}
            measured = session.measure(self._mechanism(**paid), values, what)
        else:
            price: Any = {"currency": self.currency, "times": len(self.tables)}
            measured = session.add_noise(values, self.cost, what, self.unit, **price)
        return measured, len(codes) if self.total_is_public else None

    def above(self, table: Subset) -> Integers:
        """Return the group by some levels that holds each of the smallest ones."""
        return self.errors_of_sums.cells_above(self.tables[0], table)

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
