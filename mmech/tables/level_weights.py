"""Weights of tables by levels of hierarchies, with the least error of all tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from mmech.arrays import Floats, Subset
from mmech.error.result import StrategyResult
from mmech.noise import OF_CURRENCY
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.tables.levels import Chain, Tree, subsets_of, within

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
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> StrategyResult:
    """Return what is measured for levels of several hierarchies: the better of two.

    Either products of all their levels, as `level_strategy` has them, or the tables
    that are asked for alone. In these every table is told by the tree of one hierarchy,
    beside which levels of the others are attributes like any other. Parameters are
    those of `level_strategy`.
    """
    joint, least = _weighted(chain, sizes, subsets, currency)
    if {*chain.measured(subsets)} == {*subsets} or max(map(len, subsets)) > 2:
        return joint
    law = OF_CURRENCY[currency]
    per_cell = np.array([1 / product_of(sizes[i] for i in s) for s in subsets])
    ways = [chain.apart, *([tree] for tree in chain.apart)]
    weights, errors, steps = min(
        (_least_error(w, sizes, subsets, per_cell, law.power, LEAST) for w in ways),
        key=lambda found: float(found[1] @ per_cell),
    )
    if float(errors @ per_cell) >= least:
        return joint
    return replace(
        joint,
        strategy=Marginals(
            tuple(sizes), dict(zip(subsets, weights.tolist(), strict=True))
        ),
        loss=float(errors.sum()),
        n_iter=steps,
        message="weights of tables, each told by the levels of one hierarchy",
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
