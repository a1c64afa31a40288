"""What a strategy knows of its pairs with workloads: one rule per type of strategy.

A rule answers three questions about a workload W and a strategy A: whether A supports
every query, the gain ‖W A⁺‖_F², and the squared row norms of W A⁺. What a rule does not
know is computed from the pseudoinverse, and on small domains from a dense gram.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf, dpotri

from mmech.arrays import Floats, Subset
from mmech.checks import magnitude
from mmech.error.section_gains import section_gain, section_gains
from mmech.error.tau_gains import range_gain, running_gains
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import AllRange, Diagonal, Identity
from mmech.operators.circulant import Toeplitz
from mmech.operators.compose import Scaled
from mmech.operators.hierarchy import Hierarchy
from mmech.operators.joint import joint_inverse_gram
from mmech.operators.known import factored, has_full_column_rank, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.merged import Merged
from mmech.operators.pidentity import PIdentity
from mmech.operators.ranges import WidthRange
from mmech.operators.residuals import Residuals
from mmech.operators.stack import VStack
from mmech.operators.subsets import marginal_precisions, ranks_of
from mmech.operators.tau import Tau
from mmech.reduction.cells import reduce_domain
from mmech.reduction.columns import first_members, restrict_columns
from mmech.structure.attributes import is_uniform
from mmech.structure.blocks import block_energies, block_gain, tree_components
from mmech.structure.shape import frobenius_squared, rank
from mmech.structure.spectrum import marginal_terms, mean_spectrum, query_spectra

Tables = Marginals | Marginal | Residuals

CANCELLATION = 1e-7
"""Relative size of a difference below which it is computed another way."""

RANGE_CANCELLATION = 1e-4
"""The same for the variance of a range as a difference of two prefix sums."""

REGULAR = 1e-8
"""Ratio of a gram's least norm to the largest above which it is inverted as it is."""

SUPPORT_TOLERANCE = 1e-6
"""Relative part of a query outside the row space that counts as rounding."""


class PairRule:
    """What one type of strategy knows of its pairs with workloads: by itself, nothing.

    Every method may return ``None`` for 'not known': then the answer is computed from
    the pseudoinverse.
    """

    def supports(self, workload: QueryMatrix, strategy: Any) -> bool | None:
        """Return whether every query lies in the row space of the strategy."""
        return None

    def gain(self, workload: QueryMatrix, strategy: Any) -> float | None:
        """Return ‖W A⁺‖_F²; a pair that is not supported is refused."""
        return None

    def rows(self, workload: QueryMatrix, strategy: Any) -> Floats | None:
        """Return the squared row norms of W A⁺, shape (m,); refuses like `gain`."""
        return None

    def missing(self, workload: QueryMatrix, strategy: Any) -> Subset | None:
        """Return attributes that queries need together and the strategy separates."""
        return None


RULES: dict[type, PairRule] = {}
"""Type of strategy to its rule, which holds for derived types too."""


def register(*kinds: type) -> Callable[[type[PairRule]], type[PairRule]]:
    """Return a decorator that registers a rule for types of strategies."""

    def registered(rule: type[PairRule]) -> type[PairRule]:
        RULES.update(dict.fromkeys(kinds, rule()))
        return rule

    return registered


def pair_rule(strategy: QueryMatrix) -> PairRule:
    """Return the rule of the strategy's type, or of its nearest base."""
    return next(RULES[kind] for kind in type(strategy).__mro__ if kind in RULES)


register(QueryMatrix)(PairRule)


# ---- the three questions ---------------------------------------------------------


def supports(workload: QueryMatrix, strategy: QueryMatrix) -> bool:
    """Return whether every query lies in the row space of the strategy."""
    if strategy is workload or has_full_column_rank(strategy):
        return True
    try:
        _, queries, inner = unwrapped(strategy, workload)
    except UnsupportedWorkloadError:
        return False
    if inner is not strategy:
        return supports(queries, inner)
    known = pair_rule(strategy).supports(workload, strategy)
    if known is not None:
        return known
    weights = np.random.default_rng(0).standard_normal((workload.shape[0], 4))
    norms = np.sqrt(workload.row_square_sums())[:, None]
    weights = np.divide(weights, norms, out=np.zeros_like(weights), where=norms > 0)
    combined = workload.rmatmat(weights)
    return _rows_supported(combined, strategy, strategy.pinv().rmatmat(combined))


