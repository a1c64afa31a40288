r"""One query moved along a domain: over a circle of cells, and from end to end.

The gram of a circulant matrix has the waves of the circle as eigenvectors. The
circulant matrix A with :math:`A^T A = (W^T W)^{1/2}` attains the bound of singular
values: its columns are of equal length. The same holds for unions, whose grams add up.

Columns of a circulant matrix are a Toeplitz matrix. The inverse of its gram, with the
first column x, is :math:`(L_x L_x^T - L_y L_y^T) / x_0`. There :math:`L_x` and
:math:`L_y` are lower triangular Toeplitz matrices of x and :math:`y = (0, x_{n-1},
\dots, x_1)` [1]_. Sums of rows of these over windows are Toeplitz matrices too, whose
rows have norms by running sums. So are causal filters, times these.

References
----------
.. [1] Gohberg, Semencul, "On the inversion of finite Toeplitz matrices and their
   continuous analogs", Mat. Issled. 2, 1972.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property, singledispatch

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.fft import fft, irfft, next_fast_len, rfft

from mmech.arrays import Floats
from mmech.checks import check_finite_array
from mmech.error.pairs import SUPPORT_TOLERANCE, unsupported
from mmech.error.result import StrategyResult
from mmech.error.rules import known_gain, known_rows
from mmech.exceptions import UnsupportedWorkloadError
from mmech.families.ranges import WidthRange
from mmech.families.separable import AllRange, Prefix, Suffix
from mmech.integer_strategy import (
    IntegerBlock,
    IntegerStrategy,
    by_structure,
    check_filter,
)
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Stored,
    exact_sums,
    held,
    int64_or_float64,
    query_matrix,
    read_only,
    square,
)
from mmech.operators.basic import Identity, Ones
from mmech.operators.convolution import LARGEST_NORM, MOST_CELLS, IntegerFilter
from mmech.operators.known import BOUNDS, has_full_column_rank, normal_form, power_sum
from mmech.operators.pinv import pinv_entries
from mmech.strategies.registry import Request, Skip, Template
from mmech.structure.blocks import (
    Moved,
    asks_ranges,
    energies,
    moved,
    strategies_of,
    waves_of,
)
from mmech.structure.exact import SUMS, Sums
from mmech.structure.shape import closed_singular_values, known_rank, unscaled

ZERO_EIGENVALUE = 1e-12
"""Magnitude of an eigenvalue, relative to the largest, that counts as zero."""


LARGEST_CONDITION = 1e8
"""Up to this condition number an inverse by its power series is used."""

SMALLEST_EIGENVALUE = 1e-5
"""Magnitude of an eigenvalue, relative to the largest, above which a circulant matrix
is inverted where some of its columns are left out."""

SHIFTS = 64
"""Up to so many entries of a column integers are multiplied shift by shift."""

SOLVED_CELLS = 32
"""Steps of solving for cells that are left out, in the time of one entry."""

DOUBLED = 4096
"""Entries of the inverse of a power series that are found one by one."""

LEAST_ROOT = 2.0**-12
"""Least eigenvalue of the gram of a strategy, relative to their mean: it is rounded to
integers, and then every wave is measured."""

LEAST_OF_WINDOWS = 1 / 256
"""Least eigenvalue of the gram of a strategy for windows, relative to their mean."""

LIKENESS = 0.5
"""Correlation of neighbouring taps from which on the cells have an order: smooth extra
queries are 3 % better there, in a sixth of the time, and miss combs and signs that
alternate."""

MOST_LEFT_OUT = 2**13
"""Cells of a circle that are left out of a strategy, at most: equations for as many
unknowns are solved."""


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

    _column = _entries_held = held("column", Array)

    n = held("_column.size", int)
    """Number of cells, and of queries."""

    shape = square("n")

    def _arguments(self) -> str:
        return f"{self.n} cells"

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
    A square triangular matrix is inverted by the power series of its column, where its
    condition number is at most 10⁸.

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

    _entries_held = held("_diagonals", Array)

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
        column = self._column.astype(np.float64)
        if column.size != self._row.size or self._row[1:].any() or column[0] == 0:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = reciprocal(column)
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
        form = {"offsets": offsets.tolist(), "shape": self.shape, "dtype": self.dtype}
        return sp.csr_array(sp.diags_array(list(values), **form))


def reciprocal(series: Floats) -> Floats:
    """Return the reciprocal of a power series, by recursion and Newton's method."""
    from scipy.signal import fftconvolve, lfilter

    first = series[:DOUBLED]
    inverse = np.asarray(lfilter([1.0], first, np.eye(1, first.size)[0]))
    while (known := inverse.size) < series.size:
        more = series[: 2 * known]
        wrong = fftconvolve(more, inverse)[known : more.size]
        steps = fftconvolve(wrong, inverse)[: wrong.size]
        inverse = np.concatenate([inverse, -steps])
    return inverse


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


