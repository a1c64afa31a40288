"""Levels of one attribute: trees of its values, and files of their codes."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["check_levels", "read_tree"]

Path = tuple[Any, ...]
"""A value, after the nodes of all levels above it, topmost first."""


def read_tree(
    name: str, tree: Any, levels: Iterable[str] | None
) -> tuple[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """Return values, and by level what holds each of them.

    Parameters
    ----------
    name : str
        Name of the attribute.
    tree : mapping, or path of a csv file
        Nested names down to lists of values; or a file with a header, whose rows hold a
        value in the last column and what holds it before, topmost first.
    levels : iterable of str, optional
        Names of the levels above the values, topmost first; by default those in the
        header, or ``name_1``, ``name_2`` and so on.
    """
    label = f"tree of attribute {name!r}"
    header: list[str] = []
    if isinstance(tree, Mapping):
        paths = list(_walked(tree, label))
    elif isinstance(tree, (str, os.PathLike)):
        header, paths = _rows(tree, label)
    else:
        raise TypeError(
            f"the {label} must be nested dicts down to lists of values, or the path of "
            f"a csv file, got {type(tree).__name__}"
        )
    depths = {len(path) for path in paths}
    if len(depths) > 1 or not paths or depths == {1}:
        found = " and ".join(map(str, sorted(depths))) or "0"
        raise ValueError(
            f"the {label} must have all values below equally many levels, at least "
            f"one, got paths of length {found}; give shorter branches a level more"
        )
    depth = depths.pop() - 1
    names = list(levels or header or (f"{name}_{k + 1}" for k in range(depth)))
    if len(names) != depth:
        raise ValueError(
            f"levels of attribute {name!r} must name the {depth} levels above its "
            f"values, topmost first, got {len(names)} names"
        )
    # Values below one node stand together, in the order in which nodes occur first.
    for level in reversed(range(depth)):
        order: dict[Any, int] = {}
        for path in paths:
            order.setdefault(path[: level + 1], len(order))
        paths.sort(key=lambda path: order[path[: level + 1]])
    *above, values = zip(*paths, strict=True)
    return values, dict(zip(names, above, strict=True))


def _walked(tree: Any, label: str) -> Iterator[Path]:
    """Yield the paths of nested mappings."""
    if isinstance(tree, Mapping):
        for node, below in tree.items():
            yield from ((node, *path) for path in _walked(below, label))
        return
    if isinstance(tree, (str, bytes)) or not isinstance(tree, Iterable):
        raise TypeError(
            f"the {label} must end in lists of values, got {tree!r:.40}; write a list"
        )
    yield from ((value,) for value in tree)


def _rows(path: str | os.PathLike[str], label: str) -> tuple[list[str], list[Path]]:
    """Return the header of a csv file without its last column, and its rows."""
    with open(path, encoding="utf-8-sig", newline="") as stream:
        header, *rows = list(csv.reader(stream)) or [[]]
    for number, row in enumerate(rows, 2):
        if len(row) != len(header) or "" in row:
            raise ValueError(
                f"line {number} of the {label} must hold {len(header)} codes, as the "
                "header does, and none of them empty; correct the file"
            )
    return header[:-1], [tuple(row) for row in dict.fromkeys(map(tuple, rows))]


def check_levels(
    label: str, cells: tuple[Any, ...], levels: Any
) -> dict[str, tuple[Any, ...]]:
    """Return the levels of an attribute, or raise unless they are a tree."""
    if not isinstance(levels, Mapping) or not levels:
        raise TypeError(
            f"levels of {label} must map names of levels to nodes, one per category, "
            f"got {levels!r:.40}; use Attribute.hierarchy"
        )
    found: dict[str, tuple[Any, ...]] = {}
    above: tuple[Any, ...] = ("",) * len(cells)
    for level, nodes in levels.items():
        found[level] = tuple(nodes)
        if len(found[level]) != len(cells):
            raise ValueError(
                f"level {level!r} of {label} must hold {len(cells)} nodes, one per "
                f"category, got {len(found[level])}"
            )
        parents: dict[Any, Any] = {}
        last: Any = None
        for node, parent in zip(found[level], above, strict=True):
            if parents.setdefault(node, parent) != parent:
                raise ValueError(
                    f"levels of {label} must be a tree, but {node!r} of level "
                    f"{level!r} lies below both {parents[node]!r} and {parent!r}; "
                    "give the two names of their own"
                )
        seen = set()
        for node in found[level]:
            if node != last and node in seen:
                raise ValueError(
                    f"categories of {label} must stand together where they share a "
                    f"node, but those of {node!r} do not; sort them"
                )
            seen.add(node)
            last = node
        above = found[level]
    return found
