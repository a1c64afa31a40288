"""Plain Python twins of the forest kernels, for small domains."""

import itertools

import numpy as np

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(state):
    """splitmix64 output function on Python integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def draw_below(bound, state):
    """Uniform integer in [0, bound) by Lemire's method with 32-bit words."""
    while True:
        product = (mix(state) >> 32) * bound
        if product % 2**32 >= 2**32 % bound:
            return product >> 32
        state ^= mix((state + GOLDEN) & MASK)


def grow(domain_shape, seeds, depth):
    """Trees as nested tuples (attribute, [children]), a leaf being None."""
    splittable = [i for i, size in enumerate(domain_shape) if size > 1]
    depth = min(depth, len(splittable))

    def subtree(available, level, state):
        if level == depth:
            return None
        drawn = level + draw_below(len(available) - level, state)
        available = list(available)
        available[level], available[drawn] = available[drawn], available[level]
        attribute = available[level]
        children = []
        for branch in range(domain_shape[attribute]):
            child_state = mix((state + (branch + 1) * GOLDEN) & MASK)
            children.append(subtree(available, level + 1, child_state))
        return attribute, children

    return [subtree(splittable, 0, int(seed)) for seed in seeds]


def as_nested(forest):
    """The trees of a `Forest` as nested tuples, read from its flat arrays."""

    def subtree(node):
        attribute = int(forest.feature[node])
        if attribute < 0:
            return None
        first = int(forest.child[node])
        size = forest.domain_shape[attribute]
        return attribute, [subtree(first + value) for value in range(size)]

    return [subtree(int(root)) for root in forest.node_offsets[:-1]]


def leaves_of(tree, tests=()):
    """Path of every leaf, left to right, as a dict attribute -> value."""
    if tree is None:
        return [dict(tests)]
    attribute, children = tree
    return [
        leaf
        for value, child in enumerate(children)
        for leaf in leaves_of(child, (*tests, (attribute, value)))
    ]


def apply(forest, codes):
    """The one leaf of each tree whose tests a record passes."""
    paths = [leaves_of(tree) for tree in as_nested(forest)]
    answer = np.empty((len(codes), len(paths)), dtype=np.int32)
    for row, record in enumerate(codes):
        for tree, leaves in enumerate(paths):
            (answer[row, tree],) = (
                leaf
                for leaf, tests in enumerate(leaves)
                if all(record[i] == value for i, value in tests.items())
            )
    return answer


def cells(domain_shape):
    """Codes of all cells, first attribute most significant."""
    ranges = [range(size) for size in domain_shape]
    return np.array(list(itertools.product(*ranges)), dtype=np.int64)


def apply_domain(forest):
    """Leaf of every cell, from the table of cells."""
    return apply(forest, cells(forest.domain_shape)).T


def count_leaves(forest, codes, classes, n_classes):
    """Count record by record and tree by tree."""
    counts = np.zeros((forest.n_leaves, n_classes), dtype=np.int64)
    for leaves, label in zip(apply(forest, codes), classes, strict=True):
        for tree, leaf in enumerate(leaves):
            counts[forest.leaf_offsets[tree] + leaf, label] += 1
    return counts


def count_assigned_leaves(forest, codes, classes, n_classes, trees):
    """Count record by record, in one tree each."""
    counts = np.zeros((forest.n_leaves, n_classes), dtype=np.int64)
    for leaves, label, tree in zip(apply(forest, codes), classes, trees, strict=True):
        counts[forest.leaf_offsets[tree] + leaves[tree], label] += 1
    return counts


def leaf_masks(forest):
    """Values each leaf's path allows, one array per attribute."""
    leaves = [leaf for tree in as_nested(forest) for leaf in leaves_of(tree)]
    return [
        np.array([[leaf.get(i, v) == v for v in range(size)] for leaf in leaves])
        for i, size in enumerate(forest.domain_shape)
    ]
