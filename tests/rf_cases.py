"""A toy data set, the private classifiers, and instruments to watch them."""

from types import SimpleNamespace

import numpy as np
from sklearn.base import clone

import mmech_rf as rf
from mmech import Counts, PrivacyLedger
from mmech.mechanism import MatrixMechanism
from mmech.noise import discrete_laplace
from mmech.noise.system import PredictableGenerator
from mmech.session import Session
from mmech_rf.drawn.scores import AdditiveScores
from mmech_rf.drawn.views import single_view
from mmech_rf.paper import batch_training, per_batch

SHAPE = (3, 2, 2)
CLASSES = ("no", "maybe", "yes")
SCHEMA = rf.Schema(
    tuple(
        rf.Attribute.categorical(f"x{i}", [str(value) for value in range(size)])
        for i, size in enumerate(SHAPE)
    ),
    CLASSES,
)
CELLS = np.array(list(np.ndindex(*SHAPE)))
"""Codes of all 12 cells."""

HAND = {
    "domain_shape": (3, 2),
    "feature": [0, -1, 1, -1, -1, -1],
    "child": [1, 0, 4, 3, 1, 2],
    "node_offsets": [0, 6],
    "leaf_offsets": [0, 4],
}
"""A tree: outlook (3 values) at the root; windy (2 values) below its second value."""

TESTED = {
    "domain_shape": (2, 3),
    "feature": [1, -1, -1],
    "child": [1, 0, 1],
    "node_offsets": [0, 3],
    "leaf_offsets": [0, 2],
    "value": [1, -1, -1],
    "ordered": [False, True],
}
"""A tree of one test of a number."""

IDENTITY = {"template": "identity"}
"""Quick; tests that need another strategy say so."""

PRIVATE = {
    "batch training": (rf.BatchTrainingClassifier, IDENTITY),
    "batch prediction": (rf.BatchPredictionClassifier, IDENTITY),
    "subsample weight": (rf.SubsampleAggregateClassifier, IDENTITY),
    "subsample hard": (rf.SubsampleAggregateClassifier, {"voting": "hard"} | IDENTITY),
    "laplace shared": (rf.LaplaceForestClassifier, {"data": "shared"}),
    "laplace disjoint": (rf.LaplaceForestClassifier, {"data": "disjoint"}),
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
    constant = rng.integers(-300, 300, k)
    return AdditiveScores(constant, views, tables)


def paying(cost, rng=None):
    """A session with a total."""
    noise = rng and PredictableGenerator(rng.bit_generator)
    return Session(PrivacyLedger(cost), noise)


def silence(watch_all):
    """Make releases of pure epsilon exact; returns the scales that were asked for."""
    scales = []

    def without_noise(draw, sample):
        if draw.kind not in ("laplace", "k_norm"):
            return sample()
        scales.extend(draw.public["parameters"])
        return draw.exact.copy()

    watch_all(without_noise)
    return scales


def half_the_noise(draw, sample):
    """Watcher that is a mistake: Laplace noise of half the scale."""
    if draw.kind != "laplace":
        return sample()
    noisy = draw.exact.copy()
    for (start, stop, _), scale in zip(
        draw.public["runs"], draw.public["parameters"], strict=True
    ):
        noisy[start:stop] += discrete_laplace(scale / 2, noisy[start:stop].shape)
    return noisy


KNOWN = {}
"""Strategies that were optimized, by template and workload."""


def remember(monkeypatch):
    """Optimize each workload once; tests that repeat a fit are then quick.

    Patched, because a strategy depends on nothing but the workload: hundreds of fits
    of one test would find the same one.
    """
    optimized = batch_training.optimized

    def look_up(workload, template):
        key = template, workload.shape, workload.to_dense().tobytes()
        if key not in KNOWN:
            KNOWN[key] = optimized(workload, template)
        return KNOWN[key]

    for home in (batch_training, per_batch):
        monkeypatch.setattr(home, "optimized", look_up)


def watch(monkeypatch):
    """Return a list that gets mechanism, counts, answers of every release.

    Patched, because the seam knows rows, not the mechanism whose tables they are.
    """
    seen = []
    measure = MatrixMechanism._measured

    def measure_and_note(self, counts, *terms):
        measurement = measure(self, counts, *terms)
        kept = counts if isinstance(counts, Counts) else np.array(counts)
        seen.append(
            SimpleNamespace(mechanism=self, counts=kept, measurement=measurement)
        )
        return measurement

    monkeypatch.setattr(MatrixMechanism, "_measured", measure_and_note)
    return seen


def release(model, X, y, queries=CELLS):
    """Fit a clone and, where predictions are what is released, predict."""
    model = clone(model)
    model.fit(X, y)
    if hasattr(model, "_answered"):
        model.predict(np.asarray(queries).astype(str))
    return model
