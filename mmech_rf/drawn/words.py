"""Drawn trees in the words of a schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from itertools import groupby, islice
from typing import TypeAlias

import numpy as np

from mmech.terminal import printable
from mmech_rf.arrays import Floats
from mmech_rf.drawn.draw import SelectedTree, size_of
from mmech_rf.drawn.scores import VOTE_STEPS, AdditiveScores
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.drawn.views import GRID, ScoreView, View
from mmech_rf.schema import Schema
from mmech_rf.show.trees import (
    NO_PREFERENCE,
    VOTES,
    Node,
    ShownTree,
    by_values,
    vote,
)

SUMS_OF_POSITIONS = (
    "In a sum, for instance a - b, each value counts by its place in the order of its "
    "attribute: from -1 for the first value to 1 for the last."
)


SCORES = (
    "The score of a class is the sum of what the tables called 'score of' say about "
    "the record. A leaf may leave the decision to the class with the highest score."
)

SCORES_VOTE = "Scores of attributes, times {:g}, are added for every record."

HIGHEST_SCORE = "the class with the highest score"
"""A leaf that leaves the decision to the scores, which have tables of their own."""


def drawn_trees(experts: SelectedTrees, schema: Schema) -> Iterator[ShownTree]:
    """Yield the trees in words, and the scores that they speak of, if there are some.

    A leaf of a single tree is a class. Leaves of several trees, and of one beside
    scores that vote, say which class they speak for, and by how much log-odds.
    """
    words = _Words(schema, experts.additive)
    several = len(experts.trees) > 1
    votes = several or experts.score_weight > 0
    for number, (tree, scores) in enumerate(
        zip(experts.trees, experts.scores, strict=True), 1
    ):
        title = f"tree {number}" if several else "tree"
        voting = scores if votes else None
        if number > len(experts.counts):
            yield ShownTree(title, words.tree(tree, voting))
            continue
        counts, error = experts.counts[number - 1], experts.count_errors[number - 1]
        sizes = counts.sum(axis=1)[: tree.n_leaves]
        if experts.answers is not None:  # records of these leaves are counted together
            sizes[np.concatenate(tree.labels) == schema.n_classes] = np.nan
        root = words.tree(tree, voting, sizes)
        error *= math.sqrt(schema.n_classes)
        yield ShownTree(title, root, float(counts.sum()), error)
    if experts.additive is not None:
        yield from words.scores(experts.additive)


def notes_on(experts: SelectedTrees, schema: Schema) -> list[str]:
    """Return what explains the views of trees."""
    views = [view for tree in experts.trees for view in tree.views]
    summed = {i for view in views if view.family == "sum" for i in view.attributes}
    weight = experts.score_weight
    notes = [SUMS_OF_POSITIONS] * bool(summed)
    for attribute in (schema.attributes[i] for i in sorted(summed)):
        if attribute.kind == "categorical":
            name, *order = map(printable, (attribute.name, *attribute.labels))
            notes.append(f"In a sum {name} has the order: {', '.join(order)}.")
    notes += [SCORES] * (experts.additive is not None)
    notes += [VOTES] * (len(experts.trees) > 1 or weight > 0)
    return notes + [SCORES_VOTE.format(weight)] * (weight > 0)


Known: TypeAlias = Mapping[int, Sequence[int]]
"""Values that attributes may still have, by position, after the tests so far."""

Below: TypeAlias = Callable[[Known], Node]
"""What a node is for those records: branches that none can take are left out."""


def always(node: Node) -> Below:
    """Return what is the same node for all records."""
    return lambda known: node


class _Words:
    """Words of a schema, and of the scores that views may look at."""

    def __init__(self, schema: Schema, additive: AdditiveScores | None) -> None:
        self.schema = schema
        self.additive = additive
        self.classes = [printable(label) for label in schema.class_labels]

    def tree(
        self, tree: SelectedTree, scores: Floats | None, sizes: Floats | None = None
    ) -> Node:
        labels = np.concatenate(tree.labels)
        every = np.full(labels.size, np.nan) if sizes is None else sizes
        leaves = (
            replace(
                self.leaf(int(label), None if scores is None else scores[i]), size=n
            )
            for i, (label, n) in enumerate(zip(labels, every.tolist(), strict=True))
        )
        nodes: list[Below] = []
        for branch in tree.branches:
            ends = [always(leaf) for leaf in islice(leaves, size_of(branch))]
            below = ends[0] if branch is None else partial(self.split, branch, ends)
            nodes.append(below)
        return self.split(tree.root, nodes, {})

    def leaf(self, label: int, scores: Floats | None) -> Node:
        if label == len(self.classes):
            return Node(HIGHEST_SCORE)
        if scores is None:
            return Node(self.classes[label], label)
        return vote(scores, self.schema.class_labels)

    def split(
        self, view: View | ScoreView, nodes: Sequence[Below], known: Known
    ) -> Node:
        if not view.cuts:
            assert isinstance(view, View)
            return self.values(view, nodes, known)
        if isinstance(view, View):
            signs = ["-" if table[-1] < 0 else "+" for table in view.tables]
            names = [printable(self.schema.attributes[i].name) for i in view.attributes]
            parts = [f" {s} {name}" for s, name in zip(signs, names, strict=True)]
            what, unit = "".join(parts).removeprefix(" + ").strip(), GRID
        else:
            what, unit = self.score_of(view)
        cuts = [(cut - 1) / unit for cut in view.cuts]
        return ranges(what, cuts, [node(known) for node in nodes])

    def values(self, view: View, nodes: Sequence[Below], known: Known) -> Node:
        """Return the node of a view that looks at values one attribute at a time."""

        def below(place: int, total: int, known: Known) -> Node:
            if place == len(view.attributes):
                return nodes[total](known)
            i = view.attributes[place]
            groups: dict[int, list[int]] = {}
            for code, number in enumerate(view.tables[place]):
                if i not in known or code in known[i]:
                    groups.setdefault(number, []).append(code)
            return by_values(
                self.schema.attributes[i],
                [
                    (codes, below(place + 1, total + number, {**known, i: codes}))
                    for number, codes in groups.items()
                ],
            )

        return below(0, 0, known)

    def score_of(self, view: ScoreView) -> tuple[str, int]:
        """Return what a score speaks for, and its unit."""
        k = len(self.classes)
        tables = [] if self.additive is None else self.additive.tables
        for c, name in enumerate(self.classes):
            sums = tuple(
                tuple((k * table[:, c] - table.sum(axis=1)).tolist())
                for table in tables
            )
            if sums == view.tables:
                return f"score of {name}", k * VOTE_STEPS
        return "score", VOTE_STEPS

    def scores(self, additive: AdditiveScores) -> Iterator[ShownTree]:
        """Yield a table for each attribute that matters, and one for the others."""
        silent = []
        for view, table in zip(additive.views, additive.tables, strict=True):
            nodes = [
                always(vote(row / VOTE_STEPS, self.schema.class_labels))
                for row in table
            ]
            names = [self.schema.attributes[i].name for i in view.attributes]
            name = " and ".join(map(printable, names))
            root = self.split(view, nodes, {})
            if root != Node(NO_PREFERENCE):
                yield ShownTree(f"score of {name}", root)
            else:
                silent.append(name)
        if silent:
            yield ShownTree(f"score of {', '.join(silent)}", Node(NO_PREFERENCE))


def ranges(what: str, cuts: Sequence[float], nodes: Sequence[Node]) -> Node:
    """Return the node of a sum; neighbours with equal nodes are one.

    Cuts are the largest sums of all cells but the last.
    """
    branches = []
    for _, run in groupby(enumerate(nodes), lambda pair: pair[1]):
        cells, nodes_of = zip(*run, strict=True)
        first, last = cells[0], cells[-1]
        if last == len(cuts):
            test = f"{what} above {cuts[first - 1]:.2g}"
        elif first == 0:
            test = f"{what} up to {cuts[last]:.2g}"
        else:
            test = f"{what} {cuts[first - 1]:.2g} to {cuts[last]:.2g}"
        branches.append((test, reduce(Node.joined, nodes_of)))
    return branches[0][1] if len(branches) == 1 else Node(branches=tuple(branches))
