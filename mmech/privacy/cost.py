r"""What releases cost: pure epsilon, rho of zCDP, and conversions between them.

A mechanism is :math:`\rho`-zCDP if the Rényi divergence of order a between its
outputs on neighbours is at most :math:`a \rho` for every a > 1 [1]_. It is then
:math:`(\epsilon, \delta)`-DP for every :math:`\epsilon` with

.. math:: \delta = \inf_{a > 1} \frac{e^{(a-1)(a\rho - \epsilon)}}{a - 1}
          \left(1 - \frac{1}{a}\right)^a

([2]_, Section 2.3). Every order a gives a valid delta, so stopping short of the infimum
never promises too much. Over releases :math:`\rho` adds up as :math:`\epsilon` does. So
each of many releases has less noise than under its share of a pure epsilon: the
standard deviation grows with the root of their number.

**Pure epsilon in rho.** A release of pure :math:`\epsilon_0` costs at most
:math:`\epsilon_0 \tanh(\epsilon_0 / 2) \le \epsilon_0^2 / 2`, which is the price of
randomised response: all others are post-processing of it. Laplace noise on many rows
costs less, see `laplace_rho`. Proof: ``notebooks/proofs/price_in_rho.md``.

**Bounded range.** An exponential mechanism of pure epsilon :math:`\epsilon_0` costs no
more than :math:`\epsilon_0^2 / 8`, a quarter of the price that pure epsilon alone
implies. For its privacy loss lies in a window of width :math:`\epsilon_0` [3]_ [4]_.
Let the weights be :math:`\pi_i e^{\eta q_i}`, normalised by Z. A neighbour changes the
logarithm of the probability of i by :math:`\eta (q'_i - q_i) - \log (Z' / Z)`. The last
term is the same for all i. So the window is as wide as :math:`\eta` times the span of
the changes of scores. The span is

* 1, if an added record can only raise scores (monotone), where :math:`\eta` is
  :math:`\epsilon_0`;
* 2, otherwise, or with monotone scores if a record is replaced, where it is
  :math:`\epsilon_0 / 2`;
* 4, if neither, where it is :math:`\epsilon_0 / 4`;

and r times as long for a person of r records, where the rate is one over r as large.
The window is :math:`\epsilon_0` wide each time. What `mmech.selection.fixed_point_rate`
takes off for roundings covers it too: it allows for the errors of four probabilities,
of two neighbours and in numerator and denominator. Here they are those of two
neighbours and two candidates, while errors in Z cancel like Z itself.

**Random samples.** A release on a bag of the records, with repetitions, costs more than
on all of them: `poisson_bag_epsilon` says what it may cost inside.

References
----------
.. [1] Bun, Steinke, "Concentrated differential privacy: simplifications, extensions,
   and lower bounds", TCC 2016.
.. [2] Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
   NeurIPS 2020.
.. [3] Dong, Durfee, Rogers, "Optimal differential privacy composition for exponential
   mechanisms", ICML 2020 (bounded range).
.. [4] Cesar, Rogers, "Bounding, concentrating, and truncating: unifying privacy loss
   composition for data analytics", ALT 2021 (bounded range implies zCDP).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any

from mmech.checks import check_delta, check_epsilon
from mmech.exceptions import PrivacyLeakWarning

BISECTIONS = 200
"""Enough halvings for the resolution of a double, whatever the bracket."""

ROUNDING = 1e-12
"""Relative part of delta that the inverse functions leave to rounding."""

WEAK_EPSILON, WEAK_DELTA = 20, 1e-5
"""What epsilon is warned of, of rho at this delta."""

RESOLUTION = 2**80
"""Square roots of costs are rounded down to multiples of one over this."""

PRICE_DIGITS = 10
"""Digits of a price in rho, which is rounded up."""

ROUNDED_UP = 1 + Fraction(1, 10 ** (PRICE_DIGITS - 1))
"""More than what the roundings of prices add to a sum of them."""


def in_rho(epsilon: Fraction, *, bounded_range: bool = False) -> Fraction:
    r"""Return the rho that a release of pure epsilon costs at most.

    :math:`\epsilon \tanh(\epsilon / 2)`, rounded up; at most :math:`\epsilon^2 / 8` for
    a draw of the exponential mechanism, which has a bounded range.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.privacy.cost import in_rho
    >>> float(in_rho(Fraction(1))), in_rho(Fraction(1), bounded_range=True)
    (0.4621171573, Fraction(1, 8))
    """
    price = laplace_rho(1, 1 / epsilon)
    return min(price, epsilon**2 / 8) if bounded_range else price


@lru_cache(maxsize=4096)
def laplace_rho(distance: int, scale: Fraction) -> Fraction:
    r"""Return the rho of discrete Laplace noise on one whole number, rounded up.

    For :math:`P(x) \propto q^{|x|}`, :math:`q = e^{-1/b}`, and neighbours a distance m
    apart:

    .. math:: \kappa(m, b) = \frac{E(|X - m| - |X|)}{b}
              = \frac{1}{b} \left(m - \frac{2 q (1 - q^m)}{1 - q^2}\right),

    the Kullback-Leibler divergence. It is convex in m, zero at m = 0, grows as b falls,
    and is at most :math:`m^2 / 2 b^2`.

    Parameters
    ----------
    distance : int
        The distance m >= 1 of the exact numbers, in counts.
    scale : Fraction
        Scale b of the noise, in counts.

    Returns
    -------
    Fraction
        Above the price by less than one in 10^9 of it.

    Notes
    -----
    Proof: ``notebooks/proofs/price_in_rho.md``.

    References
    ----------
    .. [1] Harrison, Manurangsi, "Exact zCDP characterizations for fundamental
       differentially private mechanisms", FORC 2026.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.privacy.cost import laplace_rho
    >>> float(laplace_rho(1, Fraction(1))), float(laplace_rho(100, Fraction(100)))
    (0.4621171573, 0.3678899764)
    """
    # The price has about b^3 times the error of q, as a share of it.
    digits = 2 * PRICE_DIGITS + 3 * len(str(math.ceil(scale)))
    with localcontext(prec=digits, rounding=ROUND_FLOOR) as context:
        down = context.divide(-scale.denominator, scale.numerator)
        up = context.divide(-distance * scale.denominator, scale.numerator).next_plus()
        # Decimal exponentials are correctly rounded: off by less than a unit. Those
        # that would be long as fractions are replaced by a bound.
        tiny = Decimal(1).scaleb(-2 * digits)
        below, above = down.exp().next_minus(), up.exp().next_plus()
        ratio = Fraction(below) if below > tiny else Fraction(0)
        power = Fraction(max(above, tiny))
    # What is subtracted grows with the ratio, and falls with its power.
    price = (distance - 2 * ratio * (1 - power) / (1 - ratio**2)) / scale
    return min(rounded_up(price), (distance / scale) ** 2 / 2)


def rounded_up(price: Fraction) -> Fraction:
    """Return a price in `PRICE_DIGITS` digits that is not below it."""
    with localcontext(prec=PRICE_DIGITS, rounding=ROUND_CEILING) as context:
        return Fraction(context.divide(price.numerator, price.denominator))


def one_cost(epsilon: Any, rho: Any) -> tuple[Fraction, str]:
    """Return the one cost that is given, as an exact fraction, and its currency."""
    if (epsilon is None) == (rho is None):
        raise TypeError(
            "pass either epsilon=, for pure differential privacy, or rho=, for zCDP, "
            f"got {'neither' if rho is None else 'both'}"
        )
    if rho is None:
        return check_epsilon(epsilon), "epsilon"
    return check_epsilon(rho, "rho"), "rho"


def warn_if_weak(cost: Fraction, currency: str, stacklevel: int = 3) -> None:
    """Warn of a budget that hides next to nothing, and say what it means."""
    if cost <= (WEAK_EPSILON if currency == "epsilon" else WEAK_EPSILON / 5):
        return
    epsilon, at = float(cost), ""
    if currency == "rho":
        epsilon = epsilon_from_rho(cost, WEAK_DELTA)
        at = f" (about epsilon = {epsilon:.3g} at delta = {WEAK_DELTA:g})"
    if epsilon > WEAK_EPSILON:
        warnings.warn(
            f"{currency} = {float(cost):g}{at} protects hardly anybody: what is "
            f"released may be about 10^{epsilon / math.log(10):.0f} times as likely "
            "with the records of a person as without them, and counts are all but "
            "exact; choose a smaller one, 1 for example",
            PrivacyLeakWarning,
            stacklevel=stacklevel,
        )


def bounded_range_epsilon(rho: Fraction) -> Fraction:
    """Return the largest epsilon of an exponential mechanism that rho pays for.

    The square root of 8 rho, rounded down.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.privacy.cost import bounded_range_epsilon
    >>> bounded_range_epsilon(Fraction(1, 8))
    Fraction(1, 1)
    """
    return Fraction(math.isqrt(math.floor(8 * rho * RESOLUTION**2)), RESOLUTION)


def poisson_bag_epsilon(epsilon: Fraction) -> Fraction:
    r"""Return what a release on a bag may cost, if the bag is to cost `epsilon`.

    A bag holds each record K times, K being Poisson with mean one, independently. Let a
    release of pure :math:`\epsilon_0` see K copies of the added record. An outcome is
    at most :math:`e^{K \epsilon_0}` times as probable as without the record. On average
    over K the factor is :math:`E e^{K \epsilon_0} = e^{e^{\epsilon_0} - 1}`. So
    :math:`\epsilon_0 = \log (1 + \epsilon)`, for records that are added or removed.

    Parameters
    ----------
    epsilon : Fraction
        Cost of the bag, in nats, per record that is added or removed.

    Returns
    -------
    Fraction
        Rounded down, by less than one in 2^40 of it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.privacy.cost import poisson_bag_epsilon
    >>> round(float(poisson_bag_epsilon(Fraction(1, 10))), 6)
    0.09531
    """
    # Digits that tell 1 + epsilon from its neighbours. Decimal logarithms are correctly
    # rounded: off by less than a unit.
    size = epsilon.denominator.bit_length() - epsilon.numerator.bit_length()
    digits = 40 + max(0, size)
    with localcontext(prec=digits, rounding=ROUND_FLOOR) as context:
        more = 1 + epsilon
        return Fraction(
            context.divide(more.numerator, more.denominator).ln().next_minus()
        )


def delta_from_rho(rho: Any, epsilon: Any) -> float:
    """Return the smallest delta that zCDP is known to give at an epsilon.

    Parameters
    ----------
    rho : float, str or Fraction
        zCDP parameter > 0, in nats.
    epsilon : float, str or Fraction
        Privacy parameter > 0, in nats.

    Returns
    -------
    float
        Probability in [0, 1]; tiny values may underflow to zero.

    See Also
    --------
    epsilon_from_rho, rho_from_epsilon_delta : the inverse functions.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020, Section 2.3.

    Examples
    --------
    >>> from mmech import delta_from_rho
    >>> f"{delta_from_rho(0.05, 1.0):.3e}"
    '3.857e-04'
    """
    rho_value = float(check_epsilon(rho, "rho"))
    return math.exp(_log_delta(rho_value, float(check_epsilon(epsilon))))


def epsilon_from_rho(rho: Any, delta: Any) -> float:
    """Return the smallest epsilon that zCDP is known to give at a delta.

    Parameters
    ----------
    rho : float, str or Fraction
        zCDP parameter > 0, in nats.
    delta : float
        Probability in (0, 1), well below one over the number of records.

    Returns
    -------
    float
        Privacy parameter in nats; 0 where even that holds.

    Examples
    --------
    >>> from mmech import epsilon_from_rho
    >>> round(epsilon_from_rho(0.1, 1e-6), 3)
    2.142
    """
    rho_value = float(check_epsilon(rho, "rho"))
    log_delta = math.log(check_delta(delta)) - ROUNDING
    if _log_delta(rho_value, 0.0) <= log_delta:
        return 0.0
    # The textbook conversion is an upper bound, hence the bracket.
    high = rho_value + 2.0 * math.sqrt(-rho_value * log_delta) + 1e-9
    _, upper = _bisect(0.0, high, lambda value: _log_delta(rho_value, value), log_delta)
    return upper


def rho_from_epsilon_delta(epsilon: Any, delta: Any) -> float:
    """Return the largest zCDP parameter that implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float, str or Fraction
        Privacy parameter > 0, in nats.
    delta : float
        Probability in (0, 1), well below one over the number of records.

    Returns
    -------
    float
        zCDP parameter rho, in nats: the budget of a `MatrixMechanism`.

    Examples
    --------
    >>> from mmech import delta_from_rho, rho_from_epsilon_delta
    >>> rho = rho_from_epsilon_delta(1.0, 1e-6)
    >>> round(rho, 5), delta_from_rho(rho, 1.0) <= 1e-6
    (0.02436, True)
    """
    epsilon_value = float(check_epsilon(epsilon))
    log_delta = math.log(check_delta(delta)) - ROUNDING
    high = epsilon_value + 1.0
    while _log_delta(high, epsilon_value) <= log_delta:  # only for delta near one
        high *= 2.0
    low, _ = _bisect(
        0.0, high, lambda value: -_log_delta(value, epsilon_value), -log_delta
    )
    return low


def _bisect(
    low: float, high: float, decreasing: Callable[[float], float], target: float
) -> tuple[float, float]:
    """Return neighbouring values with decreasing(high) <= target <= its low side."""
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if decreasing(middle) > target:
            low = middle
        else:
            high = middle
    return low, high


@lru_cache(maxsize=4096)
def _log_delta(rho: float, epsilon: float) -> float:
    """Minimise log delta over the order 1 + e^t, whose derivative increases in t."""
    if rho == 0.0:
        return -math.inf

    def slope(t: float) -> float:
        return (1.0 + 2.0 * math.exp(t)) * rho - epsilon + t - _softplus(t)

    # At t <= 0 the slope is below 3 rho - epsilon + t; and log(1 - 1/a) >= -1/(a-1).
    low = min(0.0, epsilon - rho) - 2.0 * rho - 1.0
    high = math.log1p((epsilon + 1.0) / max(2.0 * rho, 1e-300))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    extra = math.exp(high)  # the order less one
    value = extra * ((1.0 + extra) * rho - epsilon)
    # -log(a - 1) + a log(1 - 1/a), without cancellation at large orders
    value -= _softplus(high) + extra * _softplus(-high)
    return min(value, 0.0)


def _softplus(t: float) -> float:
    """Return log(1 + e^t)."""
    return max(t, 0.0) + math.log1p(math.exp(-abs(t)))
