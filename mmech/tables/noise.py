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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmech.arrays import Floats, Subset
from mmech.mechanism import MatrixMechanism
from mmech.noise import Law
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.reconstruction import MarginalEstimate

VARIANCE_FLOOR = 1e-24
"""Smallest variance of noise that least squares weights by."""

SLACK = 1e-6
"""Rounding errors of estimates, in counts: whole numbers must not be missed by them."""

SMALL_SHARE = 0.01
"""Terms with less than this share of the standard error are one Gaussian together."""

FREQUENCIES = np.linspace(0.0, 9.0, 1801)[1:]
"""Where the characteristic function of a standardised error is looked at. The error of
a single measured count reaches furthest: it is below 0.025 beyond, and alternates."""


@dataclass(frozen=True, eq=False)
class ErrorLaw:
    """The law of an error, symmetric about zero.

    Attributes
    ----------
    standard_error : float
        In counts.
    scale : float
        Standard error with a small uniform part added, which fills the gaps between
        the values of an error that is whole.
    characteristic : ndarray
        Characteristic function of this sum at `FREQUENCIES` over `scale`.
    apart : float, default=None
        How far an error is from whole numbers at most, where it is near them; ``None``
        where it is not.
    step : float, default=0.0
        Distance of the values that an error takes, where it is known.
    """

    standard_error: float
    scale: float
    characteristic: Floats
    apart: float | None = None
    step: float = 0.0
    _widths: dict[float, float] = field(default_factory=dict, repr=False)

    def probability(self, half: float) -> float:
        r"""Return P(\|error\| <= half)."""
        reach = half / self.scale
        kernel = np.sin(FREQUENCIES * reach) / FREQUENCIES
        step = FREQUENCIES[1] - FREQUENCIES[0]
        # The trapezoidal rule, with the limit `reach` of the kernel at zero.
        mass = float((kernel * self.characteristic).sum()) + reach / 2
        return 2 / math.pi * float(step) * mass

    def at(self, level: float, nodes: Any) -> tuple[float, float]:
        """Return the standard error and half the width, which all nodes share."""
        return self.standard_error, self.half_width(level)

    def half_width(self, level: float) -> float:
        """Return what the magnitude of the error stays below with a probability."""
        if not self.scale:  # a variance may be too small for a float
            return 0.0
        if level in self._widths:
            return self._widths[level]
        from scipy.optimize import brentq

        def beyond(half: float) -> float:
            return self.probability(half) - level

        half = self.scale / math.sqrt(1.0 - level)  # Chebyshev
        if beyond(half) > 0:
            half = float(brentq(beyond, 0.0, half))
        half += self.step / 2
        if self.apart is not None:  # probabilities do not change between whole numbers
            half = math.ceil(half - 0.5) + self.apart
        self._widths[level] = half
        return half


NO_ERROR = ErrorLaw(0.0, 0.0, np.ones(FREQUENCIES.size))
"""The law of the error of a count that is known."""


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


def step_of(coefficients: Floats, spreads: Floats) -> float:
    """Return the distance of the values that a weighted sum of whole noise takes.

    It is a common divisor of the coefficients, but for a little noise: Euclid's
    algorithm finds it. A probability jumps by as much as a value has, which smoothing
    shares out.

    Parameters
    ----------
    coefficients : ndarray
        Weights of noise.
    spreads : ndarray
        Standard deviation of all noise of each weight together.
    """
    sizes = np.abs(coefficients)
    step = float(sizes.max(initial=0.0))
    for size, spread in zip(sizes.tolist(), spreads.tolist(), strict=True):
        value = size
        while (left := abs(value - step * round(value / step))) * spread > step / 4:
            step, value = left, step
    return step


def error_law(
    law: Law,
    coefficients: Floats,
    numbers: Floats,
    variances: Floats,
    parameters: Floats,
    apart: float | None = None,
) -> ErrorLaw:
    """Return the law of a weighted sum of independent noise.

    Parameters
    ----------
    law : Law
        Of the noise of one row.
    coefficients, numbers, variances, parameters : ndarray
        Weights, how many rows have each, and the variances and parameters of their
        noise.
    apart : float, optional
        As in `ErrorLaw`.
    """
    if not coefficients.size:
        return NO_ERROR
    parts = np.square(coefficients) * variances
    variance = float((numbers * parts).sum())
    uniform = float(np.abs(coefficients).max())  # the width of the widest gap
    scale = math.sqrt(variance + uniform**2 / 12)
    frequencies = FREQUENCIES / scale
    large = parts > (SMALL_SHARE * scale) ** 2
    gaussian = float((numbers * parts)[~large].sum())
    found = np.exp(-0.5 * gaussian * np.square(frequencies))
    equal, groups = np.unique(
        np.column_stack([coefficients[large], parameters[large]]),
        axis=0,
        return_inverse=True,
    )
    together = np.bincount(groups.ravel(), weights=numbers[large])
    for (coefficient, parameter), number in zip(equal, together, strict=True):
        own = law.characteristic(parameter, frequencies * coefficient)
        found *= own**number
    smooth = np.sinc(frequencies * uniform / (2 * math.pi))
    return ErrorLaw(math.sqrt(variance), scale, found * smooth, apart)


def subsets_of(places: Sequence[int]) -> Iterator[Subset]:
    """Yield all subsets, smallest first."""
    sizes = range(len(places) + 1)
    return chain.from_iterable(combinations(places, size) for size in sizes)
