"""Strategies that need no search: the identity, and the workload itself."""

from __future__ import annotations

from mmech.error import expected as error
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity
from mmech.strategies.result import StrategyResult

__all__ = ["identity_strategy", "workload_strategy"]


def identity_strategy(workload: QueryMatrix) -> StrategyResult:
    """Measure every cell: loss ‖W‖_F²."""
    strategy = Identity(workload.shape[1])
    return StrategyResult(strategy, "identity", error.loss(workload, strategy))


def workload_strategy(workload: QueryMatrix) -> StrategyResult:
    """Measure the workload itself (the Laplace mechanism): loss ‖W‖₁² rank(W).

    The least squares step that follows makes this at least as accurate as
    releasing the noisy answers directly, whose loss is ‖W‖₁² m.
    """
    return StrategyResult(workload, "workload", error.loss(workload, workload))
