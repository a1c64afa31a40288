"""Strategy optimization, beside the formulation with n x n matrices."""

import numpy as np
import scipy.optimize

from mmech import (
    AllRange,
    Dense,
    Prefix,
    optimize,
)
from mmech.strategies.ordered import random_starts
from mmech.strategies.pidentity import PIdentityObjective

from ._common import check, dense_pidentity, published_pidentity, range_gram
from ._trees import best_tree, block_energy, tree_loss


def dense_descent(gram, p, **options):
    """Loss of one descent from blocks of neighbours, with explicit matrices."""
    unit = np.trace(gram)

    def loss_and_gradient(flat):
        loss, gradient = dense_pidentity(flat.reshape(p, len(gram)), gram)
        return loss / unit, gradient.ravel() / unit

    run = scipy.optimize.minimize(
        loss_and_gradient,
        theta_of(len(gram), p).T.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=scipy.optimize.Bounds(0.0, 1e3),
        options=options,
    )
    return run.fun * unit


def theta_of(n, p):
    """Extra queries that sum blocks of neighbours, with some noise; Θᵀ (n, p)."""
    return next(random_starts(n, p, np.random.default_rng(0), 1))


class PIdentityObjectiveAndGradient:
    """One evaluation, on a gram with structure and on an explicit one."""

    params = (
        [(256, 16), (1024, 64)],
        ["AllRange", "Dense"],
    )
    param_names = ("n_p", "gram")
    timeout = 300

    def setup(self, n_p, gram):
        n, p = n_p
        self.dense_gram = range_gram(n)
        ours = AllRange(n).gram() if gram == "AllRange" else Dense(self.dense_gram)
        self.objective = PIdentityObjective(ours, ours.diag().astype(np.float64))
        self.columns = theta_of(n, p)
        self.theta = np.ascontiguousarray(self.columns.T)
        loss, gradient = self.objective(self.columns)
        dense_loss, dense_gradient = dense_pidentity(self.theta, self.dense_gram)
        check(loss, dense_loss)
        check(gradient.T, dense_gradient)
        published = published_pidentity(self.theta, self.dense_gram)
        check(published[0], dense_loss)
        check(published[1], dense_gradient)

    def time_mmech(self, n_p, gram):
        self.objective(self.columns)

    def time_published(self, n_p, gram):
        published_pidentity(self.theta, self.dense_gram)

    def time_dense(self, n_p, gram):
        dense_pidentity(self.theta, self.dense_gram)


class PIdentityMemory:
    """Peak of one evaluation in a domain of 2,048 cells; checked in a small one."""

    params = ([2048],)
    param_names = ("n",)
    timeout = 300

    def setup(self, n):
        small = theta_of(128, 8)
        loss, gradient = self.objective(128)(small)
        dense_loss, dense_gradient = dense_pidentity(small.T, range_gram(128))
        check(loss, dense_loss)
        check(gradient.T, dense_gradient)

    def objective(self, n):
        gram = AllRange(n).gram()
        return PIdentityObjective(gram, gram.diag().astype(np.float64))

    def peakmem_mmech(self, n):
        self.objective(n)(theta_of(n, 64))

    def peakmem_dense(self, n):
        dense_pidentity(theta_of(n, 64).T, range_gram(n))


class PIdentityLarge:
    """One evaluation in domains where n x n matrices do not fit: O(n p).

    Its only contender is the same number of multiplications: Θ (p, n) times a square
    matrix of p rows, once. The formula is checked in a small domain.
    """

    params = ([(2**14, 64), (2**20, 16)],)
    param_names = ("n_p",)

    def setup(self, n_p):
        PIdentityMemory().setup(128)
        n, p = n_p
        gram = AllRange(n).gram()
        self.objective = PIdentityObjective(gram, gram.diag().astype(np.float64))
        self.columns = theta_of(n, p)
        self.square = np.random.default_rng(0).random((p, p))
        self.objective(self.columns)

    def time_mmech(self, n_p):
        self.objective(self.columns)

    def time_product(self, n_p):
        return self.columns @ self.square

    def peakmem_mmech(self, n_p):
        self.objective(self.columns)


