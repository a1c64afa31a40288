"""Statistics of numbers by group: what they cost, their intervals, their files."""

import itertools
import json
import math
import re
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import reference
from replay import People, check_neighbours, same, watched
from scipy.stats import binom

import mmech as mm
from mmech import verify
from mmech.domain.csv_files import read_cells
from mmech.privacy.neighbours import Relation
from mmech.session import Session
from mmech.tables import Histogram, Mean, Quantiles, StandardDeviation, Sum
from mmech.tables.files import Sheet, write_files
from mmech.tables.published import _sheets
from mmech.tables.rounding import divided
from mmech.tables.statistic_plans import (
    MeasuredStatistic,
    ReadDomain,
    StatisticPlan,
    unequal,
)
from mmech.tables.statistics import CumulativeErrors, TableCounts

DOMAIN = mm.Domain(
    [
        mm.Attribute.categorical("sex", ["f", "m"]),
        mm.Attribute.numeric("age", lower=0, upper=90, n_bins=3, integer=True),
        mm.Attribute.numeric("pay", cut_points=[10, 20]),
    ]
)
ALL = [
    Mean("age", by="sex"),
    Mean("age"),
    Sum("pay", by="sex", lower=-10, upper=30),
    Histogram("pay", lower=0, upper=30, step=15, by="sex"),
    Quantiles("age", [0.5], by="sex", step=10),
    Sum("age"),
    StandardDeviation("pay", by="sex", lower=0, upper=30),
]
SMALL = mm.Domain(
    [
        mm.Attribute.numeric("x", lower=-1, upper=5, n_bins=2),
        mm.Attribute.categorical("g", [0, 1]),
    ]
)
RELATIONS = [("add_remove", 1), ("replace", 1), ("add_remove", 2)]


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    ages = rng.integers(0, 91, n).tolist()
    pays = rng.exponential(12, n).round(2).tolist()
    return [[s, a, p] for s, a, p in zip(rng.choice(["f", "m"], n), ages, pays)]  # noqa: B905


def made(statistic, domain=DOMAIN, **options):
    """Return the plan of one statistic."""
    given = {"ways": 1, "epsilon": 1, "dry_run": True, **options}
    (own,) = mm.release_tables(None, domain, statistics=[statistic], **given).statistics
    return own


# ---- what one record changes ---------------------------------------------------------


def planned(asked, domain=SMALL, currency="epsilon", cost=1, relation=None, also=()):
    relation = relation or Relation()
    cost = Fraction(cost)
    return StatisticPlan(asked, domain, currency, cost, relation, True, also)


def measured(plan, codes):
    relation = plan.relation
    terms = {name: getattr(relation, name) for name in relation.__dataclass_fields__}
    ledger = mm.PrivacyLedger(math.inf, currency=plan.currency, **terms)
    measured = plan.measure(Session(ledger), np.array(codes, np.int64))
    return MeasuredStatistic(plan, *measured)


def drawn_exactly(plan, codes):
    """Return what is measured without noise, and the one draw of it."""
    draws = []
    with watched(lambda draw, sample: (draws.append(draw), draw.exact)[1]):
        found = measured(plan, codes)
    (draw,) = draws
    return found, draw


def seen_exactly(plan, codes):
    """Return the exact values that noise is added to, and the entry that pays."""
    _, draw = drawn_exactly(plan, np.reshape(codes, (-1, 2)))
    return draw.exact.copy(), draw.public["entry"].sensitivity


def largest_change(plan, data_sets, records):
    """Return the most that one more record changes, and the sensitivity."""
    largest = 0.0
    for before in data_sets:
        exact, sensitivity = seen_exactly(plan, before)
        for new in records:
            other, _ = seen_exactly(plan, [*before, new])
            norm = np.linalg.norm((other - exact).ravel(), plan.law.power)
            assert norm <= sensitivity + 1e-12
            largest = max(largest, norm)
    return largest, sensitivity


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kind", ["Mean", "Sum", "both", "deviation", "all"])
@pytest.mark.parametrize("cost", ["epsilon", "rho"])
def test_every_small_neighbour_changes_sums_by_their_sensitivity_at_most(kind, cost):
    """All data sets of up to two records, and all that have one more."""
    mean, total, deviation = (
        own("x", by="g", lower=-2, upper=4, step=2)
        for own in (Mean, Sum, StandardDeviation)
    )
    kinds = {"Sum": [total], "both": [mean, total], "deviation": [deviation]}
    kinds |= {"Mean": [mean], "all": [total, mean, deviation]}
    own, *also = kinds[kind]
    own = planned(own, SMALL, cost, also=tuple(also))
    rows, most = {"Sum": (1, 2), "deviation": (3, 9), "all": (3, 9)}.get(kind, (2, 3))
    assert own.n_steps == 3
    assert seen_exactly(own, [])[0].shape == (rows, 2)
    records = list(itertools.product(range(2), range(4)))
    each = (itertools.combinations_with_replacement(records, n) for n in range(3))
    found = largest_change(own, itertools.chain.from_iterable(each), records)
    assert found == (most, most)


@pytest.mark.parametrize(("neighbours", "persons"), RELATIONS)
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_errors_are_those_of_the_noise_that_is_drawn(neighbours, persons, currency):
    asked, relation = Mean("x", by="g", step=2), Relation(neighbours, persons)
    own = planned(asked, SMALL, currency, relation=relation)
    found, draw = drawn_exactly(own, [[1, 2]])
    (parameter,) = {*draw.public["parameters"]}
    variance = float(own.law.variance(parameter))
    law = found.plan.error_law((0,), 1.0, 0.0)
    assert law.standard_error**2 == pytest.approx(variance)


def test_a_sum_without_a_mean_has_a_row_of_its_own():
    """Distances from both bounds cost 42 % more from 90 to 100, and at most as much."""
    for lower, upper in ((-1, 5), (90, 100), (-100, 20)):
        bounds = {"lower": lower, "upper": upper}
        own = planned(Sum("x", **bounds))
        both = planned(Sum("x", **bounds), also=(Mean("x", **bounds),))
        row = own.law.continuous(own.cost)  # a record counts the largest number at most
        assert own.squared_error == pytest.approx(row)
        ratio = (lower**2 + upper**2) / max(lower**2, upper**2)
        assert both.squared_error == pytest.approx(row * (ratio + 1))
        largest = max(abs(lower), abs(upper))
        error = math.sqrt(own.statistic.squared_error(own))
        assert error == pytest.approx(largest * math.sqrt(row))


def test_a_deviation_costs_counts_22_and_means_12_percent_and_agrees_with_them():
    """All three are one measurement, if bounds and steps are the same."""
    also = [Mean("age", by="sex"), StandardDeviation("age", by="sex"), ALL[5]]
    options = {"tables": ["pay"], "statistics": also, "epsilon": 10**9}
    released = mm.release_tables(people(60), DOMAIN, **options)
    both, _ = (own.plan for own in released.statistics)
    assert [str(own) for own in both.statistics] == [str(own) for own in also[:2]]
    alone = replace(both, also=())
    assert both.unit == both.n_steps**2
    for weights, more in (((1, 1), 3 / 2), ((1, 0), 5 / 4)):
        least, most = (
            own.error_law((0,), *own.of_distances(*weights)).standard_error
            for own in (alone, both)
        )
        assert most**2 == pytest.approx(more * least**2, rel=0.01)
    mean, deviation = (released.statistic(own) for own in also[:2])
    ages = pd.DataFrame(people(60), columns=DOMAIN.names).groupby("sex")["age"]
    assert deviation["count"].tolist() == mean["count"].tolist()
    assert mean["mean"].tolist() == pytest.approx(ages.mean().tolist())
    exact = ages.std(ddof=0).tolist()
    assert deviation["standard_deviation"].tolist() == pytest.approx(exact)


