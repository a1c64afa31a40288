"""Forests over a public domain, stored as flat arrays.

A forest is grown (`mmech_rf.forest.growth`) from the domain alone: no record is ever
looked at, so the forest is public and costs no privacy. Everything that is later
measured about the data (leaf counts) or asked of it (votes) refers to leaf ids of the
forest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_integer
from mmech.exceptions import DomainTooLargeError
from mmech.storage.codec import storable
from mmech_rf.forest.checks import (
    check_flags,
    check_labels,
    check_layout,
    check_shape,
    in_words,
    read_only_vector,
)
from mmech_rf.limits import LIMITS

if TYPE_CHECKING:
    from mmech_rf.schema import Schema


WHAT = (
    "a Forest is trees depth first in flat arrays, as its docstring says: grow one "
    "with grow_random_forest, or make one of a fitted model with compile_forest"
)
"""What to do where arrays of other trees come."""


@storable("Forest")
@dataclass(frozen=True, eq=False, repr=False)
class Forest:
    """Trees that partition a categorical domain, as flat read-only arrays.

    An inner node tests one attribute. Either it has one child per value of it
    (multiway), or it compares with a single value and has two children: equal and not
    equal where the attribute has no order, at most and above where it has. Every child
    can be reached. The leaves of a tree partition the domain, and each is a box: a set
    of allowed values per attribute. Memory is 8 bytes a node, 28 with two-way tests.

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
    value : ndarray of int32, shape (n_nodes,), default=None
        Code that each node compares with, -1 at a leaf and where there is a child per
        value; None for a forest of multiway trees.
    ordered : sequence of bool, length d, default=None
        Whether two-way tests of an attribute are ``code <= value`` rather than
        ``code == value``; needed with `value`.

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
    compile_forest : Make one of a fitted model.

    Notes
    -----
    Trees are laid out depth first. Blocks of children are numbered in the order in
    which a left-to-right walk enters their parents; leaf ids count the leaves from left
    to right. So the leaves below any node are contiguous, and `child` follows from the
    tests. A step down the tree is ``child[node] + branch``, where the branch is the
    value of the tested attribute. In a two-way test the branch is 0 for records that
    pass and 1 for the others.

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

    The same domain cut in two by the second attribute:

    >>> Forest(
    ...     domain_shape=(2, 3),
    ...     feature=[1, -1, -1],
    ...     child=[1, 0, 1],
    ...     node_offsets=[0, 3],
    ...     leaf_offsets=[0, 2],
    ...     value=[0, -1, -1],
    ...     ordered=[False, True],
    ... ).apply_domain()
    array([[0, 1, 1, 0, 1, 1]], dtype=int32)
    """

    domain_shape: tuple[int, ...]
    feature: NDArray[np.int32]
    child: NDArray[np.int32]
    node_offsets: NDArray[np.int64]
    leaf_offsets: NDArray[np.int64]
    value: NDArray[np.int32] | None = None
    ordered: tuple[bool, ...] | None = None
    depth: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "domain_shape", check_shape(self.domain_shape))
        try:
            self._check()
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error}; {WHAT}") from None

    def _check(self) -> None:
        """Raise unless the arrays are sound, and keep what they say."""
        for name, dtype in (
            ("feature", np.int32),
            ("child", np.int32),
            ("node_offsets", np.int64),
            ("leaf_offsets", np.int64),
            *((("value", np.int32),) if self.value is not None else ()),
        ):
            frozen = read_only_vector(getattr(self, name), name, np.dtype(dtype))
            object.__setattr__(self, name, frozen)
        if self.value is not None:
            ordered = check_flags(self.ordered, "ordered", self.n_features)
            object.__setattr__(self, "ordered", ordered)
        elif self.ordered is not None:
            raise ValueError("ordered goes with value, got ordered alone")
        object.__setattr__(self, "depth", check_layout(self))

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor: plain unpickling would hand out writeable arrays.
        return type(self), tuple(getattr(self, f.name) for f in fields(self) if f.init)

    def __repr__(self) -> str:
        return (
            f"Forest(n_trees={self.n_trees}, depth={self.depth}, "
            f"n_leaves={self.n_leaves}, n_cells={self.n_cells})"
        )

    @property
    def origin(self) -> str:
        """What a user stated about the trees; empty if the domain alone made them."""
        return ""

    def suits(self, domain: Schema) -> bool:
        """Whether the trees test the attributes of a domain."""
        return self.domain_shape == domain.domain_shape

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

    @cached_property
    def _tests(self) -> NDArray[np.int32]:
        """Two-way tests as the kernels read them, (n_nodes, 4); (0, 4) without any."""
        if self.value is None:
            return np.empty((0, 4), np.int32)
        ordered = np.array(self.ordered, np.bool_)[self.feature]
        tests = np.empty((self.n_nodes, 4), np.int32)
        tests[:, 0] = self.feature
        tests[:, 1] = self.child
        tests[:, 2] = np.where(ordered, 0, self.value)
        tests[:, 3] = np.where(ordered | (self.value < 0), self.value, 0)
        return tests

    @property
    def _nodes(self) -> tuple[Any, ...]:
        """What kernels know of the nodes of all trees."""
        return self.feature, self.child, self._tests, self.node_offsets

    def apply(self, codes: ArrayLike) -> NDArray[np.int32]:
        """Find the leaf of every record in every tree.

        Time is O(N n_trees depth); nothing is stored but the result.

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
        >>> from mmech_rf import grow_random_forest
        >>> forest = grow_random_forest((4, 4, 3), n_trees=3, depth=2, seed=0)
        >>> forest.apply([[0, 1, 2], [3, 0, 1]])
        array([[9, 8, 9],
               [7, 4, 7]], dtype=int32)
        """
        from mmech_rf import _kernels

        codes = self._check_codes(codes)
        leaves = np.empty((codes.shape[0], self.n_trees), dtype=np.int32)
        for rows, chunk in self._narrow(codes):
            flat = leaves[rows].ravel()
            _kernels.apply_trees(*self._nodes, chunk, flat, self.n_trees, 1)
        return leaves

    def apply_domain(self) -> NDArray[np.int32]:
        """Find the leaf of every domain cell in every tree.

        Cells are in C order, the first attribute most significant. Time is O(n_cells
        n_trees depth).

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
        >>> from mmech_rf import grow_random_forest
        >>> forest = grow_random_forest((2, 3), n_trees=2, depth=1, seed=1)
        >>> forest.apply_domain()
        array([[0, 1, 2, 0, 1, 2],
               [0, 0, 0, 1, 1, 1]], dtype=int32)
        """
        from mmech_rf import _kernels

        entries = self.n_trees * self.n_cells
        if entries > LIMITS.label_entries:
            raise DomainTooLargeError(
                f"labels of {in_words(self.n_cells)} cells for {self.n_trees} trees "
                f"would have {in_words(entries)} entries, more than the limit of "
                f"{LIMITS.label_entries:,}; use leaf_masks(), fewer trees or fewer "
                "attributes"
            )
        labels = np.empty((self.n_trees, self.n_cells), dtype=np.int32)
        steps = self.n_cells // np.cumprod(self._sizes)
        for start in range(0, self.n_cells, LIMITS.routed_records):
            part = slice(start, min(start + LIMITS.routed_records, self.n_cells))
            cells = np.arange(part.start, part.stop)
            for _, codes in self._narrow(cells[:, None] // steps % self._sizes):
                flat = labels.ravel()[start:]
                _kernels.apply_trees(*self._nodes, codes, flat, 1, self.n_cells)
        return labels

    def count_leaves(
        self, codes: ArrayLike, class_codes: ArrayLike, n_classes: int
    ) -> NDArray[np.int64]:
        """Count the records of every class in every leaf of every tree.

        One pass over the records, without the (N, n_trees) table of leaf ids: O(N
        n_trees depth) time. Each record counts once in every tree, so the counts sum to
        N n_trees.

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
        >>> from mmech_rf import grow_random_forest
        >>> forest = grow_random_forest((2, 2), n_trees=2, depth=1, seed=1)
        >>> forest.count_leaves([[0, 1], [1, 1], [1, 1]], [0, 1, 1], 2)
        array([[0, 0],
               [1, 2],
               [1, 0],
               [0, 2]])
        """
        return self._count(codes, class_codes, n_classes)

    def count_assigned_leaves(
        self,
        codes: ArrayLike,
        class_codes: ArrayLike,
        n_classes: int,
        tree_index: ArrayLike,
    ) -> NDArray[np.int64]:
        """Count every record in the one tree it is assigned to.

        Time is O(N depth); nothing is stored but the result. The counts sum to N, and
        one record changes one entry by one.

        Parameters
        ----------
        codes, class_codes, n_classes
            As in `count_leaves`.
        tree_index : array-like of int, shape (N,)
            Tree of each record. For subsample-and-aggregate the caller draws it with
            `mmech.noise.assign_records`, independently for every record.

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
        >>> from mmech_rf import grow_random_forest
        >>> forest = grow_random_forest((2, 2), n_trees=2, depth=1, seed=1)
        >>> codes, classes, trees = [[0, 1], [1, 1], [1, 1]], [0, 1, 1], [0, 0, 1]
        >>> forest.count_assigned_leaves(codes, classes, 2, trees)
        array([[0, 0],
               [1, 1],
               [0, 0],
               [0, 1]])
        """
        return self._count(codes, class_codes, n_classes, tree_index)

    def _count(
        self,
        codes: ArrayLike,
        class_codes: ArrayLike,
        n_classes: int,
        tree_index: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Count every record in every tree, or in the one that it is assigned to."""
        from mmech_rf import _kernels

        codes = self._check_codes(codes)
        n_classes = check_integer(n_classes, "n_classes")
        columns = [check_labels(class_codes, "class_codes", len(codes), n_classes)]
        count = _kernels.count_leaves
        if tree_index is not None:
            count = _kernels.count_assigned_leaves
            columns += [
                check_labels(tree_index, "tree_index", len(codes), self.n_trees)
            ]
        counts = np.zeros((self.n_leaves, n_classes), dtype=np.int64)
        for rows, chunk in self._narrow(codes):
            # Copies of one layout, and so one compiled kernel.
            chosen = (np.array(column[rows], np.int64, order="C") for column in columns)
            count(*self._nodes, self.leaf_offsets, chunk, *chosen, counts)
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
        >>> from mmech_rf import grow_random_forest
        >>> forest = grow_random_forest((2, 3), n_trees=1, depth=1, seed=0)
        >>> for mask in forest.leaf_masks():
        ...     print(mask.astype(int).tolist())
        [[1, 1], [1, 1], [1, 1]]
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        """
        from mmech_rf import _kernels

        entries = self.n_leaves * sum(self.domain_shape)
        if entries > LIMITS.mask_entries:
            raise DomainTooLargeError(
                f"masks of {self.n_leaves:,} leaves over {sum(self.domain_shape):,} "
                f"attribute values would have {in_words(entries)} entries, more than "
                f"the limit of {LIMITS.mask_entries:,}; use fewer trees or a smaller "
                "depth"
            )
        flat = np.ones(entries, dtype=np.bool_)
        _kernels.leaf_masks(
            self._sizes, self.depth, *self._nodes, self.leaf_offsets, flat
        )
        ends = np.cumsum(self.n_leaves * self._sizes)
        return [block.reshape(self.n_leaves, -1) for block in np.split(flat, ends[:-1])]

    def paths(self, schema: Schema) -> list[str]:
        r"""Say in words which records are in every leaf.

        Parameters
        ----------
        schema : Schema
            The attributes of this domain.

        Returns
        -------
        list of str, length n_leaves
            What the tests on a path have in common, attribute by attribute; rows as in
            `leaf_offsets`. Upper ends belong to ranges of numbers.

        Raises
        ------
        ValueError
            If the schema is of another domain.
        DomainTooLargeError
            As in `leaf_masks`.

        Examples
        --------
        >>> from mmech_rf import Attribute, Schema, grow_random_forest
        >>> shape = Attribute.categorical("shape", ["round", "oval", "flat"])
        >>> size = Attribute.numeric("size", lower=0, upper=9, n_bins=3, unit="cm")
        >>> schema = Schema([shape, size], ["no", "yes"])
        >>> forest = grow_random_forest(schema, 1, 2, splits="binary", seed=0)
        >>> print(*forest.paths(schema), sep="\n")
        shape in {flat} and size up to 3 cm
        shape in {round, oval} and size up to 3 cm
        shape in {oval} and size above 3 cm
        shape in {round, flat} and size above 3 cm
        """
        from mmech_rf.schema import check_schema
        from mmech_rf.show.trees import EVERYONE, set_in_words

        check_schema(schema)
        if schema.domain_shape != self.domain_shape:
            raise ValueError(
                f"schema must be of the domain {self.domain_shape} of the forest, got "
                f"{schema.domain_shape}; pass the one it was made with"
            )
        masks = [*zip(schema.attributes, self.leaf_masks(), strict=True)]
        leaves = (
            [
                set_in_words(attribute, np.flatnonzero(mask[leaf]).tolist())
                for attribute, mask in masks
                if not mask[leaf].all()
            ]
            for leaf in range(self.n_leaves)
        )
        return [" and ".join(tests) or EVERYONE for tests in leaves]

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
                f"attribute, got {array.shape}; encode records with the schema"
            )
        return array

    def _narrow(self, codes: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield rows and their codes, checked, a byte a code where that holds it."""
        largest = self._sizes - 1
        dtype = np.uint8 if largest.max() <= np.iinfo(np.uint8).max else np.int32
        width = LIMITS.routed_records
        for start in range(0, len(codes), width):
            rows = slice(start, start + width)
            chunk = codes[rows]
            if (chunk < 0).any() or (chunk > largest).any():
                # Row and column only: the value may be sensitive.
                row, column = np.argwhere((chunk < 0) | (chunk > largest))[0]
                raise ValueError(
                    f"codes of attribute {column} must lie in 0..{largest[column]}, "
                    f"row {start + row} does not; encode records with the schema"
                )
            yield rows, np.array(chunk, dtype=dtype, order="C")


def check_forest(forest: Any) -> None:
    """Raise unless it is a forest."""
    if not isinstance(forest, Forest):
        raise TypeError(
            f"forest must be a Forest, got {type(forest).__name__}; grow one with "
            "grow_random_forest or complete_forest, or make one of a fitted model with "
            "compile_forest"
        )
