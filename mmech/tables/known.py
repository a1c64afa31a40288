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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import pinvh

from mmech.checks import check_choice, plain_array, read_float
from mmech.domain.attribute import Attribute
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.exceptions import ParameterError
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
    subsets_of,
)

__all__ = ["Known", "KnownNoise", "what_is_known"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
Subset = tuple[int, ...]

MOST_IMPOSSIBLE = 4096
"""Most impossible cells of all tables: a dense matrix of so many rows is inverted."""

LARGEST = 2**53
"""Known counts are at most this, so that floats hold them."""

FEW_COEFFICIENTS, STEP = 256, 1.01
"""Where an error has more different coefficients, their magnitudes are rounded up to
powers of this step: an interval gets longer, by at most as much."""

LEAST_SHARE = 1e-9
"""Share of the variance of a count below which what is left of it is rounding."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
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
        for subset, table in (*self.tables, *self.rules):
            if list(subset) != sorted({*subset} & {*range(len(self.sizes))}) or (
                table.shape != tuple(self.sizes[i] for i in subset)
            ):
                raise ValueError("what is known is of other attributes")

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
                found |= mask.reshape(
                    [self.sizes[i] if i in own else 1 for i in subset]
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
                {"attributes": [names[i] for i in own], values: table.tolist()}
                for own, table in given
            ]
            for what, values, given in (
                ("known", "counts", self.tables),
                ("impossible", "cells", self.rules),
            )
        }

    def words(self, names: Sequence[str], neighbours: str) -> Iterator[str]:
        """Yield what a statement says, for a neighbour relation."""
        if self.tables:
            shown = "; ".join(_called(own, names) for own, _ in self.tables)
            yield (
                f"Known beforehand, and published as it was: {shown}. Data sets that "
                "agree on it have as many records, and differ by replaced ones"
                + ": twice what adding or removing does." * (neighbours == "add_remove")
                + "." * (neighbours != "add_remove")
            )
        if self.rules:
            shown = "; ".join(_called(own, names) for own, _ in self.rules)
            yield f"Impossible by rules, and zero: cells of {shown}."
        yield (
            "The promise of privacy is for data sets that agree on what is known, "
            "which must have been public already. Records are never compared with it."
        )

    # ---- whole numbers -------------------------------------------------------------

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
        # Blocks of columns, with a cost and an upper bound, and blocks of rows.
        columns: dict[Any, tuple[int, float, ArrayLike]] = {}
        rows: list[tuple[dict[Any, Any], ArrayLike]] = []
        for i in linked:
            own, size = (i,), self.sizes[i]
            each = eye_array(size)
            columns[own] = (0, np.where(self.zeros(own), 0, total), np.ones(size))
            rows.append(({own: csr_array(np.ones((1, size)))}, [total]))
            if own in self.exact:
                rows.append(({own: each}, self.exact[own]))
            elif wanted is not None:
                more, less = (i, "more"), (i, "less")
                columns |= dict.fromkeys(
                    (more, less), (1, np.full(size, np.inf), np.zeros(size))
                )
                rows.append(({own: each, more: -each, less: each}, wanted[i]))
        for pair, mask in closed.items():
            places = np.nonzero(~mask)
            n = places[0].size
            if len(pair) == 2:
                columns[pair, "flow"] = (0, np.full(n, np.inf), np.zeros(n))
                for i, place in zip(pair, places, strict=True):
                    entries = np.ones(n), (place, np.arange(n))
                    flow = csr_array(entries, shape=(self.sizes[i], n))
                    own = {(i,): -eye_array(self.sizes[i]), (pair, "flow"): flow}
                    rows.append((own, np.zeros(self.sizes[i])))
        costs, upper, whole = zip(*columns.values(), strict=True)
        sides = np.concatenate([side for _, side in rows])
        found = milp(
            np.repeat(costs, [len(own) for own in upper]),
            integrality=np.concatenate(whole),
            bounds=Bounds(0, np.concatenate(upper)),
            constraints=LinearConstraint(
                block_array([[own.get(key) for key in columns] for own, _ in rows]),
                sides,
                sides,
            ),
        )
        if found.x is None:
            return None
        ends = np.cumsum([len(own) for own in upper])
        parts = dict(zip(columns, np.split(found.x, ends[:-1]), strict=True))
        return {i: np.rint(parts[i,]).astype(np.int64) for i in linked}


def _called(subset: Subset, names: Sequence[str]) -> str:
    return " x ".join(names[i] for i in subset) or "the total"


def margin(table: NDArray[Any], subset: Subset, part: Subset) -> NDArray[Any]:
    """Return the sums of a table, an axis per attribute, over all but some of them."""
    return np.asarray(
        table.sum(axis=tuple(a for a, i in enumerate(subset) if i not in part))
    )


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
    found = known
    if not isinstance(known, Known):
        found = Known(domain.shape, *_given(known, impossible, domain))
    if not (found.tables or found.rules):
        return None
    for what, of in (("known", found.tables), ("impossible", found.rules)):
        for subset, _ in of:
            if not any({*subset} <= {*table} for table in subsets):
                raise ParameterError(
                    what,
                    "must be about attributes that one of the tables has together",
                    tuple(domain.names[i] for i in subset),
                    "add a table of them, or leave it out",
                )
    if max(map(len, subsets)) > 2 and (found.rules or {*found.exact} > {()}):
        raise ParameterError(
            "known",
            "may be more than the number of records, and cells may be impossible, "
            "where all tables have at most two attributes: whole counts that keep to "
            "this need not exist for three",
            remedy="leave out tables of three attributes and more",
        )
    measured = ([i for i in s if domain.shape[i] > 1] for s in subsets)
    if all(tuple(subset) in found.exact for subset in measured):
        raise ParameterError(
            "known", "must leave a table to be measured", remedy="add other tables"
        )
    _check_agreement(found, domain.names, subsets)
    return found


def _given(known: Any, impossible: Any, domain: Domain) -> tuple[Any, Any]:
    """Return tables and rules with their attributes as positions, sorted."""
    if not isinstance(known, Mapping):
        raise TypeError(
            "known must map names of attributes to a table, such as {('sex',): [40, "
            f"60]}}, got {known!r:.60}"
        )
    if isinstance(impossible, (str, Mapping)) or not isinstance(impossible, Iterable):
        raise TypeError(
            "impossible must be a list of rules, such as [{'age': '<15', 'status': "
            f"'married'}}], got {impossible!r:.60}"
        )
    tables = [
        _in_order(domain, own, _table(domain, own, value))
        for own, value in ((_names(domain, n), v) for n, v in known.items())
    ]
    rules = []
    for number, rule in enumerate(impossible, 1):
        what = f"rule {number} of impossible"
        if not isinstance(rule, Mapping) or not rule:
            raise TypeError(
                f"{what} must map attributes to values, such as {{'age': '<15', "
                f"'status': 'married'}}, got {rule!r:.60}"
            )
        first = next(iter(rule))
        if isinstance(first, tuple):  # a table of truth values
            own = _names(domain, first)
            mask = plain_array(rule[first], what)
            sizes = [domain.shape[domain.names.index(name)] for name in own]
            if len(rule) > 1 or mask.dtype != bool or mask.size != product_of(sizes):
                raise ValueError(
                    f"{what} must be one table of {product_of(sizes)} truth values"
                )
            mask = mask.reshape(sizes)
        else:
            own = _names(domain, tuple(rule))
            masks = [_cells(domain, name, rule[name], what) for name in own]
            mask = reduce(np.logical_and.outer, masks)
        rules.append(_in_order(domain, own, mask))
    return tuple(tables), tuple(rules)


def _names(domain: Domain, names: Any) -> tuple[str, ...]:
    own = (names,) if isinstance(names, str) else tuple(names)
    for name in own:
        check_choice(name, "an attribute of what is known", domain.names)
    if len(set(own)) < len(own):
        raise ParameterError("known", "must name attributes of a table once", own)
    return own


def _in_order(domain: Domain, names: tuple[str, ...], table: Any) -> Any:
    """Return positions of attributes, sorted, and the table with its axes so."""
    positions = [domain.names.index(name) for name in names]
    order = np.argsort(positions).tolist()
    return tuple(sorted(positions)), table.transpose(order).copy()


def _table(domain: Domain, names: tuple[str, ...], value: Any) -> Integers:
    """Return known counts, an axis per attribute in the order of the names."""
    what = f"the known table of {' x '.join(names) or 'the total'}"
    attributes = [domain.attributes[domain.names.index(name)] for name in names]
    sizes = [own.size for own in attributes]
    if names and (isinstance(value, Mapping) or hasattr(value, "columns")):
        table = read_table(value)
        places, (last,) = table.locate(names, "known table", ("count",))
        codes = [
            _codes(own, table.column(j), what)
            for own, j in zip(attributes, places, strict=True)
        ]
        place = np.ravel_multi_index(codes, sizes)
        if sorted(place.tolist()) != list(range(product_of(sizes))):
            raise ValueError(f"{what} must have a row for every combination, and one")
        given = table.column(last)[np.argsort(place)]
    else:
        given = plain_array(value, what)
    try:
        array = given.astype(np.float64)
        good = (array >= 0).all() and (array % 1 == 0).all()
    except (TypeError, ValueError):
        good = False
    if not (good and given.size == product_of(sizes) and array.sum() <= LARGEST):
        raise ValueError(
            f"{what} must be {product_of(sizes)} whole numbers >= 0, got "
            f"{given.tolist()!r:.60}"
        )
    return array.astype(np.int64).reshape(sizes)


def _codes(attribute: Attribute, values: Iterable[Any], what: str) -> Integers:
    """Return the cells that values name."""
    places = {str(label): code for code, label in enumerate(attribute.labels)}
    found = []
    for value in values:
        check_choice(str(value), f"a value of {attribute.name!r} in {what}", places)
        found.append(places[str(value)])
    return np.array(found, np.int64)


def _cells(domain: Domain, name: str, values: Any, what: str) -> Mask:
    """Return which cells of an attribute a rule names, by value or by comparison."""
    attribute = domain.attributes[domain.names.index(name)]
    found = np.zeros(attribute.size, bool)
    labels = [str(label) for label in attribute.labels]
    given = values if isinstance(values, (list, tuple)) else [values]
    for value in given:
        compared = re.fullmatch(r"\s*(<=|>=|<|>)\s*(\S+)\s*", str(value))
        if compared is None or str(value) in labels:
            found[_codes(attribute, [value], what)] = True
            continue
        passes, number = COMPARISONS[compared[1]], read_float(compared[2])
        found |= [
            passes(low, number) and passes(high, number)
            for low, high in _ends(attribute)
        ]
    if not found.any():
        raise ValueError(
            f"{what} must name a whole cell of {name!r}, got {values!r:.60}; its cells "
            f"are {', '.join(labels)}"[:400]
        )
    return found


def _ends(attribute: Attribute) -> Iterator[tuple[float, float]]:
    """Yield the least and the largest number of every cell."""
    n_bins = len(attribute.cut_points) + 1
    if attribute.kind == "numeric" and n_bins > 1:
        low = -math.inf if attribute.lower is None else attribute.lower
        high = math.inf if attribute.upper is None else attribute.upper
        for a, b in pairwise([low, *attribute.cut_points, high]):
            if attribute.integer and math.isfinite(b):
                b = math.floor(b)
            if a != low:  # open at this end
                a = math.floor(a) + 1 if attribute.integer else np.nextafter(a, b)
            yield a, b
    for label in attribute.labels[n_bins if attribute.kind == "numeric" else 0 :]:
        try:
            yield (read_float(label),) * 2
        except (TypeError, ValueError):
            yield math.nan, math.nan


def _check_agreement(
    known: Known, names: Sequence[str], subsets: Sequence[Subset]
) -> None:
    """Raise unless whole tables of some records keep to what is known."""
    called = [_called(own, names) for own, _ in known.tables]
    for (one, other), (a, b) in zip(
        combinations(known.tables, 2), combinations(called, 2), strict=True
    ):
        shared = tuple(i for i in one[0] if i in other[0])
        sums = [margin(table, own, shared).ravel() for own, table in (one, other)]
        apart = np.flatnonzero(sums[0] != sums[1])
        if apart.size:
            first, second = (int(own[apart[0]]) for own in sums)
            raise ParameterError(
                "known",
                f"must not contradict itself, but {_called(shared, names)} has a count "
                f"of {first} by the table of {a} and of {second} by that of {b}",
                remedy="correct one of them",
            )
    called = [f"the known counts of {name}" for name in called]
    called += [f"rule {k}" for k in range(1, len(known.rules) + 1)]

    def holds(items: list[int]) -> bool:
        n = len(known.tables)
        own = Known(
            known.sizes,
            tuple(known.tables[k] for k in items if k < n),
            tuple(known.rules[k - n] for k in items if k >= n),
        )
        total = int(own.exact[()]) if own.exact else 1
        if any(own.zeros(s)[table > 0].any() for s, table in own.exact.items()):
            return False
        return own.margins(subsets, total) is not None

    items = list(range(len(called)))
    if not holds(items):
        for item in range(len(called)):  # what is left contradicts itself by itself
            if not holds(fewer := [k for k in items if k != item]):
                items = fewer
        raise ParameterError(
            "impossible",
            "must leave a cell for every record, but there is none by "
            + " and ".join(called[k] for k in items),
            remedy="correct one of them",
        )
    cells = sum(int(mask.sum()) for mask in known.closed(subsets).values())
    if cells > MOST_IMPOSSIBLE:
        raise ParameterError(
            "impossible",
            f"must be at most {MOST_IMPOSSIBLE:,} cells of all tables",
            f"{cells:,}",
            "give attributes coarser values",
        )


# ---- errors of what is conditioned ---------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """Sums of cells of a table: which values of each attribute they count, by row."""

    subset: Subset
    counted: tuple[Floats, ...]

    @classmethod
    def of(cls, subset: Subset, sizes: Sequence[int], first: Any, last: Any) -> _Rows:
        """Return rows that count from some values to others."""
        counted = []
        for i, a, b in zip(subset, first, last, strict=True):
            at = np.arange(sizes[i])
            counted.append(((a[:, None] <= at) & (at <= b[:, None])).astype(float))
        return cls(subset, tuple(counted))

    def even(self, part: Subset) -> Floats:
        """Return what an even spread over all other attributes contributes, by row."""
        means = [
            own.mean(axis=1)
            for i, own in zip(self.subset, self.counted, strict=True)
            if i not in part
        ]
        return np.prod([np.ones(len(self.counted[0])), *means], axis=0)

    def centred(self, i: int) -> Floats:
        own = self.counted[self.subset.index(i)]
        return own - own.mean(axis=1, keepdims=True)


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
        sizes = self.domain_shape
        closed = known.closed([*subsets, *self._weights])  # larger tables tell more
        if sum(int(mask.sum()) for mask in closed.values()) > MOST_IMPOSSIBLE:
            closed = known.closed(subsets)
        self._closed = {
            subset: mask
            for subset, mask in closed.items()
            if not any({*subset} < {*other} for other in closed)
        }
        self._groups = [
            _Rows.of(subset, sizes, np.nonzero(mask), np.nonzero(mask))
            for subset, mask in self._closed.items()
        ]
        self._parts = {part for own in self._closed for part in subsets_of(own)}
        blocks = [[self._covariance(a, b) for b in self._groups] for a in self._groups]
        self._inverse = pinvh(np.block(blocks), rtol=1e-10)
        self._left: dict[Subset, Floats] = {}
        self._own_laws: dict[bytes, ErrorLaw] = {}
        self._row_laws: dict[tuple[Subset, bytes], list[ErrorLaw]] = {}

    def _covariance(self, one: _Rows, other: _Rows) -> Floats:
        """Return the covariances of unconditioned errors of rows of two tables."""
        found = np.zeros((len(one.counted[0]), len(other.counted[0])))
        for part in subsets_of([i for i in one.subset if i in other.subset]):
            if part in self._exact:
                continue
            own = np.outer(one.even(part), other.even(part)) / self._scale(part)
            for i in part:
                own *= one.centred(i) @ other.centred(i).T
            found += own
        return found

    def _scale(self, part: Subset) -> float:
        """Return what interactions have one over as variance, but for centring."""
        return product_of(self.domain_shape[i] for i in part) * self._precision(part)

    def _conditioned(self, rows: _Rows) -> tuple[Floats, Floats, Floats]:
        """Return by row how much of impossible cells is taken off, and variances.

        Variances are those that are left, and those before.
        """
        ties = np.hstack([self._covariance(rows, own) for own in self._groups])
        gains = ties @ self._inverse
        before = np.zeros(len(ties))
        for part in subsets_of(rows.subset):
            if part not in self._exact:
                own = rows.even(part) ** 2 / self._scale(part)
                for i in part:
                    own *= np.square(rows.centred(i)).sum(axis=1)
                before += own
        return gains, before - (gains * ties).sum(axis=1), before

    def _lifted(self, weights: Floats) -> Iterator[tuple[Subset, Floats]]:
        """Yield weights of impossible cells as a table, with its attributes."""
        ends = np.cumsum([int(mask.sum()) for mask in self._closed.values()])
        for (subset, mask), own in zip(
            self._closed.items(), np.split(weights, ends[:-1]), strict=True
        ):
            table = np.zeros((*mask.shape, *weights.shape[1:]))
            table[mask] = own
            yield subset, table

    def estimate(self, values: ArrayLike) -> MarginalEstimate:
        """Return the conditioned estimate from measured values, (p,) or (p, k)."""
        plain = super().estimate(values)
        apart = [
            plain.marginal(own).reshape(mask.size, -1)[mask.ravel()]
            for own, mask in self._closed.items()
        ]
        weights = self._inverse @ np.concatenate(apart)
        tables = {}
        for part in self._parts - {*self._exact}:
            sizes = [self.domain_shape[i] for i in part]
            tables[part] = plain.marginal(part).reshape(*sizes, -1)
            for subset, table in self._lifted(weights):
                if {*part} <= {*subset}:
                    share = 1 / (self._closed[subset].size * self._precision(part))
                    tables[part] = tables[part] - share * margin(table, subset, part)
        return plain.given(tables)

    def _left_of(self, subset: Subset) -> Floats:
        """Return the variances of the counts of a table, zero where it is rounding."""
        if subset not in self._left:
            codes = np.indices([self.domain_shape[i] for i in subset])
            codes = codes.reshape(len(subset), -1)
            parts = []
            for own in np.array_split(codes, 1 + codes.shape[1] // 1024, axis=1):
                rows = _Rows.of(subset, self.domain_shape, own, own)
                _, left, before = self._conditioned(rows)
                parts.append(np.where(left > LEAST_SHARE * before, left, 0.0))
            self._left[subset] = np.concatenate(parts)
        return self._left[subset]

    def spread(self, subset: Subset) -> float:
        """Return the mean variance of the errors of counts that have any."""
        left = self._left_of(subset)
        return max(float(left.sum()) / max(1, np.count_nonzero(left)), VARIANCE_FLOOR)

    def law(self, subset: Subset, together: Subset | None = None) -> ErrorLaw:
        """Return the law of the error of the count with the largest variance."""
        sizes = [self.domain_shape[i] for i in subset]
        place = np.unravel_index([int(np.argmax(self._left_of(subset)))], sizes)
        return self.laws(subset, place, place)[0]

    def laws(
        self, subset: Subset, first: Sequence[Integers], last: Sequence[Integers]
    ) -> list[ErrorLaw]:
        """Return the laws of the errors of rows of a table.

        Parameters
        ----------
        subset : tuple of int
            Attributes of the table.
        first, last : sequence of ndarray of int64, shape (n_rows,)
            For each attribute, which values a row counts.
        """
        asked = np.array([first, last])
        key = (subset, asked.tobytes())
        if key in self._row_laws:
            return self._row_laws[key]
        rows = _Rows.of(subset, self.domain_shape, first, last)
        gains, left, before = self._conditioned(rows)
        found = self._row_laws[key] = []
        for k, (own, variance) in enumerate(zip(gains, left, strict=True)):
            if variance <= LEAST_SHARE * before[k]:
                found.append(NO_ERROR)
            elif variance >= (1 - LEAST_SHARE) * before[k]:  # no impossible cell tells
                counted = tuple(
                    int(b[k] - a[k] + 1) for a, b in zip(first, last, strict=True)
                )
                found.append(super().law(subset, counted))
            else:
                terms = self._row_terms(rows, k, own)
                found.append(self._row_law(terms, math.sqrt(variance)))
        return found

    def _row_terms(self, rows: _Rows, k: int, gains: Floats) -> list[Floats]:
        """Return coefficients of the noise of a row, as `Noise` has them."""
        lifted = list(self._lifted(gains))
        parts: dict[Subset, Floats] = {}
        for part in {*subsets_of(rows.subset)} | self._parts:
            if part in self._exact:
                continue
            weights = np.zeros([self.domain_shape[i] for i in part])
            if {*part} <= {*rows.subset}:
                own = [rows.centred(i)[k] for i in part]
                weights += rows.even(part)[k] * reduce(
                    np.multiply.outer, own, np.ones(())
                )
            for subset, table in lifted:
                if {*part} <= {*subset}:
                    sums = margin(table, subset, part) * (weights.size / table.size)
                    for axis in range(len(part)):
                        sums = sums - sums.mean(axis=axis, keepdims=True)
                    weights -= sums
            parts[part] = weights / self._precision(part)
        made: dict[frozenset[Subset], tuple[Floats, int]] = {}
        columns = []
        for place, measured in enumerate(self._weights):
            held = frozenset(part for part in parts if {*part} <= {*measured})
            if held not in made:
                common = sorted({i for part in held for i in part})
                total = np.zeros([self.domain_shape[i] for i in common])
                for part in held:
                    shape = [self.domain_shape[i] if i in part else 1 for i in common]
                    total += parts[part].reshape(shape)
                made[held] = total.ravel()
            own = made[held]
            each = np.ones(own.size)
            columns.append(
                [
                    own * self._shares[place],
                    each * (self._cells[place] / own.size),
                    each * self._variances[place],
                    each * self._parameters[place],
                ]
            )
        return [np.concatenate(column) for column in zip(*columns, strict=True)]

    def _row_law(self, terms: list[Floats], error: float) -> ErrorLaw:
        """Return the law of noise of such terms; equal ones are looked for once."""
        coefficients, *others = terms
        largest = np.abs(coefficients).max()
        kept = np.abs(coefficients) > 1e-12 * largest
        sizes = np.abs(coefficients[kept]) / largest
        if np.unique(sizes.round(9)).size > FEW_COEFFICIENTS:
            sizes = STEP ** np.ceil(np.log(sizes) / math.log(STEP) - 1e-9)
        table = np.column_stack([sizes.round(9), *(own[kept] for own in others[1:])])
        kinds, which = np.unique(table, axis=0, return_inverse=True)
        numbers = np.bincount(which.ravel(), weights=others[0][kept])
        key = (
            np.round(np.column_stack([kinds, numbers]), 6).tobytes()
            + str(round(error, 9)).encode()
        )
        if key not in self._own_laws:
            law = error_law(
                self._law, kinds[:, 0] * largest, numbers, kinds[:, 1], kinds[:, 2]
            )
            self._own_laws[key] = replace(law, standard_error=error)
        return self._own_laws[key]
