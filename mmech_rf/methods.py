"""All methods, one row each: for comparisons, the command line, `mmech_rf`.

Nothing is imported before a method is built, so that ``--help`` is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any

SPLITS = ("multiway", "binary", "threshold")
"""Kinds of split that a random forest may have."""


@dataclass(frozen=True)
class Method:
    """A classifier with settings, and how it is shown.

    Attributes
    ----------
    name : str
        Key in `METHODS`, and value of ``--method`` and ``--methods``.
    estimator, home : str
        Name of the class, and the module in `mmech_rf` that has it.
    label : str
        Name for people.
    released : str
        What is released: labelled trees, counts, votes; or "not private".
    summary : str
        What it does, for ``--help``.
    command : {"fit", "predict-batch"}, optional
        Command that releases it, if any.
    options : tuple of str
        Parameters that may be set from outside.
    parameters : mapping of str
        Parameters as they are set.
    """

    name: str
    estimator: str
    home: str
    label: str
    released: str
    summary: str
    command: str | None = None
    options: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_private(self) -> bool:
        """Whether the method has a privacy budget."""
        return self.released != "not private"

    @property
    def factory(self) -> Any:
        """The class, which is imported now."""
        return getattr(import_module(f"mmech_rf.{self.home}"), self.estimator)

    def make(self, schema: Any, **parameters: Any) -> Any:
        """Return an unfitted classifier; parameters win over those that are set."""
        return self.factory(schema, **{**self.parameters, **parameters})


_BOUNDED = ("n_records", "private_bins")
_DRAWN = (*_BOUNDED, "settings")
_FOREST = ("n_trees", "depth", "splits")
_COUNTED = (*_FOREST, "n_ensembles", "max_features", "voting", "random_state")
_OPTIMIZED = (*_COUNTED, "template")

_ROWS = (
    Method(
        "private",
        "PrivateForestClassifier",
        "drawn.classifier",
        "private forest",
        "labelled trees",
        "small trees, drawn with their labels for what they get right; any number of "
        "attributes, the one to start with",
        "fit",
        _DRAWN,
    ),
    Method(
        "training",
        "BatchTrainingClassifier",
        "paper.batch_training",
        "batch training",
        "leaf counts",
        "leaf counts through the matrix mechanism",
        "fit",
        _OPTIMIZED,
        {"voting": "hard"},
    ),
    Method(
        "prediction",
        "BatchPredictionClassifier",
        "paper.per_batch",
        "batch prediction",
        "votes",
        "weighted votes of a batch of queries through the matrix mechanism",
        "predict-batch",
        tuple(option for option in _OPTIMIZED if option != "voting"),
        {"voting": "weight"},
    ),
    Method(
        "subsample",
        "SubsampleAggregateClassifier",
        "paper.per_batch",
        "subsample-aggregate",
        "votes",
        "votes of a batch of queries; every record trains one tree only, of 16 by "
        "default; any number of attributes",
        "predict-batch",
        _OPTIMIZED,
        {"voting": "weight"},
    ),
    Method(
        "laplace",
        "LaplaceForestClassifier",
        "paper.baselines",
        "Laplace, shared data",
        "leaf counts",
        "baseline: noise on every leaf, all records in every tree",
        "fit",
        _COUNTED,
        {"data": "shared", "voting": "hard"},
    ),
    Method(
        "laplace-disjoint",
        "LaplaceForestClassifier",
        "paper.baselines",
        "Laplace, disjoint data",
        "leaf counts",
        "baseline: noise on every leaf, every record in one tree",
        "fit",
        _COUNTED,
        {"data": "disjoint", "voting": "hard"},
    ),
    Method(
        "recipe",
        "RecipeForestClassifier",
        "literature.classifier",
        "forest of the literature",
        "labels or counts of leaves",
        "a forest of the literature by the name of its recipe, see `mmech-rf recipes`",
        "fit",
        ("n_records", "recipe", "random_state"),
    ),
    Method(
        "non-private",
        "NonPrivateForestClassifier",
        "paper.baselines",
        "non-private forest",
        "not private",
        "the forest of training with exact counts",
        None,
        (*_FOREST, "voting"),
        {"voting": "hard"},
    ),
    Method(
        "majority",
        "majority_class",
        "evaluation",
        "majority class",
        "not private",
        "the most frequent class of the training split, exact",
    ),
)

METHODS: Mapping[str, Method] = MappingProxyType({row.name: row for row in _ROWS})
"""Methods by name, in the order of tables."""

ESTIMATORS: Mapping[str, str] = MappingProxyType(
    {row.estimator: row.home for row in _ROWS if row.home != "evaluation"}
)
"""Modules by the name of a public classifier."""
