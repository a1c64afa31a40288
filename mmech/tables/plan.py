"""What will be measured for tables, and how exact they will be: no record is read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from mmech.arrays import Subset
from mmech.checks import check_choice, check_integer, magnitude, number_of
from mmech.domain.domain import Domain, warn_if_read
from mmech.domain.frames import as_frame
from mmech.error.result import StrategyResult
from mmech.error.shared_totals import as_sets
from mmech.exceptions import ParameterError, UnsupportedWorkloadError, located
from mmech.limits import LIMITS
from mmech.marginals.counts import Counts
from mmech.mechanism import MatrixMechanism
from mmech.noise import OF_CURRENCY
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.marginals import Marginals, Residuals
from mmech.privacy.ledger import PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.storage.codec import storable
from mmech.strategies import optimize
from mmech.structure.spectrum import mean_spectrum
from mmech.tables.columns import OF_TABLES
from mmech.tables.field import FLAT, measured_by
from mmech.tables.intervals import Apart, Intervals
from mmech.tables.known import Known, what_is_known
from mmech.tables.level_weights import hierarchies_strategy, level_strategy
from mmech.tables.levels import Chain, chain_of
from mmech.tables.statistic_plans import StatisticPlan
from mmech.tables.statistics import Statistic
from mmech.tables.whole import divided_tables, topmost_tables
from mmech.threads import one_blas_thread

LEAST_PAIRS = 10
"""Fewer tables of pairs are measured at once: there is little to choose."""

COUNTED = Fraction(1, 50)
"""Share of the budget of a release in steps for the number of records."""

EVALUATIONS = 3000
"""Work of the search for a strategy, in evaluations of the loss: a second or two. Ten
times as many took a quarter of a percent off the error of 91 tables of two of 14
attributes."""


@storable("TablePlan")
@dataclass(frozen=True, eq=False)
class TablePlan:
    """What `release_tables` measures, and the errors to expect; holds no records.

    Made by ``release_tables(None, domain, ..., dry_run=True)``.

    Attributes
    ----------
    domain : Domain
        The attributes that occur in tables.
    names : tuple of str
        What tables are made of: names of attributes, and of levels of them.
    axes : Domain
        An attribute for each of these.
    tables : tuple of tuple of str
        Names of the attributes, or levels, of every table.
    subsets : tuple of tuple of int
        The same as positions in `axes`.
    strategy : StrategyResult
        What is measured.
    currency : {"epsilon", "rho"}
    cost : Fraction
        Of the release, in its currency.
    relation : Relation
        Who is a neighbour.
    policies : dict of str
        What becomes of values outside the domain and of missing ones: the arguments
        of `Domain.encode`.
    frame : str or None
        Kind of frame that tables are returned as.
    adaptive : bool
        Whether tables are measured in steps, each chosen by what was measured.
    statistics : tuple of StatisticPlan
        Statistics that are measured beside tables, from costs of their own.
    known : Known or None
        Public knowledge that tables keep to.

    Examples
    --------
    >>> from mmech import Attribute, Domain, release_tables
    >>> domain = Domain([Attribute.categorical(name, [0, 1, 2]) for name in "abc"])
    >>> plan = release_tables(None, domain, ways=2, epsilon=1, dry_run=True)
    >>> plan.tables
    (('a', 'b'), ('a', 'c'), ('b', 'c'))
    >>> errors = plan.errors(frame="dict")
    >>> errors["table"], errors["cells"], errors["standard_error"].round(2)
    (array(['a x b', 'a x c', 'b x c'], dtype='<U5'), array([9, 9, 9]),
     array([2.35, 2.35, 2.35]))
    """

    domain: Domain
    names: tuple[str, ...]
    subsets: tuple[Subset, ...]
    strategy: StrategyResult
    currency: str
    cost: Fraction
    relation: Relation
    policies: Mapping[str, str]
    frame: str | None = None
    adaptive: bool = False
    statistics: tuple[StatisticPlan, ...] = ()
    known: Known | None = None

    @cached_property
    def axes(self) -> Domain:
        """An attribute for all that tables are made of."""
        return self.domain.by_level().select(self.names)

    @cached_property
    def chain(self) -> Chain | None:
        """The levels of hierarchies with several of them, if there are some."""
        several = len(self.names) > len(self.domain.names)
        return chain_of(self.domain, self.names) if several else None

    def on_axes(self, records: Counts) -> Counts:
        """Return records in cells of the axes, for those of the domain. Sensitive."""
        codes = self.domain.at_levels(records._codes, self.names)
        return Counts._as_given(codes, self.axes.shape, records._multiplicities)

    @property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """Names of the attributes of every table."""
        return tuple(map(self._named, self.subsets))

    def _named(self, subset: Subset) -> tuple[str, ...]:
        order = list(self.domain.levels).index
        return tuple(sorted((self.names[i] for i in subset), key=order))

    @property
    def measured(self) -> list[list[tuple[str, ...]]]:
        """Names of the tables that are measured; those of equal totals together."""
        form: Any = self.strategy.strategy
        sets = as_sets(form) if self.strategy.noise else [[s] for s in form.weights]
        return [list(map(self._named, tables)) for tables in sets]

    def held(self, names: Sequence[str]) -> Subset | None:
        """Return the axes of names that one table holds together, or none."""
        axes = tuple(self.names.index(name) for name in names if name in self.names)
        held = any({*axes} <= {*table} for table in self.subsets)
        return axes if held and len(axes) == len(names) else None

    @property
    def outputs(self) -> list[tuple[str, ...]]:
        """Names that all tables, then all statistics, are written by."""
        return [*self.tables, *((str(statistic),) for _, statistic in self.asked)]

    @property
    def asked(self) -> list[tuple[StatisticPlan, Statistic]]:
        """All statistics, each with what is measured for it."""
        return [(plan, asked) for plan in self.statistics for asked in plan.statistics]

    @property
    def total_cost(self) -> Fraction:
        """Cost of tables and statistics together."""
        return sum((statistic.cost for statistic in self.statistics), self.cost)

    @property
    def drops(self) -> bool:
        """Whether records that do not fit are left out."""
        return "drop" in self.policies.values()

    @property
    def pairs(self) -> tuple[Subset, ...]:
        """Tables of two attributes."""
        return tuple(subset for subset in self.subsets if len(subset) == 2)

    @property
    def terms(self) -> dict[str, Any]:
        """What a ledger is made with."""
        return {"currency": self.currency, **asdict(self.relation)}

    @cached_property
    def single(self) -> StrategyResult:
        """What measures tables of single attributes, of a plan in steps."""
        alone = [(i,) for i in range(len(self.names))]
        return _strategy(self.axes.shape, alone, self.currency, None, None)

    @cached_property
    def blur(self) -> float:
        """Records that noise would misplace in a pair of tables of one attribute.

        If all tables were measured at once. A normal error has a mean magnitude of
        .8 standard deviations.
        """
        sizes = self.axes.shape
        errors = [
            0.8 * n * math.sqrt(self.noise.contrast_variance((i,)))
            for i, n in enumerate(sizes)
        ]
        return 2 * sum(errors) / len(errors)

    def mechanism(
        self, ledger: PrivacyLedger | None = None, insecure_rng: Any = None
    ) -> MatrixMechanism:
        """Return the mechanism that measures the tables, all of them."""
        cost = self.cost * (1 - COUNTED) if self.adaptive else self.cost
        options: dict[str, Any] = {self.currency: cost, **asdict(self.relation)}
        paid = {"ledger": ledger, "insecure_rng": insecure_rng}
        workload = _workload(self.axes.shape, _unknown(self.subsets, self.known))
        return MatrixMechanism(workload, self.strategy, **options, **paid)

    @property
    def told_apart(self) -> bool:
        """Whether each table is told by one hierarchy: no others are measured."""
        weights = {*getattr(self.strategy.strategy, "weights", {})}
        together = {*self.chain.measured(self.subsets)} if self.chain else weights
        return bool(self.chain and self.strategy.noise) or together != weights

    @cached_property
    def noise(self) -> Intervals:
        """The law of the errors of the tables; in steps, if all are measured."""
        mechanism, known, closed = self.mechanism(), {}, {}
        chain = self.chain or FLAT
        if self.chain and self.told_apart:
            law, measured = OF_CURRENCY[self.currency], measured_by(mechanism)
            return Apart(law, self.axes.shape, measured, self.chain, self.subsets)
        if self.known is not None:
            known = dict(self.known.tables)
            form: Any = mechanism.released.form
            closed = self.known.zeros_of(self.subsets, form.weights, chain)
        return Intervals([mechanism], known, closed, chain)

    @property
    def squared_error(self) -> float:
        """Expected squared errors of an average cell, of all tables together."""
        variances = map(self.noise.variances, self.subsets)
        return float(sum(variance.mean() for variance in variances))

    @one_blas_thread()
    def errors(self, *, frame: str | None = None) -> Any:
        """Return the errors to expect, one row per table and statistic.

        They are those of the unbiased estimates that intervals are made of, and known
        before any record is read. A plan in steps tells those of the case that all
        tables are measured. Published counts are closer where there are many
        small ones, because they are also non-negative, and agree with each other.

        Parameters
        ----------
        frame : {"pandas", "polars", "pyarrow", "dict"}, default=None
            Kind of frame; ``None`` is pandas where it is installed.

        Returns
        -------
        frame
            ``table``, ``cells``, ``standard_error``, and half the width of intervals,
            ``half_width_90`` and ``half_width_95``, in the ``unit``. Quantiles have no
            half widths: they differ from place to place.
        """
        sizes = self.axes.shape
        rows: list[tuple[Any, ...]] = []
        for names, subset in zip(self.tables, self.subsets, strict=True):
            cells, law = product_of(sizes[i] for i in subset), self.noise.law(subset)
            widths = law.half_width(0.90), law.half_width(0.95)
            error = law.standard_error, *widths
            rows.append((" x ".join(names), cells, *error, "records"))
        for plan, statistic in self.asked:
            rows.append((str(statistic), *statistic.expected(plan), statistic.unit))
        columns = ["table", "cells", "standard_error", "half_width_90"]
        columns += ["half_width_95", "unit"]
        arrays = map(np.array, zip(*rows, strict=True))
        return as_frame(dict(zip(columns, arrays, strict=True)), frame or self.frame)

    @classmethod
    def _stored(cls) -> dict[str, str]:
        names = ["domain", "tables", "strategy", "currency", "cost", "relation"]
        names += ["policies", "frame", "adaptive", "statistics", "known"]
        return {name: name for name in names}

    @classmethod
    def _restored(cls, *, statistics: Any, **facts: Any) -> TablePlan:
        if facts["policies"].keys() != {"handle_unknown", "handle_missing"}:
            raise ValueError("other policies")
        plan = make_plan(ways=None, callback=None, **facts)
        return replace(plan, statistics=statistics)

    @property
    def sizes(self) -> tuple[str, str]:
        """How many tables there are, and of how many attributes, in words."""
        return (
            number_of(len(self.subsets), "table"),
            number_of(len(self.names), "attribute"),
        )

    def __repr__(self) -> str:
        return (
            f"TablePlan({' of '.join(self.sizes)}, {self.currency}={self.total_cost})"
        )


def read_domain(domain: Any) -> Domain:
    """Return a domain, read from its file where that is given."""
    if isinstance(domain, Domain):
        return domain
    if not isinstance(domain, (str, os.PathLike, Mapping)):
        raise TypeError(
            f"domain must be a Domain, or a file of one, got {type(domain).__name__}; "
            "give the records first and the domain second, and see Domain.from_json"
        )
    shown = os.fspath(domain) if isinstance(domain, os.PathLike) else domain
    with located(f"cannot use the domain {shown!r:.60}"):
        return Domain.from_json(domain)


def make_plan(
    domain: Domain,
    *,
    ways: Any,
    tables: Any,
    currency: str,
    cost: Fraction,
    relation: Relation,
    policies: Mapping[str, str],
    frame: str | None,
    callback: Callable[[StrategyResult], Any] | None,
    strategy: StrategyResult | None = None,
    adaptive: bool | None = None,
    known: Any = None,
    impossible: Any = (),
) -> TablePlan:
    """Check what is asked for, and choose what to measure unless it is given."""
    warn_if_read(domain, "domain")
    asked = _asked(domain, ways, tables)
    owners = list(domain.levels.values())
    used = sorted({i for subset in asked for i in subset})
    first = {owners[i]: i for i in reversed(used)}
    used.sort(key=lambda i: (i > first[owners[i]], i))  # lower levels come last
    names = tuple(list(domain.levels)[i] for i in used)
    used_domain = Domain(
        tuple(a for a in domain.attributes if a.name in first),
        name=domain.name,
        read_from_records=domain.read_from_records,
    )
    subsets = tuple(tuple(sorted(map(used.index, subset))) for subset in asked)
    axes = domain.by_level().select(names)
    chain = chain_of(used_domain, names) if len(names) > len(first) else None
    made = [*subsets]  # and what counts of nodes are divided by
    for hierarchy, families in divided_tables(chain, subsets) if chain else ():
        made += [(*family, hierarchy.axes[-1]) for family in families]
    _check_cells(names, axes.shape, made, chain)
    facts = None
    if known or impossible:  # with levels, about the topmost ones: all others follow
        flat = subsets if chain is None else topmost_tables(chain, subsets)
        lower = chain.lower if chain else set()
        upper = axes.select(names[: len(names) - len(lower)])
        facts = what_is_known(known or {}, impossible, upper, flat)
    if strategy is None and chain is not None:
        wanted = chain, axes.shape, subsets, currency
        strategy = (
            level_strategy(*wanted)
            if facts
            else hierarchies_strategy(
                *wanted, lambda part: _strategy(axes.shape, part, currency, None, None)
            )
        )
    if strategy is None:  # plans of one choice are equal: without seconds
        chosen = _strategy(axes.shape, subsets, currency, callback, facts)
        strategy = replace(chosen, candidates=())
    if adaptive is None:
        listed = facts or (ways is None and not isinstance(tables, str))
        pairs = sum(len(subset) == 2 for subset in subsets)
        many = pairs >= LEAST_PAIRS and max(map(len, subsets)) == 2
        adaptive = not listed and chain is None and many
    plan = TablePlan(
        used_domain,
        names,
        subsets,
        strategy,
        currency,
        cost,
        relation,
        policies,
        frame,
        adaptive,
        known=facts,
    )
    if plan.chain and not plan.told_apart:
        _check_cells(names, axes.shape, plan.chain.measured(subsets), plan.chain)
    if facts and facts.rules:
        _ = plan.noise  # what is too large for it is refused before it is paid for
    return plan


def _strategy(
    sizes: tuple[int, ...],
    subsets: Sequence[Subset],
    currency: str,
    callback: Callable[[StrategyResult], Any] | None,
    known: Known | None,
) -> StrategyResult:
    """Return what measures marginals: of equal totals where it can, or weighted.

    Equal totals have at most the loss of weighted tables: Laplace noise for each
    attribute is one of their choices.
    """
    workload: QueryMatrix = _workload(sizes, _unknown(subsets, known))
    if known and known.exact:  # what is known needs no budget
        asked = mean_spectrum(workload, sizes) or {}
        left = {s: math.sqrt(v) for s, v in asked.items() if s not in known.exact}
        workload = Residuals(sizes, left)
    pure = currency == "epsilon"
    if pure and not (known and known.rules):
        with suppress(UnsupportedWorkloadError):
            result = optimize(workload, template="equal_totals", callback=callback)
            weights: Any = result.strategy
            if len({*weights.weights.values()}) < len(weights.weights):
                return result  # or else every set is one weighted table
    return optimize(
        workload,
        template="marginals",
        privacy=OF_CURRENCY[currency].privacy,
        seed=0,
        callback=callback,
        **({"max_evaluations": EVALUATIONS} if pure else {}),
    )


def _unknown(subsets: Sequence[Subset], known: Known | None) -> list[Subset]:
    """Return the tables that are measured."""
    return [subset for subset in subsets if not (known and subset in known.exact)]


def _workload(sizes: tuple[int, ...], subsets: Sequence[Subset]) -> Marginals:
    return Marginals(sizes, dict.fromkeys(subsets, 1))


def _asked(domain: Domain, ways: Any, tables: Any) -> list[Subset]:
    """Return the sets of attributes of all tables, sorted, none of them twice."""
    names, owners = tuple(domain.levels), list(domain.levels.values())
    for name in names:
        if name in OF_TABLES:
            raise ParameterError(
                "domain",
                f"must not have an attribute called {name!r}, which is a column of "
                "every table",
                remedy="rename it",
            )
    if (ways is None) == (tables is None):
        raise TypeError("pass either ways= or tables=, such as ways=2")
    if isinstance(tables, str) and tables == "auto":
        ways = range(1, min(2, len(domain.names)) + 1)
    if ways is not None:
        chosen = []
        for size in ways if isinstance(ways, Iterable) else [ways]:
            number = check_integer(size, "ways")
            if number > len(domain.names):
                raise ParameterError(
                    "ways",
                    f"must be at most {len(domain.names)}, the number of attributes",
                    number,
                )
            chosen += [
                subset  # levels of a hierarchy are not crossed with each other
                for subset in combinations(range(len(names)), number)
                if len({owners[i] for i in subset}) == number
            ]
    else:
        if isinstance(tables, (str, Mapping)) or not isinstance(tables, Iterable):
            raise TypeError(
                "tables must be a list of tables, each a list of names of attributes, "
                f'such as [("age", "sex")], or "auto", got {tables!r:.60}'
            )
        chosen = [_positions(domain, table) for table in tables]
    if not chosen:
        raise ParameterError("tables", "must name at least one table", remedy="add one")
    return list(dict.fromkeys(chosen))


def listed_tables(domain: Domain, ways: Any) -> list[tuple[str, ...]]:
    """Return all tables of so many attributes, or of one and two: listed, for all."""
    names = tuple(domain.levels)
    asked = _asked(domain, ways, None if ways else "auto")
    return [tuple(names[i] for i in subset) for subset in asked]


def _check_cells(
    names: Sequence[str],
    sizes: Sequence[int],
    tables: Sequence[Subset],
    chain: Chain | None,
) -> None:
    """Raise for tables that are too large."""
    for subset in tables:
        limit = chain.most_cells(subset) if chain else LIMITS.published_cells
        cells = product_of(sizes[i] for i in subset)
        if cells > limit:
            largest = max(subset, key=lambda i: sizes[i])
            raise ParameterError(
                "tables",
                f"must have at most {limit:,} cells each, but "
                f"{', '.join(names[i] for i in subset)} has {magnitude(cells)}",
                remedy=(
                    f"give {names[largest]!r}, which has {sizes[largest]:,} "
                    "values, coarser ones, such as groups or wider bins",
                    "take fewer attributes",
                ),
            )


def _positions(domain: Domain, table: Any) -> Subset:
    """Return the sorted positions of the attributes of a table."""
    given: list[Any] = [table] if isinstance(table, (str, int)) else list(table)
    names = tuple(domain.levels)
    for name in given:
        check_choice(name, "an attribute of a table", names)
    if not given or len({domain.levels[name] for name in given}) < len(given):
        raise ParameterError(
            "tables",
            "must name one attribute or more in every table, each once and at one "
            "level",
            tuple(given),
        )
    return tuple(sorted(names.index(name) for name in given))
