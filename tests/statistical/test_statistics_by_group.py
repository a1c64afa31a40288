"""Intervals of statistics hold as often as they say, in small groups, too.

A release has 1,000 groups with the same records and noise of their own, so that it is
as good as 1,000 releases. Noise comes from the operating system. The tests together
raise a false alarm with a probability of about 1e-4, by the exact binomial law.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from mmech import Attribute, Counts, Domain, PrivacyLedger, release_tables
from mmech.audit import epsilon_lower_bound
from mmech.privacy.neighbours import Relation
from mmech.session import Session
from mmech.tables import Histogram, Mean, Quantiles, StandardDeviation, Sum
from mmech.tables.statistic_plans import (
    MeasuredStatistic,
    StatisticPlan,
    plan_statistics,
)
from mmech.tables.statistics import TableCounts

pytestmark = pytest.mark.statistical

COPIES = 1000
SIZES = {"few": 2, "some": 25, "many": 400}
DOMAIN = Domain(
    [
        Attribute.categorical("copy", range(COPIES)),
        Attribute.ordinal("size", list(SIZES)),
        Attribute.numeric("x", lower=-10, upper=30, n_bins=4, integer=True),
    ]
)
RISK = 1e-6


def group(size):
    """Return numbers of a skewed law, some beyond the bounds."""
    rng = np.random.default_rng(SIZES[size])
    return np.rint(rng.exponential(12, SIZES[size]) - 5)


def truth(statistic, size):
    numbers = np.clip(group(size), -10, 30)
    if isinstance(statistic, Mean):
        return [numbers.mean()]
    if isinstance(statistic, StandardDeviation):
        return [numbers.std()]
    if isinstance(statistic, Sum):
        return [numbers.sum()]
    if isinstance(statistic, Histogram):
        return np.bincount(np.searchsorted([0, 10, 20], numbers), minlength=4)
    return np.quantile(numbers, statistic.probabilities, method="inverted_cdf")


def records():
    rows = [(s, x) for s, size in enumerate(SIZES) for x in group(size)]
    s, x = map(np.array, zip(*rows, strict=True))
    copies = np.repeat(np.arange(COPIES), len(rows))
    sizes = np.array(list(SIZES))[np.tile(s, COPIES)]
    return {"copy": copies, "size": sizes, "x": np.tile(x, COPIES)}


@pytest.mark.by_day(4)
@pytest.mark.parametrize("level", [0.9, 0.99])
@pytest.mark.parametrize(
    ("cost", "neighbours"),
    [({"epsilon": 1}, "add_remove"), ({"rho": "1/8"}, "replace")],
    ids=["epsilon", "rho"],
)
@pytest.mark.parametrize(
    "kind", [Mean, Sum, StandardDeviation, Histogram, Quantiles, "both"]
)
def test_intervals_hold_as_often_as_they_say(kind, cost, neighbours, level):
    own = {"step": 10} if kind is Histogram else {}
    both, kind = kind == "both", Sum if kind == "both" else kind
    statistic = kind("x", by=("copy", "size"), **own)
    asked = [statistic, Mean("x", by=statistic.by)][: 1 + both]
    plan = release_tables(
        None, DOMAIN, tables=["size"], dry_run=True, neighbours=neighbours, **cost
    )
    reading, _ = plan_statistics(asked, DOMAIN, plan)
    codes, _ = reading._encode(
        records(), None, narrow=True, handle_unknown="clip", handle_missing="error"
    )
    ledger = PrivacyLedger(9, currency=plan.currency, neighbours=neighbours)
    places = codes[:, [*map(reading.names.index, statistic.by), -1]]
    measured = reading.plans[0].measure(Session(ledger), places)
    own = MeasuredStatistic(reading.plans[0], *measured)
    columns = own.columns(level, {own.plan.tables[0]: TableCounts(len(codes))})
    for size in SIZES:
        exact = np.asarray(truth(statistic, size))
        at = columns["size"] == size
        low, high = (columns[end][at].reshape(COPIES, -1) for end in ("lower", "upper"))
        held = ((low - 1e-9 <= exact) & (exact <= high + 1e-9)).sum(axis=0)
        assert (held >= binom.ppf(RISK, COPIES, level)).all(), (size, held)
        if kind in (Mean, Sum, Histogram) and size == "many":  # and not far too often
            most = binom.isf(RISK, COPIES, level + (1 - level) / 3)
            assert (held <= most).all(), (size, held)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cost", [{"epsilon": 2}, {"rho": 0.3}, {"epsilon": "1/20"}], ids=str
)
def test_intervals_by_levels_hold_as_often_as_they_say(cost):
    """Every top node is a run: it tells of its groups, and the others tell nothing."""
    tree = {
        f"{i}": {f"{i}a": [f"{i}a1", f"{i}a2", f"{i}a3"], f"{i}b": [f"{i}b1"]}
        for i in range(COPIES)
    }
    rng = np.random.default_rng(1)
    ranges = [(-5, 21, 40), (0, 5, 3), (10, 21, 200), (-5, 0, 25)]
    numbers = [rng.integers(*own) for own in ranges]
    cells = [len(own) for own in numbers]
    leaves = np.array([f"{i}{leaf}" for i in tree for leaf in ("a1", "a2", "a3", "b1")])
    records = {
        "place": leaves.repeat(cells * COPIES),
        "x": np.tile(np.concatenate(numbers), COPIES),
    }
    x = Attribute.numeric("x", lower=-5, upper=20, n_bins=2, integer=True)
    domain = Domain([Attribute.hierarchy("place", tree, ["copy", "part"]), x])
    levels = {
        "place": [[0], [1], [2], [3]],
        "part": [[0, 1, 2], [3]],
        "copy": [range(4)],
    }
    exact = {Mean: np.mean, Sum: np.sum, StandardDeviation: np.std}
    asked = [kind("x", by=by) for by in levels for kind in exact]
    released = release_tables(
        records, domain, tables=["copy"], statistics=asked, **cost
    )
    assert len(released.statistics) == 1
    for own in asked:
        table = released.statistic(own, level=0.9, frame="dict")
        low, high = (table[end].reshape(COPIES, -1) for end in ("lower", "upper"))
        groups = [np.concatenate([numbers[j] for j in g]) for g in levels[own.by[0]]]
        truth = np.array([exact[type(own)](group) for group in groups])
        held = ((low - 1e-9 <= truth) & (truth <= high + 1e-9)).sum(axis=0)
        assert (held >= binom.ppf(RISK, COPIES, 0.9)).all(), (own, held)
        if type(own) is Sum:
            assert (held <= binom.isf(RISK, COPIES, 0.93)).all(), (own, held)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize(
    "kinds",
    [(Mean, Sum), (Sum,), (StandardDeviation, Mean)],
    ids=["joint", "alone", "squares"],
)
def test_one_more_record_shows_what_it_costs(kinds, place):
    """Each group is a run; bounds at 1 - 1e-7 refute what is spent once in 1e7.

    One record takes all of the budget at any place of a joint measurement. So does the
    largest number, in magnitude, of a sum by itself. The bound is .8 there, ten
    standard errors above .5.
    """
    x = Attribute.numeric("x", lower=-6, upper=6, n_bins=2, integer=True)

    def release(data, runs):
        domain = Domain([x, Attribute.categorical("run", range(runs))])
        asked = [kind("x", by="run", step=4) for kind in kinds]
        relation = Relation()
        plan = StatisticPlan(
            asked[0], domain, "epsilon", Fraction(1), relation, True, (*asked[1:],)
        )
        run = np.repeat(np.arange(runs), len(data))
        codes = np.column_stack([run, np.tile(np.array(data, np.int64), runs)])
        return plan.measure(Session(PrivacyLedger(1)), codes)[0].values.T

    found = epsilon_lower_bound(
        release, [1, 2], [1, 2, place], runs=20_000, confidence=1 - 1e-7
    )
    assert not found.refutes(1.0)
    if len(kinds) == 2 or place == 0:
        assert found.refutes(0.5)


@pytest.mark.slow
def test_intervals_hold_where_the_number_of_records_is_public(monkeypatch):
    laws, law = {}, StatisticPlan.error_law

    def same(plan, *weights):  # public, and so the same for all copies
        key = (plan, *weights)
        if key not in laws:
            laws[key] = law(plan, *weights)
        return laws[key]

    monkeypatch.setattr(StatisticPlan, "error_law", same)
    domain = DOMAIN.select(["x"])
    asked = [Mean("x"), Sum("x")]
    plan = release_tables(
        None, domain, ways=1, epsilon=1, neighbours="replace", dry_run=True
    )
    reading, _ = plan_statistics(asked, domain, plan)
    cells, _ = reading._encode(
        {"x": group("some")}, None, narrow=True, handle_unknown="clip",
        handle_missing="error",
    )  # fmt: skip
    codes = Counts(cells, reading.sizes)
    held = np.zeros(2)
    for _ in range(COPIES):
        ledger = PrivacyLedger(9, neighbours="replace")
        (own,) = reading.measure(codes, plan, ledger, None)
        for j, statistic in enumerate(asked):
            columns = own.columns(0.9, statistic=statistic)
            exact = truth(asked[j], "some")[0]
            held[j] += columns["lower"][0] <= exact <= columns["upper"][0]
    assert (held >= binom.ppf(RISK, COPIES, 0.9)).all(), held
    assert (held <= binom.isf(RISK, COPIES, 0.93)).all(), held
