r"""Labelled trees of two levels, drawn whole by the exponential mechanism.

A tree looks at a record through a public view, and in each of its cells through another
one, or none; every leaf has a class. All trees of two levels, with all their labels,
are candidates. The score of one is the number of records that it classifies correctly:
one record changes it by at most one, and never lowers it. So a draw with weights
:math:`e^{\epsilon q}` costs epsilon, once, for structure and labels together: no budget
goes into counts that are then only compared.

The candidates are far too many to list, but weights of trees factorise. With n(c) the
records of class c in a node, and :math:`\pi` a public prior,

.. math::

    Z_{leaf} = \frac{1}{k} \sum_c e^{\epsilon n(c)}, \qquad
    Z_{node} = \frac{1}{2} Z_{leaf}
        + \frac{1}{2} \sum_v \pi_v \prod_{z \in v} Z_{leaf}(z), \qquad
    Z_{root} = \sum_v \pi_v \prod_{z \in v} Z_{node}(z) .

Products of sums over disjoint cells are sums over all trees. So the root, the views of
its cells and the labels are drawn one after the other from the exact joint
distribution. The sums are the context tree weighting of Willems, Shtarkov and Tjalkens,
over views in place of suffixes.

An earlier release may predict a class for every record. Then a leaf may stand for this
prediction in place of a class. Whether a record is predicted right is a property of the
record alone, and a tree scores it once: n(c) only gets one more c. The drawn tree keeps
the earlier prediction in some leaves and improves on it in others (Kohavi's trees with
naive Bayes in their leaves).

References
----------
.. [1] McSherry, Talwar, "Mechanism design via differential privacy", FOCS 2007.
.. [2] Willems, Shtarkov, Tjalkens, "The context-tree weighting method: basic
   properties", IEEE Transactions on Information Theory 41(3), 1995.
.. [3] Kohavi, "Scaling up the accuracy of naive-Bayes classifiers: a decision-tree
   hybrid", KDD 1996.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmech.noise import FRACTION_BITS, weighted_choice
from mmech.noise.seam import drawn
from mmech.privacy.neighbours import Relation
from mmech.selection import fixed_point_rate, logarithms
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.drawn.views import ScoreView, View, Views
from mmech_rf.estimator.votes import check_labels, check_that
from mmech_rf.limits import LIMITS

MOST_MAPS = 16
"""Counting: views that need more maps are counted record by record."""

MOST_GAPS = 2**17
"""Weights of labels are looked up for so many scores below the best."""

Words: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class BitMaps:
    """Records of few cells, to be counted 64 at a time: bit maps of cells of views.

    A bit map has one bit for every record, sorted by class. The number of records of a
    class in a node and in a cell is the number of common bits of two maps. One cell of
    a view needs no map, since its records are the rest of the node. Views that follow
    from finer ones need no maps. Weights of records are counted digit by digit of their
    binary numbers.

    Nothing here decides what is drawn: tables are the same, however they were counted.
    """

    slots: Integers  # bit of every record, (M,); sensitive, as are maps
    words: Integers  # first word of every class, and the end, (k + 1,)
    maps: Words  # shape (m, words[k])
    # First map of every view, (v,), or -1 where records are counted one by one.
    starts: Integers

    @classmethod
    def of(
        cls,
        views: Views,
        cells: NDArray[np.uint8],
        class_codes: Integers,
        n_classes: int,
    ) -> BitMaps:
        """Return the bit maps of records, with their cells in every view, (v, M)."""
        from mmech_rf._kernels import pack_views

        numbers = np.bincount(class_codes, minlength=n_classes)
        words = np.concatenate([[0], np.cumsum(-(-numbers // 64))]).astype(np.int64)
        order = np.argsort(class_codes, kind="stable")
        slots = np.empty(class_codes.size, np.int64)
        firsts = np.cumsum(numbers) - numbers
        skipped = np.repeat(64 * words[:-1] - firsts, numbers)
        slots[order] = np.arange(class_codes.size) + skipped
        few = (views.sizes - 1 <= MOST_MAPS) & (views.nesting[1] < 0)
        ends = np.cumsum(np.where(few, views.sizes - 1, 0))
        starts = np.where(few, ends - views.sizes + 1, -1)
        maps = np.zeros((int(ends[-1]), int(words[-1])), np.uint64)
        pack_views(cells, views.sizes, slots, starts, maps)
        return cls(slots, words, maps, starts)

    def digits(self, weights: Integers) -> Words:
        """Return the binary digits of weights as maps, lowest first, at least one."""
        from mmech_rf._kernels import pack_weights

        most = max(int(weights.max(initial=1)), 1)
        planes = np.zeros((most.bit_length(), self.maps.shape[1]), np.uint64)
        pack_weights(weights, self.slots, planes)
        return planes


def _gap_weights(n_labels: int, most: int, rate: int) -> Integers:
    """Return weights of labels by the distance of their score from the best, (n,).

    Whole numbers, so that sums of them are exact. The first, of the best label, is the
    power of two that keeps sums within 64 bits. There are at most `MOST_GAPS`.
    """
    from mmech_rf._kernels import NEGLIGIBLE

    n = min(int(NEGLIGIBLE) // rate + 2, most + 1, MOST_GAPS)
    best = 2.0 ** (62 - n_labels.bit_length())
    gaps = np.arange(n) * rate
    weights = np.rint(best * np.exp(np.ldexp(-gaps, -FRACTION_BITS)))
    return np.where(gaps < NEGLIGIBLE, weights, 0).astype(np.int64)


LARGEST_RATE = 2**60
"""Largest rate that the arithmetic takes: 2^24 nats for each unit of a score."""

LEAF_WORK = 20.0
"""Cost model: work for a leaf of a candidate, in records that are looked at; measured
in seconds, not in accuracy."""

# Provenance: as `DrawnSettings`.

SPLITTING = 0.5
"""Tree prior: probability that a cell of the root is split once more."""

COARSE_CELLS = 16
"""Candidate roots: single attributes of at most so many cells come before all other
views, and are more than the rest may be."""


Branch: TypeAlias = View | ScoreView | None
"""What a cell of the root holds: one more look at its records, or none."""


@storable("SelectedTree")
@dataclass(frozen=True)
class SelectedTree:
    """A released tree: safe to publish.

    Attributes
    ----------
    root : View or ScoreView
        First look at a record.
    branches : tuple of View, ScoreView or None, one per cell of the root
        Second look, if any.
    labels : tuple of ndarray of int64, one per cell of the root
        Class of every leaf; the number of classes stands for the earlier prediction.
    """

    root: View | ScoreView
    branches: tuple[Branch, ...]
    labels: tuple[Integers, ...]

    def check(self, domain_shape: tuple[int, ...], n_labels: int) -> None:
        """Raise unless it is a tree of this domain: a file may hold any."""
        self.root.check(domain_shape)
        check_that(len(self.branches) == self.root.size, "branches")
        for branch, labels in zip(self.branches, self.labels, strict=True):
            if branch is not None:
                branch.check(domain_shape)
            check_labels(labels, size_of(branch), n_labels)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return sum(labels.size for labels in self.labels)

    @property
    def views(self) -> Iterator[View | ScoreView]:
        """All views that it looks through, from the root on."""
        return (view for view in (self.root, *self.branches) if view is not None)

    def numbers(self, views: Views) -> Integers:
        """Return the tree as it was drawn: whole numbers, for evidence.

        Places of its looks among v views, v where a cell has none, and the classes of
        all leaves.
        """
        looks = [views.places[look] for look in (self.root, *self.branches)]
        return np.concatenate([looks, *self.labels])

    @classmethod
    def of(cls, numbers: Integers, views: Views) -> SelectedTree:
        """Return the tree that has these `numbers`."""
        looks = dict(enumerate((*views.items, None)))
        place, *rest = numbers.tolist()
        root = views.items[place]
        branches = tuple([looks[place] for place in rest[: root.size]])
        ends = np.cumsum([size_of(branch) for branch in branches])
        *labels, excess = np.split(np.array(rest[root.size :], np.int64), ends)
        check_that(excess.size == 0, "labels")
        return cls(root, branches, tuple(labels))

    def leaves(self, codes: Integers) -> Integers:
        """Return the leaf that every record reaches, numbered through, shape (N,)."""
        first, start = self.root.cells(codes), 0
        out = np.empty(codes.shape[0], np.int64)
        for cell, branch in enumerate(self.branches):
            rows = np.flatnonzero(first == cell)
            out[rows] = start
            if branch is not None and rows.size:
                out[rows] += branch.cells(codes[rows])
            start += size_of(branch)
        return out


def size_of(branch: Branch) -> int:
    """Return the number of leaves below a branch."""
    return 1 if branch is None else branch.size


def select_tree(
    views: Views,
    cells: NDArray[np.uint8],
    class_codes: Integers,
    *,
    n_classes: int,
    epsilon: Fraction,
    n_records: float,
    n_rows: float = math.inf,
    multiplicities: Integers | None = None,
    weights: Integers | None = None,
    unit: int = 1,
    predicted: Integers | None = None,
    maps: BitMaps | None = None,
    relation: Relation,
    pay: Callable[[], None],
    noise: np.random.Generator | None,
) -> SelectedTree:
    """Draw a labelled tree that classifies many records correctly.

    Cells of records in views, (v, M), their classes, (M,), and what follows from these
    are sensitive. Records count as often as they are there, times a weight from 0 to
    `unit`: a function of the record itself, and of what was released before. An earlier
    prediction of its class is one, too: a leaf may then be labelled with `n_classes`,
    which stands for it. What is stated of the number of records, and of distinct ones
    (`n_rows`), bounds the work; bit maps may have been made before.

    `pay` charges epsilon, or what it costs in rho, before anything is drawn: nothing is
    drawn if it refuses, and nothing is spent if epsilon is too small for the
    arithmetic. Proof: ``notebooks/proofs/labelled_trees.md``.
    """
    most = int(views.sizes.max())
    sums = 1 + most * (1 + most)
    rate = fixed_point_rate(
        epsilon,
        monotone=True,
        relation=relation,
        roundings=sums,
        score_unit=unit,
    )
    # More budget is not needed: the best tree is then drawn all but certainly.
    rate = min(rate, LARGEST_RATE)
    pay()
    if weights is None:
        weights = np.full(class_codes.size, unit, np.int64)
    if multiplicities is None:
        multiplicities = np.ones(class_codes.size, np.int64)

    roots = _roots(views, n_records, n_rows)
    # Contiguous: numba would compile the kernels anew for any other layout.
    nodes = NodeWeights(
        views, np.ascontiguousarray(cells), np.ascontiguousarray(class_codes),
        weights * multiplicities, predicted, n_classes, rate, maps,
    )  # fmt: skip

    def draw() -> SelectedTree:
        return _draw_top_down(nodes, roots, noise)

    exact = {
        "cells": cells, "class_codes": class_codes, "multiplicities": multiplicities,
        "weights": weights, "predicted": predicted,
    }  # fmt: skip
    tree = drawn(
        "tree", exact, draw, views=views, n_classes=n_classes, epsilon=epsilon,
        rate=Fraction(rate, 2**FRACTION_BITS), unit=unit, relation=relation,
        n_records=n_records, sums=sums,
    )  # fmt: skip
    return tree if isinstance(tree, SelectedTree) else SelectedTree.of(tree, views)


@dataclass(frozen=True, eq=False)
class NodeWeights:
    """Records, and log weights of what nodes of them may do; sensitive.

    Attributes are those of `select_tree`; weights include multiplicities.
    """

    views: Views
    cells: NDArray[np.uint8]
    class_codes: Integers
    weights: Integers
    predicted: Integers | None
    n_classes: int
    rate: int
    maps: BitMaps | None = None

    @cached_property
    def _tables(self) -> tuple[Any, ...]:
        """Arguments of kernels from `views` to `rate`.

        A record whose class is `predicted` right counts once more, in a further class.
        """
        from mmech_rf._kernels import view_tables

        views, weights, n_columns = self.views, self.weights, self.n_classes
        maps = self.maps or BitMaps.of(views, self.cells, self.class_codes, n_columns)
        planes = maps.digits(weights)
        n_planes, right = len(planes), weights[:0]
        if self.predicted is not None:
            n_columns += 1
            right = weights * (self.predicted == self.class_codes)
            planes = np.concatenate([planes, maps.digits(right)])
        offsets = np.concatenate([[0], np.cumsum(views.sizes * n_columns)])
        arguments = (
            self.cells, views.sizes, *views.nesting, self.class_codes, weights, right,
            self.n_classes, maps.slots, maps.words, maps.maps, maps.starts, planes,
            n_planes, offsets,
        )  # fmt: skip
        totals = np.empty(offsets[-1], weights.dtype)
        view_tables(*arguments, totals)
        gaps = _gap_weights(n_columns, int(weights.sum()), self.rate)
        return *arguments, gaps, totals, self.rate

    @cached_property
    def _log_split(self) -> Integers:
        return _fixed(self.views.log_prior) + _fixed(math.log(SPLITTING))

    def roots(self, roots: Integers) -> Integers:
        """Return log weights of all trees with these roots, (r, 2)."""
        from mmech_rf._kernels import add_log_sums

        _, finer, merged = self.views.nesting
        sizes = self.views.sizes
        out = np.zeros((roots.size, 2), np.int64)
        out[:, 1] = _fixed(self.views.log_prior)[roots]
        sums = dict(zip(roots.tolist(), out, strict=True))
        coarser = {int(finer[v]): v for v in sums}
        for head in sums:
            if int(finer[head]) in sums:
                continue
            # Nodes of a root are also those of coarser ones, which hold some of them.
            chain = [head]
            while chain[-1] in coarser:
                chain.append(coarser[chain[-1]])
            stops = np.cumsum(sizes[chain])
            joined = np.full(int(stops[-1]), -1)
            for v, after, stop in zip(chain, chain[1:], stops, strict=False):
                joined[stop - sizes[v] : stop] = stop + merged[after, : sizes[v]]
            ways = np.split(self.ways(head, joined), stops[:-1])
            for v, ways_of_v in zip(chain, ways, strict=True):
                add_log_sums(ways_of_v, self.rate, sums[v])
        return out

    def ways(self, root: int, joined: Integers | None = None) -> Integers:
        """Return log weights of what each cell of a root may do, (cells, v + 1, 2).

        It may be split by each of the views or, last, by none. Further nodes may hold
        records of others: where ``joined[i] = j``, node j holds all records of node i.
        """
        from mmech_rf._kernels import split_log_weights

        size = int(self.views.sizes[root])
        joined = np.full(size, -1) if joined is None else joined
        out = np.empty((joined.size, self.views.sizes.size + 1, 2), np.int64)
        split_log_weights(
            self.cells[root], size, joined, *self._tables, self._log_split,
            _fixed(math.log(1 - SPLITTING)), out,
        )  # fmt: skip
        return out

    def scores(self, way: int, rows: Integers) -> Integers:
        """Return scores of all labels of the leaves of a node, one row each."""
        sizes, k = self.views.sizes, self.n_classes
        splits = way < sizes.size
        leaf = self.cells[way, rows].astype(np.int64) if splits else np.zeros_like(rows)
        n_labels = k + (self.predicted is not None)
        scores = np.zeros((int(sizes[way]) if splits else 1, n_labels), np.int64)
        np.add.at(scores, (leaf, self.class_codes[rows]), self.weights[rows])
        if self.predicted is not None:
            right = self.predicted[rows] == self.class_codes[rows]
            np.add.at(scores[:, k], leaf[right], self.weights[rows][right])
        return scores


def _draw_top_down(
    nodes: NodeWeights, roots: Integers, noise: np.random.Generator | None
) -> SelectedTree:
    """Draw the root, then what its cells do, then the labels."""
    items = nodes.views.items
    root = int(roots[_choice(nodes.roots(roots), nodes.rate, noise)])
    first, branches, labels = nodes.cells[root], [], []
    for cell, log_weights in enumerate(nodes.ways(root)):
        way = _choice(log_weights, nodes.rate, noise)
        scores = nodes.scores(way, np.flatnonzero(first == cell))
        branches.append(items[way] if way < len(items) else None)
        classes = [
            weighted_choice(leaf, insecure_rng=noise)
            for leaf in logarithms(scores, nodes.rate)
        ]
        labels.append(np.array(classes, np.int64))
    return SelectedTree(items[root], tuple(branches), tuple(labels))


def _choice(
    log_weights: Integers, rate: int, insecure_rng: np.random.Generator | None
) -> int:
    """Draw by log weights, each a score and a rest, shape (n, 2)."""
    exact = logarithms(log_weights[:, 0], rate, log_weights[:, 1])
    return weighted_choice(exact, insecure_rng=insecure_rng)


def _fixed(logs: float | Floats) -> Integers:
    """Return public logarithms as whole numbers of 2**-FRACTION_BITS."""
    return np.rint(np.ldexp(logs, FRACTION_BITS)).astype(np.int64)


def _roots(views: Views, n_records: float, n_rows: float = math.inf) -> Integers:
    """Return the positions of candidate roots: all views, or the simplest.

    Work is bounded by public numbers only: `Limits.draw_visits`, and for coarse single
    attributes, which tell most, `Limits.coarse_visits`.
    """
    sizes = views.sizes
    leaves = LEAF_WORK * sizes * sizes.sum()
    work = sizes.size * max(n_records, 1.0) + leaves
    least = sizes.size * max(min(n_records, n_rows), 1.0) + leaves
    kinds = ("whole", "score", "single", "sum", "pair")
    families = np.array([kinds.index(view.family) for view in views.items])
    terms = np.array([len(view.attributes) for view in views.items])
    # Simple views first; a pair is also a view below one of its attributes.
    order = np.lexsort((sizes, terms, families))
    coarse = (families[order] <= 2) & (sizes[order] <= COARSE_CELLS)
    coarse &= np.cumsum(least[order]) <= LIMITS.coarse_visits
    within = (np.cumsum(work[order]) <= LIMITS.draw_visits) | coarse
    within[0] = True
    return np.sort(order[within])
