"""Pseudoinverses: where the structure helps, and where it does not.

A stack A = [c_1 ⊗A_1i; c_2 ⊗A_2i; ...] has the gram Σ_g c_g² ⊗_i G_gi. On every
attribute the grams G_gi must be at most two different ones, or have a common basis. A
generalized eigenproblem per attribute then gives T_i with T_iᵀG_giT_i = diag(λ_gi). The
inverse is (⊗T_i) diag(1 / Σ_g c_g² ⊗_i λ_gi) (⊗T_i)ᵀ. Other stacks are only nearly
diagonal in a common basis, which makes a good preconditioner for LSMR.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property, reduce, singledispatch
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.checks import sizes_label
from mmech.exceptions import ConvergenceWarning
from mmech.limits import LIMITS
from mmech.operators.base import Array, QueryMatrix, Symmetric, product_of, query_matrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Composite, Merged, Product, Scaled, VStack, Wrapper
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.known import has_full_column_rank, normal_form
from mmech.operators.kronecker import Kronecker

MAX_TERMS = 64
"""Largest number of stacked products."""

COMMON_BASIS = 1e-11
"""Largest entry off the diagonal, relative to one, that counts as rounding."""

CLEAR_RANK = 1e-9
"""Smallest relative eigenvalue of a gram that is clearly of full rank."""


@query_matrix("JointInverseGram")
class JointInverseGram(Symmetric):
    """(Σ_g c_g² ⊗_i G_gi)⁻¹ for Kronecker products of grams in a common basis.

    Where there is no common basis, what is off the diagonal is left out: an
    approximation, told by `is_exact`.

    Parameters
    ----------
    weights : sequence of float
        c_g, one per product.
    grams : sequence of sequence of ndarray, each of shape (n_i, n_i)
        Different grams of every attribute; their sum is positive definite.
    choice : sequence of sequence of int
        For every product and attribute, which of the grams it has.
    """

    weights: Sequence[float]
    grams: Sequence[Sequence[Floats]]
    choice: Sequence[Sequence[int]]

    @property
    def shape(self) -> tuple[int, int]:
        n = product_of(grams[0].shape[0] for grams in self.grams)
        return (n, n)

    def _arguments(self) -> str:
        return sizes_label([grams[0].shape[0] for grams in self.grams])

    @cached_property
    def _factorisation(self) -> tuple[list[Floats], list[Floats], bool]:
        transforms, eigenvalues, exact = [], [], True
        for grams in self.grams:
            traces = np.array([np.trace(gram) for gram in grams]) / grams[0].shape[0]
            traces[traces == 0] = 1.0  # a product of zeros adds nothing
            units = [gram / trace for gram, trace in zip(grams, traces, strict=True)]
            # Distinct weights tell common eigenvectors apart; two grams need no more.
            mixed = sum(k**1.5 * unit for k, unit in enumerate(units))
            _, vectors = scipy.linalg.eigh(mixed, sum(units), check_finite=False)
            values = np.empty((len(grams), len(vectors)))
            for k, unit in enumerate(units):
                rotated = vectors.T @ unit @ vectors
                values[k] = np.maximum(rotated.diagonal(), 0.0)
                if len(units) > 2:
                    np.fill_diagonal(rotated, 0.0)
                    exact &= bool(np.abs(rotated).max() <= COMMON_BASIS * len(vectors))
            transforms.append(vectors)
            eigenvalues.append(values * traces[:, None])
        return transforms, eigenvalues, exact

    @property
    def transforms(self) -> list[Floats]:
        """T_i, each of shape (n_i, n_i)."""
        return self._factorisation[0]

    @property
    def eigenvalues(self) -> list[Floats]:
        """Diagonals of T_iᵀGT_i for the grams of attribute i, (n_grams, n_i)."""
        return self._factorisation[1]

    @property
    def is_exact(self) -> bool:
        """Whether the grams of every attribute have a common basis."""
        return all(len(grams) <= 2 for grams in self.grams) or self._factorisation[2]

    def spectrum_of(self, group: int) -> Floats:
        """⊗_i λ_gi of one product, as a tensor with one axis per attribute."""
        kinds = zip(self.eigenvalues, self.choice[group], strict=True)
        return reduce(np.multiply.outer, [values[kind] for values, kind in kinds])

    @cached_property
    def spectrum(self) -> Floats:
        """Σ_g c_g² ⊗_i λ_gi as a tensor with one axis per attribute."""
        total = np.zeros([len(transform) for transform in self.transforms])
        for group, weight in enumerate(self.weights):
            total += weight**2 * self.spectrum_of(group)
        return total

    @cached_property
    def _transform(self) -> Kronecker:
        return Kronecker([Dense(vectors.T) for vectors in self.transforms])

    def root(self) -> QueryMatrix:
        """Return N with N Nᵀ = this operator, so that Nᵀ(AᵀA)N is near I."""
        return Product(
            self._transform.T, Diagonal(1.0 / np.sqrt(self.spectrum).ravel())
        )

    def _matmat(self, x: Array, /) -> Array:
        inner = self._transform._matmat(x.astype(np.float64, copy=False))
        inner /= self.spectrum.reshape(-1, 1)
        return self._transform._rmatmat(inner).astype(x.dtype, copy=False)


def joint_inverse_gram(operator: QueryMatrix) -> JointInverseGram | None:
    """Return the exact (AᵀA)⁻¹ of a stack of Kronecker products, if it has one.

    That is a `VStack` of at least two (scaled) Kroneckers with equal factor sizes, and
    full column rank as a whole. The factors on every attribute have at most two
    different grams or a common basis.
    """
    inverse = nearest_inverse_gram(operator)
    return inverse if inverse is not None and inverse.is_exact else None


def nearest_inverse_gram(operator: QueryMatrix) -> JointInverseGram | None:
    """Return (AᵀA)⁻¹ or what is left of it on the diagonal of a good basis.

    As for `joint_inverse_gram`, without the need of a common basis; ``None`` where the
    operator is no stack of products or may lack full column rank.
    """
    terms = normal_form(operator).products
    if terms is None:
        return None
    terms = [term for term in terms if term[0] != 0]
    if not 2 <= len(terms) <= MAX_TERMS:
        return None
    sizes = [factor.shape[1] for factor in terms[0][1]]
    if max(sizes) > LIMITS.spectrum_factor:
        return None
    columns = [distinct_grams([f[i] for _, f in terms]) for i in range(len(sizes))]
    choice = [tuple(row) for row in np.transpose([places for _, places in columns])]
    weights = tuple(weight for weight, _ in terms)
    inverse = JointInverseGram(weights, [grams for grams, _ in columns], choice)
    if any(all(has_full_column_rank(f) for f in factors) for _, factors in terms):
        return inverse
    definite = [[_is_definite(gram) for gram in grams] for grams in inverse.grams]
    if any(all(row[k] for row, k in zip(definite, g, strict=True)) for g in choice):
        return inverse
    # Together the products may have full rank: only an exact spectrum tells.
    if product_of(sizes) > LIMITS.spectrum_cells or not all(
        _is_definite(sum(grams)) for grams in inverse.grams
    ):
        return None
    spectrum = inverse.spectrum
    clear = inverse.is_exact and spectrum.min() > CLEAR_RANK * spectrum.max()
    return inverse if clear else None


def _is_definite(gram: Any) -> bool:
    values = np.linalg.eigvalsh(gram)
    return bool(values[0] > CLEAR_RANK * values[-1])


def distinct_grams(factors: list[QueryMatrix]) -> tuple[list[Floats], list[int]]:
    """Return the different grams of some factors and which one every factor has."""
    grams: list[Floats] = []
    known: dict[bytes, int] = {}
    seen: dict[int, int] = {}
    places = []
    for factor in factors:
        if id(factor) not in seen:
            gram = factor.gram()._dense().astype(np.float64)
            key = gram.tobytes()
            if key not in known:
                known[key] = len(grams)
                grams.append(gram)
            seen[id(factor)] = known[key]
        places.append(seen[id(factor)])
    return grams, places


# ---- least squares by LSMR ---------------------------------------------------

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


# ---- where the structure helps, and where it does not ------------------------

SOLVED = 1200
"""Products that LSMR takes for a column without a preconditioner, about."""

PRECONDITIONED = 64
"""The same with one."""

FACTORISED = 512
"""Steps of a factorisation in the time of one entry that is visited."""

RANK_TOLERANCE = 1e-10
"""Relative size below which a singular value counts as zero."""


@query_matrix("Pinv")
class Pinv(QueryMatrix):
    """The Moore-Penrose pseudoinverse A⁺ of any operator.

    Up to a smaller dimension of 2048, and 2^28 entries, the gram (of A or of Aᵀ,
    whichever is smaller) is factorised once by eigendecomposition and reused. Beyond
    that every column is solved by LSMR, which gives the same minimum-norm least
    squares solution; where full column rank is known, with a preconditioner.

    Parameters
    ----------
    operator : QueryMatrix, shape (m, n)
        The operator A.

    Warns
    -----
    ConvergenceWarning
        If LSMR stops before it reaches its tolerance.
    """

    operator: QueryMatrix

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.operator.shape
        return (n, m)

    @property
    def is_factorised(self) -> bool:
        """Whether the smaller gram is factorised once, and columns are not solved."""
        m, n = self.operator.shape
        return min(m, n) <= LIMITS.direct_size and m * n <= LIMITS.direct_entries

    @cached_property
    def _inverse_gram(self) -> NDArray[np.float64] | None:
        """(AᵀA)⁺ or (AAᵀ)⁺, whichever is smaller; None when too large."""
        m, n = self.operator.shape
        if not self.is_factorised:
            return None
        smaller = self.operator if n <= m else self.operator.T
        gram = smaller.gram()._dense().astype(np.float64)
        # Zeros are what the tolerance, or rounding, cannot tell from zero.
        values, vectors = np.linalg.eigh(gram)
        largest = values[-1] if values.size else 0.0
        floor = max(RANK_TOLERANCE**2, gram.shape[0] * np.finfo(float).eps) * largest
        keep = values > floor
        scaled: NDArray[np.float64] = vectors[:, keep] / np.sqrt(values[keep])
        return scaled @ scaled.T

    @cached_property
    def _preconditioner(self) -> QueryMatrix | None:
        return preconditioner(self.operator)

    def _apply(self, x: Array, *, transposed: bool) -> Array:
        rhs = x.astype(np.float64, copy=False)
        inverse = self._inverse_gram
        m, n = self.operator.shape
        product = self.operator._matmat if transposed else self.operator._rmatmat
        if inverse is None:
            near = self._preconditioner
            result = solve(self.operator, rhs, near, transposed=transposed)
        elif (n <= m) != transposed:
            result = inverse @ product(rhs)
        else:
            result = product(inverse @ rhs)
        return result.astype(x.dtype, copy=False)

    def _matmat(self, x: Array, /) -> Array:
        return self._apply(x, transposed=False)

    def _rmatmat(self, y: Array, /) -> Array:
        return self._apply(y, transposed=True)

    def pinv(self) -> QueryMatrix:
        return self.operator


METHODS = ("closed form", "common basis", "eigenvectors", "LSMR")
"""Ways to a pseudoinverse, the quickest first."""


@singledispatch
def pinv_method(operator: QueryMatrix) -> str:
    """Return how A⁺ multiplies: what it is made of that takes longest.

    * "closed form": by the structure.
    * "common basis": by one basis per attribute, for stacked products.
    * "eigenvectors": the smaller gram is factorised, or the explicit matrix.
    * "LSMR": every column is solved by some hundred products.

    Examples
    --------
    >>> from mmech import AllRange, Circulant, Kronecker, Prefix
    >>> from mmech.operators.pinv import pinv_method
    >>> pinv_method(Prefix(10**6)), pinv_method(AllRange(100))
    ('closed form', 'eigenvectors')
    >>> pinv_method(Kronecker([Prefix(8), AllRange(2100)]))
    'LSMR'
    """
    return METHODS[_method(operator.pinv())]


pinv_method.register(Dense, lambda operator: METHODS[2])  # found when it is asked for


@singledispatch
def _method(pinv: QueryMatrix) -> int:
    return 0


_method.register(JointInverseGram, lambda pinv: 1)
_method.register(Pinv, lambda pinv: 2 if pinv.is_factorised else 3)
_method.register(Wrapper | Scaled, lambda pinv: _method(pinv.operator))
_method.register(Composite, lambda pinv: max(map(_method, pinv.parts)))


@singledispatch
def pinv_entries(strategy: QueryMatrix, columns: int) -> int:
    """Return what A⁺ visits for some columns, in entries: known before any is visited.

    A solved column costs many products; an explicit pseudoinverse is found first.
    """
    solved = PRECONDITIONED if has_full_column_rank(strategy) else SOLVED
    solved = solved if pinv_method(strategy) == "LSMR" else 1
    return columns * max(strategy.shape) * solved


@pinv_entries.register
def _(strategy: Dense, columns: int) -> int:
    m, n = strategy.shape
    return columns * max(m, n) + m * n * min(m, n) // FACTORISED


@singledispatch
def structured_pinv(operator: QueryMatrix) -> QueryMatrix | None:
    """Return the pseudoinverse by the structure, ``None`` where that does not help.

    For operators whose closed form needs to know of others; a class that needs only
    itself has its own method `pinv`.
    """
    return None


def are_apart(operator: VStack) -> bool:
    """Whether blocks ask different cells of the domain each, one by one."""
    blocks: Any = operator.blocks
    return (
        {type(block) for block in blocks} == {Merged}
        and np.sum([block._groups >= 0 for block in blocks], axis=0).max() == 1
        and all((block.sizes == 1).all() for block in blocks)
    )


@structured_pinv.register
def _(operator: VStack) -> QueryMatrix | None:
    """(AᵀA)⁻¹Aᵀ for Kroneckers of full rank in a common basis.

    Blocks that ask different cells are inverted one by one.
    """
    if are_apart(operator):
        blocks: Any = operator.blocks
        return VStack([Merged(b.operator.pinv().T, b.groups) for b in blocks]).T
    inverse = joint_inverse_gram(operator)
    return None if inverse is None else Product(inverse, operator.T)


@structured_pinv.register
def _(operator: Merged) -> QueryMatrix | None:
    """C⁺A'⁺ where A' has full column rank, or C is square."""
    if not (operator.reorders or has_full_column_rank(operator.operator)):
        return None
    squares = operator.merge.power(2).sum(axis=1)  # the rows of C are orthogonal
    spread = Sparse(operator.merge.T) @ Diagonal(1.0 / squares)
    return spread @ operator.operator.pinv()


def pinv(operator: QueryMatrix) -> QueryMatrix:
    """Return A⁺, by the structure where that helps."""
    closed = structured_pinv(operator)
    return Pinv(operator) if closed is None else closed