class BesideTrees:
    """p-Identity strategies beside the best b-ary tree, b up to 256."""

    params = ([("AllRange", 256, 16), ("Prefix", 256, 16)],)
    param_names = ("workload_n_p",)

    def setup(self, workload_n_p):
        name, n, self.p = workload_n_p
        self.workload = {"AllRange": AllRange, "Prefix": Prefix}[name](n)
        # The formula for trees, beside explicit matrices.
        sizes = [27, 9, 3, 1]
        small = {"AllRange": AllRange, "Prefix": Prefix}[name](27).gram().to_dense()
        loss, weights = tree_loss(sizes, [block_energy(name, 27, s) for s in sizes])
        rows = [
            weight * np.kron(np.eye(27 // size), np.ones((1, size)))
            for size, weight in zip(sizes, weights, strict=True)
        ]
        strategy = np.vstack(rows)
        check(loss, np.trace(small @ np.linalg.inv(strategy.T @ strategy)), rtol=1e-8)

    def time_mmech(self, workload_n_p):
        options = {"template": "pidentity", "p": self.p, "seed": 0}
        return optimize(self.workload, **options).loss

    def time_best_tree(self, workload_n_p):
        name, n, _ = workload_n_p
        return best_tree(name, n)[0]

    def track_loss_over_best_tree(self, workload_n_p):
        return self.time_mmech(workload_n_p) / self.time_best_tree(workload_n_p)


class PIdentityDescent:
    """One start on all ranges until the loss settles, the same descent dense."""

    params = ([64, 256],)
    param_names = ("n",)

    def setup(self, n):
        self.p = n // 16
        check(self.time_mmech(n), self.time_dense(n), rtol=0.01)

    def time_mmech(self, n):
        options = {"p": self.p, "n_starts": 1, "tolerance": 1e-5, "seed": 0}
        return optimize(AllRange(n), template="pidentity", **options).loss

    def time_dense(self, n):
        return dense_descent(range_gram(n), self.p, ftol=1e-5)


BEST_KNOWN = {
    "AllRange(256)": (AllRange(256), 16, 1.0668e6),
    "Prefix(256)": (Prefix(256), 16, 6864.1),
}
"""Workload, number of extra queries, and the least loss of long runs of many starts."""


class PIdentityWhole:
    """The default options, beside one dense descent of at most 20 iterations.

    The dense descent starts from blocks of neighbours and does not get as far.
    """

    params = (list(BEST_KNOWN),)
    param_names = ("workload",)

    def setup(self, name):
        self.workload, self.p, self.best = BEST_KNOWN[name]
        self.reached = self.time_mmech(name)
        check(self.reached, self.best, rtol=0.01)

    def time_mmech(self, name):
        options = {"template": "pidentity", "p": self.p, "seed": 0}
        return optimize(self.workload, **options).loss

    def time_dense(self, name):
        gram = self.workload.gram().to_dense().astype(np.float64)
        return dense_descent(gram, self.p, ftol=1e-8, maxiter=20)

    def track_mmech_loss_over_best_known(self, name):
        return self.reached / self.best


class Trees:
    """The tree that is found over an ordered domain, beside the best b-ary one."""

    params = ([AllRange, Prefix], [2**10])
    param_names = ("workload", "n")

    def setup(self, workload, n):
        self.workload = workload(n)
        self.ratio = self.time_mmech(workload, n) / self.time_best_tree(workload, n)
        assert self.ratio < 1

    def time_mmech(self, workload, n):
        return optimize(self.workload, template="hierarchy").loss

    def time_best_tree(self, workload, n):
        """Branching 2 to 256 on a domain filled up by empty cells, best budgets."""
        return best_tree(workload.__name__, n)[0]

    def track_loss_over_best_tree(self, workload, n):
        return self.ratio
