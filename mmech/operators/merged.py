"""Operators on a domain whose cells were merged without loss."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_finite_array, plain_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    freeze,
    power_sums,
    query_matrix,
    read_only,
)
from mmech.operators.explicit import as_query_matrix

__all__ = ["Merged"]


@query_matrix("Merged")
class Merged(QueryMatrix):
    """An operator on merged cells, as an operator on the original cells.

    Column j is column ``groups[j]`` of the inner operator, times ``weights[j]``, or
    zero where ``groups[j]`` is -1. A record changes one merged cell by its weight, so
    that merging with weights in [-1, 1] never raises the sensitivity.

    Parameters
    ----------
    operator : QueryMatrix, shape (m, n')
        Operator on the merged cells.
    groups : array_like of int, shape (n,)
        Merged cell of every original cell, -1 for none; every merged cell occurs.
    weights : array_like of float, shape (n,), default=None
        What a record of every original cell adds to its merged cell, not zero; one
        when omitted. With weights the operator counts as a matrix of fractions,
        whatever they are.

    See Also
    --------
    reduce_domain : finds the groups of a workload.

    Examples
    --------
    >>> from mmech import Identity, Merged
    >>> Merged(Identity(2), [0, 1, 1, -1]).to_dense()
    array([[1, 0, 0, 0],
           [0, 1, 1, 0]])
    >>> Merged(Identity(2), [0, 1, 1, -1], [1, 1, -0.5, 0]).to_dense() + 0.0
    array([[ 1. ,  0. ,  0. ,  0. ],
           [ 0. ,  1. , -0.5,  0. ]])
    """

    operator: QueryMatrix
    groups: ArrayLike
    weights: ArrayLike | None = None

    def __post_init__(self) -> None:
        operator = as_query_matrix(self.operator, "operator")
        self._set(operator=operator)
        groups = plain_array(self.groups, "groups")
        size = self.operator.shape[1]
        if groups.ndim != 1 or groups.dtype.kind not in "iu":
            raise ValueError(
                f"groups must be a vector of integers, got {groups.dtype} of shape "
                f"{groups.shape}"
            )
        if groups.size == 0 or groups.min() < -1 or groups.max() >= size:
            raise ValueError(
                f"groups must lie in -1..{size - 1}, the columns of the operator"
            )
        if np.unique(groups[groups >= 0]).size != size:
            raise ValueError(f"every one of the {size} merged cells must occur")
        self._set(groups=read_only(groups.astype(np.int64)))
        if self.weights is None:
            return
        weights = check_finite_array(self.weights, "weights", ndim=1).astype(np.float64)
        if weights.shape != groups.shape or (weights[groups >= 0] == 0).any():
            raise ValueError(
                f"weights must be {groups.size} numbers, one per cell, not zero where "
                f"the cell has a group; got shape {weights.shape}"
            )
        weights = np.where(groups >= 0, weights, 0.0)
        self._set(weights=read_only(weights))

    @property
    def _groups(self) -> NDArray[np.int64]:
        return self.groups  # type: ignore[return-value]

    @property
    def shape(self) -> tuple[int, int]:
        return (self.operator.shape[0], int(self._groups.size))

    def _arguments(self) -> str:
        return f"{self.operator._label()}, {self._groups.size} cells"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the operator; float64 with weights."""
        return self.operator.dtype if self.weights is None else np.dtype(np.float64)

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no entry is known to be negative."""
        positive = self.weights is None or bool(np.min(self.weights) >= 0)
        return positive and self.operator.is_nonnegative

    @cached_property
    def merge(self) -> sp.csr_array:
        """The matrix C of shape (n', n) that adds up merged cells by their weights."""
        columns = np.flatnonzero(self._groups >= 0)
        rows = self._groups[columns]
        shape = (self.operator.shape[1], self._groups.size)
        entries = np.ones(columns.size, np.int64)
        if self.weights is not None:
            entries = np.asarray(self.weights)[columns]
        merge = sp.csr_array((entries, (rows, columns)), shape=shape)
        freeze(merge)
        return merge

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of original cells in every merged cell."""
        kept = self._groups[self._groups >= 0]
        return read_only(np.bincount(kept, minlength=self.operator.shape[1]))

    @cached_property
    def representatives(self) -> NDArray[np.int64]:
        """First original cell of largest weight of every merged cell, shape (n',)."""
        first = np.full(self.operator.shape[1], self._groups.size, np.int64)
        kept = np.flatnonzero(self._groups >= 0)
        if self.weights is not None:
            sizes = np.abs(self.weights)
            largest = np.zeros(first.size)
            np.maximum.at(largest, self._groups[kept], sizes[kept])
            kept = kept[sizes[kept] == largest[self._groups[kept]]]
        np.minimum.at(first, self._groups[kept], kept)
        return read_only(first)

    @cached_property
    def _scales(self) -> NDArray[np.float64]:
        """Largest absolute weight of every merged cell, shape (n',)."""
        if self.weights is None:
            return np.ones(self.operator.shape[1])
        return np.asarray(np.abs(self.weights))[self.representatives]

    def _spread(self, values: Array) -> Array:
        """Return values of the merged cells at the original cells."""
        padded = np.concatenate(
            [values, np.zeros((1, *values.shape[1:]), values.dtype)]
        )
        spread = padded[self._groups]
        if self.weights is None:
            return spread
        weights = np.asarray(self.weights, values.dtype)
        return spread * weights.reshape(-1, *[1] * (values.ndim - 1))

    def _matmat(self, x: Array, /) -> Array:
        merged = np.asarray(self.merge.astype(x.dtype, copy=False) @ x)
        return self.operator._matmat(np.ascontiguousarray(merged))

    def _rmatmat(self, y: Array, /) -> Array:
        return self._spread(self.operator._rmatmat(y))

    def abs(self) -> QueryMatrix:
        weights = None if self.weights is None else np.abs(self.weights)
        return Merged(self.operator.abs(), self._groups, weights)

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return super()._power_sums(power, axis)
        sums = power_sums(self.operator, power, 0)
        if self.weights is None:
            return self._spread(sums)
        return sums.astype(np.float64)[self._groups] * np.abs(self.weights) ** power

    def sensitivity(self) -> float:
        """Return the largest L1 norm of a column; every inner column occurs."""
        if self.weights is None:
            return self.operator.sensitivity()
        return float((self.operator.column_abs_sums() * self._scales).max())

    def l2_sensitivity(self) -> float:
        """Return the largest L2 norm of a column; every inner column occurs."""
        if self.weights is None:
            return self.operator.l2_sensitivity()
        return float(np.sqrt(self.column_square_sums().max()))
