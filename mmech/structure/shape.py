"""What the structure of an operator tells about it: rank, norms, singular values.

Every question is one function with one rule per class of operators. A class without a
rule gets the answer that is always right: not known. Only `rank` and
`squared_singular_values` may have to form a dense matrix.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf

from mmech.arrays import Floats
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix, once
from mmech.operators.basic import Diagonal, Identity, Ones
from mmech.operators.compose import Merged, Scaled, VStack
from mmech.operators.explicit import Sparse
from mmech.operators.known import factored, has_full_column_rank, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginals
from mmech.operators.partition import PartitionStack
from mmech.operators.subsets import downward_closure
from mmech.structure.spectrum import marginal_terms

# ---- unions and weights ----------------------------------------------------------


def unscaled(operator: QueryMatrix) -> QueryMatrix:
    """Return an operator without the weights around it, unless one is zero."""
    while isinstance(operator, Scaled) and operator.weight != 0:
        operator = operator.operator
    return operator


def ranges_in_rows(workload: QueryMatrix) -> QueryMatrix:
    """Return listed ranges for sparse rows that are these, else the workload."""
    (weight, block), *_ = normal_form(workload).blocks
    if not isinstance(workload, Sparse) or block is workload:
        return workload
    return block if weight == 1 else weight * block


# ---- norms -----------------------------------------------------------------------


@once
@singledispatch
def frobenius_squared(operator: QueryMatrix) -> float:
    """Return the sum of all squared entries, along the cheaper side."""
    by_rows = operator.has_row_forms or operator.shape[0] < operator.shape[1]
    sums = operator.row_square_sums() if by_rows else operator.column_square_sums()
    return float(sums.sum(dtype=np.float64))  # int64 could wrap


@frobenius_squared.register(Scaled | VStack)
def _(operator: QueryMatrix) -> float:
    return float(normal_form(operator).total(frobenius_squared))


@frobenius_squared.register(Kronecker)
def _(operator: Kronecker) -> float:
    return math.prod(map(frobenius_squared, operator.factors))


frobenius_squared.register(Identity, lambda w: float(w.n))
frobenius_squared.register(Ones, lambda w: float(w.m * w.n))


@frobenius_squared.register(Marginals)
def _(operator: Marginals) -> float:  # a one per marginal and cell
    return operator.shape[1] * sum(w**2 for w in operator.weights.values())


RANKED_CELLS = 256
"""Cells of a forest whose columns bound its rank from below."""

REGULAR = 1e-8
"""Ratio of a gram's least norm to the largest above which it is inverted as it is."""


# ---- rank ------------------------------------------------------------------------


def known_singular_values(workload: QueryMatrix) -> NDArray[np.float64] | None:
    """Return the singular values by a closed form, else ``None``.

    They are never above the truth by more than a few units of relative rounding.
    Zeros may be left out.
    """
    if min(workload.shape) > LIMITS.spectrum_cells:
        return None
    weight, factors = factored(workload)
    if factors == (workload,):
        return closed_singular_values(workload)
    values = np.array([abs(float(weight))])
    for factor in factors:
        of_factor = known_singular_values(factor)
        if of_factor is None:
            return None
        values = np.outer(values, of_factor).ravel()
    return values


@singledispatch
def closed_singular_values(workload: QueryMatrix) -> NDArray[np.float64] | None:
    """Return them by the rule of a class; see `known_singular_values`."""
    return None


closed_singular_values.register(Identity, lambda workload: np.ones(workload.n))
closed_singular_values.register(
    Ones, lambda workload: np.array([math.sqrt(math.prod(workload.shape))])
)
closed_singular_values.register(
    Diagonal, lambda workload: np.abs(workload.diag().astype(np.float64))
)


@closed_singular_values.register(Merged)
def _(workload: Merged) -> NDArray[np.float64] | None:
    return known_singular_values(workload.operator) if workload.reorders else None


