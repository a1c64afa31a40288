"""Gaussian noise and zCDP: conversions, the mechanism, its errors."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import mmech as mm
from mmech.noise import discrete_gaussian_variance

PAIRS = [(1e-8, 1e-3), (1e-3, 0.1), (0.05, 1.0), (0.5, 1.0), (2.56, 17.0), (3.0, 0.5)]


# ---------------------------------------------------------------- conversions


def worst_delta(rho, epsilon):
    """The same formula, its orders searched one by one."""
    orders = 1 + np.logspace(-6, 8, 400_001)
    logs = (orders - 1) * (orders * rho - epsilon) - np.log(orders - 1)
    logs += orders * np.log1p(-1 / orders)
    return math.exp(logs.min())


@pytest.mark.parametrize(("rho", "epsilon"), PAIRS)
def test_delta_is_the_minimum_over_all_orders(rho, epsilon):
    worst = pytest.approx(worst_delta(rho, epsilon), rel=1e-6, abs=1e-300)
    assert mm.delta_from_rho(rho, epsilon) == worst


@pytest.mark.parametrize(("rho", "epsilon"), PAIRS[1:])
def test_delta_covers_the_gaussian_mechanism(rho, epsilon):
    """∫ (p - e^ε p')₊, the exact delta of one Gaussian release, is no larger."""
    sigma = 1 / math.sqrt(2 * rho)
    edge = 0.5 - epsilon * sigma**2  # where p = e^ε p'

    def excess(x):
        other = stats.norm.pdf(x, 1, sigma)
        return stats.norm.pdf(x, 0, sigma) - math.exp(epsilon) * other

    settings = {"epsabs": 0, "epsrel": 1e-8, "limit": 200}
    exact, _ = integrate.quad(excess, edge - 12 * sigma, edge, **settings)
    assert 0 < exact <= mm.delta_from_rho(rho, epsilon)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.5, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_epsilon_is_tight_and_below_the_textbook(rho, delta):
    epsilon = mm.epsilon_from_rho(rho, delta)
    # Bun, Steinke, TCC 2016, Proposition 1.3.
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert mm.delta_from_rho(rho, max(epsilon, 1e-12)) <= delta
    if epsilon > 0:
        assert mm.delta_from_rho(rho, epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.9])
def test_rho_is_the_largest_that_fits(epsilon, delta):
    rho = mm.rho_from_epsilon_delta(epsilon, delta)
    assert mm.delta_from_rho(rho, epsilon) <= delta
    assert mm.delta_from_rho(rho * (1 + 1e-6), epsilon) > delta
    assert mm.epsilon_from_rho(rho, delta) == pytest.approx(epsilon, rel=1e-6)


def test_conversions_of_the_2020_census():
    """Persons: rho 2.56 was announced as about epsilon 17.1 at delta 1e-10."""
    assert mm.epsilon_from_rho("2.56", 1e-10) == pytest.approx(17.1, abs=0.1)


def test_conversions_at_the_ends():
    assert mm.delta_from_rho(1e-300, 1) == 0
    assert mm.delta_from_rho(1e4, 1e-3) == pytest.approx(1)
    assert mm.epsilon_from_rho(1e-9, 0.5) == 0.0
    assert mm.rho_from_epsilon_delta(1e-3, 0.999999) > 10
    assert mm.delta_from_rho("1/20", Fraction(1)) == mm.delta_from_rho(0.05, 1)


# ------------------------------------------------------------------ mechanism


def test_measurement_and_records():
    mechanism = mm.MatrixMechanism(mm.Prefix(4), 2 * mm.Identity(4), rho="1/8")
    measurement = mechanism.measure([1, 2, 3, 4])
    # The factor 2 is left out of what is counted.
    assert measurement.scale == 2.0
    assert measurement.sensitivity == 1.0
    assert measurement.values.dtype == np.int64
    assert measurement.cost == Fraction(1, 8)
    assert mechanism.reconstruct(measurement).shape == (4,)
    assert mechanism.ledger.spent == Fraction(1, 8)
    mechanism.answer([[1, 2], [2, 0], [3, 1], [4, 0]])
    assert mechanism.ledger.spent == Fraction(1, 4)
    first, _ = mechanism.ledger.entries
    assert first == measurement.entry
    assert (first.kind, first.currency, first.sensitivity) == ("gaussian", "rho", 1.0)
    assert "Scaled(2, Identity(4))" in first.released


def test_neighbours_and_contribution_scale_the_noise():
    plain = mm.MatrixMechanism(mm.Prefix(3), mm.Identity(3), rho=0.5)
    # The discrete noise is a little less than σ² = 1.
    assert plain.expected_error() == pytest.approx(6 * discrete_gaussian_variance(1))
    assert plain.expected_error() == pytest.approx(6.0, rel=1e-6)
    replace = mm.MatrixMechanism(
        mm.Prefix(3), mm.Identity(3), rho=0.5, neighbours="replace"
    )
    assert replace.measure([1, 1, 1]).scale == 2.0
    assert replace.expected_error() == 24.0
    many = mm.MatrixMechanism(mm.Prefix(3), mm.Identity(3), rho=0.5, contribution=3)
    assert many.measure([1, 1, 1]).scale == 3.0
    assert many.expected_error() == 54.0
    several = {"neighbours": "replace", "records_per_person": 3}
    person = mm.MatrixMechanism(mm.Prefix(3), mm.Identity(3), rho=0.5, **several)
    assert person.measure([1, 1, 1]).scale == 6.0
    assert person.expected_error() == 6 * 36.0


# ---------------------------------------------------------------------- noise


@pytest.mark.statistical
def test_neighbours_are_within_delta():
    """The most revealing event of one release, at (epsilon, delta) from rho.

    With 200 000 runs each, the difference of two frequencies exceeds its
    expectation by 6 standard errors with probability 1e-9.
    """
    rho, epsilon, runs = 0.5, 0.5, 200_000
    mechanism = mm.MatrixMechanism(mm.Prefix(4), rho=rho)
    exact = mechanism.released.form @ np.array([[3, 3], [1, 2], [0, 0], [5, 5]])
    step = exact[:, 1] - exact[:, 0]

    def scores(column):
        counts = np.array([[3, 3], [1, 2], [0, 0], [5, 5]])[:, [column]]
        values = mechanism.measure(np.tile(counts, (1, runs))).values
        return step @ (values - exact[:, :1])

    cut = 0.5 * step @ step + epsilon * mechanism.measure([0] * 4).scale ** 2
    hits, others = (scores(1) > cut).mean(), (scores(0) > cut).mean()
    slack = 6 * math.sqrt((hits + math.exp(2 * epsilon) * others + 1e-4) / runs)
    delta = mm.delta_from_rho(rho, epsilon)
    assert hits - math.exp(epsilon) * others <= delta + slack
    # The event is nearly the worst: half the delta would be noticed.
    assert hits - math.exp(epsilon) * others > 0.3 * delta
