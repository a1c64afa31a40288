"""Outcomes of given probabilities, exactly: trials, and choices by weights.

A Bernoulli(p) trial compares random bits with the binary expansion of p. It needs
another bit only while all bits so far agree. Expansions are floor(2**bits * p), cut off
after `bits` bits: by integer arithmetic with rigorous bounds, without floating point.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.noise.system import Rng, random_words

Bits = Callable[[int], int]
"""Function from a number of bits to floor(2**bits * p)."""

FRACTION_BITS = 36
"""Logarithms of weights are integers, in units of 2**-36."""

IMPOSSIBLE = -(2**63)
"""Logarithm of a weight of zero, in rows of `weighted_choices`."""

NEAR = 150.0
"""Weights below exp(-150) of the largest one are left to the slow path: all of them
together have a probability below 2**-128, because there are fewer than 2**80."""

HEAD_WORDS = 2
"""Random words that are all zero with probability 2**-128."""

LN2 = 0xB17217F7D1CF79ABC9E3B39803F2F6AF40F343267298B62D8A0D175B8BAAFA2BE7B876206DEBAC98
"""Natural logarithm of two, in units of 2**-320."""


# ---- expansions of probabilities -----------------------------------------------


def exp_bounds(x: Fraction, precision: int) -> tuple[int, int]:
    """Return close integers lo <= 2**precision * exp(-x) <= hi, for x >= 0.

    With y = x / 2**k <= 1/2 the terms of exp(-y) = 1 - y + y²/2 - ... alternate and
    decrease, so that every partial sum of an odd and even number of terms is a bound on
    either side. Squaring k times gives exp(-x); lower bounds are rounded down and upper
    bounds up throughout.
    """
    doubled = -(-2 * x.numerator // x.denominator)  # rounded up; 2**k is at least it
    halvings = (max(doubled, 1) - 1).bit_length()
    guard = precision + 2 * halvings + 16
    one = 1 << guard
    numerator, denominator = x.numerator, x.denominator << halvings
    term_lo = term_hi = one
    lo = hi = one
    sign = 1
    n = 0
    while True:
        n += 1
        term_lo = term_lo * numerator // (denominator * n)
        term_hi = -(-term_hi * numerator // (denominator * n))
        sign = -sign
        if sign < 0:
            lo, hi = lo - term_hi, hi - term_lo
            lower = lo
        else:
            lo, hi = lo + term_lo, hi + term_hi
            if term_hi <= 1:
                upper = hi
                break
    lo, hi = lower, upper
    for _ in range(halvings):
        lo = lo * lo >> guard
        hi = -(-hi * hi >> guard)
    return max(lo, 0) >> (guard - precision), -(-hi >> (guard - precision))


def exp_bits(x: Fraction, bits: int) -> int:
    """Return floor(2**bits * exp(-x)) for a rational x > 0.

    exp(-x) is irrational for every x > 0, so the floor is decided at some precision
    (Lindemann).

    Examples
    --------
    >>> from fractions import Fraction
    >>> exp_bits(Fraction(1), 16), int(2**16 * 0.36787944117144233)
    (24109, 24109)
    """
    precision = bits + 32
    while True:
        lo, hi = exp_bounds(x, precision)
        if lo >> (precision - bits) == hi >> (precision - bits):
            return lo >> (precision - bits)
        precision *= 2


def logistic_bits(x: Fraction, bits: int) -> int:
    """Return floor(2**bits / (1 + exp(x))) for a rational x > 0.

    Examples
    --------
    >>> from fractions import Fraction
    >>> logistic_bits(Fraction(1), 16), int(2**16 * 0.2689414213699951)
    (17625, 17625)
    """
    precision = bits + 32
    while True:
        # e/(1 + e) grows with e = exp(-x).
        lo, hi = exp_bounds(x, precision)
        lowest = (lo << bits) // ((1 << precision) + lo)
        highest = (hi << bits) // ((1 << precision) + hi)
        if lowest == highest:
            return lowest
        precision *= 2


# ---- one trial ----------------------------------------------------------------


def bernoulli(probability: Bits, insecure_rng: Rng, *, known: int = 0) -> bool:
    """Return True with exactly the given probability.

    Compares a uniform number with the binary expansion of p, 0 < p < 1, 64 bits at a
    time, until they differ. `probability` maps a number of bits to floor(2**bits * p);
    the `known` leading bits were compared before and found equal.
    """
    bits = known
    while True:
        bits += 64
        word = int(random_words(1, insecure_rng)[0])
        expansion = probability(bits) & (2**64 - 1)
        if word != expansion:
            return word < expansion


def flip_negative_exponential(exponent: Fraction, *, insecure_rng: Rng = None) -> bool:
    """Return True with probability exactly exp(-exponent).

    Parameters
    ----------
    exponent : Fraction
        At least zero.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.noise import flip_negative_exponential
    >>> flip_negative_exponential(Fraction(0))
    True
    """
    if exponent < 0:
        raise ValueError(f"exponent must be at least 0, got {exponent}")
    return exponent == 0 or bernoulli(partial(exp_bits, exponent), insecure_rng)


# ---- choices by weights -------------------------------------------------------


def weighted_choice(log_weights: ArrayLike, *, insecure_rng: Rng = None) -> int:
    r"""Draw an index with probability proportional to its weight.

    The weight of i is the double next to :math:`e^{-g_i}`, where :math:`g_i` is how far
    its logarithm lies below the largest one; the index is drawn exactly with these
    doubles, taken as the fractions that they are, however small. So the probability of
    an index is the exact one times a factor within :math:`1 \pm 2^{-48}`.

    Parameters
    ----------
    log_weights : array_like of int, shape (n,)
        Logarithms in units of 2**-36 nats, below 2**62 in magnitude, or Python
        integers of any size in an array of objects.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    int

    Notes
    -----
    Proof: ``notebooks/proofs/exponential_mechanism.md``.

    Examples
    --------
    >>> from mmech.noise import weighted_choice
    >>> weighted_choice([0, 1 << 46, 0])  # e^1024 to one
    1
    """
    logarithms = np.asarray(log_weights)
    if (
        logarithms.dtype.kind not in "iuO"
        or logarithms.ndim != 1
        or not logarithms.size
    ):
        raise ValueError(
            "log_weights must be one row of at least one integer, got "
            f"{logarithms.dtype} of shape {logarithms.shape}"
        )
    gaps = logarithms.max() - logarithms
    exponents = np.ldexp(np.minimum(gaps, 2**62).astype(np.float64), -FRACTION_BITS)
    near = np.flatnonzero(exponents <= NEAR)
    weights = _whole(_weights(gaps[near]))
    if near.size < gaps.size and not random_words(HEAD_WORDS, insecure_rng).any():
        far = np.flatnonzero(exponents > NEAR)
        small = [_small_weight(int(gap)) for gap in gaps[far]]
        lowest = min(_POWER, *(power for _, power in small))
        small_weights = [whole << (power - lowest) for whole, power in small]
        total = sum(small_weights) + (sum(weights) << (_POWER - lowest))
        bits = partial(_expansion, sum(small_weights), total)
        if bernoulli(bits, insecure_rng, known=64 * HEAD_WORDS):
            return int(far[position_by_weight(small_weights, insecure_rng)])
    return int(near[position_by_weight(weights, insecure_rng)])


def weighted_choices(
    log_weights: NDArray[np.int64], *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    r"""Draw an index of every row with probability proportional to its weight.

    Each row follows exactly the law of `weighted_choice`. A uniform number of 64 bits
    decides, unless it is closer to a border between two indices than roundings are
    large; then exact integers do, with as many more bits as it takes. A row takes about
    10 ns per candidate.

    Parameters
    ----------
    log_weights : ndarray of int64, shape (n, m)
        Logarithms in units of 2**-36 nats, below 2**62 in magnitude, or `IMPOSSIBLE`;
        at least one of each row is possible.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.noise import IMPOSSIBLE, weighted_choices
    >>> weighted_choices(np.array([[0, 1 << 46], [0, IMPOSSIBLE]]))
    array([1, 0])
    """
    from mmech._kernels import weighted_rows

    rows = np.ascontiguousarray(log_weights, np.int64)
    n, m = rows.shape
    words = random_words(n, insecure_rng)
    out = np.empty(n, np.int64)
    weighted_rows(rows, words, np.empty(m), out)
    for row in np.flatnonzero(out < 0):
        out[row] = _settled(rows[row], int(words[row]), insecure_rng)
    return out


def _settled(log_weights: NDArray[np.int64], word: int, insecure_rng: Rng) -> int:
    """Return the index that a uniform number falls on, given its first 64 bits."""
    possible = np.flatnonzero(log_weights != IMPOSSIBLE)
    gaps = log_weights[possible].max() - log_weights[possible]
    near = np.ldexp(gaps.astype(np.float64), -FRACTION_BITS) < NEAR
    small = [_small_weight(int(gap)) for gap in gaps[~near]]
    lowest = min([_POWER, *(power for _, power in small)])
    weights = np.zeros(gaps.size, object)
    weights[near] = [w << (_POWER - lowest) for w in _whole(_weights(gaps[near]))]
    weights[~near] = [whole << (power - lowest) for whole, power in small]
    borders = np.cumsum(weights)
    number, bits, total = word, 64, int(borders[-1])
    while True:
        # The number lies in [number, number + 1) / 2**bits.
        first = next(i for i, b in enumerate(borders) if number * total < b << bits)
        if (number + 1) * total <= borders[first] << bits:
            return int(possible[first])
        number = number << 64 | int(random_words(1, insecure_rng)[0])
        bits += 64


_POWER = -320
"""Doubles down to exp(-150) are whole numbers of 2**-320."""


def _weights(gaps: NDArray[Any]) -> NDArray[np.float64]:
    """Return exp(-gap) of gaps in units of 2**-36."""
    return np.exp(-np.ldexp(gaps.astype(np.float64), -FRACTION_BITS))


def _whole(weights: NDArray[np.float64]) -> list[int]:
    """Return doubles in (exp(-151), 1] as whole numbers of 2**_POWER."""
    mantissas, powers = np.frexp(weights)
    wholes = np.ldexp(mantissas, 53).astype(np.int64)
    shifts = powers - 53 - _POWER
    return list(map(operator.lshift, wholes.tolist(), shifts.tolist()))


def _small_weight(gap: int) -> tuple[int, int]:
    """Return exp(-gap * 2**-36) as a whole number below 2**53 times a power of two."""
    halvings, rest = divmod(gap << (320 - FRACTION_BITS), LN2)
    mantissa = math.exp(-rest / 2**320)
    return int(math.ldexp(mantissa, 53)), -53 - halvings


def _expansion(part: int, total: int, bits: int) -> int:
    """Return floor(2**bits * part / total)."""
    return (part << bits) // total


def position_by_weight(weights: list[int], insecure_rng: Rng) -> int:
    """Draw a position with probability exactly proportional to whole weights."""
    ends = list(accumulate(weights))
    return bisect_right(ends, _below(ends[-1], insecure_rng))


def _below(bound: int, insecure_rng: Rng) -> int:
    """Draw an integer uniformly from 0..bound-1, of any size."""
    length = (bound - 1).bit_length()
    words = -(-length // 64)
    while True:
        drawn = int.from_bytes(random_words(words, insecure_rng).tobytes(), "little")
        candidate = drawn >> (64 * words - length)
        if candidate < bound:
            return candidate
