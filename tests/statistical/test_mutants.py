"""A mechanism passes its audit, and a tenth less noise is caught.

What all strategies cost is checked exactly in `test_replayed_releases`, and mistakes in
the sources are tried by `tests/mutants`. The audit runs a mechanism on two
neighbouring tables, 100 000 times each; columns of a table are independent runs. It
returns a lower bound on epsilon at confidence 1 - 1e-6: a correct mechanism fails a
test with probability at most 1e-6.
"""

from fractions import Fraction

import numpy as np
import pytest
from replay import row_parameters, with_noise

import mmech as mm
from mmech.audit import epsilon_lower_bound
from mmech.noise import discrete_laplace

pytestmark = pytest.mark.statistical

RUNS = 100_000
CONFIDENCE = 1 - 1e-6

STRATEGIES = {
    "negative": -2 * mm.Identity(4),
    "kronecker": mm.Kronecker([mm.PIdentity([[1.0, 2.0]]), mm.Prefix(2)]),
    "union": mm.VStack([0.25 * mm.Prefix(4), 0.75 * mm.Identity(4)]),
}


def neighbour(mechanism, counts):
    """Counts with a record more, or elsewhere, that costs the most."""
    released = mechanism.released
    weights = np.concatenate(
        [np.broadcast_to(b.weight, b.matrix.shape[0]) for b in released.blocks]
    )
    columns = released.form.to_dense()
    added = int((weights @ np.abs(columns)).argmax())
    second = counts.copy()
    second[added] += 1
    if mechanism.neighbours == "replace":
        apart = weights @ np.abs(columns - columns[:, [added]])
        second[int(apart.argmax())] -= 1
    return second


def audited(mechanism):
    """A lower bound on the epsilon of a mechanism for a pair of neighbours.

    The statistic is the likelihood ratio of Laplace noise with the claimed scales.
    """
    first = np.full(mechanism.workload.shape[1], 3)
    second = neighbour(mechanism, first)
    exact = [mechanism.released.form @ np.asarray(x) for x in (first, second)]
    claimed = np.array(row_parameters(mechanism), float)

    def statistic(values):
        distances = [np.abs(values - centre) / claimed for centre in exact]
        return (distances[0] - distances[1]).sum(axis=1)

    def release(counts, runs):
        table = np.tile(np.asarray(counts)[:, None], (1, runs))
        return mechanism.measure(table).values.T

    return epsilon_lower_bound(
        release, first, second, runs=RUNS, confidence=CONFIDENCE, statistic=statistic
    ).epsilon


def noise_times(factor):
    """Return a watcher that multiplies the scale of all noise, exactly."""

    def mutant(scale, shape):
        return discrete_laplace(scale * Fraction(factor), shape)

    return with_noise(mutant)


# ------------------------------------------------------------ the real mechanism


@pytest.mark.by_day(2)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_mechanism_passes(name, neighbours):
    settings = {"epsilon": 1, "neighbours": neighbours}
    found = audited(mm.MatrixMechanism(mm.Total(4), STRATEGIES[name], **settings))
    assert found <= 1
    # Columns overlap, so that moving a record may cost less; the bound is not vacuous.
    assert found > (0.5 if neighbours == "add_remove" else 0.15)


@pytest.mark.parametrize("epsilon", ["1/4", 1, 3])
def test_the_mechanism_passes_at_other_epsilons(epsilon):
    mechanism = mm.MatrixMechanism(mm.Prefix(4), mm.Prefix(4), epsilon=epsilon)
    assert audited(mechanism) <= float(Fraction(epsilon))


# ------------------------------------------------------------------- the mutants


def test_ten_percent_too_little_noise(watch_all):
    watch_all(noise_times("9/10"))
    assert audited(mm.MatrixMechanism(mm.Identity(4), mm.Identity(4), epsilon=1)) > 1
