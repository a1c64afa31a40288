"""Trees by the exponential mechanism: the distribution itself, not a sample of it."""

import itertools
import math
import os
from fractions import Fraction

import numba
import numpy as np
import pytest
from entropy import system_entropy
from scipy.special import logsumexp
from tree_draws import (
    DATA,
    PREDICT,
    SMALL,
    Script,
    choosing,
    conditionals,
    draw,
    every_neighbour,
    largest_of_neighbours,
)

import benchmarks.suite.bench_tree_selection as bench
import mmech_rf.drawn.draw as tree_selection
from mmech import PrivacyLedger
from mmech.exceptions import BudgetExceededError
from mmech.noise import FRACTION_BITS
from mmech.privacy.neighbours import Relation
from mmech.selection import UNITS_PER_ROUNDING
from mmech_rf._kernels import (
    split_log_weights,
    view_tables,
)
from mmech_rf.drawn.draw import counted, select_tree
from mmech_rf.drawn.views import ScoreView, Views, public_views

TWO_LEVELS = {"third_level": 0.0}
"""Trees of a third as many choices, where the depth is not the subject."""


PREDICTED = {"epsilon": "0.7", "predict": PREDICT["constant"], **TWO_LEVELS}
EITHER = {"epsilon": "0.7", "predict": PREDICT["either"]}
REPLACED = {"neighbours": "replace"}
CASES = {
    "empty": (DATA[0], {"epsilon": "0.3"}),
    "one": (DATA[1], {"epsilon": "2"}),
    "three": (DATA[2], {"epsilon": "2"}),
    "replaced": (DATA[2], {"epsilon": "1"} | REPLACED),
    "empty, predicted": (DATA[0], EITHER | TWO_LEVELS),
    "one, predicted": (DATA[1], PREDICTED),
    "one, predicted, replaced": (DATA[1], PREDICTED | REPLACED),
    "three, predicted": (DATA[2], PREDICTED),
    "three, predicted, replaced": (DATA[2], PREDICTED | REPLACED),
    "three levels, predicted": (DATA[2], EITHER),
    "three levels, predicted, replaced": (DATA[2], EITHER | REPLACED),
}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("case", CASES)
def test_every_addition_of_a_record(case):
    """Over all trees, no probability changes by more than e^epsilon; and nearly so.

    Or every replacement of the last one; leaves may stand for a prediction.
    """
    data, settings = CASES[case]
    before = conditionals(SMALL, *data, **settings)
    if "predict" in settings:
        assert all(leaf.logs.size == 3 for leaf in before.below[0][0].below[-1])
    largest = 0.0
    for other in every_neighbour(*data, settings.get("neighbours")):
        after = conditionals(SMALL, *other, **settings)
        largest = max(largest, largest_of_neighbours(before, after))
    epsilon = float(settings["epsilon"])
    assert 0.3 * epsilon < largest <= epsilon + 1e-12


@pytest.mark.by_day(1)
@pytest.mark.parametrize("predict", [None, PREDICT["either"]])
def test_a_record_changes_as_little_as_it_weighs(predict):
    """Among weighted ones, of no or of full weight; and predicted right."""
    codes, classes = DATA[2]
    settings = {"epsilon": "1", "unit": 256, "predict": predict}
    others = [DATA[2]]
    if predict is not None:
        settings |= TWO_LEVELS
        others = list(every_neighbour(codes[:2], classes[:2]))
    weights = np.array([256, 3, 0])
    before = conditionals(
        SMALL, codes[:2], classes[:2], weights=weights[:2], **settings
    )
    for weight in (0, 100, 256):
        weights[2] = weight
        for other in others:
            after = conditionals(SMALL, *other, weights=weights, **settings)
            largest = largest_of_neighbours(before, after)
            assert largest <= weight / 256 + 1e-6


