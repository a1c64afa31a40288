"""Drawn trees together: what each leaf adds to the log-odds of every class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from mmech.storage.codec import storable
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.scores import VOTE_STEPS, AdditiveScores
from mmech_rf.private.votes import Experts, check_that

__all__ = ["SelectedTrees", "label_scores", "ordered_labels"]

Floats = NDArray[np.float64]

RANKING = 0.25
"""Calibration: share of a label's lead that scores may move the log-odds of each class
by. Below a half they never overturn it, and of two classes the order of records is the
same for every such share. Log losses were looked at on nursery, bank-marketing and
student-por."""


@storable("SelectedTrees")
@dataclass(frozen=True, eq=False)
class SelectedTrees(Experts):
    """Released trees, and what each leaf adds to the log-odds of every class.

    Attributes
    ----------
    trees : tuple of SelectedTree
        In the order of their release.
    scores : tuple of ndarray of float64, shape (n_leaves, k)
        Log-odds of the leaves of each tree; zeros where a leaf stands for `additive`.
    additive : AdditiveScores or None
        Scores of all attributes, which leaves may stand for.
    accuracy : float or None
        Share of right labels, if leaves that stand for `additive` vote for its class
        with this accuracy; ``None`` if they vote with its scores.
    limits : ndarray of int64, shape (2, n_leaves, k - 1), or None
        Of monotone attributes: what differences of the log-odds that `additive` gives
        in a leaf of the first tree are moved between, of every class to the one before,
        in whole steps.
    """

    trees: tuple[SelectedTree, ...]
    scores: tuple[Floats, ...]
    additive: AdditiveScores | None = None
    accuracy: float | None = None
    limits: NDArray[np.int64] | None = None

    voting = "trees"

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless every leaf has a label and a row of scores."""
        check_that(self.trees, "trees")
        if self.additive is not None:
            self.additive.check(domain_shape, n_classes)
        scored = self.additive is not None
        accurate = self.accuracy is None or (scored and 0 < self.accuracy < 1)
        check_that(accurate, "accuracies")
        for tree, scores in zip(self.trees, self.scores, strict=True):
            tree.check(domain_shape, n_classes + scored)
            check_that(scores.shape == (tree.n_leaves, n_classes), "scores")
        if self.limits is not None:
            shape = (2, self.trees[0].n_leaves, n_classes - 1)
            check_that(scored and self.limits.shape == shape, "limits")
            check_that((self.limits[0] <= self.limits[1]).all(), "limits")

    @property
    def n_scores(self) -> int:
        """Number of views with scores."""
        return 0 if self.additive is None else len(self.additive.views)

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]))
        for tree, scores in zip(self.trees, self.scores, strict=True):
            leaves = tree.leaves(codes)
            out += scores[leaves]
            where = self._deferred(tree, leaves)
            if where.size:
                out[where] += self._additive_votes(codes[where], leaves[where])
        return out

    def probabilities(self, codes: NDArray[np.int64]) -> Floats:
        """Return class probabilities, shape (b, k).

        Labels alone tell few records apart. Where there are scores of all attributes
        and leaves vote with an accuracy, scores rank the records of a label: they move
        its log-odds by less than its lead, so that it stays the most likely class.
        """
        odds = self.log_odds(codes)
        several = odds.shape[1] > 2  # of which the order may change
        if (
            self.additive is None
            or self.accuracy is None
            or (self.limits is not None and several)
        ):
            return np.asarray(softmax(odds, axis=1))
        first, second = np.partition(odds, -2, axis=1)[:, :-3:-1].T
        lead = np.maximum(first - second, 1e-9)[:, None]
        scores = self.additive.whole(codes) / VOTE_STEPS
        scores -= scores.mean(axis=1, keepdims=True)
        ranked = odds + RANKING * lead * np.tanh(scores / lead)
        return np.asarray(softmax(ranked, axis=1))

    def whole_votes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `log_odds` in whole steps of 1 / VOTE_STEPS, shape (b, k).

        Scores that leaves stand for are whole steps already.
        """
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]), np.int64)
        for tree, scores in zip(self.trees, self.scores, strict=True):
            leaves = tree.leaves(codes)
            out += np.rint(VOTE_STEPS * scores).astype(np.int64)[leaves]
            where = self._deferred(tree, leaves)
            if where.size:
                assert self.additive is not None
                assert self.accuracy is None
                votes = self.additive.whole(codes[where])
                out[where] += self._limited(votes, leaves[where])
        return out

    def _deferred(
        self, tree: SelectedTree, leaves: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return which records are in leaves that stand for the scores."""
        if self.additive is None:
            return np.zeros(0, np.int64)
        n_classes = self.scores[0].shape[1]
        return np.flatnonzero(np.concatenate(tree.labels)[leaves] == n_classes)

    def _additive_votes(
        self, codes: NDArray[np.int64], leaves: NDArray[np.int64]
    ) -> Floats:
        """Return the votes of scores for records in leaves that stand for them."""
        assert self.additive is not None
        if self.accuracy is None:
            votes = self.additive.whole(codes)
            return np.asarray(self._limited(votes, leaves) / VOTE_STEPS)
        n_classes = self.scores[0].shape[1]
        labels = self.additive.classes(codes)
        if self.limits is None:
            return label_scores(labels, self.accuracy, n_classes)
        votes = ordered_labels(labels, self.accuracy, n_classes)
        return np.asarray(self._limited(votes, leaves) / VOTE_STEPS)

    def _limited(
        self, votes: NDArray[np.int64], leaves: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return votes in whole steps, moved between the limits of their leaves."""
        if self.limits is None:
            return votes
        steps = np.clip(np.diff(votes, axis=1), *self.limits[:, leaves])
        return np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)


def label_scores(labels: NDArray[np.int64], accuracy: float, n_classes: int) -> Floats:
    """Return log-odds of labels that are right so often; none beyond the classes."""
    out = np.full((labels.size, n_classes), np.log((1 - accuracy) / (n_classes - 1)))
    known = np.flatnonzero(labels < n_classes)
    out[known, labels[known]] = np.log(accuracy) + 1e-9
    out[labels == n_classes] = 0.0
    return out


def ordered_labels(
    labels: NDArray[np.int64], accuracy: float, n_classes: int
) -> NDArray[np.int64]:
    """Return log-odds as `label_scores`, for classes with an order, in whole steps.

    They fall by as much with every class further away from the label: later labels
    then speak for later classes throughout. Of two classes it is the same.
    """
    odds = np.log(accuracy) - np.log((1 - accuracy) / (n_classes - 1))
    gap = max(1, int(VOTE_STEPS * odds))
    out = -gap * np.abs(np.arange(n_classes) - labels[:, None])
    out[labels == n_classes] = 0
    return np.asarray(out)
