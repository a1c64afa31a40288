"""Subsample-and-aggregate: every record trains one tree only."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import PrivacyLedger, QueryMatrix
from mmech.noise import assign_records
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.private.per_batch import PerBatchClassifier
from mmech_rf.private.voting import leaf_label_by_rule
from mmech_rf.schema import Schema
from mmech_rf.workloads import aggregation_workload

__all__ = ["SubsampleAggregateClassifier"]


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
    schema : Schema, default=None
        Public attributes and classes. ``None`` reads them from the records, which
        the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of one batch, in nats. Required.
    n_trees : int, inf or sequence of q of them, default=16
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
        epsilon / q; every ensemble assigns the records anew.
    max_features : int, "partition" or None, default=None
        Attributes per ensemble, drawn anew for each; "partition" shares out all
        attributes, each to one ensemble; ``None`` for all.
    voting : {"weight", "hard"}, default="weight"
        Whether a tree votes with the counts of the leaf or with its label.
    default_label : label, default=None
        Public label of empty leaves under hard voting; the first class when
        omitted.
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

    _needs_cells = False
    _what = "votes of one batch"

    def __init__(
        self,
        schema: Schema | None = None,
        *,
        epsilon: Any,
        n_trees: float | Sequence[float] = 16,
        depth: int | str | Sequence[int | str] = "auto",
        splits: str = "multiway",
        n_ensembles: int = 1,
        max_features: int | str | None = None,
        voting: str = "weight",
        default_label: Any = None,
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
        self.default_label = default_label

    def _check_parameters(self) -> Fraction:
        epsilon = super()._check_parameters()
        if self.schema is not None:
            self._default_class(self.schema)
        return epsilon

    def _record_contribution(self) -> int:
        return 2 if self.voting == "hard" else 1

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
        forest = ensemble.forest
        trees = self._assign(codes.shape[0], forest.n_trees)
        counts = forest.count_assigned_leaves(
            ensemble.select(codes), class_codes, k, trees
        )
        if self.voting == "weight":
            return counts
        labels = leaf_label_by_rule(counts, self._default_class(self.schema_))
        return (labels[:, None] == np.arange(k)).astype(np.int64)

    def _default_class(self, schema: Schema) -> int:
        if self.default_label is None:
            return 0
        try:
            return int(schema.encode_target([self.default_label])[0])
        except ValueError:
            raise ValueError(
                f"default_label must be one of the classes {schema.class_labels}, got "
                f"{self.default_label!r}; use None for the first"
            ) from None

    def _workload(self, ensemble: Ensemble, codes: NDArray[np.int64]) -> QueryMatrix:
        return aggregation_workload(ensemble.forest, codes)
