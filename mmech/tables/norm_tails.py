r"""The law of the errors of single attributes under noise of equal totals.

The error of values of an attribute is the noise Z on them, moved to the common total of
all sets: Z - βT with the total T of the own set, and multiples of the totals of the
others. Noise of a set is a point of its ball times a random radius R. For continuous
noise the radius has a gamma law of D + 1 steps, independent of the point. Given the
total of the point as a share of the radius, attributes are independent. Sums of values
then have a density of polynomials (step 3 of ``notebooks/proofs/k_norm.md``). So the
characteristic function of the error is a mixture of :math:`(1 - i \omega t x)^{-(D+1)}`
over points x = (Z - βT) / R. It is stretched to the exact variance of whole noise.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from mmech.arrays import Floats, Subset
from mmech.error.shared_totals import WIDE
from mmech.noise import LAPLACE
from mmech.noise.norm import norm_noise_components
from mmech.noise.tails import FREQUENCIES, NO_ERROR, ErrorLaw
from mmech.operators.base import product_of
from mmech.tables.field import Field

SHARES = 24
"""Points at which the total of a set is looked at, as a share of the radius."""

REACH = 10.0
"""How many standard errors shares of the radius are looked at."""

BINS = 512
"""Points that stand for the law of an error, as a share of the radius."""


@dataclass(frozen=True, eq=False)
class _Set:
    """Marginals measured together.

    Attributes
    ----------
    sizes : tuple of int
        Number of cells of every marginal.
    scale : float
        Scale of the noise, in counts.
    """

    sizes: tuple[int, ...]
    scale: float

    def characteristic(
        self, size: int, counted: int, move: float, variance: float, at: Floats
    ) -> Floats:
        """Return the characteristic function of the noise of values, and of the total.

        Parameters
        ----------
        size, counted : int
            Size of a marginal, and how many of its values are added up.
        move : float
            What the total is multiplied by, and added.
        variance : float
            Exact variance of this sum.
        at : ndarray
            Frequencies.
        """
        if len(self.sizes) == 1:  # independent noise
            summed = LAPLACE.characteristic(self.scale, at * (1 + move)) ** counted
            rest = self.sizes[0] - counted
            return summed * LAPLACE.characteristic(self.scale, at * move) ** rest
        shares, points, weights = shared_points(self.sizes, size, counted)
        x = points + move * shares
        steps = 2 + sum(m - 1 for m in self.sizes)  # of the radius
        reach = REACH * math.sqrt(weights @ np.square(x)) or 1.0
        grid = np.linspace(-reach, reach, BINS)
        place = (np.clip(x, -reach, reach) + reach) * ((BINS - 1) / (2 * reach))
        below = np.minimum(place.astype(np.int64), BINS - 2)
        mass = np.bincount(below, weights * (1 - place + below), BINS)
        mass += np.bincount(below + 1, weights * (place - below), BINS)
        # All that follows is even: a point stands for its negative as well.
        mass, grid = mass[BINS // 2 :] + mass[: BINS // 2][::-1], grid[BINS // 2 :]
        rough = steps * (steps + 1) * float(mass @ np.square(grid))
        stretch = math.sqrt(variance / rough) if rough else 0.0
        radii = np.multiply.outer(at, stretch * grid)
        # (1 - i x)^-n by its magnitude and angle.
        magnitudes = np.exp(-steps / 2 * np.log1p(np.square(radii)))
        return np.asarray((magnitudes * np.cos(steps * np.arctan(radii))) @ mass)


@lru_cache(maxsize=256)
def shared_points(
    sizes: tuple[int, ...], size: int, counted: int
) -> tuple[Floats, Floats, Floats]:
    """Return points of a ball of radius one: totals, sums of some values, weights.

    Only points with a total of at least zero: the others are their negatives.

    Parameters
    ----------
    sizes : tuple of int
        Sizes of the groups.
    size, counted : int
        Size of one, and how many of its coordinates are added up.
    """
    d = sum(m - 1 for m in sizes)
    nodes, weights = np.polynomial.legendre.leggauss(SHARES)
    total, _ = norm_noise_components(WIDE, sizes)
    reach = min(1.0, REACH * math.sqrt(total / ((d + 2.0) * (d + 3.0))) / WIDE)
    shares = (nodes + 1) / 2 * reach
    logs = sum(number * _log_points(m, shares) for m, number in Counter(sizes).items())
    weights = weights * np.exp(logs - np.max(logs))
    weights /= weights.sum()
    if counted in (0, size):
        return shares, shares * (counted > 0), weights
    number = size // 2 + 4 * math.isqrt(d + 2)
    sums = [_values(size, share, number) for share in shares.tolist()]
    points = np.concatenate([points for points, _ in sums])
    masses = [weight * inner for weight, (_, inner) in zip(weights, sums, strict=True)]
    shares = np.repeat(shares, [len(mass) for mass in masses])
    return shares, points, np.concatenate(masses)


def _log_points(size: int, shares: Floats) -> Floats:
    r"""Return the logarithm of the points of a group with some totals, up to a factor.

    The sum of :math:`\binom{m-1}{i}^2 u^i v^{m-1-i}`, :math:`u + v = 1`.
    """
    i = np.arange(size)
    terms = 2 * _log_binomials(size - 1)[:, None]
    terms = terms + np.outer(i, np.log1p(shares))
    terms += xlog1py(i[::-1, None], -shares)
    return np.asarray(logsumexp(terms, axis=0))


def _log_binomials(n: int) -> Floats:
    i = np.arange(n + 1)
    return np.asarray(gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1))


def _values(size: int, share: float, number: int) -> tuple[Floats, Floats]:
    """Return values of a coordinate of a group of a total, and their weights.

    It is positive or negative, and the others have what is left of u and of v.
    """
    u, v = (1 + share) / 2, (1 - share) / 2
    nodes, lengths = np.polynomial.legendre.leggauss(number)
    nodes, lengths = (nodes + 1) / 2, lengths / 2
    rest = np.arange(size - 1)
    left = 2 * _log_binomials(size - 2) - gammaln(size - 1)

    def log_left(up: Floats, down: Floats) -> Floats:
        """Return the points of the other coordinates, within up and down."""
        powers = xlogy(rest, up[..., None]) + xlogy(rest[::-1], down[..., None])
        return np.asarray(logsumexp(left + powers, axis=-1))

    parts = []
    for reach, other, sign in ((u, v, 1), (v, u, -1)):
        at = reach * nodes
        up, down = (reach - at, other + 0 * at)
        parts.append((sign * at, np.log(lengths * reach) + log_left(up, down)))
    points, logs = (np.concatenate(column) for column in zip(*parts, strict=True))
    weights = np.exp(logs - logs.max())
    return points, weights / weights.sum()


def set_law(field: Field, subset: Subset) -> ErrorLaw:
    """Return the law of the error of a value of an attribute, or of the total.

    Parameters
    ----------
    field : Field
        Of tables of single attributes, with noise of equal totals.
    subset : tuple of int
        The attribute, or nothing.
    """
    # Attributes of one value are not measured: the total is told in place of them.
    subset = tuple(i for i in subset if field.sizes[i] > 1)
    if any({*subset} <= {*table} for table in field.known):
        return NO_ERROR
    sets: list[_Set] = []
    totals: list[float] = []
    contrast, of_set = 0.0, 0
    for m in field.measured:
        size = product_of(field.sizes[i] for i in m.subset)
        if m.total is None or math.isfinite(m.total):  # the first one of a set
            totals.append(size * m.variance if m.total is None else m.total)
            sets.append(_Set((), m.parameter))
        sets[-1] = replace(sets[-1], sizes=(*sets[-1].sizes, size))
        if m.subset == subset and subset:
            contrast, of_set = m.variance, len(sets) - 1
    size = field.sizes[subset[0]] if subset else 1
    known, variances = bool(field.known), np.array(totals)
    part = 1 / size
    moves = part / variances / (1 / variances).sum() * (not known)
    moves[of_set] -= part
    parts = np.square(moves) * variances
    inside = (1 - part) * contrast
    parts[of_set] = inside + (part + moves[of_set]) ** 2 * variances[of_set]
    variance = float(parts.sum())
    uniform = max(1 + moves[of_set], part)  # the width of the widest gap
    scale = math.sqrt(variance + uniform**2 / 12)
    frequencies = FREQUENCIES / scale
    characteristic = np.sinc(frequencies * uniform / (2 * math.pi))
    for j, (shared, move) in enumerate(zip(sets, moves, strict=True)):
        group = (size, 1) if j == of_set else (1, 0)
        characteristic *= shared.characteristic(*group, move, parts[j], frequencies)
    # The totals of several sets are not whole once they are one.
    apart = 0.0 if len(sets) == 1 and not known else 0.5
    return ErrorLaw(math.sqrt(variance), scale, characteristic, apart)
