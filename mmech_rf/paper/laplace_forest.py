"""The baselines: Laplace noise on every leaf, without a matrix mechanism."""

from __future__ import annotations

from typing import Any

from mmech import Identity
from mmech.checks import check_choice
from mmech.storage.codec import storable
from mmech_rf.arrays import Integers
from mmech_rf.forest.ensembles import Ensemble
from mmech_rf.paper.grown import CountedForest
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords


@storable("LaplaceForestClassifier")
@estimator
class LaplaceForestClassifier(CountedForest):
    """Random forest with Laplace noise on every leaf count: the usual baseline.

    With shared data every record is counted in all τ trees and the noise is
    ``Lap(τ / ε)``; with disjoint data every record is assigned to one tree,
    independently of all others, and the noise is ``Lap(1 / ε)``.

    Parameters
    ----------
    data : {"shared", "disjoint"}, default="shared"
        Whether all trees see all records, or each record one tree.

    Notes
    -----
    Proofs: ``notebooks/proofs/laplace.md``, ``notebooks/proofs/disjoint_samples.md``.

    References
    ----------
    .. [1] Fletcher, Islam, "Differentially private random decision forests using
       smooth sensitivity", Expert Systems with Applications 2017 (disjoint data).

    Examples
    --------
    >>> from mmech_rf import LaplaceForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = LaplaceForestClassifier(car.schema, epsilon=2.0, random_state=0)
    >>> model.fit(car.data, car.target).predict(car.data[:5]).shape
    (5,)
    """

    data: str = "shared"

    _needs_cells = False

    def _check_parameters(self) -> Any:
        check_choice(self.data, "data", ("shared", "disjoint"))
        return super()._check_parameters()

    def _exact_counts(self, ensemble: Ensemble, records: EncodedRecords) -> Integers:
        if self.data == "disjoint":
            return self._assigned_counts(ensemble, records)
        codes, class_codes = records.one_by_one()
        return ensemble.forest.count_leaves(
            ensemble.select(codes), class_codes, self.schema_.n_classes
        )

    def _fit_counts(self, records: EncodedRecords) -> None:
        forests = [ensemble.forest for ensemble in self.ensembles_]
        leaves = [Identity(forest.n_leaves) for forest in forests]
        shared = self.data == "shared"
        moved = [forest.n_trees if shared else 1 for forest in forests]
        mechanisms = self._mechanisms(leaves, leaves, moved)
        self.expected_error_ = self._expected_error(mechanisms)
        self._release_leaves(mechanisms, lambda e: self._exact_counts(e, records))
