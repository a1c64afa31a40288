r"""Sums, means, deviations, histograms and quantiles of a number, by group.

Every number is clipped to public bounds l and u, and rounded to a public grid of g
steps: record i stands at place :math:`k_i \in \{0, ..., g\}`. Groups are disjoint, so
that one record changes the numbers of one group only.

**Sums and means** of one number by the same groups are one measurement, of two whole
numbers per group: the distances from either bound,

.. math:: A = \sum_i k_i, \qquad B = \sum_i (g - k_i) .

A record changes them by exactly g together, in L1 norm, and by at most g in L2 norm.
They hold the number of records, :math:`(A + B) / g`. They hold the sum of places about
the middle of the grid, :math:`(A - B) / 2`, which a record changes by g / 2 at most.
The sum of the numbers is a weighted sum of both, and the mean is
:math:`l + (u - l) f` with :math:`f = A / (A + B)`. Under ``"replace"``, without groups,
the number of records is public: then A - B alone is measured.

They agree. A released table of the groups has their numbers n of records, where every
record has a number. Otherwise n is :math:`(A + B) / g`. The mean is
:math:`(l + u) / 2 + (u - l) (A - B) / (2 g N)`, for the estimate N of n by both. The
sum is n times the mean. A sum without a mean is measured by itself: a record changes it
by :math:`\max(|l|, |u|)` at most, where A and B would give it an error
:math:`\sqrt{l^2 + u^2} / \max(|l|, |u|)` times as large.

Sums and means by cities, by states and of all are one measurement, since their groups
are nested. A and B are estimated by least squares over all of them. Published sums, and
numbers of records, are divided from the largest groups down, so that they add up. A sum
of places stays between 0 and g n: the mean is within its bounds.

**Intervals of means** are Fieller's [1]_: they hold every f that
:math:`(1 - f) A - f B`, which is zero for the exact one, does not rule out. Its error
:math:`(1 - f) z_A - f z_B` has a known law, whatever the records are.

**Standard deviations** measure three whole numbers per group in place of two,

.. math:: \sum_i k_i^2, \qquad \sum_i 2 k_i (g - k_i), \qquad \sum_i (g - k_i)^2 .

A record changes them by exactly g² together, in L1 norm, and by at most g² in L2 norm.
Their sum is g² times the number of records, with :math:`\sqrt{3/2}` times the error
that A and B give it. A and B are weighted sums of the three. With M, the second one,
the variance is :math:`(u - l)^2 (f (1 - f) - M / (2 g^2 N))`. It is cut off at zero and
at f (1 - f), where all numbers are bounds.

Their intervals hold :math:`v = \sum_i (k_i / g - m)^2 / n` for 17 numbers m, a ratio of
weighted sums, like Fieller's. The variance is v for the number m that is nearest to f,
less (f - m)², and f has an interval. A quarter of the risk is for f. Ratios v are at
most 1/4 + 1/1024 there.

**Quantiles.** Counts of places are measured by a strategy for cumulative counts F. The
quantile of probability p is the first place j with
:math:`D(j) = F(j) - p F(g) \ge 0`. An interval has every j that the noisy D(j) and
D(j - 1) do not rule out, each at half of the risk.

**Rounding** moves a number by half a step h at most: a mean as well, and a sum of n
numbers by n h. Intervals are wider by this much, so that they hold the statistics of
clipped numbers, not of places. The ends of a sum are again weighted sums of A and B,
each at half of the risk. A sum that is measured by itself has a grid so fine that all
records together move it by little. Quantiles of places are places of quantiles, and
their ends lie halfway to the next place.

References
----------
.. [1] Fieller, "Some problems in interval estimation", Journal of the Royal
   Statistical Society B 16(2), 1954.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from mmech.arrays import Floats, Integers, Subset
from mmech.checks import check_epsilon
from mmech.domain.attribute import check_names
from mmech.domain.discretise import check_number
from mmech.domain.frames import as_column
from mmech.exceptions import ParameterError
from mmech.mechanism import MatrixMechanism
from mmech.noise.tails import SLACK
from mmech.operators.explicit import Dense
from mmech.storage.codec import storable

if TYPE_CHECKING:
    from mmech.tables.statistic_plans import MeasuredStatistic, StatisticPlan


LARGEST_GRID = 2**20
"""Most steps of a grid of sums and means, so that sums of places are exact doubles."""

LARGEST_SQUARED = 2**12
"""Most steps of a grid of deviations: sums of squares of 500 million are doubles."""

FINE, COARSE = 1_000_000, 1_000
"""Steps of a grid that nobody gives, of sums and means, and of what else there is."""

FINEST = 2**30
"""Steps from zero to the farther bound of a sum that is measured by itself."""

LARGEST_CUMULATIVE = 4096
"""Most places of quantiles: time grows with their square."""


class TableCounts(NamedTuple):
    """What count tables tell of the records of a statistic.

    Attributes
    ----------
    most : float, default=inf
        There are no more records than this, but for a risk of 1e-15.
    published, estimate : ndarray, shape (k,), default=None
        Counts of the groups, where every record has a number: as they are published,
        and unbiased.
    variance : float, default=inf
        Of the unbiased ones.
    """

    most: float = math.inf
    published: Integers | None = None
    estimate: Floats | None = None
    variance: float = math.inf


CountsByTable = Mapping[Subset, TableCounts]
"""The same of every table of groups."""


@dataclass(frozen=True)
class Statistic(ABC):
    """What the statistics of `release_tables` have in common.

    Classes have a `noun`, the column of their `value`, the `unit` of an error, and the
    default and largest number of `steps` of their grid.

    Parameters
    ----------
    name : str
        A numeric attribute of the domain.
    by : str or sequence of str, default=()
        Attributes, or levels of them, whose combinations of values are the groups; all
        records without.
    lower, upper : float, default=None
        Public bounds that numbers are clipped to; ``None`` is those of the attribute.
    step : float, default=None
        Numbers are rounded to whole steps above `lower`. ``None`` is 1 for whole
        numbers, or else a part of the range that is far below the noise.
    share : float, str or Fraction, default=None
        Its part of the budget, such as ``"1/4"``; ``None`` is the best one.
    """

    name: str
    _: KW_ONLY
    by: Any = ()
    lower: float | None = None
    upper: float | None = None
    step: float | None = None
    share: Any = None

    noun: ClassVar[str] = ""
    value: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    steps: ClassVar[int] = FINE
    most: ClassVar[int] = LARGEST_GRID

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                f"a {self.noun} needs the name of an attribute, got {self.name!r:.60}"
            )
        by = (self.by,) if isinstance(self.by, str) else self.by
        object.__setattr__(self, "by", check_names(by, f"by of {self}"))
        for option in ("lower", "upper", "step"):
            if getattr(self, option) is not None:
                number = check_number(getattr(self, option), f"{option} of {self}")
                object.__setattr__(self, option, number)
        if self.share is not None:
            share = check_epsilon(self.share, f"share of {self}")
            object.__setattr__(self, "share", share)

    def __str__(self) -> str:
        """Return its name, such as "mean of income by region"."""
        by = self.by if isinstance(self.by, tuple) else ()
        groups = f" by {', '.join(map(str, by))}" if by else ""
        return f"{self.noun} of {self.name}{groups}"

    def places(self, plan: StatisticPlan, numbers: Floats) -> Integers:
        """Return the place on the grid of every number, shape (N,)."""
        inside = np.clip(numbers, plan.lower, plan.upper) - plan.start
        return np.rint(inside / plan.step).astype(np.int64) - plan.first

    def values(
        self, plan: StatisticPlan, places: Integers, groups: Integers
    ) -> Integers:
        """Return what is measured, a column per group: the number at every place."""
        size = plan.n_steps + (not isinstance(self, Histogram))
        cells = places * plan.n_groups + groups
        return np.bincount(cells, minlength=size * plan.n_groups).reshape(size, -1)

    @abstractmethod
    def columns(
        self,
        made: MeasuredStatistic,
        level: float,
        counts: Mapping[Subset, TableCounts],
    ) -> dict[str, Any]:
        """Return the columns beside the groups; free of privacy cost."""

    def weights(self, plan: StatisticPlan) -> tuple[float, ...]:
        """Return the weights of measured rows whose sum has the error to expect."""
        return (1.0,)

    def expected(self, plan: StatisticPlan) -> tuple[int, float, float, float]:
        """Return how many numbers there are, their standard error, and half widths."""
        rows = plan.n_steps if isinstance(self, Histogram) else 1
        table = plan.axes(self)
        law = plan.error_law(table, *self.weights(plan))
        widths = law.half_width(0.90), law.half_width(0.95)
        return rows * plan.cells(table), law.standard_error, *widths

    def squared_error(self, plan: StatisticPlan) -> float:
        """Return the mean expected squared error of a number."""
        variance = plan.field.node_variances(plan.axes(self)).mean()
        return float(variance * np.square(self.weights(plan)).sum())

    def size(self, plan: StatisticPlan) -> float:
        """Return by how much one record changes a number at most."""
        return 1.0


@dataclass(frozen=True)
class Ratio(Statistic):
    """What is made of distances from both bounds: sums, means and deviations."""

    def values(
        self, plan: StatisticPlan, places: Integers, groups: Integers
    ) -> Integers:
        """Return A and B (2, k), their difference (k,), or the sum alone (1, k).

        Where there is a deviation, return the three sums of products (3, k).
        """
        k, g = plan.n_groups, plan.n_steps
        number = np.bincount(groups, minlength=k).astype(np.int64)

        def summed(whole: Integers) -> Integers:  # exact in doubles by two digits
            high, low = (
                np.bincount(groups, digit, k).astype(np.int64)
                for digit in np.divmod(whole, 2**16)
            )
            return high * 2**16 + low

        above = summed(places)
        if plan.alone:
            return (above + plan.first * number)[None]
        below = g * number - above
        if plan.squared:
            squares = summed(places**2)
            between = g * above - squares
            return np.stack([squares, 2 * between, g * below - between])
        return above - below if plan.total_is_public else np.stack([above, below])

    def size(self, plan: StatisticPlan) -> float:
        """Return the range."""
        return plan.upper - plan.lower


@storable("SumByGroup", version=3)
@dataclass(frozen=True)
class Sum(Ratio):
    """The sum of a number, by group, for `release_tables`.

    Sums by nested groups add up, as by the levels of a hierarchy, also beside means.
    Their bounds and steps must be the same.

    Parameters
    ----------
    name, by, lower, upper, step, share
        As in `Mean`.

    Examples
    --------
    >>> from mmech.tables import Sum
    >>> print(Sum("hours", by="sex"))
    sum of hours by sex
    """

    noun: ClassVar[str] = "sum"
    value: ClassVar[str] = "sum"
    unit: ClassVar[str] = "sum"

    def columns(
        self,
        made: MeasuredStatistic,
        level: float,
        counts: Mapping[Subset, TableCounts],
    ) -> dict[str, Any]:
        """Return sums with intervals."""
        plan, table = made.plan, made.plan.axes(self)
        error, half = plan.errors(table, level, *self.weights(plan))
        if plan.alone:
            total, number = made.sums[table] * plan.step, {}
            half = half + (plan.half and plan.half * max(counts[table].most, 0.0))
            centre = made.rows(table)[0] * plan.step
            ends = centre - half, centre + half
        else:
            count, share = made.means(counts)[table]
            total = plan.lower * count + (plan.upper - plan.lower) * (share * count)
            number = {"count": count}
            up, down = plan.upper / plan.n_steps, plan.lower / plan.n_steps

            def end(side: int) -> Floats:  # as if rounding moved all to one side
                a, b = (rate + side * plan.half / plan.n_steps for rate in (up, down))
                _, half = plan.errors(table, level, *plan.of_distances(a, b))
                return made.weighted(table, a, b) + side * half

            ends = end(-1), end(1)
        total = np.clip(total, *plan.signs)
        return {
            "sum": total,
            "standard_error": np.broadcast_to(error, total.shape),
            "lower": np.clip(np.minimum(ends[0], total), *plan.signs),
            "upper": np.clip(np.maximum(ends[1], total), *plan.signs),
            **number,
        }

    def weights(self, plan: StatisticPlan) -> tuple[float, ...]:
        """Return a weight of each distance, or of the sum by itself."""
        if plan.alone:
            return (plan.step,)
        up, down = plan.upper / plan.n_steps, plan.lower / plan.n_steps
        return plan.of_distances(up, down)

    def size(self, plan: StatisticPlan) -> float:
        """Return the largest number in magnitude."""
        return plan.largest


@storable("MeanByGroup", version=3)
@dataclass(frozen=True)
class Mean(Ratio):
    """The mean of a number or a date, by group, for `release_tables`.

    The mean of dates is published as the nearest day, such as ``2026-01-31``. A group
    that is too small to tell has an empty text instead.

    Parameters
    ----------
    name : str
        An attribute of numbers or of dates. Dates are clipped to the bounds of their
        attribute; a period that a record names, such as ``2026-01``, is its first day.
    by : str or sequence of str, default=()
        Attributes, or levels of them, whose combinations of values are the groups; all
        records without.
    lower, upper : float, default=None
        Public bounds that numbers are clipped to; ``None`` is those of the attribute.
    step : float, default=None
        Numbers are rounded to whole steps above `lower`; intervals include what this
        changes. ``None`` is 1 for whole numbers up to 2^20, or else a millionth of the
        range. A sum without a mean has steps of 2^-30 of its largest number.
    share : float, str or Fraction, default=None
        Its part of the budget, such as ``"1/4"``; ``None`` is the best one. Sums and
        means of a number by the same groups are one measurement, if their bounds and
        steps are the same: their shares add up. So do the shares of sums by nested
        groups.

    Examples
    --------
    >>> from mmech import Attribute, Domain, release_tables
    >>> from mmech.tables import Mean
    >>> domain = Domain(
    ...     [
    ...         Attribute.categorical("sex", ["f", "m"]),
    ...         Attribute.numeric("age", lower=0, upper=90, n_bins=3, integer=True),
    ...     ]
    ... )
    >>> records = [["f", 25], ["m", 70], ["f", 55]] * 1000
    >>> released = release_tables(
    ...     records, domain, ways=1, epsilon=1, statistics=[Mean("age", by="sex")]
    ... )
    >>> means = released.statistic("mean of age by sex", frame="dict")
    >>> list(means), means["mean"].round(-1)
    (['sex', 'mean', 'lower', 'upper', 'note', 'count'], array([40., 70.]))
    """

    noun: ClassVar[str] = "mean"
    value: ClassVar[str] = "mean"
    unit: ClassVar[str] = "mean times records of the group"

    def columns(
        self,
        made: MeasuredStatistic,
        level: float,
        counts: Mapping[Subset, TableCounts],
    ) -> dict[str, Any]:
        """Return means with Fieller's intervals."""
        plan, half = made.plan, made.plan.half / self.size(made.plan)
        low, high = _share_above(made, plan.axes(self), level)
        low, high = plan.at(low - half), plan.at(high + half)
        count, share = made.means(counts)[plan.axes(self)]
        mean = plan.at(share)
        ends = np.minimum(low, mean), np.maximum(high, mean)
        return made.with_note("mean", mean, *ends) | {"count": count}

    def weights(self, plan: StatisticPlan) -> tuple[float, ...]:
        """Return those of the numerator of an extreme ratio."""
        return plan.of_distances(self.size(plan) / plan.n_steps, 0.0)


