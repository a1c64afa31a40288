"""Growing the forests, adding the noise, and remembering what was found."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split
from tqdm import tqdm

from benchmarks.reproduction._settings import Setting, Task, records_of
from mmech import Identity
from mmech_rf import (
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    LaplaceForestClassifier,
    NonPrivateForestClassifier,
    SubsampleAggregateClassifier,
)

PAPER_SPLIT = 100
"""``random_state`` of the paper's one split, 80 to 20."""

COLUMNS = ("key", "epsilon", "draw", "accuracy", "template")


@dataclass(frozen=True)
class Found:
    """The accuracies of a task, one row per forest and draw when stacked."""

    epsilon: float
    draw: int
    accuracy: float
    template: str


class QueryByQuery:
    """The baseline: every query is answered with its own share ε / b.

    A record moves the vote of a query by the number of trees it is counted in, and
    two votes under hard voting, so that each of the b answers gets Laplace noise of
    that size times b / ε.
    """

    def __init__(self, model: Any, moves: int) -> None:
        self.model = model
        self.moves = moves

    def predict(self, X: Any) -> Any:
        model = self.model
        codes = model.schema_.encode(X)
        ensemble = model.ensembles_[0]
        votes = model._workload(ensemble, codes) @ model._counts[0]
        answers = Identity(len(codes))
        moved = self.moves * len(codes)
        mechanism = model._mechanism(ensemble, answers, answers, moved)
        noisy = model._answer(mechanism, votes)
        return model.classes_[model._random_argmax(noisy)]


def build(setting: Setting, schema: Any, epsilon: float, forest: int) -> Any:
    """Return an unfitted classifier."""
    grown: dict[str, Any] = {
        "n_trees": setting.trees,
        "depth": setting.depth,
        "random_state": forest,
    }
    if setting.method == "non-private":
        return NonPrivateForestClassifier(schema, voting=setting.voting, **grown)
    private = grown | {
        "epsilon": epsilon,
        "n_ensembles": setting.q,
        "max_features": setting.features,
        "voting": setting.voting,
    }
    if setting.method.startswith("laplace"):
        data = setting.method.removeprefix("laplace-")
        return LaplaceForestClassifier(schema, data=data, **private)
    if setting.method == "batch-training":
        return BatchTrainingClassifier(schema, template=setting.template, **private)
    if setting.method in ("batch-prediction", "per-query"):
        return BatchPredictionClassifier(schema, template=setting.template, **private)
    # As in the published code; the leaves that a batch asks for do a little better.
    return SubsampleAggregateClassifier(schema, template="identity", **private)


def split_of(setting: Setting, forest: int) -> tuple[Any, Any, Any, Any]:
    """Return training records, queries, training labels and true labels."""
    records = records_of(setting.dataset)
    assert not isinstance(records, str)
    seed = PAPER_SPLIT if setting.split == "paper" else forest
    X, queries, y, truth = train_test_split(
        records.X, records.y, test_size=0.2, random_state=seed
    )
    if setting.queries:
        chosen = np.random.default_rng(forest).integers(0, len(truth), setting.queries)
        queries, truth = queries[chosen], truth[chosen]
    return X, queries, y, truth


def run(task: Task) -> tuple[Task, list[Found]]:
    """Grow one forest, optimize once, and redraw the noise for every budget."""
    setting = task.setting
    X, queries, y, truth = split_of(setting, task.forest)
    records = records_of(setting.dataset)
    assert not isinstance(records, str)
    model = build(setting, records.schema, task.budgets[0] or 1.0, task.forest)
    found = []
    for epsilon, draw in itertools.product(task.budgets, range(task.draws)):
        if epsilon:
            model.set_params(epsilon=epsilon)
        model.fit(X, y)
        predict = model.predict
        if setting.method.startswith("per-query"):
            moves = int(setting.trees) if setting.method == "per-query" else 1
            moves *= 2 if setting.voting == "hard" else 1
            predict = QueryByQuery(model, moves).predict
        accuracy = float(np.mean(predict(queries) == truth))
        strategies = getattr(model, "strategies_", None)
        if strategies is not None:
            # A strategy depends on neither budget nor noise: find it once.
            model._optimize = lambda workloads, kept=strategies: kept
        templates = sorted({s.template for s in strategies or ()})
        found.append(Found(epsilon, draw, accuracy, "+".join(templates)))
    return task, found


# ---- all of them, and only those that are missing ------------------------------


def read_results(path: Path) -> dict[str, list[Found]]:
    """Return what earlier runs left, by the key of the task."""
    if not path.exists():
        return {}
    results: dict[str, dict[tuple[float, int], Found]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["template"] is None:
                continue  # a line that was cut off
            found = Found(
                float(row["epsilon"]),
                int(row["draw"]),
                float(row["accuracy"]),
                row["template"],
            )
            # A task that was interrupted while being written is there twice.
            own = results.setdefault(row["key"], {})
            own[found.epsilon, found.draw] = found
    return {key: list(rows.values()) for key, rows in results.items()}


def run_all(
    tasks: Iterable[Task], path: Path, *, jobs: int = 2
) -> dict[str, list[Found]]:
    """Run the tasks that are not in a results file, and append them to it."""
    results = read_results(path)
    tasks = list(tasks)
    complete = {
        task.key
        for task in tasks
        if len(results.get(task.key, ())) == len(task.budgets) * task.draws
    }
    missing = [task for task in tasks if task.key not in complete]
    for task in missing:
        results.pop(task.key, None)
    fresh = not path.exists()
    cut = not fresh and not path.read_bytes().endswith(b"\n")
    finished = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(run)(task) for task in missing
    )
    with path.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        if fresh:
            writer.writerow(COLUMNS)
        elif cut:
            stream.write("\n")
        bar = tqdm(finished, total=len(missing), unit="forest", smoothing=0)
        for task, found in bar:
            bar.set_description(f"{task.setting.dataset} {task.setting.method}")
            for row in found:
                accuracy = f"{row.accuracy:.6f}"
                writer.writerow(
                    [task.key, f"{row.epsilon:g}", row.draw, accuracy, row.template]
                )
            stream.flush()
            results[task.key] = found
    return results
