"""Expected errors and bounds, beside an explicit pseudoinverse."""

import numpy as np

from mmech import (
    AllRange,
    Identity,
    Kronecker,
    MatrixMechanism,
    PIdentity,
    Prefix,
    expected_error,
    per_query_error,
    svd_bound,
)
from mmech_rf import grow_random_forest, training_workload

from ._common import check, dense_row_losses


def pidentity(n, p):
    return PIdentity(np.random.default_rng(0).random((p, n)))


def ranges():
    return AllRange(96), pidentity(96, 6)


def product():
    workload = Kronecker([Prefix(24), AllRange(12)])
    return workload, Kronecker([pidentity(24, 2), pidentity(12, 1)])


def forest():
    trees = grow_random_forest((4, 4, 3, 3, 3), 32, 3, seed=0)
    workload = training_workload(trees)
    return workload, Identity(trees.n_cells)


PAIRS = {"ranges": ranges, "product": product, "forest": forest}


class Error:
    """Total and per-query error, and the bound that no strategy passes."""

    params = (list(PAIRS),)
    param_names = ("pair",)

    def setup(self, pair):
        self.pair = PAIRS[pair]()
        self.dense = [operator.to_dense().astype(float) for operator in self.pair]
        rows = self.time_per_query_dense(pair)
        check(self.time_per_query_mmech(pair), rows, rtol=1e-8)
        check(self.time_total_mmech(pair), rows.sum(), rtol=1e-8)
        check(self.time_bound_mmech(pair), self.time_bound_dense(pair), rtol=1e-6)

    def time_total_mmech(self, pair):
        return expected_error(*self.pair, epsilon=1)

    def time_per_query_mmech(self, pair):
        return per_query_error(*self.pair, epsilon=1)

    def time_per_query_dense(self, pair):
        # Its sum is the total: one dense contender serves both.
        return 2 * dense_row_losses(*self.dense)

    def time_bound_mmech(self, pair):
        return svd_bound(self.pair[0], epsilon=1)

    def time_bound_dense(self, pair):
        workload = self.dense[0]
        return 2 * np.linalg.norm(workload, "nuc") ** 2 / workload.shape[1]


class Intervals:
    """Intervals of 4,656 ranges by shared laws, beside those of 65 by their own."""

    def setup(self):
        self.mechanism = MatrixMechanism(*ranges(), epsilon=1)
        self.measurement = self.mechanism.measure(np.zeros(96, int))
        self.queries = np.eye(96 * 97 // 2)[::72]
        lower, upper = self.time_shared_mmech()
        longer = ((upper - lower) / 2)[::72] / self.time_own_mmech()
        check(longer, np.full(longer.size, 1.01), rtol=0.01)

    def time_shared_mmech(self):
        return self.mechanism.confidence_interval(self.measurement)

    def time_own_mmech(self):
        return [self.mechanism.half_width(query) for query in self.queries]
