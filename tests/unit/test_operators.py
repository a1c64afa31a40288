"""Every operator of the catalogue obeys the protocol; repr, structure and size."""

import copy
import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import reference as ref
import scipy.sparse as sp
from catalogue import CATALOGUE, SIGNED, THETA, of_all

import mmech
import mmech as mm
from mmech.operators.basic import SeparableGram
from mmech.operators.compose import Gram, Transpose
from mmech.operators.pinv import Pinv
from mmech.testing import assert_query_matrix

every_operator = of_all(CATALOGUE)
some_operators = of_all([*CATALOGUE][::3])


# ------------------------------------------------------------------ conformance


@every_operator
def test_conformance(name, seed):
    operator, dense = CATALOGUE[name]
    assert_query_matrix(operator, dense, seed=seed)
    assert isinstance(operator.sensitivity(), float)
    m, n = operator.shape
    assert (operator @ np.zeros((n, 0))).shape == (m, 0)
    assert operator.rmatmat(np.zeros((m, 0))).shape == (n, 0)


def test_the_catalogue_covers_every_public_operator():
    def kinds(operator):
        yield type(operator)
        for value in vars(operator).values():
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, mm.QueryMatrix):
                    yield from kinds(part)

    present = {kind for operator, _ in CATALOGUE.values() for kind in kinds(operator)}
    public = {
        kind
        for module in (mmech, mmech.operators)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, mm.QueryMatrix)
    }
    assert public - present == {mm.QueryMatrix}


@pytest.mark.slow
@every_operator
def test_conformance_in_blocks(name):
    # The block-wise fallbacks of a large domain, forced on a small one.
    operator, dense = CATALOGUE[name]
    with mm.limits.changed(block_entries=10):
        assert_query_matrix(operator, dense, check_pinv=False)


@dataclass(frozen=True, eq=False, repr=False)
class Bare(mm.QueryMatrix):
    """Products alone: all else is derived, without the shortcuts of an operator."""

    array: np.ndarray
    shape = property(lambda self: self.array.shape)
    dtype = property(lambda self: self.array.dtype)

    def _matmat(self, x):
        return self.array.astype(x.dtype) @ x

    def _rmatmat(self, y):
        return self.array.T.astype(y.dtype) @ y


@some_operators
def test_generic_fallbacks(name):
    operator, dense = CATALOGUE[name]
    assert_query_matrix(Bare(dense.astype(operator.dtype)), dense, check_pinv=False)


@some_operators
def test_pseudoinverse_by_lsmr(name):
    # The path of operators too large to factorise.
    operator, dense = CATALOGUE[name]
    if np.linalg.cond(dense) > 1e4 and np.linalg.matrix_rank(dense) == min(dense.shape):
        return  # LSMR needs more iterations than the limit at this condition
    inverse = ref.pinv(dense)
    scale = max(1.0, np.abs(inverse).max())
    with mm.limits.changed(direct_size=0):
        iterative = Pinv(operator)
        found, transposed = iterative.to_dense(), iterative.T.to_dense()
    np.testing.assert_allclose(found, inverse, atol=1e-7 * scale)
    np.testing.assert_allclose(transposed, inverse.T, atol=1e-7 * scale)


@pytest.mark.parametrize("width", [1, 2])
def test_kronecker_with_a_factor_without_rows(width):
    nothing = mm.Kronecker([mm.Dense(np.zeros((0, 3))), mm.Prefix(2)])
    assert (nothing @ np.zeros((6, width))).shape == (0, width)
    assert nothing.rmatmat(np.zeros((0, width))).shape == (6, width)
    assert nothing.sensitivity() == 0


# ------------------------------------------------------------------ values by hand


# ------------------------------------------------------------------ repr and sugar


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (mm.Dense(SIGNED), "Dense(2 x 3) shape=(2, 3)"),
        (mm.Kronecker([mm.Identity(2)] * 6),
         "Kronecker(Identity(2), Identity(2), ... 3 more ..., Identity(2)) "
         "shape=(64, 64)"),
        (mm.VStack([mm.Total(3), -0.5 * mm.Identity(3)]),
         "VStack(Total(3), Scaled(-0.5, Identity(3))) shape=(4, 3)"),
        (mm.AllRange(3).pinv(), "Pinv(AllRange(3)) shape=(3, 6)"),
    ],
    ids=str,
)  # fmt: skip
def test_repr(operator, expected):
    assert repr(operator) == expected


