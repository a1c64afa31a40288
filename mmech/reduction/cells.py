"""Lossless domain reduction: merge the cells that no query tells apart.

If W = W' C with a 0/1 matrix C that adds up merged cells, every strategy A' for W'
gives the strategy A' C for W. It has the same sensitivity and the same answers. No
strategy for W is better than the best one for W': restrict it to one column per group.
So strategies are optimized, and data measured, on the merged cells.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix, once
from mmech.operators.basic import Identity, Ones, Total
from mmech.operators.compose import Product, Scaled, VStack
from mmech.operators.explicit import Dense, Matrix, Sparse, as_query_matrix
from mmech.operators.known import Term, has_full_column_rank, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.partition import PartitionStack

Groups = NDArray[np.int64]

HASHES = 2
"""Independent 64-bit hashes per column of an integer workload."""

DESCRIBED = {Identity, Ones, Total}
"""Operators that their label tells apart: these very classes."""


def reduce_columns(workload: QueryMatrix) -> tuple[QueryMatrix, Groups]:
    """Return the workload with one column per group, and the groups."""
    n = workload.shape[1]
    groups = column_groups(workload)
    members = first_members(groups)
    if members.size in (0, n):
        return workload, np.arange(n)
    return restrict_columns(workload, members), groups


def first_members(groups: Groups) -> Groups:
    """Return the first column of every group."""
    size = int(groups.max(initial=-1)) + 1
    first = np.full(size, groups.size, np.int64)
    kept = np.flatnonzero(groups >= 0)
    np.minimum.at(first, groups[kept], kept)
    return first


def _key(operator: QueryMatrix) -> Any:
    return repr(operator) if type(operator) in DESCRIBED else id(operator)


def column_groups(workload: QueryMatrix) -> Groups:
    """Return the group of every column, by first occurrence; -1 for zero columns."""
    m, n = workload.shape
    if m == 0:
        return np.full(n, -1)
    if m > LIMITS.merged_cells or has_full_column_rank(workload):
        return np.arange(n)
    if workload.dtype == np.int64:
        rng = np.random.default_rng(0x6D6D656368)
        weights = rng.integers(-(2**62), 2**62, (m, HASHES)) | 1
        with np.errstate(over="ignore"):  # a hash: it may wrap around
            groups = _equal_rows(np.asarray(workload._rmatmat(weights)))
        if _agrees(workload, groups, rng.standard_normal((m, 1))):
            return groups
    if m * n <= LIMITS.compared_entries:
        return _equal_rows(np.ascontiguousarray(workload._dense().T))
    return np.arange(n)


def _equal_rows(keys: NDArray[Any]) -> Groups:
    """Return the group of every row, by first occurrence; -1 for zero rows."""
    keys = keys + keys.dtype.type(0)  # minus zero becomes zero
    packed = np.ascontiguousarray(keys).view(f"V{keys.dtype.itemsize * keys.shape[1]}")
    _, first, inverse = np.unique(
        packed.ravel(), return_index=True, return_inverse=True
    )
    order = np.argsort(first, kind="stable")  # of occurrence
    first, kinds = first[order], np.argsort(order)[inverse.ravel()]
    filled = keys[first].any(axis=1)
    return np.where(filled, np.cumsum(filled) - 1, -1)[kinds]


def _agrees(workload: QueryMatrix, groups: Groups, probe: NDArray[np.float64]) -> bool:
    """Whether the columns of a group are equal under a test without wrap-around.

    Sums modulo 2^64 can hide differences that are multiples of large powers of two.
    """
    columns = workload.rmatmat(probe)
    first = first_members(groups)
    merged = np.append(columns[first], 0.0)[groups]
    tolerance = 1e-9 * np.abs(columns).max(initial=0.0)
    return bool(np.allclose(merged, columns[:, 0], rtol=0, atol=tolerance))


def merge_rows(workload: QueryMatrix) -> QueryMatrix:
    """Merge equal queries, each weighted by the root of their number; drop zero ones.

    The gram stays the same, and so does the loss of every strategy. Explicit workloads
    are merged row by row, stacks of others block by block. The workload itself if no
    query repeats.

    Examples
    --------
    >>> from mmech import Dense
    >>> merge_rows(Dense([[1, 2], [0, 0], [1, 2], [1, 2], [1, 2]])).to_dense()
    array([[2., 4.]])
    """
    squares: dict[Any, float] = {}
    merged: dict[Any, QueryMatrix] = {}
    blocks = normal_form(workload).blocks
    unchanged = True
    for weight, block in blocks:
        key, rows = _key(block), _distinct_rows(block)
        unchanged = unchanged and rows is block and key not in merged
        squares[key] = squares.get(key, 0.0) + weight**2
        joint = float(np.sqrt(squares[key])) if key in merged else weight
        merged[key] = rows if joint == 1 else Scaled(joint, rows)
    if unchanged:
        return workload
    kept = list(merged.values())
    return kept[0] if len(kept) == 1 else VStack(kept)


@singledispatch
def _distinct_rows(workload: QueryMatrix) -> QueryMatrix:
    """Merge the equal rows of an explicit matrix."""
    return workload


@_distinct_rows.register(Dense | Sparse)
def _(workload: QueryMatrix) -> QueryMatrix:
    groups = column_groups(workload.T)
    first = first_members(groups)
    if first.size in (0, workload.shape[0]):
        return workload
    rows = restrict_columns(workload.T, first).T
    counts = np.bincount(groups[groups >= 0])
    if counts.max() == counts.min():
        return rows if counts[0] == 1 else Scaled(float(np.sqrt(counts[0])), rows)
    return Sparse(sp.diags_array(np.sqrt(counts)) @ sp.csr_array(rows.to_sparse()))


@singledispatch
def restrict_columns(workload: QueryMatrix, columns: Groups) -> QueryMatrix:
    """Return the workload restricted to some columns, in the structure it has."""
    return restrict_any(workload, columns)


def restrict_any(workload: QueryMatrix, columns: Groups) -> QueryMatrix:
    """Return an explicit workload, or a product with a selection of the columns."""
    m, n = workload.shape
    if n * m <= LIMITS.compared_entries:
        return Dense(workload._dense()[:, columns])
    ones = np.ones(columns.size, np.int64)
    places = (columns, np.arange(columns.size))
    return workload @ Sparse(sp.csr_array((ones, places), shape=(n, columns.size)))


restrict_columns.register(
    Dense, lambda workload, columns: Dense(workload._array[:, columns])
)


@restrict_columns.register(Sparse)
def _(workload: Sparse, columns: Groups) -> QueryMatrix:
    weight, block = normal_form(workload).blocks[0]
    if block is workload:
        return Sparse(workload.matrix[:, columns])
    ranges = restrict_columns(block, columns)
    return ranges if weight == 1 else weight * ranges


@restrict_columns.register(PartitionStack)
def _(workload: PartitionStack, columns: Groups) -> QueryMatrix:
    return PartitionStack(workload._labels[:, columns], workload.n_groups)


@restrict_columns.register(Scaled)
def _(workload: Scaled, columns: Groups) -> QueryMatrix:
    return Scaled(workload.weight, restrict_columns(workload.operator, columns))


@restrict_columns.register(VStack)
def _(workload: VStack, columns: Groups) -> QueryMatrix:
    return VStack([restrict_columns(block, columns) for block in workload.blocks])


@restrict_columns.register(Product)
def _(workload: Product, columns: Groups) -> QueryMatrix:
    last = restrict_columns(workload.factors[-1], columns)
    return Product(*workload.factors[:-1], last)


# ---- cells -------------------------------------------------------------------


def reduce_domain(workload: Matrix) -> tuple[QueryMatrix, Groups]:
    """Merge cells whose columns of the workload are equal; drop zero columns.

    Integer workloads of any structure are reduced by hashing their columns: one
    product of the transpose with two random vectors, exact modulo 2^64. Other
    workloads are compared entry by entry where they are small. Products of
    attributes, and unions of products, are reduced attribute by attribute: they stay
    products, though cells that only several attributes together make equal are not
    merged.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W.

    Returns
    -------
    reduced : QueryMatrix, shape (m, n')
        W', one column of W per group. The workload itself if nothing merges, or if
        it is zero.
    groups : ndarray of int64, shape (n,)
        Column of W' that every column of W equals, -1 for zero columns; numbered
        by first occurrence. Empty where the domain is too large to list, and the
        workload is returned as it is.

    See Also
    --------
    Merged : a strategy for W' as a strategy for W.

    Examples
    --------
    >>> from mmech import Dense, reduce_domain
    >>> reduced, groups = reduce_domain(Dense([[1, 1, 0, 2], [0, 0, 0, 1]]))
    >>> groups
    array([ 0,  0, -1,  1])
    >>> reduced.to_dense()
    array([[1, 2],
           [0, 1]])
    """
    return _reduce(as_query_matrix(workload, "workload"))


@once
def _reduce(workload: QueryMatrix) -> tuple[QueryMatrix, Groups]:
    n = workload.shape[1]
    if n > LIMITS.merged_cells:
        return workload, np.zeros(0, np.int64)
    terms = normal_form(workload).products
    if terms is not None and all(abs(weight) < 2**53 for weight, _ in terms):
        return _reduce_products(workload, terms)
    return reduce_columns(workload)


def _reduce_products(
    workload: QueryMatrix, terms: list[Term]
) -> tuple[QueryMatrix, Groups]:
    """Reduce every attribute of a union of products by itself."""
    sizes = [factor.shape[1] for factor in terms[0][1]]
    n = workload.shape[1]
    unchanged = workload, np.arange(n)
    asked = [factors for weight, factors in terms if weight != 0]
    if not asked:
        return unchanged
    groups = np.zeros(1, np.int64)
    restricted: list[list[QueryMatrix]] = [[] for _ in terms]
    for i, size in enumerate(sizes):
        factors = [factors[i] for factors in asked]
        different = list({_key(factor): factor for factor in factors}.values())
        inner = column_groups(VStack(different) if len(factors) > 1 else factors[0])
        first = first_members(inner)
        if first.size == 0:
            return unchanged
        whole = first.size == size
        for parts, term in zip(restricted, terms, strict=True):
            factor = term[1][i]
            parts.append(factor if whole else restrict_columns(factor, first))
        joint = groups[:, None] * first.size + inner
        groups = np.where((groups[:, None] < 0) | (inner < 0), -1, joint).ravel()
    if groups.min() >= 0 and int(groups.max()) + 1 == n:
        return unchanged
    blocks: list[QueryMatrix] = []
    for (weight, _), parts in zip(terms, restricted, strict=True):
        exact = int(weight) if workload.dtype == np.int64 else weight
        product = Kronecker(parts)
        blocks.append(product if weight == 1 else Scaled(exact, product))
    return blocks[0] if len(blocks) == 1 else VStack(blocks), groups
