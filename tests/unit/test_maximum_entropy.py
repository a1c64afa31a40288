"""Maximum entropy against explicit tables and iterative proportional fitting."""

from itertools import combinations

import numpy as np
import pytest

from mmech import Marginals, limits, maximum_entropy
from mmech.exceptions import DomainTooLargeError

SIZES = (3, 2, 4)
CELLS = np.array(list(np.ndindex(*SIZES)))


def noisy(pool, k, seed=0, deviation=2.0):
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(300, rng.dirichlet(np.ones(24 * k))).reshape(24, k)
    strategy = Marginals(SIZES, pool)
    answers = strategy.to_dense() @ counts
    return strategy, answers + rng.normal(0, deviation, answers.shape)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(
    "pool",
    [
        {(0,): 1, (1,): 1, (2,): 1},
        {(0, 1): 1, (2,): 2},
        {(): 1, (0, 1): 1, (2,): 1},
        {(1,): 1},
        {(): 1},
    ],
)
def test_factorised_is_explicit(pool, k):
    strategy, values = noisy(pool, k)
    variance = np.random.default_rng(1).uniform(0.01, 0.05, strategy.shape[0])
    fits = [
        maximum_entropy(
            strategy,
            values,
            variance=variance,
            total=300,
            factorise=factorise,
            max_iter=5,
        )
        for factorise in (True, False)
    ]
    np.testing.assert_allclose(fits[0].history, fits[1].history, rtol=1e-8)
    logs = [fit.log_joint(CELLS) for fit in fits]
    np.testing.assert_allclose(logs[0], logs[1], atol=1e-7)
    assert np.exp(logs[0]).sum() == pytest.approx(1)
    for a in [(), (0,), (0, 2), (0, 1, 2)]:
        table = Marginals(SIZES, {a: 1}).to_dense() @ np.exp(logs[1]) * 300
        np.testing.assert_allclose(fits[0].marginal(a), table, atol=1e-6)


def test_objective_falls_and_stops_at_the_noise():
    strategy, values = noisy({(0, 1): 1, (1, 2): 1}, 2)
    fit = maximum_entropy(strategy, values, variance=4.0, total=300)
    assert (np.diff(fit.history) < 0).all()
    assert fit.stopped
    assert fit.history[-1] <= values.size / 2 < fit.history[-2]
    residual = np.concatenate([fit.marginal((0, 1)), fit.marginal((1, 2))]) - values
    assert fit.history[-1] == pytest.approx((residual**2).sum() / 8)


def test_exact_tables_give_the_log_linear_model():
    """Iterative proportional fitting of consistent pairs, in the limit of no noise."""
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.ones(24)).reshape(SIZES)
    strategy = Marginals(SIZES, {(0, 1): 1, (1, 2): 1})
    values = strategy.to_dense() @ truth.ravel()
    fit = maximum_entropy(strategy, values, variance=1e-9, total=1.0, max_iter=5000)
    fitted = np.full(SIZES, 1 / 24)
    for _ in range(50):
        fitted *= (truth.sum(axis=2) / fitted.sum(axis=2))[:, :, None]
        fitted *= (truth.sum(axis=0) / fitted.sum(axis=0))[None]
    np.testing.assert_allclose(fit.marginal((0, 1, 2))[:, 0], fitted.ravel(), atol=1e-3)


def test_negative_tables_give_positive_counts():
    strategy = Marginals(SIZES, {(0,): 1})
    fit = maximum_entropy(strategy, [-50.0, 20.0, 100.0], variance=1.0, total=70)
    table = fit.marginal([0])[:, 0]
    assert (table >= 0).all()
    assert table.sum() == pytest.approx(70)
    assert table[0] < 1


def test_no_step_is_the_uniform_distribution():
    strategy, values = noisy({(0,): 1}, 2)
    fit = maximum_entropy(strategy, values, variance=1.0, total=300, max_iter=0)
    np.testing.assert_allclose(fit.marginal((0, 1)), 300 / 12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": 0}, "total must be"),
        ({"variance": -1}, "variance must be"),
        ({"values": [1.0]}, "one row per strategy query"),
    ],
)
def test_wrong_arguments(change, message):
    arguments = {"values": [1.0, 2.0, 3.0], "variance": 1.0, "total": 6} | change
    with pytest.raises(ValueError, match=message):
        maximum_entropy(
            Marginals((3,), {(0,): 1}), arguments.pop("values"), **arguments
        )


def test_linked_attributes_have_a_limit():
    strategy = Marginals((60,) * 5, dict.fromkeys(combinations(range(5), 2), 1))
    with pytest.raises(DomainTooLargeError, match="linked attributes"):
        maximum_entropy(strategy, np.ones(strategy.shape[0]), variance=1.0, total=10)


# ------------------------------------------------------------- messages in a tree
FIVE = (2, 3, 2, 2, 3)
ALL = np.array(list(np.ndindex(*FIVE)))
LINKED = [
    [(0, 1), (1, 2), (2, 3), (3, 4)],  # a chain
    [(0, 2), (1, 2), (2, 3), (2, 4)],  # a star
    [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)],  # a triangle, and a tail
    [(0, 1), (1, 2), (2, 3), (0, 3), (4,)],  # a square, and one apart
    [(0, 1, 2), (2, 3), ()],
]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("pool", LINKED)
def test_messages_give_what_listing_gives(pool, k, rng):
    strategy = Marginals(FIVE, {a: 1 + i for i, a in enumerate(pool)})
    p = strategy.shape[0]
    settings = {"variance": rng.uniform(1, 2, p), "total": 200, "max_iter": 6}
    values = strategy.to_dense() @ rng.integers(0, 30, (72, k)) + rng.normal(
        size=(p, k)
    )
    listed = maximum_entropy(strategy, values, factorise=False, **settings)
    # Too large to list, but for its cliques.
    with limits.changed(joint_entries=12 * k):
        passed = maximum_entropy(strategy, values, **settings)
        assert any(passed.separators)
        assert max(map(len, passed.groups)) < 4
        np.testing.assert_allclose(passed.history, listed.history, rtol=1e-8)
        logs = listed.log_joint(ALL)
        np.testing.assert_allclose(passed.log_joint(ALL), logs, atol=1e-8)
    for size in range(6):
        for a in combinations(range(5), size):
            table = Marginals(FIVE, {a: 1}).to_dense() @ np.exp(logs) * 200
            np.testing.assert_allclose(passed.marginal(a), table, atol=1e-6)


def test_a_chain_of_many_attributes():
    """Forty attributes of ten cells; neighbours agree more often than not."""
    d, n, total = 40, 10, 1000.0
    strategy = Marginals((n,) * d, {(i, i + 1): 1 for i in range(d - 1)})
    pair = (total / n) * (0.9 * np.eye(n) + 0.1 / n).ravel()
    values = np.tile(pair, d - 1)
    fit = maximum_entropy(strategy, values, variance=1e-3, total=total, max_iter=3000)
    assert len(fit.groups) == d - 1
    np.testing.assert_allclose(fit.marginal((7, 8))[:, 0], pair, atol=0.5)
    # A Markov chain: three steps keep 0.9 ** 3 of the agreement.
    apart = (total / n) * (0.9**3 * np.eye(n) + (1 - 0.9**3) / n)
    np.testing.assert_allclose(fit.marginal((7, 10))[:, 0], apart.ravel(), atol=0.5)
    np.testing.assert_allclose(fit.marginal(39)[:, 0], total / n, atol=0.5)
