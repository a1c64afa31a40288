"""Weighted marginals: a search over block designs under L1, convex under L2.

Only the subsets s that the workload asks for matter, with their mean energies τ_s. With
k_s = Σ_{a⊇s} θ_a² n_s / n_a the loss of {θ_a M_a} is (Σθ)² Σ_s m_s τ_s / k_s. A
marginal with weight zero cannot be re-activated by a gradient, since its derivative is
positive. So good strategies are few blocks that cover what the workload needs. A search
starts from what is asked itself. Covering designs under several caps, inflated designs
and blocks grown from what is asked follow. Local moves end it. A monotone descent on
the weights follows each of them.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from mmech.arrays import Floats, Subset
from mmech.checks import check_integer, check_nonnegative
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.known import normal_form
from mmech.operators.marginals import Marginals, marginals_of
from mmech.operators.subsets import downward_closure, ranks_of, sizes_of
from mmech.strategies.marginal_search import (
    MAX_CELLS,
    MAX_EVALUATIONS,
    MAX_WORK,
    NAME,
    Search,
)
from mmech.strategies.registry import TIE, Request, Skip, Template, time_is_up
from mmech.structure.spectrum import (
    comes_from_partitions,
    is_union_of_boxes,
    mean_spectrum,
)

PAIR_EVALUATIONS = 100
"""Evaluations per pair of subsets of the attributes: few attributes need no more."""

GLANCE_WORK = 10**8
"""Pairs visited after which "auto" decides whether to search marginals in earnest, if
half the evaluations of a hurried search are not done before."""

HALF_GLANCE = 3000
TWO_THIRDS_GLANCE = 300
"""Evaluations of marginals beside the cells, for all marginals over at least that share
of the attributes: the cells themselves answer these best unless some are large."""

FOREST_GLANCE = 1_500
FOREST_EVALUATIONS = 10_000
FOREST_PAIR_EVALUATIONS = 32
"""Work that "auto" spends on marginals for a forest, which is fitted in a hurry: before
it decides, at most, and per pair of subsets of the attributes. Of 12 forests of depth 1
and 2 twice the most lowers the squared error of one by 3 %, and of none else by 1 %."""


def marginals_strategy(
    workload: QueryMatrix,
    *,
    n_starts: int = 4,
    max_evaluations: int | None = None,
    max_work: int = MAX_WORK,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Search for the best weighted marginals.

    Never worse than the marginals asked for with their best weights. Up to 20
    attributes never worse than one table over all those that the workload touches;
    above, no other table has more than 4096 cells.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries over a product domain of any number of attributes. Over more than 20
        of them each query may restrict few.
    n_starts : int, default=4
        Covering designs per cap.
    max_evaluations : int, default=None
        Work limit, in evaluations of the loss.
    max_work : int, default=1000000000
        Work limit, in (block, subset) pairs visited; a few seconds.
    seed, callback
        As in `optimize`; `callback` is called whenever the best improves.

    Raises
    ------
    UnsupportedWorkloadError
        If the attributes are not known, or the workload has no projection on the
        marginal algebra.
    DomainTooLargeError
        If a query restricts so many attributes that their subsets are too many.
    """
    sizes, asked = spectrum_of(workload, NAME, "template 'pidentity'")
    # Blocks that the workload itself asks for may be larger.
    max_cells = MAX_CELLS if len(sizes) > LIMITS.lattice_attributes else math.inf
    n_starts = check_integer(n_starts, "n_starts")
    max_work = check_integer(max_work, "max_work")
    if not any(asked):  # at most the total is asked
        total = Marginals(sizes, {(): 1})
        return StrategyResult(total, NAME, asked[()], message="the total alone")
    search = Search(sizes, asked, max_cells, np.random.default_rng(seed))
    if max_evaluations is None:
        pairs = min(4 ** len(search.attributes), MAX_EVALUATIONS)
        max_evaluations = min(MAX_EVALUATIONS, PAIR_EVALUATIONS * pairs)
    search.max_evaluations = check_integer(max_evaluations, "max_evaluations")
    search.max_work = max_work
    for _ in search.run(n_starts):
        if callback is not None and callback(search.result()):
            break
    search.polish()
    return search.result()


def spectrum_of(
    workload: QueryMatrix, template: str, others: str
) -> tuple[tuple[int, ...], dict[Subset, float]]:
    """Return the attribute sizes and what the workload asks of every subset."""
    sizes = normal_form(workload).domain_shape
    if sizes is None:
        raise UnsupportedWorkloadError(
            f"template {template!r} needs the attribute sizes of {workload!r}; make it "
            "of marginals, or of a Kronecker with a factor per attribute"
        )
    spectrum = mean_spectrum(workload, sizes)
    if spectrum is None:
        raise UnsupportedWorkloadError(
            f"template {template!r} has no projection of {workload!r} on the marginal "
            f"algebra; use {others}"
        )
    if not spectrum:  # nothing is asked: measure the total, for form's sake
        spectrum = {(): 0.0}
    return sizes, spectrum


# ---- in "auto" ---------------------------------------------------------------


def forest_work(workload: QueryMatrix) -> int:
    """Return the evaluations that a hurried search of marginals may take."""
    sizes = normal_form(workload).domain_shape or ()
    pairs = 4 ** sum(size > 1 for size in sizes)
    return min(FOREST_EVALUATIONS, FOREST_PAIR_EVALUATIONS * pairs)


