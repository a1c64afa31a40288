"""From noisy marginals to counts that are whole, non-negative and consistent.

Post-processing: everything here is a function of a measurement and of public facts.
With the unbiased tables of least squares at hand,

1. the total and the tables of single attributes become whole and non-negative;
2. every table of a pair of attributes is drawn towards independence, then towards a
   model of maximum entropy, by what its noise explains (empirical Bayes);
3. tables of one and two attributes get exactly the margins of step 1 by controlled
   rounding; where a table has three attributes or more, all are tabulated from one set
   of whole records of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from mmech.limits import LIMITS
from mmech.operators.base import product_of
from mmech.reconstruction import MarginalEstimate, MaximumEntropy
from mmech.tables.model import draw_codes, fit_model, proportional_fit
from mmech.tables.noise import Noise
from mmech.tables.rounding import (
    apportion,
    controlled_rounding,
    nearest_with_sums,
    with_margins,
)
from mmech.tables.shared_noise import SharedNoise

__all__ = ["ROUNDING", "Counts", "settle"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Subset = tuple[int, ...]

ROUNDING = {
    "margins": "every table is rounded to the rounded tables of its single attributes "
    "(controlled rounding)",
    "records": "all tables are tabulated from one set of whole records of the fitted "
    "model",
}
"""How counts are made whole, in words."""

SIGNALS = np.concatenate([[0.0], np.geomspace(1e-3, 1e6, 37)])
"""Variances of the signal of an average count that are tried, over that of noise."""

LEAST_EXPECTED = 1e-3
"""Counts that are expected to be smaller have as much signal as this one."""

FIT_SWEEPS = 25
"""Sweeps that bring tables of three attributes and more near those of pairs."""


@dataclass(frozen=True, eq=False)
class Counts:
    """Whole tables that agree, and the model that records are drawn from.

    Attributes
    ----------
    total : int
        Number of records of all tables.
    tables : dict of tuple to ndarray of int64
        One axis per attribute.
    model : MaximumEntropy
    rounding : {"margins", "records"}
        How counts were made whole.
    """

    total: int
    tables: dict[Subset, Integers]
    model: MaximumEntropy
    rounding: str


def settle(
    estimate: MarginalEstimate,
    noise: Noise | SharedNoise,
    subsets: Sequence[Subset],
    say: Callable[[str], None],
) -> Counts:
    """Return whole, non-negative, consistent tables from least-squares estimates.

    Parameters
    ----------
    estimate : MarginalEstimate
        Unbiased.
    noise : Noise or SharedNoise
        Law of its errors.
    subsets : sequence of tuple of int
        Attributes of the tables.
    say : callable
        Told what happens, for people who wait.
    """
    sizes = noise.domain_shape
    total = max(0, round(float(estimate.marginal([])[0])))
    single = []
    for i, n in enumerate(sizes):
        own = _toward(np.full(n, total / n), estimate, noise, (i,))
        single.append(apportion(nearest_with_sums(own, np.array(float(total))), total))
    shares = [table / max(total, 1) for table in single]
    pairs = sorted({pair for subset in subsets for pair in combinations(subset, 2)})
    say(f"drawing {len(pairs)} pairs of attributes towards what explains them")

    def pair_tables(target: Callable[[Subset], Floats]) -> dict[Subset, Floats]:
        return {
            (i, j): with_margins(
                _toward(target((i, j)), estimate, noise, (i, j)),
                single[i].astype(np.float64),
                single[j].astype(np.float64),
            )
            for i, j in pairs
        }

    flat = pair_tables(lambda p: total * np.outer(shares[p[0]], shares[p[1]]))
    model = fit_model(sizes, shares, total, flat)
    fitted = pair_tables(lambda p: _table(model, p, sizes))
    larger: dict[Subset, Floats] = {}
    for subset in subsets:
        if len(subset) > 2:
            start = np.maximum(
                _toward(_table(model, subset, sizes), estimate, noise, subset), 0.0
            )
            margins: dict[Subset, Floats] = {
                pair: fitted[pair] for pair in combinations(subset, 2)
            }
            larger[subset] = proportional_fit(start, subset, margins, FIT_SWEEPS)
    say("fitting a model of maximum entropy")
    model = fit_model(sizes, shares, total, fitted, larger)
    say(f"making the counts of {len(subsets)} tables whole")
    if larger:
        return Counts(total, _of_records(model, total, subsets), model, "records")
    tables = {
        subset: single[subset[0]]
        if len(subset) == 1
        else controlled_rounding(fitted[subset], single[subset[0]], single[subset[1]])
        for subset in subsets
    }
    return Counts(total, tables, model, "margins")


def _table(model: MaximumEntropy, subset: Subset, sizes: Sequence[int]) -> Floats:
    return model.marginal(subset).reshape([sizes[i] for i in subset])


def _toward(
    target: Floats,
    estimate: MarginalEstimate,
    noise: Noise | SharedNoise,
    subset: Subset,
) -> Floats:
    r"""Return the posterior mean of a table, between a target and its estimate.

    A count is the target m plus a signal of variance :math:`\tau m`, and its estimate
    has noise of variance :math:`\sigma^2` on top, which draws it towards the target by
    :math:`\sigma^2 / (\sigma^2 + \tau m)`: small counts most. The likelihood of all
    cells together says what :math:`\tau` is.
    """
    apart = estimate.marginal(subset).reshape(target.shape) - target
    variance = noise.law(subset).standard_error ** 2
    expected = np.maximum(target, LEAST_EXPECTED)
    strengths = SIGNALS * variance / expected.mean()

    def misfit(strength: float) -> float:
        spread = variance + strength * expected
        return float((np.log(spread) + np.square(apart) / spread).sum())

    signal = min(strengths.tolist(), key=misfit) * expected
    return target + apart * signal / (variance + signal)


def _of_records(
    model: MaximumEntropy, total: int, subsets: Sequence[Subset]
) -> dict[Subset, Integers]:
    """Return the tables of one set of whole records of a model.

    A total of little but noise may be more records than can be held: then each that is
    drawn stands for several, and some of them for one more.
    """
    sizes = model.domain_shape
    n = min(total, max(1, LIMITS.table_entries // len(sizes)))
    each, more = divmod(total, max(n, 1))
    codes = draw_codes(model, n, None)
    tables = {}
    for subset in subsets:
        shape = tuple(sizes[i] for i in subset)
        place = np.zeros(n, np.int64)
        for i in subset:
            place = place * sizes[i] + codes[:, i]
        cells = product_of(shape)
        table = each * np.bincount(place, minlength=cells)
        table += np.bincount(place[:more], minlength=cells)
        tables[subset] = table.reshape(shape)
    return tables
