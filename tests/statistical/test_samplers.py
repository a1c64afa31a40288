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
import reference as ref
from scipy import stats

from mmech import Identity, MatrixMechanism, noisy_release
from mmech.noise import (
    FRACTION_BITS,
    discrete_gaussian,
    discrete_laplace,
    integers_below,
    keyed_argmax,
    norm_noise,
    random_argmax,
    random_permutation,
    weighted_choice,
)
from mmech.noise import laplace as _laplace
from mmech.noise.system import random_words

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


def on_integers(draw, logarithm, wrong, reach, step=1):
    """Return a sampler of integers, in cells of some; all beyond the reach is an end.

    Laws are given by log weights.
    """

    def places(x):
        return np.clip(x // step, -reach, reach) + reach

    x = np.arange(-40 * reach * step, 40 * reach * step + 1)
    laws = [
        np.bincount(places(x), np.exp(own(x.astype(float))))
        for own in (logarithm, wrong)
    ]
    return Case(lambda: places(draw()), *(own / own.sum() for own in laws))


def laplace(scale, wrong, reach, step=1, draw=None):
    return on_integers(
        draw or (lambda: discrete_laplace(scale, (400_000,))),
        lambda x: -np.abs(x) / float(scale),
        lambda x: -np.abs(x) / float(wrong),
        reach,
        step,
    )


def few_digits(scale, count, size):
    """Return noise by so few digits that most draws take the exact, rare paths."""
    return lambda: _laplace._draw(Fraction(scale), (size,), None, count)


def gaussian(variance, reach, step=1):
    return on_integers(
        lambda: discrete_gaussian(variance, (400_000,)),
        lambda x: -(x**2) / (2 * float(variance)),
        lambda x: -(x**2) / (2 * 0.9 * float(variance)),
        reach,
        step,
    )


def within_a_box(groups, scale, reach):
    """Return noise for a norm at all points of a box; what is beyond is left out."""

    def cells():
        noise = norm_noise(scale, groups, 60_000)
        inside = noise[:, (np.abs(noise) <= reach).all(axis=0)] + reach
        assert inside.shape[1] > 0.9 * noise.shape[1]
        return np.ravel_multi_index(tuple(inside), (2 * reach + 1,) * len(noise))

    laws = (ref.norm_law(groups, own, reach)[1] for own in (scale, scale * 93 / 100))
    return Case(cells, *laws)


def tied(scores):
    return np.tile(scores, (100_000, 1))


def under_fresh_keys():
    """Return the ties of two items, numbered, as many released models see them."""
    keys = random_words(20_000, None).tolist()
    pairs = [keyed_argmax(np.zeros((2, 2)), [5, 6], key) for key in keys]
    return np.array(pairs) @ [2, 1]


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


MIXED = np.tile(np.arange(2, 11), 20_000)
RISING = [np.arange(4.0, n + 4) for n in range(2, 11)]
CASES = {
    "Laplace": laplace(Fraction(7, 2), 3.3, 30),
    "narrow Laplace": laplace(Fraction(1, 2), 0.475, 6),
    "wide Laplace": laplace(1000, 950, 150, 50),
    "wider Laplace": laplace(2**14, 2**14 * 0.95, 60, 2000),
    **{
        f"Laplace, {count} digits": laplace(
            Fraction(7, 2), 2, 30, draw=few_digits("7/2", count, 2500)
        )
        for count in (0, 1, 2)
    },
    # Nine of ten trials are events: the kernel pauses whenever 4096 were found.
    "Laplace in parts": laplace(10, 7, 60, draw=few_digits(10, 0, 6000)),
    "Gaussian": gaussian(Fraction(9, 2), 9),
    "narrow Gaussian": gaussian(Fraction(1, 4), 3),
    "wide Gaussian": gaussian(10**6, 80, 50),
    "norm": within_a_box((1, 2), Fraction(4, 5), 5),
    "norm of one": within_a_box((1,), Fraction(3, 2), 25),
    "norm of rows": within_a_box((1, 1), Fraction(7, 10), 18),
    "norm of five rows": within_a_box((2, 1, 2), Fraction(3, 10), 3),
    "norm of equal totals": within_a_box(((1, 3), 1), Fraction(1, 2), 4),
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
    "bytes": Case(
        lambda: random_words(100_000, None).view(np.uint8),
        np.full(256, 1 / 256),
        np.append(np.full(255, 1 / 255), 0),
    ),
    "integers below": Case(
        lambda: integers_below(np.full(100_000, 7)),
        np.full(7, 1 / 7),
        np.array([2, 1, 1, 1, 1, 1, 1]) / 8,  # three random bits modulo seven
    ),
    "integers below a bound that words favour": Case(
        lambda: integers_below(np.full(100_000, 3 * 2**61)) // 2**62,
        np.array([2, 1]) / 3,
        np.array([3, 1]) / 4,  # words modulo the bound
    ),
    "integers below many bounds": Case(
        lambda: MIXED * (MIXED - 1) // 2 - 1 + integers_below(MIXED),
        np.concatenate([np.full(n, 1 / n) for n in range(2, 11)]) / 9,
        np.concatenate([own / own.sum() for own in RISING]) / 9,
    ),
    "ties": Case(
        lambda: random_argmax(tied([4, 9, 9, 1, 9])),
        np.array([0, 1, 1, 0, 1]) / 3,
        np.array([0, 1.1, 1, 0, 0.9]) / 3,
    ),
    "ties under fresh keys": Case(
        under_fresh_keys, np.full(4, 1 / 4), np.array([1.1, 1, 1, 0.9]) / 4
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


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", CASES)
def test_samplers_follow_their_law_and_no_other(name):
    case = CASES[name]
    counts = np.bincount(case.sample(), minlength=case.law.size)
    assert counts.size == case.law.size
    assert math.isclose(case.law.sum(), 1)
    assert not counts[case.law == 0].any()
    for pvalue in (chi_square, kolmogorov):
        assert pvalue(counts, case.law) > FALSE_ALARM
        assert pvalue(counts, case.wrong) < FALSE_ALARM


def measured(**cost):
    mechanism = MatrixMechanism(Identity(100), **cost)
    return mechanism.measure(np.zeros((100, 100), int))


def summed(**cost):
    options = {"sensitivity": 1, "groups": [1, 1], "released": "sums"}
    return noisy_release(np.zeros((2, 5000), int), **options, **cost)


@pytest.mark.parametrize(
    ("release", "cost"),
    [
        (measured, {"epsilon": Fraction(1, 2**47)}),
        (measured, {"rho": Fraction(1, 2**93)}),
        (summed, {"epsilon": Fraction(1, 2**46)}),
    ],
    ids=["Laplace", "Gaussian", "norm"],
)
def test_no_two_draws_share_entropy(release, cost):
    """Of 10^4 numbers so wide two are equal with a probability below 1e-6."""
    first, second = (release(**cost).values.ravel() for _ in range(2))
    found = np.concatenate([first, second[:100]])
    assert np.unique(found).size == found.size


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian])
def test_draws_of_a_table_are_independent(draw):
    """Correlations of neighbours in a row and a column: 6 standard errors, 2e-9."""
    table = draw(5, (400, 400)).astype(float)
    table /= table.std()
    for shifted in (table[1:] * table[:-1], table[:, 1:] * table[:, :-1]):
        assert abs(shifted.mean()) < 6 / math.sqrt(shifted.size)
