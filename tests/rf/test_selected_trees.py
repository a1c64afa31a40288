"""The forest of drawn trees: what it costs, what it sees, what it learns."""

import copy
import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from reference import group_norm
from replay import same
from rf_cases import CELLS, SCHEMA, paying, records, silence

from mmech import PrivacyLedger
from mmech.exceptions import PrivacyLeakWarning
from mmech_rf import Attribute, PrivateForestClassifier, Schema
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.plan import (
    EPSILON_PER_VOTE,
    MOST_SCORES_BOOSTING,
    Plan,
    number_of_votes,
)
from mmech_rf.drawn.scores import VOTE_STEPS
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.drawn.trees import UNIT, boosting_weights
from mmech_rf.private.records import EncodedRecords

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


def make(kind, **parameters):
    n_records, epsilon = PLANS[kind]
    settings = {"n_records": n_records, "epsilon": epsilon} | parameters
    return PrivateForestClassifier(SCHEMA, **settings)


# --------------------------------------------------------------------- what it costs
def test_a_noisy_number_of_records_is_paid_for():
    X, y = records(40)
    ledger = PrivacyLedger(1)
    PrivateForestClassifier(SCHEMA, epsilon=1, ledger=ledger).fit(X, y)
    assert ledger.remaining == 0
    assert ledger.entries[0].cost == Fraction(3, 100)


def test_numbers_of_votes():
    numbers = [number_of_votes(Fraction(quarters, 4)) for quarters in range(200)]
    assert numbers[0] == 1
    assert numbers[-1] == number_of_votes(Fraction(10**6)) <= SETTINGS.most_votes
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
                assert plan.rounds <= SETTINGS.most_rounds
                if abs(product - SETTINGS.boosting_from) > 0.5:
                    assert (plan.rounds > 0) == (product > SETTINGS.boosting_from)
                if plan.rounds:
                    assert plan.scores <= MOST_SCORES_BOOSTING
                    most = SETTINGS.most_tree_epsilon / epsilon
                    assert plan.first * plan.first_selection <= most
                    assert plan.further * plan.selection <= most
                elif plan.scores:
                    assert plan.first * epsilon <= SETTINGS.most_tree_epsilon
                # Many trees vote only where nothing else is released.
                assert plan.votes == 1 or plan.scores == plan.rounds == 0
                with_scores.add((product, n_classes, n_features, plan.scores > 0))
    # More records never lose scores, more classes or attributes never win them.
    has = {key[:3]: key[3] for key in with_scores}
    for (product, n_classes, n_features), found in has.items():
        above = [
            has[p, k, d]
            for p, k, d in has
            if p >= product and k <= n_classes and d <= n_features
        ]
        assert all(above) or not found
    assert Plan.of(10**9, Fraction(1), 5, 2).rounds == SETTINGS.most_rounds


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


class Watched:
    """Grows forests, notes all that is released, and repeats what the first one drew.

    The guarantee composes over releases, each given those before it: so what records
    were told to vote, or to expect, is held fixed, and so are the drawn trees.
    """

    def __init__(self, watch_all):
        self.released, self.draws, self.fixed, self.seen = [], [], [], 0
        watch_all(self.noted)

    def noted(self, draw, sample):
        """Note a draw; return what came out of it the first time."""
        drawn = replace(draw, exact=copy.deepcopy(draw.exact))
        (self.draws if draw.kind == "tree" else self.released).append(drawn)
        if self.seen == len(self.fixed):
            self.fixed.append((draw.kind, sample()))
        known, outcome = self.fixed[self.seen]
        self.seen += 1
        assert known == draw.kind
        return outcome

    def grow(self, codes, classes, plan, accounting, n_classes=SCHEMA.n_classes):
        """Return the releases and the draws of trees."""
        self.released, self.draws, self.seen = [], [], 0
        paid = paying(accounting, Fraction(1))
        seen = EncodedRecords.once(codes, classes)
        grower = Grower(SCHEMA.domain_shape, seen, n_classes, 10**6, paid)
        grower.grow(Fraction(1), plan)
        return self.released, self.draws


def check_release(before, after):
    """One more record changes what is released by no more than was claimed."""
    assert before.kind == after.kind
    same("the public side", dict(before.public), dict(after.public))
    change = after.exact - before.exact
    entry, (size,) = after.public["entry"], squared_sizes(after)
    if before.kind == "laplace":
        assert (change != 0).sum() <= 1
        assert 0 <= change.sum() <= entry.sensitivity
    elif before.kind == "gaussian":
        assert np.square(change).sum() <= size
    else:
        assert (change != 0).any(axis=0).sum() <= 1
        sizes = group_norm(change.T, before.public["groups"])  # of every class
        assert sizes.max() <= entry.sensitivity


