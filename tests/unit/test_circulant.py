"""Circulant matrices: exact sums, rank, errors, and what is measured with them."""

import numpy as np
import pytest
from scipy.linalg import circulant

from mmech import Circulant, Identity, Prefix, VStack, loss
from mmech.integer_strategy import integer_strategy
from mmech.structure.exact import column_sums
from mmech.structure.shape import has_full_column_rank, rank

COLUMN = [2, -1, 0, 5, 0]


@pytest.mark.parametrize("column", [[], [[1, 2]], [np.nan], ["a"]], ids=str)
def test_columns_that_are_refused(column):
    with pytest.raises((TypeError, ValueError), match="column"):
        Circulant(column)


@pytest.mark.parametrize(
    ("column", "expected"),
    [(COLUMN, 5), ([1, -1, 0, 0], 3), ([1, 1, 0, 0], 3), ([1, 1, 1], 1), ([0], 0)],
)
def test_rank(column, expected):
    operator = Circulant(column)
    assert rank(operator) == expected == np.linalg.matrix_rank(circulant(column))
    assert has_full_column_rank(operator) == (expected == len(column))


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("weights", [3, np.arange(1, 6)], ids=["one", "each"])
def test_column_sums_are_exact(power, weights):
    each = np.broadcast_to(weights, 5)
    expected = each @ np.abs(circulant(COLUMN)) ** power
    sums = column_sums(Circulant(COLUMN), power, weights)
    assert np.array_equal(np.broadcast_to(sums, 5), expected)


def test_column_sums_beyond_64_bits():
    assert column_sums(Circulant([2**40, 1]), 2) == 2**80 + 1


def test_integers_are_multiplied_exactly():
    large = 2**53 + 1
    assert (Circulant([1, 0, 2]) @ [large, 0, 0]).tolist() == [large, 0, 2 * large]


def test_grams_that_would_wrap_around_stay_products():
    operator = Circulant([2**40, 1, 0])
    exact = (2.0**40) ** 2 + 1
    np.testing.assert_allclose(operator.gram().diag(), exact)


def test_losses_are_those_of_the_matrix():
    operator = Circulant([1, 0.5, 0, 0, 0.5])
    explicit = VStack([operator])
    assert loss(Prefix(5), operator) == pytest.approx(loss(Prefix(5), explicit))
    inverse = np.linalg.inv(circulant([1, 0.5, 0, 0, 0.5]))
    assert loss(Identity(5), operator) == pytest.approx(4 * np.square(inverse).sum())


def test_integers_are_measured_as_they_are():
    exact = integer_strategy(Circulant(COLUMN))
    assert exact.blocks[0].matrix.to_dense().tolist() == circulant(COLUMN).tolist()
    assert exact.sensitivity == 8
