"""Running mechanisms: error as predicted, and unbiased.

A table of k columns draws independent noise for each, so one call on k equal
columns is k runs. Noise comes from the operating system and no seed can fix it:
each assertion states its chance of failing a correct mechanism.
"""

import math

import numpy as np
import pytest

import mmech as mm

pytestmark = pytest.mark.statistical

RUNS = 40_000
SIGMAS = 6.0
"""Two-sided normal tail of 2e-9; the slack covers the skewness of squared errors."""

PURE, CONCENTRATED = {"epsilon": 0.7}, {"rho": 0.3}
FOREST = mm.PartitionStack([[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]], [3, 2])
CASES = {
    "identity": (mm.Prefix(6), mm.Identity(6), PURE),
    "workload": (mm.Prefix(5), mm.Prefix(5), PURE),
    "negative": (mm.Prefix(4), -2 * mm.Identity(4), PURE),
    "pidentity": (mm.AllRange(4), mm.PIdentity([[1.0, 2.0, 0.5, 0.0]]), PURE),
    "optimized": (mm.Prefix(16), mm.optimize(mm.Prefix(16), seed=0).strategy, PURE),
    "kronecker": (mm.Kronecker([mm.Prefix(3), mm.Total(2)]),
        mm.Kronecker([mm.Prefix(3), mm.PIdentity([[1.0, 1.0]])]), PURE),
    "vstack": (mm.Prefix(4), mm.VStack([mm.Total(4), 0.5 * mm.Prefix(4)]), PURE),
    "forest": (FOREST, FOREST, PURE),
    "rank-deficient": (mm.Total(4), mm.VStack([mm.Total(4), mm.Total(4)]), PURE),
    "Gaussian identity": (mm.Prefix(6), mm.Identity(6), CONCENTRATED),
    "Gaussian dense": (mm.AllRange(5), None, CONCENTRATED),
    "Gaussian residuals": (mm.all_marginals((2, 3, 2), 2), None, CONCENTRATED),
    "Gaussian marginals": (mm.all_marginals((2, 3), 1),
        mm.Marginals((2, 3), {(0,): 1, (1,): 2, (0, 1): 0.5}), CONCENTRATED),
    "Gaussian few queries": (mm.Dense([[1, 1, 0, 2], [0, 1, 1, 1]]), None,
        CONCENTRATED),
    "Gaussian merged": (mm.PartitionStack([[0, 0, 1, 1, 0], [0, 0, 0, 1, 0]], [2, 2]),
        None, CONCENTRATED),
}  # fmt: skip


def run(mechanism, counts, runs=RUNS):
    """Return `runs` independent answers to the same counts, shape (m, runs)."""
    return mechanism.answer(np.tile(np.asarray(counts)[:, None], (1, runs)))


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("name", "neighbours"),
    [
        *((name, "add_remove") for name in CASES),
        ("pidentity", "replace"),
        ("Gaussian dense", "replace"),
    ],
)
def test_errors_are_as_predicted_and_without_bias(name, neighbours):
    """In all and per query, 6 standard errors: false alarm 2e-9 each, 7e-7 in all."""
    workload, strategy, cost = CASES[name]
    counts = np.arange(workload.shape[1]) % 5
    mechanism = mm.MatrixMechanism(workload, strategy, neighbours=neighbours, **cost)
    errors = run(mechanism, counts) - (workload @ counts)[:, None]
    bound = SIGMAS * errors.std(axis=1) / math.sqrt(RUNS)
    assert (abs(errors.mean(axis=1)) < bound).all()
    squares = np.square(errors)
    bound = SIGMAS * squares.std(axis=1) / math.sqrt(RUNS)
    assert (abs(squares.mean(axis=1) - mechanism.per_query_error()) < bound).all()
    totals = squares.sum(axis=0)
    bound = SIGMAS * totals.std() / math.sqrt(RUNS)
    predicted = mechanism.expected_error()
    assert abs(totals.mean() - predicted) < bound
    # The test is sharp enough to notice a tenth of the noise scale.
    assert abs(totals.mean() - 1.1**2 * predicted) > bound
    assert abs(totals.mean() - 0.9**2 * predicted) > bound
