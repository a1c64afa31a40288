"""Drawn trees together: what each leaf adds to the log-odds of every class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.scores import VOTE_STEPS, AdditiveScores
from mmech_rf.estimator.votes import Experts, check_that

MOST_OF_LEAD = 0.49
"""Calibration: share of a label's lead that scores may move the log-odds of each class
by. Below a half, which is as far as it goes, they never overturn it."""

# Provenance: as `DrawnSettings`.
RANKING = 0.3
"""Calibration: part of the scores of all attributes by which they rank the records of a
label."""


UNIT = 256
"""Weight resolution: boosting weights of records are multiples of 1 / UNIT."""

EXPONENTIALS = np.rint(
    2.0**32 * np.exp(-np.arange(16 * VOTE_STEPS) / VOTE_STEPS)
).astype(np.int64)
EXPONENTIALS[-1] = 0
EXPONENTIALS.flags.writeable = False
"""Table of exp(-s / VOTE_STEPS) for s steps, in units of 2**-32; the last one is zero
and stands for all beyond."""


@storable("SelectedTrees")
@dataclass(frozen=True, eq=False)
class SelectedTrees(Experts):
    """Released trees, and what each leaf adds to the log-odds of every class."""

    trees: tuple[SelectedTree, ...]
    # Log-odds of the leaves of each tree, (n_leaves, k); zeros where a leaf stands for
    # `additive`, the scores of all attributes.
    scores: tuple[Floats, ...]
    additive: AdditiveScores | None = None
    # Log-odds of leaves that stand for `additive`, by the class that has its largest
    # score, (k, k); None if they vote with its scores.
    answers: Floats | None = None
    # Released class counts of the leaves of the first trees, (n_leaves, k), and their
    # standard errors. With `answers`, k more rows count the records that leaves leave
    # to scores, by the class that has the largest score.
    counts: tuple[Floats, ...] = ()
    count_errors: tuple[float, ...] = ()
    # Weight of `additive` in the votes on every record, beside its leaves.
    score_weight: float = 0.0

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless every leaf has a label and a row of scores."""
        check_that(self.trees, "trees")
        if self.additive is not None:
            self.additive.check(domain_shape, n_classes)
        scored = self.additive is not None
        check_that(0 <= self.score_weight <= scored, "score weight")
        if self.answers is not None:
            square = n_classes, n_classes
            check_that(scored and self.answers.shape == square, "answers")
        for tree, scores in zip(self.trees, self.scores, strict=True):
            tree.check(domain_shape, n_classes + scored)
            check_that(scores.shape == (tree.n_leaves, n_classes), "scores")
        check_that(len(self.counts) == len(self.count_errors), "counts")
        for tree, counts in zip(self.trees, self.counts, strict=False):
            deferred = n_classes * (self.answers is not None)
            check_that(counts.shape == (tree.n_leaves + deferred, n_classes), "counts")

    @property
    def n_scores(self) -> int:
        """Number of views with scores."""
        return 0 if self.additive is None else len(self.additive.views)

    def counted_leaves(self, codes: Integers) -> tuple[Floats, Integers] | None:
        """Return `counts` of the first tree, and where each record is, shape (b,)."""
        if not self.counts:
            return None
        tree = self.trees[0]
        leaves = tree.leaves(codes)
        if self.answers is not None and self.additive is not None:
            deferred = np.concatenate(tree.labels)[leaves] == len(self.answers)
            by_scores = tree.n_leaves + self.additive.classes(codes)
            leaves = np.where(deferred, by_scores, leaves)
        return self.counts[0], leaves

    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]))
        for scores, leaves, where in self._by_tree(codes, self.scores):
            out += scores[leaves]
            if where.size:
                out[where] += self._additive_votes(codes[where])
        if self.score_weight and self.additive is not None:
            out += self.score_weight * self.additive.whole(codes) / VOTE_STEPS
        return out

    def probabilities(self, codes: Integers) -> Floats:
        """Return class probabilities, shape (b, k).

        Leaves tell few records apart. Where there are scores of all attributes that
        leaves do not vote with, scores rank the records of a leaf: they move its
        log-odds by less than the lead of the likeliest class, which stays so. Where
        scores have a weight among the votes, they may overturn it.
        """
        odds = self.log_odds(codes)
        if self.additive is None or self.answers is None or self.score_weight:
            return np.asarray(softmax(odds, axis=1))
        first, second = np.partition(odds, -2, axis=1)[:, :-3:-1].T
        limit = MOST_OF_LEAD * np.maximum(first - second, 1e-9)[:, None]
        scores = self.additive.whole(codes) / VOTE_STEPS
        scores -= scores.mean(axis=1, keepdims=True)
        ranked = odds + limit * np.tanh(RANKING * scores / limit)
        return np.asarray(softmax(ranked, axis=1))

    def whole_votes(self, codes: Integers) -> Integers:
        """Return `log_odds` in whole steps of 1 / VOTE_STEPS, shape (b, k).

        Scores that leaves stand for are whole steps already.
        """
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]), np.int64)
        for scores, leaves, where in self._by_tree(codes, self.scores):
            out += np.rint(VOTE_STEPS * scores).astype(np.int64)[leaves]
            if where.size:
                assert self.additive is not None
                assert self.answers is None
                out[where] += self.additive.whole(codes[where])
        return out

    def _by_tree(
        self, codes: Integers, tables: tuple[Floats, ...]
    ) -> Iterator[tuple[Floats, Integers, Integers]]:
        """Yield, by tree, its table, leaves of records, and rows left to scores."""
        n_classes = self.scores[0].shape[1]
        for tree, table in zip(self.trees, tables, strict=True):
            leaves = tree.leaves(codes)
            labels = np.concatenate(tree.labels)
            yield table, leaves, np.flatnonzero(labels[leaves] == n_classes)

    def _additive_votes(self, codes: Integers) -> Floats:
        """Return the votes of scores for records in leaves that stand for them."""
        assert self.additive is not None
        if self.answers is None:
            return np.asarray(self.additive.whole(codes) / VOTE_STEPS)
        return np.asarray(self.answers[self.additive.classes(codes)])


def boosting_weights(votes: Integers, class_codes: Integers) -> Integers:
    r"""Return boosting weights min(1, (1 - p) / p) of records, in units of 1 / UNIT.

    With votes F the odds against class y are :math:`\sum_{c \ne y} e^{F_c - F_y}`. They
    are added up in whole numbers from a table of exponentials. Vectorised exponentials
    may differ in their last bit from place to place; with the table, the weight of a
    record does not depend on its place.
    """
    of_class = np.take_along_axis(votes, class_codes[:, None], axis=1)
    gaps = np.clip(of_class - votes, 0, EXPONENTIALS.size - 1)
    # The class itself has a gap of zero, which counts as one.
    against = EXPONENTIALS[gaps].sum(axis=1) - EXPONENTIALS[0]
    return np.asarray(np.minimum(against * UNIT // EXPONENTIALS[0], UNIT))
