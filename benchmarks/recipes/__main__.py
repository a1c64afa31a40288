"""Recipes beside what was published of them: ``python -m benchmarks.recipes``.

Each row of ``published.csv`` is fitted on random splits, and says what share of the
records is held out. `PrivateForestClassifier` has the same splits and epsilon.
Synthetic sets are drawn anew for every split. Recipes without a figure at hand have
rows without one. Every fit is written to ``trials.csv`` at once, and a later run goes
on from there. ``results.csv`` holds the figures; where a run has no fits, they are
those of the file beside this module, with their date. ``RESULTS.md`` holds the table,
``recipes.png`` the picture, where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from benchmarks.accuracy._data import SOURCES, SYNTHETIC, load
from benchmarks.results import Results, markdown_table
from mmech import DomainTooLargeError
from mmech_rf import (
    Attribute,
    PrivateForestClassifier,
    RecipeForestClassifier,
    recipes,
)
from mmech_rf.forest.growth import TableTooLargeError

SPLITS, QUICK = 10, 2
OTHER_TASK = "other task"
"""How the differences of rows begin that leave the count."""
MEASURES = ("accuracy", "AUC", "F1", "depth", "trees", "empty leaves")
"""What a fit is measured by, in % but for depth and trees; F1 is of the rarer class."""
LABELLED = 0.2
"""Share of the records that have labels, for semi-supervised recipes."""

OURS = "private forest"
KEPT = Path(__file__).with_name("results.csv")
"""Figures of earlier runs."""

INTRODUCTION = """\
# Recipes beside what was published of them

Written by `python -m benchmarks.recipes`. Figures are in %, means of random splits, ±
two standard errors, with the number of records stated. Recipes are the corrected ones:
the published figures are of systems that in part promise less than they say. A figure
is reached where the mean is at least the published one less 2 √(ours² + theirs²) of the
standard errors. No source prints an error. On real sets theirs is the binomial error
√(p (1 - p) / n) of the n records of their test, also for AUC and F1. Huang et al.
repeated their test 50 times. Synthetic sets are drawn again, one for every split.
Theirs is then the standard deviation between these sets, because they had one. These
rows say less, and are counted apart. A row with a single split has no error and is not
counted, and neither is another task. Empty leaves are shown, not counted.
Semi-supervised recipes have labels for 20 % of the records; "private forest" is
`PrivateForestClassifier` at the same ε, with all labels. Numbers lie on 64 public cells
of equal width between public bounds. The cells of iris are those of the paper, and
`fi-2015` has its five. Rows of earlier runs keep their date.

