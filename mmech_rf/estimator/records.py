"""Encoded records of a fit, added up from the parts that they were read in.

A part is counted and then forgotten: distinct records with their multiplicities stay,
which is all that a release needs. Two methods keep the records themselves, a byte or
two for each attribute. They assign every record to one tree by a draw of its own, or
route it through all trees.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmech import Counts
from mmech.domain.frames import read_held
from mmech.domain.values import Dictionary
from mmech.exceptions import ParameterError
from mmech.marginals.counts import check_chunks, chunk_names, occupied_cells
from mmech.noise import assign_records
from mmech.privacy.guards import check_process
from mmech_rf.arrays import Integers
from mmech_rf.limits import LIMITS
from mmech_rf.schema import Schema

MOST_RECORDS = 10**18
"""Most stated records: about what a 64-bit integer counts, and squares are doubles."""


def check_n_records(value: Any, otherwise: str) -> None:
    """Raise unless it is a public number of records, or None, which means otherwise."""
    if value is not None and (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.integer, np.floating))
        or not 1 <= value <= MOST_RECORDS
    ):
        raise ValueError(
            f"n_records must be a public number from 1 to {MOST_RECORDS:.0e}, or None "
            f"{otherwise}, got {value!r}"
        )


@dataclass(frozen=True, eq=False)
class EncodedRecords:
    """Encoded records, each with how often it is there. Sensitive."""

    codes: Integers  # shape (M, d)
    class_codes: Integers  # shape (M,)
    multiplicities: Integers  # shape (M,)

    @property
    def number(self) -> int:
        """Number of records."""
        return int(self.multiplicities.sum())

    @classmethod
    def once(cls, codes: Integers, class_codes: Integers) -> EncodedRecords:
        """Return records each of which is there once."""
        return cls(codes, class_codes, np.ones(len(codes), np.int64))

    @classmethod
    def of_rows(cls, rows: NDArray[Any], numbers: Integers) -> EncodedRecords:
        """Return records from rows with their classes last."""
        codes = np.array(rows[:, :-1], np.int64, order="C")
        return cls(codes, rows[:, -1].astype(np.int64), numbers)

    def added_up(self, schema: Schema) -> EncodedRecords:
        """Return the records with equal ones added up, in the order of their cells."""
        columns = [*self.codes.T, self.class_codes]
        shape = (*schema.domain_shape, schema.n_classes)
        return self.of_rows(*occupied_cells([(columns, self.multiplicities)], shape))

    def one_by_one(self) -> tuple[Integers, Integers]:
        """Return codes (N, d) and class codes (N,) with a row for every record."""
        if self.number == len(self.codes):
            return self.codes, self.class_codes
        rows = np.repeat(np.arange(len(self.codes)), self.multiplicities)
        return self.codes[rows], self.class_codes[rows]

    def divided(
        self, n_parts: int, noise: np.random.Generator | None
    ) -> tuple[EncodedRecords, EncodedRecords]:
        """Return all records but one in `n_parts`, and these, drawn independently."""
        codes, class_codes = self.one_by_one()
        out = assign_records(self.number, n_parts, insecure_rng=noise) == 0
        kept, held_out = (self.once(codes[i], class_codes[i]) for i in (~out, out))
        return kept, held_out


def in_bins(records: EncodedRecords, fine: Schema, schema: Schema) -> EncodedRecords:
    """Return records that were encoded by fine grids in the bins of a schema."""
    codes = records.codes.copy()
    for place, (before, after) in enumerate(
        zip(fine.attributes, schema.attributes, strict=True)
    ):
        if before.cut_points == after.cut_points:
            continue
        cuts = np.searchsorted(before.cut_points, after.cut_points) + 1
        bins = np.searchsorted(cuts, np.arange(before.size), side="right")
        if before.other is not None:
            bins[-1] = len(cuts) + 1
        codes[:, place] = bins[codes[:, place]]
    return replace(records, codes=codes)


Block: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Codes (N, d) and class codes (N,)."""


def encoded_blocks(
    schema: Schema,
    X: Any,
    y: Any,
    policies: Mapping[str, Any],
    chunk_id: Hashable = None,
) -> Iterator[Block]:
    """Yield codes and class codes; of arrays and pandas so many at a time.

    The codes of all records are never there at once, and have narrow types. Messages
    count rows from the first one that the name of a part of a file has.
    """
    rows = _rows_of(chunk_id)
    first_row = rows[1] if rows else 0

    def encoded(x: Any, labels: Any, first: int) -> Any:
        if policies["handle_unknown"] != "drop":
            _check_classes(schema, labels)
        return schema.encode(x, labels, narrow=True, first_row=first, **policies)

    whole = not (_has_rows(X) and _has_rows(y) and len(X) == len(y))
    step = LIMITS.counted_records
    if whole or len(X) <= step:
        yield encoded(X, y, first_row)
        return
    for start in range(0, len(X), step):
        part = slice(start, start + step)
        x, labels = (getattr(table, "iloc", table)[part] for table in (X, y))
        yield encoded(x, labels, first_row + start)


def _has_rows(table: Any) -> bool:
    """Whether some rows of a table are a view of it."""
    return hasattr(table, "iloc") or (isinstance(table, np.ndarray) and table.ndim > 0)


