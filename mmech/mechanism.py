"""Select, measure, reconstruct: the public front door of the engine."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech import error
from mmech._validation import (
    check_choice,
    check_counts,
    check_epsilon,
    check_integer,
    check_same_domain,
)
from mmech.budget import NEIGHBOURS, PrivacyLedger
from mmech.exceptions import UnsupportedWorkloadError
from mmech.noise import check_insecure_rng, laplace
from mmech.operators._base import QueryMatrix
from mmech.strategies import StrategyResult, optimize

__all__ = ["MatrixMechanism", "Measurement", "laplace_release"]


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy strategy answers, safe to publish.

    Attributes
    ----------
    values : ndarray of float64, shape (p,) or (p, k)
        Noisy answers in counts.
    scale : float
        Scale b of the Laplace noise on every value; the variance is 2 b².
    sensitivity : float
        L1 sensitivity that the scale was calibrated to, neighbour relation
        included.
    epsilon : Fraction
        What the measurement cost.

    Examples
    --------
    >>> from mmech import Identity, MatrixMechanism
    >>> measurement = MatrixMechanism(Identity(3), epsilon=0.5).measure([4, 0, 9])
    >>> measurement.values.shape, measurement.scale
    ((3,), 2.0)
    """

    values: NDArray[np.float64]
    scale: float
    sensitivity: float
    epsilon: Fraction

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(
                f"a measurement needs a noise scale > 0, got {self.scale}; "
                "a noiseless measurement would not be private"
            )


def laplace_release(
    values: ArrayLike,
    *,
    sensitivity: float,
    epsilon: Any,
    released: str,
    neighbours: str = "add_remove",
    ledger: PrivacyLedger | None = None,
    insecure_rng: np.random.Generator | None = None,
) -> Measurement:
    """Release exact values with Laplace noise, paid for in a ledger.

    Every release of this package goes through here: the ledger is charged
    first, then the noise is drawn.

    Parameters
    ----------
    values : array_like
        Exact values, in counts. Sensitive.
    sensitivity : float
        L1 sensitivity of `values` when one record is added or removed.
    epsilon : float, str or Fraction
        Privacy parameter in nats.
    released : str
        What is released, in words, for the ledger.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` doubles the sensitivity.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` charges nobody.
    insecure_rng : numpy.random.Generator, default=None
        Noise source for tests, validated by the caller.

    Returns
    -------
    Measurement

    Raises
    ------
    BudgetExceededError
        If the ledger does not cover `epsilon`; nothing is drawn.
    ValueError
        If the sensitivity is not a finite number > 0, or the ledger is for
        another neighbour relation.

    Examples
    --------
    >>> from mmech import PrivacyLedger, laplace_release
    >>> ledger = PrivacyLedger(1.0)
    >>> release = laplace_release(
    ...     [4, 0, 9], sensitivity=1, epsilon=0.25, released="three counts",
    ...     ledger=ledger,
    ... )
    >>> release.scale, ledger.remaining
    (4.0, Fraction(3, 4))
    """
    exact = check_epsilon(epsilon)
    check_choice(neighbours, "neighbours", NEIGHBOURS)
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise ValueError(
            f"the sensitivity must be a finite number > 0, got {sensitivity}; "
            "a strategy whose entries are all zero measures nothing"
        )
    if neighbours == "replace":
        sensitivity = 2 * sensitivity
    scale = sensitivity / float(exact)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(
            f"epsilon = {float(exact):g} gives a noise scale of {scale}; "
            "choose epsilon within the range of a double"
        )
    array = np.asarray(values)
    if ledger is not None:
        if ledger.neighbours != neighbours:
            raise ValueError(
                f"the ledger accounts for neighbours={ledger.neighbours!r} but the "
                f"release is for {neighbours!r}; use the same relation for both"
            )
        ledger.spend(exact, released, sensitivity=sensitivity)
    noise = laplace(scale, array.shape, insecure_rng=insecure_rng)
    return Measurement(array + noise, scale, float(sensitivity), exact)


