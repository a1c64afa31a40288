"""Lossless reduction that scales: proportional columns and repeated rows."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from catalogue import CATALOGUE, of_all
from hypothesis import given
from hypothesis.extra import numpy as hnp

from mmech import (
    Dense,
    Identity,
    Kronecker,
    Merged,
    PIdentity,
    Prefix,
    Scaled,
    Sparse,
    Total,
    VStack,
    loss,
    optimize,
    per_query_error,
    reduce_domain,
    supports,
)
from mmech.reduction.columns import merge_rows
from mmech.structure.shape import kronecker_terms
from mmech_rf import datasets, grow_random_forest, prediction_workload

# ------------------------------------------------------------------ proportional


def spread(reduced, groups, weights):
    """W' C as an explicit matrix."""
    padded = np.pad(reduced.to_dense().astype(float), ((0, 0), (0, 1)))
    return padded[:, groups] * weights


def count_directions(dense):
    """Number of nonzero columns that are not multiples of one another."""
    kept = []
    for column in np.asarray(dense, dtype=float).T:
        if column.any() and not any(
            np.linalg.matrix_rank(np.stack([column, other])) == 1 for other in kept
        ):
            kept.append(column)
    return len(kept)


def assert_proportional(workload, dense, complete=True):
    reduced, groups, weights = reduce_domain(workload, proportional=True)
    np.testing.assert_allclose(spread(reduced, groups, weights), dense, atol=1e-12)
    assert np.abs(weights).max(initial=0) <= 1
    assert ((groups < 0) == (weights == 0)).all()
    if reduced is not workload:
        for group in range(reduced.shape[1]):
            assert (weights[groups == group] == 1).any(), "the largest is a column"
        if complete:
            assert reduced.shape[1] == count_directions(dense)
    lifted = Merged(reduced, groups, weights)
    assert lifted.sensitivity() == pytest.approx(ref.sensitivity(dense))
    return reduced, groups, weights


@given(
    hnp.arrays(np.int64, (3, 3), elements=st.integers(-3, 3)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-4, 4)), min_size=1, max_size=9),
    st.sampled_from([1, 0.5]),
)
def test_proportional_columns_of_any_workload(columns, chosen, factor):
    padded = np.pad(columns, ((0, 0), (0, 1)))
    dense = np.stack([ratio * padded[:, i] for i, ratio in chosen], axis=1)
    if dense.any():
        workload = Dense(dense) if factor == 1 else Dense(factor * dense)
        assert_proportional(workload, factor * dense)


def test_proportional_columns_by_hand():
    workload = Dense([[1, 2, 0, -2, 4], [1, 2, 0, -2, 5]])
    reduced, groups, weights = assert_proportional(workload, workload.to_dense())
    assert reduced.to_dense().tolist() == [[2, 4], [2, 5]]
    assert reduced.dtype == np.int64
    assert groups.tolist() == [0, 0, -1, 0, 1]
    assert weights.tolist() == [0.5, 1, 0, -1, 1]


def test_only_when_asked():
    workload = Dense([[1, 2], [1, 2]])
    assert reduce_domain(workload)[0] is workload
    assert not isinstance(optimize(workload, seed=0).strategy, Merged)


def test_integers_near_the_end_of_their_range():
    extreme = [[-(2**63 - 2), 2**62 - 1], [-(2**63 - 2), 2**62 - 1]]
    assert_proportional(Dense(extreme), np.array(extreme, dtype=float))
    close = np.array([[2**60, 2**61], [2**60, 2**61 + 1]])  # equal as floats
    reduced, *_ = reduce_domain(Dense(close), proportional=True)
    assert reduced.shape[1] == 2


def test_products_are_proportional_attribute_by_attribute():
    workload = VStack(
        [
            Kronecker([Dense([[1, 2, 0, -1]]), Prefix(2)]),
            Scaled(3, Kronecker([Dense([[2, 4, 0, -2]]), Identity(2)])),
        ]
    )
    reduced, _, weights = assert_proportional(workload, workload.to_dense())
    assert kronecker_terms(reduced) is not None
    assert reduced.shape[1] == 2
    assert weights.tolist() == [0.5, 0.5, 1, 1, 0, 0, -0.5, -0.5]


