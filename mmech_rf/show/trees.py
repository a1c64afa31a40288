"""Trees in words: tests of named values, and outcomes; equal branches are one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, repeat

import numpy as np

from mmech.domain.attribute import Attribute
from mmech.domain.discretise import number_text
from mmech.terminal import printable
from mmech_rf.arrays import Floats

EVERYONE = "any record"

VOTES = "+x is what a leaf adds to the log-odds of a class, above the mean of all."

NO_PREFERENCE = "no preference"

LEAST_LEAD = 0.05
"""Legibility: log-odds that round to zero speak for no class."""

LEAST_SHARE = 1 / 200
"""Legibility: share of the records from which on a page shows a branch."""


@dataclass(frozen=True)
class Node:
    """A node of a tree in words."""

    outcome: str = ""  # what a leaf stands for; empty at an inner node
    label: int = -1  # position of the class that it stands for, -1 without one
    branches: tuple[tuple[str, Node], ...] = ()  # tests and where they lead
    # Noisy number of records in a leaf, NaN where none was released.
    size: float = field(default=math.nan, compare=False)

    @property
    def records(self) -> float:
        """Noisy number of records that come here."""
        if not self.branches:
            return self.size
        return sum(node.records for _, node in self.branches)

    def joined(self, other: Node) -> Node:
        """Return this node for the records of an equal one, too."""
        both = zip(self.branches, other.branches, strict=True)
        branches = tuple((test, a.joined(b)) for (test, a), (_, b) in both)
        return replace(self, branches=branches, size=self.size + other.size)

    def frequent(self, least: float) -> Node:
        """Return the node without branches for fewer records, if any are left."""
        kept = [
            (test, node.frequent(least))
            for test, node in self.branches
            if not node.records < least
        ]
        return replace(self, branches=tuple(kept)) if kept else self

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
    # Noisy number of records, and its standard error in a leaf; NaN without any.
    total: float = math.nan
    error: float = math.nan

    def text(self, most_rules: int) -> str:
        """Return the title, and one rule a line."""
        rules = list(islice(self.root.rules(), most_rules + 1))
        lines = [f"{self.title}:", *(f"  {rule}" for rule in rules[:most_rules])]
        return "\n".join([*lines, "  ..."] if len(rules) > most_rules else lines)

    @property
    def least(self) -> float:
        """Number of records from which on a page shows a branch, NaN for all."""
        return max(self.total * LEAST_SHARE, self.error)


def by_values(
    attribute: Attribute, groups: Sequence[tuple[Sequence[int], Node]]
) -> Node:
    """Return the node that looks at an attribute; none where all is the same."""
    nodes: dict[Node, tuple[list[int], Node]] = {}
    for codes, node in groups:
        before, joined = nodes.get(node, ([], None))
        nodes[node] = [*before, *codes], joined.joined(node) if joined else node
    if len(nodes) == 1:
        return next(iter(nodes.values()))[1]
    return Node(
        branches=tuple(
            (values_in_words(attribute, codes), node) for codes, node in nodes.values()
        )
    )


def labelled(
    labels: Iterable[int],
    classes: Sequence[object],
    sizes: Iterable[float] = repeat(math.nan),
) -> list[Node]:
    """Return leaves that stand for classes, of noisy numbers of records if known."""
    names = [printable(label) for label in classes]
    return [Node(names[c], c, size=n) for c, n in zip(labels, sizes, strict=False)]


def vote(scores: Floats, classes: Sequence[object]) -> Node:
    """Return the class that log-odds speak for, and by how much above the mean."""
    best = int(scores.argmax())
    lead = float(scores[best] - scores.mean())
    if lead < LEAST_LEAD:
        return Node(NO_PREFERENCE)
    return Node(f"{printable(classes[best])} +{lead:.1f}", best)


# ---- values, such as ``age 60 to 75`` or ``safety low or med`` ------------------


def any_of(words: Sequence[str]) -> str:
    """Join alternatives: ``a, b or c``."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def values_in_words(attribute: Attribute, codes: Collection[int]) -> str:
    """Return the name of an attribute with some of its values: at least one, not all.

    Numbers as ranges with their unit, whose upper ends belong to them, and both ends
    where they are whole; values with an order from the first to the last; others as a
    list, or as all but a few.

    Examples
    --------
    >>> from mmech_rf import Attribute
    >>> from mmech_rf.show.trees import values_in_words
    >>> age = Attribute.numeric("age", lower=0, upper=100, n_bins=5, unit="years")
    >>> [values_in_words(age, codes) for codes in ([0, 1], [2], [4])]
    ['age up to 40 years', 'age 40 to 60 years', 'age above 80 years']
    >>> margin = Attribute.categorical("margin", ["sharp", "lobed", "spiculated"])
    >>> values_in_words(margin, [2]), values_in_words(margin, [0, 1])
    ('margin spiculated', 'margin sharp or lobed')
    """
    name = printable(attribute.name)
    codes = sorted(codes)
    labels = [printable(label) for label in attribute.labels]
    if attribute.kind != "categorical":
        return f"{name} {any_of([*_ranges(attribute, codes, labels)])}"
    others = [code for code in range(attribute.size) if code not in set(codes)]
    if len(codes) > 2 * len(others):
        return f"{name} not {any_of([labels[code] for code in others])}"
    return f"{name} {any_of([labels[code] for code in codes])}"


def set_in_words(attribute: Attribute, codes: Sequence[int]) -> str:
    """Return the same, with values that have no order as ``margin in {sharp}``."""
    if attribute.kind != "categorical":
        return values_in_words(attribute, codes)
    labels = ", ".join(printable(attribute.labels[code]) for code in codes)
    return f"{printable(attribute.name)} in {{{labels}}}"


def _cut_text(cut: float) -> str:
    """Write a cut; one that ends a number of 32 bits, as in `last_below`, as that."""
    with np.errstate(over="ignore"):
        narrow, above = np.float32(cut), np.float32(np.nextafter(cut, np.inf))
    return number_text(float(str(narrow)) if above > narrow else cut)


def _ranges(
    attribute: Attribute, codes: Sequence[int], labels: Sequence[str]
) -> Iterator[str]:
    """Yield runs of neighbouring cells; the cell of unknown numbers is none of them."""
    cut_points = attribute.cut_points
    cuts = [_cut_text(cut // 1 if attribute.integer else cut) for cut in cut_points]
    other = attribute.other_code if attribute.kind in ("numeric", "date") else None
    unit = f" {printable(attribute.unit)}" if attribute.unit and cuts else ""
    runs = groupby(enumerate(codes), lambda pair: (pair[1] == other, pair[1] - pair[0]))
    for (is_other, _), run in runs:
        neighbours = [code for _, code in run]
        first, last = neighbours[0], neighbours[-1]
        if is_other or attribute.categories or not cuts:
            yield from _named(labels[first : last + 1])
        elif first == 0 and last == len(cuts):
            yield f"any but {labels[-1]}"
        elif first == 0:
            yield f"up to {cuts[last]}{unit}"
        elif last == len(cuts):
            yield f"above {cuts[first - 1]}{unit}"
        elif attribute.integer:
            ends = [cut_points[first - 1] // 1 + 1, cut_points[last] // 1]
            yield " to ".join(map(number_text, sorted(set(ends)))) + unit
        else:
            yield f"{cuts[first - 1]} to {cuts[last]}{unit}"


def _named(labels: Sequence[str]) -> Sequence[str]:
    return labels if len(labels) < 3 else [f"{labels[0]} to {labels[-1]}"]
