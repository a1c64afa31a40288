"""One classifier that chooses what to measure, and how to vote, by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmech import (
    GaussianMeasurement,
    GaussianMechanism,
    Identity,
    Marginals,
    MatrixMechanism,
    Measurement,
    PrivacyLedger,
    QueryMatrix,
    Records,
    SignalPrior,
    bayes_risk_strategy,
    exponential_mechanism,
    maximum_entropy,
    shrink,
)
from mmech._validation import check_choice, check_epsilon
from mmech.budget import LedgerEntry
from mmech.noise import discrete_gaussian_variance, discrete_laplace_variance
from mmech.selection import spend
from mmech_rf.classifiers._additive import SUMS
from mmech_rf.classifiers._base import ForestClassifier
from mmech_rf.classifiers._block_design import (
    BLOCK,
    DESIGNS,
    block_pool,
    check_linked,
    overlap,
)
from mmech_rf.classifiers._choice import Choice
from mmech_rf.classifiers._concentrated import (
    check_privacy,
    concentrated_plan,
    in_rho,
    refuse_ledger,
    remaining_rho,
)
from mmech_rf.classifiers._ensembles import Ensemble
from mmech_rf.classifiers._experts import (
    Differences,
    Distribution,
    Experts,
    LogOdds,
    Weights,
)
from mmech_rf.classifiers._label_forest import LABELS, draw_labels, label_blocks
from mmech_rf.classifiers._payments import (
    ConcentratedPayments,
    ConcentratedRelease,
    Payments,
    PurePayments,
)
from mmech_rf.classifiers._selected_trees import (
    DRAWN,
    Grower,
    Plan,
    SelectedTrees,
)
from mmech_rf.growth import complete_forest
from mmech_rf.schema import Schema

__all__ = ["PrivateForestClassifier"]

METHODS = ("auto", "trees", "blocks", "labels")

VOTINGS = ("auto", "log-odds", "weight", "maximum-entropy")

COUNT_SHARE = Fraction(3, 100)
"""Share of epsilon that pays for a noisy number of records."""

LEAST_EPSILON = Fraction(1, 100_000)
"""Budgets below this drown in what roundings of a draw may add up to."""

FEW = 500.0
"""Below this number of records times epsilon noise weighs more than the bias of weight
votes, which take attributes for evenly spread: two classes are then told apart by
their measured difference, which has half the variance."""

NEGLIGIBLE = 1e-6
"""Least variance of noise in a count: that of a huge epsilon rounds to zero."""

NUMBER = "number of records"
"""Words for the noisy number of records."""

FEWEST = 8.0
"""A noisy number of records below this is taken as this."""


class PrivateForestClassifier(ForestClassifier):
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
        Class labels, in the type of the target.
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
    score of buying...
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
            raise ValueError(
                f"epsilon must be at least {float(LEAST_EPSILON):g} to draw {drawn}, "
                f"got {float(epsilon):g}; use method='blocks', design='disjoint'"
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

    def _concentrate(self) -> None:
        """Account for what was released, and for what follows, in zCDP.

        No ledger of this fit is the sign of it: one would count pure epsilon.
        """
        self.releases_ = in_rho(self.releases_)
        self.ledger_ = None

    @property
    def _accounting(self) -> str:
        return "zcdp" if self.ledger_ is None else "pure"

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
        self._experts: Experts = experts
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

    def _payments(self, cost: Fraction) -> Payments:
        terms = self._insecure_rng, self._note
        if self.ledger_ is None:
            return ConcentratedPayments(self._terms.neighbours, cost, *terms)
        return PurePayments(self._terms.neighbours, self.ledger_, *terms)

    def _release_labels(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        rho: Fraction,
        n_records: float,
    ) -> None:
        sizes = self.schema_.domain_shape
        blocks = label_blocks(sizes, epsilon=float(epsilon), n_records=n_records)
        with self._timed("trees"):
            # Every record trains one tree: each has all of epsilon.
            self.ensembles_ = [self._tree(block, epsilon) for block in blocks]
        with self._timed("measurement"):
            spend(self.ledger_, epsilon, LABELS, self._terms.neighbours)
            self._note(epsilon, LABELS, 1.0)
            self._experts = draw_labels(
                codes,
                class_codes,
                domain_shape=sizes,
                n_classes=self.schema_.n_classes,
                blocks=blocks,
                epsilon=epsilon,
                neighbours=self._terms.neighbours,
                insecure_rng=self._insecure_rng,
            )
        self.trees_ = ()
        self.choice_ = Choice(
            n_records=n_records,
            stated=self.n_records is not None,
            method="labels",
            voting=self._experts.voting,
            n_trees=len(blocks),
            blocks=tuple(blocks),
        )

    def _release_blocks(
        self,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
        epsilon: Fraction,
        rho: Fraction,
        n_records: float,
    ) -> None:
        schema = self.schema_
        signed = self._is_signed(n_records * float(epsilon))
        best = partial(
            bayes_risk_strategy,
            schema.domain_shape,
            n_records=n_records,
            n_columns=1 if signed else schema.n_classes,
            prior=self.prior,
        )
        with self._timed("optimization"):
            settings, spent = block_pool(
                self.design,
                codes,
                class_codes,
                schema=schema,
                epsilon=epsilon,
                n_records=n_records,
                find=best,
                draw=self._draw,
            )
            cost = epsilon - spent
            if spent and rho > 0:
                assert self.delta is not None
                total = check_epsilon(self.epsilon)
                rho = remaining_rho(total, self.delta, self.releases_)
            self.strategy_ = best(epsilon=cost, **settings)
            if rho > 0:
                other = best(rho=rho, **settings)
                if other.loss < self.strategy_.loss:
                    self.strategy_, cost = other, rho
                    self._concentrate()
        strategy = self.strategy_.strategy
        assert isinstance(strategy, Marginals)
        shares = self._shares(strategy)
        with self._timed("trees"):
            self.ensembles_ = self._trees(shares, cost)
        with self._timed("measurement"):
            if signed:
                what = "class differences of blocks"
                signs = 1 - 2 * class_codes
                records = Records(codes, schema.domain_shape, signs=signs)
            else:
                what = "class counts of blocks"
                records = Records(
                    codes,
                    schema.domain_shape,
                    columns=class_codes,
                    n_columns=schema.n_classes,
                )
            measurement = self._release(strategy, cost, records, what)
        self.trees_ = ()
        with self._timed("prediction"):
            self._interpret(strategy, measurement, n_records, signed)

    def _draw(self, scores: Sequence[int], epsilon: Fraction, what: str) -> int:
        """Draw by scores of sensitivity one, and remember what was released."""
        with self._timed("measurement"):
            drawn = exponential_mechanism(
                scores,
                epsilon=epsilon,
                released=what,
                neighbours=self._terms.neighbours,
                ledger=self.ledger_,
                insecure_rng=self._insecure_rng,
            )
        self._note(epsilon, what, 1.0)
        return drawn

    def _is_signed(self, information: float) -> bool:
        """Whether to measure differences of two classes, from public facts."""
        if self.schema_.n_classes != 2:
            return False
        return self.voting == "weight" or (self.voting == "auto" and information < FEW)

    def _shares(self, strategy: Marginals) -> dict[tuple[int, ...], Fraction]:
        """Return the share of the cost of every block; its variance is one over it."""
        power = 2 if self.ledger_ is None else 1
        costs = {s: Fraction(w) ** power for s, w in strategy.weights.items()}
        total = sum(costs.values())
        return {s: cost / total for s, cost in costs.items()}

    def _trees(
        self, shares: dict[tuple[int, ...], Fraction], cost: Fraction
    ) -> list[Ensemble]:
        return [self._tree(block, cost * share) for block, share in shares.items()]

    def _tree(self, block: tuple[int, ...], epsilon: Fraction) -> Ensemble:
        """Return the complete tree of a block."""
        features = np.array(block, dtype=np.int64)
        forest = complete_forest(self.schema_.select(list(block)), len(block))
        return Ensemble(features, forest, epsilon)

    def _release(
        self, strategy: QueryMatrix, cost: Fraction, counts: Any, what: str
    ) -> Measurement | GaussianMeasurement:
        """Measure once, and remember what was released."""
        terms: dict[str, Any] = {
            "neighbours": self._terms.neighbours,
            "signed": isinstance(counts, Records) and counts.signed,
        }
        mechanism: MatrixMechanism | GaussianMechanism
        if self.ledger_ is None:
            mechanism = GaussianMechanism(strategy, strategy, rho=cost, **terms)
        else:
            mechanism = MatrixMechanism(
                strategy, strategy, epsilon=cost, ledger=self.ledger_, **terms
            )
        mechanism._insecure_rng = self._insecure_rng
        measurement = mechanism.measure(counts)
        released = f"{what} measured by {strategy._label()}"
        self._note(cost, released, measurement.sensitivity)
        return measurement

    def _note(self, cost: Fraction, released: str, sensitivity: float) -> None:
        """Remember what was released; without a ledger, in zCDP."""
        kind = ConcentratedRelease if self.ledger_ is None else LedgerEntry
        self.releases_ = (*self.releases_, kind(cost, released, sensitivity))

    def _how(self, entry: Any) -> str:
        concentrated = isinstance(entry, ConcentratedRelease)
        if entry.released.endswith(DRAWN) or entry.released.startswith(BLOCK):
            return "drawn by the exponential mechanism, score of sensitivity 1"
        if entry.released == LABELS:
            return "drawn by permute-and-flip, scores of sensitivity 1 in one leaf"
        if concentrated and not entry.released.startswith(NUMBER):
            return (
                f"L2 sensitivity {entry.sensitivity:g}, exact discrete Gaussian noise"
            )
        if entry.released == SUMS:
            return (
                f"sensitivity {entry.sensitivity:g} in the largest norm of an "
                "attribute, exact noise shaped like this norm"
            )
        return super()._how(entry)

    def _cost(self, entries: Sequence[Any]) -> str:
        if not isinstance(entries[0], ConcentratedRelease):
            return super()._cost(entries)
        spent = sum((entry.rho for entry in entries), Fraction(0))
        return f"rho = {float(spent):g}"

    def _spent(self) -> str:
        if self._terms.promised is None:
            return super()._spent()
        epsilon, delta = self._terms.promised
        kind = {"pure": "pure", "zcdp": "zCDP with"}[self.choice_.accounting]
        return (
            f"(epsilon, delta)-differential privacy with epsilon = {epsilon:g} and "
            f"delta = {delta:g}, from {kind} {self._cost(self.releases_)},"
        )

    # ---- post-processing -------------------------------------------------

    def _interpret(
        self,
        strategy: Marginals,
        measurement: Measurement | GaussianMeasurement,
        n_records: float,
        signed: bool,
    ) -> None:
        """Shrink the released tables and choose how they vote."""
        tables = Marginals(strategy.domain_shape, dict.fromkeys(strategy.weights, 1))
        scales = np.broadcast_to(measurement.scale, (tables.shape[0],))
        kinds, place = np.unique(scales, return_inverse=True)
        if isinstance(measurement, GaussianMeasurement):
            exact = [discrete_gaussian_variance(t * t) for t in kinds.tolist()]
        else:
            exact = [discrete_laplace_variance(t) for t in kinds.tolist()]
        variances = np.maximum(exact, NEGLIGIBLE)
        values, variance = measurement.values, variances[place]
        self.estimate_ = shrink(
            tables, values, variance=variance, n_records=n_records, prior=self.prior
        )
        blocks = list(strategy.weights)
        if signed:
            self._experts = Differences(self.estimate_, n_records)
        elif self.voting == "weight" or (self.voting == "auto" and overlap(blocks)):
            self._experts = Weights(self.estimate_, n_records)
        elif self.voting == "maximum-entropy":
            fit = maximum_entropy(tables, values, variance=variance, total=n_records)
            self._experts = Distribution(fit)
        else:
            self._experts = LogOdds(self.estimate_, blocks)
        self.choice_ = Choice(
            n_records=n_records,
            stated=self.n_records is not None,
            method="blocks",
            voting=self._experts.voting,
            n_trees=len(blocks),
            blocks=tuple(blocks),
            shares=tuple(map(float, self._shares(strategy).values())),
            signed=signed,
            design=self.design,
            risk=self.strategy_.loss,
            log_evidence=self.estimate_.log_evidence,
            accounting=self._accounting,
        )

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
