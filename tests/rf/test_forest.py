"""Forests against their plain Python twins, by hand, and as random objects."""

import math
import pickle
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import rf_reference
from refusals import refused

from mmech.exceptions import DomainTooLargeError
from mmech_rf import _kernels, limits
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import grow_random_forest

CAR = (4, 4, 4, 3, 3, 3)
# outlook (3 values) at the root; windy (2 values) below its second value
HAND = {
    "domain_shape": (3, 2),
    "feature": [0, -1, 1, -1, -1, -1],
    "child": [1, 0, 4, 3, 1, 2],
    "node_offsets": [0, 6],
    "leaf_offsets": [0, 4],
}


@pytest.fixture
def hand():
    return Forest(**HAND)


# ------------------------------------------------------------- worked by hand
def test_a_tree_worked_by_hand(hand):
    assert hand.apply_domain().tolist() == [[0, 0, 1, 2, 3, 3]]
    assert hand.apply([[1, 1], [2, 0]]).tolist() == [[2], [3]]
    counts = hand.count_leaves([[1, 1], [1, 1], [0, 0]], [0, 1, 1], 2)
    assert counts.tolist() == [[0, 1], [0, 0], [1, 1], [0, 0]]
    outlook, windy = hand.leaf_masks()
    assert outlook.astype(int).tolist() == [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert windy.astype(int).tolist() == [[1, 1], [1, 0], [0, 1], [1, 1]]
    assert (hand.n_trees, hand.n_leaves, hand.n_nodes) == (1, 4, 6)
    assert (hand.depth, hand.n_features, hand.n_cells) == (2, 2, 6)


@pytest.mark.parametrize("shape", [(300, 2), (2,) * 130], ids=["values", "attributes"])
def test_more_of_them_than_a_byte_or_a_word_tells_apart(shape, rng):
    forest = grow_random_forest(shape, n_trees=4, depth=4, seed=0)
    codes = rng.integers(0, shape, (20, len(shape)))
    assert np.array_equal(forest.apply(codes), rf_reference.apply(forest, codes))
    assert forest.n_cells == math.prod(shape)


def test_records_past_one_block_and_one_chunk():
    forest = grow_random_forest(CAR, n_trees=5, depth=3, seed=1)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, CAR, (3200, 6))
    classes, trees = rng.integers(0, 4, 3200), rng.integers(0, 5, 3200)

    def found(part):
        own = codes[part], classes[part], 4
        counted = forest.count_assigned_leaves(*own, trees[part])
        return forest.apply(own[0]), forest.count_leaves(*own), counted

    parts = [found(slice(first, first + 50)) for first in range(0, 3200, 50)]
    routed, *counts = zip(*parts, strict=True)
    expected = np.concatenate(routed), *(sum(parts) for parts in counts)
    with limits.changed(routed_records=1500):
        for one, other in zip(found(slice(None)), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_integer_layout_gives_the_same_leaves(dtype, order):
    forest = grow_random_forest(CAR, n_trees=4, depth=3, seed=1)
    codes = np.random.default_rng(0).integers(0, CAR, (30, 6))
    other = np.array(codes, dtype=dtype, order=order)
    assert np.array_equal(forest.apply(other), forest.apply(codes))
    assert np.array_equal(forest.apply(other[::-1]), forest.apply(codes)[::-1])


def test_no_records():
    forest = grow_random_forest(CAR, n_trees=4, depth=2, seed=1)
    nobody = np.empty((0, 6), dtype=np.int64)
    assert forest.apply(nobody).shape == (0, 4)
    assert not forest.count_leaves(nobody, [], 2).any()
    assert not forest.count_assigned_leaves(nobody, [], 2, []).any()


# ------------------------------------------------------------------ randomness
def same(a, b):
    return np.array_equal(a.feature, b.feature) and np.array_equal(a.child, b.child)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_are_advanced_and_sequences_are_left_as_they_are(make):
    grow = partial(grow_random_forest, CAR, n_trees=10, depth=3)
    source, sequence = make(3), np.random.SeedSequence(5)
    first, second = grow(seed=source), grow(seed=source)
    assert not same(first, second)
    assert same(first, grow(seed=make(3)))
    for _ in range(2):
        assert same(grow(seed=5), grow(seed=sequence))
    assert not same(grow(n_trees=50), grow(n_trees=50))


def test_draws_reject_the_words_that_would_bias():
    # With this bound a quarter of the words is rejected; small bounds hardly ever do.
    bound = 3 * 2**29
    states = np.random.default_rng(0).integers(2**64, size=100, dtype=np.uint64)
    with np.errstate(over="ignore"):
        drawn = [_kernels._draw_below(bound, state) for state in states]
    assert drawn == [rf_reference.draw_below(bound, int(state)) for state in states]


# -------------------------------------------------------------- the object
def test_arrays_are_read_only_and_pickling_keeps_them_so():
    forest = grow_random_forest(CAR, n_trees=3, depth=2, seed=0)
    loaded = pickle.loads(pickle.dumps(forest))
    assert repr(loaded) == repr(forest)
    for copy in (forest, loaded):
        for name in ("feature", "child", "node_offsets", "leaf_offsets"):
            assert not getattr(copy, name).flags.writeable
            assert np.array_equal(getattr(copy, name), getattr(forest, name))
    with pytest.raises(AttributeError):
        forest.feature = loaded.feature


def test_a_forest_keeps_its_own_copy():
    feature = np.array(HAND["feature"], dtype=np.int32)
    forest = Forest(**{**HAND, "feature": feature})
    feature[0] = 1
    assert forest.feature[0] == 0


def test_a_schema_is_anything_with_a_domain_shape():
    forest = grow_random_forest(SimpleNamespace(domain_shape=(2, 3)), 2, 1, seed=0)
    assert same(forest, grow_random_forest(np.array([2, 3]), 2, 1, seed=0))
    assert forest.domain_shape == (2, 3)


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"domain_shape": ()}, "at least one attribute"),
        ({"domain_shape": (3, 0)}, "an attribute size must be an integer >= 1, got 0"),
        ({"feature": [0, -1]}, "child must have .* each of the 2 nodes, got 6"),
        ({"node_offsets": [0]}, "node_offsets must start at 0"),
        ({"node_offsets": [1, 6]}, "node_offsets must start at 0"),
        ({"leaf_offsets": [0, 2, 2]}, "leaf_offsets must start at 0"),
        ({"leaf_offsets": [0, 2, 4]}, "one entry per tree and one more, got 2 and 3"),
        ({"node_offsets": [0, 5]}, "must end at the number of nodes 6, got 5"),
        ({"feature": [2, -1, 1, -1, -1, -1]}, "node 0 .* attribute outside"),
        ({"feature": [-2, -1, 1, -1, -1, -1]}, "node 0 .* attribute outside"),
        ({"feature": [0, -1, 0, -1, -1, -1]}, "node 2 .* already used on its path"),
        ({"child": [2, 0, 4, 3, 1, 2]}, "node 0 .* depth-first order"),
        ({"child": [1, 0, 4, 1, 2, 3]}, "node 4 .* from the left"),
        ({"domain_shape": (4, 2)}, "node 2 .* depth-first order"),
        ({"feature": [0, -1, 1, 1, -1, -1], "child": [1, 0, 4, 6, 1, 2]},
         "node 3 .* more or fewer nodes"),
        ({"feature": [0, *[-1] * 6], "child": [1, *range(6)], "node_offsets": [0, 7]},
         "more or fewer nodes"),
        ({"leaf_offsets": [0, 5]}, "more or fewer leaves"),
        ({"child": [[1, 0, 4, 3, 1, 2]]}, "child must have one dimension"),
        ({"child": [1, 0, 4, 3, 1, 2**40]}, "child must fit int32"),
        ({"feature": [0.0, -1, 1, -1, -1, -1]}, "must hold integers, got dtype float"),
    ],
)  # fmt: skip
def test_unsound_arrays_are_refused(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Forest(**{**HAND, **changed})


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"feature": [0.0, -1, 1, -1, -1, -1]}, TypeError),
        ({"value": [0.5, -2, -2], "ordered": [True, True]}, TypeError),
        ({"feature": [0, -2, -2], "child": [1, -1, -1]}, ValueError),
        ({"node_offsets": [0]}, ValueError),
        ({"value": [0] * 6}, ValueError),
    ],
)
def test_arrays_of_other_trees_are_told_what_a_forest_is(changed, kind):
    words = r"; a Forest is trees depth first .* grow_random_forest.* compile_forest"
    refused(lambda: Forest(**{**HAND, **changed}), words, kind)


