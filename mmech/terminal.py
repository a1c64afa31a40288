"""What command lines share: options, their types, messages, and exit codes."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import textwrap
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib import resources
from string import Template
from typing import Any, NoReturn

from mmech.checks import check_epsilon, nearest
from mmech.exceptions import BudgetExceededError, EntropyError, ParameterError
from mmech.threads import charged, say


class InputError(ValueError):
    """What the user typed cannot be used."""


class Parser(argparse.ArgumentParser):
    """Raises instead of printing usage and ending the interpreter."""

    def print_help(self, file: Any = None) -> None:
        """Print as everything is printed, where argparse hides that it failed."""
        print(self.format_help(), end="", file=file)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Raise for an option that is not there, and name the nearest that is."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hints = map(self._hint, unknown)
            hint = next((f" ({hint})" for hint in hints if hint), "")
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown

    def _hint(self, text: str) -> str:
        """Return what may have been meant by an unknown option."""
        alone = (each.dest for each in self._actions if not each.option_strings)
        if text.startswith("--") and text[2:] in alone:
            return f"{text[2:].upper()} is given without its name"
        return nearest(text, self._option_string_actions, "")

    def error(self, message: str) -> NoReturn:
        """Raise, to be reported in one sentence."""
        raise InputError(f"{message}; see {self.prog} --help")


# ---- output ----------------------------------------------------------------


def printable(text: object) -> str:
    """Return text whose control characters are escaped: names of a file may hold any.

    A terminal obeys some of them, and others turn the direction of what is read.
    """
    plain = str(text)
    if plain.isprintable():
        return plain
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in plain)


def print_wrapped(text: str, *, bullet: bool = False) -> None:
    """Print a paragraph in lines that fit the terminal."""
    text = printable(" ".join(text.split()))
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


def in_words(
    error: Exception, args: argparse.Namespace, words: Mapping[str, str | None]
) -> str:
    """Return a message that calls parameters as the options of a command.

    A remedy of a `ParameterError` that no option gives is left out. `words` is what is
    not called as in Python; None stands for nothing of that name.
    """
    if not isinstance(error, ParameterError):
        return str(error)

    def word(name: str, value: str | None) -> str | None:
        option = f"--{name.replace('_', '-')}" if hasattr(args, name) else None
        option = words.get(name, option)
        if not option or not value or value == "True":
            return option
        return f"{option} {value}" if value[0].isalnum() else f"{option} '{value}'"

    return error.render(word)


# ---- options ---------------------------------------------------------------


def paragraphs(text: str) -> str:
    """Return paragraphs filled to lines that every terminal shows."""
    return "\n\n".join(textwrap.fill(part, 79) for part in text.split("\n\n"))


class Help:
    """What a program says of itself, its commands, and their options and arguments.

    Parameters
    ----------
    package : str
        Has the texts in ``cli/help.toml``, for an option of one command alone under the
        names of both.
    **filled_in : str
        What names after a dollar sign stand for.
    """

    def __init__(self, package: str, **filled_in: str) -> None:
        file = resources.files(package) / "cli" / "help.toml"
        text = Template(file.read_text("utf-8")).substitute(filled_in)
        self.texts: dict[str, Any] = tomllib.loads(text)

    def program(self, prog: str) -> tuple[Parser, argparse._SubParsersAction[Parser]]:
        """Return the parser of a program, and where its commands are added."""
        parser = Parser(prog=prog, **_described(**self.texts["whole"]))
        parser.add_argument(
            "--version", action="store_true", help="print the version and end"
        )
        parser.set_defaults(run=None)
        return parser, parser.add_subparsers(title="commands", metavar="COMMAND")

    def command(
        self,
        commands: argparse._SubParsersAction[Parser],
        name: str,
        run: Callable[[argparse.Namespace], None],
    ) -> argparse.ArgumentParser:
        """Add a command with its help, and return its parser."""
        texts = {**self.texts["commands"][name]}
        short = texts.pop("short")
        command = commands.add_parser(name, help=short, **_described(**texts))
        command.set_defaults(run=run)
        return command

    def add(
        self, command: argparse._ActionsContainer, name: str, **options: Any
    ) -> None:
        """Add an option or argument to a command, with its help and its default."""
        command_name = getattr(command, "prog", "").rpartition(" ")[2]
        texts = self.texts["options"]
        text = texts.get(f"{command_name} {name}") or texts[name]
        default = options.get("default")
        if default is not None and "(default: " not in text:
            values = default if isinstance(default, list) else [default]
            text += f" (default: {' '.join(map(str, values))})"
        command.add_argument(name, help=text, **options)


def _described(description: str, epilog: str) -> dict[str, Any]:
    """Return how a parser shows its texts."""
    return {
        "description": paragraphs(description),
        "epilog": epilog,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }


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


def read_epsilon(text: str) -> Fraction:
    """Read an epsilon, or a rho, as the exact fraction that it says."""
    try:
        return check_epsilon(text, "it")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# ---- running ---------------------------------------------------------------


def run_command(
    prog: str,
    parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str] | None,
    words: Callable[[Exception, argparse.Namespace], str],
) -> int:
    """Run a command, and say in one sentence what went wrong.

    The parser that `parser` makes gives results with ``version`` and ``run``; `words`
    words an error for the options that were read. Returns the exit code: 0, 2 for wrong
    input, 130 where it was interrupted.
    """
    if sys.stdout is None:
        return _fail(
            prog, "there is no standard output to write to; redirect it to a file"
        )
    if hasattr(sys.stdout, "reconfigure"):  # terminals that do not know ε or ±
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run(prog, parser, argv, words)
        sys.stdout.flush()
    except BrokenPipeError as error:  # the reader of the output has gone
        _drop_output()
        if noted := _noted(error):
            say(f"{prog}: nobody reads the output{noted}")
        return 1
    except OSError as error:  # a full disk; files are named where they are written
        _drop_output()
        why = f"{error.strerror or error}{_noted(error)}"
        return _fail(prog, f"cannot write the output: {why}")
    return code


def _run(
    prog: str,
    make_parser: Callable[[], argparse.ArgumentParser],
    argv: Sequence[str] | None,
    words: Callable[[Exception, argparse.Namespace], str],
) -> int:
    """Run a command; what it raises beside errors of the output is worded here."""
    args = argparse.Namespace()
    charged.clear()
    try:
        parser = make_parser()
        args = parser.parse_args(argv)
        if args.version:
            from mmech import __version__

            print(f"{prog} {__version__}")
        elif args.run is None:
            parser.print_help()
        else:
            with warnings.catch_warnings():
                warnings.showwarning = _warner(prog)
                args.run(args)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except KeyboardInterrupt as stop:
        paid = "what it paid for is spent" if charged.is_set() else "nothing was spent"
        say(f"{prog}: interrupted{_noted(stop) or f'; {paid}'}")
        return 130
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("mmech", "mmech_rf"):
            raise
        needs = (
            f"{package} is not installed, which this command needs; run `python -m pip "
            "install mmech`, which installs all that it needs"
        )
        return _fail(prog, needs if package else str(error))
    except OSError as error:
        if error.filename is not None:
            return _fail(prog, f"cannot open {str(error.filename)!r}: {error.strerror}")
        if error.errno is None:  # worded by us: files to write, sets to fetch
            return _fail(prog, f"{error}{_noted(error)}")
        raise
    except MemoryError as error:
        return _fail(prog, f"there is not enough memory{_noted(error)}")
    except (ValueError, BudgetExceededError, EntropyError) as error:
        return _fail(prog, f"{words(error, args)}{_noted(error)}")
    return 0


def _noted(stop: BaseException) -> str:
    """Return what was noted on an exception, such as what is spent."""
    return "".join(f"; {note}" for note in getattr(stop, "__notes__", ()))


def _warner(prog: str) -> Callable[..., None]:
    """Return what shows a warning as a sentence, where Python names its own line."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"{prog}: warning: {printable(' '.join(str(message).split()))}")

    return show


def _drop_output() -> None:
    """Send what is still in the buffer nowhere, so that nothing fails at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(prog: str, message: str) -> int:
    say(f"{prog}: error: {printable(' '.join(message.split()))}")
    return 2
