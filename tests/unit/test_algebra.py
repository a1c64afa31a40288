"""The rules that keep structure, and the exact pseudoinverses that follow."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
from catalogue import CATALOGUE, SIGNED, TALL, THETA, of_all
from hypothesis import given, settings

from mmech import (
    AllRange,
    Anova,
    Dense,
    DomainTooLargeError,
    HStack,
    Identity,
    Kronecker,
    Marginal,
    Marginals,
    Ones,
    Permuted,
    PIdentity,
    Prefix,
    Ranges,
    Scaled,
    Suffix,
    Sum,
    Total,
    VStack,
    WidthRange,
    all_marginals,
    expected_error,
    loss,
    supports,
)
from mmech.operators.algebra import add
from mmech.testing import assert_query_matrix


def assert_penrose(operator, atol=1e-9):
    """The four equations that single out the pseudoinverse."""
    a = operator.to_dense().astype(float)
    inverse = operator.pinv().to_dense().astype(float)
    left, right = a @ inverse, inverse @ a
    scale = max(1.0, np.abs(a).max(initial=0), np.abs(inverse).max(initial=0))
    np.testing.assert_allclose(left @ a, a, atol=atol * scale)
    np.testing.assert_allclose(right @ inverse, inverse, atol=atol * scale)
    np.testing.assert_allclose(left, left.T, atol=atol * scale)
    np.testing.assert_allclose(right, right.T, atol=atol * scale)


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
    return Marginals(tuple(sizes), chosen)


def dense_marginals(operator):
    return ref.stack(
        *(
            weight * ref.marginal(operator.domain_shape, key)
            for key, weight in operator.weights.items()
        )
    )


# ------------------------------------------------------------------ Kroneckers


def test_products_of_kroneckers_stay_kronecker():
    a = Kronecker([Prefix(3), Total(2), Dense(SIGNED)])
    product = a @ Kronecker([AllRange(3).T, Identity(2), Dense(SIGNED.T)])
    assert isinstance(product, Kronecker)
    assert [factor.shape for factor in product.factors] == [(3, 6), (1, 2), (2, 2)]
    assert isinstance(product.factors[2], Dense)
    for chained in (
        a.T @ a,
        a @ a.pinv(),
        a.gram() @ a.gram(),
        (2 * a) @ a.T,
        a.gram().pinv(),
    ):
        inner = chained.operator if isinstance(chained, Scaled) else chained
        assert isinstance(inner, Kronecker)
        assert len(inner.factors) == 3
    assert ((2 * a) @ (-3 * a.T)).weight == -6


def test_gram_of_a_stack_of_kroneckers_is_a_sum_of_kroneckers():
    stack = VStack(
        [
            Kronecker([Prefix(3), Total(2)]),
            Scaled(-2, Kronecker([Total(3), Identity(2)])),
            Kronecker([AllRange(3), Prefix(2)]),
        ]
    )
    gram = stack.gram()
    assert isinstance(gram, Sum)
    assert len(gram.terms) == 3
    plain = [t.operator if isinstance(t, Scaled) else t for t in gram.terms]
    assert all(isinstance(term, Kronecker) for term in plain)
    assert gram.terms[1].weight == 4
    dense = stack.to_dense()
    np.testing.assert_allclose(gram.to_dense(), dense.T @ dense)
    assert gram.trace() == np.square(dense).sum()


def test_stack_of_one_has_the_gram_of_its_block():
    assert isinstance(VStack([Kronecker([Prefix(3), Total(2)])]).gram(), Kronecker)


KRONECKERS = [
    Kronecker([Prefix(3), Total(2)]),
    Kronecker([Dense(SIGNED), Dense(TALL)]),
    Kronecker([Dense([[1, 2], [2, 4]]), Identity(1), Prefix(2)]),
    Kronecker([PIdentity(THETA), Total(1), -2 * Total(3)]),
    Kronecker([WidthRange(4, 2), Suffix(3)]),
    Kronecker([Permuted(AllRange(3), [2, 0, 1]), Ones(2, 3)]),
    Kronecker([Dense(np.zeros((2, 2))), Prefix(3)]),
    Kronecker([all_marginals((2, 1, 3), 1), Prefix(2)]),
]


@pytest.mark.parametrize("operator", KRONECKERS, ids=str)
def test_pseudoinverse_of_a_kronecker(operator):
    assert isinstance(operator.pinv(), Kronecker)
    assert_penrose(operator)


@pytest.mark.parametrize(
    "theta",
    [THETA, THETA * 1e3, np.zeros((1, 4)), np.zeros((0, 4)), np.ones((5, 1))],
    ids=["plain", "large", "zero", "p=0", "one cell"],
)
def test_pseudoinverse_of_p_identity(theta):
    assert_penrose(PIdentity(theta), atol=1e-8)


# ------------------------------------------------------------------ marginals


@settings(max_examples=settings.default.max_examples // 2)  # of many checks each
@given(marginals())
def test_marginals_obey_the_protocol(operator):
    dense = dense_marginals(operator)
    assert isinstance(operator.gram(), Anova)
    assert_query_matrix(operator, dense)
    assert_penrose(operator)


@given(marginals(3), st.data())
def test_the_marginal_algebra_is_closed(operator, data):
    sizes = operator.domain_shape
    values = st.sampled_from([0.0, 1.0, -2.0, 0.5])
    count = 2 ** len(sizes)
    eigenvalues = data.draw(st.lists(values, min_size=count, max_size=count))
    other = Anova(sizes, eigenvalues)
    gram, dense = operator.gram(), dense_marginals(operator)
    dense_other = ref.anova(sizes, eigenvalues)
    for combined, wanted in (
        (gram @ other, dense.T @ dense @ dense_other),
        (gram + other, dense.T @ dense + dense_other),
        (other - gram, dense_other - dense.T @ dense),
        (-2.5 * other, -2.5 * dense_other),
        (gram.gram(), np.linalg.matrix_power(dense.T @ dense, 2)),
        (other.pinv(), ref.pinv(dense_other)),
        ((2 * gram) @ (3 * other), 6 * dense.T @ dense @ dense_other),
    ):
        assert isinstance(combined, Anova)
        assert combined.domain_shape == sizes
        scale = max(1.0, np.abs(wanted).max())
        np.testing.assert_allclose(combined.to_dense(), wanted, atol=1e-9 * scale)


def test_marginals_stacked_by_hand_have_a_gram_in_the_algebra():
    first = Marginals((2, 3), {(0,): 1, (1,): 2})
    second = Marginals((2, 3), {(): -1, (0, 1): 0.5})
    gram = VStack([first, -3 * second, first]).gram()
    assert isinstance(gram, Anova)
    dense = ref.stack(*map(dense_marginals, (first, second, first)))
    dense[5:12] *= -3
    np.testing.assert_allclose(gram.to_dense(), dense.T @ dense)


def test_different_domains_are_not_joined():
    first, second = Anova((2, 3), [1, 2, 3, 4]), Anova((3, 2), [1, 2, 3, 4])
    for combined in (first + second, first @ second, second @ first):
        assert not isinstance(combined, Anova)
    total = first.to_dense() + second.to_dense()
    np.testing.assert_allclose((first + second).to_dense(), total)
    product = first.to_dense() @ second.to_dense()
    np.testing.assert_allclose((first @ second).to_dense(), product)


def test_sums_join_what_has_a_rule_and_keep_the_rest():
    first, second = Anova((2, 3), [1, 2, 3, 4]), Anova((3, 2), [1, 2, 3, 4])
    terms = [Prefix(6), first, second, Identity(6), first, 2 * second]
    joined = add(*terms)
    assert isinstance(joined, Sum)
    assert [type(term) for term in joined.terms] == [Prefix, Anova, Anova, Identity]
    wanted = sum(term.to_dense() for term in terms)
    np.testing.assert_allclose(joined.to_dense(), wanted, atol=1e-12)
    assert add(first) is first


@pytest.mark.parametrize("sizes", [(1,), (1, 1), (1, 3, 1), (2, 1, 2)], ids=str)
def test_attributes_of_size_one(sizes):
    d = len(sizes)
    every = all_marginals(sizes, d, lower_orders=True)
    assert_query_matrix(every, dense_marginals(every))
    single = Marginals(sizes, {tuple(range(d)): 0.5})
    n = int(np.prod(sizes))
    assert loss(Identity(n), single) == pytest.approx(n)
    wanted = ref.loss(dense_marginals(every), ref.identity(n))
    assert loss(every, single) == pytest.approx(wanted)
    # Where all values of an attribute are one, the total knows the marginal.
    ones = [i for i, size in enumerate(sizes) if size == 1]
    assert supports(Marginal(sizes, ones), Marginals(sizes, {(): 1}))


@given(marginals(3), marginals(3))
def test_losses_of_marginals_on_marginals(workload, strategy):
    strategy = Marginals(
        workload.domain_shape,
        {
            tuple(i for i in key if i < len(workload.domain_shape)): weight or 1
            for key, weight in strategy.weights.items()
        },
    )
    dense, measured = dense_marginals(workload), dense_marginals(strategy)
    assert supports(workload, strategy) == ref.supported(dense, measured)
    if ref.supported(dense, measured):
        wanted = ref.loss(dense, measured)
        assert loss(workload, strategy) == pytest.approx(wanted, rel=1e-9)


def test_shapes_beyond_int64():
    sizes = (100,) * 20
    weights = {(0, 1): 0.5, (7, 19): -0.25, (3,): 0.125, (): 0.125}
    huge = Marginals(sizes, weights)
    assert huge.shape == (20_101, 10**40)
    assert all(type(size) is int for size in huge.shape)
    assert huge.sensitivity() == 1
    assert huge.l2_sensitivity() == pytest.approx(0.59, abs=0.01)
    assert Scaled(-2, huge).sensitivity() == 2
    assert huge.row_abs_sums().shape == (20_101,)
    gram = huge.gram()
    assert gram.shape == (10**40, 10**40)
    squares = sum(weight**2 for weight in weights.values())
    assert gram.trace() == pytest.approx(1e40 * squares)
    assert Scaled(3, gram).trace() == pytest.approx(3e40 * squares)
    assert (gram + gram).trace() == pytest.approx(2e40 * squares)
    # Every marginal asked is measured: the error does not grow with the domain.
    asked = Marginals(sizes, {(0, 1): 1, (3,): 1})
    assert 0 < expected_error(asked, huge, epsilon=1) < 1e6
    with pytest.raises(DomainTooLargeError, match="does not fit in memory"):
        gram._matmat(np.ones((1, 1)))


def test_more_attributes_than_the_lattice_holds():
    sizes = (10,) * 80
    huge = Marginals(sizes, {(0, 79): 2, (5,): -1})
    assert huge.shape == (110, 10**80)
    assert huge.sensitivity() == 3
    gram = huge.gram()
    assert isinstance(gram, Sum)
    assert gram.trace() == pytest.approx(5e80)
    with pytest.raises(DomainTooLargeError, match=r"80 attributes have 2\^80 subsets"):
        Anova(sizes, [1.0])


# ------------------------------------------------------------------ permutations


def test_permutations_move_outwards():
    permuted = Permuted(Prefix(3), [2, 0, 1])
    product = Dense(SIGNED) @ permuted
    assert isinstance(product, Permuted)
    assert isinstance(Identity(3) @ permuted, Permuted)
    assert isinstance((-2 * permuted).operator, Permuted)
    stacked = VStack([Total(3), Prefix(3)]) @ permuted
    assert isinstance(stacked, Permuted)
    assert isinstance(stacked.operator, VStack)
    dense = np.concatenate(
        [ref.ones(1, 3) @ ref.prefix(3), ref.prefix(3) @ ref.prefix(3)]
    )
    np.testing.assert_array_equal(stacked.to_dense(), ref.permuted(dense, [2, 0, 1]))


def test_blocks_multiply_block_by_block():
    left = HStack([Prefix(3), Dense(SIGNED.T)])
    right = VStack([Identity(3), Dense(SIGNED)])
    product = left @ right
    assert isinstance(product, Sum)
    assert [type(term) for term in product.terms] == [Prefix, Dense]
    np.testing.assert_array_equal(
        product.to_dense(), left.to_dense() @ right.to_dense()
    )
    unaligned = VStack([Dense(SIGNED), Identity(3)])
    wanted = left.to_dense() @ unaligned.to_dense()
    np.testing.assert_array_equal((left @ unaligned).to_dense(), wanted)
    other = VStack([Identity(3), Total(3), Total(3)])
    wanted = left.to_dense() @ other.to_dense()
    np.testing.assert_array_equal((left @ other).to_dense(), wanted)


def test_marginals_side_by_side():
    # Two tables over different domains, joined: the algebra needs no more.
    first, second = all_marginals((2, 3), 1), all_marginals((3, 2), 1)
    joined = HStack([first, second])
    assert joined.shape == (5, 12)
    assert joined.sensitivity() == 2
    np.testing.assert_array_equal(
        joined.to_dense(), ref.side_by_side(first.to_dense(), second.to_dense())
    )


# ------------------------------------------------------------------ every operator


@of_all(CATALOGUE)
def test_grams_are_products_and_sums_are_entrywise(name):
    operator, dense = CATALOGUE[name]
    largest = max(1.0, np.abs(dense).max())
    squared = largest**2 * len(dense)
    for found, wanted, scale in (
        (operator.gram(), dense.T @ dense, squared),
        (operator.T @ operator, dense.T @ dense, squared),
        (operator + operator, 2 * dense, largest),
        (operator - operator, 0 * dense, largest),
    ):
        found = found.to_dense()
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * scale)
    squares = np.square(dense).sum()
    assert operator.gram().trace() == pytest.approx(squares, rel=1e-9)


def test_listed_ranges_as_factors():
    ranges = Ranges((4,), [[0], [1]], [[2], [3]])
    product = Kronecker([ranges, Prefix(2)])
    wanted = ref.kronecker(ref.ranges((4,), [[0], [1]], [[2], [3]]), ref.prefix(2))
    assert_query_matrix(product, wanted)