def test_a_deviation_lies_between_zero_and_all_numbers_at_bounds():
    """Noisy variances of equal numbers are negative in a part of 200 groups."""
    copies = mm.Attribute.categorical("g", range(200))
    domain = mm.Domain([SMALL.attributes[0], copies])
    plan = planned(StandardDeviation("x", by="g", step=2), domain)
    for places, exact in (([1], 0), ([0, 3], 3)):
        codes = [[g, place] for g in range(200) for place in places * 60]
        made = measured(plan, codes).columns(0.95)
        found = made["standard_deviation"]
        assert 0 <= np.nanmin(found) <= np.nanmax(found) <= 3
        assert np.nanmedian(abs(found - exact)) < 0.7
        if not exact:  # a share of about a half, with a false alarm below 1e-9
            assert 40 < (found == 0).sum() < 160
        held = (made["lower"] <= exact) & (exact <= made["upper"])
        assert held.sum() >= binom.ppf(1e-9, 200, 0.95)


def test_a_public_total_halves_what_a_replaced_record_changes():
    own = made(Sum("x", step=2), SMALL, neighbours="replace")
    assert own.total_is_public
    values = []
    for place in (0, 3):
        found, draw = drawn_exactly(own, [[place]])
        values.append(int(draw.exact[0]))
        assert found.n_records == 1
        assert found.columns(0.9)["sum"].tolist() == [-1 + 2 * place]
    assert abs(values[1] - values[0]) == 6 == draw.public["entry"].sensitivity
    assert not made(Sum("x", by="g"), SMALL, neighbours="replace").total_is_public
    dropping = {"neighbours": "replace", "handle_missing": "drop"}
    assert not made(Sum("x"), SMALL, **dropping).total_is_public
    bins = made(Histogram("x", step=2), SMALL, neighbours="replace", epsilon=10**9)
    assert measured(bins, [[2]]).columns(0.9)["upper"].tolist() == [0, 0, 1]
    assert not made(Sum("x"), SMALL).total_is_public


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("neighbours", "persons"), RELATIONS)
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_a_neighbour_is_paid_for_and_sees_the_same(neighbours, persons, currency):
    """Every draw is replayed to neighbours, and costs what its entry says."""
    terms = {"neighbours": neighbours, "records_per_person": persons}
    cost = {currency: Fraction(1)}

    def run(own, ledger):
        released = mm.release_tables(
            own.X, DOMAIN, ways=1, statistics=ALL, ledger=ledger, **cost, **terms
        )
        columns = [own.columns(0.9) for own in released.statistics]
        shown = [{k: v.tolist() for k, v in one.items()} for one in columns]
        return json.dumps(shown), released.statement

    rows = [["f", 3.0, 2.0], ["m", 90.0, 31.5], ["f", 41.0, -8.0], ["m", 77.0, 12.0]]
    before = People.of(np.array(rows, object), np.zeros(4, int))
    new = ("m", 90.0, 400.0)
    if neighbours == "replace":
        others = [before.replaced(0, new, 0), before.replaced(3, ("f", 0.0, -99.0), 0)]
    else:
        others = [before.without(0), before.and_of(new, 0)]
        if persons == 2:
            others.append(before.without(0).without(0))
    tape, losses = check_neighbours(run, before, others, cost, **terms)
    assert sum(entry.cost for entry in tape.entries) == 1
    apart = neighbours == "replace"  # where the number of records is public
    assert len(tape.entries) == len(ALL) - 1 + apart  # one measurement of all ages
    assert max(losses) > 0


def test_who_has_no_number_is_not_counted_beside_the_measurement():
    """A replaced record may have none, where missing numbers are a category."""
    domain = mm.Domain([mm.Attribute.numeric("x", lower=0, upper=5, other="none")])
    cost, terms = {"epsilon": 1}, {"neighbours": "replace"}

    def run(own, ledger):
        released = mm.release_tables(
            own.X, domain, ways=1, statistics=[Sum("x")], ledger=ledger, **cost,
            **terms, handle_missing="category", handle_unknown="clip",
        )  # fmt: skip
        (found,) = released.statistics
        return found.n_records, found.columns(0.9)["sum"].tolist()

    before = People.of(np.array([[3.0], [1.0]], object), np.zeros(2, int))
    none = before.replaced(0, (None,), 0)
    check_neighbours(run, before, [none], cost, **terms)


