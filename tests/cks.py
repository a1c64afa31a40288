"""The samplers of Canonne, Kamath and Steinke in plain Python, to compare with.

"The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithms 1 to 3:
integers and fractions only, one draw at a time, in variable time.
"""

import math
import random
from fractions import Fraction

source = random.SystemRandom()


def bernoulli(p):
    """One with probability p, a fraction."""
    return source.randrange(p.denominator) < p.numerator


def bernoulli_exp(gamma):
    """One with probability exp(-gamma), for a fraction gamma >= 0 (Algorithm 1)."""
    while gamma > 1:
        if not bernoulli_exp(Fraction(1)):
            return False
        gamma -= 1
    k = 1
    while bernoulli(gamma / k):
        k += 1
    return k % 2 == 1


def discrete_laplace(scale):
    """P(x) ∝ exp(-|x| / scale), for a fraction (Algorithm 2, scale = t / s)."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = source.randrange(t)
        if not bernoulli_exp(Fraction(u, t)):
            continue
        v = 0
        while bernoulli_exp(Fraction(1)):
            v += 1
        magnitude = (u + t * v) // s
        negative = source.randrange(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def discrete_gaussian(variance):
    """P(x) ∝ exp(-x² / (2 variance)), for a fraction (Algorithm 3)."""
    t = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        y = discrete_laplace(Fraction(t))
        if bernoulli_exp((abs(y) - variance / t) ** 2 / (2 * variance)):
            return y
