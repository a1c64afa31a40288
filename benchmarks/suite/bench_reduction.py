"""Merging equal columns by hashes, beside `np.unique` of the explicit matrix."""

import numpy as np

from mmech import reduce_domain
from mmech_rf import grow_random_forest, training_workload

from ._common import CAR, check


class ReduceDomain:
    """Queries of a small forest, in a domain of more cells than it tells apart."""

    params = ([CAR, (4,) * 7],)
    param_names = ("domain_shape",)

    def setup(self, domain_shape):
        forest = grow_random_forest(domain_shape, 4, 2, seed=0)
        self.workload = training_workload(forest)
        reduced, groups = self.time_mmech(domain_shape)
        inverse = self.time_numpy(domain_shape)[1].ravel()
        assert reduced.shape[1] == groups.max() + 1 == inverse.max() + 1
        x = np.random.default_rng(0).random(groups.size)
        check(reduced @ np.bincount(groups, x), self.workload @ x)
        # The two numberings name the same groups.
        pairs = np.unique(np.stack([groups, inverse]), axis=1)
        assert pairs.shape[1] == reduced.shape[1]

    def time_mmech(self, domain_shape):
        return reduce_domain(self.workload)

    def time_numpy(self, domain_shape):
        return np.unique(self.workload.to_dense(), axis=1, return_inverse=True)

    def peakmem_mmech(self, domain_shape):
        reduce_domain(self.workload)

    def peakmem_numpy(self, domain_shape):
        self.time_numpy(domain_shape)
