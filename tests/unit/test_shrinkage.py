"""Shrinkage against dense normal models, and strategies of least Bayes risk."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import reference as ref

from mmech import (
    Marginals,
    MatrixMechanism,
    SignalPrior,
    bayes_risk_strategy,
    shrink,
)
from mmech.reconstruction.shrinkage import GRID, _part
from mmech.strategies import BayesRisk, block_partitions

SIZES = (3, 2, 4)
POOLS = {
    "one-way": {(0,): 1.0, (1,): 2.0, (2,): 0.5},
    "overlapping": {(0, 1): 1.0, (1, 2): 0.7},
    "with totals": {(): 1.0, (0, 2): 1.5},
    "identity": {(0, 1, 2): 1.0},
}
pools = pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
columns = pytest.mark.parametrize("k", [1, 2, 3])


def projector(s, sizes):
    out = np.ones((1, 1))
    for i, n in enumerate(sizes):
        mean = np.full((n, n), 1 / n)
        out = np.kron(out, np.eye(n) - mean if i in s else mean)
    return out


def subsets(d):
    return [s for j in range(d + 1) for s in itertools.combinations(range(d), j)]


def random_values(pool, k, seed=0):
    strategy = Marginals(SIZES, pool)
    rng = np.random.default_rng(seed)
    return strategy, rng.normal(5, 20, (strategy.shape[0], k))


def row_variances(strategy):
    """A variance of its own for every marginal."""
    sizes = [math.prod(SIZES[i] for i in a) for a in strategy.weights]
    return np.repeat(1.0 + np.arange(len(sizes)), sizes)


@columns
@pools
def test_posterior_of_the_dense_normal_model(pool, k):
    """Conditioning a normal vector of n k cells on all noisy answers."""
    strategy, values = random_values(pool, k)
    variance, n_records = row_variances(strategy), 40.0
    prior = SignalPrior(energy=0.4, decay=0.5, gamma=0.8)
    estimate = shrink(
        strategy, values, variance=variance, n_records=n_records, prior=prior, spread=0
    )
    n, d = math.prod(SIZES), len(SIZES)
    inside = {s for a in pool for s in subsets(d) if set(s) <= set(a)}
    mean_k = np.full((k, k), 1 / k)
    covariance = np.zeros((n * k, n * k))
    for s in inside:
        n_s = math.prod(SIZES[i] for i in s)
        rank = math.prod(SIZES[i] - 1 for i in s)
        guess = prior.energies([s], SIZES, n_records=n_records)[0] * n_s / n
        common = guess / rank
        if k > 1 and not s:
            common = 1e7  # the total is kept
        covariance += common * np.kron(projector(s, SIZES), mean_k)
        if k > 1:
            contrast = guess / (rank * (k - 1))
            covariance += contrast * np.kron(projector(s, SIZES), np.eye(k) - mean_k)
    # Sampling: independent cells of variance N / (n k), seen through the queries.
    A = np.kron(strategy.to_dense(), np.eye(k))
    noise = np.diag(np.repeat(variance, k))
    # Least squares per interaction first: with sampling noise the estimator weighs
    # tables by their own noise, so the model is conditioned on A⁺ y.
    white = A / np.sqrt(np.repeat(variance, k))[:, None]
    estimator = ref.pinv(white, rcond=1e-10) / np.sqrt(np.repeat(variance, k))
    support = ref.pinv(white, rcond=1e-10) @ white
    noisy_cells = estimator @ noise @ estimator.T
    noisy_cells += n_records / (n * k) * support
    gain = covariance @ ref.pinv(covariance + noisy_cells, rcond=1e-10, hermitian=True)
    expected = (gain @ (estimator @ values.ravel())).reshape(n, k)
    spread = gain @ noisy_cells  # Σ - Σ (Σ + R)⁺ Σ
    for a in pool:
        M = np.kron(Marginals(SIZES, {a: 1}).to_dense(), np.eye(k))
        np.testing.assert_allclose(
            estimate.marginal(a).ravel(), M @ expected.ravel(), rtol=1e-5, atol=1e-4
        )
        np.testing.assert_allclose(
            estimate.variance(a).ravel(), np.diag(M @ spread @ M.T), rtol=1e-4
        )


def test_the_factor_integrates_over_the_size_of_the_signal():
    table = np.array([3.0, -1.0, -2.0])[:, None]
    noise, rank, guess, spread = 2.0, 2, 5.0, 1.5
    part = _part(table, noise, rank, guess, spread)
    x = np.linspace(-4, 4, 20001)
    signal = np.exp(spread * x) * guess / rank
    likelihood = np.exp(
        -0.5 * 14 / (signal + noise) - 0.5 * rank * np.log(signal + noise)
    )
    weight = np.exp(-0.5 * x**2) * likelihood
    expected = (weight * signal / (signal + noise)).sum() / weight.sum()
    assert part.factor == pytest.approx(expected, abs=1e-4)
    nothing = np.exp(-0.5 * 14 / noise - 0.5 * rank * np.log(noise))
    evidence = np.log((weight).sum() / np.exp(-0.5 * x**2).sum() / nothing)
    assert part.evidence == pytest.approx(evidence, abs=1e-3)
    assert GRID[0] == -4


def test_strong_signals_stay_and_noise_goes():
    strategy = Marginals((6,), {(0,): 1})
    rng = np.random.default_rng(0)
    signal = np.array([[90, 10], [10, 90]] * 3)
    kept = shrink(strategy, signal, variance=2.0, n_records=600)
    assert kept.contrasts[(0,)].factor > 0.95
    noise = shrink(strategy, rng.normal(50, 30, (6, 2)), variance=900, n_records=600)
    assert noise.contrasts[(0,)].factor < kept.contrasts[(0,)].factor - 0.3


def test_many_attributes_need_no_domain():
    strategy = Marginals((2,) * 100, {(i, i + 1): 1 for i in range(0, 100, 2)})
    values = np.ones((strategy.shape[0], 2))
    estimate = shrink(strategy, values, variance=1.0, n_records=200)
    assert estimate.marginal([0, 1]).shape == (4, 2)


@pytest.mark.parametrize(
    ("estimate", "number"),
    [(shrink, {"n_records": 7})],
)
def test_variances_may_be_exact_numbers(estimate, number):
    tables = Marginals((2, 2), {(0,): 1, (1,): 1})
    first, *others = (
        estimate(tables, [3, 4, 5, 2], variance=variance, **number)
        for variance in (0.5, Fraction(1, 2), [Fraction(1, 2)] * 4)
    )
    for other in others:
        np.testing.assert_array_equal(other.marginal((1,)), first.marginal((1,)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variance": 0}, "variance must be"),
        ({"variance": [1.0, 1.0, 2.0]}, "same in all rows"),
        ({"n_records": 0}, "n_records must be"),
        ({"spread": -1}, "spread must be"),
        ({"values": [1, 2]}, "one row per strategy query"),
    ],
)
def test_wrong_arguments(change, message):
    good = {"values": [1, 2, 3], "variance": 1.0, "n_records": 10}
    arguments = good | change
    with pytest.raises(ValueError, match=message):
        shrink(Marginals((3,), {(0,): 1}), arguments.pop("values"), **arguments)


# ---------------------------------------------------------------- Bayes-risk strategies
def risk_of(pool, k=2, epsilon=0.7, n_records=80.0, rho=None):
    return BayesRisk(
        SIZES,
        list(pool),
        epsilon=None if rho else epsilon,
        rho=rho,
        n_records=n_records,
        n_columns=k,
        prior=SignalPrior(),
    )


@pytest.mark.parametrize("rho", [None, 0.05])
@columns
def test_gradient_of_the_risk(k, rho):
    pool = [(), (0,), (1,), (0, 1), (1, 2), (0, 1, 2)]
    risk = risk_of(pool, k, rho=rho)
    shares = np.random.default_rng(1).dirichlet(np.ones(len(pool)))
    _, gradient = risk(shares)
    for i in range(len(pool)):
        step = np.zeros(len(pool))
        step[i] = 1e-6
        slope = (risk(shares + step)[0] - risk(shares - step)[0]) / 2e-6
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("rho", [None, 0.05])
@pytest.mark.parametrize("k", [2, 3])
def test_the_risk_is_the_expected_error_of_the_linear_filter(k, rho):
    """Trace of the posterior covariance of the contrasts, relative to the prior's."""
    pool, epsilon, n_records = [(0,), (0, 1), (2,)], 0.7, 80.0
    shares = np.array([0.2, 0.5, 0.3])
    value, _ = risk_of(pool, k, epsilon, n_records, rho)(shares)
    strategy = Marginals(SIZES, dict(zip(pool, np.ones(3), strict=True)))
    sizes = [math.prod(SIZES[i] for i in a) for a in pool]
    noise = 1 / (2 * rho * shares) if rho else 2 / (epsilon * shares) ** 2
    variance = np.repeat(noise, sizes)
    estimate = shrink(
        strategy,
        np.zeros((strategy.shape[0], k)),
        variance=variance,
        n_records=n_records,
        spread=0,
    )
    n = math.prod(SIZES)
    left = before = 0.0
    for s, part in estimate.contrasts.items():
        n_s = math.prod(SIZES[i] for i in s)
        left += n_s / n * part.factor * part.noise * part.rank
        before += n_s / n * SignalPrior().energies([s], SIZES, n_records=n_records)[0]
    assert value == pytest.approx(left / before, rel=1e-12)


