"""The same forest without noise, to see what privacy costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.noise import random_key
from mmech_rf.private.base import ForestClassifier
from mmech_rf.private.batch_training import released_votes
from mmech_rf.private.ensembles import spawn
from mmech_rf.schema import Schema

__all__ = ["NonPrivateForestClassifier"]


class NonPrivateForestClassifier(ForestClassifier):
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
    voting : {"hard", "weight"}, default="hard"
        Whether a tree votes for its leaf's label or with its leaf's counts.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes the forest and breaks ties.

    Examples
    --------
    >>> from mmech_rf import NonPrivateForestClassifier, datasets
    >>> car = datasets.load_car()
    >>> model = NonPrivateForestClassifier(car.schema, depth=4, random_state=0)
    >>> model.fit(car.data, car.target).score(car.data, car.target) > 0.8
    True
    """

    _needs_cells = False

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        n_trees: float | Sequence[float] = 128,
        depth: int | str | Sequence[int | str] = "auto",
        splits: str = "multiway",
        voting: str = "hard",
        random_state: Any = None,
    ) -> None:
        self.schema = schema
        self.n_trees = n_trees
        self.depth = depth
        self.splits = splits
        self.voting = voting
        self.random_state = random_state

    # Parameters of the base that mean nothing without noise.
    epsilon = 1
    n_ensembles = 1
    max_features = None
    neighbours = "add_remove"
    handle_unknown = handle_missing = "error"
    ledger = insecure_rng = None
    records_per_person = 1
    _spends = False

    @property
    def privacy_statement_(self) -> str:
        """A warning: nothing is protected."""
        return "NOT PRIVATE: the leaf counts are exact."

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
        ensemble = self.ensembles_[0]
        # Nothing to protect: ties are as reproducible as the forest.
        self._insecure_rng = np.random.default_rng(spawn(self.random_state, 2)[1])
        self._tie_key = random_key(self._insecure_rng)
        with self._timed("measurement"):
            counts = ensemble.forest.count_leaves(
                codes, class_codes, self.schema_.n_classes
            )
        self.leaf_counts_ = [counts.astype(np.float64)]
        self.leaf_labels_ = [self._random_argmax(counts)]

    def _predict_classes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._break_ties(released_votes(self, codes), codes)
