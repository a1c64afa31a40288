"""What a candidate gains over the private forest: ``python -m benchmarks.gains``.

Both are fitted to the same simulated tasks (`benchmarks/simulated.py`), whose class
probabilities are known, so that no test labels are drawn. Candidates are settings of
the forest (``--set scores_from=30``, ``--ranking``), or the forest without one of its
ideas (``--ablation "no pairs"``; ``python -m benchmarks.accuracy --ablation`` takes
each away in turn on real records). Differences are paired, per task; ± is one standard
error. No real records are read.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy._methods import Method
from benchmarks.accuracy._table import EPSILONS as BUDGETS
from benchmarks.accuracy._table import Values
from benchmarks.accuracy.ranking import calibration_error
from benchmarks.results import Results, markdown_table, standard_error
from benchmarks.simulated import KINDS, SCORECARD, SimulatedTask, simulate_task
from mmech import Measurement, PrivacyLedger, noisy_release
from mmech.noise import LAPLACE
from mmech.noise.norm import Groups, as_blocks
from mmech.session import Session
from mmech_rf import DrawnSettings, PrivateForestClassifier, Schema, limits
from mmech_rf.drawn import draw, settings, views
from mmech_rf.drawn.draw import select_tree
from mmech_rf.drawn.views import public_views

Floats = NDArray[np.float64]

TESTED = 2000
PLACES = (1.7, 2.6, 3.0, 3.5, 4.0, 4.5)
"""Logarithms, to base ten, of records times epsilon between which rows of the table
stand."""

RECORDS, EPSILONS = (200, 30_000), (0.1, 10.0)
FEWER = {"MOST_PAIRS": 300, "MOST_SUMS": 300}
LESS = {"draw_visits": 10**7, "coarse_visits": 10**8}
"""Fewer views and less work than by default: a trial takes tenths of a second."""

MEASURES = ("right", "log loss", "area under ROC", "Brier score", "calibration")


# ---- candidates ----------------------------------------------------------------------

ABLATION_SETS = ("car", "balance-scale", "iris", "heart", "mushroom", "claves")


class CountedLabels:
    """The same trees, whose labels come from noisy counts instead of the draw.

    Half of epsilon draws the tree, half counts the classes in its leaves.
    """

    def __init__(self, schema: Schema, *, epsilon: float, n_records: int) -> None:
        self.schema = schema
        self.epsilon = Fraction(str(epsilon))
        self.n_records = n_records

    def fit(self, X: Any, y: Any) -> CountedLabels:
        """Draw a tree and count in its leaves."""
        codes, classes = self.schema.encode(X, y)
        ledger, half = PrivacyLedger(self.epsilon), self.epsilon / 2
        items = public_views(self.schema.domain_shape)
        self._tree = select_tree(
            items,
            items.cells(codes),
            classes,
            n_classes=self.schema.n_classes,
            epsilon=half,
            n_records=self.n_records,
            relation=ledger.relation,
            pay=lambda: ledger.spend(half, "a tree", sensitivity=1, kind="exponential"),
            noise=None,
        )
        counts = np.zeros((self._tree.n_leaves, self.schema.n_classes), np.int64)
        np.add.at(counts, (self._tree.leaves(codes), classes), 1)
        measured = noisy_release(
            counts, sensitivity=1, epsilon=half, released="class counts", ledger=ledger
        )
        self._labels = measured.values.argmax(axis=1)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Return one for the class of every record."""
        leaves = self._tree.leaves(self.schema.encode(X))
        return np.eye(self.schema.n_classes)[self._labels[leaves]]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every record."""
        classes = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.schema.decode_target(classes))


class LaplaceSession(Session):
    """A session with Laplace noise on sums, in place of K-norm noise of the same cost.

    A record changes every group of sums by a unit: Laplace noise pays for each.
    """

    def add_noise_to_groups(
        self,
        sums: NDArray[np.int64],
        groups: Groups,
        cost: Fraction,
        what: str,
        unit: int,
    ) -> Measurement:
        """Release sums, of which one record changes every group by at most `unit`."""
        n_groups = sum(map(len, as_blocks(groups)))
        return self._measured(sums, Fraction(unit * n_groups), LAPLACE, cost, what)


class LaplaceSums(PrivateForestClassifier):
    """The same forest, with Laplace noise on the sums that give its scores."""

    def _release_model(self, *arguments: Any) -> None:
        own = self._session
        self._session = LaplaceSession(own.ledger, own.noise, own.entries)
        super()._release_model(*arguments)


def forest(settings: DrawnSettings | None = None, *, stated: bool = False) -> Method:
    """Return the private forest with settings, and with a stated number of records."""

    def make(schema: Schema, epsilon: float, n: int) -> Any:
        return PrivateForestClassifier(
            schema, epsilon=epsilon, settings=settings, n_records=n if stated else None
        )

    return Method(make)


def _patched(*changes: tuple[Any, str, Any], **parameters: Any) -> Method:
    """Return the forest with other constants of modules: (module, name, value)."""

    class Ablated(PrivateForestClassifier):
        def _fit(self, X: Any, y: Any) -> None:
            with ExitStack() as patches:
                for change in changes:
                    patches.enter_context(patch.object(*change))
                super()._fit(X, y)

    return Method(
        lambda schema, epsilon, n: Ablated(schema, epsilon=epsilon, **parameters)
    )


NEVER = math.inf
NO_SUMS, NO_PAIRS = (views, "MOST_SUMS", 0), (views, "MOST_PAIRS", 0)

ABLATIONS = {
    "all ideas": forest(),
    "N stated": forest(stated=True),
    "no signed sums": _patched(NO_SUMS),
    "no pairs": _patched(NO_PAIRS),
    "single attributes": _patched(NO_SUMS, NO_PAIRS),
    "one level": _patched((draw, "SPLITTING", 1e-300)),
    "labels from counts": Method(
        lambda schema, epsilon, n: CountedLabels(schema, epsilon=epsilon, n_records=n)
    ),
    "no scores": forest(DrawnSettings(scores_from=NEVER)),
    "scores not in views": _patched((settings, "SCORE_VIEWS_FROM", NEVER)),
    "Laplace noise on sums": Method(
        lambda schema, epsilon, n: LaplaceSums(schema, epsilon=epsilon)
    ),
    "one tree": _patched(
        (settings, "MOST_VOTES", 1), settings=DrawnSettings(boosting_from=NEVER)
    ),
    "always boosting": forest(DrawnSettings(boosting_from=0)),
}
"""Columns of the table of ablations."""


def ablation_table(values: Values, labels: Iterable[str] = ABLATIONS) -> str:
    """Return the Markdown table: a row for every data set and epsilon."""
    rows = [
        [name, f"{epsilon:g}"]
        + [
            f"{np.mean(found):.3f}"
            if (found := values.get((name, label, epsilon), []))
            else ""
            for label in labels
        ]
        for name in dict.fromkeys(key[0] for key in values)
        for epsilon in BUDGETS
        if any((name, label, epsilon) in values for label in labels)
    ]
    return markdown_table(["data set", "ε", *labels], rows)


# ---- simulated tasks -----------------------------------------------------------------


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

    def forest(self, method: Method = ABLATIONS["N stated"]) -> Any:
        """Return a private forest, fitted with fewer views than by default."""
        model = method.make(self.task.schema, self.epsilon, self.n_records)
        with limits.changed(**LESS), patch.multiple(views, **FEWER):
            return self.fit(model)

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
    trial: Trial, place: str, methods: tuple[Method, Method]
) -> Iterator[tuple[str, Floats]]:
    """Yield what the second gains, under the names of the rows that it counts in."""
    before, after = (trial.quality(trial.forest(method)) for method in methods)
    for row in (place, trial.task.kind):
        yield row, after - before


def main(arguments: list[str] | None = None) -> None:
    """Print the table of differences."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gains")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--ranking", action="store_true")
    parser.add_argument("--ablation", choices=ABLATIONS, help="this, in their place")
    parser.add_argument("--tasks", type=int, default=60, help="of each range")
    parser.add_argument("--start", type=int, default=10_000, help="first seed")
    options = parser.parse_args(arguments)
    fields = dict(one.split("=") for one in options.set)
    changes = {
        name: type(getattr(DrawnSettings(), name))(v) for name, v in fields.items()
    }
    make = DrawnSettings.for_ranking if options.ranking else DrawnSettings
    methods = ABLATIONS["N stated"], forest(make(**changes), stated=True)
    if options.ablation:
        methods = ABLATIONS["all ideas"], ABLATIONS[options.ablation]
    kinds = (*KINDS, SCORECARD)
    steps = [
        (options.start + 1000 * number + i, place)
        for number, place in enumerate(pairwise(PLACES))
        for i in range(options.tasks)
    ]

    def outcome(step: tuple[int, tuple[float, float]]) -> Any:
        seed, place = step
        warnings.simplefilter("ignore")
        trial = Trial(seed, place, kinds[seed % len(kinds)])
        name = f"{place[0]:g} to {place[1]:g}"
        found = compare(trial, name, methods)
        return [((row, seed), gain) for row, gain in found]

    gains = Results()
    gains.run(steps, outcome, desc="tasks", progress=True)
    rows = []
    for name in dict.fromkeys(name for name, _ in gains):
        own = np.array([gain for key, gain in gains.items() if key[0] == name])
        cells = [f"{m.mean():+.3f} ± {standard_error(m):.3f}" for m in own.T]
        rows.append([name, str(len(own)), *cells])
    print(markdown_table(["", "tasks", *MEASURES], rows))


if __name__ == "__main__":
    main()
