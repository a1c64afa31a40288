"""Settings chosen from public facts: closed forms against dense matrices."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import reference as ref

from mmech import Identity, Marginal, expected_error, optimize
from mmech_rf import (
    Attribute,
    BatchTrainingClassifier,
    Schema,
    complete_forest,
    datasets,
    prediction_workload,
    training_workload,
    tune,
)
from mmech_rf.tuning import Prior

SHAPE = (3, 2, 4)
N_CLASSES, N_RECORDS, EPSILON = 3, 50, 0.8


def schema_of(shape, n_classes=N_CLASSES):
    attributes = [
        Attribute.categorical(f"x{i}", [str(v) for v in range(size)])
        for i, size in enumerate(shape)
    ]
    return Schema(attributes, [f"c{i}" for i in range(n_classes)])


def single(shape, **setting):
    """The one setting of a search with a single candidate."""
    grid = {"n_ensembles": 1, "max_features": None, "template": "identity"} | setting
    grid = {name: [value] for name, value in grid.items()}
    public = {"epsilon": EPSILON, "n_records": N_RECORDS}
    found = tune(schema_of(shape), **public, candidates=grid)
    assert len(found.settings) == 1
    return found.best


def projectors(shape):
    """Dense P_s by subset s."""
    found = {}
    for bits in itertools.product((0, 1), repeat=len(shape)):
        matrix = np.ones((1, 1))
        for inside, n in zip(bits, shape, strict=True):
            mean = np.full((n, n), 1 / n)
            matrix = np.kron(matrix, np.eye(n) - mean if inside else mean)
        found[tuple(i for i, inside in enumerate(bits) if inside)] = matrix
    return found


def covariance(shape, gamma=0.7, decay=0.35, contrast=0.25):
    """Σ g_s P_s by its definition, without the closed forms."""
    n, d = math.prod(shape), len(shape)
    shares = decay ** np.arange(d + 1.0)
    shares /= shares.sum()
    total = 0
    for s, P in projectors(shape).items():
        others = [t for t in itertools.combinations(range(d), len(s))]
        ranks = sum(math.prod(shape[i] - 1 for i in t) for t in others)
        energy = min(contrast / n**gamma * shares[len(s)], ranks / n)
        energy *= N_RECORDS**2 / (N_CLASSES - 1) / len(others)
        total = total + energy / np.trace(P) * P
    return total


def tables(shape, subset):
    return Marginal(shape, subset).to_dense().astype(float)


def forest_matrix(shape, subsets):
    """Σ M_aᵀM_a over the attributes that the trees test."""
    return sum(tables(shape, a).T @ tables(shape, a) for a in subsets)


def correlation(F_list, noises, shape):
    """Expected correlation over equally likely votes F, with their DP noise."""
    S, n = covariance(shape), math.prod(shape)
    u = N_RECORDS / (n * N_CLASSES)
    shared = np.mean([np.trace(F @ S) for F in F_list])
    signals = [np.trace(F @ (S + u * np.eye(n)) @ F.T) for F in F_list]
    spread = np.mean(np.add(signals, noises))
    return shared / math.sqrt(np.trace(S) * spread)


VARIANCE = 2 / EPSILON**2


@pytest.mark.parametrize("shape", [SHAPE, (2, 2, 2, 2)])
@pytest.mark.parametrize("depth", [1, 2])
def test_infinite_forest_on_the_cells(shape, depth):
    F = forest_matrix(shape, itertools.combinations(range(len(shape)), depth))
    noise = VARIANCE * np.square(F).sum()
    setting = single(shape, n_trees=math.inf, depth=depth, mode="training")
    expected = correlation([F], [noise], shape)
    assert setting.correlation == pytest.approx(expected, rel=1e-10)
    forest = complete_forest(shape, depth)
    cells = Identity(math.prod(shape))
    error = expected_error(training_workload(forest), cells, epsilon=EPSILON)
    assert setting.expected_error == pytest.approx(N_CLASSES * error)


@pytest.mark.parametrize(("depth", "n_trees"), [(1, 2), (2, 2), (1, 3), (2, 1)])
def test_finite_forests_by_enumeration(depth, n_trees):
    """All forests of random trees: a path tests each subset equally often."""
    subsets = list(itertools.combinations(range(3), depth))
    F_list = [
        forest_matrix(SHAPE, chosen)
        for chosen in itertools.product(subsets, repeat=n_trees)
    ]
    noises = [VARIANCE * np.square(F).sum() for F in F_list]
    setting = single(SHAPE, n_trees=n_trees, depth=depth, mode="prediction")
    assert setting.correlation == pytest.approx(correlation(F_list, noises, SHAPE))
    n = math.prod(SHAPE)
    mean = np.mean(noises) / n
    assert setting.expected_error == pytest.approx(N_CLASSES * mean)


def test_an_attribute_of_one_value_changes_nothing():
    setting = {"n_trees": 8, "depth": 2, "mode": "training"}
    wide = single((3, 1, 2, 4), **setting)
    narrow = single(SHAPE, **setting)
    assert wide.correlation == pytest.approx(narrow.correlation)
    assert wide.expected_error == pytest.approx(narrow.expected_error)


def test_error_of_a_vote_is_that_of_the_prediction_workload():
    cells = np.array(list(np.ndindex(*SHAPE)))
    workload = prediction_workload(complete_forest(SHAPE, 2), cells)
    error = expected_error(workload, Identity(len(cells)), epsilon=EPSILON)
    setting = single(SHAPE, n_trees=math.inf, depth=2, mode="prediction")
    assert setting.expected_error == pytest.approx(N_CLASSES * error / len(cells))


def test_two_ensembles_add_their_noises():
    """Each measures the cells of its attributes with half of the budget."""
    grid = {"n_trees": [math.inf], "depth": [1], "mode": ["training"]}
    grid |= {"n_ensembles": [2], "max_features": [2], "template": ["identity"]}
    public = {"epsilon": EPSILON, "n_records": N_RECORDS, "random_state": 3}
    found = tune(schema_of(SHAPE), **public, candidates=grid)
    records = [[str(v) for v in cell] for cell in np.ndindex(*SHAPE)]
    model = found.classifier().fit(records, ["c0", "c1"] * 12)
    F, noise = 0, 0.0
    for ensemble in model.ensembles_:
        features = ensemble.features.tolist()
        sizes = [SHAPE[i] for i in features]
        own = forest_matrix(sizes, [(0,), (1,)])
        M = tables(SHAPE, features)
        noise += 4 * VARIANCE * np.square(M.T @ own).sum()
        F = F + M.T @ own @ M
    assert found.best.correlation == pytest.approx(correlation([F], [noise], SHAPE))


@pytest.mark.parametrize("depth", [1, 2])
def test_subsample_counts_leaves_of_shares_of_the_records(depth):
    """One tree: the same signal as training; noise on leaves instead of cells."""
    subsets = list(itertools.combinations(range(3), depth))
    n, S = math.prod(SHAPE), covariance(SHAPE)
    n_trees = 2
    shared, spread = [], []
    for chosen in itertools.product(subsets, repeat=n_trees):
        F = forest_matrix(SHAPE, chosen) / n_trees
        sizes = [math.prod(SHAPE[i] for i in a) for a in chosen]
        counts = sum(N_RECORDS / N_CLASSES / size for size in sizes) / n_trees
        shared.append(np.trace(F @ S))
        spread.append(np.trace(F @ S @ F.T) + n * (n_trees * VARIANCE + counts))
    expected = np.mean(shared) / math.sqrt(np.trace(S) * np.mean(spread))
    setting = single(SHAPE, n_trees=n_trees, depth=depth, mode="subsample")
    assert setting.correlation == pytest.approx(expected)
    assert setting.expected_error == pytest.approx(N_CLASSES * n_trees * VARIANCE)


@pytest.mark.parametrize("template", ["marginals", "workload"])
def test_other_strategies_by_their_least_squares(template):
    shape, depth = (3, 3, 3, 3, 3), 2
    forest = complete_forest(shape, depth)
    strategy = workload = training_workload(forest)
    if template == "marginals":
        options = {"seed": 0, "max_evaluations": 400}
        strategy = optimize(workload, template=template, **options).strategy
    own = {"n_trees": math.inf, "depth": depth, "mode": "training"}
    setting = single(shape, **own, template=template)
    error = expected_error(workload, strategy, epsilon=EPSILON)
    assert setting.expected_error == pytest.approx(N_CLASSES * error, rel=1e-9)
    F = forest_matrix(shape, forest.subsets)
    A = strategy.to_dense().astype(float)
    gain = np.square(F @ ref.pinv(A)).sum() * strategy.sensitivity() ** 2
    wanted = correlation([F], [VARIANCE * gain], shape)
    assert setting.correlation == pytest.approx(wanted, rel=1e-9)


def test_prior_has_the_stated_energy():
    prior = Prior(SHAPE, N_CLASSES, N_RECORDS, 0.7, 0.35, 0.25)
    assert prior.energies.sum() == pytest.approx(np.trace(covariance(SHAPE)))
    orders = np.array([0, 1, 1, 1, 2, 2, 2, 3])
    assert prior.signal(orders).sum() == pytest.approx(prior.energies.sum())


# ---- what users see --------------------------------------------------------------


CAR = datasets.load_car().schema
ONE = {"n_ensembles": [1], "max_features": [None]}
tune_car = partial(tune, CAR, epsilon=1, n_records=1400)


def test_little_budget_wants_shallow_trees():
    budgets = ("0.05", 1, 20)
    depths = [tune_car(epsilon=each, candidates=ONE).best.depth for each in budgets]
    assert depths == sorted(depths)
    assert depths[0] < depths[-1]


def test_more_trees_are_never_worse_when_cells_are_measured():
    found = tune_car(candidates=ONE | {"depth": [3], "mode": ["training"]})
    trees = [setting.n_trees for setting in found.settings]
    assert trees == sorted(trees, reverse=True)


def test_result_is_the_same_every_time_and_says_why():
    first, second = (tune_car() for _ in range(2))
    assert first.settings == second.settings
    assert str(first) == str(second)
    text = str(first)
    assert "Best of" in text
    assert "No record was looked at" in text
    assert "expected error alone cannot choose a depth" in text
    html = first._repr_html_()
    for reason in first.reasons:
        assert reason.replace("'", "&#x27;") in html
    assert html.count("<tr>") == 12 + 2


def test_expected_error_orders_one_mode_and_admits_what_it_cannot_see():
    grid = ONE | {"n_trees": [16], "depth": [3, 4, 5], "mode": ["training"]}
    found = tune_car(candidates=grid, criterion="expected_error")
    assert len({setting.expected_error for setting in found.settings}) <= 3
    assert found.settings[0].expected_error == pytest.approx(2 * 16 * 1728 * 4)
    assert found.best.depth == 3
    assert any("depths 3, 4, 5 all have" in reason for reason in found.reasons)
    with pytest.raises(ValueError, match="settings of one mode only"):
        tune_car(criterion="expected_error")


@pytest.mark.parametrize("mode", ["training", "prediction", "subsample"])
def test_classifier_of_the_best_setting_fits(mode):
    iris = datasets.load_iris()
    found = tune(iris.schema, epsilon=2, n_records=120, candidates={"mode": [mode]})
    model = found.classifier(neighbours="replace")
    assert model.neighbours == "replace"
    model.fit(iris.data[::2], iris.target[::2])
    assert model.predict(iris.data[1::2]).shape == (75,)
    first = model.ensembles_[0]
    assert len(model.ensembles_) == found.best.n_ensembles
    assert first.features.size == found.best.max_features


def test_large_domains_are_left_to_subsampling_or_left_out():
    wide = schema_of((10,) * 12, n_classes=2)
    grid = {"max_features": [12, 3], "n_ensembles": [1], "depth": [1, 2]}
    found = tune(wide, epsilon=1, n_records=10_000, candidates=grid)
    modes = {s.mode for s in found.settings if s.max_features == 12}
    assert modes == {"subsample"}
    assert any("tables too large" in reason for reason in found.reasons)
    assert "accuracy" in str(found)
    with pytest.raises(ValueError, match=r"no setting is .* too many to list"):
        tune(schema_of((2,) * 20), epsilon=1, n_records=100, candidates=ONE)


def test_nothing_but_the_feature_draw_depends_on_the_seed():
    grid = {"n_ensembles": [2], "max_features": [3], "depth": [2]}
    found = tune_car(candidates=grid, random_state=5)
    model = found.classifier()
    assert isinstance(model, BatchTrainingClassifier)
    assert model.random_state == 5


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"schema": None}, TypeError, "schema must be a Schema, got NoneType"),
        ({"epsilon": 0}, ValueError, "epsilon must be a finite number > 0"),
        ({"n_records": 0}, ValueError, "n_records must be an integer >= 1, got 0"),
        ({"n_records": 1e3}, TypeError, "n_records must be an integer"),
        ({"gamma": 0}, ValueError, r"gamma must lie in \(0, 1\], got 0"),
        ({"decay": "1"}, TypeError, "decay must be a number, got str"),
        ({"criterion": "best"}, ValueError, "criterion must be one of"),
        ({"candidates": 5}, TypeError, "candidates must be a mapping of .*, got int"),
        ({"candidates": {"trees": [1]}}, ValueError, "has no parameter 'trees'; it"),
        ({"candidates": {"depth": []}}, ValueError, r"candidates\['depth'\] is empty"),
        ({"candidates": {"max_features": [9]}}, ValueError, "at most 6, the number"),
        ({"candidates": {"mode": ["all"]}}, ValueError, "mode must be one of"),
        ({"candidates": {"n_trees": [0]}}, ValueError, "n_trees must be an integer"),
    ],
)
def test_error_messages(given, error, message):
    with pytest.raises(error, match=message):
        tune(**{"schema": CAR, "epsilon": 1, "n_records": 100} | given)


@pytest.mark.parametrize("d", [500, 1000, 1200])
def test_cells_may_be_more_than_floats_square_or_hold(d):
    attributes = [Attribute.categorical(f"a{i}", [0, 1]) for i in range(d)]
    schema = Schema(attributes, class_labels=["no", "yes"])
    few = {"n_trees": [16], "depth": [3], "n_ensembles": [1, 3]}
    found = tune(schema, epsilon=1, n_records=1000, candidates=few)
    modes = {setting.mode for setting in found.settings}
    assert modes == {"training", "prediction", "subsample"}
    for setting in found.settings:
        assert 0 < setting.correlation < 1
        assert 0 < setting.expected_error < math.inf


def test_many_attributes_are_tuned_on_ensembles_that_classifiers_take():
    attributes = [Attribute.categorical(f"a{i}", list(range(50))) for i in range(60)]
    schema = Schema(attributes, class_labels=["no", "yes"])
    found = tune(schema, epsilon=1, n_records=1000, candidates={"n_ensembles": [1]})
    X = np.zeros((2, 60), int)
    model = found.classifier(random_state=0).fit(X, ["no", "yes"])
    assert model.predict(X).shape == (2,)
