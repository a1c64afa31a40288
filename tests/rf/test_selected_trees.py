"""The forest of drawn trees: what it costs, what it sees, what it learns."""

import pickle
from fractions import Fraction

import numpy as np
import pytest
from rf_cases import CELLS, SCHEMA, records, silence

import mmech_rf.classifiers._selected_trees as selected
from mmech import PrivacyLedger
from mmech.exceptions import PrivacyLeakWarning
from mmech_rf import Attribute, PrivateForestClassifier, Schema
from mmech_rf.classifiers._selected_trees import UNIT, number_of_trees

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
    assert len(entries) == 2 * model.choice_.n_trees
    assert model.trees_[0].root in model.trees_[0].__dict__.values()


def test_a_noisy_number_of_records_is_paid_for():
    X, y = records(40)
    ledger = PrivacyLedger(1)
    PrivateForestClassifier(SCHEMA, epsilon=1, ledger=ledger).fit(X, y)
    assert ledger.remaining == 0
    assert ledger.entries[0].epsilon == Fraction(3, 100)


def test_plans():
    assert number_of_trees(100, Fraction(1, 10)) == (1, False)
    assert number_of_trees(100, Fraction(2)) == (1, False)
    assert number_of_trees(100, Fraction(5)) == (3, False)
    assert number_of_trees(7999, Fraction(1)) == (1, False)
    assert number_of_trees(8000, Fraction(1)) == (2, True)
    assert number_of_trees(10**9, Fraction(1)) == (8, True)


@EVERY
def test_choices_never_see_the_records(plan):
    seen = []
    for size, seed in ((0, 0), (1, 1), (90, 2)):
        model = make(plan).fit(*records(size, seed))
        seen.append((repr(model.choice_), model.privacy_statement_))
    assert seen[0] == seen[1] == seen[2]


# ---------------------------------------------------------------------- what it sees
@pytest.mark.parametrize("plan", ["one", "boosted"])
def test_every_addition_of_a_record(plan, monkeypatch):
    """With draws held fixed, one record changes one released count, by at most 1."""
    silence(monkeypatch)
    X, y = records(12)
    drawn = list(make(plan).fit(X, y).trees_)
    trees = []
    weighed = []

    def same(views, cells, class_codes, **settings):
        weighed.append((settings["weights"], settings["unit"]))
        return trees.pop(0)

    released = []
    release = selected.laplace_release

    def note(values, **settings):
        released.append((np.array(values), settings["sensitivity"]))
        return release(values, **settings)

    monkeypatch.setattr(selected, "select_tree", same)
    monkeypatch.setattr(selected, "laplace_release", note)

    def measured(rows, labels, only=None):
        trees[:] = drawn[:only]
        released.clear()
        weighed.clear()
        make(plan).fit(np.array(rows), np.array(labels))
        return list(released), list(weighed)

    monkeypatch.setattr(
        selected, "number_of_trees", lambda *a: (1 if plan == "one" else 3, False)
    )
    if plan == "boosted":
        # What later rounds see depends on earlier releases: those are held fixed too.
        scores = selected._leaf_scores
        kept = {}

        def frozen(measurement, *, first):
            place = len(kept.setdefault("now", []))
            kept["now"].append(None)
            if place not in kept:
                kept[place] = scores(measurement, first=first)
            return kept[place]

        monkeypatch.setattr(selected, "_leaf_scores", frozen)
        monkeypatch.setattr(
            "mmech_rf.classifiers._private_forest.number_of_trees",
            lambda *a: (3, True),
        )
    unit = UNIT if plan == "boosted" else 1
    before, weights = measured(X.tolist(), y.tolist())
    for cell in RAW.tolist()[::3]:
        for label in SCHEMA.class_labels:
            for place in (0, 12):
                rows = [*X.tolist()[:place], cell, *X.tolist()[place:]]
                labels = [*y.tolist()[:place], label, *y.tolist()[place:]]
                if plan == "boosted":
                    kept["now"] = []
                after, heavier = measured(rows, labels)
                assert len(after) == len(before)
                for (old, claimed), (new, _) in zip(before, after, strict=True):
                    change = new - old
                    assert (change != 0).sum() <= 1
                    assert 0 <= change.sum() <= unit == claimed
                for (old, _), (new, most) in zip(weights, heavier, strict=True):
                    assert most == unit
                    if old is None:
                        assert new is None
                        continue
                    # Nobody else's weight changes.
                    others = np.delete(new, place)
                    np.testing.assert_array_equal(others, old)
                    assert 0 <= new[place] <= UNIT


def test_released_counts_have_the_scale_of_the_largest_weight(monkeypatch):
    scales = silence(monkeypatch)
    model = make("boosted", epsilon=1).fit(*records(30))
    n_trees = model.choice_.n_trees
    assert n_trees == 8
    assert scales == [UNIT * n_trees * 2] * n_trees


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
    for epsilon in (1, 20):
        model = PrivateForestClassifier(schema, epsilon=epsilon, n_records=4000)
        model.fit(X, y)
        found[model.choice_.boosted] = (model.predict(X) == y).mean()
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
