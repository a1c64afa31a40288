"""Expected errors and bounds against explicit matrices."""

import math
from itertools import islice

import numpy as np
import pytest
import reference as ref
from catalogue import CATALOGUE, THETA, of_all

from mmech import (
    AllRange,
    Conjunctions,
    Dense,
    Diagonal,
    Identity,
    Kronecker,
    Partition,
    PIdentity,
    Prefix,
    Ranges,
    Total,
    UnsupportedWorkloadError,
    VStack,
    WidthRange,
    all_marginals,
    expected_error,
    limits,
    loss,
    per_query_error,
    rmse,
    supports,
    svd_bound,
)
from mmech.structure import shape
from mmech.structure.shape import frobenius_squared, measured_loss_bound
from mmech_rf import grow_random_forest, training_workload

SMALL = [name for name, (operator, _) in CATALOGUE.items() if operator.shape[1] <= 6]


def strategies(n):
    """Return strategies of every rule and of none, over n cells."""
    theta = np.abs(np.sin(np.arange(1.0, 2 * n + 1))).reshape(2, n)
    signed = np.cos(np.arange(n * n, dtype=float)).reshape(n, n) + 2 * np.eye(n)
    yield Identity(n)
    yield -2 * Identity(n)
    yield Total(n)
    yield Prefix(n)
    yield AllRange(n)
    yield Diagonal(np.arange(1, n + 1))
    yield Diagonal(np.arange(n) - 1)  # one zero, one negative
    yield PIdentity(theta)
    yield PIdentity(np.zeros((0, n)))
    yield 0.5 * PIdentity(theta)
    yield Dense(signed)
    yield VStack([Total(n), 3 * Identity(n)])
    yield VStack([Prefix(n), -0.5 * PIdentity(theta)])
    yield Partition([*range(n - 1), 0])
    yield Kronecker([Identity(1), Prefix(n)])
    for d in range(2, n):
        if n % d == 0:
            yield Kronecker([Prefix(d), PIdentity(theta[:, : n // d])])
            yield Kronecker([PIdentity(theta[:, :d]), Total(n // d)])
            yield -2 * Kronecker([Identity(d), VStack([Total(n // d), Prefix(n // d)])])


@of_all(SMALL)
def test_every_workload_with_every_strategy(name):
    workload, dense = CATALOGUE[name]
    scale = float(np.square(dense, dtype=float).sum()) or 1.0
    # Every fifth strategy; the next workloads meet the others.
    for strategy in islice(
        strategies(workload.shape[1]), SMALL.index(name) % 5, None, 5
    ):
        measured = strategy.to_dense()
        if not ref.supported(dense, measured):
            assert not supports(workload, strategy)
            for function in (loss, lambda w, a: per_query_error(w, a, epsilon=1)):
                with pytest.raises(UnsupportedWorkloadError, match="cannot answer"):
                    function(workload, strategy)
            continue
        assert supports(workload, strategy), strategy
        wanted = ref.per_query_loss(dense, measured)
        tolerance = {"rtol": 1e-7, "atol": 1e-9 * scale, "err_msg": repr(strategy)}
        np.testing.assert_allclose(loss(workload, strategy), wanted.sum(), **tolerance)
        per_query = per_query_error(workload, strategy, epsilon=0.5)
        assert per_query.shape == (workload.shape[0],)
        np.testing.assert_allclose(per_query, 8 * wanted, **tolerance)
        total = expected_error(workload, strategy, epsilon=0.5)
        np.testing.assert_allclose(total, 8 * wanted.sum(), **tolerance)
        average = rmse(workload, strategy, epsilon=0.5)
        assert average == pytest.approx(math.sqrt(total / workload.shape[0]))


@of_all(CATALOGUE)
def test_workload_as_its_own_strategy(name):
    workload, dense = CATALOGUE[name]
    if np.linalg.cond(dense) > 1e6 and np.linalg.matrix_rank(dense) == min(dense.shape):
        return  # rounding decides the rank
    rank = np.linalg.matrix_rank(dense)
    wanted = ref.sensitivity(dense) ** 2 * rank
    assert loss(workload, workload) == pytest.approx(wanted)
    assert supports(workload, workload)
    gains = per_query_error(workload, workload, epsilon=1)
    assert gains.sum() == pytest.approx(2 * wanted)


@of_all(CATALOGUE)
def test_svd_bound(name):
    workload, dense = CATALOGUE[name]
    wanted = ref.svd_bound(dense, 0.5)
    assert svd_bound(workload, epsilon=0.5) == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    rank = np.linalg.matrix_rank(dense, 1e-8)
    measured = ref.sensitivity(dense) ** 2 * rank
    assert measured_loss_bound(workload) <= measured * (1 + 1e-12)


def test_the_loss_of_leaves_is_bounded_by_their_rank_on_some_cells():
    """A tree has 4 leaves here, all trees the rank 1 + 3 + 3 + 2 + 2."""
    leaves = training_workload(grow_random_forest((4, 4, 3, 3), 16, 1, seed=1))
    assert measured_loss_bound(leaves) == loss(leaves, leaves) == 16**2 * 11


def test_frobenius():
    for name, (workload, dense) in CATALOGUE.items():
        wanted = float(np.square(dense, dtype=float).sum())
        assert frobenius_squared(workload) == pytest.approx(wanted), name


@pytest.mark.parametrize("m", [1, 5, 12, 40])
def test_the_rank_of_ranges_is_that_of_a_graph(m, rng):
    ends = np.sort(rng.integers(0, 20, (m, 2)), axis=1)
    for workload in (
        Ranges((20,), ends[:, :1], ends[:, 1:]),
        WidthRange(20, 1 + m // 4),
    ):
        with limits.changed(dense_cells=0):
            assert shape.rank(workload) == np.linalg.matrix_rank(workload.to_dense())


def test_the_rank_of_many_marginals():
    """(d choose s) subsets of s attributes, each worth one more row: no matrix."""
    pairs = all_marginals((2,) * 40, 2)
    gain = loss(pairs, pairs) / pairs.sensitivity() ** 2
    assert gain == 1 + 40 + math.comb(40, 2)


def test_products_cost_no_more_than_their_factors():
    workload = Kronecker([Prefix(64)] * 8)
    strategy = Kronecker([PIdentity(np.ones((4, 64)))] * 8)
    single = loss(Prefix(64), PIdentity(np.ones((4, 64))))
    assert loss(workload, strategy) == pytest.approx(single**8)
    assert loss(workload, Kronecker([Identity(64)] * 8)) == pytest.approx(2080.0**8)
    bound = svd_bound(Prefix(64), epsilon=1) / 2
    assert svd_bound(workload, epsilon=1) == pytest.approx(2 * bound**8)


def test_block_wise_row_errors():
    wanted = ref.per_query_loss(ref.all_range(4), ref.pidentity(THETA))
    with limits.changed(block_entries=10):
        actual = per_query_error(AllRange(4), PIdentity(THETA), epsilon=1)
    np.testing.assert_allclose(actual, 2 * wanted)


def test_large_domains_without_an_eigendecomposition():
    strategy = VStack([Total(4), 3 * Identity(4)])
    wanted = ref.loss(ref.prefix(4), strategy.to_dense())
    with limits.changed(dense_cells=2):
        assert loss(Prefix(4), strategy) == pytest.approx(wanted)
        assert 0 < svd_bound(Prefix(4), epsilon=1) <= 2 * wanted


@pytest.mark.parametrize("weight", [1e2, 1e3, 1e5, 1e7, 1e9])
def test_no_digits_are_lost_with_heavy_extra_queries(weight):
    # (1 + c)² n / (1 + c² n), which tends to one although the two terms of the
    # Woodbury formula grow as c² n.
    n = 64
    strategy = PIdentity(np.full((1, n), weight))
    wanted = (1 + weight) ** 2 * n / (1 + weight**2 * n)
    total = per_query_error(Total(n), strategy, epsilon=1)[0] / 2
    assert total == pytest.approx(wanted, rel=1e-6)
    assert loss(Total(n), strategy) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("size", [1e4, 1e8])
def test_a_small_unsupported_query_is_not_hidden_by_large_ones(size):
    workload = Dense([[size, 0.0], [0.0, 1.0]])
    strategy = Dense([[1.0, 0.0]])
    assert not supports(workload, strategy)
    with pytest.raises(UnsupportedWorkloadError):
        loss(workload, strategy)
    with pytest.raises(UnsupportedWorkloadError):
        per_query_error(workload, strategy, epsilon=1)


@pytest.mark.parametrize("workload", [AllRange(24), WidthRange(24, 5), Prefix(24)])
def test_ranges_from_prefix_sums(workload, rng):
    measured = [
        PIdentity(rng.random((3, 24))),
        Dense(rng.standard_normal((30, 24))),
        # Long prefixes are measured badly and short ranges well: digits cancel.
        VStack([1e-3 * Identity(24), Dense(np.eye(24)[1:] - np.eye(24)[:-1])]),
        VStack([Prefix(24), 1e-3 * Identity(24)]),
        Diagonal(10.0 ** np.linspace(-4, 0, 24)),
    ]
    for strategy in measured:
        wanted = ref.per_query_loss(workload.to_dense(), strategy.to_dense())
        found = per_query_error(workload, strategy, epsilon=math.sqrt(2))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=repr(strategy))


def test_ranges_of_one_width_without_their_prefixes():
    strategy = Dense(np.eye(6)[:3] + np.eye(6, k=1)[:3])
    workload = WidthRange(6, 2)
    with pytest.raises(UnsupportedWorkloadError):
        per_query_error(workload, strategy, epsilon=1)
    errors = per_query_error(workload, workload, epsilon=math.sqrt(2))
    np.testing.assert_allclose(errors, np.full(5, 4.0))


@pytest.mark.parametrize("d", [40, 60, 120])
def test_identity_on_more_cells_than_an_integer_counts(d):
    """Sums of squares beyond 2^63 must not wrap."""
    boxes = Conjunctions([[[True, False]] * 48] + [[[True, True]] * 48] * (d - 1))
    assert loss(boxes, Identity(2**d)) == pytest.approx(48 * 2.0 ** (d - 1))


def test_errors_at_an_epsilon_whose_square_is_no_double_are_infinite():
    assert rmse(Prefix(4), Identity(4), epsilon=1e-200) == math.inf
