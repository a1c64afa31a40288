"""Exact noise, checked exactly: thresholds, the bit logic, the rare paths."""

import decimal
import itertools
import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import reference as ref
from entropy import Script

from mmech import _kernels
from mmech.noise import (
    discrete_gaussian,
    discrete_gaussian_variance,
    discrete_laplace,
    discrete_laplace_variance,
)
from mmech.noise import gaussian as _gaussian
from mmech.noise import laplace as _laplace
from mmech.noise.exact import bernoulli, exp_bits, exp_bounds, logistic_bits

EXPONENTS = [
    *(Fraction(a, b) for a in (1, 2, 3, 7, 22) for b in (1, 3, 4, 7, 1000)),
    *(Fraction(2**i, 10) for i in range(10)),
    *(Fraction(2**i, 3 * 2**20) for i in range(0, 28, 3)),
    Fraction(1, 2**48),
    Fraction(45),
    Fraction(9001, 100),
    Fraction(355, 113),
]


def decimal_exp(x, digits=400):
    """exp(-x) to many digits, as a fraction, and a bound on its error."""
    with decimal.localcontext(decimal.Context(prec=digits)):
        value = Fraction((-Decimal(x.numerator) / Decimal(x.denominator)).exp())
    # The quotient and the exponential are correctly rounded.
    return value, value * (x + 2) * Fraction(10) ** (2 - digits)


# ------------------------------------------------------------------ thresholds


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_expansions_equal_decimal_arithmetic(x):
    value, error = decimal_exp(x)
    for bits, (function, of) in itertools.product(
        (1, 8, 53, 64, 65, 128, 256),
        ((exp_bits, lambda e: e), (logistic_bits, lambda e: e / (1 + e))),
    ):
        below = math.floor(2**bits * of(value - error))
        above = math.floor(2**bits * of(value + error))
        assert below == above  # the decimals decide
        assert function(x, bits) == below


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_bounds_bracket(x):
    value, error = decimal_exp(x)
    for precision in (4, 16, 64, 200):
        lo, hi = exp_bounds(x, precision)
        assert lo <= 2**precision * (value - error)
        assert hi >= 2**precision * (value + error)
        assert hi - lo <= 3


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize(
    ("function", "of"),
    [(exp_bits, lambda p: -p.ln()), (logistic_bits, lambda p: (1 / p - 1).ln())],
)
def test_expansions_next_to_a_short_number(function, of, side):
    """A probability that 200 bits do not tell from 77 / 256, on either side of it."""
    with decimal.localcontext(decimal.Context(prec=80)):
        x = Fraction(of(Decimal(77) / 256)) - side * Fraction(1, 10**60)
    assert function(x, 8) == (77 if side > 0 else 76)
    assert function(x, 190) == 77 * 2**182 - (side < 0)


def test_digits_reach_the_tail():
    """The tail has a probability of exp(-45) < 2^-64, and no digit is wasted."""
    for scale in (Fraction(1, 100), Fraction(1, 45), 1, Fraction(5, 3), 1000, 2**48):
        count = _laplace.digits(Fraction(scale))
        assert 2**count >= 45 * scale
        assert count == 0 or 2 ** (count - 1) < 45 * scale


def test_tables_hold_the_leading_bytes():
    for scale in (Fraction(1, 2), Fraction(7, 3), Fraction(1000)):
        count = _laplace.digits(scale)
        table = _laplace.expansions(scale, count)
        assert table.shape == (count + 1, 8)
        assert not table.flags.writeable
        for i, row in enumerate(table[:-1]):
            word = int.from_bytes(row.tobytes(), "big")
            assert word == logistic_bits(2**i / scale, 64)
        last = int.from_bytes(table[-1].tobytes(), "big")
        assert last == exp_bits(2**count / scale, 64)


# ------------------------------------------------------------- the bits of a draw


def run_kernel(table, stream, size, max_events=64):
    out = np.full(size, 10**6, np.int64)
    events = np.zeros((max_events, 3), np.int64)
    given = np.array(table, np.uint8), np.array(stream, np.uint8)
    for array in given:  # as a release has them
        array.setflags(write=False)
    drawn, found = _kernels.geometric_differences(*given, events, out)
    return drawn, out, [tuple(event) for event in events[:found].tolist()]


def padded(head, reserve=64):
    return np.concatenate([head, np.full(reserve, 255)]).astype(np.uint8)


PAIRS = list(itertools.product(range(256), repeat=2))


def drawn_after(table, heads):
    """Return the draws of which each reads its own head, and the events of all."""
    stream = padded(np.concatenate(heads))
    drawn, out, events = run_kernel(table, stream, len(heads), 4 * len(heads) + 64)
    assert drawn == len(heads)
    return out.tolist(), events


