"""The dual bound: the best probabilities of the cells, found by iteration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.error.singular_bounds import sum_of_roots
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix

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
    support = np.asarray(columns.any(axis=1))

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
        if upper <= best**2 * (1 + tolerance) or (stop is not None and stop()):
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
