"""Exact noise follows its law: chi-square tests, also of two samples.

Noise comes from the operating system and no seed can fix it. Every test fails by
chance with probability at most 1e-6, and is shown to reject a scale that is 5 % off.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mmech.noise import discrete_gaussian, discrete_laplace
from mmech.noise import laplace as _laplace

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
DRAWS = 1_000_000
EXPECTED = 20.0
"""Smallest expected count of a bin."""


def laplace_tail(x, scale):
    """P(X >= x) for integers x >= 1."""
    q = math.exp(-1 / float(scale))
    return np.exp(-np.asarray(x, float) / float(scale)) / (1 + q)


def laplace_cells(edges, scale):
    """Probabilities of [edge_i, edge_i+1) for integer edges, and both ends."""
    edges = np.asarray(edges, float)
    above = np.where(
        edges >= 1,
        laplace_tail(np.maximum(edges, 1), scale),
        1 - laplace_tail(np.maximum(1 - edges, 1), scale),
    )
    return -np.diff(np.concatenate([[1.0], above, [0.0]]))


def bins(scale, draws, limit=200):
    """Integer edges whose cells all hold enough draws."""
    reach = float(scale) * math.log(draws / (4 * EXPECTED) + 1)
    count = min(limit, 2 * int(reach) + 1)
    edges = np.unique(np.rint(np.linspace(-reach, reach, count)))
    while edges.size > 2 and laplace_cells(edges, scale).min() * draws < EXPECTED:
        edges = edges[1:-1]
    return edges


def pvalue(sample, scale):
    """Chi-square of a sample against discrete Laplace noise of a scale."""
    edges = bins(scale, sample.size)
    counts = np.bincount(
        np.searchsorted(edges, sample, side="right"), minlength=edges.size + 1
    )
    expected = laplace_cells(edges, scale) * sample.size
    return stats.chisquare(counts, expected).pvalue


def gaussian_pvalue(sample, variance):
    reach = int(6 * math.sqrt(variance)) + 2
    x = np.arange(-reach, reach + 1)
    law = np.exp(-(x.astype(float) ** 2) / (2 * float(variance)))
    law /= law.sum()
    step = max(1, int(math.sqrt(variance) / 20))
    cells = np.add.reduceat(law, np.arange(0, x.size, step)) * sample.size
    found = np.bincount(
        (np.clip(sample, -reach, reach) + reach) // step, minlength=cells.size
    )
    rare = cells < EXPECTED
    cells = np.append(cells[~rare], max(cells[rare].sum(), 1e-300))
    found = np.append(found[~rare], found[rare].sum())
    if cells[-1] < EXPECTED:  # too rare to test: an ordinary bin takes it
        cells, found = (np.append(v[:-1][1:], v[-1] + v[0]) for v in (cells, found))
    return stats.chisquare(found, cells * found.sum() / cells.sum()).pvalue


def two_sample_pvalue(a, b):
    """Chi-square of homogeneity, with quantiles of both as bins."""
    edges = np.unique(np.quantile(np.concatenate([a, b]), np.linspace(0, 1, 40)[1:-1]))
    table = [
        np.bincount(np.searchsorted(edges, s, side="left"), minlength=edges.size + 1)
        for s in (a, b)
    ]
    table = np.array(table)
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize("scale", [Fraction(1, 2), 1, 10, 1000, 2**20], ids=str)
def test_laplace_accepts_its_scale_and_rejects_five_percent(scale):
    """A million draws: the statistic at 5 % is hundreds above its critical value."""
    sample = discrete_laplace(scale, (DRAWS,))
    assert sample.dtype == np.int64
    assert pvalue(sample, scale) > FALSE_ALARM
    assert pvalue(sample, scale * Fraction(95, 100)) < FALSE_ALARM
    assert pvalue(sample, scale * Fraction(105, 100)) < FALSE_ALARM
    # Hundreds of draws are beyond 8 t.
    far = int((np.abs(sample) >= 8 * scale).sum())
    first = math.ceil(8 * scale)
    assert stats.binomtest(far, DRAWS, 2 * laplace_tail(first, scale)).pvalue > 1e-6


@pytest.mark.parametrize("variance", [Fraction(1, 4), 1, 90, 10**6], ids=str)
def test_gaussian_accepts_its_variance_and_rejects_five_percent(variance):
    sample = discrete_gaussian(variance, (400_000,))
    assert gaussian_pvalue(sample, variance) > FALSE_ALARM
    for factor in (0.95, 1.05):
        assert gaussian_pvalue(sample, float(variance) * factor**2) < FALSE_ALARM


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("scale", [Fraction(1, 2), 1, Fraction(7, 2), 10], ids=str)
def test_the_rare_paths(scale, count):
    """With few digits most draws go through exact arithmetic and the event list."""
    usual = discrete_laplace(scale, (40_000,))
    sample = _laplace._draw(Fraction(scale), (2500,), None, count)
    assert pvalue(sample, scale) > FALSE_ALARM
    assert two_sample_pvalue(sample, usual) > FALSE_ALARM
    # It would be noticed if the tail were forgotten, or counted once only.
    known = sample % 2**count if scale > 2 else None
    if known is not None:
        assert pvalue(known, scale) < FALSE_ALARM


def test_pausing_loses_and_repeats_nothing():
    """Nine of ten trials are events: the kernel pauses whenever 4096 were found."""
    sample = _laplace._draw(Fraction(10), (6000,), None, 0)
    assert pvalue(sample, 10) > FALSE_ALARM
    assert two_sample_pvalue(sample[:2000], sample[2000:]) > FALSE_ALARM


def test_signs_are_a_fair_coin_and_independent_of_the_size():
    """Binomial and two-sample chi-square at level 1e-6."""
    for sample in (discrete_laplace(3, (200_000,)), discrete_gaussian(9, (200_000,))):
        positive, negative = sample[sample > 0], -sample[sample < 0]
        total = positive.size + negative.size
        assert stats.binomtest(positive.size, total).pvalue > FALSE_ALARM
        assert two_sample_pvalue(positive, negative) > FALSE_ALARM


def test_draws_of_a_table_are_independent():
    """Correlations of neighbours in a row and a column: 6 standard errors, 2e-9."""
    for draw in (discrete_laplace, discrete_gaussian):
        table = draw(5, (400, 400)).astype(float)
        table /= table.std()
        for shifted in (table[1:] * table[:-1], table[:, 1:] * table[:, :-1]):
            assert abs(shifted.mean()) < 6 / math.sqrt(shifted.size)


def test_bits_of_the_magnitude_are_independent():
    """Binary digits of a geometric number: phi of every pair, 6 standard errors.

    |X| - 1 given X != 0 is geometric, with independent digits of known probability.
    """
    scale = 20
    sample = np.abs(discrete_laplace(scale, (400_000,)))
    sample = sample[sample > 0] - 1
    bits = np.stack([sample >> i & 1 for i in range(7)])
    limit = 6 / math.sqrt(sample.size)
    for i, bit in enumerate(bits):
        p = 1 / (1 + math.exp(2**i / scale))
        assert abs(bit.mean() - p) < 6 * math.sqrt(p * (1 - p) / sample.size) + 1e-9
    phi = np.corrcoef(bits[:6])
    assert np.abs(phi - np.eye(6)).max() < limit


def test_repeated_calls_share_nothing():
    """Equal positions of two calls: their correlation, 6 standard errors."""
    a, b = (discrete_laplace(50, (100_000,)).astype(float) for _ in "ab")
    assert abs(np.corrcoef(a, b)[0, 1]) < 6 / math.sqrt(a.size)
