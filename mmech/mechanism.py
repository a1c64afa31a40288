"""Select, measure, reconstruct: the public front door of the engine."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
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
from mmech.noise import check_insecure_rng, laplace
from mmech.operators._base import QueryMatrix
from mmech.reconstruction import METHODS, MarginalEstimate
from mmech.records import Records, exact_answers
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
        check_measurement_scale(self.scale)


def check_measurement_scale(scale: float) -> None:
    """Raise unless a measurement carries noise."""
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(
            f"a measurement needs a noise scale > 0, got {scale}; "
            "a noiseless measurement would not be private"
        )


def calibrated_sensitivity(sensitivity: float, neighbours: str) -> float:
    """Return the sensitivity under a neighbour relation; ``"replace"`` doubles it."""
    check_choice(neighbours, "neighbours", NEIGHBOURS)
    if not (math.isfinite(sensitivity) and sensitivity > 0):
        raise ValueError(
            f"the sensitivity must be a finite number > 0, got {sensitivity}; "
            "a strategy whose entries are all zero measures nothing"
        )
    return float(2 * sensitivity if neighbours == "replace" else sensitivity)


def calibrated_scale(scale: float, budget: str, value: Fraction) -> float:
    """Return a noise scale, or raise if the budget makes it zero or infinite."""
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(
            f"{budget} = {float(value):g} gives a noise scale of {scale}; "
            f"choose {budget} within the range of a double"
        )
    return scale


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

    Every release under pure epsilon goes through here: the ledger is charged
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
    sensitivity = calibrated_sensitivity(sensitivity, neighbours)
    scale = calibrated_scale(sensitivity / float(exact), "epsilon", exact)
    array = np.asarray(values)
    if ledger is not None:
        if ledger.neighbours != neighbours:
            raise ValueError(
                f"the ledger accounts for neighbours={ledger.neighbours!r} but the "
                f"release is for {neighbours!r}; use the same relation for both"
            )
        ledger.spend(exact, released, sensitivity=sensitivity)
    noise = laplace(scale, array.shape, insecure_rng=insecure_rng)
    return Measurement(array + noise, scale, sensitivity, exact)


class StrategyMechanism(ABC):
    """What mechanisms that measure a strategy share, whatever their noise.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix, StrategyResult or None
        Queries A to measure, shape (p, n); ``None`` optimizes one.
    neighbours : {"add_remove", "replace"}
        Neighbour relation.
    contribution : int
        Largest L1 change of the counts by adding or removing one record.
    signed : bool
        Accept negative counts.
    """

    _insecure_rng: np.random.Generator | None

    _norm: str
    """Norm of the losses of results that this mechanism takes."""

    _measurement: type[Any]
    """What `measure` returns and `reconstruct` takes."""

    def __init__(
        self,
        workload: QueryMatrix,
        strategy: QueryMatrix | StrategyResult | None,
        *,
        neighbours: str,
        contribution: int,
        signed: bool,
    ) -> None:
        self.neighbours = check_choice(neighbours, "neighbours", NEIGHBOURS)
        if not isinstance(workload, QueryMatrix):
            raise TypeError(
                f"workload must be a query matrix, got {type(workload).__name__}; "
                "wrap arrays with Dense"
            )
        if strategy is None:
            strategy = self._optimize(workload).strategy
        elif isinstance(strategy, StrategyResult):
            if strategy.norm != self._norm:
                raise ValueError(
                    f"the strategy was optimized for {strategy.norm} sensitivity but "
                    f"{type(self).__name__} adds noise for {self._norm} sensitivity; "
                    "optimize for the same noise, or pass result.strategy to measure "
                    "it all the same"
                )
            strategy = strategy.strategy
        elif not isinstance(strategy, QueryMatrix):
            raise TypeError(
                "strategy must be a query matrix or a StrategyResult, got "
                f"{type(strategy).__name__}; wrap arrays with Dense"
            )
        check_same_domain(workload, strategy)
        if not error.supports(workload, strategy):
            raise error.unsupported(workload, strategy)
        self.workload = workload
        self.strategy = strategy
        self.contribution = check_integer(contribution, "contribution")
        self.signed = signed

    @staticmethod
    @abstractmethod
    def _optimize(workload: QueryMatrix) -> StrategyResult:
        """Choose a strategy for the noise of this mechanism."""

    def _strategy_answers(self, counts: ArrayLike | Records) -> NDArray[Any]:
        """Return A x without noise. Sensitive."""
        if isinstance(counts, Records):
            return exact_answers(self.strategy, counts)
        exact = check_counts(counts, self.workload.shape[1], signed=self.signed)
        records = np.abs(exact.astype(np.float64)).sum(axis=0).max(initial=0.0)
        if records * self.strategy.sensitivity() >= 2.0**62:
            raise ValueError(
                "sums of so many records overflow 64-bit integers in the strategy "
                f"{self.strategy._label()}; are the counts right?"
            )
        return np.asarray(self.strategy @ exact)

    def _released(self) -> str:
        return f"counts measured by {self.strategy._label()}"

    def _error_factor(self) -> float:
        """Return the factor on the squared error at sensitivity ‖A‖."""
        factor = self.contribution * (2 if self.neighbours == "replace" else 1)
        return float(factor) ** 2

    @abstractmethod
    def measure(self, counts: ArrayLike | Records) -> Any:
        """Measure the strategy with noise; spends the budget."""

    def reconstruct(
        self, measurement: Any, method: str = "least_squares"
    ) -> NDArray[np.float64] | MarginalEstimate:
        """Estimate the counts from a measurement; free of privacy cost.

        Parameters
        ----------
        measurement : Measurement
            What `measure` returned.
        method : {"least_squares", "nonnegative"}, default="least_squares"
            "least_squares" is ``A⁺ y``: unbiased for every supported query.
            "nonnegative" is the best fit without negative counts and with the
            same total: biased, closer where many counts are near zero. For tables
            that are published as counts; not for use before an arg max, which it
            was seen to make less accurate.

        Returns
        -------
        ndarray of float64, shape (n,) or (n, k), or MarginalEstimate
            The latter, which answers without listing the cells, from marginals over
            more than 20 attributes or 2^24 cells.

        Raises
        ------
        ValueError
            If `method` is "nonnegative" and the mechanism accepts signed counts.
        """
        check_choice(method, "method", tuple(METHODS))
        if not isinstance(measurement, self._measurement):
            raise TypeError(
                f"measurement must be the {self._measurement.__name__} that measure() "
                f"returned, got {type(measurement).__name__}"
            )
        if method == "nonnegative" and self.signed:
            raise ValueError(
                'method "nonnegative" is for counts of records, but this mechanism has '
                'signed=True; use method "least_squares"'
            )
        return METHODS[method](self.strategy, measurement.values)

    def answer(self, counts: ArrayLike | Records) -> NDArray[np.float64]:
        """Answer all queries of the workload; spends the budget.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k), or Records
            Number of records in every cell, or in every cell and class; or the
            records themselves, for domains of any size.

        Returns
        -------
        ndarray of float64, shape (m,) or (m, k)
        """
        estimate = self.reconstruct(self.measure(counts))
        if isinstance(estimate, MarginalEstimate):
            return estimate.answer(self.workload)
        return np.asarray(self.workload @ estimate)


class MatrixMechanism(StrategyMechanism):
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

    _norm = "L1"
    _measurement = Measurement

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
        super().__init__(
            workload,
            strategy,
            neighbours=neighbours,
            contribution=contribution,
            signed=signed,
        )
        if ledger is not None and not isinstance(ledger, PrivacyLedger):
            raise TypeError(
                f"ledger must be a PrivacyLedger, got {type(ledger).__name__}; use "
                "PrivacyLedger(epsilon_total)"
            )
        if ledger is None:
            ledger = PrivacyLedger(math.inf, neighbours=self.neighbours)
        self.ledger = ledger
        self._insecure_rng = check_insecure_rng(insecure_rng)

    @staticmethod
    def _optimize(workload: QueryMatrix) -> StrategyResult:
        return optimize(workload)

    def __repr__(self) -> str:
        return (
            f"MatrixMechanism(workload={self.workload._label()}, "
            f"strategy={self.strategy._label()}, epsilon={float(self.epsilon):g}, "
            f"neighbours={self.neighbours!r})"
        )

    def measure(self, counts: ArrayLike | Records) -> Measurement:
        """Measure the strategy with noise; spends epsilon.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k), or Records
            Number of records in every cell, or in every cell and class; or the
            records themselves, for domains of any size.

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
        return laplace_release(
            self._strategy_answers(counts),
            sensitivity=self.contribution * self.strategy.sensitivity(),
            epsilon=self.epsilon,
            released=self._released(),
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self._insecure_rng,
        )

    def expected_error(self) -> float:
        """Return the expected total squared error of one column of answers."""
        total = error.expected_error(self.workload, self.strategy, epsilon=self.epsilon)
        return total * self._error_factor()
