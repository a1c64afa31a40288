"""The baselines: Laplace noise on every leaf, without a matrix mechanism."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import Identity, MatrixMechanism, PrivacyLedger
from mmech.checks import check_choice
from mmech.noise import assign_records
from mmech.storage.codec import storable
from mmech_rf.private.batch_training import CountedForest
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.schema import Schema

__all__ = ["LaplaceForestClassifier"]


@storable("LaplaceForestClassifier")
class LaplaceForestClassifier(CountedForest):
    """Random forest with Laplace noise on every leaf count: the usual baseline.

    With shared data every record is counted in all τ trees and the noise is
    ``Lap(τ / ε)``; with disjoint data every record is assigned to one tree,
    independently of all others, and the noise is ``Lap(1 / ε)``.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. ``None`` reads them from the records, which
        the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of a fit, in nats. Required.
    data : {"shared", "disjoint"}, default="shared"
        Whether all trees see all records, or each record one tree.
    n_trees : int, inf or sequence of q of them, default=128
        Trees in all, shared out among the ensembles, or a sequence with the trees of
        each; ``math.inf`` for the limit of many multiway trees, one per subset of
        `depth` attributes of an ensemble.
    depth : int, "auto" or sequence of q of them, default="auto"
        Tests on a path, for all ensembles or for each; "auto" is half the number of
        attributes for multiway trees and `fletcher_islam_depth` for others.
    splits : {"multiway", "binary", "threshold"}, default="multiway"
        Whether nodes have a child per value or compare with one, see
        `grow_random_forest`.
    n_ensembles : int, default=1
        Number q of ensembles, each with a random subset of the attributes and
        epsilon / q.
    max_features : int, "partition" or None, default=None
        Attributes per ensemble, drawn anew for each; "partition" shares out all
        attributes, each to one ensemble; ``None`` for all.
    voting : {"hard", "weight"}, default="hard"
        Whether a tree votes for its leaf's label or with its leaf's counts.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation of the guarantee.
    records_per_person : int, default=1
        Largest number of records of one person, public: the budget is per person.
    handle_unknown, handle_missing : str, default="error"
        What happens to values outside the schema, see `Schema.encode`; queries are
        never dropped, "drop" counts as "error" for them.
    ledger : PrivacyLedger, default=None
        Budget shared with other releases; ``None`` allows exactly `epsilon` per
        fit. A copied or unpickled model comes with a ledger that is spent.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes the forests, never the noise or the assignment.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns and voids the guarantee.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Class labels, as the schema has them.
    schema_ : Schema
        Public facts in use.
    ensembles_ : list of Ensemble
        Forests, attributes and budget shares.
    leaf_counts_ : list of ndarray, each of shape (n_leaves, k)
        Released counts.
    leaf_labels_ : list of ndarray, each of shape (n_leaves,)
        Class index of every leaf.
    expected_error_ : float
        Expected total squared error of all released leaf counts.
    timings_ : dict of str to float
        Seconds per stage; depends on the records, not for publication.
    privacy_statement_ : str
        What was released at which epsilon.

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

    _needs_cells = False

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: Any,
        data: str = "shared",
        n_trees: float | Sequence[float] = 128,
        depth: int | str | Sequence[int | str] = "auto",
        splits: str = "multiway",
        n_ensembles: int = 1,
        max_features: int | str | None = None,
        voting: str = "hard",
        neighbours: str = "add_remove",
        records_per_person: int = 1,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        ledger: PrivacyLedger | None = None,
        random_state: Any = None,
        insecure_rng: Any = None,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.data = data
        self.n_trees = n_trees
        self.depth = depth
        self.splits = splits
        self.n_ensembles = n_ensembles
        self.max_features = max_features
        self.voting = voting
        self.neighbours = neighbours
        self.records_per_person = records_per_person
        self.handle_unknown = handle_unknown
        self.handle_missing = handle_missing
        self.ledger = ledger
        self.random_state = random_state
        self.insecure_rng = insecure_rng

    def _check_parameters(self) -> Any:
        check_choice(self.data, "data", ("shared", "disjoint"))
        return super()._check_parameters()

    def _assign(self, n_records: int, n_trees: int) -> NDArray[np.int64]:
        """Draw the tree of every record, independently of all others."""
        return assign_records(n_records, n_trees)

    def _exact_counts(
        self,
        ensemble: Ensemble,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        k = self.schema_.n_classes
        visible = ensemble.select(codes)
        if self.data == "shared":
            return ensemble.forest.count_leaves(visible, class_codes, k)
        trees = self._assign(codes.shape[0], ensemble.forest.n_trees)
        return ensemble.forest.count_assigned_leaves(visible, class_codes, k, trees)

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
        mechanisms: list[MatrixMechanism] = []
        for ensemble in self.ensembles_:
            leaves = Identity(ensemble.forest.n_leaves)
            contribution = ensemble.forest.n_trees if self.data == "shared" else 1
            mechanisms.append(self._mechanism(ensemble, leaves, leaves, contribution))
        self.expected_error_ = self._expected_error(mechanisms)
        self._reserve()
        with self._timed("measurement"):
            self.leaf_counts_ = [
                self._answer(
                    mechanism, self._exact_counts(ensemble, codes, class_codes)
                )
                for ensemble, mechanism in zip(self.ensembles_, mechanisms, strict=True)
            ]
            self.leaf_labels_ = [self._random_argmax(c) for c in self.leaf_counts_]
