r"""Strategies of waves: near the optimum under L2 on ordered domains of any size.

The gram G of all ranges, prefix or suffix sums has sine waves as eigenvectors. With the
diagonal D of :math:`G^{1/2}`, :math:`A = G^{1/4} D^{-1/2}` has columns of length one.
Without D it would attain the bound of singular values, were its columns of equal
length. Nothing of n x n entries is made.

Windows of one width are rows of a circulant matrix, and the fourth root of its gram has
columns of equal length. Those of n cells are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from mmech.arrays import Floats
from mmech.error import pairs
from mmech.error.result import StrategyResult
from mmech.error.rules import known_gain
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.families.circulant import MOST_LEFT_OUT, on_a_circle
from mmech.families.ranges import Ranges, WidthRange
from mmech.families.separable import AllRange
from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Merged, Product
from mmech.operators.convolution import MOST_CELLS
from mmech.operators.known import normal_form
from mmech.operators.tau import Tau
from mmech.reduction.cells import reduce_domain
from mmech.strategies.registry import Request, Skip, Template
from mmech.structure.blocks import energies, separable_terms, strategies_of, waves_of
from mmech.structure.shape import unscaled


@waves_of.register(Product)
def _(workload: Product) -> str | None:
    """Take those of ranges whose columns are scaled, as if they were not."""
    if workload._scaled_columns is None or separable_terms(workload) is None:
        return None
    return waves_of(workload._scaled_columns[0])


def suits_waves(workload: QueryMatrix) -> bool:
    """Whether a workload is made of ranges and sums of one ordered attribute."""
    if normal_form(workload).domain_shape not in (None, (workload.shape[1],)):
        return False
    parts = normal_form(workload).blocks
    kinds = {waves_of(block) for _, block in parts}
    asked = any(weight != 0 for weight, _ in parts)
    return None not in kinds and bool(kinds - {"any"}) and asked


@energies.register(Product)
def _(workload: Product, angles: Floats) -> Floats:
    assert workload._scaled_columns is not None
    rest, scales = workload._scaled_columns
    return np.square(scales).mean() * energies(rest, angles)


def spectral_strategy(workload: QueryMatrix) -> StrategyResult:
    """Scale the columns of the fourth root of the gram to length one.

    The loss is above the bound of singular values by 1.3 % for all ranges of 1,024
    cells and .4 % of 2^20, and by 3.5 % and 1.3 % for prefix sums. For windows of n/30
    cells it is 2 % above, of n/6 cells 9 %, and up to 37 % for wider ones whose width
    does not divide n; above 10,000 cells the bound itself is weaker. For a union of
    these the grams add up as if they had the same waves: the best of all waves is
    within 3 % of the optimum. Ranges whose columns are scaled have the waves of those
    that are not. Listed ranges count as all ranges of the cells that they tell apart,
    within 30 %.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries `AllRange`, `Prefix`, `Suffix`, `WidthRange` or `Ranges` of one
        attribute, and unions of weighted ones with `Identity` and `Total`.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is another.
    DomainTooLargeError
        If listed ranges are too many to add up their errors, or cells too many for
        exact sums of waves.

    References
    ----------
    .. [1] Li, Miklau, "Optimal error of query sets under the differentially-private
       matrix mechanism", ICDT 2013, Theorem 4 (the bound).
    """
    queries = unscaled(workload)
    if not suits_waves(queries):
        raise UnsupportedWorkloadError(
            "template 'spectral' needs ranges, windows or prefix sums of one ordered "
            f"attribute, got {workload!r}; use template='dense', 'kronecker' or "
            "'pidentity'"
        )
    if queries.shape[1] > MOST_CELLS // 2:
        raise DomainTooLargeError(
            f"template 'spectral' cannot measure {queries.shape[1]} cells exactly; use "
            f"at most {MOST_CELLS // 2} cells"
        )
    best, least = None, math.inf
    for strategy in strategies_of(queries) or _by_energies(queries):
        _, asked, inner = pairs.unwrapped(strategy, workload)
        loss: float | None = known_gain(asked, inner)  # columns have length one
        if loss is not None and loss < least:
            best, least = strategy, loss
    if best is None:
        raise DomainTooLargeError(
            f"template 'spectral' cannot add up the errors of {workload!r} in seconds; "
            "use fewer ranges, or template='identity'"
        )
    message = "the fourth root of the gram, with columns of length one"
    return StrategyResult(best, "spectral", least, message=message)


def _by_energies(workload: QueryMatrix) -> Iterator[QueryMatrix]:
    """Yield strategies for queries, of which the best is to be taken."""
    n = workload.shape[1]
    parts = normal_form(workload).blocks
    kinds = {waves_of(block) for _, block in parts}
    ends = ({"none"} if len(kinds - {"any"}) > 1 else kinds) | kinds
    half_periods = {"none": n + 1.0, "first": n + 0.5, "last": n + 0.5}
    for end, half_period in half_periods.items():
        if end in ends:
            steps = np.arange(1.0, n + 1) - (end != "none") / 2
            roots = np.sqrt(_added(parts, steps * (math.pi / half_period)))
            waves = Tau.of_eigenvalues(np.sqrt(roots), end)
            yield waves.with_scales(1.0 / np.sqrt(waves.diagonal_of(roots)))
    if "circle" in kinds or {"first", "last"} <= kinds:
        size = n + min(n, MOST_LEFT_OUT)
        angles = np.arange(size // 2 + 1.0) * (2 * math.pi / size)
        yield on_a_circle(np.sqrt(_added(parts, angles)), size, n)


def _added(
    parts: tuple[tuple[float, QueryMatrix], ...], angles: NDArray[Any]
) -> Floats:
    terms = [weight**2 * energies(block, angles) for weight, block in parts]
    return np.asarray(np.sum(terms, axis=0), np.float64)


@strategies_of.register(Product)
def _(workload: Product) -> Iterator[QueryMatrix]:
    """Yield waves for the ranges, with columns of length one or scaled alike."""
    yield from _by_energies(workload)
    assert workload._scaled_columns is not None
    rest, scales = workload._scaled_columns
    for waves in (strategies_of(rest) or _by_energies(rest)) if scales.all() else ():
        if isinstance(waves, Tau):
            yield waves.with_scales(waves._scales * (scales / np.abs(scales).max()))


@strategies_of.register(WidthRange)
def _(workload: WidthRange) -> Iterator[QueryMatrix]:
    """Yield one for windows over a circle of a multiple of their width.

    It has the fewest waves that windows see, which makes it cheap. Cells that all
    windows share are one cell.
    """
    m, n = workload.shape
    width = workload.width
    if width > m:
        cells = np.arange(n)
        groups = np.minimum(cells, m - 1) + np.maximum(cells - (width - 1), 0)
        for strategy in strategies_of(WidthRange(2 * m - 1, m)) or ():
            yield Merged(strategy, groups)
        return
    size = -(-n // width) * width
    size = n if size - n > MOST_LEFT_OUT else size
    yield on_a_circle(np.abs(rfft(np.arange(size) < width)), size, n)


@strategies_of.register(Ranges)
def _(workload: Ranges) -> Iterator[QueryMatrix]:
    """Yield those of all ranges of the cells that the listed ones tell apart."""
    reduced, groups = reduce_domain(workload)
    for strategy in _by_energies(AllRange(reduced.shape[1])):
        yield strategy if reduced is workload else Merged(strategy, groups)


def look_at_waves(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out workloads whose gram has no waves."""
    if not suits_waves(unscaled(workload)):
        return Skip("no ranges, windows or prefix sums of one ordered attribute")
    return None


SPECTRAL = Template(
    "spectral", spectral_strategy, 25, ("L2",), look_at_waves, is_near=True
)