def squared_sizes(draw):
    """Squares of L2 sensitivities that the variances stand for: σ² = Δ² / (2 rho)."""
    return [2 * draw.public["entry"].cost * v for v in draw.public["parameters"]]


def check_draw(before, after, place, cell, label):
    """One more record adds its own column to what a tree is drawn from."""
    views, old, new = before.public["views"], before.exact, after.exact
    assert after.public["views"].items == views.items
    assert new["class_codes"][place] == label
    np.testing.assert_array_equal(
        np.delete(new["class_codes"], place), old["class_codes"]
    )
    np.testing.assert_array_equal(np.delete(new["cells"], place, axis=1), old["cells"])
    np.testing.assert_array_equal(new["cells"][:, [place]], views.cells(cell[None]))
    for name in before.public.keys() - {"views"}:
        assert before.public[name] == after.public[name]
    bounds = {"weights": after.public["unit"], "predicted": SCHEMA.n_classes - 1}
    for name, most in bounds.items():
        if old[name] is None:
            assert new[name] is None
            continue
        # Nobody else's weight or prediction changes.
        np.testing.assert_array_equal(np.delete(new[name], place), old[name])
        assert 0 <= new[name][place] <= most


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
@pytest.mark.parametrize("shares", SHARES)
def test_every_addition_of_a_record(shares, accounting, watch_all, rng):
    """With draws held fixed, all that is released changes within its sensitivity."""
    plan = SHARES[shares]
    watched = Watched(watch_all)
    X, y = SCHEMA.encode(*records(12))
    before, draws = watched.grow(X, y, plan, accounting)
    for cell, label in itertools.product(CELLS, range(SCHEMA.n_classes)):
        place = int(rng.choice([0, 12]))
        codes = np.insert(X, place, cell, axis=0)
        classes = np.insert(y, place, label)
        after, drawn = watched.grow(codes, classes, plan, accounting)
        for pair in zip(before, after, strict=True):
            check_release(*pair)
        for pair in zip(draws, drawn, strict=True):
            check_draw(*pair, place, cell, label)
    # Scores first; a draw and counts of each tree. All of it was seen.
    firsts = plan.votes if plan.first else 0
    n_trees = firsts + plan.rounds
    n_sums = (1 + plan.corrections) * bool(plan.scores)
    assert len(draws) == n_trees
    assert len(before) == n_sums + n_trees
    deferring = [d.exact["predicted"] is not None for d in draws]
    assert deferring == [bool(plan.scores) and i < (firsts > 0) for i in range(n_trees)]
    kinds = [draw.kind for draw in before]
    if accounting == "zcdp":
        assert set(kinds) == {"gaussian"}
    else:
        assert kinds.count("k_norm") == n_sums
        units = [d.public["entry"].sensitivity for d in before if d.kind == "laplace"]
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


def test_scores_and_boosting_add_up_what_no_tree_of_two_levels_can_tell():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (3000, 15))
    # More attributes than a sum of few of them shows.
    y = ((2 * X - 1) @ np.tile([5, -4, 3], 5) > 0).astype(int)
    schema = Schema(
        tuple(Attribute.categorical(f"x{i}", range(2)) for i in range(15)), (0, 1)
    )
    found = {}
    # A few records stated by mistake are answered with one tree.
    kinds = {"tree": (1, 0.9), "scores": (3000, 0.9), "boosted": (3000, 4)}
    for kind, (n_records, epsilon) in kinds.items():
        settings = {"n_records": n_records, "epsilon": epsilon}
        model = PrivateForestClassifier(schema, **settings).fit(X, y)
        assert (model.choice_.rounds > 0) == (kind == "boosted")
        assert (model.choice_.n_scores > 0) == (kind != "tree")
        found[kind] = (model.predict(X) == y).mean()
    assert min(found["scores"], found["boosted"]) > found["tree"] + 0.02


def test_pure_noise_is_answered_with_the_majority():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (500, 4))
    y = (rng.random(500) < 0.1).astype(int)
    schema = Schema(
        tuple(Attribute.categorical(f"x{i}", range(4)) for i in range(4)), (0, 1)
    )
    model = PrivateForestClassifier(schema, epsilon="0.2", n_records=500)
    assert np.mean([model.fit(X, y).predict(X).mean() for _ in range(8)]) < 0.1


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


@EVERY
def test_a_seed_for_tests_fixes_everything(kind):
    texts = set()
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning):
            model = make(kind, insecure_rng=3).fit(*records(60))
        texts.add(model.describe() + str(model.predict_proba(RAW).tolist()))
    assert len(texts) == 1


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
