"""Growing the forests, adding the noise, and remembering what was found."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.reproduction._settings import Setting, Task, records_of
from benchmarks.results import Results
from mmech_rf import (
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    LaplaceForestClassifier,
    NonPrivateForestClassifier,
    SubsampleAggregateClassifier,
)

PAPER_SPLIT = 100
"""``random_state`` of the paper's one split, 80 to 20."""


@dataclass(frozen=True)
class Found:
    """What one draw of the noise came to.

    `tied` is the share of the queries for which several classes have the most hard
    votes; NaN where votes are counts, or released.
    """

    epsilon: float
    draw: int
    accuracy: float
    template: str
    tied: float = math.nan


NOISELESS = 10**6
"""An epsilon whose noise is zero in every draw."""


def build(setting: Setting, schema: Any, epsilon: float, forest: int) -> Any:
    """Return an unfitted classifier."""
    grown: dict[str, Any] = {
        "n_trees": setting.trees,
        "depth": setting.depth,
        "random_state": forest,
        "voting": setting.voting,
        "ties": setting.ties,
    }
    shared: dict[str, Any] = {
        "n_ensembles": setting.q,
        "max_features": setting.features,
    }
    if setting.method == "extra-trees":
        trees = ExtraTreesClassifier(int(setting.trees), random_state=forest)
        return make_pipeline(FunctionTransformer(schema.encode), trees)
    if setting.method == "non-private":
        if setting.q == 1:
            return NonPrivateForestClassifier(schema, **grown)
        return LaplaceForestClassifier(schema, epsilon=NOISELESS, **shared, **grown)
    private = {"epsilon": epsilon, **shared, **grown}
    if setting.method.startswith("laplace"):
        data = setting.method.removeprefix("laplace-")
        return LaplaceForestClassifier(schema, data=data, **private)
    if setting.method == "batch-training":
        return BatchTrainingClassifier(schema, template=setting.template, **private)
    answers = "per_query" if setting.method.startswith("per-query") else "batch"
    private["answers"] = answers
    if setting.method in ("batch-prediction", "per-query"):
        return BatchPredictionClassifier(schema, template=setting.template, **private)
    # As in the published code; the leaves that a batch asks for do a little better.
    return SubsampleAggregateClassifier(schema, template="identity", **private)


def split_of(setting: Setting, forest: int) -> tuple[Any, Any, Any, Any]:
    """Return training records, queries, training labels and true labels."""
    records = records_of(setting.dataset)
    assert not isinstance(records, str)
    seed = forest if setting.split == "random" else PAPER_SPLIT
    X, queries, y, truth = train_test_split(
        records.X, records.y, test_size=0.2, random_state=seed
    )
    if setting.split == "whole":
        X, y = queries, truth = records.X, records.y
    if setting.queries:
        chosen = np.random.default_rng(forest).integers(0, len(truth), setting.queries)
        queries, truth = queries[chosen], truth[chosen]
    return X, queries, y, truth


def run(task: Task) -> list[tuple[Any, Any]]:
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
        accuracy = float(np.mean(model.predict(queries) == truth))
        strategies = getattr(model, "strategies_", None)
        if strategies is not None:
            # A strategy depends on neither budget nor noise: find it once.
            model._optimize = lambda workloads, kept=strategies: kept
        templates = "+".join(sorted({s.template for s in strategies or ()}))
        tied = _tied(model, queries)
        found.append(((task.key, epsilon, draw), (accuracy, tied, templates)))
    return found


def _tied(model: Any, queries: Any) -> float:
    """Return the share of queries with several most voted classes."""
    if getattr(model, "voting", "") != "hard" or not hasattr(model, "leaf_labels_"):
        return math.nan
    votes = model._votes(model._encode_queries(queries))
    most = votes == votes.max(axis=1, keepdims=True)
    return float(np.mean(most.sum(axis=1) > 1))


# ---- all of them, and only those that are missing ------------------------------


KEYS = {"key": str, "epsilon": float, "draw": int}
FIELDS = {"accuracy": float, "tied": float, "template": str}


def run_all(
    tasks: Iterable[Task], path: Path, *, jobs: int = 2
) -> dict[str, list[Found]]:
    """Run the tasks that a results file lacks, and return all of it by their keys.

    With no jobs nothing is run, and what the file has of unfinished tasks is returned.
    """
    results = Results(path, KEYS, FIELDS)
    there = Counter(key for key, _, _ in results)
    missing = [
        task for task in tasks if there[task.key] < len(task.budgets) * task.draws
    ]
    if jobs and missing:
        results.run(missing, run, jobs=jobs, desc="forests", progress=True)
    found: dict[str, list[Found]] = {}
    for (key, epsilon, draw), (accuracy, tied, template) in results.items():
        one = Found(epsilon, draw, accuracy, template, tied)
        found.setdefault(key, []).append(one)
    return found