def test_prediction_workload_of_car():
    # 20 queries against 4 trees: few columns differ, fewer up to a factor.
    data = datasets.load_car()
    queries = data.schema.encode(data.data)[:20]
    forest = grow_random_forest(data.schema, 4, 4, seed=0)
    workload = prediction_workload(forest, queries)
    merged, _ = reduce_domain(workload)
    reduced, *_ = assert_proportional(workload, workload.to_dense(), complete=False)
    assert reduced.shape[1] < merged.shape[1] < workload.shape[1]


@pytest.mark.parametrize(
    "inner", [Prefix(2), PIdentity([[1.0, 2.0]]), Dense([[1, 1]]), Dense([[1, -2]])]
)
def test_weighted_merging_keeps_the_loss(inner, rng):
    groups, weights = [0, 1, 1, 0, -1], [1, -0.5, 1, 0.25, 0]
    strategy = Merged(inner, groups, weights)
    for query in (Prefix(2), Dense([[1.0, 1.0]]), Dense([[3, -6]])):
        workload = Merged(query, groups, weights)
        assert supports(workload, strategy) == supports(query, inner)
        if supports(query, inner):
            assert loss(workload, strategy) == pytest.approx(loss(query, inner))
            wanted = ref.per_query_loss(workload.to_dense(), strategy.to_dense())
            found = per_query_error(workload, strategy, epsilon=math.sqrt(2))
            np.testing.assert_allclose(found, wanted)
    assert not supports(Merged(Prefix(2), groups), strategy)
    assert not supports(Identity(5), strategy)


def test_weights_above_one_raise_the_sensitivity():
    strategy = Merged(Dense([[1, 4]]), [0, 1, 0], [-7, 1.5, 1])
    assert strategy.sensitivity() == 7
    assert strategy.l2_sensitivity() == 7
    assert strategy.dtype == np.float64
    whole = Merged(Identity(1), [0, 0], [1, -1])
    assert whole.dtype == np.float64  # never released as integers


def test_large_integers_do_not_wrap():
    strategy = Merged(Dense([[2**40], [2**40]]), [0, 0], [1, 0.5])
    assert strategy.l2_sensitivity() == pytest.approx(2**40.5)


@pytest.mark.parametrize("weights", [[1, 1], [1, 0, 1], [1, np.nan, 1], ["a"] * 3])
def test_wrong_weights(weights):
    with pytest.raises((ValueError, TypeError), match="weights must"):
        Merged(Prefix(2), [0, 1, 1], weights)


# ------------------------------------------------------------------ rows


@given(
    hnp.arrays(np.int64, (3, 4), elements=st.integers(-2, 2)),
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.sampled_from([Dense, lambda rows: Sparse(sp.csr_array(rows))]),
)
def test_merged_rows_have_the_same_gram(rows, chosen, kind):
    dense = np.pad(rows, ((0, 1), (0, 0)))[chosen]
    merged = merge_rows(kind(dense))
    np.testing.assert_allclose(
        merged.gram().to_dense(), dense.T @ dense, atol=1e-12 * 64
    )
    distinct = len({tuple(row) for row in dense.tolist() if any(row)})
    assert merged.shape[0] == distinct or distinct == 0


def test_repeated_blocks_are_merged():
    repeated = Kronecker([Prefix(3), Total(2)])
    workload = VStack(
        [repeated, 2 * Identity(6), -3 * repeated, Identity(6), Dense(np.eye(6, k=1))]
    )
    merged = merge_rows(workload)
    assert len(merged.blocks) == 3
    np.testing.assert_allclose(
        merged.gram().to_dense(), workload.gram().to_dense(), atol=1e-12
    )
    assert merge_rows(merged) is merged


@of_all(CATALOGUE)
def test_no_gram_changes(name):
    workload, dense = CATALOGUE[name]
    gram = np.asarray(dense, dtype=float).T @ dense
    found = merge_rows(workload).gram().to_dense()
    np.testing.assert_allclose(found, gram, atol=1e-9 * max(1, np.abs(gram).max()))


def test_repeated_queries_cost_nothing_to_optimize(seed):
    rows = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 1, 0]])
    often = rows[[0, 1, 2] * 100]
    result = optimize(Dense(often), seed=seed)
    assert result.loss == pytest.approx(100 * optimize(Dense(rows), seed=seed).loss)
    assert result.loss == pytest.approx(loss(Dense(often), result.strategy))
    assert result.strategy.shape[0] < 10
    stacked = optimize(VStack([Total(5)] * 4), seed=seed)
    assert stacked.loss == pytest.approx(4)  # one total, not four noisy ones
    assert stacked.strategy.dtype == np.int64
