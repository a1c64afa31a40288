"""Guards of the exact release path: each refuses in words, and nothing is charged."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from replay import with_noise

import mmech as mm
from mmech.integer_strategy import IntegerBlock, integer_strategy
from mmech.release import in_64_bits
from mmech.structure.exact import column_sums


class Times(mm.QueryMatrix):
    """A square operator that multiplies by a number, and says nothing of its dtype."""

    def __init__(self, factor, n=3):
        self.factor = factor
        self.n = n

    shape = property(lambda self: (self.n, self.n))

    def _matmat(self, x):
        return self.factor * x

    _rmatmat = _matmat


class Whole(Times):
    dtype = np.dtype(np.int64)


class Truncating(Whole):
    """What hides fractions from products with integers."""

    def _matmat(self, x):
        return (self.factor * x).astype(x.dtype)

    _rmatmat = _matmat


class Subclass(mm.Identity):
    """An operator of mmech with products of its own."""

    def _matmat(self, x):
        return 7 * x

    _rmatmat = _matmat


# ------------------------------------------------------------ operators of users


def test_entries_are_real_unless_the_class_says_otherwise():
    assert Times(1.9).dtype == np.float64
    assert (Times(2) @ [1, 2, 3]).dtype == np.float64
    assert Whole(2).dtype == np.int64
    assert (Whole(2) @ [1, 2, 3]).tolist() == [2, 4, 6]


@pytest.mark.parametrize(("budget", "power"), [({"epsilon": 1}, 1), ({"rho": 1}, 2)])
def test_fractional_entries_are_rounded_before_they_are_measured(budget, power):
    released = mm.MatrixMechanism(mm.Identity(3), Times(1.9), **budget)
    values = released.measure([3, 0, 5]).values
    assert values.dtype == np.int64
    (block,) = released.released.blocks
    assert block.matrix.dtype == np.int64
    assert released.released.sensitivity == block.matrix.to_dense().max() ** power


@pytest.mark.parametrize("kind", [Whole, Truncating])
@pytest.mark.parametrize(
    "compose",
    [
        lambda a: a,
        lambda a: mm.VStack([a, mm.Identity(3)]),
        lambda a: mm.Kronecker([a, mm.Identity(1)]),
        lambda a: 3 * a,
        lambda a: mm.Product(mm.Prefix(3), a),
        lambda a: a + mm.Identity(3),
    ],
    ids=["itself", "stack", "kronecker", "multiple", "product", "sum"],
)
def test_fractional_entries_that_claim_to_be_integers_are_refused(kind, compose):
    strategy = compose(kind(1.9))
    for norm in ("L1", "L2"):
        with pytest.raises(ValueError, match="has dtype int64 but its entries are not"):
            integer_strategy(strategy, norm=norm)
    with pytest.raises(ValueError, match=r"entries are not|some query is not a comb"):
        mm.MatrixMechanism(mm.Identity(3), strategy, epsilon=1)


@pytest.mark.parametrize("factor", [7, 7.0])
def test_integer_operators_of_users_are_measured_by_their_entries(factor):
    for strategy in (Whole(factor), mm.Kronecker([Whole(factor), mm.Identity(1)])):
        released = integer_strategy(strategy)
        assert released.sensitivity == 7
        (block,) = released.blocks
        assert (block.matrix.to_dense() == 7 * np.eye(3)).all()


def test_products_of_a_derived_class_are_not_taken_for_those_of_its_base():
    assert integer_strategy(Subclass(3)).sensitivity == 7
    assert integer_strategy(mm.Product(mm.Prefix(3), Subclass(3))).sensitivity == 21


def test_integer_operators_too_large_to_list_are_refused():
    with pytest.raises(
        mm.DomainTooLargeError, match="too many to check that all are int"
    ):
        integer_strategy(Whole(2, n=2**14))
    with pytest.raises(TypeError, match="must be an integer matrix of mmech"):
        IntegerBlock(Whole(2))
    with pytest.raises(TypeError, match="are not known to be integers"):
        column_sums(Whole(2))


# ------------------------------------------------------------ guards


def test_column_sums_that_are_too_large_and_too_many():
    diagonal = sp.diags_array(np.full(4, 2**40), dtype=np.int64)
    refused = pytest.raises(ValueError, match="do not fit into 64-bit integers; scale")
    with mm.limits.changed(wide_sums=3), refused:
        column_sums(mm.Sparse(diagonal), 2)


@pytest.mark.parametrize("entry", [2**40, -(2**40)])
@pytest.mark.parametrize("kind", ["counts", "records"])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_exact_answers_that_overflow_are_paid_for(entry, kind, currency):
    strategy = mm.Dense([[entry, 0], [0, 1]])
    ledger = mm.PrivacyLedger(1, currency=currency)
    price = {currency: 1}
    mechanism = mm.MatrixMechanism(strategy, strategy, ledger=ledger, **price)
    counts = [2**22, 0]
    if kind == "records":
        counts = mm.Counts(np.zeros((2**22, 1), np.int8), (2,))
    with pytest.raises(ValueError, match="sums of so many records overflow 64-bit"):
        mechanism.measure(counts)
    # The refusal tells about the counts: for free, it could be asked for again.
    assert ledger.spent == 1


@pytest.mark.parametrize("value", [2**62 + 1, -(2**62) - 1, 2.0**54, -(2.0**54)])
def test_values_too_large_are_refused_on_both_sides(value):
    with pytest.raises(ValueError, match=r"must be below .* is spent"):
        in_64_bits(np.array([0, value]))


def test_large_answers_that_fit_are_exact():
    strategy = mm.Dense([[2**40, 0], [0, 1]])
    mechanism = mm.MatrixMechanism(strategy, strategy, epsilon=2**30)
    answer = int(mechanism.measure([2**21 + 1, 0]).values[0])
    assert abs(answer - 2**61 - 2**40) < 2**20


@pytest.mark.parametrize("product", ["matvec", "rmatvec", "matmat", "rmatmat"])
def test_public_products_do_not_wrap_around(product):
    operator = mm.Prefix(4)
    large = np.full((4, 1), 2**62)
    large = large[:, 0] if product.endswith("vec") else large
    with pytest.raises(ValueError, match="does not fit into 64-bit integers; pass fl"):
        getattr(operator, product)(large)
    close = getattr(operator, product)(large.astype(float))
    assert close.max() == 2.0**64
    with pytest.raises(ValueError, match=r"integers must be below 2\*\*63, got 1844"):
        mm.Identity(1) @ np.array([2**64 - 1], np.uint64)
    # Bounds that are far off refuse nothing that fits.
    difference = mm.Product(mm.Dense([[2**40, -(2**40)]]), mm.Dense([[2**20], [2**20]]))
    assert (difference @ [2**10]).tolist() == [0]


# ------------------------------------------------------------ squared sensitivities


@pytest.fixture
def variances(watch_all):
    drawn = []

    def law(variance, shape):
        drawn.append(variance)
        return np.zeros(shape, np.int64)

    watch_all(with_noise(law))
    return drawn


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_the_variance_is_the_exact_square(variances, neighbours):
    doubled = 4 if neighbours == "replace" else 1
    settings = {"rho": "1/2", "released": "x", "neighbours": neighbours}
    for squared in (3, Fraction(1, 3), 0.1, 4176 * 2**12, 10**20):
        mm.noisy_release([1], squared_sensitivity=squared, **settings)
        assert variances.pop() == doubled * Fraction(squared)
    for norm in (3, Fraction(1, 3), 0.1, math.sqrt(4176), math.sqrt(3), 1e-9):
        mm.noisy_release([1], sensitivity=norm, **settings)
        assert variances.pop() == doubled * Fraction(norm) ** 2
