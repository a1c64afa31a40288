"""Budget split of a drawn forest, from public numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mmech_rf.drawn.settings import DEFAULTS, DrawnSettings
from mmech_rf.drawn.views import most_terms

LEAST_BOOSTED = Fraction(1, 5000)
"""Numerical guard: smallest epsilon of a fit with boosting, and smallest limit of a
draw, for each record that comes or goes. A share may be a thousandth of it, and
roundings of a draw, which are paid for, would use up a smaller one."""

# Found flat when they were varied, as `DrawnSettings` says of its provenance.

SCORE_RECORDS = 6.0
"""Score budget: information, in units of effort, that scores get at least."""

MOST_SCORES, MOST_SCORES_BOOSTING = Fraction(1, 2), Fraction(3, 10)
"""Score budget: largest share of epsilon, without and with boosting."""

SCORE_VIEWS_FROM = 1000.0
"""Overfitting guard: information from which trees may also split by scores. Scores know
the records that they come from; with fewer of them a tree takes that for a signal."""

FIRST_SHARE = Fraction(1, 2)
"""Budget split: share of epsilon of the first tree with boosting, at most."""

FIRST_RECORDS = 6000.0
"""Budget split: information that is enough for the first tree. What it leaves goes to
further trees in equal parts."""

ROUND_RECORDS = 2000.0
"""Budget split: information that pays for each further tree."""

EPSILON_PER_VOTE = Fraction(3, 2)
"""Ensemble size: without scores, epsilon for each of an odd number of trees."""

FIRST_SELECTION, SELECTION = Fraction(3, 4), Fraction(1, 2)
"""Budget split: share of the epsilon of the first and of a further boosted tree that
draws it. The rest counts classes in its leaves."""


@dataclass(frozen=True)
class Plan:
    """Budget split: shares of the cost, from public numbers."""

    scores: Fraction  # sums that give scores of all attributes; zero for none
    # First tree; without boosting all trees in equal parts; zero where boosting starts
    # from scores.
    first: Fraction
    further: Fraction  # every further tree
    rounds: int  # number of further trees; none without boosting
    votes: int = 1  # number of trees that vote, without boosting
    by_score: bool = False  # whether scores are also views that trees are made of
    # Shares of the first and of a further tree that draw it.
    first_selection: Fraction = FIRST_SELECTION
    selection: Fraction = SELECTION
    corrections: int = 0  # releases that correct scores, out of the share of scores

    @classmethod
    def of(
        cls,
        n_records: float,
        epsilon: Fraction,
        n_features: int,
        n_classes: int,
        settings: DrawnSettings = DEFAULTS,
        *,
        factor: int = 1,
    ) -> Plan:
        """Return the plan for a budget of pure epsilon.

        Neighbours differ by so many records that come or go (`Relation.factor`).
        """
        s = settings
        information = n_records * float(epsilon)
        effort = _effort(n_features, n_classes)
        scores = Fraction(0)
        boosting = information >= s.boosting_from and epsilon >= factor * LEAST_BOOSTED
        least = s.scores_from
        if most_terms(n_features) >= n_features and not boosting:
            # Public sums of few attributes say as much, while records are few.
            least = s.few_scores_from if n_classes == 2 else math.inf
        if information >= least * effort:
            share = s.score_share_boosting if boosting else s.score_share
            scores = max(
                share_of(SCORE_RECORDS * effort, information),
                share_of(float(share) * effort, 1.0),
            )
        by_score = scores > 0 and information >= SCORE_VIEWS_FROM
        if not boosting and not scores:
            votes = number_of_votes(epsilon, s)
            return cls(scores, Fraction(1), Fraction(0), 0, votes)
        if not boosting:
            scores = max(min(scores, MOST_SCORES), 1 - s.most_tree_epsilon / epsilon)
            return cls(scores, 1 - scores, Fraction(0), 0, 1, by_score)
        scores = min(scores, MOST_SCORES_BOOSTING)
        on_scores = scores > 0 and s.score_weight > 0
        first = Fraction(0)
        if not on_scores:
            first = min(FIRST_SHARE, share_of(FIRST_RECORDS, information))
        rest = 1 - scores - first
        affordable = information * rest // ROUND_RECORDS
        rounds = int(np.clip(affordable, 1, s.most_rounds))
        further = rest / rounds
        # Beyond that a tree learns what is chance; counts of its leaves take the rest.
        most = s.most_tree_epsilon / epsilon
        return cls(
            scores,
            first,
            further,
            rounds,
            by_score=by_score,
            first_selection=min(FIRST_SELECTION, most / max(first, most)),
            selection=min(SELECTION, most / further),
            corrections=s.corrections if on_scores else 0,
        )


def number_of_votes(epsilon: Fraction, settings: DrawnSettings = DEFAULTS) -> int:
    """Return how many labelled trees vote where boosting is not affordable."""
    votes = min(int(epsilon / EPSILON_PER_VOTE), settings.most_votes)
    return max(1, votes - (votes + 1) % 2)


def _effort(n_features: int, n_classes: int) -> float:
    """Return what noise takes from scores of all attributes, as public sizes say.

    The norm of noise in d + 1 sums of each of k classes grows with d + 1. The common
    signal of d + 1 attributes grows with the square root of d + 1.
    """
    return float(n_classes * np.sqrt(n_features + 1))


def share_of(part: float, whole: float) -> Fraction:
    """Return a share, at least a thousandth, with a small denominator."""
    return Fraction(max(1, int(1000 * part / whole)), 1000)
