"""The forest of all multiway trees of a depth, from the domain alone.

No record is ever looked at, so it is public and costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mmech.checks import check_integer
from mmech.exceptions import DomainTooLargeError
from mmech.storage.codec import storable
from mmech_rf.forest.checks import Domain, check_shape, in_words
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.levels import Level, children_of, lay_out
from mmech_rf.limits import LIMITS


@storable("CompleteForest")
class CompleteForest(Forest):
    """The forest of `complete_forest`, which is where its trees are described.

    Attributes
    ----------
    subsets : tuple of tuples of int
        Attributes that each tree tests, in order; its leaves are the cells of the
        marginal over them.
    """

    subsets: tuple[tuple[int, ...], ...]

    def __init__(self, domain_shape: tuple[int, ...], depth: int) -> None:
        sizes = np.array(domain_shape, np.int64)
        splittable = np.flatnonzero(sizes > 1)
        subsets = np.array(list(combinations(splittable.tolist(), depth)), np.int64)
        tree, levels = np.arange(len(subsets)), []
        for tested in (*subsets.T, np.full(len(subsets), -1)):
            levels.append(Level(tree, tested[tree], np.full(tree.size, -1)))
            tree = np.repeat(tree, children_of(levels[-1], sizes))
        arrays = lay_out(levels, sizes) | {"value": None}
        object.__setattr__(self, "subsets", tuple(map(tuple, subsets.tolist())))
        super().__init__(domain_shape, **arrays)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompleteForest, (self.domain_shape, self.depth)

    @classmethod
    def _restored(cls, domain_shape: tuple[int, ...], depth: int) -> CompleteForest:
        """Return the forest of a file, unless it is too large."""
        return complete_forest(domain_shape, depth)


def complete_forest(schema_or_domain_shape: Domain, depth: int) -> CompleteForest:
    """Return one tree per subset of `depth` attributes: the infinite multiway forest.

    Along the path of any record, the attributes that a random multiway tree tests are
    a uniformly drawn subset. So with more trees their mean vote tends to the mean over
    all subsets of h attributes. A forest of random trees estimates this mean. The C(d,
    h) trees of this forest compute it: their leaves are all h-way marginals of the
    data.

    Parameters
    ----------
    schema_or_domain_shape : Schema or sequence of int
        A schema, or the sizes of the attributes.
    depth : int
        Number of tests on a path; at most the number of attributes with more than one
        value, or all of them are tested.

    Returns
    -------
    forest : CompleteForest
        A `Forest` whose tree t tests the attributes ``subsets[t]`` in order; subsets
        are in lexicographic order. Leaves are numbered like the cells of marginals:
        `training_workload` returns ``all_marginals(domain_shape, depth)`` with the
        same rows (without the marginals over attributes of one value).

    Raises
    ------
    DomainTooLargeError
        If the forest would have more than 100,000 trees or 2**24 leaves.

    See Also
    --------
    grow_random_forest : Some of these trees, in random orders.

    Examples
    --------
    >>> from mmech_rf import complete_forest
    >>> forest = complete_forest((2, 3, 4), depth=2)
    >>> forest
    Forest(n_trees=3, depth=2, n_leaves=26, n_cells=24)
    >>> forest.subsets
    ((0, 1), (0, 2), (1, 2))
    """
    shape = check_shape(schema_or_domain_shape)
    sizes = [size for size in shape if size > 1]
    depth = min(check_integer(depth, "depth", minimum=0), len(sizes))
    n_trees, n_leaves = math.comb(len(sizes), depth), _elementary(sizes, depth)
    for count, what, limit in (
        (n_trees, "trees", LIMITS.complete_trees),
        (n_leaves, "leaves", LIMITS.complete_leaves),
    ):
        if count > limit:
            raise DomainTooLargeError(
                f"the complete forest of depth {depth} over {len(sizes)} attributes "
                f"has {in_words(count)} {what}, more than the limit of {limit:,}; use "
                "a finite number of trees, a smaller depth, or fewer attributes per "
                "ensemble (max_features=)"
            )
    return CompleteForest(shape, depth)


def complete_size(domain_shape: Sequence[int], depth: int) -> tuple[int, int]:
    """Return the trees and leaves of a complete forest, zero where it is too large."""
    sizes = [size for size in domain_shape if size > 1]
    h = min(depth, len(sizes))
    trees, leaves = math.comb(len(sizes), h), _elementary(sizes, h)
    fits = trees <= LIMITS.complete_trees and leaves <= LIMITS.complete_leaves
    return (trees, leaves) if fits else (0, 0)


def _elementary(sizes: Sequence[int], order: int) -> int:
    """Return the sum over subsets of `order` sizes of their product."""
    return elementary_sums(sizes, order)[order]


def elementary_sums(sizes: Sequence[int], order: int) -> list[int]:
    """Return these sums for subsets of 0 up to `order` sizes."""
    sums = [1] + [0] * order
    for size in sizes:
        for k in range(order, 0, -1):
            sums[k] += size * sums[k - 1]
    return sums
