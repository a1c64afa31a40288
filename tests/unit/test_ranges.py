"""Ranges, suffixes, relabelled domains and operators side by side."""

import hypothesis.strategies as st
import numpy as np
import pytest
import reference as ref
from hypothesis import given

import mmech as mm
from mmech.testing import assert_query_matrix


@st.composite
def listed_ranges(draw):
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    ends = [
        st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).map(sorted)
        for n in sizes
    ]
    boxes = draw(st.lists(st.tuples(*ends), min_size=1, max_size=6))
    lower = [[low for low, _ in box] for box in boxes]
    upper = [[high for _, high in box] for box in boxes]
    return tuple(sizes), lower, upper


@given(listed_ranges())
def test_listed_ranges(problem):
    assert_query_matrix(mm.Ranges(*problem), ref.ranges(*problem))


@pytest.mark.parametrize(
    ("n", "width"), [(n, w) for n in range(1, 7) for w in range(1, n + 1)]
)
def test_ranges_of_every_width(n, width):
    assert_query_matrix(mm.WidthRange(n, width), ref.width_range(n, width))


def test_counts_of_a_large_window_stay_exact():
    counts = np.full(50_000, 2**40)
    windows = mm.WidthRange(50_000, 20_000)
    assert (windows @ counts == 20_000 * 2**40).all()
    assert windows.sensitivity() == windows.column_abs_sums().max() == 20_000
    # A row of the gram counts the ranges that hold two cells: a triangle.
    middle = np.zeros(50_000)
    middle[25_000] = 1
    row = windows.gram() @ middle
    distance = np.abs(np.arange(50_000) - 25_000)
    assert np.array_equal(row, np.maximum(20_000 - distance, 0))


def test_ranges_of_a_huge_domain():
    sizes = (10**6,) * 6
    middle = [[0] * 6, [10**5] * 6, [5 * 10**5] * 6]
    ranges = mm.Ranges(sizes, middle, np.array(middle) + 450_000)
    assert ranges.shape == (3, 10**36)
    assert ranges.row_abs_sums() == pytest.approx([450_001.0**6] * 3)
    with pytest.raises(
        mm.DomainTooLargeError, match=r"about 10\^36 cells does not fit"
    ):
        ranges.rmatvec(np.ones(3))


def test_no_ranges():
    empty = mm.Ranges((3, 2), np.zeros((0, 2), int), np.zeros((0, 2), int))
    assert empty.sensitivity() == 0
    assert (empty @ np.ones(6)).shape == (0,)
    assert (empty.rmatvec(np.ones(0)) == 0).all()


def test_ranges_of_one_attribute_need_no_brackets():
    lower, upper = [0, 5], [3, 9]
    wanted = mm.Ranges((20,), np.reshape(lower, (2, 1)), np.reshape(upper, (2, 1)))
    for own in (mm.Ranges(20, lower, upper), mm.Ranges((20,), lower, upper)):
        assert (own.domain_shape, own.shape) == (wanted.domain_shape, wanted.shape)
        np.testing.assert_array_equal(own.to_dense(), wanted.to_dense())
