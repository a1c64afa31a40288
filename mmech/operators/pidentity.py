"""The p-Identity strategy matrix and its closed-form pseudoinverse."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from mmech.checks import check_choice, check_finite_array
from mmech.operators.base import (
    Array,
    QueryMatrix,
    held,
    query_matrix,
    read_only,
)
from mmech.operators.compose import Product


@query_matrix("PIdentity")
class PIdentity(QueryMatrix):
    r"""Identity queries and p extra queries, scaled to sensitivity one.

    .. math:: A = \begin{bmatrix} I_n \\ \Theta \end{bmatrix}
              \mathrm{diag}(1 / s), \qquad s_j = 1 + \sum_i \Theta_{ij} .

    Every column sums to exactly one. For Gaussian noise every column has the L2 norm
    one instead, with :math:`s_j = \sqrt{1 + \sum_i \Theta_{ij}^2}`, and theta may be
    negative. The identity rows come first. Products cost O(n p) per vector,
    pseudoinverse included.

    Parameters
    ----------
    theta : array_like, shape (p, n)
        Weights of the extra queries, non-negative for the norm "L1"; ``p = 0`` is the
        identity.
    norm : {"L1", "L2"}, default="L1"
        Norm of a column that is one.

    Raises
    ------
    ValueError
        If an entry of `theta` is NaN or infinite, or negative for the norm "L1".

    References
    ----------
    .. [1] McKenna, Miklau, Hay, Machanavajjhala, "Optimizing error of
       high-dimensional statistical queries under differential privacy",
       VLDB 2018, Definition 9.

    Examples
    --------
    >>> from mmech import PIdentity
    >>> PIdentity([[1.0, 1.0, 0.0]]).to_dense()
    array([[0.5, 0. , 0. ],
           [0. , 0.5, 0. ],
           [0. , 0. , 1. ],
           [0.5, 0.5, 0. ]])
    >>> PIdentity([[0.75, -0.75]], norm="L2").to_dense()
    array([[ 0.8,  0. ],
           [ 0. ,  0.8],
           [ 0.6, -0.6]])
    """

    theta: ArrayLike
    norm: str = "L1"

    def __post_init__(self) -> None:
        theta = check_finite_array(self.theta, "theta", ndim=2)
        theta = theta.astype(np.float64, copy=False)
        check_choice(self.norm, "norm", ("L1", "L2"))
        if self.norm == "L1" and (theta < 0).any():
            raise ValueError(
                f"theta must be non-negative, got a minimum of {theta.min():g}; "
                "clip it or take absolute values"
            )
        if theta.shape[1] == 0:
            raise ValueError("theta must have at least one column, got shape (p, 0)")
        self._set(theta=read_only(theta))

    _theta = held("theta", Array)

    @property
    def p(self) -> int:
        """Number of extra queries."""
        return int(self._theta.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of queries n + p and of domain cells n."""
        p, n = self._theta.shape
        return (n + p, n)

    def _arguments(self) -> str:
        norm = "" if self.norm == "L1" else f", norm={self.norm!r}"
        return f"p={self.p}, n={self.shape[1]}{norm}"

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no entry of theta is negative."""
        return self.norm == "L1" or bool((self._theta >= 0).all())

    @cached_property
    def column_scales(self) -> Array:
        """The norms s of the columns of [I; theta], shape (n,)."""
        return read_only(column_norms(self._theta.T, self.norm))

    def _matmat(self, x: Array, /) -> Array:
        scaled = x / self.column_scales.astype(x.dtype, copy=False)[:, None]
        theta = self._theta.astype(x.dtype, copy=False)
        return np.concatenate([scaled, theta @ scaled])

    def _rmatmat(self, y: Array, /) -> Array:
        n = self.shape[1]
        theta = self._theta.astype(y.dtype, copy=False)
        scales = self.column_scales.astype(y.dtype, copy=False)
        return (y[:n] + theta.T @ y[n:]) / scales[:, None]

    def pinv(self) -> PIdentityPinv:
        return PIdentityPinv(self)

    def inverse_gram(self) -> QueryMatrix:
        """Return (AᵀA)⁻¹ = A⁺ A⁺ᵀ as an operator of shape (n, n)."""
        return Product(self.pinv(), self.pinv().T)

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 0 and self.norm == f"L{power}":
            return np.ones(self.shape[1])
        powers = np.abs(self._theta) ** power
        scales = self.column_scales**power
        if axis == 0:
            return (1.0 + powers.sum(axis=0)) / scales
        return np.concatenate([1.0 / scales, powers @ (1.0 / scales)])

    @cached_property
    def orthonormal_factors(self) -> tuple[Array, Array]:
        """Orthonormal Q = [Q₁; Q₂] with [Θᵀ; I] = Q R; shapes (n, p) and (p, p).

        With M = I + ΘΘᵀ = RᵀR: Q₂ = R⁻¹, Q₁Q₁ᵀ = ΘᵀM⁻¹Θ and Q₁Q₂ᵀ = ΘᵀM⁻¹,
        without the loss of digits of a Cholesky factorisation of M.
        """
        return thin_factors(self._theta.T)


@query_matrix("ColumnScaledPIdentity", init=False)
class ColumnScaledPIdentity(PIdentity):
    """[I; Θ] diag(1/s) for any column scales s: what rounding makes of a p-Identity.

    Parameters
    ----------
    theta : array_like, shape (p, n)
        Weights of the extra queries, of any sign.
    scales : array_like, shape (n,)
        Positive column scales s.

    Examples
    --------
    >>> from mmech.operators.pidentity import ColumnScaledPIdentity
    >>> ColumnScaledPIdentity([[0.5, -1.0]], [0.5, 0.25]).to_dense()
    array([[ 2.,  0.],
           [ 0.,  4.],
           [ 1., -4.]])
    """

    scales: ArrayLike = ()

    def __init__(self, theta: ArrayLike, scales: ArrayLike) -> None:
        weights = check_finite_array(theta, "theta", ndim=2)
        weights = weights.astype(np.float64, copy=False)
        values = check_finite_array(scales, "scales", ndim=1).astype(np.float64)
        if values.shape != weights.shape[1:] or not (values > 0).all():
            raise ValueError(
                f"scales must be {weights.shape[1]} positive numbers, one per column "
                f"of theta, got shape {values.shape}"
            )
        self._set(theta=read_only(weights), scales=read_only(values))
        self._set(norm="")  # columns have no norm in common

    def _arguments(self) -> str:
        return f"p={self.p}, n={self.shape[1]}"

    column_scales = held("scales", Array)
    """The column scales s as they were given, shape (n,)."""


def column_norms(columns: Array, norm: str) -> Array:
    """Return the L1 or L2 norms of the columns of [I; Θ], given Θᵀ (n, p)."""
    if norm == "L1":
        return 1.0 + np.abs(columns).sum(axis=1)
    return np.sqrt(1.0 + np.square(columns).sum(axis=1))


def thin_factors(columns: Array) -> tuple[Array, Array]:
    """Return Q₁ (n, p) and Q₂ (p, p) with [Θᵀ; I] = [Q₁; Q₂] R, given Θᵀ (n, p)."""
    n, p = columns.shape
    stacked = np.concatenate([columns, np.eye(p)])
    q, _ = scipy.linalg.qr(
        stacked, mode="economic", overwrite_a=True, check_finite=False
    )
    # The second block is R⁻¹ up to the signs of the columns, which cancel in
    # every product that uses both blocks.
    return read_only(q[:n]), read_only(q[n:])


@query_matrix("PIdentityPinv")
class PIdentityPinv(QueryMatrix):
    """The pseudoinverse A⁺ = S [I - Q₁Q₁ᵀ, Q₁Q₂ᵀ] of a p-Identity A, S = diag(s).

    Q₁Q₁ᵀ = Θᵀ(I + ΘΘᵀ)⁻¹Θ by the Woodbury identity.

    Costs O(n p) per vector, after one QR factorisation.
    """

    strategy: PIdentity

    @property
    def shape(self) -> tuple[int, int]:
        """Number of domain cells n and of measurements n + p."""
        rows, columns = self.strategy.shape
        return (columns, rows)

    def _matmat(self, x: Array, /) -> Array:
        n = self.shape[0]
        q1, q2 = self.strategy.orthonormal_factors
        inner = q2.T @ x[n:] - q1.T @ x[:n]
        result = (x[:n] + q1 @ inner) * self.strategy.column_scales[:, None]
        return result.astype(x.dtype, copy=False)

    def _rmatmat(self, y: Array, /) -> Array:
        q1, q2 = self.strategy.orthonormal_factors
        scaled = y * self.strategy.column_scales[:, None]
        inner = q1.T @ scaled
        result = np.concatenate([scaled - q1 @ inner, q2 @ inner])
        return result.astype(y.dtype, copy=False)

    def pinv(self) -> PIdentity:
        return self.strategy
