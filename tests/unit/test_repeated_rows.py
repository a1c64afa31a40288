"""Repeated queries are merged into one of a larger weight."""

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse as sp
from catalogue import CATALOGUE, of_all
from hypothesis import given
from hypothesis.extra import numpy as hnp

from mmech import (
    Dense,
    Identity,
    Kronecker,
    Prefix,
    Sparse,
    Total,
    VStack,
    loss,
    optimize,
)
from mmech.reduction.cells import merge_rows


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
