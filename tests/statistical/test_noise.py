"""The noise has the distribution it claims, drawn from the operating system.

No seed can fix these tests, so every one fails by chance with probability at
most 1e-6, and each is checked to catch a distribution that is slightly off.
"""

import math

import numpy as np
import pytest
from scipy import stats

from mmech.noise import (
    integers_below,
    keyed_argmax,
    laplace,
    random_argmax,
    system_words,
)

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
DRAWS = 100_000


def ks_pvalue(sample, scale):
    return stats.kstest(sample, stats.laplace(scale=scale).cdf).pvalue


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_laplace_accepts_its_scale_and_rejects_others(scale):
    """Kolmogorov-Smirnov at level 1e-6.

    At 0.9 or 1.1 times the scale the distance of the distribution functions is
    0.019 or 0.017, that is √n D > 5.5 against a critical value of 2.7: missed
    with probability below 1e-9.
    """
    sample = laplace(scale, (DRAWS,))
    assert ks_pvalue(sample, scale) > FALSE_ALARM
    assert ks_pvalue(sample, 0.9 * scale) < FALSE_ALARM
    assert ks_pvalue(sample, 1.1 * scale) < FALSE_ALARM


def test_laplace_rejects_a_shift():
    """A shift by a twentieth of the scale moves the distribution by 0.025."""
    sample = laplace(1.0, (DRAWS,))
    assert ks_pvalue(sample + 0.05, 1.0) < FALSE_ALARM
    assert ks_pvalue(sample - 0.05, 1.0) < FALSE_ALARM


def test_laplace_moments():
    """|X| is exponential: mean b, variance b²; the sign is a fair coin.

    Bounds of 5 standard errors: false alarm below 1e-6 each.
    """
    sample = laplace(3.0, (DRAWS,))
    error = 5 / math.sqrt(DRAWS)
    assert abs(np.abs(sample).mean() / 3 - 1) < error
    assert abs((sample > 0).mean() - 0.5) < 0.5 * error
    assert abs(np.square(sample).mean() / 18 - 1) < error * math.sqrt(5)


def test_laplace_sign_and_size_are_independent():
    """Two-sample Kolmogorov-Smirnov of |X| given the sign, level 1e-6."""
    sample = laplace(1.0, (DRAWS,))
    result = stats.ks_2samp(sample[sample > 0], -sample[sample < 0])
    assert result.pvalue > FALSE_ALARM


def test_entries_of_a_table_are_independent():
    """Correlations of neighbours in a row and a column; 5 standard errors."""
    table = laplace(1.0, (300, 300))
    for shifted in (table[1:] * table[:-1], table[:, 1:] * table[:, :-1]):
        # A product of independent entries has variance (2 b²)² = 4.
        assert abs(shifted.mean()) < 5 * 2 / math.sqrt(shifted.size)


def test_words_are_uniform():
    """Chi-square of every byte of 1e5 words over 256 values, level 1e-6 in all."""
    bytes_ = system_words(DRAWS).view(np.uint8).reshape(DRAWS, 8)
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
    keys = system_words(20_000)
    scores = np.zeros((1, 3))
    chosen = [int(keyed_argmax(scores, [5], int(key))[0]) for key in keys]
    assert stats.chisquare(np.bincount(chosen, minlength=3)).pvalue > FALSE_ALARM


def test_keyed_ties_of_two_items_are_independent():
    """Agreement of two items over fresh keys is a fair coin; 1e-6."""
    keys = system_words(20_000)
    scores = np.zeros((2, 2))
    agree = sum(
        len(set(keyed_argmax(scores, [5, 6], int(key)).tolist())) == 1 for key in keys
    )
    assert stats.binomtest(agree, keys.size, 0.5).pvalue > FALSE_ALARM
