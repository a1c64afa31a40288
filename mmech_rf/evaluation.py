"""Repeated comparison of methods on one data set: fits on splits, as a table.

Reports test accuracy, which is not private: meant for public data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split
from tqdm import tqdm

from mmech import DomainTooLargeError, ParameterError
from mmech.checks import check_choice, check_epsilon, check_integer
from mmech.domain.parts import read_whole
from mmech.exceptions import located
from mmech.terminal import printable
from mmech_rf import datasets
from mmech_rf.data.catalogue import CATALOGUE, INFORMED_SCHEMAS
from mmech_rf.estimator.base import ForestClassifier
from mmech_rf.methods import METHODS, Method
from mmech_rf.schema import Schema


@dataclass(frozen=True)
class Records:
    """Labelled records that a schema can read.

    Attributes
    ----------
    name : str
    X : ndarray, shape (N, d)
        Raw values.
    y : ndarray, shape (N,)
        Raw class labels.
    schema : Schema
    n_dropped : int
        How many records with missing values were left out.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    schema: Schema
    n_dropped: int = 0

    @property
    def caveat(self) -> str | None:
        """Why the schema is not wholly public, for the sets where it is not."""
        reason = INFORMED_SCHEMAS.get(self.schema.name or "")
        return (
            f"The public schema of {self.schema.name} is not wholly independent of "
            f"the data: {reason}."
            if reason
            else None
        )


def load_records(
    source: Any,
    schema_file: str | None = None,
    *,
    missing: str = "error",
    **form: Any,
) -> Records:
    """Load a data set by name, or a csv file with its schema.

    Parameters
    ----------
    source : str or file object
        Name of a set that `datasets.fetch` loads; path of a csv or Parquet file, or of
        a folder of them; or the bytes of a csv file.
    schema_file : str, optional
        Path of a JSON schema, see `Schema.from_json`; needed for a csv file.
    missing : {"error", "drop"}, default="error"
        What to do with records that have missing values.
    multiline, sep, encoding, decimal, thousands, na
        How a csv file is written, see `read`.

    Returns
    -------
    Records
        All of them readable by the schema.

    Raises
    ------
    OSError
        If a file cannot be opened, or OpenML not be reached.
    ValueError
        If the name is unknown, or file and schema do not match.

    Examples
    --------
    >>> records = load_records("car")
    >>> records.X.shape, records.schema.n_cells
    ((1728, 6), 1728)
    """
    path = getattr(source, "name", source)
    named = source in CATALOGUE
    if named and schema_file is not None:
        raise ValueError(
            f"the data set {source!r} brings its own schema; leave the schema file out"
        )
    if named:
        bunch = datasets.fetch(source)
        schema, X, y = bunch.schema, bunch.data, bunch.target
    elif schema_file is not None:
        schema = read_schema(schema_file)
        X, y, _ = read_whole(source, schema, **form)
    elif path is not source or Path(path).exists():
        raise ParameterError(
            "schema_file",
            "must name the public attributes and classes, in a schema, of the file "
            f"{path!r}",
        )
    else:
        raise ValueError(
            f"there is no data set and no file named {source!r}; choose from "
            f"{', '.join(CATALOGUE)}, or give the path of a csv file"
        )
    with located(f"cannot use the data {path!r}"):
        _, class_codes, index = schema.encode(
            X, y, handle_missing=missing, return_index=True
        )
    if index.size < 5:
        raise ValueError(
            f"comparing needs at least 5 complete records, got {index.size} in "
            f"{path!r}; use a larger file"
        )
    # Columns after the attributes only decide which records to drop, as is done now.
    X, n_dropped = X[index, : schema.n_features], len(X) - index.size
    schema = replace(schema, required=())
    name = source if named else Path(path).name
    return Records(name, X, schema.decode_target(class_codes), schema, n_dropped)


def read_schema(path: str, *, n_bins: int = 10) -> Schema:
    """Read a schema file; errors name it."""
    with located(f"cannot use the schema {path!r}"):
        return Schema.from_json(Path(path), n_bins=n_bins)


