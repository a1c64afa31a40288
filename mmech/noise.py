"""The only file that draws random numbers from the operating system.

Noise, assignments of records and tie-breaks all come from here, so that the
source of a guarantee can be read in one place. Everything else that is random
in this package (starts of an optimizer, forests) uses ordinary seeded generators
and is public.

What is idealised in this version: `laplace` and `gaussian` draw *continuous* noise
as a double, from 53 uniform bits of the operating system. The guarantee therefore
holds for real-valued noise; the low-order bits of a floating-point sum can carry
information about the exact count (Mironov, "On significance of the least
significant bits for differential privacy", CCS 2012).
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.exceptions import PrivacyLeakWarning

__all__ = [
    "check_insecure_rng",
    "gaussian",
    "integers_below",
    "keyed_argmax",
    "laplace",
    "random_argmax",
    "system_words",
]


def system_words(size: int) -> NDArray[np.uint64]:
    """Return `size` uniform 64-bit words from the operating system's entropy."""
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)


def _words(size: int, insecure_rng: np.random.Generator | None) -> NDArray[np.uint64]:
    if insecure_rng is None:
        return system_words(size)
    return insecure_rng.integers(0, 2**64, size, dtype=np.uint64)


def check_insecure_rng(insecure_rng: Any) -> np.random.Generator | None:
    """Return the test generator, warning that it voids the guarantee.

    Parameters
    ----------
    insecure_rng : numpy.random.Generator, int or None
        ``None`` selects the operating system's entropy.

    Warns
    -----
    PrivacyLeakWarning
        If a generator or seed is given.
    """
    if insecure_rng is None:
        return None
    warnings.warn(
        "noise from insecure_rng is predictable and gives no privacy; "
        "use it in tests only",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    return np.random.default_rng(insecure_rng)


def laplace(
    scale: float,
    shape: tuple[int, ...],
    *,
    insecure_rng: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Draw independent Laplace noise of density exp(-|x| / scale) / (2 scale).

    Parameters
    ----------
    scale : float
        Scale b > 0, in counts; the variance is 2 b².
    shape : tuple of int
        Shape of the result.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of float64, of the given shape

    Notes
    -----
    One 64-bit word per draw: 53 bits give U in (0, 1], one more the sign, and
    -log(U) is exponential. See the module docstring for what is idealised.
    """
    uniform, sign = _magnitude_and_sign(scale, shape, insecure_rng)
    return np.asarray(-scale * sign * np.log(uniform)).reshape(shape)


def gaussian(
    scale: float,
    shape: tuple[int, ...],
    *,
    insecure_rng: np.random.Generator | None = None,
) -> NDArray[np.float64]:
    """Draw independent Gaussian noise of mean zero.

    Parameters
    ----------
    scale : float
        Standard deviation σ > 0, in counts.
    shape : tuple of int
        Shape of the result.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of float64, of the given shape

    Notes
    -----
    One 64-bit word per draw: 53 bits give U in (0, 1], one more the sign, and the
    normal quantile of U / 2 the magnitude. Magnitudes above 8.3 σ, of probability
    1e-16, do not occur. See the module docstring for what else is idealised.
    """
    from scipy.special import ndtri

    uniform, sign = _magnitude_and_sign(scale, shape, insecure_rng)
    return np.asarray(-scale * sign * ndtri(0.5 * uniform)).reshape(shape)


def _magnitude_and_sign(
    scale: float, shape: tuple[int, ...], insecure_rng: np.random.Generator | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return independent uniforms in (0, 1] and signs, from one word each."""
    if not scale > 0 or not np.isfinite(scale):
        raise ValueError(f"the noise scale must be a finite number > 0, got {scale}")
    words = _words(int(np.prod(shape)), insecure_rng)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53
    sign = 1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64)
    return uniform, sign


def integers_below(
    bounds: ArrayLike, *, insecure_rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Draw one integer uniformly from 0..bound-1 for every bound.

    Exactly uniform: words above the largest multiple of the bound are drawn
    again.

    Parameters
    ----------
    bounds : array_like of int, shape (n,)
        Exclusive upper bounds, at least one.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    integers = np.asarray(bounds)
    if integers.size and integers.min() < 1:
        raise ValueError(f"bounds must be at least 1, got {integers.min()}")
    limit = integers.astype(np.uint64)
    # 2**64 mod bound words at the top would favour small results.
    excess = (np.uint64(2**64 - 1) % limit + np.uint64(1)) % limit
    out = np.empty(limit.shape, np.uint64)
    pending = np.arange(limit.size)
    while pending.size:
        words = _words(pending.size, insecure_rng)
        accepted = words <= np.uint64(2**64 - 1) - excess[pending]
        done = pending[accepted]
        out[done] = words[accepted] % limit[done]
        pending = pending[~accepted]
    return out.astype(np.int64)


def random_argmax(
    scores: ArrayLike, *, insecure_rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Return the column of each row's maximum, ties broken uniformly at random.

    Breaking ties by column would favour the classes that happen to come first.

    Parameters
    ----------
    scores : array_like, shape (n, k)
        Released scores; the choice is post-processing.
    insecure_rng : numpy.random.Generator, default=None
        Source for tests; the default is the operating system's entropy.

    Returns
    -------
    ndarray of int64, shape (n,)

    Examples
    --------
    >>> from mmech.noise import random_argmax
    >>> random_argmax([[1.0, 3.0, 2.0], [5.0, 0.0, 0.0]])
    array([1, 0])
    """
    array = np.asarray(scores)
    if np.isnan(array).any():
        raise ValueError("scores must be numbers, got NaN")
    best = array == array.max(axis=1, keepdims=True)
    winners = best.argmax(axis=1)
    tied = np.flatnonzero(best.sum(axis=1) > 1)
    if tied.size:
        ranks = np.cumsum(best[tied], axis=1)
        picks = integers_below(ranks[:, -1], insecure_rng=insecure_rng)
        winners[tied] = (ranks > picks[:, None]).argmax(axis=1)
    return winners.astype(np.int64)


def keyed_argmax(scores: ArrayLike, items: ArrayLike, key: int) -> NDArray[np.int64]:
    """Return the column of each row's maximum, ties broken by a keyed hash.

    With a key drawn once from `system_words` every tie is broken as if at random,
    and the same item always gets the same answer, so that a released model is a
    function of its input.

    Parameters
    ----------
    scores : array_like, shape (n, k)
        Released scores; the choice is post-processing.
    items : array_like of int, shape (n,)
        Identity of every row, such as its domain cell.
    key : int
        64-bit key of the model.

    Returns
    -------
    ndarray of int64, shape (n,)

    References
    ----------
    .. [1] Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
       OOPSLA 2014 (the mixing function).

    Examples
    --------
    >>> from mmech.noise import keyed_argmax
    >>> keyed_argmax([[1.0, 3.0, 2.0], [5.0, 0.0, 0.0]], [7, 8], key=1)
    array([1, 0])
    """
    array = np.asarray(scores)
    if np.isnan(array).any():
        raise ValueError("scores must be numbers, got NaN")
    best = array == array.max(axis=1, keepdims=True)
    winners = best.argmax(axis=1)
    tied = np.flatnonzero(best.sum(axis=1) > 1)
    if tied.size:
        ranks = np.cumsum(best[tied], axis=1)
        mixed = np.asarray(items)[tied].astype(np.uint64)
        with np.errstate(over="ignore"):
            mixed = mixed * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(key)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
        picks = (mixed % ranks[:, -1].astype(np.uint64)).astype(np.int64)
        winners[tied] = (ranks > picks[:, None]).argmax(axis=1)
    return winners.astype(np.int64)
