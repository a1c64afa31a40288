"""Strategies as integer matrices with rational budgets: what is really measured.

A guarantee that holds for the bits needs exact sums. The strategy that touches the
records is an integer matrix A', and A'D is computed in 64-bit integers. Its sensitivity
is a whole number found from all its columns. A strategy is a stack of
blocks A'_b of whole weights. The noise on a row i of weight k_i has scale
t_i = K / (k_i ε), where

    K = max_j Σ_i k_i |A'_ij|          (L1, Laplace)

so that one record costs at most Σ_i |A'_ij| / t_i <= ε, and as much for some cell.
Weights of blocks are never multiplied into the counts: the noise on a count keeps the
granularity one, and with it less variance. Under zCDP the squares of the entries take
the place of their magnitudes, and t_i² = K / (2 ρ k_i).

Rounding happens here, before anything is measured: reconstruction and reported errors
use the rounded strategy, so that estimates stay unbiased and errors exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, singledispatch

import numpy as np
import scipy.sparse as sp

from mmech.arrays import Floats, Integers
from mmech.checks import magnitude
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.algebra import scale_rows
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.basic import Diagonal, Ones
from mmech.operators.compose import Merged, Product, Scaled, VStack
from mmech.operators.convolution import MOST_CELLS
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.known import is_known
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals, Residuals
from mmech.operators.pidentity import ColumnScaledPIdentity, PIdentity
from mmech.operators.tau import Tau
from mmech.privacy.cost import laplace_rho, rounded_up
from mmech.structure.exact import (
    Sums,
    as_integer_matrix,
    column_sums,
    largest_entry,
    times,
    total_sums,
)

GRID_BITS = {"L1": 12, "L2": 16}
"""Bits of the grid that real-valued strategies are rounded to."""

FINE_BITS = {"L1": 30, "L2": 26}
"""The same where rows must keep their span: their rounding is below 1e-7."""

FEWEST_UNITS = 16
MOST_BITS = 20
"""A p-Identity gets a finer grid, up to 20 bits, for 16 units on every cell."""

PRODUCT_BITS = {"L1": 31, "L2": 28}
"""Bits that the factors of a Kronecker product share."""

SCALE_BITS = 8
"""Bits more that they share where some have scales, which have a grid of their own."""

FEWEST_BITS = 6
"""Bits of the grid of scales at least."""

COARSER_SCALES = 2
"""Bits that the grid of the scales of a `Tau` has less than the one of its symbol."""

WEIGHT_TOTAL = 2**20
"""Sum of the whole weights that stand for real ones."""

LARGEST_WEIGHT_TOTAL = 2**40
"""The same where blocks of different units are stacked, under L2."""

PRICE_MARGIN = 2.0**-20
"""What prices are rounded up by: more than the errors of sums of 2^32 doubles >= 0."""

WEIGHT_TOLERANCE = 1e-9
"""Relative distance at which real weights count as multiples of the smallest."""


@dataclass(frozen=True, eq=False)
class IntegerBlock:
    """Some rows of an integer strategy, of a whole weight k >= 1."""

    matrix: QueryMatrix
    weight: int = 1

    def __post_init__(self) -> None:
        if self.matrix.dtype != np.int64 or not is_known(self.matrix):
            raise TypeError(
                f"a block must be an integer matrix of mmech, got {self.matrix!r}; "
                "integer_strategy makes blocks of any operator"
            )


@dataclass(frozen=True, eq=False)
class IntegerStrategy:
    """An integer matrix with weights on its rows, ready to be measured.

    Attributes
    ----------
    blocks : tuple of IntegerBlock
        The rows, in order.
    form : QueryMatrix of shape (p, n)
        The same rows without weights, as an operator whose pseudoinverse and error
        have a closed form.
    norm : {"L1", "L2"}
        Norm of the sensitivity.
    matrix : QueryMatrix of int64, shape (p, n), default=None
        All rows in one, where that multiplies faster than block by block.

    Examples
    --------
    >>> from mmech import Marginals
    >>> from mmech.integer_strategy import integer_strategy
    >>> exact = integer_strategy(Marginals((2, 3), {(0,): 0.25, (1,): 0.75}))
    >>> [block.weight for block in exact.blocks], exact.sensitivity
    ([1, 3], 4)
    """

    blocks: tuple[IntegerBlock, ...]
    form: QueryMatrix
    norm: str = "L1"
    matrix: QueryMatrix | None = None

    @property
    def multiplied(self) -> tuple[QueryMatrix, ...]:
        """The matrices that counts are multiplied with, rows in order."""
        if self.matrix is not None:
            return (self.matrix,)
        return tuple(block.matrix for block in self.blocks)

    def product(self, counts: Integers) -> Integers:
        """Return A' x of counts of shape (n, k), exact. Sensitive."""
        return np.concatenate([rows._matmat(counts) for rows in self.multiplied])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of measured queries and of domain cells."""
        rows = sum(block.matrix.shape[0] for block in self.blocks)
        return (rows, self.blocks[0].matrix.shape[1])

    @property
    def largest_entry(self) -> int:
        """A bound on the magnitude of every entry, below 2^62."""
        return self._entries_within(self.sensitivity)

    def _entries_within(self, sensitivity: int) -> int:
        """Bound the entries by K, and where that is large by what is closer."""
        weighed = sensitivity // min(block.weight for block in self.blocks)
        largest = math.isqrt(weighed) if self.norm == "L2" else weighed
        if largest < 2**31:
            return largest
        bounds = [min(block.matrix._norm_bounds or ()) for block in self.blocks]
        return min(largest, max(bounds))

    @cached_property
    def sensitivity(self) -> int:
        """K, the largest weighted sum of the magnitudes (L2: squares) of a column."""
        pairs = ((block.matrix, block.weight) for block in self.blocks)
        power = 2 if self.norm == "L2" else 1
        sums = total_sums(times(column_sums(rows, power), k) for rows, k in pairs)
        largest = sums if isinstance(sums, int) else int(sums.max(initial=0))
        if largest <= 0:
            raise _nothing_to_measure()
        entries = self._entries_within(largest)
        if entries >= 2**62:
            raise ValueError(
                f"the entries of the strategy reach {entries:.3g} and do not fit into "
                "64-bit integers; scale the strategy down"
            )
        return largest

    @property
    def is_nonnegative(self) -> bool:
        """Whether no entry is known to be below zero."""
        return all(block.matrix.is_nonnegative for block in self.blocks)

    def laplace_rho(self, scale: Fraction, moves: int) -> Fraction:
        r"""Return the rho of Laplace noise on the rows, rounded up.

        .. math:: \max_j \sum_i \kappa(m |A'_{ij}|, b / k_i)

        with :math:`\kappa` of `laplace_rho`, which is convex: where entries differ,
        it is bounded by its chord from zero to the largest entry, and by its parabola.
        Cost: two sums over columns by structure, as for `sensitivity`.

        Parameters
        ----------
        scale : Fraction
            Scale b of the noise on rows of weight one.
        moves : int
            Number m of unit changes of the counts between neighbours.
        """
        parts = [_columns_in_rho(b.matrix, b.weight, scale, moves) for b in self.blocks]
        total = sum(parts, np.zeros(1))
        return rounded_up(Fraction(float(total.max()) * (1 + PRICE_MARGIN)))

    def dominating_column(self) -> list[tuple[int, int, int]]:
        """Return the rows that a unit change moves at most, by weight and entry.

        As (a row, M, n): n rows with the weight of this one move by M. In one column
        all of these are reached, and none has more. Empty where no column dominates, or
        where some entries of a block differ. Exact, by structure.

        Examples
        --------
        >>> from mmech import Hierarchy, Identity, Prefix
        >>> from mmech.integer_strategy import integer_strategy
        >>> integer_strategy(Hierarchy(8, {1: 1, 2: 1, 8: 3})).dominating_column()
        [(0, 1, 2), (12, 1, 1)]
        >>> integer_strategy(Prefix(8)).dominating_column()
        [(0, 1, 8)]
        """
        first: dict[tuple[int, int], int] = {}
        sums: dict[tuple[int, int], Sums] = {}
        start = 0
        for block in self.blocks:
            for matrix in _stacked(block.matrix):
                entry = _common_entry(matrix)
                if not entry:
                    return []
                key = block.weight, entry
                first.setdefault(key, start)
                sums[key] = total_sums([sums.get(key, 0), column_sums(matrix)])
                start += matrix.shape[0]
        most = {key: int(np.max(each)) for key, each in sums.items()}
        reached = np.array(True)
        for key, each in sums.items():
            reached = np.asarray(reached & np.equal(each, most[key]))
        if not reached.any():
            return []
        return [(first[k], k[1], n // k[1]) for k, n in most.items() if n]

    def row_weights(self) -> list[tuple[int, int, int]]:
        """Return runs of rows of equal weight, as (start, stop, weight)."""
        runs: list[tuple[int, int, int]] = []
        start = 0
        for block in self.blocks:
            stop = start + block.matrix.shape[0]
            if runs and runs[-1][2] == block.weight:
                runs[-1] = (runs[-1][0], stop, block.weight)
            else:
                runs.append((start, stop, block.weight))
            start = stop
        return runs

    def scaled(self, factors: Floats) -> QueryMatrix:
        """Return the form with its rows multiplied by factors (p,), shape (p, n)."""
        return scale_rows(self.form, factors)


def integer_strategy(
    strategy: QueryMatrix, *, norm: str = "L1", fine: bool = False
) -> IntegerStrategy:
    """Return a strategy as integer rows with whole weights, for noise of a norm.

    Integer strategies stay as they are. A stack keeps its blocks, with weights rounded
    to a total of 2^20; a p-Identity is rounded to a 2^12 grid (L2: 2^16) so that every
    column keeps its sum and every identity entry some units; Kronecker products are
    rounded factor by factor; other matrices entry by entry. Blocks of weight zero are
    left out. With `fine` the grid is 2^30 (L2: 2^26), for real strategies of fewer rows
    than cells, whose span is not quite kept: answers have a relative bias of about one
    unit of the grid.

    Raises
    ------
    ValueError
        If all entries are zero.
    DomainTooLargeError
        If the strategy has no structure and too many entries to round one by one.

    Examples
    --------
    >>> from mmech import PIdentity
    >>> from mmech.integer_strategy import integer_strategy
    >>> exact = integer_strategy(PIdentity([[0.5, 0.5, 0.0]]))
    >>> exact.blocks[0].matrix.to_dense()
    array([[2731,    0,    0],
           [   0, 2731,    0],
           [   0,    0, 4096],
           [1365, 1365,    0]])
    """
    return _convert(strategy, norm, (FINE_BITS if fine else GRID_BITS)[norm])


# ---- what columns cost in rho -------------------------------------------------------


@singledispatch
def _columns_in_rho(
    matrix: QueryMatrix, weight: int, scale: Fraction, moves: int
) -> Floats:
    """Return what a unit change of every cell costs, shape (n,) or (1,) for the most.

    In doubles, with the errors that `PRICE_MARGIN` covers.
    """
    largest = max(largest_entry(matrix), 1)
    _, columns = matrix._norm_bounds or (2**62, 2**62)
    t = scale / weight
    chord = float(laplace_rho(moves * largest, t) / largest)  # most that a unit costs
    prices = np.atleast_1d(column_sums(matrix)) * chord
    if 1 < largest * columns < 2**62:
        squares = np.atleast_1d(column_sums(matrix, 2))
        prices = np.minimum(prices, squares * float((moves / t) ** 2 / 2))
    return np.asarray(prices, np.float64)


@_columns_in_rho.register(VStack)
def _(matrix: VStack, weight: int, scale: Fraction, moves: int) -> Floats:
    parts = (_columns_in_rho(b, weight, scale, moves) for b in matrix.blocks)
    return sum(parts, np.zeros(1))


@singledispatch
def _stacked(matrix: QueryMatrix) -> tuple[QueryMatrix, ...]:
    """Return the blocks of a stack."""
    return (matrix,)


@_stacked.register(VStack)
def _(matrix: VStack) -> tuple[QueryMatrix, ...]:
    return sum(map(_stacked, matrix.blocks), ())


@singledispatch
def _common_entry(matrix: QueryMatrix) -> int:
    """Return M where every entry is known to be 0 or ±M, else zero."""
    largest = largest_entry(matrix)
    if largest <= 1:
        return largest
    squares = column_sums(matrix, 2)
    # One number for all columns may be a bound.
    if isinstance(squares, int) or int(np.max(squares, initial=0)) < largest**2:
        return 0
    sums = column_sums(matrix)
    if isinstance(sums, int):
        return 0
    alike = times(sums, largest) == squares
    return largest if np.all(alike) else 0


@_common_entry.register(Kronecker)
def _(matrix: Kronecker) -> int:
    return math.prod(map(_common_entry, matrix.factors))


# ---- one rule per kind of strategy ---------------------------------------------


def _convert(strategy: QueryMatrix, norm: str, bits: int) -> IntegerStrategy:
    converted = by_structure(strategy, norm, bits)
    if converted is not None:
        return converted
    if strategy.dtype == np.int64:
        matrix = as_integer_matrix(strategy)
        return IntegerStrategy((IntegerBlock(matrix),), strategy, norm)
    return _rounded(strategy, norm, bits)


@singledispatch
def by_structure(strategy: QueryMatrix, norm: str, bits: int) -> IntegerStrategy | None:
    """Return the integer rows that the structure gives, ``None`` without a rule."""
    return None


@by_structure.register(Scaled)
def _scaled(strategy: Scaled, norm: str, bits: int) -> IntegerStrategy:
    """Leave a common factor out: noise is calibrated to what is left."""
    if strategy.weight == 0:
        raise _nothing_to_measure()
    return _convert(strategy.operator, norm, bits)


@by_structure.register(Marginals)
def _marginals(strategy: Marginals, norm: str, bits: int) -> IntegerStrategy:
    sizes = strategy.domain_shape
    used = {key: abs(w) for key, w in strategy.weights.items() if w != 0}
    blocks = weighted([Marginal(sizes, key) for key in used], used.values(), norm)
    form = Marginals(sizes, dict.fromkeys(used, 1))
    return IntegerStrategy(blocks, form, norm, form)


@by_structure.register(VStack)
def _stack(strategy: VStack, norm: str, bits: int) -> IntegerStrategy:
    blocks = [b for b in strategy.blocks if _size(b, norm) > 0]
    if not blocks:
        raise _nothing_to_measure()
    parts = [_convert(block, norm, bits) for block in blocks]
    # A block of size s that became whole rows of size K has rows s / K times as tall;
    # under L2, K is a sum of squares.
    power = 2 if norm == "L2" else 1
    matrices: list[QueryMatrix] = []
    reals: list[float] = []
    for block, part in zip(blocks, parts, strict=True):
        ratio = _size(block, norm) / part.sensitivity ** (1 / power)
        matrices += [rows.matrix for rows in part.blocks]
        reals += [ratio * float(rows.weight) ** (1 / power) for rows in part.blocks]
    whole = weighted(matrices, reals, norm, True)
    return IntegerStrategy(whole, VStack([part.form for part in parts]), norm)


@by_structure.register(PIdentity)
def _pidentity(strategy: PIdentity, norm: str, bits: int) -> IntegerStrategy:
    """Round, then let each column's identity entry make up for it.

    The grid is finer where an identity entry would have fewer than 16 units on it.
    Entries are rounded down where rounding to the nearest would take units of these.
    """
    theta = np.asarray(strategy.theta)
    scales = strategy.column_scales
    needed = math.ceil(math.log2(FEWEST_UNITS * float(scales.max())))
    grid = 2 ** min(max(bits, needed), max(bits, MOST_BITS))
    lower = np.empty(theta.shape, np.int64)
    for row, weights in zip(lower, theta, strict=True):  # for memory
        row[:] = np.rint(grid * (weights / scales))
    if strategy.norm == "L1":
        few = np.flatnonzero(grid - lower.sum(axis=0) < FEWEST_UNITS)
        lower[:, few] = np.trunc(grid * (theta[:, few] / scales[few]))
        # These sum to at most grid (1 - 1/s), so a unit is left for the identity.
        upper = np.maximum(1, grid - lower.sum(axis=0))
    else:
        upper = np.maximum(1, np.rint(grid / scales).astype(np.int64))
    form = ColumnScaledPIdentity(lower / upper, 1.0 / upper)
    matrix: QueryMatrix = Diagonal(upper)
    if strategy.p:
        matrix = VStack([matrix, Dense._of(lower)])
    return IntegerStrategy((IntegerBlock(matrix),), form, norm)


@by_structure.register(Tau)
def _tau(strategy: Tau, norm: str, bits: int) -> IntegerStrategy | None:
    """Round the symbol, which keeps the matrix in its algebra, then the scales."""
    symbol, scales = strategy._symbol, strategy._scales
    largest = np.abs(symbol).max(), np.abs(scales).max()
    if norm == "L1" or strategy.dtype == np.int64 or min(largest) == 0:
        return None
    check_filter(strategy, 2 * strategy.n, MOST_CELLS // 2)
    fine = max(bits - COARSER_SCALES, FEWEST_BITS)
    matrix = Tau(
        np.rint(symbol * (2**bits / largest[0])).astype(np.int64),
        strategy.free_end,
        np.rint(scales * (2**fine / largest[1])).astype(np.int64),
    )
    return IntegerStrategy((IntegerBlock(matrix),), matrix, norm)


def check_filter(strategy: QueryMatrix, length: int, most: int) -> None:
    """Refuse more cells than integers are convolved exactly, before anything is spent.

    `most` cells always fit.
    """
    if length > MOST_CELLS:
        raise DomainTooLargeError(
            f"{strategy!r} needs exact sums over {strategy.shape[1]} cells, above what "
            f"64-bit integers are convolved for; use at most {most} cells"
        )


@by_structure.register(Kronecker)
def _kronecker(strategy: Kronecker, norm: str, bits: int) -> IntegerStrategy | None:
    if strategy.dtype == np.int64 and is_known(strategy):
        return None
    real = [_shares(f) for f in strategy.factors if f.dtype != np.int64]
    shared = PRODUCT_BITS[norm] + (SCALE_BITS if 2 in real else 0)
    bits = min(bits, shared // max(1, sum(real)))
    parts = [_single(_convert(factor, norm, bits), norm) for factor in strategy.factors]
    matrix = Kronecker([part.blocks[0].matrix for part in parts])
    form = Kronecker([part.form for part in parts])
    return IntegerStrategy((IntegerBlock(matrix),), form, norm)


@singledispatch
def _shares(factor: QueryMatrix) -> int:
    """Return how many numbers that are rounded make one entry."""
    return 1


_shares.register(Tau, lambda factor: 2)


def _single(part: IntegerStrategy, norm: str) -> IntegerStrategy:
    """Return one block of weight one, with whole weights multiplied in."""
    if len(part.blocks) == 1:
        return IntegerStrategy((IntegerBlock(part.blocks[0].matrix),), part.form, norm)
    power = 2 if norm == "L2" else 1
    sizes = [block.matrix.shape[0] for block in part.blocks]
    weights = np.array([float(block.weight) for block in part.blocks])
    rows = np.repeat(weights ** (1 / power), sizes)
    # Whole multiples on a small grid: the product with other factors must fit.
    whole = np.maximum(1, np.rint(rows * (2**8 / rows.max()))).astype(np.int64)
    matrix = Diagonal(whole) @ VStack([block.matrix for block in part.blocks])
    form = part.scaled(whole.astype(np.float64))
    return IntegerStrategy((IntegerBlock(matrix),), form, norm)


@by_structure.register(Merged)
def _merged(strategy: Merged, norm: str, bits: int) -> IntegerStrategy | None:
    groups = np.asarray(strategy.groups)
    inner = _convert(strategy.operator, norm, bits)
    blocks = [IntegerBlock(Merged(b.matrix, groups), b.weight) for b in inner.blocks]
    return IntegerStrategy(tuple(blocks), Merged(inner.form, groups), norm)


@by_structure.register(Product)
def _product(strategy: Product, norm: str, bits: int) -> IntegerStrategy | None:
    """S W with whole W: round S, measure S'W."""
    left, *others = strategy.factors
    numbers = _coefficients(left)
    if numbers is None or len(others) != 1 or strategy.dtype == np.int64:
        return None
    queries = _whole_entries(others[0])
    largest = np.abs(numbers).max(initial=0.0)
    if queries is None or largest == 0:
        return None
    whole = np.rint((numbers / largest) * 2**bits).astype(np.int64)
    if numbers.ndim == 1:  # a row that is asked for is measured
        whole = np.maximum(np.abs(whole), numbers != 0)
    whole //= np.gcd.reduce(whole, axis=None)
    matrix = Product(Diagonal(whole) if numbers.ndim == 1 else Dense(whole), queries)
    if min(matrix._norm_bounds or (2**62,)) >= 2**62:
        return None
    return IntegerStrategy((IntegerBlock(matrix),), matrix, norm)


@singledispatch
def _coefficients(left: QueryMatrix) -> Floats | None:
    """Return the entries of an explicit matrix, or of a diagonal one those on it."""
    return None


_coefficients.register(Dense, lambda left: left.to_dense())
_coefficients.register(Diagonal, lambda left: left.diag())


@by_structure.register(Residuals)
def _residuals(strategy: Residuals, norm: str, bits: int) -> IntegerStrategy:
    """Multiply the rows of every residual by n_s: products of n_i I - J and ones."""
    sizes = strategy.domain_shape
    used = {key: abs(w) for key, w in strategy.weights.items() if w != 0}
    largest = max((sizes[i] for key in used for i in key), default=1)
    most = math.isqrt(LIMITS.table_entries)
    if largest > most:
        raise DomainTooLargeError(
            f"attributes of residuals must have at most {most} values, got {largest}; "
            "for marginals pass "
            "optimize(workload, privacy='zcdp', template='marginals') as the strategy"
        )
    cells = {key: product_of(sizes[i] for i in key) for key in used}
    blocks: list[QueryMatrix] = []
    for key in used:
        factors = [
            Dense(n * np.eye(n, dtype=np.int64) - 1) if i in key else Ones(1, n)
            for i, n in enumerate(sizes)
        ]
        blocks.append(Kronecker(factors))
    reals = [weight / cells[key] for key, weight in used.items()]
    form = Residuals(sizes, cells)
    return IntegerStrategy(weighted(blocks, reals, norm), form, norm)


@singledispatch
def _whole_entries(operator: QueryMatrix) -> QueryMatrix | None:
    """Return an operator as an integer one, if all its entries are whole."""
    return as_integer_matrix(operator) if operator.dtype == np.int64 else None


@_whole_entries.register
def _(operator: Dense) -> QueryMatrix | None:
    array = operator.to_dense()
    if array.dtype == np.int64:
        return as_integer_matrix(operator)
    if (array == np.rint(array)).all() and np.abs(array).max(initial=0) < 2**53:
        return Dense(array.astype(np.int64))
    return None


def _rounded(strategy: QueryMatrix, norm: str, bits: int) -> IntegerStrategy:
    """Round every entry to the grid, by largest remainders within a column.

    Under L1 no column gets more units than its share of the grid, so that rounding
    never raises the sensitivity.
    """
    m, n = strategy.shape
    if m * n > LIMITS.rounded_entries and not isinstance(strategy, (Sparse, Diagonal)):
        raise DomainTooLargeError(
            f"the strategy {strategy!r} has {magnitude(m * n)} real entries without "
            "structure, too many to round to integers (limit "
            f"{LIMITS.rounded_entries}); use a template with structure, such as "
            "'kronecker' or 'marginals'"
        )
    largest = _size(strategy, norm)
    if largest == 0:
        raise _nothing_to_measure()
    columns = strategy.to_sparse().tocsc()
    exact = (columns.data.astype(np.float64) / largest) * 2**bits
    if norm == "L2":
        whole = np.rint(exact).astype(np.int64)
    else:
        whole = np.trunc(exact).astype(np.int64)
        remainder = np.abs(exact) - np.abs(whole)
        column = np.repeat(np.arange(n), np.diff(columns.indptr))
        missing = np.floor(np.bincount(column, remainder, n) + 1e-6).astype(np.int64)
        order = np.lexsort((-remainder, column))
        rank = np.empty(order.size, np.int64)
        rank[order] = np.arange(order.size) - columns.indptr[column[order]]
        whole += np.where(rank < missing[column], np.sign(exact), 0).astype(np.int64)
    grid = sp.csc_array((whole, columns.indices, columns.indptr), columns.shape)
    matrix: QueryMatrix = Sparse(grid.tocsr())
    if 4 * columns.nnz > m * n:
        matrix = Dense(matrix.to_dense())
    return IntegerStrategy((IntegerBlock(matrix),), matrix, norm)


def _nothing_to_measure() -> ValueError:
    return ValueError(
        "the strategy has only zero entries and measures nothing; at least one query "
        "must count something"
    )


# ---- weights and sizes -----------------------------------------------------------


def _size(operator: QueryMatrix, norm: str) -> float:
    return operator.sensitivity() if norm == "L1" else operator.l2_sensitivity()


def weighted(
    parts: Sequence[QueryMatrix],
    reals: Iterable[float],
    norm: str,
    stacked: bool = False,
) -> tuple[IntegerBlock, ...]:
    """Return blocks with whole weights in proportion to heights (L2: their squares).

    Exact where all are small multiples of the smallest, else rounded to a total of
    2^20, at least one each. Under L2 a block of few units may be stacked on one of
    many: the smallest weight is 2^10 then, up to a total of 2^40.
    """
    weights = np.array(list(reals), np.float64)
    weights /= weights.max()
    if norm == "L2":
        weights = np.square(weights)
    multiples = weights / max(float(weights.min()), np.finfo(np.float64).tiny)
    whole = np.rint(multiples)
    if (np.abs(multiples - whole) > WEIGHT_TOLERANCE * multiples).any() or not (
        whole.min() > 0 and whole.sum() <= WEIGHT_TOTAL
    ):
        shares = weights / weights.sum()
        total = WEIGHT_TOTAL
        if stacked and norm == "L2" and shares.min() * total < 1:
            total = min(2.0**10 / shares.min(), LARGEST_WEIGHT_TOTAL)
        whole = np.maximum(1, np.rint(shares * total))
    return tuple(map(IntegerBlock, parts, map(int, whole)))
