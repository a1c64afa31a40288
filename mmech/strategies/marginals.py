"""Weighted marginals under L1 sensitivity: a search over block designs.

With κ_s = Σ_{a⊇s} θ_a² n/n_a and v_s = tr(P_s WᵀW) the loss of {θ_a M_a} is
(Σθ)² Σ_s v_s / κ_s, two zeta transforms per evaluation. A marginal with weight zero
cannot be re-activated by a gradient (its derivative is positive), so good strategies
are few blocks that cover what the workload needs, found by search: closed forms,
lexicographic designs, random starts, then local moves, each followed by a monotone
descent on the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.marginals import (
    MAX_LATTICE_ATTRIBUTES,
    Marginals,
    check_domain_shape,
    subset_cells,
)
from mmech.operators.table_tree import attributes_of, mask_of
from mmech.strategies.deadline import time_is_up
from mmech.strategies.registry import TIE, Found, Skip, Template
from mmech.strategies.result import Callback, StrategyResult
from mmech.structure.attributes import domain_shape_of
from mmech.structure.boxes import comes_from_partitions, is_union_of_boxes
from mmech.structure.energies import anova_energies
from mmech.structure.spectrum import mean_spectrum

__all__ = [
    "MARGINALS",
    "attribute_sizes",
    "evaluations",
    "forest_work",
    "is_beyond_lattices",
    "marginals_strategy",
]

Floats = NDArray[np.float64]

MAX_EVALUATIONS = 400_000
"""Default work, in evaluations of the loss, on small lattices ..."""

MAX_WORK = 5 * 10**9
"""... and in element operations on large ones."""

PAIR_EVALUATIONS = 100
"""Evaluations per pair of subsets of the attributes: few attributes need no more."""

MAX_NEEDED = 5000
"""Largest number of subsets asked for that designs are searched for."""

MAX_VISITS = 10**9
EVALUATION_VISITS = 10**5
"""Pairs of a block and a subset asked for that designs may visit: at most, and per
evaluation of the loss."""

SURVIVORS = 8
"""Strategies that the local search keeps."""

MAX_POINTS = 13
"""Largest base design that is inflated (the projective plane of order 3)."""

INFLATIONS = 6
"""Random assignments of attributes to the points of a base design."""

RANDOM_STARTS = 150

DENSE_STARTS = 8
"""Up to this number of attributes some random starts weight every marginal."""

CHAINS = 24
"""Local searches, from as many different starts."""

CHAIN_HEAT = 0.05
"""Relative worsening that the local search accepts at first, on average."""

GLANCE = 10_000
"""Evaluations after which "auto" decides whether to search marginals in earnest."""

GLANCE_WORK = 2 * 10**9
FOREST_WORK = 10**10
"""The same in element operations of the loss, which lattices of more than a dozen
attributes reach first: those of a glance, and of a search for a forest."""

FOREST_EVALUATIONS = 100_000
FOREST_PAIR_EVALUATIONS = 32
"""Work that "auto" spends on marginals for a forest, which is fitted in a hurry: at
most, and per pair of subsets of the attributes. More has found nothing better on
lattices of up to five attributes."""

SEARCH_ITERATIONS = 15
SEARCH_TOLERANCE = 1e-6
POLISH_ITERATIONS = 20_000
POLISH_TOLERANCE = 1e-13


def marginals_strategy(
    workload: QueryMatrix,
    *,
    domain_shape: Any = None,
    max_evaluations: int | None = None,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Search for the best weighted marginals.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries over a product domain of at most 20 attributes.
    domain_shape : sequence of int, default=None
        Attribute sizes; taken from the workload where it knows them.
    max_evaluations : int, default=None
        Work limit, in evaluations of the loss.
    seed : int, SeedSequence or Generator, default=None
        Seed of the search; the same seed gives the same strategy.
    callback : callable, default=None
        Called with a `StrategyResult` whenever the best improves; stops if it
        returns True.

    Returns
    -------
    StrategyResult
        Never worse than the single table over all attributes that the workload
        touches, and so never worse than the identity.

    Raises
    ------
    UnsupportedWorkloadError
        If the attributes are not known or the workload has no closed-form
        projection on the marginal algebra.
    DomainTooLargeError
        If there are more than 20 attributes.
    """
    sizes = attribute_sizes(workload, domain_shape, "marginals")
    if len(sizes) > MAX_LATTICE_ATTRIBUTES:
        raise DomainTooLargeError(
            f"template 'marginals' lists the 2^{len(sizes)} subsets of "
            f"{len(sizes)} attributes, too many (at most {MAX_LATTICE_ATTRIBUTES} "
            "attributes); use template 'marginal_pool', which lists only what is asked"
        )
    energies = anova_energies(workload, sizes)
    if energies is None:
        raise UnsupportedWorkloadError(
            f"template 'marginals' has no projection of {workload!r} on the marginal "
            "algebra; use template 'pidentity'"
        )
    if not (energies[1:] > 0).any():  # at most the total is asked
        total = Marginals(sizes, {(): 1})
        loss = float(energies[0]) / workload.shape[1]
        return StrategyResult(total, "marginals", loss, message="the total alone")
    search = _Search(sizes, energies, max_evaluations, np.random.default_rng(seed))

    def result() -> StrategyResult:
        return search.result(sizes)

    for _ in search.run():
        if callback is not None and callback(result()):
            break
    search.polish()
    return result()