class MatrixMechanism:
    """Answer a workload under differential privacy by measuring a strategy.

    Measures ``y = A x + Lap(‖A‖₁ / ε)``, reconstructs ``x^ = A⁺ y`` and answers
    ``W x^``, so that the noise in the answers is ``W A⁺ Lap(‖A‖₁ / ε)``. A table
    of counts with k columns (classes) costs the same as one: a record lies in
    one column.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix or StrategyResult, default=None
        Queries A to measure, shape (p, n); ``None`` optimizes one.
    epsilon : float, str or Fraction
        Cost of each measurement, in nats. Required.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Whether neighbours differ by adding or removing one record, or by
        replacing one (which doubles the sensitivity).
    contribution : int, default=1
        Largest L1 change of the counts that adding or removing one record can
        cause: 1 for a table of records, the number of trees for the leaf counts of
        a forest. Multiplies the sensitivity.
    signed : bool, default=False
        Accept negative counts (differences of counts).
    ledger : PrivacyLedger, default=None
        Budget to charge for every measurement; ``None`` keeps a record in
        `ledger` without a limit.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Attributes
    ----------
    workload, strategy : QueryMatrix
        W and A.
    ledger : PrivacyLedger
        What was spent.

    Raises
    ------
    UnsupportedWorkloadError
        If a query is not a combination of strategy queries.
    ValueError
        If `epsilon` is not a finite number > 0 or the domains differ.

    References
    ----------
    .. [1] Li, Hay, Rastogi, Miklau, McGregor, "Optimizing linear counting
       queries under differential privacy", PODS 2010, Definition 7.

    Examples
    --------
    >>> from mmech import Identity, MatrixMechanism, Prefix
    >>> mechanism = MatrixMechanism(Prefix(4), Identity(4), epsilon=1.0)
    >>> mechanism.answer([10, 20, 5, 0]).shape
    (4,)
    >>> mechanism.expected_error()
    20.0
    """

    def __init__(
        self,
        workload: QueryMatrix,
        strategy: QueryMatrix | StrategyResult | None = None,
        *,
        epsilon: Any,
        neighbours: str = "add_remove",
        contribution: int = 1,
        signed: bool = False,
        ledger: PrivacyLedger | None = None,
        insecure_rng: Any = None,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.neighbours = check_choice(neighbours, "neighbours", NEIGHBOURS)
        if not isinstance(workload, QueryMatrix):
            raise TypeError(
                f"workload must be a query matrix, got {type(workload).__name__}; "
                "wrap arrays with Dense"
            )
        if strategy is None:
            strategy = optimize(workload).strategy
        elif isinstance(strategy, StrategyResult):
            strategy = strategy.strategy
        elif not isinstance(strategy, QueryMatrix):
            raise TypeError(
                "strategy must be a query matrix or a StrategyResult, got "
                f"{type(strategy).__name__}; wrap arrays with Dense"
            )
        check_same_domain(workload, strategy)
        if not error.supports(workload, strategy):
            raise UnsupportedWorkloadError(
                f"the strategy {strategy!r} cannot answer the workload {workload!r}: "
                "some query is not a combination of strategy queries; add rows such "
                "as Identity to the strategy"
            )
        if ledger is not None and not isinstance(ledger, PrivacyLedger):
            raise TypeError(
                f"ledger must be a PrivacyLedger, got {type(ledger).__name__}; use "
                "PrivacyLedger(epsilon_total)"
            )
        if ledger is None:
            ledger = PrivacyLedger(math.inf, neighbours=self.neighbours)
        self.workload = workload
        self.strategy = strategy
        self.contribution = check_integer(contribution, "contribution")
        self.signed = signed
        self.ledger = ledger
        self._insecure_rng = check_insecure_rng(insecure_rng)

    def __repr__(self) -> str:
        return (
            f"MatrixMechanism(workload={self.workload._label()}, "
            f"strategy={self.strategy._label()}, epsilon={float(self.epsilon):g}, "
            f"neighbours={self.neighbours!r})"
        )

    def measure(self, counts: ArrayLike) -> Measurement:
        """Measure the strategy with noise; spends epsilon.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k)
            Number of records in every cell, or in every cell and class.

        Returns
        -------
        Measurement
            Values of shape (p,) or (p, k).

        Raises
        ------
        ValueError
            If counts are negative (unless ``signed=True``), fractional or of the
            wrong length; nothing is spent.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is spent.
        """
        exact = check_counts(counts, self.workload.shape[1], signed=self.signed)
        records = np.abs(exact.astype(np.float64)).sum(axis=0).max(initial=0.0)
        if records * self.strategy.sensitivity() >= 2.0**62:
            raise ValueError(
                f"sums over {records:g} records overflow 64-bit integers in the "
                f"strategy {self.strategy._label()}; are the counts right?"
            )
        return laplace_release(
            self.strategy @ exact,
            sensitivity=self.contribution * self.strategy.sensitivity(),
            epsilon=self.epsilon,
            released=f"counts measured by {self.strategy._label()}",
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self._insecure_rng,
        )

    def reconstruct(
        self, measurement: Measurement, method: str = "least_squares"
    ) -> NDArray[np.float64]:
        """Estimate the counts from a measurement; free of privacy cost.

        Parameters
        ----------
        measurement : Measurement
            What `measure` returned.
        method : {"least_squares"}, default="least_squares"
            ``A⁺ y``: unbiased for every supported query.

        Returns
        -------
        ndarray of float64, shape (n,) or (n, k)
        """
        check_choice(method, "method", ("least_squares",))
        if not isinstance(measurement, Measurement):
            raise TypeError(
                "measurement must be the Measurement that measure() returned, got "
                f"{type(measurement).__name__}"
            )
        return np.asarray(self.strategy.pinv() @ measurement.values)

    def answer(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Answer all queries of the workload; spends epsilon.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k)
            Number of records in every cell, or in every cell and class.

        Returns
        -------
        ndarray of float64, shape (m,) or (m, k)
        """
        return np.asarray(self.workload @ self.reconstruct(self.measure(counts)))

    def expected_error(self) -> float:
        """Return the expected total squared error of one column of answers."""
        total = error.expected_error(self.workload, self.strategy, epsilon=self.epsilon)
        factor = self.contribution * (2 if self.neighbours == "replace" else 1)
        return total * factor**2