@pytest.mark.parametrize("pool", ["all", "disjoint"])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 3.0])
def test_never_worse_than_equal_shares_of_any_candidate(pool, epsilon):
    result = bayes_risk_strategy(SIZES, epsilon=epsilon, n_records=200, pool=pool)
    keys = [(), *subsets(3)[1:]]
    risk = risk_of(keys, epsilon=epsilon, n_records=200.0)

    def value(weights):
        return risk(np.array([weights.get(key, 0.0) for key in keys]))[0]

    best = value(dict(result.strategy.weights))
    candidates = block_partitions(SIZES)
    if pool == "all":
        candidates += [[()], [(0, 1), (0, 2), (1, 2)], [(0, 1, 2)]]
    for blocks in candidates:
        assert best <= value(dict.fromkeys(blocks, 1 / len(blocks))) * (1 + 1e-9)
    assert sum(result.strategy.weights.values()) == pytest.approx(1)


def test_weights_for_gaussian_noise_are_roots_of_the_shares():
    """The mechanism then noises every block as the risk supposes."""
    rho = 0.03
    result = bayes_risk_strategy((4, 2, 9), rho=rho, n_records=500, pool="disjoint")
    blocks = list(result.strategy.weights)
    shares = np.square(list(result.strategy.weights.values()))
    assert shares.sum() == pytest.approx(1)
    assert result.norm == "L2"
    risk = BayesRisk(
        (4, 2, 9), blocks, rho=rho, n_records=500, n_columns=2, prior=SignalPrior()
    )
    assert risk(shares)[0] == pytest.approx(result.loss)
    assert result.loss <= risk(np.full(len(blocks), 1 / len(blocks)))[0]
    measured = MatrixMechanism(result.strategy, result.strategy, rho=rho).measure(
        np.zeros(72, int)
    )
    sizes = [math.prod((4, 2, 9)[i] for i in block) for block in blocks]
    expected = np.repeat(1 / (2 * rho * shares), sizes)
    np.testing.assert_allclose(np.square(measured.scale), expected, rtol=1e-3)


