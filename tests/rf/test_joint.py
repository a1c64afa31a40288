"""One log-linear model of all releases of a drawn forest, against plain formulas."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from model_files import drop_last, find, rewrite, set_in
from rf_cases import CELLS, SCHEMA, SHAPE
from scipy import sparse
from scipy.optimize import approx_fprime, minimize

from benchmarks.simulated import simulate_task
from mmech_rf import (
    DrawnForestClassifier,
    DrawnSettings,
    PrivateForestClassifier,
    load_model,
)
from mmech_rf.drawn.counts import Released
from mmech_rf.drawn.joint import JointTrees, base_points
from mmech_rf.drawn.loglinear import LogLinear, Moments
from mmech_rf.drawn.trees import SelectedTrees

M, K = 6, 3


def some_model(rng, noise=4.0, n=200.0):
    """A model of two blocks of features, some of them with weights."""
    base = rng.dirichlet(np.ones(M))
    features = rng.integers(0, 2, (M * K, 7)) * rng.uniform(0.2, 1, (M * K, 7))
    chances = rng.dirichlet(np.ones(M * K))
    values = n * features.T @ chances + np.sqrt(noise) * rng.normal(size=7)
    moments = [
        Moments(values[:4], np.full(4, noise), width=0.7, prior=0.3),
        Moments(values[4:], np.full(3, noise), slack=2.0),
    ]
    shares = np.full(K, 1 / K)
    return LogLinear(base, sparse.csr_array(features), moments, n, shares)


def test_the_gradient_is_that_of_the_objective(rng):
    model = some_model(rng)
    place = rng.normal(size=7)
    found = approx_fprime(place, lambda x: model.objective(x)[0], 1e-7)
    np.testing.assert_allclose(model.objective(place)[1], found, atol=1e-5)


def test_the_fit_is_the_optimum_of_the_dense_problem(rng):
    """The primal side: moments of the fit miss what was released by cost times θ."""
    for _ in range(5):
        model = some_model(rng)
        features = model._features.toarray()

        def dense(theta, model=model, features=features):
            lines = model.log_base + features @ theta
            total = np.log(np.exp(lines).sum()) - theta @ model.targets
            return total + 0.5 * model.costs @ (theta - model.prior) ** 2

        best = minimize(dense, model.prior, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(model.parameters, best.x, atol=1e-4)
        lines = model.log_base + features @ model.parameters
        chances = np.exp(lines) / np.exp(lines).sum()
        missed = model.targets - features.T @ chances
        away = model.costs * (model.parameters - model.prior)
        np.testing.assert_allclose(missed, away, atol=1e-6)


def test_responses_are_differences_of_fits(rng):
    model = some_model(rng)
    changes = rng.normal(size=(7, 2))
    found = model.response(changes)
    for change, moved in zip(changes.T, found.T, strict=True):
        step, sides = 1e-3, []
        for sign in (1, -1):
            other = some_copy(model)
            other.targets = model.targets + sign * step * change / model.n_records
            sides.append(other.parameters)
        numeric = (sides[0] - sides[1]) / (2 * step)
        np.testing.assert_allclose(moved, numeric, rtol=0.02, atol=1e-5)


def some_copy(model):
    """The same problem, not solved yet."""
    copy = object.__new__(LogLinear)
    known = {k: v for k, v in vars(model).items() if k != "parameters"}
    vars(copy).update(known)
    return copy


def test_without_noise_many_records_give_conditional_shares(rng):
    """Of a tree whose leaves are all cells, whatever the base measure."""
    n = 1e9
    truth = rng.dirichlet(np.ones(M * K)).reshape(M, K)
    features = sparse.csr_array(np.eye(M * K))
    moments = [Moments((n * truth).ravel(), np.zeros(M * K))]
    base = rng.dirichlet(np.ones(M))
    model = LogLinear(base, features, moments, n, np.full(K, 1 / K))
    lines = np.exp(model.parameters.reshape(M, K))
    expected = truth / truth.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(lines / lines.sum(axis=1, keepdims=True), expected, 1e-3)


def test_what_is_known_of_all_records_is_made_to_add_up(rng):
    """Where exactly one feature is one; noise of all of them together has no say."""
    features = sparse.csr_array(np.tile(np.eye(K), (M, 1)))
    values, noise = np.array([50.0, 30.0, 40.0]), np.full(K, 9.0)
    base, even = np.full(M, 1 / M), np.full(K, 1 / K)
    models = [
        LogLinear(base, features, [Moments(own, noise, whole=True)], 100, even)
        for own in (values, values - 7)
    ]
    for model in models:
        assert model.targets.sum() == pytest.approx(1)
    np.testing.assert_allclose(models[0].parameters, models[1].parameters, atol=1e-5)
    assert models[0].parameters.argmax() == 0
    moved = models[0].response(np.ones((K, 1)))
    np.testing.assert_allclose(moved, 0, atol=1e-12)


def test_features_of_no_point_keep_their_prior(rng):
    model = some_model(rng)
    features = sparse.csr_array(sparse.hstack([model._features, np.zeros((M * K, 1))]))
    moments = [
        Moments(model.n_records * model.targets, np.full(7, 4.0)),
        Moments(np.array([55.0]), np.ones(1), prior=0.25),
    ]
    found = LogLinear(np.full(M, 1 / M), features, moments, 200, np.full(K, 1 / K))
    assert found.parameters[-1] == 0.25


# ------------------------------------------------------------------------- base measure
def fitted(n_records, epsilon, seed=0, probabilities="joint", **settings):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, SHAPE, (n_records, len(SHAPE))).astype(str)
    classes = np.array(SCHEMA.class_labels)
    y = classes[(X[:, 0].astype(int) + (rng.random(n_records) < 0.2)) % len(classes)]
    settings = DrawnSettings(**settings)
    return DrawnForestClassifier(
        SCHEMA,
        epsilon=epsilon,
        n_records=n_records,
        settings=settings,
        probabilities=probabilities,
    ).fit(X, y)


KINDS = {
    "a tree": {"n_records": 300, "epsilon": 0.5},
    "trees that vote": {"n_records": 60, "epsilon": 20, "scores_from": np.inf}
    | {"few_scores_from": np.inf},
    "scores": {"n_records": 2000, "epsilon": 1, "most_sums": 0},
    "boosting": {"n_records": 9000, "epsilon": 3},
}


@pytest.mark.parametrize("kind", KINDS)
def test_points_of_a_small_domain_are_all_its_cells(kind):
    forest = fitted(**KINDS[kind])._experts
    points, base = base_points(SHAPE, forest.additive, 1000)
    np.testing.assert_array_equal(points, CELLS)
    assert base.sum() == pytest.approx(1)
    if forest.additive is None:
        assert np.ptp(base) == 0


def test_drawn_points_follow_the_measure_of_all_cells():
    """In 20,000 draws, with one more attribute that nothing is known of."""
    forest = fitted(**KINDS["scores"])._experts
    _, base = base_points(SHAPE, forest.additive, len(CELLS))
    points, even = base_points((*SHAPE, 2000), forest.additive, 20_000)
    assert np.ptp(even) == 0
    cells = np.ravel_multi_index(points[:, : len(SHAPE)].T, SHAPE)
    found = np.bincount(cells, minlength=len(CELLS)) / len(points)
    np.testing.assert_allclose(found, base, atol=0.01)


# ------------------------------------------------------------------------------ forests
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_a_function_of_what_was_released(kind, tmp_path):
    """Bit for bit: again, from a copy, from a file, one record at a time."""
    model = fitted(**KINDS[kind])
    forest, raw = model._experts, CELLS.astype(str)
    assert (forest.additive is not None) == (kind in ("scores", "boosting"))
    assert isinstance(forest, JointTrees)
    found = model.predict_proba(raw)
    assert replace(forest).probabilities(CELLS).tobytes() == found.tobytes()
    model.save(tmp_path / "model.npz")
    copy = load_model(tmp_path / "model.npz")
    assert copy.predict_proba(raw).tobytes() == found.tobytes()
    one_by_one = np.vstack([forest.probabilities(cell[None]) for cell in CELLS])
    np.testing.assert_allclose(one_by_one, found, rtol=1e-12)
    assert (found > 0).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    votes = forest.log_odds(CELLS).argmax(axis=1)
    np.testing.assert_array_equal(found.argmax(axis=1), votes)


@pytest.mark.parametrize(
    "change",
    [
        set_in("experts", "released", to=[]),
        drop_last("experts", "released"),
        set_in("experts", "domain_shape", to=[2, 2, 2]),
        set_in("experts", "n_records", to=0.5),
        set_in("experts", "boosted", to=True),
        set_in("experts", "settings", to=None),
        set_in("AdditiveScores", "sums", to=[]),
        drop_last("AdditiveScores", "sums"),
        lambda content: find(content, "AdditiveScores", "sums").reverse(),
        set_in("ViewSums", "kept", to=2.0),
        set_in("ViewSums", "positions", to={"array": 0}),
        set_in("Released", "variances", to={"array": 0}),
        set_in("parameters", "probabilities", to="votes"),
        set_in("parameters", "probabilities", to="both"),
    ],
)
def test_damaged_files_are_refused(change, tmp_path):
    path = tmp_path / "model.npz"
    fitted(**KINDS["scores"]).save(path)
    rewrite(path)
    load_model(path)
    rewrite(path, change)
    with pytest.raises(ValueError, match="damaged"):
        load_model(path)


def test_the_order_of_trees_that_vote_does_not_matter():
    forest = fitted(**KINDS["trees that vote"])._experts
    assert len(forest.trees) > 1
    turned = replace(
        forest,
        **{
            name: getattr(forest, name)[::-1]
            for name in ("trees", "scores", "errors", "released")
        },
    )
    found, again = forest.probabilities(CELLS), turned.probabilities(CELLS)
    np.testing.assert_allclose(again, found, atol=1e-5)


def test_exact_counts_of_many_records_are_found_again(rng):
    """A boosted forest without noise: shares of classes in the leaves of its tree."""
    forest = fitted(**KINDS["boosting"])._experts
    tree, k, n = forest.trees[0], 3, 1e8
    truth = rng.dirichlet(np.ones(tree.n_leaves * k)).reshape(-1, k)
    reached = np.isin(np.arange(tree.n_leaves), tree.leaves(CELLS))
    truth = truth * reached[:, None] / truth[reached].sum()
    released = Released(n * truth, np.zeros(tree.n_leaves))
    alone = replace(
        forest,
        trees=(tree,),
        scores=(np.log(truth + 1e-300),),
        errors=(np.zeros(truth.shape),),
        additive=None,
        released=(released,),
        n_records=n,
    )
    own = truth[tree.leaves(CELLS)]
    found, expected = alone.probabilities(CELLS), own / own.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("counted", [False, True])
def test_simulated_noise_is_that_of_the_release(counted, monkeypatch):
    """Counts of cells add up to numbers of records, and so does their noise."""
    level = {"signal_to_noise": 0.1 if counted else 1e9, "records_per_sum": 0.0}
    forest = fitted(9000, 3, **level)._experts
    sums, seen = forest.additive.sums, []
    tables = [own.positions is None for own in sums[1:]]
    assert any(tables) == counted

    def look(self, released, *, held):
        seen.append(released)
        return list(released)

    monkeypatch.setattr(JointTrees, "_sums", look)
    monkeypatch.setattr(LogLinear, "response", lambda self, changes: changes)
    forest = replace(forest)  # without what was computed before
    model = object.__new__(LogLinear)
    vars(forest)["model"] = model
    assert len(forest._replicas)
    (noise,) = seen
    total = noise[0]
    for own, simulated, table in zip(sums[1:], noise[1:], tables, strict=False):
        if table:
            np.testing.assert_allclose(simulated.sum(axis=0), total[0], atol=1e-6)
        ratio = np.square(simulated).mean(axis=(1, 2)) / own.released.variances
        assert np.abs(np.log(ratio)).max() < 1  # of 64 draws for each of three classes


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("epsilon", "boosted", "seeds"), [(1, False, (2, 5)), (8, True, (2,))]
)
def test_intervals_hold_for_counts_without_noise(epsilon, boosted, seeds, watch_all):
    """Of 90 % at least 65 %, with the same trees and exact counts in their leaves."""
    exact, n, held = [], 2000, []

    def remember(draw, sample):
        if draw.kind == "laplace":
            ((_, _, unit),) = draw.public["runs"]
            exact.append(draw.exact / float(unit))
        return sample()

    watch_all(remember)
    for seed in seeds:
        rng = np.random.default_rng([5, seed])
        task = simulate_task(rng)
        codes = task.records(n, rng)
        exact.clear()
        model = DrawnForestClassifier(
            task.schema,
            epsilon=epsilon,
            n_records=n,
            settings=DrawnSettings(third_level=0.0),
            probabilities="joint",
        ).fit(codes, task.labels(codes, rng))
        forest = model._experts
        assert forest.boosted == boosted
        pairs = zip(forest.released, exact, strict=True)
        released = tuple(replace(own, values=values) for own, values in pairs)
        queries = task.records(300, rng)
        lower, upper = model.predict_interval(queries, level=0.9)
        found = replace(forest, released=released).probabilities(queries)
        held.append(((lower <= found) & (found <= upper)).mean())
    assert np.mean(held) > 0.65


def test_votes_are_the_default_and_the_classes_are_the_same():
    model = DrawnForestClassifier(SCHEMA, epsilon=1, n_records=300)
    assert model.probabilities == "votes"
    assert (
        type(fitted(**KINDS["scores"], probabilities="votes")._experts) is SelectedTrees
    )
    other = PrivateForestClassifier(
        SCHEMA, epsilon=1, n_records=300, probabilities="joint"
    )
    X = CELLS.astype(str)
    other.fit(X, np.resize(SCHEMA.class_labels, len(X)))
    assert isinstance(other.model_._experts, JointTrees)
    found = other.predict_proba(X)
    assert (other.classes_[found.argmax(axis=1)] == other.predict(X)).all()
    lower, upper = other.predict_interval(X)
    assert ((lower <= found) & (found <= upper)).all()


@pytest.mark.parametrize("make", [DrawnForestClassifier, PrivateForestClassifier])
def test_odd_kinds_of_probabilities_are_refused(make):
    model = make(SCHEMA, epsilon=1, n_records=300, probabilities="both")
    with pytest.raises(ValueError, match="probabilities must be"):
        model.fit(CELLS.astype(str), np.resize(SCHEMA.class_labels, len(CELLS)))


def test_reading_probabilities_spends_nothing():
    model = fitted(**KINDS["scores"])
    spent = model.ledger_.spent
    model.predict_proba(CELLS.astype(str))
    model.predict_interval(CELLS.astype(str))
    assert model.ledger_.spent == spent == Fraction(1)
