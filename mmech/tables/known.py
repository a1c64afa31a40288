"""What is known of tables before anything is measured: totals, and impossible cells.

Both are public. Nothing here looks at records, and whether they agree with what is
known changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.arrays import Floats, Integers, Mask, Subset
from mmech.checks import check_choice, plain_array
from mmech.domain.attribute import BELOW, Attribute
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.exceptions import ParameterError
from mmech.operators.base import product_of
from mmech.storage.codec import storable
from mmech.tables.field import FLAT
from mmech.tables.levels import Chain, subsets_of

MOST_IMPOSSIBLE = 4096
"""Most impossible cells of all tables: a dense matrix of so many rows is inverted."""


LARGEST = 2**53
"""Known counts are at most this, so that floats hold them."""


@storable("Known")
@dataclass(frozen=True, eq=False)
class Known:
    """Public knowledge about tables.

    Attributes
    ----------
    sizes : tuple of int
        Number of values of every attribute.
    tables : tuple of (tuple of int, ndarray of int64)
        Attributes of every known table, sorted, and its counts, an axis for each.
    rules : tuple of (tuple of int, ndarray of bool)
        Attributes of every rule, and which of their combinations are impossible.
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[Subset, Integers], ...]
    rules: tuple[tuple[Subset, Mask], ...]

    def __post_init__(self) -> None:
        for name in ("tables", "rules"):
            shaped = []
            for subset, table in getattr(self, name):
                if [*subset] != sorted({*subset} & {*range(len(self.sizes))}):
                    raise ValueError("what is known is of other attributes")
                shape = [self.sizes[i] for i in subset]  # files know no empty shape
                shaped.append((subset, table.reshape(shape)))
            object.__setattr__(self, name, tuple(shaped))

    @cached_property
    def exact(self) -> dict[Subset, Integers]:
        """All tables that known ones have as margins, themselves and the total."""
        return {
            part: margin(table, subset, part)
            for subset, table in self.tables
            for part in subsets_of(subset)
        }

    def zeros(self, subset: Subset) -> Mask:
        """Return which cells of a table are impossible, an axis per attribute."""
        impossible = np.zeros([self.sizes[i] for i in subset], bool)
        for attributes, mask in self.rules:
            if {*attributes} <= {*subset}:
                others = [a for a, i in enumerate(subset) if i not in attributes]
                impossible |= np.expand_dims(mask, others)
        return impossible

    def closed(
        self, subsets: Iterable[Subset], chain: Chain = FLAT
    ) -> dict[Subset, Mask]:
        """Return the impossible cells of tables that have some and are not known."""
        masks = {s: self._below(s, chain) for s in subsets if s not in self.exact}
        return {subset: mask for subset, mask in masks.items() if mask.any()}

    def zeros_of(
        self, subsets: Sequence[Subset], measured: Iterable[Subset], chain: Chain
    ) -> dict[Subset, tuple[Mask, Floats]]:
        """Return the cells without an error that estimates keep to, and zeros.

        Those of measured tables tell more, if they are not too many. Cells at the nodes
        below one that is impossible are so, too.
        """
        masks = self.closed([*subsets, *measured], chain)
        sums = {s: int(mask.sum()) for s, mask in masks.items()}
        if sum(sums.values()) > MOST_IMPOSSIBLE:
            sums = {s: sums[s] for s in subsets if s in sums}
        if sum(sums.values()) > MOST_IMPOSSIBLE:
            raise ParameterError(
                "impossible",
                f"must be at most {MOST_IMPOSSIBLE:,} cells of all tables",
                f"{sum(sums.values()):,}",
                ("give attributes coarser values", "take fewer tables"),
            )
        return {s: (masks[s], np.zeros(masks[s].shape)) for s in sums}

    def _below(self, subset: Subset, chain: Chain) -> Mask:
        """Return which cells of a table are impossible, also by levels of a chain."""
        above = {i: part.axes[0] for part in chain.all for i in part.axes}
        tops = [above.get(i, i) for i in subset]
        order = np.argsort(tops)
        mask = self.zeros(tuple(sorted(tops))).transpose(np.argsort(order))
        for axis, i in enumerate(subset):
            for part in chain.all:
                if i in part.axes:
                    mask = mask.take(part.ancestors(part.axes.index(i) + 1, 1), axis)
        return mask

    def facts(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what is known, for machines."""
        return {
            what: [
                {"attributes": [names[i] for i in subset], "cells": table.tolist()}
                for subset, table in given
            ]
            for what, given in (("known", self.tables), ("impossible", self.rules))
        }

    def words(self, names: Sequence[str], neighbours: str) -> Iterator[str]:
        """Yield what a statement says, for a neighbour relation."""
        shown, rules = (
            "; ".join(" x ".join(names[i] for i in s) or "the total" for s, _ in of)
            for of in (self.tables, self.rules)
        )
        if shown:
            twice = ": twice what adding or removing one does" * (
                neighbours == "add_remove"
            )
            yield (
                f"Known beforehand, and published as it was: {shown}. Data sets that "
                f"agree on it have as many records, and differ by replaced ones{twice}."
            )
        if rules:
            yield f"Impossible by rules, and zero: cells of {rules}."
        yield (
            "The promise of privacy is for data sets that agree on what is known, "
            "which must have been public already. Records are never compared with it."
        )

    def margins(
        self,
        subsets: Iterable[Subset],
        total: int,
        wanted: Sequence[Integers] | None = None,
    ) -> dict[int, Integers] | None:
        """Return whole tables of single attributes that impossible cells allow.

        Between whole margins, a table of two attributes with closed cells is a flow,
        which is whole if there is one at all [1]_. So only margins, those of all tables
        together, are whole numbers of a program.

        Parameters
        ----------
        subsets : iterable of tuple of int
            Tables of one attribute or two.
        total : int
            Number of records.
        wanted : sequence of ndarray, optional
            Tables of all attributes to be near to, in sum of magnitudes.

        Returns
        -------
        dict of int to ndarray of int64, or None
            Of attributes of tables with impossible cells; ``None`` if there are none.

        References
        ----------
        .. [1] Hoffman, Kruskal, "Integral boundary points of convex polyhedra", 1956.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import block_array, csr_array, eye_array

        closed = self.closed(subsets)
        linked = sorted({i for subset in closed for i in subset})
        if not linked:
            return {}
        most: dict[tuple[str, Any], Floats] = {}  # by block of columns
        rows: list[tuple[dict[tuple[str, Any], Any], ArrayLike]] = []
        for i in linked:
            each = eye_array(self.sizes[i])
            most["margin", i] = np.where(self.zeros((i,)), 0.0, total)
            rows.append(
                ({("margin", i): csr_array(np.ones((1, self.sizes[i])))}, [total])
            )
            goal = self.exact.get((i,), None if wanted is None else wanted[i])
            if goal is not None:
                apart = {("more", i): each, ("less", i): -each}
                far = 0.0 if (i,) in self.exact else np.inf
                most |= dict.fromkeys(apart, np.full(self.sizes[i], far))
                rows.append(({("margin", i): each, **apart}, goal))
        for pair, mask in closed.items():
            places = np.nonzero(~mask)
            for i, place in zip(pair, places, strict=True):
                if len(pair) > 1:
                    most["flow", pair] = np.full(place.size, np.inf)
                    entries = np.ones(place.size), (place, np.arange(place.size))
                    flow = csr_array(entries, shape=(self.sizes[i], place.size))
                    sums = {
                        ("margin", i): -eye_array(self.sizes[i]),
                        ("flow", pair): flow,
                    }
                    rows.append((sums, np.zeros(self.sizes[i])))
        kinds = np.repeat([kind for kind, _ in most], [*map(np.size, most.values())])
        sides = np.concatenate([side for _, side in rows])
        matrix = block_array([[sums.get(key) for key in most] for sums, _ in rows])
        optimum = milp(
            np.isin(kinds, ["more", "less"]).astype(float),
            integrality=kinds == "margin",
            bounds=Bounds(0, np.concatenate(list(most.values()))),
            constraints=LinearConstraint(matrix, sides, sides),
        )
        if optimum.x is None:
            return None
        ends = np.cumsum([self.sizes[i] for i in linked])[:-1]
        whole = np.rint(optimum.x[kinds == "margin"]).astype(np.int64)
        return dict(zip(linked, np.split(whole, ends), strict=True))


def margin(table: NDArray[Any], subset: Subset, part: Subset) -> NDArray[Any]:
    """Return the sums of a table, an axis per attribute, over all but some of them."""
    others = tuple(a for a, i in enumerate(subset) if i not in part)
    return np.asarray(table.sum(axis=others))


def what_is_known(
    known: Any, impossible: Any, domain: Domain, subsets: Sequence[Subset]
) -> Known | None:
    """Check public knowledge about tables, and return it.

    Parameters
    ----------
    known : mapping of names to table, or Known
    impossible : iterable of rules
        As in `release_tables`.
    domain : Domain
        The attributes of all tables.
    subsets : sequence of tuple of int
        The attributes of every table.

    Raises
    ------
    TypeError, ValueError
        If it cannot be read, is about attributes that no table has together, or
        contradicts itself.
    """
    if not isinstance(known, Known | Mapping):
        raise TypeError(
            "known must map names to tables, such as {'sex': [4, 6]}, got "
            f"{known!r:.60}"
        )
    if not isinstance(impossible, Iterable) or isinstance(impossible, str | Mapping):
        raise TypeError(
            "impossible must be a list of rules, such as [{'sex': 'f'}], got "
            f"{impossible!r:.60}"
        )
    if not isinstance(known, Known):
        tables = tuple(known_table(domain, *item) for item in known.items())
        rules = tuple(
            impossible_cells(domain, rule, f"rule {k} of impossible")
            for k, rule in enumerate(impossible, 1)
        )
        known = Known(domain.shape, tables, rules)
    if not (known.tables or known.rules):
        return None
    for what, of in (("known", known.tables), ("impossible", known.rules)):
        for subset, _ in of:
            if not any({*subset} <= {*table} for table in subsets):
                raise ParameterError(
                    what,
                    "must be about attributes that one of the tables has together",
                    tuple(domain.names[i] for i in subset),
                    "add a table of them, or leave it out",
                )
    if max(map(len, subsets)) > 2 and (known.rules or any(s for s, _ in known.tables)):
        raise ParameterError(
            "known",
            "must be no more than the number of records, and no cell impossible, where "
            "tables have three attributes or more",
            remedy="leave out those tables",
        )
    measured = ([i for i in s if domain.shape[i] > 1] for s in subsets)
    if all(tuple(subset) in known.exact for subset in measured):
        raise ParameterError(
            "known", "must leave a table to be measured", remedy="add other tables"
        )
    _check_agreement(known, domain.names, subsets)
    return known


def _check_agreement(
    known: Known, names: Sequence[str], subsets: Sequence[Subset]
) -> None:
    """Raise unless whole tables of some records keep to what is known."""
    called = [
        f"the known counts of {' x '.join(names[i] for i in subset) or 'the total'}"
        for subset, _ in known.tables
    ] + [f"rule {k}" for k in range(1, len(known.rules) + 1)]
    n = len(known.tables)

    def holds(items: list[int]) -> bool:
        tables = tuple(known.tables[k] for k in items if k < n)
        rules = tuple(known.rules[k - n] for k in items if k >= n)
        facts = Known(known.sizes, tables, rules)
        total = int(facts.exact.get((), np.array(1)))
        return (
            all(
                np.array_equal(margin(table, subset, part), facts.exact[part])
                for subset, table in facts.tables
                for part in subsets_of(subset)
            )
            and not any(facts.zeros(s)[t > 0].any() for s, t in facts.exact.items())
            and facts.margins(subsets, total) is not None
        )

    items = list(range(len(called)))
    if not holds(items):
        for item in range(len(called)):  # what is left contradicts itself by itself
            if not holds(fewer := [k for k in items if k != item]):
                items = fewer
        raise ParameterError(
            "known" if items[0] < n else "impossible",
            "must leave counts that are possible, but the search found none that keep "
            "to " + " and ".join(called[k] for k in items),
            remedy="correct one of them",
        )


# ---- as they are given --------------------------------------------------------------


def _positions(domain: Domain, names: tuple[str, ...]) -> list[int]:
    for name in names:
        check_choice(name, "an attribute of what is known", domain.names)
    if len({*names}) < len(names):
        raise ParameterError("known", "must name attributes of a table once", names)
    return [domain.names.index(name) for name in names]


def _in_order(positions: Sequence[int], table: Any) -> tuple[Subset, Any]:
    """Return positions of attributes, sorted, and the table with axes in that order."""
    return tuple(sorted(positions)), table.transpose(np.argsort(positions)).copy()


def known_table(domain: Domain, names: Any, value: Any) -> tuple[Subset, Integers]:
    """Return the attributes of a known table, and its counts."""
    names = (names,) if isinstance(names, str) else tuple(names)
    title = f"the known table of {' x '.join(names) or 'the total'}"
    owners = [attribute for attribute in domain.attributes if attribute.name in names]
    # A value of the last column tells what is in the columns above it.
    above = {column for attribute in owners for column in attribute.columns[:-1]}
    names = tuple(name for name in names if name not in above)
    positions = _positions(domain, names)
    sizes = [domain.shape[i] for i in positions]
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        table = read_table(value)
        attributes = [domain.attributes[i] for i in positions]
        wanted = [column for a in attributes for column in a._cells_by_column]
        places, (counts_at,) = table.locate(wanted, "known table", ("count",))
        columns = map(table.column, places)
        codes = [
            _codes(a, _labels(islice(columns, len(a.columns) or 1)), title)
            for a in attributes
        ]
        cells = np.ravel_multi_index(codes, sizes)
        distinct = len(np.unique(cells))
        if not distinct == len(cells) == product_of(sizes):
            raise ValueError(
                f"{title} must have one row for each of {product_of(sizes)} "
                f"combinations of values, got {len(cells)} rows for {distinct}; add "
                "those that are missing, and merge repeated ones"
            )
        given = table.column(counts_at)[np.argsort(cells)]
    else:
        given = plain_array(value, title)
    try:
        counts = given.astype(np.float64)
        valid = given.size == product_of(sizes) and 0 <= counts.sum() <= LARGEST
        valid = valid and bool(((counts >= 0) & (counts % 1 == 0)).all())
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"{title} must be {product_of(sizes)} whole numbers >= 0, got "
            f"{given.tolist()!r:.60}"
        )
    return _in_order(positions, counts.astype(np.int64).reshape(sizes))


