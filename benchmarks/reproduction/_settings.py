"""Which forests every figure and table asks for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
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
    "extra-trees": "without privacy, Extra-Trees of any depth",
}
"""What is compared, with the names of the report."""

BASELINES = ("laplace-shared", "laplace-disjoint")
LARGE_BUDGETS = (0.4, 0.6, 0.8, 1.0, 2.0)


@dataclass(frozen=True)
class Problem:
    """A data set with the forests that Figure 2 grows on it.

    `gate` is how many of them a full run grows where a verdict depends on them: more
    where the verdict is close to changing, fewer where a fit is slow.
    """

    trees: int
    depth: int
    budgets: tuple[float, ...]
    q: int = 1
    features: int | str | None = None
    template: str = "auto"
    gate: int = 40


PROBLEMS = {
    "car": Problem(128, 4, LARGE_BUDGETS),
    "iris": Problem(64, 2, LARGE_BUDGETS, gate=80),
    "balance-scale": Problem(128, 2, LARGE_BUDGETS),
    "heart": Problem(102, 2, LARGE_BUDGETS, 3, "partition"),
    "mushroom": Problem(
        125, 3, (0.01, 0.03, 0.05, 0.1, 0.2), 5, "partition", "identity", gate=80
    ),
    "adult": Problem(16, 6, (0.01, 0.05, 0.1, 0.5, 1.0), template="identity", gate=20),
}
"""Figure 2.

Algorithm 3 draws d̄ attributes for every ensemble, d̄ = 4 on Mushroom; the code that
wrote its result files deals all attributes out, each to one ensemble. On Mushroom and
Adult the identity stands for "auto", which finds little else after seconds of search.
"""

DRAWN_FEATURES = 4
"""What Figure 2 of the paper prints as d̄ of Mushroom."""

TEST_RECORDS_OF_ADULT = 15060
"""Complete records of the file adult.test of the UCI repository."""


@dataclass(frozen=True)
class Setting:
    """Everything that is fixed before a split, a forest and a noise are drawn.

    Attributes
    ----------
    queries : int
        Size of the batch, 0 for all test records.
    split : str
        "paper" for the paper's split, "random" for a random split per forest.
        "whole": all records train, and queries are among them, as in Figure 3b.
    ties : str
        Which of several most voted classes wins, see `BatchTrainingClassifier`.
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
    ties: str = "random"

    @property
    def name(self) -> str:
        """Text that tells it apart from all others."""
        return (
            f"{self.dataset} {self.method} {self.voting} h={self.depth} "
            f"tau={self.trees:g} q={self.q} d={self.features or 0} b={self.queries} "
            f"{self.split} {self.template} {self.ties}"
        )


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
        budgets = "/".join(f"{epsilon:g}" for epsilon in self.budgets)
        return (
            f"{self.setting.name} forest={self.forest} eps={budgets} draws={self.draws}"
        )


@dataclass(frozen=True)
class Effort:
    """How much is run: forests of the gate, at most; forests elsewhere; draws."""

    gate: int
    forests: int
    draws: int

    def forests_of(self, setting: Setting) -> int:
        """Return how many forests are grown for a setting."""
        if replace(setting, ties="random") in GATED:
            return min(self.gate, PROBLEMS[setting.dataset].gate)
        if setting in READ_AS_PRINTED:
            return AS_PRINTED
        return self.forests if setting.dataset != "adult" else self.forests // 2


QUICK = Effort(gate=20, forests=4, draws=2)
FULL = Effort(gate=80, forests=6, draws=2)


@cache
def records_of(dataset: str) -> Records | str:
    """Return a data set, or the reason why it is not at hand.

    The paper's split is one of positions, so that Heart and Adult are put in the order
    of the authors' files. Heart is in their repository. Their names of Adult's columns,
    "gender" and "educational-num", are those of the common csv file, in which the
    records of adult.test are first.
    """
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
    order = np.arange(len(records.y))
    if dataset == "heart":
        text = (Path(__file__).parent / "heart_order.txt").read_text(encoding="utf-8")
        numbers = " ".join(line for line in text.splitlines() if line[0] != "#")
        order = np.array(numbers.split(), int)
    if dataset == "adult" and records.X[0, 0] == "39":  # the first of adult.data
        order = np.roll(order, TEST_RECORDS_OF_ADULT)
    return replace(records, X=records.X[order], y=records.y[order])


def voting_of(method: str) -> str:
    """Return how the figures let the trees vote."""
    return "weight" if method in ("batch-prediction", "per-query") else "hard"


def figure_setting(dataset: str, method: str, split: str = "paper") -> Setting:
    """Return a line of Figure 2."""
    p = PROBLEMS[dataset]
    voting = voting_of(method)
    if method == "extra-trees":
        return Setting(dataset, method, voting, 0, p.trees, split=split)
    if method in (*BASELINES, "non-private"):  # one ensemble that sees everything
        return Setting(dataset, method, voting, p.depth, p.trees, split=split)
    return Setting(
        dataset, method, voting, p.depth, p.trees, p.q, p.features, 0, split, p.template
    )