"""


@dataclass(frozen=True)
class Row:
    """A published figure, empty where none is at hand."""

    dataset: str
    recipe: str
    epsilon: str
    choices: str = ""
    measure: str = "accuracy"
    published: str = ""
    tested: str = ""
    held_out: str = "10"
    differs: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """What a trial is remembered by."""
        return "|".join(
            (self.dataset, self.recipe, self.epsilon, self.choices, self.held_out)
        )

    @property
    def beside(self) -> str:
        """What the trials of the other forest are remembered by."""
        return replace(self, recipe=OURS, choices="").key

    def error(self, known: Results) -> float | None:
        """Return the standard error of the published figure, in %.

        It is binomial, or the deviation between our draws of a synthetic set.
        """
        if not self.published or not self.tested or self.measure == "empty leaves":
            return None
        if self.dataset in SYNTHETIC:
            own = figure(known, self.key, self.measure)
            return own and own.deviation
        p = float(self.published) / 100
        return float(100 * np.sqrt(p * (1 - p) / int(self.tested)))


def published() -> list[Row]:
    """Return all rows of the file."""
    path = Path(__file__).with_name("published.csv")
    with open(path, newline="", encoding="utf-8") as stream:
        return [Row(**row) for row in csv.DictReader(stream)]


def measures(row: Row, bunch: Any, order: Any, ours: bool) -> tuple[float, ...]:
    """Return the `MEASURES` of one fit."""
    X, y = np.asarray(bunch.data), np.asarray(bunch.target)
    cut = round((1 - int(row.held_out) / 100) * len(y))
    train, test = order[:cut], order[cut:]
    if ours:
        model: Any = PrivateForestClassifier(
            bunch.schema, epsilon=row.epsilon, n_records=cut
        ).fit(X[train], y[train])
        return (*_scores(model, X[test], y[test]), *[np.nan] * 3)
    pairs = [pair.split("=") for pair in row.choices.split()]
    choices: dict[str, Any] = {n: int(v) if v.isdigit() else v for n, v in pairs}
    schema = with_bins(bunch.schema, choices.pop("n_bins", None))
    recipe = recipes()[row.recipe].replace(**choices)
    semi = recipe.unlabelled or recipe.guarantee == "labels"
    labelled = train[: round(LABELLED * cut)] if semi else train
    rest = train[len(labelled) :]
    model = RecipeForestClassifier(
        schema,
        epsilon=row.epsilon,
        recipe=recipe,
        n_records=len(labelled),
        neighbours="labels" if recipe.guarantee == "labels" else "add_remove",
    )
    extra = {"X_unlabelled": X[rest]} if recipe.unlabelled else {}
    model.fit(X[labelled], y[labelled], **extra)
    forest = model.forest_
    # Which trees records are in is not known: of disjoint ones, drawn once more.
    leaves = forest.apply(schema.encode(X[labelled])) + forest.leaf_offsets[:-1]
    if recipe.records == "disjoint":
        trees = np.random.default_rng(0).integers(forest.n_trees, size=len(leaves))
        leaves = leaves[np.arange(len(leaves)), trees]
    empty = 100 * (1 - np.unique(leaves).size / forest.n_leaves)
    return (*_scores(model, X[test], y[test]), forest.depth, forest.n_trees, empty)


def with_bins(schema: Any, n_bins: int | None) -> Any:
    """Return a schema whose numbers have so many bins of equal width."""
    if n_bins is None:
        return schema
    attributes = [
        Attribute.numeric(a.name, lower=a.lower, upper=a.upper, n_bins=n_bins)
        if a.kind == "numeric"
        else a
        for a in schema.attributes
    ]
    return replace(schema, attributes=attributes)


def _scores(model: Any, X: Any, y: Any) -> tuple[float, float, float]:
    """Return accuracy, AUC and F1 in %; the last two of two classes only."""
    labels = model.predict(X)
    y = np.asarray(y).astype(labels.dtype)
    right = 100 * float((labels == y).mean())
    if len(model.classes_) != 2 or np.unique(y).size < 2:
        return right, np.nan, np.nan
    rarer = int((y == model.classes_[1]).mean() <= 0.5)
    positive = model.classes_[rarer]
    shares = model.predict_proba(X)[:, rarer]
    found = roc_auc_score(y == positive, shares)
    return right, 100 * found, 100 * f1_score(y == positive, labels == positive)


def read(path: Path) -> Results:
    """Return the trials of earlier runs, which further trials are added to."""
    return Results(path, {"key": str, "split": int}, dict.fromkeys(MEASURES, float))


def run(rows: Sequence[Row], known: Results, n_splits: int) -> None:
    """Run what is not known yet; sets without a file are left out."""
    load_once = lru_cache(maxsize=1)(load)
    plan = {
        (key, split): row
        for split in range(n_splits)
        for row in sorted(rows, key=lambda row: row.dataset)
        for key in (row.key, row.beside)
        if (key, split) not in known and row.dataset in SOURCES
    }

    def outcome(key: tuple[str, int]) -> Any:
        row = plan[key]
        bunch = load_once(row.dataset, key[1] if row.dataset in SYNTHETIC else 0)
        if bunch is None:
            return []
        order = np.random.default_rng(key[1]).permutation(len(bunch.target))
        try:
            return [(key, measures(row, bunch, order, key[0] == row.beside))]
        except (TableTooLargeError, DomainTooLargeError):  # too many leaves
            return [(key, (np.nan,) * len(MEASURES))]

    known.run(plan, outcome, desc="fits", progress=True)


class Figure(NamedTuple):
    """What the trials of a key come to by one of the measures."""

    mean: float
    two_errors: float
    deviation: float
    splits: int
    date: str


def figures(known: Results, path: Path | None = None) -> Results:
    """Return a `Figure` per key and measure; of `KEPT` where there are no trials."""
    kinds = {"mean": float, "two errors": float, "deviation": float, "splits": int}
    found = Results(KEPT, {"key": str, "measure": str}, kinds | {"date": str})
    trials: dict[str, list[Any]] = {}
    for (key, _), values in known.items():
        trials.setdefault(key, []).append(values)
    for key, rows in trials.items():
        for measure, values in zip(MEASURES, np.transpose(rows), strict=False):
            values = values[~np.isnan(values)]
            spread = float(np.std(values, ddof=1)) if values.size > 1 else np.nan
            if values.size:
                error, today = 2 * spread / values.size**0.5, str(date.today())
                own = float(values.mean()), error, spread, values.size, today
                found[key, measure] = Figure(*own)
    if path is not None:
        found.path, rows = path, published()
        keys = {key for row in rows for key in (row.key, row.beside)}
        found.keep(lambda key: key[0] in keys)
    return found


def figure(known: Results, key: str, measure: str = "accuracy") -> Figure | None:
    """Return the figure of a key, if there is one."""
    return Figure(*known[key, measure]) if (key, measure) in known else None


def reached(row: Row, known: Results) -> bool | None:
    """Return whether a published figure is reached; None where it is not counted."""
    own, error = figure(known, row.key, row.measure), row.error(known)
    if own is None or error is None or row.differs.startswith(OTHER_TASK):
        return None
    if np.isnan(own.two_errors):
        return None
    errors = float(np.hypot(own.two_errors / 2, error))
    return own.mean >= float(row.published) - 2 * errors


def provenance() -> str:
    """Return when the table was written, and with what."""
    libraries = ("mmech", "numpy", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in libraries)
    return f"Written on {date.today()} with {versions}. "


def count(rows: Sequence[Row], known: Results) -> str:
    """Return how many of the published figures are reached, in words."""
    counted = [row for row in rows if reached(row, known) is not None]
    yes = [row for row in counted if reached(row, known)]
    below = [
        row for row in yes if known[row.key, row.measure][0] < float(row.published)
    ]
    less = ("not private", "weaker")
    weaker = [row for row in counted if row.differs.startswith(less)]
    return (
        f"of {sum(bool(row.published) for row in rows)} published figures, "
        f"{len(counted)} are counted and {len(yes)} of these are reached, {len(below)} "
        f"of them with a mean below the published one. {len(weaker)} of the counted "
        f"ones are of systems that are not private, or promise less, and "
        f"{sum(row in yes for row in weaker)} of those are reached."
    )


def findings(rows: Sequence[Row], known: Results) -> str:
    """Return what the rows come to, in words."""
    ran = {row.key: own for row in rows if (own := figure(known, row.key))}
    pairs = {
        row.key: ran[row.key].mean < beside.mean
        for row in rows
        if row.key in ran and (beside := figure(known, row.beside))
    }
    splits = " to ".join(map(str, sorted(_ends(own.splits for own in ran.values()))))
    dates = " to ".join(sorted(_ends(own.date for own in ran.values())))
    drawn = [row for row in rows if row.dataset in SYNTHETIC]
    absent = sorted({row.dataset for row in rows if row.dataset not in SOURCES})
    none = f" Without a file: {', '.join(absent)}." if absent else ""
    idle = len({row.key for row in rows} - set(ran))
    return (
        f"Means of {splits} splits, run on {dates}.\n\n"
        f"* Real sets: {count([r for r in rows if r not in drawn], known)}{none}\n"
        f"* Synthetic sets: {count(drawn, known)}\n"
        f"* The private forest is more accurate than the recipe in "
        f"{sum(pairs.values())} of {len(pairs)} fits that both ran. {idle} others did "
        f"not run, or their forests are too large for memory.\n\n"
    )


def _ends(values: Iterable[Any]) -> set[Any]:
    found = set(values)
    return {min(found), max(found)} if found else set()


def table(rows: Sequence[Row], known: Results) -> str:
    """Return the table as text."""
    head = "recipe, data set, ε, measure, published, their error, measured, reached"
    shape = "depth, trees, empty leaves"
    columns = [*head.split(", "), OURS, shape, "splits", "date", "held out"]
    columns += ["differs", "source"]
    cells = []
    for row in rows:
        pair = [figure(known, key, row.measure) for key in (row.key, row.beside)]
        own, beside = ("-" if one is None else _spread(*one[:2]) for one in pair)
        sizes = [figure(known, row.key, name) for name in MEASURES[3:]]
        verdict = {None: "-", True: "yes", False: "no"}[reached(row, known)]
        said = [f"{row.recipe} {row.choices}".strip(), row.dataset, row.epsilon]
        error = row.error(known)
        kind = "between sets" if row.dataset in SYNTHETIC else "binomial"
        said += [row.measure, row.published or "-"]
        said += ["-" if error is None else f"{error:.1f}, {kind}", own, verdict, beside]
        said += [", ".join(f"{one.mean:.4g}" for one in sizes if one) or "-"]
        said += [" and ".join(str(one.splits if one else 0) for one in pair)]
        said += [pair[0].date if pair[0] else "-", row.held_out]
        cells.append([*said, row.differs or "-", row.source])
    return markdown_table(columns, cells)


def _spread(mean: float, error: float) -> str:
    return f"{mean:.1f}" + ("" if np.isnan(error) else f" ± {error:.1f}")


def draw(rows: Sequence[Row], known: Results, path: Path) -> None:
    """Draw measured against published, and both against the private forest."""
    try:
        from matplotlib.figure import Figure as Sheet
    except ImportError:
        return
    picture = Sheet(figsize=(11, 5), layout="constrained")
    left, right = picture.subplots(1, 2)
    for i, name in enumerate(dict.fromkeys(row.recipe for row in rows)):
        mark = "os^"[i // 10]  # there are ten colours
        own = [row for row in rows if (row.recipe, row.measure) == (name, "accuracy")]
        own = [row for row in own if figure(known, row.key)]
        measured = [known[row.key, "accuracy"][0] for row in own]
        beside = [known.get((row.beside, "accuracy"), (np.nan,))[0] for row in own]
        printed = [float(row.published or "nan") for row in own]
        left.plot(printed, measured, mark, label=name)
        right.plot(beside, measured, mark)
    for ax, label in ((left, "published"), (right, OURS)):
        ax.plot([0, 100], [0, 100], color="0.7", lw=1)
        ax.set_xlabel(f"{label}, accuracy in %")
        ax.set_ylabel("recipe, measured")
        ax.set_xlim(20, 100)
        ax.set_ylim(20, 100)
    picture.legend(*left.get_legend_handles_labels(), loc="outside right center")
    picture.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then write the table and the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recipes")
    quick, many = f"{QUICK} splits instead of {SPLITS}", "or so many; 0: only reports"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--splits", type=int, help=many)
    parser.add_argument("--recipes", nargs="*", help="only these")
    parser.add_argument("--datasets", nargs="*", help="only these")
    parser.add_argument("--output", type=Path, default=Path("recipe-results"))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    rows = [
        row
        for row in published()
        if row.recipe in (options.recipes or recipes())
        and row.dataset in (options.datasets or [row.dataset])
    ]
    known = read(options.output / "trials.csv")
    n_splits = QUICK if options.quick else SPLITS
    if options.splits is not None:
        n_splits = options.splits
    run(rows, known, n_splits)
    found = figures(known, options.output / "results.csv")
    text = INTRODUCTION + provenance() + findings(rows, found) + table(rows, found)
    alt = "Measured beside published, and beside the private forest"
    text += f"\n![{alt}](recipes.png)\n"
    (options.output / "RESULTS.md").write_text(text, encoding="utf-8")
    print(text)
    draw(rows, found, options.output / "recipes.png")


if __name__ == "__main__":
    main()
