"""What one ledger says in epsilon, in rho, at a delta, and of planned releases."""

import json
import math
from fractions import Fraction

import pytest
from refusals import refused

import mmech as mm
from mmech.privacy import numerical
from mmech.privacy.cost import in_rho

DELTA = 1e-6
TREE = mm.VStack([mm.Identity(4), mm.Dense([[1, 1, 1, 1]])])
CHOICE = {"released": "a choice", "monotone": True}


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_one_ledger_answers_in_both_currencies(currency):
    ledger = mm.PrivacyLedger(9, currency=currency)
    tree = mm.MatrixMechanism(TREE, TREE, epsilon=1, ledger=ledger)
    tree.measure([1, 2, 3, 4])
    mm.exponential_mechanism([3, 1], epsilon="1/2", ledger=ledger, **CHOICE)
    ledger.spend("1/4", "something", sensitivity=1)
    assert ledger.epsilon() == Fraction(7, 4)
    price = tree.planned.rho + Fraction(1, 32) + in_rho(Fraction(1, 4))
    assert ledger.rho() == price
    assert ledger.spent == (Fraction(7, 4) if currency == "epsilon" else price)
    if currency == "rho":
        mm.noisy_release([1], sensitivity=1, rho="1/50", released="one", ledger=ledger)
        assert (ledger.epsilon(), ledger.rho()) == (math.inf, price + Fraction(1, 50))


def test_a_draw_that_rho_paid_for_has_a_pure_epsilon():
    ledger = mm.PrivacyLedger(1, currency="rho")
    mm.exponential_mechanism([3, 1], rho="1/32", ledger=ledger, **CHOICE)
    mm.exponential_mechanism([3, 1], rho="1/20", ledger=ledger, **CHOICE)
    exact = 0.5 + math.sqrt(8 / 20)
    assert float(ledger.epsilon()) == pytest.approx(exact, rel=1e-12)
    assert (ledger.epsilon() - Fraction(1, 2)) ** 2 >= Fraction(8, 20)


def test_disjoint_parts_count_once_in_all_currencies():
    ledger = mm.PrivacyLedger(9)
    north, south = (ledger.part("region", name) for name in ("north", "south"))
    # One release of the south costs more epsilon, nine of the north cost more rho.
    mm.MatrixMechanism(TREE, TREE, epsilon=1, ledger=south).measure([1, 2, 3, 4])
    north.spend("9/10", "sums", sensitivity=1)
    assert (ledger.epsilon(), south.epsilon()) == (1, 1)
    assert ledger.rho() == north.rho() == in_rho(Fraction(9, 10)) > south.rho()
    assert ledger.epsilon_delta(DELTA) <= 1


@pytest.fixture
def without_the_extra(monkeypatch):
    """Numerical composition has tests of its own."""
    monkeypatch.setattr(numerical, "find_spec", lambda name: None)


@pytest.mark.usefixtures("without_the_extra")
def test_some_releases_in_epsilon_and_others_in_rho():
    """A large release counts in epsilon, many small ones in rho."""
    ledger = mm.PrivacyLedger(math.inf)
    assert ledger.epsilon_delta(DELTA) == 0
    ledger.spend(4, "large", sensitivity=1)
    assert ledger.epsilon_delta(DELTA) == 4
    for _ in range(200):
        ledger.spend("1/20", "small", sensitivity=1)
    found = ledger.epsilon_delta(DELTA)
    small = 200 * in_rho(Fraction(1, 20))
    assert found == 4 + mm.epsilon_from_rho(small, DELTA)
    assert found < min(
        float(ledger.epsilon()), mm.epsilon_from_rho(ledger.rho(), DELTA)
    )
    refused(lambda: ledger.epsilon_delta(0), "delta must be a probability", ValueError)


@pytest.mark.usefixtures("without_the_extra")
def test_delta_of_gaussian_noise_is_that_of_its_rho():
    ledger = mm.PrivacyLedger(1, currency="rho")
    mm.noisy_release([1], sensitivity=1, rho="1/50", released="one", ledger=ledger)
    assert ledger.epsilon_delta(DELTA) == mm.epsilon_from_rho(Fraction(1, 50), DELTA)
    ledger.spend("1/1000", "small", sensitivity=1)
    assert ledger.epsilon_delta(DELTA) <= mm.epsilon_from_rho(ledger.rho(), DELTA)


# ------------------------------------------------------------------ on disk


def test_entries_of_older_files_are_read(tmp_path):
    """They have one cost, of a release that may be priced by its kind."""
    path = tmp_path / "budget.json"
    ledger = mm.PrivacyLedger.open(path, total=9, currency="rho")
    ledger.spend("1/2", "a sum", sensitivity=1, kind="gaussian", currency="rho")
    (release,) = json.loads(path.read_text(encoding="utf-8"))["releases"]
    assert "epsilon" not in release
    again = mm.PrivacyLedger.open(path)
    assert (again.epsilon(), again.rho()) == (math.inf, Fraction(1, 2))


# ------------------------------------------------------------------ planned releases


def test_planned_releases_are_priced_and_not_charged():
    ledger = mm.PrivacyLedger(1, currency="rho")
    ledger.spend("1/10", "one", sensitivity=1, currency="rho", kind="gaussian")
    tree = mm.MatrixMechanism(TREE, TREE, epsilon=1)
    planned = [
        tree,
        {"epsilon": "1/2", "kind": "exponential"},
        {"rho": "1/50"},
        mm.LedgerEntry(Fraction(1, 4), "sums"),
    ]
    after = ledger.what_if(planned)
    price = tree.planned.rho + Fraction(1, 32) + Fraction(1, 50)
    assert after.spent == Fraction(1, 10) + price + in_rho(Fraction(1, 4))
    assert after.epsilon_delta(DELTA) > ledger.epsilon_delta(DELTA)
    assert (ledger.spent, len(ledger.entries)) == (Fraction(1, 10), 1)
    with pytest.raises(mm.BudgetExceededError, match="shows planned releases"):
        after.spend("1/100", "one", sensitivity=1)
    tree.measure([1, 2, 3, 4])
    assert tree.ledger.entries == (tree.planned,)
