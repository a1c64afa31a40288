"""Explicit matrices as operators, dense and sparse."""

from __future__ import annotations

from functools import cached_property, singledispatch
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_finite_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Stored,
    exact_sums,
    freeze,
    held,
    int64_or_float64,
    query_matrix,
    read_only,
)

Matrix: TypeAlias = QueryMatrix | NDArray[Any] | Any
"""What `as_query_matrix` takes; SciPy's sparse matrices have no types, and a
`StrategyResult` registers itself."""


@query_matrix("Dense")
class Dense(Stored):
    """An explicit matrix as an operator.

    Parameters
    ----------
    array : array_like, shape (m, n)
        Finite real entries of any sign; copied and frozen.

    Raises
    ------
    ValueError
        If the array is not two-dimensional or holds NaN or infinity.

    Examples
    --------
    >>> from mmech import Dense
    >>> Dense([[1, -1], [0, 2]]).sensitivity()
    3.0
    """

    array: ArrayLike

    def __post_init__(self) -> None:
        array = check_finite_array(self.array, "array", ndim=2)
        self._set(array=read_only(int64_or_float64(array)))

    @classmethod
    def _of(cls, array: Array) -> Dense:
        """Return the operator of an array of ours, int64 or float64, without a copy."""
        array.setflags(write=False)
        made: Dense = object.__new__(cls)
        object.__setattr__(made, "array", array)
        return made

    _array = _entries_held = held("array", Array)

    shape = held("_array.shape", tuple[int, int])

    def _arguments(self) -> str:
        return " x ".join(str(size) for size in self.shape)

    def _matmat(self, x: Array, /) -> Array:
        return self._array.astype(x.dtype, copy=False) @ x

    def _rmatmat(self, y: Array, /) -> Array:
        return np.ascontiguousarray(self._array.T.astype(y.dtype, copy=False) @ y)

    @property
    def T(self) -> QueryMatrix:
        return Dense(self._array.T)

    def gram(self) -> QueryMatrix:
        """Return AᵀA, explicit if that is the smaller form."""
        if self.shape[1] <= self.shape[0]:
            return Dense(gram_entries(self._array))
        return super().gram()

    def pinv(self) -> QueryMatrix:
        """Return the explicit pseudoinverse (singular value decomposition)."""
        floats = self._array.astype(np.float64, copy=False)
        # NumPy's default keeps singular values that are rounding errors.
        cutoff = max(floats.shape) * np.finfo(np.float64).eps
        return Dense(np.linalg.pinv(floats, rcond=cutoff))

    def _power_sums(self, power: int, axis: int) -> Array:
        powers = np.abs(self._array.astype(np.float64)) ** power
        return exact_sums(powers.sum(axis=axis), self.dtype)

    def diag(self) -> Array:
        return np.diagonal(self._array).copy()

    def _explicit_entries(self) -> Array:
        return self._array.copy()

    def to_sparse(self) -> sp.csr_array:
        return sp.csr_array(self._array)


