"""What is too large for a method is refused before any work, with what does fit."""

from __future__ import annotations

import math
from collections.abc import Callable

from mmech import DomainTooLargeError, ParameterError
from mmech.checks import magnitude
from mmech_rf.forest.complete import complete_size
from mmech_rf.forest.growth import mean_leaves
from mmech_rf.limits import LIMITS
from mmech_rf.schema import Schema

OTHERWISE = "use {PrivateForestClassifier}, which is for any number of attributes"


class TableTooLargeError(ParameterError, DomainTooLargeError):
    """The table of counts of a method is too large to be held, or to optimize for."""


def check_leaves(schema: Schema, n_trees: float, depth: int, splits: str) -> None:
    """Raise unless the counts of all leaves fit in memory; name a depth that fits."""
    k = schema.n_classes
    sizes = schema.domain_shape

    def fits(levels: int) -> bool:
        if n_trees == math.inf:
            trees, leaves = complete_size(sizes, levels)
            return trees > 0 and leaves * k <= LIMITS.count_entries
        return int(n_trees) * mean_leaves(schema, levels, splits) * k <= (
            LIMITS.count_entries
        )

    if fits(depth):
        return
    if fits(0):
        remedy = f"use {{depth={_largest(fits, depth) - 1}}}"
    else:
        remedy = f"use {{n_trees={LIMITS.count_entries // k}}}"
    trees = "all trees" if n_trees == math.inf else f"{int(n_trees)} trees"
    raise TableTooLargeError(
        "schema",
        f"{trees} of depth {depth} over the {schema.n_features} attributes of the "
        f"{{schema}} have more leaves than this method counts (at most "
        f"{LIMITS.count_entries:,} leaves times classes)",
        remedy=(remedy, OTHERWISE),
    )


def check_cells(schema: Schema, n_trees: float, *, most: int, remedy: str = "") -> None:
    """Raise unless the table of all cells fits in memory and is quickly optimized for.

    `n_trees` counts trees that partition the cells, and at most `most` cells times
    trees fit. The error names a number of attributes, or of trees, that does, unless
    it is given a remedy.
    """
    k = schema.n_classes
    cells = math.prod(schema.domain_shape)
    if cells * k <= LIMITS.count_entries and cells * n_trees <= most:
        return
    largest = sorted(schema.domain_shape, reverse=True)

    def fits(features: int) -> bool:
        size = math.prod(largest[:features])
        return size * k <= LIMITS.count_entries and size * n_trees <= most

    if remedy:
        pass
    elif cells * k <= LIMITS.count_entries:
        remedy = f"use {{n_trees={most // cells}}}"
    elif fits(1):
        remedy = f"use {{max_features={_largest(fits, len(largest)) - 1}}}"
    else:
        remedy = "use fewer bins"
    raise TableTooLargeError(
        "schema",
        f"the domain of the {{schema}} has {magnitude(cells)} cells, too many for this "
        f"method with {n_trees:g} trees and {k} classes (at most "
        f"{LIMITS.count_entries:,} cells times classes, and {most:,} cells times "
        "trees)",
        remedy=(remedy, OTHERWISE),
    )


def _largest(fits: Callable[[int], bool], stop: int) -> int:
    """Return the first number from 1 on that does not fit, at most `stop`."""
    number = 1
    while number < stop and fits(number):
        number += 1
    return number
