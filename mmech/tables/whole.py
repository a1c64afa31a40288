"""From noisy marginals to counts that are whole, non-negative and consistent.

Post-processing: everything here is a function of a measurement and of public facts.
With the unbiased tables of least squares at hand,

1. the total and the tables of single attributes become whole and non-negative, drawn
   towards what the model of pairs of step 2 expects;
2. tables of pairs are drawn towards a latent class model of all pairs, and towards
   independence, by what noise explains (empirical Bayes). Both are weighed by what they
   foretell of noisier tables. A table of very many values is drawn towards
   independence, then towards a model of maximum entropy;
3. tables of one and two attributes get exactly the margins of step 1 by controlled
   rounding; where a table has three attributes or more, all are tabulated from one set
   of whole records of the model.

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
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np

from mmech.arrays import Floats, Integers, Subset
from mmech.limits import LIMITS
from mmech.operators.base import product_of
from mmech.tables.classes import (
    FITS,
    SIGNALS,
    expected_pairs,
    posterior,
    too_many_values,
)
from mmech.tables.field import Field, Solution, swept
from mmech.tables.known import Known
from mmech.tables.levels import Chain
from mmech.tables.model import TableModel, draw_codes, fit_model, proportional_fit
from mmech.tables.rounding import (
    nearest_with_sums,
    rounded,
    rounded_by_parents,
    rounded_table,
    with_margins,
)

ROUNDING = {
    "margins": "every table is rounded to the rounded tables of its single attributes "
    "(controlled rounding)",
    "records": "all tables are tabulated from one set of whole records of the fitted "
    "model",
    "levels": "from the topmost level down, counts of nodes are divided among those "
    "below, so that each level adds up to the one above",
}
"""How counts are made whole, in words."""

CLEAR = 1.0
"""Signals of this ratio or more are taken from what is nearer than the estimate."""

LEAST_EXPECTED = 1e-3
"""Counts that are expected to be smaller have as much signal as this one."""

LEAST = 1e-6
"""Records that every cell has at least before its margins are fitted."""

FIT_SWEEPS = 25
"""Sweeps that bring a table of three attributes near its margins."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Whole tables that agree, and the model that records are drawn from.

    Attributes
    ----------
    total : int
        Number of records of all tables.
    tables : dict of tuple to ndarray of int64
        One axis per attribute.
    rounding : {"margins", "records", "levels"}
        How counts were made whole.
    fit : callable
        Fits the model, which takes time.
    draws : sequence of (Chain, tuple of int, list of ndarray of int64), default=()
        By hierarchy the other attributes that nodes are drawn by. Then tables of all
        levels but the topmost by them, nodes last.
    """

    total: int
    tables: dict[Subset, Integers]
    rounding: str
    fit: Callable[[], TableModel]
    draws: Sequence[tuple[Chain, Subset, list[Integers]]] = ()

    @cached_property
    def model(self) -> TableModel:
        """A model of maximum entropy that explains the tables."""
        return self.fit()

    def records(self, n: int, rng: Any) -> Integers:
        """Return records of the model, then node by node: codes of shape (n, d)."""
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
                places = np.searchsorted(sums, drawn, side="right") - 1
                above = np.clip(places, start, stop - 1) - column * size
                codes = np.column_stack([codes, above])
        return codes


def settle(
    estimate: Solution,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
    known: Known | None = None,
    fits: int = FITS,
) -> Counts:
    """Return whole, non-negative, consistent tables from least-squares estimates.

    Parameters
    ----------
    estimate : Solution
        Unbiased; its field is the law of its errors.
    subsets : sequence of tuple of int
        Attributes of the tables.
    say : callable
        Told what happens, for people who wait.
    known : Known, optional
        What tables, or those of topmost levels, keep to.
    fits : int, default=FITS
        Fits of a model of pairs.
    """
    if estimate.field.chain.axes:
        return _settle_levels(estimate, subsets, say, known)
    return _settle_flat(estimate, subsets, say, known, estimate.field.sizes, fits)


def _settle_flat(
    estimate: Solution,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
    known: Known | None,
    sizes: tuple[int, ...],
    fits: int,
) -> Counts:
    """Return whole tables without levels; `sizes` are of the axes that may occur."""
    noise, known = estimate.field, known or Known(sizes, (), ())
    total = max(0, round(float(estimate.marginal([])[0])))
    pairs = sorted({pair for subset in subsets for pair in combinations(subset, 2)})
    tables = list(dict.fromkeys([*subsets, *pairs]))
    exact, closed = known.exact, known.closed(tables)
    target: dict[Subset, Floats] = {
        (i,): np.full(n, total / n) for i, n in enumerate(sizes) if (i,) not in exact
    }

    def alone(margins: Mapping[Subset, Floats] = {}) -> list[Integers]:
        drawn = toward(target, estimate, toward(margins, estimate))
        singles = [
            rounded(nearest_with_sums(drawn[i,], np.array(float(total))), total)
            if (i,) in drawn
            else exact[i,]
            for i in range(len(sizes))
        ]
        for i, margin in (known.margins(tables, total, singles) or {}).items():
            singles[i] = margin
        return singles

    single = alone()
    shares = [table / max(total, 1) for table in single]
    measured: list[Subset] = [pair for pair in pairs if noise.measures(pair)]

    def drawn(expected: Mapping[Subset, Floats]) -> dict[Subset, Floats]:
        targets = {pair: expected[pair] for pair in measured if pair not in exact}
        tables = {**expected, **toward(targets, estimate)}
        independent: dict[Subset, Floats] = {
            (i, j): total * np.outer(shares[i], shares[j])
            for i, j in trust.keys() & targets.keys()
        }
        for pair, table in toward(independent, estimate).items():
            tables[pair] = table + trust[pair] * (tables[pair] - table)
        return {
            (i, j): exact[i, j].astype(float)
            if (i, j) in exact
            else with_margins(table, single[i], single[j], closed.get((i, j)))
            for (i, j), table in tables.items()
        }

    expected: dict[Subset, Floats] = {}
    trust: dict[Subset, float] = {}
    if pairs:
        say(f"drawing {len(pairs)} pairs of attributes towards what explains them")
        expected, trust = expected_pairs(estimate, shares, total, pairs, fits)
    if trust:  # pairs tell of their attributes, too
        margins: dict[Subset, Floats] = {
            (i,): table.sum(axis=axis)
            for pair, table in expected.items()
            for axis, i in zip((1, 0), pair, strict=True)
            if (i,) in target
        }
        single = alone(margins)
        shares = [table / max(total, 1) for table in single]
    fitted = drawn(expected)
    if pairs and total and (too_many_values(sizes) or 0 < len(measured) < len(pairs)):
        told = {pair: fitted[pair] for pair in measured}
        model = fit_model(sizes, shares, total, told)
        linked: dict[Subset, Floats] = {p: model.marginal(p) for p in pairs}
        if not too_many_values(sizes):  # two models of other pairs, half of each
            linked = {
                pair: expected[pair] if pair in told else (table + expected[pair]) / 2
                for pair, table in linked.items()
            }
        fitted = drawn(linked)
    larger: dict[Subset, Floats] = {}
    if any(len(subset) > 2 for subset in subsets):
        model = fit_model(sizes, shares, total, fitted)
        targets = {s: model.marginal(s) for s in subsets if len(s) > 2}
        for subset, table in toward(targets, estimate).items():
            of_pairs: Any = {p: fitted[p] for p in combinations(subset, 2)}
            start = np.maximum(table, 0.0)
            larger[subset] = proportional_fit(start, subset, of_pairs, FIT_SWEEPS)
    told = {**{pair: fitted[pair] for pair in measured}, **larger}
    fit = partial(fit_model, sizes, shares, total, told, tuple(closed))
    say(f"making the counts of {len(subsets)} tables whole")
    if larger:
        made = Counts(total, {}, "records", fit)
        made.tables.update(_of_records(made.model, total, subsets))
        return made
    whole = {
        s: rounded_table(fitted[s], single[s[0]], single[s[1]], closed.get(s))
        if len(s) > 1
        else single[s[0]]
        for s in subsets
    }
    return Counts(total, whole, "margins", fit)


def toward(
    targets: Mapping[Subset, Floats],
    estimate: Solution,
    better: Mapping[Subset, Floats] = {},
) -> dict[Subset, Floats]:
    r"""Return posterior means of tables, between their targets and their estimates.

    A count is the target m plus a signal of variance :math:`\gamma m`. Its estimate has
    noise of variance :math:`\sigma^2` on top, and is drawn towards the target by
    :math:`\sigma^2 / (\sigma^2 + \gamma m)`: small counts most. The likelihood of all
    cells of a table tells what its :math:`\gamma` may be. The likelihoods of all
    tables tell how often each :math:`\gamma` is met (non-parametric empirical Bayes
    [1]_). Where most targets are right, a small table's estimates hardly speak against
    its own. A signal as large as the noise, or larger, is read from `better`, where
    that has the table, in place of the estimate.

    References
    ----------
    .. [1] Stephens, "False discovery rates: a new deal", Biostatistics 18(2), 2017.
    """
    if not targets:
        return {}
    told, logs = {}, []
    for subset, target in targets.items():
        apart = estimate.marginal(subset).reshape(target.shape) - target
        expected = np.maximum(target, LEAST_EXPECTED)
        noise = estimate.field.spread(subset)
        even = noise / expected.mean() * expected
        told[subset] = apart, noise, even
        logs.append([_log_likelihood(apart, noise + s * even) for s in SIGNALS])
    means = {}
    for (subset, target), weights in zip(targets.items(), posterior(logs), strict=True):
        kept, clear = np.zeros(target.shape), 0.0
        apart, noise, even = told[subset]
        for strength, share in zip(SIGNALS, weights, strict=True):
            if subset in better and strength >= CLEAR:
                clear += share
            else:
                signal = strength * even
                kept += share * signal / (noise + signal)
        means[subset] = target + kept * apart
        if clear:
            means[subset] += clear * (better[subset] - target)
    return means


def _log_likelihood(apart: Floats, spread: Floats) -> float:
    return -0.5 * float((np.log(spread) + np.square(apart) / spread).sum())


def _of_records(
    model: TableModel, total: int, subsets: Sequence[Subset]
) -> dict[Subset, Integers]:
    """Return the tables of one set of whole records of a model.

    A total of little but noise may be more records than can be held: then each that is
    drawn stands for several, and some of them for one more.
    """
    sizes = model.domain_shape
    n = min(total, max(1, LIMITS.table_entries // len(sizes)))
    each, more = divmod(total, max(n, 1))
    codes = draw_codes(model, n, None)
    tables = {}
    for subset in subsets:
        shape = tuple(sizes[i] for i in subset)
        place: Any = np.ravel_multi_index(codes[:, subset].T, shape)
        cells = product_of(shape)
        table = each * np.bincount(place, minlength=cells)
        table += np.bincount(place[:more], minlength=cells)
        tables[subset] = table.reshape(shape)
    return tables


def divided_tables(
    chain: Chain, subsets: Sequence[Subset]
) -> list[tuple[Chain, list[Subset]]]:
    """Return by hierarchy the sets of other attributes that its nodes are divided by.

    Hierarchies are divided one after another: others have their topmost level before,
    and their lowest one afterwards.
    """
    divided: list[tuple[Chain, list[Subset]]] = []
    asked = list(subsets)
    for k, hierarchy in reversed(list(enumerate(chain.all))):
        ends = {i: other.axes[-1] for other in chain.all[:k] for i in other.axes}
        ends |= {i: other.axes[0] for other in chain.all[k + 1 :] for i in other.axes}
        families = hierarchy.families([tuple(ends.get(i, i) for i in a) for a in asked])
        divided.insert(0, (hierarchy, families))
        # Its division begins with the topmost level.
        asked += [(hierarchy.axes[0], *family) for family in families]
    return divided


def topmost_tables(chain: Chain, subsets: Sequence[Subset]) -> list[Subset]:
    """Return the tables without a level below the topmost that others begin with."""
    begun = [
        tuple(sorted((hierarchy.axes[0], *family)))
        for hierarchy, families in divided_tables(chain, subsets)
        for family in families
    ]
    flat = [table for table in (*subsets, *begun) if not chain.lower & {*table}]
    return list(dict.fromkeys(flat))


def _settle_levels(
    estimate: Solution,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
    known: Known | None,
) -> Counts:
    """Return whole tables that add up from level to level."""
    chain, sizes = estimate.field.chain, estimate.field.sizes
    # Lower levels come last.
    others = sizes[: len(sizes) - len(chain.lower)]
    flat = topmost_tables(chain, subsets)
    counts = _settle_flat(estimate, flat, say, known, others, FITS)
    tables, draws = dict(counts.tables), []
    for hierarchy, families in divided_tables(chain, subsets):
        draws.append(_divided(hierarchy, families, tables, estimate, subsets, say))
    asked = {
        s: tables[s] if s in tables else _added_up(tables, s, chain) for s in subsets
    }
    return Counts(counts.total, asked, "levels", counts.fit, draws)


def _divided(
    chain: Chain,
    families: Sequence[Subset],
    tables: dict[Subset, Integers],
    estimate: Solution,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
) -> tuple[Chain, Subset, list[Integers]]:
    """Divide the counts of nodes, level by level; tables of levels are added.

    Returns what records are drawn from.
    """
    sizes, whole = estimate.field.sizes, {}
    for family in families:
        table = _added_up(tables, (chain.axes[0], *family), estimate.field.chain)
        whole[family] = table.reshape(len(table), -1)
    for level, axis in enumerate(chain.axes[1:], 2):
        say(f"dividing the counts of {chain.size(level - 1)} nodes among {sizes[axis]}")
        above, whole = whole, {}
        first, rows = chain.first[level - 1], None
        shares: tuple[Any, Any]
        for family in families:  # the empty one comes first
            shares = np.diff(first, append=sizes[axis])[:, None], 1.0
            if rows is not None:
                shares = np.maximum(above[()], 1), rows[:, None]
            expected = chain.down(level, above[family] / shares[0]) * shares[1]
            key = (*family, axis)
            drawn = toward({key: expected.T}, estimate)[key].T
            if rows is None:
                parts = zip(np.split(drawn, first[1:]), above[()], strict=True)
                moved = [
                    nearest_with_sums(block.T, n.astype(float)).T for block, n in parts
                ]
                drawn = np.concatenate(moved)
            else:
                over = (*family, chain.axes[level - 2])
                margins = {(axis,): rows, over: above[family].T}
                drawn = _fitted(drawn.T, key, estimate.field, subsets, margins).T
            parents = chain.parents[level - 1]
            whole[family] = rounded_by_parents(drawn, parents, above[family], rows)
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
    levels, whole = chain.places(subset)[0], tuple(sorted(subset))
    source = next(table for table in tables if chain.common(table, subset) == whole)
    table, axes, below = tables[source], list(source), chain.places(source)[0]
    for part, k, level in zip(chain.all, below, levels, strict=True):
        for lower in range(k, level, -1) if level else ():
            axis = axes.index(part.axes[lower - 1])
            table = np.add.reduceat(table, part.first[lower - 1], axis=axis)
            axes[axis] = part.axes[lower - 2]
    out = tuple(axis for axis, i in enumerate(axes) if i not in subset)
    axes = [i for i in axes if i in subset]
    return table.sum(axis=out).transpose([axes.index(i) for i in subset])


def _fitted(
    table: Floats,
    key: Subset,
    field: Field,
    subsets: Sequence[Subset],
    whole: Mapping[Subset, Integers],
) -> Floats:
    """Return a table near another, by sweeps towards whole margins of it.

    One that was not measured is held to what it tells of the tables asked for, too.
    """
    counts = np.maximum(table.ravel(), 0.0) + LEAST
    asked = () if field.measures(key) else subsets
    held = sorted({field.chain.common(key, subset) for subset in asked})
    cells = [field.cells_above(key, part) for part in held]
    margins = [(at, np.bincount(at, counts)) for at in cells]
    margins += [(field.cells_above(key, s), n.ravel()) for s, n in whole.items()]
    return swept(counts, margins).reshape(table.shape)
