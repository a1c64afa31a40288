"""Every sampler against its whole law, by Pearson's and by Kolmogorov's statistic.

Draws come from the operating system, so that no seed can fix them. A test fails by
chance with probability 1e-6 at most: Kolmogorov's bound holds for any order of the
outcomes and is conservative for discrete ones. Each test is shown to reject another
law, as an easy mistake gives.
"""

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mmech import Identity, MatrixMechanism, noisy_release
from mmech.noise import (
    FRACTION_BITS,
    discrete_gaussian,
    discrete_laplace,
    integers_below,
    norm_noise,
    random_permutation,
    weighted_choice,
)

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
EXPECTED = 10.0
"""Smallest expected count of a cell; rarer ones are put together."""

ORDERS = list(itertools.permutations(range(4)))
LOGARITHMS = np.array([0.0, -1, -2, -0.5, 0])


@dataclass(frozen=True)
class Case:
    """A sampler of numbered outcomes, its law, and the law of a mistake."""

    sample: object
    law: np.ndarray
    wrong: np.ndarray


def cut_off(draws, reach):
    """Number the integers from -reach to reach; all beyond count as the ends."""
    return np.clip(draws, -reach, reach) + reach


def on_integers(logarithm, reach):
    """Return the law of `cut_off` draws with these log weights."""
    x = np.arange(-40 * reach, 40 * reach + 1)
    weights = np.exp(logarithm(x.astype(float)))
    places = cut_off(x, reach)
    return np.bincount(places, weights) / weights.sum()


def norm_cells(points):
    """Number the points of a box of groups (1, 2), all beyond together."""
    inside = (np.abs(points) <= 3).all(axis=0)
    cells = np.ravel_multi_index(tuple(np.clip(points, -3, 3) + 3), (7, 7, 7))
    return np.where(inside, cells, 343)


def norm_law(scale):
    """Return the law of `norm_cells`: points of a ball of radius r by counting."""
    r = np.arange(400.0)
    balls = (2 * r + 1) * (2 * r**2 + 2 * r + 1)
    total = (np.diff(balls, prepend=0) * np.exp(-r / scale)).sum()
    z = np.array(list(itertools.product(range(-3, 4), repeat=3))).T
    norms = np.maximum(np.abs(z[0]), np.abs(z[1]) + np.abs(z[2]))
    law = np.exp(-norms / scale) / total
    return np.append(law, 1 - law.sum())


def swaps_with_any_place():
    """Return the law of a shuffle in which every place is swapped with any other."""
    counts = Counter()
    for others in itertools.product(range(4), repeat=4):
        order = list(range(4))
        for place, other in enumerate(others):
            order[place], order[other] = order[other], order[place]
        counts[tuple(order)] += 1
    return np.array([counts[order] for order in ORDERS]) / 4**4


def softmax(logarithms):
    weights = np.exp(logarithms)
    return weights / weights.sum()


CASES = {
    "Laplace": Case(lambda: cut_off(discrete_laplace(Fraction(7, 2), (400_000,)), 30),
        on_integers(lambda x: -np.abs(x) / 3.5, 30),
        on_integers(lambda x: -np.abs(x) / 3.2, 30)),
    "Gaussian": Case(lambda: cut_off(discrete_gaussian(Fraction(9, 2), (400_000,)), 9),
        on_integers(lambda x: -(x**2) / 9, 9), on_integers(lambda x: -(x**2) / 8, 9)),
    "norm": Case(lambda: norm_cells(norm_noise(Fraction(4, 5), (1, 2), 100_000)),
        norm_law(0.8), norm_law(0.75)),
    "weighted choice": Case(
        lambda: np.array(
            [
                weighted_choice((LOGARITHMS * 2**FRACTION_BITS).astype(int))
                for _ in range(30_000)
            ]
        ),
        softmax(LOGARITHMS),
        softmax(1.4 * LOGARITHMS),
    ),
    "permutation": Case(
        lambda: np.array(
            [ORDERS.index(tuple(random_permutation(4))) for _ in range(30_000)]
        ),
        np.full(24, 1 / 24),
        swaps_with_any_place(),
    ),
    "integers below": Case(
        lambda: integers_below(np.full(100_000, 7)),
        np.full(7, 1 / 7),
        np.array([2, 1, 1, 1, 1, 1, 1]) / 8,  # three random bits modulo seven
    ),
}  # fmt: skip


def chi_square(counts, law):
    """Return the p-value of Pearson's statistic."""
    expected = law * counts.sum()
    rare = expected < EXPECTED
    if rare.any():
        expected = np.append(expected[~rare], expected[rare].sum())
        counts = np.append(counts[~rare], counts[rare].sum())
    if expected[-1] < EXPECTED:  # still: with the cell before
        expected = np.append(expected[:-2], expected[-2:].sum())
        counts = np.append(counts[:-2], counts[-2:].sum())
    return stats.chisquare(counts, expected).pvalue


def kolmogorov(counts, law):
    """Return a bound on the p-value of the largest distance between sums."""
    size = counts.sum()
    distance = np.abs(np.cumsum(counts) / size - np.cumsum(law)).max()
    return stats.kstwo.sf(distance, size)


@pytest.mark.parametrize("name", CASES)
def test_samplers_follow_their_law_and_no_other(name):
    case = CASES[name]
    counts = np.bincount(case.sample(), minlength=case.law.size)
    assert counts.size == case.law.size
    assert math.isclose(case.law.sum(), 1)
    for pvalue in (chi_square, kolmogorov):
        assert pvalue(counts, case.law) > FALSE_ALARM
        assert pvalue(counts, case.wrong) < FALSE_ALARM


@pytest.mark.parametrize(
    "values",
    [
        lambda: (
            MatrixMechanism(Identity(100), epsilon=Fraction(1, 2**47))
            .measure(np.zeros((100, 100), int))
            .values
        ),
        lambda: (
            MatrixMechanism(Identity(100), rho=Fraction(1, 2**93))
            .measure(np.zeros((100, 100), int))
            .values
        ),
        lambda: (
            noisy_release(
                np.zeros((2, 5000), int),
                sensitivity=1,
                groups=[1, 1],
                epsilon=Fraction(1, 2**46),
                released="sums",
            ).values
        ),
    ],
    ids=["Laplace", "Gaussian", "norm"],
)
def test_no_two_draws_share_entropy(values):
    """Of 10^4 numbers so wide two are equal with a probability below 1e-6."""
    found = np.concatenate([values().ravel(), values().ravel()[:100]])
    assert np.unique(found).size == found.size
