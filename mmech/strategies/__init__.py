"""Strategy optimization: one file per template, and the selection among them."""

from mmech.strategies._result import Candidate, StrategyResult
from mmech.strategies._reweight import reweight
from mmech.strategies._select import optimize

__all__ = ["Candidate", "StrategyResult", "optimize", "reweight"]
