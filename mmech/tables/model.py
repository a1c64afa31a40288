"""A model of maximum entropy that explains released tables, and records drawn from it.

A model of all pairs of many attributes is listed cell by cell. Here a subset of the
tables is chosen, by what was released, whose junction tree is small enough; other pairs
of attributes are then independent given those in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.domain.attribute import Attribute
from mmech.limits import LIMITS
from mmech.operators.base import product_of

SWEEPS = 40
TOLERANCE = 1e-3
"""Sweeps of proportional fitting in a clique, and the share of records by which its
tables may be off when it ends earlier."""

CANDIDATES = 6
"""Tables per attribute that are tried for the model, most telling first."""

LEAST_INFORMATION = 1.0
"""Gain in log-likelihood, in nats, below which a table is not worth its place."""


@dataclass(frozen=True)
class Clique:
    """Attributes that are listed together, sorted.

    `separator` holds those in common with the clique before it in the tree.
    """

    attributes: Subset
    separator: Subset = ()


def junction_tree(blocks: Iterable[Subset], sizes: Sequence[int]) -> list[Clique]:
    """Return cliques, parents first, of which one holds every block of attributes.

    Attributes that are connected by blocks become one tree. An attribute that is in two
    cliques is in all of those between them: running intersection, by which sums over
    the tree are exact [1]_ [2]_. Cliques come from eliminating attributes one by one,
    that with the fewest cells among its neighbours first.

    References
    ----------
    .. [1] Lauritzen, Spiegelhalter, "Local computations with probabilities on graphical
       structures", Journal of the Royal Statistical Society B 50(2), 1988.
    .. [2] Koller, Friedman, "Probabilistic graphical models", 2009, Chapter 10.

    Examples
    --------
    >>> from mmech.tables.model import junction_tree
    >>> [c.attributes for c in junction_tree([(0, 1), (1, 2), (3,)], (2, 2, 2, 2))]
    [(0, 1), (1, 2), (3,)]
    """
    found = _maximal_cliques(list(blocks), sizes)
    waiting = sorted(found, key=sorted)
    placed: list[Clique] = []
    while waiting:
        # The next one has most in common with one that is placed (Prim).
        pairs = [(i, j) for i in range(len(waiting)) for j in range(len(placed))]
        i, parent = max(
            pairs,
            key=lambda pair: len(waiting[pair[0]] & set(placed[pair[1]].attributes)),
            default=(0, -1),
        )
        clique = waiting.pop(i)
        shared = clique & set(placed[parent].attributes) if placed else set()
        placed.append(Clique(tuple(sorted(clique)), tuple(sorted(shared))))
    return placed


def _maximal_cliques(blocks: list[Subset], sizes: Sequence[int]) -> list[set[int]]:
    """Return the maximal cliques of a triangulation of the graph of blocks."""
    near: dict[int, set[int]] = {i: set() for block in blocks for i in block}
    for block in blocks:
        for i, j in combinations(block, 2):
            near[i].add(j)
            near[j].add(i)
    found: list[set[int]] = []
    while near:
        i = min(near, key=lambda a: (product_of(sizes[b] for b in near[a] | {a}), a))
        clique = near.pop(i) | {i}
        for j in clique - {i}:
            near[j] = (near[j] | clique) - {i, j}
        if not any(clique <= other for other in found):
            found.append(clique)
    return found


@dataclass(frozen=True, eq=False)
class TableModel:
    r"""A distribution of records, :math:`\prod_b p(x_b \mid x_{s_b})` over cliques b.

    Attributes
    ----------
    domain_shape : tuple of int
        Number of values of every attribute.
    total : int
        Number of records that tables are scaled to.
    cliques : tuple of Clique
        Each comes after the one that it shares its separator with.
    tables : tuple of ndarray of float64
        :math:`p(x_b \mid x_{s_b})` of every clique, an axis per attribute.
    """

    domain_shape: tuple[int, ...]
    total: int
    cliques: tuple[Clique, ...]
    tables: tuple[Floats, ...]

    def marginal(self, attributes: Subset) -> Floats:
        """Return the expected table of counts, an axis per attribute, in order."""
        needed, wanted = [], set(attributes)  # other cliques sum to one
        each = list(zip(self.cliques, self.tables, strict=True))
        for clique, table in reversed(each):
            if ({*clique.attributes} - {*clique.separator}) & wanted:
                needed.append((clique.attributes, table))
                wanted |= {*clique.separator}
        held = wanted.union(*(group for group, _ in needed))
        labels = {i: place for place, i in enumerate(sorted(held))}
        operands: list[Any] = [np.ones(()), []]
        for group, table in needed:
            operands += [table, [labels[i] for i in group]]
        out = np.einsum(*operands, [labels[i] for i in attributes], optimize="greedy")
        return np.asarray(self.total * out)


def fit_model(
    sizes: Sequence[int],
    shares: Sequence[Floats],
    total: int,
    counts: Mapping[Subset, Floats],
    first: Sequence[Subset] = (),
) -> TableModel:
    """Return the model of the most telling tables whose junction tree is small enough.

    Parameters
    ----------
    sizes : sequence of int
        Number of values of every attribute.
    shares : sequence of ndarray
        Distribution of every attribute.
    total : int
        Number of records.
    counts : mapping of tuple to ndarray
        Tables over two or more attributes, non-negative.
    first : sequence of tuple of int, default=()
        Those that come before others, as far as there is room.
    """
    tables = {s: table / total for s, table in counts.items() if table.sum() > 0}
    chosen = _choose(sizes, total, tables, first)
    alone = [(i,) for i in range(len(sizes))]
    cliques = junction_tree([*chosen, *alone], sizes)
    fitted = []
    for clique in cliques:
        attributes = clique.attributes
        start = reduce(np.multiply.outer, [shares[i] for i in attributes])
        margins = {s: tables[s] for s in chosen if set(s) <= set(attributes)}
        joint = proportional_fit(start, attributes, margins, SWEEPS, TOLERANCE)
        fitted.append(_conditional(joint, clique))
    return TableModel(tuple(sizes), total, tuple(cliques), tuple(fitted))


def _choose(
    sizes: Sequence[int],
    total: int,
    tables: Mapping[Subset, Floats],
    first: Sequence[Subset],
) -> list[Subset]:
    """Return tables, most telling first, as long as their junction tree stays small."""
    gains = {s: total * _information(table) for s, table in tables.items()}
    gains |= {s: math.inf for s in first if s in gains}
    ordered = sorted(tables, key=lambda s: (-gains[s] / len(s), s))
    chosen: list[Subset] = []
    for subset in ordered[: CANDIDATES * len(sizes)]:
        if gains[subset] < LEAST_INFORMATION:
            continue
        cliques = junction_tree([*chosen, subset], sizes)
        cells = sum(product_of(sizes[i] for i in c.attributes) for c in cliques)
        if cells <= LIMITS.model_cells:
            chosen.append(subset)
    return chosen


def _information(table: Floats) -> float:
    """Return the relative entropy of a table to the product of its margins, in nats."""
    axes = range(table.ndim)
    sums = [table.sum(axis=tuple(a for a in axes if a != axis)) for axis in axes]
    product = reduce(np.multiply.outer, sums)
    inside = table > 0
    return float((table[inside] * np.log(table[inside] / product[inside])).sum())


def proportional_fit(
    table: Floats,
    attributes: Subset,
    margins: Mapping[Subset, Floats],
    sweeps: int,
    tolerance: float = 0.0,
) -> Floats:
    """Return the table nearest in relative entropy with given margins, by sweeps.

    Parameters
    ----------
    table : ndarray
        Start, one axis per attribute.
    attributes : tuple of int
        What its axes are.
    margins : mapping of tuple to ndarray
        Tables over some of the attributes.
    sweeps : int
    tolerance : float, default=0.0
        Sum of the errors of a margin at which sweeps end.
    """
    for _ in range(sweeps):
        worst = 0.0
        for subset, wanted in margins.items():
            others = tuple(a for a, i in enumerate(attributes) if i not in subset)
            sums = table.sum(axis=others, keepdims=True)
            goal = wanted.reshape(sums.shape)
            worst = max(worst, float(np.abs(sums - goal).sum()))
            factor = np.divide(goal, sums, out=np.zeros_like(sums), where=sums > 0)
            table = table * factor
        if worst <= tolerance:
            break
    return table


def _conditional(joint: Floats, clique: Clique) -> Floats:
    """Return p(new | separator) of a clique, an axis per attribute."""
    new = tuple(a for a, i in enumerate(clique.attributes) if i not in clique.separator)
    mass = joint.sum(axis=new, keepdims=True)
    even = 1.0 / product_of(joint.shape[a] for a in new)
    return np.divide(joint, mass, out=np.full(joint.shape, even), where=mass > 0)


def draw_codes(model: TableModel, n: int, rng: Any) -> Integers:
    """Return records of a model: codes of shape (n, d).

    Clique by clique, the records that agree on a separator are dealt to the values of
    the other attributes by systematic sampling: every combination gets its expected
    number, rounded down or up as its place says.

    Parameters
    ----------
    model : TableModel
    n : int
    rng : numpy.random.Generator or None
        ``None`` is the same records every time.
    """
    start = 0.5
    if rng is None:
        rng = np.random.default_rng(0)
    else:
        start = float(rng.uniform(1e-6, 1 - 1e-6))
    sizes = model.domain_shape
    codes = np.zeros((n, len(sizes)), np.int64)
    for clique, table in zip(model.cliques, model.tables, strict=True):
        group, separator = clique.attributes, clique.separator
        new = [i for i in group if i not in separator]
        order = [group.index(i) for i in (*separator, *new)]
        known = product_of(sizes[i] for i in separator)
        shares = table.transpose(order).reshape(known, -1)
        place = np.zeros(n, np.int64)
        for i in separator:
            place = place * sizes[i] + codes[:, i]
        mixed = rng.permutation(n)
        dealt = mixed[np.argsort(place[mixed], kind="stable")]
        expected = np.bincount(place, minlength=known)[:, None] * shares
        ends = np.floor(np.cumsum(expected) + start).astype(np.int64)
        numbers = np.diff(np.minimum(ends, n), prepend=0)
        numbers[-1] += n - numbers.sum()
        cells = np.repeat(np.tile(np.arange(shares.shape[1]), known), numbers)
        for i in reversed(new):
            codes[dealt, i] = cells % sizes[i]
            cells = cells // sizes[i]
    return codes


def raw_values(
    attribute: Attribute, codes: Integers, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Return raw values of cells by column.

    Numbers and dates are drawn within their bins.
    """
    if attribute.kind in ("categorical", "ordinal"):
        return attribute._shown(codes)
    return {attribute.name: _drawn(attribute, codes, rng)}


