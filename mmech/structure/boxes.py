"""Whether the queries of a workload are boxes, or come from partitions."""

from __future__ import annotations

from functools import singledispatch

from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Product, Scaled, Transpose
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginals
from mmech.operators.partition import Conjunctions, PartitionStack
from mmech.operators.ranges import Ranges
from mmech.operators.stack import VStack

__all__ = ["comes_from_partitions", "is_union_of_boxes"]


@singledispatch
def is_union_of_boxes(workload: QueryMatrix) -> bool:
    """Return whether a workload is a union of products or of boxes."""
    return False


@is_union_of_boxes.register(Kronecker)
@is_union_of_boxes.register(Marginals)
@is_union_of_boxes.register(PartitionStack)
@is_union_of_boxes.register(Conjunctions)
@is_union_of_boxes.register(Ranges)
def _(workload: QueryMatrix) -> bool:
    return True


@is_union_of_boxes.register
def _(workload: VStack) -> bool:
    return all(is_union_of_boxes(block) for block in workload.blocks)


@is_union_of_boxes.register
def _(workload: Scaled) -> bool:
    return is_union_of_boxes(workload.operator)


@singledispatch
def comes_from_partitions(workload: QueryMatrix) -> bool:
    """Return whether columns come from partitions of the domain, as of a forest."""
    return False


@comes_from_partitions.register(PartitionStack)
@comes_from_partitions.register(Conjunctions)
def _(workload: QueryMatrix) -> bool:
    return True


@comes_from_partitions.register
def _(workload: Product) -> bool:
    return comes_from_partitions(workload.factors[-1])


@comes_from_partitions.register(Scaled)
@comes_from_partitions.register(Transpose)
def _(workload: Scaled | Transpose) -> bool:
    return comes_from_partitions(workload.operator)


@comes_from_partitions.register
def _(workload: VStack) -> bool:
    return any(comes_from_partitions(block) for block in workload.blocks)
