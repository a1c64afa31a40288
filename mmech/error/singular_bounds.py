"""Lower bounds on losses from singular values: in closed form, all, or some."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np

from mmech.arrays import Floats
from mmech.exceptions import DomainTooLargeError
from mmech.lazy import load_families
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones
from mmech.operators.compose import Product
from mmech.operators.explicit import Sparse
from mmech.operators.known import normal_form
from mmech.operators.marginals import Anova
from mmech.operators.subsets import ranks_of, sizes_of
from mmech.structure.attributes import is_uniform
from mmech.structure.shape import known_singular_values, squared_singular_values
from mmech.structure.spectrum import mean_spectrum

COMMUTING = 1e-13
"""Part of a gram, per cell, outside the common basis that counts as rounding."""


def _symmetric_shape(workload: QueryMatrix) -> tuple[int, ...] | None:
    """Return a domain shape under whose relabellings the gram is invariant."""
    shapes = set()
    for _, block in normal_form(workload).blocks:
        if type(block) is not Anova and not is_uniform(block):
            return None
        # The cells and the total are symmetric in every shape.
        shapes.add(normal_form(block).domain_shape or (workload.shape[1],))
    shapes = shapes - {(workload.shape[1],)} or shapes
    return shapes.pop() if len(shapes) == 1 else None


def symmetric_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ_s m_s √(τ_s / n_s))² where the gram is in the marginal algebra.

    The group of relabellings moves every cell to every other and the bound is
    concave in p, so uniform p is best.
    """
    (weight, block), *others = normal_form(workload).blocks
    if isinstance(block, (Identity, Ones)) and not others:
        return float(weight) ** 2 * block.shape[0]
    shape = _symmetric_shape(workload)
    if shape is None:
        return None
    asked = mean_spectrum(workload, shape)
    if asked is None:
        return None
    roots = ranks_of(asked, shape) * np.sqrt(
        np.array(list(asked.values())) / sizes_of(asked, shape)
    )
    rounding = 1.0 - 4.0 * roots.size * np.finfo(float).eps
    return float(roots.sum()) ** 2 * rounding


def commuting_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ σ_i)² / n of a union of products whose grams commute by attribute.

    Then one orthogonal basis per attribute diagonalises all terms, and the
    eigenvalues of the gram are sums of outer products. Identities commute with
    everything: ranges on one attribute, and on another, of a large table.
    """
    terms = normal_form(workload).products
    if terms is None or workload.shape[1] > LIMITS.dual_distribution:
        return None
    sizes = [factor.shape[1] for factor in terms[0][1]]
    if max(sizes) > LIMITS.quick_spectrum_cells:
        return None
    spectrum = [np.array(weight**2) for weight, _ in terms]
    for attribute in range(len(sizes)):
        grams = [
            factors[attribute].gram()._dense().astype(np.float64)
            for _, factors in terms
        ]
        scales = np.array([max(float(np.abs(gram).max()), 1e-300) for gram in grams])
        mixed = sum(
            gram * (math.cos(i) + 2) / scale
            for i, (gram, scale) in enumerate(zip(grams, scales, strict=True))
        )
        _, basis = np.linalg.eigh(mixed)
        for i, gram in enumerate(grams):
            rotated = basis.T @ gram @ basis
            own = np.diagonal(rotated)
            error_norm = float(np.linalg.norm(rotated - np.diag(own)))
            if error_norm > COMMUTING * own.size * own.max():
                return None
            spectrum[i] = np.multiply.outer(spectrum[i], own)
    total = np.asarray(sum(part.ravel() for part in spectrum))
    rounding = round(2 * COMMUTING / np.finfo(float).eps) * sum(sizes) * len(terms)
    return sum_of_roots(total, rounding) ** 2 / workload.shape[1]


def known_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ σ_i)² / n, or less, where the singular values have a closed form."""
    load_families()  # one may know of another
    return loss_bound_of(workload)


@singledispatch
def loss_bound_of(workload: QueryMatrix) -> float | None:
    """Return it by the rule of a class."""
    values = known_singular_values(workload)
    if values is None:
        return None
    rounding = 1.0 - 64.0 * np.finfo(float).eps
    return float(values.sum()) ** 2 / workload.shape[1] * rounding


# ---- all singular values, or some and moments ------------------------------------

SUBSPACE_ITERATIONS = 3
"""Iterations to the largest singular values, where not all are computed."""

PRODUCT_ENTRIES = 2**24
"""Entries of vectors that are multiplied at a time there."""

LOST = 1e-12
"""Squared length of a direction, relative to the longest, that counts as none."""

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
    directions = _orthonormal(start)
    for _ in range(SUBSPACE_ITERATIONS):
        directions = _orthonormal(products(directions))
    images = products(directions)
    inner = directions.T @ images
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    if not (values > 0).any():
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


def _orthonormal(columns: Floats) -> Floats:
    """Return an orthonormal basis of columns, but for directions that are all but lost.

    The second pass removes the rounding of the first one. LAPACK's QR takes 20 times as
    long where columns leave the cache.
    """
    for _ in range(2):
        squares, vectors = np.linalg.eigh(columns.T @ columns)
        keep = squares > LOST * squares.max(initial=0.0)
        columns = columns @ (vectors[:, keep] / np.sqrt(squares[keep]))
    return columns


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
