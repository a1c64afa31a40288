"""Released models as files: data that anyone may read, without pickle.

A file holds what was released or is public: noisy leaf counts and the labels made of
them, forests, schema, parameters, and the record of what was spent. Exact counts,
noise sources, ledgers and timings have no place in it.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmech import __version__
from mmech._archive import position, read_archive, write_archive
from mmech._validation import check_choice
from mmech.budget import NEIGHBOURS, LedgerEntry
from mmech_rf.forest import Forest
from mmech_rf.growth import CompleteForest, complete_forest
from mmech_rf.schema import Schema

if TYPE_CHECKING:
    from mmech_rf.classifiers._base import ForestClassifier
    from mmech_rf.classifiers._ensembles import Ensemble

__all__ = ["load_model", "save_model"]

FORMAT = "mmech-rf model"
VERSION = 1
"""Version of the file format; a change that old readers misread raises it."""

DTYPES = {"int32", "int64", "float64"}
"""Types of the arrays of a model."""

NOT_SAVED = ("schema", "epsilon", "n_trees", "ledger", "random_state", "insecure_rng")
"""Parameters with an entry of their own, or none: sources of randomness stay here."""

POLICIES = ("error", "category", "drop", "clip")


def _saveable() -> dict[str, type[ForestClassifier]]:
    from mmech_rf.classifiers import BatchTrainingClassifier, LaplaceForestClassifier

    return {
        cls.__name__: cls for cls in (BatchTrainingClassifier, LaplaceForestClassifier)
    }


# ---- saving ------------------------------------------------------------------


def save_model(path: str | os.PathLike[str], model: ForestClassifier) -> None:
    """Write a released model; `ForestClassifier.save` documents it."""
    cls = type(model)
    if _saveable().get(cls.__name__) is not cls:
        raise TypeError(_refusal(model))
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
        "classes": {
            "dtype": model.classes_.dtype.str,
            "values": model.classes_.tolist(),
        },
        "columns": [str(name) for name in getattr(model, "feature_names_in_", ())],
        "epsilon": str(epsilon),
        "n_trees": _tree_numbers(model.n_trees),
        "random_state": int(random_state)
        if isinstance(random_state, (int, np.integer))
        else None,
        "parameters": {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in model.get_params(deep=False).items()
            if name not in NOT_SAVED
        },
        "expected_error": model.expected_error_,
        "tie_key": model._tie_key,
        "ensembles": [
            {
                "features": store(ensemble.features),
                "epsilon": str(ensemble.epsilon),
                "forest": _forest(ensemble.forest, store),
                "leaf_counts": store(model.leaf_counts_[i]),
                "leaf_labels": store(model.leaf_labels_[i]),
            }
            for i, ensemble in enumerate(model.ensembles_)
        ],
    }
    write_archive(path, description, arrays)


def _refusal(model: ForestClassifier) -> str:
    name = type(model).__name__
    if model._holds_secrets:
        return (
            f"a {name} cannot be saved, because it holds exact counts of the records "
            "and releases votes of a batch, not a model; save the labels it predicted, "
            "or fit a BatchTrainingClassifier, whose model is released"
        )
    return (
        f"a {name} cannot be saved, because only models made of released numbers are; "
        "fit a BatchTrainingClassifier or a LaplaceForestClassifier"
    )


def _entry(entry: LedgerEntry) -> dict[str, Any]:
    return {**asdict(entry), "epsilon": str(entry.epsilon)}


def _forest(forest: Forest, store: Any) -> dict[str, Any]:
    if isinstance(forest, CompleteForest):
        return {"complete": forest.depth}
    names = ["feature", "child", "node_offsets", "leaf_offsets"]
    if forest.value is not None:
        names.append("value")
    stored: dict[str, Any] = {name: store(getattr(forest, name)) for name in names}
    return stored | {"ordered": forest.ordered and list(forest.ordered)}


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
    BatchTrainingClassifier or LaplaceForestClassifier
        Fitted, with a ledger that is spent. It has everything of the saved model
        but ``strategies_``.

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
    from mmech_rf.classifiers._base import STAGES, Terms, _spent_ledger

    cls = _saveable()[content["class"]]
    terms = Terms(**content["terms"])
    check_choice(terms.neighbours, "neighbours", NEIGHBOURS)
    schema = Schema.from_json(content["schema"])
    model = cls(
        None if terms.inferred else schema,
        epsilon=Fraction(content["epsilon"]),
        n_trees=_read_tree_numbers(content["n_trees"]),
        ledger=_spent_ledger(content["parameters"]["neighbours"]),
        random_state=content["random_state"],
        **content["parameters"],
    )
    model._check_parameters()
    for name in ("handle_unknown", "handle_missing"):
        check_choice(getattr(model, name), name, POLICIES)

    model.schema_ = schema
    model.classes_ = _classes(content["classes"], schema)
    model.n_features_in_ = schema.n_features
    if content["columns"]:
        if len(content["columns"]) != schema.n_features:
            raise ValueError("not one name per column")
        model.feature_names_in_ = np.array(content["columns"], dtype=object)
    model.ensembles_, model.leaf_counts_, model.leaf_labels_ = [], [], []
    for stored in content["ensembles"]:
        ensemble, counts, labels = _ensemble(stored, arrays, schema)
        model.ensembles_.append(ensemble)
        model.leaf_counts_.append(counts)
        model.leaf_labels_.append(labels)
    if not model.ensembles_:
        raise ValueError("no forest")
    model.releases_ = tuple(
        LedgerEntry(**{**entry, "epsilon": Fraction(entry["epsilon"])})
        for entry in content["releases"]
    )
    model.expected_error_ = float(content["expected_error"])
    model.ledger_ = None
    model.timings_ = dict.fromkeys(STAGES, 0.0)
    model._terms = terms
    model._insecure_rng = None
    model._tie_key = position(content["tie_key"])
    return model


def _classes(stored: dict[str, Any], schema: Schema) -> NDArray[Any]:
    dtype = np.dtype(stored["dtype"])
    classes = np.array(stored["values"], dtype=dtype)
    if dtype.kind not in "biufUO" or classes.shape != (schema.n_classes,):
        raise ValueError("labels that are not the classes")
    if not np.array_equal(schema.encode_target(classes), np.arange(classes.size)):
        raise ValueError("labels that are not the classes")
    return classes


def _tree_numbers(n_trees: Any) -> Any:
    """Return a number of trees, or one per ensemble, as JSON has it."""
    if np.ndim(n_trees):
        return [_tree_numbers(number) for number in n_trees]
    return "inf" if n_trees == math.inf else int(n_trees)


def _read_tree_numbers(stored: Any) -> Any:
    if isinstance(stored, list):
        return [_read_tree_numbers(number) for number in stored]
    return math.inf if stored == "inf" else stored


def _ensemble(
    stored: dict[str, Any], arrays: list[NDArray[Any]], schema: Schema
) -> tuple[Ensemble, NDArray[Any], NDArray[np.int64]]:
    from mmech_rf.classifiers._ensembles import Ensemble

    def array(reference: Any, *dtypes: str) -> NDArray[Any]:
        found = arrays[position(reference)]
        if str(found.dtype) not in dtypes:
            raise ValueError(f"an array of {found.dtype} in place of {dtypes}")
        return found

    features = array(stored["features"], "int64")
    if (np.diff(features) < 1).any():
        raise ValueError("attributes out of order")
    shape = schema.select(features.tolist()).domain_shape
    parts = stored["forest"]
    if "complete" in parts:
        forest: Forest = complete_forest(shape, parts["complete"])
    else:
        names = {"feature": "int32", "child": "int32"}
        names |= {"node_offsets": "int64", "leaf_offsets": "int64"}
        if "value" in parts:
            names["value"] = "int32"
        fields = {name: array(parts[name], names[name]) for name in names}
        forest = Forest(shape, **fields, ordered=parts["ordered"])
    counts = array(stored["leaf_counts"], "int64", "float64")
    labels = array(stored["leaf_labels"], "int64")
    if counts.shape != (forest.n_leaves, schema.n_classes) or labels.shape != (
        forest.n_leaves,
    ):
        raise ValueError("not one row per leaf")
    if not np.isfinite(counts).all():
        raise ValueError("counts that are not finite")
    if labels.min() < 0 or labels.max() >= schema.n_classes:
        raise ValueError("labels that are not classes")
    return Ensemble(features, forest, Fraction(stored["epsilon"])), counts, labels
