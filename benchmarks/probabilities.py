"""Probabilities of the drawn forest on simulated tasks: a table of differences.

``python -m benchmarks.probabilities``. Forests are released on tasks of
`benchmarks/simulated.py`, whose class probabilities are known, and the same releases
are read in two ways: by the one log-linear model of `mmech_rf.drawn.joint`, and by
votes whose log-odds add up. With ``--ranking`` it is other releases that are compared:
those of `DrawnSettings.for_ranking` and of the defaults, on tasks of two classes that
overlap. Differences are paired, per task. No real records are read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy.ranking import calibration_error
from benchmarks.planner import FEWER, LESS, SimulatedPayments
from benchmarks.simulated import KINDS, SCORECARD, simulate_task
from mmech import PrivacyLedger
from mmech_rf import DrawnSettings, limits
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.joint import JointTrees
from mmech_rf.drawn.plan import Plan
from mmech_rf.drawn.trees import SelectedTrees

Floats = NDArray[np.float64]

TESTED = 2000
"""Test records of a task."""

RANGES = {
    "any": ((200, 20_000), (0.1, 4.0)),
    "boosting": ((5_000, 30_000), (0.8, 8.0)),
}
"""Numbers of records and epsilon that tasks are drawn from, evenly in logarithms."""

PLACES = (1.7, 2.6, 3.0, 3.5, 4.0, 4.5)
"""Logarithms, to base ten, of records times epsilon between which rankings are
compared."""

OVERLAP = 0.6, 0.95
"""Least and largest area under the ROC curve that a task to be ranked allows."""

MEASURES = ("accuracy", "log loss", "area under ROC", "Brier score", "calibration")


def forests(
    seeds: range, ranges: tuple[tuple[float, float], tuple[float, float]]
) -> Iterator[tuple[JointTrees, NDArray[np.int64], Floats]]:
    """Yield forests of simulated tasks, test records, and their probabilities."""
    for seed in seeds:
        rng = np.random.default_rng([seed, 77])
        n, eps = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ranges)
        task, epsilon = simulate_task(rng), Fraction(round(1000 * eps), 1000)
        codes = task.records(round(n), rng)
        rows = np.column_stack([codes, task.labels(codes, rng)])
        rows, numbers = np.unique(rows, axis=0, return_counts=True)
        tested = task.records(TESTED, rng)
        settings = replace(DrawnSettings(), **FEWER)
        noise = np.random.default_rng([seed, 78])
        sizes = task.schema.n_features, task.schema.n_classes
        grower = Grower(
            task.schema.domain_shape,
            np.ascontiguousarray(rows[:, :-1]),
            np.ascontiguousarray(rows[:, -1]),
            n_classes=task.schema.n_classes,
            n_records=float(round(n)),
            payments=SimulatedPayments(
                PrivacyLedger(epsilon), noise, lambda entry: None
            ),
            settings=settings,
            multiplicities=numbers,
            joint=True,
        )
        plan = Plan.of(round(n), epsilon, *sizes)
        with limits.changed(**LESS):
            forest = grower.grow(epsilon, plan)
        assert isinstance(forest, JointTrees)
        yield forest, tested, task.probabilities(tested)


def ranked(
    seeds: range, place: tuple[float, float]
) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield kinds of tasks, and the quality of defaults and of settings for ranking.

    Every second task is a sum of all attributes; in half of them attributes depend on
    each other.
    """
    for seed in seeds:
        rng = np.random.default_rng([seed, 277])
        information, eps = 10 ** rng.uniform(*place), np.exp(rng.uniform(-0.9, 0.9))
        n = int(np.clip(information / eps, 150, 30_000))
        epsilon = Fraction(round(1000 * min(information / n, 8)), 1000)
        kind = SCORECARD if seed % 2 else KINDS[seed // 2 % len(KINDS)]
        while True:
            task = simulate_task(rng, kind, dependent=bool(seed // 10 % 2))
            chances = task.probabilities(task.records(TESTED, rng))
            two = chances.shape[1] == 2
            if two and OVERLAP[0] < quality(chances, chances)[2] < OVERLAP[1]:
                break
        codes = task.records(n, rng)
        rows = np.column_stack([codes, task.labels(codes, rng)])
        rows, numbers = np.unique(rows, axis=0, return_counts=True)
        tested = task.records(TESTED, rng)
        found = []
        for own in (DrawnSettings(), DrawnSettings.for_ranking()):
            settings, noise = replace(own, **FEWER), np.random.default_rng([seed, 278])
            grower = Grower(
                task.schema.domain_shape,
                np.ascontiguousarray(rows[:, :-1]),
                np.ascontiguousarray(rows[:, -1]),
                n_classes=2,
                n_records=float(n),
                payments=SimulatedPayments(
                    PrivacyLedger(epsilon), noise, lambda entry: None
                ),
                settings=settings,
                multiplicities=numbers,
            )
            plan = Plan.of(n, epsilon, task.schema.n_features, 2, own)
            with limits.changed(**LESS):
                forest = grower.grow(epsilon, plan)
            found.append(
                quality(forest.probabilities(tested), task.probabilities(tested))
            )
        yield kind, *found


def quality(found: Floats, chances: Floats) -> Floats:
    """Return the measures of probabilities, by known chances."""
    rows, k = np.arange(len(found)), found.shape[1]
    areas, weights, gaps = [], [], []
    for c in range(1 if k == 2 else 0, k):
        twice = np.concatenate([found[:, c], found[:, c]])
        truth = np.repeat([1, 0], len(found))
        own = np.concatenate([chances[:, c], 1 - chances[:, c]])
        if own[: len(found)].sum() > 1:
            areas.append(roc_auc_score(truth, twice, sample_weight=own))
            weights.append(chances[:, c].sum())
        gaps.append(calibration_error(chances[:, c], found[:, c]))
    return np.array(
        [
            chances[rows, found.argmax(axis=1)].mean(),
            -(chances * np.log(np.maximum(found, 1e-6))).sum(axis=1).mean(),
            np.average(areas, weights=weights),
            np.square(found - chances).sum(axis=1).mean(),
            np.mean(gaps),
        ]
    )


def kind(forest: JointTrees) -> str:
    """Return what was released."""
    if forest.boosted:
        return "boosted trees"
    return "a tree" if forest.additive is None else "a tree and scores"


def main(arguments: list[str] | None = None) -> None:
    """Print the table of differences: the model less added log-odds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probabilities")
    parser.add_argument("--tasks", type=int, default=120, help="of each range")
    parser.add_argument("--start", type=int, default=10_000, help="first seed")
    parser.add_argument("--ranking", action="store_true", help="compare settings")
    parser.add_argument(
        "--set", nargs=2, action="append", default=[], metavar=("SETTING", "VALUE")
    )
    options = parser.parse_args(arguments)
    if options.ranking:
        gains: dict[str, list[Floats]] = {}
        for number, place in enumerate(pairwise(PLACES)):
            first = options.start + 1000 * number
            for own, before, after in ranked(
                range(first, first + options.tasks), place
            ):
                for group in (f"{place[0]:g} to {place[1]:g}", own):
                    gains.setdefault(group, []).append(after - before)
        tell("log₁₀ N ε, or kind", gains)
        return
    changes: dict[str, Any] = {name: float(value) for name, value in options.set}
    found: dict[str, list[Floats]] = {}
    for number, ranges in enumerate(RANGES.values()):
        first = options.start + 1000 * number
        for forest, tested, chances in forests(
            range(first, first + options.tasks), ranges
        ):
            model = replace(forest, settings=replace(forest.settings, **changes))
            before = SelectedTrees.probabilities(forest, tested)
            gain = quality(model.probabilities(tested), chances)
            gain -= quality(before, chances)
            found.setdefault(kind(forest), []).append(gain)
    tell("released", found)


def tell(title: str, found: Mapping[str, Sequence[Floats]]) -> None:
    """Print mean differences with their standard errors, group by group."""
    print(f"| {title} | tasks | " + " | ".join(MEASURES) + " |")
    print("|---|---|" + "---|" * len(MEASURES))
    for name, gains in found.items():
        error = np.std(gains, axis=0, ddof=1) / np.sqrt(len(gains))
        cells = [
            f"{mean:+.4f} ± {own:.4f}"
            for mean, own in zip(np.mean(gains, axis=0), error, strict=True)
        ]
        print(f"| {name} | {len(gains)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