@storable("StandardDeviationByGroup")
@dataclass(frozen=True)
class StandardDeviation(Ratio):
    """The standard deviation of a number, by group, for `release_tables`.

    It is the root of the mean squared distance from the mean of the group, for numbers
    as they are clipped. Where noise makes a variance negative, 0 is published; where it
    makes one larger than any of this mean, the largest is.

    It needs three noisy numbers per group. With bounds and a step that sums and means
    share, all are one measurement: counts have 22 % larger errors then, and means 12 %.

    Parameters
    ----------
    name, by, lower, upper, share
        As in `Mean`.
    step : float, default=None
        As in `Mean`, but ``None`` is 1 for whole numbers in a range up to 4,096, or
        else a thousandth of the range: squares need a coarser grid.

    Examples
    --------
    >>> from mmech.tables import StandardDeviation
    >>> print(StandardDeviation("hours", by="sex"))
    standard deviation of hours by sex
    """

    noun: ClassVar[str] = "standard deviation"
    value: ClassVar[str] = "standard_deviation"
    unit: ClassVar[str] = "deviation of evenly spread numbers times records"
    steps: ClassVar[int] = COARSE
    most: ClassVar[int] = LARGEST_SQUARED

    def columns(
        self,
        made: MeasuredStatistic,
        level: float,
        counts: Mapping[Subset, TableCounts],
    ) -> dict[str, Any]:
        """Return deviations with intervals."""
        plan, width, table = made.plan, self.size(made.plan), made.plan.axes(self)
        rows = made.rows(table) / plan.n_steps**2
        number = made.numbers(table, counts[table])
        noisy, (count, f) = rows.sum(axis=0), made.means(counts)[table]
        between = rows[1] + (number - noisy) / 3  # as likely as its sum with the others
        between = between / np.where(number > 0, 2 * number, np.inf)
        variance = np.clip(f * (1 - f) - between, 0, f * (1 - f))
        low, high = (
            np.sqrt(end) * width for end in self._variances(made, table, level)
        )
        root = np.sqrt(variance) * width
        low = np.maximum(np.minimum(low - plan.half, root), 0)
        high = np.minimum(np.maximum(high + plan.half, root), width / 2)
        noted = made.with_note(self.value, root, low, high, (0, width / 2))
        return noted | {"count": count}

    def _variances(
        self, made: MeasuredStatistic, table: Subset, level: float
    ) -> Floats:
        """Return ends of intervals of variances, in squares of the range, (2, k)."""
        plan, risk = made.plan, 1 - level
        rows = made.rows(table) / plan.n_steps**2
        number, (begin, end) = rows.sum(axis=0), _share_above(made, table, 1 - risk / 4)
        at, ratios = np.linspace(0, 1, 17), np.linspace(0, 1 / 2, 5)[:, None]
        halves = [
            [
                plan.errors(table, 1 - 3 * risk / 4, *weights)[1]
                for weights in every.tolist()
            ]
            for every in (_about(m) - ratios for m in at[:9])
        ]
        # Noise of all rows has one law.
        widths = np.array(halves + halves[-2::-1]) / plan.n_steps**2
        least, most = np.full((2, number.size), [[np.inf], [-np.inf]])
        for m, width in zip(at.tolist(), widths, strict=True):
            total = _about(m) @ rows
            low = _first_ratio(total, number / 2, width) / 2
            high = 0.5 - _first_ratio(number / 2 - total, number / 2, width[::-1]) / 2
            first, last = np.maximum(begin, m - 1 / 32), np.minimum(end, m + 1 / 32)
            some = (first <= last) & (low <= high)
            far = np.maximum(abs(first - m), abs(last - m))
            near = m - np.clip(m, first, last)
            least = np.where(some, np.minimum(least, low - far**2), least)
            most = np.where(some, np.maximum(most, high - near**2), most)
        none = least > most  # beyond what any variance explains
        ends = np.where(none, 0, least), np.where(none, 1, most)
        return np.clip(ends, 0, 1 / 4)

    def weights(self, plan: StatisticPlan) -> tuple[float, ...]:
        """Return those of the deviation of numbers that are spread evenly."""
        rates = (_about(1 / 2) - 1 / 12) * math.sqrt(3) * self.size(plan)
        return tuple((rates / plan.n_steps**2).tolist())


