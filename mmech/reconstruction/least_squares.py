"""Least squares: the unbiased reconstruction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_finite_array
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.row_scaling import scale_rows
from mmech.reconstruction.marginal_estimate import MarginalEstimate, is_lazy


def least_squares(
    strategy: Matrix, values: NDArray[np.float64], scale: ArrayLike | None = None
) -> NDArray[np.float64] | MarginalEstimate:
    r"""Return the best linear unbiased estimate of the counts.

    With noise of standard deviation :math:`\sigma_i` on row i this is
    :math:`(\mathrm{diag}(1/\sigma) A)^+ (y / \sigma)`, by the closed form that the
    strategy has; stacks without one, of more than about two thousand cells, by LSMR.

    Parameters
    ----------
    strategy : QueryMatrix, shape (p, n)
        Queries A that were measured.
    values : ndarray, shape (p,) or (p, k)
        Noisy answers y.
    scale : array_like, shape (p,), default=None
        Scale of the noise on every row, up to a common factor; equal when omitted.
        Closed forms of a stack hold for one scale per block.

    Returns
    -------
    ndarray of float64, shape (n,) or (n, k), or MarginalEstimate
        The latter from marginals over more than 20 attributes or 2^24 cells.

    Raises
    ------
    ValueError
        If a scale is not a finite number > 0, or there is not one per row.

    Warns
    -----
    ConvergenceWarning
        If LSMR stops before it reaches its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech import Identity, VStack
    >>> from mmech.reconstruction import least_squares
    >>> twice = VStack([Identity(2), Identity(2)])
    >>> noisy = np.array([4.0, 0.0, 8.0, 2.0])
    >>> least_squares(twice, noisy)
    array([6., 1.])
    >>> least_squares(twice, noisy, scale=[1, 1, 3, 3]).round(9)
    array([4.4, 0.2])
    """
    strategy = as_query_matrix(strategy, "strategy")
    if scale is None:
        return _solve(strategy, values)
    scales = check_finite_array(scale, "scale", ndim=1).astype(np.float64)
    if scales.size != strategy.shape[0] or not (scales > 0).all():
        raise ValueError(
            f"scale must hold {strategy.shape[0]} numbers > 0, one per row of the "
            f"strategy, got shape {scales.shape} with a minimum of "
            f"{scales.min(initial=np.inf):g}"
        )
    if scales.size == 0 or (scales == scales[0]).all():
        return _solve(strategy, values)
    relative = scales / scales.min()
    weighted = scale_rows(strategy, 1.0 / relative)
    return _solve(weighted, (values.T / relative).T)


def _solve(
    strategy: QueryMatrix, values: NDArray[np.float64]
) -> NDArray[np.float64] | MarginalEstimate:
    if is_lazy(strategy):
        return MarginalEstimate(strategy, values)
    return np.asarray(strategy.pinv() @ values)
