"""DP batch prediction: release the weighted votes of one batch of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import PrivacyLedger, QueryMatrix
from mmech_rf.limits import LIMITS
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.private.per_batch import PerBatchClassifier
from mmech_rf.private.sizes import OTHERWISE, TableTooLargeError
from mmech_rf.schema import Schema
from mmech_rf.workloads import explicit_rows, prediction_workload

__all__ = ["BatchPredictionClassifier"]


class BatchPredictionClassifier(PerBatchClassifier):
    """Random forest that releases the votes of one batch of queries.

    With Q the queries, T the leaves of all trees and D the table of counts,
    releases the weighted votes ``QTᵀT D + QTᵀT A⁺ Lap(‖A‖₁ / ε)`` for a strategy A
    optimized for QTᵀT, and answers each query with its most voted class. The
    budget is spent by the first `predict`; the inference queries are public and
    not protected, so training records must never be queries.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. ``None`` reads them from the records, which
        the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of one batch, in nats. Required.
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
    voting : {"weight"}, default="weight"
        A tree votes with the counts of the leaf.
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
        Budget shared with other releases; ``None`` allows exactly one batch.
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
        What was measured for the batch, per ensemble.
    expected_error_ : float
        Expected total squared error of the batch's votes; set by `predict`.
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
    _votings = ("weight",)
    _what = "votes of one batch"

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: Any,
        n_trees: float | Sequence[float] = 128,
        depth: int | str | Sequence[int | str] = "auto",
        splits: str = "multiway",
        n_ensembles: int = 1,
        max_features: int | str | None = None,
        voting: str = "weight",
        template: str = "auto",
        neighbours: str = "add_remove",
        records_per_person: int = 1,
        handle_unknown: str = "error",
        handle_missing: str = "error",
        ledger: PrivacyLedger | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        insecure_rng: Any = None,
    ) -> None:
        super().__init__(
            schema,
            epsilon=epsilon,
            n_trees=n_trees,
            depth=depth,
            splits=splits,
            n_ensembles=n_ensembles,
            max_features=max_features,
            voting=voting,
            template=template,
            neighbours=neighbours,
            records_per_person=records_per_person,
            handle_unknown=handle_unknown,
            handle_missing=handle_missing,
            ledger=ledger,
            n_jobs=n_jobs,
            random_state=random_state,
            insecure_rng=insecure_rng,
        )

    def _exact_counts(
        self,
        ensemble: Ensemble,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        return self._count_table(ensemble, codes, class_codes)

    def _workload(self, ensemble: Ensemble, codes: NDArray[np.int64]) -> QueryMatrix:
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
