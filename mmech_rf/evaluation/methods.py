"""The methods that are compared, with their settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sklearn.dummy import DummyClassifier

from mmech.checks import check_choice
from mmech_rf.methods import METHODS, Method
from mmech_rf.schema import Schema

__all__ = ["make_methods"]


def majority_class(schema: Schema, random_state: Any = None) -> DummyClassifier:
    """Return the classifier that always answers the most frequent class."""
    return DummyClassifier(strategy="most_frequent")


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

    The private forest chooses trees and votes by itself: the settings apply to the
    others.

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
    >>> [method.label for method in make_methods(["majority", "training"])]
    ['batch training (hard)', 'majority class']
    """
    wanted = {check_choice(name, "a method", METHODS) for name in names}
    if voting is not None:
        check_choice(voting, "voting", ("hard", "weight"))
    given = {"n_trees": n_trees, "depth": depth, "splits": splits, "voting": voting}
    shared_out = {"n_trees": subsample_trees, "depth": subsample_depth}
    found = []
    for method in METHODS.values():
        if method.name not in wanted:
            continue
        own = given | (shared_out if method.name == "subsample" else {})
        parameters = dict(method.parameters)
        for name, value in own.items():
            if name in method.options and value is not None:
                parameters[name] = value
        votes = f" ({parameters['voting']})" if "voting" in parameters else ""
        label = f"{method.label}{votes}"
        found.append(replace(method, label=label, parameters=parameters))
    return found
