"""Strategies for Gaussian noise: L2 sensitivity, and a budget of rho."""

from mmech.gaussian._optimize import optimize_gaussian

__all__ = ["optimize_gaussian"]
