"""Forests against their plain Python twins, by hand, and as random objects."""

import math
import pickle
import re
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import rf_cases
import rf_reference

from mmech.exceptions import DomainTooLargeError
from mmech_rf import _kernels, limits
from mmech_rf.forest.forest import Forest
from mmech_rf.forest.growth import grow_random_forest

CAR = (4, 4, 4, 3, 3, 3)


# outlook (3 values) at the root; windy (2 values) below its second value
@pytest.fixture
def hand():
    return Forest(**rf_cases.HAND)


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
    feature = np.array(rf_cases.HAND["feature"], dtype=np.int32)
    forest = Forest(**{**rf_cases.HAND, "feature": feature})
    feature[0] = 1
    assert forest.feature[0] == 0


def test_a_schema_is_anything_with_a_domain_shape():
    forest = grow_random_forest(SimpleNamespace(domain_shape=(2, 3)), 2, 1, seed=0)
    assert same(forest, grow_random_forest(np.array([2, 3]), 2, 1, seed=0))
    assert forest.domain_shape == (2, 3)


# ---------------------------------------------------------------- errors
def test_forests_too_large_are_refused_before_they_are_grown():
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
    huge = grow_random_forest((10,) * 100, n_trees=3, depth=1, seed=0)
    with (
        limits.changed(mask_entries=10),
        pytest.raises(DomainTooLargeError, match=r"30 leaves over 1,000 .* 30,000"),
    ):
        huge.leaf_masks()
