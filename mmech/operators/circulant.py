"""One query moved along a domain: over a circle of cells, and from end to end."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.fft import fft, irfft, next_fast_len, rfft

from mmech.checks import check_finite_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Stored,
    exact_sums,
    held,
    int64_or_float64,
    query_matrix,
    read_only,
)
from mmech.operators.convolution import LARGEST_NORM, MOST_CELLS, IntegerFilter

ZERO_EIGENVALUE = 1e-12
"""Magnitude of an eigenvalue, relative to the largest, that counts as zero."""


LARGEST_CONDITION = 1e8
"""Up to this condition number an inverse by its power series is used."""

SMALLEST_EIGENVALUE = 1e-5
"""Magnitude of an eigenvalue, relative to the largest, above which a circulant matrix
is inverted where some of its columns are left out."""

SHIFTS = 64
"""Up to so many entries of a column integers are multiplied shift by shift."""


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

    _column = held("column", Array)

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
        return read_only(rfft(self._column.astype(np.float64)))

    @cached_property
    def rank(self) -> int:
        """Number of eigenvalues that are not zero."""
        sizes = np.abs(fft(self._column.astype(np.float64)))
        return int((sizes > ZERO_EIGENVALUE * sizes.max()).sum())

    def _matmat(self, x: Array, /) -> Array:
        if x.dtype != np.int64:
            spectrum = rfft(x, axis=0) * self.eigenvalues[:, None]
            return irfft(spectrum, self.n, axis=0).astype(x.dtype, copy=False)
        if self._filter is not None and x.size:
            columns = [self._filter(np.ascontiguousarray(c)) for c in x.T]
            return np.stack(columns, axis=1)
        out = np.zeros_like(x)
        for shift in np.flatnonzero(self._column).tolist():
            out += self._column[shift] * np.roll(x, shift, axis=0)
        return out

    @cached_property
    def _filter(self) -> IntegerFilter | None:
        """What multiplies integers where many entries would be many shifts."""
        if self.n & (self.n - 1) or self.n > MOST_CELLS:
            return None
        few = np.count_nonzero(self._column) <= SHIFTS
        large = np.abs(self._column.astype(np.float64)).sum() >= LARGEST_NORM
        return None if few or large else IntegerFilter(self._column)

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

    def pinv(self) -> Circulant:
        """Return the circulant matrix of the inverse eigenvalues, zeros left out."""
        sizes = np.abs(self.eigenvalues)
        kept = sizes > ZERO_EIGENVALUE * sizes.max()
        inverse = np.zeros_like(self.eigenvalues)
        np.divide(1.0, self.eigenvalues, out=inverse, where=kept)
        return Circulant(irfft(inverse, self.n))

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

    _column = held("first_column", Array)

    _row = held("first_row", Array)

    @cached_property
    def _diagonals(self) -> Array:
        """Entries of the diagonals from the upper right to the lower left corner."""
        return np.concatenate([self._row[:0:-1], self._column])

    @cached_property
    def _circle(self) -> Circulant:
        """A circulant matrix whose upper left corner this matrix is."""
        m, n = self.shape
        length = next_fast_len(m + n - 1, real=True)
        if self.dtype == np.int64 and np.count_nonzero(self._diagonals) > SHIFTS:
            length = 1 << (m + n - 2).bit_length()
        gap = length - (m + n - 1)
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

    @cached_property
    def whole(self) -> Circulant | None:
        """The regular circulant matrix whose first columns these are, if there is one.

        With m queries it has m cells, of which the n first are kept.
        """
        m, n = self.shape
        if m < n or not np.array_equal(self._row[1:], self._column[::-1][: n - 1]):
            return None
        circle = Circulant(self._column)
        sizes = np.abs(circle.eigenvalues)
        return circle if sizes.min() > SMALLEST_EIGENVALUE * sizes.max() else None

    def pinv(self) -> QueryMatrix:
        """Return the inverse of a triangular matrix as one, else the general form.

        Columns of a regular circulant matrix have a closed form too.
        """
        for side, transposed in ((self, False), (self.T, True)):
            column = side._inverse
            if column is not None:
                inverse = Toeplitz(column, column[0] * np.eye(1, column.size)[0])
                return inverse.T if transposed else inverse
        return super().pinv() if self.whole is None else SectionPinv(self)

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


@query_matrix("SectionPinv")
class SectionPinv(QueryMatrix):
    """The pseudoinverse of the first columns of a regular circulant matrix C.

    Least squares over all cells of the circle, then under the condition that those left
    out are zero. With :math:`H = (C^T C)^{-1}`, in blocks of kept and other cells,
    z = C⁻¹ y becomes :math:`z_1 - H_{12} H_{22}^{-1} z_2`. H is circulant, so a product
    costs O(N log N) for N cells of the circle, and O(r²) for r cells left out.

    Parameters
    ----------
    operator : Toeplitz, shape (m, n)
        The columns, of which `Toeplitz.whole` is not ``None``.
    """

    operator: Toeplitz

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.operator.shape
        return (n, m)

    @cached_property
    def _inverse(self) -> Circulant:
        assert self.operator.whole is not None
        return self.operator.whole.pinv()

    @cached_property
    def _inverse_gram(self) -> Circulant:
        sizes = np.square(np.abs(self._inverse.eigenvalues))
        return Circulant(irfft(sizes, self._inverse.n))

    def _without_others(self, values: Array) -> Array:
        """Return z₁ - H₁₂ H₂₂⁻¹ z₂, shape (n, k), of values z (m, k)."""
        return without_others(self._inverse_gram, values, self.shape[0])

    def first_column(self) -> NDArray[np.float64]:
        """Return the first column of (AᵀA)⁻¹, shape (n,), which determines it all."""
        return self._without_others(self._inverse_gram._column[:, None])[:, 0]

    def _matmat(self, y: Array, /) -> Array:
        out = self._without_others(self._inverse._matmat(y.astype(np.float64)))
        return np.ascontiguousarray(out).astype(y.dtype, copy=False)

    def _rmatmat(self, x: Array, /) -> Array:
        n, m = self.shape
        padded = np.zeros((m, x.shape[1]))
        padded[:n] = x
        padded -= _at_others(self._inverse_gram, self._inverse_gram._matmat(padded), n)
        return self._inverse._rmatmat(padded).astype(x.dtype, copy=False)

    def pinv(self) -> QueryMatrix:
        return self.operator


def without_others(inverse_gram: Circulant, values: Array, n: int) -> Array:
    """Return estimates z₁ - H₁₂ H₂₂⁻¹ z₂, shape (n, k), of z (m, k).

    H is a circulant covariance, and all cells but the first n are known to be zero. The
    first column of H turns into the first column of the inverse of the first n rows and
    columns of H⁻¹.
    """
    others = _at_others(inverse_gram, values, n)
    return (values - inverse_gram._matmat(others))[:n]


def _at_others(inverse_gram: Circulant, values: Array, n: int) -> Array:
    """Return H₂₂⁻¹ z₂ at all cells but the first n, shape (m, k), and zeros there."""
    from scipy.linalg import solve_toeplitz

    out = np.zeros_like(values)
    if values[n:].size:
        # Copies: before SciPy 1.13 it refuses arrays that are read-only.
        column = inverse_gram._column[: len(values) - n].copy()
        out[n:] = solve_toeplitz(column, values[n:].copy())
    return out
