"""One query moved along a domain: over a circle of cells, and from end to end."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_finite_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Stored,
    exact_sums,
    int64_or_float64,
    query_matrix,
    read_only,
)

__all__ = ["Circulant", "Toeplitz"]

ZERO_EIGENVALUE = 1e-12
"""Magnitude of an eigenvalue, relative to the largest, that counts as zero."""


LARGEST_CONDITION = 1e8
"""Up to this condition number an inverse by its power series is used."""


def _vector(values: ArrayLike, name: str) -> Array:
    """Return the entries of a column or row; there must be one."""
    vector = check_finite_array(values, name, ndim=1)
    if vector.size == 0:
        raise ValueError(f"{name} must have at least one entry, got none")
    return int64_or_float64(vector)


@query_matrix("Circulant")
class Circulant(Stored):
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
        self._set(column=read_only(_vector(self.column, "column")))

    @property
    def _column(self) -> Array:
        return self.column  # type: ignore[return-value]

    @property
    def n(self) -> int:
        """Number of cells, and of queries."""
        return int(self._column.size)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n, self.n)

    def _arguments(self) -> str:
        return f"{self.n} cells"

    @property
    def _entries_held(self) -> Array:
        return self._column

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
        return self if self.is_nonnegative else Circulant(np.abs(self._column))

    def _power_sums(self, power: int, axis: int) -> Array:
        total = (np.abs(self._column.astype(np.float64)) ** power).sum()
        return exact_sums(np.full(self.n, total), self.dtype)

    def diag(self) -> Array:
        return np.full(self.n, self._column[0])

    def _explicit_entries(self) -> Array:
        places = np.subtract.outer(np.arange(self.n), np.arange(self.n))
        return self._column[places % self.n]

    def to_sparse(self) -> sp.csr_array:
        return Toeplitz(self._column, self.T._column).to_sparse()


@query_matrix("Toeplitz")
class Toeplitz(Stored):
    """A matrix that is constant along its diagonals: a filter over ordered cells.

    Entry (i, j) is ``first_column[i - j]`` on and below the main diagonal and
    ``first_row[j - i]`` above it: decayed or windowed sums over a stream, and their
    factors. Floats are multiplied by fast Fourier transforms, integers exactly.

    Parameters
    ----------
    first_column : array_like, shape (m,)
        Finite numbers of any sign; copied and frozen.
    first_row : array_like, shape (n,), default=None
        First row, with the same first entry; ``None`` makes a symmetric matrix, as in
        `scipy.linalg.toeplitz`.

    See Also
    --------
    Circulant : the same over a domain that closes to a circle.

    Notes
    -----
    A square triangular matrix is inverted by the power series of its column, in
    O(n²), where its condition number is at most 10⁸.

    Examples
    --------
    >>> from mmech import Toeplitz
    >>> Toeplitz([4, 2, 1], [4, 0, 0]).to_dense()
    array([[4, 0, 0],
           [2, 4, 0],
           [1, 2, 4]])
    >>> Toeplitz([4, 2, 1], [4, 0, 0]).sensitivity()
    7.0
    """

    first_column: ArrayLike
    first_row: ArrayLike | None = None

    def __post_init__(self) -> None:
        column = _vector(self.first_column, "first_column")
        row = column
        if self.first_row is not None:
            row = _vector(self.first_row, "first_row")
        if column[0] != row[0]:
            raise ValueError(
                "first_column and first_row must begin with the same entry, got "
                f"{column[0]} and {row[0]}"
            )
        dtype = np.result_type(column, row)
        self._set(first_column=read_only(column.astype(dtype)))
        self._set(first_row=read_only(row.astype(dtype)))

    @property
    def _column(self) -> Array:
        return self.first_column  # type: ignore[return-value]

    @property
    def _row(self) -> Array:
        return self.first_row  # type: ignore[return-value]

    @cached_property
    def _diagonals(self) -> Array:
        """Entries of the diagonals from the upper right to the lower left corner."""
        return np.concatenate([self._row[:0:-1], self._column])

    @cached_property
    def _circle(self) -> Circulant:
        """A circulant matrix whose upper left corner this matrix is."""
        from scipy.fft import next_fast_len

        m, n = self.shape
        gap = next_fast_len(m + n - 1, real=True) - (m + n - 1)
        zeros = np.zeros(gap, self.dtype)
        return Circulant(np.concatenate([self._column, zeros, self._row[:0:-1]]))

    @property
    def shape(self) -> tuple[int, int]:
        return (self._column.size, self._row.size)

    @property
    def _entries_held(self) -> Array:
        return self._diagonals

    def _matmat(self, x: Array, /) -> Array:
        padded = np.zeros((self._circle.n, x.shape[1]), x.dtype)
        padded[: x.shape[0]] = x
        return np.ascontiguousarray(self._circle._matmat(padded)[: self.shape[0]])

    def _rmatmat(self, y: Array, /) -> Array:
        return self.T._matmat(y)

    @cached_property
    def T(self) -> Toeplitz:
        """The matrix with column and row exchanged."""
        return Toeplitz(self._row, self._column)

    @cached_property
    def _inverse(self) -> Array | None:
        """First column of the inverse of a lower triangular matrix, if it is stable."""
        from scipy.signal import lfilter

        column = self._column.astype(np.float64)
        if column.size != self._row.size or self._row[1:].any() or column[0] == 0:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = np.asarray(lfilter([1.0], column, np.eye(1, column.size)[0]))
            # Both norms are those of the matrices, largest column and row alike.
            condition = np.abs(column).sum() * np.abs(inverse).sum()
        return inverse if condition <= LARGEST_CONDITION else None

    @property
    def is_inverted(self) -> bool:
        """Whether the inverse has a closed form here."""
        return self._inverse is not None or self.T._inverse is not None

    def pinv(self) -> QueryMatrix:
        """Return the inverse of a triangular matrix as one, else the general form."""
        for side, transposed in ((self, False), (self.T, True)):
            column = side._inverse
            if column is not None:
                inverse = Toeplitz(column, column[0] * np.eye(1, column.size)[0])
                return inverse.T if transposed else inverse
        return super().pinv()

    def abs(self) -> Toeplitz:
        if self.is_nonnegative:
            return self
        return Toeplitz(np.abs(self._column), np.abs(self._row))

    def _power_sums(self, power: int, axis: int) -> Array:
        """Return sums of windows of the diagonals, without differences.

        A window ends one block of its length and begins the next one.
        """
        if axis == 1:
            return self.T._power_sums(power, 0)
        m, n = self.shape
        values = np.abs(self._diagonals.astype(np.float64)) ** power
        blocks = np.pad(values, (0, -values.size % m)).reshape(-1, m)
        ends = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].ravel()[:n]
        starts = np.cumsum(blocks, axis=1)
        starts[:, -1] = 0  # a whole block is an end already
        sums = (ends + starts.ravel()[m - 1 : m + n - 1])[::-1]
        return exact_sums(sums, self.dtype)

    def diag(self) -> Array:
        return np.full(min(self.shape), self._column[0])

    def _explicit_entries(self) -> Array:
        m, n = self.shape
        return self._diagonals[np.subtract.outer(np.arange(m), np.arange(n)) + n - 1]

    def to_sparse(self) -> sp.csr_array:
        kept = np.flatnonzero(self._diagonals)
        if kept.size == 0:
            return sp.csr_array(self.shape, dtype=self.dtype)
        values, offsets = self._diagonals[kept], self.shape[1] - 1 - kept
        return sp.csr_array(
            sp.diags_array(
                list(values),
                offsets=offsets.tolist(),
                shape=self.shape,
                format="csr",
                dtype=self.dtype,
            )
        )
