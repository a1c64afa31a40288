"""Random compositions of operators against their explicit matrices."""

import numpy as np
import pytest
import reference as ref
from compositions import operators
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mmech as mm
from mmech.testing import assert_query_matrix


def has_clear_rank(dense):
    """Whether no singular value is so small that rounding decides the rank."""
    values = np.linalg.svd(np.asarray(dense, dtype=float), compute_uv=False)
    nonzero = values[values > 1e-12 * max(values[0], 1e-300)]
    return nonzero.size == 0 or nonzero[-1] > 1e-4 * nonzero[0]


@settings(max_examples=settings.default.max_examples // 4)  # of many checks each
@given(operators())
def test_compositions_obey_the_protocol(pair):
    operator, dense = pair
    assert_query_matrix(operator, dense, check_pinv=has_clear_rank(dense))


@given(operators(integer=True), st.data())
def test_sensitivity_is_the_largest_change_by_one_record(pair, data):
    operator, dense = pair
    n = operator.shape[1]
    if operator.dtype != np.int64:  # an int64 gram of a dense matrix is float64
        assert not (operator.to_dense() % 1).any()
    counts = data.draw(hnp.arrays(np.int64, n, elements=st.integers(0, 10**6)))
    before = operator @ counts
    changes = []
    for cell in range(n):
        for change in (1, -1):
            neighbour = counts.copy()
            neighbour[cell] += change
            changes.append(int(np.abs(operator @ neighbour - before).sum()))
    assert operator.sensitivity() == max(changes)
    assert operator.sensitivity() == int(np.abs(dense).sum(axis=0).max())


@given(operators(depth=2), st.data())
def test_losses_equal_the_dense_formula(pair, data):
    workload, dense = pair
    n = workload.shape[1]
    strategy, measured = data.draw(operators(n=n, depth=2))
    if not (has_clear_rank(measured) and has_clear_rank(dense)):
        return
    assert mm.supports(workload, strategy) == ref.supported(dense, measured)
    if ref.supported(dense, measured):
        found, wanted = mm.loss(workload, strategy), ref.loss(dense, measured)
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-9)
