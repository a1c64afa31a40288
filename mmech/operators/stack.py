"""Operators made of blocks: queries under each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from itertools import accumulate, pairwise

import numpy as np
import scipy.sparse as sp

from mmech.operators.base import (
    Array,
    QueryMatrix,
    exact_sums,
    power_sums,
    query_matrix,
)
from mmech.operators.compose import Composite, Sum, check_operators


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

    @property
    def parts(self) -> Sequence[QueryMatrix]:
        return self.blocks

    def _matmat(self, x: Array, /) -> Array:
        return np.concatenate([block._matmat(x) for block in self.blocks])

    def _rmatmat(self, y: Array, /) -> Array:
        parts = zip(self.blocks, pairwise(self._offsets), strict=True)
        products = (block._rmatmat(y[start:stop]) for block, (start, stop) in parts)
        return reduce(np.add, products)

    def gram(self) -> QueryMatrix:
        grams = [block.gram() for block in self.blocks]
        return Sum(grams) if len(grams) > 1 else grams[0]

    def abs(self) -> QueryMatrix:
        return VStack([block.abs() for block in self.blocks])

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
