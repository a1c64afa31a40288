"""Circular convolutions of integers, exact by number theoretic transforms.

A wrong rounding would break privacy without a word, so nothing here is a float. Three
primes below 2^31 tell apart whole numbers of magnitude below 2^91, and two of them
numbers below 2^60. Results are modulo 2^64, exact for every sum that fits 64 bits.

References
----------
.. [1] Nussbaumer, "Fast Fourier Transform and Convolution Algorithms", 1982, chapter 8.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Integers

Residues = NDArray[np.uint32]

PRIMES = ((2013265921, 31), (2113929217, 5), (1811939329, 13))
"""Primes below 2^31, and a primitive root of each."""

MOST_CELLS = 2**25
"""Longest transform: 2^25 divides each prime less one."""

LARGEST_NORM = 2**58
"""Bound on the L1 norm of a filter: two halves of a 64-bit value then stay apart."""

KEPT_APART = {2: 2.0**60, 3: 2.0**90}
"""Sums of smaller magnitude, by floats, are told apart by residues of so many primes:
below half their product, with a margin for the rounding of floats."""


@lru_cache(maxsize=3)
def _roots(prime: int, generator: int, n: int) -> tuple[Residues, ...]:
    """Return roots of unity (n/2,) in bit-reversed order, quotients, and inverses."""
    sides: list[Residues] = []
    for base in (generator, pow(generator, -1, prime)):
        roots = np.ones(max(n // 2, 1), np.uint64)
        size = 1
        while size < roots.size:
            step = pow(base, (prime - 1) // (4 * size), prime)
            roots[size : 2 * size] = roots[:size] * np.uint64(step) % np.uint64(prime)
            size *= 2
        quotients = (roots << np.uint64(32)) // np.uint64(prime)
        sides += [roots.astype(np.uint32), quotients.astype(np.uint32)]
    return tuple(sides)


def _mirrored(part: Residues) -> Residues:
    """Return the transform of values read backwards, in bit-reversed order."""
    out, start = part.copy(), 2
    while start < part.size:
        out[start : 2 * start] = part[start : 2 * start][::-1]
        start *= 2
    return out


class IntegerFilter:
    """Circular convolution with one vector of integers.

    Parameters
    ----------
    column : ndarray of int64, shape (n,)
        What is convolved with; n is a power of two, at most 2^25.
    mirrored : ndarray of int64, shape (n,), default=None
        What the values read backwards, ``values[-i % n]``, are convolved with. Both
        convolutions are added.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.operators.convolution import IntegerFilter
    >>> IntegerFilter(np.array([1, -1, 0, 0]))(np.array([2**61, 1, 5, 7])).tolist()
    [2305843009213693945, -2305843009213693951, 4, 2]
    """

    def __init__(self, column: Integers, mirrored: Integers | None = None) -> None:
        self.n = column.size
        self._columns = [column.copy()]
        if mirrored is not None:
            self._columns.append(mirrored.copy())
        if self.n & (self.n - 1) or not 0 < self.n <= MOST_CELLS:
            raise ValueError(
                "a filter needs a power of two of cells, at most "
                f"{MOST_CELLS}, got {self.n}"
            )
        norms = [np.abs(part.astype(np.float64)).sum() for part in self._columns]
        self._norm = float(sum(norms))
        if self._norm >= LARGEST_NORM:
            raise ValueError(
                "the magnitudes of a filter must add up to less than 2**58, got "
                f"{self._norm:.3g}; scale it down"
            )
        self._spectra: dict[int, list[Residues]] = {}

    def _transformed(self, values: Integers, prime: int, generator: int) -> Residues:
        from mmech import _kernels

        out = np.empty(self.n, np.uint32)
        _kernels.residues(np.ascontiguousarray(values), prime, out)
        roots, quotients, *_ = _roots(prime, generator, self.n)
        _kernels.number_transform(out, roots, quotients, prime)
        return out

    def __call__(self, values: Integers) -> Integers:
        """Return the convolution with values (n,) of int64, modulo 2^64."""
        largest = float(np.abs(values.astype(np.float64)).max()) * self._norm
        for primes, limit in KEPT_APART.items():
            if largest < limit:
                return self._convolved(values, PRIMES[:primes])
        high = values >> 32
        low = self._convolved(values - (high << 32), PRIMES)
        return low + (self._convolved(high, PRIMES) << 32)

    def _convolved(
        self, values: Integers, primes: tuple[tuple[int, int], ...]
    ) -> Integers:
        from mmech import _kernels

        parts = []
        for prime, generator in primes:
            if prime not in self._spectra:
                self._spectra[prime] = [
                    self._transformed(column, prime, generator)
                    for column in self._columns
                ]
            part = self._transformed(values, prime, generator)
            scale = pow(self.n, -1, prime)
            first, *others = self._spectra[prime]
            back = _mirrored(part) if others else part
            _kernels.multiply_residues(part, first, scale, prime, part)
            for other in others:
                _kernels.multiply_residues(back, other, scale, prime, back)
                part += back
                np.minimum(part, part - np.uint32(prime), out=part)
            *_, roots, quotients = _roots(prime, generator, self.n)
            _kernels.number_transform_back(part, roots, quotients, prime)
            parts.append(part)
        # The third of two primes is one, modulo which all residues are zero.
        p1, p2, p3 = (*(prime for prime, _ in primes), 1)[:3]
        out = np.empty(self.n, np.int64)
        inverses = pow(p1, -1, p2), pow(p1 * p2, -1, p3)
        _kernels.join_residues(*[*parts, parts[0]][:3], p1, p2, p3, *inverses, out)
        if p3 == 1:
            out[out > p1 * p2 // 2] -= p1 * p2
        return out
