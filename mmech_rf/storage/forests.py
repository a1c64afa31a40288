"""Forests with noisy counts in their leaves, as files have them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import CompleteForest, complete_forest
from mmech_rf.private.ensembles import Ensemble
from mmech_rf.schema import Schema
from mmech_rf.storage.contents import Contents, Read, Store

__all__ = ["LeafCounts"]


class LeafCounts(Contents):
    """Ensembles of forests whose leaf counts were released."""

    own = ("n_trees",)

    def describe(self, model: Any, store: Store) -> dict[str, Any]:
        """Return entries of the description."""
        return {
            "n_trees": _tree_numbers(model.n_trees),
            "expected_error": model.expected_error_,
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

    def parameters(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the number of trees."""
        return {"n_trees": _read_tree_numbers(content["n_trees"])}

    def restore(self, model: Any, content: dict[str, Any], read: Read) -> None:
        """Give a model its forests, counts and labels."""
        model.ensembles_, model.leaf_counts_, model.leaf_labels_ = [], [], []
        for stored in content["ensembles"]:
            ensemble, counts, labels = _ensemble(stored, read, model.schema_)
            model.ensembles_.append(ensemble)
            model.leaf_counts_.append(counts)
            model.leaf_labels_.append(labels)
        if not model.ensembles_:
            raise ValueError("no forest")
        model.expected_error_ = float(content["expected_error"])


def _forest(forest: Forest, store: Store) -> dict[str, Any]:
    if isinstance(forest, CompleteForest):
        return {"complete": forest.depth}
    names = ["feature", "child", "node_offsets", "leaf_offsets"]
    if forest.value is not None:
        names.append("value")
    stored: dict[str, Any] = {name: store(getattr(forest, name)) for name in names}
    return stored | {"ordered": forest.ordered and list(forest.ordered)}


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
    stored: dict[str, Any], read: Read, schema: Schema
) -> tuple[Ensemble, NDArray[Any], NDArray[np.int64]]:
    features = read(stored["features"], "int64")
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
        fields = {name: read(parts[name], names[name]) for name in names}
        forest = Forest(shape, **fields, ordered=parts["ordered"])
    counts = read(stored["leaf_counts"], "int64", "float64")
    labels = read(stored["leaf_labels"], "int64")
    if counts.shape != (forest.n_leaves, schema.n_classes) or labels.shape != (
        forest.n_leaves,
    ):
        raise ValueError("not one row per leaf")
    if labels.min() < 0 or labels.max() >= schema.n_classes:
        raise ValueError("labels that are not classes")
    return Ensemble(features, forest, Fraction(stored["epsilon"])), counts, labels
