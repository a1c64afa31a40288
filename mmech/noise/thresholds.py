"""Probabilities exp(-x) and 1 / (1 + exp(x)) to as many bits as asked, exactly.

A Bernoulli(p) trial compares random bits with the binary expansion of p. It needs
another bit only while all bits so far agree. The functions here return the
integer floor(2**bits * p), which is the expansion cut off after `bits` bits, by
integer arithmetic with rigorous bounds: no floating point is involved.
"""

from __future__ import annotations

from fractions import Fraction


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
