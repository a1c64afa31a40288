"""Magnitudes of integer operators in whole numbers: exact, an upper bound, or refused.

Noise is calibrated to sums over the columns of an integer matrix, and 64-bit integers
wrap around without a word. Everything here is decided in Python integers, which have
any size, before 64-bit integers are used:

* `mmech.operators.known.norm_bounds` bounds the largest L1 norm of a row and of a
  column, from the structure. Additions and multiplications modulo 2^64 are exact for
  every result that the bounds keep below 2^63, whatever happens in between.
* `column_sums` adds up the entries of every column, exactly.
* `largest_entry` bounds the magnitude of every entry.
* `as_integer_matrix` replaces an operator of an unknown class by the matrix of its
  columns, which is then what is measured: the class is not taken at its word.

The tables at the end have one rule per class, for that very class. Those derived from
it may multiply in another way. A class without a rule is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmech.checks import magnitude
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import Array, QueryMatrix
from mmech.operators.basic import Diagonal, Identity, Ones, Total
from mmech.operators.compose import Merged, Product, Scaled, Transpose, VStack
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.known import BOUNDS, is_known
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.partition import Conjunctions, Partition, PartitionStack
from mmech.operators.tau import Tau

Kind = TypeVar("Kind", bound=type)

Sums = int | NDArray[Any]
"""One whole number per column (int64, or Python integers), or one for all columns."""

FITS = 2**62
"""Magnitudes below this are left to 64-bit integers, with a factor of two to spare."""

EXACT_FLOATS = 2.0**53
"""Sums of whole numbers >= 0 that stay below this are exact in float64."""


def largest_entry(operator: QueryMatrix) -> int:
    """Return an upper bound on the magnitudes of all entries, exact for explicit ones.

    Examples
    --------
    >>> from mmech import Dense, Kronecker, Prefix
    >>> from mmech.structure.exact import largest_entry
    >>> largest_entry(Kronecker([Prefix(8), Dense([[2, -3]])]))
    3
    """
    kind = type(operator)
    if kind in LARGEST:
        return LARGEST[kind](operator)
    return min(operator._norm_bounds or (FITS,))


# ---- sums over columns -----------------------------------------------------------


def column_sums(operator: QueryMatrix, power: int = 1) -> Sums:
    """Return Σ_i |A_ij|^power of every column j, exactly.

    Parameters
    ----------
    operator : QueryMatrix of int64, shape (m, n)
        Of a known class, see `as_integer_matrix`.
    power : {1, 2}
        Add up magnitudes, or squares.

    Returns
    -------
    int or ndarray, shape (n,)
        One number where all columns are known to agree, or where the columns are too
        many to list: then it is an upper bound. The array holds 64-bit integers, or
        Python integers where those would not do.

    Raises
    ------
    ValueError
        If the numbers are too large for 64 bits and too many for Python integers.

    Examples
    --------
    >>> from mmech import Dense, Marginal
    >>> from mmech.structure.exact import column_sums
    >>> column_sums(Marginal((2, 3), [0]))
    1
    >>> column_sums(Dense([[2**32, -1], [1, 1]]), 2)
    array([18446744073709551617, 2], dtype=object)
    """
    if not is_known(operator):
        raise TypeError(
            f"the entries of {operator!r} are not known to be integers; list them with "
            "Dense or Sparse"
        )
    rule = SUMS.get(type(operator))
    sums = None if rule is None else rule(operator, power)
    return _listed(operator, power) if sums is None else sums


def _largest(numbers: Sums) -> int:
    return numbers if isinstance(numbers, int) else int(numbers.max(initial=0))


def _wide(numbers: Sums) -> Sums:
    """Return Python integers in place of 64-bit ones."""
    if isinstance(numbers, int) or numbers.dtype == object:
        return numbers
    if numbers.size > LIMITS.wide_sums:
        raise ValueError(
            "the column sums of the strategy do not fit into 64-bit integers; scale "
            "the strategy down"
        )
    return numbers.astype(object)


def times(left: Sums, right: Sums) -> Sums:
    """Return the product, in Python integers where 64 bits are short."""
    if isinstance(right, int) and right == 1:
        return left
    sizes = _largest(left), _largest(right)
    if max(*sizes, sizes[0] * sizes[1]) < FITS:
        return left * right
    return _wide(left) * _wide(right)


def total_sums(parts: Iterable[Sums]) -> Sums:
    """Return the sum of the column sums of several operators."""
    total: Sums = 0
    for part in parts:
        fits = _largest(total) + _largest(part) < FITS
        total = total + part if fits else _wide(total) + _wide(part)
    return total


def _each(sums: Sums, n: int) -> NDArray[Any]:
    """Return one number per column."""
    if not isinstance(sums, int):
        return sums
    return np.full(n, sums, np.int64 if sums < FITS else object)


def _reduced(entries: Array, power: int) -> NDArray[Any]:
    """Return the sums of explicit columns, shape (m, k) to (k,)."""
    magnitudes: Any = np.abs(entries)
    floats = (magnitudes.astype(np.float64) ** power).sum(axis=0)
    largest = float(floats.max(initial=0.0))
    if largest < EXACT_FLOATS:
        return np.asarray(floats, np.int64)
    if largest >= FITS:
        magnitudes = _wide(magnitudes)
    return np.asarray((magnitudes**power).sum(axis=0))


def _listed(operator: QueryMatrix, power: int) -> NDArray[Any]:
    """Return the sums of columns that are listed, by columns or by fewer rows."""
    if min(operator._norm_bounds or (FITS,)) >= FITS:
        raise ValueError(
            f"the entries of {operator!r} may not fit into 64-bit integers; scale the "
            "strategy down"
        )
    m, n = operator.shape
    if 0 < m < n:
        rows = (_reduced(block, power) for _, block in operator._row_blocks())
        return _each(total_sums(rows), n)
    parts = [_reduced(b, power) for _, b in operator._column_blocks()]
    return np.concatenate([np.zeros(0, np.int64), *parts])


def transposed_sums(operator: QueryMatrix, power: int) -> Sums | None:
    """Multiply ones with the transpose: for entries >= 0 and their sums."""
    bounds = operator._norm_bounds
    assert bounds is not None
    if power != 1 or not operator.is_nonnegative or bounds[1] >= FITS:
        return None
    ones = np.ones((operator.shape[0], 1), np.int64)
    return np.asarray(operator._rmatmat(ones)[:, 0])


def _zeros_and_ones(operator: QueryMatrix, power: int) -> Sums | None:
    counts = operator.column_abs_sums()
    return None if counts.dtype != np.int64 else counts


def _sparse_sums(operator: Sparse, power: int) -> Sums:
    matrix = operator.matrix
    entries: Any = np.abs(matrix.data)
    n = matrix.shape[1]
    floats = entries.astype(np.float64) ** power
    if float(np.bincount(matrix.indices, floats, n).max(initial=0.0)) >= FITS:
        entries = _wide(entries)
    out = np.zeros(n, entries.dtype)
    np.add.at(out, matrix.indices, entries**power)
    return out


def _diagonal_sums(operator: Diagonal, power: int) -> Sums:
    values: Sums = np.abs(operator._values)
    return times(values, values) if power == 2 else values


def _tau_sums(operator: Tau, power: int) -> Sums | None:
    if power != 2 or not operator.has_squares:
        return None
    scales = np.abs(operator._scales)
    return times(times(scales, scales), operator.squares)


def _stack_sums(operator: VStack, power: int) -> Sums:
    return total_sums(column_sums(block, power) for block in operator.blocks)


def _kronecker_sums(operator: Kronecker, power: int) -> Sums:
    parts = [column_sums(factor, power) for factor in operator.factors]
    largest = math.prod(_largest(part) for part in parts)
    n = operator.shape[1]
    limit = LIMITS.listed_entries if largest < FITS else LIMITS.wide_sums
    if n > limit or all(isinstance(part, int) for part in parts):
        return largest
    sides = map(_each, parts, [factor.shape[1] for factor in operator.factors])

    def outer(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(times(left[:, None], right[None, :])).ravel()

    return reduce(outer, sides)


def _product_sums(operator: Product, power: int) -> Sums | None:
    first, *others = operator.factors
    if type(first) is Diagonal and others:
        rest = others[0] if len(others) == 1 else Product(*others)
        powers = _diagonal_sums(first, power)
        if _largest(powers) < FITS and rest.is_nonnegative and largest_entry(rest) <= 1:
            # Entries of 0 and 1 are their own powers.
            return transposed_sums(Product(Diagonal(powers), rest), 1)
    return transposed_sums(operator, power)


def _merged_sums(operator: Merged, power: int) -> Sums:
    inner = _each(column_sums(operator.operator, power), operator.operator.shape[1])
    return np.where(operator._groups >= 0, inner[operator._groups], 0)


# ---- operators of unknown classes ------------------------------------------------


def as_integer_matrix(operator: QueryMatrix) -> QueryMatrix:
    """Return an operator whose entries are certain to be integers.

    Operators of this package state their entries. One of another class is replaced by
    the matrix of its columns, which are checked.

    Raises
    ------
    ValueError
        If an entry is not an integer, or the products with integers and with floats
        differ.
    DomainTooLargeError
        If the class is unknown and there are too many entries to list.
    """
    if is_known(operator):
        return operator
    m, n = operator.shape
    if m * n > LIMITS.listed_entries:
        raise DomainTooLargeError(
            f"{operator!r} has {magnitude(m * n)} entries, too many to check that all "
            f"are integers (limit {LIMITS.listed_entries}); compose it of operators "
            "of mmech"
        )
    entries = np.empty((m, n), np.int64)
    width = max(1, LIMITS.block_entries // max(1, m, n))
    for start in range(0, n, width):
        size = min(width, n - start)
        unit = np.zeros((n, size), np.int64)
        unit[np.arange(start, start + size), np.arange(size)] = 1
        block = np.asarray(operator._matmat(unit))
        floats = np.asarray(operator._matmat(unit.astype(np.float64)), np.float64)
        if not _are_integers(block, floats, (m, size)):
            raise ValueError(
                f"{operator!r} has dtype int64 but its entries are not all integers "
                "below 2**63; leave its dtype out (float64 is the default), so that "
                "its entries are rounded before they are measured"
            )
        entries[:, start : start + size] = block
    matrix = Dense(entries)
    few = 8 * np.count_nonzero(entries) < m * n
    return Sparse(matrix.to_sparse()) if few else matrix


def _are_integers(block: Array, floats: Array, shape: tuple[int, int]) -> bool:
    if block.shape != shape or floats.shape != shape:
        return False
    if block.dtype.kind == "f":
        whole = (block == np.rint(block)).all() and (np.abs(block) < EXACT_FLOATS).all()
    else:
        whole = block.dtype.kind in "bi"
    return bool(whole) and np.allclose(block.astype(np.float64), floats, 1e-9, 1e-9)


# ---- one rule per class ----------------------------------------------------------

_BOXES: tuple[type, ...] = (Conjunctions, Partition, PartitionStack, Marginal)
_ZEROS_AND_ONES = (Identity, Ones, Total, *_BOXES)

LARGEST: dict[type, Callable[[Any], int]] = {
    **dict.fromkeys(_ZEROS_AND_ONES, lambda a: 1),
    Dense: lambda a: _largest(np.abs(a._array)),
    Sparse: lambda a: _largest(np.abs(a.matrix.data)),
    Diagonal: lambda a: BOUNDS[Diagonal](a)[0],
    Scaled: lambda a: abs(int(a.weight)) * largest_entry(a.operator),
    **dict.fromkeys((Merged, Transpose), lambda a: largest_entry(a.operator)),
    VStack: lambda a: max(map(largest_entry, a.blocks)),
    Kronecker: lambda a: math.prod(map(largest_entry, a.factors)),
}
"""Class to the rule for `largest_entry`; without one, a norm bounds the entries."""

SUMS: dict[type, Callable[..., Sums | None]] = {
    **dict.fromkeys(_ZEROS_AND_ONES, _zeros_and_ones),
    **dict.fromkeys((Identity, Marginal, Partition), lambda a, power: 1),
    **dict.fromkeys((Ones, Total), lambda a, power: int(a.m)),
    PartitionStack: lambda a, power: a.n_partitions,
    Diagonal: _diagonal_sums,
    Tau: _tau_sums,
    Dense: lambda a, power: _reduced(a._array, power),
    Sparse: _sparse_sums,
    Scaled: lambda a, p: times(column_sums(a.operator, p), abs(int(a.weight)) ** p),
    **dict.fromkeys((VStack, Marginals), _stack_sums),
    Kronecker: _kronecker_sums,
    Product: _product_sums,
    Merged: _merged_sums,
    Transpose: transposed_sums,
}
"""Class to the rule for `column_sums`; without one, or where it returns ``None``, the
columns are listed."""


def zeros_and_ones(kind: Kind) -> Kind:
    """Register rules for a class whose entries are 0 and 1: a decorator."""
    LARGEST[kind] = lambda a: 1
    SUMS[kind] = _zeros_and_ones
    return kind
