"""Fits, written to a file one by one, so that a run can go on from where it was."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from statistics import median

from joblib import Parallel, delayed, parallel
from tqdm import tqdm

from benchmarks.accuracy._data import load, split
from benchmarks.accuracy._methods import Method, accuracy
from benchmarks.accuracy._table import EPSILONS, NO_NOISE

KEYS = ("dataset", "method", "epsilon", "repetition")
ACCURACY = ("accuracy", "seconds")
Key = tuple[str, str, float, int]
Known = dict[Key, tuple[float, ...]]
"""What was measured of every fit: accuracy and seconds, unless said otherwise."""


def read(
    path: Path, *, without: Collection[str] = (), fields: Sequence[str] = ACCURACY
) -> Known:
    """Return the fits in a file, but those of some methods; these leave the file.

    A last line that was cut off is left out as well.
    """
    if not path.exists():
        return {}
    known: Known = {}
    with open(path, newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["method"] in without or not row[fields[-1]]:
                continue
            key = row["dataset"], row["method"], float(row["epsilon"])
            value = tuple(float(row[field]) for field in fields)
            known[*key, int(row["repetition"])] = value
    half = path.with_suffix(".part")
    with open(half, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*KEYS, *fields])
        writer.writerows([*key, *value] for key, value in known.items())
    half.replace(path)
    return known


def run(
    known: Known,
    path: Path,
    datasets: Sequence[str],
    methods: Mapping[str, Method],
    n_splits: int,
    epsilons: Sequence[float] = EPSILONS,
    *,
    fields: Sequence[str] = ACCURACY,
    measure: Callable[..., tuple[float, ...] | None] = accuracy,
) -> None:
    """Run what is not known yet, and add it to `known` and to the file.

    One fit after the other, unless joblib is configured otherwise, as in
    ``joblib.parallel_config(backend="dask")``: data sets are public, and every fit
    spends a budget of its own. That backend hands over the fits of a data set together.

    Parameters
    ----------
    measure : callable
        Takes what `accuracy` takes, and returns numbers for the `fields`.
    """
    for label, method in methods.items():
        if method.absent:
            tqdm.write(f"{label} is left out: {method.absent}")
    methods = {label: own for label, own in methods.items() if not own.absent}
    backend, _ = parallel.get_active_backend()
    return_as = "generator" if backend.supports_return_generator else "list"
    with open(path, "a", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        if stream.tell() == 0:
            writer.writerow([*KEYS, *fields])
        for name in tqdm(datasets, desc="data sets"):
            plan = [
                (label, epsilon, i)
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
            fits = Parallel(return_as=return_as)(
                delayed(measure)(
                    methods[label], bunch, epsilon, split(len(bunch.target), i)
                )
                for label, epsilon, i in plan
            )
            bar = tqdm(fits, desc=name, total=len(plan), leave=False)
            for (label, epsilon, i), found in zip(plan, bar, strict=True):
                if found is None:
                    continue
                value = tuple(round(number, 6) for number in found)
                known[name, label, epsilon, i] = value
                writer.writerow([name, label, epsilon, i, *value])
                stream.flush()


def grouped(
    known: Known, order: Sequence[str]
) -> dict[tuple[str, str, float], list[float]]:
    """Return accuracies by data set, method and epsilon; data sets in a given order."""
    found: dict[tuple[str, str, float], list[float]] = defaultdict(list)
    for name, label, epsilon, i in sorted(known, key=lambda key: order.index(key[0])):
        found[name, label, epsilon].append(known[name, label, epsilon, i][0])
    return dict(found)


def median_seconds(known: Known) -> dict[tuple[str, str], float]:
    """Return the processor time of a fit by data set and method."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (name, label, _, _), (_, seconds) in known.items():
        found[name, label].append(seconds)
    return {key: median(every) for key, every in found.items()}