def gain(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    """Return ‖W A⁺‖_F²."""
    if strategy is workload:  # W W⁺ projects on the row space
        return float(rank(workload))
    square, queries, inner = unwrapped(strategy, workload)
    if inner is not strategy:
        return gain(queries, inner) / square
    known = pair_rule(strategy).gain(workload, strategy)
    if known is not None:
        return known
    if strategy.shape[1] <= LIMITS.dense_cells:
        return _dense_gain(workload, strategy)
    return _sum_of_rows(workload, strategy)


def _sum_of_rows(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    """Return the sum of all squared row norms, where they are not too many."""
    most: float = LIMITS.reported_entries
    if isinstance(workload, AllRange | WidthRange):  # differences of prefix sums
        sums = (workload.shape[1] + 1) * max(strategy.shape)
        most = math.inf if sums <= most else most
    return float(row_gains(workload, strategy, most).sum())


def row_gains(
    workload: QueryMatrix, strategy: QueryMatrix, most: float = math.inf
) -> Floats:
    """Return the squared row norms of W A⁺, shape (m,).

    Raises `DomainTooLargeError` where more than `most` entries were to be visited.
    """
    square, queries, inner = unwrapped(strategy, workload)
    if inner is not strategy:
        return row_gains(queries, inner, most) / square
    known = pair_rule(strategy).rows(workload, strategy)
    if known is not None:
        return known
    blocks = normal_form(workload).blocks
    if blocks[0][1] is not workload:
        gains = [
            c**2 * row_gains(block, strategy, most) if c else np.zeros(block.shape[0])
            for c, block in blocks
        ]
        return np.concatenate(gains)
    entries = workload.shape[0] * max(workload.shape[1], strategy.shape[0])
    if entries > most:
        raise DomainTooLargeError(
            f"errors of {workload!r} under {strategy!r} have no closed form and visit "
            f"{magnitude(entries)} entries, query by query (limit {most:g}); take a "
            f"strategy that optimize() returns, at most {LIMITS.dense_cells} cells, or "
            "another limit by mmech.limits.changed(reported_entries=...)"
        )
    if isinstance(workload, AllRange | WidthRange):
        known = _range_gains(workload, strategy)
    return _row_gains_by_blocks(workload, strategy) if known is None else known


@singledispatch
def unwrapped(
    strategy: QueryMatrix, workload: QueryMatrix
) -> tuple[float, QueryMatrix, QueryMatrix]:
    """Return (c², V, B) with ‖W A⁺‖² = ‖V B⁺‖² / c² row by row, or (1, W, A)."""
    return 1.0, workload, strategy


@unwrapped.register(Scaled)
def _(
    strategy: Scaled, workload: QueryMatrix
) -> tuple[float, QueryMatrix, QueryMatrix]:
    if strategy.weight == 0:
        return 1.0, workload, strategy
    return strategy.weight**2, workload, strategy.operator


@unwrapped.register(Merged)
def _(
    strategy: Merged, workload: QueryMatrix
) -> tuple[float, QueryMatrix, QueryMatrix]:
    return 1.0, merged_workload(workload, strategy), strategy.operator


def unsupported(
    workload: QueryMatrix, strategy: QueryMatrix
) -> UnsupportedWorkloadError:
    """Return the error for a pair that `supports` refuses, as specific as can be."""
    missing = pair_rule(strategy).missing(workload, strategy)
    if missing is None:
        reason = (
            "some query is not a combination of strategy queries; add rows such as "
            "Identity to the strategy"
        )
    else:
        reason = (
            f"it asks for the attributes {missing} together, which no marginal of the "
            "strategy contains; add a marginal over them"
        )
    return UnsupportedWorkloadError(
        f"the strategy {strategy!r} cannot answer the workload {workload!r}: {reason}"
    )


def _rows_supported(
    rows: NDArray[Any], strategy: QueryMatrix, coefficients: NDArray[Any]
) -> bool:
    """Whether queries (as columns of `rows`) equal Aᵀ times their coefficients."""
    residual = np.linalg.norm(rows - strategy.rmatmat(coefficients), axis=0)
    return bool((residual <= SUPPORT_TOLERANCE * np.linalg.norm(rows, axis=0)).all())


# ---- one rule per type of strategy -------------------------------------------------


@register(Identity)
class _IdentityRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: Identity) -> float:
        return frobenius_squared(workload)

    def rows(self, workload: QueryMatrix, strategy: Identity) -> Floats:
        return workload.row_square_sums().astype(np.float64)


@register(Diagonal)
class _DiagonalRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: Diagonal) -> float:
        squares = np.square(strategy.diag().astype(np.float64))
        columns = workload.column_square_sums()
        if (columns[squares == 0] != 0).any():
            raise unsupported(workload, strategy)
        return float((columns[squares > 0] / squares[squares > 0]).sum())


@register(PIdentity)
class _PIdentityRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: PIdentity) -> float:
        gram = workload.gram()
        scales = strategy.column_scales
        total = float(np.square(scales) @ gram.diag())
        if strategy.p == 0:
            return total
        directions = strategy.orthonormal_factors[0] * scales[:, None]
        value = total - float(np.vdot(directions, gram.matmat(directions)))
        if value < CANCELLATION * total:  # most digits are lost: take squares instead
            return _sum_of_rows(workload, strategy)
        return value


