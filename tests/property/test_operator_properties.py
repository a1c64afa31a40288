"""Random compositions of operators against their explicit matrices."""

import numpy as np
import pytest
import reference as ref
from compositions import operators
from hypothesis import given, settings
from hypothesis import strategies as st

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