# ---- rules -------------------------------------------------------------------------

has_full_column_rank.register(Circulant, lambda strategy: strategy.rank == strategy.n)
has_full_column_rank.register(
    Toeplitz, lambda strategy: strategy.is_inverted or strategy.whole is not None
)
known_rank.register(Circulant, lambda workload: workload.rank)


@closed_singular_values.register(Circulant)
def _(workload: Circulant) -> NDArray[np.float64] | None:
    values = np.abs(fft(workload._column.astype(np.float64)))
    # The error of a transform is relative to its norm: about log2(n) steps of it.
    steps = 4.0 * max(math.log2(workload.n), 1.0)
    noise = steps * np.finfo(float).eps * float(np.linalg.norm(values))
    return np.maximum(values - noise, 0.0)


def _filter_sums(operator: Circulant | Toeplitz, power: int) -> Sums | None:
    if isinstance(operator, Circulant) or operator.whole is not None:
        return power_sum(operator._column, power)  # in every column
    sums = operator._power_sums(power, 0)
    return sums if sums.dtype == np.int64 else None


BOUNDS[Circulant] = lambda operator: (power_sum(operator._column, 1),) * 2
BOUNDS[Toeplitz] = lambda operator: (power_sum(operator._diagonals, 1),) * 2
SUMS[Circulant] = SUMS[Toeplitz] = _filter_sums


# ---- pairs, and what is measured ---------------------------------------------------


@singledispatch
def circle_energies(block: QueryMatrix) -> Floats | None:
    """Return ‖W u‖² of the n waves u of the circle, ``None`` where no rule knows."""
    return None


circle_energies.register(Identity, lambda block: np.ones(block.n))
circle_energies.register(Ones, lambda block: block.m * block.n * np.eye(1, block.n)[0])


@circle_energies.register(Circulant)
def _(block: Circulant) -> Floats:
    return np.square(np.abs(fft(block._column.astype(np.float64))))


def _energies(workload: QueryMatrix) -> Floats | None:
    energies: Floats | None = normal_form(workload).total(circle_energies)
    return energies


@moved.register(Circulant)
def _(block: Circulant) -> Moved | None:
    """Look for the arc of the taps: what the longest run of zeros leaves."""
    taps = np.flatnonzero(block._column)
    if taps.size == 0:
        return None
    gaps = np.diff(taps, append=taps[0] + block.n)
    longest = int(gaps.argmax())
    start = int(taps[(longest + 1) % taps.size])
    reach = block.n - int(gaps[longest]) + 1
    arc = np.roll(block._column, -start)[:reach]

    def over(n: int) -> Circulant:
        column = np.zeros(n, block.dtype)
        column[: arc.size] = arc
        return Circulant(np.roll(column, start))

    return Moved(reach, over, is_circular=True)


@moved.register(Toeplitz)
def _(workload: Toeplitz) -> Moved | None:
    """Count taps that a sum in doubles can see."""
    taps = _filter(workload)
    if taps is None:
        return None
    seen = np.flatnonzero(abs(taps) > np.finfo(float).eps * abs(taps).max())

    def over(n: int) -> Toeplitz:
        return Toeplitz(workload._column[:n], workload._row[:n])

    return Moved(int(seen.max(initial=0)) + 1, over, bool(workload._row[1:].any()))


@asks_ranges.register(Circulant | Toeplitz)
def _(workload: Circulant | Toeplitz) -> bool:
    """Take filters whose taps are like their neighbours."""
    whole = workload._column if isinstance(workload, Circulant) else workload._diagonals
    taps = whole.astype(np.float64)
    return bool(taps[1:] @ taps[:-1] >= LIKENESS * (taps @ taps))


