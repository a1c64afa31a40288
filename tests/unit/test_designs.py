"""Covering designs against exhaustive search, and their Bayes risk against dense."""

import itertools
import math

import numpy as np
import pytest

from mmech import DomainTooLargeError, SignalPrior, bayes_risk_strategy
from mmech.marginals.designs import fewest_blocks
from mmech.operators import Marginal
from mmech.strategies import block_partitions, covering_design

SHAPES = [(2,) * 5, (4, 4, 4, 3, 3, 3), (2, 9, 3, 5, 1, 2, 7), (6,), (1, 1)]


def cells(block, sizes):
    return math.prod(sizes[i] for i in block)


def fitting(sizes, order, cap):
    several = [i for i, n in enumerate(sizes) if n > 1]
    for size in range(1, order + 1):
        for s in itertools.combinations(several, size):
            if size == 1 or cells(s, sizes) <= cap:
                yield set(s)


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("cap", [4, 12, 64, 5000])
def test_all_that_fits_is_covered_under_the_cap(sizes, order, cap):
    blocks = covering_design(sizes, order=order, max_cells=cap)
    for target in fitting(sizes, order, cap):
        assert any(target <= set(block) for block in blocks)
    for block in blocks:
        assert len(block) == 1 or cells(block, sizes) <= cap
        assert list(block) == sorted(set(block))
        assert all(sizes[i] > 1 for i in block)
    for one, other in itertools.permutations(blocks, 2):
        assert not set(one) <= set(other)
    assert blocks == covering_design(sizes, order=order, max_cells=cap)
    assert len(blocks) >= fewest_blocks(sizes, order=order, max_cells=cap)


@pytest.mark.parametrize(
    ("d", "length", "fewest", "above"),
    [(7, 3, 7, 0), (9, 3, 12, 0), (6, 3, 6, 0), (8, 4, 6, 0), (10, 5, 6, 1)],
)
def test_known_sizes_of_designs_of_pairs(d, length, fewest, above):
    """The Fano plane, the affine plane of order 3, and others of La Jolla's tables."""
    found = covering_design((3,) * d, max_cells=3**length)
    assert len(found) == fewest + above


@pytest.mark.parametrize(("sizes", "cap"), [((2,) * 5, 8), ((4, 2, 3, 2, 2), 16)])
def test_as_few_blocks_as_an_exhaustive_search(sizes, cap):
    d = len(sizes)
    targets = [set(s) for s in itertools.combinations(range(d), 2)]
    possible = [
        set(s)
        for size in range(2, d + 1)
        for s in itertools.combinations(range(d), size)
        if cells(s, sizes) <= cap
    ]
    possible = [b for b in possible if not any(b < other for other in possible)]
    fewest = next(
        count
        for count in itertools.count(1)
        if any(
            all(any(t <= b for b in chosen) for t in targets)
            for chosen in itertools.combinations(possible, count)
        )
    )
    assert len(covering_design(sizes, max_cells=cap)) == fewest


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
    found = bayes_risk_strategy(sizes, epsilon=epsilon, n_records=300, pool="covering")
    caps = [math.prod(sizes) // 2**i for i in range(4)]
    pool = [
        *block_partitions(sizes),
        *(covering_design(sizes, max_cells=cap) for cap in caps if cap >= 6),
    ]
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


def test_designs_pay_with_many_records_only():
    def chosen(n_records):
        found = bayes_risk_strategy(
            (3,) * 7, epsilon=1, n_records=n_records, pool="covering"
        )
        return found.candidates[0].template, dict(found.strategy.weights)

    few, _ = chosen(5)
    assert few.startswith("blocks of at most")
    many, weights = chosen(1000)
    assert many.startswith("covering")
    assert len(weights) > 1
    pairs = itertools.combinations(range(7), 2)
    assert all(any({*pair} <= {*b} for b in weights) for pair in pairs)
    assert weights == chosen(1000)[1]


def test_every_block_of_a_design_keeps_half_its_share():
    found = bayes_risk_strategy((2,) * 12, epsilon=1, n_records=2000, pool="covering")
    assert found.candidates[0].template.startswith("covering")
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


def test_too_many_blocks_fall_back_to_partitions():
    found = bayes_risk_strategy((16,) * 60, epsilon=1, n_records=1e6, pool="covering")
    assert {c.template.split()[0] for c in found.candidates} == {"blocks"}


def test_triples_are_covered_when_asked_for():
    found = bayes_risk_strategy(
        (3,) * 6, epsilon=1, n_records=10**4, pool="covering", order=3
    )
    assert found.candidates[0].template.startswith("covering")
    for triple in itertools.combinations(range(6), 3):
        assert any({*triple} <= {*block} for block in found.strategy.weights)


def test_too_many_sets_are_refused():
    with pytest.raises(DomainTooLargeError, match="use a lower order"):
        covering_design((2,) * 120, order=4)


def test_a_hundred_attributes():
    blocks = covering_design((2,) * 100, max_cells=1024)
    assert 110 <= len(blocks) <= 256
    pairs = itertools.combinations(range(100), 2)
    assert all(any({*pair} <= {*b} for b in blocks) for pair in pairs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": 0}, "order must be"),
        ({"max_cells": 0}, "max_cells must be"),
        ({"max_cells": 2.5}, "max_cells must be"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        covering_design((2, 2), **arguments)
    if "order" in arguments:
        with pytest.raises(ValueError, match=message):
            bayes_risk_strategy((2, 2), epsilon=1, n_records=10, **arguments)
