"""The private classifiers: labels, inputs, budgets, releases, copies, errors."""

import copy
import math
import pickle
from fractions import Fraction
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import rf_cases
from processes import in_a_fork
from rf_cases import (
    ASSIGNING,
    CELLS,
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
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import (
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
)

from mmech import (
    BudgetExceededError,
    DomainTooLargeError,
    Identity,
    Prefix,
    PrivacyLeakWarning,
    PrivacyLedger,
    VStack,
    loss,
)
from mmech.noise import discrete_laplace_variance
from mmech_rf import (
    Attribute,
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    LaplaceForestClassifier,
    NonPrivateForestClassifier,
    PrivateForestClassifier,
    Schema,
    SubsampleAggregateClassifier,
    datasets,
    load_model,
    training_workload,
)
from mmech_rf.private import base as _base
from mmech_rf.private import grown as _grown
from mmech_rf.private.voting import leaf_label_by_rule

ALL = pytest.mark.parametrize("name", PRIVATE)
MODELS = pytest.mark.parametrize("name", RELEASED)
BATCHES = pytest.mark.parametrize("name", PER_BATCH)
RAW = CELLS.astype(str)


@pytest.fixture
def noiseless(watch_all):
    """Every release is exact; the value lists the scales asked for."""
    return rf_cases.silence(watch_all)


# ----------------------------------------------------------------- real data sets
@pytest.mark.parametrize(
    "load",
    [
        datasets.load_car,
        datasets.load_nursery,
        datasets.load_balance_scale,
        datasets.load_tic_tac_toe,
        partial(datasets.load_monks, 3),
        datasets.load_iris,
    ],
    ids=["car", "nursery", "balance scale", "tic-tac-toe", "monks", "iris"],
)
@ALL
def test_fits_the_built_in_data_sets(load, name):
    bunch = load()
    cls, settings = PRIVATE[name]
    model = cls(
        bunch.schema,
        epsilon=1000,
        n_trees=16,
        depth=3,
        random_state=0,
        **settings,
    )
    order = np.random.default_rng(0).permutation(len(bunch.target))
    test, train = order[:100], order[100:]
    predicted = model.fit(bunch.data[train], bunch.target[train]).predict(
        bunch.data[test]
    )
    assert predicted.shape == (len(test),)
    assert predicted.dtype == np.asarray(bunch.target).dtype
    assert set(predicted) <= set(bunch.target)
    if name not in ASSIGNING:
        # Better than guessing, as all trees see all records and noise is negligible.
        assert np.mean(predicted == bunch.target[test]) > 1.2 / bunch.schema.n_classes
    assert model.classes_.tolist() == list(bunch.schema.class_labels)


# ------------------------------------------------------------------------- labels
LABELS = {
    "text": ("no", "maybe", "yes"),
    "integers": (-1, 1, 7),
    "floats": (0.5, 1.5, -2.0),
    "mixed": ("no", 0, 2.5),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@ALL
def test_labels_of_any_type_come_back(name, labels, noiseless):
    schema = Schema(SCHEMA.attributes, labels)
    codes = rule(CELLS)
    target = [labels[code] for code in codes]
    model = classifier(name, schema=schema, n_trees=1, depth=3)
    predicted = model.fit(RAW, target).predict(RAW)
    assert predicted.tolist() == target
    assert model.classes_.tolist() == list(labels)
    assert [type(label) for label in predicted.tolist()] == list(map(type, target))


@ALL
def test_boolean_labels(name, noiseless):
    schema = Schema(SCHEMA.attributes, [True, False])
    target = rule(CELLS) > 0
    model = classifier(name, schema=schema, n_trees=1, depth=3).fit(RAW, target)
    predicted = model.predict(RAW)
    assert predicted.dtype == bool
    np.testing.assert_array_equal(predicted, target)
    assert model.score(RAW, target) == 1.0


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
        "list",
        "tuple",
        "array",
        "series",
        "Int64",
        "objects",
        "int8",
        "float",
        "text",
        "mixed",
    ],
)
@pytest.mark.parametrize("labels", [["-1", "0", "1"], [-1, 0, 1], [-1.0, 0.0, 1.0]])
@ALL
def test_labels_come_back_in_the_type_of_the_schema(name, labels, wrap, noiseless):
    """Whatever type `y` has: one record can change that, and not the schema."""
    schema = Schema.from_json(Schema(SCHEMA.attributes, labels).to_json())
    codes = rule(CELLS)
    target = wrap((codes - 1).tolist())
    model = classifier(name, schema=schema, n_trees=1, depth=3).fit(RAW, target)
    predicted = model.predict(RAW)
    assert predicted.dtype == model.classes_.dtype == np.array(labels).dtype
    assert model.classes_.tolist() == labels
    assert predicted.tolist() == [labels[code] for code in codes]
    assert model.score(RAW, target) == 1.0


@pytest.mark.parametrize("labels", [["0", "1"], [0, 1], [False, True]])
@ALL
def test_one_record_does_not_change_the_type_of_the_labels(name, labels):
    """A frame holds integers as floats where one label is missing, and as objects."""
    schema = Schema(SCHEMA.attributes, labels)
    settings = {"schema": schema, "handle_missing": "drop"}
    tables = [pd.Series([0, 1, 1]), pd.Series([0, 1, None]), pd.Series([0, 1, ""]), []]
    models = [classifier(name, **settings).fit(RAW[: len(y)], y) for y in tables]
    assert {model.classes_.dtype for model in models} == {np.array(labels).dtype}
    assert {tuple(model.classes_.tolist()) for model in models} == {tuple(labels)}
    assert {model.predict(RAW).dtype for model in models} == {np.array(labels).dtype}


