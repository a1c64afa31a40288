"""Every error message of the engine: what is needed, what came, what to do."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from refusals import refused

import mmech
import mmech as mm
from mmech.checks import check_epsilon

SIZES = [mm.Identity, mm.Total, mm.Prefix, mm.AllRange]
ONE_MASK = [np.ones((2, 3), bool)]

WRONG_VALUE = {
    # sizes
    r"^n must be an integer >= 1, got 0$": lambda: mm.Identity(0),
    r"^m must be an integer >= 1, got -2$": lambda: mm.Ones(-2, 3),
    # arrays
    r"^array must have 2 dimensions, got shape \(3,\)$": lambda: mm.Dense([1, 2, 3]),
    r"^values must have 1 dimension, got shape \(1, 1\)$": lambda: mm.Diagonal([[1]]),
    r"^array must hold finite numbers, got NaN or infinity; remove them first$":
        lambda: mm.Dense([[math.nan]]),
    r"^values must hold finite numbers, got NaN or infinity":
        lambda: mm.Diagonal([math.inf]),
    r"^matrix must hold finite numbers, got NaN or infinity":
        lambda: mm.Sparse(sp.csr_array([[math.nan]])),
    # composition
    r"^weight must be finite, got inf$": lambda: mm.Scaled(math.inf, mm.Identity(2)),
    r"^weight must be finite, got nan$": lambda: math.nan * mm.Identity(2),
    r"^VStack needs at least one operator, got none$": lambda: mm.VStack([]),
    r"^Kronecker needs at least one operator, got none$": lambda: mm.Kronecker([]),
    r"^Product needs at least one operator, got none$": lambda: mm.Product(),
    r"^Sum needs at least one operator, got none$": lambda: mm.Sum([]),
    r"^a stack needs operators over one domain, got 2, 3 columns$":
        lambda: mm.VStack([mm.Identity(2), mm.Total(3)]),
    r"^a sum needs operators of one shape, got \(2, 2\), \(1, 2\)$":
        lambda: mm.Identity(2) + mm.Total(2),
    r"^cannot multiply Prefix\(2\) shape=\(2, 2\) with Identity\(3\) shape=\(3, 3\): "
    r"2 columns against 3 rows$": lambda: mm.Product(mm.Prefix(2), mm.Identity(3)),
    r"^cannot multiply Prefix\(2\) .* with Total\(2\) .*: 2 columns against 1 rows$":
        lambda: mm.Prefix(2) @ mm.Total(2),
    # partitions and boxes
    r"^labels must be a non-empty vector of integers, got float64 of shape \(2,\)$":
        lambda: mm.Partition([0.0, 1.0]),
    r"^labels must be a non-empty vector of integers, got .* of shape \(0,\)$":
        lambda: mm.Partition(np.array([], int)),
    r"^labels of a partition must lie in 0..1, as it has n_groups = 2, got 0..2$":
        lambda: mm.Partition([0, 2], 2),
    r"^labels of a partition must lie in 0..0, .* got -1..0$":
        lambda: mm.Partition([-1, 0]),
    r"^n_groups must be an integer >= 1, got 0$": lambda: mm.Partition([0], 0),
    r"^labels must be integers of shape \(number of partitions, number of cells\), "
    r"got int64 of shape \(2,\)$": lambda: mm.PartitionStack([0, 1], [2]),
    r"^n_groups must be 1 integers, one per partition, got int64 of shape \(2,\)$":
        lambda: mm.PartitionStack([[0, 1]], [2, 2]),
    r"^masks must hold one array per attribute, got none$": lambda: mm.Conjunctions([]),
    r"^masks must be boolean arrays of shape \(o, n_i\) with the same o, got int64":
        lambda: mm.Conjunctions([[[1, 0]]]),
    r"with the same o, got bool \(2, 3\), bool \(1, 3\)$":
        lambda: mm.Conjunctions([*ONE_MASK, np.ones((1, 3), bool)]),
    r"^masks must have two dimensions and n_i >= 1, got shapes \(3,\)$":
        lambda: mm.Conjunctions([np.ones(3, bool)]),
    r"^masks must have two dimensions and n_i >= 1, got shapes \(2, 0\)$":
        lambda: mm.Conjunctions([np.ones((2, 0), bool)]),
    # p-Identity
    r"^theta must be non-negative, got a minimum of -1; clip it or take absolute":
        lambda: mm.PIdentity([[1.0, -1.0]]),
    r"^theta must have at least one column, got shape \(p, 0\)$":
        lambda: mm.PIdentity(np.zeros((2, 0))),
    r"^theta must have 2 dimensions, got shape \(2,\)$":
        lambda: mm.PIdentity([1.0, 2.0]),
    r"^theta must hold finite numbers": lambda: mm.PIdentity([[math.inf]]),
    # products with arrays
    r"^Prefix\(3\) shape=\(3, 3\) needs an array of shape \(3,\) or \(3, k\) here, got "
    r"\(2,\)$": lambda: mm.Prefix(3) @ [1, 2],
    r"needs an array of shape \(3, k\) here, got \(3,\)$":
        lambda: mm.Prefix(3).matmat([1, 2, 3]),
    r"needs an array of shape \(1,\) or \(1, k\) here, got \(3,\)$":
        lambda: [1, 2, 3] @ mm.Total(3),
    r"^Prefix\(3\) .* here, got \(3, 1, 1\)$":
        lambda: mm.Prefix(3) @ np.ones((3, 1, 1)),
    r"^trace needs a square operator, got shape \(1, 3\)$": lambda: mm.Total(3).trace(),
    # errors
    r"^workload has 3 columns but strategy has 4; both must equal the number of "
    r"domain cells$": lambda: mm.loss(mm.Prefix(3), mm.Identity(4)),
    r"^workload has 3 columns but strategy has 2; both must equal":
        lambda: mm.per_query_error(mm.Prefix(3), mm.Identity(2), epsilon=1),
    r"^workload has 3 columns but strategy has 1; both must":
        lambda: mm.supports(mm.Prefix(3), mm.Identity(1)),
    r"^epsilon must be a finite number > 0, got -1$":
        lambda: mm.expected_error(mm.Prefix(3), mm.Identity(3), epsilon=-1),
    r"^epsilon must be a finite number > 0, got 0$":
        lambda: mm.svd_bound(mm.Prefix(3), epsilon=0),
    r"^epsilon must be a finite number > 0, got the string 'a'$":
        lambda: mm.rmse(mm.Prefix(3), mm.Identity(3), epsilon="a"),
    # budget
    r"^total must be a finite number > 0, got 0$": lambda: mm.PrivacyLedger(0),
    r"^total must be a finite number > 0, got nan$": lambda: mm.PrivacyLedger(math.nan),
    r"^total must be a finite number > 0, got -inf$":
        lambda: mm.PrivacyLedger(-math.inf),
    r"^neighbours must be one of 'add_remove', 'replace', 'labels', got 'swap'$":
        lambda: mm.PrivacyLedger(1, neighbours="swap"),
}  # fmt: skip

WRONG_KIND = {
    r"^n must be an integer >= 1, got 3\.0$": lambda: mm.Identity(3.0),
    r"^n must be an integer >= 1, got True$": lambda: mm.Identity(True),
    r"^n must be an integer >= 1, got '3'$": lambda: mm.Total("3"),
    r"^n_groups must be an integer >= 1, got 2\.0$": lambda: mm.Partition([0, 1], 2.0),
    r"^array must hold real numbers, got dtype complex128$": lambda: mm.Dense([[1j]]),
    r"^array must hold real numbers, got dtype object$": lambda: mm.Dense([[None]]),
    r"^matrix must be a scipy\.sparse array or matrix, got list; use Dense for arr":
        lambda: mm.Sparse([[1]]),
    r"^weight must be a real number, got str$": lambda: mm.Scaled("2", mm.Identity(2)),
    r"^weight must be a real number, got bool$":
        lambda: mm.Scaled(True, mm.Identity(2)),
    r"^weight must be a real number, got complex$": lambda: 1j * mm.Identity(2),
    r"^weight must be a real number, got list$": lambda: [1, 2] * mm.Identity(2),
    r"^operator must be a query matrix, .*, got list; wrap other sequences with D":
        lambda: mm.Scaled(2, [[1]]),
    r"^a part of VStack must be a query matrix, .*, got list; wrap":
        lambda: mm.VStack([[1, 2], [3, 4]]),
    r"^a part of Kronecker must be a query matrix, .*, got int":
        lambda: mm.Kronecker([2, 3]),
    r"^cannot add ndarray to a query matrix$": lambda: mm.Identity(2) + np.eye(2),
    r"^cannot add int to a query matrix$": lambda: mm.Identity(2) - 1,
    r"^query matrices multiply real numbers, got complex128$":
        lambda: mm.Identity(2) @ [1j, 2],
    r"^query matrices multiply real numbers, got <U1$": lambda: mm.Identity(1) @ ["a"],
    r"^Prefix is implicit; call \.to_dense\(\)$": lambda: np.asarray(mm.Prefix(2)),
    r"^multiply by Sparse\(matrix\) for an operator, or by matrix\.toarray\(\) for":
        lambda: mm.Prefix(2) @ sp.eye_array(2),
    r"^epsilon must be a finite number > 0, got None; there is no default$":
        lambda: mmech.rho_from_epsilon_delta(None, 1e-6),
    r"^epsilon must be a finite number > 0, got 1j$":
        lambda: mm.expected_error(mm.Prefix(2), mm.Identity(2), epsilon=1j),
    r"^total must be a finite number > 0, got \[1\]$": lambda: mm.PrivacyLedger([1]),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG_VALUE)
def test_wrong_value(message):
    refused(WRONG_VALUE[message], message, ValueError)


@pytest.mark.parametrize("message", WRONG_KIND)
def test_wrong_kind(message):
    refused(WRONG_KIND[message], message, TypeError)


def test_nested_weights_are_checked_like_single_ones():
    for weight in ("a", None, True):
        with pytest.raises(TypeError, match="weight must be a real number"):
            weight * (2 * mm.Identity(2))


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        (2, Fraction(2)),
        (np.int64(2), Fraction(2)),
        (np.float64(0.25), Fraction(1, 4)),
        (Fraction(1, 7), Fraction(1, 7)),
        ("1e-3", Fraction(1, 1000)),
        (5e-324, Fraction(5, 10**324)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
    ],
    ids=repr,
)
def test_epsilon_is_the_decimal_number_it_prints_as(value, exact):
    assert check_epsilon(value) == exact


def test_long_values_are_not_printed():
    with pytest.raises(TypeError, match="got list object"):
        mm.Identity(list(range(1000)))


def test_classes_of_errors_and_warnings():
    assert issubclass(mmech.UnsupportedWorkloadError, ValueError)
    assert issubclass(mmech.DomainTooLargeError, ValueError)
    assert issubclass(mmech.BudgetExceededError, RuntimeError)
    for warning in (
        mmech.ConvergenceWarning,
        mmech.PerformanceWarning,
        mmech.PrivacyLeakWarning,
    ):
        assert issubclass(warning, UserWarning)
