"""Tests of a forest in words, such as ``outlook=sunny`` or ``price<=25``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmech.domain.discretise import number_text
from mmech_rf.schema import Schema, check_schema

if TYPE_CHECKING:
    from mmech_rf.forest.forest import Forest

__all__ = ["Words", "paths_of_tree"]

EVERYONE = "any record"
"""The path of the only leaf of a tree of depth 0."""


@dataclass(frozen=True)
class Words:
    """What attributes, values and cuts are called."""

    names: Sequence[str]
    values: Sequence[Sequence[Any]]
    # Upper ends of values, for tests that compare; may be shorter.
    cuts: Sequence[Sequence[Any]]

    @classmethod
    def of_schema(cls, schema: Schema, domain_shape: tuple[int, ...]) -> Words:
        """Return the words of a schema, numbers being compared with cut points."""
        check_schema(schema)
        if schema.domain_shape != domain_shape:
            raise ValueError(
                f"schema has the domain {schema.domain_shape} but the forest "
                f"{domain_shape}; pass the schema that it was grown from"
            )
        cuts = [
            [number_text(cut) for cut in attribute.cut_points]
            for attribute in schema.attributes
        ]
        labels = [attribute.labels for attribute in schema.attributes]
        return cls(schema.feature_names, labels, cuts)

    @classmethod
    def of_lists(
        cls,
        feature_names: Sequence[str] | None,
        categories: Sequence[Sequence[Any]] | None,
        domain_shape: tuple[int, ...],
    ) -> Words:
        """Return given names and values, or numbers in their place."""
        if feature_names is None:
            feature_names = [f"x{i}" for i in range(len(domain_shape))]
        if categories is None:
            categories = [range(size) for size in domain_shape]
        if len(feature_names) != len(domain_shape):
            raise ValueError(
                f"feature_names must name all {len(domain_shape)} attributes, "
                f"got {len(feature_names)}"
            )
        sizes = tuple(len(values) for values in categories)
        if sizes != domain_shape:
            raise ValueError(
                "categories must list the values of every attribute, "
                f"{domain_shape} of them, got {sizes}"
            )
        return cls(feature_names, categories, [()] * len(domain_shape))

    def describe(self, attribute: int, value: int, relation: str = "=") -> str:
        """Return one test, for instance ``outlook=sunny``."""
        cuts = self.cuts[attribute] if relation in ("<=", ">") else ()
        named = cuts[value] if value < len(cuts) else self.values[attribute][value]
        return f"{self.names[attribute]}{relation}{named}"


def paths_of_tree(forest: Forest, tree: int, words: Words) -> list[str]:
    """Return the path to every leaf of a tree, in the order of their ids."""

    def walk(node: int, path: str) -> Iterator[str]:
        if forest.feature[node] < 0:
            yield path or EVERYONE
            return
        before = f"{path} & " if path else ""
        for branch in range(_n_children(forest, node)):
            test = _describe(forest, node, branch, words)
            yield from walk(int(forest.child[node]) + branch, before + test)

    return list(walk(int(forest.node_offsets[tree]), ""))


def _n_children(forest: Forest, node: int) -> int:
    if forest.value is not None and forest.value[node] >= 0:
        return 2
    return forest.domain_shape[forest.feature[node]]


def _describe(forest: Forest, node: int, branch: int, words: Words) -> str:
    attribute = int(forest.feature[node])
    if forest.value is None or forest.value[node] < 0:
        return words.describe(attribute, branch)
    assert forest.ordered is not None
    relations = ("<=", ">") if forest.ordered[attribute] else ("=", "!=")
    return words.describe(attribute, int(forest.value[node]), relations[branch])