# ---- numbers -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_median_that_is_met_exactly_is_not_passed():
    domain = mm.Domain([mm.Attribute.numeric("x", lower=0, upper=90, integer=True)])
    plan = {"statistics": [Quantiles("x", 0.5)], "ways": 1, "epsilon": 10**9}
    rng = np.random.default_rng(0)
    for _ in range(8):  # estimates of three of them are an ulp too small
        values = rng.integers(0, 91, 4 * int(rng.integers(2, 60)))
        found = mm.release_tables(values[:, None], domain, **plan)
        lower = np.sort(values)[len(values) // 2 - 1]
        assert found.statistic("quantiles of x")["quantile"][0] == pytest.approx(lower)


def test_at_a_huge_budget_statistics_are_those_of_clipped_numbers():
    rows = people(400)
    frame = pd.DataFrame(rows, columns=DOMAIN.names)
    asked = {"ways": 1, "statistics": [*ALL, Histogram("age", step=30)]}
    released = mm.release_tables(frame, DOMAIN, **asked, epsilon=10**9)
    by = frame.groupby("sex")
    means = released.statistic(ALL[0])
    assert means["sex"].tolist() == ["f", "m"]
    assert means["mean"].tolist() == pytest.approx(by["age"].mean().tolist())
    assert (means["lower"] <= means["mean"]).all()
    assert (means["mean"] <= means["upper"]).all()
    deviations = released.statistic(ALL[6])["standard_deviation"].tolist()
    places = (frame["pay"].clip(0, 30) / 0.03).round() * 0.03
    exact = places.groupby(frame["sex"]).std(ddof=0)
    assert deviations == pytest.approx(exact.tolist())
    mean = released.statistic("mean of age")["mean"][0]
    assert mean == pytest.approx(frame["age"].mean())
    clipped = frame["pay"].clip(-10, 30)
    places = ((clipped + 10) / 4e-5).round()  # a million steps of the range
    sums = (places * 4e-5 - 10).groupby(frame["sex"]).sum()
    found = released.statistic(str(ALL[2]))["sum"].tolist()
    assert found == pytest.approx(sums.tolist())
    bins = released.statistic(ALL[3])
    assert bins["pay"].tolist() == ["[0, 15]", "(15, 30]"] * 2
    assert bins["count"].tolist() == [
        int(((frame["sex"] == sex) & ((frame["pay"] > 15) == high)).sum())
        for sex, high in itertools.product("fm", (False, True))
    ]
    medians = by["age"].apply(
        lambda own: np.sort(np.rint(own / 10) * 10)[math.ceil(len(own) / 2) - 1]
    )
    assert released.statistic(ALL[4])["quantile"].tolist() == medians.tolist()
    histogram = released.statistic("histogram of age")
    assert histogram["count"].tolist() == released.table("age")["count"].tolist()


def test_groups_may_be_nodes_of_a_level():
    place = mm.Attribute.hierarchy("city", {"N": ["a", "b"], "S": ["c"]}, ["region"])
    domain = mm.Domain([*DOMAIN.attributes, place])
    rng = np.random.default_rng(3)
    cities = rng.choice(["a", "b", "c"], 300)
    records = [[*own, city] for own, city in zip(people(300), cities, strict=True)]
    asked = [Mean("age", by=("region", "sex")), Quantiles("age", [0.37], by="region")]
    asked += [Histogram("age", by="city", step=30)]
    for tables in (["sex"], [("region", "sex"), ("city",)]):
        released = mm.release_tables(
            records, domain, tables=tables, statistics=asked, rho=1e9
        )
        frame = pd.DataFrame(records, columns=list(domain.names))
        frame["region"] = np.where(frame["city"] == "c", "S", "N")
        means = released.statistic(asked[0])
        exact = frame.groupby(["region", "sex"])["age"].mean().to_numpy()
        np.testing.assert_allclose(means["mean"], exact, atol=1e-3)
        assert means["region"].tolist() == ["N", "N", "S", "S"]
        medians = [
            np.quantile(own, 0.37, method="inverted_cdf")
            for _, own in frame.groupby("region")["age"]
        ]
        assert released.statistic(asked[1])["quantile"].tolist() == medians
        counts = released.statistic(asked[2]).groupby("city")["count"].sum()
        assert counts.tolist() == [np.sum(cities == own) for own in "abc"]


def test_groups_without_records_have_a_sentence():
    rows = [["f", 50, 1.0]] * 2000
    asked = [Mean("age", by="sex"), Quantiles("age", by="sex"), Mean("age")]
    released = mm.release_tables(rows, DOMAIN, ways=1, statistics=asked, epsilon=5)
    for statistic, value in ((asked[0], "mean"), (asked[1], "quantile")):
        table = released.statistic(statistic, level=1 - 1e-9)
        empty = table[table["sex"] == "m"]
        assert empty[value].isna().all()
        assert (empty["lower"] == 0).all()
        assert (empty["upper"] == 90).all()
        assert empty["note"].str.contains("too few records").all()
        table = released.statistic(statistic)
        full = table[table["sex"] == "f"]
        assert (full["note"] == "").all()
        assert full[value].tolist() == pytest.approx([50] * len(full), abs=2)
    none = mm.release_tables(
        rows[:0], DOMAIN, ways=1, statistics=asked, epsilon=5, neighbours="replace"
    )
    assert none.statistic("mean of age")["note"][0] != ""


def test_values_without_a_number_are_in_no_statistic():
    number = mm.Attribute.numeric("age", lower=0, upper=90, n_bins=3, other="unknown")
    domain = mm.Domain([DOMAIN.attributes[0], number])
    rows = [["f", 30], ["f", None], ["f", 60]] * 100
    asked = [Mean("age", by="sex"), Histogram("age", step=30)]
    released = mm.release_tables(
        rows, domain, ways=1, statistics=asked, epsilon=10**9,
        handle_missing="category", neighbours="replace",
    )  # fmt: skip
    assert released.statistic(asked[0])["mean"][0] == pytest.approx(45)
    assert released.statistic(asked[1])["count"].tolist() == [100, 100, 0]


def agreeing(released, by, counts):
    """Check that a sum is a mean times a number of records, and return this."""
    total, mean = (
        released.statistic(f"{own} of age by {by}", frame="dict")
        for own in ("sum", "mean")
    )
    known = np.isfinite(mean["mean"])
    found = mean["mean"] * mean["count"]
    np.testing.assert_allclose(total["sum"][known], found[known])
    assert (mean["count"] == total["count"]).all()
    for own, value in ((total, "sum"), (mean, "mean")):
        inside = (own["lower"] <= own[value]) & (own[value] <= own["upper"])
        assert inside[known].all()
    if counts is not None:
        assert total["count"].tolist() == counts.tolist()
    return mean["count"]


@pytest.mark.parametrize("cost", [{"epsilon": 9}, {"rho": 0.02}])
def test_sums_means_and_counts_of_one_number_agree(cost):
    asked = [Sum("age", by="sex"), Histogram("age"), Mean("age", by="sex")]
    for options in ({}, {"neighbours": "replace"}, {"handle_missing": "drop"}):
        released = mm.release_tables(
            people(300), DOMAIN, tables=["sex"], statistics=asked, **cost, **options
        )
        counts = released.table("sex", frame="dict")["count"]
        agreeing(released, "sex", counts)
        assert "sum of age by sex and the mean of age by sex" in released.statement
    margins = {"tables": [("sex", "age")], "statistics": asked}
    released = mm.release_tables(people(300), DOMAIN, **margins, **cost)
    agreeing(released, "sex", released.table("sex", frame="dict")["count"])
    rows = [[s, None if a > 60 else a] for s, a, _ in people(300)]
    number = mm.Attribute.numeric("age", lower=0, upper=90, n_bins=3, other="unknown")
    domain = mm.Domain([DOMAIN.attributes[0], number])
    released = mm.release_tables(
        rows, domain, ways=1, statistics=asked, handle_missing="category", **cost
    )
    own = agreeing(released, "sex", None)  # records with a value
    if cost == {"epsilon": 9}:
        assert own.sum() == pytest.approx(sum(a is not None for _, a in rows), abs=30)


def test_groups_in_another_order_are_the_same_measurement():
    domain = mm.Domain([*DOMAIN.attributes, mm.Attribute.categorical("k", [0, 1, 2])])
    rows = [[*own, i % 3] for i, own in enumerate(people(300))]
    asked = [Sum("age", by=("sex", "k")), Mean("age", by=("k", "sex"))]
    released = mm.release_tables(rows, domain, ways=2, statistics=asked, epsilon=10**6)
    assert len(released.statistics) == 1
    total, mean = (released.statistic(own) for own in asked)
    assert list(mean)[:2] == ["k", "sex"]
    exact = pd.DataFrame(rows, columns=domain.names).groupby(["k", "sex"])["age"]
    assert mean["mean"].tolist() == pytest.approx(exact.mean().tolist(), abs=1e-2)
    assert mean["k"].tolist() == [0, 0, 1, 1, 2, 2]
    both = total.merge(mean, on=["sex", "k"])
    assert both["sum"].tolist() == pytest.approx(
        (both["mean"] * both["count_x"]).tolist()
    )
    counts = released.table(("k", "sex"))["count"].tolist()
    assert mean["count"].tolist() == counts


def test_sums_beside_a_table_are_closer_than_by_either_measurement():
    """A false alarm has a risk below 1e-9: 20,000 groups, five standard errors."""
    k = 20_000
    domain = mm.Domain([SMALL.attributes[0], mm.Attribute.categorical("g", range(k))])
    plan = planned(Sum("x", by="g"), domain, also=(Mean("x", by="g"),))
    codes = np.column_stack([np.arange(k).repeat(50), np.full(50 * k, 10**6 // 12)])
    made, error = measured(plan, codes), 1.5
    noise = np.random.default_rng(3).normal(0, error, k)
    found = {
        variance: np.square((6 * share - 1) * number + 25).mean()
        for variance in (1e-9, error**2, 1e9)
        for told in [TableCounts(np.inf, 50 + 0 * noise, 50 + noise, variance)]
        for number, share in [made.means({(0,): told})[0,]]
    }
    best = found.pop(error**2)
    assert all(best < 0.95 * own for own in found.values()), (best, found)


@pytest.mark.parametrize(
    ("by", "ways"), [((), 1), ("sex", 1), (("pay", "sex"), 2)], ids=str
)
def test_tables_are_pooled_with_what_statistics_count(by, ways):
    """All but a thousandth of the budget is for a mean, which has no noise left."""
    records = people(500)
    released = mm.release_tables(
        records,
        DOMAIN,
        ways=ways,
        epsilon=100,
        statistics=[Mean("age", by=by), Sum("age", by=by)],
        share="1/1000",
    )
    assert released.total == 500
    if by:
        exact = mm.release_tables(records, DOMAIN, tables=[by], epsilon=10**9)
        found = (own.table(by, frame="dict") for own in (released, exact))
        assert len({tuple(own["count"].tolist()) for own in found}) == 1


def test_levels_are_pooled_with_what_statistics_count():
    place = mm.Attribute.hierarchy("city", {"N": ["a", "b"], "S": ["c"]}, ["region"])
    domain = mm.Domain([*DOMAIN.attributes, place])
    cities = ["a", "b", "c", "c"] * 100
    records = [[*own, city] for own, city in zip(people(400), cities, strict=True)]
    asked = {"statistics": [Mean("age", by="region")], "share": "1/1000"}
    released = mm.release_tables(
        records, domain, tables=["region", ("city", "sex")], epsilon=100, **asked
    )
    assert released.table("region", frame="dict")["count"].tolist() == [200, 200]


def test_other_bounds_or_steps_are_another_measurement_and_the_plan_says_so():
    given = {"ways": 1, "epsilon": 1, "dry_run": True}
    for other in ({"upper": 60}, {"step": 2}):
        asked = [Mean("age", by="sex"), Sum("age", by="sex", **other), Mean("age")]
        plan = mm.release_tables(None, DOMAIN, statistics=asked, **given)
        assert [own.also for own in plan.statistics] == [(asked[2],), ()]
        (words,) = unequal(plan.statistics)
        assert "mean of age by sex, sum of age by sex: bounds or steps differ" in words
    asked[1] = Sum("age", by="sex", step=1)  # the step that numbers have without
    plan = mm.release_tables(None, DOMAIN, statistics=asked, **given)
    assert unequal(plan.statistics) == []
    assert plan.statistics[0].also == (*asked[1:],)
    assert "from the same noisy numbers" in plan.statistics[0].expected


def test_a_plan_says_which_sums_do_not_add_up():
    sums = [Sum("age", by="sex"), Sum("age"), Mean("age", by="sex")]
    given = {"ways": 1, "epsilon": 1, "dry_run": True}
    plan = mm.release_tables(None, DOMAIN, statistics=sums, **given)
    assert len(plan.statistics) == 1
    assert unequal(plan.statistics) == []
    more = [*sums[:2], replace(sums[1], by="sex", step=2), sums[2]]
    more[0] = replace(sums[0], by="pay")
    plan = mm.release_tables(None, DOMAIN, statistics=more, **given)
    apart, steps = unequal(plan.statistics)
    assert apart.startswith("sum of age by pay, sum of age by sex: each is measured by")
    assert steps.startswith("sum of age by sex, mean of age by sex: bounds or steps")


def test_shares_are_as_they_are_asked_for():
    given = {"ways": 1, "epsilon": "3/2", "dry_run": True}
    asked = [
        Mean("age", by="sex", share="1/4"),
        Sum("age", upper=80),
        Sum("age", by="sex"),
    ]
    plan = mm.release_tables(None, DOMAIN, statistics=asked, share=0.5, **given)
    assert [own.cost for own in (plan, *plan.statistics)] == [
        Fraction(3, 4), Fraction(3, 8), Fraction(3, 8),
    ]  # fmt: skip
    plan = mm.release_tables(None, DOMAIN, statistics=asked, **given)
    assert plan.statistics[0].cost == Fraction(3, 8)
    assert plan.total_cost == Fraction(3, 2)


def test_errors_of_statistics_are_known_before():
    asked = [Sum("age", by="sex"), Quantiles("age"), Mean("age", by="sex")]
    given = {"ways": 1, "statistics": asked}
    plan = mm.release_tables(None, DOMAIN, dry_run=True, epsilon=1, **given)
    errors = plan.errors(frame="pandas").set_index("table")
    assert errors.index.tolist()[3:] == [str(asked[0]), str(asked[2]), str(asked[1])]
    total = errors.loc["sum of age by sex"]
    assert total["cells"] == 2
    least = re.search(r"fewer than ([\d,]+) records", plan.statistics[0].expected)
    number = int(least[1].replace(",", ""))
    assert 90 * (number - 1) < 10 * total["standard_error"] <= 90 * number
    assert errors["unit"].nunique() == 4
    with pytest.warns(UserWarning, match=r"tenth of the sum in [12] of 2 groups"):
        released = mm.release_tables(people(9), DOMAIN, epsilon="1/100", **given)
    assert "is more than a tenth of the sum" in released.statement
    found = released.plan.errors(frame="dict")["standard_error"][3]
    made = released.statistic(asked[0], frame="dict")["standard_error"]
    assert made.tolist() == [found] * 2


def test_the_budget_is_split_by_expected_errors_and_adds_up():
    plan = mm.release_tables(
        None, DOMAIN, ways=1, statistics=ALL, epsilon=Fraction(7, 3), dry_run=True
    )
    costs = [own.cost for own in plan.statistics]
    assert sum(costs, plan.cost) == Fraction(7, 3)
    assert costs[1] < costs[3]  # of quantiles, whose errors are larger
    assert "mean times records of the group" in plan.statistics[0].expected
    assert plan.statistics[0].also == (ALL[1], ALL[5])


def split(asked, currency, budget):
    """Return the plans of a table of two cells and of statistics, the table's first."""
    given = {"tables": ["sex"], "statistics": asked, currency: Fraction(budget)}
    plan = mm.release_tables(None, DOMAIN, dry_run=True, **given)
    return [replace(plan, statistics=()), *plan.statistics]


def at_share(plan, share, cost):
    return replace(plan, cost=share * Fraction(cost)).squared_error


BINNED = [Histogram("age", step=30), Quantiles("age", step=30)]


@pytest.mark.parametrize(
    ("currency", "budgets", "asked"),
    [
        ("epsilon", (1, 10, 30, 100), [Sum("age", by="sex")]),
        ("rho", (0.01, 10, 100), [Sum("age", by="sex")]),
        *(
            pytest.param(
                *(currency, np.geomspace(least, 100, 13).tolist(), BINNED[:n]),
                marks=pytest.mark.slow,
            )
            for n in (1, 2)
            for currency, least in (("epsilon", 0.1), ("rho", 0.001))
        ),
    ],
)
def test_shares_are_the_best_of_a_grid(currency, budgets, asked):
    """And no error rises with the budget.

    Noise is whole: no share follows from continuous noise of the whole budget.
    """
    kept, grid = [], 80
    for budget in map(Fraction, budgets):
        parts = split(asked, currency, budget)
        errors = [
            [at_share(own, Fraction(k, grid), budget) for k in range(1, grid)]
            for own in parts
        ]
        best = min(
            sum(own[k - 1] for own, k in zip(errors, (*some, left), strict=True))
            for some in itertools.product(range(1, grid), repeat=len(asked))
            if (left := grid - sum(some)) > 0
        )
        kept.append([part.squared_error for part in parts])
        assert sum(kept[-1]) <= 1.02 * best + 1e-12, budget  # below, no count is wrong
    assert (np.diff(kept, axis=0) <= 0).all()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("done", range(len(ALL) - 2))
def test_an_interruption_between_statistics_keeps_what_was_measured(
    done, tmp_path, monkeypatch
):
    """Each part is in the file before the next is drawn, and costs what it costs."""
    path, measure, calls = tmp_path / "kept.measured", StatisticPlan.measure, []

    def interrupted(plan, *given):
        assert len(mm.MeasuredTables.load(path).statistics) == len(calls)
        calls.append(plan)
        if len(calls) > done:
            raise KeyboardInterrupt
        return measure(plan, *given)

    monkeypatch.setattr(StatisticPlan, "measure", interrupted)
    ledger = mm.PrivacyLedger(1)
    options = {"ways": 1, "statistics": ALL, "epsilon": 1, "handle_missing": "drop"}
    with pytest.raises(KeyboardInterrupt) as stop:
        mm.release_tables(people(90), DOMAIN, ledger=ledger, keep=path, **options)
    (note,) = stop.value.__notes__
    assert f"epsilon = {ledger.spent} is spent" in note
    made, again = stop.value.measured.finish(), mm.MeasuredTables.load(path).finish()
    assert made.statement == again.statement
    columns = [[one.columns(0.9) for one in own.statistics] for own in (made, again)]
    same("what was kept", *columns)
    plan = mm.release_tables(None, DOMAIN, dry_run=True, **options)
    left = sum(own.cost for own in plan.statistics[done:])
    assert made.cost == ledger.spent == 1 - left
    titles = [own.title for own in plan.statistics]
    assert [own.plan.title for own in made.statistics] == titles[:done]
    asked = [own for one in made.statistics for own in one.plan.statistics]
    assert (ALL[5] in asked) == (done > 0)  # with the means
    assert made.evidence.verdict.startswith("holds")
    assert made.left_out is not None


# ---- skewed numbers ------------------------------------------------------------------

COPIES = 50


def skewed(kind):
    """Return 40 numbers and their public bounds; groups of them are releases."""
    rng = np.random.default_rng(54)
    if kind == "lognormal":
        return rng.lognormal(3, 1.5, 40), 0, 25_000
    if kind == "Pareto":
        return rng.pareto(1.1, 40) - 2, -10, 10_000
    return np.where(rng.random(40) < 0.6, 0.0, np.rint(rng.lognormal(6, 2, 40))), 0, 9e4


@pytest.mark.by_day(2)
@pytest.mark.parametrize("epsilon", [10**9, 30])
@pytest.mark.parametrize("kind", ["lognormal", "Pareto", "whole with zeros"])
def test_intervals_hold_numbers_that_were_not_rounded(kind, epsilon, monkeypatch):
    """All of them without noise, else at level .8; a false alarm has a risk of 1e-7."""
    monkeypatch.setattr(Quantiles, "steps", 60)
    numbers, lower, upper = skewed(kind)
    number = mm.Attribute.numeric(
        "x", lower=lower, upper=upper, n_bins=2, integer="whole" in kind
    )
    domain = mm.Domain([number, mm.Attribute.categorical("copy", range(COPIES))])
    clipped = np.clip(numbers, lower, upper)
    probabilities = [0.2, 0.9]
    bins = np.searchsorted(lower + (upper - lower) / 10 * np.arange(1, 10), numbers)
    exact = {
        Mean: clipped.mean(),
        Sum: clipped.sum(),
        Histogram: np.bincount(bins, minlength=10),
        Quantiles: np.quantile(clipped, probabilities, method="inverted_cdf"),
        StandardDeviation: clipped.std(),
    }
    least = COPIES if epsilon > 30 else binom.ppf(1e-7 / 84, COPIES, 0.8)
    step = {"by": "copy", "step": (upper - lower) / 40}
    asked = [Mean("x", **step), Sum("x", **step), Quantiles("x", probabilities, **step)]
    asked += [replace(own, step=None) for own in asked]
    both = [(own, (Mean("x", by="copy", step=own.step),)) for own in asked[1::3]]
    asked += [StandardDeviation("x", **step), StandardDeviation("x", by="copy")]
    for own, also in [
        *((own, ()) for own in (*asked, Histogram("x", by="copy"))),
        *both,
    ]:
        plan = planned(own, domain, cost=epsilon, also=also)
        codes = np.arange(COPIES).repeat(40), np.tile(own.places(plan, numbers), COPIES)
        records = {(0,): TableCounts(len(codes[0]))}
        table = measured(plan, np.column_stack(codes)).columns(0.8, records)
        low, high = (table[k].reshape(COPIES, -1) for k in ("lower", "upper"))
        truth, slack = exact[type(own)], 1e-9 * upper  # of sums of doubles
        held = ((low - slack <= truth) & (truth <= high + slack)).sum(axis=0)
        assert (held >= least).all(), (own, plan.step, held)


def test_intervals_say_what_they_hold(monkeypatch):
    """Halves of steps are in them, ends at bounds are open, and whole numbers whole."""
    monkeypatch.setattr(Quantiles, "steps", 100)
    asked = [
        ("pay", Quantiles("x", [0.5, 0.9])),
        ("pay", Quantiles("x", [0.5, 0.9], step=250)),
        ("age", Quantiles("x", [0.5], step=9)),
        ("age", Quantiles("x", [0.5])),
        ("age", Mean("x")),
    ]
    shown = []
    for name, own in asked:
        upper = {"pay": 25_000, "age": 90}[name]
        x = mm.Attribute.numeric("x", lower=0, upper=upper, integer=name == "age")
        plan = planned(own, mm.Domain([x]), cost=10**9)
        numbers = np.array([30.3, 30.3, 2e6] if name == "pay" else [30, 30, 40])
        codes = own.places(plan, numbers.repeat(99))[:, None]
        found = measured(plan, codes)
        table = found.columns(0.9)
        ends = [table[k].tolist() for k in (own.value, "lower", "upper", "note")]
        shown.append((list(zip(*ends, strict=True)), found.words, *found.facts))
    half = "the interval includes half a step of rounding"
    (fine, words, facts), (coarse, *_), (nine, *_), (one, *_), (mean, *_) = shown
    (_, low, high, note), last = fine
    assert low <= 30.3 <= high < low + 9
    bound = "numbers beyond a bound count as the bound"
    assert (note, last[2:]) == (half, (25_000.0, f"{half}; {bound}"))
    assert "steps that are finer near zero" in words
    assert facts["step"] is None
    assert coarse[0] == (0.0, 0.0, 125.0, f"{half}; {bound}")
    assert nine == [(27.0, 23.0, 31.0, half)]
    assert one == [(30.0, 30.0, 30.0, "")]
    assert mean[0][3] == ""


def test_a_range_far_from_zero_has_equal_steps():
    x = mm.Attribute.numeric("x", lower=1e6, upper=1e6 + 1)
    for lower, first in ((None, 1e-3), (0, 0.954)):
        plan = planned(Quantiles("x", lower=lower), mm.Domain([x]))
        assert plan.grid[1] - plan.grid[0] == pytest.approx(first, rel=1e-3)
        assert plan.n_steps == pytest.approx(1000, abs=10)


# ---- intervals on coarse grids -------------------------------------------------------

COARSE = pytest.mark.parametrize(
    ("currency", "cost"), [("epsilon", 1), ("epsilon", 3), ("rho", 1), ("rho", 3)]
)


@COARSE
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_intervals_of_ratios_hold_on_coarse_grids(neighbours, currency, cost):
    """Noise of one step has gaps: probabilities are summed up value by value."""
    own = SMALL.select(["x"]), currency, cost, Relation(neighbours)
    plan = planned(Mean("x", step=6), *own)
    found = measured(plan, np.zeros((0, 1), int))
    size = Fraction(plan.relation.factor) ** plan.law.power
    t = float(plan.law.parameter(size, cost))
    z = np.arange(-200, 201)
    mass = np.exp(-abs(z) / t if currency == "epsilon" else -z * z / (2 * t))
    mass /= mass.sum()
    for f, level in itertools.product((0, 0.02, 0.25, 0.5), (0.5, 0.8, 0.95)):
        error = np.add.outer((1 - f) * z, -f * z)
        both = np.multiply.outer(mass, mass)
        if found.n_records is not None:
            error, both = z / 2, mass
        half = plan.error_law((), *plan.of_distances(1 - f, -f)).half_width(level)
        assert both[abs(error) <= half + 1e-9].sum() >= level - 0.002, (f, level)


@COARSE
def test_intervals_of_quantiles_hold_on_coarse_grids(currency, cost, noise_rng):
    """A bound is passed on either side with half of the risk."""
    own = SMALL.select(["x"]), currency, cost
    plan = planned(Quantiles("x", step=1.5), *own).mechanism
    runs = zip(plan._runs(), plan._parameters(), strict=True)
    noise = [
        plan.law.draw(t, (stop - start, 20_000), insecure_rng=noise_rng)
        for (start, stop, _), t in runs
    ]
    strategy, factors = plan._whitened
    noise = np.concatenate(noise) * factors[:, None]
    below = (strategy.pinv() @ noise).cumsum(axis=0)
    for level, p in itertools.product((0.5, 0.95), (0.1, 0.5)):
        errors, risk = CumulativeErrors(plan, level), (1 - level) / 2
        for place, own in enumerate(below - p * below[-1]):
            beyond = (own < -errors.half(p, place) - 1e-9).mean()
            assert beyond <= risk + 5 * math.sqrt(risk / 20_000), (level, p, place)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(
    ("currency", "cost"),
    [("epsilon", c) for c in (0.1, 1, 5, 12, 100)]
    + [("rho", c) for c in (0.1, 4, 10, 100)],
)
def test_places_are_left_out_where_their_noise_rules_them_out(currency, cost, level):
    """A bound on all of them may leave out no more than the law of each."""
    own = SMALL.select(["x"]), currency, cost
    plan = planned(Quantiles("x", step=1.5), *own).mechanism
    errors, n = CumulativeErrors(plan, level), plan.workload.shape[1]
    for p, place in itertools.product((0.1, 0.5), range(n - 1)):
        apart = np.full(n, 1e9)
        apart[place] = (1 - 1e-9) * errors.half(p, place)
        assert errors.ends(p, -apart)[0] == place
        assert errors.ends(p, apart)[1] == place + 1


# ---- dates ---------------------------------------------------------------------------

DATED = mm.Domain(
    [
        mm.Attribute.categorical("sex", ["f", "m"]),
        mm.Attribute.date("day", "2026-01-10", "2026-03-20", "month"),
    ]
)
DAYS = [["f", "2026-01-12"], ["f", "2026-01-16"], ["f", "2026-02-20"], ["m", "2026-03"]]


def test_means_and_quantiles_of_dates_are_dates(tmp_path):
    asked = [Mean("day", by="sex"), Quantiles("day", [0.5], by="sex")]
    released = mm.release_tables(  # a day is ten steps of noise
        DAYS * 20, DATED, ways=1, epsilon=1000, statistics=asked
    )
    means, medians = (released.statistic(own, frame="dict") for own in asked)
    assert means["mean"].tolist() == ["2026-01-26", "2026-03-01"]
    assert medians["quantile"].tolist() == ["2026-01-16", "2026-03-01"]
    for found, name in ((means, "mean"), (medians, "quantile")):
        assert (found["lower"] <= found[name]).all()
        assert (found[name] <= found["upper"]).all()
    assert released.statistics[0].facts[0]["upper"] == "2026-03-20"
    assert "2026-01-10 to 2026-03-20" in released.statistics[0].words
    released.write(tmp_path / "out")
    texts = [path.read_text() for path in (tmp_path / "out").rglob("*mean*.csv")]
    assert any("2026-01-26" in text for text in texts)


@pytest.mark.parametrize("bad", ["", "no date", "2026-05", "2026-03-21"])
def test_records_without_a_date_of_the_domain_are_left_out(bad):
    policies = {"handle_unknown": "drop", "handle_missing": "drop"}
    rows, asked = [*DAYS, ["f", bad]] * 20, [Mean("day", by="sex")]
    released = mm.release_tables(
        rows, DATED, ways=1, epsilon=1000, statistics=asked, **policies
    )
    assert released.left_out.values[0] == pytest.approx(20, abs=1)
    found = released.statistic(asked[0], frame="dict")
    assert found["mean"].tolist() == ["2026-01-26", "2026-03-01"]


def test_dates_of_groups_that_are_too_small_to_tell_are_left_open():
    plan = made(Mean("day"), DATED)
    ends = np.array([plan.lower] * 2), np.array([plan.upper, plan.lower + 3])
    found = MeasuredStatistic(plan, None).with_note(
        "mean", plan.lower + np.array([2.0, 1.2]), *ends
    )
    assert found["mean"].tolist() == ["", "2026-01-11"]
    assert found["lower"].tolist() == ["2026-01-10"] * 2
    assert found["upper"].tolist() == ["2026-03-20", "2026-01-13"]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("asked", [Mean("day"), Quantiles("day", [0.5])], ids=str)
def test_a_dated_record_changes_what_is_measured_by_its_unit_at_most(asked, neighbours):
    days = ["2026-01-09", "2026-01-10", "2026-01", "2026-02-14", "2026-03-20"]
    plan = made(asked, DATED, neighbours=neighbours)
    reading = ReadDomain(DATED.attributes, plans=(plan,))
    codes = reading.encode(pd.DataFrame({"sex": "f", "day": days}))
    places = codes[:, -1].astype(np.int64)
    assert places.tolist() == [0, 0, 0, 35, 69]
    none = plan.statistic.values(plan, places[:0], places[:0])
    each = [plan.statistic.values(plan, places[[i]], places[[i]] * 0) for i in range(5)]
    others = each if neighbours == "replace" else [none]
    changes = [np.abs(a - b).sum() for a in each for b in others]
    assert max(changes) == plan.relation.factor * plan.unit


# ---- sums by levels ------------------------------------------------------------------

PLACES = {"n": {"x": ["a", "b"], "y": ["c"]}, "s": {"z": ["d", "e"]}}
LEVELS = [("place",), ("place_2",), ("place_1",), ()]
PARENTS = [np.arange(5), np.array([0, 0, 1, 2, 2]), np.array([0, 0, 0, 1, 1])]
PARENTS.append(np.zeros(5, int))


def with_places(lower, upper):
    """Return a domain of numbers by places and sex, and records of it."""
    domain = mm.Domain(
        [
            mm.Attribute.hierarchy("place", PLACES),
            mm.Attribute.categorical("sex", ["f", "m"]),
            mm.Attribute.numeric("x", lower=lower, upper=upper, n_bins=2, integer=True),
        ]
    )
    rng = np.random.default_rng(0)
    codes = rng.integers([5, 2, upper - lower + 1], size=(300, 3))
    return domain, [["abcde"[p], "fm"[s], int(x) + lower] for p, s, x in codes]


@pytest.mark.parametrize("cost", ["epsilon", "rho"])
@pytest.mark.parametrize("kind", [Sum, Mean, StandardDeviation])
def test_every_small_neighbour_changes_levels_by_their_sensitivity(kind, cost):
    """All data sets of up to one record, and all that have one more."""
    domain, _ = with_places(-2, 4)
    asked = [kind("x", by=by, step=2) for by in LEVELS]
    own = planned(asked[0], domain.select(["x", "place"]), cost, also=(*asked[1:],))
    assert own.sizes == (2, 3, 5)
    records = list(itertools.product(range(5), range(4)))
    data_sets = [[], *([record] for record in records)]
    unit = {Sum: 4 / 2, Mean: 3, StandardDeviation: 3**2}[kind]
    most = unit * len(LEVELS) ** (1 if cost == "epsilon" else 1 / 2)
    assert largest_change(own, data_sets, records) == pytest.approx((most, most))


@pytest.mark.parametrize("by_sex", [False, True])
@pytest.mark.parametrize(
    ("lower", "upper", "cost"),
    [(0, 9, {"epsilon": 1}), (-5, 9, {"rho": 1}), (-9, 0, {"epsilon": 9})],
)
def test_sums_by_levels_add_up_and_are_those_of_least_squares(
    lower, upper, cost, by_sex, noise_rng, tmp_path
):
    domain, records = with_places(lower, upper)
    more = [Sum("x", by=("place", "sex"))] * by_sex
    asked = [*more, *(Sum("x", by=by) for by in reversed(LEVELS))]
    kept = tmp_path / "kept.measured"
    released = mm.release_tables(
        records, domain, statistics=asked, keep=kept, insecure_rng=noise_rng, **cost
    )
    assert mm.MeasuredTables.load(kept).finish().statement == released.statement
    (made,) = released.statistics
    assert {*made.plan.statistics} == {*asked}
    sums = [own == np.arange(own.max() + 1)[:, None] for own in PARENTS]
    matrix = np.concatenate(sums).astype(float)
    if by_sex:  # cells are places by sex
        matrix = np.concatenate([np.eye(10), np.repeat(matrix, 2, axis=1)])
    inverse = reference.pinv(matrix)
    best = matrix @ inverse @ made.measurement.values[0]
    spread = math.sqrt(made.plan.law.variance(made.plan.parameter))
    errors = spread * np.sqrt((matrix @ inverse * np.eye(len(matrix))).diagonal())
    start = 0
    published = []
    for table, own in zip(made.plan.tables, asked[:by_sex] + asked[::-1], strict=False):
        found = released.statistic(own, frame="dict")
        stop = start + len(found["sum"])
        np.testing.assert_allclose(made.rows(table)[0], best[start:stop])
        np.testing.assert_allclose(found["standard_error"], errors[start:stop])
        middle = (found["lower"] + found["upper"]) / 2
        inside = (found["lower"] > min(lower, 0) * 300) & (found["upper"] < 2700)
        assert (found["lower"] <= found["sum"]).all()
        assert (found["sum"] <= found["upper"]).all()
        assert (found["sum"] == np.rint(found["sum"])).all()
        assert (np.abs(middle - best[start:stop])[inside] < 40 * spread).all()
        published.append(found["sum"])
        start = stop
    assert (np.sign(np.concatenate(published)) >= 0).all() or lower < 0
    assert (np.sign(np.concatenate(published)) <= 0).all() or upper > 0
    if by_sex:
        by_place = published.pop(0).reshape(5, 2).sum(axis=1)
        np.testing.assert_array_equal(by_place, published[0])
    for own, parents in zip(published, PARENTS, strict=True):
        np.testing.assert_array_equal(np.bincount(parents, published[0]), own)


@pytest.mark.parametrize("tables", [["sex"], ["place"], ["place_2"]], ids=str)
@pytest.mark.parametrize(
    "kinds", [(Mean, Sum), (Mean, Sum, StandardDeviation)], ids=len
)
@pytest.mark.parametrize("cost", [{"epsilon": 3}, {"rho": 10**9}])
def test_sums_and_means_by_levels_add_up(kinds, tables, cost, noise_rng, tmp_path):
    """Means are sums over numbers of records, and both add up to larger groups."""
    domain, records = with_places(-5, 9)
    asked = [kind("x", by=by) for by in LEVELS for kind in kinds]
    kept = tmp_path / "kept.measured"
    options = {"tables": tables, "statistics": asked, "insecure_rng": noise_rng}
    released = mm.release_tables(records, domain, keep=kept, **options, **cost)
    assert mm.MeasuredTables.load(kept).finish().statement == released.statement
    assert len(released.statistics) == 1
    nodes = ["abcde".index(place) for place, *_ in records]
    x, published = pd.Series([own for *_, own in records]), []
    for by, parents in zip(LEVELS, PARENTS, strict=True):
        values = []
        for kind in kinds:
            made = released.statistic(kind("x", by=by), frame="dict")
            value = made[kind.value]
            inside = (made["lower"] <= value) & (value <= made["upper"])
            assert (inside | np.isnan(value)).all()
            values += [value, made["count"]]
        mean, count, total, *_ = values
        assert (np.array(values[1::2]) == count).all()
        np.testing.assert_allclose(np.nan_to_num(mean) * count, total, atol=1e-9)
        published.append(np.stack([count, np.rint(total)]))
        np.testing.assert_allclose(total, published[-1][1], atol=1e-9)
        if "rho" in cost:
            groups = x.groupby(parents[nodes])
            np.testing.assert_allclose(mean, groups.mean(), atol=1e-3)
            if len(kinds) > 2:
                np.testing.assert_allclose(values[4], groups.std(ddof=0), atol=1e-3)
        if tables == [*by]:
            counts = released.table(tables[0], frame="dict")["count"]
            assert counts.tolist() == count.tolist()
    for own, parents in zip(published, PARENTS, strict=True):
        sums = [np.bincount(parents, row).astype(int) for row in published[0]]
        np.testing.assert_array_equal(own, sums)


@pytest.mark.parametrize(
    ("tables", "by"),
    [
        ("place", "place_1"),
        (("place_2", "sex"), "place_1"),
        (("place_2", "sex"), ("sex", "place_1")),
    ],
    ids=str,
)
def test_numbers_of_records_are_sums_of_a_table_by_lower_levels(tables, by, noise_rng):
    domain, records = with_places(-5, 9)
    released = mm.release_tables(
        records,
        domain,
        tables=[tables],
        statistics=[Mean("x", by=by)],
        epsilon=1,
        insecure_rng=noise_rng,
    )
    table = pd.DataFrame(released.table(tables, frame="dict"))
    made = pd.DataFrame(released.statistic(Mean("x", by=by), frame="dict"))
    names = [by] if isinstance(by, str) else list(by)
    lowest = "place" if "place" in table else "place_2"
    leaves = domain.attributes[0].at_level(lowest).labels
    above = domain.attributes[0].nodes("place_1")
    first = np.unique(domain.attributes[0].nodes(lowest), return_index=True)[1]
    node = dict(zip(leaves, np.array(["n", "s"])[above[first]], strict=True))
    table["place_1"] = table[lowest].map(node)
    sums = table.groupby(names)["count"].sum()
    assert made.set_index(names)["count"].to_dict() == sums.to_dict()


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_intervals_of_sums_by_levels_hold(currency, noise_rng):
    """They hold 95 % of 20,000 errors; five standard deviations below are .943."""
    domain, _ = with_places(0, 1)
    asked = [Sum("x", by=by) for by in LEVELS]
    plan = planned(
        asked[0], domain.select(["x", "place"]), currency, also=(*asked[1:],)
    )
    noise = plan.law.draw(plan.parameter, (11, 20_000), insecure_rng=noise_rng)
    found = plan.field.estimate(noise)
    for table in plan.tables:
        errors, half = plan.field.errors(table, 0.95)
        apart = np.abs(found.marginal(table))
        assert (np.mean(apart <= half[:, None], axis=1) > 0.943).all()
        np.testing.assert_allclose(np.sqrt(np.mean(apart**2, axis=1)), errors, rtol=0.1)


def test_sums_that_do_not_add_up_are_measured_apart():
    domain, _ = with_places(0, 9)
    asked = [
        Sum("x", by="sex"),
        Sum("x", by="place"),
        Sum("x"),
        Mean("x", by="place_1"),
    ]
    asked += [Sum("x", by="place_2", upper=5), Sum("x", by="place_1", step=3)]
    plan = mm.release_tables(
        None, domain, ways=1, statistics=asked, epsilon=1, dry_run=True
    )
    assert [[str(own) for own in each.statistics] for each in plan.statistics] == [
        ["sum of x by sex"],
        ["sum of x by place", "mean of x by place_1", "sum of x"],
        ["sum of x by place_2"],
        ["sum of x by place_1"],
    ]


def test_large_sums_are_divided_exactly():
    values = np.array([2.0**60 + 2**20, 1.0, 0.0])
    for low in (0, -np.inf):
        sums = np.array([2**60 + 1])
        found = divided(values, np.zeros(3, np.int64), sums, low, np.inf)
        assert int(found.sum()) == 2**60 + 1
        assert found.min() >= low


# ---- files ---------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>"


def test_files_say_what_they_are(tmp_path):
    domain = mm.Domain(
        [mm.Attribute.categorical("=1+1", [HOSTILE, "=cmd"]), DOMAIN.attributes[1]]
    )
    by = "=1+1"
    asked = [Mean("age", by=by), Quantiles("age", by=by), Sum("age", by=by, upper=1e9)]
    released = mm.release_tables(
        [[HOSTILE, 40]] * 500, domain, ways=(1, 2), statistics=asked, epsilon=3
    )
    folder = released.write(tmp_path / "out", level=0.9, synthetic=3, excel=False)
    facts = json.loads((folder / "evidence.json").read_text(encoding="utf-8"))["about"]
    assert facts["cost"] == "3"
    assert [own["statistic"] for own in facts["statistics"]] == list(map(str, asked))
    assert facts["statistics"][0].keys() >= {"lower", "upper", "step", "cost", "noise"}
    files = [*facts["files"], *(own["file"] for own in facts["statistics"])]
    assert {path.name for path in folder.iterdir()} == {
        *(name for file in (*files, "synthetic.csv")
          for name in (file, f"{file}-metadata.json")),
        "evidence.json", "index.html", "statement.txt",
    }  # fmt: skip
    for file in files:
        document = json.loads((folder / f"{file}-metadata.json").read_text("utf-8"))
        table = pd.read_csv(folder / file)
        columns = document["tableSchema"]["columns"]
        assert document["url"] == file
        assert [column["titles"] for column in columns] == list(table.columns)
        assert document["tableSchema"]["primaryKey"][0] == "c1"
        for column in columns:
            if column["datatype"] != "string":
                assert table[column["titles"]].dtype.kind in "if"
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert "://" not in page
    assert page.count("<svg") + page.count("<table") == len(files)


def test_sums_in_files_add_up_to_the_last_digit(tmp_path):
    x = mm.Attribute.numeric("x", lower=0, upper=100, n_bins=2)
    domain = mm.Domain([mm.Attribute.hierarchy("place", PLACES), x])
    rng = np.random.default_rng(5)
    records = [[place, own] for place in "abcde" for own in rng.normal(40, 9, 300)]
    asked = [Sum("x", by="place"), Mean("x", by="place"), Sum("x")]
    released = mm.release_tables(records, domain, statistics=asked, epsilon=9)
    folder = released.write(tmp_path / "out", excel=False)
    by_place, (total,) = (
        [Decimal(row[0]) for row in read_cells(folder / file, ["sum"])]
        for file in ("sum_of_x_by_place.csv", "sum_of_x.csv")
    )
    assert sum(by_place) == total


def test_a_page_is_named_and_fits_narrow_screens(tmp_path):
    domain = mm.Domain(
        [
            mm.Attribute.categorical(name, range(size))
            for name, size in (("five", 5), ("few", 2), ("most", 21))
        ]
    )
    tables = [("five",), ("five", "few"), ("five", "most")]
    released = mm.release_tables([[0, 0, 0]] * 900, domain, tables=tables, epsilon=1)
    folder = released.write(tmp_path / "a", title="a<b\udcff.csv", excel=False)
    page = (folder / "index.html").read_text("utf-8")
    assert page.count("a&lt;b\\udcff.csv: counts by five, few, most</") == 2
    assert {*re.findall(r'viewBox="0 0 (\d+) ', page)} == {"360"}
    places = re.findall(r'[" ](?:x|width)="([\d.]+)"', page)
    assert max(map(float, places)) <= 360
    assert page.count("<details open>") == 2  # the largest is folded
    assert verify.main([str(folder)]) == 0


def test_rows_of_a_chart_with_long_names_stay_apart(tmp_path):
    """Names that begin alike, and differ at their ends."""
    long = "a name that is much longer than what a narrow screen has room for"
    domain = mm.Domain(
        [
            mm.Attribute.categorical("long", [long, f"{long[:-3]}how"]),
            mm.Attribute.ordinal("many", [f"value {i}" for i in range(12)]),
            mm.Attribute.numeric("age", lower=0, upper=9),
        ]
    )
    released = mm.release_tables(
        [[long, "value 0", 1]],
        domain,
        tables=["long", ("long", "many")],
        statistics=[Mean("age")],
        epsilon=1,
    )
    page = (released.write(tmp_path / "a", excel=False) / "index.html").read_text()
    *charts, mean = page.split("<svg")[1:]
    for chart, rows in zip(charts, (2, 24), strict=True):
        names = re.findall(r'<text y="\d+">([^<]*)<', chart)
        assert len({*names}) == len(names) == rows
        assert all(re.fullmatch("a name .*….*(for|how|[0-9])", name) for name in names)
    assert '<text y="13">all<' in mean
    assert "<summary>1 row, " in page


def check_files(folder, sheets):
    """Compare the intervals of every file with those in memory."""
    book = pytest.importorskip("openpyxl").load_workbook(folder / "tables.xlsx")
    page = (folder / "index.html").read_text("utf-8").replace(",", "")
    charts = page.split('<h2 id="s')[1:]
    number = r"(-?[\d.e+-]+)"
    interval = re.compile(rf"([^\s>]+) \({number} to {number}\)<(?:/title|br)>")
    for sheet, cells, chart in zip(sheets, book.worksheets[1:], charts, strict=True):
        names = [sheet.value, "lower", "upper"]
        value, least, most = (sheet.columns[k].astype(float) for k in names)
        where = list(map(list(sheet.columns).index, names))
        rows = [[row[j] for j in where] for row in cells.iter_rows(2, values_only=True)]
        found = np.array(interval.findall(chart))
        csv = read_cells(folder / sheet.file, names)
        found[found == "unknown"] = csv[csv == ""] = "nan"
        for kind, read in {"csv": csv, "workbook": rows, "page": found}.items():
            shown, low, high = np.array(read, float).T
            assert ((low <= least) & (most <= high)).all(), (kind, sheet.file)
            assert ((low < high) | (least == most)).all(), (kind, sheet.file)
            inside = (low <= shown) & (shown <= high)
            assert (inside | np.isnan(value)).all(), (kind, sheet.file)
            np.testing.assert_allclose([low, high], [least, most], rtol=2e-3)


def test_intervals_in_files_hold_those_in_memory(tmp_path):
    """In csv files, the workbook and the page; none of them shrinks to a point."""
    rng = np.random.default_rng(9)
    ends = np.cumsum(10.0 ** rng.integers(-9, 4, (200, 2)) * rng.random((200, 2)), 1)
    ends = np.concatenate([ends, -ends[:, ::-1], ends + 10.0 ** rng.integers(4, 13)])
    close = np.outer([1, -1], [999.96, 9999.9, 99_999.96, 0.1, 1e-7, 123_456.7]).ravel()
    ends = np.concatenate([ends, np.stack([close, np.nextafter(close, np.inf)], 1)])
    ends = np.concatenate([ends, [[8.496, 43.76], [-0.3, 1e-7]]])  # as they stand
    columns = {"row": np.arange(len(ends)), "mean": ends.mean(axis=1)}
    columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
    sheets = [Sheet("mean.csv", "mean", ("row",), "mean", columns)]
    write_files(tmp_path, sheets, "title", "words", 0.95, excel=True)
    check_files(tmp_path, sheets)
    last = (tmp_path / "mean.csv").read_text("utf-8").splitlines()[-2:]
    assert [row.split(",", 2)[2] for row in last] == ["8.496,43.76", "-0.3,1e-07"]
    asked = [Mean("pay", by="sex", lower=0, upper=1e4), *ALL[2:5]]
    released = mm.release_tables(
        people(50), DOMAIN, ways=(1, 2), statistics=asked, epsilon=30
    )
    folder = released.write(tmp_path / "out", level=0.9, excel=True)
    check_files(folder, _sheets(released, 0.9))


def test_a_workbook_has_a_sheet_per_table_and_no_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    domain = mm.Domain([mm.Attribute.categorical("a" * 40, ["=1+1", "b\x01"])])
    released = mm.release_tables([["=1+1"]] * 9, domain, ways=1, epsilon=9)
    folder = released.write(tmp_path / "out", excel=True)
    book = openpyxl.load_workbook(folder / "tables.xlsx")
    assert book.sheetnames == ["statement", "a" * 31]
    rows = list(book["a" * 31].iter_rows())
    assert [cell.value for cell in rows[0]][1:] == [
        "count", "standard_error", "lower", "upper",
    ]  # fmt: skip
    assert (rows[1][0].value, rows[1][0].data_type) == ("=1+1", "s")
    assert rows[2][0].value == "b?"
    assert rows[1][1].value == released.table("a" * 40)["count"][0]


def test_a_workbook_without_its_library_is_refused_only_if_asked_for(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    released = mm.release_tables(people(9), DOMAIN, tables=[("sex",)], epsilon=1)
    with pytest.raises(ValueError, match=r"pip install 'mmech\[excel\]'"):
        released.write(tmp_path / "no", excel=True)
    folder = released.write(tmp_path / "out")
    assert not (folder / "tables.xlsx").exists()


def test_large_tables_are_named_without_a_chart(tmp_path):
    domain = mm.Domain([mm.Attribute.categorical(name, range(80)) for name in "ab"])
    released = mm.release_tables([[1, 2]], domain, ways=2, epsilon=1)
    page = (released.write(tmp_path / "out") / "index.html").read_text("utf-8")
    assert "6,400 rows are too many for a chart" in page
    assert "<svg" not in page
