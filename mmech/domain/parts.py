"""Records of files, frames and iterators in parts, so that memory stays bounded.

A part is a table of so many rows, its labels where the description has classes, and a
name that no other part has: the file and the rows in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Unpack
from urllib.parse import unquote

import numpy as np

from mmech.checks import check_file, check_integer
from mmech.domain import csv_files
from mmech.domain.attribute import Attribute
from mmech.domain.csv_files import CsvFormat, check_format, column_error
from mmech.domain.domain import Domain
from mmech.domain.frames import check_flat, in_memory, read_table, read_vector
from mmech.domain.values import is_missing
from mmech.exceptions import ParameterError, located

TABLES = (".csv", ".csv.gz", ".parquet")
"""Endings of files that are read."""

HIDDEN = (".", "_")
"""Beginnings of files and folders that are not read: what Spark is still writing."""

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""What folders of a partitioned table are called whose value is missing."""


class Part(NamedTuple):
    """A part of the records, for `release_tables` or `count` of an estimator.

    Attributes
    ----------
    X : table of pyarrow, object array, or frame of the type that was given
        Attributes of the domain; where labels are read, followed by the columns that
        a schema requires. Sensitive.
    y : column of pyarrow, array, series or None
        Class labels of a schema. Sensitive.
    chunk_id : tuple or None
        File, first row and row after the last. None for frames and iterators.

    Examples
    --------
    >>> from mmech import Part
    >>> X, y, chunk_id = Part([["x"], ["y"]], ["0", "1"], ("data.csv", 0, 2))
    >>> chunk_id
    ('data.csv', 0, 2)
    """

    X: Any
    y: Any
    chunk_id: tuple[str, int, int] | None


def read(
    source: Any,
    domain: Domain,
    /,
    *,
    chunk_rows: int = 2**20,
    with_target: bool = True,
    **form: Unpack[CsvFormat],
) -> Iterator[Part]:
    r"""Read records, a part at a time.

    Parameters
    ----------
    source : path, sequence of paths, file, frame, or iterable of frames or pairs
        CSV files with a header row, plain or compressed with gzip. Parquet files.
        Folders of these, whose files are read in the order of their names; names that
        begin with ``_`` or a dot are left out. Folders below it that are called
        ``column=value`` give that column to the files in them, as Hive and Spark write
        partitions. An open binary file is csv.
        Also frames of pandas, polars or pyarrow, of a schema with the class in them; a
        ``pyarrow.dataset``; iterables of frames or of pairs (X, y).
    domain : Domain or Schema
        Names the columns to read; others are ignored.
    chunk_rows : int, default=2**20
        Most rows of a part; pairs (X, y) are a part each.
    with_target : bool, default=True
        Whether the class of a schema is read, and the columns that it requires.
    multiline : bool, default=False
        Whether quoted fields of csv files may hold line breaks. A quote that is not
        closed may then swallow the lines up to the next one.
    sep : str, default=","
        Character between the fields.
    encoding : str, default="utf-8"
        Name that Python has for the encoding.
    decimal : str, default="."
        Character before the decimals, in columns of numeric attributes.
    thousands : str, optional
        Character between groups of digits, in columns of numeric attributes. Groups
        have three digits, or two before the last one, as in 12,34,567; others are not
        read.
    na : str or sequence of str, optional
        Texts that stand for a missing value, such as ``"NA"``, in all columns.

    Yields
    ------
    Part
        X, y and chunk_id, for `release_tables` or `count` of an estimator.

    Raises
    ------
    FileNotFoundError
        If the file does not exist; nothing is read.
    TypeError
        If the source is nothing of the above.
    ValueError
        If a column is missing, a line does not parse, or a file changes while it is
        read. It names the file and the line or row, not what stands there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mmech import Attribute, Domain, read, release_tables
    >>> domain = Domain([Attribute.numeric("size", lower=0, upper=9, n_bins=3)])
    >>> text = "size;year\n1,5;2020\n8,25;2021\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "data.csv").write_text(text)
    ...     parts = read(folder, domain, sep=";", decimal=",")
    ...     released = release_tables(parts, domain, ways=1, epsilon=1)
    >>> released
    Tables(1 table of 1 attribute, epsilon=1)
    """
    check_integer(chunk_rows, "chunk_rows")
    check_format(form)
    if not isinstance(domain, Domain):
        raise TypeError(
            f"read needs a Domain or a Schema, got {type(domain).__name__}; read one "
            "with its from_json"
        )
    wanted = _Wanted(domain, with_target=with_target)
    if _is_path(source) or (
        isinstance(source, (list, tuple)) and all(map(_is_path, source))
    ):
        return _parts(_files(source), wanted, chunk_rows, form)
    if form:
        raise ValueError(
            f"{', '.join(form)} is for csv files, got {type(source).__name__}; leave "
            "it out"
        )
    return _of_memory(_frames(source), wanted, chunk_rows)


