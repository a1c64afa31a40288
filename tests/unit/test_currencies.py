"""One ledger in two currencies, and persons with several records."""

import math
from fractions import Fraction

import numpy as np
import pytest

from mmech import (
    BudgetExceededError,
    PrivacyLedger,
    exponential_mechanism,
    noisy_release,
    permute_and_flip,
    rho_from_epsilon_delta,
)
from mmech.privacy.neighbours import Relation
from mmech.selection import fixed_point_rate

DELTA = 1e-6


def counted(ledger, **cost):
    return noisy_release(
        [3, 4], sensitivity=1, released="counts", ledger=ledger, **cost
    )


@pytest.mark.parametrize(
    ("release", "price"),
    [
        (lambda ledger: counted(ledger, epsilon="1/2"), Fraction(1, 8)),
        (lambda ledger: counted(ledger, rho="1/2"), Fraction(1, 2)),
        (
            lambda ledger: permute_and_flip(
                [3, 4], epsilon="1/2", released="a word", ledger=ledger
            ),
            Fraction(1, 8),
        ),
        (
            lambda ledger: exponential_mechanism(
                [3, 4], epsilon="1/2", released="a word", ledger=ledger
            ),
            Fraction(1, 32),
        ),
        (
            lambda ledger: exponential_mechanism(
                [3, 4], rho="1/2", released="a word", ledger=ledger
            ),
            Fraction(1, 2),
        ),
    ],
    ids=["Laplace", "Gaussian", "permute-and-flip", "draw", "draw for rho"],
)
def test_prices_in_rho(release, price):
    """ε² / 2 for pure epsilon, ε² / 8 for a draw, whose loss has bounded range."""
    ledger = PrivacyLedger(1, currency="rho")
    release(ledger)
    assert ledger.spent == price
    # The same price counts when a ledger of epsilon goes over later on.
    if price < Fraction(1, 2):
        pure = PrivacyLedger(1)
        release(pure)
        assert pure.concentrate(0.1).spent == price


def test_a_ledger_of_epsilon_pays_for_no_gaussian_noise():
    ledger = PrivacyLedger(10)
    with pytest.raises(TypeError, match="no finite epsilon covers"):
        counted(ledger, rho="1/100")
    assert ledger.spent == 0


def test_a_ledger_that_went_over_pays_for_nothing_more():
    pure = PrivacyLedger(1)
    counted(pure, epsilon="1/10")
    part = pure.part("region", "north")
    rho = pure.concentrate(DELTA)
    total = Fraction(rho_from_epsilon_delta(1, DELTA))
    assert rho.total == total
    assert rho.remaining == total - Fraction(1, 200)
    assert [e.released for e in rho.entries] == [e.released for e in pure.entries]
    for closed in (pure, part):
        with pytest.raises(BudgetExceededError, match="went over into one of rho"):
            counted(closed, epsilon="1/10")
    with pytest.raises(BudgetExceededError, match="keep to the ledger of epsilon"):
        pure.concentrate(DELTA)
    counted(rho, rho=rho.remaining)
    with pytest.raises(BudgetExceededError):
        counted(rho, rho="1/1000000")


def test_a_ledger_that_spent_too_much_stays():
    pure = PrivacyLedger(1)
    counted(pure, epsilon="9/10")
    with pytest.raises(BudgetExceededError, match="keep to the ledger of epsilon"):
        pure.concentrate(DELTA)
    counted(pure, epsilon="1/10")  # still open
    assert pure.remaining == 0


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("cost", [{"epsilon": "1/2"}, {"rho": "1/8"}])
def test_noise_for_a_person_of_several_records(cost, neighbours):
    """The standard deviation grows in proportion, under pure epsilon and zCDP."""

    def scale(records):
        noisy = noisy_release(
            [3, 4],
            sensitivity=1,
            released="counts",
            neighbours=neighbours,
            records_per_person=records,
            **cost,
        )
        return noisy.scale

    assert scale(3) == 3 * scale(1)


@pytest.mark.parametrize("monotone", [True, False])
def test_selections_for_a_person_of_several_records(monotone):
    """Adding all records of a person costs epsilon, not epsilon times their number."""

    def rate(records):
        relation = Relation(records_per_person=records)
        return fixed_point_rate(
            Fraction(3), monotone=monotone, relation=relation, roundings=1
        )

    assert 3 * (rate(3) + 12) == rate(1) + 12


def test_flips_for_a_person_of_several_records(noise_rng):
    """Of a gap of two records, one person with two of them is all there is."""
    draws = 4000

    def share(records):
        found = [
            permute_and_flip(
                [0, 2],
                epsilon=1,
                monotone=True,
                released="a word",
                records_per_person=records,
                insecure_rng=noise_rng,
            )
            for _ in range(draws)
        ]
        return np.mean(found)

    # The worse one is asked first half of the time, and taken with e^(-gap rate).
    for records in (1, 2):
        p = 1 - math.exp(-2 / records) / 2
        assert abs(share(records) - p) < 5 * math.sqrt(p * (1 - p) / draws)


def test_relations_of_ledger_and_release_agree():
    ledger = PrivacyLedger(1, records_per_person=3)
    with pytest.raises(ValueError, match="records_per_person"):
        counted(ledger, epsilon="1/2")
    assert ledger.spent == 0
