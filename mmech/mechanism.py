"""Select, measure, reconstruct: the public front door of the engine."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.arrays import Subset
from mmech.checks import (
    check_bool,
    check_choice,
    check_counts,
    check_finite_array,
    check_integer,
)
from mmech.error import pairs
from mmech.error.report import quantile_of_whole_noise
from mmech.error.result import StrategyResult
from mmech.error.shared_totals import (
    VARIANCE_FLOOR,
    EqualTotals,
    cells_of,
    measured_sets,
)
from mmech.exceptions import (
    ParameterError,
    PrivacyLeakWarning,
    UnsupportedWorkloadError,
    keeping,
)
from mmech.integer_strategy import IntegerStrategy, integer_strategy
from mmech.marginals.counts import Counts
from mmech.marginals.records import OccupiedCells, exact_answers
from mmech.noise import LAWS, Law, Price, check_insecure_rng, law_and_cost
from mmech.noise.tails import SLACK, half_widths
from mmech.operators.base import QueryMatrix
from mmech.operators.explicit import Dense, Matrix, as_pair, as_query_matrix
from mmech.operators.known import normal_form
from mmech.privacy.guards import Settled
from mmech.privacy.ledger import LedgerEntry, PrivacyLedger
from mmech.privacy.neighbours import Relation
from mmech.reconstruction import METHODS, MarginalEstimate
from mmech.release import (
    Measurement,
    Run,
    ledger_or_own,
    measure,
    planned,
    whole_numbers,
)
from mmech.strategies import optimize
from mmech.threads import one_blas_thread

MOST_SUMS = 2**62
"""Arithmetic: bound on answers of the strategy, so that noise fits beside them."""

LISTED = 2**24
"""Most entries of weights on noise that laws of errors are made of, some seconds."""


class MatrixMechanism(Settled):
    """Answer a workload under differential privacy by measuring a strategy.

    Measures ``y = A x + noise``, reconstructs ``x^ = A⁺ y`` and answers ``W x^``, so
    that the noise in the answers is ``W A⁺`` times the noise. Under pure `epsilon` the
    noise is ``Lap(‖A‖₁ / ε)``; under `rho` of zCDP it is ``N(0, ‖A‖₂² / (2 ρ))``. A
    table of counts with k columns (classes) costs the same as one: a record lies in
    one column.

    The guarantee holds for the numbers that come out, not for idealised real ones. The
    strategy is rounded to integers before anything is measured. Its answers and its
    sensitivity are exact, and the noise is made of integers and drawn exactly.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries W to answer, or the `StrategyResult` of an optimization for them.
    strategy : the same, shape (p, n), or StrategyResult, default=None
        Queries A to measure; ``None`` takes the result's own, or optimizes one for the
        noise. The result of an optimization for another norm is refused.
    epsilon, rho : float, str or Fraction
        Cost of each measurement, in nats; exactly one of the two. `epsilon_from_rho`
        turns a sum of rho into (epsilon, delta).
    noise : str, default=None
        Name of a law of noise (`mmech.noise.LAWS`); ``None`` takes the law of an
        optimized result, else Laplace noise for `epsilon` and Gaussian noise for `rho`.
        "k_norm" is for strategies of marginals: those in a row of equal weight are
        measured together, with noise of equal totals.
    neighbours : {"add_remove", "replace", "labels"}, default="add_remove"
        Whether neighbours differ by adding or removing one record, or by replacing
        one, which doubles the sensitivity. "labels" replaces only its label: attributes
        are public.
        A new label moves a record to another cell or column, which is a replacement:
        "labels" has the noise of "replace".
    records_per_person : int, default=1
        Largest number of records of one person, public: the cost is per person.
    contribution : int, default=1
        Largest L1 change of the counts that adding or removing one record can
        cause: 1 for a table of records, the number of trees for the leaf counts of
        a forest. Multiplies the sensitivity.
    signed : bool, default=False
        Accept negative counts (differences of counts). Otherwise a record adds to
        counts and takes away from none.
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
    law : Law
        Law of the noise.
    cost : Fraction
        Cost of each measurement, in the currency of the law.
    ledger : PrivacyLedger
        What was spent.

    Raises
    ------
    UnsupportedWorkloadError
        If a query is not a combination of strategy queries.
    TypeError
        If not exactly one of `epsilon` and `rho` is given.
    ValueError
        If the cost is not a finite number > 0, the domains differ, or the strategy was
        optimized for another norm.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``, ``notebooks/proofs/gaussian.md`` and
    ``notebooks/proofs/k_norm.md``.

    References
    ----------
    .. [1] Li, Hay, Rastogi, Miklau, McGregor, "Optimizing linear counting
       queries under differential privacy", PODS 2010, Definition 7.
    .. [2] Bun, Steinke, "Concentrated differential privacy: simplifications,
       extensions, and lower bounds", TCC 2016, Proposition 1.6.
    .. [3] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020, Theorem 4.

    Examples
    --------
    >>> from mmech import Identity, MatrixMechanism, Prefix, epsilon_from_rho
    >>> mechanism = MatrixMechanism(Prefix(4), Identity(4), epsilon=1.0)
    >>> mechanism.answer([10, 20, 5, 0]).shape
    (4,)
    >>> round(mechanism.expected_error(), 3)  # continuous noise would give 20
    18.413
    >>> mechanism = MatrixMechanism(Prefix(4), Identity(4), rho=0.1)
    >>> mechanism.expected_error()
    50.0
    >>> answers = mechanism.answer([10, 20, 5, 0])
    >>> round(epsilon_from_rho(mechanism.ledger.spent, 1e-6), 2)
    2.14
    """

    _kind = "mechanism"

    def __init__(
        self,
        workload: Matrix,
        strategy: Matrix | StrategyResult | None = None,
        *,
        epsilon: Any = None,
        rho: Any = None,
        noise: str | None = None,
        neighbours: str = "add_remove",
        records_per_person: int = 1,
        contribution: int = 1,
        signed: bool = False,
        ledger: PrivacyLedger | None = None,
        insecure_rng: Any = None,
    ) -> None:
        law, self.cost = law_and_cost(epsilon, rho, noise)
        self.relation = Relation(neighbours, records_per_person)
        self.contribution = check_integer(contribution, "contribution")
        self.signed = check_bool(signed, "signed")
        self.ledger = ledger_or_own(ledger, law, self.relation)
        with one_blas_thread():
            self.workload, self.strategy, law = _checked_pair(
                workload, strategy, law, noise
            )
            self.released = _measurable(self.workload, self.strategy, law.norm)
        self._sets: list[list[Subset]] = []
        if law.grouped is not None:
            sizes, self._sets = measured_sets(self.released)
            law = law.grouped(cells_of(sizes, self._sets))
        self.law = law
        self._noise = check_insecure_rng(insecure_rng)

    @property
    def neighbours(self) -> str:
        """Name of the neighbour relation."""
        return self.relation.neighbours

    def __repr__(self) -> str:
        return (
            f"MatrixMechanism(workload={self.workload._label()}, "
            f"strategy={self.strategy._label()}, "
            f"{self.law.currency}={float(self.cost):g}, "
            f"neighbours={self.relation.neighbours!r})"
        )

    @one_blas_thread()
    def measure(
        self, counts: ArrayLike | Counts, *, released: str | None = None
    ) -> Measurement:
        """Measure the strategy with noise; spends the cost.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k), or Counts
            Number of records in every cell, or in every cell and class; or for
            domains of any size `Counts`, whose last attribute is the class where it is
            one more than the cells have.
        released : str, default=None
            What is measured, in words, for the ledger.

        Returns
        -------
        Measurement
            Values of shape (p,) or (p, k).

        Raises
        ------
        ValueError
            If counts are negative (unless ``signed=True``), fractional or of the
            wrong length, or a single count is above 2^62, or 2^53 as a float; nothing
            is spent. If their sums leave 64 bits, as happens with huge weights; the
            cost is spent, and the guarantee does not cover this refusal.
        BudgetExceededError
            If the ledger does not cover the cost; nothing is spent.

        Warns
        -----
        PrivacyLeakWarning
            If counts look like codes of records: a column per attribute of the
            workload, all below its size. This comes before the charge, and the
            guarantee does not cover it.
        """
        if not isinstance(counts, Counts):
            counts = check_counts(counts, self.workload.shape[1], signed=self.signed)
            self._warn_of_codes(counts)
        return self._measured(counts, released or self._words, self._price)

    def _warn_of_codes(self, table: NDArray[np.int64]) -> None:
        """Warn of a table that looks like records, which are to be counted first."""
        sizes = normal_form(self.workload).domain_shape or ()
        if len(sizes) < 2 or table.shape[1:] != (len(sizes),):
            return
        if table.any() and ((table >= 0) & (table < sizes)).all():
            warnings.warn(
                "counts look like codes of records, with a column per attribute; pass "
                "Counts(codes, domain_shape), because codes as counts are not protected"
                " as records. This warning depends on the counts, and is outside the "
                "guarantee",
                PrivacyLeakWarning,
                stacklevel=4,
            )

    def _measured(
        self, counts: ArrayLike | Counts, released: str, price: Price
    ) -> Measurement:
        answers, bound = self._strategy_answers(counts)
        return measure(
            answers,
            self._runs(),
            self.law,
            self.cost,
            released=released,
            relation=self.relation,
            ledger=self.ledger,
            noise=self._noise,
            check=partial(self._check_sums, bound),
            price=price,
            strategy=self.released.multiplied,
            contribution=self.contribution,
            signed=self.signed,
        )

    @property
    def _words(self) -> str:
        return f"counts measured by {self.strategy._label()}"

    @property
    def planned(self) -> LedgerEntry:
        """What a measurement will be charged as, for `PrivacyLedger.what_if`."""
        *_, entry = planned(
            self._runs(), self.law, self.cost, self._words, self.relation, self._price
        )
        return entry

    @cached_property
    def _price(self) -> Price:
        """What a measurement costs in rho, and which rows neighbours move.

        Records of a table add to counts, so that in a row of entries >= 0 those that
        are replaced make up for each other: each side is priced by itself. Unit changes
        that share rows are put together where they are two, or move one row each.
        """
        pricing = self.law.pricing
        if pricing is None:
            return Price()
        whole = moves = self.relation.factor * self.contribution
        one_way = self.contribution == 1 and not self.signed
        if one_way and self.released.is_nonnegative:
            moves = self.relation.records_per_person
        sides = whole // moves
        rows = self.released.dominating_column()
        if moves > 2 and any(times > 1 for *_, times in rows):
            rows = []
        moved = tuple((row, moves * entry, sides * n) for row, entry, n in rows)
        return Price(pricing.of_strategy(self.released, self.cost, whole, moves), moved)

    def _strategy_answers(self, counts: ArrayLike | Counts) -> tuple[NDArray[Any], int]:
        """Return A' x without noise, and what bounds its sums. Sensitive.

        Exact where the bound passes `_check_sums`.
        """
        if isinstance(counts, Counts):
            cells = OccupiedCells.of(counts, self.workload.shape[1])
            matrices = self.released.multiplied
            largest = max(int(m.sensitivity()) for m in matrices)
            bound = counts._total() * largest
            if bound >= MOST_SUMS:  # refused once the charge is made
                return np.zeros(self.released.shape[0], np.int64), bound
            found = np.concatenate([exact_answers(m, cells) for m in matrices])
            return whole_numbers(found), bound
        exact = check_counts(counts, self.workload.shape[1], signed=self.signed)
        columns = exact.reshape(exact.shape[0], -1)
        answers = self.released.product(columns)
        records = int(np.abs(exact.astype(np.float64)).sum(axis=0).max(initial=0.0))
        bound = records * self.released.largest_entry
        return answers.reshape(-1, *exact.shape[1:]), bound

    def _check_sums(self, bound: int) -> None:
        """Raise where strategy answers leave 64 bits, once the charge is made.

        Beyond any table of records unless weights are huge, but it depends on them: a
        refusal that cost nothing could be repeated until it told their number.
        """
        if bound >= MOST_SUMS:
            raise ValueError(
                "sums of so many records overflow 64-bit integers in the strategy "
                f"{self.strategy._label()}; are the counts right? Nothing was "
                "released, but what a measurement costs is spent, because this refusal "
                "tells about the counts"
            )

    def _runs(self) -> list[Run]:
        """Return runs of rows, and how much one record changes them.

        Every marginal of a run, where their noise has equal totals.
        """
        runs = self.released.row_weights()
        size = self.released.sensitivity
        if self._sets:
            size = sum(weight for *_, weight in runs)
        size *= self.contribution**self.law.power
        return [(start, stop, Fraction(size, weight)) for start, stop, weight in runs]

    def _parameters(self) -> list[Fraction]:
        """Return the exact parameter of the noise, one per run."""
        factor = self.relation.factor**self.law.power
        return [
            self.law.of_rows(start, stop).parameter(factor * size, self.cost)
            for start, stop, size in self._runs()
        ]

    def _variances(self) -> list[float]:
        """Return the exact variance of independent noise, one per run."""
        return [self.law.variance(parameter) for parameter in self._parameters()]

    @cached_property
    def equal_totals(self) -> EqualTotals | None:
        """What is known of noise with equal totals; ``None`` of other noise."""
        if not self._sets:
            return None
        form: Any = self.released.form
        return EqualTotals.of(form.domain_shape, self._sets, self._parameters())

    @cached_property
    def _whitened(self) -> tuple[QueryMatrix, NDArray[np.float64]]:
        """The measured strategy with noise of variance one, and the factors (p,).

        Under noise with equal totals, what makes the same errors, without factors.
        """
        if self.equal_totals is not None:
            return self.equal_totals.residuals(), np.ones(0)
        sizes = [stop - start for start, stop, _ in self._runs()]
        variances = np.array(self._variances())
        # At a huge budget variances underflow; only their ratios matter then.
        moved = np.array([float(size) for _, _, size in self._runs()])
        floor = VARIANCE_FLOOR * np.square(moved / moved.min())
        variances = np.maximum(variances, floor)
        factors = np.repeat(1.0 / np.sqrt(variances), sizes)
        return self.released.scaled(factors), factors

    @one_blas_thread()
    def reconstruct(
        self, measurement: Measurement, method: str = "least_squares"
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
            The latter from marginals over more than 20 attributes or 2^24 cells: it
            answers without listing the cells.

        Raises
        ------
        ValueError
            If `method` is "nonnegative" and the mechanism accepts signed counts.
        """
        check_choice(method, "method", tuple(METHODS))
        if not isinstance(measurement, Measurement):
            raise TypeError(
                "measurement must be the Measurement that measure() returned, got "
                f"{type(measurement).__name__}"
            )
        if measurement.entry.kind != self.law.name:
            raise TypeError(
                f"the measurement has {measurement.entry.kind} noise but this "
                f"mechanism measures with {self.law.name} noise; pass what its own "
                "measure() returned"
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
        if self.equal_totals is not None:
            return METHODS[method](*self.equal_totals.weighed(measurement.values))
        if len(self._runs()) == 1:
            return METHODS[method](self.released.form, measurement.values)
        strategy, factors = self._whitened
        values = measurement.values * factors.reshape(
            -1, *[1] * (measurement.values.ndim - 1)
        )
        return METHODS[method](strategy, values)

    @one_blas_thread()
    def expected_error(self) -> float:
        """Return the expected total squared error of one column of answers.

        Exact for what `measure` and `reconstruct` do: the rounded strategy and the
        variance of the discrete noise.

        Returns
        -------
        float
            In squared counts.
        """
        if len(self._runs()) == 1 and self.equal_totals is None:
            gain = pairs.gain(self.workload, self.released.form)
            return float(gain * self._variances()[0])
        return float(pairs.gain(self.workload, self._whitened[0]))

    @one_blas_thread()
    def per_query_error(self) -> NDArray[np.float64]:
        """Return the expected squared error of every query, for one column.

        Returns
        -------
        ndarray of float64, shape (m,)
            Exact like `expected_error`, which is their sum.
        """
        return pairs.row_gains(self.workload, self._whitened[0])

    @one_blas_thread()
    def answer(self, counts: ArrayLike | Counts) -> NDArray[np.float64]:
        """Answer all queries of the workload; spends the budget.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k), or Counts
            Number of records in every cell, or in every cell and class; or for
            domains of any size `Counts`, whose last attribute is the class where it is
            one more than the cells have.

        Returns
        -------
        ndarray of float64, shape (m,) or (m, k)

        Raises
        ------
        BaseException
            What `measure` raises. Whatever stops the work after the measurement,
            ``KeyboardInterrupt`` included, has it as its attribute ``measurement``, for
            `answer_from`.
        """
        measurement = self.measure(counts)
        spent = f"{self.law.currency} = {self.cost}"
        with keeping(spent, "answer_from() answers", measurement=measurement):
            return self.answer_from(measurement)

    @one_blas_thread()
    def answer_from(self, measurement: Measurement) -> NDArray[np.float64]:
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

    @one_blas_thread()
    def confidence_interval(
        self, measurement: Measurement, level: float = 0.95
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return intervals of the answers from a measurement; free of privacy cost.

        Around the answers of `answer_from`, by the exact law of the noise in each, as
        `half_width` has it. More than 256 queries or so share laws, and have intervals
        that are 1 % longer. Those of coarse noise, or of more than 16 million entries
        of the strategy, have bounds by their variance.

        Parameters
        ----------
        measurement : Measurement
            What `measure` returned.
        level : float, default=0.95
            Probability that one interval holds its exact answer; not a joint
            probability for all of them.

        Returns
        -------
        lower, upper : ndarray of float64, shape (m,) or (m, k)

        Examples
        --------
        >>> from mmech import Identity, MatrixMechanism, Prefix
        >>> mechanism = MatrixMechanism(Prefix(4), Identity(4), epsilon=1)
        >>> measurement = mechanism.measure([10, 20, 5, 0])
        >>> lower, upper = mechanism.confidence_interval(measurement)
        >>> (upper - lower).round(1)
        array([ 6.,  8., 10., 12.])
        """
        answers = self.answer_from(measurement)
        half = self._half_widths(self.workload, level)
        half = half.reshape(-1, *[1] * (answers.ndim - 1))
        return answers - half, answers + half

    @one_blas_thread()
    def half_width(self, weights: ArrayLike, level: float = 0.95) -> float:
        """Return half the width of the interval of a weighted sum of answers.

        Parameters
        ----------
        weights : array_like, shape (m,)
            What every answer counts for.
        level : float, default=0.95
            Probability that the error of the sum is at most as large.

        Returns
        -------
        float
            By the exact law of the noise, before anything is measured and free of
            privacy cost; by a bound under noise of equal totals.

        Raises
        ------
        ValueError
            If there is not one finite weight for each query, or the level is not
            between 0 and 1.

        Examples
        --------
        >>> from mmech import Identity, MatrixMechanism, Prefix
        >>> mechanism = MatrixMechanism(Prefix(4), Identity(4), epsilon=1)
        >>> round(mechanism.half_width([1, 1, 0, 0]), 1)
        6.0
        """
        array = check_finite_array(weights, "weights", ndim=1)
        if array.size != (m := self.workload.shape[0]):
            raise ParameterError(
                "weights", f"must be {m:,}, one for each query", f"{array.size:,}"
            )
        sums = self.workload.rmatvec(array.astype(np.float64))
        return float(self._half_widths(Dense(sums[None]), level)[0])

    def _half_widths(
        self, queries: QueryMatrix, level: float, exact: bool = True
    ) -> NDArray[np.float64]:
        """Return half the widths of intervals of queries, (m,), or bounds on them."""
        (strategy, factors), equal = self._whitened, self.equal_totals
        unit = 1 / factors.max() if equal is None else math.sqrt(equal.contrasts.min())
        errors = np.sqrt(pairs.row_gains(queries, strategy))
        half = quantile_of_whole_noise(level, self.law.norm, unit) * errors
        entries = queries.shape[0] * max(strategy.shape)
        if equal is not None or not exact or entries > LISTED:
            return half
        noise = strategy.pinv().rmatmat(queries.to_dense().T).T * factors
        sizes = [stop - start for start, stop, _ in self._runs()]
        parameters = np.repeat([float(t) for t in self._parameters()], sizes)
        terms = noise, 1 / np.square(factors), parameters
        return np.minimum(half, half_widths(self.law, *terms, level) + SLACK)


def _checked_pair(
    workload: Any, strategy: Any, law: Law, noise: str | None
) -> tuple[QueryMatrix, QueryMatrix, Law]:
    """Return a workload, a strategy that supports it, and the law of its noise.

    The strategy is optimized if there is none, for the noise if that is named.
    """
    if strategy is None and isinstance(workload, StrategyResult):
        strategy = workload
    elif strategy is None:
        workload = as_query_matrix(workload, "workload")
        strategy = optimize(workload, template=law.template, privacy=law.privacy)
    if noise is None and isinstance(strategy, StrategyResult) and strategy.noise:
        named = LAWS[check_choice(strategy.noise, "noise", tuple(LAWS))]
        law = named if named.norm == law.norm else law
    workload, strategy = as_pair(workload, strategy, law.norm)
    if not pairs.supports(workload, strategy):
        raise pairs.unsupported(workload, strategy)
    return workload, strategy, law


def _measurable(
    workload: QueryMatrix, strategy: QueryMatrix, norm: str
) -> IntegerStrategy:
    """Return the strategy as integers that still support the workload."""
    for fine in (False, True):
        released = integer_strategy(strategy, norm=norm, fine=fine)
        if pairs.supports(workload, released.form):
            return released
    raise UnsupportedWorkloadError(
        f"the strategy {strategy!r} cannot answer the workload {workload!r} "
        "once its entries are rounded to integers; its rows are too close to "
        "dependent: add rows such as Identity to the strategy"
    )
