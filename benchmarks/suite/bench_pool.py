"""Forests under marginals, beside explicit matrices."""

import numpy as np

from mmech import Conjunctions, MarginalEstimate, all_marginals, per_query_error
from mmech_rf import grow_random_forest

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
