"""Plan of the drawn forest, from simulated tasks: ``python -m benchmarks.planner``.

Settings are a function of records times epsilon, a public number. They are fitted on
tasks of `benchmarks/simulated.py`, whose class probabilities are known, so that the
risk of a model is the exact one of its answers to test records, not a share of labels
that happened to be drawn. No real records are read.

A search starts from the hand-set defaults. Near each knot of records times epsilon
every trial fits the defaults and some forests with several changed settings, on the
same records and with the same seed of noise; a regression says what each change does to
the excess risk, and draws the next ones. Every risk is written to a file at once, so
that a run that was stopped goes on where it was. What was found is then compared with
the defaults on fresh tasks. ``--losses`` tells instead where risk comes from: noise of
selections, noise of counts and sums, few records, or trees that are too simple.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.simulated import KINDS, SimulatedTask, simulate_task
from mmech import Measurement, PrivacyLedger
from mmech.noise.norm import Groups
from mmech_rf import DrawnSettings, limits
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.plan import Plan
from mmech_rf.drawn.settings import between_knots
from mmech_rf.private.payments import Payments

Knots = tuple[float, ...]
Values = dict[str, list[float]]
"""A plan: every setting in it has one value, or one for each knot."""

OUTPUT = Path(__file__).parent / "planner"
SHIPPED = Path(__file__).parents[1] / "mmech_rf" / "drawn" / "plan.json"

KNOTS: Knots = (2.0, 3.0, 4.0)
"""Logarithms, to base ten, of records times epsilon."""

Change = tuple[str, float]
"""A setting, and a value other than the default."""

Searched = dict[str, tuple[float, ...]]

SEARCHED: Searched = {
    "third_level": (0.05, 0.2, 0.5),
    "splitting": (0.5, 0.7),
    "boosting_from": (8e3, 12e3, 20e3),
    "first_records": (2e3, 6e3),
    "round_records": (1e3, 2e3),
    "learning_rate": (0.3, 0.5),
    "most_scores_boosting": (0.1, 0.3),
    "scores_from": (15, 25, 40),
    "score_share": (0.02, 1 / 33),
    "most_scores": (0.2, 0.3, 0.5),
    "score_views_from": (300, 1e3),
    "most_tree_epsilon": (1, 2, 4),
    "calibration_share": (0.02, 0.05),
}
"""Settings that are fitted, and values that are tried at every knot."""

ALWAYS = ("splitting", "third_level", "whole_prior")
LABELLED = ("calibration_share", "label_smoothing")
BOOSTED = ("learning_rate",)
SCORED = ("least_kept", "records_per_sum", "signal_to_noise")
"""Settings that a forest depends on beside its split of the budget: in any case, with
labels of leaves, with boosting and with scores."""

TESTED = 2000
"""Test records of a trial, whose class probabilities are known."""

RECORDS = 200, 30_000
EPSILONS = 0.1, 10.0
"""Ranges of public numbers; of a fifth of the trials epsilon may be ten times more."""

MOST = 5.4
"""Logarithm of the largest records times epsilon that all of these reach."""

FEWER = {"most_pairs": 300, "most_sums": 300}
LESS = {"draw_visits": 10**7, "coarse_visits": 10**8, "third_visits": 10**8}
"""Fewer views and less work than by default, so that a trial takes tenths of a second:
what is planned is how a budget is shared, not how many views there are."""

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

    def key(self, settings: DrawnSettings) -> str:
        """Return words that are the same for settings that give the same forest."""
        plan = self.plan(settings)
        if not plan.rounds:
            plan = replace(plan, first_selection=Fraction(1), selection=Fraction(1))
        used = [*ALWAYS, "smoothing"]
        used += BOOSTED if plan.rounds else LABELLED
        used += SCORED if plan.scores else ()
        values = [f"{name}={float(getattr(settings, name)):g}" for name in used]
        return " ".join([repr(plan), *values])

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
        plan, settings = self.plan(settings), replace(settings, **FEWER)
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
        with limits.changed(**LESS):
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


class Risks:
    """Excess risks of changed settings in trials, kept in a file.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: dict[tuple[int, str], float] = {}
        if path.exists():
            with open(path, newline="", encoding="utf-8") as stream:
                for row in csv.reader(stream):
                    if len(row) == 3:  # a line that was cut off is run again
                        self.known[int(row[0]), row[1]] = float(row[2])

    def of(self, trial: Trial, settings: DrawnSettings) -> float:
        """Return the excess risk of settings in a trial."""
        key = trial.seed, trial.key(settings)
        if key not in self.known:
            self.known[key] = trial.excess(settings)
            with open(self.path, "a", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerow([*key, f"{self.known[key]:.5f}"])
        return self.known[key]

    def difference(self, trial: Trial, values: Values) -> float:
        """Return the risk of a plan less that of the defaults."""
        planned = between_knots(values, KNOTS, trial.information)
        if trial.key(planned) == trial.key(DrawnSettings()):
            return 0.0
        return self.of(trial, planned) - self.of(trial, DrawnSettings())


def trials_at(place: tuple[float, float], number: int, start: int = 0) -> list[Trial]:
    """Return trials in a range of records times epsilon, always the same ones."""
    first = 10_000 * round(1000 * place[0]) + start
    return [Trial(first + i, place) for i in range(number)]


def changed(changes: Iterable[Change]) -> DrawnSettings:
    """Return the defaults with changes."""
    return between_knots({name: [value] for name, value in changes}, KNOTS, 1.0)


def that_matter(trial: Trial, changes: Sequence[Change]) -> list[Change]:
    """Return those of some changes without which another forest is released."""
    full = trial.key(changed(changes))
    return [
        one
        for one in changes
        if trial.key(changed(other for other in changes if other != one)) != full
    ]


class Effects:
    """What changes of settings do to the excess risk near a knot, added up.

    A Bayesian linear regression of differences to the start on the changes of a trial
    that matter there: every trial tells of several at once. The next changes are drawn
    from what is known (Thompson sampling), so that trials follow what may be better.

    Parameters
    ----------
    changes : sequence of tuple of (str, float)
        All that may be changed: a setting, and another value of it.
    """

    PRIOR, NOISE = 0.01, 0.02
    """Standard deviations of an effect, and of a difference of two forests."""

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = list(changes)
        self.place = {change: i for i, change in enumerate(self.changes)}
        self.precision = np.eye(len(self.changes)) / self.PRIOR**2
        self.moment = np.zeros(len(self.changes))
        self.seen = np.zeros(len(self.changes), int)

    def add(self, changes: Sequence[Change], difference: float) -> None:
        """Take a difference into account."""
        places = [self.place[change] for change in changes if change in self.place]
        self.precision[np.ix_(places, places)] += 1 / self.NOISE**2
        self.moment[places] += difference / self.NOISE**2
        self.seen[places] += 1

    def estimates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return effects and their standard deviations."""
        covariance = np.linalg.inv(self.precision)
        return covariance @ self.moment, np.sqrt(np.diag(covariance))

    def draw(self, rng: np.random.Generator, part: float = 1 / 3) -> list[Change]:
        """Draw changes: of a part of the settings, what may be best."""
        covariance = np.linalg.inv(self.precision)
        drawn = rng.multivariate_normal(covariance @ self.moment, covariance)
        best: dict[str, tuple[float, Change]] = {}
        for change, effect in zip(self.changes, drawn.tolist(), strict=True):
            if effect < best.get(change[0], (0.0,))[0]:
                best[change[0]] = effect, change
        return [change for _, change in best.values() if rng.random() < part]

    def best(self, sure: float) -> list[Change]:
        """Return changes that are better by so many standard deviations."""
        means, errors = self.estimates()
        found: dict[str, tuple[float, Change]] = {}
        for change, mean, error in zip(self.changes, means, errors, strict=True):
            if mean < min(-sure * error, found.get(change[0], (0.0,))[0]):
                found[change[0]] = mean, change
        return [change for _, change in found.values()]


def search(
    risks: Risks,
    number: int,
    until: float,
    designs: int = 3,
    knots: Knots = KNOTS,
    searched: Searched = SEARCHED,
) -> dict[float, Effects]:
    """Return effects of changes at every knot, from trials in turn.

    Parameters
    ----------
    risks : Risks
    number : int
        Largest number of trials at a knot.
    until : float
        Time, as of `time.monotonic`, at which to stop.
    designs : int
        Forests of a trial beside that of the start.
    knots : tuple of float
    searched : mapping
        As `SEARCHED`.
    """
    default = DrawnSettings()
    changes = [
        (name, float(value))
        for name, values in searched.items()
        for value in values
        if not np.isclose(value, float(getattr(default, name)))
    ]
    effects = {knot: Effects(changes) for knot in knots}
    trials = {
        knot: trials_at((knot - 0.5, min(knot + 0.5, MOST)), number) for knot in knots
    }
    for turn, knot in product(range(number), knots):
        if time.monotonic() > until:
            break
        trial = trials[knot][turn]
        rng = np.random.default_rng([trial.seed, 21])
        first = risks.of(trial, default)
        drawn = [effects[knot].draw(rng) for _ in range(designs)]
        for tried in {tuple(that_matter(trial, one)) for one in drawn} - {()}:
            effects[knot].add(tried, risks.of(trial, changed(tried)) - first)
        if turn % 50 == 49:
            tell(knot, effects[knot], turn + 1)
    return effects


def tell(knot: float, effects: Effects, turn: int) -> None:
    """Print what stands out."""
    means, errors = effects.estimates()
    order = np.argsort(means / errors)
    words = [
        f"{name}={value:g} {means[i]:+.4f}±{errors[i]:.4f} ({effects.seen[i]})"
        for i in order
        for name, value in [effects.changes[i]]
        if abs(means[i]) > errors[i]
    ]
    print(f"knot {knot:g}, {turn} trials:", "; ".join(words), flush=True)


def plan_of(effects: dict[float, Effects], sure: float = 1.5) -> Values:
    """Return the plan with all changes that are for better."""
    found = {knot: dict(own.best(sure)) for knot, own in effects.items()}
    return {
        name: [
            at.get(name, float(getattr(DrawnSettings(), name))) for at in found.values()
        ]
        for name in dict.fromkeys(name for at in found.values() for name in at)
    }


def verdict(values: Values, risks: Risks, number: int) -> dict[str, list[float]]:
    """Return differences of a plan to the defaults on fresh tasks, and their errors.

    By range of records times epsilon, and by what classes follow.
    """
    found: dict[str, list[float]] = {}
    for low in np.arange(1.5, 5.0, 0.5).tolist():
        for trial in trials_at((low, low + 0.5), number, start=5000):
            difference = risks.difference(trial, values)
            for group in (f"{low:g} to {low + 0.5:g}", trial.task.kind):
                found.setdefault(group, []).append(difference)
    summary = {}
    for group, differences in found.items():
        if len(differences) == 1:
            continue
        error = np.std(differences, ddof=1) / np.sqrt(len(differences))
        summary[group] = [round(float(np.mean(differences)), 4), round(error, 4)]
        print(
            f"{group}: {summary[group][0]:+.4f} ± {summary[group][1]:.4f}", flush=True
        )
    return summary


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


def main(arguments: Sequence[str] | None = None, searched: Searched = SEARCHED) -> None:
    """Search, compare and write the plan."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planner")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--trials", type=int, default=400, help="at each knot")
    parser.add_argument("--fresh", type=int, default=24, help="of each range, at last")
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument(
        "--losses", type=int, metavar="TASKS", help="write losses.csv, and no plan"
    )
    parser.add_argument("--ship", action="store_true", help="write it to the package")
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.losses:
        losses(options.output / "losses.csv", options.losses, DrawnSettings())
        return
    risks = Risks(options.output / "risks.csv")
    until = time.monotonic() + 60 * options.minutes
    values = plan_of(search(risks, options.trials, until, searched=searched))
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
