"""Select, measure, reconstruct: the public front door of the engine."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech import error
from mmech._guards import Settled
from mmech._validation import (
    check_choice,
    check_counts,
    check_epsilon,
    check_integer,
    check_same_domain,
)
from mmech.budget import NEIGHBOURS, PrivacyLedger
from mmech.exceptions import UnsupportedWorkloadError
from mmech.integer_strategy import integer_strategy
from mmech.noise import check_insecure_rng, discrete_laplace_variance
from mmech.operators._base import QueryMatrix
from mmech.reconstruction import METHODS, MarginalEstimate
from mmech.records import Records, exact_answers
from mmech.release import (
    Measurement,
    Run,
    laplace_release_of_rows,
    whole_numbers,
)
from mmech.strategies import StrategyResult, optimize

__all__ = ["MatrixMechanism"]

VARIANCE_FLOOR = 1e-24
"""Smallest variance of noise that least squares weights by."""


class StrategyMechanism(Settled, ABC):
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

    _kind = "mechanism"

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
        released = integer_strategy(strategy, norm=self._norm)
        if not error.supports(workload, released.form):
            released = integer_strategy(strategy, norm=self._norm, fine=True)
        if not error.supports(workload, released.form):
            raise UnsupportedWorkloadError(
                f"the strategy {strategy!r} cannot answer the workload {workload!r} "
                "once its entries are rounded to integers; its rows are too close to "
                "dependent: add rows such as Identity to the strategy"
            )
        self.released = released

    @staticmethod
    @abstractmethod
    def _optimize(workload: QueryMatrix) -> StrategyResult:
        """Choose a strategy for the noise of this mechanism."""

    def _strategy_answers(
        self, counts: ArrayLike | Records
    ) -> tuple[NDArray[Any], int]:
        """Return A' x without noise, and what bounds its sums. Sensitive.

        Exact where the bound passes `_check_sums`.
        """
        if isinstance(counts, Records):
            if counts.signed and not self.signed:
                raise ValueError(
                    "the records have signs, so their counts may be negative; make the "
                    "mechanism with signed=True"
                )
            blocks = [block.matrix for block in self.released.blocks]
            largest = max(int(matrix.sensitivity()) for matrix in blocks)
            found = np.concatenate([exact_answers(m, counts) for m in blocks])
            return whole_numbers(found), counts._codes.shape[1] * largest
        exact = check_counts(counts, self.workload.shape[1], signed=self.signed)
        columns = exact.reshape(exact.shape[0], -1)
        answers = np.concatenate(
            [block.matrix._matmat(columns) for block in self.released.blocks]
        )
        records = int(np.abs(exact.astype(np.float64)).sum(axis=0).max(initial=0.0))
        bound = records * self.released.largest_entry
        return answers.reshape(-1, *exact.shape[1:]), bound

    def _check_sums(self, bound: int) -> None:
        """Raise where strategy answers leave 64 bits, once the charge is made.

        Beyond any table of records unless weights are huge, but it depends on them: a
        refusal that cost nothing could be repeated until it told their number.
        """
        if bound >= 2**62:
            raise ValueError(
                "sums of so many records overflow 64-bit integers in the strategy "
                f"{self.strategy._label()}; are the counts right? Nothing was "
                "released, but what a measurement costs is spent, because this refusal "
                "tells about the counts"
            )

    def _released(self) -> str:
        return f"counts measured by {self.strategy._label()}"

    @property
    def _record_size(self) -> int:
        """Largest L1 change of the counts between neighbouring data sets."""
        return self.contribution * (2 if self.neighbours == "replace" else 1)

    @abstractmethod
    def _runs(self) -> list[Run]:
        """Return runs of rows with what the scale of their noise follows from."""

    @abstractmethod
    def _variances(self) -> Sequence[float]:
        """Return the exact variance of the noise, one per run."""

    @cached_property
    def _whitened(self) -> tuple[QueryMatrix, NDArray[np.float64]]:
        """The measured strategy with noise of variance one, and the factors (p,)."""
        sizes = [stop - start for start, stop, _ in self._runs()]
        variances = np.array(self._variances())
        # At a huge budget variances underflow; only their ratios matter then.
        own = np.array([float(own) for _, _, own in self._runs()])
        variances = np.maximum(variances, VARIANCE_FLOOR * np.square(own / own.min()))
        factors = np.repeat(1.0 / np.sqrt(variances), sizes)
        return self.released.scaled(factors), factors

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
        if measurement.values.shape[0] != self.released.shape[0]:
            raise ValueError(
                f"the measurement has {measurement.values.shape[0]} values but this "
                f"mechanism measures {self.released.shape[0]} queries; pass what its "
                "own measure() returned"
            )
        if len(self._runs()) == 1:
            return METHODS[method](self.released.form, measurement.values)
        strategy, factors = self._whitened
        values = measurement.values * factors.reshape(
            -1, *[1] * (measurement.values.ndim - 1)
        )
        return METHODS[method](strategy, values)

    def expected_error(self) -> float:
        """Return the expected total squared error of one column of answers.

        Exact for what `measure` and `reconstruct` do: the rounded strategy and the
        variance of the discrete noise.

        Returns
        -------
        float
            In squared counts.
        """
        if len(self._runs()) == 1:
            gain = error._gain(self.workload, self.released.form)
            return float(gain * self._variances()[0])
        return float(error._gain(self.workload, self._whitened[0]))

    def per_query_error(self) -> NDArray[np.float64]:
        """Return the expected squared error of every query, for one column.

        Returns
        -------
        ndarray of float64, shape (m,)
            Exact like `expected_error`, which is their sum.
        """
        return error._row_gains(self.workload, self._whitened[0])

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
        return self.answer_from(self.measure(counts))

    def answer_from(self, measurement: Any) -> NDArray[np.float64]:
        """Answer all queries of the workload from a measurement; free of privacy cost.

        Parameters
        ----------
        measurement : Measurement
            What `measure` returned.

        Returns
        -------
        ndarray of float64, shape (m,) or (m, k)
        """
        estimate = self.reconstruct(measurement)
        if isinstance(estimate, MarginalEstimate):
            return estimate.answer(self.workload)
        return np.asarray(self.workload @ estimate)


class MatrixMechanism(StrategyMechanism):
    """Answer a workload under differential privacy by measuring a strategy.

    Measures ``y = A x + Lap(‖A‖₁ / ε)``, reconstructs ``x^ = A⁺ y`` and answers
    ``W x^``, so that the noise in the answers is ``W A⁺ Lap(‖A‖₁ / ε)``. A table
    of counts with k columns (classes) costs the same as one: a record lies in
    one column.

    The guarantee holds for the numbers that come out, not for idealised real ones:
    the strategy is rounded to integers before anything is measured, its answers and
    its sensitivity are exact, and the noise is discrete Laplace drawn exactly.

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
    released : IntegerStrategy
        What is measured: A as integer rows with whole weights.
    ledger : PrivacyLedger
        What was spent.

    Raises
    ------
    UnsupportedWorkloadError
        If a query is not a combination of strategy queries.
    ValueError
        If `epsilon` is not a finite number > 0 or the domains differ.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``.

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
    >>> round(mechanism.expected_error(), 3)  # continuous noise would give 20
    18.413
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
            wrong length, or a single count is above 2^62, or 2^53 as a float; nothing
            is spent. If their sums leave 64 bits, as happens with huge weights;
            epsilon is spent, and the guarantee does not cover this refusal.
        BudgetExceededError
            If the ledger does not cover epsilon; nothing is spent.
        """
        runs = self._runs()
        answers, bound = self._strategy_answers(counts)
        return laplace_release_of_rows(
            answers,
            runs,
            sensitivity=min(own for _, _, own in runs),
            epsilon=self.epsilon,
            released=self._released(),
            neighbours=self.neighbours,
            ledger=self.ledger,
            insecure_rng=self._insecure_rng,
            check=partial(self._check_sums, bound),
        )

    def _runs(self) -> list[Run]:
        size = self._record_size * self.released.sensitivity
        return [
            (start, stop, Fraction(size, weight))
            for start, stop, weight in self.released.row_weights()
        ]

    def _variances(self) -> list[float]:
        return [
            discrete_laplace_variance(own / self.epsilon) for _, _, own in self._runs()
        ]