def squared_singular_values(workload: QueryMatrix) -> NDArray[np.float64]:
    """Return the squared singular values, in no particular order."""
    m, n = workload.shape
    known = known_singular_values(workload)
    if known is not None:
        return np.pad(np.square(known), (0, min(m, n) - known.size))
    if min(m, n) > LIMITS.dense_cells:
        raise DomainTooLargeError(
            f"the singular values of {workload!r} need a dense matrix of size "
            f"{min(m, n)}, above {LIMITS.dense_cells}; use Kronecker structure or a "
            "smaller workload"
        )
    smaller = workload if n <= m else workload.T
    values = np.linalg.eigvalsh(smaller.gram()._dense().astype(np.float64))
    return np.maximum(values, 0.0)


def rank(workload: QueryMatrix) -> int:
    """Return the rank, by the singular values where the structure does not tell."""
    if has_full_column_rank(workload):
        return workload.shape[1]
    weight, factors = factored(workload)
    if factors != (workload,):
        return math.prod(map(rank, factors)) if weight else 0
    known = known_rank(workload)
    if known is not None:
        return known
    terms, shape = marginal_terms(workload), normal_form(workload).domain_shape
    if terms is not None and shape is not None:
        asked = downward_closure((key for key, square in terms if square > 0), shape)
        return sum(math.prod(shape[i] - 1 for i in subset) for subset in asked)
    m, n = workload.shape
    if min(m, n) <= LIMITS.dense_cells:
        smaller = workload if n <= m else workload.T
        gram = smaller.gram()._dense().astype(np.float64)
        if regular_factor(gram) is not None:
            return min(m, n)
    values = squared_singular_values(workload)
    floor = max(workload.shape) * np.finfo(float).eps * values.max(initial=0.0)
    return int((values > floor).sum())


def regular_factor(gram: Floats) -> Floats | None:
    """Return the lower Cholesky factor of a gram, ``None`` if it is nearly singular."""
    factor, failed = dpotrf(gram, lower=1)
    size = abs(gram).sum(axis=0).max(initial=0.0)
    regular = not failed and dpocon(factor, size, "L")[0] > REGULAR
    return np.asarray(factor) if regular else None


@singledispatch
def known_rank(workload: QueryMatrix) -> int | None:
    """Return a rank that is known though it may not be full, else ``None``."""
    return None


known_rank.register(Ones, lambda workload: 1)


def measured_loss_bound(workload: QueryMatrix) -> float:
    r"""Return a cheap lower bound on the loss of measuring the queries themselves.

    .. math:: \|W\|_1^2 \operatorname{rank}(W) \geq \|W\|_1^2
              \frac{\|W\|_F^2}{\sigma_{\max}^2} \geq
              \|W\|_1 \frac{\|W\|_F^2}{\|W\|_\infty}

    Boxes have closed forms for their rows only: their mean column sum, which for the
    leaves of a forest is the largest, stands for :math:`\|W\|_1`. The groups of one
    partition are independent, and so are at most as many as the rank. The rank of some
    columns is at most the rank of all.
    """
    rows = workload.row_abs_sums()
    longest = float(rows.max(initial=0))
    if longest == 0:
        return 0.0
    ratio = frobenius_squared(workload) / longest * (1 - 1e-12)
    if workload.has_row_forms:
        return float(rows.sum(dtype=np.float64)) / workload.shape[1] * ratio
    largest = workload.sensitivity()
    least = math.ceil(ratio / largest)
    if isinstance(workload, PartitionStack):
        filled = np.add.reduceat(rows > 0, workload.offsets[:-1], dtype=np.int64)
        some = np.random.default_rng(0).permutation(workload.shape[1])[:RANKED_CELLS]
        labels = np.asarray(workload.labels)[:, some]
        on_some = rank(PartitionStack(labels, workload.n_groups))
        least = max(least, int(filled.max()), on_some)
    return largest**2 * least
