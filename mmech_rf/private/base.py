"""What all forest classifiers share: fitting, accounting, prediction, copies.

A subclass grows what is public (`_grow`), measures counts (`_fit_counts`) and turns
codes into classes (`_predict_classes`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from mmech import PrivacyLedger
from mmech.noise import (
    check_insecure_rng,
    keyed_argmax,
    random_argmax,
    random_key,
)
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.private.estimator import estimator
from mmech_rf.private.inferred import infer_schema
from mmech_rf.private.public_model import STAGES, PublicModel
from mmech_rf.private.terms import Terms, cost_in_words, statement
from mmech_rf.schema import Schema

__all__ = ["ForestClassifier"]


@estimator
class ForestClassifier(ClassifierMixin, PublicModel):
    """Base of the private forest classifiers; not used by itself."""

    # ---- fitting ---------------------------------------------------------

    def fit(self, X: Any, y: Any) -> ForestClassifier:
        """Grow the forests, then count the records in them.

        Parameters
        ----------
        X : frame, list of rows or array, shape (N, d)
            Records in the schema's raw values. Sensitive.
        y : array_like, shape (N,)
            Class labels of any type that the schema can read. Sensitive.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, a value or a label is not valid; nothing is released.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is released.

        Warns
        -----
        PrivacyLeakWarning
            Once, if this object or a clone of it was fitted before without a ledger:
            each such fit spends a budget of its own.
        """
        before = dict(vars(self))
        for name in before:
            if name in _PRIVATE_STATE or (name.endswith("_") and name[0] != "_"):
                delattr(self, name)
        try:
            self._fit(X, y)
        except BaseException:
            # Nothing half fitted: what an earlier fit paid for stays usable.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, y: Any) -> None:
        epsilon = self._check_parameters()
        counted = self._spends and self.ledger is None and self.insecure_rng is None
        if counted:
            self._family().fits_again(epsilon)
        self._insecure_rng = check_insecure_rng(self.insecure_rng)
        self._terms = Terms(
            self.neighbours,
            self.schema is None,
            self._insecure_rng is not None,
            records_per_person=self.records_per_person,
        )
        schema, codes, class_codes = self._encode_training(X, y)
        self.schema_ = schema
        self.timings_ = dict.fromkeys(STAGES, 0.0)
        with self._timed("trees"):
            self.ensembles_ = self._grow(schema, epsilon)
        self.ledger_ = self._ledger_of(epsilon)
        self.releases_ = ()
        self._tie_key = random_key(self._insecure_rng)
        if counted:
            self._family().fitted(epsilon)
        self._fit_counts(codes, class_codes)

    def _ledger_of(self, epsilon: Fraction) -> PrivacyLedger:
        """Return the ledger that pays for this fit."""
        relation = self._terms.relation
        if self.ledger is None:
            return PrivacyLedger(
                epsilon,
                neighbours=relation.neighbours,
                records_per_person=relation.records_per_person,
            )
        if self.ledger.relation != relation:
            raise ValueError(
                "the ledger accounts for data sets that differ "
                f"{self.ledger.relation.words} but the classifier for ones that differ "
                f"{relation.words}; use the same neighbours= and records_per_person= "
                "for both"
            )
        return self.ledger

    def _encode_training(
        self, X: Any, y: Any
    ) -> tuple[Schema, NDArray[np.int64], NDArray[np.int64]]:
        policies: dict[str, Any] = {
            "handle_unknown": self.handle_unknown,
            "handle_missing": self.handle_missing,
        }
        if self.schema is None:
            schema, X, y = infer_schema(self, X, y)
        else:
            schema = self.schema
            if y is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y "
                    "is None; pass the class label of every record"
                )
            self.n_features_in_ = schema.n_features
            self.feature_names_in_ = np.array(schema.feature_names, dtype=object)
        self.classes_ = schema.decode_target(np.arange(schema.n_classes))
        codes, class_codes = schema.encode(X, y, **policies)
        return schema, codes, class_codes

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        """Return the forests that do not depend on records, if any."""
        return []

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
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
        codes = self._encode_queries(X)
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
            True class labels, of any type that the schema can read; their type may
            differ from that of the predictions.
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
        return random_argmax(scores, insecure_rng=self._insecure_rng)

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        """Add the seconds of a block to a stage, less those of stages inside it."""
        started, before = time.perf_counter(), sum(self.timings_.values())
        try:
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

    @property
    def privacy_statement_(self) -> str:
        """What was released, at which epsilon, to whom it gives protection."""
        check_is_fitted(self)
        return statement(
            self._terms,
            self.releases_,
            guarantee=self._guarantee() if self.releases_ else "",
            afterwards=self._afterwards,
            public=self._public,
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
    "_insecure_rng",
    "_saved",
    "_terms",
    "_tie_key",
)
"""Attributes of a fit beside those that end with an underscore."""
