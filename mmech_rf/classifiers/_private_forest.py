"""One classifier that chooses what to measure, and how to vote, by itself."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmech import Identity, ParameterError, PrivacyLedger, SignalPrior
from mmech._validation import check_choice, check_epsilon
from mmech_rf.classifiers._accounted import NUMBER
from mmech_rf.classifiers._block_design import DESIGNS, check_linked
from mmech_rf.classifiers._block_forest import BlockForest
from mmech_rf.classifiers._choice import Choice
from mmech_rf.classifiers._concentrated import (
    check_privacy,
    concentrated_plan,
    refuse_ledger,
    remaining_rho,
)
from mmech_rf.classifiers._ensembles import Ensemble
from mmech_rf.classifiers._selected_trees import Grower, Plan, SelectedTrees
from mmech_rf.schema import Schema

__all__ = ["PrivateForestClassifier"]

METHODS = ("auto", "trees", "blocks", "labels")

VOTINGS = ("auto", "log-odds", "weight", "maximum-entropy")

COUNT_SHARE = Fraction(3, 100)
"""Share of epsilon that pays for a noisy number of records."""

LEAST_EPSILON = Fraction(1, 100_000)
"""Budgets below this drown in what roundings of a draw may add up to."""

FEWEST = 8.0
"""A noisy number of records below this is taken as this."""


class PrivateForestClassifier(BlockForest):
    r"""Private forest that chooses what to release for the budget at hand.

    Three methods, of which "auto" takes the first. All ask for nothing but public
    facts: the sizes of the schema, epsilon and the number of records.

    **trees**: labelled trees of two levels are drawn by the exponential mechanism,
    each as a whole, for the number of records that they get right
    (`mmech_rf.tree_selection`). Their tests are public views of the domain: attributes
    at several resolutions, pairs, and signed sums of attributes in the order of their
    cells. With few records times epsilon all of the budget goes into one tree. More
    pays for class counts and sums of all attributes, released together with noise that
    is shaped for them (`mmech.norm_release`): leaves may then stand for what these
    scores say, in place of a class. Some thousand records times epsilon pay for class
    counts in leaves and for further trees, which weigh the records that those before
    them get wrong (boosting).

    **blocks**: the class counts of all cells of disjoint blocks of neighbouring
    attributes are released once through the matrix mechanism. Partition and budgets
    minimise the Bayes risk under a public prior. The rest is post-processing: every
    table is shrunk, each set of attributes by its own evidence, and blocks vote as
    experts,

    .. math:: \log \hat p(c) + \sum_a \log \hat p(x_a \mid c) ,

    smoothed by the posterior standard deviation of their counts. Of two classes with
    few records only the differences of the counts are released, with half the
    variance, and the blocks vote with these.

    Blocks of neighbours suit schemas that list related attributes together, which is
    worth more than any other design. Where the order says nothing, designs with every
    pair of attributes in a block pay on full factorial data; such blocks overlap and
    vote with their shrunk counts, each interaction once. They lose much where records
    lie in few cells. There, with many attributes, blocks that are drawn for what they
    get right pay a little.

    **labels**: every record trains one tree on one of the blocks, and nothing but the
    labels of leaves is released, drawn by permute-and-flip. The simplest: ahead of
    blocks below some 25 records times epsilon, where counts drown in noise, and
    behind drawn trees.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. An order among categories helps if it means
        something, and so do related attributes next to each other. ``None`` reads
        the schema from the records, which the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of a fit, in nats. Required.
    privacy : {"pure", "zcdp"}, default="pure"
        What a fit guarantees: pure epsilon, or (epsilon, delta), which promises less:
        with a probability of up to delta more than epsilon may be learnt. Releases are
        then accounted in zCDP where that leaves less noise, which is where there are
        many of them: many records times epsilon.
    delta : float, default=None
        Probability for ``privacy="zcdp"``, well below one over the number of records.
    n_records : int, default=None
        Number of records, roughly, where it is public; ``None`` pays for a noisy count
        with 3 % of epsilon.
    method : {"auto", "trees", "blocks", "labels"}, default="auto"
        What is released; "auto" stands for "trees" unless a voting or a design of
        blocks is named.
    voting : {"auto", "log-odds", "weight", "maximum-entropy"}, default="auto"
        Whether blocks vote with log-odds, with shrunk counts (of two classes their
        differences, which is all that is then measured) or as the distribution of
        maximum entropy; "auto" takes shrunk differences for two classes when the
        number of records times epsilon is below 500, else log-odds; of blocks that
        overlap always shrunk counts.
    design : {"disjoint", "covering", "chosen"}, default="disjoint"
        Blocks of neighbouring attributes; or, if the Bayes risk is less, designs with
        every pair of attributes in a block; or blocks drawn by the exponential
        mechanism with 10 % of epsilon.
    prior : SignalPrior, default=None
        Public guess of the signal for blocks; ``None`` for its defaults.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation of the guarantee.
    handle_unknown, handle_missing : str, default="error"
        What happens to values outside the schema, see `Schema.encode`; queries are
        never dropped, "drop" counts as "error" for them.
    ledger : PrivacyLedger, default=None
        Budget shared with other releases; ``None`` allows exactly `epsilon` (and
        `delta`) per fit. A copied or unpickled model comes with a ledger that is spent.
        It counts pure epsilon, so that ``privacy="zcdp"`` refuses it.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Without effect: nothing but the noise is random, and noise has no seed.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns and voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Class labels, as the schema has them.
    schema_ : Schema
        Public facts in use.
    choice_ : Choice
        What was released and how it votes.
    trees_ : tuple of SelectedTree
        Released trees; empty for blocks.
    ensembles_ : list of Ensemble
        Of blocks and labels: one complete tree each, with its share of epsilon, or of
        rho, or with all of it where every record trains one tree.
    strategy_ : StrategyResult
        Of blocks: budgets, with the candidates that were considered.
    estimate_ : ShrunkEstimate
        Of blocks: posterior means and variances of the released tables.
    timings_ : dict of str to float
        Seconds per stage; depends on the records, not for publication.
    privacy_statement_ : str
        What was released at which epsilon, or rho.

    Notes
    -----
    Proofs: ``notebooks/proofs/labelled_trees.md``, ``notebooks/proofs/leaf_labels.md``,
    ``notebooks/proofs/drawn_blocks.md``, ``notebooks/proofs/k_norm.md``,
    ``notebooks/proofs/composition.md``.

    Examples
    --------
    >>> from mmech_rf import PrivateForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = PrivateForestClassifier(car.schema, epsilon=0.5, n_records=1728)
    >>> model = model.fit(car.data, car.target)
    >>> model.choice_.method, model.choice_.n_trees
    ('trees', 1)
    >>> model.predict_proba(car.data[:5]).shape
    (5, 4)
    >>> print(model.describe())  # doctest: +ELLIPSIS
    by ...
    """

    _needs_cells = False
    _public = (
        "The schema and the parameters do not depend on records; all the rest follows "
        "from the releases."
    )

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: Any,
        privacy: str = "pure",
        delta: float | None = None,
        n_records: int | None = None,
        method: str = "auto",
        voting: str = "auto",
        design: str = "disjoint",
        prior: SignalPrior | None = None,
        neighbours: str = "add_remove",
        handle_unknown: str = "error",
        handle_missing: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: Any = None,
        insecure_rng: Any = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.privacy = privacy
        self.delta = delta
        self.n_records = n_records
        self.method = method
        self.voting = voting
        self.design = design
        self.prior = prior
        self.neighbours = neighbours
        self.handle_unknown = handle_unknown
        self.handle_missing = handle_missing
        self.ledger = ledger
        self.random_state = random_state
        self.insecure_rng = insecure_rng

    def _check_parameters(self) -> Fraction:
        check_choice(self.method, "method", METHODS)
        check_choice(self.voting, "voting", VOTINGS)
        check_choice(self.design, "design", DESIGNS)
        others = self.method in ("trees", "labels")
        if others and self.voting != "auto":
            raise ValueError(
                f"voting={self.voting!r} is a way for blocks to vote, but method is "
                f"{self.method!r}; use method='blocks', or voting='auto'"
            )
        if others and self.design != "disjoint":
            raise ValueError(
                f"design={self.design!r} is a choice of blocks, but method is "
                f"{self.method!r}; use method='blocks', or design='disjoint'"
            )
        if self.n_records is not None and (
            isinstance(self.n_records, bool)
            or not isinstance(self.n_records, (int, float, np.integer, np.floating))
            or not 1 <= self.n_records < math.inf
        ):
            raise ValueError(
                "n_records must be a public number >= 1, or None for a noisy count, "
                f"got {self.n_records!r}"
            )
        if self.prior is not None and not isinstance(self.prior, SignalPrior):
            raise TypeError(
                f"prior must be a SignalPrior, got {type(self.prior).__name__}"
            )
        check_privacy(self.privacy, self.delta)
        self._check_shared()
        return check_epsilon(self.epsilon)

    def _fit(self, X: Any, y: Any) -> None:
        if self.privacy == "zcdp":
            refuse_ledger(self.ledger)
        super()._fit(X, y)

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        # The blocks follow from the number of records, which may cost a release.
        return []

    # ---- what is measured ------------------------------------------------

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
        assert self.ledger_ is not None
        epsilon = check_epsilon(self.epsilon)
        self.ledger_.check(epsilon)
        blocks = (
            self.method == "blocks"
            or self.voting != "auto"
            or self.design != "disjoint"
        )
        draws = self.method != "labels" and (not blocks or self.design == "chosen")
        if draws and epsilon < LEAST_EPSILON:
            drawn = "blocks" if blocks else "trees"
            raise ParameterError(
                "epsilon",
                f"must be at least {float(LEAST_EPSILON):g} to draw {drawn}",
                f"{float(epsilon):g}",
                (
                    "raise it",
                    "use {method='blocks'} with {design='disjoint'}",
                    "use {BatchTrainingClassifier}",
                ),
            )
        if self.design == "covering" and self.voting == "maximum-entropy":
            check_linked(self.schema_)
        spent = Fraction(0)
        if self.n_records is None:
            spent = epsilon * COUNT_SHARE
            with self._timed("measurement"):
                noisy = self._release(Identity(1), spent, [codes.shape[0]], NUMBER)
            n_records = max(float(noisy.values[0]), FEWEST)
        else:
            n_records = float(self.n_records)
        rho = Fraction(0)
        if self.privacy == "zcdp":
            assert self.delta is not None
            promised = float(epsilon), float(self.delta)
            self._terms = replace(self._terms, promised=promised)
            rho = remaining_rho(epsilon, self.delta, self.releases_)
        release = self._release_trees
        if blocks or self.method == "labels":
            release = self._release_blocks if blocks else self._release_labels
        release(codes, class_codes, epsilon - spent, rho, n_records)

    def _release_trees(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        rho: Fraction,
        n_records: float,
    ) -> None:
        domain_shape = self.schema_.domain_shape
        d = len(domain_shape)
        cost = epsilon
        plan = Plan.of(n_records, epsilon, d, self.schema_.n_classes)
        other = concentrated_plan(plan, n_records, epsilon, rho, d)
        if other is not None:
            cost, plan = rho, other
            self._concentrate()
        grower = Grower(
            domain_shape,
            codes,
            class_codes,
            n_classes=self.schema_.n_classes,
            n_records=n_records,
            payments=self._payments(cost),
        )
        with self._timed("measurement"):
            experts = grower.grow(cost, plan)
        self._experts = experts
        self.trees_ = experts.trees
        self.choice_ = Choice(
            n_records=n_records,
            stated=self.n_records is not None,
            method="trees",
            voting=experts.voting,
            n_trees=len(experts.trees),
            rounds=plan.rounds,
            n_scores=0 if experts.additive is None else len(experts.additive.views),
            accounting=self._accounting,
        )

    # ---- post-processing -------------------------------------------------

    def _predict_classes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._break_ties(self._experts.log_odds(codes), codes)

    def describe(self) -> str:
        """Return the released trees, or the blocks, as text.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        names = self.schema_.feature_names
        if isinstance(self._experts, SelectedTrees):
            labels = self.classes_.tolist()
            trees = [tree.describe(names, labels) for tree in self.trees_]
            additive = self._experts.additive
            if additive is not None:
                parts = ", ".join(view.describe(names) for view in additive.views)
                trees.insert(0, f"score of {parts}")
            return "\n".join(trees)
        what = "labels" if self.choice_.method == "labels" else "class counts"
        return "\n".join(
            f"{what} by " + " and ".join(names[i] for i in block)
            for block in self.choice_.blocks
        )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the estimated probability of every class.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            Inference queries in the schema's raw values; public.

        Returns
        -------
        ndarray of float64, shape (b, k)
            Columns in the order of `classes_`.
        """
        check_is_fitted(self)
        codes = self._encode_queries(X)
        with self._timed("prediction"):
            return self._experts.probabilities(codes)
