"""Operators with scaled rows, in the structure they had."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from mmech.arrays import Floats
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Scaled
from mmech.operators.marginals import Marginals
from mmech.operators.merged import Merged
from mmech.operators.residuals import Residuals
from mmech.operators.stack import VStack


def scale_rows(operator: QueryMatrix, factors: Floats) -> QueryMatrix:
    """Return diag(factors) A, for one factor per row, without empty blocks.

    Stacks whose blocks have one factor each stay stacks, and so keep the closed forms
    that they have.

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
        return float(factors[0]) * operator
    return rows_scaled(operator, factors)


@singledispatch
def rows_scaled(operator: QueryMatrix, factors: Floats) -> QueryMatrix | None:
    """Return the scaled operator by a rule for its class, else ``None``."""
    return None


@rows_scaled.register(Scaled)
def _(operator: Scaled, factors: Floats) -> QueryMatrix | None:
    inner = _structured(operator.operator, factors)
    return None if inner is None else operator.weight * inner


@rows_scaled.register(Merged)
def _(operator: Merged, factors: Floats) -> QueryMatrix | None:
    inner = _structured(operator.operator, factors)
    return inner and Merged(inner, operator.groups)


@rows_scaled.register(Marginals | Residuals)
def _(operator: Marginals | Residuals, factors: Floats) -> QueryMatrix | None:
    own = one_per_block(factors, operator.counts)
    if own is None:
        return None
    tables = zip(operator.weights.items(), own, strict=True)
    weights = {key: weight * factor for (key, weight), factor in tables}
    return type(operator)(operator.domain_shape, weights)


@rows_scaled.register(VStack)
def _(operator: VStack, factors: Floats) -> QueryMatrix | None:
    ends = np.cumsum([block.shape[0] for block in operator.blocks])
    parts = np.split(factors, ends[:-1])
    scaled = [
        _structured(block, part)
        for block, part in zip(operator.blocks, parts, strict=True)
        if part.size
    ]
    kept = [block for block in scaled if block is not None]
    return VStack(kept) if len(kept) == len(scaled) else None


def one_per_block(factors: Floats, counts: Sequence[int]) -> list[float] | None:
    """Return the factor of every block, if all rows of each have one."""
    parts = np.split(factors, np.cumsum(counts)[:-1])
    if any((part != part[0]).any() for part in parts):
        return None
    return [float(part[0]) for part in parts]
