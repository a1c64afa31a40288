"""A forest of trees that were drawn for what they get right, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mmech.noise import discrete_laplace_variance
from mmech_rf.classifiers._experts import Experts
from mmech_rf.classifiers._payments import NoisyCounts, Payments
from mmech_rf.tree_selection import SelectedTree
from mmech_rf.views import FLAT, View, Views, public_views

__all__ = ["CHOSEN", "DRAWN", "Grower", "Plan", "SelectedTrees", "share_of"]

Floats = NDArray[np.float64]

BOOSTING = 4000.0
"""Records times epsilon that pay for boosting."""

TABLES_SHARE = Fraction(20, 100)
RECORDS_PER_TABLE = 250
FIRST_SHARE = Fraction(38, 100)
RECORDS_OF_FIRST = 5000
CHOICE_SHARE = Fraction(2, 100)
"""Shares of epsilon, with boosting: one-way tables, the first tree, and the choice
between them. The rest goes to further trees in equal parts. Tables and first tree get
less where so many records times epsilon, for each attribute and all in all, do."""

RECORDS_PER_ROUND = 2000.0
"""Records times epsilon that pay for each further tree."""

MOST_ROUNDS = 7

EPSILON_PER_VOTE = 1.5
"""A tree drawn with much more than this fits what is chance in its records; a larger
budget pays for an odd number of trees that vote."""

MOST_VOTES = 9

CALIBRATION_SHARE = Fraction(3, 100)
"""Share of a tree's epsilon that counts what its labels get right."""

FIRST_SELECTION = Fraction(3, 4)
SELECTION = Fraction(1, 2)
"""Shares of the epsilon of the first and of a further tree that draw it; the rest
counts in its leaves."""

RECORDS_PER_CELL = 5.0
"""Records per cell that a finer one-way table needs, in scales of its noise."""

UNIT = 256
"""Weights of records are multiples of 1 / UNIT."""

VOTE_STEPS = 256
"""Weights follow from votes in whole steps of 1 / VOTE_STEPS."""

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

CHOSEN = "the better start of a tree and one-way tables"
"""Words for the choice between two released starts."""

DRAWN = "and its labels"
"""How the words for a release end that was drawn, rather than measured with noise."""


def number_of_votes(epsilon: Fraction) -> int:
    """Return how many labelled trees vote where boosting is not affordable."""
    votes = min(int(epsilon / Fraction(EPSILON_PER_VOTE)), MOST_VOTES)
    return max(1, votes - (votes + 1) % 2)


