"""Lossless reduction of boxes over domains too large to list."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
from hypothesis import given
from hypothesis.extra import numpy as hnp

from mmech import (
    CellGroups,
    Conjunctions,
    Dense,
    DomainTooLargeError,
    Prefix,
    Product,
    Scaled,
    Total,
    UnsupportedWorkloadError,
    limits,
    reduce_boxes,
    reduce_domain,
)
from mmech_rf import (
    aggregation_workload,
    grow_random_forest,
    prediction_workload,
    training_workload,
)


@st.composite
def boxes(draw):
    rows = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return [draw(hnp.arrays(np.bool_, (rows, size))) for size in sizes]


def every_cell(sizes):
    return np.array(list(itertools.product(*map(range, sizes))))


@given(boxes(), st.booleans(), st.sampled_from([1, -3]))
def test_boxes_are_merged_like_columns(masks, with_left, weight):
    workload = Conjunctions(masks)
    dense = ref.conjunctions(masks)
    if with_left:
        left = np.resize([1, 0, 2, 1, 0], (2, len(dense)))
        workload, dense = Product(Dense(left), workload), left @ dense
    if weight != 1:
        workload, dense = Scaled(weight, workload), weight * dense
    reduced, groups = reduce_boxes(workload)
    found = groups(every_cell(groups.domain_shape))
    padded = np.pad(reduced.to_dense(), ((0, 0), (0, 1)))
    np.testing.assert_array_equal(padded[:, found], dense)
    np.testing.assert_array_equal(groups.expand(), found)
    if dense.any():
        distinct = {tuple(column) for column in dense.T.tolist() if any(column)}
        assert reduced.shape[1] == len(distinct)
        assert ((found < 0) == (dense == 0).all(axis=0)).all()


@pytest.mark.parametrize("proportional", [False, True])
def test_reduce_domain_does_not_visit_many_cells(proportional):
    forest = grow_random_forest((4, 3, 5, 2), 2, 1, seed=1)
    workload = Conjunctions(forest.leaf_masks())
    wanted, by_cell = reduce_domain(workload)
    with limits.changed(visited_cells=20):
        reduced, groups = reduce_domain(workload, proportional=proportional)[:2]
    assert np.array_equal(groups, by_cell)
    assert np.array_equal(reduced.to_dense(), wanted.to_dense())


def test_a_forest_over_a_domain_that_cannot_be_listed(rng):
    sizes = (3,) * 70
    forest = grow_random_forest(sizes, 3, 2, seed=0)
    workload = training_workload(forest)
    assert isinstance(workload, Conjunctions)
    reduced, groups = reduce_boxes(workload)
    codes = rng.integers(0, 3, (500, 70))
    leaves = forest.apply(codes) + forest.leaf_offsets[:-1]
    wanted = np.zeros((500, workload.shape[0]), int)
    np.put_along_axis(wanted, leaves, 1, axis=1)
    assert np.array_equal(reduced.to_sparse().toarray().T[groups(codes)], wanted)
    assert reduced.column_abs_sums().tolist() == [3] * reduced.shape[1]
    queries = codes[:5]
    few, own = reduce_boxes(prediction_workload(forest, queries))
    visits = aggregation_workload(forest, queries).to_dense()
    found = own(codes)
    padded = np.pad(few.to_dense(), ((0, 0), (0, 1)))
    assert np.array_equal(padded[:, found], visits @ wanted.T)
    with pytest.raises(DomainTooLargeError, match="look up the codes"):
        groups.expand()


def test_nothing_is_asked():
    reduced, groups = reduce_boxes(Conjunctions([np.zeros((2, 3), bool)] * 2))
    assert not reduced.to_dense().any()
    assert groups.expand().shape == (9,)


def test_too_many_sets_of_boxes():
    forest = grow_random_forest((5,) * 6, 8, 2, seed=0)
    with (
        limits.changed(box_sets=10),
        pytest.raises(DomainTooLargeError, match="sets of boxes occur"),
    ):
        reduce_boxes(Conjunctions(forest.leaf_masks()))


@pytest.mark.parametrize("workload", [Prefix(4), Product(Total(4), Prefix(4))])
def test_only_boxes(workload):
    with pytest.raises(UnsupportedWorkloadError, match="reduce_boxes needs Conj"):
        reduce_boxes(workload)


@pytest.mark.parametrize("codes", [[0, 1], [[0.0, 1.0]], [[0, 3]], [[-1, 0]], [[0]]])
def test_wrong_codes(codes):
    _, groups = reduce_boxes(Conjunctions([np.ones((1, 2), bool)] * 2))
    assert isinstance(groups, CellGroups)
    with pytest.raises((TypeError, ValueError), match=r"codes (must|of attribute)"):
        groups(codes)
