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


is_union_of_boxes.register(
    Kronecker | Marginals | PartitionStack | Conjunctions | Ranges,
    lambda workload: True,
)
is_union_of_boxes.register(
    VStack, lambda workload: all(is_union_of_boxes(block) for block in workload.blocks)
)
is_union_of_boxes.register(
    Scaled, lambda workload: is_union_of_boxes(workload.operator)
)


@singledispatch
def comes_from_partitions(workload: QueryMatrix) -> bool:
    """Return whether columns come from partitions of the domain, as of a forest."""
    return False


comes_from_partitions.register(PartitionStack | Conjunctions, lambda workload: True)
comes_from_partitions.register(
    Product, lambda workload: comes_from_partitions(workload.factors[-1])
)
comes_from_partitions.register(
    Scaled | Transpose, lambda workload: comes_from_partitions(workload.operator)
)


@comes_from_partitions.register
def _(workload: VStack) -> bool:
    return any(comes_from_partitions(block) for block in workload.blocks)
