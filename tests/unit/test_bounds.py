"""Lower bounds: known optima, closed forms against iteration, and validity."""

import math

import numpy as np
import pytest
import scipy.sparse
from catalogue import CATALOGUE, of_all

import mmech as mm
from mmech.error import bounds
from mmech.error.bounds import (
    cheap_loss_bound,
    dual_loss_bound,
    iterate,
    svd_loss_bound,
)
from mmech.structure.shape import known_singular_values


def test_every_iterate_is_valid_and_the_certificate_holds():
    exact = dual_loss_bound(mm.Prefix(20), tolerance=1e-9)
    assert exact.gap <= 1e-9
    last = 0.0
    for max_iter in range(1, 12):
        result = dual_loss_bound(mm.Prefix(20), max_iter=max_iter, tolerance=1e-12)
        assert last <= result.bound <= exact.bound * (1 + exact.gap)
        assert result.bound * (1 + result.gap) >= exact.bound
        assert result.n_iter == max_iter
        last = result.bound
    first = dual_loss_bound(mm.Prefix(20), max_iter=1)
    assert first.bound == pytest.approx(svd_loss_bound(mm.Prefix(20)))
    # The distribution attains the bound.
    singular = np.linalg.svd(
        np.tril(np.ones((20, 20))) * np.sqrt(exact.distribution), compute_uv=False
    )
    assert singular.sum() ** 2 == pytest.approx(exact.bound)


@pytest.mark.parametrize(
    ("workload", "most"),
    [
        (mm.Prefix(128), 7),
        (mm.AllRange(128), 3),
        (mm.WidthRange(150, 50), 70),  # 180 where updates are not extrapolated
        (mm.Dense(np.random.default_rng(4).random((24, 76)) < 0.4), 80),  # and 170
    ],
    ids=["prefix", "ranges", "windows", "few queries"],
)
def test_few_iterations_suffice(workload, most):
    result = dual_loss_bound(workload, tolerance=2e-5)
    assert result.gap <= 2e-5
    assert result.n_iter <= most
    p, strategy = result.distribution, mm.optimize(workload, privacy="zcdp", seed=0)
    assert result.bound <= strategy.loss * (1 + 1e-12)
    rows = workload.to_dense() * np.sqrt(p)
    assert np.linalg.norm(rows, "nuc") ** 2 == pytest.approx(result.bound, rel=1e-9)


def test_the_iteration_ends_where_rounding_bounds_the_gap():
    weights = mm.Diagonal(np.linspace(0.5, 2.0, 128) ** 2)
    result = dual_loss_bound(mm.AllRange(128) @ weights, tolerance=1e-9)
    assert 1e-9 < result.gap < 1e-6
    assert result.n_iter < 20  # the limit, 300, without


@of_all([*CATALOGUE][::6])
def test_svd_dual_and_forms_agree(name):
    operator, dense = CATALOGUE[name]
    explicit = mm.Dense(dense)
    m, n = dense.shape
    svd = np.linalg.svd(dense.astype(float), compute_uv=False).sum() ** 2 / n
    assert svd_loss_bound(operator) <= svd * (1 + 1e-12)
    result = dual_loss_bound(operator, tolerance=1e-5, max_iter=300)
    gram = dense.T.astype(float) @ dense
    by_cells = iterate(bounds._step_by_cells(gram, m), n, 300, 1e-5)
    by_rows = iterate(bounds._step_by_rows(explicit), n, 300, 1e-5)
    scale = max(svd, 1e-300)
    assert result.bound >= svd_loss_bound(operator) * (1 - 1e-9)
    for other in (by_cells, by_rows, dual_loss_bound(explicit, tolerance=1e-5)):
        # Slowly convergent cases: both intervals hold the same optimum.
        assert result.bound <= other.bound * (1 + other.gap) + 1e-6 * scale
        assert other.bound <= result.bound * (1 + result.gap) + 1e-6 * scale
    assert result.distribution.shape == (n,)
    assert result.distribution.sum() == pytest.approx(1)
    cheap, _ = cheap_loss_bound(operator)
    assert cheap <= result.bound * (1 + result.gap) * (1 + 1e-12) + 1e-12 * scale


def test_rounding_noise_is_not_summed(rng):
    # Ninety-nine singular values that are zero but for rounding.
    array = np.outer(rng.random(100), rng.random(100))
    exact = np.square(array).sum() / 100
    bound = svd_loss_bound(mm.Dense(array))
    assert exact * (1 - 1e-9) <= bound <= exact
    dual = dual_loss_bound(mm.Dense(array))
    largest = np.square(array).sum(axis=0).max()  # attained by one query
    assert largest * (1 - 1e-3) <= dual.bound <= largest * (1 + 1e-12)


