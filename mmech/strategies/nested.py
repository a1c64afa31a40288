"""p-Identity in two levels: within blocks of neighbours, and over their totals.

Every block has the same p-Identity A of its s cells, and p-Identity over the B blocks
has that in place of its identity: the strategy [D⊗A; Θ⊗1ᵀ]. Three things count of A, of
covariance M: the variance c of the total, the covariance c v of cells and total, and
the rest N = M - c vvᵀ. The loss is then a
p-Identity's on blocks whose cells follow v. Block b of the gram V adds tr(V_bb N) for
the rest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from mmech.arrays import Floats
from mmech.error import expected as error
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones, SeparableGram
from mmech.operators.compose import Scaled, Sum, VStack
from mmech.operators.explicit import Dense
from mmech.operators.known import normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.pidentity import PIdentity
from mmech.reduction.cells import restrict_columns
from mmech.strategies.descent import BoxDescent
from mmech.strategies.ordered import BlockLevel, ordered_starts
from mmech.strategies.pidentity import PIdentityObjective, descend, pidentity_strategy
from mmech.strategies.registry import Request, Skip, Template, time_is_up
from mmech.structure.blocks import (
    Moved,
    Separable,
    energies_within,
    in_blocks,
    in_equal_blocks,
    moved_or_total,
    separable_terms,
)

SMALLEST_DOMAIN = 2048
"""Up to this domain size p-Identity without blocks is better."""

CELLS_PER_QUERY, MOST_QUERIES = 8, 64
"""Cells for each extra query, and the most of these, on both levels."""

ROUNDS, STARTS, ITERATIONS, TOLERANCE = 3, 3, 300, 3e-6
"""Descents on each level, in turn; from several starts in the first round."""

NEAR = 8
"""Divisors of the size of a domain within this factor of its root make blocks."""

QUICK_BLOCKS = 1024
"""Most blocks, where there is a choice."""

STEP = 1e-3
"""Relative change of the variance of totals for the slope of the loss."""

LEAST_REACHES, LARGEST_BLOCK = 8, 1024
"""Windows and filters reach over at most an eighth of the cells, and over two of the
largest blocks."""

TOTAL = 11.0
"""Weight of the total of a block beside the mean energy of its cells, at first."""


class _Blocks:
    """The gram of a workload, in blocks of neighbours."""

    def __init__(self, terms: list[Separable], size: int) -> None:
        self.terms = in_blocks(terms, size)

    def within(self, weights: Floats, v: Floats, total: float) -> BlockLevel:
        """Return the problem of one block: its cells, given its total, and the total.

        Blocks count by weights, and the total by `total`, or as the cells if that is 0.
        """
        gram = np.zeros((v.size, v.size))
        for a, b, diagonal in self.terms:
            upper = np.triu((a * weights[:, None]).T @ b, 1)
            gram += upper + upper.T + np.diag(weights @ diagonal)
        gram -= v @ gram
        gram -= (gram @ v)[:, None]
        return BlockLevel.of(Dense(gram + (total or TOTAL * np.trace(gram) / v.size)))

    def over(self, c: float, v: Floats, rest: Floats) -> BlockLevel:
        """Return the problem of the totals, with variance c and cells that follow v."""
        energies = c * energies_within(self.terms, np.outer(v, v))
        grams: list[QueryMatrix] = [
            SeparableGram(c * (a @ v), c * (b @ v), np.zeros(energies.size))
            for a, b, _ in self.terms
        ]
        grams.append(Diagonal(c * energies))
        return BlockLevel(Sum(grams), rest + energies, np.full(energies.size, c))


def nested_strategy(
    workload: QueryMatrix, *, seed: Any = None, callback: Callback | None = None
) -> StrategyResult:
    """Optimize one p-Identity for all blocks of neighbours, and one over their totals.

    Both descend in turn, each with what the other one makes of its loss. In seconds, a
    fifth below the loss of the best tree for 4,096 cells and for a million. Windows and
    filters of short reach ask for no totals: blocks of about twice the reach are all.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries `AllRange`, `Prefix` or `Suffix` of one attribute, or a union of
        weighted ones with `Identity` and `Total`. Else `WidthRange`, `Circulant` and
        triangular `Toeplitz` matrices, or a union of weighted ones with `Identity` and
        `Total`.
    seed, callback
        As in `optimize`; `callback` is called after every descent on the totals.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is another, or ranges are over n cells without a divisor near
        its root.
    """
    n = workload.shape[1]
    if _window_size(workload):
        return _alike_blocks(workload, seed, callback)
    terms, size = separable_terms(workload), _block_size(n)
    if terms is None or not size:
        raise UnsupportedWorkloadError(
            "template 'nested' needs ranges with a divisor of its size near its "
            "root, or windows of at most an eighth of the cells, got "
            f"{workload!r}; use template='hierarchy'"
        )
    blocks, rng = _Blocks(terms, size), np.random.default_rng(seed)
    inner = outer = None
    weights, v, total = np.ones(n // size), np.full(size, 1.0 / size), 0.0
    for _ in range(ROUNDS):
        inner = _descended(blocks.within(weights, v, total), inner, rng)
        part = PIdentity(inner.point.T)
        covariance = part.inverse_gram().to_dense()
        c = float(covariance.sum())
        v = covariance.sum(axis=0) / c
        rest = energies_within(blocks.terms, covariance - c * np.outer(v, v))
        outer = _descended(blocks.over(c, v, rest), outer, rng)
        scales = 1.0 + outer.point.sum(axis=1)
        within = Kronecker([Diagonal(1.0 / scales), part])
        over = Kronecker([Dense(outer.point.T / scales), Ones(1, size)])
        strategy = VStack([within, over])
        found = StrategyResult(strategy, "nested", outer.value)
        if time_is_up() or (callback is not None and callback(found)):
            break
        weights = np.square(scales)
        steps = c * (1.0 + STEP), c * (1.0 - STEP)
        above, below = (_loss(blocks.over(moved, v, rest), outer) for moved in steps)
        total = (above - below) / (2.0 * STEP * c)
    message = f"{n // size} blocks of {size} cells"
    return replace(found, loss=error.loss(workload, strategy), message=message)


def _loss(level: BlockLevel, run: BoxDescent) -> float:
    objective = PIdentityObjective(level.gram, level.diagonal, "L1", level.counts)
    return objective(run.point)[0]


def _descended(
    level: BlockLevel, before: BoxDescent | None, rng: np.random.Generator
) -> BoxDescent:
    """Descend from where the last descent ended, or from the best of some starts."""
    size = level.counts.size
    p = max(1, min(size // CELLS_PER_QUERY, MOST_QUERIES))
    starts = ordered_starts(size, p, rng, STARTS) if before is None else [before.point]
    runs = [descend(level, start, ITERATIONS, TOLERANCE) for start in starts]
    return min(runs, key=lambda run: run.value)


def _block_size(n: int) -> int:
    """Return the divisor of n near half its root that makes the best blocks, or 0."""
    root, most = math.isqrt(n), LIMITS.spectrum_factor
    least = max(root // NEAR, -(-n // most), 2)
    near = [k for k in range(least, min(NEAR * root, most + 1)) if n % k == 0]
    # On more blocks a descent takes long, and gains little.
    cost = {k: (n // k > QUICK_BLOCKS, abs(math.log(2 * k / root))) for k in near}
    return min(near, key=lambda k: cost[k], default=0)


def _asked(workload: QueryMatrix) -> list[tuple[float, Moved]] | None:
    """Return weighted queries that are moved, and totals as if they were."""
    return normal_form(workload).ask(moved_or_total)


def _window_size(workload: QueryMatrix) -> int:
    """Return a size of blocks, about twice the reach of moved queries, or 0."""
    n, found = workload.shape[1], _asked(workload)
    reach = max((query.reach for _, query in found or ()), default=1)
    if not 1 < reach <= min(n // LEAST_REACHES, 2 * LARGEST_BLOCK):
        return 0
    best = min(2 * reach, LARGEST_BLOCK)
    most = min(best + best // 2, LARGEST_BLOCK)
    near = [k for k in range(-(-reach // 2), most + 1) if n % k == 0 and k > 1]
    # Blocks that leave cells on a circle have no rule for their errors.
    rest = n <= LIMITS.dense_cells or not any(q.is_circular for _, q in found or ())
    return min(near, key=lambda k: abs(math.log(k / best)), default=best * rest)


def _alike_blocks(
    workload: QueryMatrix, seed: Any, callback: Callback | None
) -> StrategyResult:
    """Optimize one p-Identity for what moved queries ask of a block in the middle.

    The cells behind the last block have the first columns of it.
    """
    size, parts = _window_size(workload), []
    for weight, query in _asked(workload) or ():
        around = query.around(size)
        cells = np.arange(around * size, (around + 1) * size)
        asked = restrict_columns(query.over((2 * around + 1) * size), cells)
        parts.append(Scaled(weight, asked))
    part: Any = pidentity_strategy(VStack(parts), n_starts=STARTS, seed=seed).strategy
    count, rest = divmod(workload.shape[1], size)
    last = PIdentity(part.theta[:, :rest]) if rest else None
    strategy = in_equal_blocks(count, part, last)
    message = f"{count} blocks of {size} cells" + f", and {rest} more" * (rest > 0)
    loss = error.loss(workload, strategy)
    found = StrategyResult(strategy, "nested", loss, message=message)
    if callback is not None:
        callback(found)
    return found


def look_at_nested(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out small domains, and workloads that are not made of ranges."""
    n = workload.shape[1]
    if _window_size(workload):
        return None
    if n <= SMALLEST_DOMAIN:
        return Skip("p-Identity suits ordered domains of this size")
    if not _block_size(n):
        return Skip("the size of the domain has no divisor near its root")
    plain = (Identity, Ones)
    blocks = normal_form(workload).blocks
    ranges = any(not isinstance(block, plain) for _, block in blocks)
    if separable_terms(workload) is None or not ranges:
        return Skip("not ranges or prefix sums of one ordered attribute")
    return None


NESTED = Template("nested", nested_strategy, 55, look=look_at_nested, is_near=True)
