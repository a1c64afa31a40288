"""The face of all classifiers: fit and predict, copies, files, statement and card.

A subclass grows what is public (`_grow`), measures counts (`_fit_counts`) and turns
codes into classes (`_predict_classes`). Clones, files, pickles and text hold parameters
and what was released: no exact count, no ledger that could be spent twice, no source of
randomness, no seconds.
"""

from __future__ import annotations

import inspect
import math
import numbers
import os
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass, field, fields
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from mmech import (
    Counts,
    Evidence,
    ParameterError,
    PrivacyLedger,
    record_evidence,
)
from mmech.checks import (
    MALFORMED,
    check_bool,
    check_choice,
    check_epsilon,
    check_integer,
)
from mmech.domain.domain import warn_if_read
from mmech.domain.encoding import CellError, look
from mmech.domain.parts import Part, is_in_parts, of_parts
from mmech.marginals.counts import count_partitions, is_lazy
from mmech.noise import (
    LAPLACE,
    LAWS,
    check_insecure_rng,
    keyed_argmax,
    random_argmax,
    random_key,
)
from mmech.noise.system import PredictableGenerator
from mmech.privacy.entry import CURRENCIES, KINDS, LedgerEntry, composed
from mmech.privacy.ledger import as_ledger
from mmech.privacy.neighbours import Relation
from mmech.session import Session
from mmech.storage.archive import EvidenceError
from mmech.storage.codec import storable, write
from mmech.terminal import printable
from mmech.threads import finishing, one_blas_thread
from mmech.verify import parsed
from mmech_rf.arrays import Floats, Integers
from mmech_rf.estimator.accuracy import HELD_OUT, Accuracy
from mmech_rf.estimator.cautions import Lineage, infer_schema, warn_of_encoders
from mmech_rf.estimator.options import estimator, refuse_foreign
from mmech_rf.estimator.records import (
    Block,
    EncodedRecords,
    RecordParts,
    count_in_memory,
    counted,
    encoded_blocks,
    in_bins,
)
from mmech_rf.estimator.shown import importances, made_up, notes_on
from mmech_rf.estimator.terms import (
    NOT_COVERED,
    check_origin,
    cost_in_words,
    model_card,
    origin_of_today,
    spent_ledger,
    statement,
)
from mmech_rf.estimator.votes import alike, check_that
from mmech_rf.forest.ensembles import Ensemble
from mmech_rf.schema import Schema, check_schema
from mmech_rf.show.page import ClassShare, class_shares, html_page
from mmech_rf.show.trees import ShownTree

REAL = (int, float, np.floating, Fraction)

STAGES = ("trees", "optimization", "measurement", "prediction")


@storable("Terms")
@dataclass(frozen=True)
class Terms:
    """What a fit settled that a later `set_params` must not rewrite."""

    neighbours: str
    inferred: bool  # whether the schema was read from the records
    records_per_person: int = 1

    def __post_init__(self) -> None:
        Relation(self.neighbours, self.records_per_person)

    @property
    def relation(self) -> Relation:
        """Neighbour relation of the releases."""
        return Relation(self.neighbours, self.records_per_person)


