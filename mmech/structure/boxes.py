"""Whether the queries of a workload are boxes, or come from partitions; which boxes."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Product, Scaled, Transpose
from mmech.operators.explicit import Dense
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginals
from mmech.operators.partition import Conjunctions, PartitionStack
from mmech.operators.ranges import Ranges
from mmech.operators.stack import VStack

__all__ = ["box_terms", "comes_from_partitions", "is_union_of_boxes"]


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


Term = tuple[float, tuple[QueryMatrix, ...]]


def box_terms(workload: QueryMatrix) -> list[Term] | None:
    """Return the leaves of a forest as a union of products, else ``None``.

    A leaf that is a box is one product of rows of 0 and 1, as (weight, factors). Equal
    leaves are one term, whose squared weight is their number.
    """
    masks = _masks(workload)
    if masks is None:
        return None
    filled = np.all([mask.any(axis=1) for mask in masks], axis=0)
    boxes, counts = np.unique(np.hstack(masks)[filled], axis=0, return_counts=True)
    ends = np.cumsum([mask.shape[1] for mask in masks])[:-1]
    return [
        (
            float(weight),
            tuple(Dense(row[None].astype(int)) for row in np.split(box, ends)),
        )
        for weight, box in zip(np.sqrt(counts), boxes, strict=True)
    ]


@singledispatch
def _masks(workload: QueryMatrix) -> list[NDArray[np.bool_]] | None:
    """Return which values of each attribute a leaf allows, or None if not a box."""
    return None


_masks.register(Conjunctions, lambda workload: list(workload.masks))
_masks.register(PartitionStack, lambda workload: workload.boxes())
