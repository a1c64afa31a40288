"""Laws of noise: asked for by name, and one that the package does not know."""

import json
from fractions import Fraction

import numpy as np
import pytest
from maintainer_pages import law_of_the_page

from mmech import (
    Identity,
    MatrixMechanism,
    Prefix,
    PrivacyLedger,
    expected_error,
    optimize,
)
from mmech.noise import GAUSSIAN, LAPLACE, LAWS, law_and_cost

TWO_SERVERS = law_of_the_page()
"""The law of a page for maintainers; nothing else knows of it."""


@pytest.fixture
def foreign(monkeypatch):
    monkeypatch.setitem(LAWS, TWO_SERVERS.name, TWO_SERVERS)


# ------------------------------------------------------------------ laws by name


@pytest.mark.parametrize(
    ("noise", "currency", "law"),
    [
        (None, "epsilon", LAPLACE),
        ("laplace", "epsilon", LAPLACE),
        (None, "rho", GAUSSIAN),
        ("gaussian", "rho", GAUSSIAN),
    ],
)
def test_a_law_is_asked_for_by_name(noise, currency, law):
    price = {currency: "1/2"}
    mechanism = MatrixMechanism(Prefix(3), Identity(3), noise=noise, **price)
    assert mechanism.law is law
    assert mechanism.measure([1, 2, 3]).entry.kind == law.name
    found = law_and_cost(price.get("epsilon"), price.get("rho"), noise)
    assert found == (law, Fraction(1, 2))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_law_says_all_that_a_release_needs(law):
    """Its parameter grows with the sensitivity, its variance is what draws have."""
    law = law.grouped([2]) if law.grouped else law  # of one group: Laplace noise
    sizes = [Fraction(1, 2), Fraction(3), Fraction(50)]
    parameters = [law.parameter(size, Fraction(1, 3)) for size in sizes]
    assert all(isinstance(parameter, Fraction) for parameter in parameters)
    assert parameters == sorted(parameters)
    assert [p / parameters[0] for p in parameters] == [s / sizes[0] for s in sizes]
    assert law.power == {"L1": 1, "L2": 2}[law.norm]
    one = law.parameter(Fraction(1), Fraction(1, 1000))
    assert law.variance(one) == pytest.approx(law.continuous(Fraction(1, 1000)), 1e-3)
    drawn = law.draw(parameters[1], (2, 5))
    assert (drawn.dtype, drawn.shape) == (np.int64, (2, 5))


# ------------------------------------------------------------------ a foreign law


def test_a_foreign_law_is_used_by_name(foreign):
    ledger = PrivacyLedger(2)
    settings = {"epsilon": 1, "noise": "two_servers", "ledger": ledger}
    mechanism = MatrixMechanism(Prefix(3), Identity(3), **settings)
    measured = mechanism.measure([1, 2, 3])
    assert (measured.entry.kind, measured.scale) == ("two_servers", 1.0)
    assert measured.variance == TWO_SERVERS.variance(Fraction(1))
    assert mechanism.reconstruct(measured).shape == (3,)
    assert mechanism.expected_error() == pytest.approx(6 * measured.variance)
    (release,) = json.loads(ledger.to_json())["releases"]
    assert (release["kind"], release["epsilon"]) == ("two_servers", "1")
    assert measured.entry.how == "two_servers noise of sensitivity 1"
    with pytest.raises(TypeError, match="has two_servers noise but this mechanism"):
        MatrixMechanism(Prefix(3), Identity(3), epsilon=1).reconstruct(measured)
    with pytest.raises(ValueError, match="optimized for L2 sensitivity but this noise"):
        MatrixMechanism(Prefix(3), optimize(Prefix(3), privacy="zcdp"), **settings)
    assert expected_error(Prefix(3), Identity(3), epsilon=1) == 12.0


@pytest.mark.parametrize(
    "law", [LAPLACE, GAUSSIAN, TWO_SERVERS], ids=lambda law: law.name
)
@pytest.mark.parametrize("size", [Fraction(1, 4), Fraction(3)])
def test_a_law_knows_its_characteristic_function_and_tails(law, size):
    """The mean cosine within six standard errors: false alarms of 2e-9 each."""
    parameter = law.parameter(size, Fraction(1))
    drawn = law.draw(parameter, (20_000,))
    at = np.array([0.0, 0.3, 1.0, 2.0])
    cosines = np.cos(np.outer(drawn, at))
    margin = 6 * cosines.std(axis=0) / np.sqrt(drawn.size)
    found = law.characteristic(parameter, at)
    assert (np.abs(cosines.mean(axis=0) - found) <= margin + 1e-12).all()
    beyond = np.abs(drawn) > law.tail(parameter, 0.05)
    assert beyond.mean() <= 0.05 + 6 * np.sqrt(0.05 * 0.95 / drawn.size)
