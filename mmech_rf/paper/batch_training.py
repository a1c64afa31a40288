"""DP batch training: release the leaf counts, then label the leaves."""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction

import numpy as np
from scipy.special import softmax

from mmech import QueryMatrix, StrategyResult
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.estimator.votes import check_that
from mmech_rf.forest.ensembles import class_shares, leaf_log_odds, weight_votes
from mmech_rf.methods import VOTINGS
from mmech_rf.paper.grown import CountedForest, optimized
from mmech_rf.workloads import training_workload


@storable("BatchTrainingClassifier")
@estimator
class BatchTrainingClassifier(CountedForest):
    r"""Random forest whose leaf counts are released through the matrix mechanism.

    Let T be the leaves of all trees as queries, and D the table of counts. The fit
    releases ``T D + T A⁺ Lap(‖A‖₁ / ε)`` for a strategy A optimized for T. It labels
    every leaf with its most frequent class, and lets the trees vote. The released model
    answers any number of predictions.

    Beyond [1]_, and off by default, trees add up log-odds.

    Parameters
    ----------
    voting : {"hard", "weight", "log-odds"}, default="hard"
        "hard": a tree votes for the label of its leaf. "weight": it votes with the
        counts of its leaf. "log-odds", beyond [1]_: it adds the log-odds of the classes
        in its leaf, see Notes.
    template : str, default="auto"
        Strategy template, see `mmech.optimize`.

    Attributes
    ----------
    strategies_ : list of StrategyResult
        What was measured, per ensemble.
    leaf_smoothing_ : list of float
        Records that "log-odds" adds to every leaf, shared out as the classes are, per
        ensemble: the standard deviation of the noise of its counts, at least one.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``; votes are post-processing.

    Log-odds are :math:`\log \hat p(c) + \alpha \sum_t \log (\hat p(c \mid l_t) / \hat
    p(c))` over the leaves :math:`l_t` of a record. Shares in leaves are shrunk towards
    those of all records by the known noise. Trees that test the same attributes say the
    same: :math:`\alpha` is the number of attributes over the number of tests, so that
    every attribute counts once, as in naive Bayes.

    Batch prediction has no log-odds: its votes are sums of counts.

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
    """

    template: str = "auto"

    strategies_: list[StrategyResult] = field(init=False)
    leaf_smoothing_: list[float] = field(init=False)
    _strategies: list[QueryMatrix] = field(init=False)
    _votings = VOTINGS
    _distinct = True
    _released = (*CountedForest._released, "leaf_smoothing_", "_strategies")

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
        with self._timed("optimization"):
            workloads: list[QueryMatrix] = [
                training_workload(e.forest) for e in self.ensembles_
            ]
            if not self._again:
                self.strategies_ = [optimized(w, self.template) for w in workloads]
                self._strategies = [result.strategy for result in self.strategies_]
            ones = [1] * len(workloads)
            mechanisms = self._mechanisms(workloads, self._strategies, ones)
            self.expected_error_ = self._expected_error(mechanisms)
        errors = [m.expected_error() / m.workload.shape[0] for m in mechanisms]
        self.leaf_smoothing_ = [max(1.0, math.sqrt(error)) for error in errors]
        self._release_leaves(mechanisms, lambda e: self._count_table(e, records))

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
