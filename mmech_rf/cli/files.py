"""Files that commands read and write: csv tables, models, schemas."""

from __future__ import annotations

import argparse
import csv
import filecmp
import gzip
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

from mmech.terminal import InputError, say, showing
from mmech_rf.cli.common import add, check_new, check_readable

if TYPE_CHECKING:
    from mmech.domain.readers import CsvFormat
    from mmech_rf.private.base import ForestClassifier
    from mmech_rf.schema import Schema

__all__ = [
    "answers_to_queries",
    "add_columns",
    "add_csv",
    "add_output",
    "check_output",
    "csv_format",
    "opened",
    "count_records",
    "progress_words",
    "read_header",
    "same_content",
    "write_table",
    "writing",
]


PART = 2**20
"""Rows that are read at a time, where no bound on memory says less."""

PROGRAM = 400 * 2**20
"""Memory: bytes of the program itself, with its libraries, and of what a release takes
whatever the records."""

CELL = 300
"""Memory: bytes of a field in text, with what is read ahead of it."""


def add_output(command: argparse.ArgumentParser, *, required: bool = False) -> None:
    """Add ``--out`` and ``--force``."""
    add(command, "--out", metavar="FILE", required=required)
    add(command, "--force", action="store_true")


def add_columns(command: argparse.ArgumentParser) -> None:
    """Add how a csv file is read, and the policy for columns outside the schema."""
    add_csv(command)
    add(command, "--extra-columns", choices=("ignore", "error"), default="ignore")


def add_csv(command: argparse.ArgumentParser) -> None:
    """Add how csv files are written."""
    add(command, "--sep", type=_read_sep, default=",", metavar="C")
    add(command, "--encoding", default="utf-8", metavar="NAME")
    add(command, "--multiline", action="store_true")


def _read_sep(text: str) -> str:
    return "\t" if text == r"\t" else text


def csv_format(args: argparse.Namespace) -> CsvFormat:
    """Return how the csv files of a command are written."""
    return {"multiline": args.multiline, "sep": args.sep, "encoding": args.encoding}


class _Piped(io.BytesIO):
    """What came through the standard input, to be read more than once."""

    name = "-"


def opened(args: argparse.Namespace, path: str) -> Any:
    """Return a path; of ``-`` the content of the standard input."""
    if path != "-":
        return path
    if not hasattr(args, "piped"):
        args.piped = _Piped(sys.stdin.buffer.read())
    return args.piped


def check_output(args: argparse.Namespace) -> None:
    """Raise before any budget is spent, rather than after it."""
    check_readable(args)
    if args.out is not None:
        check_new(args, args.out)


def read_header(args: argparse.Namespace, path: str) -> list[str]:
    """Return the names of the columns; nothing below them is looked at."""
    from mmech.domain import readers
    from mmech.exceptions import located

    with located(f"cannot use the data {path!r}"):
        header = readers.read_header(opened(args, path), **csv_format(args))
    if not header:
        raise InputError(
            f"the data {path!r} are empty; the first line must name the columns"
        )
    return header


def _unread_columns(args: argparse.Namespace, path: str, schema: Schema) -> str:
    """Return a remark on columns outside the schema, if any; or raise for them."""
    known = {*schema.feature_names, *schema.required, schema.target}
    if os.path.isdir(path) or path.endswith(".parquet"):
        from mmech_rf.reading import columns_of

        header = columns_of(path, **csv_format(args))
    else:
        header = read_header(args, path)
    extra = [name for name in header if name not in known]
    if not extra:
        return ""
    shown = ", ".join(map(repr, extra[:5])) + (", ..." if len(extra) > 5 else "")
    if args.extra_columns == "error":
        raise InputError(
            f"{path!r} has {len(extra)} columns that the schema does not name: "
            f"{shown}; remove them, or leave --extra-columns at ignore"
        )
    return f"columns of {path!r} that the schema does not name are not read: {shown}"


