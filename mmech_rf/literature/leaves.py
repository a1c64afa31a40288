"""What is released of the leaves of trees: noisy class counts, or labels."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from mmech import PartitionStack
from mmech.noise.seam import disjoint
from mmech.privacy.neighbours import Relation
from mmech.reconstruction import least_squares
from mmech.selection import choose_rows, flip
from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.literature.grow import Pay, Release


def count_leaves(
    forest: Forest,
    codes: Integers,
    class_codes: Integers,
    n_classes: int,
    weights: Integers,
) -> Integers:
    """Return exact weighted class counts of all leaves, shape (n_leaves, k)."""
    counts = np.zeros((forest.n_leaves, n_classes), np.int64)
    rows = forest.apply(codes) + forest.leaf_offsets[:-1]
    for tree in range(forest.n_trees):
        np.add.at(counts, (rows[:, tree], class_codes), weights[:, tree])
    return counts


def draw_leaf_labels(
    counts: Integers,
    epsilon: Fraction,
    *,
    unit: int,
    flipping: bool,
    relation: Relation,
    noise: np.random.Generator | None,
) -> Integers:
    """Draw the label of every leaf; the caller has paid epsilon, per record and tree.

    Labels of empty leaves are drawn like all others.
    """
    if not flipping:
        return choose_rows(counts, epsilon, window=unit, relation=relation, noise=noise)
    labels = np.zeros(len(counts), np.int64)
    for leaf, row in enumerate(counts):
        with disjoint():
            labels[leaf] = flip(
                row, epsilon / unit, monotone=True, relation=relation, noise=noise
            )
    return labels


def ancestors(forest: Forest) -> Integers:
    """Return the nodes on the path to every leaf, root first, (n_leaves, depth + 1).

    A leaf stands for itself where its path has ended.
    """
    sizes = np.array(forest.domain_shape)
    inner = np.flatnonzero(forest.feature >= 0)
    n_children = sizes[forest.feature[inner]]
    if forest.value is not None:
        n_children = np.where(forest.value[inner] < 0, n_children, 2)
    parent = np.arange(forest.n_nodes)
    start = np.cumsum(n_children) - n_children
    places = np.repeat(forest.child[inner] - start, n_children)
    parent[places + np.arange(places.size)] = np.repeat(inner, n_children)
    leaves = np.flatnonzero(forest.feature < 0)
    tree = np.searchsorted(forest.node_offsets, leaves, side="right") - 1
    order = forest.leaf_offsets[tree] + forest.child[leaves]
    upwards = np.empty((forest.depth + 1, leaves.size), np.int64)
    upwards[0, order] = leaves
    for step in range(forest.depth):
        upwards[step + 1] = parent[upwards[step]]
    # Paths differ in length: turn them so that all begin at the root.
    length = (np.diff(upwards, axis=0) != 0).sum(axis=0)
    levels = np.maximum(length[:, None] - np.arange(forest.depth + 1), 0)
    return upwards.T[np.arange(leaves.size)[:, None], levels]


def release_levels(
    forest: Forest,
    counts: Integers,
    costs: tuple[Fraction, ...],
    unit: int,
    pay: Pay,
    release: Release,
) -> Floats:
    """Release class counts of nodes of all levels; return consistent ones of leaves.

    Exact counts of leaves, (n_leaves, k), are sensitive. Levels have costs in one tree,
    from the root; the last are the leaves. Returned is the best linear unbiased
    estimate, tree by tree.
    """
    paths = ancestors(forest)
    measured = []
    for level, cost in enumerate(costs[: paths.shape[1]]):
        last = level + 1 == min(len(costs), paths.shape[1])
        cost = sum(costs[level:], Fraction(0)) if last else cost
        if not cost:
            continue
        nodes, group = np.unique(paths[:, level], return_inverse=True)
        sums = np.zeros((nodes.size, counts.shape[1]), np.int64)
        np.add.at(sums, group, counts)
        what = "class counts of leaves" if last else f"class counts of level {level}"
        pay(cost, what, "laplace", unit)
        measured.append((group, release(sums, Fraction(unit), cost, what), cost))
    estimate = np.empty(counts.shape)
    for start, stop in zip(
        forest.leaf_offsets[:-1], forest.leaf_offsets[1:], strict=True
    ):
        groups = [np.unique(g[start:stop], return_inverse=True) for g, _, _ in measured]
        noisy = [v[own] for (_, v, _), (own, _) in zip(measured, groups, strict=True)]
        sizes = [own.size for own, _ in groups]
        scale = np.repeat([float(1 / cost) for _, _, cost in measured], sizes)
        stack = PartitionStack([labels for _, labels in groups], sizes)
        found = least_squares(stack, np.concatenate(noisy).astype(np.float64), scale)
        estimate[start:stop] = np.asarray(found)
    return estimate
