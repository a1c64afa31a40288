"""Compiling forests into workloads, and whole classifiers, on the car data."""

import math
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier

from mmech import PrivacyLeakWarning
from mmech_rf import (
    Attribute,
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    PrivateForestClassifier,
    Schema,
    aggregation_workload,
    datasets,
    grow_random_forest,
    prediction_workload,
    training_workload,
)

from ._common import CAR, check, partition_rows
from .bench_forest import numpy_apply, records


class Compile:
    """T, QTᵀT and QTᵀ with 346 queries, beside a construction in NumPy and SciPy."""

    params = ([16, 128],)
    param_names = ("n_trees",)

    def setup(self, n_trees):
        self.forest = grow_random_forest(CAR, n_trees, 4, seed=0)
        self.leaves = np.diff(self.forest.leaf_offsets)
        self.queries = np.random.default_rng(0).integers(0, CAR, (346, len(CAR)))
        x = np.random.default_rng(1).random((self.forest.n_cells, 2))
        y = np.random.default_rng(1).random((self.forest.n_leaves, 2))
        check(self.time_training_mmech(n_trees) @ x, self.scipy_training() @ x)
        check(self.time_prediction_mmech(n_trees) @ x, self.scipy_prediction() @ x)
        check(self.time_aggregation_mmech(n_trees) @ y, self.scipy_aggregation() @ y)
        check(self.time_gram_mmech(n_trees), self.time_gram_scipy(n_trees))

    def scipy_training(self):
        cells = np.indices(CAR).reshape(len(CAR), -1).T
        return partition_rows(numpy_apply(self.forest, cells).T, self.leaves)

    def scipy_aggregation(self):
        leaves = numpy_apply(self.forest, self.queries) + self.forest.leaf_offsets[:-1]
        rows = np.repeat(np.arange(len(leaves)), leaves.shape[1])
        entries = (np.ones(leaves.size), (rows, leaves.ravel()))
        return sp.csr_array(entries, shape=(len(leaves), self.forest.n_leaves))

    def scipy_prediction(self):
        return self.scipy_aggregation() @ self.scipy_training()

    def time_training_mmech(self, n_trees):
        return training_workload(self.forest)

    def time_training_scipy(self, n_trees):
        self.scipy_training()

    def time_prediction_mmech(self, n_trees):
        return prediction_workload(self.forest, self.queries)

    def time_prediction_scipy(self, n_trees):
        self.scipy_prediction()

    def time_aggregation_mmech(self, n_trees):
        return aggregation_workload(self.forest, self.queries)

    def time_aggregation_scipy(self, n_trees):
        self.scipy_aggregation()

    def time_gram_mmech(self, n_trees):
        return prediction_workload(self.forest, self.queries).gram().to_dense()

    def time_gram_scipy(self, n_trees):
        rows = self.scipy_prediction()
        return (rows.T @ rows).toarray()


METHODS = {
    "batch training": BatchTrainingClassifier,
    "batch prediction": BatchPredictionClassifier,
}


class FitPredict:
    """Trees of depth 4, 80/20 split, fit and predict; not private beside it.

    scikit-learn's trees are binary, see the data and pay nothing for privacy. Encoding
    of raw values is in our time only.
    """

    params = (list(METHODS), [1.0, 2.0], [128, math.inf])
    param_names = ("method", "epsilon", "n_trees")

    def setup(self, method=None, epsilon=1.0, n_trees=128):
        car = datasets.load_car()
        order = np.random.default_rng(0).permutation(len(car.target))
        self.train, self.test = order[346:], order[:346]
        self.car, self.codes = car, car.schema.encode(car.data).astype(np.float32)
        if method is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                exact = self.fit(METHODS[method], 1e9, n_trees)
            self.check_without_noise(exact)

    def check_without_noise(self, model):
        """At a huge epsilon, predictions are those of exact weighted votes."""
        schema, train, test = self.car.schema, self.train, self.test
        codes, classes = schema.encode(self.car.data, self.car.target)
        forest = model.ensembles_[0].forest
        counts = forest.count_leaves(codes[train], classes[train], schema.n_classes)
        rows = forest.apply(codes[test]) + forest.leaf_offsets[:-1]
        if model.voting == "hard":
            check(model.leaf_counts_[0], counts, rtol=1e-4)
            return
        votes = counts[rows].sum(axis=1)
        untied = (votes == votes.max(axis=1, keepdims=True)).sum(axis=1) == 1
        expected = np.array(schema.class_labels)[votes.argmax(axis=1)]
        assert (model.predict(self.car.data[test]) == expected)[untied].all()

    def fit(self, classifier, epsilon, n_trees):
        model = classifier(
            self.car.schema,
            epsilon=epsilon,
            n_trees=n_trees,
            depth=4,
            random_state=None,  # equal forests are searched once
        )
        return model.fit(self.car.data[self.train], self.car.target[self.train])

    def time_mmech(self, method, epsilon, n_trees):
        model = self.fit(METHODS[method], epsilon, n_trees)
        return model.predict(self.car.data[self.test])

    def time_sklearn(self, *_):
        model = ExtraTreesClassifier(128, max_depth=4, random_state=0)
        model.fit(self.codes[self.train], self.car.target[self.train])
        return model.predict(self.codes[self.test])

    time_sklearn.params = ()  # one forest beside all of ours


class FitMemory:
    """Largest memory of a process that fits to 10^6 records, beside eight trees."""

    def setup(self):
        attributes = [
            Attribute.categorical(str(i), list(range(size)))
            for i, size in enumerate(CAR)
        ]
        self.schema = Schema(attributes, [0, 1])
        self.X, _ = records(10**6, CAR)
        self.y = (self.X.sum(axis=1) > 7).astype(np.int64)
        few = slice(20_000)
        models = self.mmech(few), self.sklearn(few)
        ours, theirs = ((m.predict(self.X[few]) == self.y[few]).mean() for m in models)
        assert ours > theirs - 0.05

    def mmech(self, rows):
        model = PrivateForestClassifier(self.schema, epsilon=1)
        return model.fit(self.X[rows], self.y[rows])

    def sklearn(self, rows):
        model = ExtraTreesClassifier(8, max_depth=4, random_state=0)
        return model.fit(self.X[rows], self.y[rows])

    def peakmem_mmech(self):
        self.mmech(slice(None))

    def peakmem_sklearn(self):
        self.sklearn(slice(None))
