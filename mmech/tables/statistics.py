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

References
----------
.. [1] Fieller, "Some problems in interval estimation", Journal of the Royal
   Statistical Society B 16(2), 1954.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, magnitude
from mmech.domain.attribute import Attribute, check_names
from mmech.domain.discretise import check_number, number_text
from mmech.domain.domain import Domain
from mmech.domain.frames import as_column, read_table
from mmech.domain.values import number_values
from mmech.error.report import confidence_interval
from mmech.exceptions import ParameterError
from mmech.limits import LIMITS
from mmech.mechanism import MatrixMechanism
from mmech.noise import GAUSSIAN, LAPLACE, Law
from mmech.noise.system import Rng
from mmech.operators.base import product_of
from mmech.operators.basic import Prefix
from mmech.privacy.ledger import PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.release import Measurement, ledger_or_own
from mmech.session import Session
from mmech.storage.codec import storable
from mmech.strategies import optimize
from mmech.tables.noise import ErrorLaw, error_law

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_GRID = 2**20
"""Most steps of a grid of sums and means, so that sums of places are exact doubles."""

FINE, COARSE = 10_000, 1_000
"""Steps of a grid that nobody gives, of sums and means, and of quantiles."""

LARGEST_CUMULATIVE = 4096
"""Most places of quantiles: time grows with their square."""

SHARES = 1000
"""What the least part of a budget is a part of, about."""

OWN = {"mean", "sum", "count", "probability", "quantile", "standard_error", "lower"}
OWN |= {"upper", "note"}
"""Columns of a statistic beside its groups."""


# ---- what is asked for ---------------------------------------------------------------


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
        return plan.relation.factor**2 * plan.law.continuous(plan.cost)


@dataclass(frozen=True)
class _Ratio(Statistic):
    """What sums and means have in common: distances from both bounds."""

    def values(
        self, plan: StatisticPlan, places: Integers, groups: Integers
    ) -> Integers:
        """Return A and B (2, k), or their difference (k,) where it is enough."""
        g, k = plan.n_steps, plan.n_groups
        above, below = (np.bincount(groups, own, k) for own in (places, g - places))
        both = above - below if plan.total_is_public else np.stack([above, below])
        return both.astype(np.int64)


@storable("SumByGroup")
@dataclass(frozen=True)
class Sum(_Ratio):
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
        half = law.half_width(level)
        ends = 0.0 if plan.lower >= 0 else -np.inf, 0.0 if plan.upper <= 0 else np.inf
        return {
            "sum": np.clip(total, *ends),
            "standard_error": np.full(total.size, law.standard_error),
            "lower": np.clip(total - half, *ends),
            "upper": np.clip(total + half, *ends),
        }

    def variance(self, plan: StatisticPlan) -> float:
        """Return the squared error in units of the range."""
        size = (plan.lower**2 + plan.upper**2) / (plan.upper - plan.lower) ** 2
        return super().variance(plan) * size


@storable("MeanByGroup")
@dataclass(frozen=True)
class Mean(_Ratio):
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
        Numbers are rounded to whole steps above `lower`. ``None`` is 1 for whole
        numbers up to 2^20, or else 1/10,000 of the range.

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
        low = _first_ratio(above, above + below, widths)
        high = 1 - _first_ratio(below, above + below, widths)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.clip(above / (above + below), 0, 1)
        none = low > high  # beyond what any ratio explains
        low, high = np.where(none, 0, low), np.where(none, 1, high)
        return made.plan.with_note("mean", found, low, high)


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
        half = math.floor(law.half_width(level) + 0.5)
        rows = np.tile(np.arange(plan.n_steps), plan.n_groups)
        return {
            self.name: as_column(plan.bins.labels, rows),
            "count": np.maximum(noisy, 0),
            "standard_error": np.full(noisy.size, law.standard_error),
            "lower": np.maximum(noisy - half, 0),
            "upper": np.maximum(noisy + half, 0),
        }


