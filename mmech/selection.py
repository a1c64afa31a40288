r"""Private selection, for the bits and not for ideal reals.

Probabilities proportional to :math:`e^{\rho q}` are irrational, so that no program
draws from them exactly. Here logarithms of weights are whole numbers of :math:`2^{-36}`
nats: products are sums of integers, without rounding; each sum of weights is rounded
once, to within two of these units; and all roundings of one release together lower the
rate :math:`\rho`. What is drawn then has the stated guarantee, pure epsilon, by the
arithmetic that really runs.

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

from mmech.checks import check_bool, check_epsilon, check_integer
from mmech.limits import LIMITS
from mmech.noise import (
    FRACTION_BITS,
    IMPOSSIBLE,
    check_insecure_rng,
    flip_negative_exponential,
    random_permutation,
    weighted_choice,
    weighted_choices,
)
from mmech.noise.seam import drawn
from mmech.noise.system import Rng
from mmech.privacy.cost import bounded_range_epsilon, one_cost, warn_if_weak
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.release import charge, in_64_bits, whole_numbers

LARGEST_LOGARITHM = 2**62
"""Logarithms beyond this are not computed in 64 bits."""

UNITS_PER_ROUNDING = 12
"""Units of 2**-36 that one rounded sum of weights may cost: at most two in the sum
and one in the draw, for two neighbours, in numerator and denominator."""


def fixed_point_rate(
    epsilon: Fraction,
    *,
    monotone: bool,
    relation: Relation,
    roundings: int,
    score_unit: int = 1,
) -> int:
    r"""Return how much one unit of score adds to the logarithm of a weight.

    In units of 2**-36 nats, for a selection that costs epsilon nats. If `monotone`, an
    added record moves all scores within a window of length `score_unit`: then the
    probability of every choice changes by at most :math:`e^{\rho}` with weights
    :math:`e^{\rho q}`, otherwise by :math:`e^{2 \rho}`. A replacement is a removal and
    an addition. `roundings` is the largest number of sums of weights that take part in
    one choice, a public number; an epsilon too small for them raises `ValueError`.
    """
    rate = _rate(epsilon, monotone, relation)
    units = math.floor(rate * 2**FRACTION_BITS) - UNITS_PER_ROUNDING * roundings
    if units < score_unit:
        least = UNITS_PER_ROUNDING * roundings / 2.0**FRACTION_BITS
        raise ValueError(
            f"epsilon = {float(epsilon):.3g} is too small for a selection with "
            f"{roundings:,} sums; it takes about {4 * least:.1g} or more"
        )
    return units // score_unit


def _rate(epsilon: Fraction, monotone: bool, relation: Relation) -> Fraction:
    """Return the factor of scores in the exponent."""
    return epsilon / ((1 if monotone else 2) * relation.factor)


def logarithms(
    scores: NDArray[np.int64], rate: int, rests: NDArray[np.int64] | int = 0
) -> NDArray[Any]:
    """Return ``scores * rate + rests``, exactly, whatever their size.

    Where 64 bits do not hold them they are Python integers. So no score is refused,
    and no budget: a refusal would tell about the records.
    """
    largest = max(int(scores.max()), -int(scores.min())) * rate
    largest += max(int(np.max(rests)), -int(np.min(rests)))
    if max(largest, rate) < LARGEST_LOGARITHM:
        return scores * rate + rests
    return scores.astype(object) * rate + rests


def exponential_mechanism(
    scores: ArrayLike,
    *,
    epsilon: Any = None,
    rho: Any = None,
    released: str,
    monotone: bool = False,
    window: int | None = None,
    neighbours: str = "add_remove",
    records_per_person: int = 1,
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> int:
    r"""Choose among candidates, those of high score with higher probability.

    Candidate i is drawn with probability proportional to :math:`e^{\rho q_i}`. The rate
    :math:`\rho` is :math:`\epsilon` for monotone scores, such as counts, and
    :math:`\epsilon / 2` otherwise. It is :math:`\epsilon / w` for scores that one
    record moves within a window w. The best is missed by more than
    :math:`(\log n + t) / \rho` with probability at most :math:`e^{-t}`.

    Parameters
    ----------
    scores : array_like of int, shape (n,)
        Score of every candidate; one added or removed record changes each by at most
        one. Sensitive.
    epsilon, rho : float, str or Fraction
        Privacy parameter in nats; exactly one of them. A draw that costs rho has an
        epsilon of the root of 8 rho, because its privacy loss has bounded range.
    released : str
        What is chosen, in words, for the ledger.
    monotone : bool, default=False
        Whether an added record never lowers a score.
    window : int, optional
        In place of `monotone`, for scores in other units: an added record changes every
        score by something between two whole numbers that are this far apart.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` halves the rate.
    records_per_person : int, default=1
        Largest number of records of one person, public; divides the rate.
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
        is spent. If scores are beyond 2^62 in magnitude, or 2^53 as floats; the cost is
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
    cost, currency = one_cost(epsilon, rho)
    if ledger is None:
        warn_if_weak(cost, currency)
    chosen, _ = select(
        _scores(scores),
        cost,
        currency,
        released=released,
        monotone=check_bool(monotone, "monotone"),
        window=None if window is None else check_integer(window, "window"),
        relation=Relation(neighbours, records_per_person),
        ledger=ledger,
        noise=check_insecure_rng(insecure_rng),
    )
    return chosen


def select(
    scores: NDArray[Any],
    cost: Fraction,
    currency: str,
    *,
    released: str,
    monotone: bool = False,
    window: int | None = None,
    relation: Relation,
    ledger: PrivacyLedger | None,
    noise: Rng,
) -> tuple[int, LedgerEntry]:
    """Charge for a draw by the exponential mechanism, then draw."""
    epsilon = epsilon_of_draw(cost, currency)
    rate = fixed_point_rate(
        epsilon,
        monotone=monotone or window is not None,
        relation=relation,
        roundings=1,
        score_unit=window or 1,
    )
    entry = LedgerEntry(cost, released, "exponential", window or 1, currency)
    entry = charge(ledger, entry, relation, noise)
    exact = in_64_bits(scores)

    def choose() -> int:
        return weighted_choice(logarithms(exact, rate), insecure_rng=noise)

    chosen = drawn(
        "exponential",
        exact,
        choose,
        epsilon=epsilon,
        rate=Fraction(rate, 2**FRACTION_BITS),
        monotone=monotone,
        window=window,
        relation=relation,
    )
    return chosen, entry


def choose_rows(
    scores: NDArray[np.int64],
    epsilon: Fraction,
    *,
    window: int,
    relation: Relation,
    noise: Rng,
    priors: NDArray[np.int64] | int = 0,
    possible: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Choose a candidate of every row by the exponential mechanism, shape (n,).

    Each row costs epsilon for the records that its scores depend on, which the caller
    has paid: once, where every record counts in one row.

    Parameters
    ----------
    scores : ndarray of int64, shape (n, m)
        Scores of the candidates of every row. Sensitive.
    epsilon : Fraction
        Budget of one row, nats.
    window : int
        Length of an interval that holds, for every candidate of a row, what an added
        record changes its score by; a replacement is a removal and an addition.
    priors : ndarray of int64, shape (n, m), default=0
        Public logarithms of prior weights, in units of 2**-36.
    possible : ndarray of bool, shape (n, m), optional
        Candidates that there are, at least one in each row; public.
    """
    rate = fixed_point_rate(
        epsilon, monotone=True, relation=relation, roundings=1, score_unit=window
    )

    n, m = scores.shape
    rests = np.broadcast_to(np.asarray(priors), (n, m))
    allowed = np.broadcast_to(True if possible is None else possible, (n, m))

    def choose() -> NDArray[np.int64]:
        out = np.empty(n, np.int64)
        step = max(1, LIMITS.scored_entries // max(m, 1))
        for start in range(0, n, step):
            part = slice(start, start + step)
            logs = logarithms(scores[part], rate, rests[part])
            if logs.dtype == np.int64:
                logs = np.where(allowed[part], logs, IMPOSSIBLE)
                out[part] = weighted_choices(logs, insecure_rng=noise)
                continue
            for i, row in enumerate(logs, start):
                places = np.flatnonzero(allowed[i])
                out[i] = places[weighted_choice(row[places], insecure_rng=noise)]
        return out

    return np.asarray(
        drawn(
            "exponential_rows",
            scores,
            choose,
            epsilon=epsilon,
            rate=Fraction(rate, 2**FRACTION_BITS),
            window=window,
            relation=relation,
            priors=priors,
            possible=possible,
        )
    )


def epsilon_of_draw(cost: Fraction, currency: str) -> Fraction:
    """Return the epsilon of a draw of the exponential mechanism that a cost pays."""
    return cost if currency == "epsilon" else bounded_range_epsilon(cost)


def permute_and_flip(
    scores: ArrayLike,
    *,
    epsilon: Any,
    released: str,
    monotone: bool = False,
    neighbours: str = "add_remove",
    records_per_person: int = 1,
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> int:
    r"""Choose among few candidates; never worse than `exponential_mechanism`.

    Candidates are asked in random order, and candidate i is taken with probability
    :math:`e^{-\rho (\max_j q_j - q_i)}`, with :math:`\rho = \epsilon` for monotone
    scores and half of it otherwise. The expected shortfall is between half and all of
    the exponential mechanism's. Every flip compares random bits with the binary
    expansion of its probability, so that the guarantee is exact.

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
    records_per_person : int, default=1
        Largest number of records of one person, public; divides the rate.
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
    relation = Relation(neighbours, records_per_person)
    monotone = check_bool(monotone, "monotone")
    noise = check_insecure_rng(insecure_rng)
    whole = _scores(scores)
    price = check_epsilon(epsilon)
    if ledger is None:
        warn_if_weak(price, "epsilon")
    charge(ledger, LedgerEntry(price, released, "permute_and_flip"), relation, noise)
    exact = in_64_bits(whole)
    return flip(exact, price, monotone=monotone, relation=relation, noise=noise)


def flip(
    scores: NDArray[np.int64],
    epsilon: Fraction,
    *,
    monotone: bool,
    relation: Relation,
    noise: Rng,
) -> int:
    """Choose by permute-and-flip; the caller has paid epsilon."""
    rate = _rate(epsilon, monotone, relation)

    def choose() -> int:
        best = int(scores.max())
        for candidate in random_permutation(scores.size, insecure_rng=noise):
            exponent = rate * (best - int(scores[candidate]))
            if flip_negative_exponential(exponent, insecure_rng=noise):
                return int(candidate)
        raise AssertionError("the best candidate is always taken")

    return drawn(
        "permute_and_flip",
        scores,
        choose,
        epsilon=epsilon,
        rate=rate,
        monotone=monotone,
        relation=relation,
    )


def _scores(scores: ArrayLike) -> NDArray[Any]:
    exact = whole_numbers(scores)
    if exact.ndim != 1 or not exact.size:
        raise ValueError(
            "scores must be one row with a number per candidate, got shape "
            f"{exact.shape}"
        )
    return exact
