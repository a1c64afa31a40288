"""What is known of circulant matrices: their rules for the open questions."""

from __future__ import annotations

from typing import Any

from mmech.operators.circulant import Circulant
from mmech.structure.exact import BOUNDS, SUMS, Sums, transposed_sums
from mmech.structure.shape import has_full_column_rank, known_rank

__all__: list[str] = []


@has_full_column_rank.register(Circulant)
def _(strategy: Circulant) -> bool:
    return strategy.rank == strategy.n


@known_rank.register(Circulant)
def _(workload: Circulant) -> int | None:
    return workload.rank


def _power_sum(operator: Circulant, power: int) -> int:
    return sum(abs(entry) ** power for entry in operator._column.tolist())


def _sums(operator: Circulant, power: int, weights: Any) -> Sums | None:
    if isinstance(weights, int):
        return weights * _power_sum(operator, power)
    return transposed_sums(operator, power, weights)


BOUNDS[Circulant] = lambda operator: (_power_sum(operator, 1),) * 2
SUMS[Circulant] = _sums
