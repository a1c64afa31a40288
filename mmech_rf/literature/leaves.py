"""What is released of the leaves of trees, what it says, and how trees vote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from mmech import PartitionStack
from mmech.checks import check_choice
from mmech.noise.seam import disjoint
from mmech.privacy.neighbours import Relation
from mmech.reconstruction import least_squares
from mmech.selection import choose_rows, flip
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.votes import Experts, check_that
from mmech_rf.forest.ensembles import weight_votes
from mmech_rf.forest.forest import Forest
from mmech_rf.literature.grow import Pay, Release

LEAF_COUNTS = "class counts of leaves"
"""Name of the release in ledgers and privacy statements."""


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
        what = LEAF_COUNTS if last else f"class counts of level {level}"
        pay(cost, what, "laplace", unit)
        measured.append((group, release(sums, Fraction(unit), cost, what), cost))
    estimate = np.empty(counts.shape)
    for start, stop in zip(
        forest.leaf_offsets[:-1], forest.leaf_offsets[1:], strict=True
    ):
        groups = [np.unique(g[start:stop], return_inverse=True) for g, _, _ in measured]
        noisy = [v[ids] for (_, v, _), (ids, _) in zip(measured, groups, strict=True)]
        sizes = [ids.size for ids, _ in groups]
        scale = np.repeat([float(1 / cost) for _, _, cost in measured], sizes)
        stack = PartitionStack([labels for _, labels in groups], sizes)
        leaves = least_squares(stack, np.concatenate(noisy).astype(np.float64), scale)
        estimate[start:stop] = np.asarray(leaves)
    return estimate


# ---- votes: post-processing throughout ----------------------------------------


@storable("RecipeVotes")
@dataclass(frozen=True, eq=False)
class RecipeVotes(Experts):
    """Trees whose leaves have been released."""

    forest: Forest
    counts: Floats  # noisy class counts of leaves, or one at the label, (n_leaves, k)
    voting: str

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless trees are of this domain, and there is a row for each leaf."""
        check_that(self.forest.domain_shape == domain_shape, "trees")
        check_that(self.counts.shape == (self.forest.n_leaves, n_classes), "counts")
        check_choice(self.voting, "vote", tuple(VOTES))

    @cached_property
    def saying(self) -> Floats:
        """What every leaf adds to the votes, shape (n_leaves, k)."""
        return VOTES[self.voting](self.forest, self.counts)

    def log_odds(self, codes: Integers) -> Floats:
        """Return the votes for every class, shape (b, k)."""
        return weight_votes(self.forest, self.saying, codes)

    def probabilities(self, codes: Integers) -> Floats:
        """Return class probabilities, shape (b, k): shares of the votes."""
        return _shares(self.log_odds(codes))


def keyed_numbers(codes: Integers, n_classes: int, key: int) -> Floats:
    """Return numbers in (0, 1) that follow from a record, a class and a key."""
    mixed = np.full((codes.shape[0], n_classes), key, np.uint64)
    with np.errstate(over="ignore"):
        for column in (*codes.T[..., None], np.arange(n_classes)[None, :]):
            mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = mixed ^ (mixed >> np.uint64(31))
    return ((mixed >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _shares(counts: Floats) -> Floats:
    """Return what share of the positive part of a row each class has."""
    positive = np.maximum(counts, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    even = np.full(counts.shape, 1.0 / counts.shape[1])
    return np.asarray(np.divide(positive, total, out=even, where=total > 0))


def _node_counts(forest: Forest, counts: Floats) -> tuple[Integers, Floats]:
    """Return the paths of all leaves, and the summed counts of all nodes."""
    paths = ancestors(forest)
    below = np.zeros((forest.n_nodes, counts.shape[1]))
    for level in range(paths.shape[1]):
        new = slice(None)
        if level:
            new = paths[:, level] != paths[:, level - 1]
        np.add.at(below, paths[new, level], counts[new])
    return paths, below


def signal_to_noise(forest: Forest, counts: Floats, epsilon: float) -> Floats:
    r"""Return counts of leaves, of nodes above them where these say more than noise.

    The signal-to-noise ratio of the leaves L below a node is
    :math:`\epsilon \sum_L \sum_c L_c / (k \sqrt{2 \#L})`; the highest node below
    which it is less than one speaks for all of its leaves ([1]_, the root included).

    References
    ----------
    .. [1] Fletcher, Islam, "A differentially private decision forest", AI 2015.
    """
    paths, below = _node_counts(forest, counts)
    _, n_leaves = _node_counts(forest, np.ones((counts.shape[0], 1)))
    k = counts.shape[1]
    ratio = epsilon * below.sum(axis=1) / (k * np.sqrt(2 * n_leaves[:, 0]))
    weak = ratio[paths] < 1
    weak[:, -1] = True
    return np.asarray(below[paths[np.arange(len(paths)), weak.argmax(axis=1)]])


def _hard(forest: Forest, counts: Floats) -> Floats:
    best = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def _most_confident(forest: Forest, counts: Floats) -> Floats:
    paths, below = _node_counts(forest, counts)
    smooth = _shares(np.maximum(below, 0.0) + 1.0)  # or leaves of noise are sure
    surest = smooth.max(axis=1)[paths].argmax(axis=1)
    return _hard(forest, below[paths[np.arange(len(paths)), surest]])


VOTES: dict[str, Callable[[Forest, Floats], Floats]] = {
    "hard": _hard,
    "weight": lambda forest, counts: counts,
    "mean": lambda forest, counts: _shares(counts),
    "most-confident": _most_confident,
}
"""Votes by name: from class counts of leaves to what each leaf adds, (n_leaves, k)."""


def picked(trees: Sequence[tuple[Forest, int]]) -> Forest:
    """Return trees of forests of one domain, each by its number, as one forest."""
    parts = []
    nodes, leaves = [0], [0]
    for forest, tree in trees:
        start, stop = forest.node_offsets[tree : tree + 2]
        feature, child = forest.feature[start:stop], forest.child[start:stop]
        child = np.where(feature < 0, child, child - start + nodes[-1])
        value = None if forest.value is None else forest.value[start:stop]
        parts.append((feature, child, value))
        nodes.append(nodes[-1] + stop - start)
        leaves.append(leaves[-1] + np.diff(forest.leaf_offsets)[tree])
    first, (features, children, values) = trees[0][0], zip(*parts, strict=True)
    return Forest(
        first.domain_shape,
        np.concatenate(features),
        np.concatenate(children),
        np.array(nodes),
        np.array(leaves),
        None if first.value is None else np.concatenate(values),
        first.ordered,
    )


def join(*forests: Forest) -> Forest:
    """Return the trees of several forests, as one forest."""
    return picked([(one, tree) for one in forests for tree in range(one.n_trees)])
