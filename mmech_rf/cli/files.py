"""Files that commands read and write: csv tables, models, schemas."""

from __future__ import annotations

import argparse
import csv
import filecmp
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mmech.cli.files import (
    add_csv,
    csv_format,
    opened,
    read_header,
    writing,
)
from mmech.terminal import InputError
from mmech.threads import say, showing
from mmech_rf.cli.common import add

if TYPE_CHECKING:
    from mmech_rf.estimator.base import ForestClassifier
    from mmech_rf.schema import Schema


def add_output(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add ``--out`` and ``--force``."""
    add(command, "--out", metavar="FILE", required=required)
    add(command, "--force", action="store_true")


def add_columns(command: argparse.ArgumentParser) -> None:
    """Add how a csv file is read, and the policy for columns outside the schema."""
    add_csv(command)
    add(command, "--extra-columns", choices=("ignore", "error"), default="ignore")


def _unread_columns(args: argparse.Namespace, path: str, schema: Schema) -> str:
    """Return a remark on columns outside the schema, if any; or raise for them."""
    known = {*schema.feature_names, *schema.required, schema.target}
    extra = [name for name in read_header(args, path, schema) if name not in known]
    if not extra:
        return ""
    named = [repr(name) if name else "one without a name" for name in extra[:5]]
    shown = ", ".join(named) + (", ..." if len(extra) > 5 else "")
    if args.extra_columns == "error":
        raise InputError(
            f"{path!r} has {len(extra)} columns that the schema does not name: "
            f"{shown}; remove them, or leave --extra-columns at ignore"
        )
    return f"columns of {path!r} that the schema does not name are not read: {shown}"


def count_records(args: argparse.Namespace, path: str, model: ForestClassifier) -> None:
    """Count records with their classes; wrong values are errors that name the file."""
    from mmech.domain.parts import file_of, read
    from mmech.exceptions import located

    schema = model.schema
    assert schema is not None
    remark = _unread_columns(args, path, schema)
    model._check_parameters()
    if "drop" in (model.handle_unknown, model.handle_missing):
        say(
            "records that are dropped count in no answer, and how many they are is "
            "not released; `mmech tables` with the same option releases their number"
        )
    with showing(lambda: "reading"):
        for part in read(opened(args, path), schema, **csv_format(args)):
            with located(f"cannot use the data {file_of(part, path)!r}"):
                model.count(*part[:2], chunk_id=part.chunk_id)
    if remark:
        say(remark)


def answers_to_queries(
    args: argparse.Namespace, path: str, model: Any, *, proba: bool = False
) -> Any:
    """Predict classes of queries in a file, or the probabilities of all classes.

    A class column is not looked at.
    """
    from mmech.domain.parts import read_whole
    from mmech.exceptions import located

    schema = model.schema_
    remark = _unread_columns(args, path, schema)
    with showing(lambda: "reading and predicting"):
        data = read_whole(
            opened(args, path), schema, with_target=False, **csv_format(args)
        ).X
        with located(f"cannot use the data {path!r}"):
            answer = model.predict_proba if proba else model._encode_queries
            answers = answer(data)
        if not proba:
            answers = model._labels(answers)
    if remark:
        say(remark)
    return answers


def same_content(first: str, second: str) -> bool:
    """Whether two files are one, or byte for byte the same."""
    if "-" in (first, second) or os.path.isdir(first) or os.path.isdir(second):
        return first == second
    return os.path.samefile(first, second) or filecmp.cmp(first, second, shallow=False)


def write_table(path: str | None, header: Iterable[Any], rows: Iterable[Any]) -> None:
    """Write rows, such as one label each, under names of columns."""
    with writing(path) as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
