"""Interaction contrasts of a product domain: orthogonal blocks, one per subset.

Where a marginal over s answers all interactions inside s, its residual answers only
those of exactly the attributes s: a row for every contrast, none of them redundant.
Residuals of different subsets are orthogonal, so the gram, the pseudoinverse and the
errors of a stack have closed forms over the listed subsets alone, at any number of
attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.exceptions import DomainTooLargeError
from mmech.operators._base import Array, QueryMatrix, product_of
from mmech.operators._basic import Diagonal, Identity, Ones, Total
from mmech.operators._compose import Scaled, VStack, check_weight
from mmech.operators._explicit import Dense
from mmech.operators._kronecker import Kronecker
from mmech.operators._marginals import (
    MAX_LATTICE_ATTRIBUTES,
    Anova,
    Marginal,
    Marginals,
    _contrasts,
    anova_energies,
    attributes_of,
    check_attributes,
    check_domain_shape,
    mask_of,
    subset_cells,
    subset_ranks,
)

__all__ = [
    "MAX_CLOSURE",
    "Residuals",
    "downward_closure",
    "marginal_terms",
    "mean_spectrum",
]

Subset = tuple[int, ...]

MAX_CLOSURE = 2**22
"""Largest number of subsets that are listed."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Residuals(QueryMatrix):
    r"""Several weighted residuals of one domain, stacked.

    The residual over a subset s of the attributes is

    .. math:: R_s = \bigotimes_{i \in s} H_{n_i} \otimes
              \bigotimes_{i \notin s} 1^T , \qquad
              R_s^T R_s = \Big(\prod_{i \notin s} n_i\Big) P_s ,

    where the n - 1 rows of H_n are orthonormal contrasts (Helmert) and P_s is the
    projector on the interactions of exactly s. It has one row per degree of
    freedom, :math:`\prod_{i \in s} (n_i - 1)`.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    weights : mapping of (sequence of int) to float
        Weight of the residual over each subset of attributes; rows come in the
        order of the mapping. Attributes of a subset have at least two values.

    Attributes
    ----------
    weights : dict of tuple to float
        The same, with sorted subsets.

    Raises
    ------
    ValueError
        If there is no residual, all weights are zero, a subset occurs twice, or
        an attribute in a subset has a single value and so no contrast.

    See Also
    --------
    Marginals : tables of counts, whose rows are 0/1.

    References
    ----------
    .. [1] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for
       noisy marginals under convex loss functions", NeurIPS 2023, Section 4.

    Examples
    --------
    >>> from mmech import Residuals
    >>> A = Residuals((2, 2), {(): 1, (0,): 1})
    >>> A.to_dense().round(3)
    array([[ 1.   ,  1.   ,  1.   ,  1.   ],
           [ 0.707,  0.707, -0.707, -0.707]])
    """

    domain_shape: tuple[int, ...]
    weights: Mapping[Subset, float]

    def __init__(
        self, domain_shape: Iterable[int], weights: Mapping[Any, float]
    ) -> None:
        sizes = check_domain_shape(domain_shape)
        sorted_weights: dict[Subset, float] = {}
        for attributes, weight in dict(weights).items():
            key = check_attributes(attributes, len(sizes))
            if key in sorted_weights:
                raise ValueError(f"the residual over {key} is given twice")
            for i in key:
                if sizes[i] == 1:
                    raise ValueError(
                        f"attribute {i} has a single value and no contrast; leave it "
                        "out of the subsets"
                    )
            sorted_weights[key] = float(check_weight(weight))
        if not any(sorted_weights.values()):
            raise ValueError(
                "the weights are all zero; at least one residual needs a weight"
                if sorted_weights
                else "weights must name at least one residual, got none"
            )
        object.__setattr__(self, "domain_shape", sizes)
        object.__setattr__(self, "weights", MappingProxyType(sorted_weights))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return (type(self), (self.domain_shape, dict(self.weights)))

    def _arguments(self) -> str:
        sizes = "x".join(str(size) for size in self.domain_shape)
        return f"{len(self.weights)} of {sizes}"

    def rank(self, subset: Subset) -> int:
        """Return the number of contrasts over exactly the attributes of a subset."""
        return product_of(self.domain_shape[i] - 1 for i in subset)

    def _cells(self, subset: Subset) -> int:
        """Return c_s, the number of cells summed into one table entry."""
        sizes = self.domain_shape
        return product_of(sizes) // product_of(sizes[i] for i in subset)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Number of contrasts in all, and number of domain cells."""
        rows = sum(self.rank(subset) for subset in self.weights)
        return (rows, product_of(self.domain_shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always float64."""
        return np.dtype(np.float64)

    @cached_property
    def _stack(self) -> VStack:
        totals = [Total(n) for n in self.domain_shape]
        contrasts = [
            Dense(_contrasts(n)[1:]) if n > 1 else None for n in self.domain_shape
        ]
        return VStack(
            [
                Scaled(
                    weight,
                    Kronecker(
                        [
                            contrast if i in subset and contrast is not None else total
                            for i, (contrast, total) in enumerate(
                                zip(contrasts, totals, strict=True)
                            )
                        ]
                    ),
                )
                for subset, weight in self.weights.items()
            ]
        )

    def _matmat(self, x: Array, /) -> Array:
        return self._stack._matmat(x)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._stack._rmatmat(y)

    def gram(self) -> QueryMatrix:
        """Return Σ_s w_s² c_s P_s in the marginal algebra."""
        if len(self.domain_shape) > MAX_LATTICE_ATTRIBUTES:
            return super().gram()
        eigenvalues = np.zeros(2 ** len(self.domain_shape))
        for subset, weight in self.weights.items():
            eigenvalues[mask_of(subset)] = weight**2 * self._cells(subset)
        return Anova(self.domain_shape, eigenvalues)

    def pinv(self) -> QueryMatrix:
        """Return Aᵀ with scaled columns: the rows of A are orthogonal."""
        squares = self.row_square_sums()
        inverse = np.divide(1.0, squares, out=np.zeros(squares.size), where=squares > 0)
        return self.T @ Diagonal(inverse)

    def column_abs_sums(self) -> Array:
        """Return the L1 norm of every column, shape (n,)."""
        return self._stack.column_abs_sums()

    def column_square_sums(self) -> Array:
        """Return the squared L2 norms of the columns, all equal, shape (n,)."""
        return np.full(self.shape[1], self._column_square_sum())

    def _column_square_sum(self) -> float:
        """Return Σ_s w_s² rank(P_s) / n_s, at any domain size."""
        sizes = self.domain_shape
        return sum(
            weight**2 * math.prod((sizes[i] - 1) / sizes[i] for i in subset)
            for subset, weight in self.weights.items()
        )

    def row_square_sums(self) -> Array:
        """Return the squared L2 norm of every row, w_s² c_s, shape (m,)."""
        ranks = [self.rank(subset) for subset in self.weights]
        squares = [w**2 * self._cells(subset) for subset, w in self.weights.items()]
        return np.repeat(np.array(squares, np.float64), ranks)

    def sensitivity(self) -> float:
        """Return the largest L1 norm of a column."""
        return float(self.column_abs_sums().max())

    def l2_sensitivity(self) -> float:
        """Return the L2 norm of a column, at any domain size."""
        return math.sqrt(self._column_square_sum())


# ---- what a workload asks of every subset -------------------------------------


def downward_closure(
    subsets: Iterable[Subset], domain_shape: tuple[int, ...]
) -> dict[Subset, int]:
    """Return all subsets of the given ones, less attributes of size one, numbered.

    Parameters
    ----------
    subsets : iterable of tuple of int
        Sorted subsets.
    domain_shape : tuple of int
        Number of values of every attribute.

    Returns
    -------
    dict of tuple to int
        Position of every subset, smaller subsets first.

    Raises
    ------
    DomainTooLargeError
        If there are more than 2^22 of them.
    """
    found: set[Subset] = set()
    for subset in subsets:
        kept = tuple(i for i in subset if domain_shape[i] > 1)
        if len(kept) > MAX_LATTICE_ATTRIBUTES or len(found) > MAX_CLOSURE:
            raise DomainTooLargeError(
                f"the subsets of the marginals are too many to list (more than "
                f"{MAX_CLOSURE}); ask for marginals over fewer attributes"
            )
        for size in range(len(kept) + 1):
            found.update(combinations(kept, size))
    ordered = sorted(found, key=lambda subset: (len(subset), subset))
    return {subset: i for i, subset in enumerate(ordered)}


def marginal_terms(workload: QueryMatrix) -> list[tuple[Subset, float]] | None:
    """Return a union of marginals as (subset, squared weight), else ``None``.

    The gram of such a workload lies in the marginal algebra.
    """
    if isinstance(workload, Marginals):
        return [(key, float(weight) ** 2) for key, weight in workload.weights.items()]
    if isinstance(workload, Marginal):
        return [(workload.attributes, 1.0)]
    if isinstance(workload, Scaled):
        inner = marginal_terms(workload.operator)
        if inner is None:
            return None
        square = float(workload.weight) ** 2
        return [(key, square * weight) for key, weight in inner]
    if isinstance(workload, VStack):
        parts = [marginal_terms(block) for block in workload.blocks]
        if any(part is None for part in parts):
            return None
        return [term for part in parts if part is not None for term in part]
    if isinstance(workload, Kronecker):
        if not all(isinstance(f, (Identity, Ones)) for f in workload.factors):
            return None
        kept = tuple(
            i
            for i, factor in enumerate(workload.factors)
            if isinstance(factor, Identity)
        )
        times = math.prod(f.m for f in workload.factors if isinstance(f, Ones))
        return [(kept, float(times))]
    return None


def mean_spectrum(
    workload: QueryMatrix, domain_shape: tuple[int, ...]
) -> dict[Subset, float] | None:
    r"""Return what a workload asks of the interactions of every subset.

    .. math:: \tau_s = \frac{\mathrm{tr}(P_s W^T W)}{\mathrm{rank}(P_s) \, n / n_s}

    For a union of marginals with weights w this is
    :math:`\sum_{a \supseteq s} w_a^2 n_s / n_a`, a number of moderate size at any
    size of the domain.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Unions of marginals over any number of attributes; of other workloads
        those that the algebra of at most 20 attributes can project.
    domain_shape : tuple of int
        Number of values of every attribute.

    Returns
    -------
    dict of tuple to float, or None
        Positive entries only.
    """
    terms = marginal_terms(workload)
    if terms is not None:
        closure = downward_closure((key for key, _ in terms), domain_shape)
        values = np.zeros(len(closure))
        for key, square in terms:
            kept = [i for i in key if domain_shape[i] > 1]
            for size in range(len(kept) + 1):
                for subset in combinations(kept, size):
                    removed = math.prod(
                        domain_shape[i] for i in kept if i not in subset
                    )
                    values[closure[subset]] += square / removed
        return {
            subset: float(values[i]) for subset, i in closure.items() if values[i] > 0
        }
    if len(domain_shape) > MAX_LATTICE_ATTRIBUTES:
        return None
    energies = anova_energies(workload, domain_shape)
    if energies is None:
        return None
    scales = subset_ranks(domain_shape) * subset_cells(domain_shape)
    floor = 1e-12 * energies.sum()
    return {
        attributes_of(mask): float(energies[mask] / scales[mask])
        for mask in np.flatnonzero((energies > floor) & (scales > 0)).tolist()
    }


def ranks_of(
    subsets: Iterable[Subset], domain_shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return m_s = Π_{i∈s} (n_i - 1) for the listed subsets."""
    return np.array(
        [math.prod(domain_shape[i] - 1.0 for i in subset) for subset in subsets]
    )


def sizes_of(
    subsets: Iterable[Subset], domain_shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return n_s = Π_{i∈s} n_i for the listed subsets."""
    return np.array(
        [math.prod(float(domain_shape[i]) for i in subset) for subset in subsets]
    )