def every_tree(views, codes, classes, epsilon, predict=None, n_classes=2):
    """Yield (choices, log weight) of every labelled tree, by listing them.

    First those of two levels, then those of three, which have half of the prior.
    """
    codes = np.asarray(codes).reshape(len(classes), 2)
    classes = np.asarray(classes)
    cells = views.cells(codes)
    half = math.log(0.5)
    n_labels = n_classes + (predict is not None)
    known = None if predict is None else np.array(predict)[*codes.T]
    third = tree_selection._third_level(views, 100)
    last = Views(tuple(views.items[place] for place in third.views))
    n_views = len(views.items)

    def leaves(mask, places, prior):
        """Yield what a node with these records may do that ends here."""
        for way, place in enumerate([*places, None]):
            leaf = np.zeros(mask.sum(), int) if place is None else cells[place][mask]
            size = 1 if place is None else int(views.sizes[place])
            for labels in itertools.product(range(n_labels), repeat=size):
                said = np.array(labels)[leaf]
                if known is not None:
                    said = np.where(said == n_classes, known[mask], said)
                right = (said == classes[mask]).sum()
                weight = half - size * math.log(n_labels) + epsilon * right
                weight += 0 if place is None else prior[way]
                yield (way, *((label,) for label in labels)), weight

    def trees(place, mask, below):
        """Yield trees that begin with a view, and have `below` in its cells."""
        size = int(views.sizes[place])
        parts = [list(below(mask & (cells[place] == cell))) for cell in range(size)]
        for choice in itertools.product(*parts):
            yield tuple(key for key, _ in choice), sum(weight for _, weight in choice)

    def shallow(mask):
        return leaves(mask, range(n_views), views.log_prior)

    everyone = np.ones(len(classes), bool)
    for root in range(n_views):
        for keys, weight in trees(root, everyone, shallow):
            yield (root, *keys), weight + views.log_prior[root]
    for root, first in enumerate(third.first):
        seconds = [second for second in third.first if second != first]

        def deep(mask, seconds=seconds):
            for key, weight in shallow(mask):
                yield key, weight + half
            for fork, second in enumerate(seconds):
                for keys, weight in trees(
                    third.views[second],
                    mask,
                    lambda mask: leaves(mask, third.views, last.log_prior),
                ):
                    prior = half - math.log(len(seconds))
                    yield (n_views + 1 + fork, *keys), weight + prior

        for keys, weight in trees(third.views[first], everyone, deep):
            yield (n_views + root, *keys), weight - math.log(len(third.first))


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("predict", "third_level"), [(None, 0.5), ("either", 0)])
def test_draws_follow_the_list_of_all_trees(predict, third_level):
    """Against brute force: weights prior times exp(epsilon times right answers)."""
    views = Views(tuple(v for v in SMALL.items if v.family == "single"))
    data = ((0, 0), (0, 1), (1, 1), (1, 1), (0, 0)), (0, 0, 1, 1, 1)
    predict = PREDICT.get(predict)
    listed = dict(every_tree(views, *data, 0.8, predict))
    if not third_level:
        listed = {key: w for key, w in listed.items() if key[0] < len(views.items)}
    choices = conditionals(
        views, *data, epsilon="0.8", predict=predict, third_level=third_level
    )
    found = dict(choices.outcomes())
    assert found.keys() == listed.keys()
    assert len(found) == (24_400 if third_level else 882)
    expected = np.array([listed[key] for key in found])
    expected -= logsumexp(expected)
    np.testing.assert_allclose(list(found.values()), expected, rtol=0, atol=1e-8)


def test_roots_follow_public_numbers_only():
    views = public_views((4, 4, 4, 3, 3, 3))
    some = tree_selection._roots(views, 10**6)
    assert len(some) < len(views.items)
    assert [views.items[i].family for i in some[:7]] == ["whole"] + ["single"] * 6
    assert len(tree_selection._roots(views, 10)) > len(some)
    # With few distinct records all coarse attributes are candidates, else only some.
    assert len(tree_selection._roots(views, 10**12, 3456)) == 7
    assert tree_selection._roots(views, 10**12).tolist() == [0]


def test_third_levels_follow_public_numbers_only():
    views = public_views((4, 4, 40, 3, 3, 3))
    shown = tree_selection._third_level(views, 1000)
    families = {views.items[place].family for place in shown.views}
    assert families == {"whole", "single", "pair"}
    first = [views.items[place] for place in shown.views[shown.first]]
    assert {view.family for view in first} == {"single"}
    assert max(view.size for view in first) == 8
    # Many distinct records have no third level.
    assert tree_selection._third_level(views, 10**7).first.size == 0
    same = tree_selection._third_level(views, 10**7, 3456).first
    np.testing.assert_array_equal(same, shown.first)
    # One view has none to come second.
    assert tree_selection._third_level(public_views((3,)), 1000).first.size == 0


