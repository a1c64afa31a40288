"""SciPy's solvers take operators as they are."""

import numpy as np
import pytest
import scipy
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import mmech as mm


@pytest.fixture(params=["operator", "linear operator"])
def as_seen_by_scipy(request):
    if request.param == "operator":
        return lambda operator: operator
    return lambda operator: operator.aslinearoperator()


OLD_EIGENSOLVERS = tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 15)

SQUARE = [
    mm.Prefix(8),
    mm.Kronecker([mm.Prefix(4), mm.Dense([[2, 1], [0, 1]])]),
    mm.VStack([mm.Prefix(4), mm.Prefix(4).T + mm.Identity(4)])
    @ mm.Kronecker([mm.Prefix(2), mm.Prefix(2)]),
    mm.PIdentity(np.ones((2, 8))),
]


@pytest.mark.parametrize("operator", SQUARE, ids=str)
@pytest.mark.parametrize("solver", [spla.lsqr, spla.lsmr])
def test_least_squares_solvers(operator, solver, as_seen_by_scipy, rng):
    rhs = rng.standard_normal(operator.shape[0])
    tight = {"atol": 1e-14, "btol": 1e-14, "conlim": 0}
    tight["iter_lim" if solver is spla.lsqr else "maxiter"] = 200
    solution = solver(as_seen_by_scipy(operator), rhs, **tight)[0]
    expected = np.linalg.lstsq(operator.to_dense(), rhs, rcond=None)[0]
    np.testing.assert_allclose(solution, expected, atol=1e-6)


@pytest.mark.parametrize("operator", SQUARE, ids=str)
def test_conjugate_gradients(operator, as_seen_by_scipy, rng):
    gram = operator.gram()
    rhs = rng.standard_normal(gram.shape[0])
    solution, info = spla.cg(as_seen_by_scipy(gram), rhs, rtol=1e-12)
    assert info == 0
    np.testing.assert_allclose(gram.to_dense() @ solution, rhs, atol=1e-8)


@pytest.mark.parametrize("operator", SQUARE, ids=str)
def test_spectral_solvers(operator, as_seen_by_scipy):
    seen = as_seen_by_scipy(operator)
    if seen.dtype == np.int64 and OLD_EIGENSOLVERS:
        pytest.skip("before SciPy 1.15 eigsh refuses integers; see aslinearoperator")
    dense = operator.to_dense().astype(float)
    values = np.linalg.svd(dense, compute_uv=False)
    start = np.linspace(1, 2, dense.shape[1])
    largest = spla.eigsh(
        as_seen_by_scipy(operator.gram()), k=2, v0=start, return_eigenvectors=False
    )
    np.testing.assert_allclose(np.sort(largest)[::-1], values[:2] ** 2, rtol=1e-8)
    singular = spla.svds(as_seen_by_scipy(operator), k=2, return_singular_vectors=False)
    np.testing.assert_allclose(np.sort(singular)[::-1], values[:2], rtol=1e-8)


@pytest.mark.parametrize("block", [1, 40, 2**23])
def test_row_norms_of_a_product_with_small_groups(block):
    """From nonzeros, a few rows at a time: the squares of the dense product."""
    rng = np.random.default_rng(0)
    labels = np.stack([rng.permutation(np.arange(96) % 48) for _ in range(5)])
    groups = mm.PartitionStack(labels, [48] * 5)
    few = rng.random((17, 240)) < 0.02
    picks = sp.csr_array(np.where(few, rng.integers(-3, 4, few.shape), 0))
    for left in (
        [mm.Sparse(picks)],
        [mm.Sparse(sp.csr_array(np.eye(17, dtype=int)[::-1])), mm.Sparse(picks)],
    ):
        product = mm.Product(*left, groups)
        assert product._sparse_rows() is not None
        expected = np.square(product.to_dense()).sum(axis=1)
        with mm.limits.changed(block_entries=block):
            assert np.array_equal(product.row_square_sums(), expected)


def test_row_norms_of_a_product_with_large_groups_are_dense():
    halves = mm.PartitionStack(np.arange(8)[None] % 2, [2])
    product = mm.Product(mm.Sparse(sp.csr_array(np.ones((3, 2), int))), halves)
    assert product._sparse_rows() is None
    assert product.row_square_sums().tolist() == [8, 8, 8]
