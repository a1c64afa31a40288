"""From leaf counts or labels to votes; post-processing of what was released."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.limits import LIMITS

PRIOR_FLOOR = 0.01
"""No class counts for less than this part of an equal share."""


def _leaf_rows(forest: Forest, codes: Integers) -> Iterator[tuple[slice, Integers]]:
    """Yield slices of the records with their leaves as rows of T."""
    width = LIMITS.voting_records
    for start in range(0, codes.shape[0], width):
        part = slice(start, start + width)
        yield part, forest.apply(codes[part]) + forest.leaf_offsets[:-1]


def weight_votes(forest: Forest, leaf_counts: NDArray[Any], codes: Integers) -> Floats:
    """Return the counts in the visited leaves, summed over trees, shape (b, k).

    Leaves of which a label counts have a one at it.
    """
    votes = np.zeros((codes.shape[0], leaf_counts.shape[1]))
    for part, rows in _leaf_rows(forest, codes):
        for tree in range(rows.shape[1]):
            votes[part] += leaf_counts[rows[:, tree]]
    return votes


def vote_shares(votes: Floats) -> Floats:
    """Return the shares of the classes in votes, (b, k); negative votes are none.

    Where no vote is positive, the largest ones have all, as in `predict`.
    """
    most = votes.max(axis=1, keepdims=True)
    kept = np.where(most > 0, np.maximum(votes, 0.0), votes == most)
    return np.asarray(kept / kept.sum(axis=1, keepdims=True))


def class_shares(leaf_counts: Sequence[NDArray[Any]], n_trees: Sequence[int]) -> Floats:
    """Return the shares of the classes by the counts of all ensembles, shape (k,)."""
    trees = zip(leaf_counts, n_trees, strict=True)
    totals = np.mean([counts.sum(axis=0) / n for counts, n in trees], axis=0)
    least = PRIOR_FLOOR * max(float(totals.sum()), 1.0) / totals.size
    totals = np.maximum(totals, least)
    return np.asarray(totals / totals.sum())


def leaf_log_odds(
    leaf_counts: NDArray[Any], smoothing: float, shares: Floats
) -> Floats:
    """Return how much likelier the classes are in a leaf than in all, (n_leaves, k).

    The entries are logarithms of the shares in a leaf over the shares of all records.
    `smoothing` records, distributed like all records, are added to the leaf first.
    """
    smooth = np.maximum(leaf_counts, 0) + smoothing * shares
    return np.asarray(np.log(smooth / smooth.sum(axis=1, keepdims=True) / shares))


def leaf_label_by_rule(leaf_counts: Integers, *, first: bool = False) -> Integers:
    """Label exact leaf counts (n_leaves, k) by a rule that looks at each leaf alone.

    The most frequent class wins. Among r tied classes the winner is number
    ``total % r`` in class order, so that no class is favoured throughout, or the
    first one on request; an empty leaf gets the first class. Adding or
    removing one record changes the label of one leaf at most. Sensitive: to be
    released through noise.
    """
    totals = leaf_counts.sum(axis=1)
    best = leaf_counts == leaf_counts.max(axis=1, keepdims=True)
    ranks = np.cumsum(best, axis=1)
    picks = np.zeros_like(totals) if first else totals % ranks[:, -1]
    return np.asarray((ranks > picks[:, None]).argmax(axis=1))
