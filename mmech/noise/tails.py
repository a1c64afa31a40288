"""Half the widths of intervals: the laws of sums of independent noise, exactly.

The error of an answer is a sum of noise with known coefficients. Its characteristic
function is a product over these, and is inverted numerically.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmech.arrays import Floats, Integers
from mmech.noise.laws import Law

SLACK = 1e-6
"""Rounding errors of estimates, in counts: whole numbers must not be missed by them."""

SMALL_SHARE = 0.01
"""Terms with less than this share of the standard error are one Gaussian together."""

FREQUENCIES = np.linspace(0.0, 9.0, 1801)[1:]
"""Where the characteristic function of a standardised error is looked at. The error of
a single measured count reaches furthest: it is below 0.025 beyond, and alternates."""

ALIKE = 0.005
"""Cells whose errors are made of noise in about the same shares have one law: the
square roots of shares are rounded to multiples of this."""

MANY = 20_000
"""Counts whose noise together is normal: none is more than a hundredth of it."""

WHOLE = 1e-8
"""Coefficients this near to whole numbers are whole."""

LEAST_SHARE = 1e-12
"""Share of the variance of noise: a smaller variance of a count is rounding."""

EXACT_LAWS = 2**16
"""Most coefficients of rows whose laws are all inverted, in under a second."""

FINE, PEAKS = 1e4, 0.05
"""Beyond that, noise must have at least this variance, in its own steps. Laws are alike
by the logarithms of fourth moments, in multiples of the second. Half widths of two,
over standard errors, were at most .8 % apart for ranges of one and two attributes."""

FEW, STEP = 256, 1.01
"""Where an error has more different coefficients, their magnitudes are rounded up to
powers of this step: an interval gets longer, by at most as much."""


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

    def bound(self, level: float) -> float:
        """Return a half width with what frequencies beyond the last may take off."""
        half = self.half_width(level)
        if not half:
            return 0.0
        last = FREQUENCIES[-1] * half / self.scale
        level += 2 / math.pi * abs(float(self.characteristic[-1])) / last
        return self.half_width(level) if level < 1 else math.inf


NO_ERROR = ErrorLaw(0.0, 0.0, np.ones(FREQUENCIES.size))
"""The law of the error of a count that is known."""


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
        value = law.characteristic(parameter, frequencies * coefficient)
        found *= value**number
    smooth = np.sinc(frequencies * uniform / (2 * math.pi))
    return ErrorLaw(math.sqrt(variance), scale, found * smooth, apart)


@dataclass(frozen=True, eq=False)
class Tails:
    """The laws of the errors of some cells, each a sum of noise that is told apart.

    What terms leave of a variance is noise of many other counts. It is taken for a
    normal error, and for the noise of one more count: the wider law is kept.

    Attributes
    ----------
    law : Law
        Of the noise of one measured count.
    variances : ndarray, shape (cells,)
        Of the errors.
    coefficients, numbers : ndarray, shape (terms, cells)
        Magnitudes of coefficients of noise, and how many counts have each.
    row_variances, parameters : ndarray, shape (terms,)
        The variance and the parameter of the noise of one count of every term.
    which : ndarray of int, optional
        The cell here that stands for each of a table; all stand for themselves.
    convex : bool, default=False
        Whether half widths are convex in the coefficients: these count as a step.
    """

    law: Law
    variances: Floats
    coefficients: Floats
    numbers: Floats
    row_variances: Floats
    parameters: Floats
    which: Any = ...
    convex: bool = False
    _widths: dict[float, Floats] = field(default_factory=dict, repr=False)

    def weighted(self, *weights: float) -> Tails:
        """Return the laws of weighted sums of independent errors of these laws."""
        sizes = np.abs([weight for weight in weights if weight])
        return Tails(
            self.law,
            self.variances * float(sizes @ sizes),
            np.vstack([size * self.coefficients for size in sizes]),
            np.tile(self.numbers, (sizes.size, 1)),
            np.tile(self.row_variances, sizes.size),
            np.tile(self.parameters, sizes.size),
            self.which,
            convex=True,
        )

    @property
    def standard_error(self) -> float:
        """Root of the mean squared standard error."""
        return float(np.sqrt(self.variances[self.which].mean()))

    def half_width(self, level: float) -> float:
        """Return the mean half width of the intervals of a table."""
        return float(self.at(level, slice(None))[1].mean())

    def at(self, level: float, cells: Any) -> tuple[Floats, Floats]:
        """Return standard errors, and half the widths of intervals, of cells."""
        errors = np.sqrt(self.variances)
        if level not in self._widths:
            widths, some = np.zeros(errors.size), np.flatnonzero(errors)
            roots = self.coefficients[:, some] * np.sqrt(
                self.numbers[:, some] * self.row_variances[:, None]
            )
            shares = np.rint(roots / errors[some] / ALIKE)
            # In place of unique columns: a number of each, exact for all that occur.
            kind = np.zeros(some.size, np.int64)
            numbers = np.rint(4 * np.log2(self.numbers[:, some]))
            for row in (*shares, *numbers) if some.size > 1 else ():
                values, place = np.unique(row, return_inverse=True)
                if values.size > 1:
                    kind = kind * values.size + place
                    kind = np.unique(kind, return_inverse=True)[1]
            _, first, kind = np.unique(kind, return_index=True, return_inverse=True)
            found = [self._width(k, level) / errors[k] for k in some[first].tolist()]
            widths[some] = np.array(found)[kind] * errors[some] if found else 0.0
            self._widths[level] = widths
        return errors[self.which][cells], self._widths[level][self.which][cells]

    def _width(self, cell: int, level: float) -> float:
        """Return what the error of a cell stays below with a probability."""
        c, numbers = self.coefficients[:, cell], self.numbers[:, cell]
        spreads = np.sqrt(numbers * self.row_variances)
        most = int((c * spreads).argmax())
        variance, total = self.row_variances[most], self.variances[cell]
        rest = max(total - float(np.square(c * spreads).sum()), 0.0)
        terms: Any = c, numbers, self.row_variances, self.parameters
        if rest < WHOLE * total:  # all noise is told apart
            whole = not self.convex and np.abs(c - np.rint(c)).max() < WHOLE
            laws = [error_law(self.law, *(*terms, 0.0 if whole else None))]
        else:
            whole, parameter = False, self.parameters[most]
            laws = []
            for number in (MANY, 1) if rest > total / MANY else (1,):
                size = math.sqrt(rest / (number * variance))
                more: Any = zip(terms, (size, number, variance, parameter), strict=True)
                every: Any = [np.append(*pair) for pair in more]
                laws.append(error_law(self.law, *every))
        half = max(law.half_width(level) for law in laws)
        if whole or not c[most]:
            return half
        return half + (float(c.max()) if self.convex else step_of(c, spreads)) / 2


def laws_of_rows(
    law: Law,
    coefficients: Floats,
    variances: Floats,
    parameters: Floats,
    least: float = 0.0,
) -> list[ErrorLaw]:
    """Return the law of every row of coefficients of all noise.

    Rows of the same four moments have the same coefficients in another order.

    Parameters
    ----------
    law : Law
    coefficients : ndarray, shape (rows, p)
    variances, parameters : ndarray, shape (p,)
        Of the noise of every measured count.
    least : float, default=0.0
        A row with no larger variance has no error, but for rounding.
    """
    sizes = np.abs(coefficients)
    power, moments = variances * sizes, []
    for _ in range(4):
        moments.append(power.sum(axis=1))
        power = power * sizes
    rounded = np.round(np.log(np.maximum(moments, 1e-300)), 7)
    _, first, which = np.unique(rounded, axis=1, return_index=True, return_inverse=True)
    _, kind = np.unique(parameters, return_inverse=True)
    found: dict[bytes, ErrorLaw] = {}
    laws = [
        _law_of_row(law, coefficients[k], variances, parameters, kind, least, found)
        for k in first
    ]
    return [laws[k] for k in which.ravel()]


def half_widths(
    law: Law, coefficients: Floats, variances: Floats, parameters: Floats, level: float
) -> Floats:
    """Return half the widths of intervals of rows of noise, (rows,).

    Many rows share laws with those that are alike, and are longer by `STEP` for what
    they differ by. Their widths are infinite where the noise is coarse.

    Parameters
    ----------
    law, coefficients, variances, parameters
        As in `laws_of_rows`.
    level : float
    """
    if coefficients.size <= EXACT_LAWS:
        laws = laws_of_rows(law, coefficients, variances, parameters)
        return np.array([row.bound(level) for row in laws])
    if variances.min() < FINE:
        return np.full(len(coefficients), math.inf)
    parts = np.square(coefficients) * variances
    errors = np.sqrt(parts.sum(axis=1))
    peaks = np.square(parts).sum(axis=1) / np.maximum(errors, 1e-150) ** 4
    kinds = np.rint(np.log(np.maximum(peaks, 1e-300)) / PEAKS)
    _, first, which = np.unique(kinds, return_index=True, return_inverse=True)
    laws = laws_of_rows(law, coefficients[first], variances, parameters)
    widths = np.array([row.bound(level) for row in laws])
    return (STEP * widths / np.maximum(errors[first], 1e-150))[which] * errors


def _law_of_row(
    law: Law,
    coefficients: Floats,
    variances: Floats,
    parameters: Floats,
    kind: Integers,
    least: float,
    found: dict[bytes, ErrorLaw],
) -> ErrorLaw:
    """Return the law of a row; equal ones are looked for once."""
    variance = float(np.square(coefficients) @ variances)
    if variance <= least:
        return NO_ERROR
    largest = np.abs(coefficients).max()
    kept = np.abs(coefficients) > 1e-9 * largest
    sizes = (np.abs(coefficients[kept]) / largest).round(9)
    if np.unique(sizes).size > FEW:
        sizes = STEP ** np.ceil(np.log(sizes) / math.log(STEP) - 1e-6)
    _, first, numbers = np.unique(
        sizes + 2 * kind[kept], return_index=True, return_counts=True
    )
    terms: Any = largest * sizes[first], numbers.astype(np.float64)
    terms = (*terms, variances[kept][first], parameters[kept][first])
    key = np.array(terms, np.float32).tobytes()  # alike to seven digits
    if key not in found:
        whole = np.abs(terms[0] - np.maximum(np.rint(terms[0]), 1)).max() < WHOLE
        error = error_law(law, *(*terms, 0.0 if whole else None))
        spreads = np.sqrt(terms[1] * terms[2])
        step = 0.0 if whole else step_of(terms[0], spreads)
        found[key] = replace(error, standard_error=math.sqrt(variance), step=step)
    return found[key]


@dataclass(frozen=True, eq=False)
class CellLaws:
    """The laws of the errors of all cells of a table, listed.

    Attributes
    ----------
    laws : list of ErrorLaw
    which : ndarray of int, shape (cells,)
        The law of every cell.
    """

    laws: list[ErrorLaw]
    which: Integers

    @property
    def _widest(self) -> ErrorLaw:
        return max(self.laws, key=lambda law: law.standard_error)

    @property
    def standard_error(self) -> float:
        """The largest standard error."""
        return self._widest.standard_error

    def half_width(self, level: float) -> float:
        """Return half the width of the interval of the count of the largest one."""
        return self._widest.half_width(level)

    def at(self, level: float, cells: Any) -> tuple[Floats, Floats]:
        """Return standard errors, and half the widths of intervals, of cells."""
        found = np.array([law.at(level, None) for law in self.laws])
        errors, widths = found[self.which[cells]].T
        return errors, widths


Errors = ErrorLaw | Tails | CellLaws
"""What tables have: one law, one per node, or one per cell."""
