"""What the description of a model is made of, and the arrays that it refers to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.storage.archive import position

__all__ = ["Contents", "Read", "Store", "reader", "whole_numbers"]

Store = Callable[[NDArray[Any]], int]
"""Takes an array into the file and returns the reference to it."""

Read = Callable[..., NDArray[Any]]
"""Called with a reference and the types that its array may have, returns it."""


class Contents(ABC):
    """What the models of a class hold beside what all models have in common.

    Attributes
    ----------
    own : tuple of str
        Parameters that `describe` has entries for.
    """

    own: tuple[str, ...]

    @abstractmethod
    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""

    @abstractmethod
    def parameters(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the `own` parameters of a description."""

    @abstractmethod
    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model with schema and parameters what a fit would have given it.

        Anything that does not fit raises.
        """


def reader(arrays: Sequence[NDArray[Any]]) -> Read:
    """Return a function that looks up references."""

    def read(reference: Any, *dtypes: str) -> NDArray[Any]:
        found = arrays[position(reference)]
        if str(found.dtype) not in dtypes:
            raise ValueError(f"an array of {found.dtype} in place of {dtypes}")
        if not np.isfinite(found).all():
            raise ValueError("numbers that are not finite")
        return found

    return read


def whole_numbers(stored: Any, *, least: int, most: int) -> tuple[int, ...]:
    """Return a list of whole numbers within limits, as a file gives it, or raise."""
    if not isinstance(stored, list):
        raise ValueError("not a list")
    for number in stored:
        if type(number) is not int or not least <= number <= most:
            raise ValueError("not whole numbers within their limits")
    return tuple(stored)
