r"""Sums, means, histograms and quantiles of a number, by group.

Every number is clipped to public bounds l and u, and rounded to a public grid of g
steps: record i stands at place :math:`k_i \in \{0, ..., g\}`. Groups are disjoint, so
that one record changes the numbers of one group only.

**Sums and means.** Two whole numbers per group, the distances from either bound,

.. math:: A = \sum_i k_i, \qquad B = \sum_i (g - k_i) .

A record changes them by exactly g together, in L1 norm, and by at most g in L2 norm.
They hold the number of records, :math:`(A + B) / g`. They hold the sum of places about
the middle of the grid, :math:`(A - B) / 2`, which a record changes by g / 2 at most.
The sum of the numbers is a weighted sum of both, and the mean is
:math:`l + (u - l) f` with :math:`f = A / (A + B)`. Under ``"replace"``, without groups,
the number of records is public: then A - B alone is measured.

**Intervals of means** are Fieller's [1]_: they hold every f that
:math:`(1 - f) A - f B`, which is zero for the exact one, does not rule out. Its error
:math:`(1 - f) z_A - f z_B` has a known law, whatever the records are.

**Quantiles.** Counts of places are measured by a strategy for cumulative counts F. The
quantile of probability p is the first place j with
:math:`D(j) = F(j) - p F(g) \ge 0`. An interval has every j that the noisy D(j) and
D(j - 1) do not rule out, each at half of the risk.

**Rounding** moves a number by half a step h at most: a mean as well, and a sum of n
numbers by n h. Intervals are wider by this much, so that they hold the statistics of
clipped numbers, not of places. The ends of a sum are again weighted sums of A and B,
each at half of the risk. Quantiles of places are places of quantiles, and their ends
lie halfway to the next place.

References
----------
.. [1] Fieller, "Some problems in interval estimation", Journal of the Royal
   Statistical Society B 16(2), 1954.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mmech.arrays import Floats, Integers
from mmech.domain.attribute import check_names
from mmech.domain.discretise import check_number
from mmech.domain.frames import as_column
from mmech.exceptions import ParameterError
from mmech.noise.tails import SLACK
from mmech.storage.codec import storable
from mmech.tables.statistic_intervals import CumulativeErrors, first_ratio

if TYPE_CHECKING:
    from mmech.tables.statistic_plans import MeasuredStatistic, StatisticPlan


LARGEST_GRID = 2**20
"""Most steps of a grid of sums and means, so that sums of places are exact doubles."""

FINE, COARSE = 1_000_000, 1_000
"""Steps of a grid that nobody gives, of sums and means, and of quantiles."""

LARGEST_CUMULATIVE = 4096
"""Most places of quantiles: time grows with their square."""


@dataclass(frozen=True)
class Statistic(ABC):
    """What the statistics of `release_tables` have in common.

    Classes have a `noun`, the column of their `value`, what an error is `of`, and the
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
    """

    name: str
    _: KW_ONLY
    by: Any = ()
    lower: float | None = None
    upper: float | None = None
    step: float | None = None

    noun: ClassVar[str] = ""
    value: ClassVar[str] = ""
    of: ClassVar[str] = ""
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

    def __str__(self) -> str:
        """Return its name, such as "mean of income by region"."""
        by = self.by if isinstance(self.by, tuple) else ()
        groups = f" by {', '.join(map(str, by))}" if by else ""
        return f"{self.noun} of {self.name}{groups}"

    def places(self, plan: StatisticPlan, numbers: Floats) -> Integers:
        """Return the place on the grid of every number, shape (N,)."""
        inside = np.clip(numbers, plan.lower, plan.upper)
        return np.rint((inside - plan.lower) / plan.step).astype(np.int64)

    def values(
        self, plan: StatisticPlan, places: Integers, groups: Integers
    ) -> Integers:
        """Return what is measured, a column per group: the number at every place."""
        size = plan.n_steps + (not isinstance(self, Histogram))
        cells = places * plan.n_groups + groups
        return np.bincount(cells, minlength=size * plan.n_groups).reshape(size, -1)

    @abstractmethod
    def columns(self, made: MeasuredStatistic, level: float) -> dict[str, Any]:
        """Return the columns beside the groups; free of privacy cost."""

    def variance(self, plan: StatisticPlan) -> float:
        """Return the expected squared error of one number, in records or ranges."""
        return float(plan.law.variance(plan.parameter)) / plan.unit**2


@dataclass(frozen=True)
class Ratio(Statistic):
    """What sums and means have in common: distances from both bounds."""

    def values(
        self, plan: StatisticPlan, places: Integers, groups: Integers
    ) -> Integers:
        """Return A and B (2, k), or their difference (k,) where it is enough."""
        g, k = plan.n_steps, plan.n_groups
        above, below = (np.bincount(groups, own, k) for own in (places, g - places))
        both = above - below if plan.total_is_public else np.stack([above, below])
        return both.astype(np.int64)


@storable("SumByGroup", version=2)
@dataclass(frozen=True)
class Sum(Ratio):
    """The sum of a number, by group, for `release_tables`.

    Parameters
    ----------
    name, by, lower, upper, step
        As in `Mean`.

    Examples
    --------
    >>> from mmech.tables import Sum
    >>> print(Sum("hours", by="sex"))
    sum of hours by sex
    """

    noun: ClassVar[str] = "sum"
    value: ClassVar[str] = "sum"

    def columns(self, made: MeasuredStatistic, level: float) -> dict[str, Any]:
        """Return sums with intervals."""
        plan, (above, below) = made.plan, made.distances
        up, down = plan.upper / plan.n_steps, plan.lower / plan.n_steps
        total, law = up * above + down * below, made.law(up, down)

        def end(side: int) -> Floats:  # as if rounding moved all numbers to one side
            a, b = (own + side * plan.half / plan.n_steps for own in (up, down))
            return a * above + b * below + side * made.law(a, b).half_width(level)

        ends = 0.0 if plan.lower >= 0 else -np.inf, 0.0 if plan.upper <= 0 else np.inf
        return {
            "sum": np.clip(total, *ends),
            "standard_error": np.full(total.size, law.standard_error),
            "lower": np.clip(np.minimum(end(-1), total), *ends),
            "upper": np.clip(np.maximum(end(1), total), *ends),
        }

    def variance(self, plan: StatisticPlan) -> float:
        """Return the squared error in units of the range."""
        size = (plan.lower**2 + plan.upper**2) / (plan.upper - plan.lower) ** 2
        return super().variance(plan) * size


@storable("MeanByGroup", version=2)
@dataclass(frozen=True)
class Mean(Ratio):
    """The mean of a number, by group, for `release_tables`.

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
        Numbers are rounded to whole steps above `lower`; intervals include what this
        changes. ``None`` is 1 for whole numbers up to 2^20, or else a millionth of the
        range.

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
    (['sex', 'mean', 'lower', 'upper', 'note'], array([40., 70.]))
    """

    noun: ClassVar[str] = "mean"
    value: ClassVar[str] = "mean"
    of: ClassVar[str] = ", over the number of records of a group"

    def columns(self, made: MeasuredStatistic, level: float) -> dict[str, Any]:
        """Return means with Fieller's intervals."""
        above, below = made.distances
        halves = [
            made.law(1 - f, -f).half_width(level)
            for f in np.linspace(0, 0.5, 33).tolist()
        ]
        widths = np.array(halves + halves[-2::-1])  # noise of A and B has one law
        low = first_ratio(above, above + below, widths)
        high = 1 - first_ratio(below, above + below, widths)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.clip(above / (above + below), 0, 1)
        none = low > high  # beyond what any ratio explains
        low, high = np.where(none, 0, low), np.where(none, 1, high)
        plan, half = made.plan, made.plan.half / (made.plan.upper - made.plan.lower)
        return plan.with_note("mean", *map(plan.at, (found, low - half, high + half)))


