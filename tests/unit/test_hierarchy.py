"""Trees over an ordered domain: the operator, its loss and the search for levels."""

from itertools import combinations

import numpy as np
import pytest
import reference as ref
import scipy.optimize

from mmech import (
    AllRange,
    Dense,
    Hierarchy,
    Identity,
    Kronecker,
    MatrixMechanism,
    Partition,
    Prefix,
    Suffix,
    Total,
    UnsupportedWorkloadError,
    VStack,
    loss,
    optimize,
    supports,
)
from mmech.integer_strategy import integer_strategy
from mmech.operators._hierarchy import block_energies
from mmech.strategies._hierarchy import _descend, hierarchy_strategy

WORKLOADS = [
    AllRange(12),
    Prefix(12),
    Suffix(12),
    Total(12),
    -3 * Prefix(12),
    VStack([Prefix(12), 2 * Identity(12), Total(12)]),
    Dense(np.random.default_rng(0).standard_normal((5, 12))),
]


def tree(n, weights):
    """Rows of a hierarchy by loops."""
    rows = []
    for m, weight in sorted(weights.items()):
        for first in range(0, n, m):
            rows.append([weight * (first <= j < first + m) for j in range(n)])
    return np.array(rows)


@pytest.mark.parametrize("weights", [{1: 1}, {2: 3, 1: -1}, {6: 0.5, 1: 2, 12: 1.5}])
def test_rows_are_sums_over_blocks(weights):
    strategy = Hierarchy(12, weights)
    assert np.array_equal(strategy.to_dense(), tree(12, weights))
    np.testing.assert_allclose(
        strategy.pinv().to_dense(), ref.pinv(tree(12, weights)), atol=1e-12
    )


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
@pytest.mark.parametrize("weights", [{1: 0.5, 3: 0.2, 6: 0.3}, {1: 1, 2: -2, 12: 1}])
def test_loss_is_the_dense_one(workload, weights):
    strategy = Hierarchy(12, weights)
    wanted = ref.loss(workload.to_dense().astype(float), tree(12, weights))
    assert loss(workload, strategy) == pytest.approx(wanted)


def test_what_a_tree_without_cells_can_answer():
    strategy = Hierarchy(12, {3: 1, 6: 2})
    thirds = Partition(np.repeat([0, 1, 2, 3], 3), 4)
    assert supports(thirds, strategy)
    assert loss(thirds, strategy) == pytest.approx(
        ref.loss(thirds.to_dense().astype(float), tree(12, {3: 1, 6: 2}))
    )
    with pytest.raises(UnsupportedWorkloadError):
        loss(Prefix(12), strategy)


@pytest.mark.parametrize("workload", [AllRange(16), Prefix(16)], ids=str)
def test_levels_are_the_best_of_all_sets(workload):
    sizes = [1, 2, 4, 8, 16]
    totals = block_energies(workload, sizes)
    every = [
        _descend((0, *levels), np.array(sizes, float), totals)[0]
        for count in range(5)
        for levels in combinations(range(1, 5), count)
    ]
    assert hierarchy_strategy(workload).loss == pytest.approx(min(every), rel=1e-6)


def test_weights_are_optimal_for_their_levels():
    """Against a general-purpose optimizer from many starts, on the dense formula."""
    workload = Prefix(16)
    found, _ = _descend(
        (0, 2, 3), np.array([1.0, 2, 4, 8]), block_energies(workload, [1, 2, 4, 8])
    )

    def objective(logs):
        weights = dict(zip((1, 4, 8), np.exp(logs).tolist(), strict=True))
        return ref.loss(workload.to_dense().astype(float), tree(16, weights))

    run = scipy.optimize.minimize(objective, np.zeros(3), method="Nelder-Mead")
    assert found == pytest.approx(run.fun, rel=1e-4)


@pytest.mark.parametrize("workload", [AllRange(256), Prefix(256)], ids=str)
def test_no_regular_tree_is_better(workload):
    result = hierarchy_strategy(workload)
    for branching in (2, 4, 16, 256):
        sizes = [1]
        while sizes[-1] * branching <= 256:
            sizes.append(sizes[-1] * branching)
        for base in (1.0, 2.0 ** (1 / 3), 0.8):
            regular = {m: base**level for level, m in enumerate(sizes)}
            assert result.loss <= loss(workload, Hierarchy(256, regular)) * (1 + 1e-9)
    assert result.loss < loss(workload, Identity(256))


def test_large_ordered_domains_are_measured_by_a_tree():
    workload = Prefix(2**13)
    result = optimize(workload, seed=0)
    assert result.template == "hierarchy"
    assert result.loss < loss(workload, Identity(2**13)) / 20
    counts = np.random.default_rng(0).integers(0, 9, 2**13)
    mechanism = MatrixMechanism(workload, result, epsilon=1)
    error = mechanism.answer(counts) - np.cumsum(counts)
    # A sum of squares within a factor of three of its expectation.
    ratio = np.square(error).sum() / mechanism.expected_error()
    assert 1 / 3 < ratio < 3
    assert mechanism.per_query_error().shape == (2**13,)


def test_released_as_counts_with_whole_weights():
    exact = integer_strategy(Hierarchy(8, {1: 0.5, 2: 0.0, 4: 0.25}))
    assert [block.weight for block in exact.blocks] == [2, 1]
    assert exact.sensitivity == 3
    rows = np.concatenate([block.matrix.to_dense() for block in exact.blocks])
    assert np.array_equal(rows, tree(8, {1: 1, 4: 1}))
    assert np.array_equal(exact.form.to_dense(), rows)
    factors = np.repeat([0.5, 2.0], [8, 2])
    np.testing.assert_array_equal(
        exact.scaled(factors).to_dense(), factors[:, None] * rows
    )


def test_errors_read_aloud():
    with pytest.raises(ValueError, match=r"must divide each other and n = 12"):
        Hierarchy(12, {1: 1, 4: 1, 6: 1})
    with pytest.raises(ValueError, match="at least one level needs one"):
        Hierarchy(4, {1: 0})
    with pytest.raises(UnsupportedWorkloadError, match="use template='pidentity'"):
        hierarchy_strategy(Kronecker([Prefix(100), Prefix(100)]))