@pytest.mark.parametrize(
    "weight", [2, -2, 0.5, np.int32(3), np.float32(0.5), np.float64(-1.5)], ids=repr
)
def test_scalars_from_both_sides(weight):
    for scaled in (weight * mm.Prefix(3), mm.Prefix(3) * weight):
        assert isinstance(scaled, mm.QueryMatrix)
        assert scaled.dtype == (np.int64 if weight % 1 == 0 else np.float64)
        np.testing.assert_array_equal(scaled.to_dense(), weight * ref.prefix(3))


def test_small_numpy_integers_do_not_overflow_in_nested_weights():
    # 4 * 100 does not fit int8: weights must be widened before they multiply.
    assert (mm.Identity(2) * 4 * np.int8(100)).sensitivity() == 400
    assert (np.int32(2**30) * (4 * mm.Identity(2))).sensitivity() == 2.0**32


@pytest.mark.parametrize("weight", [1e300, -(2.0**63)])
def test_weights_beyond_int64(weight):
    scaled = mm.Identity(2) * weight
    assert scaled.sensitivity() == abs(float(weight))
    np.testing.assert_allclose(scaled @ [1.0, 2.0], np.array([1, 2]) * float(weight))


def test_length_is_the_number_of_queries():
    assert len(mm.AllRange(4)) == 10
    assert len(mm.Total(4)) == 1
    # `if operator:` and `operator or default` must not depend on the size.
    assert mm.Kronecker([mm.Identity(100)] * 20)


# ------------------------------------------------------------------ dtypes


def test_integers_stay_exact_and_floats_stay_floats():
    large = np.array([2**55 + 1, 1, 3])  # not a float64
    assert (mm.Prefix(3) @ large).tolist() == [2**55 + 1, 2**55 + 2, 2**55 + 5]
    assert (mm.Kronecker([mm.Total(3)]) @ large).tolist() == [2**55 + 5]
    assert ([1, 2, 3] @ mm.Prefix(3)).dtype == np.int64
    assert (mm.Prefix(3) @ np.float32([1, 2, 3])).dtype == np.float32
    assert (mm.Prefix(3) @ np.float16([1, 2, 3])).dtype == np.float64
    assert (mm.PIdentity([[1, 1, 1]]) @ large).dtype == np.float64
    assert mm.Dense([[1, 2]]).dtype == np.int64
    assert mm.Dense([[1.0, 2.0]]).dtype == np.float64
    assert mm.Dense([[True, False]]).dtype == np.int64
    assert mm.VStack([mm.Total(2), 0.5 * mm.Total(2)]).dtype == np.float64


# ------------------------------------------------------------------ immutability


def stored_arrays(operator):
    for name, value in vars(operator).items():
        if name.startswith("_"):
            continue  # caches of the operator's own
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, np.ndarray) and part.size:
                yield part
            if sp.issparse(part) and part.nnz:
                yield from (part.data, part.indices, part.indptr)


def test_stored_arrays_are_read_only_also_in_copies():
    for name, (operator, _) in CATALOGUE.items():
        copies = copy.deepcopy(operator), pickle.loads(pickle.dumps(operator))
        for one in (operator, *copies):
            found = [array.flags.writeable for array in stored_arrays(one)]
            assert not any(found), name


def test_input_arrays_are_copied():
    array, theta = np.eye(3), np.ones((2, 3))
    labels, masks = np.array([0, 1, 1]), [np.ones((2, 2), bool)]
    matrix, values = sp.csr_array(np.eye(3)), np.ones(3)
    groups, lower, upper = np.array([1, 0]), np.array([[0]]), np.array([[1]])
    operators = [
        mm.Dense(array),
        mm.PIdentity(theta),
        mm.Partition(labels),
        mm.Conjunctions(masks),
        mm.Sparse(matrix),
        mm.Diagonal(values),
        mm.Merged(mm.Prefix(2), groups),
        mm.Ranges((2,), lower, upper),
    ]
    before = [operator.to_dense() for operator in operators]
    small = array, theta, labels, masks[0], matrix.data, values
    for owned in (*small, groups, lower, upper):
        owned[...] = 0
    for operator, dense in zip(operators, before, strict=True):
        assert np.array_equal(operator.to_dense(), dense)
    parts = [mm.Identity(2), mm.Total(2)]
    stack = mm.VStack(parts)
    parts.append(mm.Total(2))
    assert stack.shape == (3, 2)


# ------------------------------------------------------------------ size


