"""Strict reading of csv files: every line is a record, and every line must parse.

A lenient reader decides what one record is by the records around it: a quote that is
never closed makes one record of all lines up to the next quote. Here such a line is an
error that names its number, never what it holds.
"""

from __future__ import annotations

import csv
import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from mmech.exceptions import ParameterError

__all__ = ["read_header", "read_rows"]


def read_header(path: str | os.PathLike[str], *, multiline: bool = False) -> list[str]:
    """Return the names of the columns; nothing below them is looked at."""
    with _opened(path) as stream:
        return next((fields for _, fields in _records(stream, multiline=multiline)), [])


def read_rows(
    path: str | os.PathLike[str], wanted: Sequence[str], *, multiline: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of every record, and its wanted fields.

    Parameters
    ----------
    path : path
        Compressed with gzip where it ends in ``.gz``.
    wanted : sequence of str
        Names of columns. All fields of a line are read, the wanted ones returned.
    multiline : bool, default=False
        Whether quoted fields may hold line breaks.

    Raises
    ------
    ValueError
        If a column is missing or there twice, or a line does not parse.
    """
    with _opened(path) as stream:
        records = _records(stream, multiline=multiline)
        header = next((fields for _, fields in records), [])
        for name in wanted:
            if (count := header.count(name)) != 1:
                found = f"{count} columns" if count else "no column"
                raise ValueError(
                    f"the header of the file has {found} named {name!r}, but the "
                    "schema needs exactly one; rename the column or use another schema"
                )
        positions = [header.index(name) for name in wanted]
        for number, fields in records:
            if not fields:  # an empty line
                continue
            if len(fields) != len(header):
                raise ValueError(
                    f"line {number} of the file has {len(fields)} fields but the "
                    f"header has {len(header)}; correct the line or quote its "
                    "separators"
                )
            yield number, [fields[position] for position in positions]


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    opener = gzip.open if os.fspath(path).endswith(".gz") else open
    # Bytes that are not UTF-8 become surrogates, for `_decoded` to find in their line.
    with opener(
        path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=""
    ) as stream:
        try:
            yield stream
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise ValueError(
                "the file is not a gzip file, or is damaged or cut off; compress or "
                "copy it again"
            ) from None


def _records(stream: TextIO, *, multiline: bool) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of every record, and all its fields."""
    reader = csv.reader(_decoded(stream), strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            cut_off = str(error).startswith(("unexpected end", "field larger"))
            if cut_off or reader.line_num > number:
                raise _quote_error(number, multiline=multiline) from None
            raise ValueError(
                f"line {number} of the file has text after a closing quote, or a "
                "carriage return inside of a field; put such fields in quotes, and "
                "write each quote in them twice"
            ) from None
        if reader.line_num > number and not multiline:
            raise _quote_error(number, multiline=False)
        yield number, fields


def _quote_error(number: int, *, multiline: bool) -> ValueError:
    if multiline:
        return ValueError(
            f"line {number} of the file begins a record with a quote that is not "
            f"closed within {csv.field_size_limit():,} characters, or not followed by "
            "a separator; close it, and write each quote in a field twice"
        )
    return ParameterError(
        "multiline",
        f"line {number} of the file opens a quote that is not closed on the same "
        "line, which is for {multiline=True}",
        remedy=(
            "close it",
            "read with {multiline=True} a file whose fields hold line breaks",
        ),
    )


def _decoded(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.isascii():
            try:
                line.encode()
            except UnicodeEncodeError:
                raise ValueError(
                    f"line {number} of the file is not encoded in UTF-8; save the file "
                    "in that encoding"
                ) from None
        yield line
