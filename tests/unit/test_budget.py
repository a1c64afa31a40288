"""The privacy ledger: exact arithmetic, one budget however it is passed around."""

import copy
import json
import math
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from entropy import system_entropy
from joblib import Parallel, delayed
from processes import in_a_fork
from sklearn.base import clone

import mmech as mm
from mmech.checks import check_epsilon


def spend(ledger, epsilon):
    return ledger.spend(epsilon, "a histogram", sensitivity=1)


@pytest.mark.parametrize("budget", [0.3, "0.3", "3/10", Fraction(3, 10)])
@pytest.mark.parametrize("price", [0.1, "0.1", Fraction(1, 10), np.float64(0.1)])
def test_three_tenths_hold_three_times_a_tenth(budget, price):
    ledger = mm.PrivacyLedger(budget)
    for _ in range(3):
        spend(ledger, price)
    assert ledger.remaining == 0
    assert ledger.spent == Fraction(3, 10)
    with pytest.raises(mm.BudgetExceededError, match=r"only 0 of 0\.3 is left"):
        spend(ledger, "1e-30")


def test_a_refused_release_spends_nothing():
    ledger = mm.PrivacyLedger(1)
    spend(ledger, 0.75)
    with pytest.raises(
        mm.BudgetExceededError,
        match=r"needs epsilon = 0\.5 but only 0\.25 of 1 is left; nothing was released",
    ):
        spend(ledger, 0.5)
    assert ledger.remaining == Fraction(1, 4)
    assert len(ledger.entries) == 1
    spend(ledger, 0.25)
    assert ledger.remaining == 0


HUGE = ["1e999999999", "1e-999999999", "0e999999999", "1e" + 30 * "9"]
NUMBERS = [0, -1, math.nan, math.inf, "many", Decimal("NaN"), Decimal("sNaN"), *HUGE]


@pytest.mark.parametrize(
    "bad", [*NUMBERS, Decimal("-inf"), Decimal("1e999999"), Decimal("1e-999999")]
)
def test_wrong_totals_and_prices_spend_nothing(bad):
    words = "must be a finite number > 0|must .* within the range of a double"
    ledger = mm.PrivacyLedger(1)
    with pytest.raises(ValueError, match=f"epsilon ({words})"):
        spend(ledger, bad)
    assert ledger.spent == 0
    if not isinstance(bad, float):  # infinity is no limit; others are tested with words
        with pytest.raises(ValueError, match=f"total ({words})"):
            mm.PrivacyLedger(bad)


CALLS = {
    "laplace": lambda **s: mm.noisy_release([3, 4], sensitivity=1, **s),
    "k_norm": lambda **s: mm.noisy_release([3, 4], sensitivity=1, groups=[1, 1], **s),
    "exponential": lambda **s: mm.exponential_mechanism([3, 4], **s),
    "permute_and_flip": lambda **s: mm.permute_and_flip([3, 4], **s),
    "laplace, mechanism": lambda released, **s: mm.MatrixMechanism(
        mm.Identity(2), **s
    ).measure([3, 4], released=released),
}
"""Releases of pure epsilon, by the kind of their entries."""

IN_RHO = {
    "gaussian": CALLS["laplace"],
    "gaussian, mechanism": CALLS["laplace, mechanism"],
    "exponential": CALLS["exponential"],
}
"""Releases that can be paid for with rho."""

ALL_CALLS = [(call, "epsilon") for call in CALLS.values()] + [
    (call, "rho") for call in IN_RHO.values()
]
every_call = pytest.mark.parametrize(
    ("call", "currency"),
    ALL_CALLS,
    ids=[*(f"{name} in epsilon" for name in CALLS), *(f"{n} in rho" for n in IN_RHO)],
)


@every_call
def test_nothing_is_drawn_before_it_is_paid_for(call, currency):
    """All of its price is spent whenever a release asks for entropy."""
    ledger = mm.PrivacyLedger(1, currency=currency)
    paid = []

    def entropy(size):
        paid.append(ledger.spent)
        return os.urandom(size)

    with system_entropy(entropy):
        call(released="a word", ledger=ledger, **{currency: 1})
    assert paid
    assert set(paid) == {1}


@pytest.mark.parametrize("wrong", [-1, 0.5, "x", object()])
def test_wrong_seeds_of_tests_say_so(wrong):
    with (
        pytest.warns(mm.PrivacyLeakWarning),
        pytest.raises((TypeError, ValueError), match="insecure_rng must be an integer"),
    ):
        mm.MatrixMechanism(mm.Identity(2), epsilon=1, insecure_rng=wrong)