def test_scores_weigh_records_and_name_labels_that_do_not_fit(noiseless):
    schema = Schema(SCHEMA.attributes, ["-1", "0", "1"])
    target = (rule(CELLS) - 1).tolist()
    model = classifier("batch training", schema=schema, n_trees=1, depth=3)
    model.fit(RAW, target)
    wrong = [0 if label else 1 for label in target[:1]] + target[1:]
    weights = [3.0] + [1.0] * (len(target) - 1)
    share = 1 - 3 / sum(weights)
    assert model.score(RAW, wrong, sample_weight=weights) == pytest.approx(share)
    with pytest.raises(ValueError, match="row 1 of y holds a label that is not one of"):
        model.score(RAW, [target[0], "SECRET", *target[2:]])


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["batch training", "laplace disjoint"])
def test_the_order_of_the_classes_does_not_matter(name, monkeypatch):
    """Means of 200 fits, 6 standard errors apart at most: false alarm < 1e-8."""
    rf_cases.remember(monkeypatch)
    X, _ = records(60)
    target = np.where(np.arange(60) < 45, "no", "yes")

    def mean_and_error(order):
        schema = Schema(SCHEMA.attributes, order)
        model = classifier(name, schema=schema, n_trees=2, depth=1, epsilon=0.01)
        scores = [clone(model).fit(X, target).score(X, target) for _ in range(200)]
        return np.mean(scores), np.std(scores) / math.sqrt(len(scores))

    def gap():
        (a, error_a), (b, error_b) = (
            mean_and_error(["no", "yes"]),
            mean_and_error(["yes", "no"]),
        )
        return abs(a - b) / math.hypot(error_a, error_b)

    assert gap() < 6
    # The test has teeth: an arg max that prefers the first class is caught.
    monkeypatch.setattr(_base, "keyed_argmax", lambda s, items, key: s.argmax(axis=1))
    assert gap() > 6


# ------------------------------------------------------------------------- inputs
@ALL
def test_frames_lists_and_arrays_are_the_same(name, noiseless, monkeypatch):
    assign = lambda self, n_records, n_trees: np.arange(n_records) % n_trees  # noqa: E731
    for cls in (SubsampleAggregateClassifier, LaplaceForestClassifier):
        monkeypatch.setattr(cls, "_assign", assign)
    X, y = records(80)
    frame = pd.DataFrame(X, columns=SCHEMA.feature_names)
    shuffled = frame[["x2", "x0", "x1"]].assign(more=1)
    seen = rf_cases.watch(monkeypatch)
    for rows, labels in (
        (X, y),
        (X.tolist(), y.tolist()),
        (X.astype(int), y),
        (frame, pd.Series(y)),
        (shuffled, pd.Series(y, index=range(5, 85))),
        (frame.to_dict("records"), y),
    ):
        model = release(classifier(name), rows, labels)
        np.testing.assert_array_equal(seen[-1].counts, seen[0].counts)
        assert model.n_features_in_ == 3
        assert model.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert len(seen) == 6


@ALL
def test_clone_and_parameters(name):
    model = classifier(name, n_trees=5, handle_unknown="drop")
    again = clone(model)
    assert again.get_params() == model.get_params()
    assert again is not model
    assert again.set_params(n_trees=7).n_trees == 7
    assert "SPENT" not in repr(model)
    assert repr(again).startswith(type(model).__name__)
    X, y = records(30)
    fitted = model.fit(X, y)
    with pytest.raises(NotFittedError):
        clone(fitted).predict(RAW)


@ALL
def test_in_a_pipeline(name):
    X, y = records(40)
    pipeline = make_pipeline(FunctionTransformer(), classifier(name, epsilon=1e6))
    predicted = pipeline.fit(X, y).predict(RAW)
    assert set(predicted) <= set(y)


