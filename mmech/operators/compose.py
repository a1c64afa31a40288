"""Operators made of operators: transposes, multiples, products, sums, stacks.

Operators on a domain whose cells were merged without loss, or reordered, are too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce, singledispatch
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import plain_array
from mmech.limits import LIMITS
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Symmetric,
    common_dtype,
    exact_sums,
    freeze,
    held,
    power_sums,
    query_matrix,
    read_only,
)
from mmech.operators.basic import Diagonal, SeparableGram
from mmech.operators.explicit import Sparse, as_query_matrix, gram_entries
from mmech.operators.partition import PartitionStack

SPARSE_ADVANTAGE = 8
"""How many dense operations cost as much as one on a nonzero, about."""


def check_operators(parts: Any, name: str) -> tuple[QueryMatrix, ...]:
    """Return a list of operators and matrices as operators; there must be one."""
    if isinstance(parts, QueryMatrix) or not isinstance(parts, Iterable):
        raise TypeError(f"{name} takes a list of operators, got {parts!r}; pass a list")
    found = tuple(as_query_matrix(part, f"a part of {name}") for part in parts)
    if not found:
        raise ValueError(f"{name} needs at least one operator, got none")
    return found


class Composite(QueryMatrix):
    """Base of the operators made of several others."""

    parts: Sequence[QueryMatrix]
    """The operators that it is made of."""

    def _arguments(self) -> str:
        labels = [part._label() for part in self.parts]
        if len(labels) > 4:
            labels = [*labels[:2], f"... {len(labels) - 3} more ...", labels[-1]]
        return ", ".join(labels)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """``int64`` if all parts are integer, else ``float64``."""
        return common_dtype(self.parts)

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no part has a negative entry."""
        return all(part.is_nonnegative for part in self.parts)


@dataclass(frozen=True, eq=False, repr=False)
class Wrapper(QueryMatrix):
    """Base of the operators made of another one, of the same numbers."""

    operator: QueryMatrix

    dtype = held("operator.dtype", np.dtype)
    is_nonnegative = held("operator.is_nonnegative", bool)


@query_matrix("Transpose")
class Transpose(Wrapper):
    """The transpose of an operator.

    Parameters
    ----------
    operator : QueryMatrix, shape (m, n)
        The operator to transpose.
    """

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.operator.shape
        return (n, m)

    def _matmat(self, x: Array, /) -> Array:
        return self.operator._rmatmat(x)

    def _rmatmat(self, y: Array, /) -> Array:
        return self.operator._matmat(y)

    T = held("operator", QueryMatrix)

    def pinv(self) -> QueryMatrix:
        return self.operator.pinv().T

    def _power_sums(self, power: int, axis: int) -> Array:
        return power_sums(self.operator, power, 1 - axis)

    def diag(self) -> Array:
        return self.operator.diag()

    def _explicit_entries(self) -> Array:
        return np.ascontiguousarray(self.operator._dense().T)

    def to_sparse(self) -> sp.csr_array:
        return sp.csr_array(self.operator.to_sparse().T)


MULTIPLIED = 2**31
"""Up to so many products of entries a gram is made of these, at once."""


@query_matrix("Gram")
class Gram(Symmetric, Wrapper):
    """AᵀA as two products, for operators whose gram has no closed form.

    Parameters
    ----------
    operator : QueryMatrix, shape (m, n)
        The operator A.
    """

    @property
    def shape(self) -> tuple[int, int]:
        n = self.operator.shape[1]
        return (n, n)

    def _matmat(self, x: Array, /) -> Array:
        return self.operator._rmatmat(self.operator._matmat(x))

    def _explicit_entries(self) -> Array:
        m, n = self.operator.shape
        if m * n**2 <= MULTIPLIED:
            entries = gram_entries(self.operator._dense())
            if entries.dtype == self.dtype:
                return entries
        return super()._explicit_entries()

    def pinv(self) -> QueryMatrix:
        pinv = self.operator.pinv()
        return Product(pinv, pinv.T)

    def diag(self) -> Array:
        """Return the squared column norms of the operator."""
        return self.operator.column_square_sums()


