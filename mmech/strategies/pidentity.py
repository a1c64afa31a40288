"""p-Identity: identity queries and p optimized extra queries.

The objective tr(WᵀW (AᵀA)⁻¹) and its gradient need one product with the gram
WᵀW per evaluation and p x p factorisations; no n x n matrix is formed.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.error import expected as error
from mmech.exceptions import DomainTooLargeError
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity
from mmech.operators.pidentity import PIdentity, column_norms, thin_factors
from mmech.strategies.deadline import time_is_up
from mmech.strategies.descent import minimize_in_box
from mmech.strategies.ordered import BlockLevel, find_order, refined
from mmech.strategies.result import StrategyResult
from mmech.strategies.starts import ordered_starts, random_starts

__all__ = [
    "PIdentityObjective",
    "default_p",
    "minimize_pidentity",
    "pidentity_strategy",
]

Floats = NDArray[np.float64]
Callback = Callable[[StrategyResult], Any]

MAX_WEIGHT = 1e3
"""Upper bound on entries of theta; larger ones only cost accuracy."""

CHOLESKY_LIMIT = 1e3
"""Above this diagonal entry of the Cholesky factor, QR is used instead."""

RACE_ITERATIONS = 150
RACE_TOLERANCE = 1e-5
"""Limits of a descent that only finds the starts, or blocks, to go on from."""

MAX_CELLS = 2**15
"""Largest domain without an order: every start costs a descent on all of its cells."""

COLLAPSE_GAP = 1e-6
"""A start that ends this close to the identity's loss has collapsed to it."""


