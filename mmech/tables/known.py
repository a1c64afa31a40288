r"""What is known of tables before anything is measured, and what follows from it.

Published totals c and cells that are impossible are public: linear equations C x = c.
Estimates are conditioned on them. A known table fixes the interactions of all subsets
of its attributes, whose errors are uncorrelated with all others. Impossible cells tie
interactions together: with the covariance V of the errors of tables,

.. math:: \hat x' = \hat x - V C^T (C V C^T)^+ (C \hat x - c) , \qquad
          V' = V - V C^T (C V C^T)^+ C V .

Nothing here looks at records, and whether they agree with c changes nothing.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import pinvh

from mmech.checks import check_choice, magnitude, plain_array, read_float
from mmech.domain.attribute import Attribute
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.exceptions import ParameterError
from mmech.limits import LIMITS
from mmech.mechanism import MatrixMechanism
from mmech.operators.base import product_of
from mmech.reconstruction import MarginalEstimate
from mmech.storage.codec import storable
from mmech.tables.noise import (
    NO_ERROR,
    VARIANCE_FLOOR,
    ErrorLaw,
    Noise,
    error_law,
    step_of,
    subsets_of,
)
from mmech.tables.rounding import with_sums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Subset = tuple[int, ...]

LARGEST = 2**53
"""Known counts are at most this, so that floats hold them."""

MOST_LINKED, MOST_RECORDS = 2**14, 2**22
"""Most cells that known tables and rules link, and most records that a known total has,
where tables have three attributes or more: a program has a whole number per cell."""

MOST_IMPOSSIBLE = 4096
"""Most impossible cells of all tables: a dense matrix of so many rows is inverted."""

FEW, STEP = 256, 1.01
"""Where an error has more different coefficients, their magnitudes are rounded up to
powers of this step: an interval gets longer, by at most as much."""

LEAST_SHARE = 1e-12
"""Share of the variance of noise: a smaller variance of a count is rounding."""

COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""How a rule compares a cell with a number: all values of the cell have to pass."""


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
        found = np.zeros([self.sizes[i] for i in subset], bool)
        for own, mask in self.rules:
            if {*own} <= {*subset}:
                found |= np.expand_dims(
                    mask, [a for a, i in enumerate(subset) if i not in own]
                )
        return found

    def closed(self, subsets: Iterable[Subset]) -> dict[Subset, Mask]:
        """Return the impossible cells of tables that have some and are not known."""
        found = {s: self.zeros(s) for s in subsets if s not in self.exact}
        return {subset: mask for subset, mask in found.items() if mask.any()}

    def facts(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what is known, for machines."""
        return {
            what: [
                {"attributes": [names[i] for i in own], "cells": table.tolist()}
                for own, table in given
            ]
            for what, given in (("known", self.tables), ("impossible", self.rules))
        }

    def words(self, names: Sequence[str], neighbours: str) -> Iterator[str]:
        """Yield what a statement says, for a neighbour relation."""
        shown, rules = (
            "; ".join(" x ".join(names[i] for i in own) or "the total" for own, _ in of)
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
        kinds = np.concatenate(
            [np.full(own.size, kind) for (kind, _), own in most.items()]
        )
        sides = np.concatenate([side for _, side in rows])
        matrix = block_array([[own.get(key) for key in most] for own, _ in rows])
        found = milp(
            np.isin(kinds, ["more", "less"]).astype(float),
            integrality=kinds == "margin",
            bounds=Bounds(0, np.concatenate(list(most.values()))),
            constraints=LinearConstraint(matrix, sides, sides),
        )
        if found.x is None:
            return None
        ends = np.cumsum([self.sizes[i] for i in linked])[:-1]
        whole = np.rint(found.x[kinds == "margin"]).astype(np.int64)
        return dict(zip(linked, np.split(whole, ends), strict=True))

    @property
    def parts(self) -> list[Subset]:
        """Attributes that known tables and rules link, by sets that share none."""
        found: list[set[int]] = []
        for own, _ in (*self.tables, *self.rules):
            linked = [part for part in found if part & {*own}]
            found = [part for part in found if part not in linked]
            found.append({*own}.union(*linked))
        return [tuple(sorted(part)) for part in found if part]

    def whole(self, part: Subset, near: Any, total: int) -> Integers | None:
        """Return the whole table next to one, of linked attributes, that keeps to it.

        ``None`` if none is found.
        """
        inside = [(own, table) for own, table in self.tables if {*own} <= {*part}]
        sums = [(tuple(map(part.index, own)), table) for own, table in inside]
        sums.append(((), np.array(total)))
        return with_sums(near.astype(np.int64), sums, ~self.zeros(part))

    @property
    def has_records(self) -> bool:
        """Whether some records keep to what is known, as far as whole tables tell."""
        total = int(self.exact.get((), np.array(1)))
        for part in self.parts:
            if self.whole(part, np.zeros([self.sizes[i] for i in part]), total) is None:
                return False
        return True

    def moved(self, codes: Integers) -> Integers:
        """Return records (n, d) of which as few as may be are moved to what is known.

        Attributes that are not linked stay as they are.
        """
        codes = codes.copy()
        for part in self.parts:
            shape = [self.sizes[i] for i in part]
            places = np.ravel_multi_index(tuple(codes[:, part].T), shape)
            near = np.bincount(places, minlength=product_of(shape))
            found = self.whole(part, near.reshape(shape), len(codes))
            if found is None:  # in time; this one was found before anything was paid
                found = self.whole(part, np.zeros(shape), len(codes))
            assert found is not None
            apart = found.ravel() - near
            order = np.argsort(places, kind="stable")
            rank = np.arange(len(codes)) - (np.cumsum(near) - near)[places[order]]
            rows = order[rank < -apart[places[order]]]
            cells = np.repeat(np.arange(apart.size), np.maximum(apart, 0))
            codes[np.ix_(rows, part)] = np.transpose(np.unravel_index(cells, shape))
        return codes


def margin(table: NDArray[Any], subset: Subset, part: Subset) -> NDArray[Any]:
    """Return the sums of a table, an axis per attribute, over all but some of them."""
    others = tuple(a for a, i in enumerate(subset) if i not in part)
    return np.asarray(table.sum(axis=others))


# ---- what is given -----------------------------------------------------------------


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
            "impossible must be a list of rules, such as [{'age': '<15'}], got "
            f"{impossible!r:.60}"
        )
    if not isinstance(known, Known):
        tables = tuple(_table(domain, names, own) for names, own in known.items())
        rules = tuple(
            _rule(domain, own, f"rule {k} of impossible")
            for k, own in enumerate(impossible, 1)
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
    if max(map(len, subsets)) > 2:
        for part in known.parts:
            cells = product_of(known.sizes[i] for i in part)
            total = int(known.exact.get((), np.array(0)))
            most = min(MOST_RECORDS, LIMITS.table_entries // len(known.sizes))
            if cells > MOST_LINKED or total > most:
                raise ParameterError(
                    "known",
                    f"must link attributes of at most {MOST_LINKED:,} cells together, "
                    f"and {most:,} records, where tables have three attributes or "
                    f"more, but {', '.join(domain.names[i] for i in part)} have "
                    f"{magnitude(cells)} cells for {total:,} records",
                    remedy="leave out tables of three attributes and more",
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
        f"the known counts of {' x '.join(names[i] for i in own) or 'the total'}"
        for own, _ in known.tables
    ] + [f"rule {k}" for k in range(1, len(known.rules) + 1)]
    n = len(known.tables)

    def holds(items: list[int]) -> bool:
        own = Known(
            known.sizes,
            tuple(known.tables[k] for k in items if k < n),
            tuple(known.rules[k - n] for k in items if k >= n),
        )
        total = int(own.exact.get((), np.array(1)))
        return (
            all(
                np.array_equal(margin(table, subset, part), own.exact[part])
                for subset, table in own.tables
                for part in subsets_of(subset)
            )
            and not any(own.zeros(s)[table > 0].any() for s, table in own.exact.items())
            and own.margins(subsets, total) is not None
            and (max(map(len, subsets)) < 3 or own.has_records)
        )

    items = list(range(len(called)))
    if not holds(items):
        for item in range(len(called)):  # what is left contradicts itself by itself
            if not holds(fewer := [k for k in items if k != item]):
                items = fewer
        raise ParameterError(
            "known" if items[0] < n else "impossible",
            "must leave counts that are possible, but there are none by "
            + " and ".join(called[k] for k in items),
            remedy="correct one of them",
        )


def _positions(domain: Domain, names: tuple[str, ...]) -> list[int]:
    for name in names:
        check_choice(name, "an attribute of what is known", domain.names)
    if len({*names}) < len(names):
        raise ParameterError("known", "must name attributes of a table once", names)
    return [domain.names.index(name) for name in names]


def _in_order(positions: Sequence[int], table: Any) -> tuple[Subset, Any]:
    """Return positions of attributes, sorted, and the table with its axes so."""
    return tuple(sorted(positions)), table.transpose(np.argsort(positions)).copy()


def _table(domain: Domain, names: Any, value: Any) -> tuple[Subset, Integers]:
    """Return the attributes of a known table, and its counts."""
    names = (names,) if isinstance(names, str) else tuple(names)
    positions = _positions(domain, names)
    what = f"the known table of {' x '.join(names) or 'the total'}"
    sizes = [domain.shape[i] for i in positions]
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        table = read_table(value)
        places, (last,) = table.locate(names, "known table", ("count",))
        codes = [
            _codes(domain.attributes[i], table.column(j), what)
            for i, j in zip(positions, places, strict=True)
        ]
        cells = np.ravel_multi_index(codes, sizes)
        if sorted(cells.tolist()) != list(range(product_of(sizes))):
            raise ValueError(f"{what} must have a row for every combination, and one")
        given = table.column(last)[np.argsort(cells)]
    else:
        given = plain_array(value, what)
    try:
        counts = given.astype(np.float64)
        good = given.size == product_of(sizes) and 0 <= counts.sum() <= LARGEST
        good = good and bool(((counts >= 0) & (counts % 1 == 0)).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ValueError(
            f"{what} must be {product_of(sizes)} whole numbers >= 0, got "
            f"{given.tolist()!r:.60}"
        )
    return _in_order(positions, counts.astype(np.int64).reshape(sizes))


def _rule(domain: Domain, rule: Any, what: str) -> tuple[Subset, Mask]:
    """Return the attributes of a rule, and which of their cells are impossible."""
    if not isinstance(rule, Mapping) or not rule:
        raise TypeError(
            f"{what} must map attributes to values, such as {{'age': '<15'}}, got "
            f"{rule!r:.60}"
        )
    first, table = next(iter(rule.items()))
    if not isinstance(first, tuple):
        positions = _positions(domain, tuple(rule))
        masks = [
            _cells(domain.attributes[i], values, what)
            for i, values in zip(positions, rule.values(), strict=True)
        ]
        return _in_order(positions, reduce(np.logical_and.outer, masks))
    positions = _positions(domain, first)
    mask, sizes = plain_array(table, what), [domain.shape[i] for i in positions]
    if len(rule) > 1 or mask.dtype != bool or mask.size != product_of(sizes):
        raise ValueError(
            f"{what} must be one table of {product_of(sizes)} truth values"
        )
    return _in_order(positions, mask.reshape(sizes))


def _codes(attribute: Attribute, values: Iterable[Any], what: str) -> Integers:
    """Return the cells that values name."""
    labels = [str(label) for label in attribute.labels]
    texts = [str(value) for value in values]
    for text in texts:
        check_choice(text, f"a value of {attribute.name!r} in {what}", labels)
    return np.array([labels.index(text) for text in texts], np.int64)


def _cells(attribute: Attribute, values: Any, what: str) -> Mask:
    """Return which cells of an attribute a rule names, by value or by comparison."""
    found = np.zeros(attribute.size, bool)
    for value in values if isinstance(values, list | tuple) else [values]:
        compared = re.fullmatch(r"\s*([<>]=?)\s*(\S+)\s*", str(value))
        if compared is None or value in attribute.labels:
            found[_codes(attribute, [value], what)] = True
        else:
            passes, number = COMPARISONS[compared[1]], read_float(compared[2])
            ends = _ends(attribute)
            found |= [passes(a, number) and passes(b, number) for a, b in ends]
    if not found.any():
        raise ValueError(
            f"{what} must name a whole cell of {attribute.name!r}, got {values!r:.60}; "
            f"its cells are {', '.join(map(str, attribute.labels)):.200}"
        )
    return found


def _ends(attribute: Attribute) -> list[tuple[float, float]]:
    """Return the least and the largest number of every cell."""
    found: list[tuple[float, float]] = []
    if attribute.cut_points:
        least = -math.inf if attribute.lower is None else attribute.lower
        most = math.inf if attribute.upper is None else attribute.upper
        for a, b in pairwise([least, *attribute.cut_points, most]):
            low, high = a if a == least else np.nextafter(a, b), b
            if attribute.integer:
                low, high = (np.ceil(low), np.floor(high))
            found.append((float(low), float(high)))
    for label in attribute.labels[len(found) :]:
        try:
            found.append((read_float(label),) * 2)
        except (TypeError, ValueError):
            found.append((math.nan, math.nan))
    return found


# ---- errors of what is conditioned -------------------------------------------------


def _alike(rules: Sequence[tuple[Subset, Mask]], attribute: int, n: int) -> Integers:
    """Return a number for each value, equal for those that no rule tells apart."""
    own = [np.zeros((n, 0), bool)] + [
        np.moveaxis(mask, subset.index(attribute), 0).reshape(n, -1)
        for subset, mask in rules
        if attribute in subset
    ]
    return np.unique(np.hstack(own), axis=0, return_inverse=True)[1].ravel()


class KnownNoise(Noise):
    """The law of the errors of tables of which some cells are impossible.

    Parameters
    ----------
    mechanism : MatrixMechanism
        Measures marginals.
    known : Known
    subsets : sequence of tuple of int
        All tables.
    """

    def __init__(
        self, mechanism: MatrixMechanism, known: Known, subsets: Sequence[Subset]
    ) -> None:
        super().__init__(mechanism, known.exact)
        self._closed = known.closed([*subsets, *self._weights])  # larger ones tell more
        if sum(int(mask.sum()) for mask in self._closed.values()) > MOST_IMPOSSIBLE:
            self._closed = known.closed(subsets)
        self._variance, self._parameter = (
            np.repeat(own, self._cells.astype(np.int64))
            for own in (self._variances, self._parameters)
        )
        cells = sum(int(mask.sum()) for mask in self._closed.values())
        largest = max(product_of(known.sizes[i] for i in own) for own in subsets)
        room = LIMITS.table_entries // self._variance.size - largest
        if cells > min(room, MOST_IMPOSSIBLE):
            raise ParameterError(
                "impossible",
                f"must be at most {max(0, min(room, MOST_IMPOSSIBLE)):,} cells of all "
                "tables",
                f"{cells:,}",
                ("give attributes coarser values", "take fewer tables"),
            )
        self._moves = np.concatenate(
            [
                self._plain(own, np.flatnonzero(mask))
                for own, mask in self._closed.items()
            ]
        )
        self._inverse = pinvh(
            np.concatenate(
                [self._tied(own)[mask.ravel()] for own, mask in self._closed.items()]
            ),
            rtol=1e-10,
        )
        parts = {s for own in self._closed for s in subsets_of(own)} - {*known.exact}
        self._ties = {part: self._tied(part) for part in parts}
        _, self._kind = np.unique(self._parameter, return_inverse=True)
        self._alike = [_alike(known.rules, i, n) for i, n in enumerate(known.sizes)]
        self._representatives: dict[Subset, tuple[Floats, Floats, Integers]] = {}
        self._found: dict[bytes, ErrorLaw] = {}

    def _kernel(self, subset: Subset) -> Floats:
        """Return the sum of projections on interactions over κ, (cells, cells)."""
        cells = product_of(self.domain_shape[i] for i in subset)
        kernel = np.zeros((cells, cells))
        for part in subsets_of(subset):
            own: Any = np.ones((1, 1))
            for i in subset:
                n = self.domain_shape[i]
                even = np.full((n, n), 1 / n)
                own = np.kron(own, np.eye(n) - even if i in part else even)
            kernel += own / self._precision(part)
        return kernel

    def _plain(self, subset: Subset, rows: Integers) -> Floats:
        """Return coefficients of all noise in cells before conditioning, (rows, p)."""
        cells = product_of(self.domain_shape[i] for i in subset)
        blocks, kernels = [], {part: self._kernel(part) for part in subsets_of(subset)}
        for measured, share in zip(self._weights, self._shares, strict=True):
            common = tuple(i for i in subset if i in measured)
            kernel = kernels[common]
            at, columns = (self._places(own, common) for own in (subset, measured))
            own = kernel[np.ix_(at[rows], columns)]
            blocks.append(own * (share * len(kernel) / cells))
        return np.hstack(blocks)

    def _tied(self, subset: Subset) -> Floats:
        """Return covariances with all closed cells before conditioning, (cells, n)."""
        blocks = []
        for closed, mask in self._closed.items():
            common = tuple(i for i in subset if i in closed)
            kernel = self._kernel(common)
            rows, columns = (self._places(own, common) for own in (subset, closed))
            own = kernel[np.ix_(rows, columns[mask.ravel()])]
            blocks.append(own * (len(kernel) / (rows.size * mask.size)))
        return np.hstack(blocks)

    def _places(self, subset: Subset, part: Subset) -> Integers:
        """Return the cell of a margin that each cell of a table is counted in."""
        sizes = self.domain_shape
        margins = np.arange(product_of(sizes[i] for i in part))
        margins = margins.reshape([sizes[i] if i in part else 1 for i in subset])
        return np.broadcast_to(margins, [sizes[i] for i in subset]).ravel()

    def estimate(self, values: ArrayLike) -> MarginalEstimate:
        """Return the conditioned estimate from measured values, (p,) or (p, k)."""
        plain = super().estimate(values)
        apart = [
            plain.marginal(own).reshape(mask.size, -1)[mask.ravel()]
            for own, mask in self._closed.items()
        ]
        weights = self._inverse @ np.concatenate(apart)
        tables = {}
        for part, ties in self._ties.items():
            sizes = [self.domain_shape[i] for i in part]
            table = plain.marginal(part).reshape(len(ties), -1) - ties @ weights
            tables[part] = table.reshape(*sizes, -1)
        return plain.given(tables)

    def coefficients(self, subset: Subset, rows: Integers | None = None) -> Floats:
        """Return the coefficients of all noise in the errors of cells, (rows, p)."""
        tied = self._tied(subset)
        rows = np.arange(len(tied)) if rows is None else rows
        return self._plain(subset, rows) - tied[rows] @ self._inverse @ self._moves

    def _cells_of(self, subset: Subset) -> tuple[Floats, Floats, Integers]:
        """Return coefficients and variances of some cells, and which stands for each.

        Cells have the same law of errors if their values differ by ones that rules do
        not tell apart: to swap these changes nothing that is known or measured.
        """
        if subset not in self._representatives:
            kinds = [self._alike[i] for i in subset]
            places = np.ravel_multi_index(
                np.meshgrid(*kinds, indexing="ij"), [own.size for own in kinds]
            )
            _, first, which = np.unique(places, return_index=True, return_inverse=True)
            found = self.coefficients(subset, first)
            own = found, self._spreads(found), which.ravel()
            self._representatives[subset] = own
        return self._representatives[subset]

    def _spreads(self, coefficients: Floats) -> Floats:
        """Return variances by row, zero where they are rounding."""
        found = np.square(coefficients) @ self._variance
        return np.where(found > LEAST_SHARE * self._variances.max(), found, 0.0)

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the errors of counts that have any."""
        _, spreads, which = self._cells_of(subset)
        found = spreads[which]
        mean = float(found.sum()) / max(1, int((found > 0).sum()))
        return max(mean, VARIANCE_FLOOR)

    def law(self, subset: Subset, together: Subset | None = None) -> ErrorLaw:
        """Return the law of the error of the count with the largest variance."""
        coefficients, spreads, _ = self._cells_of(subset)
        return self.laws(coefficients[[np.argmax(spreads)]])[0]

    def by_cell(self, subset: Subset) -> list[ErrorLaw]:
        """Return the law of the error of every cell of a table."""
        coefficients, _, which = self._cells_of(subset)
        found = self.laws(coefficients)
        return [found[k] for k in which]

    def laws(self, coefficients: Floats) -> list[ErrorLaw]:
        """Return the law of every row of coefficients of all noise.

        Rows of the same four moments have the same coefficients in another order.
        """
        sizes = np.abs(coefficients)
        power, moments = self._variance * sizes, []
        for _ in range(4):
            moments.append(power.sum(axis=1))
            power = power * sizes
        rounded = np.round(moments / np.maximum(np.max(moments, 1), 1e-300)[:, None], 9)
        _, first, which = np.unique(
            rounded, axis=1, return_index=True, return_inverse=True
        )
        spreads = self._spreads(coefficients[first])
        laws = [
            self._law_of_row(coefficients[k], math.sqrt(own)) if own else NO_ERROR
            for k, own in zip(first, spreads, strict=True)
        ]
        return [laws[k] for k in which.ravel()]

    def _law_of_row(self, coefficients: Floats, error: float) -> ErrorLaw:
        """Return the law of a row; equal ones are looked for once."""
        largest = np.abs(coefficients).max()
        kept = np.abs(coefficients) > 1e-9 * largest
        sizes = (np.abs(coefficients[kept]) / largest).round(9)
        if np.unique(sizes).size > FEW:
            sizes = STEP ** np.ceil(np.log(sizes) / math.log(STEP) - 1e-6)
        _, first, numbers = np.unique(
            sizes + 2 * self._kind[kept], return_index=True, return_counts=True
        )
        terms = [largest * sizes[first], numbers.astype(np.float64)]
        terms += [own[kept][first] for own in (self._variance, self._parameter)]
        key = np.round(terms, 6).tobytes()
        if key not in self._found:
            apart = np.abs(terms[0] - np.rint(terms[0])).max()
            whole = 0.0 if apart < 1e-8 else None
            law = error_law(self._law, terms[0], terms[1], terms[2], terms[3], whole)
            spreads = np.sqrt(terms[1] * terms[2])
            step = 0.0 if whole == 0.0 else step_of(terms[0], spreads)
            self._found[key] = replace(law, standard_error=error, step=step)
        return self._found[key]