@register(Hierarchy)
class _HierarchyRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: Hierarchy) -> float | None:
        blocks = block_energies(workload)
        if blocks is None:
            return None
        energies, variances = tree_components(blocks, strategy)
        measured = np.isfinite(variances)
        if energies[~measured].max(initial=0) > SUPPORT_TOLERANCE**2 * energies.sum():
            raise unsupported(workload, strategy)
        return float(energies[measured] @ variances[measured])


def merged_workload(workload: QueryMatrix, strategy: Merged) -> QueryMatrix:
    """Return the workload on the merged cells of a strategy."""
    if normal_form(workload).products is not None:
        reduced, own = reduce_domain(workload)
        if np.array_equal(own, strategy.groups):
            return reduced
    reduced = restrict_columns(workload, first_members(strategy._groups))
    probe = np.random.default_rng(0).standard_normal((workload.shape[0], 2))
    actual = workload.rmatmat(probe)
    spread = Merged(reduced, strategy.groups).rmatmat(probe)
    if not np.allclose(spread, actual, rtol=0, atol=1e-9 * np.abs(actual).max()):
        raise unsupported(workload, strategy)
    return reduced


@register(Kronecker)
class _KroneckerRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: Kronecker) -> float | None:
        terms = normal_form(workload).products
        sizes = [factor.shape[1] for factor in strategy.factors]
        if terms is None or any(
            [factor.shape[1] for factor in factors] != sizes for _, factors in terms
        ):
            return None
        terms = [term for term in terms if not _is_zero_product(*term)]
        return sum(
            weight**2
            * math.prod(
                gain(query, measured)
                for query, measured in zip(factors, strategy.factors, strict=True)
            )
            for weight, factors in terms
        )

    def rows(self, workload: QueryMatrix, strategy: Kronecker) -> Floats | None:
        weight, factors = factored(workload)
        sizes = [factor.shape[1] for factor in strategy.factors]
        if [factor.shape[1] for factor in factors] != sizes:
            return None
        if _is_zero_product(weight, factors):
            return np.zeros(workload.shape[0])
        gains = np.array([weight**2], np.float64)
        for query, part in zip(factors, strategy.factors, strict=True):
            gains = np.outer(gains, row_gains(query, part)).ravel()
        return gains


def _is_zero_product(weight: float, factors: tuple[QueryMatrix, ...]) -> bool:
    return weight == 0 or any(frobenius_squared(factor) == 0 for factor in factors)


@register(VStack)
class _StackRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: VStack) -> float | None:
        return _joint_gain(workload, strategy)


def _joint_gain(workload: QueryMatrix, strategy: VStack) -> float | None:
    """Stacked Kroneckers: exact by a generalized eigenproblem per attribute."""
    terms = normal_form(workload).products
    if terms is None:
        return block_gain(workload, strategy)
    inverse = joint_inverse_gram(strategy)
    if inverse is None:
        return None
    sizes = [len(transform) for transform in inverse.transforms]
    if math.prod(sizes) > LIMITS.spectrum_cells or any(
        [factor.shape[1] for factor in factors] != sizes for _, factors in terms
    ):
        return None
    total = 0.0
    for weight, factors in terms:
        energy = np.array(weight**2)
        for factor, vectors in zip(factors, inverse.transforms, strict=True):
            rotated = factor.gram().matmat(vectors)
            own = np.einsum("ab,ab->b", vectors, rotated)
            energy = np.multiply.outer(energy, own)
        total += float((energy / inverse.spectrum).sum())
    return total


class _SubsetsRule(PairRule):
    """Strategies that see a workload by its energies on subsets of attributes."""

    def missing(self, workload: QueryMatrix, strategy: Tables) -> Subset | None:
        asked = mean_spectrum(workload, strategy.domain_shape)
        if asked is None:
            return None
        precisions = _precisions(strategy, asked)
        missing = (s for s, k in zip(asked, precisions, strict=True) if k <= 0)
        return next(missing, None)

    def supports(self, workload: QueryMatrix, strategy: Tables) -> bool | None:
        if mean_spectrum(workload, strategy.domain_shape) is None:
            return None
        return self.missing(workload, strategy) is None

    def rows(self, workload: QueryMatrix, strategy: Tables) -> Floats | None:
        if is_uniform(workload):
            value = self.gain(workload, strategy)
            if value is not None:
                return np.full(workload.shape[0], value / workload.shape[0])
        spectra = query_spectra(workload, strategy.domain_shape)
        if spectra is None:
            return None
        precisions = _precisions(strategy, spectra.subsets)
        if (precisions <= 0).any():
            raise unsupported(workload, strategy)
        return spectra.weighted(1.0 / precisions)


