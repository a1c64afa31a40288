"""Which forests every figure and table asks for."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from mmech_rf.evaluation import Records, load_records

DATA_DIR = "MMECH_DATA_DIR"

METHODS = {
    "batch-training": "batch training, optimized",
    "batch-prediction": "batch prediction, optimized",
    "subsample": "subsample and aggregate, optimized",
    "laplace-shared": "batch training, Lap(τ/ε)",
    "laplace-disjoint": "disjoint training, Lap(1/ε)",
    "per-query": "prediction query by query, Lap(bτ/ε)",
    "per-query-subsample": "subsample query by query, Lap(b/ε)",
    "non-private": "without privacy",
}
"""What is compared, with the names of the report."""

BASELINES = ("laplace-shared", "laplace-disjoint")
LARGE_BUDGETS = (0.4, 0.6, 0.8, 1.0, 2.0)


@dataclass(frozen=True)
class Problem:
    """A data set with the forests that Figure 2 grows on it."""

    trees: int
    depth: int
    budgets: tuple[float, ...]
    q: int = 1
    features: int | str | None = None
    template: str = "auto"


PROBLEMS = {
    "car": Problem(128, 4, LARGE_BUDGETS),
    "iris": Problem(64, 2, LARGE_BUDGETS),
    "balance-scale": Problem(128, 2, LARGE_BUDGETS),
    "heart": Problem(102, 2, LARGE_BUDGETS, 3, "partition"),
    "mushroom": Problem(
        125, 3, (0.01, 0.03, 0.05, 0.1, 0.2), 5, "partition", "identity"
    ),
    "adult": Problem(16, 6, (0.01, 0.05, 0.1, 0.5, 1.0), template="identity"),
}
"""Figure 2.

