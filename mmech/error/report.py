"""Error tables for people, and confidence intervals for noisy answers."""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_choice, check_level
from mmech.error import expected as error
from mmech.error import pairs
from mmech.error.bounds import cheap_loss_bound
from mmech.error.result import Candidate, StrategyResult, over_bound
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.noise import law_and_cost
from mmech.operators.explicit import Matrix, as_pair
from mmech.threads import one_blas_thread


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The error of a strategy on a workload, as a table.

    Prints as text and shows as HTML in notebooks. All numbers are for one column of
    counts, continuous noise and neighbours that add or remove a record.

    Attributes
    ----------
    loss : float
        ‖A‖² ‖W A⁺‖_F², in the norm of the noise.
    expected_error : float
        Expected total squared error, squared counts.
    rmse : float
        Root mean squared error of a query, counts.
    bound : float
        Lower bound on the expected error of every strategy, squared counts: the
        quantity that `svd_bound` and `dual_bound` bound.
    bound_name : str
        Which bound it is.
    bound_ratio : float
        `expected_error` over `bound`.
    sensitivity : float
        ‖A‖ in the norm of the noise: L1 for epsilon, L2 for rho.
    tie_delta : float or None
        For epsilon: the delta at which a Gaussian strategy at the bound, calibrated to
        (epsilon, delta), would have the same expected error. ``None`` for rho.
    standard_errors : tuple of float, or None
        Smallest, median and largest standard error of a query, in counts;
        ``None`` where they cost too much.
    candidates : tuple of Candidate
        What the optimizer considered, where a `StrategyResult` was given.
    rows : tuple of (str, str)
        The table.

    Examples
    --------
    >>> from mmech import Identity, Prefix, report
    >>> report(Prefix(4), Identity(4), epsilon=1.0).rmse
    2.23607
    """

    loss: float
    expected_error: float
    rmse: float
    bound: float
    bound_name: str
    bound_ratio: float
    sensitivity: float
    tie_delta: float | None
    standard_errors: tuple[float, float, float] | None
    candidates: tuple[Candidate, ...]
    rows: tuple[tuple[str, str], ...]

    def _candidate_rows(self) -> list[tuple[str, str, str, str]]:
        losses = [
            f"{c.loss:.6g}" if math.isfinite(c.loss) else "-" for c in self.candidates
        ]
        rows = zip(self.candidates, losses, strict=True)
        return [(c.template, loss, f"{c.seconds:.2f}", c.note) for c, loss in rows]

    def __str__(self) -> str:
        width = max(len(name) for name, _ in self.rows)
        lines = [f"{name:<{width}}  {value}" for name, value in self.rows]
        if self.candidates:
            table = [CANDIDATE_HEAD, *self._candidate_rows()]
            widths = [max(len(row[i]) for row in table) for i in range(3)]
            lines.append("")
            for template, loss, seconds, note in table:
                line = (
                    f"{template:<{widths[0]}}  {loss:>{widths[1]}}  "
                    f"{seconds:>{widths[2]}}  {note}"
                )
                lines.append(line.rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same content as an HTML table, for notebooks."""

        def line(cells: tuple[str, ...], tag: str = "td") -> str:
            inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{inner}</tr>"

        parts = ["<table>", *(line(row) for row in self.rows), "</table>"]
        if self.candidates:
            parts += ["<table>", line(CANDIDATE_HEAD, "th")]
            parts += [line(row) for row in self._candidate_rows()]
            parts.append("</table>")
        return "\n".join(parts)


CANDIDATE_HEAD = ("candidate", "loss", "seconds", "note")


