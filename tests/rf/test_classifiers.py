"""The private classifiers: real data, labels, inputs, forests."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import rf_cases
from rf_cases import (
    ASSIGNING,
    CELLS,
    CLASSES,
    PER_BATCH,
    PRIVATE,
    RELEASED,
    SCHEMA,
    classifier,
    records,
    release,
    rule,
)
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.utils.estimator_checks import (
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
)

import mmech_rf as rf
from mmech import BudgetExceededError, PrivacyLeakWarning, PrivacyLedger
from mmech_rf.forest.ensembles import vote_shares

ALL = pytest.mark.parametrize("name", PRIVATE)
MODELS = pytest.mark.parametrize("name", RELEASED)
RAW = CELLS.astype(str)


# ----------------------------------------------------------------- real data sets
@pytest.mark.parametrize("data", ["car", "iris"])
@ALL
def test_fits_the_built_in_data_sets(data, name):
    bunch = rf.datasets.fetch(data)
    cls, settings = PRIVATE[name]
    model = cls(
        bunch.schema, epsilon=1000, n_trees=16, depth=3, random_state=0, **settings
    )
    order = np.random.default_rng(0).permutation(len(bunch.target))
    test, train = order[:100], order[100:]
    model.fit(bunch.data[train], bunch.target[train])
    predicted = model.predict(bunch.data[test])
    assert predicted.shape == (len(test),)
    assert predicted.dtype == np.asarray(bunch.target).dtype
    assert set(predicted) <= set(bunch.target)
    if name not in ASSIGNING:
        # Better than guessing, as all trees see all records and noise is negligible.
        assert np.mean(predicted == bunch.target[test]) > 1.2 / bunch.schema.n_classes
    assert model.classes_.tolist() == list(bunch.schema.class_labels)


# ------------------------------------------------------------------------- labels
@pytest.mark.by_day(8)
@pytest.mark.parametrize(
    "wrap",
    [
        list,
        tuple,
        np.array,
        pd.Series,
        lambda y: pd.Series(y, dtype="Int64"),
        lambda y: np.array(y, dtype=object),
        lambda y: np.array(y, dtype=np.int8),
        lambda y: np.array(y, dtype=float),
        lambda y: list(map(str, y)),
        lambda y: [*map(str, y[:-1]), y[-1]],
    ],
    ids=[
        "list", "tuple", "array", "series", "Int64", "objects", "int8", "float", "text",
        "mixed",
    ],
)  # fmt: skip
@pytest.mark.parametrize("labels", [["-1", "0", "1"], [-1, 0, 1], [-1.0, 0.0, 1.0]])
@pytest.mark.parametrize("name", ["batch training", "batch prediction"])
def test_labels_come_back_in_the_type_of_the_schema(name, labels, wrap, noiseless):
    """Whatever type `y` has: one record can change that, and not the schema."""
    schema = rf.Schema.from_json(rf.Schema(SCHEMA.attributes, labels).to_json())
    codes = rule(CELLS)
    target = wrap((codes - 1).tolist())
    model = classifier(name, schema=schema, n_trees=1, depth=3).fit(RAW, target)
    predicted = model.predict(RAW)
    assert predicted.dtype == model.classes_.dtype == np.array(labels).dtype
    assert model.classes_.tolist() == labels
    assert predicted.tolist() == [labels[code] for code in codes]
    assert model.score(RAW, target) == 1.0


def test_scores_weigh_records_and_name_labels_that_do_not_fit(noiseless):
    schema = rf.Schema(SCHEMA.attributes, ["-1", "0", "1"])
    target = (rule(CELLS) - 1).tolist()
    model = classifier("batch training", schema=schema, n_trees=1, depth=3)
    model.fit(RAW, target)
    wrong = [0 if label else 1 for label in target[:1]] + target[1:]
    weights = [3.0] + [1.0] * (len(target) - 1)
    share = 1 - 3 / sum(weights)
    assert model.score(RAW, wrong, sample_weight=weights) == pytest.approx(share)
    with pytest.raises(ValueError, match="row 1 of y holds a label that is not one of"):
        model.score(RAW, [target[0], "SECRET", *target[2:]])


@pytest.mark.by_day(1)
@pytest.mark.statistical
@pytest.mark.parametrize("name", ["batch training", "laplace disjoint"])
def test_the_order_of_the_classes_does_not_matter(name, monkeypatch):
    """Means of 60 fits, 6 standard errors apart at most: false alarm < 1e-7."""
    rf_cases.remember(monkeypatch)
    X, _ = records(60)
    target = np.where(np.arange(60) < 45, "no", "yes")

    def mean_and_error(order):
        schema = rf.Schema(SCHEMA.attributes, order)
        model = classifier(name, schema=schema, n_trees=2, depth=1, epsilon=0.01)
        scores = [clone(model).fit(X, target).score(X, target) for _ in range(60)]
        return np.mean(scores), np.std(scores) / math.sqrt(len(scores))

    def gap():
        orders = ["no", "yes"], ["yes", "no"]
        (a, error_a), (b, error_b) = map(mean_and_error, orders)
        return abs(a - b) / math.hypot(error_a, error_b)

    assert gap() < 6


# ------------------------------------------------------------------------- inputs
@ALL
def test_records_can_be_dropped_but_queries_cannot(name, monkeypatch):
    X, y = records(30)
    broken = X.astype(object)
    broken[3, 0], broken[7, 1] = "unheard of", None
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, handle_unknown="drop", handle_missing="drop")
    release(model, broken, y)
    total = 28 * (3 if name == "laplace shared" else 1)
    if name != "subsample hard":
        assert seen[0].counts.sum() == total
    fitted = model.fit(broken, y)
    with pytest.raises(ValueError, match="row 3, column 'x0' of X holds a value"):
        fitted.predict(broken)
    assert fitted.predict(RAW).shape == (12,)


@MODELS
def test_released_models_answer_record_by_record(name):
    """Checks of scikit-learn that it skips for estimators with random results."""
    model = classifier(name, schema=None, epsilon=10)
    checks = check_methods_sample_order_invariance, check_methods_subset_invariance
    for check in checks:
        with pytest.warns(PrivacyLeakWarning):
            check(name, model)


# ------------------------------------------------------------ forests and randomness
def forests(model):
    return [(e.features.tolist(), e.forest.feature.tolist()) for e in model.ensembles_]


@ALL
def test_random_state_shapes_forests_and_not_noise(name, monkeypatch):
    X, y = records(50)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, random_state=5)
    first, second = release(model, X, y), release(model, X, y)
    assert forests(first) == forests(second)
    noise = [s.measurement.values - s.mechanism.released.form @ s.counts for s in seen]
    # More than 20 numbers, each the same twice with probability below 0.4.
    assert noise[0].size > 20
    assert (noise[0] != noise[1]).any()
    other = classifier(name, random_state=6, n_trees=8).fit(X, y)
    assert forests(other) != forests(classifier(name, n_trees=8).fit(X, y))


def test_any_random_state():
    X, y = records(20)
    source = np.random
    for state in (None, np.int64(3), source.RandomState(0), source.SeedSequence(0)):
        model = classifier(
            "batch training", random_state=state, n_trees=16, n_ensembles=2
        )
        (features, first), (same, second) = forests(model.fit(X, y))
        assert features == same == [0, 1, 2]
        assert first != second


@ALL
def test_ensembles_differ_and_share_out_trees_and_budget(name):
    X, y = records(40)
    ledger = PrivacyLedger(1)
    model = classifier(
        name, n_trees=17, n_ensembles=3, max_features=2, epsilon="1", ledger=ledger
    )
    release(model, X, y)
    fitted = release(model.set_params(ledger=None), X, y)
    sizes = [ensemble.forest.n_trees for ensemble in fitted.ensembles_]
    assert sizes == [6, 6, 5]
    assert [ensemble.features.size for ensemble in fitted.ensembles_] == [2, 2, 2]
    assert [entry.cost for entry in ledger.entries] == [Fraction(1, 3)] * 3
    grown = forests(fitted)
    assert grown[0] != grown[1] != grown[2] != grown[0]


@pytest.mark.parametrize(("max_features", "depth"), [(None, 1), (1, 1), (2, 1), (3, 1)])
def test_automatic_depth_is_half_the_attributes_in_sight(max_features, depth):
    X, y = records(20)
    model = classifier("batch training", depth="auto", max_features=max_features)
    assert {e.forest.depth for e in model.fit(X, y).ensembles_} == {depth}
    car = rf.datasets.load_car()
    model = rf.LaplaceForestClassifier(car.schema, epsilon=1, n_trees=2)
    assert model.fit(car.data, car.target).ensembles_[0].forest.depth == 3


# ----------------------------------------------------------------- no privacy at all
def test_the_reference_without_noise_is_reproducible_and_exact():
    X, y = records(60)
    model = rf.NonPrivateForestClassifier(SCHEMA, n_trees=4, depth=2, random_state=0)
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(first.predict(RAW), second.predict(RAW))
    forest = first.ensembles_[0].forest
    exact = forest.count_leaves(SCHEMA.encode(X), SCHEMA.encode_target(y), 3)
    np.testing.assert_array_equal(first.leaf_counts_[0], exact)


# ----------------------------------------------------------- ensembles, grids, batches
@pytest.mark.parametrize("labels", [CLASSES, (-1, 1, 2)])
def test_labels_that_scikit_learn_encoded_read_aloud(labels):
    """Their numbers are those of the classes; what the sentence says then helps."""
    schema = replace(SCHEMA, class_labels=labels)
    X, y = records(60)
    y = np.array(labels)[SCHEMA.encode_target(y)]
    model = rf.PrivateForestClassifier(schema, epsilon=1)
    voting = VotingClassifier([("one", model)], voting="soft")
    message = (
        r"not one of the classes, got 0 to 2, as ensembles and cross_val_.*; "
        r".* Schema the class_labels 0 to 2, and fit to what Schema\.encode_target "
    )
    with pytest.raises(ValueError, match=message):
        voting.fit(X, y)
    voting.set_params(one__schema=replace(schema, class_labels=range(3)))
    y = schema.encode_target(y)
    assert set(voting.fit(X, y).predict(X)) <= {0, 1, 2}


@ALL
def test_an_empty_batch_is_free(name):
    model = classifier(name)
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = model.privacy_statement_
    model.fit(*records(30))
    assert model.predict(np.empty((0, 3), dtype=str)).shape == (0,)
    assert model.ledger_.spent == (0 if name in PER_BATCH else 1)


def test_votes_that_are_all_negative_say_what_is_predicted():
    votes = np.array([[-3.0, -1, -2], [-1, -2, -1], [0, 0, 0], [3, -1, 1]])
    expected = [[0, 1, 0], [0.5, 0, 0.5], [1 / 3] * 3, [0.75, 0, 0.25]]
    np.testing.assert_allclose(vote_shares(votes), expected)
    model = classifier("laplace shared", voting="weight").fit(*records(40))
    model.leaf_counts_ = [counts - 1e6 for counts in model.leaf_counts_]
    shares = model.predict_proba(RAW)
    chosen = model.schema_.encode_target(model.predict(RAW))
    assert (shares[np.arange(len(RAW)), chosen] > 0).all()
    assert (shares.max(axis=1) > 0.49).all()  # no equal shares of all three


@ALL
def test_shares_of_the_votes_are_released_with_the_labels(name):
    X, y = records(40)
    model = classifier(name).fit(X, y)
    logs = model.predict_log_proba(RAW)
    shares = model.predict_proba(RAW)
    np.testing.assert_allclose(np.exp(logs), shares)
    assert model.ledger_.remaining == 0
    assert shares.shape == (len(RAW), len(model.classes_))
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    labels = model.predict(RAW)  # of the same batch, free
    chosen = shares[np.arange(len(RAW)), model.schema_.encode_target(labels)]
    np.testing.assert_allclose(chosen, shares.max(axis=1))
    if name not in PER_BATCH:
        return
    with pytest.raises(BudgetExceededError):
        model.predict_proba(RAW[:1])
