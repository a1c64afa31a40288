"""Depths by rule, forests of all trees, and the classifiers that use them."""

import itertools
import math
import pickle
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
import rf_reference
from hypothesis import given
from schema_cases import schema_of

import mmech_rf as rf
from mmech import (
    Identity,
    Marginals,
    all_marginals,
    expected_error,
)
from mmech_rf.cli import main
from mmech_rf.forest.ensembles import weight_votes
from mmech_rf.methods import SPLITS


# ---- depth ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("n_continuous", "n_discrete", "depth"),
    [
        (5, 0, 5), (10, 0, 8), (15, 0, 12), (20, 0, 15), (4, 0, 4), (16, 0, 12),
        (6, 8, 9), (0, 22, 11), (0, 16, 8), (0, 8, 4),
    ],
)  # fmt: skip
def test_depths_of_fletcher_and_islam(n_continuous, n_discrete, depth):
    assert rf.fletcher_islam_depth(n_continuous, n_discrete) == depth


def test_default_depths():
    schema = schema_of("c3", "c3", "o4", "n5")
    assert [rf.default_depth(schema, splits) for splits in SPLITS] == [2, 4, 4]
    assert (
        rf.default_depth((2, 2, 2, 2, 2)) == rf.default_depth((2,) * 5, "binary") == 2
    )
    assert rf.default_depth((3,)) == rf.default_depth((3,), "threshold") == 1
    with pytest.raises(ValueError, match="n_discrete must be an integer >= 0, got -1"):
        rf.fletcher_islam_depth(1, -1)
    iris = rf.datasets.load_iris()
    model = rf.NonPrivateForestClassifier(iris.schema, n_trees=8, splits="threshold")
    assert model.fit(iris.data, iris.target).ensembles_[0].forest.depth == 4


# ---- complete forests ------------------------------------------------------------
@given(st.lists(st.integers(2, 4), min_size=1, max_size=4), st.integers(0, 4))
def test_complete_forests_are_all_marginals(shape, depth):
    depth = min(depth, len(shape))
    forest = rf.complete_forest(shape, depth)
    T = rf.training_workload(forest)
    assert isinstance(T, Marginals)
    dense = all_marginals(shape, depth).to_dense()
    assert np.array_equal(T.to_dense(), dense)
    assert np.array_equal(rf.workloads._leaves(forest).to_dense(), dense)
    assert forest.subsets == tuple(itertools.combinations(range(len(shape)), depth))
    assert forest.n_trees == math.comb(len(shape), depth)
    assert forest.depth == depth
    cells = rf_reference.cells(shape)
    for tree, subset in enumerate(forest.subsets):
        sizes = [shape[i] for i in subset]
        rows = [
            np.ravel_multi_index(c, sizes) if subset else 0 for c in cells[:, subset]
        ]
        assert np.array_equal(forest.apply(cells)[:, tree], rows)


def test_attributes_of_one_value_are_left_out_of_complete_forests():
    forest = rf.complete_forest((1, 3, 1, 2), 2)
    assert forest.subsets == ((1, 3),)
    assert rf.complete_forest((1, 3, 1, 2), 9).depth == 2
    assert rf.complete_forest((1, 1), 1).n_leaves == 1
    assert rf.training_workload(forest).shape == (6, 6)
    loaded = pickle.loads(pickle.dumps(forest))
    assert loaded.subsets == forest.subsets
    assert np.array_equal(loaded.feature, forest.feature)


def test_complete_forests_take_what_has_a_domain_shape():
    schema = SimpleNamespace(domain_shape=(2, 3))
    assert rf.complete_forest(schema, 1).n_leaves == 5


# ---- classifiers -----------------------------------------------------------------
PRIVATE = [
    rf.BatchTrainingClassifier, rf.BatchPredictionClassifier,
    rf.LaplaceForestClassifier, rf.SubsampleAggregateClassifier,
]  # fmt: skip
SCHEMA = schema_of("c3", "o2", "c2")


def raw(n_records, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, SCHEMA.domain_shape, (n_records, 3))
    return codes, np.array(["no", "yes"])[(codes.sum(axis=1) + codes[:, 0]) % 2]


@pytest.mark.parametrize("Classifier", PRIVATE)
@pytest.mark.parametrize(
    "options",
    [{"n_trees": math.inf}, {"splits": "binary"}, {"splits": "threshold"}],
    ids=str,
)
def test_all_classifiers_take_every_kind_of_forest(Classifier, options):
    X, y = raw(300)
    settings = {"n_trees": 16, "depth": 3, "random_state": 0} | options
    if Classifier is not rf.LaplaceForestClassifier:
        settings["template"] = "identity"
    model = Classifier(SCHEMA, epsilon=1e6, **settings).fit(X, y)
    queries, labels = raw(12, seed=1)
    assert (model.predict(queries) == labels).mean() > 0.9


def test_weight_voting_is_the_sum_of_all_marginals_of_the_release():
    X, y = raw(200)
    model = rf.BatchTrainingClassifier(
        SCHEMA, epsilon=1, n_trees=math.inf, depth=2, voting="weight"
    ).fit(X, y)
    cells = rf_reference.cells(SCHEMA.domain_shape)
    votes = weight_votes(model.ensembles_[0].forest, model.leaf_counts_[0], cells)
    # the release is consistent: it is a table of cells seen through all marginals
    T = all_marginals(SCHEMA.domain_shape, 2).to_dense().astype(float)
    leaf_counts = model.leaf_counts_[0]
    table = ref.pinv(T) @ leaf_counts
    np.testing.assert_allclose(T @ table, leaf_counts, atol=1e-8)
    np.testing.assert_allclose(T.T @ T @ table, votes, atol=1e-8)
    exact = expected_error(
        rf.training_workload(model.ensembles_[0].forest), Identity(12), epsilon=1
    )
    assert model.expected_error_ == pytest.approx(2 * exact, rel=0.1)


def test_prediction_workload_of_a_complete_forest():
    forest = rf.complete_forest((3, 2, 2), 2)
    queries = rf_reference.cells((3, 2, 2))[::2]
    T = all_marginals((3, 2, 2), 2).to_dense()
    expected = (T.T @ T)[::2]
    assert np.array_equal(rf.prediction_workload(forest, queries).to_dense(), expected)


def test_the_command_line_takes_infinitely_many_trees(capsys):
    options = ["evaluate", "--data", "monks-1", "--repeats", "1", "--quiet"]
    for number, said in ({"inf": "trees inf", "some": "got 'some'; or inf"}).items():
        code = main([*options, "--trees", number, "--methods", "laplace"])
        assert said in "".join(capsys.readouterr())
        assert code == 2 * (number == "some")
