"""What released leaves say, and how trees vote; post-processing throughout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mmech.checks import check_choice
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.voting import weight_votes
from mmech_rf.literature.leaves import ancestors
from mmech_rf.literature.recipe import VOTES
from mmech_rf.private.votes import Experts, check_that


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
        check_choice(self.voting, "vote", VOTES)

    @cached_property
    def saying(self) -> Floats:
        """What every leaf adds to the votes, shape (n_leaves, k)."""
        return leaf_votes(self.forest, self.counts, self.voting)

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


def pruned(forest: Forest, counts: Floats, epsilon: float) -> Floats:
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


def leaf_votes(forest: Forest, counts: Floats, vote: str) -> Floats:
    """Return what every leaf adds to the votes, shape (n_leaves, k)."""
    if vote == "weight":
        return counts
    if vote == "mean":
        return _shares(counts)
    if vote == "most-confident":
        paths, below = _node_counts(forest, counts)
        smooth = _shares(np.maximum(below, 0.0) + 1.0)  # or leaves of noise are sure
        surest = smooth.max(axis=1)[paths].argmax(axis=1)
        counts = below[paths[np.arange(len(paths)), surest]]
    best = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def tree_of(forest: Forest, tree: int) -> Forest:
    """Return one tree of a forest, as a forest."""
    start, stop = forest.node_offsets[tree : tree + 2]
    feature, child = forest.feature[start:stop], forest.child[start:stop]
    return Forest(
        forest.domain_shape,
        feature,
        np.where(feature < 0, child, child - start),
        np.array([0, stop - start]),
        np.array([0, np.diff(forest.leaf_offsets)[tree]]),
        None if forest.value is None else forest.value[start:stop],
        forest.ordered,
    )


def join(forests: list[Forest]) -> Forest:
    """Return the trees of several forests, as one forest."""
    shifts = np.cumsum([0, *(forest.n_nodes for forest in forests)])
    children = [
        np.where(one.feature < 0, one.child, one.child + shift)
        for one, shift in zip(forests, shifts[:-1], strict=True)
    ]
    starts = np.cumsum([0, *(forest.n_leaves for forest in forests)])
    leaves = [
        one.leaf_offsets[1:] + s for one, s in zip(forests, starts[:-1], strict=True)
    ]
    nodes = [
        one.node_offsets[1:] + s for one, s in zip(forests, shifts[:-1], strict=True)
    ]
    first = forests[0]
    return Forest(
        first.domain_shape,
        np.concatenate([one.feature for one in forests]),
        np.concatenate(children),
        np.concatenate([[0], *nodes]),
        np.concatenate([[0], *leaves]),
        None
        if first.value is None
        else np.concatenate([np.asarray(one.value) for one in forests]),
        first.ordered,
    )
