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

from mmech.arrays import Floats
from mmech.checks import check_integer
from mmech.exceptions import DomainTooLargeError
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
        bound = weight**2 * math.prod(least for least, _ in parts)
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
        total = sum(float(weight) ** 2 * least for weight, (least, _) in parts)
        names = [name for _, (_, name) in parts]
        yield total, _weakest(["sum over the blocks", *names])
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


# ---- the best probabilities of the cells, by iteration -----------------------

EXTRAPOLATED = (2.0,) * 8
"""Exponents of the multiplicative update while it is extrapolated: two is the inverse
of the response of a single cell. The next one is taken where the bound falls."""

STEPS = (3.0, 2.0, 1.0)
"""Exponents of plain updates after that: one is monotone, three is thrice as fast."""

NOISE = 0.05
"""Fall of the bound, relative to the tolerance, that counts as one."""

REMEMBERED = 4
"""Earlier updates from which one is extrapolated."""

FARTHEST = 2.0
"""Most that the logarithm of a probability is extrapolated at a time."""

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
    distribution: Floats | None


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


Moments = tuple[float, float, Floats, NDArray[np.bool_], float]
Step = Callable[[Floats], Moments]


def spectral_step(workload: QueryMatrix) -> Step:
    """Return the map p -> (φ from below, φ, tr-gradient M_j / p_j, support, loss).

    The last is the loss of the strategy of p with columns of length one, where they may
    be scaled: where the gram is regular. Else it is infinite.
    """
    m, n = workload.shape
    if m < n and m <= LIMITS.dual_cells and m * n <= LIMITS.dual_entries:
        return _step_by_rows(workload)
    if n <= LIMITS.dual_cells:
        gram = workload.gram()._dense().astype(np.float64)
        return _step_by_cells(gram, n if workload.dtype == np.int64 else m)
    raise DomainTooLargeError(
        f"the dual bound of {workload!r} needs it explicit, with at most "
        f"{LIMITS.dual_cells} queries or cells and {LIMITS.dual_entries} entries; use "
        "svd_bound, or a workload with Kronecker structure"
    )


def _kept(values: Floats, size: int) -> NDArray[np.bool_]:
    return values > size * np.finfo(float).eps * values.max(initial=0.0)


def sum_of_roots(squares: Floats, size: int) -> float:
    """Return a lower bound on Σ √λ_i given eigenvalues with rounding errors.

    By Weyl's inequality every eigenvalue is off by at most the norm of the error,
    about size x machine precision x the largest.
    """
    noise = size * np.finfo(float).eps * squares.max(initial=0.0)
    return float(np.sqrt(squares[squares > noise] - noise).sum())


def _step_by_cells(gram: Floats, terms: int) -> Step:
    """With S = P^½ V P^½: φ = tr S^½, M_j = (S^½)_jj.

    An entry of the gram is a sum of `terms` rounded numbers.
    """
    size = max(terms, gram.shape[0])
    support = np.diagonal(gram) > 0

    def step(p: Floats) -> Moments:
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


def _step_by_rows(workload: QueryMatrix) -> Step:
    """With K = W P Wᵀ: φ = tr K^½, M_j = p_j w_jᵀ K^{-½} w_j."""
    columns = np.ascontiguousarray(workload._dense().T, np.float64)
    support = np.asarray((columns != 0).any(axis=1))

    def step(p: Floats) -> Moments:
        values, vectors = np.linalg.eigh(workload._matmat(columns * p[:, None]))
        keep = _kept(values, p.size)
        singular = np.sqrt(values[keep])
        rotated = workload._rmatmat(np.ascontiguousarray(vectors[:, keep]))
        ratios = np.square(rotated) @ (1.0 / singular)
        lower = sum_of_roots(values, p.size)
        return lower, float(singular.sum()), ratios, support, math.inf

    return step


def iterate(
    step: Step,
    n: int,
    max_iter: int,
    tolerance: float,
    stop: Callable[[], bool] | None = None,
    start: Floats | None = None,
) -> BoundResult:
    """Maximise φ over p by p_j <- p_j (M_j / (p_j φ))^exponent, normalised.

    φ² bounds from below at every p; φ² max_j M_j / (p_j φ), the error of the
    Gaussian strategy with gram P^-½ S^½ P^-½, bounds the maximum from above. So does
    the error of that strategy with scaled columns, which is much closer. Logarithms of
    p are extrapolated from earlier updates [1]_, and p is `start` at first, or uniform.

    References
    ----------
    .. [1] Walker, Ni, "Anderson acceleration for fixed-point iterations", SIAM J.
       Numer. Anal. 49, 2011.
    """
    p = best_p = np.full(n, 1.0 / n) if start is None else start
    best, upper, left = -1.0, math.inf, [*EXTRAPOLATED, *STEPS]
    seen: list[Floats] = []
    for iteration in range(1, max_iter + 1):
        lower, phi, ratios, support, loss = step(p)
        if phi == 0:
            return BoundResult(0.0, 0.0, iteration, p)
        ratios = ratios / phi
        upper = min(upper, phi**2 * float(ratios[support].max()), loss)
        if lower > best:
            best, best_p, best_ratios = lower, p, ratios
        elif len(left) > 1 and lower < best * (1 - NOISE * tolerance):
            left, p, ratios, seen = left[1:], best_p, best_ratios, []
        near = max(best, phi) ** 2 * (1 + tolerance)  # φ from below may not get there
        if upper <= near or (stop is not None and stop()):
            break
        logs = np.log(ratios, out=np.zeros(n), where=support & (ratios > 0))
        moved = left[0] * logs
        if len(left) > len(STEPS):
            place = np.log(p, where=support, out=np.zeros(n))
            seen = [*seen[-REMEMBERED:], np.array([place, logs])]
            moved += _extrapolated(seen, np.sqrt(p), left[0])
        p = p * np.exp(moved - moved.max())
        p[support] = np.maximum(p[support] / p.sum(), FLOOR / n)
        p /= p.sum()
    gap = max(upper / best**2 - 1.0, 0.0) if best > 0 else math.inf
    return BoundResult(best**2, gap, iteration, best_p)


def _extrapolated(seen: list[Floats], weights: Floats, exponent: float) -> Floats:
    """Return what to add to an update of log p, given pairs of log p and its change.

    A combination of the pairs is taken whose change is least in the given weights.
    """
    places, changes = np.diff(np.array(seen), axis=0).swapaxes(0, 1)
    shares = np.linalg.lstsq((changes * weights).T, -seen[-1][1] * weights, 1e-8)[0]
    return np.clip(shares @ (places + exponent * changes), -FARTHEST, FARTHEST)
