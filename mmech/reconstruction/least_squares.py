"""Least squares: unbiased, and non-negative for counts that are published."""

from __future__ import annotations

import warnings
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.arrays import Floats
from mmech.checks import check_finite_array, magnitude
from mmech.error import expected as error
from mmech.exceptions import ConvergenceWarning, DomainTooLargeError
from mmech.operators.algebra import scale_rows
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Total
from mmech.operators.compose import Merged
from mmech.operators.explicit import Matrix, as_query_matrix
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


# ---- non-negative counts -----------------------------------------------------

CURVATURE_LENGTH = 1e-6
"""Relative length of a step above which its curvature is not rounding noise."""


def nonnegative(
    strategy: Matrix, values: Floats, *, max_iter: int = 20_000, tolerance: float = 1e-9
) -> Floats:
    r"""Return the non-negative counts that fit the measurements best.

    Minimises :math:`\|A x - y\|_2^2` over :math:`x \ge 0`. Where the strategy
    determines the total, x has the total of the least squares estimate, or zero if that
    is negative. Without this second condition, moving
    negative estimates up to zero would add counts that are not there.

    Accelerated projected gradients in the metric of the diagonal of the gram, with
    restarts; every column by itself. Two products with the gram per iteration, exact
    after one where the gram is diagonal.

    Parameters
    ----------
    strategy : QueryMatrix, shape (p, n)
        Queries A that were measured.
    values : ndarray, shape (p,) or (p, k)
        Noisy answers y.
    max_iter : int, default=20000
        Largest number of iterations.
    tolerance : float, default=1e-9
        Length of a projected step, relative to the estimate, at which to stop.

    Returns
    -------
    ndarray of float64, shape (n,) or (n, k)

    Warns
    -----
    ConvergenceWarning
        If the iteration ends at its limit.

    Notes
    -----
    Biased, with a smaller squared error where many counts are near zero. Not for
    use before an arg max: classifiers became worse with it.
    """
    operator = as_query_matrix(strategy, "strategy")
    return _fit(operator, np.asarray(values, np.float64), max_iter, tolerance)


@singledispatch
def _fit(
    strategy: QueryMatrix, values: Floats, max_iter: int, tolerance: float
) -> Floats:
    """Return the fit of the cells, by the descent."""
    columns = values.reshape(values.shape[0], -1)
    start = least_squares(strategy, columns)
    if isinstance(start, MarginalEstimate):
        raise DomainTooLargeError(
            f"non-negative counts of {magnitude(strategy.shape[1])} cells do not fit "
            'in memory; use method "least_squares"'
        )
    totals = None
    if error.supports(Total(strategy.shape[1]), strategy):
        totals = np.maximum(start.sum(axis=0), 0.0)
    gram = strategy.gram()
    metric = np.asarray(gram.diag(), dtype=np.float64)
    used = metric > 0
    inverse = np.divide(1.0, metric, out=np.zeros_like(metric), where=used)
    target = strategy.rmatmat(columns)
    roots = np.sqrt(metric)[:, None]
    scales = np.linalg.norm(roots * start, axis=0)
    lipschitz = 1.0  # of a diagonal gram; doubled where steps are too long

    def gradient(point: Floats) -> Floats:
        return np.asarray(gram.matmat(point) - target)

    x = _project(start, metric, totals)
    slope = gradient(x)
    momentum, slope_at_momentum = x, slope
    age = np.ones(x.shape[1])
    for _ in range(max_iter):
        step = slope_at_momentum * inverse[:, None]
        new = _project(momentum - step / lipschitz, metric, totals)
        new_slope = gradient(new)
        moved = new - momentum
        # <d, G d> <= L |d|² in the metric, else L is too small.
        curvature = np.einsum("ij,ij->j", moved, new_slope - slope_at_momentum)
        lengths = np.square(roots * moved).sum(axis=0)
        sure = np.sqrt(lengths) > CURVATURE_LENGTH * scales
        if (sure & (curvature > lipschitz * lengths)).any():
            lipschitz *= 2
            continue
        # A fixed point of the projected step is the solution.
        if (np.sqrt(lengths) <= tolerance * scales).all():
            x = new
            break
        uphill = np.einsum("ij,ij->j", metric[:, None] * -moved, new - x) > 0
        age = np.where(uphill, 1.0, age)
        later = (1 + np.sqrt(1 + 4 * age**2)) / 2
        weight = np.where(uphill, 0.0, (age - 1) / later)
        momentum = new + weight * (new - x)
        slope_at_momentum = new_slope + weight * (new_slope - slope)
        x, slope, age = new, new_slope, later
    else:
        warnings.warn(
            f"non-negative least squares stopped after {max_iter} iterations before it "
            "converged; the strategy may be badly scaled: rescale its rows",
            ConvergenceWarning,
            stacklevel=6,
        )
    return x.reshape(strategy.shape[1], *values.shape[1:])


@_fit.register(Merged)
def _(strategy: Merged, values: Floats, max_iter: int, tolerance: float) -> Floats:
    inner = _fit(strategy.operator, values, max_iter, tolerance)
    sizes = strategy.sizes.reshape(-1, *[1] * (inner.ndim - 1))
    return np.asarray(strategy._spread(inner / sizes), dtype=np.float64)


def _project(points: Floats, metric: Floats, totals: Floats | None) -> Floats:
    """Return the nearest x >= 0 in the metric, with the given column totals.

    With a total, x_j = max(z_j - μ / d_j, 0) for the μ at which it is met: the
    breakpoints d_j z_j in falling order say which entries are positive.
    """
    if totals is None:
        return np.maximum(points, 0.0)
    breaks = metric[:, None] * points
    order = np.argsort(-breaks, axis=0)
    sums = np.cumsum(np.take_along_axis(points, order, 0), axis=0) - totals
    shares = np.cumsum((1.0 / metric)[order], axis=0)
    levels = sums / shares
    positive = np.take_along_axis(breaks, order, 0) > levels
    last = np.maximum(positive.sum(axis=0) - 1, 0)
    level = levels[last, np.arange(points.shape[1])]
    return np.maximum(points - level / metric[:, None], 0.0)
