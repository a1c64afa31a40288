"""Row reweighting: a monotone polish of any strategy, and strategies of few rows.

Multiply row i of a strategy by x_i > 0. With G = Aᵀdiag(x²)A and
ρ_i = x_i⁴ ‖W G⁺ a_i‖², the loss is Σ_i ρ_i / x_i² under |A|ᵀx ≤ 1. Solving for x with ρ
fixed, then updating ρ, never increases the loss: least squares and budgets each
minimise the same function. The inner problem has x_i = (2 ρ_i / (|A| μ)_i)^{1/3} with
multipliers μ of the cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer, check_nonnegative
from mmech.error import expected as error
from mmech.exceptions import UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal
from mmech.operators.explicit import Dense, Matrix, as_pair
from mmech.strategies.registry import Request, Skip, Template
from mmech.strategies.result import StrategyResult
from mmech.structure.attributes import marginals_of
from mmech.threads import one_blas_thread

Floats = NDArray[np.float64]

LOW_RANK_ROWS = 128
LOW_RANK_CELLS = 1024
"""Largest workload of few queries that "auto" reweights."""

INNER_ITERATIONS = 60


@one_blas_thread()
def reweight(
    workload: Matrix, strategy: Matrix, *, max_iter: int = 50, tolerance: float = 1e-6
) -> StrategyResult:
    """Polish a strategy by the weights of its rows; never makes it worse.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries to answer, of rank at most 1024.
    strategy : the same, shape (p, n), or StrategyResult
        Strategy that supports them; made explicit.
    max_iter : int, default=50
        Number of updates.
    tolerance : float, default=1e-6
        Relative decrease at which to stop.

    Returns
    -------
    StrategyResult
        With strategy ``Diagonal(x) @ strategy``, or the given strategy where
        reweighting did not help.

    Raises
    ------
    UnsupportedWorkloadError
        If the strategy is too large to be made explicit.

    Examples
    --------
    >>> from mmech import Identity, Prefix, Total, VStack, loss, reweight
    >>> flat = VStack([Identity(16), Total(16)])
    >>> round(loss(Prefix(16), flat)), round(reweight(Prefix(16), flat).loss)
    (192, 135)
    """
    check_integer(max_iter, "max_iter")
    check_nonnegative(tolerance, "tolerance")
    workload, strategy = as_pair(workload, strategy)
    before = error.loss(workload, strategy)
    if before == 0:
        return StrategyResult(strategy, "reweight", before, message="nothing is asked")
    rows = strategy._dense().astype(np.float64)
    basis, answers = _row_space(workload, strategy)
    asked = rows.any(axis=1)  # zero rows have no weight to choose
    weights = np.zeros(rows.shape[0])
    weights[asked], history, success = _descend(
        rows[asked], rows[asked] @ basis, answers, max_iter, tolerance
    )
    polished = Diagonal(weights) @ strategy
    after = error.loss(workload, polished)
    if after >= before:
        return StrategyResult(strategy, "reweight", before, message="no gain")
    return StrategyResult(
        polished,
        "reweight",
        after,
        n_iter=len(history),
        success=success,
        message=f"rows reweighted, loss {before:.6g} before",
        history=tuple(history),
    )


def low_rank_strategy(
    workload: QueryMatrix, *, max_iter: int = 50, tolerance: float = 1e-6
) -> StrategyResult:
    """Measure weighted queries and sums of neighbouring queries: A = S W.

    S holds the identity and a binary tree of sums over the rows of W; reweighting drops
    what does not help. Suits workloads of few queries over many cells, of rank at most
    1024; never worse than measuring the workload itself (S = I). Options are those of
    `reweight`.
    """
    m, n = workload.shape
    if m > LIMITS.reweighted_rank or 2 * m * n > LIMITS.reweighted_entries:
        raise UnsupportedWorkloadError(
            f"template 'low_rank' needs at most {LIMITS.reweighted_rank} queries and "
            f"{LIMITS.reweighted_entries // 2} entries, got shape {workload.shape}; "
            "use template 'pidentity'"
        )
    plain = StrategyResult(workload, "low_rank", error.loss(workload, workload))
    if plain.loss == 0:
        return plain
    rows = workload._dense().astype(np.float64)
    sums = Dense(np.concatenate([rows, *_tree_sums(rows)]))
    best = plain
    for start in (Dense(rows), sums):
        run = reweight(workload, start, max_iter=max_iter, tolerance=tolerance)
        if run.loss < best.loss:
            best = replace(run, template="low_rank")
    return best


def _tree_sums(rows: Floats) -> list[Floats]:
    """Return sums over blocks of 2, 4, 8, ... neighbouring rows."""
    levels, size = [], 2
    while size <= rows.shape[0]:
        levels.append(np.add.reduceat(rows, np.arange(0, rows.shape[0], size)))
        size *= 2
    return levels


def _row_space(workload: QueryMatrix, strategy: QueryMatrix) -> tuple[Floats, Floats]:
    """Return Q (n, r) spanning the strategy's rows and R (r, r) with RᵀR = QᵀWᵀWQ."""
    n = strategy.shape[1]
    if (
        strategy.shape[0] * n > LIMITS.reweighted_entries
        or min(strategy.shape) > LIMITS.reweighted_rank
    ):
        raise UnsupportedWorkloadError(
            "reweighting needs an explicit strategy of at most "
            f"{LIMITS.reweighted_entries} entries and rank {LIMITS.reweighted_rank}, "
            f"got shape {strategy.shape}"
        )
    rows = strategy._dense().astype(np.float64)
    _, values, vectors = np.linalg.svd(rows, full_matrices=False)
    rank = int((values > values[0] * max(rows.shape) * np.finfo(float).eps).sum())
    basis = np.ascontiguousarray(vectors[:rank].T)
    gram = basis.T @ workload.gram().matmat(basis)
    energies, directions = np.linalg.eigh(gram)
    return basis, np.sqrt(np.maximum(energies, 0.0))[:, None] * directions.T


