"""The estimator of all recipes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import ParameterError, PrivacyLedger
from mmech.checks import check_epsilon, magnitude
from mmech.noise import LAPLACE
from mmech.privacy.ledger import LedgerEntry
from mmech.privacy.neighbours import Relation
from mmech.release import charge, measure
from mmech.selection import fixed_point_rate, select
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import grow_random_forest, mean_leaves
from mmech_rf.limits import LIMITS
from mmech_rf.literature.budgets import Budget
from mmech_rf.literature.grow import Grower, Integers
from mmech_rf.literature.leaves import (
    Floats,
    count_leaves,
    draw_leaf_labels,
    release_levels,
)
from mmech_rf.literature.presets import find_recipe
from mmech_rf.literature.recipe import SELECTION_SHARE, Recipe
from mmech_rf.literature.samples import RANDOM_SAMPLES, multiplicities, tree_epsilon
from mmech_rf.literature.scores import score_for
from mmech_rf.literature.votes import RecipeVotes, first_trees, join, leaf_votes, pruned
from mmech_rf.private.accounted import AccountedForest
from mmech_rf.private.choice import Choice
from mmech_rf.private.ensembles import Ensemble, spawn
from mmech_rf.private.sizes import TableTooLargeError, check_cells
from mmech_rf.schema import Schema
from mmech_rf.workloads import training_workload

__all__ = ["RecipeForestClassifier"]

MANY = 2**31
"""More records than there are, where their number is not known yet."""


class RecipeForestClassifier(AccountedForest):
    """Private forest of the literature, or of your own choices.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes; cuts of numbers are among their cut points.
        ``None`` reads the schema from the records, which the guarantee does not cover,
        and warns.
    epsilon : float, str or Fraction
        Privacy budget of a fit, in nats. Required.
    recipe : str or Recipe, default="spe"
        Name of a preset, see `recipes`, or a recipe of your own.
    n_records : int, default=None
        Number of records, roughly, where it is public; ``None`` pays for a noisy count
        with 3 % of epsilon, if the recipe needs it.
    neighbours : {"add_remove", "replace", "labels"}, default="add_remove"
        Neighbour relation of the guarantee. Recipes that protect labels only need
        ``"labels"``: attributes, and the number of records, are then public.
    records_per_person : int, default=1
        Largest number of records of one person, public: the budget is per person.
    handle_unknown, handle_missing : str, default="error"
        What happens to values outside the schema, see `Schema.encode`; queries are
        never dropped, "drop" counts as "error" for them.
    ledger : PrivacyLedger, default=None
        Budget shared with other releases; ``None`` allows exactly `epsilon` per fit. A
        copied or unpickled model comes with a ledger that is spent.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes random tests and the choice of candidates, never the noise.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns and voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Class labels, in the type of the schema.
    schema_ : Schema
        Public facts in use.
    recipe_ : Recipe
        The recipe in use.
    forest_ : Forest
        The trees: public, or drawn privately.
    leaf_counts_ : ndarray, shape (n_leaves, k)
        What was released of leaves: noisy class counts, or one at the label.
    choice_ : Choice
        What was released and how it votes.
    ledger_ : PrivacyLedger
        What the releases were paid from.
    timings_ : dict of str to float
        Seconds per stage; depends on the records, not for publication.
    privacy_statement_ : str
        What was released at which epsilon.

    See Also
    --------
    recipes : the presets, with papers, guarantees and corrections.
    PrivateForestClassifier : the forest to use, which is often more accurate.

    Examples
    --------
    >>> from mmech_rf import RecipeForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = RecipeForestClassifier(car.schema, epsilon=2, recipe="jpw",
    ...                                n_records=1728, random_state=0)
    >>> model.fit(car.data, car.target).predict(car.data[:2]).shape
    (2,)
    """

    privacy = "pure"
    delta = None
    template = "auto"
    n_jobs = None
    _what = "class counts of leaves"

    recipe_: Recipe
    forest_: Forest
    leaf_counts_: Floats

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: Any,
        recipe: str | Recipe = "spe",
        n_records: int | None = None,
        neighbours: str = "add_remove",
        records_per_person: int = 1,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: Any = None,
        insecure_rng: Any = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.recipe = recipe
        self.n_records = n_records
        self.neighbours = neighbours
        self.records_per_person = records_per_person
        self.handle_unknown = handle_unknown
        self.handle_missing = handle_missing
        self.ledger = ledger
        self.random_state = random_state
        self.insecure_rng = insecure_rng

    # ---- before anything is released -----------------------------------------

    def fit(self, X: Any, y: Any, X_unlabelled: Any = None) -> RecipeForestClassifier:
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

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a value or a label is not valid; nothing is released.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is released.
        """
        self._unlabelled = X_unlabelled
        try:
            super().fit(X, y)
        finally:
            self.__dict__.pop("_unlabelled", None)
        return self

    def _check_parameters(self) -> Fraction:
        epsilon = super()._check_parameters()
        recipe = find_recipe(self.recipe)
        if recipe.guarantee == "labels" and self.neighbours != "labels":
            raise ParameterError(
                "recipe",
                f"{{recipe={recipe.name!r}}} protects labels only: attributes are "
                "public",
                remedy="accept that with {neighbours='labels'}",
            )
        drops = "drop" in (self.handle_unknown, self.handle_missing)
        if self.neighbours == "labels" and drops:
            raise ParameterError(
                "handle_unknown",
                "{neighbours='labels'} takes the number of records for public, which "
                "a record shows that is dropped for its label",
                "drop",
                "choose 'error'",
            )
        if recipe.draws_from_others and self.ledger is not None:
            self.ledger.part("persons", "with labels")  # or raise: a part has no parts
        given = getattr(self, "_unlabelled", None) is not None
        if recipe.unlabelled and not given:
            raise ParameterError(
                "X_unlabelled",
                f"{{recipe={recipe.name!r}}} grows its trees from records without "
                "labels",
                remedy="pass them as X_unlabelled to fit",
            )
        if given and not recipe.unlabelled:
            raise ParameterError(
                "X_unlabelled",
                f"{{recipe={recipe.name!r}}} has no use for records without labels",
                remedy="leave X_unlabelled out, or choose a semi-supervised recipe",
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

    def _encode_training(
        self, X: Any, y: Any
    ) -> tuple[Schema, NDArray[np.int64], NDArray[np.int64]]:
        encoded = super()._encode_training(X, y)
        if self._unlabelled is not None:
            self._unlabelled = encoded[0].encode(
                self._unlabelled,
                handle_unknown=self.handle_unknown,
                handle_missing=self.handle_missing,
            )
        return encoded

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        self.recipe_ = find_recipe(self.recipe)
        n_records, trees = self.n_records, epsilon
        if n_records is None and self.recipe_.needs_records:
            # Many records leave the least for every release.
            n_records, trees = MANY, epsilon * (1 - self._settings.count_share)
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
        own = tree_epsilon(recipe.records, epsilon, n_trees, recipe.sample, relation)
        budget = recipe.budget(own, n_levels)
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
        if recipe.leaves == "matrix":
            check_cells(schema, n_trees, most=LIMITS.tree_cells)
        n_levels = recipe.n_levels(schema, epsilon, n_records)
        fitting = n_levels
        while fitting and not self._fits(n_trees, fitting):
            fitting -= 1
        if fitting == n_levels or recipe.stopping == "size":
            return fitting
        raise TableTooLargeError(
            "schema",
            f"{n_trees} trees of depth {n_levels} over the {schema.n_features} "
            f"attributes of the {{schema}} may have {magnitude(n_trees)} times "
            f"{magnitude(self._leaves(n_levels))} leaves, which do not fit in memory",
            remedy=f"use a recipe of less depth: recipes()[{recipe.name!r}].replace("
            f"depth={fitting})",
        )

    def _leaves(self, n_levels: int) -> int:
        """Return how many leaves a tree may have: on average, if it is random."""
        schema, splits = self.schema_, self.recipe_.splits
        if not self.recipe_.draws:
            return math.ceil(mean_leaves(schema, n_levels, splits))
        many = [
            size
            for size, attribute in zip(
                schema.domain_shape, schema.attributes, strict=True
            )
            if splits != "binary" and attribute.kind == "categorical"
        ]
        return math.prod(sorted([*many, *[2] * n_levels], reverse=True)[:n_levels])

    def _fits(self, n_trees: int, n_levels: int) -> bool:
        leaves = n_trees * self._leaves(n_levels)
        entries = leaves * self.schema_.n_classes
        boxes = leaves * sum(self.schema_.domain_shape) * self.recipe_.draws
        return entries <= LIMITS.count_entries and boxes <= LIMITS.mask_entries

    # ---- releases ------------------------------------------------------------

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
        if self.n_records is None and (
            self._terms.neighbours == "labels" or not self.recipe_.needs_records
        ):
            # Public, or of no use.
            epsilon = check_epsilon(self.epsilon)
            self._reserve()
            public = self._terms.neighbours == "labels"
            n_records = float(max(codes.shape[0], 1)) if public else math.nan
            self._release_model(codes, class_codes, epsilon, n_records)
        else:
            super()._fit_counts(codes, class_codes)

    def _release_model(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        n_records: float,
    ) -> None:
        recipe = self.recipe_
        known = 1.0 if math.isnan(n_records) else n_records
        n_levels = self._check_nodes(float(epsilon), known)
        n_trees = recipe.trees(self.schema_, float(epsilon), known)
        (seed,) = spawn(self.random_state, 1)
        cook = _Cook(self, codes, class_codes, n_levels, known, seed)
        with self._timed("measurement"):
            voting = recipe.pruning == "selective"
            trees = epsilon * (1 - SELECTION_SHARE) if voting else epsilon
            forest, counts = cook.trees(n_trees, trees)
            if recipe.pruning == "signal-to-noise":
                own = cook.budget(n_trees, trees).counts[-1]
                counts = pruned(forest, counts, float(own))
            if voting:
                forest, counts = cook.selected(forest, counts, epsilon - trees)
        saying = leaf_votes(forest, counts, recipe.vote)
        self.forest_, self.leaf_counts_ = forest, counts
        self.ensembles_ = [Ensemble(np.arange(codes.shape[1]), forest, epsilon)]
        self._experts = RecipeVotes(forest, counts, saying, recipe.vote, self._tie_key)
        self.choice_ = Choice(
            n_records=known,
            stated=self.n_records is not None,
            method="recipe",
            voting=recipe.vote,
            n_trees=forest.n_trees,
        )

    @property
    def _public(self) -> str:  # type: ignore[override]
        if self._terms.neighbours != "labels":
            return AccountedForest._public
        return (
            "The schema and the parameters do not depend on records; the attributes of "
            "all records, and how many there are, are public, and tests may show them."
        )

    def _describe(self) -> str:
        sizes = np.diff(self.forest_.leaf_offsets)
        return (
            f"{self.recipe_.describe()}\n"
            f"{self.forest_.n_trees} trees of {sizes.min()} to {sizes.max()} leaves"
        )


class _Cook:
    """One fit of a recipe: pays, draws and releases for a model."""

    def __init__(
        self,
        model: RecipeForestClassifier,
        codes: Integers,
        class_codes: Integers,
        n_levels: int,
        n_records: float,
        seed: Any,
    ) -> None:
        self.model, self.recipe, self.schema = model, model.recipe_, model.schema_
        self.codes, self.class_codes = codes, class_codes
        self.n_levels, self.n_records = n_levels, n_records
        self.rng = np.random.default_rng(seed)
        self.noise = model._insecure_rng
        self.outer = model._terms.relation
        self.sampled = self.recipe.records in RANDOM_SAMPLES
        # Random samples are paid for at their own price, as a whole.
        self.relation = Relation() if self.sampled else self.outer
        self.ledger = model.ledger_
        self.times = 1

    def budget(self, n_trees: int, epsilon: Fraction) -> Budget:
        """Return what the releases of one tree cost."""
        recipe = self.recipe
        own = tree_epsilon(recipe.records, epsilon, n_trees, recipe.sample, self.outer)
        return recipe.budget(own, self.n_levels)

    def trees(self, n_trees: int, epsilon: Fraction) -> tuple[Forest, Floats]:
        """Release all trees and their leaves."""
        recipe = self.recipe
        budget = self.budget(n_trees, epsilon)
        self.times = n_trees if recipe.records == "all" else 1
        if self.sampled:
            what = f"{n_trees} trees of random samples of the records"
            self._charge(LedgerEntry(epsilon, what, "random_samples"), self.ledger)
        weights = multiplicities(
            recipe.records, len(self.codes), n_trees, recipe.sample, self.noise
        )
        if recipe.structure != "two-phase":
            return self._phase(weights, budget, 1)
        first = max(1, math.floor(recipe.first_phase * n_trees))
        forest, counts = self._phase(weights[:, :first], budget, 1)
        if first == n_trees:
            return forest, counts
        labels = counts.argmax(axis=1)
        predicted = labels[forest.apply(self.codes) + forest.leaf_offsets[:-1]]
        wrong = (predicted != self.class_codes[:, None]).sum(axis=1)
        later, more = self._phase(weights[:, first:] * wrong[:, None], budget, first)
        return join([forest, later]), np.concatenate([counts, more])

    def _phase(
        self, weights: Integers, budget: Budget, unit: int
    ) -> tuple[Forest, Floats]:
        forest = self._structure(weights, budget, unit)
        return forest, self._leaves(forest, weights, budget, unit)

    def _structure(self, weights: Integers, budget: Budget, unit: int) -> Forest:
        recipe, n_trees = self.recipe, weights.shape[1]
        if not recipe.draws:
            return grow_random_forest(
                self.schema,
                n_trees,
                self.n_levels,
                splits=recipe.splits,
                seed=self.rng,
            )
        codes, class_codes, ledger = self.codes, self.class_codes, self.ledger
        unlabelled = getattr(self.model, "_unlabelled", None)
        if unlabelled is not None:
            codes = unlabelled
            if recipe.selection == "exact":  # from all public attributes
                codes = np.concatenate([codes, self.codes])
            else:
                ledger = ledger.part("persons", "without labels")
                self.ledger = self.ledger.part("persons", "with labels")
            class_codes = np.zeros(len(codes), np.int64)
            records = "all" if recipe.selection == "exact" else recipe.records
            weights = multiplicities(
                records, len(codes), n_trees, recipe.sample, self.noise
            )

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
        ).grow(budget.tests, stops)

    def _leaves(
        self, forest: Forest, weights: Integers, budget: Budget, unit: int
    ) -> Floats:
        recipe, k = self.recipe, self.schema.n_classes
        cost = sum(budget.counts, Fraction(0))
        if recipe.leaves == "matrix":
            return self._matrix_counts(forest, cost * self.times)
        counts = count_leaves(forest, self.codes, self.class_codes, k, weights)
        if recipe.leaves == "levels":
            return release_levels(
                forest, counts, budget.counts, unit, self._pay, self._noisy
            )
        if recipe.stopping == "noisy-counts":
            cost = budget.counts[-1]
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

    def _matrix_counts(self, forest: Forest, cost: Fraction) -> Floats:
        """Release class counts of leaves through an optimized strategy."""
        ensemble = Ensemble(np.arange(self.codes.shape[1]), forest, cost)
        workload = training_workload(forest)
        (found,) = self.model._optimize([workload])
        mechanism = self.model._mechanism(ensemble, workload, found.strategy)
        table = self.model._count_table(ensemble, self.codes, self.class_codes)
        return np.asarray(self.model._answer(mechanism, table), np.float64)

    def selected(
        self, forest: Forest, counts: Floats, epsilon: Fraction
    ) -> tuple[Forest, Floats]:
        """Draw how many of the trees vote, for the records that they get right."""
        right = np.zeros(forest.n_trees, np.int64)
        rows = forest.apply(self.codes) + forest.leaf_offsets[:-1]
        saying = leaf_votes(forest, counts, self.recipe.vote)
        votes = np.zeros((len(self.codes), counts.shape[1]))
        for tree in range(forest.n_trees):
            votes += saying[rows[:, tree]]
            right[tree] = (votes.argmax(axis=1) == self.class_codes).sum()
        chosen, entry = select(
            right, epsilon, "epsilon", released="how many of the trees vote",
            monotone=True, relation=self.outer, ledger=self.ledger, noise=self.noise,
        )  # fmt: skip
        self.model._note(entry)
        kept = first_trees(forest, chosen + 1)
        return kept, counts[: kept.n_leaves]

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
            self._charge(entry, ledger or self.ledger)

    def _charge(self, entry: LedgerEntry, ledger: PrivacyLedger) -> None:
        self.model._note(charge(ledger, entry, self.outer, self.noise))

    def _noisy(
        self, values: Integers, own: Fraction, cost: Fraction, what: str
    ) -> Integers:
        """Add noise that was paid for; one record changes each of its trees by own."""
        flat = values if values.ndim < 3 else values.reshape(-1, values.shape[-1])
        measured = measure(
            flat, [(0, len(flat), own * self.times)], LAPLACE, cost * self.times,
            released=what, relation=self.relation, ledger=None, noise=self.noise,
        )  # fmt: skip
        return measured.values.reshape(values.shape)