def _rows_of(chunk_id: Hashable) -> tuple[Hashable, int, int] | None:
    """Return the file, and the rows of it, that a name of a part is made of, if any."""
    if isinstance(chunk_id, tuple) and len(chunk_id) == 3:
        source, first, stop = chunk_id
        if type(first) is int and type(stop) is int and first <= stop:
            return source, first, stop
    return None


def _check_classes(schema: Schema, y: Any) -> None:
    """Raise for what is a target of regression: fractions that no class has."""
    labels = read_held(y)
    if isinstance(labels, Dictionary) or labels.dtype.kind != "f":
        return
    whole = all(isinstance(k, str) or k == int(k) for k in schema.class_labels)
    if whole and (labels % 1 > 0).any():
        raise ValueError(
            "y must hold class labels, got numbers with fractions, as for regression; "
            "put them into ranges between public bounds first, a class for each"
        )


def counted(schema: Schema, blocks: Iterable[Block] = ()) -> Counts:
    """Return the counts of encoded records, class last."""
    shape = (*schema.domain_shape, schema.n_classes)
    counts = Counts(np.zeros((0, len(shape)), np.int64), shape)
    step = LIMITS.counted_records
    for codes, class_codes in blocks:
        for start in range(0, len(codes), step):
            part = slice(start, start + step)
            rows = np.column_stack([codes[part], class_codes[part]])
            counts = counts + Counts._as_given(rows, shape)
    return counts


def count_in_memory(
    schema: Schema, policies: Mapping[str, Any], X: Any, y: Any
) -> Counts:
    """Return the counts of raw records, class last."""
    return counted(schema, encoded_blocks(schema, X, y, policies))


class RecordParts:
    """Parts of the records that are counted so far, of one schema. Sensitive."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._chunks: set[Hashable] = set()
        # By file, in the order of the rows: (first, stop), of which no two overlap.
        self._ranges: dict[Hashable, list[tuple[int, int]]] = {}
        self._counts = counted(schema)
        # Records that stay as they are, with their classes last.
        self._rows: list[NDArray[Any]] = []

    def check(self, schema: Schema | None, chunk_id: Hashable | None) -> None:
        """Raise unless a part may be added: nothing is read before."""
        check_process(self._process, "a set of counted records")
        if schema != self.schema:
            raise ValueError(
                "schema must be the one that the parts before were counted with; "
                "release them first, or count with another estimator"
            )
        if chunk_id is not None:
            check_chunks(self._chunks, chunk_names(chunk_id))
            self._check_rows(chunk_id)

    def _check_rows(self, chunk_id: Hashable) -> None:
        """Raise if rows were counted under another name, in parts of another size."""
        rows = _rows_of(chunk_id)
        if rows is None:
            return
        source, first, stop = rows
        known = self._ranges.get(source, [])
        # The last part that begins before the stop reaches furthest.
        place = bisect_left(known, (stop,))
        if place and first < known[place - 1][1]:
            before = " to ".join(map(str, known[place - 1]))
            raise ParameterError(
                "chunk_id",
                "must name other rows than before",
                f"rows {first} to {stop} of {source!r} after {before}",
                "count every row once",
            )

    def check_complete(self, chunk_ids: Iterable[Hashable]) -> None:
        """Raise unless parts of exactly these names were counted."""
        try:
            expected = frozenset(chunk_ids)
        except TypeError:
            raise TypeError(
                "chunk_ids must be the names of all parts, which are hashable, got "
                f"{type(chunk_ids).__name__}; pass a list of them"
            ) from None
        for names, what in (
            (expected - self._chunks, "were not counted"),
            (self._chunks - expected, "were counted and are not among them"),
        ):
            if names:
                raise ParameterError(
                    "chunk_ids",
                    "must name the parts that were counted",
                    f"{len(names)} that {what}, such as {min(map(repr, names))}",
                    "count every part once; nothing was released",
                )

    def add(
        self, read: Counts | list[NDArray[Any]], chunk_id: Hashable | None = None
    ) -> None:
        """Add a part: its counts, or single records with their classes last.

        Unless another thread has added one of its name since the check.
        """
        with self._lock:
            self.check(self.schema, chunk_id)
            if isinstance(read, Counts):
                read = read._named(None)
                known = len(self._counts._codes) > 0
                self._counts = self._counts + read if known else read
            else:
                self._rows += read
            if chunk_id is not None:
                self._chunks.add(chunk_id)
            if rows := _rows_of(chunk_id):
                insort(self._ranges.setdefault(rows[0], []), rows[1:])

    @property
    def number(self) -> int:
        """Number of records. Sensitive."""
        return self._counts._total() + sum(map(len, self._rows))

    def records(self) -> EncodedRecords:
        """Return the records of all parts."""
        check_process(self._process, "a set of counted records")
        rows, numbers = self._counts._codes, self._counts._multiplicities
        if self._rows:
            rows = np.concatenate([np.repeat(rows, numbers, axis=0), *self._rows])
            numbers = np.ones(len(rows), np.int64)
        return EncodedRecords.of_rows(rows, numbers)

    def __repr__(self) -> str:
        return "RecordParts [holds sensitive counts: do not save or share]"

    def _refuse(self, *args: Any) -> NoReturn:
        raise TypeError(
            "an estimator that holds counted records cannot be pickled or copied; "
            "release() them first"
        )

    __reduce_ex__ = __reduce__ = __copy__ = __deepcopy__ = _refuse
