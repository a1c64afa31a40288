"""Waves: exact convolutions, operators, errors, bounds, and strategies made of them."""

import numpy as np
import pytest
import reference as ref
from hypothesis import given
from hypothesis import strategies as st

from mmech import (
    AllRange,
    Dense,
    DomainTooLargeError,
    Identity,
    Kronecker,
    MatrixMechanism,
    Ones,
    Prefix,
    PrivacyLedger,
    Ranges,
    Suffix,
    Toeplitz,
    Total,
    UnsupportedWorkloadError,
    VStack,
    WidthRange,
    dual_bound,
    expected_error,
    limits,
    loss,
    optimize,
    per_query_error,
    svd_bound,
)
from mmech.integer_strategy import integer_strategy
from mmech.operators import tau
from mmech.operators.convolution import (
    KEPT_APART,
    MOST_CELLS,
    PRIMES,
    IntegerFilter,
)
from mmech.operators.known import has_full_column_rank
from mmech.operators.tau import Tau
from mmech.structure.exact import column_sums

WORKLOADS = {"none": AllRange, "first": Prefix, "last": Suffix}

ends = pytest.mark.parametrize("end", WORKLOADS)


def listed_ranges(m, n):
    ends = np.sort(np.random.default_rng(0).integers(0, n, (m, 2)), axis=1)
    return Ranges((n,), ends[:, :1], ends[:, 1:])


whole = st.integers(-(2**63) + 1, 2**63 - 1)


# ---- exact convolutions --------------------------------------------------------