def attribute_sizes(
    workload: QueryMatrix, domain_shape: Any, template: str
) -> tuple[int, ...]:
    """Return the attribute sizes given to a template, or read off the workload."""
    shape = domain_shape_of(workload) if domain_shape is None else domain_shape
    if shape is None:
        raise UnsupportedWorkloadError(
            f"template {template!r} needs the attribute sizes of {workload!r}; pass "
            "domain_shape="
        )
    sizes = check_domain_shape(shape)
    if product_of(sizes) != workload.shape[1]:
        raise ValueError(
            f"domain_shape {sizes} has {product_of(sizes)} cells but the workload has "
            f"{workload.shape[1]} columns; both must be the same domain"
        )
    return sizes


def evaluations(n_attributes: int, work: int) -> int:
    """Return how often the loss is evaluated by so many operations, at least once."""
    return max(1, work // (2 * max(n_attributes, 1) * 2**n_attributes))


class _Search:
    """The state of one search: best strategies so far and the work left."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        energies: Floats,
        max_evaluations: int | None,
        rng: np.random.Generator,
    ) -> None:
        self.d = len(sizes)
        self.cells = subset_cells(sizes)
        self.energies = energies
        self.rng = rng
        self.scratch = np.empty((2, 2**self.d))
        self.used = 0
        self.pool: list[tuple[float, Floats]] = []
        self.starts: list[tuple[float, Floats]] = []
        self.history: list[float] = []
        self.needed = _maximal(energies > 0)
        self.needed_masks = np.array(self.needed, np.int64)
        union = 0
        for s in self.needed:
            union |= s
        self.union = union
        self.attributes = attributes_of(union)
        if max_evaluations is None:
            max_evaluations = min(
                MAX_EVALUATIONS,
                PAIR_EVALUATIONS * 4 ** len(self.attributes),
                max(2000, evaluations(self.d, MAX_WORK)),
            )
        self.budget = check_integer(max_evaluations, "max_evaluations")
        self.visits = 0
        self.most_visits = min(MAX_VISITS, EVALUATION_VISITS * self.budget)

    def result(self, sizes: tuple[int, ...]) -> StrategyResult:
        loss, theta = self.pool[0]
        weights = {
            attributes_of(mask): float(theta[mask])
            for mask in np.flatnonzero(theta).tolist()
        }
        return StrategyResult(
            Marginals(sizes, weights),
            "marginals",
            loss,
            n_iter=self.used,
            success=True,
            message=f"{len(weights)} marginals after {self.used} evaluations",
            history=tuple(self.history),
        )

    def run(self) -> Iterator[None]:
        """Try starts, then local moves; yield after every improvement."""
        for blocks in self._designs():
            if self.used > self.budget // 2 or (self.pool and time_is_up()):
                break
            if self._try(self._uniform(blocks)):
                yield
        if len(self.needed) > MAX_NEEDED:
            return
        yield from self._merge_greedily(self.used + self.budget // 4)
        for _ in range(RANDOM_STARTS):
            if self.used < self.budget and self._try(self._random_start()):
                yield
        length = max(1, (self.budget - self.used) // CHAINS)
        for loss, theta in list(self.starts):
            yield from self._chain(loss, theta, length)
        while self.used < self.budget and not time_is_up():
            yield from self._chain(*self.pool[0], length)

    def _merge_greedily(self, stop: int) -> Iterator[None]:
        """Merge blocks of the finest cover into larger ones while that helps."""
        theta, loss = self._descend(self._uniform(self.needed))
        self._keep(loss, theta)
        improved = True
        while improved and self.used < stop:
            improved = False
            for merged in self._merges(theta):
                if self.used >= stop:
                    break
                candidate, value = self._descend(self._absorb(theta, merged))
                if value < loss * (1 - 1e-6):
                    theta, loss, improved = candidate, value, True
                    if self._keep(loss, theta):
                        yield

    def _merges(self, theta: Floats) -> list[int]:
        """Blocks with one attribute added, fewest cells first."""
        support = np.flatnonzero(theta)
        grown = {int(a) | 1 << i for a in support for i in self.attributes}
        return sorted(grown - set(support.tolist()), key=lambda a: -self.cells[a])

    def _absorb(self, theta: Floats, block: int) -> Floats:
        """Move the weight of all blocks inside `block` to it."""
        theta = theta.copy()
        support = np.flatnonzero(theta)
        inside = support[(support & ~block) == 0]
        weight = theta[inside].sum()
        theta[inside] = 0.0
        theta[block] = weight
        return theta

    def _chain(self, loss: float, theta: Floats, work: int) -> Iterator[None]:
        """Walk from one strategy, accepting slightly worse ones ever less often."""
        stop = min(self.used + work, self.budget)
        length = max(1, stop - self.used)
        while self.used < stop and not time_is_up():
            candidate, value = self._descend(self._move(theta))
            heat = CHAIN_HEAT * (stop - self.used) / length
            if value < loss * (1 + heat * self.rng.exponential()):
                loss, theta = value, candidate
                if self._keep(loss, theta):
                    yield

    def _uniform(self, blocks: list[int]) -> Floats:
        theta = np.zeros(2**self.d)
        theta[blocks] = 1.0
        return theta

    def _try(self, theta: Floats) -> bool:
        """Descend from `theta`; return whether the best improved."""
        theta, loss = self._descend(theta)
        known = any(abs(loss - other) <= 1e-9 * loss for other, _ in self.starts)
        if np.isfinite(loss) and not known:
            self.starts.append((loss, theta))
            self.starts.sort(key=lambda item: item[0])
            del self.starts[CHAINS:]
        return self._keep(loss, theta)

    def _descend(self, theta: Floats) -> tuple[Floats, float]:
        from mmech import _kernels

        theta = theta / theta.sum()
        loss, iterations = _kernels.marginals_descend(
            theta,
            self.cells,
            self.energies,
            SEARCH_ITERATIONS,
            SEARCH_TOLERANCE,
            self.scratch,
        )
        self.used += iterations + 1
        return theta, float(loss)

    def _keep(self, loss: float, theta: Floats) -> bool:
        if not np.isfinite(loss):
            return False
        if any(abs(loss - other) <= 1e-9 * loss for other, _ in self.pool):
            return False
        best = self.pool[0][0] if self.pool else np.inf
        if len(self.pool) < SURVIVORS or loss < self.pool[-1][0]:
            self.pool.append((loss, theta))
            self.pool.sort(key=lambda item: item[0])
            del self.pool[SURVIVORS:]
        if loss < best:
            self.history.append(loss)
            return True
        return False

    def polish(self) -> None:
        """Descend from the best to full accuracy."""
        from mmech import _kernels

        for loss, theta in list(self.pool[:2]):
            polished = theta.copy()
            final, iterations = _kernels.marginals_descend(
                polished,
                self.cells,
                self.energies,
                min(POLISH_ITERATIONS, max(100, evaluations(self.d, MAX_WORK))),
                POLISH_TOLERANCE,
                self.scratch,
            )
            self.used += iterations
            if final <= loss:
                self.pool.append((float(final), polished))
        self.pool.sort(key=lambda item: item[0])
        self.history.append(self.pool[0][0])

    # ---- starts -------------------------------------------------------------

    def _designs(self) -> Iterator[list[int]]:
        """Yield block designs that cover all that the workload needs."""
        yield [self.union]
        yield list(self.needed)
        if len(self.needed) > 1:
            yield [*self.needed, self.union]
        if len(self.needed) > MAX_NEEDED:
            return
        d = len(self.attributes)
        for size in range(1, d):
            blocks = self._blocks(size)
            for overlap in range(1, size + 1):
                if self.visits > self.most_visits:
                    return
                yield self._covering(self._lexicode(blocks, overlap))
            yield self._covering(self._greedy_cover(blocks, self.needed))
        yield from self._inflated_designs()

    def _inflated_designs(self) -> Iterator[list[int]]:
        """Designs on fewer points, each point standing for a group of attributes.

        Ten attributes dealt to the seven points of the Fano plane, for instance,
        give seven blocks in which every two attributes meet.
        """
        d = len(self.attributes)
        order = max((s.bit_count() for s in self.needed), default=0)
        for points in range(order + 1, min(d, MAX_POINTS + 1)):
            targets = _subsets(points, order)
            for size in range(order, points):
                candidates = _subsets(points, size)
                if self.visits > self.most_visits:
                    return
                design = self._lexicode(candidates, order)
                left = [t for t in targets if all(t & ~block for block in design)]
                design = design + self._greedy_cover(candidates, left)
                for _ in range(INFLATIONS):
                    dealt = np.zeros(points, np.int64)
                    for i, j in enumerate(self.rng.permutation(d)):
                        dealt[i % points] |= 1 << self.attributes[j]
                    dealt = self.rng.permutation(dealt)
                    groups = [int(group) for group in dealt]
                    yield self._covering(
                        [
                            sum(groups[i] for i in attributes_of(block))
                            for block in design
                        ]
                    )

    def _blocks(self, size: int) -> list[int]:
        """All subsets of one size, in lexicographic order (a sample if many)."""
        d = len(self.attributes)
        if d <= 14:
            return [mask_of(block) for block in combinations(self.attributes, size)]
        rows = self.rng.random((2000, d)).argsort(axis=1)[:, :size]
        masks = {sum(1 << self.attributes[i] for i in row) for row in rows.tolist()}
        return sorted(masks)

    @staticmethod
    def _lexicode(blocks: list[int], overlap: int) -> list[int]:
        """First-fit packing: two blocks share fewer than `overlap` attributes."""
        chosen: list[int] = []
        for block in blocks:
            if all((block & other).bit_count() < overlap for other in chosen):
                chosen.append(block)
        return chosen

    def _greedy_cover(self, blocks: list[int], targets: list[int]) -> list[int]:
        """Repeatedly the block that contains most targets left."""
        candidates = np.array(blocks, np.int64)
        left = np.array(targets, np.int64)
        chosen: list[int] = []
        while left.size:
            self.visits += left.size * candidates.size
            covers = (left[None, :] & ~candidates[:, None]) == 0
            counts = covers.sum(axis=1)
            best = int(counts.argmax())
            if counts[best] == 0:
                break
            chosen.append(int(candidates[best]))
            left = left[~covers[best]]
        return chosen

    def _covering(self, blocks: list[int]) -> list[int]:
        """Add what is missing so that every needed subset lies in a block."""
        self.visits += self.needed_masks.size * len(blocks)
        outside = self.needed_masks[:, None] & ~np.array(blocks, np.int64) != 0
        missing = self.needed_masks[outside.all(axis=1)]
        return sorted({*blocks, *missing.tolist()})

    def _random_block(self) -> int:
        d = len(self.attributes)
        size = int(self.rng.integers(1, d + 1))
        return sum(
            1 << self.attributes[i] for i in self.rng.permutation(d)[:size].tolist()
        )

    def _random_start(self) -> Floats:
        """Random weights of the whole lattice, or of random blocks that cover.

        From weights of everything a descent finds out by itself what to drop, which
        small lattices can afford.
        """
        kind = int(self.rng.integers(3)) if self.d <= DENSE_STARTS else 0
        if kind > 0:
            subsets = np.arange(2**self.d)
            subsets = subsets[subsets & ~self.union == 0]
            sparse = np.full(subsets.size, self.rng.uniform(0.03, 0.3))
            theta = np.zeros(2**self.d)
            theta[subsets] = (
                self.rng.random(subsets.size)
                if kind == 1
                else self.rng.dirichlet(sparse) + 1e-6
            )
            return theta
        count = int(self.rng.integers(2, 3 * len(self.attributes) + 3))
        blocks = self._covering([self._random_block() for _ in range(count)])
        theta = np.zeros(2**self.d)
        theta[blocks] = self.rng.dirichlet(np.full(len(blocks), 0.5)) + 1e-3
        return theta

    def _move(self, theta: Floats) -> Floats:
        """Return a neighbour of a strategy, made to cover the workload again."""
        theta = theta.copy()
        for _ in range(int(self.rng.integers(1, 4))):
            support = np.flatnonzero(theta)
            block = self._pick(support)
            kind = int(self.rng.integers(6))
            if kind == 0 and support.size > 1:  # drop
                theta[block] = 0.0
            elif kind == 1:  # add
                theta[self._random_block()] += self.rng.uniform(0.05, 0.3)
            elif kind == 5:  # grow by an attribute, taking in what lies inside
                theta = self._absorb(theta, block | 1 << self._pick(self.attributes))
            else:  # flip an attribute, swap two, or split the block towards a flip
                other = block ^ (1 << self._pick(self.attributes))
                if kind == 3:
                    other ^= 1 << self._pick(self.attributes)
                share = self.rng.uniform(0.3, 0.7) if kind == 4 else 1.0
                weight = theta[block]
                theta[block] -= share * weight
                theta[other] += share * weight
        blocks = np.flatnonzero(theta > 0)
        outside = self.needed_masks[:, None] & ~blocks != 0
        held = np.concatenate([blocks, self.needed_masks[outside.all(axis=1)]])
        theta[held] = np.maximum(theta[held], 0.02)
        return theta

    def _pick(self, values: Sequence[int] | NDArray[np.int64]) -> int:
        """Return one of the values at random; `Generator.choice` takes far longer."""
        return int(values[int(self.rng.integers(len(values)))])


def _maximal(active: NDArray[np.bool_]) -> list[int]:
    """Return the active subsets that no other one contains, in order."""
    from mmech import _kernels

    containing = active.astype(np.float64)
    _kernels.superset_sums(containing)
    return np.flatnonzero(active & (containing == 1.0)).tolist()


def _subsets(points: int, size: int) -> list[int]:
    """All subsets of one size as bit masks, in lexicographic order."""
    return [mask_of(block) for block in combinations(range(points), size)]


# ---- in "auto" ---------------------------------------------------------------


def forest_work(workload: QueryMatrix) -> int:
    """Return the evaluations that a search of marginals for a forest may take."""
    sizes = domain_shape_of(workload) or ()
    pairs = 4 ** sum(size > 1 for size in sizes)
    return min(
        FOREST_EVALUATIONS,
        FOREST_PAIR_EVALUATIONS * pairs,
        evaluations(min(len(sizes), MAX_LATTICE_ATTRIBUTES), FOREST_WORK),
    )


def is_beyond_lattices(workload: QueryMatrix) -> bool:
    """Whether a workload asks for subsets of more attributes than a lattice has."""
    shape = domain_shape_of(workload)
    if shape is None or len(shape) <= MAX_LATTICE_ATTRIBUTES:
        return False
    try:
        return mean_spectrum(workload, shape) is not None
    except DomainTooLargeError:
        return False


def look_at_marginals(workload: QueryMatrix, found: Found) -> Skip | None:
    """Search in earnest where a short search improves on what is known."""
    shape = domain_shape_of(workload)
    if shape is None or len(shape) < 2 or len(shape) > MAX_LATTICE_ATTRIBUTES:
        return Skip("no product domain with a listable lattice")
    if not is_union_of_boxes(workload):
        return Skip("no projection on the marginal algebra")
    work = min(GLANCE, forest_work(workload) // 2)
    work = max(1, min(work, evaluations(len(shape), GLANCE_WORK)))
    glance = marginals_strategy(workload, max_evaluations=work, seed=0)
    if glance.loss >= found.best_loss * (1 - TIE):
        return Skip("a short search did not improve on the best", glance.loss)
    return None


def _hurry_for_forests(
    workload: QueryMatrix, options: dict[str, Any]
) -> dict[str, Any]:
    if not comes_from_partitions(workload):
        return options
    return {"max_evaluations": forest_work(workload), **options}


MARGINALS = Template(
    "marginals",
    marginals_strategy,
    30,
    look=look_at_marginals,
    adapt=_hurry_for_forests,
)
