"""DP batch training: release the leaf counts, then label the leaves."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from mmech import (
    Marginals,
    MatrixMechanism,
    Measurement,
    ParameterError,
    QueryMatrix,
    ShrunkEstimate,
    StrategyResult,
    bayes_risk_strategy,
    shrink,
)
from mmech.checks import check_choice
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.private.estimator import estimator
from mmech_rf.private.grown import CountedForest, OptimizedForest
from mmech_rf.private.records import EncodedRecords, check_n_records
from mmech_rf.private.votes import check_that
from mmech_rf.private.voting import class_shares, leaf_log_odds, weight_votes
from mmech_rf.workloads import training_workload

__all__ = ["BatchTrainingClassifier"]

POOLS = {"shrunk": "all", "log-linear": "disjoint"}
"""Marginals that are candidates, by reconstruction."""

NEGLIGIBLE = 1e-6
"""Numerical guard: least variance of noise in a count, which may round to zero."""

SMOOTHING = 0.5
"""Least count that is added to a cell of a block, shared out as the classes are.

Set by hand with `PRIOR_FLOOR`, looking at test accuracy on public sets, some or all of
car, balance-scale, iris, heart, mushroom, adult, nursery, claves, magic, wall-robot,
tic-tac-toe and student-por, at epsilon from 0.1 to 2."""

PRIOR_FLOOR = 0.01
"""No class counts for less than this part of an equal share."""

SMOOTHED = 0.01
"""Records that log-odds add to a leaf whose counts were estimated, shrunk already."""


@storable("BatchTrainingClassifier")
@estimator
class BatchTrainingClassifier(CountedForest, OptimizedForest):
    r"""Random forest whose leaf counts are released through the matrix mechanism.

    With T the leaves of all trees as queries and D the table of counts, releases
    ``T D + T A⁺ Lap(‖A‖₁ / ε)`` for a strategy A optimized for T, labels every
    leaf with its most frequent class, and lets the trees vote. The released model
    answers any number of predictions.

    Beyond [1]_, and off by default, trees add up log-odds, and D is estimated from
    marginals that are expected to stand out of the noise. The matrix mechanism at its
    best is one tree that tests all attributes, estimated from marginals.

    Parameters
    ----------
    $schema
    $epsilon
    $forest
    voting : {"hard", "weight", "log-odds"}, default="hard"
        Whether a tree votes for its leaf's label or with its leaf's counts, or, beyond
        [1]_, adds what its leaf says to the log-odds of the classes, see Notes.
    $ties
    reconstruction : {"least-squares", "shrunk", "log-linear"}, default="least-squares"
        How D is estimated. Beyond [1]_, marginals of D are measured that minimise the
        Bayes risk under a public prior, see `bayes_risk_strategy`, and shrunk, each set
        of attributes by its own evidence; "log-linear" combines disjoint ones into the
        distribution of maximum entropy. It suits labels that are sums of many
        attributes; "shrunk" suits interactions in many records.
    n_records : int, default=None
        Number of records, roughly, where it is public: other reconstructions than
        "least-squares" need it.
    $optimization
    $guarantee
    $accuracy
    $ledger
    $seed
    $insecure_rng

    Attributes
    ----------
    $fitted
    $accuracy_
    $ensembles_
    strategies_ : list of StrategyResult
        What was measured, per ensemble.
    $leaf_counts_
        With other reconstructions than "least-squares", of the measured tables.
    leaf_smoothing_ : list of float
        Records that "log-odds" adds to every leaf, shared out as the classes are, per
        ensemble: the standard deviation of the noise of its counts, at least one.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``; estimates and votes are post-processing.

    Log-odds are :math:`\log \hat p(c) + \kappa \sum_t \log (\hat p(c \mid l_t) / \hat
    p(c))` over the leaves :math:`l_t` of a record. Shares in leaves are shrunk towards
    those of all records by the known noise. Trees that test the same attributes say the
    same: :math:`\kappa` is the number of attributes over the number of tests, so that
    every attribute counts once, as in naive Bayes.

    Batch prediction takes neither option: its votes are sums of counts, and marginals
    of all records answer any batch.

    References
    ----------
    .. [1] Tajima, Wu, Houmansadr, "Improving Private Random Forest Prediction
       Using Matrix Representation", AAAI 2025, DP batch training.

    Examples
    --------
    >>> from mmech_rf import BatchTrainingClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = BatchTrainingClassifier(car.schema, epsilon=2.0, random_state=0)
    >>> labels = model.fit(car.data, car.target).predict(car.data[:5])
    >>> labels.shape
    (5,)
    >>> best = BatchTrainingClassifier(car.schema, epsilon=2.0, n_records=1728,
    ...     n_trees=1, depth=6, voting="weight", reconstruction="shrunk")
    >>> best.fit(car.data, car.target).score(car.data, car.target) > 0.7
    True
    """

    reconstruction: str = "least-squares"
    n_records: int | None = None

    strategies_: list[StrategyResult] = field(init=False)
    leaf_smoothing_: list[float] = field(init=False)
    _votings = ("hard", "weight", "log-odds")
    _measures_marginals = True
    _distinct = True
    _released: ClassVar[tuple[str, ...] | None] = (
        "ensembles_",
        "leaf_counts_",
        "leaf_labels_",
        "leaf_smoothing_",
        "expected_error_",
    )

    def _check_parameters(self) -> Fraction:
        check_n_records(self.n_records, "where nothing follows from it")
        own = check_choice(
            self.reconstruction, "reconstruction", ("least-squares", *POOLS)
        )
        if own == "least-squares":
            if self.n_records is not None:
                raise ParameterError(
                    "n_records",
                    "{reconstruction='least-squares'} has no use for {n_records}",
                    remedy=("leave it out", "choose {reconstruction='shrunk'}"),
                )
        elif self.n_records is None:
            raise ParameterError(
                "n_records",
                f"must be stated for {{reconstruction={own!r}}}, which chooses by it "
                "what is measured",
                remedy=(
                    "state it, roughly, if it is public",
                    "choose {reconstruction='least-squares'}",
                ),
            )
        elif self.template != "auto":
            raise ParameterError(
                "template",
                f"does not go with {{reconstruction={own!r}}}, which chooses itself "
                "what is measured",
                repr(self.template),
                "leave it out",
            )
        return super()._check_parameters()

    def _fit_counts(self, records: EncodedRecords) -> None:
        estimating = self.reconstruction != "least-squares"
        with self._timed("optimization"):
            workloads = [training_workload(e.forest) for e in self.ensembles_]
            measured: list[QueryMatrix] = [*workloads]
            if estimating:
                self.strategies_ = [self._chosen(e) for e in self.ensembles_]
                measured = [result.strategy for result in self.strategies_]
            else:
                self.strategies_ = self._optimize(measured)
            mechanisms = [
                self._mechanism(queries, result.strategy, epsilon=ensemble.epsilon)
                for ensemble, queries, result in zip(
                    self.ensembles_, measured, self.strategies_, strict=True
                )
            ]
            self.expected_error_ = self._expected_error(mechanisms)
        errors = [m.expected_error() / m.workload.shape[0] for m in mechanisms]
        self.leaf_smoothing_ = [
            SMOOTHED if estimating else max(1.0, math.sqrt(error)) for error in errors
        ]
        self._release_leaves(mechanisms, lambda e: self._count_table(e, records))

    # ---- estimates from marginals ----------------------------------------------

    def _known_records(self) -> float:
        """Return the public number of records that the forest is released from."""
        assert self.n_records is not None
        return float(self.n_records) * self._training_share

    def _chosen(self, ensemble: Ensemble) -> StrategyResult:
        """Return the marginals to measure in an ensemble. Public."""
        return bayes_risk_strategy(
            ensemble.forest.domain_shape,
            epsilon=ensemble.epsilon / self._terms.relation.factor,
            n_records=self._known_records(),
            n_columns=max(self.schema_.n_classes, 2),
            pool=POOLS[self.reconstruction],
        )

    def _counts_of_leaves(
        self, ensemble: Ensemble, mechanism: MatrixMechanism, exact: Integers
    ) -> Integers | Floats:
        if self.reconstruction == "least-squares":
            return super()._counts_of_leaves(ensemble, mechanism, exact)
        measurement = self._measured(mechanism, exact, self._what)
        cells = self._estimate(mechanism.strategy, measurement)
        return np.asarray(training_workload(ensemble.forest) @ cells)

    def _estimate(self, strategy: QueryMatrix, measurement: Measurement) -> Floats:
        """Return estimated counts of all cells, shape (n, k), from noisy marginals."""
        assert isinstance(strategy, Marginals)
        tables = Marginals(strategy.domain_shape, dict.fromkeys(strategy.weights, 1))
        variance = np.broadcast_to(measurement.variance, (tables.shape[0],))
        variance = np.maximum(variance, NEGLIGIBLE)
        values, n_records = measurement.values, self._known_records()
        shrunk = shrink(tables, values, variance=variance, n_records=n_records)
        if self.reconstruction == "shrunk":
            return shrunk.marginal(range(len(strategy.domain_shape)))
        return _independent_blocks(shrunk, list(strategy.weights))

    # ---- votes -------------------------------------------------------------------

    def _votes(self, codes: Integers) -> Floats:
        if self.voting != "log-odds":
            return super()._votes(codes)
        n_trees = [ensemble.forest.n_trees for ensemble in self.ensembles_]
        shares = class_shares(self.leaf_counts_, n_trees)
        votes = np.zeros((codes.shape[0], self.schema_.n_classes))
        for ensemble, counts, smoothing in zip(
            self.ensembles_, self.leaf_counts_, self.leaf_smoothing_, strict=True
        ):
            table = leaf_log_odds(counts, smoothing, shares)
            votes += weight_votes(ensemble.forest, table, ensemble.select(codes))
        seen = len({i for e in self.ensembles_ for i in e.features.tolist()})
        tests = sum(
            e.forest.n_trees * min(e.forest.depth, e.features.size)
            for e in self.ensembles_
        )
        return np.asarray(np.log(shares) + votes * (seen / max(tests, 1)))

    def _probabilities(self, codes: Integers) -> Floats:
        if self.voting != "log-odds":
            return super()._probabilities(codes)
        return np.asarray(softmax(self._votes(codes), axis=1))

    def _settle(self) -> None:
        super()._settle()
        check_that(len(self.leaf_smoothing_) == len(self.ensembles_), "smoothing")
        check_that(all(0 < s < math.inf for s in self.leaf_smoothing_), "smoothing")


def _independent_blocks(
    estimate: ShrunkEstimate, blocks: list[tuple[int, ...]]
) -> Floats:
    """Return expected counts of all cells, shape (n, k), from disjoint blocks.

    Blocks of attributes are independent given the class; their tables are smoothed by
    the posterior deviation of their counts.
    """
    totals = estimate.marginal(())[0]
    total = max(float(totals.sum()), 1.0)
    totals = np.maximum(totals, PRIOR_FLOOR * total / totals.size)
    shares = totals / totals.sum()
    axes = {i: n for i, n in enumerate(estimate.domain_shape) if n > 1}  # NumPy has 64
    out = np.broadcast_to(np.log(shares), (*axes.values(), shares.size))
    for block in blocks:
        added = np.maximum(np.sqrt(estimate.variance(block)), SMOOTHING) * shares
        smooth = np.maximum(estimate.marginal(block), 0.0) + added
        shape = [n if i in block else 1 for i, n in axes.items()]
        out = out + np.log(smooth / smooth.sum(axis=0)).reshape(*shape, -1)
    raised = np.exp(out - out.max()).reshape(-1, shares.size)
    return np.asarray(raised * (total / raised.sum()))
