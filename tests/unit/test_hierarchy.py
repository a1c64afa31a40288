"""Trees over an ordered domain: the operator, its loss and the search for levels."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import reference as ref
import scipy.optimize
from catalogue import of_all

import mmech as mm
from mmech.families.hierarchy import (
    _best_weights,
    _descend,
    hierarchy_strategy,
)
from mmech.integer_strategy import integer_strategy
from mmech.structure.blocks import block_energies
from mmech.testing import assert_query_matrix

WORKLOADS = [
    mm.AllRange(12),
    mm.Prefix(12),
    mm.Suffix(12),
    mm.Total(12),
    -3 * mm.Prefix(12),
    mm.VStack([mm.Prefix(12), 2 * mm.Identity(12), mm.Total(12)]),
    mm.Dense(np.random.default_rng(0).standard_normal((5, 12))),
]


def tree(n, weights):
    """Rows of a hierarchy by loops."""
    rows = []
    for m, weight in sorted(weights.items()):
        for first in range(0, n, m):
            rows.append([weight * (first <= j < first + m) for j in range(n)])
    return np.array(rows)


DIVIDING = [{1: 1}, {2: 3, 1: -1}, {6: 0.5, 1: 2, 12: 1.5}]
CUT = [
    {1: 1, 5: 2},
    {1: 2, 8: -1, 32: 3},
    {1: 0.5, 3: 0.2, 9: 0.3},
    {1: 0.3, 2: 0.0, 4: 1.5, 16: 0.7},
]


@of_all(n=[1, 2, 11, 12, 13], weights=[*DIVIDING, *CUT])
def test_rows_are_sums_over_blocks(n, weights):
    assert_query_matrix(mm.Hierarchy(n, weights), tree(n, weights))


def test_a_block_beyond_the_end_takes_no_memory():
    strategy = mm.Hierarchy(3, {1: 1, 2**50: 1})
    assert_query_matrix(strategy, tree(3, {1: 1, 3: 1}))


SIZES = [1, 2, 7, 23, 24, 25, 31]
KINDS = [mm.AllRange, mm.Prefix, mm.Suffix, mm.Identity, mm.Total]
WINDOWS = [mm.WidthRange(n, w) for n in (12, 23) for w in (1, 4, n // 2, n - 1, n)]


@of_all(
    workload=[*WORKLOADS, *WINDOWS, *(kind(n) for kind in KINDS for n in SIZES)],
    weights=[
        {1: 0.5, 3: 0.2, 6: 0.3},
        {1: 1, 2: -2, 12: 1},
        {1: 1e-3, 5: 1, 10: 1, 20: 1},
        {1: 1, 2: 1, 4: 2, 8: 1, 16: 3},
        *CUT,
    ],
)
def test_loss_is_the_dense_one(workload, weights):
    n = workload.shape[1]
    wanted = ref.loss(workload.to_dense().astype(float), tree(n, weights))
    found = mm.loss(workload, mm.Hierarchy(n, weights))
    assert found == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("workload", [*WORKLOADS, *WINDOWS[:5]], ids=str)
def test_energies_of_blocks_and_segments(workload):
    """The formulas of ranges beside the gram of the workload."""
    energies = block_energies(workload)
    gram = workload.gram().to_dense()
    for first, size, count in [(0, 1, 12), (0, 3, 4), (2, 4, 2), (5, 7, 1), (0, 5, 0)]:
        starts = range(first, first + size * count, size)
        wanted = sum(gram[s : s + size, s : s + size].sum() for s in starts)
        assert energies.of_blocks(first, size, count) == pytest.approx(wanted)
    edges = [3, 4, 9, 12]
    wanted = [
        [gram[a:b, c:d].sum() for c, d in pairwise(edges)] for a, b in pairwise(edges)
    ]
    np.testing.assert_allclose(energies.of_segments(edges), wanted)


@pytest.mark.parametrize("n", [12, 11])
def test_what_a_tree_without_cells_can_answer(n):
    strategy = mm.Hierarchy(n, {3: 1, 6: 2})
    thirds = mm.Partition(np.arange(n) // 3, 4)
    wanted = ref.loss(thirds.to_dense(), tree(n, {3: 1, 6: 2}))
    assert mm.loss(thirds, strategy) == pytest.approx(wanted)
    with pytest.raises(mm.UnsupportedWorkloadError):
        mm.loss(mm.Prefix(n), strategy)


def every_tree(n, size=1):
    """All chains of block sizes up to the first that covers the domain."""
    yield (size,)
    if size < n:
        for times in range(2, -(-n // size) + 1):
            for chain in every_tree(n, size * times):
                yield (size, *chain)


@pytest.mark.parametrize("n", [16, 29])
@pytest.mark.parametrize("kind", [mm.AllRange, mm.Prefix])
def test_levels_are_the_best_of_all_sets(kind, n):
    workload = kind(n)
    best = _best_weights(n, block_energies(workload), [*every_tree(n)])
    trees = [mm.Hierarchy(n, weights) for weights in best]
    least = min(mm.loss(workload, strategy) for strategy in trees)
    result = hierarchy_strategy(workload)
    assert result.loss == pytest.approx(least, rel=1e-5)
    assert result.loss == pytest.approx(mm.loss(workload, result.strategy))


def test_weights_are_optimal_for_their_levels():
    """Against a general-purpose optimizer from many starts, on the dense formula."""
    workload = mm.Prefix(16)
    energies = block_energies(workload)
    totals = [energies.of_blocks(0, m, 16 // m) / m for m in (1, 4, 8)]
    (found,), _ = _descend(np.array([[1.0, 4, 8]]), np.array([totals]), 300)

    def objective(logs):
        weights = dict(zip((1, 4, 8), np.exp(logs).tolist(), strict=True))
        return ref.loss(workload.to_dense().astype(float), tree(16, weights))

    run = scipy.optimize.minimize(objective, np.zeros(3), method="Nelder-Mead")
    assert found == pytest.approx(run.fun, rel=1e-4)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("n", [1000, 1009, 4096, 12345])
@pytest.mark.parametrize("kind", [mm.AllRange, mm.Prefix, mm.Suffix])
def test_no_padded_regular_tree_is_better(kind, n):
    """Trees of one branching on the next power, the cells beyond the end empty."""
    energies = block_energies(kind(n))

    @cache
    def padded(size):
        blocks, rest = divmod(n, size)
        last = energies.of_blocks(n - rest, rest, 1) if rest else 0
        return (energies.of_blocks(0, size, blocks) + last) / size

    losses = []
    for branching in range(2, 65):
        sizes = [1]
        while sizes[-1] < n:
            sizes.append(sizes[-1] * branching)
        table = np.array([sizes], float), np.array([[padded(m) for m in sizes]])
        losses.append(_descend(*table, 300)[0][0])
    assert hierarchy_strategy(kind(n)).loss < min(losses)


@pytest.mark.slow
def test_errors_of_single_queries_of_a_large_ordered_domain():
    workload = mm.Prefix(2**14)
    mechanism = mm.MatrixMechanism(workload, mm.optimize(workload, seed=0), epsilon=1)
    errors = mechanism.per_query_error()
    assert errors.shape == (2**14,)
    assert errors.sum() == pytest.approx(mechanism.expected_error())


def test_released_as_counts_with_whole_weights():
    exact = integer_strategy(mm.Hierarchy(8, {1: 0.5, 2: 0.0, 4: 0.25}))
    assert [block.weight for block in exact.blocks] == [2, 1]
    assert exact.sensitivity == 3
    rows = np.concatenate([block.matrix.to_dense() for block in exact.blocks])
    assert np.array_equal(rows, tree(8, {1: 1, 4: 1}))
    assert np.array_equal(exact.form.to_dense(), rows)
    factors = np.repeat([0.5, 2.0], [8, 2])
    np.testing.assert_array_equal(
        exact.scaled(factors).to_dense(), factors[:, None] * rows
    )


def test_sparse_forms_cost_their_nonzeros():
    large = mm.Hierarchy(2**18, {1: 2, 64: 1, 2**18: 3}).to_sparse()
    assert large.nnz == 3 * 2**18
    assert large[[0, 2**18, -1]].sum(axis=1).tolist() == [2, 64, 3 * 2**18]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("n", [4097, 8193])
def test_auto_is_no_worse_than_a_tree_on_either_side_of_a_size(n):
    tree = hierarchy_strategy(mm.Prefix(n)).loss
    assert (
        mm.optimize(mm.Prefix(n), seed=0, max_iter=20).loss <= tree
    )  # and more with time
