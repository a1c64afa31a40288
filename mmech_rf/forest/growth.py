"""Growing forests from the domain alone: random ones, and all trees of a depth.

No record is ever looked at, so a forest is public and costs no privacy. What is too
large for a method is refused before any work, with what does fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import DomainTooLargeError, ParameterError
from mmech.checks import check_choice, check_integer, magnitude
from mmech.storage.codec import storable
from mmech_rf.arrays import Flags, Integers
from mmech_rf.forest.checks import Domain, check_shape, frozen, in_words
from mmech_rf.forest.forest import Forest
from mmech_rf.limits import LIMITS
from mmech_rf.methods import SPLITS
from mmech_rf.schema import Attribute, Schema


@dataclass(frozen=True, eq=False)
class Level:
    """Nodes of one level, ordered by tree; tests are -1 at leaves."""

    tree: Integers
    attribute: Integers  # test of every node
    value: Integers  # that it compares with; -1 for a child per value


def children_of(level: Level, sizes: Integers) -> Integers:
    """Return how many children every node has."""
    n_children = np.where(level.value < 0, sizes[level.attribute], 2)
    return np.where(level.attribute < 0, 0, n_children)


def lay_out(levels: Sequence[Level], sizes: Integers) -> dict[str, Any]:
    """Return the arrays of a forest of these levels, with its nodes depth first."""
    n_children = [children_of(one, sizes) for one in levels]
    # Nodes and leaves below every node, itself not counted among the nodes.
    below = [np.zeros(one.tree.size, np.int64) for one in levels]
    leaves = [(n == 0).astype(np.int64) for n in n_children]
    for i in range(len(levels) - 2, -1, -1):
        parent = np.repeat(np.arange(levels[i].tree.size), n_children[i])
        np.add.at(below[i], parent, 1 + below[i + 1])
        np.add.at(leaves[i], parent, leaves[i + 1])
    node_offsets = np.concatenate([[0], np.cumsum(1 + below[0])])
    leaf_offsets = np.concatenate([[0], np.cumsum(leaves[0])])
    feature = np.empty(node_offsets[-1], np.int32)
    child, value = np.empty_like(feature), np.empty_like(feature)
    number, free, leaf = node_offsets[:-1], node_offsets[:-1] + 1, 0 * leaf_offsets[:-1]
    for i, one in enumerate(levels):
        feature[number] = one.attribute
        value[number] = one.value
        child[number] = np.where(one.attribute < 0, leaf, free)
        if i + 1 == len(levels):
            break
        parent = np.repeat(np.arange(one.tree.size), n_children[i])
        first = np.repeat(np.cumsum(n_children[i]) - n_children[i], n_children[i])
        number = free[parent] + np.arange(parent.size) - first

        def before(amounts: Integers, first: Integers = first) -> Integers:
            """Return the sum of amounts of the siblings to the left."""
            sums = np.cumsum(amounts) - amounts
            return np.asarray(sums - sums[first] if sums.size else sums)

        leaf = leaf[parent] + before(leaves[i + 1])
        free = (free + n_children[i])[parent] + before(below[i + 1])
    return frozen(
        feature=feature,
        child=child,
        node_offsets=node_offsets,
        leaf_offsets=leaf_offsets,
        value=value,
    )


DEEP = 32
"""A tree whose paths all had this length would have more leaves than can be held."""

CUT_WEIGHT = 2**30
"""Total of the whole weights of the cuts of an attribute."""

NODES = ("feature", "child", "value")
"""Arrays of a forest with an entry for each node."""

Seed = int | np.random.SeedSequence | np.random.Generator | np.random.RandomState | None


# ---- random forests ------------------------------------------------------------


def grow_random_forest(
    schema_or_domain_shape: Domain,
    n_trees: int,
    depth: int,
    *,
    splits: str = "multiway",
    seed: Seed = None,
) -> Forest:
    """Grow a forest of random trees from the domain alone.

    Every inner node draws one attribute, independently of other nodes, and splits on
    it. The draw is uniform among attributes with more than one possible value there. A
    path ends at depth `depth`, or where no attribute is left. No data are involved: the
    forest is public. Time and memory are O(n_nodes).

    Parameters
    ----------
    schema_or_domain_shape : Schema or sequence of int
        A schema, or the sizes of the attributes; without a schema no attribute has an
        order.
    n_trees : int
        Number of trees.
    depth : int
        Number of tests on a path; 0 gives trees of a single leaf.
    splits : {"multiway", "binary", "threshold"}, default="multiway"
        Kind of split. "multiway": one child per value of the attribute (ID3).
        "binary": two children (CART). An attribute without order is compared with one
        of its possible values (equal or not equal). An ordinal or numeric attribute is
        compared with a threshold (at most or above). Value and threshold are drawn
        uniformly, and these attributes may be tested again. "threshold": ordinal and
        numeric attributes by a threshold, others multiway (Fletcher and Islam [1]_).
        The threshold of a numeric attribute is a number drawn uniformly from the public
        range of the node, see the notes.
    seed : int, SeedSequence, Generator, RandomState or None, default=None
        An integer or a SeedSequence always gives the same forest; a Generator or
        RandomState is advanced; None draws from the operating system.

    Returns
    -------
    forest : Forest
        The trees, in the layout described there.

    Raises
    ------
    TypeError
        If a size, `n_trees`, `depth` or `seed` is of the wrong kind.
    ValueError
        If `n_trees` < 1, `depth` < 0, a size < 1, or `splits` is unknown.
    DomainTooLargeError
        If the forest would have more than 2**28 nodes (2 GiB), or the attributes with
        two-way tests more than 2**27 values; raised before memory is allocated.

    See Also
    --------
    complete_forest : What a multiway forest tends to with the number of trees.
    fletcher_islam_depth : How deep threshold trees should be.

    Notes
    -----
    Each tree has its own 64-bit seed, word t of ``SeedSequence.generate_state``. The
    state of a node is hashed (splitmix64 [2]_) from the state of its parent and the
    branch that leads to it. Hence, for one seed, the forest with 10 trees is the
    beginning of the forest with 20, and trees of depth 3 are trees of depth 4 cut off.
    The expected number of leaves of a multiway tree is a mean over all subsets of
    `depth` attributes: the mean of the product of their sizes.

    The codes of a numeric attribute are bins, and a tree can only cut between them. A
    cut drawn with splits="threshold" moves to the nearest cut point of the schema
    inside the range of the node; one that is nearer to an end of that range, and would
    leave a side without bins, is drawn again. So a cut point has a probability
    proportional to the width of its two bins, and equal bins make it uniform. Outer
    bins without a bound count as wide as their neighbours. Ordinal attributes have
    equal steps. A cell for missing values counts as one step above all others.

    References
    ----------
    .. [1] S. Fletcher, M. Z. Islam, "Differentially private random decision forests
       using smooth sensitivity", Expert Systems with Applications 78, 2017, 16-31.
    .. [2] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
       generators", OOPSLA 2014.

    Examples
    --------
    >>> from mmech_rf import Attribute, Schema, grow_random_forest
    >>> grow_random_forest((4, 4, 4, 3, 3, 3), n_trees=128, depth=6, seed=0)
    Forest(n_trees=128, depth=6, n_leaves=221184, n_cells=1728)
    >>> ten = grow_random_forest((2, 3, 4), n_trees=10, depth=2, seed=7)
    >>> twenty = grow_random_forest((2, 3, 4), n_trees=20, depth=2, seed=7)
    >>> bool((ten.feature == twenty.feature[: ten.n_nodes]).all())
    True

    With two-way tests, the prices and colours that the leaves allow:

    >>> price = Attribute.numeric("price", lower=0, upper=100, n_bins=4)
    >>> color = Attribute.categorical("color", ["red", "green", "blue"])
    >>> schema = Schema([price, color], class_labels=["no", "yes"])
    >>> forest = grow_random_forest(schema, 1, 2, splits="binary", seed=1)
    >>> prices, colors = forest.leaf_masks()
    >>> prices.astype(int).tolist()
    [[1, 0, 0, 0], [0, 1, 1, 1], [1, 0, 0, 0], [0, 1, 1, 1]]
    >>> colors.astype(int).tolist()
    [[1, 0, 0], [1, 0, 0], [0, 1, 1], [0, 1, 1]]
    """
    domain_shape = check_shape(schema_or_domain_shape)
    check_choice(splits, "splits", SPLITS)
    n_trees = check_integer(n_trees, "n_trees", minimum=0)
    if n_trees == 0:
        raise ValueError("a forest needs at least one tree, got 0; raise n_trees")
    depth = check_integer(depth, "depth", minimum=0)

    sizes = np.array(domain_shape, dtype=np.int64)
    splittable = np.flatnonzero(sizes > 1)
    ordered = _ordered(schema_or_domain_shape)
    two_way = _two_way(ordered, splits)
    depth = min(depth, _longest(sizes, two_way))
    fewest = np.where(two_way, 2, sizes)[splittable]
    least = _fewest_nodes(fewest, depth)
    if n_trees * least > LIMITS.forest_nodes:
        raise _too_many_nodes(n_trees, depth, LIMITS.forest_nodes // least)
    seeds = seed_sequence(seed).generate_state(n_trees, np.uint64)
    # Without a compiler the kernels run on NumPy scalars, which warn when the
    # generator wraps around as it should.
    with np.errstate(over="ignore"):
        equal_steps = splits == "binary"
        tables = _value_tables(schema_or_domain_shape, two_way, ordered, equal_steps)
        arrays = _count_and_write(seeds, (sizes, *tables, splittable), depth)
    if not two_way[splittable].any():
        return Forest(domain_shape, **arrays | {"value": None})
    return Forest(domain_shape, **arrays, ordered=tuple(ordered.tolist()))


def _two_way(ordered: Flags, splits: str) -> Flags:
    """Return which attributes have tests with two outcomes."""
    return ordered & (splits == "threshold") | (splits == "binary")


def _longest(sizes: Integers, two_way: Flags) -> int:
    """Count the tests of the longest path there can be.

    A path tests an attribute once, or until a single value is left.
    """
    return int(np.where(two_way, sizes - 1, sizes > 1).sum())


def check_depth(schema: Schema, depth: int, splits: str) -> None:
    """Raise for a depth that no path has, unless it is a usual "as deep as possible".

    Paths end where no test is left, so that a depth somewhat too large does no harm.
    """
    sizes = np.array(schema.domain_shape, dtype=np.int64)
    longest = max(_longest(sizes, _two_way(_ordered(schema), splits)), 1)
    if depth > max(longest, DEEP):
        raise ParameterError(
            "depth",
            f"must be at most {longest}, the length of the longest path that the "
            f"{len(sizes)} attributes of the {{schema}} allow",
            depth,
            "choose {depth='auto'}",
        )


def _count_and_write(
    seeds: NDArray[Any], facts: Sequence[Integers], depth: int
) -> dict[str, Any]:
    """Return the arrays of trees, whose nodes a kernel counts before it writes them.

    The kernel is told facts of the attributes.
    """
    from mmech_rf import _kernels

    node_offsets = np.zeros(seeds.size + 1, np.int64)
    leaf_offsets = np.zeros_like(node_offsets)
    for write in (False, True):
        nodes = [np.empty(node_offsets[-1], np.int32) for _ in NODES]
        grown = _kernels.grow_trees(
            seeds, *facts, depth, LIMITS.forest_nodes, write, node_offsets,
            leaf_offsets, *nodes,
        )  # fmt: skip
        if grown < seeds.size:
            raise _too_many_nodes(seeds.size, depth, grown)
    return frozen(
        node_offsets=node_offsets,
        leaf_offsets=leaf_offsets,
        **dict(zip(NODES, nodes, strict=True)),
    )


def _ordered(schema_or_domain_shape: Domain) -> Flags:
    """Return which attributes have an order, (d,)."""
    attributes = getattr(schema_or_domain_shape, "attributes", None)
    if attributes is None:
        return np.zeros(len(check_shape(schema_or_domain_shape)), np.bool_)
    return np.array([a.kind != "categorical" for a in attributes], np.bool_)


def _value_tables(
    schema_or_domain_shape: Domain, two_way: Flags, ordered: Flags, equal_steps: bool
) -> tuple[Integers, Integers, Integers]:
    """Return kinds, starts (d,) and table, as `_kernels.grow_trees` wants them."""
    from mmech_rf import _kernels

    shape = check_shape(schema_or_domain_shape)
    values = sum(size for size, two in zip(shape, two_way, strict=True) if two)
    if values > LIMITS.cut_values:
        raise DomainTooLargeError(
            f"two-way tests of attributes with {values:,} values in all need tables "
            f"of more than {LIMITS.cut_values:,} entries; bin the attributes first"
        )
    parts = []
    kinds = np.full(len(shape), _kernels.MULTIWAY)
    for i, size in enumerate(shape):
        if not two_way[i]:
            parts.append(np.empty(0, np.int64))
        elif not ordered[i]:
            kinds[i] = _kernels.EQUALITY
            parts.append(np.arange(size))
        else:
            kinds[i] = _kernels.THRESHOLD
            weights = np.ones(size - 1, np.int64)
            if not equal_steps:
                weights = cut_weights(schema_or_domain_shape.attributes[i])  # type: ignore[union-attr]
            parts.append(np.concatenate([[0], np.cumsum(weights)]))
    starts = np.cumsum([0, *(part.size for part in parts[:-1])])
    return kinds, starts, np.concatenate(parts).astype(np.int64)


def cut_weights(attribute: Attribute) -> Integers:
    """Return how likely each cut of an ordered attribute is, (n_i - 1,), all >= 1."""
    uniform = np.ones(attribute.size - 1, np.int64)
    if attribute.kind != "numeric" or len(attribute.cut_points) < 2:
        return uniform
    widths = np.diff(attribute.cut_points)
    first, last = widths[0], widths[-1]
    if attribute.lower is not None and attribute.upper is not None:
        first = attribute.cut_points[0] - attribute.lower
        last = attribute.upper - attribute.cut_points[-1]
    widths = np.concatenate([[first], widths, [last]])
    weights = widths[:-1] + widths[1:]
    if attribute.other is not None:
        weights = np.append(weights, weights.mean())
    scaled = np.rint(weights * (CUT_WEIGHT / weights.sum()))
    return np.maximum(scaled.astype(np.int64), 1)


def _fewest_nodes(sizes: Integers, depth: int) -> int:
    """Count the nodes of the smallest tree of a depth, capped above the limit.

    A path ends early where no attribute has two values left, and so not before it
    has tested every attribute.
    """
    nodes = leaves = 1
    for size in np.sort(sizes)[:depth].tolist():
        leaves *= size
        nodes += leaves
        if nodes > LIMITS.forest_nodes:
            break
    return nodes


def _too_many_nodes(n_trees: int, depth: int, most: int) -> DomainTooLargeError:
    """Return the error for trees of which so many fit, at most."""
    fewer = f", or at most {most} trees" if most else ""
    return DomainTooLargeError(
        f"{n_trees} trees of depth {depth} over this domain would have more than "
        f"{LIMITS.forest_nodes:,} nodes; choose a depth below {depth}{fewer}"
    )


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """Return a public seed; generators are advanced, None asks the system."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(2**32, size=4).tolist())
    if isinstance(seed, np.random.RandomState):
        words = seed.randint(2**32, size=4, dtype=np.uint32)
        return np.random.SeedSequence(words.tolist())
    if seed is None:
        return np.random.SeedSequence()
    return np.random.SeedSequence(check_integer(seed, "seed", minimum=0))


