r"""Monotone attributes: what was released is moved to keep public directions.

A model keeps to them if, from a record to one that is further on in the direction of a
monotone attribute and the same in all others, no log-odds of a class against the one
before it fall,

.. math:: \log \hat p(c \mid x) - \log \hat p(c - 1 \mid x) \le
    \log \hat p(c \mid x') - \log \hat p(c - 1 \mid x') .

Probabilities of the two records then have a monotone likelihood ratio, so that the
probability of the classes from c on does not fall for any c, and neither does the most
likely class [1]_. Log-odds of trees and scores add up, and so it is enough that each of
them keeps to it.

Tables of scores and leaves of trees are only partly ordered: one is *below* another if
a record of the one may become a record of the other. Views of one attribute or two say
this exactly. Of signed sums, and of scores, only the direction in which they may move
is used: this finds too many pairs, never too few, and more pairs still leave a model
that keeps to all of them. Log-odds become the nearest ones in that order, weighted by
what is known of their noise: isotonic regression, by recursive partition into an upper
and a lower set [2]_. All of it is post-processing.

Votes are whole multiples of 1 / VOTE_STEPS, so that their sums are exact.

References
----------
.. [1] Karlin, Rubin, "The theory of decision procedures for distributions with
   monotone likelihood ratio", Annals of Mathematical Statistics 27, 1956.
.. [2] Spouge, Wan, Wilbur, "Least squares isotonic regression in two dimensions",
   Journal of Optimization Theory and Applications 117, 2003.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from mmech import Attribute
from mmech_rf.drawn.draw import Branch, Fork, SelectedTree
from mmech_rf.drawn.views import ScoreView, View

__all__ = [
    "Orders",
    "cell_orders",
    "isotonic",
    "monotone_leaves",
    "monotone_steps",
    "moves",
    "tree_order",
]

Floats = NDArray[np.float64]
Order = NDArray[np.bool_]

Orders: TypeAlias = tuple[Order | None, ...]
"""For every attribute which cells, shape (n, n), may follow which: those further on and
the cell itself. None where nothing is known of it, and only the cell itself does."""

CAPACITY = 2**29
"""Gain resolution: gains of a group add up to this, in 32-bit capacities."""


def cell_orders(attributes: Sequence[Attribute]) -> Orders:
    """Return the orders of the cells of attributes; empty if none is monotone."""
    orders = tuple(map(_cell_order, attributes))
    return orders if any(order is not None for order in orders) else ()


def _cell_order(attribute: Attribute) -> Order | None:
    if attribute.monotone is None:
        return None
    cells = np.arange(attribute.size) * attribute.monotone
    order = cells[:, None] <= cells
    if attribute.other_code is not None:
        order[attribute.other_code] = order[:, attribute.other_code] = False
        np.fill_diagonal(order, True)
    return np.asarray(order)


# ---- what is below what ----------------------------------------------------------


def moves(view: View | ScoreView, orders: Orders) -> Order:
    """Return which cells of a view may follow which, shape (size, size)."""
    if all(orders[i] is None for i in view.attributes):
        return np.eye(view.size, dtype=bool)
    if isinstance(view, View) and not view.cuts:
        return _moves_cell_by_cell(view, orders)
    if isinstance(view, View):
        followers = [orders[i] for i in view.attributes]
    else:
        followers = [moves(part, orders) for part in view.parts]
    changes = [
        (np.array(table)[None, :] - np.array(table)[:, None])[order]
        for table, order in zip(view.tables, followers, strict=True)
        if order is not None
    ]
    cells = np.arange(view.size)
    out = cells[:, None] == cells
    if any((change > 0).any() for change in changes):
        out |= cells[:, None] < cells
    if any((change < 0).any() for change in changes):
        out |= cells[:, None] > cells
    return np.asarray(out)


def _moves_cell_by_cell(view: View, orders: Orders) -> Order:
    pairs = {(0, 0)}
    for i, table in zip(view.attributes, view.tables, strict=True):
        own, order = np.array(table), orders[i]
        before, after = (own, own) if order is None else own[np.array(order.nonzero())]
        parts = set(zip(before.tolist(), after.tolist(), strict=True))
        pairs = {(a + c, b + d) for a, b in pairs for c, d in parts}
    out = np.zeros((view.size, view.size), bool)
    out[tuple(zip(*pairs, strict=True))] = True
    return out


def tree_order(tree: SelectedTree, orders: Orders) -> Order:
    """Return which leaves of a tree may follow which, shape (n_leaves, n_leaves).

    Leaves that follow one that follows another follow that one, too.
    """
    paths = list(_paths(tree.root, tree.branches))
    below = np.ones((len(paths), len(paths)), bool)
    for i, order in enumerate(orders):
        held = _held(paths, i)
        if held is not None:
            # At most counts of cells: exact in float32.
            may = held if order is None else held @ order.astype(np.float32)
            below &= may @ held.T > 0
    for view in dict.fromkeys(view for path in paths for view, _ in path if view.cuts):
        cells = np.array([dict(path).get(view, -1) for path in paths])
        known = cells >= 0
        either = ~(known[:, None] & known)
        below &= either | moves(view, orders)[cells[:, None], cells]
    np.fill_diagonal(below, True)  # also of leaves that no record reaches
    return _closed(below)


Path: TypeAlias = tuple[tuple[View | ScoreView, int], ...]
"""Views from the root to a leaf, and the cell of each."""


def _paths(view: View | ScoreView, branches: Sequence[Branch]) -> Iterator[Path]:
    """Yield the paths of all leaves below a view, in their order."""
    for cell, branch in enumerate(branches):
        if branch is None:
            yield ((view, cell),)
            continue
        fork = branch if isinstance(branch, Fork) else _last(branch)
        for path in _paths(fork.view, fork.branches):
            yield ((view, cell), *path)


def _last(view: View | ScoreView) -> Fork:
    return Fork(view, (None,) * view.size)


def _held(paths: Sequence[Path], attribute: int) -> NDArray[np.float32] | None:
    """Return which cells of an attribute each leaf holds, (n_leaves, n), as 0 and 1.

    As far as views say that look at it by itself; None if there are none.
    """
    out: NDArray[np.float32] | None = None
    for leaf, path in enumerate(paths):
        for view, cell in path:
            if not isinstance(view, View) or view.cuts:
                continue
            if attribute in view.attributes:
                place = view.attributes.index(attribute)
                if out is None:
                    out = np.ones((len(paths), len(view.tables[place])), np.float32)
                others = {0}
                for j, table in enumerate(view.tables):
                    if j != place:
                        others = {a + b for a in others for b in table}
                out[leaf] *= np.isin(cell - np.array(view.tables[place]), [*others])
    return out


def _closed(below: Order) -> Order:
    """Return the transitive closure of a reflexive relation."""
    while True:
        known = below.astype(np.float32)
        further = known @ known > 0
        if (further == below).all():
            return below
        below = further


# ---- isotonic regression ----------------------------------------------------------


def isotonic(values: Floats, weights: Floats, below: Order) -> Floats:
    """Return the nearest values that do not fall, in a partial order.

    Parameters
    ----------
    values, weights : ndarray of float64, shape (n,)
        Weights are positive.
    below : ndarray of bool, shape (n, n)
        Whether the second must have at least the value of the first; transitive. Two
        may be below each other, and then get the same value.

    Returns
    -------
    ndarray of float64, shape (n,)
        Of least weighted sum of squared distances, up to the resolution of gains.

    Examples
    --------
    >>> import numpy as np
    >>> chain = np.triu(np.ones((4, 4), bool))
    >>> isotonic(np.array([1.0, 4.0, 2.0, 5.0]), np.ones(4), chain)
    array([1., 3., 3., 5.])
    """
    out = np.empty(values.size)
    groups = [np.arange(values.size)] if values.size else []
    while groups:
        group = groups.pop()
        mean = np.average(values[group], weights=weights[group])
        gains = weights[group] * (values[group] - mean)
        upper = _heaviest_upper_set(gains, below[np.ix_(group, group)])
        if 0 < upper.sum() < group.size:
            groups += [group[upper], group[~upper]]
        else:
            out[group] = mean
    # What roundings of gains may have left.
    return np.where(below, out[:, None], -np.inf).max(axis=0, initial=-np.inf)


def _heaviest_upper_set(gains: Floats, below: Order) -> NDArray[np.bool_]:
    """Return the members of the upper set whose gains add up to most, shape (n,).

    A minimum cut (Picard): from a source to gains, from losses to a sink, and never
    between a member and what is above it.
    """
    size = np.abs(gains).sum()
    if not (below & (gains[:, None] > gains)).any():
        return gains > 0  # in order already
    whole = np.rint(gains / size * CAPACITY).astype(np.int32)
    n = gains.size
    first, second = np.nonzero(_covers(below))
    nodes = np.arange(n)
    tails = np.concatenate([np.full(n, n), nodes, first])
    heads = np.concatenate([nodes, np.full(n, n + 1), second])
    most = np.full(first.size, 2 * CAPACITY, np.int32)
    capacities = np.concatenate([np.maximum(whole, 0), np.maximum(-whole, 0), most])
    shape = (n + 2, n + 2)
    graph = csr_array((capacities, (tails, heads)), shape=shape)
    flow = maximum_flow(graph, n, n + 1).flow
    left = graph - flow
    left.data *= left.data > 0
    left.eliminate_zeros()
    reached = breadth_first_order(left, n, return_predecessors=False)
    out = np.zeros(n + 2, bool)
    out[reached] = True
    return np.asarray(out[:n])


def _covers(below: Order) -> Order:
    """Return pairs that a transitive relation follows from: few, if it is large."""
    same = below & below.T
    # Each class of members that are below each other is a ring.
    first = same.argmax(axis=1)
    ring = np.zeros_like(below)
    members = np.arange(len(below))
    ring[members, first] = ring[first, members] = True
    strict = (below & ~below.T).astype(np.float32)
    return np.asarray(ring | ((strict > 0) & (strict @ strict == 0)))


def monotone_steps(
    log_odds: NDArray[Any], precision: Floats, below: Order
) -> NDArray[np.int64]:
    """Return the nearest whole log-odds that keep to an order.

    Parameters
    ----------
    log_odds : ndarray, shape (n, k)
        In steps; rows are cells or leaves.
    precision : ndarray of float64, shape (n, k)
        Inverse variance of every entry, relative to the others.
    below : ndarray of bool, shape (n, n)
        Order of the rows, as in `isotonic`.

    Returns
    -------
    ndarray of int64, shape (n, k)
        No difference of a class to the one before falls.
    """
    shares = np.zeros((2, 0, log_odds.shape[1] - 1))
    steps, _ = _moved(np.diff(log_odds), precision, below, np.zeros(0, int), shares)
    return from_steps(steps)


def from_steps(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return whole log-odds from differences of classes, about centred."""
    whole = np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1)
    return whole - np.rint(whole.mean(axis=1, keepdims=True)).astype(np.int64)


