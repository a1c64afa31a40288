"""What settings for ranking gain on simulated tasks: a table of differences.

``python -m benchmarks.probabilities``. Forests are released on tasks of two classes
that overlap, from `benchmarks/simulated.py`, whose class probabilities are known: by
`DrawnSettings.for_ranking` and by the defaults. Differences are paired, per task. No
real records are read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy.ranking import calibration_error
from benchmarks.losses import FEWER, LESS, SimulatedPayments
from benchmarks.simulated import KINDS, SCORECARD, simulate_task
from mmech import PrivacyLedger
from mmech_rf import DrawnSettings, limits
from mmech_rf.drawn import views
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.plan import Plan

Floats = NDArray[np.float64]

TESTED = 2000
"""Test records of a task."""

PLACES = (1.7, 2.6, 3.0, 3.5, 4.0, 4.5)
"""Logarithms, to base ten, of records times epsilon between which rankings are
compared."""

OVERLAP = 0.6, 0.95
"""Least and largest area under the ROC curve that a task to be ranked allows."""

MEASURES = ("accuracy", "log loss", "area under ROC", "Brier score", "calibration")


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
            noise = np.random.default_rng([seed, 278])
            grower = Grower(
                task.schema.domain_shape,
                np.ascontiguousarray(rows[:, :-1]),
                np.ascontiguousarray(rows[:, -1]),
                n_classes=2,
                n_records=float(n),
                payments=SimulatedPayments(
                    PrivacyLedger(epsilon), noise, lambda entry: None
                ),
                settings=own,
                multiplicities=numbers,
            )
            plan = Plan.of(n, epsilon, task.schema.n_features, 2, own)
            with limits.changed(**LESS), patch.multiple(views, **FEWER):
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


def main(arguments: list[str] | None = None) -> None:
    """Print the table of differences: settings for ranking less the defaults."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probabilities")
    parser.add_argument("--tasks", type=int, default=120, help="of each range")
    parser.add_argument("--start", type=int, default=10_000, help="first seed")
    options = parser.parse_args(arguments)
    gains: dict[str, list[Floats]] = {}
    for number, place in enumerate(pairwise(PLACES)):
        first = options.start + 1000 * number
        for own, before, after in ranked(range(first, first + options.tasks), place):
            for group in (f"{place[0]:g} to {place[1]:g}", own):
                gains.setdefault(group, []).append(after - before)
    tell("log₁₀ N ε, or kind", gains)


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
