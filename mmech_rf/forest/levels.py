"""Trees level by level, and how they become the flat arrays of a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmech_rf.arrays import Integers
from mmech_rf.forest.checks import frozen


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes of one level, ordered by tree; tests are -1 at leaves."""

    tree: Integers
    attribute: Integers  # test of every node
    value: Integers  # that it compares with; -1 for a child per value


def children_of(level: Level, sizes: Integers) -> Integers:
    """Return how many children every node has."""
    own = np.where(level.value < 0, sizes[level.attribute], 2)
    return np.where(level.attribute < 0, 0, own)


def lay_out(levels: Sequence[Level], sizes: Integers) -> dict[str, Any]:
    """Return the arrays of a forest of these levels, with its nodes depth first."""
    n_children = [children_of(one, sizes) for one in levels]
    # Nodes and leaves below every node, itself not counted among the nodes.
    below = [np.zeros(one.tree.size, np.int64) for one in levels]
    leaves = [(n == 0).astype(np.int64) for n in n_children]
    for i in range(len(levels) - 2, -1, -1):
        parent = np.repeat(np.arange(levels[i].tree.size), n_children[i])
        np.add.at(below[i], parent, 1 + below[i + 1])
        np.add.at(leaves[i], parent, leaves[i + 1])
    node_offsets = np.concatenate([[0], np.cumsum(1 + below[0])])
    leaf_offsets = np.concatenate([[0], np.cumsum(leaves[0])])
    feature = np.empty(node_offsets[-1], np.int32)
    child, value = np.empty_like(feature), np.empty_like(feature)
    number, free, leaf = node_offsets[:-1], node_offsets[:-1] + 1, 0 * leaf_offsets[:-1]
    for i, one in enumerate(levels):
        feature[number] = one.attribute
        value[number] = one.value
        child[number] = np.where(one.attribute < 0, leaf, free)
        if i + 1 == len(levels):
            break
        parent = np.repeat(np.arange(one.tree.size), n_children[i])
        first = np.repeat(np.cumsum(n_children[i]) - n_children[i], n_children[i])
        number = free[parent] + np.arange(parent.size) - first

        def before(amounts: Integers, first: Integers = first) -> Integers:
            """Return the sum of amounts of the siblings to the left."""
            sums = np.cumsum(amounts) - amounts
            return np.asarray(sums - sums[first] if sums.size else sums)

        leaf = leaf[parent] + before(leaves[i + 1])
        free = (free + n_children[i])[parent] + before(below[i + 1])
    return frozen(
        feature=feature,
        child=child,
        node_offsets=node_offsets,
        leaf_offsets=leaf_offsets,
        value=value,
    )
