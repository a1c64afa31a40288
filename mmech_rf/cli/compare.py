"""The commands that compare methods: ``demo`` and ``evaluate``.

Only parsing and printing; what they do is in `mmech_rf.evaluation`.
"""

from __future__ import annotations

import argparse
import math
import shutil
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mmech.cli.files import add_csv, check_new, csv_format, opened
from mmech.terminal import (
    InputError,
    Parser,
    add_command,
    print_wrapped,
    read_epsilon,
    say,
    whole,
)
from mmech_rf.cli.common import (
    PROG,
    add,
    add_forest,
    as_option,
    in_options,
    listed_methods,
    read_depth,
)
from mmech_rf.methods import METHODS, Method

if TYPE_CHECKING:
    from mmech_rf.evaluation import Evaluation, Records

__all__ = ["add_demo", "add_evaluate"]

DEFAULT_METHODS = ("private", "majority")


def _taking(option: str) -> tuple[str, ...]:
    return tuple(name for name, row in METHODS.items() if option in row.options)


FORESTS = tuple(name for name in _taking("n_trees") if name != "subsample")
SETTINGS = {
    "n_trees": FORESTS,
    "depth": FORESTS,
    "splits": _taking("splits"),
    "subsample_trees": ("subsample",),
    "subsample_depth": ("subsample",),
    "voting": _taking("voting"),
}
"""Options of `evaluate`, and the methods that have the setting."""

SUBSAMPLE_WORDS = {"n_trees": "--subsample-trees", "depth": "--subsample-depth"}
"""What its settings are called in place of those of other forests."""

DEMO_TREES = 128
DEMO_DEPTH = 4
DEMO_SUBSAMPLE_TREES, DEMO_SUBSAMPLE_DEPTH = 16, 3

NOT_PRIVATE = (
    "The test accuracies and seconds above are themselves not private: they come from "
    "the records without noise. Publish them for public data only."
)

_DEMO = {
    "short": "compare all methods on built-in data, in seconds",
    "description": """\
Compare the private forest with all other methods on the built-in car evaluation
data: 1,728 cars, split at random into 80 % for training and 20 % for testing.
Prints a table of test accuracy (mean ± std over the splits), expected error and
seconds per stage.
""",
    "epilog": f"""\
examples:
  {PROG} demo
  {PROG} demo --epsilon 2 --repeats 10
""",
}
_EVALUATE = {
    "short": "accuracy of methods at several budgets, on your data or built-in data",
    "description": """\
Fit and test methods on repeated random 80/20 splits of a data set, at one or more
privacy budgets. Prints mean ± std of the test accuracy.

Test accuracy is computed without noise and is not private: use public data.
""",
    "epilog": f"""\
{listed_methods()}

examples:
  {PROG} evaluate --data car --epsilon 0.5 1 2 --plot car.png
  {PROG} evaluate --data car --methods all --depth 4
  {PROG} evaluate --data nursery --repeats 3 --methods training majority
  {PROG} evaluate --data adult --missing drop --repeats 3
  {PROG} evaluate --data mine.csv --schema mine.json --csv out.csv

A schema file is JSON:
  {{"features": [
     {{"name": "age", "type": "numeric", "lower": 0, "upper": 120}},
     {{"name": "sex", "type": "categorical", "categories": ["f", "m"]}}],
   "target": {{"name": "class", "categories": ["no", "yes"]}}}}
""",
}


