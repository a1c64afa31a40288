"""One exact Bernoulli trial at a time: the slow path of the vectorised samplers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

from mmech.noise.system import Rng, random_words
from mmech.noise.thresholds import exp_bits

Bits = Callable[[int], int]
"""Function from a number of bits to floor(2**bits * p)."""


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
