"""Raw values of cells, for records that nobody gave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Integers
from mmech.domain.attribute import Attribute


def raw_values(
    attribute: Attribute, codes: Integers, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Return raw values of cells by column.

    Numbers and dates are drawn within their bins.
    """
    if attribute.kind in ("categorical", "ordinal"):
        return attribute._shown(codes)
    return {attribute.name: _drawn(attribute, codes, rng)}


def _drawn(
    attribute: Attribute, codes: Integers, rng: np.random.Generator
) -> NDArray[Any]:
    if attribute.kind == "date":
        days = attribute._first_days()
        place = np.minimum(codes, len(days) - 2)
        texts = rng.integers(days[place], days[place + 1]).astype("M8[D]").astype(str)
        return np.where(codes > len(days) - 2, "?", texts)
    cuts = attribute.cut_points
    first = attribute.lower if attribute.lower is not None else _beyond(cuts, 0)
    last = attribute.upper if attribute.upper is not None else _beyond(cuts, -1)
    edges = np.array([first, *cuts, last])
    place = np.minimum(codes, len(cuts))  # any place for the cell without a number
    low, high, share = edges[place], edges[place + 1], rng.random(len(codes))
    numbers = high - share * (high - low)
    if attribute.integer:  # the least whole number of a bin is above its open end
        least = np.where(place == 0, np.ceil(low), np.floor(low) + 1)
        whole = least + np.floor(share * (np.floor(high) - least + 1))
        numbers = np.where(np.floor(high) >= least, whole, numbers)
    # Rounding must not take a number to the open end of its bin, which is another's.
    numbers = np.where(numbers <= low, np.where(place == 0, low, high), numbers)
    if attribute.integer and (numbers % 1 == 0).all():
        numbers = numbers.astype(np.int64)
    if attribute.other is None:
        return numbers
    mixed = numbers.astype(object)
    mixed[codes > len(cuts)] = "?"
    return mixed


def _beyond(cuts: tuple[float, ...], end: int) -> float:
    """Return a bound for an open bin, as far off as the next one is wide."""
    width = 1.0 if len(cuts) < 2 else abs(cuts[end] - cuts[1 if end == 0 else -2])
    return cuts[end] - width if end == 0 else cuts[end] + width
