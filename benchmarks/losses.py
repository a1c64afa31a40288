"""Where a drawn forest loses accuracy: ``python -m benchmarks.losses``.

Tasks are simulated by `benchmarks/simulated.py`. Their class probabilities are known:
the risk of a model is exact and needs no test labels. The excess risk is compared
with and without noise of selections and of counts. No real records are read.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated import KINDS, SimulatedTask, simulate_task
from mmech import Measurement, PrivacyLedger
from mmech.noise.norm import Groups
from mmech_rf import DrawnSettings, limits
from mmech_rf.drawn import views
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.plan import Plan
from mmech_rf.private.payments import Payments

OUTPUT = Path(__file__).parent / "losses.csv"

TESTED = 2000
"""Test records of a trial, whose class probabilities are known."""

RECORDS = 200, 30_000
EPSILONS = 0.1, 10.0
"""Ranges of public numbers; of a fifth of the trials epsilon may be ten times more."""

FEWER = {"MOST_PAIRS": 300, "MOST_SUMS": 300}
LESS = {"draw_visits": 10**7, "coarse_visits": 10**8, "third_visits": 10**8}
"""Fewer views and less work than by default: a trial takes tenths of a second."""

WITHOUT_NOISE = 2**20
"""Epsilon of releases that are to have no noise."""


@dataclass(frozen=True)
class SimulatedPayments(Payments):
    """Payments, some of which are for releases without noise.

    Attributes
    ----------
    exact : frozenset of {"selection", "counts"}
        Releases without noise, to see what noise costs.
    """

    exact: frozenset[str] = frozenset()

    def draw_tree(
        self, cost: Fraction, what: str, *seen: Any, **settings: Any
    ) -> SelectedTree:
        """Draw a labelled tree."""
        if "selection" in self.exact:
            return self._without_noise.draw_tree(
                Fraction(WITHOUT_NOISE), what, *seen, **settings
            )
        return super().draw_tree(cost, what, *seen, **settings)

    def release(
        self, counts: NDArray[np.int64], cost: Fraction, what: str, unit: int = 1
    ) -> Measurement:
        """Release counts, of which one record changes one by at most `unit`."""
        if "counts" in self.exact:
            return self._without_noise.release(
                counts, Fraction(WITHOUT_NOISE), what, unit
            )
        return super().release(counts, cost, what, unit)

    @property
    def _without_noise(self) -> SimulatedPayments:
        return SimulatedPayments(
            PrivacyLedger(2 * WITHOUT_NOISE), self.noise, self.note
        )

    def release_sums(
        self,
        sums: NDArray[np.int64],
        groups: Groups,
        cost: Fraction,
        what: str,
        unit: int,
    ) -> Measurement:
        """Release sums, of which one record changes every group by at most `unit`."""
        if "counts" in self.exact:
            return self._without_noise.release_sums(
                sums, groups, Fraction(WITHOUT_NOISE), what, unit
            )
        return super().release_sums(sums, groups, cost, what, unit)


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
        self.information = 10 ** rng.uniform(*place)
        largest = EPSILONS[1] if rng.random() < 0.8 else 10 * EPSILONS[1]
        least = max(RECORDS[0], self.information / largest)
        most = min(RECORDS[1], self.information / EPSILONS[0])
        self.n_records = round(10 ** rng.uniform(np.log10(least), np.log10(most)))
        self.epsilon = Fraction(round(1000 * self.information / self.n_records), 1000)

    @cached_property
    def task(self) -> SimulatedTask:
        """What records are drawn from."""
        return simulate_task(np.random.default_rng([self.seed, 18]), self.kind)

    @cached_property
    def _drawn(self) -> tuple[NDArray[Any], ...]:
        rng = np.random.default_rng([self.seed, 22])
        rows, numbers = _records(self.task, self.n_records, rng)
        tested = self.task.records(TESTED, rng)
        return rows, numbers, tested, self.task.probabilities(tested)

    def plan(self, settings: DrawnSettings) -> Plan:
        """Return the budget split that settings give."""
        schema = self.task.schema
        sizes = schema.n_features, schema.n_classes
        return Plan.of(self.n_records, self.epsilon, *sizes, settings)

    def excess(
        self,
        settings: DrawnSettings,
        *,
        exact: Iterable[str] = (),
        records: int | None = None,
    ) -> float:
        """Return by how much the risk of a forest is above the least possible.

        Parameters
        ----------
        settings : DrawnSettings
        exact : iterable of {"selection", "counts"}, optional
            Releases without noise.
        records : int, optional
            Fit to so many records, under the public numbers of the trial.
        """
        task, (rows, numbers, tested, chances) = self.task, self._drawn
        if records is not None:
            rows, numbers = _records(
                task, records, np.random.default_rng([self.seed, 20])
            )
        plan = self.plan(settings)
        noise = np.random.default_rng([self.seed, 19])
        payments = SimulatedPayments(
            PrivacyLedger(self.epsilon), noise, lambda entry: None, frozenset(exact)
        )
        grower = Grower(
            task.schema.domain_shape,
            np.ascontiguousarray(rows[:, :-1]),
            np.ascontiguousarray(rows[:, -1]),
            n_classes=task.schema.n_classes,
            n_records=float(self.n_records),
            payments=payments,
            settings=settings,
            multiplicities=numbers.astype(np.int64),
        )
        with limits.changed(**LESS), patch.multiple(views, **FEWER):
            forest = grower.grow(self.epsilon, plan)
        found = forest.log_odds(tested).argmax(axis=1)
        gained = np.take_along_axis(chances, found[:, None], axis=1)[:, 0]
        return float((chances.max(axis=1) - gained).mean())


def _records(
    task: SimulatedTask, number: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return distinct records with their classes, and how often each is there."""
    codes = task.records(number, rng)
    rows = np.column_stack([codes, task.labels(codes, rng)])
    return np.unique(rows, axis=0, return_counts=True)


WHAT_COSTS = {
    "private": {},
    "no noise in selection": {"exact": ("selection",)},
    "no noise in counts and sums": {"exact": ("counts",)},
    "no noise": {"exact": ("selection", "counts")},
    "no noise, many records": {"exact": ("selection", "counts"), "records": 20_000},
}
"""Releases without noise: what a table of losses compares."""


def losses(path: Path, number: int, settings: DrawnSettings) -> None:
    """Write excess risks with and without noise to a file, kind by kind.

    Parameters
    ----------
    path : Path
        Goes on where it was.
    number : int
        Tasks for each kind and each range of information.
    settings : DrawnSettings
    """
    known = set()
    if path.exists():
        with open(path, newline="", encoding="utf-8") as stream:
            known = {tuple(row[:3]) for row in csv.reader(stream)}
    for seed in range(number):
        for low, kind in product(np.arange(1.5, 5.0, 0.5).tolist(), KINDS):
            if (kind, str(low), str(seed)) in known:
                continue
            trial = Trial(900_000 + seed, (low, low + 0.5), kind)
            row = [trial.excess(settings, **how) for how in WHAT_COSTS.values()]
            with open(path, "a", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerow(
                    [kind, low, seed, *(f"{value:.4f}" for value in row)]
                )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the excess risks to a file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.losses")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--tasks", type=int, default=30, help="of each kind and range")
    options = parser.parse_args(arguments)
    losses(options.output, options.tasks, DrawnSettings())


if __name__ == "__main__":
    main()
