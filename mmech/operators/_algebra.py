"""Pair rules: how two operators combine so that structure survives.

One table for products. A rule takes the two operators and returns the combined
one, or ``None`` when it does not apply after all; the first rule that fits wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mmech.operators._base import QueryMatrix
from mmech.operators._basic import Dense, Diagonal, Identity, Ones, Sparse
from mmech.operators._compose import (
    Kronecker,
    Product,
    Scaled,
    Sum,
    VStack,
    check_weight,
)

__all__ = ["product", "scale"]

Rule = Callable[[Any, Any], QueryMatrix | None]


def _kronecker_product(left: Kronecker, right: Kronecker) -> QueryMatrix | None:
    if len(left.factors) != len(right.factors):
        return None
    pairs = list(zip(left.factors, right.factors, strict=True))
    if any(a.shape[1] != b.shape[0] for a, b in pairs):
        return None
    return Kronecker([product(a, b) for a, b in pairs])


def _flatten(left: QueryMatrix, right: QueryMatrix) -> Product:
    parts: list[QueryMatrix] = []
    for side in (left, right):
        parts.extend(side.factors if isinstance(side, Product) else [side])
    return Product(*parts)


PRODUCT_RULES: list[tuple[type, type, Rule]] = [
    (Identity, QueryMatrix, lambda a, b: b),
    (QueryMatrix, Identity, lambda a, b: a),
    (Scaled, QueryMatrix, lambda a, b: scale(a.weight, product(a.operator, b))),
    (QueryMatrix, Scaled, lambda a, b: scale(b.weight, product(a, b.operator))),
    (Ones, Ones, lambda a, b: scale(a.shape[1], Ones(a.shape[0], b.shape[1]))),
    (Diagonal, Diagonal, lambda a, b: Diagonal(a.diag() * b.diag())),
    (Dense, Dense, lambda a, b: Dense(a.to_dense() @ b.to_dense())),
    (Sparse, Sparse, lambda a, b: Sparse(a.matrix @ b.matrix)),
    (Kronecker, Kronecker, _kronecker_product),
    (VStack, QueryMatrix, lambda a, b: VStack([product(x, b) for x in a.blocks])),
    (Sum, QueryMatrix, lambda a, b: Sum([product(x, b) for x in a.terms])),
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
    return _flatten(left, right)


def scale(weight: Any, operator: QueryMatrix) -> QueryMatrix:
    """Return weight * operator; nested weights multiply, weight one vanishes."""
    weight = check_weight(weight)
    if isinstance(operator, Scaled):
        return scale(weight * operator.weight, operator.operator)
    if isinstance(weight, int) and weight == 1:
        return operator
    return Scaled(weight, operator)
