"""Private forests under (epsilon, delta): what zCDP costs, and what is promised."""

import itertools
import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
from rf_cases import SCHEMA, records
from scipy.stats import chi2
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
from mmech.exceptions import PrivacyLeakWarning
from mmech.noise import FRACTION_BITS
from mmech.privacy.cost import bounded_range_epsilon
from mmech.session import Session
from mmech_rf import PrivateForestClassifier
from mmech_rf.drawn.draw import select_tree
from mmech_rf.drawn.plan import MOST_SCORES_BOOSTING, Plan, concentrated_plan
from mmech_rf.drawn.scores import SUMS
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.drawn.trees import UNIT
from mmech_rf.drawn.views import GRID

SETTINGS = DrawnSettings()
DELTA = 1e-5
MANY = {"n_records": 100_000}
CASES = {
    "zcdp": (MANY, "zcdp"),
    "zcdp, noisy number": ({"epsilon": 3}, "zcdp"),
    "pure": ({"n_records": 100}, "pure"),
    "pure, noisy number": ({"epsilon": "1/2"}, "pure"),
}
"""Settings, and the accounting that public numbers choose for them."""
EVERY = pytest.mark.parametrize("case", CASES)


def make(case="zcdp", **parameters):
    settings = {"epsilon": 1, "privacy": "zcdp", "delta": DELTA} | CASES[case][0]
    return PrivateForestClassifier(SCHEMA, **(settings | parameters))


def fitted(case, **parameters):
    model = make(case, **parameters)
    # A noisy number that is low chooses pure epsilon.
    enough = CASES[case][1] == "zcdp" and model.n_records is None
    return model.fit(*records(8000 if enough else 300))


def session_of(rho, neighbours="add_remove", rng=None):
    return Session(mm.PrivacyLedger(rho, currency="rho", neighbours=neighbours), rng)


# ------------------------------------------------------- a draw has a bounded range
@pytest.mark.parametrize("rho", ["1/200", "1/8", "3", "1e-9"])
def test_the_window_of_a_draw_never_costs_more_than_rho(rho):
    epsilon = bounded_range_epsilon(Fraction(rho))
    assert epsilon**2 / 8 <= Fraction(rho)
    assert (epsilon + Fraction(1, 2**70)) ** 2 / 8 > Fraction(rho)


def concentrated_draw(views, codes, classes, *, rho, neighbours="add_remove"):
    session = session_of(rho, neighbours)
    codes = np.asarray(codes, np.int64).reshape(len(classes), 2)
    terms = {
        "n_classes": 2,
        "n_records": 100.0,
        **session.draw(Fraction(rho), "a tree"),
    }
    return select_tree(
        views, views.cells(codes), np.asarray(classes, np.int64), **terms
    )


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
    ("rho", "neighbours"), [("1/100", "replace"), ("1/2", "add_remove")]
)
def test_every_outcome_and_every_neighbour(rho, neighbours):
    """Over all trees: the privacy loss has its range, and Rényi divergences are low."""
    settings = {"draw": concentrated_draw, "rho": rho, "neighbours": neighbours}
    data = DATA[2]
    before = conditionals(SMALL, *data, **settings)
    epsilon = float(bounded_range_epsilon(Fraction(rho)))
    largest = 0.0
    for other in every_neighbour(*data, neighbours):
        after = conditionals(SMALL, *other, **settings)
        up = largest_log_ratio(after, before)
        down = largest_log_ratio(before, after)
        largest = max(largest, up + down)
        for order in (1.001, 2, 8, 40):
            for pair in ((before, after), (after, before)):
                assert renyi(*pair, order) <= order * float(Fraction(rho)) + 1e-12
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


# ---------------------------------------------------------------------- counts, sums
@pytest.mark.parametrize(("neighbours", "size"), [("add_remove", 1), ("replace", 2)])
@pytest.mark.parametrize("groups", [None, [1, 2, 4]], ids=["counts", "sums"])
def test_sums_have_the_variance_that_is_stated(groups, neighbours, size, noise_rng):
    """In L2 norm a record changes g groups by the root of g times as much as one."""
    session = session_of(1, neighbours, noise_rng)
    unit, rho, k = 16, Fraction(1, 40), 4000
    sums = np.full((7, k), 1000)
    if groups is None:
        measured = session.add_noise(sums, rho, "sums", unit)
    else:
        measured = session.add_noise_to_groups(sums, groups, rho, "sums", unit)
    length = size * unit * math.sqrt(3 if groups else 1)
    variance = length**2 / (2 * float(rho))
    np.testing.assert_allclose(measured.variance, variance)
    if groups:
        assert unit * session.deviation(groups, rho) == pytest.approx(variance**0.5)
    statistic = np.square(measured.values - 1000.0).sum(axis=1) / variance
    assert chi2.ppf(1e-7, k) < statistic.min()
    assert statistic.max() < chi2.ppf(1 - 1e-7, k)
    (entry,) = session.entries
    assert (entry.cost, entry.currency, entry.released) == (rho, "rho", "sums")
    assert entry.sensitivity == pytest.approx(length)


