"""The methods that spend their budget on one batch of queries: votes, no model."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import (
    BudgetExceededError,
    Identity,
    QueryMatrix,
    optimize,
    record_evidence,
)
from mmech.checks import check_choice
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.forest.ensembles import Ensemble, leaf_label_by_rule, vote_shares
from mmech_rf.forest.growth import OTHERWISE, TableTooLargeError
from mmech_rf.limits import LIMITS
from mmech_rf.paper.grown import GrownForest, optimized
from mmech_rf.workloads import aggregation_workload, explicit_rows, prediction_workload


def _no_model(self: Any) -> Any:
    """Raise: votes of a batch are no model to show, and more of them cost budget."""
    raise AttributeError(
        f"a {type(self).__name__} releases votes of a batch and has no model to show; "
        "fit a PrivateForestClassifier"
    )


@estimator
class PerBatchClassifier(GrownForest):
    """Base of the classifiers that release the votes of a batch, not a model.

    `fit` releases nothing and keeps exact counts; the first `predict` spends the
    budget, the same batch again returns the stored answer, another batch is
    refused once the ledger is empty.

    Parameters
    ----------
    epsilon : float, str or Fraction
        Privacy budget of one batch, in nats. Required.
    template : str, default="auto"
        Strategy template, see `mmech.optimize`.
    answers : {"batch", "per_query"}, default="batch"
        "batch": the batch is measured as a whole. "per_query", the baseline of [1]_:
        each of its b queries is measured with epsilon / b. The noise is then
        ``Lap(b m / ε)``, where one record moves the votes of a query by m: n_trees in
        batch prediction, 1 where records are assigned to trees, and 2 there under hard
        voting.
    ledger : PrivacyLedger, default=None
        Budget shared with other releases; ``None`` allows exactly one batch.

    Attributes
    ----------
    strategies_ : list of StrategyResult
        What was measured for the batch, per ensemble.
    expected_error_ : float
        Expected total squared error of the batch's votes; set by `predict`.
    """

    voting: str = "weight"
    template: str = "auto"
    answers: str = "batch"
    estimate_accuracy: bool = field(default=False, init=False)  # of a model

    describe = to_html = property(_no_model)
    named_importances = feature_importances_ = property(_no_model)

    _holds_secrets = True
    _what = "votes of one batch"
    _counts: list[Integers] = field(init=False)
    _contribution: int = field(init=False)
    _answered: list[tuple[Integers, Integers, Floats]] = field(init=False)
    _afterwards = (
        "Each new batch of queries spends budget; the same batch again is free. "
        "Queries are public: never predict on training records."
    )

    def predict(self, X: Any) -> NDArray[Any]:
        """Release the class labels of one batch of queries; spends epsilon.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            Inference queries in the schema's raw values. They are public and not
            protected: never pass training records.

        Returns
        -------
        ndarray, shape (b,)
            Labels in the type they were given in. The same batch again returns
            the same labels for free.

        Raises
        ------
        BudgetExceededError
            If the budget was spent on another batch; nothing is released.
        """
        return super().predict(X)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return every class's share of the released votes for a batch.

        The batch is released as by `predict`, once for both: shares are what the noisy
        votes say, negative ones counted as none.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            As in `predict`.

        Returns
        -------
        ndarray of float64, shape (b, k)
            Columns in the order of `classes_`; where no vote is positive, the class of
            the largest has all.

        Raises
        ------
        BudgetExceededError
            As in `predict`.
        """
        return super().predict_proba(X)

    def _probabilities(self, codes: Integers) -> Floats:
        return vote_shares(self._answer_to(codes)[1])

    def close(self) -> None:
        """Forget the exact counts; answers that were released stay.

        Afterwards the object holds nothing sensitive: batches that were answered
        keep their answer, others are refused.
        """
        if self._holds_counts():
            del self._counts

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
        self._answered = []
        # Settled with the counts: a later set_params must not halve the noise.
        self._contribution = self._record_contribution()
        with self._timed("measurement"):
            self._counts = [
                self._exact_counts(ensemble, records) for ensemble in self.ensembles_
            ]

    def _check_parameters(self) -> Fraction:
        check_choice(self.answers, "answers", ("batch", "per_query"))
        return super()._check_parameters()

    def _record_contribution(self) -> int:
        """Return the largest L1 change of the exact counts through one record."""
        return 1

    def _votes_moved(self, ensemble: Ensemble) -> int:
        """Return the largest L1 change of one query's votes through one record."""
        return self._contribution

    @abstractmethod
    def _exact_counts(self, ensemble: Ensemble, records: EncodedRecords) -> Integers:
        """Return the exact counts that the strategy measures. Sensitive."""

    @abstractmethod
    def _workload(self, ensemble: Ensemble, codes: Integers) -> QueryMatrix:
        """Return the queries that turn those counts into votes."""

    def _predict_classes(self, codes: Integers) -> Integers:
        return self._answer_to(codes)[0]

    def _answer_to(self, codes: Integers) -> tuple[Integers, Floats]:
        """Return classes and votes of a batch, released once; none cost nothing."""
        if not len(codes):
            return np.zeros(0, np.int64), np.zeros((0, self.schema_.n_classes))
        for batch, classes, votes in self._answered:
            if np.array_equal(batch, codes):
                return classes, votes
        if not self._holds_counts():
            raise BudgetExceededError(
                f"this {type(self).__name__} was closed and holds no counts any more; "
                "fit it again, on a new budget, to answer another batch"
            )
        self._reserve()
        try:
            with record_evidence() as record:
                answer = self._answer_batch(codes)
            self.evidence_ = record.evidence()
            return answer
        finally:
            self.ledger_.let_go()

    def _answer_batch(self, codes: Integers) -> tuple[Integers, Floats]:
        """Release classes and votes of a batch, and remember them."""
        with self._timed("optimization"):
            workloads = [
                self._workload(ensemble, ensemble.select(codes))
                for ensemble in self.ensembles_
            ]
            if self.answers == "per_query":
                # A record may move the votes of all b queries, each at epsilon / b.
                exact = [w @ c for w, c in zip(workloads, self._counts, strict=True)]
                moved = [len(codes) * self._votes_moved(e) for e in self.ensembles_]
                workloads = [Identity(len(codes))] * len(workloads)
                strategies = [optimize(w, template="identity") for w in workloads]
            else:
                exact = self._counts
                moved = [self._contribution] * len(workloads)
                strategies = [optimized(w, self.template) for w in workloads]
            measured = [result.strategy for result in strategies]
            mechanisms = self._mechanisms(workloads, measured, moved)
            expected_error = self._expected_error(mechanisms)
        with self._timed("measurement"):
            answers = [
                self._answer(mechanism, counts)
                for mechanism, counts in zip(mechanisms, exact, strict=True)
            ]
        votes = np.sum(answers, axis=0)
        classes = self._random_argmax(votes)
        self.strategies_, self.expected_error_ = strategies, expected_error
        votes = np.asarray(votes, np.float64)
        self._answered.append((codes.copy(), classes, votes))
        return classes, votes


