"""The search for weighted marginals: designs, growth, local moves.

Blocks are subsets of attributes. A strategy is blocks with weights; each that is tried
descends on its weights before it is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, combinations

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Subset
from mmech.error.result import StrategyResult
from mmech.limits import LIMITS
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.operators.subsets import ranks_of, sizes_of, subsets_inside
from mmech.strategies.registry import time_is_up

MAX_POINTS = 13
"""Largest base design that is inflated (the projective plane of order 3)."""

INFLATIONS = 6
"""Random assignments of attributes to the points of a base design."""

DECAY = 0.1
"""Worth of a target for every attribute that a growing block still lacks."""


NAME = "marginals"

MAX_EVALUATIONS = 400_000
"""Default work, in evaluations of the loss ..."""

MAX_WORK = 10**9
"""... and in (block, subset) pairs visited."""

MAX_CELLS = 4096
"""Cap on the table of a block, where there are more attributes than a lattice has."""

CAPS = (4, 16, 64, 256, 1024, MAX_CELLS)
"""Caps on the tables of covering designs."""

MAX_COVER_WORK = 3 * 10**8
"""Targets times caps times starts of covering designs."""

MAX_GROWN = 50_000
"""Largest number of blocks with an attribute added that growth starts from."""

MAX_NEEDED = 5000
"""Largest number of subsets asked for that designs are searched for."""

OVERHEAD = 500
"""Work that listing a block costs, in pairs visited."""

CHAINS = 24
"""Starts, other than the best, from which local searches walk."""

CHAIN_MOVES = 3_000
"""Local moves of one walk, at most."""

CHAIN_HEAT = 0.03
"""Relative worsening that a walk accepts at first, on average."""

SETTLED = 1e-3
"""Relative gain of a walk from the best below which the search ends."""

SEARCH_ITERATIONS = 60
SEARCH_TOLERANCE = 1e-6
MOVE_ITERATIONS = 12
POLISH_ITERATIONS = 20_000
POLISH_TOLERANCE = 1e-13


class Search:
    """The state of one search: the best blocks and weights, and the work left."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        asked: dict[Subset, float],
        max_cells: float,
        rng: np.random.Generator,
    ) -> None:
        self.sizes = sizes
        self.max_cells = max_cells
        self.rng = rng
        self.subsets = tuple(asked)
        self.numbers = {subset: i for i, subset in enumerate(asked)}
        spread = np.array(list(asked.values())) / sizes_of(asked, sizes)
        self.scale = float((ranks_of(asked, sizes) * spread).sum())
        self.energies = ranks_of(asked, sizes) * spread / self.scale
        self.order = max(map(len, asked))
        self._tables: dict[Subset, tuple[float, NDArray[np.int64]]] = {}
        self.around = self._maximal()
        self.needed = sorted(set(self.around.values()))
        self.attributes = sorted({i for subset in self.needed for i in subset})
        self.max_evaluations = MAX_EVALUATIONS
        self.max_work = MAX_WORK
        self.work = self.n_iter = 0
        self.best_loss = math.inf
        self.best: tuple[list[Subset], Floats] = ([], np.zeros(0))
        self.starts: list[tuple[float, list[Subset], Floats]] = []
        self.history: list[float] = []
        self.precisions = np.empty(len(self.subsets))

    def cells(self, block: Subset) -> float:
        """Return the number of cells of the table over a block."""
        return math.prod([float(self.sizes[i]) for i in block])

    def table(self, block: Subset) -> tuple[float, NDArray[np.int64]]:
        """Return the cells of a block, and the numbers of the asked subsets inside."""
        if block not in self._tables:
            inside = subsets_inside(block, self.numbers, self.order)
            self._tables[block] = self.cells(block), np.array(inside, np.int64)
        return self._tables[block]

    def _maximal(self) -> dict[Subset, Subset]:
        """Return for every asked subset a largest one that contains it."""
        around: dict[Subset, Subset] = {}
        for whole in sorted(self.subsets, key=lambda s: (-len(s), s)):
            if whole not in around:
                for size in range(len(whole) + 1):
                    for subset in combinations(whole, size):
                        around.setdefault(subset, whole)
        return around

    def result(self) -> StrategyResult:
        """Return the best strategy so far."""
        blocks, theta = self.best
        weights = {
            block: float(weight)
            for block, weight in sorted(zip(blocks, theta, strict=True))
            if weight > 0
        }
        largest = max(product_of(self.sizes[i] for i in block) for block in weights)
        return StrategyResult(
            Marginals(self.sizes, weights),
            NAME,
            self.best_loss * self.scale,
            n_iter=self.n_iter,
            message=f"{len(weights)} marginals of at most {largest} cells after "
            f"{self.n_iter} iterations",
            history=tuple(loss * self.scale for loss in self.history),
        )

    # ---- evaluation -----------------------------------------------------------

    def descend(
        self,
        blocks: Sequence[Subset],
        theta: Floats,
        *,
        max_iter: int = SEARCH_ITERATIONS,
        tolerance: float = SEARCH_TOLERANCE,
    ) -> tuple[Floats, float]:
        """Return better weights of blocks and their loss."""
        from mmech import _kernels

        cells, inside = zip(*map(self.table, blocks), strict=True)
        ends = np.array([0, *accumulate(map(len, inside))])
        theta = theta / theta.sum()
        pool = np.array(cells), ends, np.concatenate(inside), self.energies
        limits, scratch = (max_iter, tolerance), (self.precisions, np.empty(theta.size))
        loss, iterations = _kernels.pool_descend(theta, *pool, *limits, *scratch)
        self.n_iter += iterations
        visited = 2 * int(ends[-1]) + self.energies.size
        self.work += (iterations + 1) * visited + OVERHEAD * len(blocks)
        return theta, float(loss)

    def uniform(self, blocks: Sequence[Subset]) -> tuple[list[Subset], Floats, float]:
        """Return the blocks with weights found from equal ones."""
        listed = sorted(set(blocks))
        theta, loss = self.descend(listed, np.ones(len(listed)))
        return listed, theta, loss

    def keep(self, blocks: Sequence[Subset], theta: Floats, loss: float) -> bool:
        """Note a strategy if it is the best so far."""
        if not loss < self.best_loss * (1 - 1e-9):
            return False
        self.best = _used(blocks, theta)
        self.best_loss = loss
        self.history.append(loss)
        return True

    @property
    def is_over(self) -> bool:
        """Whether work, or time, is spent."""
        return self.used >= 1 or time_is_up()

    @property
    def used(self) -> float:
        """Share of the work that is done, by evaluations or by pairs visited."""
        return max(self.n_iter / self.max_evaluations, self.work / self.max_work)

    # ---- the search -------------------------------------------------------------

    def run(self, n_starts: int) -> Iterator[None]:
        """Try starts, then local moves; yield after every improvement."""
        promised = [self.needed]
        union = tuple(self.attributes)
        if self.cells(union) <= self.max_cells:
            promised += [[union], [*self.needed, union]]
        for blocks in chain(promised, self._starts(n_starts)):
            found = self.uniform(blocks)
            if self.keep(*found):
                yield
            self._remember(*found)
            if self.is_over and blocks not in promised:
                return
        yield from self._grow(self.used + (1 - self.used) / 3)
        yield from self._local_moves()

    def _remember(self, blocks: list[Subset], theta: Floats, loss: float) -> None:
        """Keep a start for the local search, unless its loss is known."""
        if not math.isfinite(loss) or any(
            abs(loss - other) <= 1e-9 * loss for other, *_ in self.starts
        ):
            return
        self.starts.append((loss, *_used(blocks, theta)))
        self.starts.sort(key=lambda start: start[0])
        del self.starts[CHAINS:]

    def _starts(self, n_starts: int) -> Iterator[list[Subset]]:
        smallest = min(map(self.cells, self.needed))
        caps = [cap for cap in CAPS if cap > smallest]
        rounds = max(1, min(n_starts, MAX_COVER_WORK // (len(self.needed) * 1000)))
        for _ in range(rounds):
            for cap in caps:
                yield self._cover(cap)
        few = len(self.attributes) <= LIMITS.lattice_attributes
        if few and len(self.needed) <= MAX_NEEDED:  # all subsets are within reach
            limit = self.used + (1 - self.used) / 3
            for blocks in self._inflated():
                if all(self.cells(block) <= self.max_cells for block in blocks):
                    yield blocks
                if self.used > limit:
                    return

    def _inflated(self) -> Iterator[list[Subset]]:
        """Yield designs on points, each of which stands for a group of attributes.

        Ten attributes dealt to the seven points of the Fano plane, for instance, give
        seven blocks in which every two attributes meet. What lies in no block is one.
        """
        attributes, order = np.array(self.attributes), max(map(len, self.needed))
        for points in range(order + 1, min(attributes.size, MAX_POINTS) + 1):
            for size in range(order, points):
                design = _packing(points, size, order)
                for _ in range(INFLATIONS):
                    dealt = self.rng.permutation(attributes)
                    groups = [dealt[i::points] for i in self.rng.permutation(points)]
                    parts = ([groups[i] for i in block] for block in design)
                    blocks = [tuple(sorted(np.concatenate(p).tolist())) for p in parts]
                    outside = self._outside(blocks)
                    missing = (s for s in self.needed if outside[self.numbers[s]])
                    yield [*blocks, *missing]

    def _cover(self, cap: float) -> list[Subset]:
        """Return blocks of at most `cap` cells that contain all that is needed.

        What exceeds the cap, where no other fits, is a block of its own. Random numbers
        decide between attributes that are about as good.
        """
        from mmech import _kernels

        d, targets = len(self.attributes), self.needed
        lengths = list(map(len, targets))
        flat = np.searchsorted(self.attributes, np.concatenate(targets))
        owner = np.repeat(np.arange(len(targets)), lengths)
        counts = np.bincount(flat, minlength=d)
        starts, owner_starts = (
            np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)
            for numbers in (lengths, counts)
        )
        owners = owner[np.argsort(flat, kind="stable")]
        sides = starts, flat, owner_starts, owners
        logs = np.log([float(self.sizes[i]) for i in self.attributes])
        ties, out = self.rng.random((64, d)), np.zeros((len(targets), d), np.uint8)
        most = math.log(cap) + 1e-9
        count = _kernels.cover_greedily(*sides, logs, most, DECAY, ties, out)
        names = np.array(self.attributes)
        return [tuple(names[row > 0].tolist()) for row in out[:count]]

    def _grow(self, limit: float) -> Iterator[None]:
        """Grow blocks of what is asked by one attribute while that helps."""
        blocks, theta, loss = self.uniform(self.needed)
        improved = len(blocks) * len(self.attributes) <= MAX_GROWN
        while improved:
            improved = False
            grown = {tuple(sorted({*b, i})) for b in blocks for i in self.attributes}
            order = sorted(grown.difference(blocks), key=lambda b: (self.cells(b), b))
            for new in order:
                if self.used >= limit or time_is_up():
                    return
                whole = set(new)
                inside = [b for b in blocks if whole.issuperset(b)]
                if not inside or self.cells(new) > self.max_cells:
                    continue
                weights = dict(zip(blocks, theta.tolist(), strict=True))
                weights[new] = sum(weights.pop(block) for block in inside)
                listed, start = list(weights), np.array(list(weights.values()))
                found, value = self.descend(listed, start, max_iter=MOVE_ITERATIONS)
                if value < loss * (1 - 1e-6):
                    blocks, theta = _used(listed, found)
                    loss, improved = value, True
                    if self.keep(blocks, theta, loss):
                        yield
        self._remember(blocks, theta, loss)

    # ---- local moves ----------------------------------------------------------

    def _local_moves(self) -> Iterator[None]:
        """Walk from several starts, accepting slightly worse strategies ever less."""
        starts = [(self.best_loss, *self.best), *self.starts]
        share = (1 - self.used) / len(starts)
        for loss, blocks, theta in starts:
            yield from self._chain(loss, blocks, theta, share)
        while not self.is_over:
            before = self.best_loss
            yield from self._chain(self.best_loss, *self.best, share)
            if self.best_loss > before * (1 - SETTLED):
                return

    def _chain(
        self, loss: float, blocks: list[Subset], theta: Floats, share: float
    ) -> Iterator[None]:
        limit_of_work = self.used + share
        for move in range(CHAIN_MOVES):
            if self.is_over or self.used >= limit_of_work:
                return
            heat = CHAIN_HEAT * (1 - move / CHAIN_MOVES)
            limit = loss * (1 + heat * self.rng.exponential())
            new, weights = self._neighbour(blocks, theta)
            weights, value = self.descend(new, weights, max_iter=MOVE_ITERATIONS)
            if value < limit * 1.02:
                weights, value = self.descend(new, weights)
            if value < limit:
                (blocks, theta), loss = _used(new, weights), value
                if self.keep(blocks, theta, loss):
                    yield

    def _neighbour(
        self, blocks: list[Subset], theta: Floats
    ) -> tuple[list[Subset], Floats]:
        """Return blocks changed at random that still contain what is needed."""
        weights = dict(zip(blocks, theta.tolist(), strict=True))
        for _ in range(int(self.rng.integers(1, 3))):
            listed = list(weights)
            block = listed[int(self.rng.integers(len(listed)))]
            kind = int(self.rng.integers(5))
            if kind == 0 and len(weights) > 1:  # drop
                del weights[block]
            elif kind == 1:  # grow by an attribute
                self._replace(weights, block, self._grown(block))
            elif kind == 2:  # merge with another
                near = [
                    b for b in listed if b != block and not set(block).isdisjoint(b)
                ]
                if not near:
                    continue
                other = near[int(self.rng.integers(len(near)))]
                self._replace(weights, block, tuple(sorted({*block, *other})))
            elif kind == 3 and block:  # swap an attribute
                out = block[int(self.rng.integers(len(block)))]
                rest = tuple(i for i in block if i != out)
                self._replace(weights, block, self._grown(rest))
            elif block:  # shrink
                out = block[int(self.rng.integers(len(block)))]
                self._replace(weights, block, tuple(i for i in block if i != out))
        self._repair(weights, 1 / len(blocks))
        listed = sorted(weights)
        return listed, np.array([weights[block] for block in listed])

    def _grown(self, block: Subset) -> Subset:
        new = self.attributes[int(self.rng.integers(len(self.attributes)))]
        return tuple(sorted({*block, new}))

    def _replace(self, weights: dict[Subset, float], old: Subset, new: Subset) -> None:
        """Put a block in the place of another and of all that lie inside it."""
        if self.cells(new) > self.max_cells or new == old:
            return
        whole = set(new)
        weight = weights.pop(old)
        for block in [b for b in weights if whole.issuperset(b)]:
            weight += weights.pop(block)
        weights[new] = weight

    def _repair(self, weights: dict[Subset, float], weight: float) -> None:
        """Add what is needed and lies in no block."""
        left = self._outside(weights)
        while left.any():
            whole = self.around[self.subsets[int(left.argmax())]]
            weights[whole] = weight
            left[self.table(whole)[1]] = False

    def _outside(self, blocks: Iterable[Subset]) -> NDArray[np.bool_]:
        """Return which of the asked subsets lie in no block."""
        outside = np.ones(len(self.subsets), np.bool_)
        outside[np.concatenate([self.table(block)[1] for block in blocks])] = False
        return outside

    def polish(self) -> None:
        """Descend from the best to full accuracy."""
        blocks, theta = self.best
        theta, loss = self.descend(
            blocks, theta, max_iter=POLISH_ITERATIONS, tolerance=POLISH_TOLERANCE
        )
        if loss <= self.best_loss:
            self.best, self.best_loss = (blocks, theta), loss
            self.history.append(loss)


def _used(blocks: Sequence[Subset], theta: Floats) -> tuple[list[Subset], Floats]:
    kept = [block for block, weight in zip(blocks, theta, strict=True) if weight > 0]
    return kept, theta[theta > 0]


def _packing(points: int, size: int, overlap: int) -> list[list[int]]:
    """Return blocks of points, first fit, of which two share less than `overlap`."""
    blocks = np.array(list(combinations(range(points), size)))
    left = np.zeros((len(blocks), points), np.int8)
    np.put_along_axis(left, blocks, 1, axis=1)
    chosen = []
    while left.size:
        chosen.append(np.flatnonzero(left[0]).tolist())
        left = left[left @ left[0] < overlap]
    return chosen
