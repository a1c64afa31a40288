"""All kinds of tests, complete forests and depths, against slow Python."""

import pickle
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
import rf_reference
from hypothesis import example, given
from rf_reference import boxes, forests, nested, schemas
from schema_cases import schema_of

from mmech import DomainTooLargeError
from mmech_rf import Attribute, grow_random_forest, limits
from mmech_rf.forest import growth
from mmech_rf.forest.forest import Forest
from mmech_rf.methods import SPLITS


# ---- slow Python ---------------------------------------------------------------
def slow_grow(schema, splits, seeds, depth):
    """The same draws as the kernel, by recursion on copies."""

    def kind(attribute):
        ordered = attribute.kind != "categorical"
        if splits == "multiway" or (splits == "threshold" and not ordered):
            return "multiway"
        return "threshold" if ordered else "equality"

    kinds = [kind(attribute) for attribute in schema.attributes]
    sizes = schema.domain_shape
    weights = []
    for attribute in schema.attributes:
        cuts = [1] * (attribute.size - 1)
        if splits == "threshold" and attribute.kind == "numeric" and len(cuts) > 1:
            edges = [attribute.lower, *attribute.cut_points, attribute.upper]
            spans = [b - a for a, b in zip(edges[:-2], edges[2:], strict=True)]
            cuts = [round(2**30 * span / sum(spans)) for span in spans]
        weights.append(cuts)

    def subtree(values, level, state):
        open_attributes = [i for i, left in enumerate(values) if len(left) > 1]
        if level == depth or not open_attributes:
            return None
        drawn = rf_reference.draw_below(len(open_attributes), state)
        attribute = open_attributes[drawn]
        left = values[attribute]
        word = child_state(state, 2**32)
        if kinds[attribute] == "multiway":
            value, parts = -1, [[code] for code in range(sizes[attribute])]
        elif kinds[attribute] == "equality":
            slot = rf_reference.draw_below(len(left), word)
            value = left[slot]
            # the value drawn changes places with the first
            rest = list(left)
            rest[slot] = rest[0]
            parts = [[value], rest[1:]]
        else:
            own = weights[attribute][left[0] : left[-1]]
            mark = rf_reference.draw_below(sum(own), word)
            below = next(i for i in range(len(own)) if mark < sum(own[: i + 1]))
            value = left[below]
            parts = [left[: below + 1], left[below + 1 :]]
        children = []
        for branch, part in enumerate(parts):
            narrowed = [*values[:attribute], part, *values[attribute + 1 :]]
            children.append(subtree(narrowed, level + 1, child_state(state, branch)))
        return attribute, value, children

    everything = [list(range(size)) for size in sizes]
    return [subtree(everything, 0, int(seed)) for seed in seeds]


def child_state(state, branch):
    return rf_reference.mix((state + (branch + 1) * rf_reference.GOLDEN) % 2**64)


# ---- all kinds of tests --------------------------------------------------------
@given(schemas(), st.sampled_from(SPLITS), st.integers(0, 5), st.integers(0, 2**40))
@example(schema_of("c2", "c3", "c2"), "threshold", 3, 0)
@example(schema_of("c2", "n1", "c3", "c2"), "threshold", 3, 0)
def test_growth_equals_the_recursion(schema, splits, depth, seed):
    forest = grow_random_forest(schema, 2, depth, splits=splits, seed=seed)
    seeds = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    assert nested(forest) == slow_grow(schema, splits, seeds, depth)


@given(forests())
def test_leaves_partition_the_domain_into_boxes(forest):
    cells = rf_reference.cells(forest.domain_shape)
    labels = forest.apply_domain()
    assert np.array_equal(labels, rf_reference.apply(forest, cells).T)
    assert np.array_equal(labels.T, forest.apply(cells))
    assert labels.dtype == forest.apply(cells).dtype == np.int32
    for attribute, mask in enumerate(forest.leaf_masks()):
        assert np.array_equal(mask, [box[attribute] for box in boxes(forest)])
        assert mask.any(axis=1).all()