def count_records(args: argparse.Namespace, path: str, model: ForestClassifier) -> None:
    """Count records with their classes; wrong values are errors that name the file."""
    from mmech.exceptions import located
    from mmech_rf.datasets import load_csv
    from mmech_rf.reading import Part, expected_rows, read

    schema = model.schema
    assert schema is not None
    remark = _unread_columns(args, path, schema)
    model._check_parameters()
    if "drop" in (model.handle_unknown, model.handle_missing):
        say(
            "records that are dropped count in no answer, and how many they are is "
            "not released; `mmech tables` with the same option releases their number"
        )
    form, expected = csv_format(args), None
    if path == "-":
        bunch = load_csv(opened(args, path), schema, decode=False, **form)
        rows = len(bunch.target)
        parts = iter([Part(bunch.data, bunch.target, (path, 0, rows))])
    else:
        expected = expected_rows(path)
        rows = _rows_within(args.memory, schema)
        parts = read(path, schema, chunk_rows=rows, **form)
    started, total = time.monotonic(), 0
    with showing(lambda: progress_words(total, expected, time.monotonic() - started)):
        for X, y, chunk_id in parts:
            file = chunk_id[0] if chunk_id else path
            shown = min(file, os.path.relpath(file), key=len)
            with located(f"cannot use the data {shown!r}"):
                model.count(X, y, chunk_id=chunk_id)
            total += len(y)
            _check_memory(args.memory, model._parts.nbytes)
    if remark:
        say(remark)
    if args.show_counts:
        say(
            f"SENSITIVE, outside the privacy guarantee: {model._parts.number:,} of "
            f"{total:,} records of {path!r} are used"
        )


def unlabelled_records(
    args: argparse.Namespace, path: str, model: ForestClassifier
) -> Any:
    """Return records without labels; raise before any budget is spent on them."""
    from mmech.exceptions import located
    from mmech_rf.datasets import load_csv

    schema = model.schema
    assert schema is not None
    if schema.target in read_header(args, path):
        raise InputError(
            f"{path!r} has a column {schema.target!r}, the class, but is for records "
            "without labels; leave the column out, or move the records to the others"
        )
    with located(f"cannot use the data {path!r}"):
        found = load_csv(
            opened(args, path), schema, with_target=False, **csv_format(args)
        ).data
        if not len(found):
            raise ValueError("there are no records in it; give at least one")
        schema.encode(
            found,
            handle_unknown=model.handle_unknown,
            handle_missing=model.handle_missing,
        )
    return found


def progress_words(n_read: int, expected: int | None, seconds: float) -> str:
    """Return how far reading is, for the person at the terminal.

    How many records there are may be private, and is not for who looks over a shoulder.
    """
    if not expected or not n_read:
        return "reading"
    done = min(n_read / expected, 1)
    left = seconds * (1 / done - 1)
    return f"reading: [{'#' * round(20 * done):20}] {done:.0%}, {left:.0f} s left"


def _rows_within(memory: int | None, schema: Schema) -> int:
    """Return how many rows may be read at a time."""
    if memory is None:
        return PART
    rows = (memory - PROGRAM) // (CELL * (schema.n_features + 1))
    return min(PART, max(1000, rows))


def _check_memory(memory: int | None, needed: int) -> None:
    """Raise before anything is released where counts take more than may be used."""
    if memory is not None and needed > memory - PROGRAM:
        raise InputError(
            "the distinct records do not fit into --memory with all that is computed "
            "from them; raise it, or cut attributes into fewer values; nothing was "
            "released"
        )


def answers_to_queries(
    args: argparse.Namespace, path: str, model: Any, *, proba: bool = False
) -> Any:
    """Predict classes of queries in a file, or the probabilities of all classes.

    A class column is not looked at.
    """
    from mmech.exceptions import located
    from mmech_rf.datasets import load_csv

    schema = model.schema_
    remark = _unread_columns(args, path, schema)
    with showing(lambda: "reading and predicting"):
        data = load_csv(
            opened(args, path),
            replace(schema, required=()),
            with_target=False,
            **csv_format(args),
        ).data
        with located(f"cannot use the data {path!r}"):
            answer = model.predict_proba if proba else model._encode_queries
            found = answer(data)
        if not proba:
            found = model._labels(found)
    if remark:
        say(remark)
    return found


def same_content(first: str, second: str) -> bool:
    """Whether two files are one, or byte for byte the same."""
    if "-" in (first, second):
        return first == second
    return os.path.samefile(first, second) or filecmp.cmp(first, second, shallow=False)


@contextmanager
def writing(path: str | None) -> Iterator[TextIO]:
    """Give a stream to the file, whole or not at all, or to the standard output."""
    from mmech.writing import replacing

    if path is None:
        yield sys.stdout
        return
    opening: Any = gzip.open if path.endswith(".gz") else open
    form = {"encoding": "utf-8", "newline": ""}
    with replacing(path) as unfinished, opening(unfinished, "wt", **form) as stream:
        yield stream


def write_table(path: str | None, header: Iterable[Any], rows: Iterable[Any]) -> None:
    """Write rows, such as one label each, under names of columns."""
    with writing(path) as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(header)
        table.writerows(rows)
