"""Which attributes a workload is over, and whether its queries are boxes there."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.compose import Product, Transpose
from mmech.operators.explicit import Dense
from mmech.operators.known import Term, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.partition import Conjunctions, PartitionStack


def is_uniform(workload: QueryMatrix) -> bool:
    """Whether relabelling values maps every query to every other.

    Then all queries have one error under a strategy that relabelling leaves
    unchanged, such as marginals: a table of counts has one variance.
    """
    factors = workload.factors if isinstance(workload, Kronecker) else (workload,)
    return all(isinstance(factor, Identity | Ones) for factor in factors)


def is_union_of_boxes(workload: QueryMatrix) -> bool:
    """Return whether a workload is a union of products or of boxes."""
    return all(asks_boxes(block) for _, block in normal_form(workload).blocks)


@singledispatch
def asks_boxes(block: QueryMatrix) -> bool:
    """Return whether queries are products of attributes, or boxes."""
    return False


asks_boxes.register(Kronecker | Conjunctions, lambda block: True)
asks_boxes.register(PartitionStack, lambda block: block.boxes() is not None)


def comes_from_partitions(workload: QueryMatrix) -> bool:
    """Return whether columns come from partitions of the domain, as of a forest."""
    blocks = [block for _, block in normal_form(workload).blocks]
    inside = [block.factors[-1] for block in blocks if isinstance(block, Product)]
    inside += [block.operator for block in blocks if isinstance(block, Transpose)]
    forests = PartitionStack | Conjunctions
    known = any(isinstance(block, forests) for block in blocks)
    return known or any(map(comes_from_partitions, inside))


def box_terms(workload: QueryMatrix) -> list[Term] | None:
    """Return the leaves of a forest as a union of products, else ``None``.

    A leaf that is a box is one product of rows of 0 and 1, as (weight, factors). Equal
    leaves are one term, whose squared weight is their number.
    """
    masks = None
    if isinstance(workload, Conjunctions | PartitionStack):
        masks = workload.boxes()
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
