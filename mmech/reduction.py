"""Lossless domain reduction: merge the cells that no query tells apart.

If W = W' C with a 0/1 matrix C that adds up merged cells, every strategy A' for W'
gives the strategy A' C for W with the same sensitivity and the same answers, and no
strategy for W is better than the best one for W' (restrict it to one column per
group). So strategies are optimized, and data measured, on the merged cells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mmech.operators._base import QueryMatrix
from mmech.operators._basic import Dense, Sparse
from mmech.operators._compose import Kronecker, Product, Scaled, VStack
from mmech.operators._partition import PartitionStack

__all__ = ["reduce_domain"]

Groups = NDArray[np.int64]

DENSE_ENTRIES = 2**24
"""Up to this size the columns of a non-integer workload are compared entry by entry."""

HASHES = 2
"""Independent 64-bit hashes per column of an integer workload."""


def reduce_domain(workload: QueryMatrix) -> tuple[QueryMatrix, Groups]:
    """Merge cells whose columns of the workload are equal; drop zero columns.

    Integer workloads of any structure are reduced by hashing their columns: one
    product of the transpose with two random vectors, exact modulo 2^64. Other
    workloads are compared entry by entry where they are small. Products of
    attributes are reduced attribute by attribute, so that they stay products.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W.

    Returns
    -------
    reduced : QueryMatrix, shape (m, n')
        W', one column of W per group. The workload itself if nothing merges.
    groups : ndarray of int64, shape (n,)
        Column of W' that every column of W equals, -1 for zero columns; numbered
        by first occurrence.

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
    from mmech.error import kronecker_terms

    terms = kronecker_terms(workload)
    if terms is not None:
        return _reduce_products(workload, terms)
    groups = _column_groups(workload)
    size = int(groups.max(initial=-1)) + 1
    if size == workload.shape[1] or size == 0:
        return workload, np.arange(workload.shape[1])
    first = np.full(size, workload.shape[1], np.int64)
    kept = np.flatnonzero(groups >= 0)
    np.minimum.at(first, groups[kept], kept)
    return restrict_columns(workload, first), groups


def _reduce_products(
    workload: QueryMatrix, terms: list[tuple[float, tuple[QueryMatrix, ...]]]
) -> tuple[QueryMatrix, Groups]:
    """Reduce every attribute of a union of products by itself."""
    sizes = [factor.shape[1] for factor in terms[0][1]]
    n = workload.shape[1]
    if n > 2**26:
        return workload, np.zeros(0, np.int64)
    groups = np.zeros(1, np.int64)
    restricted: list[list[QueryMatrix]] = [[] for _ in terms]
    merged_size = 1
    for i in range(len(sizes)):
        factors = [factors[i] for _, factors in terms]
        stacked = factors[0] if len(factors) == 1 else VStack(_distinct(factors))
        own = _column_groups(stacked)
        if (own < 0).any():  # a value no query asks about: keep it, as a group
            own = np.where(own < 0, own.max() + 1, own)
        count = int(own.max()) + 1
        first = np.full(count, sizes[i], np.int64)
        np.minimum.at(first, own, np.arange(sizes[i]))
        for parts, factor in zip(restricted, factors, strict=True):
            whole = count == sizes[i]
            parts.append(factor if whole else restrict_columns(factor, first))
        if count == sizes[i]:
            own = np.arange(sizes[i])
        groups = (groups[:, None] * count + own).ravel()
        merged_size *= count
    if merged_size == n:
        return workload, np.arange(n)
    blocks: list[QueryMatrix] = []
    for (weight, _), parts in zip(terms, restricted, strict=True):
        product = Kronecker(parts)
        blocks.append(product if weight == 1 else Scaled(weight, product))
    return blocks[0] if len(blocks) == 1 else VStack(blocks), groups


def _distinct(factors: list[QueryMatrix]) -> list[QueryMatrix]:
    """Drop repeated factors: the same object, or the same label of a leaf type."""
    seen: dict[Any, QueryMatrix] = {}
    for factor in factors:
        described = type(factor).__name__ in ("Identity", "Total", "Ones", "Prefix")
        seen.setdefault(repr(factor) if described else id(factor), factor)
    return list(seen.values())


def _column_groups(workload: QueryMatrix) -> Groups:
    """Return the group of every column, by first occurrence; -1 for zero columns."""
    n = workload.shape[1]
    if workload.dtype == np.int64:
        rng = np.random.default_rng(0x6D6D656368)
        weights = rng.integers(-(2**62), 2**62, (workload.shape[0], HASHES)) | 1
        with np.errstate(over="ignore"):
            keys = workload.rmatmat(weights)
    elif workload.shape[0] * n <= DENSE_ENTRIES:
        keys = np.ascontiguousarray(workload._dense().T) + 0.0
    else:
        return np.arange(n)
    packed = np.ascontiguousarray(keys).view(f"V{keys.dtype.itemsize * keys.shape[1]}")
    _, first, inverse = np.unique(
        packed.ravel(), return_index=True, return_inverse=True
    )
    zero = ~keys[first].any(axis=1)
    order = np.argsort(np.where(zero, n, first), kind="stable")
    rank = np.empty(first.size, np.int64)
    rank[order] = np.arange(first.size)
    rank[zero] = -1
    return rank[inverse.ravel()]


def restrict_columns(workload: QueryMatrix, columns: Groups) -> QueryMatrix:
    """Return the workload restricted to some columns, in the structure it has."""
    if isinstance(workload, Dense):
        return Dense(workload.to_dense()[:, columns])
    if isinstance(workload, Sparse):
        return Sparse(workload.to_sparse()[:, columns])
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
