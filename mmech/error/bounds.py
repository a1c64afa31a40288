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
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.error.dual_iteration import (
    BoundResult,
    iterate,
    product_bound,
    spectral_step,
    spread_bound,
    sum_of_roots,
)
from mmech.limits import LIMITS
from mmech.noise import law_and_cost
from mmech.operators.base import QueryMatrix, once
from mmech.operators.basic import Identity, Ones
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.known import factored, normal_form
from mmech.operators.marginals import Anova
from mmech.operators.pinv import known_column_squares
from mmech.operators.subsets import ranks_of, sizes_of
from mmech.reduction.cells import reduce_domain
from mmech.structure.shape import known_singular_values, squared_singular_values
from mmech.structure.spectrum import is_uniform, mean_spectrum
from mmech.threads import one_blas_thread

CHEAP_WORK = 5e9
"""Iterations of a cheap bound times the cubed size; about a second."""

CHEAP_ENTRIES = 2**23
"""Largest workload of few rows of which a bound without a stated cost is explicit."""

WEAK = ("largest column", "none")
"""Bounds that do not estimate the least loss."""


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

    Raises
    ------
    DomainTooLargeError
        If both sides of a workload without structure are above 4096.

    See Also
    --------
    dual_bound : never smaller, at the cost of some iterations.

    Notes
    -----
    Ranges, prefixes, circulants and their products have singular values in closed form.
    Singular values that rounding cannot tell from zero count as zero.

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
    cells. Up to the factor of the noise, the maximum is the least error of the
    Gaussian mechanism at unit L2 sensitivity. It bounds the error of every
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


def svd_loss_bound(workload: QueryMatrix) -> float:
    """Return (Σ σ_i)² / n, the bound on the loss of every strategy."""
    closed = symmetric_loss_bound(workload)
    if closed is not None:
        return closed
    weight, factors = factored(workload)
    if factors != (workload,):
        return weight**2 * math.prod(svd_loss_bound(factor) for factor in factors)
    bound = known_loss_bound(workload)
    if bound is not None:
        return bound
    m, n = workload.shape
    return sum_of_roots(squared_singular_values(workload), max(m, n)) ** 2 / n


def dual_loss_bound(
    workload: QueryMatrix,
    *,
    max_iter: int = 1000,
    tolerance: float = 1e-4,
    stop: Callable[[], bool] | None = None,
    start: NDArray[np.float64] | None = None,
) -> BoundResult:
    """Return the dual bound on the loss; see `dual_bound`.

    After every iteration `stop` is asked whether it is to be the last. The first one
    is at the probabilities `start`, or uniform ones.
    """
    n = workload.shape[1]
    inside = partial(dual_loss_bound, max_iter=max_iter, tolerance=tolerance, stop=stop)
    closed = symmetric_loss_bound(workload)
    if closed is not None:
        uniform = np.full(n, 1.0 / n) if n <= LIMITS.dual_distribution else None
        return BoundResult(closed, 0.0, 0, uniform)
    weight, factors = factored(workload)
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
    return iterate(spectral_step(workload), n, max_iter, tolerance, stop, start)


@once
@one_blas_thread()
def cheap_loss_bound(workload: QueryMatrix) -> tuple[float, str]:
    """Return a bound on the loss that takes about a second at most, and its name.

    A stack costs at least the sum of what its blocks cost. No loss is below the
    largest squared norm of a column, and no query costs less than the square of its
    largest entry.
    """
    closed = symmetric_loss_bound(workload)
    if closed is not None:
        return closed, "closed form"
    weight, factors = factored(workload)
    if factors != (workload,):
        parts = [cheap_loss_bound(factor) for factor in factors]
        names = [name for _, name in parts if name != "closed form"]
        bound = weight**2 * math.prod(own for own, _ in parts)
        return bound, _weakest([*names, "closed form"])
    if workload.shape[1] <= LIMITS.dual_distribution:
        reduced, _ = reduce_domain(workload)
        if reduced is not workload:
            return cheap_loss_bound(reduced)
    return max(_cheap_bounds(workload))


def _weakest(names: list[str]) -> str:
    """Return the first name of a weak bound, or else the first."""
    return next((name for name in names if name in WEAK), names[0])


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
    bound = known_loss_bound(workload)
    if bound is not None:
        yield bound, "singular values"
        return
    blocks = normal_form(workload).blocks
    if len(blocks) > 1:
        parts = [(weight, cheap_loss_bound(block)) for weight, block in blocks]
        total = sum(float(weight) ** 2 * own for weight, (own, _) in parts)
        yield (
            total,
            _weakest(["sum over the blocks", *(name for _, (_, name) in parts)]),
        )
    yield 0.0, "none"
    if max(m, n) <= LIMITS.table_entries and n <= LIMITS.dual_distribution:
        squares = known_column_squares(workload)
        if squares is not None:
            yield float(squares.max()), "largest column"
    if size <= LIMITS.quick_spectrum_cells:
        yield svd_loss_bound(workload), "singular values"


# ---- from singular values ----------------------------------------------------


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


def known_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ σ_i)² / n, or less, where the singular values have a closed form."""
    values = known_singular_values(workload)
    if values is None:
        return None
    rounding = 1.0 - 64.0 * np.finfo(float).eps
    return float(values.sum()) ** 2 / workload.shape[1] * rounding
