r"""p-Identity strategies under L2 sensitivity, where the dual is out of reach.

A = [I; Θ] diag(1 / s) with :math:`s_j = \sqrt{1 + \|\theta_j\|_2^2}` has columns of
length one for Θ of any sign. As many rows Θ as cells reach every strategy; a quarter of
them comes within a few percent of the optimum on ranges. Only products with the gram
of the workload are needed, O(n p) memory and no n x n matrix. For unions of products
one p-Identity per attribute descends in turn on its surrogate gram.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.error import bounds
from mmech.error import expected as error
from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity
from mmech.operators.kronecker import Kronecker
from mmech.operators.pidentity import PIdentity
from mmech.strategies.kronecker import SurrogateGrams, alternate_factors
from mmech.strategies.pidentity import (
    check_tolerance,
    minimize_pidentity,
)
from mmech.strategies.result import StrategyResult
from mmech.strategies.starts import random_starts
from mmech.structure.shape import frobenius_squared, kronecker_terms

__all__ = ["gaussian_pidentity", "gaussian_union"]

Floats = NDArray[np.float64]

MAX_ROWS = 64
"""Largest default number of extra queries."""

SEED = 0
"""Starts are the same in every run: nothing under zCDP takes a seed."""


def default_rows(n_cells: int) -> int:
    """Return the default number of extra queries: a quarter of the cells, 4 to 64."""
    return min(n_cells, max(4, min(n_cells // 4, MAX_ROWS)))


def gaussian_pidentity(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    max_iter: int = 200,
    tolerance: float = 1e-5,
) -> StrategyResult:
    """Descend on one p-Identity for the whole domain.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer; only products with its gram are used.
    p : int, default=None
        Number of extra queries; a quarter of the cells, at most 64, when omitted.
    max_iter : int, default=200
        Limit on iterations.
    tolerance : float, default=1e-5
        Relative decrease at which to stop.

    Returns
    -------
    StrategyResult
        Never worse than the identity.
    """
    n = workload.shape[1]
    p = default_rows(n) if p is None else check_integer(p, "p")
    check_integer(max_iter, "max_iter")
    check_tolerance(tolerance)
    start = next(random_starts(n, p, np.random.default_rng(SEED), 1))
    run = minimize_pidentity(
        workload.gram(), start, max_iter=max_iter, tolerance=tolerance, norm="L2"
    )
    return _result(
        workload,
        _factor(run.columns),
        "pidentity",
        n_iter=len(run.history),
        success=run.success,
        history=run.history,
        ended=f"{len(run.history)} iterations with {p} extra queries",
    )


def gaussian_union(
    workload: QueryMatrix,
    *,
    max_iter: int,
    tolerance: float,
) -> StrategyResult:
    """Descend on one p-Identity per attribute of a union of products, in turn.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        A `VStack` of (scaled) Kroneckers with equal factor sizes.
    max_iter : int
        Iterations per factor and sweep.
    tolerance : float
        Relative decrease per sweep at which to stop.

    Returns
    -------
    StrategyResult
        Never worse than the identity.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is not a union of products.
    """
    terms = kronecker_terms(workload)
    if terms is None:
        raise UnsupportedWorkloadError(
            f"template 'kronecker' needs a Kronecker or a VStack of Kroneckers with "
            f"equal factor sizes, got {workload!r}; use template='pidentity' or 'dense'"
        )
    sizes = [factor.shape[1] for factor in terms[0][1]]
    rng = np.random.default_rng(SEED)
    starts = [next(random_starts(n, default_rows(n), rng, 1)) for n in sizes]
    thetas, history, success = alternate_factors(
        starts,
        np.array([weight for weight, _ in terms]),
        [SurrogateGrams([f[i] for _, f in terms]) for i in range(len(sizes))],
        max_iter,
        tolerance,
        "L2",
    )
    return _result(
        workload,
        Kronecker([_factor(theta) for theta in thetas]),
        "kronecker",
        n_iter=len(history),
        success=success,
        history=tuple(history),
        ended=f"{len(history)} sweeps over {len(sizes)} factors",
    )


def _factor(columns: Floats) -> QueryMatrix:
    rows = columns.T[columns.any(axis=0)]
    return PIdentity(rows, norm="L2") if rows.size else Identity(len(columns))


def _result(
    workload: QueryMatrix,
    strategy: QueryMatrix,
    template: str,
    *,
    ended: str,
    **details: Any,
) -> StrategyResult:
    """Return the strategy, or the identity if that is better, and what is known."""
    loss = error.loss(workload, strategy, privacy="zcdp")
    identity = frobenius_squared(workload)
    if identity <= loss:
        strategy, loss = Identity(workload.shape[1]), identity
        ended += "; no better than the identity"
    bound, name = bounds.cheap_loss_bound(workload)
    if bound > 0 and name != "largest column":  # which is no estimate of the optimum
        ended += f"; at most {loss / bound:.4g} times the least loss ({name} bound)"
    return StrategyResult(strategy, template, loss, message=ended, **details)
