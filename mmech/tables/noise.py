r"""The law of the errors of tables by least squares, exactly.

An estimated count is the exact one plus a sum of independent noises with known
coefficients: whatever the records are, its error has one law. For a sum over m_i values
of every attribute i of a table t, the coefficient of an entry e of a measured marginal
a with weight θ_a is

.. math:: \sum_{s \subseteq a \cap t} \frac{\theta_a}{n_a \kappa_s} \frac{n_s}{n_t}
          \prod_{i \in t \setminus s} m_i
          \prod_{i \in s} \left([e_i \text{ counts}] - \frac{m_i}{n_i}\right), \qquad
          \kappa_s = \sum_{a \supseteq s} \frac{\theta_a^2}{n_a}

so that it only depends on which attributes of the entry count. The characteristic
function of the error is a product over these, and is inverted numerically.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain, combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.mechanism import MatrixMechanism
from mmech.operators.base import product_of
from mmech.operators.marginals import Marginals
from mmech.reconstruction import MarginalEstimate

__all__ = ["ErrorLaw", "Noise"]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

VARIANCE_FLOOR = 1e-24
"""Smallest variance of noise that least squares weights by."""

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
        That of the error with a small uniform part added, which fills the gaps between
        the values of an error that is whole.
    characteristic : ndarray
        Characteristic function of this sum at `FREQUENCIES` over `scale`.
    """

    standard_error: float
    scale: float
    characteristic: Floats

    def probability(self, half: float) -> float:
        r"""Return P(\|error\| <= half)."""
        reach = half / self.scale
        kernel = np.sin(FREQUENCIES * reach) / FREQUENCIES
        step = FREQUENCIES[1] - FREQUENCIES[0]
        # The trapezoidal rule, with the limit `reach` of the kernel at zero.
        mass = float((kernel * self.characteristic).sum()) + reach / 2
        return 2 / math.pi * float(step) * mass

    @lru_cache(maxsize=8)  # noqa: B019  laws are few, and live as long as their tables
    def half_width(self, level: float) -> float:
        """Return what the magnitude of the error stays below with a probability."""
        low, high = 0.0, 1.0 / math.sqrt(1.0 - level)  # Chebyshev
        for _ in range(40):
            middle = (low + high) / 2
            if self.probability(middle * self.scale) < level:
                low = middle
            else:
                high = middle
        return high * self.scale


class Noise:
    """What is known of the errors of tables that a mechanism of marginals measures.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures marginals.
    """

    def __init__(self, mechanism: MatrixMechanism) -> None:
        form, law = mechanism.released.form, mechanism.law
        assert isinstance(form, Marginals)
        self.domain_shape = sizes = form.domain_shape
        factor = mechanism.relation.factor**law.power
        weights = np.empty(form.shape[0], np.int64)
        for start, stop, weight in mechanism.released.row_weights():
            weights[start:stop] = weight
        self._pure = law.norm == "L1"
        self._blocks: list[tuple[Subset, int, float, float]] = []
        start = 0
        for attributes in form.weights:
            own = Fraction(mechanism.released.sensitivity, int(weights[start]))
            parameter = law.parameter(factor * own, mechanism.cost)
            cells = product_of(sizes[i] for i in attributes)
            variance = max(float(law.variance(parameter)), VARIANCE_FLOOR)
            self._blocks.append((attributes, cells, variance, float(parameter)))
            start += cells
        self._laws: dict[tuple[Subset, Subset], ErrorLaw] = {}
        self._precisions: dict[Subset, float] = {}

    def estimate(self, values: ArrayLike) -> MarginalEstimate:
        """Return the least-squares estimate from measured values, (p,) or (p, k)."""
        array = np.asarray(values, np.float64)
        weights = {a: 1 / math.sqrt(variance) for a, _, variance, _ in self._blocks}
        sizes = [cells for _, cells, _, _ in self._blocks]
        factors = np.repeat(list(weights.values()), sizes)
        strategy = Marginals(self.domain_shape, weights)
        return MarginalEstimate(strategy, (array.T * factors).T)

    def _precision(self, subset: Subset) -> float:
        if subset not in self._precisions:
            self._precisions[subset] = math.fsum(
                1 / (variance * cells)
                for attributes, cells, variance, _ in self._blocks
                if set(subset) <= set(attributes)
            )
        return self._precisions[subset]

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
            self._laws[subset, counted] = self._law(subset, counted)
        return self._laws[subset, counted]

    def _law(self, subset: Subset, counted: Subset) -> ErrorLaw:
        terms = np.array(
            list(self._terms(subset, dict(zip(subset, counted, strict=True))))
        )
        coefficients, numbers, variances, parameters = terms.T
        parts = np.square(coefficients) * variances
        variance = float((numbers * parts).sum())
        uniform = float(np.abs(coefficients).max())  # the width of the widest gap
        scale = math.sqrt(variance + uniform**2 / 12)
        frequencies = FREQUENCIES / scale
        large = (parts > (SMALL_SHARE * scale) ** 2) & self._pure
        gaussian = float((numbers * parts)[~large].sum())
        logs = -0.5 * gaussian * np.square(frequencies)
        for coefficient, number, parameter in zip(
            coefficients[large], numbers[large], parameters[large], strict=True
        ):
            half = np.sin(frequencies * coefficient / 2) / math.sinh(0.5 / parameter)
            logs -= number * np.log1p(np.square(half))
        smooth = np.sinc(frequencies * uniform / (2 * math.pi))
        return ErrorLaw(math.sqrt(variance), scale, np.exp(logs) * smooth)

    def _terms(
        self, subset: Subset, counted: dict[int, int]
    ) -> Iterator[tuple[float, int, float, float]]:
        """Yield coefficients of the noise, how many entries have them, and its law."""
        sizes = self.domain_shape
        for attributes, cells, variance, parameter in self._blocks:
            common = [i for i in subset if i in attributes]
            left = product_of(sizes[i] for i in attributes if i not in common)
            for matching in _subsets(common):
                coefficient, number = 0.0, left
                for i in common:
                    own = counted[i]
                    number *= own if i in matching else sizes[i] - own
                if number == 0:
                    continue
                for part in _subsets(common):
                    share = 1 / (variance * cells * self._precision(part))
                    for i in subset:
                        even = counted[i] / sizes[i]
                        share *= even if i not in part else (i in matching) - even
                    coefficient += share
                if coefficient:
                    yield coefficient, number, variance, parameter


def _subsets(attributes: Sequence[int]) -> Iterator[Subset]:
    sizes = range(len(attributes) + 1)
    return chain.from_iterable(combinations(attributes, size) for size in sizes)
