"""From a measurement to estimated counts: post-processing, free of privacy cost."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.reconstruction.least_squares import least_squares
from mmech.reconstruction.marginal_estimate import MarginalEstimate
from mmech.reconstruction.maximum_entropy import MaximumEntropy, maximum_entropy
from mmech.reconstruction.nonnegative import nonnegative
from mmech.reconstruction.shrinkage import ShrunkEstimate, ShrunkPart, shrink

__all__ = [
    "METHODS",
    "MarginalEstimate",
    "MaximumEntropy",
    "ShrunkEstimate",
    "ShrunkPart",
    "least_squares",
    "maximum_entropy",
    "nonnegative",
    "shrink",
]

METHODS: dict[str, Callable[[Any, Any], NDArray[np.float64] | MarginalEstimate]] = {
    "least_squares": least_squares,
    "nonnegative": nonnegative,
}
"""Name of a method to its function of (strategy, values)."""
