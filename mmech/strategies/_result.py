"""What an optimization returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from mmech.operators._base import QueryMatrix

__all__ = ["Candidate", "StrategyResult"]


@dataclass(frozen=True)
class Candidate:
    """One strategy that was considered.

    Attributes
    ----------
    template : str
        Family of the strategy.
    loss : float
        ‖A‖₁² ‖W A⁺‖_F², or a lower bound on it where `note` says so.
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


@dataclass(frozen=True, eq=False)
class StrategyResult:
    """An optimized strategy and how it was found.

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
    candidates: tuple[Candidate, ...] = field(default=())

    def __repr__(self) -> str:
        return (
            f"StrategyResult(template={self.template!r}, loss={self.loss:.6g}, "
            f"strategy={self.strategy._label()}, n_iter={self.n_iter}, "
            f"success={self.success})"
        )