@estimator
class ForestClassifier(ClassifierMixin, BaseEstimator):
    """Base of the private forest classifiers; not used by itself.

    Parameters
    ----------
    schema : Schema, default=None
        Public attributes and classes. ``None`` reads them from the records, which
        the guarantee does not cover, and warns.
    epsilon : float, str or Fraction
        Privacy budget of a fit, in nats. Required.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation of the guarantee.
    records_per_person : int, default=1
        Largest number of records of one person, public: the budget is per person.
    handle_unknown : str, default="clip"
        What happens to values outside the schema, see `Schema.encode`: numbers beyond
        their bounds count as the nearest bound, other values are errors. Queries are
        never dropped, "drop" counts as "error" for them.
    handle_missing : str, default="error"
        The same of missing values.
    ledger : PrivacyLedger, default=None
        Budget shared with other releases, of epsilon or of rho; ``None`` allows exactly
        `epsilon` per fit. A fit on a ledger of rho guarantees the same pure epsilon. It
        is charged what its releases cost in rho, which is less than epsilon. A copied
        or unpickled model comes with a ledger that is spent.
    random_state : int, RandomState, Generator or SeedSequence, default=None
        Shapes the forests, never the noise or which record trains which tree.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns and voids the guarantee.
    estimate_accuracy : bool, default=False
        Whether one record in five is held out, and noisy counts of its right and wrong
        labels are released as `accuracy_`. No more of epsilon is spent, because no
        record is used for both; every fit pays for its own. Proof:
        ``notebooks/proofs/held_out_records.md``.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        Class labels, as the schema has them.
    schema_ : Schema
        Public facts in use.
    ledger_ : PrivacyLedger
        What the releases were paid from.
    timings_ : dict of str to float
        Seconds per stage; depends on the records, not for publication.
    privacy_statement_ : str
        What was released at which epsilon, or rho.
    evidence_ : Evidence or None
        How all of it was drawn, for `mmech.verify`; saved models hold it. Methods that
        answer batches have the evidence of the last batch.
    accuracy_ : Accuracy or None
        How often the model is right, with an interval, if `estimate_accuracy`.
    """

    schema: Schema | None = field(default=None, kw_only=False)
    epsilon: Any
    neighbours: str = "add_remove"
    records_per_person: int = 1
    handle_unknown: str = "clip"
    handle_missing: str = "error"
    ledger: PrivacyLedger | None = None
    random_state: Any = None
    insecure_rng: Any = None
    estimate_accuracy: bool = False

    _holds_secrets = False
    """Whether a fit keeps exact counts, and there is no model to save."""
    _spends = True
    _distinct: ClassVar[bool] = False
    """Whether distinct records are enough: no record is assigned to a tree."""
    _keeps_order = False
    """Whether predictions keep to monotone attributes."""
    _threshold: ClassVar[Sequence[Any] | None] = None
    """Position of a class, and the probability from which on it is predicted."""
    _again = False
    """Whether a fit is made again from its evidence, and knows what was public."""
    _released: ClassVar[tuple[str, ...]] = ()
    """Attributes of a fit that files hold beside those of all classes: what was
    released, and what follows from it. Empty where there is no model."""

    schema_: Schema = field(init=False)
    ensembles_: list[Ensemble] = field(init=False)
    evidence_: Evidence | None = field(init=False)
    accuracy_: Accuracy | None = field(init=False)
    _session: Session = field(init=False)
    _lineage: Lineage = field(init=False)
    _terms: Terms = field(init=False)
    _tie_key: int = field(init=False)
    _saved: dict[str, str] = field(init=False)

    def _check_parameters(self) -> Fraction:
        """Raise if a parameter is not valid, and return epsilon."""
        check_random_state(self.random_state)
        Relation(self.neighbours, self.records_per_person)
        if self.ledger is not None:
            as_ledger(self.ledger)
        if self.schema is not None:
            check_schema(self.schema)
        epsilon = check_epsilon(self.epsilon)
        if self.schema is not None and self.schema.monotone and not self._keeps_order:
            raise ParameterError(
                "schema",
                f"must have no monotone attributes for a {type(self).__name__}, which "
                "would not keep to them",
                ", ".join(self.schema.monotone),
                ("fit a PrivateForestClassifier", "leave monotone out"),
            )
        if check_bool(self.estimate_accuracy, "estimate_accuracy"):
            if getattr(self.ledger, "whole", self.ledger) is not self.ledger:
                raise ParameterError(
                    "estimate_accuracy",
                    "splits the records once more, which a part of a ledger has no "
                    "account of",
                    remedy=("pass the whole ledger", "leave {estimate_accuracy} out"),
                )
            # Noise that cannot be drawn is refused before the forest is paid for.
            persons = Relation(self.neighbours, self.records_per_person)
            LAPLACE.parameter(Fraction(persons.factor), epsilon)
        return epsilon

    # ---- fitting ---------------------------------------------------------

    def count(
        self, X: Any, y: Any = None, *, chunk_id: Hashable | None = None
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
            A part of the records. Sensitive. Files are parts by themselves: those that
            were read before an error stay counted.
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
        if y is None and chunk_id is None and is_in_parts(X):
            for _ in of_parts(X, schema, lambda p: self.count(*p[:2], chunk_id=p[2])):
                pass
            return self
        parts: RecordParts = vars(self).get("_parts") or RecordParts(schema)
        parts.check(schema, chunk_id)
        part = self._read(schema, X, y, chunk_id)
        # Another thread may have counted the first part in the meantime.
        self.__dict__.setdefault("_parts", parts).add(part, chunk_id)
        return self

    def release(
        self, *, chunk_ids: Iterable[Hashable] | None = None
    ) -> ForestClassifier:
        """Grow the forests, and release what was counted: as one fit of all parts.

        Parameters
        ----------
        chunk_ids : iterable of hashable, default=None
            Names of all expected parts, fixed before the first was counted: a missing
            part is an error. ``None`` releases the parts that were counted.

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

    def fit(self, X: Any, y: Any = None, **weights: Any) -> ForestClassifier:
        """Grow the forests, then count the records in them.

        Parameters
        ----------
        X : frame, list of rows or array, shape (N, d)
            Records in the schema's raw values. Also what `mmech.count` takes: files,
            folders, iterables, Dask collections, or `Counts` with the class last.
            Sensitive.
        y : array_like, shape (N,), optional
            Class labels of any type that the schema can read; ``None`` where `X` has
            them in it. Sensitive.
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
        if weights:
            refuse_foreign(weights)
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
        before, made = dict(vars(self)), cast(Any, type(self))
        # Fields that are no parameters are set anew by every fit.
        of_fits = {entry.name for entry in fields(made) if not entry.init}
        for name in before.keys() - {"_lineage"}:
            if name.endswith("_") or (name[0] == "_" and name in of_fits):
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
        counted = self._counts_fits()
        if counted:
            self._family().fits_again(epsilon)
        if self.schema is not None:
            warn_if_read(self.schema, "schema", stacklevel=4)
        noise = check_insecure_rng(self.insecure_rng)
        self._terms = Terms(
            self.neighbours,
            self.schema is None,
            records_per_person=self.records_per_person,
        )
        schema, records = self._encode_training(X, y)
        self.__dict__.pop("_threshold", None)
        self.schema_ = schema
        self.timings_ = dict.fromkeys(STAGES, 0.0)
        with self._timed("trees"):
            self.ensembles_ = self._grow(schema, epsilon)
        self._session = Session(self._ledger_of(epsilon), noise, currency="epsilon")
        self._tie_key = random_key(noise)
        if counted:
            self._family().fitted(epsilon)
        with record_evidence() as record:
            self._measure(records, epsilon)
        self.evidence_ = record.evidence() if self.releases_ else None

    def _measure(self, records: EncodedRecords, epsilon: Fraction) -> None:
        """Release the forest; where records are held out, from the others alone."""
        known, self.accuracy_ = vars(self).get("accuracy_"), None
        if not self.estimate_accuracy:
            self._fit_counts(records, epsilon)
            return
        # Persons of this fit: who is held out here may train another model.
        partition = f"records of fit {random_key(None):x}"
        if self._again:  # a name that the fit made up is public
            partition = str(known and known.entry.partition)
        session = self._session
        session.ledger = session.ledger.part(partition, "training")
        training, held_out = records.divided(HELD_OUT, session.noise)
        if self._distinct:
            training = training.added_up(self.schema_)
        read_in = self.schema_
        self._fit_counts(training, epsilon)
        held_out = in_bins(held_out, read_in, self.schema_)
        cost, whole = session.ledger.spent, session.ledger.whole
        with self._timed("prediction"):
            right = self._predict_classes(held_out.codes) == held_out.class_codes
        session.ledger = whole.part(partition, "held out")
        counts = np.array([right.sum(), (~right).sum()])
        what = "right and wrong labels of held-out records"
        with self._timed("measurement"):
            measured = session.add_noise(counts, cost, what, currency=whole.currency)
        session.ledger = whole
        n_right, n_wrong = measured.values.tolist()
        self.accuracy_ = Accuracy(n_right, n_wrong, measured.entry)

    def _ledger_of(self, epsilon: Fraction) -> PrivacyLedger:
        """Return the ledger that pays for this fit."""
        relation = self._terms.relation
        if self.ledger is None:
            return PrivacyLedger(epsilon, **asdict(relation))
        self.ledger.check_relation(relation)
        return self.ledger

    def _encode_training(self, X: Any, y: Any) -> tuple[Schema, EncodedRecords]:
        if self.schema is None:
            if is_lazy(X) or is_in_parts(X) or isinstance(X, Counts):
                raise ValueError(
                    "schema must be given to fit records that are not in one table, "
                    "got None; pass a public Schema"
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
        parts = RecordParts(schema)
        parts.add(self._read(schema, X, y))
        return schema, parts.records()

    def _reading_schema(self, schema: Schema) -> Schema:
        """Return the public cells that records are read in."""
        return schema

    def _read(
        self, schema: Schema, X: Any, y: Any, chunk_id: Hashable | None = None
    ) -> Counts | list[NDArray[Any]]:
        """Return the counts of records, or where these are not enough, them."""
        if isinstance(X, Counts):
            return self._given(schema, X)
        if y is None and not is_in_parts(X):
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y "
                "is None; pass the class label of every record"
            )
        policies = {
            "handle_unknown": self.handle_unknown,
            "handle_missing": self.handle_missing,
        }
        if is_lazy(X) or is_lazy(y):
            count = partial(count_in_memory, schema, policies)
            columns = (*schema.feature_names, *schema.required)
            return count_partitions(count, X, y, columns=columns)

        blocks: Any = encoded_blocks(schema, X, y, policies, chunk_id)
        if y is None:

            def encoded(part: Part) -> list[Block]:
                reading = part.X, part.y, policies, part.chunk_id
                return list(encoded_blocks(schema, *reading))

            blocks = chain.from_iterable(of_parts(X, schema, encoded))
        if self._counts_distinct:
            return counted(schema, blocks)
        return [np.column_stack(block) for block in blocks]

    def _given(self, schema: Schema, counts: Counts) -> Counts | list[NDArray[Any]]:
        """Return counts that `mmech.count` made, or where they are not enough, rows."""
        shape = (*schema.domain_shape, schema.n_classes)
        if counts.domain_shape != shape:
            raise ValueError(
                f"X must be counts of the {len(shape)} attributes of the schema, the "
                f"class last, got {counts!r}; make them with mmech.count of the "
                "records, the schema and y"
            )
        if self._counts_distinct:
            return counts
        return [np.repeat(counts._codes, counts._multiplicities, axis=0)]

    @property
    def _counts_distinct(self) -> bool:
        """Whether distinct records are enough, and how often each is there."""
        # Held out is every record by itself, and not as often as it is there.
        return self._distinct and not self.estimate_accuracy

    def _grow(self, schema: Schema, epsilon: Fraction) -> list[Ensemble]:
        """Return the forests that do not depend on records, if any."""
        return []

    def _fit_counts(self, records: EncodedRecords, epsilon: Fraction) -> None:
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
            if self._threshold:
                classes = self._decided(classes, self._probabilities_in_order(codes))
        return np.asarray(self.classes_)[classes]

    def _decided(self, classes: Integers, shares: Floats) -> Integers:
        """Return classes by position (b,), with the threshold for one of them."""
        if not self._threshold:
            return classes
        position, least = self._threshold
        others = np.delete(shares, position, axis=1).argmax(axis=1)
        others += others >= position
        below = np.where(classes == position, others, classes)
        return np.where(shares[:, position] >= least, position, below)

    def set_threshold(self, label: Any, threshold: float | None) -> Self:
        """Predict a class wherever it is at least so likely, until the next fit.

        For classes that are rare, or whose mistakes cost more than others. Nothing is
        spent: predictions are post-processing. A threshold must come from costs of
        mistakes, public records or released counts. One that is tuned on training
        records is not private, and neither is recall on them.

        Parameters
        ----------
        label : object
            One of `classes_`.
        threshold : float or None
            Probability between 0 and 1, such as the share of records that have the
            label. Below it the likeliest other class is predicted; ``None`` takes the
            threshold back.

        Returns
        -------
        self

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the label is no class, or the threshold is not between 0 and 1.

        Examples
        --------
        >>> from mmech_rf import PrivateForestClassifier, datasets
        >>> car = datasets.load_car()
        >>> model = PrivateForestClassifier(car.schema, epsilon=2)
        >>> model = model.fit(car.data, car.target).set_threshold("vgood", 0.04)
        >>> likely = model.predict_proba(car.data)[:, 3] >= 0.04
        >>> bool((likely == (model.predict(car.data) == "vgood")).all())
        True
        """
        check_is_fitted(self)
        known = np.asarray(self.classes_).tolist()
        if label not in known:
            raise ValueError(f"label must be one of {known}, got {label!r}")
        if threshold is None:
            self.__dict__.pop("_threshold", None)
        elif not (isinstance(threshold, REAL) and 0 < threshold < 1):
            raise ValueError(
                f"threshold must lie between 0 and 1, got {threshold!r}; "
                "None takes it back"
            )
        else:
            self.__dict__["_threshold"] = (known.index(label), float(threshold))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the estimated probability of every class.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            Inference queries in the schema's raw values; public.

        Returns
        -------
        ndarray of float64, shape (b, k)
            Columns in the order of `classes_`.

        Notes
        -----
        `predict` draws among classes of equal probability, once for every record.
        Defaults are for the most right classes. Who ranks records by probability, to
        see the likeliest first, takes ``settings=DrawnSettings.for_ranking()`` in
        `PrivateForestClassifier`.
        """
        check_is_fitted(self)
        codes = self._encode_queries(X)
        with self._timed("prediction"):
            return self._probabilities_in_order(codes)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`, minus infinity for none.

        Parameters
        ----------
        X : frame, list of rows or array, shape (b, d)
            As in `predict_proba`.

        Returns
        -------
        ndarray of float64, shape (b, k)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def _probabilities(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return class probabilities, or shares of votes, shape (b, k)."""
        raise NotImplementedError(f"{type(self).__name__} must define _probabilities")

    def _probabilities_in_order(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return probabilities that keep to monotone attributes, shape (b, k)."""
        return self._probabilities(codes)

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
        encode = self.schema_.encode
        try:
            return encode(X, handle_unknown=unknown, handle_missing=missing)
        except CellError as error:  # policies and the schema are settled since the fit
            ways = (way for way in error.remedy[1:-1] if "{schema}" not in way)
            remedy = f"{look('schema')}, then correct it", *ways, "leave the row out"
            raise CellError("X", error.need, remedy=remedy) from None

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

    def _remarks(self) -> list[str]:
        """Return sentences on what was released, for the statement."""
        return [] if self.accuracy_ is None else self.accuracy_.remarks

    @property
    def privacy_statement_(self) -> str:
        """What was released, at which epsilon, to whom it gives protection."""
        check_is_fitted(self)
        return statement(
            self._terms.relation,
            self.releases_,
            remarks=self._remarks(),
            afterwards=self._afterwards,
            public=NOT_COVERED
            if self._terms.inferred or self.schema_.read_from_records
            else self._public,
        )

    @property
    def ledger_(self) -> PrivacyLedger:
        """What the releases were paid from."""
        return self._session.ledger

    @property
    def releases_(self) -> tuple[LedgerEntry, ...]:
        """What was released, in order, with its cost."""
        return self._session.entries

    def card(self) -> dict[str, Any]:
        """Return the facts of the release as fields that programs read.

        Returns
        -------
        dict
            What JSON can hold: ``model``; ``mechanism``, the kinds of noise and draws;
            ``epsilon`` and ``delta`` of all releases together, None where only ``rho``
            is promised; ``epsilon_at`` three deltas, by delta, where rho is;
            ``relation``, ``records_per_person`` and ``unit``, which say
            what is protected; ``private``, false if the schema was read from records
            or the noise was predictable; ``date`` and ``version`` of the first
            `save`, None before; ``schema_name``, ``schema_hash``, ``target``,
            ``classes`` and ``attributes``; ``monotone``, directions
            by name; ``releases``, with exact costs as text; ``evidence``, what
            `mmech.verify` finds of it, on the day ``evidence_checked``;
            the ``statement``; and the ``accuracy`` if it was released, with its
            ``estimate``, bounds ``lower`` and ``upper`` at a ``level``, and noisy
            counts ``right`` and ``wrong``. Nothing else in it depends on records.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return model_card(
            type(self).__name__,
            self._terms.relation,
            self.releases_,
            self.schema_,
            getattr(self, "_saved", {}),
            self.privacy_statement_,
            self.evidence_,
            self.accuracy_,
            read=self._terms.inferred or self.schema_.read_from_records,
        )

    def __sklearn_tags__(self) -> Any:
        """Say that two fits differ: noise never comes from random_state."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    # ---- what is shown -----------------------------------------------------

    def _shown_trees(self) -> Iterator[ShownTree]:
        """Yield the trees in words."""
        raise NotImplementedError(f"{type(self).__name__} must define _shown_trees")

    def _notes(self) -> list[str]:
        """Return sentences that explain the words of trees."""
        notes = notes_on(self.schema_)
        if self._threshold:
            position, least = self._threshold
            label = printable(self.schema_.class_labels[position])
            notes.append(
                f"{label} is predicted wherever it is at least {least:g} likely."
            )
        return notes

    def describe(self, *, n_trees: int = 10, n_rules: int = 50) -> str:
        """Return what was released as rules, in the words of the schema.

        Branches of a tree that say the same are joined. Nothing is spent.

        Parameters
        ----------
        n_trees : int, default=10
            Trees to describe, at most.
        n_rules : int, default=50
            Rules of each, at most.

        Returns
        -------
        str
            Per tree a title, and one line per leaf: ``age 60 to 75 and margin
            spiculated: malignant``.
        """
        trees = self._first_trees(n_trees)
        check_integer(n_rules, "n_rules")
        texts = [tree.text(n_rules) for tree in trees[:n_trees]]
        if len(trees) > n_trees:
            texts.append("further trees are left out")
        return "\n".join([*texts, *self._notes()])

    def _first_trees(self, n_trees: int) -> list[ShownTree]:
        """Return so many trees, and one more where there are more."""
        check_is_fitted(self)
        return list(islice(self._shown_trees(), check_integer(n_trees, "n_trees") + 1))

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        """How far predictions move with each attribute, (d,); they sum to one.

        Computed from the released model on made-up records that are spread evenly over
        the schema, before directions of monotone attributes are kept: no record is
        looked at, and nothing is spent. Importances on records, by permutation for
        instance, are not private.
        """
        check_is_fitted(self)
        return importances(self._probabilities, self.schema_.domain_shape)

    def to_html(self, *, n_trees: int = 10, title: str | None = None) -> str:
        """Return a page with rules, importances, costs and the privacy statement.

        Parameters
        ----------
        n_trees : int, default=10
            Trees to show, at most.
        title : str, default=None
            Name of the model; ``None`` takes the schema's, or the predicted column.

        Returns
        -------
        str
            A whole HTML file without scripts; names are escaped.
        """
        trees = self._first_trees(n_trees)
        notes = self._notes()
        if len(trees) > n_trees:
            notes = ["Further trees are left out.", *notes]
        return html_page(
            title or self.schema_.name or f"Model of {self.schema_.target}",
            trees[:n_trees],
            self.named_importances(),
            self.card(),
            notes=notes,
            statement=self.privacy_statement_,
            shares=self._class_shares(),
        )

    def _class_shares(self) -> list[ClassShare]:
        """Return how common classes are, by released counts; none without these."""
        codes = made_up(self.schema_.domain_shape, np.random.default_rng(0))
        known = self._counted_leaves(codes)
        if known is None:
            return []
        likely = self._probabilities_in_order(codes)
        predicted = self._decided(likely.argmax(axis=1), likely)
        return class_shares(self.schema_.class_labels, *known, predicted)

    def _counted_leaves(self, codes: Integers) -> tuple[Floats, Integers] | None:
        """Return released class counts of leaves (n, k), and a leaf of each record."""
        return None

    def named_importances(self) -> list[tuple[str, float]]:
        """Return attributes with their importances, the largest first.

        Returns
        -------
        list of (str, float)
            Names, and entries of `feature_importances_`.
        """
        names = map(printable, self.schema_.feature_names)
        pairs = zip(names, self.feature_importances_.tolist(), strict=True)
        return sorted(pairs, key=lambda pair: -pair[1])

    # ---- clones ----------------------------------------------------------

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as grids do.

        Parameters
        ----------
        **params
            Values by name.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If no parameter has the name: parameters have no parts to set.

        Examples
        --------
        >>> from mmech_rf import PrivateForestClassifier
        >>> PrivateForestClassifier(epsilon=1).set_params(epsilon=2).epsilon
        2
        """
        refuse_foreign(params, self._get_param_names(), ValueError)
        for name in params:
            owner, parts, _ = name.partition("__")
            if parts and owner in self._get_param_names():
                raise ValueError(
                    f"{name} is a part of {owner}, which has no parts to set; pass "
                    f"{owner}= as a whole, in a grid as a list of whole values"
                )
        return super().set_params(**params)

    def _counts_fits(self) -> bool:
        """Return whether a fit spends a budget of its own."""
        return self._spends and self.ledger is None and self.insecure_rng is None

    def _family(self) -> Lineage:
        """Return what counts the fits of this object and of its clones."""
        if not hasattr(self, "_lineage"):
            self._lineage = Lineage()
        return self._lineage

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy, of which a fit is known to be one more."""
        twin: Self = super().__sklearn_clone__()
        twin._lineage = self._family()
        return twin

    # ---- files -----------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the released model to one file, to be read by `mmech_rf.load_model`.

        The file holds released and public data only: noisy counts or drawn trees, their
        votes, forests, schema and parameters; the evidence, of which costs are read,
        and what else is public that the model follows from; the day and version of the
        first `save`. Timings depend on records and stay out; so do ledgers, sources of
        randomness, and how strategies were found, which `mmech.save` writes.
        The file is replaced as a whole, so that an interrupted write leaves the old
        one.

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
        origin = self._origin
        name = type(self).__name__
        self._refuse_parts()
        if self._holds_secrets:
            raise TypeError(
                f"a {name} cannot be saved, because it holds exact counts of the "
                "records and releases votes of a batch, not a model; save the labels "
                "it predicted, or fit a PrivateForestClassifier, whose model is "
                "released"
            )
        if not self._released:
            raise TypeError(
                f"a {name} cannot be saved, because only models made of released "
                "numbers are; fit a PrivateForestClassifier"
            )
        write(path, "model", self)
        self._saved = origin

    @classmethod
    def _stored(cls) -> dict[str, str]:
        """Return what files hold of a fit, with the attributes that have it."""
        common = ["evidence_", "_terms", "schema_", "_columns", "_origin", "accuracy_"]
        names = [*common, "_parameters", "_tie_key", "_threshold", *cls._released]
        return {name.strip("_"): name for name in names}

    @property
    def _origin(self) -> dict[str, str]:
        """When, and by which version, the model was saved first; today if never."""
        return dict(getattr(self, "_saved", None) or origin_of_today())

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
        origin: dict[str, str],
        terms: Terms,
        schema: Schema,
        columns: tuple[str, ...],
        parameters: dict[str, Any],
        tie_key: int,
        **released: Any,
    ) -> Self:
        """Return the model of a file, which anyone may have written, or raise."""
        check_that(parameters.keys() == set(_public_names(cls)), "parameters")
        model = cls(None if terms.inferred else schema, **parameters)
        epsilon = model._check_parameters()
        for name in ("handle_unknown", "handle_missing"):
            check_choice(getattr(model, name), name, POLICIES)
        evidence: Evidence = released["evidence"]
        releases = evidence.entries
        for entry in releases:
            check_choice(entry.kind, "kind", (*KINDS, *LAWS))
            check_choice(entry.currency, "currency", CURRENCIES)
        total = composed(releases)
        check_that(str(total) == evidence.content["cost"]["paid"], "costs")
        check_that(releases and total <= epsilon, "costs")
        check_that(all(isinstance(name, str) for name in columns), "names")
        check_that(len(columns) in (0, schema.n_features) and tie_key >= 0, "facts")
        if threshold := released.get("threshold"):
            position, least = threshold
            known = position in range(schema.n_classes)
            check_that(known and isinstance(least, float) and 0 < least < 1, "facts")
        check_origin(origin)
        names = cls._stored()
        state = {
            "ledger": SPENT,
            "ensembles_": [],
            "releases": releases,
            "schema_": schema,
            "classes_": schema.decode_target(np.arange(schema.n_classes)),
            "n_features_in_": schema.n_features,
            "_terms": terms,
            "_tie_key": tie_key,
            "_saved": origin,
        }
        if columns:
            state["feature_names_in_"] = np.array(columns, dtype=object)
        for name, value in released.items():
            state[names[name]] = list(value) if type(value) is tuple else value
        model.__setstate__(state)
        model._settle()
        if not model._follows_from_evidence(epsilon):
            raise EvidenceError(
                f"holds a {cls.__name__} that does not follow from its evidence, or "
                "costs something else; ask for the original file, or fit it again"
            )
        return model

    def _settle(self) -> None:
        """Raise unless what a file held fits together, and set what follows from it."""

    def _follows_from_evidence(self, epsilon: Fraction) -> bool:
        """Return whether a fit without records is the same, for the draws of this one.

        What it releases is a function of draws and of public facts, and so is what it
        costs.
        """
        first = self.releases_[0]
        ledger = PrivacyLedger(
            math.inf, currency=first.currency, **asdict(self._terms.relation)
        )
        parts = {(entry.partition, entry.part) for entry in self.releases_}
        if len(parts) == 1 and first.part is not None:
            ledger = ledger.part(str(first.partition), first.part)
        evidence, twin = self.evidence_, copy(self)
        assert evidence is not None
        insecure = evidence.content["insecure"]
        noise = PredictableGenerator(np.random.PCG64(0)) if insecure else None
        twin.__dict__ |= {
            "_again": True,
            "_session": Session(ledger, noise, currency="epsilon"),
            "_tie_key": self._tie_key,
            "schema_": self._reading_schema(self.schema_),
        }
        codes = np.zeros((0, self.schema_.n_features), np.int64)
        records = EncodedRecords.once(codes, codes.sum(axis=1))
        try:
            with record_evidence() as record, evidence.repeated():
                twin._measure(records, epsilon)
        except (*MALFORMED, StopIteration):
            return False
        before, after = (
            [parsed(drawn.text.encode())[name] for name in EVIDENT]
            + [vars(model)[name] for name in model._evident]
            for model, drawn in ((self, evidence), (twin, record.evidence()))
        )
        return alike(before, after)

    @property
    def _evident(self) -> list[str]:
        """Attributes that follow from the evidence."""
        return ["schema_", "accuracy_", *self._released]

    # ---- pickles and text ------------------------------------------------

    def _holds_counts(self) -> bool:
        """Whether exact counts are in memory: fitted and not closed."""
        return self._holds_secrets and hasattr(self, "_counts")

    def _holds_parts(self) -> bool:
        """Whether records were counted and not released yet."""
        return "_parts" in vars(self)

    def _refuse_parts(self) -> None:
        if self._holds_parts():
            raise TypeError(
                f"a {type(self).__name__} that holds counted records cannot be saved, "
                "pickled or copied; release() them first"
            )

    def __repr__(self, **kwargs: Any) -> str:
        text = str(super().__repr__(**kwargs))
        if self._holds_counts() or self._holds_parts():
            return f"{text} [holds sensitive counts: do not save or share]"
        return text

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return what the HTML of scikit-learn shows of a fit: nothing of records."""
        shown = super()._get_fitted_attr_html(doc_link)
        shown.pop("timings_", None)
        return shown

    def __getstate__(self) -> dict[str, Any]:
        self._refuse_parts()
        if self._holds_counts():
            raise TypeError(
                f"a fitted {type(self).__name__} holds sensitive counts and cannot be "
                "pickled or copied; save its predictions, or close() it first"
            )
        state: dict[str, Any] = dict(super().__getstate__())
        if "ensembles_" in state or not self._counts_fits():
            state.pop("_lineage", None)
        if "ensembles_" in state:
            for name in ("timings_", "_session"):
                state.pop(name, None)
            state["releases"] = self.releases_
            if "ledger" in state:
                state["ledger"] = SPENT
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        releases = state.pop("releases", ())
        super().__setstate__(state)
        if "ensembles_" not in state:
            return
        if state.get("ledger") == SPENT:
            self.ledger = spent_ledger(self._terms.relation)
        self._session = Session(spent_ledger(self._terms.relation), entries=releases)
        self.timings_ = dict.fromkeys(STAGES, 0.0)


def check_random_state(value: Any) -> None:
    """Raise unless forests can be grown from it."""
    generators = np.random.RandomState, np.random.Generator, np.random.SeedSequence
    if value is None or isinstance(value, generators):
        return
    need = "must be an integer >= 0, a random generator of NumPy, or None"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise TypeError(f"random_state {need}, got {value!r}")
    if value < 0:
        raise ParameterError("random_state", need, value)


NOT_IN_FILES = ("schema", "ledger", "insecure_rng")
"""Parameters that files have in another place, or not at all."""

POLICIES = ("error", "category", "drop", "clip")


def _public_names(cls: type[ForestClassifier]) -> list[str]:
    """Return the parameters that files hold: sources of randomness stay here."""
    names = inspect.signature(cls).parameters
    return [name for name in names if name not in NOT_IN_FILES]


EVIDENT = ("currency", "relation", "insecure", "cost")
"""Facts of evidence that follow from the draws of a fit and from public facts."""

SPENT = "spent"
"""Stands for the ledger in the state of a fitted model that is copied or pickled."""
