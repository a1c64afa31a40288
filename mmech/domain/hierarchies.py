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
    name: str, tree: Any, levels: Iterable[str] | None
) -> tuple[Nodes, dict[str, Nodes]]:
    """Return values, and by level the node of each of them.

    Parameters
    ----------
    name : str
        Name of the attribute.
    tree : mapping, or path of a csv file
        As in `Attribute.hierarchy`.
    levels : iterable of str, optional
        Names of the levels above the values, topmost first.
    """
    label, header = f"tree of attribute {name!r}", None
    if isinstance(tree, (str, os.PathLike)):
        header, paths = _read(tree, f"cannot use the {label} in {os.fspath(tree)!r}")
    else:
        paths = list(_walked(tree, label))
    if not paths:
        raise ValueError(f"the {label} must have at least one value, got none")
    depths = sorted({len(path) for path in paths})
    if len(depths) != 1 or depths[0] < 2:
        raise ValueError(
            f"the {label} must have all values below equally many levels, at least "
            f"one, got values with {' and '.join(str(d - 1) for d in depths)} "
            "levels above them; give all branches the same levels"
        )
    depth = depths[0] - 1
    names = list(levels or header or (f"{name}_{k + 1}" for k in range(depth)))
    if len(set(names)) != depth or len(names) != depth:
        raise ValueError(
            f"levels of attribute {name!r} must be {depth} names of the levels above "
            f"its values, topmost first and each once, got {names!r:.60}"
        )
    for k in range(depth, 0, -1):  # values of a node together, first ones first
        place = {path[:k]: i for i, path in reversed(list(enumerate(paths)))}
        paths.sort(key=lambda path, k=k, place=place: place[path[:k]])  # type: ignore[misc]
    *above, values = zip(*dict.fromkeys(paths), strict=True)
    return values, dict(zip(names, above, strict=True))


def _read(path: str | os.PathLike[str], place: str) -> tuple[list[str], list[Nodes]]:
    """Return the header of a csv file without its last column, and all rows."""
    with located(place):
        try:
            header = read_header(path)
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
            f"the {label} must be nested dicts down to lists of values, or the path of "
            f"a csv file, got {tree!r:.40} in it"
        )
    else:
        yield from ((value,) for value in tree)


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
