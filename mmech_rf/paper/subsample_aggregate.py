"""Subsample-and-aggregate: every record trains one tree only."""

from __future__ import annotations

import numpy as np

from mmech import QueryMatrix
from mmech_rf.arrays import Integers
from mmech_rf.forest.ensembles import Ensemble
from mmech_rf.forest.voting import leaf_label_by_rule
from mmech_rf.paper.per_batch import PerBatchClassifier
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords
from mmech_rf.workloads import aggregation_workload


@estimator
class SubsampleAggregateClassifier(PerBatchClassifier):
    """Random forest whose trees see disjoint random samples of the records.

    Each record is assigned to one tree, uniformly and independently of all other
    records, from the operating system's entropy. With C the leaf counts, releases
    the votes ``QTᵀ C + QTᵀ A⁺ Lap(‖A‖₁ / ε)`` of one batch of queries ("weight"), or
    the same with the one-hot labels of the leaves in place of C and noise
    ``Lap(2 ‖A‖₁ / ε)`` ("hard": one record moves one label, two entries). Needs the
    leaves only, so the domain may be of any size.

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
