"""A forest of trees that were drawn for what they get right, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mmech import Measurement
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.scores import (
    VOTE_STEPS,
    AdditiveScores,
    release_scores,
    score_views,
)
from mmech_rf.drawn.views import ScoreView, Views, most_terms, public_views
from mmech_rf.private.payments import Payments
from mmech_rf.private.votes import Experts

__all__ = ["Grower", "Plan", "SelectedTrees", "share_of"]

Floats = NDArray[np.float64]

BOOSTING = 12000.0
"""Records times epsilon that pay for boosting."""

LEAST_RECORDS = 15.0
"""Records times epsilon that pay for scores of all attributes, in units of `_effort`:
where the signal of all attributes together begins to stand out from noise."""

RECORDS = 6.0
"""What scores of all attributes get at least, in the same units."""

SHARE = Fraction(1, 33)
SHARE_WITH_BOOSTING = Fraction(1, 25)
"""What they get in any case, of epsilon, for each such unit."""

MOST_OF_SCORES = Fraction(1, 2)
MOST_WITH_BOOSTING = Fraction(3, 10)
"""Largest shares of scores, without and with boosting."""

SCORE_VIEWS = 1000.0
"""Records times epsilon from which scores are also views. Scores know the records that
they come from, and with fewer of them a tree would take that for a signal."""

FIRST_SHARE = Fraction(1, 2)
RECORDS_OF_FIRST = 6000
"""Share of the first tree with boosting; less where so many records times epsilon do.
The rest goes to further trees in equal parts."""

RECORDS_PER_ROUND = 2000.0
"""Records times epsilon that pay for each further tree."""

MOST_ROUNDS = 7

MOST_OF_TREE = Fraction(1)
"""A tree drawn with much more than this epsilon fits what is chance in its records;
scores take the rest."""

EPSILON_PER_VOTE = 1.5
"""Without scores, more epsilon than this pays for an odd number of trees that vote."""

MOST_VOTES = 9

CALIBRATION_SHARE = Fraction(3, 100)
"""Share of a tree's epsilon that counts what its labels get right."""

FIRST_SELECTION = Fraction(3, 4)
SELECTION = Fraction(1, 2)
"""Shares of the epsilon of the first and of a further tree that draw it; the rest
counts in its leaves."""

UNIT = 256
"""Weights of records are multiples of 1 / UNIT."""

EXPONENTIALS = np.rint(
    2.0**32 * np.exp(-np.arange(16 * VOTE_STEPS) / VOTE_STEPS)
).astype(np.int64)
EXPONENTIALS[-1] = 0
EXPONENTIALS.flags.writeable = False
"""Exponentials of minus so many steps, in units of 2**-32; none beyond the last."""

STEP = 0.5
"""What trees after the first add, of the log-odds in their leaves."""

SMOOTHING = 1.5
"""Smallest count added to a leaf, in scales of its noise, beside half a record."""


def number_of_votes(epsilon: Fraction) -> int:
    """Return how many labelled trees vote where boosting is not affordable."""
    votes = min(int(epsilon / Fraction(EPSILON_PER_VOTE)), MOST_VOTES)
    return max(1, votes - (votes + 1) % 2)


