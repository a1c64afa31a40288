"""Known totals and rules of impossible cells as they are given, made arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np

from mmech.arrays import Integers, Mask, Subset
from mmech.checks import check_choice, plain_array
from mmech.domain.attribute import BELOW, Attribute
from mmech.domain.domain import Domain
from mmech.domain.frames import read_table
from mmech.exceptions import ParameterError
from mmech.operators.base import product_of

LARGEST = 2**53
"""Known counts are at most this, so that floats hold them."""


def _positions(domain: Domain, names: tuple[str, ...]) -> list[int]:
    for name in names:
        check_choice(name, "an attribute of what is known", domain.names)
    if len({*names}) < len(names):
        raise ParameterError("known", "must name attributes of a table once", names)
    return [domain.names.index(name) for name in names]


def _in_order(positions: Sequence[int], table: Any) -> tuple[Subset, Any]:
    """Return positions of attributes, sorted, and the table with axes in that order."""
    return tuple(sorted(positions)), table.transpose(np.argsort(positions)).copy()


def known_table(domain: Domain, names: Any, value: Any) -> tuple[Subset, Integers]:
    """Return the attributes of a known table, and its counts."""
    names = (names,) if isinstance(names, str) else tuple(names)
    title = f"the known table of {' x '.join(names) or 'the total'}"
    owners = [attribute for attribute in domain.attributes if attribute.name in names]
    # A value of the last column tells what is in the columns above it.
    above = {column for attribute in owners for column in attribute.columns[:-1]}
    names = tuple(name for name in names if name not in above)
    positions = _positions(domain, names)
    sizes = [domain.shape[i] for i in positions]
    if isinstance(value, Mapping) or hasattr(value, "columns"):
        table = read_table(value)
        attributes = [domain.attributes[i] for i in positions]
        wanted = [column for a in attributes for column in a._cells_by_column]
        places, (counts_at,) = table.locate(wanted, "known table", ("count",))
        columns = map(table.column, places)
        codes = [
            _codes(a, _labels(islice(columns, len(a.columns) or 1)), title)
            for a in attributes
        ]
        cells = np.ravel_multi_index(codes, sizes)
        distinct = len(np.unique(cells))
        if not distinct == len(cells) == product_of(sizes):
            raise ValueError(
                f"{title} must have one row for each of {product_of(sizes)} "
                f"combinations of values, got {len(cells)} rows for {distinct}; add "
                "those that are missing, and merge repeated ones"
            )
        given = table.column(counts_at)[np.argsort(cells)]
    else:
        given = plain_array(value, title)
    try:
        counts = given.astype(np.float64)
        valid = given.size == product_of(sizes) and 0 <= counts.sum() <= LARGEST
        valid = valid and bool(((counts >= 0) & (counts % 1 == 0)).all())
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"{title} must be {product_of(sizes)} whole numbers >= 0, got "
            f"{given.tolist()!r:.60}"
        )
    return _in_order(positions, counts.astype(np.int64).reshape(sizes))


def impossible_cells(domain: Domain, rule: Any, title: str) -> tuple[Subset, Mask]:
    """Return the attributes of a rule, and which of their cells are impossible."""
    if not isinstance(rule, Mapping) or not rule:
        raise TypeError(
            f"{title} must map attributes to values, such as {{'sex': 'f'}}, got "
            f"{rule!r:.60}"
        )
    positions = _positions(domain, tuple(rule))
    masks = []
    for i, values in zip(positions, rule.values(), strict=True):
        attribute = domain.attributes[i]
        several = values if isinstance(values, list | tuple) else [values]
        if not several:
            raise ValueError(
                f"{title} must name a cell of {attribute.name!r}, got an empty list"
            )
        masks.append(
            np.isin(np.arange(attribute.size), _codes(attribute, several, title))
        )
    return _in_order(positions, reduce(np.logical_and.outer, masks))


def _labels(columns: Iterable[Iterable[Any]]) -> list[str]:
    """Return the label of every row: its cells in some columns, put together."""
    return [BELOW.join(map(str, cells)) for cells in zip(*columns, strict=True)]


def _codes(attribute: Attribute, values: Iterable[Any], title: str) -> Integers:
    """Return the cells that values name."""
    labels = [str(label) for label in attribute.labels]
    texts = [str(value) for value in values]
    for text in texts:
        check_choice(text, f"a value of {attribute.name!r} in {title}", labels)
    return np.array([labels.index(text) for text in texts], np.int64)
