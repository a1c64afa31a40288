r"""Filters over ordered cells: strategies of the waves of a larger circle.

A causal filter W is a triangular Toeplitz matrix, and its products with triangular
Toeplitz matrices are too. So norms of W A⁺ follow from the inverse gram of columns of a
circulant matrix, :math:`(L_x L_x^T - L_y L_y^T) / x_0` (`mmech.error.section_gains`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.fft import next_fast_len, rfft
from scipy.signal import fftconvolve

from mmech.arrays import Floats
from mmech.error.rules import known_rows
from mmech.error.section_gains import inverse_columns
from mmech.operators.base import QueryMatrix
from mmech.operators.circulant import Toeplitz as Toeplitz
from mmech.strategies.spectral import (
    MOST_LEFT_OUT,
    energies,
    on_a_circle,
    strategies_of,
    waves_of,
)
from mmech.structure.blocks import Moved, moved


def _filter(workload: Toeplitz) -> Floats | None:
    """Return the column of a square triangular matrix, on whichever side it is."""
    column, row = workload._column.astype(float), workload._row.astype(float)
    if column.size != row.size or (column[1:].any() and row[1:].any()):
        return None
    return row if row[1:].any() else column


@known_rows.rule(Toeplitz, Toeplitz)
def _(workload: Toeplitz, strategy: Toeplitz) -> Floats | None:
    taps = _filter(workload)
    if taps is None or strategy.whole is None:
        return None
    first, second, x0 = inverse_columns(strategy)
    both = (fftconvolve(taps, column)[: taps.size] for column in (first, second))
    gains = np.cumsum(np.subtract(*map(np.square, both))) / x0
    return gains if workload._column[1:].any() else gains[::-1].copy()


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
