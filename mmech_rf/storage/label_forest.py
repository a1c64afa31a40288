"""Labels of the leaves of a disjoint forest, as files have them."""

from __future__ import annotations

import math
from typing import Any

from mmech_rf.blocks.labels import LabelForest
from mmech_rf.schema import Schema
from mmech_rf.storage.contents import Read, Store

__all__ = ["describe_labels", "read_labels"]


def describe_labels(experts: LabelForest, store: Store) -> dict[str, Any]:
    """Return entries of the description."""
    return {"labels": [store(labels) for labels in experts.labels]}


def read_labels(
    content: dict[str, Any],
    read: Read,
    blocks: tuple[tuple[int, ...], ...],
    schema: Schema,
) -> LabelForest:
    """Return the labels of a description; anything that does not fit raises."""
    sizes, k = schema.domain_shape, schema.n_classes
    labels = tuple(read(stored, "int64") for stored in content["labels"])
    for block, own in zip(blocks, labels, strict=True):
        if own.shape != (math.prod(sizes[i] for i in block),):
            raise ValueError("not one label per leaf")
        if own.min() < 0 or own.max() >= k:
            raise ValueError("labels that are not classes")
    return LabelForest(sizes, blocks, labels, k)
