"""What the files of all released models have in common."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import __version__
from mmech.checks import check_choice, check_delta, check_epsilon
from mmech.privacy.ledger import CURRENCIES, KINDS, LedgerEntry
from mmech.storage.archive import position, read_archive, write_archive
from mmech_rf.blocks.classifier import BlockForestClassifier, LabelForestClassifier
from mmech_rf.drawn.classifier import DrawnForestClassifier
from mmech_rf.private.base import STAGES, ForestClassifier, Terms, _spent_ledger
from mmech_rf.private.batch_training import BatchTrainingClassifier
from mmech_rf.private.laplace_forest import LaplaceForestClassifier
from mmech_rf.schema import Schema
from mmech_rf.storage.contents import Contents, reader
from mmech_rf.storage.forests import LeafCounts
from mmech_rf.storage.private_forest import (
    BlockContents,
    DrawnContents,
    LabelContents,
)

__all__ = ["load_model", "save_model"]

FORMAT = "mmech-rf model"
VERSION = 1
"""Version of the file format; a change that old readers misread raises it."""

DTYPES = {"int32", "int64", "float64"}
"""Types of the arrays of a model."""

NOT_SAVED = ("schema", "epsilon", "ledger", "random_state", "insecure_rng")
"""Parameters with an entry of their own, or none: sources of randomness stay here."""

POLICIES = ("error", "category", "drop", "clip")


SAVEABLE: dict[type[ForestClassifier], Contents] = {
    DrawnForestClassifier: DrawnContents(),
    BlockForestClassifier: BlockContents(),
    LabelForestClassifier: LabelContents(),
    BatchTrainingClassifier: LeafCounts(),
    LaplaceForestClassifier: LeafCounts(),
}
"""Classes that files may name, and what their models hold."""


# ---- saving ------------------------------------------------------------------


def save_model(path: str | os.PathLike[str], model: ForestClassifier) -> None:
    """Write a released model; `ForestClassifier.save` documents it."""
    cls = type(model)
    if cls not in SAVEABLE:
        raise TypeError(_refusal(model))
    contents = SAVEABLE[cls]
    epsilon = model._check_parameters()
    arrays: list[NDArray[Any]] = []

    def store(array: NDArray[Any]) -> int:
        arrays.append(array)
        return len(arrays) - 1

    schema_text = model.schema_.to_json()
    assert schema_text is not None
    random_state = model.random_state
    description = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"mmech {__version__}",
        "class": cls.__name__,
        "privacy_statement": model.privacy_statement_,
        "releases": [_entry(entry) for entry in model.releases_],
        "terms": asdict(model._terms),
        "schema": json.loads(schema_text),
        "columns": [str(name) for name in getattr(model, "feature_names_in_", ())],
        "epsilon": str(epsilon),
        "random_state": int(random_state)
        if isinstance(random_state, (int, np.integer))
        else None,
        "parameters": {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in model.get_params(deep=False).items()
            if name not in (*NOT_SAVED, *contents.own)
        },
        "tie_key": model._tie_key,
        **contents.describe(model, store),
    }
    write_archive(path, description, arrays)


def _refusal(model: ForestClassifier) -> str:
    name = type(model).__name__
    if model._holds_secrets:
        return (
            f"a {name} cannot be saved, because it holds exact counts of the records "
            "and releases votes of a batch, not a model; save the labels it predicted, "
            "or fit a PrivateForestClassifier, whose model is released"
        )
    return (
        f"a {name} cannot be saved, because only models made of released numbers are; "
        f"fit one of {', '.join(known.__name__ for known in SAVEABLE)}"
    )


def _entry(entry: LedgerEntry) -> dict[str, Any]:
    return {**asdict(entry), "cost": str(entry.cost)}


# ---- loading -----------------------------------------------------------------


def load_model(path: str | os.PathLike[str]) -> ForestClassifier:
    """Read a model that `save` wrote; it predicts the same labels, bit for bit.

    Runs no code from the file: it may come from anyone. What the model was released
    at is in its ``privacy_statement_``. Predicting is free; a new `fit` is refused,
    because the budget of the model is spent: set ``ledger=None`` to spend another.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    BatchTrainingClassifier, BlockForestClassifier, DrawnForestClassifier,
    LabelForestClassifier or LaplaceForestClassifier
        Fitted, with a ledger that is spent. It has everything of the saved model
        but its strategies.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If the file is damaged, not a model, or of a newer version.

    See Also
    --------
    mmech.load : the same for strategies.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech_rf import BatchTrainingClassifier, datasets, load_model
    >>> car = datasets.load_car()
    >>> model = BatchTrainingClassifier(car.schema, epsilon=1, n_trees=8)
    >>> model = model.fit(car.data, car.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "car.npz"))
    ...     copy = load_model(os.path.join(folder, "car.npz"))
    >>> bool((copy.predict(car.data) == model.predict(car.data)).all())
    True
    """
    return read_archive(
        path, _build, what="model", form=FORMAT, version=VERSION, dtypes=DTYPES
    )


def _build(content: dict[str, Any], arrays: list[NDArray[Any]]) -> ForestClassifier:
    """Make a model of a description; anything that does not fit raises."""
    cls = {known.__name__: known for known in SAVEABLE}[content["class"]]
    contents = SAVEABLE[cls]
    terms = _terms(content["terms"])
    schema = Schema.from_json(content["schema"])
    model = cls(
        None if terms.inferred else schema,
        epsilon=Fraction(content["epsilon"]),
        ledger=_spent_ledger(terms.relation),
        random_state=content["random_state"],
        **content["parameters"],
        **contents.parameters(content),
    )
    model._check_parameters()
    for name in ("handle_unknown", "handle_missing"):
        check_choice(getattr(model, name), name, POLICIES)

    model.schema_ = schema
    model.classes_ = schema.decode_target(np.arange(schema.n_classes))
    model.n_features_in_ = schema.n_features
    if content["columns"]:
        if len(content["columns"]) != schema.n_features:
            raise ValueError("not one name per column")
        model.feature_names_in_ = np.array(content["columns"], dtype=object)
    contents.restore(model, content, reader(arrays))
    model.releases_ = _releases(content["releases"], model, terms)
    model.ledger_ = _spent_ledger(terms.relation)
    model.timings_ = dict.fromkeys(STAGES, 0.0)
    model._terms = terms
    model._insecure_rng = None
    model._tie_key = position(content["tie_key"])
    return model


def _releases(
    stored: list[dict[str, Any]], model: ForestClassifier, terms: Terms
) -> tuple[Any, ...]:
    entries = tuple(LedgerEntry(**{**e, "cost": Fraction(e["cost"])}) for e in stored)
    for entry in entries:
        check_choice(entry.kind, "kind", tuple(KINDS))
        check_choice(entry.currency, "currency", CURRENCIES)
    currencies = {entry.currency for entry in entries}
    if len(currencies) > 1:
        raise ValueError("releases in more than one currency")
    choice = getattr(model, "choice_", None)
    if choice is None:
        return entries
    if currencies != {{"pure": "epsilon", "zcdp": "rho"}[choice.accounting]}:
        raise ValueError("releases in another currency than the model's")
    # Labels guarantee a pure epsilon, which a ledger of rho may have paid for.
    pure = isinstance(model, LabelForestClassifier)
    if choice.accounting == "zcdp" and terms.promised is None and not pure:
        raise ValueError("zCDP without a delta")
    return entries


def _terms(stored: dict[str, Any]) -> Terms:
    terms = Terms(**stored)
    if terms.promised is None:
        return terms
    epsilon, delta = terms.promised
    return replace(terms, promised=(float(check_epsilon(epsilon)), check_delta(delta)))
