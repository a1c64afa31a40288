"""Seconds of every stage, beside those of the authors' code."""

from __future__ import annotations

import csv
import math
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reproduction._settings import (
    GRID,
    OPTIMIZED,
    PROBLEMS,
    TABLE_2,
    Setting,
    figure_setting,
    records_of,
    table_2_settings,
    voting_of,
)
from benchmarks.reproduction._trials import build, split_of

STAGES = ("trees", "optimization", "measurement", "prediction", "total")

LAPTOP, RERUN = "published (M2 laptop)", "their code, two cores"


def _published(*seconds: float) -> dict[str, float]:
    """Return a row of the table: trees, optimization (nan: none), training, rest."""
    names = ("trees", "optimization", "training", "prediction")
    return {n: s for n, s in zip(names, seconds, strict=True) if not math.isnan(s)}


AUTHORS: dict[tuple[str, int], dict[str, dict[str, float]]] = {
    ("non-private", 1): {LAPTOP: _published(17.61, math.nan, 14.97, 2.42)},
    ("batch-training", 1): {LAPTOP: _published(17.61, 322.2, 15.12, 2.40),
     RERUN: {"trees": 31.5, "optimization": 10.7, "measurement": 0.7, "training": 22.0,
     "prediction": 3.5, "total": 68.6}},
    ("batch-training", 2): {LAPTOP: _published(17.07, 84.97, 14.96, 2.54)},
    ("batch-prediction", 1): {LAPTOP: _published(17.61, 336.6, 15.20, 2.53),
     RERUN: {"trees": 31.5, "optimization": 13.4, "measurement": 5.9, "training": 22.0,
     "prediction": 3.5, "total": 77.0}},
    ("batch-prediction", 2): {LAPTOP: _published(17.07, 19.93, 14.83, 2.63)},
    ("subsample", 1): {LAPTOP: _published(0.71, 0.44, 0.64, 0.34)},
    ("subsample", 2): {LAPTOP: _published(0.84, 0.66, 0.72, 0.50)},
}  # fmt: skip
"""Car, ε = 1, by method and number of ensembles: Table 2 of the appendix, and their
code run again on two cores, where 322 s of optimization came to 10.7."""


@dataclass(frozen=True)
class Timed:
    """Median seconds of a setting over some forests: stages, total and CPU."""

    setting: Setting
    seconds: dict[str, float]


def settings() -> list[Setting]:
    """Return the settings of the tables, and the trees of the pictures."""
    found = [own for row in TABLE_2 for own in table_2_settings(row)]
    found += [
        Setting(dataset, method, voting_of(method), PROBLEMS[dataset].depth, trees)
        for dataset in GRID
        for trees in (1, 4, 16, 64)
        for method in (*OPTIMIZED, "non-private")
    ]
    found += [figure_setting(dataset, "non-private") for dataset in GRID]
    for dataset in ("iris", "balance-scale", "heart", "mushroom", "adult"):
        if not isinstance(records_of(dataset), str):
            found += [figure_setting(dataset, method) for method in OPTIMIZED]
    return list(dict.fromkeys(found))


def measure(path: Path, wanted: Iterable[Setting], *, repeats: int) -> list[Timed]:
    """Time wanted settings that a file does not have yet, and append them to the file.

    The median over forests, once everything is compiled. Without repeats nothing is
    run, and the answer is empty unless the file has all settings.
    """
    known: dict[str, dict[str, float]] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as stream:
            for name, stage, seconds in csv.reader(stream):
                known.setdefault(name, {})[stage] = float(seconds)
    found = []
    for setting in wanted:
        own = known.get(setting.name, {})
        if not {*STAGES, "cpu"} <= {*own}:
            if not repeats:
                return []
            own = _median(setting, repeats).seconds
            with path.open("a", encoding="utf-8", newline="") as stream:
                rows = [(setting.name, *pair) for pair in own.items()]
                csv.writer(stream, lineterminator="\n").writerows(rows)
        found.append(Timed(setting, own))
    return found


def _median(setting: Setting, repeats: int) -> Timed:
    seconds = [_once(setting, forest) for forest in range(repeats + 1)][1:]
    middle = {n: statistics.median(run[n] for run in seconds) for n in seconds[0]}
    return Timed(setting, middle)


def _once(setting: Setting, forest: int) -> dict[str, float]:
    X, queries, y, _ = split_of(setting, forest)
    records: Any = records_of(setting.dataset)
    model = build(setting, records.schema, 1.0, forest)
    started, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y).predict(queries)
    total, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {**model.timings_, "total": total, "cpu": cpu}
