"""What is known of circulant and Toeplitz matrices: rules for the open questions."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmech.operators.circulant import Circulant, Toeplitz
from mmech.structure.exact import BOUNDS, SUMS, Sums, times, transposed_sums
from mmech.structure.shape import has_full_column_rank, known_rank

__all__: list[str] = []


@has_full_column_rank.register(Circulant)
def _(strategy: Circulant) -> bool:
    return strategy.rank == strategy.n


@has_full_column_rank.register(Toeplitz)
def _(strategy: Toeplitz) -> bool:
    return strategy.is_inverted


@known_rank.register(Circulant)
def _(workload: Circulant) -> int | None:
    return workload.rank


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
