"""What models show of themselves: trees in words, and importances."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.domain.attribute import Attribute
from mmech.terminal import printable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.schema import Schema
from mmech_rf.show.trees import Node, ShownTree, by_values, labelled

MOST_LEAVES = 10_000
"""Legibility: leaves of a tree that is put into words."""

MADE_UP = 2000
"""Accuracy: made-up records; importances stand within some percent."""

EVENED = "What trees say together is evened out where it would break a direction:"

RANGES = "The upper end of a range belongs to it."


def notes_on(schema: Schema) -> list[str]:
    """Return sentences that explain the words of trees."""
    numeric = any(a.kind == "numeric" for a in schema.attributes)
    notes = [RANGES] if numeric else []
    if schema.monotone:
        notes.append(EVENED)
    for name, direction in schema.monotone.items():
        rarer = "less" if direction > 0 else "more"
        notes.append(
            f"Later classes are never {rarer} likely for more of {printable(name)}."
        )
    return notes


def made_up(domain_shape: tuple[int, ...], rng: np.random.Generator) -> Integers:
    """Return encoded records that are spread evenly over the domain, (MADE_UP, d)."""
    sizes = np.array(domain_shape, np.int64)
    return rng.integers(0, sizes, (MADE_UP, sizes.size))


def importances(
    shares: Callable[[Integers], Floats], domain_shape: tuple[int, ...]
) -> Floats:
    """Return how far class probabilities move when one attribute is drawn anew, (d,).

    Made-up records are spread evenly over the domain, from a fixed seed: no record of
    anybody is looked at, so that nothing is spent. Distances of probabilities
    (`shares`, of encoded records) are total variation, and their means are scaled to a
    sum of one; all zero for a model that says the same of every record.
    """
    rng = np.random.default_rng(0)
    codes, others = (made_up(domain_shape, rng) for _ in range(2))
    before = shares(codes)
    moved = np.zeros(len(domain_shape))
    for i in range(moved.size):
        changed = codes.copy()
        changed[:, i] = others[:, i]
        moved[i] = np.abs(shares(changed) - before).sum() / 2
    total = moved.sum()
    return moved / total if total > 0 else moved


def grown_trees(
    ensembles: Iterable[tuple[Integers, Forest]],
    labels: Sequence[Integers],
    counts: Sequence[NDArray[Any]],
    schema: Schema,
    error: float,
) -> Iterator[ShownTree]:
    """Yield the trees of random forests in words.

    Ensembles are attributes, by position, and forests over them, whose leaves have
    labels (n_leaves,) and class counts (n_leaves, k). `error` is the standard error of
    the number of records in a leaf, NaN where counts are no numbers of records.
    """
    number = 0
    for (features, forest), classes, of_leaves in zip(
        ensembles, labels, counts, strict=True
    ):
        attributes = [schema.attributes[i] for i in features]
        sizes = of_leaves.sum(axis=1) + 0 * error
        bounds = pairwise(forest.leaf_offsets.tolist())
        for root, (start, stop) in zip(forest.node_offsets, bounds, strict=False):
            number += 1
            if stop - start > MOST_LEAVES:
                node = Node(f"{stop - start:,} leaves, too many to show")
            else:
                part = classes[start:stop].tolist(), sizes[start:stop].tolist()
                leaves = labelled(part[0], schema.class_labels, part[1])
                node = _below(int(root), forest, attributes, leaves)
            yield ShownTree(f"tree {number}", node, node.records, error)


def counted_leaves(
    features: Integers, forest: Forest, counts: NDArray[Any], codes: Integers
) -> tuple[Floats, Integers]:
    """Return class counts of the first tree, and where each record is, shape (b,)."""
    leaves = forest.apply(codes[:, features])[:, 0].astype(np.int64)
    return counts[: forest.leaf_offsets[1]].astype(np.float64), leaves


def _below(
    node: int, forest: Forest, attributes: Sequence[Attribute], leaves: Sequence[Node]
) -> Node:
    """Return a node of a forest, and what is below it, in words."""
    feature, child = int(forest.feature[node]), int(forest.child[node])
    if feature < 0:
        return leaves[child]
    codes = range(attributes[feature].size)
    value = -1 if forest.value is None else int(forest.value[node])
    if value < 0:
        parts = [[code] for code in codes]
    elif forest.ordered is not None and forest.ordered[feature]:
        parts = [[*codes[: value + 1]], [*codes[value + 1 :]]]
    else:
        parts = [[value], [code for code in codes if code != value]]
    return by_values(
        attributes[feature],
        [
            (part, _below(child + i, forest, attributes, leaves))
            for i, part in enumerate(parts)
        ],
    )