def test_every_pair_of_bytes_for_the_tail_alone():
    """All 2^16 byte pairs through a table without digits: exact counts.

    A side is an event if its byte is below 77, and it never ties: these bytes are
    left out.
    """
    heads = [pair for pair in PAIRS if 77 not in pair]
    out, events = drawn_after([[77, 0, 0, 0, 0, 0, 0, 0]], heads)
    assert not any(out)
    sides = {}
    for draw, side, place in events:
        assert place == 1
        sides.setdefault(draw, []).append(side)
    assert Counter(map(tuple, sides.values())) == {
        (1,): 77 * 178,
        (-1,): 77 * 178,
        (1, -1): 77 * 77,
    }


def one_trial(first, second):
    """Return the bytes of a trial by (100, 31), and of others that cannot count."""
    tie = [second, *[255] * (second == 31)] if first == 100 else []
    return [first, *tie, 255, 255, 255]


def two_sides(first, second):
    """Return the bytes of two trials by 90; a tie reads one more byte, 255: no."""
    return [
        own for byte in (first, second) for own in (byte, *[255] * (byte == 90), 255)
    ]


@pytest.mark.parametrize(
    ("digit", "head", "law"),
    [
        ([100, 31], one_trial, {1: 100 * 256 + 31, 0: 2**16 - 100 * 256 - 31}),
        ([90, 0], two_sides, {1: 90 * 166, -1: 166 * 90, 0: 90 * 90 + 166 * 166}),
    ],
    ids=["one trial", "two sides"],
)
def test_every_pair_of_bytes_for_one_digit(digit, head, law):
    """A digit is there for exactly P 2^16 of 2^16 pairs; the tail never is."""
    table = [[*digit, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]]
    out, events = drawn_after(table, [head(*pair) for pair in PAIRS])
    assert not events
    assert Counter(out) == law


@pytest.mark.parametrize("count", [0, 1, 2, 5, 33])
def test_kernel_equals_plain_python(count, rng):
    """Random streams, and streams of few byte values that tie all the time."""
    for case in range(200):
        if case % 2:
            table = rng.integers(0, 256, (count + 1, 8))
            stream = rng.integers(0, 256, 2000)
        else:
            table = rng.integers(0, 2, (count + 1, 8))
            stream = (rng.random(2000) < 0.5).astype(int)
        size = int(rng.integers(1, 8))
        room = int(rng.integers(2 * count + 2, 256))
        wanted, noted = np.full(size, 10**6), np.zeros((room, 3), np.int64)
        stream = stream[: int(rng.integers(0, 2000))]
        done, number = ref.geometric_differences(
            table.tolist(), stream.tolist(), noted, wanted
        )
        drawn, out, found = run_kernel(table, stream, size, max_events=room)
        assert drawn == done
        assert out.tolist() == wanted.tolist()
        assert found == [tuple(event) for event in noted[:number].tolist()]


def test_eight_equal_bytes_are_an_event_and_a_ninth_is_not_read():
    table = np.arange(1, 17).reshape(2, 8)
    tie_all = [*range(1, 9), *range(9, 17)] * 2
    drawn, out, events = run_kernel(table, padded(tie_all), 1)
    assert (drawn, out[0]) == (1, 0)
    assert events == [(0, 1, 0), (0, 1, 1), (0, -1, 0), (0, -1, 1)]
    # Seven equal bytes and a smaller or larger eighth decide.
    for last, one in ((7, 1), (9, 0)):
        head = [*range(1, 8), last, 255, 255, 255]
        drawn, out, events = run_kernel(table, padded(head), 1)
        assert (drawn, out[0], events) == (1, one, [])


