"""What was measured for a statistic: numbers to publish, and words on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.domain.discretise import number_text
from mmech.release import Measurement
from mmech.storage.codec import storable
from mmech.tables.field import VARIANCE_FLOOR, Solution
from mmech.tables.rounding import divided
from mmech.tables.statistic_plans import StatisticPlan
from mmech.tables.statistics import Histogram, Quantiles, Ratio, Statistic, TableCounts


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
        if self.plan.squared:
            above, below = (noisy[::2] + noisy[1] / 2) / self.plan.n_steps
            return above, below
        if self.n_records is None:
            return noisy[0], noisy[1]
        total = float(self.plan.n_steps * self.n_records)
        return (total + noisy) / 2, (total - noisy) / 2

    @cached_property
    def sums(self) -> tuple[Solution, dict[Subset, Integers]]:
        """Unbiased sums by themselves, and whole ones that add up, in steps."""
        plan, whole = self.plan, dict[Subset, Integers]()
        estimate = plan.errors_of_sums.estimate(self.measurement.values[0])
        sign = -1 if plan.upper <= 0 else 1
        free = plan.lower < 0 < plan.upper
        for table in reversed(plan.tables):
            unbiased = sign * estimate.marginal(table)
            if whole:
                over, sums = next(reversed(whole.items()))
                parents = plan.errors_of_sums.cells_above(table, over)
                rounded = divided(unbiased, parents, sums, free=free)
            else:
                rounded = np.rint(unbiased if free else np.maximum(unbiased, 0))
            whole[table] = rounded.astype(np.int64)
        return estimate, {table: sign * sums for table, sums in whole.items()}

    @property
    def counted(self) -> tuple[Floats, float] | None:
        """Unbiased numbers of records, (k,), and their variance, if they are held."""
        plan = self.plan
        if not isinstance(plan.statistic, Ratio) or plan.alone or plan.total_is_public:
            return None
        weights = np.array(plan.of_distances(1 / plan.n_steps, 1 / plan.n_steps))
        variance = plan.law.variance(plan.parameter) * float(weights @ weights)
        above, below = self.distances
        return (above + below) / plan.n_steps, variance

    def numbers(self, counts: TableCounts) -> Floats:
        """Return numbers of records, (k,), by what tables count, too."""
        total = sum(self.distances) / self.plan.n_steps
        if self.counted is not None and counts.estimate is not None:
            ours, theirs = self.counted[1], max(counts.variance, VARIANCE_FLOOR)
            total += ours / (theirs + ours) * (counts.estimate - total)
        return np.asarray(total)

    def means(self, counts: TableCounts) -> tuple[Floats, Integers]:
        """Return means, (k,), and how many records they are of, as published."""
        plan, (above, below) = self.plan, self.distances
        total = self.numbers(counts)
        some = total > 0
        share = (above - below) / (2 * plan.n_steps * np.where(some, total, np.inf))
        number = counts.published
        if number is None:
            number = np.maximum(np.rint(total), 0).astype(np.int64)
        return plan.at(np.clip(0.5 + share, 0, 1)), number

    def columns(
        self,
        level: float,
        counts: TableCounts | None = None,
        statistic: Statistic | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Return a column per attribute of the groups, and those of a statistic."""
        plan, statistic = self.plan, statistic or self.plan.statistic
        values = statistic.columns(self, level, counts or TableCounts())
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
        adding = "; those of larger groups are sums of the others"
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
