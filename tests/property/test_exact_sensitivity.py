"""Integers that do not fit 64 bits: exact, or refused, never wrapped around.

Random compositions with entries up to 2^63 against the same matrices of Python
integers, which have any size.
"""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import mmech as mm
from mmech import Hierarchy
from mmech.integer_strategy import integer_strategy
from mmech.operators.compose import Gram, Transpose

ENTRIES = st.one_of(
    st.sampled_from([0, 1, -1, 2**31, -(2**31), 2**32, 2**52 - 1, 2**62, 1 - 2**63]),
    st.integers(-3, 3),
    st.integers(-(10**10), 10**10),
    st.integers(-(2**63) + 1, 2**63 - 1),
)
WEIGHTS = st.sampled_from([1, 2, -3, 2**16, 2**40 + 1, 2**62, -(2**62)])
norms = pytest.mark.parametrize("norm", ["L1", "L2"])


class Foreign(mm.QueryMatrix):
    """An operator of an unknown class, multiplied in 64 bits."""

    dtype = np.dtype(np.int64)

    def __init__(self, array):
        self.array = np.asarray(array)

    shape = property(lambda self: self.array.shape)

    def _matmat(self, x):
        return self.array.astype(x.dtype) @ x

    def _rmatmat(self, y):
        return self.array.T.astype(y.dtype) @ y


def exact(operator):
    """Return the entries as Python integers, by definition."""
    if isinstance(operator, (mm.Dense, Foreign)):
        return np.asarray(operator.array).astype(object)
    if isinstance(operator, mm.Sparse):
        return operator.matrix.toarray().astype(object)
    if isinstance(operator, mm.Diagonal):
        out = np.full(operator.shape, 0, object)
        np.fill_diagonal(out, operator.values.astype(object))
        return out
    if isinstance(operator, mm.Scaled):
        return exact(operator.operator) * int(operator.weight)
    if isinstance(operator, Hierarchy):
        levels = [
            weight * Hierarchy(operator.n, {m: 1}).to_dense().astype(object)
            for m, weight in operator.weights.items()
        ]
        return np.vstack(levels)
    if isinstance(operator, mm.VStack):
        return np.vstack([exact(block) for block in operator.blocks])
    if isinstance(operator, Transpose):
        return exact(operator.operator).T
    if isinstance(operator, Gram):
        inner = exact(operator.operator)
        return inner.T @ inner
    if isinstance(operator, mm.Merged):
        inner = exact(operator.operator)
        inner = np.hstack([inner, np.full((len(inner), 1), 0, object)])
        return inner[:, operator.groups]
    if isinstance(operator, (mm.Kronecker, mm.Product, mm.Sum)):
        parts = [exact(p) for p in getattr(operator, "factors", None) or operator.terms]
        out = parts[0]
        for part in parts[1:]:
            if isinstance(operator, mm.Kronecker):
                blocks = [[v * part for v in row] for row in out]
                out = np.vstack([np.hstack(row) for row in blocks])
            else:
                out = out + part if isinstance(operator, mm.Sum) else out @ part
        return out
    return operator.to_dense().astype(object)  # zeros and ones


@st.composite
def explicit(draw, m, n):
    rows = st.lists(st.lists(ENTRIES, min_size=n, max_size=n), min_size=m, max_size=m)
    array = np.array(draw(rows), np.int64).reshape(m, n)
    kind = draw(st.sampled_from(["dense", "sparse", "foreign"]))
    if kind == "sparse":
        return mm.Sparse(sp.csr_array(array))
    return mm.Dense(array) if kind == "dense" else Foreign(array)


