"""Products of Kronecker factors along their axes, fast paths beside explicit ones."""

import numpy as np
import pytest
from catalogue import of_all

import mmech as mm
from mmech.operators.basic import KERNEL_ENTRIES
from mmech.operators.kronecker import apply_along

SIGNED = [[1, -2, 0], [0, 3, 1]]
COIN = mm.Dense([[1, 1], [1, -1]])

LARGE = mm.PIdentity(np.abs(np.sin(np.arange(140.0))).reshape(2, 70)).pinv()

PRODUCTS = {
    # explicit and small factors only: the axes rotate
    "square": [COIN, mm.AllRange(2), mm.Dense(SIGNED).T @ mm.Dense(SIGNED), COIN],
    "tall": [mm.Dense(SIGNED).T, mm.AllRange(3), COIN],
    "wide": [mm.Dense(SIGNED), COIN, mm.Dense(SIGNED)],
    "fractions": [mm.PIdentity(np.eye(3)[:2] + 0.25), mm.Dense([[0.5, 0.25]])],
    # wide before tall: rotation would cost more than shrinking first
    "shrink first": [mm.Dense(np.ones((1, 6), int)), mm.Dense(np.arange(12)[:, None])],
    # scans and totals, in every position
    "scans": [mm.Prefix(3), mm.Suffix(4), mm.Prefix(2)],
    "totals": [mm.Total(3), mm.Ones(2, 3), mm.Prefix(4)],
    "mixed": [mm.Prefix(3), COIN, mm.Identity(2), mm.Total(2), mm.Dense(SIGNED)],
    "identities": [
        mm.Identity(3),
        COIN,
        mm.Identity(20),
        mm.Dense(SIGNED),
        mm.Identity(2),
    ],
    # operators too large to be multiplied as matrices
    "others": [COIN, mm.WidthRange(70, 3), mm.Prefix(2)],
    # pseudoinverses of p-Identities: strip by strip, or as matrices where p is large
    "few extra": [LARGE, mm.PIdentity([[0.5, 0.25]]).pinv(), mm.Dense(np.ones((3, 4)))],
    "few extra last": [mm.Dense(np.ones((9, 4))), LARGE],
    "few extra between": [COIN, LARGE, COIN, mm.AllRange(2)],
    "many extra": [mm.PIdentity(np.eye(60)[:20] + 0.1).pinv(), mm.Prefix(3)],
    "other first": [mm.WidthRange(70, 3), COIN],
    "other last": [mm.Identity(2), COIN, mm.Partition(np.arange(70) % 5)],
}


def dense(factors):
    out = np.ones((1, 1), np.int64)
    for factor in factors:
        out = np.kron(out, factor.to_dense())
    return out


def values(rng, shape, dtype):
    if dtype is np.int64:
        return rng.integers(-1000, 1000, shape)
    return rng.standard_normal(shape).astype(dtype)


@of_all(name=PRODUCTS, dtype=[np.float64, np.float32, np.int64], k=[1, 9])
def test_products_along_axes(name, dtype, k, rng):
    operator, explicit = mm.Kronecker(PRODUCTS[name]), dense(PRODUCTS[name])
    if dtype is np.int64 and operator.dtype != np.int64:
        dtype = np.float64
    x = values(rng, (operator.shape[1], k), dtype)
    y = values(rng, (operator.shape[0], k), dtype)
    before = x.copy(), y.copy()
    for found, matrix, source in (
        (operator @ x, explicit, x),
        (operator.T @ y, explicit.T, y),
        (operator.rmatmat(y), explicit.T, y),
    ):
        assert found.dtype == dtype
        assert found.flags.c_contiguous
        if dtype is np.int64:
            assert np.array_equal(found, matrix @ source)
            continue
        wanted = matrix @ source.astype(np.float64)
        rounding = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(
            found, wanted, atol=rounding * max(1, np.abs(wanted).max())
        )
    assert np.array_equal(x, before[0])
    assert np.array_equal(y, before[1])


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["mixed", "others", "shrink first"])
@of_all(left=[1, 2], right=[1, 3, 8, 2**14], transpose=[0, 1], with_matrix=[0, 1])
def test_every_way_along_an_axis_agrees(name, left, right, transpose, with_matrix, rng):
    """Rows at a time or all at once, by the matrix or by the operator."""
    for factor in PRODUCTS[name]:
        explicit = factor.to_dense().T if transpose else factor.to_dense()
        x = rng.standard_normal((left, explicit.shape[1], right))
        matrix = explicit.astype(float) if with_matrix else None
        found = apply_along(factor, matrix, x, transpose)
        np.testing.assert_allclose(found, explicit @ x, atol=1e-10)


@pytest.mark.parametrize("transpose", [False, True])
def test_integers_beyond_exact_floats(transpose, rng):
    """2**53 + 1 is no float64: neither entries nor sums may go through one."""
    factors = [COIN, mm.Dense(SIGNED), mm.Prefix(2)]
    operator, explicit = mm.Kronecker(factors), dense(factors)
    if transpose:
        operator, explicit = operator.T, explicit.T
    for largest in (2**49, 2**53 + 1, 2**55 + 1):
        x = rng.integers(-3, 4, explicit.shape[1]) + largest
        x[0] = -largest
        assert np.array_equal(operator @ x, explicit @ x)


def test_the_smallest_integer_has_no_absolute_value():
    x = np.array([np.iinfo(np.int64).min, 0])
    operator = mm.Kronecker([mm.Dense([[1, 0], [0, 1]])])
    assert np.array_equal(operator._matmat(x[:, None])[:, 0], x)
    with pytest.raises(ValueError, match="does not fit into 64-bit integers"):
        operator @ x


@pytest.mark.parametrize("operator", [mm.Prefix, mm.Suffix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_large_scans_are_bitwise_those_of_numpy(operator, dtype, rng):
    n = KERNEL_ENTRIES // 4 + 3
    x = values(rng, (n, 5), dtype)
    forward = np.cumsum(x, axis=0)
    backward = np.cumsum(x[::-1], axis=0)[::-1]
    if operator is mm.Suffix:
        forward, backward = backward, forward
    assert np.array_equal(operator(n) @ x, forward)
    assert np.array_equal(operator(n).T @ x, backward)
    long = values(rng, 5 * KERNEL_ENTRIES, dtype)
    by_axis = mm.Kronecker([mm.Identity(5), operator(KERNEL_ENTRIES)]) @ long
    for part, row in zip(by_axis.reshape(5, -1), long.reshape(5, -1), strict=True):
        assert np.array_equal(part, operator(KERNEL_ENTRIES) @ row)