def test_huge_domains_without_allocation():
    huge = mm.Kronecker([mm.Identity(100)] * 20)
    assert huge.shape == (10**40, 10**40)
    assert all(type(size) is int for size in huge.shape)
    assert huge.sensitivity() == 1.0
    assert huge.trace() == pytest.approx(1e40)
    assert "Identity(100), ... 17 more ..., Identity(100)" in repr(huge)
    assert huge.gram().shape == huge.T.shape == huge.pinv().shape == huge.shape
    assert mm.Kronecker([mm.Prefix(100)] * 20).sensitivity() == pytest.approx(1e40)
    assert mm.Scaled(
        -2, mm.Kronecker([mm.Prefix(100)] * 20)
    ).sensitivity() == pytest.approx(2e40)
    assert (huge @ mm.Kronecker([mm.Prefix(100)] * 20)).shape == huge.shape
    assert mm.Identity(2**50).sensitivity() == 1.0
    assert mm.Suffix(10**12).sensitivity() == 10**12
    assert mm.WidthRange(10**12, 10**5).sensitivity() == 10**5


def test_what_cannot_be_enumerated_says_so():
    n = 10**160
    with pytest.raises(mm.DomainTooLargeError, match="too many entries"):
        (mm.Kronecker([mm.Identity(n)]) - mm.Kronecker([mm.Prefix(n)])).sensitivity()


def test_weights_of_marginals_cannot_be_changed():
    # The sensitivity is read from them.
    marginals = mm.Marginals((2, 3), {(0,): 1.0, (1,): 2.0})
    with pytest.raises(TypeError):
        marginals.weights[(1,)] = 0.0
    assert marginals.sensitivity() == 3


def test_rows_of_a_huge_box_domain():
    masks = [np.array([[1, 1, 0], [1, 0, 0]], bool)] * 60
    rows = mm.Conjunctions(masks).row_abs_sums()
    assert rows.tolist() == [2**60, 1]
    masks = [np.ones((2, 10), bool)] * 30
    assert mm.Conjunctions(masks).row_abs_sums() == pytest.approx([1e30, 1e30])


@pytest.mark.parametrize("target", ["to_dense", "to_sparse"])
def test_large_conversions_warn(target):
    with mm.limits.changed(warned_entries=5):
        with pytest.warns(mm.PerformanceWarning, match=r"3 x 3 = 9 entries") as record:
            getattr(mm.Prefix(3), target)()
        assert record[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            getattr(mm.Total(3), target)()


# ------------------------------------------------------------------ structure kept


PREFIX, RANGES = mm.Prefix(3), mm.AllRange(3)
PAIR = mm.Kronecker([mm.Prefix(2), mm.Prefix(3)])


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (mm.VStack([mm.Total(3), PREFIX]) @ PREFIX, mm.VStack),
        (mm.Dense(SIGNED) @ mm.Dense(SIGNED.T), mm.Dense),
        (mm.Sparse(sp.eye_array(2)) @ mm.Sparse(sp.eye_array(2)), mm.Sparse),
        (mm.Diagonal([1, 2]) @ mm.Diagonal([3, 4]), mm.Diagonal),
        ((mm.Ones(2, 3) @ mm.Ones(3, 4)).operator, mm.Ones),
        (((2 * PREFIX) @ (-3 * PREFIX)).operator, mm.Product),
        (PAIR @ mm.Kronecker(PAIR.factors[::-1]), mm.Product),
        (PAIR @ PAIR.T, mm.Kronecker),
        (PAIR @ PAIR.pinv(), mm.Kronecker),
        (PAIR.gram() @ PAIR.gram(), mm.Kronecker),
        (((2 * PAIR) @ PAIR.T).operator, mm.Kronecker),
        (PAIR.gram().pinv(), mm.Kronecker),
        (RANGES.gram(), SeparableGram),
        (mm.Diagonal([1, 2]).gram(), mm.Diagonal),
        (mm.Scaled(-2, PREFIX).gram(), mm.Scaled),
        (PREFIX.gram(), Gram),
        (PREFIX.pinv(), mm.Sparse),
        (mm.Partition([0, 1, 1]).pinv(), mm.Product),
        (mm.Kronecker([PREFIX, mm.Total(2)]).T, mm.Kronecker),
        (mm.Ones(2, 3).T, mm.Ones),
        (mm.Dense(SIGNED).T, mm.Dense),
        (PREFIX.T, mm.Suffix),
        (RANGES.T, Transpose),
    ],
    ids=str,
)
def test_operations_keep_structure(operator, kind):
    assert type(operator) is kind


