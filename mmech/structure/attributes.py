"""Which attributes a workload is over, as far as it knows."""

from __future__ import annotations

from functools import singledispatch

from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Product, Scaled
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.stack import VStack

__all__ = ["domain_shape_of", "marginals_of"]

Sizes = tuple[int, ...]


@singledispatch
def domain_shape_of(workload: QueryMatrix) -> Sizes | None:
    """Return the attribute sizes that a workload, or its parts, know, else ``None``."""
    known = getattr(workload, "domain_shape", None)
    return None if known is None else tuple(known)


domain_shape_of.register(Marginal | Marginals, lambda workload: workload.domain_shape)
domain_shape_of.register(
    Kronecker, lambda workload: tuple(factor.shape[1] for factor in workload.factors)
)
domain_shape_of.register(Scaled, lambda workload: domain_shape_of(workload.operator))
domain_shape_of.register(
    Product, lambda workload: domain_shape_of(workload.factors[-1])
)


@domain_shape_of.register
def _(workload: VStack) -> Sizes | None:
    shapes = {domain_shape_of(block) for block in workload.blocks}
    return shapes.pop() if len(shapes) == 1 else None


@singledispatch
def marginals_of(operator: QueryMatrix) -> Marginals | None:
    """Return the weighted marginals that an operator is made as, else ``None``."""
    return None


marginals_of.register(Marginals, lambda operator: operator)


@marginals_of.register
def _(operator: Marginal) -> Marginals | None:
    return Marginals(operator.domain_shape, {operator.attributes: 1})
