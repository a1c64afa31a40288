"""Whole counts by the levels of a hierarchy, which add up from level to level.

Tables of the topmost level and of no level are settled as tables of any attributes
are. Then, level by level, the counts of every node are divided among its children:

1. the records of a node by what was estimated for its children;
2. sets of other attributes that tables have in common have a table of the children:
   it is drawn towards what follows from their counts and the table of the node above;
3. its margins become whole: those of children and of the node above them, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.tables.counts import Counts, settle, toward
from mmech.tables.field import Field, Solution
from mmech.tables.known import Known
from mmech.tables.levels import Chain
from mmech.tables.model import draw_codes
from mmech.tables.rounding import nearest_with_sums

FIT_SWEEPS = 25
"""Sweeps that bring a table near its margins before it becomes whole."""

LEAST = 1e-6
"""Records that every cell has at least before its margins are fitted."""


@dataclass(frozen=True, eq=False)
class LevelCounts(Counts):
    """Whole tables by the levels of hierarchies, and what records are drawn from.

    Attributes
    ----------
    draws : sequence of (Chain, tuple of int, list of ndarray of int64)
        By hierarchy the other attributes that nodes are drawn by. Then tables of all
        levels but the topmost by them, nodes last.
    """

    draws: Sequence[tuple[Chain, Subset, list[Integers]]]

    def records(self, n: int, rng: Any) -> Integers:
        """Return records that are drawn from the model, then node by node."""
        codes = draw_codes(self.model, n, rng)
        rng = np.random.default_rng(0) if rng is None else rng
        for chain, family, nodes in self.draws:
            column, above = np.zeros(n, np.int64), codes[:, chain.axes[0]]
            for i, size in zip(family, nodes[0].shape, strict=False):
                column = column * size + codes[:, i]
            for first, table in zip(chain.first[1:], nodes, strict=True):
                size = table.shape[-1]
                sums = np.insert(np.cumsum(table.ravel() + LEAST), 0, 0.0)
                start = column * size + first[above]
                stop = column * size + np.append(first[1:], size)[above]
                drawn = sums[start] + (sums[stop] - sums[start]) * rng.random(n)
                found = np.searchsorted(sums, drawn, side="right") - 1
                above = np.clip(found, start, stop - 1) - column * size
                codes = np.column_stack([codes, above])
        return codes


def divided_tables(
    chain: Chain, subsets: Sequence[Subset]
) -> list[tuple[Chain, list[Subset]]]:
    """Return by hierarchy the sets of other attributes that its nodes are divided by.

    Hierarchies are divided one after another: others have their topmost level before,
    and their lowest one afterwards.
    """
    found: list[tuple[Chain, list[Subset]]] = []
    asked = list(subsets)
    for k, own in reversed(list(enumerate(chain.all))):
        ends = {i: other.axes[-1] for other in chain.all[:k] for i in other.axes}
        ends |= {i: other.axes[0] for other in chain.all[k + 1 :] for i in other.axes}
        families = own.families([tuple(ends.get(i, i) for i in a) for a in asked])
        found.insert(0, (own, families))
        asked += [(own.axes[0], *family) for family in families]  # what it begins with
    return found


def topmost_tables(chain: Chain, subsets: Sequence[Subset]) -> list[Subset]:
    """Return the tables without a level below the topmost that others begin with."""
    divided = divided_tables(chain, subsets)
    lower = {i for own, _ in divided for i in own.axes[1:]}
    begun = [
        tuple(sorted((own.axes[0], *family)))
        for own, families in divided
        for family in families
    ]
    flat = [table for table in (*subsets, *begun) if not lower & {*table}]
    return list(dict.fromkeys(flat))


def settle_levels(
    estimate: Solution,
    noise: Field,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
    known: Known | None = None,
) -> LevelCounts:
    """Return whole, non-negative tables that add up from level to level.

    Parameters
    ----------
    estimate : Solution
        Unbiased.
    noise : Field
        Law of its errors.
    subsets : sequence of tuple of int
        The tables.
    say : callable
        Told what happens, for people who wait.
    known : Known, optional
        What tables of topmost levels keep to.
    """
    chain, sizes = noise.chain, noise.sizes
    divided = divided_tables(chain, subsets)
    lower = {i for own, _ in divided for i in own.axes[1:]}
    flat, others = topmost_tables(chain, subsets), sizes[: len(sizes) - len(lower)]
    counts = settle(estimate, noise, flat, say, known, others)  # lower ones come last
    tables, draws = dict(counts.tables), []
    for own, families in divided:
        draws.append(_divided(own, families, tables, estimate, noise, say))
    for subset in subsets:
        if subset not in tables:
            tables[subset] = _added_up(tables, subset, chain)
    return LevelCounts(
        counts.total,
        {subset: tables[subset] for subset in subsets},
        "levels",
        counts.fit,
        draws,
    )


def _divided(
    chain: Chain,
    families: Sequence[Subset],
    tables: dict[Subset, Integers],
    estimate: Solution,
    noise: Field,
    say: Callable[[str], None],
) -> tuple[Chain, Subset, list[Integers]]:
    """Divide the counts of nodes, level by level; tables of levels are added.

    Returns what records are drawn from.
    """
    sizes = noise.sizes
    whole = {}
    for family in families:
        table = _added_up(tables, (chain.axes[0], *family), noise.chain)
        whole[family] = table.reshape(len(table), -1)
    for level, axis in enumerate(chain.axes[1:], 2):
        say(f"dividing the counts of {chain.size(level - 1)} nodes among {sizes[axis]}")
        above, whole = whole, {}
        first, rows = chain.first[level - 1], None
        shares: tuple[Any, Any]
        for family in families:  # the empty one comes first
            shares = np.diff(first, append=sizes[axis])[:, None], 1.0
            if rows is not None:
                shares = _positive(above[()]), rows[:, None]
            expected = chain.down(level, above[family] / shares[0]) * shares[1]
            key = (*family, axis)
            drawn = toward({key: expected.T}, estimate, noise)[key].T
            if rows is None:
                parts = zip(np.split(drawn, first[1:]), above[()], strict=True)
                moved = [
                    nearest_with_sums(own.T, n.astype(float)).T for own, n in parts
                ]
                drawn = np.concatenate(moved)
            else:
                drawn = _fitted(drawn, chain, level, above[family], rows)
            whole[family] = divide(drawn, chain, level, above[family], rows)
            rows = whole[()][:, 0]
            tables[key] = whole[family].T.reshape([sizes[i] for i in key])
    largest = max(families, key=lambda family: whole[family].shape[1])
    return chain, largest, [tables[(*largest, axis)] for axis in chain.axes[1:]]


def _added_up(
    tables: Mapping[Subset, Integers], subset: Subset, chain: Chain
) -> Integers:
    """Return a table, with its axes as given, from one that holds its attributes.

    Or levels below them, whose nodes are added up.
    """
    levels, others = chain.places(subset)

    def holds(own: Subset) -> bool:
        below, held = chain.places(own)
        deep = all(k >= level for k, level in zip(below, levels, strict=True))
        return deep and {*others} <= {*held}

    own = next(filter(holds, tables))
    table, axes, below = tables[own], list(own), chain.places(own)[0]
    for part, k, level in zip(chain.all, below, levels, strict=True):
        for lower in range(k, level, -1) if level else ():
            axis = axes.index(part.axes[lower - 1])
            table = np.add.reduceat(table, part.first[lower - 1], axis=axis)
            axes[axis] = part.axes[lower - 2]
    out = tuple(axis for axis, i in enumerate(axes) if i not in subset)
    axes = [i for i in axes if i in subset]
    return table.sum(axis=out).transpose([axes.index(i) for i in subset])


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
