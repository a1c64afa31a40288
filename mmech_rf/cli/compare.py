"""The commands that compare methods: ``demo`` and ``evaluate``.

Only parsing and printing; what they do is in `mmech_rf.evaluation`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from mmech.cli.files import add_csv, csv_format, opened
from mmech.terminal import InputError, Parser, print_wrapped, read_epsilon, whole
from mmech_rf.cli.common import HELP, add, add_forest, as_option, in_options
from mmech_rf.methods import METHODS, VOTINGS

DEFAULT_METHODS = ("private", "majority")

SETTINGS = ("n_trees", "depth", "splits", "voting")
"""Options that set a parameter of the methods that have it."""

NOT_PRIVATE = (
    "The test accuracies above are themselves not private: they come from the records "
    "without noise. Publish them for public data only."
)


def add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command that compares all methods on built-in data."""
    command = HELP.command(commands, "demo", _evaluate)
    _add_comparison(command, repeats=3)
    command.set_defaults(data="car", schema=None, methods=["all"], voting=None)
    command.set_defaults(missing="error", quiet=False)


def add_evaluate(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command that measures accuracy at several budgets."""
    command = HELP.command(commands, "evaluate", _evaluate)
    command.set_defaults(
        words={"handle_missing": "--missing drop", "schema_file": "--schema"}
    )
    add(command, "--data", required=True, metavar="NAME|CSV")
    add(command, "--schema", metavar="FILE")
    add(command, "--missing", choices=("error", "drop"), default="error")
    add_csv(command)
    names = {"nargs": "+", "default": list(DEFAULT_METHODS), "metavar": "METHOD"}
    add(command, "--methods", choices=("all", *METHODS), **names)
    add(command, "--voting", choices=VOTINGS)
    _add_comparison(command, repeats=10)
    add(command, "--quiet", action="store_true")


def _add_comparison(command: argparse.ArgumentParser, *, repeats: int) -> None:
    budgets = {"nargs": "+", "default": [Fraction(1)], "metavar": "E"}
    add(command, "--epsilon", type=read_epsilon, **budgets)
    add_forest(command)
    add(command, "--repeats", type=whole(1), default=repeats, metavar="N")
    add(command, "--seed", type=whole(0, 2**31), default=0, metavar="N")
    command.set_defaults(**dict.fromkeys(SETTINGS))


# ---- the comparison --------------------------------------------------------


def _evaluate(args: argparse.Namespace) -> None:
    names = list(METHODS) if "all" in args.methods else args.methods
    settings = _settings(args, names)
    from mmech_rf import evaluation

    is_demo = not hasattr(args, "sep")  # whose records are built in
    form = {} if is_demo else csv_format(args)
    records = evaluation.load_records(
        opened(args, args.data), args.schema, missing=args.missing, **form
    )
    result = evaluation.evaluate(
        records,
        evaluation.make_methods(names, **settings),
        args.epsilon,
        repeats=args.repeats,
        seed=args.seed,
        progress=sys.stderr.isatty() and not args.quiet,
    )
    title = ", ".join(
        [records.name, *(f"{as_option(n)[2:]} {v}" for n, v in settings.items())]
    )
    spread = "mean ± std over " if args.repeats > 1 else ""
    splits = f"{args.repeats} random 80/20 split{'s' if args.repeats > 1 else ''}"
    print(f"{title}: test accuracy, {spread}{splits} of {len(records.y):,} records\n")
    if result.trials:
        print(evaluation.accuracy_table(result.trials))
        print()
        if not is_demo:
            classes = records.schema.class_labels
            print(evaluation.recall_table(result.trials, classes))
            print()
    remarks: list[str | None] = [
        f"Skipped {label}: {in_options(error, args)}."
        for label, error in result.skipped.items()
    ]
    if records.n_dropped:
        remarks.append(
            f"{records.n_dropped:,} records with missing values were left out."
        )
    for remark in (*remarks, records.caveat, NOT_PRIVATE):
        if remark is not None:
            print_wrapped(remark, bullet=True)


def _settings(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the settings that were given; raise for one that no method has."""
    settings = {}
    for name in SETTINGS:
        value = getattr(args, name)
        if value is None:
            continue
        if not any(name in METHODS[method].options for method in names):
            takers = [row.name for row in METHODS.values() if name in row.options]
            raise InputError(
                f"{as_option(name)} is a setting of {', '.join(takers)}, and "
                "none is compared; leave it out, or add one to --methods"
            )
        settings[name] = value
    return settings
