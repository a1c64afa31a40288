"""Checks of arguments that are operators."""

from __future__ import annotations

from typing import Any

from mmech.operators.base import QueryMatrix

__all__ = ["check_operator", "check_same_domain"]


def check_operator(value: Any, name: str) -> None:
    """Raise unless `value` is a query matrix."""
    if not isinstance(value, QueryMatrix):
        raise TypeError(
            f"{name} must be a query matrix, got {type(value).__name__}; wrap arrays "
            "with Dense"
        )


def check_same_domain(workload: Any, strategy: Any) -> None:
    """Raise unless both operators have the same number of columns."""
    check_operator(workload, "workload")
    check_operator(strategy, "strategy")
    if workload.shape[1] != strategy.shape[1]:
        raise ValueError(
            f"workload has {workload.shape[1]} columns but strategy has "
            f"{strategy.shape[1]}; both must equal the number of domain cells"
        )