def test_the_kernel_stops_before_it_runs_out(rng):
    table = np.full((3, 8), 7)
    reserve = 16 * 3
    for size in (0, reserve - 1, reserve, reserve + 5, reserve + 6, 500):
        drawn, out, _ = run_kernel(table, np.full(size, 255), 50)
        # Six bytes a draw, and the reserve must be there for the last of them.
        assert drawn == (0 if size < reserve else min(50, (size - reserve) // 6 + 1))
        assert (out[:drawn] == 0).all()
        assert (out[drawn:] == 10**6).all()
    # Every trial is an event: draws of six fit into the list only in whole.
    for room, wanted in ((5, 0), (6, 1), (13, 2), (64, 10)):
        drawn, _, events = run_kernel(table, np.full(5000, 7), 10, max_events=room)
        assert drawn == wanted
        assert len(events) == 6 * wanted


# ----------------------------------------------------------------- the slow path


def test_bernoulli_reads_words_until_they_differ():
    x = Fraction(1, 3)
    expansion = exp_bits(x, 192)
    first, second, third = (expansion >> s & (2**64 - 1) for s in (128, 64, 0))
    trials = [
        ([first - 1], True),
        ([first + 1], False),
        ([first, second - 1], True),
        ([first, second + 1], False),
        ([first, second, third - 1], True),
        ([first, second, third + 1], False),
    ]
    for words, wanted in trials:
        script = Script(*words)
        assert bernoulli(lambda bits: exp_bits(x, bits), script) is wanted
        assert not script.left
    script = Script(second, third - 1)
    assert bernoulli(lambda bits: exp_bits(x, bits), script, known=64)
    assert not script.left


def test_settling_an_undecided_digit_and_the_tail():
    scale = Fraction(5)
    zero, top = 0, 2**64 - 1
    for words, digit, wanted in [
        ([zero], 1, 2),
        ([top], 1, 0),
        ([zero], 0, 1),
        ([top], 2, 0),  # an undecided tail that is not there
        ([zero, top], 2, 4),  # there, of one multiple
        ([zero, zero, zero, top], 2, 12),
        ([top], 3, 4),  # a tail that is known to be there
        ([zero, zero, top], 3, 12),
    ]:
        script = Script(*words)
        assert _laplace._settle(scale, 2, digit, script) == wanted
        assert not script.left


def test_settled_digits_continue_where_the_kernel_stopped():
    """After 64 equal bits the next word is compared with bits 64 to 127."""
    scale, digit = Fraction(5), 1
    following = logistic_bits(2**digit / scale, 128) & (2**64 - 1)
    for word, wanted in ((following - 1, 2), (following + 1, 0)):
        assert _laplace._settle(scale, 4, digit, Script(word)) == wanted


def test_the_gaussian_margin_is_decided_exactly():
    """Words on both sides of the exact threshold, closer than a double can tell."""
    variance, scale = Fraction(9, 2), 3
    proposals = np.array([4, 4, 4, 0, 0, 1], np.int64)
    thresholds = [
        exp_bits((abs(int(x)) - variance / scale) ** 2 / (2 * variance), 64)
        for x in proposals
    ]
    offsets = [-1, 1, 5, -1, 1, -3]
    words = np.array(
        [t + d for t, d in zip(thresholds, offsets, strict=True)], np.uint64
    )
    accepted = _gaussian._accepted(proposals, words, variance, scale, None)
    assert accepted.tolist() == [d < 0 for d in offsets]
    # A tie of 64 bits goes on to the next word.
    exact = (Fraction(4) - variance / scale) ** 2 / (2 * variance)
    following = exp_bits(exact, 128) & (2**64 - 1)
    for word, wanted in ((following - 1, True), (following + 1, False)):
        assert _gaussian._below(thresholds[0], exact, Script(word)) is wanted


def test_a_proposal_at_the_centre_is_always_accepted():
    variance, scale = Fraction(4), 2  # centre 2: exponent zero
    words = np.array([0, 2**63, 2**64 - 1], np.uint64)
    proposals = np.array([2, -2, 2], np.int64)
    assert _gaussian._accepted(proposals, words, variance, scale, None).all()


# ---------------------------------------------------------- variances and limits


@pytest.mark.parametrize("scale", [0.01, 0.05, 0.5, 1, 2.5, 10, 300])
def test_variance_of_discrete_laplace(scale):
    wanted = ref.discrete_laplace_variance(scale)
    assert discrete_laplace_variance(scale) == pytest.approx(wanted, rel=1e-9)
    assert discrete_laplace_variance(scale) < 2 * scale**2 or scale < 0.1
    q = math.exp(-1 / scale)
    assert discrete_laplace_variance(scale) == pytest.approx(2 * q / (1 - q) ** 2)


def test_variances_at_the_ends():
    assert discrete_laplace_variance(1e-3) == 2 * math.exp(-1000)
    assert discrete_laplace_variance(1e12) == pytest.approx(2e24)
    assert discrete_gaussian_variance(1e12) == 1e12


@pytest.mark.parametrize("variance", [0.05, 0.3, 1, 3.99, 4, 30])
def test_variance_of_discrete_gaussian(variance):
    x = np.arange(-400.0, 401)
    weights = np.exp(-(x**2) / (2 * variance))
    wanted = (x**2 @ weights) / weights.sum()
    assert discrete_gaussian_variance(variance) == pytest.approx(wanted, rel=1e-12)
    assert discrete_gaussian_variance(variance) <= variance * (1 + 1e-15)


def test_scales_are_exact_fractions():
    assert _laplace.check_scale("1/3") == Fraction(1, 3)
    assert _laplace.check_scale(2**48) == 2**48


def test_extreme_scales_draw():
    # P(X != 0) = 2 exp(-1000) and less.
    assert not discrete_laplace(Fraction(1, 1000), (1000,)).any()
    assert not discrete_gaussian(Fraction(1, 2000), (1000,)).any()
    wide = discrete_laplace(2**48, (1000,))
    assert np.abs(wide).max() < 2**48 * 60  # exp(-60) each
    assert np.abs(wide).max() > 2**48