def read_whole(
    source: Any,
    domain: Domain,
    /,
    *,
    with_target: bool = True,
    **form: Unpack[CsvFormat],
) -> Part:
    """Return all records of files in one part, its values an object array.

    Parameters and errors are those of `read`.
    """
    parts = list(read(source, domain, with_target=with_target, **form))
    X = np.concatenate([read_table(part.X).cells() for part in parts])
    if parts[0].y is None:
        return Part(X, None, None)
    return Part(X, np.concatenate([read_vector(part.y) for part in parts]), None)


class _Wanted:
    """Columns to read: those of X, the class if it is read, and which hold numbers."""

    def __init__(self, domain: Domain, *, with_target: bool) -> None:
        features, target = domain._columns(with_target=with_target)
        self.features = features
        self.target = target
        self.names = features if target is None else [*features, target]
        self.numbers = {a.name for a in domain.attributes if a.kind == "numeric"}
        self.attributes = domain._parts
        self.noun = domain._noun


def _is_path(source: Any) -> bool:
    """Whether a source is a path, or a file that can be read again."""
    return isinstance(source, (str, os.PathLike)) or hasattr(source, "seek")


def is_in_parts(source: Any) -> bool:
    """Whether `read` takes a source apart: files, a dataset, frames, arrays or pairs.

    Other lists are the rows of a table.
    """
    if not isinstance(source, (list, tuple)):
        return _is_path(source) or isinstance(source, Iterator) or _is_dataset(source)
    first = source[0] if source else None
    part = first[0] if isinstance(first, tuple) and len(first) == 2 else first
    if isinstance(part, np.ndarray):
        return part.ndim == 2
    texts = all(isinstance(entry, str) for entry in source)
    if texts and not all(e.endswith(TABLES) or os.path.isdir(e) for e in source):
        return False  # a column of values, which no message may take for names of files
    return _is_path(part) or _is_frame(part) or isinstance(part, Part)


def of_parts(source: Any, domain: Domain, each: Callable[[Part], Any]) -> Iterator[Any]:
    """Yield what a function makes of the parts of a source; errors name the file."""
    part = None
    try:
        for part in read(source, domain):
            with located(f"cannot use the data {file_of(part, 'in parts')!r}"):
                found = each(part)
            yield found
    finally:
        if isinstance(source, Generator):  # what is left must not be taken for all
            source.close()
    if part is None:
        raise ValueError("the iterator of records has no part; read them anew")


def first_row(part: Part) -> int:
    """Return the number of the first row of a part, for messages."""
    return part.chunk_id[1] if part.chunk_id else 0


# ---- frames --------------------------------------------------------------------------


def _frames(source: Any) -> Iterable[Any]:
    """Return the frames, or pairs, that a source is made of."""
    source = in_memory(source, "source")
    if _is_frame(source):
        return (source,)
    if _is_dataset(source):
        return source.to_batches()
    if isinstance(source, Mapping) or not hasattr(source, "__iter__"):
        raise TypeError(
            "source must be a path, a frame of pandas, polars or pyarrow, or an "
            "iterable of frames, of arrays or of pairs (X, y), got "
            f"{type(source).__name__}"
        )
    return source


def _is_frame(source: Any) -> bool:
    """Whether a source is a table in memory of which rows can be taken."""
    return hasattr(source, "iloc") or (
        hasattr(source, "slice")
        and (hasattr(source, "columns") or hasattr(source, "num_rows"))
    )


def _is_dataset(source: Any) -> bool:
    """Whether a source is a ``pyarrow.dataset``."""
    return hasattr(source, "to_batches") and not hasattr(source, "num_rows")


