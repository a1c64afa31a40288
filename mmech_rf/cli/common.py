"""What the commands share: options, their types, and output for people."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

from mmech_rf.methods import METHODS

__all__ = [
    "MAX_BINS",
    "PROG",
    "InputError",
    "Parser",
    "add_command",
    "paragraphs",
    "add_forest",
    "check_new",
    "check_readable",
    "in_options",
    "listed_methods",
    "read_depth",
    "read_epsilon",
    "read_probability",
    "print_wrapped",
    "say",
    "whole",
]

PROG = "mmech-rf"
READ = ("data", "queries", "model", "schema")
"""Arguments that name a file which is read."""

# Repeated here because importing it would make --help slow.
MAX_BINS = 100_000
MAX_TREES = 10**6
SPLITS = ("multiway", "binary", "threshold")


class InputError(ValueError):
    """What the user typed cannot be used."""


class Parser(argparse.ArgumentParser):
    """Raises instead of printing usage and ending the interpreter."""

    def print_help(self, file: Any = None) -> None:
        """Print as everything is printed, where argparse hides that it failed."""
        print(self.format_help(), end="", file=file)

    def error(self, message: str) -> NoReturn:
        """Raise, to be reported in one sentence."""
        raise InputError(f"{message}; see {self.prog} --help")


def say(message: str, end: str = "\n") -> None:
    """Print a message for the person at the terminal, on standard error."""
    print(message, end=end, file=sys.stderr, flush=True)


def print_wrapped(text: str, *, bullet: bool = False) -> None:
    """Print a paragraph in lines that fit the terminal."""
    width = min(79, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 79
    start, indent = ("* ", "  ") if bullet else ("", "")
    print(
        textwrap.fill(
            text,
            width,
            initial_indent=start,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    )


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
    from mmech.exceptions import ParameterError

    if not isinstance(error, ParameterError):
        return str(error)
    words = {**WORDS, **getattr(args, "words", {})}

    def word(name: str, value: str | None) -> str | None:
        option = as_option(name) if hasattr(args, name) else None
        option = words.get(name, option)
        return f"{option} {value}" if option and value not in (None, "True") else option

    return error.render(word)


def check_readable(args: argparse.Namespace) -> None:
    """Raise for a file that cannot be opened, before the library is imported."""
    for name in READ:
        path = getattr(args, name, None)
        if isinstance(path, str) and path != "-":
            with open(path, "rb"):
                pass


def check_new(args: argparse.Namespace, path: str) -> None:
    """Raise, before the work starts, unless a file may be written.

    It must not be one that the command reads, nor exist already without ``--force``.
    """
    from mmech.writing import check_writable

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


def paragraphs(text: str) -> str:
    """Return paragraphs filled to lines that every terminal shows."""
    return "\n\n".join(textwrap.fill(part, 79) for part in text.split("\n\n"))


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


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    *,
    short: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    """Add a command with its help, and return its parser."""
    command = commands.add_parser(
        name,
        help=short,
        description=paragraphs(description),
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


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


def whole(minimum: int, maximum: int = 10**9) -> Callable[[str], int]:
    """Return a reader of whole numbers within limits, for an option."""

    def read(text: str) -> int:
        number = int(text) if text.isascii() and text.isdecimal() else minimum - 1
        if not minimum <= number <= maximum:
            raise argparse.ArgumentTypeError(
                f"it must be a whole number from {minimum} to {maximum:,}, got {text!r}"
            )
        return number

    return read


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


def read_probability(text: str) -> float:
    """Read a number between 0 and 1; where it may be used is checked later."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"it must be a number between 0 and 1, got {text!r}"
        ) from None


def read_epsilon(text: str) -> Fraction:
    """Read an epsilon as the exact fraction that it says."""
    try:  # as nearly all are, without the seconds that the library takes to import
        exact = Fraction(text)
        if 0 < float(exact) < math.inf:
            return exact
    except (ValueError, ArithmeticError):
        pass
    from mmech.checks import check_epsilon

    try:
        return check_epsilon(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
