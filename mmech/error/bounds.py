r"""Lower bounds on the error of every strategy, which no optimization beats.

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
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.error.singular_bounds import (
    commuting_loss_bound,
    known_loss_bound,
    partial_loss_bound,
    sum_of_roots,
    symmetric_loss_bound,
    weighted_loss_bound,
)
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.noise import law_and_cost
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.known import normal_form
from mmech.operators.lsmr import known_column_squares
from mmech.reduction.cells import reduce_domain
from mmech.structure.shape import frobenius_squared, squared_singular_values
from mmech.threads import one_blas_thread

__all__ = ["BoundResult", "dual_bound", "svd_bound"]

CHEAP_WORK = 5e9
"""Iterations of a cheap bound times the cubed size; about a second."""

CHEAP_ENTRIES = 2**23
"""Largest workload of few rows of which a bound without a stated cost is explicit."""


STEPS = (3.0, 2.0, 1.0)
"""Exponents of the multiplicative update: one is monotone, three is thrice as fast. The
next one is taken where the bound falls, and one at first, far from the optimum."""

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
        The best bound of this kind lies between `bound` and (1 + gap) `bound`; infinite
        where only the singular values are known.
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


@one_blas_thread()
def svd_bound(workload: Matrix, *, epsilon: Any = None, rho: Any = None) -> float:
    r"""Return a lower bound on the expected error of every strategy.

    .. math:: \frac{2}{\epsilon^2} \frac{\left(\sum_i \sigma_i(W)\right)^2}{n}

    With 1 / (2 rho) in place of the first factor for rho of zCDP.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W; Kronecker products cost no more than their factors.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.

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
    Ranges, prefixes, circulants and their products have singular values in closed form.
    Above 4096 on the smaller side, the largest ones are found by products, and moments
    of the rest bound their sum from below. Singular values that rounding
    cannot tell from zero count as zero.

    References
    ----------
    .. [1] Li, Miklau, "Optimal error of query sets under the
       differentially-private matrix mechanism", ICDT 2013, Theorem 4.

    Examples
    --------
    >>> from mmech import Identity, svd_bound
    >>> svd_bound(Identity(4), epsilon=1.0)
    8.0
    >>> svd_bound(Identity(4), rho=0.5)
    4.0
    """
    law, cost = law_and_cost(epsilon, rho)
    workload = as_query_matrix(workload, "workload")
    return law.continuous(cost) * float(svd_loss_bound(workload))


@one_blas_thread()
def dual_bound(
    workload: Matrix,
    *,
    epsilon: Any = None,
    rho: Any = None,
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
    the smaller side of W, at most 3000, per iteration. Above that, where singular
    values have a closed form, the bound is `svd_bound`, and its gap is infinite.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.
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
        If both sides of a workload without structure are above 3000, and its singular
        values have no closed form.

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
    law, cost = law_and_cost(epsilon, rho)
    workload = as_query_matrix(workload, "workload")
    max_iter = check_integer(max_iter, "max_iter")
    if not (isinstance(tolerance, (int, float)) and 0 < tolerance < math.inf):
        raise ValueError(f"tolerance must be a finite number > 0, got {tolerance!r}")
    result = dual_loss_bound(workload, max_iter=max_iter, tolerance=tolerance)
    return replace(result, bound=law.continuous(cost) * result.bound)


# ---- in units of the loss ----------------------------------------------------


def _factored(workload: QueryMatrix) -> tuple[float, tuple[QueryMatrix, ...]]:
    """Return the weight and the factors of the only block of a workload, or itself."""
    form = normal_form(workload)
    if form.is_product and form.products:
        return form.products[0]
    weight, block = form.blocks[0] if len(form.blocks) == 1 else (1, workload)
    return weight, (block,)


def svd_loss_bound(workload: QueryMatrix) -> float:
    """Return (Σ σ_i)² / n, the bound on the loss of every strategy."""
    closed = symmetric_loss_bound(workload)
    if closed is not None:
        return closed
    weight, factors = _factored(workload)
    if factors != (workload,):
        return weight**2 * math.prod(svd_loss_bound(factor) for factor in factors)
    for structured in (known_loss_bound, commuting_loss_bound):
        bound = structured(workload)
        if bound is not None:
            return bound
    m, n = workload.shape
    if min(m, n) > LIMITS.dense_cells:
        trace = frobenius_squared(workload) / n
        return partial_loss_bound(workload, np.full(n, 1.0 / n), trace)
    return sum_of_roots(squared_singular_values(workload), max(m, n)) ** 2 / n


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
    inside = partial(dual_loss_bound, max_iter=max_iter, tolerance=tolerance, stop=stop)
    closed = symmetric_loss_bound(workload)
    if closed is not None:
        uniform = np.full(n, 1.0 / n) if n <= LIMITS.dual_distribution else None
        return BoundResult(closed, 0.0, 0, uniform)
    weight, factors = _factored(workload)
    if factors != (workload,):
        found = product_bound([inside(factor) for factor in factors], n)
        return replace(found, bound=weight**2 * found.bound)
    if n <= LIMITS.dual_distribution:
        reduced, groups = reduce_domain(workload)
        if reduced is not workload:
            return spread_bound(inside(reduced), groups)
    if min(workload.shape) > LIMITS.dual_cells:
        singular = known_loss_bound(workload)
        if singular is not None:
            uniform = np.full(n, 1.0 / n)
            return BoundResult(singular, math.inf, 0, uniform)
    return iterate(spectral_step(workload), n, max_iter, tolerance, stop)


@one_blas_thread()
def cheap_loss_bound(workload: QueryMatrix) -> tuple[float, str]:
    """Return a bound on the loss that takes about a second at most, and its name.

    A stack costs at least the sum of what its blocks cost, and no strategy has a
    smaller loss than the largest squared norm of a column.
    """
    closed = symmetric_loss_bound(workload)
    if closed is not None:
        return closed, "closed form"
    weight, factors = _factored(workload)
    if factors != (workload,):
        parts = [cheap_loss_bound(factor) for factor in factors]
        names = [name for _, name in parts if name != "closed form"]
        bound = weight**2 * math.prod(own for own, _ in parts)
        return bound, [*names, "closed form"][0]
    if workload.shape[1] <= LIMITS.dual_distribution:
        reduced, _ = reduce_domain(workload)
        if reduced is not workload:
            return cheap_loss_bound(reduced)
    return max(_cheap_bounds(workload))


def _cheap_bounds(workload: QueryMatrix) -> Iterator[tuple[float, str]]:
    """Yield bounds that suit the size of a workload, at least one."""
    m, n = workload.shape
    size = min(m, n) if m * n <= CHEAP_ENTRIES else n
    if size <= min(LIMITS.quick_dual_cells, LIMITS.dual_cells):
        work = size**3 if size == n else size**2 * (size + n / 3)
        steps = int(min(max(CHEAP_WORK / work, 1), 100))
        result = dual_loss_bound(workload, max_iter=steps, tolerance=1e-4)
        yield result.bound, "dual"
        return
    for structured in (known_loss_bound, commuting_loss_bound):
        bound = structured(workload)
        if bound is not None:
            yield bound, "singular values"
            return
    blocks = normal_form(workload).blocks
    if len(blocks) > 1:
        each = (float(c) ** 2 * cheap_loss_bound(block)[0] for c, block in blocks)
        yield sum(each), "sum over the blocks"
    yield 0.0, "none"
    if max(m, n) > LIMITS.table_entries or n > LIMITS.dual_distribution:
        return
    try:
        squares = known_column_squares(workload)
        if squares is None and m * n <= LIMITS.certificate_entries:
            squares = workload.column_square_sums().astype(np.float64)
    except DomainTooLargeError:
        return
    if squares is not None:
        yield float(squares.max()), "largest column"
    if size <= LIMITS.quick_spectrum_cells:
        for p in _cell_weights(n, squares):
            yield weighted_loss_bound(workload, p), "singular values"
        return
    for p in _cell_weights(n, squares):
        trace = None if squares is None else float(p @ squares)
        yield partial_loss_bound(workload, p, trace), "partial singular values"


def _cell_weights(
    n: int, squares: NDArray[np.float64] | None
) -> list[NDArray[np.float64]]:
    """Return probabilities of n cells to try: uniform, and by the squared norms.

    The latter, where they are known, are best for columns at right angles.
    """
    uniform = np.full(n, 1.0 / n)
    if squares is None or squares.sum() == 0 or squares.min() == squares.max():
        return [uniform]
    return [uniform, squares / squares.sum()]


# ---- the best probabilities of the cells, by iteration ---------------------------


def product_bound(parts: list[BoundResult], n: int) -> BoundResult:
    """Return the bound of a product of n cells, given those of its factors."""
    distribution: NDArray[Any] | None = None
    if n <= LIMITS.dual_distribution:
        distribution = np.ones(1)
        for part in parts:
            assert part.distribution is not None
            distribution = np.kron(distribution, part.distribution)
    gap = math.prod(1.0 + part.gap for part in parts) - 1.0
    bound = math.prod(part.bound for part in parts)
    return BoundResult(bound, gap, max(part.n_iter for part in parts), distribution)


def spread_bound(inner: BoundResult, groups: NDArray[np.int64]) -> BoundResult:
    """Return the bound of a reduced domain as one of the original cells."""
    assert inner.distribution is not None
    sizes = np.bincount(groups[groups >= 0], minlength=inner.distribution.size)
    shares = np.concatenate([inner.distribution / np.maximum(sizes, 1), [0.0]])
    return replace(inner, distribution=shares[groups])


Moments = tuple[float, float, NDArray[np.float64], NDArray[np.bool_], float]
Step = Callable[[NDArray[np.float64]], Moments]


def spectral_step(workload: QueryMatrix) -> Step:
    """Return the map p -> (φ from below, φ, tr-gradient M_j / p_j, support, loss).

    The last is the loss of the strategy of p with columns of length one, where they may
    be scaled: where the gram is regular. Else it is infinite.
    """
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

    def step(p: NDArray[np.float64]) -> Moments:
        roots = np.sqrt(p)
        values, vectors = np.linalg.eigh(gram * roots[:, None] * roots)
        keep = _kept(values, size)
        singular = np.sqrt(values[keep])
        moments = np.square(vectors[:, keep]) @ singular
        ratios = np.divide(moments, p, out=np.zeros_like(p), where=p > 0)
        lower = sum_of_roots(values, size)
        loss = math.inf
        if keep.all():
            vectors *= np.sqrt(moments)[:, None]
            energies = np.einsum("ij,ij->j", vectors, gram @ vectors)
            loss = float((energies / singular).sum())
        return lower, float(singular.sum()), ratios, support, loss

    return step


def _step_by_rows(rows: NDArray[np.float64]) -> Step:
    """With K = W P Wᵀ: φ = tr K^½, M_j = p_j w_jᵀ K^{-½} w_j."""
    support = (rows != 0).any(axis=0)

    def step(p: NDArray[np.float64]) -> Moments:
        values, vectors = np.linalg.eigh((rows * p) @ rows.T)
        keep = _kept(values, p.size)
        singular = np.sqrt(values[keep])
        rotated = vectors[:, keep].T @ rows
        ratios = (1.0 / singular) @ np.square(rotated)
        lower = sum_of_roots(values, p.size)
        return lower, float(singular.sum()), ratios, support, math.inf

    return step


def iterate(
    step: Step,
    n: int,
    max_iter: int,
    tolerance: float,
    stop: Callable[[], bool] | None = None,
) -> BoundResult:
    """Maximise φ over p by p_j <- p_j (M_j / (p_j φ))^exponent, normalised.

    φ² bounds from below at every p; φ² max_j M_j / (p_j φ), the error of the
    Gaussian strategy with gram P^-½ S^½ P^-½, bounds the maximum from above. So does
    the error of that strategy with scaled columns, which is much closer.
    """
    p = best_p = np.full(n, 1.0 / n)
    best, upper, left = -1.0, math.inf, list(STEPS)
    for iteration in range(1, max_iter + 1):
        lower, phi, ratios, support, loss = step(p)
        if phi == 0:
            return BoundResult(0.0, 0.0, iteration, p)
        ratios = ratios / phi
        upper = min(upper, phi**2 * float(ratios[support].max()), loss)
        if lower > best:
            best, best_p, best_ratios = lower, p, ratios
        elif len(left) > 1:  # too long a step: go back and take a shorter one
            left, p, ratios = left[1:], best_p, best_ratios
        if upper <= best**2 * (1 + tolerance) or (stop is not None and stop()):
            break
        p = p * ratios ** (left[0] if iteration > 1 else 1.0)
        p[support] = np.maximum(p[support] / p.sum(), FLOOR / n)
        p /= p.sum()
    gap = max(upper / best**2 - 1.0, 0.0) if best > 0 else math.inf
    return BoundResult(best**2, gap, iteration, best_p)
