"""Simulated tasks have the probabilities, sizes and kinds that their prior says."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks import gains
from benchmarks.simulated import KINDS, SCORECARD, simulate_task

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", [*KINDS, SCORECARD])
def test_tasks_of_every_kind_can_be_learnt_from_their_attributes(kind):
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        task = simulate_task(rng, kind)
        codes = task.records(1000, rng)
        sizes = np.array(task.schema.domain_shape)
        assert task.kind == kind
        assert 3 <= sizes.size <= 120
        assert (codes >= 0).all()
        assert (codes < sizes).all()
        chances = task.probabilities(codes)
        assert chances.shape == (1000, task.schema.n_classes)
        np.testing.assert_allclose(chances.sum(axis=1), 1)
        gains.append(chances.max(axis=1).mean() - chances.mean(axis=0).max())
    assert min(gains) > 0
    assert np.mean(gains) > 0.1


def test_gains_are_paired_by_task(capsys):
    gains.main(["--ranking", "--tasks", "1"])
    head, _, *rows = capsys.readouterr().out.strip().splitlines()
    assert head.startswith("|  | tasks | right | log loss |")
    places = [f"| {low:g} to {high:g}" for low, high in pairwise(gains.PLACES)]
    assert [row.split(" | ")[0] for row in rows if " to " in row] == places