def impossible_cells(domain: Domain, rule: Any, title: str) -> tuple[Subset, Mask]:
    """Return the attributes of a rule, and which of their cells are impossible."""
    if not isinstance(rule, Mapping) or not rule:
        raise TypeError(
            f"{title} must map attributes to values, such as {{'sex': 'f'}}, got "
            f"{rule!r:.60}"
        )
    positions = _positions(domain, tuple(rule))
    masks = []
    for i, values in zip(positions, rule.values(), strict=True):
        attribute = domain.attributes[i]
        several = values if isinstance(values, list | tuple) else [values]
        if not several:
            raise ValueError(
                f"{title} must name a cell of {attribute.name!r}, got an empty list"
            )
        codes = _codes(attribute, several, title)
        masks.append(np.isin(np.arange(attribute.size), codes))
    return _in_order(positions, reduce(np.logical_and.outer, masks))


def _labels(columns: Iterable[Iterable[Any]]) -> list[str]:
    """Return the label of every row: its cells in some columns, put together."""
    return [BELOW.join(map(str, cells)) for cells in zip(*columns, strict=True)]


def _codes(attribute: Attribute, values: Iterable[Any], title: str) -> Integers:
    """Return the cells that values name."""
    labels = [str(label) for label in attribute.labels]
    texts = [str(value) for value in values]
    for text in texts:
        check_choice(text, f"a value of {attribute.name!r} in {title}", labels)
    return np.array([labels.index(text) for text in texts], np.int64)
