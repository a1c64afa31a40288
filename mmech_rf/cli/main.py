"""The entry point: the parser of all commands, and the run of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmech.cli.schemas import Described, add_schema
from mmech.terminal import command_line, run_command
from mmech_rf.cli.common import PROG, in_options
from mmech_rf.cli.compare import add_demo, add_evaluate
from mmech_rf.cli.models import add_fit, add_predict, add_predict_batch, add_recipes
from mmech_rf.cli.show import add_show

if TYPE_CHECKING:
    from mmech_rf.schema import Schema

_DESCRIPTION = """\
Random forests under differential privacy, on the matrix mechanism.

All randomness that protects records comes from the operating system, so two
runs differ; --seed fixes the forests and the splits only. Input files are csv
with a header row, plain or .gz, or Parquet, or folders of them.
"""
_EXAMPLES = f"""\
examples:
  {PROG} demo
      compare all methods on 1,728 cars at ε = 1; the first time takes a minute
  {PROG} evaluate --data car --epsilon 0.5 1 2
      the private forest at three budgets, mean ± std over 10 splits
  {PROG} evaluate --data mine.csv --schema mine.json
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
    return run_command(PROG, build_parser, argv, in_options)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser, commands = command_line(PROG, _DESCRIPTION, _EXAMPLES)
    for add in (
        add_demo,
        add_evaluate,
        add_fit,
        add_predict,
        add_predict_batch,
        add_show,
        add_recipes,
    ):
        add(commands)
    add_schema(commands, Described(PROG, "schema", _read_schema))
    return parser


def _read_schema(path: str) -> Schema:
    from mmech_rf.evaluation import read_schema

    return read_schema(path)
