"""Fitting methods on repeated splits of one data set, and what came out as a table."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import train_test_split

from mmech import DomainTooLargeError, ParameterError
from mmech.checks import check_choice, check_epsilon, check_integer
from mmech.writing import replacing
from mmech_rf.evaluation.records import Records
from mmech_rf.evaluation.results import Results
from mmech_rf.methods import METHODS, Method
from mmech_rf.private.classifier import ForestClassifier
from mmech_rf.schema import Schema

TEST_SHARE = 0.2


@dataclass(frozen=True)
class Trial:
    """One fit and one batch of predictions.

    Attributes
    ----------
    method : Method
    epsilon : Fraction or None
        Privacy budget in nats; None where nothing is private.
    repeat : int
        Number of the split, from 0.
    accuracy : float
        Share of test records that got their class. Not private.
    """

    method: Method
    epsilon: Fraction | None
    repeat: int
    accuracy: float


@dataclass(frozen=True)
class Evaluation:
    """All trials of a comparison.

    Attributes
    ----------
    trials : list of Trial
    skipped : dict of str to exception
        Reason by label of a method that does not go with the domain, or with a budget.
    """

    trials: list[Trial]
    skipped: dict[str, ValueError]


# ---- methods ---------------------------------------------------------------


def majority_class(schema: Schema, random_state: Any = None) -> DummyClassifier:
    """Return the classifier that always answers the most frequent class."""
    return DummyClassifier(strategy="most_frequent")


def make_methods(
    names: Iterable[str] = tuple(METHODS), **settings: Any
) -> list[Method]:
    """Return methods with their settings, in the order of `METHODS`.

    Parameters
    ----------
    names : iterable of str, default=all of `METHODS`
    **settings
        Parameters of classifiers, such as ``n_trees`` or ``voting``; each is for the
        methods that have it among their ``options``.

    Returns
    -------
    list of Method

    Examples
    --------
    >>> [method.label for method in make_methods(["majority", "training"])]
    ['batch training (hard)', 'majority class']
    """
    wanted = {check_choice(name, "a method", METHODS) for name in names}
    found = []
    for method in METHODS.values():
        if method.name not in wanted:
            continue
        given = {n: value for n, value in settings.items() if n in method.options}
        parameters = {**method.parameters, **given}
        votes = f" ({parameters['voting']})" if "voting" in parameters else ""
        label = f"{method.label}{votes}"
        found.append(replace(method, label=label, parameters=parameters))
    return found


def check_method(method: Method, schema: Schema, epsilons: Iterable[Any]) -> None:
    """Raise for a setting that no fit of a method takes, before anything is fitted."""
    for epsilon in epsilons:
        budget = {"epsilon": epsilon} if method.is_private else {}
        model = method.make(schema, **budget)
        try:
            if isinstance(model, ForestClassifier):
                model._check_parameters()
        except ValueError as error:
            if not _is_refusal(error):
                raise


def _is_refusal(error: ValueError) -> bool:
    """Whether a method cannot do with the domain or the budget, both public."""
    return (
        isinstance(error, DomainTooLargeError)
        or getattr(error, "parameter", None) == "epsilon"
    )


# ---- trials ----------------------------------------------------------------


def evaluate(
    records: Records,
    methods: Sequence[Method],
    epsilons: Iterable[Any],
    *,
    repeats: int = 10,
    seed: int = 0,
    progress: bool = False,
) -> Evaluation:
    """Fit and test every method at every budget on repeated 80/20 splits.

    Repeat r splits the records and grows the forests from ``seed + r``; noise never
    depends on a seed. Methods without a budget run once per repeat.

    Parameters
    ----------
    records : Records
        Public data: their test accuracy is reported without noise.
    methods : sequence of Method
        See `make_methods`.
    epsilons : iterable of float, str or Fraction
        Privacy budgets in nats, each spent anew in every trial.
    repeats : int, default=10
    seed : int, default=0
    progress : bool, default=False
        Whether to draw a bar on the standard error stream.

    Returns
    -------
    Evaluation
        A method for which the domain is too large, or a budget too small, is skipped
        there, with the reason.

    Examples
    --------
    >>> from mmech_rf.evaluation import load_records
    >>> methods = make_methods(["laplace", "majority"], n_trees=4)
    >>> found = evaluate(load_records("monks-1"), methods, [1, 2], repeats=2)
    >>> len(found.trials)
    6
    """
    budgets = sorted({check_epsilon(epsilon) for epsilon in epsilons})
    check_integer(repeats, "repeats")
    for method in methods:
        check_method(method, records.schema, budgets)
    steps = [
        (repeat, number, epsilon)
        for repeat in range(repeats)
        for number, method in enumerate(methods)
        for epsilon in (budgets if method.is_private else (None,))
    ]

    def measure(step: tuple[int, int, Fraction | None]) -> list[tuple[Any, Any]]:
        repeat, number, epsilon = step
        method = methods[number]
        budget = {} if epsilon is None else {"epsilon": epsilon}
        X, queries, y, truth = train_test_split(
            records.X, records.y, test_size=TEST_SHARE, random_state=seed + repeat
        )
        model = method.make(records.schema, random_state=seed + repeat, **budget)
        try:
            accuracy = float(np.mean(model.fit(X, y).predict(queries) == truth))
        except (DomainTooLargeError, ParameterError) as error:
            if not _is_refusal(error):
                raise
            return [((method.label,), error)]
        return [(step, Trial(method, epsilon, repeat, accuracy))]

    found = Results()
    found.run(steps, measure, jobs=1, desc=records.name, progress=progress)
    skipped = {key[0]: found.pop(key) for key in list(found) if len(key) == 1}
    return Evaluation(list(found.values()), skipped)


# ---- what came out ---------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """The accuracies of one method, by budget; None for any budget."""

    method: Method
    accuracies: dict[Fraction | None, list[float]]


def lines_of(trials: Iterable[Trial]) -> list[Line]:
    """Return the trials by method, in order of appearance."""
    found: dict[str, Line] = {}
    for trial in trials:
        line = found.setdefault(trial.method.name, Line(trial.method, {}))
        line.accuracies.setdefault(trial.epsilon, []).append(trial.accuracy)
    return list(found.values())


def accuracy_table(trials: Sequence[Trial]) -> str:
    """Return methods by mean ± std of accuracy at every budget, as text.

    Methods without a budget show the same number in every column.
    """
    budgets: list[Fraction | None] = [
        *sorted({t.epsilon for t in trials if t.epsilon is not None})
    ] or [None]
    titles = [f"ε = {float(e):g}" if e else "any ε" for e in budgets]
    rows = [["method", "released", *titles]]
    for line in lines_of(trials):
        found = line.accuracies
        cells = [found.get(e, found.get(None)) for e in budgets]
        rows.append([line.method.label, line.method.released, *map(_in_words, cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:{'<' if i < 2 else '>'}{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _in_words(accuracies: list[float] | None) -> str:
    if accuracies is None:
        return "-"
    spread = f" ± {np.std(accuracies, ddof=1):.3f}" if len(accuracies) > 1 else ""
    return f"{np.mean(accuracies):.3f}{spread}"


def write_csv(path: str | os.PathLike[str], trials: Iterable[Trial]) -> None:
    """Write one row per trial; a file of that name is replaced."""
    with (
        replacing(path) as unfinished,
        open(unfinished, "w", encoding="utf-8", newline="") as stream,
    ):
        writer = csv.writer(stream)
        writer.writerow(
            ("method", "label", "released", "epsilon", "repeat", "accuracy")
        )
        for trial in trials:
            method, epsilon = trial.method, trial.epsilon
            spent = "" if epsilon is None else float(epsilon)
            words = (method.name, method.label, method.released, spent)
            writer.writerow((*words, trial.repeat, trial.accuracy))
