"""The rules that keep structure, and the exact pseudoinverses that follow."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
from hypothesis import given, settings

import mmech as mm
from mmech.testing import assert_query_matrix


@st.composite
def marginals(draw, max_attributes=4):
    """Weighted marginals of a small domain, weights of any sign, sizes from 1."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=max_attributes))
    subsets = [
        key
        for order in range(len(sizes) + 1)
        for key in itertools.combinations(range(len(sizes)), order)
    ]
    keys = draw(st.lists(st.sampled_from(subsets), min_size=1, max_size=5, unique=True))
    weights = st.sampled_from([1, 2, -1, 0.25, -1.5, 0])
    chosen = {key: draw(weights) for key in keys}
    if not any(chosen.values()):
        chosen[keys[0]] = -0.5
    return mm.Marginals(tuple(sizes), chosen)


def dense_marginals(operator):
    return ref.stack(
        *(
            weight * ref.marginal(operator.domain_shape, key)
            for key, weight in operator.weights.items()
        )
    )


# ------------------------------------------------------------------ Kroneckers


def test_gram_of_a_stack_of_kroneckers_is_a_sum_of_kroneckers():
    first, second = [mm.Prefix(3), mm.Total(2)], [mm.Total(3), mm.Identity(2)]
    stack = mm.VStack([mm.Kronecker(first), -2 * mm.Kronecker(second)])
    assert isinstance(mm.VStack(stack.blocks[:1]).gram(), mm.Kronecker)
    gram = stack.gram()
    assert isinstance(gram, mm.Sum)
    one, other = gram.terms
    assert isinstance(one, mm.Kronecker)
    assert isinstance(other.operator, mm.Kronecker)
    assert other.weight == 4


# ------------------------------------------------------------------ marginals


@settings(max_examples=settings.default.max_examples // 2)  # of many checks each
@given(marginals())
def test_marginals_obey_the_protocol(operator):
    dense = dense_marginals(operator)
    assert isinstance(operator.gram(), mm.Anova)
    assert_query_matrix(operator, dense)


@given(marginals(3), marginals(3))
def test_losses_of_marginals_on_marginals(workload, strategy):
    strategy = mm.Marginals(
        workload.domain_shape,
        {
            tuple(i for i in key if i < len(workload.domain_shape)): weight or 1
            for key, weight in strategy.weights.items()
        },
    )
    dense, measured = dense_marginals(workload), dense_marginals(strategy)
    assert mm.supports(workload, strategy) == ref.supported(dense, measured)
    if ref.supported(dense, measured):
        wanted = ref.loss(dense, measured)
        assert mm.loss(workload, strategy) == pytest.approx(wanted, rel=1e-9)


def test_shapes_beyond_int64():
    sizes = (100,) * 20
    weights = {(0, 1): 0.5, (7, 19): -0.25, (3,): 0.125, (): 0.125}
    huge = mm.Marginals(sizes, weights)
    assert huge.shape == (20_101, 10**40)
    assert all(type(size) is int for size in huge.shape)
    assert huge.sensitivity() == 1
    assert huge.l2_sensitivity() == pytest.approx(0.59, abs=0.01)
    assert mm.Scaled(-2, huge).sensitivity() == 2
    assert huge.row_abs_sums().shape == (20_101,)
    gram = huge.gram()
    assert gram.shape == (10**40, 10**40)
    squares = sum(weight**2 for weight in weights.values())
    assert gram.trace() == pytest.approx(1e40 * squares)
    assert mm.Scaled(3, gram).trace() == pytest.approx(3e40 * squares)
    assert (gram + gram).trace() == pytest.approx(2e40 * squares)
    # Every marginal asked is measured: the error does not grow with the domain.
    asked = mm.Marginals(sizes, {(0, 1): 1, (3,): 1})
    assert 0 < mm.expected_error(asked, huge, epsilon=1) < 1e6
    with pytest.raises(mm.DomainTooLargeError, match="does not fit in memory"):
        gram._matmat(np.ones((1, 1)))


def test_more_attributes_than_the_lattice_holds():
    sizes = (10,) * 80
    huge = mm.Marginals(sizes, {(0, 79): 2, (5,): -1})
    assert huge.shape == (110, 10**80)
    assert huge.sensitivity() == 3
    gram = huge.gram()
    assert isinstance(gram, mm.Sum)
    assert gram.trace() == pytest.approx(5e80)
