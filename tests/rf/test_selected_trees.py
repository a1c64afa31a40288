"""The forest of drawn trees: what it costs, what it sees, what it learns."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from replay import People, check_pair, entropy, play
from rf_cases import CELLS, SCHEMA, SHAPE, records, silence

from mmech import PrivacyLedger
from mmech.session import Session
from mmech_rf import PrivateForestClassifier, Schema
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.scores import VOTE_STEPS
from mmech_rf.drawn.settings import (
    EPSILON_PER_VOTE,
    MOST_ROUNDS,
    MOST_SCORES_BOOSTING,
    MOST_TREE_EPSILON,
    MOST_VOTES,
    DrawnSettings,
    Plan,
    number_of_votes,
)
from mmech_rf.drawn.trees import UNIT, boosting_weights
from mmech_rf.estimator.records import EncodedRecords

pytestmark = pytest.mark.usefixtures("scores_of_few")

SETTINGS = DrawnSettings()
RAW = CELLS.astype(str)
PLANS = {
    "one": (1, 1),
    "votes": (1, 5),
    "scores": (2000, 1),
    "strong scores": (500, 6),
    "boosted": (10**6, 1),
}
"""Number of records stated, and epsilon."""
EVERY = pytest.mark.parametrize("kind", PLANS)


# --------------------------------------------------------------------- what it costs
def test_numbers_of_votes():
    numbers = [number_of_votes(Fraction(quarters, 4)) for quarters in range(200)]
    assert numbers[0] == 1
    assert numbers[-1] == number_of_votes(Fraction(10**6)) <= MOST_VOTES
    assert numbers == sorted(numbers)
    for quarters, number in enumerate(numbers):
        assert number % 2 == 1
        assert number == 1 or number * EPSILON_PER_VOTE <= quarters / 4


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(50)])
def test_plans(epsilon):
    boosting = SETTINGS.boosting_from
    with_scores, information = set(), [1, boosting - 1, boosting, 5 * boosting, 10**9]
    for product in [*information, 30, 100, 300, 1000]:
        for n_features in (1, 16, 1000):
            for n_classes in (2, 10, 100):
                n_records = product / float(epsilon)
                plan = Plan.of(n_records, epsilon, n_features, n_classes)
                assert plan.scores + plan.first + plan.rounds * plan.further == 1
                assert min(plan.scores, plan.first, plan.further) >= 0
                assert plan.first > 0
                assert (plan.rounds > 0) == (plan.further > 0)
                assert plan.rounds <= MOST_ROUNDS
                if abs(product - SETTINGS.boosting_from) > 0.5:
                    assert (plan.rounds > 0) == (product > SETTINGS.boosting_from)
                if plan.rounds:
                    assert plan.scores <= MOST_SCORES_BOOSTING
                    most = MOST_TREE_EPSILON / epsilon
                    assert plan.first * plan.first_selection <= most
                    assert plan.further * plan.selection <= most
                elif plan.scores:
                    assert plan.first * epsilon <= MOST_TREE_EPSILON
                # Many trees vote only where nothing else is released.
                assert plan.votes == 1 or plan.scores == plan.rounds == 0
                with_scores.add((product, n_classes, n_features, plan.scores > 0))
    # More records never lose scores, more classes or attributes never win them.
    for (p, k, d, found), (more, fewer, less, above) in itertools.product(
        with_scores, repeat=2
    ):
        assert above or not (found and more >= p and fewer <= k and less <= d)
    assert Plan.of(10**9, Fraction(1), 5, 2).rounds == MOST_ROUNDS


# ---------------------------------------------------------------------- what it sees
SHARES = {
    "votes": Plan(Fraction(0), Fraction(1), Fraction(0), 0, votes=3),
    "scores": Plan(Fraction(1, 4), Fraction(3, 4), Fraction(0), 0),
    "boosted": Plan(Fraction(0), Fraction(1, 2), Fraction(1, 4), 2),
    "boosted scores": Plan(Fraction(1, 4), Fraction(1, 4), Fraction(1, 4), 2),
    "boosting from scores": Plan(
        Fraction(1, 2), Fraction(0), Fraction(1, 4), 2, corrections=1
    ),
}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("shares", SHARES)
def test_every_addition_of_a_record(shares, rng):
    """With draws held fixed, all that is released changes within its sensitivity.

    The guarantee composes over releases, each given those before it: so what records
    were told to vote, or to expect, is held fixed, and so are the drawn trees.
    """
    plan = SHARES[shares]

    def run(people, ledger):
        codes, classes = SCHEMA.encode(people.X, people.y)
        seen = EncodedRecords.once(codes, classes)
        session = Session(ledger)
        Grower(SHAPE, seen, SCHEMA.n_classes, 10**6, session).grow(Fraction(1), plan)

    def played(people, tape=None):
        return play(run, people, PrivacyLedger(1), tape)

    people = People.of(*records(12))
    with entropy(0):
        before = played(people)
    for cell, label in itertools.product(RAW.tolist(), SCHEMA.class_labels):
        place = int(rng.choice([0, 12]))
        after = played(people.and_of(cell, label, place), before)
        check_pair(before, after, epsilon=1)
    # Scores first; a draw and counts of each tree. All of it was seen.
    firsts = plan.votes if plan.first else 0
    n_trees = firsts + plan.rounds
    n_sums = (1 + plan.corrections) * bool(plan.scores)
    draws = [one.draw for one in before.played if one.draw.kind == "tree"]
    noisy = [one.draw for one in before.played if one.draw.kind != "tree"]
    assert len(draws) == n_trees
    assert len(noisy) == n_sums + n_trees
    deferring = [d.exact["predicted"] is not None for d in draws]
    assert deferring == [bool(plan.scores) and i < (firsts > 0) for i in range(n_trees)]
    kinds = [draw.kind for draw in noisy]
    assert kinds.count("k_norm") == n_sums
    units = [d.public["entry"].sensitivity for d in noisy if d.kind == "laplace"]
    assert units == [1] * firsts + [UNIT] * plan.rounds


# -------------------------------------------------------------------- what it learns
def rule(X):
    codes = X.astype(int)
    return np.where(codes[:, 0] == codes[:, 1], "yes", "no")


@EVERY
def test_it_finds_an_interaction(kind):
    X, _ = records(3000)
    kinds = np.array(["yes", "no"])
    schema = Schema(SCHEMA.attributes, ("no", "yes"))
    y = rule(X)
    n_records, epsilon = PLANS[kind]
    model = PrivateForestClassifier(schema, n_records=n_records, epsilon=epsilon)
    model.fit(X, y)
    assert (model.predict(X) == y).mean() > 0.97
    proba = model.predict_proba(RAW)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert ((proba > 0) & (proba < 1)).all()
    best = model.classes_[proba.argmax(axis=1)]
    np.testing.assert_array_equal(best, model.predict(RAW))
    assert set(best) <= set(kinds)


@pytest.mark.parametrize("n_records", [1, 2000])
def test_one_tree_gives_the_measured_share_of_right_labels(n_records, watch_all):
    silence(watch_all)
    X, _ = records(500)
    y = rule(X)
    y[::5] = np.where(y[::5] == "yes", "no", "yes")
    schema = Schema(SCHEMA.attributes, ("no", "yes"))
    model = PrivateForestClassifier(schema, epsilon=1, n_records=n_records)
    model.fit(X, y)
    right = (model.predict(X) == y).mean()
    assert model.predict_proba(X).max() == pytest.approx(right, abs=0.06)


def test_weights_are_the_odds_against_in_whole_numbers(rng):
    votes = rng.integers(-800, 800, (500, 3))
    classes = rng.integers(0, 3, 500)
    odds = np.exp(votes / VOTE_STEPS)
    own = odds[np.arange(500), classes]
    expected = np.minimum(1, (odds.sum(axis=1) - own) / own)
    found = boosting_weights(votes, classes)
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert found.max() <= UNIT
    np.testing.assert_allclose(found / UNIT, expected, atol=1.01 / UNIT)
    # Every record by itself, and in any company.
    pairs = zip(votes, classes, strict=True)
    alone = [boosting_weights(v[None], c[None])[0] for v, c in pairs]
    np.testing.assert_array_equal(alone, found)
