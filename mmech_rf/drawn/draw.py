r"""Labelled trees of two levels, drawn as a whole by the exponential mechanism.

A tree looks at a record through a public view, and in each of its cells through
another one, or none; every leaf has a class. All such trees, with all their labels,
are candidates. The score of one is the number of records that it classifies
correctly: one record changes it by at most one, and never lowers it. So a draw with
weights :math:`e^{\epsilon q}` costs epsilon, once, for structure and labels together:
no budget goes into counts that are then only compared.

The candidates are far too many to list, but weights of trees factorise. With n(c) the
records of class c in a node, and :math:`\pi` a public prior,

.. math::

    Z_{leaf} = \frac{1}{k} \sum_c e^{\epsilon n(c)}, \qquad
    Z_{node} = \frac{1}{2} Z_{leaf}
        + \frac{1}{2} \sum_v \pi_v \prod_{z \in v} Z_{leaf}(z), \qquad
    Z_{root} = \sum_v \pi_v \prod_{z \in v} Z_{node}(z) .

Products of sums over disjoint cells are sums over all trees, so that the root, then
the views of its cells, then the labels are drawn one after the other from the exact
joint distribution. The sums are the context tree weighting of Willems, Shtarkov and
Tjalkens, over views in place of suffixes.

Where something was released before that predicts a class for every record, leaves
may stand for it in place of a class of their own. That a record is predicted right
is a property of the record alone, and a tree scores it once as before: n(c) only gets
one more c. So a tree is drawn that knows where to trust the earlier prediction, and
where to do better (Kohavi's trees with naive Bayes in their leaves).

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mmech.noise import FRACTION_BITS, weighted_choice
from mmech.noise.seam import drawn
from mmech.privacy.neighbours import Relation
from mmech.selection import fixed_point_rate, logarithms
from mmech.storage.codec import storable
from mmech_rf.drawn.bits import BitMaps, counted
from mmech_rf.drawn.settings import DrawnSettings
from mmech_rf.drawn.views import ScoreView, View, Views
from mmech_rf.limits import LIMITS
from mmech_rf.private.votes import check_labels, check_that

__all__ = ["SelectedTree", "select_tree"]

LARGEST_RATE = 2**60
"""Largest rate that the arithmetic takes: 2^24 nats for each unit of a score."""

COARSE = 16
"""Candidate roots: single attributes of at most so many cells come before all others,
and are more than the rest may be."""

LEAF_WORK = 20.0
"""Cost model: work for a leaf of a candidate, in records that are looked at."""


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
    branches: tuple[View | ScoreView | None, ...]
    labels: tuple[NDArray[np.int64], ...]

    def check(self, domain_shape: tuple[int, ...], n_labels: int) -> None:
        """Raise unless it is a tree of such records: a file may hold any."""
        self.root.check(domain_shape)
        check_that(len(self.branches) == self.root.size, "branches")
        for branch, labels in zip(self.branches, self.labels, strict=True):
            if branch is not None:
                branch.check(domain_shape)
            check_labels(labels, 1 if branch is None else branch.size, n_labels)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return sum(labels.size for labels in self.labels)

    def leaves(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the leaf that every record reaches, numbered through, shape (N,)."""
        return self._leaves(self.root.cells(codes), codes)

    def _leaves(
        self, first: NDArray[np.uint8], codes: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        out = np.empty(codes.shape[0], np.int64)
        start = 0
        for cell, (branch, labels) in enumerate(
            zip(self.branches, self.labels, strict=True)
        ):
            here = np.flatnonzero(first == cell)
            out[here] = start
            if branch is not None and here.size:
                out[here] += branch.cells(codes[here])
            start += labels.size
        return out

    def describe(self, names: Sequence[str], classes: Sequence[object]) -> str:
        """Return the tree as text.

        Parameters
        ----------
        names : sequence of str
            Names of the attributes.
        classes : sequence
            Labels of the classes.
        """
        words = [*map(str, classes), "by score"]
        lines = [f"by {self.root.describe(names)}:"]
        for cell, (branch, labels) in enumerate(
            zip(self.branches, self.labels, strict=True)
        ):
            found = ", ".join(words[c] for c in labels)
            by = "" if branch is None else f"by {branch.describe(names)}: "
            lines.append(f"  {cell}: {by}{found}")
        return "\n".join(lines)


def select_tree(
    views: Views,
    cells: NDArray[np.uint8],
    class_codes: NDArray[np.int64],
    *,
    n_classes: int,
    epsilon: Fraction,
    n_records: float,
    n_rows: float = math.inf,
    multiplicities: NDArray[np.int64] | None = None,
    weights: NDArray[np.int64] | None = None,
    unit: int = 1,
    predicted: NDArray[np.int64] | None = None,
    maps: BitMaps | None = None,
    splitting: float = DrawnSettings.splitting,
    relation: Relation,
    pay: Callable[[], None],
    noise: np.random.Generator | None,
) -> SelectedTree:
    """Draw a labelled tree that classifies many records correctly.

    Parameters
    ----------
    views : Views
        What trees are made of.
    cells : ndarray of uint8, shape (v, M)
        Cell of every record in every view. Sensitive.
    class_codes : ndarray of int64, shape (M,)
        Class of every record. Sensitive.
    n_classes : int
        Number of classes.
    epsilon : Fraction
        Budget of the draw, in nats.
    n_records : float
        Public number of records, roughly, which bounds the work.
    n_rows : float, default=inf
        Public bound on the number of distinct records, such as cells times classes.
    multiplicities : ndarray of int64, shape (M,), optional
        How often each record is there; once by default. Sensitive.
    weights : ndarray of int64, shape (M,), optional
        What each record counts for, from 0 to `unit`; a function of the record itself
        and of what was released before. Sensitive.
    unit : int, default=1
        Largest weight.
    predicted : ndarray of int64, shape (M,), optional
        An earlier prediction of the class of every record, a function of the record's
        attributes and of what was released before. A leaf may then be labelled with
        `n_classes`, which stands for it. Sensitive.
    maps : BitMaps, optional
        Bit maps of these records, where they were made before. Sensitive.
    splitting : float, default=0.5
        Tree prior: probability that a cell of the root is split once more.
    relation : Relation
        Neighbour relation of the guarantee.
    pay : callable
        Charges epsilon, or what it costs in rho, to a ledger; called before anything
        is drawn.
    noise : numpy.random.Generator or None
        Predictable source for tests.

    Returns
    -------
    SelectedTree

    Raises
    ------
    BudgetExceededError
        If `pay` refuses; nothing is drawn.
    ValueError
        If epsilon is too small for the arithmetic; nothing is spent.

    Notes
    -----
    Proof: ``notebooks/proofs/labelled_trees.md``.
    """
    most = int(views.sizes.max())
    rate = fixed_point_rate(
        epsilon,
        monotone=True,
        relation=relation,
        roundings=1 + most * (1 + most),
        score_unit=unit,
    )
    # More budget is not needed: the best tree is then drawn all but certainly.
    rate = min(rate, LARGEST_RATE)
    pay()
    if weights is None:
        weights = np.full(class_codes.size, unit, np.int64)
    if multiplicities is None:
        multiplicities = np.ones(class_codes.size, np.int64)

    def draw() -> SelectedTree:
        roots = _roots(views, n_records, n_rows)
        return _draw_top_down(
            views, cells, class_codes, weights * multiplicities, predicted, maps,
            n_classes, rate, roots, splitting, noise,
        )  # fmt: skip

    seen = {
        "cells": cells, "class_codes": class_codes, "multiplicities": multiplicities,
        "weights": weights, "predicted": predicted,
    }  # fmt: skip
    return drawn(
        "tree", seen, draw, views=views, n_classes=n_classes, epsilon=epsilon,
        rate=Fraction(rate, 2**FRACTION_BITS), unit=unit, relation=relation,
        n_records=n_records,
    )  # fmt: skip


def _draw_top_down(
    views: Views,
    cells: NDArray[np.uint8],
    class_codes: NDArray[np.int64],
    weights: NDArray[np.int64],
    predicted: NDArray[np.int64] | None,
    maps: BitMaps | None,
    n_classes: int,
    rate: int,
    roots: NDArray[np.int64],
    splitting: float,
    noise: np.random.Generator | None,
) -> SelectedTree:
    """Draw the root, then the views of its cells, then the labels."""
    from mmech_rf._kernels import root_log_weights, split_log_weights

    sizes, n_labels = views.sizes, n_classes + (predicted is not None)
    tables = (
        *counted(views, cells, class_codes, weights, predicted, n_classes, maps),
        rate,
    )
    log_prior = _fixed(views.log_prior)
    log_split = log_prior + _fixed(math.log(splitting))
    log_stop = _fixed(math.log(1 - splitting))
    chances = np.empty((roots.size, 2), np.int64)
    root_log_weights(roots, *tables, log_prior, log_split, log_stop, chances)
    root = int(roots[_choice(chances, rate, noise)])
    first = cells[root]
    ways = np.empty((sizes[root], sizes.size + 1, 2), np.int64)
    split_log_weights(first, int(sizes[root]), *tables, log_split, log_stop, ways)
    branches: list[View | ScoreView | None] = []
    labels = []
    for cell, chance in enumerate(ways):
        way = _choice(chance, rate, noise)
        here = np.flatnonzero(first == cell)
        splits = way < sizes.size
        branches.append(views.items[way] if splits else None)
        leaf = cells[way, here].astype(np.int64) if splits else np.zeros_like(here)
        scores = np.zeros((int(sizes[way]) if splits else 1, n_labels), np.int64)
        np.add.at(scores, (leaf, class_codes[here]), weights[here])
        if predicted is not None:
            right = predicted[here] == class_codes[here]
            np.add.at(scores[:, n_classes], leaf[right], weights[here][right])
        drawn = [
            weighted_choice(row, insecure_rng=noise) for row in logarithms(scores, rate)
        ]
        labels.append(np.array(drawn, np.int64))
    return SelectedTree(views.items[root], tuple(branches), tuple(labels))


def _choice(
    chances: NDArray[np.int64], rate: int, insecure_rng: np.random.Generator | None
) -> int:
    """Draw by logarithms that are kept as scores and rests, shape (n, 2)."""
    exact = logarithms(chances[:, 0], rate, chances[:, 1])
    return weighted_choice(exact, insecure_rng=insecure_rng)


def _fixed(logarithms: float | NDArray[np.float64]) -> NDArray[np.int64]:
    """Return logarithms in units of 2**-FRACTION_BITS; public numbers."""
    return np.rint(np.ldexp(logarithms, FRACTION_BITS)).astype(np.int64)


def _roots(
    views: Views, n_records: float, n_rows: float = math.inf
) -> NDArray[np.int64]:
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
    coarse = (families[order] <= 2) & (sizes[order] <= COARSE)
    coarse &= np.cumsum(least[order]) <= LIMITS.coarse_visits
    within = (np.cumsum(work[order]) <= LIMITS.draw_visits) | coarse
    within[0] = True
    return np.sort(order[within])
