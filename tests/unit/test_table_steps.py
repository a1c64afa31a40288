"""Tables in steps: what is measured follows from noisy numbers, and is paid for."""

import itertools
from fractions import Fraction
from functools import cache
from unittest.mock import Mock

import numpy as np
import pytest
import reference as ref
from replay import People, check_neighbours, entropy, play, watched
from replay import facts_of_tables as seen

from mmech import (
    Attribute,
    BudgetExceededError,
    Counts,
    Domain,
    MeasuredTables,
    PrivacyLedger,
    count,
    release_tables,
)
from mmech.tables import measured as measured_module
from mmech.tables import steps
from mmech.tables.release import release

SIZES = (2, 3, 2, 2, 3)
DOMAIN = Domain(
    [
        Attribute.categorical(name, list(range(n)))
        for name, n in zip("abcde", SIZES, strict=True)
    ]
)
THRESHOLDS = {
    "single": (0.0, 0.0),
    "tree": (np.inf, 0.0),
    "rounds": (np.inf, np.inf),
    "all": (np.inf, np.inf),
}
"""Bounds that make every number of records one of few, of some, or of many."""
COSTS = pytest.mark.parametrize(
    "cost", [{"epsilon": 1}, {"rho": Fraction(1, 2)}], ids=str
)


@pytest.fixture(params=THRESHOLDS)
def regime(request, monkeypatch):
    force(request.param, monkeypatch)
    return request.param


def force(regime, monkeypatch):
    few, many = THRESHOLDS[regime]
    monkeypatch.setattr(steps, "FEW", few)
    monkeypatch.setattr(steps, "MANY", many)
    if regime == "rounds":  # of four and three pairs
        monkeypatch.setattr(steps, "LEAST_ATTRIBUTES", 5)
        monkeypatch.setattr(steps, "CLEAR", -1.0)
        monkeypatch.setattr(steps, "MORE", Fraction(3, 4))