def check_weight(weight: Any) -> int | float:
    """Return a finite weight as a Python int or float."""
    if isinstance(weight, bool) or not isinstance(
        weight, (int, float, np.integer, np.floating)
    ):
        raise TypeError(f"weight must be a real number, got {type(weight).__name__}")
    if isinstance(weight, (int, np.integer)):
        if abs(int(weight)) >= 2**63:
            raise ValueError(
                f"an integer weight must be below 2**63 in magnitude, got {weight}; "
                "use a float"
            )
        return int(weight)
    if not np.isfinite(weight):
        raise ValueError(f"weight must be finite, got {weight}")
    return float(weight)


@query_matrix("Scaled")
class Scaled(QueryMatrix):
    """A weight of any sign times an operator.

    Parameters
    ----------
    weight : float
        Finite factor; an integer keeps an integer operator exact.
    operator : QueryMatrix, shape (m, n)
        The operator to scale.

    Examples
    --------
    >>> from mmech import Identity, Scaled
    >>> Scaled(-1, Identity(4)).sensitivity()
    1.0
    """

    weight: float
    operator: QueryMatrix

    def __post_init__(self) -> None:
        operator = as_query_matrix(self.operator, "operator")
        self._set(operator=operator, weight=check_weight(self.weight))

    shape = held("operator.shape", tuple[int, int])

    def _arguments(self) -> str:
        return f"{self.weight:g}, {self.operator._label()}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """``int64`` for an integer weight and operator, else ``float64``."""
        if isinstance(self.weight, int):
            return self.operator.dtype
        return np.dtype(np.float64)

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no entry is known to be negative."""
        return self.weight >= 0 and self.operator.is_nonnegative

    def _matmat(self, x: Array, /) -> Array:
        return self.operator._matmat(x) * x.dtype.type(self.weight)

    def _rmatmat(self, y: Array, /) -> Array:
        return self.operator._rmatmat(y) * y.dtype.type(self.weight)

    @property
    def T(self) -> QueryMatrix:
        return Scaled(self.weight, self.operator.T)

    def gram(self) -> QueryMatrix:
        square = self.weight**2
        return self.operator.gram() * (square if square < 2**63 else float(square))

    def pinv(self) -> QueryMatrix:
        pinv = self.operator.pinv()
        return Scaled(0 if self.weight == 0 else 1 / self.weight, pinv)

    def _power_sums(self, power: int, axis: int) -> Array:
        sums = power_sums(self.operator, power, axis).astype(np.float64)
        return exact_sums(sums * float(abs(self.weight) ** power), self.dtype)

    def sensitivity(self) -> float:
        return abs(self.weight) * self.operator.sensitivity()

    def l2_sensitivity(self) -> float:
        return abs(self.weight) * self.operator.l2_sensitivity()

    def diag(self) -> Array:
        diagonal = self.operator.diag().astype(self._entry_dtype)
        return np.asarray(self._entries(diagonal * self.weight))

    def trace(self) -> float:
        return self.weight * self.operator.trace()

    def _explicit_entries(self) -> Array:
        return self.operator._dense() * self.weight

    def to_sparse(self) -> sp.csr_array:
        inner = self.operator.to_sparse().astype(self._entry_dtype)
        return sp.csr_array(self._entries(inner * self.weight))


