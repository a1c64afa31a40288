"""The only place that draws random numbers for noise: the operating system."""

from __future__ import annotations

import os
import warnings
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_seed
from mmech.exceptions import EntropyError, PrivacyLeakWarning

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
