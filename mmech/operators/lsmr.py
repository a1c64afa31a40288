"""Least squares by LSMR, for operators too large to factorise."""

from __future__ import annotations

import warnings
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.exceptions import ConvergenceWarning
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Product
from mmech.operators.joint import nearest_inverse_gram
from mmech.operators.known import has_full_column_rank, normal_form

TOLERANCE = 1e-12
"""Relative residual, of the equations or of the normal equations, at which to stop."""


def preconditioner(operator: QueryMatrix) -> QueryMatrix | None:
    """Return N that makes the columns of A N nearly orthonormal, and LSMR fast.

    Stacks of Kronecker products take a common basis of their factors and the diagonal
    of the gram in it; other operators the norms of their columns. ``None`` where full
    column rank is not known (the minimum norm solution would change) or the norms are
    not cheap.
    """
    if operator.shape[1] <= LIMITS.spectrum_cells:
        near = nearest_inverse_gram(operator)
        if near is not None and near.spectrum.min() > 0:
            return near.root()
    if not has_full_column_rank(operator):
        return None
    squares = known_column_squares(operator)
    if squares is None or not squares.min(initial=1.0) > 0:
        return None
    return Diagonal(1.0 / np.sqrt(squares))


def known_column_squares(operator: QueryMatrix) -> NDArray[np.float64] | None:
    """Return the squared norms of the columns, ``None`` where they cost n products."""
    squares: NDArray[np.float64] | None
    squares = normal_form(operator).total(_column_squares)
    return squares


@singledispatch
def _column_squares(operator: QueryMatrix) -> NDArray[np.float64] | None:
    kind = type(operator)
    if (
        kind.column_square_sums is QueryMatrix.column_square_sums
        and kind._power_sums is QueryMatrix._power_sums
    ) or (kind is Product and operator._scaled_columns is None):  # type: ignore[attr-defined]
        return None
    return operator.column_square_sums().astype(np.float64)


@_column_squares.register(Product)
def _(operator: Product) -> NDArray[np.float64] | None:
    if operator._scaled_columns is None:
        return None
    rest, scales = operator._scaled_columns
    squares = known_column_squares(rest)
    return None if squares is None else squares * np.square(scales)


def solve(
    operator: QueryMatrix,
    rhs: NDArray[np.float64],
    near: QueryMatrix | None,
    *,
    transposed: bool = False,
) -> NDArray[np.float64]:
    """Return A⁺ B (n, k) for B (m, k), or (Aᵀ)⁺ B if transposed, column by column.

    With a preconditioner N the unknown is z with x = N z; for the transpose the
    equations NᵀAᵀ x = Nᵀ b have the same minimum norm solution.

    Warns
    -----
    ConvergenceWarning
        If a column stops before it reaches its tolerance.
    """
    from scipy.sparse.linalg import lsmr

    linear = operator if near is None else Product(operator, near)
    if transposed:
        linear = linear.T
        rhs = rhs if near is None else near._rmatmat(rhs)
    limit = 10 * min(operator.shape) + 100
    equations = linear.aslinearoperator()
    out = np.empty((linear.shape[1], rhs.shape[1]))
    for column in range(rhs.shape[1]):
        solution: tuple[Any, ...] = lsmr(
            equations, rhs[:, column], atol=TOLERANCE, btol=TOLERANCE, maxiter=limit
        )
        out[:, column], reason, n_iter, residual, normal, norm = solution[:6]
        if reason in (3, 6, 7):
            relative = normal / (norm * residual) if norm * residual > 0 else 0.0
            warnings.warn(
                f"LSMR stopped after {n_iter} of at most {limit} iterations with a "
                f"relative residual of {relative:.1e} in the normal equations, above "
                f"{TOLERANCE:.0e}; the operator may be badly scaled: rescale its rows",
                ConvergenceWarning,
                stacklevel=5,
            )
    return out if near is None or transposed else near._matmat(out)
