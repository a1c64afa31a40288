r"""Strategies under L2 sensitivity, for Gaussian noise.

Unlike the L1 problem this one is convex in the gram of the strategy, so optima come
with a proof. With :math:`\phi(p) = \|W P^{1/2}\|_*` for probabilities P = diag(p) of
the cells, the least loss is the maximum of :math:`\phi(p)^2`, and a strategy with
gram :math:`P^{-1/2} (P^{1/2} W^T W P^{1/2})^{1/2} P^{-1/2}` attains it (`dual_bound`).
Products take products of optima; where the gram of the workload is in the marginal
algebra, p is uniform and the optimum has a closed form.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.checks import (
    check_choice,
    check_integer,
)
from mmech.error import bounds
from mmech.error import expected as error
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.checks import check_operator
from mmech.operators.compose import Scaled
from mmech.operators.explicit import Dense
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginals
from mmech.operators.merged import Merged
from mmech.operators.residuals import Residuals
from mmech.operators.subsets import downward_closure, ranks_of, sizes_of
from mmech.reduction.cells import reduce_domain
from mmech.strategies.gaussian_pidentity import gaussian_pidentity, gaussian_union
from mmech.strategies.marginals import attribute_sizes, domain_shape_of
from mmech.strategies.pidentity import check_tolerance
from mmech.strategies.result import Candidate, StrategyResult
from mmech.structure.shape import kronecker_terms
from mmech.structure.spectrum import marginal_terms, mean_spectrum
from mmech.threads import one_blas_thread

__all__ = ["optimize_gaussian"]

Floats = NDArray[np.float64]

MAX_SIDE = bounds.DUAL_SIZE
"""Largest smaller side of a workload for an explicit strategy."""

MAX_ENTRIES = 2**27
"""Largest explicit strategy (1 GiB of float64)."""

DESCENT_CELLS = 2**14
"""Largest domain without product structure on which "auto" descends."""

REPAIRS = 2
"""Strategies that are made explicit before the best is taken."""

SVD_ENTRIES = 2**20
"""Up to this size singular values are computed without squaring them."""

NEGLIGIBLE = 1e-12
"""Share of the squared sensitivity below which a marginal is not measured."""


def optimize_gaussian(
    workload: QueryMatrix, *, template: str = "auto", **options: Any
) -> StrategyResult:
    r"""Choose strategy queries A for Gaussian noise, under zCDP.

    Minimises the loss :math:`\|A\|_2^2 \|W A^+\|_F^2`; the expected error at rho is
    loss / (2 rho). Depends on the workload alone, never on data, and is
    deterministic.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    template : {"auto", "identity", "workload", "dense", "kronecker", "pidentity", \
            "residuals", "marginals"}, default="auto"
        Family of strategies.

        * "dense": an explicit matrix, optimal among all, by the dual iteration; the
          smaller side of the workload is at most 3000.
        * "kronecker": the product of optimal factors, optimal for a product. For a
          union of products one p-Identity per attribute, by descent in turn.
        * "pidentity": identity queries and p extra queries of any sign, by descent
          with products of the gram only; within a few percent of "dense" on ranges.
        * "residuals": weighted residuals, in closed form. Optimal for unions of
          marginals, at any number of attributes; for other workloads over a
          product domain the best stack of residuals.
        * "marginals": weighted marginals over the subsets of those of the
          workload, whose rows are 0/1 up to a weight, by a monotone convex iteration.
        * "auto": the first of these that is optimal, otherwise the best of those
          that fit; never worse than "identity".
    **options
        Options of the template: ``max_iter`` of "dense", "kronecker", "pidentity" and
        "marginals", and their ``tolerance`` at which to stop (gap to the optimum;
        relative decrease where p-Identities descend); ``p`` of "pidentity";
        ``domain_shape`` of "residuals" and "marginals".

    Returns
    -------
    StrategyResult
        With ``norm="L2"``. The message states the gap: the loss is at most
        (1 + gap) times the least loss, of all strategies or of the family as it says.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload lacks the structure that the template needs.
    DomainTooLargeError
        If the workload is too large for the template.
    TypeError
        If an option is not one of the template.

    See Also
    --------
    optimize : the same under pure epsilon; its ``privacy="zcdp"`` comes here.
    dual_bound : the lower bound by itself.

    References
    ----------
    .. [1] Edmonds, Nikolov, Ullman, "The power of factorization mechanisms in local
       and central differential privacy", STOC 2020.
    .. [2] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy
       marginals under convex loss functions", NeurIPS 2023.

    Examples
    --------
    >>> from mmech import Prefix, all_marginals, optimize_gaussian
    >>> result = optimize_gaussian(Prefix(64))
    >>> result.template, result.norm, round(result.loss, 1)
    ('dense', 'L2', 282.2)
    >>> optimize_gaussian(all_marginals([10] * 30, 2, lower_orders=True))
    StrategyResult(template='residuals', loss=1.36531e+07,
    strategy=Residuals(466 of 10^30), n_iter=0, success=True, norm='L2')
    """
    check_operator(workload, "workload")
    check_choice(template, "template", ("auto", *TEMPLATES))
    with one_blas_thread():
        if template == "auto":
            known = set().union(*(_accepted(name) for name in TEMPLATES))
            _check_options("auto", options, known)
            result = _auto(workload, options)
        else:
            _check_options(template, options, _accepted(template))
            result = _timed(template, workload, options)
    return replace(result, workload=workload, norm="L2")


def _accepted(template: str) -> set[str]:
    return set(inspect.signature(TEMPLATES[template]).parameters) - {"workload"}


def _check_options(template: str, options: dict[str, Any], accepted: set[str]) -> None:
    unknown = sorted(set(options) - accepted)
    if unknown:
        known = ", ".join(sorted(accepted)) or "none"
        raise TypeError(
            f"template {template!r} has no option {unknown[0]!r} under zCDP; its "
            f"options are: {known}"
        )


def _timed(
    template: str, workload: QueryMatrix, options: dict[str, Any]
) -> StrategyResult:
    started = time.perf_counter()
    accepted = {k: v for k, v in options.items() if k in _accepted(template)}
    result = TEMPLATES[template](workload, **accepted)
    seconds = time.perf_counter() - started
    return replace(result, candidates=(Candidate(template, result.loss, seconds),))


def _auto(workload: QueryMatrix, options: dict[str, Any]) -> StrategyResult:
    """Return an optimal strategy where one is known, else the best that fits."""
    core = workload
    while isinstance(core, Scaled) and core.weight != 0:
        core = core.operator
    if isinstance(core, (Identity, Ones)) or _is_single_marginal(core):
        return _timed("workload", workload, options)
    if marginal_terms(workload) is not None:
        return _timed("residuals", workload, options)
    names = ["identity"]
    if isinstance(core, Kronecker) and len(core.factors) > 1:
        names.append("kronecker")
    elif _fits_dense(reduce_domain(workload)[0]):
        names.append("dense")
    else:
        products = kronecker_terms(workload)
        if products is not None and len(products[0][1]) > 1:
            names.append("kronecker")
        elif workload.shape[1] <= DESCENT_CELLS:
            names.append("pidentity")
        if _projects(workload, options):
            names.append("residuals")
    runs = [_timed(name, workload, options) for name in names]
    best = min(runs, key=lambda run: run.loss)
    tried = [candidate for run in runs for candidate in run.candidates]
    order = sorted(tried, key=lambda candidate: candidate.loss)
    return replace(best, candidates=tuple(order))


def _is_single_marginal(workload: QueryMatrix) -> bool:
    return isinstance(workload, Kronecker) and marginal_terms(workload) is not None


def _fits_dense(workload: QueryMatrix) -> bool:
    m, n = workload.shape
    return min(m, n) <= MAX_SIDE and min(m, n) * n <= MAX_ENTRIES


def _projects(workload: QueryMatrix, options: dict[str, Any]) -> bool:
    shape = options.get("domain_shape", domain_shape_of(workload))
    if shape is None or len(shape) < 2:
        return False
    try:
        return mean_spectrum(workload, tuple(shape)) is not None
    except DomainTooLargeError:
        return False


# ---- without a search -----------------------------------------------------------


def _identity(workload: QueryMatrix) -> StrategyResult:
    strategy = Identity(workload.shape[1])
    return StrategyResult(
        strategy, "identity", error.loss(workload, strategy, privacy="zcdp")
    )


def _workload(workload: QueryMatrix) -> StrategyResult:
    """Measure the workload itself, optimal for one marginal."""
    return StrategyResult(
        workload, "workload", error.loss(workload, workload, privacy="zcdp")
    )


def _kronecker(
    workload: QueryMatrix, *, max_iter: int = 300, tolerance: float = 2e-5
) -> StrategyResult:
    """Multiply optimal factors: bounds and losses multiply, and so do optima."""
    terms = kronecker_terms(workload)
    if terms is None or len(terms) != 1:
        return gaussian_union(workload, max_iter=max_iter, tolerance=tolerance)
    ((weight, factors),) = terms
    options = {"max_iter": max_iter, "tolerance": tolerance / len(factors)}
    parts = [_auto(factor, options) for factor in factors]
    return StrategyResult(
        Kronecker([part.strategy for part in parts]),
        "kronecker",
        weight**2 * math.prod(part.loss for part in parts),
        n_iter=sum(part.n_iter for part in parts),
        success=all(part.success for part in parts),
        message="product of: " + "; ".join(part.message for part in parts),
    )


# ---- explicit strategies ----------------------------------------------------------


def _dense(
    workload: QueryMatrix, *, max_iter: int = 300, tolerance: float = 2e-5
) -> StrategyResult:
    """Solve the dual and return the strategy that belongs to its solution."""
    max_iter = check_integer(max_iter, "max_iter")
    check_tolerance(tolerance)
    reduced, groups = reduce_domain(workload)
    if not _fits_dense(reduced):
        raise DomainTooLargeError(
            f"template 'dense' needs eigendecompositions of size {min(reduced.shape)} "
            f"for {workload!r}, above {MAX_SIDE}, or a strategy of more than "
            f"{MAX_ENTRIES} entries; use template='residuals' or 'identity', or a "
            "workload with Kronecker structure"
        )
    dual = bounds.dual_loss_bound(reduced, max_iter=max_iter, tolerance=tolerance)
    if dual.bound == 0.0:  # nothing is asked
        return replace(_identity(workload), template="dense")
    assert dual.distribution is not None
    p, strategy, loss = dual.distribution, None, math.inf
    for _ in range(REPAIRS):
        candidate = _strategy_of(reduced, p)
        if error.supports(reduced, candidate):
            value = error.loss(reduced, candidate, privacy="zcdp")
            if value < loss:
                strategy, loss = candidate, value
        if loss <= dual.bound * (1.0 + 2.0 * tolerance):
            break
        # Rounding can hide short columns from the dual. Where the column of A is too
        # long, p_j = ‖w_j‖² / φ², never below the optimum, makes it short enough.
        limit = math.sqrt(dual.bound) * (1.0 + 2.0 * tolerance)
        long = candidate.column_square_sums() > limit
        p = np.where(long, reduced.column_square_sums() / dual.bound, p)
        p /= p.sum()
    if strategy is None:
        message = "rounding lost some queries: the columns are of very different size"
        return replace(_identity(workload), success=False, message=message)
    gap = max(loss / dual.bound - 1.0, 0.0)
    if reduced is not workload:
        strategy = Merged(strategy, groups)
    return StrategyResult(
        strategy,
        "dense",
        loss,
        n_iter=dual.n_iter,
        success=gap <= 2.0 * tolerance,
        message=f"gap {gap:.1e} to the least loss after {dual.n_iter} iterations",
        history=(loss,),
    )


def _strategy_of(workload: QueryMatrix, p: Floats) -> QueryMatrix:
    """Return A with AᵀA = P^-½ (P^½ V P^½)^½ P^-½ from probabilities of the cells.

    With the singular vectors of W P^½ = U Σ Zᵀ this is A = Σ^½ Zᵀ P^-½, or
    Σ^-½ Uᵀ W, which keeps a workload of few queries implicit.
    """
    m, n = workload.shape
    roots = np.sqrt(p)
    if m < n:
        rows = workload._dense() * roots
        left, singular = _left_factors(rows, lambda: rows @ rows.T)
        return Dense((left / np.sqrt(singular)).T) @ workload
    gram = workload.gram()._dense().astype(np.float64)
    columns = workload._dense().T * roots[:, None] if m * n <= SVD_ENTRIES else None
    right, singular = _left_factors(columns, lambda: gram * roots[:, None] * roots)
    inverse = np.divide(1.0, roots, out=np.zeros(n), where=np.diagonal(gram) > 0)
    return Dense((right * np.sqrt(singular)).T * inverse)


def _left_factors(
    matrix: Floats | None, product: Callable[[], Floats]
) -> tuple[Floats, Floats]:
    """Return left singular vectors and values of B, leaving out what is rounding.

    From B where it is small, otherwise from B Bᵀ, which resolves half the digits.
    """
    if matrix is not None and matrix.size <= SVD_ENTRIES:
        left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
        keep = singular > max(matrix.shape) * np.finfo(float).eps * singular[0]
        return left[:, keep], singular[keep]
    squares, left = np.linalg.eigh(product())
    keep = squares > squares.size * np.finfo(float).eps * squares[-1]
    return left[:, keep], np.sqrt(squares[keep])


# ---- the marginal algebra -----------------------------------------------------------


def _shape_and_spectrum(
    workload: QueryMatrix, domain_shape: Any, template: str
) -> tuple[tuple[int, ...], dict[tuple[int, ...], float]]:
    sizes = attribute_sizes(workload, domain_shape, template)
    spectrum = mean_spectrum(workload, sizes)
    if spectrum is None:
        raise UnsupportedWorkloadError(
            f"template {template!r} has no projection of {workload!r} on the marginal "
            "algebra; use template='dense' or 'identity'"
        )
    if not spectrum:  # nothing is asked: measure the total, for form's sake
        spectrum = {(): 0.0}
    return sizes, spectrum


def _residuals(workload: QueryMatrix, *, domain_shape: Any = None) -> StrategyResult:
    """Weight residuals in closed form.

    With squared weights x_s the squared sensitivity is Σ x_s m_s / n_s and
    ‖W A⁺‖² = Σ m_s τ_s / x_s, so by Cauchy-Schwarz x_s ∝ √(n_s τ_s) and the loss is
    (Σ m_s √(τ_s / n_s))². In the eigenvalues κ_s = x_s n / n_s of the gram this
    is κ_s ∝ √(v_s / m_s).
    """
    sizes, spectrum = _shape_and_spectrum(workload, domain_shape, "residuals")
    ranks, cells = ranks_of(spectrum, sizes), sizes_of(spectrum, sizes)
    asked = np.array(list(spectrum.values()))
    root = float(np.sum(ranks * np.sqrt(asked / cells)))
    if root == 0.0:
        return StrategyResult(Residuals(sizes, {(): 1.0}), "residuals", 0.0)
    weights = np.sqrt(np.sqrt(cells * asked) / root)
    optimal = marginal_terms(workload) is not None
    return StrategyResult(
        Residuals(sizes, dict(zip(spectrum, weights.tolist(), strict=True))),
        "residuals",
        root**2,
        message="closed form, optimal among "
        + ("all strategies" if optimal else "stacks of residuals"),
    )


def _marginals(
    workload: QueryMatrix,
    *,
    domain_shape: Any = None,
    max_iter: int = 20_000,
    tolerance: float = 1e-4,
) -> StrategyResult:
    """Weight the marginals over the downward closure of what the workload asks.

    With shares u_a = θ_a² of the squared sensitivity, k_s = Σ_{a⊇s} u_a n_s / n_a and
    the loss is Σ u_a Σ m_s τ_s / k_s, convex in u. From
    1 / k_s <= Σ_a α_a² n_a / (u_a n_s) with Σ_a α_a = 1, the update
    u_a <- u_a √(Σ_{s⊆a} (n_s / n_a) m_s τ_s / k_s²) never increases it.
    """
    max_iter = check_integer(max_iter, "max_iter")
    check_tolerance(tolerance)
    sizes, spectrum = _shape_and_spectrum(workload, domain_shape, "marginals")
    closure = downward_closure(spectrum, sizes)
    cells = sizes_of(closure, sizes)
    asked = np.array([spectrum.get(subset, 0.0) for subset in closure])
    energies = ranks_of(closure, sizes) * asked
    if not energies.any():
        return StrategyResult(Marginals(sizes, {(): 1}), "marginals", 0.0)
    inside = _incidence(closure, cells)
    outside = inside.T.tocsr()
    shares = np.full(len(closure), 1.0 / len(closure))
    history: list[float] = []
    gap = math.inf
    for _ in range(max_iter):
        precisions = inside @ shares
        loss = float(np.sum(energies / precisions))
        history.append(loss)
        ratios = (outside @ (energies / precisions**2)) / loss
        # Convexity: no shares have a loss below loss (2 - max ratio).
        gap = float(ratios.max()) - 1.0
        if gap <= tolerance:
            break
        shares = shares * np.sqrt(ratios)
        shares /= shares.sum()
    shares = np.where(shares > NEGLIGIBLE, shares, 0.0)
    shares /= shares.sum()
    loss = float(np.sum(energies / (inside @ shares)))
    weights = {
        subset: math.sqrt(shares[i]) for subset, i in closure.items() if shares[i] > 0
    }
    return StrategyResult(
        Marginals(sizes, weights),
        "marginals",
        loss,
        n_iter=len(history),
        success=gap <= tolerance,
        message=f"gap {gap:.1e} to the best weights of {len(closure)} marginals after "
        f"{len(history)} iterations",
        history=tuple(history),
    )


def _incidence(closure: dict[tuple[int, ...], int], cells: Floats) -> sp.csr_array:
    """Return n_s / n_a for every s ⊆ a, rows s and columns a."""
    rows: list[int] = []
    columns: list[int] = []
    for subset, column in closure.items():
        for size in range(len(subset) + 1):
            for inner in combinations(subset, size):
                rows.append(closure[inner])
                columns.append(column)
    entries = cells[rows] / cells[columns]
    size = len(closure)
    return sp.csr_array((entries, (rows, columns)), shape=(size, size))


TEMPLATES: dict[str, Callable[..., StrategyResult]] = {
    "identity": _identity,
    "workload": _workload,
    "dense": _dense,
    "kronecker": _kronecker,
    "pidentity": gaussian_pidentity,
    "residuals": _residuals,
    "marginals": _marginals,
}
"""Template name to function; the names are the values of ``template=``."""
