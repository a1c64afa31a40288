r"""The optimum under L2 sensitivity, explicit, by the dual iteration.

Unlike the L1 problem this one is convex in the gram of the strategy, so optima come
with a proof. Put :math:`\phi(p) = \|W P^{1/2}\|_*` for probabilities P = diag(p) of the
cells. The least loss is the maximum of :math:`\phi(p)^2`. A strategy with gram
:math:`P^{-1/2} (P^{1/2} W^T W P^{1/2})^{1/2} P^{-1/2}` attains it (`dual_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from mmech.arrays import Floats
from mmech.checks import check_integer, check_nonnegative
from mmech.error import bounds
from mmech.error import expected as error
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.families.separable import AllRange, Prefix, Suffix
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Merged
from mmech.operators.explicit import Dense
from mmech.operators.known import normal_form
from mmech.reduction.cells import reduce_domain
from mmech.strategies.closed_form import has_closed_form, identity_strategy
from mmech.strategies.registry import TOO_LARGE, Request, Skip, Template, time_is_up
from mmech.strategies.spectral import spectral_strategy

REPAIRS = 2
"""Strategies that are made explicit before the best is taken."""

SVD_ENTRIES = 2**24
"""Up to this size singular values are computed without squaring them, where needed."""

NEAR_OPTIMUM = 5e-3
"""Gap to the optimum at which "auto" stops with many queries of more cells."""

REGULAR = 1e-8
"""Ratio of the extreme eigenvalues of a gram above which squares suffice."""


def look_at_dense(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out what has a closed form, products, and what is too large."""
    if has_closed_form(workload):
        return Skip("weighted residuals are optimal in closed form")
    products = normal_form(workload).products
    if products is not None and len(products) == 1 and len(products[0][1]) > 1:
        return Skip("the factors of a product are optimized one by one")
    if not _is_in_reach(reduce_domain(workload)[0]):
        return Skip(f"{TOO_LARGE}eigendecompositions of its size are out of reach")
    return None


def _is_in_reach(workload: QueryMatrix) -> bool:
    m, n = workload.shape
    return min(m, n) <= LIMITS.dual_cells and min(m, n) * n <= LIMITS.dual_entries


def dual_strategy(
    workload: QueryMatrix,
    *,
    max_iter: int = 300,
    tolerance: float = 2e-5,
    callback: Callback | None = None,
) -> StrategyResult:
    """Solve the dual and return the explicit strategy that belongs to its solution.

    Optimal among all strategies up to the gap in its message.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer; the smaller side is at most 3000 once cells that no query
        tells apart are merged.
    max_iter : int, default=300
        Limit on iterations of the dual.
    tolerance : float, default=2e-5
        Relative gap between the bounds of the dual at which to stop.
    callback : callable, default=None
        Called for every strategy that is made of a solution, of which the first is most
        often the last.
    """
    max_iter = check_integer(max_iter, "max_iter")
    check_nonnegative(tolerance, "tolerance")
    reduced, groups = reduce_domain(workload)
    if not _is_in_reach(reduced):
        raise DomainTooLargeError(
            f"template 'dense' needs eigendecompositions of size {min(reduced.shape)} "
            f"for {workload!r}, above {LIMITS.dual_cells}, or a strategy of more than "
            f"{LIMITS.dual_entries} entries; use template='residuals' or 'identity', "
            "or a workload with Kronecker structure"
        )
    start = first_update(reduced)
    dual = bounds.dual_loss_bound(
        reduced, max_iter=max_iter, tolerance=tolerance, stop=time_is_up, start=start
    )
    if dual.bound == 0.0:  # nothing is asked
        return replace(identity_strategy(workload, norm="L2"), template="dense")
    assert dual.distribution is not None
    p, best = dual.distribution, None
    for _ in range(REPAIRS):
        candidate = strategy_of(reduced, p)
        with suppress(UnsupportedWorkloadError):
            loss = error.loss(reduced, candidate, privacy="zcdp")
            if best is None or loss < best.loss:
                gap = max(loss / dual.bound - 1.0, 0.0)
                best = StrategyResult(
                    candidate if reduced is workload else Merged(candidate, groups),
                    "dense",
                    loss,
                    n_iter=dual.n_iter,
                    success=gap <= 2.0 * tolerance,
                    message=f"gap {gap:.1e} to the least loss after {dual.n_iter} "
                    "iterations",
                    history=(loss,),
                )
            if callback is not None and callback(best):
                break
        if best is not None and best.loss <= dual.bound * (1.0 + 2.0 * tolerance):
            break
        # Rounding can hide short columns from the dual. Where the column of A is too
        # long, p_j = ‖w_j‖² / φ², never below the optimum, makes it short enough.
        limit = math.sqrt(dual.bound) * (1.0 + 2.0 * tolerance)
        long = candidate.column_square_sums() > limit
        p = np.where(long, reduced.column_square_sums() / dual.bound, p)
        p /= p.sum()
    if best is None:
        reason = "rounding lost some queries: the columns are of very different size"
        cells = identity_strategy(workload, norm="L2")
        best = replace(cells, success=False, message=reason)
    return best


