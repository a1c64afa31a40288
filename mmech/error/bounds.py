r"""Lower bounds on the error of every strategy: what no optimization can beat.

For any probabilities p of the cells, with P = diag(p), every strategy A has

.. math:: \|A\|_1^2 \|W A^+\|_F^2 \ge \|W P^{1/2}\|_*^2 ,

because W = R A gives :math:`\|W P^{1/2}\|_* \le \|R\|_F \|A P^{1/2}\|_F` and the
L2 norm of a column is at most its L1 norm. Uniform p is the bound of singular
values; the best p is the optimum of the Gaussian mechanism. Rounding is always
taken off, so that a bound stays below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_epsilon, check_integer
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones
from mmech.operators.compose import Product, Scaled
from mmech.operators.explicit import Matrix, Sparse, as_query_matrix
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import (
    Anova,
    Marginal,
    Marginals,
    subset_ranks,
)
from mmech.operators.stack import VStack
from mmech.operators.subsets import ranks_of, sizes_of
from mmech.reduction.cells import reduce_domain
from mmech.structure.energies import anova_energies
from mmech.structure.shape import (
    is_uniform,
    known_singular_values,
    kronecker_terms,
    squared_singular_values,
)
from mmech.structure.spectrum import mean_spectrum
from mmech.threads import one_blas_thread

__all__ = ["BoundResult", "dual_bound", "svd_bound"]

CHEAP_DUAL_SIZE = 1024
"""Up to this smaller side a bound without a stated cost iterates."""

COMMUTING = 1e-13
"""Part of a gram, per cell, outside the common basis that counts as rounding."""

CHEAP_WORK = 5e9
"""Iterations of such a bound times the cubed size; about a second."""

CHEAP_SPECTRUM_SIZE = 2048
"""Up to this smaller side a bound without a stated cost takes singular values."""

CHEAP_ENTRIES = 2**23
"""Largest workload of few rows of which a bound without a stated cost is explicit."""

DIRECTIONS = 64
SUBSPACE_ITERATIONS = 3
"""Largest singular values that are found one by one where there are too many."""

PRODUCT_ENTRIES = 2**24
"""Entries of vectors that are multiplied at a time there."""

SPREAD = 1e-4
"""Ratio of their squares to the largest below which they are left to the rest."""

STEP = 2.0
"""Exponent of the multiplicative update; one is monotone, two is twice as fast."""

FLOOR = 1e-15
"""Smallest probability of a cell, relative to the uniform one."""


@dataclass(frozen=True, eq=False)
class BoundResult:
    """A lower bound on the error of every strategy, with its certificate.

    Attributes
    ----------
    bound : float
        Squared counts: no strategy has a smaller expected error.
    gap : float
        The best bound of this kind lies between `bound` and (1 + gap) `bound`.
    n_iter : int
        Iterations, 0 for a closed form.
    distribution : ndarray of float64, shape (n,), or None
        Probabilities of the cells that attain the bound; ``None`` for products of
        more than about four million cells.

    Examples
    --------
    >>> from mmech import Identity, dual_bound
    >>> dual_bound(Identity(2), epsilon=1.0)
    BoundResult(bound=4.0, gap=0.0, n_iter=0, distribution=array([0.5, 0.5]))
    """

    bound: float
    gap: float
    n_iter: int
    distribution: NDArray[np.float64] | None


def svd_bound(workload: Matrix, *, epsilon: Any) -> float:
    r"""Return a lower bound on the expected error of every strategy.

    .. math:: \frac{2}{\epsilon^2} \frac{\left(\sum_i \sigma_i(W)\right)^2}{n}

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W; Kronecker products cost no more than their factors.
    epsilon : float
        Privacy parameter in nats.

    Returns
    -------
    float
        Squared counts. Loose for pure epsilon: a ratio of two is close to all that
        any strategy can reach on small domains, and the gap grows with the domain.

    See Also
    --------
    dual_bound : never smaller, at the cost of some iterations.

    Notes
    -----
    Ranges, prefixes, circulants and their products have singular values in closed
    form. Of other workloads whose smaller side is above 4096 the largest ones are
    found by products, and moments of the rest bound their sum from below. Singular
    values that rounding cannot tell from zero count as zero.

    References
    ----------
    .. [1] Li, Miklau, "Optimal error of query sets under the
       differentially-private matrix mechanism", ICDT 2013, Theorem 4.

    Examples
    --------
    >>> from mmech import Identity, svd_bound
    >>> svd_bound(Identity(4), epsilon=1.0)
    8.0
    """
    workload = as_query_matrix(workload, "workload")
    exact = float(check_epsilon(epsilon))
    return 2.0 * float(svd_loss_bound(workload)) / exact**2


def dual_bound(
    workload: Matrix,
    *,
    epsilon: Any,
    max_iter: int = 1000,
    tolerance: float = 1e-4,
) -> BoundResult:
    r"""Return the best lower bound that L2 sensitivity gives, with a certificate.

    Maximises :math:`\|W P^{1/2}\|_*^2` over the probabilities P = diag(p) of the
    cells. The maximum is the least error, up to the factor of the noise, of the
    Gaussian mechanism at unit L2 sensitivity, and bounds the error of every
    strategy under Laplace noise. The value is valid after every iteration; one
    iteration gives `svd_bound`.

    Products multiply the bounds of their factors, marginals and what else is
    symmetric have a closed form; other workloads cost one eigendecomposition of
    the smaller side of W, at most 3000, per iteration.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W.
    epsilon : float
        Privacy parameter in nats.
    max_iter : int, default=1000
        Largest number of iterations.
    tolerance : float, default=1e-4
        Gap at which the iteration stops.

    Returns
    -------
    BoundResult
        In units of `expected_error`.

    Raises
    ------
    DomainTooLargeError
        If both sides of a workload without structure are above 3000.

    References
    ----------
    .. [1] Edmonds, Nikolov, Ullman, "The power of factorization mechanisms in
       local and central differential privacy", STOC 2020, Section 3.
    .. [2] Yu, "Monotonic convergence of a general algorithm for computing optimal
       designs", Annals of Statistics 2010.

    Examples
    --------
    >>> from mmech import Prefix, dual_bound, svd_bound
    >>> result = dual_bound(Prefix(64), epsilon=1.0)
    >>> round(result.bound / 2, 1), result.gap <= 1e-4
    (282.2, True)
    >>> round(svd_bound(Prefix(64), epsilon=1.0) / 2, 1)
    266.4
    """
    workload = as_query_matrix(workload, "workload")
    exact = float(check_epsilon(epsilon))
    max_iter = check_integer(max_iter, "max_iter")
    if not (isinstance(tolerance, (int, float)) and 0 < tolerance < math.inf):
        raise ValueError(f"tolerance must be a finite number > 0, got {tolerance!r}")
    with one_blas_thread():
        result = dual_loss_bound(workload, max_iter=max_iter, tolerance=tolerance)
    return replace(result, bound=2.0 * result.bound / exact**2)


# ---- in units of the loss ----------------------------------------------------


@singledispatch
def svd_loss_bound(workload: QueryMatrix) -> float:
    """Return (Σ σ_i)² / n, the bound on the loss of every strategy."""
    closed = _symmetric_loss_bound(workload)
    if closed is not None:
        return closed
    for structured in (_known_loss_bound, _commuting_loss_bound):
        bound = structured(workload)
        if bound is not None:
            return bound
    m, n = workload.shape
    if min(m, n) > LIMITS.dense_cells:
        return _partial_loss_bound(workload, np.full(n, 1.0 / n))
    return _sum_of_roots(squared_singular_values(workload), max(m, n)) ** 2 / n


@svd_loss_bound.register(Scaled)
def _(workload: Scaled) -> float:
    return workload.weight**2 * svd_loss_bound(workload.operator)


@svd_loss_bound.register(Kronecker)
def _(workload: Kronecker) -> float:
    closed = _symmetric_loss_bound(workload)
    if closed is not None:
        return closed
    return math.prod(svd_loss_bound(factor) for factor in workload.factors)


@singledispatch
def dual_loss_bound(
    workload: QueryMatrix,
    *,
    max_iter: int = 1000,
    tolerance: float = 1e-4,
    stop: Callable[[], bool] | None = None,
) -> BoundResult:
    """Return the dual bound on the loss; see `dual_bound`.

    After every iteration `stop` is asked whether it is to be the last.
    """
    n = workload.shape[1]
    closed = _closed_dual_bound(workload)
    if closed is not None:
        return closed
    if n <= LIMITS.dual_distribution:
        reduced, groups = reduce_domain(workload)
        if reduced is not workload:
            inner = dual_loss_bound(
                reduced, max_iter=max_iter, tolerance=tolerance, stop=stop
            )
            return _spread_bound(inner, groups)
    return _iterate(_spectral_step(workload), n, max_iter, tolerance, stop)


@dual_loss_bound.register(Scaled)
def _(workload: Scaled, **options: Any) -> BoundResult:
    inner: BoundResult = dual_loss_bound(workload.operator, **options)
    return replace(inner, bound=workload.weight**2 * inner.bound)


@dual_loss_bound.register(Kronecker)
def _(workload: Kronecker, **options: Any) -> BoundResult:
    closed = _closed_dual_bound(workload)
    if closed is not None:
        return closed
    parts = [dual_loss_bound(factor, **options) for factor in workload.factors]
    return _product_bound(parts, workload.shape[1])


def _closed_dual_bound(workload: QueryMatrix) -> BoundResult | None:
    closed = _symmetric_loss_bound(workload)
    if closed is None:
        return None
    n = workload.shape[1]
    uniform = np.full(n, 1.0 / n) if n <= LIMITS.dual_distribution else None
    return BoundResult(closed, 0.0, 0, uniform)


@singledispatch
def cheap_loss_bound(workload: QueryMatrix) -> tuple[float, str]:
    """Return a bound on the loss that takes about a second at most, and its name.

    A stack costs at least the sum of what its blocks cost, and no strategy has a
    smaller loss than the largest squared norm of a column.
    """
    closed = _symmetric_loss_bound(workload)
    if closed is not None:
        return closed, "closed form"
    if workload.shape[1] <= LIMITS.dual_distribution:
        reduced, _ = reduce_domain(workload)
        if reduced is not workload:
            return cheap_loss_bound(reduced)
    with one_blas_thread():
        return max(_cheap_bounds(workload))


def _cheap_bounds(workload: QueryMatrix) -> Iterator[tuple[float, str]]:
    """Yield bounds that suit the size of a workload, at least one."""
    m, n = workload.shape
    size = min(m, n) if m * n <= CHEAP_ENTRIES else n
    if size <= min(CHEAP_DUAL_SIZE, LIMITS.dual_cells):
        work = size**3 if size == n else size**2 * (size + n / 3)
        steps = int(min(max(CHEAP_WORK / work, 1), 100))
        result = dual_loss_bound(workload, max_iter=steps, tolerance=1e-3)
        yield result.bound, "dual"
        return
    for structured in (_known_loss_bound, _commuting_loss_bound):
        bound = structured(workload)
        if bound is not None:
            yield bound, "singular values"
            return
    yield _sum_over_blocks(workload), "sum over the blocks"
    weights = _cell_weights(workload)
    yield 0.0, "none"
    if weights and size <= CHEAP_SPECTRUM_SIZE:
        for p in weights:
            yield _weighted_loss_bound(workload, p), "singular values"
    elif weights:
        yield float(workload.column_square_sums().max()), "largest column"
        for p in weights:
            yield _partial_loss_bound(workload, p), "partial singular values"


def _cell_weights(workload: QueryMatrix) -> list[NDArray[np.float64]]:
    """Return probabilities of the cells to try: uniform, and by the squared norms.

    The latter are best for columns at right angles. None for too many cells.
    """
    n = workload.shape[1]
    if max(workload.shape) > LIMITS.table_entries or n > LIMITS.dual_distribution:
        return []
    try:
        squares = workload.column_square_sums().astype(np.float64)
    except DomainTooLargeError:
        return []
    total = squares.sum()
    if total == 0 or squares.min() == squares.max():
        return [np.full(n, 1.0 / n)]
    return [np.full(n, 1.0 / n), squares / total]


@cheap_loss_bound.register(Scaled)
def _(workload: Scaled) -> tuple[float, str]:
    bound, name = cheap_loss_bound(workload.operator)
    return workload.weight**2 * bound, name


@cheap_loss_bound.register(Kronecker)
def _(workload: Kronecker) -> tuple[float, str]:
    closed = _symmetric_loss_bound(workload)
    if closed is not None:
        return closed, "closed form"
    parts = [cheap_loss_bound(factor) for factor in workload.factors]
    names = [name for _, name in parts if name != "closed form"]
    return math.prod(bound for bound, _ in parts), [*names, "closed form"][0]


@singledispatch
def _sum_over_blocks(workload: QueryMatrix) -> float:
    return -math.inf


@_sum_over_blocks.register(VStack)
def _(workload: VStack) -> float:
    parts = [cheap_loss_bound(block) for block in workload.blocks]
    return sum(bound for bound, _ in parts)


# ---- closed forms ------------------------------------------------------------


@singledispatch
def _symmetric_shape(workload: QueryMatrix) -> tuple[int, ...] | None:
    """Return a domain shape under whose relabellings the gram is invariant."""
    return None


@_symmetric_shape.register(Identity)
@_symmetric_shape.register(Ones)
def _(workload: Identity | Ones) -> tuple[int, ...] | None:
    return (workload.n,)


@_symmetric_shape.register(Scaled)
def _(workload: Scaled) -> tuple[int, ...] | None:
    return _symmetric_shape(workload.operator)


@_symmetric_shape.register(Anova)
@_symmetric_shape.register(Marginal)
@_symmetric_shape.register(Marginals)
def _(workload: Anova | Marginal | Marginals) -> tuple[int, ...] | None:
    return workload.domain_shape


@_symmetric_shape.register(Kronecker)
def _(workload: Kronecker) -> tuple[int, ...] | None:
    sizes = tuple(factor.shape[1] for factor in workload.factors)
    return sizes if is_uniform(workload) else None


@_symmetric_shape.register(VStack)
def _(workload: VStack) -> tuple[int, ...] | None:
    shapes = {_symmetric_shape(block) for block in workload.blocks}
    shapes.discard((workload.shape[1],))  # symmetric in every shape
    if not shapes:
        return (workload.shape[1],)
    return shapes.pop() if len(shapes) == 1 else None


def _symmetric_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (1/n) (Σ_s √(m_s v_s))² where the gram is in the marginal algebra.

    The group of relabellings moves every cell to every other and the bound is
    concave in p, so uniform p is best.
    """
    if isinstance(workload, (Identity, Ones)):
        return float(workload.shape[0])
    shape = _symmetric_shape(workload)
    if shape is None:
        return None
    if len(shape) > LIMITS.lattice_attributes:
        return _sparse_loss_bound(workload, shape)
    energies = anova_energies(workload, shape)
    if energies is None:
        return None
    roots = np.sqrt(subset_ranks(shape) * energies)
    rounding = 1.0 - 4.0 * roots.size * np.finfo(float).eps
    return float(roots.sum()) ** 2 / workload.shape[1] * rounding


