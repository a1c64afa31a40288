"""Lossless domain reduction: merge the cells that no query tells apart.

If W = W' C with a 0/1 matrix C that adds up merged cells, every strategy A' for W'
gives the strategy A' C for W. It has the same sensitivity and the same answers. No
strategy for W is better than the best one for W': restrict it to one column per group.
So strategies are optimized, and data measured, on the merged cells.
"""

from __future__ import annotations

import numpy as np

from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix, once
from mmech.operators.compose import Scaled
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.known import Term, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.stack import VStack
from mmech.reduction.columns import (
    Groups,
    column_groups,
    distinct,
    first_members,
    reduce_columns,
    restrict_columns,
)


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
    workload: QueryMatrix,
    terms: list[Term],
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
        stacked = factors[0] if len(factors) == 1 else VStack(distinct(factors))
        own = column_groups(stacked)
        first = first_members(own)
        if first.size == 0:
            return unchanged
        whole = first.size == size
        for parts, term in zip(restricted, terms, strict=True):
            factor = term[1][i]
            parts.append(factor if whole else restrict_columns(factor, first))
        joint = groups[:, None] * first.size + own
        groups = np.where((groups[:, None] < 0) | (own < 0), -1, joint).ravel()
    if groups.min() >= 0 and int(groups.max()) + 1 == n:
        return unchanged
    blocks: list[QueryMatrix] = []
    for (weight, _), parts in zip(terms, restricted, strict=True):
        exact = int(weight) if workload.dtype == np.int64 else weight
        product = Kronecker(parts)
        blocks.append(product if weight == 1 else Scaled(exact, product))
    return blocks[0] if len(blocks) == 1 else VStack(blocks), groups