# ------------------------------------------------------------------- what a fit costs
def check_statement(model, accounting):
    """Check what is promised, and that later parameters do not rewrite it."""
    first, *lines = model.privacy_statement_.splitlines()
    assert first.startswith(
        "Released by this fit: (epsilon, delta)-differential privacy with epsilon = "
        f"{float(Fraction(model.epsilon)):g} and delta = {model.delta:g}, from "
    )
    assert ("from zCDP with rho = " in first) == (accounting == "zcdp")
    words = {"Gaussian", "permute", "L2 sensitivity"}
    found = {word for word in words if word in model.privacy_statement_}
    assert found == (words - {"permute"} if accounting == "zcdp" else set())
    for entry, line in zip(model.releases_, lines, strict=False):
        assert f": {entry.currency} = {float(entry.cost):g}, " in line
    given = model.get_params()
    model.set_params(privacy="pure", delta=None, epsilon=9)
    assert model.privacy_statement_.startswith(first)
    model.set_params(**given)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@EVERY
def test_price(case, neighbours):
    model = fitted(case, neighbours=neighbours)
    accounting = CASES[case][1]
    assert model.choice_.accounting == accounting
    check_statement(model, accounting)
    if accounting == "pure":
        spent = sum(entry.cost for entry in model.releases_)
        assert spent == Fraction(model.epsilon) == model.ledger_.spent
        return
    assert {entry.currency for entry in model.releases_} == {"rho"}
    assert model.ledger_.entries == model.releases_
    spent = model.ledger_.spent
    assert spent == Fraction(mm.rho_from_epsilon_delta(model.epsilon, model.delta))
    assert mm.delta_from_rho(spent, model.epsilon) <= model.delta
    assert model.ledger_.remaining == 0
    if model.n_records is None:
        number = model.releases_[0]
        assert number.released.startswith("number of records")
        epsilon = 0.03 * model.epsilon
        sides = 2 if neighbours == "replace" else 1
        price = ref.laplace_rho(sides, sides / epsilon)
        assert float(number.cost) == pytest.approx(price, rel=1e-5)


def test_weighted_counts_have_the_sensitivity_of_the_largest_weight():
    model = fitted("zcdp")
    sizes = {
        entry.sensitivity for entry in model.releases_ if "leaves" in entry.released
    }
    assert sizes == {1, UNIT}
    (sums,) = (e.sensitivity for e in model.releases_ if e.released == SUMS)
    # One group for the number of records, one for every attribute or two of them.
    assert sums == pytest.approx(GRID * math.sqrt(1 + model.choice_.n_scores))
    assert len(model.trees_) > 7  # more than pure epsilon affords


@pytest.mark.parametrize("n_classes", [2, 1000])
@pytest.mark.parametrize("epsilon", [1, 3])
@pytest.mark.parametrize("n_records", [20_000, 60_000, 10**8])
def test_plans(n_records, epsilon, n_classes):
    epsilon, d = Fraction(epsilon), 5
    rho = Fraction(mm.rho_from_epsilon_delta(epsilon, DELTA))
    other = Plan.of(n_records, epsilon, d, n_classes)
    plan = concentrated_plan(other, n_records, epsilon, rho, d)
    assert plan.scores + plan.first + plan.rounds * plan.further == 1
    assert min(plan.first, plan.further) > 0
    assert (plan.scores > 0) == (other.scores > 0)
    assert plan.scores <= MOST_SCORES_BOOSTING
    assert 1 <= plan.rounds <= SETTINGS.most_rounds_zcdp
    # Draws and counts are as strong beside each other as with pure epsilon: rho of a
    # count has the variance of Laplace noise of this epsilon.
    for drawn, pure in (
        (plan.selection, other.selection),
        (plan.first_selection, other.first_selection),
    ):
        ratio = float(bounded_range_epsilon(drawn)) / math.sqrt(4 * (1 - drawn))
        assert ratio == pytest.approx(float(pure / (1 - pure)))
    # No further tree is drawn with less.
    drawn = bounded_range_epsilon(rho * plan.further * plan.selection)
    least = epsilon * other.further * other.selection
    assert drawn**2 * plan.rounds >= least**2 * other.rounds * (1 - Fraction(1, 2**60))


