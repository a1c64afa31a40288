"""Strategies under zCDP, beside a general-purpose optimizer."""

import numpy as np
from scipy.optimize import minimize

from mmech import AllRange, Prefix, dual_bound, optimize

from ._common import check


class GaussianOptimum:
    """The dual algorithm under zCDP, beside a general-purpose descent.

    The contender minimises ``tr(V X⁻¹)`` over ``X = LLᵀ`` with unit diagonal by SciPy's
    L-BFGS, dense. It takes as many iterations as it needs to come within 1e-4.
    """

    params = ([AllRange, Prefix],)
    param_names = ("workload",)
    n = 64

    def setup(self, workload):
        self.workload = workload(self.n)
        self.gram = self.workload.gram().to_dense().astype(float)
        best = self.time_mmech(workload)
        check(self.time_lbfgs(workload), best, rtol=1e-3)

    def time_mmech(self, workload):
        return optimize(self.workload, privacy="zcdp").loss

    def time_lbfgs(self, workload):
        lower = np.tril_indices(self.n)

        def objective(values):
            factor = np.zeros((self.n, self.n))
            factor[lower] = values
            norms = np.linalg.norm(factor, axis=1)
            unit = factor / norms[:, None]
            inverse = np.linalg.inv(unit)
            loss = np.vdot(inverse @ self.gram, inverse)
            inner = -2.0 * inverse.T @ (inverse @ self.gram @ inverse.T)
            inner -= unit * np.einsum("ij,ij->i", inner, unit)[:, None]
            return loss, (inner / norms[:, None])[lower]

        start = np.eye(self.n)[lower]
        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 5000, "ftol": 1e-9},
        )
        return found.fun

    def track_loss_over_bound(self, workload):
        bound = dual_bound(self.workload, epsilon=1, tolerance=1e-6).bound / 2
        return optimize(self.workload, privacy="zcdp").loss / bound
