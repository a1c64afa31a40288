"""Which attributes are looked at together: partitions, and blocks that cover sets.

Pools of marginals are made of these lists; nothing here looks at records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mmech.operators.base import product_of
from mmech.operators.marginals import check_domain_shape

__all__ = [
    "LARGEST_ORDER",
    "MAX_BLOCK_CELLS",
    "block_partitions",
    "cover_greedily",
    "split_block",
]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

LARGEST_ORDER = 4
"""Largest number of attributes of a block that partitions are made of."""

MAX_BLOCK_CELLS = 2**16
"""Candidates have no block of more cells, the whole domain included."""

DECAY = 0.1
"""Worth of a target for every attribute that a growing block still lacks."""


def block_partitions(
    domain_shape: Sequence[int],
    *,
    largest: int = LARGEST_ORDER,
    max_cells: int = MAX_BLOCK_CELLS,
) -> list[list[Subset]]:
    """Return partitions of the attributes into blocks of neighbours, finer ones first.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute, in the order of the schema: what stands
        together often belongs together.
    largest : int, default=4
        Largest number of attributes of a block.
    max_cells : int, default=65536
        Largest number of cells of a block; larger blocks are split.

    Returns
    -------
    list of list of tuple of int

    Examples
    --------
    >>> from mmech.strategies import block_partitions
    >>> block_partitions((2, 3, 4), largest=2)
    [[(0,), (1,), (2,)], [(0,), (1, 2)]]
    """
    sizes = check_domain_shape(domain_shape)
    d = len(sizes)
    found: list[list[Subset]] = []
    for order in range(1, min(largest, d) + 1):
        count = -(-d // order)
        ends = [i * d // count for i in range(count + 1)]
        blocks = [
            block
            for start, stop in pairwise(ends)
            for block in split_block(tuple(range(start, stop)), sizes, max_cells)
        ]
        if blocks not in found:
            found.append(blocks)
    return found


def split_block(
    block: Subset, sizes: tuple[int, ...], max_cells: int
) -> Iterator[Subset]:
    """Yield a block, halved until no part of several attributes exceeds a cap."""
    if len(block) == 1 or product_of(sizes[i] for i in block) <= max_cells:
        yield block
        return
    middle = len(block) // 2
    yield from split_block(block[:middle], sizes, max_cells)
    yield from split_block(block[middle:], sizes, max_cells)


def cover_greedily(
    targets: Sequence[Subset],
    logs: Floats,
    max_cells: float,
    ties: Floats,
    *,
    decay: float = DECAY,
) -> list[Subset]:
    """Return blocks of at most `max_cells` cells that contain all targets.

    Targets are sets of attributes of at least two values, whose sizes have the
    logarithms `logs` (d,). A target that exceeds the cap, where no other fits, is a
    block of its own. Numbers `ties` in [0, 1), of shape (cycles, d), decide between
    attributes that are about as good; `decay` is the worth of a target for every
    attribute that a growing block still lacks.
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
        np.ones(len(targets)),
        logs,
        math.log(max_cells) + 1e-9,
        decay,
        ties,
        out,
    )
    return [tuple(np.flatnonzero(row).tolist()) for row in out[:count]]
