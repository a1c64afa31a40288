"""Strategy optimization: one file per template, and the selection among them."""

from mmech.strategies._bayes_risk import (
    BayesRisk,
    bayes_risk_strategy,
    block_partitions,
)
from mmech.strategies._result import Candidate, StrategyResult
from mmech.strategies._reweight import reweight
from mmech.strategies._select import optimize

__all__ = [
    "BayesRisk",
    "Candidate",
    "StrategyResult",
    "bayes_risk_strategy",
    "block_partitions",
    "optimize",
    "reweight",
]
