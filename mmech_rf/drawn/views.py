r"""Views of a domain: few, coarse and public ways to look at a record.

A view maps every record to one of a few cells. Three families are offered to a private
selection; they have equal prior probabilities. A trivial view, with one cell for all
records, has a small prior probability, so that finer views are chosen only if they
gain:

* **single attributes**, at every resolution 2, 4, 8, ... of those with many cells;
* **pairs** of them, within a limit of cells;
* **signed sums** :math:`\sum_{i \in S} \pm t_i` of attributes at their positions
  :math:`t_i \in [-1, 1]` in the order of their cells. The cuts are the quantiles of the
  sum of evenly spread attributes. They need no declared order: the order in which a
  schema lists categories often means something. Where it does not, only a share of the
  prior is lost.

All of it follows from the sizes of the attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.votes import check_that

MOST_CELLS = 64
"""View size: most cells of a view; the arithmetic of pairs and sums is made for it."""

GRID = 64
"""Position resolution: positions of cells are multiples of 1 / GRID."""


FAMILIES = ("whole", "single", "pair", "sum")

# Provenance: as `DrawnSettings`.

WHOLE_PRIOR = 0.05
"""Tree prior: probability of a view that tells no records apart."""

WHOLE_ATTRIBUTES = 8
"""Views of attributes: those of at most so many cells are seen cell by cell only,
others also in 2, 4, 8, ... groups."""

MOST_PAIRS, PAIR_CELLS = 2000, 64
"""Views of pairs: largest number of them, and of cells; the finest are left out."""

MOST_SUMS, MOST_TERMS = 1500, 6
"""Views of sums: sums of one more attribute are left out where there would be more than
so many; most attributes in a sum."""

SUM_PIECES = 6
"""Views of sums: number of cells that a sum is cut into."""

LARGEST = 2**20
"""Numbers in tables stay below this, so that sums of them fit into 32 bits."""

LARGEST_SCORE = 2**40
"""Numbers in tables of scores, of which sums have 64 bits, stay below this."""

CELL_NUMBERS = 2**8
"""Cells are numbered in a byte."""


@storable("View")
@dataclass(frozen=True)
class View:
    """Cells that records are told apart by."""

    attributes: tuple[int, ...]  # which attributes are looked at
    tables: tuple[tuple[int, ...], ...]  # what each of their cells adds
    # Sums below the first cut are cell 0, and so on; empty where the sum itself is the
    # number of the cell.
    cuts: tuple[int, ...]
    size: int
    family: str  # one of FAMILIES

    def check(self, domain_shape: tuple[int, ...]) -> None:
        """Raise unless it is a view of this domain: a file may hold any."""
        attributes, tables = self.attributes, self.tables
        check_that(self.family in FAMILIES, "families")
        check_that((self.family == "whole") == (not attributes), "families")
        check_that(
            list(attributes) == sorted({i for i in attributes if i >= 0}), "sets"
        )
        sizes = [domain_shape[i] for i in attributes]
        check_that([len(table) for table in tables] == sizes, "tables")
        check_cuts(tables, self.cuts, LARGEST)
        if self.cuts:
            check_that(self.size == len(self.cuts) + 1, "cells")
        else:
            check_that(sum(map(min, tables)) >= 0, "cells")
            check_that(sum(map(max, tables)) < self.size <= CELL_NUMBERS, "cells")

    @cached_property
    def _arrays(self) -> tuple[list[NDArray[np.int32]], NDArray[np.int32]]:
        tables = [np.array(table, np.int32) for table in self.tables]
        return tables, np.array(self.cuts, np.int32)

    def cells(self, codes: Integers) -> NDArray[np.uint8]:
        """Return the cell of every encoded record (N, d), shape (N,)."""
        tables, cuts = self._arrays
        total = np.zeros(codes.shape[0], np.int32)
        for i, table in zip(self.attributes, tables, strict=True):
            total += table[codes[:, i]]
        if cuts.size:
            total = np.searchsorted(cuts, total, side="right").astype(np.int32)
        return total.astype(np.uint8)


def check_cuts(
    tables: tuple[tuple[int, ...], ...], cuts: tuple[int, ...], largest: int
) -> None:
    """Raise unless numbers are small enough for exact sums, and cuts in order."""
    numbers = [abs(number) for table in tables for number in table]
    check_that(max(numbers, default=0) <= largest, "numbers")
    check_that(list(cuts) == sorted(set(cuts)), "cuts")
    check_that(len(cuts) < CELL_NUMBERS, "cuts")
    most = largest * len(tables)
    check_that(all(-most <= cut <= most for cut in cuts), "cuts")


@storable("ScoreView")
@dataclass(frozen=True)
class ScoreView:
    """Cells that records are told apart by a score, a sum over cells of other views.

    Scores come from an earlier release, so that a view of them is as public as it.
    """

    parts: tuple[View, ...]
    # What each cell of these views adds to the score.
    tables: tuple[tuple[int, ...], ...]
    cuts: tuple[int, ...]  # scores below the first cut are cell 0, and so on

    family = "score"

    def check(self, domain_shape: tuple[int, ...]) -> None:
        """Raise unless it is a view of this domain: a file may hold any."""
        for part in self.parts:
            part.check(domain_shape)
        sizes = [part.size for part in self.parts]
        check_that([len(table) for table in self.tables] == sizes, "tables")
        check_that(self.cuts, "cuts")
        check_cuts(self.tables, self.cuts, LARGEST_SCORE)

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.cuts) + 1

    @property
    def attributes(self) -> tuple[int, ...]:
        """Attributes that the score depends on."""
        return tuple(sorted({i for part in self.parts for i in part.attributes}))

    def cells(self, codes: Integers) -> NDArray[np.uint8]:
        """Return the cell of every record, as `View.cells` does."""
        total = np.zeros(codes.shape[0], np.int64)
        for part, table in zip(self.parts, self.tables, strict=True):
            total += np.array(table, np.int64)[part.cells(codes)]
        cuts = np.array(self.cuts, np.int64)
        return np.searchsorted(cuts, total, side="right").astype(np.uint8)


@dataclass(frozen=True)
class Views:
    """All views of a domain, and how likely each is before any record is seen."""

    items: tuple[View | ScoreView, ...]

    @cached_property
    def sizes(self) -> Integers:
        """Cells of every view, shape (v,)."""
        return np.array([view.size for view in self.items], np.int64)

    @cached_property
    def places(self) -> dict[Any, int]:
        """Position of every view, and after them of none."""
        return {view: place for place, view in enumerate((*self.items, None))}

    @cached_property
    def log_prior(self) -> Floats:
        """Logarithms of prior probabilities, even over and within families, (v,)."""
        families = [view.family for view in self.items]
        shares = dict.fromkeys(families, 1.0)
        if len(shares) > 1 and "whole" in shares:
            shares["whole"] = WHOLE_PRIOR / (1 - WHOLE_PRIOR) * (len(shares) - 1)
        total = sum(shares.values())
        return np.array(
            [math.log(shares[f] / total / families.count(f)) for f in families]
        )

    @cached_property
    def factors(self) -> Integers:
        """Positions of the two single views that a pair is made of, or -1, (v, 2)."""
        singles = {
            (view.attributes[0], view.tables[0]): place
            for place, view in enumerate(self.items)
            if view.family == "single" and isinstance(view, View)
        }
        out = np.full((len(self.items), 2), -1, np.int64)
        for place, view in enumerate(self.items):
            if view.family != "pair" or not isinstance(view, View):
                continue
            (i, j), (first, second) = view.attributes, view.tables
            step = max(second) + 1
            parts = (i, tuple(code // step for code in first)), (j, second)
            places = [singles.get(part, len(self.items)) for part in parts]
            if max(places) < place:
                out[place] = places
        return out

    @cached_property
    def nesting(self) -> tuple[Integers, Integers, Integers]:
        """Which views follow from finer ones: those need not be counted.

        Views in an order in which each comes right after the finer one, (v,); the
        position of that one, or -1, (v,); and which cell each of its cells is in,
        (v, cells).
        """
        n = len(self.items)
        finer, merged = np.full(n, -1), np.zeros((n, int(self.sizes.max())), np.int64)
        coarser: dict[Any, int] = {}
        for place, view in enumerate(self.items):
            if isinstance(view, ScoreView) or view.family == "single":
                parts = view.parts if isinstance(view, ScoreView) else ()
                key = (parts, view.tables) if parts else view.attributes
                if key in coarser:
                    before = coarser[key]
                    cells = _cells_within(self.items[before], view)
                    if cells is not None:
                        finer[before], merged[before, : cells.size] = place, cells
                coarser[key] = place
        # A pair follows from one with the next finer view of its first attribute.
        pairs = {(i, j): place for place, (i, j) in enumerate(self.factors) if i >= 0}
        for (i, j), place in pairs.items():
            finer[place] = above = pairs.get((finer[i], j), -1)
            if above >= 0:
                first, second = np.divmod(np.arange(self.sizes[above]), self.sizes[j])
                merged[place, : first.size] = merged[i][first] * self.sizes[j] + second
        after = {above: place for place, above in enumerate(finer) if above >= 0}
        order: list[int] = []
        for head in np.flatnonzero(finer < 0):
            order.append(int(head))
            while order[-1] in after:
                order.append(after[order[-1]])
        return np.array(order, np.int64), finer, merged

    def cells(self, codes: Integers) -> NDArray[np.uint8]:
        """Return the cell of every record in every view, shape (v, N)."""
        out = np.empty((len(self.items), codes.shape[0]), np.uint8)
        for row, view in zip(out, self.items, strict=True):
            row[:] = view.cells(codes)
        return out


def _cells_within(view: View | ScoreView, finer: View | ScoreView) -> Integers | None:
    """Return which cell of a view each of a finer one is in; None if it is not finer.

    Both are views of one attribute, or of one score.
    """
    if isinstance(view, ScoreView) or isinstance(finer, ScoreView):
        if not set(view.cuts) <= set(finer.cuts):
            return None
        return np.searchsorted(view.cuts, [finer.cuts[0] - 1, *finer.cuts], "right")
    coarse, above = np.array(view.tables[0]), np.array(finer.tables[0])
    cells = np.zeros(finer.size, np.int64)
    cells[above] = coarse
    return cells if np.array_equal(cells[above], coarse) else None


def public_views(domain_shape: Sequence[int]) -> Views:
    """Return the public views of a domain.

    Examples
    --------
    >>> from mmech_rf.drawn.views import public_views
    >>> views = public_views((2, 3))
    >>> [(view.family, view.size) for view in views.items]
    [('whole', 1), ('single', 2), ('single', 3), ('pair', 6), ('sum', 5), ('sum', 5)]
    """
    return _public_views(tuple(domain_shape))


@lru_cache(maxsize=16)
def _public_views(sizes: tuple[int, ...]) -> Views:
    coarse = [_resolutions(n) for n in sizes]
    singles = [
        View((i,), (table,), (), max(table) + 1, "single")
        for i, tables in enumerate(coarse)
        for table in tables
    ]
    whole = View((), (), (), 1, "whole")
    views = dict.fromkeys([whole, *singles, *_pairs(coarse), *_sums(sizes)])
    return Views(tuple(view for view in views if view.size > 1 or view is whole))


def single_view(attribute: int, size: int, groups: int) -> View:
    """Return an attribute in so many groups of neighbouring cells, or cell by cell."""
    groups = min(size, groups)
    table = tuple(code * groups // size for code in range(size))
    return View((attribute,), (table,), (), groups, "single")


def _resolutions(n: int) -> list[tuple[int, ...]]:
    """Return the group of every cell of an attribute, at its resolutions."""
    groups = [n] if n <= MOST_CELLS else []
    if n > WHOLE_ATTRIBUTES:
        groups = [2**j for j in range(1, 7) if 2**j < n] + groups
    return [tuple(int(code) * g // n for code in range(n)) for g in groups]


def _pairs(coarse: list[list[tuple[int, ...]]]) -> list[View]:
    groups = [[max(table) + 1 for table in tables] for tables in coarse]
    within = [
        (g * h, i, j, a, b)
        for i, j in combinations(range(len(coarse)), 2)
        for a, g in enumerate(groups[i])
        for b, h in enumerate(groups[j])
        if g * h <= PAIR_CELLS
    ]
    views = []
    for size, i, j, a, b in sorted(within)[:MOST_PAIRS]:
        step = groups[j][b]
        first = tuple(code * step for code in coarse[i][a])
        views.append(View((i, j), (first, coarse[j][b]), (), size, "pair"))
    return views


def most_terms(n_features: int) -> int:
    """Return the largest number of attributes in a sum, one if there are no sums."""
    most = min(n_features, MOST_TERMS)
    total = 0
    for terms in range(2, most + 1):
        total += math.comb(n_features, terms) * 2 ** (terms - 1)
        if total > MOST_SUMS:
            return terms - 1
    return max(1, most)


def _sums(sizes: tuple[int, ...]) -> Iterator[View]:
    d = len(sizes)
    quantiles: dict[tuple[int, ...], tuple[int, ...]] = {}
    for terms in range(2, most_terms(d) + 1):
        for attributes in combinations(range(d), terms):
            if any(sizes[i] < 2 for i in attributes):
                continue
            key = tuple(sorted(sizes[i] for i in attributes))
            if key not in quantiles:
                quantiles[key] = _cuts(key)
            for signs in product((1, -1), repeat=terms - 1):
                tables = tuple(
                    tuple((sign * positions(sizes[i])).tolist())
                    for i, sign in zip(attributes, (1, *signs), strict=True)
                )
                if cuts := quantiles[key]:
                    yield View(attributes, tables, cuts, len(cuts) + 1, "sum")


def positions(n: int) -> Integers:
    """Return positions of n cells between -GRID and GRID."""
    return np.rint(GRID * (2 * np.arange(n) / (n - 1) - 1)).astype(np.int64)


def _cuts(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return cuts at quantiles of the sum of evenly spread attributes."""
    mass = np.ones(1)
    for n in sizes:
        single = np.bincount(positions(n) + GRID, minlength=2 * GRID + 1) / n
        mass = np.convolve(mass, single)
    below = np.cumsum(mass)
    half = GRID * len(sizes)
    levels = np.arange(1, SUM_PIECES) / SUM_PIECES
    # A value with more than its share of the mass gets a cell of its own.
    ends = np.searchsorted(below, levels - 1e-9) - half + 1
    return tuple(sorted({int(c) for c in ends if c <= half}))