@storable("HistogramByGroup", version=2)
@dataclass(frozen=True)
class Histogram(Statistic):
    """Counts of a number in bins of its own, by group, for `release_tables`.

    Bins of the attribute itself are better asked for as a table, which agrees with all
    others.

    Parameters
    ----------
    name, by, lower, upper, share
        As in `Mean`; numbers beyond the bounds count in the first and last bins.
    step : float, default=None
        Width of the bins; ``None`` is a tenth of the range.

    Examples
    --------
    >>> from mmech.tables import Histogram
    >>> print(Histogram("hours", step=5, by="sex"))
    histogram of hours by sex
    """

    noun: ClassVar[str] = "histogram"
    value: ClassVar[str] = "count"
    unit: ClassVar[str] = "records"
    steps: ClassVar[int] = 10
    most: ClassVar[int] = LARGEST_CUMULATIVE

    def places(self, plan: StatisticPlan, numbers: Floats) -> Integers:
        """Return the bin of every number, shape (N,)."""
        return np.searchsorted(plan.bins.cut_points, numbers, side="left")

    def columns(
        self,
        made: MeasuredStatistic,
        level: float,
        counts: Mapping[Subset, TableCounts],
    ) -> dict[str, Any]:
        """Return counts with intervals."""
        plan, noisy = made.plan, made.measurement.values.T.ravel()
        law = plan.error_law(plan.tables[0], 1.0)
        half = math.floor(law.half_width(level))
        rows = np.tile(np.arange(plan.n_steps), plan.n_groups)
        return {
            self.name: as_column(plan.bins.labels, rows),
            "count": np.maximum(noisy, 0),
            "standard_error": np.full(noisy.size, law.standard_error),
            "lower": np.maximum(noisy - half, 0),
            "upper": np.maximum(noisy + half, 0),
        }


