"""Where the descents of p-Identity strategies start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mmech.arrays import Floats

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
