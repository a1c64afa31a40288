"""Growth of a drawn forest: trees that are drawn, counted and boosted in turn.

What a tree scores, and what is counted in its leaves, are sums over records of
functions of the record: of its attributes, its class, and what was released before. So
distinct records with their multiplicities are enough, and work follows their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mmech import Measurement
from mmech.session import Session
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.bits import BitMaps
from mmech_rf.drawn.counts import labelled_votes, leaf_votes
from mmech_rf.drawn.draw import SelectedTree, select_tree
from mmech_rf.drawn.plan import Plan
from mmech_rf.drawn.scores import AdditiveScores, release_scores, score_views
from mmech_rf.drawn.settings import DEFAULTS, DrawnSettings
from mmech_rf.drawn.trees import UNIT, SelectedTrees, boosting_weights
from mmech_rf.drawn.views import ScoreView, Views, public_views
from mmech_rf.private.records import EncodedRecords


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
        seen = self._viewed(further)
        if plan.rounds:
            return self.boosted(cost, plan, seen, additive)
        return self.voting(cost * plan.first, plan.votes, seen, additive)

    def voting(
        self,
        cost: Fraction,
        n_trees: int,
        seen: ViewedRecords,
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
            tree = self._draw_tree(budget, number, seen, predicted=predicted)
            labels = np.concatenate(tree.labels)
            places = tree.leaves(self.records.codes)
            if predicted is not None:
                deferred = labels[places] == self.n_classes
                places = np.where(deferred, tree.n_leaves + predicted, places)
            labels = np.concatenate([labels, classes])
            measured = self._count(places, labels.size, share * counted, number)
            votes, errors = self._labelled(measured, labels)
            n = tree.n_leaves
            scored = additive is not None
            forest = replace(
                _with_tree(forest, tree, votes[:n], errors[:n]),
                answers=votes[n:] if scored else None,
                answer_errors=errors[n:] if scored else None,
            )
        return forest

    def boosted(
        self,
        cost: Fraction,
        plan: Plan,
        seen: ViewedRecords,
        additive: AdditiveScores | None = None,
    ) -> SelectedTrees:
        """Release boosted trees, each for the records that those before it get wrong.

        The leaves of the first tree vote with the log-odds of their released class
        counts, or stand for scores of all attributes. Every further tree weighs records
        by min(1, (1 - p) / p), with p the probability that the trees before give to the
        record's own class (MadaBoost), so that no record counts for more than one. The
        weighted class counts of leaves are released and vote with their log-odds. Where
        the plan has no first tree, scores take its place, for all records.

        References
        ----------
        .. [1] Domingo, Watanabe, "MadaBoost: a modification of AdaBoost", COLT 2000.
        """
        codes = self.records.codes
        if not plan.first:
            assert additive is not None
            forest = replace(self._forest(additive), score_weight=1.0)
            return self._further(cost, plan, seen, forest, additive.whole(codes))
        predicted = None if additive is None else additive.classes(codes)
        budget = cost * plan.first
        tree = self._draw_tree(
            budget * plan.first_selection, 0, seen, predicted=predicted
        )
        counted = budget * (1 - plan.first_selection)
        found = self._count_leaves(tree, counted, 0)
        deferred = np.concatenate(tree.labels) == self.n_classes
        scores, errors = (np.where(deferred[:, None], 0.0, own) for own in found)
        forest = self._forest(additive)
        forest = _with_tree(forest, tree, scores, errors)
        return self._further(cost, plan, seen, forest, forest.whole_votes(codes))

    def _further(
        self,
        cost: Fraction,
        plan: Plan,
        seen: ViewedRecords,
        forest: SelectedTrees,
        votes: Integers,
    ) -> SelectedTrees:
        """Release further boosted trees, from the votes of what was before on."""
        budget, before = cost * plan.further, len(forest.trees)
        for number in range(before, before + plan.rounds):
            weights = boosting_weights(votes, self.records.class_codes)
            tree = self._draw_tree(
                budget * plan.selection, number, seen, weights=weights
            )
            scores, errors = self._count_leaves(
                tree, budget * (1 - plan.selection), number, weights
            )
            one = SelectedTrees((tree,), (scores,))
            forest = _with_tree(forest, tree, scores, errors)
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
            additive = additive.plus(more, self.settings.learning_rate)
        return additive

    def _forest(self, additive: AdditiveScores | None) -> SelectedTrees:
        """Return a forest without trees, of what probabilities are made of."""
        ranking = self.settings.ranking
        weight = 0.0 if additive is None else self.settings.score_weight
        return SelectedTrees((), (), additive, ranking=ranking, score_weight=weight)

    def _viewed(self, further: Sequence[ScoreView]) -> ViewedRecords:
        """Return the records in public views and further ones."""
        views = Views((*public_views(self.domain_shape).items, *further))
        cells = views.cells(self.records.codes)
        maps = BitMaps.of(views, cells, self.records.class_codes, self.n_classes)
        return ViewedRecords(views, cells, maps)

    def _draw_tree(
        self,
        cost: Fraction,
        number: int,
        seen: ViewedRecords,
        *,
        weights: Integers | None = None,
        predicted: Integers | None = None,
    ) -> SelectedTree:
        return select_tree(
            seen.views,
            seen.cells,
            self.records.class_codes,
            n_classes=self.n_classes,
            n_records=self.n_records,
            n_rows=min(self.n_records, math.prod(self.domain_shape) * self.n_classes),
            multiplicities=self.records.multiplicities,
            weights=weights,
            unit=1 if weights is None else UNIT,
            predicted=predicted,
            maps=seen.maps,
            third_level=self.settings.third_level,
            **self.session.draw(cost, f"tree {number + 1} and its labels"),
        )

    def _count_leaves(
        self,
        tree: SelectedTree,
        cost: Fraction,
        number: int,
        weights: Integers | None = None,
    ) -> tuple[Floats, Floats]:
        """Release the class counts of leaves; return votes and standard errors."""
        measured = self._count(
            tree.leaves(self.records.codes), tree.n_leaves, cost, number, weights
        )
        first = weights is None
        votes, errors = leaf_votes(measured, 1 if first else UNIT, even=not first)
        if not first:
            rate = self.settings.learning_rate
            votes = rate * (votes - votes.mean(axis=1, keepdims=True))
            errors = rate * errors
        return votes, errors

    def _labelled(
        self, measured: Measurement, labels: Integers
    ) -> tuple[Floats, Floats]:
        """Return votes of labelled leaves, and errors; zeros without a label.

        What scores say, in leaves that stand for them, follows the leaves.
        """
        known = np.flatnonzero(labels < self.n_classes)
        counts = replace(measured, values=measured.values[known])
        votes, errors = np.zeros((2, *measured.values.shape))
        votes[known], errors[known] = labelled_votes(
            counts, labels[known], self.n_records
        )
        return votes, errors

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
    errors: Floats,
) -> SelectedTrees:
    """Return a forest with one more tree, its votes and their standard errors."""
    return replace(
        forest,
        trees=(*forest.trees, tree),
        scores=(*forest.scores, votes),
        errors=(*forest.errors, errors),
    )
