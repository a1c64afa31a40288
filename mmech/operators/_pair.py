"""The inverse gram of two stacked Kronecker products, exact at any domain size.

For A = [⊗_i A_i; ⊗_i B_i] the gram is ⊗G_i + ⊗H_i. A generalized eigenproblem per
attribute gives T_i with T_iᵀG_iT_i = I and T_iᵀH_iT_i = diag(λ_i), so that the inverse
is (⊗T_i) diag(1 / (1 + ⊗λ_i)) (⊗T_i)ᵀ: no n x n matrix is formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmech.operators._base import Array, QueryMatrix, product_of
from mmech.operators._explicit import Dense
from mmech.operators._kronecker import Kronecker

__all__ = ["PairInverseGram", "pair_inverse_gram"]

MAX_FACTOR = 2048
"""Largest attribute for which the generalized eigenproblem is solved."""


@dataclass(frozen=True, eq=False, repr=False)
class PairInverseGram(QueryMatrix):
    """(c₁² ⊗G_i + c₂² ⊗H_i)⁻¹ for two Kronecker products of positive grams.

    Parameters
    ----------
    weights : tuple of float
        c₁ and c₂, both nonzero.
    first, second : sequence of ndarray, each of shape (n_i, n_i)
        Grams of the factors; those of `first` are positive definite.
    """

    weights: tuple[float, float]
    first: Sequence[NDArray[np.float64]]
    second: Sequence[NDArray[np.float64]]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of cells, twice."""
        n = product_of(gram.shape[0] for gram in self.first)
        return (n, n)

    def _arguments(self) -> str:
        return "x".join(str(gram.shape[0]) for gram in self.first)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always float64."""
        return np.dtype(np.float64)

    @cached_property
    def factorisation(
        self,
    ) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
        """The transforms T_i and the generalized eigenvalues λ_i."""
        transforms, eigenvalues = [], []
        for gram, other in zip(self.first, self.second, strict=True):
            values, vectors = scipy.linalg.eigh(other, gram, check_finite=False)
            transforms.append(vectors)
            eigenvalues.append(np.maximum(values, 0.0))
        return transforms, eigenvalues

    @cached_property
    def spectrum(self) -> NDArray[np.float64]:
        """1 / (c₁² + c₂² ⊗λ_i) as a tensor with one axis per attribute."""
        _, eigenvalues = self.factorisation
        joint = reduce(np.multiply.outer, eigenvalues)
        return np.asarray(1.0 / (self.weights[0] ** 2 + self.weights[1] ** 2 * joint))

    @cached_property
    def _transform(self) -> Kronecker:
        return Kronecker([Dense(vectors.T) for vectors in self.factorisation[0]])

    def _matmat(self, x: Array, /) -> Array:
        inner = self._transform._matmat(x.astype(np.float64, copy=False))
        inner *= self.spectrum.reshape(-1, 1)
        return self._transform._rmatmat(inner).astype(x.dtype, copy=False)

    _rmatmat = _matmat

    @property
    def T(self) -> PairInverseGram:
        """The operator itself, which is symmetric."""
        return self


def pair_inverse_gram(operator: QueryMatrix) -> PairInverseGram | None:
    """Return (AᵀA)⁻¹ of a stack of two Kronecker products, if it is one.

    Parameters
    ----------
    operator : QueryMatrix, shape (p, n)
        A `VStack` of two (scaled) Kroneckers with equal factor sizes, the first of
        full column rank.

    Returns
    -------
    PairInverseGram or None
    """
    from mmech.error import has_full_column_rank, kronecker_terms

    terms = kronecker_terms(operator)
    if terms is None or len(terms) != 2 or any(weight == 0 for weight, _ in terms):
        return None
    if not all(has_full_column_rank(factor) for factor in terms[0][1]):
        terms = terms[::-1]
        if not all(has_full_column_rank(factor) for factor in terms[0][1]):
            return None
    if any(factor.shape[1] > MAX_FACTOR for factor in terms[0][1]):
        return None
    first, second = (
        [factor.gram()._dense().astype(np.float64) for factor in factors]
        for _, factors in terms
    )
    return PairInverseGram((terms[0][0], terms[1][0]), first, second)
