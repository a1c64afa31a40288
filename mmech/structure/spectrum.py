"""What a workload asks of the interactions of every subset of attributes.

With the projector P_s on the interactions of exactly the attributes s, every query
w has one table per subset, W_s = C_s M_s w / c_s: its marginal over s with the means
along every axis taken off, over the number of cells c_s = n / n_s that an entry sums.
Strategies in the marginal algebra see a query only through the squared norms of
these tables: numbers of moderate size at any size of the domain. Boxes and
marginals have few of them: one per subset of the attributes that they restrict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce, singledispatch
from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Subset
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import Array, QueryMatrix, once
from mmech.operators.basic import Identity, Ones
from mmech.operators.compose import Product, Sum, Transpose
from mmech.operators.explicit import Dense
from mmech.operators.known import Term, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import (
    Anova,
    Marginal,
    Residuals,
    check_lattice,
    lattice_product,
    subset_cells,
    subset_ranks,
)
from mmech.operators.partition import Conjunctions, PartitionStack
from mmech.operators.subsets import (
    attributes_of,
    downward_closure,
    marginal_precisions,
    ranks_of,
)


def is_uniform(workload: QueryMatrix) -> bool:
    """Whether relabelling values maps every query to every other.

    Then all queries have one error under a strategy that relabelling leaves
    unchanged, such as marginals: a table of counts has one variance.
    """
    factors = workload.factors if isinstance(workload, Kronecker) else (workload,)
    return all(isinstance(factor, Identity | Ones) for factor in factors)


def is_union_of_boxes(workload: QueryMatrix) -> bool:
    """Return whether a workload is a union of products or of boxes."""
    return all(asks_boxes(block) for _, block in normal_form(workload).blocks)


@singledispatch
def asks_boxes(block: QueryMatrix) -> bool:
    """Return whether queries are products of attributes, or boxes."""
    return False


asks_boxes.register(Kronecker | Conjunctions, lambda block: True)
asks_boxes.register(PartitionStack, lambda block: block.boxes() is not None)


@asks_boxes.register(Product)
def _(block: Product) -> bool:
    """Return it of sums of boxes whose tables are soon added up."""
    sizes = normal_form(block).domain_shape
    work = None if sizes is None else _work(block, sizes)
    return work is not None and min(work) <= PROJECTED


def comes_from_partitions(workload: QueryMatrix) -> bool:
    """Return whether columns come from partitions of the domain, as of a forest."""
    blocks = [block for _, block in normal_form(workload).blocks]
    inside = [block.factors[-1] for block in blocks if isinstance(block, Product)]
    inside += [block.operator for block in blocks if isinstance(block, Transpose)]
    forests = PartitionStack | Conjunctions
    known = any(isinstance(block, forests) for block in blocks)
    return known or any(map(comes_from_partitions, inside))


def box_terms(workload: QueryMatrix) -> list[Term] | None:
    """Return the leaves of a forest as a union of products, else ``None``.

    A leaf that is a box is one product of rows of 0 and 1, as (weight, factors). Equal
    leaves are one term, whose squared weight is their number.
    """
    masks = None
    if isinstance(workload, Conjunctions | PartitionStack):
        masks = workload.boxes()
    if masks is None:
        return None
    filled = np.all([mask.any(axis=1) for mask in masks], axis=0)
    boxes, counts = np.unique(np.hstack(masks)[filled], axis=0, return_counts=True)
    ends = np.cumsum([mask.shape[1] for mask in masks])[:-1]
    terms = zip(np.sqrt(counts).tolist(), boxes[:, None].astype(int), strict=True)
    return [(w, tuple(map(Dense, np.split(box, ends, axis=1)))) for w, box in terms]


# ---- what a workload asks of every subset of attributes ----------------------

Sizes = tuple[int, ...]
Squares = dict[Subset, float]
Terms = list[tuple[Subset, float]]
Masks = Sequence[NDArray[np.bool_]]

MANY_QUERIES = 64
"""Queries per cell above which sums of their answers go by the gram."""

ROUNDING = 1e-13
"""Relative size below which a sum of tables counts as zero."""

PROJECTED = 2**28
"""Most entries of queries and of their marginals that "auto" visits: 9e7 of 345 queries
took 5 s on a busy core."""

BOX_VISITS = 64
"""Entries of queries that take as long as one entry of the table of a box."""


# ---- what a workload asks of every subset -------------------------------------


@once
def marginal_terms(workload: QueryMatrix) -> Terms | None:
    """Return a union of marginals as (subset, squared weight), else ``None``.

    The gram of a union of marginals of one domain lies in the marginal algebra.
    """
    form = normal_form(workload)
    found = form.ask(_marginal_of)
    if found is None or form.domain_shape is None:
        return None
    return [(key, float(weight) ** 2 * times) for weight, (key, times) in found]


def _marginal_of(block: QueryMatrix) -> tuple[Subset, float] | None:
    """Return the attributes of a marginal, and how often it is asked."""
    if isinstance(block, Marginal):
        return block.attributes, 1.0
    if not isinstance(block, Kronecker) or not is_uniform(block):
        return None
    kept = tuple(i for i, f in enumerate(block.factors) if isinstance(f, Identity))
    return kept, float(math.prod(f.m for f in block.factors if isinstance(f, Ones)))


@once
def mean_spectrum(workload: QueryMatrix, domain_shape: Sizes) -> Squares | None:
    r"""Return what a workload asks of the interactions of every subset.

    .. math:: \tau_s = \frac{\mathrm{tr}(P_s W^T W)}{\mathrm{rank}(P_s) \, n / n_s}

    For a union of marginals with weights w this is :math:`\sum_{a \supseteq s} w_a^2
    n_s / n_a`, a number of moderate size at any size of the domain. Also for products
    of attributes, boxes (`Conjunctions`, ranges, the leaves of a forest) and sums of
    boxes (QTᵀT), over any number of attributes; of at most 20 attributes, for all that
    the lattice can project. Otherwise ``None``; zeros are left out.

    Raises
    ------
    DomainTooLargeError
        If a query restricts so many attributes that their subsets are too many to
        list.
    """
    form, terms = normal_form(workload), marginal_terms(workload)
    if terms is not None and form.domain_shape == domain_shape:
        closure = tuple(downward_closure((key for key, _ in terms), domain_shape))
        values = marginal_precisions(terms, closure, domain_shape).tolist()
        return {s: value for s, value in zip(closure, values, strict=True) if value > 0}
    found = form.ask(squares_by_kind, domain_shape)
    if found is None:
        return None
    squares: Squares = {}
    for weight, part in found:
        for subset, value in part.items():
            square = float(weight) ** 2 * value
            squares[subset] = squares.get(subset, 0.0) + square
    ranks = ranks_of(squares, domain_shape).tolist()
    each = zip(squares.items(), ranks, strict=True)
    return {subset: value / rank for (subset, value), rank in each if value > 0}


@singledispatch
def squares_by_kind(workload: QueryMatrix, sizes: Sizes) -> Squares | None:
    """Return Σ ‖W_s‖² over the queries, by subset; what is not there is zero."""
    return _totals(query_spectra(workload, sizes))


def _totals(spectra: QuerySpectra | None) -> Squares | None:
    if spectra is None:
        return None
    return dict(zip(spectra.subsets, spectra.totals().tolist(), strict=True))


@squares_by_kind.register(Product)
def _(workload: Product, sizes: Sizes) -> Squares | None:
    """Return it of sums of boxes, by their entries or their tables: what are fewer."""
    work = _work(workload, sizes)
    if work is None:
        return None
    of_entries, of_tables = work
    if of_entries > of_tables or len(sizes) > LIMITS.lattice_attributes:
        return _totals(_product_spectra(workload, sizes, LIMITS.summed_subsets))
    columns = workload._dense().T.astype(np.float64, order="C")
    squares: Squares = {}
    largest = np.abs(columns).max(initial=0.0)
    _add_squares(columns.reshape(1, *sizes, -1), (), squares, largest)
    return squares


@once
def _work(workload: Product, sizes: Sizes) -> tuple[float, float] | None:
    """Return what sums of boxes take by entries, and by tables of boxes, if they are.

    In entries of the queries, and of all their marginals.
    """
    groups = box_groups(workload.factors[-1], sizes)
    if groups is None:
        return None
    tables = [
        group.rows.size * math.prod(1.0 + sizes[i] for i in group.attributes)
        for group in groups
    ]
    entries = workload.shape[0] * math.prod(1.0 + n for n in sizes)
    return entries, BOX_VISITS * sum(tables)


def _add_squares(
    tables: Floats, subset: Subset, squares: Squares, largest: float, axis: int = 0
) -> None:
    """Add Σ ‖W_s‖² for all s that extend a subset by attributes from an axis on.

    The first axis of `tables` has the values of the subset, the last one the queries.
    Between them is an axis for every attribute from this one on.
    """
    if tables.ndim == 2:
        value = float(np.vdot(tables, tables))
        if value > (ROUNDING * largest) ** 2 * tables.size:
            squares[subset] = value
        return
    mean = tables.mean(axis=1)
    _add_squares(mean, subset, squares, largest, axis + 1)
    tables = (tables - mean[:, None]).reshape(-1, *tables.shape[2:])
    _add_squares(tables, (*subset, axis), squares, largest, axis + 1)


@squares_by_kind.register(Identity)
def _(workload: Identity, sizes: Sizes) -> Squares | None:
    return squares_by_kind(Kronecker([Identity(n) for n in sizes]), sizes)


squares_by_kind.register(Ones, lambda workload, sizes: {(): float(workload.m)})


@squares_by_kind.register(Kronecker)
def _(workload: Kronecker, sizes: Sizes) -> Squares | None:
    if tuple(factor.shape[1] for factor in workload.factors) != sizes:
        return None
    parts = []
    for factor in workload.factors:
        m, n = factor.shape
        ones = np.ones(n)
        if m > MANY_QUERIES * n:
            sums = float(ones @ factor.gram().matvec(ones))
        else:
            sums = float(np.square(factor.matvec(ones)).sum())
        total = float(factor.column_square_sums().sum())
        inside = total - sums / n
        rounding = ROUNDING * total  # of equal entries that are no integers, say
        parts.append((inside if inside > rounding else 0.0, sums / n**2))
    active = [i for i, (inside, _) in enumerate(parts) if inside > 0]
    check_lattice(len(active))
    base = math.prod(mean for i, (_, mean) in enumerate(parts) if i not in active)
    kept = [parts[i] for i in active]
    values = base * lattice_product([a for a, _ in kept], [b for _, b in kept])
    return {
        tuple(active[place] for place in attributes_of(mask)): value
        for mask, value in enumerate(values.tolist())
    }


@squares_by_kind.register(Anova)
def _(workload: Anova, sizes: Sizes) -> Squares | None:
    if workload.domain_shape != sizes:
        return None
    values = np.square(workload._values) * subset_ranks(sizes) / subset_cells(sizes)
    return {attributes_of(mask): v for mask, v in enumerate(values.tolist()) if v > 0}


@squares_by_kind.register(Residuals)
def _(workload: Residuals, sizes: Sizes) -> Squares | None:
    if workload.domain_shape != sizes:
        return None
    ranks = ranks_of(workload.weights, sizes).tolist()
    weights = zip(workload.weights.items(), ranks, strict=True)
    return {subset: weight**2 * rank for (subset, weight), rank in weights}


@squares_by_kind.register(Conjunctions | PartitionStack)
def _(workload: Conjunctions | PartitionStack, sizes: Sizes) -> Squares | None:
    masks = workload.boxes() if workload.domain_shape == sizes else None
    return None if masks is None else squares_of_boxes(_widths_of(masks), sizes)


def squares_of_boxes(widths: Integers, sizes: Sizes) -> Squares:
    """Return them for boxes that hold so many values (m, d) of every attribute."""
    # As bytes, the most significant first: ten times as fast as along an axis.
    packed = np.ascontiguousarray(widths, ">i8").view(f"V{8 * len(sizes)}").ravel()
    _, first, counts = np.unique(packed, return_index=True, return_counts=True)
    kinds = widths[first]
    total: Squares = {}
    for rows, subsets, places, values in _box_norms(kinds, sizes):
        sums = np.bincount(places, values * counts[rows])
        for subset, value in zip(subsets, sums.tolist(), strict=True):
            total[subset] = total.get(subset, 0.0) + value
    return total


# ---- query by query -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class QuerySpectra:
    """Squared norms ‖W_s‖² of all queries, those that are not zero.

    `rows` and `columns` are the query and the number of the subset of every value.
    """

    n_queries: int
    subsets: tuple[Subset, ...]
    rows: Integers
    columns: Integers
    values: Floats

    def totals(self) -> Floats:
        """Return the sums over the queries, one per subset."""
        sums = np.bincount(self.columns, self.values, minlength=len(self.subsets))
        return sums.astype(np.float64)

    def weighted(self, weights: Floats) -> Floats:
        """Return Σ_s weights_s ‖W_s‖² of every query, shape (m,)."""
        products = self.values * weights[self.columns]
        sums = np.bincount(self.rows, products, minlength=self.n_queries)
        return sums.astype(np.float64)


@dataclass(frozen=True, eq=False)
class BoxGroup:
    """Boxes that restrict the same attributes.

    `rows` (g,) says which rows of the workload they are, `masks` (g, n_i) which values
    of every one of the attributes they allow.
    """

    attributes: Subset
    rows: Integers
    masks: tuple[NDArray[np.bool_], ...]

    def restricted(self, asked: NDArray[np.bool_]) -> list[BoxGroup]:
        """Return the group with the asked rows of the workload alone, if any."""
        places = np.flatnonzero(asked[self.rows])
        if places.size == 0:
            return []
        masks = tuple(mask[places] for mask in self.masks)
        return [BoxGroup(self.attributes, self.rows[places], masks)]


def _box_masks(workload: QueryMatrix, sizes: Sizes) -> Masks | None:
    """Return a union of boxes as one mask per attribute, else ``None``."""
    same = getattr(workload, "domain_shape", None) == sizes
    boxes = getattr(workload, "boxes", None)
    return boxes() if same and boxes is not None else None


def box_groups(workload: QueryMatrix, sizes: Sizes) -> list[BoxGroup] | None:
    """Return a union of boxes by the attributes that they restrict, else ``None``.

    Empty boxes are left out.
    """
    masks = _box_masks(workload, sizes)
    if masks is None:
        return None
    widths = _widths_of(masks)
    tested = widths < np.array(sizes)
    filled = np.flatnonzero((widths > 0).all(axis=1))
    if not filled.size:
        return []
    kinds, place = np.unique(tested[filled], axis=0, return_inverse=True)
    order = np.argsort(place.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(place.ravel(), minlength=len(kinds)))
    groups = []
    for kind, rows in zip(kinds, np.split(filled[order], ends[:-1]), strict=True):
        attributes = tuple(np.flatnonzero(kind).tolist())
        masks_of_group = tuple(masks[i][rows] for i in attributes)
        groups.append(BoxGroup(attributes, rows, masks_of_group))
    return groups


@singledispatch
def query_spectra(workload: QueryMatrix, domain_shape: Sizes) -> QuerySpectra | None:
    """Return the squared norms ‖W_s‖² of every query by itself, or ``None``.

    For boxes, and for sums of boxes: a `Product` with `Conjunctions` on its right. Also
    for products of attributes with at most 2^26 pairs of a query and a subset.
    """
    masks = _box_masks(workload, domain_shape)
    if masks is None:
        return None
    widths = _widths_of(masks)
    return _spectra(len(widths), _box_norms(widths, domain_shape))


def _spectra(
    n_queries: int,
    entries: Iterable[tuple[Integers, Sequence[Subset], Integers, Floats]],
) -> QuerySpectra:
    """Collect entries: rows, subsets, the place of the subset of every row, values."""
    numbers: dict[Subset, int] = {}
    nothing = np.zeros(0, np.int64)
    rows, columns, values = [nothing], [nothing], [np.zeros(0)]
    for queries, subsets, place, squares in entries:
        known = [numbers.setdefault(subset, len(numbers)) for subset in subsets]
        rows.append(queries)
        columns.append(np.array(known, np.int64)[place])
        values.append(squares)
    places = np.concatenate(rows), np.concatenate(columns)
    return QuerySpectra(n_queries, tuple(numbers), *places, np.concatenate(values))


def _widths_of(masks: Masks) -> Integers:
    return np.stack([mask.sum(axis=1) for mask in masks], axis=1)


def _box_norms(
    widths: Integers, sizes: Sizes
) -> Iterator[tuple[Integers, list[Subset], Integers, Floats]]:
    """Yield rows, subsets, the place of the subset of every row, and ‖W_s‖².

    Π_{i∈s} r_i (1 - r_i / n_i) Π_{i∉s} (r_i / n_i)² for boxes of r_i values.
    """
    cells = np.array(sizes)
    tested = widths < cells
    filled = np.flatnonzero((widths > 0).all(axis=1))
    counts = tested[filled].sum(axis=1)
    if (2.0**counts).sum() > LIMITS.box_terms:
        raise DomainTooLargeError(
            "the queries and the subsets of the attributes that they restrict are more "
            f"than {LIMITS.box_terms} pairs; ask for queries over fewer attributes"
        )
    for h in np.unique(counts).tolist():
        rows = filled[counts == h]
        attributes = np.nonzero(tested[rows])[1].reshape(rows.size, h)
        shares = np.take_along_axis(widths[rows], attributes, 1) / cells[attributes]
        outside = np.square(shares)
        inside = cells[attributes] * shares * (1.0 - shares)
        for size in range(h + 1):
            for chosen in combinations(range(h), size):
                kept = np.zeros(h, np.bool_)
                kept[list(chosen)] = True
                values = np.where(kept, inside, outside).prod(axis=1)
                keys, place = np.unique(
                    attributes[:, kept], axis=0, return_inverse=True
                )
                yield rows, list(map(tuple, keys.tolist())), place.ravel(), values


def _factor_squares(factor: QueryMatrix) -> tuple[Floats, Floats]:
    """Return squared norms of the rows less their mean, and of the mean entries."""
    n = factor.shape[1]
    means = np.square(factor.matvec(np.ones(n)) / n)
    squares = factor.row_square_sums().astype(np.float64)
    inside = squares - n * means
    rounding = 1e-13 * squares  # of equal entries that are no integers, say
    return np.where(inside > rounding, inside, 0.0), means


@query_spectra.register(Kronecker)
def _kronecker_spectra(workload: Kronecker, sizes: Sizes) -> QuerySpectra | None:
    if tuple(factor.shape[1] for factor in workload.factors) != sizes:
        return None
    parts = [_factor_squares(factor) for factor in workload.factors]
    active = [i for i, (inside, _) in enumerate(parts) if inside.any()]
    m = workload.shape[0]
    if m * 2 ** len(active) > LIMITS.box_terms:
        return None
    found = []
    every, alike = np.arange(m), np.zeros(m, np.int64)
    for subset in downward_closure([tuple(active)], sizes):
        values: Floats = np.ones(1)
        for i, (inside, outside) in enumerate(parts):
            norms = inside if i in subset else outside
            values = np.multiply.outer(values, norms).ravel()
        found.append((every, [subset], alike, values))
    return _spectra(m, found)


@query_spectra.register(Product)
def _product_spectra(
    workload: Product, sizes: Sizes, most: int | None = None
) -> QuerySpectra | None:
    """Add up tables: those of a weighted sum of boxes are sums of theirs."""
    most = LIMITS.listed_subsets if most is None else most
    groups = box_groups(workload.factors[-1], sizes)
    if groups is None:
        return None
    left = sp.csc_array(
        reduce(lambda a, b: a @ b, (f.to_sparse() for f in workload.factors[:-1]))
    ).astype(np.float64)
    largest = float(abs(left).sum(axis=1).max()) if left.nnz else 0.0
    asked = np.diff(left.indptr) > 0
    inside: dict[Subset, list[BoxGroup]] = {}
    for group in (part for kind in groups for part in kind.restricted(asked)):
        for size in range(len(group.attributes) + 1):
            for subset in combinations(group.attributes, size):
                inside.setdefault(subset, []).append(group)
        if len(inside) > most:
            raise DomainTooLargeError(
                f"the queries restrict attributes with more than {most} subsets; ask "
                "for queries over fewer attributes, or raise a limit of mmech.limits"
            )
    found = []
    for subset, members in inside.items():
        boxes = np.concatenate([group.rows for group in members])
        tables = np.concatenate([box_tables(group, subset) for group in members])
        values = np.square(left[:, boxes] @ tables).sum(axis=1)
        rounding = ROUNDING * largest * float(np.abs(tables).max(initial=0.0))
        rows = np.flatnonzero(values > rounding**2)
        if rows.size:
            found.append((rows, [subset], np.zeros_like(rows), values[rows]))
    return _spectra(workload.shape[0], found)


def box_tables(group: BoxGroup, subset: Subset) -> Floats:
    """Return the tables W_s of boxes, shape (g, n_s)."""
    tables = np.ones((group.rows.size, 1))
    for i, mask in zip(group.attributes, group.masks, strict=True):
        share = mask.mean(axis=1, keepdims=True)
        if i in subset:
            centred = mask - share
            tables = (tables[:, :, None] * centred[:, None, :]).reshape(
                tables.shape[0], -1
            )
        else:
            tables = tables * share
    return tables


# ---- answers, from marginals alone -------------------------------------------

Answers = NDArray[Any]

Tables = Callable[[Subset], Array]
"""Function from sorted attributes a to the marginal over them, shape (n_a, k)."""


def answers_by_marginals(
    operator: QueryMatrix, domain_shape: Subset, tables: Tables
) -> Answers | None:
    """Return A X (m, k) from marginals of X, without its cells, or ``None``.

    For marginals, products of attributes and boxes, and for their sums, stacks and
    combinations. Exact for integer operators and tables. Every table that is
    asked for is over the attributes that some query of the operator restricts.
    """
    found = normal_form(operator).ask(_answers, domain_shape, tables)
    if found is None:
        return None
    return np.concatenate([answers * c for c, answers in found])


@singledispatch
def _answers(
    operator: QueryMatrix, domain_shape: Subset, tables: Tables
) -> Answers | None:
    """Return the answers of one block of a union."""
    groups = box_groups(operator, domain_shape)
    return None if groups is None else _boxes(operator.shape[0], groups, tables)


@_answers.register(Sum)
def _(operator: Sum, domain_shape: Subset, tables: Tables) -> Answers | None:
    parts = [answers_by_marginals(a, domain_shape, tables) for a in operator.terms]
    known = [part for part in parts if part is not None]
    return np.asarray(sum(known)) if len(known) == len(parts) else None


@_answers.register(Identity)
def _(operator: Identity, domain_shape: Subset, tables: Tables) -> Answers | None:
    return tables(tuple(range(len(domain_shape))))


@_answers.register(Ones)
def _(operator: Ones, domain_shape: Subset, tables: Tables) -> Answers | None:
    return np.repeat(tables(()), operator.m, axis=0)


@_answers.register(Product)
def _product(operator: Product, domain_shape: Subset, tables: Tables) -> Answers | None:
    """Boxes that no query adds up, such as leaves without a query, are left out."""
    *left, last = operator.factors
    groups = box_groups(last, domain_shape)
    if groups is None:
        answers = answers_by_marginals(last, domain_shape, tables)
    else:
        asked = left[-1].column_abs_sums() > 0
        groups = [part for group in groups for part in group.restricted(asked)]
        answers = _boxes(last.shape[0], groups, tables)
    if answers is not None:
        for factor in reversed(left):
            answers = factor.matmat(answers)
    return answers


@_answers.register(Kronecker)
def _kronecker(
    operator: Kronecker, domain_shape: Subset, tables: Tables
) -> Answers | None:
    """Totals of an attribute need no axis: they only repeat rows."""
    factors = operator.factors
    if tuple(factor.shape[1] for factor in factors) != domain_shape:
        return None
    kept = tuple(i for i, f in enumerate(factors) if not isinstance(f, Ones))
    answers = tables(kept)
    kept_factors = [
        factor if i in kept else Ones(factor.shape[0], 1)
        for i, factor in enumerate(factors)
        if i in kept or factor.shape[0] > 1
    ]
    return Kronecker(kept_factors).matmat(answers) if kept_factors else answers


def _boxes(m: int, groups: list[BoxGroup], tables: Tables) -> NDArray[Any]:
    total = tables(())
    out = np.zeros((m, total.shape[1]), total.dtype)
    for group in groups:
        table = tables(group.attributes)
        height = max(1, LIMITS.block_entries // table.size)
        for start in range(0, group.rows.size, height):
            part = slice(start, start + height)
            rows = group.rows[part]
            sums = np.broadcast_to(table.reshape(1, -1), (rows.size, table.size))
            for mask in group.masks:
                inside = mask[part].astype(table.dtype)
                cut = sums.reshape(rows.size, mask.shape[1], -1)
                sums = np.einsum("ri,rij->rj", inside, cut)
            out[rows] = sums
    return out
