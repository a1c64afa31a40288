"""Lossless domain reduction against brute force, and strategies on merged cells."""

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from catalogue import CATALOGUE, of_all
from compositions import operators
from hypothesis import given
from hypothesis.extra import numpy as hnp

from mmech import (
    AllRange,
    Conjunctions,
    Dense,
    Identity,
    Kronecker,
    Marginals,
    MatrixMechanism,
    Merged,
    Ones,
    PartitionStack,
    PIdentity,
    Prefix,
    Product,
    Ranges,
    Scaled,
    Sparse,
    Total,
    UnsupportedWorkloadError,
    VStack,
    WidthRange,
    all_marginals,
    limits,
    loss,
    optimize,
    per_query_error,
    reduce_domain,
    supports,
)
from mmech.operators.known import normal_form


def brute_force(dense):
    """Groups of equal nonzero columns by first occurrence."""
    seen, groups = {}, []
    for column in np.asarray(dense, dtype=float).T + 0.0:
        key = tuple(column)
        groups.append(seen.setdefault(key, len(seen)) if column.any() else -1)
    return np.array(groups)


def spread(reduced, groups):
    """W' C as an explicit matrix."""
    padded = np.pad(reduced.to_dense(), ((0, 0), (0, 1)))
    return padded[:, groups]


def assert_lossless(workload, dense, complete=True):
    """Check W = W' C and, where asked, that nothing more could be merged."""
    reduced, groups = reduce_domain(workload)
    assert groups.dtype == np.int64
    assert groups.shape == (workload.shape[1],)
    np.testing.assert_array_equal(spread(reduced, groups), dense)
    wanted = brute_force(dense)
    if reduced is workload:
        assert np.array_equal(groups, np.arange(workload.shape[1]))
        distinct = wanted.max(initial=-1) + 1
        assert not complete or distinct in (0, workload.shape[1])
        return reduced, groups
    assert reduced.dtype == workload.dtype
    assert reduced.shape == (workload.shape[0], groups.max() + 1)
    first = [int(np.flatnonzero(groups == g)[0]) for g in range(groups.max() + 1)]
    assert first == sorted(first), "groups must be numbered by first occurrence"
    np.testing.assert_array_equal(reduced.to_dense(), dense[:, first])
    if complete:
        assert np.array_equal(groups, wanted)
    return reduced, groups


# ------------------------------------------------------------------ brute force


@st.composite
def workloads(draw):
    """A composition, or a matrix of its columns that repeat, beside the entries."""
    operator, dense = draw(operators(integer=True))
    n = dense.shape[1]
    columns = [*range(n), *draw(st.lists(st.integers(-1, n - 1), max_size=4))]
    array = np.pad(dense, ((0, 0), (0, 1)))[:, columns]
    kinds = {
        "itself": (operator, dense),
        "merged": (Merged(operator, columns), array),
        "sparse": (Sparse(sp.coo_array(array)), array),
        "transposed": (Dense(array.T).T, array),
        "fractions": (Dense(0.1 * array), 0.1 * array),
    }
    return kinds[draw(st.sampled_from(sorted(kinds)))]


@given(workloads())
def test_reduction_equals_brute_force(pair):
    assert_lossless(*pair, complete=normal_form(pair[0]).products is None)


@of_all(CATALOGUE)
def test_every_operator(name):
    operator, _ = CATALOGUE[name]
    # Approximate entries (pseudoinverses) are their own explicit matrix here.
    dense = operator.to_dense()
    if normal_form(operator).products is None:
        reduced, groups = reduce_domain(operator)
        if operator.dtype == np.int64:
            assert_lossless(operator, dense)
        else:
            assert np.abs(spread(reduced, groups) - dense).max() <= 1e-12
    else:
        assert_lossless(operator, dense, complete=False)
        if operator.dtype == np.int64:
            columns = np.random.default_rng(0).integers(0, dense.shape[1], 12)
            ones = (np.ones(12, np.int64), (columns, np.arange(12)))
            selection = sp.csr_array(ones, shape=(dense.shape[1], 12))
            chosen = Product(operator, Sparse(selection))
            assert_lossless(chosen, dense[:, columns])


# ------------------------------------------------------------------ products


@st.composite
def unions_of_products(draw):
    sizes = [draw(st.integers(1, 4)) for _ in range(draw(st.integers(1, 3)))]
    picks = [draw(st.lists(st.integers(0, n), min_size=1, max_size=4)) for n in sizes]
    blocks, dense = [], []
    for _ in range(draw(st.integers(1, 3))):
        factors = [
            np.pad(
                draw(hnp.arrays(np.int64, (2, n), elements=st.integers(-2, 2))),
                ((0, 0), (0, 1)),
            )[:, chosen]
            for n, chosen in zip(sizes, picks, strict=True)
        ]
        weight = draw(st.sampled_from([1, 1, -3, 0, 0.5]))
        blocks.append(Scaled(weight, Kronecker([Dense(factor) for factor in factors])))
        dense.append(weight * ref.kronecker(*factors))
    return VStack(blocks), np.concatenate(dense)