SYMMETRIC = [
    mm.all_marginals((2, 3, 4), 2),
    mm.all_marginals((3, 3, 3), 1, lower_orders=True),
    mm.Marginals((2, 3, 2), {(0,): 2, (1, 2): -0.5, (): 1}),
    mm.Marginals((2, 1, 3), {(0, 1): 1, (2,): 3}),
    mm.Marginal((2, 3), [1]),
    -2 * mm.Marginal((2, 3), []),
    mm.VStack([mm.Identity(6), 3 * mm.Marginal((2, 3), [1]), mm.Total(6)]),
    mm.VStack(
        [mm.Kronecker([mm.Identity(2), mm.Ones(2, 3)]), mm.Marginal((2, 3), [1])]
    ),
    mm.VStack([mm.Total(4), mm.Identity(4)]),
]


@pytest.mark.parametrize("workload", SYMMETRIC, ids=str)
def test_symmetric_workloads_in_closed_form(workload):
    result = dual_loss_bound(workload)
    assert (result.gap, result.n_iter) == (0.0, 0)
    n = workload.shape[1]
    dense = workload.to_dense().astype(float)
    brute = iterate(bounds._step_by_rows(mm.Dense(dense)), n, 500, 1e-9)
    assert result.bound == pytest.approx(brute.bound, rel=1e-8)
    singular = np.linalg.svd(dense, compute_uv=False)
    assert result.bound == pytest.approx(singular.sum() ** 2 / n)
    assert svd_loss_bound(workload) == result.bound
    assert cheap_loss_bound(workload) == (result.bound, "closed form")


def test_products_of_attributes():
    workload = mm.Kronecker([mm.Prefix(4), mm.AllRange(3), mm.Total(2)])
    result = dual_loss_bound(workload, tolerance=1e-7)
    explicit = dual_loss_bound(mm.Dense(workload.to_dense()), tolerance=1e-7)
    assert result.bound == pytest.approx(explicit.bound, rel=1e-6)
    assert result.gap <= 1e-6
    np.testing.assert_allclose(result.distribution.sum(), 1)
    large = mm.dual_bound(mm.Kronecker([mm.Prefix(64)] * 8), epsilon=1)
    single = mm.dual_bound(mm.Prefix(64), epsilon=1)
    assert large.bound / 2 == pytest.approx((single.bound / 2) ** 8)
    assert large.distribution is None
    many = mm.Marginals((10,) * 18, {(0, 1): 1, (2,): 1})
    assert dual_loss_bound(many).distribution is None


def test_cheap_bounds_of_large_workloads():
    left, right = [mm.Prefix(64), mm.AllRange(64)], [mm.AllRange(64), mm.Prefix(64)]
    blocks = [mm.Kronecker(left), mm.Kronecker(right)]
    union = mm.VStack(blocks)
    bound, name = cheap_loss_bound(union)
    assert name == "sum over the blocks"
    single = dual_loss_bound(mm.Kronecker(left)).bound
    assert bound == pytest.approx(2 * single, rel=2e-3)
    huge, name = cheap_loss_bound(mm.Marginals((10,) * 30, {(0, 1): 1, (2,): 2}))
    # Σ_s m_s √(τ_s / n_s) by hand: the total, (0,) and (1,), (0, 1), (2,)
    roots = 0.41**0.5 + 2 * 9 * 0.01**0.5 + 81 * 0.01**0.5 + 9 * 0.4**0.5
    assert (huge, name) == (pytest.approx(roots**2), "closed form")
    assert mm.svd_bound(
        mm.Marginals((10,) * 18, {(0, 1): 1}), epsilon=1
    ) == pytest.approx(200)


def test_bound_ratio():
    result = mm.optimize(mm.Prefix(64), seed=0)
    assert "bound_ratio" not in vars(result)  # nothing is computed in advance
    assert result.bound_ratio == pytest.approx(result.loss / 282.2, rel=1e-3)
    assert result.workload is not None
    named = mm.optimize(mm.Prefix(8), template="identity")
    assert 1 <= named.bound_ratio < 3
    assert mm.optimize(mm.Identity(9)).bound_ratio == pytest.approx(1)
    from dataclasses import replace

    with pytest.raises(ValueError, match="does not hold its workload"):
        _ = replace(result, workload=None).bound_ratio
    zero = replace(result, workload=mm.Dense(np.zeros((1, 64))), loss=0.0)
    assert zero.bound_ratio == 1
    assert replace(zero, loss=2.0).bound_ratio == math.inf