# ---- how deep -------------------------------------------------------------------


def fletcher_islam_depth(n_continuous: int, n_discrete: int) -> int:
    r"""Return the depth that tests half of the attributes, on average.

    A discrete attribute is tested once on a path, a continuous one any number of
    times. With s continuous attributes, :math:`s ((s - 1) / s)^k` are expected to be
    untested after k tests. The depth is half of the number of discrete attributes. If
    there are continuous attributes, k + 1 is added, for the least k that leaves fewer
    than half of them untested.

    Parameters
    ----------
    n_continuous : int
        Number s of attributes that are split by thresholds.
    n_discrete : int
        Number r of attributes with one child per value.

    Returns
    -------
    int

    References
    ----------
    .. [1] S. Fletcher, M. Z. Islam, "Differentially private random decision forests
       using smooth sensitivity", Expert Systems with Applications 78, 2017, 16-31,
       Theorem 2 and Table 4; corrected in 2021.

    Examples
    --------
    >>> from mmech_rf import fletcher_islam_depth
    >>> fletcher_islam_depth(10, 0), fletcher_islam_depth(6, 8)
    (8, 9)
    """
    s = check_integer(n_continuous, "n_continuous", minimum=0)
    depth = check_integer(n_discrete, "n_discrete", minimum=0) // 2
    if s > 0:
        k = 0
        while 2 * (s - 1) ** k >= s**k:
            k += 1
        depth += 1 + k
    return depth


