"""Records of files, frames and iterators in parts, so that memory stays bounded.

A part is a table of so many rows, its labels where the description has classes, and a
name that no other part has: the file and the rows in it.
"""

from __future__ import annotations

import os
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from mmech.checks import check_file, check_integer
from mmech.domain import csv_files, frames
from mmech.domain.csv_files import CsvFormat, opened
from mmech.domain.dates import day_values
from mmech.domain.domain import Domain
from mmech.domain.values import is_missing, number_values
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
    **form: Any,
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
    csv = CsvFormat.of(form)
    if not isinstance(domain, Domain):
        raise TypeError(
            f"read needs a Domain or a Schema, got {type(domain).__name__}; read one "
            "with its from_json"
        )
    numbers = {own.name for own in domain.attributes if own.kind == "numeric"}
    rows = _Rows(*domain._columns(with_target=with_target), numbers, chunk_rows)
    paths = source if isinstance(source, (list, tuple)) else [source]
    if all(map(_is_path, paths)):
        return _of_files(_files(paths), rows, csv)
    if form:
        raise ValueError(
            f"{', '.join(form)} is for csv files, got {type(source).__name__}; leave "
            "it out"
        )
    return _of_memory(source, rows)


def read_whole(
    source: Any, domain: Domain, /, *, with_target: bool = True, **form: Any
) -> Part:
    """Return all records of files in one part, its values an object array.

    Parameters and errors are those of `read`.
    """
    parts = list(read(source, domain, with_target=with_target, **form))
    X = np.concatenate([frames.read_table(part.X).cells() for part in parts])
    if parts[0].y is None:
        return Part(X, None, None)
    return Part(X, np.concatenate([frames.read_vector(part.y) for part in parts]), None)


@dataclass(frozen=True)
class _Rows:
    """What is read of tables: attributes, the class or None, so many rows at a time.

    Columns of `numbers` may be written in the way of a country.
    """

    features: list[str]
    target: str | None
    numbers: set[str]
    most: int

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return self.features + ([] if self.target is None else [self.target])

    def of(self, frame: Any) -> Iterator[Part]:
        """Yield the rows of a frame, at least one part."""
        table = frames.read_table(frame)
        frames.column_places(
            self.names, table.names or (), "X", "rename or select columns"
        )
        for start in range(0, max(table.n_rows, 1), self.most):
            part = getattr(frame, "iloc", frame)[start : start + self.most]
            yield Part(part, None if self.target is None else part[self.target], None)


def _is_path(source: Any) -> bool:
    """Whether a source is a path, or a file that can be read again."""
    return isinstance(source, (str, os.PathLike)) or hasattr(source, "seek")


def _is_frame(source: Any) -> bool:
    """Whether a source is a frame in memory, of pandas, polars or pyarrow."""
    is_sized = hasattr(source, "shape") or hasattr(source, "num_rows")
    return is_sized and hasattr(source, "columns")


def _is_dataset(source: Any) -> bool:
    """Whether a source is a ``pyarrow.dataset``."""
    return hasattr(source, "to_batches") and not hasattr(source, "num_rows")


def is_in_parts(source: Any) -> bool:
    """Whether `read` takes a source apart: files, a dataset, frames, arrays or pairs.

    Other lists are the rows of a table.
    """
    if not isinstance(source, (list, tuple)):
        return _is_path(source) or isinstance(source, Iterator) or _is_dataset(source)
    first = source[0] if source else None
    if _is_path(first):  # no message may take a column of values for names of files
        texts = [entry for entry in source if isinstance(entry, str)]
        return all(text.endswith(TABLES) or os.path.isdir(text) for text in texts)
    X = first[0] if isinstance(first, tuple) and len(first) == 2 else first
    return isinstance(X, Part) or _is_frame(X) or getattr(X, "ndim", 0) == 2


def of_parts(
    source: Any, domain: Domain, each: Callable[[Part], Any], y: Any = None
) -> Iterator[Any]:
    """Yield what a function makes of the parts of a source; errors name the file.

    Records with labels beside them, and those that are one table, are one part.
    """
    if y is not None or not is_in_parts(source):
        yield each(Part(source, y, None))
        return
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


def _of_memory(source: Any, rows: _Rows) -> Iterator[Part]:
    """Yield the parts of a frame, a dataset, or of what yields frames or parts."""
    source = frames.in_memory(source, "source")
    if _is_dataset(source):
        source = source.to_batches()
    elif _is_frame(source) or isinstance(source, Mapping):
        source = [source]
    for entry in source if hasattr(source, "__iter__") else [source]:
        is_pair = isinstance(entry, tuple) and len(entry) == 2
        is_array = isinstance(entry, np.ndarray) and entry.ndim == 2
        if isinstance(entry, Part):
            yield entry
        elif _is_frame(entry):
            yield from rows.of(entry)
        elif is_pair and rows.target is not None:
            X, y = entry
            yield Part(X, y, None)
        elif is_array and rows.target is None:
            yield Part(entry, None, None)
        else:
            raise TypeError(
                "source must be files or a frame, or must yield frames, pairs (X, y), "
                f"or arrays where there are no classes, got {type(entry).__name__}"
            )


# ---- files ---------------------------------------------------------------------------


Keys = dict[str, str | None]
"""Columns that the names of folders give, and their value."""