@pytest.mark.by_day(2)
@pytest.mark.parametrize("domain_shape", [(2, 3), (2, 2, 2), (12, 1, 4)], ids=str)
@pytest.mark.parametrize("rate", [None, 2**36, 2**60])
def test_log_weights_are_their_numpy_twins(domain_shape, rate, rng):
    """Every logarithm, to the last of its units, also where 64 bits do not hold it."""
    for n_records, unit, predicts in (
        (0, 256, True), (1, 1, False), (300, 1, True), (900, 256, False),
        (900, 256, True),
    ):  # fmt: skip
        views, records, usual, log_prior, half = bench.case(
            domain_shape, n_records, 3, unit
        )
        predicted = rng.integers(0, 3, n_records) if predicts else None
        scale = rate or usual
        ours = bench.our_nodes(views, records, scale, predicted)
        twin = bench.twin_tables(views, records, scale, predicted)
        roots = np.arange(views.sizes.size)
        ends = log_prior + half, half
        expected = bench.numpy_root_log_weights(roots, *twin, log_prior, *ends)
        found = bench.in_units(ours.roots(roots), scale)
        np.testing.assert_array_equal(found, expected)
        for root in roots:
            size, cell = int(views.sizes[root]), twin[0][root].astype(np.int64)
            expected = bench.numpy_split_log_weights(cell, size, *twin, *ends)
            found = bench.in_units(ours.ways(root), scale)
            np.testing.assert_array_equal(found, expected)
        root, seconds = 1, np.flatnonzero(views.sizes <= 4)
        expected = bench.numpy_fork_log_weights(
            twin[0][root], int(views.sizes[root]), seconds, *twin, *ends
        )
        found = bench.in_units(ours.forks(root, seconds), scale)
        np.testing.assert_array_equal(found, expected)


def select(views, cells, classes, **settings):
    """Draw a tree that nobody pays for."""
    given = {"n_classes": 2, "epsilon": Fraction(1), "n_records": 100, "noise": None}
    terms = {"relation": Relation(), "pay": lambda: None}
    return select_tree(views, cells, classes, **(given | terms | settings))


def drawn_of(records, views, seed, **settings):
    """Return a tree drawn under a seed, in a form that compares."""
    cells, classes, weights, k = records
    own = {"epsilon": Fraction(1, 8), "noise": np.random.default_rng(seed)}
    own |= {"n_classes": k, "weights": weights, "unit": 16}
    tree = select(views, cells, classes, **own, **settings)
    return tree.root, tree.branches, tuple(np.concatenate(tree.labels).tolist())


@pytest.mark.by_day(2)
@pytest.mark.parametrize("predicts", [False, True])
@pytest.mark.parametrize("domain_shape", [(2, 2, 2, 2), (3, 2, 9)], ids=str)
def test_multiplicities_stand_for_repeated_records(domain_shape, predicts, rng):
    """The same tree from distinct records as from all of them, bit by bit."""
    views, records, *_ = bench.case(domain_shape, 40, 3, 16)
    cells, classes, weights, k = records
    numbers = rng.integers(1, 5, 40)
    where = rng.permutation(np.repeat(np.arange(40), numbers))
    repeated = cells[:, where], classes[where], weights[where], k
    predicted = rng.integers(0, 3, 40)
    once = {"predicted": predicted} if predicts else {}
    each = {"predicted": predicted[where]} if predicts else {}
    found = set()
    for seed in range(8):
        tree = drawn_of(records, views, seed, multiplicities=numbers, **once)
        assert tree == drawn_of(repeated, views, seed, **each)
        found.add(tree)
    assert len(found) > 1


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_layout_of_records_is_compiled_anew():
    """It would take seconds."""
    kernels = view_tables, split_log_weights
    draw(SMALL, *DATA[2])
    known = [kernel.signatures.copy() for kernel in kernels]
    codes = np.zeros((3, 2), np.int64)
    cells = np.asfortranarray(SMALL.cells(codes))
    select(SMALL, cells, codes[:, 0])
    assert [kernel.signatures for kernel in kernels] == known


def test_views_that_follow_from_finer_ones_have_their_records(rng):
    """Singles, pairs and scores that are merged from finer ones; others are not."""
    views = public_views((70, 20, 5))
    parts = tuple(v for v in views.items if v.family == "single")[-2:]
    tables = tuple(tuple(rng.integers(-9, 9, v.size).tolist()) for v in parts)
    scores = [
        ScoreView(parts, tables[::way], cuts)
        for way, cuts in ((1, (-2, 3)), (1, (-4, -2, 0, 3)), (1, (-3, 1, 2, 4, 5, 6)))
    ]
    views = Views((*views.items, *scores))
    order, finer, merged = views.nesting
    assert sorted(order) == list(range(len(views.items)))
    codes = rng.integers(0, (70, 20, 5), (3000, 3))
    cells = views.cells(codes).astype(np.int64)
    before = dict(zip(order[1:], order[:-1], strict=True))
    for place in np.flatnonzero(finer >= 0):
        assert before[place] == finer[place]
        own = merged[place][cells[finer[place]]]
        np.testing.assert_array_equal(own, cells[place])
    families = [views.items[place].family for place in np.flatnonzero(finer >= 0)]
    assert {family: families.count(family) for family in families} == {
        "single": 9, "pair": families.count("pair"), "score": 1,
    }  # fmt: skip
    assert families.count("pair") > 10


