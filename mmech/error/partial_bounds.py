"""Lower bounds on losses from singular values: all of them, or some and moments."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Product
from mmech.operators.explicit import Sparse
from mmech.structure.shape import squared_singular_values

__all__ = ["partial_loss_bound", "sum_of_roots", "weighted_loss_bound"]

Floats = NDArray[np.float64]

SUBSPACE_ITERATIONS = 3
"""Iterations to the largest singular values, where not all are computed."""

PRODUCT_ENTRIES = 2**24
"""Entries of vectors that are multiplied at a time there."""

SPREAD = 1e-4
"""Ratio of their squares to the largest below which they are left to the rest."""


def sum_of_roots(squares: Floats, size: int) -> float:
    """Return a lower bound on Σ √λ_i given eigenvalues with rounding errors.

    By Weyl's inequality every eigenvalue is off by at most the norm of the error,
    about size x machine precision x the largest.
    """
    noise = size * np.finfo(float).eps * squares.max(initial=0.0)
    return float(np.sqrt(squares[squares > noise] - noise).sum())


def weighted_loss_bound(workload: QueryMatrix, p: Floats) -> float:
    """Return ‖W P^½‖_*² by all singular values."""
    weighted = Product(workload, Diagonal(np.sqrt(p)))
    squares = squared_singular_values(weighted)
    return sum_of_roots(squares, max(workload.shape)) ** 2


def partial_loss_bound(workload: QueryMatrix, p: Floats, trace: float | None) -> float:
    r"""Return ‖M‖_*² for M = W P^½ from below, by products with M alone.

    With k directions Q and V an orthonormal basis of the rows QᵀM, pinching gives

    .. math:: \|M\|_* \ge \|Q^T M\|_* + \|E\|_*, \qquad E = M (I - V V^T),

    and Hölder's inequality :math:`\|E\|_* \ge \|E\|_F^3 / \|E\|_4^2`. With H = M Mᵀ, C
    = QᵀHQ and Z = M V = HQ C^-½, all of it follows from products: ‖QᵀM‖_* is tr C^½,
    and E Eᵀ = H - Z Zᵀ. Any Q is valid; subspace iteration gives a good one. M or Mᵀ is
    taken, whichever has fewer rows. Where `trace`, ‖M‖_F², would take too long it is
    ``None``, and the bound counts the directions alone. Otherwise the bound is at least
    `trace`, as ‖M‖_* >= ‖M‖_F, however badly directions are found.
    """
    m, n = workload.shape
    size = min(m, n)
    products = _gram_products(workload, p)
    if trace == 0:
        return 0.0
    most = min(LIMITS.quick_singular_values, PRODUCT_ENTRIES // max(m, n), size)
    start = np.random.default_rng(0).standard_normal((size, max(most, 1)))
    directions, _ = np.linalg.qr(start)
    for _ in range(SUBSPACE_ITERATIONS):
        directions, _ = np.linalg.qr(products(directions))
    images = products(directions)
    inner = directions.T @ images
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    if not values[-1] > 0:
        return 0.0
    keep = values > SPREAD * values[-1]
    values, vectors = values[keep], vectors[:, keep]
    explained = images @ (vectors / np.sqrt(values))  # Z
    # A sum of m or n products is off by so much of the norms; dividing by C, by its
    # condition more.
    rounding = 8.0 * (m + n) * np.finfo(float).eps
    total = sum_of_roots(values, m + n)
    if trace is None:
        return total**2 * (1.0 - 2.0 * rounding)
    slack = rounding * values[-1] / values[0]
    energy = trace * (1.0 - slack) - float(np.square(explained).sum()) * (1.0 + slack)
    whole = _fourth_moment(workload, p, trace, products)
    cross = float(np.einsum("ij,ij->", explained, products(explained)))
    own = float(np.square(explained.T @ explained).sum())
    fourth = whole * (1.0 + 4.0 * slack) - 2.0 * cross + own
    rest = max(energy, 0.0) ** 1.5 / math.sqrt(fourth) if fourth > 0 else 0.0
    return max((total + rest) ** 2, trace) * (1.0 - 2.0 * rounding)


def _gram_products(workload: QueryMatrix, p: Floats) -> Callable[[Floats], Floats]:
    """Return X -> H X for the smaller of P^½ WᵀW P^½ and W P Wᵀ."""
    m, n = workload.shape
    if m < n:
        return lambda x: workload.matmat(p[:, None] * workload.rmatmat(x))
    roots, gram = np.sqrt(p)[:, None], workload.gram()
    return lambda x: roots * gram.matmat(roots * x)


@singledispatch
def _fourth_moment(
    workload: QueryMatrix, p: Floats, trace: float, products: Callable[[Floats], Floats]
) -> float:
    """Return ‖H‖_F² = Σ σ_i⁴, or where that takes too long a bound from above."""
    m, n = workload.shape
    size = min(m, n)
    if size * max(m, n) > LIMITS.certificate_entries:
        return _fourth_moment_by_norms(workload, p, trace)
    total, width = 0.0, max(PRODUCT_ENTRIES // max(m, n), 1)
    for first in range(0, size, width):
        columns = np.eye(size, min(width, size - first), -first)
        total += float(np.square(products(columns)).sum())
    return total


@_fourth_moment.register(Sparse)
def _(workload: Sparse, p: Floats, trace: float, products: Any) -> float:
    weighted = workload.to_sparse().astype(np.float64) * np.sqrt(p)
    filled = np.diff(weighted.tocsc().indptr).astype(np.float64)
    if float(filled @ filled) > LIMITS.certificate_entries:
        return _fourth_moment_by_norms(workload, p, trace)
    return float(np.square((weighted @ weighted.T).data).sum())


def _fourth_moment_by_norms(workload: QueryMatrix, p: Floats, trace: float) -> float:
    """Use Σ σ_i⁴ <= σ_max² Σ σ_i² and σ_max² <= ‖W‖_1 ‖W‖_∞ max_j p_j."""
    try:
        largest = float(workload.row_abs_sums().max()) * workload.sensitivity()
    except DomainTooLargeError:
        return math.inf
    return trace * float(p.max()) * largest
