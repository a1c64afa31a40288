"""Settings chosen from public facts: closed forms against dense matrices."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import reference as ref
from schema_cases import schema_of

import mmech_rf as rf
from mmech import Marginal, optimize

SHAPE = (3, 2, 4)
N_CLASSES, N_RECORDS, EPSILON = 3, 50, 0.8


def categorical(shape):
    return schema_of(*(f"c{size}" for size in shape), classes=range(N_CLASSES))


def single(shape, depth):
    """The one setting of a search with a single candidate."""
    public = {"epsilon": EPSILON, "n_records": N_RECORDS}
    found = rf.tune(categorical(shape), **public, depths=[depth])
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


def covariance(shape):
    """Σ g_s P_s by its definition, without the closed forms."""
    gamma, decay, contrast = 0.7, 0.35, 0.25
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


def correlation(F, noise, shape):
    """Expected correlation over the votes F, with their DP noise."""
    S, n = covariance(shape), math.prod(shape)
    u = N_RECORDS / (n * N_CLASSES)
    spread = np.trace(F @ (S + u * np.eye(n)) @ F.T) + noise
    return np.trace(F @ S) / math.sqrt(np.trace(S) * spread)


VARIANCE = 2 / EPSILON**2


@pytest.mark.parametrize(
    ("shape", "depth"), [(SHAPE, 2), (SHAPE, 3), ((2, 2, 2, 2), 3), ((2, 3), 2)]
)
def test_a_forest_on_the_cells(shape, depth):
    F = forest_matrix(shape, itertools.combinations(range(len(shape)), depth))
    setting = single(shape, depth)
    assert setting.measured == "identity"
    expected = correlation(F, VARIANCE * np.square(F).sum(), shape)
    assert setting.correlation == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("shape", "depth"), [((3, 3, 3, 3, 3), 1), ((5, 5, 5, 5), 2)])
def test_a_forest_on_marginals_by_their_least_squares(shape, depth):
    forest = rf.complete_forest(shape, depth)
    options = {"template": "marginals", "seed": 0, "max_evaluations": 400}
    strategy = optimize(rf.training_workload(forest), **options).strategy
    F = forest_matrix(shape, forest.subsets)
    A = strategy.to_dense().astype(float)
    gain = np.square(F @ ref.pinv(A)).sum() * strategy.sensitivity() ** 2
    setting = single(shape, depth)
    assert setting.measured == "marginals"
    wanted = correlation(F, VARIANCE * gain, shape)
    assert setting.correlation == pytest.approx(wanted, rel=1e-9)


def test_an_attribute_of_one_value_changes_nothing():
    wide, narrow = single((3, 1, 2, 4), 2), single(SHAPE, 2)
    assert wide.correlation == pytest.approx(narrow.correlation)


# ---- what users see --------------------------------------------------------------


CAR = rf.datasets.load_car().schema
tune_car = partial(rf.tune, CAR, epsilon=1, n_records=1400)


def test_little_budget_wants_shallow_trees():
    depths = [tune_car(epsilon=each).best.depth for each in ("0.05", 1, 20)]
    assert depths == sorted(depths)
    assert depths[0] < depths[-1]


def test_the_result_is_the_same_every_time_and_in_order():
    first, second = (tune_car() for _ in range(2))
    assert first.settings == second.settings
    correlations = [setting.correlation for setting in first.settings]
    assert correlations == sorted(correlations, reverse=True)
    head, *rows = str(first).splitlines()
    assert head.split() == ["depth", "measured", "correlation"]
    assert [int(row.split()[0]) for row in rows] == [s.depth for s in first.settings]


def test_the_classifier_of_the_best_depth_fits():
    iris = rf.datasets.load_iris()
    found = rf.tune(iris.schema, epsilon=2, n_records=120)
    model = found.classifier(neighbours="replace")
    assert model.neighbours == "replace"
    model.fit(iris.data[::2], iris.target[::2])
    assert model.predict(iris.data[1::2]).shape == (75,)
    assert model.ensembles_[0].forest.depth == found.best.depth