@dataclass(frozen=True)
class Plan:
    """Shares of the cost, from public numbers.

    Attributes
    ----------
    scores : Fraction
        Share of the sums that give scores of all attributes; zero for none.
    first : Fraction
        Share of the first tree; without boosting, of all trees in equal parts.
    further : Fraction
        Share of every further tree.
    rounds : int
        Number of further trees; none without boosting.
    votes : int
        Number of trees that vote, without boosting.
    by_score : bool
        Whether scores are also among the views that trees are made of.
    first_selection, selection : Fraction
        Shares of the first and of a further tree that draw it.
    """

    scores: Fraction
    first: Fraction
    further: Fraction
    rounds: int
    votes: int = 1
    by_score: bool = False
    first_selection: Fraction = FIRST_SELECTION
    selection: Fraction = SELECTION

    @classmethod
    def of(
        cls, n_records: float, epsilon: Fraction, n_features: int, n_classes: int
    ) -> Plan:
        """Return the plan for a budget of pure epsilon."""
        information = n_records * float(epsilon)
        effort = _effort(n_features, n_classes)
        scores, boosting = Fraction(0), information >= BOOSTING
        # Without boosting, of few attributes the public sums say as much.
        few = most_terms(n_features) >= n_features and not boosting
        if information >= LEAST_RECORDS * effort and not few:
            share = SHARE_WITH_BOOSTING if boosting else SHARE
            scores = max(
                share_of(RECORDS * effort, information),
                share_of(float(share) * effort, 1.0),
            )
        by_score = scores > 0 and information >= SCORE_VIEWS
        if not boosting and not scores:
            votes = number_of_votes(epsilon)
            return cls(scores, Fraction(1), Fraction(0), rounds=0, votes=votes)
        if not boosting:
            scores = max(min(scores, MOST_OF_SCORES), 1 - MOST_OF_TREE / epsilon)
            return cls(scores, 1 - scores, Fraction(0), rounds=0, by_score=by_score)
        scores = min(scores, MOST_WITH_BOOSTING)
        first = min(FIRST_SHARE, share_of(RECORDS_OF_FIRST, information))
        rest = 1 - scores - first
        rounds = int(np.clip(information * rest // RECORDS_PER_ROUND, 1, MOST_ROUNDS))
        return cls(scores, first, rest / rounds, rounds, by_score=by_score)


def _effort(n_features: int, n_classes: int) -> float:
    """Return what noise takes from scores of all attributes, as public sizes say.

    The norm of noise in d + 1 sums of each of k classes grows with d + 1, and the
    signal that as many attributes have together with its root.
    """
    return float(n_classes * np.sqrt(n_features + 1))


def share_of(part: float, whole: float) -> Fraction:
    """Return a share, at least a thousandth, with a small denominator."""
    return Fraction(max(1, int(1000 * part / whole)), 1000)


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
    """

    trees: tuple[SelectedTree, ...]
    scores: tuple[Floats, ...]
    additive: AdditiveScores | None = None
    accuracy: float | None = None

    voting = "trees"

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]))
        for tree, scores in zip(self.trees, self.scores, strict=True):
            leaves = tree.leaves(codes)
            out += scores[leaves]
            where = self._deferred(tree, leaves)
            if where.size:
                out[where] += self._additive_votes(codes[where])
        return out

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
                out[where] += self.additive.whole(codes[where])
        return out

    def _deferred(
        self, tree: SelectedTree, leaves: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return which records are in leaves that stand for the scores."""
        if self.additive is None:
            return np.zeros(0, np.int64)
        n_classes = self.scores[0].shape[1]
        return np.flatnonzero(np.concatenate(tree.labels)[leaves] == n_classes)

    def _additive_votes(self, codes: NDArray[np.int64]) -> Floats:
        assert self.additive is not None
        if self.accuracy is None:
            return np.asarray(self.additive.whole(codes) / VOTE_STEPS)
        n_classes = self.scores[0].shape[1]
        return _label_scores(self.additive.classes(codes), self.accuracy, n_classes)


@dataclass(frozen=True, eq=False)
class Sight:
    """Views, and the cell of every record in each.

    Attributes
    ----------
    views : Views
    cells : ndarray of uint8, shape (v, N)
        Sensitive.
    """

    views: Views
    cells: NDArray[np.uint8]

    def and_of(self, views: Sequence[ScoreView], codes: NDArray[np.int64]) -> Sight:
        """Return this with further views."""
        further = Views(tuple(views))
        cells = np.concatenate([self.cells, further.cells(codes)])
        return Sight(Views((*self.views.items, *further.items)), cells)


@dataclass(frozen=True)
class Grower:
    """Releases trees of one set of records, for shares of a total cost.

    Attributes
    ----------
    domain_shape : tuple of int, length d
        Sizes of the attributes.
    codes, class_codes : ndarray of int64, shapes (N, d) and (N,)
        Records. Sensitive.
    n_classes : int
        Number of classes.
    n_records : float
        Public number of records, roughly.
    payments : Payments
        What releases are made and paid with.
    """

    domain_shape: tuple[int, ...]
    codes: NDArray[np.int64]
    class_codes: NDArray[np.int64]
    n_classes: int
    n_records: float
    payments: Payments

    def grow(self, cost: Fraction, plan: Plan) -> SelectedTrees:
        """Release a forest."""
        additive, sight = None, self._sight
        if plan.scores:
            additive = release_scores(
                self.payments,
                cost * plan.scores,
                self.domain_shape,
                self.codes,
                self.class_codes,
                n_classes=self.n_classes,
                n_records=self.n_records,
            )
            if plan.by_score:
                sight = sight.and_of(score_views(additive), self.codes)
        if plan.rounds:
            return self.boosted(cost, plan, sight, additive)
        return self.voting(cost * plan.first, plan.votes, sight, additive)

    def voting(
        self,
        cost: Fraction,
        n_trees: int,
        sight: Sight,
        additive: AdditiveScores | None = None,
    ) -> SelectedTrees:
        """Release labelled trees, each drawn as a whole.

        A count of what each gets right weighs its vote. Where there are scores, the
        leaves of one tree may stand for them.
        """
        share = cost / n_trees
        predicted = None if additive is None else additive.classes(self.codes)
        trees, scores, accuracy = [], [], None
        for number in range(n_trees):
            budget = share * (1 - CALIBRATION_SHARE)
            tree = self._draw(budget, number, sight, predicted=predicted)
            labels = np.concatenate(tree.labels)
            found = labels[tree.leaves(self.codes)]
            if predicted is not None:
                found = np.where(found == self.n_classes, predicted, found)
            right = found == self.class_codes
            measured = self.payments.release(
                np.array([right.sum(), right.size - right.sum()]),
                share * CALIBRATION_SHARE,
                f"counts of right and wrong labels of tree {number + 1}",
            )
            accuracy = _accuracy(measured, self.n_classes)
            trees.append(tree)
            scores.append(_label_scores(labels, accuracy, self.n_classes))
        return SelectedTrees(
            tuple(trees),
            tuple(scores),
            additive,
            None if additive is None else accuracy,
        )

    def boosted(
        self,
        cost: Fraction,
        plan: Plan,
        sight: Sight,
        additive: AdditiveScores | None = None,
    ) -> SelectedTrees:
        """Release trees, each for the records that those before it get wrong.

        The leaves of the first tree vote with the log-odds of their released class
        counts, or stand for scores of all attributes. Every further tree weighs records
        by min(1, (1 - p) / p), with p the probability that the trees before give to the
        record's own class (MadaBoost), so that no record counts for more than one. The
        weighted class counts of leaves are released and vote with their log-odds.

        References
        ----------
        .. [1] Domingo, Watanabe, "MadaBoost: a modification of AdaBoost", COLT 2000.
        """
        predicted = None if additive is None else additive.classes(self.codes)
        budget = cost * plan.first
        tree = self._draw(budget * plan.first_selection, 0, sight, predicted=predicted)
        scores = self._count(tree, budget * (1 - plan.first_selection), 0)
        scores[np.concatenate(tree.labels) == self.n_classes] = 0.0
        forest = SelectedTrees((tree,), (scores,), additive)
        votes = forest.whole_votes(self.codes)
        budget = cost * plan.further
        for number in range(1, plan.rounds + 1):
            weights = _weights(votes, self.class_codes)
            tree = self._draw(budget * plan.selection, number, sight, weights=weights)
            scores = self._count(tree, budget * (1 - plan.selection), number, weights)
            one = SelectedTrees((tree,), (scores,))
            trees = (*forest.trees, tree)
            forest = SelectedTrees(trees, (*forest.scores, scores), additive)
            votes += one.whole_votes(self.codes)
        return forest

    @property
    def _sight(self) -> Sight:
        views = public_views(self.domain_shape)
        return Sight(views, views.cells(self.codes))

    def _draw(
        self,
        cost: Fraction,
        number: int,
        sight: Sight,
        *,
        weights: NDArray[np.int64] | None = None,
        predicted: NDArray[np.int64] | None = None,
    ) -> SelectedTree:
        return self.payments.draw_tree(
            cost,
            f"tree {number + 1} and its labels",
            sight.views,
            sight.cells,
            self.class_codes,
            n_classes=self.n_classes,
            n_records=self.n_records,
            weights=weights,
            unit=1 if weights is None else UNIT,
            predicted=predicted,
        )

    def _count(
        self,
        tree: SelectedTree,
        cost: Fraction,
        number: int,
        weights: NDArray[np.int64] | None = None,
    ) -> Floats:
        """Release the class counts of leaves; return what they vote."""
        counts = np.zeros((tree.n_leaves, self.n_classes), np.int64)
        amount = np.int64(1) if weights is None else weights
        np.add.at(counts, (tree.leaves(self.codes), self.class_codes), amount)
        unit = 1 if weights is None else UNIT
        what = f"class counts in the leaves of tree {number + 1}"
        measured = self.payments.release(counts, cost, what, unit)
        if weights is None:
            return _log_shares(measured, unit)
        logarithms = _log_shares(measured, unit, even=True)
        centred = logarithms - logarithms.mean(axis=1, keepdims=True)
        return np.asarray(STEP * centred)


def _weights(
    votes: NDArray[np.int64], class_codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    r"""Return min(1, (1 - p) / p) of every record, in units of 1 / UNIT.

    With votes F the odds against class y are :math:`\sum_{c \ne y} e^{F_c - F_y}`. They
    are added up in whole numbers from a table of exponentials, so that the weight of a
    record does not depend on where it stands: vectorised exponentials may differ in
    their last bit from place to place.
    """
    own = np.take_along_axis(votes, class_codes[:, None], axis=1)
    gaps = np.clip(own - votes, 0, EXPONENTIALS.size - 1)
    # The class itself has a gap of zero, which counts as one.
    against = EXPONENTIALS[gaps].sum(axis=1) - EXPONENTIALS[0]
    return np.asarray(np.minimum(against * UNIT // EXPONENTIALS[0], UNIT))


def _accuracy(measured: Measurement, n_classes: int) -> float:
    """Return how often labels are right, from noisy counts of right and wrong ones."""
    added = max(_deviation(measured), 1.0)
    right, wrong = np.maximum(measured.values, 0.0)
    even = 1.0 / n_classes
    # Never below an even chance: the labels were drawn for being right.
    accuracy = max((right + added * even) / (right + wrong + added), even)
    return float(min(accuracy, 1.0 - 1e-3))


def _label_scores(labels: NDArray[np.int64], accuracy: float, n_classes: int) -> Floats:
    """Return log-odds of labels that are right so often; none beyond the classes."""
    out = np.full((labels.size, n_classes), np.log((1 - accuracy) / (n_classes - 1)))
    known = np.flatnonzero(labels < n_classes)
    out[known, labels[known]] = np.log(accuracy) + 1e-9
    out[labels == n_classes] = 0.0
    return out


def _log_shares(measured: Measurement, unit: int, *, even: bool = False) -> Floats:
    """Return log shares of the classes in every leaf.

    Smoothed towards the shares in all leaves, or towards even ones.
    """
    counts = measured.values / unit
    n_classes = counts.shape[1]
    # Of Gaussian noise: what Laplace noise of the same variance has as its scale.
    gaussian = measured.entry.currency == "rho"
    scale = measured.scale / math.sqrt(2) if gaussian else measured.scale
    added = SMOOTHING * scale / unit + 0.5
    totals = np.maximum(counts.sum(axis=0), 1.0)
    shares = np.full(n_classes, 1.0 / n_classes) if even else totals / totals.sum()
    smooth = np.maximum(counts, 0.0) + added * shares
    return np.asarray(np.log(smooth / smooth.sum(axis=1, keepdims=True)))


def _deviation(measured: Measurement) -> float:
    return float(np.sqrt(measured.variance))
