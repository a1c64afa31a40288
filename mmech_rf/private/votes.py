"""How released models vote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.special import softmax

from mmech_rf.arrays import Floats, Integers


def check_that(fits: Any, what: str) -> None:
    """Raise if what a file holds does not fit."""
    if not fits:
        raise ValueError(f"{what} that do not fit")


def check_labels(labels: Integers, size: int, n_classes: int) -> None:
    """Raise unless there are so many labels, all of them classes."""
    check_that(labels.shape == (size,), "labels")
    check_that(labels.min() >= 0 and labels.max() < n_classes, "labels")


class Experts(ABC):
    """Votes that are a function of a release."""

    voting: str

    @abstractmethod
    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""

    @abstractmethod
    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless votes fit together and the domain: a file may hold any."""

    def probabilities(self, codes: Integers) -> Floats:
        """Return class probabilities, shape (b, k)."""
        return np.asarray(softmax(self.log_odds(codes), axis=1))
