"""Public views: partitions of the domain that follow from sizes alone."""

import numpy as np
import pytest

from mmech_rf.drawn.views import (
    GRID,
    MOST_CELLS,
    MOST_SUMS,
    WHOLE_PRIOR,
    positions,
    public_views,
    single_view,
)

SHAPES = [(2, 3), (5, 5, 5, 5), (4, 4, 4, 3, 3, 3), (64, 8, 100, 1), (2,) * 20]


def all_codes(shape):
    codes = np.indices(shape).reshape(len(shape), -1).T
    return codes if len(codes) <= 50_000 else codes[::997]


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_every_view_is_a_partition(shape):
    codes = all_codes(shape)
    views = public_views(shape)
    cells = views.cells(codes)
    assert cells.shape == (len(views.items), len(codes))
    for view, row, size in zip(views.items, cells, views.sizes, strict=True):
        assert row.max() < view.size == size <= MOST_CELLS
        np.testing.assert_array_equal(row, view.cells(codes))
        if len(codes) == np.prod(shape):
            assert set(row) == set(range(view.size))
    assert len(set(views.items)) == len(views.items)


@pytest.mark.parametrize("shape", SHAPES)
def test_families_are_as_likely_as_each_other(shape):
    views = public_views(shape)
    prior = np.exp(views.log_prior)
    assert prior.sum() == pytest.approx(1)
    families = [view.family for view in views.items]
    assert prior[families.index("whole")] == pytest.approx(WHOLE_PRIOR)
    kinds = set(families) - {"whole"}
    shares = [prior[[f == g for g in families]].sum() for f in kinds]
    np.testing.assert_allclose(shares, (1 - WHOLE_PRIOR) / len(kinds))


def test_sums_follow_positions():
    view = public_views((5, 5, 5, 5)).items[-1]
    assert view.attributes == (0, 1, 2, 3)
    codes = all_codes((5, 5, 5, 5))
    signs = [np.sign(table[-1]) for table in view.tables]
    total = ((codes - 2) / 2 * GRID) @ signs
    expected = np.searchsorted(view.cuts, total, side="right")
    np.testing.assert_array_equal(view.cells(codes), expected)
    # About equal parts of evenly spread records; the ties of one value stay together.
    parts = np.bincount(expected) / len(codes)
    assert parts.max() < 0.35


@pytest.mark.parametrize(("size", "groups"), [(1, 4), (5, 8), (5, 5), (7, 3), (300, 8)])
def test_single_views_are_runs_of_neighbouring_cells(size, groups):
    view = single_view(2, size, groups)
    assert (view.attributes, view.size, view.family) == (
        (2,),
        min(size, groups),
        "single",
    )
    codes = np.zeros((size, 3), int)
    codes[:, 2] = np.arange(size)
    cells = view.cells(codes).astype(int)
    assert set(np.diff(cells)) <= {0, 1}
    counts = np.bincount(cells, minlength=view.size)
    assert counts.size == view.size
    assert counts.max() - counts.min() <= 1


def test_positions_are_spread_from_end_to_end():
    for n in (2, 3, 10, MOST_CELLS):
        found = positions(n)
        assert (found[0], found[-1]) == (-GRID, GRID)
        np.testing.assert_array_equal(found, -found[::-1])
        np.testing.assert_allclose(found / GRID, np.linspace(-1, 1, n), atol=0.5 / GRID)


def test_wide_domains_have_no_more_sums_than_is_affordable():
    for shape in ((2,) * 20, (3,) * 60, (10,) * 123):
        families = [view.family for view in public_views(shape).items]
        assert families.count("sum") <= MOST_SUMS
        assert families.count("single") >= len(shape)
