"""What the structure of an operator tells about it: rank, norms, terms of products.

Answers come from the types of the nodes where they can; only `rank` and
`squared_singular_values` may have to form a dense matrix.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mmech.exceptions import DomainTooLargeError
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import AllRange, Diagonal, Identity, Ones, Prefix, Suffix
from mmech.operators.compose import Scaled
from mmech.operators.hierarchy import Hierarchy
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.pidentity import PIdentity
from mmech.operators.ranges import Permuted
from mmech.operators.stack import VStack
from mmech.operators.subsets import downward_closure
from mmech.structure.spectrum import marginal_terms

__all__ = [
    "DENSE_CELLS",
    "frobenius_squared",
    "has_full_column_rank",
    "is_uniform",
    "kronecker_terms",
    "rank",
    "measured_loss_bound",
    "squared_singular_values",
]

DENSE_CELLS = 4096
"""Largest domain for which an n x n eigendecomposition is computed."""


def kronecker_terms(
    workload: QueryMatrix,
) -> list[tuple[float, tuple[QueryMatrix, ...]]] | None:
    """Return a union of products as (weight, factors) terms, else ``None``."""
    if isinstance(workload, Scaled):
        inner = kronecker_terms(workload.operator)
        if inner is None:
            return None
        return [(workload.weight * weight, factors) for weight, factors in inner]
    if isinstance(workload, Kronecker):
        return [(1.0, tuple(workload.factors))]
    if isinstance(workload, VStack):
        parts = [kronecker_terms(block) for block in workload.blocks]
        terms = [term for part in parts if part is not None for term in part]
        shapes = {tuple(f.shape[1] for f in factors) for _, factors in terms}
        if any(part is None for part in parts) or len(shapes) != 1:
            return None
        return terms
    return None


def is_uniform(workload: QueryMatrix) -> bool:
    """Whether relabelling values maps every query to every other.

    Then all queries have one error under a strategy that relabelling leaves
    unchanged, such as marginals: a table of counts has one variance.
    """
    if isinstance(workload, Kronecker):
        return all(isinstance(f, (Identity, Ones)) for f in workload.factors)
    return isinstance(workload, (Identity, Ones))


def frobenius_squared(operator: QueryMatrix) -> float:
    """Return the sum of all squared entries, along the cheaper side."""
    if isinstance(operator, Marginals):  # a one per marginal and cell
        return operator.shape[1] * sum(w**2 for w in operator.weights.values())
    terms = kronecker_terms(operator)
    if terms is not None:
        return sum(
            weight**2 * math.prod(frobenius_squared(factor) for factor in factors)
            for weight, factors in terms
        )
    by_rows = operator.has_row_forms or operator.shape[0] < operator.shape[1]
    sums = operator.row_square_sums() if by_rows else operator.column_square_sums()
    return float(sums.sum(dtype=np.float64))  # int64 could wrap


def has_full_column_rank(strategy: QueryMatrix) -> bool:
    """Return whether full column rank is known from the structure alone."""
    if isinstance(strategy, (AllRange, Identity, PIdentity, Prefix, Suffix)):
        return True
    if isinstance(strategy, Permuted):
        return has_full_column_rank(strategy.operator)
    if isinstance(strategy, Scaled):
        return strategy.weight != 0 and has_full_column_rank(strategy.operator)
    if isinstance(strategy, Diagonal):
        return bool((strategy.diag() != 0).all())
    if isinstance(strategy, Hierarchy):
        return strategy.weights.get(1, 0) != 0
    if isinstance(strategy, Kronecker):
        return all(has_full_column_rank(factor) for factor in strategy.factors)
    if isinstance(strategy, VStack):
        return any(has_full_column_rank(block) for block in strategy.blocks)
    return False


def squared_singular_values(workload: QueryMatrix) -> NDArray[np.float64]:
    """Return the squared singular values, in no particular order."""
    m, n = workload.shape
    if min(m, n) > DENSE_CELLS:
        raise DomainTooLargeError(
            f"the singular values of {workload!r} need a dense matrix of size "
            f"{min(m, n)}, above {DENSE_CELLS}; use Kronecker structure or a smaller "
            "workload"
        )
    smaller = workload if n <= m else workload.T
    values = np.linalg.eigvalsh(smaller.gram()._dense().astype(np.float64))
    return np.maximum(values, 0.0)


def rank(workload: QueryMatrix) -> int:
    """Return the rank, by the singular values where the structure does not tell."""
    if has_full_column_rank(workload):
        return workload.shape[1]
    if isinstance(workload, Ones):
        return 1
    if isinstance(workload, Kronecker):
        return math.prod(rank(factor) for factor in workload.factors)
    if isinstance(workload, Scaled) and workload.weight != 0:
        return rank(workload.operator)
    shape = _domain_of_marginals(workload)
    if shape is not None:
        terms = marginal_terms(workload) or []
        asked = downward_closure((key for key, square in terms if square > 0), shape)
        return sum(math.prod(shape[i] - 1 for i in subset) for subset in asked)
    values = squared_singular_values(workload)
    floor = max(workload.shape) * np.finfo(float).eps * values.max(initial=0.0)
    return int((values > floor).sum())


def _domain_of_marginals(workload: QueryMatrix) -> tuple[int, ...] | None:
    """Return the attribute sizes of a union of marginals, else ``None``."""
    if isinstance(workload, Scaled):
        return _domain_of_marginals(workload.operator)
    if isinstance(workload, VStack):
        shapes = {_domain_of_marginals(block) for block in workload.blocks}
        return shapes.pop() if len(shapes) == 1 else None
    if isinstance(workload, (Marginals, Marginal)):
        return workload.domain_shape
    if isinstance(workload, Kronecker) and is_uniform(workload):
        return tuple(factor.shape[1] for factor in workload.factors)
    return None


def measured_loss_bound(workload: QueryMatrix) -> float:
    r"""Return a cheap lower bound on the loss of measuring the queries themselves.

    .. math:: \|W\|_1^2 \operatorname{rank}(W) \geq \|W\|_1^2
              \frac{\|W\|_F^2}{\sigma_{\max}^2} \geq
              \|W\|_1 \frac{\|W\|_F^2}{\|W\|_\infty}

    Boxes have closed forms for their rows only: their mean column sum, which for the
    leaves of a forest is the largest, stands for :math:`\|W\|_1`.
    """
    rows = workload.row_abs_sums()
    longest = float(rows.max(initial=0))
    if longest == 0:
        return 0.0
    ratio = frobenius_squared(workload) / longest * (1 - 1e-12)
    if workload.has_row_forms:
        return float(rows.sum(dtype=np.float64)) / workload.shape[1] * ratio
    largest = workload.sensitivity()
    return largest**2 * math.ceil(ratio / largest)
