r"""Trees whose tests are drawn from the records, level by level, all trees at once.

Every node is drawn, with records or without: which nodes there are follows from the
domain and from earlier draws only. A node holds the records of a box of the domain,
kept as the values that it allows of each attribute.

Scores of tests are whole numbers that one record moves within a known window.

A test splits the records of a node into children, with n(v, c) records of class c in
child v. A score is a sum over children of a term of their class counts, so that a
record changes one term only. The exponential mechanism at rate :math:`\epsilon / w` is
:math:`\epsilon`-private for scores that an added record moves within an interval of
length w (`mmech.exponential_mechanism`).

=======  ======================================================  ====================
median   -abs(n(left) - n(right))                                [-1, 1]
max      sum_v max_c n(v, c)                                     [0, 1]
gini     -sum_v (n(v) - sum_c n(v, c)^2 / n(v))                  (-2, 0]
entropy  -sum_v n(v) H(v), in bits                               log2(kN + 1) + 1.44
gain     (1 + 1 / log2(number of children)) / 2 of the gain,     twice that
         n H - sum_v n(v) H(v): the mean of gain and gain ratio
=======  ======================================================  ====================

The last is "gain-and-ratio"; the information of a split is taken from even children,
which is public. For one node the entropy ranks tests as the information gain does.

Fractions are counted on a grid of 2^-6, rounded term by term. Counts of entropies
are clamped at a public N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from mmech.noise import FRACTION_BITS
from mmech.noise.seam import disjoint
from mmech.privacy.neighbours import Relation
from mmech.selection import choose_rows
from mmech_rf.arrays import Flags, Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import Level, children_of, cut_weights, lay_out
from mmech_rf.literature.recipe import LEAF_RECORDS, WORDS, Recipe
from mmech_rf.schema import Schema

GRID = 6
"""Scores that are not whole are counted in units of 2**-6."""

MOST = 2**24
"""Larger counts, of which squares do not fit, count as this; that keeps the windows."""

LARGEST_TABLE = 2**22
"""Most entries of the table of n log n: beyond, counts are clamped earlier."""


@dataclass(frozen=True)
class Score:
    """A score of tests."""

    # From class counts (..., k) of a child to its term, (...).
    term: Callable[[Integers], Integers]
    window: int  # that an added record moves all scores within
    contrast: bool = False  # minus the difference of two terms, not their sum
    ratio: bool = False  # gains over the node, and ratios by the number of children
    grid: int = 1  # units of the score to one record, or bit

    @property
    def size(self) -> float:
        """Length of the window, in records or bits."""
        return self.window / self.grid

    def two_way(self, left: Integers, right: Integers) -> Integers:
        """Return the scores of tests with two outcomes."""
        one, other = self.term(left), self.term(right)
        if self.contrast:
            return -abs(one - other)
        if self.ratio:
            return one + other - self.term(left + right)
        return one + other

    def multiway(self, children: Integers) -> Integers:
        """Return the scores of tests with a child per value, from (..., values, k)."""
        total = self.term(children).sum(axis=-1)
        if self.ratio:
            mean = round(2**15 * (1 + 1 / math.log2(children.shape[-2])))
            return (total - self.term(children.sum(axis=-2))) * mean // 2**16
        return total


def _size(counts: Integers) -> Integers:
    return np.asarray(counts.sum(axis=-1))


def _largest(counts: Integers) -> Integers:
    return np.asarray(counts.max(axis=-1))


def _gini(counts: Integers) -> Integers:
    counts = np.minimum(counts, MOST)
    total = counts.sum(axis=-1)
    squares = (counts * counts).sum(axis=-1) << GRID
    return squares // np.maximum(total, 1) - (total << GRID)


def _entropy(table: Integers, most: int, counts: Integers) -> Integers:
    counts = np.minimum(counts, most)
    return np.asarray(table[counts].sum(axis=-1) - table[counts.sum(axis=-1)])


@lru_cache(maxsize=2)  # a fit asks for the most records, and for those there are
def _n_log_n(most: int) -> tuple[Integers, int]:
    """Return n log2(n) on the grid, for n = 0 .. most, and the window of its terms."""
    n = np.arange(most + 1, dtype=np.float64)
    table = np.rint(n * np.log2(np.maximum(n, 1)) * 2**GRID).astype(np.int64)
    table.flags.writeable = False
    # A term changes by a step of the table at n(v, c), less one at n(v) >= n(v, c);
    # steps increase, but for the rounding of the table.
    steps = np.diff(table)
    overshoot = (np.maximum.accumulate(steps) - steps).max()
    return table, int(steps.max() - steps.min() + overshoot)


def score_for(name: str, n_classes: int, n_records: float, unit: int = 1) -> Score:
    """Return a score, with the window that holds for records of weights up to `unit`.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech_rf.literature.grow import score_for
    >>> gini = score_for("gini", n_classes=2, n_records=100)
    >>> gini.two_way(np.array([3, 1]), np.array([0, 4])) / 64
    np.float64(-1.5)
    """
    if name == "median":
        return Score(_size, 2 * unit, contrast=True)
    if name == "max":
        return Score(_largest, unit)
    if name == "gini":
        return Score(_gini, (2 ** (GRID + 1) + 2) * unit, grid=2**GRID)
    most = min(math.ceil(2 * n_records) * unit, LARGEST_TABLE // n_classes)
    table, window = _n_log_n(n_classes * most)
    window *= unit
    term = partial(_entropy, table, most)
    if name == "entropy":
        return Score(term, window, grid=2**GRID)
    # The node and one child change, and a product is rounded down.
    return Score(term, 2 * window + 2, ratio=True, grid=2**GRID)


HISTOGRAM_ENTRIES = 2**23
"""Most counts of one pass over the records: nodes by values by classes."""

Release = Callable[[Integers, Fraction, Fraction, str], Integers]
"""From values, how much one record changes those of a tree, the cost in one tree and
words to noisy values. It was paid for."""


Pay = Callable[[Fraction, str, str, float], None]
"""Takes the cost in one tree, words, the kind of release, and its sensitivity there."""


@dataclass(eq=False)
class Grower:
    """Draws the tests of trees from weighted records."""

    schema: Schema
    recipe: Recipe
    codes: Integers  # shape (N, d); sensitive, as are classes and weights
    class_codes: Integers  # shape (N,)
    weights: Integers  # of every record in every tree, (N, n_trees)
    unit: int  # largest weight of a record
    score: Score  # what makes a test good
    medians: Score  # what makes a cut good that is drawn before the attribute
    relation: Relation  # what draws are calibrated to
    noise: np.random.Generator | None  # predictable source for tests
    pay: Pay  # called before the nodes of a level are drawn or measured
    release: Release  # adds noise to counts that were paid for
    rng: np.random.Generator  # public: which attributes are candidates where
    # Weights by which exact tests stop, where not all records count.
    sized: Integers | None = None
    _sizes: Integers = field(init=False)
    _starts: Integers = field(init=False)
    _ordered: Flags = field(init=False)
    _two_way: Flags = field(init=False)

    def __post_init__(self) -> None:
        self._sizes = np.array(self.schema.domain_shape, np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._sizes)])
        firsts = np.repeat(self._starts[:-1], self._sizes)
        self._position = np.arange(self._starts[-1]) - firsts
        kinds = [attribute.kind for attribute in self.schema.attributes]
        self._ordered = np.array([kind != "categorical" for kind in kinds], np.bool_)
        self._two_way = self._ordered | (self.recipe.splits == "binary")
        self._priors = self._log_widths()
        # One row per record and tree, ordered by tree.
        tree, record = np.nonzero(self.weights.T)
        self._record = record
        self._weight = self.weights[record, tree]
        self._sized = (self.weights if self.sized is None else self.sized)[record, tree]
        self._node = tree.astype(np.int64)

    def _log_widths(self) -> Integers:
        """Return public priors of all values: cuts between wide bins are likelier."""
        logs = np.zeros(self._starts[-1])
        for a, attribute in enumerate(self.schema.attributes):
            if self._ordered[a] and self._sizes[a] > 1:
                widths = cut_weights(attribute)
                part = slice(self._starts[a], self._starts[a + 1] - 1)
                logs[part] = np.log(widths / widths.mean())
        return np.rint(np.ldexp(logs, FRACTION_BITS)).astype(np.int64)

    # ---- levels ------------------------------------------------------------

    def grow(self, tests: tuple[Fraction, ...], stops: tuple[Fraction, ...]) -> Forest:
        """Draw all trees.

        The tests of each level cost so much in one tree, and so do noisy numbers of
        records, by which nodes of a level stop; empty, or zero, for none.
        """
        n_trees = self.weights.shape[1]
        what, kind, _ = SELECTIONS[self.recipe.selection]
        tree = np.arange(n_trees)
        boxes = np.ones((n_trees, self._starts[-1]), np.bool_)
        levels = []
        for number, cost in enumerate(tests):
            attribute = np.full(tree.size, -1)
            value = np.full(tree.size, -1)
            stopped = np.zeros(tree.size, np.bool_)
            if stops and stops[number]:
                stopped = self._stopped(tree.size, stops[number])
            if kind:
                by = WORDS["score"][self.recipe.score]
                size = self.score.size
                if kind == "laplace":
                    size = self.unit * len(self._sizes)
                self.pay(cost, f"{what} of level {number + 1}, by {by}", kind, size)
            elif self.recipe.stopping in ("size", "labelled"):
                stopped = self._sizes_of_nodes(tree.size) <= LEAF_RECORDS
            for part in self._parts(tree.size):
                with disjoint() if kind else nullcontext():
                    attribute[part], value[part] = self._draw(
                        part, boxes[part], stopped[part], cost
                    )
            levels.append(Level(tree, attribute, value))
            tree, boxes = self._descend(levels[-1], boxes)
            if not tree.size:
                break
        levels.append(Level(tree, np.full(tree.size, -1), np.full(tree.size, -1)))
        return _forest(levels, self.schema)

    def _parts(self, n_nodes: int) -> Iterator[slice]:
        """Yield nodes whose histograms fit into memory together."""
        entries = int(self._starts[-1]) * self.schema.n_classes
        most = max(1, HISTOGRAM_ENTRIES // entries)
        for first in range(0, n_nodes, most):
            yield slice(first, min(first + most, n_nodes))

    def _histogram(self, part: slice) -> Integers:
        """Return exact counts (nodes, values of all attributes, classes)."""
        from mmech_rf import _kernels

        shape = part.stop - part.start, self._starts[-1], self.schema.n_classes
        counts = np.zeros(shape, np.int64)
        rows = self._record, self._weight, self._node
        _kernels.node_histograms(
            self.codes, self.class_codes, *rows, part.start, part.stop, self._starts,
            counts,
        )  # fmt: skip
        return counts

    def _sizes_of_nodes(self, n_nodes: int) -> Integers:
        """Return exact numbers of records, which are public if attributes are."""
        inside = self._node >= 0
        counts = np.zeros(n_nodes, np.int64)
        np.add.at(counts, self._node[inside], self._sized[inside])
        return counts

    def _stopped(self, n_nodes: int, cost: Fraction) -> Flags:
        """Return which nodes are too small, by noisy numbers of records."""
        counts = self._sizes_of_nodes(n_nodes)
        what = "numbers of records of nodes"
        self.pay(cost, what, "laplace", self.unit)
        noisy = self.release(counts, Fraction(self.unit), cost, what)
        return noisy < 2**0.5 * self.schema.n_classes / float(cost)

    def _draw(
        self, part: slice, boxes: Flags, stopped: Flags, cost: Fraction
    ) -> tuple[Integers, Integers]:
        """Return the attribute and value of the test of every node of a part."""
        counts = self._histogram(part)
        possible = self._candidates(boxes)
        possible[stopped] = False
        inner = np.flatnonzero(possible.any(axis=1))
        place = np.full(boxes.shape[0], -1)
        if inner.size:
            *_, draw = SELECTIONS[self.recipe.selection]
            place[inner] = draw(self, counts[inner], possible[inner], cost)
        attribute = np.searchsorted(self._starts, place, side="right") - 1
        value = place - self._starts[attribute]
        attribute[place < 0] = -1
        value[(attribute < 0) | ~self._two_way[attribute]] = -1
        return attribute, value

    def _candidates(self, boxes: Flags) -> Flags:
        """Return which tests a node may have, by the value that they compare with.

        A child per value stands at the first value of its attribute. Public.
        """
        possible = np.zeros(boxes.shape, np.bool_)
        for a, start in enumerate(self._starts[:-1]):
            allowed = boxes[:, start : self._starts[a + 1]]
            several = allowed.sum(axis=1) > 1
            if self._ordered[a]:
                above = np.cumsum(allowed[:, ::-1], axis=1)[:, ::-1]
                possible[:, start : self._starts[a + 1]] = allowed & (above > 1)
            elif self._two_way[a]:
                possible[:, start : self._starts[a + 1]] = allowed & several[:, None]
            else:
                possible[:, start] = several & allowed.all(axis=1)
        if self.recipe.grid is not None:
            possible &= self._on_grid(self.recipe.grid)
        n_candidates = self.recipe.n_candidates(len(self._sizes))
        if n_candidates < len(self._sizes):
            order = self.rng.random((boxes.shape[0], len(self._sizes)))
            order[~np.logical_or.reduceat(possible, self._starts[:-1], axis=1)] = 2.0
            last = np.partition(order, n_candidates - 1, axis=1)[:, n_candidates - 1]
            drawn = order <= last[:, None]
            possible &= np.repeat(drawn, self._sizes, axis=1)
        return possible

    def _on_grid(self, points: int) -> Flags:
        """Return the values of attributes with an order that `points` cuts leave."""
        on_grid = np.ones(self._starts[-1], np.bool_)
        for a in np.flatnonzero(self._ordered):
            cuts = np.arange(self._sizes[a])
            chosen = np.rint(np.linspace(-1, self._sizes[a] - 1, points + 2)[1:-1])
            on_grid[self._starts[a] : self._starts[a + 1]] = np.isin(cuts, chosen)
        return on_grid

    def _values_of(self, attribute: Integers) -> Flags:
        """Return which values are of the attribute of each node."""
        matches = np.arange(len(self._sizes)) == attribute[:, None]
        return np.repeat(matches, self._sizes, axis=1)

    # ---- selections ----------------------------------------------------------

    def _scores(self, score: Score, counts: Integers) -> Integers:
        """Return the scores of all tests, (nodes, values)."""
        scores = np.zeros(counts.shape[:2], np.int64)
        for a, start in enumerate(self._starts[:-1]):
            part = slice(start, self._starts[a + 1])
            of_values = counts[:, part]
            total = of_values.sum(axis=1, keepdims=True)
            if self._ordered[a]:
                left = np.cumsum(of_values, axis=1)
                scores[:, part] = score.two_way(left, total - left)
            elif self._two_way[a]:
                scores[:, part] = score.two_way(of_values, total - of_values)
            else:
                scores[:, start] = score.multiway(of_values)
        return scores

    def _choose(
        self,
        scores: Integers,
        possible: Flags,
        cost: Fraction,
        window: int,
        priors: Integers | int = 0,
    ) -> Integers:
        return choose_rows(
            np.where(possible, scores, 0),
            cost,
            window=window,
            relation=self.relation,
            noise=self.noise,
            priors=priors,
            possible=possible,
        )

    def _joint(self, counts: Integers, possible: Flags, cost: Fraction) -> Integers:
        """Draw attribute and cut together."""
        scores = self._scores(self.score, counts)
        return self._choose(scores, possible, cost, self.score.window, self._priors)

    def _cut_then_attribute(
        self, counts: Integers, possible: Flags, cost: Fraction
    ) -> Integers:
        """Draw a cut of every candidate attribute, then one of the attributes.

        Each of the draws costs the same: one per candidate and one among them.
        """
        n_candidates = self.recipe.n_candidates(len(self._sizes))
        each = cost / (n_candidates + 1)
        medians = self._scores(self.medians, counts)
        rows = np.arange(len(counts))
        places = np.zeros((len(counts), n_candidates), np.int64)
        left = np.logical_or.reduceat(possible, self._starts[:-1], axis=1)
        usable = np.zeros(places.shape, np.bool_)
        for j in range(n_candidates):
            attribute = left.argmax(axis=1)
            usable[:, j] = left.any(axis=1)
            cuts = possible & self._values_of(attribute)
            nodes = np.flatnonzero(usable[:, j])
            if nodes.size:
                places[nodes, j] = self._cut(
                    counts[nodes], medians[nodes], cuts[nodes], attribute[nodes], each
                )
            left[rows, attribute] = False
        scores = self._scores(self.score, counts)[rows[:, None], places]
        chosen = self._choose(scores, usable, each, self.score.window)
        return places[rows, chosen]

    def _cut(
        self,
        counts: Integers,
        medians: Integers,
        possible: Flags,
        attribute: Integers,
        cost: Fraction,
    ) -> Integers:
        """Draw a cut of one attribute per node."""
        if self.recipe.cuts != "class-means":
            window = self.medians.window
            return self._choose(medians, possible, cost, window, self._priors)
        return self._between_means(counts, possible, attribute, cost)

    def _between_means(
        self, counts: Integers, possible: Flags, attribute: Integers, cost: Fraction
    ) -> Integers:
        """Return the cut halfway between the extreme noisy means of the classes.

        Means are of codes. Half of the cost a pays for class counts, half for class
        sums. In rho that is at most a²/4 for each of k attributes, and a²/8 for the
        choice: less than the ((k + 1) a)²/8 that is charged for all of them.
        """
        inside = self._values_of(attribute).astype(np.int64)
        numbers = np.einsum("nvk,nv->nk", counts, inside)
        sums = np.einsum("nvk,nv->nk", counts, inside * self._position)
        largest = Fraction(self.unit * (int(self._sizes.max()) - 1))
        n = self.release(numbers, Fraction(self.unit), cost / 2, "class counts of cuts")
        s = self.release(sums, largest, cost / 2, "class sums of cuts")
        means = np.clip(s / np.maximum(n, 1), 0, self._sizes[attribute, None] - 1)
        middle = (means.max(axis=1) + means.min(axis=1)) / 2
        distance = np.where(possible, abs(self._position - middle[:, None]), np.inf)
        return distance.argmin(axis=1)

    def _by_noisy_counts(
        self, counts: Integers, possible: Flags, cost: Fraction
    ) -> Integers:
        """Choose by noisy class counts of the values of all attributes."""
        size = Fraction(self.unit * len(self._sizes))
        noisy = self.release(counts, size, cost, "class counts of tests")
        return self._exact(np.maximum(noisy, 0), possible, cost)

    def _exact(self, counts: Integers, possible: Flags, cost: Fraction) -> Integers:
        """Choose the best test, from public records or noisy counts."""
        scores = self._scores(self.score, counts)
        return np.where(possible, scores, scores.min() - 1).argmax(axis=1)

    # ---- children ------------------------------------------------------------

    def _descend(self, level: Level, boxes: Flags) -> tuple[Integers, Flags]:
        """Move all records to the children; return their trees and boxes."""
        tree, attribute, value = level.tree, level.attribute, level.value
        n_children = children_of(level, self._sizes)
        first = np.cumsum(n_children) - n_children
        parent = np.repeat(np.arange(tree.size), n_children)
        branch = np.arange(parent.size) - first[parent]
        below = boxes[parent]
        for a in np.unique(attribute[attribute >= 0]):
            rows = np.flatnonzero(attribute[parent] == a)
            part = slice(self._starts[a], self._starts[a + 1])
            passed = self._branch(a, self._position[part], value[parent[rows], None])
            below[rows, part] &= passed == branch[rows, None]
        node = self._node
        inside = np.flatnonzero(node >= 0)
        tested = attribute[node[inside]]
        leaving = inside[tested < 0]
        inside, tested = inside[tested >= 0], tested[tested >= 0]
        codes = self.codes[self._record[inside], tested]
        moved = np.zeros(inside.size, np.int64)
        for a in np.unique(tested):
            rows = np.flatnonzero(tested == a)
            moved[rows] = self._branch(a, codes[rows], value[node[inside[rows]]])
        node[inside] = first[node[inside]] + moved
        node[leaving] = -1
        return tree[parent], below

    def _branch(self, a: int, codes: Integers, value: Integers) -> Integers:
        """Return the branch that codes of an attribute take."""
        failed = codes > value if self._ordered[a] else codes != value
        return np.where(value < 0, codes, failed)


SELECTIONS: dict[str, tuple[str, str, Callable[..., Integers]]] = {
    "joint": ("splits", "exponential", Grower._joint),
    "cut-then-attribute": (
        "cut points and splits", "exponential", Grower._cut_then_attribute,
    ),
    "noisy-counts": (
        "class counts of all values, for splits", "laplace", Grower._by_noisy_counts,
    ),
    "exact": ("", "", Grower._exact),
}  # fmt: skip
"""Selections by name: what is paid for, as which kind of release, empty if nothing is;
and how the tests of nodes are chosen, from exact counts, candidates and the cost."""


def grow_by_support(
    schema: Schema, n_trees: int, support: float, rng: np.random.Generator
) -> Forest:
    """Grow random trees with a child per value whose paths end one by one.

    A path of cells 1 in s holds ``support / s`` times the records that a leaf needs if
    records are spread evenly; it goes on by a random attribute whose children do. The
    first test is always there. Public.
    """
    sizes = np.array(schema.domain_shape, np.int64)
    tree, free = np.arange(n_trees), np.ones((n_trees, sizes.size), np.bool_)
    left, levels = np.full(n_trees, support), list[Level]()
    while tree.size:
        order = np.where(free, rng.random(free.shape), -1.0)
        attribute = order.argmax(axis=1)
        stopped = (left < sizes[attribute]) & bool(levels) | ~free.any(axis=1)
        attribute[stopped] = -1
        levels.append(Level(tree, attribute, np.full(tree.size, -1)))
        parent = np.repeat(np.arange(tree.size), children_of(levels[-1], sizes))
        tree, free = tree[parent], free[parent]
        left = left[parent] / sizes[attribute[parent]]
        free[np.arange(parent.size), attribute[parent]] = False
    return _forest(levels, schema)


def _forest(levels: list[Level], schema: Schema) -> Forest:
    """Return the forest of all levels."""
    ordered = tuple(a.kind != "categorical" for a in schema.attributes)
    arrays = lay_out(levels, np.array(schema.domain_shape, np.int64))
    return Forest(schema.domain_shape, **arrays, ordered=ordered)
