"""Cut points that are drawn together: weights, what a record changes, and refusals."""

import itertools
from decimal import Decimal, localcontext
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from replay import check_neighbours, watched

from mmech import PrivacyLedger, joint_quantiles, quantiles
from mmech.exceptions import BudgetExceededError
from mmech.noise import FRACTION_BITS

CELLS, BINS = 4, 3
WAYS = list(itertools.combinations(range(1, CELLS), BINS - 1))


def exact_chances(counts, **settings):
    """Return the probability that every way to cut is drawn with, and the public side.

    Every draw is followed to all of its outcomes, each with the probability that the
    weights of the draw give to it; the draw from weights has tests of its own.
    """
    found, public = {}, {}

    def follow(path):
        left, chance = list(path), Decimal(1)

        def choose(logarithms, *, insecure_rng):
            nonlocal chance
            logs = [Decimal(int(g)) / 2**FRACTION_BITS for g in logarithms]
            weights = [(g - max(logs)).exp() for g in logs]
            place = left.pop(0) if left else None
            if place is None:
                paths.extend((*path, i) for i in range(len(weights)))
                raise Undecided
            chance *= weights[place] / sum(weights)
            return place

        def note(draw, sample):
            public.update(draw.public)
            return sample()

        with mock.patch.object(quantiles, "weighted_choice", choose), watched(note):
            cuts = joint_quantiles(counts, released="cuts", **settings)
        found[tuple(cuts.tolist())] = chance

    paths = [()]
    while paths:
        try:
            follow(paths.pop())
        except Undecided:
            continue
    return found, public


class Undecided(Exception):
    """A draw that the path does not say the outcome of."""


def surplus(counts, cuts, share):
    parts = np.add.reduceat(counts, (0, *cuts))
    return int(np.maximum(parts - share, 0).sum())


@pytest.mark.parametrize("counts", [[5, 0, 1, 4], [0, 0, 0, 0], [0, 90, 2, 0]])
def test_weights_are_those_of_all_ways_to_cut(counts):
    with localcontext(prec=40):
        found, public = exact_chances(counts, n_bins=BINS, n_records=9, epsilon=1)
        assert sorted(found) == WAYS
        rate = Decimal(public["rate"].numerator) / Decimal(public["rate"].denominator)
        weights = {cuts: (-rate * surplus(counts, cuts, 3)).exp() for cuts in WAYS}
        for cuts, weight in weights.items():
            ideal = weight / sum(weights.values())
            # A unit of 2**-36 for each sum that was rounded.
            assert abs(found[cuts] / ideal - 1) < Decimal(2) ** -34


def test_the_budget_is_not_shared_among_cut_points():
    _, public = exact_chances([3, 1, 2, 2], n_bins=BINS, n_records=8, epsilon=1)
    assert 1 - Fraction(1, 10**6) < public["rate"] < 1


def small_data(most):
    return [
        counts
        for counts in itertools.product(range(most + 1), repeat=CELLS)
        if sum(counts) <= most
    ]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_all_small_neighbours(epsilon, neighbours):
    """By the probabilities of real draws; some pair comes up to epsilon."""
    settings = {"n_bins": BINS, "n_records": 3, "epsilon": epsilon}
    known, worst, limit = {}, Decimal(0), Decimal(epsilon)
    with localcontext(prec=40):
        for counts in small_data(6):
            known[counts], _ = exact_chances(
                list(counts), neighbours=neighbours, **settings
            )
        units = np.eye(CELLS, dtype=int)
        if neighbours == "replace":
            units = np.array([a - b for a in units for b in units])
        for counts, step in itertools.product(known, units):
            other = tuple((np.array(counts) + step).tolist())
            if other not in known:
                continue
            ratios = [(known[counts][c] / known[other][c]).ln() for c in WAYS]
            assert max(map(abs, ratios)) <= limit
            # What zCDP of a draw needs: bounded range.
            assert max(ratios) - min(ratios) <= limit
            worst = max(worst, max(ratios) - min(ratios))
    assert worst > Decimal("0.999") * limit


