"""Columns of few distinct values, each of which is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

FEW = 256
"""Reading: ranges of so many integers are read as a whole, whichever are there."""


class Dictionary(NamedTuple):
    """A column (N,) as its distinct values (m,), and the place of every row's value.

    The place is -1 where a value is missing.
    """

    entries: NDArray[Any]
    indices: NDArray[np.integer[Any]]

    def values(self) -> NDArray[np.object_]:
        """Return the raw values of all rows, shape (N,)."""
        entries = np.empty(len(self.entries) + 1, dtype=object)
        entries[:-1] = self.entries
        return np.asarray(entries[self.indices])

    @classmethod
    def of_integers(cls, column: NDArray[Any]) -> Self | None:
        """Return integers or booleans as a dictionary, unless their range is wide."""
        kind = column.dtype
        if kind.kind not in "biu" or not column.size:
            return None
        column = np.ascontiguousarray(column)
        lowest, highest = int(column.min()), int(column.max())
        width = highest - lowest + 1
        if width > max(column.size, FEW):
            return None
        present = np.arange(width)
        places: NDArray[Any]
        if width <= FEW:
            # A byte is enough, and wraps where the difference would.
            places = _as_bytes(column)
            if lowest % FEW:
                places = places - np.uint8(lowest % FEW)
        else:
            if kind.kind == "u":  # beyond int64, maybe
                places = (column - kind.type(lowest)).astype(np.int64)
            else:
                places = column.astype(np.int64) - lowest
            # Only values that are there are read: a code may be slow to find.
            found = np.zeros(width, dtype=bool)
            found[places] = True
            present = np.flatnonzero(found)
            position = np.empty(width, np.int64)
            position[present] = np.arange(present.size)
            places = position[places]
        return cls(np.array([lowest + i for i in present.tolist()], kind), places)


def _as_bytes(column: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
    """Return the last byte of every integer; of bytes without a copy."""
    return column.view(np.uint8) if column.itemsize == 1 else column.astype(np.uint8)


def read_once(
    column: NDArray[Any] | Dictionary,
    read: Callable[[NDArray[Any]], NDArray[np.signedinteger[Any]]],
) -> NDArray[np.signedinteger[Any]]:
    """Return the codes of a column (N,), and read equal values once where that is fast.

    What `read` makes of a value must not depend on the others.
    """
    if not isinstance(column, Dictionary):
        short = Dictionary.of_integers(column)
        if short is None:
            return read(column)
        column = short
    # The last entry is for missing values, whose index is -1.
    codes = np.concatenate([read(column.entries), read(np.array([None]))])
    indices = column.indices
    if codes.itemsize == 1 and (indices.itemsize == 1 or len(codes) <= 256):
        # A table of bytes, where -1 is 255: no index is widened.
        places, known = _as_bytes(indices), min(len(codes) - 1, 256)
        table = np.full(256, codes[-1])
        table[:known] = codes[:-1]
        in_order = np.array_equal(table[:known], np.arange(known))
        if in_order and places.max(initial=0) < known:
            return places.view(codes.dtype)
        return np.frombuffer(places.tobytes().translate(table.tobytes()), codes.dtype)
    return codes[indices]
