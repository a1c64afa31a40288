"""The door that every release goes through: whole numbers in, exact noise added.

Three things happen in this order and nowhere else: the noise scales are checked, the
ledger is charged, the noise is drawn. An interruption after the charge counts as
spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech._validation import check_choice, check_epsilon
from mmech.budget import NEIGHBOURS, PrivacyLedger
from mmech.noise import check_insecure_rng, discrete_laplace
from mmech.noise._laplace import check_scale
from mmech.noise._seam import drawn

__all__ = ["Measurement", "laplace_release"]

LARGEST_VALUE = 2**62
"""Exact values stay below this, so that noise cannot take them past 64 bits. No table
of records reaches it with weights of moderate size. Values beyond are refused after the
charge, because the refusal tells about them: it is not covered by the guarantee."""

Run = tuple[int, int, Fraction]
"""Rows start..stop-1 of a release and the sensitivity, or variance, of their noise."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Noisy strategy answers, safe to publish.

    Attributes
    ----------
    values : ndarray of int64, shape (p,) or (p, k)
        Noisy answers: what the integer strategy counts, plus discrete Laplace noise.
    scale : float or ndarray of float64, shape (p,)
        Scale t of the noise, P(x) ∝ exp(-|x| / t): one number where all rows share
        it. The exact scales are fractions; these are their nearest doubles.
    sensitivity : float
        L1 sensitivity of the integer strategy, neighbour relation included, in units
        of the rows of largest weight: the smallest scale is sensitivity / epsilon.
    epsilon : Fraction
        What the measurement cost.

    Examples
    --------
    >>> from mmech import Identity, MatrixMechanism
    >>> measurement = MatrixMechanism(Identity(3), epsilon=0.5).measure([4, 0, 9])
    >>> measurement.values.shape, measurement.scale
    ((3,), 2.0)
    """

    values: NDArray[np.int64]
    scale: float | NDArray[np.float64]
    sensitivity: float
    epsilon: Fraction

    def __post_init__(self) -> None:
        check_measurement_scale(self.scale)


def check_measurement_scale(scale: float | NDArray[np.float64]) -> None:
    """Raise unless every value of a measurement carries noise."""
    scales = np.asarray(scale, np.float64)
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        worst = scales[~(np.isfinite(scales) & (scales > 0))].flat[0]
        raise ValueError(
            f"a measurement needs a noise scale > 0, got {worst}; "
            "a noiseless measurement would not be private"
        )


def calibrated(sensitivity: Any, neighbours: str) -> Fraction:
    """Return an exact sensitivity under a relation; ``"replace"`` doubles it."""
    check_choice(neighbours, "neighbours", NEIGHBOURS)
    try:
        exact = Fraction(sensitivity)
    except (ValueError, OverflowError, TypeError):
        exact = Fraction(0)
    if exact <= 0:
        raise ValueError(
            f"the sensitivity must be a finite number > 0, got {sensitivity}; "
            "a strategy whose entries are all zero measures nothing"
        )
    return 2 * exact if neighbours == "replace" else exact


def whole_numbers(values: ArrayLike) -> NDArray[Any]:
    """Return exact values as an array of any type, or raise if they are not whole."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"values to release must be numbers, got dtype {array.dtype}")
    if (
        array.dtype.kind == "f"
        and not (np.isfinite(array) & (array == np.rint(array))).all()
    ):
        raise ValueError(
            "values to release must be whole numbers, because exact noise is made "
            "of whole numbers; count in smaller units and scale afterwards"
        )
    return array


