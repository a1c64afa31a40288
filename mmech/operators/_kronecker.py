"""The Kronecker product: one operator per attribute of a product domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from mmech.operators._base import (
    Array,
    QueryMatrix,
    common_dtype,
    exact_sums,
    product_of,
)
from mmech.operators._compose import check_operators, joined

__all__ = ["Kronecker"]


@dataclass(frozen=True, eq=False, repr=False)
class Kronecker(QueryMatrix):
    """The Kronecker product of operators, first factor slowest.

    For a domain that is a product of attributes, each factor holds the queries
    on one attribute. Products cost one pass over the data per factor.

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
        object.__setattr__(self, "factors", check_operators(self.factors, "Kronecker"))

    @property
    def shape(self) -> tuple[int, int]:
        """Products of the factors' sizes, as Python integers of any size."""
        return (
            product_of(factor.shape[0] for factor in self.factors),
            product_of(factor.shape[1] for factor in self.factors),
        )

    def _arguments(self) -> str:
        return joined(self.factors)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """``int64`` if all factors are integer, else ``float64``."""
        return common_dtype(self.factors)

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no factor has a negative entry."""
        return all(factor.is_nonnegative for factor in self.factors)

    def _apply(self, x: Array, transpose: bool) -> Array:
        columns = x.shape[1]
        sizes = [f.shape[0] if transpose else f.shape[1] for f in self.factors]
        if x.size == 0 or 0 in self.shape:
            return np.zeros((self.shape[1 if transpose else 0], columns), x.dtype)
        tensor = x.reshape([*sizes, columns])
        # Shrinking factors first keeps the intermediate tensors small.
        order = sorted(
            range(len(sizes)),
            key=lambda i: (
                (self.factors[i].shape[1] if transpose else self.factors[i].shape[0])
                / sizes[i]
            ),
        )
        from mmech.operators._basic import Identity

        for axis in order:
            factor = self.factors[axis]
            if isinstance(factor, Identity):
                continue
            moved = np.ascontiguousarray(np.moveaxis(tensor, axis, 0))
            flat = moved.reshape(moved.shape[0], -1)
            result = factor._rmatmat(flat) if transpose else factor._matmat(flat)
            tensor = np.moveaxis(
                result.reshape(result.shape[0], *moved.shape[1:]), 0, axis
            )
        out = np.ascontiguousarray(tensor).reshape(-1, columns)
        return out.copy() if np.shares_memory(out, x) else out

    def _matmat(self, x: Array, /) -> Array:
        return self._apply(x, transpose=False)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._apply(y, transpose=True)

    @property
    def T(self) -> QueryMatrix:
        """The Kronecker product of the transposes."""
        return Kronecker([factor.T for factor in self.factors])

    def gram(self) -> QueryMatrix:
        """Return the Kronecker product of the grams."""
        return Kronecker([factor.gram() for factor in self.factors])

    def pinv(self) -> QueryMatrix:
        """Return the Kronecker product of the pseudoinverses."""
        return Kronecker([factor.pinv() for factor in self.factors])

    def abs(self) -> QueryMatrix:
        """Return the operator of absolute entries."""
        return Kronecker([factor.abs() for factor in self.factors])

    def _outer(self, parts: Callable[[QueryMatrix], Array]) -> Array:
        return exact_sums(
            lambda dtype: reduce(
                np.kron, (parts(factor).astype(dtype) for factor in self.factors)
            ),
            self.dtype,
        )

    def column_abs_sums(self) -> Array:
        """Return the L1 norm of every column: the outer product of the factors'."""
        return self._outer(lambda factor: factor.column_abs_sums())

    def column_square_sums(self) -> Array:
        """Return the squared L2 norm of every column."""
        return self._outer(lambda factor: factor.column_square_sums())

    def row_abs_sums(self) -> Array:
        """Return the L1 norm of every row."""
        return self._outer(lambda factor: factor.row_abs_sums())

    def row_square_sums(self) -> Array:
        """Return the squared L2 norm of every row."""
        return self._outer(lambda factor: factor.row_square_sums())

    def sensitivity(self) -> float:
        """Return the product of the factors' sensitivities, at any domain size."""
        return float(np.prod([factor.sensitivity() for factor in self.factors]))

    def l2_sensitivity(self) -> float:
        """Return the product of the factors' L2 sensitivities, at any size."""
        return float(np.prod([factor.l2_sensitivity() for factor in self.factors]))

    def diag(self) -> Array:
        """Return the main diagonal."""
        if all(factor.shape[0] == factor.shape[1] for factor in self.factors):
            return self._outer(lambda factor: factor.diag())
        return super().diag()

    def trace(self) -> float:
        """Return the product of the factors' traces where all are square."""
        if all(factor.shape[0] == factor.shape[1] for factor in self.factors):
            return float(np.prod([factor.trace() for factor in self.factors]))
        return super().trace()

    def _dense(self) -> Array:
        return reduce(np.kron, (factor._dense() for factor in self.factors))

    def to_sparse(self) -> sp.csr_array:
        """Return the explicit matrix in compressed sparse row format."""
        parts = (factor.to_sparse() for factor in self.factors)
        joined = reduce(lambda a, b: sp.kron(a, b, format="csr"), parts)
        return sp.csr_array(joined, dtype=self.dtype)
