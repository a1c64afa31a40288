"""Streams: exact sensitivities, reported errors, one charge, a file that survives."""

import copy
import itertools
import json
import os
import pickle
import signal
from collections import Counter
from fractions import Fraction
from functools import reduce
from operator import getitem
from unittest import mock

import numpy as np
import pytest
from entropy import system_entropy
from processes import forking, in_a_fork, largest_file
from reference import pinv
from replay import check_neighbours, entropy, watched, with_noise
from scipy.linalg import toeplitz
from scipy.stats import binom

from mmech import (
    BudgetExceededError,
    Dense,
    Prefix,
    PrivacyLedger,
    Stream,
    Toeplitz,
    WidthRange,
    optimize,
)
from mmech.privacy.cost import in_rho
from mmech.strategies import streams
from mmech.strategies.streams import ToeplitzRows, TreeRows

CURRENCIES = pytest.mark.parametrize("currency", ["epsilon", "rho"])
PRICE = Fraction(3, 7)

DECAY = Toeplitz([4, 2, 1, 0.5], [4, 0, 0, 0])
ELDERS = {10: 132, 12: 229, 14: 364, 16: 542}
"""Mean squared errors of "Count on Your Elders", h³ (k - 1 / k) / 2 at epsilon = 1."""
SLOW = Toeplitz(0.97 ** np.arange(70), np.eye(1, 70)[0])
LATE = Toeplitz([0, 1, 1, 2], [0, 0, 0, 0])
STEEP = Toeplitz([1, 3, 0, 0], [1, 0, 0, 0])
SUMS = Prefix(16), Prefix(256), WidthRange(128, 8), WidthRange(128, 60), SLOW
CASES = [
    *((f"prefix-{T}", "prefix", T, "rho") for T in (1, 2, 3, 4, 9)),
    *((f"tree-{T}", "prefix", T, "epsilon") for T in (1, 2, 3, 4, 40)),
    ("window", WidthRange(4, 2), 4, "rho"),
    ("window of one", WidthRange(3, 1), 3, "rho"),
    ("decay", DECAY, 4, "rho"),
    ("late", LATE, 4, "rho"),
    ("steep", STEEP, 4, "rho"),
    ("tree, window", WidthRange(4, 2), 4, "epsilon"),
    ("tree, long window", WidthRange(50, 30), 50, "epsilon"),
    ("tree, decay", DECAY, 4, "epsilon"),
    ("tree, late", LATE, 4, "epsilon"),
    ("tree, slow decay", SLOW, 70, "epsilon"),
]
GAUSSIAN = [case for case in CASES if case[3] == "rho"]
PURE = [case for case in CASES if case[3] == "epsilon"]


def parametrized(cases):
    return pytest.mark.parametrize(
        ("workload", "horizon", "currency"),
        [case[1:] for case in cases],
        ids=[case[0] for case in cases],
    )


ALL = parametrized([*GAUSSIAN, *PURE])
RELATIONS = pytest.mark.parametrize("relation", ["add_remove", "replace"])
RECORDS = pytest.mark.parametrize("records", [1, 2])


def stream(currency, workload="prefix", horizon=4, **settings):
    return Stream(workload, horizon=horizon, **{currency: PRICE, **settings})


def as_given(kind, *given):
    """Let streams measure what is given, without a search for it."""
    return mock.patch.object(kind, "best", lambda *asked: kind(*asked, *given))


def by_tree(workload, horizon, sizes, parts, **settings):
    """Return a stream by a tree that nobody searches for."""
    with as_given(TreeRows, sizes, parts):
        return stream("epsilon", workload, horizon, **settings)


