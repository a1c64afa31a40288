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

from mmech.tables.counts import Counts, settle, toward
from mmech.tables.levels import Chain, LevelEstimate, LevelNoise
from mmech.tables.model import draw_codes
from mmech.tables.rounding import nearest_with_sums

__all__ = ["LevelCounts", "divide", "settle_levels"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Subset = tuple[int, ...]

FIT_SWEEPS = 25
"""Sweeps that bring a table near its margins before it becomes whole."""

LEAST = 1e-6
"""Records that every cell has at least before its margins are fitted."""


@dataclass(frozen=True, eq=False)
class LevelCounts(Counts):
    """Whole tables by the levels of a hierarchy, and what records are drawn from.

    Attributes
    ----------
    chain : Chain
    family : tuple of int
        Other attributes that nodes are drawn by.
    nodes : list of ndarray of int64
        Tables of all levels but the topmost by them, nodes first.
    """

    chain: Chain
    family: Subset
    nodes: Sequence[Integers]

    def records(self, n: int, rng: Any) -> Integers:
        """Return records that are drawn from the model, then node by node."""
        codes = draw_codes(self.model, n, rng)
        rng = np.random.default_rng(0) if rng is None else rng
        cells = tuple(codes[:, i] for i in self.family)
        column = np.zeros(n, np.int64)
        if cells:
            column = np.ravel_multi_index(cells, self.nodes[0].shape[1:])
        above = codes[:, self.chain.axes[0]]
        for level, table in enumerate(self.nodes, 2):
            first, size = self.chain.first[level - 1], len(table)
            sums = np.cumsum(table.reshape(size, -1).T.ravel() + LEAST)
            sums = np.insert(sums, 0, 0.0)
            start = column * size + first[above]
            stop = column * size + np.append(first[1:], size)[above]
            drawn = sums[start] + (sums[stop] - sums[start]) * rng.random(n)
            found = np.searchsorted(sums, drawn, side="right") - 1
            above = np.clip(found, start, stop - 1) - column * size
            codes = np.column_stack([codes, above])
        return codes


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
    chain, sizes, top = noise.chain, noise.domain_shape, noise.chain.axes[0]
    families = chain.families(subsets)
    flat = [subset for subset in subsets if chain.place(subset)[0] < 2]
    flat += [tuple(sorted((top, *family))) for family in ((), *families)]
    known: Any = estimate
    others = sizes[: len(sizes) - len(chain.axes) + 1]  # lower levels come last
    counts = settle(known, noise, list(dict.fromkeys(flat)), say, others)
    tables = dict(counts.tables)
    nodes, whole = tables[(top,)], {}
    for family in families:
        own = tuple(sorted((top, *family)))
        table = np.moveaxis(tables[own], own.index(top), 0)
        whole[family] = table.reshape(len(nodes), -1)
    largest = max(families, key=lambda family: whole[family].shape[1])
    drawn_by = []
    for level, axis in enumerate(chain.axes[1:], 2):
        say(f"dividing the counts of {len(nodes)} nodes among {chain.size(level)}")
        known = _Level(estimate, noise, level)
        first, above = chain.first[level - 1], nodes
        even = chain.down(level, above / np.diff(first, append=chain.size(level)))
        drawn = toward({(): even[:, None]}, known, known)[()][:, 0]
        parts = zip(np.split(drawn, first[1:]), above.astype(float), strict=True)
        drawn = np.concatenate([nearest_with_sums(*part) for part in parts])
        nodes = divide(drawn[:, None], chain, level, above[:, None])[:, 0]
        shares = {
            own: table / _positive(above)[:, None] for own, table in whole.items()
        }
        expected = {
            own: nodes[:, None] * chain.down(level, share)
            for own, share in shares.items()
        }
        for own, drawn in toward(expected, known, known).items():
            fitted = _fitted(drawn, chain, level, whole[own], nodes)
            whole[own] = divide(fitted, chain, level, whole[own], nodes)
        tables |= {
            (*own, axis): np.moveaxis(
                table.reshape(-1, *(sizes[i] for i in own)), 0, -1
            )
            for own, table in whole.items()
        }
        shape = [sizes[i] for i in largest]
        drawn_by.append(whole[largest].reshape(-1, *shape))
    for subset in subsets:
        if chain.place(subset)[0] > 1:
            own = next(t for t in tables if {*subset} <= {*t})
            out = tuple(a for a, i in enumerate(own) if i not in subset)
            tables[subset] = tables[own].sum(axis=out)
    kept = {subset: tables[subset] for subset in subsets}
    return LevelCounts(
        counts.total, kept, counts.model, "levels", chain, largest, drawn_by
    )


def _positive(values: NDArray[Any]) -> NDArray[Any]:
    return np.where(values > 0, values, 1)


def _fitted(
    table: Floats, chain: Chain, level: int, sums: Integers, rows: Integers
) -> Floats:
    """Return a table near another, by sweeps towards sums over children and of rows."""
    table = np.maximum(table, 0.0) + LEAST
    for _ in range(FIT_SWEEPS):
        table *= (rows / _positive(table.sum(axis=1)))[:, None]
        table *= chain.down(level, sums / _positive(chain.up(level, table)))
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
    parents, first = chain.parents[level - 1], chain.first[level - 1]
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
        for node in np.flatnonzero(chain.up(level, np.abs(apart))).tolist():
            own = np.flatnonzero(parents == node)
            while apart[own].any():
                more, less = own[apart[own].argmax()], own[apart[own].argmin()]
                gain = whole[more] - fitted[more] - (whole[less] - fitted[less])
                j = int(np.where(whole[more] > 0, gain, -np.inf).argmax())
                for row, step in ((more, -1), (less, 1)):
                    whole[row, j] += step
                    apart[row] += step
    return whole
