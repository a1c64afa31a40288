"""DP batch training: release the leaf counts, then label the leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mmech.storage.codec import storable
from mmech_rf.private.base import ForestClassifier
from mmech_rf.private.votes import check_labels, check_that
from mmech_rf.private.voting import hard_votes, weight_votes
from mmech_rf.workloads import training_workload

__all__ = ["BatchTrainingClassifier", "CountedForest"]


class CountedForest(ForestClassifier):
    """Base of the random forests whose leaf counts are released once."""

    leaf_counts_: list[NDArray[np.int64] | NDArray[np.float64]]
    leaf_labels_: list[NDArray[np.int64]]
    expected_error_: float
    _what = "leaf counts"
    _released = ("ensembles_", "leaf_counts_", "leaf_labels_", "expected_error_")

    def _predict_classes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._break_ties(released_votes(self, codes), codes)

    def _settle(self) -> None:
        k = self.schema_.n_classes
        check_that(len(self.ensembles_) > 0, "forests")
        for ensemble, counts, labels in zip(
            self.ensembles_, self.leaf_counts_, self.leaf_labels_, strict=True
        ):
            ensemble.check(self.schema_.domain_shape)
            check_that(counts.shape == (ensemble.forest.n_leaves, k), "counts")
            check_labels(labels, ensemble.forest.n_leaves, k)


@storable("BatchTrainingClassifier")
class BatchTrainingClassifier(CountedForest):
    """Random forest whose leaf counts are released through the matrix mechanism.

    With T the leaves of all trees as queries and D the table of counts, releases
    ``T D + T A⁺ Lap(‖A‖₁ / ε)`` for a strategy A optimized for T, labels every
    leaf with its most frequent class, and lets the trees vote. The released model
    answers any number of predictions.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. ``None`` reads them from the records, which
        the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of a fit, in nats. Required.
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
    template : str, default="auto"
        Strategy template, see `mmech.optimize`.
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
    n_jobs : int, default=None
        Processes that optimize the strategies of the ensembles, see
        ``joblib.Parallel``; they see public workloads only, and the results are
        those of one process.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes the forests, never the noise.
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
    strategies_ : list of StrategyResult
        What was measured, per ensemble.
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

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
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
        self._reserve()
        with self._timed("measurement"):
            self.leaf_counts_ = [
                self._answer(mechanism, self._count_table(ensemble, codes, class_codes))
                for ensemble, mechanism in zip(self.ensembles_, mechanisms, strict=True)
            ]
            self.leaf_labels_ = [self._random_argmax(c) for c in self.leaf_counts_]


def released_votes(
    model: ForestClassifier, codes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the votes (b, k) of a model whose leaf counts were released."""
    scores = np.zeros((codes.shape[0], model.schema_.n_classes))
    for i, ensemble in enumerate(model.ensembles_):
        visible = ensemble.select(codes)
        if model.voting == "hard":
            labels = model.leaf_labels_[i]
            scores += hard_votes(ensemble.forest, labels, scores.shape[1], visible)
        else:
            scores += weight_votes(ensemble.forest, model.leaf_counts_[i], visible)
    return scores
