"""Operators on a domain whose cells were merged without loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech._validation import check_operator
from mmech.operators._base import Array, QueryMatrix, freeze, read_only

__all__ = ["Merged"]


@dataclass(frozen=True, eq=False, repr=False)
class Merged(QueryMatrix):
    """An operator on merged cells, as an operator on the original cells.

    Column j is column ``groups[j]`` of the inner operator, or zero where
    ``groups[j]`` is -1. A record changes one merged cell by one, so merging never
    raises the sensitivity.

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
    >>> from mmech import Identity, Merged
    >>> Merged(Identity(2), [0, 1, 1, -1]).to_dense()
    array([[1, 0, 0, 0],
           [0, 1, 1, 0]])
    """

    operator: QueryMatrix
    groups: ArrayLike

    def __post_init__(self) -> None:
        check_operator(self.operator, "operator")
        groups = np.asarray(self.groups)
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
        object.__setattr__(self, "groups", read_only(groups.astype(np.int64)))

    @property
    def _groups(self) -> NDArray[np.int64]:
        return self.groups  # type: ignore[return-value]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries and of original cells."""
        return (self.operator.shape[0], int(self._groups.size))

    def _arguments(self) -> str:
        return f"{self.operator._label()}, {self._groups.size} cells"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the operator."""
        return self.operator.dtype

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no entry is negative."""
        return self.operator.is_nonnegative

    @cached_property
    def merge(self) -> sp.csr_array:
        """The 0/1 matrix C of shape (n', n) that adds up merged cells."""
        columns = np.flatnonzero(self._groups >= 0)
        rows = self._groups[columns]
        shape = (self.operator.shape[1], self._groups.size)
        ones = np.ones(columns.size, np.int64)
        merge = sp.csr_array((ones, (rows, columns)), shape=shape)
        freeze(merge)
        return merge

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of original cells in every merged cell."""
        kept = self._groups[self._groups >= 0]
        return read_only(np.bincount(kept, minlength=self.operator.shape[1]))

    @cached_property
    def representatives(self) -> NDArray[np.int64]:
        """First original cell of every merged cell, shape (n',)."""
        first = np.full(self.operator.shape[1], self._groups.size, np.int64)
        kept = np.flatnonzero(self._groups >= 0)
        np.minimum.at(first, self._groups[kept], kept)
        return read_only(first)

    def _spread(self, values: Array) -> Array:
        """Return values of the merged cells at the original cells."""
        padded = np.concatenate(
            [values, np.zeros((1, *values.shape[1:]), values.dtype)]
        )
        return padded[self._groups]

    def _matmat(self, x: Array, /) -> Array:
        merged = np.asarray(self.merge.astype(x.dtype, copy=False) @ x)
        return self.operator._matmat(np.ascontiguousarray(merged))

    def _rmatmat(self, y: Array, /) -> Array:
        return self._spread(self.operator._rmatmat(y))

    def pinv(self) -> QueryMatrix:
        """Return C⁺A'⁺ where A' has full column rank, else the general form."""
        from mmech.error import has_full_column_rank
        from mmech.operators._basic import Diagonal
        from mmech.operators._explicit import Sparse

        if not has_full_column_rank(self.operator):
            return super().pinv()
        spread = Sparse(self.merge.T) @ Diagonal(1.0 / self.sizes)
        return spread @ self.operator.pinv()

    def abs(self) -> QueryMatrix:
        """Return the operator of absolute entries."""
        return Merged(self.operator.abs(), self._groups)

    def column_abs_sums(self) -> Array:
        """Return the L1 norm of every column, shape (n,)."""
        return self._spread(self.operator.column_abs_sums())

    def column_square_sums(self) -> Array:
        """Return the squared L2 norm of every column, shape (n,)."""
        return self._spread(self.operator.column_square_sums())

    def sensitivity(self) -> float:
        """Return the sensitivity of the inner operator: every column occurs."""
        return self.operator.sensitivity()

    def l2_sensitivity(self) -> float:
        """Return the L2 sensitivity of the inner operator."""
        return self.operator.l2_sensitivity()