@register(Marginals, Marginal)
class _MarginalsRule(_SubsetsRule):
    def gain(self, workload: QueryMatrix, strategy: Any) -> float | None:
        value = gain_by_subsets(workload, strategy)
        return _joint_gain(workload, strategy) if value is None else value


def _precisions(strategy: Tables, subsets: Iterable[tuple[int, ...]]) -> Floats:
    if isinstance(strategy, Residuals):
        weights = [strategy.weights.get(subset, 0.0) for subset in subsets]
        return np.square(weights)
    terms = marginal_terms(strategy)
    assert terms is not None
    return marginal_precisions(terms, tuple(subsets), strategy.domain_shape)


def gain_by_subsets(workload: QueryMatrix, strategy: Tables) -> float | None:
    """Return Σ_s m_s τ_s / k_s over the subsets asked for."""
    asked = mean_spectrum(workload, strategy.domain_shape)
    if asked is None:
        return None
    precisions = _precisions(strategy, asked)
    energies = ranks_of(asked, strategy.domain_shape) * list(asked.values())
    used = energies > SUPPORT_TOLERANCE**2 * energies.sum()
    if (precisions[used] <= 0).any():
        raise unsupported(workload, strategy)
    return float((energies[used] / precisions[used]).sum())


@register(Residuals)
class _ResidualsRule(_SubsetsRule):
    def gain(self, workload: QueryMatrix, strategy: Residuals) -> float | None:
        return gain_by_subsets(workload, strategy)


@register(Tau)
class _TauRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: Tau) -> float | None:
        return range_gain(workload, strategy) if strategy.is_regular else None

    def rows(self, workload: QueryMatrix, strategy: Tau) -> Floats | None:
        return running_gains(workload, strategy) if strategy.is_regular else None


@register(Toeplitz)
class _SectionRule(PairRule):
    def gain(self, workload: QueryMatrix, strategy: Toeplitz) -> float | None:
        if strategy.whole is None:
            return None
        return section_gain(workload, strategy)

    def rows(self, workload: QueryMatrix, strategy: Toeplitz) -> Floats | None:
        if strategy.whole is None:
            return None
        return section_gains(workload, strategy)


# ---- without a rule --------------------------------------------------------------


def _dense_gain(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    gram = strategy.gram()._dense().astype(np.float64)
    factor, failed = dpotrf(gram, lower=1)
    if not failed and dpocon(factor, abs(gram).sum(axis=0).max(), "L")[0] > REGULAR:
        inverse, _ = dpotri(factor, lower=1)  # the lower half of it, else zeros
        asked = workload.gram()._dense().astype(np.float64)
        twice = 2.0 * np.vdot(inverse, asked)
        return float(twice - inverse.diagonal() @ asked.diagonal())
    values, vectors = np.linalg.eigh(gram)
    keep = values > strategy.shape[1] * np.finfo(float).eps * values[-1]
    products = workload.gram().matmat(vectors)
    energies = np.einsum("ij,ij->j", vectors, products)
    if not keep.all() and not supports(workload, strategy):
        raise unsupported(workload, strategy)
    return float((energies[keep] / values[keep]).sum())


def _range_gains(
    workload: AllRange | WidthRange, strategy: QueryMatrix
) -> Floats | None:
    """Row norms for ranges: distances between the coefficients of prefix sums.

    S holds the sums over the first 0..n cells, and C is S A⁺. Range (lo, hi) has the
    coefficients C[hi + 1] - C[lo]: all norms follow from C Cᵀ. Differences that lose
    most digits are taken before they are squared.
    """
    n = workload.shape[1]
    if isinstance(workload, AllRange):
        lower, upper = np.triu_indices(n)
    else:
        lower = np.arange(workload.shape[0])
        upper = lower + workload.width - 1
    sums = np.tri(n + 1, n, -1)
    coefficients = np.ascontiguousarray(strategy.pinv().rmatmat(sums.T).T)
    if not _rows_supported(
        np.ascontiguousarray(sums[1:].T), strategy, coefficients[1:].T
    ):
        return None  # though differences of prefix sums may be supported
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


def _row_gains_by_blocks(workload: QueryMatrix, strategy: QueryMatrix) -> Floats:
    pinv = strategy.pinv()
    gains = np.empty(workload.shape[0])
    height = max(1, LIMITS.block_entries // max(*workload.shape, strategy.shape[0]))
    for start in range(0, workload.shape[0], height):
        stop = min(start + height, workload.shape[0])
        rows = np.ascontiguousarray(workload._rows(start, stop).T, np.float64)
        coefficients = pinv.rmatmat(rows)
        if not _rows_supported(rows, strategy, coefficients):
            raise unsupported(workload, strategy)
        gains[start:stop] = np.einsum("ij,ij->j", coefficients, coefficients)
    return gains
