"""Forests on a ledger of rho: the same pure fit, each release at its own price."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
from replay import entropy
from replay_cases import NUMBERS
from rf_cases import SCHEMA, records
from tree_draws import (
    DATA,
    SMALL,
    choosing,
    conditionals,
    every_neighbour,
    largest_log_ratio,
)

import mmech as mm
import mmech.selection
import mmech_rf as rf
from mmech.noise import FRACTION_BITS
from mmech.privacy.cost import ROUNDED_UP, bounded_range_epsilon, in_rho
from mmech.privacy.entry import composed
from mmech.session import Session
from mmech_rf.drawn.draw import select_tree

RELATIONS = pytest.mark.parametrize("neighbours", ["add_remove", "replace"])


def ledger_of(rho, neighbours="add_remove"):
    return mm.PrivacyLedger(rho, currency="rho", neighbours=neighbours)


# ------------------------------------------------------- a draw has a bounded range
@pytest.mark.parametrize("rho", ["1/200", "1/8", "3", "1e-9"])
def test_the_window_of_a_draw_never_costs_more_than_rho(rho):
    epsilon = bounded_range_epsilon(Fraction(rho))
    assert epsilon**2 / 8 <= Fraction(rho)
    assert (epsilon + Fraction(1, 2**70)) ** 2 / 8 > Fraction(rho)


def draw_on_rho(views, codes, classes, *, epsilon, neighbours="add_remove"):
    """Draw a tree of pure epsilon, which the ledger charges for in rho."""
    ledger = ledger_of(epsilon**2 / 8, neighbours)
    codes = np.asarray(codes, np.int64).reshape(len(classes), 2)
    session = Session(ledger, currency="epsilon")
    classes = np.asarray(classes, np.int64)
    terms = {"n_classes": 2, "n_records": 100.0, **session.draw(epsilon, "a tree")}
    tree = select_tree(views, views.cells(codes), classes, **terms)
    assert ledger.spent == ledger.total
    return tree


def renyi(first, second, order):
    """Return the divergence of a draw of trees, of which all probabilities are given.

    The sum over all trees is one of products, like the weights of trees themselves.
    """

    def log_sum(one, other):
        logs = order * one.logs + (1 - order) * other.logs
        for option, pairs in enumerate(zip(one.below, other.below, strict=True)):
            logs[option] += sum(map(log_sum, *pairs))
        return np.logaddexp.reduce(logs)

    return log_sum(first, second) / (order - 1)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("epsilon", "neighbours"), [("2/7", "replace"), (2, "add_remove")]
)
def test_every_outcome_and_every_neighbour(epsilon, neighbours):
    """Over all trees: the privacy loss has its range, and Rényi divergences are low."""
    epsilon = Fraction(epsilon)
    settings = {"draw": draw_on_rho, "epsilon": epsilon, "neighbours": neighbours}
    data, rho = DATA[2], float(epsilon**2 / 8)
    before = conditionals(SMALL, *data, **settings)
    largest = 0.0
    for other in every_neighbour(*data, neighbours):
        after = conditionals(SMALL, *other, **settings)
        up = largest_log_ratio(after, before)
        down = largest_log_ratio(before, after)
        largest = max(largest, up + down)
        for order in (1.001, 2, 8, 40):
            for pair in ((before, after), (after, before)):
                assert renyi(*pair, order) <= order * rho + 1e-12
    assert largest <= epsilon + 1e-12
    # Nothing is given away: trees that are right gain, those that are wrong do not.
    assert largest > 0.99 * epsilon


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("monotone", [True, False])
def test_both_calibrations_have_the_range_of_their_epsilon(monotone, neighbours):
    """Over all changes of scores that one record may make."""
    seen = []

    def note(weights, insecure_rng):
        seen.append(weights / 2.0**FRACTION_BITS)
        return 0

    scores, epsilon = np.array([3, 9, 5]), 0.7
    settings = {"epsilon": epsilon, "monotone": monotone, "neighbours": neighbours}
    one = list(itertools.product((0, 1) if monotone else (-1, 0, 1), repeat=3))
    lost = one if neighbours == "replace" else [(0, 0, 0)]
    changes = {tuple(np.subtract(*pair)) for pair in itertools.product(one, lost)}
    for change in [(0, 0, 0), *changes]:
        with choosing(note, mmech.selection):
            mm.exponential_mechanism(scores + change, released="a choice", **settings)
    ranges = [np.ptp(after - seen[0]) for after in seen]
    assert max(ranges) <= epsilon
    assert max(ranges) > 0.999 * epsilon


# ------------------------------------------------------------------- what a fit costs
FITS = {
    "a tree": (rf.PrivateForestClassifier, {"n_records": 20}),
    "a noisy number": (rf.PrivateForestClassifier, {}),
    "scores": (rf.PrivateForestClassifier, {"n_records": 3000}),
    "boosting": (rf.PrivateForestClassifier, {"n_records": 20_000}),
    "much": (rf.PrivateForestClassifier, {"n_records": 20_000, "epsilon": 1000}),
    "bins": (rf.PrivateForestClassifier, {"schema": NUMBERS, "private_bins": "all"}),
    "held out": (rf.PrivateForestClassifier, {"estimate_accuracy": True}),
    "spe": (rf.RecipeForestClassifier, {"recipe": "spe"}),
    "fi-2021": (rf.RecipeForestClassifier, {"recipe": "fi-2021", "epsilon": 50}),
    "li-gini": (rf.RecipeForestClassifier, {"recipe": "li-gini"}),
    "dprf-thesis": (rf.RecipeForestClassifier, {"recipe": "dprf-thesis"}),
}


def fitted(name, ledger, **more):
    cls, given = FITS[name]
    settings = {"schema": SCHEMA, "epsilon": 1, "random_state": 0} | given | more
    model = cls(ledger=ledger, **settings)
    X, y = records(60)
    if model.schema is NUMBERS:
        X = np.tile(X, (1, NUMBERS.n_features))[:, : NUMBERS.n_features]
    with entropy(7):
        return model.fit(X, y), X


@RELATIONS
@pytest.mark.parametrize("name", FITS)
def test_the_fit_is_that_of_pure_epsilon_at_the_price_of_its_parts(name, neighbours):
    """No release costs more than its kind does; all stay within what was kept."""
    epsilon = Fraction(FITS[name][1].get("epsilon", 1))
    pure = mm.PrivacyLedger(epsilon, neighbours=neighbours)
    expected, X = fitted(name, pure, neighbours=neighbours)
    most = in_rho(epsilon) * ROUNDED_UP
    ledger = ledger_of(most, neighbours)
    model, _ = fitted(name, ledger, neighbours=neighbours)
    assert ledger.spent == composed(model.releases_)
    assert ledger.entries == model.releases_
    own = [entry for entry in model.releases_ if entry.part != "held out"]
    if name != "held out":
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
        assert composed(own, "epsilon") == pure.spent
    for entry in own:
        price = ref.laplace_rho(1, 1 / entry.epsilon)
        if entry.kind == "exponential":
            price = min(price, entry.epsilon**2 / 8)
        assert entry.cost <= price * ROUNDED_UP
    assert ledger.spent < in_rho(epsilon) or len(own) == 1
    assert model.evidence_.verdict.startswith("holds: rho")


def test_what_the_default_costs_on_car():
    car, ledger = rf.datasets.load_car(), ledger_of(1)
    model = rf.PrivateForestClassifier(car.schema, epsilon=1, ledger=ledger)
    model.fit(car.data, car.target)
    assert float(ledger.spent) == pytest.approx(0.1078, abs=1e-4)
    assert "rho = 0.107771 for neighbouring" in model.privacy_statement_


@pytest.mark.parametrize("name", ["a noisy number", "spe"])
def test_a_ledger_that_holds_less_than_the_whole_pays_for_nothing(name):
    ledger = ledger_of(in_rho(Fraction(1)) * Fraction(999, 1000))
    with pytest.raises(mm.BudgetExceededError, match=r"needs rho = 0\.46"):
        fitted(name, ledger)
    assert ledger.spent == 0
    fitted(name, ledger, epsilon="0.9")
    left = ledger.remaining
    assert left > Fraction(3, 10)  # what was kept and not spent is free again


def test_draws_of_much_epsilon_cost_no_more_than_other_releases():
    for epsilon in (Fraction(7), Fraction(8), Fraction(9), Fraction(1000)):
        price = in_rho(epsilon, bounded_range=True)
        assert price == min(epsilon**2 / 8, in_rho(epsilon))
