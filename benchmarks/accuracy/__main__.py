"""Table and pictures of accuracy against epsilon: ``python -m benchmarks.accuracy``.

Every fit is written to ``trials.csv`` at once, and a later run goes on from there.
``accuracy.md`` holds the table with the floors that the classifier should reach, and
``accuracy.png`` the pictures, where matplotlib is installed. Splits are the same for
all methods; noise has no seed. ``--ablation`` also takes away each idea of the
classifier in turn. ``--parity`` adds labels that are the parity of 1 to 7 attributes.
``--given`` fits the leaves of trees that are given, and prints a table of its own.
Fits are shared out as joblib is configured: `main` within
``joblib.parallel_config(backend="dask")`` runs them on the workers of a cluster.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from benchmarks.accuracy import _trials
from benchmarks.accuracy._data import (
    DATA_SETS,
    PARITIES,
    PARITY_ATTRIBUTES,
    PARITY_FLIPPED,
)
from benchmarks.accuracy._methods import GIVEN, METHODS
from benchmarks.accuracy._plot import draw
from benchmarks.accuracy._table import EPSILONS, Values, parity_table, table
from benchmarks.gains import ABLATION_SETS, ABLATIONS, ablation_table
from benchmarks.results import Results

SPLITS, QUICK, ABLATION_SPLITS, PARITY_SPLITS = 20, 3, 10, 5
PARITY_EPSILON = 1.0

INTRODUCTION = """\
# Accuracy against ε

Written by `python -m benchmarks.accuracy{options}` with the folder of the data sets in
`MMECH_DATA_DIR`; versions: {versions}.

Mean test accuracy over random 80/20 splits, the same for all methods; ± is two standard
errors. "private forest" is `PrivateForestClassifier(schema, epsilon=...)` with nothing
else said, pure ε; "N stated" does not pay for the number of records. "batch training"
is the pipeline of the paper, where the domain has at most a million cells; "log-odds"
go beyond the paper. Numbers lie on 64
public cells of equal width between public bounds, except in iris, heart and
adult-paper-bins, which have the cut points of the paper. "naive Bayes" is a private one
of our own with one-way tables; diffprivlib and DP-EBM (InterpretML) run with their
defaults and public bounds. MST and AIM (OpenDP) make synthetic records of all
attributes and the class. These are the training records of a classifier without
privacy, chosen by cross-validation on them. **DP-EBM promises less: (ε, δ) with δ =
10⁻⁵**, and takes two classes only. "private forest, ε = 100", in the last column beside
models without privacy, shows the cost of the model itself.

A floor is a given target, a little above the best peer in hindsight. It is at most the
best model without privacy in the same run less two of its standard errors. Seconds are
processor time of a fit and its predictions, the median over budgets.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then write the table and the pictures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy")
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK} splits instead of {SPLITS}"
    )
    parser.add_argument(
        "--splits", type=int, help=f"number of splits, default {SPLITS}"
    )
    parser.add_argument("--output", type=Path, default=Path("accuracy-results"))
    parser.add_argument("--datasets", nargs="*", choices=DATA_SETS, default=DATA_SETS)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--epsilon", nargs="+", type=float, choices=EPSILONS, default=EPSILONS
    )
    parser.add_argument(
        "--rerun", nargs="+", choices=METHODS, default=[], help="forget these first"
    )
    parser.add_argument(
        "--ablation", action="store_true", help="also take away each idea in turn"
    )
    parser.add_argument(
        "--given", action="store_true", help="only forests that are given"
    )
    parser.add_argument(
        "--parity", action="store_true", help="also labels that are parities"
    )
    parser.add_argument(
        "--draw", type=Path, metavar="TABLE", help="only draw a table that was written"
    )
    options = parser.parse_args(arguments)
    if options.draw is not None:
        text = options.draw.read_text(encoding="utf-8")
        draw(text, options.draw.parent)
        return
    options.output.mkdir(parents=True, exist_ok=True)
    n_splits = options.splits or (QUICK if options.quick else SPLITS)
    if options.given:
        known = _trials.read(options.output / "given.csv")
        _trials.run(known, options.datasets, GIVEN, n_splits, options.epsilon)
        print(ablation_table(_trials.grouped(known, DATA_SETS), GIVEN))
        return
    known = _trials.read(options.output / "trials.csv")
    known.keep(lambda key: key[1] not in options.rerun)
    methods = {name: METHODS[name] for name in options.methods}
    _trials.run(known, options.datasets, methods, n_splits, options.epsilon)
    values = _trials.grouped(known, DATA_SETS)
    parts = [_introduction(), table(values, _trials.median_seconds(known))]
    ablated = _trials.read(options.output / "ablation.csv")
    if options.ablation:
        sets = [name for name in ABLATION_SETS if name in options.datasets]
        n_splits = options.splits or (QUICK if options.quick else ABLATION_SPLITS)
        _trials.run(ablated, sets, ABLATIONS, n_splits)
    if ablated:
        parts.append(_ablation(ablated))
    stressed = _trials.read(options.output / "parity.csv")
    if options.parity:
        n_splits = options.splits or (QUICK if options.quick else PARITY_SPLITS)
        _trials.run(stressed, list(PARITIES), methods, n_splits, (PARITY_EPSILON,))
    if stressed:
        parts.append(_parity(stressed))
    text = "\n".join(parts)
    (options.output / "accuracy.md").write_text(text, encoding="utf-8")
    print(text)
    draw(text, options.output)


def _introduction() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in ("numpy", "scikit-learn", "diffprivlib", "interpret-core"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return INTRODUCTION.format(options=" --ablation", versions=", ".join(found))


def _parity(known: Results) -> str:
    """Return the section of the stress table."""
    values = _trials.grouped(known, list(PARITIES))
    return (
        "## Labels that are the parity of 1 to 7 attributes\n\n"
        f"Means over {_splits(values)} splits at ε = {PARITY_EPSILON:g}, by number of "
        f"attributes of the parity, among {PARITY_ATTRIBUTES} of 0 and 1; "
        f"{PARITY_FLIPPED:.0%} of labels are flipped, so that "
        f"{1 - PARITY_FLIPPED:.2f} is the most.\n\n"
        + parity_table(values, PARITY_EPSILON)
    )


def _ablation(known: Results) -> str:
    values = _trials.grouped(known, DATA_SETS)
    budgets = ", ".join(f"{epsilon:g}" for epsilon in EPSILONS)
    return (
        "## Each idea taken away in turn\n\n"
        f"Means over {_splits(values)} splits at ε = {budgets}.\n\n"
        + ablation_table(values)
    )


def _splits(values: Values) -> str:
    """Return the number of splits in words; the least and the most where they vary."""
    numbers = {len(found) for found in values.values()}
    return " to ".join(str(n) for n in sorted({min(numbers), max(numbers)}))


if __name__ == "__main__":
    main()
