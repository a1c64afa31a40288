"""Workloads whose cells have an order: find it, and solve on blocks of neighbours.

On a domain with an order good extra queries are smooth. Weights that are constant on
blocks of cells are a subspace. There the loss equals the loss of a small problem with
the block sums of the gram: no step from coarse to fine changes the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.operators.base import Array, QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones, SeparableGram
from mmech.operators.compose import Gram, MergedGram, Product, Scaled, Sum
from mmech.operators.explicit import Dense
from mmech.operators.partition import PartitionStack
from mmech.structure.blocks import asks_ranges, separable_terms

EXPLICIT_BLOCKS = 512
"""Up to this number of blocks, block sums of a gram are formed explicitly."""

FEWEST_BLOCKS = 128
"""No level has fewer blocks."""

CHUNK = 64
"""Columns of a gram that are computed at once."""


@dataclass(frozen=True)
class BlockLevel:
    """The problem for weights that are constant on blocks of neighbours.

    Sums of the gram over pairs of blocks, of its diagonal over the blocks, and the
    number of cells of every block.
    """

    gram: QueryMatrix
    diagonal: Floats
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, gram: QueryMatrix) -> BlockLevel:
        """Return the level on which every cell is a block."""
        diagonal = np.asarray(gram.diag(), dtype=np.float64)
        return cls(_in_floats(gram), diagonal, np.ones(diagonal.size, np.int64))


@singledispatch
def _in_floats(gram: QueryMatrix) -> QueryMatrix:
    """Return a gram whose products convert no whole numbers."""
    return gram


@_in_floats.register(Dense)
def _(gram: Dense) -> QueryMatrix:
    return Dense(gram._array.astype(np.float64, copy=False))


@dataclass(frozen=True)
class Ordered:
    """A gram with its cells in order.

    `position` holds the place of every cell; ``None`` keeps the order of the cells.
    """

    gram: QueryMatrix
    position: NDArray[np.int64] | None = None

    def levels(self, p: int) -> list[BlockLevel]:
        """Return the levels for p extra queries, coarsest first, the cells last."""
        finest = BlockLevel.of(self.gram)
        n = finest.diagonal.size
        starts = np.arange(n)
        levels = [finest]
        while starts.size // 2 >= max(FEWEST_BLOCKS, 2 * p):
            starts = starts[::2]
            counts = np.diff(np.append(starts, n))
            diagonal = _block_sums(finest.diagonal, starts)
            gram = block_gram(self.gram, starts)
            levels.append(BlockLevel(gram, diagonal, counts))
        return levels[::-1]


def refined(columns: Floats, coarse: BlockLevel, fine: BlockLevel) -> Floats:
    """Return weights of blocks as weights of the finer blocks that they consist of."""
    behind = np.searchsorted(
        np.cumsum(coarse.counts), np.cumsum(fine.counts), side="left"
    )
    return columns[behind]


@singledispatch
def find_order(gram: QueryMatrix) -> Ordered | None:
    """Return the gram in an order that neighbours suit, or None if none is known.

    Ranges have an order by type.
    """
    return Ordered(_separable(gram) or gram) if asks_in_order(gram) else None


@find_order.register(MergedGram)
def _(gram: MergedGram) -> Ordered | None:
    inner = find_order(gram.inner) if gram.operator.reorders else None
    if inner is None:
        return None
    position = gram.operator._groups
    return Ordered(
        inner.gram, position if inner.position is None else inner.position[position]
    )


@singledispatch
def asks_in_order(gram: QueryMatrix) -> bool:
    """Whether the gram is made up of ranges of cells in order, or a smooth filter."""
    return asks_ranges(gram)


asks_in_order.register(SeparableGram, lambda gram: True)
asks_in_order.register(Scaled, lambda gram: asks_in_order(gram.operator))


@asks_in_order.register(Sum)
def _(gram: Sum) -> bool:
    plain = (Identity, Diagonal, Ones)
    ranges = [term for term in gram.terms if not isinstance(term, plain)]
    return bool(ranges) and all(asks_in_order(term) for term in ranges)


@asks_in_order.register(Gram)
def _(gram: Gram) -> bool:
    return asks_ranges(gram.operator)


@singledispatch
def _separable(gram: QueryMatrix) -> SeparableGram | None:
    """Return the gram of prefixes, suffixes or all ranges by its two vectors."""
    return None


_separable.register(SeparableGram, lambda gram: gram)


@_separable.register(Scaled)
def _(gram: Scaled) -> SeparableGram | None:
    inner, c = _separable(gram.operator), float(gram.weight)
    return inner and SeparableGram(
        c * inner._rising, inner._falling, c * inner._diagonal
    )


@_separable.register(Gram)
def _(gram: Gram) -> SeparableGram | None:
    terms = separable_terms(gram.operator) or ()
    return SeparableGram(*terms[0]) if len(terms) == 1 else None


@singledispatch
def block_gram(gram: QueryMatrix, starts: NDArray[np.int64]) -> QueryMatrix:
    """Return P V Pᵀ (k, k), the sums of a gram (n, n) over blocks of neighbours."""
    n, k = gram.shape[0], len(starts)
    labels = np.repeat(np.arange(k), np.diff(np.append(starts, n)))
    blocks = PartitionStack(labels[None], [k])
    if k > EXPLICIT_BLOCKS:
        return Product(blocks, gram, blocks.T)
    entries = np.empty((k, k))
    for first in range(0, k, CHUNK):
        chosen = np.arange(first, min(first + CHUNK, k))
        indicators = (labels[:, None] == chosen).astype(np.float64)
        entries[:, chosen] = _block_sums(gram._matmat(indicators), starts)
    return Dense(entries)


def _block_sums(rows: Array, starts: NDArray[np.int64]) -> Floats:
    return np.add.reduceat(rows, starts, axis=0, dtype=np.float64)


@block_gram.register(SeparableGram)
def _separable_blocks(gram: SeparableGram, starts: NDArray[np.int64]) -> SeparableGram:
    """Sum over blocks; within a block, V_ij counts twice for every i < j.

    The running sums are exact for whole numbers, as the falling vectors of ranges.
    """
    counts = np.diff(np.append(starts, gram._falling.size))
    running = np.cumsum(gram._falling)
    ends = np.repeat(running[starts + counts - 1], counts)
    pairs = _block_sums(gram._rising * (ends - running), starts)
    vectors = gram._rising, gram._falling, gram._diagonal
    rising, falling, diagonal = (_block_sums(vector, starts) for vector in vectors)
    return SeparableGram(rising, falling, diagonal + 2.0 * pairs)


# ---- where descents start ----------------------------------------------------

SUPPORT = 4.0
"""Sum of the weights of a cell in the random starts, on the scale of a uniform one."""

LADDERS = ((4, 2.5), (2, 3.0), (4, 2.0), (3, 3.0), (2, 7.0), (3, 2.0), (1, 1.0))
"""Levels of the multi-scale starts, and the ratio of their numbers of queries."""

LADDER_WEIGHT = 1.0
"""Sum of the weights of a cell in the multi-scale starts."""

NOISE = 0.005
"""Noise of the multi-scale starts, which breaks their symmetries."""


def random_starts(
    n: int, p: int, rng: np.random.Generator, n_starts: int
) -> Iterator[Floats]:
    """Yield starts Θᵀ: blocks of neighbours, uniform weights, walks, uniform ...

    Blocks and walks suit ordered domains, uniform weights any domain. No start is
    close to zero: theta = 0, the identity, is a strict local minimum of every
    workload.
    """
    spread = min(1.0, SUPPORT / p)
    for index in range(n_starts):
        if index == 0:
            block = (np.arange(n) * p) // n
            member = (block[:, None] == np.arange(p)).astype(np.float64)
            yield member + 0.1 * rng.random((n, p))
        elif index % 3 == 2:
            walk = np.cumsum(rng.standard_normal((n, p)), axis=0)
            yield spread * np.maximum(0.0, 2.0 * walk / np.sqrt(n))
        else:
            yield spread * rng.random((n, p))


def ordered_starts(
    n: int, p: int, rng: np.random.Generator, n_starts: int
) -> Iterator[Floats]:
    """Yield starts Θᵀ for cells in order: overlapping tents on several scales.

    Optimal extra queries for ranges are weighted sums of neighbours whose weights
    rise and fall linearly, on one to four scales. Every scale covers the domain; the
    starts differ in the number of scales and of queries on each. After those come
    the random starts.
    """
    for index in range(min(n_starts, len(LADDERS))):
        sizes = _ladder(p, *LADDERS[index])
        cells = (np.arange(n) + 0.5) / n
        tents = [
            np.maximum(0.0, 1.0 - np.abs(cells[:, None] * k - np.arange(k) - 0.5))
            for k in sizes
        ]
        columns = np.concatenate(tents, axis=1) * (LADDER_WEIGHT / len(sizes))
        columns += NOISE * rng.random((n, p)) * (columns > 0)
        yield columns + 0.1 * NOISE * rng.random((n, p))
    yield from random_starts(n, p, rng, n_starts - len(LADDERS))


def _ladder(p: int, n_levels: int, ratio: float) -> list[int]:
    """Return numbers of queries that fall by about `ratio` and sum to p."""
    n_levels = min(n_levels, p)
    shares = ratio ** -np.arange(float(n_levels))
    sizes = np.maximum(1, np.rint(p * shares / shares.sum())).astype(int)
    sizes[0] += p - sizes.sum()
    return [int(size) for size in sizes if size > 0]
