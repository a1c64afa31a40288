"""Levels of one attribute: trees of its values, and files of their codes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from mmech.domain.csv_files import read_cells, read_header
from mmech.exceptions import ParameterError, located

Nodes = tuple[Any, ...]
"""The node of a level for every value; or a value after the nodes above it."""


def read_tree(
    name: str, tree: Any, levels: Iterable[str] | None, columns: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the arguments of an attribute: values with levels, or paths of columns.

    Parameters
    ----------
    name : str
        Name of the attribute.
    tree : mapping, sequence of sequences, or path of a csv file
        As in `Attribute.hierarchy`.
    levels : iterable of str, optional
        Names of the levels above the values, topmost first.
    columns : iterable of str, default=()
        Names of the columns of a path, in place of these.
    """
    label, header = f"tree of attribute {name!r}", None
    columns = [columns] if isinstance(columns, str) else list(columns)
    if columns and levels is not None:
        raise ValueError(
            f"columns name the levels of attribute {name!r}, got levels, too; leave "
            "them out"
        )
    if isinstance(tree, (str, os.PathLike)):
        place = f"cannot use the {label} in {os.fspath(tree)!r}"
        header, paths = _read(tree, place, columns)
    else:
        paths = list(_walked(tree, label))
    if not paths:
        raise ValueError(f"the {label} must have at least one value, got none")
    depths = sorted({len(path) for path in paths})
    if len(depths) != 1 or depths[0] < 2 - bool(columns):
        raise ValueError(
            f"the {label} must have all values below equally many levels, at least "
            f"one, got values with {' and '.join(str(d - 1) for d in depths)} "
            "levels above them; give all branches the same levels"
        )
    depth = depths[0] - 1
    if columns:
        return {"categories": _together(paths), "columns": columns}
    names = list(levels or header or (f"{name}_{k + 1}" for k in range(depth)))
    if len(set(names)) != depth or len(names) != depth:
        raise ValueError(
            f"levels of attribute {name!r} must be {depth} names of the levels above "
            f"its values, topmost first and each once, got {names!r:.60}"
        )
    *above, values = zip(*_together(paths), strict=True)
    return {"categories": values, "levels": dict(zip(names, above, strict=True))}


def _together(paths: list[Nodes]) -> list[Nodes]:
    """Return paths, each once: those of a node together, first ones first."""
    for k in range(len(paths[0]) - 1, 0, -1):
        place = {path[:k]: i for i, path in reversed(list(enumerate(paths)))}
        paths.sort(key=lambda path, k=k, place=place: place[path[:k]])  # type: ignore[misc]
    return list(dict.fromkeys(paths))


def _read(
    path: str | os.PathLike[str], place: str, columns: list[str]
) -> tuple[list[str], list[Nodes]]:
    """Return all but the last column of a csv file, and rows of it or of some."""
    with located(place):
        try:
            header = columns or read_header(path)
            return header[:-1], list(map(tuple, read_cells(path, header).tolist()))
        except ParameterError as error:  # how the file is written is no option here
            raise ValueError(error.render(lambda name, value: None)) from None


def _walked(tree: Any, label: str) -> Iterator[Nodes]:
    """Yield the paths of nested mappings."""
    if isinstance(tree, Mapping):
        for node, below in tree.items():
            yield from ((node, *path) for path in _walked(below, label))
    elif isinstance(tree, (str, bytes)) or not isinstance(tree, Iterable):
        raise TypeError(
            f"the {label} must be nested dicts down to lists of values, a list of "
            f"paths, or the name of a csv file, got {tree!r:.40} in it"
        )
    else:
        for value in tree:
            yield tuple(value) if isinstance(value, (list, tuple)) else (value,)


def check_levels(label: str, cells: Nodes, levels: Any) -> dict[str, Nodes]:
    """Return the levels of an attribute, or raise unless they are a tree."""
    found = {level: tuple(nodes) for level, nodes in dict(levels).items()}
    paths: list[Nodes] = [()] * len(cells)
    for level, nodes in found.items():
        if len(nodes) != len(cells):
            raise ValueError(
                f"level {level!r} of {label} must hold a node for each of its "
                f"{len(cells)} categories, got {len(nodes)}"
            )
        paths = [(*path, node) for path, node in zip(paths, nodes, strict=True)]
        seen = set()
        for path, _ in groupby(paths):
            if path[-1] in seen:
                raise ValueError(
                    f"levels of {label} must be a tree, but {path[-1]!r} of level "
                    f"{level!r} has two places in it; give one of them another name"
                )
            seen.add(path[-1])
    return found