def _drawn(
    attribute: Attribute, codes: Integers, rng: np.random.Generator
) -> NDArray[Any]:
    if attribute.kind == "date":
        days = attribute._first_days()
        place = np.minimum(codes, len(days) - 2)
        texts = rng.integers(days[place], days[place + 1]).astype("M8[D]").astype(str)
        return np.where(codes > len(days) - 2, "?", texts)
    cuts = attribute.cut_points
    first = attribute.lower if attribute.lower is not None else _beyond(cuts, 0)
    last = attribute.upper if attribute.upper is not None else _beyond(cuts, -1)
    edges = np.array([first, *cuts, last])
    place = np.minimum(codes, len(cuts))  # any place for the cell without a number
    low, high, share = edges[place], edges[place + 1], rng.random(len(codes))
    numbers = high - share * (high - low)
    if attribute.integer:  # the least whole number of a bin is above its open end
        least = np.where(place == 0, np.ceil(low), np.floor(low) + 1)
        whole = least + np.floor(share * (np.floor(high) - least + 1))
        numbers = np.where(np.floor(high) >= least, whole, numbers)
    # Rounding must not take a number to the open end of its bin, which is another's.
    numbers = np.where(numbers <= low, np.where(place == 0, low, high), numbers)
    if attribute.integer and (numbers % 1 == 0).all():
        numbers = numbers.astype(np.int64)
    if attribute.other is None:
        return numbers
    mixed = numbers.astype(object)
    mixed[codes > len(cuts)] = "?"
    return mixed


def _beyond(cuts: tuple[float, ...], end: int) -> float:
    """Return a bound for an open bin, as far off as the next one is wide."""
    width = 1.0 if len(cuts) < 2 else abs(cuts[end] - cuts[1 if end == 0 else -2])
    return cuts[end] - width if end == 0 else cuts[end] + width
