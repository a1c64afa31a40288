"""Trees that were drawn with their labels, as files have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmech.storage.archive import position
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.scores import AdditiveScores
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.drawn.views import ScoreView, View
from mmech_rf.schema import Schema
from mmech_rf.storage.contents import Read, Store, whole_numbers

__all__ = ["describe_trees", "read_trees"]

FAMILIES = ("whole", "single", "pair", "sum")

LARGEST = 2**20
"""Numbers in tables stay below this, so that sums of them fit into 32 bits."""

LARGEST_SCORE = 2**40
"""Numbers in tables of scores, of which sums have 64 bits, stay below this."""

CELL_NUMBERS = 2**8
"""Cells are numbered in a byte."""


def describe_trees(experts: SelectedTrees, store: Store) -> dict[str, Any]:
    """Return entries of the description; every view is listed once."""
    views: dict[View | ScoreView, int] = {}

    def number(view: View | ScoreView | None) -> int | None:
        for part in view.parts if isinstance(view, ScoreView) else ():
            views.setdefault(part, len(views))  # before the view that needs it
        return None if view is None else views.setdefault(view, len(views))

    additive = experts.additive
    described = additive and {
        "constant": store(additive.constant),
        "views": [number(view) for view in additive.views],
        "tables": [store(table) for table in additive.tables],
        "accuracy": experts.accuracy,
    }
    trees = [
        {
            "root": number(tree.root),
            "branches": [number(branch) for branch in tree.branches],
            "labels": store(np.concatenate(tree.labels)),
            "scores": store(scores),
        }
        for tree, scores in zip(experts.trees, experts.scores, strict=True)
    ]
    listed = [
        {
            "attributes": list(view.attributes),
            "tables": [list(table) for table in view.tables],
            "cuts": list(view.cuts),
            "size": view.size,
            "family": view.family,
        }
        | (
            {"parts": [views[part] for part in view.parts]}
            if isinstance(view, ScoreView)
            else {}
        )
        for view in views
    ]
    return {"views": listed, "trees": trees, "additive": described}


def read_trees(content: dict[str, Any], read: Read, schema: Schema) -> SelectedTrees:
    """Return the trees of a description; anything that does not fit raises."""
    views: list[View | ScoreView] = []
    for stored in content["views"]:
        if stored["family"] == ScoreView.family:
            views.append(_score_view(stored, views))
        else:
            views.append(_view(stored, schema.domain_shape))
    if not content["trees"]:
        raise ValueError("no tree")
    k = schema.n_classes
    # Files written before there were scores have none.
    additive, accuracy = None, None
    described = content.get("additive")
    if described is not None:
        additive = _additive(described, views, read, k)
        accuracy = described["accuracy"]
        if accuracy is not None and not (type(accuracy) is float and 0 < accuracy < 1):
            raise ValueError("an accuracy that is none")
    trees, scores = [], []
    for stored in content["trees"]:
        tree = _tree(stored, views, read)
        labels = np.concatenate(tree.labels)
        if labels.min() < 0 or labels.max() >= k + (additive is not None):
            raise ValueError("labels that are not classes")
        score = read(stored["scores"], "float64")
        if score.shape != (tree.n_leaves, k):
            raise ValueError("not one row of scores per leaf")
        trees.append(tree)
        scores.append(score)
    return SelectedTrees(tuple(trees), tuple(scores), additive, accuracy)


def _additive(
    stored: dict[str, Any], views: list[View | ScoreView], read: Read, k: int
) -> AdditiveScores:
    parts = _parts(stored["views"], views)
    tables = tuple(read(table, "int64") for table in stored["tables"])
    if [table.shape for table in tables] != [(view.size, k) for view in parts]:
        raise ValueError("not one row of scores per cell")
    constant = read(stored["constant"], "int64")
    if constant.shape != (k,):
        raise ValueError("not one constant per class")
    return AdditiveScores(constant, parts, tables)


def _parts(stored: Any, views: list[View | ScoreView]) -> tuple[View, ...]:
    places = whole_numbers(stored, least=0, most=len(views) - 1)
    parts = tuple(views[place] for place in places)
    if any(isinstance(part, ScoreView) for part in parts):
        raise ValueError("scores of scores")
    return tuple(part for part in parts if isinstance(part, View))


def _score_view(stored: dict[str, Any], views: list[View | ScoreView]) -> ScoreView:
    parts = _parts(stored["parts"], views)
    tables = tuple(
        whole_numbers(table, least=-LARGEST_SCORE, most=LARGEST_SCORE)
        for table in stored["tables"]
    )
    if [len(table) for table in tables] != [part.size for part in parts]:
        raise ValueError("not one number per cell")
    most = LARGEST_SCORE * len(parts)
    cuts = whole_numbers(stored["cuts"], least=-most, most=most)
    view = ScoreView(parts, tables, cuts)
    if (
        list(cuts) != sorted(set(cuts))
        or view.size != stored["size"]
        or view.size > CELL_NUMBERS
        or list(view.attributes) != stored["attributes"]
    ):
        raise ValueError("a view with other cells than it says")
    return view


def _view(stored: dict[str, Any], sizes: tuple[int, ...]) -> View:
    attributes = whole_numbers(stored["attributes"], least=0, most=len(sizes) - 1)
    whole = stored["family"] == "whole"
    if whole == bool(attributes) or list(attributes) != sorted(set(attributes)):
        raise ValueError("attributes out of order")
    tables = tuple(
        whole_numbers(table, least=-LARGEST, most=LARGEST) for table in stored["tables"]
    )
    if [len(table) for table in tables] != [sizes[i] for i in attributes]:
        raise ValueError("not one number per value")
    cuts = whole_numbers(
        stored["cuts"], least=-LARGEST * len(sizes), most=LARGEST * len(sizes)
    )
    (size,) = whole_numbers([stored["size"]], least=1, most=CELL_NUMBERS)
    if stored["family"] not in FAMILIES:
        raise ValueError("an unknown family of views")
    if cuts:
        fits = size == len(cuts) + 1 and list(cuts) == sorted(set(cuts))
    else:
        fits = sum(map(min, tables)) >= 0 and sum(map(max, tables)) < size
    if not fits:
        raise ValueError("a view with other cells than it says")
    return View(attributes, tables, cuts, size, stored["family"])


def _tree(
    stored: dict[str, Any], views: list[View | ScoreView], read: Read
) -> SelectedTree:
    root = views[position(stored["root"])]
    branches = tuple(
        None if branch is None else views[position(branch)]
        for branch in stored["branches"]
    )
    if len(branches) != root.size:
        raise ValueError("not one branch per cell")
    sizes = [1 if branch is None else branch.size for branch in branches]
    labels = read(stored["labels"], "int64")
    if labels.shape != (sum(sizes),):
        raise ValueError("not one label per leaf")
    return SelectedTree(root, branches, tuple(np.split(labels, np.cumsum(sizes)[:-1])))
