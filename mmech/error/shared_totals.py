r"""Marginals under K-norm noise with equal totals, as strategies with a closed form.

Marginals that are measured together, a *set*, have noise with equal totals
(`mmech.noise.norm`). A total and the contrasts of every marginal are uncorrelated under
it. The covariance is the same as if residuals had been measured: the interactions s ≠ ∅
with precision :math:`n_s \sum_{a \supseteq s} 1 / (n_a c_a)` and the total with the
precisions :math:`1 / \mathrm{Var}(T)` of all sets together. So errors are those of
`Residuals`. Least squares treats the sets as marginals once their totals are equal.
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
from mmech.exceptions import UnsupportedWorkloadError
from mmech.integer_strategy import IntegerStrategy
from mmech.noise.norm import norm_noise_components
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.marginals import Marginals, marginals_of
from mmech.operators.residuals import Residuals
from mmech.operators.subsets import downward_closure, marginal_precisions

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
            np.maximum(np.concatenate([own for _, own in found]), VARIANCE_FLOOR),
        )

    @property
    def marginals(self) -> Marginals:
        """The marginals, with weights by which least squares weighs their contrasts."""
        weights = 1 / np.sqrt(self.contrasts)
        measured = [a for own in self.sets for a in own]
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
        squares = marginal_precisions(
            ((a, weight**2) for a, weight in weights.items()),
            subsets,
            self.domain_shape,
        )
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
            weight * (table + own / len(table))
            for table, own, weight in zip(tables, apart, weights, strict=True)
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
    return [[product_of(domain_shape[i] for i in a) for a in own] for own in sets]


def of_residuals(strategy: QueryMatrix) -> Residuals:
    r"""Return the residuals whose gain is the loss of a strategy under K-norm noise.

    The loss is the expected error at :math:`\epsilon`, with continuous noise, times
    :math:`\epsilon^2 / 2`, as it is of Laplace noise. Consecutive marginals of equal
    weight are a set.
    """
    sets = as_sets(strategy)
    measured: Any = marginals_of(strategy)
    weights = [Fraction(abs(measured.weights[own[0]])) for own in sets]
    scales = [WIDE * sum(weights) / weight for weight in weights]
    found = EqualTotals.of(measured.domain_shape, sets, scales).residuals()
    factor = math.sqrt(2) * WIDE
    return Residuals(
        found.domain_shape, {s: factor * w for s, w in found.weights.items()}
    )