@pytest.mark.parametrize("budgets", [{}, {"epsilon": 1, "rho": 1}])
def test_one_budget_is_given(budgets):
    with pytest.raises(ValueError, match="one of epsilon"):
        bayes_risk_strategy((2, 3), n_records=10, **budgets)


def test_is_deterministic_and_partitions_cover_every_attribute():
    sizes = (4, 2, 3, 5, 2, 2, 7)
    first, second = (
        bayes_risk_strategy(sizes, epsilon=0.2, n_records=150, pool="disjoint")
        for _ in range(2)
    )
    assert dict(first.strategy.weights) == dict(second.strategy.weights)
    assert sorted(i for a in first.strategy.weights for i in a) == list(range(7))


def test_more_records_measure_larger_blocks():
    largest = [
        max(
            len(a)
            for a in bayes_risk_strategy(
                (4,) * 8, epsilon=1, n_records=n, pool="disjoint"
            ).strategy.weights
        )
        for n in (10, 300, 100_000)
    ]
    assert largest == sorted(largest)
    assert largest[0] < largest[-1]


def test_partitions_respect_the_cap():
    for blocks in block_partitions((50, 50, 50, 2), max_cells=100):
        assert all(math.prod((50, 50, 50, 2)[i] for i in b) <= 100 for b in blocks)
        assert sorted(i for b in blocks for i in b) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["energy", "decay", "gamma"])
@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_prior_refuses(name, value):
    with pytest.raises(ValueError, match=name):
        SignalPrior(**{name: value})


# ------------------------------------------------------- beside any order that is fixed
def class_differences(order, strength, rng):
    """Return cells of a rule in which attributes act together up to some order."""
    score = np.zeros(math.prod(SIZES))
    for s in subsets(len(SIZES)):
        if 0 < len(s) <= order:
            part = projector(s, SIZES) @ rng.normal(size=score.size)
            score += strength * part / np.sqrt(np.mean(part**2))
    return 1 / (1 + np.exp(-score))


@pytest.mark.parametrize("noise", [0.5, 5.0, 50.0])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_fixed_order_decides_much_better(order, noise):
    """Not by more than what it costs to find the order, by which rules were made."""
    n, n_records = math.prod(SIZES), 600
    strategy = Marginals(SIZES, POOLS["identity"])
    kept = [
        sum(projector(s, SIZES) for s in subsets(len(SIZES)) if len(s) <= h)
        for h in range(len(SIZES) + 1)
    ]
    right = np.zeros(1 + len(kept))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        chances = class_differences(order, 1.0, rng)
        joint = np.stack([1 - chances, chances], axis=1) / n
        counts = rng.multinomial(n_records, joint.ravel()).reshape(n, 2)
        values = counts + rng.laplace(scale=noise, size=(n, 2))
        estimate = shrink(
            strategy, values, variance=2 * noise**2, n_records=n_records
        ).marginal((0, 1, 2))
        raw = values[:, 1] - values[:, 0]
        found = [estimate[:, 1] - estimate[:, 0], *(keep @ raw for keep in kept)]
        right += [np.where(one > 0, joint[:, 1], joint[:, 0]).sum() for one in found]
    assert right[0] > right[1:].max() - 0.018 * 60
    assert right[0] > right[1:].mean()
