"""What all forest classifiers share: public set-up, accounting, prediction.

A subclass measures counts (`_fit_counts`) and turns codes into classes
(`_predict_classes`). Everything public (schema, forests, strategies, budget
shares) is settled here before a record is looked at.
"""

from __future__ import annotations

import inspect
import math
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from mmech import (
    MatrixMechanism,
    ParameterError,
    PrivacyLeakWarning,
    PrivacyLedger,
    QueryMatrix,
    StrategyResult,
)
from mmech.checks import check_choice, check_delta, check_epsilon, check_integer
from mmech.noise import (
    LAWS,
    check_insecure_rng,
    keyed_argmax,
    random_argmax,
    random_key,
)
from mmech.privacy.ledger import CURRENCIES, KINDS, LedgerEntry
from mmech.privacy.neighbours import Relation
from mmech.storage.codec import storable, write
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import (
    SPLITS,
    check_depth,
    complete_forest,
    complete_size,
    default_depth,
    grow_random_forest,
)
from mmech_rf.limits import LIMITS
from mmech_rf.private.ensembles import (
    Ensemble,
    check_n_jobs,
    check_random_state,
    depths_of,
    features_of,
    optimize_all,
    spawn,
    trees_of,
)
from mmech_rf.private.lineage import Lineage
from mmech_rf.private.sizes import check_cells, check_leaves
from mmech_rf.private.votes import check_that
from mmech_rf.schema import Schema

__all__ = ["ForestClassifier"]


STAGES = ("trees", "optimization", "measurement", "prediction")


@storable("Terms")
@dataclass(frozen=True)
class Terms:
    """What a fit settled that a later `set_params` must not rewrite.

    Attributes
    ----------
    neighbours : str
        Neighbour relation of the releases.
    inferred : bool
        Whether the schema was read from the records.
    insecure : bool
        Whether the noise came from ``insecure_rng``.
    promised : tuple of float, or None
        The (epsilon, delta) of the fit, unless its guarantee is a pure epsilon.
    records_per_person : int
        Largest number of records of one person.
    """

    neighbours: str
    inferred: bool
    insecure: bool
    promised: tuple[float, float] | None = None
    records_per_person: int = 1

    def __post_init__(self) -> None:
        Relation(self.neighbours, self.records_per_person)
        if self.promised is not None:
            check_epsilon(self.promised[0])
            check_delta(self.promised[1])

    @property
    def relation(self) -> Relation:
        """Neighbour relation of the releases."""
        return Relation(self.neighbours, self.records_per_person)