@ALL
def test_a_shared_ledger_pays_for_every_fold(name):
    X, y = records(60)
    ledger = PrivacyLedger(3)
    model = classifier(name, ledger=ledger)
    scores = cross_val_score(model, X, y, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert ledger.spent == 3
    with pytest.raises(BudgetExceededError, match="nothing was released"):
        cross_val_score(model, X, y, cv=3, error_score="raise")
    assert ledger.spent == 3


@ALL
def test_an_empty_data_set_is_a_data_set(name):
    """It is a neighbour of every data set of one record, so it must fit, too."""
    for X, y in (([], []), (np.empty((0, 3), dtype=str), np.empty(0, dtype=str))):
        model = classifier(name).fit(X, y)
        assert model.predict(RAW).shape == (12,)
        assert model.classes_.tolist() == list(SCHEMA.class_labels)


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
    for check in (
        check_methods_sample_order_invariance,
        check_methods_subset_invariance,
    ):
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


def test_the_strategy_is_the_same_in_every_fit():
    X, y = records(20)
    model = classifier("batch prediction", template="pidentity")
    first, second = (
        release(model, X, y, CELLS[:4]).strategies_[0].strategy for _ in range(2)
    )
    np.testing.assert_array_equal(first.to_dense(), second.to_dense())
    assert (first.to_dense() != np.eye(*first.shape)).any()


@pytest.mark.parametrize(
    "random_state",
    [
        None,
        np.int64(3),
        np.random.RandomState(0),
        np.random.default_rng(0),
        np.random.SeedSequence(0),
    ],
    ids=["none", "integer", "RandomState", "Generator", "SeedSequence"],
)
def test_any_random_state(random_state):
    X, y = records(20)
    model = classifier("batch training", random_state=random_state, n_ensembles=2)
    grown = forests(model.fit(X, y))
    assert len(grown) == 2


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


def test_the_same_features_still_get_different_forests():
    X, y = records(40)
    model = classifier("batch training", n_trees=16, n_ensembles=2).fit(X, y)
    (features, first), (same, second) = forests(model)
    assert features == same == [0, 1, 2]
    assert first != second


@pytest.mark.parametrize(("max_features", "depth"), [(None, 1), (1, 1), (2, 1), (3, 1)])
def test_automatic_depth_is_half_the_attributes_in_sight(max_features, depth):
    X, y = records(20)
    model = classifier("batch training", depth="auto", max_features=max_features)
    assert {e.forest.depth for e in model.fit(X, y).ensembles_} == {depth}
    car = datasets.load_car()
    model = LaplaceForestClassifier(car.schema, epsilon=1, n_trees=2)
    assert model.fit(car.data, car.target).ensembles_[0].forest.depth == 3


# --------------------------------------------------------------- errors and noise
@ALL
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_expected_error_is_the_sum_over_ensembles_and_classes(
    name, neighbours, monkeypatch
):
    X, y = records(30)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, n_ensembles=2, neighbours=neighbours, epsilon="1/2")
    fitted = release(model, X, y)
    contribution = {"laplace shared": [2, 1], "subsample hard": [2, 2]}.get(
        name, [1, 1]
    )
    doubled = 2 if neighbours == "replace" else 1
    # The strategies are identities: the noise on every cell has this variance.
    by_hand = sum(
        discrete_laplace_variance(part * doubled / 0.25)
        * loss(s.mechanism.workload, s.mechanism.strategy)
        for part, s in zip(contribution, seen, strict=True)
    )
    assert fitted.expected_error_ == pytest.approx(3 * by_hand)
    mechanisms = [s.mechanism for s in seen]
    assert fitted.expected_error_ == pytest.approx(
        3 * sum(mechanism.expected_error() for mechanism in mechanisms)
    )


@pytest.mark.statistical
@ALL
def test_expected_error_is_the_mean_squared_error(name, monkeypatch):
    """Mean of 300 releases within 6 standard errors: false alarm about 1e-8."""
    rf_cases.remember(monkeypatch)
    X, y = records(30)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, n_ensembles=2, max_features=2, epsilon=2)
    if "template" in model.get_params():
        model.set_params(template="pidentity")
    errors = []
    for _ in range(300):
        seen.clear()
        fitted = release(model, X, y)
        errors.append(
            sum(
                np.square(
                    s.mechanism.workload @ s.mechanism.reconstruct(s.measurement)
                    - s.mechanism.workload @ s.counts
                ).sum()
                for s in seen
            )
        )
    margin = 6 * np.std(errors) / math.sqrt(len(errors))
    assert abs(np.mean(errors) - fitted.expected_error_) < margin


def test_leaf_counts_are_what_was_released(monkeypatch):
    X, y = records(30)
    seen = rf_cases.watch(monkeypatch)
    model = release(classifier("batch training", epsilon=1), X, y)
    (one,) = seen
    np.testing.assert_allclose(
        model.leaf_counts_[0],
        one.mechanism.workload @ one.mechanism.reconstruct(one.measurement),
    )
    counts = model.leaf_counts_[0]
    chosen = counts[np.arange(len(counts)), model.leaf_labels_[0]]
    np.testing.assert_array_equal(chosen, counts.max(axis=1))


@pytest.mark.parametrize(
    "name", ["batch training", "batch prediction", "subsample weight", "subsample hard"]
)
def test_the_pseudoinverse_multiplies_the_noise(name, monkeypatch, watch_all):
    """W A⁺ noise by hand, for a strategy that is far from the identity."""
    X, y = records(40)
    drawn = []

    def add_noise(draw, sample):
        if draw.kind != "laplace":
            return sample()
        (scale,) = draw.public["parameters"]
        noise = np.rint(float(9 * scale) * np.sin(np.arange(draw.exact.size)))
        noise = noise.astype(np.int64).reshape(draw.exact.shape)
        drawn.append((scale, noise))
        return draw.exact + noise

    def strategies_of(self, workloads):
        sizes = [workload.shape[1] for workload in workloads]
        return [
            SimpleNamespace(strategy=VStack([Identity(n), Identity(n), Prefix(n)]))
            for n in sizes
        ]

    watch_all(add_noise)
    monkeypatch.setattr(_grown.OptimizedForest, "_optimize", strategies_of)
    seen, answers = rf_cases.watch(monkeypatch), []
    answer = _grown.GrownForest._answer

    def keep(self, mechanism, counts):
        answers.append(answer(self, mechanism, counts))
        return answers[-1]

    monkeypatch.setattr(_grown.GrownForest, "_answer", keep)
    model = release(classifier(name, epsilon=2, n_trees=4), X, y)
    (scale, noise), (one,), (got,) = drawn[0], seen, answers
    n = one.counts.shape[0]
    A = np.vstack([np.eye(n), np.eye(n), np.tril(np.ones((n, n)))])
    contribution = 2 if name == "subsample hard" else 1
    assert scale == Fraction(contribution * (2 + n), 2)
    assert noise.shape == (3 * n, 3)
    W = one.mechanism.workload.to_dense()
    by_hand = W @ one.counts + W @ np.linalg.pinv(A) @ noise
    np.testing.assert_allclose(got, by_hand, atol=1e-8)
    assert not np.allclose(got, W @ one.counts + W @ A.T @ noise, atol=1e-3)
    if name == "batch training":
        T = training_workload(model.ensembles_[0].forest).to_dense()
        np.testing.assert_array_equal(T, W)
        np.testing.assert_allclose(model.leaf_counts_[0], by_hand, atol=1e-8)