@query_matrix("Sparse")
class Sparse(Stored):
    """A SciPy sparse matrix as an operator.

    Parameters
    ----------
    matrix : sparse array or sparse matrix, shape (m, n)
        Any SciPy sparse format; copied to compressed sparse rows.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from mmech import Sparse
    >>> Sparse(sp.csr_array([[1, 0, 2], [0, 1, 0]]))
    Sparse(2 x 3, nnz=3) shape=(2, 3)
    """

    matrix: Any

    def __post_init__(self) -> None:
        if not sp.issparse(self.matrix):
            raise TypeError(
                "matrix must be a scipy.sparse array or matrix, got "
                f"{type(self.matrix).__name__}; use Dense for arrays"
            )
        csr = sp.csr_array(self.matrix, copy=True)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        data = check_finite_array(csr.data, "matrix", ndim=1)
        csr = sp.csr_array(
            (int64_or_float64(data), csr.indices, csr.indptr), shape=csr.shape
        )
        freeze(csr)
        self._set(matrix=csr)

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.matrix.shape[0]), int(self.matrix.shape[1]))

    def _arguments(self) -> str:
        m, n = self.shape
        return f"{m} x {n}, nnz={self.matrix.nnz}"

    _entries_held = held("matrix.data", Array)

    @cached_property
    def _converted(self) -> dict[np.dtype[Any], tuple[sp.csr_array, sp.csc_array]]:
        return {}

    def _as(self, dtype: np.dtype[Any]) -> tuple[sp.csr_array, sp.csc_array]:
        """Return the matrix and its transpose with entries of a dtype, made once."""
        if dtype not in self._converted:
            own = self.matrix
            data = own.data.astype(dtype, copy=False)
            matrix = sp.csr_array((data, own.indices, own.indptr), shape=self.shape)
            self._converted[dtype] = matrix, matrix.T
        return self._converted[dtype]

    def _matmat(self, x: Array, /) -> Array:
        return _sparse_product(self._as(x.dtype)[0], x)

    def _rmatmat(self, y: Array, /) -> Array:
        return _sparse_product(self._as(y.dtype)[1], y)

    @cached_property
    def T(self) -> Sparse:
        """The transpose, made once."""
        return Sparse(self.matrix.T)

    def _power_sums(self, power: int, axis: int) -> Array:
        places = self.matrix.nonzero()[1 - axis]
        powers = np.abs(self.matrix.data.astype(np.float64)) ** power
        sums = np.bincount(places, powers, minlength=self.shape[1 - axis])
        return exact_sums(sums, self.dtype)

    def diag(self) -> Array:
        return np.asarray(self.matrix.diagonal())

    def _explicit_entries(self) -> Array:
        return np.asarray(self.matrix.toarray())

    def to_sparse(self) -> sp.csr_array:
        """Return a copy of the stored matrix."""
        return self.matrix.copy()


def _sparse_product(matrix: Any, x: Array) -> Array:
    """Return the product; SciPy has a faster one for a single column."""
    if x.shape[1] == 1:
        return np.asarray(matrix @ x[:, 0])[:, None]
    return np.asarray(matrix @ x)


def gram_entries(array: Array) -> Array:
    """Return AᵀA, of integers as long as floats have them exactly."""
    floats = array.astype(np.float64, copy=False)
    gram = floats.T @ floats
    if array.dtype == np.int64 and float(gram.diagonal().max(initial=0)) < 2.0**53:
        gram = np.rint(gram).astype(np.int64)
    return np.asarray(gram)


@singledispatch
def as_query_matrix(value: Any, name: str, norm: str | None = None) -> QueryMatrix:
    """Return a query matrix as it is, and an array or sparse matrix wrapped.

    A `StrategyResult` stands for its workload where `name` is "workload", and for its
    strategy elsewhere; one that was optimized for another norm than `norm`, where that
    is given, is refused.

    Raises
    ------
    TypeError
        If the value is none of these.
    ValueError
        If it is not two-dimensional, an entry is not finite, or a result lacks its
        workload or has another norm.
    """
    if sp.issparse(value):
        return Sparse(value)
    raise TypeError(
        f"{name} must be a query matrix, a two-dimensional array or a SciPy sparse "
        f"matrix, got {type(value).__name__}; wrap other sequences with Dense"
    )


@as_query_matrix.register
def _(value: QueryMatrix, name: str, norm: str | None = None) -> QueryMatrix:
    return value


@as_query_matrix.register
def _(value: np.ndarray, name: str, norm: str | None = None) -> QueryMatrix:
    return Dense(check_finite_array(value, name, ndim=2))


def as_pair(
    workload: Any, strategy: Any, norm: str | None = None
) -> tuple[QueryMatrix, QueryMatrix]:
    """Return a workload and a strategy as query matrices over the same cells.

    Raises
    ------
    TypeError, ValueError
        If `as_query_matrix` refuses one of them, or they have different numbers of
        columns.
    """
    queries = as_query_matrix(workload, "workload")
    measured = as_query_matrix(strategy, "strategy", norm)
    if queries.shape[1] != measured.shape[1]:
        raise ValueError(
            f"workload has {queries.shape[1]} columns but strategy has "
            f"{measured.shape[1]}; both must equal the number of domain cells"
        )
    return queries, measured