def test_above_the_limit_the_dual_bound_is_that_of_singular_values():
    large = mm.dual_bound(mm.Prefix(3001), epsilon=1)
    assert large.bound == mm.svd_bound(mm.Prefix(3001), epsilon=1)
    assert large.gap == math.inf
    assert large.distribution.sum() == pytest.approx(1)


CLOSED = [
    mm.AllRange(1),
    mm.AllRange(40),
    mm.Prefix(33),
    mm.Suffix(17),
    -0.5 * mm.Merged(mm.AllRange(9), np.arange(9)[::-1]),
    mm.Diagonal([3, -4, 0]),
    mm.Circulant([3, -1, 0, 2, 5]),
    mm.Kronecker([mm.AllRange(5), mm.Circulant([1, 2, 0]), mm.Ones(2, 3)]),
]


@pytest.mark.parametrize("workload", CLOSED, ids=str)
def test_closed_forms_of_singular_values(workload):
    known = known_singular_values(workload)
    wanted = np.linalg.svd(workload.to_dense().astype(float), compute_uv=False)
    missing = np.zeros(wanted.size - known.size)
    actual = np.sort(np.concatenate([known, missing]))[::-1]
    np.testing.assert_allclose(actual, wanted, rtol=1e-12, atol=1e-12 * wanted[0])
    bound = svd_loss_bound(workload)
    assert bound == pytest.approx(wanted.sum() ** 2 / workload.shape[1])


def test_closed_forms_hold_at_any_size():
    # The smallest singular value of a million prefixes is 1/2, far below rounding of
    # the largest; the sum is about n (log n + ...) / π.
    for workload in (mm.Prefix(10**6), mm.AllRange(10**6)):
        bound, name = cheap_loss_bound(workload)
        assert name == "singular values"
        assert bound > 100 * workload.shape[1] ** 0.5
        tree = mm.optimize(workload, template="hierarchy")
        assert 1 < tree.loss / bound < 20
    with mm.limits.changed(spectrum_cells=10):
        assert known_singular_values(mm.Prefix(11)) is None


def sparse_array(shape, density, rng):
    """Return a random array; SciPy's own took its generator by another name before."""
    return scipy.sparse.csr_array(rng.random(shape) * (rng.random(shape) < density))


def _random_workload(rng, kind):
    m, n = (int(size) for size in rng.integers(2, 40, 2))
    if kind == "sparse":
        return mm.Sparse(sparse_array((m, n), 0.2, rng))
    if kind == "ranges":
        ends = np.sort(rng.integers(0, n, (m, 2)), axis=1)
        return mm.Ranges((n,), ends[:, :1], ends[:, 1:])
    if kind in ("low rank", "whole"):
        array = rng.normal(size=(m, 2)) @ rng.normal(size=(2, n))
        return mm.Dense(array if kind == "low rank" else np.rint(array))
    scales = np.exp(rng.normal(scale=4, size=n))
    return mm.Dense(rng.normal(size=(m, n)) * scales)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kind", ["sparse", "ranges", "low rank", "scaled", "whole"])
def test_every_bound_is_below_every_loss(seed, kind):
    rng = np.random.default_rng(seed)
    workload = _random_workload(rng, kind)
    n = workload.shape[1]
    best = min(
        mm.loss(workload, strategy)
        for strategy in (
            mm.Identity(n),
            workload,
            mm.Prefix(n),
            mm.AllRange(n),
            mm.Dense(rng.normal(size=(n + 2, n))),
            mm.VStack([workload, 0.3 * mm.Identity(n)]),
            mm.PIdentity(rng.exponential(size=(2, n))),
            mm.optimize(workload, seed=0).strategy,
        )
    )
    assert svd_loss_bound(workload) <= dual_loss_bound(workload).bound * (1 + 1e-9)
    assert dual_loss_bound(workload).bound <= best * (1 + 1e-9)
    ratios = []
    for dual, spectrum in ((1024, 2048), (0, 2048), (0, 0)):
        with mm.limits.changed(quick_dual_cells=dual, quick_spectrum_cells=spectrum):
            bound, _ = cheap_loss_bound(workload)
        assert 0 < bound <= best * (1 + 1e-9)
        ratios.append(best / bound)
    assert ratios[0] <= ratios[1] * (1 + 1e-2)
    assert ratios[1] <= ratios[2] * (1 + 1e-9)