# ------------------------------------------------------------------------- voting
def test_votes_by_hand(noiseless):
    """Leaf counts of two trees of depth 1, and what the two ways to vote make of it."""
    schema = Schema(
        [
            Attribute.categorical("a", ["0", "1"]),
            Attribute.categorical("b", ["0", "1"]),
        ],
        ["no", "yes"],
    )
    X = [["0", "0"]] * 3 + [["0", "1"]] * 2 + [["1", "0"]] * 4
    y = ["no"] * 3 + ["yes"] * 2 + ["yes"] * 4
    model = BatchTrainingClassifier(schema, epsilon=1, n_trees=16, depth=1)
    model.fit(X, y)
    forest = model.ensembles_[0].forest
    roots = forest.feature[forest.node_offsets[:-1]]
    on_a, on_b = (roots == 0).sum(), (roots == 1).sum()
    assert on_a > 0
    assert on_b > 0
    by_a = {"0": (3, 2), "1": (0, 4)}
    by_b = {"0": (3, 4), "1": (0, 2)}
    for query in (["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"]):
        weight = on_a * np.array(by_a[query[0]]) + on_b * np.array(by_b[query[1]])
        hard = on_a * (np.array(by_a[query[0]]) == max(by_a[query[0]]))
        hard = hard + on_b * (np.array(by_b[query[1]]) == max(by_b[query[1]]))
        for voting, votes in (("weight", weight), ("hard", hard)):
            if votes[0] != votes[1]:
                model.set_params(voting=voting)
                label = model.predict([query])[0]
                assert label == ("no", "yes")[int(votes.argmax())], (query, voting)


@BATCHES
def test_batch_votes_are_the_arg_max_of_exact_votes(name, noiseless, monkeypatch):
    X, y = records(200)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, n_trees=5).fit(X, y)
    labels = model.predict(RAW)
    votes = sum(s.mechanism.workload @ s.counts for s in seen)
    best = votes == votes.max(axis=1, keepdims=True)
    # Reconstruction rounds, so that an exact tie may be decided by it.
    assert all(best[i, list(model.classes_).index(c)] for i, c in enumerate(labels))


def test_leaf_labels_follow_a_rule_of_the_leaf_alone():
    counts = np.array(
        [[0, 0, 0], [2, 1, 1], [1, 1, 0], [2, 2, 1], [1, 1, 1], [0, 3, 3]]
    )
    assert leaf_label_by_rule(counts, 2).tolist() == [2, 0, 0, 1, 0, 1]
    # Rows do not influence each other.
    for row, label in zip(counts, leaf_label_by_rule(counts, 1), strict=True):
        assert leaf_label_by_rule(row[None], 1)[0] == label


def test_empty_leaves_vote_the_default_label(noiseless):
    model = classifier("subsample hard", default_label="yes", n_trees=4)
    assert model.fit([], []).predict(RAW).tolist() == ["yes"] * 12
    model = classifier("subsample hard", n_trees=4)
    assert model.fit([], []).predict(RAW).tolist() == ["no"] * 12


# ------------------------------------------------------- statements, times, ledgers
@ALL
def test_timings_add_up(name):
    X, y = records(30)
    model = release(classifier(name, n_ensembles=2), X, y)
    model.predict(RAW)
    assert set(model.timings_) == {"trees", "optimization", "measurement", "prediction"}
    assert all(seconds >= 0 for seconds in model.timings_.values())
    assert model.timings_["measurement"] > 0


