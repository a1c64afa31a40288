r"""Private selection, for the bits and not for ideal reals.

Probabilities proportional to :math:`e^{\rho q}` are irrational, so that no program
draws from them exactly. Here logarithms of weights are whole numbers of
:math:`2^{-36}` nats: products are sums of integers, without rounding; each sum of
weights is rounded once, to within two such units; and the rate :math:`\rho` is lowered
by what all roundings of one release can add up to. What is drawn then has the stated
guarantee, pure epsilon, by the arithmetic that really runs.

References
----------
.. [1] McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007.
.. [2] Ilvento, "Implementing the exponential mechanism with base-2 differential
   privacy", CCS 2020 (why floating point needs care).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech._validation import check_choice, check_epsilon
from mmech.budget import NEIGHBOURS, PrivacyLedger
from mmech.noise import (
    FRACTION_BITS,
    check_insecure_rng,
    flip_negative_exponential,
    random_permutation,
    weighted_choice,
)
from mmech.noise._seam import drawn
from mmech.release import charge, in_64_bits, whole_numbers

__all__ = ["exponential_mechanism", "fixed_point_rate", "permute_and_flip"]

LARGEST_LOGARITHM = 2**62
"""Logarithms beyond this are not computed in 64 bits."""

UNITS_PER_ROUNDING = 12
"""Units of 2**-36 that one rounded sum of weights may cost: at most two in the sum
and one in the draw, for two neighbours, in numerator and denominator."""


def fixed_point_rate(
    epsilon: Fraction,
    *,
    monotone: bool,
    neighbours: str,
    roundings: int,
    score_unit: int = 1,
) -> int:
    r"""Return how much one unit of score adds to the logarithm of a weight.

    Parameters
    ----------
    epsilon : Fraction
        Budget of the selection, in nats.
    monotone : bool
        Whether an added record can only raise scores, all by at most `score_unit`.
        Then the probability of every choice changes by at most :math:`e^{\rho}`
        with weights :math:`e^{\rho q}`, otherwise by :math:`e^{2 \rho}`.
    neighbours : {"add_remove", "replace"}
        Neighbour relation; ``"replace"`` is a removal and an addition.
    roundings : int
        Largest number of sums of weights that take part in one choice, a public
        number.
    score_unit : int, default=1
        Most that one record changes a score.

    Returns
    -------
    int
        Units of 2**-36 nats per unit of score.

    Raises
    ------
    ValueError
        If epsilon is too small for the roundings.
    """
    rate = _rate(epsilon, monotone, neighbours)
    units = math.floor(rate * 2**FRACTION_BITS) - UNITS_PER_ROUNDING * roundings
    if units < score_unit:
        least = UNITS_PER_ROUNDING * roundings / 2.0**FRACTION_BITS
        raise ValueError(
            f"epsilon = {float(epsilon):.3g} is too small for a selection with "
            f"{roundings:,} sums; it takes about {4 * least:.1g} or more"
        )
    return units // score_unit


def _rate(epsilon: Fraction, monotone: bool, neighbours: str) -> Fraction:
    """Return the factor of scores in the exponent."""
    check_choice(neighbours, "neighbours", NEIGHBOURS)
    return epsilon / ((1 if monotone else 2) * (2 if neighbours == "replace" else 1))


def logarithms(
    scores: NDArray[np.int64], rate: int, rests: NDArray[np.int64] | int = 0
) -> NDArray[Any]:
    """Return ``scores * rate + rests``, exactly, whatever their size.

    Where 64 bits do not hold them they are Python integers. So no score is refused,
    and no budget: a refusal would tell about the records.
    """
    largest = max(int(scores.max()), -int(scores.min())) * rate
    largest += max(int(np.max(rests)), -int(np.min(rests)))
    if largest < LARGEST_LOGARITHM:
        return scores * rate + rests
    return scores.astype(object) * rate + rests


def exponential_mechanism(
    scores: ArrayLike,
    *,
    epsilon: Any,
    released: str,
    monotone: bool = False,
    neighbours: str = "add_remove",
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> int:
    r"""Choose among candidates, those of high score with higher probability.

    Candidate i is drawn with probability proportional to :math:`e^{\rho q_i}`, with
    :math:`\rho = \epsilon` for monotone scores, such as counts, and half of it
    otherwise. The best is missed by more than :math:`(\log n + t) / \rho` with
    probability at most :math:`e^{-t}`.

    Parameters
    ----------
    scores : array_like of int, shape (n,)
        Score of every candidate; one added or removed record changes each by at most
        one. Sensitive.
    epsilon : float, str or Fraction
        Privacy parameter in nats.
    released : str
        What is chosen, in words, for the ledger.
    monotone : bool, default=False
        Whether an added record never lowers a score.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` halves the rate.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` charges nobody.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable choice for tests; warns.

    Returns
    -------
    int
        The chosen candidate, safe to publish.

    Raises
    ------
    BudgetExceededError
        If the ledger does not cover `epsilon`; nothing is drawn.
    ValueError
        If scores are not whole numbers in one row, or epsilon does not fit; nothing
        is spent. If scores are beyond 2^62 in magnitude, or 2^53 as floats; epsilon is
        spent, and the guarantee does not cover this refusal.

    Notes
    -----
    Proof: ``notebooks/proofs/exponential_mechanism.md``.

    References
    ----------
    .. [1] McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007,
       Theorem 6; monotone scores: Dwork, Roth, "The algorithmic foundations of
       differential privacy", 2014, section 3.4.

    Examples
    --------
    >>> from mmech import exponential_mechanism
    >>> exponential_mechanism(
    ...     [3, 90, 5], epsilon=2.0, released="the most frequent word", monotone=True
    ... )
    1
    """
    whole = _scores(scores)
    price = check_epsilon(epsilon)
    rate = fixed_point_rate(
        price, monotone=monotone, neighbours=neighbours, roundings=1
    )
    rng = check_insecure_rng(insecure_rng)
    charge(ledger, price, released, neighbours, 1, insecure=rng is not None)
    exact = in_64_bits(whole)

    def choose() -> int:
        return weighted_choice(logarithms(exact, rate), insecure_rng=rng)

    return drawn(
        "exponential", exact, choose, epsilon=price,
        rate=Fraction(rate, 2**FRACTION_BITS), monotone=monotone,
        neighbours=neighbours,
    )  # fmt: skip


def permute_and_flip(
    scores: ArrayLike,
    *,
    epsilon: Any,
    released: str,
    monotone: bool = False,
    neighbours: str = "add_remove",
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> int:
    r"""Choose among few candidates; never worse than `exponential_mechanism`.

    Candidates are asked in random order, and candidate i is taken with probability
    :math:`e^{-\rho (\max_j q_j - q_i)}`, with :math:`\rho = \epsilon` for monotone
    scores and half of it otherwise. The expected shortfall is at most that of the
    exponential mechanism, and down to half of it. Every flip compares random bits with
    the binary expansion of its probability, so that the guarantee is exact.

    Parameters
    ----------
    scores : array_like of int, shape (n,)
        Score of every candidate; one added or removed record changes each by at most
        one. Sensitive.
    epsilon : float, str or Fraction
        Privacy parameter in nats.
    released : str
        What is chosen, in words, for the ledger.
    monotone : bool, default=False
        Whether an added record never lowers a score.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` halves the rate.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` charges nobody.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable choice for tests; warns.

    Returns
    -------
    int
        The chosen candidate, safe to publish.

    Raises
    ------
    BudgetExceededError
        If the ledger does not cover `epsilon`; nothing is drawn.
    ValueError
        If scores are not whole numbers in one row; nothing is spent. If they are
        beyond 2^62 in magnitude, or 2^53 as floats; epsilon is spent, and the guarantee
        does not cover this refusal.

    Notes
    -----
    Proof: ``notebooks/proofs/permute_and_flip.md``.

    References
    ----------
    .. [1] McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially
       private selection", NeurIPS 2020, Algorithm 1 and Theorems 1 to 3.

    Examples
    --------
    >>> from mmech import permute_and_flip
    >>> permute_and_flip(
    ...     [3, 90, 5], epsilon=2.0, released="the most frequent word", monotone=True
    ... )
    1
    """
    whole = _scores(scores)
    price = check_epsilon(epsilon)
    rate = _rate(price, monotone, neighbours)
    rng = check_insecure_rng(insecure_rng)
    charge(ledger, price, released, neighbours, 1, insecure=rng is not None)
    exact = in_64_bits(whole)

    def choose() -> int:
        best = int(exact.max())
        for candidate in random_permutation(exact.size, insecure_rng=rng):
            exponent = rate * (best - int(exact[candidate]))
            if flip_negative_exponential(exponent, insecure_rng=rng):
                return int(candidate)
        raise AssertionError("the best candidate is always taken")

    return drawn(
        "permute_and_flip", exact, choose, epsilon=price, rate=rate,
        monotone=monotone, neighbours=neighbours,
    )  # fmt: skip


def _scores(scores: ArrayLike) -> NDArray[Any]:
    exact = whole_numbers(scores)
    if exact.ndim != 1 or not exact.size:
        raise ValueError(
            "scores must be one row with a number per candidate, got shape "
            f"{exact.shape}"
        )
    return exact
