"""Whole counts by the levels of a hierarchy, which add up from level to level.

Tables of the topmost level and of no level are settled as tables of any attributes
are. Then, level by level, the counts of every node are divided among its children:

1. the records of a node by what was estimated for its children;
2. for every set of other attributes that tables have in common, a table of the
   children by them is drawn towards what their counts and the table of the node above
   them make expected, as `mmech.tables.counts` does it;
3. its margins become whole: those of children and of the node above them, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.operators.base import product_of
from mmech.tables.counts import Counts, settle, toward
from mmech.tables.levels import Chain, LevelEstimate, LevelNoise, families_of
from mmech.tables.model import draw_codes

__all__ = ["LevelCounts", "divide", "settle_levels"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Subset = tuple[int, ...]

FIT_SWEEPS = 25
"""Sweeps that bring a table near its margins before it becomes whole."""

LEAST = 1e-6
"""Records that every cell has at least before its margins are fitted."""

TOLERANCE = 1e-3
"""Largest error of a row at which sweeps end."""


@dataclass(frozen=True, eq=False)
class LevelCounts(Counts):
    """Whole tables by the levels of a hierarchy, and what records are drawn from.

    Attributes
    ----------
    chain : Chain
    places : tuple of int
        What the attributes of the model are, among all that tables are made of.
    family : tuple of int
        Other attributes that nodes are drawn by.
    nodes : list of ndarray of int64, shape (nodes, cells)
        Their tables at all levels but the topmost.
    """

    chain: Chain
    places: Subset
    family: Subset
    nodes: Sequence[Integers]

    def records(self, n: int, rng: Any) -> Integers:
        """Return records that are drawn from the model, then node by node."""
        codes = np.zeros((n, len(self.places) + len(self.nodes)), np.int64)
        codes[:, self.places] = draw_codes(self.model, n, rng)
        rng = np.random.default_rng(0) if rng is None else rng
        sizes = {
            i: size
            for i, size in zip(self.places, self.model.domain_shape, strict=True)
        }
        column = np.zeros(n, np.int64)
        for i in self.family:
            column = column * sizes[i] + codes[:, i]
        for level, table in enumerate(self.nodes, 2):
            first = self.chain.first(level)
            ends = np.append(first[1:], len(table))
            above = codes[:, self.chain.axes[level - 2]]
            sums = np.append(0.0, np.cumsum(table.T.ravel() + LEAST))
            start, stop = (column * len(table) + at[above] for at in (first, ends))
            drawn = sums[start] + (sums[stop] - sums[start]) * rng.random(n)
            found = np.searchsorted(sums, drawn, side="right") - 1
            found = np.clip(found, start, stop - 1) - column * len(table)
            codes[:, self.chain.axes[level - 1]] = found
        return codes


@dataclass(frozen=True)
class _Part:
    """What is known of the topmost level and of other attributes, by their places."""

    estimate: LevelEstimate
    noise: LevelNoise
    places: Subset

    @property
    def domain_shape(self) -> tuple[int, ...]:
        return tuple(self.noise.domain_shape[i] for i in self.places)

    def _own(self, subset: Sequence[int]) -> Subset:
        return tuple(self.places[i] for i in subset)

    def marginal(self, subset: Sequence[int]) -> Floats:
        return self.estimate.marginal(self._own(subset))

    def measures(self, subset: Subset) -> bool:
        return self.noise.measures(self._own(subset))

    def spread(self, subset: Subset) -> float:
        return self.noise.spread(self._own(subset))

    def contrast_variance(self, subset: Subset) -> float:
        return self.noise.contrast_variance(self._own(subset))


@dataclass(frozen=True)
class _Level:
    """What is known of the nodes of a level by sets of other attributes."""

    estimate: LevelEstimate
    noise: LevelNoise
    level: int

    def marginal(self, family: Subset) -> Floats:
        return self.estimate.at_level(self.level, family)

    def spread(self, family: Subset) -> Floats:
        return self.noise.variances(self.level, family)[:, None]


def settle_levels(
    estimate: LevelEstimate,
    noise: LevelNoise,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
) -> LevelCounts:
    """Return whole, non-negative tables that add up from level to level.

    Parameters
    ----------
    estimate : LevelEstimate
        Unbiased.
    noise : LevelNoise
        Law of its errors.
    subsets : sequence of tuple of int
        The tables.
    say : callable
        Told what happens, for people who wait.
    """
    chain, top = noise.chain, noise.chain.axes[0]
    places = tuple(i for i in range(len(noise.domain_shape)) if i not in chain.axes[1:])
    families = families_of(chain, subsets)
    flat = [subset for subset in subsets if chain.place(subset)[0] < 2]
    flat += [tuple(sorted((top, *family))) for family in ((), *families)]
    part: Any = _Part(estimate, noise, places)
    mapped = [tuple(map(places.index, subset)) for subset in dict.fromkeys(flat)]
    counts = settle(part, part, mapped, say)
    tables = {
        tuple(places[i] for i in subset): table
        for subset, table in counts.tables.items()
    }
    nodes = tables[(top,)]
    whole = {
        family: np.moveaxis(
            tables[tuple(sorted((top, *family)))],
            sorted((top, *family)).index(top),
            0,
        ).reshape(len(nodes), -1)
        for family in families
    }
    family = max(families, key=lambda f: product_of(noise.domain_shape[i] for i in f))
    drawn_by = []
    wanted = set(subsets)
    for level in range(2, len(chain.axes) + 1):
        say(f"dividing the counts of {len(nodes)} nodes among {chain.size(level)}")
        known: Any = _Level(estimate, noise, level)
        children = chain.up(level, np.ones(chain.size(level)))
        even = chain.down(level, nodes / children)[:, None]
        fitted = toward({(): even}, known, known)[()]
        fitted = _nearest(fitted, chain, level, nodes[:, None])
        below = divide(fitted, chain, level, nodes[:, None])[:, 0]
        expected = {
            own: below[:, None] * chain.down(level, table / _positive(nodes)[:, None])
            for own, table in whole.items()
        }
        for own, drawn in toward(expected, known, known).items():
            fitted = _nearest(drawn, chain, level, whole[own])
            fitted = _fitted(fitted, chain, level, whole[own], below)
            whole[own] = divide(fitted, chain, level, whole[own], below)
        nodes = below
        drawn_by.append(whole[family])
        axis = chain.axes[level - 1]
        for subset in wanted:
            k, others = chain.place(subset)
            if k != level:
                continue
            own = next(f for f in families if set(others) <= set(f))
            sizes = [noise.domain_shape[i] for i in own]
            out = tuple(a for a, i in enumerate(own, 1) if i not in others)
            table = whole[own].reshape(-1, *sizes).sum(axis=out)
            tables[subset] = np.moveaxis(table, 0, subset.index(axis))
    tables = {subset: tables[subset] for subset in subsets}
    return LevelCounts(
        counts.total, tables, counts.model, "levels", chain, places, family, drawn_by
    )


def _positive(values: NDArray[Any]) -> NDArray[Any]:
    return np.where(values > 0, values, 1)


def _nearest(values: Floats, chain: Chain, level: int, sums: Integers) -> Floats:
    """Return the nearest numbers of at least zero whose sums over children are given.

    Parameters
    ----------
    values : ndarray, shape (nodes, columns)
    chain : Chain
    level : int
    sums : ndarray, shape (nodes above, columns)
    """
    parents, first = chain.parents[level - 1], chain.first(level)
    order = np.argsort(-values, axis=0, kind="stable")
    order = np.take_along_axis(
        order, np.argsort(parents[order], axis=0, kind="stable"), axis=0
    )
    falling = np.take_along_axis(values, order, axis=0)
    added = np.cumsum(falling, axis=0)
    before = added[first] - falling[first]
    rank = np.arange(len(values)) - first[parents] + 1
    means = (added - before[parents] - sums[parents]) / rank[:, None]
    last = np.maximum(chain.up(level, (falling > means).astype(np.int64)), 1)
    thresholds = np.take_along_axis(means, first[:, None] + last - 1, axis=0)
    return np.asarray(np.maximum(values - thresholds[parents], 0.0))


def _fitted(
    table: Floats, chain: Chain, level: int, sums: Integers, rows: Integers
) -> Floats:
    """Return a table near another, by sweeps towards sums over children and of rows."""
    table = table + LEAST
    for _ in range(FIT_SWEEPS):
        table *= (rows / _positive(table.sum(axis=1)))[:, None]
        table *= chain.down(level, sums / _positive(chain.up(level, table)))
        if np.abs(table.sum(axis=1) - rows).max() < TOLERANCE:
            break
    return table


def divide(
    fitted: Floats,
    chain: Chain,
    level: int,
    sums: Integers,
    rows: Integers | None = None,
) -> Integers:
    """Return whole counts near fractional ones, with exact sums over children.

    Column by column, by largest remainders; what rounding left over in a row is added
    to its next column. Units then move within columns until rows are exact.

    Parameters
    ----------
    fitted : ndarray, shape (nodes, columns)
        At least zero.
    chain : Chain
    level : int
        Of the nodes.
    sums : ndarray of int64, shape (nodes above, columns)
    rows : ndarray of int64, shape (nodes,), optional
        Sums of rows, which add up to those of `sums`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.level_counts import divide
    >>> from mmech.tables.levels import Chain
    >>> chain = Chain((0,), (np.array([0, 0, 0]),))
    >>> fitted = np.array([[0.6, 1.4], [1.2, 0.8], [0.2, 1.8]])
    >>> divide(fitted, chain, 1, np.array([[2, 4]]), np.array([2, 2, 2]))
    array([[1, 1],
           [1, 1],
           [0, 2]])
    """
    parents, first = chain.parents[level - 1], chain.first(level)
    place = np.arange(len(fitted)) - first[parents]
    whole = np.zeros(fitted.shape, np.int64)
    carried = np.zeros(len(fitted))
    for j in range(fitted.shape[1]):
        aim = fitted[:, j] + carried
        own = np.maximum(np.floor(aim), 0).astype(np.int64)
        left = sums[:, j] - chain.up(level, own)
        while left.any():
            step = np.sign(left)[parents]
            free = (step > 0) | ((step < 0) & (own > 0))
            order = np.lexsort((np.where(free, step * (own - aim), np.inf), parents))
            rank = np.empty(len(own), np.int64)
            rank[order] = place
            own += step * (free & (rank < np.abs(left)[parents]))
            left = sums[:, j] - chain.up(level, own)
        whole[:, j], carried = own, aim - own
    if rows is not None:
        apart = whole.sum(axis=1) - rows
        for parent in np.flatnonzero(chain.up(level, np.abs(apart))).tolist():
            own_rows = np.flatnonzero(parents == parent)
            _move(whole, fitted, apart, own_rows)
    return whole


def _move(whole: Integers, fitted: Floats, apart: Integers, rows: Integers) -> None:
    """Move units within columns, from rows with too many to those with too few."""
    while apart[rows].any():
        giver, taker = rows[apart[rows].argmax()], rows[apart[rows].argmin()]
        gain = whole[giver] - fitted[giver] - (whole[taker] - fitted[taker])
        j = int(np.where(whole[giver] > 0, gain, -np.inf).argmax())
        whole[giver, j] -= 1
        whole[taker, j] += 1
        apart[giver] -= 1
        apart[taker] += 1