@query_matrix("Product", init=False)
class Product(Composite):
    """The product of two or more operators, applied from the right.

    Parameters
    ----------
    *factors : QueryMatrix
        Operators whose inner sizes agree.

    Examples
    --------
    >>> from mmech import Identity, Prefix, Product
    >>> Product(Prefix(3), Prefix(3)) @ [1, 0, 0]
    array([1, 2, 3])
    """

    factors: tuple[QueryMatrix, ...]

    def __init__(self, *factors: QueryMatrix) -> None:
        checked = check_operators(factors, "Product")
        for left, right in pairwise(checked):
            if left.shape[1] != right.shape[0]:
                raise ValueError(
                    f"cannot multiply {left!r} with {right!r}: {left.shape[1]} "
                    f"columns against {right.shape[0]} rows"
                )
        self._set(factors=checked)

    def __reduce__(self) -> tuple[type, tuple[QueryMatrix, ...]]:
        return (type(self), self.factors)

    @property
    def shape(self) -> tuple[int, int]:
        return (self.factors[0].shape[0], self.factors[-1].shape[1])

    parts = held("factors", tuple[QueryMatrix, ...])

    def _matmat(self, x: Array, /) -> Array:
        for factor in reversed(self.factors):
            x = factor._matmat(x)
        return x

    def _rmatmat(self, y: Array, /) -> Array:
        for factor in self.factors:
            y = factor._rmatmat(y)
        return y

    @cached_property
    def _scaled_columns(self) -> tuple[QueryMatrix, Array] | None:
        """All factors but a diagonal last one, and its entries (n,) as floats."""
        *others, last = self.factors
        scales = _column_scales(last)
        if scales is None or not others:
            return None
        return Product(*others) if len(others) > 1 else others[0], scales

    def gram(self) -> QueryMatrix:
        """Return AᵀA, which stays the gram of ranges where their columns are scaled."""
        if self._scaled_columns is None:
            return super().gram()
        rest, scales = self._scaled_columns
        known = _scaled_gram(rest.gram(), scales, self.dtype)
        return super().gram() if known is None else known

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1 or self._scaled_columns is None:
            return super()._power_sums(power, axis)
        rest, scales = self._scaled_columns
        sums = power_sums(rest, power, 0).astype(np.float64)
        return exact_sums(sums * np.abs(scales) ** power, self.dtype)

    def row_square_sums(self) -> Array:
        """Return ‖w_i‖² of every row, from its nonzeros where they are few.

        Rows that pick a few small groups of partitions (QTᵀT) cost the sizes of those
        groups, not the number of cells.
        """
        sparse = self._sparse_rows()
        return super().row_square_sums() if sparse is None else sparse

    def _sparse_rows(self) -> Array | None:
        *left, right = self.factors
        if not isinstance(right, PartitionStack) or not all(
            isinstance(factor, Sparse) for factor in left
        ):
            return None
        # Floats: integers might wrap around.
        floats = (f.to_sparse().astype(np.float64) for f in left)
        picks = reduce(lambda a, b: a @ b, floats).tocsr()
        work = (abs(picks) != 0).astype(np.int64) @ right.row_abs_sums()
        dense = self.shape[0] * self.shape[1] * right.n_partitions
        if SPARSE_ADVANTAGE * work.sum() > dense:
            return None
        groups = right.to_sparse()
        out = np.zeros(self.shape[0])
        ends = np.searchsorted(
            np.cumsum(work), np.arange(0, work.sum(), LIMITS.block_entries)
        )
        for start, stop in pairwise([*np.unique(ends).tolist(), self.shape[0]]):
            rows = picks[start:stop] @ groups
            out[start:stop] = rows.power(2).sum(axis=1)
        return exact_sums(out, self.dtype)

    @property
    def T(self) -> QueryMatrix:
        return Product(*(factor.T for factor in reversed(self.factors)))


@singledispatch
def _column_scales(last: QueryMatrix) -> Array | None:
    """Return what a factor multiplies the columns before it by, else ``None``."""
    return None


_column_scales.register(Diagonal, lambda last: last.diag().astype(np.float64))


@singledispatch
def _scaled_gram(
    gram: QueryMatrix, scales: Array, dtype: np.dtype[Any]
) -> QueryMatrix | None:
    """Return D G D by the structure of G, ``None`` without a rule."""
    return None


@_scaled_gram.register(SeparableGram)
def _(gram: SeparableGram, scales: Array, dtype: np.dtype[Any]) -> SeparableGram:
    vectors = gram._rising * scales, gram._falling * scales
    squares = gram._diagonal * np.square(scales)
    return SeparableGram(*[exact_sums(v, dtype) for v in (*vectors, squares)])


