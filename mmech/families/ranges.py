"""Ranges of ordered cells: those of one width, and listed ones."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.fft import next_fast_len, rfft

from mmech.arrays import Floats
from mmech.checks import check_integer, magnitude, plain_array, sizes_label
from mmech.error.pairs import check_work, computed_rows, rows_supported
from mmech.error.rules import known_gain
from mmech.exceptions import DomainTooLargeError
from mmech.families.separable import AllRange, energies_of_sums, forward
from mmech.limits import LIMITS
from mmech.operators.base import (
    Array,
    QueryMatrix,
    ZeroOne,
    held,
    once,
    product_of,
    query_matrix,
    read_only,
)
from mmech.operators.explicit import Sparse
from mmech.operators.known import BOUNDS, NormalForm, normal_form
from mmech.operators.marginals import check_domain_shape
from mmech.operators.tau import Tau
from mmech.reduction.cells import DESCRIBED, Groups, restrict_any, restrict_columns
from mmech.structure.blocks import (
    Moved,
    Overlaps,
    asks_ranges,
    energies,
    moved,
    overlaps,
    waves_of,
)
from mmech.structure.exact import zeros_and_ones
from mmech.structure.shape import frobenius_squared, known_rank
from mmech.structure.spectrum import (
    Sizes,
    Squares,
    asks_boxes,
    squares_by_kind,
    squares_of_boxes,
)

RANGE_CANCELLATION = 1e-4
"""The same for the variance of a range as a difference of two prefix sums."""


@query_matrix("WidthRange")
class WidthRange(ZeroOne):
    """All sums over contiguous ranges of one width: a sliding window.

    Row r sums the cells r..r+width-1. Products, and products with the gram, cost
    O(n) per vector whatever the width.

    Parameters
    ----------
    n : int
        Number of domain cells, in order.
    width : int
        Number of cells of a range, at most n.

    Raises
    ------
    ValueError
        If the width is not in 1..n.

    Examples
    --------
    >>> from mmech import WidthRange
    >>> WidthRange(5, 3) @ [1, 2, 3, 4, 5]
    array([ 6,  9, 12])
    >>> WidthRange(5, 3)
    WidthRange(5, 3) shape=(3, 5)
    """

    n: int
    width: int

    def __post_init__(self) -> None:
        self._set(n=check_integer(self.n, "n"))
        self._set(width=check_integer(self.width, "width"))
        if self.width > self.n:
            raise ValueError(
                f"width must be at most the number of cells, {self.n}, got {self.width}"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of ranges, n - width + 1, and number of cells."""
        return (self.n - self.width + 1, self.n)

    def _matmat(self, x: Array, /) -> Array:
        sums = np.zeros((self.n + 1, x.shape[1]), x.dtype)
        np.cumsum(x, axis=0, out=sums[1:])
        return sums[self.width :] - sums[: -self.width]

    def _rmatmat(self, y: Array, /) -> Array:
        changes = np.zeros((self.n, y.shape[1]), y.dtype)
        changes[: y.shape[0]] = y
        changes[self.width :] -= y[:-1]
        return np.cumsum(changes, axis=0)

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            return np.full(self.shape[0], self.width, np.int64)
        j = np.arange(self.n)
        first = np.maximum(j - self.width + 1, 0)
        return np.minimum(j, self.n - self.width) - first + 1

    def sensitivity(self) -> float:
        """Return the most ranges that share a cell: min(width, n - width + 1)."""
        return float(min(self.width, self.shape[0]))

    def diag(self) -> Array:
        return np.ones(self.shape[0], np.int64)