def _sparse_loss_bound(workload: QueryMatrix, shape: tuple[int, ...]) -> float | None:
    """Return (Σ_s m_s √(τ_s / n_s))², the same over the subsets that are asked for."""
    asked = mean_spectrum(workload, shape)
    if asked is None:
        return None
    roots = ranks_of(asked, shape) * np.sqrt(
        np.array(list(asked.values())) / sizes_of(asked, shape)
    )
    rounding = 1.0 - 4.0 * roots.size * np.finfo(float).eps
    return float(roots.sum()) ** 2 * rounding


def _commuting_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ σ_i)² / n of a union of products whose grams commute by attribute.

    Then one orthogonal basis per attribute diagonalises all terms, and the
    eigenvalues of the gram are sums of outer products. Identities commute with
    everything: ranges on one attribute, and on another, of a large table.
    """
    terms = kronecker_terms(workload)
    if terms is None or workload.shape[1] > LIMITS.dual_distribution:
        return None
    sizes = [factor.shape[1] for factor in terms[0][1]]
    if max(sizes) > CHEAP_SPECTRUM_SIZE:
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
    return _sum_of_roots(total, rounding) ** 2 / workload.shape[1]


def _known_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ σ_i)² / n where the singular values have a closed form."""
    values = known_singular_values(workload)
    if values is None:
        return None
    rounding = 1.0 - 64.0 * np.finfo(float).eps
    return float(values.sum()) ** 2 / workload.shape[1] * rounding


