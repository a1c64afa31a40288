"""More epsilon does not make a drawn forest worse, on simulated tasks."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import reference as ref

from benchmarks.gains import Trial

EPSILONS = ("0.1", "0.5", "2", "10", "100")


def risks(first, number):
    """Return excess risks, one row for each task of 1000 records, or of 200."""
    found = []
    for seed in range(first, first + number):
        trial, row = Trial(seed, (3.0, 3.0)), []
        trial.n_records = (1000, 200)[seed % 2]
        for epsilon in EPSILONS:
            trial.epsilon = Fraction(epsilon)
            row.append(trial.excess(trial.forest()))
        found.append(row)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.statistical
def test_more_epsilon_is_not_worse_by_more_than_noise():
    """By a hundredth and a false alarm of 1e-6, for each step and for all together."""
    found = risks(600, 100)
    for few, many in [*pairwise(EPSILONS), EPSILONS[::4]]:
        more = found[:, EPSILONS.index(many)] - found[:, EPSILONS.index(few)]
        assert more.mean() < 0.01 + ref.margin(more), f"epsilon from {few} to {many}"
    gained = found[:, 0] - found[:, -1]
    assert gained.mean() > 0.02
