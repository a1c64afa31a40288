"""OPT: choose a template, run it, and compare with what needs no search."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mmech.checks import check_choice
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.checks import check_operator
from mmech.operators.compose import Product, Scaled, Transpose
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import (
    MAX_ENUMERATED_CELLS,
    MAX_LATTICE_ATTRIBUTES,
    Marginals,
)
from mmech.operators.merged import Merged
from mmech.operators.partition import Conjunctions, PartitionStack
from mmech.operators.ranges import Ranges
from mmech.operators.stack import VStack
from mmech.reduction.cells import reduce_domain
from mmech.reduction.columns import merge_rows
from mmech.strategies.closed_form import identity_strategy, workload_strategy
from mmech.strategies.deadline import time_is_up, time_limit
from mmech.strategies.hierarchy import hierarchy_strategy
from mmech.strategies.kronecker import kronecker_strategy
from mmech.strategies.marginal_pool import marginal_pool_strategy
from mmech.strategies.marginals import (
    domain_shape_of,
    evaluations,
    marginals_strategy,
)
from mmech.strategies.pidentity import pidentity_strategy
from mmech.strategies.result import Candidate, StrategyResult
from mmech.strategies.reweight import low_rank_strategy
from mmech.strategies.union import MAX_CELLS as UNION_CELLS
from mmech.strategies.union import union_strategy
from mmech.structure.blocks import block_energies
from mmech.structure.shape import (
    DENSE_CELLS,
    kronecker_terms,
    measured_loss_bound,
)
from mmech.structure.spectrum import marginal_terms, mean_spectrum
from mmech.threads import one_blas_thread

__all__ = ["optimize"]

Template = Callable[..., StrategyResult]

TEMPLATES: dict[str, Template] = {
    "identity": identity_strategy,
    "workload": workload_strategy,
    "marginals": marginals_strategy,
    "marginal_pool": marginal_pool_strategy,
    "hierarchy": hierarchy_strategy,
    "pidentity": pidentity_strategy,
    "kronecker": kronecker_strategy,
    "union": union_strategy,
    "low_rank": low_rank_strategy,
}
"""Template name to function; the names are the values of ``template=``."""

SMALL_DOMAIN = 64
"""Up to this domain size "auto" tries p-Identity in earnest on every workload."""

FOREST_EVALUATIONS = 100_000
FOREST_PAIR_EVALUATIONS = 32
"""Work that "auto" spends on marginals for a forest, which is fitted in a hurry: at
most, and per pair of subsets of the attributes. More has found nothing better on
lattices of up to five attributes."""

LARGE_DOMAIN = 4096
"""Above this domain size "auto" does not try p-Identity."""


GLANCE = 10_000
"""Evaluations after which "auto" decides whether to search marginals in earnest."""

GLANCE_WORK = 2 * 10**9
FOREST_WORK = 10**10
"""The same in element operations of the loss, which lattices of more than a dozen
attributes reach first: those of a glance, and of a search for a forest."""

HALF_GLANCE = 3000
TWO_THIRDS_GLANCE = 300
"""The same, before anything else is tried, for all marginals over at least that share
of the attributes: the cells themselves answer these best unless some are large."""

TIE = 1e-9
"""Relative gain below which "auto" keeps the simpler strategy."""

LOW_RANK_ROWS = 128
LOW_RANK_CELLS = 1024
"""Largest workload of few queries that "auto" reweights."""

MAX_UNION_TERMS = 16
"""Largest union that "auto" optimizes jointly."""

DENSE_ENTRIES = 2**28
"""Above this number of entries it does not compute the rank of one of few queries."""

LARGE_RANK = 2**26
"""Above this size "auto" does not bound the rank of an unstructured workload."""


def optimize(
    workload: QueryMatrix,
    *,
    template: str = "auto",
    privacy: str = "pure",
    seed: Any = None,
    callback: Callable[[StrategyResult], Any] | None = None,
    budget_seconds: float | None = None,
    **options: Any,
) -> StrategyResult:
    r"""Choose strategy queries A that answer a workload W with little noise.

    Minimises the loss :math:`\|A\|_1^2 \|W A^+\|_F^2`; the expected error at
    epsilon is 2 loss / epsilon². Depends on the workload alone, never on data.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    template : {"auto", "identity", "workload", "marginals", "marginal_pool", \
            "hierarchy", "pidentity", "kronecker", "union", "low_rank"}, \
            default="auto"
        Family of strategies. "auto" tries those that fit and returns the best;
        the result is never worse than measuring the cells ("identity") or the
        queries themselves ("workload").
    privacy : {"pure", "zcdp"}, default="pure"
        Laplace noise under pure epsilon, or Gaussian noise under zCDP: the latter is
        `optimize_gaussian`, with its own templates and options, no random starts and
        nothing to call back.
    seed : int, SeedSequence or Generator, default=None
        Seed of random starts; the same seed gives the same strategy.
    callback : callable, default=None
        Called with an intermediate `StrategyResult` after every start of a
        descent; returning True ends it early.
    budget_seconds : float, default=None
        Time after which the best so far is returned, with ``success=False``; only
        this makes the result depend on the speed of the machine.
    **options
        Options of the template: ``p`` (int, or one per factor for "kronecker"),
        ``n_starts``, ``max_iter``, ``tolerance``, ``groups`` (of "union").

    Returns
    -------
    StrategyResult

    Raises
    ------
    UnsupportedWorkloadError
        If the workload lacks the structure that the template needs.
    TypeError
        If an option is not one of the template.

    Notes
    -----
    BLAS is limited to one thread inside: small factorisations are slower on
    several, and results do not depend on the number of threads.

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of
       high-dimensional statistical queries under differential privacy",
       VLDB 2018.

    Examples
    --------
    >>> from mmech import AllRange, optimize
    >>> result = optimize(AllRange(64), seed=0)
    >>> result.template
    'pidentity'
    >>> round(result.loss)
    32063
    """
    check_operator(workload, "workload")
    check_choice(privacy, "privacy", ("pure", "zcdp"))
    _check_p(options.get("p"), workload.shape[1])
    if privacy == "zcdp":
        from mmech.strategies.gaussian import optimize_gaussian

        return optimize_gaussian(workload, template=template, **options)
    check_choice(template, "template", ("auto", *TEMPLATES))
    with (
        one_blas_thread(),
        time_limit(budget_seconds),
    ):
        started = time.perf_counter()
        if template == "auto":
            result = _auto_reduced(workload, seed, callback, options)
        else:
            result = _run(template, workload, seed, callback, options)
            seconds = time.perf_counter() - started
            tried = (Candidate(template, result.loss, seconds),)
            result = replace(result, candidates=tried)
        if time_is_up():
            note = f"stopped after {budget_seconds} s; "
            result = replace(result, success=False, message=note + result.message)
    return replace(result, workload=workload)


def _check_p(p: Any, n_cells: int) -> None:
    """Raise for more queries beside the identity than there are cells."""
    for rows in p if isinstance(p, (list, tuple)) else [p]:
        if isinstance(rows, (int, np.integer)) and rows > n_cells:
            raise ValueError(
                f"p must be at most the number of cells, {n_cells}, got {rows}; more "
                "queries than cells do not help"
            )


def _accepted(template: str) -> set[str]:
    return set(inspect.signature(TEMPLATES[template]).parameters) - {"workload"}


def _check_options(template: str, options: dict[str, Any], accepted: set[str]) -> None:
    unknown = sorted(set(options) - accepted)
    if unknown:
        known = ", ".join(sorted(accepted - {"seed", "callback"})) or "none"
        raise TypeError(
            f"template {template!r} has no option {unknown[0]!r}; its options are: "
            f"{known}"
        )


def _run(
    template: str,
    workload: QueryMatrix,
    seed: Any,
    callback: Callable[[StrategyResult], Any] | None,
    options: dict[str, Any],
) -> StrategyResult:
    accepted = _accepted(template)
    _check_options(template, options, accepted)
    passed = dict(options)
    if "seed" in accepted:
        passed.update(seed=seed, callback=callback)
    return TEMPLATES[template](workload, **passed)


def _auto_reduced(
    workload: QueryMatrix,
    seed: Any,
    callback: Callable[[StrategyResult], Any] | None,
    options: dict[str, Any],
) -> StrategyResult:
    """Run "auto" on the merged cells where the workload does not tell some apart."""
    reduced, groups = reduce_domain(workload)
    if reduced is workload:
        return _auto_on_distinct_rows(workload, seed, callback, options)

    def lift(result: StrategyResult) -> StrategyResult:
        return replace(result, strategy=Merged(result.strategy, groups))

    inner = None if callback is None else lambda result: callback(lift(result))
    result = lift(_auto_on_distinct_rows(reduced, seed, inner, options))
    note = f"{workload.shape[1]} cells merged into {reduced.shape[1]}; "
    result = replace(result, message=note + result.message)
    started = time.perf_counter()
    # Merging may cost the product structure that marginals need: try them before.
    skip, _ = _reason_to_skip("marginals", workload, [result])
    if skip:
        return result
    accepted = {k: v for k, v in options.items() if k in _accepted("marginals")}
    accepted.setdefault("max_evaluations", _forest_work(workload))
    unmerged = marginals_strategy(workload, seed=seed, callback=callback, **accepted)
    seconds = time.perf_counter() - started
    tried = (Candidate("marginals", unmerged.loss, seconds), *result.candidates)
    return replace(unmerged, candidates=tried)


def _auto_on_distinct_rows(
    workload: QueryMatrix,
    seed: Any,
    callback: Callable[[StrategyResult], Any] | None,
    options: dict[str, Any],
) -> StrategyResult:
    """Run "auto" on the distinct queries, which have the same gram."""
    distinct = merge_rows(workload)
    result = _auto(distinct, seed, callback, options)
    if result.strategy is distinct and distinct is not workload:
        # The loss does not depend on the scale of the strategy.
        while isinstance(distinct, Scaled) and distinct.weight != 0:
            distinct = distinct.operator
        result = replace(result, strategy=distinct)
    return result


def _auto(
    workload: QueryMatrix,
    seed: Any,
    callback: Callable[[StrategyResult], Any] | None,
    options: dict[str, Any],
) -> StrategyResult:
    known = set().union(*(_accepted(name) for name in TEMPLATES))
    _check_options("auto", options, known)
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    runs: list[StrategyResult] = []
    tried: list[Candidate] = []
    cells_suffice = ""
    for name in TEMPLATES:
        started = time.perf_counter()
        note, bound = cells_suffice, math.inf
        if not note:
            try:
                note, bound = _reason_to_skip(name, workload, runs)
            except (DomainTooLargeError, UnsupportedWorkloadError) as reason:
                note = f"failed: {reason}"
        if not note:
            accepted = {k: v for k, v in options.items() if k in _accepted(name)}
            if name == "pidentity" and np.ndim(accepted.get("p", 0)) > 0:
                del accepted["p"]  # one per factor: meant for "kronecker"
            if name == "marginals" and _is_forest(workload):
                accepted.setdefault("max_evaluations", _forest_work(workload))
            try:
                run = _run(name, workload, seed, callback, accepted)
            except (DomainTooLargeError, UnsupportedWorkloadError) as reason:
                note = f"failed: {reason}"
            else:
                runs.append(run)
                bound = run.loss
                if name == "identity" and _cells_suffice(workload, run.loss):
                    cells_suffice = (
                        "a short search of marginals did not improve on the cells"
                    )
        tried.append(Candidate(name, bound, time.perf_counter() - started, note))
    if not runs:
        notes = "; ".join(f"{found.template}: {found.note}" for found in tried)
        raise UnsupportedWorkloadError(
            f"no template of 'auto' suits the workload {workload!r}: {notes}"
        )
    best = runs[0]
    for run in runs[1:]:
        if run.loss < best.loss * (1 - TIE):
            best = run
    order = sorted(tried, key=lambda candidate: (candidate.note != "", candidate.loss))
    return replace(best, candidates=tuple(order))


def _reason_to_skip(
    name: str, workload: QueryMatrix, runs: list[StrategyResult]
) -> tuple[str, float]:
    """Return why "auto" skips a template, and what is known of its loss."""
    if runs and time_is_up():
        return "the time was up", math.inf
    m, n = workload.shape
    products = kronecker_terms(workload)
    if name == "workload" and (products is None or len(products) > 1):
        if max(m, n) > LARGE_RANK:
            return "the rank of so large a workload is out of reach", math.inf
        best = min((run.loss for run in runs), default=math.inf)
        lower = measured_loss_bound(workload)
        if lower >= best:
            return "pruned: the loss is a lower bound above the best", lower
        if min(m, n) > DENSE_CELLS or m * n > DENSE_ENTRIES:
            return "the rank of so large a workload is out of reach", lower
    if name == "identity" and n > MAX_ENUMERATED_CELLS and _fits_pool(workload):
        return "more cells than fit in memory", math.inf
    if name == "marginal_pool" and not _fits_pool(workload):
        return "for workloads over more attributes than a lattice lists", math.inf
    if name == "marginals":
        shape = domain_shape_of(workload)
        if shape is None or len(shape) < 2 or len(shape) > MAX_LATTICE_ATTRIBUTES:
            return "no product domain with a listable lattice", math.inf
        if not _projects(workload):
            return "no projection on the marginal algebra", math.inf
        best = min((run.loss for run in runs), default=math.inf)
        work = min(GLANCE, _forest_work(workload) // 2)
        work = min(work, evaluations(len(shape), GLANCE_WORK))
        glance = marginals_strategy(workload, max_evaluations=max(1, work), seed=0)
        if glance.loss >= best * (1 - TIE):
            return "a short search did not improve on the best", glance.loss
    if name == "hierarchy":
        if n <= LARGE_DOMAIN:
            return "p-Identity suits ordered domains of this size", math.inf
        if block_energies(workload) is None:
            return "not ranges of an ordered domain", math.inf
    if name == "kronecker" and (products is None or len(products[0][1]) < 2):
        return "not a union of products", math.inf
    pooled = any(run.template == "marginal_pool" for run in runs)
    if name == "kronecker" and pooled and marginal_terms(workload) is not None:
        return "marginals are optimized as such", math.inf
    if name == "low_rank":
        if m > LOW_RANK_ROWS or m >= n or n > LOW_RANK_CELLS:
            return "not a workload of few queries", math.inf
        if isinstance(workload, Marginals):
            return "marginals are optimized as such", math.inf
    if name == "union":
        if products is None or not 2 <= len(products) <= MAX_UNION_TERMS:
            return "not a union of a few products", math.inf
        if (
            len(products[0][1]) < 2
            or n > UNION_CELLS
            or isinstance(workload, Marginals)
        ):
            return "marginals and large domains are not optimized as unions", math.inf
    if name == "pidentity":
        if n > LARGE_DOMAIN:
            return f"more than {LARGE_DOMAIN} cells; ask for it by name", math.inf
        if products is not None and n > SMALL_DOMAIN:
            return "a product structure is optimized by 'kronecker'", math.inf
        if n > SMALL_DOMAIN and _is_forest(workload):
            return "descent on partitions falls back to the identity", math.inf
        if n > SMALL_DOMAIN:
            best = min((run.loss for run in runs), default=math.inf)
            short = pidentity_strategy(workload, p=8, n_starts=1, max_iter=30, seed=0)
            if short.loss >= best:
                return "a short descent did not improve on the best", short.loss
    return "", math.inf


def _fits_pool(workload: QueryMatrix) -> bool:
    """Whether the workload asks for subsets of more attributes than a lattice has."""
    shape = domain_shape_of(workload)
    if shape is None or len(shape) <= MAX_LATTICE_ATTRIBUTES:
        return False
    try:
        return mean_spectrum(workload, shape) is not None
    except DomainTooLargeError:
        return False


def _cells_suffice(workload: QueryMatrix, loss: float) -> bool:
    """Whether nothing is worth a search beside the cells, whose loss is known.

    True for all marginals of one order over at least half of the attributes (those of
    one value do not count), unless a short search finds better ones.
    """
    if not isinstance(workload, Marginals) or len(set(workload.weights.values())) > 1:
        return False
    open_attributes = sum(size > 1 for size in workload.domain_shape)
    orders = {
        sum(workload.domain_shape[i] > 1 for i in key) for key in workload.weights
    }
    if len(orders) > 1 or open_attributes > MAX_LATTICE_ATTRIBUTES:
        return False
    (order,) = orders
    every = math.comb(open_attributes, order)
    if 2 * order < open_attributes or len(workload.weights) < every:
        return False
    half = 3 * order < 2 * open_attributes
    work = min(
        HALF_GLANCE if half else TWO_THIRDS_GLANCE,
        evaluations(len(workload.domain_shape), GLANCE_WORK),
    )
    glance = marginals_strategy(workload, max_evaluations=work, seed=0)
    return glance.loss >= loss * (1 - TIE)


def _projects(workload: QueryMatrix) -> bool:
    """Whether the workload is a union of products or boxes, as marginals need it."""
    if isinstance(workload, VStack):
        return all(_projects(block) for block in workload.blocks)
    if isinstance(workload, Scaled):
        return _projects(workload.operator)
    return isinstance(workload, (Kronecker, PartitionStack, Conjunctions, Ranges))


def _forest_work(workload: QueryMatrix) -> int:
    """Return the evaluations that a search of marginals for a forest may take."""
    sizes = domain_shape_of(workload) or ()
    pairs = 4 ** sum(size > 1 for size in sizes)
    return min(
        FOREST_EVALUATIONS,
        FOREST_PAIR_EVALUATIONS * pairs,
        evaluations(min(len(sizes), MAX_LATTICE_ATTRIBUTES), FOREST_WORK),
    )


def _is_forest(workload: QueryMatrix) -> bool:
    """Whether the columns of the workload come from partitions of the domain."""
    if isinstance(workload, (PartitionStack, Conjunctions)):
        return True
    if isinstance(workload, Product):
        return _is_forest(workload.factors[-1])
    if isinstance(workload, (Scaled, Transpose)):
        return _is_forest(workload.operator)
    if isinstance(workload, VStack):
        return any(_is_forest(block) for block in workload.blocks)
    return False
