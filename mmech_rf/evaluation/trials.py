"""Fitting every method on repeated splits, with the seconds of each stage."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from mmech import DomainTooLargeError, ParameterError
from mmech.checks import check_epsilon, check_integer
from mmech_rf.evaluation.methods import make_methods
from mmech_rf.evaluation.records import Records, load_records
from mmech_rf.evaluation.results import Results
from mmech_rf.methods import METHODS, Method
from mmech_rf.private.classifier import ForestClassifier
from mmech_rf.schema import Schema

__all__ = [
    "STAGES",
    "Evaluation",
    "Summary",
    "Trial",
    "check_method",
    "evaluate",
    "summarize",
    "warm_up",
]

STAGES = ("trees", "optimization", "measurement", "prediction", "total")
"""Stages of a trial; "total" includes the encoding of the records."""

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
    expected_error : float or None
        Expected total squared error of the released answers, in squared counts; None
        where no numbers carry noise.
    n_answers : int
        How many noisy leaf counts or votes were released, for every class.
    seconds : dict of str to float
        By `STAGES`, none counted in two stages.
    """

    method: Method
    epsilon: Fraction | None
    repeat: int
    accuracy: float
    expected_error: float | None
    n_answers: int
    seconds: dict[str, float]

    @property
    def rmse(self) -> float | None:
        """Expected root mean square error of one released answer, in counts."""
        if self.expected_error is None:
            return None
        return float(np.sqrt(self.expected_error / self.n_answers))


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


@dataclass(frozen=True)
class Summary:
    """The trials of one method at one budget, as means over the repeats.

    Attributes
    ----------
    method : Method
    epsilon : Fraction or None
    repeats : int
    accuracy : float
    accuracy_std : float or None
        Sample standard deviation; None for a single repeat.
    expected_error, rmse : float or None
    seconds : dict of str to float
    """

    method: Method
    epsilon: Fraction | None
    repeats: int
    accuracy: float
    accuracy_std: float | None
    expected_error: float | None
    rmse: float | None
    seconds: dict[str, float]


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
        split = train_test_split(
            records.X, records.y, test_size=TEST_SHARE, random_state=seed + repeat
        )
        model = method.make(records.schema, random_state=seed + repeat, **budget)
        try:
            return [(step, _try(method, model, epsilon, repeat, split))]
        except (DomainTooLargeError, ParameterError) as error:
            if not _is_refusal(error):
                raise
            return [((method.label,), error)]

    found = Results()
    found.run(steps, measure, jobs=1, desc=records.name, progress=progress)
    skipped = {key[0]: found.pop(key) for key in list(found) if len(key) == 1}
    return Evaluation(list(found.values()), skipped)


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


def _try(
    method: Method, model: Any, epsilon: Fraction | None, repeat: int, split: Any
) -> Trial:
    X_train, X_test, y_train, y_test = split
    started = time.perf_counter()
    model.fit(X_train, y_train)
    fitted = time.perf_counter()
    earlier = _inner_seconds(model)
    labels = model.predict(X_test)
    stopped = time.perf_counter()
    seconds = _inner_seconds(model)
    # Methods that answer one batch optimize and measure inside predict.
    nested = sum(seconds.values()) - sum(earlier.values())
    seconds["prediction"] = stopped - fitted - nested
    seconds["total"] = stopped - started
    expected_error: float | None = getattr(model, "expected_error_", None)
    return Trial(
        method,
        epsilon,
        repeat,
        float(np.mean(labels == y_test)),
        expected_error,
        _count_answers(method, model, len(X_test)),
        seconds,
    )


def _inner_seconds(model: Any) -> dict[str, float]:
    timings = getattr(model, "timings_", {})
    return {
        stage: timings.get(stage, 0.0)
        for stage in ("trees", "optimization", "measurement")
    }


def _count_answers(method: Method, model: Any, n_queries: int) -> int:
    if not method.is_private:
        return 0
    rows = (
        n_queries * len(model.ensembles_)
        if method.released == "votes"
        else sum(ensemble.forest.n_leaves for ensemble in model.ensembles_)
    )
    return int(rows * model.schema_.n_classes)


def summarize(trials: Iterable[Trial]) -> list[Summary]:
    """Return means over the repeats, per method and budget, in order of appearance."""
    groups: dict[tuple[str, Fraction | None], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.method.name, trial.epsilon), []).append(trial)
    return [_summary(group) for group in groups.values()]


def _summary(trials: list[Trial]) -> Summary:
    accuracies = [trial.accuracy for trial in trials]
    return Summary(
        trials[0].method,
        trials[0].epsilon,
        len(trials),
        statistics.fmean(accuracies),
        statistics.stdev(accuracies) if len(trials) > 1 else None,
        _mean_or_none([trial.expected_error for trial in trials]),
        _mean_or_none([trial.rmse for trial in trials]),
        {
            stage: statistics.fmean(trial.seconds[stage] for trial in trials)
            for stage in STAGES
        },
    )


def _mean_or_none(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def warm_up(names: Iterable[str] = tuple(METHODS)) -> float:
    """Fit methods on a small problem, to compile their kernels; return the seconds."""
    started = time.perf_counter()
    monks = load_records("monks-1")
    small = Records("warm-up", monks.X[:, :3], monks.y, monks.schema.select(range(3)))
    methods = make_methods(names, n_trees=4, depth=2, subsample_trees=4)
    evaluate(small, methods, [1], repeats=1)
    return time.perf_counter() - started
