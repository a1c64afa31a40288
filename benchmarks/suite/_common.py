"""Dense contenders, and the comparison that every setup makes before timing."""

import numpy as np
import scipy.sparse as sp

# Loaded once, by the fork server: all contenders start with the same memory.
import mmech._kernels  # noqa: F401
import mmech_rf._kernels  # noqa: F401

CAR = (4, 4, 4, 3, 3, 3)
"""Attribute sizes of the car evaluation data: 1,728 cells."""


def check(ours, theirs, rtol=1e-9):
    """Raise unless two answers agree, up to rounding of the largest entry."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    atol = rtol * np.abs(theirs).max(initial=1.0)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


def prefix_rows(n):
    """All prefix sums as a dense matrix."""
    return np.tril(np.ones((n, n)))


def range_rows(n):
    """All ranges as a sparse matrix, rows (lo, hi) in lexicographic order."""
    low, high = np.triu_indices(n)
    lengths = high - low + 1
    starts = np.concatenate([[0], np.cumsum(lengths)])
    columns = np.arange(starts[-1]) - np.repeat(starts[:-1] - low, lengths)
    return sp.csr_array((np.ones(starts[-1]), columns, starts), (low.size, n))


def range_gram(n):
    """Gram of all ranges: (i, j) lie together in (min + 1) (n - max) of them."""
    i = np.arange(n)
    low, high = np.minimum.outer(i, i), np.maximum.outer(i, i)
    return (low + 1.0) * (n - high)


def partition_rows(labels, n_groups):
    """Stacked partitions as a sparse matrix, from group labels (t, n)."""
    t, n = labels.shape
    offsets = np.concatenate([[0], np.cumsum(n_groups)])
    rows = (labels + offsets[:-1, None]).ravel()
    entries = (np.ones(t * n), (rows, np.tile(np.arange(n), t)))
    return sp.csr_array(entries, shape=(offsets[-1], n))


def dense_pidentity(theta, gram):
    """Loss tr((AᵀA)⁻¹ V) of a p-Identity and its gradient, all of it n x n.

    With G = -2 A X V X, X = (AᵀA)⁻¹, the gradient in A, and A = B diag(1/s),
    B = [I; Θ]: the chain rule through Θ and through s = 1 + Θᵀ1.
    """
    n = theta.shape[1]
    stacked = np.vstack([np.eye(n), theta])
    scales = stacked.sum(axis=0)
    strategy = stacked / scales
    inverse = np.linalg.inv(strategy.T @ strategy)
    weighted = inverse @ gram
    by_strategy = -2.0 * strategy @ (weighted @ inverse)
    through_scales = (by_strategy * strategy).sum(axis=0)
    return np.trace(weighted), (by_strategy[n:] - through_scales) / scales


def published_pidentity(theta, gram):
    """The same by the published formulas, O(n² p): X by Woodbury's identity.

    McKenna, Miklau, Hay, Machanavajjhala (VLDB 2018), section 5.2: ``f = tr(X V)`` and
    the gradient ``-2 A X V X`` in A, with ``X = S (I - Θᵀ (I + Θ Θᵀ)⁻¹ Θ) S`` for
    ``S = diag(1 + Θᵀ1)``. Each X takes two products of n x n by p, one for the rows of
    A that belong to Θ; the rows of the identity need the diagonal alone.
    """
    scales = 1.0 + theta.sum(axis=0)
    core = np.linalg.inv(np.eye(len(theta)) + theta @ theta.T)

    def inverse_times(matrix):
        matrix = matrix * scales[:, None]
        return (matrix - theta.T @ (core @ (theta @ matrix))) * scales[:, None]

    weighted = inverse_times(gram)
    both = inverse_times(weighted.T)
    by_queries = -2.0 * (theta / scales) @ both
    by_cells = -2.0 * np.diagonal(both) / scales
    through_scales = ((by_queries * theta).sum(axis=0) + by_cells) / scales
    return np.trace(weighted), (by_queries - through_scales) / scales


def dense_pinv(matrix):
    """Pseudoinverse of an explicit matrix whose rank may be deficient.

    NumPy's cut-off of 1e-15 keeps singular values that are rounding errors.
    """
    return np.linalg.pinv(matrix, rcond=max(matrix.shape) * np.finfo(float).eps)


def dense_row_losses(workload, strategy):
    """‖A‖₁² times the squared row norms of W A⁺, for explicit matrices."""
    sensitivity = np.abs(strategy).sum(axis=0).max()
    return sensitivity**2 * np.square(workload @ dense_pinv(strategy)).sum(axis=1)