class ForestClassifier(ClassifierMixin, BaseEstimator):
    """Base of the private forest classifiers; not used by itself."""

    _votings: tuple[str, ...] = ("hard", "weight")
    _needs_cells = True
    _measures_marginals = False
    _tree_cells = "tree_cells"
    _holds_secrets = False
    _spends = True
    _released: tuple[str, ...] | None = None
    """Attributes of a fit that files hold beside those of all classes: what was
    released, and what follows from it. None where there is no such model."""

    schema_: Schema
    ensembles_: list[Ensemble]
    releases_: tuple[LedgerEntry, ...]
    _insecure_rng: np.random.Generator | None
    _lineage: Lineage
    _terms: Terms
    _tie_key: int

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
        voting: str = "hard",
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
        self.schema = schema
        self.epsilon = epsilon
        self.n_trees = n_trees
        self.depth = depth
        self.splits = splits
        self.n_ensembles = n_ensembles
        self.max_features = max_features
        self.voting = voting
        self.template = template
        self.neighbours = neighbours
        self.records_per_person = records_per_person
        self.handle_unknown = handle_unknown
        self.handle_missing = handle_missing
        self.ledger = ledger
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.insecure_rng = insecure_rng

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
        self.releases_: tuple[LedgerEntry, ...] = ()
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
        epsilon = check_epsilon(self.epsilon)
        check_integer(self.n_ensembles, "n_ensembles")
        n_trees = trees_of(self.n_trees, self.n_ensembles)
        depths_of(self.depth, self.n_ensembles)
        check_choice(self.splits, "splits", SPLITS)
        if math.inf in n_trees and self.splits != "multiway":
            raise ParameterError(
                "splits",
                "{n_trees=inf} is the forest of all multiway trees and needs "
                "{splits='multiway'}",
                self.splits,
                "use a finite number of trees",
            )
        check_choice(self.voting, "voting", self._votings)
        self._check_shared()
        return epsilon

    def _check_shared(self) -> None:
        """Check the parameters that every classifier has."""
        check_random_state(self.random_state)
        check_n_jobs(getattr(self, "n_jobs", None))
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

    def _encode_training(
        self, X: Any, y: Any
    ) -> tuple[Schema, NDArray[np.int64], NDArray[np.int64]]:
        policies: dict[str, Any] = {
            "handle_unknown": self.handle_unknown,
            "handle_missing": self.handle_missing,
        }
        if self.schema is None:
            warnings.warn(
                "schema=None reads categories, bounds and classes from the records, "
                "which the guarantee does not cover; pass a public Schema",
                PrivacyLeakWarning,
                stacklevel=3,
            )
            X, y = validate_data(self, X, y, dtype=None)
            check_classification_targets(y)
            _check_plain(X)
            if X.shape[0] and len(np.unique(y)) < 2:
                raise ValueError(
                    "the labels hold one class only; a classifier needs at least 2 "
                    "classes: pass a Schema that lists them"
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyLeakWarning)
                bins = int(LIMITS.inferred_cells ** (1 / X.shape[1]))
                schema = Schema.infer(X, y, n_bins=max(2, min(10, bins)))
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
        d, q = schema.n_features, self.n_ensembles
        for depth in depths_of(self.depth, q):
            if depth != "auto":
                check_depth(schema, int(depth), self.splits)
        *seeds, deal = spawn(self.random_state, q + 1)
        rngs = [np.random.default_rng(seed) for seed in seeds]
        ensembles = []
        for n_trees, depth, features, rng in zip(
            trees_of(self.n_trees, q),
            depths_of(self.depth, q),
            features_of(self.max_features, d, rngs, deal),
            rngs,
            strict=True,
        ):
            visible = schema.select(features.tolist()) if features.size < d else schema
            levels = (
                default_depth(visible, self.splits) if depth == "auto" else int(depth)
            )
            self._check_size(visible, n_trees, levels, self.splits)
            if n_trees == math.inf:
                forest: Forest = complete_forest(visible, levels)
            else:
                forest = grow_random_forest(
                    visible, int(n_trees), levels, splits=self.splits, seed=rng
                )
            ensembles.append(Ensemble(features, forest, epsilon / q))
        return ensembles

    @classmethod
    def _check_size(
        cls, visible: Schema, n_trees: float, depth: int, splits: str
    ) -> None:
        """Raise before any work where an ensemble is too large for this method."""
        if cls._needs_cells:
            trees = n_trees
            if trees == math.inf:
                listed, _ = complete_size(visible.domain_shape, depth)
                trees = 1 if cls._measures_marginals else max(listed, 1)
            check_cells(visible, trees, most=getattr(LIMITS, cls._tree_cells))
        check_leaves(visible, n_trees, depth, splits)

    def _fit_counts(
        self, codes: NDArray[np.int64], class_codes: NDArray[np.int64]
    ) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _fit_counts")

    # ---- releasing -------------------------------------------------------

    def _count_table(
        self,
        ensemble: Ensemble,
        codes: NDArray[np.int64],
        class_codes: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """Return the exact table D, cells by classes. Sensitive."""
        k = self.schema_.n_classes
        n = ensemble.forest.n_cells
        entries = ensemble.cells(codes) * k + class_codes
        return np.bincount(entries, minlength=n * k).reshape(n, k)

    def _optimize(self, workloads: list[QueryMatrix]) -> list[StrategyResult]:
        """Return a strategy for the workload of every ensemble. Public."""
        return optimize_all(workloads, self.template, self.n_jobs)

    def _mechanism(
        self,
        ensemble: Ensemble,
        workload: QueryMatrix,
        strategy: QueryMatrix,
        contribution: int = 1,
    ) -> MatrixMechanism:
        return MatrixMechanism(
            workload,
            strategy,
            epsilon=ensemble.epsilon,
            neighbours=self._terms.neighbours,
            records_per_person=self._terms.records_per_person,
            contribution=contribution,
            ledger=self.ledger_,
            insecure_rng=self._insecure_rng,
        )

    def _reserve(self) -> None:
        """Raise before anything is drawn unless the releases of all ensembles fit."""
        costs = [self.ledger_.check(e.epsilon) for e in self.ensembles_]
        self.ledger_.check(sum(costs, Fraction(0)), currency=self.ledger_.currency)

    def _answer(
        self, mechanism: MatrixMechanism, counts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Release the workload's answers on exact counts, and remember it."""
        released = f"{self._what} measured by {mechanism.strategy._label()}"
        measurement = mechanism.measure(counts, released=released)
        self.releases_ = (*self.releases_, measurement.entry)
        return mechanism.answer_from(measurement)

    def _expected_error(self, mechanisms: list[MatrixMechanism]) -> float:
        errors = [mechanism.expected_error() for mechanism in mechanisms]
        return float(self.schema_.n_classes * sum(errors))

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

    _what = "counts"
    _afterwards = "Predictions are post-processing: any number of them is free."
    _public = (
        "The schema, the forests, the strategy and the parameters do not depend on "
        "records."
    )

    def _cost(self, entries: Sequence[LedgerEntry]) -> str:
        """Return in words what releases cost."""
        spent = sum((entry.cost for entry in entries), Fraction(0))
        return f"{entries[0].currency} = {float(spent):g}"

    def _spent(self) -> str:
        """Return in words what all releases guarantee."""
        return self._cost(self.releases_)

    @property
    def privacy_statement_(self) -> str:
        """What was released, at which epsilon, to whom it gives protection."""
        check_is_fitted(self)
        lines = [
            f"Released by this fit: {self._spent()} for neighbouring data sets "
            f"that differ {self._terms.relation.words}."
            if self.releases_
            else "Nothing has been released yet."
        ]
        lines += [
            f"  {entry.released}: {self._cost([entry])}, {entry.how}."
            for entry in self.releases_
        ]
        lines.append(self._afterwards)
        lines.append(
            self._public
            if not self._terms.inferred
            else "NOT COVERED: the schema was read from the records (schema=None)."
        )
        if self._terms.insecure:
            lines.append(
                "NOT PRIVATE: the noise came from insecure_rng, so that this statement "
                "is void."
            )
        lines.append(
            "Other fits on the same records add to this; one ledger for all limits the "
            "sum. The noise is made of integers and drawn exactly; the guarantee holds "
            "for the numbers as released. Not protected: timings, and the error that "
            "an invalid record raises."
        )
        return "\n".join(lines)

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
            self.ledger = _spent_ledger(self._terms.relation)
        self._insecure_rng = None
        self.ledger_ = _spent_ledger(self._terms.relation)
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


def _spent_ledger(relation: Relation) -> PrivacyLedger:
    """Return a ledger with nothing left, for copies that must not spend again."""
    ledger = PrivacyLedger(
        1,
        neighbours=relation.neighbours,
        records_per_person=relation.records_per_person,
    )
    ledger.spend(1, "spent where the model was fitted", sensitivity=1)
    return ledger


def _check_plain(X: NDArray[Any]) -> None:
    """Raise unless every cell of an object array is text, a number or missing."""
    if X.dtype.kind != "O":
        return
    plain = (str, bool, int, float, np.generic, type(None))
    for kind in set(map(type, X.ravel().tolist())):
        if not issubclass(kind, plain):
            raise TypeError(
                f"X holds a {kind.__name__}, but every value of this argument must be "
                "a string or a number; convert it"
            )
