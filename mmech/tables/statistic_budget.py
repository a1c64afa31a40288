"""How statistics and tables share a budget, and what reads records for both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, check_epsilon
from mmech.domain.dates import day_values
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.domain.values import number_values
from mmech.exceptions import ParameterError
from mmech.marginals.counts import Counts
from mmech.noise.system import Rng
from mmech.privacy.ledger import PrivacyLedger
from mmech.release import ledger_or_own
from mmech.session import Session
from mmech.tables.columns import OF_STATISTICS
from mmech.tables.measured_statistic import MeasuredStatistic
from mmech.tables.statistic_plans import StatisticPlan
from mmech.tables.statistics import Ratio, Statistic, Sum

SHARES = 1000
"""What the least part of a budget is a part of."""

NODES = np.geomspace(1 / SHARES, 1, 13)
"""Parts of a budget at which errors are computed, and interpolated between."""

TINY, HUGE = 1e-300, 1e30
"""Squared errors in place of zero, and of noise that is too large for whole numbers."""


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
        columns_of = list(codes.T)
        for plan in self.plans:
            i = self.names.index(plan.statistic.name)
            (where,), _ = table.locate([plan.statistic.name], self._noun)
            column = table.column(where)
            if plan.is_date:  # a period by its name stands at its first day
                days, _, named = day_values(column)
                first = self.attributes[i]._first_days()
                starts = first.take(codes[:, i], mode="clip")  # records to drop, too
                numbers = np.where(named, starts, days)
            else:
                numbers, _ = number_values(column)
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
    plans: dict[Any, StatisticPlan] = {}
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
        plan = StatisticPlan(statistic, part, currency, cost, relation, all_count)
        key: Any = str(statistic)
        if isinstance(statistic, Ratio):
            key = statistic.name, frozenset(statistic.by)
            key = *key, plan.lower, plan.upper, plan.shared_step
        if key in plans:
            plan = replace(plans[key], also=(*plans[key].also, statistic))
        plans[key] = plan
    if len({str(statistic) for statistic in statistics}) < len(statistics):
        raise ParameterError("statistics", "must name each statistic once")
    together = _that_add_up([*plans.values()])
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
    """Return plans with sums together whose groups are made of those of each other."""
    together: list[StatisticPlan] = []
    for plan in sorted(plans, key=lambda plan: -plan.n_groups):
        for i, finer in enumerate(together):
            if finer.adds_up_to(plan):
                together[i] = replace(finer, also=(*finer.also, *plan.statistics))
                break
        else:
            together.append(plan)
    order = [statistic for plan in plans for statistic in plan.statistics]
    return sorted(together, key=lambda plan: min(map(order.index, plan.statistics)))


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
            "must add up to 1 over the tables and all statistics, or to less where "
            "some have none",
            str(1 - left),
        )
    if free:
        at = [replace(plans[i], cost=cost * left) for i in free]
        for i, weight in zip(free, _weights(at), strict=True):
            shares[i] = left * Fraction(weight, SHARES)
    return [cost * part for part in shares]


def unequal(plans: Sequence[StatisticPlan]) -> list[str]:
    """Say which sums and means are not made of the same noisy numbers, but could be."""
    alike: dict[Any, list[str]] = {}
    for statistic in (plan.statistic for plan in plans):
        if isinstance(statistic, Ratio):
            key = statistic.name, frozenset(statistic.by)
            alike.setdefault(key, []).append(str(statistic))
    words = "bounds or steps differ, so that each is measured by itself, and they need"
    sentences = [(titles, f"{words} not agree") for titles in alike.values()]
    sums: dict[str, list[str]] = {}
    for plan in plans:
        first = [each for each in plan.statistics if type(each) is Sum][:1]
        if first:
            sums.setdefault(first[0].name, []).append(str(first[0]))
    words = "each is measured by itself, so that their totals need not agree"
    sentences += [(titles, words) for titles in sums.values() if len({*titles}) > 1]
    return [
        f"{', '.join(titles)}: {words}"
        for titles, words in sentences
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
