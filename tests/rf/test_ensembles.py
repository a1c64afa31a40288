"""Algorithm 3: ensembles of different sizes, optimized anywhere, voting together."""

import math
import pickle
from fractions import Fraction
from functools import partial

import joblib
import numpy as np
import pytest
from joblib.parallel import ThreadingBackend
from rf_cases import ASSIGNING, CELLS, PRIVATE, SCHEMA, classifier, records, release
from sklearn.base import clone

from mmech_rf import BatchTrainingClassifier, prediction_workload, training_workload
from mmech_rf.forest import ensembles as _ensembles
from mmech_rf.forest.ensembles import depths_of, optimize_all, trees_of

each = pytest.mark.parametrize("name", PRIVATE)
optimizing = pytest.mark.parametrize(
    "name", [name for name in PRIVATE if not name.startswith("laplace")]
)


@pytest.mark.parametrize(
    ("n_trees", "q", "expected"),
    [
        (7, 3, [3, 2, 2]),
        (math.inf, 2, [math.inf, math.inf]),
        ((5, 1), 2, [5, 1]),
        ([math.inf, 2], 2, [math.inf, 2]),
        (np.array([4, 9, 2]), 3, [4, 9, 2]),
    ],
)
def test_trees_of_every_ensemble(n_trees, q, expected):
    assert trees_of(n_trees, q) == expected


def test_depths_of_every_ensemble():
    assert depths_of(3, 2) == [3, 3]
    assert depths_of("auto", 2) == ["auto", "auto"]
    assert depths_of((0, "auto", 4), 3) == [0, "auto", 4]


@each
def test_every_ensemble_has_its_own_trees_and_depth(name):
    model = classifier(name, n_trees=(5, 1, 3), depth=(2, 0, "auto"), n_ensembles=3)
    fitted = release(clone(model), *records(40))
    forests = [ensemble.forest for ensemble in fitted.ensembles_]
    assert [forest.n_trees for forest in forests] == [5, 1, 3]
    assert [forest.depth for forest in forests] == [2, 0, 1]
    assert {ensemble.epsilon for ensemble in fitted.ensembles_} == {Fraction(1, 3)}


@each
def test_a_sequence_of_equal_values_means_the_same_as_one_value(name):
    X, y = records(40)
    one = release(classifier(name, n_trees=6, depth=1, n_ensembles=2), X, y)
    many = release(classifier(name, n_trees=[3, 3], depth=(1, 1), n_ensembles=2), X, y)
    for a, b in zip(one.ensembles_, many.ensembles_, strict=True):
        assert pickle.dumps(a.forest) == pickle.dumps(b.forest)
        assert np.array_equal(a.features, b.features)


def test_finite_and_infinite_forests_vote_together():
    model = classifier("batch training", n_trees=(math.inf, 4), n_ensembles=2, depth=1)
    fitted = model.fit(*records(40))
    assert [ensemble.forest.n_trees for ensemble in fitted.ensembles_] == [3, 4]
    assert set(fitted.predict(CELLS.astype(str))) <= set(SCHEMA.class_labels)


def test_a_partition_gives_every_attribute_to_one_ensemble():
    options = {"n_ensembles": 2, "max_features": "partition", "n_trees": 4, "depth": 1}
    seen = set()
    for seed in range(8):
        model = classifier("batch training", random_state=seed, **options)
        parts = [e.features.tolist() for e in model.fit(*records(40)).ensembles_]
        assert [len(part) for part in parts] == [2, 1]
        assert sorted(parts[0] + parts[1]) == [0, 1, 2]
        again = classifier("batch training", random_state=seed, **options)
        assert [e.features.tolist() for e in again.fit(*records(40)).ensembles_] == (
            parts
        )
        seen.add(parts[1][0])
    assert seen == {0, 1, 2}  # dealt out at random, by the public seed


@pytest.mark.parametrize("voting", ["hard", "weight"])
def test_votes_are_added_up_over_the_ensembles(voting):
    """By hand from the released leaf counts, tree by tree."""
    model = classifier(
        "batch training",
        n_trees=(5, 2),
        depth=(1, 2),
        n_ensembles=2,
        max_features=2,
        voting=voting,
    ).fit(*records(200))
    votes = np.zeros((len(CELLS), 3))
    for i, (ensemble, counts) in enumerate(
        zip(model.ensembles_, model.leaf_counts_, strict=True)
    ):
        forest = ensemble.forest
        leaves = forest.apply(CELLS[:, ensemble.features]) + forest.leaf_offsets[:-1]
        for tree in leaves.T:
            chosen = counts[tree]
            if voting == "hard":
                # Ties of whole counts were broken at random, once and for all.
                chosen = np.eye(3)[model.leaf_labels_[i][tree]]
            votes += chosen
    top = np.sort(votes, axis=1)
    clear = top[:, -1] > top[:, -2] + 1e-9
    expected = np.array(SCHEMA.class_labels)[votes.argmax(axis=1)]
    assert clear.any()
    assert np.array_equal(model.predict(CELLS.astype(str))[clear], expected[clear])


# ---- in parallel --------------------------------------------------------------


@optimizing
@pytest.mark.parametrize("template", ["auto", "identity"])
def test_jobs_do_not_change_the_result(name, template):
    X, y = records(60)
    found = []
    for n_jobs in (1, 2):
        model = classifier(
            name, n_trees=9, n_ensembles=3, template=template, n_jobs=n_jobs
        )
        with pytest.warns(UserWarning, match="insecure"):
            fitted = release(model.set_params(insecure_rng=5), X, y)
        found.append((fitted, fitted.predict(CELLS.astype(str))))
    (serial, a), (parallel, b) = found
    if name not in ASSIGNING:  # the assignment is never seeded
        assert np.array_equal(a, b)
    assert serial.expected_error_ == parallel.expected_error_
    for one, other in zip(serial.strategies_, parallel.strategies_, strict=True):
        assert one.loss == other.loss
        assert other.workload is not None
        assert np.array_equal(one.strategy.to_dense(), other.strategy.to_dense())


class Spy(ThreadingBackend):
    """Notes what a worker would get."""

    def __init__(self, sent, **options):
        self.sent = sent
        super().__init__(**options)

    def submit(self, func, callback=None):
        self.sent += func.items
        return super().submit(func, callback)


def test_only_public_things_reach_the_workers():
    """What is sent is a function, a workload and the name of a template."""
    sent = []
    X, y = records(60)
    model = classifier("batch training", n_trees=4, n_ensembles=2, n_jobs=2)
    joblib.register_parallel_backend("spy", partial(Spy, sent))
    with joblib.parallel_config("spy"):
        model.fit(X, y)
    assert len(sent) == 2
    for (function, positional, named), ensemble in zip(
        sent, model.ensembles_, strict=True
    ):
        assert function is _ensembles._without_workload
        workload, template = positional
        expected = training_workload(ensemble.forest)
        assert np.array_equal(workload.to_dense(), expected.to_dense())
        assert (template, named) == ("identity", {})
    assert len(model.ledger_.entries) == 2


def test_workers_do_not_send_the_workload_back():
    model = BatchTrainingClassifier(
        SCHEMA, epsilon=1, n_trees=4, n_ensembles=2, random_state=0
    ).fit(*records(20))
    workloads = [
        prediction_workload(ensemble.forest, CELLS) for ensemble in model.ensembles_
    ]
    assert _ensembles._without_workload(workloads[0], "auto").workload is None
    with joblib.parallel_config(backend="threading", n_jobs=2):
        found = optimize_all(workloads, "auto", None)
    for workload, result in zip(workloads, found, strict=True):
        assert result.workload is workload