@singledispatch
def first_update(workload: QueryMatrix) -> Floats | None:
    """Return the first update of uniform probabilities where waves know it."""
    return None


@first_update.register(AllRange | Prefix | Suffix)
def _(workload: AllRange | Prefix | Suffix) -> Floats:
    """Square the diagonal of G^½, whose root the spectral strategy divides by."""
    strategy: Any = spectral_strategy(workload).strategy
    start = strategy._scales**-4.0
    return np.asarray(start / start.sum())


def strategy_of(workload: QueryMatrix, p: Floats) -> QueryMatrix:
    """Return A with AᵀA = P^-½ (P^½ V P^½)^½ P^-½ from probabilities of the cells.

    Where it has full column rank its columns are scaled to length one.

    W P^½ = U Σ Zᵀ has singular vectors, and A is Σ^½ Zᵀ P^-½. The same Σ^-½ Uᵀ W keeps
    a workload of few queries implicit.
    """
    m, n = workload.shape
    roots = np.sqrt(p)
    if m < n:
        rows = workload._dense() * roots
        left, singular = _left_factors(rows, lambda: rows @ rows.T)
        return Dense((left / np.sqrt(singular)).T) @ workload
    gram = workload.gram()._dense().astype(np.float64)
    columns = workload._dense().T * roots[:, None] if m * n <= SVD_ENTRIES else None
    right, singular = _left_factors(columns, lambda: gram * roots[:, None] * roots)
    inverse = np.divide(1.0, roots, out=np.zeros(n), where=np.diagonal(gram) > 0)
    strategy = (right * np.sqrt(singular)).T * inverse
    if singular.size == n:
        strategy /= np.linalg.norm(strategy, axis=0)
    return Dense(strategy)


def _left_factors(
    matrix: Floats | None, product: Callable[[], Floats]
) -> tuple[Floats, Floats]:
    """Return left singular vectors and values of B, leaving out what is rounding.

    From B Bᵀ, which resolves half the digits, where these suffice or B is large.
    """
    squares, left = np.linalg.eigh(product())
    regular = squares[0] > REGULAR * squares[-1]
    if matrix is not None and matrix.size <= SVD_ENTRIES and not regular:
        left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
        keep = singular > max(matrix.shape) * np.finfo(float).eps * singular[0]
        return left[:, keep], singular[keep]
    keep = squares > squares.size * np.finfo(float).eps * squares[-1]
    return left[:, keep], np.sqrt(squares[keep])


def _in_auto(workload: QueryMatrix, options: dict[str, Any]) -> dict[str, Any]:
    """Stop earlier where an iteration over many queries takes seconds."""
    m, n = workload.shape
    many = LIMITS.quick_dual_cells < m < n
    return {"tolerance": NEAR_OPTIMUM} | options if many else options


DENSE = Template(
    "dense", dual_strategy, 30, ("L2",), look_at_dense, _in_auto, is_near=True
)
