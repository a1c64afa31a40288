"""Types of arrays and of sets of attributes, as signatures name them."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Subset = tuple[int, ...]
