"""Compile a forest and a batch of queries into the workloads T, QTᵀT and QTᵀ.

The rows of T are the root-to-leaf paths of the trees as predicates over the domain
cells. The rows of Q are one-hot queries (Tajima, Wu, Houmansadr, AAAI 2025, Section 3).
All three come back as implicit operators of `mmech`; QTᵀ needs no domain at all, only
the leaf that every query visits in every tree.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from mmech import Conjunctions, Marginals, PartitionStack, Product, Sparse
from mmech_rf.forest.forest import Forest, check_forest
from mmech_rf.forest.growth import CompleteForest
from mmech_rf.limits import LIMITS


def training_workload(forest: Forest) -> PartitionStack | Conjunctions | Marginals:
    """Return T: one query per leaf of the forest, over the domain cells.

    Parameters
    ----------
    forest : Forest
        Trees over a domain of n cells, with o leaves in all.

    Returns
    -------
    PartitionStack, Conjunctions or Marginals, shape (o, n)
        Row ``forest.leaf_offsets[t] + l`` counts the records in leaf l of tree t.
        Stored as one label per tree and cell where that is at most 512 MiB, else
        as one mask per leaf and attribute. The `complete_forest` of depth h asks for
        all h-way marginals and is known as them.

    See Also
    --------
    Forest.count_leaves : T D from the records, without the domain.

    Examples
    --------
    >>> from mmech_rf import grow_random_forest, training_workload
    >>> forest = grow_random_forest((3, 2), n_trees=2, depth=1, seed=0)
    >>> T = training_workload(forest)
    >>> T.shape[1], T.sensitivity()
    (6, 2.0)
    """
    check_forest(forest)
    if isinstance(forest, CompleteForest):
        return Marginals(forest.domain_shape, dict.fromkeys(forest.subsets, 1))
    return _leaves(forest)


def _leaves(forest: Forest) -> PartitionStack | Conjunctions:
    """Return T as labels or masks."""
    if forest.n_trees * forest.n_cells <= LIMITS.stored_labels:
        n_groups = np.diff(forest.leaf_offsets)
        return PartitionStack(forest.apply_domain(), n_groups, forest.domain_shape)
    return Conjunctions(forest.leaf_masks())


def aggregation_workload(forest: Forest, queries: ArrayLike) -> Sparse:
    """Return QTᵀ: which leaf every query visits in every tree.

    Q, one row per query with a 1 in its cell, is never made: each query goes down the
    trees. So domains may be of any size.

    Parameters
    ----------
    forest : Forest
        Trees with o leaves in all.
    queries : array_like of int, shape (b, d)
        Encoded inference queries; public.

    Returns
    -------
    Sparse, shape (b, o)
        One 1 per row and tree.

    Examples
    --------
    >>> from mmech_rf import aggregation_workload, grow_random_forest
    >>> forest = grow_random_forest((3, 2), n_trees=2, depth=1, seed=0)
    >>> int(aggregation_workload(forest, [[0, 1]]).to_dense().sum())
    2
    """
    check_forest(forest)
    leaves = forest.apply(queries)
    b, n_trees = leaves.shape
    if b == 0:
        raise ValueError(
            "queries must hold at least one row, got none; a batch needs a query"
        )
    columns = (leaves + forest.leaf_offsets[:-1]).ravel()
    starts = np.arange(0, b * n_trees + 1, n_trees)
    ones = np.ones(b * n_trees, np.int64)
    return Sparse(sp.csr_array((ones, columns, starts), shape=(b, forest.n_leaves)))


def prediction_workload(forest: Forest, queries: ArrayLike) -> Product:
    """Return QTᵀT: in how many trees a query and a cell share a leaf.

    Parameters
    ----------
    forest : Forest
        Trees over a domain of n cells.
    queries : array_like of int, shape (b, d)
        Encoded inference queries; public.

    Returns
    -------
    Product, shape (b, n)
        The product of QTᵀ and T, never multiplied out.

    Examples
    --------
    >>> from mmech_rf import grow_random_forest, prediction_workload
    >>> forest = grow_random_forest((3, 2), n_trees=4, depth=2, seed=0)
    >>> prediction_workload(forest, [[0, 1]]).to_dense()
    array([[0, 4, 0, 0, 0, 0]])
    """
    # Few columns of QTᵀT differ: they are found faster in labels than in marginals.
    return Product(aggregation_workload(forest, queries), _leaves(forest))


def explicit_rows(workload: Product) -> Sparse | None:
    """Return QTᵀT multiplied out, where it has few nonzeros.

    A query shares leaves with few cells where trees are deep. Products then cost
    those cells, not all labels of T. ``None`` for masks, and for more than 2^25
    nonzeros.
    """
    left, leaves = workload.factors
    if not isinstance(leaves, PartitionStack):
        return None
    visited = left.to_sparse()
    if (visited @ leaves.row_abs_sums()).sum() > LIMITS.explicit_nonzeros:
        return None
    n_trees, n = np.shape(leaves.labels)
    width = max(1, LIMITS.explicit_labels // n_trees)
    parts = []
    for start in range(0, n, width):
        labels = np.asarray(leaves.labels)[:, start : start + width]
        block = PartitionStack(labels, leaves.n_groups)
        parts.append(visited @ block.to_sparse())
    return Sparse(sp.csr_array(sp.hstack(parts, format="csr")))