def test_sums_have_the_noise_of_pure_epsilon():
    """As far as shares, which are rounded down to thousandths, allow."""
    epsilon, d, n_records = Fraction(1), 400, 10**8
    rho = Fraction(mm.rho_from_epsilon_delta(epsilon, DELTA))
    other = replace(Plan.of(n_records, epsilon, d, 2), scores=Fraction(1, 2))
    scores = concentrated_plan(other, n_records, epsilon, rho, d).scores
    groups, session = [1] * (d + 1), session_of(rho)
    pure = Session(mm.PrivacyLedger(1))
    needed = pure.deviation(groups, epsilon * other.scores)
    assert 0.98 * needed < session.deviation(groups, rho * scores)
    assert session.deviation(groups, rho * (scores + Fraction(1, 1000))) < 1.02 * needed


@pytest.mark.parametrize(
    ("n_records", "epsilon", "delta"),
    [(SETTINGS.boosting_from - 1, 1, DELTA), (10**6, 1, 1e-300), (10**6, 10**5, DELTA)],
    ids=["few draws", "tiny delta", "huge epsilon"],
)
def test_pure_epsilon_is_kept_where_it_does_better(n_records, epsilon, delta):
    epsilon = Fraction(epsilon)
    rho = Fraction(mm.rho_from_epsilon_delta(epsilon, delta))
    plan = Plan.of(n_records, epsilon, 5, 2)
    assert concentrated_plan(plan, n_records, epsilon, rho, 5) is None
    assert concentrated_plan(plan, n_records, epsilon, -rho, 5) is None


# ------------------------------------------------------------------- what is promised
@EVERY
def test_a_ledger_of_epsilon_is_refused_before_anything_is_spent(case):
    ledger = mm.PrivacyLedger(1000)
    model = make(case, ledger=ledger)
    with pytest.raises(ValueError, match=r"count rho with privacy=.zcdp., but counts"):
        model.fit(*records(20))
    other = mm.PrivacyLedger(1000, currency="rho")
    pure = PrivateForestClassifier(SCHEMA, epsilon=1, ledger=other)
    with pytest.raises(ValueError, match=r"must count epsilon with .*, but counts rho"):
        pure.fit(*records(20))
    assert ledger.spent == other.spent == 0
    assert not hasattr(model, "releases_")
    model.set_params(ledger=None).fit(*records(20))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@EVERY
def test_a_shared_ledger_of_rho_pays_for_every_fit(case, neighbours):
    """What (epsilon, delta) implies, each time; and nothing once that is not left."""
    model = make(case, neighbours=neighbours)
    rho = Fraction(mm.rho_from_epsilon_delta(model.epsilon, model.delta))
    ledger = mm.PrivacyLedger(5 * rho / 2, currency="rho", neighbours=neighbours)
    model.set_params(ledger=ledger)
    for number in (1, 2):
        model.fit(*records(300))
        assert model.ledger_ is ledger
        assert 0 <= number * rho - ledger.spent < Fraction(1, 2**50)
        assert model.choice_.accounting == "zcdp"
        assert ledger.entries[-len(model.releases_) :] == model.releases_
        assert f"delta = {model.delta:g}, from zCDP with" in model.privacy_statement_
    before = model.predict_proba(records(20)[0])
    with pytest.raises(mm.BudgetExceededError):
        model.fit(*records(300))
    assert len(ledger.entries) == 2 * len(model.releases_)
    np.testing.assert_array_equal(model.predict_proba(records(20)[0]), before)


@pytest.mark.parametrize("exactly", [float, Fraction])
@pytest.mark.parametrize("epsilon", [1, "1/3", "0.7", 2, 5])
def test_a_ledger_made_for_one_fit_pays_for_it(epsilon, exactly):
    """Whether its total is read as a float or as a fraction, to the last bit."""
    rho = mm.rho_from_epsilon_delta(Fraction(epsilon), DELTA)
    ledger = mm.PrivacyLedger(exactly(rho), currency="rho")
    model = make(epsilon=epsilon, n_records=100, ledger=ledger)
    model.fit(*records(20))
    assert 0 <= ledger.remaining < Fraction(1, 2**50)


# ------------------------------------------------------------------- copies and files
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("delta", "number", "warned"),
    [
        (1e-5, {}, 0),
        (2e-5, {}, 1),
        (1e-3, {"n_records": 500}, 0),
        (1e-3, {"n_records": 2000}, 1),
        (1e-5, {"n_records": 10**6}, 1),
    ],
)
def test_a_delta_that_lets_records_be_published_is_warned_of(delta, number, warned):
    X, y = records(60, np.random.default_rng(0))
    model = PrivateForestClassifier(
        SCHEMA, epsilon=1, privacy="zcdp", delta=delta, **number
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    found = [w for w in caught if "is above 1" in str(w.message)]
    assert len(found) == warned
    assert all(w.category is PrivacyLeakWarning for w in found)