@pytest.mark.parametrize(("prime", "generator"), PRIMES)
def test_primes_have_a_root_of_unity_of_every_length(prime, generator):
    assert all(prime % divisor for divisor in range(2, int(prime**0.5) + 1))
    assert (prime - 1) % MOST_CELLS == 0
    root = pow(generator, (prime - 1) // MOST_CELLS, prime)
    assert pow(root, MOST_CELLS // 2, prime) == prime - 1


@given(st.data(), st.integers(0, 5))
def test_convolutions_equal_those_of_python_integers(data, bits):
    n = 2**bits
    column = data.draw(st.lists(st.integers(-(2**50), 2**50), min_size=n, max_size=n))
    values = data.draw(st.lists(whole, min_size=n, max_size=n))
    exact = ref.circular_convolution(column, values)
    back = ref.circular_convolution(column[::-1], [values[-i] for i in range(n)])
    both = [own + other for own, other in zip(exact, back, strict=True)]
    for arguments, sums in (((), exact), ((np.array(column[::-1]),), both)):
        wrapped = [(value + 2**63) % 2**64 - 2**63 for value in sums]
        found = IntegerFilter(np.array(column), *arguments)(np.array(values))
        assert found.tolist() == wrapped


@pytest.mark.by_day(2)
@pytest.mark.parametrize("bits", [10, 13, 16])
@pytest.mark.parametrize(("tall", "wide"), [(2**20, 2**26), (2**40, 1), (1, 2**45)])
def test_long_convolutions_of_extreme_values_are_exact(bits, tall, wide, rng):
    n = 2**bits
    column = rng.choice([-tall, tall, tall - 1], n)
    values = rng.choice([-wide, wide, 0], n)
    column[:3], values[:3] = tall, wide
    found = IntegerFilter(column)(values)
    for place in [0, 1, n // 2, n - 1, *rng.integers(0, n, 20).tolist()]:
        turned = column[(place - np.arange(n)) % n].astype(object)
        assert found[place] == turned @ values.astype(object)


@pytest.mark.parametrize("limit", sorted(KEPT_APART.values()))
@pytest.mark.parametrize("sign", [-1, 1])
def test_sums_at_the_limit_of_primes_are_exact(limit, sign):
    column = IntegerFilter(np.full(4, 2**28))
    for below in (-1, 0, 1):
        value = sign * (int(limit) // 2**30 + below)
        exact = (2**30 * value + 2**63) % 2**64 - 2**63
        assert column(np.full(4, value)).tolist() == [exact] * 4


@ends
@pytest.mark.parametrize("n", [1, 2, 3, 10, 37, 100])
def test_long_transforms_equal_short_ones(end, n, rng, monkeypatch):
    values = rng.uniform(0.5, 2, n)
    known = Tau.of_eigenvalues(values, end).symbol
    monkeypatch.setattr(tau, "LONG", 0)
    monkeypatch.setattr(tau, "next_fast_len", lambda length, real=False: length + 1)
    made = Tau.of_eigenvalues(values, end)
    np.testing.assert_allclose(made.symbol, known, atol=1e-14)
    np.testing.assert_allclose(Tau(known, end).eigenvalues, values, rtol=1e-13)


# ---- operators -----------------------------------------------------------------


@ends
@pytest.mark.parametrize("n", [1, 2, 3, 10, 37])
def test_grams_of_ranges_are_functions_of_waves(end, n):
    workload = WORKLOADS[end](n)
    result = optimize(workload, template="spectral", privacy="zcdp")
    A, W = result.strategy, workload.to_dense()
    root = Tau.of_eigenvalues(A.eigenvalues**4, end)
    np.testing.assert_allclose(root.to_dense(), W.T @ W, atol=1e-9 * n**3)
    np.testing.assert_allclose(A.column_square_sums(), 1.0)


@ends
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_squares_of_columns_are_exact(end, n, rng):
    size = n + (2 if end == "none" else 1)
    scales = rng.integers(-(2**12), 2**12, n)
    A = Tau(rng.integers(-(2**16), 2**16, size), end, scales)
    exact = np.square(A.to_dense().astype(object)).sum(axis=0)
    assert (column_sums(A, 2) == exact).all()
    np.testing.assert_allclose(A.column_square_sums(), exact.astype(np.float64))
    large = Tau([2**40, *[1] * (size - 1)], end)
    exact = np.square(large.to_dense().astype(object)).sum(axis=0)
    assert (column_sums(large, 2) == exact).all()


def test_rank_is_told_by_eigenvalues_and_scales():
    assert has_full_column_rank(Tau([4, 1, 0, 0, 0]))
    assert not has_full_column_rank(Tau([4, 1, 0, 0, 0], scales=[1, 0, 1]))
    assert not has_full_column_rank(Tau.of_eigenvalues([1, 0, 2]))
    with pytest.raises(UnsupportedWorkloadError):
        loss(Identity(3), Tau.of_eigenvalues([1.0, 0, 2]))


# ---- errors ----------------------------------------------------------------------


@pytest.mark.by_day(4)
@ends
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33, 70])
def test_errors_equal_dense_algebra(end, n, rng):
    A = Tau.of_eigenvalues(rng.uniform(0.5, 2, n), end, rng.uniform(0.5, 2, n))
    inverse = np.linalg.inv(A.to_dense())
    ranges = [WidthRange(n, 1 + n // 2), AllRange(n), 3 * Prefix(n), Suffix(n)]
    asked = [*ranges, Identity(n), Total(n), VStack(ranges[1:])]
    check_errors(asked, A, inverse, A.l2_sensitivity() ** 2)


def check_errors(asked, strategy, inverse, size):
    for workload in asked:
        errors = size * np.square(workload.to_dense() @ inverse).sum(axis=1)
        found = per_query_error(workload, strategy, rho=0.5)
        np.testing.assert_allclose(found, errors, rtol=1e-8)
        total = expected_error(workload, strategy, rho=0.5)
        assert total == pytest.approx(errors.sum())


@pytest.mark.parametrize(("n", "left_out"), [(1, 0), (2, 3), (20, 0), (33, 7)])
def test_errors_under_columns_of_a_circle_equal_dense_algebra(n, left_out, rng):
    column = rng.uniform(-1, 1, n + left_out)
    column[0] += 3 * np.abs(column).sum()
    A = Toeplitz(column, [column[0], *column[::-1][: n - 1]])
    inverse = ref.pinv(A.to_dense())
    assert has_full_column_rank(A)
    parts = [WidthRange(n, 1 + n // 2), 3 * Prefix(n), Suffix(n), Identity(n)]
    check_errors([*parts, VStack(parts), AllRange(n)], A, inverse, column @ column)


# ---- strategies ------------------------------------------------------------------


UNIONS = [
    VStack([Prefix(200), 5 * Identity(200)]),
    VStack([Prefix(200), Suffix(200)]),
    VStack([5 * Prefix(200), AllRange(200), Total(200)]),
    VStack([WidthRange(200, 5), 2 * WidthRange(200, 20), WidthRange(200, 70)]),
    VStack([AllRange(200), WidthRange(200, 20), Identity(200)]),
    VStack([Prefix(200), 0 * Suffix(200)]),
]
NEAR = [(kind(n), 1.02) for kind in WORKLOADS.values() for n in (1, 2, 64, 500)]
NEAR += [(union, 1.08) for union in UNIONS]
NEAR += [(listed_ranges(m, n), 1.4) for m, n in ((5, 7), (60, 40), (60, 5000))]


@pytest.mark.by_day(4)
@pytest.mark.parametrize(("workload", "most"), NEAR, ids=str)
def test_spectral_strategies_are_near_the_optimum(workload, most):
    result = optimize(workload, template="spectral", privacy="zcdp")
    dense = Dense(result.strategy.to_dense())
    assert result.loss == pytest.approx(loss(workload, dense, privacy="zcdp"))
    least = dual_bound(workload, rho=0.5).bound
    assert least * (1 - 1e-4) <= result.loss <= most * least


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("workload", "ratio"),
    [
        (AllRange(1024), 1.015),
        (AllRange(65_536), 1.01),
        (Prefix(1024), 1.036),
        (Prefix(65_536), 1.019),
        (Kronecker([Prefix(32_768), Identity(4)]), 1.021),
        (WidthRange(2048, 64), 1.022),
        (WidthRange(2048, 512), 1.12),
        (Kronecker([WidthRange(2048, 7), Identity(2)]), 1.01),
    ],
    ids=str,
)
def test_what_is_measured_is_near_the_bound_at_any_size(workload, ratio):
    with limits.changed(dual_cells=32):
        result = optimize(workload, privacy="zcdp")
        bound = svd_bound(workload, rho=0.5)
    mechanism = MatrixMechanism(workload, result, rho=0.5)
    assert bound <= mechanism.expected_error() <= ratio * bound


@pytest.mark.parametrize("workload", [Prefix(140), AllRange(140), WidthRange(140, 9)])
def test_more_cells_than_are_summed_exactly_are_refused(workload, monkeypatch):
    result = optimize(workload, template="spectral", privacy="zcdp")
    ledger = PrivacyLedger(1.0, currency="rho")
    for home in ("integer_strategy", "families.circulant"):
        monkeypatch.setattr(f"mmech.{home}.MOST_CELLS", 256)
    with pytest.raises(DomainTooLargeError, match=r"use at most (128|112) cells"):
        MatrixMechanism(workload, result, rho=0.5, ledger=ledger)
    assert ledger.spent == 0
    smaller = type(workload)(85, *([9] if "Width" in repr(workload) else []))
    result = optimize(smaller, template="spectral", privacy="zcdp")
    MatrixMechanism(smaller, result, rho=0.5, ledger=ledger).measure(np.ones(85, int))
    assert ledger.spent == 0.5


ROUNDED = [kind(n) for kind in WORKLOADS.values() for n in (1, 3, 40)]
ROUNDED += [WidthRange(*own) for own in ((1, 1), (5, 5), (200, 7), (300, 120))]


@pytest.mark.parametrize("workload", ROUNDED, ids=str)
def test_rounded_strategies_measure_exact_integers(workload, rng):
    n = workload.shape[1]
    result = optimize(workload, template="spectral", privacy="zcdp")
    assert result.loss == pytest.approx(
        loss(workload, Dense(result.strategy.to_dense()), privacy="zcdp")
    )
    exact = integer_strategy(result.strategy, norm="L2")
    entries = exact.form.to_dense()
    assert entries.dtype == np.int64
    assert exact.sensitivity == max(np.square(entries.astype(object)).sum(axis=0))
    counts = rng.integers(0, 10**6, (n, 2))
    assert (exact.product(counts) == entries.astype(object) @ counts).all()
    rounded = loss(workload, exact.form, privacy="zcdp")
    assert rounded == pytest.approx(result.loss, rel=2e-3)


@pytest.mark.parametrize(("m", "n"), [(5, 7), (60, 40), (60, 5000)])
def test_listed_ranges_lose_little_by_rounding(m, n):
    workload = listed_ranges(m, n)
    result = optimize(workload, template="spectral", privacy="zcdp")
    exact = integer_strategy(result.strategy, norm="L2")
    rounded = loss(workload, exact.form, privacy="zcdp")
    assert rounded == pytest.approx(result.loss, rel=2e-3)
    with (
        limits.changed(summed_entries=1),
        pytest.raises(DomainTooLargeError, match="use fewer ranges"),
    ):
        optimize(workload, template="spectral", privacy="zcdp")


def test_windows_beside_cells_and_totals_take_waves():
    n = 60
    workload = VStack([Identity(n), 2 * Ones(3, n), WidthRange(n, 7)])
    result = optimize(workload, template="spectral", privacy="zcdp")
    strategy = result.strategy.to_dense()
    gain = np.linalg.norm(workload.to_dense() @ ref.pinv(strategy)) ** 2
    assert result.loss == pytest.approx(gain * (strategy**2).sum(axis=0).max())
    assert result.loss <= 1.05 * optimize(workload, privacy="zcdp").loss


def test_unions_of_products_take_waves_along_long_attributes():
    n = 1100
    workload = VStack(
        [Kronecker([Prefix(n), Identity(3)]), Kronecker([Identity(n), Prefix(3)])]
    )
    result = optimize(workload, template="kronecker", privacy="zcdp")
    assert "Tau" in repr(result.strategy)
    assert result.loss <= 1.1 * 42190.9  # the bound of singular values
    mechanism = MatrixMechanism(workload, result, rho=0.5)
    assert mechanism.expected_error() == pytest.approx(result.loss, rel=0.02)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "workload",
    [
        Prefix(4000),
        AllRange(4000),
        WidthRange(4000, 9),
        VStack([Prefix(3500), 2 * Identity(3500)]),
        Kronecker([Prefix(4000), Identity(2)]),
    ],
    ids=str,
)
def test_releases_by_waves_list_no_entries(workload, noise_rng):
    n = workload.shape[1]
    with limits.changed(exhaustive_entries=n):
        mechanism = MatrixMechanism(workload, rho=1)
        measured = mechanism.measure(np.arange(n))
        estimate = mechanism.reconstruct(measured)
    assert mechanism.planned.rho == 1
    assert np.abs(estimate - np.arange(n)).max() < 100
