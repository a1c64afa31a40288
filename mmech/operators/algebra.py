"""Pair rules: how two operators combine, or rows are scaled, and structure survives.

A rule takes the two operators and returns their product, or ``None`` when it does not
apply after all; the first rule that fits wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from mmech.arrays import Floats
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones
from mmech.operators.compose import Merged, Product, Scaled, Sum, VStack, check_weight
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginals, Residuals

Rule = Callable[[Any, Any], QueryMatrix | None]


def _entries(rule: Rule) -> Rule:
    """Return a rule that leaves integers alone whose products may not fit 64 bits."""

    def fitting(left: QueryMatrix, right: QueryMatrix) -> QueryMatrix | None:
        if left.dtype == right.dtype == np.int64:
            rows, entries = left._norm_bounds, right._norm_bounds
            if rows is None or entries is None or rows[0] * min(entries) >= 2**63:
                return None
        return rule(left, right)

    return fitting


def _kronecker_product(left: Kronecker, right: Kronecker) -> QueryMatrix | None:
    """Multiply the factors one by one, if all sizes agree."""
    if [a.shape[1] for a in left.factors] != [b.shape[0] for b in right.factors]:
        return None
    return Kronecker(list(map(product, left.factors, right.factors)))


PRODUCT_RULES: list[tuple[type, type, Rule]] = [
    (Identity, QueryMatrix, lambda a, b: b),
    (QueryMatrix, Identity, lambda a, b: a),
    (Scaled, QueryMatrix, lambda a, b: scale(a.weight, product(a.operator, b))),
    (QueryMatrix, Scaled, lambda a, b: scale(b.weight, product(a, b.operator))),
    (Ones, Ones, lambda a, b: scale(a.shape[1], Ones(a.shape[0], b.shape[1]))),
    (Diagonal, Diagonal, _entries(lambda a, b: Diagonal(a.diag() * b.diag()))),
    (Dense, Dense, _entries(lambda a, b: Dense(a.to_dense() @ b.to_dense()))),
    (Sparse, Sparse, _entries(lambda a, b: Sparse(a.matrix @ b.matrix))),
    (Kronecker, Kronecker, _kronecker_product),
    (VStack, QueryMatrix, lambda a, b: VStack([product(x, b) for x in a.blocks])),
    (Sum, QueryMatrix, lambda a, b: Sum([product(x, b) for x in a.terms])),
    (Product, Product, lambda a, b: Product(*a.factors, *b.factors)),
    (Product, QueryMatrix, lambda a, b: Product(*a.factors, b)),
    (QueryMatrix, Product, lambda a, b: Product(a, *b.factors)),
]
"""(type of left, type of right, rule), tried in this order."""


def product(left: QueryMatrix, right: QueryMatrix) -> QueryMatrix:
    """Return left @ right as an operator that keeps what structure it can."""
    if left.shape[1] != right.shape[0]:
        raise ValueError(
            f"cannot multiply {left!r} with {right!r}: {left.shape[1]} columns "
            f"against {right.shape[0]} rows"
        )
    for left_type, right_type, rule in PRODUCT_RULES:
        if isinstance(left, left_type) and isinstance(right, right_type):
            combined = rule(left, right)
            if combined is not None:
                return combined
    return Product(left, right)


def scale(weight: Any, operator: QueryMatrix) -> QueryMatrix:
    """Return weight * operator; nested weights multiply, weight one vanishes."""
    return _scaled(operator, check_weight(weight))


@singledispatch
def _scaled(operator: QueryMatrix, weight: float) -> QueryMatrix:
    whole = isinstance(weight, int)
    return operator if whole and weight == 1 else Scaled(weight, operator)


_scaled.register(
    Scaled, lambda operator, weight: scale(weight * operator.weight, operator.operator)
)


# ---- scaled rows -------------------------------------------------------------


def scale_rows(operator: QueryMatrix, factors: Floats) -> QueryMatrix:
    """Return diag(factors) A, for one factor per row, without empty blocks.

    Stacks whose blocks have one factor each stay stacks, and so keep the closed forms
    that they have.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech import Identity, Total, VStack
    >>> from mmech.operators.algebra import scale_rows
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
    pairs = zip(operator.blocks, parts, strict=True)
    scaled = [_structured(block, part) for block, part in pairs if part.size]
    kept = [block for block in scaled if block is not None]
    return VStack(kept) if len(kept) == len(scaled) else None


def one_per_block(factors: Floats, counts: Sequence[int]) -> list[float] | None:
    """Return the factor of every block, if all rows of each have one."""
    parts = np.split(factors, np.cumsum(counts)[:-1])
    if any((part != part[0]).any() for part in parts):
        return None
    return [float(part[0]) for part in parts]
