r"""Errors of sliding windows under columns of a circulant matrix, at any size.

The gram of the strategy is a symmetric Toeplitz matrix. Its inverse, with the first
column x, is :math:`(L_x L_x^T - L_y L_y^T) / x_0`. There :math:`L_x` and :math:`L_y`
are lower triangular Toeplitz matrices of x and :math:`y = (0, x_{n-1}, \dots, x_1)`
[1]_. Sums of rows of these over windows are Toeplitz matrices too, whose rows have
norms by running sums.

References
----------
.. [1] Gohberg, Semencul, "On the inversion of finite Toeplitz matrices and their
   continuous analogs", Mat. Issled. 2, 1972.
"""

from __future__ import annotations

import numpy as np

from mmech.arrays import Floats
from mmech.error.rules import known_gain, known_rows
from mmech.operators.basic import AllRange, Identity, Prefix, Suffix
from mmech.operators.circulant import SectionPinv, Toeplitz
from mmech.operators.ranges import WidthRange


def inverse_columns(strategy: Toeplitz) -> tuple[Floats, Floats, float]:
    """Return x and y, shape (n,), and x_0."""
    x = SectionPinv(strategy).first_column()
    return x, np.concatenate([[0.0], x[:0:-1]]), float(x[0])


def _sums(strategy: Toeplitz) -> tuple[Floats, Floats, float]:
    """Return sums of the first 0..n entries of x and of y, and x_0."""
    *both, x0 = inverse_columns(strategy)
    first, second = (np.concatenate([[0.0], np.cumsum(v)]) for v in both)
    return first, second, x0


@known_rows.rule(Toeplitz, WidthRange | Identity)
def _(workload: WidthRange | Identity, strategy: Toeplitz) -> Floats | None:
    if strategy.whole is None:
        return None
    m, n = workload.shape
    width = n - m + 1
    *both, x0 = _sums(strategy)
    total = np.zeros(m + n - 1)
    for sign, sums in zip((1.0, -1.0), both, strict=True):
        # From the window that ends at the first entry to the one at the last.
        padded = np.pad(sums, (n - 1, 0))
        total += sign * np.square(padded[width:] - padded[: m + n - 1])
    running = np.concatenate([[0.0], np.cumsum(total)])
    return (running[n:] - running[:m]) / x0


@known_rows.rule(Toeplitz, Prefix | Suffix)
def _(workload: Prefix | Suffix, strategy: Toeplitz) -> Floats | None:
    if strategy.whole is None:
        return None
    first, second, x0 = _sums(strategy)
    gains = np.cumsum(np.square(first[1:]) - np.square(second[1:])) / x0
    return gains[::-1].copy() if workload.backward else gains


@known_gain.rule(Toeplitz, AllRange)
def _(workload: AllRange, strategy: Toeplitz) -> float | None:
    """Sum (X_u - X_r)² over all r < u, for every column of sums X_0..X_n."""
    if strategy.whole is None:
        return None
    *both, x0 = _sums(strategy)
    n = workload.n
    first, second = (
        (n + 1) * np.cumsum(np.square(sums)) - np.square(np.cumsum(sums))
        for sums in both
    )
    return float((first - second).sum() / x0)
