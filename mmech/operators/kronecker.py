"""The Kronecker product: one operator per attribute of a product domain.

A tensor is seen as (left, n, right) around the axis of a factor, a view of the flat
data. What a factor costs depends on which of its products needs no transposed copy;
`axis_kind` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, reduce, singledispatch

import numpy as np
import scipy.sparse as sp

from mmech.operators.base import (
    Array,
    QueryMatrix,
    exact_sums,
    held,
    power_sums,
    product_of,
    query_matrix,
    read_only,
)
from mmech.operators.basic import Identity, Ones
from mmech.operators.compose import Composite, check_operators
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


# ---- the product -------------------------------------------------------------


@query_matrix("Kronecker")
class Kronecker(Composite):
    """The Kronecker product of operators, first factor slowest.

    For a domain that is a product of attributes, each factor holds the queries
    on one attribute. Products cost one pass over the data per factor, without
    transposed copies: prefix sums and totals scan along their axis, explicit and small
    factors are matrix products (Fernandes, Plateau, Stewart 1998, as one product per
    axis). Integers stay exact.

    Parameters
    ----------
    factors : sequence of QueryMatrix, of shapes (m_i, n_i)
        One operator per attribute.

    Examples
    --------
    >>> from mmech import Identity, Kronecker, Prefix
    >>> A = Kronecker([Prefix(256), Identity(4)])
    >>> A
    Kronecker(Prefix(256), Identity(4)) shape=(1024, 1024)
    >>> A.sensitivity()
    256.0
    """

    factors: Sequence[QueryMatrix]

    def __post_init__(self) -> None:
        self._set(factors=check_operators(self.factors, "Kronecker"))

    @property
    def shape(self) -> tuple[int, int]:
        """Products of the factors' sizes, as Python integers of any size."""
        rows, columns = zip(*(factor.shape for factor in self.factors), strict=True)
        return product_of(rows), product_of(columns)

    parts = held("factors", tuple[QueryMatrix, ...])

    @cached_property
    def _matrices(self) -> list[Array | None]:
        """The factors that are multiplied as explicit matrices, None for the others."""
        return [
            read_only(factor._dense()) if kind == "matrix" else None
            for factor, kind in zip(self.factors, self._kinds, strict=True)
        ]

    @cached_property
    def _kinds(self) -> list[str]:
        # Factors whose entries may not fit int64 multiply by their own methods.
        return [
            axis_kind(factor) if factor._entry_dtype == factor.dtype else "other"
            for factor in self.factors
        ]

    @cached_property
    def _multiplies_floats(self) -> bool:
        """Whether integers are better multiplied as floats where these are exact."""
        kinds = set(self._kinds)
        return self.dtype == np.int64 and "matrix" in kinds and "other" not in kinds

    def _order(self, transpose: bool) -> list[int]:
        """Shrinking factors first: it keeps the intermediate tensors small."""
        growth = [f.shape[0] / max(1, f.shape[1]) for f in self.factors]
        return sorted(range(len(growth)), key=growth.__getitem__, reverse=transpose)

    def _work(self, order: Iterable[int], transpose: bool) -> float:
        """Multiplications of explicit factors per column, in this order."""
        cells, work = float(self.shape[0 if transpose else 1]), 0.0
        for i in order:
            m, n = self.factors[i].shape[:: -1 if transpose else 1]
            work += m * cells
            cells *= m / n
        return work

    def _apply(self, x: Array, transpose: bool) -> Array:
        columns = x.shape[1]
        if x.size == 0 or 0 in self.shape:
            return np.zeros((self.shape[1 if transpose else 0], columns), x.dtype)
        if x.dtype == np.int64 and self._multiplies_floats:
            # Float products are exact below 2**53, and NumPy has no fast integer ones.
            largest = max(abs(int(x.max())), abs(int(x.min())))
            bounds = self._norm_bounds  # of what entries grow to
            if bounds and largest * bounds[int(transpose)] < 2**53:
                floats = self._apply(x.astype(np.float64), transpose)
                return floats.astype(np.int64)
        matrices = [
            None
            if matrix is None
            else (matrix.T if transpose else matrix).astype(x.dtype, copy=False)
            for matrix in self._matrices
        ]
        order = self._order(transpose)
        explicit = [matrix for matrix in matrices if matrix is not None]
        if len(explicit) == len(matrices):
            backward = range(len(matrices) - 1, -1, -1)
            if self._work(backward, transpose) <= 1.2 * self._work(order, transpose):
                return rotate(explicit, x)
        sizes = [f.shape[0] if transpose else f.shape[1] for f in self.factors]
        tensor = x
        for axis in order:
            factor = self.factors[axis]
            if self._kinds[axis] == "identity":
                continue
            shape = (product_of(sizes[:axis]), sizes[axis], -1)
            tensor = apply_along(
                factor, matrices[axis], tensor.reshape(shape), transpose
            )
            sizes[axis] = tensor.shape[1]
        out = tensor.reshape(-1, columns)
        return out.copy() if np.shares_memory(out, x) else out

    def _matmat(self, x: Array, /) -> Array:
        return self._apply(x, transpose=False)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._apply(y, transpose=True)

    @property
    def T(self) -> QueryMatrix:
        return Kronecker([factor.T for factor in self.factors])

    def gram(self) -> QueryMatrix:
        return Kronecker([factor.gram() for factor in self.factors])

    def pinv(self) -> QueryMatrix:
        return Kronecker([factor.pinv() for factor in self.factors])

    def _outer(self, parts: Callable[[QueryMatrix], Array]) -> Array:
        sides = (parts(factor).astype(np.float64) for factor in self.factors)
        return exact_sums(reduce(np.kron, sides), self.dtype)

    def _power_sums(self, power: int, axis: int) -> Array:
        return self._outer(lambda factor: power_sums(factor, power, axis))

    def sensitivity(self) -> float:
        """Return the product of the factors' sensitivities, at any domain size."""
        return float(np.prod([factor.sensitivity() for factor in self.factors]))

    def l2_sensitivity(self) -> float:
        """Return the product of the factors' L2 sensitivities, at any size."""
        return float(np.prod([factor.l2_sensitivity() for factor in self.factors]))

    def diag(self) -> Array:
        if all(factor.shape[0] == factor.shape[1] for factor in self.factors):
            return self._outer(lambda factor: factor.diag())
        return super().diag()

    def trace(self) -> float:
        """Return the product of the factors' traces where all are square."""
        if all(factor.shape[0] == factor.shape[1] for factor in self.factors):
            return float(np.prod([factor.trace() for factor in self.factors]))
        return super().trace()

    def _explicit_entries(self) -> Array:
        return reduce(np.kron, (factor._dense() for factor in self.factors))

    def to_sparse(self) -> sp.csr_array:
        dtype = self._entry_dtype
        parts = (factor.to_sparse().astype(dtype) for factor in self.factors)
        joined = reduce(lambda a, b: sp.kron(a, b, format="csr"), parts)
        return sp.csr_array(self._entries(sp.csr_array(joined, dtype=dtype)))
