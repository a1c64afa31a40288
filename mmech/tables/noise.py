r"""The law of the errors of tables by least squares, exactly.

An estimated count is the exact one plus a sum of independent noises with known
coefficients: whatever the records are, its error has one law. An entry of a table t is
a sum over m_i values of every attribute i. An entry e of a measured marginal a with
weight θ_a has the coefficient

.. math:: \sum_{s \subseteq a \cap t} \frac{\theta_a}{n_a \kappa_s} \frac{n_s}{n_t}
          \prod_{i \in t \setminus s} m_i
          \prod_{i \in s} \left([e_i \text{ counts}] - \frac{m_i}{n_i}\right), \qquad
          \kappa_s = \sum_{a \supseteq s} \frac{\theta_a^2}{n_a}

so that it only depends on which attributes of the entry count. The characteristic
function of the error is a product over these, and is inverted numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmech.arrays import Floats, Subset
from mmech.mechanism import MatrixMechanism
from mmech.noise.tails import ErrorLaw, error_law, step_of
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.reconstruction import MarginalEstimate
from mmech.tables.levels import subsets_of

VARIANCE_FLOOR = 1e-24
"""Smallest variance of noise that least squares weights by."""


class Noise:
    """What is known of the errors of tables that a mechanism of marginals measures.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures marginals.
    exact : mapping of tuple to ndarray, default={}
        Tables that are known, and all their margins.
    """

    def __init__(
        self, mechanism: MatrixMechanism, exact: Mapping[Subset, Any] = {}
    ) -> None:
        self._exact = exact
        form: Any = mechanism.released.form  # of marginals, these are `Marginals`
        law = mechanism.law
        self.domain_shape = sizes = form.domain_shape
        factor = mechanism.relation.factor**law.power
        self._law = law
        self._weights: dict[Subset, float] = {}
        rows: list[tuple[int, float, float]] = []
        released = mechanism.released
        for attributes, block in zip(form.weights, released.blocks, strict=True):
            own = Fraction(released.sensitivity, block.weight)
            parameter = law.parameter(factor * own, mechanism.cost)
            cells = product_of(sizes[i] for i in attributes)
            variance = max(float(law.variance(parameter)), VARIANCE_FLOOR)
            self._weights[attributes] = 1 / math.sqrt(variance)
            rows.append((cells, variance, float(parameter)))
        # One entry per measured marginal: its cells, and the law of its noise.
        self._cells, self._variances, self._parameters = np.array(rows).T
        self._shares = 1 / (self._variances * self._cells)
        self._holds = np.array(
            [
                [i in attributes for i in range(len(sizes))]
                for attributes in form.weights
            ]
        )
        self._laws: dict[tuple[Subset, Subset], ErrorLaw] = {}
        self._precisions: dict[Subset, float] = {}

    def estimate(self, values: ArrayLike) -> MarginalEstimate:
        """Return the least-squares estimate from measured values, (p,) or (p, k)."""
        array = np.asarray(values, np.float64)
        factors = np.repeat(list(self._weights.values()), self._cells.astype(np.int64))
        strategy = Marginals(self.domain_shape, self._weights)
        return MarginalEstimate(strategy, (array.T * factors).T).given(self._exact)

    def _precision(self, subset: Subset) -> float:
        """Return κ of the interactions of a subset."""
        if subset in self._exact:
            return math.inf
        if subset not in self._precisions:
            held = self._holds[:, list(subset)].all(axis=1)
            self._precisions[subset] = float(self._shares[held].sum())
        return self._precisions[subset]

    def contrast_variance(self, subset: Subset) -> float:
        """Return the variance of an orthonormal contrast of interactions in a table."""
        cells = product_of(self.domain_shape[i] for i in subset)
        return 1 / (cells * self._precision(subset))

    def measures(self, subset: Subset) -> bool:
        """Return whether a table was measured, so that it has intervals."""
        held = self._holds[:, list(subset)].all(axis=1)
        return bool(held.any()) or subset in self._exact

    def spread(self, subset: Subset) -> float:
        """Return the variance of the error of a count."""
        return self.law(subset).standard_error ** 2

    def law(self, subset: Subset, together: Subset | None = None) -> ErrorLaw:
        """Return the law of the error of an entry of a table.

        Parameters
        ----------
        subset : tuple of int
            Attributes of the table.
        together : tuple of int, optional
            How many values of each attribute the entry counts together; 1 by default.
        """
        counted = together or (1,) * len(subset)
        if (subset, counted) not in self._laws:
            self._laws[subset, counted] = self._error(subset, counted)
        return self._laws[subset, counted]

    def _error(self, subset: Subset, counted: Subset) -> ErrorLaw:
        coefficients, numbers, variances, parameters = self._terms(subset, counted)
        whole = 0.0 if self._cells.size == 1 and not self._exact else None
        law = error_law(self._law, coefficients, numbers, variances, parameters, whole)
        if whole == 0.0:
            return law
        return replace(law, step=step_of(coefficients, np.sqrt(numbers * variances)))

    def _terms(self, subset: Subset, counted: Subset) -> list[Floats]:
        """Return coefficients of noise, how many entries have them, and its law."""
        held = self._holds[:, list(subset)] @ (1 << np.arange(len(subset)))
        parts = []
        for mask in np.unique(held).tolist():
            own = held == mask
            common = [j for j in range(len(subset)) if mask >> j & 1]
            inside = product_of(self.domain_shape[subset[j]] for j in common)
            for coefficient, number in self._patterns(
                subset, counted, common, lambda part: 1 / self._precision(part)
            ):
                parts.append(
                    [
                        coefficient * self._shares[own],
                        number * self._cells[own] / inside,
                        self._variances[own],
                        self._parameters[own],
                    ]
                )
        return [np.concatenate(column) for column in zip(*parts, strict=True)] or [
            np.zeros(0)
        ] * 4

    def _patterns(
        self,
        subset: Subset,
        counted: Subset,
        common: Sequence[int],
        variance: Callable[[Subset], Any],
    ) -> Iterator[tuple[Any, int]]:
        """Yield what an entry counts for, and how many do, by which attributes match.

        Without the share of its marginal. `common` is what this has in common with the
        table, as places in `subset`; `variance` is 1 / κ of interactions.
        """
        sizes = [self.domain_shape[i] for i in subset]
        for matching in subsets_of(common):
            number = product_of(
                counted[j] if j in matching else sizes[j] - counted[j] for j in common
            )
            coefficient: Any = 0.0
            for part in subsets_of(common):
                share = variance(tuple(subset[j] for j in part))
                for j, (size, own) in enumerate(zip(sizes, counted, strict=True)):
                    even = own / size
                    share = share * ((j in matching) - even if j in part else even)
                coefficient = coefficient + share
            if number and np.any(coefficient):
                yield coefficient, number