def add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command that compares all methods on built-in data."""
    command = add_command(commands, "demo", _demo, **_DEMO)
    add(command, "--epsilon", type=read_epsilon, default=Fraction(1), metavar="E")
    add_forest(command, depth=str(DEMO_DEPTH))
    _add_repeats(command, default=3)


def add_evaluate(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command that measures accuracy at several budgets."""
    command = add_command(commands, "evaluate", _evaluate, **_EVALUATE)
    command.set_defaults(
        words={"handle_missing": "--missing drop", "schema_file": "--schema"}
    )
    add(command, "--data", required=True, metavar="NAME|CSV")
    add(command, "--schema", metavar="FILE")
    add(command, "--missing", choices=("error", "drop"), default="error")
    add_csv(command)
    budgets = {"nargs": "+", "default": [Fraction(1)], "metavar": "E"}
    add(command, "--epsilon", type=read_epsilon, **budgets)
    names = {"nargs": "+", "default": list(DEFAULT_METHODS), "metavar": "METHOD"}
    add(command, "--methods", choices=("all", *METHODS), **names)
    add_forest(command, depth="auto")
    add(command, "--subsample-trees", type=whole(1), default=16, metavar="N")
    add(command, "--subsample-depth", type=read_depth, default="auto", metavar="D")
    add(command, "--voting", choices=("hard", "weight"))
    _add_repeats(command, default=10)
    add(command, "--plot", metavar="FILE")
    add(command, "--csv", metavar="FILE")
    add(command, "--force", action="store_true")
    add(command, "--quiet", action="store_true")
    command.set_defaults(**dict.fromkeys(SETTINGS))


def _add_repeats(command: argparse.ArgumentParser, *, default: int) -> None:
    add(command, "--repeats", type=whole(1), default=default, metavar="N")
    add(command, "--seed", type=whole(0, 2**31), default=0, metavar="N")


# ---- commands --------------------------------------------------------------