@pytest.mark.parametrize(
    ("codes", "error", "message"),
    [
        ([[0.0, 1.0]], TypeError, "codes must hold integers, got dtype float64"),
        ([["a", "b"]], TypeError, "encode records with the schema"),
        ([0, 1], ValueError, r"shape \(N, 2\), one column per attribute, got \(2,\)"),
        ([[0, 1, 1]], ValueError, r"got \(1, 3\)"),
        ([[0, 1], [3, 0]], ValueError, r"attribute 0 must lie in 0..2, row 1 does not"),
        ([[0, -1]], ValueError, r"attribute 1 must lie in 0..1, row 0 does not"),
    ],
)
def test_codes_are_checked(hand, codes, error, message):
    with pytest.raises(error, match=message):
        hand.apply(codes)
    with pytest.raises(error, match=message):
        hand.count_leaves(codes, [0] * len(codes), 1)


@pytest.mark.parametrize(
    ("classes", "n_classes", "error", "message"),
    [
        ([0.0, 1.0], 2, TypeError, "class_codes must hold integers"),
        ([0], 2, ValueError, r"each of the 2 records, got shape \(1,\)"),
        ([0, 2], 2, ValueError, r"class_codes must lie in 0..1, row 1 does not"),
        ([-1, 0], 2, ValueError, "row 0 does not"),
        ([0, 0], 0, ValueError, "n_classes must be an integer >= 1, got 0"),
    ],
)
def test_classes_are_checked(hand, classes, n_classes, error, message):
    codes = [[0, 0], [1, 1]]
    with pytest.raises(error, match=message):
        hand.count_leaves(codes, classes, n_classes)
    with pytest.raises(error, match=message):
        hand.count_assigned_leaves(codes, classes, n_classes, [0, 0])


