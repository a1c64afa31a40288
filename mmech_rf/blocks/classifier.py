"""Forests of complete trees on blocks of attributes: their counts, or their labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mmech import (
    Marginals,
    Measurement,
    Records,
    SignalPrior,
    StrategyResult,
    bayes_risk_strategy,
    maximum_entropy,
    shrink,
)
from mmech.checks import check_choice
from mmech.privacy.ledger import LedgerEntry
from mmech.reconstruction.shrinkage import ShrunkEstimate
from mmech.release import charge
from mmech.storage.codec import storable
from mmech_rf.blocks.labels import LABELS, LabelForest, draw_labels, label_blocks
from mmech_rf.blocks.settings import BlockSettings
from mmech_rf.blocks.votes import (
    Differences,
    Distribution,
    LogOdds,
    Weights,
    check_estimate,
    measured_tables,
)
from mmech_rf.forest.complete import complete_forest
from mmech_rf.private.accounted import AccountedForest
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords
from mmech_rf.private.shown import grown_trees
from mmech_rf.private.votes import check_that
from mmech_rf.show.trees import VOTES, Node, ShownTree, labelled, vote

__all__ = ["BlockForestClassifier", "LabelForestClassifier"]

VOTINGS = ("auto", "log-odds", "weight", "maximum-entropy")


@estimator
class _CompleteTrees(AccountedForest):
    """Base of the forests with one complete tree per block of attributes."""

    settings: BlockSettings | None = None

    _settings_type = BlockSettings
    _released: ClassVar[tuple[str, ...]] = ("choice_", "_experts", "ensembles_")

    def _tree(self, block: tuple[int, ...], cost: Fraction) -> Ensemble:
        """Return the complete tree of a block."""
        features = np.array(block, dtype=np.int64)
        forest = complete_forest(self.schema_.select(list(block)), len(block))
        return Ensemble(features, forest, cost)

    def _shown_trees(self) -> Iterator[ShownTree]:
        return grown_trees(self.ensembles_, self._leaves, self.schema_)

    def _leaves(self, block: int, part: slice) -> list[Node]:
        """Return what the cells of a block speak for, the other attributes fixed."""
        own = self.ensembles_[block]
        codes = np.zeros((own.forest.n_leaves, self.schema_.n_features), np.int64)
        codes[:, own.features] = np.argwhere(np.ones(own.forest.domain_shape))
        odds = self._experts.log_odds(codes)
        odds -= odds.mean(axis=0)
        return [vote(row, self.schema_.class_labels) for row in odds[part]]

    def _settle(self) -> None:
        super()._settle()
        for ensemble in self.ensembles_:
            ensemble.check(self.schema_.domain_shape)
        blocks = [tuple(ensemble.features.tolist()) for ensemble in self.ensembles_]
        check_that(tuple(blocks) == self.choice_.blocks, "blocks")
        check_that(len(blocks) == self.choice_.n_trees, "blocks")


@storable("BlockForestClassifier")
@estimator
class BlockForestClassifier(_CompleteTrees):
    r"""Forest of complete trees on disjoint blocks of attributes.

    The class counts of all cells of disjoint blocks of neighbouring attributes are
    released once through the matrix mechanism. Partition and budgets minimise the Bayes
    risk under a public prior. The rest is post-processing: every table is shrunk, each
    set of attributes by its own evidence, and blocks vote as experts,

    .. math:: \log \hat p(c) + \sum_a \log \hat p(x_a \mid c) ,

    smoothed by the posterior standard deviation of their counts. Of two classes with
    few records only the differences of the counts are released, with half the
    variance, and the blocks vote with these. Blocks of neighbours suit schemas that
    list related attributes together.

    Parameters
    ----------
    $ordered_schema
    $epsilon
    $delta
    $n_records
    $private_bins
    voting : {"auto", "log-odds", "weight", "maximum-entropy"}, default="auto"
        Whether blocks vote with log-odds, with shrunk counts (of two classes their
        differences, which is all that is then measured) or as the distribution of
        maximum entropy; "auto" takes shrunk differences for two classes when the
        number of records times epsilon is below 500, else log-odds.
    prior : SignalPrior, default=None
        Public guess of the signal; ``None`` for its defaults.
    settings : BlockSettings, default=None
        Budget split, smoothing and thresholds, public; ``None`` for the defaults.
    $guarantee
    $accuracy
    $ledger
    $no_seed
    $insecure_rng

    Attributes
    ----------
    $fitted
    $accuracy_
    $choice_
    ensembles_ : list of Ensemble
        One complete tree per block, with its share of epsilon, or of rho.
    strategy_ : StrategyResult
        Blocks and budgets, with the candidates that were considered.
    estimate_ : ShrunkEstimate
        Posterior means and variances of the released tables.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md`` and ``notebooks/proofs/gaussian.md``.

    Examples
    --------
    >>> from mmech_rf import BlockForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = BlockForestClassifier(car.schema, epsilon=2, n_records=1728)
    >>> print(model.fit(car.data, car.target).describe())  # doctest: +ELLIPSIS
    tree 1:
      ...
    """

    voting: str = "auto"
    prior: SignalPrior | None = None

    strategy_: StrategyResult = field(init=False)
    estimate_: ShrunkEstimate = field(init=False)
    _experts: LogOdds | Weights | Distribution = field(init=False)
    _method = "blocks"
    _distinct = True
    _released = (*_CompleteTrees._released, "estimate_")

    def _check_parameters(self) -> Fraction:
        check_choice(self.voting, "voting", VOTINGS)
        if self.prior is not None and not isinstance(self.prior, SignalPrior):
            raise TypeError(
                f"prior must be a SignalPrior, got {type(self.prior).__name__}"
            )
        return super()._check_parameters()

    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        schema = self.schema_
        signed = self._is_signed(n_records * float(epsilon))
        best = partial(
            bayes_risk_strategy,
            schema.domain_shape,
            n_records=n_records,
            n_columns=1 if signed else schema.n_classes,
            prior=self.prior,
            pool="disjoint",
        )
        cost, rho = epsilon, self._remaining_rho()
        with self._timed("optimization"):
            self.strategy_ = best(epsilon=epsilon)
            if rho > 0:
                other = best(rho=rho)
                if self._accounting == "zcdp" or other.loss < self.strategy_.loss:
                    self.strategy_, cost = other, rho
                    self._concentrate()
        strategy = self.strategy_.strategy
        assert isinstance(strategy, Marginals)
        shares = self._shares(strategy)
        with self._timed("trees"):
            self.ensembles_ = [self._tree(b, cost * s) for b, s in shares.items()]
        kinds: dict[str, Any] = {"multiplicities": records.multiplicities}
        if signed:
            what = "class differences of blocks"
            kinds["signs"] = 1 - 2 * records.class_codes
        else:
            what = "class counts of blocks"
            kinds["columns"] = records.class_codes
            kinds["n_columns"] = schema.n_classes
        measured = Records(records.codes, schema.domain_shape, **kinds)
        with self._timed("measurement"):
            measurement = self._release(strategy, cost, measured, what)
        with self._timed("prediction"):
            self._interpret(strategy, measurement, n_records, signed)

    def _notes(self) -> list[str]:
        return [*super()._notes(), VOTES]

    def _is_signed(self, information: float) -> bool:
        """Whether to measure differences of two classes, from public facts."""
        if self.schema_.n_classes != 2:
            return False
        few = information < self._settings.differences_below
        return self.voting == "weight" or (self.voting == "auto" and few)

    def _shares(self, strategy: Marginals) -> dict[tuple[int, ...], Fraction]:
        """Return the share of the cost of every block; its variance is one over it."""
        power = 2 if self._accounting == "zcdp" else 1
        costs = {s: Fraction(w) ** power for s, w in strategy.weights.items()}
        total = sum(costs.values())
        return {s: cost / total for s, cost in costs.items()}

    def _interpret(
        self,
        strategy: Marginals,
        measurement: Measurement,
        n_records: float,
        signed: bool,
    ) -> None:
        """Shrink the released tables and choose how they vote."""
        tables, variance = measured_tables(strategy, measurement)
        values = measurement.values
        self.estimate_ = shrink(
            tables, values, variance=variance, n_records=n_records, prior=self.prior
        )
        blocks = list(strategy.weights)
        if signed:
            self._experts = Differences(self.estimate_, n_records)
        elif self.voting == "weight":
            self._experts = Weights(self.estimate_, n_records)
        elif self.voting == "maximum-entropy":
            fit = maximum_entropy(tables, values, variance=variance, total=n_records)
            self._experts = Distribution(fit)
        else:
            self._experts = LogOdds(self.estimate_, tuple(blocks), self._settings)
        self._choose(
            n_records,
            voting=self._experts.voting,
            n_trees=len(blocks),
            blocks=tuple(blocks),
            shares=tuple(map(float, self._shares(strategy).values())),
            signed=signed,
            risk=self.strategy_.loss,
            log_evidence=self.estimate_.log_evidence,
        )

    def _settle(self) -> None:
        super()._settle()
        signed, schema = self.choice_.signed, self.schema_
        check_that(signed == isinstance(self._experts, Differences), "votes")
        if isinstance(self._experts, LogOdds):
            check_that(self._experts.blocks == self.choice_.blocks, "votes")
        k = 1 if signed else schema.n_classes
        check_estimate(self.estimate_, schema.domain_shape, k)


@storable("LabelForestClassifier")
@estimator
class LabelForestClassifier(_CompleteTrees):
    r"""Forest of complete trees on blocks, of which only the labels are released.

    Every record trains one tree on one of the blocks, and nothing but the labels of
    leaves is released, drawn by permute-and-flip. The simplest private forest: ahead of
    counts of blocks below some 25 records times epsilon, where counts drown in noise,
    and behind drawn trees.

    Parameters
    ----------
    $ordered_schema
    $epsilon
    $n_records
    $private_bins
    settings : BlockSettings, default=None
        Budget split and depth of the trees, public; ``None`` for the defaults.
    $guarantee
    $accuracy
    $ledger
    $no_seed
    $insecure_rng

    Attributes
    ----------
    $fitted
    $accuracy_
    $choice_
    ensembles_ : list of Ensemble
        One complete tree per block; every record trains one, with all of epsilon.

    Notes
    -----
    Proof: ``notebooks/proofs/leaf_labels.md``.

    Examples
    --------
    >>> from mmech_rf import LabelForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = LabelForestClassifier(car.schema, epsilon=0.1, n_records=1728)
    >>> print(model.fit(car.data, car.target).describe())  # doctest: +ELLIPSIS
    tree 1:
      ...
    """

    privacy: str = field(default="pure", init=False)
    delta: float | None = field(default=None, init=False)

    _experts: LabelForest = field(init=False)
    _method = "labels"
    _takes_any_currency = True  # every release costs a pure epsilon

    def _release_model(
        self, records: EncodedRecords, epsilon: Fraction, n_records: float
    ) -> None:
        sizes = self.schema_.domain_shape
        blocks = label_blocks(
            sizes, epsilon=float(epsilon), n_records=n_records, settings=self._settings
        )
        with self._timed("trees"):
            # Every record trains one tree: each has all of epsilon.
            self.ensembles_ = [self._tree(block, epsilon) for block in blocks]
        with self._timed("measurement"):
            entry = LedgerEntry(epsilon, LABELS, "permute_and_flip")
            relation, noise = self._terms.relation, self._insecure_rng
            self._note(charge(self.ledger_, entry, relation, noise))
            self._experts = draw_labels(
                *records.one_by_one(),
                domain_shape=sizes,
                n_classes=self.schema_.n_classes,
                blocks=blocks,
                epsilon=epsilon,
                relation=relation,
                noise=noise,
            )
        votes = {"voting": self._experts.voting, "n_trees": len(blocks)}
        self._choose(n_records, blocks=tuple(blocks), **votes)

    def _leaves(self, block: int, part: slice) -> list[Node]:
        labels = self._experts.labels[block][part].tolist()
        return labelled(labels, self.schema_.class_labels)

    def _settle(self) -> None:
        super()._settle()
        check_that(self._experts.blocks == self.choice_.blocks, "votes")
