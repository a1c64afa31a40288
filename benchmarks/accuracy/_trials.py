"""Fits on the same splits for all methods, and what they come to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from benchmarks.accuracy._data import load, split
from benchmarks.accuracy._methods import Method, accuracy
from benchmarks.accuracy._table import EPSILONS, NO_NOISE
from benchmarks.results import Results

KEYS = {"dataset": str, "method": str, "epsilon": float, "repetition": int}
ACCURACY = ("accuracy", "seconds")


def read(path: Path, fields: Sequence[str] = ACCURACY) -> Results:
    """Return the fits in a file, which further fits are added to."""
    return Results(path, KEYS, dict.fromkeys(fields, float))


def run(
    known: Results,
    datasets: Sequence[str],
    methods: Mapping[str, Method],
    n_splits: int,
    epsilons: Sequence[float] = EPSILONS,
    measure: Callable[..., tuple[float, ...] | None] = accuracy,
) -> None:
    """Run what is not known yet; data sets are public, every fit has its own budget.

    Parameters
    ----------
    measure : callable
        Takes what `accuracy` takes, and returns numbers for the fields.
    """
    for label, method in methods.items():
        if method.absent:
            tqdm.write(f"{label} is left out: {method.absent}")
    methods = {label: own for label, own in methods.items() if not own.absent}
    for name in datasets:
        plan = [
            (name, label, epsilon, i)
            for i in range(n_splits)
            for label, method in methods.items()
            for epsilon in (epsilons if method.private else (NO_NOISE,))
            if (name, label, epsilon, i) not in known
        ]
        bunch = load(name) if plan else None
        if bunch is None:
            if plan:
                tqdm.write(f"{name}: no file in the folder of MMECH_DATA_DIR")
            continue

        def outcome(key: tuple[str, str, float, int], bunch: Any = bunch) -> Any:
            parts = split(len(bunch.target), key[3])
            found = measure(methods[key[1]], bunch, key[2], parts)
            return [] if found is None else [(key, found)]

        known.run(plan, outcome, desc=name, progress=True)


def grouped(
    known: Results, order: Sequence[str]
) -> dict[tuple[str, str, float], list[float]]:
    """Return accuracies by data set, method and epsilon; data sets in a given order."""
    found: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    for key in sorted(known, key=lambda key: order.index(key[0])):
        found[key[:3]].append(known[key][0])
    return dict(found)


def median_seconds(known: Results) -> dict[tuple[str, str], float]:
    """Return the processor time of a fit by data set and method."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for key, (_, seconds) in known.items():
        found[key[:2]].append(seconds)
    return {key: median(every) for key, every in found.items()}
