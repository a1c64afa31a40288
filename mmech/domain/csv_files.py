"""Csv files, read strictly: every line is a record, and every line must parse.

A lenient reader decides what one record is by the records around it: a quote that is
never closed makes one record of all lines up to the next quote. Here one pass over the
bytes finds whole records, or names the line that is wrong, never its content. pyarrow
parses what passed.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import islice
from typing import Any, BinaryIO, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_text, nearest, number_of
from mmech.domain.frames import columns_named, read_table
from mmech.exceptions import ParameterError

BLOCK = 2**24
"""Memory: bytes of a file that are looked at and parsed at a time."""

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
    with _records(source, form, 2**16) as (header, _):
        return header


def read_tables(
    source: Source,
    wanted: Sequence[str],
    numbers: Collection[str] = (),
    *,
    block: int = BLOCK,
    **form: Unpack[CsvFormat],
) -> Iterator[Any]:
    """Yield tables of pyarrow: wanted columns as text, each distinct one held once.

    A file is compressed with gzip where its name ends in ``.gz``. Numbers in the
    columns `numbers` are written as Python writes them; see `CsvFormat` for options.
    `block` is how many bytes are read at a time. Raises `ValueError` if a column is
    missing or there twice, or a line does not parse, also in columns that nobody wants.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    usual = usual_form(form)
    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    with _records(source, form, block) as (header, records):
        for name in wanted:
            if header.count(name) != 1:
                raise column_error(name, header, wanted)
        places = [str(header.index(name)) for name in wanted]
        parsing = arrow_csv.ParseOptions(
            delimiter=form.get("sep", ","),
            newlines_in_values=form.get("multiline", False),
            ignore_empty_lines=len(header) > 1,
        )
        converting = arrow_csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(places, kind),
            include_columns=places or ["0"],
            strings_can_be_null=False,
        )
        for data, number in records:
            reading = arrow_csv.ReadOptions(
                block_size=len(data) + 1,
                column_names=[str(j) for j in range(len(header))],
            )
            try:
                table: Any = arrow_csv.read_csv(
                    pyarrow.BufferReader(data), reading, parsing, converting
                )
            except pyarrow.ArrowException:  # it shows what stands there
                table = ()
            if len(table) != number:
                raise ValueError("the file does not parse; correct its quotes")
            columns = table.columns[: len(wanted)]
            if usual is not None:
                columns = [
                    _in_usual_form(column, usual, number=name in numbers)
                    for name, column in zip(wanted, columns, strict=True)
                ]
            yield pyarrow.table(columns, list(wanted))


def _in_usual_form(column: Any, usual: Callable[..., str], *, number: bool) -> Any:
    import pyarrow

    def written(chunk: Any) -> Any:
        texts = [usual(text, number=number) for text in chunk.dictionary.to_pylist()]
        texts = pyarrow.array(texts, pyarrow.string())
        return pyarrow.DictionaryArray.from_arrays(chunk.indices, texts)

    return pyarrow.chunked_array(map(written, column.chunks), column.type)


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
    parts = [read_table(t) for t in read_tables(source, wanted, numbers, **form)]
    return np.concatenate(
        [np.empty((0, len(wanted)), object), *(p.cells() for p in parts)]
    )


@contextmanager
def _opened(source: Source, encoding: str) -> Iterator[BinaryIO]:
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
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise ValueError(
            "the file is not a gzip file, or is damaged or cut off; compress or "
            "copy it again"
        ) from None
    except UnicodeError:
        raise _not_decoded("the file", encoding) from None


@contextmanager
def _records(
    source: Source, form: CsvFormat, block: int
) -> Iterator[tuple[list[str], Iterator[tuple[bytes, int]]]]:
    """Open a file, for its header, and blocks of whole records with their number."""
    sep, encoding = form.get("sep", ","), form.get("encoding", "utf-8")
    if not isinstance(sep, str) or len(sep) != 1 or sep in '"\r\n' or not sep.isascii():
        raise ParameterError(
            "sep",
            "must be one ASCII character, no quote and no line break",
            repr(sep),
        )
    try:
        "".encode(encoding)
    except (LookupError, ValueError):
        raise ParameterError(
            "encoding", "must be one that Python knows, such as utf-8", repr(encoding)
        ) from None
    with _opened(source, encoding) as stream:
        found = _whole_records(_in_utf8(stream, encoding, block), form)
        lines = [data.decode() for data, _ in islice(found, 1)]
        yield next(csv.reader(lines, strict=True, delimiter=sep), []), found