@given(forests(), st.integers(0, 2**32))
def test_counting_equals_counting_by_leaf(forest, seed):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, forest.domain_shape, (20, forest.n_features))
    classes, trees = rng.integers(0, 3, 20), rng.integers(0, forest.n_trees, 20)
    rows = rf_reference.apply(forest, codes) + forest.leaf_offsets[:-1]
    expected = np.zeros((2, forest.n_leaves, 3), np.int64)
    np.add.at(expected[0], (rows, classes[:, None]), 1)
    np.add.at(expected[1], (rows[np.arange(20), trees], classes), 1)
    assert np.array_equal(forest.count_leaves(codes, classes, 3), expected[0])
    assigned = forest.count_assigned_leaves(codes, classes, 3, trees)
    assert np.array_equal(assigned, expected[1])


@pytest.mark.parametrize("splits", SPLITS)
def test_seeds_prefixes_and_pickles(splits):
    grow = partial(grow_random_forest, schema_of("c4", "o5", "n6", "c3"), splits=splits)
    forest = grow(10, 4, seed=5)
    trees, copy = nested(forest), pickle.loads(pickle.dumps(forest))
    assert nested(grow(20, 4, seed=5))[:10] == nested(copy) == trees
    assert copy.value is None or not copy.value.flags.writeable
    assert trees != nested(grow(10, 4))

    def cut(tree, depth):
        if tree is None or depth == 0:
            return None
        return *tree[:2], [cut(child, depth - 1) for child in tree[2]]

    assert nested(grow(10, 2, seed=5)) == [cut(tree, 2) for tree in trees]


def test_cuts_of_numbers_follow_the_public_range():
    # bins [0,1] (1,4] (4,9] (9,16] (16,25]: two bins around a cut are 4, 8, 12, 16 wide
    weights = growth.cut_weights(schema_of("n5").attributes[0])
    np.testing.assert_allclose(weights / weights.sum() * 40, [4, 8, 12, 16])
    equal = growth.cut_weights(Attribute.numeric("x", lower=0, upper=1, n_bins=10))
    assert np.ptp(equal) <= 1
    # the cell for missing values counts as one step; without bounds, outer bins too
    open_ended = Attribute.numeric("x", cut_points=[0, 1, 3], other="?")
    weights = growth.cut_weights(open_ended)
    np.testing.assert_allclose(weights / weights.sum() * 12, [2, 3, 4, 3])


TWO_TESTS = {"domain_shape": (4,), "node_offsets": [0, 5], "leaf_offsets": [0, 3]}
LOWER = TWO_TESTS | {"feature": [0, 0, -1, -1, -1], "child": [1, 3, 2, 0, 1]}
UPPER = TWO_TESTS | {"feature": [0, -1, 0, -1, -1], "child": [1, 0, 3, 1, 2]}


@pytest.mark.parametrize(
    ("below", "ordered", "value", "leaves"),
    [
        (LOWER, True, [1, 0, -1, -1, -1], [0, 1, 2, 2]),
        (LOWER, True, [1, 1, -1, -1, -1], None),
        (LOWER, True, [1, 2, -1, -1, -1], None),
        (LOWER, False, [1, 0, -1, -1, -1], None),  # equal to 1 leaves one value
        (UPPER, False, [1, -1, 3, -1, -1], [2, 0, 2, 1]),
        (UPPER, False, [1, -1, 1, -1, -1], None),  # a value that was excluded
    ],
)
def test_tests_are_checked_against_those_above(below, ordered, value, leaves):
    arrays = below | {"ordered": [ordered], "value": value}
    if leaves:
        assert Forest(**arrays).apply_domain().tolist() == [leaves]
        return
    with pytest.raises(ValueError, match=r"node [12] .* not every child can pass"):
        Forest(**arrays)


def test_growth_that_would_be_too_large_is_refused():
    # Few tests are certain, but the trees that are drawn have more.
    with (
        limits.changed(forest_nodes=20),
        pytest.raises(DomainTooLargeError, match=r"1 trees .* than 20 nodes"),
    ):
        grow_random_forest((50,), 1, 30, splits="binary", seed=0)
