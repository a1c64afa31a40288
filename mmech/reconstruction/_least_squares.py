"""Least squares: the unbiased reconstruction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmech.operators._base import QueryMatrix

__all__ = ["least_squares"]


def least_squares(
    strategy: QueryMatrix, values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return A⁺ y, by the closed form that the strategy has.

    Parameters
    ----------
    strategy : QueryMatrix, shape (p, n)
        Queries A that were measured.
    values : ndarray, shape (p,) or (p, k)
        Noisy answers y.

    Returns
    -------
    ndarray of float64, shape (n,) or (n, k)
    """
    return np.asarray(strategy.pinv() @ values)