def test_nested_stages_are_not_counted_twice(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(_base.time, "perf_counter", lambda: next(clock))
    model = classifier("batch training")
    model.timings_ = dict.fromkeys(_base.STAGES, 0.0)
    with model._timed("prediction"), model._timed("optimization"):
        pass
    assert model.timings_["optimization"] == 1
    assert sum(model.timings_.values()) == 3


@ALL
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_the_statement_says_what_was_released(name, neighbours):
    X, y = records(30)
    model = classifier(name, epsilon="0.3", n_ensembles=3, neighbours=neighbours)
    model.fit(X, y)
    if name in PER_BATCH:
        assert "Nothing has been released yet" in model.privacy_statement_
        model.predict(RAW)
    statement = model.privacy_statement_
    assert "epsilon = 0.3 for neighbouring data sets" in statement
    relation = "replacing" if neighbours == "replace" else "adding or removing"
    assert f"by {relation} one record" in statement
    assert statement.count(": epsilon = 0.1, L1 sensitivity") == 3
    for entry in model.releases_:
        assert f"L1 sensitivity {entry.sensitivity:g}, exact discrete" in statement
    assert sum(entry.cost for entry in model.releases_) == Fraction(3, 10)
    assert ("votes of one batch" in statement) == (name in PER_BATCH)
    assert "do not depend on records" in statement
    # Settled by the fit: later parameters do not rewrite it.
    model.set_params(neighbours="add_remove", schema=None, insecure_rng=0)
    assert model.privacy_statement_ == statement


def test_the_statement_admits_what_is_not_covered():
    X, y = records(30)
    with pytest.warns(PrivacyLeakWarning, match="reads categories, bounds and classes"):
        model = classifier("batch training", schema=None).fit(X, y)
    assert "NOT COVERED" in model.privacy_statement_
    with pytest.warns(PrivacyLeakWarning, match="predictable and gives no privacy"):
        model = classifier("batch training", insecure_rng=0).fit(X, y)
    assert "NOT PRIVATE" in model.privacy_statement_
    assert "NOT PRIVATE" in pickle.loads(pickle.dumps(model)).privacy_statement_
    model = NonPrivateForestClassifier(SCHEMA, n_trees=2).fit(X, y)
    assert model.privacy_statement_.startswith("NOT PRIVATE")


def test_the_test_generator_makes_noise_repeatable():
    X, y = records(30)
    model = classifier("batch training", insecure_rng=7)
    with pytest.warns(PrivacyLeakWarning):
        first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(first.leaf_counts_, second.leaf_counts_)


@BATCHES
def test_a_batch_is_paid_for_once(name, noiseless):
    X, y = records(50)
    model = classifier(name).fit(X, y)
    assert model.ledger_.spent == 0
    first = model.predict(RAW)
    assert model.ledger_.spent == 1
    draws = len(noiseless)
    np.testing.assert_array_equal(model.predict(RAW), first)
    np.testing.assert_array_equal(
        model.predict(pd.DataFrame(RAW, columns=SCHEMA.feature_names)), first
    )
    assert model.ledger_.spent == 1
    before = model.privacy_statement_
    with pytest.raises(BudgetExceededError, match="needs epsilon = 1 but only 0 of 1"):
        model.predict(RAW[:3])
    assert len(noiseless) == draws
    assert model.privacy_statement_ == before
    np.testing.assert_array_equal(model.predict(RAW), first)


@BATCHES
def test_a_fork_answers_no_batch_of_its_own(name):
    """But it knows what was answered before, and may train with a budget of its own."""
    X, y = records(30)
    model = classifier(name).fit(X, y)

    def predict(rows):
        try:
            return model.predict(rows)
        except BudgetExceededError as refusal:
            return str(refusal)

    assert "belongs to the process" in in_a_fork(lambda: predict(RAW[:3]))
    labels = predict(RAW[:3])
    np.testing.assert_array_equal(in_a_fork(lambda: predict(RAW[:3])), labels)
    fitted = in_a_fork(lambda: classifier(name).fit(X, y).predict(RAW))
    assert fitted.shape == (12,)


@ALL
def test_a_classifier_says_that_it_has_a_part_of_a_ledger(name):
    part = PrivacyLedger(1).part("region", "north")
    assert "part('region', 'north')" in repr(classifier(name, ledger=part))


@BATCHES
def test_every_batch_is_remembered(name):
    X, y = records(50)
    ledger = PrivacyLedger(2)
    model = classifier(name, ledger=ledger).fit(X, y)
    first, second = model.predict(RAW), model.predict(RAW[:5])
    assert ledger.spent == 2
    np.testing.assert_array_equal(model.predict(RAW), first)
    np.testing.assert_array_equal(model.predict(RAW[:5]), second)
    assert ledger.spent == 2
    assert len(model.releases_) == 2


@BATCHES
def test_answers_handed_out_are_copies(name):
    X, y = records(50)
    model = classifier(name).fit(X, y)
    first = model.predict(RAW)
    kept = first.copy()
    first[:] = "yes"
    np.testing.assert_array_equal(model.predict(RAW), kept)


@ALL
def test_nothing_is_half_released(name, noiseless):
    """Two ensembles need 2, the ledger covers one: no noise is drawn at all."""
    X, y = records(30)
    ledger = PrivacyLedger("1.5")
    model = classifier(name, epsilon=2, n_ensembles=2, ledger=ledger)
    with pytest.raises(BudgetExceededError, match=r"needs epsilon = 2 but only 1\.5"):
        release(model, X, y)
    assert ledger.spent == 0
    assert noiseless == []


def test_estimators_share_a_ledger():
    X, y = records(30)
    ledger = PrivacyLedger(3)
    for name in RELEASED:
        release(classifier(name, ledger=ledger), X, y)
    assert ledger.remaining == 0
    for name in PRIVATE:
        with pytest.raises(BudgetExceededError, match="only 0 of 3 is left"):
            release(classifier(name, ledger=ledger), X, y)
    assert len(ledger.entries) == 3


@ALL
def test_a_ledger_of_rho_pays_for_pure_epsilon(name):
    """For every ensemble half the square of its share, not half that of the sum."""
    X, y = records(30)
    ledger = PrivacyLedger("1/4", currency="rho")
    model = release(classifier(name, n_ensembles=2, ledger=ledger), X, y)
    assert [entry.cost for entry in ledger.entries] == [Fraction(1, 8)] * 2
    assert model.privacy_statement_.startswith("Released by this fit: rho = 0.25 for")
    with pytest.raises(BudgetExceededError):
        release(classifier(name, n_ensembles=2, ledger=ledger), X, y)
    assert ledger.remaining == 0


@pytest.mark.parametrize("name", RELEASED)
def test_models_that_were_paid_in_rho_are_files(name, tmp_path):
    ledger = PrivacyLedger("1/2", currency="rho")
    model = classifier(name, ledger=ledger).fit(*records(30))
    model.save(tmp_path / "model.npz")
    copy = load_model(tmp_path / "model.npz")
    assert copy.releases_ == model.releases_
    assert copy.privacy_statement_ == model.privacy_statement_


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@ALL
def test_records_of_one_person_make_the_noise_larger(name, neighbours, watch_all):
    X, y = records(30)
    scales, statements = rf_cases.silence(watch_all), []
    for records_per_person in (1, 2):
        model = classifier(
            name, neighbours=neighbours, records_per_person=records_per_person
        )
        statements.append(release(model, X, y).privacy_statement_)
    one, two = scales
    assert two == 2 * one
    assert "one record." in statements[0]
    assert "one person with up to 2 records." in statements[1]


@ALL
def test_the_ledger_must_be_for_as_many_records_of_a_person(name):
    ledger = PrivacyLedger(1, records_per_person=2)
    with pytest.raises(ValueError, match="same neighbours= and records_per_person="):
        classifier(name, ledger=ledger).fit(*records(30))
    assert ledger.spent == 0


@ALL
def test_the_ledger_must_be_for_the_same_neighbours(name):
    X, y = records(30)
    ledger = PrivacyLedger(1, neighbours="replace")
    with pytest.raises(
        ValueError, match="by replacing one record but the classifier for ones that"
    ):
        classifier(name, ledger=ledger).fit(X, y)
    assert ledger.spent == 0


# ---------------------------------------------------------------- fits that fail
@ALL
def test_a_failed_fit_leaves_the_estimator_as_it_was(name):
    X, y = records(30)
    model = classifier(name)
    with pytest.raises(ValueError, match="row 0 of y holds a label"):
        model.fit(X, ["?!"] * 30)
    with pytest.raises(NotFittedError):
        model.predict(RAW)
    model.fit(X, y)
    first, statement = model.predict(RAW), model.privacy_statement_
    model.set_params(ledger=PrivacyLedger("0.5"))
    with pytest.raises(BudgetExceededError):  # batch methods fail on a new batch
        model.fit(X, y).predict(RAW)
    if name in RELEASED:
        np.testing.assert_array_equal(model.predict(RAW), first)
        assert model.privacy_statement_ == statement


@BATCHES
def test_a_new_fit_forgets_the_old_answers(name, noiseless):
    schema_labels = {0: "no", 1: "yes"}
    model = classifier(name, n_trees=1, depth=3)
    for code in schema_labels:
        target = [schema_labels[code]] * 12
        assert model.fit(RAW, target).predict(RAW).tolist() == target
        assert model.ledger_.spent == 1


# ------------------------------------------------------------- copies of a model
@MODELS
@pytest.mark.parametrize("ledger", [None, PrivacyLedger], ids=["own", "shared"])
@pytest.mark.parametrize(
    "duplicate",
    [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_released_model_can_be_copied(name, duplicate, ledger):
    X, y = records(40)
    # Few trees and little budget make ties, which copies must break alike.
    model = classifier(name, n_trees=2, epsilon="0.1", ledger=ledger and ledger("0.1"))
    model.fit(X, y)
    twin = duplicate(model)
    np.testing.assert_array_equal(twin.predict(RAW), model.predict(RAW))
    assert twin.privacy_statement_ == model.privacy_statement_
    assert twin.expected_error_ == model.expected_error_
    assert set(twin.timings_.values()) <= {0.0, twin.timings_["prediction"]}
    # A copy must not be a way around the ledger.
    with pytest.raises(BudgetExceededError, match="only 0 of"):
        twin.fit(X, y)
    np.testing.assert_array_equal(twin.predict(RAW), model.predict(RAW))
    assert twin.set_params(ledger=None).fit(X, y).ledger_.spent == Fraction(1, 10)


@ALL
def test_an_unfitted_classifier_can_be_copied(name):
    model = classifier(name)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with pytest.raises(NotFittedError):
            twin.predict(RAW)
    ledger = PrivacyLedger(1)
    shared = classifier(name, ledger=ledger)
    assert copy.deepcopy(shared).ledger is ledger
    assert clone(shared).ledger is ledger
    with pytest.raises(TypeError, match="would spend the same budget again"):
        pickle.dumps(shared)


@BATCHES
def test_what_holds_counts_refuses_to_be_copied(name):
    X, y = records(30)
    model = classifier(name)
    assert "sensitive" not in repr(model)
    model.fit(X, y)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="holds sensitive counts and cannot be"):
            duplicate(model)
    assert "[holds sensitive counts: do not save or share]" in repr(model)
    assert clone(model).fit(X, y).predict(RAW).shape == (12,)


@BATCHES
def test_a_closed_model_keeps_its_answers_and_nothing_sensitive(name):
    X, y = records(50)
    ledger = PrivacyLedger(5)
    model = classifier(name, ledger=ledger).fit(X, y)
    labels = model.predict(RAW)
    assert "holds sensitive counts" in repr(model)
    model.close()
    assert "holds sensitive counts" not in repr(model)
    np.testing.assert_array_equal(model.predict(RAW), labels)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(RAW), labels)
    with pytest.raises(BudgetExceededError, match="was closed and holds no counts"):
        model.predict(RAW[:3])
    assert ledger.spent == 1
    assert model.fit(X, y).predict(RAW[:3]).shape == (3,)


@MODELS
def test_a_released_model_holds_no_exact_counts(name, monkeypatch):
    """Every array in reach of the saved model, against every exact array."""
    X, y = records(40)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, n_trees=4).fit(X, y)
    exact = [seen[0].counts, seen[0].mechanism.workload @ seen[0].counts]
    secret = [array.tobytes() for array in exact]
    secret += [array.astype(float).tobytes() for array in exact]
    saved = pickle.dumps(model)
    assert not any(array in saved for array in secret)
    assert all(array.tobytes() in saved for array in model.leaf_counts_)


