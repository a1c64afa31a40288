"""p-Identity: identity queries and p optimized extra queries.

The objective tr(WᵀW (AᵀA)⁻¹) and its gradient need one product with the gram
WᵀW per evaluation and p x p factorisations; no n x n matrix is formed. The columns of
A = [I; Θ] diag(1 / s) have norm one: with s_j = 1 + Σ_a Θ_aj and Θ >= 0 under L1, with
s_j² = 1 + Σ_a Θ_aj² and Θ of any sign under L2. There as many rows Θ as cells reach
every strategy, and a quarter of them comes within a few percent of the optimum on
ranges.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.checks import check_integer, check_nonnegative
from mmech.error import bounds
from mmech.error import expected as error
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity
from mmech.operators.known import normal_form
from mmech.operators.marginals import marginals_of
from mmech.operators.pidentity import PIdentity, column_norms, thin_factors
from mmech.strategies.closed_form import optimum_under_l2
from mmech.strategies.descent import BoxDescent, minimize_in_box
from mmech.strategies.ordered import (
    BlockLevel,
    asks_in_order,
    find_order,
    ordered_starts,
    random_starts,
    refined,
)
from mmech.strategies.registry import TOO_LARGE, Request, Skip, Template, time_is_up
from mmech.structure.blocks import repeats
from mmech.structure.shape import frobenius_squared
from mmech.structure.spectrum import comes_from_partitions

MAX_WEIGHT = 1e3
"""Upper bound on entries of theta; larger ones only cost accuracy."""

CHOLESKY_LIMIT = 1e3
"""Above this diagonal entry of the Cholesky factor, QR is used instead."""

RACE_ITERATIONS = 150
RACE_TOLERANCE = 1e-5
"""Limits of a descent that only finds the starts, or blocks, to go on from."""

GLANCE_TOLERANCE = 1e-4
"""Limit of the one descent that tells "auto" whether p-Identity pays. Fewer extra
queries than by default, or thirty iterations, missed windows of a month in a year."""

GLANCES = 4
"""Starts of a second look, and a total, where the first collapsed to the identity: on
random matrices most do."""

PRODUCT_STARTS, PRODUCT_STARTS_DOMAIN = 4, 400
"""Starts of "auto" on products of more cells: at most .9 % above all starts on 300
random workloads (`benchmarks.strategy_table`), in less time."""

PRODUCT_DOMAIN = 2048
"""Above this domain size "auto" leaves products to the templates of their factors."""

SMALL_DOMAIN = 64
"""Up to this domain size "auto" tries p-Identity in earnest on every workload."""

LARGE_DOMAIN = 4096
LARGE_ORDERED_DOMAIN = 8192
"""Above these sizes "auto" does not try p-Identity; from the latter on trees win.
Where there are blocks of cells, "nested" wins from the former on."""

TOLERANCE = 1e-7
"""Default relative decrease at which the last descent stops."""

FAR_AHEAD = 1.2
"""A start of the race is given up once it is so many times above those that go on."""

EXACT_BLOCKS = 512
BLOCKS_TOLERANCE = 2e-7
CELLS_TOLERANCE = 1e-6
"""Descents over an order go to the end on the finest level of at most so many blocks;
on finer ones, where an iteration costs more and little is left to gain, they settle."""

FINALISTS = 3
"""Starts that race on these levels. The best alone goes to the end: all three took .2 %
off the loss of AllRange(1024), nothing off others, in thrice the time."""

EXACTING_DOMAIN = 1024
"""Above this number of cells without an order "auto" stops at the tolerance of a race:
the last half percent of the loss takes ten times as long."""

MAX_ROWS = 64
"""Largest default number of extra queries."""

MAX_CELLS_L2 = 2**14
"""Above this domain size "auto" does not try p-Identity under L2."""

COLLAPSE_GAP = 1e-6
"""A start that ends this close to the identity's loss has collapsed to it."""


