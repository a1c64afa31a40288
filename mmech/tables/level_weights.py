"""Weights of tables by levels of hierarchies, with the least error of all tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from mmech.arrays import Floats, Subset
from mmech.error.result import StrategyResult
from mmech.noise import OF_CURRENCY
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.tables.levels import Chain, Tree, apart, subsets_of, within

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
            best = _least_error(hierarchy, sizes, list(part), factors, law.power, least)
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


def separate_strategy(
    chain: Chain, sizes: Sequence[int], subsets: Sequence[Subset], currency: str
) -> StrategyResult:
    """Return tables that are measured together, or by hierarchy where that is better.

    Parts by hierarchy have the shares of the budget with the least sum of errors, and
    each has a least squares of its own. Parameters are those of `level_strategy`.
    """
    joint, least = _weighted(chain, sizes, subsets, currency)
    parts, law = apart(chain, subsets), OF_CURRENCY[currency]
    if len(parts) < 2:
        return joint
    results = [_weighted(hierarchy, sizes, part, currency) for hierarchy, part in parts]
    shares = np.array([error for _, error in results]) ** (1 / (4 - law.power))
    if float(shares.sum()) ** (4 - law.power) >= least:
        return joint
    shares = (shares / shares.sum()) ** (1 / law.power)
    weights: dict[Subset, float] = {}
    loss = 0.0
    for (result, _), share in zip(results, shares.tolist(), strict=True):
        of_part: Any = result.strategy
        weights |= {s: w * share for s, w in of_part.weights.items()}
        loss += result.loss / share**2
    return replace(
        joint,
        strategy=Marginals(tuple(sizes), weights),
        loss=loss,
        message="weights of tables by hierarchy, each with a share of its own",
    )


def _least_error(
    chain: Chain,
    sizes: Sequence[int],
    subsets: Sequence[Subset],
    factors: Floats,
    norm: int,
    least: float,
) -> tuple[Floats, Floats, int]:
    """Return the weights of tables with the least weighted sum of errors.

    Their errors follow, and the number of steps. `factors` are the weights in the
    sum.
    """
    weights, losses = np.ones(len(subsets)), [np.inf]
    for _ in range(ITERATIONS):
        weights = np.maximum(weights / weights.sum(), least)
        weights /= np.linalg.norm(weights, norm)
        errors, pulls = _errors_and_pulls(
            chain, sizes, subsets, np.square(weights), factors
        )
        losses.append(float(errors @ factors))
        if losses[-2] - losses[-1] <= TOLERANCE * losses[-1]:
            break
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