@st.composite
def operators(draw, m, n, depth=2):
    """Return an operator of shape (m, n)."""
    again = lambda *shape: draw(operators(*shape, depth - 1))  # noqa: E731
    kinds = ["explicit"] if depth == 0 else ["explicit", "scaled", "sum", "product"]
    if depth:
        kinds += ["transpose", "permuted"] + ["vstack"] * (m > 1)
        kinds += ["kronecker"] * (m % 2 == 0) + ["merged"] * (n > 1)
        kinds += ["diagonal", "gram"] * (m == n)
    kinds += ["simple"] * (m == n) + ["total"] * (m == 1)
    kind = draw(st.sampled_from(kinds))
    if kind == "explicit":
        return draw(explicit(m, n))
    if kind == "total":
        return mm.Total(n)
    if kind == "simple":
        levels = {1: draw(WEIGHTS)}
        partition = mm.Partition(np.arange(n)[::-1].copy(), n)
        choices = [mm.Identity(n), mm.Prefix(n), Hierarchy(n, levels), partition]
        return draw(st.sampled_from(choices))
    if kind == "diagonal":
        values = draw(st.lists(ENTRIES, min_size=n, max_size=n))
        return mm.Product(mm.Diagonal(np.array(values, np.int64)), again(n, n))
    if kind == "scaled":
        return mm.Scaled(draw(WEIGHTS), again(m, n))
    if kind == "sum":
        return mm.Sum([again(m, n), again(m, n)])
    if kind == "product":
        inner = draw(st.integers(1, 3))
        return mm.Product(again(m, inner), again(inner, n))
    if kind == "transpose":
        return Transpose(again(n, m))
    if kind == "gram":
        return Gram(again(draw(st.integers(1, 3)), n))
    if kind == "permuted":
        return mm.Merged(again(m, n), draw(st.permutations(range(n))))
    if kind == "vstack":
        return mm.VStack([again(1, n), again(m - 1, n)])
    if kind == "merged":
        return mm.Merged(again(m, n - 1), [-1, *range(n - 1)])
    return mm.Kronecker([again(2, 1), again(m // 2, n)])


@st.composite
def strategies(draw):
    operator = draw(operators(draw(st.integers(1, 4)), draw(st.integers(1, 3))))
    if draw(st.booleans()):
        real = st.sampled_from([0.5, 1.0, 2.0, 3.7, 1e-3])
        m = operator.shape[0]
        weights = draw(st.lists(real, min_size=m, max_size=m))
        return mm.Product(mm.Diagonal(np.array(weights)), operator)
    return operator


@norms
@given(strategy=strategies())
def test_sensitivity_is_exact_or_refused(strategy, norm):
    try:
        released = integer_strategy(strategy, norm=norm)
        sensitivity = released.sensitivity
    except ValueError:
        return
    power = 1 if norm == "L1" else 2
    columns = np.full(strategy.shape[1], 0, object)
    largest = 0
    for block in released.blocks:
        entries = exact(block.matrix)
        weights = np.broadcast_to(block.weight, len(entries)).astype(object)
        columns = columns + weights @ np.abs(entries) ** power
        largest = max(largest, int(np.abs(entries).max()))
    assert isinstance(sensitivity, int)
    assert sensitivity == max(columns) > 0
    assert largest <= released.largest_entry < 2**62


@given(strategy=strategies(), counts=st.lists(ENTRIES, min_size=4, max_size=4))
def test_what_is_measured_is_exact_or_refused(strategy, counts):
    try:
        blocks = integer_strategy(strategy).blocks
    except ValueError:
        return
    matrix = mm.VStack([block.matrix for block in blocks])
    entries = exact(matrix)
    m, n = matrix.shape
    x, y = (np.array((counts * 4)[:size], np.int64) for size in (n, m))
    for product, wanted in (
        (lambda: matrix @ x, entries @ x.astype(object)),
        (lambda: matrix.rmatvec(y), entries.T @ y.astype(object)),
    ):
        try:
            found = product()
        except ValueError:
            continue
        assert found.dtype == np.int64
        assert found.tolist() == wanted.tolist()


@given(data=st.data())
def test_nothing_public_wraps_around(data):
    m, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    operator = data.draw(operators(m, n))
    if isinstance(operator, Foreign):  # multiplies as its author likes
        return
    entries = exact(operator)
    magnitudes = np.abs(entries)
    # Entries may cancel in floats, down to rounding errors of what was added up.
    scale = float(bound(operator))
    gram = entries.T @ entries
    for question, wanted, size in (
        (lambda: operator.column_abs_sums(), magnitudes.sum(axis=0), scale),
        (lambda: operator.row_abs_sums(), magnitudes.sum(axis=1), scale),
        (lambda: operator.sensitivity(), magnitudes.sum(axis=0).max(), scale),
        (lambda: operator.column_square_sums(), (entries**2).sum(axis=0), scale**2),
        (lambda: operator.row_square_sums(), (entries**2).sum(axis=1), scale**2),
        (lambda: operator.l2_sensitivity() ** 2, max(np.diag(gram)), scale**2),
        (lambda: operator.to_dense(), entries, scale),
        (lambda: operator.to_sparse().toarray(), entries, scale),
        (lambda: operator.diag(), np.diag(entries), scale),
        (lambda: operator.gram().to_dense(), gram, scale**2),
        (lambda: (operator @ operator.T).to_dense(), entries @ entries.T, scale**2),
    ):
        try:
            found = np.asarray(question())
        except ValueError:
            continue
        wanted = np.asarray(wanted, object).astype(float)
        np.testing.assert_allclose(found.astype(float), wanted, 1e-9, 1e-12 * size)


def bound(operator):
    """Return the sum of the magnitudes of all terms in the entries, at least one."""
    if isinstance(operator, mm.Scaled):
        return abs(operator.weight) * bound(operator.operator)
    if isinstance(operator, Gram):
        return bound(operator.operator) ** 2
    if isinstance(operator, (Transpose, mm.Merged)):
        return bound(operator.operator)
    if isinstance(operator, (mm.Kronecker, mm.Product)):
        return math.prod(bound(factor) for factor in operator.factors)
    if isinstance(operator, (mm.Sum, mm.VStack)):
        parts = getattr(operator, "terms", None) or operator.blocks
        return sum(bound(part) for part in parts)
    return max(1, int(np.abs(exact(operator)).sum()))


# ------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("strategy", "sensitivity"),
    [
        (mm.Product(mm.Diagonal([1.0, 2.0]), mm.Dense([[2**32], [1]])), 2**64 + 4),
        (mm.Dense([[2**32], [2**32]]), 2**65),
        (mm.Diagonal([2**40, 1]), 2**80),
        (mm.Product(mm.Dense([[2**31]] * 4 + [[0]]), mm.Dense([[-1]])), 2**64),
        (mm.Sum([mm.Scaled(k, mm.Identity(2)) for k in (2**31, -(2**33))]), 9 * 2**62),
        (mm.Kronecker([mm.Dense([[2**20, 1]]), mm.Dense([[2**20, 3]])]), 2**80),
        (mm.Product(mm.Diagonal([1, 2]), mm.Dense([[-(10**10)]] * 2)), 5 * 10**20),
    ],
    ids=str,
)
def test_squares_beyond_64_bits(strategy, sensitivity):
    mechanism = mm.MatrixMechanism(strategy, strategy, rho=1)
    assert mechanism.released.sensitivity == sensitivity
    smallest = min(np.atleast_1d(mechanism.measure([1] * strategy.shape[1]).scale))
    weights = max(weight for *_, weight in mechanism.released.row_weights())
    assert smallest == pytest.approx(math.sqrt(sensitivity / weights / 2))


@norms
@pytest.mark.parametrize(
    "strategy",
    [
        mm.Product(mm.Dense([[0.5, -0.25]]), mm.Dense([[2**52 - 1], [2**52 - 1]])),
        mm.Product(
            mm.Diagonal([1.0, 0.3]),
            mm.Product(mm.Dense([[2**62], [1]]), mm.Dense([[-4]])),
        ),
    ],
    ids=str,
)
def test_sums_of_large_queries_are_rounded_as_real_ones(strategy, norm):
    released = integer_strategy(strategy, norm=norm)
    (block,) = released.blocks
    entries = exact(block.matrix)
    power = 1 if norm == "L1" else 2
    assert released.sensitivity == (np.abs(entries) ** power).sum()
