"""Weights of tables by levels of hierarchies, with the least error of all tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from itertools import combinations
from typing import Any

import numpy as np

from mmech.arrays import Floats, Subset
from mmech.error.result import StrategyResult
from mmech.error.shared_totals import WIDE, EqualTotals, as_sets, told_apart
from mmech.noise import K_NORM, LAPLACE, OF_CURRENCY
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.tables.field import measured_in
from mmech.tables.intervals import Apart
from mmech.tables.levels import Chain, Tree, subsets_of, within

Part = tuple[Subset, ...]
"""Tables that are planned by themselves."""

Sets = dict[Part, float]
"""Tables that are measured with equal totals, or one alone, and shares of a budget."""

BLOCKS, MANY_SINGLE = 6, 20
"""Blocks of tables of which all parts are tried, and most tables of single attributes
that are blocks by themselves."""

MANY = 8
"""With pairs among them, more tables are not planned in parts: that took 3 to 19 s, and
gained nothing."""

ITERATIONS, TOLERANCE = 300, 1e-6
"""Limits of the search for the weights of tables."""


LEAST, LEAST_OF_FACTORS = 1e-3, 0.02
"""Share of the least weight in their sum: all tables stay measured. Products of factors
must be near whole multiples of the grid of weights."""


ROUNDS = 4
"""Times that the factors of weights of several hierarchies are optimized in turn."""


STEP = 1e-30
"""Imaginary step of derivatives, which have no cancellation."""


def level_strategy(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> StrategyResult:
    r"""Return the tables with weights of the least error of an average cell of each.

    Errors, the sums of squares over the cells of tables, add up over all tables, each
    divided by its number of cells: a table of many cells so counts no more than a small
    one above it. The pull :math:`g_j` of a table is the fall of the loss with its
    squared weight. The loss is at most :math:`\sum_j \theta_j^4 g_j / w_j^2` for
    weights w, and equal to it at the weights θ at hand. So w in proportion to the cube
    root of :math:`\theta_j^4 g_j` under pure epsilon, and to the fourth root under rho,
    never raises the loss.

    Parameters
    ----------
    chain : Chain
    sizes : sequence of int
        Number of values of all that tables are made of.
    subsets : sequence of tuple of int
        The tables.
    currency : {"epsilon", "rho"}
    """
    return _weighted(chain, sizes, subsets, currency)[0]


def _weighted(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> tuple[StrategyResult, float]:
    """Return the tables with weights, and the error of an average cell of each."""
    law = OF_CURRENCY[currency]
    parts = chain.factors(subsets)
    places = [np.array([part[s] for s in map(within(part), subsets)]) for part in parts]
    per_cell = np.array([1 / product_of(sizes[i] for i in s) for s in subsets])
    weights = [np.ones(len(part)) for part in parts]
    errors, steps = weights[:], 0
    rounds, least = (ROUNDS, LEAST_OF_FACTORS) if chain.beside else (1, LEAST)
    for _ in range(rounds):
        for k, (hierarchy, part) in enumerate(zip(chain.all, parts, strict=True)):
            others = [e[a] for e, a in zip(errors, places, strict=True)]
            others[k] = per_cell
            factors = np.bincount(places[k], np.prod(others, axis=0)).astype(float)
            best = _least_error(
                [hierarchy], sizes, list(part), factors, law.power, least
            )
            weights[k], errors[k], steps = best[0], best[1], steps + best[2]
    products = reduce(np.multiply.outer, weights).ravel().tolist()
    squares = np.prod([e[a] for e, a in zip(errors, places, strict=True)], axis=0)
    result = StrategyResult(
        Marginals(
            tuple(sizes), dict(zip(chain.measured(subsets), products, strict=True))
        ),
        "marginals",
        float(squares.sum()),
        steps,
        message="weights of tables by all levels",
        norm=law.norm,
    )
    return result, float(squares @ per_cell)


def hierarchies_strategy(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    currency: str,
    flat: Callable[[Sequence[Subset]], StrategyResult],
) -> StrategyResult:
    """Return what is measured for levels of hierarchies: the best of three.

    Products of all their levels, as `level_strategy` has them; the tables that are
    asked for alone; or, under pure epsilon, these in parts, each with what is best for
    it alone. In the last two every table is told by the tree of one hierarchy, beside
    which levels of the others are attributes like any other.

    Parameters
    ----------
    chain, sizes, subsets, currency
        As in `level_strategy`.
    flat : callable
        From tables without several levels of a hierarchy to what is measured for them.
    """
    result, least = _best(chain, sizes, subsets, currency)
    pairs = max(map(len, subsets))
    if currency != "epsilon" or pairs > 2 or (pairs > 1 and len(subsets) > MANY):
        return result
    parts, error = _in_parts(chain, sizes, subsets, flat)
    weights: Any = parts.strategy
    product = chain.beside and {*weights.weights} == {*chain.measured(subsets)}
    if product and not parts.noise:
        return result  # parts would be taken for products
    return parts if error < least else result


def _best(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> tuple[StrategyResult, float]:
    """Return the better of products and of tables alone, and its error.

    Tables of three attributes are told by products, whatever these cost.
    """
    joint = _weighted(chain, sizes, subsets, currency)
    product = chain.measured(subsets)
    if {*product} == {*subsets} or max(map(len, subsets)) > 2:
        return joint
    apart = _apart(chain, sizes, subsets, currency)
    cells = (product_of(sizes[i] for i in table) for table in product)
    fit = all(n <= chain.most_cells(s) for n, s in zip(cells, product, strict=True))
    return joint if fit and joint[1] <= apart[1] else apart


def _apart(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> tuple[StrategyResult, float]:
    """Return the tables alone with weights, and the error of an average cell of each.

    Each is told by the tree of one hierarchy.
    """
    law = OF_CURRENCY[currency]
    per_cell = np.array([1 / product_of(sizes[i] for i in s) for s in subsets])
    weights, errors, steps = _least_error(
        chain.apart, sizes, subsets, per_cell, law.power, LEAST
    )
    result = StrategyResult(
        Marginals(tuple(sizes), dict(zip(subsets, weights.tolist(), strict=True))),
        "marginals",
        float(errors.sum()),
        steps,
        message="weights of tables, each told by the levels of one hierarchy",
        norm=law.norm,
    )
    return result, float(errors @ per_cell)


def _in_parts(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    flat: Callable[[Sequence[Subset]], StrategyResult],
) -> tuple[StrategyResult, float]:
    """Return tables in the parts of least error, and the error of an average cell.

    The plan of a part has some error with all of the budget. Its share is in proportion
    to the cube root. Where blocks of tables are many, those that gain most are merged.
    Then all parts of them are tried, and topmost levels apart from lower ones.
    """

    @cache
    def planned(part: Part) -> tuple[float, Sets]:
        axes = {i for table in part for i in table}
        levels = [axes.intersection(own.axes) for own in chain.all]
        if max(map(len, levels)) > 1:
            sets = _sets(_best(chain, sizes, part, "epsilon")[0])
        else:  # trees need levels of one node, which flat plans leave out
            ones = {i for own in levels for i in own if sizes[i] == 1}
            sets = {
                tuple(tuple(sorted({*table} | ones)) for table in group): share
                for group, share in _sets(flat(part)).items()
            }
        return float(_errors(chain, sizes, part, sets).sum()) ** (1 / 3), sets

    def root(*blocks: Part) -> float:
        return planned(tuple(sorted(sum(blocks, ()))))[0]

    @cache
    def best(blocks: tuple[Part, ...]) -> tuple[float, tuple[Part, ...]]:
        found, first, rest = [], blocks[:1], blocks[1:]
        for chosen in subsets_of(range(len(rest))) if first else ():
            part = (*first, *(rest[i] for i in chosen))
            others = tuple(b for i, b in enumerate(rest) if i not in chosen)
            total, parts = best(others)
            found.append((root(*part) + total, (sum(part, ()), *parts)))
        return min(found, default=(0.0, ()))

    blocks: list[Part] = []
    if len(subsets) <= MANY_SINGLE:
        blocks = [(subset,) for subset in subsets]
    while len(blocks) > BLOCKS:
        pairs = combinations(blocks, 2)
        pair = max(pairs, key=lambda both: sum(map(root, both)) - root(*both))
        blocks = [sum(pair, ()), *(block for block in blocks if block not in pair)]
    lower = tuple(subset for subset in subsets if chain.lower & {*subset})
    topmost = tuple(subset for subset in subsets if subset not in lower)
    halves = [half for half in (topmost, lower) if half and len(subsets) > BLOCKS]
    total, parts = min(best(tuple(each)) for each in (blocks, halves) if each)
    found = [planned(tuple(sorted(part))) for part in parts]
    # A table that one part measures with others, and another by itself, is one of both.
    groups = sorted((group for _, sets in found for group in sets), key=len)
    of = {table: group for group in groups for table in group}
    together: Sets = {}
    for share, sets in found:
        for group, weight in sets.items():
            at = of[group[0]]
            together[at] = together.get(at, 0.0) + weight * share / total
    errors = _errors(chain, sizes, tuple(subsets), together)
    cells = [product_of(sizes[i] for i in subset) for subset in subsets]
    return _measuring(sizes, together, float(errors @ cells)), float(errors.sum())


def _sets(result: StrategyResult) -> Sets:
    """Return what is measured together, and its share of the budget."""
    form: Any = result.strategy
    groups = as_sets(form) if result.noise else [[s] for s in form.weights]
    weights = {tuple(group): abs(form.weights[group[0]]) for group in groups}
    total = sum(weights.values())
    return {group: weight / total for group, weight in weights.items() if weight}


def _errors(chain: Chain, sizes: Sequence[int], tables: Part, sets: Sets) -> Floats:
    """Return the errors of an average cell of tables, in the unit of `_least_error`."""
    scales = [round(WIDE / share) for share in sets.values()]
    found = EqualTotals.of(tuple(sizes), [*sets], scales)
    noise = Apart(LAPLACE, sizes, measured_in(found, scales), chain, tables)
    return np.array([noise.spread(table) for table in tables]) / (2.0 * WIDE**2)


def _measuring(sizes: Sequence[int], sets: Sets, loss: float) -> StrategyResult:
    """Return marginals with shares of a budget, with K-norm noise where it is needed.

    Parts stay in a row, after all tables with equal totals.
    """
    order = sorted(sets, key=lambda group: len(group) == 1)
    shares, noise = [sets[group] for group in order], None
    if len(order[0]) > 1:
        shares, noise = told_apart(shares), K_NORM.name
    each = zip(order, shares, strict=True)
    return StrategyResult(
        Marginals(tuple(sizes), {s: share for group, share in each for s in group}),
        "marginals",
        loss,
        message="tables in parts, each as is best for it alone",
        noise=noise,
    )


def _least_error(
    trees: Sequence[Chain],
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    factors: Floats,
    norm: int,
    least: float,
) -> tuple[Floats, Floats, int]:
    """Return the weights of tables with the least weighted sum of errors.

    Their errors follow, each by the tree that tells it best, and the number of steps.
    `factors` are the weights in the sum.
    """
    weights, losses = np.ones(len(subsets)), [np.inf]
    best = np.zeros(len(subsets), np.int64)
    for _ in range(ITERATIONS):
        weights = np.maximum(weights / weights.sum(), least)
        weights /= np.linalg.norm(weights, norm)
        squares = np.square(weights)
        each = [
            _errors_and_pulls(tree, sizes, subsets, squares, (best == k) * factors)
            for k, tree in enumerate(trees)
        ]
        by_tree = np.array([errors for errors, _ in each])
        errors, best = by_tree.min(axis=0), by_tree.argmin(axis=0)
        losses.append(float(errors @ factors))
        if losses[-2] - losses[-1] <= TOLERANCE * losses[-1]:
            break
        pulls = np.sum([pulls for _, pulls in each], axis=0)
        weights = np.power(weights**4 * pulls, 1 / 3 if norm == 1 else 1 / 4)
    return weights, errors, len(losses) - 1


def _errors_and_pulls(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    squares: Floats,
    factors: Floats,
) -> tuple[Floats, Floats]:
    """Return the errors of tables, and the pulls of their sum by `factors`."""
    places = [chain.place(subset) for subset in subsets]
    levels = np.array([level for level, _ in places])
    errors, pulls = np.zeros(squares.size), np.zeros(squares.size)
    for part in {part for _, others in places for part in subsets_of(others)}:
        rests = [
            product_of(sizes[i] for i in others if i not in part)
            if {*part} <= {*others}
            else np.inf
            for _, others in places
        ]
        share, rank = 1 / np.array(rests), product_of(sizes[i] - 1 for i in part)
        precisions = np.bincount(levels, share * squares)
        wanted = rank * np.bincount(levels, share * factors)
        sums, falls = np.zeros(precisions.size), np.zeros(precisions.size)
        for level in np.flatnonzero(precisions).tolist():
            moved = precisions.astype(np.complex128)
            moved[level] *= 1 + STEP * 1j
            variances = Tree(chain, moved.tolist()).variances
            total = sum(v.sum() * w for v, w in zip(variances, wanted, strict=False))
            falls[level] = -total.imag / (STEP * precisions[level])
            sums[: len(variances)] = [v.sum().real for v in variances]
        errors += rank * share * sums[levels]
        pulls += share * falls[levels]
    return errors, pulls