def _demo(args: argparse.Namespace) -> None:
    from mmech_rf import evaluation

    records = evaluation.load_records("car")
    n_test = -(-len(records.y) // 5)
    epsilon = f"{float(args.epsilon):g}"
    methods = evaluation.make_methods(
        n_trees=args.n_trees,
        depth=args.depth,
        splits=args.splits,
        subsample_trees=DEMO_SUBSAMPLE_TREES,
        subsample_depth=DEMO_SUBSAMPLE_DEPTH,
    )
    _check(args, records, methods, [args.epsilon])
    splits = f"{args.repeats} random splits" if args.repeats > 1 else "a random split"
    print_wrapped(
        f"Which of {records.schema.n_classes} classes does a car belong to? A private "
        "forest (PrivateForestClassifier, `fit --method private`) has nothing to set. "
        "It, and beside it the methods of matrix random forests with "
        f"{how_many(args.n_trees)} trees of depth {args.depth} (subsample-aggregate: "
        f"{DEMO_SUBSAMPLE_TREES} of depth {DEMO_SUBSAMPLE_DEPTH}) train on "
        f"{len(records.y) - n_test:,} cars and are tested on {n_test}, in {splits}."
    )
    print_wrapped(
        "The attributes, the classes and the cars to predict are public; the training "
        f"cars are private, at ε = {epsilon} for one car more or less in each line of "
        "the table. The private forest draws small trees, labels included, by the "
        "exponential mechanism. All other trees are public, grown at random, and only "
        "counts of cars in their leaves are released, with Laplace noise."
    )
    print(flush=True)
    _warm_up(list(METHODS))
    found = evaluation.evaluate(
        records,
        methods,
        [args.epsilon],
        repeats=args.repeats,
        seed=args.seed,
        progress=sys.stderr.isatty(),
    )
    summaries = evaluation.summarize(found.trials)
    print(evaluation.comparison_table(summaries, width=_table_width()))
    print()
    _print_skipped(found, args)
    print_wrapped(
        "Expected error is the sum of the squared noise of all released answers, in "
        "counts², and ± per answer its root mean square, in counts. Compare them where "
        "the same answers are released: batch training with Laplace, shared data. "
        "Where a car counts in one tree only (Laplace, disjoint data and "
        "subsample-aggregate) the noise is small, but so are the counts.",
        bullet=True,
    )
    leaves = [
        trial.n_answers // records.schema.n_classes
        for trial in found.trials
        if trial.method.name == "training"
    ]
    if leaves and args.n_trees != math.inf:
        print_wrapped(
            f"Where the gain comes from: a car is in {args.n_trees} leaves, one per "
            f"tree, so plain Laplace noise has scale {args.n_trees}/ε on each of the "
            f"{leaves[0]:,} leaves; the matrix mechanism measures every car once, with "
            "noise of scale 1/ε, and derives all leaves from that.",
            bullet=True,
        )
    print_wrapped(NOT_PRIVATE, bullet=True)


def _evaluate(args: argparse.Namespace) -> None:
    names = list(METHODS) if "all" in args.methods else args.methods
    settings = _settings(args, names)
    from mmech_rf import evaluation

    if args.plot is not None:
        evaluation.check_plot_path(args.plot)
    for path in (args.plot, args.csv):
        if path is not None:
            check_new(args, path)
    records = evaluation.load_records(
        opened(args, args.data), args.schema, missing=args.missing, **csv_format(args)
    )
    methods = evaluation.make_methods(names, **settings)
    _check(args, records, methods, args.epsilon)
    _warm_up(names, quiet=args.quiet)
    found = evaluation.evaluate(
        records,
        methods,
        args.epsilon,
        repeats=args.repeats,
        seed=args.seed,
        progress=sys.stderr.isatty() and not args.quiet,
    )
    title = records.name
    if set(names) & set(FORESTS):
        trees = settings.get("n_trees", DEMO_TREES)
        title += f", {how_many(trees)} trees, depth {settings.get('depth', 'auto')}"
    if settings.get("splits", "multiway") != "multiway":
        title += f", {args.splits} splits"
    spread = "mean ± std over " if args.repeats > 1 else ""
    splits = f"{args.repeats} random 80/20 split{'s' if args.repeats > 1 else ''}"
    print(f"{title}: test accuracy, {spread}{splits} of {len(records.y):,} records\n")
    if found.trials:
        summaries = evaluation.summarize(found.trials)
        print(evaluation.accuracy_table(summaries))
        print()
        if args.csv is not None:
            evaluation.write_csv(args.csv, found.trials)
        if args.plot is not None:
            evaluation.plot_accuracy(summaries, args.plot, title=title)
    _print_skipped(found, args)
    _print_notes(records)


def _settings(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings that were given; raise for one that no method has."""
    settings = {}
    for name, methods in SETTINGS.items():
        value = getattr(args, name)
        if value is None:
            continue
        if not set(methods) & set(names):
            raise InputError(
                f"{as_option(name)} is a setting of {', '.join(methods)}, and "
                "none is compared; leave it out, or add one to --methods"
            )
        settings[name] = value
    return settings


def _check(
    args: argparse.Namespace,
    records: Records,
    methods: Sequence[Method],
    epsilons: Sequence[Fraction],
) -> None:
    """Raise for a wrong setting before kernels are compiled and anything is fitted."""
    from mmech_rf import evaluation

    words = getattr(args, "words", {})
    for method in methods:
        args.words = words | (SUBSAMPLE_WORDS if method.name == "subsample" else {})
        evaluation.check_method(method, records.schema, epsilons)
    args.words = words


def how_many(n_trees: float) -> str:
    return "all multiway" if n_trees == math.inf else str(n_trees)


def _warm_up(names: Sequence[str], *, quiet: bool = False) -> None:
    """Compile or load all kernels first, so that no method pays for it."""
    from mmech_rf import evaluation

    if not quiet:
        say("preparing kernels (compiled on the first run only) ... ", end="")
    seconds = evaluation.warm_up(names)
    if not quiet:
        say(f"{seconds:.1f} s")


def _print_skipped(found: Evaluation, args: argparse.Namespace) -> None:
    for label, error in found.skipped.items():
        reason = in_options(error, args)
        print_wrapped(f"Skipped {label}: {reason}.", bullet=True)


def _print_notes(records: Records) -> None:
    if records.n_dropped:
        print_wrapped(
            f"{records.n_dropped:,} records with missing values were left out.",
            bullet=True,
        )
    if records.caveat is not None:
        print_wrapped(records.caveat, bullet=True)
    print_wrapped(NOT_PRIVATE, bullet=True)


def _table_width() -> int:
    """Return the width of a terminal; files and pipes take any table."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
