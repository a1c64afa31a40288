"""Any public size: a method ends in seconds, or refuses and names what works."""

import re
import signal
from contextlib import contextmanager

import numpy as np
import pytest
from schema_cases import schema_of

import mmech_rf as rf
from mmech import Conjunctions, DomainTooLargeError, PrivacyLedger, limits, optimize

METHODS = {
    "training": rf.BatchTrainingClassifier,
    "prediction": rf.BatchPredictionClassifier,
    "subsample": rf.SubsampleAggregateClassifier,
    "laplace": rf.LaplaceForestClassifier,
    "private": rf.PrivateForestClassifier,
}
PAIRS = [
    ([*METHODS][(i + j + 4) % 5], d, n)
    for i, d in enumerate((2, 5, 12, 21, 40))
    for j, n in enumerate((2, 3, 7, 20, 50))
]
"""Every method at every number of attributes, and at every size of them."""
CHEAP = [(2, 50), (40, 2), (16, 3), (40, 50)]
HANGS = 300
"""Seconds of processor time after which a test fails: no measurement, only to end what
never would, on a busy machine too."""


@contextmanager
def not_for_ever():
    if not hasattr(signal, "setitimer"):
        yield
        return

    def give_up(*_):
        raise TimeoutError(f"still running after {HANGS} s")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def fitted(name, d, n, **settings):
    """Fit and predict; return the refusal if there is one."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, n, (435, d))
    y = np.where(X[:, 0] > 0, "yes", "no")
    ledger = PrivacyLedger(1)
    schema = schema_of(*[f"c{n}"] * d)
    terms = {"epsilon": 1, "ledger": ledger, "random_state": 0}
    model = METHODS[name](schema, **terms, **settings)
    with not_for_ever():
        try:
            assert model.fit(X, y).predict(X[:5]).shape == (5,)
        except DomainTooLargeError as refusal:
            assert ledger.spent == 0
            return str(refusal)
    return None


def follow(name, d, n):
    """Fit at the defaults, then as often as advised; every advice must work."""
    refusal = fitted(name, d, n)
    if refusal is not None:
        assert "PrivateForestClassifier" in refusal
        advice = re.search(r"use (n_trees|depth|max_features)=(\d+)", refusal)
        assert advice is not None, refusal
        assert fitted(name, d, n, **{advice[1]: int(advice[2])}) is None


@pytest.mark.by_day(1)
@pytest.mark.parametrize("size", CHEAP, ids=str)
def test_private_forests_are_for_any_size(size):
    assert fitted("private", *size) is None


@pytest.mark.parametrize(
    ("name", "monotone"), [("private", 1), ("subsample", None), ("prediction", None)]
)
def test_attributes_of_one_value_are_any_number(name, monotone):
    """NumPy has 64 axes at most."""
    attributes = [
        rf.Attribute.ordinal(str(i), ["a", "b"][: 1 + (i < 2)], monotone=monotone)
        for i in range(70)
    ]
    X = np.full((4, 70), "a", object)
    X[:2, 0] = X[::2, 1] = "b"
    public = {} if name in ("subsample", "prediction") else {"n_records": 4}
    schema = rf.Schema(attributes, ["no", "yes"])
    model = METHODS[name](schema, epsilon=1e4, **public)
    model.fit(X, np.where(X[:, 0] == "b", "yes", "no"))
    assert model.predict(X).shape == (4,)
    if hasattr(model, "predict_proba"):
        assert model.predict_proba(X).shape == (4, 2)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "d", "n"),
    [
        ("training", 40, 50),
        ("prediction", 40, 50),
        ("subsample", 40, 50),
        ("training", 2, 50),
        ("prediction", 5, 3),
        ("prediction", 21, 2),  # minutes, if 2^21 subsets are visited
    ],
)
def test_methods_end_or_name_what_works(name, d, n):
    follow(name, d, n)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::mmech.exceptions.PerformanceWarning")
@pytest.mark.parametrize(("name", "d", "n"), PAIRS)
def test_all_pairs_end_or_name_what_works(name, d, n):
    follow(name, d, n)


@pytest.mark.slow
def test_auto_lists_no_cells_of_boxes():
    """There are 2^40 cells."""
    forest = rf.grow_random_forest((2,) * 40, n_trees=2, depth=2, seed=0)
    assert optimize(Conjunctions(forest.leaf_masks()), seed=0).success


def test_sums_of_boxes_are_projected_on_few_subsets():
    """A batch on trees of ten levels restricts hundreds of thousands of them."""
    forest = rf.grow_random_forest((2,) * 16, n_trees=2, depth=6, seed=0)
    batch = rf.prediction_workload(forest, np.zeros((2, 16), int))
    with limits.changed(summed_subsets=100, lattice_attributes=15, merged_cells=1000):
        assert optimize(batch, seed=0).success
        with pytest.raises(DomainTooLargeError, match="more than 100 subsets"):
            optimize(batch, template="marginals", seed=0)


@pytest.mark.parametrize("n_trees", [128, float("inf")])
def test_sizes_that_are_too_large_are_refused(n_trees):
    for name in ("training", "prediction", "subsample", "laplace"):
        assert fitted(name, 40, 50, n_trees=n_trees) is not None
