r"""Marginals under K-norm noise with equal totals, as strategies with a closed form.

Marginals that are measured together, a *set*, have noise with equal totals
(`mmech.noise.norm`). A total and the contrasts of every marginal are uncorrelated under
it. The covariance is the same as if residuals had been measured: the interactions s ≠ ∅
with precision :math:`n_s \sum_{a \supseteq s} 1 / (n_a c_a)` and the total with the
precisions :math:`1 / \mathrm{Var}(T)` of all sets together. So errors are those of
`Residuals`. Least squares treats the sets as marginals once their totals are equal.

A record is in one cell of every marginal. Noise shaped like the largest norm in a set
costs as much as Laplace noise on one of its marginals. It has less variance than
Laplace noise that is split among them if they are of about the same size; where they
are not, small marginals have most of it. So marginals go into sets. A set's share of
the budget is in proportion to the cube root of the error that it would add with all of
it. A set of one has Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmech.arrays import Floats, Subset
from mmech.error.pairs import gain
from mmech.error.result import StrategyResult
from mmech.exceptions import UnsupportedWorkloadError
from mmech.integer_strategy import IntegerStrategy
from mmech.limits import LIMITS
from mmech.noise import K_NORM
from mmech.noise.norm import norm_noise_components
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.known import normal_form
from mmech.operators.marginals import Marginals, Residuals, marginals_of
from mmech.operators.subsets import downward_closure, marginal_precisions
from mmech.structure.spectrum import mean_spectrum

VARIANCE_FLOOR = 1e-24
"""Smallest variance of noise that least squares weights by."""

WIDE = 2**30
"""A scale at which noise of whole numbers has the variance of continuous noise."""


@dataclass(frozen=True, eq=False)
class EqualTotals:
    """Marginals in sets of equal totals, and what is known of their noise.

    `totals` holds the variance of the noise on the total of every set, `contrasts` the
    variance of a contrast of unit length in every marginal.
    """

    domain_shape: tuple[int, ...]
    sets: tuple[tuple[Subset, ...], ...]
    totals: Floats
    contrasts: Floats

    @classmethod
    def of(
        cls,
        domain_shape: tuple[int, ...],
        sets: Sequence[Sequence[Subset]],
        scales: Sequence[Any],
    ) -> EqualTotals:
        """Return sets of attributes of marginals, with noise of these scales."""
        cells = cells_of(domain_shape, sets)
        found = list(map(norm_noise_components, scales, cells))
        return cls(
            domain_shape,
            tuple(map(tuple, sets)),
            np.maximum([total for total, _ in found], VARIANCE_FLOOR),
            np.maximum(np.concatenate([c for _, c in found]), VARIANCE_FLOOR),
        )

    @property
    def marginals(self) -> Marginals:
        """The marginals, with weights by which least squares weighs their contrasts."""
        weights = 1 / np.sqrt(self.contrasts)
        measured = [a for group in self.sets for a in group]
        return Marginals(self.domain_shape, dict(zip(measured, weights, strict=True)))

    @property
    def shares(self) -> Floats:
        """Share of the total of every set in the best estimate of the total."""
        precisions = 1 / self.totals
        return np.asarray(precisions / precisions.sum())

    def residuals(self) -> Residuals:
        """Return the strategy whose noise of variance one makes the same errors."""
        weights = self.marginals.weights
        subsets = tuple(downward_closure(weights, self.domain_shape))
        terms = ((a, weight**2) for a, weight in weights.items())
        squares = marginal_precisions(terms, subsets, self.domain_shape)
        squares[subsets.index(())] = (1 / self.totals).sum()
        roots = np.sqrt(squares).tolist()
        return Residuals(self.domain_shape, dict(zip(subsets, roots, strict=True)))

    def weighed(self, values: ArrayLike) -> tuple[Marginals, Floats]:
        """Return what ordinary least squares makes the best estimates of.

        Contrasts say nothing of the total, and the total nothing of them: tables are
        moved to the best estimate of the total, then weighed by their contrasts. Values
        are of shape (p,) or (p, k), before and after.
        """
        array = np.asarray(values, np.float64)
        cells = cells_of(self.domain_shape, self.sets)
        stops = np.cumsum(np.concatenate(cells))
        tables = np.split(array, stops[:-1])
        firsts = np.cumsum([0, *map(len, cells[:-1])])
        totals = np.array([tables[first].sum(axis=0) for first in firsts])
        best = np.tensordot(self.shares, totals, axes=1)
        apart = np.repeat(best - totals, list(map(len, cells)), axis=0)
        weights = self.marginals.weights.values()
        weighed = [
            weight * (table + moved / len(table))
            for table, moved, weight in zip(tables, apart, weights, strict=True)
        ]
        return self.marginals, np.concatenate(weighed)


def as_sets(strategy: QueryMatrix) -> list[list[Subset]]:
    """Return the attributes of marginals, together where equal weights follow."""
    measured = marginals_of(strategy)
    if measured is None:
        raise _unsupported(strategy)
    used = [(a, abs(weight)) for a, weight in measured.weights.items() if weight != 0]
    return [[a for a, _ in run] for _, run in groupby(used, key=itemgetter(1))]


def measured_sets(
    released: IntegerStrategy,
) -> tuple[tuple[int, ...], list[list[Subset]]]:
    """Return the domain of measured marginals, and those in runs of equal weight."""
    form = marginals_of(released.form)
    if form is None:
        raise _unsupported(released.form)
    each = zip(form.weights, released.blocks, strict=True)
    whole = {subset: block.weight for subset, block in each}
    return form.domain_shape, as_sets(Marginals(form.domain_shape, whole))


def _unsupported(strategy: QueryMatrix) -> UnsupportedWorkloadError:
    return UnsupportedWorkloadError(
        "K-norm noise with equal totals is for strategies of marginals, got "
        f"{strategy!r}; use noise='laplace', or measure Marginals"
    )


def cells_of(
    domain_shape: tuple[int, ...], sets: Sequence[Sequence[Subset]]
) -> list[list[int]]:
    """Return the number of cells of every marginal of every set."""
    return [[product_of(domain_shape[i] for i in a) for a in group] for group in sets]


def of_residuals(strategy: QueryMatrix) -> Residuals:
    r"""Return the residuals whose gain is the loss of a strategy under K-norm noise.

    The loss is the expected error at :math:`\epsilon`, with continuous noise, times
    :math:`\epsilon^2 / 2`, as it is of Laplace noise. Consecutive marginals of equal
    weight are a set.
    """
    sets = as_sets(strategy)
    measured: Any = marginals_of(strategy)
    weights = [Fraction(abs(measured.weights[group[0]])) for group in sets]
    scales = [WIDE * sum(weights) / weight for weight in weights]
    found = EqualTotals.of(measured.domain_shape, sets, scales).residuals()
    factor = math.sqrt(2) * WIDE
    return Residuals(
        found.domain_shape, {s: factor * w for s, w in found.weights.items()}
    )


# ---- the best sets -----------------------------------------------------------

TEMPLATE = "equal_totals"

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
    sizes = normal_form(workload).domain_shape
    asked = None if sizes is None else mean_spectrum(workload, sizes)
    if sizes is None or asked is None or any(len(subset) > 1 for subset in asked):
        raise UnsupportedWorkloadError(
            f"template {TEMPLATE!r} is for queries of single attributes, got "
            f"{workload!r}; use template 'marginals'"
        )
    energies = {s[0]: value * (sizes[s[0]] - 1) for s, value in asked.items() if s}
    if len(energies) < 2:
        raise UnsupportedWorkloadError(
            f"template {TEMPLATE!r} needs queries of at least two attributes, got "
            f"{workload!r}; use template 'marginals'"
        )
    order = sorted(energies, key=lambda i: (energies[i], sizes[i], i))
    tables: list[list[Subset]] = [
        [(i,) for i in part] for part in _cut(order, energies, sizes)
    ]
    total: list[list[Subset]] = [[()]]
    found = []
    for sets in (tables, total + tables):
        weights = _weights(sets, energies | {None: asked.get((), 0.0)}, sizes)
        each = zip(sets, weights, strict=True)
        strategy = Marginals(sizes, {a: w for group, w in each for a in group})
        found.append((gain(workload, of_residuals(strategy)), strategy))
    loss, strategy = min(found, key=itemgetter(0))
    number = "one set" if len(tables) == 1 else f"{len(tables)} sets"
    also = ", and the total" if () in strategy.weights else ""
    message = f"{len(order)} marginals in {number} of equal totals{also}"
    return StrategyResult(strategy, TEMPLATE, loss, message=message, noise=K_NORM.name)


def _cut(order: list[int], energies: dict[int, float], sizes: Any) -> list[list[int]]:
    """Return consecutive sets whose errors have the least sum of cube roots."""
    each = np.array([energies[i] for i in order])
    m = np.array([sizes[i] for i in order])
    shapes = each * (2 * m - 1) / (m * np.square(m + 1.0))
    dimensions, spreads = (
        np.append(0, np.cumsum(values)) for values in (m - 1, shapes)
    )
    best, before = np.zeros(len(order) + 1), np.zeros(len(order) + 1, np.int64)
    for stop in range(1, len(order) + 1):
        d = 1 + dimensions[stop] - dimensions[:stop]
        costs = (d + 1) * (d + 2) * (spreads[stop] - spreads[:stop])
        costs[d > LIMITS.norm_dimensions] = np.inf
        costs[-1] = 2 * each[stop - 1]  # Laplace noise
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
    """
    found = EqualTotals.of(sizes, sets, [WIDE] * len(sets))
    parts = found.contrasts * [energies[a[0]] if a else 0 for g in sets for a in g]
    errors = np.add.reduceat(parts, np.cumsum([0, *map(len, sets[:-1])])) / WIDE**2
    totals = found.totals / WIDE**2
    weights = np.where(errors > 0, np.cbrt(errors), 0.2 * np.cbrt(errors).sum())
    for _ in range(STEPS):
        precisions = np.square(weights) / totals
        shares = energies[None] * (precisions / precisions.sum()) ** 2 * totals
        weights = np.cbrt(errors + shares)
    return told_apart((weights / weights.max()).tolist())


def told_apart(weights: Sequence[float]) -> list[float]:
    """Return weights of sets of which no two in a row are equal: these would be one.

    Every other one has a little more, which adds less than a thousandth to the error.
    """
    apart = [*weights]
    for j in range(1, len(apart)):
        if abs(apart[j] - apart[j - 1]) < APART / 2 * apart[j]:
            apart[j] = apart[j - 1] * (1 + APART * (-1) ** (j + 1))
    return apart