def test_operations_that_change_nothing_copy_nothing():
    identity, gram, strategy = mm.Identity(3), PREFIX.gram(), mm.PIdentity(THETA)
    assert PREFIX @ identity is identity @ PREFIX is PREFIX
    assert RANGES.T.T is RANGES.pinv().pinv() is RANGES
    assert strategy.pinv().pinv() is strategy
    assert identity.gram() is identity
    assert gram.T is gram
    assert len(((mm.Total(3) @ PREFIX) @ RANGES.T).factors) == 3
    assert ((2 * PREFIX) @ (-3 * PREFIX)).weight == -6


def test_products_of_every_fitting_pair(rng):
    pairs = [
        (left, right)
        for left in CATALOGUE
        for right in CATALOGUE
        if CATALOGUE[left][0].shape[1] == CATALOGUE[right][0].shape[0]
    ]
    chosen = rng.choice(len(pairs), size=min(len(pairs), 400), replace=False)
    for left, right in (pairs[i] for i in chosen):
        (a, dense_a), (b, dense_b) = CATALOGUE[left], CATALOGUE[right]
        wanted = dense_a @ dense_b
        scale = max(1.0, np.abs(dense_a).max() * np.abs(dense_b).max())
        np.testing.assert_allclose(
            (a @ b).to_dense(), wanted, atol=1e-9 * scale, err_msg=f"{left} @ {right}"
        )


def test_grams_of_integer_matrices_are_integer():
    for operator in (
        mm.Dense(SIGNED),
        mm.Dense(SIGNED.T),
        mm.Prefix(3),
        mm.Sparse(sp.eye_array(3)),
    ):
        assert operator.gram().dtype == operator.dtype


@pytest.mark.parametrize("weight", [3, 2**29 + 1])  # floats hold one square exactly
def test_grams_of_few_rows_keep_whole_numbers(weight):
    gram = mm.Product(weight * mm.Ones(1, 1), mm.Ones(1, 8)).gram()
    assert gram.to_dense().dtype == np.int64
    assert (gram.to_dense() == weight**2).all()


@pytest.mark.parametrize(
    "dense",
    [
        np.diag(np.logspace(0, 7, 40)),  # stops at the iteration limit
        1 / (1 + np.add.outer(np.arange(12), np.arange(12))),  # at the condition limit
    ],
    ids=["iterations", "condition"],
)
def test_lsmr_that_does_not_converge_warns(dense):
    with (
        mm.limits.changed(direct_size=0),
        pytest.warns(mmech.ConvergenceWarning, match=r"after \d+ of at most \d+ it"),
    ):
        Pinv(mm.Dense(dense)).matvec(np.arange(len(dense), dtype=float))


def sets_of_cells(rng):
    """Return four partitions of 200 cells, their gram and boxes, with dense twins."""
    labels, groups = rng.integers(0, 500, (4, 200)), [500] * 4
    stack = mm.PartitionStack(labels, groups)
    masks = [rng.random((30, size)) < 0.5 for size in (4, 5, 10)]
    boxes = mm.Conjunctions(masks)
    dense = ref.partition_stack(labels, groups)
    rows = [ref.kronecker(*(mask[[r]] for mask in masks))[0] for r in range(30)]
    return [(stack, dense), (boxes, np.array(rows)), (stack.gram(), dense.T @ dense)]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32])
@pytest.mark.parametrize("largest", [0, 2**24], ids=["labels", "lists"])
def test_products_stay_when_lists_are_made(dtype, largest, rng):
    for operator, dense in sets_of_cells(rng):
        for k in (1, 3, 6, 9, 60, 1, 6, 9):
            x = rng.integers(-9, 9, (operator.shape[1], k)).astype(dtype)
            y = rng.integers(-9, 9, (operator.shape[0], k)).astype(dtype)
            with mm.limits.changed(listed_members=largest):
                products = operator @ x, operator.T @ y
            for product, exact in zip(products, (dense @ x, dense.T @ y), strict=True):
                assert product.dtype == dtype
                np.testing.assert_array_equal(product, exact)
        made = {"_row_lists", "_column_lists"} <= vars(operator).keys()
        made |= vars(operator).get("_explicit") is not None
        assert made == (largest > 0)


def test_every_failure_of_a_grid_is_told():
    @of_all(a=[0, 1, 2], b=[0, 5])
    def test(a, b):
        assert a < 2
        if b:
            pytest.fail("b")

    with pytest.raises(BaseExceptionGroup, match="4 cells") as found:
        test()
    notes = [failure.__notes__[-1] for failure in found.value.exceptions]
    assert notes[-1] == "of {'a': 2, 'b': 5}"