def _of_files(
    files: list[tuple[Any, Keys]], rows: _Rows, form: CsvFormat
) -> Iterator[Part]:
    before = [_state(path) for path, _ in files]
    for (path, keys), state in zip(files, before, strict=True):
        # By its real path: other names of one file must not count it again.
        name = os.path.realpath(path) if isinstance(path, Path) else name_of(path)
        stop = 0
        with located(f"cannot use the data {name_of(path)!r}"):
            for table in _tables(path, keys, rows, form):
                for X, y, _ in rows.of(table):
                    first, stop = stop, stop + len(X)
                    yield Part(X.select(rows.features), y, (name, first, stop))
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


def _files(sources: Iterable[Any]) -> list[tuple[Any, Keys]]:
    """Return all files of a source, each once, with the columns of their folders."""
    found: list[tuple[Any, Keys]] = []
    for source in sources:
        if hasattr(source, "seek"):
            found.append((source, {}))
        elif not (entry := Path(source)).is_dir():
            found.append((Path(check_file(source)), {}))
        else:
            for path in sorted(entry.rglob("*")):
                parts = path.relative_to(entry).parts
                hidden = any(part.startswith(HIDDEN) for part in parts)
                if path.name.endswith(TABLES) and path.is_file() and not hidden:
                    found.append((path, _keys(parts[:-1])))
    if not found:
        raise FileNotFoundError(
            f"{sources!r:.60} has no files that end in {', '.join(TABLES)}; name some"
        )
    paths = [path for path, _ in found if isinstance(path, Path)]
    if len({path.resolve() for path in paths}) < len(paths):
        raise ValueError("source names a file twice; every record counts once")
    return found


def _keys(folders: Sequence[str]) -> Keys:
    """Return what names of folders say, as ``column=value``.

    A mark stands in place of bytes that are not UTF-8.
    """
    said = [os.fsencode(f).decode(errors="replace").split("=", 1) for f in folders]
    pairs = [map(unquote, words) for words in said if words[1:]]
    return {key: None if value == NULL_PARTITION else value for key, value in pairs}


def _state(path: Any) -> tuple[int, int] | None:
    if not isinstance(path, Path):
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def columns_of(source: Any, domain: Domain | None = None, /, **form: Any) -> list[str]:
    """Return the names of the columns of files, and those that only later ones have.

    Raises `ValueError` for a first line that has none of the names of the domain.
    """
    found: list[str] = []
    names = () if domain is None else domain._columns(with_target=False)[0]
    for path, keys in _files([source]):
        with located(f"cannot use the data {name_of(path)!r}"):
            own = _columns(path, {*names}.difference(keys), CsvFormat.of(form))
            known = {*found}
            found += [name for name in [*own, *keys] if name not in known]
    return found


def _columns(path: Any, wanted: Collection[str], form: CsvFormat) -> list[str]:
    """Return the names of the columns of a file; no line of records passes for them."""
    if name_of(path).endswith(".parquet"):
        return list(parquet_schema(path).names)
    header = csv_files.read_header(path, form)
    if set(header).isdisjoint(wanted):
        fields = {*header, *form.usual(header, number=True)}
        cells = np.array([f for f in fields if not is_missing(f)], dtype=object)
        is_text = number_values(cells)[1] & day_values(cells)[2]
        at_once = len(header) == 1 and any(mark in header[0] for mark in ";\t|,")
        if wanted or at_once or not is_text.all():
            raise ParameterError(
                "sep",
                "the first line of the file has no name of a column that is read, is a "
                "record, or has another separator than {sep}",
                remedy=("name the columns there", "pass the {sep=} of the file"),
            )
    return header


def parquet_schema(path: Any) -> Any:
    """Return what a Parquet file declares of its columns, for pyarrow."""
    from pyarrow import parquet

    with opened(path, "Parquet") as file:
        return parquet.read_schema(file)


def _tables(path: Any, keys: Keys, rows: _Rows, form: CsvFormat) -> Iterator[Any]:
    """Yield what is read of a file, at least one table, with what its folders say."""
    import pyarrow

    wanted, none = [name for name in rows.names if name not in keys], True
    said = [name for name in rows.names if name in keys]
    for name in set(_columns(path, wanted, form)).intersection(said):
        raise ValueError(
            f"the file has a column {name!r}, and its folder is called {name}=...; "
            "only one of them can say it"
        )
    if name_of(path).endswith(".parquet"):
        tables = _ahead(_of_parquet(path, wanted, rows.most))
    else:
        # At least two lines of the greatest length, and less than a part takes.
        block = min(csv_files.BLOCK, max(2**19, 16 * rows.most))
        tables = csv_files.read_tables(path, wanted, rows.numbers, form, block)
    for table in tables:
        for name in said:
            value = pyarrow.scalar(keys[name], pyarrow.string())
            column = pyarrow.repeat(value, len(table)).dictionary_encode()
            table = table.append_column(name, column)
        if len(table):
            yield table
            none = False
    if none:  # nobody learns from a part that is not there
        yield pyarrow.table({name: [] for name in rows.names})


def _of_parquet(path: Any, wanted: list[str], n_rows: int) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    with opened(path, "Parquet") as file:
        declared = parquet.read_schema(file)
        for j in frames.column_places(
            wanted, declared.names, "the header of the file", csv_files.ADD
        ):
            frames.check_flat(declared.types[j], declared.names[j])
        with parquet.ParquetFile(file, read_dictionary=wanted) as table:
            for batch in table.iter_batches(batch_size=n_rows, columns=wanted):
                yield pyarrow.Table.from_batches([batch])


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield what another thread reads, one batch before it is asked for."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch
