"""Interaction contrasts of a product domain: orthogonal blocks, one per subset.

Where a marginal over s answers all interactions inside s, its residual answers only
those of exactly the attributes s. Residuals of different subsets are orthogonal. So the
gram, the pseudoinverse and the errors of a stack have closed forms over the listed
subsets, at any number of attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from mmech.operators.base import Array, QueryMatrix, query_matrix
from mmech.operators.basic import Diagonal, Total
from mmech.operators.compose import Scaled
from mmech.operators.explicit import Dense
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Tables, check_domain_shape, check_weights
from mmech.operators.stack import VStack


@query_matrix("Residuals", init=False)
class Residuals(Tables):
    r"""Several weighted residuals of one domain, stacked.

    The residual over a subset s of the attributes is

    .. math:: R_s = \bigotimes_{i \in s} (I - J / n_i) \otimes
              \bigotimes_{i \notin s} 1^T , \qquad
              R_s^T R_s = \Big(\prod_{i \notin s} n_i\Big) P_s ,

    where J is all ones and P_s is the projector on the interactions of exactly s. It
    is the marginal over s with the means along every axis taken off: a row for every
    cell. Orthonormal contrasts have the same gram, so the same errors and L2
    sensitivity, and fewer rows, which are not whole numbers over one denominator.

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
        If there is no residual, all weights are zero, or a subset occurs twice. If an
        attribute in a subset has a single value and so no contrast.

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
    array([[ 1. ,  1. ,  1. ,  1. ],
           [ 0.5,  0.5, -0.5, -0.5],
           [-0.5, -0.5,  0.5,  0.5]])
    """

    def __init__(
        self, domain_shape: Iterable[int], weights: Mapping[Any, float]
    ) -> None:
        sizes = check_domain_shape(domain_shape)
        checked = check_weights(weights, len(sizes), "residual")
        for i in sorted(set().union(*checked)):
            if sizes[i] == 1:
                raise ValueError(
                    f"attribute {i} has a single value and no contrast; leave it out "
                    "of the subsets"
                )
        floats = {key: float(weight) for key, weight in checked.items()}
        self._set(domain_shape=sizes, weights=MappingProxyType(floats))

    @cached_property
    def _stack(self) -> VStack:
        blocks = []
        for subset, weight in self.weights.items():
            factors: list[QueryMatrix] = [Total(n) for n in self.domain_shape]
            for i in subset:
                factors[i] = Dense(np.eye(n := self.domain_shape[i]) - 1 / n)
            blocks.append(Scaled(weight, Kronecker(factors)))
        return VStack(blocks)

    def _matmat(self, x: Array, /) -> Array:
        return self._stack._matmat(x)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._stack._rmatmat(y)

    def pinv(self) -> QueryMatrix:
        """Return Aᵀ with scaled columns: blocks of A are multiples of projectors."""
        squares = self._eigenvalues()
        inverse = np.divide(1.0, squares, out=np.zeros(squares.size), where=squares > 0)
        return self.T @ Diagonal(inverse)

    def _eigenvalues(self) -> Array:
        """Return what A Aᵀ multiplies the rows of each block by, w_s² n / n_s."""
        n = self.shape[1]
        weights = zip(self.weights.values(), self.counts, strict=True)
        squares = [weight**2 * (n // count) for weight, count in weights]
        return np.repeat(np.array(squares, np.float64), self.counts)

    def column_abs_sums(self) -> Array:
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
        """Return the squared L2 norm of every row, shape (m,)."""
        shares = [
            math.prod(1 - 1 / self.domain_shape[i] for i in subset)
            for subset in self.weights
        ]
        return self._eigenvalues() * np.repeat(shares, self.counts)

    def sensitivity(self) -> float:
        return float(self.column_abs_sums().max())

    def l2_sensitivity(self) -> float:
        """Return the L2 norm of a column, at any domain size."""
        return math.sqrt(self._column_square_sum())