def test_assigned_trees_are_checked(hand):
    with pytest.raises(ValueError, match=r"tree_index must lie in 0..0, row 0 does"):
        hand.count_assigned_leaves([[0, 0]], [0], 1, [1])


def test_forests_too_large_are_refused_before_they_are_grown():
    with pytest.raises(DomainTooLargeError, match=r"268,435,456 .* depth below 60$"):
        grow_random_forest((2,) * 100, n_trees=1, depth=60, seed=0)
    # The smallest trees would fit, the ones drawn do not.
    with (
        limits.changed(forest_nodes=100),
        pytest.raises(DomainTooLargeError, match=r"10 trees .* than 100 n") as refusal,
    ):
        grow_random_forest((2, 50), n_trees=10, depth=1, seed=0)
    # As many trees as it says have the most nodes that fit.
    most = int(re.search(r"below 1, or at most (\d+) trees", str(refusal.value))[1])
    nodes = [grow_random_forest((2, 50), most + i, 1, seed=0).n_nodes for i in (0, 1)]
    assert nodes[0] <= 100 < nodes[1]


def test_tables_too_large_are_refused():
    forest = grow_random_forest((1000,) * 4, n_trees=3, depth=1, seed=0)
    with pytest.raises(DomainTooLargeError, match=r"3,000,000,000,000 .* leaf_masks"):
        forest.apply_domain()
    huge = grow_random_forest((10,) * 100, n_trees=3, depth=1, seed=0)
    with pytest.raises(DomainTooLargeError, match=r"labels of about 10\^100 cells"):
        huge.apply_domain()
    with (
        limits.changed(mask_entries=10),
        pytest.raises(DomainTooLargeError, match=r"30 leaves over 1,000 .* 30,000"),
    ):
        huge.leaf_masks()
