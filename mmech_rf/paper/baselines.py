"""The baselines of the paper: Laplace noise on every leaf, and no noise at all."""

from __future__ import annotations

from dataclasses import field
from fractions import Fraction
from typing import Any

import numpy as np

from mmech import Identity, PrivacyLedger
from mmech.checks import check_choice
from mmech.noise import random_key
from mmech.storage.codec import storable
from mmech_rf.arrays import Integers
from mmech_rf.estimator.options import estimator
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.forest.ensembles import Ensemble, spawn
from mmech_rf.paper.grown import CountedForest


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

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
        forests = [ensemble.forest for ensemble in self.ensembles_]
        counts = [Identity(forest.n_leaves) for forest in forests]
        shared = self.data == "shared"
        # One record is in a leaf of every tree, or of the one that it is assigned to.
        trees_of_record = [forest.n_trees if shared else 1 for forest in forests]
        mechanisms = self._mechanisms(counts, counts, trees_of_record)
        self.expected_error_ = self._expected_error(mechanisms)
        self._release_leaves(mechanisms, lambda e: self._exact_counts(e, records))


@estimator
class NonPrivateForestClassifier(CountedForest):
    """The random forest of the other classifiers with exact leaf counts.

    NOT PRIVATE: a reference for comparisons on public data.

    Parameters
    ----------
    schema : Schema, default=None
        Attributes and classes; read from the records when omitted.
    n_trees : int or inf, default=128
        Number of trees; ``math.inf`` for the limit of many multiway trees, one per
        subset of `depth` attributes.
    depth : int or "auto", default="auto"
        Tests on a path; "auto" is half the number of attributes for multiway trees and
        `fletcher_islam_depth` for others.
    splits : {"multiway", "binary", "threshold"}, default="multiway"
        Whether nodes have a child per value or compare with one, see
        `grow_random_forest`.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes the forest and breaks ties.

    Attributes
    ----------
    privacy_statement_ : str
        A warning: nothing is protected.
    leaf_counts_ : list of ndarray, each of shape (n_leaves, k)
        Exact counts.

    Examples
    --------
    >>> from mmech_rf import NonPrivateForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = NonPrivateForestClassifier(car.schema, depth=4, random_state=0)
    >>> model.fit(car.data, car.target).score(car.data, car.target) > 0.8
    True
    """

    # Parameters of the base that mean nothing without noise.
    epsilon: Any = field(default=1, init=False)
    n_ensembles: int = field(default=1, init=False)
    max_features: int | str | None = field(default=None, init=False)
    neighbours: str = field(default="add_remove", init=False)
    records_per_person: int = field(default=1, init=False)
    estimate_accuracy: bool = field(default=False, init=False)
    handle_unknown: str = field(default="clip", init=False)
    handle_missing: str = field(default="error", init=False)
    ledger: PrivacyLedger | None = field(default=None, init=False)
    insecure_rng: Any = field(default=None, init=False)

    _needs_cells = False
    _spends = False
    _released = ()

    @property
    def privacy_statement_(self) -> str:
        """A warning: nothing is protected."""
        return "NOT PRIVATE: the leaf counts are exact."

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
        ensemble = self.ensembles_[0]
        # Nothing to protect: ties are as reproducible as the forest.
        self._session.noise = np.random.default_rng(spawn(self.random_state, 2)[1])
        self._tie_key = random_key(self._session.noise)
        with self._timed("measurement"):
            counts = ensemble.forest.count_leaves(
                *records.one_by_one(), self.schema_.n_classes
            )
        self.leaf_counts_ = [counts.astype(np.float64)]
        self.leaf_labels_ = [self._random_argmax(counts)]
