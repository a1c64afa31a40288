"""Time and memory against size: ``python -m benchmarks.scaling`` draws the figure.

Every study repeats one job at doubling sizes. Time is the least processor time of a few
runs on one thread; memory is the peak of what NumPy and Python allocate during one
more run. Lines are least squares in log-log, through the larger half of the sizes,
where fixed costs have faded; the slope is the exponent in the legend. A study whose
memory stays below a tenth of a mebibyte has no line there.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks.suite  # noqa: F401  limits the threads
from benchmarks.suite.bench_forest import CAR, records
from benchmarks.suite.bench_strategies import theta_of
from mmech import (
    AllRange,
    Dense,
    Kronecker,
    Prefix,
    all_marginals,
    expected_error,
    optimize,
)
from mmech.strategies.pidentity import PIdentityObjective
from mmech_rf import grow_random_forest, training_workload

TARGET = Path(__file__).with_name("figures") / "scaling.png"

Job = Callable[[], Any]


@dataclass(frozen=True)
class Study:
    """One job at several sizes: `prepare(size)` returns the job to measure."""

    name: str
    sizes: Sequence[int]
    prepare: Callable[[int], Job]


def _pidentity(n: int, p: int) -> Job:
    gram = AllRange(n).gram()
    objective = PIdentityObjective(gram, gram.diag().astype(np.float64))
    return functools.partial(objective, theta_of(n, p))


def _descent(n: int) -> Job:
    options = {"template": "pidentity", "p": 16, "n_starts": 1, "seed": 0}
    return lambda: optimize(AllRange(n), **options)


def _kronecker(n: int, factors: int) -> Job:
    size = round(n ** (1 / factors))
    dense = Dense(np.random.default_rng(0).random((size, size)))
    x = np.ones(size**factors)
    return lambda: Kronecker([dense] * factors) @ x


def _prefix_square(n: int) -> Job:
    size = math.isqrt(n)
    x = np.ones(size * size)
    return lambda: Kronecker([Prefix(size)] * 2) @ x


def _grow(n_trees: int) -> Job:
    return lambda: grow_random_forest((4,) * 20, n_trees, 4, seed=0)


def _products(n_trees: int) -> Job:
    workload = training_workload(grow_random_forest(CAR, n_trees, 4, seed=0))
    x = np.ones((workload.shape[1], 4))
    return lambda: workload @ x


def _apply(n_records: int) -> Job:
    codes, _ = records(n_records, CAR)
    return lambda: grow_random_forest(CAR, 32, 4, seed=0).apply(codes)


def _count(n_records: int) -> Job:
    codes, classes = records(n_records, CAR)
    forest = grow_random_forest(CAR, 32, 4, seed=0)
    return lambda: forest.count_leaves(codes, classes, 4)


def _grow_over(d: int) -> Job:
    return lambda: grow_random_forest((4,) * d, 50, 4, seed=0)


def _errors(d: int) -> Job:
    workload = all_marginals((2,) * d, 2)
    strategy = all_marginals((2,) * d, 2, lower_orders=True)
    return lambda: expected_error(workload, strategy, epsilon=1)


def _powers(first: int, last: int, base: int = 2) -> list[int]:
    return [base**power for power in range(first, last + 1)]


PANELS: dict[str, list[Study]] = {
    "cells n": [
        Study("p-Identity gradient, p = 16", _powers(10, 18),
            lambda n: _pidentity(n, 16)),
        Study("p-Identity descent, p = 16", _powers(6, 11), _descent),
        Study("Kronecker, 3 dense", [20**3, 32**3, 48**3, 64**3, 96**3],
            lambda n: _kronecker(n, 3)),
        Study("Prefix⊗Prefix", _powers(7, 11, 4), _prefix_square),
    ],
    "extra queries p": [
        Study("gradient, AllRange(4096)", _powers(2, 8), lambda p: _pidentity(4096, p))
    ],
    "trees": [Study("growth, depth 4, 20 attributes", _powers(4, 10), _grow),
        Study("T times 4 columns, car", _powers(4, 10), _products)],
    "records": [Study("apply, 32 trees", _powers(12, 18), _apply),
        Study("leaf counts, 32 trees", _powers(12, 19), _count)],
    "attributes": [Study("growth, 50 trees, depth 4", _powers(3, 8), _grow_over),
        Study("error of all two-way marginals", _powers(3, 7), _errors)],
}  # fmt: skip


def measured(job: Job) -> tuple[float, float]:
    """Return seconds and peak MiB of a job."""
    job()
    least, spent = math.inf, 0.0
    for _ in range(7):
        started = time.process_time()
        calls = 0
        while not calls or time.process_time() - started < 2e-3:
            job()
            calls += 1
        taken = time.process_time() - started
        least, spent = min(least, taken / calls), spent + taken
        if spent > 1.0:
            break
    tracemalloc.start()
    job()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return least, peak


def exponent(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Return slope and offset of a line through the larger half, in logarithms."""
    half = len(sizes) // 2
    slope, offset = np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)
    return float(slope), float(offset)


def draw(results: dict[str, list[tuple[Study, list[float], list[float]]]]) -> Any:
    """Return a figure with a column per quantity, time above memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(results), 9.0), layout="constrained")
    axes = figure.subplots(2, len(results), squeeze=False)
    for column, (quantity, studies) in enumerate(results.items()):
        for row, unit in enumerate(("seconds", "peak MiB")):
            panel = axes[row][column]
            for number, (study, *series) in enumerate(studies):
                values = np.array(series[row])
                color = f"C{number}"
                label = study.name
                if row == 0 or values[-1] >= 0.1:
                    slope, offset = exponent(study.sizes, values)
                    label += f": {slope:.2f}"
                    sizes = np.array(study.sizes, float)
                    fit = np.exp(offset) * sizes**slope
                    panel.plot(sizes, fit, color=color, linewidth=1, alpha=0.6)
                mark = {"markersize": 4, "color": color, "label": label}
                panel.plot(study.sizes, values, "o", **mark)
            panel.set(xscale="log", yscale="log", xlabel=quantity)
            panel.set_ylabel(unit if column == 0 else "")
            panel.grid(alpha=0.3, which="major")
            above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)}
            panel.legend(fontsize=8, title="exponents", title_fontsize=8, **above)
    figure.suptitle("Cost against size, one thread; exponents of the larger half")
    return figure


def main(argv: list[str] | None = None) -> None:
    """Measure all studies, print them and draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=TARGET)
    output = parser.parse_args(argv).output
    results: dict[str, list[tuple[Study, list[float], list[float]]]] = {}
    for quantity, studies in PANELS.items():
        for study in studies:
            both = [measured(study.prepare(size)) for size in study.sizes]
            seconds, memory = ([point[i] for point in both] for i in (0, 1))
            results.setdefault(quantity, []).append((study, seconds, memory))
            slopes = [exponent(study.sizes, values)[0] for values in (seconds, memory)]
            print(
                f"{quantity}: {study.name}: {study.sizes[0]}..{study.sizes[-1]}, "
                f"{seconds[0]:.2g}..{seconds[-1]:.2g} s, exponent {slopes[0]:.2f}; "
                f"{memory[0]:.2g}..{memory[-1]:.2g} MiB, exponent {slopes[1]:.2f}",
                flush=True,
            )
    output.parent.mkdir(parents=True, exist_ok=True)
    draw(results).savefig(output, dpi=110)


if __name__ == "__main__":
    main()