The paper draws d̄ attributes for every ensemble and does not print d̄; the code that
wrote its result files deals all attributes out, each to one ensemble. On Mushroom and
Adult "auto" comes to the identity in every ensemble, after seconds of search.
"""

TEST_RECORDS_OF_ADULT = 15060
"""Complete records of the file adult.test of the UCI repository."""


@dataclass(frozen=True)
class Setting:
    """Everything that is fixed before a split, a forest and a noise are drawn.

    `queries` is the size of the batch, 0 for all test records.
    """

    dataset: str
    method: str
    voting: str
    depth: int
    trees: float
    q: int = 1
    features: int | str | None = None
    queries: int = 0
    split: str = "paper"
    template: str = "auto"


@dataclass(frozen=True)
class Task:
    """A forest on a split: all budgets, and several draws of the noise."""

    setting: Setting
    forest: int
    budgets: tuple[float, ...]
    draws: int

    @property
    def key(self) -> str:
        """What the results are found by when a run is resumed."""
        s = self.setting
        budgets = "/".join(f"{epsilon:g}" for epsilon in self.budgets)
        return (
            f"{s.dataset} {s.method} {s.voting} h={s.depth} tau={s.trees:g} q={s.q} "
            f"d={s.features or 0} b={s.queries} {s.split} {s.template} "
            f"forest={self.forest} "
            f"eps={budgets} draws={self.draws}"
        )


@dataclass(frozen=True)
class Effort:
    """How much is run: forests of the gate, forests elsewhere, draws of the noise."""

    gate: int
    forests: int
    draws: int
    quick: bool = False

    def budgets(self, dataset: str) -> tuple[float, ...]:
        """Return the budgets of Figure 2; those of the gate where a fit is slow."""
        if self.quick and dataset == "adult":
            return (0.1, 1.0)
        return PROBLEMS[dataset].budgets


QUICK = Effort(gate=20, forests=3, draws=2, quick=True)
FULL = Effort(gate=40, forests=20, draws=5)


@cache
def records_of(dataset: str) -> Records | str:
    """Return a data set, or the reason why it is not at hand."""
    if dataset in ("car", "iris", "balance-scale"):
        return load_records(dataset)
    folder = os.environ.get(DATA_DIR)
    if not folder:
        return f"{DATA_DIR} is not set; it must name a folder with {dataset}.csv.gz"
    table = Path(folder) / f"{dataset}.csv.gz"
    schema = Path(folder) / f"{dataset}.mrf_schema.json"
    if not (table.exists() and schema.exists()):
        return f"{table.name} or {schema.name} is missing in the folder of {DATA_DIR}"
    records = load_records(str(table), str(schema), missing="drop")
    return _in_order(records) if dataset == "adult" else records


def _in_order(adult: Records) -> Records:
    """Return the records of Adult as in the authors' file: those of adult.test first.

    The paper's split is one of positions. Their column names, such as "gender" and
    "educational-num", are those of the common csv file in that order.
    """
    if adult.X[0, 0] != "39":  # the first record of adult.data
        return adult
    X, y = (np.roll(a, TEST_RECORDS_OF_ADULT, axis=0) for a in (adult.X, adult.y))
    return replace(adult, X=X, y=y)


def voting_of(method: str) -> str:
    """Return how the figures let the trees vote."""
    return "weight" if method in ("batch-prediction", "per-query") else "hard"


def figure_setting(dataset: str, method: str, split: str = "paper") -> Setting:
    """Return a line of Figure 2."""
    p = PROBLEMS[dataset]
    voting = voting_of(method)
    if method in (*BASELINES, "non-private"):  # one ensemble that sees everything
        return Setting(dataset, method, voting, p.depth, p.trees, split=split)
    return Setting(
        dataset, method, voting, p.depth, p.trees, p.q, p.features, 0, split, p.template
    )


def tasks_of(
    setting: Setting, budgets: tuple[float, ...], forests: int, draws: int
) -> Iterator[Task]:
    for forest in range(forests):
        yield Task(setting, forest, budgets, draws)


# ---- figures -----------------------------------------------------------------


def figure_2(effort: Effort) -> Iterator[Task]:
    """Accuracy against ε: the gate on two splits, baselines, no noise at all."""
    for dataset in PROBLEMS:
        budgets = effort.budgets(dataset)
        for method in ("batch-training", "batch-prediction"):
            own = figure_setting(dataset, method)
            yield from tasks_of(own, budgets, effort.gate, effort.draws)
            elsewhere = replace(own, split="random")
            yield from tasks_of(elsewhere, budgets, effort.forests, effort.draws)
        for method in BASELINES:
            setting = figure_setting(dataset, method)
            yield from tasks_of(setting, budgets, effort.forests, effort.draws)
        exact = figure_setting(dataset, "non-private")
        yield from tasks_of(exact, (0.0,), effort.forests, 1)


GRID_TREES = (1, 4, 16)
GRID_DEPTHS = (1, 2, 3, 4)


def tuned_baselines(effort: Effort) -> Iterator[Task]:
    """What the baselines reach when trees and depth are chosen in hindsight."""
    for dataset in ("car", "iris", "balance-scale", "adult"):
        if effort.quick and dataset == "adult":
            continue
        budgets = effort.budgets(dataset)
        for method in BASELINES:
            for depth in GRID_DEPTHS:
                for trees in GRID_TREES:
                    setting = Setting(dataset, method, "hard", depth, trees)
                    yield from tasks_of(setting, budgets, effort.forests, 1)


TREES = (1, 4, 8, 16, 32, 64, 128)


def figure_3a(effort: Effort) -> Iterator[Task]:
    """Car, accuracy against the number of trees."""
    for trees in TREES:
        for method in ("batch-training", "batch-prediction", *BASELINES):
            setting = Setting("car", method, voting_of(method), 4, trees)
            yield from tasks_of(setting, (1.0,), effort.forests, effort.draws)
    for method in ("batch-training", "batch-prediction"):
        setting = Setting("car", method, "weight", 4, math.inf)
        yield from tasks_of(setting, (1.0,), effort.forests, effort.draws)


QUERIES = (5, 10, 50, 100, 500, 1000)


def figure_3b(effort: Effort) -> Iterator[Task]:
    """Car, accuracy against the number of queries in a batch."""
    for queries in QUERIES:
        for method in ("batch-prediction", "per-query"):
            setting = Setting("car", method, "weight", 4, 16, queries=queries)
            yield from tasks_of(setting, (2.0,), effort.forests, effort.draws)
        for method in ("subsample", "per-query-subsample"):
            setting = Setting("car", method, "weight", 4, 16, queries=queries)
            yield from tasks_of(setting, (2.0,), effort.forests, effort.draws)


def appendix_1(effort: Effort) -> Iterator[Task]:
    """Car, accuracy against the depth of 128 trees."""
    for depth in (2, 3, 4, 5):
        for method in ("batch-training", "batch-prediction", *BASELINES):
            setting = Setting("car", method, voting_of(method), depth, 128)
            yield from tasks_of(setting, (1.0,), effort.forests, effort.draws)


def appendix_2(effort: Effort) -> Iterator[Task]:
    """Iris, accuracy against the number of trees."""
    for trees in TREES[:-1]:
        for method in ("batch-training", "batch-prediction", *BASELINES):
            setting = Setting("iris", method, voting_of(method), 2, trees)
            yield from tasks_of(setting, (1.0,), effort.forests, effort.draws)


def appendix_3(effort: Effort) -> Iterator[Task]:
    """Car, subsample and aggregate against ε, with 16 trees of depth 3."""
    for method in ("subsample", "per-query-subsample"):
        for voting in ("weight", "hard"):
            gated = method == "subsample" and voting == "weight"
            setting = Setting("car", method, voting, 3, 16)
            forests = effort.gate if gated else effort.forests
            yield from tasks_of(setting, LARGE_BUDGETS, forests, effort.draws)


def appendix_4(effort: Effort) -> Iterator[Task]:
    """Car, subsample and aggregate against the number of trees."""
    for trees in TREES:
        for voting in ("weight", "hard"):
            setting = Setting("car", "subsample", voting, 3, trees)
            yield from tasks_of(setting, (1.0,), effort.forests, effort.draws)


def appendix_5(effort: Effort) -> Iterator[Task]:
    """Car, two ensembles of four attributes beside one of six."""
    for method, voting, depth, trees in (
        ("batch-training", "hard", 4, 128),
        ("batch-prediction", "weight", 4, 128),
        ("subsample", "weight", 3, 16),
    ):
        for q, features in ((1, None), (2, 4)):
            setting = Setting("car", method, voting, depth, trees, q, features)
            yield from tasks_of(setting, (1.0,), effort.forests, effort.draws)


SIZES = (3, 4, 5, "partition")
SIZES_BUDGETS = (0.01, 0.05, 0.2)


def sizes(effort: Effort) -> Iterator[Task]:
    """Mushroom, with d̄ attributes per ensemble."""
    own = figure_setting("mushroom", "batch-training")
    for features in SIZES:
        if features != own.features:
            setting = replace(own, features=features)
            yield from tasks_of(setting, SIZES_BUDGETS, effort.gate, 1)


FIGURES = {
    "2": figure_2,
    "sizes": sizes,
    "baselines": tuned_baselines,
    "3a": figure_3a,
    "3b": figure_3b,
    "A1": appendix_1,
    "A2": appendix_2,
    "A3": appendix_3,
    "A4": appendix_4,
    "A5": appendix_5,
}
"""Figures by the names that ``--figure`` takes; "4" is about seconds alone."""

Gate = tuple[str, str, str, float, float]

GATE: tuple[Gate, ...] = (
    ("car", "batch-training", "hard", 0.4, 0.497),
    ("car", "batch-training", "hard", 1.0, 0.755),
    ("car", "batch-training", "hard", 2.0, 0.831),
    ("car", "batch-prediction", "weight", 0.4, 0.496),
    ("car", "batch-prediction", "weight", 1.0, 0.749),
    ("car", "batch-prediction", "weight", 2.0, 0.837),
    ("car", "subsample", "weight", 1.0, 0.75),
    ("iris", "batch-training", "hard", 1.0, 0.903),
    ("iris", "batch-training", "hard", 2.0, 0.94),
    ("balance-scale", "batch-training", "hard", 1.0, 0.707),
    ("balance-scale", "batch-training", "hard", 2.0, 0.797),
    ("adult", "batch-training", "hard", 0.1, 0.768),
    ("adult", "batch-training", "hard", 1.0, 0.817),
    ("adult", "batch-prediction", "weight", 0.1, 0.776),
    ("adult", "batch-prediction", "weight", 1.0, 0.823),
    ("heart", "batch-training", "hard", 1.0, 0.757),
    ("heart", "batch-training", "hard", 2.0, 0.807),
    ("heart", "batch-prediction", "weight", 2.0, 0.833),
    ("mushroom", "batch-training", "hard", 0.01, 0.809),
    ("mushroom", "batch-training", "hard", 0.05, 0.926),
    ("mushroom", "batch-training", "hard", 0.2, 0.951),
    ("mushroom", "batch-prediction", "weight", 0.1, 0.923),
)
"""Settings that must not fall below the published mean."""


def gate_setting(gate: Gate) -> Setting:
    dataset, method, voting, _, _ = gate
    if method == "subsample":
        return Setting(dataset, method, voting, 3, 16)
    return figure_setting(dataset, method)


def all_tasks(figures: Iterable[str], effort: Effort) -> list[Task]:
    """Return the tasks of some figures, each once, where the data are at hand."""
    found: dict[str, Task] = {}
    for name in figures:
        for task in FIGURES[name](effort):
            if not isinstance(records_of(task.setting.dataset), str):
                found.setdefault(task.key, task)
    return list(found.values())
