"""Random forests over a public domain, stored as flat arrays.

A forest is grown from the domain alone: no record is ever looked at, so the
forest is public and costs no privacy. Everything that is later measured about
the data (leaf counts) or asked of it (votes) refers to leaf ids of the forest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech._validation import check_choice, check_integer
from mmech.exceptions import DomainTooLargeError

__all__ = ["Forest", "grow_random_forest"]

# Largest forest that is grown: 2 GiB of `feature` and `child`, well inside int32.
MAX_NODES = 2**28
# Largest table that is materialised: 2 GiB of int32 labels, 1 GiB of masks.
MAX_TABLE_ENTRIES = 2**29
MAX_MASK_ENTRIES = 2**30
# Records converted to narrow codes at a time, so that memory stays bounded.
CHUNK = 2**16

_UNSOUND = {
    1: "holds an attribute outside the domain",
    2: "splits on an attribute already used on its path",
    3: "has children out of depth-first order",
    4: "is a leaf whose id does not count the leaves of its tree from the left",
    5: "leaves its tree with more or fewer nodes than node_offsets says",
    6: "ends a tree with more or fewer leaves than leaf_offsets says",
}


class HasDomainShape(Protocol):
    """Anything that names the sizes of its attributes, such as a schema."""

    @property
    def domain_shape(self) -> tuple[int, ...]:
        """Number of values of every attribute."""


@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """Trees that partition a categorical domain, as flat read-only arrays.

    An inner node tests one attribute and has one child per value of it; no
    attribute is tested twice on a path. The leaves of a tree partition the
    domain. Memory is 8 bytes a node.

    Parameters
    ----------
    domain_shape : tuple of int, length d
        Number of values of every attribute.
    feature : ndarray of int32, shape (n_nodes,)
        Attribute tested by each node, -1 at a leaf. Nodes of one tree follow
        those of the tree before; the root comes first.
    child : ndarray of int32, shape (n_nodes,)
        Index of the first child, the children being contiguous and one per
        value; at a leaf, the leaf id within its tree.
    node_offsets : ndarray of int64, shape (n_trees + 1,)
        Nodes of tree t are ``node_offsets[t]:node_offsets[t + 1]``.
    leaf_offsets : ndarray of int64, shape (n_trees + 1,)
        Leaf l of tree t is row ``leaf_offsets[t] + l`` of every leaf table.

    Attributes
    ----------
    depth : int
        Largest number of tests on a path.

    Raises
    ------
    TypeError
        If an array does not hold integers.
    ValueError
        If the arrays do not describe trees in the layout given in the notes.

    See Also
    --------
    grow_random_forest : Draw a forest from a domain.

    Notes
    -----
    Trees are laid out depth first: blocks of children are numbered in the
    order in which a left-to-right walk enters their parents, and leaf ids
    count the leaves from left to right. So the leaves below any node are
    contiguous, and `child` follows from `feature`. A step down the tree is
    ``child[node] + branch`` where the branch is the value of the tested
    attribute.

    Examples
    --------
    A tree on two attributes of sizes 2 and 3: the root tests the first, its
    left child is a leaf, its right child tests the second.

    >>> forest = Forest(
    ...     domain_shape=(2, 3),
    ...     feature=[0, -1, 1, -1, -1, -1],
    ...     child=[1, 0, 3, 1, 2, 3],
    ...     node_offsets=[0, 6],
    ...     leaf_offsets=[0, 4],
    ... )
    >>> forest
    Forest(n_trees=1, depth=2, n_leaves=4, n_cells=6)
    >>> forest.apply_domain()
    array([[0, 0, 0, 1, 2, 3]], dtype=int32)
    >>> forest.leaf_paths(0, feature_names=["windy", "outlook"])
    ['windy=0', 'windy=1 & outlook=0', 'windy=1 & outlook=1', 'windy=1 & outlook=2']
    """

    domain_shape: tuple[int, ...]
    feature: NDArray[np.int32]
    child: NDArray[np.int32]
    node_offsets: NDArray[np.int64]
    leaf_offsets: NDArray[np.int64]
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain_shape", _check_shape(self.domain_shape))
        for name, dtype in (
            ("feature", np.int32),
            ("child", np.int32),
            ("node_offsets", np.int64),
            ("leaf_offsets", np.int64),
        ):
            frozen = _read_only(getattr(self, name), name, np.dtype(dtype))
            object.__setattr__(self, name, frozen)
        object.__setattr__(self, "depth", self._check_layout())

    def _check_layout(self) -> int:
        """Raise unless the arrays are sound; return the depth of the forest."""
        from mmech_rf import _kernels

        if self.feature.shape != self.child.shape:
            raise ValueError(
                "feature and child must have one entry per node each, got "
                f"{self.feature.size} and {self.child.size}"
            )
        for name, offsets in (
            ("node_offsets", self.node_offsets),
            ("leaf_offsets", self.leaf_offsets),
        ):
            if offsets.size < 2 or offsets[0] != 0 or (np.diff(offsets) < 1).any():
                raise ValueError(
                    f"{name} must start at 0 and increase strictly, with one entry "
                    f"more than there are trees, got {_brief(offsets)}"
                )
        if self.node_offsets.size != self.leaf_offsets.size:
            raise ValueError(
                "node_offsets and leaf_offsets must have one entry per tree and one "
                f"more, got {self.node_offsets.size} and {self.leaf_offsets.size}"
            )
        if self.node_offsets[-1] != self.feature.size:
            raise ValueError(
                f"node_offsets must end at the number of nodes {self.feature.size}, "
                f"got {self.node_offsets[-1]}"
            )
        report = np.empty(3, np.int64)
        _kernels.check_trees(
            self._sizes,
            self.feature,
            self.child,
            self.node_offsets,
            self.leaf_offsets,
            report,
        )
        if report[0]:
            raise ValueError(
                f"node {report[1]} of the forest {_UNSOUND[int(report[0])]}; build "
                "forests with grow_random_forest"
            )
        return int(report[2])

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor: plain unpickling would hand out writeable arrays.
        return Forest, (
            self.domain_shape,
            self.feature,
            self.child,
            self.node_offsets,
            self.leaf_offsets,
        )

    def __repr__(self) -> str:
        return (
            f"Forest(n_trees={self.n_trees}, depth={self.depth}, "
            f"n_leaves={self.n_leaves}, n_cells={self.n_cells})"
        )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.node_offsets.size - 1

    @property
    def n_leaves(self) -> int:
        """Number of leaves of all trees together."""
        return int(self.leaf_offsets[-1])

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees together, leaves included."""
        return self.feature.size

    @property
    def n_features(self) -> int:
        """Number of attributes d of the domain."""
        return len(self.domain_shape)

    @property
    def n_cells(self) -> int:
        """Number of cells of the domain, however large."""
        return math.prod(self.domain_shape)

    @property
    def _sizes(self) -> NDArray[np.int64]:
        return np.array(self.domain_shape, dtype=np.int64)

    def apply(self, codes: ArrayLike) -> NDArray[np.int32]:
        """Find the leaf of every record in every tree.

        Time is O(N n_trees depth), memory that of the result.

        Parameters
        ----------
        codes : array-like of int, shape (N, d)
            Records as attribute codes, 0 <= codes[:, i] < domain_shape[i].

        Returns
        -------
        leaves : ndarray of int32, shape (N, n_trees)
            Leaf ids within the tree; add `leaf_offsets` for rows of a leaf table.

        Raises
        ------
        TypeError
            If the codes are not integers.
        ValueError
            If the codes do not have d columns or lie outside the domain.

        Examples
        --------
        >>> forest = grow_random_forest((4, 4, 3), n_trees=3, depth=2, seed=0)
        >>> forest.apply([[0, 1, 2], [3, 0, 1]])
        array([[8, 9, 8],
               [4, 7, 4]], dtype=int32)
        """
        from mmech_rf import _kernels

        codes = self._check_codes(codes)
        leaves = np.empty((codes.shape[0], self.n_trees), dtype=np.int32)
        for start, chunk in self._narrow(codes):
            _kernels.apply_trees(
                self.feature,
                self.child,
                self.node_offsets,
                chunk,
                leaves[start : start + CHUNK],
            )
        return leaves

    def apply_domain(self) -> NDArray[np.int32]:
        """Find the leaf of every domain cell in every tree.

        Cells are in C order, the first attribute most significant. The table of
        cell codes is never built; time is O(n_cells n_trees depth), memory that
        of the result.

        Returns
        -------
        labels : ndarray of int32, shape (n_trees, n_cells)
            Leaf ids within the tree.

        Raises
        ------
        DomainTooLargeError
            If the result would have more than 2**29 entries (2 GiB).

        See Also
        --------
        leaf_masks : The same predicates in memory that grows with sum(domain_shape).

        Examples
        --------
        >>> forest = grow_random_forest((2, 3), n_trees=2, depth=1, seed=1)
        >>> forest.apply_domain()
        array([[0, 1, 2, 0, 1, 2],
               [0, 0, 0, 1, 1, 1]], dtype=int32)
        """
        from mmech_rf import _kernels

        entries = self.n_trees * self.n_cells
        if entries > MAX_TABLE_ENTRIES:
            raise DomainTooLargeError(
                f"labels of {_count(self.n_cells)} cells for {self.n_trees} trees "
                f"would have {_count(entries)} entries, more than the limit of "
                f"{MAX_TABLE_ENTRIES:,}; use leaf_masks(), fewer trees or fewer "
                "attributes"
            )
        labels = np.empty((self.n_trees, self.n_cells), dtype=np.int32)
        _kernels.label_domain(
            self._sizes, self.feature, self.child, self.node_offsets, labels
        )
        return labels

    def count_leaves(
        self, codes: ArrayLike, class_codes: ArrayLike, n_classes: int
    ) -> NDArray[np.int64]:
        """Count the records of every class in every leaf of every tree.

        One pass over the records, without the (N, n_trees) table of leaf ids:
        O(N n_trees depth) time, memory that of the result. Each record counts
        once in every tree, so the counts sum to N n_trees.

        Parameters
        ----------
        codes : array-like of int, shape (N, d)
            Records as attribute codes.
        class_codes : array-like of int, shape (N,)
            Class of each record, 0 <= class_codes < n_classes.
        n_classes : int
            Number of classes k.

        Returns
        -------
        counts : ndarray of int64, shape (n_leaves, k)
            Records per leaf (rows as in `leaf_offsets`) and class. These numbers
            are not private.

        Raises
        ------
        TypeError
            If codes or classes are not integers.
        ValueError
            If codes or classes have the wrong shape or range.

        See Also
        --------
        count_assigned_leaves : Each record counts in one tree only.

        Examples
        --------
        >>> forest = grow_random_forest((2, 2), n_trees=2, depth=1, seed=1)
        >>> forest.count_leaves([[0, 1], [1, 1], [1, 1]], [0, 1, 1], 2)
        array([[0, 0],
               [1, 2],
               [1, 0],
               [0, 2]])
        """
        from mmech_rf import _kernels

        codes = self._check_codes(codes)
        n_classes = check_integer(n_classes, "n_classes")
        classes = _check_labels(class_codes, "class_codes", len(codes), n_classes)
        counts = np.zeros((self.n_leaves, n_classes), dtype=np.int64)
        for start, chunk in self._narrow(codes):
            _kernels.count_leaves(
                self.feature,
                self.child,
                self.node_offsets,
                self.leaf_offsets,
                chunk,
                _chunk(classes, start),
                counts,
            )
        return counts

    def count_assigned_leaves(
        self,
        codes: ArrayLike,
        class_codes: ArrayLike,
        n_classes: int,
        tree_index: ArrayLike,
    ) -> NDArray[np.int64]:
        """Count every record in the one tree it is assigned to.

        Time is O(N depth), memory that of the result. The counts sum to N, and
        one record changes one entry by one.

        Parameters
        ----------
        codes : array-like of int, shape (N, d)
            Records as attribute codes.
        class_codes : array-like of int, shape (N,)
            Class of each record, 0 <= class_codes < n_classes.
        n_classes : int
            Number of classes k.
        tree_index : array-like of int, shape (N,)
            Tree of each record. For subsample-and-aggregate the caller draws it
            independently for every record.

        Returns
        -------
        counts : ndarray of int64, shape (n_leaves, k)
            Records per leaf and class. These numbers are not private.

        Raises
        ------
        TypeError
            If codes, classes or trees are not integers.
        ValueError
            If codes, classes or trees have the wrong shape or range.

        Examples
        --------
        >>> forest = grow_random_forest((2, 2), n_trees=2, depth=1, seed=1)
        >>> codes, classes, trees = [[0, 1], [1, 1], [1, 1]], [0, 1, 1], [0, 0, 1]
        >>> forest.count_assigned_leaves(codes, classes, 2, trees)
        array([[0, 0],
               [1, 1],
               [0, 0],
               [0, 1]])
        """
        from mmech_rf import _kernels

        codes = self._check_codes(codes)
        n_classes = check_integer(n_classes, "n_classes")
        classes = _check_labels(class_codes, "class_codes", len(codes), n_classes)
        trees = _check_labels(tree_index, "tree_index", len(codes), self.n_trees)
        counts = np.zeros((self.n_leaves, n_classes), dtype=np.int64)
        for start, chunk in self._narrow(codes):
            _kernels.count_assigned_leaves(
                self.feature,
                self.child,
                self.node_offsets,
                self.leaf_offsets,
                chunk,
                _chunk(classes, start),
                _chunk(trees, start),
                counts,
            )
        return counts

    def leaf_masks(self) -> list[NDArray[np.bool_]]:
        """List, for every leaf, the values of each attribute its path allows.

        A cell belongs to a leaf when all its codes are allowed. Memory is
        n_leaves sum(domain_shape) bytes, whatever the number of cells.

        Returns
        -------
        masks : list of d ndarrays of bool, shape (n_leaves, domain_shape[i])
            One array per attribute, rows as in `leaf_offsets`; a row is all true
            where the path does not test the attribute.

        Raises
        ------
        DomainTooLargeError
            If the masks would have more than 2**30 entries (1 GiB).

        Examples
        --------
        >>> forest = grow_random_forest((2, 3), n_trees=1, depth=1, seed=0)
        >>> for mask in forest.leaf_masks():
        ...     print(mask.astype(int).tolist())
        [[1, 1], [1, 1], [1, 1]]
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        """
        from mmech_rf import _kernels

        entries = self.n_leaves * sum(self.domain_shape)
        if entries > MAX_MASK_ENTRIES:
            raise DomainTooLargeError(
                f"masks of {self.n_leaves:,} leaves over {sum(self.domain_shape):,} "
                f"attribute values would have {_count(entries)} entries, more than "
                f"the limit of {MAX_MASK_ENTRIES:,}; use fewer trees or a smaller depth"
            )
        flat = np.ones(entries, dtype=np.bool_)
        _kernels.leaf_masks(
            self._sizes,
            self.feature,
            self.child,
            self.node_offsets,
            self.leaf_offsets,
            flat,
        )
        masks = []
        start = 0
        for size in self.domain_shape:
            stop = start + self.n_leaves * size
            masks.append(flat[start:stop].reshape(self.n_leaves, size))
            start = stop
        return masks

    def path(
        self,
        tree: int,
        leaf: int,
        feature_names: Sequence[str] | None = None,
        categories: Sequence[Sequence[Any]] | None = None,
    ) -> str:
        """Describe a leaf by the tests on its path, root first.

        Parameters
        ----------
        tree, leaf : int
            Tree, and leaf id within the tree.
        feature_names : sequence of str, length d, default=None
            Names of the attributes; ``x0``, ``x1``, ... if None.
        categories : sequence of d sequences, default=None
            Values of every attribute in code order; the codes if None.

        Returns
        -------
        path : str
            For example ``"outlook=sunny & windy=true"``, and ``"any record"``
            for the only leaf of a tree of depth 0.

        Raises
        ------
        ValueError
            If there is no such leaf, or names or categories do not fit the domain.

        Examples
        --------
        >>> forest = grow_random_forest((3, 2), n_trees=1, depth=2, seed=0)
        >>> categories = [["rain", "sunny", "overcast"], ["false", "true"]]
        >>> forest.path(0, 3, ["outlook", "windy"], categories)
        'windy=true & outlook=rain'
        """
        tree = self._check_tree(tree)
        leaf = check_integer(leaf, "leaf", minimum=0)
        n_leaves = int(self.leaf_offsets[tree + 1] - self.leaf_offsets[tree])
        if leaf >= n_leaves:
            raise ValueError(
                f"leaf must be below the {n_leaves} leaves of tree {tree}, got {leaf}"
            )
        names, values = self._check_names(feature_names, categories)
        tests = []
        node = int(self.node_offsets[tree])
        while self.feature[node] >= 0:
            attribute = int(self.feature[node])
            first = int(self.child[node])
            # Leaf ids grow from left to right: the last child that starts no later.
            value = self.domain_shape[attribute] - 1
            while self._leftmost_leaf(first + value) > leaf:
                value -= 1
            tests.append(f"{names[attribute]}={values[attribute][value]}")
            node = first + value
        return " & ".join(tests) or "any record"

    def leaf_paths(
        self,
        tree: int,
        feature_names: Sequence[str] | None = None,
        categories: Sequence[Sequence[Any]] | None = None,
    ) -> list[str]:
        """Describe all leaves of one tree, in the order of their ids.

        Parameters
        ----------
        tree : int
            Index of the tree.
        feature_names, categories
            As in `path`.

        Returns
        -------
        paths : list of str
            One description per leaf.

        Raises
        ------
        ValueError
            If there is no such tree, or names or categories do not fit the domain.

        Examples
        --------
        >>> grow_random_forest((2, 2), n_trees=1, depth=1, seed=0).leaf_paths(0)
        ['x1=0', 'x1=1']
        """
        tree = self._check_tree(tree)
        names, values = self._check_names(feature_names, categories)

        def walk(node: int, path: str) -> Iterator[str]:
            attribute = int(self.feature[node])
            if attribute < 0:
                yield path or "any record"
                return
            before = f"{path} & " if path else ""
            for value in range(self.domain_shape[attribute]):
                test = f"{names[attribute]}={values[attribute][value]}"
                yield from walk(int(self.child[node]) + value, before + test)

        return list(walk(int(self.node_offsets[tree]), ""))

    def _leftmost_leaf(self, node: int) -> int:
        while self.feature[node] >= 0:
            node = int(self.child[node])
        return int(self.child[node])

    def _check_tree(self, tree: int) -> int:
        tree = check_integer(tree, "tree", minimum=0)
        if tree >= self.n_trees:
            raise ValueError(
                f"tree must be below the number of trees {self.n_trees}, got {tree}"
            )
        return tree

    def _check_names(
        self,
        feature_names: Sequence[str] | None,
        categories: Sequence[Sequence[Any]] | None,
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        if feature_names is None:
            feature_names = [f"x{i}" for i in range(self.n_features)]
        if categories is None:
            categories = [range(size) for size in self.domain_shape]
        if len(feature_names) != self.n_features:
            raise ValueError(
                f"feature_names must name all {self.n_features} attributes, "
                f"got {len(feature_names)}"
            )
        sizes = tuple(len(values) for values in categories)
        if sizes != self.domain_shape:
            raise ValueError(
                "categories must list the values of every attribute, "
                f"{self.domain_shape} of them, got {sizes}"
            )
        return feature_names, categories

    def _check_codes(self, codes: ArrayLike) -> NDArray[Any]:
        """Return codes as an integer array (N, d); ranges are checked by chunk."""
        array = np.asarray(codes)
        if array.dtype.kind not in "iu" and array.size:
            raise TypeError(
                f"codes must hold integers, got dtype {array.dtype}; encode records "
                "with the schema first"
            )
        if array.ndim != 2 or array.shape[1] != self.n_features:
            raise ValueError(
                f"codes must have shape (N, {self.n_features}), one column per "
                f"attribute, got {array.shape}"
            )
        return array

    def _narrow(self, codes: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (start, chunk) with chunk (<= CHUNK, d) checked, one byte a code."""
        largest = np.array(self.domain_shape) - 1
        dtype = np.uint8 if largest.max() <= np.iinfo(np.uint8).max else np.int32
        for start in range(0, len(codes), CHUNK):
            chunk = codes[start : start + CHUNK]
            if (chunk < 0).any() or (chunk > largest).any():
                # Row and column only: the value may be sensitive.
                row, column = np.argwhere((chunk < 0) | (chunk > largest))[0]
                raise ValueError(
                    f"codes of attribute {column} must lie in 0..{largest[column]}, "
                    f"row {start + row} does not; encode records with the schema"
                )
            yield start, np.array(chunk, dtype=dtype, order="C")


def grow_random_forest(
    schema_or_domain_shape: HasDomainShape | Sequence[int],
    n_trees: int,
    depth: int,
    *,
    splits: str = "multiway",
    seed: int
    | np.random.SeedSequence
    | np.random.Generator
    | np.random.RandomState
    | None = None,
) -> Forest:
    """Grow a forest of random multiway trees from the domain alone.

    Every inner node draws, independently of every other node, one attribute
    uniformly from those not used on its path, and has one child per value of
    it (ID3), until depth `depth` or until no attribute is left. Attributes with
    one value are never split on. No data are involved: the forest is public.
    Time and memory are O(n_nodes).

    Parameters
    ----------
    schema_or_domain_shape : schema or sequence of int
        An object with a `domain_shape`, or the sizes of the attributes.
    n_trees : int
        Number of trees.
    depth : int
        Number of tests on a path; 0 gives trees of a single leaf.
    splits : {"multiway"}, default="multiway"
        Kind of split.
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
        If the forest would have more than 2**28 nodes (2 GiB); raised before
        memory is allocated.

    Notes
    -----
    Each tree has its own 64-bit seed, word t of ``SeedSequence.generate_state``,
    and each node draws from a state hashed (splitmix64 [1]_) from that of its
    parent and the branch that leads to it. Hence, for one seed, the forest with
    10 trees is the beginning of the forest with 20, and trees of depth 3 are
    those of depth 4 cut off. The expected number of leaves of a tree is the mean
    of the product of the sizes of `depth` attributes, over all subsets of that
    many attributes.

    References
    ----------
    .. [1] G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
       generators", OOPSLA 2014.

    Examples
    --------
    >>> grow_random_forest((4, 4, 4, 3, 3, 3), n_trees=128, depth=6, seed=0)
    Forest(n_trees=128, depth=6, n_leaves=221184, n_cells=1728)
    >>> ten = grow_random_forest((2, 3, 4), n_trees=10, depth=2, seed=7)
    >>> twenty = grow_random_forest((2, 3, 4), n_trees=20, depth=2, seed=7)
    >>> bool((ten.feature == twenty.feature[: ten.n_nodes]).all())
    True
    """
    from mmech_rf import _kernels

    domain_shape = _check_shape(
        getattr(schema_or_domain_shape, "domain_shape", schema_or_domain_shape)
    )
    check_choice(splits, "splits", ("multiway",))
    n_trees = check_integer(n_trees, "n_trees", minimum=0)
    if n_trees == 0:
        raise ValueError("a forest needs at least one tree, got 0")
    depth = check_integer(depth, "depth", minimum=0)

    sizes = np.array(domain_shape, dtype=np.int64)
    splittable = np.flatnonzero(sizes > 1)
    depth = min(depth, splittable.size)
    if n_trees * _fewest_nodes(sizes[splittable], depth) > MAX_NODES:
        raise _too_many_nodes(n_trees, depth)
    seeds = _seed_sequence(seed).generate_state(n_trees, np.uint64)
    node_offsets = np.empty(n_trees + 1, dtype=np.int64)
    leaf_offsets = np.empty(n_trees + 1, dtype=np.int64)
    # Without a compiler the kernels run on NumPy scalars, which warn when the
    # generator wraps around as it should.
    with np.errstate(over="ignore"):
        counted = _kernels.count_nodes(
            seeds, sizes, splittable, depth, MAX_NODES, node_offsets, leaf_offsets
        )
        if counted < n_trees:
            raise _too_many_nodes(n_trees, depth)
        feature = np.empty(node_offsets[-1], dtype=np.int32)
        child = np.empty(node_offsets[-1], dtype=np.int32)
        _kernels.grow_trees(
            seeds, sizes, splittable, depth, node_offsets, feature, child
        )
    for array in (feature, child, node_offsets, leaf_offsets):
        array.flags.writeable = False
    return Forest(domain_shape, feature, child, node_offsets, leaf_offsets)


def _fewest_nodes(sizes: NDArray[np.int64], depth: int) -> int:
    """Count the nodes of the smallest tree of a depth, capped above the limit."""
    nodes = leaves = 1
    for size in np.sort(sizes)[:depth].tolist():
        leaves *= size
        nodes += leaves
        if nodes > MAX_NODES:
            break
    return nodes


def _too_many_nodes(n_trees: int, depth: int) -> DomainTooLargeError:
    return DomainTooLargeError(
        f"{n_trees} trees of depth {depth} over this domain would have more than "
        f"{MAX_NODES:,} nodes; choose a smaller depth or fewer trees"
    )


def _seed_sequence(
    seed: int
    | np.random.SeedSequence
    | np.random.Generator
    | np.random.RandomState
    | None,
) -> np.random.SeedSequence:
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


def _check_shape(domain_shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(domain_shape)
    except TypeError:
        raise TypeError(
            "domain_shape must be a sequence of attribute sizes, or an object with "
            f"a domain_shape, got {domain_shape!r}"
        ) from None
    if not sizes:
        raise ValueError("domain_shape must name at least one attribute, got none")
    shape = tuple(
        check_integer(size, f"domain_shape[{i}]") for i, size in enumerate(sizes)
    )
    if max(shape) > np.iinfo(np.int32).max:
        raise DomainTooLargeError(
            f"an attribute may have at most {np.iinfo(np.int32).max:,} values, got "
            f"{max(shape):,}; bin it first"
        )
    return shape


def _check_labels(
    labels: ArrayLike, name: str, n_records: int, n_labels: int
) -> NDArray[Any]:
    """Return one label in 0..n_labels - 1 per record."""
    array = np.asarray(labels)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.shape != (n_records,):
        raise ValueError(
            f"{name} must have one entry for each of the {n_records} records, "
            f"got shape {array.shape}"
        )
    bad = array.size and (array.min() < 0 or array.max() >= n_labels)
    if bad:
        row = int(np.argmax((array < 0) | (array >= n_labels)))
        raise ValueError(f"{name} must lie in 0..{n_labels - 1}, row {row} does not")
    return array


def _chunk(labels: NDArray[Any], start: int) -> NDArray[np.int64]:
    """Copy one chunk of labels as int64: one layout, so one compiled kernel."""
    return np.array(labels[start : start + CHUNK], dtype=np.int64, order="C")


def _read_only(value: ArrayLike, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a one-dimensional read-only array of its own, copied if need be."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}")
    if array.dtype == dtype and not array.flags.writeable and array.base is None:
        return array
    limits = np.iinfo(dtype)
    if array.size and (array.min() < limits.min or array.max() > limits.max):
        raise ValueError(f"{name} must fit {dtype}, got {_brief(array)}")
    frozen = np.array(array, dtype=dtype, order="C")
    frozen.flags.writeable = False
    return frozen


def _brief(array: NDArray[Any]) -> str:
    shown = ", ".join(str(entry) for entry in array[:8].tolist())
    return f"[{shown}, ...]" if array.size > 8 else f"[{shown}]"


def _count(number: int) -> str:
    """Print a count that may be astronomically large."""
    return f"{number:,}" if number < 10**15 else f"about 10^{len(str(number)) - 1}"
