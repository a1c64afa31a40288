"""What is known of circulant and Toeplitz matrices: rules for the open questions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.operators.circulant import Circulant, Toeplitz
from mmech.structure.exact import BOUNDS, SUMS, Sums, times, transposed_sums
from mmech.structure.shape import (
    closed_singular_values,
    has_full_column_rank,
    known_rank,
)

__all__: list[str] = []


has_full_column_rank.register(Circulant, lambda strategy: strategy.rank == strategy.n)
has_full_column_rank.register(Toeplitz, lambda strategy: strategy.is_inverted)
known_rank.register(Circulant, lambda workload: workload.rank)


@closed_singular_values.register(Circulant)
def _(workload: Circulant) -> NDArray[np.float64] | None:
    values = np.abs(np.fft.fft(workload._column.astype(np.float64)))
    # The error of a transform is relative to its norm: about log2(n) steps of it.
    steps = 4.0 * max(math.log2(workload.n), 1.0)
    noise = steps * np.finfo(float).eps * float(np.linalg.norm(values))
    return np.maximum(values - noise, 0.0)


def _power_sum(entries: Any, power: int) -> int:
    return sum(abs(entry) ** power for entry in entries.tolist())


def _circulant_sums(operator: Circulant, power: int, weights: Any) -> Sums | None:
    if isinstance(weights, int):
        return weights * _power_sum(operator._column, power)
    return transposed_sums(operator, power, weights)


def _toeplitz_sums(operator: Toeplitz, power: int, weights: Any) -> Sums | None:
    if isinstance(weights, int):
        sums = operator._power_sums(power, 0)
        return times(sums, weights) if sums.dtype == np.int64 else None
    return transposed_sums(operator, power, weights)


BOUNDS[Circulant] = lambda operator: (_power_sum(operator._column, 1),) * 2
BOUNDS[Toeplitz] = lambda operator: (_power_sum(operator._diagonals, 1),) * 2
SUMS[Circulant] = _circulant_sums
SUMS[Toeplitz] = _toeplitz_sums
