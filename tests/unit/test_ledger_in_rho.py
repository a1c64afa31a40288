"""A ledger of rho: what releases cost in it, and how one of epsilon goes over."""

import math
from fractions import Fraction

import pytest

import mmech as mm
from mmech.privacy.cost import in_rho


def spend(ledger, cost, **settings):
    return ledger.spend(cost, "a histogram", sensitivity=1, **settings)


# ------------------------------------------------------------------ prices

SIZE_ONE = {"sensitivity": 1, "released": "x"}
PRICES = {
    "laplace": (lambda **s: mm.noisy_release([3, 4], **SIZE_ONE, **s),
        {"epsilon": "2/3"}, in_rho(Fraction(2, 3))),
    "k_norm": (lambda **s: mm.noisy_release([3, 4], groups=[1, 1], **SIZE_ONE, **s),
        {"epsilon": "2/3"}, in_rho(Fraction(2, 3))),
    "permute_and_flip": (lambda **s: mm.permute_and_flip([3, 4], released="x", **s),
        {"epsilon": "2/3"}, in_rho(Fraction(2, 3))),
    "exponential": (lambda **s: mm.exponential_mechanism([3, 4], released="x", **s),
        {"epsilon": "2/3"}, Fraction(1, 18)),
    "exponential, rho": (
        lambda **s: mm.exponential_mechanism([3, 4], released="x", **s),
        {"rho": "1/18"}, Fraction(1, 18)),
    "gaussian": (lambda **s: mm.noisy_release([3, 4], **SIZE_ONE, **s), {"rho": "2/9"},
        Fraction(2, 9)),
    "laplace, mechanism": (
        lambda **s: mm.MatrixMechanism(mm.Identity(2), **s).measure([3, 4]),
        {"epsilon": "2/3"},
        in_rho(Fraction(2, 3)),
    ),
    "gaussian, mechanism": (
        lambda **s: mm.MatrixMechanism(mm.Identity(2), **s).measure([3, 4]),
        {"rho": "2/9"},
        Fraction(2, 9),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRICES)
def test_every_kind_of_release_has_its_price(name):
    release, budget, price = PRICES[name]
    ledger = mm.PrivacyLedger(price, currency="rho")
    release(ledger=ledger, **budget)
    (entry,) = ledger.entries
    assert (entry.cost, entry.currency) == (price, "rho")
    assert entry.kind == name.split(", ")[0]
    assert ledger.remaining == 0
    less = mm.PrivacyLedger(price * Fraction(999, 1000), currency="rho")
    with pytest.raises(mm.BudgetExceededError, match="this release needs rho = "):
        release(ledger=less, **budget)
    assert less.spent == 0


@pytest.mark.parametrize("name", [name for name in PRICES if "rho" in PRICES[name][1]])
def test_a_ledger_of_epsilon_takes_no_rho(name):
    release, budget, _ = PRICES[name]
    for total in (1, math.inf):
        ledger = mm.PrivacyLedger(total)
        with pytest.raises(TypeError, match="of pure epsilon cannot pay"):
            release(ledger=ledger, **budget)
        assert ledger.spent == 0


def test_many_releases_cost_the_sum_of_their_squares():
    """A hundred of epsilon 1/100 cost epsilon 1, or next to rho of 1/200."""
    pure, concentrated = mm.PrivacyLedger(1), mm.PrivacyLedger("1/200", currency="rho")
    for ledger in (pure, concentrated):
        for _ in range(100):
            spend(ledger, "1/100")
    assert pure.remaining == 0
    assert 0 < concentrated.remaining < Fraction(1, 10**7)


def test_people_of_other_numbers_of_records_do_not_mix():
    ledger = mm.PrivacyLedger(1, records_per_person=3)
    mechanism = mm.MatrixMechanism(mm.Identity(2), epsilon=1, ledger=ledger)
    with pytest.raises(ValueError, match=r"up to 3 records but .* removing one record"):
        mechanism.measure([1, 2])
    with pytest.raises(
        ValueError, match=r"with up to 3 records but .* up to 2 records"
    ):
        mm.noisy_release(
            [1], **SIZE_ONE, epsilon=1, ledger=ledger, records_per_person=2
        )
    assert ledger.spent == 0
