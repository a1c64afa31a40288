"""One thread for BLAS, OpenMP and numba, in asv's process and in those it starts."""

import os

for _pool in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB_MAXIMUM"):
    os.environ[f"{_pool}_NUM_THREADS"] = "1"

# asv has imported NumPy before this file, too early for the variables.
import numpy as np  # noqa: E402, F401
import threadpoolctl  # noqa: E402

threadpoolctl.threadpool_limits(limits=1)