def _of_memory(
    frames: Iterable[Any], wanted: _Wanted, chunk_rows: int
) -> Iterator[Part]:
    for frame in frames:
        if isinstance(frame, Part):
            yield frame
            continue
        if isinstance(frame, tuple) and len(frame) == 2 and wanted.target:
            yield Part(*frame, None)
        elif isinstance(frame, np.ndarray) and frame.ndim == 2 and not wanted.target:
            yield Part(frame, None, None)
        elif _is_frame(frame):
            yield from _slices(frame, wanted, chunk_rows)
        else:
            raise TypeError(
                "an iterable source must yield frames of pandas, polars or pyarrow, "
                "arrays where there are no classes, or pairs (X, y), got "
                f"{type(frame).__name__}"
            )


def _slices(frame: Any, wanted: _Wanted, chunk_rows: int) -> Iterator[Part]:
    table, target = read_table(frame), wanted.target
    needed = [] if target is None else [target]
    table.locate(needed, wanted.noun, wanted.names, read_required=False)
    for start in range(0, max(table.n_rows, 1), chunk_rows):
        if hasattr(frame, "iloc"):
            part = frame.iloc[start : start + chunk_rows]
        else:
            part = frame.slice(start, chunk_rows)
        yield Part(part, None if target is None else part[target], None)


# ---- files ---------------------------------------------------------------------------


def _parts(
    files: list[tuple[Any, Keys]], wanted: _Wanted, chunk_rows: int, form: CsvFormat
) -> Iterator[Part]:
    import pyarrow

    before = [_state(path) for path, _ in files]
    for (path, keys), state in zip(files, before, strict=True):
        # By its real path: other names of one file must not count it again.
        name = os.path.realpath(path) if isinstance(path, Path) else name_of(path)
        first = 0
        given = {key: value for key, value in keys.items() if key in wanted.names}
        with located(f"cannot use the data {name_of(path)!r}"):
            for table in _tables(path, wanted, given, chunk_rows, form):
                X, y = _split(table, wanted, given)
                yield Part(X, y, (name, first, first + len(X)))
                first += len(X)
            if not first:
                # Nobody learns from a part that is not there.
                none = pyarrow.table({column: [] for column in wanted.names})
                yield Part(*_split(none, wanted, {}), (name, 0, 0))
            if _state(path) != state:
                raise ValueError(
                    "the file changed while it was read; count all parts anew"
                )


def name_of(path: Any) -> str:
    """Return what messages call a file."""
    return str(getattr(path, "name", "a file") if hasattr(path, "seek") else path)


def file_of(part: Part, otherwise: str) -> str:
    """Return what messages call the file of a part: its path, as short as may be."""
    if part.chunk_id is None:
        return otherwise
    return min(part.chunk_id[0], os.path.relpath(part.chunk_id[0]), key=len)


def _split(table: Any, wanted: _Wanted, keys: Keys) -> tuple[Any, Any]:
    """Return attributes and labels, with the columns that the folders' names give."""
    import pyarrow

    for name, value in keys.items():
        column = pyarrow.repeat(pyarrow.scalar(value, pyarrow.string()), len(table))
        table = table.append_column(name, column.dictionary_encode())
    y = None if wanted.target is None else table.column(wanted.target)
    return table.select(wanted.features), y


Keys = dict[str, str | None]
"""Columns that the names of folders give, and their value."""


def _files(source: Any) -> list[tuple[Any, Keys]]:
    """Return all files of a source, each once, with the columns of their folders."""
    found: list[tuple[Any, Keys]] = []
    for given in [source] if _is_path(source) else source:
        if hasattr(given, "seek"):
            found.append((given, {}))
            continue
        entry = Path(given)
        if entry.is_dir():
            for path in sorted(entry.rglob("*")):
                *folders, name = path.relative_to(entry).parts
                left_out = any(part.startswith(HIDDEN) for part in (*folders, name))
                if name.endswith(TABLES) and path.is_file() and not left_out:
                    found.append((path, _keys(folders)))
        else:
            found.append((Path(check_file(given)), {}))
    if not found:
        raise FileNotFoundError(
            f"{source!r:.60} has no files that end in {', '.join(TABLES)}; name some"
        )
    paths = [path for path, _ in found if isinstance(path, Path)]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError("source names a file twice; every record counts once")
    return found


def _keys(folders: list[str]) -> Keys:
    """Return what names of folders say, as ``column=value``."""
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return {
        _text(key): None if value == NULL_PARTITION else _text(value)
        for key, value in pairs
    }


def _text(name: str) -> str:
    """Return what a part of a folder's name says; of other bytes than UTF-8 a mark."""
    return unquote(os.fsencode(name).decode(errors="replace"))


