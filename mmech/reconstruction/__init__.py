"""From a measurement to estimated counts: post-processing, free of privacy cost.

=================  =================================================
least_squares      unbiased estimates, and counts that are to be published as counts
marginal_estimate  the same from noisy marginals, one set at a time
=================  =================================================
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.reconstruction.least_squares import least_squares, nonnegative
from mmech.reconstruction.marginal_estimate import MarginalEstimate

__all__ = ["METHODS", "MarginalEstimate", "least_squares", "nonnegative"]

METHODS: dict[str, Callable[[Any, Any], NDArray[np.float64] | MarginalEstimate]] = {
    "least_squares": least_squares,
    "nonnegative": nonnegative,
}
"""Name of a method to its function of (strategy, values)."""