@ALL
def test_html_shows_nothing_that_depends_on_records(name):
    X, y = records(37)
    model = classifier(name).fit(X, y)
    text = model._repr_html_() + repr(model) + model._repr_mimebundle_()["text/html"]
    assert "timings_" not in text
    assert "_counts" not in text.replace("leaf_counts_", "")
    assert "releases_" in text or not hasattr(model, "_get_fitted_attr_html")


@BATCHES
def test_a_closed_model_forgets_that_there_were_counts(name):
    model = classifier(name).fit(*records(30))
    model.close()
    assert "_counts" not in model.__getstate__()
    assert b"_counts" not in pickle.dumps(model)


# ------------------------------------------------------------- fits one after another
@ALL
def test_one_more_fit_warns_once_that_it_spends_more(name):
    X, y = records(30)
    model = classifier(name, epsilon="1/2").fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="epsilon = 1 in all"):
        model.fit(X, y)
    model.fit(X, y)
    if name in RELEASED:
        assert "Released by this fit: epsilon = 0.5" in model.privacy_statement_
    assert "Other fits on the same records add to this" in model.privacy_statement_


@ALL
def test_cross_validation_warns_once_unless_the_folds_share_a_ledger(name):
    X, y = records(30)
    ledger = PrivacyLedger(1)
    shared = classifier(name, epsilon="1/3", ledger=ledger)
    cross_val_score(shared, X, y, cv=3)
    assert ledger.remaining == 0
    with pytest.warns(PrivacyLeakWarning, match="as in cross-validation") as caught:
        cross_val_score(classifier(name), X, y, cv=3)
    assert len(caught) == 1
    model = classifier(name, epsilon="1/100")
    with pytest.warns(PrivacyLeakWarning, match="as in cross-validation") as caught:
        GridSearchCV(model, {"depth": [1, 2]}, cv=2).fit(X, y)
    assert len(caught) == 1


