"""Records of files in parts, so that memory stays bounded.

A part is a table of so many rows, its labels, and a name that no other part has: the
file and the rows in it. Files are read as strictly as `datasets.load_csv` reads them:
every line is a record by itself. pyarrow does it where it is installed and no field is
quoted, and our own reader elsewhere, with the same outcome.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mmech.checks import check_integer
from mmech.domain import readers
from mmech_rf.forest.checks import located
from mmech_rf.schema import Schema

__all__ = ["Part", "read"]

TABLES = (".csv", ".csv.gz", ".parquet")
"""Endings of files that are read."""


class Part(NamedTuple):
    """A part of the records, for `count` of an estimator.

    Attributes
    ----------
    X : table of pyarrow, or object array
        Attributes of the schema, followed by its required columns. Sensitive.
    y : column of pyarrow, or object array
        Class labels. Sensitive.
    chunk_id : tuple
        File, first row and row after the last.

    Examples
    --------
    >>> from mmech_rf import Part
    >>> X, y, chunk_id = Part([["x"], ["y"]], ["0", "1"], ("data.csv", 0, 2))
    >>> chunk_id
    ('data.csv', 0, 2)
    """

    X: Any
    y: Any
    chunk_id: tuple[str, int, int]


def read(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    schema: Schema,
    *,
    chunk_rows: int = 2**20,
    multiline: bool = False,
) -> Iterator[Part]:
    r"""Read records from files, a part at a time.

    Parameters
    ----------
    source : path or sequence of paths
        CSV files with a header row, plain or compressed with gzip, and Parquet files,
        which need pyarrow (``pip install mmech[arrow]``); of a folder all such files
        in it, in the order of their names.
    schema : Schema
        Names the columns to read; others are ignored.
    chunk_rows : int, default=2**20
        Most rows of a part.
    multiline : bool, default=False
        As in `datasets.load_csv`.

    Yields
    ------
    Part
        X, y and chunk_id, for `count` of an estimator.

    Raises
    ------
    FileNotFoundError
        If there is no such file; nothing is read.
    ValueError
        If a column is missing, a line does not parse, or a file changes while it is
        read. It names the file and the line or row, not what stands there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mmech_rf import Attribute, PrivateForestClassifier, Schema, read
    >>> schema = Schema([Attribute.categorical("a", ["x", "y"])], ["0", "1"])
    >>> model = PrivateForestClassifier(schema, epsilon=1, n_records=3)
    >>> text = "class,a\n1,x\n0,y\n1,x\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "data.csv").write_text(text)
    ...     for X, y, chunk_id in read(folder, schema, chunk_rows=2):
    ...         model = model.count(X, y, chunk_id=chunk_id)
    >>> model.release().choice_.n_records
    3.0
    """
    check_integer(chunk_rows, "chunk_rows")
    return _parts(_files(source), schema, chunk_rows, multiline)


def _parts(
    files: list[Path], schema: Schema, chunk_rows: int, multiline: bool
) -> Iterator[Part]:
    names = [*schema.feature_names, *schema.required, schema.target]
    before = [_state(path) for path in files]
    for path, state in zip(files, before, strict=True):
        name, first = os.fspath(path), 0
        with located(f"cannot use the data {name!r}"):
            for X, y in _tables(path, names, chunk_rows, multiline):
                yield Part(X, y, (name, first, first + len(y)))
                first += len(y)
            if not first:
                # Nobody learns from a part that is not there.
                yield Part(
                    np.empty((0, len(names) - 1), object),
                    np.empty(0, object),
                    (name, 0, 0),
                )
            if _state(path) != state:
                raise ValueError(
                    "the file changed while it was read; count all parts anew"
                )


def _files(source: Any) -> list[Path]:
    """Return all files of a source, each once."""
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    found: list[Path] = []
    for entry in map(Path, given):
        if entry.is_dir():
            inside = (path for path in sorted(entry.rglob("*")) if path.is_file())
            found += [path for path in inside if path.name.endswith(TABLES)]
        elif entry.exists():
            found.append(entry)
        else:
            raise FileNotFoundError(f"there is no file {os.fspath(entry)!r}")
    if not found:
        raise FileNotFoundError(
            f"source has no files that end in {', '.join(TABLES)}; name some"
        )
    if len({path.resolve() for path in found}) < len(found):
        raise ValueError("source names a file twice; every record counts once")
    return found


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _tables(
    path: Path, names: list[str], chunk_rows: int, multiline: bool
) -> Iterator[tuple[Any, Any]]:
    """Yield attributes and labels of so many rows at a time."""
    if path.name.endswith(".parquet"):
        batches = _of_parquet(path, names, chunk_rows)
    elif multiline or _arrow() is None or not _is_plain(path):
        yield from _by_lines(path, names, chunk_rows, multiline)
        return
    else:
        batches = _of_plain_csv(path, names)
    for batch in batches:
        for start in range(0, batch.num_rows, chunk_rows):
            part = batch.slice(start, chunk_rows)
            yield part.select(names[:-1]), part.column(names[-1])


def _by_lines(
    path: Path, names: list[str], chunk_rows: int, multiline: bool
) -> Iterator[tuple[Any, Any]]:
    rows = readers.read_rows(path, names, multiline=multiline)
    while fields := [cells for _, cells in islice(rows, chunk_rows)]:
        cells = np.empty((len(fields), len(names)), dtype=object)
        cells[:] = fields
        yield cells[:, :-1], cells[:, -1]


def _arrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _is_plain(path: Path) -> bool:
    """Whether a file is neither compressed nor quoted, so that lines are records."""
    if path.name.endswith(".gz") or not path.stat().st_size:
        return False
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as bytes_,
    ):
        if bytes_.find(b'"') >= 0:
            return False
        # A carriage return alone ends a line for pyarrow, and is an error here.
        return bytes_.find(b"\r") < 0 or not re.search(rb"\r(?!\n)", bytes_)


def _of_plain_csv(path: Path, names: list[str]) -> Iterator[Any]:
    """Yield batches of a file without quotes: text, each distinct one held once."""
    import pyarrow
    from pyarrow import csv

    header = readers.read_header(path)
    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    try:
        if any(header.count(name) != 1 for name in names):
            raise pyarrow.ArrowInvalid
        yield from csv.open_csv(
            path,
            read_options=csv.ReadOptions(block_size=2**24),
            parse_options=csv.ParseOptions(quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, kind),
                include_columns=names,
                strings_can_be_null=False,
            ),
        )
    except pyarrow.ArrowInvalid:
        # Which shows what stands there. The other reader says what is wrong, and where.
        if any([True for _ in readers.read_rows(path, names)]):
            raise ValueError("the file does not parse; correct it") from None


def _of_parquet(path: Path, names: list[str], chunk_rows: int) -> Iterator[Any]:
    if _arrow() is None:
        raise ImportError(
            "Parquet files need pyarrow, which is not installed; install mmech[arrow]"
        )
    import pyarrow
    from pyarrow import parquet

    try:
        columns = parquet.read_schema(path).names
        for name in names:
            if (count := columns.count(name)) != 1:
                found = f"{count} columns" if count else "no column"
                raise ValueError(
                    f"the file has {found} named {name!r}, but the schema needs "
                    "exactly one; rename the column or use another schema"
                )
        with parquet.ParquetFile(path, read_dictionary=names) as file:
            yield from file.iter_batches(batch_size=chunk_rows, columns=names)
    except pyarrow.ArrowInvalid:
        raise ValueError(
            "the file is not a Parquet file, or is damaged or cut off; write it again"
        ) from None
