"""Intervals of ratios (Fieller), and of quantiles from cumulative counts."""

from __future__ import annotations

import numpy as np

from mmech.arrays import Floats
from mmech.error.report import quantile_of_whole_noise
from mmech.mechanism import MatrixMechanism
from mmech.noise.tails import error_law


def first_ratio(above: Floats, total: Floats, widths: Floats) -> Floats:
    """Return the least ratio f from 0 to 1 that noise does not rule out, (k,).

    Parameters
    ----------
    above, total : ndarray, shape (k,)
        Noisy numerators and denominators.
    widths : ndarray, shape (s + 1,)
        What the magnitude of the error of numerator - f denominator stays below, in
        steps of f. Lines between them are above it, because it is convex in f.
    """
    at = np.linspace(0, 1, len(widths))[:, None]
    beyond = np.sign(above) * (above - at * total) - widths[:, None]  # (s + 1, k)
    place = (beyond <= 0).argmax(axis=0)
    last, before = np.take_along_axis(
        beyond, np.stack([place, np.maximum(place - 1, 0)]), axis=0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (place - 1 + before / (before - last)) / (len(widths) - 1)
    found = np.where(place == 0, 0.0, found)
    return np.where((beyond > 0).all(axis=0), 2.0, found)


class CumulativeErrors:
    """Errors of cumulative counts less a share of the total.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures a strategy for cumulative counts.
    level : float
    """

    def __init__(self, mechanism: MatrixMechanism, level: float) -> None:
        strategy, factors = mechanism._whitened
        n = strategy.shape[1]
        self._level = level
        self._law = mechanism.law
        self._white = np.asarray(strategy.pinv().rmatmat(np.triu(np.ones((n, n)))))
        self._factors = factors
        sizes = [stop - start for start, stop, _ in mechanism._runs()]
        self._parameters = np.repeat([float(t) for t in mechanism._parameters()], sizes)
        unit = 1 / float(factors.max())
        self._quantile = quantile_of_whole_noise(level, mechanism.law.norm, unit)
        self._halves: dict[tuple[float, int], float] = {}
        self._bounds: dict[float, Floats] = {}

    def half(self, p: float, place: int) -> float:
        """Return what the error at a place stays below in magnitude."""
        if (p, place) not in self._halves:
            weights = (self._white[:, place] - p * self._white[:, -1]) * self._factors
            step = float(np.abs(weights).max())  # that a uniform error fills
            own = np.abs(weights) > 1e-12 * step
            law = error_law(
                self._law,
                step * np.round(weights[own] / step, 12),
                np.ones(own.sum()),
                1 / np.square(self._factors[own]),
                self._parameters[own],
            )
            most = self._quantile * law.standard_error + step
            half = min(law.half_width(self._level) + step / 2, most)
            self._halves[p, place] = half
        return self._halves[p, place]

    def ends(self, p: float, apart: Floats) -> tuple[int, int]:
        """Return the first and the last place that may be the quantile.

        Places are left out at once where a bound on the error rules them out.
        """
        if p not in self._bounds:
            white = self._white - p * self._white[:, -1:]
            variances = np.square(white).sum(axis=0)
            gaps = np.abs(white * self._factors[:, None]).max(axis=0)
            # `half` is at most this, and Chebyshev's with the uniform error.
            bound = self._quantile * np.sqrt(variances) + gaps
            widest = np.sqrt((variances + gaps**2 / 12) / (1 - self._level)) + gaps / 2
            self._bounds[p] = np.minimum(bound, widest)
        bound = self._bounds[p]
        last = len(apart) - 1
        firsts = np.flatnonzero(apart >= -bound).tolist()
        ends = (np.flatnonzero(apart[:-1] <= bound[:-1]) + 1)[::-1].tolist()
        low = next((j for j in firsts if apart[j] >= -self.half(p, j)), last)
        high = next((j for j in ends if apart[j - 1] <= self.half(p, j - 1)), 0)
        return min(low, high), max(low, high)