def _descend(
    rows: Floats, inner: Floats, answers: Floats, max_iter: int, tolerance: float
) -> tuple[Floats, list[float], bool]:
    """Alternate least squares and budgets; `inner` are the rows in the row space."""
    absolute = np.abs(rows)
    weights = np.full(rows.shape[0], 1.0 / absolute.sum(axis=0).max())
    multipliers = np.full(rows.shape[1], 1.0 / rows.shape[1])
    history: list[float] = []
    best = weights
    for _ in range(max_iter):
        gram = (inner * np.square(weights)[:, None]).T @ inner
        ridge = 1e-15 * np.trace(gram) * np.eye(len(gram))
        solved = np.linalg.solve(gram + ridge, inner.T)
        loads = np.square(answers @ solved).sum(axis=0) * weights**4
        value = float((loads / np.square(weights)).sum())
        if history and value >= history[-1] * (1 - tolerance):
            # The inner problem is solved to finite accuracy: keep the better side.
            return (weights if value < history[-1] else best), history, True
        history.append(value)
        best = weights
        weights, multipliers = _budgets(absolute, loads, multipliers)
    return best, history, False


def _budgets(
    absolute: Floats, loads: Floats, multipliers: Floats
) -> tuple[Floats, Floats]:
    """Minimise Σ loads_i / x_i² under |A|ᵀx ≤ 1 by scaling the multipliers."""
    loads = np.maximum(loads, 1e-14 * loads.max())
    weights = np.empty_like(loads)
    for _ in range(INNER_ITERATIONS):
        prices = np.maximum(absolute @ multipliers, 1e-300)
        weights = np.cbrt(2.0 * loads / prices)
        use = absolute.T @ weights
        multipliers = multipliers * use**3  # the cube undoes the cube root
        if use.max() <= 1 + 1e-9:
            break
    return weights / use.max(), np.maximum(multipliers, 1e-300)


def look_at_low_rank(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out what has many queries, and marginals."""
    m, n = workload.shape
    if m > LOW_RANK_ROWS or m >= n or n > LOW_RANK_CELLS:
        return Skip("not a workload of few queries")
    if marginals_of(workload) is not None:
        return Skip("marginals are optimized by 'marginals'")
    return None


LOW_RANK = Template("low_rank", low_rank_strategy, 90, look=look_at_low_rank)
