"""Settings of drawn forests, where they come from, and the budget split they give."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np

from mmech.storage.codec import storable
from mmech_rf.drawn.views import most_terms
from mmech_rf.estimator.options import checked, setting


@storable("DrawnSettings")
@dataclass(frozen=True)
class DrawnSettings:
    r"""Budget split, priors and smoothing of a drawn forest.

    Provenance: the defaults were set by hand, looking at test accuracy on public sets.
    The sets were some or all of car, balance-scale, iris, heart, mushroom, adult and
    adult-binary; nursery, claves, magic, wall-robot, tic-tac-toe and student-por.
    Epsilon was 0.1 to 2, with one setting for all sets and budgets.
    ``benchmarks/RESULTS.md`` lists the trials where accuracy is least. Accuracies on
    these sets may therefore flatter the forest a little. Later choices were made on
    simulated tasks, as `calibration_share`, and `few_scores_from` with a look at car
    and wall-robot. RANKING was chosen by log loss and area under the ROC curve,
    `scores_from` on simulated tasks alone. MOST_TREE_EPSILON was made to bound boosted
    trees after a look at epsilon = 100 at the sets above and at banknote and
    blood-transfusion.

    Constants that refer here were set in the same way, and are no settings, because
    accuracy hardly changes with them. RECORDS_PER_SUM was chosen on simulated tasks;
    LABEL_SMOOTHING on them by log loss and area under the ROC curve; ROOT_SCALE_FROM
    on simulated numbers near the lower end of wide bounds.
    Releases are private whatever the settings, as long as they do not come from the
    records at hand.

    *Information* is the number of records times epsilon. *Effort* is
    :math:`k \sqrt{d + 1}` for k classes and d attributes: the noise of scores of all
    attributes relative to the signal that these have together. Thresholds may be
    ``math.inf``, for never.

    Attributes
    ----------
    boosting_from : float
        Boosting threshold: information from which further trees are drawn, weighing
        the records that those before them get wrong.
    scores_from : float
        Score threshold: information, in units of effort, from which scores of all
        attributes are released. With less a tree of its own makes more of the budget.
    few_scores_from : float
        Score threshold: the same for two classes where sums among the public views
        reach all attributes and there is no boosting. Scores then rank records that
        have one label. More classes have none there.
    score_share, score_share_boosting : Fraction
        Score budget: share of epsilon, for each unit of effort, that scores get at
        least, without and with boosting.
    calibration_share : Fraction
        Budget split: share of the epsilon of a tree that counts classes in its leaves,
        without boosting.
    signal_to_noise : float
        Score resolution: records per class that a finer set of sums needs, in standard
        deviations of their noisy number.
    score_weight : float
        Votes: weight of scores in the votes on every record, beside those of a tree.
        Beyond zero, boosting starts from scores, and has no first tree. Records are
        then ranked more finely, and a few more are classified wrongly.
    corrections : int
        Boosting rounds: number of further releases of the sums behind scores, of
        records weighed by what scores say, where boosting starts from them.

    Examples
    --------
    >>> import math
    >>> from mmech_rf import PrivateForestClassifier, DrawnSettings, datasets
    >>> car = datasets.load_car()
    >>> settings = DrawnSettings(boosting_from=math.inf)
    >>> model = PrivateForestClassifier(
    ...     car.schema, epsilon=10, n_records=1728, settings=settings
    ... )
    >>> model.fit(car.data, car.target).choice_.rounds
    0
    """

    boosting_from: float = setting(12000.0)
    scores_from: float = setting(40.0)
    few_scores_from: float = setting(200.0)
    score_share: Fraction = setting(Fraction(1, 33), most=1)
    score_share_boosting: Fraction = setting(Fraction(1, 25), most=1)
    calibration_share: Fraction = setting(Fraction(1, 20), most=0.99)
    signal_to_noise: float = setting(10.0)
    score_weight: float = setting(0.0, most=1)
    corrections: int = setting(0, least=0)

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = checked(getattr(self, entry.name), entry)
            object.__setattr__(self, entry.name, value)

    @classmethod
    def for_ranking(cls) -> DrawnSettings:
        """Return settings for ranking records by `predict_proba`.

        The defaults are for the most right classes. With few records times epsilon they
        put all of the budget into one tree, which gives few distinct scores. For a
        ranking, scores of all attributes get half of epsilon from 16 units of effort
        on. They vote on every record beside the tree, whose leaves are counted with a
        fifth of its epsilon. From 3,000 records times epsilon on, scores are corrected
        once, and boosting starts from them. Where records times epsilon are few, this
        loses up to .03 of accuracy.

        Provenance: chosen by area under the ROC curve and log loss, on simulated tasks
        of two classes that overlap. Half of the tasks are sums of all attributes. The
        choice was then seen on real sets; adult-binary was looked at in between.
        ``benchmarks/RESULTS.md`` lists the trials.

        Returns
        -------
        DrawnSettings

        Examples
        --------
        >>> from mmech_rf import DrawnSettings, PrivateForestClassifier, datasets
        >>> car = datasets.load_car()
        >>> ranked = PrivateForestClassifier(
        ...     car.schema, epsilon=2, settings=DrawnSettings.for_ranking()
        ... )
        >>> ranked.fit(car.data, car.target).predict_proba(car.data[:5]).shape
        (5, 4)
        """
        return cls(
            scores_from=16.0,
            few_scores_from=16.0,
            score_share=Fraction(1),
            signal_to_noise=30.0,
            calibration_share=Fraction(1, 5),
            score_weight=0.4,
            boosting_from=3000.0,
            score_share_boosting=Fraction(1),
            corrections=1,
        )


DEFAULTS = DrawnSettings()
"""What is in force where nothing else is said."""


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

MOST_ROUNDS = 7
"""Boosting rounds: largest number of further trees."""

EPSILON_PER_VOTE = Fraction(3, 2)
"""Ensemble size: without scores, epsilon for each of an odd number of trees."""

MOST_VOTES = 9
"""Ensemble size: largest number of trees that vote."""

MOST_TREE_EPSILON = Fraction(1)
"""Overfitting guard: largest epsilon of a tree beside scores, and of a draw with
boosting. With much more a tree fits what is chance in its records."""

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
        # Beyond that a tree learns what is chance; scores or counts take the rest.
        most = max(MOST_TREE_EPSILON, factor * LEAST_BOOSTED) / epsilon
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
            votes = number_of_votes(epsilon)
            return cls(scores, Fraction(1), Fraction(0), 0, votes)
        if not boosting:
            scores = max(min(scores, MOST_SCORES), 1 - most)
            return cls(scores, 1 - scores, Fraction(0), 0, 1, by_score)
        scores = min(scores, MOST_SCORES_BOOSTING)
        on_scores = scores > 0 and s.score_weight > 0
        first = Fraction(0)
        if not on_scores:
            first = min(FIRST_SHARE, share_of(FIRST_RECORDS, information))
        rest = 1 - scores - first
        affordable = information * rest // ROUND_RECORDS
        rounds = int(np.clip(affordable, 1, MOST_ROUNDS))
        further = rest / rounds
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


def number_of_votes(epsilon: Fraction) -> int:
    """Return how many labelled trees vote where boosting is not affordable."""
    votes = min(int(epsilon / EPSILON_PER_VOTE), MOST_VOTES)
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