def _moved(
    steps: NDArray[Any],
    precision: Floats,
    below: Order,
    free: NDArray[np.int64],
    ends: NDArray[Any],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return differences of classes in order, and the ends of ranges in free rows.

    A free row has a range of differences, between two `ends`, (2, n_free, k - 1). Both
    ends take part: the lower one has what is below the row below it, and the upper one
    what is above; of two free rows lower ends are compared, and upper ones. What is
    then moved into its range keeps to the order.
    """
    n = len(steps)
    rows = np.append(np.arange(n), free)
    values = np.concatenate([steps, ends[1]])
    values[free] = ends[0]
    order = below[np.ix_(rows, rows)]
    order[n:, free] = False  # but by what is between them
    if free.size:
        order = _closed(order)
    doubt = 1 / precision[rows]
    out = np.empty(values.shape, np.int64)
    for c, column in enumerate(values.T):
        weights = 1 / (doubt[:, c + 1] + doubt[:, c])
        out[:, c] = np.rint(isotonic(column.astype(np.float64), weights, order))
    upper = out[:n].copy()
    upper[free] = out[n:]
    return out[:n], np.stack([out[:n], upper])


def monotone_leaves(
    tree: SelectedTree,
    orders: Orders,
    log_odds: NDArray[Any],
    precision: Floats,
    *,
    seen: NDArray[np.int64],
    votes: NDArray[np.int64] | None = None,
    free: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what leaves vote in order, and limits for leaves that stand for scores.

    Parameters
    ----------
    tree : SelectedTree
    orders : Orders
    log_odds, precision : ndarray, shapes (n_leaves, k)
        As in `monotone_steps`.
    seen : ndarray of int64, shape (m, d)
        Public records, as if they were spread evenly, that show the range of votes.
    votes : ndarray of int64, shape (m, k), optional
        What the scores vote for them.
    free : ndarray of bool, shape (n_leaves,)
        Leaves that stand for scores.

    Returns
    -------
    log_odds : ndarray of int64, shape (n_leaves, k)
        Zero in free leaves.
    limits : ndarray of int64, shape (2, n_leaves, k - 1)
        What differences of the votes of scores are to be moved between.
    """
    below, rows = tree_order(tree, orders), np.flatnonzero(free)
    ends = np.zeros((2, rows.size, log_odds.shape[1] - 1), np.int64)
    if rows.size:
        assert votes is not None
        leaves, steps = tree.leaves(seen), np.diff(votes)
        for place, leaf in enumerate(rows):
            here = leaves == leaf
            shown = steps[here] if here.any() else steps
            ends[:, place] = shown.min(axis=0), shown.max(axis=0)
    found, limits = _moved(np.diff(log_odds), precision, below, rows, ends)
    whole = from_steps(found)
    whole[free] = 0
    return whole, limits
