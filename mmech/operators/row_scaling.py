"""Operators with scaled rows, in the structure they had."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmech.operators.algebra import scale
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Scaled
from mmech.operators.hierarchy import Hierarchy
from mmech.operators.marginals import Marginals
from mmech.operators.merged import Merged
from mmech.operators.ranges import Permuted
from mmech.operators.stack import VStack

__all__ = ["scale_rows"]

Floats = NDArray[np.float64]


def scale_rows(operator: QueryMatrix, factors: Floats) -> QueryMatrix:
    """Return diag(factors) A.

    Stacks whose blocks have one factor each stay stacks, and so keep the closed forms
    that they have.

    Parameters
    ----------
    operator : QueryMatrix, shape (p, n)
        The operator A.
    factors : ndarray of float64, shape (p,)
        One factor per row.

    Returns
    -------
    QueryMatrix, shape (p, n)
        Empty blocks are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech import Identity, Total, VStack
    >>> from mmech.operators.row_scaling import scale_rows
    >>> scale_rows(VStack([Total(2), Identity(2)]), np.array([0.5, 2.0, 2.0]))
    VStack(Scaled(0.5, Total(2)), Scaled(2, Identity(2))) shape=(3, 2)
    """
    structured = _structured(operator, factors)
    return Diagonal(factors) @ operator if structured is None else structured


def _structured(operator: QueryMatrix, factors: Floats) -> QueryMatrix | None:
    """Return the scaled operator in its own structure, if the factors respect it."""
    if factors.size == 0:
        return operator
    if (factors == factors[0]).all():
        return scale(float(factors[0]), operator)
    if isinstance(operator, Scaled):
        inner = _structured(operator.operator, factors)
        return None if inner is None else scale(operator.weight, inner)
    if isinstance(operator, (Merged, Permuted)):
        inner = _structured(operator.operator, factors)
        if inner is None:
            return None
        if isinstance(operator, Merged):
            return Merged(inner, operator.groups, operator.weights)
        return Permuted(inner, operator.permutation)
    if isinstance(operator, Hierarchy):
        ends = np.cumsum(operator.counts)
        parts = np.split(factors, ends[:-1])
        if any((part != part[0]).any() for part in parts):
            return None
        levels = zip(operator.weights.items(), parts, strict=True)
        return Hierarchy(operator.n, {m: w * float(part[0]) for (m, w), part in levels})
    if isinstance(operator, VStack):
        ends = np.cumsum([block.shape[0] for block in operator.blocks])
        parts = np.split(factors, ends[:-1])
        if isinstance(operator, Marginals):
            if any((part != part[0]).any() for part in parts):
                return None
            weights = {
                key: weight * float(part[0])
                for (key, weight), part in zip(
                    operator.weights.items(), parts, strict=True
                )
            }
            return Marginals(operator.domain_shape, weights)
        scaled = [
            _structured(block, part)
            for block, part in zip(operator.blocks, parts, strict=True)
            if part.size
        ]
        kept = [block for block in scaled if block is not None]
        return VStack(kept) if len(kept) == len(scaled) else None
    return None
