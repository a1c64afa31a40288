"""Running mechanisms: error as predicted, unbiased, and private on neighbours.

A table of k columns draws independent noise for each, so one call on k equal
columns is k runs. Noise comes from the operating system and no seed can fix it:
each assertion states its chance of failing a correct mechanism.
"""

import math

import numpy as np
import pytest
from replay import with_noise
from scipy import stats

from mmech import (
    AllRange,
    Identity,
    Kronecker,
    MatrixMechanism,
    PartitionStack,
    PIdentity,
    Prefix,
    Total,
    VStack,
    optimize,
)
from mmech.noise import discrete_laplace

pytestmark = pytest.mark.statistical

RUNS = 40_000
FALSE_ALARM = 1e-6
SIGMAS = 6.0
"""Two-sided normal tail of 2e-9; the slack covers the skewness of squared errors."""

FOREST = PartitionStack([[0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1]], [3, 2])
CASES = {
    "identity": (Prefix(6), Identity(6)),
    "workload": (Prefix(5), Prefix(5)),
    "negative": (Prefix(4), -2 * Identity(4)),
    "pidentity": (AllRange(4), PIdentity([[1.0, 2.0, 0.5, 0.0]])),
    "optimized": (Prefix(16), optimize(Prefix(16), seed=0).strategy),
    "kronecker": (Kronecker([Prefix(3), Total(2)]),
        Kronecker([Prefix(3), PIdentity([[1.0, 1.0]])])),
    "vstack": (Prefix(4), VStack([Total(4), 0.5 * Prefix(4)])),
    "forest": (FOREST, FOREST),
    "rank-deficient": (Total(4), VStack([Total(4), Total(4)])),
}  # fmt: skip
every_case = pytest.mark.parametrize("name", CASES)


def run(mechanism, counts, runs=RUNS):
    """Return `runs` independent answers to the same counts, shape (m, runs)."""
    return mechanism.answer(np.tile(np.asarray(counts)[:, None], (1, runs)))


@pytest.mark.parametrize(
    ("name", "neighbours"),
    [*((name, "add_remove") for name in CASES), ("pidentity", "replace")],
)
def test_squared_error_is_as_predicted(name, neighbours):
    """The mean of 40 000 runs within 6 standard errors: false alarm 2e-9 each."""
    workload, strategy = CASES[name]
    counts = np.arange(workload.shape[1]) % 5
    mechanism = MatrixMechanism(workload, strategy, epsilon=0.7, neighbours=neighbours)
    errors = run(mechanism, counts) - (workload @ counts)[:, None]
    totals = np.square(errors).sum(axis=0)
    standard_error = totals.std() / math.sqrt(RUNS)
    predicted = mechanism.expected_error()
    assert abs(totals.mean() - predicted) < SIGMAS * standard_error
    # The test is sharp enough to notice a tenth of the noise scale.
    assert abs(totals.mean() - 1.1**2 * predicted) > SIGMAS * standard_error
    assert abs(totals.mean() - 0.9**2 * predicted) > SIGMAS * standard_error


@every_case
def test_every_query_has_its_predicted_error_and_no_bias(name):
    """Per query, 6 standard errors: false alarm 2e-9 per query, 2e-7 in all."""
    workload, strategy = CASES[name]
    counts = 3 + np.arange(workload.shape[1]) % 4
    mechanism = MatrixMechanism(workload, strategy, epsilon=2)
    errors = run(mechanism, counts) - (workload @ counts)[:, None]
    bound = SIGMAS * errors.std(axis=1) / math.sqrt(RUNS)
    assert (abs(errors.mean(axis=1)) < bound).all()
    squares = np.square(errors)
    predicted = mechanism.per_query_error()
    bound = SIGMAS * squares.std(axis=1) / math.sqrt(RUNS)
    assert (abs(squares.mean(axis=1) - predicted) < bound).all()


# ------------------------------------------------------------------ privacy audit


def epsilon_lower_bound(hits, other_hits, runs, level):
    """Return a lower bound on ln(P / P') that holds with probability 1 - level.

    Clopper-Pearson: a lower bound on P and an upper bound on P', each at half
    the level.
    """
    if hits == 0:
        return -math.inf
    lower = stats.beta.ppf(level / 2, hits, runs - hits + 1)
    upper = stats.beta.ppf(1 - level / 2, other_hits + 1, runs - other_hits)
    return math.log(lower / upper)