@one_blas_thread()
def report(
    workload: Matrix,
    strategy: Matrix | StrategyResult,
    *,
    epsilon: Any = None,
    rho: Any = None,
) -> Report:
    """Tabulate the error of a strategy on a workload before any budget is spent.

    Standard errors of single queries come from closed forms where there are some, else
    from a pass over the workload. They are left out, with a note, where that pass has
    more than about 10⁸ entries, or for more than four million queries.

    Parameters
    ----------
    workload : QueryMatrix, ndarray or SciPy sparse matrix, shape (m, n)
        Queries to answer.
    strategy : the same, shape (p, n), or StrategyResult
        Queries that are measured; a result adds its candidates.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.

    Returns
    -------
    Report

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.
    ValueError
        If a result was optimized for noise of the other kind.

    Notes
    -----
    The bound is that for L2 sensitivity, under epsilon as well: no convex bound for L1
    sensitivity can be more than π/2 above it. At deltas below the tie, pure epsilon has
    the smaller error, and gives the stronger promise.

    References
    ----------
    .. [1] Balle, Wang, "Improving the Gaussian mechanism for differential privacy:
       analytical calibration and optimal denoising", ICML 2018, Theorem 8.

    Examples
    --------
    >>> from mmech import Identity, Prefix, report
    >>> report(Prefix(4), Identity(4), epsilon=1.0)
    workload            Prefix(4), 4 queries on 4 cells
    strategy            Identity(4), 4 measurements
    epsilon             1
    sensitivity         1
    loss                10
    expected error      20
    rmse                2.23607
    lower bound         13.7475 (dual, for L2 sensitivity)
    ratio to the bound  1.455
    tie with Gaussian   at delta = 0.0169, if that reached the bound
    standard errors     min 1.41421, median 2.22474, max 2.82843
    """
    result = strategy if isinstance(strategy, StrategyResult) else None
    law, cost = law_and_cost(epsilon, rho)
    operator = as_pair(workload, strategy, law.norm)[1]
    workload, measured, sensitivity = error.sized_pair(workload, strategy, law.norm)
    variance = law.continuous(cost)
    m, n = workload.shape
    try:
        loss = sensitivity**2 * pairs.gain(workload, measured)
    except DomainTooLargeError:
        if result is None:
            raise
        loss = result.loss
    total = variance * loss
    rmse = math.sqrt(total / m)
    loss_bound, bound_name = cheap_loss_bound(workload)
    k_norm = result is not None and bool(result.noise)
    if k_norm:  # it may have half the variance of a bound for Laplace noise
        loss_bound /= 2
    bound, ratio = variance * loss_bound, over_bound(loss, loss_bound)
    errors: tuple[float, float, float] | None = None
    spread = "omitted: no closed form for so many queries"
    with suppress(DomainTooLargeError):
        if m <= LIMITS.reported_queries:
            gains = variance * sensitivity**2 * pairs.row_gains(workload, measured)
            low, middle, high = np.quantile(np.sqrt(gains), [0, 0.5, 1]).tolist()
            errors = (low, middle, high)
            spread = f"min {low:.6g}, median {middle:.6g}, max {high:.6g}"
    rows = [
        ("workload", f"{workload._label()}, {m} queries on {n} cells"),
        ("strategy", f"{operator._label()}, {operator.shape[0]} measurements"),
        (law.currency, f"{float(cost):g}"),
        ("noise", "K-norm, of equal totals")
        if k_norm
        else ("sensitivity", f"{sensitivity:.6g}"),
        ("loss", f"{loss:.6g}"),
        ("expected error", f"{total:.6g}"),
        ("rmse", f"{rmse:.6g}"),
    ]
    if bound_name == "none":
        rows.append(("lower bound", "not computed: no closed form for so many cells"))
    else:
        norm = ", for L2 sensitivity" if law.norm == "L1" else ""
        rows.append(("lower bound", f"{bound:.6g} ({bound_name}{norm})"))
        rows.append(("ratio to the bound", f"{ratio:.4g}"))
    tie = None
    if law.norm == "L1" and bound > 0:
        tie = _delta_of_gaussian(float(cost), bound / total * float(cost) ** 2 / 4)
        text = f"at delta = {tie:.3g}, if that reached the bound"
        rows.append(("tie with Gaussian", text))
    if result is not None:
        rows.insert(2, ("template", result.template))
    rows.append(("standard errors", spread))
    return Report(
        loss=loss,
        expected_error=total,
        rmse=rmse,
        bound=bound,
        bound_name=bound_name,
        bound_ratio=ratio,
        sensitivity=sensitivity,
        tie_delta=tie,
        standard_errors=errors,
        candidates=() if result is None else result.candidates,
        rows=tuple(rows),
    )


