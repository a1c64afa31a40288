"""Trees in words: tests of named values, and outcomes; equal branches are one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from mmech.domain.attribute import Attribute
from mmech.terminal import printable
from mmech_rf.arrays import Floats
from mmech_rf.show.words import values_in_words

EVERYONE = "any record"

VOTES = "+x is what a leaf adds to the log-odds of a class, above the mean of all."

LEAST_LEAD = 0.05
"""Legibility: log-odds that round to zero speak for no class."""


@dataclass(frozen=True)
class Node:
    """A node of a tree in words."""

    outcome: str = ""  # what a leaf stands for; empty at an inner node
    label: int = -1  # position of the class that it stands for, -1 without one
    branches: tuple[tuple[str, Node], ...] = ()  # tests and where they lead

    def rules(self, before: tuple[str, ...] = ()) -> Iterator[str]:
        """Yield one line per leaf: the tests that lead to it, and its outcome."""
        if not self.branches:
            yield f"{' and '.join(before) or EVERYONE}: {self.outcome}"
        for test, node in self.branches:
            yield from node.rules((*before, test))


@dataclass(frozen=True)
class ShownTree:
    """A tree with its title."""

    title: str
    root: Node

    def text(self, most_rules: int) -> str:
        """Return the title, and one rule a line."""
        rules = list(islice(self.root.rules(), most_rules + 1))
        lines = [f"{self.title}:", *(f"  {rule}" for rule in rules[:most_rules])]
        return "\n".join([*lines, "  ..."] if len(rules) > most_rules else lines)


def by_values(
    attribute: Attribute, groups: Sequence[tuple[Sequence[int], Node]]
) -> Node:
    """Return the node that looks at an attribute; none where all is the same."""
    nodes: dict[Node, list[int]] = {}
    for codes, node in groups:
        nodes.setdefault(node, []).extend(codes)
    if len(nodes) == 1:
        return next(iter(nodes))
    return Node(
        branches=tuple(
            (values_in_words(attribute, codes), node) for node, codes in nodes.items()
        )
    )


def labelled(labels: Iterable[int], classes: Sequence[object]) -> list[Node]:
    """Return leaves that stand for classes."""
    names = [printable(label) for label in classes]
    return [Node(names[c], c) for c in labels]


def vote(scores: Floats, classes: Sequence[object]) -> Node:
    """Return the class that log-odds speak for, and by how much above the mean."""
    best = int(scores.argmax())
    lead = float(scores[best] - scores.mean())
    if lead < LEAST_LEAD:
        return Node("no preference")
    return Node(f"{printable(classes[best])} +{lead:.1f}", best)