def default_p(n_cells: int) -> int:
    """Return the default number of extra queries: one per 16 cells, 4 to 64."""
    return max(min(n_cells, 4), min(n_cells // 16, 64))


@dataclass(frozen=True)
class PIdentityObjective:
    r"""The loss of a p-Identity strategy and its gradient.

    With :math:`s = 1 + \Theta^T 1`, the orthonormal factors
    :math:`[\Theta^T; I] = [Q_1; Q_2] R` and :math:`G = S V S Q_1`,

    .. math:: f = \mathrm{tr}(V S (I - Q_1 Q_1^T) S), \qquad
              \nabla_{\Theta^T} f = -2 (G - Q_1 Q_1^T G) Q_2^T
              + 2\, (c_j - e_j) / s_j \, 1^T ,

    where :math:`c_j = s_j^2 V_{jj}` and :math:`e_j = \sum_a (G \circ Q_1)_{ja}`.
    One evaluation costs a product of the gram V with p vectors and O(n p²). Under
    the norm "L2" :math:`s^2 = 1 + (\Theta \circ \Theta)^T 1`, and the last term is
    :math:`2 (c_j - e_j) / s_j^2 \; \Theta_{aj}`.

    Parameters
    ----------
    gram : QueryMatrix, shape (n, n)
        The gram V = WᵀW of the workload.
    diagonal : ndarray, shape (n,)
        Diagonal of V.
    norm : {"L1", "L2"}, default="L1"
        Norm of the columns that is one.
    counts : ndarray of int64, shape (n,), default=None
        For weights that are constant on blocks of cells: the number of cells of every
        block. `gram` then holds the sums of V over pairs of blocks, `diagonal` the
        sums of its diagonal, and Θ one column per block.

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, Section 5.2 (the
       objective; the one-product form of the gradient is derived here).
    """

    gram: QueryMatrix
    diagonal: Floats
    norm: str = "L1"
    counts: NDArray[np.int64] | None = None

    def __call__(self, columns: Floats) -> tuple[float, Floats]:
        """Evaluate at Θᵀ.

        Parameters
        ----------
        columns : ndarray of float64, shape (n, p)
            The transposed extra queries, C-contiguous.

        Returns
        -------
        loss : float
        gradient : ndarray of float64, shape (n, p)
        """
        scales = column_norms(columns, self.norm)
        # The c cells of a block contribute c equal rows to Θᵀ: as one, √c times it.
        roots = None if self.counts is None else np.sqrt(self.counts)[:, None]
        shares = scales[:, None] if roots is None else scales[:, None] / roots
        q1, q2 = _factors(columns if roots is None else columns * roots)
        weighted = self.gram._matmat(q1 * shares)  # becomes G
        weighted *= shares
        explained = np.einsum("np,np->n", weighted, q1)
        raw = np.square(scales) * self.diagonal
        weighted -= q1 @ (q1.T @ weighted)
        gradient = weighted @ (-2.0 * q2.T)
        if roots is not None:
            gradient *= roots
        in_scales = (2.0 * (raw - explained) / scales)[:, None]
        if self.norm == "L1":
            gradient += in_scales
        else:
            gradient += in_scales / scales[:, None] * columns
        return float(raw.sum() - explained.sum()), gradient


def _factors(columns: Floats) -> tuple[Floats, Floats]:
    """Return the orthonormal factors, by Cholesky where that keeps its digits."""
    p = columns.shape[1]
    square = columns.T @ columns
    square.flat[:: p + 1] += 1.0
    upper, failed = scipy.linalg.lapack.dpotrf(square)
    if failed or upper.diagonal().max() > CHOLESKY_LIMIT:
        return thin_factors(columns)
    inverse, _ = scipy.linalg.lapack.dtrtri(upper)
    return columns @ inverse, inverse


def pidentity_strategy(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    n_starts: int | None = None,
    max_iter: int = 2000,
    tolerance: float = 1e-7,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Optimize a p-Identity strategy by descent from several starts.

    Every start descends a little, and the best of them to the end. Where the cells
    have an order (ranges, or an explicit workload in which one is found), the starts
    are compared on blocks of neighbours, which are then halved again and again.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer; only its gram is used.
    p : int, default=None
        Number of extra queries; about n / 16 when omitted.
    n_starts : int, default=None
        Number of starts; 10 up to 256 cells, else 6.
    max_iter : int, default=2000
        Iterations per descent.
    tolerance : float, default=1e-7
        Relative decrease of the loss per iteration at which the last descent stops.
    seed : int, SeedSequence or Generator, default=None
        Seed of the starts.
    callback : callable, default=None
        Called with a `StrategyResult` after every start; returning True ends the
        search with the best so far.

    Returns
    -------
    StrategyResult
        Never worse than the identity.

    Raises
    ------
    DomainTooLargeError
        If there are more cells than a descent can treat and they have no order.
    """
    n = workload.shape[1]
    p = default_p(n) if p is None else check_integer(p, "p")
    if n_starts is None:
        n_starts = 10 if n <= 256 else 6
    check_integer(n_starts, "n_starts")
    check_integer(max_iter, "max_iter")
    check_tolerance(tolerance)
    gram = workload.gram()
    rng = np.random.default_rng(seed)
    identity = error.loss(workload, Identity(n))
    best = StrategyResult(
        PIdentity(np.zeros((0, n))),
        "pidentity",
        identity,
        message="every start collapsed to the identity, a strict local minimum",
    )
    ordered = find_order(gram)
    if ordered is None and gram.shape[0] > MAX_CELLS:
        raise DomainTooLargeError(
            f"template 'pidentity' takes at most {MAX_CELLS:,} cells where they have "
            f"no order, got {gram.shape[0]:,}; use template 'identity' or 'marginals', "
            "or fewer attributes"
        )
    levels = [BlockLevel.of(gram)] if ordered is None else ordered.levels(p)
    make_starts = random_starts if ordered is None else ordered_starts

    def finished(level: BlockLevel, run: Descent) -> StrategyResult:
        columns = np.repeat(run.columns, level.counts, axis=0)
        if ordered is not None and ordered.position is not None:
            columns = columns[ordered.position]
        strategy = PIdentity(columns.T)
        result = StrategyResult(
            strategy,
            "pidentity",
            error.loss(workload, strategy),
            n_iter=len(run.history),
            success=run.success,
            message=run.message,
            history=run.history,
        )
        worst = min(best.loss, identity * (1 - COLLAPSE_GAP))
        return result if result.loss < worst else best

    runs: list[Descent] = []
    first = levels[0]
    limit, stop = min(max_iter, RACE_ITERATIONS), max(tolerance, RACE_TOLERANCE)
    for start in make_starts(first.counts.size, p, rng, n_starts):
        run = _descend(first, start, limit, stop)
        runs.append(run)
        if callback is not None:
            best = finished(first, run)
            if callback(best):
                return best
        if time_is_up():
            break
    level = first
    for finer in levels if len(levels) == 1 else levels[1:]:
        runs = sorted(runs, key=lambda run: run.loss)[: 1 + len(runs) // 3]
        if time_is_up():
            break
        if finer is levels[-1]:
            limit, stop = max_iter, tolerance
        runs = [
            _then(run, _descend(finer, refined(run.columns, level, finer), limit, stop))
            for run in runs
        ]
        level = finer
    for run in runs:
        best = finished(level, run)
    if best.n_iter == 0 and not any(run.success for run in runs):
        note = f"no start improved on the identity; {runs[0].message}"
        return replace(best, success=False, message=note)
    return best


def check_tolerance(tolerance: Any) -> None:
    """Raise unless the relative decrease at which to stop is usable."""
    if isinstance(tolerance, bool) or not isinstance(tolerance, numbers.Real):
        raise TypeError(f"tolerance must be a number >= 0, got {tolerance!r}")
    if not 0 <= float(tolerance) < np.inf:
        raise ValueError(f"tolerance must be a number >= 0, got {tolerance}")


@dataclass(frozen=True)
class Descent:
    """End point of one descent."""

    columns: Floats
    loss: float
    success: bool
    message: str
    history: tuple[float, ...]


def minimize_pidentity(
    gram: QueryMatrix,
    start: Floats,
    *,
    max_iter: int,
    tolerance: float,
    norm: str = "L1",
) -> Descent:
    """Descend from Θᵀ = `start`, on the non-negative orthant for "L1".

    Parameters
    ----------
    gram : QueryMatrix, shape (n, n)
        Gram of the workload.
    start : ndarray of float64, shape (n, p)
        Transposed extra queries.
    max_iter : int
        Limit on iterations.
    tolerance : float
        Relative decrease per iteration at which to stop.
    norm : {"L1", "L2"}, default="L1"
        Norm of the columns that is one.

    Returns
    -------
    Descent
        In original units of the gram.
    """
    return _descend(BlockLevel.of(gram), start, max_iter, tolerance, norm)


def _then(first: Descent, second: Descent) -> Descent:
    """Return the second descent with the history of both."""
    return replace(second, history=first.history + second.history)


def _descend(
    level: BlockLevel,
    start: Floats,
    max_iter: int,
    tolerance: float,
    norm: str = "L1",
) -> Descent:
    unit = float(level.diagonal.sum())
    if unit == 0:
        return Descent(np.zeros_like(start), 0.0, True, "the workload is zero", ())
    counts = None if level.counts.max() == 1 else level.counts
    objective = PIdentityObjective(level.gram, level.diagonal, norm, counts)

    def normalised(columns: Floats) -> tuple[float, Floats]:
        value, gradient = objective(columns)
        gradient /= unit
        return value / unit, gradient

    run = minimize_in_box(
        normalised,
        start,
        lower=0.0 if norm == "L1" else -MAX_WEIGHT,
        upper=MAX_WEIGHT,
        max_iter=max_iter,
        tolerance=tolerance,
    )
    history = tuple(value * unit for value in run.history)
    return Descent(run.point, run.value * unit, run.success, run.message, history)
