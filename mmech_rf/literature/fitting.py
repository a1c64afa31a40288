"""One fit of a recipe: what is paid for, drawn and released, in this order."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from mmech import PrivacyLedger
from mmech.noise import LAPLACE
from mmech.noise.seam import in_trees, paid_together
from mmech.privacy.ledger import LedgerEntry
from mmech.privacy.neighbours import Relation
from mmech.release import measure
from mmech.selection import choose_rows
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import grow_random_forest
from mmech_rf.forest.voting import weight_votes
from mmech_rf.literature.budgets import Budget, multiplicities, tree_epsilon
from mmech_rf.literature.grow import Grower, grow_by_support
from mmech_rf.literature.leaves import (
    count_leaves,
    draw_leaf_labels,
    join,
    keyed_numbers,
    leaf_votes,
    picked,
    release_levels,
    signal_to_noise,
)
from mmech_rf.literature.scores import score_for


class Fitting:
    """One fit of a recipe: pays for releases and draws them.

    The model knows the ledger, the relation and where noise comes from. Records, (N, d)
    and (N,), are sensitive, as are those without labels, (M, d), where more than labels
    is protected; its seed is of what is random and public.
    """

    def __init__(
        self, model: Any, records: EncodedRecords, n_levels: int, n_records: float
    ) -> None:
        self.model, self.recipe, self.schema = model, model.recipe_, model.schema_
        self.codes, self.class_codes = records.one_by_one()
        self.n_levels, self.n_records = n_levels, n_records
        public = model._again and self.recipe.unlabelled
        self.unlabelled = self.codes if public else model._unlabelled
        self.rng = np.random.default_rng(model._seed)
        self.session = model._session
        self.noise = self.session.noise
        self.outer = model._terms.relation
        self.sampled = self.recipe.records == "poisson"
        # Bags are paid for at their own price, as a whole.
        self.relation = Relation() if self.sampled else self.outer
        self.ledger = self.session.ledger
        self.times = 1

    def pruned(
        self, n_trees: int, epsilon: Fraction
    ) -> tuple[tuple[Forest, Floats], tuple[Forest, Floats]]:
        """Release all trees and their leaves; return them before and after pruning."""
        share, prune = PRUNINGS[self.recipe.pruning]
        trees = epsilon * (1 - share)
        grown = self.trees(n_trees, trees)
        least = self.budget(n_trees, trees).counts[-1]
        return grown, prune(self, *grown, epsilon - trees or least)

    def budget(self, n_trees: int, epsilon: Fraction) -> Budget:
        """Return what the releases of one tree cost."""
        recipe = self.recipe
        own = tree_epsilon(recipe.records, epsilon, n_trees, self.outer)
        return recipe.budget(own, self.n_levels)

    def trees(self, n_trees: int, epsilon: Fraction) -> tuple[Forest, Floats]:
        """Release all trees and their leaves."""
        recipe, first = self.recipe, n_trees
        if recipe.structure in ("two-phase", "two-ensembles"):
            first = max(1, math.floor(recipe.first_phase * n_trees))
        # The second of two ensembles costs nothing.
        n_paid = first if recipe.structure == "two-ensembles" else n_trees
        budget = self.budget(n_paid, epsilon)
        self.times = n_paid if recipe.records == "all" else 1
        if self.sampled:
            what = f"{n_trees} trees of random samples of the records"
            self.session.pay(LedgerEntry(epsilon, what, "random_samples"), self.ledger)
        weights = multiplicities(recipe.records, len(self.codes), n_paid, self.noise)
        forest, counts = self._phase(weights[:, :first], budget, 1)
        if first == n_trees:
            return forest, counts
        if recipe.structure == "two-ensembles":
            return self._second_ensemble(forest, counts, n_trees - first, budget)
        labels = counts.argmax(axis=1)
        predicted = labels[forest.apply(self.codes) + forest.leaf_offsets[:-1]]
        wrong = (predicted != self.class_codes[:, None]).sum(axis=1)
        later, more = self._phase(weights[:, first:] * wrong[:, None], budget, first)
        return join(forest, later), np.concatenate([counts, more])

    def _second_ensemble(
        self, forest: Forest, counts: Floats, n_trees: int, budget: Budget
    ) -> tuple[Forest, Floats]:
        """Add trees whose leaves count the labels that the first ensemble gives."""
        public = self.unlabelled
        assert public is not None  # the recipe asks for them
        votes = weight_votes(
            forest, leaf_votes(forest, counts, self.recipe.vote), public
        )
        ties = keyed_numbers(public, votes.shape[1], self.model._tie_key)
        labels = (votes + 1e-9 * ties).argmax(axis=1)
        all_of_them = np.ones((len(public), n_trees), np.int64)
        with in_trees(self.times):
            second = self._structure(all_of_them, budget, 1, second=True)
        more = count_leaves(second, public, labels, counts.shape[1], all_of_them)
        if self.model._again:
            more = self.model._grown.counts[len(counts) :]
        return join(forest, second), np.concatenate([counts, more])

    def _phase(
        self, weights: Integers, budget: Budget, unit: int
    ) -> tuple[Forest, Floats]:
        bags = (f"trees of unit {unit}", weights.shape[1]) if self.sampled else None
        with in_trees(self.times, bags):
            forest = self._structure(weights, budget, unit)
            return forest, self._leaves(forest, weights, budget, unit)

    def _structure(
        self, weights: Integers, budget: Budget, unit: int, second: bool = False
    ) -> Forest:
        recipe, n_trees = self.recipe, weights.shape[1]
        if recipe.selection == "exact" and self.model._again:  # from public records
            known = self.model._grown.forest
            first = known.n_trees - n_trees if second else 0
            return picked([(known, first + tree) for tree in range(n_trees)])
        if not recipe.draws:
            if recipe.depth == "support":
                return grow_by_support(
                    self.schema,
                    n_trees,
                    recipe.support(
                        self.schema, float(budget.counts[-1]), self.n_records
                    ),
                    self.rng,
                )
            return grow_random_forest(
                self.schema, n_trees, self.n_levels, splits=recipe.splits, seed=self.rng
            )
        codes, class_codes, ledger = self.codes, self.class_codes, self.ledger
        sized = None
        if self.unlabelled is not None:
            codes = self.unlabelled
            if recipe.selection == "exact":  # from all public attributes
                if recipe.stopping == "labelled":
                    sized = self._labelled(weights, second)
                codes = np.concatenate([codes, self.codes])
            else:
                # Persons of this fit: a label in another fit may be missing here.
                persons = f"persons of fit {self.model._tie_key:x}"
                ledger = ledger.part(persons, "without labels")
                self.ledger = self.ledger.part(persons, "with labels")
            class_codes = np.zeros(len(codes), np.int64)
            records = "all" if recipe.selection == "exact" else recipe.records
            weights = multiplicities(records, len(codes), n_trees, self.noise)

        def pay(cost: Fraction, what: str, kind: str, size: float) -> None:
            self._pay(cost, what, kind, size, ledger)

        k = self.schema.n_classes
        stops = budget.counts if recipe.stopping == "noisy-counts" else ()
        return Grower(
            schema=self.schema,
            recipe=recipe,
            codes=np.ascontiguousarray(codes),
            class_codes=class_codes,
            weights=weights,
            unit=unit,
            score=score_for(recipe.score, k, self.n_records, unit),
            medians=score_for("median", k, self.n_records, unit),
            relation=self.relation,
            noise=self.noise,
            pay=pay,
            release=self._noisy,
            rng=self.rng,
            sized=sized,
        ).grow(budget.tests, stops)

    def _labelled(self, weights: Integers, second: bool) -> Integers:
        """Return which records have labels in which tree, those without them first.

        Random samples stay hidden: all records count.
        """
        assert self.unlabelled is not None  # the recipe asks for them
        if self.sampled:
            weights = np.ones_like(weights)
        n_others = len(self.codes) if second else len(self.unlabelled)
        others = np.zeros((n_others, weights.shape[1]), np.int64)
        return np.concatenate([weights, others] if second else [others, weights])

    def _leaves(
        self, forest: Forest, weights: Integers, budget: Budget, unit: int
    ) -> Floats:
        recipe, k = self.recipe, self.schema.n_classes
        stopped = recipe.draws and recipe.stopping == "noisy-counts"
        cost = budget.counts[-1] if stopped else sum(budget.counts, Fraction(0))
        counts = count_leaves(forest, self.codes, self.class_codes, k, weights)
        if recipe.leaves == "levels":
            return release_levels(
                forest, counts, budget.counts, unit, self._pay, self._noisy
            )
        if recipe.leaves == "laplace":
            what = "class counts of leaves"
            self._pay(cost, what, "laplace", unit)
            return self._noisy(counts, Fraction(unit), cost, what).astype(np.float64)
        flipping = recipe.leaves == "permute-and-flip"
        kind = "permute_and_flip" if flipping else "exponential"
        self._pay(cost, "labels of leaves", kind, unit)
        labels = draw_leaf_labels(
            counts, cost, unit=unit, flipping=flipping, relation=self.relation,
            noise=self.noise,
        )  # fmt: skip
        return (labels[:, None] == np.arange(k)).astype(np.float64)

    def selected(
        self, forest: Forest, counts: Floats, epsilon: Fraction
    ) -> tuple[Forest, Floats]:
        """Remove trees one by one, then draw how many of the removals stand.

        Each draw is by the exponential mechanism, for the records that the remaining
        trees get right: which of all trees goes next, until one is left, and which
        prefix of the removals is best.
        """
        if forest.n_trees == 1:
            return forest, counts
        what = "which trees are removed, one by one"
        entry = LedgerEntry(epsilon, what, "exponential", self.outer.factor)
        self.session.pay(entry, self.ledger)
        rows = forest.apply(self.codes) + forest.leaf_offsets[:-1]
        saying = leaf_votes(forest, counts, self.recipe.vote)
        votes = sum(saying[rows[:, tree]] for tree in range(forest.n_trees))

        def right(votes: Floats) -> int:
            return int((votes.argmax(axis=1) == self.class_codes).sum())

        def drawn(scores: list[int]) -> int:
            return int(
                choose_rows(
                    np.array([scores]), epsilon / forest.n_trees, window=1,
                    relation=self.outer, noise=self.noise,
                )[0]
            )  # fmt: skip

        left, removed, scores = list(range(forest.n_trees)), [], [right(votes)]
        while len(left) > 1:
            without = [right(votes - saying[rows[:, tree]]) for tree in left]
            place = drawn(without)
            scores.append(without[place])
            removed.append(left.pop(place))
            votes = votes - saying[rows[:, removed[-1]]]
        kept = sorted(left + removed[drawn(scores) :])
        leaves = [np.arange(*forest.leaf_offsets[tree : tree + 2]) for tree in kept]
        return picked([(forest, t) for t in kept]), counts[np.concatenate(leaves)]

    def above_noise(
        self, forest: Forest, counts: Floats, epsilon: Fraction
    ) -> tuple[Forest, Floats]:
        """Let nodes speak for the leaves below them that say no more than noise."""
        return forest, signal_to_noise(forest, counts, float(epsilon))

    # ---- paying and noise ------------------------------------------------------

    def _pay(
        self,
        cost: Fraction,
        what: str,
        kind: str,
        size: float,
        ledger: PrivacyLedger | None = None,
    ) -> None:
        """Pay for a release in every tree, unless samples were paid for as a whole."""
        if not self.sampled:
            size *= self.outer.factor * (self.times if kind == "laplace" else 1)
            entry = LedgerEntry(cost * self.times, what, kind, size)
            self.session.pay(entry, ledger or self.ledger)

    def _noisy(
        self, values: Integers, own: Fraction, cost: Fraction, what: str
    ) -> Integers:
        """Add noise that was paid for; one record changes each of its trees by own."""
        flat = values if values.ndim < 3 else values.reshape(-1, values.shape[-1])
        with paid_together():
            measured = measure(
                flat, [(0, len(flat), own * self.times)], LAPLACE, cost * self.times,
                released=what, relation=self.relation, ledger=None, noise=self.noise,
            )  # fmt: skip
        return measured.values.reshape(values.shape)


PRUNINGS: dict[str, tuple[Fraction, Callable[..., tuple[Forest, Floats]]]] = {
    "none": (Fraction(0), lambda fitting, forest, counts, cost: (forest, counts)),
    "signal-to-noise": (Fraction(0), Fitting.above_noise),
    "selective": (Fraction(1, 10), Fitting.selected),
}
"""Prunings by name: the share of epsilon that each costs, and the function that prunes.
Its arguments are trees, counts of their leaves, and what it, or else a count, costs."""
