"""Matrices of the tau algebras: Toeplitz less Hankel, diagonal in sine waves."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import fft, ifft, irfft, next_fast_len, rfft

from mmech.checks import check_choice, check_finite_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    exact_sums,
    held,
    int64_or_float64,
    query_matrix,
    read_only,
    square,
)
from mmech.operators.convolution import IntegerFilter

ENDS = ("none", "first", "last")
"""Which end of the domain is free."""

SMALLEST_EIGENVALUE = 1e-12
"""Magnitude of an eigenvalue, relative to the largest, that counts as zero."""


LONG = 2**16
"""Length above which transforms of awkward lengths are convolutions with a chirp."""


@lru_cache(maxsize=1)
def _chirp(length: int) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """Return exp(iπk²/length) for k up to length / 2, and the spectrum around zero."""
    k = np.arange(length // 2 + 1)
    chirp = np.exp(1j * np.pi / length * (k * k % (2 * length)))
    around = np.zeros(next_fast_len(2 * k.size - 1), np.complex128)
    around[: k.size] = chirp.conj()
    around[1 - k.size :] = chirp[:0:-1].conj()
    return read_only(chirp), read_only(fft(around, overwrite_x=True))


def even_transform(half: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Return half of the inverse Fourier transform of an even sequence, given half.

    Halves are places 0 to length // 2. SciPy's transform of an awkward length is one of
    four times the length, and this one is twice as long.

    References
    ----------
    .. [1] Bluestein, "A linear filtering approach to the computation of discrete
       Fourier transform", IEEE Trans. Audio Electroacoustics 18, 1970.
    """
    if length <= LONG or next_fast_len(length, real=True) == length:
        return irfft(half, length)[: half.size]
    chirp, spectrum = _chirp(length)
    twice = np.full(half.size, 2.0)
    twice[[0, -1]] = 1.0, 1.0 + length % 2
    waves = fft(twice / length * half * chirp, spectrum.size) * spectrum
    return np.asarray((ifft(waves, overwrite_x=True)[: half.size] * chirp).real)