@storable("QuantilesByGroup", version=3)
@dataclass(frozen=True)
class Quantiles(Statistic):
    """Quantiles of a number or a date, by group, for `release_tables`.

    A quantile of probability p is the least number that a share p of the records does
    not exceed. Bounds that quantiles lie within do not change these. An end of an
    interval that is a bound stands for all numbers beyond it, and the note says so.

    Parameters
    ----------
    name : str
        An attribute of numbers or of dates, as in `Mean`.
    probabilities : sequence of float
        Between 0 and 1.
    by, lower, upper, share
        As in `Mean`.
    step : float, default=None
        As in `Mean`, but ``None`` is 1 for whole numbers in a range below 4,096, or
        else about 1,000 steps that are finer near zero. They are 1/1,000 of a range
        that is farther from zero than it is wide.

    Examples
    --------
    >>> from mmech.tables import Quantiles
    >>> print(Quantiles("age", [0.25, 0.5, 0.75], by=("sex", "region")))
    quantiles of age by sex, region
    """

    name: str
    probabilities: Any = (0.25, 0.5, 0.75)

    noun: ClassVar[str] = "quantiles"
    value: ClassVar[str] = "quantile"
    unit: ClassVar[str] = "records in rank"
    steps: ClassVar[int] = COARSE
    most: ClassVar[int] = LARGEST_CUMULATIVE - 1

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.probabilities
        given = tuple(given) if isinstance(given, Iterable) else (given,)
        inside = [isinstance(p, (int, float)) and 0 < p < 1 for p in given]
        if not given or not all(inside) or isinstance(self.probabilities, str):
            raise ParameterError(
                "probabilities",
                f"of {self} must lie between 0 and 1",
                self.probabilities,
                "0.5 is the median",
            )
        object.__setattr__(self, "probabilities", tuple(map(float, given)))

    def places(self, plan: StatisticPlan, numbers: Floats) -> Integers:
        """Return the nearest place of every number, shape (N,)."""
        return np.searchsorted(plan.cuts, numbers, side="left")

    def columns(
        self,
        made: MeasuredStatistic,
        level: float,
        counts: Mapping[Subset, TableCounts],
    ) -> dict[str, Any]:
        """Return quantiles with intervals."""
        plan = made.plan
        # Numbers that stand at a place, from the first to the last.
        first, last = np.append(plan.lower, plan.cuts), np.append(plan.cuts, plan.upper)
        if plan.whole:
            first, last = np.ceil(first), np.floor(last)
        estimate: Any = plan.mechanism.reconstruct(made.measurement)
        below = estimate.cumsum(axis=0)  # (g + 1, k)
        errors = CumulativeErrors(plan.mechanism, level)
        empty = below[-1] <= errors.half(0.0, plan.n_steps)
        places = np.empty((3, plan.n_groups, len(self.probabilities)), np.int64)
        for j, p in enumerate(self.probabilities):
            apart = below - p * below[-1]
            rising = np.maximum.accumulate(apart)
            reached = rising + np.minimum.accumulate(apart[::-1])[::-1] >= -SLACK
            reached[-1] = True
            places[0, :, j] = reached.argmax(axis=0)
            ends = np.transpose([errors.ends(p, group) for group in apart.T])
            places[1:, :, j] = np.where(empty, [[0], [plan.n_steps]], ends)
        near, low, high = places.reshape(3, -1)
        ask = np.tile(self.probabilities, plan.n_groups)
        noted = made.with_note("quantile", plan.grid[near], first[low], last[high])
        return {"probability": ask, **noted}

    def expected(self, plan: StatisticPlan) -> tuple[int, float, float, float]:
        """Return the same, without half widths: places have laws of their own."""
        error = math.sqrt(self.squared_error(plan))
        return len(self.probabilities) * plan.n_groups, error, math.nan, math.nan

    def squared_error(self, plan: StatisticPlan) -> float:
        """Return the mean squared error of a cumulative count."""
        return plan.mechanism.expected_error() / (plan.n_steps + 1)


