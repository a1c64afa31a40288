"""Csv files, read strictly: every line is a record, and every line must parse.

A lenient reader decides what one record is by the records around it: a quote that is
never closed makes one record of all lines up to the next quote. Here one pass over the
bytes finds whole records, or names the line that is wrong, never its content. pyarrow
parses what passed.
"""

from __future__ import annotations

import codecs
import csv
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, check_text, number_of
from mmech.domain.frames import column_places, read_table
from mmech.exceptions import ParameterError

BLOCK = 2**24
"""Memory: bytes of a file that are looked at and parsed at a time."""

Source: TypeAlias = str | os.PathLike[str] | BinaryIO
"""A path, or a file that can be read from its beginning again."""


@dataclass(frozen=True)
class CsvFormat:
    """How a csv file is written.

    Parameters
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
    na : str or sequence of str, default=()
        Texts that stand for a missing value.
    """

    multiline: bool = False
    sep: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str | None = None
    na: str | Sequence[str] = ()

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return the format of these options, or raise for one that does not exist."""
        for name in options:
            check_choice(name, "an option of csv files", cls.__annotations__)
        return cls(**options)

    def __post_init__(self) -> None:
        marks = "one ASCII character, no quote and no line break"
        points = "one character, no letter and no digit"
        for name, need, fits in (
            ("sep", marks, r'[^"\r\n\x80-\U0010ffff]'),
            ("decimal", points, r"[\W_]"),
            ("thousands", points, r"[\W_]"),
        ):
            mark = getattr(self, name)
            is_one = isinstance(mark, str) and re.fullmatch(fits, mark)
            if not is_one and (name, mark) != ("thousands", None):
                raise ParameterError(name, f"must be {need}", repr(mark))
        if self.decimal == self.thousands:
            need = "must be another character than {decimal}"
            raise ParameterError("thousands", need, repr(self.thousands))
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError, TypeError):
            need = "must be one that Python knows, such as utf-8"
            raise ParameterError("encoding", need, repr(self.encoding)) from None

    @property
    def is_usual(self) -> bool:
        """Whether all fields mean what Python reads in them."""
        return (self.decimal, self.thousands) == (".", None) and not self.na

    def usual(self, fields: Iterable[str], *, number: bool) -> list[str]:
        """Return fields of a column as Python writes them."""
        mark, point = re.escape(self.thousands or ""), re.escape(self.decimal)
        # Groups of three digits, or of two before one of three, as in 12,34,567.
        groups = rf"\d{{1,3}}(?:{mark}\d{{3}})+|\d{{1,2}}(?:{mark}\d\d)+{mark}\d{{3}}"
        grouped = re.compile(rf"\s*[+-]?(?!0)(?:{groups})(?:{point}\d*)?\s*")
        # A point that is no decimal mark must not be read as one: it takes its place.
        swapped = str.maketrans(f".{self.decimal}", f"{self.decimal}.")
        na = (self.na,) if isinstance(self.na, str) else tuple(self.na)
        written = []
        for field in fields:
            own = "" if field in na else field
            if number and self.thousands and grouped.fullmatch(own):
                own = own.replace(self.thousands, "")
            written.append(own.translate(swapped) if number else own)
        return written


def read_header(source: Source, form: CsvFormat = CsvFormat()) -> list[str]:
    """Return the names of the columns; nothing below them is looked at."""
    with _records(source, form, 2**16) as (header, _):
        return header


def read_tables(
    source: Source,
    wanted: Sequence[str],
    numbers: Collection[str] = (),
    form: CsvFormat = CsvFormat(),
    block: int = BLOCK,
) -> Iterator[Any]:
    """Yield tables of pyarrow: wanted columns as text, each distinct one held once.

    A file is compressed with gzip where its name ends in ``.gz``. Numbers in the
    columns `numbers` are written as Python writes them. `block` is how many bytes are
    read at a time. Raises `ValueError` if a column is missing or there twice, or a line
    does not parse, also in columns that nobody wants.
    """
    import pyarrow
    from pyarrow import csv as arrow_csv

    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    with _records(source, form, block) as (header, records):
        places = column_places(wanted, header, "the header of the file", ADD)
        every = list(map(str, range(len(header))))
        parsing = arrow_csv.ParseOptions(
            delimiter=form.sep,
            newlines_in_values=form.multiline,
            ignore_empty_lines=len(header) > 1,
        )
        converting = arrow_csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(every, kind),
            include_columns=[every[j] for j in places],
            strings_can_be_null=False,
        )
        for data, number in records:
            reading = arrow_csv.ReadOptions(
                block_size=len(data) + 1, column_names=every
            )
            table = arrow_csv.read_csv(
                pyarrow.BufferReader(data), reading, parsing, converting
            )
            if len(table) != number:
                raise ValueError("the file does not parse; correct its quotes")
            columns = dict(zip(wanted, table.columns, strict=False))
            if not form.is_usual:
                for name, column in columns.items():
                    held = column.combine_chunks()
                    texts = form.usual(
                        held.dictionary.to_pylist(), number=name in numbers
                    )
                    columns[name] = held.from_arrays(held.indices, texts)
            yield pyarrow.table(columns) if wanted else table


ADD = "add it, or rename the one that holds it"
"""What to do about a column that a file does not have."""


def read_cells(
    source: Source,
    wanted: Sequence[str],
    numbers: Collection[str] = (),
    form: CsvFormat = CsvFormat(),
) -> NDArray[np.object_]:
    """Return some columns of a csv file as text, shape (N, len(wanted))."""
    tables = read_tables(source, wanted, numbers, form)
    parts = [read_table(table).cells() for table in tables]
    return np.concatenate([np.empty((0, len(wanted)), object), *parts])


@contextmanager
def opened(source: Source, kind: str) -> Iterator[BinaryIO]:
    """Open a file of a kind; word what pyarrow says, which shows what stands there."""
    import pyarrow

    given: Any = source
    is_path = isinstance(given, (str, os.PathLike))
    try:
        with open(given, "rb") if is_path else nullcontext(given) as file:
            file.seek(0)
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise  # it is of the operating system
        raise ValueError(
            f"the file is not a {kind} file, or is damaged or cut off; write or copy "
            "it again"
        ) from None


@contextmanager
def _records(
    source: Source, form: CsvFormat, block: int
) -> Iterator[tuple[list[str], Iterator[tuple[bytes, int]]]]:
    """Open a file, for its header, and blocks of whole records with their number."""
    import pyarrow

    is_packed = str(source).endswith(".gz")
    with opened(source, "gzip" if is_packed else "csv") as file:
        stream = pyarrow.CompressedInputStream(file, "gzip") if is_packed else file
        blocks = iter(partial(stream.read, block), b"")
        first = next(blocks, b"")
        if not is_packed:
            remedy = "save it as csv, or if it is Parquet or gzip, name it so"
            check_text(first[:64], "the file", remedy)
        blocks = chain([first.removeprefix(codecs.BOM_UTF8)], blocks)
        found = _whole_records(_in_utf8(blocks, form), form)
        lines = [data.decode() for data, _ in islice(found, 1)]
        header = next(csv.reader(lines, strict=True, delimiter=form.sep), [])
        if not header:
            raise ValueError("the file is empty; its first line must name the columns")
        yield header, found


def _in_utf8(blocks: Iterator[bytes], form: CsvFormat) -> Iterator[bytes]:
    """Yield a file in UTF-8. What has no meaning in its encoding has none there."""
    if codecs.lookup(form.encoding).name in ("utf-8", "utf-8-sig"):
        yield from blocks
        return
    try:
        for text in codecs.iterdecode(blocks, form.encoding, "surrogateescape"):
            yield text.encode(errors="surrogatepass")
    except UnicodeError:
        yield b"\xff"


def _whole_records(
    blocks: Iterator[bytes], form: CsvFormat
) -> Iterator[tuple[bytes, int]]:
    """Yield the header, then blocks of whole records, each with their number.

    Raises `ValueError` for a line that is not well-formed, with its number.
    """
    from mmech._kernels import csv_records

    rest, line, n_fields, out = b"", 1, 0, np.zeros(5, np.int64)
    longest = csv.field_size_limit()
    for block in chain(blocks, [None]):
        rest, again = rest + (block or b""), True
        while again:
            data, last = np.frombuffer(rest, np.uint8), block is None
            csv_records(
                data, ord(form.sep), n_fields, form.multiline, last, longest, out
            )
            end, lines, number, fault, fields = out.tolist()
            whole, rest = rest[:end], rest[end:]
            seen = whole + (rest.splitlines()[0] if fault else b"")
            try:
                seen.decode()
            except UnicodeDecodeError as error:
                line += len((seen[: error.start] + b".").splitlines()) - 1
                raise ParameterError(
                    "encoding",
                    f"line {line} of the file is not encoded in "
                    f"{form.encoding.upper()}, the {{encoding}} to read it in",
                    remedy=("save the file in it", "name its own with {encoding=}"),
                ) from None
            line += lines
            if fault:
                raise _malformed(fault, line, fields, n_fields, longest)
            if end:
                yield whole, number
            again = bool(end) and not n_fields  # the header alone was looked at
            n_fields = n_fields or (fields if end else 0)


def _malformed(
    fault: int, line: int, fields: int, n_fields: int, longest: int
) -> ValueError:
    """Return the error for what the kernel finds wrong with the record in a line."""
    place = f"line {line} of the file"
    if fault == 1:
        remedy = "correct the line or quote its separators"
        if fields == n_fields + 1:
            remedy += ", or name the first column, which R leaves unnamed"
        return ValueError(
            f"{place} has {number_of(fields, 'field')} but the header has {n_fields}; "
            f"{remedy}"
        )
    return ParameterError(
        "sep",
        f"{place} opens a quote whose end is followed by neither {{sep}} nor an end of "
        f"a line, or a field of more than {longest:,} bytes",
        remedy=(
            "write each quote in a field twice",
            "name the {sep=} of the file",
            "read with {multiline=True} a file whose fields hold line breaks",
        ),
    )
