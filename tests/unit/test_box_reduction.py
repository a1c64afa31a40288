"""Lossless reduction of boxes over domains too large to list."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
from hypothesis import given
from hypothesis.extra import numpy as hnp

import mmech as mm
import mmech_rf as rf


@st.composite
def boxes(draw):
    rows = draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    return [draw(hnp.arrays(np.bool_, (rows, size))) for size in sizes]


def every_cell(sizes):
    return np.array(list(itertools.product(*map(range, sizes))))


@given(boxes(), st.booleans(), st.sampled_from([1, -3]))
def test_boxes_are_merged_like_columns(masks, with_left, weight):
    workload = mm.Conjunctions(masks)
    dense = ref.conjunctions(masks)
    if with_left:
        left = np.resize([1, 0, 2, 1, 0], (2, len(dense)))
        workload, dense = mm.Product(mm.Dense(left), workload), left @ dense
    if weight != 1:
        workload, dense = mm.Scaled(weight, workload), weight * dense
    reduced, groups = mm.reduce_boxes(workload)
    found = groups(every_cell(groups.domain_shape))
    padded = np.pad(reduced.to_dense(), ((0, 0), (0, 1)))
    np.testing.assert_array_equal(padded[:, found], dense)
    np.testing.assert_array_equal(groups.expand(), found)
    if dense.any():
        distinct = {tuple(column) for column in dense.T.tolist() if any(column)}
        assert reduced.shape[1] == len(distinct)
        assert ((found < 0) == (dense == 0).all(axis=0)).all()


def test_reduce_domain_does_not_visit_many_cells():
    forest = rf.grow_random_forest((4, 3, 5, 2), 2, 1, seed=1)
    workload = mm.Conjunctions(forest.leaf_masks())
    wanted, by_cell = mm.reduce_domain(workload)
    with mm.limits.changed(visited_cells=20):
        reduced, groups = mm.reduce_domain(workload)
    assert np.array_equal(groups, by_cell)
    assert np.array_equal(reduced.to_dense(), wanted.to_dense())


def test_a_forest_over_a_domain_that_cannot_be_listed(rng):
    sizes = (3,) * 70
    forest = rf.grow_random_forest(sizes, 3, 2, seed=0)
    workload = rf.training_workload(forest)
    assert isinstance(workload, mm.Conjunctions)
    reduced, groups = mm.reduce_boxes(workload)
    codes = rng.integers(0, 3, (500, 70))
    leaves = forest.apply(codes) + forest.leaf_offsets[:-1]
    wanted = np.zeros((500, workload.shape[0]), int)
    np.put_along_axis(wanted, leaves, 1, axis=1)
    assert np.array_equal(reduced.to_sparse().toarray().T[groups(codes)], wanted)
    assert reduced.column_abs_sums().tolist() == [3] * reduced.shape[1]
    queries = codes[:5]
    few, own = mm.reduce_boxes(rf.prediction_workload(forest, queries))
    visits = rf.aggregation_workload(forest, queries).to_dense()
    found = own(codes)
    padded = np.pad(few.to_dense(), ((0, 0), (0, 1)))
    assert np.array_equal(padded[:, found], visits @ wanted.T)
    with pytest.raises(mm.DomainTooLargeError, match="look up the codes"):
        groups.expand()


def test_nothing_is_asked():
    reduced, groups = mm.reduce_boxes(mm.Conjunctions([np.zeros((2, 3), bool)] * 2))
    assert not reduced.to_dense().any()
    assert groups.expand().shape == (9,)


def test_too_many_sets_of_boxes():
    forest = rf.grow_random_forest((5,) * 6, 8, 2, seed=0)
    with (
        mm.limits.changed(box_sets=10),
        pytest.raises(mm.DomainTooLargeError, match="sets of boxes occur"),
    ):
        mm.reduce_boxes(mm.Conjunctions(forest.leaf_masks()))


@pytest.mark.parametrize(
    "workload", [mm.Prefix(4), mm.Product(mm.Total(4), mm.Prefix(4))]
)
def test_only_boxes(workload):
    with pytest.raises(mm.UnsupportedWorkloadError, match="reduce_boxes needs Conj"):
        mm.reduce_boxes(workload)


@pytest.mark.parametrize("codes", [[0, 1], [[0.0, 1.0]], [[0, 3]], [[-1, 0]], [[0]]])
def test_wrong_codes(codes):
    _, groups = mm.reduce_boxes(mm.Conjunctions([np.ones((1, 2), bool)] * 2))
    assert isinstance(groups, mm.CellGroups)
    with pytest.raises((TypeError, ValueError), match=r"codes (must|of attribute)"):
        groups(codes)
