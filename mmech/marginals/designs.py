"""Which attributes are looked at together: partitions, and designs that cover.

A covering design is a list of blocks, together holding every set of `order` attributes.
Pools of marginals are made of these lists; nothing here looks at records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_integer
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import product_of
from mmech.operators.marginals import check_domain_shape

__all__ = [
    "LARGEST_ORDER",
    "MAX_BLOCK_CELLS",
    "block_partitions",
    "cover_greedily",
    "covering_design",
    "fewest_blocks",
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

DECAYS = (DECAY, 1e-3)
"""As above, in turn. Less looks no further than the next attribute: that lets chance
decide, which often finds small designs of few attributes."""

TRIES = 64
"""Covering designs of which the smallest is taken."""


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


def covering_design(
    domain_shape: Sequence[int], *, order: int = 2, max_cells: int = MAX_BLOCK_CELLS
) -> list[Subset]:
    """Return few blocks under a cap that hold every set of `order` attributes.

    Blocks grow greedily by what they complete; of several designs, with ties broken
    in other ways, the one with fewest blocks is taken, after leaving out what the
    others cover. Deterministic. Sets whose own table exceeds the cap are left out, but
    not their subsets; a single attribute always has a block.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    order : int, default=2
        Number of attributes that are to be looked at together, at least 1.
    max_cells : int, default=65536
        Largest number of cells of a block.

    Returns
    -------
    list of tuple of int
        Sorted blocks, none inside another; attributes of one value are in none.

    Raises
    ------
    DomainTooLargeError
        If there are more than a million sets to cover.
    TypeError, ValueError
        If an argument is not a whole number of at least 1.

    Notes
    -----
    Minimal designs are known for few parameters only. The 21 pairs of 7 attributes of
    one size, in blocks of 3, take the 7 lines of the Fano plane.

    References
    ----------
    .. [1] Gordon, Kuperberg, Patashnik, "New constructions for covering designs",
       Journal of Combinatorial Designs 3, 1995, Section 2 (greedy coverings).
    .. [2] Qardaji, Yang, Li, "PriView: practical differentially private release of
       marginal contingency tables", SIGMOD 2014 (their use for marginals).

    Examples
    --------
    >>> from mmech.strategies import covering_design
    >>> covering_design((2, 2, 2, 2), max_cells=8)
    [(0, 1, 2), (0, 1, 3), (2, 3)]
    >>> len(covering_design((3,) * 7, max_cells=27))
    7
    """
    sizes = check_domain_shape(domain_shape)
    order = check_integer(order, "order")
    cap = check_integer(max_cells, "max_cells")
    n_sets = math.comb(len(sizes), order)
    if n_sets > LIMITS.design_sets:
        raise DomainTooLargeError(
            f"a design that covers all {n_sets:,} sets of {order} attributes is too "
            f"large to search (at most {LIMITS.design_sets:,}); use a lower order"
        )
    targets = _targets(sizes, order, cap)
    if not targets:
        return []
    logs = np.log(np.array(sizes, dtype=np.float64))
    rng = np.random.default_rng(0)
    best: list[Subset] = []
    for number in range(min(TRIES, 2 + LIMITS.design_targets // len(targets))):
        ties = rng.random((64, len(sizes)))
        decay = DECAYS[number % len(DECAYS)]
        blocks = cover_greedily(targets, logs, cap, ties, decay=decay)
        found = _needed(blocks, targets, len(sizes))
        if not best or len(found) < len(best):
            best = found
    return best


def fewest_blocks(domain_shape: Sequence[int], *, order: int, max_cells: int) -> int:
    """Return a lower bound on the blocks of a covering design, by counting.

    Zero where not every set of `order` attributes fits under the cap.
    """
    sizes = sorted(n for n in domain_shape if n > 1)
    order = min(order, len(sizes))
    if not sizes or product_of(sizes[len(sizes) - order :]) > max_cells:
        return 0
    longest = order
    while longest < len(sizes) and product_of(sizes[: longest + 1]) <= max_cells:
        longest += 1
    return -(-math.comb(len(sizes), order) // math.comb(longest, order))


def _targets(sizes: tuple[int, ...], order: int, cap: int) -> list[Subset]:
    """Return the sets to cover: those of `order` attributes, or what fits of them."""
    kept = [i for i, n in enumerate(sizes) if n > 1]
    targets: list[Subset] = []
    inside: set[Subset] = set()
    for size in range(min(order, len(kept)), 0, -1):
        fitting = [
            s
            for s in combinations(kept, size)
            if s not in inside and (size == 1 or product_of(sizes[i] for i in s) <= cap)
        ]
        targets += fitting
        below = {t for s in (*fitting, *inside) for t in combinations(s, size - 1)}
        inside = below
    return sorted(targets)


def _needed(blocks: list[Subset], targets: list[Subset], d: int) -> list[Subset]:
    """Return the blocks less those whose targets others hold, the last ones first."""
    inside = np.zeros((len(blocks), d + 1), dtype=np.bool_)
    inside[:, d] = True  # stands for the attributes that a smaller target lacks
    for row, block in zip(inside, blocks, strict=True):
        row[list(block)] = True
    width = max(map(len, targets))
    padded = np.array([(*t, *[d] * (width - len(t))) for t in targets])
    counts = np.zeros(len(targets), np.int64)
    held = []
    for row in inside:
        held.append(np.flatnonzero(row[padded].all(axis=1)))
        counts[held[-1]] += 1
    kept = []
    for block, own in zip(reversed(blocks), reversed(held), strict=True):
        if (counts[own] > 1).all():
            counts[own] -= 1
        else:
            kept.append(block)
    return sorted(kept)


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
