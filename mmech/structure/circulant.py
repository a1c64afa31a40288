"""What is known of circulant, Toeplitz and tau matrices: rules for the questions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft

from mmech.operators.circulant import Circulant, Toeplitz
from mmech.operators.known import BOUNDS, has_full_column_rank
from mmech.operators.tau import Tau
from mmech.structure.exact import EXACT_FLOATS, SUMS, Sums, times
from mmech.structure.shape import closed_singular_values, known_rank

__all__: list[str] = []


has_full_column_rank.register(Circulant, lambda strategy: strategy.rank == strategy.n)
has_full_column_rank.register(
    Toeplitz, lambda strategy: strategy.is_inverted or strategy.whole is not None
)
has_full_column_rank.register(Tau, lambda strategy: strategy.is_regular)
known_rank.register(Circulant, lambda workload: workload.rank)


@closed_singular_values.register(Circulant)
def _(workload: Circulant) -> NDArray[np.float64] | None:
    values = np.abs(fft(workload._column.astype(np.float64)))
    # The error of a transform is relative to its norm: about log2(n) steps of it.
    steps = 4.0 * max(math.log2(workload.n), 1.0)
    noise = steps * np.finfo(float).eps * float(np.linalg.norm(values))
    return np.maximum(values - noise, 0.0)


def _power_sum(entries: Any, power: int) -> int:
    if float((np.abs(entries.astype(np.float64)) ** power).sum()) < EXACT_FLOATS:
        return int((np.abs(entries) ** power).sum())
    return sum(abs(entry) ** power for entry in entries.tolist())


def _filter_sums(operator: Circulant | Toeplitz, power: int) -> Sums | None:
    if isinstance(operator, Circulant) or operator.whole is not None:
        return _power_sum(operator._column, power)  # in every column
    sums = operator._power_sums(power, 0)
    return sums if sums.dtype == np.int64 else None


def _tau_sums(operator: Tau, power: int) -> Sums | None:
    if power != 2 or not operator.has_squares:
        return None
    scales = np.abs(operator._scales)
    return times(times(scales, scales), operator.squares)


def _tau_bounds(operator: Tau) -> tuple[int, int]:
    return (_power_sum(operator.period, 1) * int(np.abs(operator._scales).max()),) * 2


BOUNDS[Circulant] = lambda operator: (_power_sum(operator._column, 1),) * 2
BOUNDS[Toeplitz] = lambda operator: (_power_sum(operator._diagonals, 1),) * 2
BOUNDS[Tau] = _tau_bounds
SUMS[Circulant] = SUMS[Toeplitz] = _filter_sums
SUMS[Tau] = _tau_sums