def _with_odd_places(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sort values of the waves 1, 3, ..., 2n - 1 by frequency: m is 2n + 1 - m."""
    out = np.empty_like(values)
    odd = (values.size + 1) // 2
    out[::2], out[1::2] = values[:odd], values[odd:][::-1]
    return out


def _with_even_places(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return f(0) to f(n) of f(0), f(2), ..., f(2n), where f(2n + 1 - t) = -f(t)."""
    out = np.empty_like(values)
    even = (values.size + 1) // 2
    out[::2], out[1::2] = values[:even], -values[even:][::-1]
    return out


def _even_power(n: int) -> int:
    """Return the least power of two that is at least 2n."""
    return 1 << (2 * n - 1).bit_length()


def _around(period: Array, n: int, length: int) -> tuple[Array, Array]:
    """Return circles of f(i - j) and f(i + j + 2) for i in 0..n and j in 0..n-1.

    f is even, and given over its period; circles have at least 2n places.
    """
    toeplitz, hankel = np.zeros((2, length), period.dtype)
    toeplitz[: n + 1] = period[: n + 1]
    toeplitz[length - n + 1 :] = period[n - 1 : 0 : -1]
    hankel[: 2 * n] = np.take(period, np.arange(2, 2 * n + 2), mode="wrap")
    return toeplitz, hankel


@query_matrix("Tau")
class Tau(QueryMatrix):
    r"""A matrix whose eigenvectors are sine waves, with scaled columns.

    Entry (i, j), for i and j from 1 to n, is ``(f(i - j) - f(i + j)) * scales[j - 1]``
    for an even function f, the symbol. With two fixed ends f has the period 2n + 2, and
    the waves are :math:`\sin(ijk\pi/(n+1))`. With a free last end
    ``f(t + 2n + 1) = -f(t)``, and the waves are :math:`\sin(j(2k-1)\pi/(2n+1))`; a free
    first end reverses rows and columns. The grams of `AllRange`, `Suffix` and
    `Prefix` are of these three kinds, and so are their roots and inverses. Products
    cost O(n log n): of floats by fast Fourier transforms, of integers exactly.

    Parameters
    ----------
    symbol : array_like, shape (n + 2,) or (n + 1,)
        f(0) to f(n + 1), or to f(n) with a free end.
    free_end : {"none", "first", "last"}, default="none"
        End of the domain that is free.
    scales : array_like, shape (n,), default=None
        Factors of the columns; ones when omitted.

    References
    ----------
    .. [1] Bini, Capovani, "Spectral and computational properties of band symmetric
       Toeplitz matrices", Linear Algebra and its Applications 52, 1983.
    .. [2] Bozzo, Di Fiore, "On the use of certain matrix algebras associated with
       discrete trigonometric transforms", SIAM J. Matrix Anal. Appl. 16, 1995.

    Examples
    --------
    >>> from mmech.operators.tau import Tau
    >>> Tau([4, 1, 0, 0, 0]).to_dense()
    array([[4, 1, 0],
           [1, 4, 1],
           [0, 1, 4]])
    >>> Tau([4, 1, 0, 0], free_end="last").to_dense()
    array([[4, 1, 0],
           [1, 4, 1],
           [0, 1, 5]])
    """

    symbol: ArrayLike
    free_end: str = "none"
    scales: ArrayLike | None = None

    def __post_init__(self) -> None:
        check_choice(self.free_end, "free_end", ENDS)
        symbol = check_finite_array(self.symbol, "symbol", ndim=1)
        n = symbol.size - (2 if self.free_end == "none" else 1)
        if n < 1:
            raise ValueError(
                "symbol must have two values more than there are cells, or one with a "
                f"free end, got {symbol.size}"
            )
        scales: Array = np.ones(n, np.int64)
        if self.scales is not None:
            scales = check_finite_array(self.scales, "scales", ndim=1)
            if scales.size != n:
                raise ValueError(f"scales must have shape ({n},), got {scales.shape}")
        symbol, scales = int64_or_float64(symbol), int64_or_float64(scales)
        dtype = np.result_type(symbol, scales)
        self._set(symbol=read_only(symbol.astype(dtype)))
        self._set(scales=read_only(scales.astype(dtype)))

    @classmethod
    def of_eigenvalues(
        cls, values: ArrayLike, free_end: str = "none", scales: ArrayLike | None = None
    ) -> Self:
        """Return the matrix with given eigenvalues, but for the scales.

        Parameters
        ----------
        values : array_like, shape (n,)
            Eigenvalue of every wave, in the order of k.
        free_end, scales
            As of the class.
        """
        given = np.asarray(values, np.float64)
        n = given.size
        if free_end == "none":
            symbol = even_transform(np.pad(given, 1), 2 * n + 2)
        else:
            waves = np.pad(_with_odd_places(given), (1, 0))
            symbol = _with_even_places(even_transform(waves, 2 * n + 1))
        made = cls(symbol, free_end, scales)
        made._set(eigenvalues=read_only(given))
        return made

    def with_scales(self, scales: ArrayLike) -> Self:
        """Return the matrix with other factors of columns, at no transform."""
        made = type(self)(self._symbol, self.free_end, scales)
        if "eigenvalues" in vars(self):
            made._set(eigenvalues=self.eigenvalues)
        return made

    _symbol = held("symbol", Array)

    _scales = held("scales", Array)

    n = held("_scales.size", int)
    """Number of cells, and of queries."""

    shape = square("n")
    dtype = held("_symbol.dtype", np.dtype)

    def _arguments(self) -> str:
        end = "" if self.free_end == "none" else f", {self.free_end} end free"
        return f"{self.n} cells{end}"

    @property
    def half_period(self) -> int:
        """Half the period of the symbol: n + 1, or 2n + 1 with a free end."""
        return self.n + 1 if self.free_end == "none" else 2 * self.n + 1

    @cached_property
    def period(self) -> Array:
        """The symbol at 0 to twice `half_period`, that one left out."""
        if self.free_end == "none":
            return read_only(np.concatenate([self._symbol, self._symbol[-2:0:-1]]))
        half = np.concatenate([self._symbol, -self._symbol[:0:-1]])
        return read_only(np.concatenate([half, -half]))

    def between(self, start: int, stop: int) -> Array:
        """Return the symbol at start to stop - 1, within a period of zero."""
        if start < 0:
            return np.concatenate([self.period[start:], self.period[:stop]])
        return self.period[start:stop]

    @cached_property
    def eigenvalues(self) -> NDArray[np.float64]:
        """Eigenvalue of every wave, without the scales, shape (n,)."""
        if self.free_end == "none":
            length = 2 * self.n + 2
            whole = even_transform(float(length) * self._symbol, length)
            return read_only(whole[1:-1])
        # At even places the symbol has half the period, and all that there is to know.
        length = 2 * self.n + 1
        waves = even_transform(float(length) * self.period[:length:2], length)[1:]
        return read_only(np.concatenate([waves[::2], waves[1::2][::-1]]))

    # ---- products ------------------------------------------------------------------

    @cached_property
    def _spectra(self) -> tuple[NDArray[np.complex128], ...]:
        length = next_fast_len(2 * self.n, real=True)
        toeplitz, hankel = _around(self.period, self.n, length)
        return rfft(toeplitz.astype(np.float64)), rfft(hankel.astype(np.float64))

    @cached_property
    def _filter(self) -> IntegerFilter:
        toeplitz, hankel = _around(self.period, self.n, _even_power(self.n))
        return IntegerFilter(toeplitz, -hankel)

    def _waves(self, x: Array) -> Array:
        """Multiply by the symmetric matrix without scales."""
        n = self.n
        if self.free_end == "first":
            x = x[::-1]
        if x.dtype == np.int64:
            padded = np.pad(x, ((0, self._filter.n - n), (0, 0)))
            columns = [self._filter(np.ascontiguousarray(c)) for c in padded.T]
            out = np.stack(columns, axis=1) if columns else padded
        else:
            toeplitz, hankel = (spectrum[:, None] for spectrum in self._spectra)
            length = next_fast_len(2 * n, real=True)
            waves = rfft(x, length, axis=0)
            waves = waves * toeplitz - waves.conj() * hankel
            out = irfft(waves, length, axis=0).astype(x.dtype, copy=False)
        out = out[:n]
        return np.ascontiguousarray(out[::-1] if self.free_end == "first" else out)

    def _matmat(self, x: Array, /) -> Array:
        return self._waves(x * self._scales.astype(x.dtype, copy=False)[:, None])

    def _rmatmat(self, y: Array, /) -> Array:
        return self._waves(y) * self._scales.astype(y.dtype, copy=False)[:, None]

    def pinv(self) -> QueryMatrix:
        """Return the inverse, whose eigenvalues are reciprocal, if there is one."""
        if not self.is_regular:
            return super().pinv()
        scales = 1.0 / self._scales.astype(np.float64)
        return Tau.of_eigenvalues(1.0 / self.eigenvalues, self.free_end, scales).T

    @cached_property
    def is_regular(self) -> bool:
        """Whether there is an inverse."""
        sizes = np.abs(self.eigenvalues)
        small = SMALLEST_EIGENVALUE * sizes.max()
        return bool(sizes.min() > small and (self._scales != 0).all())

    # ---- norms ---------------------------------------------------------------------

    def _power_sums(self, power: int, axis: int) -> Array:
        whole = self.dtype == np.int64
        if power == 1 or axis == 1 or (whole and not self.has_squares):
            return super()._power_sums(power, axis)
        squares = np.square(self._scales.astype(np.float64))
        if not whole:
            return squares * self.diagonal_of(np.square(self.eigenvalues))
        return exact_sums(squares * self.squares, self.dtype)

    def diagonal_of(self, eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the diagonal of the matrix with other eigenvalues, without scales."""
        return Tau.of_eigenvalues(eigenvalues, self.free_end).diag()

    @cached_property
    def has_squares(self) -> bool:
        """Whether `squares` fit 64-bit integers."""
        return float(np.square(self.period.astype(np.float64)).sum()) < 2.0**61

    @cached_property
    def squares(self) -> NDArray[np.int64]:
        """The squared length of every column of an integer matrix, unscaled.

        With c the convolution of f with itself over its period, it is c(0) - c(2j).
        With a free end f at even places suffices, and has half of it. Since f is even,
        c is a Toeplitz plus a Hankel matrix, times f at 1 to n. Products with the ends
        of half a period are added.
        """
        n, fixed = self.n, self.free_end == "none"
        period = self.period if fixed else self.period[::2]
        found = IntegerFilter(*_around(period, n, _even_power(n)))
        values = np.pad(period[1 : n + 1], (0, found.n - n))
        c = found(values)[: n + 1] + period[0] * period[1 : n + 2]  # at 1 to n + 1
        places = np.arange(1, n + 1)
        if fixed:
            c += period[n + 1] * period[n::-1]
            places = 2 * np.minimum(places, n + 1 - places)
        squares = np.square(period).sum() - c[places - 1]
        return read_only(squares[::-1].copy() if self.free_end == "first" else squares)

    def diag(self) -> Array:
        values = self._symbol[0] - self.period[2 : 2 * self.n + 1 : 2]
        return (values[::-1] if self.free_end == "first" else values) * self._scales

    def _explicit_entries(self) -> Array:
        i = np.arange(1, self.n + 1)
        entries = self.period[np.subtract.outer(i, i)] - self.period[np.add.outer(i, i)]
        if self.free_end == "first":
            entries = entries[::-1, ::-1]
        return np.ascontiguousarray(entries * self._scales)
