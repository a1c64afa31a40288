"""What an optimization returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import as_query_matrix
from mmech.storage.codec import storable


@storable("Candidate")
@dataclass(frozen=True)
class Candidate:
    """One strategy that was considered.

    Attributes
    ----------
    template : str
        Family of the strategy.
    loss : float
        ‖A‖₁² ‖W A⁺‖_F²; of a skipped template what its `note` says, or infinity.
    seconds : float
        Time spent on it.
    note : str
        Why it was skipped or stopped early; empty otherwise.

    Examples
    --------
    >>> from mmech import Prefix, optimize
    >>> [candidate.template for candidate in optimize(Prefix(32), seed=0).candidates]
    ['pidentity', 'identity', ...]
    """

    template: str
    loss: float
    seconds: float
    note: str = ""


@storable("StrategyResult")
@dataclass(frozen=True, eq=False)
class StrategyResult:
    """An optimized strategy and how it was found.

    Functions take it in place of a strategy, and where only a workload is asked for in
    place of the workload it was optimized for.

    Attributes
    ----------
    strategy : QueryMatrix, shape (p, n)
        The queries to measure.
    template : str
        Family that the strategy belongs to.
    loss : float
        ‖A‖₁² ‖W A⁺‖_F²; the expected error at epsilon is 2 loss / epsilon².
    n_iter : int
        Iterations of the descent that produced the strategy, 0 for a closed form.
    success : bool
        Whether the descent reached its tolerance.
    message : str
        How it ended, in words.
    history : tuple of float
        Loss after every iteration, first to last.
    candidates : tuple of Candidate
        Everything that was considered, best first.
    workload : QueryMatrix, shape (m, n), or None
        What the strategy was optimized for.
    norm : {"L1", "L2"}
        Norm ‖A‖ of a column that the loss is about: "L1" for Laplace noise and pure
        epsilon, "L2" for Gaussian noise and zCDP, where the loss is ‖A‖₂² ‖W A⁺‖_F²
        and the expected error at rho is loss / (2 rho). A mechanism refuses the
        result of the other norm.
    noise : str or None
        Name of the law of noise that the loss is about, where that is not Laplace or
        Gaussian noise: "k_norm". A mechanism and error formulas that are given the
        result, and not its strategy alone, take it from there.

    Examples
    --------
    >>> from mmech import Total, optimize
    >>> optimize(Total(9))
    StrategyResult(template='identity', loss=1, strategy=Merged(Identity(1), 9 cells),
    n_iter=0, success=True)
    """

    strategy: QueryMatrix
    template: str
    loss: float
    n_iter: int = 0
    success: bool = True
    message: str = "closed form"
    history: tuple[float, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    workload: QueryMatrix | None = None
    norm: str = "L1"
    noise: str | None = None

    @cached_property
    def bound_ratio(self) -> float:
        """Loss over a lower bound on the loss of every strategy.

        At least one. The bound is one for Gaussian noise: under pure epsilon a ratio of
        two is typical of small domains, and it grows with the domain. K-norm noise may
        have half the variance of a bound for Laplace noise, and is compared with that.
        Computed on first use, in about a second at most: small workloads against
        the dual bound (`dual_bound`), larger ones against weaker bounds.
        """
        from mmech.error.bounds import cheap_loss_bound

        if self.workload is None:
            raise ValueError(
                "this result does not hold its workload, which the bound needs; divide "
                "expected_error by dual_bound of the workload instead"
            )
        bound, _ = cheap_loss_bound(self.workload)
        bound = bound / 2 if self.noise else bound
        if bound == 0:
            return 1.0 if self.loss == 0 else math.inf
        return self.loss / bound

    def __repr__(self) -> str:
        norm = "" if self.norm == "L1" else f", norm={self.norm!r}"
        norm += f", noise={self.noise!r}" if self.noise else ""
        return (
            f"StrategyResult(template={self.template!r}, loss={self.loss:.6g}, "
            f"strategy={self.strategy._label()}, n_iter={self.n_iter}, "
            f"success={self.success}{norm})"
        )


@as_query_matrix.register
def _(value: StrategyResult, name: str, norm: str | None = None) -> QueryMatrix:
    if name == "workload":
        if value.workload is None:
            raise ValueError("this result does not hold its workload; pass that itself")
        return value.workload
    if norm not in (None, value.norm):
        raise ValueError(
            f"the {name} was optimized for {value.norm} sensitivity but this noise is "
            f"calibrated to {norm} sensitivity; optimize for the same noise, or pass "
            "result.strategy to use it all the same"
        )
    return value.strategy


Callback = Callable[[StrategyResult], Any]
"""What `optimize` calls with intermediate results; True ends a search."""