# ---- figures -----------------------------------------------------------------

SUBSAMPLE = "subsample"
OPTIMIZED = ("batch-training", "batch-prediction")
TRAINING = (*OPTIMIZED, *BASELINES)
TREES = (1, 4, 8, 16, 32, 64, 128)
QUERIES = (5, 10, 50, 100, 500, 1000)
DEPTHS = (2, 3, 4, 5)
PER_QUERY = ("batch-prediction", "per-query", SUBSAMPLE, "per-query-subsample")

Point = tuple[float, Setting, float]
"""Place on the axis, setting, epsilon."""


@dataclass(frozen=True)
class Panel:
    """A picture with one axis: lines through points, by label."""

    title: str
    axis: str
    lines: Mapping[str, Sequence[Point]]


def _over(
    axis: str, values: Iterable[int], epsilon: float, settings: Iterable[Setting]
) -> dict[str, list[Point]]:
    """Return a line per setting, over values of "depth", "trees" or "queries"."""
    own = list(settings)
    twice = len({setting.method for setting in own}) < len(own)
    return {
        METHODS[setting.method] + f", {setting.voting} votes" * twice: [
            (x, replace(setting, **{axis: x}), epsilon)  # type: ignore[arg-type]
            for x in values
        ]
        for setting in own
    }


def _figure_2(dataset: str) -> Panel:
    """Return accuracy against ε of a data set."""
    problem = PROBLEMS[dataset]
    title = f"{dataset}: τ = {problem.trees}, h = {problem.depth}"
    if problem.q > 1:
        title += f", q = {problem.q}, dealt out"
    lines = {
        METHODS[method]: [
            (epsilon, figure_setting(dataset, method), epsilon)
            for epsilon in problem.budgets
        ]
        for method in (*OPTIMIZED, *BASELINES)
    }
    for method in ("non-private", "extra-trees"):
        lines[METHODS[method]] = [(0.0, figure_setting(dataset, method), 0.0)]
    return Panel(title, "ε", lines)


def _by_queries(split: str, voting: str, methods: Iterable[str]) -> Panel:
    """Return accuracy against the number of queries of a batch."""
    whose = {"paper": "test records", "whole": "all records"}[split]
    own = [Setting("car", m, voting, 4, 16, split=split) for m in methods]
    title = f"Car, τ = 16, h = 4, ε = 2, {voting} votes: {whose}"
    lines = _over("queries", QUERIES, 2.0, own)
    if voting == "weight":
        exact = Setting("car", "extra-trees", "hard", 0, 16, split=split)
        lines |= _over("queries", QUERIES, 0.0, [exact])
    return Panel(title, "number of queries b", lines)


def _by_budget(dataset: str, depth: int) -> Panel:
    """Return accuracy of both votes of disjoint samples against ε."""
    lines = {
        f"{METHODS[method]}, {voting} votes": [
            (epsilon, Setting(dataset, method, voting, depth, 16), epsilon)
            for epsilon in PROBLEMS[dataset].budgets
        ]
        for method in (SUBSAMPLE, "per-query-subsample")
        for voting in ("weight", "hard")
    }
    return Panel(f"{dataset}: τ = 16, h = {depth}", "ε", lines)


def _car(methods: Iterable[str], depth: int, trees: int) -> list[Setting]:
    return [Setting("car", m, voting_of(m), depth, trees) for m in methods]


def _votings(depth: int, trees: int) -> list[Setting]:
    return [
        Setting("car", SUBSAMPLE, voting, depth, trees) for voting in ("weight", "hard")
    ]


PANELS: dict[str, tuple[Panel, ...]] = {
    "2": tuple(_figure_2(dataset) for dataset in PROBLEMS),
    "3a": (Panel("Car, h = 4, ε = 2", "number of trees τ",
        _over("trees", TREES, 2.0, _car(TRAINING, 4, 1))
        | _over("trees", TREES, 0.0, [Setting("car", "extra-trees", "hard", 0, 1)])),),
    "3b": tuple(
        _by_queries(split, "weight", PER_QUERY) for split in ("whole", "paper")
    ),
    "4": (_by_budget("car", 3),),
    "A1": (Panel("Car, τ = 128, ε = 2", "depth h",
        _over("depth", DEPTHS, 2.0, _car(TRAINING, 2, 128))),),
    "A3": (_by_budget("car", 3), _by_budget("iris", 2), _by_budget("balance-scale", 2),
        _by_budget("adult", 6)),
    "A4": tuple(
        _by_queries(split, "hard", (SUBSAMPLE, "per-query-subsample"))
        for split in ("whole", "paper")
    ),
    "A5": (
        Panel("5a: Car, τ = 16, ε = 2", "depth h",
            _over("depth", DEPTHS, 2.0, _votings(2, 16))),
        Panel("5b: Car, h = 3, ε = 2", "number of trees τ",
            _over("trees", TREES, 2.0, _votings(3, 1))),
    ),
}  # fmt: skip
"""What the pictures show that are of accuracy, by number of the figure."""

