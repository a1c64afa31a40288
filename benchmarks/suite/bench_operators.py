"""Products with implicit query matrices, beside explicit ones and pylops."""

import numpy as np
import scipy.sparse as sp
from scipy.linalg import matmul_toeplitz, toeplitz

from mmech import (
    AllRange,
    Conjunctions,
    Dense,
    Kronecker,
    PartitionStack,
    PIdentity,
    Prefix,
    Sparse,
    Toeplitz,
)
from mmech.operators.partition import RENTED_GRAM
from mmech_rf import aggregation_workload, grow_random_forest

from ._common import CAR, check, partition_rows, prefix_rows, range_gram, range_rows

try:
    import pylops
except ImportError:
    pylops = None


def vectors(n, k):
    return np.random.default_rng(0).random((n, k))


class _Product:
    """The same product with ours, dense or sparse, of which a class may lack one."""

    def time_mmech(self, *_):
        return self.ours @ self.x


class _Dense(_Product):
    """Beside a dense matrix."""

    def time_dense(self, *_):
        return self.dense @ self.x


class _Sparse(_Product):
    """Beside a sparse matrix, and the transposed product."""

    def time_sparse(self, *_):
        return self.sparse @ self.x

    def time_transpose_mmech(self, *_):
        return self.ours.rmatmat(self.y)

    def time_transpose_sparse(self, *_):
        return self.sparse.T @ self.y


class PrefixProduct(_Dense):
    """Prefix sums of four classes, beside a dense triangle."""

    params = ([256, 4096],)
    param_names = ("n",)

    def setup(self, n):
        self.ours, self.dense = Prefix(n), prefix_rows(n)
        self.x = vectors(n, 4)
        check(self.ours @ self.x, self.dense @ self.x)


class FilterProduct(_Dense):
    """Decayed sums over a stream of four classes, beside dense and SciPy."""

    params = ([256, 4096],)
    param_names = ("n",)

    def setup(self, n):
        self.decay, self.row = 0.99 ** np.arange(n), np.eye(1, n)[0]
        self.ours = Toeplitz(self.decay, self.row)
        self.dense = toeplitz(self.decay, self.row)
        self.x = vectors(n, 4)
        check(self.ours @ self.x, self.dense @ self.x)

    def time_scipy(self, n):
        matmul_toeplitz((self.decay, self.row), self.x)


class AllRangeProduct(_Sparse):
    """All range sums of four classes, and the transposed product."""

    params = ([64, 256],)
    param_names = ("n",)

    def setup(self, n):
        self.ours, self.sparse = AllRange(n), range_rows(n)
        self.low, self.high = np.triu_indices(n)
        self.x, self.y = vectors(n, 4), vectors(self.low.size, 4)
        check(self.ours @ self.x, self.sparse @ self.x)
        check(self.ours @ self.x, self.numpy_ranges())
        check(self.ours.T @ self.y, self.sparse.T @ self.y)

    def numpy_ranges(self):
        sums = np.concatenate([np.zeros((1, 4)), np.cumsum(self.x, axis=0)])
        return sums[self.high + 1] - sums[self.low]

    def time_numpy(self, n):
        self.numpy_ranges()


class AllRangeGramProduct(_Dense):
    """The product that range optimization repeats: WᵀW times 32 vectors."""

    params = ([256, 2048],)
    param_names = ("n",)

    def setup(self, n):
        self.ours, self.dense = AllRange(n).gram(), range_gram(n)
        self.x = vectors(n, 32)
        check(self.ours @ self.x, self.dense @ self.x)


