"""The entry point: the parser of all commands, and the run of one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmech.cli.schemas import Described, add_schema
from mmech.terminal import run_command
from mmech_rf.cli.common import HELP, PROG, in_options
from mmech_rf.cli.compare import add_demo, add_evaluate
from mmech_rf.cli.models import (
    add_fit,
    add_predict,
    add_predict_batch,
    add_recipes,
    add_show,
)

if TYPE_CHECKING:
    from mmech_rf.schema import Schema


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
    parser, commands = HELP.program(PROG)
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
    classes = HELP.texts["classes"]
    add_schema(commands, Described(PROG, "schema", _read_schema, classes))
    return parser


def _read_schema(path: str) -> Schema:
    from mmech_rf.evaluation import read_schema

    return read_schema(path)