@storable("QuantilesByGroup")
@dataclass(frozen=True)
class Quantiles(Statistic):
    """Quantiles of a number, by group, for `release_tables`.

    A quantile of probability p is the least number that a share p of the records does
    not exceed.

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
        else 1/1,000 of the range.

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

    def columns(self, made: MeasuredStatistic, level: float) -> dict[str, Any]:
        """Return quantiles with intervals."""
        plan = made.plan
        estimate: Any = plan.mechanism.reconstruct(made.measurement)
        below = estimate.cumsum(axis=0)  # (g + 1, k)
        errors = _Errors(plan.mechanism, level)
        empty = below[-1] <= errors.half(0.0, plan.n_steps)
        shares = np.empty((3, plan.n_groups, len(self.probabilities)))
        for j, p in enumerate(self.probabilities):
            apart = below - p * below[-1]
            rising = np.maximum.accumulate(apart)
            reached = rising + np.minimum.accumulate(apart[::-1])[::-1] >= 0
            reached[-1] = True
            shares[0, :, j] = reached.argmax(axis=0) / plan.n_steps
            ends = np.transpose([errors.ends(p, own) for own in apart.T])
            shares[1:, :, j] = np.where(empty, [[0], [1]], ends / plan.n_steps)
        ask = np.tile(self.probabilities, plan.n_groups)
        own = plan.with_note("quantile", *shares.reshape(3, -1))
        return {"probability": ask, **own}

    def variance(self, plan: StatisticPlan) -> float:
        """Return the mean squared error of a cumulative count."""
        return plan.mechanism.expected_error() / (plan.n_steps + 1)


# ---- what will be measured -----------------------------------------------------------


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
        elif not 1 <= self.n_steps <= own.most or not math.isclose(
            self.n_steps * self.step, self.upper - self.lower, rel_tol=1e-9
        ):
            raise ParameterError(
                "step",
                f"of the {own} must cut the range {number_text(self.lower)} to "
                f"{number_text(self.upper)} into 1 to {own.most:,} whole steps",
                number_text(self.step),
            )
        rows = 1 if isinstance(own, _Ratio) else self.n_steps + 1
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
        whole = self.domain.attributes[0].integer and width % 1 == 0
        if whole and width <= own.most and not isinstance(own, Histogram):
            return 1.0
        return width / own.steps

    @cached_property
    def n_steps(self) -> int:
        """Number of steps of the grid."""
        if not self.step > 0:
            return 0
        return round(min((self.upper - self.lower) / self.step, 2.0**53))

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
        return LAPLACE if self.currency == "epsilon" else GAUSSIAN

    @property
    def total_is_public(self) -> bool:
        """Whether all neighbours have as many records with a number."""
        same = self.relation.neighbours == "replace"
        return same and self.all_count and not self.statistic.by

    @property
    def expected(self) -> str:
        """The error to expect, in words."""
        own = self.statistic
        size = self.upper - self.lower if isinstance(own, _Ratio) else 1.0
        error = math.sqrt(own.variance(self)) * size
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
        workload, pure = Prefix(self.n_steps + 1), self.currency == "epsilon"
        strategy = optimize(
            workload,
            template="hierarchy" if pure else "spectral",
            privacy="pure" if pure else "zcdp",
        ).strategy
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

    @property
    def unit(self) -> int:
        """How much one record changes what is measured."""
        return self.n_steps if isinstance(self.statistic, _Ratio) else 1

    def with_note(self, name: str, *parts: Floats) -> dict[str, NDArray[Any]]:
        """Return values and intervals from shares of the range, and what to say.

        Where an interval is the whole range, nothing is known of a value.
        """
        empty = (parts[1] <= 0) & (parts[2] >= 1)
        width = self.upper - self.lower
        found, low, high = (self.lower + width * part for part in parts)
        words = "too few records for the noise: any value within the bounds is possible"
        return {
            name: np.where(empty, np.nan, found),
            "lower": low,
            "upper": high,
            "note": np.where(empty, words, ""),
        }


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
        size = Fraction(plan.relation.factor * plan.unit) ** plan.law.power
        t, rows = plan.law.parameter(size, plan.cost), np.ones(own.size)
        return error_law(
            plan.law, own, rows, rows * plan.law.variance(t), rows * float(t)
        )

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
        cut = "cut" if isinstance(own.statistic, Histogram) else "rounded to steps"
        return (
            f"{own.statistic}: numbers are clipped to {low} to {high}, {cut} by {step}."
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The same for machines."""
        own, entry = self.plan, self.measurement.entry
        given = {"statistic": str(own.statistic), "by": list(own.statistic.by)}
        grid = {"lower": own.lower, "upper": own.upper, "step": own.step}
        paid = {"cost": str(own.cost), "noise": entry.kind}
        return {**given, **grid, **paid, "sensitivity": entry.sensitivity}


