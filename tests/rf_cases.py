"""A toy data set, the private classifiers, and instruments to watch them."""

from types import SimpleNamespace

import mmech.norm
import numpy as np
from sklearn.base import clone

import mmech.release
from mmech import PrivacyLedger
from mmech.mechanism import MatrixMechanism
from mmech.noise._system import PredictableGenerator
from mmech_rf import (
    Attribute,
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    LaplaceForestClassifier,
    Schema,
    SubsampleAggregateClassifier,
)
from mmech_rf.drawn.scores import AdditiveScores
from mmech_rf.drawn.views import single_view
from mmech_rf.private.base import ForestClassifier
from mmech_rf.private.payments import ConcentratedPayments, PurePayments

SHAPE = (3, 2, 2)
CLASSES = ("no", "maybe", "yes")
SCHEMA = Schema(
    tuple(
        Attribute.categorical(f"x{i}", [str(value) for value in range(size)])
        for i, size in enumerate(SHAPE)
    ),
    CLASSES,
)
CELLS = np.array(list(np.ndindex(*SHAPE)))
"""Codes of all 12 cells."""

IDENTITY = {"template": "identity"}
"""Quick; tests that need another strategy say so."""

PRIVATE = {
    "batch training": (BatchTrainingClassifier, IDENTITY),
    "batch prediction": (BatchPredictionClassifier, IDENTITY),
    "subsample weight": (SubsampleAggregateClassifier, IDENTITY),
    "subsample hard": (SubsampleAggregateClassifier, {"voting": "hard"} | IDENTITY),
    "laplace shared": (LaplaceForestClassifier, {"data": "shared"}),
    "laplace disjoint": (LaplaceForestClassifier, {"data": "disjoint"}),
}
RELEASED = ("batch training", "laplace shared", "laplace disjoint")
"""Classifiers that release a model."""
PER_BATCH = ("batch prediction", "subsample weight", "subsample hard")
"""Classifiers that release the labels of one batch."""
ASSIGNING = ("subsample weight", "subsample hard", "laplace disjoint")
"""Classifiers that assign each record to one tree."""


def classifier(name, **parameters):
    """One of the classifiers on the toy schema, with few trees."""
    cls, settings = PRIVATE[name]
    defaults = {"epsilon": 1, "n_trees": 3, "depth": 2, "random_state": 0}
    return cls(**({"schema": SCHEMA} | defaults | settings | parameters))


def records(n_records, seed=0):
    """Random raw rows and labels of the toy schema."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, SHAPE, (n_records, len(SHAPE)))
    return codes.astype(str), np.array(CLASSES)[rng.integers(0, 3, n_records)]


def rule(codes):
    """Class codes that are a function of the cell."""
    codes = np.asarray(codes).astype(int)
    return (codes @ [1, 1, 2]) % 3


def some_scores(domain_shape=SHAPE, k=3, seed=0):
    """Scores of all cells of every attribute, as if they had been released."""
    rng = np.random.default_rng(seed)
    views = tuple(single_view(i, n, n) for i, n in enumerate(domain_shape))
    tables = tuple(rng.integers(-300, 300, (view.size, k)) for view in views)
    return AdditiveScores(rng.integers(-300, 300, k), views, tables)


def paying(accounting, cost, rng=None):
    """Payments of a total, in either kind of budget."""
    noise = rng and PredictableGenerator(rng.bit_generator)
    terms = "add_remove", noise, lambda *entry: None
    if accounting == "zcdp":
        return ConcentratedPayments(terms[0], cost, *terms[1:])
    return PurePayments(terms[0], PrivacyLedger(cost), *terms[1:])


def silence(monkeypatch):
    """Make releases of pure epsilon exact; returns the scales that were asked for."""
    scales = []

    def discrete_laplace(scale, shape, *, insecure_rng=None):
        scales.append(scale)
        return np.zeros(shape, np.int64)

    def norm_noise(scale, groups, columns, *, insecure_rng=None):
        scales.append(scale)
        return np.zeros((sum(groups), columns), np.int64)

    monkeypatch.setattr(mmech.release, "discrete_laplace", discrete_laplace)
    monkeypatch.setattr(mmech.norm, "norm_noise", norm_noise)
    return scales


def remember(monkeypatch):
    """Optimize each workload once; tests that repeat a fit are then quick."""
    known = {}
    optimize = ForestClassifier._optimize

    def look_up(self, workloads):
        found = []
        for workload in workloads:
            key = self.template, workload.shape, workload.to_dense().tobytes()
            if key not in known:
                known[key] = optimize(self, [workload])[0]
            found.append(known[key])
        return found

    monkeypatch.setattr(ForestClassifier, "_optimize", look_up)


def watch(monkeypatch):
    """Return a list that gets mechanism, counts, answers of every release."""
    seen = []
    measure = MatrixMechanism.measure

    def measure_and_note(self, counts):
        measurement = measure(self, counts)
        seen.append(
            SimpleNamespace(
                mechanism=self, counts=np.array(counts), measurement=measurement
            )
        )
        return measurement

    monkeypatch.setattr(MatrixMechanism, "measure", measure_and_note)
    return seen


def release(model, X, y, queries=CELLS):
    """Fit a clone and, where predictions are what is released, predict."""
    model = clone(model)
    model.fit(X, y)
    if hasattr(model, "_answered"):
        model.predict(np.asarray(queries).astype(str))
    return model
