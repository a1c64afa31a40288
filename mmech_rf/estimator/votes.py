"""How released models vote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from mmech_rf.arrays import Floats, Integers


def check_that(fits: Any, what: str) -> None:
    """Raise if what a file holds does not fit."""
    if not fits:
        raise ValueError(f"{what} that do not fit")


ROUNDING = 1e-6
"""What numbers that are computed elsewhere may differ by, relative to the largest."""


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are the same, but for roundings of real numbers."""
    if isinstance(one, (float, np.ndarray)):
        a, b = np.asarray(one), np.asarray(other)
        if a.shape != b.shape or a.dtype.kind != "f":
            return np.array_equal(a, b)
        return bool(np.abs(a - b).max(initial=0) <= ROUNDING * np.abs(a).max(initial=1))
    if is_dataclass(one) and type(one) is type(other):
        names = [entry.name for entry in fields(one)]
        pairs = [(getattr(one, name), getattr(other, name)) for name in names]
        return all(alike(*pair) for pair in pairs)
    if isinstance(one, dict) and isinstance(other, dict):
        same = one.keys() == other.keys()
        return same and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def check_labels(labels: Integers, size: int, n_classes: int) -> None:
    """Raise unless there are so many labels, all of them classes."""
    check_that(labels.shape == (size,), "labels")
    check_that(labels.min() >= 0 and labels.max() < n_classes, "labels")


class Experts(ABC):
    """Votes that are a function of a release."""

    @abstractmethod
    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""

    @abstractmethod
    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless votes fit together and the domain: a file may hold any."""

    def probabilities(self, codes: Integers) -> Floats:
        """Return class probabilities, shape (b, k)."""
        return np.asarray(softmax(self.log_odds(codes), axis=1))
