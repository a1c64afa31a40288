"""Circulant and Toeplitz matrices: exact sums, rank, errors, what is measured."""

import numpy as np
import pytest
from scipy.linalg import circulant

from mmech import Circulant, Prefix, Toeplitz, loss
from mmech.operators.known import has_full_column_rank
from mmech.strategies.ordered import asks_in_order, find_order
from mmech.strategies.pidentity import PIdentityObjective
from mmech.structure.exact import column_sums
from mmech.structure.shape import rank

COLUMN = [2, -1, 0, 5, 0]


@pytest.mark.parametrize(
    ("column", "expected"),
    [(COLUMN, 5), ([1, -1, 0, 0], 3), ([1, 1, 0, 0], 3), ([1, 1, 1], 1), ([0], 0)],
)
def test_rank(column, expected):
    operator = Circulant(column)
    assert rank(operator) == expected == np.linalg.matrix_rank(circulant(column))
    assert has_full_column_rank(operator) == (expected == len(column))


def test_column_sums_beyond_64_bits():
    assert column_sums(Circulant([2**40, 1]), 2) == 2**80 + 1
    sums = column_sums(Toeplitz([2**40, 1], [2**40, 0]), 2)
    assert sums.tolist() == [2**80 + 1, 2**80]


def test_grams_that_would_wrap_around_stay_products():
    operator = Circulant([2**40, 1, 0])
    exact = (2.0**40) ** 2 + 1
    np.testing.assert_allclose(operator.gram().diag(), exact)


# ---- Toeplitz ----------------------------------------------------------------


def test_small_columns_beside_large_ones_keep_their_sums():
    operator = Toeplitz([1.0, 1e-20, 1e-20], [1.0, 1e20, 0.0])
    assert operator.column_abs_sums()[0] == 1.0
    falling = Toeplitz([1e-20, 1e-20], [1e-20, 1e-20, 1e20])
    assert falling.column_abs_sums().tolist() == [2e-20, 2e-20, 1e20]


def test_triangular_filters_are_inverted():
    roots = np.cumprod([1.0, *[(2 * k - 1) / (2 * k) for k in range(1, 300)]])
    lower = Toeplitz(roots, np.eye(1, 300)[0])  # lower² sums prefixes
    assert has_full_column_rank(lower)
    twice, sums = (lower @ lower).to_dense(), Prefix(300).to_dense()
    np.testing.assert_allclose(twice, sums, atol=1e-12)
    assert isinstance(lower.T.pinv(), Toeplitz)
    back = lower.pinv() @ (lower @ np.arange(300.0))
    np.testing.assert_allclose(back, np.arange(300.0), atol=1e-9)
    # The sums are the filter of its own answers.
    squares = float(np.square(lower.to_dense()).sum())
    assert loss(Prefix(300), lower) == pytest.approx(roots.sum() ** 2 * squares)


def test_unstable_inverses_are_left_to_the_general_form():
    steep = Toeplitz([1.0, -4.0, *[0.0] * 30], np.eye(1, 32)[0])
    assert not has_full_column_rank(steep)
    assert not has_full_column_rank(Toeplitz([0, 1], [0, 0]))
    assert not has_full_column_rank(Toeplitz([1, 2, 3], [1, 0]))


def test_sparse_forms_hold_no_rounding_errors():
    band = Toeplitz([0.5, 0.25, *[0.0] * 98], np.eye(1, 60)[0] / 2)
    assert band.to_sparse().nnz == 60 + 60
    assert Circulant([0.5, 0.25, *[0.0] * 97]).to_sparse().nnz == 2 * 99
    assert Toeplitz([0, 0], [0, 0, 0]).to_sparse().shape == (2, 3)


@pytest.mark.parametrize(
    ("taps", "is_smooth"),
    [
        ((np.arange(60) < 20) * 1, True),  # windows
        (0.5 ** (np.arange(60) / 9), True),
        ((np.arange(60) % 5 == 0) * 1, False),  # a comb
        ((-1.0) ** np.arange(60), False),
    ],
)
def test_smooth_filters_have_an_order(taps, is_smooth):
    below = Toeplitz(taps, taps[0] * np.eye(1, 60)[0])
    for filters in (Circulant(taps), below, below.T):
        assert asks_in_order(filters.gram()) == is_smooth


def test_weights_of_blocks_serve_all_windows_of_a_circle():
    """Blocks of two cells have the loss of their weights, on a circle too."""
    rng = np.random.default_rng(0)
    gram = Circulant((np.arange(256) < 90) * 1).gram()
    blocks, cells = find_order(gram).levels(64)
    columns = rng.random((128, 64))
    losses = [
        PIdentityObjective(level.gram, level.diagonal, "L1", level.counts)(theta)[0]
        for level, theta in ((blocks, columns), (cells, columns.repeat(2, axis=0)))
    ]
    assert losses[0] == pytest.approx(losses[1])
