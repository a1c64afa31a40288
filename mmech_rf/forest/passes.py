"""Passes of a forest over records, cells and attribute values, by the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_integer
from mmech.exceptions import DomainTooLargeError
from mmech_rf.forest.checks import check_labels, in_words
from mmech_rf.limits import LIMITS

if TYPE_CHECKING:
    from mmech_rf.forest.forest import Forest

__all__ = [
    "apply",
    "apply_domain",
    "count_leaves",
    "leaf_masks",
]


def apply(forest: Forest, codes: ArrayLike) -> NDArray[np.int32]:
    """Find the leaf of every record in every tree, see `Forest.apply`."""
    from mmech_rf import _kernels

    codes = _check_codes(forest, codes)
    leaves = np.empty((codes.shape[0], forest.n_trees), dtype=np.int32)
    for rows, chunk in _narrow(forest, codes):
        _kernels.apply_trees(
            forest.feature,
            forest.child,
            forest._tests,
            forest.node_offsets,
            chunk,
            leaves[rows],
        )
    return leaves


def apply_domain(forest: Forest) -> NDArray[np.int32]:
    """Find the leaf of every cell in every tree, see `Forest.apply_domain`."""
    from mmech_rf import _kernels

    entries = forest.n_trees * forest.n_cells
    if entries > LIMITS.label_entries:
        raise DomainTooLargeError(
            f"labels of {in_words(forest.n_cells)} cells for {forest.n_trees} trees "
            f"would have {in_words(entries)} entries, more than the limit of "
            f"{LIMITS.label_entries:,}; use leaf_masks(), fewer trees or fewer "
            "attributes"
        )
    labels = np.empty((forest.n_trees, forest.n_cells), dtype=np.int32)
    _kernels.label_domain(
        forest._sizes,
        forest.feature,
        forest.child,
        forest._tests,
        forest.node_offsets,
        labels,
    )
    return labels


def count_leaves(
    forest: Forest,
    codes: ArrayLike,
    class_codes: ArrayLike,
    n_classes: int,
    tree_index: ArrayLike | None = None,
) -> NDArray[np.int64]:
    """Count every record in every tree, or in the one that it is assigned to.

    See `Forest.count_leaves` and `Forest.count_assigned_leaves`.
    """
    from mmech_rf import _kernels

    codes = _check_codes(forest, codes)
    n_classes = check_integer(n_classes, "n_classes")
    columns = [check_labels(class_codes, "class_codes", len(codes), n_classes)]
    count = _kernels.count_leaves
    if tree_index is not None:
        count = _kernels.count_assigned_leaves
        columns += [check_labels(tree_index, "tree_index", len(codes), forest.n_trees)]
    counts = np.zeros((forest.n_leaves, n_classes), dtype=np.int64)
    for rows, chunk in _narrow(forest, codes):
        count(
            forest.feature,
            forest.child,
            forest._tests,
            forest.node_offsets,
            forest.leaf_offsets,
            chunk,
            *(_chunk(column[rows]) for column in columns),
            counts,
        )
    return counts


def leaf_masks(forest: Forest) -> list[NDArray[np.bool_]]:
    """List the values that the path of every leaf allows, see `Forest.leaf_masks`."""
    from mmech_rf import _kernels

    entries = forest.n_leaves * sum(forest.domain_shape)
    if entries > LIMITS.mask_entries:
        raise DomainTooLargeError(
            f"masks of {forest.n_leaves:,} leaves over {sum(forest.domain_shape):,} "
            f"attribute values would have {in_words(entries)} entries, more than "
            f"the limit of {LIMITS.mask_entries:,}; use fewer trees or a smaller depth"
        )
    flat = np.ones(entries, dtype=np.bool_)
    _kernels.leaf_masks(
        forest._sizes,
        forest.depth,
        forest.feature,
        forest.child,
        forest._tests,
        forest.node_offsets,
        forest.leaf_offsets,
        flat,
    )
    masks = []
    start = 0
    for size in forest.domain_shape:
        stop = start + forest.n_leaves * size
        masks.append(flat[start:stop].reshape(forest.n_leaves, size))
        start = stop
    return masks


def _check_codes(forest: Forest, codes: ArrayLike) -> NDArray[Any]:
    """Return codes as an integer array (N, d); ranges are checked by chunk."""
    array = np.asarray(codes)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"codes must hold integers, got dtype {array.dtype}; encode records "
            "with the schema first"
        )
    if array.ndim != 2 or array.shape[1] != forest.n_features:
        raise ValueError(
            f"codes must have shape (N, {forest.n_features}), one column per "
            f"attribute, got {array.shape}"
        )
    return array


def _narrow(
    forest: Forest, codes: NDArray[Any]
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield rows and their codes, checked, with one byte a code where that holds it."""
    largest = np.array(forest.domain_shape) - 1
    dtype = np.uint8 if largest.max() <= np.iinfo(np.uint8).max else np.int32
    width = LIMITS.routed_records
    for start in range(0, len(codes), width):
        rows = slice(start, start + width)
        chunk = codes[rows]
        if (chunk < 0).any() or (chunk > largest).any():
            # Row and column only: the value may be sensitive.
            row, column = np.argwhere((chunk < 0) | (chunk > largest))[0]
            raise ValueError(
                f"codes of attribute {column} must lie in 0..{largest[column]}, "
                f"row {start + row} does not; encode records with the schema"
            )
        yield rows, np.array(chunk, dtype=dtype, order="C")


def _chunk(labels: NDArray[Any]) -> NDArray[np.int64]:
    """Copy one chunk of labels as int64: one layout, so one compiled kernel."""
    return np.array(labels, dtype=np.int64, order="C")