def _delta_of_gaussian(epsilon: float, rho: float) -> float:
    """Return the delta that belongs to epsilon for Gaussian noise of a rho, exactly."""
    from scipy.special import log_ndtr, ndtr

    size = math.sqrt(2 * rho)
    above = math.exp(epsilon + float(log_ndtr(-epsilon / size - size / 2)))
    return float(ndtr(size / 2 - epsilon / size)) - above


# ---- confidence intervals ----------------------------------------------------


@one_blas_thread()
def confidence_interval(
    answers: ArrayLike,
    standard_errors: ArrayLike,
    level: float = 0.95,
    *,
    method: str = "bound",
    epsilon: Any = None,
    rho: Any = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    r"""Return intervals that hold the exact answers with a stated probability.

    These are for continuous noise, and for plans. Released numbers have noise of whole
    numbers: at an epsilon near 3 an interval of 95 % may hold a single count in 90 %
    of cases only. Results have methods of their own, for the noise that is drawn:
    `MatrixMechanism.confidence_interval`, `Stream.confidence_interval`, and the tables
    of `release_tables`.

    The noise of an unbiased (least squares) answer is a sum of independent Laplace
    variables. The sum is symmetric with a single peak, so that Gauss' inequality holds.
    One Laplace variable of the same variance bounds its moment generating function,
    which gives a Chernoff bound. ``"bound"`` takes the smaller of the two: valid for
    every answer, at 95 % with a half-width of 2.98 standard errors. Sums of Gaussian
    variables have smaller moments; where `rho` tells that the noise is Gaussian, the
    half-width is 2.72.

    Parameters
    ----------
    answers : array_like, shape (m,) or (m, k)
        Noisy answers, in counts.
    standard_errors : array_like, shape (m,) or broadcastable
        Square roots of `per_query_error`; for (m, k) answers of shape (m, 1).
    level : float, default=0.95
        Probability that one interval holds its exact answer; not a joint
        probability for all of them.
    method : {"bound", "laplace", "normal", "chebyshev"}, default="bound"
        "laplace" is exact where one measurement alone answers the query (cells
        measured by `Identity`) and not valid otherwise; "normal" is the usual
        approximation where many comparable measurements add up, and too short in
        the tails of Laplace noise; "chebyshev" holds for any noise with these standard
        errors.
    epsilon, rho : float, str or Fraction, default=None
        What was paid, at most one of the two: tells Laplace from Gaussian noise. The
        number itself, > 0, is in the standard errors.

    Returns
    -------
    lower, upper : ndarray of float64
        Ends of the intervals.

    See Also
    --------
    per_query_error : the squared standard errors.
    MatrixMechanism.confidence_interval : for what was measured, whose noise is exact.

    Notes
    -----
    Not for answers from non-negative reconstructions, which are biased.

    References
    ----------
    .. [1] Gauss, "Theoria combinationis observationum erroribus minimis
       obnoxiae", 1823, Art. 10.

    Examples
    --------
    >>> from mmech import confidence_interval
    >>> confidence_interval([10.0, 4.0], [1.0, 2.0])
    (array([ 7.01857603, -1.96284794]), array([12.98142397,  9.96284794]))
    """
    if hasattr(answers, "confidence_interval"):
        kind = type(answers).__name__
        raise TypeError(
            f"answers must be numbers, got a {kind}; for intervals of what it measured "
            "call its own confidence_interval(), with the measurement"
        )
    paid = (epsilon, rho) != (None, None)
    gaussian = paid and law_and_cost(epsilon, rho)[0].norm == "L2"
    quantiles = QUANTILES | {"bound": _gaussian_quantile} if gaussian else QUANTILES
    check_choice(method, "method", tuple(quantiles))
    if gaussian and method == "laplace":
        raise ValueError(
            'method "laplace" is for Laplace noise, but rho= says that the noise is '
            'Gaussian; use "bound" or "normal"'
        )
    miss = _miss(level)
    centre = np.asarray(answers, dtype=np.float64)
    widths = np.asarray(standard_errors, dtype=np.float64)
    if not (np.isfinite(widths).all() and (widths >= 0).all()):
        raise ValueError(
            "standard_errors must be finite numbers >= 0; take the square root of "
            "per_query_error"
        )
    half = quantiles[method](miss) * widths
    return centre - half, centre + half


def _miss(level: float) -> float:
    """Return the probability that an interval of a level misses the exact answer."""
    return 1.0 - check_level(level)


def quantile_of_whole_noise(level: float, norm: str, unit: float) -> float:
    """Return half the width of an interval in standard errors, for whole noise.

    `unit` is the least standard deviation of the noise of a row. Gauss' inequality
    takes half a step more. Sums of Gaussian noise do so too: at a deviation of 1 or
    more they are normal but for their steps. With that deviation and steps of one, a
    Laplace variable bounds the moment generating function of all sums: any s > 0 gives
    a Chernoff bound.
    """
    miss = _miss(level)
    tail = _normal_quantile(miss) + 0.5 / unit if unit >= 1 else math.inf
    if norm == "L1":
        most = 2 * math.asinh(1 / (math.sqrt(2) * unit))  # where the function ends
        s = most * np.arange(1, 1000) / 1000
        logs = np.log1p(-2 * np.square(unit * np.sinh(s / 2)))
        tail = float(((math.log(2 / miss) - logs) / (unit * s)).min())
    return min(_unimodal_quantile(miss) + 0.5 / unit, tail)


def _normal_quantile(miss: float) -> float:
    from scipy.special import ndtri

    return -float(ndtri(miss / 2))


def _gaussian_quantile(miss: float) -> float:
    """Return k with P(|X| >= k std) <= miss for every sum of Gaussian variables."""
    return min(_unimodal_quantile(miss), math.sqrt(2 * math.log(2 / miss)))


def _unimodal_quantile(miss: float) -> float:
    """Return the same k for every symmetric X with one peak: Gauss' inequality."""
    # 4 / (9 k²) in the tail, 1 - k / √3 near the centre.
    quantile = 2 / (3 * math.sqrt(miss))
    return quantile if quantile >= 2 / math.sqrt(3) else math.sqrt(3) * (1 - miss)


def _bound_quantile(miss: float) -> float:
    """Return k with P(|X| >= k std) <= miss for every sum X of Laplace variables."""

    def chernoff(t: float) -> float:  # log of 2 inf_λ exp(-λt) / (1 - λ²), scale one
        rate = (math.hypot(1.0, t) - 1.0) / t
        return math.log(2.0) - rate * t - math.log1p(-rate * rate)

    from scipy.optimize import brentq

    target = math.log(miss)
    root = brentq(lambda t: chernoff(t) - target, 1e-6, 40.0 - 2.0 * target)
    return min(_unimodal_quantile(miss), float(root) / math.sqrt(2))


QUANTILES: dict[str, Callable[[float], float]] = {
    "bound": _bound_quantile,
    "laplace": lambda miss: -math.log(miss) / math.sqrt(2),
    "normal": _normal_quantile,
    "chebyshev": lambda miss: 1.0 / math.sqrt(miss),
}
"""Method to half-width in standard errors, given the probability of a miss."""
