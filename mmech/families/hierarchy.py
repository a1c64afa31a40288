"""Trees over an ordered domain: sums over nested blocks of neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import pairwise
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mmech.arrays import Floats
from mmech.checks import check_integer
from mmech.error.pairs import SUPPORT_TOLERANCE, unsupported
from mmech.error.result import Callback, StrategyResult
from mmech.error.rules import known_gain
from mmech.exceptions import UnsupportedWorkloadError
from mmech.integer_strategy import IntegerStrategy, by_structure, weighted
from mmech.limits import LIMITS
from mmech.operators.algebra import one_per_block, rows_scaled
from mmech.operators.base import (
    Array,
    QueryMatrix,
    Symmetric,
    exact_sums,
    query_matrix,
    square,
)
from mmech.operators.compose import check_weight
from mmech.operators.known import BOUNDS, has_full_column_rank, normal_form
from mmech.strategies.registry import Request, Skip, Template
from mmech.structure.blocks import BlockEnergies, block_energies, overlaps
from mmech.structure.exact import SUMS

Sizes = tuple[int, ...]
"""Block sizes of a tree, from 1 upwards, each a divisor of the next."""

ITERATIONS = 300
TOLERANCE = 1e-10
"""Limits of the descent on the weights of given levels."""

IDLE = 1e-6
"""Weight below which a level is left out; cells stay measured."""

LEAST = 1e-9
"""Share of the cells in the weights, at least: every query stays answerable."""

LARGEST_BRANCHING = 64
"""Largest branching of the regular trees that a search starts from."""


@query_matrix("Hierarchy", init=False)
class Hierarchy(QueryMatrix):
    """Sums over blocks of neighbours whose sizes divide each other: a tree.

    A level of block size m holds the sums of every m neighbouring cells, times its
    weight. The end of the domain cuts the last block of a level off where m does not
    divide n. Products and the pseudoinverse cost O(n) per level.

    Parameters
    ----------
    n : int
        Number of cells.
    weights : mapping of int to float
        Weight of the level of every block size; each size divides the next larger
        one, and a block of n cells or more is the total. Rows come by block size,
        smallest first.

    Raises
    ------
    ValueError
        If sizes do not divide each other, or all weights are zero.

    See Also
    --------
    Marginals : the same for nested sets of attributes.

    References
    ----------
    .. [1] Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially
       private histograms through consistency", VLDB 2010 (binary trees).
    .. [2] Qardaji, Yang, Li, "Understanding hierarchical methods for differentially
       private histograms", VLDB 2013 (branching).

    Examples
    --------
    >>> from mmech import Hierarchy
    >>> Hierarchy(3, {1: 2, 2: 1}).to_dense()
    array([[2, 0, 0],
           [0, 2, 0],
           [0, 0, 2],
           [1, 1, 0],
           [0, 0, 1]])
    """

    n: int
    weights: Mapping[int, float]

    def __init__(self, n: int, weights: Mapping[int, float]) -> None:
        cells = check_integer(n, "n")
        if not isinstance(weights, Mapping):
            raise TypeError(f"weights must map block sizes to weights, got {weights!r}")
        levels = {
            check_integer(size, "a block size"): check_weight(weight)
            for size, weight in weights.items()
        }
        sizes = sorted(levels)
        if any(large % small for small, large in pairwise(sizes)):
            raise ValueError(f"block sizes must divide each other, got {sizes}")
        if not any(levels.values()):
            raise ValueError("the weights are all zero; at least one level needs one")
        self._set(n=cells, weights=MappingProxyType({m: levels[m] for m in sizes}))

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return (type(self), (self.n, dict(self.weights)))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of blocks of every level."""
        return tuple(-(-self.n // m) for m in self.weights)

    @property
    def shape(self) -> tuple[int, int]:
        return (sum(self.counts), self.n)

    def _arguments(self) -> str:
        return f"n={self.n}, blocks of {', '.join(str(m) for m in self.weights)}"

    @property
    def dtype(self) -> np.dtype[Any]:
        """``int64`` if all weights are integers, else ``float64``."""
        whole = all(isinstance(weight, int) for weight in self.weights.values())
        return np.dtype(np.int64 if whole else np.float64)

    @property
    def is_nonnegative(self) -> bool:  # type: ignore[override]
        """Whether no weight is negative."""
        return all(weight >= 0 for weight in self.weights.values())

    def _matmat(self, x: Array, /) -> Array:
        levels, sums, size = [], x, 1
        for m, weight in self.weights.items():
            sums, size = _sums_of_parts(sums, m // size), m
            levels.append(sums * x.dtype.type(weight))
        return np.concatenate(levels)

    def _rmatmat(self, y: Array, /) -> Array:
        sizes, counts = [1, *self.weights], [self.n, *self.counts]
        out, stop = np.zeros((counts[-1], y.shape[1]), y.dtype), y.shape[0]
        for level in range(len(sizes) - 1, 0, -1):
            start = stop - counts[level]
            out += y[start:stop] * y.dtype.type(self.weights[sizes[level]])
            stop = start
            out = _spread(out, sizes[level] // sizes[level - 1], counts[level - 1])
        return out

    @cached_property
    def inside(self) -> Mapping[int, tuple[float, float]]:
        """Variance of the sum of a block from what is measured inside it, by size.

        A pair: the variance of every block but the last of its level, and the variance
        of the last one. The noise has variance one; cells have infinity. Blocks are
        independent, so that variances of parts add up; the block's own measurement is
        left out.
        """
        variances = {1: (math.inf, math.inf)}
        size, count = 1, self.n
        for m, blocks in zip(self.weights, self.counts, strict=True):
            if m > 1:
                whole, last = (
                    self.variance(size, before) for before in variances[size]
                )
                parts = count - (blocks - 1) * (m // size)
                variances[m] = (m // size * whole, (parts - 1) * whole + last)
                size, count = m, blocks
        return MappingProxyType(variances)

    def variance(self, size: int, inside: float) -> float:
        """Return the variance of the sum of a block, its measurement included.

        Parameters
        ----------
        size : int
            Size of the blocks of its level, one for cells.
        inside : float
            The variance without its own measurement.
        """
        precision = float(self.weights.get(size, 0)) ** 2 + 1.0 / inside
        return 1.0 / precision if precision else math.inf

    def pinv(self) -> QueryMatrix:
        """Return (AᵀA)⁻¹Aᵀ where cells are measured, else the general form."""
        if self.weights.get(1, 0) == 0:
            return super().pinv()
        return HierarchyInverseGram(self) @ self.T

    def _power_sums(self, power: int, axis: int) -> Array:
        if axis == 1:
            levels = zip(self.weights.items(), self.counts, strict=True)
            lengths = [
                abs(weight) ** power
                * np.diff(np.minimum(min(m, self.n) * np.arange(count + 1.0), self.n))
                for (m, weight), count in levels
            ]
            return exact_sums(np.concatenate(lengths), self.dtype)
        total = sum(abs(weight) ** power for weight in self.weights.values())
        return exact_sums(np.full(self.n, total, np.float64), self.dtype)

    def sensitivity(self) -> float:
        return float(sum(abs(weight) for weight in self.weights.values()))

    def to_sparse(self) -> sp.csr_array:
        """Return the explicit matrix in compressed sparse rows, n entries a level."""
        whole = self._entries(np.array(list(self.weights.values()), self._entry_dtype))
        levels = enumerate(zip(self.weights, self.counts, strict=True))
        ends = [
            level * self.n + np.minimum(m * np.arange(1, count + 1), self.n)
            for level, (m, count) in levels
        ]
        entries = np.repeat(whole, self.n)
        cells = np.tile(np.arange(self.n), whole.size)
        rows = np.concatenate([[0], *ends])
        matrix = sp.csr_array((entries, cells, rows), shape=self.shape)
        matrix.eliminate_zeros()
        return matrix


@query_matrix("HierarchyInverseGram")
class HierarchyInverseGram(Symmetric):
    """(AᵀA)⁻¹ of a hierarchy A that measures the cells.

    A level adds w² 11ᵀ to the gram of every block, which is a rank-one change of its
    inverse (Sherman and Morrison): sums go up the tree, corrections come down.
    """

    strategy: Hierarchy

    shape = square("strategy.n")

    def _matmat(self, x: Array, /) -> Array:
        weights, counts = self.strategy.weights, self.strategy.counts
        cells = x.astype(np.float64, copy=False)
        # Bottom up: 1ᵀGx of every block, for the inverse G of its gram so far; its
        # own measurement of weight w multiplies that by 1 / (1 + w² 1ᵀG1).
        estimates, sums = cells * (1.0 / float(weights[1]) ** 2), []
        for small, large in pairwise(weights):
            sums.append(_sums_of_parts(estimates, large // small))
            estimates = self._shrunk(sums[-1], large)
        # Top down: multiples of G1 that are taken off Gx.
        taken = np.zeros((counts[-1], x.shape[1]))
        for level, (small, large) in reversed([*enumerate(pairwise(weights))]):
            level_part = sums[level] * float(weights[large]) ** 2
            taken = self._shrunk(level_part + taken, large)
            taken = _spread(taken, large // small, counts[level])
        out = (cells - taken) * (1.0 / float(weights[1]) ** 2)
        return out.astype(x.dtype, copy=False)

    def _shrunk(self, blocks: Array, size: int) -> Array:
        """Return values of all blocks of a size, times 1 / (1 + w² 1ᵀG1)."""
        square = float(self.strategy.weights[size]) ** 2
        whole, last = (
            1.0 / (1.0 + square * before) for before in self.strategy.inside[size]
        )
        out = blocks * whole
        out[-1] = blocks[-1] * last
        return out


def _sums_of_parts(x: Array, times: int) -> Array:
    """Return sums of every `times` rows; the last sum may have fewer."""
    if times == 1:
        return x
    whole = x.shape[0] // times
    cut = whole * times
    sums = x[:cut].reshape(whole, times, x.shape[1]).sum(axis=1, dtype=x.dtype)
    if cut == x.shape[0]:
        return sums
    last = x[cut:].sum(axis=0, keepdims=True, dtype=x.dtype)
    return np.concatenate([sums, last])


def _spread(blocks: Array, times: int, count: int) -> Array:
    """Return every row `times` times, the last one as often as makes `count` rows."""
    return np.repeat(blocks, min(times, count), axis=0)[:count]


# ---- rules -------------------------------------------------------------------------

has_full_column_rank.register(
    Hierarchy, lambda strategy: strategy.weights.get(1, 0) != 0
)


def _levels(operator: Hierarchy) -> tuple[int, int]:
    weights = {m: abs(int(weight)) for m, weight in operator.weights.items()}
    longest = max(min(m, operator.n) * weight for m, weight in weights.items())
    return longest, sum(weights.values())


BOUNDS[Hierarchy] = _levels
SUMS[Hierarchy] = lambda a, power: sum(
    abs(int(weight)) ** power for weight in a.weights.values()
)


@rows_scaled.register(Hierarchy)
def _(operator: Hierarchy, factors: Floats) -> QueryMatrix | None:
    own = one_per_block(factors, operator.counts)
    if own is None:
        return None
    levels = zip(operator.weights.items(), own, strict=True)
    return Hierarchy(operator.n, {m: weight * factor for (m, weight), factor in levels})


@by_structure.register(Hierarchy)
def _(strategy: Hierarchy, norm: str, bits: int) -> IntegerStrategy:
    used = {m: abs(weight) for m, weight in strategy.weights.items() if weight != 0}
    levels = [Hierarchy(strategy.n, {m: 1}) for m in used]
    blocks = weighted(levels, used.values(), norm)
    form = Hierarchy(strategy.n, dict.fromkeys(used, 1))
    return IntegerStrategy(blocks, form, norm)


# ---- the loss ----------------------------------------------------------------------


@known_gain.rule(Hierarchy)
def _(workload: QueryMatrix, strategy: Hierarchy) -> float | None:
    blocks = block_energies(workload)
    if blocks is None:
        return None
    energies, variances = tree_components(blocks, strategy)
    measured = np.isfinite(variances)
    if energies[~measured].max(initial=0) > SUPPORT_TOLERANCE**2 * energies.sum():
        raise unsupported(workload, strategy)
    return float(energies[measured] @ variances[measured])


def tree_components(
    energies: BlockEnergies, strategy: Hierarchy
) -> tuple[Floats, Floats]:
    """Return energies e and variances v with tr(WᵀW (AᵀA)⁺) = Σ e v for a tree A.

    The inverse of the gram of a tree is a sum over independent contrasts: between the
    parts of a block, and the averages of the largest blocks. Those between whole parts
    of one size have one variance; a block that is cut off adds one contrast, its whole
    parts against its last, cut one. Contrasts have length one; their variances are
    infinite where nothing is measured.
    """
    sizes = sorted({1, *strategy.weights})
    tree = energies, strategy, sizes
    contrasts = *_contrasts_of_whole_parts(*tree), *_contrasts_of_cut_parts(*tree)
    values, variances = np.array(contrasts).T
    return values, variances


def _contrasts_of_whole_parts(
    energies: BlockEnergies, strategy: Hierarchy, sizes: list[int]
) -> Iterator[tuple[float, float]]:
    n = strategy.n

    def between(first: int, size: int, times: int, count: int) -> float:
        """Return the energy between the `times` parts of every one of some blocks."""
        parts = times * energies.of_blocks(first, size, times * count)
        blocks = energies.of_blocks(first, times * size, count)
        return max(0.0, (parts - blocks) / (times * size)) if times * count else 0.0

    for small, large in pairwise([*sizes, 0]):
        variance = strategy.variance(small, strategy.inside[small][0]) / small
        if not large:
            yield energies.of_blocks(0, small, n // small) / small, variance
            return
        start, stop = n // large * large, n // small * small
        energy = between(0, small, large // small, n // large)
        energy += between(start, small, (stop - start) // small, 1)
        yield energy, variance


class _Part(NamedTuple):
    """The average of a part of a block, on segments, its cells, the sum's variance."""

    average: Floats
    cells: int
    variance: float


def _combine(whole: _Part, cut: _Part) -> tuple[Floats, float, Floats]:
    """Return the contrast of two parts of a block, its variance, and their average.

    For independent sums of variances v and c it weighs the cut part by s = c / (v + c),
    and the contrast has variance v s. A cut part that is not measured weighs its cells.
    """
    contrast = whole.average - cut.average
    if math.isinf(cut.variance):
        share, variance = cut.cells / (whole.cells + cut.cells), math.inf
    else:
        share = cut.variance / (whole.variance + cut.variance)
        variance = whole.variance * share
    return contrast, variance, whole.average - share * contrast


def _contrasts_of_cut_parts(
    energies: BlockEnergies, strategy: Hierarchy, sizes: list[int]
) -> Iterator[tuple[float, float]]:
    n, top = strategy.n, sizes[-1]
    if n % top == 0:
        return
    # Contrasts are constant on segments, between the ends of whole blocks of a level.
    edges = sorted({n // m * m for m in sizes})
    left, lengths, gram = edges[:-1], np.diff(edges), energies.of_segments(edges)

    def scaled(contrast: Floats, variance: float) -> tuple[float, float]:
        square = float(lengths @ np.square(contrast))
        return max(0.0, float(contrast @ gram @ contrast) / square), variance * square

    cut = np.zeros(len(left))  # 1_b for the cut block b, weighted to an average
    for small, large in pairwise(sizes):
        start, stop = n // large * large, n // small * small
        if start == stop:  # the block has one part, the cut one
            continue
        of_part, of_cut = (strategy.variance(small, v) for v in strategy.inside[small])
        cells, average = stop - start, np.array([start <= cell < stop for cell in left])
        whole = _Part(average / cells, cells, cells // small * of_part)
        if stop < n:
            contrast, variance, cut = _combine(whole, _Part(cut, n - stop, of_cut))
            yield scaled(contrast, variance)
        else:
            cut = whole.average
    yield scaled(cut, strategy.variance(top, strategy.inside[top][1]))


# ---- the best tree -----------------------------------------------------------------


def hierarchy_strategy(
    workload: QueryMatrix, *, callback: Callback | None = None
) -> StrategyResult:
    """Measure sums over nested blocks of neighbours: the best tree.

    Regular trees of branching 2 to 64 are tried, and chains of divisors of the domain.
    Budgets of levels come from a monotone descent on an upper bound of the loss: blocks
    at the end of the domain are filled up by empty cells. Exact losses decide, and
    levels without a budget are left out. Both cost O(1) per block size for ranges, so
    that domains of millions of cells are quick.
    Suits ranges, prefixes and suffixes of an ordered domain; for suffixes the bound is
    the loosest, since they ask most of its end. Never worse than the identity, which is
    a tree.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is not made of ranges and too large to sum over blocks.

    References
    ----------
    .. [1] Qardaji, Yang, Li, "Understanding hierarchical methods for differentially
       private histograms", VLDB 2013 (regular trees with equal budgets).
    """
    energies = block_energies(workload)
    if energies is None:
        raise UnsupportedWorkloadError(
            "template 'hierarchy' needs ranges, prefixes or suffixes of an ordered "
            f"domain, or at most 4096 cells, got {workload!r}; use "
            "template 'pidentity'"
        )
    return best_tree(workload.shape[1], energies, callback)


def best_tree(
    n: int, energies: BlockEnergies, callback: Callback | None = None
) -> StrategyResult:
    """Return the best tree over n cells, for a workload with these energies."""
    found: dict[Sizes, tuple[float, Hierarchy]] = {}
    for weights in _best_weights(n, energies, list(_simple_trees(n))):
        if tuple(weights) not in found:
            strategy = Hierarchy(n, weights)
            values, variances = tree_components(energies, strategy)
            loss = strategy.sensitivity() ** 2 * float(values @ variances)
            found[tuple(weights)] = loss, strategy
    loss, strategy = min(found.values(), key=itemgetter(0))
    message = f"levels of block sizes {', '.join(map(str, strategy.weights))}"
    result = StrategyResult(strategy, "hierarchy", loss, message=message)
    if callback is not None:
        callback(result)
    return result


def _best_weights(
    n: int, blocks: BlockEnergies, trees: Sequence[Sizes]
) -> list[dict[int, float]]:
    """Return the best weights of the levels of trees, without idle levels.

    They have the least loss with cut blocks filled up: empty cells make a tree regular.
    Leaving their columns out again keeps its sensitivity and cannot raise its loss.
    """

    @cache
    def energy(size: int) -> float:
        """Return Σ ‖W 1_b‖² / size over all blocks b of a size."""
        count, rest = divmod(n, size)
        total = blocks.of_blocks(0, size, count)
        return (total + (blocks.of_blocks(n - rest, rest, 1) if rest else 0.0)) / size

    sizes, energies = np.zeros((2, len(trees), max(map(len, trees))))
    for row, tree in enumerate(trees):
        sizes[row, : len(tree)] = tree
        energies[row, : len(tree)] = list(map(energy, tree))
    _, weights = _descend(sizes, energies, ITERATIONS)
    return [
        {m: w for m, w in zip(tree, row, strict=False) if m == 1 or w > IDLE}
        for tree, row in zip(trees, weights.tolist(), strict=True)
    ]


def _descend(sizes: Floats, energies: Floats, iterations: int) -> tuple[Floats, Floats]:
    """Return the least losses of trees and their weights, of sum one.

    The monotone update of weights of nested measurements: the loss is (Σ w)² Σ_l e_l /
    κ_l with κ_l = Σ_{a <= l} w_a² m_a. Each row is a tree: block sizes m, smallest
    first, and energies ‖W B_m‖² of averages B_m over blocks. Levels that a tree lacks
    are zeros.
    """
    rises = np.maximum(energies - np.pad(energies[:, 1:], ((0, 0), (0, 1))), 0.0)
    weights = (sizes > 0) / np.count_nonzero(sizes, axis=1)[:, None]
    losses = np.full(len(sizes), np.inf)
    for _ in range(iterations):
        precisions = np.cumsum(np.square(weights) * sizes, axis=1)
        gains = rises / precisions
        previous, losses = losses, gains.sum(axis=1)
        if ((previous - losses <= TOLERANCE * losses) | (losses == 0)).all():
            break
        pull = np.cumsum((gains / precisions)[:, ::-1], axis=1)[:, ::-1]
        weights = np.cbrt(sizes * weights**4 * pull)
        weights[:, 0] = np.maximum(weights[:, 0], LEAST * weights.sum(axis=1))
        weights /= weights.sum(axis=1, keepdims=True)
    return losses, weights


def _simple_trees(n: int) -> Iterator[Sizes]:
    """Yield the cells, regular trees, and chains of divisors of n."""
    yield (1,)
    for branching in range(2, min(n, LARGEST_BRANCHING) + 1):
        yield _tree(n, [branching] * n.bit_length())
    factors, rest, prime = [], n, 2
    while prime * prime <= rest:
        while rest % prime == 0:
            factors.append(prime)
            rest //= prime
        prime += 1
    factors += [rest] if rest > 1 else []
    for ordered in (factors, factors[::-1]):
        chain = np.cumprod([1, *ordered]).tolist()
        for step in range(1, len(chain)):
            yield tuple(chain[::step])


def _tree(n: int, branchings: Iterable[int]) -> Sizes:
    """Return block sizes by their branchings, none of them larger than n needs."""
    sizes = [1]
    for branching in branchings:
        if sizes[-1] >= n:
            break
        sizes.append(sizes[-1] * min(branching, -(-n // sizes[-1])))
    return tuple(sizes)


def look_at_hierarchy(workload: QueryMatrix, found: Request) -> Skip | None:
    """Leave out workloads without an order."""
    form = normal_form(workload)
    if form.products and len(form.products[0][1]) > 1:
        return Skip("several attributes have no order of their cells")
    if workload.shape[1] > LIMITS.dense_cells and form.ask(overlaps) is None:
        return Skip("not ranges of an ordered domain")
    losses = {run.template: run.loss for run in found.runs}
    if 2 * losses.get("marginals", math.inf) < losses.get("identity", 0.0):
        return Skip("marginals halve the loss of the cells")
    return None


HIERARCHY = Template("hierarchy", hierarchy_strategy, 50, look=look_at_hierarchy)
