"""A ledger on disk: one budget for all processes, and for the time after them."""

import copy
import json
import os
import pickle
import select
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction
from functools import reduce
from operator import getitem

import pytest
from entropy import system_entropy
from processes import forking, in_a_fork, largest_file

import mmech.privacy.ledger
from mmech import BudgetExceededError, PrivacyLedger, noisy_release, writing
from mmech.privacy.cost import in_rho
from mmech.privacy.ledger_file import LedgerFile, chain


def spend(ledger, cost="1/10"):
    return ledger.spend(cost, "counts", sensitivity=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


def rewrite(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_budget_outlives_its_ledger(path):
    first = PrivacyLedger.open(
        path, total="0.3", neighbours="replace", records_per_person=2
    )
    spend(first)
    first.part("region", "north").spend("1/20", "more", sensitivity=2, kind="laplace")
    later = PrivacyLedger.open(path)
    assert later.entries == first.entries
    assert later.relation == first.relation
    assert (later.total, later.spent) == (Fraction(3, 10), Fraction(3, 20))
    assert later.part("region", "south").remaining == Fraction(1, 5)
    spend(later)
    assert first.remaining == Fraction(1, 20)
    with pytest.raises(BudgetExceededError, match=r"only 0\.05 of 0\.3 is left"):
        spend(first)
    content = json.loads(first.to_json())
    assert content == json.loads(path.read_text())
    assert [entry["order"] for entry in content["releases"]] == [1, 2, 3]
    assert all(entry["date"].endswith("+00:00") for entry in content["releases"])


def test_a_ledger_without_a_limit_and_one_of_rho_are_kept(path):
    spend(PrivacyLedger.open(path, total=float("inf"), currency="rho"), 1)
    ledger = PrivacyLedger.open(path)
    assert (ledger.currency, ledger.spent) == ("rho", in_rho(Fraction(1)))
    assert ledger.remaining == float("inf")


def test_what_a_file_promises_is_not_overwritten(path):
    PrivacyLedger.open(path, total=1)
    assert PrivacyLedger.open(path, total="1.0", currency="epsilon").total == 1
    for wrong in (
        {"total": 2},
        {"currency": "rho"},
        {"neighbours": "replace"},
        {"records_per_person": 3},
    ):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be .* promis"):
            PrivacyLedger.open(path, **wrong)


def test_copies_and_pickles_are_the_same_budget(path):
    ledger = PrivacyLedger.open(path, total=1)
    twin = pickle.loads(pickle.dumps(ledger))
    part = pickle.loads(pickle.dumps(twin.part("region", "north")))
    spend(twin)
    spend(part)
    assert ledger.spent == Fraction(1, 5)
    assert part.spent == Fraction(1, 10)


def test_a_charge_is_on_the_disk_before_noise_is_drawn(path):
    ledger = PrivacyLedger.open(path, total=1)
    seen = []

    def entropy(size):
        seen.append(json.loads(path.read_text())["spent"])
        return os.urandom(size)

    with system_entropy(entropy):
        noisy_release([3], sensitivity=1, epsilon=1, released="a count", ledger=ledger)
    assert set(seen) == {"1"}


# ---- what is not trusted -------------------------------------------------------

EDITS = {
    "a cheaper release": lambda c: c["releases"][1].update(epsilon="1/100"),
    "other words": lambda c: c["releases"][0].update(released="nothing"),
    "another date": lambda c: c["releases"][0].update(date="2020-01-01"),
    "one taken out": lambda c: c["releases"].pop(1),
    "another order": lambda c: c["releases"].reverse(),
    "a larger total": lambda c: c.update(total="9"),
    "another relation": lambda c: c.update(neighbours="replace"),
    "less spent": lambda c: c.update(spent="0"),
    "the last one taken out": lambda c: c["releases"].pop(),
    "a hold that is no number": lambda c: c.update(held={"a/1/1": "1e9999999"}),
    "a hold below zero": lambda c: c.update(held={"otherhost/1/1": "-100"}),
    "a hold of nothing": lambda c: c.update(held={"otherhost/1/1": "0"}),
    "a hold by zero": lambda c: c.update(held={"otherhost/1/1": "1/0"}),
    "a hold of nobody": lambda c: c.update(held={"otherhost": "1/100"}),
    "a hold of no process": lambda c: c.update(held={"otherhost/x/1": "1/100"}),
    "nothing": lambda c: c.clear(),
    "another version": lambda c: c.update(version=2),
    "no list": lambda c: c.update(releases=5),
    "more": lambda c: c.update(more=1),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edits_are_refused(path, edit):
    ledger = PrivacyLedger.open(path, total=1)
    for _ in range(3):
        spend(ledger)
    rewrite(path, edit)
    for attempt in (lambda: PrivacyLedger.open(path), lambda: spend(ledger)):
        with pytest.raises(
            ValueError, match=r"budget.json' (was|is) .* restore the fi"
        ):
            attempt()


WRONG = ["1/0", "1e99999999", 10**400, -1, None, [[]]]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: repr(wrong)[:12])
def test_numbers_of_a_ledger_are_checked_beside_their_hashes(path, wrong):
    """Whatever stands in place of one value is refused, but for words and promises."""
    ledger = PrivacyLedger.open(path, total=1)
    spend(ledger)
    ledger.part("region", "north").spend("1/20", "x", sensitivity=2, kind="laplace")
    ledger.hold("1/10")
    before = json.loads(path.read_text())
    places = [(name,) for name in before]
    places += [("held", who) for who in before["held"]]
    places += [("releases", i, k) for i in (0, 1) for k in before["releases"][i]]
    free = ("released", "kind", "part", "partition", "sha256", "date")
    free += ("records_per_person",)
    refused = pytest.raises(ValueError, match=r"' (is|was) .*restore the file")
    for *way, name in places:
        content = copy.deepcopy(before)
        reduce(getitem, way, content)[name] = wrong
        with suppress(TypeError, KeyError, AttributeError):
            content["releases"] = chain(content, content["releases"])
        path.write_text(json.dumps(content))
        with suppress(ValueError) if name in free else refused:
            assert PrivacyLedger.open(path).spent == Fraction(3, 20), name


def test_a_name_is_not_read_twice(path):
    PrivacyLedger.open(path, total=1).hold("1/2")
    text = path.read_text()
    path.write_text(text.replace('"held": {', '"held": {}, "held": {'))
    with pytest.raises(ValueError, match="is not a ledger that"):
        PrivacyLedger.open(path)


def test_another_name_of_a_ledger_would_be_another_budget(path):
    ledger = PrivacyLedger.open(path, total=1)
    other = path.with_name("other.json")
    os.link(path, other)
    for own in (ledger, PrivacyLedger.open(other)):
        with pytest.raises(OSError, match="has another name, a hard link"):
            spend(own)
    other.unlink()
    spend(ledger)


@pytest.mark.parametrize("before", [True, False])
def test_a_lock_that_is_removed_lets_nobody_spend_beside(path, before, monkeypatch):
    """Another process that locks a new file spends before the write, or after it."""
    ledger, other = (PrivacyLedger.open(path, total=1) for _ in "ab")

    def meanwhile(*given):
        patch.undo()
        made = None if before else write(*given)
        path.with_name("budget.json.lock").unlink()
        spend(other)
        return dated(*given) if before else made

    with monkeypatch.context() as patch:
        write, dated = LedgerFile.write, mmech.privacy.ledger.dated
        at = (mmech.privacy.ledger, "dated") if before else (LedgerFile, "write")
        patch.setattr(*at, meanwhile)
        with pytest.raises((OSError, ValueError), match=r"nothing was (spent|rel)"):
            spend(ledger)
    # All that was spent is on the disk.
    assert len(PrivacyLedger.open(path).entries) == 2 - before


def test_who_waited_for_a_lock_that_was_removed_takes_the_new_one(path, monkeypatch):
    pytest.importorskip("fcntl")
    lock, flock, locks = path.with_name("budget.json.lock"), writing.fcntl.flock, []

    def waited(stream, kind):
        flock(stream, kind)
        locks.append(os.fstat(stream.fileno()).st_ino)
        if len(locks) < 3:
            lock.rename(lock.with_suffix(f".{len(locks)}"))

    monkeypatch.setattr(writing.fcntl, "flock", waited)
    with writing.locked(path):
        assert len(locks) == 3
        assert lock.stat().st_ino == locks[-1]


def test_an_older_copy_is_refused_by_who_knows_better(path):
    """Nobody else can tell; the docstring says so."""
    ledger = PrivacyLedger.open(path, total=1)
    spend(ledger)
    older = path.read_text()
    spend(ledger)
    path.write_text(older)
    with pytest.raises(ValueError, match="older than what this program released"):
        spend(ledger)


def test_a_full_disk_spends_nothing(path):
    ledger = PrivacyLedger.open(path, total=1)
    spend(ledger)
    with largest_file(100), pytest.raises(OSError, match="cannot write"):
        spend(ledger)
    assert ledger.spent == PrivacyLedger.open(path).spent == Fraction(1, 10)


# ---- many processes ------------------------------------------------------------


def spend_often(path, answers):
    ledger = PrivacyLedger.open(path)
    paid = 0
    for _ in range(9):
        try:
            spend(ledger, "1/50")
            paid += 1
        except BudgetExceededError:
            pass
    answers.put(paid)


def test_eight_processes_spend_one_budget(path):
    PrivacyLedger.open(path, total=1)
    answers = forking().Queue()
    processes = [
        forking().Process(target=spend_often, args=(path, answers)) for _ in range(8)
    ]
    for process in processes:
        process.start()
    paid = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sum(paid) == len(PrivacyLedger.open(path).entries) == 50
    assert PrivacyLedger.open(path).remaining == 0


def test_ledgers_of_one_file_in_threads_spend_one_budget(path):
    PrivacyLedger.open(path, total=1)

    def work(_):
        ledger = PrivacyLedger.open(path)
        try:
            return bool([spend(ledger, "1/5"), spend(ledger, "1/5")])
        except BudgetExceededError:
            return False

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert PrivacyLedger.open(path).remaining == 0


def release_until_killed(path, released):
    ledger = PrivacyLedger.open(path)
    while True:
        spend(ledger, "1/1000")
        os.write(released, b"x")  # noise would be drawn here


def test_a_killed_process_was_charged_for_all_that_it_released(path):
    PrivacyLedger.open(path, total=100)
    read, released = os.pipe()
    count = charged = 0
    for moment in range(40):
        process = forking().Process(target=release_until_killed, args=(path, released))
        process.start()
        if moment % 2:  # a busy machine may not get to a release by itself
            assert select.select([read], [], [], 60)[0]
        time.sleep(0.001 * moment)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        os.set_blocking(read, False)
        with suppress(BlockingIOError):
            count += len(os.read(read, 10**6))
        charged = len(PrivacyLedger.open(path).entries)
        assert count <= charged <= count + moment + 1  # one at most of each
    os.close(read)
    os.close(released)
    assert count >= 20
    spend(PrivacyLedger.open(path))  # no lock is left behind
    left = {name.name for name in path.parent.iterdir()}
    assert left == {"budget.json", "budget.json.lock"}


def hold_and_wait(path, ready):
    PrivacyLedger.open(path).hold("3/4")
    ready.set()
    time.sleep(60)


def test_what_a_fit_of_another_process_needs_is_kept_while_it_lives(path):
    ledger = PrivacyLedger.open(path, total=1)
    ready = forking().Event()
    process = forking().Process(target=hold_and_wait, args=(path, ready))
    process.start()
    assert ready.wait(60)
    with pytest.raises(BudgetExceededError, match=r"0\.75 more is kept for other fits"):
        spend(ledger, "1/2")
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    spend(ledger, "1/2")
    assert ledger.remaining == Fraction(1, 2)


def test_a_fork_opens_the_file_again(path):
    ledger = PrivacyLedger.open(path, total=1)

    def attempt():
        try:
            return spend(ledger).released
        except BudgetExceededError:
            return spend(PrivacyLedger.open(path)).released

    assert in_a_fork(attempt) == "counts"
    assert ledger.spent == Fraction(1, 10)
