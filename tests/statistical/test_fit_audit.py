"""Fits of forests against their claim, draw by draw.

Labels tell so little of one record that experiments on whole fits find hardly any
epsilon where trees are boosted or vote as one. Here a fit is stopped at one of its
draws, which is then repeated: all that was drawn before is given, the same for both
data sets and chosen to make the record count as much as it can. Guarantees of releases
that follow one another add up, each given those before.

A correct fit fails a test with probability 1e-6 at most per draw. That a draw which
costs more would fail it is shown by refuting less than the claim, and by
``tests.mutants``.
"""

from fractions import Fraction

import numpy as np
import pytest
from rf_cases import paying

from mmech import PrivacyLeakWarning
from mmech.audit import epsilon_lower_bound
from mmech.testing import watch_draws
from mmech_rf import Attribute, Schema, SubsampleAggregateClassifier
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import Grower
from mmech_rf.drawn.settings import Plan
from mmech_rf.drawn.views import public_views
from mmech_rf.estimator.records import EncodedRecords

pytestmark = pytest.mark.statistical

CONFIDENCE = 1 - 1e-6
RUNS = {"laplace": 20_000, "tree": 1500}


class Stopped(Exception):
    """A fit has come to the draw that is looked at."""


def fit_until_stopped(fit):
    with pytest.raises(Stopped):
        fit()


def repeated(fit, place, runs, given):
    """Return so many outcomes of one draw of a fit.

    `given` has the outcomes of the draws before it, by their kind; assignments and
    keys are not counted.
    """
    found, seen = [], []

    def watcher(draw, sample):
        if draw.kind not in RUNS:
            return sample()
        seen.append(draw)
        if len(seen) <= place:
            return given[draw.kind]
        found.extend(sample() for _ in range(runs))
        raise Stopped

    with pytest.warns(PrivacyLeakWarning), watch_draws(watcher):
        fit_until_stopped(fit)
    return found


# -------------------------------------------------------------- labels of leaves vote
SCHEMA = Schema((Attribute.categorical("x", ["0", "1"]),), ("no", "yes"))


def hard_votes(classes, runs):
    """Noisy votes of one leaf, which has the label of its records, or else the first.

    A record that arrives alone changes the label, and with it both of its votes.
    """
    model = SubsampleAggregateClassifier(
        SCHEMA, epsilon=1, n_trees=1, depth=0, voting="hard", template="identity"
    )

    def fit():
        model.fit(np.full((len(classes), 1), "0"), np.array(classes, dtype=str))
        model.predict([["0"]])

    return np.array(repeated(fit, 0, runs, {}))


@pytest.mark.slow
def test_hard_votes():
    found = epsilon_lower_bound(
        hard_votes, [], ["yes"], runs=RUNS["laplace"], confidence=CONFIDENCE
    )
    assert not found.refutes(1.0)
    assert found.refutes(0.5)


# ---------------------------------------------------------------------- boosted trees
PLAN = Plan(Fraction(0), Fraction(1, 2), Fraction(1, 2), rounds=1)
COST = Fraction(8)
CLAIMED = [
    COST * PLAN.first * PLAN.first_selection,
    COST * PLAN.first * (1 - PLAN.first_selection),
    COST * PLAN.further * PLAN.selection,
    COST * PLAN.further * (1 - PLAN.selection),
]
"""The first tree, counts in its leaves, the tree that is boosted, and counts in it."""

WHOLE = next(view for view in public_views((2,)).items if view.family == "whole")
GIVEN = {
    "tree": SelectedTree(WHOLE, (None, None), (np.zeros(1, int), np.zeros(1, int))),
    # Counts that expect the second class everywhere: the first is heard in full.
    "laplace": np.array([[0, 90], [0, 90]]),
}


def boosted(place):
    """Return a release: the draw of a boosted forest at a place, again and again."""

    def release(classes, runs):
        grower = Grower(
            domain_shape=(2, 2),
            records=EncodedRecords.once(
                np.zeros((len(classes), 2), np.int64), np.array(classes, np.int64)
            ),
            n_classes=2,
            n_records=10.0,
            session=paying(COST),
        )
        found = repeated(lambda: grower.grow(COST, PLAN), place, runs, GIVEN)
        if place % 2:
            return np.array(found)
        here = np.zeros((1, 2), np.int64)
        return np.array([np.concatenate(t.labels)[t.leaves(here)] for t in found])

    return release


def boosted_bound(place):
    if place % 2:
        settings = {"runs": RUNS["laplace"], "statistic": None}
    else:
        settings = {"runs": RUNS["tree"], "statistic": lambda labels: -labels[:, 0]}
    return epsilon_lower_bound(
        boosted(place), [1], [1, 0], confidence=CONFIDENCE, **settings
    )


@pytest.mark.parametrize(
    "place", [2, *(pytest.param(place, marks=pytest.mark.slow) for place in (0, 1, 3))]
)
def test_boosted_trees(place):
    assert sum(CLAIMED) == COST
    found = boosted_bound(place)
    assert not found.refutes(CLAIMED[place])
    # Pilot runs may look at the class whose share differs by the smaller factor.
    assert found.refutes(Fraction(1, 4) * CLAIMED[place])
