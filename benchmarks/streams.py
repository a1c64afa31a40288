"""Errors of answers over time, beside others: ``python -m benchmarks.streams``.

Squared errors per prefix sum, mean and largest, at unit noise: rho = 1/2 for Gaussian
noise, epsilon = 1 for Laplace noise. ``--peer PYTHON`` names an interpreter with
``jax-privacy``, whose Toeplitz strategies are optimized for the mean: no buffered
linear Toeplitz (BLT) or banded one can do better. All errors but ours are by published
formulas or by its own ``per_query_error``, without rounding to integers.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import time
from contextlib import suppress

import numpy as np

from benchmarks.strategy_table import elders, toeplitz_root
from mmech import Prefix, Stream, svd_bound

PEER = """
import sys, jax
jax.config.update("jax_enable_x64", True)
from jax_privacy.matrix_factorization import toeplitz
n = int(sys.argv[1])
own = toeplitz.optimize_banded_toeplitz(n, n)
errors = toeplitz.per_query_error(strategy_coef=own, n=n)
errors *= toeplitz.sensitivity_squared(own, n)
print(float(errors.mean()), float(errors.max()))
"""
LIMIT = 900
"""Seconds that a peer has for one horizon."""


def binary(n: int) -> float:
    """Return the mean error of the binary tree, node by node, at epsilon = 1."""
    ones = np.array([bin(time).count("1") for time in range(1, n + 1)])
    return float(2 * (1 + math.floor(math.log2(n))) ** 2 * ones.mean())


def pair(errors: tuple[float, float]) -> str:
    """Return a mean and a maximum in a table."""
    return f"{errors[0]:.2f} ({errors[1]:.2f})"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--most", type=int, default=2**16, help="longest horizon")
    options = parser.parse_args()
    print("| T | bound | Toeplitz root | best Toeplitz | mmech, rho | push, ms |")
    print("|---|---|---|---|---|---|")
    sizes = [n for n in (2**10, 2**12, 2**14, 2**16) if n <= options.most]
    trees = []
    for n in sizes:
        theirs = "-"
        if options.peer:
            command = [options.peer, "-c", PEER, str(n)]
            with suppress(subprocess.TimeoutExpired):
                text = subprocess.check_output(command, text=True, timeout=LIMIT)
                mean, most = map(float, text.split())
                theirs = pair((mean, most))
        stream, tree = Stream(horizon=n, rho="1/2"), Stream(horizon=n, epsilon=1)
        errors = stream._rows.squared_errors
        stream.push(1)
        start = time.perf_counter()
        for _ in range(n - 1):
            stream.push(1)
        each = 1e3 * (time.perf_counter() - start) / (n - 1)
        ours = pair((errors.mean(), errors.max()))
        bound = svd_bound(Prefix(n), rho="1/2") / n
        cells = f"{bound:.2f}", pair(toeplitz_root(n)), theirs, ours, f"{each:.1f}"
        print(f"| {n:,} | {' | '.join(cells)} |", flush=True)
        trees.append((n, binary(n), 2 * elders(n), tree.expected_error() / n))
    print("\n| T | binary tree | count on your elders | mmech, epsilon |")
    print("|---|---|---|---|")
    for n, *others in trees:
        print(f"| {n:,} | {' | '.join(f'{other:.0f}' for other in others)} |")


if __name__ == "__main__":
    main()
