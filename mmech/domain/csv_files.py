"""Csv files, read strictly: every line is a record, and every line must parse.

A lenient reader decides what one record is by the records around it: a quote that is
never closed makes one record of all lines up to the next quote. Here this line is an
error that names its number, never its content.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from io import TextIOWrapper
from typing import Any, BinaryIO, TextIO, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_text, nearest
from mmech.domain.frames import columns_named
from mmech.exceptions import ParameterError

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file that can be read from its beginning again."""


class CsvFormat(TypedDict, total=False):
    """How a csv file is written.

    Attributes
    ----------
    multiline : bool, default=False
        Whether quoted fields may hold line breaks.
    sep : str, default=","
        Character between the fields.
    encoding : str, default="utf-8"
        Name that Python has for the encoding.
    decimal : str, default="."
        Character before the decimals of numbers.
    thousands : str, optional
        Character between groups of digits of numbers.
    na : str or sequence of str, optional
        Texts that stand for a missing value.
    """

    multiline: bool
    sep: str
    encoding: str
    decimal: str
    thousands: str | None
    na: str | Sequence[str]


def check_format(form: CsvFormat) -> None:
    """Raise for an option that no csv file has."""
    known = CsvFormat.__annotations__
    for name in form:
        if name not in known:
            hint = nearest(name, known, f"choose from {', '.join(known)}")
            raise TypeError(f"there is no option {name!r} of csv files; {hint}")


def read_header(source: Source, **form: Unpack[CsvFormat]) -> list[str]:
    """Return the names of the columns; nothing below them is looked at."""
    with _records(source, form) as records:
        return next((fields for _, fields in records), [])


