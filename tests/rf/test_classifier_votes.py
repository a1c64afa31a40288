"""The private classifiers: noise of their counts, and what is voted with them."""

import math
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
import rf_cases
from rf_cases import (
    CELLS,
    CLASSES,
    PER_BATCH,
    PRIVATE,
    RELEASED,
    SCHEMA,
    classifier,
    records,
    release,
)

import mmech_rf as rf
from mmech_rf.forest.ensembles import leaf_label_by_rule

ALL = pytest.mark.parametrize("name", PRIVATE)
BATCHES = pytest.mark.parametrize("name", PER_BATCH)
RAW = CELLS.astype(str)


# --------------------------------------------------------------- errors and noise
@pytest.mark.by_day(2)
@pytest.mark.statistical
@ALL
def test_expected_error_is_the_mean_squared_error(name, monkeypatch):
    """Mean of 40 releases, at a false alarm of 1e-9 by t: squares are skewed."""
    rf_cases.remember(monkeypatch)
    X, y = records(30)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, n_ensembles=2, max_features=2, epsilon=2)
    if "template" in model.get_params():
        model.set_params(template="pidentity")
    errors = []
    for _ in range(40):
        seen.clear()
        fitted = release(model, X, y)
        made = [s.mechanism.reconstruct(s.measurement) - s.counts for s in seen]
        off = [s.mechanism.workload @ own for s, own in zip(seen, made, strict=True)]
        errors.append(sum(np.square(own).sum() for own in off))
    apart = abs(np.mean(errors) - fitted.expected_error_)
    assert apart < ref.margin(errors, 1e-9)


@pytest.mark.parametrize(
    "name", ["batch training", "batch prediction", "subsample weight", "subsample hard"]
)
def test_the_pseudoinverse_multiplies_the_noise(name, monkeypatch, watch_all):
    """W A⁺ noise by hand, for the workload itself as the strategy."""
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

    watch_all(add_noise)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, epsilon=2, n_trees=4, template="workload")
    model = release(model, X, y)
    (scale, noise), (one,) = drawn[0], seen
    W = one.mechanism.workload.to_dense()
    A = one.mechanism.strategy.to_dense()
    assert not np.array_equal(A, np.eye(len(A)))
    contribution = 2 if name == "subsample hard" else 1
    assert scale == Fraction(contribution * int(np.abs(A).sum(axis=0).max()), 2)
    assert noise.shape == (len(A), 3)
    by_hand = W @ one.counts + W @ ref.pinv(A) @ noise
    if name == "batch training":
        T = rf.training_workload(model.ensembles_[0].forest).to_dense()
        np.testing.assert_array_equal(T, W)
        np.testing.assert_allclose(model.leaf_counts_[0], by_hand, atol=1e-8)
        return
    *_, second, best = np.sort(by_hand).T
    clear = best > second + 1e-6
    assert clear.sum() > len(clear) / 2
    chosen = np.array(CLASSES)[by_hand.argmax(axis=1)]
    np.testing.assert_array_equal(model.predict(RAW)[clear], chosen[clear])


# ------------------------------------------------------------------------- voting
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
    assert leaf_label_by_rule(counts).tolist() == [0, 0, 0, 1, 0, 1]
    # Rows do not influence each other.
    for row, label in zip(counts, leaf_label_by_rule(counts), strict=True):
        assert leaf_label_by_rule(row[None])[0] == label
    assert leaf_label_by_rule(counts, first=True).tolist() == [0, 0, 0, 0, 0, 1]


def test_empty_leaves_vote_the_first_class(noiseless):
    model = classifier("subsample hard", n_trees=4)
    assert model.fit([], []).predict(RAW).tolist() == ["no"] * 12


