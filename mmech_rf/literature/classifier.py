"""The estimator of all recipes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import ParameterError
from mmech.checks import check_epsilon, magnitude
from mmech.noise import LAPLACE
from mmech.selection import fixed_point_rate
from mmech.storage.codec import storable
from mmech_rf.forest.ensembles import Ensemble, spawn
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import mean_leaves
from mmech_rf.forest.sizes import OTHERWISE, TableTooLargeError
from mmech_rf.limits import LIMITS
from mmech_rf.literature.budgets import tree_epsilon
from mmech_rf.literature.fitting import Fitting
from mmech_rf.literature.leaves import RecipeVotes, pruned
from mmech_rf.literature.presets import find_recipe
from mmech_rf.literature.recipe import SELECTION_SHARE, Recipe
from mmech_rf.literature.scores import score_for
from mmech_rf.private.accounted import AccountedForest
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords
from mmech_rf.private.shown import grown_trees
from mmech_rf.private.votes import check_that
from mmech_rf.schema import Schema
from mmech_rf.show.trees import Node, ShownTree, labelled

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
    _method = "recipe"

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

    def _check_fit(self) -> None:
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
        super()._check_fit()

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
                "and {handle_missing} cannot be 'drop' for {neighbours='labels'}: the "
                "number of records is public then, and a record that is dropped for "
                "its label would change it",
                remedy="choose 'error'",
            )
        if recipe.draws_from_others and self.estimate_accuracy:
            raise ParameterError(
                "estimate_accuracy",
                f"does not go with {{recipe={recipe.name!r}}}, whose budget is for "
                "persons with and without labels, and cannot be shared out once more",
                remedy="leave it out",
            )
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

    def _encode_training(self, X: Any, y: Any) -> tuple[Schema, EncodedRecords]:
        encoded = super()._encode_training(X, y)
        if self._unlabelled is not None:
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
        own = tree_epsilon(recipe.records, epsilon, n_trees, relation)
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

    def _fit_counts(self, records: EncodedRecords) -> None:
        if self.n_records is None and (
            self._terms.neighbours == "labels" or not self.recipe_.needs_records
        ):
            # Public, or of no use.
            epsilon = check_epsilon(self.epsilon)
            self._reserve()
            number = self.choice_.n_records if self._again else records.number
            public = self._terms.neighbours == "labels"
            n_records = float(max(number, 1)) if public else math.nan
            self._release_model(records, epsilon, n_records)
        else:
            super()._fit_counts(records)

    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        codes, class_codes = records.one_by_one()
        recipe = self.recipe_
        known = 1.0 if math.isnan(n_records) else n_records
        n_levels = self._check_nodes(float(epsilon), known)
        n_trees = recipe.trees(self.schema_, float(epsilon), known)
        if not self._again:
            (seed,) = spawn(self.random_state, 1)
            self._seed = tuple(seed.generate_state(4).tolist())
        fitting = Fitting(
            self, codes, class_codes, n_levels, known,
            codes if self._again and recipe.unlabelled else self._unlabelled,
        )  # fmt: skip
        with self._timed("measurement"):
            voting = recipe.pruning == "selective"
            trees = epsilon * (1 - SELECTION_SHARE) if voting else epsilon
            forest, counts = fitting.trees(n_trees, trees)
            exact = recipe.selection == "exact"
            self._grown = RecipeVotes(forest, counts, recipe.vote) if exact else None
            if recipe.pruning == "signal-to-noise":
                own = fitting.budget(n_trees, trees).counts[-1]
                counts = pruned(forest, counts, float(own))
            if voting:
                forest, counts = fitting.selected(forest, counts, epsilon - trees)
        self.ensembles_ = [Ensemble(np.arange(codes.shape[1]), forest, epsilon)]
        self._experts = RecipeVotes(forest, counts, recipe.vote)
        self._choose(known, voting=recipe.vote, n_trees=forest.n_trees)

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

    def _shown_trees(self) -> Iterator[ShownTree]:
        labels = self.leaf_counts_.argmax(axis=1)

        def leaves(ensemble: int, part: slice) -> list[Node]:
            return labelled(labels[part].tolist(), self.schema_.class_labels)

        forest = self._experts.forest
        every = np.arange(self.schema_.n_features)
        whole = Ensemble(every, forest, check_epsilon(self.epsilon))
        return grown_trees([whole], leaves, self.schema_)

    def describe(self, *, n_trees: int = 10, n_rules: int = 50) -> str:
        """Return the recipe in words, then what was released, as rules.

        Parameters
        ----------
        n_trees, n_rules : int, default=10 and 50
            Trees to describe, and rules of each, at most.

        Returns
        -------
        str
        """
        trees = super().describe(n_trees=n_trees, n_rules=n_rules)
        return f"{self.recipe_.describe()}\n{trees}"
