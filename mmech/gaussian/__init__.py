"""Gaussian noise and zCDP: strategies, errors, mechanism and conversions.

Everything here is about L2 sensitivity and a budget `rho`. Everything outside of this
folder is about L1 sensitivity and pure `epsilon`, the default.
"""

from mmech.gaussian._conversion import (
    delta_from_rho,
    epsilon_from_rho,
    rho_from_epsilon_delta,
)
from mmech.gaussian._error import (
    gaussian_expected_error,
    gaussian_loss,
    gaussian_per_query_error,
    gaussian_rmse,
)
from mmech.gaussian._mechanism import (
    GaussianMeasurement,
    GaussianMechanism,
    GaussianRelease,
    gaussian_release,
)
from mmech.gaussian._optimize import optimize_gaussian

__all__ = [
    "GaussianMeasurement",
    "GaussianMechanism",
    "GaussianRelease",
    "delta_from_rho",
    "epsilon_from_rho",
    "gaussian_expected_error",
    "gaussian_loss",
    "gaussian_per_query_error",
    "gaussian_release",
    "gaussian_rmse",
    "optimize_gaussian",
    "rho_from_epsilon_delta",
]