def is_beyond_lattices(workload: QueryMatrix) -> bool:
    """Whether a workload asks for subsets of more attributes than a lattice has."""
    shape = normal_form(workload).domain_shape
    if shape is None or len(shape) <= LIMITS.lattice_attributes:
        return False
    try:
        return mean_spectrum(workload, shape) is not None
    except DomainTooLargeError:
        return False


def _glance_beside_cells(workload: QueryMatrix) -> int:
    """Return after how many evaluations of marginals the cells suffice, 0 for never.

    They may for all marginals of one order over at least half of the attributes (those
    of one value do not count).
    """
    asked = marginals_of(workload)
    if asked is None or len(set(asked.weights.values())) > 1:
        return 0
    open_attributes = sum(size > 1 for size in asked.domain_shape)
    orders = {sum(asked.domain_shape[i] > 1 for i in key) for key in asked.weights}
    if len(orders) > 1 or open_attributes > LIMITS.lattice_attributes:
        return 0
    (order,) = orders
    every = math.comb(open_attributes, order)
    if 2 * order < open_attributes or len(asked.weights) < every:
        return 0
    half = 3 * order < 2 * open_attributes
    return HALF_GLANCE if half else TWO_THIRDS_GLANCE


def look_at_marginals(workload: QueryMatrix, found: Request) -> Skip | None:
    """Search in earnest where a short search improves on what is known.

    Stop at what is known where no other template will do better.
    """
    shape = normal_form(workload).domain_shape
    if shape is None or len(shape) < 2:
        return Skip("no product domain")
    if is_beyond_lattices(workload):
        return None
    if len(shape) > LIMITS.lattice_attributes or not is_union_of_boxes(workload):
        return Skip("no projection on the marginal algebra")
    beside_cells = _glance_beside_cells(workload)
    work = beside_cells or forest_work(workload) // 2
    if comes_from_partitions(workload):
        work = min(FOREST_GLANCE, work)
    glance = marginals_strategy(
        workload, max_evaluations=work, max_work=GLANCE_WORK, seed=0
    )
    if glance.loss < found.best_loss * (1 - TIE):
        return None
    best = "cells" if beside_cells else "best"
    reason = f"a short search of marginals did not improve on the {best}"
    return Skip(reason, glance.loss, is_last=beside_cells > 0)


def _hurry_for_forests(
    workload: QueryMatrix, options: dict[str, Any]
) -> dict[str, Any]:
    if is_beyond_lattices(workload) or not comes_from_partitions(workload):
        return options
    return {"max_evaluations": forest_work(workload), **options}


MARGINALS = Template(
    NAME, marginals_strategy, 18, look=look_at_marginals, adapt=_hurry_for_forests
)


# ---- under L2 sensitivity ----------------------------------------------------

NEGLIGIBLE = 1e-12
"""Share of the squared sensitivity below which a marginal is not measured."""


def marginal_weights(
    workload: QueryMatrix, *, max_iter: int = 20_000, tolerance: float = 1e-4
) -> StrategyResult:
    """Weight the marginals over the downward closure of what the workload asks.

    With shares u_a = θ_a² of the squared sensitivity, k_s = Σ_{a⊇s} u_a n_s / n_a. The
    loss is Σ u_a Σ m_s τ_s / k_s, convex in u. From 1 / k_s <= Σ_a α_a² n_a / (u_a
    n_s) with Σ_a α_a = 1, the update u_a <- u_a √(Σ_{s⊆a} (n_s / n_a) m_s τ_s / k_s²)
    never increases it. It stops at a relative gap of `tolerance` to the best weights.
    """
    max_iter = check_integer(max_iter, "max_iter")
    check_nonnegative(tolerance, "tolerance")
    sizes, spectrum = spectrum_of(workload, NAME, "template='dense' or 'identity'")
    closure = downward_closure(spectrum, sizes)
    cells = sizes_of(closure, sizes)
    asked = np.array([spectrum.get(subset, 0.0) for subset in closure])
    energies = ranks_of(closure, sizes) * asked
    if not energies.any():
        return StrategyResult(Marginals(sizes, {(): 1}), NAME, 0.0)
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
        NAME,
        loss,
        n_iter=len(history),
        success=gap <= tolerance,
        message=f"gap {gap:.1e} to the best weights of {len(closure)} marginals after "
        f"{len(history)} iterations",
        history=tuple(history),
    )


def _incidence(closure: dict[tuple[int, ...], int], cells: Floats) -> sp.csr_array:
    """Return n_s / n_a for every s ⊆ a, rows s and columns a."""
    pairs = [
        (closure[inner], column)
        for subset, column in closure.items()
        for size in range(len(subset) + 1)
        for inner in combinations(subset, size)
    ]
    rows, columns = np.transpose(pairs)
    entries = cells[rows] / cells[columns]
    shape = (len(closure), len(closure))
    return sp.csr_array((entries, (rows, columns)), shape=shape)


MARGINALS_L2 = Template(NAME, marginal_weights, 70, ("L2",), by_name=True)
"""Tables are measured by it; weighted residuals are never worse where nothing else is
asked."""
