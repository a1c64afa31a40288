"""Columns of a workload that are equal."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones, Total
from mmech.operators.compose import Product, Scaled
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.known import has_full_column_rank, normal_form
from mmech.operators.partition import PartitionStack
from mmech.operators.stack import VStack

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


def distinct(factors: list[QueryMatrix]) -> list[QueryMatrix]:
    """Drop repeated factors: the same object, or the same label of a leaf type."""
    seen: dict[Any, QueryMatrix] = {}
    for factor in factors:
        seen.setdefault(_key(factor), factor)
    return list(seen.values())


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
        own = float(np.sqrt(squares[key])) if key in merged else weight
        merged[key] = rows if own == 1 else Scaled(own, rows)
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
