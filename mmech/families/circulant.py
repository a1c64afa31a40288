r"""Filters over a circle of cells: their optimum under L2 has a closed form.

The gram of a circulant matrix has the waves of the circle as eigenvectors. The
circulant matrix A with :math:`A^T A = (W^T W)^{1/2}` attains the bound of singular
values: its columns are of equal length. The same holds for unions, whose grams add up.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from scipy.fft import fft, irfft

from mmech.arrays import Floats
from mmech.error.pairs import SUPPORT_TOLERANCE, unsupported
from mmech.error.result import StrategyResult
from mmech.error.rules import known_gain, known_rows
from mmech.exceptions import UnsupportedWorkloadError
from mmech.integer_strategy import (
    IntegerBlock,
    IntegerStrategy,
    by_structure,
    check_filter,
)
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.circulant import ZERO_EIGENVALUE, Toeplitz
from mmech.operators.circulant import Circulant as Circulant
from mmech.operators.convolution import MOST_CELLS
from mmech.operators.known import normal_form
from mmech.strategies.registry import Request, Skip, Template
from mmech.structure.blocks import Moved, moved
from mmech.structure.shape import unscaled

FLOOR = 2.0**-12
"""Least eigenvalue of the gram of a strategy, relative to their mean: it is rounded to
integers, and then every wave is measured."""


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

    return Moved(reach, over)


# ---- pairs, and what is measured --------------------------------------------------


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


@by_structure.register(Circulant)
def _(strategy: Circulant, norm: str, bits: int) -> IntegerStrategy | None:
    """Round the column, and measure the matrix as one of constant diagonals."""
    if strategy.dtype == np.int64:
        return None
    check_filter(strategy, 2 * strategy.n, MOST_CELLS // 2)
    column = strategy._column
    whole = np.rint(column * (2**bits / np.abs(column).max())).astype(np.int64)
    matrix = Toeplitz(whole, np.roll(whole[::-1], 1))
    return IntegerStrategy((IntegerBlock(matrix),), Circulant(whole), norm)


# ---- the template -----------------------------------------------------------------


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
    floor = max(FLOOR * roots.mean(), np.finfo(float).tiny)
    column = irfft(np.sqrt(np.maximum(roots, floor))[: n // 2 + 1], n)
    strategy = Circulant(column / np.linalg.norm(column))
    return StrategyResult(
        strategy,
        "circulant",
        float(known_gain(workload, strategy)),
        message=f"closed form, within {FLOOR:.2%} of the optimum",
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
