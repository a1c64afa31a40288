"""Random compositions of operators, each with its explicit matrix.

The strategy `operators` builds an operator of a wanted shape together with its
dense matrix, which is composed by NumPy alone.
"""

import numpy as np
import scipy.sparse as sp
from catalogue import CATALOGUE
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mmech as mm

MAX_SIZE = 6
MAX_DEPTH = 3

sizes = st.integers(1, MAX_SIZE)
small_integers = st.integers(-3, 3)
small_floats = st.sampled_from([0.0, 0.25, -0.5, 1.0, 1.5, -2.0])
weights = st.sampled_from([0, 1, -1, 2, -3, 0.5, -1.5])


def divisors(number):
    return st.sampled_from([d for d in range(1, number + 1) if number % d == 0])


# ------------------------------------------------------------------ leaves


@st.composite
def leaves(draw, m, n, integer):
    """Draw a matrix of any entries, or an operator of the catalogue."""
    known = [
        (operator, dense)
        for operator, dense in CATALOGUE.values()
        if dense.shape == (m, n) and (operator.dtype == np.int64 or not integer)
    ]
    if known and draw(st.booleans()):
        return draw(st.sampled_from(known))
    if not integer and draw(st.booleans()):
        array = draw(hnp.arrays(np.float64, (m, n), elements=small_floats))
    else:
        array = draw(hnp.arrays(np.int64, (m, n), elements=small_integers))
    form = draw(st.sampled_from([None, sp.csr_array, sp.csc_array, sp.coo_array]))
    return (mm.Dense(array) if form is None else mm.Sparse(form(array))), array


# ------------------------------------------------------------------ compositions


@st.composite
def operators(draw, m=None, n=None, depth=MAX_DEPTH, integer=False):
    """Draw (operator, dense matrix) of shape (m, n)."""
    m = draw(sizes) if m is None else m
    n = draw(sizes) if n is None else n

    def part(rows, columns):
        return draw(operators(rows, columns, depth - 1, integer))

    kinds = ["leaf"]
    if depth > 0:
        kinds += ["scaled", "product", "sum", "transpose", "kronecker", "minus"]
        kinds += ["vstack"] if m >= 2 else []
        kinds += ["gram"] if m == n else []
    kind = draw(st.sampled_from(kinds))
    if kind == "scaled":
        weight = draw(weights.filter(lambda w: isinstance(w, int) or not integer))
        operator, dense = part(m, n)
        sugar = draw(st.booleans())
        return (
            weight * operator if sugar else mm.Scaled(weight, operator)
        ), weight * dense
    if kind == "product":
        inner = draw(st.integers(1, 4))
        (left, a), (right, b) = part(m, inner), part(inner, n)
        sugar = draw(st.booleans())
        return (left @ right if sugar else mm.Product(left, right)), a @ b
    if kind == "sum":
        (left, a), (right, b) = part(m, n), part(m, n)
        return mm.Sum([left, right]), a + b
    if kind == "minus":
        (left, a), (right, b) = part(m, n), part(m, n)
        return left - right, a - b
    if kind == "transpose":
        operator, dense = part(n, m)
        return operator.T, dense.T
    if kind == "kronecker":
        rows, columns = draw(divisors(m)), draw(divisors(n))
        (left, a), (right, b) = part(rows, columns), part(m // rows, n // columns)
        return mm.Kronecker([left, right]), np.kron(a, b)
    if kind == "vstack":
        top = draw(st.integers(1, m - 1))
        (upper, a), (lower, b) = part(top, n), part(m - top, n)
        return mm.VStack([upper, lower]), np.concatenate([a, b])
    if kind == "gram":
        operator, dense = part(draw(st.integers(1, 4)), n)
        return operator.gram(), dense.T @ dense
    return draw(leaves(m, n, integer))
