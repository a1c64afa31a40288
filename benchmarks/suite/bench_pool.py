"""Forests over many attributes, beside the lattice and the explicit matrices."""

import numpy as np

from mmech import (
    Conjunctions,
    Counts,
    MarginalEstimate,
    Marginals,
    MatrixMechanism,
    all_marginals,
    optimize,
    per_query_error,
)
from mmech_rf import grow_random_forest, training_workload

from ._common import check, dense_pinv, dense_row_losses


class FewAttributes:
    """Errors and answers over 1,024 cells, where dense matrices still fit."""

    def setup(self):
        forest = grow_random_forest((2,) * 10, 20, 3, seed=0)
        self.workload = Conjunctions(forest.leaf_masks())
        self.strategy = all_marginals((2,) * 10, 3)
        self.dense = [
            operator.to_dense().astype(float)
            for operator in (self.workload, self.strategy)
        ]
        self.pinv = dense_pinv(self.dense[1])
        self.values = np.random.default_rng(0).normal(size=self.strategy.shape[0])
        check(self.time_errors_mmech(), self.time_errors_dense(), rtol=1e-8)
        check(self.time_answers_mmech(), self.time_answers_dense(), rtol=1e-8)

    def time_errors_mmech(self):
        return per_query_error(self.workload, self.strategy, epsilon=1)

    def time_errors_dense(self):
        return 2 * dense_row_losses(*self.dense)

    def time_answers_mmech(self):
        return MarginalEstimate(self.strategy, self.values).answer(self.workload)

    def time_answers_dense(self):
        # The pseudoinverse is not timed: the contender keeps it.
        return self.dense[0] @ (self.pinv @ self.values)


class ManyAttributes:
    """A thousand trees over 120 attributes: no contender holds 2^120 cells."""

    timeout = 300

    def setup(self):
        sizes = (2,) * 120
        rng = np.random.default_rng(0)
        self.workload = training_workload(grow_random_forest(sizes, 1000, 3, seed=0))
        keys = {tuple(sorted(rng.permutation(120)[:3])) for _ in range(10)}
        optimize(Marginals(sizes, dict.fromkeys(keys, 1)), seed=0, max_work=10**5)
        self.result = optimize(self.workload, seed=0, max_work=10**6, n_starts=1)
        self.records = Counts(rng.integers(0, 2, (10_000, 120)), sizes)
        self.mechanism = MatrixMechanism(self.workload, self.result, epsilon=1)
        self.measurement = self.mechanism.measure(self.records)

    def time_optimize(self):
        return optimize(self.workload, seed=0)

    def time_errors(self):
        return per_query_error(self.workload, self.result.strategy, epsilon=1)

    def time_measure(self):
        return self.mechanism.measure(self.records)

    def time_answers(self):
        return self.mechanism.reconstruct(self.measurement).answer(self.workload)

    def peakmem_all(self):
        return self.mechanism.answer(self.records)