def read_rows(
    source: Source,
    wanted: Sequence[str],
    numbers: Collection[str] = (),
    **form: Unpack[CsvFormat],
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of every record, and its wanted fields.

    A file is compressed with gzip where its name ends in ``.gz``. All fields of a line
    are read, those of the wanted columns returned, numbers in the columns `numbers` as
    Python writes them; see `CsvFormat` for options. Raises `ValueError` if a column is
    missing or there twice, or a line does not parse.
    """
    usual = usual_form(form)
    with _records(source, form) as records:
        header = next((fields for _, fields in records), [])
        for name in wanted:
            if header.count(name) != 1:
                near = [mark for mark in ";\t|," if mark in "".join(header)]
                if len(header) == 1 and near:
                    raise ParameterError(
                        "sep",
                        f"the header of the file is one column at this {{sep}}, with "
                        f"{near[0]!r} in its name, and no column named {name!r}",
                        remedy=(f"pass {{sep={near[0]!r}}}", "rename the column"),
                    )
                raise column_error(name, header, wanted)
        positions = [header.index(name) for name in wanted]
        for number, fields in records:
            if not fields:
                if len(header) > 1:  # an empty line
                    continue
                fields = [""]
            if len(fields) != len(header):
                remedy = "correct the line or quote its separators"
                if len(fields) == len(header) + 1:
                    remedy += ", or name the first column, which R leaves unnamed"
                raise ValueError(
                    f"line {number} of the file has {len(fields)} fields but the "
                    f"header has {len(header)}; {remedy}"
                )
            cells = [fields[position] for position in positions]
            if usual is not None:
                cells = [
                    usual(cell, number=name in numbers)
                    for name, cell in zip(wanted, cells, strict=True)
                ]
            yield number, cells


def usual_form(form: CsvFormat) -> Callable[..., str] | None:
    """Return what writes a field in the usual form, or None where all fields are."""
    decimal, thousands = form.get("decimal", "."), form.get("thousands")
    na = form.get("na") or ()
    na = (na,) if isinstance(na, str) else na
    for name, mark in (("decimal", decimal), ("thousands", thousands)):
        if mark is not None and (
            not isinstance(mark, str) or len(mark) != 1 or mark.isalnum()
        ):
            raise ParameterError(
                name, "must be one character, no letter and no digit", repr(mark)
            )
    if decimal == thousands:
        raise ParameterError(
            "thousands", "must be another character than {decimal}", repr(thousands)
        )
    if decimal == "." and thousands is None and not na:
        return None
    # A point that is no decimal mark must not be read as one: it takes its place.
    swapped = str.maketrans({".": decimal, decimal: "."})
    # Groups of three digits, or of two before one of three, as in 12,34,567.
    mark = re.escape(thousands or "")
    grouped = re.compile(
        rf"\s*[+-]?(?!0)(?:\d{{1,3}}(?:{mark}\d{{3}})+|"
        rf"\d{{1,2}}(?:{mark}\d\d)+{mark}\d{{3}})(?:{re.escape(decimal)}\d*)?\s*"
    )

    def usual(cell: str, *, number: bool) -> str:
        if cell in na:
            return ""
        if not number:
            return cell
        if thousands and grouped.fullmatch(cell):
            cell = cell.replace(thousands, "")
        return cell.translate(swapped)

    return usual


def column_error(name: str, header: Sequence[str], wanted: Sequence[str]) -> ValueError:
    """Return the error for a wanted column that is missing in a file, or there twice.

    It suggests none that is wanted itself.
    """
    if not header:
        return ValueError("the file is empty; its first line must name the columns")
    count = header.count(name)
    others = () if count else [other for other in header if other not in wanted]
    remedy = "keep one of them" if count else "add it, or rename the one that holds it"
    return ValueError(
        f"the header of the file has {columns_named(count)} named {name!r}, but "
        f"exactly one is needed; {nearest(name, others, remedy)}"
    )


def read_cells(
    source: Source,
    wanted: Sequence[str],
    numbers: Collection[str] = (),
    **form: Unpack[CsvFormat],
) -> NDArray[np.object_]:
    """Return some columns of a csv file as text, shape (N, len(wanted))."""
    rows = [fields for _, fields in read_rows(source, wanted, numbers, **form)]
    cells = np.empty((len(rows), len(wanted)), dtype=object)
    if rows:
        cells[:] = rows
    return cells


@contextmanager
def _opened(source: Source, encoding: str) -> Iterator[TextIO]:
    # Bytes of another encoding become surrogates, for `_decoded` to find in their line.
    options: Any = {"errors": "surrogateescape", "newline": ""}
    options["encoding"] = "utf-8-sig" if encoding.lower() == "utf-8" else encoding
    given: Any = source
    is_path = isinstance(source, (str, os.PathLike))
    try:
        with open(given, "rb") if is_path else nullcontext(given) as file:
            file.seek(0)
            if is_path and os.fspath(given).endswith(".gz"):
                file = gzip.GzipFile(fileobj=file)
            else:
                remedy = "save it as csv, or if it is Parquet or gzip, name it so"
                check_text(file.read(64), "the file", remedy)
                file.seek(0)
            wrapper = TextIOWrapper(file, **options)
            try:
                yield wrapper
            finally:
                wrapper.detach()  # it would close what others still read
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(
            "the file is not a gzip file, or is damaged or cut off; compress or "
            "copy it again"
        ) from None
    except UnicodeError:
        raise _not_decoded("the file", encoding) from None


@contextmanager
def _records(
    source: Source, form: CsvFormat
) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Open a file, for the number of the first line of every record, and its fields."""
    check_format(form)
    sep, encoding = form.get("sep", ","), form.get("encoding", "utf-8")
    if not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n':
        raise ParameterError(
            "sep", "must be one character, no quote and no line break", repr(sep)
        )
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise ParameterError(
            "encoding", "must be one that Python knows, such as utf-8", repr(encoding)
        ) from None
    multiline = form.get("multiline", False)
    with _opened(source, encoding) as stream:
        last = [""]
        lines = _decoded(stream, encoding, last)
        reader = csv.reader(lines, strict=True, delimiter=sep)
        yield _parsed(reader, last, multiline=multiline)


def _parsed(
    reader: Any, last: list[str], *, multiline: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield records; `last` holds the line that was read last, for errors."""
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
            marks = [m for m in ";\t|," if f'"{m}' in last[0] or f'{m}"' in last[0]]
            if marks and reader.dialect.delimiter not in marks:
                raise ParameterError(
                    "sep",
                    f"line {number} of the file has {marks[0]!r} beside its quotes, "
                    f"but {{sep}} is {reader.dialect.delimiter!r}",
                    remedy=(f"pass {{sep={marks[0]!r}}}", "correct the quotes"),
                ) from None
            raise ValueError(
                f"line {number} of the file has text after a closing quote, or a "
                "carriage return inside of a field; quote the field, and "
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


def _decoded(lines: Iterable[str], encoding: str, last: list[str]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        last[0] = line
        if not line.isascii():
            try:
                line.encode()
            except UnicodeEncodeError:
                raise _not_decoded(f"line {number} of the file", encoding) from None
        yield line


def _not_decoded(what: str, encoding: str) -> ParameterError:
    return ParameterError(
        "encoding",
        f"{what} is not encoded in {encoding.upper()}, the {{encoding}} to read it in",
        remedy=("save the file in that encoding", "name its own with {encoding=}"),
    )
