"""What noisy class counts of leaves vote, and intervals that allow for their noise."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
from rf_cases import CELLS, SCHEMA, SHAPE, paying, records

from mmech_rf import PrivateForestClassifier
from mmech_rf.drawn import scores as additive
from mmech_rf.drawn.draw import SelectedTree
from mmech_rf.drawn.grow import labelled_votes, leaf_votes, with_largest
from mmech_rf.drawn.scores import SUMS, sums_from_coarse_to_fine
from mmech_rf.drawn.trees import SelectedTrees
from mmech_rf.drawn.views import GRID, public_views

LABELS = np.array([0, 2, 1, 0])
COUNTS = np.array([[500, 20, 100], [20, 40, 300], [90, 100, 80], [60, 10, 10]])


def released(counts, cost, rng=None, unit=1):
    cost = Fraction(cost)
    return paying(cost, rng).add_noise(counts, cost, "x", unit)


# ---------------------------------------------------------------------- votes of counts
@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_no_class_is_above_the_label_and_counts_move_as_little_as_possible(k, rng):
    counts = rng.normal(0, 10, (50, k)).round()
    labels = rng.integers(0, k, 50)
    found = with_largest(counts, labels)
    for row, own, label in zip(counts, found, labels, strict=True):
        assert own.max() <= own[label] + 1e-12
        moved = np.square(own - row).sum()
        for level in np.linspace(row.min(), row.max(), 200):
            other = np.minimum(row, level)
            other[label] = max(level, row[label])
            assert moved <= np.square(other - row).sum() + 1e-9


def test_with_a_huge_budget_votes_are_the_shares_of_classes():
    votes, errors = labelled_votes(
        released(COUNTS * 10**4, 10**6), LABELS, COUNTS.sum() * 10**4
    )
    expected = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(votes), expected, rtol=0.01)
    assert errors.max() < 1e-3


def test_without_a_budget_votes_are_those_of_any_leaf_of_the_label(rng):
    votes, errors = labelled_votes(
        released(COUNTS, Fraction(1, 10**4), rng=rng), LABELS, COUNTS.sum()
    )
    np.testing.assert_array_equal(votes.argmax(axis=1), LABELS)
    assert np.ptp(votes[[0, 3]], axis=0).max() < 1
    assert (np.exp(votes) > 0.02).all()
    assert errors.min() > 0.1


def test_labels_are_never_outvoted(rng):
    for cost in (Fraction(1, 100), 1, 100):
        for _ in range(20):
            votes, errors = labelled_votes(
                released(COUNTS, cost, rng), LABELS, COUNTS.sum()
            )
            np.testing.assert_array_equal(votes.argmax(axis=1), LABELS)
            assert (errors > 0).all()
            np.testing.assert_allclose(np.exp(votes).sum(axis=1), 1)


# ---------------------------------------------------------------------------- intervals
def forest_of(votes, errors):
    root = next(view for view in public_views(SHAPE).items if view.size == 4)
    tree = SelectedTree(root, (None,) * root.size, tuple(LABELS[:, None]))
    return SelectedTrees((tree,), (votes,), errors=(errors,))


@pytest.mark.by_day(3)
@pytest.mark.statistical
@pytest.mark.parametrize("cost", [Fraction(1, 10), Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("votes_of", [leaf_votes, labelled_votes])
def test_intervals_hold_for_probabilities_without_noise(votes_of, cost, rng):
    """At least 90 % of 95 %, a false alarm of 1e-6 by the spread of 100 releases."""
    rest = (1,) if votes_of is leaf_votes else (LABELS, COUNTS.sum())
    without = replace(released(COUNTS, cost, rng), values=COUNTS)
    truth = forest_of(*votes_of(without, *rest)).probabilities(CELLS)
    held = []
    for _ in range(100):
        measured = released(COUNTS, cost, rng)
        forest = forest_of(*votes_of(measured, *rest))
        lower, upper = forest.interval(CELLS, 0.95)
        held.append(np.mean((lower <= truth) & (truth <= upper)))
    assert np.mean(held) > 0.9 - ref.margin(held)


@pytest.mark.parametrize("votes_of", [leaf_votes, labelled_votes])
def test_intervals_allow_for_noise_of_one(votes_of):
    """A count is off by one with a probability of 9 %, more than 5 %."""
    counts = np.where(np.eye(3)[LABELS], 4000, 60)
    exact = replace(released(counts, 3), values=counts)
    rest = (1,) if votes_of is leaf_votes else (LABELS, counts.sum())
    truth = forest_of(*votes_of(exact, *rest)).probabilities(CELLS)
    for moved in np.eye(3, dtype=int)[(LABELS + 1) % 3] * [[[1]], [[-1]]]:
        noisy = replace(exact, values=counts + moved)
        lower, upper = forest_of(*votes_of(noisy, *rest)).interval(CELLS, 0.95)
        assert ((lower <= truth) & (truth <= upper)).all()


@pytest.mark.by_day(2)
@pytest.mark.statistical
@pytest.mark.parametrize("level", range(4))
def test_errors_of_scores_are_those_of_their_noise(level, rng, monkeypatch):
    """Between classes, of cells that records are in: 90 % within 2 errors.

    A false alarm of 1e-6 by the spread of 40 releases.
    """
    domain_shape, n, cost = (2, 5, 20), 20_000, Fraction(1)
    sums = sums_from_coarse_to_fine(domain_shape)[level]
    codes = rng.integers(0, domain_shape, (n, 3))
    classes = (rng.random(n) < 0.3 + 0.4 * codes[:, 2] / 19).astype(int)
    monkeypatch.setattr(additive, "_kept", lambda rows: np.ones(len(rows)))
    exact = sums.of(codes, classes, 2)
    held = []
    for _ in range(40):
        measured = paying(cost, rng).add_noise_to_groups(
            exact, sums.groups, cost, SUMS, GRID
        )
        without, inside = replace(measured, values=exact), []
        found, truth = (
            additive._scores(sums, values) for values in (measured, without)
        )
        for own, true, errors in zip(
            found.tables, truth.tables, found.errors[1:], strict=True
        ):
            apart = np.diff(own - true, axis=1) / additive.VOTE_STEPS
            inside.extend(np.abs(apart) <= 2 * np.hypot(*errors.T)[:, None] + 0.01)
        held.append(np.mean(inside))
    assert np.mean(held) > 0.9 - ref.margin(held)


@pytest.mark.parametrize("kind", [(300, 0.5), (3000, 1), (9000, 3)])
def test_intervals_are_around_probabilities_and_wider_at_higher_levels(kind):
    n_records, epsilon = kind
    model = PrivateForestClassifier(SCHEMA, n_records=n_records, epsilon=epsilon)
    model.fit(*records(300))
    raw = CELLS.astype(str)
    found = model.predict_proba(raw)
    widths = []
    for level in (0.5, 0.9, 0.99):
        lower, upper = model.predict_interval(raw, level=level)
        assert lower.shape == upper.shape == found.shape
        assert (lower >= 0).all()
        assert (upper <= 1).all()
        assert (lower <= found + 1e-12).all()
        assert (found <= upper + 1e-12).all()
        widths.append((upper - lower).mean())
    assert widths == sorted(widths)
    assert widths[0] > 0
    again = model.predict_interval(raw, level=0.99)[1]
    assert again.tobytes() == upper.tobytes()


def test_intervals_of_odd_levels_are_refused():
    model = PrivateForestClassifier(SCHEMA, n_records=300, epsilon=1).fit(*records(100))
    raw = CELLS.astype(str)
    for level in (0, 1, 95, -0.5, math.nan, "0.95", None, True):
        with pytest.raises(ValueError, match="level must lie between 0 and 1"):
            model.predict_interval(raw, level=level)