def test_check_does_not_spend():
    ledger = mm.PrivacyLedger(1)
    assert ledger.check(0.1) == Fraction(1, 10)
    assert ledger.spent == 0
    with pytest.raises(mm.BudgetExceededError):
        ledger.check(2)


def test_threads_share_one_budget():
    ledger = mm.PrivacyLedger("1")
    fitting, refused, barrier = ledger._fitting, [], threading.Barrier(8)

    def hesitate(entry):
        found = fitting(entry)
        time.sleep(1e-3)  # let another thread in between the check and the entry
        return found

    ledger._fitting = hesitate

    def work(_):
        barrier.wait()
        for _ in range(5):
            try:
                spend(ledger, "0.1")
            except mm.BudgetExceededError:
                refused.append(1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(ledger.entries) == 10
    assert len(refused) == 30
    assert ledger.remaining == 0


def test_copies_are_the_same_ledger_and_pickles_are_refused():
    ledger = mm.PrivacyLedger(1)
    duplicates = [
        copy.copy(ledger),
        copy.deepcopy(ledger),
        copy.deepcopy({"nested": [ledger]})["nested"][0],
        clone(ledger),
    ]
    assert all(duplicate is ledger for duplicate in duplicates)
    mechanism = mm.MatrixMechanism(
        mm.Identity(2), mm.Identity(2), epsilon=1, ledger=ledger
    )
    copy.deepcopy(mechanism).measure([1, 2])
    with pytest.raises(mm.BudgetExceededError):
        mechanism.measure([1, 2])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        for own in (ledger, mechanism):
            with pytest.raises(TypeError, match=r"cannot be pickled.* same budget"):
                pickle.dumps(own, protocol)


# ------------------------------------------------------------ parallel composition
def test_of_a_partition_the_dearest_part_counts():
    ledger = mm.PrivacyLedger(1)
    north, south = (ledger.part("region", name) for name in ("north", "south"))
    spend(north, "0.3")
    spend(south, "0.2")
    spend(south, "0.2")
    assert ledger.spent == Fraction(2, 5)
    assert (north.spent, south.spent) == (Fraction(3, 10), Fraction(2, 5))
    spend(ledger, "0.25")
    assert ledger.spent == Fraction(13, 20)
    # A part may catch up with the dearest one for free, and go on from there.
    assert north.remaining == Fraction(9, 20)
    spend(north, "0.45")
    assert ledger.remaining == 0
    with pytest.raises(mm.BudgetExceededError, match="nothing was released"):
        spend(north, "0.01")
    assert south.remaining == Fraction(7, 20)
    spend(south, "0.35")
    assert ledger.spent == 1


def test_partitions_add_up():
    ledger = mm.PrivacyLedger(1)
    spend(ledger.part("region", "north"), "0.5")
    spend(ledger.part("age", "old"), "0.25")
    assert ledger.spent == Fraction(3, 4)
    assert ledger.part("region", "south").remaining == Fraction(3, 4)
    assert repr(ledger.part("age", "old")).endswith(".part('age', 'old')")
    with pytest.raises(mm.BudgetExceededError):
        spend(ledger.part("age", "young"), "0.51")


def test_parts_serve_mechanisms_and_stay_themselves():
    ledger = mm.PrivacyLedger("0.5", neighbours="replace")
    for name in ("a", "b", "c"):
        part = ledger.part("third", name)
        assert copy.copy(part) is copy.deepcopy(part) is clone(part) is part
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(part)
        mechanism = mm.MatrixMechanism(
            mm.Identity(2), epsilon="0.5", neighbours="replace", ledger=part
        )
        # Twice the sensitivity: a record that moves between parts costs half in each.
        assert mechanism.measure([1, 2]).scale == 4.0
    assert ledger.remaining == 0
    assert len(ledger.entries) == 3


def test_json_says_what_was_released_in_order():
    ledger = mm.PrivacyLedger("0.3")
    mm.MatrixMechanism(mm.Identity(2), epsilon=0.1, ledger=ledger).measure([1, 2])
    ledger.part("region", "north").spend("1/7", "counts", sensitivity=2)
    content = json.loads(ledger.to_json())
    assert content["format"] == "mmech privacy ledger"
    assert (content["currency"], content["total"]) == ("epsilon", "3/10")
    assert (content["neighbours"], content["records_per_person"]) == ("add_remove", 1)
    assert content["spent"] == str(Fraction(1, 10) + Fraction(1, 7))
    assert content["releases"] == [
        {"order": 1, "released": "counts measured by Identity(2)", "epsilon": "1/10",
         "kind": "laplace", "sensitivity": 1.0, "insecure": False,
         "shifts": [["laplace", 1, "10", 1]]},
        {"order": 2, "released": "counts", "epsilon": "1/7", "kind": "other",
         "sensitivity": 2.0, "insecure": False, "partition": "region", "part": "north"},
    ]  # fmt: skip
    assert json.loads(mm.PrivacyLedger(math.inf).to_json())["total"] == "inf"


# ------------------------------------------------------------- what cannot be rewritten
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("name", ["total", "currency", "relation"])
def test_a_ledger_cannot_be_rewritten(name, currency):
    ledger = mm.PrivacyLedger(1, currency=currency)
    for one in (ledger, ledger.part("region", "north")):
        before = getattr(one, name)
        with pytest.raises(AttributeError, match=f"{name} was settled .* another ledg"):
            setattr(one, name, 10)
        with pytest.raises(AttributeError, match=f"{name} was settled"):
            delattr(one, name)
        assert getattr(one, name) is before
        for read_only in ("neighbours", "spent", "remaining", "entries"):
            with pytest.raises(AttributeError):
                setattr(one, read_only, 0)


def test_a_relation_cannot_be_rewritten():
    """It is shared by ledgers, mechanisms and releases."""
    ledger = mm.PrivacyLedger(1, neighbours="replace", records_per_person=2)
    for name in ("neighbours", "records_per_person", "factor"):
        with pytest.raises(AttributeError):
            setattr(ledger.relation, name, 1)
    assert ledger.relation.factor == 4


@pytest.mark.parametrize(
    "name",
    [
        "relation", "cost", "law", "contribution", "workload", "strategy", "released",
        "signed", "ledger",
    ],
)  # fmt: skip
def test_a_mechanism_cannot_be_rewritten(name):
    """One that counts twice as much for each record must not forget it."""
    mechanism = mm.MatrixMechanism(
        mm.Identity(2), mm.Identity(2), epsilon=1, neighbours="replace", contribution=2
    )
    before = getattr(mechanism, name)
    with pytest.raises(
        AttributeError, match=f"{name} was settled .* another mechanism"
    ):
        setattr(mechanism, name, 1)
    assert getattr(mechanism, name) is before
    assert mechanism.measure([1, 2]).scale == 4.0


# ------------------------------------------------------------------- other processes
SHARED = mm.PrivacyLedger(1)
HOLDER = mm.MatrixMechanism(mm.Identity(2), mm.Identity(2), epsilon=1)


def answer_of(attempt):
    try:
        attempt()
    except (mm.BudgetExceededError, TypeError) as refusal:
        return type(refusal).__name__, str(refusal)
    return "answered", ""


def spend_shared(epsilon):
    """A task that finds the ledger where a fork has left it."""
    return answer_of(lambda: spend(SHARED, epsilon))


ATTEMPTS = {
    "ledger": lambda: spend(SHARED, "1/10"),
    "check": lambda: SHARED.check("1/10"),
    "part": lambda: spend(SHARED.part("region", "north"), "1/10"),
    "release": lambda: mm.noisy_release([1], sensitivity=1, epsilon="1/10",
        released="a count", ledger=SHARED),
    "choice": lambda: mm.exponential_mechanism([1, 2], epsilon="1/10",
        released="a choice", ledger=SHARED),
    "mechanism": lambda: HOLDER.measure([1, 2]),
    "Gaussian mechanism": lambda: GAUSSIAN.measure([1, 2]),
    "ledger of rho": lambda: spend(CONCENTRATED, "1/10"),
}  # fmt: skip
GAUSSIAN = mm.MatrixMechanism(mm.Identity(2), mm.Identity(2), rho=1)
CONCENTRATED = mm.PrivacyLedger(1, currency="rho")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
def test_a_fork_has_no_budget_of_its_own(attempt):
    """Both copies would spend the same budget, and neither would know."""
    kind, text = in_a_fork(partial(answer_of, attempt))
    assert kind == "BudgetExceededError"
    assert "belongs to the process that made it" in text
    assert "n_jobs=1" in text
    assert SHARED.spent == CONCENTRATED.spent == 0
    assert answer_of(attempt) == ("answered", "")
    SHARED._entries.clear()
    CONCENTRATED._entries.clear()


def test_a_fork_refuses_even_while_the_ledger_is_locked():
    with SHARED._lock:
        kind, _ = in_a_fork(partial(spend_shared, "1/10"))
    assert kind == "BudgetExceededError"


@pytest.mark.by_day(2)
@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
def test_workers_of_joblib_share_a_budget_or_have_none(backend):
    ledger = mm.PrivacyLedger(1)
    tasks = [delayed(answer_of)(partial(spend, ledger, "1/2")) for _ in range(3)]
    if backend == "threading":
        found = [kind for kind, _ in Parallel(2, backend=backend)(tasks)]
        assert sorted(found) == ["BudgetExceededError", "answered", "answered"]
        return
    with pytest.raises((TypeError, pickle.PicklingError), match="pickle"):
        Parallel(2, backend=backend)(tasks)
    assert ledger.spent == 0


# ----------------------------------------------------------------- predictable noise
@every_call
def test_the_ledger_marks_predictable_noise(call, currency):
    ledger = mm.PrivacyLedger(3, currency=currency)
    settings = {currency: 1, "released": "x", "ledger": ledger}
    call(**settings)
    with pytest.warns(mm.PrivacyLeakWarning, match="insecure_rng") as caught:
        call(**settings, insecure_rng=0)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [entry.insecure for entry in ledger.entries] == [False, True]
    releases = json.loads(ledger.to_json())["releases"]
    assert [release["insecure"] for release in releases] == [False, True]
    assert "insecure=1" in repr(ledger)
    assert [" PREDICTABLE NOISE" in entry.how for entry in ledger.entries] == [0, 1]


def test_one_warning_is_enough(noise_rng):
    """A generator that was warned about is passed on without another warning."""
    for call, currency in ALL_CALLS:
        settings = {currency: 1, "released": "x", "insecure_rng": noise_rng}
        call(ledger=None, **settings)


def test_what_is_paid_without_a_ledger_says_so_too(noise_rng):
    measured = mm.noisy_release(
        [3], sensitivity=1, rho=1, released="x", insecure_rng=noise_rng
    )
    assert measured.entry.insecure


# ------------------------------------------------------------------- too large budgets
WEAK = {
    "a ledger": lambda **cost: mm.PrivacyLedger(next(iter(cost.values())),
        currency=next(iter(cost))),
    "a ledger without a limit": lambda **cost: mm.PrivacyLedger(
        math.inf, currency=next(iter(cost))
    ).spend(next(iter(cost.values())), "x", sensitivity=1, currency=next(iter(cost))),
    "noise": lambda **cost: mm.noisy_release([3], sensitivity=1, released="x", **cost),
    "a choice": lambda **cost: mm.exponential_mechanism([3, 4], released="x", **cost),
    "a mechanism":
        lambda **cost: mm.MatrixMechanism(mm.Identity(1), **cost).measure([3]),
    "tables": lambda **cost: mm.release_tables([[0]],
        mm.Domain([mm.Attribute.categorical("a", [0, 1])]), ways=1, **cost),
}  # fmt: skip


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("cost", [{"epsilon": 1e9}, {"rho": 50}], ids=str)
@pytest.mark.parametrize("door", WEAK.values(), ids=WEAK)
def test_a_budget_that_hides_nothing_is_said_so_once(door, cost):
    with pytest.warns(mm.PrivacyLeakWarning, match="protects hardly anybody") as caught:
        door(**cost)
    assert len(caught) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cost", [{"epsilon": 20}, {"rho": 4}], ids=str)
@pytest.mark.parametrize("door", WEAK.values(), ids=WEAK)
def test_a_budget_of_twenty_is_not_warned_of(door, cost):
    door(**cost)


@pytest.mark.filterwarnings("default")
def test_the_warning_says_what_a_budget_means():
    with pytest.warns(mm.PrivacyLeakWarning, match=r"10\^11 times as likely") as caught:
        mm.PrivacyLedger(25)
    assert caught[0].filename == __file__
    with pytest.warns(
        mm.PrivacyLeakWarning, match=r"about epsilon = 96 at delta = 1e-05"
    ):
        mm.PrivacyLedger(50, currency="rho")


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        (2, Fraction(2)),
        (np.int64(2), Fraction(2)),
        (np.float64(0.25), Fraction(1, 4)),
        (Fraction(1, 7), Fraction(1, 7)),
        ("1e-3", Fraction(1, 1000)),
        (5e-324, Fraction(5, 10**324)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
    ],
    ids=repr,
)
def test_epsilon_is_the_decimal_number_it_prints_as(value, exact):
    assert check_epsilon(value) == exact