@dataclass(frozen=True)
class Plan:
    """Shares of the cost with boosting, from public numbers.

    Attributes
    ----------
    tables, first, choice : Fraction
        Shares of one-way tables, of the first tree, and of the choice between them.
    further : Fraction
        Share of every further tree.
    rounds : int
        Number of further trees; none without boosting.
    first_selection, selection : Fraction
        Shares of the first and of a further tree that draw it.
    """

    tables: Fraction
    first: Fraction
    choice: Fraction
    further: Fraction
    rounds: int
    first_selection: Fraction = FIRST_SELECTION
    selection: Fraction = SELECTION

    @classmethod
    def of(cls, n_records: float, epsilon: Fraction, n_features: int) -> Plan:
        """Return the plan for a budget of pure epsilon."""
        information = n_records * float(epsilon)
        if information < BOOSTING:
            return cls(Fraction(0), Fraction(0), Fraction(0), Fraction(0), 0)
        tables = min(
            TABLES_SHARE, share_of(RECORDS_PER_TABLE * n_features, information)
        )
        first = min(FIRST_SHARE, share_of(RECORDS_OF_FIRST, information))
        rest = 1 - tables - first - CHOICE_SHARE
        rounds = int(np.clip(information * rest // RECORDS_PER_ROUND, 1, MOST_ROUNDS))
        return cls(tables, first, CHOICE_SHARE, rest / rounds, rounds)


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
        Log-odds of the leaves of each tree.
    """

    trees: tuple[SelectedTree, ...]
    scores: tuple[Floats, ...]

    voting = "trees"

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]))
        for tree, scores in zip(self.trees, self.scores, strict=True):
            out += scores[tree.leaves(codes)]
        return out

    def whole_votes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return `log_odds` in whole steps of 1 / VOTE_STEPS, shape (b, k)."""
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]), np.int64)
        for tree, scores in zip(self.trees, self.scores, strict=True):
            steps = np.rint(VOTE_STEPS * scores).astype(np.int64)
            out += steps[tree.leaves(codes)]
        return out


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
        """Release a forest; without boosting, the cost is pure epsilon."""
        if plan.rounds:
            return self.boosted(cost, plan)
        return self.voting(cost, number_of_votes(cost))

    def voting(self, cost: Fraction, n_trees: int) -> SelectedTrees:
        """Release labelled trees, each drawn as a whole.

        A count of what each gets right weighs its vote.
        """
        share = cost / n_trees
        trees, scores = [], []
        for number in range(n_trees):
            tree = self._draw(share * (1 - CALIBRATION_SHARE), number)
            labels = np.concatenate(tree.labels)
            right = labels[tree.leaves(self.codes)] == self.class_codes
            measured = self.payments.release(
                np.array([right.sum(), right.size - right.sum()]),
                share * CALIBRATION_SHARE,
                f"counts of right and wrong labels of tree {number + 1}",
            )
            trees.append(tree)
            scores.append(_label_scores(tree, measured, self.n_classes))
        return SelectedTrees(tuple(trees), tuple(scores))

    def boosted(self, cost: Fraction, plan: Plan) -> SelectedTrees:
        """Release trees, each for the records that those before it get wrong.

        The first is the better of a tree and of one-way tables of all attributes,
        which is the better start where many attributes each say a little; a small
        share of epsilon pays for the choice, by what they get right. Every further
        tree weighs records by min(1, (1 - p) / p), with p the probability that the
        trees before give to the record's own class (MadaBoost), so that no record
        counts for more than one. The weighted class counts of leaves are released and
        vote with their log-odds.

        References
        ----------
        .. [1] Domingo, Watanabe, "MadaBoost: a modification of AdaBoost", COLT 2000.
        """
        tables = self._tables(cost * plan.tables)
        tree = self._draw(cost * plan.first * plan.first_selection, 0)
        scores = self._count(tree, cost * plan.first * (1 - plan.first_selection), 0)
        starts = (SelectedTrees((tree,), (scores,)), tables)
        right = [
            int((start.log_odds(self.codes).argmax(axis=1) == self.class_codes).sum())
            for start in starts
        ]
        forest = starts[self.payments.choose(right, cost * plan.choice, CHOSEN)]
        votes = forest.whole_votes(self.codes)
        budget = cost * plan.further
        for number in range(1, plan.rounds + 1):
            weights = _weights(votes, self.class_codes)
            tree = self._draw(budget * plan.selection, number, weights)
            scores = self._count(tree, budget * (1 - plan.selection), number, weights)
            forest = SelectedTrees((*forest.trees, tree), (*forest.scores, scores))
            votes += SelectedTrees((tree,), (scores,)).whole_votes(self.codes)
        return forest

    @cached_property
    def _views(self) -> Views:
        return public_views(self.domain_shape)

    @cached_property
    def _cells(self) -> NDArray[np.uint8]:
        return self._views.cells(self.codes)

    def _draw(
        self, cost: Fraction, number: int, weights: NDArray[np.int64] | None = None
    ) -> SelectedTree:
        return self.payments.draw_tree(
            self._views,
            self._cells,
            self.class_codes,
            cost,
            f"tree {number + 1} {DRAWN}",
            n_classes=self.n_classes,
            n_records=self.n_records,
            weights=weights,
            unit=1 if weights is None else UNIT,
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
            logarithms, _ = _log_shares(measured, unit)
            return logarithms
        logarithms, _ = _log_shares(measured, unit, even=True)
        centred = logarithms - logarithms.mean(axis=1, keepdims=True)
        return np.asarray(STEP * centred)

    def _tables(self, cost: Fraction) -> SelectedTrees:
        """Release the class counts of every attribute; they vote as independent."""
        d = len(self.domain_shape)
        finest = self.n_records * self.payments.strength(cost / d) / RECORDS_PER_CELL
        chosen: dict[int, View] = {}
        for view in self._views.items:
            if view.family == "single" and (
                view.attributes[0] not in chosen or view.size <= max(finest, FLAT)
            ):
                chosen[view.attributes[0]] = view
        if not chosen:  # every attribute has one cell
            chosen[0] = self._views.items[0]
        trees, scores = [], []
        totals = np.zeros(self.n_classes)
        for i, view in chosen.items():
            whole = (np.zeros(1, np.int64),) * view.size
            tree = SelectedTree(view, (None,) * view.size, whole)
            counts = np.zeros((view.size, self.n_classes), np.int64)
            np.add.at(counts, (view.cells(self.codes), self.class_codes), 1)
            what = f"class counts of attribute {i + 1}"
            measured = self.payments.release(counts, cost / len(chosen), what)
            logarithms, shares = _log_shares(measured, 1)
            trees.append(tree)
            # log p(c | x) - log p(c), which is log p(x | c) up to a constant.
            scores.append(logarithms - np.log(shares))
            totals += shares
        scores[0] = scores[0] + np.log(totals / totals.sum())
        return SelectedTrees(tuple(trees), tuple(scores))


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


def _label_scores(tree: SelectedTree, measured: NoisyCounts, n_classes: int) -> Floats:
    """Return log-odds of the labels: how often they are right, from noisy counts."""
    added = max(_deviation(measured), 1.0)
    right, wrong = np.maximum(measured.values, 0.0)
    even = 1.0 / n_classes
    # Never below an even chance: the labels were drawn for being right.
    accuracy = max((right + added * even) / (right + wrong + added), even)
    accuracy = min(accuracy, 1.0 - 1e-3)
    labels = np.concatenate(tree.labels)
    out = np.full((labels.size, n_classes), np.log((1 - accuracy) / (n_classes - 1)))
    out[np.arange(labels.size), labels] = np.log(accuracy) + 1e-9
    return out


def _log_shares(
    measured: NoisyCounts, unit: int, *, even: bool = False
) -> tuple[Floats, Floats]:
    """Return log shares of the classes in every leaf, and in all leaves.

    Smoothed towards the shares in all leaves, or towards even ones.
    """
    counts = measured.values / unit
    n_classes = counts.shape[1]
    added = SMOOTHING * measured.scale / unit + 0.5
    totals = np.maximum(counts.sum(axis=0), 1.0)
    shares = np.full(n_classes, 1.0 / n_classes) if even else totals / totals.sum()
    smooth = np.maximum(counts, 0.0) + added * shares
    return np.log(smooth / smooth.sum(axis=1, keepdims=True)), shares


def _deviation(measured: NoisyCounts) -> float:
    return float(np.sqrt(discrete_laplace_variance(measured.scale)))
