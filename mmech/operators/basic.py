"""Leaf operators: identity, ones, total, separable grams and diagonals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mmech.checks import check_finite_array, check_integer
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Stored,
    Symmetric,
    ZeroOne,
    exact_sums,
    held,
    int64_or_float64,
    query_matrix,
    read_only,
    square,
)

KERNEL_ENTRIES = 2**14
"""Scans of fewer entries stay with NumPy, which needs no compiled code."""


def scan(x: Array, backward: bool) -> Array:
    """Return the running sums along the middle axis of a (left, n, right) array."""
    if x.size < KERNEL_ENTRIES:
        if backward:
            return np.ascontiguousarray(np.cumsum(x[:, ::-1], axis=1)[:, ::-1])
        return np.cumsum(x, axis=1)
    from mmech import _kernels

    out = np.empty(x.shape, x.dtype)
    _kernels.scan(np.ascontiguousarray(x), backward, out)
    return out


@dataclass(frozen=True, eq=False, repr=False)
class Sized(QueryMatrix):
    """Base of square operators of integers that take their size `n` alone."""

    n: int
    dtype = np.dtype(np.int64)
    is_nonnegative = True

    def __post_init__(self) -> None:
        self._set(n=check_integer(self.n, "n"))

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n, self.n)


@query_matrix("Identity")
class Identity(Symmetric, Sized, ZeroOne):
    """One query per domain cell: the identity matrix.

    Parameters
    ----------
    n : int
        Number of domain cells.

    Examples
    --------
    >>> from mmech import Identity
    >>> Identity(3) @ [5, 0, 2]
    array([5, 0, 2])
    >>> Identity(3).sensitivity()
    1.0
    """

    def _matmat(self, x: Array, /) -> Array:
        return x.copy()

    def gram(self) -> Identity:
        return self

    def pinv(self) -> Identity:
        return self

    def _power_sums(self, power: int, axis: int) -> Array:
        return np.ones(self.n, np.int64)

    def diag(self) -> Array:
        return np.ones(self.n, np.int64)

    def sensitivity(self) -> float:
        return 1.0

    def to_sparse(self) -> sp.csr_array:
        return sp.csr_array(sp.eye_array(self.n, dtype=np.int64, format="csr"))


@query_matrix("Ones")
class Ones(ZeroOne):
    """The m x n matrix of ones: the total, asked m times.

    Parameters
    ----------
    m, n : int
        Number of queries and of domain cells.

    Examples
    --------
    >>> from mmech import Ones
    >>> Ones(2, 3) @ [5, 0, 2]
    array([7, 7])
    """

    m: int
    n: int

    def __post_init__(self) -> None:
        self._set(m=check_integer(self.m, "m"), n=check_integer(self.n, "n"))

    @property
    def shape(self) -> tuple[int, int]:
        return (self.m, self.n)

    def _matmat(self, x: Array, /) -> Array:
        return np.repeat(x.sum(axis=0, keepdims=True), self.m, axis=0)

    def _rmatmat(self, y: Array, /) -> Array:
        return np.repeat(y.sum(axis=0, keepdims=True), self.n, axis=0)

    @property
    def T(self) -> Ones:
        return Ones(self.n, self.m)

    def gram(self) -> QueryMatrix:
        return Ones(self.n, self.n) * self.m

    def pinv(self) -> QueryMatrix:
        return Ones(self.n, self.m) * (1 / (self.m * self.n))

    def _power_sums(self, power: int, axis: int) -> Array:
        return np.full(self.shape[1 - axis], self.shape[axis], np.int64)

    def diag(self) -> Array:
        return np.ones(min(self.shape), np.int64)


@query_matrix("Total", init=False)
class Total(Ones):
    """The single query that counts all records.

    Parameters
    ----------
    n : int
        Number of domain cells.

    Examples
    --------
    >>> from mmech import Total
    >>> Total(3) @ [5, 0, 2]
    array([7])
    """

    def __init__(self, n: int) -> None:
        super().__init__(1, n)


@query_matrix("SeparableGram")
class SeparableGram(Symmetric):
    """V_ij = a_min(i,j) b_max(i,j) off its diagonal: a gram of ranges, or of blocks.

    Products cost O(n) per vector.

    Parameters
    ----------
    rising, falling : array_like, shape (n,)
        The vectors a and b.
    diagonal : array_like, shape (n,)
        The main diagonal.
    """

    rising: ArrayLike
    falling: ArrayLike
    diagonal: ArrayLike

    def __post_init__(self) -> None:
        for name in ("rising", "falling", "diagonal"):
            vector = check_finite_array(getattr(self, name), name, ndim=1)
            self._set(**{name: read_only(int64_or_float64(vector))})

    _rising = held("rising", Array)
    _falling = held("falling", Array)
    _diagonal = held("diagonal", Array)

    shape = square("_diagonal.size")

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(self._rising, self._falling, self._diagonal)

    def _arguments(self) -> str:
        return f"n={self._diagonal.size}"

    def _matmat(self, x: Array, /) -> Array:
        from mmech import _kernels

        out = np.empty_like(x)
        vectors = (self._rising, self._falling, self._diagonal)
        _kernels.separable_gram_matmat(*[v.astype(x.dtype) for v in vectors], x, out)
        return out

    def diag(self) -> Array:
        return self._diagonal.copy()

    def _explicit_entries(self) -> Array:
        above = np.triu(np.outer(self._rising, self._falling), 1)
        return above + above.T + np.diag(self._diagonal)


@query_matrix("Diagonal")
class Diagonal(Symmetric, Stored):
    """A square diagonal matrix.

    Parameters
    ----------
    values : array_like, shape (n,)
        The diagonal, of any sign.

    Examples
    --------
    >>> from mmech import Diagonal
    >>> Diagonal([1, -2]) @ [3, 4]
    array([ 3, -8])
    """

    values: ArrayLike

    def __post_init__(self) -> None:
        values = check_finite_array(self.values, "values", ndim=1)
        self._set(values=read_only(int64_or_float64(values)))

    _values = _entries_held = held("values", Array)

    shape = square("_values.size")

    def _arguments(self) -> str:
        return f"n={self._values.size}"

    def _matmat(self, x: Array, /) -> Array:
        return x * self._values.astype(x.dtype, copy=False)[:, None]

    def gram(self) -> Diagonal:
        return Diagonal(self.column_square_sums())

    def pinv(self) -> Diagonal:
        """Return the diagonal matrix of reciprocals, zero staying zero."""
        values = self._values.astype(np.float64)
        return Diagonal(
            np.divide(1.0, values, out=np.zeros_like(values), where=values != 0)
        )

    def _power_sums(self, power: int, axis: int) -> Array:
        return exact_sums(np.abs(self._values.astype(np.float64)) ** power, self.dtype)

    def diag(self) -> Array:
        return self._values.copy()

    def to_sparse(self) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(self._values, dtype=self.dtype))
