"""Operators on a domain whose cells were merged without loss."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import plain_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    freeze,
    held,
    power_sums,
    query_matrix,
    read_only,
)
from mmech.operators.compose import Gram, Wrapper
from mmech.operators.explicit import as_query_matrix


@query_matrix("Merged")
class Merged(Wrapper):
    """An operator on merged cells, as an operator on the original cells.

    Column j is column ``groups[j]`` of the inner operator, or zero where ``groups[j]``
    is -1. Where the groups are an order of the cells, the operator asks a relabelled
    domain: ranges become ranges of an order that the cells do not come in.

    Parameters
    ----------
    operator : QueryMatrix, shape (m, n')
        Operator on the merged cells.
    groups : array_like of int, shape (n,)
        Merged cell of every original cell, -1 for none; every merged cell occurs.

    See Also
    --------
    reduce_domain : finds the groups of a workload.

    Examples
    --------
    >>> from mmech import Identity, Merged, Prefix
    >>> Merged(Identity(2), [0, 1, 1, -1]).to_dense()
    array([[1, 0, 0, 0],
           [0, 1, 1, 0]])
    >>> Merged(Prefix(3), [2, 0, 1]).to_dense()
    array([[0, 1, 0],
           [0, 1, 1],
           [1, 1, 1]])
    """

    groups: ArrayLike

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

    _groups = held("groups", NDArray[np.int64])

    @property
    def shape(self) -> tuple[int, int]:
        return (self.operator.shape[0], int(self._groups.size))

    def _arguments(self) -> str:
        return f"{self.operator._label()}, {self._groups.size} cells"

    @property
    def reorders(self) -> bool:
        """Whether every merged cell is one cell, and none is left out."""
        return self._groups.size == self.operator.shape[1]

    @cached_property
    def merge(self) -> sp.csr_array:
        """The 0/1 matrix C of shape (n', n) that adds up merged cells."""
        columns = np.flatnonzero(self._groups >= 0)
        rows = self._groups[columns]
        shape = (self.operator.shape[1], self._groups.size)
        merge = sp.csr_array((np.ones(columns.size, np.int64), (rows, columns)), shape)
        freeze(merge)
        return merge

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of original cells in every merged cell."""
        kept = self._groups[self._groups >= 0]
        return read_only(np.bincount(kept, minlength=self.operator.shape[1]))

    def _spread(self, values: Array) -> Array:
        """Return values of the merged cells at the original cells."""
        nothing = np.zeros((1, *values.shape[1:]), values.dtype)
        return np.concatenate([values, nothing])[self._groups]

    def _merged(self, x: Array) -> Array:
        """Return values of the original cells, added up by merged cell."""
        merged = np.asarray(self.merge.astype(x.dtype, copy=False) @ x)
        return np.ascontiguousarray(merged)

    def _matmat(self, x: Array, /) -> Array:
        return self.operator._matmat(self._merged(x))

    def _rmatmat(self, y: Array, /) -> Array:
        return self._spread(self.operator._rmatmat(y))

    def gram(self) -> QueryMatrix:
        return MergedGram(self)

    def abs(self) -> QueryMatrix:
        return Merged(self.operator.abs(), self._groups)

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return super()._power_sums(power, axis)
        return self._spread(power_sums(self.operator, power, 0))

    def sensitivity(self) -> float:
        """Return the largest L1 norm of a column; every inner column occurs."""
        return self.operator.sensitivity()

    def l2_sensitivity(self) -> float:
        """Return the largest L2 norm of a column; every inner column occurs."""
        return self.operator.l2_sensitivity()


@query_matrix("MergedGram")
class MergedGram(Gram):
    """The gram of an operator on merged cells, by the gram of the inner operator."""

    operator: Merged

    @cached_property
    def inner(self) -> QueryMatrix:
        """The gram of the operator on the merged cells."""
        return self.operator.operator.gram()

    def _matmat(self, x: Array, /) -> Array:
        return self.operator._spread(self.inner._matmat(self.operator._merged(x)))
