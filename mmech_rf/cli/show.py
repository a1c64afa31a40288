"""The command that shows a saved model: as text, a page or a card."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmech.cli.files import check_new
from mmech.terminal import Parser, print_wrapped, whole
from mmech_rf.cli.common import add, add_command

if TYPE_CHECKING:
    from mmech_rf.estimator.base import ForestClassifier


LISTED = 15
"""Attributes whose importances the text lists."""


def add_show(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``show``."""
    command = add_command(commands, "show", _show)
    add(command, "model", metavar="MODEL")
    form = command.add_mutually_exclusive_group()
    add(form, "--html", metavar="FILE")
    add(form, "--json", action="store_true")
    shown = {"dest": "shown_trees", "type": whole(1, 1000), "default": 10}
    add(command, "--trees", metavar="N", **shown)
    add(command, "--force", action="store_true")


def _show(args: argparse.Namespace) -> None:
    if args.html is not None:
        check_new(args, args.html)
    from mmech.writing import replacing
    from mmech_rf import load_model

    model: Any = load_model(args.model)
    if args.json:
        print(json.dumps(model.card(), indent=2))
    elif args.html is not None:
        name = Path(args.model).stem
        page = model.to_html(n_trees=args.shown_trees, title=name)
        with replacing(args.html) as unfinished:
            unfinished.write_text(page, encoding="utf-8")
    else:
        _print(model, args.shown_trees)


def _print(model: ForestClassifier, n_trees: int) -> None:
    from mmech_rf.show.page import opening

    for line in opening(model.card()):
        print_wrapped(line)
    print()
    print(model.describe(n_trees=n_trees))
    print("\nimportances, for made-up records spread evenly over the schema:")
    for name, share in model.named_importances()[:LISTED]:
        print(f"  {share:6.1%}  {name}")
    print()
    for line in model.privacy_statement_.splitlines():
        print_wrapped(line.strip(), bullet=True)