@ALL
def test_what_counts_as_a_fit_before(name):
    """Copies and clones count together; others, and fits that failed, do not."""
    X, y = records(30)
    model = classifier(name)
    with pytest.raises(ValueError, match="label"):
        model.fit(X, y[:-1])
    for other in (classifier(name), classifier(name)):
        other.fit(X, y)
    twins = clone(model), copy.deepcopy(clone(model)), pickle.loads(pickle.dumps(model))
    twins[0].fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="was fitted before"):
        twins[1].fit(X, y)
    shared = classifier(name, ledger=PrivacyLedger(2))
    shared.fit(X, y).fit(X, y)


@pytest.mark.parametrize("name", sorted(PER_BATCH))
def test_shares_of_the_votes_are_released_with_the_labels(name):
    X, y = records(40)
    model = classifier(name).fit(X, y)
    shares = model.predict_proba(RAW)
    assert model.ledger_.remaining == 0
    assert shares.shape == (len(RAW), len(model.classes_))
    assert shares.min() >= 0
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    labels = model.predict(RAW)  # of the same batch, free
    chosen = shares[np.arange(len(RAW)), model.schema_.encode_target(labels)]
    np.testing.assert_allclose(chosen, shares.max(axis=1))
    with pytest.raises(BudgetExceededError):
        model.predict_proba(RAW[:1])


# ------------------------------------------------------------------ error messages
@ALL
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0, got 0"),
        ({"epsilon": -1.5}, ValueError, r"epsilon must be a finite .*, got -1\.5"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be a finite .*, got nan"),
        ({"epsilon": math.inf}, ValueError, "epsilon must be a finite .*, got inf"),
        ({"epsilon": None}, TypeError, "epsilon .* got None; there is no default"),
        ({"n_trees": 0}, ValueError, "n_trees must be an integer >= 1, got 0"),
        ({"n_trees": 2.0}, TypeError, "n_trees must be an integer >= 1"),
        ({"depth": -1}, ValueError, "depth must be an integer >= 0, got -1"),
        ({"depth": "half"}, ValueError, "depth must be one of 'auto', got 'half'"),
        ({"n_trees": (2, 2)}, ValueError, "n_trees must have one entry .* got 2; give"),
        ({"n_trees": (0,)}, ValueError, r"n_trees\[0\] must be an integer >= 1, got 0"),
        ({"depth": 100}, ValueError, "depth must be at most 3, .* choose depth='auto'"),
        ({"random_state": "a"}, TypeError, "random_state must be an integer >= 0"),
        ({"random_state": -1}, ValueError, "random_state must be an .*, got -1"),
        ({"depth": [1, 2]}, ValueError, "depth must have one entry for each .* got 2"),
        ({"depth": ["half"]}, ValueError, r"depth\[0\] must be one of 'auto'"),
        ({"n_ensembles": 4}, ValueError, "n_trees must be at least n_ensembles = 4"),
        ({"n_ensembles": 0}, ValueError, "n_ensembles must be an integer >= 1"),
        ({"max_features": 0}, ValueError, "max_features must be an integer >= 1"),
        ({"max_features": 4}, ValueError, "at most the number of attributes, 3, got 4"),
        ({"max_features": 1.0}, TypeError, "max_features must be an integer >= 1"),
        ({"max_features": "half"}, ValueError, "one of 'partition', got 'half'"),
        (
            {"max_features": "partition", "n_ensembles": 4, "n_trees": 4},
            ValueError,
            "needs an attribute for each of the n_ensembles = 4 .* there are 3; use",
        ),
        ({"voting": "loud"}, ValueError, "voting must be one of .*, got 'loud'"),
        ({"neighbours": "near"}, ValueError, "neighbours must be one of 'add_remove'"),
        ({"ledger": 1.0}, TypeError, "ledger must be a PrivacyLedger, got float"),
        ({"schema": {}}, TypeError, "schema must be a Schema, got dict; read one with"),
        ({"handle_unknown": "?"}, ValueError, "handle_unknown must be one of 'error'"),
        ({"handle_missing": "?"}, ValueError, "handle_missing must be one of 'error'"),
    ],
)
def test_parameters_read_aloud(name, parameters, error, message):
    X, y = records(20)
    with pytest.raises(error, match=message):
        classifier(name, **parameters).fit(X, y)