GRID = ("car", "iris", "balance-scale")
GRID_TREES = (1, 4, 16)
GRID_DEPTHS = (1, 2, 3, 4)
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
    """Return the setting of a row of the gate, with ties drawn."""
    dataset, method, voting, _, _ = gate
    if method == "subsample":
        return Setting(dataset, method, voting, 3, 16)
    return figure_setting(dataset, method)


GATED = frozenset(gate_setting(gate) for gate in GATE)

AS_PRINTED = 10
"""How many forests Mushroom has with attributes drawn for every ensemble."""

READ_AS_PRINTED = tuple(
    replace(figure_setting("mushroom", method), features=DRAWN_FEATURES)
    for method in OPTIMIZED
)
"""Mushroom as Algorithm 3 prints it."""

TIED = ("adult",)
"""Data sets whose number of trees is even and hard votes few, so that they often tie:
the gate has both rules for them."""


def _points_of_gate() -> list[tuple[Setting, float]]:
    found = []
    for gate in GATE:
        own, epsilon = gate_setting(gate), gate[3]
        found += [(own, epsilon), (replace(own, split="random"), epsilon)]
        if own.dataset in TIED and own.voting == "hard":
            found.append((replace(own, ties="first"), epsilon))
    return found


def _points_of_mushroom() -> list[tuple[Setting, float]]:
    """Return Mushroom with attributes dealt out, and drawn for every ensemble."""
    dealt = [figure_setting("mushroom", method) for method in OPTIMIZED]
    budgets = PROBLEMS["mushroom"].budgets
    exact = (figure_setting("mushroom", "non-private"), 0.0)
    return [exact, *((s, e) for s in (*dealt, *READ_AS_PRINTED) for e in budgets)]


def _points_of_grid() -> list[tuple[Setting, float]]:
    """Return what the baselines reach when trees and depth are chosen in hindsight."""
    return [
        (Setting(dataset, method, "hard", depth, trees), epsilon)
        for dataset in GRID
        for method in BASELINES
        for depth in GRID_DEPTHS
        for trees in GRID_TREES
        for epsilon in PROBLEMS[dataset].budgets
    ]


TABLE_2 = (
    ("non-private", "hard", 4, 128),
    ("batch-training", "hard", 4, 128),
    ("batch-prediction", "weight", 4, 128),
    ("subsample", "weight", 3, 16),
)


def table_2_settings(row: tuple[str, str, int, int]) -> tuple[Setting, Setting]:
    """Return one ensemble of six attributes of Car, and two of four."""
    one = Setting("car", *row)
    return one, replace(one, q=2, features=4)


def _points_of_table_2() -> list[tuple[Setting, float]]:
    return [
        (setting, 0.0 if setting.method == "non-private" else 1.0)
        for row in TABLE_2
        for setting in table_2_settings(row)
    ]


def _points_of_panels(name: str) -> list[tuple[Setting, float]]:
    return [
        (setting, epsilon)
        for panel in PANELS[name]
        for line in panel.lines.values()
        for _, setting, epsilon in line
    ]


POINTS: dict[str, list[tuple[Setting, float]]] = {
    "gate": _points_of_gate(),
    **{name: _points_of_panels(name) for name in PANELS},
    "claims": _points_of_panels("2") + _points_of_panels("4") + _points_of_grid(),
    "mushroom": _points_of_mushroom(),
    "baselines": _points_of_grid(),
    "T2": _points_of_table_2(),
}
"""Settings and budgets that every section of the report asks for."""


def all_tasks(
    sections: Iterable[str],
    effort: Effort,
    known: Mapping[tuple[Setting, float], int] | None = None,
) -> list[Task]:
    """Return the tasks of some sections, each once, where the data are at hand.

    Settings and budgets have none where as many forests are known.
    """
    there = known or {}
    wanted: dict[Setting, set[float]] = {}
    for name in sections:
        for setting, epsilon in POINTS.get(name, ()):
            missing = isinstance(records_of(setting.dataset), str)
            forests = there.get((setting, epsilon), 0)
            if not missing and forests < effort.forests_of(setting):
                wanted.setdefault(setting, set()).add(epsilon)
    return [
        Task(own, forest, tuple(sorted(some)), 1 if some == {0.0} else effort.draws)
        for own, some in wanted.items()
        for forest in range(effort.forests_of(own))
    ]
