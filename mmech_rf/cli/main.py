"""The entry point: reads the arguments, runs a command, words what went wrong."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from mmech_rf.cli.common import PROG, Parser, in_options, paragraphs, say
from mmech_rf.cli.compare import add_demo, add_evaluate
from mmech_rf.cli.models import add_fit, add_predict, add_predict_batch, add_recipes
from mmech_rf.cli.schemas import add_schema
from mmech_rf.cli.show import add_show

__all__ = ["main"]

_DESCRIPTION = """\
Random forests under differential privacy, on the matrix mechanism.

All randomness that protects records comes from the operating system, so two
runs differ; --seed fixes the forests and the splits only. Input and output files
are csv with a header row, plain or .gz.
"""
_EXAMPLES = f"""\
examples:
  {PROG} demo
      compare all methods on 1,728 cars at ε = 1, in a few seconds
  {PROG} evaluate --data car --epsilon 0.5 1 2 --plot car.png
      the private forest at three budgets, mean ± std over 10 splits, as table
      and picture
  {PROG} evaluate --data mine.csv --schema mine.json --csv results.csv
      your own records; the schema lists public categories, bounds and classes
  {PROG} schema suggest mine.csv --out mine.json
      a schema to fill in, from the names of the columns only
  {PROG} fit mine.csv --schema mine.json --epsilon 1 --out mine.npz
  {PROG} predict mine.npz new.csv --out labels.csv
      release a model once, and predict with it as often as you like
  {PROG} show mine.npz --html mine.html
      what the model says, and what it cost, as a page

`{PROG} COMMAND --help` explains the options of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.

    Returns
    -------
    int
        Exit code: 0, 2 for wrong input, 130 where it was interrupted.
    """
    if sys.stdout is None:
        return _fail("there is no standard output to write to; redirect it to a file")
    if hasattr(sys.stdout, "reconfigure"):  # terminals that do not know ε or ±
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has gone
        _drop_output()
        return 1
    except OSError as error:  # a full disk; files are named where they are written
        _drop_output()
        return _fail(f"cannot write the output: {error.strerror or error}")
    return code


def _run(argv: Sequence[str] | None) -> int:
    """Run a command; what it raises beside errors of the output is worded here."""
    args = argparse.Namespace()
    try:
        parser = _parser()
        args = parser.parse_args(argv)
        if args.version:
            from mmech import __version__

            print(f"{PROG} {__version__}")
        elif args.run is None:
            parser.print_help()
        else:
            args.run(args)
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except KeyboardInterrupt:
        say(f"{PROG}: interrupted")
        return 130
    except OSError as error:
        if error.filename:
            return _fail(f"cannot open {str(error.filename)!r}: {error.strerror}")
        if error.errno is None:  # worded by us: files to write, sets to fetch
            return _fail(str(error))
        raise
    except ValueError as error:
        return _fail(in_options(error, args))
    return 0


def _drop_output() -> None:
    """Send what is still in the buffer nowhere, so that nothing fails at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str) -> int:
    say(f"{PROG}: error: {' '.join(message.split())}")
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=PROG,
        description=paragraphs(_DESCRIPTION),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="store_true", help="print the version and end"
    )
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    add_demo(commands)
    add_evaluate(commands)
    add_fit(commands)
    add_predict(commands)
    add_predict_batch(commands)
    add_show(commands)
    add_recipes(commands)
    add_schema(commands)
    return parser