@query_matrix("Sum")
class Sum(Composite):
    """The sum of operators of one shape.

    Parameters
    ----------
    terms : sequence of QueryMatrix, each of shape (m, n)
        The operators to add.

    Examples
    --------
    >>> from mmech import Identity, Prefix
    >>> Prefix(3) - Identity(3)
    Sum(Prefix(3), Scaled(-1, Identity(3))) shape=(3, 3)
    """

    terms: Sequence[QueryMatrix]

    def __post_init__(self) -> None:
        terms = check_operators(self.terms, "Sum")
        if len({term.shape for term in terms}) > 1:
            raise ValueError(
                "a sum needs operators of one shape, got "
                + ", ".join(str(term.shape) for term in terms)
            )
        self._set(terms=terms)

    @property
    def shape(self) -> tuple[int, int]:
        return self.terms[0].shape

    parts = held("terms", tuple[QueryMatrix, ...])

    def _add(self, parts: Callable[[QueryMatrix], Array]) -> Array:
        return reduce(np.add, (parts(term) for term in self.terms))

    def _matmat(self, x: Array, /) -> Array:
        return self._add(lambda term: term._matmat(x))

    def _rmatmat(self, y: Array, /) -> Array:
        return self._add(lambda term: term._rmatmat(y))

    @property
    def T(self) -> QueryMatrix:
        return Sum([term.T for term in self.terms])

    def diag(self) -> Array:
        dtype = self._entry_dtype
        diagonal = self._add(lambda term: term.diag().astype(dtype))
        return np.asarray(self._entries(diagonal))

    def trace(self) -> float:
        return float(sum(term.trace() for term in self.terms))

    def to_sparse(self) -> sp.csr_array:
        dtype = self._entry_dtype
        parts = (term.to_sparse().astype(dtype) for term in self.terms)
        return sp.csr_array(self._entries(reduce(lambda a, b: a + b, parts)))


# ---- queries under each other ------------------------------------------------


@query_matrix("VStack")
class VStack(Composite):
    """Operators over one domain, stacked: the union of their queries.

    Parameters
    ----------
    blocks : sequence of QueryMatrix, each of shape (m_i, n)
        The operators to stack, first on top. Stacked transposes, transposed, stand side
        by side.

    Examples
    --------
    >>> from mmech import Identity, Total, VStack
    >>> VStack([Total(3), Identity(3)])
    VStack(Total(3), Identity(3)) shape=(4, 3)
    """

    blocks: Sequence[QueryMatrix]

    def __post_init__(self) -> None:
        blocks = check_operators(self.blocks, "VStack")
        if len({block.shape[1] for block in blocks}) > 1:
            raise ValueError(
                "a stack needs operators over one domain, got "
                + ", ".join(f"{block.shape[1]}" for block in blocks)
                + " columns"
            )
        self._set(blocks=blocks)

    @cached_property
    def _offsets(self) -> list[int]:
        return [0, *accumulate(block.shape[0] for block in self.blocks)]

    @property
    def shape(self) -> tuple[int, int]:
        return (self._offsets[-1], self.blocks[0].shape[1])

    parts = held("blocks", tuple[QueryMatrix, ...])

    def _matmat(self, x: Array, /) -> Array:
        return np.concatenate([block._matmat(x) for block in self.blocks])

    def _rmatmat(self, y: Array, /) -> Array:
        parts = zip(self.blocks, pairwise(self._offsets), strict=True)
        products = (block._rmatmat(y[start:stop]) for block, (start, stop) in parts)
        return reduce(np.add, products)

    def gram(self) -> QueryMatrix:
        grams = [block.gram() for block in self.blocks]
        return Sum(grams) if len(grams) > 1 else grams[0]

    def _power_sums(self, power: int, axis: int) -> Array:
        sums = (power_sums(block, power, axis) for block in self.blocks)
        if axis == 1:
            return np.concatenate(list(sums))
        floats = (part.astype(np.float64) for part in sums)
        return exact_sums(reduce(np.add, floats), self.dtype)

    def _explicit_entries(self) -> Array:
        return np.concatenate([block._dense() for block in self.blocks])

    def to_sparse(self) -> sp.csr_array:
        parts = [block.to_sparse() for block in self.blocks]
        return sp.csr_array(sp.vstack(parts, format="csr"))


# ---- domains whose cells were merged without loss ----------------------------


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
