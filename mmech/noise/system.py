"""The only place that draws random numbers for noise: the operating system.

They are bytes, words, integers and keys, all of them uniform.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_seed
from mmech.exceptions import EntropyError, PrivacyLeakWarning
from mmech.noise.seam import drawn

Rng: TypeAlias = np.random.Generator | None
"""Predictable source for tests; ``None`` is the operating system's entropy."""


def random_bytes(size: int, insecure_rng: Rng) -> NDArray[np.uint8]:
    """Return `size` uniform bytes, from the operating system unless in a test."""
    if insecure_rng is None:
        try:
            return np.frombuffer(os.urandom(size), dtype=np.uint8)
        except (OSError, NotImplementedError) as failure:
            raise EntropyError(
                "the operating system gave no random bytes, so nothing was released; "
                "a budget that was charged stays spent"
            ) from failure
    return np.frombuffer(insecure_rng.bytes(size), dtype=np.uint8)


def random_words(size: int, insecure_rng: Rng) -> NDArray[np.uint64]:
    """Return `size` uniform 64-bit words, like `random_bytes`."""
    return random_bytes(8 * size, insecure_rng).view(np.uint64)


def integers_below(bounds: ArrayLike, *, insecure_rng: Rng = None) -> NDArray[np.int64]:
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
        words = random_words(pending.size, insecure_rng)
        accepted = words <= np.uint64(2**64 - 1) - excess[pending]
        done = pending[accepted]
        out[done] = words[accepted] % limit[done]
        pending = pending[~accepted]
    return out.astype(np.int64)


def random_key(insecure_rng: Rng = None) -> int:
    """Draw a key of 64 bits, such as `keyed_argmax` takes."""
    return int(drawn("key", None, lambda: random_words(1, insecure_rng)[0]))


class PredictableGenerator(np.random.Generator):
    """A generator of predictable noise that was warned about where it came in."""


def check_insecure_rng(insecure_rng: Any) -> PredictableGenerator | None:
    """Return the test generator, warning that it voids the guarantee.

    What this function returned is passed on to other functions without one more
    warning.

    Parameters
    ----------
    insecure_rng : int, numpy.random.Generator or None
        ``None`` selects the operating system's entropy.

    Warns
    -----
    PrivacyLeakWarning
        If a generator or seed is given.
    """
    if insecure_rng is None or type(insecure_rng) is PredictableGenerator:
        return insecure_rng
    warnings.warn(
        "noise from insecure_rng is predictable and gives no privacy; "
        "use it in tests only",
        PrivacyLeakWarning,
        stacklevel=3,
    )
    remedy = "; leave it out for noise that protects"
    generator = check_seed(insecure_rng, "insecure_rng", remedy)
    return PredictableGenerator(generator.bit_generator)