def _in_utf8(stream: BinaryIO, encoding: str, block: int) -> Iterator[bytes]:
    """Yield a file in UTF-8. What has no meaning in its encoding has none there."""
    known = codecs.lookup(encoding).name
    decoder: Any = None
    if known not in ("utf-8", "utf-8-sig"):
        decoder = codecs.getincrementaldecoder(known)("surrogateescape")
    data = stream.read(block).removeprefix(b"" if decoder else codecs.BOM_UTF8)
    while data:
        yield decoder.decode(data).encode(errors="surrogatepass") if decoder else data
        data = stream.read(block)
    if decoder:
        yield decoder.decode(b"", True).encode(errors="surrogatepass")


def _whole_records(
    parts: Iterator[bytes], form: CsvFormat
) -> Iterator[tuple[bytes, int]]:
    """Yield the header, then blocks of whole records, each with their number.

    Raises `ValueError` for a line that is not well-formed, with its number.
    """
    from mmech._kernels import csv_records

    own = ord(form.get("sep", ",")), form.get("multiline", False)
    longest, out = csv.field_size_limit(), np.zeros(5, np.int64)
    rest, line, n_fields, last = b"", 1, 0, False
    while not last:
        part = next(parts, None)
        last = part is None
        rest += part or b""
        while True:
            data = np.frombuffer(rest, np.uint8)
            csv_records(data, own[0], n_fields, own[1], last, longest, out)
            end, lines, number, fault, fields = out.tolist()
            whole, rest = rest[:end], rest[end:]
            try:
                whole.decode()
            except UnicodeDecodeError as error:
                line += len((whole[: error.start] + b".").splitlines()) - 1
                encoding = form.get("encoding", "utf-8")
                raise _not_decoded(f"line {line} of the file", encoding) from None
            line += lines
            if fault:
                raise _malformed(fault, line, rest, fields, n_fields, form)
            if end:
                yield whole, number
            if n_fields or not end:
                break
            n_fields = fields


def _malformed(
    fault: int, line: int, rest: bytes, fields: int, n_fields: int, form: CsvFormat
) -> ValueError:
    """Return the error for what the kernel finds wrong with the record in a line."""
    if fault == 1:
        remedy = "correct the line or quote its separators"
        if fields == n_fields + 1:
            remedy += ", or name the first column, which R leaves unnamed"
        return ValueError(
            f"line {line} of the file has {number_of(fields, 'field')} but the "
            f"header has {n_fields}; {remedy}"
        )
    longest = f"{csv.field_size_limit():,}"
    if fault == 4 or (fault == 3 and form.get("multiline", False)):
        return ValueError(
            f"line {line} of the file begins a record with a field of more than "
            f"{longest} bytes, or with a quote that is not closed before a separator; "
            "shorten it, or close the quote and write each quote in a field twice"
        )
    if fault == 3:
        return ParameterError(
            "multiline",
            f"line {line} of the file opens a quote that is not closed on the same "
            "line, which is for {multiline=True}",
            remedy=(
                "close it",
                "read with {multiline=True} a file whose fields hold line breaks",
            ),
        )
    text, sep = rest.splitlines()[0].decode(errors="replace"), form.get("sep", ",")
    marks = [mark for mark in ";\t|," if f'"{mark}' in text or f'{mark}"' in text]
    if marks and sep not in marks:
        return ParameterError(
            "sep",
            f"line {line} of the file has {marks[0]!r} beside its quotes, "
            f"but {{sep}} is {sep!r}",
            remedy=(f"pass {{sep={marks[0]!r}}}", "correct the quotes"),
        )
    return ValueError(
        f"line {line} of the file has text after a closing quote; quote the whole "
        "field, and write each quote in it twice"
    )


def _not_decoded(what: str, encoding: str) -> ParameterError:
    return ParameterError(
        "encoding",
        f"{what} is not encoded in {encoding.upper()}, the {{encoding}} to read it in",
        remedy=("save the file in that encoding", "name its own with {encoding=}"),
    )
