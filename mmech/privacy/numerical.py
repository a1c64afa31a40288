r"""Numerical composition of privacy losses, with the extra ``mmech[accounting]``.

The privacy loss of a release is :math:`\log P(y) / P'(y)` for an output y and the laws
:math:`P, P'` of neighbours. Losses of independent releases add up, so that their laws
are convolved: Google's ``dp-accounting`` [1]_ does so on a grid of losses, rounded up
[2]_. This is done for pairs of laws that no neighbours are less private than:

* `LedgerEntry.shifts`, of discrete Laplace and Gaussian noise on whole numbers;
* randomised response, for every other release of pure epsilon;
* what is known of a release that has a rho: its delta at every epsilon is at most the
  one that follows from rho, and this curve has a law of losses.

Proof: ``notebooks/proofs/numerical_composition.md``.

References
----------
.. [1] https://github.com/google/differential-privacy (Apache 2.0).
.. [2] Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the dots: tighter discrete
   approximations of privacy loss distributions", PoPETs 2022.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache, reduce
from importlib.util import find_spec
from itertools import chain
from typing import Any

from mmech.privacy.cost import delta_from_rho, epsilon_from_rho, laplace_rho
from mmech.privacy.entry import LedgerEntry, Shift

STEPS = 2_000
"""Steps of the grid in the standard deviation of the loss, which is √(2ρ)."""

COARSER = 20
"""Steps between the points at which the curve of a rho is known."""

LEAST_DELTA = 1e-16
"""Where the curve of a rho ends: what is left is taken for infinite losses."""

MOST_LAWS = 64
MOST_POINTS = 100_000
"""How many laws are composed, and the points of each that are listed."""

PRICES = (1e-12, 50.0)
"""Prices in rho of numbers that are composed."""

ROUNDING = 2.0**-47
"""What is taken off delta for every number: 500 times the rounding errors of sums that
were measured, against exact fractions."""

MARGIN = 2.0**-30
"""Relative part of epsilon that is left to the rounding of parameters."""

Law = tuple[str, int, Fraction]


def shifts_of(entry: LedgerEntry) -> tuple[Shift, ...]:
    """Return shifts of noise that are no more private than a release.

    Randomised response is discrete Laplace noise of scale 1 / epsilon on a number that
    moves by one. Parts of a partition have none, and none take long to list.
    """
    if entry.partition is not None:
        return ()
    shifts = entry.shifts
    if not shifts and entry.epsilon is not None:
        shifts = (("laplace", 1, 1 / entry.epsilon, 1),)
    return shifts if all(_is_listed(*shift[:3]) for shift in shifts) else ()


def _is_listed(law: str, distance: int, parameter: Fraction) -> bool:
    """Return whether losses can be listed, and are far from the limits of doubles."""
    points = distance + (24 * math.sqrt(parameter) if law == "gaussian" else 0)
    least, most = PRICES
    return points <= MOST_POINTS and least <= _rho(law, distance, parameter) <= most


def numerical_epsilon(
    entries: Iterable[LedgerEntry], delta: float, rho: Fraction = Fraction(0)
) -> float:
    """Return the least epsilon that entries with shifts have at a delta, beside a rho.

    Returns
    -------
    float
        In nats, rounded up; infinite without the extra, where an entry has no shifts or
        there are too many different ones, and where delta is too small.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from importlib.util import find_spec
    >>> from mmech import LedgerEntry
    >>> from mmech.privacy.numerical import numerical_epsilon
    >>> hundred = [LedgerEntry(Fraction(1, 10), "a histogram")] * 100
    >>> numerical_epsilon(hundred, 1e-6) < 4.78 or not find_spec("dp_accounting")
    True
    """
    shifts = [shifts_of(entry) for entry in entries]
    numbers: Counter[Law] = Counter()
    for law, distance, parameter, times in chain.from_iterable(shifts):
        numbers[law, distance, parameter] += times
    left = delta - ROUNDING * (numbers.total() + 1)
    good = all(shifts) and 0 < len(numbers) <= MOST_LAWS and rho <= PRICES[1]
    good = good and left >= delta / 2
    if not good or find_spec("dp_accounting") is None:
        return math.inf
    losses = _composed(frozenset(numbers.items()), rho)
    return float(losses.get_epsilon_for_delta(left)) * (1 + MARGIN)


@lru_cache(maxsize=32)
def _composed(numbers: frozenset[tuple[Law, int]], beside: Fraction) -> Any:
    """Return the law of the sum of losses, as ``dp-accounting`` keeps it."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as pld

    ordered = sorted(numbers)
    rho = float(beside) + sum(times * _rho(*law) for law, times in ordered)
    step = math.sqrt(2 * rho) / STEPS
    grid = {
        "value_discretization_interval": step,
        "pessimistic_estimate": True,
        "use_connect_dots": True,
    }
    parts = []
    if beside:
        law_of_rho = pld_pmf.create_pmf_pessimistic_connect_dots(
            step, *_curve(beside, step)
        )
        parts.append(pld.PrivacyLossDistribution(law_of_rho))
    for (law, distance, parameter), times in ordered:
        if law == "laplace":
            one = pld.from_discrete_laplace_mechanism(
                float(1 / parameter), distance, **grid
            )
        else:
            one = pld.from_discrete_gaussian_mechanism(
                math.sqrt(parameter), distance, **grid
            )
        parts.append(one.self_compose(times))
    return reduce(lambda one, other: one.compose(other), parts)


def _curve(rho: Fraction, step: float) -> tuple[list[int], list[float]]:
    """Return multiples of a step, and the deltas that a rho has there at most.

    At -epsilon it is the one of epsilon for the two laws the other way round.
    """
    last = math.ceil(epsilon_from_rho(rho, LEAST_DELTA) / (COARSER * step)) + 1
    places = [COARSER * k for k in range(1, last + 1)]
    deltas = [delta_from_rho(rho, step * place) for place in places]
    mirrored = [
        1 - math.exp(-step * place) * (1 - delta)
        for place, delta in zip(places, deltas, strict=True)
    ]
    return [-p for p in reversed(places)] + places, mirrored[::-1] + deltas


def _rho(law: str, distance: int, parameter: Fraction) -> float:
    """Return the price of a shift."""
    if law == "laplace":
        return float(laplace_rho(distance, parameter))
    return float(distance**2 / (2 * parameter))
