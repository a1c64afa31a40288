"""Choices are uniform, drawn from the operating system.

No seed can fix these tests, so every one fails by chance with probability at most 1e-6.
Each is also checked to catch a distribution that is slightly off.
"""

import numpy as np
import pytest
from scipy import stats

from mmech.noise import integers_below, keyed_argmax, random_argmax
from mmech.noise.system import random_words

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
DRAWS = 100_000


def test_words_are_uniform():
    """Chi-square of every byte of 1e5 words over 256 values, level 1e-6 in all."""
    bytes_ = random_words(DRAWS, None).view(np.uint8).reshape(DRAWS, 8)
    for column in bytes_.T:
        assert stats.chisquare(np.bincount(column, minlength=256)).pvalue > 1e-6 / 8


@pytest.mark.parametrize("bound", [2, 3, 7, 10, 100])
def test_integers_below_are_uniform(bound):
    """Chi-square at level 1e-6, and it notices a bound that is off by one."""
    drawn = integers_below(np.full(DRAWS, bound))
    counts = np.bincount(drawn, minlength=bound)
    assert counts.size == bound
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    wider = np.bincount(drawn, minlength=bound + 1)
    assert stats.chisquare(wider).pvalue < FALSE_ALARM


def test_integers_below_a_bound_where_the_modulus_is_biased():
    """Bound 3 · 2⁶¹: plain `word % bound` gives the lowest third half of all draws.

    2⁶⁴ = 2 · bound + 2⁶², so without rejection results below 2⁶² would have
    probability 2 · (3/8) instead of 2/3. Binomial bounds at level 1e-6.
    """
    bound = 3 * 2**61
    drawn = integers_below(np.full(DRAWS, bound))
    low = int((drawn < 2**62).sum())
    assert stats.binomtest(low, DRAWS, 2 / 3).pvalue > FALSE_ALARM
    assert stats.binomtest(low, DRAWS, 3 / 4).pvalue < FALSE_ALARM


def test_integers_below_mixed_bounds():
    """Every bound has its own uniform distribution; level 1e-6 over 9 bounds."""
    bounds = np.tile(np.arange(2, 11), DRAWS // 10)
    drawn = integers_below(bounds)
    for bound in range(2, 11):
        counts = np.bincount(drawn[bounds == bound], minlength=bound)
        assert counts.size == bound
        assert stats.chisquare(counts).pvalue > FALSE_ALARM / 9


def test_ties_are_broken_uniformly():
    """Chi-square over the tied columns only, level 1e-6."""
    scores = np.tile([4, 9, 9, 1, 9], (DRAWS, 1))
    counts = np.bincount(random_argmax(scores), minlength=5)
    assert counts[[0, 3]].sum() == 0
    assert stats.chisquare(counts[[1, 2, 4]]).pvalue > FALSE_ALARM


def test_reversing_the_classes_leaves_the_share_of_ties():
    """The first class gains nothing by coming first: two-sided binomial, 1e-6."""
    scores = np.tile([1.0, 1.0], (DRAWS, 1))
    first = int((random_argmax(scores) == 0).sum())
    assert stats.binomtest(first, DRAWS, 0.5).pvalue > FALSE_ALARM


def test_keyed_ties_are_uniform_over_random_keys():
    """One item under fresh keys, as many released models would see it; 1e-6."""
    keys = random_words(20_000, None)
    scores = np.zeros((1, 3))
    chosen = [int(keyed_argmax(scores, [5], int(key))[0]) for key in keys]
    assert stats.chisquare(np.bincount(chosen, minlength=3)).pvalue > FALSE_ALARM


def test_keyed_ties_of_two_items_are_independent():
    """Agreement of two items over fresh keys is a fair coin; 1e-6."""
    keys = random_words(20_000, None)
    scores = np.zeros((2, 2))
    agree = sum(
        len(set(keyed_argmax(scores, [5, 6], int(key)).tolist())) == 1 for key in keys
    )
    assert stats.binomtest(agree, keys.size, 0.5).pvalue > FALSE_ALARM
