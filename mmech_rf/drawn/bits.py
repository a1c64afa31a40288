"""Records of few cells counted 64 at a time: bit maps of the cells of views.

A bit map has one bit for every record, sorted by class. The number of records of a
class in a node and in a cell is the number of common bits of two maps. One cell of a
view needs no map, since its records are the rest of the node. Views that follow from
finer ones need no maps. Weights of records are counted digit by digit of their binary
numbers.

Nothing here decides what is drawn: tables are the same, however they were counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmech.noise import FRACTION_BITS
from mmech_rf.arrays import Integers
from mmech_rf.drawn.views import Views

MOST_MAPS = 16
"""Counting: views that need more maps are counted record by record."""

MOST_GAPS = 2**17
"""Weights of labels are looked up for so many scores below the best."""

Words: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class BitMaps:
    """Bit maps of the cells of views."""

    slots: Integers  # bit of every record, (M,); sensitive, as are maps
    words: Integers  # first word of every class, and the end, (k + 1,)
    maps: Words  # shape (m, words[k])
    # First map of every view, (v,), or -1 where records are counted one by one.
    starts: Integers

    @classmethod
    def of(
        cls,
        views: Views,
        cells: NDArray[np.uint8],
        class_codes: Integers,
        n_classes: int,
    ) -> BitMaps:
        """Return the bit maps of records, with their cells in every view, (v, M)."""
        from mmech_rf._kernels import pack_views

        numbers = np.bincount(class_codes, minlength=n_classes)
        words = np.concatenate([[0], np.cumsum(-(-numbers // 64))]).astype(np.int64)
        order = np.argsort(class_codes, kind="stable")
        slots = np.empty(class_codes.size, np.int64)
        firsts = np.cumsum(numbers) - numbers
        skipped = np.repeat(64 * words[:-1] - firsts, numbers)
        slots[order] = np.arange(class_codes.size) + skipped
        few = (views.sizes - 1 <= MOST_MAPS) & (views.nesting[1] < 0)
        ends = np.cumsum(np.where(few, views.sizes - 1, 0))
        starts = np.where(few, ends - views.sizes + 1, -1)
        maps = np.zeros((int(ends[-1]), int(words[-1])), np.uint64)
        pack_views(cells, views.sizes, slots, starts, maps)
        return cls(slots, words, maps, starts)

    def digits(self, weights: Integers) -> Words:
        """Return the binary digits of weights as maps, lowest first, at least one."""
        from mmech_rf._kernels import pack_weights

        most = max(int(weights.max(initial=1)), 1)
        planes = np.zeros((most.bit_length(), self.maps.shape[1]), np.uint64)
        pack_weights(weights, self.slots, planes)
        return planes


def counted(
    views: Views,
    cells: NDArray[np.uint8],
    class_codes: Integers,
    weights: Integers,
    predicted: Integers | None,
    n_classes: int,
    rate: int,
    maps: BitMaps | None = None,
) -> tuple[Any, ...]:
    """Return what kernels know of records: arguments from `views` to `rate`.

    Weights are what each record counts for, (M,). Records whose class is predicted,
    (M,), count once more, as if they were of a further class. Maps may have been made
    before.
    """
    from mmech_rf._kernels import view_tables

    maps = maps or BitMaps.of(views, cells, class_codes, n_classes)
    most = int(weights.sum())
    right, n_columns = weights[:0], n_classes
    planes = maps.digits(weights)
    n_planes = len(planes)
    if predicted is not None:
        n_columns += 1
        right = weights * (predicted == class_codes)
        planes = np.concatenate([planes, maps.digits(right)])
    offsets = np.concatenate([[0], np.cumsum(views.sizes * n_columns)])
    known = (
        cells, views.sizes, *views.nesting, class_codes, weights, right, n_classes,
        maps.slots, maps.words, maps.maps, maps.starts, planes, n_planes,
        offsets,
    )  # fmt: skip
    totals = np.empty(offsets[-1], weights.dtype)
    view_tables(*known, totals)
    exps = _gap_weights(n_columns, most, rate)
    return *known, exps, totals, rate


def _gap_weights(n_labels: int, most: int, rate: int) -> Integers:
    """Return weights of labels by the distance of their score from the best, (n,).

    Whole numbers, so that sums of them are exact. The first, of the best label, is the
    power of two that keeps sums within 64 bits. There are at most `MOST_GAPS`.
    """
    from mmech_rf._kernels import NEGLIGIBLE

    n = min(int(NEGLIGIBLE) // rate + 2, most + 1, MOST_GAPS)
    best = 2.0 ** (62 - n_labels.bit_length())
    gaps = np.arange(n) * rate
    weights = np.rint(best * np.exp(np.ldexp(-gaps, -FRACTION_BITS)))
    return np.where(gaps < NEGLIGIBLE, weights, 0).astype(np.int64)
