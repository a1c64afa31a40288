"""Trees over an ordered domain, with the best levels and their best budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import error
from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators._base import QueryMatrix
from mmech.operators._hierarchy import Hierarchy, block_energies
from mmech.strategies._deadline import time_is_up
from mmech.strategies._result import StrategyResult

__all__ = ["hierarchy_strategy"]

Floats = NDArray[np.float64]

ITERATIONS = 300
TOLERANCE = 1e-10
"""Limits of the descent on the weights of given levels."""

LOCAL_SEARCHES = 3
"""Sets of levels from which single levels are added and dropped."""


def hierarchy_strategy(
    workload: QueryMatrix,
    *,
    callback: Callable[[StrategyResult], Any] | None = None,
) -> StrategyResult:
    """Measure sums over nested blocks of neighbours: the best tree.

    Which block sizes a tree has is searched for from regular branchings on; budgets of
    its levels follow from a monotone descent. The loss needs O(n) per level, so that
    domains of millions of cells are quick. Suits ranges, prefixes and suffixes of an
    ordered domain whose size has many divisors.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    callback : callable, default=None
        Called with a `StrategyResult` after every search; returning True ends it.

    Returns
    -------
    StrategyResult
        With a `Hierarchy`; never worse than the identity, which is one.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is not made of ranges and too large to sum over blocks.

    References
    ----------
    .. [1] Qardaji, Yang, Li, "Understanding hierarchical methods for differentially
       private histograms", VLDB 2013 (regular trees with equal budgets).
    """
    n = workload.shape[1]
    best: tuple[float, dict[int, float]] = (np.inf, {1: 1.0})
    for chain in _chains(n):
        energies = block_energies(workload, chain)
        if energies is None:
            raise UnsupportedWorkloadError(
                "template 'hierarchy' needs ranges, prefixes or suffixes of an ordered "
                f"domain, or at most 4096 cells, got {workload!r}; use "
                "template='pidentity'"
            )
        sizes = np.array(chain, np.float64)
        starts = sorted(
            {tuple(range(0, len(chain), step)) for step in range(1, len(chain) + 1)},
            key=lambda levels: _descend(levels, sizes, energies)[0],
        )
        for levels in starts[:LOCAL_SEARCHES]:
            loss, weights, found = _toggle(levels, sizes, energies)
            if loss < best[0]:
                best = (
                    loss,
                    {
                        chain[level]: float(weight)
                        for level, weight in zip(found, weights, strict=True)
                    },
                )
            if callback is not None and callback(_result(workload, best[1])):
                return _result(workload, best[1])
            if time_is_up():
                break
    return _result(workload, best[1])


def _result(workload: QueryMatrix, weights: dict[int, float]) -> StrategyResult:
    strategy = Hierarchy(workload.shape[1], weights)
    return StrategyResult(
        strategy,
        "hierarchy",
        error.loss(workload, strategy),
        message=f"levels of block sizes {', '.join(str(m) for m in strategy.weights)}",
    )


def _chains(n: int) -> Iterator[list[int]]:
    """Yield chains of divisors from 1 to n: small factors first, then large ones."""
    factors, rest, prime = [], n, 2
    while prime * prime <= rest:
        while rest % prime == 0:
            factors.append(prime)
            rest //= prime
        prime += 1
    factors += [rest] if rest > 1 else []
    ascending = np.cumprod([1, *factors]).tolist()
    yield ascending
    descending = np.cumprod([1, *factors[::-1]]).tolist()
    if descending != ascending:
        yield descending


def _descend(
    levels: tuple[int, ...], sizes: Floats, energies: Floats
) -> tuple[float, Floats]:
    """Return the least loss of some levels and their weights, of sum one.

    The monotone update of weights of nested measurements: the loss is
    (Σ w)² Σ_l e_l / κ_l with κ_l = Σ_{a <= l} w_a² m_a.
    """
    used = list(levels)
    m, totals = sizes[used], energies[used]
    own = totals - np.append(totals[1:], 0.0)
    weights = np.full(len(used), 1.0 / len(used))
    previous = np.inf
    loss = np.inf
    for _ in range(ITERATIONS):
        precisions = np.cumsum(np.square(weights) * m)
        loss = float((own / precisions).sum())
        if previous - loss <= TOLERANCE * loss:
            break
        previous = loss
        pull = np.cumsum((own / np.square(precisions))[::-1])[::-1]
        weights = np.cbrt(m * weights**4 * pull)
        weights /= weights.sum()
    return loss, weights


def _toggle(
    levels: tuple[int, ...], sizes: Floats, energies: Floats
) -> tuple[float, Floats, tuple[int, ...]]:
    """Add or drop single levels as long as that helps; cells stay measured."""
    loss, weights = _descend(levels, sizes, energies)
    while True:
        tried = [tuple(sorted(set(levels) ^ {level})) for level in range(1, len(sizes))]
        losses = [_descend(other, sizes, energies)[0] for other in tried]
        if not tried or min(losses) >= loss * (1 - TOLERANCE):
            return loss, weights, levels
        levels = tried[int(np.argmin(losses))]
        loss, weights = _descend(levels, sizes, energies)
