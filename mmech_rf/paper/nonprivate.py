"""The same forest without noise, to see what privacy costs."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from mmech import PrivacyLedger
from mmech.noise import random_key
from mmech_rf.forest.ensembles import spawn
from mmech_rf.paper.grown import CountedForest
from mmech_rf.private.estimator import estimator
from mmech_rf.private.records import EncodedRecords


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

    def _fit_counts(self, records: EncodedRecords) -> None:
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