def audit(strategy, counts, neighbour, *, epsilon, neighbours, runs=200_000):
    """Return lower bounds on epsilon from the most revealing event.

    The event is that every measured value lies on the far side of what the
    neighbour would measure: each affected row contributes its full share of
    the likelihood ratio. It is fixed before any noise is drawn.
    """
    mechanism = MatrixMechanism(
        Total(strategy.shape[1]), strategy, epsilon=epsilon, neighbours=neighbours
    )
    measured = mechanism.released.form
    exact, other = measured @ np.asarray(counts), measured @ np.asarray(neighbour)
    moved = other != exact
    assert moved.any()

    def hits(table, target, away):
        values = mechanism.measure(
            np.tile(np.asarray(table)[:, None], (1, runs))
        ).values
        side = np.sign(target - away)[moved, None]
        return int(
            ((values[moved] - target[moved, None]) * side >= 0).all(axis=0).sum()
        )

    bounds = [
        epsilon_lower_bound(
            hits(first, target, away), hits(second, target, away), runs, FALSE_ALARM
        )
        for first, second, target, away in [
            (neighbour, counts, other, exact),
            (counts, neighbour, exact, other),
        ]
    ]
    return max(bounds)


ADD = {
    "identity": (Identity(3), [5, 0, 2], [5, 1, 2]),
    "prefix, first cell": (Prefix(3), [5, 0, 2], [6, 0, 2]),
    "prefix, last cell": (Prefix(3), [5, 0, 2], [5, 0, 3]),
    "negative": (-2 * Identity(2), [0, 0], [0, 1]),
    "signs": (VStack([Total(2), -1 * Identity(2)]), [4, 4], [4, 5]),
    "pidentity": (PIdentity([[1.0, 3.0]]), [0, 0], [0, 1]),
    "kronecker": (Kronecker([Prefix(2), Identity(2)]), [1, 1, 1, 1], [2, 1, 1, 1]),
    "forest": (FOREST, [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]),
}
REPLACE = {
    "identity": (Identity(3), [5, 0, 2], [4, 1, 2]),
    "pidentity": (PIdentity([[1.0, 0.0], [0.0, 2.0]]), [1, 0], [0, 1]),
    "forest": (FOREST, [1, 2, 3, 4, 5, 6], [0, 2, 3, 5, 5, 6]),
}
# Neighbours where the whole sensitivity is used, so that a mutant must show.
TIGHT = [
    ("add_remove", ADD["identity"]),
    ("add_remove", ADD["prefix, first cell"]),
    ("add_remove", ADD["negative"]),
    ("add_remove", ADD["signs"]),
    ("add_remove", ADD["pidentity"]),
    ("add_remove", ADD["forest"]),
    ("replace", REPLACE["identity"]),
    ("replace", REPLACE["pidentity"]),
]


@pytest.mark.parametrize(
    ("name", "epsilon"), [(name, (0.5, 2.0)[i % 2]) for i, name in enumerate(ADD)]
)
def test_adding_a_record_stays_within_epsilon(name, epsilon):
    """A correct mechanism fails with probability at most 2e-6 (two directions)."""
    strategy, counts, neighbour = ADD[name]
    found = audit(strategy, counts, neighbour, epsilon=epsilon, neighbours="add_remove")
    assert found <= epsilon


@pytest.mark.parametrize("name", REPLACE)
def test_replacing_a_record_stays_within_epsilon(name):
    """A correct mechanism fails with probability at most 2e-6 (two directions)."""
    strategy, counts, neighbour = REPLACE[name]
    found = audit(strategy, counts, neighbour, epsilon=1.0, neighbours="replace")
    assert found <= 1.0


@pytest.mark.parametrize(("neighbours", "case"), TIGHT, ids=str)
def test_the_audit_catches_half_the_noise(neighbours, case, watch_all):
    """A mutant at twice epsilon is caught; missed with probability below 1e-6.

    The smallest event of the tight cases (every affected row beyond its target:
    2^-4 and more) has thousands of hits, which bounds the mutant's epsilon of 2
    well above the allowed 1.
    """
    watch_all(with_noise(lambda scale, shape: discrete_laplace(scale / 2, shape)))
    strategy, counts, neighbour = case
    found = audit(
        strategy, counts, neighbour, epsilon=1.0, neighbours=neighbours, runs=50_000
    )
    assert found > 1.3


def test_the_audit_catches_a_forgotten_factor_of_replace():
    """Noise for adding a record does not protect replacing one; miss below 1e-6."""
    strategy, counts, neighbour = REPLACE["identity"]
    found = audit(strategy, counts, neighbour, epsilon=1.0, neighbours="add_remove")
    assert found > 1.3


def test_the_audit_comes_close_to_epsilon():
    """The bound is not vacuous: it certifies nine tenths of epsilon.

    The event has probability 1/2 against e^-1/2; 200 000 runs put the certified
    bound within 0.04 of one. Miss below 1e-6.
    """
    strategy, counts, neighbour = ADD["identity"]
    found = audit(strategy, counts, neighbour, epsilon=1.0, neighbours="add_remove")
    assert found > 0.9
