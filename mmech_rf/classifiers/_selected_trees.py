"""A forest of trees that were drawn for what they get right, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from mmech import Measurement, PrivacyLedger, laplace_release
from mmech.noise import discrete_laplace_variance
from mmech_rf.classifiers._experts import Experts
from mmech_rf.tree_selection import SelectedTree, select_tree
from mmech_rf.views import public_views

__all__ = ["DRAWN", "SelectedTrees", "grow_selected_trees", "number_of_trees"]

Floats = NDArray[np.float64]

RECORDS_PER_ROUND = 4000
"""Records times epsilon that pay for a further tree, by boosting."""

MOST_ROUNDS = 8

EPSILON_PER_VOTE = 1.5
"""A tree drawn with much more than this fits what is chance in its records; a larger
budget pays for an odd number of trees that vote."""

CALIBRATION_SHARE = Fraction(3, 100)
"""Share of a tree's epsilon that counts what its labels get right."""

SELECTION_SHARE = Fraction(1, 2)
"""Share of a round's epsilon that draws its tree; the rest counts in its leaves."""

UNIT = 256
"""Weights of records are multiples of 1 / UNIT."""

STEP = 0.5
"""What trees after the first add, of the log-odds in their leaves."""

SMOOTHING = 1.5
"""Smallest count added to a leaf, in scales of its noise, beside half a record."""

DRAWN = "and its labels"
"""How the words for a release end that was drawn, rather than measured with noise."""


