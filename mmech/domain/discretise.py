"""Cut points of numeric attributes from public bounds."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from mmech.checks import check_integer, read_float
from mmech.limits import LIMITS


def check_bins(value: Any, name: str) -> int:
    """Return a number of bins, or raise."""
    n_bins = check_integer(value, name)
    if n_bins > LIMITS.bins:
        raise ValueError(
            f"{name} must be at most {LIMITS.bins:,}, got {value:,}; lower it"
        )
    return n_bins


def check_number(value: Any, name: str, remedy: str = "leave it out instead") -> float:
    """Return a finite number, or raise."""
    try:
        result = read_float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(
            f"{name} must be a number, got {type(value).__name__}; convert it"
        ) from None
    if not math.isfinite(result):
        raise ValueError(f"{name} must be finite, got {result}; {remedy}")
    return result


def number_text(value: float) -> str:
    """Write whole numbers without a decimal point."""
    return str(int(value)) if value == int(value) else repr(value)


def equal_width(lower: float, upper: float, n_bins: int) -> tuple[float, ...]:
    """Return the inner edges of bins of equal width, exact in the decimals as printed.

    A bound like 0.6 cuts at 0.3.
    """
    low, high = Fraction(repr(lower)), Fraction(repr(upper))
    shares = (Fraction(k, n_bins) for k in range(1, n_bins))
    return tuple(float(low + (high - low) * share) for share in shares)


SMALLEST = 2.0**-20
"""Grid resolution: the steps of a fine grid next to zero, relative to the bounds."""


@lru_cache(maxsize=256)
def fine_grid(lower: float, upper: float, n_cells: int) -> tuple[float, ...]:
    """Return the inner edges of a fine grid, lower < upper, of about so many cells.

    Half of them in equal steps. The others in steps that grow with the distance from
    zero, or from the bound next to it. Numbers of any size, such as amounts, are told
    apart by a few percent of their distance. Bounds that are far too wide make little
    difference. Edges are rounded to numbers with few digits.

    Examples
    --------
    >>> edges = fine_grid(0, 1e6, 1000)
    >>> edges[:4], edges[-2:], len(edges)
    ((0.0, 0.9537, 0.9805, 1.008), (996000.0, 998000.0), 994)
    """
    origin = min(max(0.0, lower), upper)
    half = n_cells // 2
    even = equal_width(lower, upper, half)
    edges = {float(f"{edge:.6g}") for edge in even}
    edges.add(origin)
    sides = [side for side in (lower - origin, upper - origin) if side]
    for side in sides:
        distances = side * SMALLEST ** np.linspace(1, 0, half // len(sides))
        edges.update(float(f"{origin + distance:.4g}") for distance in distances)
    return tuple(sorted(edge for edge in edges if lower <= edge < upper))
