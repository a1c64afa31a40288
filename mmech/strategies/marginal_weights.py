"""Weights of marginals under L2 sensitivity: a convex problem, solved with its gap."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import scipy.sparse as sp

from mmech.arrays import Floats
from mmech.checks import check_integer, check_nonnegative
from mmech.error.result import StrategyResult
from mmech.operators.base import QueryMatrix
from mmech.operators.marginals import Marginals
from mmech.operators.subsets import downward_closure, ranks_of, sizes_of
from mmech.strategies.closed_form import spectrum_of
from mmech.strategies.registry import Template, time_is_up

NEGLIGIBLE = 1e-12
"""Share of the squared sensitivity below which a marginal is not measured."""


def marginal_weights(
    workload: QueryMatrix,
    *,
    max_iter: int = 20_000,
    tolerance: float = 1e-4,
) -> StrategyResult:
    """Weight the marginals over the downward closure of what the workload asks.

    With shares u_a = θ_a² of the squared sensitivity, k_s = Σ_{a⊇s} u_a n_s / n_a. The
    loss is Σ u_a Σ m_s τ_s / k_s, convex in u. From 1 / k_s <= Σ_a α_a² n_a / (u_a
    n_s) with Σ_a α_a = 1, the update u_a <- u_a √(Σ_{s⊆a} (n_s / n_a) m_s τ_s / k_s²)
    never increases it. It stops at a relative gap of `tolerance` to the best weights.
    """
    max_iter = check_integer(max_iter, "max_iter")
    check_nonnegative(tolerance, "tolerance")
    sizes, spectrum = spectrum_of(workload, "marginals")
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
        if gap <= tolerance or time_is_up():
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
    rows, columns = np.transpose(
        [
            (closure[inner], column)
            for subset, column in closure.items()
            for size in range(len(subset) + 1)
            for inner in combinations(subset, size)
        ]
    )
    entries = cells[rows] / cells[columns]
    shape = (len(closure), len(closure))
    return sp.csr_array((entries, (rows, columns)), shape=shape)


MARGINALS_L2 = Template("marginals", marginal_weights, 70, ("L2",), by_name=True)
"""Tables are measured by it; weighted residuals are never worse where nothing else is
asked."""