def default_depth(schema_or_domain_shape: Domain, splits: str = "multiway") -> int:
    """Return the depth that classifiers call "auto".

    Parameters
    ----------
    schema_or_domain_shape : Schema or sequence of int
        A schema, or the sizes of the attributes.
    splits : {"multiway", "binary", "threshold"}, default="multiway"
        Kind of split, see `grow_random_forest`.

    Returns
    -------
    int
        At least 1. Half of the attributes for multiway trees; otherwise
        `fletcher_islam_depth`, ordinal and numeric attributes counting as continuous.

    Examples
    --------
    >>> from mmech_rf import datasets, default_depth
    >>> iris = datasets.load_iris().schema
    >>> default_depth(iris), default_depth(iris, "threshold")
    (2, 4)
    """
    ordered = _ordered(schema_or_domain_shape)
    if check_choice(splits, "splits", SPLITS) == "multiway":
        return max(1, ordered.size // 2)
    s = int(ordered.sum())
    return max(1, fletcher_islam_depth(s, ordered.size - s))


def mean_leaves(
    schema_or_domain_shape: Domain, depth: int, splits: str = "multiway"
) -> Fraction:
    """Return how many leaves a random tree has on average, before one is grown.

    Exact for multiway trees. An attribute with two-way tests counts as one of two
    values, as often as a path can test it.

    Examples
    --------
    >>> from mmech_rf.forest.growth import mean_leaves
    >>> mean_leaves((2, 3, 4), depth=2)
    Fraction(26, 3)
    """
    shape = check_shape(schema_or_domain_shape)
    two_way = _two_way(_ordered(schema_or_domain_shape), splits)
    pairs = sum(n - 1 for n, two in zip(shape, two_way, strict=True) if two)
    sizes = [n for n, two in zip(shape, two_way, strict=True) if n > 1 and not two]
    h = min(depth, pairs + len(sizes))
    leaves = sum(
        math.comb(pairs, j) * 2**j * products
        for j, products in zip(range(h, -1, -1), elementary_sums(sizes, h), strict=True)
    )
    return Fraction(leaves, math.comb(pairs + len(sizes), h))


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
    n_trees, n_leaves = (
        math.comb(len(sizes), depth),
        elementary_sums(sizes, depth)[-1],
    )
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
    trees, leaves = math.comb(len(sizes), h), elementary_sums(sizes, h)[-1]
    fits = trees <= LIMITS.complete_trees and leaves <= LIMITS.complete_leaves
    return (trees, leaves) if fits else (0, 0)


def elementary_sums(sizes: Sequence[int], order: int) -> list[int]:
    """Return these sums for subsets of 0 up to `order` sizes."""
    sums = [1] + [0] * order
    for size in sizes:
        for k in range(order, 0, -1):
            sums[k] += size * sums[k - 1]
    return sums


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
