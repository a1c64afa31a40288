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
from mmech.terminal import Help, in_words, whole
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

ONLY_OF_SOME = ("n_records", "settings", "recipe", "private_bins")
"""Parameters whose help names the methods that have them."""

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

FILLED_IN = {
    "prog": PROG,
    "table": TABLE,
    "built_in": ", ".join(BUILT_IN),
    "downloaded": ", ".join(name for name in CATALOGUE if name not in BUILT_IN),
    "methods": listed_methods(),
    "methods_fit": listed_methods("fit"),
    "methods_batch": listed_methods("predict-batch"),
    **{f"with_{option}": among(option) for option in ONLY_OF_SOME},
}
"""What names in ``help.toml`` stand for."""

HELP = Help("mmech_rf", **FILLED_IN)
add = HELP.add


def add_forest(command: argparse.ArgumentParser) -> None:
    """Add the options of a random forest."""
    add(command, "--trees", dest="n_trees", type=read_trees, default=128, metavar="N")
    add(command, "--depth", type=read_depth, default="auto", metavar="D")
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