def people(n, seed=1):
    """Return codes of records whose attributes depend on each other in a chain."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.minimum(a + rng.integers(0, 2, n), 2)
    c = np.where(rng.random(n) < 0.8, b > 0, rng.random(n) < 0.5)
    d = np.where(rng.random(n) < 0.9, c, 1 - c)
    return np.column_stack([a, b, c, d, rng.integers(0, 3, n)]).astype(np.int64)


def exact(codes, names):
    axes = [DOMAIN.names.index(name) for name in names]
    shape = [SIZES[i] for i in axes]
    place = np.ravel_multi_index(codes[:, axes].T, shape)
    return np.bincount(place, minlength=np.prod(shape))


def has_intervals(table):
    known = np.isfinite([table[own] for own in ("standard_error", "lower", "upper")])
    assert known.all() == known.any()
    return bool(known.all())


def as_people(codes):
    return People.of(codes, np.zeros(len(codes), int))


# ---- the score ---------------------------------------------------------------------


def test_one_record_moves_scores_within_the_window_on_all_small_data():
    """All data sets of up to two records, all that may come, and many models."""
    sizes = (2, 2, 2)
    cells = list(itertools.product(*map(range, sizes)))
    rng = np.random.default_rng(0)
    models = [[np.zeros(4)] * 3, [np.full(4, 0.5)] * 3]
    models += [list(rng.uniform(-1, 4, (3, 4))) for _ in range(6)]
    widest = 0
    for model in models:
        for n in range(3):
            for own in itertools.combinations_with_replacement(cells, n):
                codes = np.array(own, np.int64).reshape(n, 3)
                before = steps.scores(Counts(codes, sizes), iter(model))
                for new in cells:
                    more = Counts(np.concatenate([codes, [new]]), sizes)
                    change = steps.scores(more, iter(model)) - before
                    assert (abs(change) == 1).all()
                    widest = max(widest, np.ptp(change))
    assert widest == steps.WINDOW


def test_a_score_is_worked_out_by_hand():
    codes, model = [[0, 0], [0, 1], [0, 1]], np.array([1.4, 0.6, 0.2, -3.0])
    # The model is 1, 1, 0, 0 in whole records, of distinct cells or one by one.
    for records in (Counts(codes, (2, 2)), Counts._as_given(codes, (2, 2))):
        assert steps.scores(records, iter([model])).tolist() == [1]


@pytest.mark.slow
@pytest.mark.parametrize("regime", THRESHOLDS)
def test_counts_and_lazy_records_choose_and_measure_what_records_do(
    regime, monkeypatch
):
    parts = pytest.importorskip("dask.array").from_array
    monkeypatch.setattr(steps, "FEW", THRESHOLDS[regime][0])
    monkeypatch.setattr(steps, "MANY", THRESHOLDS[regime][1])
    rows = np.random.default_rng(0).integers(0, 2, (200, len(SIZES)))
    found = []
    for data in (rows, count(rows, DOMAIN), parts(rows, chunks=(30, 5))):
        with entropy(1):
            released = release_tables(data, DOMAIN, ways=2, epsilon=3)
        found.append([released.table(t, frame="dict") for t in released.tables])
    assert repr(found[0]) == repr(found[1]) == repr(found[2])


# ---- privacy -----------------------------------------------------------------------


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("neighbours", "policy", "cost"),
    [  # all pairs of two of them
        ("add_remove", "error", {"epsilon": 1}),
        ("replace", "drop", {"epsilon": 1}),
        ("add_remove", "drop", {"rho": Fraction(1, 2)}),
        ("replace", "error", {"rho": Fraction(1, 2)}),
    ],
    ids=str,
)
def test_neighbours_are_seen_alike_and_pay_what_they_differ_by(
    regime, neighbours, policy, cost
):
    """With the outcomes of one run all that is seen of a neighbour is the same."""
    options = {"ways": (1, 2), "neighbours": neighbours, **cost}

    def run(own, ledger):
        told = []
        released = release_tables(
            np.array(own.rows), DOMAIN, ledger=ledger, handle_unknown=policy,
            callback=told.append, **options,
        )  # fmt: skip
        return seen(released), told

    before = as_people(people(8))
    new = (1, 2, 1, 0, 2)
    others = [before.without(0), before.without(7), before.and_of(new, 0)]
    if neighbours == "replace":
        others = [before.replaced(0, new, 0), before.replaced(4, new, 0)]
    tape, _ = check_neighbours(run, before, others, cost, neighbours=neighbours)
    assert [entry.cost for entry in tape.entries] == [*map(Fraction, cost.values())]
    kinds = [one.draw.kind for one in tape.played]
    assert kinds.count("exponential") == {"tree": 4, "rounds": 7}.get(regime, 0)


def test_strangers_of_another_number_are_measured_alike():
    """The split follows from the noisy number of records, and from nothing exact."""

    def run(own, ledger):
        return seen(release_tables(np.array(own.rows), DOMAIN, ways=2, epsilon=1))

    tape = play(run, as_people(people(9)))
    many = as_people(people(3000, seed=2))
    assert play(run, many, None, tape).seen == tape.seen
    apart = play(run, many)
    assert len(apart.played) != len(tape.played) or apart.seen != tape.seen


@pytest.mark.parametrize(
    ("epsilon", "error"),
    [(1, BudgetExceededError), (1e-9, ValueError), (1e-13, ValueError)],
)
def test_a_budget_that_is_too_small_draws_nothing(epsilon, error, regime):
    """It may be too small for the ledger, for a draw of pairs, or for noise."""
    ledger = PrivacyLedger("1/2")
    with (
        watched(lambda draw, sample: pytest.fail("drawn")),
        pytest.raises(error),
    ):
        release_tables(people(50), DOMAIN, ways=2, epsilon=epsilon, ledger=ledger)
    assert ledger.spent == 0


# ---- what comes back ---------------------------------------------------------------


@pytest.mark.by_day(2)
@COSTS
def test_tables_that_were_not_measured_have_no_intervals(regime, cost):
    released = release_tables(people(300), DOMAIN, tables="auto", **cost)
    pairs = [names for names in released.tables if len(names) == 2]
    held = [n for n in pairs if has_intervals(released.table(n, frame="dict"))]
    assert len(held) == {"single": 0, "tree": 4, "rounds": 7, "all": 10}[regime]
    words = f"{10 - len(held)} tables of two attributes were not measured"
    assert (words in released.statement) == (regime != "all")
    for names in released.tables:
        table = released.table(names, frame="dict")
        assert (table["count"] >= 0).all()
        assert table["count"].sum() == released.total
        for axis, name in enumerate(names):
            shape = [SIZES[DOMAIN.names.index(own)] for own in names]
            others = tuple(a for a in range(len(names)) if a != axis)
            own = released.table(name, frame="dict")
            assert has_intervals(own)
            margin = table["count"].reshape(shape).sum(axis=others)
            assert margin.tolist() == own["count"].tolist()


@pytest.mark.by_day(2)
def test_steps_are_named_and_their_costs_add_up(regime, tmp_path):
    released = release_tables(people(300), DOMAIN, ways=2, epsilon="1/3")
    costs = [Fraction(own.split(" = ")[1]) for own in released.facts["steps"]]
    assert sum(costs) == Fraction(1, 3)
    assert len(costs) == {"single": 2, "tree": 4, "rounds": 5, "all": 2}[regime]
    assert "drawn" in "".join(released.facts["steps"]) or regime in ("single", "all")
    made = released.write(tmp_path / "made")
    assert len(list(made.glob("*.csv"))) == 10


@pytest.mark.by_day(2)
@COSTS
@pytest.mark.parametrize("policy", ["drop", "error"])
@pytest.mark.parametrize("done", [1, 2])
def test_an_interruption_between_rounds_keeps_what_was_measured(
    done, policy, cost, tmp_path, monkeypatch
):
    """From the file and the exception; the file is there while work goes on."""
    force("rounds", monkeypatch)
    path, choose, calls = tmp_path / "a.measured", steps._choose, []

    def interrupted(*given):
        assert path.exists()
        calls.append(given)
        if len(calls) == done:
            raise KeyboardInterrupt
        return choose(*given)

    monkeypatch.setattr(steps, "_choose", interrupted)
    ledger = PrivacyLedger(1, currency=next(iter(cost)))
    options = {"ways": (1, 2), "keep": path, "handle_unknown": policy, **cost}
    with pytest.raises(KeyboardInterrupt) as stop:
        release_tables(people(300), DOMAIN, ledger=ledger, **options)
    (price,) = map(Fraction, cost.values())
    assert ledger.spent == price
    (words,) = stop.value.__notes__
    assert f"= {price} is spent. What was measured is kept" in words
    with watched(lambda draw, sample: pytest.fail("drawn again")):
        made = stop.value.measured.finish()
        assert seen(MeasuredTables.load(path).finish()) == seen(made)
    pairs = [names for names in made.tables if len(names) == 2]
    held = [has_intervals(made.table(names, frame="dict")) for names in pairs]
    assert sum(held) == [0, 4][done - 1]
    costs = [Fraction(own.split(" = ")[1].split()[0]) for own in made.facts["steps"]]
    assert sum(costs) == price
    assert "unspent" in made.facts["steps"][-1]
    assert made.evidence.verdict.startswith("holds")


def test_few_tables_and_listed_ones_are_measured_at_once():
    three = DOMAIN.select(list("abcd"))
    assert not release_tables(None, three, ways=2, epsilon=1, dry_run=True).adaptive
    listed = list(itertools.combinations("abcde", 2))
    plan = release_tables(None, DOMAIN, tables=listed, epsilon=1, dry_run=True)
    assert not plan.adaptive
    auto = release_tables(None, DOMAIN, tables="auto", epsilon=1, dry_run=True)
    assert auto.adaptive
    assert len(auto.tables) == 15
    with pytest.raises(TypeError, match="or \"auto\", got 'all'"):
        release_tables(None, DOMAIN, tables="all", epsilon=1, dry_run=True)


@pytest.mark.slow
def test_few_records_are_not_drowned_by_the_noise_of_pairs(noise_rng):
    """Mean shares of misplaced records are 2.2 and 0.8 at this epsilon."""
    codes = people(60)
    names = list(itertools.combinations("abcde", 2))

    def misplaced(**options):
        released = release_tables(
            codes, DOMAIN, epsilon="1/4", insecure_rng=noise_rng, **options
        )
        tables = [released.table(own, frame="dict")["count"] for own in names]
        return sum(
            np.abs(table - exact(codes, own)).sum()
            for table, own in zip(tables, names, strict=True)
        )

    at_once = sum(misplaced(tables=names) for _ in range(12))
    assert sum(misplaced(ways=2) for _ in range(12)) < at_once


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("rounds", "cost"),
    [("tree", {"epsilon": 1}), ("rounds", {"rho": Fraction(1, 2)})],
    ids=str,
)
def test_intervals_hold_after_the_choice(rounds, cost, noise_rng, monkeypatch):
    """Counted over 80 releases that choose pairs, by number of attributes."""
    force(rounds, monkeypatch)
    for module in (steps, measured_module):
        monkeypatch.setattr(module, "settle", _unsettled)
    codes = people(200)
    plan = release_tables(None, DOMAIN, tables="auto", dry_run=True, **cost)
    held, truth = {}, cache(lambda names: exact(codes, names))
    for _ in range(80):
        released = release(
            *(plan, Counts(codes, DOMAIN.shape)),
            **{"ledger": None, "say": lambda text: None, "insecure_rng": noise_rng},
        )
        for level in (0.9, 0.95):
            inside = {1: [], 2: []}
            for names in released.tables:
                table = released.table(names, level=level, frame="dict")
                if has_intervals(table):
                    low, high = table["lower"], table["upper"]
                    here = (low <= truth(names)) & (truth(names) <= high)
                    inside[len(names)].append(here)
            for size, own in inside.items():
                held.setdefault((size, level), []).append(np.concatenate(own).mean())
    for (_, level), shares in held.items():
        assert level - ref.margin(shares) <= np.mean(shares)
        assert np.mean(shares) < 1


def _unsettled(estimate, subsets, say, known=None, fits=None):
    """Stand for counts where intervals are looked at: they are stretched to counts."""
    tables = {
        subset: np.rint(np.maximum(estimate.marginal(subset), 0))
        .astype(np.int64)
        .reshape([SIZES[i] for i in subset])
        for subset in subsets
        if estimate.field.measures(subset)
    }
    found = Mock(total=0, tables=tables)
    found.tables |= {s: np.zeros([SIZES[i] for i in s], int) for s in subsets
                     if s not in tables}  # fmt: skip
    return found