def nodes(rows, horizon):
    """Return the explicit nodes of a tree, as they are drawn."""
    sizes, times = rows.settings[0], np.arange(horizon)
    found = []
    for start in range(0, horizon, sizes[-1]):
        for size in sizes:
            stop = min(start + sizes[-1], horizon)
            found += [times // size == own // size for own in range(start, stop, size)]
    return np.array(found) * 1


def per_node(rows, horizon, values):
    """Return what belongs to the level of every node, as they are drawn."""
    runs = [run[:2] for time in range(horizon) for run in rows.runs(time)]
    levels = np.arange(len(runs)) % len(rows.settings[0])
    return np.repeat(np.array(values)[levels], [stop - start for start, stop in runs])


def rows_of(rows, horizon):
    """Return the explicit rows that are measured, as they are drawn."""
    if isinstance(rows, TreeRows):
        return nodes(rows, horizon)
    return np.tril(toeplitz(rows.symbol)) * rows.scales


def asked(workload, horizon):
    """Return the explicit weights of all answers."""
    if isinstance(workload, Toeplitz):
        return workload.to_dense()
    width = getattr(workload, "width", horizon)
    return np.tri(horizon) - np.tri(horizon, k=-width)


def without_noise(draw, sample):
    return draw.exact


# ---- what is measured, and for whom --------------------------------------------------


def neighbours(counts, relation, records):
    """Yield streams that one person's records are added to, moved or replaced in."""
    n = len(counts)
    for times in itertools.combinations_with_replacement(range(n), records):
        added = np.add(counts, np.bincount(times, minlength=n))
        yield added
        if relation == "replace":
            for others in itertools.combinations_with_replacement(range(n), records):
                yield np.subtract(added, np.bincount(others, minlength=n))


@pytest.mark.by_day(10)
@RELATIONS
@RECORDS
@parametrized(GAUSSIAN)
def test_neighbours_cost_what_is_paid(workload, horizon, currency, relation, records):
    """Exhaustive up to a horizon of 4; rows are linear, so that any start will do."""
    own = {"neighbours": relation, "records_per_person": records}

    def run(counts, ledger):
        made = stream(currency, workload, horizon, ledger=ledger, **own)
        return [made.push(count) for count in counts.tolist()], repr(made)

    counts = np.full(horizon, 2)
    others = others_of(counts, relation, records)
    _, costs = check_neighbours(run, counts, others, {currency: PRICE}, **own)
    # Not a record more than it must: someone costs it all.
    if relation == "add_remove":
        assert max(costs) == PRICE


def others_of(counts, relation, records):
    """Return neighbours: all of short streams, those of one time of long ones."""
    if len(counts) > 4:
        return list(counts + np.eye(len(counts), dtype=int) * records)
    others = np.unique([*neighbours(counts, relation, records)], axis=0)
    return [other for other in others if (other >= 0).all()]


def answers_for(made, counts, noise):
    """Return answers for counts and noise of all rows, and the parameters of these."""
    parameters = []

    def drawn(draw, sample):
        assert draw.kind == "gaussian" or not draw.exact.any()  # it is drawn ahead
        runs = zip(draw.public["runs"], draw.public["parameters"], strict=True)
        first = len(parameters)
        for (start, stop, _), parameter in runs:
            parameters.extend([parameter] * (stop - start))
        return draw.exact + noise[first : len(parameters)]

    with watched(drawn):
        answers = [made.push(int(count)) for count in counts]
    return answers, parameters


@pytest.mark.by_day(6)
@RELATIONS
@RECORDS
@parametrized(
    [
        *PURE,
        ("three levels", ("prefix", 4, [1, 2, 4], [3, 1, 2]), 4, "epsilon"),
        ("cut blocks", (DECAY, 4, [1, 3], [2, 1]), 4, "epsilon"),
    ]
)
def test_neighbours_have_the_answers_of_moved_noise(
    workload, horizon, currency, relation, records
):
    """The nodes' noise, less what a person moves them by, is about as likely."""
    own = {"neighbours": relation, "records_per_person": records}
    if not isinstance(workload, tuple):
        searched = stream(currency, workload, horizon)._rows
        workload = workload, horizon, *searched.settings
    counts = np.full(horizon, 2)
    A = nodes(by_tree(*workload)._rows, horizon)
    noise = np.random.default_rng(0).integers(-40, 40, len(A))
    before, scales = answers_for(by_tree(*workload, **own), counts, noise)
    costs = []
    for other in others_of(counts, relation, records):
        moved = A @ (other - counts)
        made = by_tree(*workload, **own)
        assert answers_for(made, other, noise - moved)[0] == before  # bit by bit
        changes = zip(abs(moved).tolist(), scales, strict=True)
        costs.append(sum(change / scale for change, scale in changes))
    assert max(costs) <= PRICE
    if relation == "add_remove":
        assert max(costs) == PRICE


def test_noise_ahead_is_drawn_once():
    """Under epsilon at the first time of the largest node, for all that it holds."""
    seen = []

    def note(draw, sample):
        seen.append(len(draw.exact))
        return sample()

    made = by_tree("prefix", 7, [1, 2, 4], [1, 1, 1])
    for first, others, drawn in ((3, (4, 0, 2), 4 + 2 + 1), (5, (1, 6), 3 + 2 + 1)):
        with watched(note):
            made.push(first)
        with system_entropy(None):
            for count in others:
                made.push(count)
        assert seen.pop() == drawn
    assert not seen


def adversary(world, answers):
    """Return the next count of a world; the worlds differ by a record at one time.

    Where it is follows from the answers, and so does which world has it.
    """
    if not answers:
        return 2
    now = round(answers[0] * 8) % 3
    if len(answers) == 2:
        return 1 + (world if now == 0 else 0)
    return (1 - world) if now == 1 else world * (now == 2)


def test_no_answers_are_likelier_than_paid_for_under_adaptive_counts():
    """All answers to a horizon of 3, for noise of 0 or 1 a node, and one more or less.

    Whoever sees the answers chooses what the worlds differ in: before the last time, or
    at it. The box of one world lies within the other's once it is moved.
    """
    sizes, parts = (1, 2), (2, 1)
    made = by_tree("prefix", 3, sizes, parts)
    rates = [float(PRICE / own) for own in made._rows._own]
    A = nodes(made._rows, 3)
    rates = per_node(made._rows, 3, rates)
    found = []
    for world, most in ((0, 2), (1, 1), (1, 2), (0, 1)):
        likely, rows = Counter(), TreeRows(np.ones(3), made._variance, sizes, parts)
        for noise in itertools.product(range(1 - most, most + 1), repeat=len(A)):
            drawn, answers = np.array(noise), []
            for time in range(3):
                now = len(rows.sums(time, 0))
                rows.take(time, adversary(world, answers), drawn[:now])
                answers.append(rows.answer(time))
                drawn = drawn[now:]
            likely[tuple(answers)] += np.exp(-rates @ np.abs(noise))
        found.append(likely)
    for most, least in (found[:2], found[2:]):
        ratios = [own / most[answers] for answers, own in least.items()]
        assert max(ratios) <= np.exp(float(PRICE)) * (1 + 1e-12)
    assert len({answers[0] for answers in found[0]}) > 3


@pytest.mark.by_day(4)
@ALL
def test_answers_without_noise_are_exact(workload, horizon, currency):
    counts = np.random.default_rng(horizon).integers(0, 50, horizon)
    made = stream(currency, workload, horizon)
    with watched(without_noise):
        answers = [made.push(int(count)) for count in counts]
    np.testing.assert_allclose(
        answers, asked(workload, horizon) @ counts, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_array_equal(made.answers, answers)


def check_least_squares(made, workload):
    """Compare answers and errors with those of a dense pseudoinverse.

    Return what every row of noise moves them by, and the parameters of the noise.
    """
    W, A = asked(workload, made.horizon), rows_of(made._rows, made.horizon)
    counts = np.ones(made.horizon, int)
    noise = np.random.default_rng(0).integers(-(2**30), 2**30, len(A))
    answers, parameters = answers_for(made, counts, noise)
    spread = np.sqrt([made.law.variance(own) for own in parameters])
    gains = W @ pinv(A / spread[:, None]) / spread
    far = np.abs(gains).max() * 2**30
    np.testing.assert_allclose(answers, gains @ (A @ counts + noise), atol=1e-8 * far)
    errors = np.square(gains * spread).sum(axis=1)
    own = [made.standard_error(time) ** 2 for time in range(made.horizon)]
    np.testing.assert_allclose(own, errors, rtol=1e-6, atol=1e-9)
    assert made.expected_error() == pytest.approx(errors.sum(), rel=1e-6)
    return gains, parameters


def signed(horizon, width):
    weights = (np.arange(horizon) % 4 - 1.0) * (np.arange(horizon) < width)
    return Toeplitz(weights, [weights[0], *[0] * (horizon - 1)])


@pytest.mark.by_day(8)
@parametrized(
    [
        *(*GAUSSIAN, *PURE),
        *(
            (f"{k} of {n}", (signed(n, k), n, [1, 3, 9], [4, 1, 2]), n, "epsilon")
            for n in (27, 20, 8)
            for k in (1, 5, 27)
        ),
    ]
)
def test_answers_are_the_best_of_all_rows(workload, horizon, currency):
    """Whether nodes of trees are whole or not."""
    if isinstance(workload, tuple):
        check_least_squares(by_tree(*workload), workload[0])
    else:
        check_least_squares(stream(currency, workload, horizon), workload)


@pytest.mark.parametrize(
    ("currency", "scale"),
    [("epsilon", 1 / e) for e in (0.1, 1, 2, 3, 4, 5.5, 8, 30)]
    + [("rho", t) for t in (0.01, 0.05, 0.3, 1, 2, 9)],
)
def test_intervals_hold_a_single_count_at_any_cost(currency, scale):
    """Exactly, by the law of the noise of whole numbers on its row."""
    rows = Stream(horizon=1, **{currency: 1})._rows
    size = rows.runs(0)[0][2] if currency == "epsilon" else rows.runs(0)[0][2] / 2
    made = Stream(horizon=1, **{currency: size / Fraction(scale)})
    with watched(without_noise):
        made.push(7)
    step = 1.0 if currency == "epsilon" else 1 / (rows._row(0)[0] * rows.scales[0])
    k = np.arange(500)
    mass = np.exp((-k if currency == "epsilon" else -k * k / 2) / scale)
    mass[1:] *= 2
    for level in (0.5, 0.8, 0.95, 0.99, 0.999):
        lower, upper = made.confidence_interval(0, level)
        held = step * k <= min(7 - lower, upper - 7)
        assert mass[held].sum() >= level * mass.sum(), level


@pytest.mark.parametrize("epsilon", [0.5, 4, 12, 20])
def test_intervals_hold_sums_over_a_tree(epsilon, noise_rng):
    """More misses than by chance at a time and level: a risk of 1e-9 each."""
    tree, trials = ("prefix", 6, [1, 2, 4], [3, 1, 2]), 20_000
    gains, scales = check_least_squares(by_tree(*tree, epsilon=epsilon), "prefix")
    made = by_tree(*tree, epsilon=epsilon)
    noise = [made.law.draw(t, (trials,), insecure_rng=noise_rng) for t in scales]
    errors = np.abs(gains @ noise)
    with watched(without_noise):
        answers = [made.push(0) for _ in range(6)]
    for level in (0.5, 0.8, 0.95, 0.99):
        for time, error in enumerate(errors):
            upper = made.confidence_interval(time, level)[1]
            missed = (error > upper - answers[time] + 1e-9).sum()
            assert missed <= binom.isf(1e-9, trials, 1 - level), (time, level)


# ---- how good it is ------------------------------------------------------------------


@pytest.mark.parametrize("workload", SUMS)
def test_errors_are_near_the_optimum(workload):
    made = Stream(workload, horizon=workload.shape[1], rho=0.5)
    rows = Dense(asked(workload, made.horizon))
    best = optimize(rows, privacy="zcdp", template="dense").loss
    assert made.expected_error() < 1.04 * best


@pytest.mark.parametrize("workload", ["prefix", WidthRange(40, 7), WidthRange(40, 33)])
def test_errors_of_few_scales_add_up(workload, monkeypatch):
    monkeypatch.setattr(streams, "PIECES", 6)
    made = stream("rho", workload, 40)
    rows = made._rows
    assert 1 < len(set(rows.scales.tolist())) <= 6
    if workload == "prefix":  # the last one differs most
        assert rows.scales[-1] > rows.scales[-2]
    check_least_squares(made, workload)
    monkeypatch.setattr(streams, "PIECES", 40)
    best = ToeplitzRows.best(rows.weights, made._variance)
    assert made.expected_error() < 1.5 * best.total_error()


def test_trees_are_better_than_those_of_elders():
    """And than the tree for prefix sums, where a window is asked for."""
    for exponent in (10, 12, 14, 16):
        made = Stream(horizon=2**exponent, epsilon=1)
        assert made.expected_error() < 0.9 * 2**exponent * ELDERS[exponent]
    window = Stream(WidthRange(1024, 64), horizon=1024, epsilon=1)
    rows = Stream(horizon=1024, epsilon=1)._rows
    other = type(rows)(window._rows.weights, window._variance, *rows.settings)
    assert window.expected_error() < 0.7 * other.total_error()
    assert window.expected_error() < 0.6 * 64 * 2 * 1024  # the counts themselves


def test_a_long_stream_needs_little():
    made = Stream(horizon=20_000, rho=1)
    assert made.standard_error(19_999) > made.standard_error(0) > 0
    tree = Stream(horizon=20_000, epsilon=1)
    assert tree.standard_error(19_998) > tree.standard_error(0)


def test_the_largest_counts_do_not_overflow():
    for currency in ("rho", "epsilon"):
        made = stream(currency, "prefix", 64)
        most = made._rows.largest_count
        with watched(without_noise):
            answers = [made.push(most) for _ in range(64)]
        np.testing.assert_allclose(answers, most * np.arange(1.0, 65), rtol=1e-9)


# ---- paying --------------------------------------------------------------------------


@CURRENCIES
def test_all_answers_are_charged_once_and_before(currency):
    ledger = PrivacyLedger(PRICE, currency=currency)
    made = stream(currency, ledger=ledger)
    made.expected_error()
    assert ledger.entries == ()
    paid = []

    def bytes_of(size):
        paid.append(ledger.spent)
        return os.urandom(size)

    with system_entropy(bytes_of):
        for count in (3, 1, 4, 1):
            made.push(count)
    assert set(paid) == {PRICE}
    (entry,) = ledger.entries
    assert (entry.cost, entry.kind) == (PRICE, made.law.name)
    assert entry.released == "stream of Prefix(4)"
    with pytest.raises(BudgetExceededError, match="only 0 of"):
        stream(currency, ledger=ledger).push(1)


def test_records_of_a_person_and_replacement_are_paid_for():
    plain, many = (
        stream("rho", ledger=PrivacyLedger(1, currency="rho", **own), **own)
        for own in ({}, {"records_per_person": 3, "neighbours": "replace"})
    )
    assert many.standard_error(2) == pytest.approx(6 * plain.standard_error(2))
    many.push(1)
    with pytest.raises(ValueError, match="the ledger accounts for data sets that"):
        stream("rho", ledger=many.ledger).push(1)
    assert len(many.ledger.entries) == 1


def test_a_ledger_of_rho_pays_for_a_tree_as_for_any_release_of_epsilon():
    """What noise that is drawn ahead tells of itself may decide on later counts."""
    ledger = PrivacyLedger(1, currency="rho")
    made = stream("epsilon", horizon=64, ledger=ledger)
    assert len(made._rows.settings[0]) > 1
    made.push(3)
    assert ledger.spent == in_rho(PRICE)
    assert ledger.epsilon() == PRICE


# ---- refusals ------------------------------------------------------------------------


@CURRENCIES
def test_what_cannot_be_pushed_spends_nothing_and_draws_nothing(currency):
    made = stream(currency)
    for wrong, error, words in (
        ((-1,), ValueError, "count must be an integer >= 0"),
        ((1.0,), TypeError, "count must be an integer >= 0"),
        ((True,), TypeError, "count must be an integer >= 0"),
        ((2**62,), ValueError, "count must be at most .* for exact sums"),
        ((1, 1), ValueError, "time must be 0, the next one, got 1"),
        ((1, -1), ValueError, "time must be an integer >= 0"),
        ((1, 4), ValueError, "below the horizon of 4"),
    ):
        with pytest.raises(error, match=words):
            made.push(*wrong)
    assert made.ledger.entries == ()
    assert made.time == 0
    answers = [made.push(count) for count in (5, 0, 2)]
    with system_entropy(None):  # nothing may be drawn
        assert made.push(2, 2) == made.push(2, time=2) == answers[2]
        with pytest.raises(ValueError, match="time 2 was answered for another count"):
            made.push(3, 2)
        with pytest.raises(ValueError, match="time must be 3, the next one, got 1"):
            made.push(0, 1)
    last = made.push(7)
    with system_entropy(None):
        assert made.push(7, 3) == last
        with pytest.raises(ValueError, match="below the horizon of 4, got 4; begin"):
            made.push(0)
    assert made.answers.tolist() == [*answers, last]
    assert len(made.ledger.entries) == 1


def test_a_stream_is_not_copied():
    made = stream("rho")
    assert copy.copy(made) is copy.deepcopy(made) is made
    with pytest.raises(TypeError, match="a Stream cannot be pickled"):
        pickle.dumps(made)
    with pytest.raises(AttributeError, match="was settled"):
        made.cost = 0

    def is_refused():
        with pytest.raises(BudgetExceededError, match="a Stream belongs to the proc"):
            made.push(1)
        return True

    assert in_a_fork(is_refused)


# ---- on disk -------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    return tmp_path / "months.stream"


@CURRENCIES
def test_a_stream_goes_on_where_its_file_ends(currency, path):
    ledger = PrivacyLedger.open(path.parent / "l.json", total=1, currency=currency)
    first = stream(currency, path=path, ledger=ledger)
    assert not path.exists()
    answers = [first.push(count) for count in (5, 6)]
    assert path.stat().st_mode & 0o777 == 0o600
    second = stream(currency, path=path, ledger=PrivacyLedger.open(ledger._file.path))
    assert second.time == 2
    assert second.push(6, time=1) == answers[1]
    answers.append(second.push(7))
    # Both know what the other one pushed.
    answers.append(first.push(8))
    third = stream(currency, path=path)
    assert third.answers.tolist() == answers
    assert second.push(8, 3) == answers[3]
    assert len(ledger.entries) == 1
    assert ledger.entries[0].released.startswith("stream of Prefix(4), ")


def test_answers_after_a_restart_are_those_without_one(path):
    """The noise being the same; a stream in memory is the reference."""
    counts = [3, 1, 4, 1, 5, 9]
    for currency in ("rho", "epsilon"):
        with entropy(1), watched(with_noise(lambda t, shape: np.full(shape, 10**6))):
            whole = stream(currency, horizon=6)
            expected = [whole.push(count) for count in counts]
            found = []
            for count in counts:
                own = path.with_suffix(f".{currency}")
                found.append(stream(currency, horizon=6, path=own).push(count))
        assert found == expected


def test_files_of_others_are_refused_and_left(path):
    stream("rho", path=path).push(1)
    before = path.read_bytes()
    for wrong, name in (
        ({"horizon": 5}, "workload"),
        ({"rho": 1}, "rho"),
        ({"records_per_person": 2}, "records_per_person"),
        ({"workload": WidthRange(4, 2)}, "workload"),
        ({"currency": "epsilon"}, "epsilon"),
    ):
        with pytest.raises(ValueError, match=f"is of a stream with another {name}"):
            stream(**{"currency": "rho", "path": path, **wrong})
    assert path.read_bytes() == before
    for text in (b"", b"an essay", b"an essay\n", b"[1, 2]\n", b'{"stream": 1}\n'):
        path.write_bytes(text)
        with pytest.raises(ValueError, match=r"is not a stream|another version"):
            stream("rho", path=path)
        assert path.read_bytes() == text
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        stream("rho", path=path / "none" / "file")


def test_lines_that_are_not_whole_go_and_others_are_not_trusted(path):
    made = stream("rho", path=path)
    answers = [made.push(1), made.push(2)]
    whole = path.read_bytes()
    path.write_bytes(whole + b"[2, 5, [1")
    later = stream("rho", path=path)
    assert later.answers.tolist() == answers
    later.push(3)
    assert len(path.read_bytes().splitlines()) == 4
    path.write_bytes(whole + b"[1, 5, [1], 2.0]\n")
    with pytest.raises(ValueError, match="is not a stream, or was changed"):
        stream("rho", path=path)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="is not what this program wrote, or older"):
        later.push(4)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        later.push(4)
    for count in (1, 2, 3, 4):
        stream("rho", path=path).push(count)
    with pytest.raises(ValueError, match="is not what this program wrote, or older"):
        later.push(4)


OFF_GRID = [2**32 + 1, -(2**62), 2**63, 10**400, 0.5, "1/0", None, [], float("nan")]


def written(currency, path):
    """Return the values of a file, a line each, of a stream of two levels or more."""
    if currency == "epsilon":
        made = by_tree("prefix", 4, [1, 2, 4], [3, 1, 2], path=path)
    else:
        made = stream(currency, path=path)
    for count in (3, 1):
        made.push(count)
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_damaged(currency, path, lines):
    """Go on with a stream, or find it refused in a sentence; return whether it was."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    try:
        made = stream(currency, path=path)
    except ValueError as error:
        if "nothing was drawn" not in str(error):
            raise
        return True
    for _ in range(made.time, 4):
        made.push(2)
    assert np.isfinite([made.standard_error(3), made.expected_error()]).all()
    return False


@pytest.mark.by_day(4)
@CURRENCIES
@pytest.mark.parametrize("wrong", OFF_GRID, ids=lambda wrong: repr(wrong)[:12])
def test_numbers_of_a_file_that_leave_their_grids_are_refused(currency, path, wrong):
    """One after the other, of what is measured and of every time."""
    lines = written(currency, path)
    places = [
        (0, "rows", i, j)
        for i, own in enumerate(lines[0]["rows"])
        for j in range(len(own))
    ]
    places += [(1, 0), (1, 1), (1, 2), (1, 3), (0, "name"), (0, "rows"), (0, "stream")]
    places += [(1, 2, i) for i in range(len(lines[1][2]))]
    for *way, place in places:
        damaged = copy.deepcopy(lines)
        reduce(getitem, way, damaged)[place] = wrong
        refused = check_damaged(
            currency, path, [json.dumps(line).encode() for line in damaged]
        )
        noisy = isinstance(wrong, int) and abs(wrong) < 2**63 and "rows" not in way
        assert refused or noisy or (place == 3 and isinstance(wrong, float)), place


def test_a_stream_whose_file_promises_more_is_paid_for_again(path):
    ledger = PrivacyLedger(9, currency="rho")
    stream("rho", path=path, ledger=ledger).push(1)
    cheap, dear = (f'"rho": "{rho}"'.encode() for rho in (PRICE, 5))
    path.write_bytes(path.read_bytes().replace(cheap, dear))
    stream("rho", rho=5, path=path, ledger=ledger).push(1)
    assert [entry.cost for entry in ledger.entries] == [PRICE, 5]


def test_a_full_disk_or_an_interruption_draws_nothing_twice(path):
    def stop(*told):
        go_on(*told)
        raise KeyboardInterrupt

    go_on = Stream._go_on
    made = stream("rho", path=path)
    made.push(1)
    size = path.stat().st_size
    with largest_file(size + 5), pytest.raises(OSError, match="large"):
        made.push(2)
    assert made.time == 1
    assert made.push(2) == stream("rho", path=path).push(2, time=1)
    with mock.patch.object(Stream, "_go_on", stop), pytest.raises(KeyboardInterrupt):
        made.push(3)
    assert made.push(3, time=2) == stream("rho", path=path).answers[2]


def push_until_killed(path, ledger, currency, known, moment, answers):
    """Push; end at once at the moment-th time before or after a call to the system."""
    passed = 0

    def check():
        nonlocal passed
        passed += 1
        if passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function):
        def call(*arguments, **named):
            check()
            result = function(*arguments, **named)
            check()
            return result

        return call

    os.fsync, os.urandom = counted(os.fsync), counted(os.urandom)
    os.replace, os.open = counted(os.replace), counted(os.open)
    made = open_stream(path, ledger, currency, known)
    for time in range(made.time, 100):
        answer = made.push(time + 3, time)
        os.write(answers, json.dumps([time, answer]).encode() + b"\n")


def open_stream(path, ledger, currency, known):
    ledger = PrivacyLedger.open(ledger)
    with as_given(type(known._rows), *known._rows.settings):
        return stream(currency, horizon=100, path=path, ledger=ledger)


@pytest.mark.by_day(1)
@CURRENCIES
def test_a_killed_stream_is_paid_for_and_draws_nothing_twice(currency, path):
    """24 processes, each killed at another one of its calls to the system."""
    ledger = path.parent / "ledger.json"
    killed, known = 0, stream(currency, horizon=100)
    for moment in range(1, 25):
        if moment % 4 == 1:  # begin another stream
            PrivacyLedger.open(ledger, total=100, currency=currency)
            paid = len(PrivacyLedger.open(ledger).entries)
            path.unlink(missing_ok=True)
            returned = {}
        read, write = os.pipe()
        arguments = (path, ledger, currency, known, moment, write)
        process = forking().Process(target=push_until_killed, args=arguments)
        process.start()
        process.join()
        killed += process.exitcode == -signal.SIGKILL
        os.close(write)
        with open(read) as lines:
            for time, answer in map(json.loads, lines):
                assert returned.setdefault(time, answer) == answer
        again = open_stream(path, ledger, currency, known)
        charges = len(PrivacyLedger.open(ledger).entries) - paid
        assert bool(returned) <= charges <= 1
        assert again.time >= len(returned)
        for time, answer in returned.items():
            assert again.answers[time] == answer
        if again.time:  # what was on the disk is what a second attempt returns
            assert again.push(again.time + 2, again.time - 1) == again.answers[-1]
    assert killed == 24
    left = {name.name for name in path.parent.iterdir()}
    assert left == {"ledger.json", "ledger.json.lock", path.name, f"{path.name}.lock"}
