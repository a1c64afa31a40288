"""Statistics beside tables: the records they read, and their parts of a budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.domain.values import number_values
from mmech.exceptions import ParameterError
from mmech.noise.system import Rng
from mmech.privacy.ledger import PrivacyLedger
from mmech.release import ledger_or_own
from mmech.session import Session
from mmech.tables.columns import OF_STATISTICS
from mmech.tables.statistic_plans import MeasuredStatistic, StatisticPlan
from mmech.tables.statistics import Statistic

SHARES = 1000
"""What the least part of a budget is a part of, about."""


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
    ) -> Iterator[MeasuredStatistic]:
        """Return what measures the statistics, one after another; not the tables.

        `codes` were made by this domain. A ledger that does not cover statistics and
        tables is charged for neither.
        """
        held = ledger_or_own(ledger, self.plans[0].law, plan.relation)
        held.check_relation(plan.relation)
        held.check(plan.total_cost, currency=plan.currency)
        session = Session(held, noise)
        return (
            own.measure(
                session,
                np.column_stack([self.at_levels(codes, own.statistic.by), codes[:, j]]),
            )
            for j, own in enumerate(self.plans, len(self.names))
        )


def listed(statistics: Any) -> list[Statistic]:
    """Return statistics as a list, or raise."""
    found = list(statistics) if isinstance(statistics, Iterable) else [statistics]
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
        if len(set(owners)) < len(owners) or OF_STATISTICS & {*names}:
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
    for plan in plans:
        plan.check_noise()
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
