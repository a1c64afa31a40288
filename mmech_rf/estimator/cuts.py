"""Private bins: numeric attributes are cut where their records are, paid from epsilon.

Records are first encoded by a fine public grid between the bounds of the attribute.
From the counts of its cells cut points are drawn together (`mmech.quantiles`), and
cells become bins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from mmech import Attribute, ParameterError
from mmech.checks import nearest
from mmech.domain.discretise import fine_grid
from mmech.selection import epsilon_of_draw
from mmech.session import Session
from mmech_rf.estimator.records import EncodedRecords
from mmech_rf.schema import Schema

# Provenance: as `mmech_rf.DrawnSettings`.

GRID_CELLS = 1024
"""Bin resolution: cells of the public grid that private bins are made of."""

BIN_SIGNAL = 1.5
"""Bin resolution: records times epsilon of a draw that so many bins need, relative to
the logarithm of the number of ways to cut."""


def places_to_cut(schema: Schema, names: Sequence[str] | str) -> list[int]:
    """Return the places of the attributes that get private bins, or raise.

    ``"all"`` stands for all numeric attributes with bounds.
    """
    bounded = {
        a.name: place
        for place, a in enumerate(schema.attributes)
        if a.kind == "numeric" and a.lower is not None
    }
    if isinstance(names, str) and names == "all":
        return list(bounded.values())
    if not (
        isinstance(names, Iterable)
        and not isinstance(names, str)
        and all(isinstance(name, str) for name in names)
    ):
        raise TypeError(
            "private_bins must be a sequence of names of attributes, or 'all', got "
            f"{names!r}; pass a tuple"
        )
    for name in names:
        if name not in schema.names:
            known = ", ".join(bounded) or "none has bounds"
            raise ParameterError(
                "private_bins",
                "must name attributes of the schema",
                repr(name),
                nearest(name, bounded, f"choose from those with bounds: {known}"),
            )
        if name not in bounded:
            raise ParameterError(
                "private_bins",
                "must name numeric attributes with public bounds",
                name,
                ("give the attribute lower and upper", "leave it out"),
            )
    return sorted({bounded[name] for name in names})


def fine_schema(schema: Schema, places: Sequence[int]) -> Schema:
    """Return a schema with fine public grids in place of the bins of attributes."""
    attributes = list(schema.attributes)
    for place in places:
        own = attributes[place]
        assert own.lower is not None
        assert own.upper is not None
        grid = fine_grid(own.lower, own.upper, GRID_CELLS)
        attributes[place] = _with_cuts(own, grid)
    return replace(schema, attributes=tuple(attributes))


def number_of_bins(n_records: float, epsilon: Fraction, most: int) -> int:
    """Return the largest power of two that a draw with this epsilon pays for.

    Let E be the logarithm of the number of ways to cut, divided by epsilon. The bins of
    the drawn cut hold about E records too many. Bins are doubled while E is at most 1 /
    BIN_SIGNAL of all records.
    """
    bins = 2
    while 2 * bins <= most:
        ways = math.lgamma(GRID_CELLS) - math.lgamma(2 * bins)
        ways -= math.lgamma(GRID_CELLS - 2 * bins + 1)
        if n_records * float(epsilon) < BIN_SIGNAL * ways:
            break
        bins *= 2
    return bins


def release_bins(
    session: Session,
    schema: Schema,
    records: EncodedRecords,
    places: Sequence[int],
    cost: Fraction,
    *,
    n_records: float,
    most_bins: int,
) -> tuple[Schema, EncodedRecords]:
    """Release the cut points of attributes, each for a cost.

    Records come in cells of fine grids (`fine_schema`), and are returned in the bins of
    the new schema.
    """
    attributes = list(schema.attributes)
    epsilon = epsilon_of_draw(cost, session.currency)
    n_bins = number_of_bins(n_records, epsilon, most_bins)
    for place in places:
        fine = attributes[place]
        grid = np.array(fine.cut_points)
        counts = np.bincount(
            records.codes[:, place], records.multiplicities, minlength=fine.size
        ).astype(np.int64)[: len(grid) + 1]
        what = f"cut points of attribute {fine.name!r}"
        cuts = session.cut(counts, n_bins, n_records, cost, what)
        attributes[place] = _with_cuts(fine, grid[cuts - 1].tolist())
    bins = replace(schema, attributes=tuple(attributes))
    return bins, in_bins(records, schema, bins)


def in_bins(records: EncodedRecords, fine: Schema, schema: Schema) -> EncodedRecords:
    """Return records that were encoded by fine grids in the bins of a schema."""
    codes = records.codes.copy()
    for place, (before, after) in enumerate(
        zip(fine.attributes, schema.attributes, strict=True)
    ):
        if before.cut_points == after.cut_points:
            continue
        cuts = np.searchsorted(before.cut_points, after.cut_points) + 1
        bins = np.searchsorted(cuts, np.arange(before.size), side="right")
        if before.other is not None:
            bins[-1] = len(cuts) + 1
        codes[:, place] = bins[codes[:, place]]
    return replace(records, codes=codes)


def _with_cuts(own: Attribute, cuts: Sequence[Any]) -> Attribute:
    """Return an attribute with other cut points; names of its bins do not fit them."""
    return replace(own, cut_points=tuple(cuts), n_bins=None, categories=())