# ---- intervals -----------------------------------------------------------------------


def _first_ratio(above: Floats, total: Floats, widths: Floats) -> Floats:
    """Return the least ratio f from 0 to 1 that noise does not rule out, (k,).

    Parameters
    ----------
    above, total : ndarray, shape (k,)
        Noisy numerators and denominators.
    widths : ndarray, shape (s + 1,)
        What the magnitude of the error of numerator - f denominator stays below, in
        steps of f. Lines between them are above it, because it is convex in f.
    """
    at = np.linspace(0, 1, len(widths))[:, None]
    beyond = np.sign(above) * (above - at * total) - widths[:, None]  # (s + 1, k)
    place = (beyond <= 0).argmax(axis=0)
    last, before = np.take_along_axis(
        beyond, np.stack([place, np.maximum(place - 1, 0)]), axis=0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (place - 1 + before / (before - last)) / (len(widths) - 1)
    found = np.where(place == 0, 0.0, found)
    return np.where((beyond > 0).all(axis=0), 2.0, found)


class _Errors:
    """Errors of cumulative counts less a share of the total.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures a strategy for cumulative counts.
    level : float
    """

    def __init__(self, mechanism: MatrixMechanism, level: float) -> None:
        strategy, factors = mechanism._whitened
        n = strategy.shape[1]
        self._level = level
        self._law = mechanism.law
        self._white = np.asarray(strategy.pinv().rmatmat(np.triu(np.ones((n, n)))))
        self._factors = factors
        sizes = [stop - start for start, stop, _ in mechanism._runs()]
        self._parameters = np.repeat([float(t) for t in mechanism._parameters()], sizes)
        paid: dict[str, Any] = {mechanism.law.currency: mechanism.cost}
        self._bound = float(confidence_interval(0.0, 1.0, level, **paid)[1])
        self._halves: dict[tuple[float, int], float] = {}

    def half(self, p: float, place: int) -> float:
        """Return what the error at a place stays below in magnitude."""
        if (p, place) not in self._halves:
            weights = (self._white[:, place] - p * self._white[:, -1]) * self._factors
            own = np.abs(weights) > 1e-12 * np.abs(weights).max()
            law = error_law(
                self._law,
                np.round(weights[own], 12),
                np.ones(own.sum()),
                1 / np.square(self._factors[own]),
                self._parameters[own],
            )
            self._halves[p, place] = law.half_width(self._level)
        return self._halves[p, place]

    def ends(self, p: float, apart: Floats) -> tuple[int, int]:
        """Return the first and the last place that may be the quantile.

        Places are left out at once where a bound on the error rules them out.
        """
        white = self._white - p * self._white[:, -1:]
        bound = self._bound * np.sqrt(np.square(white).sum(axis=0))
        last = len(apart) - 1
        firsts = np.flatnonzero(apart >= -bound).tolist()
        ends = (np.flatnonzero(apart[:-1] <= bound[:-1]) + 1)[::-1].tolist()
        low = next((j for j in firsts if apart[j] >= -self.half(p, j)), last)
        high = next((j for j in ends if apart[j - 1] <= self.half(p, j - 1)), 0)
        return min(low, high), max(low, high)


# ---- records, and the budget ---------------------------------------------------------


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
        columns: Iterable[str] | None,
        *,
        narrow: bool,
        first_row: int = 0,
        **policies: str,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        codes, keep = super()._encode(
            X, columns, narrow=narrow, first_row=first_row, **policies
        )
        table = read_table(X, columns)
        where, _ = table.locate(self.names, self._noun)
        columns_of = list(codes.T)
        for plan in self.plans:
            i = self.names.index(plan.statistic.name)
            numbers, _ = number_values(table.column(where[i]))
            none = np.isnan(numbers) | (codes[:, i] == self.attributes[i].other_code)
            places = plan.statistic.places(plan, np.where(none, 0.0, numbers))
            columns_of.append(np.where(none, plan.n_steps + 1, places))
        return np.stack(columns_of).T, keep

    def measure(
        self, codes: NDArray[Any], plan: Any, ledger: PrivacyLedger | None, noise: Rng
    ) -> tuple[MeasuredStatistic, ...]:
        """Measure all statistics from codes that this domain made; not the tables.

        A ledger that does not cover both is charged for neither.
        """
        held = ledger_or_own(ledger, self.plans[0].law, plan.relation)
        held.check_relation(plan.relation)
        held.check(plan.total_cost, currency=plan.currency)
        session, first = Session(held, noise), len(self.names)
        found = []
        for j, own in enumerate(self.plans, first):
            groups = self.at_levels(codes, own.statistic.by)
            found.append(own.measure(session, np.column_stack([groups, codes[:, j]])))
        return tuple(found)


def listed(statistics: Any) -> list[Statistic]:
    """Return statistics as a list, or raise."""
    found = [statistics] if isinstance(statistics, Statistic) else list(statistics)
    for own in found:
        if not isinstance(own, Statistic):
            raise TypeError(
                "statistics must be Mean, Sum, Histogram or Quantiles, got "
                f"{type(own).__name__}"
            )
    return found


def plan_statistics(
    statistics: Sequence[Statistic], domain: Domain, tables: Any
) -> tuple[ReadDomain, Fraction]:
    """Check statistics, and split the budget between them and count tables.

    Shares make the sum of expected squared errors least: over all tables, of an average
    cell, and all statistics, of an average number in records. Under pure epsilon they
    are as cube roots of squared errors, and under rho as square roots.

    Parameters
    ----------
    statistics : sequence of Statistic
    domain : Domain
    tables : TablePlan
        Of the count tables, with the whole budget.

    Returns
    -------
    ReadDomain
        What reads all records, with a plan of every statistic.
    Fraction
        What is left for the tables.
    """
    currency, cost, relation = tables.currency, tables.cost, tables.relation
    own, errors = tables.domain, tables.errors(frame="dict")["standard_error"]
    plans = []
    for statistic in statistics:
        names = (statistic.name, *statistic.by)
        for name in names:
            check_choice(name, f"an attribute of the {statistic}", tuple(domain.levels))
        owners = [domain.levels[name] for name in names]
        if len(set(owners)) < len(owners) or OWN & {*names}:
            raise ParameterError(
                "by",
                f"of the {statistic} must name other attributes, each once, and none "
                "that is called like a column of the statistic",
                list(statistic.by),
            )
        part = domain.by_level().select(names)
        all_count = not tables.drops and part.attributes[0].other_code is None
        plans.append(
            StatisticPlan(statistic, part, currency, cost, relation, all_count)
        )
    if len({str(statistic) for statistic in statistics}) < len(statistics):
        raise ParameterError("statistics", "must name each statistic once")
    squared = [plan.statistic.variance(plan) for plan in plans]
    squared.append(float(np.square(errors).sum()))
    shares = np.power(squared, 1 / 3 if currency == "epsilon" else 1 / 2)
    weights = [max(1, round(SHARES * own)) for own in shares[:-1] / shares.sum()]
    weights.append(max(1, SHARES - sum(weights)))
    costs = [cost * Fraction(weight, sum(weights)) for weight in weights]
    plans = [replace(plan, cost=c) for plan, c in zip(plans, costs, strict=False)]
    used = {domain.levels[name] for plan in plans for name in plan.domain.names}
    used -= {*own.names}
    added = [attribute for attribute in domain.attributes if attribute.name in used]
    reading = ReadDomain(
        (*own.attributes, *added),
        name=domain.name,
        read_from_records=domain.read_from_records,
        plans=tuple(plans),
    )
    return reading, costs[-1]