class KroneckerProduct(_Product):
    """Prefix ⊗ ranges ⊗ dense, beside SciPy's explicit product and einsum."""

    params = ([6, 12],)
    param_names = ("factor_size",)

    def setup(self, n):
        last = np.random.default_rng(0).random((n, n))
        self.ours = Kronecker([Prefix(n), AllRange(n), Dense(last)])
        self.factors = (prefix_rows(n), range_rows(n).toarray(), last)
        self.sparse = sp.csr_array(
            sp.kron(sp.kron(*self.factors[:2], format="csr"), last, format="csr")
        )
        self.x = vectors(n**3, 4)
        check(self.ours @ self.x, self.sparse @ self.x)
        check(self.ours @ self.x, self.numpy_einsum())

    def numpy_einsum(self):
        cube = self.x.reshape(*(factor.shape[1] for factor in self.factors), 4)
        out = np.einsum("ai,bj,ck,ijkx->abcx", *self.factors, cube, optimize=True)
        return out.reshape(-1, 4)

    def time_einsum(self, n):
        self.numpy_einsum()

    def time_sparse(self, n):
        self.sparse @ self.x


def gemm_and_transpose(factors, x):
    """The Kronecker product of matrices times a vector as NumPy users write it."""
    for factor in factors:
        x = np.ascontiguousarray((factor @ x.reshape(factor.shape[1], -1)).T)
    return x.reshape(-1)


class KroneckerCube(_Product):
    """Dense factors on one vector of about a million cells, and its transpose."""

    params = (["64^3", "32^4", "10^6"], ["float64", "float32", "int64"])
    param_names = ("cells", "dtype")

    def setup(self, cells, dtype):
        n, d = map(int, cells.split("^"))
        rng = np.random.default_rng(0)
        self.factors = [rng.integers(-2, 3, (n, n)) for _ in range(d)]
        self.x = rng.integers(0, 10, n**d).astype(dtype)
        if dtype != "int64":
            self.factors = [factor.astype(dtype) for factor in self.factors]
        self.ours = Kronecker([Dense(factor) for factor in self.factors])
        # NumPy has no fast products of integers: its are given as floats.
        fast = "float64" if dtype == "int64" else dtype
        self.fast_factors = [factor.astype(fast) for factor in self.factors]
        self.fast_x = self.x.astype(fast)
        ours = self.time_mmech(cells, dtype)
        rounding = 1e-4 if dtype == "float32" else 1e-9
        check(ours, self.time_numpy(cells, dtype), rtol=rounding)
        assert ours.dtype == dtype

    def time_transpose_mmech(self, cells, dtype):
        return self.ours.rmatvec(self.x)

    def time_numpy(self, cells, dtype):
        return gemm_and_transpose(self.fast_factors, self.fast_x)

    def peakmem_mmech(self, cells, dtype):
        self.ours @ self.x


class KroneckerLeastSquares:
    """A⁺ y of a Kronecker p-Identity in float32, beside its factors as matrices."""

    params = ([3, 4], [1])
    param_names = ("attributes", "p")

    def setup(self, attributes, p):
        rng = np.random.default_rng(0)
        factors = [PIdentity(rng.random((p, 64))) for _ in range(attributes)]
        self.ours = Kronecker(factors).pinv()
        self.explicit = [
            np.linalg.pinv(factor.to_dense()).astype(np.float32) for factor in factors
        ]
        self.y = rng.random(self.ours.shape[1]).astype(np.float32)
        check(self.time_mmech(), self.time_numpy(), rtol=1e-4)

    def time_mmech(self, *_):
        return self.ours @ self.y

    def time_numpy(self, *_):
        return gemm_and_transpose(self.explicit, self.y)

    def peakmem_mmech(self, *_):
        self.ours @ self.y


class PrefixSquare(_Product):
    """Prefix ⊗ Prefix: the table of all sums up to a cell."""

    params = ([128, 1024],)
    param_names = ("n",)

    def setup(self, n):
        self.ours = Kronecker([Prefix(n), Prefix(n)])
        self.dense = prefix_rows(n)
        self.x = vectors(n * n, 1)[:, 0]
        check(self.time_mmech(n), self.time_cumsum(n).ravel())
        check(self.time_mmech(n), self.time_dense(n).ravel())

    def time_cumsum(self, n):
        return self.x.reshape(n, n).cumsum(axis=0).cumsum(axis=1)

    def time_dense(self, n):
        return self.dense @ self.x.reshape(n, n) @ self.dense.T


