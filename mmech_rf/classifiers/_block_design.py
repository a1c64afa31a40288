"""Which attributes a block looks at together, where a share of epsilon pays for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import (
    DomainTooLargeError,
    Marginals,
    StrategyResult,
)
from mmech._validation import magnitude
from mmech.operators._base import product_of
from mmech.reconstruction._maximum_entropy import MAX_ENTRIES
from mmech.strategies._designs import split_block
from mmech_rf.schema import Schema

__all__ = [
    "BLOCK",
    "DESIGNS",
    "block_pool",
    "block_scores",
    "check_linked",
    "draw_blocks",
    "overlap",
]

Codes = NDArray[np.int64]
Subset = tuple[int, ...]
Draw = Callable[[Sequence[int], Fraction, str], int]
Find = Callable[..., StrategyResult]

DESIGNS = ("disjoint", "covering", "chosen")

DRAWING_SHARE = Fraction(1, 10)
"""Share of epsilon that draws blocks."""

FLOOR = 0.5
"""Of its equal share every drawn block keeps this part."""

MOST_CANDIDATES = 10_000
"""Blocks are shorter where there would be more sets of attributes to draw from."""

LARGEST_EXPONENT = 2**24
"""Records times epsilon of a draw, at most; more makes no difference."""

BLOCK = "attributes of block"
"""How the words for a drawn block begin."""


def block_pool(
    design: str,
    codes: Codes,
    class_codes: Codes,
    *,
    schema: Schema,
    epsilon: Fraction,
    n_records: float,
    find: Find,
    draw: Draw,
) -> tuple[dict[str, Any], Fraction]:
    """Return the candidates among which blocks are chosen, and what they cost.

    Parameters
    ----------
    design : {"disjoint", "covering", "chosen"}
        How blocks are found. Only chosen ones look at records.
    codes, class_codes : ndarray of int64, shapes (N, d) and (N,)
        Records. Sensitive.
    schema : Schema
        Public attributes and classes.
    epsilon : Fraction
        Budget of the draws and of the measurement.
    n_records : float
        Public number of records, roughly.
    find : callable
        `bayes_risk_strategy` of these attributes, for an epsilon and candidates.
    draw : callable
        Draws from scores at an epsilon, with words for the ledger.

    Returns
    -------
    settings : dict
        Arguments for `find`.
    spent : Fraction
        What the draws cost.
    """
    if design != "chosen":
        return {"pool": design}, Fraction(0)
    budget = epsilon * DRAWING_SHARE
    public = find(epsilon=epsilon - budget, pool="disjoint").strategy
    assert isinstance(public, Marginals)
    blocks, spent = draw_blocks(
        codes,
        class_codes,
        domain_shape=schema.domain_shape,
        n_classes=schema.n_classes,
        partition=list(public.weights),
        epsilon=budget,
        n_records=n_records,
        draw=draw,
    )
    return {"pool": [blocks], "floor": FLOOR}, spent


def check_linked(schema: Schema) -> None:
    """Raise where a distribution of maximum entropy would be too large to list."""
    entries = product_of(schema.domain_shape) * schema.n_classes
    if entries > MAX_ENTRIES:
        raise DomainTooLargeError(
            f"blocks that overlap link all attributes, and a distribution over "
            f"{magnitude(entries)} cells and classes is too large (at most "
            f"{MAX_ENTRIES:,}); use another voting, or design='disjoint'"
        )


def overlap(blocks: Sequence[Subset]) -> bool:
    """Whether blocks share attributes."""
    return len({i for block in blocks for i in block}) < sum(map(len, blocks))


def draw_blocks(
    codes: Codes,
    class_codes: Codes,
    *,
    domain_shape: tuple[int, ...],
    n_classes: int,
    partition: Iterable[Subset],
    epsilon: Fraction,
    n_records: float,
    draw: Draw,
) -> tuple[list[Subset], Fraction]:
    """Draw a partition of the attributes, block by block, for what blocks tell.

    A block scores the records that the most frequent classes of its cells get right,
    less those that its best attribute gets right alone. A record changes both numbers
    by nothing or by one, in the same direction, so their difference by at most one.

    Parameters
    ----------
    codes, class_codes : ndarray of int64, shapes (N, d) and (N,)
        Records. Sensitive.
    domain_shape : tuple of int
        Sizes of the attributes.
    n_classes : int
        Number of classes.
    partition : iterable of tuple of int
        Public partition of the attributes, whose lengths are kept; no block gets more
        cells than its largest.
    epsilon : Fraction
        Budget of all draws.
    n_records : float
        Public number of records, roughly.
    draw : callable
        Draws from scores at an epsilon, with words for the ledger.

    Returns
    -------
    blocks : list of tuple of int
        Disjoint, of all attributes.
    spent : Fraction
        What the draws cost: epsilon, or less where nothing is left to choose.

    Notes
    -----
    Proof: ``notebooks/proofs/drawn_blocks.md``.
    """
    public = list(partition)
    cap = max(product_of(domain_shape[i] for i in block) for block in public)
    lengths = _lengths([len(block) for block in public], len(domain_shape))
    # The last block takes what is left; single attributes need no choice either.
    n_draws = sum(length > 1 for length in lengths[:-1])
    price = epsilon / max(n_draws, 1)
    price = min(price, Fraction(LARGEST_EXPONENT) / math.ceil(n_records))
    scores: dict[Subset, int] = {}
    for length in sorted(set(lengths[:n_draws])):
        scores |= block_scores(codes, class_codes, domain_shape, n_classes, length, cap)
    left = list(range(len(domain_shape)))
    blocks: list[Subset] = []
    spent = Fraction(0)
    for number, length in enumerate(lengths[:n_draws]):
        inside = set(left)
        within = [s for s in scores if len(s) == length and inside.issuperset(s)]
        if not within:
            break
        words = f"{BLOCK} {number + 1}"
        block = within[draw([scores[s] for s in within], price, words)]
        spent += price
        blocks.append(block)
        left = [i for i in left if i not in block]
    for length in lengths[len(blocks) :]:
        blocks += split_block(tuple(left[:length]), domain_shape, cap)
        left = left[length:]
    return blocks, spent


def _lengths(public: list[int], d: int) -> list[int]:
    """Return lengths of blocks, longest first, with few enough sets of each."""
    longest = max(public)
    while longest > 1 and math.comb(d, longest) > MOST_CANDIDATES:
        longest -= 1
    if longest == max(public):
        return sorted(public, reverse=True)
    return [longest] * (d // longest) + [d % longest] * (d % longest > 0)


def block_scores(
    codes: Codes,
    class_codes: Codes,
    domain_shape: tuple[int, ...],
    n_classes: int,
    length: int,
    max_cells: int,
) -> dict[Subset, int]:
    """Return the score of every set of `length` attributes under a cap on cells.

    Sensitive; one record changes every score by at most one.
    """

    def right(cells: Codes, size: int) -> int:
        table = np.bincount(
            cells * n_classes + class_codes, minlength=size * n_classes
        ).reshape(size, n_classes)
        return int(table.max(axis=1).sum())

    alone = [right(codes[:, i], size) for i, size in enumerate(domain_shape)]

    def grow(block: Subset, cells: Codes, size: int) -> Iterator[tuple[Subset, int]]:
        if len(block) == length:
            yield block, right(cells, size) - max(alone[i] for i in block)
            return
        for i in range(block[-1] + 1 if block else 0, len(domain_shape)):
            if size * domain_shape[i] <= max_cells:
                longer = cells * domain_shape[i] + codes[:, i]
                yield from grow((*block, i), longer, size * domain_shape[i])

    return dict(grow((), np.zeros(codes.shape[0], np.int64), 1))