def _product_bound(parts: list[BoundResult], n: int) -> BoundResult:
    distribution: NDArray[Any] | None = None
    if n <= LIMITS.dual_distribution:
        distribution = np.ones(1)
        for part in parts:
            assert part.distribution is not None
            distribution = np.kron(distribution, part.distribution)
    gap = math.prod(1.0 + part.gap for part in parts) - 1.0
    bound = math.prod(part.bound for part in parts)
    return BoundResult(bound, gap, max(part.n_iter for part in parts), distribution)


def _spread_bound(inner: BoundResult, groups: NDArray[np.int64]) -> BoundResult:
    """Return the bound of a reduced domain as one of the original cells."""
    assert inner.distribution is not None
    sizes = np.bincount(groups[groups >= 0], minlength=inner.distribution.size)
    shares = np.concatenate([inner.distribution / np.maximum(sizes, 1), [0.0]])
    return replace(inner, distribution=shares[groups])


# ---- singular values of large workloads --------------------------------------


def _weighted_loss_bound(workload: QueryMatrix, p: NDArray[np.float64]) -> float:
    """Return ‖W P^½‖_*² by all singular values."""
    weighted = Product(workload, Diagonal(np.sqrt(p)))
    squares = squared_singular_values(weighted)
    return _sum_of_roots(squares, max(workload.shape)) ** 2


