"""Block designs that a search of marginals starts from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Subset
from mmech.operators.table_tree import attributes_of, mask_of

MAX_VISITS = 10**9
"""Pairs of a block and a subset asked for that designs may visit."""

MAX_POINTS = 13
"""Largest base design that is inflated (the projective plane of order 3)."""

INFLATIONS = 6
"""Random assignments of attributes to the points of a base design."""

DECAY = 0.1
"""Worth of a target for every attribute that a growing block still lacks."""


class Designs:
    """Block designs that cover all that is needed, as bit masks of few attributes."""

    def __init__(
        self,
        attributes: Sequence[int],
        needed: Iterable[Subset],
        rng: np.random.Generator,
    ) -> None:
        self.rng = rng
        self.d = len(attributes)
        place = {i: j for j, i in enumerate(attributes)}
        masks = [mask_of(place[i] for i in subset) for subset in needed]
        self.needed = np.array(masks, np.int64)
        self.visits = 0

    def random(self) -> list[int]:
        """Return random blocks, and what they leave out."""
        count = int(self.rng.integers(2, 3 * self.d + 3))
        return self._covering([self._random_block() for _ in range(count)])

    def inflated(self) -> Iterator[list[int]]:
        """Yield designs on fewer points, each point standing for a group of attributes.

        Ten attributes dealt to the seven points of the Fano plane, for instance,
        give seven blocks in which every two attributes meet.
        """
        d = self.d
        order = max(mask.bit_count() for mask in self.needed.tolist())
        for points in range(order + 1, min(d, MAX_POINTS + 1)):
            targets = _subsets(points, order)
            for size in range(order, points):
                candidates = _subsets(points, size)
                if self.visits > MAX_VISITS:
                    return
                design = self._lexicode(candidates, order)
                left = [t for t in targets if all(t & ~block for block in design)]
                design = design + self._greedy_cover(candidates, left)
                for _ in range(INFLATIONS):
                    dealt = np.zeros(points, np.int64)
                    for i, j in enumerate(self.rng.permutation(d)):
                        dealt[i % points] |= 1 << j
                    dealt = self.rng.permutation(dealt)
                    groups = [int(group) for group in dealt]
                    yield self._covering(
                        [
                            sum(groups[i] for i in attributes_of(block))
                            for block in design
                        ]
                    )

    def _lexicode(self, blocks: list[int], overlap: int) -> list[int]:
        """First-fit packing: two blocks share fewer than `overlap` attributes."""
        chosen: list[int] = []
        left = np.array(blocks, np.int64)
        held = (left[:, None] >> np.arange(self.d) & 1).astype(np.int8)
        while left.size:
            chosen.append(int(left[0]))
            apart = held @ held[0] < overlap
            left, held = left[apart], held[apart]
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
        outside = self.needed[:, None] & ~np.array(blocks, np.int64) != 0
        missing = self.needed[outside.all(axis=1)]
        return sorted({*blocks, *missing.tolist()})

    def _random_block(self) -> int:
        size = int(self.rng.integers(1, self.d + 1))
        return mask_of(self.rng.permutation(self.d)[:size].tolist())


def _subsets(points: int, size: int) -> list[int]:
    """All subsets of one size as bit masks, in lexicographic order."""
    return [mask_of(block) for block in combinations(range(points), size)]


def cover_greedily(
    targets: Sequence[Subset],
    logs: NDArray[np.float64],
    max_cells: float,
    ties: NDArray[np.float64],
) -> list[Subset]:
    """Return blocks of at most `max_cells` cells that contain all targets.

    Targets are sets of attributes of at least two values, whose sizes have the
    logarithms `logs` (d,). A target that exceeds the cap, where no other fits, is a
    block of its own. Numbers `ties` in [0, 1), of shape (cycles, d), decide between
    attributes that are about as good.
    """
    from mmech import _kernels

    lengths = [len(target) for target in targets]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    flat = np.array([i for target in targets for i in target], np.int64)
    owner = np.repeat(np.arange(len(targets)), lengths)
    order = np.argsort(flat, kind="stable")
    d = logs.size
    owner_starts = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=d))])
    out = np.zeros((len(targets), d), np.uint8)
    count = _kernels.cover_greedily(
        starts,
        flat,
        owner_starts.astype(np.int64),
        owner[order],
        logs,
        math.log(max_cells) + 1e-9,
        DECAY,
        ties,
        out,
    )
    return [tuple(np.flatnonzero(row).tolist()) for row in out[:count]]
