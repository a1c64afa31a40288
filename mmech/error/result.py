"""What an optimization returns, and strategies as files."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mmech.error.bounds import cheap_loss_bound
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.storage.codec import is_storable, read, storable, write


def over_bound(loss: float, bound: float) -> float:
    """Return a loss over its bound: one where both are zero."""
    if bound == 0:
        return 1.0 if loss == 0 else math.inf
    return loss / bound


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
    ['pidentity', 'hierarchy', 'identity', ...]
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
        Norm ‖A‖ of a column that the loss is about. "L1" is for Laplace noise and pure
        epsilon. "L2" is for Gaussian noise and zCDP: the loss is ‖A‖₂² ‖W A⁺‖_F², and
        the expected error at rho is loss / (2 rho). A mechanism refuses the
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
        if self.workload is None:
            raise ValueError(
                "this result does not hold its workload, which the bound needs; divide "
                "expected_error by dual_bound of the workload instead"
            )
        bound, _ = cheap_loss_bound(self.workload)
        return over_bound(self.loss, bound / 2 if self.noise else bound)

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


# ---- files -----------------------------------------------------------------------


def save(path: str | os.PathLike[str], strategy: Matrix | StrategyResult) -> None:
    """Write a strategy to one file, to be measured again elsewhere or audited.

    A strategy is public: it depends on the workload, never on data. The file is
    replaced as a whole, so that an interrupted write leaves the old one.

    Parameters
    ----------
    path : str or path-like
        File to write.
    strategy : QueryMatrix, ndarray, SciPy sparse matrix or StrategyResult
        An operator, a matrix, or a result with its candidates and workload. A workload
        that cannot be stored is left out.

    Raises
    ------
    TypeError
        If the strategy holds an operator of a class that is not storable: all of this
        package are, others where `mmech.storage.codec.storable` says so.

    See Also
    --------
    load : read the file.

    Notes
    -----
    A ZIP archive of ``description.json`` and ``.npy`` arrays, without pickle.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Prefix, load, optimize, save
    >>> result = optimize(Prefix(64), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(os.path.join(folder, "prefix.mmech"), result)
    ...     copy = load(os.path.join(folder, "prefix.mmech"))
    >>> copy.loss == result.loss, copy.strategy
    (True, PIdentity(p=4, n=64) shape=(68, 64))
    """
    if not isinstance(strategy, StrategyResult):
        strategy = as_query_matrix(strategy, "strategy")
    elif not is_storable(strategy.workload):
        strategy = replace(strategy, workload=None)
    write(path, "strategy", strategy)


def load(path: str | os.PathLike[str]) -> QueryMatrix | StrategyResult:
    """Read a strategy that `save` wrote, bit for bit as it was.

    Runs no code from the file: it may come from anyone, although a strategy from
    elsewhere deserves a look at its sensitivity and error.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    QueryMatrix or StrategyResult

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is damaged, of another format or version, holds something else, or
        names a class that is not storable.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmech import Identity, Kronecker, Prefix, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "strategy.mmech")
    ...     save(path, Kronecker([Prefix(3), Identity(2)]))
    ...     load(path)
    Kronecker(Prefix(3), Identity(2)) shape=(6, 6)
    """
    loaded: QueryMatrix | StrategyResult = read(
        path, "strategy", (QueryMatrix, StrategyResult)
    )
    return loaded
