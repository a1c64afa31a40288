"""The forest of drawn trees: what it costs, what it sees, what it learns."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from rf_cases import CELLS, SCHEMA, records, silence

import mmech_rf.classifiers._payments as payments
import mmech_rf.classifiers._selected_trees as selected
from mmech import PrivacyLedger
from mmech.exceptions import PrivacyLeakWarning
from mmech_rf import Attribute, PrivateForestClassifier, Schema
from mmech_rf.classifiers._selected_trees import UNIT, Grower, Plan, number_of_votes

RAW = CELLS.astype(str)
PLANS = {"one": (100, 1), "votes": (100, 5), "boosted": (10**6, 1)}
"""Number of records stated, and epsilon."""
EVERY = pytest.mark.parametrize("plan", PLANS)


def make(plan, **parameters):
    n_records, epsilon = PLANS[plan]
    settings = {"n_records": n_records, "epsilon": epsilon} | parameters
    return PrivateForestClassifier(SCHEMA, **settings)


# --------------------------------------------------------------------- what it costs
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@EVERY
def test_price(plan, neighbours):
    X, y = records(40)
    model = make(plan, epsilon="0.9", neighbours=neighbours).fit(X, y)
    entries = model.ledger_.entries
    assert sum(entry.epsilon for entry in entries) == Fraction(9, 10)
    assert [e.epsilon for e in entries] == [e.epsilon for e in model.releases_]
    rounds = model.choice_.rounds
    # Boosting: three tables, a choice, and two releases for each tree.
    assert len(entries) == (3 + 1 + 2 * (1 + rounds) if rounds else 2)


def test_a_noisy_number_of_records_is_paid_for():
    X, y = records(40)
    ledger = PrivacyLedger(1)
    PrivateForestClassifier(SCHEMA, epsilon=1, ledger=ledger).fit(X, y)
    assert ledger.remaining == 0
    assert ledger.entries[0].epsilon == Fraction(3, 100)


def test_plans():
    assert number_of_votes(Fraction(1, 10)) == 1
    assert number_of_votes(Fraction(2)) == 1
    assert number_of_votes(Fraction(5)) == 3
    assert number_of_votes(Fraction(10**6)) == 9
    assert Plan.of(3999, Fraction(1), 5).rounds == 0
    assert Plan.of(4000, Fraction(1), 5).rounds == 1
    assert Plan.of(10**9, Fraction(1), 5).rounds == 7
    for information in (4000, 20_000, 10**9):
        for n_features in (1, 16, 1000):
            plan = Plan.of(information, Fraction(1), n_features)
            shares = plan.tables + plan.first + plan.choice
            assert shares + plan.rounds * plan.further == 1
            assert min(plan.tables, plan.first, plan.choice, plan.further) > 0


@EVERY
def test_choices_never_see_the_records(plan):
    seen = []
    for size, seed in ((0, 0), (1, 1), (90, 2)):
        model = make(plan).fit(*records(size, seed))
        seen.append((model.choice_.rounds, model.privacy_statement_))
    assert seen[0] == seen[1] == seen[2]


# ---------------------------------------------------------------------- what it sees
@pytest.mark.parametrize("boosting", [False, True])
def test_every_addition_of_a_record(boosting, monkeypatch):
    """With draws held fixed, one record changes one entry of every released count.

    The guarantee composes over releases, each given those before it: here what the
    records were told to vote is held fixed, and so are the drawn trees.
    """
    silence(monkeypatch)
    X, y = SCHEMA.encode(*records(12))
    epsilon = Fraction(1)
    released, weighed, fixed = [], [], {}

    def grow(codes, classes):
        released.clear()
        weighed.clear()
        grower = Grower(
            SCHEMA.domain_shape,
            codes,
            classes,
            n_classes=SCHEMA.n_classes,
            n_records=10**6,
            payments=payments.PurePayments(
                "add_remove", PrivacyLedger(1), None, lambda *entry: None
            ),
        )
        if boosting:
            grower.boosted(epsilon, Plan.of(10**6, epsilon, 3))
        else:
            grower.voting(epsilon, 3)
        return list(released), list(weighed)

    def once(kind, make):
        """Return what the first run made at this place."""
        place = kind, sum(k == kind for k, _ in weighed)
        if place not in fixed:
            fixed[place] = make()
        return fixed[place]

    select, release, log_shares, choose = (
        payments.select_tree,
        payments.laplace_release,
        selected._log_shares,
        payments.permute_and_flip,
    )

    def same_tree(*args, **settings):
        tree = once("tree", lambda: select(*args, **settings))
        weighed.append(("tree", settings["weights"]))
        return tree

    def same_choice(scores, **settings):
        chosen = once("choice", lambda: choose(scores, **settings))
        weighed.append(("choice", np.array(scores)))
        return chosen

    def same_shares(*args, **settings):
        found = once("shares", lambda: log_shares(*args, **settings))
        weighed.append(("shares", None))
        return found

    def note(values, **settings):
        released.append((np.array(values), settings["sensitivity"]))
        return release(values, **settings)

    monkeypatch.setattr(payments, "select_tree", same_tree)
    monkeypatch.setattr(payments, "permute_and_flip", same_choice)
    monkeypatch.setattr(selected, "_log_shares", same_shares)
    monkeypatch.setattr(payments, "laplace_release", note)
    before, seen = grow(X, y)
    for cell in CELLS[::3]:
        for label in range(SCHEMA.n_classes):
            for place in (0, 12):
                codes = np.insert(X, place, cell, axis=0)
                after, heavier = grow(codes, np.insert(y, place, label))
                assert len(after) == len(before)
                for (old, claimed), (new, _) in zip(before, after, strict=True):
                    change = new - old
                    assert (change != 0).sum() <= 1
                    assert 0 <= change.sum() <= claimed
                for (kind, old), (_, new) in zip(seen, heavier, strict=True):
                    if kind == "choice":
                        assert set(new - old) <= {0, 1}
                    if kind == "tree" and old is not None:
                        # Nobody else's weight changes.
                        np.testing.assert_array_equal(np.delete(new, place), old)
                        assert 0 <= new[place] <= UNIT
    assert len(before) == (3 + 1 + 7 if boosting else 3)
    assert {claimed for _, claimed in before} == ({1, UNIT} if boosting else {1})


def test_released_counts_have_the_scale_of_the_largest_weight(monkeypatch):
    scales = silence(monkeypatch)
    make("boosted", epsilon=1).fit(*records(30))
    plan = Plan.of(10**6, Fraction(1), 3)
    tables = [3 / plan.tables] * 3
    first = [4 / plan.first]
    assert scales == tables + first + [2 * UNIT / plan.further] * 7


# -------------------------------------------------------------------- what it learns
def rule(X):
    codes = X.astype(int)
    return np.where(codes[:, 0] == codes[:, 1], "yes", "no")


@EVERY
def test_it_finds_an_interaction(plan):
    X, _ = records(3000)
    kinds = np.array(["yes", "no"])
    schema = Schema(SCHEMA.attributes, ("no", "yes"))
    y = rule(X)
    n_records, epsilon = PLANS[plan]
    model = PrivateForestClassifier(schema, n_records=n_records, epsilon=epsilon)
    model.fit(X, y)
    assert (model.predict(X) == y).mean() > 0.97
    proba = model.predict_proba(RAW)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert ((proba > 0) & (proba < 1)).all()
    best = model.classes_[proba.argmax(axis=1)]
    np.testing.assert_array_equal(best, model.predict(RAW))
    assert set(best) <= set(kinds)


def test_boosting_adds_up_what_no_tree_of_two_levels_can_tell():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (4000, 6))
    # Weights in no pattern that a sum of few attributes shows.
    y = ((X - 1) @ [5, -4, 3, 2, -2, 1] > 0).astype(int)
    schema = Schema(
        tuple(Attribute.categorical(f"x{i}", range(3)) for i in range(6)), (0, 1)
    )
    found = {}
    for epsilon in (0.9, 20):
        model = PrivateForestClassifier(schema, epsilon=epsilon, n_records=4000)
        model.fit(X, y)
        found[model.choice_.rounds > 0] = (model.predict(X) == y).mean()
    assert found[True] > found[False] + 0.02


def test_pure_noise_is_answered_with_the_majority():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 4, (500, 6))
    y = (rng.random(500) < 0.1).astype(int)
    schema = Schema(
        tuple(Attribute.categorical(f"x{i}", range(4)) for i in range(6)), (0, 1)
    )
    shares = [
        PrivateForestClassifier(schema, epsilon="0.2", n_records=500)
        .fit(X, y)
        .predict(X)
        .mean()
        for _ in range(8)
    ]
    assert np.mean(shares) < 0.1


def test_one_tree_gives_the_measured_share_of_right_labels(monkeypatch):
    silence(monkeypatch)
    X, _ = records(500)
    y = rule(X)
    y[::5] = np.where(y[::5] == "yes", "no", "yes")
    schema = Schema(SCHEMA.attributes, ("no", "yes"))
    model = PrivateForestClassifier(schema, epsilon=1, n_records=500).fit(X, y)
    right = (model.predict(X) == y).mean()
    assert model.predict_proba(X).max() == pytest.approx(right, abs=0.06)


@EVERY
def test_models_are_what_was_released(plan):
    model = make(plan).fit(*records(40))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(RAW), model.predict(RAW))
    assert again.describe() == model.describe()
    assert model.describe().count("by ") >= model.choice_.n_trees


def test_a_seed_for_tests_fixes_everything():
    texts = set()
    for _ in range(2):
        with pytest.warns(PrivacyLeakWarning):
            texts.add(make("one", insecure_rng=3).fit(*records(60)).describe())
    assert len(texts) == 1


def test_a_budget_too_small_for_a_draw_is_refused_before_anything_is_spent():
    ledger = PrivacyLedger(1)
    model = PrivateForestClassifier(SCHEMA, epsilon="1e-6", ledger=ledger)
    with pytest.raises(ValueError, match="at least 1e-05 to draw trees, got 1e-06"):
        model.fit(*records(20))
    assert ledger.spent == 0
    model.set_params(method="blocks").fit(*records(20))


def test_weights_are_the_odds_against_in_whole_numbers(rng):
    votes = rng.integers(-800, 800, (500, 3))
    classes = rng.integers(0, 3, 500)
    odds = np.exp(votes / selected.VOTE_STEPS)
    own = odds[np.arange(500), classes]
    expected = np.minimum(1, (odds.sum(axis=1) - own) / own)
    found = selected._weights(votes, classes)
    assert found.dtype == np.int64
    assert found.min() >= 0
    assert found.max() <= UNIT
    np.testing.assert_allclose(found / UNIT, expected, atol=1.01 / UNIT)
    # Every record by itself, and in any company.
    alone = [
        selected._weights(v[None], c[None])[0]
        for v, c in zip(votes, classes, strict=True)
    ]
    np.testing.assert_array_equal(alone, found)
