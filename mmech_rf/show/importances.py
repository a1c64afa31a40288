"""How much a model looks at each attribute, from the model alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mmech_rf.arrays import Floats, Integers

RECORDS = 2000
"""Accuracy: made-up records that are looked at. It stands within some percent."""


def importances(
    shares: Callable[[Integers], Floats], domain_shape: tuple[int, ...]
) -> Floats:
    """Return how far class probabilities move when one attribute is drawn anew, (d,).

    Made-up records are spread evenly over the domain, from a fixed seed: no record of
    anybody is looked at, so that nothing is spent. Distances of probabilities
    (`shares`, of encoded records) are total variation, and their means are scaled to a
    sum of one; all zero for a model that says the same of every record.
    """
    rng = np.random.default_rng(0)
    sizes = np.array(domain_shape, np.int64)
    codes = rng.integers(0, sizes, (RECORDS, sizes.size))
    others = rng.integers(0, sizes, codes.shape)
    before = shares(codes)
    moved = np.zeros(sizes.size)
    for i in range(sizes.size):
        changed = codes.copy()
        changed[:, i] = others[:, i]
        moved[i] = np.abs(shares(changed) - before).sum() / 2
    total = moved.sum()
    return moved / total if total > 0 else moved
