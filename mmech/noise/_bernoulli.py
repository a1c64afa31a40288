"""One exact Bernoulli trial at a time: the slow path of the vectorised samplers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmech.noise._system import random_words

__all__ = ["bernoulli"]

Bits = Callable[[int], int]
"""Function from a number of bits to floor(2**bits * p)."""


def bernoulli(
    probability: Bits, insecure_rng: np.random.Generator | None, *, known: int = 0
) -> bool:
    """Return True with exactly the given probability.

    Compares a uniform number with the binary expansion of p, 64 bits at a time,
    until they differ.

    Parameters
    ----------
    probability : callable
        Function from a number of bits to floor(2**bits * p), with 0 < p < 1.
    insecure_rng : numpy.random.Generator or None
        Source for tests.
    known : int, default=0
        Number of leading bits that were compared before and found equal.
    """
    bits = known
    while True:
        bits += 64
        word = int(random_words(1, insecure_rng)[0])
        expansion = probability(bits) & (2**64 - 1)
        if word != expansion:
            return word < expansion