def number_of_trees(n_records: float, epsilon: Fraction) -> tuple[int, bool]:
    """Return how many trees a budget pays for, and whether by boosting.

    Parameters
    ----------
    n_records : float
        Public number of records, roughly.
    epsilon : Fraction
        Budget of all trees together.

    Returns
    -------
    n_trees : int
    boosting : bool
    """
    rounds = int(n_records * float(epsilon) // RECORDS_PER_ROUND)
    if rounds > 1:
        return min(rounds, MOST_ROUNDS), True
    votes = int(epsilon / Fraction(EPSILON_PER_VOTE))
    return max(1, votes - (votes + 1) % 2), False


@dataclass(frozen=True, eq=False)
class SelectedTrees(Experts):
    """Released trees, and what each leaf adds to the log-odds of every class.

    Attributes
    ----------
    trees : tuple of SelectedTree
        In the order of their release.
    scores : tuple of ndarray of float64, shape (n_leaves, k)
        Log-odds of the leaves of each tree.
    """

    trees: tuple[SelectedTree, ...]
    scores: tuple[Floats, ...]

    voting = "trees"

    def log_odds(self, codes: NDArray[np.int64]) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.zeros((codes.shape[0], self.scores[0].shape[1]))
        for tree, scores in zip(self.trees, self.scores, strict=True):
            out += scores[tree.leaves(codes)]
        return out


def grow_selected_trees(
    domain_shape: tuple[int, ...],
    codes: NDArray[np.int64],
    class_codes: NDArray[np.int64],
    *,
    n_classes: int,
    epsilon: Fraction,
    n_records: float,
    n_trees: int,
    boosting: bool,
    neighbours: str,
    ledger: PrivacyLedger,
    insecure_rng: np.random.Generator | None,
    note: Callable[[Fraction, str, float], None],
) -> SelectedTrees:
    """Release trees, and what their leaves vote.

    Without boosting every tree is one draw of the exponential mechanism, labels and
    all, and a count of what it gets right, which weighs its vote. With boosting every
    tree after the first weighs records by min(1, (1 - p) / p), with p the probability
    that the trees before give to the record's own class (MadaBoost), so that no record
    counts for more than one; the weighted class counts of its leaves are released and
    vote with their log-odds.

    Parameters
    ----------
    domain_shape : tuple of int, length d
        Sizes of the attributes.
    codes, class_codes : ndarray of int64, shapes (N, d) and (N,)
        Records. Sensitive.
    n_classes : int
        Number of classes.
    epsilon : Fraction
        Budget of all rounds together, in nats.
    n_records : float
        Public number of records, roughly.
    n_trees : int
        Number of trees, with the same budget each.
    boosting : bool
        Whether trees look at what those before them get wrong.
    neighbours : {"add_remove", "replace"}
        Neighbour relation of the guarantee.
    ledger : PrivacyLedger
        Budget to charge.
    insecure_rng : numpy.random.Generator or None
        Source for tests.
    note : callable
        Told epsilon, what was released and its sensitivity, of every release.

    Returns
    -------
    SelectedTrees

    References
    ----------
    .. [1] Domingo, Watanabe, "MadaBoost: a modification of AdaBoost", COLT 2000.
    """
    views = public_views(domain_shape)
    cells = views.cells(codes)
    every: dict[str, Any] = {
        "neighbours": neighbours,
        "ledger": ledger,
        "insecure_rng": insecure_rng,
    }
    budget = epsilon / n_trees
    share = SELECTION_SHARE if boosting else 1 - CALIBRATION_SHARE
    trees: list[SelectedTree] = []
    scores: list[Floats] = []
    log_odds = np.zeros((class_codes.size, n_classes))
    for number in range(n_trees):
        weights = None
        if boosting and number:
            weights = _weights(log_odds, class_codes)
        tree = select_tree(
            views,
            cells,
            class_codes,
            n_classes=n_classes,
            epsilon=budget * share,
            n_records=n_records,
            weights=weights,
            unit=UNIT if boosting else 1,
            **every,
        )
        note(budget * share, f"tree {number + 1} {DRAWN}", 1.0)
        leaf = tree.leaves(codes)
        release: dict[str, Any] = {"epsilon": budget * (1 - share), **every}
        if boosting:
            counts = np.zeros((tree.n_leaves, n_classes), np.int64)
            amount = np.int64(UNIT) if weights is None else weights
            np.add.at(counts, (leaf, class_codes), amount)
            what = f"class counts in the leaves of tree {number + 1}"
            measured = laplace_release(
                counts, sensitivity=UNIT, released=what, **release
            )
            score = _leaf_scores(measured, first=number == 0)
        else:
            right = np.concatenate(tree.labels)[leaf] == class_codes
            counts = np.array([right.sum(), right.size - right.sum()])
            what = f"counts of right and wrong labels of tree {number + 1}"
            measured = laplace_release(counts, sensitivity=1, released=what, **release)
            score = _label_scores(tree, measured, n_classes)
        note(measured.epsilon, what, measured.sensitivity)
        trees.append(tree)
        scores.append(score)
        log_odds += score[leaf]
    return SelectedTrees(tuple(trees), tuple(scores))


def _weights(log_odds: Floats, class_codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return min(1, (1 - p) / p) of every record, in units of 1 / UNIT."""
    own = softmax(log_odds, axis=1)[np.arange(class_codes.size), class_codes]
    against = np.minimum(1.0, (1.0 - own) / np.maximum(own, 1e-12))
    return np.rint(UNIT * against).astype(np.int64)


def _label_scores(tree: SelectedTree, measured: Measurement, n_classes: int) -> Floats:
    """Return log-odds of the labels: how often they are right, from noisy counts."""
    added = max(_deviation(measured), 1.0)
    right, wrong = np.maximum(measured.values, 0.0)
    even = 1.0 / n_classes
    # Never below an even chance: the labels were drawn for being right.
    accuracy = max((right + added * even) / (right + wrong + added), even)
    accuracy = min(accuracy, 1.0 - 1e-3)
    labels = np.concatenate(tree.labels)
    out = np.full((labels.size, n_classes), np.log((1 - accuracy) / (n_classes - 1)))
    out[np.arange(labels.size), labels] = np.log(accuracy) + 1e-9
    return out


def _leaf_scores(measured: Measurement, *, first: bool) -> Floats:
    """Return smoothed log-odds of leaves, from noisy weighted counts."""
    counts = measured.values / UNIT
    n_classes = counts.shape[1]
    added = SMOOTHING * float(measured.scale) / UNIT + 0.5
    shares = np.full(n_classes, 1.0 / n_classes)
    if first:
        totals = np.maximum(counts.sum(axis=0), 1.0)
        shares = totals / totals.sum()
    smooth = np.maximum(counts, 0.0) + added * shares
    logarithms = np.log(smooth / smooth.sum(axis=1, keepdims=True))
    if first:
        return np.asarray(logarithms)
    return np.asarray(STEP * (logarithms - logarithms.mean(axis=1, keepdims=True)))


def _deviation(measured: Measurement) -> float:
    return float(np.sqrt(discrete_laplace_variance(float(measured.scale))))