def keep_lists(*operators):
    """Multiply as often as it takes until operators have lists of cells, as CSR has."""
    for operator in operators:
        for _ in range(RENTED_GRAM + 1):
            operator @ np.ones(operator.shape[1])
            operator.T @ np.ones(operator.shape[0])


class PartitionProduct(_Sparse):
    """T of 128 trees of depth 4 over the car domain, beside a CSR matrix."""

    params = ([1, 4, 64],)
    param_names = ("columns",)

    def setup(self, k):
        forest = grow_random_forest(CAR, 128, 4, seed=0)
        labels, leaves = forest.apply_domain(), np.diff(forest.leaf_offsets)
        self.ours = PartitionStack(labels, leaves)
        self.sparse = partition_rows(labels, leaves)
        self.gram, self.sparse_gram = self.ours.gram(), self.sparse.T @ self.sparse
        self.x, self.y = vectors(forest.n_cells, k), vectors(forest.n_leaves, k)
        check(self.ours @ self.x, self.sparse @ self.x)
        check(self.ours.T @ self.y, self.sparse.T @ self.y)
        check(self.gram @ self.x, self.sparse_gram @ self.x)
        keep_lists(self.ours, self.gram)

    def time_gram_mmech(self, k):
        self.gram @ self.x

    def time_gram_sparse(self, k):
        self.sparse_gram @ self.x


class ConjunctionProduct(_Sparse):
    """Leaves of 16 trees as boxes, beside the CSR matrix of their cells."""

    params = ([(4,) * 6, (4,) * 8], [1, 4])
    param_names = ("domain_shape", "columns")

    def setup(self, domain_shape, k):
        forest = grow_random_forest(domain_shape, 16, 4, seed=0)
        leaves = np.diff(forest.leaf_offsets)
        self.ours = Conjunctions(forest.leaf_masks())
        self.sparse = partition_rows(forest.apply_domain(), leaves)
        self.x, self.y = vectors(forest.n_cells, k), vectors(forest.n_leaves, k)
        check(self.ours @ self.x, self.sparse @ self.x)
        check(self.ours.T @ self.y, self.sparse.T @ self.y)
        keep_lists(self.ours)


class SparseProduct(_Sparse):
    """QTᵀ of a batch of queries: what the wrapper adds to SciPy's product."""

    params = ([100, 10_000], [1, 4])
    param_names = ("queries", "columns")

    def setup(self, b, k):
        forest = grow_random_forest(CAR, 128, 4, seed=0)
        queries = np.random.default_rng(0).integers(0, CAR, (b, len(CAR)))
        self.ours = aggregation_workload(forest, queries)
        assert isinstance(self.ours, Sparse)
        self.sparse = self.ours.to_sparse().astype(np.float64)
        self.x, self.y = vectors(forest.n_leaves, k), vectors(b, k)
        check(self.ours @ self.x, self.sparse @ self.x)
        check(self.ours.rmatmat(self.y), self.sparse.T @ self.y)


class BesidePylops(_Product):
    """The operators that pylops has too, on one vector."""

    params = (["Prefix", "Kronecker", "Sparse"],)
    param_names = ("operator",)

    def setup(self, operator):
        if pylops is None:
            raise NotImplementedError("pylops is not installed")
        self.ours, self.pylops = getattr(self, f"pair_{operator.lower()}")()
        self.x = vectors(self.ours.shape[1], 1)[:, 0]
        check(self.ours @ self.x, self.pylops @ self.x)

    def pair_prefix(self):
        return Prefix(65_536), pylops.CausalIntegration(65_536, kind="full")

    def pair_kronecker(self):
        dense = np.random.default_rng(0).random((64, 64))
        plain = pylops.MatrixMult(dense)
        ours = Kronecker([Dense(dense)] * 3)
        return ours, pylops.Kronecker(plain, pylops.Kronecker(plain, plain))

    def pair_sparse(self):
        matrix = sp.random_array((4096, 4096), density=0.01, rng=0, format="csr")
        return Sparse(matrix), pylops.MatrixMult(matrix)

    def time_pylops(self, operator):
        self.pylops @ self.x
