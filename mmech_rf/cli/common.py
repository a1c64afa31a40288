"""What the commands of forests share: options, their types, and what they call things.

What has nothing to do with forests is in `mmech.terminal`.
"""

from __future__ import annotations

import argparse
import math
import os
import textwrap
from typing import TYPE_CHECKING

from mmech.terminal import InputError, in_words, whole
from mmech.writing import check_writable
from mmech_rf.methods import METHODS, SPLITS

if TYPE_CHECKING:
    from mmech_rf.drawn.settings import DrawnSettings

__all__ = [
    "PROG",
    "add_forest",
    "as_option",
    "check_new",
    "check_readable",
    "in_options",
    "listed_methods",
    "read_depth",
    "read_memory",
    "read_probability",
    "read_settings",
]

PROG = "mmech-rf"
READ = ("data", "queries", "model", "schema")
"""Arguments that name a file which is read."""

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
    "X_unlabelled": "--unlabelled",
    "n_trees": "--trees",
    "random_state": "--seed",
}
"""Options that are called otherwise than the parameter that they set."""


def as_option(name: str) -> str:
    """Return the option that sets a parameter."""
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")


def in_options(error: Exception, args: argparse.Namespace) -> str:
    """Return a message that calls parameters as the options of this command.

    A remedy that no option of this command gives is left out. A command says in
    ``words`` what is not called as in Python; None stands for nothing of that name.
    """
    options = {name: as_option(name) for name in OPTIONS if hasattr(args, name)}
    return in_words(error, args, {**WORDS, **options, **getattr(args, "words", {})})


def check_readable(args: argparse.Namespace) -> None:
    """Raise for a file that cannot be opened, before the library is imported."""
    for name in READ:
        path = getattr(args, name, None)
        folder = name == "data" and isinstance(path, str) and os.path.isdir(path)
        if isinstance(path, str) and path != "-" and not folder:
            with open(path, "rb"):
                pass


def check_new(args: argparse.Namespace, path: str) -> None:
    """Raise, before the work starts, unless a file may be written.

    It must not be one that the command reads, nor exist already without ``--force``.
    """
    target = check_writable(path)
    if not target.exists():
        return
    for name in READ:
        source = getattr(args, name, None)
        if source and os.path.exists(source) and os.path.samefile(source, target):
            raise InputError(
                f"cannot write {path!r}: this command reads it; choose another name"
            )
    if not args.force:
        raise InputError(
            f"{path!r} exists already; choose another name, or overwrite it with "
            "--force"
        )


# ---- options ---------------------------------------------------------------


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


def add_forest(command: argparse.ArgumentParser, *, depth: str) -> None:
    """Add the options of a random forest."""
    command.add_argument(
        "--trees",
        dest="n_trees",
        type=read_trees,
        default=128,
        metavar="N",
        help="number of trees of a forest, or inf: the limit of many multiway trees, "
        "one per subset of attributes (default: 128)",
    )
    command.add_argument(
        "--depth",
        type=read_depth,
        default=read_depth(depth),
        metavar="D",
        help="how many tests there are on a path of a tree, or auto: half of the "
        "attributes, or more of them where attributes can be tested again "
        f"(default: {depth})",
    )
    command.add_argument(
        "--splits",
        choices=SPLITS,
        default="multiway",
        help="multiway: one child per value; binary: equal to a value or not, for "
        "attributes with an order at most a value or above; threshold: ordered "
        "attributes by thresholds, others multiway (default: multiway)",
    )


def read_trees(text: str) -> float:
    if text == "inf":
        return math.inf
    try:
        return whole(1, MAX_TREES)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or inf") from None


def read_depth(text: str) -> int | str:
    """Read a depth, or "auto"."""
    if text == "auto":
        return text
    try:
        return whole(0)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"it must be a whole number >= 0 or auto, got {text!r}"
        ) from None


def read_memory(text: str) -> int:
    """Read a number of bytes, as ``800M`` or ``2G``."""
    units = {"M": 2**20, "G": 2**30}
    number, unit = text[:-1], units.get(text[-1:].upper(), 0)
    try:
        size = int(float(number) * unit)
    except (ValueError, OverflowError):
        size = 0
    if not 500 * 2**20 <= size < 2**50:
        raise argparse.ArgumentTypeError(
            "it must be a number of megabytes or gigabytes, at least 500M, such as 2G, "
            f"got {text!r}"
        )
    return size


def read_settings(text: str) -> DrawnSettings:
    """Read the name of settings for a purpose."""
    if text != "ranking":
        raise argparse.ArgumentTypeError(f'it must be "ranking", got {text!r}')
    from mmech_rf.drawn.settings import DrawnSettings

    return DrawnSettings.for_ranking()


def read_probability(text: str) -> float:
    """Read a number between 0 and 1; where it may be used is checked later."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"it must be a number between 0 and 1, got {text!r}"
        ) from None