def in_64_bits(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return whole numbers as int64, or raise if they are too large; after the charge.

    What is too large depends on records, so that this refusal must not be free.
    """
    limit = 2.0**53 if array.dtype.kind == "f" else LARGEST_VALUE
    if array.size and max(abs(int(array.max())), abs(int(array.min()))) > limit:
        raise ValueError(
            f"values to release must be below {limit:.3g} in magnitude to be exact; "
            "nothing was released, but what it costs is spent, because this refusal "
            "tells about the values"
        )
    return array.astype(np.int64)


def laplace_release(
    values: ArrayLike,
    *,
    sensitivity: Any,
    epsilon: Any,
    released: str,
    neighbours: str = "add_remove",
    ledger: PrivacyLedger | None = None,
    insecure_rng: Any = None,
) -> Measurement:
    r"""Release whole numbers with discrete Laplace noise, paid for in a ledger.

    The noise X has :math:`P(x) \propto e^{-|x| \epsilon / \Delta_1}` exactly. The
    ledger is charged first, then the noise is drawn.

    Parameters
    ----------
    values : array_like of int
        Exact values, in counts. Sensitive.
    sensitivity : int, Fraction or float
        L1 sensitivity of `values` when one record is added or removed.
    epsilon : float, str or Fraction
        Privacy parameter in nats.
    released : str
        What is released, in words, for the ledger.
    neighbours : {"add_remove", "replace"}, default="add_remove"
        Neighbour relation; ``"replace"`` doubles the sensitivity.
    ledger : PrivacyLedger, default=None
        Budget to charge; ``None`` charges nobody.
    insecure_rng : int or numpy.random.Generator, default=None
        Predictable noise for tests; warns.

    Returns
    -------
    Measurement

    Raises
    ------
    BudgetExceededError
        If the ledger does not cover `epsilon`; nothing is drawn.
    ValueError
        If values are not whole, the sensitivity is not a finite number > 0, the
        noise does not fit into 64 bits, or the ledger is for another neighbour
        relation; nothing is spent. If values are beyond 2^62 in magnitude, or 2^53
        as floats; epsilon is spent, and the guarantee does not cover this refusal.

    Notes
    -----
    Proof: ``notebooks/proofs/laplace.md``.

    References
    ----------
    .. [1] Ghosh, Roughgarden, Sundararajan, "Universally utility-maximizing
       privacy mechanisms", STOC 2009 (the geometric mechanism).

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
    exact = whole_numbers(values)
    size = exact.shape[0] if exact.ndim else 1
    return laplace_release_of_rows(
        exact,
        [(0, size, calibrated(sensitivity, neighbours))],
        sensitivity=calibrated(sensitivity, neighbours),
        epsilon=check_epsilon(epsilon),
        released=released,
        neighbours=neighbours,
        ledger=ledger,
        insecure_rng=check_insecure_rng(insecure_rng),
    )


def laplace_release_of_rows(
    values: NDArray[Any],
    runs: Sequence[Run],
    *,
    sensitivity: Fraction,
    epsilon: Fraction,
    released: str,
    neighbours: str,
    ledger: PrivacyLedger | None,
    insecure_rng: np.random.Generator | None,
    check: Callable[[], None] | None = None,
) -> Measurement:
    """Release rows whose noise has scale (their own sensitivity) / epsilon.

    After the charge `check` is called: it raises where the values cannot be right.
    """
    scales = [check_scale(own / epsilon) for _, _, own in runs]
    charge(
        ledger, epsilon, released, neighbours, sensitivity,
        insecure=insecure_rng is not None,
    )  # fmt: skip

    if check is not None:
        check()
    exact = in_64_bits(values)

    def add_noise() -> NDArray[np.int64]:
        noisy = exact.copy()
        flat = noisy.reshape(-1) if noisy.ndim == 0 else noisy
        for (start, stop, _), scale in zip(runs, scales, strict=True):
            rows = flat[start:stop]
            rows += discrete_laplace(scale, rows.shape, insecure_rng=insecure_rng)
        return noisy

    noisy = drawn(
        "laplace", exact, add_noise, runs=runs, scales=scales, epsilon=epsilon
    )
    return Measurement(
        noisy, per_row([float(s) for s in scales], runs), float(sensitivity), epsilon
    )


def charge(
    ledger: PrivacyLedger | None,
    epsilon: Fraction,
    released: str,
    neighbours: str,
    sensitivity: Fraction | int,
    *,
    insecure: bool,
) -> None:
    """Pay for a release, if there is a ledger and it is for the same relation."""
    if ledger is None:
        return
    if ledger.neighbours != neighbours:
        raise ValueError(
            f"the ledger accounts for neighbours={ledger.neighbours!r} but the "
            f"release is for {neighbours!r}; use the same relation for both"
        )
    ledger.spend(epsilon, released, sensitivity=float(sensitivity), insecure=insecure)


def per_row(numbers: Sequence[float], runs: Sequence[Run]) -> Any:
    """Return one number per row, or the number itself where all rows share it."""
    if len(numbers) == 1:
        return numbers[0]
    return np.repeat(numbers, [stop - start for start, stop, _ in runs])