@pytest.mark.parametrize(
    ("n_jobs", "error"), [(0, ValueError), ("two", TypeError), (True, TypeError)]
)
def test_a_number_of_jobs_that_means_nothing(n_jobs, error):
    """Also where there is one ensemble, so that nothing runs in parallel."""
    X, y = records(20)
    with pytest.raises(error, match="n_jobs must be an integer other than 0"):
        classifier("batch training", n_jobs=n_jobs).fit(X, y)


@pytest.mark.parametrize("name", PRIVATE)
def test_epsilon_has_no_default(name):
    cls, _ = PRIVATE[name]
    with pytest.raises(TypeError, match="epsilon"):
        cls(SCHEMA)


@ALL
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([["9", "0", "0"]], ["no"], "row 0, column 'x0' of X holds a value outside"),
        ([["0", None, "0"]], ["no"], "row 0, column 'x1' of X holds a missing value"),
        ([["0", math.nan, "0"]], ["no"], "fill it in, or choose handle_missing="),
        ([["0", "0", "0"]], ["never"], "row 0 of y holds a label that is not one"),
        ([["0", "0", "0"]], [None], "row 0 of y holds a missing value"),
        ([["0", "0", "0"]], ["no", "no"], "X has 1 rows but y has 2 labels"),
        ([["0", "0"]], ["no"], "X has 2 columns but the schema has 3 attributes"),
        (["0", "0", "0"], ["no"], "X must be two-dimensional, one row per record"),
        ([["0", "0", "0"]], None, "requires y to be passed, but the target y is None"),
    ],
)
def test_records_read_aloud(name, X, y, message):
    ledger = PrivacyLedger(1)
    with pytest.raises(ValueError, match=message):
        classifier(name, ledger=ledger).fit(X, y)
    assert ledger.spent == 0


@ALL
def test_values_out_of_bounds_read_aloud(name):
    schema = Schema([Attribute.numeric("age", lower=0, upper=9, n_bins=3)], [0, 1])
    model = classifier(name, schema=schema, handle_unknown="error")
    with pytest.raises(
        ValueError, match="a number outside the bounds of the attribute"
    ):
        model.fit([[3], [10]], [0, 1])
    assert classifier(name, schema=schema).fit([[3], [10]], [0, 1])


@ALL
def test_queries_read_aloud(name):
    X, y = records(30)
    model = classifier(name)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(RAW)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        _ = model.privacy_statement_
    model.fit(X, y)
    with pytest.raises(ValueError, match="row 1, column 'x2' of X holds a value outs"):
        model.predict([["0", "0", "0"], ["0", "0", "7"]])
    with pytest.raises(ValueError, match="X has 1 columns but the schema has 3"):
        model.predict([["0"]])
    if name in PER_BATCH:
        with pytest.raises(ValueError, match="queries must hold at least one row"):
            model.predict(np.empty((0, 3), dtype=str))
        assert model.ledger_.spent == 0
    else:
        assert model.predict(np.empty((0, 3), dtype=str)).shape == (0,)


def test_other_errors_read_aloud():
    X, y = records(20)
    with pytest.raises(ValueError, match="default_label must be one of the classes"):
        classifier("subsample hard", default_label="never").fit(X, y)
    with pytest.raises(ValueError, match="voting must be one of 'weight', got 'hard'"):
        classifier("batch prediction", voting="hard").fit(X, y)
    with pytest.raises(ValueError, match="data must be one of 'shared', 'disjoint'"):
        classifier("laplace shared", data="apart").fit(X, y)
    with pytest.raises(ValueError, match="template must be one of 'auto'"):
        classifier("batch training", template="best").fit(X, y)
    with pytest.raises(ValueError, match=r"class_labels \(the classes\) .* 2"):
        Schema(SCHEMA.attributes, [])


@pytest.mark.parametrize("n_attributes", [14, 60, 1200])
@pytest.mark.parametrize("cls", [BatchTrainingClassifier, BatchPredictionClassifier])
def test_too_large_a_domain_names_the_way_out(cls, n_attributes):
    attributes = [
        Attribute.categorical(f"x{i}", [0, 1, 2, 3]) for i in range(n_attributes)
    ]
    schema = Schema(attributes, ["no", "yes"])
    X, y = [[0] * n_attributes], ["no"]
    message = (
        r"has \S+ \S+ cells, too many .*; use max_features=1[12], or "
        r"use PrivateForestClassifier, which is for any number of attributes"
    )
    with pytest.raises(DomainTooLargeError, match=message):
        cls(schema, epsilon=1, n_trees=2, depth=1).fit(X, y)
    model = cls(schema, epsilon=1, n_trees=2, depth=1, max_features=3, n_ensembles=2)
    assert model.fit(X, y).predict(X).shape == (1,)
    way_out = SubsampleAggregateClassifier(schema, epsilon=1, n_trees=2, depth=1)
    assert way_out.fit(X, y).predict(X).shape == (1,)
    if n_attributes < 1200:  # pairs of more of them take seconds to list
        private = PrivateForestClassifier(schema, epsilon=1)
        assert private.fit(X, y).predict(X).shape == (1,)


# ----------------------------------------------------------------- no privacy at all
def test_the_reference_without_noise_is_reproducible_and_exact():
    X, y = records(60)
    model = NonPrivateForestClassifier(SCHEMA, n_trees=4, depth=2, random_state=0)
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(first.predict(RAW), second.predict(RAW))
    exact = first.ensembles_[0].forest.count_leaves(
        SCHEMA.encode(X), SCHEMA.encode_target(y), 3
    )
    np.testing.assert_array_equal(first.leaf_counts_[0], exact)
