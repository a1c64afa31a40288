"""Weighted marginals over many attributes: blocks from a pool, not from the lattice.

Only the subsets s that the workload asks for matter: with their mean energies τ_s
and k_s = Σ_{a⊇s} θ_a² n_s / n_a the loss is (Σθ)² Σ_s m_s τ_s / k_s, at a cost of
what is listed. Which blocks to measure is a combinatorial problem: what is asked
itself, greedy covering designs under several caps on the table of a block, and
merging from below; then local moves, each followed by a monotone descent on weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.exceptions import UnsupportedWorkloadError
from mmech.marginals.designs import cover_greedily
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.marginals import Marginals, check_attributes
from mmech.operators.subsets import ranks_of, sizes_of, subsets_inside
from mmech.strategies.deadline import time_is_up
from mmech.strategies.marginals import attribute_sizes, is_beyond_lattices
from mmech.strategies.registry import Found, Skip, Template
from mmech.strategies.result import Callback, StrategyResult
from mmech.structure.spectrum import mean_spectrum

__all__ = ["MARGINAL_POOL", "marginal_pool_strategy"]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

MAX_CELLS = 4096
"""Default cap on the table of a block."""

CAP_STEP = 4
"""Ratio of the caps that covering designs are made for."""

MAX_COVER_WORK = 3 * 10**8
"""Targets times caps times starts of covering designs."""

MAX_MERGED = 6000
"""Largest number of blocks that are merged pair by pair."""

PRICES = (1.0, 0.94, 1.06)
"""Factors on the cost of a merged block, for more or less merging."""

MAX_WORK = 4 * 10**8
"""Default work of the search, in (block, subset) pairs visited."""

OVERHEAD = 500
"""Work that listing a block costs, in such pairs."""

CHAINS = 8
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
POLISH_ITERATIONS = 5_000
POLISH_TOLERANCE = 1e-12


def marginal_pool_strategy(
    workload: QueryMatrix,
    *,
    domain_shape: Any = None,
    max_cells: int = MAX_CELLS,
    blocks: Iterable[Any] | None = None,
    n_starts: int = 4,
    max_work: int = MAX_WORK,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Search for the best weighted marginals over a pool of blocks.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries over a product domain of any number of attributes, each of which
        restricts few of them.
    domain_shape : sequence of int, default=None
        Attribute sizes; taken from the workload where it knows them.
    max_cells : int, default=4096
        Cap on the table of a block; blocks that the workload itself asks for may
        be larger.
    blocks : iterable of (sequence of int), default=None
        The pool: subsets of attributes to choose from. ``None`` makes one.
    n_starts : int, default=4
        Covering designs per cap.
    max_work : int, default=400000000
        Work limit, in (block, subset) pairs visited; a few seconds.
    seed : int, SeedSequence or Generator, default=None
        Seed of the search; the same seed gives the same strategy.
    callback : callable, default=None
        Called with a `StrategyResult` whenever the best improves; stops if it
        returns True.

    Returns
    -------
    StrategyResult
        Never worse than the marginals asked for with their best weights, nor than
        the single table over all attributes that the workload touches where the
        cap allows it.

    Raises
    ------
    UnsupportedWorkloadError
        If the attributes are not known, the workload has no projection on the
        marginal algebra, or no block of the pool contains what it asks for.
    DomainTooLargeError
        If a query restricts so many attributes that their subsets are too many.
    """
    sizes = attribute_sizes(workload, domain_shape, "marginal_pool")
    max_cells = check_integer(max_cells, "max_cells")
    n_starts = check_integer(n_starts, "n_starts")
    max_work = check_integer(max_work, "max_work")
    asked = mean_spectrum(workload, sizes)
    if asked is None:
        raise UnsupportedWorkloadError(
            f"template 'marginal_pool' has no projection of {workload!r} on the "
            "marginal algebra; use marginals, boxes or products of the attributes"
        )
    if not any(asked):  # at most the total is asked
        total = Marginals(sizes, {(): 1})
        message = "the total alone"
        return StrategyResult(total, NAME, asked.get((), 0.0), message=message)
    search = _Search(sizes, asked, max_cells, max_work, np.random.default_rng(seed))
    if blocks is None:
        steps = search.run(n_starts)
    else:
        steps = search.weigh([_kept(block, sizes) for block in blocks])
    for _ in steps:
        if callback is not None and callback(search.result()):
            break
    search.polish()
    return search.result()


