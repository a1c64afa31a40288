"""Products along one axis of a tensor: scans, sums and matrices, without transposes.

A tensor is seen as (left, n, right) around the axis in question, a view of the flat
data. What a factor of a Kronecker product costs depends on which of its products needs
no transposed copy; `axis_kind` names it.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from mmech.operators.base import Array, QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.explicit import Dense
from mmech.operators.pidentity import PIdentityPinv

SMALL_FACTOR = 64
"""Other operators of at most this many rows and columns are multiplied as matrices."""

LOW_RANK_FACTOR = 512
"""Pseudoinverses of p-Identities of at most so many rows and columns are matrices."""

THIN = 8
"""Batched matrix products with fewer columns lose to transposed copies."""

SLICE_ENTRIES = 2**14
"""Slices with fewer entries are gathered into one product by transposed copies."""


@singledispatch
def axis_kind(factor: QueryMatrix) -> str:
    """Return how a factor is applied along an axis.

    "identity", "scan" and "total" need no matrix, "matrix" has one, dense; "other"
    multiplies by its own method.
    """
    return "matrix" if max(factor.shape) <= SMALL_FACTOR else "other"


axis_kind.register(Identity, lambda factor: "identity")
axis_kind.register(Ones, lambda factor: "total")
axis_kind.register(Dense, lambda factor: "matrix")
axis_kind.register(
    PIdentityPinv,
    lambda factor: "matrix" if max(factor.shape) <= LOW_RANK_FACTOR else "other",
)


@singledispatch
def apply_along(
    factor: QueryMatrix, matrix: Array | None, x: Array, transpose: bool
) -> Array:
    """Return the factor's product along the middle axis of a (left, n, right) tensor.

    `matrix` is the explicit factor, transposed if that is asked for, where it is to be
    multiplied as one. Tensors are C-contiguous; the factor is not an identity.
    """
    left, n, right = x.shape
    m = factor.shape[1 if transpose else 0]
    if matrix is not None:
        if right == 1:
            return (x.reshape(left, n) @ matrix.T)[:, :, None]
        if left == 1 or right >= THIN:
            return np.matmul(matrix, x)
    product = factor._rmatmat if transpose else factor._matmat
    if n * right >= SLICE_ENTRIES or left == 1:
        out = np.empty((left, m, right), x.dtype)
        for source, target in zip(x, out, strict=True):
            target[:] = product(source)
        return out
    moved = np.ascontiguousarray(np.swapaxes(x, 0, 1)).reshape(n, -1)
    result = product(moved).reshape(m, left, right)
    return np.ascontiguousarray(np.swapaxes(result, 0, 1))


@apply_along.register(Ones)
def _(factor: Ones, matrix: Array | None, x: Array, transpose: bool) -> Array:
    sums = x.sum(axis=1, keepdims=True, dtype=x.dtype)
    return np.repeat(sums, factor.shape[1 if transpose else 0], axis=1)


def rotate(matrices: list[Array], x: Array) -> Array:
    """Return the Kronecker product of matrices times a vector, last factor first.

    Every step is one matrix product that reads the last axis and writes its result as
    the first one: after as many steps as there are axes all are in their places again,
    and no transposed copy was made. The columns of a (n, k) array are one more axis,
    brought to the front by the only copy.
    """
    columns = x.shape[1]
    tensor = x if columns == 1 else np.ascontiguousarray(x.T)
    for matrix in reversed(matrices):
        tensor = matrix @ tensor.reshape(-1, matrix.shape[1]).T
    return tensor.reshape(-1, columns)
