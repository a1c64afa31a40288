"""What a workload asks of blocks of neighbours, of two levels, and of waves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, singledispatch
from typing import Any, NamedTuple, Protocol

import numpy as np

from mmech.arrays import Floats
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.compose import Merged, Product, VStack
from mmech.operators.known import normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.pinv import are_apart, joint_inverse_gram

Separable = tuple[Floats, Floats, Floats]
"""Vectors (a, b, d) of a gram with the entries a_i b_j for i < j, and d_i for i = j."""

Overlaps = Callable[[int, int, int], int]
"""(first cell, size, count) -> Σ ‖W 1_b‖² over blocks b, in exact integers."""

ALIKE = 12
"""Digits to which ratios of precisions are equal, but for rounding."""


class BlockEnergies(Protocol):
    """‖W 1_b‖² of blocks b of neighbours, for a workload W."""

    def of_blocks(self, first: int, size: int, count: int, /) -> float:
        """Return Σ ‖W 1_b‖² over blocks b of `size` cells that follow each other."""

    def of_segments(self, edges: Sequence[int], /) -> Floats:
        """Return 1_aᵀ WᵀW 1_b (k, k) for segments between k + 1 edges, in order."""


@dataclass(frozen=True, eq=False)
class _RangeEnergies:
    """Sums of exact integers in O(1) a run of blocks, with squared weights."""

    terms: list[tuple[float, Overlaps]]

    def of_blocks(self, first: int, size: int, count: int, /) -> float:
        return sum(square * energy(first, size, count) for square, energy in self.terms)

    def of_segments(self, edges: Sequence[int], /) -> Floats:
        grams = [square * _segment_gram(energy, edges) for square, energy in self.terms]
        return np.sum(grams, axis=0)


def _segment_gram(energy: Overlaps, edges: Sequence[int]) -> Floats:
    """Take 1_aᵀV1_b from energies of runs of segments, by inclusion and exclusion."""
    k = len(edges) - 1
    out = np.zeros((k, k))

    def run(a: int, b: int) -> int:
        return energy(edges[a], edges[b] - edges[a], 1) if a < b else 0

    for a in range(k):
        out[a, a] = run(a, a + 1)
        for b in range(a + 1, k):
            twice = run(a, b + 1) - run(a, b) - run(a + 1, b + 1) + run(a + 1, b)
            out[a, b] = out[b, a] = twice // 2
    return out


@dataclass(frozen=True, eq=False)
class _GramEnergies:
    """Energies of any workload, whose gram is made when they are asked for."""

    workload: QueryMatrix

    @cached_property
    def sums(self) -> Floats:
        """Sums of first columns of the gram, shape (n, n + 1)."""
        gram = self.workload.gram()._dense().astype(np.float64)
        return np.pad(np.cumsum(gram, axis=1), ((0, 0), (1, 0)))

    def of_blocks(self, first: int, size: int, count: int, /) -> float:
        cells = np.arange(size * count)
        start = first + cells // size * size
        cells += first
        return float((self.sums[cells, start + size] - self.sums[cells, start]).sum())

    def of_segments(self, edges: Sequence[int], /) -> Floats:
        rows = np.diff(self.sums[edges[0] : edges[-1], edges], axis=1)
        starts = np.subtract(edges[:-1], edges[0])
        return np.asarray(np.add.reduceat(rows, starts, axis=0))


def block_energies(workload: QueryMatrix) -> BlockEnergies | None:
    """Return the energies of blocks of neighbours, ``None`` for what is out of reach.

    Within reach are ranges, prefixes and suffixes of any size, their unions, and
    other workloads of up to 4096 cells.
    """
    terms = normal_form(workload).ask(overlaps)
    if terms is not None:
        return _RangeEnergies([(weight**2, energy) for weight, energy in terms])
    if workload.shape[1] > LIMITS.dense_cells:
        return None
    return _GramEnergies(workload)


@singledispatch
def overlaps(workload: QueryMatrix) -> Overlaps | None:
    """Return the sum of squared overlaps of queries and blocks, ``None`` for others."""
    return None


@overlaps.register(Identity)
def _(workload: Identity) -> Overlaps:
    return lambda first, size, count: size * count


@overlaps.register(Ones)
def _(workload: Ones) -> Overlaps:
    return lambda first, size, count: workload.m * size**2 * count


# ---- grams of ranges --------------------------------------------------------------


def separable_terms(workload: QueryMatrix) -> list[Separable] | None:
    """Return vectors (n,) of grams whose sum is the gram of a workload.

    ``None`` where no rule knows these.
    """
    terms = normal_form(workload).ask(separable)
    if terms is None:
        return None
    return [(float(c) ** 2 * a, b, c**2 * diagonal) for c, (a, b, diagonal) in terms]


@singledispatch
def separable(workload: QueryMatrix) -> Separable | None:
    """Return the vectors of the gram of one block, ``None`` for others."""
    return None


@separable.register(Identity)
def _(workload: Identity) -> Separable:
    one = np.ones(workload.n)
    return 0.0 * one, one, one


@separable.register(Ones)
def _(workload: Ones) -> Separable:
    every = np.full(workload.n, float(workload.m))
    return every, np.ones(workload.n), every


@separable.register(Product)
def _(workload: Product) -> Separable | None:
    """Scale the vectors with the columns."""
    if workload._scaled_columns is None:
        return None
    rest, scales = workload._scaled_columns
    known: Separable | None = separable(rest)
    return known and (known[0] * scales, known[1] * scales, known[2] * scales**2)


@singledispatch
def asks_ranges(workload: QueryMatrix) -> bool:
    """Whether queries are ranges of the cells in their order, or a smooth filter."""
    return False


def in_blocks(terms: Sequence[Separable], size: int) -> list[Separable]:
    """Return the vectors of `separable_terms` with a row for every block of cells."""
    return [
        (a.reshape(-1, size), b.reshape(-1, size), diagonal.reshape(-1, size))
        for a, b, diagonal in terms
    ]


def energies_within(blocks: Sequence[Separable], covariance: Floats) -> Floats:
    """Return tr(V_bb M) of every block b for a covariance M (s, s) of its cells."""
    pairs, variances = 2.0 * np.triu(covariance, 1), covariance.diagonal()
    parts = [((a @ pairs) * b).sum(axis=1) + d @ variances for a, b, d in blocks]
    return np.asarray(np.sum(parts, axis=0))


def block_gain(workload: QueryMatrix, strategy: QueryMatrix) -> float | None:
    """Return ‖W A⁺‖_F² for ranges and stacked products of two factors.

    Blocks of neighbours and their cells are the two attributes. Waves of the cells
    whose precisions are alike in all blocks are summed up at once. ``None`` where the
    gram of W is not known to be separable.
    """
    terms = separable_terms(workload)
    inverse = None if terms is None else joint_inverse_gram(strategy)
    if terms is None or inverse is None or len(inverse.transforms) != 2:
        return None
    outer, inner = inverse.transforms
    blocks, spectrum = in_blocks(terms, len(inner)), inverse.spectrum
    ratios = np.round(spectrum[0] / spectrum, ALIKE)
    kinds, places = np.unique(ratios, axis=1, return_inverse=True)
    total = 0.0
    for kind, weights in enumerate(kinds.T):
        alike = places.ravel() == kind
        waves = inner[:, alike] / np.sqrt(spectrum[0, alike])
        between = (outer * weights) @ outer.T
        pairs = sum(np.triu((a @ waves) @ (b @ waves).T, 1) for a, b, _ in blocks)
        within = energies_within(blocks, waves @ waves.T)
        total += float(2.0 * (between * pairs).sum() + between.diagonal() @ within)
    return total


# ---- one query, moved from cell to cell ---------------------------------------------


class Moved(NamedTuple):
    """What is known of one query that is moved along all cells.

    It reaches over some neighbours. The same queries exist over other numbers of cells.
    They are cut off at the first cells, or at the last, or go on at the other end.
    """

    reach: int
    over: Callable[[int], QueryMatrix]
    cut_last: bool = False
    is_circular: bool = False

    def around(self, size: int) -> int:
        """Return how many blocks of a size a query may touch beside its first."""
        return -(-self.reach // size)


@singledispatch
def moved(workload: QueryMatrix) -> Moved | None:
    """Return the query that is moved from cell to cell, ``None`` for other queries."""
    return None


moved.register(Identity, lambda workload: Moved(1, Identity))


def moved_or_total(block: QueryMatrix) -> Moved | None:
    """Return the query that is moved, or totals as if they were: over any cells."""
    total = Moved(1, partial(Ones, block.shape[0]))
    return total if isinstance(block, Ones) else moved(block)


def repeats(workload: QueryMatrix) -> bool:
    """Whether a workload is a union of queries that are moved from cell to cell."""
    return normal_form(workload).ask(moved) is not None


# ---- waves -------------------------------------------------------------------


@singledispatch
def waves_of(workload: QueryMatrix) -> str | None:
    """Return which waves suit the gram of queries, ``None`` for none.

    Those of a tau algebra, by its free end, or those of a circle; "any" of them for
    cells and totals.
    """
    return None


waves_of.register(Identity | Ones, lambda workload: "any")


@singledispatch
def energies(workload: QueryMatrix, angles: Floats) -> Floats:
    """Return the eigenvalues of the gram for waves of angles, or about these."""
    raise TypeError(f"the gram of {workload!r} has no waves")


energies.register(Identity, lambda workload, angles: np.ones(angles.size))


@energies.register(Ones)
def _(workload: Ones, angles: Floats) -> Floats:
    return np.where(angles == angles.min(), float(workload.m) * workload.n, 0.0)


@singledispatch
def strategies_of(workload: QueryMatrix) -> Iterator[QueryMatrix] | None:
    """Return strategies that a class makes of waves itself, ``None`` without a rule."""
    return None


# ---- one strategy for every block ----------------------------------------------------


def in_equal_blocks(
    count: int, part: QueryMatrix, last: QueryMatrix | None
) -> QueryMatrix:
    """Return one strategy for blocks of neighbours, and another for the cells behind.

    Parameters
    ----------
    count : int
        Number of blocks.
    part, last : QueryMatrix, shapes (k, s) and (k', s')
        The strategies of a block and of the last cells; ``None`` where none are left.
    """
    blocks = Kronecker([Identity(count), part])
    if last is None:
        return blocks
    n = blocks.shape[1]
    cells = np.arange(n + last.shape[1])
    first, behind = np.where(cells < n, cells, -1), np.where(cells < n, -1, cells - n)
    return VStack([Merged(blocks, first), Merged(last, behind)])


def equal_blocks(
    strategy: QueryMatrix,
) -> tuple[int, QueryMatrix, QueryMatrix | None] | None:
    """Return what `in_equal_blocks` was made of, ``None`` for other strategies."""
    blocks: Any = strategy
    last = None
    if isinstance(strategy, VStack) and are_apart(strategy):
        stacked: Any = strategy.blocks
        blocks, last, *more = [block.operator for block in stacked]
        cells = np.arange(blocks.shape[1])
        if more or not np.array_equal(stacked[0].groups[: cells.size], cells):
            return None
    if not isinstance(blocks, Kronecker) or len(blocks.factors) != 2:
        return None
    first, part = blocks.factors
    return (first.n, part, last) if isinstance(first, Identity) else None