def _about(m: float) -> Floats:
    """Return weights of sums of products for squared distances from m, shape (3,)."""
    return np.array([(1 - m) ** 2, -m * (1 - m), m**2])


def _share_above(
    made: MeasuredStatistic, table: Subset, level: float
) -> tuple[Floats, Floats]:
    """Return ends of Fieller's intervals of A / (A + B), (k,) each."""
    plan, above, below = made.plan, *(made.weighted(table, a, 1 - a) for a in (1, 0))
    halves = [
        plan.errors(table, level, *plan.of_distances(1 - f, -f))[1]
        for f in np.linspace(0, 0.5, 33).tolist()
    ]
    widths = np.array(halves + halves[-2::-1])  # noise of A and B has one law
    low = _first_ratio(above, above + below, widths)
    high = 1 - _first_ratio(below, above + below, widths)
    none = low > high  # beyond what any ratio explains
    return np.where(none, 0, low), np.where(none, 1, high)


def _first_ratio(above: Floats, total: Floats, widths: Floats) -> Floats:
    """Return the least ratio f from 0 to 1 that noise does not rule out, (k,).

    Parameters
    ----------
    above, total : ndarray, shape (k,)
        Noisy numerators and denominators.
    widths : ndarray, shape (s + 1, 1) or (s + 1, k)
        What the magnitude of the error of numerator - f denominator stays below, in
        steps of f. Lines between them are above it, because it is convex in f.
    """
    at = np.linspace(0, 1, len(widths))[:, None]
    beyond = np.sign(above) * (above - at * total) - widths  # (s + 1, k)
    place = (beyond <= 0).argmax(axis=0)
    last, before = np.take_along_axis(
        beyond, np.stack([place, np.maximum(place - 1, 0)]), axis=0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (place - 1 + before / (before - last)) / (len(widths) - 1)
    ratio = np.where(place == 0, 0.0, ratio)
    return np.where((beyond > 0).all(axis=0), 2.0, ratio)


class CumulativeErrors:
    """Errors of cumulative counts less a share of the total.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures a strategy for cumulative counts.
    level : float
    """

    def __init__(self, mechanism: MatrixMechanism, level: float) -> None:
        self._mechanism, self._level = mechanism, level
        self._halves: dict[tuple[float, int], float] = {}
        self._bounds: dict[float, Floats] = {}

    def half(self, p: float, place: int) -> float:
        """Return what the error at a place stays below in magnitude."""
        if (p, place) not in self._halves:
            below = np.arange(self._mechanism.workload.shape[1]) <= place
            query = Dense(below[None] - p)
            found = self._mechanism._half_widths(query, self._level)
            self._halves[p, place] = float(found[0])
        return self._halves[p, place]

    def ends(self, p: float, apart: Floats) -> tuple[int, int]:
        """Return the first and the last place that may be the quantile.

        Places are left out at once where a bound on the error rules them out.
        """
        if p not in self._bounds:
            queries = Dense(np.tri(len(apart)) - p)
            bound = self._mechanism._half_widths(queries, self._level, exact=False)
            self._bounds[p] = bound
        bound, last = self._bounds[p], len(apart) - 1
        firsts = np.flatnonzero(apart >= -bound).tolist()
        ends = (np.flatnonzero(apart[:-1] <= bound[:-1]) + 1)[::-1].tolist()
        low = next((j for j in firsts if apart[j] >= -self.half(p, j)), last)
        high = next((j for j in ends if apart[j - 1] <= self.half(p, j - 1)), 0)
        return min(low, high), max(low, high)