NAME = "marginal_pool"


def _kept(block: Any, sizes: tuple[int, ...]) -> Subset:
    """Return a block without attributes of a single value, which it knows anyway."""
    attributes = check_attributes(block, len(sizes))
    return tuple(i for i in attributes if sizes[i] > 1)


class _Pool:
    """The blocks seen so far: their tables, and the asked subsets inside."""

    def __init__(self, sizes: tuple[int, ...], numbers: dict[Subset, int]) -> None:
        self._sizes = sizes
        self._numbers = numbers
        self._order = max(map(len, numbers))
        self._places: dict[Subset, int] = {}
        self._cells = np.empty(64)
        self._bounds = np.zeros(65, np.int64)
        self.members = np.empty(1024, np.int64)

    def _place(self, block: Subset) -> int:
        place = self._places.get(block)
        if place is None:
            place = self._places[block] = len(self._places)
            found = subsets_inside(block, self._numbers, self._order)
            start = int(self._bounds[place])
            stop = start + len(found)
            if place + 1 >= self._cells.size:
                self._cells = np.resize(self._cells, 2 * self._cells.size)
                self._bounds = np.resize(self._bounds, self._cells.size + 1)
            if stop > self.members.size:
                self.members = np.resize(self.members, 2 * stop)
            self._cells[place] = self.cells(block)
            self._bounds[place + 1] = stop
            self.members[start:stop] = found
        return place

    def cells(self, block: Subset) -> float:
        """Return the number of cells of the table over a block."""
        return math.prod([float(self._sizes[i]) for i in block])

    def inside(self, block: Subset) -> NDArray[np.int64]:
        """Return the numbers of the asked subsets in a block."""
        place = self._place(block)
        return self.members[self._bounds[place] : self._bounds[place + 1]]

    def layout(
        self, blocks: Iterable[Subset]
    ) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
        """Return cells, and where the `members` of every block start and stop."""
        try:
            found = [self._places[block] for block in blocks]
        except KeyError:
            found = [self._place(block) for block in blocks]
        places = np.array(found)
        return self._cells[places], self._bounds[places], self._bounds[places + 1]


