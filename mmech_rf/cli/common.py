"""What the commands of forests share: options, their types, and what they call things.

What has nothing to do with forests is in `mmech.terminal`.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mmech.cli.files import TABLE
from mmech.terminal import in_words, whole
from mmech_rf.data.catalogue import BUILT_IN, CATALOGUE
from mmech_rf.methods import METHODS, SPLITS

if TYPE_CHECKING:
    from mmech_rf.drawn.settings import DrawnSettings

PROG = "mmech-rf"
MAX_TREES = 10**6
"""Trees of a forest above which a number is taken for a slip of the hand."""

WORDS: dict[str, str | None] = {
    "X": "the records (row 0 is below the header)",
    "y": "the class column (row 0 is below the header)",
    "schema": "schema",
    "class_labels": "the classes",
    "other": '"other"',
    "Schema.check": f"`{PROG} schema check`",
    **{
        method.estimator: f"`{method.command} --method {method.name}`"
        for method in reversed([*METHODS.values()])
        if method.command
    },
}
"""What is in files and behind commands, and what Python calls it."""

OPTIONS = {
    "n_trees": "--trees",
    "random_state": "--seed",
}
"""Options that are called otherwise than the parameter that they set."""


def as_option(name: str) -> str:
    """Return the option that sets a parameter."""
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def in_options(error: Exception, args: argparse.Namespace) -> str:
    """Return a message that calls parameters as the options of this command.

    A remedy that no option of this command gives is left out. ``words`` of a command
    maps names of Python that differ from its options; None stands for no option.
    """
    options = {name: as_option(name) for name in OPTIONS if hasattr(args, name)}
    return in_words(error, args, {**WORDS, **options, **getattr(args, "words", {})})


# ---- methods ---------------------------------------------------------------


def methods_of(command: str) -> list[str]:
    """Return the methods of a command."""
    return [name for name, row in METHODS.items() if row.command == command]


def among(option: str, command: str = "fit") -> str:
    """Return the methods of a command that have an option, in words."""
    names = methods_of(command)
    return " or ".join(n for n in names if option in METHODS[n].options)


def listed_methods(command: str | None = None) -> str:
    """Return the methods of a command, or all, with what they do, for its help."""
    rows = [m for m in METHODS.values() if command in (None, m.command)]
    width = 4 + max(len(row.name) for row in rows)
    return "methods:\n" + "\n".join(
        textwrap.fill(
            row.summary,
            79,
            initial_indent=f"  {row.name}".ljust(width),
            subsequent_indent=" " * width,
        )
        for row in rows
    )


# ---- options ---------------------------------------------------------------

HELP = {
    # records, queries, models
    "fit data": f"training records; sensitive: {TABLE}",
    "predict data": f"records to classify: {TABLE}",
    "predict-batch data": f"training records; sensitive: {TABLE}",
    "predict model": f"file that `{PROG} fit` wrote",
    "show model": "file that `fit` saved",
    "queries": f"queries; public: {TABLE}",
    "--data": f"a built-in data set ({', '.join(BUILT_IN)}); one that is downloaded "
    "the first time "
    f"({', '.join(name for name in CATALOGUE if name not in BUILT_IN)}); or a csv "
    "file with a header row, plain or .gz; - reads the standard input",
    "--schema": f"JSON file with the public attributes and classes; `{PROG} schema "
    "suggest` prints one to fill in",
    "evaluate --schema": "JSON file with the public attributes and classes; needed "
    "for a csv file",
    "--extra-columns": "what to do with columns that the schema does not name: leave "
    "them unread and say so, or stop",
    "--bins": "number of bins of numeric attributes for which the schema gives only "
    "bounds",
    "--missing": "what to do with records that have missing values",
    "--handle-unknown": "what to do with values outside the schema; clip: move a "
    "number to the nearest bound, stop at other values; error: stop at all; category: "
    "use the cell that the attribute declares for them; drop: leave the record out "
    "silently "
    f"(run `{PROG} schema check` first)",
    "--handle-missing": "the same for empty fields",
    "--show-counts": "say how many of the records are used, n of N; sensitive: this "
    "number is not private, keep it to yourself",
    # what is promised
    "--epsilon": "privacy budget of a release, in nats; smaller is more private",
    "--ledger": "pay from this ledger on disk, which `mmech budget` makes; a fit that "
    "it cannot pay for is refused (default: from none)",
    "--neighbours": "what is hidden; add_remove: the presence of a record; replace: "
    "its values, while the number of records is public; labels: its class only, while "
    "all else is public",
    "--records-per-person": "largest number of records of one person, public; the "
    "budget is per person, so that more of them cost accuracy",
    "--n-records": "roughly how many records there are, where that is public; for "
    f"--method {among('n_records')} (default: a noisy count, for 3 %% of epsilon, "
    "where it is needed)",
    # methods and their settings
    "--method": "how the forest, or its votes, are released, see below",
    "--methods": "which to compare, see below, or all of them",
    "--settings": "settings for ranking records by `predict_proba`, in place of those "
    f"for the most right classes; for --method {among('settings')}",
    "--recipe": f"for --method {among('recipe')}: one of those that `{PROG} recipes` "
    "lists (default: spe)",
    "--private-bins": "numeric attributes, or all, that are cut where their records "
    "are, for a fifth of epsilon: where public bounds may be far too wide; for "
    f"--method {among('private_bins')} (default: the bins of the schema)",
    "--estimate-accuracy": "hold out one record in five, and release how often the "
    "model is right about these, with an interval; costs no more of epsilon (default: "
    "do not)",
    "--trees": "number of trees of a forest, or inf: the limit of many multiway "
    "trees, one per subset of attributes",
    "--depth": "how many tests there are on a path of a tree, or auto: half of the "
    "attributes, or more of them where attributes can be tested again",
    "--splits": "multiway: one child per value; binary: equal to a value or not, for "
    "attributes with an order at most a value or above; threshold: ordered attributes "
    "by thresholds, others multiway",
    "--voting": "whether a tree votes for the label of its leaf (hard; not for "
    "prediction) or with its counts (weight), or adds to the log-odds of the classes "
    "(log-odds; for training)",
    "predict-batch --voting": "whether a tree votes for the label of its leaf (hard; "
    "not for prediction) or with its counts (weight)",
    "evaluate --voting": "whether trees vote for labels of leaves or with their "
    "counts (default: weight for subsample and prediction, hard for the others)",
    "--n-ensembles": "number of ensembles that share out trees and epsilon, each over "
    "its own random subset of the attributes",
    "--max-features": "number of attributes of an ensemble, drawn anew for each; or "
    "partition: share out all of them, each to one ensemble (default: all)",
    "--template": "kind of strategy to measure, such as identity or pidentity; an "
    "unknown name lists all (default: auto, the best of those that fit)",
    "--repeats": "number of random 80/20 splits, each with its own forest",
    "--seed": "fixes forests, and splits where there are some, never the noise",
    # what is shown and written
    "fit --out": "file to save the model in, such as m.npz",
    "--out": "csv file for what is predicted (default: print it)",
    "--proba": "probabilities of all classes in place of labels",
    "--html": "write a page instead",
    "--json": "print the model card instead",
    "show --trees": "trees to show, at most",
    "--force": "overwrite files that are written, if they exist",
    "--quiet": "no progress, only the results",
}
"""What options and arguments are for; of one command where it stands before them."""


def add(command: argparse._ActionsContainer, name: str, **options: Any) -> None:
    """Add an option or argument to a command, with its help and its default."""
    own = getattr(command, "prog", "").rpartition(" ")[2]
    text = HELP.get(f"{own} {name}") or HELP[name]
    default = options.get("default")
    if default is not None and "(default: " not in text:
        values = default if isinstance(default, list) else [default]
        text += f" (default: {' '.join(map(str, values))})"
    command.add_argument(name, help=text, **options)


def add_forest(command: argparse.ArgumentParser, *, depth: str) -> None:
    """Add the options of a random forest."""
    add(command, "--trees", dest="n_trees", type=read_trees, default=128, metavar="N")
    add(command, "--depth", type=read_depth, default=read_depth(depth), metavar="D")
    add(command, "--splits", choices=SPLITS, default="multiway")


def whole_or(
    word: str, value: Any, minimum: int, maximum: int = 10**9
) -> Callable[[str], Any]:
    """Return a reader of whole numbers within limits, or of a word that has a value."""

    def read(text: str) -> Any:
        if text == word:
            return value
        try:
            return whole(minimum, maximum)(text)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}; or {word}") from None

    return read


read_trees = whole_or("inf", math.inf, 1, MAX_TREES)
read_depth = whole_or("auto", "auto", 0)
read_features = whole_or("partition", "partition", 1)


def read_settings(text: str) -> DrawnSettings:
    """Read the name of settings for a purpose."""
    if text != "ranking":
        raise argparse.ArgumentTypeError(
            f'it must be "ranking", got {text!r}; leave it out for the defaults'
        )
    from mmech_rf.drawn.settings import DrawnSettings

    return DrawnSettings.for_ranking()
