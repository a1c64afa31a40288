"""Strategy optimization: one file per template, and the selection among them."""

from mmech.marginals.designs import block_partitions, covering_design
from mmech.strategies.bayes_risk import (
    BayesRisk,
    bayes_risk_strategy,
)
from mmech.strategies.optimize import optimize
from mmech.strategies.result import Candidate, StrategyResult
from mmech.strategies.reweight import reweight

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
