"""Shifts of noise that no neighbours are less private than, and their composition."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from importlib.util import find_spec

import numpy as np
import pytest
import reference as ref
from scipy.stats import norm

import mmech as mm
from mmech.noise import LAPLACE, Price
from mmech.privacy import numerical
from mmech.privacy.answers import epsilon_delta
from mmech.privacy.cost import in_rho
from mmech.privacy.neighbours import Relation
from mmech.privacy.numerical import numerical_epsilon, shifts_of
from mmech.release import planned

with_the_extra = pytest.mark.skipif(
    find_spec("dp_accounting") is None, reason="needs the extra mmech[accounting]"
)
EPSILONS = np.linspace(-3, 6, 181)
TREE = mm.VStack([mm.Identity(3), mm.Dense([[1, 1, 1]])])
STRATEGIES = {
    "cells": mm.Identity(3),
    "prefix sums": mm.Prefix(3),
    "tree": TREE,
    "weighted tree": mm.Hierarchy(3, {1: 1.0, 3: 0.5}),
}
DELTAS = (1e-2, 1e-5, 1e-9)


# ------------------------------------------------------------------ exact losses


def law_of(law, parameter):
    """Return outputs and their probabilities, but for tails below 1e-30."""
    wide = 75 * parameter if law == "laplace" else 13 * math.sqrt(parameter)
    x = np.arange(-math.ceil(wide) - 10, math.ceil(wide) + 11)
    energy = (
        abs(x) / float(parameter) if law == "laplace" else x**2 / float(2 * parameter)
    )
    return x, np.exp(-energy) / np.exp(-energy).sum(), energy


def losses_of(shifts):
    """Return the law of the loss of independent shifts, as {loss: probability}."""
    total = {0.0: 1.0}
    for law, distance, parameter, times in shifts:
        x, weights, _ = law_of(law, parameter)
        b = float(parameter)
        if law == "laplace":
            own = (abs(x - distance) - abs(x)) / b
        else:
            own = distance * (distance - 2 * x) / (2 * b)
        for _ in range(times):
            found = defaultdict(float)
            one = defaultdict(float)
            for loss, weight in zip(np.round(own, 11), weights, strict=True):
                one[loss] += weight
            for (a, p), (c, q) in itertools.product(total.items(), one.items()):
                if p * q > 1e-22:
                    found[round(a + c, 11)] += p * q
            total = found
    return np.array(list(total)), np.array(list(total.values()))


def delta_of(losses, epsilons):
    values, weights = losses
    excess = -np.expm1(np.minimum(np.atleast_1d(epsilons)[:, None] - values, 0))
    return excess @ weights


# ------------------------------------------------------------------ domination


def moved_rows(mechanism, change):
    rows, parameters = ref.measured_rows(mechanism)
    moves = zip(abs(rows @ change), parameters, strict=True)
    return tuple(sorted((int(m), t) for m, t in moves if m))


def check_domination(mechanism, moved):
    """No neighbours have a larger delta than the shifts, at any epsilon."""
    most = delta_of(losses_of(mechanism.planned.shifts), EPSILONS)
    worst = np.zeros_like(most)
    for rows in {moved_rows(mechanism, change) for change in moved}:
        own = losses_of([(mechanism.law.name, m, t, 1) for m, t in rows])
        worst = np.maximum(worst, delta_of(own, EPSILONS))
    assert (worst <= most + 1e-9).all()
    return worst, most


@pytest.mark.by_day(4)
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_neighbours_are_less_private_than_the_shifts(
    name, neighbours, records, currency
):
    strategy = STRATEGIES[name]
    mechanism = mm.MatrixMechanism(
        strategy, strategy, neighbours=neighbours, records_per_person=records,
        **{currency: 1},
    )  # fmt: skip
    assert mechanism.planned.shifts
    worst, most = check_domination(mechanism, ref.changes(3, neighbours, records))
    if neighbours == "add_remove":
        np.testing.assert_allclose(worst, most, atol=1e-8)


@pytest.mark.parametrize("signed", [False, True])
def test_contributions_and_signs(signed):
    strategy = mm.VStack([mm.Identity(2), mm.Dense([[1, 1]])])
    mechanism = mm.MatrixMechanism(
        strategy, strategy, epsilon=2, contribution=2, signed=signed
    )
    moved = [
        np.array(change)
        for change in itertools.product(range(-2, 3), repeat=2)
        if sum(map(abs, change)) <= 2
    ]
    check_domination(mechanism, moved)


def test_of_unequal_columns_none_is_taken_to_dominate():
    for strategy, rows in (
        (mm.Dense([[2, 0, 1], [0, 1, 3], [1, 1, 1]]), 0),
        (mm.VStack([mm.Dense([[1, 1, 0, 0]]), mm.Dense([[0, 0, 3, 3]])]), 0),
        (mm.Dense([[2, 0], [0, 1]]), 0),
        (mm.Dense([[2, 0], [0, -2]]), 1),
        (mm.VStack([mm.Dense([[1, 0]]), mm.Dense([[0, 1]])]), 1),
        (mm.Kronecker([mm.Prefix(3), mm.Dense([[0, 5]])]), 3),
        (mm.Kronecker([mm.Prefix(3), mm.Dense([[1, 5]])]), 0),
        (mm.VStack([mm.Dense([[1, 1], [0, 1]]), 2 * mm.Dense([[1, 1]])]), 3),
    ):
        shifts = mm.MatrixMechanism(strategy, strategy, epsilon=1).planned.shifts
        assert sum(times for *_, times in shifts) == rows
        if shifts:
            largest = sum(d * times / b for _, d, b, times in shifts)
            assert largest == 1


def test_three_changes_that_share_rows_are_not_put_together():
    for strategy, known in ((TREE, False), (mm.Identity(3), True)):
        mechanism = mm.MatrixMechanism(
            strategy, strategy, epsilon=1, records_per_person=3
        )
        assert bool(mechanism.planned.shifts) == known
    check_domination(mechanism, ref.changes(3, "add_remove", 3))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("parameter", [Fraction(1, 3), Fraction(5, 2), Fraction(12)])
def test_a_longer_shift_is_less_private_than_its_parts(law, parameter):
    for first, second in ((1, 1), (1, 2), (3, 2)):
        whole = delta_of(losses_of([(law, first + second, parameter, 1)]), EPSILONS)
        parts = losses_of([(law, first, parameter, 1), (law, second, parameter, 1)])
        assert (delta_of(parts, EPSILONS) <= whole + 1e-9).all()
        shorter = delta_of(losses_of([(law, first, parameter, 1)]), EPSILONS)
        assert (shorter <= whole + 1e-9).all()


def test_what_a_caller_states():
    def shifts(**settings):
        return mm.noisy_release([3, 4], released="two", **settings).entry.shifts

    assert shifts(sensitivity=3, epsilon="1/2") == (("laplace", 3, Fraction(6), 1),)
    assert shifts(sensitivity="1/2", epsilon=1) == ()
    squared = {"squared_sensitivity": 3, "rho": "1/2"}
    assert shifts(**squared) == (("gaussian", 1, Fraction(3), 3),)
    assert shifts(sensitivity=2, rho=1) == ()
    assert shifts(sensitivity=1, epsilon=1, groups=[1, 1]) == ()


def test_where_one_charge_pays_for_two_releases_no_closer_price_is_taken():
    """As of tables of equal weight, and of how many records they leave out."""
    asked = [(0, 6, Fraction(3))], LAPLACE, Fraction(1), "three tables", Relation()
    *_, closer = planned(*asked)
    *_, entry = planned(*asked, Price())
    assert closer.rho < 0.9 * in_rho(Fraction(1))
    assert (entry.rho, entry.shifts) == (in_rho(Fraction(1)), ())
    domain = mm.Domain([mm.Attribute.categorical(name, list("xy")) for name in "ab"])
    for policy in ("error", "drop"):
        ledger = mm.PrivacyLedger(math.inf, currency="rho")
        mm.release_tables(
            [list("xy")] * 9, domain, ways=2, epsilon=1, ledger=ledger,
            handle_unknown=policy,
        )  # fmt: skip
        assert bool(ledger.entries[0].shifts) == (policy == "error")


# ------------------------------------------------------------------ composition


def exact_epsilon(losses, delta):
    values, _ = losses
    low, high = 0.0, float(values.max())
    for _ in range(60):
        middle = (low + high) / 2
        if delta_of(losses, middle)[0] > delta:
            low = middle
        else:
            high = middle
    return high


def entry(*shifts):
    return mm.LedgerEntry(Fraction(99), "noise", currency="rho", shifts=shifts)


def between(found, exact, wider=1e-3):
    """Whether an answer is an upper bound, and close."""
    assert exact * (1 - 1e-9) <= found <= exact * (1 + wider) + 1e-12


@with_the_extra
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(
    "shift",
    [
        ("laplace", 1, Fraction(1), 1),
        ("laplace", 7, Fraction(11, 2), 1),
        ("laplace", 3, Fraction(40), 3),
        ("gaussian", 1, Fraction(4), 1),
        ("gaussian", 3, Fraction(50), 2),
    ],
)
def test_one_release_has_the_delta_of_its_exact_law(shift, delta):
    between(numerical_epsilon([entry(shift)], delta), exact_epsilon(
        losses_of([shift]), delta), 2e-3)  # fmt: skip


@with_the_extra
@pytest.mark.parametrize("delta", DELTAS)
def test_wide_gaussian_noise_is_like_continuous_noise(delta):
    """Balle and Wang, ICML 2018, Theorem 8."""
    found = numerical_epsilon([entry(("gaussian", 400, Fraction(400**2), 1))], delta)
    exact = norm.cdf(0.5 - found) - math.exp(found) * norm.cdf(-0.5 - found)
    assert 0.98 * delta < exact < 1.001 * delta


@with_the_extra
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize(("times", "epsilon"), [(1, 1.0), (40, 0.25), (900, 0.02)])
def test_randomised_responses_have_a_binomial_tail(times, epsilon, delta):
    ones = np.arange(times + 1)
    logs = [math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1)
            for k in ones]  # fmt: skip
    weights = np.exp(logs + ones * epsilon - times * np.log1p(math.exp(epsilon)))
    exact = exact_epsilon(((2 * ones - times) * epsilon, weights), delta)
    pure = mm.LedgerEntry(Fraction(str(epsilon)), "a choice", "permute_and_flip")
    between(numerical_epsilon([pure] * times, delta), exact, 2e-3)


@with_the_extra
def test_different_laws_are_composed():
    shifts = [
        ("laplace", 1, Fraction(5, 2), 3),
        ("laplace", 2, Fraction(7), 1),
        ("gaussian", 1, Fraction(3), 1),
    ]
    for delta in DELTAS:
        exact = exact_epsilon(losses_of(shifts), delta)
        between(numerical_epsilon([entry(*shifts[:2]), entry(shifts[2])], delta), exact)


# ------------------------------------------------------------------ a ledger's answer


def mixed_ledger(**settings):
    ledger = mm.PrivacyLedger(math.inf, **settings)
    tree = mm.Hierarchy(16, {1: 1, 4: 1, 16: 1})
    for _ in range(20):
        mm.MatrixMechanism(tree, tree, epsilon="1/3", ledger=ledger).measure(range(16))
    for scores in ([3, 1], [1, 3]):
        mm.exponential_mechanism(
            scores, epsilon="1/2", ledger=ledger, released="a choice", monotone=True
        )
    mm.noisy_release(
        [3], sensitivity=1, epsilon="1/4", groups=[1], released="a number",
        ledger=ledger,
    )  # fmt: skip
    if ledger.currency == "rho":
        mm.noisy_release([3], sensitivity=1, rho="1/9", released="one", ledger=ledger)
        ledger.spend("1/5000", "something", sensitivity=1, currency="rho")
    for name in ("north", "south"):
        ledger.part("region", name).spend("1/50", "some", sensitivity=1)
    return ledger


@with_the_extra
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_an_answer_is_never_above_the_one_without_the_extra(currency, monkeypatch):
    ledger = mixed_ledger(currency=currency)
    found = [ledger.epsilon_delta(delta) for delta in DELTAS]
    after = ledger.what_if([{"epsilon": "1/4"}]).epsilon_delta(1e-5)
    assert found[1] < after <= found[1] + 0.25
    monkeypatch.setattr(numerical, "find_spec", lambda name: None)
    plain = [ledger.epsilon_delta(delta) for delta in DELTAS]
    assert all(f <= p for f, p in zip(found, plain, strict=True))
    assert found[1] < 0.97 * plain[1]


@pytest.mark.by_day(2)
@with_the_extra
@pytest.mark.parametrize("delta", DELTAS)
def test_what_has_no_known_loss_counts_by_its_rho(delta):
    """Gaussian noise by its rho, between its exact law and any split of delta."""
    known = entry(("laplace", 1, Fraction(4), 20))
    gaussian = ("gaussian", 1, Fraction(50), 1)
    other = mm.LedgerEntry(Fraction(1, 100), "something", currency="rho")
    both = epsilon_delta([known, other], delta)
    assert both == numerical_epsilon([known], delta, other.rho)
    splits = [
        numerical_epsilon([known], share * delta)
        + mm.epsilon_from_rho(other.rho, (1 - share) * delta)
        for share in np.linspace(0.01, 0.99, 99)
    ]
    exact = numerical_epsilon([known, entry(gaussian)], delta)
    assert exact < both < min(splits)
    assert both < 1.1 * exact
    # Alone it has the delta of its rho.
    tiny = entry(("laplace", 1, Fraction(10**5), 1))
    alone = numerical_epsilon([tiny], delta, Fraction(1, 2))
    between(alone, mm.epsilon_from_rho(Fraction(1, 2), delta))


def test_parts_of_a_partition_have_no_shifts():
    north = mm.LedgerEntry(Fraction(1), "some", partition="region", part="north")
    assert shifts_of(north) == ()
    assert numerical_epsilon([north], 1e-5) == math.inf


def test_numbers_beyond_doubles_count_in_rho():
    for shift in (
        ("laplace", 1, Fraction(1, 10**9), 1),
        ("laplace", 10**6, Fraction(10**6), 1),
        ("gaussian", 1, Fraction(10**30), 1),
    ):
        assert numerical_epsilon([entry(shift)], 1e-5) == math.inf
    many = [entry(("laplace", 1, Fraction(9), 10**6))]
    different = [entry(("laplace", 1, Fraction(k), 1)) for k in range(9, 99)]
    for entries in (many, different):
        assert numerical_epsilon(entries, 1e-9) == math.inf


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_a_file_keeps_shifts_and_an_older_one_has_none(tmp_path, currency):
    path = tmp_path / "budget.json"
    ledger = mm.PrivacyLedger.open(path, total=1, currency=currency)
    mm.MatrixMechanism(mm.Prefix(3), epsilon="2/3", ledger=ledger).measure([1, 2, 3])
    assert ledger.entries[0].shifts
    assert mm.PrivacyLedger.open(path).entries == ledger.entries
    old = mm.PrivacyLedger.open(tmp_path / "old.json", total=1, currency=currency)
    old.spend("1/2", "something", sensitivity=1)
    assert "shifts" not in (tmp_path / "old.json").read_text(encoding="utf-8")
    assert mm.PrivacyLedger.open(tmp_path / "old.json").entries[0].shifts == ()
