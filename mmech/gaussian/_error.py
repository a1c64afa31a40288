r"""Expected errors under Gaussian noise: closed forms, no noise.

The counterparts of `mmech.error` for zCDP. With the L2 loss
:math:`\|A\|_2^2 \, \|W A^+\|_F^2` and noise of variance
:math:`\|A\|_2^2 / (2 \rho)` on every strategy query, the expected total squared error
of one column of counts is :math:`\mathrm{loss} / (2 \rho)`. The budget `rho` is
keyword-only here and `epsilon` is keyword-only there, so that neither can be taken
for the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import error
from mmech._validation import check_epsilon, check_same_domain
from mmech.operators._base import QueryMatrix

__all__ = [
    "gaussian_expected_error",
    "gaussian_loss",
    "gaussian_per_query_error",
    "gaussian_rmse",
]


def gaussian_loss(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    r"""Return :math:`\|A\|_2^2 \, \|W A^+\|_F^2`, the Gaussian error without rho.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries A that are measured.

    Returns
    -------
    float

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.

    See Also
    --------
    loss : the same with the L1 sensitivity, for Laplace noise.

    Examples
    --------
    >>> from mmech import Prefix, gaussian_loss, loss
    >>> round(gaussian_loss(Prefix(4), Prefix(4)), 9)
    16.0
    >>> round(loss(Prefix(4), Prefix(4)), 9)
    64.0
    """
    check_same_domain(workload, strategy)
    return strategy.l2_sensitivity() ** 2 * error._gain(workload, strategy)


def gaussian_expected_error(
    workload: QueryMatrix, strategy: QueryMatrix, *, rho: Any
) -> float:
    r"""Return the expected total squared error of all queries under rho-zCDP.

    .. math:: \frac{1}{2 \rho} \|A\|_2^2 \, \|W A^+\|_F^2

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries A that are measured.
    rho : float, str or Fraction
        zCDP parameter > 0, in nats.

    Returns
    -------
    float
        Sum over the m queries of the variance, in squared counts, for one column
        of counts.

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.

    See Also
    --------
    expected_error : the same under pure epsilon, with Laplace noise.

    Examples
    --------
    >>> from mmech import Identity, Prefix, gaussian_expected_error
    >>> gaussian_expected_error(Prefix(4), Identity(4), rho=0.5)
    10.0
    """
    exact = float(check_epsilon(rho, "rho"))
    return gaussian_loss(workload, strategy) / (2.0 * exact)


def gaussian_rmse(workload: QueryMatrix, strategy: QueryMatrix, *, rho: Any) -> float:
    """Return the root mean squared error of a query under rho-zCDP, in counts.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries that are measured.
    rho : float, str or Fraction
        zCDP parameter > 0, in nats; at 1/2 the noise has the scale of the L2
        sensitivity.

    Returns
    -------
    float

    Examples
    --------
    >>> from mmech import Identity, Prefix, gaussian_rmse
    >>> round(gaussian_rmse(Prefix(4), Identity(4), rho=0.5), 3)
    1.581
    """
    total = gaussian_expected_error(workload, strategy, rho=rho)
    return math.sqrt(total / workload.shape[0])


def gaussian_per_query_error(
    workload: QueryMatrix, strategy: QueryMatrix, *, rho: Any
) -> NDArray[np.float64]:
    """Return the expected squared error of every query under rho-zCDP.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries that are measured.
    rho : float, str or Fraction
        zCDP parameter > 0, in nats.

    Returns
    -------
    ndarray of float64, shape (m,)
        Squared counts; the sum equals `gaussian_expected_error`.

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.

    Examples
    --------
    >>> from mmech import Identity, Prefix, gaussian_per_query_error
    >>> gaussian_per_query_error(Prefix(4), Identity(4), rho=0.5)
    array([1., 2., 3., 4.])
    """
    exact = float(check_epsilon(rho, "rho"))
    check_same_domain(workload, strategy)
    factor = strategy.l2_sensitivity() ** 2 / (2.0 * exact)
    return factor * error._row_gains(workload, strategy)