def default_p(n_cells: int, per_query: int = 16) -> int:
    """Return the default number of extra queries, by cells for each: 4 to 64."""
    return max(min(n_cells, 4), min(n_cells // per_query, MAX_ROWS))


@dataclass(frozen=True)
class PIdentityObjective:
    r"""The loss of a p-Identity strategy and its gradient.

    With :math:`s = 1 + \Theta^T 1`, the orthonormal factors
    :math:`[\Theta^T; I] = [Q_1; Q_2] R` and :math:`G = S V S Q_1`,

    .. math:: f = \mathrm{tr}(V S (I - Q_1 Q_1^T) S), \qquad
              \nabla_{\Theta^T} f = -2 (G - Q_1 Q_1^T G) Q_2^T
              + 2\, (c_j - e_j) / s_j \, 1^T ,

    where :math:`c_j = s_j^2 V_{jj}` and :math:`e_j = \sum_a (G \circ Q_1)_{ja}`.
    One evaluation costs a product of the gram V with p vectors and O(n p²). Under
    the norm "L2" :math:`s^2 = 1 + (\Theta \circ \Theta)^T 1`, and the last term is
    :math:`2 (c_j - e_j) / s_j^2 \; \Theta_{aj}`.

    Parameters
    ----------
    gram : QueryMatrix, shape (n, n)
        The gram V = WᵀW of the workload.
    diagonal : ndarray, shape (n,)
        Diagonal of V.
    norm : {"L1", "L2"}, default="L1"
        Norm of the columns that is one.
    counts : ndarray of int64, shape (n,), default=None
        For weights that are constant on blocks of cells: the number of cells of every
        block. `gram` then holds the sums of V over pairs of blocks, `diagonal` the
        sums of its diagonal, and Θ one column per block.

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, Section 5.2 (the
       objective; the one-product form of the gradient is derived here).
    """

    gram: QueryMatrix
    diagonal: Floats
    norm: str = "L1"
    counts: NDArray[np.int64] | None = None

    def __call__(self, columns: Floats) -> tuple[float, Floats]:
        """Return the loss and its gradient (n, p) at a C-contiguous Θᵀ (n, p)."""
        scales = column_norms(columns, self.norm)
        # The c cells of a block contribute c equal rows to Θᵀ: as one, √c times it.
        roots = None if self.counts is None else np.sqrt(self.counts)[:, None]
        shares = scales[:, None] if roots is None else scales[:, None] / roots
        q1, q2 = _factors(columns if roots is None else columns * roots)
        weighted = self.gram._matmat(q1 * shares)  # becomes G
        weighted *= shares
        explained = np.einsum("np,np->n", weighted, q1)
        raw = np.square(scales) * self.diagonal
        weighted -= q1 @ (q1.T @ weighted)
        gradient = weighted @ (-2.0 * q2.T)
        if roots is not None:
            gradient *= roots
        in_scales = (2.0 * (raw - explained) / scales)[:, None]
        if self.norm == "L1":
            gradient += in_scales
        else:
            gradient += in_scales / scales[:, None] * columns
        return float(raw.sum() - explained.sum()), gradient


def _factors(columns: Floats) -> tuple[Floats, Floats]:
    """Return the orthonormal factors, by Cholesky where that keeps its digits."""
    p = columns.shape[1]
    square = columns.T @ columns
    square.flat[:: p + 1] += 1.0
    upper, failed = scipy.linalg.lapack.dpotrf(square)
    if failed or upper.diagonal().max() > CHOLESKY_LIMIT:
        return thin_factors(columns)
    inverse, _ = scipy.linalg.lapack.dtrtri(upper)
    return columns @ inverse, inverse


def pidentity_strategy(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    n_starts: int | None = None,
    max_iter: int = 2000,
    tolerance: float | None = None,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Optimize a p-Identity strategy by descent from several starts.

    Every start descends a little, and the best of them to the end. Cells may have an
    order: of ranges, or found in an explicit workload. Then starts are compared on
    blocks of neighbours, which are halved again and again. Most of the
    descent takes place on at most 512 blocks. Never worse than the identity.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer; only its gram is used.
    p : int, default=None
        Number of extra queries; about n / 16 when omitted.
    n_starts : int, default=None
        Number of random starts; 10 up to 256 cells, else 8. From two on the total of
        cells without an order is one more.
    max_iter : int, default=2000
        Iterations per descent.
    tolerance : float, default=None
        Relative decrease of the loss per iteration at which the last descent stops.
        When omitted 1e-7, and above 512 cells in an order 2e-7 on the blocks and
        1e-6 on the cells.
    seed, callback
        As in `optimize`.
    """
    n = workload.shape[1]
    p = default_p(n) if p is None else check_integer(p, "p")
    if n_starts is None:
        n_starts = 10 if n <= 256 else 8
    check_integer(n_starts, "n_starts")
    check_integer(max_iter, "max_iter")
    if tolerance is not None:
        check_nonnegative(tolerance, "tolerance")
    gram = workload.gram()
    rng = np.random.default_rng(seed)
    identity = error.loss(workload, Identity(n))
    best = StrategyResult(
        PIdentity(np.zeros((0, n))),
        "pidentity",
        identity,
        message="every start collapsed to the identity, a strict local minimum",
    )
    ordered = find_order(gram)
    if ordered is None and gram.shape[0] > LIMITS.pidentity_cells:
        raise DomainTooLargeError(
            f"template 'pidentity' takes at most {LIMITS.pidentity_cells:,} cells "
            f"where they have no order, got {gram.shape[0]:,}; use template 'identity' "
            "or 'marginals', or fewer attributes"
        )
    levels = [BlockLevel.of(gram)] if ordered is None else ordered.levels(p)
    make_starts = random_starts if ordered is None else ordered_starts

    def finished(level: BlockLevel, run: BoxDescent) -> StrategyResult:
        columns = np.repeat(run.point, level.counts, axis=0)
        if ordered is not None and ordered.position is not None:
            columns = columns[ordered.position]
        strategy = PIdentity(columns.T)
        result = StrategyResult(
            strategy,
            "pidentity",
            error.loss(workload, strategy),
            n_iter=len(run.history),
            success=run.success,
            message=run.message,
            history=run.history,
        )
        worst = min(best.loss, identity * (1 - COLLAPSE_GAP))
        return result if result.loss < worst else best

    runs: list[BoxDescent] = []
    first = levels[0]
    descents = _schedule(levels, n_starts, max_iter, tolerance)
    limit, stop = _race(max_iter, descents[-1].tolerance)
    n_kept = 1 + n_starts // 3
    starts = make_starts(first.counts.size, p, rng, n_starts)
    if n_starts > 1 and ordered is None:  # a total, of a weight that it may pay for
        starts = chain(starts, [np.eye(1, p).repeat(n, axis=0) / math.sqrt(n)])
    for start in starts:
        ahead = sorted(run.value for run in runs)[n_kept - 1 : n_kept]
        worst = FAR_AHEAD * ahead[0] if ahead else math.inf
        run = descend(first, start, limit, stop, worst=worst)
        runs.append(run)
        if callback is not None:
            best = finished(first, run)
            if callback(best):
                return best
        if time_is_up():
            break
    level = first
    for finer, keep, limit, stop in descents:
        runs = sorted(runs, key=lambda run: run.value)[:keep]
        if time_is_up():
            break
        starts = (refined(run.point, level, finer) for run in runs)
        more = [descend(finer, start, limit, stop) for start in starts]
        pairs = zip(runs, more, strict=True)
        runs = [replace(run, history=old.history + run.history) for old, run in pairs]
        level = finer
    for run in runs:
        best = finished(level, run)
    if best.n_iter == 0 and not any(run.success for run in runs):
        note = f"no start improved on the identity; {runs[0].message}"
        return replace(best, success=False, message=note)
    return best


class Round(NamedTuple):
    """Descents of the best runs on one level."""

    level: BlockLevel
    keep: int
    max_iter: int
    tolerance: float


def _race(max_iter: int, tolerance: float) -> tuple[int, float]:
    """Return the limits of a descent that only finds what to go on from."""
    return min(max_iter, RACE_ITERATIONS), max(tolerance, RACE_TOLERANCE)


def _schedule(
    levels: list[BlockLevel], n_starts: int, max_iter: int, tolerance: float | None
) -> list[Round]:
    """Return the rounds of descents that follow the race on the coarsest level.

    Exact levels have at most `EXACT_BLOCKS`; few cells are as many.

    =================  ===========  =================  ==================
    levels             keep         max_iter           tolerance
    =================  ===========  =================  ==================
    few cells: coarse  a third      `RACE_ITERATIONS`  `RACE_TOLERANCE`
    few cells: cells   a third      all                `TOLERANCE`
    many: the exact    `FINALISTS`  `RACE_ITERATIONS`  `RACE_TOLERANCE`
    many: last exact   1            all                `BLOCKS_TOLERANCE`
    many: finer        1            `RACE_ITERATIONS`  `RACE_TOLERANCE`
    many: cells        1            all                `CELLS_TOLERANCE`
    =================  ===========  =================  ==================
    """
    middle = [level for level in levels[:-1] if level.counts.size <= EXACT_BLOCKS]
    by_blocks = bool(middle) and levels[-1].counts.size > EXACT_BLOCKS
    default = CELLS_TOLERANCE if by_blocks else TOLERANCE
    stop = default if tolerance is None else tolerance
    on_blocks = BLOCKS_TOLERANCE if tolerance is None else tolerance
    race = _race(max_iter, stop)
    finest = levels[-1]
    if not by_blocks:
        third = 1 + n_starts // 3
        rounds = [Round(level, third, *race) for level in levels[1:-1]]
        return [*rounds, Round(finest, third, max_iter, stop)]
    rounds = [Round(level, FINALISTS, *race) for level in middle[1:-1] or middle[1:]]
    rounds.append(Round(middle[-1], 1, max_iter, on_blocks))
    rounds += [Round(level, 1, *race) for level in levels[len(middle) : -1]]
    return [*rounds, Round(finest, 1, max_iter, stop)]


def pidentity_l2_strategy(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    max_iter: int = 200,
    tolerance: float = 1e-5,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Descend on one p-Identity for the whole domain, under L2 sensitivity.

    Never worse than the identity.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer; only products with its gram are used.
    p : int, default=None
        Number of extra queries; a quarter of the cells, at most 64, when omitted.
    max_iter : int, default=200
        Limit on iterations.
    tolerance : float, default=1e-5
        Relative decrease at which to stop.
    seed, callback
        As in `optimize`; `callback` is called once.
    """
    n = workload.shape[1]
    p = default_p(n, 4) if p is None else check_integer(p, "p")
    check_integer(max_iter, "max_iter")
    check_nonnegative(tolerance, "tolerance")
    start = next(random_starts(n, p, np.random.default_rng(seed), 1))
    level = BlockLevel.of(workload.gram())
    run = descend(level, start, max_iter, tolerance, norm="L2")
    result = better_than_cells(
        workload,
        without_idle_rows(run.point, "L2"),
        "pidentity",
        n_iter=len(run.history),
        success=run.success,
        history=run.history,
        ended=f"{len(run.history)} iterations with {p} extra queries",
    )
    if callback is not None:
        callback(result)
    return result


def without_idle_rows(columns: Floats, norm: str = "L1") -> QueryMatrix:
    """Return the p-Identity of Θᵀ, without rows that the descent set to zero."""
    rows = columns.T[columns.any(axis=0)]
    return PIdentity(rows, norm) if rows.size else Identity(len(columns))


def better_than_cells(
    workload: QueryMatrix,
    strategy: QueryMatrix,
    template: str,
    *,
    ended: str,
    **details: Any,
) -> StrategyResult:
    """Return the strategy under L2, or the identity if that is better, with its gap."""
    loss = error.loss(workload, strategy, privacy="zcdp")
    identity = frobenius_squared(workload)
    if identity <= loss:
        strategy, loss = Identity(workload.shape[1]), identity
        ended += "; no better than the identity"
    bound, name = bounds.cheap_loss_bound(workload)
    if bound > 0 and name not in bounds.WEAK:
        ended += f"; at most {loss / bound:.4g} times the least loss ({name} bound)"
    return StrategyResult(strategy, template, loss, message=ended, **details)


def descend(
    level: BlockLevel,
    start: Floats,
    max_iter: int,
    tolerance: float,
    norm: str = "L1",
    worst: float = math.inf,
) -> BoxDescent:
    """Descend from Θᵀ = `start` (n, p), on the non-negative orthant for "L1".

    `tolerance` is the relative decrease per iteration at which to stop; losses are in
    units of the gram (n, n) of the workload, on blocks of cells.
    """
    unit = float(level.diagonal.sum())
    if unit == 0:
        nothing = np.zeros_like(start)
        return BoxDescent(nothing, 0.0, (), True, "the workload is zero")
    counts = None if level.counts.max() == 1 else level.counts
    objective = PIdentityObjective(level.gram, level.diagonal, norm, counts)

    def normalised(columns: Floats) -> tuple[float, Floats]:
        value, gradient = objective(columns)
        gradient /= unit
        return value / unit, gradient

    run = minimize_in_box(
        normalised,
        start,
        lower=0.0 if norm == "L1" else -MAX_WEIGHT,
        upper=MAX_WEIGHT,
        max_iter=max_iter,
        tolerance=tolerance,
        worst=worst / unit,
    )
    history = tuple(value * unit for value in run.history)
    return replace(run, value=run.value * unit, history=history)


# ---- in "auto" ---------------------------------------------------------------


def look_at_pidentity(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out large domains, products, and what a short descent does not improve."""
    n = workload.shape[1]
    most = LARGE_DOMAIN
    if found.is_near and n > (PRODUCT_DOMAIN if repeats(workload) else most):
        return Skip("what was found is better on ordered domains of this size")
    if n > most and find_order(workload.gram()) is not None:
        most = LARGE_ORDERED_DOMAIN
    if n > most:
        products = normal_form(workload).products
        if products is not None and len(products[0][1]) > 1:
            return Skip("a product structure is optimized by 'kronecker'")
        if comes_from_partitions(workload):
            return Skip("descent on partitions falls back to the identity")
        return Skip(f"{TOO_LARGE}more than {most} cells; ask for it by name")
    if n <= SMALL_DOMAIN:
        return None
    if normal_form(workload).products is not None:
        if n > PRODUCT_DOMAIN:
            return Skip("a product structure is optimized by 'kronecker'")
        if marginals_of(workload) is not None:
            return Skip("marginals are optimized by 'marginals'")
    elif n <= EXACTING_DOMAIN and asks_in_order(workload.gram()):
        return None
    if comes_from_partitions(workload):
        return Skip("descent on partitions falls back to the identity")
    short = _glance(workload, 1)
    if short.n_iter == 0:  # collapsed, as about one start in three does
        short = _glance(workload, GLANCES)
    # Levels have more queries than eight, and are no measure of what more will do.
    levels = ("hierarchy", "nested")
    flat = (run.loss for run in found.runs if run.template not in levels)
    if short.loss >= min(flat, default=math.inf):
        return Skip("a short descent did not improve on the best", short.loss)
    return None


def _glance(workload: QueryMatrix, n_starts: int) -> StrategyResult:
    return pidentity_strategy(  # each number of starts has others
        workload, n_starts=n_starts, tolerance=GLANCE_TOLERANCE, seed=n_starts
    )


def _in_auto(workload: QueryMatrix, options: dict[str, Any]) -> dict[str, Any]:
    """Leave out a p per factor, which is meant for "kronecker"; hurry if large."""
    several = np.ndim(options.get("p", 0)) > 0
    kept = {k: v for k, v in options.items() if k != "p" or not several}
    if (
        workload.shape[1] > PRODUCT_STARTS_DOMAIN
        and normal_form(workload).products is not None
    ):
        kept = {"n_starts": PRODUCT_STARTS} | kept
    large = workload.shape[1] > EXACTING_DOMAIN
    hurried = large and not asks_in_order(workload.gram())
    return {"tolerance": RACE_TOLERANCE, **kept} if hurried else kept


def look_at_pidentity_l2(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out what has an optimum of another kind, products and large domains."""
    optimum = optimum_under_l2(workload, found)
    if optimum:
        return Skip(optimum)
    products = normal_form(workload).products
    if products is not None and len(products[0][1]) > 1:
        return Skip("a product structure is optimized by 'kronecker'")
    if workload.shape[1] > MAX_CELLS_L2:
        return Skip(f"{TOO_LARGE}more than {MAX_CELLS_L2} cells; ask for it by name")
    return None


PIDENTITY = Template(
    "pidentity", pidentity_strategy, 60, look=look_at_pidentity, adapt=_in_auto
)
PIDENTITY_L2 = Template(
    "pidentity", pidentity_l2_strategy, 50, ("L2",), look_at_pidentity_l2
)
