"""Growth of a drawn forest: trees that are drawn, counted and boosted in turn.

What a tree scores, and what is counted in its leaves, are sums over records of
functions of the record: of its attributes, its class, and what was released before. So
distinct records with their multiplicities are enough, and work follows their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmech import Measurement
from mmech.session import Session
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.draw import BitMaps, SelectedTree, select_tree
from mmech_rf.drawn.scores import AdditiveScores, release_scores, score_views
from mmech_rf.drawn.settings import DEFAULTS, DrawnSettings, Plan
from mmech_rf.drawn.trees import UNIT, SelectedTrees, boosting_weights
from mmech_rf.drawn.views import Views, public_views
from mmech_rf.estimator.records import EncodedRecords

# Provenance: as `DrawnSettings`.

SMOOTHING = 1.5
"""Smoothing: count added to a leaf, in scales of its noise, beside half a record."""

LEARNING_RATE = 0.5
"""Learning rate: part of the log-odds of its leaves that a further tree adds."""

LABEL_SMOOTHING = 8.0
"""Smoothing: weight of what all leaves of a label have in common, in units of the
smoothing of a leaf without a label."""


@dataclass(frozen=True, eq=False)
class ViewedRecords:
    """Views, and the cell of every record in each."""

    views: Views
    cells: NDArray[np.uint8]  # shape (v, M); sensitive, as are their bit maps
    maps: BitMaps


@dataclass(frozen=True)
class Grower:
    """Growth of a forest: releases its trees, for shares of a total cost."""

    domain_shape: tuple[int, ...]
    records: EncodedRecords  # sensitive
    n_classes: int
    n_records: float  # public, roughly
    session: Session
    settings: DrawnSettings = DEFAULTS

    def grow(self, cost: Fraction, plan: Plan) -> SelectedTrees:
        """Release a forest."""
        additive, further = None, []
        if plan.scores:
            additive = self._released_scores(cost * plan.scores, plan.corrections)
            if plan.by_score:
                further = score_views(additive)
        views = Views((*public_views(self.domain_shape).items, *further))
        cells = views.cells(self.records.codes)
        maps = BitMaps.of(views, cells, self.records.class_codes, self.n_classes)
        viewed = ViewedRecords(views, cells, maps)
        if plan.rounds:
            return self.boosted(cost, plan, viewed, additive)
        return self.voting(cost * plan.first, plan.votes, viewed, additive)

    def voting(
        self,
        cost: Fraction,
        n_trees: int,
        viewed: ViewedRecords,
        additive: AdditiveScores | None = None,
    ) -> SelectedTrees:
        """Release labelled trees that vote, each drawn as a whole.

        Calibration: noisy class counts of the leaves of a tree are the log-odds of its
        votes. Where there are scores, leaves may stand for them in place of a class;
        their records are counted together, by the class that scores say.
        """
        share, counted = cost / n_trees, self.settings.calibration_share
        predicted = None if additive is None else additive.classes(self.records.codes)
        classes = np.arange(self.n_classes if additive is not None else 0)
        forest = self._forest(additive)
        for number in range(n_trees):
            budget = share * (1 - counted)
            tree = self._draw_tree(budget, number, viewed, predicted=predicted)
            labels = np.concatenate(tree.labels)
            places = tree.leaves(self.records.codes)
            if predicted is not None:
                deferred = labels[places] == self.n_classes
                places = np.where(deferred, tree.n_leaves + predicted, places)
            labels = np.concatenate([labels, classes])
            measured = self._count(places, labels.size, share * counted, number)
            votes = self._labelled(measured, labels)
            n = tree.n_leaves
            forest = replace(
                _with_tree(forest, tree, votes[:n], measured),
                answers=votes[n:] if additive is not None else None,
            )
        return forest

    def boosted(
        self,
        cost: Fraction,
        plan: Plan,
        viewed: ViewedRecords,
        additive: AdditiveScores | None = None,
    ) -> SelectedTrees:
        """Release boosted trees, each for the records that those before it get wrong.

        The leaves of the first tree vote with the log-odds of their released class
        counts, or stand for scores of all attributes. Every further tree weighs records
        by min(1, (1 - p) / p), where earlier trees give the record's own class the
        probability p (MadaBoost). So no record counts for more than one. The weighted
        class counts of leaves are released and vote with their log-odds. Where the plan
        has no first tree, scores take its place, for all records.

        References
        ----------
        .. [1] Domingo, Watanabe, "MadaBoost: a modification of AdaBoost", COLT 2000.
        """
        codes = self.records.codes
        if not plan.first:
            assert additive is not None
            forest = replace(self._forest(additive), score_weight=1.0)
            return self._further(cost, plan, viewed, forest, additive.whole(codes))
        predicted = None if additive is None else additive.classes(codes)
        budget = cost * plan.first
        tree = self._draw_tree(
            budget * plan.first_selection, 0, viewed, predicted=predicted
        )
        counted = budget * (1 - plan.first_selection)
        measured, scores = self._count_leaves(tree, counted, 0)
        deferred = np.concatenate(tree.labels) == self.n_classes
        scores = np.where(deferred[:, None], 0.0, scores)
        forest = _with_tree(self._forest(additive), tree, scores, measured)
        return self._further(cost, plan, viewed, forest, forest.whole_votes(codes))

    def _further(
        self,
        cost: Fraction,
        plan: Plan,
        viewed: ViewedRecords,
        forest: SelectedTrees,
        votes: Integers,
    ) -> SelectedTrees:
        """Release further boosted trees, from the votes of what was before on."""
        budget, before = cost * plan.further, len(forest.trees)
        for number in range(before, before + plan.rounds):
            weights = boosting_weights(votes, self.records.class_codes)
            tree = self._draw_tree(
                budget * plan.selection, number, viewed, weights=weights
            )
            _, scores = self._count_leaves(
                tree, budget * (1 - plan.selection), number, weights
            )
            one = SelectedTrees((tree,), (scores,))
            forest = _with_tree(forest, tree, scores)
            votes += one.whole_votes(self.records.codes)
        return forest

    def _released_scores(self, cost: Fraction, corrections: int) -> AdditiveScores:
        """Release scores of all attributes, and what corrects them, in equal parts.

        Scores count twice what two attributes both say. Sums of records that are
        weighed as for a boosted tree, by what the scores before say, take that back
        (boosted naive Bayes [1]_).

        References
        ----------
        .. [1] Elkan, "Boosting and naive Bayesian learning", 1997.
        """
        records = self.records
        release = partial(
            release_scores,
            self.session,
            cost / (1 + corrections),
            self.domain_shape,
            records.codes,
            records.class_codes,
            n_classes=self.n_classes,
            n_records=self.n_records,
            settings=self.settings,
        )
        additive = release(multiplicities=records.multiplicities)
        for _ in range(corrections):
            votes = additive.whole(records.codes)
            weights = boosting_weights(votes, records.class_codes)
            more = release(multiplicities=records.multiplicities * weights, unit=UNIT)
            additive = additive.plus(more, LEARNING_RATE)
        return additive

    def _forest(self, additive: AdditiveScores | None) -> SelectedTrees:
        """Return a forest without trees, of what probabilities are made of."""
        weight = 0.0 if additive is None else self.settings.score_weight
        return SelectedTrees((), (), additive, score_weight=weight)

    def _draw_tree(
        self,
        cost: Fraction,
        number: int,
        viewed: ViewedRecords,
        *,
        weights: Integers | None = None,
        predicted: Integers | None = None,
    ) -> SelectedTree:
        return select_tree(
            viewed.views,
            viewed.cells,
            self.records.class_codes,
            n_classes=self.n_classes,
            n_records=self.n_records,
            n_rows=min(self.n_records, math.prod(self.domain_shape) * self.n_classes),
            multiplicities=self.records.multiplicities,
            weights=weights,
            unit=1 if weights is None else UNIT,
            predicted=predicted,
            maps=viewed.maps,
            **self.session.draw(cost, f"tree {number + 1} and its labels"),
        )

    def _count_leaves(
        self,
        tree: SelectedTree,
        cost: Fraction,
        number: int,
        weights: Integers | None = None,
    ) -> tuple[Measurement, Floats]:
        """Release class counts of leaves; return them, and votes."""
        measured = self._count(
            tree.leaves(self.records.codes), tree.n_leaves, cost, number, weights
        )
        first = weights is None
        votes = leaf_votes(measured, 1 if first else UNIT, even=not first)
        if not first:
            votes = LEARNING_RATE * (votes - votes.mean(axis=1, keepdims=True))
        return measured, votes

    def _labelled(self, measured: Measurement, labels: Integers) -> Floats:
        """Return votes of labelled leaves; zeros without a label.

        What scores say, in leaves that stand for them, follows the leaves.
        """
        known = np.flatnonzero(labels < self.n_classes)
        counts = replace(measured, values=measured.values[known])
        votes = np.zeros(measured.values.shape)
        votes[known] = labelled_votes(counts, labels[known], self.n_records)
        return votes

    def _count(
        self,
        places: Integers,
        n_places: int,
        cost: Fraction,
        number: int,
        weights: Integers | None = None,
    ) -> Measurement:
        """Release the class counts of the records, by their place in a tree."""
        counts = np.zeros((n_places, self.n_classes), np.int64)
        amount = self.records.multiplicities * (1 if weights is None else weights)
        np.add.at(counts, (places, self.records.class_codes), amount)
        what = f"class counts in the leaves of tree {number + 1}"
        unit = 1 if weights is None else UNIT
        return self.session.add_noise(counts, cost, what, unit)


def _with_tree(
    forest: SelectedTrees,
    tree: SelectedTree,
    votes: Floats,
    *counts: Measurement,
) -> SelectedTrees:
    """Return a forest with one more tree and its votes.

    Counts of its leaves are kept where all records count for one.
    """
    errors = [math.sqrt(np.max(m.variance)) for m in counts]
    return replace(
        forest,
        trees=(*forest.trees, tree),
        scores=(*forest.scores, votes),
        counts=(*forest.counts, *(np.asarray(m.values, float) for m in counts)),
        count_errors=(*forest.count_errors, *errors),
    )


# ---- class counts of leaves, and the log-odds that they vote with ----------------
#
# Counts are smoothed in proportion to the scale of their noise, which is known.


def noise_scale(measured: Measurement, unit: int) -> float:
    """Return the scale of the noise, in records."""
    return float(measured.scale / unit)


def leaf_votes(measured: Measurement, unit: int, *, even: bool = False) -> Floats:
    """Return log shares of the classes in every leaf.

    Smoothing: towards the shares in all leaves, or towards even ones.
    """
    counts = measured.values / unit
    n_classes = counts.shape[1]
    scale = noise_scale(measured, unit)
    added = SMOOTHING * scale + 0.5
    totals = np.maximum(counts.sum(axis=0), 1.0)
    shares = np.full(n_classes, 1.0 / n_classes) if even else totals / totals.sum()
    smooth = np.maximum(counts, 0.0) + added * shares
    return _logarithms(smooth)


def labelled_votes(measured: Measurement, labels: Integers, n_records: float) -> Floats:
    """Return log shares of the classes in g leaves with labels, shape (g, k).

    The label has the largest vote. Labels were drawn with
    more budget than counts have, so that counts never outvote a label: they are
    projected on the counts in which the label has the most (`with_largest`). Then they
    are shrunk towards the shares in all leaves of the same label. These shares are
    shrunk towards the accuracy of all labels. Both steps use the public number of
    records.
    """
    counts = measured.values.astype(float)
    g, k = counts.shape
    scale = noise_scale(measured, 1)
    added = LABEL_SMOOTHING * (SMOOTHING * scale + 0.5)
    together = np.zeros((k, k))
    np.add.at(together, labels, counts)
    common = with_largest(together, np.arange(k))
    accuracy = accuracy_of_labels(measured, labels, n_records)
    others = (1 - accuracy) / max(k - 1, 1)
    accurate = np.where(np.eye(k, dtype=bool), accuracy, others)
    leaves = np.sqrt(np.maximum(np.bincount(labels, minlength=k), 1))[:, None]
    common = np.maximum(common, 0.0) + added * leaves * accurate
    common /= common.sum(axis=1, keepdims=True)
    counts = with_largest(counts, labels)
    smooth = np.maximum(counts, 0.0) + added * common[labels]
    votes = _logarithms(smooth)
    votes[np.arange(g), labels] += 1e-9  # the label wins among equal shares
    return votes


def with_largest(counts: Floats, labels: Integers) -> Floats:
    """Return the nearest counts of which none is larger than the label's.

    By least squares: the label and the classes above it take their mean.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech_rf.drawn.grow import with_largest
    >>> with_largest(np.array([[2.0, 6.0, 1.0], [5.0, 3.0, -1.0]]), np.array([0, 0]))
    array([[ 4.,  4.,  1.],
           [ 5.,  3., -1.]])
    """
    rows = np.arange(len(labels))
    at_labels = counts[rows, labels]
    others = counts.copy()
    others[rows, labels] = -np.inf
    others = np.sort(others, axis=1)[:, :0:-1]  # the label itself comes last
    level, total = at_labels.copy(), at_labels.copy()
    for taken, other in enumerate(others.T, 2):
        above = other > level
        total[above] += other[above]
        level[above] = total[above] / taken
    capped = np.minimum(counts, level[:, None])
    capped[rows, labels] = level
    return capped


def accuracy_of_labels(
    measured: Measurement, labels: Integers, n_records: float
) -> float:
    """Return the accuracy of labels: the best linear estimate from class counts.

    Before anything is counted it may be anything from an even chance to one: the labels
    were drawn for being right. Parameters are those of `labelled_votes`.
    """
    counts = measured.values
    g, k = counts.shape
    even = 1.0 / k
    mean, variance = (1 + even) / 2, (1 - even) ** 2 / 12
    right = counts[np.arange(g), labels].sum()
    unbiased = (n_records + 2 * right - counts.sum()) / (2 * n_records)
    noise = noise_scale(measured, 1) * math.sqrt(g * k / 2) / n_records
    known = variance / (variance + noise**2) if k > 1 else 1.0
    accuracy = known * unbiased + (1 - known) * mean
    return float(min(max(accuracy, even), 1.0 - 1e-3))


def _logarithms(smooth: Floats) -> Floats:
    return np.asarray(np.log(smooth / smooth.sum(axis=1, keepdims=True)))