@given(unions_of_products())
def test_products_are_reduced_losslessly(pair):
    workload, dense = pair
    reduced, groups = assert_lossless(workload, dense, complete=False)
    if reduced is not workload:
        assert normal_form(reduced).products is not None
        assert (np.abs(dense[:, groups < 0]) == 0).all()


def test_a_weight_that_floats_do_not_hold():
    weight = 2**53 + 1
    workload = VStack([Scaled(weight, Kronecker([Total(2), Identity(2)]))])
    reduced, groups = reduce_domain(workload)
    assert groups.tolist() == [0, 1, 0, 1]
    assert np.array_equal(reduced.to_dense(), [[weight, 0], [0, weight]])


@pytest.mark.parametrize(
    ("workload", "size"),
    [
        (all_marginals((2, 3, 4), 1), 24),
        (Marginals((2, 3, 4), {(0,): 1, (2,): -2}), 8),
        (Marginals((2, 3, 4), {(): 0.5}), 1),
        (Kronecker([AllRange(4), Total(5)]), 4),
        (Kronecker([Identity(3), WidthRange(6, 3)]), 18),
        (VStack([Kronecker([Prefix(3), Total(4)]), Ones(2, 12)]), 3),
        (Merged(Dense(np.repeat(np.eye(3, dtype=int), 4, 1)), np.arange(12)[::-1]),
         3),
        (Kronecker([Dense([[1, 1, 2]]), Total(4), Prefix(2)]), 4),
        (VStack([Kronecker([Dense([[0, 1, 0, 2]]), Prefix(2)]),
                 2 * Kronecker([Dense([[0, 0, 0, 3]]), Total(2)]),
                 0 * Kronecker([Dense([[5, 0, 0, 3]]), Total(2)])]), 4),
        (VStack([Kronecker([Total(3), Prefix(2)]),
                 -7 * Kronecker([Total(3), Identity(2)])]), 2),
    ],
    ids=str,
)  # fmt: skip
def test_sizes_by_hand(workload, size):
    reduced, _ = assert_lossless(workload, workload.to_dense())
    assert reduced.shape[1] == size
    assert isinstance(reduced, Kronecker) == isinstance(workload, Kronecker)


# ------------------------------------------------------------------ edge cases


@pytest.mark.parametrize(
    "workload",
    [
        Dense(np.zeros((2, 3), int)),
        Dense(np.zeros((2, 3))),
        Dense(np.zeros((0, 3))),
        Dense(np.zeros((0, 3), int)),
        Scaled(0, Kronecker([Prefix(2), Prefix(2)])),
        Kronecker([Prefix(2), Dense([[0, 0]])]),
    ],
    ids=str,
)
def test_a_zero_workload_is_left_as_it_is(workload):
    reduced, groups = reduce_domain(workload)
    assert reduced is workload
    assert np.array_equal(groups, np.arange(workload.shape[1]))


@pytest.mark.parametrize(
    "columns",
    [
        [[2**62, 0], [0, 2**62]],
        [[2**62, -(2**62)], [-(2**62), 2**62]],
        [[2**61, 2**61], [0, 0]],
    ],
)
def test_differences_that_wrap_around_are_not_merged(columns):
    # Modulo 2^64 a hash of these columns may well be the same.
    array = np.array(columns).T
    assert_lossless(Dense(array), array)
    repeated = np.tile(array, (1, 3))
    assert_lossless(Sparse(sp.csr_array(repeated)), repeated)


@pytest.mark.parametrize(
    ("workload", "listed"),
    [
        (AllRange(20_000), True),
        (Prefix(10**6), True),
        (PIdentity(np.ones((1, 5))), True),
        (Kronecker([Total(100)] * 20), False),
        (all_marginals((100,) * 5, 1), False),
        (Conjunctions([np.ones((2, 10), bool)] * 40), False),
    ],
    ids=str,
)
def test_what_is_distinct_or_too_large_to_list_is_not_touched(workload, listed):
    reduced, groups = reduce_domain(workload)
    assert reduced is workload
    assert groups.size == (workload.shape[1] if listed else 0)