@query_matrix("Ranges")
class Ranges(ZeroOne):
    """Listed ranges of an ordered product domain: boxes given by two corners.

    Row r counts the records whose attribute i lies in ``lower[r, i]`` to
    ``upper[r, i]``, both included, for every i. Products cost one pass over the
    cells per attribute (summed-area tables). A range of any size takes at most 2^d
    additions more: inclusion and exclusion over the corners.

    Parameters
    ----------
    domain_shape : sequence of int, or int
        Number of values of every attribute, or of the only one; cells are in C order.
    lower, upper : array_like of int, shape (m, d), or (m,) for one attribute
        First and last value of every range in every attribute.

    Raises
    ------
    ValueError
        If a range is empty or leaves the domain.

    See Also
    --------
    AllRange, WidthRange : all ranges of one attribute; `Kronecker` combines them.
    Conjunctions : boxes of any values, in order or not.

    Examples
    --------
    >>> from mmech import Ranges
    >>> A = Ranges((2, 3), lower=[[0, 1], [1, 0]], upper=[[1, 2], [1, 2]])
    >>> A
    Ranges(2 ranges over 2x3) shape=(2, 6)
    >>> A @ [1, 2, 3, 4, 5, 6]
    array([16, 15])
    """

    domain_shape: tuple[int, ...]
    lower: ArrayLike
    upper: ArrayLike

    def __post_init__(self) -> None:
        given: Any = self.domain_shape
        only = isinstance(given, (int, np.integer))
        sizes = check_domain_shape((given,) if only else given)
        corners = {}
        for name in ("lower", "upper"):
            array = plain_array(getattr(self, name), name)
            array = array[:, None] if array.ndim == len(sizes) == 1 else array
            fits = array.ndim == 2 and array.shape[1] == len(sizes)
            if array.dtype.kind not in "iu" or not fits:
                raise ValueError(
                    f"{name} must be integers of shape (m, {len(sizes)}), one column "
                    f"per attribute, got {array.dtype} of shape {array.shape}"
                )
            corners[name] = array.astype(np.int64)
        lower, upper = corners["lower"], corners["upper"]
        if lower.shape != upper.shape:
            raise ValueError(
                "lower and upper must have one row per range each, got "
                f"{lower.shape[0]} and {upper.shape[0]} rows"
            )
        wrong = (lower < 0) | (lower > upper) | (upper >= np.array(sizes))
        if wrong.any():
            row, i = np.argwhere(wrong)[0]
            raise ValueError(
                f"a range of attribute {i} must lie in 0..{sizes[i] - 1} and hold at "
                f"least one value, got {lower[row, i]}..{upper[row, i]} in row {row}"
            )
        self._set(domain_shape=sizes, lower=read_only(lower), upper=read_only(upper))

    _lower = held("lower", NDArray[np.int64])

    _upper = held("upper", NDArray[np.int64])

    @property
    def shape(self) -> tuple[int, int]:
        return (int(self._lower.shape[0]), product_of(self.domain_shape))

    def _arguments(self) -> str:
        sizes = sizes_label(self.domain_shape)
        return f"{self.shape[0]} ranges over {sizes}"

    @property
    def widths(self) -> NDArray[np.int64]:
        """Number of values of every range in every attribute, shape (m, d)."""
        return np.asarray(self._upper - self._lower + 1)

    def boxes(self) -> list[NDArray[np.bool_]]:
        """Return which values of each attribute a range holds."""
        sides = zip(self.domain_shape, self._lower.T, self._upper.T, strict=True)
        return [
            (np.arange(n) >= low[:, None]) & (np.arange(n) <= high[:, None])
            for n, low, high in sides
        ]

    @cached_property
    def _corners(self) -> Sparse:
        """The signed corners C of W = C S, where S sums all cells up to a cell."""
        m, n = self.shape
        if n > LIMITS.enumerated_cells:
            raise DomainTooLargeError(
                f"a product over {magnitude(n)} cells does not fit in memory; "
                "restrict the domain to fewer attributes"
            )
        rows, cells = np.arange(m), np.zeros(m, np.int64)
        signs = np.ones(m, np.int64)
        for i, size in enumerate(self.domain_shape):
            last = cells * size + self._upper[rows, i]
            inner = np.flatnonzero(self._lower[rows, i] > 0)
            before = cells[inner] * size + self._lower[rows[inner], i] - 1
            cells = np.concatenate([last, before])
            rows = np.concatenate([rows, rows[inner]])
            signs = np.concatenate([signs, -signs[inner]])
        return Sparse(sp.csr_array((signs, (rows, cells)), shape=(m, n)))

    def _matmat(self, x: Array, /) -> Array:
        corners = self._corners
        sums = x.reshape(*self.domain_shape, x.shape[1])
        for axis in range(len(self.domain_shape)):
            sums = np.cumsum(sums, axis=axis)
        return corners._matmat(sums.reshape(x.shape))

    def _rmatmat(self, y: Array, /) -> Array:
        spread = self._corners._rmatmat(y)
        sums = spread.reshape(*self.domain_shape, y.shape[1])
        for axis in range(len(self.domain_shape)):
            sums = np.flip(np.cumsum(np.flip(sums, axis), axis=axis), axis)
        return np.ascontiguousarray(sums).reshape(spread.shape)

    def _power_sums(self, power: int, axis: int) -> Array:
        """Return sizes of ranges at any domain size, as floats where int64 is short."""
        if axis == 0:
            return super()._power_sums(power, axis)
        exact = self.shape[1] < 2**62
        return self.widths.prod(axis=1, dtype=np.int64 if exact else np.float64)


