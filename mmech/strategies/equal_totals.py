r"""Marginals of single attributes in sets of equal totals, for K-norm noise.

A record is in one cell of every marginal. Noise shaped like the largest norm in a set
of marginals, with their equal totals, costs as much as Laplace noise on one of them. It
has less variance than Laplace noise that is split among them if they are of about the
same size; where they are not, small marginals have most of it. So marginals go into
sets. A set's share of the budget is in proportion to the cube root of the error that it
would add with all of it. A set of one has Laplace noise.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np

from mmech.arrays import Subset
from mmech.error.pairs import gain
from mmech.error.result import StrategyResult
from mmech.error.shared_totals import WIDE, EqualTotals, of_residuals
from mmech.exceptions import UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.noise import K_NORM
from mmech.operators.base import QueryMatrix
from mmech.operators.marginals import Marginals
from mmech.strategies.registry import Template, attribute_sizes
from mmech.structure.spectrum import mean_spectrum

NAME = "equal_totals"

STEPS = 30
"""Fixed-point iterations for the weights of sets."""

APART = 1 / 64
"""Least relative difference of the weights of neighbours; equal ones would be a set."""


def equal_totals_strategy(workload: QueryMatrix) -> StrategyResult:
    """Measure single attributes, in sets with K-norm noise of equal totals.

    Attributes are sorted by their share of the error, and cut into sets by dynamic
    programming. There the variance of a contrast is taken to be that at total zero,
    :math:`(D + 1) (D + 2) (2 m - 1) / (m (m + 1)^2)` for m values in a set of D
    dimensions: within a few percent. The loss, of K-norm noise, is exact.

    Raises
    ------
    UnsupportedWorkloadError
        If the attributes are not known, or a query restricts two of them, or fewer
        than two are asked for.
    """
    sizes = attribute_sizes(workload, NAME)
    asked = mean_spectrum(workload, sizes)
    if asked is None or any(len(subset) > 1 for subset in asked):
        raise UnsupportedWorkloadError(
            f"template {NAME!r} is for queries of single attributes, got {workload!r}; "
            "use template 'marginals'"
        )
    energies = {s[0]: value * (sizes[s[0]] - 1) for s, value in asked.items() if s}
    if len(energies) < 2:
        raise UnsupportedWorkloadError(
            f"template {NAME!r} needs queries of at least two attributes, got "
            f"{workload!r}; use template 'marginals'"
        )
    order = sorted(energies, key=lambda i: (energies[i], sizes[i], i))
    tables: list[list[Subset]] = [
        [(i,) for i in own] for own in _cut(order, energies, sizes)
    ]
    total: list[list[Subset]] = [[()]]
    found = []
    for sets in (tables, total + tables):
        weights = _weights(sets, energies | {None: asked.get((), 0.0)}, sizes)
        each = zip(sets, weights, strict=True)
        strategy = Marginals(sizes, {a: w for own, w in each for a in own})
        found.append((gain(workload, of_residuals(strategy)), strategy))
    loss, strategy = min(found, key=itemgetter(0))
    number = "one set" if len(tables) == 1 else f"{len(tables)} sets"
    also = ", and the total" if () in strategy.weights else ""
    message = f"{len(order)} marginals in {number} of equal totals{also}"
    return StrategyResult(strategy, NAME, loss, message=message, noise=K_NORM.name)


def _cut(order: list[int], energies: dict[int, float], sizes: Any) -> list[list[int]]:
    """Return consecutive sets whose errors have the least sum of cube roots."""
    own = np.array([energies[i] for i in order])
    m = np.array([sizes[i] for i in order])
    shapes = own * (2 * m - 1) / (m * np.square(m + 1.0))
    dimensions, spreads = (
        np.append(0, np.cumsum(values)) for values in (m - 1, shapes)
    )
    best, before = np.zeros(len(order) + 1), np.zeros(len(order) + 1, np.int64)
    for stop in range(1, len(order) + 1):
        d = 1 + dimensions[stop] - dimensions[:stop]
        costs = (d + 1) * (d + 2) * (spreads[stop] - spreads[:stop])
        costs[d > LIMITS.norm_dimensions] = np.inf
        costs[-1] = 2 * own[stop - 1]  # Laplace noise
        sums = best[:stop] + np.cbrt(costs)
        before[stop] = np.argmin(sums)
        best[stop] = sums[before[stop]]
    sets, stop = [], len(order)
    while stop:
        sets.append(order[before[stop] : stop])
        stop = before[stop]
    return sets[::-1]


def _weights(
    sets: list[list[Subset]], energies: dict[Any, float], sizes: tuple[int, ...]
) -> list[float]:
    """Return weights of sets for the least error: a fixed point of its derivative.

    It is Σ e_J / w_J² for contrasts, and for the total its energy over Σ w_J² / v_J.
    Sets in a row of equal weight would be one: every other one has a little more, which
    adds less than a thousandth to the error.
    """
    found = EqualTotals.of(sizes, sets, [WIDE] * len(sets))
    parts = found.contrasts * [energies[a[0]] if a else 0 for own in sets for a in own]
    errors = np.add.reduceat(parts, np.cumsum([0, *map(len, sets[:-1])])) / WIDE**2
    totals = found.totals / WIDE**2
    weights = np.where(errors > 0, np.cbrt(errors), 0.2 * np.cbrt(errors).sum())
    for _ in range(STEPS):
        precisions = np.square(weights) / totals
        shares = energies[None] * (precisions / precisions.sum()) ** 2 * totals
        weights = np.cbrt(errors + shares)
    for j in range(1, len(sets)):
        if abs(weights[j] - weights[j - 1]) < APART / 2 * weights[j]:
            weights[j] = weights[j - 1] * (1 + APART * (-1) ** (j + 1))
    return (weights / weights.max()).tolist()


EQUAL_TOTALS = Template(NAME, equal_totals_strategy, 35, by_name=True)
