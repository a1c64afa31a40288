"""The estimator of all recipes, and one fit: what is paid for, drawn and released."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import ParameterError, PrivacyLedger
from mmech.checks import magnitude
from mmech.noise import LAPLACE
from mmech.noise.seam import in_trees, paid_together
from mmech.privacy.ledger import LedgerEntry
from mmech.privacy.neighbours import Relation
from mmech.release import measure
from mmech.selection import choose_rows, fixed_point_rate
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.accounted import COUNT_SHARE, AccountedForest
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.estimator.shown import counted_leaves, grown_trees
from mmech_rf.estimator.votes import check_that
from mmech_rf.forest.ensembles import Ensemble, spawn, weight_votes
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import (
    OTHERWISE,
    TableTooLargeError,
    grow_random_forest,
    mean_leaves,
)
from mmech_rf.limits import LIMITS
from mmech_rf.literature.grow import Grower, grow_by_support, score_for
from mmech_rf.literature.leaves import (
    LEAF_COUNTS,
    VOTES,
    RecipeVotes,
    count_leaves,
    draw_leaf_labels,
    join,
    keyed_numbers,
    picked,
    release_levels,
    signal_to_noise,
)
from mmech_rf.literature.recipe import (
    Budget,
    Recipe,
    find_recipe,
    listed_in,
    multiplicities,
    tree_epsilon,
)
from mmech_rf.schema import Schema
from mmech_rf.show.trees import ShownTree


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
        share, _, prune = PRUNINGS[self.recipe.pruning]
        trees = epsilon * (1 - share)
        grown = self.trees(n_trees, trees)
        least = self.budget(n_trees, trees).counts[-1]
        return grown, prune(self, *grown, epsilon - trees or least)

    def budget(self, n_trees: int, epsilon: Fraction) -> Budget:
        """Return what the releases of one tree cost."""
        recipe = self.recipe
        each = tree_epsilon(recipe.records, epsilon, n_trees, self.outer)
        return recipe.budget(each, self.n_levels)

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
        saying = VOTES[self.recipe.vote](forest, counts)
        votes = weight_votes(forest, saying, public)
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
                cost = float(budget.counts[-1])
                support = recipe.support(self.schema, cost, self.n_records)
                return grow_by_support(self.schema, n_trees, support, self.rng)
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
        grower = Grower(
            self.schema, recipe, np.ascontiguousarray(codes), class_codes,
            weights=weights, unit=unit,
            score=score_for(recipe.score, k, self.n_records, unit),
            medians=score_for("median", k, self.n_records, unit),
            relation=self.relation, noise=self.noise, rng=self.rng,
            pay=pay, release=self._noisy, sized=sized,
        )  # fmt: skip
        return grower.grow(budget.tests, stops)

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
            what = LEAF_COUNTS
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
        saying = VOTES[self.recipe.vote](forest, counts)
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
        self, values: Integers, moved: Fraction, cost: Fraction, what: str
    ) -> Integers:
        """Add noise that was paid for; one record changes each of its trees by own."""
        flat = values if values.ndim < 3 else values.reshape(-1, values.shape[-1])
        with paid_together():
            measured = measure(
                flat, [(0, len(flat), moved * self.times)], LAPLACE, cost * self.times,
                released=what, relation=self.relation, ledger=None, noise=self.noise,
            )  # fmt: skip
        return measured.values.reshape(values.shape)


PRUNINGS: dict[str, tuple[Fraction, bool, Callable[..., tuple[Forest, Floats]]]] = {
    "none": (Fraction(0), True, lambda fitting, forest, counts, cost: (forest, counts)),
    "signal-to-noise": (
        Fraction(0), False,
        lambda fitting, forest, counts, cost: (
            forest, signal_to_noise(forest, counts, float(cost)),
        ),
    ),
    "selective": (Fraction(1, 10), True, Fitting.selected),
}  # fmt: skip
"""Prunings by name: the share of epsilon that each costs, whether counts of leaves are
still those of their records, and the function that prunes. Its arguments are trees,
counts of their leaves, and what it, or else a count, costs."""


MANY = 2**31
"""More records than there are, where their number is not known yet."""


@storable("RecipeForestClassifier")
@estimator
class RecipeForestClassifier(AccountedForest):
    """Private forest of the literature, or of your own choices.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes; tests of numbers are at their cut points.
        ``None`` reads the schema from the records, which the guarantee does not cover,
        and warns.
    recipe : str or Recipe, default="spe"
        Name of a preset, see `recipes`, or a recipe of your own.
    n_records : int, default=None
        Number of records, roughly, where it is public; ``None`` pays for a noisy count
        with 3 % of epsilon, if the recipe needs it.
    neighbours : {"add_remove", "replace", "labels"}, default="add_remove"
        Neighbour relation of the guarantee. Recipes that protect labels only need
        ``"labels"``: attributes, and the number of records, are then public.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes random tests and the choice of candidates, never the noise.

    Attributes
    ----------
    recipe_ : Recipe
        The recipe in use.
    forest_ : Forest
        The trees: public, or drawn privately.
    leaf_counts_ : ndarray of float64, shape (n_leaves, k)
        What was released of leaves: noisy class counts, or one at the label.

    See Also
    --------
    recipes : the presets, with papers, guarantees and corrections.
    PrivateForestClassifier : the forest to use, which is often more accurate.

    Notes
    -----
    Proof: ``notebooks/proofs/recipes.md``.

    Examples
    --------
    >>> from mmech_rf import RecipeForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = RecipeForestClassifier(car.schema, epsilon=2, recipe="jpw",
    ...                                n_records=1728, random_state=0)
    >>> model.fit(car.data, car.target).predict(car.data[:2]).shape
    (2,)
    """

    recipe: Any = "spe"
    private_bins: tuple[str, ...] = field(default=(), init=False)

    _experts: RecipeVotes = field(init=False)
    _seed: tuple[int, ...] = field(init=False)
    _grown: RecipeVotes | None = field(init=False)  # of public records, before pruning
    _unlabelled = None
    _released = (*AccountedForest._released, "_seed", "_grown")
    _keeps_order = False

    @property
    def recipe_(self) -> Recipe:
        """The recipe in use."""
        return find_recipe(self.recipe)

    @property
    def forest_(self) -> Forest:
        """The trees."""
        return self._experts.forest

    @property
    def leaf_counts_(self) -> NDArray[np.float64]:
        """What was released of leaves, shape (n_leaves, k)."""
        return self._experts.counts

    # ---- before anything is released -----------------------------------------

    def fit(
        self, X: Any, y: Any = None, X_unlabelled: Any = None, **weights: Any
    ) -> RecipeForestClassifier:
        """Draw the tests of the trees, then release their leaves.

        Parameters
        ----------
        X : frame, list of rows or array, shape (N, d)
            Records in the schema's raw values. Sensitive.
        y : array_like, shape (N,)
            Class labels of any type that the schema can read. Sensitive.
        X_unlabelled : frame, list of rows or array, shape (M, d), optional
            Records of other persons, without labels, for semi-supervised recipes.
            Public where only labels are protected, otherwise sensitive.
        **weights
            None are taken, as in every private forest.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a value or a label is not valid; nothing is released.
        TypeError
            If there are weights.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is released.
        """
        self._unlabelled = X_unlabelled
        try:
            super().fit(X, y, **weights)
        finally:
            self.__dict__.pop("_unlabelled", None)
        return self

    def release(
        self, X_unlabelled: Any = None, *, chunk_ids: Iterable[Hashable] | None = None
    ) -> RecipeForestClassifier:
        """Release a model of the records that were counted, as `fit` does.

        Parameters
        ----------
        X_unlabelled : frame, list of rows or array, shape (M, d), optional
            As in `fit`.
        chunk_ids : iterable of hashable, default=None
            Names of all parts that there should be; ``None`` for those counted.

        Returns
        -------
        self
        """
        self._unlabelled = X_unlabelled
        try:
            super().release(chunk_ids=chunk_ids)
        finally:
            self.__dict__.pop("_unlabelled", None)
        return self

    def _check_parameters(self) -> Fraction:
        epsilon = super()._check_parameters()
        recipe = find_recipe(self.recipe)
        for rule in listed_in("choices")["fits"]:
            if self._has(rule["where"]) and not self._has(rule["needs"]):
                words = rule["words"].replace("RECIPE", f"{{recipe={recipe.name!r}}}")
                raise ParameterError(rule["name"], words, remedy=rule["remedy"])
        ledger = self.ledger
        if recipe.draws_from_others and getattr(ledger, "whole", ledger) is not ledger:
            raise ParameterError(
                "ledger",
                f"must be a whole one for {{recipe={recipe.name!r}}}, which splits it "
                "among persons with and without labels; a part cannot be split again",
                remedy="pass the whole ledger",
            )
        if self.schema is not None:
            for attribute in self.schema.attributes:
                if attribute.kind == "numeric" and attribute.size < 2:
                    raise ParameterError(
                        "schema",
                        f"the numeric attribute {attribute.name!r} of the {{schema}} "
                        "has no cut points that trees could split at",
                        remedy="give it public cut_points, or n_bins of at least 2",
                    )
        return epsilon

    def _has(self, choices: dict[str, list[Any]]) -> bool:
        """Return whether each choice, of the recipe or the fit, is one of a list."""
        both = vars(self.recipe_) | self.get_params()
        return all(both[name] in allowed for name, allowed in choices.items())

    def _encode_training(self, X: Any, y: Any) -> tuple[Schema, EncodedRecords]:
        recipe, given = find_recipe(self.recipe), self._unlabelled is not None
        if recipe.unlabelled and not given:
            raise ParameterError(
                "X_unlabelled",
                f"{{recipe={recipe.name!r}}} grows trees from records without labels",
                remedy="give X_unlabelled to a fit in Python",
            )
        if given and not recipe.unlabelled:
            raise ParameterError(
                "X_unlabelled",
                f"{{recipe={recipe.name!r}}} has no use for X_unlabelled",
                remedy=("leave it out", "choose a semi-supervised recipe"),
            )
        encoded = super()._encode_training(X, y)
        if given:
            self._unlabelled = encoded[0].encode(
                self._unlabelled,
                handle_unknown=self.handle_unknown,
                handle_missing=self.handle_missing,
            )
        return encoded

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        n_records, trees = self.n_records, epsilon
        if n_records is None and self.recipe_.needs_records:
            # Many records leave the least for every release.
            n_records, trees = MANY, epsilon * (1 - COUNT_SHARE)
        else:
            self._check_nodes(float(epsilon), float(n_records or 1))
        self._check_budget(trees, float(n_records or 1))
        return []

    def _check_budget(self, epsilon: Fraction, n_records: float) -> None:
        """Raise before anything is paid for if shares are too small to draw with."""
        recipe, schema = self.recipe_, self.schema_
        n_trees = recipe.trees(schema, float(epsilon), n_records)
        n_levels = recipe.n_levels(schema, float(epsilon), n_records)
        relation = self._terms.relation
        each = tree_epsilon(recipe.records, epsilon, n_trees, relation)
        budget = recipe.budget(each, n_levels)
        draws = 1
        if recipe.selection == "cut-then-attribute":
            draws = 2 * (1 + recipe.n_candidates(schema.n_features))
        tests = [cost / draws for cost in budget.tests if cost]
        least = min([*tests, *(cost for cost in budget.counts if cost)])
        unit = n_trees if recipe.structure == "two-phase" else 1
        score = score_for(recipe.score, schema.n_classes, n_records, unit)
        largest = unit * relation.factor * max(schema.n_features, *schema.domain_shape)
        try:
            fixed_point_rate(
                least, monotone=True, relation=relation, roundings=1,
                score_unit=score.window,
            )  # fmt: skip
            LAPLACE.parameter(Fraction(largest), least)
        except ValueError:
            raise ParameterError(
                "epsilon",
                f"is shared out by {{recipe={recipe.name!r}}} to {n_trees} trees of "
                f"{n_levels} levels, which leaves {float(least):.1g} for the least "
                "share, too little to draw with",
                f"{float(epsilon):g}",
                "raise it",
            ) from None

    def _check_nodes(self, epsilon: float, n_records: float) -> int:
        """Return how many levels the trees have; raise if they do not fit in memory.

        A depth that follows from the number of records is no more than fits.
        """
        recipe, schema = self.recipe_, self.schema_
        n_trees = recipe.trees(schema, epsilon, n_records)
        n_levels = recipe.n_levels(schema, epsilon, n_records)
        fitting = n_levels
        while fitting and not self._fits(n_trees, fitting):
            fitting -= 1
        if fitting == n_levels or recipe.stopping in ("size", "labelled"):
            return fitting
        raise TableTooLargeError(
            "schema",
            f"{n_trees} trees of depth {n_levels} over the {schema.n_features} "
            f"attributes of the {{schema}} may have {magnitude(n_trees)} times "
            f"{magnitude(self._leaves(n_levels))} leaves, which do not fit in memory",
            remedy=(
                f"use a {{Recipe}} with depth={fitting}",
                "use a {Recipe} with fewer trees",
                OTHERWISE,
            ),
        )

    def _leaves(self, n_levels: int) -> int:
        """Return how many leaves a tree may have: on average, if it is random."""
        schema, splits = self.schema_, self.recipe_.splits
        if not self.recipe_.draws:
            return math.ceil(mean_leaves(schema, n_levels, splits))
        many = [
            attribute.size
            for attribute in schema.attributes
            if splits != "binary" and attribute.kind == "categorical"
        ]
        return math.prod(sorted([*many, *[2] * n_levels], reverse=True)[:n_levels])

    def _fits(self, n_trees: int, n_levels: int) -> bool:
        leaves = n_trees * self._leaves(n_levels)
        entries = leaves * self.schema_.n_classes
        boxes = leaves * sum(self.schema_.domain_shape) * self.recipe_.draws
        return entries <= LIMITS.count_entries and boxes <= LIMITS.mask_entries

    # ---- releases ------------------------------------------------------------

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
        public = self._terms.neighbours == "labels"
        if self.n_records is None and (public or not self.recipe_.needs_records):
            self._reserve(epsilon)
            number = self.choice_.n_records if self._again else records.number
            n_records = float(max(number, 1)) if public else 1.0  # of no use
            self._release_model(records, epsilon, n_records)
        else:
            super()._fit_counts(records, epsilon)

    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        recipe = self.recipe_
        n_levels = self._check_nodes(float(epsilon), n_records)
        n_trees = recipe.trees(self.schema_, float(epsilon), n_records)
        if not self._again:
            (seed,) = spawn(self.random_state, 1)
            self._seed = tuple(seed.generate_state(4).tolist())
        with self._timed("measurement"):
            fitting = Fitting(self, records, n_levels, n_records)
            grown, trees = fitting.pruned(n_trees, epsilon)
        exact = recipe.selection == "exact"
        self._grown = RecipeVotes(*grown, recipe.vote) if exact else None
        self._experts = RecipeVotes(*trees, recipe.vote)
        features = np.arange(self.schema_.n_features)
        self.ensembles_ = [Ensemble(features, self.forest_, epsilon)]
        self._choose(n_records, n_trees=self.forest_.n_trees)

    def _settle(self) -> None:
        super()._settle()
        check_that(self._experts.forest.n_trees == self.choice_.n_trees, "trees")
        if self._grown is not None:
            self._grown.check(self.schema_.domain_shape, self.schema_.n_classes)

    @property
    def _public(self) -> str:  # type: ignore[override]
        if self._terms.neighbours != "labels":
            return super()._public
        return (
            "The schema and the parameters do not depend on records; the attributes of "
            "all records, and how many there are, are public, and tests may show them."
        )

    def _remarks(self) -> list[str]:
        return [f"Recipe: {self.recipe_.name}.", *super()._remarks()]

    @property
    def _leaf_error(self) -> float:
        """Standard error of the number of records in a leaf; NaN without any.

        Counts of bags, of weighed records, and of nodes that speak for their leaves are
        no numbers of records.
        """
        recipe, k = self.recipe_, self.schema_.n_classes
        _, counted, _ = PRUNINGS[recipe.pruning]
        if not counted or recipe.structure not in ("random", "drawn"):
            return math.nan
        entries = (e for e in self.releases_ if e.released == LEAF_COUNTS)
        scales = (float(e.sensitivity / e.cost) for e in entries)
        return math.sqrt(2 * k) * max(scales, default=math.nan)

    def _shown_trees(self) -> Iterator[ShownTree]:
        trees = [(np.arange(self.schema_.n_features), self.forest_)]
        tables = [self.leaf_counts_.argmax(axis=1)], [self.leaf_counts_]
        return grown_trees(trees, *tables, self.schema_, self._leaf_error)

    def _counted_leaves(self, codes: Integers) -> tuple[Floats, Integers] | None:
        if math.isnan(self._leaf_error):
            return None
        every = np.arange(self.schema_.n_features)
        return counted_leaves(every, self.forest_, self.leaf_counts_, codes)

    def _notes(self) -> list[str]:
        return [*self.recipe_.describe().splitlines(), *super()._notes()]