def _partial_loss_bound(workload: QueryMatrix, p: NDArray[np.float64]) -> float:
    r"""Return ‖M‖_*² for M = W P^½ from below, by products with M alone.

    With k directions Q and V an orthonormal basis of the rows QᵀM, pinching gives

    .. math:: \|M\|_* \ge \|Q^T M\|_* + \|E\|_*, \qquad E = M (I - V V^T),

    and Hölder's inequality :math:`\|E\|_* \ge \|E\|_F^3 / \|E\|_4^2`. With H = M Mᵀ,
    C = QᵀHQ and Z = M V = HQ C^-½, all of it follows from products: ‖QᵀM‖_* is tr C^½,
    and E Eᵀ = H - Z Zᵀ. Any Q is valid; that of subspace iteration is a good one.
    Of M and Mᵀ the one with fewer rows is taken.
    """
    m, n = workload.shape
    size = min(m, n)
    products = _gram_products(workload, p)
    trace = float(p @ workload.column_square_sums().astype(np.float64))
    if trace == 0:
        return 0.0
    count = max(min(DIRECTIONS, PRODUCT_ENTRIES // max(m, n), size), 1)
    start = np.random.default_rng(0).standard_normal((size, count))
    directions, _ = np.linalg.qr(start)
    for _ in range(SUBSPACE_ITERATIONS):
        directions, _ = np.linalg.qr(products(directions))
    images = products(directions)
    inner = directions.T @ images
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    keep = values > SPREAD * values[-1]
    values, vectors = values[keep], vectors[:, keep]
    explained = images @ (vectors / np.sqrt(values))  # Z
    # A sum of m or n products is off by so much of the norms; dividing by C, by its
    # condition more.
    rounding = 8.0 * (m + n) * np.finfo(float).eps
    slack = rounding * values[-1] / values[0]
    energy = trace * (1.0 - slack) - float(np.square(explained).sum()) * (1.0 + slack)
    whole = _fourth_moment(workload, p, trace, products)
    cross = float(np.einsum("ij,ij->", explained, products(explained)))
    own = float(np.square(explained.T @ explained).sum())
    fourth = whole * (1.0 + 4.0 * slack) - 2.0 * cross + own
    rest = max(energy, 0.0) ** 1.5 / math.sqrt(fourth) if fourth > 0 else 0.0
    total = _sum_of_roots(values, m + n) + rest
    return total**2 * (1.0 - 2.0 * rounding)


def _gram_products(
    workload: QueryMatrix, p: NDArray[np.float64]
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return X -> H X for the smaller of P^½ WᵀW P^½ and W P Wᵀ."""
    m, n = workload.shape
    if m < n:
        return lambda x: workload.matmat(p[:, None] * workload.rmatmat(x))
    roots, gram = np.sqrt(p)[:, None], workload.gram()
    return lambda x: roots * gram.matmat(roots * x)


@singledispatch
def _fourth_moment(
    workload: QueryMatrix,
    p: NDArray[np.float64],
    trace: float,
    products: Callable[[NDArray[np.float64]], NDArray[np.float64]],
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
def _(workload: Sparse, p: NDArray[np.float64], trace: float, products: Any) -> float:
    weighted = workload.to_sparse().astype(np.float64) * np.sqrt(p)
    filled = np.diff(weighted.tocsc().indptr).astype(np.float64)
    if float(filled @ filled) > LIMITS.certificate_entries:
        return _fourth_moment_by_norms(workload, p, trace)
    return float(np.square((weighted @ weighted.T).data).sum())


def _fourth_moment_by_norms(
    workload: QueryMatrix, p: NDArray[np.float64], trace: float
) -> float:
    """Use Σ σ_i⁴ <= σ_max² Σ σ_i² and σ_max² <= ‖W‖_1 ‖W‖_∞ max_j p_j."""
    try:
        largest = float(workload.row_abs_sums().max()) * workload.sensitivity()
    except DomainTooLargeError:
        return math.inf
    return trace * float(p.max()) * largest


# ---- the dual iteration ------------------------------------------------------

Step = Callable[
    [NDArray[np.float64]], tuple[float, float, NDArray[np.float64], NDArray[np.bool_]]
]


def _sum_of_roots(squares: NDArray[np.float64], size: int) -> float:
    """Return a lower bound on Σ √λ_i given eigenvalues with rounding errors.

    By Weyl's inequality every eigenvalue is off by at most the norm of the error,
    about size x machine precision x the largest.
    """
    noise = size * np.finfo(float).eps * squares.max(initial=0.0)
    return float(np.sqrt(squares[squares > noise] - noise).sum())


def _spectral_step(workload: QueryMatrix) -> Step:
    """Return the map p -> (φ from below, φ, tr-gradient M_j / p_j, support)."""
    m, n = workload.shape
    if m < n and m <= LIMITS.dual_cells and m * n <= LIMITS.dual_entries:
        return _step_by_rows(workload._dense().astype(np.float64))
    if n <= LIMITS.dual_cells:
        gram = workload.gram()._dense().astype(np.float64)
        return _step_by_cells(gram, n if workload.dtype == np.int64 else m)
    raise DomainTooLargeError(
        f"the dual bound of {workload!r} needs it explicit, with at most "
        f"{LIMITS.dual_cells} queries or cells and {LIMITS.dual_entries} entries; use "
        "svd_bound, or a workload with Kronecker structure"
    )


def _kept(values: NDArray[np.float64], size: int) -> NDArray[np.bool_]:
    return values > size * np.finfo(float).eps * values.max(initial=0.0)


def _step_by_cells(gram: NDArray[np.float64], terms: int) -> Step:
    """With S = P^½ V P^½: φ = tr S^½, M_j = (S^½)_jj.

    An entry of the gram is a sum of `terms` rounded numbers.
    """
    size = max(terms, gram.shape[0])
    support = np.diagonal(gram) > 0

    def step(
        p: NDArray[np.float64],
    ) -> tuple[float, float, NDArray[np.float64], NDArray[np.bool_]]:
        roots = np.sqrt(p)
        values, vectors = np.linalg.eigh(gram * roots[:, None] * roots)
        keep = _kept(values, size)
        singular = np.sqrt(values[keep])
        moments = np.square(vectors[:, keep]) @ singular
        ratios = np.divide(moments, p, out=np.zeros_like(p), where=p > 0)
        lower = _sum_of_roots(values, size)
        return lower, float(singular.sum()), ratios, support

    return step


def _step_by_rows(rows: NDArray[np.float64]) -> Step:
    """With K = W P Wᵀ: φ = tr K^½, M_j = p_j w_jᵀ K^{-½} w_j."""
    support = (rows != 0).any(axis=0)

    def step(
        p: NDArray[np.float64],
    ) -> tuple[float, float, NDArray[np.float64], NDArray[np.bool_]]:
        values, vectors = np.linalg.eigh((rows * p) @ rows.T)
        keep = _kept(values, p.size)
        singular = np.sqrt(values[keep])
        rotated = vectors[:, keep].T @ rows
        ratios = (1.0 / singular) @ np.square(rotated)
        lower = _sum_of_roots(values, p.size)
        return lower, float(singular.sum()), ratios, support

    return step


def _iterate(
    step: Step,
    n: int,
    max_iter: int,
    tolerance: float,
    stop: Callable[[], bool] | None = None,
) -> BoundResult:
    """Maximise φ over p by p_j <- p_j (M_j / (p_j φ))^exponent, normalised.

    φ² bounds from below at every p; φ² max_j M_j / (p_j φ), the error of the
    Gaussian strategy with gram P^-½ S^½ P^-½, bounds the maximum from above.
    """
    p = best_p = np.full(n, 1.0 / n)
    best, upper, exponent = -1.0, math.inf, STEP
    for iteration in range(1, max_iter + 1):
        lower, phi, ratios, support = step(p)
        if phi == 0:
            return BoundResult(0.0, 0.0, iteration, p)
        ratios = ratios / phi
        upper = min(upper, phi**2 * float(ratios[support].max()))
        if lower > best:
            best, best_p = lower, p
        elif exponent > 1:  # too long a step: go back and take the monotone one
            exponent, p = 1.0, best_p
            continue
        if upper <= best**2 * (1 + tolerance) or (stop is not None and stop()):
            break
        p = p * ratios**exponent
        p[support] = np.maximum(p[support] / p.sum(), FLOOR / n)
        p /= p.sum()
    gap = max(upper / best**2 - 1.0, 0.0) if best > 0 else math.inf
    return BoundResult(best**2, gap, iteration, best_p)
