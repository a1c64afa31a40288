"""What an estimator is made of, and what of it leaves the process.

Clones, files, pickles and text hold parameters and what was released: no exact count,
no ledger that could be spent twice, no source of randomness, no seconds.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mmech import ParameterError, PrivacyLedger
from mmech.checks import check_choice, check_epsilon
from mmech.noise import LAWS
from mmech.privacy.ledger import CURRENCIES, KINDS, LedgerEntry, as_ledger, composed
from mmech.privacy.neighbours import Relation
from mmech.session import Session
from mmech.storage.codec import write
from mmech_rf.forest.ensembles import Ensemble, check_random_state
from mmech_rf.private.estimator import estimator
from mmech_rf.private.lineage import Lineage
from mmech_rf.private.terms import (
    Terms,
    check_origin,
    model_card,
    origin_of_today,
    spent_ledger,
)
from mmech_rf.private.votes import check_that
from mmech_rf.schema import Schema, check_schema

__all__ = ["STAGES", "PublicModel"]

STAGES = ("trees", "optimization", "measurement", "prediction")


@estimator
class PublicModel(BaseEstimator):
    """Base of all classifiers: their common parameters, and their copies."""

    schema: Schema | None = field(default=None, kw_only=False)
    epsilon: Any
    neighbours: str = "add_remove"
    records_per_person: int = 1
    handle_unknown: str = "clip"
    handle_missing: str = "error"
    ledger: PrivacyLedger | None = None
    random_state: Any = None
    insecure_rng: Any = None

    _holds_secrets = False
    _spends = True
    _keeps_order = False
    """Whether predictions keep to monotone attributes."""
    _released: ClassVar[tuple[str, ...] | None] = None
    """Attributes of a fit that files hold beside those of all classes: what was
    released, and what follows from it. None where there is no model."""

    schema_: Schema = field(init=False)
    ensembles_: list[Ensemble] = field(init=False)
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
        return epsilon

    @property
    def ledger_(self) -> PrivacyLedger:
        """What the releases were paid from."""
        return self._session.ledger

    @property
    def releases_(self) -> tuple[LedgerEntry, ...]:
        """What was released, in order, with its cost."""
        return self._session.entries

    # ---- clones ----------------------------------------------------------

    def _family(self) -> Lineage:
        """Return what counts the fits of this object and of its clones."""
        if not hasattr(self, "_lineage"):
            self._lineage = Lineage()
        return self._lineage

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy, of which a fit is known to be one more."""
        twin: Self = super().__sklearn_clone__()
        twin._lineage = self._family()
        if self._spends and self.ledger is None and self.insecure_rng is None:
            twin._lineage.cloned(self)
        return twin

    # ---- files -----------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the released model to one file, to be read by `mmech_rf.load_model`.

        The file holds what was released or is public: noisy counts or drawn trees,
        what votes were made of them, forests, schema, parameters, what was spent, and
        the day and version of the first `save`.
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
        if self._released is None:
            raise TypeError(
                f"a {name} cannot be saved, because only models made of released "
                "numbers are; fit a PrivateForestClassifier"
            )
        write(path, "model", self)
        self._saved = origin

    @classmethod
    def _stored(cls) -> dict[str, str]:
        """Return what files hold of a fit, with the attributes that have it."""
        common = ["privacy_statement_", "releases_", "_terms", "schema_", "_columns"]
        common += ["_origin", "_total"]
        own = cls._released or ()
        names = [*common, "_parameters", "_tie_key", *own]
        return {name.strip("_"): name for name in names}

    @property
    def _origin(self) -> dict[str, str]:
        """When, and by which version, the model was saved first; today if never."""
        return dict(getattr(self, "_saved", None) or origin_of_today())

    def card(self) -> dict[str, Any]:
        """Return the facts of the release as fields that programs read.

        Returns
        -------
        dict
            What JSON can hold: ``model``; ``mechanism``, the kinds of noise and draws;
            ``epsilon`` and ``delta`` of all releases together, None where only ``rho``
            is promised; ``epsilon_at`` three deltas, by delta, where rho is; ``relation``, ``records_per_person`` and ``unit``, which say
            what is protected; ``private``, false if the schema was read from records
            or the noise was predictable; ``date`` and ``version`` of the first
            `save`, None before; ``schema_name``, ``schema_hash``, ``target``,
            ``classes`` and ``attributes``; ``monotone``, directions
            by name; ``releases``, with exact costs as text;
            and the ``statement``. Nothing in it depends on records.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self)
        return model_card(
            type(self).__name__,
            self._terms,
            self.releases_,
            self.schema_,
            getattr(self, "_saved", {}),
            self.privacy_statement_,
        )

    @property
    def _total(self) -> Fraction:
        """What all releases cost together, in their currency."""
        return composed(self.releases_)

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
        origin: dict[str, str],
        terms: Terms,
        schema: Schema,
        columns: tuple[str, ...],
        parameters: dict[str, Any],
        tie_key: int,
        privacy_statement: str,
        total: Fraction,
        **released: Any,
    ) -> Self:
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
        check_that(composed(releases) == total, "costs")
        pure = total <= parameters["epsilon"] or terms.promised is not None
        check_that(pure and all(entry.cost > 0 for entry in releases), "costs")
        check_that(all(isinstance(name, str) for name in columns), "names")
        check_that(len(columns) in (0, schema.n_features) and tie_key >= 0, "facts")
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
        return model

    def _settle(self) -> None:
        """Raise unless what a file held fits together, and set what follows from it."""

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
        if "ensembles_" in state:
            for name in ("timings_", "_session", "_lineage"):
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


NOT_IN_FILES = ("schema", "ledger", "insecure_rng")
"""Parameters that files have in another place, or not at all."""

POLICIES = ("error", "category", "drop", "clip")


def _public_names(cls: type[PublicModel]) -> list[str]:
    """Return the parameters that files hold: sources of randomness stay here."""
    names = inspect.signature(cls).parameters
    return [name for name in names if name not in NOT_IN_FILES]


SPENT = "spent"
"""Stands for the ledger in the state of a fitted model that is copied or pickled."""
