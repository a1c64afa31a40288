"""The K-norm mechanism, checked exactly: the law of its noise, and what it promises."""

import decimal
import itertools
import math
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
import reference as ref
from entropy import Copy, Script
from replay import with_noise

from mmech import PrivacyLedger, noisy_release
from mmech.noise import (
    discrete_laplace,
    discrete_laplace_variance,
    norm_noise,
    norm_noise_variance,
)
from mmech.noise import norm as _norm
from mmech.noise.norm import dimension

GROUPS = [
    *[(1,), (3,), (1, 1), (2, 2), (1, 2, 1), (1, 3, 2), (1,) * 6],
    *[((1, 3),), ((2, 2), 1), ((1, 2, 2),), ((2, 1), (1, 1)), (1, (1, 3))],
]
by_groups = pytest.mark.parametrize("groups", GROUPS, ids=str)


def weights_of(groups):
    """Return h, the weights of shifts of the radius."""
    return _norm.numerators(_norm.as_blocks(groups))[0]


def ball(groups, radius):
    """All integer points of a ball, one by one."""
    axis = range(-radius, radius + 1)
    points = np.array(list(itertools.product(axis, repeat=ref.n_rows(groups))))
    return points[ref.group_norm(points, groups) <= radius]


def numbers_of_points(groups, count):
    """V(0..count-1), by the formula over totals."""
    found = []
    for radius in range(count):
        points = 1
        for block in _norm.as_blocks(groups):
            ends = [
                ((radius + n) // 2, (radius - n) // 2)
                for n in range(-radius, radius + 1)
            ]
            points *= sum(
                math.prod(sum(_norm._slice_weights(m, *end)) for m in block)
                for end in ends
            )
        found.append(points)
    return found


# ------------------------------------------------------------------ counting points


@by_groups
def test_balls_have_as_many_points_as_are_found_one_by_one(groups):
    count = 3 if ref.n_rows(groups) > 4 else 5
    found = [len(ball(groups, radius)) for radius in range(count)]
    assert numbers_of_points(groups, count) == found


@pytest.mark.parametrize("m", range(1, 5))
def test_slices_have_as_many_points_as_are_found_one_by_one(m):
    """And none of a ball has more than that whose total is nearest to zero."""
    count = 7
    powers = _norm._powers(m, count)
    points, squares = ({}, {})
    for n in range(count):
        for table, row in zip(
            (points, squares), _norm._slices(m, n, powers), strict=True
        ):
            table.update({(n, v): number for v, number in enumerate(row)})
    z = np.array(list(itertools.product(range(-count, count), repeat=m)))
    up, down = np.maximum(z, 0).sum(axis=1), np.maximum(-z, 0).sum(axis=1)
    for u, v in np.argwhere(np.add.outer(np.arange(count), np.arange(count)) < count):
        inside = z[(up <= u) & (down <= v) & (up - down == u - v)]
        n, least = abs(u - v), min(u, v)
        assert len(inside) == points[n, least] == sum(_norm._slice_weights(m, u, v))
        assert (inside[:, 0] ** 2).sum() == squares[n, least]
        assert len(inside) <= sum(
            _norm._slice_weights(m, -(-(u + v) // 2), (u + v) // 2)
        )


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    "groups", [*GROUPS, (1,) * 40, (2, 9, 30), ((1, 2, 9), 3, 3, (12, 12))], ids=str
)
def test_shift_and_geometric_numbers_count_the_points_of_every_ball(groups):
    """V(r) = Σ_k h_k C(r - k + D, D): D + 1 geometric numbers of sum r - k."""
    degree = dimension(groups)
    weights = weights_of(groups)
    assert len(weights) == degree + 1
    assert min(weights) > 0
    for radius, wanted in enumerate(numbers_of_points(groups, 2 * degree)):
        ways = range(min(radius, degree) + 1)
        total = sum(weights[k] * math.comb(radius - k + degree, degree) for k in ways)
        assert total == wanted


@by_groups
def test_the_mixture_of_balls_has_the_law_of_the_norm(groups):
    """P(R = n) / V(n) ∝ q^n, in fractions.

    It is the difference of P(z) between points of norm n and of norm n + 1, so that
    P(z) itself falls like q^n.
    """
    q = Fraction(3, 5)
    degree = dimension(groups)
    weights = weights_of(groups)
    points = numbers_of_points(groups, 12)

    def radius_weight(radius):
        return sum(
            weights[k]
            * q**k
            * math.comb(radius - k + degree, degree)
            * q ** (radius - k)
            for k in range(min(radius, degree) + 1)
        )

    shares = [radius_weight(n) / points[n] for n in range(12)]
    assert shares == [q**n for n in range(12)]


# -------------------------------------------------------------- every random choice


class Rejected(Exception):
    """A total was proposed that was not accepted."""


def every_outcome(draw):
    """Return the exact law of a function of choices, by making all of them.

    The functions that choose are patched: words alone do not tell of how many. What
    follows a rejection repeats what was before it, so that outcomes are those without.
    """
    path, law = [], Counter()

    def choose(weights):
        nonlocal depth, chance
        if depth == len(path):
            path.append([0, weights])
        index, weights = path[depth]
        depth += 1
        chance *= Fraction(weights[index], sum(weights))
        return index

    def integers_below(bounds, insecure_rng=None):
        return np.array([choose([1] * bound) for bound in bounds.tolist()], np.int64)

    accepts = _norm._accepts

    def accepted(*arguments):
        if not accepts(*arguments):
            raise Rejected
        return True

    choosing = mock.patch.multiple(
        _norm,
        integers_below=integers_below,
        position_by_weight=lambda weights, rng: choose(weights),
        _accepts=accepted,
    )
    while True:
        depth, chance = 0, Fraction(1)
        with choosing, suppress(Rejected):
            law[tuple(np.ravel(draw()).tolist())] += chance
        while path and path[-1][0] + 1 == len(path[-1][1]):
            path.pop()
        if not path:
            total = sum(law.values())
            return {
                outcome: chance / total for outcome, chance in law.items() if chance
            }
        path[-1][0] += 1


@pytest.mark.by_day(5)
@pytest.mark.parametrize("radius", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "groups",
    [(1,), (2,), (3,), (1, 2), (2, 1), ((1, 2),), ((1, 3),), ((2, 2),), (1, (1, 2))],
    ids=str,
)
def test_points_of_balls_are_exactly_uniform(groups, radius):
    """Over all values of all random numbers, with their exact probabilities."""
    blocks = _norm.as_blocks(groups)
    law = every_outcome(lambda: _norm._points(blocks, np.array([radius]), None))
    points = ball(groups, radius)
    assert set(law) == {tuple(point) for point in points.tolist()}
    assert set(law.values()) == {Fraction(1, len(points))}


@pytest.mark.parametrize(
    ("groups", "radii"),
    [((2, 2), [1]), ((2, 2), [1, 0]), ((2, 1), [1, 1]), ((2, 1, 1), [1, 0]),
     (((1, 2),), [1, 1]), (((1, 2), 1), [1, 0])],
    ids=str,
)  # fmt: skip
def test_columns_and_groups_are_independent_given_radii(groups, radii):
    blocks = _norm.as_blocks(groups)
    law = every_outcome(lambda: _norm._points(blocks, np.array(radii), None))
    columns = itertools.product(*(ball(groups, radius) for radius in radii))
    tables = {tuple(np.ravel(np.transpose(table)).tolist()) for table in columns}
    assert set(law) == tables
    assert set(law.values()) == {Fraction(1, len(tables))}


# -------------------------------------------------------------------------- radius


def shares(weights, scale, digits=1200):
    """Cumulative probabilities of the shift, in decimals, the last left out."""
    with decimal.localcontext(decimal.Context(prec=digits, Emin=-(10**9))):
        q = (-Decimal(scale.denominator) / Decimal(scale.numerator)).exp()
        terms = [weight * q**k for k, weight in enumerate(weights)]
        sums = list(itertools.accumulate(terms))
        return [Fraction(total / sums[-1]) for total in sums[:-1]]


@pytest.mark.by_day(10)
@pytest.mark.parametrize("bits", [1, 8, 64, 128])
@pytest.mark.parametrize(
    "scale",
    [Fraction(1, 20), Fraction(2, 7), Fraction(1), Fraction(64), 2**40],
    ids=str,
)
@pytest.mark.parametrize("groups", [(1,), (1, 1), (2, 3), (1,) * 12], ids=str)
def test_expansions_equal_decimal_arithmetic(groups, scale, bits):
    weights = weights_of(groups)
    wanted = [math.floor(2**bits * c) for c in shares(weights, Fraction(scale))]
    assert _norm.cumulative_bits(weights, Fraction(scale), bits) == wanted


@pytest.mark.parametrize("side", [-1, 1])
def test_expansions_next_to_a_short_number(side):
    """One group of one: a shift of none has probability 1 / (1 + q), here 200 / 256."""
    assert weights_of((1,)) == (1, 1)
    with decimal.localcontext(decimal.Context(prec=80)):
        rate = -Fraction((Decimal(56) / 200).ln()) + side * Fraction(1, 10**60)
    wanted = 200 if side > 0 else 199
    assert _norm.cumulative_bits((1, 1), 1 / rate, 8) == [wanted]


def test_expansions_at_an_epsilon_that_leaves_no_noise():
    """All probabilities of no shift are just below one, without a billion bits."""
    weights = weights_of((1, 2))
    assert _norm.cumulative_bits(weights, Fraction(1, 10**7), 64) == [2**64 - 1] * 3
    assert not norm_noise(Fraction(1, 10**7), (1, 2), 50).any()
    assert (norm_noise_variance(Fraction(1, 10**7), (1, 2)) == 5e-324).all()


def sums_of_geometric(groups, scale, size, rng):
    """Return what radii are without their shift, and the bytes that they come from.

    Laplace noise x counts as x, or as -x - 1.
    """
    source = Copy(rng)
    shape = (sum(groups) + 1, size)
    laplace = discrete_laplace(scale, shape, insecure_rng=source)
    assert (laplace < 0).any()
    return np.maximum(laplace, -laplace - 1).sum(axis=0), source.given


def test_radii_are_sums_of_geometric_numbers_and_a_shift():
    """Words beside every threshold of the shift."""
    groups, scale = (1, 1, 1), Fraction(2)
    sums, first = sums_of_geometric(groups, scale, 2, np.random.default_rng(0))
    table = _norm._shift_table(scale, _norm.as_blocks(groups)).tolist()
    assert table == sorted(table)
    assert len(table) == 3
    for shift, threshold in enumerate(table):
        script = Script(threshold - 1, threshold + 1, first=first)
        radii = _norm._radii(scale, _norm.as_blocks(groups), 2, script)
        assert (radii - sums).tolist() == [shift, shift + 1]
        assert not script.left


def test_an_undecided_word_reads_further_ones():
    groups, scale = (1, 2), Fraction(3)
    sums, given = sums_of_geometric(groups, scale, 1, np.random.default_rng(0))
    weights = weights_of(groups)
    for shift, expansion in enumerate(_norm.cumulative_bits(weights, scale, 192)):
        first, second, third = (expansion >> s & (2**64 - 1) for s in (128, 64, 0))
        for more, step in itertools.product((0, 1), (-1, 1)):
            words = ([first, second + step], [first, second, third + step])[more]
            script = Script(*words, first=given)
            radii = _norm._radii(scale, _norm.as_blocks(groups), 1, script)
            assert (radii - sums).tolist() == [shift + (step > 0)]
            assert not script.left


# ------------------------------------------------------------------------ variances


@pytest.mark.by_day(4)
@pytest.mark.parametrize(
    "groups", [(1,), (1, 1), (2, 1), (3,), ((1, 2),), ((1, 1), 1)], ids=str
)
@pytest.mark.parametrize("scale", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_variance_is_that_of_all_points(groups, scale):
    points, law = ref.norm_law(groups, scale, 30 if ref.n_rows(groups) < 3 else 22)
    wanted = law @ np.square(points)
    assert norm_noise_variance(scale, groups) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("groups", [(1,) * 100, (4,) * 9, (2, 7, 1), (30,)], ids=str)
def test_variance_approaches_that_of_continuous_noise_from_below(groups):
    rows = sum(groups)
    sizes = np.repeat(groups, groups)
    wanted = 2 * (rows + 1) * (rows + 2) / ((sizes + 1) * (sizes + 2))
    for scale in (Fraction(1, 3), 1, 10, 1000):
        ratio = norm_noise_variance(scale, groups) / (wanted * float(scale) ** 2)
        assert (ratio < 1).all()
        assert (ratio > 1 - 0.2 / scale**2).all()


@pytest.mark.parametrize("scale", [Fraction(1, 700), Fraction(1, 3), 5, 10**6])
def test_variance_of_one_group_is_that_of_discrete_laplace_noise(scale):
    wanted = discrete_laplace_variance(scale)
    for size in (1, 4):
        found = norm_noise_variance(scale, (size,))
        assert found == pytest.approx(np.full(size, wanted), rel=1e-12)


# -------------------------------------------------------------------------- privacy


def one_way_tables(records, sizes, classes):
    """Count the values of every attribute in every class: all records count in all."""
    tables = np.zeros((sum(sizes), classes), int)
    starts = np.cumsum([0, *sizes[:-1]])
    for *values, label in records:
        tables[starts + values, label] += 1
    return tables


def drawn_scale(values, drawn, **settings):
    """Return the exact scale that a release draws noise with."""
    noisy_release(values, released="x", **settings)
    draw = drawn.pop()
    blocks = _norm.as_blocks(settings["groups"])
    assert (draw.kind, draw.public["groups"]) == ("k_norm", blocks)
    (scale,) = draw.public["parameters"]
    return scale


def largest_log_ratio(groups, scale, first, second):
    """max |log p(y | first) - log p(y | second)| over a box.

    The law of the noise follows the norm, as tested above. Columns are independent,
    so that their largest ratios add up.
    """
    axis = np.arange(-1, 4)
    outputs = np.array(list(itertools.product(axis, repeat=ref.n_rows(groups))))
    loss = Fraction(0)
    for a, b in zip(first.T, second.T, strict=True):
        one, other = (ref.group_norm(outputs - own, groups) for own in (a, b))
        if (np.isinf(one) != np.isinf(other)).any():
            return math.inf  # an output tells the two apart
        possible = np.isfinite(one)
        loss += int(np.abs(one[possible] - other[possible]).max()) / scale
    return loss


SIZES = (2, 3)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("persons", [1, 2])
@pytest.mark.parametrize("groups", [SIZES, (SIZES,)], ids=["groups", "equal totals"])
def test_every_change_of_one_person_costs_epsilon_at_most(
    groups, persons, neighbours, drawn
):
    """Exhaustive: tables of two attributes and two classes, all records of a person."""
    records = list(itertools.product(*map(range, SIZES), range(2)))
    people = itertools.combinations_with_replacement(records, persons)
    others = [one_way_tables(person, SIZES, 2) for person in people]
    epsilon, found = Fraction(2, 3), set()
    for present in [[(0, 2, 0)] * persons, [(0, 2, 0)] * persons + [(1, 1, 1)]]:
        first = one_way_tables(present, SIZES, 2)
        scale = drawn_scale(
            first, drawn, sensitivity=1, groups=groups, epsilon=epsilon,
            neighbours=neighbours, records_per_person=persons,
        )  # fmt: skip
        kept = present if neighbours == "add_remove" else present[persons:]
        for other in others:
            second = one_way_tables(kept, SIZES, 2) + other
            found.add(largest_log_ratio(groups, scale, first, second))
    assert max(found) == epsilon


@pytest.mark.parametrize(
    ("neighbours", "persons", "factor"),
    [("add_remove", 1, 1), ("replace", 1, 2), ("add_remove", 3, 3), ("replace", 3, 6)],
)
def test_the_scale_is_sensitivity_over_epsilon(neighbours, persons, factor, watch_all):
    calls = []

    def noise(scale, shape):
        calls.append((scale, shape))
        return np.arange(math.prod(shape)).reshape(shape)

    watch_all(with_noise(noise))
    release = noisy_release(
        np.full((3, 2), 10),
        groups=[1, 2],
        sensitivity=64,
        epsilon=0.1,
        released="x",
        neighbours=neighbours,
        records_per_person=persons,
    )
    assert calls == [(Fraction(640 * factor), (3, 2))]
    assert release.values.tolist() == [[10, 11], [12, 13], [14, 15]]
    assert release.sensitivity == 64 * factor
    assert release.scale == 640.0 * factor
    assert (release.cost, release.entry.kind) == (Fraction(1, 10), "k_norm")
    variance = norm_noise_variance(640 * factor, (1, 2))
    assert release.variance.tolist() == variance.tolist()


# -------------------------------------------------------------------------- release


def test_totals_that_are_not_equal_are_refused_for_their_price(drawn):
    """Their difference would be released without noise."""
    values = np.array([[3, 1], [2, 0], [1, 1], [5, 0]])
    arguments = {"sensitivity": 1, "epsilon": 1, "released": "x"}
    with_table = noisy_release(values, groups=[(1, 2), 1], **arguments).values
    assert (with_table[0] == with_table[1:3].sum(axis=0)).all()
    drawn.clear()
    for column in (0, 1):
        ledger, wrong = PrivacyLedger(1), values.copy()
        wrong[2, column] += 1
        with pytest.raises(ValueError, match=r"\[1, 2\] rows must have equal totals"):
            noisy_release(wrong, groups=[(1, 2), 1], ledger=ledger, **arguments)
        assert ledger.remaining == 0
    around = np.array([0, *[2**62] * 4])  # which add up to 2^64
    with pytest.raises(ValueError, match="must have equal totals"):
        noisy_release(around, groups=[(1, 4)], **arguments)
    assert not drawn


def test_the_largest_scale_draws():
    """Sums of D + 1 = 4 geometric numbers of scale 2^46, counted in big integers."""
    noise = norm_noise(2**46, np.array([1, 2]), 200)
    assert 2**46 < np.abs(noise).max() < 2**54
    wide = norm_noise(2**40, np.array([40]), 20)
    assert (np.abs(wide).max(axis=1) > 0).all()
    assert wide.astype(float).std() == pytest.approx(math.sqrt(2) * 2**40, rel=0.3)
    with pytest.raises(ValueError, match="noise scale must be > 0"):
        norm_noise(0, (1, 2), 1)
