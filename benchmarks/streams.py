"""Errors of answers over time, beside others: ``python -m benchmarks.streams``.

Squared errors per prefix sum, mean and largest, at unit noise: rho = 1/2 for Gaussian
noise, epsilon = 1 for Laplace noise. ``--peer PYTHON`` names an interpreter with
``jax-privacy``, whose Toeplitz and buffered linear Toeplitz (BLT) strategies are
optimized for the mean: no banded Toeplitz one can do better. All errors but ours are by
published formulas or by its own ``per_query_error``, without rounding to integers. The
last table has windows, in brackets the error of the counts themselves.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import time
from contextlib import suppress

import numpy as np

from benchmarks.strategy_table import elders, toeplitz_root
from mmech import Prefix, Stream, WidthRange, svd_bound

PEER = """
import sys, jax
jax.config.update("jax_enable_x64", True)
from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz
n = int(sys.argv[2])
if sys.argv[1] == "BLT":
    own = buffered_toeplitz.optimize(n=n, error="mean").toeplitz_coefs(n)
else:
    own = toeplitz.optimize_banded_toeplitz(n, n)
errors = toeplitz.per_query_error(strategy_coef=own, n=n)
errors *= toeplitz.sensitivity_squared(own, n)
print(float(errors.mean()), float(errors.max()))
"""
LIMIT = 1800
"""Seconds that a strategy of the peer has for one horizon."""


def binary(n: int) -> float:
    """Return the mean error of the binary tree, node by node, at epsilon = 1."""
    ones = np.array([bin(time).count("1") for time in range(1, n + 1)])
    return float(2 * (1 + math.floor(math.log2(n))) ** 2 * ones.mean())


def theirs(python: str | None, kind: str, n: int) -> str:
    """Return the errors of a strategy of jax-privacy, where it is found in time."""
    if python is None:
        return "-"
    with suppress(subprocess.TimeoutExpired):
        command = [python, "-c", PEER, kind, str(n)]
        text = subprocess.check_output(command, text=True, timeout=LIMIT)
        mean, most = map(float, text.split())
        return pair((mean, most))
    return "-"


def pair(errors: tuple[float, float]) -> str:
    """Return a mean and a maximum in a table."""
    return f"{errors[0]:.2f} ({errors[1]:.2f})"


def largest(stream: Stream) -> float:
    """Return the largest squared error of 200 times of the last quarter."""
    n = stream.horizon
    times = np.unique(np.linspace(3 * n // 4, n - 1, 200).astype(int)).tolist()
    return max(stream.standard_error(time) for time in times) ** 2


def seconds_of_pushes(stream: Stream) -> tuple[float, float]:
    """Return the seconds of the first push, and of one of the others."""
    start = time.perf_counter()
    stream.push(1)
    first = time.perf_counter()
    for _ in range(stream.horizon - 1):
        stream.push(1)
    return first - start, (time.perf_counter() - first) / (stream.horizon - 1)


def windows(n: int) -> str:
    """Return errors per answer of windows, with those of the counts in brackets."""
    cells = []
    for width in (30, 365):
        workload = WidthRange(n, width)
        tree = Stream(workload, horizon=n, epsilon=1).expected_error() / n
        gaussian = Stream(workload, horizon=n, rho="1/2").expected_error() / n
        cells.append(f"{tree:.0f} ({2 * width}) | {gaussian:.2f}")
    return " | ".join(cells)


def main() -> None:
    """Print three tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", metavar="PYTHON")
    parser.add_argument("--most", type=int, default=2**16, help="longest horizon")
    options = parser.parse_args()
    sizes = [n for n in (2**10, 2**12, 2**14, 2**16) if n <= options.most]
    print("| T | bound | Toeplitz root | Toeplitz | BLT | `Stream`, rho | push, ms |")
    print("|---|---|---|---|---|---|---|")
    for n in sizes:
        stream = Stream(horizon=n, rho="1/2")
        cells = [f"{svd_bound(Prefix(n), rho='1/2') / n:.2f}", pair(toeplitz_root(n))]
        cells += [theirs(options.peer, kind, n) for kind in ("Toeplitz", "BLT")]
        cells.append(pair((stream.expected_error() / n, largest(stream))))
        each = 1e3 * seconds_of_pushes(stream)[1]
        print(f"| {n:,} | {' | '.join(cells)} | {each:.1f} |", flush=True)
    print("\n| T | binary tree | elders | `Stream`, epsilon | first push, ms | push |")
    print("|---|---|---|---|---|---|")
    for n in sizes:
        stream = Stream(horizon=n, epsilon=1)
        errors = binary(n), 2 * elders(n), stream.expected_error() / n
        times = [1e3 * seconds for seconds in seconds_of_pushes(stream)]
        cells = [f"{error:.0f}" for error in errors] + [f"{own:.2f}" for own in times]
        print(f"| {n:,} | {' | '.join(cells)} |")
    print("\n| T | last 30, epsilon | last 30, rho | last 365, epsilon | rho |")
    print("|---|---|---|---|---|")
    for n in sizes:
        print(f"| {n:,} | {windows(n)} |", flush=True)


if __name__ == "__main__":
    main()
