"""Trees over an ordered domain, with the best levels and their best budgets."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from mmech.arrays import Floats
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.hierarchy import Hierarchy
from mmech.strategies.pidentity import LARGE_DOMAIN
from mmech.strategies.registry import Request, Skip, Template, time_is_up
from mmech.structure.blocks import BlockEnergies, block_energies, tree_components

Sizes = tuple[int, ...]
"""Block sizes of a tree, from 1 upwards, each a divisor of the next."""

ITERATIONS = 300
TOLERANCE = 1e-10
"""Limits of the descent on the weights of given levels."""

GLANCE = 60
"""Iterations for trees that are only compared with each other."""

IDLE = 1e-6
"""Weight below which a level is left out; cells stay measured."""

LEAST = 1e-9
"""Share of the cells in the weights, at least: every query stays answerable."""

LARGEST_BRANCHING = 64
"""Largest branching of the regular trees that a search starts from."""

LOCAL_SEARCHES = 3
"""Trees whose branchings are changed one by one."""

FINALISTS = 24
"""Trees whose exact losses decide; they may differ in idle levels only."""


def hierarchy_strategy(
    workload: QueryMatrix, *, callback: Callback | None = None
) -> StrategyResult:
    """Measure sums over nested blocks of neighbours: the best tree.

    A tree may have another branching on every level, and its branchings need not divide
    the domain. They are searched for from regular trees on, with budgets of levels from
    a monotone descent on an upper bound of the loss: that with the blocks at the end of
    the domain filled up by empty cells. Exact losses decide between the best. Both cost
    O(1) per block size for ranges, so that domains of millions of cells are quick.
    Suits ranges, prefixes and suffixes of an ordered domain; for suffixes the bound is
    the loosest, since they ask most of its end. Never worse than the identity, which is
    a tree.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is not made of ranges and too large to sum over blocks.

    References
    ----------
    .. [1] Qardaji, Yang, Li, "Understanding hierarchical methods for differentially
       private histograms", VLDB 2013 (regular trees with equal budgets).
    """
    energies = block_energies(workload)
    if energies is None:
        raise UnsupportedWorkloadError(
            "template 'hierarchy' needs ranges, prefixes or suffixes of an ordered "
            f"domain, or at most 4096 cells, got {workload!r}; use "
            "template 'pidentity'"
        )
    return best_tree(workload.shape[1], energies, callback)


def best_tree(
    n: int, energies: BlockEnergies, callback: Callback | None = None
) -> StrategyResult:
    """Return the best tree over n cells, for a workload with these energies."""
    search = _Search(n, energies)
    search.settle(_simple_trees(n))
    for start in search.best_settled(LOCAL_SEARCHES):
        search.settle(search.descend(start))
        if time_is_up() or (callback is not None and callback(search.result())):
            break
    return search.result()


class _Search:
    """Trees over n cells, compared by the loss with cut blocks filled up.

    Empty cells that fill cut blocks up make a tree regular; leaving their columns out
    again keeps its sensitivity and cannot raise its loss.
    """

    def __init__(self, n: int, blocks: BlockEnergies) -> None:
        self.n = n
        self._blocks = blocks
        self._energies: dict[int, float] = {}
        self._bounds: dict[Sizes, float] = {}
        self._settled: dict[Sizes, tuple[float, Hierarchy]] = {}

    def settle(self, trees: Iterable[Sizes]) -> None:
        """Find the exact losses of trees with their best weights."""
        for weights in self._weights(list(trees)):
            if tuple(weights) not in self._settled:
                strategy = Hierarchy(self.n, weights)
                values, variances = tree_components(self._blocks, strategy)
                loss = strategy.sensitivity() ** 2 * float(values @ variances)
                self._settled[tuple(weights)] = (loss, strategy)

    def best_settled(self, count: int) -> list[Sizes]:
        """Return the trees of the least exact losses."""
        return heapq.nsmallest(count, self._settled, key=lambda s: self._settled[s][0])

    def result(self) -> StrategyResult:
        """Return the best tree."""
        (best,) = self.best_settled(1)
        loss, strategy = self._settled[best]
        levels = ", ".join(str(m) for m in best)
        message = f"levels of block sizes {levels}"
        return StrategyResult(strategy, "hierarchy", loss, message=message)

    def descend(self, sizes: Sizes) -> list[Sizes]:
        """Change single branchings while the bound falls; return the best so far."""
        visited = {sizes}
        while not time_is_up():
            best = self._best_of([sizes, *_neighbours(sizes, self.n)])
            if self._bounds[best] >= self._bounds[sizes] * (1 - TOLERANCE):
                (weights,) = self._weights([sizes])
                best = tuple(weights)
            if best in visited:
                break
            visited.add(best)
            sizes = best
        return heapq.nsmallest(FINALISTS, self._bounds, key=self._bounds.__getitem__)

    def _best_of(self, trees: Iterable[Sizes]) -> Sizes:
        trees = list(dict.fromkeys(trees))
        new = [sizes for sizes in trees if sizes not in self._bounds]
        if new:
            bounds, _ = _descend(*self._table(new), GLANCE)
            self._bounds.update(zip(new, bounds.tolist(), strict=True))
        return min(trees, key=self._bounds.__getitem__)

    def _weights(self, trees: Sequence[Sizes]) -> list[dict[int, float]]:
        """Return the best weights of the levels of trees, without idle levels."""
        _, weights = _descend(*self._table(trees), ITERATIONS)
        return [
            {
                size: weight
                for size, weight in zip(tree, row.tolist(), strict=False)
                if size == 1 or weight > IDLE
            }
            for tree, row in zip(trees, weights, strict=True)
        ]

    def _energy(self, size: int) -> float:
        """Return Σ ‖W 1_b‖² / size over all blocks b of a size."""
        if size not in self._energies:
            count = self.n // size
            total, rest = self._blocks.of_blocks(0, size, count), self.n - count * size
            if rest:
                total += self._blocks.of_blocks(self.n - rest, rest, 1)
            self._energies[size] = total / size
        return self._energies[size]

    def _table(self, trees: Sequence[Sizes]) -> tuple[Floats, Floats]:
        """Return sizes and energies of trees, one in a row, filled up by zeros."""
        shape = (len(trees), max(map(len, trees), default=0))
        sizes, energies = np.zeros(shape), np.zeros(shape)
        for row, tree in enumerate(trees):
            sizes[row, : len(tree)] = tree
            energies[row, : len(tree)] = [self._energy(size) for size in tree]
        return sizes, energies


def _descend(sizes: Floats, energies: Floats, iterations: int) -> tuple[Floats, Floats]:
    """Return the least losses of trees and their weights, of sum one.

    The monotone update of weights of nested measurements: the loss is (Σ w)² Σ_l e_l /
    κ_l with κ_l = Σ_{a <= l} w_a² m_a. Each row is a tree: block sizes m, smallest
    first, and energies ‖W B_m‖² of averages B_m over blocks. Levels that a tree lacks
    are zeros.
    """
    own = np.maximum(energies - np.pad(energies[:, 1:], ((0, 0), (0, 1))), 0.0)
    weights = (sizes > 0) / np.count_nonzero(sizes, axis=1)[:, None]
    losses = np.full(len(sizes), np.inf)
    for _ in range(iterations):
        precisions = np.cumsum(np.square(weights) * sizes, axis=1)
        gains = own / precisions
        previous, losses = losses, gains.sum(axis=1)
        if ((previous - losses <= TOLERANCE * losses) | (losses == 0)).all():
            break
        pull = np.cumsum((gains / precisions)[:, ::-1], axis=1)[:, ::-1]
        weights = np.cbrt(sizes * weights**4 * pull)
        weights[:, 0] = np.maximum(weights[:, 0], LEAST * weights.sum(axis=1))
        weights /= weights.sum(axis=1, keepdims=True)
    return losses, weights


def _simple_trees(n: int) -> Iterator[Sizes]:
    """Yield the cells, regular trees, and chains of divisors of n."""
    yield (1,)
    for branching in range(2, min(n, LARGEST_BRANCHING) + 1):
        yield _tree(n, [branching] * n.bit_length())
    factors, rest, prime = [], n, 2
    while prime * prime <= rest:
        while rest % prime == 0:
            factors.append(prime)
            rest //= prime
        prime += 1
    factors += [rest] if rest > 1 else []
    for ordered in (factors, factors[::-1]):
        chain = np.cumprod([1, *ordered]).tolist()
        for step in range(1, len(chain)):
            yield tuple(chain[::step])


def _neighbours(sizes: Sizes, n: int) -> Iterator[Sizes]:
    """Yield trees with one level more, one less, or one branching changed by one."""
    branchings = [large // small for small, large in pairwise(sizes)]
    if sizes[-1] < n:
        yield _tree(n, [*branchings, 2])
        yield _tree(n, [*branchings, n])
    for level, branching in enumerate(branchings):
        below, above = branchings[:level], branchings[level + 1 :]
        if above:
            yield _tree(n, [*below, branching * above[0], *above[1:]])
        else:
            yield _tree(n, below)
        for changed in (branching - 1, branching + 1):
            if changed < 2:
                continue
            yield _tree(n, [*below, changed, *above])
            if above:  # the larger blocks keep about their sizes
                kept = max(2, round(branching * above[0] / changed))
                yield _tree(n, [*below, changed, kept, *above[1:]])
        for part in {2, 3, math.isqrt(branching)}:
            if 1 < part < branching:
                other = -(-branching // part)
                yield _tree(n, [*below, part, other, *above])
                yield _tree(n, [*below, other, part, *above])


def _tree(n: int, branchings: Iterable[int]) -> Sizes:
    """Return block sizes by their branchings, none of them larger than n needs."""
    sizes = [1]
    for branching in branchings:
        if sizes[-1] >= n:
            break
        sizes.append(sizes[-1] * min(branching, -(-n // sizes[-1])))
    return tuple(sizes)


def look_at_hierarchy(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out domains that p-Identity can treat, and workloads without an order."""
    if workload.shape[1] <= LARGE_DOMAIN:
        return Skip("p-Identity suits ordered domains of this size")
    if block_energies(workload) is None:
        return Skip("not ranges of an ordered domain")
    return None


HIERARCHY = Template("hierarchy", hierarchy_strategy, 50, look=look_at_hierarchy)
