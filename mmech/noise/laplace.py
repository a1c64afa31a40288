r"""Discrete Laplace noise, drawn exactly.

:math:`P(X = x) = \frac{1-q}{1+q} q^{|x|}` with :math:`q = e^{-1/t}` is the law of
G₁ - G₂ for two geometric numbers :math:`P(G \ge g) = q^g`. The binary digits of a
geometric number are independent: digit i is one with probability
:math:`1 / (1 + e^{2^i / t})`. All from digit B up is positive with probability
:math:`e^{-2^B / t}`. So a draw is 2 (B + 1) independent Bernoulli trials. Each takes
random bytes until one differs from the binary expansion of its probability: nearly
always the first. A trial that eight bytes leave
undecided, and digits beyond B, go to exact integer arithmetic.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.noise.exact import bernoulli, exp_bits, logistic_bits
from mmech.noise.seam import sampler
from mmech.noise.system import Rng, random_bytes

MAX_SCALE = 2**48
"""Largest scale: sums of counts and noise stay within 64-bit integers."""

TAIL = 45
"""Digits are drawn up to 2^B / t >= 45; beyond lies a probability of 2^-64."""

BLOCK_DRAWS = 2**16
"""Draws per request for entropy."""

MAX_EVENTS = 4096
"""Undecided trials that the fast path sets aside before it pauses."""


@sampler("laplace")
def discrete_laplace(
    scale: Any, shape: tuple[int, ...], *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    """Draw independent discrete Laplace noise, exactly.

    Parameters
    ----------
    scale : Fraction or int
        Scale t > 0, in counts: P(x) is proportional to exp(-|x| / t).
    shape : tuple of int
        Shape of the result.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, of the given shape

    Raises
    ------
    ValueError
        If the scale is not positive or too large for 64-bit sums.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020, Section 5 (the law; drawn there by rejection).
    .. [2] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing
       privacy mechanisms", STOC 2009 (the mechanism).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech.noise import discrete_laplace
    >>> discrete_laplace(Fraction(5, 2), (3, 2)).shape
    (3, 2)
    """
    return _draw(check_scale(scale), shape, insecure_rng, None)


def discrete_laplace_variance(scale: Any) -> float:
    """Return the variance 2 q / (1 - q)² of the noise, q = exp(-1 / scale).

    Parameters
    ----------
    scale : Fraction or float
        Scale t > 0. The variance is below 2 t², the variance of continuous noise.

    Examples
    --------
    >>> from mmech.noise import discrete_laplace_variance
    >>> round(discrete_laplace_variance(1), 3), round(discrete_laplace_variance(50), 1)
    (1.841, 4999.8)
    """
    half = 0.5 / float(scale)
    return 0.5 / math.sinh(half) ** 2 if half < 350 else 2.0 * math.exp(-2 * half)


def check_scale(scale: Any) -> Fraction:
    """Return a noise scale as a positive fraction that 64-bit sums can carry."""
    exact = Fraction(scale)
    if exact.numerator <= 0:
        raise ValueError(f"the noise scale must be > 0, got {float(exact):g}")
    if exact > MAX_SCALE:
        raise ValueError(
            f"noise of scale above {MAX_SCALE:.3g} does not fit into 64-bit integers; "
            "choose a larger epsilon"
        )
    return exact


def digits(scale: Fraction) -> int:
    """Return B, the number of binary digits that are drawn one by one."""
    least = -(-TAIL * scale.numerator // scale.denominator)
    return (least - 1).bit_length()


@lru_cache(maxsize=1024)
def expansions(scale: Fraction, count: int) -> NDArray[np.uint8]:
    """Return the first eight bytes of every trial's probability, (count + 1, 8)."""
    words = [logistic_bits(2**i / scale, 64) for i in range(count)]
    words.append(exp_bits(2**count / scale, 64))
    table = np.array(words, dtype=">u8").view(np.uint8).reshape(count + 1, 8)
    table.setflags(write=False)
    return table


def _draw(
    scale: Fraction, shape: tuple[int, ...], insecure_rng: Rng, count: int | None
) -> NDArray[np.int64]:
    """Draw with a given number of digits; tests choose few, to meet the rare cases."""
    from mmech._kernels import geometric_differences

    count = digits(scale) if count is None else count
    table = expansions(scale, count)
    out = np.empty(math.prod(shape), np.int64)
    events = np.empty((MAX_EVENTS, 3), np.int64)
    trials = 2 * (count + 1)
    done = 0
    while True:  # once for no draws at all, which loads the kernel
        block = out[done : done + BLOCK_DRAWS]
        # A byte decides 255 of 256 trials; eight per trial are kept in reserve.
        size = trials * (block.size + block.size // 200 + 16) if block.size else 0
        stream = random_bytes(size, insecure_rng)
        drawn, found = geometric_differences(table, stream, events, block)
        for index, side, digit in events[:found].tolist():
            block[index] += side * _settle(scale, count, digit, insecure_rng)
        done += drawn
        if done == out.size:
            return out.reshape(shape)


def _settle(scale: Fraction, count: int, digit: int, insecure_rng: Rng) -> int:
    """Return what one trial adds to its geometric number, exactly.

    Digits from 0 to count - 1 and the tail are undecided after 64 bits; a `digit` of
    count + 1 stands for a tail that is known to be positive.
    """
    if digit < count:
        x = 2**digit / scale
        decided = bernoulli(lambda bits: logistic_bits(x, bits), insecure_rng, known=64)
        return int(decided) << digit
    tail = 2**count / scale

    def probability(bits: int) -> int:
        return exp_bits(tail, bits)

    if digit == count and not bernoulli(probability, insecure_rng, known=64):
        return 0
    multiple = 1
    while bernoulli(probability, insecure_rng):
        multiple += 1
    return multiple << count
