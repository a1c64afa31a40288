"""Pseudoinverses: where the structure helps, and where it does not."""

from __future__ import annotations

from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.limits import LIMITS
from mmech.operators.base import Array, QueryMatrix, query_matrix
from mmech.operators.basic import Diagonal
from mmech.operators.compose import Composite, Product, Scaled, Wrapper
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.joint import JointInverseGram, joint_inverse_gram
from mmech.operators.known import has_full_column_rank
from mmech.operators.lsmr import preconditioner, solve
from mmech.operators.merged import Merged
from mmech.operators.stack import VStack

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
        return symmetric_pinv(gram)

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


def symmetric_pinv(gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pseudoinverse of a symmetric positive semidefinite matrix.

    Eigenvalues below the squared rank tolerance times the largest, or below
    what rounding can tell from zero, count as zero.
    """
    values, vectors = np.linalg.eigh(gram)
    largest = values[-1] if values.size else 0.0
    floor = max(RANK_TOLERANCE**2, gram.shape[0] * np.finfo(float).eps) * largest
    keep = values > floor
    scaled = vectors[:, keep] / np.sqrt(values[keep])
    return scaled @ scaled.T


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