# --------------------------------------------------------- as in published code
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    ("name", "moved"),
    [("batch prediction", 3), ("subsample weight", 1), ("subsample hard", 2)],
)
def test_answers_per_query_pay_for_every_query(name, moved, neighbours, monkeypatch):
    """Noise Lap(b m / epsilon) on exact votes, from one release of epsilon."""
    X, y = records(30)
    seen = rf_cases.watch(monkeypatch)
    model = classifier(name, answers="per_query", epsilon=2, neighbours=neighbours)
    model.fit(X, y).predict(RAW[:10])
    (one,), (entry,) = seen, model.releases_
    doubled = 2 if neighbours == "replace" else 1
    assert one.measurement.scale == doubled * 10 * moved / 2
    assert entry.cost == model.ledger_.spent == 2
    ensemble = model.ensembles_[0]
    workload = model._workload(ensemble, ensemble.select(CELLS[:10]))
    np.testing.assert_array_equal(one.counts, workload @ model._counts[0])


@pytest.mark.parametrize("name", PER_BATCH)
def test_votes_of_a_query_move_by_what_is_paid_for(name, monkeypatch, watch_all):
    """Add a record of every cell and class: votes of a query move by m at most."""

    def in_turn(draw, sample):
        if draw.kind != "assignment":
            return sample()
        return np.arange(draw.exact) % draw.public["n_parts"]

    watch_all(in_turn)
    X, y = records(12)
    moved = {"batch prediction": 3, "subsample weight": 1, "subsample hard": 2}[name]

    def votes(X, y):
        seen = rf_cases.watch(monkeypatch)
        classifier(name, answers="per_query").fit(X, y).predict(RAW)
        return seen[-1].counts

    before, most = votes(X, y), 0
    for cell in RAW:
        for label in CLASSES:
            after = votes(np.vstack([X, cell]), np.append(y, label))
            most = max(most, np.abs(after - before).sum(axis=1).max())
    assert most == moved


@ALL
def test_ties_go_to_the_first_class_on_request(name):
    """Without records and almost without noise all classes tie."""
    X, y = records(0)
    own = {"voting": "weight"} if name in RELEASED else {}
    fitted = classifier(name, ties="first", epsilon=10**6, **own).fit(X, y)
    assert set(fitted.predict(RAW)) == {CLASSES[0]}
    drawn = classifier(name, n_trees=3, epsilon=10**6, **own)
    if name != "subsample hard":  # empty leaves have a public label there
        found = {label for _ in range(9) for label in drawn.fit(X, y).predict(RAW)}
        assert len(found) > 1


# ------------------------------------------------------------------ beyond the paper
def by_hand(X, y, smoothing):
    """Naive Bayes of exact one-way counts, as sums of log-odds of one-way trees."""
    k, codes, labels = len(CLASSES), X.astype(int), np.array(CLASSES) == y[:, None]
    shares = labels.mean(axis=0)
    votes = np.tile(np.log(shares), (len(CELLS), 1))
    for i in range(3):
        counts = np.stack([labels[codes[:, i] == v].sum(axis=0) for v in range(3)])
        smooth = counts + smoothing * shares
        odds = smooth / smooth.sum(axis=1, keepdims=True) / shares
        votes += np.log(odds)[CELLS[:, i]]
    assert votes.shape == (len(CELLS), k)
    return np.exp(votes) / np.exp(votes).sum(axis=1, keepdims=True)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("copies", [1, 3])
def test_log_odds_of_one_way_trees_are_naive_bayes(noiseless, copies):
    """However often the trees test an attribute."""
    X, y = records(60)
    model = rf.BatchTrainingClassifier(
        SCHEMA, epsilon=9, n_trees=math.inf, depth=1, voting="log-odds",
        n_ensembles=copies,
    ).fit(X, y)  # fmt: skip
    assert model.leaf_smoothing_[0] >= 1
    expected = by_hand(X, y, model.leaf_smoothing_[0])
    np.testing.assert_allclose(model._probabilities(CELLS), expected)
    assert (model.predict(RAW) == np.array(CLASSES)[expected.argmax(axis=1)]).all()


def test_smoothing_of_leaves_is_the_noise_of_their_counts():
    X, y = records(60)
    few, many = (
        classifier("batch training", epsilon=epsilon).fit(X, y)
        for epsilon in (1000, 0.01)
    )
    assert few.leaf_smoothing_ == [1]
    per_leaf = many.expected_error_ / (3 * many.ensembles_[0].forest.n_leaves)
    assert many.leaf_smoothing_ == pytest.approx([per_leaf**0.5])