# ---- rules -------------------------------------------------------------------------

zeros_and_ones(Ranges)
DESCRIBED.add(zeros_and_ones(WidthRange))
BOUNDS[WidthRange] = lambda a: (a.width, a.width)
BOUNDS[Ranges] = lambda a: (a.shape[1], a.shape[0])

frobenius_squared.register(WidthRange, lambda w: float(w.shape[0] * w.width))
asks_boxes.register(Ranges, lambda block: True)
asks_ranges.register(WidthRange, lambda workload: True)
moved.register(
    WidthRange,
    lambda workload: Moved(workload.width, lambda n: WidthRange(n, workload.width)),
)
asks_ranges.register(Ranges, lambda workload: len(workload.domain_shape) == 1)


@overlaps.register(WidthRange)
def _(workload: WidthRange) -> Overlaps:
    """Take windows that leave the domain off all that touch a block."""
    width, n = workload.width, workload.n

    def squares(size: int) -> int:
        return size * (size + 1) * (2 * size + 1) // 6

    def cut_off(longest: int, size: int, count: int) -> int:
        """Add up min(t, size)² over t <= longest, longest - size, ..., count times."""
        whole = min(count, max(longest, 0) // max(size, 1))
        more = whole * (longest - size) - size * (whole * (whole - 1) // 2)
        rest = max(longest - whole * size, 0) if whole < count else 0
        return whole * squares(size) + size**2 * more + squares(rest)

    def energy(first: int, size: int, count: int) -> int:
        least, most = sorted((width, size))
        touched = 2 * squares(least - 1) + least**2 * (most - least + 1)
        after = n - first - size * count  # behind the last block
        before, behind = (
            cut_off(width - 1 - cells, size, count) for cells in (first, after)
        )
        return count * touched - before - behind

    return energy


@normal_form.register(Sparse)
@once
def _(workload: Sparse) -> NormalForm:
    """See listed ranges in different rows that are each one run of one value."""
    rows, widths = workload.matrix, np.diff(workload.matrix.indptr)
    if rows.nnz > widths.size and widths.all() and not np.ptp(rows.data):
        ends = rows.indptr[1:]
        lower, upper = rows.indices[ends - widths], rows.indices[ends - 1]
        pairs = np.unique(np.stack([lower, upper]), axis=1)
        if (upper - lower < widths).all() and pairs.shape[1] == widths.size:
            ranges = Ranges(workload.shape[1:], lower, upper)
            return NormalForm(((rows.data[0].item(), ranges),))
    return NormalForm(((1, workload),))


@known_rank.register(WidthRange)
def _(workload: WidthRange) -> int | None:
    return workload.shape[0]  # each range is the first to end where it does


@known_rank.register(Ranges)
def _(workload: Ranges) -> int | None:
    """Return the edges of a spanning forest.

    A range is the difference of two prefix sums: an edge between two of n + 1 nodes.
    The empty prefix is zero, the others are independent.
    """
    if len(workload.domain_shape) > 1:
        return None
    from scipy.sparse.csgraph import connected_components

    nodes = workload.shape[1] + 1
    ends = workload._lower[:, 0], workload._upper[:, 0] + 1
    graph = sp.coo_array((np.ones(workload.shape[0]), ends), shape=(nodes, nodes))
    return nodes - int(connected_components(graph, directed=False)[0])


@squares_by_kind.register(Ranges)
def _(workload: Ranges, sizes: Sizes) -> Squares | None:
    if workload.domain_shape != sizes:
        return None
    return squares_of_boxes(workload.widths, sizes)


@restrict_columns.register(Ranges)
def _(workload: Ranges, columns: Groups) -> QueryMatrix:
    if len(workload.domain_shape) > 1:
        return restrict_any(workload, columns)
    return _restrict_ranges(
        workload, workload._lower[:, 0], workload._upper[:, 0], columns
    )


@restrict_columns.register(WidthRange)
def _(workload: WidthRange, columns: Groups) -> QueryMatrix:
    lower = np.arange(workload.shape[0])
    return _restrict_ranges(workload, lower, lower + workload.width - 1, columns)


def _restrict_ranges(
    workload: QueryMatrix, lower: Groups, upper: Groups, columns: Groups
) -> QueryMatrix:
    """Keep ranges as ranges over the cells that are left, which keep their order."""
    first = np.searchsorted(columns, lower)
    behind = np.searchsorted(columns, upper, side="right")
    if (np.diff(columns) <= 0).any() or (first == behind).any():
        return restrict_any(workload, columns)
    widths = behind - first
    alike = (np.diff(first) == 1).all() and (widths == widths[0]).all()
    if alike and first[0] == 0 and behind[-1] == columns.size:
        return WidthRange(columns.size, int(widths[0]))
    return Ranges((columns.size,), first[:, None], behind[:, None] - 1)


# ---- waves, and errors -------------------------------------------------------------

waves_of.register(Ranges, lambda workload: "none")
waves_of.register(WidthRange, lambda workload: "circle")


@energies.register(Ranges)
def _(workload: Ranges, angles: Floats) -> Floats:
    m, n = workload.shape
    return 2.0 * m / n * energies_of_sums(angles)


@energies.register(WidthRange)
def _(workload: WidthRange, angles: Floats) -> Floats:
    halves = np.maximum(angles, 1e-9) / 2
    return np.asarray(np.square(np.sin(workload.width * halves) / np.sin(halves)))


@known_gain.rule(Tau, Ranges)
def _(workload: Ranges, strategy: Tau) -> float | None:
    """Add up quadratic forms of ranges, by one transform each."""
    m, n = workload.shape
    few = m * n <= LIMITS.summed_entries and len(workload.domain_shape) == 1
    if not few or strategy.free_end == "first" or not strategy.is_regular:
        return None
    inverse, length = forward(strategy), next_fast_len(2 * n + 1, real=True)
    entries = inverse.between(0, 2 * n + 1)
    toeplitz, hankel = np.zeros((2, length))
    toeplitz[:n], toeplitz[length - n + 1 :] = entries[:n], entries[n - 1 : 0 : -1]
    hankel[: 2 * n - 1] = entries[2:]
    both = rfft(toeplitz).real, rfft(hankel).conj()
    twice = np.full(both[0].size, 2.0)
    twice[0] = 1.0
    twice[-1] -= length % 2 == 0
    places, own = np.arange(n), 1.0 / strategy._scales.astype(np.float64)
    total, height = 0.0, max(1, LIMITS.block_entries // length)
    for start in range(0, m, height):
        lower, upper = (
            ends[start : start + height] for ends in (workload._lower, workload._upper)
        )
        rows = np.where((lower <= places) & (places <= upper), own, 0.0)
        waves = rfft(rows, length, axis=1)
        squares = np.square(waves.real) + np.square(waves.imag)
        pairs = (squares @ (twice * both[0])).sum()
        crossed = np.square(waves, out=waves) @ (twice * both[1])
        total += float(pairs - crossed.real.sum()) / length
    return total


@computed_rows.register(AllRange)
def _(workload: AllRange, strategy: QueryMatrix) -> Floats:
    """Take distances between the coefficients of prefix sums.

    S holds the sums over the first 0..n cells, and C is S A⁺. Range (lo, hi) has the
    coefficients C[hi + 1] - C[lo]: all norms follow from C Cᵀ. Differences that lose
    most digits are taken before they are squared.
    """
    n = workload.n
    check_work(workload, strategy, n + 1)
    lower, upper = np.triu_indices(n)
    sums = np.tri(n + 1, n, -1)
    coefficients = np.ascontiguousarray(strategy.pinv().rmatmat(sums.T).T)
    if not rows_supported(
        np.ascontiguousarray(sums[1:].T), strategy, coefficients[1:].T
    ):  # though differences of prefix sums may be supported
        return computed_rows.dispatch(QueryMatrix)(workload, strategy)
    products = coefficients @ coefficients.T
    squares = np.diagonal(products)
    scale = squares[upper + 1] + squares[lower]
    gains = scale - 2.0 * products[lower, upper + 1]
    lost = np.flatnonzero(gains < RANGE_CANCELLATION * scale)
    height = max(1, LIMITS.block_entries // coefficients.shape[1])
    for start in range(0, lost.size, height):
        rows = lost[start : start + height]
        steps = coefficients[upper[rows] + 1] - coefficients[lower[rows]]
        gains[rows] = np.einsum("ij,ij->i", steps, steps)
    return np.asarray(gains)
