"""What a candidate gains over the private forest: ``python -m benchmarks.gains``.

Both are fitted to the same simulated tasks (`benchmarks/simulated.py`), whose class
probabilities are known, so that no test labels are drawn. Candidates are settings of
the forest (``--set third_level=0.1``, ``--ranking``). Differences are paired, per task;
± is one standard error. No real records are read.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy.ranking import calibration_error
from benchmarks.simulated import KINDS, SCORECARD, SimulatedTask, simulate_task
from mmech_rf import DrawnSettings, PrivateForestClassifier, limits
from mmech_rf.drawn import views
from mmech_rf.evaluation import Results, markdown_table, standard_error

Floats = NDArray[np.float64]

TESTED = 2000
PLACES = (1.7, 2.6, 3.0, 3.5, 4.0, 4.5)
"""Logarithms, to base ten, of records times epsilon between which rows of the table
stand."""

RECORDS, EPSILONS = (200, 30_000), (0.1, 10.0)
FEWER = {"MOST_PAIRS": 300, "MOST_SUMS": 300}
LESS = {"draw_visits": 10**7, "coarse_visits": 10**8, "third_visits": 10**8}
"""Fewer views and less work than by default: a trial takes tenths of a second."""

MEASURES = ("right", "log loss", "area under ROC", "Brier score", "calibration")


class Trial:
    """A task with records, public numbers, and test records of known probabilities.

    Parameters
    ----------
    seed : int
    place : tuple of float
        Range of the logarithm, to base ten, of records times epsilon.
    kind : str, optional
        What classes follow; drawn by default.
    """

    def __init__(
        self, seed: int, place: tuple[float, float], kind: str | None = None
    ) -> None:
        rng = np.random.default_rng([seed, 17])
        self.seed, self.kind = seed, kind
        information = 10 ** rng.uniform(*place)
        least = max(RECORDS[0], information / EPSILONS[1])
        most = min(RECORDS[1], information / EPSILONS[0])
        self.n_records = round(10 ** rng.uniform(np.log10(least), np.log10(most)))
        self.epsilon = Fraction(round(1000 * information / self.n_records), 1000)

    @cached_property
    def task(self) -> SimulatedTask:
        """What records are drawn from."""
        rng = np.random.default_rng([self.seed, 18])
        return simulate_task(rng, self.kind, dependent=bool(self.seed // 10 % 2))

    @cached_property
    def tested(self) -> tuple[NDArray[np.int64], Floats]:
        """Test records, and the probabilities of their classes."""
        tested = self.task.records(TESTED, np.random.default_rng([self.seed, 20]))
        return tested, self.task.probabilities(tested)

    def fit(self, model: Any) -> Any:
        """Fit a classifier to the records."""
        rng = np.random.default_rng([self.seed, 22])
        codes = self.task.records(self.n_records, rng)
        labels = np.array(self.task.schema.class_labels)
        return model.fit(codes, labels[self.task.labels(codes, rng)])

    def forest(self, settings: DrawnSettings | None = None) -> PrivateForestClassifier:
        """Return a private forest, fitted with fewer views than by default."""
        forest = PrivateForestClassifier(
            self.task.schema, epsilon=self.epsilon, n_records=self.n_records,
            settings=settings,
        )  # fmt: skip
        with limits.changed(**LESS), patch.multiple(views, **FEWER):
            return self.fit(forest)

    def quality(self, model: Any) -> Floats:
        """Return the measures of a fitted model, by known probabilities."""
        tested, chances = self.tested
        found, k = model.predict_proba(tested), chances.shape[1]
        areas, gaps = [], []
        for c in range(1 if k == 2 else 0, k):
            own = np.concatenate([chances[:, c], 1 - chances[:, c]])
            truth, twice = np.repeat([1, 0], TESTED), np.tile(found[:, c], 2)
            areas.append(roc_auc_score(truth, twice, sample_weight=own))
            gaps.append(calibration_error(chances[:, c], found[:, c]))
        logs = np.log(np.maximum(found, 1e-6))
        brier = np.square(found - chances).sum(axis=1).mean()
        loss = -(chances * logs).sum(axis=1).mean()
        right = self.right(found.argmax(axis=1))
        return np.array([right, loss, np.mean(areas), brier, np.mean(gaps)])

    def right(self, classes: NDArray[np.int64]) -> float:
        """Return the expected share of right answers on the test records."""
        _, chances = self.tested
        return float(np.take_along_axis(chances, classes[:, None], axis=1).mean())

    def excess(self, model: Any) -> float:
        """Return by how much the risk of a model is above the least possible."""
        tested, chances = self.tested
        found = model.predict_proba(tested).argmax(axis=1)
        return float(chances.max(axis=1).mean()) - self.right(found)


def compare(
    trial: Trial, place: str, settings: DrawnSettings | None
) -> Iterator[tuple[str, Floats]]:
    """Yield what settings gain, under the names of the rows that it counts in."""
    before, after = (
        trial.quality(trial.forest(own)) for own in (DrawnSettings(), settings)
    )
    for row in (place, trial.task.kind):
        yield row, after - before


def main(arguments: list[str] | None = None) -> None:
    """Print the table of differences."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gains")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--ranking", action="store_true")
    parser.add_argument("--tasks", type=int, default=60, help="of each range")
    parser.add_argument("--start", type=int, default=10_000, help="first seed")
    options = parser.parse_args(arguments)
    fields = dict(one.split("=") for one in options.set)
    changes = {
        name: type(getattr(DrawnSettings(), name))(v) for name, v in fields.items()
    }
    make = DrawnSettings.for_ranking if options.ranking else DrawnSettings
    kinds = (*KINDS, SCORECARD)
    plan = [
        (options.start + 1000 * number + i, place)
        for number, place in enumerate(pairwise(PLACES))
        for i in range(options.tasks)
    ]

    def outcome(step: tuple[int, tuple[float, float]]) -> Any:
        seed, place = step
        warnings.simplefilter("ignore")
        trial = Trial(seed, place, kinds[seed % len(kinds)])
        name = f"{place[0]:g} to {place[1]:g}"
        found = compare(trial, name, make(**changes))
        return [((row, seed), gain) for row, gain in found]

    gains = Results()
    gains.run(plan, outcome, desc="tasks", progress=True)
    rows = []
    for name in dict.fromkeys(name for name, _ in gains):
        own = np.array([gain for key, gain in gains.items() if key[0] == name])
        cells = [f"{m.mean():+.3f} ± {standard_error(m):.3f}" for m in own.T]
        rows.append([name, str(len(own)), *cells])
    print(markdown_table(["", "tasks", *MEASURES], rows))


if __name__ == "__main__":
    main()
