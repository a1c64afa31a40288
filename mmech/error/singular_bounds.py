"""Lower bounds on losses from singular values."""

from __future__ import annotations

import numpy as np

from mmech.arrays import Floats
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.known import normal_form
from mmech.operators.marginals import Anova
from mmech.operators.subsets import ranks_of, sizes_of
from mmech.structure.attributes import is_uniform
from mmech.structure.shape import known_singular_values
from mmech.structure.spectrum import mean_spectrum


def _symmetric_shape(workload: QueryMatrix) -> tuple[int, ...] | None:
    """Return a domain shape under whose relabellings the gram is invariant."""
    shapes = set()
    for _, block in normal_form(workload).blocks:
        if type(block) is not Anova and not is_uniform(block):
            return None
        # The cells and the total are symmetric in every shape.
        shapes.add(normal_form(block).domain_shape or (workload.shape[1],))
    shapes = shapes - {(workload.shape[1],)} or shapes
    return shapes.pop() if len(shapes) == 1 else None


def symmetric_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ_s m_s √(τ_s / n_s))² where the gram is in the marginal algebra.

    The group of relabellings moves every cell to every other and the bound is
    concave in p, so uniform p is best.
    """
    (weight, block), *others = normal_form(workload).blocks
    if isinstance(block, (Identity, Ones)) and not others:
        return float(weight) ** 2 * block.shape[0]
    shape = _symmetric_shape(workload)
    if shape is None:
        return None
    asked = mean_spectrum(workload, shape)
    if asked is None:
        return None
    roots = ranks_of(asked, shape) * np.sqrt(
        np.array(list(asked.values())) / sizes_of(asked, shape)
    )
    rounding = 1.0 - 4.0 * roots.size * np.finfo(float).eps
    return float(roots.sum()) ** 2 * rounding


def known_loss_bound(workload: QueryMatrix) -> float | None:
    """Return (Σ σ_i)² / n, or less, where the singular values have a closed form."""
    values = known_singular_values(workload)
    if values is None:
        return None
    rounding = 1.0 - 64.0 * np.finfo(float).eps
    return float(values.sum()) ** 2 / workload.shape[1] * rounding


def sum_of_roots(squares: Floats, size: int) -> float:
    """Return a lower bound on Σ √λ_i given eigenvalues with rounding errors.

    By Weyl's inequality every eigenvalue is off by at most the norm of the error,
    about size x machine precision x the largest.
    """
    noise = size * np.finfo(float).eps * squares.max(initial=0.0)
    return float(np.sqrt(squares[squares > noise] - noise).sum())