@pytest.mark.parametrize("currency", ["epsilon", "rho"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_neighbour_looks_the_same(neighbours, currency):
    def run(counts, ledger):
        return joint_quantiles(
            counts, 4, n_records=20, released="cuts", neighbours=neighbours,
            ledger=ledger, **{currency: Fraction(1, 2)},
        )  # fmt: skip

    counts = np.array([5, 0, 3, 4, 0, 9])
    step = np.array([0, 1, 0, 0, 0, -1]) if neighbours == "replace" else np.eye(6)[2]

    price = {currency: Fraction(1, 2)}
    other = counts + step.astype(int)
    _, (cost,) = check_neighbours(run, counts, [other], price, neighbours=neighbours)
    assert Fraction(999, 2000) < cost <= Fraction(1, 2)


def test_bins_hold_equal_parts(rng):
    counts = rng.integers(0, 60, 200)
    cuts = joint_quantiles(
        counts, 8, n_records=counts.sum(), epsilon=20, released="cuts"
    )
    parts = np.add.reduceat(counts, np.append(0, cuts))
    assert abs(parts - counts.sum() / 8).max() <= 60


def test_records_beyond_all_limits():
    """Neither counts nor budgets are refused for their size; nor is anything wrong."""
    for counts in ([2**62, 1, 2**62, 2**62], [0, 2**40, 2**40, 0]):
        for epsilon in ("0.001", 1, 10**9):
            cuts = joint_quantiles(
                counts, 3, n_records=4, epsilon=epsilon, released="cuts"
            )
            assert 0 < cuts[0] < cuts[1] < 4


def test_nothing_is_drawn_beyond_the_budget():
    ledger = PrivacyLedger("0.5")
    with (
        watched(lambda draw, sample: pytest.fail("drawn before it was paid")),
        pytest.raises(BudgetExceededError),
    ):
        joint_quantiles(
            [1, 2, 3], 2, n_records=6, epsilon=1, released="cuts", ledger=ledger
        )
    assert ledger.spent == 0


def test_more_stated_records_than_integers_hold_cost_no_budget_without_a_draw():
    ledger = PrivacyLedger(1)
    cuts = joint_quantiles(
        [1, 2, 3], 2, n_records=10**30, epsilon=1, released="cuts", ledger=ledger
    )
    assert (cuts.size, ledger.spent) == (1, 1)


def rounding_errors(table, n_bins):
    """Return by how many units each sum of weights is rounded, (b - 2, G + 1)."""
    ways, found = table[:, 0], []
    for number in range(2, n_bins):
        rounded, own = quantiles._one_more(ways, table, number), [0] * len(ways)
        for edge in range(number, len(table) - 1):
            terms = (ways + table[edge])[number - 1 : edge].tolist()
            most = max(terms)
            parts = ((Decimal(g - most) / 2**FRACTION_BITS).exp() for g in terms)
            own[edge] = int(rounded[edge]) - most - sum(parts).ln() * 2**FRACTION_BITS
        ways = rounded
        found.append(own)
    return found


def test_all_roundings_of_a_draw_are_paid_for():
    """Along the worst of all ways to cut they add up to more than those of one sum."""
    n_bins, tables, whole = 32, [], quantiles.surplus_logarithms

    def keep(*arguments):
        tables.append(whole(*arguments))
        return tables[-1]

    counts = np.random.default_rng(0).integers(0, 4, 2 * n_bins)
    counts[n_bins] = 0  # one more is too many, or not
    with mock.patch.object(quantiles, "surplus_logarithms", keep):
        for more in (0, 1):
            counts[n_bins] += more
            joint_quantiles(counts, n_bins, n_records=n_bins, epsilon=1, released="x")
    with localcontext(prec=30):
        one, other = (rounding_errors(table, n_bins) for table in tables)
        changes = (tables[1] - tables[0]).tolist()
        last = len(changes) - 1
        # How much more likely so many cuts up to an edge become, in units: at the
        # least and at the most, but for what is the same for all ways to cut.
        spans = {edge: (changes[edge][0],) * 2 for edge in range(1, last)}
        for errors in zip(one, other, strict=True):
            before, spans = spans, {}
            for edge in range(min(before) + 1, last):
                spans[edge] = tuple(
                    best(before[start][i] + changes[edge][start] for start in before
                         if start < edge) + errors[1][edge] - errors[0][edge]
                    for i, best in enumerate((min, max))
                )  # fmt: skip
        ends = [[x + changes[last][start] for x in spans[start]] for start in spans]
        width = max(most for _, most in ends) - min(least for least, _ in ends)
    assert 2**FRACTION_BITS - 12 * n_bins + 12 < width <= 2**FRACTION_BITS
