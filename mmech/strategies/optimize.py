"""OPT: choose a template, run it, and compare with what needs no search."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from mmech.checks import check_callback, check_choice, check_seed
from mmech.error.bounds import WEAK, cheap_loss_bound
from mmech.error.expected import NORMS
from mmech.error.result import Callback, Candidate, StrategyResult
from mmech.exceptions import DomainTooLargeError, PerformanceWarning
from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Merged
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.reduction.cells import merge_rows, reduce_domain
from mmech.strategies.closed_form import IDENTITY
from mmech.strategies.marginals import MARGINALS, forest_work
from mmech.strategies.registry import (
    TOO_LARGE,
    Request,
    Skip,
    best_of,
    check_options,
    find,
    start_template,
    time_is_up,
    time_limit,
    try_all,
)
from mmech.structure.shape import ranges_in_rows, unscaled
from mmech.threads import one_blas_thread

UNSEARCHED = ("identity", "workload")
"""Templates that are what is given."""

FAR = 2.0
"""Loss over its bound above which an answer of "auto" warns."""


@one_blas_thread()
def optimize(
    workload: Matrix,
    *,
    template: str = "auto",
    privacy: str = "pure",
    seed: Any = None,
    callback: Callback | None = None,
    budget_seconds: float | None = None,
    **options: Any,
) -> StrategyResult:
    r"""Choose strategy queries A that answer a workload W with little noise.

    Minimises the loss :math:`\|A\|^2 \|W A^+\|_F^2` with the largest norm of a column
    of A: L1 for Laplace noise, where the expected error at epsilon is
    2 loss / epsilon², and L2 for Gaussian noise, where that at rho is loss / (2 rho).
    Depends on the workload alone, never on data.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries to answer.
    template : str, default="auto"
        Family of strategies. Under "pure":

        * "identity": the cells.
        * "workload": the queries themselves.
        * "marginals": weighted marginals over any number of attributes, by a search
          over block designs.
        * "equal_totals": marginals of single attributes, in sets whose K-norm noise has
          equal totals. The result says so, with the loss of that noise, and a mechanism
          that is given the result draws it; "auto" leaves it out.
        * "hierarchy": a tree over an ordered domain, of the best levels.
        * "nested": p-Identity within blocks of an ordered domain and over their totals.
        * "pidentity": identity queries and p extra queries, by descent.
        * "kronecker": one p-Identity per attribute of a (union of) products.
        * "union": groups of products, all measurements answering all queries.

        Under "zcdp", where optima come with a proof:

        * "identity", "workload": as above.
        * "spectral": waves for ranges, prefix sums and windows of one width, in closed
          form, within 4 % of the optimum at any size; within 14 % for windows of up to
          a quarter of the cells, and 37 % for wider ones.
        * "dense": an explicit matrix, optimal among all, by the dual iteration; the
          smaller side of the workload is at most 3000.
        * "kronecker": the product of optimal factors, optimal for a product. For a
          union of products the best strategy of each attribute in turn.
        * "pidentity": identity queries and p extra queries of any sign, by descent
          with products of the gram only; within a few percent of "dense" on ranges.
        * "residuals": weighted residuals, in closed form. Optimal for unions of
          marginals, at any number of attributes; for other workloads over a
          product domain the best stack of residuals.
        * "marginals": weighted marginals over the subsets of those of the
          workload, whose rows are 0/1 up to a weight, by a monotone convex iteration.

        "auto" tries those that suit the workload, until one is known to be optimal,
        and returns the best; never worse than "identity", nor under "pure" than
        "workload".
    privacy : {"pure", "zcdp"}, default="pure"
        Laplace noise under pure epsilon, or Gaussian noise under zCDP.
    seed : int, SeedSequence or Generator, default=None
        Seed of random starts and searches. A number or a SeedSequence gives the same
        strategy every time; a generator is advanced. None draws a new seed from the
        operating system at every call, under either privacy. Closed forms, "dense" and
        "hierarchy" need no seed.
    callback : callable, default=None
        Called with an intermediate `StrategyResult` after every start of a
        descent, or improvement of a search; returning True ends that search early.
    budget_seconds : float, default=None
        Time after which the best so far is returned, with ``success=False``; only
        this makes the result depend on the speed of the machine.
    **options
        Options of the template; "auto" gives every template those that it has.
        ``p`` (int, or one per factor for "kronecker" under "pure"), ``n_starts``,
        ``max_iter``, ``tolerance`` (relative decrease at which to stop; of "dense", and
        "marginals" under "zcdp", the gap to the optimum).

    Returns
    -------
    StrategyResult
        With the ``norm`` that the loss is about. The message of an optimum states the
        gap: the loss is at most (1 + gap) times the least loss. Where "auto" comes back
        with the cells, it names the templates that were tried.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload lacks the structure that the template needs.
    DomainTooLargeError
        If the workload is too large for the template.
    TypeError
        If the workload is not a matrix, or an option is not one of the template.

    Warns
    -----
    PerformanceWarning
        If the answer of "auto" under "zcdp" has more than twice the loss of a lower
        bound. Bounds are loose under "pure": there it warns of the cells or the queries
        themselves, if a search was left out for the size of the workload.

    See Also
    --------
    dual_bound : the least loss under L2, without a strategy.

    Notes
    -----
    BLAS is limited to one thread inside: small factorisations are slower on
    several, and results do not depend on the number of threads.

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of
       high-dimensional statistical queries under differential privacy",
       VLDB 2018.
    .. [2] Edmonds, Nikolov, Ullman, "The power of factorization mechanisms in local
       and central differential privacy", STOC 2020.
    .. [3] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for noisy
       marginals under convex loss functions", NeurIPS 2023.

    Examples
    --------
    >>> from mmech import AllRange, Prefix, all_marginals, optimize
    >>> result = optimize(AllRange(64), seed=0)
    >>> result.template
    'pidentity'
    >>> round(result.loss)
    32063
    >>> result = optimize(Prefix(64), privacy="zcdp")
    >>> result.template, result.norm, round(result.loss, 1)
    ('dense', 'L2', 282.2)
    >>> marginals = all_marginals([10] * 30, 2, lower_orders=True)
    >>> optimize(marginals, privacy="zcdp")
    StrategyResult(template='residuals', loss=1.36531e+07,
    strategy=Residuals(466 of 10^30), n_iter=0, success=True, norm='L2')
    """
    workload = as_query_matrix(workload, "workload")
    norm = NORMS[check_choice(privacy, "privacy", tuple(NORMS))]
    _check_p(options.get("p"), workload.shape[1])
    check_options(template, norm, options)
    check_seed(seed, "seed")
    check_callback(callback, "a StrategyResult")

    def told(result: StrategyResult) -> StrategyResult:
        return replace(result, workload=workload, norm=norm)

    searched = ranges_in_rows(workload)
    ended = False

    def tell(result: StrategyResult) -> bool:
        """Ask whether to end: all searches from then on."""
        nonlocal ended
        assert callback is not None
        ended = ended or bool(callback(told(result)))
        return ended

    inner = None if callback is None else tell
    asked = Request(norm, options, seed=seed, callback=inner)
    with time_limit(budget_seconds):
        if template != "auto":
            start_template(template)
            started = time.perf_counter()
            result = find(template, norm).search(searched, asked)
            seconds = time.perf_counter() - started
            tried = (Candidate(template, result.loss, seconds),)
            result = replace(result, candidates=tried)
        elif norm == "L1":
            result = _auto_on_distinct_cells(searched, asked)
        else:  # whose templates merge cells themselves where no structure is lost
            result = try_all(searched, asked)
        if template == "auto" and result.template == IDENTITY.name:
            result = replace(result, message=_of_cells(result))
        if time_is_up():
            note = f"stopped after {budget_seconds} s; "
            result = replace(result, success=False, message=note + result.message)
            return told(result)
    result = told(result)
    if template == "auto":
        _warn_if_far(result)
    return result


def _of_cells(result: StrategyResult) -> str:
    """Return the message of "auto" on the cells, with what was compared with them."""
    others = (c for c in result.candidates if c.template != IDENTITY.name)
    tried = ", ".join(c.template for c in others if math.isfinite(c.loss))
    words = "nothing better was found: tried " if tried else "no other was tried"
    return f"{result.message}; {words}{tried}"


def _warn_if_far(result: StrategyResult) -> None:
    """Warn of an answer that may be far from the best one, and say what to do.

    Bounds are loose under pure epsilon, and of some workloads none is known. So there
    it warns if a search was left out for the size of the workload, and no other beats
    the cells or the queries.
    """
    left_out = (c for c in result.candidates if c.note.startswith(TOO_LARGE))
    large = [c for c in left_out if c.template not in UNSEARCHED]
    unsearched = result.template in UNSEARCHED and large
    if result.template == "dense" or (result.norm == "L1" and not unsearched):
        return
    assert result.workload is not None
    ratio, (_, name) = result.bound_ratio, cheap_loss_bound(result.workload)
    if ratio <= FAR or (name in WEAK and not unsearched):
        return
    left = "".join(
        f"; template {c.template!r} was left out as too large" for c in large[:1]
    )
    far = f"a loss {ratio:.1f} times a" if math.isfinite(ratio) else "a loss without a"
    warnings.warn(
        f"the strategy {result.template!r} for {result.workload!r} has "
        f"{far} lower bound{left}; ask for fewer "
        "cells or queries, a product of attributes, or another template by its name",
        PerformanceWarning,
        stacklevel=4,
    )


def _check_p(p: Any, n_cells: int) -> None:
    """Raise for more queries beside the identity than there are cells."""
    for rows in p if isinstance(p, (list, tuple)) else [p]:
        if isinstance(rows, (int, np.integer)) and rows > n_cells:
            raise ValueError(
                f"p must be at most the number of cells, {n_cells}, got {rows}; more "
                "queries than cells do not help"
            )


def _auto_on_distinct_cells(workload: QueryMatrix, asked: Request) -> StrategyResult:
    """Run "auto" on the merged cells where the workload does not tell some apart."""
    reduced, groups = reduce_domain(workload)
    if reduced is workload:
        return _auto_on_distinct_rows(workload, asked)

    def lift(result: StrategyResult) -> StrategyResult:
        return replace(result, strategy=Merged(result.strategy, groups))

    tell = asked.callback
    inner = None if tell is None else lambda result: tell(lift(result))
    result = lift(_auto_on_distinct_rows(reduced, replace(asked, callback=inner)))
    note = f"{workload.shape[1]} cells merged into {reduced.shape[1]}; "
    result = replace(result, message=note + result.message)
    started = time.perf_counter()
    # Merging may cost the product structure that marginals need: try them before.
    try:
        seen = MARGINALS.glance(workload, replace(asked, runs=(result,)))
    except DomainTooLargeError as large:
        seen = Skip(str(large))
    if isinstance(seen, Skip):
        return result
    hurried = {"max_evaluations": forest_work(workload), **asked.options}
    unmerged = MARGINALS.search_in_auto(workload, replace(asked, options=hurried))
    seconds = time.perf_counter() - started
    tried = (Candidate(MARGINALS.name, unmerged.loss, seconds), *result.candidates)
    return best_of((result, unmerged), tried)  # a search that was stopped may be worse


def _auto_on_distinct_rows(workload: QueryMatrix, asked: Request) -> StrategyResult:
    """Run "auto" on the distinct queries, which have the same gram."""
    distinct = merge_rows(workload)
    result = try_all(distinct, asked)
    if result.strategy is distinct and distinct is not workload:
        # The loss does not depend on the scale of the strategy.
        result = replace(result, strategy=unscaled(distinct))
    return result