def test_large_workloads_of_fractions_are_left_as_they_are():
    with limits.changed(compared_entries=3):
        reduced, groups = reduce_domain(Dense([[0.5, 0.5], [1.0, 1.0]]))
        assert reduced.shape == (2, 2)
        assert groups.tolist() == [0, 1]
        # Integers need no explicit entries.
        reduced, groups = reduce_domain(Product(Prefix(2), Total(2).T, Total(5)))
    assert reduced.shape[1] == 1


# ------------------------------------------------------------------ nothing is lost


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "workload",
    [
        Merged(Prefix(8), np.arange(40) % 9 - 1),
        Merged(AllRange(6), [0, 1, 2, 3, 4, 5, 0, 0, 0, 2, 2]),
        PartitionStack([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0]], [2, 2]),
        Kronecker([Prefix(6), Total(4)]),
        VStack([Kronecker([Prefix(6), Total(4)]), Kronecker([Total(6), Total(4)])]),
        Dense([[0.5, 0.5, 0.0, 0.25], [1.0, 1.0, 0.0, 0.0]]),
    ],
    ids=str,
)
def test_optimize_reduces_without_being_asked(workload, seed, watch_all):
    result = optimize(workload, seed=seed)
    reduced, _ = reduce_domain(workload)
    assert isinstance(result.strategy, Merged)
    assert result.strategy.operator.shape[1] == reduced.shape[1]
    on_its_own = optimize(reduced, seed=seed)
    assert result.loss == pytest.approx(on_its_own.loss, rel=1e-6)
    assert "cells merged into" in result.message
    wanted = ref.loss(workload.to_dense(), result.strategy.to_dense())
    assert result.loss == pytest.approx(wanted, rel=1e-6)
    watch_all(without_noise)
    counts = np.arange(workload.shape[1])
    answers = MatrixMechanism(workload, result, epsilon=1).answer(counts)
    np.testing.assert_allclose(answers, workload @ counts, atol=1e-8)


# ------------------------------------------------------------------ merged strategies


def without_noise(draw, sample):
    return draw.exact


GROUPS = [2, 0, 1, 1, -1, 0, 2, 2]
STRATEGIES = [
    Merged(Identity(3), GROUPS),
    Merged(Prefix(3), GROUPS),
    Merged(-2 * Identity(3), GROUPS),
    Merged(PIdentity([[1.0, 2.0, 0.5]]), GROUPS),
    Merged(Dense([[1, -2, 0], [0, 3, -1], [1, 1, 1]]), GROUPS),
    Merged(VStack([Total(3), 0.5 * Identity(3)]), GROUPS),
    Merged(Merged(PIdentity([[1.0, 2.0]]), [0, 0, 1]), GROUPS),
    Merged(Dense([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), GROUPS),
]
WORKLOADS = [
    Merged(Prefix(3), GROUPS),
    Merged(Dense([[1, 1, 0], [2, 2, -1]]), GROUPS),
    Merged(Dense([[0.5, 0.5, 0.25]]), GROUPS),
    VStack([Merged(Total(3), GROUPS), -1 * Merged(Dense([[1, 1, 3]]), GROUPS)]),
    Total(8),
    Identity(8),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_merged_strategies(workload, strategy, watch_all, rng):
    dense, measured = workload.to_dense().astype(float), strategy.to_dense()
    assert strategy.sensitivity() == pytest.approx(ref.sensitivity(measured))
    inverse = strategy.pinv().to_dense()
    np.testing.assert_allclose(inverse, ref.pinv(measured), atol=1e-9)
    supported = ref.supported(dense, measured)
    assert supports(workload, strategy) == supported
    if not supported:
        refused = pytest.raises(UnsupportedWorkloadError, match="cannot answer the wor")
        with refused:
            loss(workload, strategy)
        with refused:
            MatrixMechanism(workload, strategy, epsilon=1)
        return
    assert loss(workload, strategy) == pytest.approx(ref.loss(dense, measured))
    errors = per_query_error(workload, strategy, epsilon=2)
    np.testing.assert_allclose(errors, ref.per_query_loss(dense, measured) / 2)
    watch_all(without_noise)
    counts = rng.integers(0, 50, (8, 2))
    answers = MatrixMechanism(workload, strategy, epsilon=1).answer(counts)
    np.testing.assert_allclose(answers, workload @ counts, atol=1e-9)


def test_ranges_stay_ranges_over_the_cells_that_are_left():
    workload = Ranges((9,), [[1], [4]], [[7], [4]])
    reduced, groups = reduce_domain(workload)
    assert type(reduced) is Ranges
    assert reduced.to_dense().tolist() == [[1, 1], [0, 1]]
    assert groups.tolist() == [-1, 0, 0, 0, 1, 0, 0, 0, -1]
    windows, _ = reduce_domain(WidthRange(9, 6))
    assert type(windows) is WidthRange
    assert windows.shape == (4, 7)
