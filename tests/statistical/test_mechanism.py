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

FOREST = mm.PartitionStack([[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]], [3, 2])
CASES = {
    "identity": (mm.Prefix(6), mm.Identity(6)),
    "workload": (mm.Prefix(5), mm.Prefix(5)),
    "negative": (mm.Prefix(4), -2 * mm.Identity(4)),
    "pidentity": (mm.AllRange(4), mm.PIdentity([[1.0, 2.0, 0.5, 0.0]])),
    "optimized": (mm.Prefix(16), mm.optimize(mm.Prefix(16), seed=0).strategy),
    "kronecker": (mm.Kronecker([mm.Prefix(3), mm.Total(2)]),
        mm.Kronecker([mm.Prefix(3), mm.PIdentity([[1.0, 1.0]])])),
    "vstack": (mm.Prefix(4), mm.VStack([mm.Total(4), 0.5 * mm.Prefix(4)])),
    "forest": (FOREST, FOREST),
    "rank-deficient": (mm.Total(4), mm.VStack([mm.Total(4), mm.Total(4)])),
}  # fmt: skip


def run(mechanism, counts, runs=RUNS):
    """Return `runs` independent answers to the same counts, shape (m, runs)."""
    return mechanism.answer(np.tile(np.asarray(counts)[:, None], (1, runs)))


@pytest.mark.parametrize(
    ("name", "neighbours"),
    [*((name, "add_remove") for name in CASES), ("pidentity", "replace")],
)
def test_errors_are_as_predicted_and_without_bias(name, neighbours):
    """In all and per query, 6 standard errors: false alarm 2e-9 each, 4e-7 in all."""
    workload, strategy = CASES[name]
    counts = np.arange(workload.shape[1]) % 5
    mechanism = mm.MatrixMechanism(
        workload, strategy, epsilon=0.7, neighbours=neighbours
    )
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
