"""DP batch prediction: release the weighted votes of one batch of queries."""

from __future__ import annotations

from mmech import QueryMatrix
from mmech_rf.arrays import Integers
from mmech_rf.forest.ensembles import Ensemble
from mmech_rf.forest.sizes import OTHERWISE, TableTooLargeError
from mmech_rf.limits import LIMITS
from mmech_rf.paper.per_batch import PerBatchClassifier
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords
from mmech_rf.workloads import explicit_rows, prediction_workload


@estimator
class BatchPredictionClassifier(PerBatchClassifier):
    """Random forest that releases the votes of one batch of queries.

    With Q the queries, T the leaves of all trees and D the table of counts,
    releases the weighted votes ``QTᵀT D + QTᵀT A⁺ Lap(‖A‖₁ / ε)`` for a strategy A
    optimized for QTᵀT, and answers each query with its most voted class. The
    budget is spent by the first `predict`; the inference queries are public and
    not protected, so training records must never be queries.

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
