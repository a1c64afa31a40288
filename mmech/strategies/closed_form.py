"""Strategies that need no search: the cells, the queries, weighted residuals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mmech.error import expected as error
from mmech.error.result import StrategyResult
from mmech.error.shared_totals import TEMPLATE, equal_totals_strategy
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity
from mmech.operators.known import normal_form
from mmech.operators.marginals import Residuals
from mmech.operators.subsets import ranks_of, sizes_of
from mmech.strategies.marginals import is_beyond_lattices, spectrum_of
from mmech.strategies.registry import PRIVACY, TOO_LARGE, Request, Seen, Skip, Template
from mmech.structure.shape import measured_loss_bound, unscaled
from mmech.structure.spectrum import is_uniform, marginal_terms, mean_spectrum

DENSE_ENTRIES = 2**28
"""Above this number of entries "auto" does not compute the rank of a workload of few
queries."""

LARGE_RANK = 2**26
"""Above this size "auto" does not bound the rank of an unstructured workload."""


# ---- the cells ---------------------------------------------------------------


def identity_strategy(workload: QueryMatrix, *, norm: str = "L1") -> StrategyResult:
    """Measure every cell: loss ‖W‖_F² under either norm."""
    return _measure(workload, Identity(workload.shape[1]), "identity", norm)


def _measure(
    workload: QueryMatrix, strategy: QueryMatrix, template: str, norm: str
) -> StrategyResult:
    loss = error.loss(workload, strategy, privacy=PRIVACY[norm])
    return StrategyResult(strategy, template, loss)


def look_at_identity(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out more cells than fit in memory."""
    sizes = normal_form(workload).domain_shape or ()
    beyond = len(sizes) > LIMITS.lattice_attributes
    beyond = is_beyond_lattices(workload) if found.norm == "L1" else beyond
    if beyond and workload.shape[1] > LIMITS.enumerated_cells:
        return Skip(f"{TOO_LARGE}more cells than fit in memory")
    return None


# ---- the queries ---------------------------------------------------------------


def workload_strategy(workload: QueryMatrix, *, norm: str = "L1") -> StrategyResult:
    """Measure the workload itself: loss ‖W‖² rank(W), with the norm of a column.

    The least squares step that follows makes this at least as accurate as
    releasing the noisy answers directly, whose loss is ‖W‖² m.
    """
    return _measure(workload, workload, "workload", norm)


def look_at_workload(workload: QueryMatrix, found: Request) -> Seen:
    """Under L2 stop at one marginal; leave out ranks that are hard to find."""
    if found.norm == "L2":
        if not is_uniform(unscaled(workload)):
            few = workload.shape[0] <= LIMITS.dense_cells
            most = workload.l2_sensitivity() ** 2 * workload.shape[0] if few else np.inf
            if most < found.best_loss:
                return None
            return Skip("for one marginal, or few queries")
        reason = "one marginal, measured as it is, is optimal"
        return replace(workload_strategy(workload, norm="L2"), message=reason)
    m, n = workload.shape
    if normal_form(workload).is_product:
        return None
    if max(m, n) > LARGE_RANK:
        return Skip(f"{TOO_LARGE}the rank is out of reach")
    lower = measured_loss_bound(workload)
    if lower >= found.best_loss:
        return Skip("pruned: the loss is a lower bound above the best", lower)
    if min(m, n) > LIMITS.dense_cells or m * n > DENSE_ENTRIES:
        return Skip(f"{TOO_LARGE}the rank is out of reach", lower)
    return None


# ---- weighted residuals ----------------------------------------------------------


def has_closed_form(workload: QueryMatrix) -> bool:
    """Whether weighted residuals are optimal among all strategies under L2."""
    return marginal_terms(workload) is not None


def optimum_under_l2(workload: QueryMatrix, found: Request) -> str:
    """Return why no other template is needed under L2, in words; empty if one is."""
    if has_closed_form(workload):
        return "weighted residuals are optimal in closed form"
    return "what was found is near the optimum" if found.is_near else ""


def residuals_strategy(workload: QueryMatrix) -> StrategyResult:
    """Weight residuals in closed form, the optimum under L2 for unions of marginals.

    With squared weights x_s the squared sensitivity is Σ x_s m_s / n_s, and ‖W A⁺‖² is
    Σ m_s e_s / x_s. By Cauchy-Schwarz x_s ∝ √(n_s e_s), and the loss is
    (Σ m_s √(e_s / n_s))². In the eigenvalues κ_s = x_s n / n_s of the gram this
    is κ_s ∝ √(v_s / m_s).
    """
    sizes, spectrum = spectrum_of(
        workload, "residuals", "template='dense' or 'identity'"
    )
    ranks, cells = ranks_of(spectrum, sizes), sizes_of(spectrum, sizes)
    asked = np.array(list(spectrum.values()))
    root = float(np.sum(ranks * np.sqrt(asked / cells)))
    if root == 0.0:
        return StrategyResult(Residuals(sizes, {(): 1.0}), "residuals", 0.0)
    weights = np.sqrt(np.sqrt(cells * asked) / root)
    optimal = has_closed_form(workload)
    return StrategyResult(
        Residuals(sizes, dict(zip(spectrum, weights.tolist(), strict=True))),
        "residuals",
        root**2,
        message="closed form, optimal among "
        + ("all strategies" if optimal else "stacks of residuals"),
    )


def look_at_residuals(workload: QueryMatrix, found: Request) -> Seen:
    """Stop where they are optimal; leave them out beside an optimum of another kind."""
    if has_closed_form(workload):
        return residuals_strategy(workload)
    optimum = optimum_under_l2(workload, found)
    if optimum:
        return Skip(optimum)
    if normal_form(workload).is_product:
        return Skip("'kronecker' is the product of optimal factors")
    shape = normal_form(workload).domain_shape
    if shape is None or len(shape) < 2:
        return Skip("the attribute sizes are not known")
    if mean_spectrum(workload, shape) is None:
        return Skip("no projection on the marginal algebra")
    return None


IDENTITY = Template("identity", identity_strategy, 10, ("L1", "L2"), look_at_identity)
WORKLOAD = Template("workload", workload_strategy, 20, ("L1", "L2"), look_at_workload)
EQUAL_TOTALS = Template(TEMPLATE, equal_totals_strategy, 35, by_name=True)
RESIDUALS = Template("residuals", residuals_strategy, 60, ("L2",), look_at_residuals)
