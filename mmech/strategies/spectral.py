r"""Strategies of waves: near the optimum under L2 on ordered domains of any size.

The gram G of all ranges, prefix or suffix sums has sine waves as eigenvectors, and
:math:`A = G^{1/4} D^{-1/2}` with the diagonal D of :math:`G^{1/2}` has columns of
length one. Without D it would attain the bound of singular values, were its columns of
equal length. Nothing of n x n entries is made.

Windows of one width are rows of a circulant matrix, and the fourth root of its gram has
columns of equal length. Those of n cells are kept.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from scipy.fft import irfft, rfft

from mmech.error import expected as error
from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import AllRange, Prefix, Suffix
from mmech.operators.circulant import Toeplitz
from mmech.operators.merged import Merged
from mmech.operators.ranges import WidthRange
from mmech.operators.tau import Tau
from mmech.strategies.registry import Request, Skip, Template
from mmech.strategies.result import StrategyResult
from mmech.structure.shape import closed_singular_values, unscaled

__all__ = ["SPECTRAL", "spectral_strategy"]

FLOOR = 1 / 256
"""Least eigenvalue of the gram of a strategy for windows, relative to their mean."""

MOST_LEFT_OUT = 2**13
"""Cells of a circle that are left out of a strategy, at most: equations for as many
unknowns are solved."""


@singledispatch
def free_end(workload: QueryMatrix) -> str | None:
    """Return the free end of the waves of a gram, ``None`` where they are no waves.

    Those of windows have no end, but a circle.
    """
    return None


free_end.register(AllRange, lambda workload: "none")
free_end.register(Prefix, lambda workload: "first")
free_end.register(Suffix, lambda workload: "last")
free_end.register(WidthRange, lambda workload: "circle")


def spectral_strategy(workload: QueryMatrix) -> StrategyResult:
    """Scale the columns of the fourth root of the gram to length one.

    The loss is above the bound of singular values by 1.3 % for all ranges of 1,024
    cells and .4 % of 2^20, and by 3.5 % and 1.3 % for prefix sums. For windows of n/30
    cells it is 2 % above, of n/6 cells 9 %, and up to 30 % for wider ones whose width
    does not divide n.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        An `AllRange`, `Prefix`, `Suffix` or `WidthRange`, or a multiple of one.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is another.

    References
    ----------
    .. [1] Li, Miklau, "Optimal error of query sets under the differentially-private
       matrix mechanism", ICDT 2013, Theorem 4 (the bound).
    """
    queries = unscaled(workload)
    end = free_end(queries)
    if end is None:
        raise UnsupportedWorkloadError(
            "template 'spectral' needs an AllRange, Prefix, Suffix or WidthRange, got "
            f"{workload!r}; use template='dense', 'kronecker' or 'pidentity'"
        )
    strategy = _on_a_circle(queries) if end == "circle" else _on_a_line(queries, end)
    loss = error.loss(workload, strategy, privacy="zcdp")
    message = "the fourth root of the gram, with columns of length one"
    return StrategyResult(strategy, "spectral", loss, message=message)


def _on_a_line(workload: QueryMatrix, end: str) -> QueryMatrix:
    roots = closed_singular_values(workload)
    assert roots is not None
    waves = Tau.of_eigenvalues(np.sqrt(roots), end)
    scales = 1.0 / np.sqrt(waves.diagonal_of(roots))
    return Tau.of_eigenvalues(waves.eigenvalues, end, scales)


def _on_a_circle(workload: QueryMatrix) -> QueryMatrix:
    """Return n columns of the root of windows over a circle.

    A circle of a multiple of the width has the fewest waves that its windows see, which
    makes the strategy cheap. Cells that all windows share are one cell.
    """
    m, n = workload.shape
    width = n - m + 1
    if width > m:
        cells = np.arange(n)
        groups = np.minimum(cells, m - 1) + np.maximum(cells - (width - 1), 0)
        return Merged(_on_a_circle(WidthRange(2 * m - 1, m)), groups)
    size = -(-n // width) * width
    size = n if size - n > MOST_LEFT_OUT else size
    sizes = np.abs(rfft(np.arange(size) < width))
    column = irfft(np.sqrt(np.maximum(sizes, FLOOR * sizes.mean())), size)
    column /= np.linalg.norm(column)
    return Toeplitz(column, [column[0], *column[::-1][: n - 1]])


def look_at_waves(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out workloads whose gram has no waves."""
    if free_end(unscaled(workload)) is None:
        return Skip("no ranges, windows or prefix sums of one ordered attribute")
    return None


SPECTRAL = Template("spectral", spectral_strategy, 25, ("L2",), look_at_waves)
