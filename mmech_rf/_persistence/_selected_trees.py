"""Trees that were drawn with their labels, as files have them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmech._archive import position
from mmech_rf._persistence._contents import Read, Store, whole_numbers
from mmech_rf.classifiers._selected_trees import SelectedTrees
from mmech_rf.schema import Schema
from mmech_rf.tree_selection import SelectedTree
from mmech_rf.views import View

__all__ = ["describe_trees", "read_trees"]

FAMILIES = ("whole", "single", "pair", "sum")

LARGEST = 2**20
"""Numbers in tables stay below this, so that sums of them fit into 32 bits."""

MOST_CELLS = 2**8
"""Cells are numbered in a byte."""


def describe_trees(experts: SelectedTrees, store: Store) -> dict[str, Any]:
    """Return entries of the description; every view is listed once."""
    views: dict[View, int] = {}

    def number(view: View | None) -> int | None:
        return None if view is None else views.setdefault(view, len(views))

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
        for view in views
    ]
    return {"views": listed, "trees": trees}


def read_trees(content: dict[str, Any], read: Read, schema: Schema) -> SelectedTrees:
    """Return the trees of a description; anything that does not fit raises."""
    views = [_view(stored, schema.domain_shape) for stored in content["views"]]
    if not content["trees"]:
        raise ValueError("no tree")
    trees, scores = [], []
    for stored in content["trees"]:
        tree = _tree(stored, views, read)
        labels = np.concatenate(tree.labels)
        if labels.min() < 0 or labels.max() >= schema.n_classes:
            raise ValueError("labels that are not classes")
        score = read(stored["scores"], "float64")
        if score.shape != (tree.n_leaves, schema.n_classes):
            raise ValueError("not one row of scores per leaf")
        trees.append(tree)
        scores.append(score)
    return SelectedTrees(tuple(trees), tuple(scores))


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
    (size,) = whole_numbers([stored["size"]], least=1, most=MOST_CELLS)
    if stored["family"] not in FAMILIES:
        raise ValueError("an unknown family of views")
    if cuts:
        fits = size == len(cuts) + 1 and list(cuts) == sorted(set(cuts))
    else:
        fits = sum(map(min, tables)) >= 0 and sum(map(max, tables)) < size
    if not fits:
        raise ValueError("a view with other cells than it says")
    return View(attributes, tables, cuts, size, stored["family"])


def _tree(stored: dict[str, Any], views: list[View], read: Read) -> SelectedTree:
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
