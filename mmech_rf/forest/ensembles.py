"""Ensembles of Algorithm 3: who sees which attributes, with how many trees; votes.

Seeds, attributes and trees are public. Votes are post-processing of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice, check_integer
from mmech.exceptions import ParameterError
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import Seed, seed_sequence
from mmech_rf.limits import LIMITS


@storable("Ensemble")
@dataclass(frozen=True, eq=False)
class Ensemble:
    """One forest over a subset of the attributes, with its share of the budget.

    Attributes
    ----------
    features : ndarray of int64
        Positions of the attributes it sees.
    forest : Forest
        Trees over those attributes.
    epsilon : Fraction
        Its share of the privacy budget.
    given : bool
        Whether the forest was passed to the fit, not grown by it.
    """

    features: Integers
    forest: Forest
    epsilon: Fraction
    given: bool = False

    def check(self, domain_shape: tuple[int, ...]) -> None:
        """Raise unless it is of some attributes of a domain: a file may hold any."""
        features = self.features.tolist()
        if (
            features != sorted({i for i in features if i >= 0})
            or tuple(domain_shape[i] for i in features) != self.forest.domain_shape
        ):
            raise ValueError("a forest of other attributes")

    def select(self, codes: Integers) -> Integers:
        """Return the columns of encoded records that this ensemble sees."""
        if self.features.size == codes.shape[1]:
            return codes
        return np.ascontiguousarray(codes[:, self.features])

    def cells(self, codes: Integers) -> Integers:
        """Return the domain cell of every encoded record."""
        places = np.cumprod((1, *self.forest.domain_shape[:0:-1]), dtype=np.int64)
        return np.asarray(self.select(codes) @ places[::-1], dtype=np.int64)


# ---- what every ensemble looks like ------------------------------------------


def trees_of(n_trees: Any, n_ensembles: int) -> list[float]:
    """Return the number of trees of every ensemble, or raise.

    A number is shared out among the q ensembles, the first ones getting one more where
    it does not divide; infinity is what each has.
    """
    if n_trees == math.inf:
        return [math.inf] * n_ensembles
    check_integer(n_trees, "n_trees")
    if n_ensembles > n_trees:
        raise ParameterError(
            "n_trees",
            f"must be at least {{n_ensembles}} = {n_ensembles}, one tree per ensemble",
            n_trees,
        )
    share, left = divmod(int(n_trees), n_ensembles)
    return [share + (i < left) for i in range(n_ensembles)]


def features_of(
    max_features: Any, n_features: int, rngs: Sequence[np.random.Generator], deal: Any
) -> list[Integers]:
    """Return the positions of the attributes that every ensemble sees, sorted.

    `max_features` of them, drawn anew by the generator of each ensemble; with
    "partition", which the seed `deal` shapes, every attribute in one ensemble only, as
    evenly as possible; or all of them. More than there are raise.
    """
    if isinstance(max_features, str):
        check_choice(
            max_features, "max_features", ("partition",), "None, an integer >= 1"
        )
        if len(rngs) > n_features:
            raise ParameterError(
                "max_features",
                "{max_features='partition'} needs an attribute for each of the "
                f"{{n_ensembles}} = {len(rngs)} ensembles, but there are {n_features}",
                remedy="use fewer ensembles",
            )
        order = np.random.default_rng(deal).permutation(n_features)
        return [np.sort(part) for part in np.array_split(order, len(rngs))]
    size = n_features if max_features is None else max_features
    check_integer(size, "max_features")
    if size > n_features:
        raise ParameterError(
            "max_features",
            f"must be at most the number of attributes, {n_features}",
            size,
            "leave it out for all of them",
        )
    return [np.sort(rng.permutation(n_features)[:size]) for rng in rngs]


def spawn(random_state: Seed, count: int) -> list[np.random.SeedSequence]:
    """Return independent public seeds, different for every ensemble."""
    return list(seed_sequence(random_state).spawn(count))


PRIOR_FLOOR = 0.01
"""No class counts for less than this part of an equal share."""


def weight_votes(forest: Forest, leaf_counts: NDArray[Any], codes: Integers) -> Floats:
    """Return the counts in the visited leaves, summed over trees, shape (b, k).

    Leaves of which a label counts have a one at it.
    """
    votes = np.zeros((codes.shape[0], leaf_counts.shape[1]))
    for start in range(0, codes.shape[0], LIMITS.voting_records):
        part = slice(start, start + LIMITS.voting_records)
        rows = forest.apply(codes[part]) + forest.leaf_offsets[:-1]
        for tree in range(forest.n_trees):
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