# ---- trials of methods --------------------------------------------------------

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
    recalls : tuple of float
        The same among the test records of each class, NaN without any.
    """

    method: Method
    epsilon: Fraction | None
    repeat: int
    accuracy: float
    recalls: tuple[float, ...]


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
    methods = []
    for method in METHODS.values():
        if method.name not in wanted:
            continue
        given = {n: value for n, value in settings.items() if n in method.options}
        parameters = {**method.parameters, **given}
        votes = f" ({parameters['voting']})" if "voting" in parameters else ""
        label = f"{method.label}{votes}"
        methods.append(replace(method, label=label, parameters=parameters))
    return methods


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
        (repeat, method, epsilon)
        for repeat in range(repeats)
        for method in methods
        for epsilon in (budgets if method.is_private else (None,))
    ]
    result = Evaluation([], {})
    bar = tqdm(steps, desc=records.name, disable=not progress, leave=False)
    for repeat, method, epsilon in bar:
        split = train_test_split(
            records.X, records.y, test_size=TEST_SHARE, random_state=seed + repeat
        )
        try:
            scores = _scores(method, records.schema, epsilon, seed + repeat, *split)
        except (DomainTooLargeError, ParameterError) as error:
            if not _is_refusal(error):
                raise
            result.skipped[method.label] = error
        else:
            result.trials.append(Trial(method, epsilon, repeat, *scores))
    return result


def _scores(
    method: Method, schema: Schema, epsilon: Fraction | None, seed: int, *split: Any
) -> tuple[float, tuple[float, ...]]:
    """Return the accuracy of one fit on a split of records and labels, and recalls."""
    X, queries, y, truth = split
    budget = {} if epsilon is None else {"epsilon": epsilon}
    model = method.make(schema, random_state=seed, **budget)
    predicted = model.fit(X, y).predict(queries)
    classes = schema.decode_target(np.arange(schema.n_classes))
    recalls = recall_score(
        truth, predicted, labels=classes, average=None, zero_division=np.nan
    )
    return float(np.mean(predicted == truth)), tuple(recalls.tolist())


# ---- what came out ---------------------------------------------------------


def accuracy_table(trials: Sequence[Trial]) -> str:
    """Return methods by mean ± std of accuracy at every budget, as text.

    Methods without a budget show the same number in every column.
    """
    budgets: list[Fraction | None] = [
        *sorted({t.epsilon for t in trials if t.epsilon is not None})
    ] or [None]
    rows = [["method", "released", *map(_budget, budgets)]]
    for names, of_method in _by_method(trials).items():
        known = (
            [t.accuracy for t in of_method if t.epsilon in (None, e)] for e in budgets
        )
        rows.append([*names, *map(_in_words, known)])
    return _aligned(rows)


def recall_table(trials: Sequence[Trial], classes: Sequence[object]) -> str:
    """Return methods by mean ± std of recall of every class, at the largest budget."""
    largest = max((t.epsilon for t in trials if t.epsilon is not None), default=None)
    rows = [["method", "recall at", *map(printable, classes)]]
    for (label, _), of_method in _by_method(trials).items():
        recalls = [t.recalls for t in of_method if t.epsilon in (None, largest)]
        known = ([x for x in column if x == x] for column in zip(*recalls, strict=True))
        rows.append([label, _budget(largest), *map(_in_words, known)])
    return _aligned(rows)


def _budget(epsilon: Fraction | None) -> str:
    return f"ε = {float(epsilon):g}" if epsilon else "any ε"


def _by_method(trials: Sequence[Trial]) -> dict[tuple[str, str], list[Trial]]:
    """Return the trials of each method, by its label and what it releases."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for one in trials:
        found.setdefault((one.method.label, one.method.released), []).append(one)
    return found


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            f"{cell:{'<' if i < 2 else '>'}{width}}"
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _in_words(accuracies: list[float]) -> str:
    if not accuracies:
        return "-"
    spread = f" ± {np.std(accuracies, ddof=1):.3f}" if len(accuracies) > 1 else ""
    return f"{np.mean(accuracies):.3f}{spread}"
