"""The methods that are compared: how each estimator is built, and what it releases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sklearn.dummy import DummyClassifier

from mmech.checks import check_choice
from mmech_rf import (
    BatchPredictionClassifier,
    BatchTrainingClassifier,
    LaplaceForestClassifier,
    NonPrivateForestClassifier,
    PrivateForestClassifier,
    SubsampleAggregateClassifier,
)
from mmech_rf.schema import Schema

__all__ = ["METHODS", "Method", "make_methods"]

#: What every method releases, by name, in the order of the tables.
METHODS: Mapping[str, str] = MappingProxyType(
    {
        "private-forest": "labelled trees",
        "batch-training": "leaf counts",
        "batch-prediction": "votes",
        "subsample-aggregate": "votes",
        "laplace-shared": "leaf counts",
        "laplace-disjoint": "leaf counts",
        "non-private": "not private",
        "majority": "not private",
    }
)


@dataclass(frozen=True)
class Method:
    """One line of a comparison.

    Attributes
    ----------
    name : str
        Key in `METHODS`.
    label : str
        Name for people, with the voting rule.
    build : callable
        Called with the schema, the privacy budget (`None` where nothing is
        private) and a seed; returns an unfitted classifier.
    """

    name: str
    label: str
    build: Callable[[Schema, Fraction | None, int], Any]

    @property
    def released(self) -> str:
        """What is released: drawn trees, noisy leaf counts or votes, or neither."""
        return METHODS[self.name]

    @property
    def is_private(self) -> bool:
        """Whether the method has a privacy budget."""
        return self.released != "not private"


def make_methods(
    names: Iterable[str] = tuple(METHODS),
    *,
    n_trees: float = 128,
    depth: int | str = "auto",
    splits: str = "multiway",
    voting: str | None = None,
    subsample_trees: int = 16,
    subsample_depth: int | str = "auto",
) -> list[Method]:
    """Return methods with their settings, in the order of `METHODS`.

    The private forest chooses trees and votes by itself, so that the settings are those
    of the others.

    Parameters
    ----------
    names : iterable of str, default=all of `METHODS`
    n_trees : int or inf, default=128
        Trees of every forest except subsample-and-aggregate.
    depth : int or "auto", default="auto"
        Tests on a path, see the classifiers.
    splits : {"multiway", "binary", "threshold"}, default="multiway"
        Kind of split of all forests.
    voting : {"hard", "weight"}, optional
        How trees vote. By default by weight where votes are released, by label
        elsewhere. Batch prediction always votes by weight.
    subsample_trees : int, default=16
        Trees of subsample-and-aggregate; few, because they share out the records.
    subsample_depth : int or "auto", default="auto"

    Returns
    -------
    list of Method

    Examples
    --------
    >>> [method.label for method in make_methods(["majority", "batch-training"])]
    ['batch training (hard)', 'majority class']
    """
    wanted = {check_choice(name, "a method", METHODS) for name in names}
    if voting is not None:
        check_choice(voting, "voting", ("hard", "weight"))
    by_label, by_weight = voting or "hard", voting or "weight"
    trees: dict[str, Any] = {"n_trees": n_trees, "depth": depth, "splits": splits}
    forest = trees | {"voting": by_label}

    def private(schema: Schema, epsilon: Any, seed: int) -> Any:
        return PrivateForestClassifier(schema, epsilon=epsilon)

    def training(schema: Schema, epsilon: Any, seed: int) -> Any:
        return BatchTrainingClassifier(
            schema, epsilon=epsilon, random_state=seed, **forest
        )

    def prediction(schema: Schema, epsilon: Any, seed: int) -> Any:
        return BatchPredictionClassifier(
            schema, epsilon=epsilon, random_state=seed, **trees
        )

    def subsample(schema: Schema, epsilon: Any, seed: int) -> Any:
        return SubsampleAggregateClassifier(
            schema,
            epsilon=epsilon,
            n_trees=subsample_trees,
            depth=subsample_depth,
            splits=splits,
            voting=by_weight,
            random_state=seed,
        )

    def shared(schema: Schema, epsilon: Any, seed: int) -> Any:
        return LaplaceForestClassifier(
            schema, epsilon=epsilon, data="shared", random_state=seed, **forest
        )

    def disjoint(schema: Schema, epsilon: Any, seed: int) -> Any:
        return LaplaceForestClassifier(
            schema, epsilon=epsilon, data="disjoint", random_state=seed, **forest
        )

    def exact(schema: Schema, epsilon: Any, seed: int) -> Any:
        return NonPrivateForestClassifier(schema, random_state=seed, **forest)

    def majority(schema: Schema, epsilon: Any, seed: int) -> Any:
        return DummyClassifier(strategy="most_frequent")

    methods = (
        Method("private-forest", "private forest", private),
        Method("batch-training", f"batch training ({by_label})", training),
        Method("batch-prediction", "batch prediction (weight)", prediction),
        Method("subsample-aggregate", f"subsample-aggregate ({by_weight})", subsample),
        Method("laplace-shared", f"Laplace, shared data ({by_label})", shared),
        Method("laplace-disjoint", f"Laplace, disjoint data ({by_label})", disjoint),
        Method("non-private", f"non-private forest ({by_label})", exact),
        Method("majority", "majority class", majority),
    )
    return [method for method in methods if method.name in wanted]
