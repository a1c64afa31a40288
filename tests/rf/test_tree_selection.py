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
from mmech_rf.drawn.draw import NodeWeights, select_tree
from mmech_rf.drawn.views import ScoreView, Views, public_views

PREDICTED = {"epsilon": "0.7", "predict": PREDICT["constant"]}
EITHER = {"epsilon": "0.7", "predict": PREDICT["either"]}
REPLACED = {"neighbours": "replace"}
CASES = {
    "empty": (DATA[0], {"epsilon": "0.3"}),
    "one": (DATA[1], {"epsilon": "2"}),
    "three": (DATA[2], {"epsilon": "2"}),
    "replaced": (DATA[2], {"epsilon": "1"} | REPLACED),
    "empty, predicted": (DATA[0], EITHER),
    "one, predicted": (DATA[1], PREDICTED),
    "one, predicted, replaced": (DATA[1], PREDICTED | REPLACED),
    "three, predicted": (DATA[2], PREDICTED),
    "three, predicted, replaced": (DATA[2], PREDICTED | REPLACED),
    "three, either": (DATA[2], EITHER),
    "three, either, replaced": (DATA[2], EITHER | REPLACED),
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
    """Yield (choices, log weight) of every labelled tree, by listing them."""
    codes = np.asarray(codes).reshape(len(classes), 2)
    classes = np.asarray(classes)
    cells = views.cells(codes)
    half = math.log(0.5)
    n_labels = n_classes + (predict is not None)
    known = None if predict is None else np.array(predict)[*codes.T]
    n_views = len(views.items)

    def leaves(mask):
        """Yield what a node with these records may do."""
        for way in range(n_views + 1):
            ends = way == n_views
            leaf = np.zeros(mask.sum(), int) if ends else cells[way][mask]
            size = 1 if ends else int(views.sizes[way])
            for labels in itertools.product(range(n_labels), repeat=size):
                said = np.array(labels)[leaf]
                if known is not None:
                    said = np.where(said == n_classes, known[mask], said)
                right = (said == classes[mask]).sum()
                weight = half - size * math.log(n_labels) + epsilon * right
                weight += 0 if ends else views.log_prior[way]
                yield (way, *((label,) for label in labels)), weight

    for root in range(n_views):
        parts = [list(leaves(cells[root] == x)) for x in range(int(views.sizes[root]))]
        for choice in itertools.product(*parts):
            keys = tuple(key for key, _ in choice)
            yield (root, *keys), sum((w for _, w in choice), views.log_prior[root])


@pytest.mark.parametrize(("predict", "n_trees"), [(None, 200), ("either", 882)])
def test_draws_follow_the_list_of_all_trees(predict, n_trees):
    """Against brute force: weights prior times exp(epsilon times right answers)."""
    views = Views(tuple(v for v in SMALL.items if v.family == "single"))
    data = ((0, 0), (0, 1), (1, 1), (1, 1), (0, 0)), (0, 0, 1, 1, 1)
    predict = PREDICT.get(predict)
    listed = dict(every_tree(views, *data, 0.8, predict))
    choices = conditionals(views, *data, epsilon="0.8", predict=predict)
    found = dict(choices.outcomes())
    assert found.keys() == listed.keys()
    assert len(found) == n_trees
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
        weights = np.array([1, 1, often])
        nodes = NodeWeights(SMALL, SMALL.cells(codes), classes, weights, None, 2, 1)
        totals = nodes._tables[-2]
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
    assert offered == [expected] * 3


def test_the_rate_leaves_room_for_every_rounding(drawn):
    """A tree is drawn from a sum for its root, each of its nodes, and each leaf."""
    draw(public_views((3, 2)), *DATA[0])
    sums = 1 + 6 + 6 * 6  # the largest views have 6 cells
    rate = 1 - Fraction(UNITS_PER_ROUNDING * sums, 2**FRACTION_BITS)
    assert [tree.public["rate"] for tree in drawn] == [rate]


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


@pytest.mark.parametrize("n_records", [2**13, 2**16])
def test_windows_where_logarithms_leave_64_bits(n_records):
    """The same law on either side: one more record changes it by at most epsilon."""
    codes = [(0, 0), (0, 1), (1, 1), (1, 0)] * (n_records // 4)
    classes = [0, 1, 0, 1] * (n_records // 4)
    settings = {"epsilon": "1e4", "n_records": 1}
    before = conditionals(SMALL, codes, classes, **settings)
    more = [*codes, (0, 1)], [*classes, 0]
    after = conditionals(SMALL, *more, **settings)
    largest = largest_of_neighbours(before, after)
    assert 0.99e4 < largest <= 1e4 * (1 + 1e-9)