@estimator
class BatchPredictionClassifier(PerBatchClassifier):
    """Random forest that releases the votes of one batch of queries.

    Let Q be the queries, T the leaves of all trees and D the table of counts. The first
    `predict` releases the weighted votes ``QTᵀT D + QTᵀT A⁺ Lap(‖A‖₁ / ε)`` for a
    strategy A optimized for QTᵀT, and spends the budget. Each query is answered with
    its most voted class. The inference queries are public and not protected, so
    training records must never be queries.

    Parameters
    ----------
    voting : {"weight"}, default="weight"
        A tree votes with the counts of the leaf.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``.

    References
    ----------
    .. [1] Tajima, Wu, Houmansadr, "Improving Private Random Forest Prediction
       Using Matrix Representation", AAAI 2025, DP batch prediction.

    Examples
    --------
    >>> from mmech_rf import BatchPredictionClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = BatchPredictionClassifier(car.schema, epsilon=2.0, random_state=0)
    >>> model.fit(car.data[100:], car.target[100:]).predict(car.data[:100]).shape
    (100,)
    """

    # Every query visits them: fewer than a model that is released once.
    _tree_cells = "batch_tree_cells"
    _distinct = True
    _votings = ("weight",)

    def _exact_counts(self, ensemble: Ensemble, records: EncodedRecords) -> Integers:
        return self._count_table(ensemble, records)

    def _votes_moved(self, ensemble: Ensemble) -> int:
        return ensemble.forest.n_trees

    def _workload(self, ensemble: Ensemble, codes: Integers) -> QueryMatrix:
        workload = prediction_workload(ensemble.forest, codes)
        cells = ensemble.forest.n_trees * ensemble.forest.n_cells
        if codes.shape[0] * cells <= LIMITS.explicit_visits:
            return workload
        explicit = explicit_rows(workload)
        if explicit is not None:
            return explicit
        most = LIMITS.batch_visits
        if codes.shape[0] * cells > most:
            raise TableTooLargeError(
                "X",
                f"{codes.shape[0]} rows of {{X}}, {ensemble.forest.n_trees} trees and "
                f"{ensemble.forest.n_cells:,} cells take too long to optimize for",
                remedy=(
                    f"predict at most {max(1, most // cells)} rows at once",
                    OTHERWISE,
                ),
            )
        return workload


@estimator
class SubsampleAggregateClassifier(PerBatchClassifier):
    """Random forest whose trees see disjoint random samples of the records.

    Each record is assigned to one tree, uniformly and independently of all other
    records, from the operating system's entropy. Let C be the leaf counts. "weight"
    releases the votes ``QTᵀ C + QTᵀ A⁺ Lap(‖A‖₁ / ε)`` of one batch of queries. "hard"
    has the one-hot labels of the leaves in place of C, and noise ``Lap(2 ‖A‖₁ / ε)``:
    one record moves one label, two entries. Only the leaves are needed, so the domain
    may be of any size.

    Parameters
    ----------
    voting : {"weight", "hard"}, default="weight"
        Whether a tree votes with the counts of the leaf or with its label.

    Notes
    -----
    Proof: ``notebooks/proofs/disjoint_samples.md``.

    References
    ----------
    .. [1] Tajima, Wu, Houmansadr, "Improving Private Random Forest Prediction
       Using Matrix Representation", AAAI 2025, Definitions 4, 5, 7 and 8. (Their
       code cuts a shuffled list into equal parts, where one record's arrival moves
       another; independent assignment is what makes the sensitivity one.)

    Examples
    --------
    >>> from mmech_rf import SubsampleAggregateClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = SubsampleAggregateClassifier(car.schema, epsilon=2.0, random_state=0)
    >>> model.fit(car.data[100:], car.target[100:]).predict(car.data[:100]).shape
    (100,)
    """

    n_trees: float = 16

    _needs_cells = False

    def _record_contribution(self) -> int:
        return 2 if self.voting == "hard" else 1

    def _exact_counts(self, ensemble: Ensemble, records: EncodedRecords) -> Integers:
        counts = self._assigned_counts(ensemble, records)
        if self.voting == "weight":
            return counts
        labels = leaf_label_by_rule(counts, first=self.ties == "first")
        return (labels[:, None] == np.arange(counts.shape[1])).astype(np.int64)

    def _workload(self, ensemble: Ensemble, codes: Integers) -> QueryMatrix:
        return aggregation_workload(ensemble.forest, codes)
