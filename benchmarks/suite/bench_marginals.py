"""Tables of counts and sums over the lattice, beside a pass for each."""

import numpy as np

from mmech import (
    Dense,
    Diagonal,
    Kronecker,
    VStack,
    all_marginals,
)
from mmech._kernels import superset_sums
from mmech.operators.marginals import _contrasts

from ._common import check


def numpy_superset_sums(values):
    """The zeta transform, one vectorised pass per attribute."""
    sums = values.copy()
    step = 1
    while step < sums.size:
        pairs = sums.reshape(-1, 2, step)
        pairs[:, 0] += pairs[:, 1]
        step *= 2
    return sums


class MarginalTables:
    """All two-way marginals of attributes of four values: shared tables or a pass each.

    Least squares go by way of tables too; the contender transforms every attribute.
    """

    params = ([6, 8, 10],)
    param_names = ("attributes",)

    def setup(self, d):
        self.marginals = all_marginals((4,) * d, 2)
        self.blocks = VStack(self.marginals.blocks)
        rng = np.random.default_rng(0)
        self.counts = rng.integers(0, 10, self.marginals.shape[1])
        self.values = rng.normal(size=self.marginals.shape[0])
        self.pinv = self.marginals.pinv()
        inverse = self.marginals.gram().pinv()
        contrasts = Kronecker([Dense(_contrasts(4))] * d)
        self.transforms = contrasts.T @ Diagonal(inverse._spectrum) @ contrasts
        check(self.time_product_mmech(d), self.time_product_table_by_table(d))
        check(self.time_transposed_mmech(d), self.time_transposed_table_by_table(d))
        check(self.time_least_squares_mmech(d), self.time_least_squares_transforms(d))

    def time_product_mmech(self, d):
        return self.marginals @ self.counts

    def time_product_table_by_table(self, d):
        return self.blocks @ self.counts

    def time_transposed_mmech(self, d):
        return self.marginals.rmatvec(self.values)

    def time_transposed_table_by_table(self, d):
        return self.blocks.rmatvec(self.values)

    def time_least_squares_mmech(self, d):
        return self.pinv @ self.values

    def time_least_squares_transforms(self, d):
        return self.transforms @ self.blocks.rmatvec(self.values)


class SupersetSums:
    """The zeta transform alone, in place."""

    params = ([10, 20],)
    param_names = ("attributes",)

    def setup(self, d):
        self.values = np.zeros(2**d)
        sample = np.random.default_rng(0).random(2**d)
        expected = numpy_superset_sums(sample)
        superset_sums(sample)
        check(sample, expected)

    def time_mmech(self, d):
        superset_sums(self.values)

    def time_numpy(self, d):
        numpy_superset_sums(self.values)
