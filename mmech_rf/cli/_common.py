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
from typing import NoReturn

__all__ = [
    "PROG",
    "InputError",
    "Parser",
    "add_command",
    "add_forest",
    "check_writable",
    "read_depth",
    "read_epsilon",
    "print_wrapped",
    "say",
    "whole",
]

PROG = "mmech-rf"
SPLITS = ("multiway", "binary", "threshold")


class InputError(ValueError):
    """What the user typed cannot be used."""


class Parser(argparse.ArgumentParser):
    """Raises instead of printing usage and ending the interpreter."""

    def error(self, message: str) -> NoReturn:
        """Raise, to be reported in one sentence."""
        raise InputError(f"{message}; see {self.prog} --help")


def say(message: str, end: str = "\n") -> None:
    print(message, end=end, file=sys.stderr, flush=True)


def print_wrapped(text: str, *, bullet: bool = False) -> None:
    width = min(100, shutil.get_terminal_size().columns) if sys.stdout.isatty() else 100
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


def check_writable(path: str) -> None:
    """Raise before the work starts, rather than after it."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InputError(f"cannot write {path!r}: there is no folder {folder!r}")
    if os.path.isdir(path):
        raise InputError(f"cannot write {path!r}: it is a folder")
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise InputError(f"cannot write {path!r}: permission denied")


# ---- options ---------------------------------------------------------------


def add_command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: Callable[[argparse.Namespace], None],
    *,
    short: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    command = commands.add_parser(
        name,
        help=short,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.set_defaults(run=run)
    return command


def add_forest(command: argparse.ArgumentParser, *, depth: str) -> None:
    command.add_argument(
        "--trees",
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
        return whole(1)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or inf") from None


def read_depth(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return whole(0)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"it must be a whole number >= 0 or auto, got {text!r}"
        ) from None


def read_epsilon(text: str) -> Fraction:
    from mmech._validation import check_epsilon

    try:
        return check_epsilon(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
