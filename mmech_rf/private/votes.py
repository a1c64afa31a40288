"""How released models vote."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

__all__ = ["Experts"]

Floats = NDArray[np.float64]


class Experts(ABC):
    """Votes that are a function of a release."""

    voting: str

    @abstractmethod
    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""

    def probabilities(self, codes: NDArray[np.int64]) -> Floats:
        """Return class probabilities, shape (b, k)."""
        return np.asarray(softmax(self.log_odds(codes), axis=1))
