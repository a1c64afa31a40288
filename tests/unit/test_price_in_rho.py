"""What Laplace noise costs in rho: its price by hand, and against all small tables."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import reference as ref

import mmech as mm
from mmech.integer_strategy import IntegerBlock, IntegerStrategy
from mmech.privacy.cost import in_rho, laplace_rho

SCALES = [Fraction(1, 9), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(40)]
ORDERS = 1 + np.logspace(-3, 3, 60)


# ------------------------------------------------------------------ one row


@pytest.mark.parametrize("scale", [*SCALES, Fraction(10**6, 7)])
@pytest.mark.parametrize("distance", [1, 2, 3, 17, 1000])
def test_the_price_of_a_distance_is_its_divergence(distance, scale):
    price = laplace_rho(distance, scale)
    exact = ref.laplace_rho(distance, scale)
    assert exact * (1 - 1e-9) <= price <= exact * (1 + 2e-9)
    assert price <= (distance / scale) ** 2 / 2


@pytest.mark.parametrize("scale", SCALES)
def test_prices_are_convex_and_fall_with_the_scale(scale):
    prices = [0, *(laplace_rho(m, scale) for m in range(1, 60))]
    steps = np.diff([float(price) for price in prices])
    assert (np.diff(steps) >= -1e-7 * steps[1:]).all()
    for m in (1, 5, 40):
        assert laplace_rho(m, scale * Fraction(11, 10)) < laplace_rho(m, scale)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("distance", [1, 2, 3, 8, 33])
def test_the_divergence_per_order_is_largest_at_order_one(distance, scale):
    """The claim that the price rests on, by sums over all outputs."""
    shares = ref.laplace_divergences(distance, scale, ORDERS) / ORDERS
    assert (shares <= float(laplace_rho(distance, scale)) * (1 + 1e-7)).all()
    assert (np.diff(shares) <= 1e-6 * shares[:-1]).all()
    assert shares[0] >= 0.999 * float(laplace_rho(distance, scale))


@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1), Fraction(9)])
def test_no_pure_mechanism_costs_more_than_randomised_response(epsilon, rng):
    """Pairs of laws with ratios in [e^-ε, e^ε], its corners among them."""
    worst = 0.0
    for _ in range(200):
        ratios = np.exp(float(epsilon) * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], 6))
        high, low = ratios.max(), ratios.min()
        # Weights of Q under which P = ratios Q has total one.
        base = rng.dirichlet(np.ones(6))
        if not low < 1 < high:
            continue
        mean = base @ ratios
        corner = np.zeros(6)
        corner[ratios.argmin() if mean > 1 else ratios.argmax()] = 1
        share = (mean - 1) / (mean - corner @ ratios)
        q = (1 - share) * base + share * corner
        assert q @ ratios == pytest.approx(1)
        for order in (1.001, 1.5, 3.0, 40.0):
            found = math.log(q @ ratios**order) / (order - 1)
            assert found <= order * float(in_rho(epsilon)) * (1 + 1e-9)
            worst = max(worst, found / order)
    assert worst > 0.3 * float(in_rho(epsilon))


# ------------------------------------------------------------------ strategies

STRATEGIES = {
    "cells": mm.Identity(3),
    "prefix sums": mm.Prefix(3),
    "tree": mm.VStack([mm.Identity(3), mm.Dense([[1, 1, 1]])]),
    "weighted tree": mm.Hierarchy(3, {1: 1.0, 3: 0.5}),
    "signs": mm.Dense([[1, -1, 0], [0, 1, 1], [1, 0, 0]]),
    "entries": mm.Dense([[2, 0, 1], [0, 1, 3], [1, 1, 1]]),
}


FEW_ORDERS = np.array([1.0001, 1.3, 2.0, 5.0, 30.0])


@cache
def divergences(distance, scale):
    return ref.laplace_divergences(distance, scale, FEW_ORDERS)


def worst_share(mechanism, moved):
    """Return the largest D_a / a of neighbours, over orders, and D_1."""
    rows, scales = ref.measured_rows(mechanism)
    worst = 0.0
    for change in moved:
        total = sum(
            divergences(abs(int(m)), scale)
            for m, scale in zip(rows @ change, scales, strict=True)
            if m
        )
        worst = max(worst, np.max(total / FEW_ORDERS))
    return worst


@pytest.mark.parametrize("records", [1, 2])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace", "labels"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_all_neighbours_of_small_tables_cost_no_more(name, neighbours, records):
    strategy = STRATEGIES[name]
    moved = ref.changes(3, neighbours, records)
    for epsilon in ("1/3", 2):
        mechanism = mm.MatrixMechanism(
            strategy, strategy, epsilon=epsilon, neighbours=neighbours,
            records_per_person=records,
        )  # fmt: skip
        rho = float(mechanism.planned.rho)
        worst = worst_share(mechanism, moved)
        assert worst <= rho * (1 + 1e-9)
        # Rows of one value and of one sign are priced exactly, but for replacements
        # within a row, which make up for each other.
        tight = 0.999 if neighbours == "add_remove" and name in TIGHT else 0.3
        assert worst >= tight * rho
    assert mechanism.planned.rho <= in_rho(Fraction(2))


TIGHT = ("cells", "prefix sums", "tree", "weighted tree")


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_signs_and_contributions_are_changes_of_any_cells(neighbours):
    """A record may take away from counts, and change two of them."""
    strategy = mm.Dense([[1, 1, 0], [0, 1, 1]])
    size = 4 if neighbours == "replace" else 2
    moved = [
        np.array(change)
        for change in itertools.product(range(-size, size + 1), repeat=3)
        if sum(map(abs, change)) <= size
    ]
    for settings in ({"contribution": 2}, {"contribution": 2, "signed": True}):
        mechanism = mm.MatrixMechanism(
            strategy, strategy, epsilon=1, neighbours=neighbours, **settings
        )
        assert worst_share(mechanism, moved) <= float(mechanism.planned.rho)
    single = mm.MatrixMechanism(
        strategy, strategy, epsilon=1, neighbours=neighbours, signed=True
    )
    moved = [c for c in moved if np.abs(c).sum() <= size // 2]
    assert worst_share(single, moved) <= float(single.planned.rho)


def brute_force(released, scale, moves):
    rows, weights = ref.integer_rows(released)
    return max(
        sum(
            ref.laplace_rho(moves * abs(a), scale / k)
            for a, k in zip(column, weights, strict=True)
            if a
        )
        for column in rows.T
    )


def test_blocks_with_weights_of_their_own(rng):
    entries = mm.Dense(rng.integers(0, 2, (30, 5)))
    stack = IntegerBlock(mm.VStack([entries, mm.Identity(5)]), 7)
    for most in (3, 10**6):
        weights = rng.integers(1, most, 10).tolist()
        blocks = tuple(IntegerBlock(entries, weight) for weight in weights)
        for own in (blocks, (*blocks, stack)):
            released = IntegerStrategy(own, entries)
            scale = Fraction(released.sensitivity, 3)
            exact = brute_force(released, scale, 2)
            assert exact <= released.laplace_rho(scale, 2) <= 1.02 * exact


def test_large_entries_and_products_are_bounded():
    entries = mm.Dense([[2**40, 1], [0, 2**40], [3, 5]])
    for matrix in (entries, mm.Kronecker([mm.Dense([[5, 1], [1, 7]]), mm.Prefix(4)])):
        released = IntegerStrategy((IntegerBlock(matrix),), matrix)
        for epsilon in (Fraction(1, 2), Fraction(4)):
            scale = released.sensitivity / epsilon
            exact = ref.laplace_rho(1, scale) if matrix is entries else 0
            if matrix is not entries:
                exact = brute_force(released, scale, 1)
            price = released.laplace_rho(scale, 1)
            assert exact <= price <= float(epsilon) ** 2 / 2


def test_many_rows_cost_a_fraction():
    """A tree of 16 levels: at most about epsilon² / (2 * 16) of rho."""
    tree = mm.Hierarchy(2**15, {2**level: 1 for level in range(16)})
    mechanism = mm.MatrixMechanism(mm.Prefix(2**15), tree, epsilon=1)
    exact = 16 * ref.laplace_rho(1, Fraction(16))
    assert exact <= mechanism.planned.rho <= exact * (1 + 1e-5)
    pairs = mm.Marginals(
        (2,) * 14, {s: 1 for s in itertools.combinations(range(14), 2)}
    )
    price = float(mm.MatrixMechanism(pairs, pairs, epsilon=1).planned.rho)
    assert price == pytest.approx(91 * ref.laplace_rho(1, Fraction(91)), rel=1e-5)


# ------------------------------------------------------------------ charges


def test_a_ledger_of_rho_pays_the_price():
    strategy = mm.VStack([mm.Identity(4), mm.Dense([[1, 1, 1, 1]])])
    ledger = mm.PrivacyLedger(1, currency="rho")
    mechanism = mm.MatrixMechanism(strategy, strategy, epsilon=1, ledger=ledger)
    mechanism.measure([3, 0, 2, 1])
    (entry,) = ledger.entries
    assert entry.cost == ledger.spent == mechanism.planned.rho < in_rho(Fraction(1))
    assert float(entry.cost) == pytest.approx(2 * ref.laplace_rho(1, 2), rel=1e-5)
    assert (entry.currency, entry.epsilon, entry.rho) == ("rho", 1, entry.cost)
    pure = mm.PrivacyLedger(1)
    mm.MatrixMechanism(strategy, strategy, epsilon=1, ledger=pure).measure([3, 0, 2, 1])
    (entry,) = pure.entries
    assert (entry.cost, entry.rho) == (1, ledger.spent)


def test_what_a_caller_states_is_taken_for_a_change_of_one_number():
    ledger = mm.PrivacyLedger(9, currency="rho")
    for size in (1, 5, Fraction(7, 2), Fraction(1, 3)):
        mm.noisy_release(
            [4, 4], sensitivity=size, epsilon=2, released="sums", ledger=ledger
        )
        whole = math.ceil(size)
        exact = min(ref.laplace_rho(whole, Fraction(size) / 2), in_rho(Fraction(2)))
        assert float(ledger.entries[-1].cost) == pytest.approx(float(exact), rel=1e-8)


def test_records_that_tables_leave_out_have_their_price():
    """How many there are has Laplace noise of all of epsilon, on one number."""
    domain = mm.Domain(
        [mm.Attribute.categorical(name, list("xyzuv")) for name in "abcdef"]
    )
    prices, listed = [], list(itertools.combinations("abcdef", 2))
    for policy in ("error", "drop"):
        # Unlimited: a ledger of rho takes the pure release at its price.
        ledger = mm.PrivacyLedger(math.inf, currency="rho")
        mm.release_tables(
            [list("xyzuvx")] * 9, domain, tables=listed, epsilon=1, ledger=ledger,
            handle_unknown=policy,
        )  # fmt: skip
        prices.append(ledger.spent)
    assert prices[0] < in_rho(Fraction(1)) / 2
    assert prices[1] == in_rho(Fraction(1))
