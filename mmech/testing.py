"""Conformance checks of query matrices, and a view of all draws, for tests."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmech.noise.seam import Draw, watch_draws
from mmech.operators.base import QueryMatrix

__all__ = ["Draw", "assert_query_matrix", "watch_draws"]


def assert_query_matrix(
    operator: QueryMatrix,
    dense: ArrayLike,
    *,
    rtol: float = 1e-9,
    seed: int = 0,
    check_pinv: bool = True,
) -> None:
    """Assert that an operator obeys the protocol and equals an explicit matrix.

    The checks cover products (of every layout and dtype, exact for integers), the
    transpose, the dot test ``<Au, v> = <u, Aᵀv>``, and the gram matrix. They cover the
    four Penrose equations of the pseudoinverse, row and column norms, and the L1 and L2
    sensitivities. They also cover the diagonal, conversions, pickling, immutability and
    the errors.

    Parameters
    ----------
    operator : QueryMatrix, shape (m, n)
        The operator under test; small, because everything is materialised.
    dense : array_like, shape (m, n)
        What it should be.
    rtol : float, default=1e-9
        Tolerance relative to the largest entry.
    seed : int, default=0
        Seed of the random vectors.
    check_pinv : bool, default=True
        Whether to check the pseudoinverse; leave out for matrices so badly
        conditioned that rounding decides their rank.

    Raises
    ------
    AssertionError
        Naming the first property that fails.

    Examples
    --------
    >>> from mmech import Prefix
    >>> from mmech.testing import assert_query_matrix
    >>> assert_query_matrix(Prefix(3), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
    """
    expected = np.asarray(dense)
    m, n = expected.shape
    rng = np.random.default_rng(seed)
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))

    def same(actual: Any, wanted: Any, what: str, scale: float = 1.0) -> None:
        np.testing.assert_allclose(
            actual,
            wanted,
            rtol=rtol,
            atol=rtol * size * scale,
            err_msg=f"{what} of {operator!r}",
        )

    assert operator.shape == (m, n), f"shape {operator.shape}, expected {(m, n)}"
    assert operator.dtype in (np.int64, np.float64), f"dtype {operator.dtype}"
    same(operator.to_dense(), expected, "to_dense")
    sparse = operator.to_sparse()
    same(sparse.toarray(), expected, "to_sparse")
    assert sparse.dtype == operator.dtype, f"to_sparse has dtype {sparse.dtype}"
    _check_products(operator, expected, rng, same)
    _check_other_inputs(operator, expected, rng, same)
    _check_immutable(operator, expected, same)
    if operator.is_nonnegative:
        assert (expected >= 0).all(), "is_nonnegative is claimed but wrong"
    same(operator.column_abs_sums(), np.abs(expected).sum(axis=0), "column_abs_sums")
    same(operator.row_abs_sums(), np.abs(expected).sum(axis=1), "row_abs_sums")
    squares = np.square(expected)
    same(operator.column_square_sums(), squares.sum(axis=0), "column_square_sums", size)
    same(operator.row_square_sums(), squares.sum(axis=1), "row_square_sums", size)
    same(operator.sensitivity(), np.abs(expected).sum(axis=0).max(), "sensitivity")
    longest = np.sqrt(squares.sum(axis=0).max())
    same(operator.l2_sensitivity(), longest, "l2_sensitivity")
    same(operator.diag(), np.diagonal(expected), "diag")
    if m == n:
        same(operator.trace(), np.trace(expected), "trace", n)
    same((-operator).to_dense(), -expected, "negation")
    same((operator * 2.5).to_dense(), 2.5 * expected, "scaling")
    same(operator.T.to_dense(), expected.T, "transpose")
    same(operator.T.T.to_dense(), expected, "transpose of the transpose")
    same(operator.T.column_abs_sums(), np.abs(expected).sum(axis=1), "transposed sums")
    gram = operator.gram()
    assert gram.shape == (n, n), f"gram has shape {gram.shape}"
    same(gram.to_dense(), expected.T @ expected, "gram", m * size)
    same(gram.diag(), squares.sum(axis=0), "diagonal of the gram", size)
    if check_pinv:
        _check_penrose(operator, expected)
    assert repr(operator).endswith(f"shape={operator.shape}"), repr(operator)
    copied = pickle.loads(pickle.dumps(operator))
    same(copied.to_dense(), expected, "pickled copy")
    assert repr(copied) == repr(operator), f"the pickled copy is {copied!r}"


def _check_products(
    operator: QueryMatrix, expected: Any, rng: np.random.Generator, same: Any
) -> None:
    m, n = expected.shape
    right, left = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    same(operator @ right, expected @ right, "A @ X", n)
    same(operator.rmatmat(left), expected.T @ left, "rmatmat", m)
    same(operator.matvec(right[:, 0]), expected @ right[:, 0], "matvec", n)
    same(operator.rmatvec(left[:, 0]), expected.T @ left[:, 0], "rmatvec", m)
    same(left.T @ operator, left.T @ expected, "Y @ A", m)
    same(
        left[:, 0] @ (operator @ right[:, 0]),
        right[:, 0] @ operator.rmatvec(left[:, 0]),
        "dot test",
        m * n,
    )
    counts = rng.integers(0, 100, (n, 2))
    answers = rng.integers(-50, 50, (m, 2))
    for actual, wanted in (
        (operator @ counts, expected @ counts),
        (operator.rmatmat(answers), expected.T @ answers),
    ):
        same(actual, wanted, "product with integers", 100 * max(m, n))
        assert actual.dtype == operator.dtype, f"integers became {actual.dtype}"
        if operator.dtype == np.int64:
            assert np.array_equal(actual, wanted), "integer products must be exact"
    for actual, wanted in (
        (operator @ right.astype(np.float32), expected @ right),
        (operator.rmatmat(left.astype(np.float32)), expected.T @ left),
    ):
        assert actual.dtype == np.float32, f"float32 became {actual.dtype}"
        scale = max(1.0, float(np.abs(expected).sum()))
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4 * scale)
    before = right.copy()
    result = operator @ right
    result += 1.0
    assert np.array_equal(right, before), "a product must not alias its input"
    for product, length in ((operator.__matmul__, n), (operator.rmatvec, m)):
        for wrong in (np.ones(length + 1), np.ones((length + 1, 2)), np.ones(())):
            try:
                product(wrong)
            except ValueError:
                continue
            raise AssertionError("an array of the wrong shape must raise ValueError")


def _check_other_inputs(
    operator: QueryMatrix, expected: Any, rng: np.random.Generator, same: Any
) -> None:
    """Check layouts, lists, small integers and the SciPy view."""
    m, n = expected.shape
    right, left = rng.standard_normal((n, 4)), rng.standard_normal((m, 4))
    frozen = right.copy()
    frozen.setflags(write=False)
    for name, array in {
        "Fortran-ordered": np.asfortranarray(right),
        "strided": np.repeat(right, 2, axis=1)[:, ::2],
        "reversed": right[::-1].copy()[::-1],
        "read-only": frozen,
        "nested list": right.tolist(),
    }.items():
        actual = operator @ array
        same(actual, expected @ right, f"product with a {name} array", n)
        assert actual.dtype == np.float64, f"{name} float64 became {actual.dtype}"
    same(operator.rmatmat(np.asfortranarray(left)), expected.T @ left, "rmatmat", m)
    column = operator.matvec(right[:, :1])
    assert column.shape == (m, 1), f"matvec of one column has shape {column.shape}"
    small = rng.integers(0, 2, n)
    for dtype in (bool, np.int8, np.uint8, np.int32):
        actual = operator @ small.astype(dtype)
        same(actual, expected @ small, f"product with {np.dtype(dtype)}", n)
        assert actual.dtype == operator.dtype, f"{dtype} became {actual.dtype}"
    linear = operator.aslinearoperator()
    same(linear @ right, expected @ right, "aslinearoperator", n)
    same(linear.H @ left, expected.T @ left, "transposed aslinearoperator", m)
    try:
        np.asarray(operator)
    except TypeError:
        return
    raise AssertionError("np.asarray must raise TypeError: operators are implicit")


def _check_immutable(operator: QueryMatrix, expected: Any, same: Any) -> None:
    """Check that nothing handed out is the operator's own memory."""
    for name in (
        "column_abs_sums",
        "column_square_sums",
        "row_abs_sums",
        "row_square_sums",
        "diag",
        "to_dense",
    ):
        array = getattr(operator, name)()
        if array.flags.writeable:
            array[...] = 77
    sparse = operator.to_sparse()
    if sparse.data.flags.writeable:
        sparse.data[:] = 77
    same(operator.to_dense(), expected, "to_dense after writing to what it returned")
    for name in ("shape", "dtype", "is_nonnegative", "new_name", *vars(operator)):
        try:
            setattr(operator, name, None)
        except AttributeError:
            continue
        raise AssertionError(f"{name} can be assigned; operators are immutable")


def _check_penrose(operator: QueryMatrix, expected: Any) -> None:
    pinv = operator.pinv()
    assert pinv.shape == expected.shape[::-1], f"pinv has shape {pinv.shape}"
    inverse = pinv.to_dense().astype(np.float64)
    left, right = expected @ inverse, inverse @ expected
    tolerance = 1e-6
    checks = {
        "A A⁺ A = A": (left @ expected, expected),
        "A⁺ A A⁺ = A⁺": (right @ inverse, inverse),
        "(A A⁺)ᵀ = A A⁺": (left, left.T),
        "(A⁺ A)ᵀ = A⁺ A": (right, right.T),
    }
    for name, (actual, wanted) in checks.items():
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(
            actual,
            wanted,
            rtol=tolerance,
            atol=tolerance * scale,
            err_msg=f"Penrose equation {name} of {operator!r}",
        )
