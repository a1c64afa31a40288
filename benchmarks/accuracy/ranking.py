"""Probabilities beside those of peers: ``python -m benchmarks.accuracy.ranking``.

Area under the ROC curve, Brier score and calibration error of `predict_proba` on sets
of two classes, which is what DP-EBM takes. Fits are written to ``ranking.csv`` one by
one, and a later run goes on from there; ``ranking.md`` holds the table.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, roc_auc_score

from benchmarks.accuracy import _trials
from benchmarks.accuracy._methods import METHODS, RANKED, Method
from benchmarks.accuracy._table import NO_NOISE
from benchmarks.results import Results, markdown_table

SETS = (
    "heart", "mushroom", "adult", "adult-binary", "tic-tac-toe", "banknote",
    "blood-transfusion", "bank-marketing", "magic", "student-por",
)  # fmt: skip
COMPARED = (
    "private forest",
    RANKED,
    "DP-EBM (ε, δ)",
    "logistic regression, not private",
)
EPSILONS = (0.5, 1.0, 2.0)
FIELDS = ("auc", "brier", "calibration")
SPLITS, BINS = 5, 10

INTRODUCTION = """\
## Ranking and calibration of `predict_proba`

`python -m benchmarks.accuracy.ranking --splits {splits}`; sets of two classes, {splits}
random 80/20 splits, the same for all methods. Means of the area under the ROC curve
(higher is better) / Brier score / calibration error (lower is better): the mean
distance between the probability of the second class and its share, in ten groups of
test records of neighbouring probabilities, of equal size. "private forest" is pure ε,
DP-EBM (ε, δ) with δ = 10⁻⁵; "for ranking" has `settings=DrawnSettings.for_ranking()`.
"""


def ranking(
    method: Method, bunch: Any, epsilon: float, parts: tuple[Any, Any]
) -> tuple[float, float, float] | None:
    """Fit on one part; rank the other, and compare probabilities with shares.

    Returns
    -------
    tuple of float, or None where the method cannot do with the schema
        Area under the ROC curve, Brier score, calibration error.
    """
    if not method.takes(bunch.schema):
        return None
    train, test = parts
    model = method.make(bunch.schema, epsilon, len(train))
    with warnings.catch_warnings():
        warnings.simplefilter("error" if method.strict else "ignore")
        warnings.filterwarnings("ignore", message=".* protects hardly anybody")
        model.fit(bunch.data[train], bunch.target[train])
        found = model.predict_proba(bunch.data[test])[:, 1]
    truth = bunch.schema.encode_target(bunch.target[test])
    return (
        float(roc_auc_score(truth, found)),
        float(brier_score_loss(truth, found)),
        calibration_error(truth, found),
    )


def calibration_error(
    truth: NDArray[np.int64], probability: NDArray[np.float64]
) -> float:
    """Return how far probabilities are from shares in groups, on average.

    Parameters
    ----------
    truth : ndarray, shape (n,)
        One where the record is of the class.
    probability : ndarray, shape (n,)
        Estimated probability of that. Records of equal probability are interchangeable:
        each counts with their share.
    """
    _, place = np.unique(probability, return_inverse=True)
    shares = np.bincount(place, truth) / np.bincount(place)
    order = np.argsort(place, kind="stable")
    gaps = (probability - shares[place])[order]
    groups = np.array_split(gaps, BINS)
    return float(sum(abs(group.sum()) for group in groups) / len(truth))


def table(known: Results) -> str:
    """Return the Markdown table of means."""
    rows = []
    for name in SETS:
        for label in COMPARED:
            is_exact = label.endswith("not private")
            budgets = ("", "", NO_NOISE) if is_exact else EPSILONS
            cells = [_means(known, name, label, epsilon) for epsilon in budgets]
            if any(cells):
                rows.append([name, label, *cells])
    heads = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    return markdown_table(["data set", "method", *heads], rows)


def _means(known: Results, name: str, label: str, epsilon: float | str) -> str:
    found = [value for key, value in known.items() if key[:3] == (name, label, epsilon)]
    return " / ".join(f"{mean:.3f}" for mean in np.mean(found, axis=0)) if found else ""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then write the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy.ranking")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument(
        "--epsilon", nargs="+", type=float, choices=EPSILONS, default=EPSILONS
    )
    parser.add_argument("--output", type=Path, default=Path("accuracy-results"))
    parser.add_argument("--datasets", nargs="*", choices=SETS, default=SETS)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    known = _trials.read(options.output / "ranking.csv", FIELDS)
    methods = {name: METHODS[name] for name in COMPARED if name in METHODS}
    _trials.run(
        known, options.datasets, methods, options.splits, options.epsilon, ranking
    )
    text = INTRODUCTION.format(splits=options.splits) + "\n" + table(known)
    (options.output / "ranking.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
