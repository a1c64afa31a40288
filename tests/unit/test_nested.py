"""p-Identity within blocks of an ordered domain, and over their totals."""

import numpy as np
import pytest
import reference as ref

from mmech import (
    AllRange,
    Dense,
    Diagonal,
    Hierarchy,
    Identity,
    Kronecker,
    MatrixMechanism,
    PIdentity,
    Prefix,
    Scaled,
    Suffix,
    Total,
    VStack,
    loss,
    optimize,
)
from mmech.error.rules import known_rows
from mmech.strategies.nested import look_at_nested
from mmech.strategies.registry import Request, Skip

UNION = VStack([Scaled(2, Prefix(24)), Suffix(24), Identity(24), Total(24)])


def two_levels(rank):
    rng = np.random.default_rng(rank)
    cells = PIdentity(rng.random((2, 4)))
    rest = Dense(rng.random((rank, 4)))  # with rank one most waves are alike
    return VStack(
        [
            Kronecker([Diagonal(rng.random(6) + 0.5), cells]),
            Kronecker([Dense(rng.random((2, 6))), rest]),
        ]
    )


@pytest.mark.parametrize("workload", [Prefix(24), Suffix(24), AllRange(24), UNION])
@pytest.mark.parametrize("rank", [1, 3])
def test_the_gain_over_blocks_is_that_of_explicit_matrices(workload, rank):
    strategy = two_levels(rank)
    explicit = workload.to_dense() @ ref.pinv(strategy.to_dense())
    expected = np.square(explicit).sum() * strategy.sensitivity() ** 2
    np.testing.assert_allclose(loss(workload, strategy), expected, rtol=1e-10)


@pytest.mark.parametrize("workload", [Prefix(24), Suffix(24)])
def test_sums_from_one_end_have_a_rule_for_each_row(workload):
    strategy = two_levels(3)
    explicit = workload.to_dense() @ ref.pinv(strategy.to_dense())
    rows = known_rows(workload, strategy)
    np.testing.assert_allclose(rows, np.square(explicit).sum(axis=1), rtol=1e-10)


@pytest.fixture(scope="module")
def found():
    return optimize(Prefix(4096), template="nested", seed=0)


def test_it_beats_trees_by_a_fifth(found):
    tree = optimize(Prefix(4096), template="hierarchy")
    assert found.loss < 0.81 * tree.loss
    assert found.loss == loss(Prefix(4096), found.strategy)
    np.testing.assert_allclose(found.strategy.column_abs_sums(), 1.0, rtol=1e-12)
    assert found.message == "128 blocks of 32 cells"


def test_rounding_costs_a_twentieth_at_most(found):
    mechanism = MatrixMechanism(Prefix(4096), found, epsilon=10**4)
    assert mechanism.expected_error() < 1.05 * 2 * found.loss / 10**8


def test_auto_takes_it_where_blocks_fit():
    request = Request("L1")
    assert look_at_nested(Prefix(8192), request) is None
    for workload, reason in (
        (Prefix(2048), "this size"),
        (VStack([Identity(4096), Total(4096)]), "not ranges"),
        (Hierarchy(4096, {1: 1, 2: 1}), "not ranges"),
        (Prefix(4099), "no divisor"),
    ):
        skipped = look_at_nested(workload, request)
        assert isinstance(skipped, Skip)
        assert reason in skipped.reason
