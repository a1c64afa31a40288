"""What noisy class counts of leaves vote."""

from fractions import Fraction

import numpy as np
import pytest
from rf_cases import paying

from mmech_rf.drawn.grow import labelled_votes, leaf_votes, with_largest

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
    measured = released(COUNTS * 10**4, 10**6)
    votes = labelled_votes(measured, LABELS, COUNTS.sum() * 10**4)
    np.testing.assert_allclose(leaf_votes(measured, 1), votes, atol=1e-3)
    expected = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.exp(votes), expected, rtol=0.01)


def test_without_a_budget_votes_are_those_of_any_leaf_of_the_label(rng):
    votes = labelled_votes(
        released(COUNTS, Fraction(1, 10**4), rng=rng), LABELS, COUNTS.sum()
    )
    np.testing.assert_array_equal(votes.argmax(axis=1), LABELS)
    assert np.ptp(votes[[0, 3]], axis=0).max() < 1
    assert (np.exp(votes) > 0.02).all()


def test_labels_are_never_outvoted(rng):
    for cost in (Fraction(1, 100), 1, 100):
        for _ in range(20):
            votes = labelled_votes(released(COUNTS, cost, rng), LABELS, COUNTS.sum())
            np.testing.assert_array_equal(votes.argmax(axis=1), LABELS)
            np.testing.assert_allclose(np.exp(votes).sum(axis=1), 1)
