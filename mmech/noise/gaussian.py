r"""Discrete Gaussian noise, drawn exactly.

:math:`P(X = x) \propto e^{-x^2 / 2 \sigma^2}` on the integers, by rejection from
discrete Laplace noise of scale t = ⌊σ⌋ + 1 with acceptance probability
:math:`\exp(-(|x| - \sigma^2 / t)^2 / 2 \sigma^2)`. The acceptance compares a uniform
64-bit word with that probability in doubles; where the two are closer than any
rounding error could explain (one in 2^30 trials), exact integer arithmetic decides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.noise.exact import bernoulli, exp_bits
from mmech.noise.laplace import MAX_SCALE, check_scale, discrete_laplace
from mmech.noise.seam import sampler
from mmech.noise.system import Rng, random_words

MARGIN = 2.0**-31
"""Distance within which doubles do not decide; their error is below 2^-40."""

BLOCK_DRAWS = 2**18
"""Draws that are held at a time."""


@sampler("gaussian")
def discrete_gaussian(
    variance: Any, shape: tuple[int, ...], *, insecure_rng: Rng = None
) -> NDArray[np.int64]:
    """Draw independent discrete Gaussian noise, exactly.

    Parameters
    ----------
    variance : Fraction or int
        σ² > 0, in squared counts: P(x) is proportional to exp(-x² / 2σ²).
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
        If the variance is not positive or too large for 64-bit sums.

    Notes
    -----
    Proof: ``notebooks/proofs/gaussian.md``.

    References
    ----------
    .. [1] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020, Algorithm 3.

    Examples
    --------
    >>> from mmech.noise import discrete_gaussian
    >>> discrete_gaussian(9, (3, 2)).shape
    (3, 2)
    """
    exact = check_variance(variance)
    root = math.isqrt(exact.numerator // exact.denominator)
    scale = check_scale(root + 1)
    out = np.empty(math.prod(shape), np.int64)
    done = 0
    while done < out.size:
        size = min(BLOCK_DRAWS, 2 * (out.size - done) + 16)
        proposals = discrete_laplace(scale, (size,), insecure_rng=insecure_rng)
        words = random_words(size, insecure_rng)
        accepted = _accepted(proposals, words, exact, root + 1, insecure_rng)
        draws = proposals[accepted][: out.size - done]
        out[done : done + draws.size] = draws
        done += draws.size
    return out.reshape(shape)


def check_variance(variance: Any) -> Fraction:
    """Return σ² as a positive fraction that 64-bit sums can carry."""
    exact = Fraction(variance)
    if exact <= 0:
        raise ValueError(f"the variance must be > 0, got {float(exact):g}")
    if exact >= MAX_SCALE**2:
        raise ValueError(
            f"noise of standard deviation above {MAX_SCALE:.3g} does not fit into "
            "64-bit integers; choose a larger rho"
        )
    return exact


def _accepted(
    proposals: NDArray[np.int64],
    words: NDArray[np.uint64],
    variance: Fraction,
    scale: int,
    insecure_rng: Rng,
) -> NDArray[np.bool_]:
    """Return which proposals the exact acceptance probability lets through."""
    centre = float(variance / scale)
    distance = np.abs(proposals) - centre
    probability = np.exp(-np.square(distance) / (2.0 * float(variance)))
    uniform = words.astype(np.float64) * 2.0**-64
    accepted = uniform < probability
    for i in np.flatnonzero(np.abs(uniform - probability) <= MARGIN).tolist():
        gap = abs(int(proposals[i])) - variance / scale
        exponent = gap**2 / (2 * variance)
        accepted[i] = exponent == 0 or _below(int(words[i]), exponent, insecure_rng)
    return accepted


def _below(word: int, exponent: Fraction, insecure_rng: Rng) -> bool:
    """Whether a uniform number with these leading 64 bits is below exp(-exponent)."""
    expansion = exp_bits(exponent, 64)
    if word != expansion:
        return word < expansion
    return bernoulli(lambda bits: exp_bits(exponent, bits), insecure_rng, known=64)


def discrete_gaussian_variance(variance: Any) -> float:
    """Return the variance of the noise, at most the parameter σ².

    Parameters
    ----------
    variance : Fraction or float
        The parameter σ² > 0.

    Examples
    --------
    >>> from mmech.noise import discrete_gaussian_variance
    >>> round(discrete_gaussian_variance(0.1), 4), discrete_gaussian_variance(4)
    (0.0133, 4.0)
    """
    parameter = float(variance)
    if parameter >= 4:  # equal to within 4 σ⁴ π² exp(-2 π² σ²) < 1e-30
        return parameter
    x = np.arange(1, 64)  # all further weights are below exp(-512)
    weights = np.exp(-np.square(x) / (2.0 * parameter))
    return float(2.0 * (np.square(x) @ weights) / (1.0 + 2.0 * weights.sum()))
