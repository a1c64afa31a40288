"""Choices with given weights, and the exponential mechanism: exact, not on average."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from entropy import Script, system_entropy
from scipy.stats import chisquare

import mmech as mm
import mmech.noise as noise
import mmech.noise.exact as weighted
from mmech.exceptions import BudgetExceededError
from mmech.noise.choice import poisson_thresholds
from mmech.noise.exact import exp_bits
from mmech.privacy.cost import poisson_bag_epsilon
from mmech.privacy.neighbours import Relation
from mmech.selection import choose_rows, fixed_point_rate, logarithms

ONE = 1 << noise.FRACTION_BITS


def exact_probabilities(log_weights):
    """Return the probabilities that `weighted_choice` draws with, as fractions."""
    seen = []
    # The weights are seen nowhere else; the draw from them has a test of its own.
    with mock.patch.object(
        weighted, "position_by_weight", lambda weights, rng: seen.append(weights) or 0
    ):
        noise.weighted_choice(log_weights)
    (weights,) = seen
    assert len(weights) == len(log_weights)
    return [Fraction(w, sum(weights)) for w in weights]


def exp_decimal(gap):
    with localcontext(prec=60):
        return (-Decimal(gap) / ONE).exp()


# ------------------------------------------------------------------------- the draw
def test_weights_are_those_of_exact_arithmetic():
    gaps = [0, 1, ONE // 3, ONE, 5 * ONE + 7, 149 * ONE]
    found = exact_probabilities([-gap for gap in gaps])
    with localcontext(prec=60):
        weights = [exp_decimal(gap) for gap in gaps]
        for probability, weight in zip(found, weights, strict=True):
            ideal = weight / sum(weights)
            own = Decimal(probability.numerator) / Decimal(probability.denominator)
            assert abs(own / ideal - 1) < Decimal(2) ** -48


def test_positions_are_exactly_proportional():
    """Every word of four bits: each position as often as its weight says."""
    chosen = []
    for number in range(16):
        words = Script(number << 60, 0)  # from the total on, the next word counts
        place = weighted.position_by_weight([3, 0, 5, 1], words)
        if words.left:
            chosen.append(place)
    assert chosen == [0] * 3 + [2] * 5 + [3]


@pytest.mark.parametrize("gap", [151 * ONE, 1000 * ONE + 12345, 10**6 * ONE + 1])
def test_small_weights_keep_their_value(gap):
    whole, power = weighted._small_weight(gap)
    assert 2**52 <= whole <= 2**53
    with localcontext(prec=60):
        log2 = Decimal(2).ln()
        error = Decimal(whole).ln() + power * log2 + Decimal(gap) / ONE
        assert abs(error) < Decimal(2) ** -50


@pytest.mark.parametrize("far", [151, 200])
def test_the_slow_path_is_reached_and_exact(far):
    """Two weights, the second exp(-far) < 2**-217: below it after as many zero bits."""
    log_weights = [0, -far * ONE]
    zero, last = 0, 2**64 - 1
    # 128 zero bits, then bits of a number above exp(-far): the near choice.
    words = Script(zero, zero, zero, last, *[zero] * 8)
    assert noise.weighted_choice(log_weights, insecure_rng=words) == 0
    # 320 zero bits are below it.
    assert noise.weighted_choice(log_weights, insecure_rng=Script(*[zero] * 20)) == 1


# ---------------------------------------------------------- the exponential mechanism
def log_ratio(first, second):
    with localcontext(prec=60):
        ratio = first / second
        return Decimal(ratio.numerator).ln() - Decimal(ratio.denominator).ln()


STEPS = {
    (True, "add_remove"): (0, 1),
    (False, "add_remove"): (-1, 0, 1),
    (True, "replace"): (-1, 0, 1),
    (False, "replace"): (-2, -1, 0, 1, 2),
}
"""What one record can change each score by; the other way round is symmetric."""


def steps_of(monotone, neighbours, persons):
    """What so many records of one person can change each score by."""
    steps = STEPS[monotone, neighbours]
    return range(persons * min(steps), persons * max(steps) + 1)


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    ("epsilon", "persons"), [("0.1", 1), ("1", 1), ("3", 1), ("1", 2)]
)
@pytest.mark.parametrize(("monotone", "neighbours"), STEPS)
def test_every_change_of_one_person(epsilon, persons, monotone, neighbours):
    """Exhaustive: no outcome is more than e^epsilon as likely, in exact arithmetic.

    And log ratios lie in a window of that width, by which rho is priced.
    """
    rate = fixed_point_rate(
        Fraction(epsilon),
        monotone=monotone,
        relation=Relation(neighbours, persons),
        roundings=1,
    )
    largest = widest = Decimal(0)
    for scores in ([0, 0, 0], [5, 4, 0], [7, 7, 9]):
        before = exact_probabilities(np.array(scores) * rate)
        steps = steps_of(monotone, neighbours, persons)
        for change in itertools.product(steps, repeat=3):
            after = exact_probabilities((np.array(scores) + change) * rate)
            ratios = list(map(log_ratio, before, after))
            largest = max(largest, *map(abs, ratios))
            widest = max(widest, max(ratios) - min(ratios))
    assert largest <= Decimal(epsilon)
    assert Decimal("0.9") * Decimal(epsilon) < widest <= Decimal(epsilon)
    # Not wasteful either: nearly all of the budget is used.
    assert largest > Decimal("0.4") * Decimal(epsilon)


def test_rates():
    def rate(epsilon, **settings):
        arguments = {"monotone": True, "relation": Relation(), "roundings": 1}
        return fixed_point_rate(Fraction(epsilon), **arguments | settings)

    assert rate(1) == ONE - 12
    assert rate(1, monotone=False) == ONE // 2 - 12
    assert rate(1, relation=Relation("replace")) == ONE // 2 - 12
    assert rate(1, relation=Relation("add_remove", 4)) == ONE // 4 - 12
    assert rate(1, relation=Relation("replace", 4), monotone=False) == ONE // 16 - 12
    assert rate(1, roundings=1000) == ONE - 12_000
    assert rate(1, score_unit=256) == (ONE - 12) // 256
    with pytest.raises(ValueError, match="too small for a selection with 5,000 sums"):
        rate(Fraction(1, 10**9), roundings=5000)


def test_it_prefers_high_scores_and_pays():
    ledger = mm.PrivacyLedger(1)
    chosen = mm.exponential_mechanism(
        [0, 400, 100], epsilon=0.5, released="a word", monotone=True, ledger=ledger
    )
    assert chosen == 1
    assert ledger.remaining == Fraction(1, 2)
    assert ledger.entries[0].released == "a word"
    with pytest.raises(BudgetExceededError):
        mm.exponential_mechanism([0, 1], epsilon=0.6, released="more", ledger=ledger)
    assert ledger.remaining == Fraction(1, 2)


@pytest.mark.parametrize("choose", [mm.exponential_mechanism, mm.permute_and_flip])
@pytest.mark.parametrize(("monotone", "neighbours"), STEPS)
def test_the_rate_is_that_of_all_records_of_a_person(
    choose, monotone, neighbours, drawn
):
    epsilon, persons = Fraction(2, 3), 5
    settings = {"neighbours": neighbours, "records_per_person": persons}
    ledger = mm.PrivacyLedger(1, **settings)
    settings |= {"epsilon": epsilon, "monotone": monotone, "ledger": ledger}
    choose([3, 5, 4], released="x", **settings)
    (public,) = (draw.public for draw in drawn)
    changes = persons * (2 if neighbours == "replace" else 1) * (1 if monotone else 2)
    wanted = epsilon / changes
    if choose is mm.exponential_mechanism:
        wanted = Fraction(math.floor(wanted * ONE) - 12, ONE)
    assert public["rate"] == wanted
    assert public["epsilon"] == epsilon
    assert public["relation"] == ledger.relation
    assert ledger.spent == epsilon


@pytest.mark.parametrize(
    ("rho", "epsilon"), [("1/8", 1), ("1/2", 2), ("1/100", math.sqrt(0.08))]
)
def test_a_draw_for_rho_has_the_epsilon_of_bounded_range(rho, epsilon, drawn):
    ledger = mm.PrivacyLedger(rho, currency="rho")
    settings = {"released": "x", "monotone": True}
    mm.exponential_mechanism([3, 5], rho=rho, ledger=ledger, **settings)
    assert ledger.remaining == 0
    (public,) = (draw.public for draw in drawn)
    assert float(public["epsilon"]) == pytest.approx(epsilon, rel=1e-15)
    assert public["epsilon"] ** 2 <= 8 * Fraction(rho)
    # What costs that epsilon in a ledger of rho costs as much.
    other = mm.PrivacyLedger(rho, currency="rho")
    mm.exponential_mechanism(
        [3, 5], epsilon=public["epsilon"], ledger=other, **settings
    )
    assert drawn[1].public["rate"] == public["rate"]
    assert 0 <= other.remaining < 1e-20


# ---------------------------------------------------------------- permute and flip
def flip_probabilities(scores, rate):
    """Return the law of permute-and-flip, by listing who would be taken."""
    taken = np.exp(-rate * (max(scores) - np.array(scores, float)))
    law = np.zeros(len(scores))
    for outcome in itertools.product([False, True], repeat=len(scores)):
        chance = np.prod(np.where(outcome, taken, 1 - taken))
        if any(outcome):
            law[list(outcome)] += chance / sum(outcome)
    return law


@pytest.mark.by_day(2)
@pytest.mark.parametrize("persons", [1, 2])
@pytest.mark.parametrize(
    ("monotone", "neighbours", "rate"),
    [(*key, rate) for key, rate in zip(STEPS, (1.0, 0.5, 0.5, 0.25), strict=True)],
)
def test_flips_follow_their_law(monotone, neighbours, rate, persons, noise_rng):
    """And no change of one person makes a choice likelier by more than epsilon = 1.

    The law is summed up in doubles: with a slack of 1e-12.
    """
    scores = [4, 5, 3, 5]
    settings = {
        "monotone": monotone,
        "neighbours": neighbours,
        "records_per_person": persons,
        "insecure_rng": noise_rng,
    }
    drawn = [
        mm.permute_and_flip(scores, epsilon=1, released="x", **settings)
        for _ in range(2000)
    ]
    law = flip_probabilities(scores, rate / persons)
    counts = np.bincount(drawn, minlength=4)
    assert chisquare(counts, law * len(drawn)).pvalue > 1e-6
    largest = 0.0
    # Two records change many scores in too many ways to list.
    few = scores[: 5 - persons]
    before = flip_probabilities(few, rate / persons)
    for change in itertools.product(
        steps_of(monotone, neighbours, persons), repeat=len(few)
    ):
        other = flip_probabilities(np.add(few, change), rate / persons)
        largest = max(largest, np.abs(np.log(other / before)).max())
    assert 0.5 < largest <= 1 + 1e-12


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 3), Fraction(5, 2), Fraction(40), Fraction(1, 2**30)]
)
def test_coins_are_compared_bit_by_bit(exponent):
    """Below the expansion of exp(-x) is heads: the neighbours of 192 of its bits."""
    with localcontext(prec=80):
        x = Decimal(exponent.numerator) / Decimal(exponent.denominator)
        expansion = int((-x).exp() * 2**192)
    for bits in (64, 128, 192):
        known = expansion >> (192 - bits)
        for step in (-1, 1):
            number = known + step
            words = [number >> shift & (2**64 - 1) for shift in range(0, bits, 64)]
            script = Script(*reversed(words))
            heads = noise.flip_negative_exponential(exponent, insecure_rng=script)
            assert heads is (step < 0)
            assert not script.left


@pytest.mark.parametrize(("steps", "chosen"), [((-1,), 2), ((1, -1), 0), ((1, 1), 1)])
def test_flips_compare_gaps_times_the_rate(steps, chosen):
    """The coin of a candidate: asked in the drawn order, until one falls on heads.

    The words are those next to the probability of heads; the best needs no coin.
    """
    order = [2, 1, 0]  # swaps that give 2, 0, 1
    coins = [exp_bits(Fraction(gap, 12), 64) for gap in (5, 2)]
    script = Script(
        *order, *(coin + step for coin, step in zip(coins, steps, strict=False))
    )
    settings = {"epsilon": Fraction(1, 3), "released": "x", "neighbours": "replace"}
    with system_entropy(script.bytes):
        assert mm.permute_and_flip([7, 9, 4], **settings) == chosen
    assert not script.left


@pytest.mark.parametrize("choose", [mm.exponential_mechanism, mm.permute_and_flip])
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize(
    ("epsilon", "count"),
    [
        *((10, 6_710_886), (10, 6_710_887), (1e9, 3), (1e9, 4), (1e9, 2**61)),
        *((1e100, 7), (1e100, 0)),
    ],
)
def test_no_count_is_refused(choose, monotone, epsilon, count):
    """A refusal that depends on a count would tell it, at no cost."""
    ledger = mm.PrivacyLedger(math.inf)
    chosen = choose(
        [0, count], epsilon=epsilon, released="x", monotone=monotone, ledger=ledger
    )
    assert chosen == 1 or count == 0
    assert len(ledger.entries) == 1


def test_logarithms_are_exact_of_any_size():
    """So that the law is the same on either side of 64 bits."""
    scores = np.array([3, 0, 2**40], np.int64)
    rests = np.array([5, -7, 2**50], np.int64)
    for rate in (1, 2**20, 2**36, 2**60, 2**70):
        expected = [
            s * rate + r for s, r in zip(scores.tolist(), rests.tolist(), strict=True)
        ]
        assert logarithms(scores, rate, rests).tolist() == expected
        assert noise.weighted_choice(logarithms(scores, rate, rests)) == 2
    for rests in ([0, 2**63 - 1], [0, 1 - 2**63]):
        found = logarithms(np.array([0, 2]), 2, np.array(rests))
        assert found.tolist() == [0, 4 + rests[1]]


# ------------------------------------------------------------------ many rows at once
ROW = [0, -ONE, noise.IMPOSSIBLE, -3 * ONE // 2, ONE // 3, -200 * ONE]


def borders(row):
    """Return the sums of exact probabilities up to every candidate."""
    possible = [i for i, log in enumerate(row) if log != noise.IMPOSSIBLE]
    best = max(row)
    weights = dict.fromkeys(range(len(row)), Fraction(0))
    for i in possible:
        weights[i] = Fraction(float(np.exp((row[i] - best) / ONE)))
    return list(
        itertools.accumulate(w / sum(weights.values()) for w in weights.values())
    )


def test_rows_have_the_exact_distribution_over_all_numbers():
    """All numbers of 16 bits: each candidate as often as its probability says."""
    words = np.arange(2**16, dtype=np.uint64) << np.uint64(48)
    rows = np.tile(np.array(ROW), (2**16, 1))
    drawn = noise.weighted_choices(rows, insecure_rng=Script(*words))
    sums = borders(ROW)
    expected = [
        sum(Fraction(j, 2**16) >= border for border in sums) for j in range(2**16)
    ]
    assert drawn.tolist() == expected


@pytest.mark.parametrize("place", [0, 1, 3])
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("rest", [0, 2**64 - 1])
def test_numbers_next_to_a_border_are_settled_exactly(place, more, rest):
    border = borders(ROW)[place]
    first = math.floor(border * 2**64) + more
    stream = Script(first, rest, rest, rest)
    number = Fraction(first, 2**64) + Fraction(rest, 2**128)
    expected = sum(number >= b for b in borders(ROW))
    drawn = noise.weighted_choices(np.array([ROW]), insecure_rng=stream)
    assert drawn.tolist() == [expected]


def test_rows_that_64_bits_do_not_hold(rng):
    scores = np.array([[0, 2**62], [2**62, 0]])
    options = {"window": 1, "relation": Relation(), "noise": rng}
    assert choose_rows(scores, Fraction(1), **options).tolist() == [1, 0]
    possible = np.array([[True, False], [True, True]])
    found = choose_rows(scores, Fraction(1), possible=possible, **options)
    assert found.tolist() == [0, 0]


def test_rows_follow_priors_and_rates(rng):
    scores = np.zeros((40_000, 3), np.int64)
    scores[:, 1] = 2
    priors = np.array([0, 0, ONE])
    found = choose_rows(
        scores, Fraction(2), window=4, relation=Relation(), noise=rng, priors=priors
    )
    weights = np.exp([0, 1, 1])
    counts = np.bincount(found, minlength=3)
    assert chisquare(counts, weights / weights.sum() * counts.sum()).pvalue > 1e-6


def test_rows_are_chosen_alike_in_blocks():
    """With priors, and rows of which one block needs more than 64 bits."""
    rng = np.random.default_rng(0)
    scores, possible = rng.integers(0, 50, (40, 3)), rng.random((40, 3)) < 0.7
    possible[:, 0] = True
    scores[17, 2], possible[17, 2] = 2**62, True
    found = []
    for entries in (2**16, 12):
        with mm.limits.changed(scored_entries=entries):
            chosen = choose_rows(
                scores, Fraction(60), window=1, relation=Relation(),
                noise=np.random.default_rng(1), possible=possible, priors=[0, ONE, 0],
            )  # fmt: skip
        found.append(chosen.tolist())
        assert possible[np.arange(40), chosen].all()
        assert chosen[17] == 2
    best = np.where(possible, scores, -1).argmax(axis=1)
    for chosen in found:
        assert np.mean(best == chosen) > 0.9


def test_a_window_divides_the_rate(drawn):
    for window in (None, 1, 2, 10):
        mm.exponential_mechanism([1, 2], epsilon=1, window=window, released="one")
    seen = [draw.public["rate"] for draw in drawn]
    rate = Fraction(ONE - 12, ONE)
    assert seen[1] == rate
    assert seen[0] < seen[1] / 2 + Fraction(1, ONE)
    assert seen[2:] == [Fraction((ONE - 12) // w, ONE) for w in (2, 10)]


# ---------------------------------------------------------------------- random samples
@pytest.mark.parametrize("bits", [64, 128])
def test_poisson_thresholds_are_exact(bits):
    """Against sixty digits of e and the sums of 1 / k!."""
    with localcontext(prec=80):
        e = Decimal(1).exp()
        total = Decimal(0)
        for k, found in enumerate(poisson_thresholds(bits)):
            total += 1 / Decimal(math.factorial(k))
            assert found == int(2**bits * total / e)
    assert poisson_thresholds(bits)[-1] == 2**bits - 1


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("later", [0, 2**64 - 1])
def test_a_number_on_a_threshold_is_settled_by_more_bits(k, later):
    stream = Script(poisson_thresholds(64)[k], later)
    assert noise.poisson_bags(1, 1, insecure_rng=stream).item() == k + (later > 0)


@pytest.mark.parametrize("epsilon", ["1e-30", "1/1000", "1", "20"])
def test_costs_of_samples_are_below_their_formulas_and_close(epsilon):
    epsilon = Fraction(epsilon)
    found = poisson_bag_epsilon(epsilon)
    with localcontext(prec=160):
        exact = (1 + Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).ln()
        own = Decimal(found.numerator) / Decimal(found.denominator)
        assert exact * (1 - Decimal(2) ** -40) < own <= exact


def test_a_replaced_label_is_a_record_that_leaves_and_one_that_comes():
    relation = Relation("labels", 3)
    assert relation.factor == 6
    assert "attributes are public" in relation.words
    ledger = mm.PrivacyLedger(1, neighbours="labels")
    noisy = mm.noisy_release(
        [3, 4], sensitivity=1, epsilon=1, released="labels", neighbours="labels",
        ledger=ledger,
    )  # fmt: skip
    assert noisy.scale == 2
    with pytest.raises(ValueError, match="replacing the label of one record"):
        mm.exponential_mechanism([1, 2], epsilon=1, released="one", ledger=ledger)


@pytest.mark.parametrize("draw", [mm.exponential_mechanism, mm.permute_and_flip])
def test_public_draws_take_fresh_entropy_and_say_so(draw):
    """False alarms: nine of 64 equal candidates are the same, 4e-15."""
    ledger = mm.PrivacyLedger(9)
    options = {"epsilon": 1, "released": "a candidate", "ledger": ledger}
    drawn = {draw(np.zeros(64, int), **options) for _ in range(9)}
    assert len(drawn) > 1
    assert not any(entry.insecure for entry in ledger.entries)
