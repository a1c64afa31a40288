"""Bayes risk of shrunk marginals against the dense model."""

import itertools
import math

import numpy as np
import pytest

from mmech import SignalPrior, bayes_risk_strategy
from mmech.operators import Marginal
from mmech.strategies import block_partitions


def cells(block, sizes):
    return math.prod(sizes[i] for i in block)


def projector(s, sizes):
    out = np.ones((1, 1))
    for i, n in enumerate(sizes):
        mean = np.full((n, n), 1 / n)
        out = np.kron(out, np.eye(n) - mean if i in s else mean)
    return out


def dense_risk(sizes, weights, epsilon, n_records, asked):
    """Σ_s of the asked sets: posterior variance of coordinates of the cells."""
    n, prior = math.prod(sizes), SignalPrior()
    gram = sum(
        weight**2 * m.T @ m
        for weight, m in (
            (weight, Marginal(sizes, block).to_dense())
            for block, weight in weights.items()
        )
    )
    after = before = 0.0
    for s in asked:
        P = projector(s, sizes)
        rank = np.trace(P)
        n_s = cells(s, sizes)
        # Coordinates of sums over the other attributes: n / n_s times those of cells.
        signal = prior.energies([s], sizes, n_records=n_records)[0] * n_s / n / rank
        precision = 0.5 * epsilon**2 * np.trace(P @ gram) / rank
        sampling = n_records / (2 * n)
        # Measured with variance 1 / precision + sampling, or not at all.
        after += rank * signal
        if precision > 0:
            after -= rank * signal**2 / (signal + 1 / precision + sampling)
        before += rank * signal
    return after / before


@pytest.mark.parametrize("sizes", [(3, 2, 2, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
def test_the_risk_is_that_of_the_dense_model_and_least_of_all_candidates(
    sizes, epsilon
):
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    pool = [*block_partitions(sizes), pairs]
    found = bayes_risk_strategy(sizes, epsilon=epsilon, n_records=300, pool=pool)
    asked = {
        s
        for blocks in pool
        for b in blocks
        for size in range(len(b) + 1)
        for s in itertools.combinations(b, size)
    }
    settings = (epsilon, 300, asked)
    least = dense_risk(sizes, found.strategy.weights, *settings)
    assert found.loss == pytest.approx(least, rel=1e-9)
    for blocks in pool:
        equal = dict.fromkeys(blocks, 1 / len(blocks))
        assert least <= dense_risk(sizes, equal, *settings) * (1 + 1e-9)


def test_every_block_of_a_partition_keeps_half_its_share():
    found = bayes_risk_strategy((2,) * 12, epsilon=1, n_records=2000, pool="disjoint")
    shares = list(found.strategy.weights.values())
    assert min(shares) >= 0.5 / len(shares) * (1 - 1e-9)
    assert math.isclose(sum(shares), 1)


def test_a_floor_keeps_blocks_that_the_prior_would_drop():
    pool = [[(0,), (1, 2), (3,)]]
    settings = {"epsilon": 0.02, "n_records": 100, "pool": pool}
    sizes = (2, 40, 40, 2)
    assert (1, 2) not in bayes_risk_strategy(sizes, **settings).strategy.weights
    kept = bayes_risk_strategy(sizes, floor=0.6, **settings).strategy.weights
    assert min(kept.values()) >= 0.6 / 3 * (1 - 1e-9)
    with pytest.raises(ValueError, match="floor must be"):
        bayes_risk_strategy(sizes, floor=1, **settings)
