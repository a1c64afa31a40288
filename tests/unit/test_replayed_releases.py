"""Releases of the engine are recorded and replayed to neighbours; see `replay`."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from catalogue import CATALOGUE, of_all
from replay import (
    check_neighbours,
    check_pair,
    entropy,
    loss,
    play,
    same,
)

import mmech as mm
from mmech.noise.seam import Draw
from mmech.privacy.cost import in_rho
from mmech.privacy.neighbours import Relation

RELATIONS = pytest.mark.parametrize("relation", ["add_remove", "replace"])
CURRENCIES = pytest.mark.parametrize("currency", ["epsilon", "rho"])
PRICE = Fraction(3, 7)

STRATEGIES = {
    name: operator
    for name, (operator, dense) in CATALOGUE.items()
    if np.any(dense) and np.size(dense) <= 100 and np.abs(dense).max() <= 8
}


def mechanism(currency, strategy, relation, **settings):
    settings = {currency: PRICE, "neighbours": relation, **settings}
    return mm.MatrixMechanism(strategy, strategy, **settings)


def runner(mechanism):
    """Return what measures counts and looks at all that comes of it."""

    def run(counts, ledger):
        if ledger is not None:
            # Not what a user may do: a mechanism keeps the ledger it was made with.
            vars(mechanism)["ledger"] = ledger
        # All else, such as answers, is a function of the measurement.
        return mechanism.measure(counts), repr(mechanism)

    return run


def costs(mechanism, counts, others):
    """Check all pairs; return what each costs."""
    relation = mechanism.relation
    _, found = check_neighbours(
        runner(mechanism),
        counts,
        others,
        {mechanism.law.currency: PRICE},
        neighbours=relation.neighbours,
        records_per_person=relation.records_per_person,
    )
    return found


def counts_of(strategy):
    """Return a table of two columns."""
    n = strategy.shape[1]
    return np.random.default_rng(n).integers(1, 9, (n, 2))


def with_one(counts, cell, column, amount=1):
    changed = counts.copy()
    changed[cell, column] += amount
    return changed


@pytest.mark.by_day(44)
@CURRENCIES
@pytest.mark.parametrize("name", STRATEGIES)
def test_one_more_or_less_costs_what_is_paid(name, currency):
    """The sensitivity is the exact maximum over all cells."""
    strategy = STRATEGIES[name]
    counts = counts_of(strategy)
    others = [
        with_one(counts, cell, cell % 2, (1, -1)[cell // 2 % 2])
        for cell in range(len(counts))
    ]
    measuring = mechanism(currency, strategy, "add_remove")
    assert max(costs(measuring, counts, others)) == PRICE


@pytest.mark.by_day(1)
@CURRENCIES
@of_all(STRATEGIES)
def test_who_moves_costs_no_more(name, currency):
    strategy = STRATEGIES[name]
    counts = counts_of(strategy)
    cells = list(itertools.product(range(len(counts)), repeat=2))
    others = [
        with_one(with_one(counts, old, 0, -1), new, (old + new) % 2)
        for old, new in cells[min(1, len(cells) - 1) :: max(1, len(cells) // 4)]
    ]
    costs(mechanism(currency, strategy, "replace"), counts, others)


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "k_norm"])
@RELATIONS
def test_contributions_and_signs(relation, noise):
    strategy = STRATEGIES["prefix"]
    if noise == "k_norm":
        strategy = mm.Marginals((2, 3, 2), TOTALS["two sets"])
    counts = counts_of(strategy) - 4
    settings = {"noise": noise, "contribution": 3, "signed": True}
    currency = "rho" if noise == "gaussian" else "epsilon"
    measuring = mechanism(currency, strategy, relation, **settings)
    size = 6 if relation == "replace" else 3
    others = [with_one(counts, 0, 1, -size), with_one(counts, 0, 0, size)]
    assert costs(measuring, counts, others) == [PRICE, PRICE]


@CURRENCIES
@RELATIONS
@pytest.mark.parametrize("name", ["prefix", "marginals", "vstack"])
def test_all_records_of_a_person_cost_what_is_paid(name, relation, currency):
    """Three records that change together, in one cell or in several."""
    strategy = STRATEGIES[name]
    counts = counts_of(strategy) + 12
    others = []
    for cells in itertools.combinations_with_replacement(range(len(counts)), 3):
        other = counts
        for cell in cells:
            other = with_one(other, cell, 0, -1)
            if relation == "replace":
                other = with_one(other, cell, 1)
        others.append(other)
    measuring = mechanism(currency, strategy, relation, records_per_person=3)
    found = max(costs(measuring, counts, others))
    # In L2 norm who changes column moves less than by two changes of one cell.
    assert found == PRICE or (relation, currency) == ("replace", "rho")
    four = with_one(others[0], 0, 0, -3 if relation == "add_remove" else -9)
    with pytest.raises(AssertionError, match="costs"):
        costs(measuring, counts, [four])


@CURRENCIES
@RELATIONS
@pytest.mark.parametrize("signed", [False, True])
def test_records(signed, relation, currency):
    strategy = mm.Marginals((3, 2, 2), {(0, 1): 1, (1, 2): 2})
    codes = np.random.default_rng(0).integers(0, (3, 2, 2), (9, 3))
    columns = np.arange(9) % 2

    def made(keep, column=columns):
        rows = np.column_stack([codes, column])[keep]
        if signed:
            table = np.zeros(12, np.int64)
            places = np.ravel_multi_index(rows[:, :-1].T, (3, 2, 2))
            np.add.at(table, places, 1 - 2 * rows[:, -1])
            return table
        return mm.Counts(rows, (3, 2, 2, 2))

    everybody = np.arange(9)
    if relation == "replace":
        flipped = columns.copy()
        flipped[3] = 1 - flipped[3]
        others = [np.array([1, *range(1, 9)]), np.array([*range(8), 0])]
        others = [*map(made, others), made(everybody, flipped)]
    else:
        others = [made(np.delete(everybody, i)) for i in (0, 4, 8)]
    measuring = mechanism(currency, strategy, relation, signed=signed)
    found = max(costs(measuring, made(everybody), others))
    # In L2 norm two changes of one in different places are less than one of two.
    assert found == PRICE or (found > 0 and not signed and relation == "replace")


TOTALS = {
    "one set": {(0,): 1, (1,): 1, (2,): 1},
    "two sets": {(0,): 2, (2,): 2, (1,): 3},
    "sets of one": {(0,): 1, (1,): 2, (2,): 5},
    "pairs": {(0, 1): 1, (1, 2): 1, (0,): 4, (): 4},
}
"""Marginals that are measured with equal totals where equal weights follow."""


@pytest.mark.by_day(4)
@RELATIONS
@pytest.mark.parametrize("persons", [1, 2])
@pytest.mark.parametrize("name", TOTALS)
def test_all_neighbours_of_tables_with_equal_totals(name, persons, relation):
    """All changes of one cell for another, or of one cell; all cost what is paid."""
    strategy = mm.Marginals((2, 3, 2), TOTALS[name])
    counts = counts_of(strategy) + 4
    cells = range(len(counts))
    if relation == "add_remove":
        others = [with_one(counts, cell, 1, sign) for cell in cells for sign in (1, -1)]
    else:
        others = [
            with_one(with_one(counts, old, 0, -1), new, column)
            for old, new, column in itertools.product(cells, cells, (0, 1))
        ]
    if persons == 2:  # who has twice as many records changes as much as twice
        others = [counts + 2 * (other - counts) for other in others]
    settings = {"noise": "k_norm", "records_per_person": persons}
    found = costs(mechanism("epsilon", strategy, relation, **settings), counts, others)
    assert max(found) == PRICE
    if relation == "replace":
        return
    two = with_one(others[0], 0, 0, 1)
    with pytest.raises(AssertionError, match="costs"):
        costs(mechanism("epsilon", strategy, relation, **settings), counts, [two])


@RELATIONS
@pytest.mark.parametrize("groups", [[1, 2, 2], [[1, 2], [2]]], ids=str)
def test_sums_that_are_bounded_in_groups(groups, relation):
    sums = np.array([[3, 9], [1, 4], [2, 5], [0, 7], [6, 8]])

    def run(values, ledger):
        return mm.noisy_release(
            values, groups=groups, sensitivity=2, epsilon=PRICE, released="sums",
            neighbours=relation, ledger=ledger,
        )  # fmt: skip

    step = 4 if relation == "replace" else 2
    changes = np.array([[step, 0, step, -step // 2, step // 2], [1, 1, 0, 1, 0]])
    others = [
        sums + np.outer(change, column) for column in np.eye(2, dtype=int)
        for change in changes
    ]  # fmt: skip
    price = {"epsilon": PRICE}
    _, found = check_neighbours(run, sums, others, price, neighbours=relation)
    assert found[0] == found[2] == PRICE > max(found[1], found[3])


@pytest.mark.parametrize(
    ("release", "parts"),
    [
        (partial(mm.noisy_release, sensitivity=1), 2),
        (partial(mm.noisy_release, sensitivity=1, groups=[1, 1, 1]), 2),
        (mm.permute_and_flip, 2),
        (mm.exponential_mechanism, 8),
    ],
    ids=["laplace", "k_norm", "permute and flip", "exponential"],
)
def test_pure_releases_cost_what_a_ledger_of_rho_pays(release, parts):
    """The worst of all neighbours costs the price: it could not be lower."""

    def run(values, ledger):
        return release(values, epsilon=PRICE, released="one", ledger=ledger)

    values = np.array([5, 3, 4])
    price = in_rho(PRICE, bounded_range=parts == 8)
    changes = [[1, 0, 0], [0, -1, 0]]
    if parts == 8 or release is mm.permute_and_flip:
        changes += [[1, -1, 0], [1, 0, 1]]
    with entropy(0):
        tape = play(run, values, mm.PrivacyLedger(price, currency="rho"))
    found = []
    for change in changes:
        ledger = mm.PrivacyLedger(price, currency="rho")
        found.append(
            check_pair(tape, play(run, values + change, ledger, tape), rho=price)
        )
        assert ledger.spent == price
    assert price >= max(found) > price * Fraction(999, 1000)


@CURRENCIES
@pytest.mark.parametrize("name", ["prefix", "marginals", "vstack", "pidentity"])
def test_nothing_of_a_mechanism_depends_on_counts(name, currency):
    strategy, tape = STRATEGIES[name], None

    def run(counts, _):
        measuring = mechanism(currency, strategy, "add_remove")
        measured = measuring.measure(counts)
        seen = {name: of for name, of in vars(measuring).items() if name != "strategy"}
        return seen, measured, measuring.reconstruct(measured), repr(measuring)

    for number in (0, 1, 1000):
        after = play(run, number * counts_of(strategy), None, tape)
        tape = tape or after
        same("what is seen", tape.seen, after.seen)


# ---------------------------------------------------------------- faults are found
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("draw", [mm.exponential_mechanism, mm.permute_and_flip])
def test_finds_scores_that_change_by_more(draw, monotone):
    def run(scores, ledger):
        return draw(scores, epsilon=1, monotone=monotone, released="one", ledger=ledger)

    scores = np.array([5, 3, 4])
    with entropy(0):
        tape = play(run, scores, mm.PrivacyLedger(1))
    changes = {(1, 0, 1): True, (0, -1, -1): True, (1, -1, 0): not monotone}
    changes |= {(2, 2, 2): False, (0, 0, 2): False}
    for change, sound in changes.items():
        after = play(run, scores + change, mm.PrivacyLedger(1), tape)
        if sound:
            assert check_pair(tape, after, epsilon=1) <= 1
        else:
            with pytest.raises(AssertionError, match=r"costs|change|monotone"):
                check_pair(tape, after, epsilon=1)


# ------------------------------------------------------- what is said to be a loss
def chances(kind, scores, rate):
    """Return the probability of every candidate, by all orders that there are."""
    weights = np.exp(rate * (np.asarray(scores) - max(scores)))
    if kind == "exponential":
        return weights / weights.sum()
    found = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        left = 1 / math.factorial(len(scores))
        for candidate in order:
            found[candidate] += left * weights[candidate]
            left *= 1 - weights[candidate]
    return found


@pytest.mark.parametrize("kind", ["exponential", "permute_and_flip"])
def test_the_loss_of_a_selection_bounds_all_log_ratios(kind, rng):
    public = {"rate": Fraction(3, 10), "relation": Relation("replace")}
    public["monotone"] = False
    most = 0.0
    for _ in range(300):
        scores = rng.integers(0, 6, 4)
        other = scores + rng.integers(-2, 3, 4)
        bound = float(loss(Draw(kind, scores, public), Draw(kind, other, public)))
        ratios = np.log(chances(kind, scores, 0.3) / chances(kind, other, 0.3))
        assert np.abs(ratios).max() <= bound + 1e-12
        if kind == "exponential":
            assert np.ptp(ratios) == pytest.approx(bound)
        most = max(most, np.abs(ratios).max() / max(bound, 1e-12))
    assert most > 0.5
