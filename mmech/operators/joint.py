"""The inverse gram of stacked Kronecker products, without an n x n matrix.

A stack A = [c_1 ⊗A_1i; c_2 ⊗A_2i; ...] has the gram Σ_g c_g² ⊗_i G_gi. On every
attribute the grams G_gi must be at most two different ones, or have a common basis. A
generalized eigenproblem per attribute then gives T_i with T_iᵀG_giT_i = diag(λ_gi). The
inverse is (⊗T_i) diag(1 / Σ_g c_g² ⊗_i λ_gi) (⊗T_i)ᵀ. Other stacks are only nearly
diagonal in a common basis, which makes a good preconditioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.linalg

from mmech.arrays import Floats
from mmech.checks import sizes_label
from mmech.limits import LIMITS
from mmech.operators.base import Array, QueryMatrix, Symmetric, product_of, query_matrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Product
from mmech.operators.explicit import Dense
from mmech.operators.known import has_full_column_rank, normal_form
from mmech.operators.kronecker import Kronecker

MAX_TERMS = 64
"""Largest number of stacked products."""

COMMON_BASIS = 1e-11
"""Largest entry off the diagonal, relative to one, that counts as rounding."""

CLEAR_RANK = 1e-9
"""Smallest relative eigenvalue of a gram that is clearly of full rank."""


@query_matrix("JointInverseGram")
class JointInverseGram(Symmetric):
    """(Σ_g c_g² ⊗_i G_gi)⁻¹ for Kronecker products of grams in a common basis.

    Where there is no common basis, what is off the diagonal is left out: an
    approximation, told by `is_exact`.

    Parameters
    ----------
    weights : sequence of float
        c_g, one per product.
    grams : sequence of sequence of ndarray, each of shape (n_i, n_i)
        Different grams of every attribute; their sum is positive definite.
    choice : sequence of sequence of int
        For every product and attribute, which of the grams it has.
    """

    weights: Sequence[float]
    grams: Sequence[Sequence[Floats]]
    choice: Sequence[Sequence[int]]

    @property
    def shape(self) -> tuple[int, int]:
        n = product_of(grams[0].shape[0] for grams in self.grams)
        return (n, n)

    def _arguments(self) -> str:
        return sizes_label([grams[0].shape[0] for grams in self.grams])

    @cached_property
    def _factorisation(self) -> tuple[list[Floats], list[Floats], bool]:
        transforms, eigenvalues, exact = [], [], True
        for grams in self.grams:
            traces = np.array([np.trace(gram) for gram in grams]) / grams[0].shape[0]
            traces[traces == 0] = 1.0  # a product of zeros adds nothing
            units = [gram / trace for gram, trace in zip(grams, traces, strict=True)]
            # Distinct weights tell common eigenvectors apart; two grams need no more.
            mixed = sum(k**1.5 * unit for k, unit in enumerate(units))
            _, vectors = scipy.linalg.eigh(mixed, sum(units), check_finite=False)
            values = np.empty((len(grams), len(vectors)))
            for k, unit in enumerate(units):
                rotated = vectors.T @ unit @ vectors
                values[k] = np.maximum(rotated.diagonal(), 0.0)
                if len(units) > 2:
                    np.fill_diagonal(rotated, 0.0)
                    exact &= bool(np.abs(rotated).max() <= COMMON_BASIS * len(vectors))
            transforms.append(vectors)
            eigenvalues.append(values * traces[:, None])
        return transforms, eigenvalues, exact

    @property
    def transforms(self) -> list[Floats]:
        """T_i, each of shape (n_i, n_i)."""
        return self._factorisation[0]

    @property
    def eigenvalues(self) -> list[Floats]:
        """Diagonals of T_iᵀGT_i for the grams of attribute i, (n_grams, n_i)."""
        return self._factorisation[1]

    @property
    def is_exact(self) -> bool:
        """Whether the grams of every attribute have a common basis."""
        return all(len(grams) <= 2 for grams in self.grams) or self._factorisation[2]

    def spectrum_of(self, group: int) -> Floats:
        """⊗_i λ_gi of one product, as a tensor with one axis per attribute."""
        rows = [
            values[kind]
            for values, kind in zip(self.eigenvalues, self.choice[group], strict=True)
        ]
        return reduce(np.multiply.outer, rows)

    @cached_property
    def spectrum(self) -> Floats:
        """Σ_g c_g² ⊗_i λ_gi as a tensor with one axis per attribute."""
        total = np.zeros([len(transform) for transform in self.transforms])
        for group, weight in enumerate(self.weights):
            total += weight**2 * self.spectrum_of(group)
        return total

    @cached_property
    def _transform(self) -> Kronecker:
        return Kronecker([Dense(vectors.T) for vectors in self.transforms])

    def root(self) -> QueryMatrix:
        """Return N with N Nᵀ = this operator, so that Nᵀ(AᵀA)N is near I."""
        return Product(
            self._transform.T, Diagonal(1.0 / np.sqrt(self.spectrum).ravel())
        )

    def _matmat(self, x: Array, /) -> Array:
        inner = self._transform._matmat(x.astype(np.float64, copy=False))
        inner /= self.spectrum.reshape(-1, 1)
        return self._transform._rmatmat(inner).astype(x.dtype, copy=False)


def joint_inverse_gram(operator: QueryMatrix) -> JointInverseGram | None:
    """Return the exact (AᵀA)⁻¹ of a stack of Kronecker products, if it has one.

    That is a `VStack` of at least two (scaled) Kroneckers with equal factor sizes, and
    full column rank as a whole. The factors on every attribute have at most two
    different grams or a common basis.
    """
    inverse = nearest_inverse_gram(operator)
    return inverse if inverse is not None and inverse.is_exact else None


def nearest_inverse_gram(operator: QueryMatrix) -> JointInverseGram | None:
    """Return (AᵀA)⁻¹ or what is left of it on the diagonal of a good basis.

    As for `joint_inverse_gram`, without the need of a common basis; ``None`` where the
    operator is no stack of products or may lack full column rank.
    """
    terms = normal_form(operator).products
    if terms is None:
        return None
    terms = [term for term in terms if term[0] != 0]
    if not 2 <= len(terms) <= MAX_TERMS:
        return None
    sizes = [factor.shape[1] for factor in terms[0][1]]
    if max(sizes) > LIMITS.spectrum_factor:
        return None
    columns = [distinct_grams([f[i] for _, f in terms]) for i in range(len(sizes))]
    choice = [tuple(row) for row in np.transpose([places for _, places in columns])]
    weights = tuple(weight for weight, _ in terms)
    inverse = JointInverseGram(weights, [grams for grams, _ in columns], choice)
    if any(all(has_full_column_rank(f) for f in factors) for _, factors in terms):
        return inverse
    definite = [[_is_definite(gram) for gram in grams] for grams in inverse.grams]
    if any(all(row[k] for row, k in zip(definite, g, strict=True)) for g in choice):
        return inverse
    # Together the products may have full rank: only an exact spectrum tells.
    if product_of(sizes) > LIMITS.spectrum_cells or not all(
        _is_definite(sum(grams)) for grams in inverse.grams
    ):
        return None
    spectrum = inverse.spectrum
    clear = inverse.is_exact and spectrum.min() > CLEAR_RANK * spectrum.max()
    return inverse if clear else None


def _is_definite(gram: Any) -> bool:
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > CLEAR_RANK * values[-1])


def distinct_grams(factors: list[QueryMatrix]) -> tuple[list[Floats], list[int]]:
    """Return the different grams of some factors and which one every factor has."""
    grams: list[Floats] = []
    known: dict[bytes, int] = {}
    seen: dict[int, int] = {}
    places = []
    for factor in factors:
        if id(factor) not in seen:
            gram = factor.gram()._dense().astype(np.float64)
            key = gram.tobytes()
            if key not in known:
                known[key] = len(grams)
                grams.append(gram)
            seen[id(factor)] = known[key]
        places.append(seen[id(factor)])
    return grams, places
