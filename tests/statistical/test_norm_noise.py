"""Noise for a norm follows its law, and its releases keep their promise.

Noise comes from the operating system and no seed can fix it. Every test fails by
chance with probability at most 1e-6, and those of the law are
shown to reject a scale that is 7 % off.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from replay import with_noise
from scipy import stats

from mmech.audit import __main__ as command
from mmech.audit import epsilon_lower_bound
from mmech.noise import norm as _norm
from mmech.noise import norm_noise

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
EXPECTED = 10.0
"""Smallest expected count of a bin."""


def chisquare(counts, law):
    """Return the p-value of counts; bins of few expected counts are put together."""
    expected = law / law.sum() * counts.sum()
    often = expected >= EXPECTED
    rare = [expected[~often].sum()], [counts[~often].sum()]
    return stats.chisquare(
        np.append(counts[often], rare[1]), np.append(expected[often], rare[0])
    ).pvalue


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("groups", "scale"),
    [
        ((1,) * 60, 2),
        ((1,) * 20 + (3,) * 10, Fraction(1, 3)),
        ((25, 4), 64),
        (((1, 4, 4, 3), (2, 2), 1), 5),
    ],
    ids=["60 of one", "small scale", "two groups", "equal totals"],
)
def test_radii_of_many_rows(groups, scale):
    """r has weight V(r) q^r: a chi-square with V from its numerator."""
    blocks = _norm.as_blocks(groups)
    radii = _norm._radii(Fraction(scale), blocks, 50_000, None)
    count = 2 * int(radii.max()) + 50
    degree, (weights, _) = _norm.dimension(blocks), _norm.numerators(blocks)
    points = [
        sum(
            h * math.comb(r - k + degree, degree)
            for k, h in enumerate(weights[: r + 1])
        )
        for r in range(count)
    ]
    logarithms = np.array([math.log(int(v)) for v in points])
    step = max(1, int(radii.std() / 8))
    starts = np.arange(0, count, step)
    counts = np.bincount(radii // step, minlength=starts.size)
    for factor in (1.0, 0.93, 1.07):
        exponents = logarithms - np.arange(count) / (float(scale) * factor)
        law = np.add.reduceat(np.exp(exponents - exponents.max()), starts)
        assert (chisquare(counts, law) > FALSE_ALARM) == (factor == 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "neighbours"),
    [
        pytest.param("groups", "add_remove", marks=pytest.mark.slow),
        ("equal totals", "replace"),
    ],
)
def test_the_audit_accepts_the_release_and_refutes_mutants(name, neighbours, watch_all):
    """The case of ``python -m mmech.audit``.

    Where 1 is claimed, 12,000 runs find 0.7 or more, and 1.5 where noise is halved.
    """
    (case,) = (
        case
        for case in command.cases(1.0)
        if (case.name, case.neighbours) == (f"noisy_release, {name}", neighbours)
    )

    def bound():
        return epsilon_lower_bound(
            case.release,
            case.first,
            case.second,
            runs=12_000,
            confidence=1 - FALSE_ALARM,
            statistic=case.statistic,
        )

    found = bound()
    assert not found.refutes(case.claimed)
    assert found.refutes(case.claimed / 2)

    def too_little(scale, shape):
        return norm_noise(scale / 2, command.NORM_GROUPS[name], shape[1])

    watch_all(with_noise(too_little))
    assert bound().refutes(case.claimed)