@storable("HistogramByGroup")
@dataclass(frozen=True)
class Histogram(Statistic):
    """Counts of a number in bins of its own, by group, for `release_tables`.

    Bins of the attribute itself are better asked for as a table, which agrees with all
    others.

    Parameters
    ----------
    name, by, lower, upper
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
    of: ClassVar[str] = " records"
    steps: ClassVar[int] = 10
    most: ClassVar[int] = LARGEST_CUMULATIVE

    def places(self, plan: StatisticPlan, numbers: Floats) -> Integers:
        """Return the bin of every number, shape (N,)."""
        return np.searchsorted(plan.bins.cut_points, numbers, side="left")

    def columns(self, made: MeasuredStatistic, level: float) -> dict[str, Any]:
        """Return counts with intervals."""
        plan, noisy, law = made.plan, made.measurement.values.T.ravel(), made.law(1.0)
        half = math.floor(law.half_width(level))
        rows = np.tile(np.arange(plan.n_steps), plan.n_groups)
        return {
            self.name: as_column(plan.bins.labels, rows),
            "count": np.maximum(noisy, 0),
            "standard_error": np.full(noisy.size, law.standard_error),
            "lower": np.maximum(noisy - half, 0),
            "upper": np.maximum(noisy + half, 0),
        }


@storable("QuantilesByGroup", version=2)
@dataclass(frozen=True)
class Quantiles(Statistic):
    """Quantiles of a number, by group, for `release_tables`.

    A quantile of probability p is the least number that a share p of the records does
    not exceed. Bounds that quantiles lie within do not change these. An end of an
    interval that is a bound stands for all numbers beyond it, and the note says so.

    Parameters
    ----------
    name : str
        A numeric attribute of the domain.
    probabilities : sequence of float
        Between 0 and 1.
    by, lower, upper
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
    of: ClassVar[str] = " records in rank"
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

    def columns(self, made: MeasuredStatistic, level: float) -> dict[str, Any]:
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
            ends = np.transpose([errors.ends(p, own) for own in apart.T])
            places[1:, :, j] = np.where(empty, [[0], [plan.n_steps]], ends)
        found, low, high = places.reshape(3, -1)
        ask = np.tile(self.probabilities, plan.n_groups)
        own = plan.with_note("quantile", plan.grid[found], first[low], last[high])
        return {"probability": ask, **own}

    def variance(self, plan: StatisticPlan) -> float:
        """Return the mean squared error of a cumulative count."""
        return plan.mechanism.expected_error() / (plan.n_steps + 1)