class _Search:
    """The state of one search: the best blocks and weights, and the work left."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        asked: dict[Subset, float],
        max_cells: int,
        max_work: int,
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
        self.pool = _Pool(sizes, self.numbers)
        self.around = self._maximal()
        self.needed = sorted(set(self.around.values()))
        self.attributes = sorted({i for subset in self.needed for i in subset})
        self.work_left = max_work
        self.n_iter = 0
        self.best_loss = math.inf
        self.best: tuple[list[Subset], Floats] = ([], np.zeros(0))
        self.starts: list[tuple[float, list[Subset], Floats]] = []
        self.history: list[float] = []
        self.precisions = np.empty(len(self.subsets))

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

        cells, starts, stops = self.pool.layout(blocks)
        theta = theta / theta.sum()
        loss, iterations = _kernels.pool_descend(
            theta,
            cells,
            starts,
            stops,
            self.pool.members,
            self.energies,
            max_iter,
            tolerance,
            self.precisions,
            np.empty(theta.size),
        )
        self.n_iter += iterations
        visited = 2 * int((stops - starts).sum()) + self.energies.size
        self.work_left -= (iterations + 1) * visited + OVERHEAD * len(blocks)
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
        used = theta > 0
        self.best = ([b for b, u in zip(blocks, used, strict=True) if u], theta[used])
        self.best_loss = loss
        self.history.append(loss)
        return True

    @property
    def is_over(self) -> bool:
        return self.work_left <= 0 or time_is_up()

    # ---- the search -------------------------------------------------------------

    def weigh(self, blocks: list[Subset]) -> Iterator[None]:
        """Only weigh the blocks of a given pool."""
        if not blocks:
            raise ValueError("blocks must name at least one subset, got none")
        uncovered = self._uncovered(blocks)
        if uncovered:
            missing = self.subsets[uncovered[0]]
            raise UnsupportedWorkloadError(
                f"the workload asks for the attributes {missing} together, which no "
                "block of the pool contains; add a block over them"
            )
        self.keep(*self.uniform(blocks))
        yield

    def run(self, n_starts: int) -> Iterator[None]:
        """Try starts, then local moves; yield after every improvement."""
        for blocks in self._starts(n_starts):
            found = self.uniform(blocks)
            if self.keep(*found):
                yield
            self._remember(*found)
            if self.is_over:
                return
        yield from self._low_orders()
        yield from self._local_moves()

    def _remember(self, blocks: list[Subset], theta: Floats, loss: float) -> None:
        """Keep a start for the local search, unless its loss is known."""
        if any(abs(loss - other) <= 1e-9 * loss for other, *_ in self.starts):
            return
        self.starts.append((loss, blocks, theta))
        self.starts.sort(key=lambda start: start[0])
        del self.starts[CHAINS:]

    def _starts(self, n_starts: int) -> Iterator[list[Subset]]:
        yield self.needed
        union = tuple(self.attributes)
        if self.pool.cells(union) <= self.max_cells:
            yield [union]
        for price in PRICES:
            yield self._merged(self.needed, price)
        caps: list[float] = []
        cap = float(self.max_cells)
        smallest = min(self.pool.cells(block) for block in self.needed)
        while cap > smallest and len(caps) < 12:
            caps.append(cap)
            cap /= CAP_STEP
        rounds = max(1, min(n_starts, MAX_COVER_WORK // (len(self.needed) * 1000)))
        for _ in range(rounds):
            for cap in reversed(caps):
                cover = self._cover(cap)
                yield cover
        for price in PRICES:
            yield self._merged(self.best[0], price)

    def _cover(self, cap: float) -> list[Subset]:
        """Return blocks of at most `cap` cells that contain all that is needed."""
        d = len(self.attributes)
        place = {i: j for j, i in enumerate(self.attributes)}
        targets = [tuple(place[i] for i in subset) for subset in self.needed]
        logs = np.log([float(self.sizes[i]) for i in self.attributes])
        blocks = cover_greedily(targets, logs, cap, self.rng.random((64, d)))
        return [tuple(self.attributes[j] for j in block) for block in blocks]

    def _listed(self, inside: NDArray[np.uint8]) -> list[Subset]:
        names = np.array(self.attributes)
        return [tuple(names[row > 0].tolist()) for row in inside]

    def _merged(self, blocks: Sequence[Subset], price: float) -> list[Subset]:
        """Merge blocks pair by pair while a rule of thumb says that it pays.

        With the energy F_a that block a answers alone, independent blocks cost
        (Σ (n_a F_a)^{1/3})² times that sum.
        """
        from mmech import _kernels

        if not 2 <= len(blocks) <= MAX_MERGED:
            return list(blocks)
        place = {i: j for j, i in enumerate(self.attributes)}
        inside = np.zeros((len(blocks), len(self.attributes)), np.uint8)
        counts = np.zeros(len(self.subsets))
        for row, block in enumerate(blocks):
            inside[row, [place[i] for i in block]] = 1
            counts[self.pool.inside(block)] += 1
        shared = self.energies / np.maximum(counts, 1) ** 2
        mass = np.array([shared[self.pool.inside(block)].sum() for block in blocks])
        alive = np.ones(len(blocks), np.bool_)
        _kernels.merge_blocks(
            inside,
            np.array([float(self.sizes[i]) for i in self.attributes]),
            np.array([self.pool.cells(block) for block in blocks]),
            mass,
            np.array([float(self.max_cells), price]),
            alive,
        )
        return self._listed(inside[alive])

    def _low_orders(self) -> Iterator[None]:
        """Try the total and the single attributes beside the best blocks."""
        singles = [(i,) for i in self.attributes]
        for extra in ([()], singles, [(), *singles]):
            blocks, theta = self.best
            new = [block for block in extra if block not in set(blocks)]
            if self.is_over or not new:
                continue
            weights = np.concatenate([theta, np.full(len(new), 0.1 / len(new))])
            joined = [*blocks, *new]
            if self.keep(joined, *self.descend(joined, weights)):
                yield

    # ---- local moves ----------------------------------------------------------

    def _local_moves(self) -> Iterator[None]:
        """Walk from several starts, accepting slightly worse strategies ever less."""
        starts = [(self.best_loss, *self.best), *self.starts]
        share = max(1, self.work_left // len(starts))
        for loss, blocks, theta in starts:
            yield from self._chain(loss, blocks, theta, share)
        while not self.is_over:
            before = self.best_loss
            yield from self._chain(self.best_loss, *self.best, share)
            if self.best_loss > before * (1 - SETTLED):
                return

    def _chain(
        self, loss: float, blocks: list[Subset], theta: Floats, work: int
    ) -> Iterator[None]:
        stop = max(self.work_left - work, 0)
        for move in range(CHAIN_MOVES):
            if self.is_over or self.work_left <= stop:
                return
            heat = CHAIN_HEAT * (1 - move / CHAIN_MOVES)
            limit = loss * (1 + heat * self.rng.exponential())
            new, weights = self._neighbour(blocks, theta)
            weights, value = self.descend(new, weights, max_iter=MOVE_ITERATIONS)
            if value < limit * 1.02:
                weights, value = self.descend(new, weights)
            if value < limit:
                used = weights > 0
                blocks = [b for b, u in zip(new, used, strict=True) if u]
                theta, loss = weights[used], value
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
        self._repair(weights, float(np.mean(theta)))
        listed = sorted(weights)
        return listed, np.array([weights[block] for block in listed])

    def _grown(self, block: Subset) -> Subset:
        new = self.attributes[int(self.rng.integers(len(self.attributes)))]
        return tuple(sorted({*block, new}))

    def _replace(self, weights: dict[Subset, float], old: Subset, new: Subset) -> None:
        """Put a block in the place of another and of all that lie inside it."""
        if self.pool.cells(new) > self.max_cells or new == old:
            return
        whole = set(new)
        weight = weights.pop(old)
        for block in [b for b in weights if whole.issuperset(b)]:
            weight += weights.pop(block)
        weights[new] = weight

    def _repair(self, weights: dict[Subset, float], weight: float) -> None:
        """Add what is needed and lies in no block."""
        left = self._uncovered(weights)
        while left:
            whole = self.around[self.subsets[left[0]]]
            weights[whole] = weight
            inside = set(self.pool.inside(whole).tolist())
            left = [number for number in left if number not in inside]

    def _uncovered(self, blocks: Iterable[Subset]) -> list[int]:
        """Return the numbers of the asked subsets that lie in no block."""
        from mmech import _kernels

        counts = np.zeros(len(self.subsets), np.int64)
        _, starts, stops = self.pool.layout(blocks)
        _kernels.pool_counts(starts, stops, self.pool.members, counts)
        return np.flatnonzero(counts == 0).tolist()

    def polish(self) -> None:
        """Descend from the best to full accuracy."""
        blocks, theta = self.best
        theta, loss = self.descend(
            blocks, theta, max_iter=POLISH_ITERATIONS, tolerance=POLISH_TOLERANCE
        )
        if loss <= self.best_loss:
            self.best, self.best_loss = (blocks, theta), loss
            self.history.append(loss)


def look_at_pool(workload: QueryMatrix, found: Found) -> Skip | None:
    """Leave to the search of the lattice what a lattice can list."""
    if is_beyond_lattices(workload):
        return None
    return Skip("for workloads over more attributes than a lattice lists")


MARGINAL_POOL = Template(NAME, marginal_pool_strategy, 40, look=look_at_pool)