@known_gain.rule(Circulant)
def _gain(workload: QueryMatrix, strategy: Circulant) -> float | None:
    asked, measured = _energies(workload), circle_energies(strategy)
    if asked is None or measured is None:
        return None
    seen = measured > ZERO_EIGENVALUE**2 * measured.max()
    if asked[~seen].max(initial=0.0) > SUPPORT_TOLERANCE**2 * asked.sum():
        raise unsupported(workload, strategy)
    return float((asked[seen] / measured[seen]).sum())


@known_rows.rule(Circulant, Circulant | Identity)
def _(workload: Circulant | Identity, strategy: Circulant) -> Floats | None:
    gain = _gain(workload, strategy)
    return None if gain is None else np.full(workload.n, gain / workload.n)


@by_structure.register(Circulant | Toeplitz)
def _(strategy: Circulant | Toeplitz, norm: str, bits: int) -> IntegerStrategy | None:
    """Round the column of a circulant matrix, all of whose columns then stay alike."""
    if not (isinstance(strategy, Circulant) or strategy.whole):
        return None
    if strategy.dtype == np.int64:
        return None
    is_whole = isinstance(strategy, Circulant)
    most = MOST_CELLS // 2 - (0 if is_whole else MOST_CELLS // 16)
    check_filter(strategy, sum(strategy.shape), most)
    column, n = strategy._column, strategy.shape[1]
    whole = np.rint(column * (2**bits / np.abs(column).max())).astype(np.int64)
    matrix = Toeplitz(whole, [whole[0], *whole[::-1][: n - 1]])
    form = Circulant(whole) if is_whole else matrix
    return IntegerStrategy((IntegerBlock(matrix),), form, norm)


