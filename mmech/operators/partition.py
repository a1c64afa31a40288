"""Leaf operators for forests: partitions of the domain and boxes of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_integer, magnitude, plain_array, sizes_label
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Symmetric,
    ZeroOne,
    freeze,
    held,
    once,
    product_of,
    query_matrix,
    read_only,
)
from mmech.operators.basic import Diagonal
from mmech.operators.explicit import Sparse

LISTED_COLUMNS = 8
"""Up to so many columns lists of cells multiply faster than labels."""

RENTED = 16
"""Columns that are multiplied before lists are made, which costs about as much."""

RENTED_GRAM = 64
"""The same for explicit grams."""

SAMPLED_CELLS = 64
"""Cells whose neighbours are counted to estimate the nonzeros of a gram."""

Lists = tuple[NDArray[np.int64], NDArray[np.uint32]]


class _Sets(ZeroOne):
    """Base of rows that are sets of cells, with products by lists where these fit.

    These list the cells of a row, or the rows of a cell. They are made once as many
    columns have been multiplied as they cost.
    """

    _kernels: ClassVar[tuple[str, str]]
    """Names of the kernels of A x and Aᵀ x."""

    _most_listed: ClassVar[float] = math.inf
    """Up to so many columns lists are faster."""

    _layout: tuple[Array, ...]
    """What the kernels read."""

    @cached_property
    def _columns_multiplied(self) -> list[int]:
        return [0, 0]

    @cached_property
    def _n_members(self) -> float:
        return float(self.row_abs_sums().sum())

    @cached_property
    def _row_lists(self) -> Lists:
        return _lists(self.to_sparse())

    @cached_property
    def _column_lists(self) -> Lists:
        return _lists(self.to_sparse().tocsc())

    def _product(self, x: Array, axis: int) -> Array:
        """Return A x, or Aᵀ x for axis 1: by lists where these are worth making."""
        from mmech import _kernels

        layout = self._layout
        out = np.zeros((self.shape[axis], x.shape[1]), x.dtype)
        if x.shape[1] <= self._most_listed:
            self._columns_multiplied[axis] += x.shape[1]
            rented = self._columns_multiplied[axis] <= RENTED
            if not rented and self._n_members <= LIMITS.listed_members:
                lists = self._column_lists if axis else self._row_lists
                column = np.ascontiguousarray(x).view()
                freeze((column,))  # one type, and so one compiled kernel
                _kernels.list_sums(*lists, column, out)
                return out
        getattr(_kernels, self._kernels[axis])(*layout, x, out)
        return out

    def _matmat(self, x: Array, /) -> Array:
        return self._product(x, 0)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._product(y, 1)


def _lists(matrix: sp.csr_array | sp.csc_array) -> Lists:
    starts, members = matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint32)
    freeze((starts, members))
    return starts, members


@query_matrix("PartitionStack")
class PartitionStack(_Sets):
    """Several partitions of one domain, stacked: one query per group.

    Row ``offsets[t] + g`` counts the records in group g of partition t. This is
    the matrix T of a forest: a tree is a partition, a leaf is a group. Products
    cost O(t n) per vector, memory is t n labels, and up to 2^24 of them thrice as many.

    Parameters
    ----------
    labels : array_like, shape (t, n)
        Group of every cell in every partition, integers from 0.
    n_groups : array_like, shape (t,)
        Number of groups of every partition; groups may be empty.
    domain_shape : tuple of int, default=None
        Attribute sizes of the domain where it is a product; tells the optimizer.

    See Also
    --------
    Partition : a single partition.
    Conjunctions : the same for domains too large for labels.

    Examples
    --------
    >>> from mmech import PartitionStack
    >>> A = PartitionStack([[0, 0, 1], [0, 1, 1]], [2, 2])
    >>> A @ [5, 1, 2]
    array([6, 2, 5, 3])
    >>> A.sensitivity()
    2.0
    """

    labels: ArrayLike
    n_groups: ArrayLike
    domain_shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if labels.dtype.kind not in "iu" or labels.ndim != 2 or labels.size == 0:
            raise ValueError(
                "labels must be integers of shape (number of partitions, number of "
                f"cells), got {labels.dtype} of shape {labels.shape}"
            )
        groups = np.asarray(self.n_groups)
        if groups.shape != labels.shape[:1] or groups.dtype.kind not in "iu":
            raise ValueError(
                f"n_groups must be {labels.shape[0]} integers, one per partition, "
                f"got {groups.dtype} of shape {groups.shape}"
            )
        beyond = (labels.min(axis=1) < 0) | (labels.max(axis=1) >= groups)
        if beyond.any():
            first = int(np.argmax(beyond))
            raise ValueError(
                f"labels of a partition must lie in 0..{groups[first] - 1}, as it has "
                f"n_groups = {groups[first]}, got {labels[first].min()}.."
                f"{labels[first].max()}"
            )
        if self.domain_shape is not None:
            shape = tuple(int(size) for size in self.domain_shape)
            if product_of(shape) != labels.shape[1]:
                raise ValueError(
                    f"domain_shape {shape} has {product_of(shape)} cells but labels "
                    f"are for {labels.shape[1]}; both must be the same domain"
                )
            self._set(domain_shape=shape)
        self._set(labels=read_only(labels.astype(np.int32)))
        self._set(n_groups=read_only(groups.astype(np.int64)))

    _labels = held("labels", NDArray[np.int32])

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """First row of every partition, and the number of rows; shape (t + 1,)."""
        return read_only(np.concatenate([[0], np.cumsum(self.n_groups)]))

    @once
    def boxes(self) -> list[NDArray[np.bool_]] | None:
        """Return the groups as boxes of a product domain, if they all are.

        Returns
        -------
        list of ndarray of bool, each of shape (number of groups, n_i), or None
            Which values of each attribute a group holds, for `Conjunctions`.
            ``None`` without `domain_shape`, where a group is not a box, or where
            finding out would take more than 2^30 visits of labels.
        """
        if self.domain_shape is None:
            return None
        if len(self.domain_shape) * self._labels.size > LIMITS.box_visits:
            return None
        step = self._labels.shape[1]
        cells, volume = np.arange(step), np.ones(self.shape[0], np.int64)
        masks = []
        for size in self.domain_shape:  # not as axes, of which NumPy has 64
            step //= size
            values = cells // step % size
            mask = np.zeros((self.shape[0], size), np.bool_)
            for start, labels in zip(self.offsets, self._labels, strict=False):
                mask[start + labels, values] = True
            volume *= mask.sum(axis=1)
            masks.append(read_only(mask))
        return masks if np.array_equal(volume, self.row_abs_sums()) else None

    @property
    def n_partitions(self) -> int:
        """Number of partitions t."""
        return int(self._labels.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self.offsets[-1]), int(self._labels.shape[1]))

    def _arguments(self) -> str:
        return f"{self.n_partitions} partitions"

    _kernels = ("partition_matmat", "partition_rmatmat")
    _most_listed = LISTED_COLUMNS

    @property
    def _layout(self) -> tuple[Array, ...]:  # type: ignore[override]
        return self._labels, self.offsets

    def gram(self) -> PartitionGram:
        """Return TᵀT: entry (i, j) counts the groups that cells i and j share."""
        return PartitionGram(self)

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return self._sizes
        return np.full(self.shape[1], self.n_partitions, np.int64)

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        groups = np.diff(self.offsets).tolist()
        pairs = zip(self._labels, groups, strict=True)
        sizes = [np.bincount(row, minlength=n) for row, n in pairs]
        return read_only(np.concatenate(sizes))

    def to_sparse(self) -> sp.csr_array:
        t = self.n_partitions
        rows = (self._labels + self.offsets[:-1, None]).T.ravel()
        ones = np.ones(rows.size, np.int64)
        ends = np.arange(0, rows.size + 1, t)
        return sp.csc_array((ones, rows, ends), shape=self.shape).tocsr()


@query_matrix("PartitionGram")
class PartitionGram(Symmetric):
    """The gram of stacked partitions: O(t n) per vector.

    The gram of small groups has fewer nonzeros than there are labels. It is made
    explicit once as many columns have been multiplied as that costs.
    """

    partitions: PartitionStack
    dtype = np.dtype(np.int64)
    is_nonnegative = True

    @property
    def shape(self) -> tuple[int, int]:
        n = self.partitions.shape[1]
        return (n, n)

    def _matmat(self, x: Array, /) -> Array:
        self._columns_multiplied[0] += x.shape[1]
        if self._columns_multiplied[0] > RENTED_GRAM and self._explicit is not None:
            if x.shape[1] == 1:
                return self._explicit._matmat(x)
            return self._explicit._rmatmat(x)  # by columns, which SciPy does faster
        return self.partitions._rmatmat(self.partitions._matmat(x))

    def _explicit_entries(self) -> Array:
        rows = self.partitions.to_sparse()
        return (rows.T @ rows).toarray()

    @cached_property
    def _columns_multiplied(self) -> list[int]:
        return [0]

    @cached_property
    def _explicit(self) -> Sparse | None:
        """The gram as a sparse matrix, where that has fewer nonzeros than labels."""
        stack = self.partitions
        work = np.square(stack.row_abs_sums().astype(np.float64)).sum()
        if work > RENTED_GRAM * stack._labels.size:
            return None
        rows, n = stack.to_sparse(), stack.shape[1]
        some = np.unique(np.linspace(0, n - 1, SAMPLED_CELLS).astype(np.int64))
        nonzeros = (rows.T @ rows[:, some]).nnz / some.size * n
        if nonzeros > min(stack._labels.size, LIMITS.listed_members):
            return None
        return Sparse(rows.T @ rows)

    def diag(self) -> Array:
        """Return the number of partitions for every cell."""
        return self.partitions.column_abs_sums()


@query_matrix("Partition", init=False)
class Partition(PartitionStack):
    """One query per group of a partition of the domain.

    Parameters
    ----------
    labels : array_like, shape (n,)
        Group of every cell, integers from 0.
    n_groups : int, default=None
        Number of groups; the largest label plus one when omitted.

    Examples
    --------
    >>> from mmech import Partition
    >>> Partition([0, 1, 0, 1], 2) @ [1, 2, 3, 4]
    array([4, 6])
    """

    def __init__(self, labels: ArrayLike, n_groups: int | None = None) -> None:
        array = plain_array(labels, "labels")
        if array.ndim != 1 or array.dtype.kind not in "iu" or array.size == 0:
            raise ValueError(
                "labels must be a non-empty vector of integers, got "
                f"{array.dtype} of shape {array.shape}"
            )
        groups = int(array.max()) + 1 if n_groups is None else n_groups
        super().__init__(array[None, :], [check_integer(groups, "n_groups")])

    def _arguments(self) -> str:
        return f"{self.shape[0]} groups"

    def __reduce__(self) -> tuple[type, tuple[Array, int]]:
        return (type(self), (self._labels[0], self.shape[0]))

    def pinv(self) -> QueryMatrix:
        """Return Pᵀ diag(1 / group size), empty groups giving zero."""
        return self.T @ Diagonal(self.row_abs_sums()).pinv()


@query_matrix("Conjunctions")
class Conjunctions(_Sets):
    """Boxes of cells: row r counts the records whose every attribute is allowed.

    Row r is the Kronecker product of its masks, so memory is one boolean per
    row and attribute value, whatever the size of the domain. Products visit the
    cells of every box.

    Parameters
    ----------
    masks : sequence of array_like, each of shape (o, n_i)
        One boolean array per attribute: which of its values row r allows.

    See Also
    --------
    PartitionStack : faster where the domain is small enough for labels.

    Examples
    --------
    >>> from mmech import Conjunctions
    >>> sunny_any = Conjunctions([[[True, False, False]], [[True, True]]])
    >>> sunny_any @ [1, 2, 3, 4, 5, 6]
    array([3])
    """

    masks: Sequence[ArrayLike]
    has_row_forms = True

    def __post_init__(self) -> None:
        if not isinstance(self.masks, Iterable):
            raise TypeError(
                "masks must be a sequence of arrays, one per attribute, got "
                f"{self.masks!r}"
            )
        arrays = tuple(read_only(plain_array(m, "masks")) for m in self.masks)
        if not arrays:
            raise ValueError("masks must hold one array per attribute, got none")
        rows = {array.shape[0] if array.ndim == 2 else -1 for array in arrays}
        if any(array.dtype != np.bool_ for array in arrays) or len(rows) != 1:
            raise ValueError(
                "masks must be boolean arrays of shape (o, n_i) with the same o, got "
                + ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
            )
        if rows == {-1} or any(array.shape[1] == 0 for array in arrays):
            raise ValueError(
                "masks must have two dimensions and n_i >= 1, got shapes "
                + ", ".join(str(array.shape) for array in arrays)
            )
        self._set(masks=arrays)

    _masks = held("masks", tuple[NDArray[np.bool_], ...])

    def boxes(self) -> list[NDArray[np.bool_]]:
        """Return which values of each attribute a box holds."""
        return list(self._masks)

    @property
    def domain_shape(self) -> tuple[int, ...]:
        """Number of values of every attribute."""
        return tuple(int(mask.shape[1]) for mask in self._masks)

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self._masks[0].shape[0]), product_of(self.domain_shape))

    def _arguments(self) -> str:
        sizes = sizes_label(self.domain_shape)
        return f"{self.shape[0]} boxes over {sizes}"

    @cached_property
    def _layout(self) -> tuple[Array, ...]:  # type: ignore[override]
        if self.shape[1] > LIMITS.enumerated_cells:
            raise DomainTooLargeError(
                f"products over {magnitude(self.shape[1])} cells do not fit in memory; "
                "restrict the domain to fewer attributes"
            )
        sizes = self.domain_shape
        packed = np.ascontiguousarray(np.hstack(self._masks), dtype=np.uint8)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        strides = np.array(
            [product_of(sizes[i + 1 :]) for i in range(len(sizes))], np.int64
        )
        layout = packed, starts, strides
        freeze(layout)  # as in a copy: kernels are compiled anew for other arrays
        return layout

    _kernels = ("conjunction_matmat", "conjunction_rmatmat")

    def _power_sums(self, power: int, axis: int) -> Array:
        """Return sizes of boxes at any domain size, as floats where int64 is short."""
        if axis == 0:
            return super()._power_sums(power, axis)
        exact = product_of(self.domain_shape) < 2**62
        sums = np.ones(self.shape[0], np.int64 if exact else np.float64)
        for mask in self._masks:
            sums = sums * mask.sum(axis=1)
        return sums

    def to_sparse(self) -> sp.csr_array:
        from mmech import _kernels

        layout, sizes = self._layout, self.row_abs_sums()
        if self._n_members > LIMITS.listed_members:
            return super().to_sparse()
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        cells = np.empty(ends[-1], np.uint32)
        _kernels.box_cells(*layout, ends, cells)
        ones = np.ones(cells.size, np.int64)
        return sp.csr_array((ones, cells.astype(np.int64), ends), shape=self.shape)
