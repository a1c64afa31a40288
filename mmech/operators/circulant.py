"""Circulant matrices: one query moved along a domain that closes to a circle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_finite_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    exact_sums,
    int64_or_float64,
    read_only,
)
from mmech.storage.codec import storable

__all__ = ["Circulant"]

ZERO_EIGENVALUE = 1e-12
"""Magnitude of an eigenvalue, relative to the largest, that counts as zero."""


@storable("Circulant")
@dataclass(frozen=True, eq=False, repr=False)
class Circulant(QueryMatrix):
    """A square matrix whose columns are one column, moved down cell by cell.

    Entry (i, j) is ``column[(i - j) % n]``: a filter over hours of the day, days of the
    week and other domains without an end. Floats are multiplied by fast Fourier
    transforms, integers exactly.

    Parameters
    ----------
    column : array_like, shape (n,)
        First column, finite numbers of any sign; copied and frozen.

    Examples
    --------
    >>> from mmech import Circulant
    >>> Circulant([2, 1, 0, 0]).to_dense()
    array([[2, 0, 0, 1],
           [1, 2, 0, 0],
           [0, 1, 2, 0],
           [0, 0, 1, 2]])
    """

    column: ArrayLike

    def __post_init__(self) -> None:
        column = check_finite_array(self.column, "column", ndim=1)
        if column.size == 0:
            raise ValueError("column must have at least one entry, got none")
        object.__setattr__(self, "column", read_only(int64_or_float64(column)))

    @property
    def _column(self) -> Array:
        return self.column  # type: ignore[return-value]

    @property
    def n(self) -> int:
        """Number of cells, and of queries."""
        return int(self._column.size)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and of domain cells, which are equal."""
        return (self.n, self.n)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the stored column."""
        return self._column.dtype

    def _arguments(self) -> str:
        return f"{self.n} cells"

    @cached_property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no entry is negative."""
        return bool((self._column >= 0).all())

    @cached_property
    def eigenvalues(self) -> NDArray[np.complex128]:
        """The discrete Fourier transform of the column, half of it: n // 2 + 1."""
        return read_only(np.fft.rfft(self._column.astype(np.float64)))

    @cached_property
    def rank(self) -> int:
        """Number of eigenvalues that are not zero."""
        sizes = np.abs(np.fft.fft(self._column.astype(np.float64)))
        return int((sizes > ZERO_EIGENVALUE * sizes.max()).sum())

    def _matmat(self, x: Array, /) -> Array:
        if x.dtype != np.int64:
            spectrum = np.fft.rfft(x, axis=0) * self.eigenvalues[:, None]
            return np.fft.irfft(spectrum, self.n, axis=0).astype(x.dtype, copy=False)
        out = np.zeros_like(x)
        for shift in np.flatnonzero(self._column).tolist():
            out += self._column[shift] * np.roll(x, shift, axis=0)
        return out

    def _rmatmat(self, y: Array, /) -> Array:
        return self.T._matmat(y)

    @cached_property
    def T(self) -> Circulant:
        """The circulant matrix of the column read backwards."""
        return Circulant(np.roll(self._column[::-1], 1))

    def gram(self) -> QueryMatrix:
        """Return AᵀA, the circulant matrix of the correlations of the column.

        With integers that could wrap around it stays two products.
        """
        if self.dtype == np.int64:
            size = int(np.abs(self._column.astype(object)).sum())
            if size**2 >= 2**63:
                return super().gram()
        return Circulant(self._rmatmat(self._column[:, None])[:, 0])

    def pinv(self) -> QueryMatrix:
        """Return the circulant matrix of the inverse eigenvalues, zeros left out."""
        sizes = np.abs(self.eigenvalues)
        kept = sizes > ZERO_EIGENVALUE * sizes.max()
        inverse = np.zeros_like(self.eigenvalues)
        np.divide(1.0, self.eigenvalues, out=inverse, where=kept)
        return Circulant(np.fft.irfft(inverse, self.n))

    def abs(self) -> Circulant:
        """Return the operator of absolute entries."""
        return self if self.is_nonnegative else Circulant(np.abs(self._column))

    def _sums(self, power: int) -> Array:
        def sums(dtype: np.dtype[Any]) -> Array:
            total = (np.abs(self._column.astype(dtype)) ** power).sum()
            return np.full(self.n, total, dtype)

        return exact_sums(sums, self.dtype)

    def column_abs_sums(self) -> Array:
        """Return the L1 norm of every column: that of the first."""
        return self._sums(1)

    row_abs_sums = column_abs_sums

    def column_square_sums(self) -> Array:
        """Return the squared L2 norm of every column: that of the first."""
        return self._sums(2)

    row_square_sums = column_square_sums

    def diag(self) -> Array:
        """Return the main diagonal: the first entry, n times."""
        return np.full(self.n, self._column[0])

    def _explicit_entries(self) -> Array:
        places = np.subtract.outer(np.arange(self.n), np.arange(self.n))
        return self._column[places % self.n]
