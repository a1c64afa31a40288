"""Lossless domain reduction: merge the cells that no query tells apart.

If W = W' C with a 0/1 matrix C that adds up merged cells, every strategy A' for W'
gives the strategy A' C for W with the same sensitivity and the same answers, and no
strategy for W is better than the best one for W' (restrict it to one column per
group). So strategies are optimized, and data measured, on the merged cells.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Product, Scaled
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginals
from mmech.operators.partition import PartitionStack
from mmech.operators.ranges import Permuted
from mmech.operators.stack import VStack
from mmech.structure.shape import has_full_column_rank, kronecker_terms

__all__ = ["reduce_domain"]

Groups = NDArray[np.int64]
Weights = NDArray[np.float64]

DENSE_ENTRIES = 2**24
"""Up to this size the columns of a non-integer workload are compared entry by entry."""

HASHES = 2
"""Independent 64-bit hashes per column of an integer workload."""

MAX_CELLS = 2**26
MAX_QUERIES = 2**26
"""Larger workloads are left as they are."""

MAX_VISITED_CELLS = 2 * 10**6
"""Above this size boxes are refined attribute by attribute, not cell by cell."""

DESCRIBED = ("AllRange", "Identity", "Ones", "Prefix", "Suffix", "Total", "WidthRange")
"""Operators that their label tells apart."""


@overload
def reduce_domain(
    workload: QueryMatrix, *, proportional: Literal[False] = False
) -> tuple[QueryMatrix, Groups]: ...


@overload
def reduce_domain(
    workload: QueryMatrix, *, proportional: Literal[True]
) -> tuple[QueryMatrix, Groups, Weights]: ...


def reduce_domain(
    workload: QueryMatrix, *, proportional: bool = False
) -> tuple[QueryMatrix, Groups] | tuple[QueryMatrix, Groups, Weights]:
    """Merge cells whose columns of the workload are equal; drop zero columns.

    Integer workloads of any structure are reduced by hashing their columns: one
    product of the transpose with two random vectors, exact modulo 2^64. Other
    workloads are compared entry by entry where they are small. Products of
    attributes, and unions of such, are reduced attribute by attribute: they stay
    products, though cells that only several attributes together make equal are not
    merged.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W.
    proportional : bool, default=False
        Merge proportional columns too: the largest stands for the group and a record
        of another cell counts as a fraction of one, possibly negative. For real
        valued releases only: the merged data are not counts.

    Returns
    -------
    reduced : QueryMatrix, shape (m, n')
        W', one column of W per group. The workload itself if nothing merges, or if
        it is zero.
    groups : ndarray of int64, shape (n,)
        Column of W' that every column of W equals, -1 for zero columns; numbered
        by first occurrence. Empty where the domain is too large to list, and the
        workload is returned as it is.
    weights : ndarray of float64, shape (n,)
        Only with ``proportional=True``: column j of W is ``weights[j]``, between -1
        and 1, times column ``groups[j]`` of W'; 0 for zero columns. Empty where
        `groups` is.

    See Also
    --------
    Merged : a strategy for W' as a strategy for W.
    reduce_boxes : boxes over domains of any size.

    Notes
    -----
    Columns of integers are proportional exactly. Other columns are where they are
    equal after division by their largest entry, so that W' C is W up to the rounding
    of that division.

    Examples
    --------
    >>> from mmech import Dense, reduce_domain
    >>> reduced, groups = reduce_domain(Dense([[1, 1, 0, 2], [0, 0, 0, 1]]))
    >>> groups
    array([ 0,  0, -1,  1])
    >>> reduced.to_dense()
    array([[1, 2],
           [0, 1]])
    >>> reduced, groups, weights = reduce_domain(
    ...     Dense([[1, 2, 0, -1], [3, 6, 0, -3]]), proportional=True
    ... )
    >>> reduced.to_dense().ravel(), groups, weights
    (array([2, 6]), array([ 0,  0, -1,  0]), array([ 0.5,  1. ,  0. , -0.5]))
    """
    reduced, groups, weights = _reduce(workload, proportional)
    return (reduced, groups, weights) if proportional else (reduced, groups)


def _reduce(
    workload: QueryMatrix, proportional: bool
) -> tuple[QueryMatrix, Groups, Weights]:
    n = workload.shape[1]
    if n > MAX_CELLS:
        return workload, np.zeros(0, np.int64), np.zeros(0)
    if isinstance(workload, Marginals) and _tells_all_apart(workload):
        return workload, np.arange(n), np.ones(n)
    terms = kronecker_terms(workload)
    if terms is not None and all(abs(weight) < 2**53 for weight, _ in terms):
        return _reduce_products(workload, terms, proportional)
    if n > MAX_VISITED_CELLS:
        found = _reduce_many_cells(workload)
        if found is not None:
            reduced, groups = found
            if not proportional:
                return reduced, groups, np.zeros(0)
            final, own, weights = _reduce(reduced, True)
            own, weights = np.append(own, -1), np.append(weights, 0.0)
            return final, own[groups], weights[groups]
    groups, weights = _column_groups(workload, proportional)
    members = _representatives(groups, weights)
    if members.size in (0, n):
        return workload, np.arange(n), np.ones(n)
    return restrict_columns(workload, members), groups, weights


def _reduce_many_cells(workload: QueryMatrix) -> tuple[QueryMatrix, Groups] | None:
    """Reduce boxes over a domain whose cells had better not be visited."""
    from mmech.reduction.boxes import reduce_boxes

    try:
        reduced, cells = reduce_boxes(workload)
    except UnsupportedWorkloadError:
        return None
    except DomainTooLargeError:
        return workload, np.arange(workload.shape[1])
    groups = cells.expand()
    first = _first_members(groups)
    if first.size == 0:
        return workload, np.arange(groups.size)
    order = np.argsort(first)  # by first occurrence
    rank = np.append(np.argsort(order), -1)
    return restrict_columns(reduced, order), rank[groups]


def _representatives(groups: Groups, weights: Weights) -> Groups:
    """Return the first column of weight one of every group."""
    return _first_members(np.where(weights == 1.0, groups, -1))


def _tells_all_apart(workload: Marginals) -> bool:
    """Whether every attribute of more than one value is in a marginal."""
    asked = set().union(*(key for key, weight in workload.weights.items() if weight))
    return all(i in asked for i, n in enumerate(workload.domain_shape) if n > 1)


def _first_members(groups: Groups) -> Groups:
    """Return the first column of every group."""
    size = int(groups.max(initial=-1)) + 1
    first = np.full(size, groups.size, np.int64)
    kept = np.flatnonzero(groups >= 0)
    np.minimum.at(first, groups[kept], kept)
    return first


def _reduce_products(
    workload: QueryMatrix,
    terms: list[tuple[float, tuple[QueryMatrix, ...]]],
    proportional: bool,
) -> tuple[QueryMatrix, Groups, Weights]:
    """Reduce every attribute of a union of products by itself."""
    sizes = [factor.shape[1] for factor in terms[0][1]]
    n = workload.shape[1]
    unchanged = workload, np.arange(n), np.ones(n)
    asked = [factors for weight, factors in terms if weight != 0]
    if not asked:
        return unchanged
    groups, weights = np.zeros(1, np.int64), np.ones(1)
    restricted: list[list[QueryMatrix]] = [[] for _ in terms]
    for i, size in enumerate(sizes):
        factors = [factors[i] for factors in asked]
        stacked = factors[0] if len(factors) == 1 else VStack(_distinct(factors))
        own, ratios = _column_groups(stacked, proportional)
        first = _representatives(own, ratios)
        if first.size == 0:
            return unchanged
        whole = first.size == size
        for parts, term in zip(restricted, terms, strict=True):
            factor = term[1][i]
            parts.append(factor if whole else restrict_columns(factor, first))
        joint = groups[:, None] * first.size + own
        groups = np.where((groups[:, None] < 0) | (own < 0), -1, joint).ravel()
        weights = (weights[:, None] * ratios).ravel()
    if groups.min() >= 0 and int(groups.max()) + 1 == n:
        return unchanged
    blocks: list[QueryMatrix] = []
    for (weight, _), parts in zip(terms, restricted, strict=True):
        exact = int(weight) if workload.dtype == np.int64 else weight
        product = Kronecker(parts)
        blocks.append(product if weight == 1 else Scaled(exact, product))
    return blocks[0] if len(blocks) == 1 else VStack(blocks), groups, weights


def _distinct(factors: list[QueryMatrix]) -> list[QueryMatrix]:
    """Drop repeated factors: the same object, or the same label of a leaf type."""
    seen: dict[Any, QueryMatrix] = {}
    for factor in factors:
        described = type(factor).__name__ in DESCRIBED
        seen.setdefault(repr(factor) if described else id(factor), factor)
    return list(seen.values())


def _column_groups(
    workload: QueryMatrix, proportional: bool = False
) -> tuple[Groups, Weights]:
    """Return the group of every column and its ratio to the one that stands for it.

    Groups are numbered by first occurrence, -1 and ratio 0 for zero columns.
    """
    groups = _equal_columns(workload)
    weights = (groups >= 0).astype(np.float64)
    first = _first_members(groups)
    if not proportional or workload.shape[0] * first.size > DENSE_ENTRIES:
        return groups, weights
    columns = restrict_columns(workload, first)._dense().T
    own, ratios = _proportional_rows(columns)
    own, ratios = np.append(own, -1), np.append(ratios, 0.0)
    return own[groups], ratios[groups]


def _proportional_rows(rows: NDArray[Any]) -> tuple[Groups, Weights]:
    """Group nonzero rows that are multiples of each other; ratios to the largest."""
    pivots = np.abs(rows.astype(np.float64)).argmax(axis=1, keepdims=True)
    signs = np.where(np.take_along_axis(rows, pivots, axis=1) < 0, -1, 1)
    if rows.dtype == np.int64 and np.abs(rows).min(initial=0) >= 0:  # no -2^63
        sizes = np.gcd.reduce(rows, axis=1, keepdims=True)
        groups = _equal_rows(rows // (sizes * signs))
    else:
        sizes = np.take_along_axis(np.abs(rows), pivots, axis=1)
        groups = _equal_rows(rows / (sizes * signs))
    lengths = (sizes * signs).ravel().astype(np.float64)
    largest = np.zeros(int(groups.max(initial=-1)) + 1, np.int64)
    # The last assignment of a group wins: its largest row, the first of equal ones.
    order = np.lexsort((np.arange(len(rows))[::-1], np.abs(lengths)))
    largest[groups[order]] = order
    return groups, lengths / lengths[largest[groups]]


def _equal_columns(workload: QueryMatrix) -> Groups:
    """Return the group of every column, by first occurrence; -1 for zero columns."""
    m, n = workload.shape
    if m == 0:
        return np.full(n, -1)
    if m > MAX_QUERIES or has_full_column_rank(workload):
        return np.arange(n)
    if workload.dtype == np.int64:
        rng = np.random.default_rng(0x6D6D656368)
        weights = rng.integers(-(2**62), 2**62, (m, HASHES)) | 1
        with np.errstate(over="ignore"):  # a hash: it may wrap around
            groups = _equal_rows(np.asarray(workload._rmatmat(weights)))
        if _agrees(workload, groups, rng.standard_normal((m, 1))):
            return groups
    if m * n <= DENSE_ENTRIES:
        return _equal_rows(np.ascontiguousarray(workload._dense().T))
    return np.arange(n)


def _equal_rows(keys: NDArray[Any]) -> Groups:
    """Return the group of every row, by first occurrence; -1 for zero rows."""
    keys = keys + keys.dtype.type(0)  # minus zero becomes zero
    packed = np.ascontiguousarray(keys).view(f"V{keys.dtype.itemsize * keys.shape[1]}")
    _, first, inverse = np.unique(
        packed.ravel(), return_index=True, return_inverse=True
    )
    zero = ~keys[first].any(axis=1)
    order = np.argsort(np.where(zero, len(keys), first), kind="stable")
    rank = np.empty(first.size, np.int64)
    rank[order] = np.arange(first.size)
    rank[zero] = -1
    return rank[inverse.ravel()]


def _agrees(workload: QueryMatrix, groups: Groups, probe: NDArray[np.float64]) -> bool:
    """Whether the columns of a group are equal under a test without wrap-around.

    Sums modulo 2^64 can hide differences that are multiples of large powers of two.
    """
    columns = workload.rmatmat(probe)
    first = _first_members(groups)
    merged = np.append(columns[first], 0.0)[groups]
    tolerance = 1e-9 * np.abs(columns).max(initial=0.0)
    return bool(np.allclose(merged, columns[:, 0], rtol=0, atol=tolerance))


def merge_rows(workload: QueryMatrix) -> QueryMatrix:
    """Merge equal queries, each weighted by the root of their number; drop zero ones.

    The gram stays the same, and so does the loss of every strategy. Explicit
    workloads are merged row by row, stacks of others block by block.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W.

    Returns
    -------
    QueryMatrix, shape (m', n)
        Queries W' with W'ᵀW' = WᵀW; the workload itself if no query repeats.

    Examples
    --------
    >>> from mmech import Dense
    >>> merge_rows(Dense([[1, 2], [0, 0], [1, 2], [1, 2], [1, 2]])).to_dense()
    array([[2., 4.]])
    """
    if isinstance(workload, Scaled):
        inner = merge_rows(workload.operator)
        same = inner is workload.operator
        return workload if same else Scaled(workload.weight, inner)
    if type(workload) is VStack:
        return _merge_blocks(workload)
    if not isinstance(workload, (Dense, Sparse)):
        return workload
    groups = _equal_columns(workload.T)
    first = _first_members(groups)
    if first.size in (0, workload.shape[0]):
        return workload
    if isinstance(workload, Dense):
        rows: QueryMatrix = Dense(workload._array[first])
    else:
        rows = Sparse(workload.matrix[first])
    counts = np.bincount(groups[groups >= 0])
    if counts.max() == counts.min():
        return rows if counts[0] == 1 else Scaled(float(np.sqrt(counts[0])), rows)
    return Sparse(sp.diags_array(np.sqrt(counts)) @ sp.csr_array(rows.to_sparse()))


def _merge_blocks(workload: VStack) -> QueryMatrix:
    """Merge equal blocks of a stack, up to a factor, and the rows of every block."""
    squares: dict[Any, float] = {}
    blocks: dict[Any, QueryMatrix] = {}
    for block in workload.blocks:
        weight, inner = 1.0, block
        while isinstance(inner, Scaled):
            weight, inner = weight * inner.weight, inner.operator
        key = repr(inner) if type(inner).__name__ in DESCRIBED else id(inner)
        squares[key] = squares.get(key, 0.0) + weight**2
        blocks[key] = (
            Scaled(float(np.sqrt(squares[key])), inner) if key in blocks else block
        )
    merged = [merge_rows(block) for block in blocks.values()]
    if len(merged) == len(workload.blocks):
        unchanged = zip(merged, workload.blocks, strict=True)
        if all(new is old for new, old in unchanged):
            return workload
    return merged[0] if len(merged) == 1 else VStack(merged)


def restrict_columns(workload: QueryMatrix, columns: Groups) -> QueryMatrix:
    """Return the workload restricted to some columns, in the structure it has."""
    if isinstance(workload, Dense):
        return Dense(workload._array[:, columns])
    if isinstance(workload, Sparse):
        return Sparse(workload.matrix[:, columns])
    if isinstance(workload, Permuted):
        return restrict_columns(workload.operator, workload._permutation[columns])
    if isinstance(workload, PartitionStack):
        return PartitionStack(workload._labels[:, columns], workload.n_groups)
    if isinstance(workload, Scaled):
        return Scaled(workload.weight, restrict_columns(workload.operator, columns))
    if isinstance(workload, VStack):
        return VStack([restrict_columns(block, columns) for block in workload.blocks])
    if isinstance(workload, Product):
        last = restrict_columns(workload.factors[-1], columns)
        return Product(*workload.factors[:-1], last)
    n = workload.shape[1]
    ones = np.ones(columns.size, np.int64)
    places = (columns, np.arange(columns.size))
    selection = Sparse(sp.csr_array((ones, places), shape=(n, columns.size)))
    if n * workload.shape[0] <= DENSE_ENTRIES:
        return Dense(workload._dense()[:, columns])
    return workload @ selection
