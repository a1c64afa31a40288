"""What a workload asks of waves: of sine waves on a line, or of those of a circle."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

import numpy as np

from mmech.arrays import Floats
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity, Ones


@singledispatch
def waves_of(workload: QueryMatrix) -> str | None:
    """Return which waves suit the gram of queries, ``None`` for none.

    Those of a tau algebra, by its free end, or those of a circle; "any" of them for
    cells and totals.
    """
    return None


waves_of.register(Identity | Ones, lambda workload: "any")


@singledispatch
def energies(workload: QueryMatrix, angles: Floats) -> Floats:
    """Return the eigenvalues of the gram for waves of angles, or about these."""
    raise TypeError(f"the gram of {workload!r} has no waves")


energies.register(Identity, lambda workload, angles: np.ones(angles.size))


@energies.register(Ones)
def _(workload: Ones, angles: Floats) -> Floats:
    return np.where(angles == angles.min(), float(workload.m) * workload.n, 0.0)


@singledispatch
def strategies_of(workload: QueryMatrix) -> Iterator[QueryMatrix] | None:
    """Return strategies that a class makes of waves itself, ``None`` without a rule."""
    return None
