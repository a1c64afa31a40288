"""Plan of the drawn forest, from simulated tasks: ``python -m benchmarks.planner``.

Settings are a function of records times epsilon, a public number. They are fitted on
tasks of `benchmarks/simulated.py`, whose class probabilities are known, so that the
risk of a model is the exact one of its answers to test records, not a share of labels
that happened to be drawn. No real records are read.

A coordinate search starts from the plan in force: each setting, at each knot of records
times epsilon, moves to a neighbouring value where that lowers the mean excess risk by
more than its standard error, on the same tasks, records and seeds of noise. Every risk
is written to a file at once, so that a run that was stopped goes on where it was. What
was found is then compared with the hand-set defaults on fresh tasks.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated import SimulatedTask, simulate_task
from mmech import Measurement, PrivacyLedger
from mmech.noise import k_norm
from mmech_rf import DrawnSettings, limits
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.plan import Plan
from mmech_rf.drawn.settings import between_knots
from mmech_rf.private.payments import Payments

Knots = tuple[float, ...]
Values = dict[str, list[float]]
"""A plan: every setting in it has one value, or one for each knot."""

OUTPUT = Path(__file__).parent / "planner"
SHIPPED = Path(__file__).parents[1] / "mmech_rf" / "drawn" / "plan.json"

KNOTS: Knots = (2.0, 3.0, 4.0, 5.0)
"""Logarithms, to base ten, of records times epsilon."""


@dataclass(frozen=True)
class Coordinate:
    """A setting that is fitted, at each of some knots or to one value.

    Attributes
    ----------
    name : str
    values : tuple of float
        In their order: a step goes from one to a neighbour.
    knots : tuple of float
        Where it may differ, of `KNOTS`; it has one value for all if there are none.
    place : tuple of float
        Range of records times epsilon, on the scale of knots, in which the trials of
        one value for all lie.
    """

    name: str
    values: tuple[float, ...]
    knots: Knots = ()
    place: tuple[float, float] = (2.0, 5.0)


SEARCHED = (
    Coordinate("first_records", (1.5e3, 3e3, 6e3, 12e3, 24e3), (), (4.0, 5.1)),
    Coordinate("learning_rate", (0.2, 0.3, 0.5, 0.7, 1.0), (4.0, 5.0)),
    Coordinate("most_rounds", (4, 7, 12, 20, 30), (4.0, 5.0)),
    Coordinate("boosting_from", (3e3, 6e3, 12e3, 24e3, 48e3), (), (3.4, 4.8)),
    Coordinate("round_records", (1e3, 2e3, 4e3), (), (4.0, 4.8)),
    Coordinate("first_selection", (0.5, 0.65, 0.75, 0.85), (), (3.0, 5.1)),
    Coordinate("selection", (0.2, 0.35, 0.5, 0.65), (), (4.0, 5.1)),
    Coordinate("calibration_share", (0.03, 0.05, 0.1, 0.15), (), (2.0, 4.0)),
    Coordinate("score_share", (0.01, 0.02, 0.03, 0.045, 0.06), (), (2.0, 4.2)),
    Coordinate("scores_from", (7, 10, 15, 22, 33), (), (1.7, 3.0)),
    Coordinate("score_share_boosting", (0.01, 0.02, 0.04, 0.06), (), (3.8, 5.1)),
    Coordinate("most_scores_boosting", (0.1, 0.2, 0.3, 0.4), (), (3.8, 5.1)),
    Coordinate("third_level", (0.02, 0.05, 0.15, 0.4), KNOTS[1:]),
    Coordinate("smoothing", (0.75, 1.5, 3.0), (), (4.0, 5.1)),
    Coordinate("least_kept", (0.0, 0.2, 0.4), (), (2.0, 4.2)),
    Coordinate("epsilon_per_vote", (0.5, 1.0, 1.5, 3.0), (), (1.5, 3.0)),
)
"""What is fitted, in this order."""

TESTED = 1000
"""Test records of a trial, whose class probabilities are known."""

RECORDS = 100, 1_500
EPSILONS = 0.05, 100.0
"""Ranges of public numbers."""

FEWER = {"most_pairs": 60, "most_sums": 120}
LESS = {"draw_visits": 10**6, "coarse_visits": 10**6, "third_visits": 3 * 10**6}
"""Fewer views and less work than by default, so that a trial takes tenths of a second:
what is planned is how a budget is shared, not what trees are made of."""


class FastPayments(Payments):
    """Payments with floating noise on sums: nothing is released, and tables of exact
    noise in many rows take seconds to make."""

    def release_sums(
        self,
        sums: NDArray[np.int64],
        groups: Sequence[int],
        cost: Fraction,
        what: str,
        unit: int,
    ) -> Measurement:
        """Release sums, of which one record changes every group by at most `unit`."""
        size, sizes = len(sums), np.repeat(groups, groups)

        def draw(scale: Any, shape: Any, *, insecure_rng: Any) -> NDArray[np.int64]:
            # Evenly in the unit ball of the norm, at a radius of the gamma law.
            radius = float(scale) * insecure_rng.gamma(size + 1, size=shape[1])
            parts = insecure_rng.exponential(size=shape)
            starts = np.cumsum([0, *groups[:-1]])
            total = np.add.reduceat(parts, starts) + insecure_rng.exponential(
                size=(len(groups), shape[1])
            )
            parts /= np.repeat(total, groups, axis=0)
            parts *= radius * insecure_rng.choice((-1, 1), shape)
            return np.rint(parts).astype(np.int64)

        def variance(scale: Any) -> NDArray[np.float64]:
            spread = 2.0 * (size + 1) * (size + 2) / (sizes + 1) / (sizes + 2)
            return float(scale) ** 2 * spread

        law = replace(k_norm(groups), draw=draw, variance=variance)
        return self._measure(sums, Fraction(unit), law, cost, what)


class Trial:
    """A task with records, public numbers, and test records of known probabilities.

    Parameters
    ----------
    seed : int
    place : tuple of float
        Range of the logarithm, to base ten, of records times epsilon.
    """

    def __init__(self, seed: int, place: tuple[float, float]) -> None:
        rng = np.random.default_rng([seed, 17])
        self.seed = seed
        self.information = 10 ** rng.uniform(*place)
        least = max(RECORDS[0], self.information / EPSILONS[1])
        most = min(RECORDS[1], self.information / EPSILONS[0])
        self.n_records = round(10 ** rng.uniform(np.log10(least), np.log10(most)))
        self.epsilon = Fraction(round(1000 * self.information / self.n_records), 1000)

    @cached_property
    def _drawn(self) -> tuple[SimulatedTask, tuple[NDArray[Any], ...]]:
        rng = np.random.default_rng([self.seed, 18])
        task = simulate_task(rng)
        codes = task.records(self.n_records, rng)
        rows = np.column_stack([codes, task.labels(codes, rng)])
        rows, numbers = np.unique(rows, axis=0, return_counts=True)
        tested = task.records(TESTED, rng)
        return task, (rows, numbers, tested, task.probabilities(tested))

    def plan(self, settings: DrawnSettings) -> Plan:
        """Return the budget split that settings give."""
        schema = self._drawn[0].schema
        sizes = schema.n_features, schema.n_classes
        return Plan.of(self.n_records, self.epsilon, *sizes, settings)

    def excess(self, settings: DrawnSettings) -> float:
        """Return by how much the risk of a forest is above the least possible."""
        task, (rows, numbers, tested, chances) = self._drawn
        settings = replace(settings, **FEWER)
        noise = np.random.default_rng([self.seed, 19])
        payments = FastPayments(PrivacyLedger(self.epsilon), noise, lambda entry: None)
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
        plan = self.plan(settings)
        with limits.changed(**LESS):
            forest = grower.grow(self.epsilon, plan)
        found = forest.log_odds(tested).argmax(axis=1)
        gained = np.take_along_axis(chances, found[:, None], axis=1)[:, 0]
        return float((chances.max(axis=1) - gained).mean())


USED = (
    "learning_rate",
    "third_level",
    "least_kept",
    "smoothing",
    "calibration_share",
)
"""Settings that a model depends on beside its split."""


class Risks:
    """Excess risks of settings in trials, kept in a file.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[tuple[int, str], float] = {}
        self.trials: dict[int, Trial] = {}
        if path.exists():
            with open(path, newline="", encoding="utf-8") as stream:
                for row in csv.reader(stream):
                    if len(row) == 3:  # a line that was cut off is run again
                        self.known[int(row[0]), row[1]] = float(row[2])

    def of(self, trial: Trial, settings: DrawnSettings) -> float:
        """Return the excess risk of settings in a trial."""
        # Settings that only decide the split are the same where it is.
        used = {name: getattr(settings, name) for name in USED}
        parts = [repr(trial.plan(settings)), json.dumps(used, default=str)]
        key = trial.seed, " ".join(parts)
        if key not in self.known:
            self.known[key] = trial.excess(settings)
            with open(self.path, "a", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerow([*key, f"{self.known[key]:.5f}"])
        return self.known[key]

    def difference(
        self, trials: Iterable[Trial], new: Values, old: Values, batch: int = 16
    ) -> tuple[float, float, int]:
        """Return the mean of new less old, its standard error, and the trials seen.

        No more are seen where, after a batch, the new one is not ahead.
        """
        found: list[float] = []
        for trial in trials:
            first, second = (settings_at(v, trial.information) for v in (new, old))
            alike = first == second
            found.append(
                0.0 if alike else self.of(trial, first) - self.of(trial, second)
            )
            if len(found) % batch == 0 and np.mean(found) >= 0:
                break
        error = float(np.std(found, ddof=1) / np.sqrt(len(found)))
        return float(np.mean(found)), error, len(found)


def settings_at(values: Values, information: float) -> DrawnSettings:
    """Return the settings of a plan at a number of records times epsilon."""
    return between_knots(values, KNOTS, information)


def trials_at(place: tuple[float, float], number: int, start: int = 0) -> list[Trial]:
    """Return trials in a range of records times epsilon, always the same ones."""
    first = 1000 * round(1000 * place[0]) + start
    return [Trial(first + i, place) for i in range(number)]


def moves(values: Values) -> Iterator[tuple[str, tuple[float, float], Values]]:
    """Yield what is tried: words, a range of trials, and a plan that differs."""
    for one in SEARCHED:
        own = values[one.name]
        for place in range(len(own)):
            if one.knots and KNOTS[place] not in one.knots:
                continue
            knot = KNOTS[place]
            around = (knot - 0.5, min(knot + 0.5, 5.1)) if one.knots else one.place
            nearest = int(np.abs(np.array(one.values) - own[place]).argmin())
            for step in (1, -1):
                if 0 <= nearest + step < len(one.values):
                    value = one.values[nearest + step]
                    changed = [*own[:place], value, *own[place + 1 :]]
                    where = f" at {knot:g}" if one.knots else ""
                    what = f"{one.name}{where}: {own[place]:g} to {value:g}"
                    yield what, around, values | {one.name: changed}


def start() -> Values:
    """Return the hand-set defaults as a plan."""
    default = DrawnSettings()
    return {
        one.name: [float(getattr(default, one.name))] * (len(KNOTS) if one.knots else 1)
        for one in SEARCHED
    }


def search(values: Values, risks: Risks, number: int, until: float) -> Values:
    """Return a better plan, from one sweep over all coordinates.

    Parameters
    ----------
    values : dict
    risks : Risks
    number : int
        Largest number of trials of a comparison.
    until : float
        Time, as of `time.monotonic`, at which to stop.
    """
    done: set[str] = set()
    while time.monotonic() < until:
        left = (move for move in moves(values) if move[0] not in done)
        move = next(left, None)
        if move is None:
            break
        what, around, new = move
        trials = trials_at(around, number)
        mean, error, seen = risks.difference(trials, new, values)
        taken = seen == number and mean < -1.5 * error
        verdict = "taken" if taken else "left"
        print(f"{what}: {mean:+.4f} ± {error:.4f} ({seen}), {verdict}", flush=True)
        done.add(what)
        if taken:
            # Not back again, and on in the same direction.
            name, (old, value) = what.split(": ")[0], what.split(": ")[1].split(" to ")
            done.add(f"{name}: {value} to {old}")
            values = new
    return values


def verdict(values: Values, risks: Risks, number: int) -> dict[str, Any]:
    """Return differences of a plan to the hand-set defaults, on fresh tasks."""
    found = {}
    for low in np.arange(1.5, 5.0, 0.5):
        place = (float(low), float(low) + 0.5)
        trials = trials_at(place, number, start=500)
        mean, error, _ = risks.difference(trials, values, start(), number + 1)
        found[f"{low:g} to {low + 0.5:g}"] = [round(mean, 4), round(error, 4)]
        print(f"{place}: {mean:+.4f} ± {error:.4f}", flush=True)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, compare and write the plan."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--trials", type=int, default=48, help="of a comparison")
    parser.add_argument("--fresh", type=int, default=24, help="of each range, at last")
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--ship", action="store_true", help="write it to the package")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    risks = Risks(options.output / "risks.csv")
    until = time.monotonic() + 60 * options.minutes
    values = search(start(), risks, options.trials, until)
    plan = {
        "made": {
            "by": "python -m benchmarks.planner",
            "date": datetime.date.today().isoformat(),
            "prior": "benchmarks.simulated",
            "trials": len({seed for seed, _ in risks.known}),
            "fits": len(risks.known),
            "versions": {
                "python": platform.python_version(),
                **{name: version(name) for name in ("mmech", "numpy", "scipy")},
            },
            "excess risk less that of the defaults": verdict(
                values, risks, options.fresh
            ),
        },
        "log10_information": KNOTS,
        "settings": values,
    }
    text = json.dumps(plan, indent=1) + "\n"
    (options.output / "plan.json").write_text(text, encoding="utf-8")
    if options.ship:
        SHIPPED.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