def _state(path: Any) -> tuple[int, int] | None:
    if not isinstance(path, Path):
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def columns_of(
    source: Any, domain: Domain | None = None, /, **form: Unpack[CsvFormat]
) -> list[str]:
    """Return the names of the columns of files, and those that only later ones have.

    Raises `ValueError` for a first line that looks like a record of the domain.
    """
    found: list[str] = []
    for path, keys in _files(source):
        with located(f"cannot use the data {name_of(path)!r}"):
            attributes = () if domain is None else domain._parts
            columns = [*_columns(path, attributes, form), *keys]
        known = set(found)
        found += [name for name in columns if name not in known]
    return found


def _columns(path: Any, attributes: Sequence[Attribute], form: CsvFormat) -> list[str]:
    """Return the names of the columns of a file, unless they look like a record."""
    if name_of(path).endswith(".parquet"):
        return list(parquet_schema(path).names)
    header = csv_files.read_header(path, **form)
    if {attribute.name for attribute in attributes}.isdisjoint(header):
        marks = [mark for mark in ";\t|," if len(header) == 1 and mark in header[0]]
        if marks:
            raise ParameterError(
                "sep",
                f"the header of the file is one column at this {{sep}}, with "
                f"{marks[0]!r} in its name",
                remedy=(f"pass {{sep={marks[0]!r}}}", "rename the column"),
            )
        usual = csv_files.usual_form(form)
        fields = {*header, *(usual(f, number=True) for f in header if usual)}
        cells = np.array([f for f in fields if not is_missing(f)], dtype=object)
        for attribute in (*_ANY, *attributes):
            if (attribute._codes(cells, clip=True) >= 0).any():
                raise ValueError(
                    "the first line of the file looks like a record, but must name the "
                    "columns; write their names above it, or rename those that are "
                    "called by numbers or values"
                )
    return header


_ANY = (
    Attribute.numeric("number", cut_points=[0]),
    Attribute.date("date", "2000-01-01", "2000-12-31", "year"),
)
"""Attributes that read all numbers and all dates, where these are clipped."""


def parquet_schema(path: Any) -> Any:
    """Return what a Parquet file declares of its columns, for pyarrow."""
    with _sound_parquet(path) as (parquet, file):
        return parquet.read_schema(file)


def _tables(
    path: Any, wanted: _Wanted, keys: Keys, chunk_rows: int, form: CsvFormat
) -> Iterator[Any]:
    """Yield so many rows at a time, of the columns that no folder gives."""
    names = [name for name in wanted.names if name not in keys]
    columns = _columns(path, wanted.attributes, form)
    for key in keys:
        if key in columns:
            raise ValueError(
                f"the file has a column {key!r}, and its folder is called {key}=...; "
                "only one of them can say it"
            )
    if name_of(path).endswith(".parquet"):
        batches = _ahead(_of_parquet(path, columns, names, chunk_rows))
    else:
        # At least two lines of the greatest length, and less than a part takes.
        block = min(csv_files.BLOCK, max(2**19, 16 * chunk_rows))
        batches = csv_files.read_tables(
            path, names, wanted.numbers, block=block, **form
        )
    for batch in batches:
        for start in range(0, len(batch), chunk_rows):
            yield batch.slice(start, chunk_rows)


def _of_parquet(
    path: Path, columns: list[str], names: list[str], chunk_rows: int
) -> Iterator[Any]:
    import pyarrow

    for name in names:
        if columns.count(name) != 1:
            raise column_error(name, columns, names)
    declared = parquet_schema(path)
    for name in names:
        check_flat(declared.field(name).type, name)
    with (
        _sound_parquet(path) as (parquet, file),
        parquet.ParquetFile(file, read_dictionary=names) as table,
    ):
        for batch in table.iter_batches(batch_size=chunk_rows, columns=names):
            yield pyarrow.Table.from_batches([batch])


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield what another thread reads, one batch before it is asked for."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


@contextmanager
def _sound_parquet(path: Any) -> Iterator[tuple[Any, BinaryIO]]:
    """Give the module that reads Parquet files, and the open file; word its errors."""
    import pyarrow
    from pyarrow import parquet

    try:
        with open(path, "rb") as file:
            yield parquet, file
    except (pyarrow.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the operating system
            raise
        raise ValueError(
            "the file is not a Parquet file, or is damaged or cut off; write it again"
        ) from None
