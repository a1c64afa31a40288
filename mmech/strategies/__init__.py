"""Strategy optimization: one file per template, and the selection among them."""

from mmech.strategies._bayes_risk import (
    BayesRisk,
    bayes_risk_strategy,
)
from mmech.strategies._designs import block_partitions, covering_design
from mmech.strategies._result import Candidate, StrategyResult
from mmech.strategies._reweight import reweight
from mmech.strategies._select import optimize

__all__ = [
    "BayesRisk",
    "Candidate",
    "StrategyResult",
    "bayes_risk_strategy",
    "block_partitions",
    "covering_design",
    "optimize",
    "reweight",
]