def test_sums_that_need_64_bits_have_them():
    """A record that is there 2^31 times counts for that many."""
    codes, classes = np.array(DATA[2][0]), np.array(DATA[2][1])
    for often in (2**31 - 3, 2**31):
        known = counted(
            SMALL, SMALL.cells(codes), classes, np.array([1, 1, often]), None, 2, 1
        )
        totals = known[-2]
        assert int(totals.max()) >= often


@pytest.mark.parametrize("data", DATA, ids=["empty", "one", "three"])
def test_labels_of_empty_leaves_are_drawn(data):
    """A leaf has the label that was drawn for it, whoever reaches it."""
    with choosing(Script([1] * 99)):
        tree = draw(SMALL, *data)
    assert (np.concatenate(tree.labels) == 1).all()


@pytest.mark.parametrize("n_records", [10, 10**6, 10**12])
def test_roots_that_are_drawn_follow_the_stated_number(n_records):
    """Not the number of records that there are."""
    views = public_views((4, 4, 3, 3))
    offered = []
    for size in (0, 3, 50):
        device = Script()
        codes = np.zeros((size, 4), np.int64)
        with choosing(device):
            select(views, views.cells(codes), codes[:, 0], n_records=n_records)
        offered.append(device.seen[0].size)
    expected = tree_selection._roots(views, n_records).size
    expected += tree_selection._third_level(views, n_records).first.size
    assert offered == [expected] * 3


def test_the_rate_leaves_room_for_every_rounding(drawn):
    """A tree is drawn from a sum for its root, each of its nodes, and each leaf.

    The tree has two levels or, with views of fewer cells above the last, three.
    """
    draw(public_views((3, 2)), *DATA[0], third_level=0.0)
    draw(public_views((3, 2)), *DATA[0])
    # The largest views have 6 cells, and single attributes 3.
    sums = [1 + 6 + 6 * 6, 1 + 3 + 3 * 3 + 3 * 3 * 6]
    rates = [1 - Fraction(UNITS_PER_ROUNDING * n, 2**FRACTION_BITS) for n in sums]
    assert [tree.public["rate"] for tree in drawn] == rates


def test_nothing_is_drawn_before_it_is_paid_for():
    ledger = PrivacyLedger(1)
    paid = []

    def entropy(size):
        paid.append(ledger.spent)
        return os.urandom(size)

    with system_entropy(entropy):
        draw(SMALL, *DATA[1], ledger=ledger)
    assert paid
    assert set(paid) == {1}


def test_the_ledger_is_asked_first():
    ledger = PrivacyLedger("0.5")
    with pytest.raises(BudgetExceededError):
        draw(SMALL, *DATA[1], ledger=ledger)
    assert ledger.spent == 0
    draw(SMALL, *DATA[1], epsilon="0.5", ledger=ledger)
    assert ledger.remaining == 0


def test_a_budget_that_is_too_small_is_not_spent():
    ledger = PrivacyLedger("1e10")
    codes, classes = np.zeros((20, 2), int), np.zeros(20, int)
    with pytest.raises(ValueError, match="too small for a selection"):
        draw(SMALL, codes, classes, epsilon="1e-9", ledger=ledger)
    assert ledger.spent == 0


@pytest.mark.parametrize("n_records", [0, 1, 3, 4, 20, 1000])
@pytest.mark.parametrize("epsilon", ["1e3", "1e6", "1e9", "1e30"])
def test_no_number_of_records_is_refused(epsilon, n_records):
    """Whatever was said of it, and however large the budget."""
    ledger = PrivacyLedger("1e30")
    codes, classes = np.zeros((n_records, 2), int), np.ones(n_records, int)
    settings = {"epsilon": epsilon, "n_records": 0.1, "unit": 256, "ledger": ledger}
    tree = draw(SMALL, codes, classes, **settings)
    if n_records:
        assert np.concatenate(tree.labels)[tree.leaves(codes[:1])] == 1
    assert ledger.spent == Fraction(epsilon)


@pytest.mark.parametrize(("n_records", "settings"), [(2**13, {}), (2**16, TWO_LEVELS)])
def test_windows_where_logarithms_leave_64_bits(n_records, settings):
    """The same law on either side: one more record changes it by at most epsilon."""
    codes = [(0, 0), (0, 1), (1, 1), (1, 0)] * (n_records // 4)
    classes = [0, 1, 0, 1] * (n_records // 4)
    settings = {"epsilon": "1e4", "n_records": 1, **settings}
    before = conditionals(SMALL, codes, classes, **settings)
    more = [*codes, (0, 1)], [*classes, 0]
    after = conditionals(SMALL, *more, **settings)
    largest = largest_of_neighbours(before, after)
    assert 0.99e4 < largest <= 1e4 * (1 + 1e-9)