@pinv_entries.register(Toeplitz)
def _(strategy: Toeplitz, columns: int) -> int:
    """Count equations for cells of the circle that are left out."""
    m, n = strategy.shape
    others = 0 if strategy.whole is None or strategy.is_inverted else m - n
    plain: int = pinv_entries.dispatch(QueryMatrix)(strategy, columns)
    return plain + columns * (others**2 // SOLVED_CELLS)


def inverse_columns(strategy: Toeplitz) -> tuple[Floats, Floats, float]:
    """Return x and y, shape (n,), and x_0."""
    x = SectionPinv(strategy).first_column()
    return x, np.concatenate([[0.0], x[:0:-1]]), float(x[0])


def _sums(strategy: Toeplitz) -> tuple[Floats, Floats, float]:
    """Return sums of the first 0..n entries of x and of y, and x_0."""
    *both, x0 = inverse_columns(strategy)
    first, second = (np.concatenate([[0.0], np.cumsum(v)]) for v in both)
    return first, second, x0


@known_rows.rule(Toeplitz, WidthRange | Identity)
def _(workload: WidthRange | Identity, strategy: Toeplitz) -> Floats | None:
    if strategy.whole is None:
        return None
    m, n = workload.shape
    width = n - m + 1
    *both, x0 = _sums(strategy)
    total = np.zeros(m + n - 1)
    for sign, sums in zip((1.0, -1.0), both, strict=True):
        # From the window that ends at the first entry to the one at the last.
        padded = np.pad(sums, (n - 1, 0))
        total += sign * np.square(padded[width:] - padded[: m + n - 1])
    running = np.concatenate([[0.0], np.cumsum(total)])
    return (running[n:] - running[:m]) / x0


@known_rows.rule(Toeplitz, Ones)
def _(workload: Ones, strategy: Toeplitz) -> Floats | None:
    rows = known_rows(WidthRange(workload.n, workload.n), strategy)
    return None if rows is None else np.repeat(rows, workload.m)


@known_rows.rule(Toeplitz, Prefix | Suffix)
def _(workload: Prefix | Suffix, strategy: Toeplitz) -> Floats | None:
    if strategy.whole is None:
        return None
    first, second, x0 = _sums(strategy)
    gains = np.cumsum(np.square(first[1:]) - np.square(second[1:])) / x0
    return gains[::-1].copy() if workload.backward else gains


@known_gain.rule(Toeplitz, AllRange)
def _(workload: AllRange, strategy: Toeplitz) -> float | None:
    """Sum (X_u - X_r)² over all r < u, for every column of sums X_0..X_n."""
    if strategy.whole is None:
        return None
    *both, x0 = _sums(strategy)
    n = workload.n
    first, second = (
        (n + 1) * np.cumsum(np.square(sums)) - np.square(np.cumsum(sums))
        for sums in both
    )
    return float((first - second).sum() / x0)


def _filter(workload: Toeplitz) -> Floats | None:
    """Return the column of a square triangular matrix, on whichever side it is."""
    column, row = workload._column.astype(float), workload._row.astype(float)
    if column.size != row.size or (column[1:].any() and row[1:].any()):
        return None
    return row if row[1:].any() else column


@known_rows.rule(Toeplitz, Toeplitz)
def _(workload: Toeplitz, strategy: Toeplitz) -> Floats | None:
    from scipy.signal import fftconvolve

    taps = _filter(workload)
    if taps is None or strategy.whole is None:
        return None
    first, second, x0 = inverse_columns(strategy)
    both = (fftconvolve(taps, column)[: taps.size] for column in (first, second))
    gains = np.cumsum(np.subtract(*map(np.square, both))) / x0
    return gains if workload._column[1:].any() else gains[::-1].copy()


# ---- strategies of waves ------------------------------------------------------------


@waves_of.register(Toeplitz)
def _(workload: Toeplitz) -> str | None:
    return None if _filter(workload) is None else "circle"


@energies.register(Toeplitz)
def _(workload: Toeplitz, angles: Floats) -> Floats:
    taps = _filter(workload)
    assert taps is not None
    fine = next_fast_len(8 * taps.size, real=True)
    squares = np.square(np.abs(rfft(taps, fine)))
    places = np.linspace(0.0, 2.0 * np.pi * (squares.size - 1) / fine, squares.size)
    return np.asarray(np.interp(angles, places, squares))


@strategies_of.register(Toeplitz)
def _(workload: Toeplitz) -> Iterator[QueryMatrix]:
    taps = _filter(workload)
    assert taps is not None
    size = next_fast_len(taps.size + min(taps.size, MOST_LEFT_OUT) // 2, real=True)
    yield on_a_circle(np.abs(rfft(taps, size)), size, taps.size)


def on_a_circle(roots: Floats, size: int, n: int) -> QueryMatrix:
    """Return n columns, of length one, of a circulant matrix with roots of `roots`."""
    column = irfft(np.sqrt(np.maximum(roots, LEAST_OF_WINDOWS * roots.mean())), size)
    column /= np.linalg.norm(column)
    return Toeplitz(column, [column[0], *column[::-1][: n - 1]])


def circulant_strategy(workload: QueryMatrix) -> StrategyResult:
    """Take the fourth root of the gram: the optimum of filters over a circle under L2.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Circulant matrices, and unions of weighted ones with `Identity` and `Total`.
    """
    energies = _energies(unscaled(workload))
    if energies is None:
        raise UnsupportedWorkloadError(
            "template 'circulant' needs filters over a circle of cells, got "
            f"{workload!r}; use template='spectral', 'dense' or 'pidentity'"
        )
    roots, n = np.sqrt(energies), workload.shape[1]
    floor = max(LEAST_ROOT * roots.mean(), np.finfo(float).tiny)
    column = irfft(np.sqrt(np.maximum(roots, floor))[: n // 2 + 1], n)
    strategy = Circulant(column / np.linalg.norm(column))
    return StrategyResult(
        strategy,
        "circulant",
        float(known_gain(workload, strategy)),
        message=f"closed form, within {LEAST_ROOT:.2%} of the optimum",
    )


def look_at_circles(
    workload: QueryMatrix, found: Request
) -> Skip | StrategyResult | None:
    """Stop where the gram has the waves of a circle, and more than cells are asked."""
    energies = _energies(workload)
    if (
        energies is None or energies[1:].size < 2 or not np.ptp(energies[1:])
    ):  # cells and totals
        return Skip("no filters over a circle of cells")
    return circulant_strategy(workload)


CIRCULANT = Template("circulant", circulant_strategy, 22, ("L2",), look_at_circles)
