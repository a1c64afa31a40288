"""Seconds of every stage, beside those of the authors' code."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.reproduction._settings import Setting, figure_setting, records_of
from benchmarks.reproduction._trials import build, split_of

STAGES = ("trees", "optimization", "measurement", "prediction", "total")

AUTHORS: dict[str, dict[str, dict[str, float]]] = {
    "batch-training": {
        "published (M2 laptop)": {
            "trees": 17.61,
            "optimization": 322.2,
            "training": 15.12,
            "prediction": 2.40,
        },
        "their code, two cores": {
            "trees": 31.5,
            "optimization": 10.7,
            "measurement": 0.7,
            "training": 22.0,
            "prediction": 3.5,
            "total": 68.6,
        },
    },
    "batch-prediction": {
        "published (M2 laptop)": {
            "trees": 17.61,
            "optimization": 336.6,
            "training": 15.20,
            "prediction": 2.53,
        },
        "their code, two cores": {
            "trees": 31.5,
            "optimization": 13.4,
            "measurement": 5.9,
            "training": 22.0,
            "prediction": 3.5,
            "total": 77.0,
        },
    },
    "subsample": {
        "published (M2 laptop)": {
            "trees": 0.71,
            "optimization": 0.44,
            "training": 0.64,
            "prediction": 0.34,
        }
    },
}
"""Car, ε = 1: Table 2 of the appendix, and their code run again on two cores.

The published seconds of optimization are not reproduced by their own code.
"""


@dataclass(frozen=True)
class Timed:
    """Median seconds of a setting over some forests: stages, total and CPU."""

    setting: Setting
    seconds: dict[str, float]


def settings() -> list[Setting]:
    """Return the settings of the table."""
    found = [
        figure_setting("car", "batch-training"),
        figure_setting("car", "batch-prediction"),
        Setting("car", "subsample", "weight", 3, 16),
        Setting("car", "batch-training", "hard", 4, math.inf),
        *(
            Setting("car", method, voting, 4, trees)
            for trees in (1, 4, 16, 64)
            for method, voting in (
                ("batch-training", "hard"),
                ("batch-prediction", "weight"),
            )
        ),
    ]
    for dataset in ("iris", "balance-scale", "heart", "mushroom", "adult"):
        if not isinstance(records_of(dataset), str):
            found += [
                figure_setting(dataset, "batch-training"),
                figure_setting(dataset, "batch-prediction"),
            ]
    return found


def measure(quick: bool) -> list[Timed]:
    """Time every setting: the median over forests, once everything is compiled."""
    return [_median(setting, 3 if quick else 7) for setting in settings()]


def _median(setting: Setting, repeats: int) -> Timed:
    if setting.trees == math.inf:
        repeats *= 7  # milliseconds
    seconds = [_once(setting, forest) for forest in range(repeats + 1)][1:]
    return Timed(
        setting,
        {
            stage: statistics.median(run[stage] for run in seconds)
            for stage in seconds[0]
        },
    )


def _once(setting: Setting, forest: int) -> dict[str, float]:
    X, queries, y, _ = split_of(setting, forest)
    records: Any = records_of(setting.dataset)
    model = build(setting, records.schema, 1.0, forest)
    started, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y).predict(queries)
    total, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {**model.timings_, "total": total, "cpu": cpu}
