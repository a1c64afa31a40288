"""Every error message of the engine: what is needed, what came, what to do."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from refusals import refused

import mmech
from mmech import (
    AllRange,
    Conjunctions,
    Dense,
    Diagonal,
    Identity,
    Kronecker,
    Ones,
    Partition,
    PartitionStack,
    PIdentity,
    Prefix,
    PrivacyLedger,
    Product,
    Scaled,
    Sparse,
    Sum,
    Total,
    VStack,
    expected_error,
    loss,
    per_query_error,
    rmse,
    supports,
    svd_bound,
)
from mmech.checks import check_epsilon

SIZES = [Identity, Total, Prefix, AllRange]
ONE_MASK = [np.ones((2, 3), bool)]

WRONG_VALUE = {
    # sizes
    r"^n must be an integer >= 1, got 0$": lambda: Identity(0),
    r"^m must be an integer >= 1, got -2$": lambda: Ones(-2, 3),
    # arrays
    r"^array must have 2 dimensions, got shape \(3,\)$": lambda: Dense([1, 2, 3]),
    r"^values must have 1 dimension, got shape \(1, 1\)$": lambda: Diagonal([[1]]),
    r"^array must hold finite numbers, got NaN or infinity; remove them first$":
        lambda: Dense([[math.nan]]),
    r"^values must hold finite numbers, got NaN or infinity":
        lambda: Diagonal([math.inf]),
    r"^matrix must hold finite numbers, got NaN or infinity":
        lambda: Sparse(sp.csr_array([[math.nan]])),
    # composition
    r"^weight must be finite, got inf$": lambda: Scaled(math.inf, Identity(2)),
    r"^weight must be finite, got nan$": lambda: math.nan * Identity(2),
    r"^VStack needs at least one operator, got none$": lambda: VStack([]),
    r"^Kronecker needs at least one operator, got none$": lambda: Kronecker([]),
    r"^Product needs at least one operator, got none$": lambda: Product(),
    r"^Sum needs at least one operator, got none$": lambda: Sum([]),
    r"^a stack needs operators over one domain, got 2, 3 columns$":
        lambda: VStack([Identity(2), Total(3)]),
    r"^a sum needs operators of one shape, got \(2, 2\), \(1, 2\)$":
        lambda: Identity(2) + Total(2),
    r"^cannot multiply Prefix\(2\) shape=\(2, 2\) with Identity\(3\) shape=\(3, 3\): "
    r"2 columns against 3 rows$": lambda: Product(Prefix(2), Identity(3)),
    r"^cannot multiply Prefix\(2\) .* with Total\(2\) .*: 2 columns against 1 rows$":
        lambda: Prefix(2) @ Total(2),
    # partitions and boxes
    r"^labels must be a non-empty vector of integers, got float64 of shape \(2,\)$":
        lambda: Partition([0.0, 1.0]),
    r"^labels must be a non-empty vector of integers, got .* of shape \(0,\)$":
        lambda: Partition(np.array([], int)),
    r"^labels of a partition must lie in 0..1, as it has n_groups = 2, got 0..2$":
        lambda: Partition([0, 2], 2),
    r"^labels of a partition must lie in 0..0, .* got -1..0$":
        lambda: Partition([-1, 0]),
    r"^n_groups must be an integer >= 1, got 0$": lambda: Partition([0], 0),
    r"^labels must be integers of shape \(number of partitions, number of cells\), "
    r"got int64 of shape \(2,\)$": lambda: PartitionStack([0, 1], [2]),
    r"^n_groups must be 1 integers, one per partition, got int64 of shape \(2,\)$":
        lambda: PartitionStack([[0, 1]], [2, 2]),
    r"^masks must hold one array per attribute, got none$": lambda: Conjunctions([]),
    r"^masks must be boolean arrays of shape \(o, n_i\) with the same o, got int64":
        lambda: Conjunctions([[[1, 0]]]),
    r"with the same o, got bool \(2, 3\), bool \(1, 3\)$":
        lambda: Conjunctions([*ONE_MASK, np.ones((1, 3), bool)]),
    r"^masks must have two dimensions and n_i >= 1, got shapes \(3,\)$":
        lambda: Conjunctions([np.ones(3, bool)]),
    r"^masks must have two dimensions and n_i >= 1, got shapes \(2, 0\)$":
        lambda: Conjunctions([np.ones((2, 0), bool)]),
    # p-Identity
    r"^theta must be non-negative, got a minimum of -1; clip it or take absolute":
        lambda: PIdentity([[1.0, -1.0]]),
    r"^theta must have at least one column, got shape \(p, 0\)$":
        lambda: PIdentity(np.zeros((2, 0))),
    r"^theta must have 2 dimensions, got shape \(2,\)$": lambda: PIdentity([1.0, 2.0]),
    r"^theta must hold finite numbers": lambda: PIdentity([[math.inf]]),
    # products with arrays
    r"^Prefix\(3\) shape=\(3, 3\) needs an array of shape \(3,\) or \(3, k\) here, got "
    r"\(2,\)$": lambda: Prefix(3) @ [1, 2],
    r"needs an array of shape \(3, k\) here, got \(3,\)$":
        lambda: Prefix(3).matmat([1, 2, 3]),
    r"needs an array of shape \(1,\) or \(1, k\) here, got \(3,\)$":
        lambda: [1, 2, 3] @ Total(3),
    r"^Prefix\(3\) .* here, got \(3, 1, 1\)$": lambda: Prefix(3) @ np.ones((3, 1, 1)),
    r"^trace needs a square operator, got shape \(1, 3\)$": lambda: Total(3).trace(),
    # errors
    r"^workload has 3 columns but strategy has 4; both must equal the number of "
    r"domain cells$": lambda: loss(Prefix(3), Identity(4)),
    r"^workload has 3 columns but strategy has 2; both must equal":
        lambda: per_query_error(Prefix(3), Identity(2), epsilon=1),
    r"^workload has 3 columns but strategy has 1; both must":
        lambda: supports(Prefix(3), Identity(1)),
    r"^epsilon must be a finite number > 0, got -1$":
        lambda: expected_error(Prefix(3), Identity(3), epsilon=-1),
    r"^epsilon must be a finite number > 0, got 0$":
        lambda: svd_bound(Prefix(3), epsilon=0),
    r"^epsilon must be a finite number > 0, got the string 'a'$":
        lambda: rmse(Prefix(3), Identity(3), epsilon="a"),
    # budget
    r"^total must be a finite number > 0, got 0$": lambda: PrivacyLedger(0),
    r"^total must be a finite number > 0, got nan$": lambda: PrivacyLedger(math.nan),
    r"^total must be a finite number > 0, got -inf$":
        lambda: PrivacyLedger(-math.inf),
    r"^neighbours must be one of 'add_remove', 'replace', 'labels', got 'swap'$":
        lambda: PrivacyLedger(1, neighbours="swap"),
}  # fmt: skip

WRONG_KIND = {
    r"^n must be an integer >= 1, got 3\.0$": lambda: Identity(3.0),
    r"^n must be an integer >= 1, got True$": lambda: Identity(True),
    r"^n must be an integer >= 1, got '3'$": lambda: Total("3"),
    r"^n_groups must be an integer >= 1, got 2\.0$": lambda: Partition([0, 1], 2.0),
    r"^array must hold real numbers, got dtype complex128$": lambda: Dense([[1j]]),
    r"^array must hold real numbers, got dtype object$": lambda: Dense([[None]]),
    r"^matrix must be a scipy\.sparse array or matrix, got list; use Dense for arr":
        lambda: Sparse([[1]]),
    r"^weight must be a real number, got str$": lambda: Scaled("2", Identity(2)),
    r"^weight must be a real number, got bool$": lambda: Scaled(True, Identity(2)),
    r"^weight must be a real number, got complex$": lambda: 1j * Identity(2),
    r"^weight must be a real number, got list$": lambda: [1, 2] * Identity(2),
    r"^operator must be a query matrix, .*, got list; wrap other sequences with D":
        lambda: Scaled(2, [[1]]),
    r"^a part of VStack must be a query matrix, .*, got list; wrap":
        lambda: VStack([[1, 2], [3, 4]]),
    r"^a part of Kronecker must be a query matrix, .*, got int":
        lambda: Kronecker([2, 3]),
    r"^cannot add ndarray to a query matrix$": lambda: Identity(2) + np.eye(2),
    r"^cannot add int to a query matrix$": lambda: Identity(2) - 1,
    r"^query matrices multiply real numbers, got complex128$":
        lambda: Identity(2) @ [1j, 2],
    r"^query matrices multiply real numbers, got <U1$": lambda: Identity(1) @ ["a"],
    r"^Prefix is implicit; call \.to_dense\(\)$": lambda: np.asarray(Prefix(2)),
    r"^multiply by Sparse\(matrix\) for an operator, or by matrix\.toarray\(\) for":
        lambda: Prefix(2) @ sp.eye_array(2),
    r"^epsilon must be a finite number > 0, got None; there is no default$":
        lambda: mmech.rho_from_epsilon_delta(None, 1e-6),
    r"^epsilon must be a finite number > 0, got 1j$":
        lambda: expected_error(Prefix(2), Identity(2), epsilon=1j),
    r"^total must be a finite number > 0, got \[1\]$": lambda: PrivacyLedger([1]),
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
            weight * (2 * Identity(2))


def test_epsilon_keyword_only_without_default():
    for function in (expected_error, rmse, per_query_error):
        with pytest.raises(TypeError, match="epsilon"):
            function(Prefix(2), Identity(2))
        with pytest.raises(TypeError, match="positional"):
            function(Prefix(2), Identity(2), 1.0)


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
        Identity(list(range(1000)))


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


def test_every_public_name_exists_and_is_documented():
    for name in mmech.__all__:
        assert getattr(mmech, name).__doc__
