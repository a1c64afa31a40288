r"""Expected errors: closed forms, no noise.

All functions are for one column of counts and continuous noise calibrated to the
sensitivity under adding or removing one record: Laplace noise for a pure epsilon, to
the L1 sensitivity, and Gaussian noise for rho of zCDP, to the L2 sensitivity. A
workload W and a strategy A have the loss :math:`\|A\|^2 \, \|W A^+\|_F^2`. The expected
total squared error is :math:`2\,\mathrm{loss}/\epsilon^2`, or :math:`\mathrm{loss}/(2
\rho)` (Li, Miklau, Hay, McGregor, Rastogi, "The matrix mechanism", VLDB Journal 2015).
The result of an optimization for K-norm noise has the errors of that noise
(`mmech.error.shared_totals`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice
from mmech.error import pairs
from mmech.error.shared_totals import of_residuals
from mmech.noise import LAWS, law_and_cost
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_pair, as_query_matrix
from mmech.threads import one_blas_thread

NORMS = {"pure": "L1", "zcdp": "L2"}
"""Kind of privacy to the norm of sensitivities."""


@one_blas_thread()
def expected_error(
    workload: Matrix, strategy: Matrix, *, epsilon: Any = None, rho: Any = None
) -> float:
    r"""Return the expected total squared error of all queries.

    For pure epsilon :math:`\frac{2}{\epsilon^2} \|A\|_1^2 \, \|W A^+\|_F^2`, for rho of
    zCDP :math:`\frac{1}{2 \rho} \|A\|_2^2 \, \|W A^+\|_F^2`.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W to answer.
    strategy : the same, shape (p, n), or StrategyResult
        Queries A that are measured.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.

    Returns
    -------
    float
        Sum over the m queries of the variance, in squared counts, for one column of
        counts.

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.
    DomainTooLargeError
        If the pair has no closed form and n is too large for a dense one.

    Examples
    --------
    >>> from mmech import Identity, Prefix, expected_error
    >>> expected_error(Prefix(4), Identity(4), epsilon=1.0)
    20.0
    >>> expected_error(Prefix(4), Identity(4), rho=0.5)
    10.0
    """
    workload, strategy, factor = _priced(workload, strategy, epsilon, rho)
    return factor * pairs.gain(workload, strategy)


def _priced(
    workload: Any, strategy: Any, epsilon: Any, rho: Any
) -> tuple[QueryMatrix, QueryMatrix, float]:
    """Return the pair as operators, and the variance of the noise on the strategy."""
    law, cost = law_and_cost(epsilon, rho)
    workload, strategy, size = sized_pair(workload, strategy, law.norm)
    return workload, strategy, law.continuous(cost) * size**2


def sized_pair(
    workload: Any, strategy: Any, norm: str
) -> tuple[QueryMatrix, QueryMatrix, float]:
    """Return the pair as operators, and the sensitivity in the norm of the noise.

    A result for joint noise stands for residuals that cost one.
    """
    queries, measured = as_pair(workload, strategy, norm)
    noise = getattr(strategy, "noise", "")
    if noise and LAWS[noise].grouped is not None:
        return queries, of_residuals(measured), 1.0
    size = measured.l2_sensitivity() if norm == "L2" else measured.sensitivity()
    return queries, measured, size


@one_blas_thread()
def rmse(
    workload: Matrix, strategy: Matrix, *, epsilon: Any = None, rho: Any = None
) -> float:
    """Return the root mean squared error of a query, in counts.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries to answer.
    strategy : the same, shape (p, n), or StrategyResult
        Queries that are measured.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two. At rho = 1/2 Gaussian
        noise has the scale of the L2 sensitivity.

    Returns
    -------
    float

    Examples
    --------
    >>> from mmech import Identity, Prefix, rmse
    >>> round(rmse(Prefix(4), Identity(4), epsilon=1.0), 3)
    2.236
    """
    workload = as_query_matrix(workload, "workload")
    total = expected_error(workload, strategy, epsilon=epsilon, rho=rho)
    return math.sqrt(total / workload.shape[0])


@one_blas_thread()
def per_query_error(
    workload: Matrix, strategy: Matrix, *, epsilon: Any = None, rho: Any = None
) -> NDArray[np.float64]:
    """Return the expected squared error of every query.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries to answer.
    strategy : the same, shape (p, n), or StrategyResult
        Queries that are measured.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.

    Returns
    -------
    ndarray of float64, shape (m,)
        Squared counts; the sum equals `expected_error`.

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.

    Examples
    --------
    >>> from mmech import Identity, Prefix, per_query_error
    >>> per_query_error(Prefix(4), Identity(4), epsilon=1.0)
    array([2., 4., 6., 8.])
    >>> per_query_error(Prefix(4), Identity(4), rho=0.5)
    array([1., 2., 3., 4.])
    """
    workload, strategy, factor = _priced(workload, strategy, epsilon, rho)
    return factor * pairs.row_gains(workload, strategy)


@one_blas_thread()
def loss(workload: Matrix, strategy: Matrix, *, privacy: str = "pure") -> float:
    r"""Return :math:`\|A\|^2 \, \|W A^+\|_F^2`, the error without the budget.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W to answer.
    strategy : the same, shape (p, n), or StrategyResult
        Queries A that are measured.
    privacy : {"pure", "zcdp"}, default="pure"
        Whether :math:`\|A\|` is the L1 sensitivity, for Laplace noise, or the L2
        sensitivity, for Gaussian noise.

    Returns
    -------
    float

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.
    DomainTooLargeError
        If the pair has no closed form and n is too large for a dense one.

    Examples
    --------
    >>> from mmech import Prefix, loss
    >>> round(loss(Prefix(4), Prefix(4)), 9)
    64.0
    >>> round(loss(Prefix(4), Prefix(4), privacy="zcdp"), 9)
    16.0
    """
    norm = NORMS[check_choice(privacy, "privacy", tuple(NORMS))]
    workload, strategy, size = sized_pair(workload, strategy, norm)
    return size**2 * pairs.gain(workload, strategy)


@one_blas_thread()
def supports(workload: Matrix, strategy: Matrix) -> bool:
    """Return whether every query lies in the row space of the strategy.

    Tests random combinations of the queries: a query outside the row space is
    missed with probability zero, up to rounding.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries to answer.
    strategy : the same, shape (p, n), or StrategyResult
        Queries that are measured.

    Returns
    -------
    bool

    Examples
    --------
    >>> from mmech import Identity, Prefix, Total, supports
    >>> supports(Prefix(4), Identity(4)), supports(Prefix(4), Total(4))
    (True, False)
    """
    workload, strategy = as_pair(workload, strategy)
    return pairs.supports(workload, strategy)
