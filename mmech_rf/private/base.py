"""What all forest classifiers share: fitting, accounting, prediction, copies.

A subclass grows what is public (`_grow`), measures counts (`_fit_counts`) and turns
codes into classes (`_predict_classes`).
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from mmech import PrivacyLedger
from mmech.domain.domain import warn_if_read
from mmech.noise import check_insecure_rng, keyed_argmax, random_argmax, random_key
from mmech.session import Session
from mmech.terminal import finishing
from mmech.threads import one_blas_thread
from mmech_rf.forest.ensembles import Ensemble
from mmech_rf.private.cluster import count_partitions, is_on_cluster
from mmech_rf.private.estimator import estimator, refuse_weights
from mmech_rf.private.inferred import infer_schema, warn_of_encoders
from mmech_rf.private.public_model import STAGES, PublicModel
from mmech_rf.private.records import EncodedRecords, RecordParts, encoded_blocks
from mmech_rf.private.terms import NOT_COVERED, Terms, cost_in_words, statement
from mmech_rf.schema import Schema

__all__ = ["ForestClassifier"]


@estimator
class ForestClassifier(ClassifierMixin, PublicModel):
    """Base of the private forest classifiers; not used by itself."""

    # ---- fitting ---------------------------------------------------------

    _distinct: ClassVar[bool] = False
    """Whether distinct records are enough: no record is assigned to a tree."""

    def count(
        self, X: Any, y: Any, *, chunk_id: Hashable | None = None
    ) -> ForestClassifier:
        """Count a part of the records, to be released with all others.

        Nothing is released and no budget is spent before `release`. What is kept of
        the part are distinct records and how often each is there; of methods that
        assign each record to a tree, or route it through all trees, the encoded
        records themselves. Until then the object refuses to be pickled, copied or used
        in another process.

        Parameters
        ----------
        X, y : as in `fit`
            A part of the records. Sensitive.
        chunk_id : hashable, default=None
            Name of the part, such as ``(file, first_row, stop_row)`` that `read` gives,
            whose rows errors name. A record counts once: a part of the same name, or
            of rows of the same file, is refused. Contents are never compared.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a value or a label is not valid, or the name of the part
            was there before: the part is not counted. Also without a schema, which
            parts would have to agree on.

        Examples
        --------
        >>> from mmech_rf import PrivateForestClassifier, datasets
        >>> car = datasets.load_car()
        >>> model = PrivateForestClassifier(car.schema, epsilon=0.5, n_records=1728)
        >>> for part in (slice(0, 1000), slice(1000, None)):
        ...     model = model.count(car.data[part], car.target[part])
        >>> model.release().choice_.n_trees
        1
        """
        self._check_parameters()
        if self.schema is None:
            raise ValueError(
                "schema must be given to count parts of the records, got None; pass a "
                "public Schema"
            )
        schema = self._reading_schema(self.schema)
        parts: RecordParts = vars(self).get("_parts") or self._no_parts(schema)
        parts.check(schema, chunk_id)
        self._add_records(parts, X, y, chunk_id)
        # Another thread may have counted the first part in the meantime.
        held = self.__dict__.setdefault("_parts", parts)
        if held is not parts:
            held.join(parts, chunk_id)
        return self

    def release(
        self, *, chunk_ids: Iterable[Hashable] | None = None
    ) -> ForestClassifier:
        """Grow the forests, and release what was counted: as one fit of all parts.

        Parameters
        ----------
        chunk_ids : iterable of hashable, default=None
            Names of all parts that there should be, fixed before the first was counted,
            so that none is lost on the way; ``None`` releases what was counted.

        Returns
        -------
        self
            Without the parts: the next `count` begins anew.

        Raises
        ------
        ValueError
            If nothing was counted, a part is missing or one too many, or a parameter
            is not valid; the parts stay.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is released, the parts stay.
        """
        parts: RecordParts | None = vars(self).get("_parts")
        if parts is None:
            raise ValueError("release needs records, got none; count() some first")
        schema = self.schema
        parts.check(None if schema is None else self._reading_schema(schema), None)
        if chunk_ids is not None:
            parts.check_complete(chunk_ids)
        self._settled(parts, None)
        del self._parts
        return self

    def fit(self, X: Any, y: Any, **weights: Any) -> ForestClassifier:
        """Grow the forests, then count the records in them.

        Parameters
        ----------
        X : frame, list of rows or array, shape (N, d)
            Records in the schema's raw values. Sensitive.
        y : array_like, shape (N,)
            Class labels of any type that the schema can read. Sensitive.
        **weights
            Nothing: ``sample_weight`` is refused, because noise hides one record that
            counts once.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            If there are weights.
        ValueError
            If a parameter, a value or a label is not valid; nothing is released.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is released.
        KeyboardInterrupt
            At once before the first release. Later the first Ctrl-C only says what is
            spent and the fit goes on to its end; a second one loses it.

        Warns
        -----
        PrivacyLeakWarning
            Once, if this object or a clone of it was fitted before without a ledger:
            each fit then spends a budget of its own.
        """
        refuse_weights(weights)
        if weights:
            raise TypeError(
                f"fit takes X and y, got {', '.join(weights)}; leave it out"
            )
        if self._holds_parts():
            raise ValueError(
                "fit would leave out the parts that were counted; release() them, or "
                "fit another estimator"
            )
        self._settled(X, y)
        return self

    def _settled(self, X: Any, y: Any) -> None:
        """Fit as a whole or not at all."""
        before = dict(vars(self))
        for name in before:
            if name in _PRIVATE_STATE or (name.endswith("_") and name[0] != "_"):
                delattr(self, name)

        def spent(words: str) -> str:
            paid = self.releases_ if "_session" in vars(self) else ()
            return words.format(cost_in_words(paid), len(paid)) if paid else ""

        try:
            with finishing(lambda: spent("{}")):
                self._fit(X, y)
        except BaseException as stop:
            lost = spent(
                "{} is spent on {} releases of this fit, which are lost; what is left "
                "of a ledger is not touched."
            )
            if lost:
                stop.add_note(lost)
            # Nothing half fitted: what an earlier fit paid for stays usable.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        finally:
            if isinstance(self.ledger, PrivacyLedger):
                self.ledger.let_go()

    def _fit(self, X: Any, y: Any) -> None:
        """Fit to raw records, or to parts that were counted."""
        epsilon = self._check_parameters()
        self._check_fit()
        counted = self._spends and self.ledger is None and self.insecure_rng is None
        if counted:
            self._family().fits_again(epsilon)
        if self.schema is not None:
            warn_if_read(self.schema, "schema", stacklevel=4)
        noise = check_insecure_rng(self.insecure_rng)
        self._terms = Terms(
            self.neighbours,
            self.schema is None,
            noise is not None,
            records_per_person=self.records_per_person,
        )
        schema, records = self._encode_training(X, y)
        self.schema_ = schema
        self.timings_ = dict.fromkeys(STAGES, 0.0)
        with self._timed("trees"):
            self.ensembles_ = self._grow(schema, epsilon)
        self._session = Session(self._ledger_of(epsilon), noise)
        self._tie_key = random_key(noise)
        if counted:
            self._family().fitted(epsilon)
        self._measure(records)

    def _check_fit(self) -> None:
        """Raise, or warn, where valid parameters do not go with this fit."""

    def _no_parts(self, schema: Schema) -> RecordParts:
        """Return what records are added to."""
        return RecordParts(schema, distinct=self._distinct)

    def _measure(self, records: EncodedRecords) -> None:
        """Release what there is to release of the records."""
        self._fit_counts(records)

    def _ledger_of(self, epsilon: Fraction) -> PrivacyLedger:
        """Return the ledger that pays for this fit."""
        relation = self._terms.relation
        if self.ledger is None:
            return PrivacyLedger(epsilon, **asdict(relation))
        if self.ledger.relation != relation:
            raise ValueError(
                "the ledger accounts for data sets that differ "
                f"{self.ledger.relation.words} but the classifier for ones that differ "
                f"{relation.words}; use the same neighbours= and records_per_person= "
                "for both"
            )
        return self.ledger

    def _encode_training(self, X: Any, y: Any) -> tuple[Schema, EncodedRecords]:
        if self.schema is None:
            if is_on_cluster(X):
                raise ValueError(
                    "schema must be given to fit records that Dask holds, got None; "
                    "pass a public Schema"
                )
            schema, X, y = infer_schema(self, X, y)
        else:
            warn_of_encoders(self.schema)
            schema = self._reading_schema(self.schema)
            self.n_features_in_ = schema.n_features
            self.feature_names_in_ = np.array(schema.feature_names, dtype=object)
        self.classes_ = schema.decode_target(np.arange(schema.n_classes))
        if isinstance(X, RecordParts):
            return schema, X.records()
        parts = self._no_parts(schema)
        self._add_records(parts, X, y, None)
        return schema, parts.records()

    def _reading_schema(self, schema: Schema) -> Schema:
        """Return the public cells that records are read in."""
        return schema

    def _add_records(
        self, parts: RecordParts, X: Any, y: Any, chunk_id: Hashable | None
    ) -> None:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y "
                "is None; pass the class label of every record"
            )
        policies = {
            "handle_unknown": self.handle_unknown,
            "handle_missing": self.handle_missing,
        }
        if is_on_cluster(X) or is_on_cluster(y):
            counts = count_partitions(parts.schema, X, y, policies)
            parts.add_counts(counts, chunk_id)
        else:
            blocks = encoded_blocks(parts.schema, X, y, policies, chunk_id)
            parts.add(blocks, chunk_id)

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        """Return the forests that do not depend on records, if any."""
        return []

    def _fit_counts(self, records: EncodedRecords) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _fit_counts")

    # ---- predicting ------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class label of every record.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            Inference queries in the schema's raw values; public.

        Returns
        -------
        ndarray, shape (b,)
            Labels as the schema has them, whatever the type of `y` was at the fit.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If a value is not valid. Policies of ``"drop"`` count as ``"error"``
            here, because every query needs an answer.
        """
        check_is_fitted(self)
        return self._labels(self._encode_queries(X))

    def _labels(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        """Return the class labels of encoded queries."""
        with self._timed("prediction"):
            classes = self._predict_classes(codes)
        return np.asarray(self.classes_)[classes]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of records whose class is predicted. Not private.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            As in `predict`.
        y : array_like, shape (b,)
            True class labels, of any type that the schema can read; predictions may
            have another type.
        sample_weight : array_like, shape (b,), optional
            Weights of the records.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If a label is missing or not one of the classes.
        """
        check_is_fitted(self)
        truth = self.schema_.encode_target(y)
        predicted = self.schema_.encode_target(self.predict(X))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def _encode_queries(self, X: Any) -> NDArray[np.int64]:
        """Return the codes of inference queries, shape (b, d)."""
        if self._terms.inferred:
            X = validate_data(self, X, dtype=None, reset=False)
            return self.schema_.encode(X, handle_unknown="clip")
        unknown, missing = (
            "error" if policy == "drop" else policy
            for policy in (self.handle_unknown, self.handle_missing)
        )
        return self.schema_.encode(X, handle_unknown=unknown, handle_missing=missing)

    def _predict_classes(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        raise NotImplementedError(f"{type(self).__name__} must define _predict_classes")

    def _break_ties(
        self, scores: NDArray[Any], codes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Arg max over classes of a released model: one answer per distinct record."""
        mixed = np.zeros(codes.shape[0], np.uint64)
        for column in codes.T:
            mixed = mixed * np.uint64(1_000_003) + column.astype(np.uint64)
        return keyed_argmax(scores, mixed, self._tie_key)

    def _random_argmax(self, scores: NDArray[Any]) -> NDArray[np.int64]:
        """Arg max over classes, ties broken by fresh system entropy."""
        return random_argmax(scores, insecure_rng=self._session.noise)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Add the seconds of a block to a stage, less those of stages inside it.

        BLAS has one thread in it.
        """
        started, before = time.perf_counter(), sum(self.timings_.values())
        try:
            with one_blas_thread():
                yield
        finally:
            inside = sum(self.timings_.values()) - before
            self.timings_[stage] += time.perf_counter() - started - inside

    # ---- what was released -----------------------------------------------

    _afterwards = "Predictions are post-processing: any number of them is free."
    _public = (
        "The schema, the forests, the strategy and the parameters do not depend on "
        "records."
    )

    def _guarantee(self) -> str:
        """Return in words what all releases guarantee together."""
        return cost_in_words(self.releases_)

    def _remarks(self) -> list[str]:
        """Return sentences on what was released, for the statement."""
        return []

    @property
    def privacy_statement_(self) -> str:
        """What was released, at which epsilon, to whom it gives protection."""
        check_is_fitted(self)
        return statement(
            self._terms,
            self.releases_,
            guarantee=self._guarantee() if self.releases_ else "",
            remarks=self._remarks(),
            afterwards=self._afterwards,
            public=NOT_COVERED if self.schema_.read_from_records else self._public,
        )

    def __sklearn_tags__(self) -> Any:
        """Say that two fits differ: noise never comes from random_state."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


_PRIVATE_STATE = (
    "_answered",
    "_contribution",
    "_counts",
    "_experts",
    "_saved",
    "_session",
    "_terms",
    "_tie_key",
    "_votes",
)
"""Attributes of a fit beside those that end with an underscore."""
