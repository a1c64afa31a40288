"""Base classes of the settings of a method: numbers that were looked at on data."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from mmech import ParameterError
from mmech.checks import check_epsilon, check_integer


def setting(default: Any, *, least: float = 0, most: float = math.inf) -> Any:
    """Return a dataclass field with limits; the type of its default is its own.

    A fraction is a share or a budget: exact, and above zero. Limits of a tuple are
    those of each of its numbers.
    """
    return field(default=default, metadata={"least": least, "most": most})


def _checked(value: Any, own: Any) -> Any:
    name = own.name
    if isinstance(own.default, tuple):
        if not isinstance(value, (tuple, list)) or not value:
            raise TypeError(
                f"{name} must be a tuple of integers, such as {own.default}, "
                f"got {value!r}"
            )
        least = own.metadata["least"]
        whole = (check_integer(one, name, minimum=least) for one in value)
        return tuple(_within(one, name, own) for one in whole)
    if isinstance(own.default, Fraction):
        found: Any = check_epsilon(value, name)
    elif isinstance(own.default, int):
        found = check_integer(value, name, minimum=own.metadata["least"])
    elif isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
    else:
        found = float(value)
    return _within(found, name, own)


def _within(found: Any, name: str, own: Any) -> Any:
    least, most = own.metadata["least"], own.metadata["most"]
    if not least <= found <= most:
        raise ParameterError(
            name, f"must be a number from {least:g} to {most:g}", found
        )
    return found


@dataclass(frozen=True)
class CountSettings:
    """Settings of the forests that first ask for the number of records.

    `mmech_rf.DrawnSettings` says what they are. A field is checked when it is set.
    """

    count_share: Fraction = setting(Fraction(3, 100), most=0.5)
    bin_share: Fraction = setting(Fraction(1, 5), most=0.5)
    most_bins: int = setting(8, least=2, most=64)

    def __post_init__(self) -> None:
        for own in fields(self):
            value = _checked(getattr(self, own.name), own)
            object.__setattr__(self, own.name, value)
