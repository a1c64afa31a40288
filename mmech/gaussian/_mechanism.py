"""Gaussian noise on a strategy, under zero-concentrated differential privacy."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech._guards import check_process
from mmech._validation import check_epsilon
from mmech.budget import PrivacyLedger
from mmech.gaussian._optimize import optimize_gaussian
from mmech.mechanism import StrategyMechanism
from mmech.noise import (
    check_insecure_rng,
    discrete_gaussian,
    discrete_gaussian_variance,
)
from mmech.noise._gaussian import check_variance
from mmech.noise._seam import drawn
from mmech.operators._base import QueryMatrix
from mmech.records import Records
from mmech.release import (
    Run,
    calibrated,
    check_measurement_scale,
    in_64_bits,
    per_row,
    whole_numbers,
)
from mmech.strategies import StrategyResult

__all__ = [
    "GaussianMeasurement",
    "GaussianMechanism",
    "GaussianRelease",
    "gaussian_release",
]


@dataclass(frozen=True, eq=False)
class GaussianMeasurement:
    """Strategy answers with Gaussian noise, safe to publish.

    Attributes
    ----------
    values : ndarray of int64, shape (p,) or (p, k)
        Noisy answers: what the integer strategy counts, plus discrete Gaussian noise.
    scale : float or ndarray of float64, shape (p,)
        Parameter σ of the noise, P(x) ∝ exp(-x² / 2σ²): one number where all rows
        share it. The exact σ² are fractions.
    sensitivity : float
        L2 sensitivity of the integer strategy, neighbour relation included, in units
        of the rows of largest weight: the smallest σ² is sensitivity² / (2 rho).
    rho : Fraction
        What the measurement cost, in zCDP.

    Examples
    --------
    >>> from mmech import GaussianMechanism, Identity
    >>> measurement = GaussianMechanism(Identity(3), rho=0.125).measure([4, 0, 9])
    >>> measurement.values.shape, measurement.scale
    ((3,), 2.0)
    """

    values: NDArray[np.int64]
    scale: float | NDArray[np.float64]
    sensitivity: float
    rho: Fraction

    def __post_init__(self) -> None:
        check_measurement_scale(self.scale)


@dataclass(frozen=True)
class GaussianRelease:
    """One release under zCDP, as its mechanism recorded it.

    Attributes
    ----------
    rho : Fraction
        What the release cost.
    released : str
        What was measured, in words.
    sensitivity : float
        L2 sensitivity that the noise was calibrated to.
    insecure : bool
        Whether the noise came from ``insecure_rng``: then nothing is private.

    Examples
    --------
    >>> from mmech import GaussianMechanism, Identity
    >>> mechanism = GaussianMechanism(Identity(2), rho="1/8")
    >>> answers = mechanism.answer([4, 9])
    >>> mechanism.releases
    (GaussianRelease(rho=Fraction(1, 8), released='counts measured by Identity(2)',
    sensitivity=1.0, insecure=False),)
    """

    rho: Fraction
    released: str
    sensitivity: float
    insecure: bool = False


def gaussian_release(
    values: ArrayLike,
    *,
    l2_sensitivity: Any = None,
    squared_l2_sensitivity: Any = None,
    rho: Any,
    neighbours: str = "add_remove",
    insecure_rng: Any = None,
) -> GaussianMeasurement:
    r"""Release whole numbers with discrete Gaussian noise.

    The parameter :math:`\sigma^2 = \Delta_2^2 / (2 \rho)` gives rho-zCDP
    (Canonne, Kamath, Steinke, NeurIPS 2020, Theorem 4). No ledger is charged: the
    caller records what it spends.

    Parameters
    ----------
    values : array_like of int
        Exact values, in counts. Sensitive.
    l2_sensitivity : int, Fraction or float, default=None
        L2 sensitivity of `values` when one record is added or removed. A float is
        taken for exactly the fraction that it is: ``math.sqrt(3)`` is less than the
        root of 3, and its square less than 3.
    squared_l2_sensitivity : int, Fraction or float, default=None
        Its square, in place of it: the way to give the root of a whole number.
    rho : float, str or Fraction
        zCDP parameter > 0, in nats.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` doubles the sensitivity.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Returns
    -------
    GaussianMeasurement

    Raises
    ------
    ValueError
        If values are not whole, or the sensitivity is not a finite number > 0.
    TypeError
        If not exactly one of the two sensitivities is given.

    Notes
    -----
    Proof: ``notebooks/proofs/gaussian.md``.

    Examples
    --------
    >>> from mmech import gaussian_release
    >>> gaussian_release([4, 0, 9], l2_sensitivity=1, rho="1/32").scale
    4.0

    Three sums, of which one record changes each by one: the L2 sensitivity is √3.

    >>> gaussian_release([4, 0, 9], squared_l2_sensitivity=3, rho="3/32").scale
    4.0
    """
    if (l2_sensitivity is None) == (squared_l2_sensitivity is None):
        raise TypeError(
            "gaussian_release needs either l2_sensitivity or squared_l2_sensitivity, "
            "one of the two"
        )
    if squared_l2_sensitivity is None:
        squared = calibrated(l2_sensitivity, neighbours) ** 2
    else:
        # Twice the sensitivity under "replace" is four times its square.
        squared = calibrated(squared_l2_sensitivity, neighbours)
        squared *= 2 if neighbours == "replace" else 1
    exact = in_64_bits(whole_numbers(values))
    rows = exact.shape[0] if exact.ndim else 1
    return _release_rows(
        exact,
        [(0, rows, squared)],
        squared=squared,
        rho=check_epsilon(rho, "rho"),
        insecure_rng=check_insecure_rng(insecure_rng),
    )


def _release_rows(
    values: NDArray[np.int64],
    runs: list[Run],
    *,
    squared: Fraction,
    rho: Fraction,
    insecure_rng: np.random.Generator | None,
) -> GaussianMeasurement:
    """Release rows whose σ² is (their own squared sensitivity) / (2 rho)."""
    variances = [check_variance(own / (2 * rho)) for _, _, own in runs]

    def add_noise() -> NDArray[np.int64]:
        noisy = values.copy()
        flat = noisy.reshape(-1) if noisy.ndim == 0 else noisy
        for (start, stop, _), variance in zip(runs, variances, strict=True):
            rows = flat[start:stop]
            rows += discrete_gaussian(variance, rows.shape, insecure_rng=insecure_rng)
        return noisy

    noisy = drawn(
        "gaussian", values, add_noise, runs=runs, variances=variances, rho=rho
    )
    scale = per_row([math.sqrt(variance) for variance in variances], runs)
    return GaussianMeasurement(noisy, scale, math.sqrt(squared), rho)


class GaussianMechanism(StrategyMechanism):
    """Answer a workload under zCDP by measuring a strategy with Gaussian noise.

    Measures ``y = A x + N(0, ‖A‖₂² / (2 ρ))``, reconstructs ``x^ = A⁺ y`` and answers
    ``W x^``. Each measurement is ρ-zCDP; releases add up, and `epsilon_from_rho`
    turns the sum into (epsilon, delta). A table of counts with k columns (classes)
    costs the same as one: a record lies in one column.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix or StrategyResult, default=None
        Queries A to measure, shape (p, n); ``None`` takes `optimize_gaussian`. The
        result of an optimization for Laplace noise is refused.
    rho : float, str or Fraction
        Cost of each measurement, in zCDP. Required.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Whether neighbours differ by adding or removing one record, or by
        replacing one (which doubles the sensitivity).
    contribution : int, default=1
        Largest L1 change of the counts that adding or removing one record can
        cause. Multiplies the sensitivity.
    signed : bool, default=False
        Accept negative counts (differences of counts).
    ledger : None
        Refused: a `PrivacyLedger` counts pure epsilon, and no finite epsilon
        pays for Gaussian noise.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Attributes
    ----------
    workload, strategy : QueryMatrix
        W and A.
    released : IntegerStrategy
        What is measured: A as integer rows with whole weights.
    releases : tuple of GaussianRelease
        What was measured so far. A record without a limit: adding up the rho of
        several mechanisms on the same records is the caller's part.
    rho_spent : Fraction
        Sum over the releases.

    Raises
    ------
    UnsupportedWorkloadError
        If a query is not a combination of strategy queries.
    TypeError
        If a ledger is passed.
    ValueError
        If `rho` is not a finite number > 0, the domains differ, or the strategy was
        optimized for Laplace noise.

    See Also
    --------
    MatrixMechanism : the same under pure epsilon, with Laplace noise.
    rho_from_epsilon_delta : the budget for an (epsilon, delta).

    Notes
    -----
    Proof: ``notebooks/proofs/gaussian.md``.

    References
    ----------
    .. [1] Bun, Steinke, "Concentrated differential privacy: simplifications,
       extensions, and lower bounds", TCC 2016, Proposition 1.6.
    .. [2] Canonne, Kamath, Steinke, "The discrete Gaussian for differential
       privacy", NeurIPS 2020, Theorem 4.

    Examples
    --------
    >>> from mmech import GaussianMechanism, Identity, Prefix, epsilon_from_rho
    >>> mechanism = GaussianMechanism(Prefix(4), Identity(4), rho=0.1)
    >>> mechanism.answer([10, 20, 5, 0]).shape
    (4,)
    >>> mechanism.expected_error()
    50.0
    >>> mechanism.rho_spent, round(epsilon_from_rho(mechanism.rho_spent, 1e-6), 2)
    (Fraction(1, 10), 2.14)
    """

    _norm = "L2"
    _measurement = GaussianMeasurement

    def __init__(
        self,
        workload: QueryMatrix,
        strategy: QueryMatrix | StrategyResult | None = None,
        *,
        rho: Any,
        neighbours: str = "add_remove",
        contribution: int = 1,
        signed: bool = False,
        ledger: Any = None,
        insecure_rng: Any = None,
    ) -> None:
        self.rho = check_epsilon(rho, "rho")
        if ledger is not None:
            _refuse_ledger(ledger, self.rho)
        super().__init__(
            workload,
            strategy,
            neighbours=neighbours,
            contribution=contribution,
            signed=signed,
        )
        self._insecure_rng = check_insecure_rng(insecure_rng)
        self._releases: list[GaussianRelease] = []
        self._process = os.getpid()

    @staticmethod
    def _optimize(workload: QueryMatrix) -> StrategyResult:
        return optimize_gaussian(workload)

    @property
    def releases(self) -> tuple[GaussianRelease, ...]:
        """All releases so far, in order."""
        return tuple(self._releases)

    @property
    def rho_spent(self) -> Fraction:
        """Sum of the rho of all releases so far."""
        return sum((release.rho for release in self._releases), Fraction(0))

    def __repr__(self) -> str:
        return (
            f"GaussianMechanism(workload={self.workload._label()}, "
            f"strategy={self.strategy._label()}, rho={float(self.rho):g}, "
            f"neighbours={self.neighbours!r})"
        )

    def measure(self, counts: ArrayLike | Records) -> GaussianMeasurement:
        """Measure the strategy with noise; spends rho.

        Parameters
        ----------
        counts : array_like of int, shape (n,) or (n, k), or Records
            Number of records in every cell, or in every cell and class; or the
            records themselves, for domains of any size.

        Returns
        -------
        GaussianMeasurement
            Values of shape (p,) or (p, k).

        Raises
        ------
        ValueError
            If counts are negative (unless ``signed=True``), fractional or of the
            wrong length; nothing is spent. If their sums leave 64 bits, as happens
            with huge weights; rho is spent, and the guarantee does not cover this
            refusal.
        BudgetExceededError
            In another process than its own, where nothing would be recorded.
        """
        check_process(self._process, "a GaussianMechanism")
        exact, bound = self._strategy_answers(counts)
        runs = self._runs()
        for _, _, own in runs:
            check_variance(own / (2 * self.rho))
        squared = min(own for _, _, own in runs)
        # Recorded before the noise is drawn: an interruption counts as spent.
        self._releases.append(
            GaussianRelease(
                self.rho,
                self._released(),
                math.sqrt(squared),
                self._insecure_rng is not None,
            )
        )
        self._check_sums(bound)
        return _release_rows(
            in_64_bits(exact),
            runs,
            squared=squared,
            rho=self.rho,
            insecure_rng=self._insecure_rng,
        )

    def _runs(self) -> list[Run]:
        squared = self._record_size**2 * self.released.sensitivity
        return [
            (start, stop, Fraction(squared, weight))
            for start, stop, weight in self.released.row_weights()
        ]

    def _variances(self) -> list[float]:
        return [
            discrete_gaussian_variance(own / (2 * self.rho))
            for _, _, own in self._runs()
        ]


def _refuse_ledger(ledger: Any, rho: Fraction) -> None:
    if isinstance(ledger, PrivacyLedger):
        raise TypeError(
            "a PrivacyLedger counts pure epsilon and cannot pay for Gaussian noise of "
            f"rho = {float(rho):g}, which no finite epsilon covers; leave out ledger= "
            "and read rho_spent, or use MatrixMechanism with Laplace noise"
        )
    raise TypeError(
        f"ledger must be left out under zCDP, got {type(ledger).__name__}; the "
        "mechanism records what it spends in rho_spent"
    )
