"""DP batch training: release the leaf counts, then label the leaves."""

from __future__ import annotations

from mmech.storage.codec import storable
from mmech_rf.private.estimator import estimator
from mmech_rf.private.grown import CountedForest, OptimizedForest
from mmech_rf.private.records import EncodedRecords
from mmech_rf.workloads import training_workload

__all__ = ["BatchTrainingClassifier"]


@storable("BatchTrainingClassifier")
@estimator
class BatchTrainingClassifier(CountedForest, OptimizedForest):
    """Random forest whose leaf counts are released through the matrix mechanism.

    With T the leaves of all trees as queries and D the table of counts, releases
    ``T D + T A⁺ Lap(‖A‖₁ / ε)`` for a strategy A optimized for T, labels every
    leaf with its most frequent class, and lets the trees vote. The released model
    answers any number of predictions.

    Parameters
    ----------
    $schema
    $epsilon
    $forest
    $voting
    $ties
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

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``.

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

    _measures_marginals = True
    _distinct = True

    def _fit_counts(self, records: EncodedRecords) -> None:
        with self._timed("optimization"):
            workloads = [training_workload(e.forest) for e in self.ensembles_]
            self.strategies_ = self._optimize([*workloads])
            mechanisms = [
                self._mechanism(ensemble, workload, result.strategy)
                for ensemble, workload, result in zip(
                    self.ensembles_, workloads, self.strategies_, strict=True
                )
            ]
            self.expected_error_ = self._expected_error(mechanisms)
        self._release_leaves(mechanisms, lambda e: self._count_table(e, records))
