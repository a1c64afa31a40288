"""Joint optimization of unions, and row reweighting."""

import numpy as np
import pytest

from mmech import (
    AllRange,
    Dense,
    Identity,
    Kronecker,
    MatrixMechanism,
    PIdentity,
    Prefix,
    Scaled,
    Total,
    UnsupportedWorkloadError,
    VStack,
    loss,
    optimize,
)
from mmech.error import kronecker_terms
from mmech.strategies import reweight
from mmech.strategies._reweight import low_rank_strategy
from mmech.strategies._union import _JointObjective, union_strategy
from mmech.testing import assert_query_matrix


def union_of_prefixes(n):
    return VStack(
        [Kronecker([Prefix(n), Identity(n)]), Kronecker([Identity(n), Prefix(n)])]
    )


def three_terms():
    return VStack(
        [
            Kronecker([Prefix(4), Identity(3)]),
            2 * Kronecker([Identity(4), AllRange(3)]),
            Kronecker([Total(4), Prefix(3)]),
        ]
    )


def stack(thetas, shares):
    return VStack(
        [
            Scaled(share, Kronecker([PIdentity(theta) for theta in rows]))
            for share, rows in zip(shares, thetas, strict=True)
        ]
    )


@pytest.fixture
def thetas(rng):
    return [
        [rng.random((2, 4)), rng.random((1, 3))],
        [rng.random((1, 4)), rng.random((2, 3))],
    ]


def test_joint_loss_equals_the_dense_formula(thetas):
    workload, shares = three_terms(), (0.3, 0.7)
    value, _, _ = _JointObjective(kronecker_terms(workload))(thetas, shares)
    strategy = stack(thetas, shares)
    dense = workload.to_dense() @ np.linalg.pinv(strategy.to_dense())
    assert value == pytest.approx(np.square(dense).sum(), rel=1e-10)
    assert loss(workload, strategy) == pytest.approx(value, rel=1e-10)


def test_joint_gradient_equals_finite_differences(thetas):
    objective = _JointObjective(kronecker_terms(three_terms()))
    shares = (0.3, 0.7)
    _, gradients, in_shares = objective(thetas, shares)
    step = 1e-6
    for group in (0, 1):
        for i in (0, 1):
            theta = thetas[group][i]
            for place in np.ndindex(theta.shape):
                kept = theta[place]
                theta[place] = kept + step
                above = objective(thetas, shares)[0]
                theta[place] = kept - step
                below = objective(thetas, shares)[0]
                theta[place] = kept
                expected = (above - below) / (2 * step)
                assert gradients[group][i][place] == pytest.approx(
                    expected, rel=1e-5, abs=1e-4
                )
    above, below = (objective(thetas, (0.3 + s, 0.7))[0] for s in (step, -step))
    assert in_shares[0] == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_pseudoinverse_of_two_products_is_exact(thetas):
    strategy = stack(thetas, (0.3, 0.7))
    assert_query_matrix(strategy, strategy.to_dense())


def test_union_is_reproducible_and_has_sensitivity_one():
    workload = union_of_prefixes(16)
    first, second = (union_strategy(workload, seed=3, max_iter=150) for _ in range(2))
    assert first.loss == second.loss
    assert first.strategy.sensitivity() == pytest.approx(1.0)
    assert first.loss == pytest.approx(loss(workload, first.strategy))


def test_joint_least_squares_beats_separate_answers():
    """Using all measurements for all queries is at least as good as splitting."""
    workload = union_of_prefixes(16)
    separate = sum(
        optimize(block, template="kronecker", seed=0).loss ** (1 / 3)
        for block in workload.blocks
    )
    assert union_strategy(workload, seed=0).loss < separate**3


def test_auto_reaches_the_known_loss_of_a_union():
    """HDMM's best is 2.66e5 (Identity)."""
    assert optimize(union_of_prefixes(64), seed=0).loss <= 2.26e5


def test_a_mechanism_runs_on_a_union(rng):
    workload = union_of_prefixes(8)
    result = union_strategy(workload, seed=0, max_iter=50)
    counts = rng.integers(0, 50, 64)
    answers = MatrixMechanism(workload, result, epsilon=1e9).answer(counts)
    np.testing.assert_allclose(answers, workload @ counts, atol=1e-3)


def test_union_needs_products():
    with pytest.raises(UnsupportedWorkloadError, match="needs a VStack of Kroneckers"):
        optimize(Prefix(8), template="union")


def binary_tree(n):
    rows, size = [np.eye(n)], 2
    while size <= n:
        rows.append(np.kron(np.eye(n // size), np.ones((1, size))))
        size *= 2
    return Dense(np.concatenate(rows))


def test_reweighting_the_binary_tree():
    """2840 for equal weights on prefix sums; the optimum of the weights is 1066."""
    workload, strategy = Prefix(64), binary_tree(64)
    result = reweight(workload, strategy, max_iter=200)
    assert loss(workload, strategy) == pytest.approx(2840, rel=1e-3)
    assert result.loss <= 1067
    assert result.loss == pytest.approx(loss(workload, result.strategy))


@pytest.mark.parametrize("seed", range(5))
def test_reweighting_never_makes_worse(seed):
    rng = np.random.default_rng(seed)
    workload = Dense(rng.integers(-2, 3, (6, 9)))
    strategy = Dense(rng.standard_normal((14, 9)))
    result = reweight(workload, strategy)
    assert result.loss <= loss(workload, strategy) * (1 + 1e-12)
    steps = np.diff(result.history)
    assert (steps <= 1e-6 * np.array(result.history[:-1])).all()


def test_few_queries_over_many_cells(rng):
    workload = Dense((rng.random((6, 200)) < 0.3).astype(int))
    result = low_rank_strategy(workload)
    assert result.loss <= loss(workload, workload)


def test_low_rank_refuses_large_workloads():
    with pytest.raises(UnsupportedWorkloadError, match="at most 1024 queries"):
        low_rank_strategy(Prefix(2000))


@pytest.mark.parametrize("template", ["auto", "pidentity", "marginals", "union"])
def test_a_time_limit_only_truncates(template):
    workload = union_of_prefixes(32)
    result = optimize(workload, template=template, seed=0, budget_seconds=1e-3)
    assert not result.success
    assert "stopped after" in result.message
    assert result.loss == pytest.approx(loss(workload, result.strategy), rel=1e-6)


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan")])
def test_time_limit_must_be_positive(wrong):
    with pytest.raises(ValueError, match="budget_seconds must be > 0"):
        optimize(Prefix(8), budget_seconds=wrong)
