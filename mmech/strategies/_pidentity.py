"""p-Identity: identity queries and p optimized extra queries.

The objective tr(WᵀW (AᵀA)⁻¹) and its gradient need one product with the gram
WᵀW per evaluation and p x p factorisations; no n x n matrix is formed.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from mmech import error
from mmech._validation import check_integer
from mmech.operators._base import QueryMatrix
from mmech.operators._basic import Identity
from mmech.operators._pidentity import PIdentity, column_norms, thin_factors
from mmech.strategies._deadline import time_is_up
from mmech.strategies._result import StrategyResult

__all__ = [
    "PIdentityObjective",
    "default_p",
    "minimize_pidentity",
    "pidentity_strategy",
    "random_starts",
]

Floats = NDArray[np.float64]
Callback = Callable[[StrategyResult], Any]

MAX_WEIGHT = 1e3
"""Upper bound on entries of theta; larger ones only cost accuracy."""

CHOLESKY_LIMIT = 1e3
"""Above this diagonal entry of the Cholesky factor, QR is used instead."""

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

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, Section 5.2 (the
       objective; the one-product form of the gradient is derived here).
    """

    gram: QueryMatrix
    diagonal: Floats
    norm: str = "L1"

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
        q1, q2 = _factors(columns)
        weighted = self.gram._matmat(q1 * scales[:, None])  # becomes G
        weighted *= scales[:, None]
        explained = np.einsum("np,np->n", weighted, q1)
        raw = np.square(scales) * self.diagonal
        weighted -= q1 @ (q1.T @ weighted)
        gradient = weighted @ (-2.0 * q2.T)
        in_scales = (2.0 * (raw - explained) / scales)[:, None]
        if self.norm == "L1":
            gradient += in_scales
        else:
            gradient += in_scales / scales[:, None] * columns
        return float(raw.sum() - explained.sum()), gradient


def _factors(columns: Floats) -> tuple[Floats, Floats]:
    """Return the orthonormal factors, by Cholesky where that keeps its digits."""
    p = columns.shape[1]
    upper = scipy.linalg.cholesky(np.eye(p) + columns.T @ columns, check_finite=False)
    if upper.diagonal().max() > CHOLESKY_LIMIT:
        return thin_factors(columns)
    inverse = scipy.linalg.solve_triangular(upper, np.eye(p), check_finite=False)
    return columns @ inverse, inverse


def pidentity_strategy(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    n_starts: int | None = None,
    max_iter: int = 2000,
    tolerance: float = 1e-8,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Optimize a p-Identity strategy by descent from several starts.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer; only its gram is used.
    p : int, default=None
        Number of extra queries; about n / 16 when omitted.
    n_starts : int, default=None
        Number of random starts; 10 up to 256 cells, else 4.
    max_iter : int, default=2000
        Iterations per start.
    tolerance : float, default=1e-8
        Relative decrease of the loss at which a descent stops.
    seed : int, SeedSequence or Generator, default=None
        Seed of the starts.
    callback : callable, default=None
        Called with a `StrategyResult` after every start; stops if it returns
        True.

    Returns
    -------
    StrategyResult
        Never worse than the identity.
    """
    n = workload.shape[1]
    p = default_p(n) if p is None else check_integer(p, "p")
    if n_starts is None:
        n_starts = 10 if n <= 256 else 4
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
    for start in random_starts(n, p, rng, n_starts):
        run = minimize_pidentity(gram, start, max_iter=max_iter, tolerance=tolerance)
        strategy = PIdentity(run.columns.T)
        result = StrategyResult(
            strategy,
            "pidentity",
            error.loss(workload, strategy),
            n_iter=len(run.history),
            success=run.success,
            message=run.message,
            history=run.history,
        )
        if result.loss < min(best.loss, identity * (1 - COLLAPSE_GAP)):
            best = result
        if time_is_up() or (callback is not None and callback(best)):
            break
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
    """Descend from Θᵀ = `start` by L-BFGS-B; on the non-negative orthant for "L1".

    Parameters
    ----------
    gram : QueryMatrix, shape (n, n)
        Gram of the workload.
    start : ndarray of float64, shape (n, p)
        Transposed extra queries.
    max_iter : int
        Limit on iterations.
    tolerance : float
        Relative decrease at which to stop.
    norm : {"L1", "L2"}, default="L1"
        Norm of the columns that is one.

    Returns
    -------
    Descent
        In original units of the gram.
    """
    n, p = start.shape
    diagonal = np.asarray(gram.diag(), dtype=np.float64)
    unit = float(diagonal.mean())
    if unit == 0:
        return Descent(np.zeros((n, p)), 0.0, True, "the workload is zero", ())
    objective = PIdentityObjective(gram, diagonal, norm)
    history: list[float] = []

    def normalised(flat: Floats) -> tuple[float, Floats]:
        value, gradient = objective(flat.reshape(n, p))
        return value / (unit * n), gradient.ravel() / (unit * n)

    def record(intermediate_result: scipy.optimize.OptimizeResult) -> None:
        history.append(float(intermediate_result.fun) * unit * n)
        if time_is_up():
            raise StopIteration

    run = scipy.optimize.minimize(
        normalised,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(0.0 if norm == "L1" else -MAX_WEIGHT, MAX_WEIGHT),
        callback=record,
        options={
            "maxiter": max_iter,
            "maxfun": 2 * max_iter,
            "ftol": tolerance,
            "gtol": 0.0,
            "maxcor": 10,
        },
    )
    return Descent(
        np.ascontiguousarray(run.x.reshape(n, p)),
        float(run.fun) * unit * n,
        bool(run.success),
        str(run.message),
        tuple(history),
    )


def random_starts(
    n: int, p: int, rng: np.random.Generator, n_starts: int
) -> Iterator[Floats]:
    """Yield starts Θᵀ: blocks of neighbours, uniform weights, walks, uniform ...

    Blocks and walks suit ordered domains, uniform weights any domain. No start is
    close to zero: theta = 0, the identity, is a strict local minimum of every
    workload.
    """
    for index in range(n_starts):
        if index == 0:
            block = (np.arange(n) * p) // n
            member = (block[:, None] == np.arange(p)).astype(np.float64)
            yield member + 0.1 * rng.random((n, p))
        elif index % 3 == 2:
            walk = np.cumsum(rng.standard_normal((n, p)), axis=0)
            yield np.maximum(0.0, 2.0 * walk / np.sqrt(n))
        else:
            yield rng.random((n, p))
