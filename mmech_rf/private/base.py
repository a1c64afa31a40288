"""What all forest classifiers share: fitting, accounting, prediction, copies.

A subclass grows what is public (`_grow`), measures counts (`_fit_counts`) and turns
codes into classes (`_predict_classes`).
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from mmech import PrivacyLedger
from mmech.checks import check_choice, check_epsilon
from mmech.noise import (
    LAWS,
    check_insecure_rng,
    keyed_argmax,
    random_argmax,
    random_key,
)
from mmech.privacy.ledger import CURRENCIES, KINDS, LedgerEntry
from mmech.privacy.neighbours import Relation
from mmech.storage.codec import write
from mmech_rf.private.ensembles import Ensemble, check_random_state
from mmech_rf.private.estimator import estimator
from mmech_rf.private.inferred import infer_schema
from mmech_rf.private.lineage import Lineage
from mmech_rf.private.terms import Terms, cost_in_words, spent_ledger, statement
from mmech_rf.private.votes import check_that
from mmech_rf.schema import Schema

__all__ = ["ForestClassifier"]


STAGES = ("trees", "optimization", "measurement", "prediction")


@estimator
class ForestClassifier(ClassifierMixin, BaseEstimator):
    """Base of the private forest classifiers; not used by itself."""

    schema: Schema | None = field(default=None, kw_only=False)
    epsilon: Any
    neighbours: str = "add_remove"
    records_per_person: int = 1
    handle_unknown: str = "error"
    handle_missing: str = "error"
    ledger: PrivacyLedger | None = None
    random_state: Any = None
    insecure_rng: Any = None

    _holds_secrets = False
    _spends = True
    _released: ClassVar[tuple[str, ...] | None] = None
    """Attributes of a fit that files hold beside those of all classes: what was
    released, and what follows from it. None where there is no such model."""

    schema_: Schema = field(init=False)
    ensembles_: list[Ensemble] = field(init=False)
    releases_: tuple[LedgerEntry, ...] = field(init=False)
    _insecure_rng: np.random.Generator | None = field(init=False)
    _lineage: Lineage = field(init=False)
    _terms: Terms = field(init=False)
    _tie_key: int = field(init=False)

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

    def _family(self) -> Lineage:
        """Return what counts the fits of this object and of its clones."""
        if not hasattr(self, "_lineage"):
            self._lineage = Lineage()
        return self._lineage

    def __sklearn_clone__(self) -> ForestClassifier:
        """Return an unfitted copy, of which a fit is known to be one more."""
        twin: ForestClassifier = super().__sklearn_clone__()
        twin._lineage = self._family()
        return twin

    def _check_parameters(self) -> Fraction:
        """Raise if a parameter is not valid, and return epsilon."""
        check_random_state(self.random_state)
        Relation(self.neighbours, self.records_per_person)
        if self.ledger is not None and not isinstance(self.ledger, PrivacyLedger):
            raise TypeError(
                f"ledger must be a PrivacyLedger, got {type(self.ledger).__name__}"
            )
        if self.schema is not None and not isinstance(self.schema, Schema):
            raise TypeError(
                f"schema must be a Schema, got {type(self.schema).__name__}; "
                "read one with Schema.from_json"
            )
        return check_epsilon(self.epsilon)

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the released model to one file, to be read by `mmech_rf.load_model`.

        The file holds what was released or is public: noisy counts or drawn trees,
        what votes were made of them, forests, schema, parameters, and what was spent.
        Seconds depend on records and stay out; so do strategies, which `mmech.save`
        writes, ledgers and sources of randomness. It is replaced as a whole, so that
        an interrupted write leaves the old one.

        Parameters
        ----------
        path : str or path-like
            File to write: a ZIP archive of JSON and arrays, without pickle, which
            ``numpy.load`` opens as well.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError
            If the model holds exact counts: methods that answer a batch, and forests
            without noise.
        """
        check_is_fitted(self)
        name = type(self).__name__
        if self._holds_secrets:
            raise TypeError(
                f"a {name} cannot be saved, because it holds exact counts of the "
                "records and releases votes of a batch, not a model; save the labels "
                "it predicted, or fit a PrivateForestClassifier, whose model is "
                "released"
            )
        if self._released is None:
            raise TypeError(
                f"a {name} cannot be saved, because only models made of released "
                "numbers are; fit a PrivateForestClassifier"
            )
        write(path, "model", self)

    @classmethod
    def _stored(cls) -> dict[str, str]:
        """Return what files hold of a fit, with the attributes that have it."""
        common = ["privacy_statement_", "releases_", "_terms", "schema_", "_columns"]
        own = cls._released or ()
        names = [*common, "_parameters", "_tie_key", *own]
        return {name.strip("_"): name for name in names}

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(str(name) for name in getattr(self, "feature_names_in_", ()))

    @property
    def _parameters(self) -> dict[str, Any]:
        """Parameters but for the schema, ledgers and sources of randomness."""
        state = self.random_state
        public = {name: getattr(self, name) for name in _public_names(type(self))}
        return public | {
            "epsilon": self._check_parameters(),
            "random_state": state if isinstance(state, (int, np.integer)) else None,
        }

    @classmethod
    def _restored(
        cls,
        *,
        releases: tuple[LedgerEntry, ...],
        terms: Terms,
        schema: Schema,
        columns: tuple[str, ...],
        parameters: dict[str, Any],
        tie_key: int,
        privacy_statement: str,
        **released: Any,
    ) -> ForestClassifier:
        """Return the model of a file, which anyone may have written, or raise."""
        check_that(parameters.keys() == set(_public_names(cls)), "parameters")
        model = cls(None if terms.inferred else schema, **parameters)
        model._check_parameters()
        for name in ("handle_unknown", "handle_missing"):
            check_choice(getattr(model, name), name, POLICIES)
        for entry in releases:
            check_choice(entry.kind, "kind", (*KINDS, *LAWS))
            check_choice(entry.currency, "currency", CURRENCIES)
        check_that(len({entry.currency for entry in releases}) <= 1, "releases")
        check_that(all(isinstance(name, str) for name in columns), "names")
        check_that(len(columns) in (0, schema.n_features) and tie_key >= 0, "facts")
        names = cls._stored()
        state = {
            "ledger": SPENT,
            "ensembles_": [],
            "releases_": releases,
            "schema_": schema,
            "classes_": schema.decode_target(np.arange(schema.n_classes)),
            "n_features_in_": schema.n_features,
            "_terms": terms,
            "_tie_key": tie_key,
        }
        if columns:
            state["feature_names_in_"] = np.array(columns, dtype=object)
        for name, value in released.items():
            state[names[name]] = list(value) if type(value) is tuple else value
        model.__setstate__(state)
        model._settle()
        return model

    def _settle(self) -> None:
        """Raise unless what a file held fits together, and set what follows from it."""

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

    def _holds_counts(self) -> bool:
        """Whether exact counts are in memory: fitted and not closed."""
        return self._holds_secrets and hasattr(self, "_counts")

    def __repr__(self, **kwargs: Any) -> str:
        text = str(super().__repr__(**kwargs))
        if self._holds_counts():
            return f"{text} [holds sensitive counts: do not save or share]"
        return text

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return what the HTML of scikit-learn shows of a fit: nothing of records."""
        shown = super()._get_fitted_attr_html(doc_link)
        shown.pop("timings_", None)
        return shown

    def __getstate__(self) -> dict[str, Any]:
        if self._holds_counts():
            raise TypeError(
                f"a fitted {type(self).__name__} holds sensitive counts and cannot be "
                "pickled or copied; save its predictions, or close() it first"
            )
        state: dict[str, Any] = dict(super().__getstate__())
        if "ensembles_" in state:
            for name in ("timings_", "ledger_", "_insecure_rng", "_lineage"):
                state.pop(name, None)
            if "ledger" in state:
                state["ledger"] = SPENT
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "ensembles_" not in state:
            return
        if state.get("ledger") == SPENT:
            self.ledger = spent_ledger(self._terms.relation)
        self._insecure_rng = None
        self.ledger_ = spent_ledger(self._terms.relation)
        self.timings_ = dict.fromkeys(STAGES, 0.0)

    def __sklearn_tags__(self) -> Any:
        """Say that two fits differ: noise never comes from random_state."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


NOT_IN_FILES = ("schema", "ledger", "insecure_rng")
"""Parameters that files have in another place, or not at all."""

POLICIES = ("error", "category", "drop", "clip")


def _public_names(cls: type[ForestClassifier]) -> list[str]:
    """Return the parameters that files hold: sources of randomness stay here."""
    names = inspect.signature(cls).parameters
    return [name for name in names if name not in NOT_IN_FILES]


_PRIVATE_STATE = (
    "_answered",
    "_contribution",
    "_counts",
    "_experts",
    "_insecure_rng",
    "_terms",
    "_tie_key",
)
"""Attributes of a fit beside those that end with an underscore."""

SPENT = "spent"
"""Stands for the ledger in the state of a fitted model that is copied or pickled."""
