"""What is asked of a workload W and a strategy A, and how it is found without a rule.

Three questions: whether A supports every query, the gain ‖W A⁺‖_F², and the squared row
norms of W A⁺. What no rule of `mmech.error.rules` knows is computed from a dense gram
on small domains, and else query by query from the pseudoinverse. The entries that this
visits are known before, and more than `Limits.reported_entries` are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotri

from mmech.arrays import Floats, Subset
from mmech.checks import magnitude
from mmech.error.rules import known_gain, known_rows, missing_attributes
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Diagonal, Identity
from mmech.operators.compose import Merged, Product, Scaled, VStack
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.known import factored, has_full_column_rank, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals, Residuals
from mmech.operators.pidentity import PIdentity
from mmech.operators.pinv import joint_inverse_gram, pinv_entries
from mmech.operators.subsets import marginal_precisions, ranks_of
from mmech.reduction.cells import first_members, reduce_domain, restrict_columns
from mmech.structure.blocks import (
    block_gain,
    equal_blocks,
    in_equal_blocks,
    moved,
)
from mmech.structure.shape import frobenius_squared, rank, regular_factor
from mmech.structure.spectrum import (
    is_uniform,
    marginal_terms,
    mean_spectrum,
    query_spectra,
)

Tables = Marginals | Marginal | Residuals

CANCELLATION = 1e-7
"""Relative size of a difference below which it is computed another way."""


SUPPORT_TOLERANCE = 1e-6
"""Relative part of a query outside the row space that counts as rounding."""


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
    missing = missing_attributes(workload, strategy)
    if missing is not None:
        return not missing
    _check_listed(workload)
    check_work(workload, strategy, 4)
    weights = np.random.default_rng(0).standard_normal((workload.shape[0], 4))
    norms = np.sqrt(workload.row_square_sums())[:, None]
    weights = np.divide(weights, norms, out=np.zeros_like(weights), where=norms > 0)
    combined = workload.rmatmat(weights)
    return rows_supported(combined, strategy, strategy.pinv().rmatmat(combined))


def gain(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    """Return ‖W A⁺‖_F²."""
    if strategy is workload:  # W W⁺ projects on the row space
        return float(rank(workload))
    square, queries, inner = unwrapped(strategy, workload)
    if inner is not strategy:
        return gain(queries, inner) / square
    known = known_gain(workload, strategy)
    if known is not None:
        return float(known)
    if strategy.shape[1] <= LIMITS.dense_cells:
        return _dense_gain(workload, strategy)
    return float(row_gains(workload, strategy).sum())


def row_gains(workload: QueryMatrix, strategy: QueryMatrix) -> Floats:
    """Return the squared row norms of W A⁺, shape (m,).

    Raises `DomainTooLargeError` where more than `Limits.reported_entries` entries were
    to be visited, before any is visited.
    """
    square, queries, inner = unwrapped(strategy, workload)
    if inner is not strategy:
        return row_gains(queries, inner) / square
    _check_listed(workload)
    known: Floats | None = known_rows(workload, strategy)
    if known is not None:
        return known
    blocks = normal_form(workload).blocks
    if blocks[0][1] is not workload:
        gains = [
            c**2 * row_gains(block, strategy) if c else np.zeros(block.shape[0])
            for c, block in blocks
        ]
        return np.concatenate(gains)
    return computed_rows(*_on_used_cells(workload, strategy))


def _on_used_cells(
    workload: QueryMatrix, strategy: QueryMatrix
) -> tuple[QueryMatrix, QueryMatrix]:
    """Leave out cells of explicit matrices that neither of both asks for."""
    pair: Any = workload, strategy
    if not all(isinstance(matrix, Sparse) for matrix in pair):
        return workload, strategy
    used = np.unique(np.concatenate([each.matrix.indices for each in pair]))
    asked, measured = (Sparse(each.matrix[:, used]) for each in pair)
    return asked, measured


def _check_listed(workload: QueryMatrix) -> None:
    """Refuse a number for each of too many queries."""
    if workload.shape[0] > LIMITS.reported_entries:
        raise DomainTooLargeError(
            f"{workload!r} has {magnitude(workload.shape[0])} queries, too many to "
            f"list (limit {LIMITS.reported_entries}); ask for their total, or "
            "for fewer queries"
        )


def check_work(workload: QueryMatrix, strategy: QueryMatrix, columns: int) -> None:
    """Refuse to visit too many entries of some columns of A⁺, before any is visited."""
    entries = pinv_entries(strategy, columns)
    if entries > LIMITS.reported_entries:
        raise DomainTooLargeError(
            f"errors of {workload!r} under {strategy!r} have no closed form and visit "
            f"{magnitude(entries)} entries, query by query (limit "
            f"{LIMITS.reported_entries}); take a strategy that optimize() returns, at "
            f"most {LIMITS.dense_cells} cells, or another limit by "
            "mmech.limits.changed(reported_entries=...)"
        )


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
    missing = missing_attributes(workload, strategy)
    if missing:
        reason = (
            f"it asks for the attributes {missing[0]} together, which no marginal of "
            "the strategy contains; add a marginal over them"
        )
    else:
        reason = (
            "some query is not a combination of strategy queries; add rows such as "
            "Identity to the strategy"
        )
    return UnsupportedWorkloadError(
        f"the strategy {strategy!r} cannot answer the workload {workload!r}: {reason}"
    )


def rows_supported(
    rows: NDArray[Any], strategy: QueryMatrix, coefficients: NDArray[Any]
) -> bool:
    """Whether queries (as columns of `rows`) equal Aᵀ times their coefficients."""
    residual = np.linalg.norm(rows - strategy.rmatmat(coefficients), axis=0)
    return bool((residual <= SUPPORT_TOLERANCE * np.linalg.norm(rows, axis=0)).all())


# ---- rules of strategies that know every workload, or see it as a whole -------------


@known_gain.rule(Identity)
def _(workload: QueryMatrix, strategy: Identity) -> float:
    return frobenius_squared(workload)


@known_rows.rule(Identity)
def _(workload: QueryMatrix, strategy: Identity) -> Floats:
    return workload.row_square_sums().astype(np.float64)


@known_gain.rule(Diagonal)
def _(workload: QueryMatrix, strategy: Diagonal) -> float:
    squares = np.square(strategy.diag().astype(np.float64))
    columns = workload.column_square_sums()
    if (columns[squares == 0] != 0).any():
        raise unsupported(workload, strategy)
    return float((columns[squares > 0] / squares[squares > 0]).sum())


@known_gain.rule(PIdentity)
def _(workload: QueryMatrix, strategy: PIdentity) -> float:
    gram = workload.gram()
    scales = strategy.column_scales
    total = float(np.square(scales) @ gram.diag())
    if strategy.p == 0:
        return total
    directions = strategy.orthonormal_factors[0] * scales[:, None]
    value = total - float(np.vdot(directions, gram.matmat(directions)))
    if value < CANCELLATION * total:  # most digits are lost: take squares instead
        return float(row_gains(workload, strategy).sum())
    return value


def merged_workload(workload: QueryMatrix, strategy: Merged) -> QueryMatrix:
    """Return the workload on the merged cells of a strategy."""
    if normal_form(workload).products is not None:
        reduced, groups = reduce_domain(workload)
        if np.array_equal(groups, strategy.groups):
            return reduced
    reduced = restrict_columns(workload, first_members(strategy._groups))
    probe = np.random.default_rng(0).standard_normal((workload.shape[0], 2))
    actual = workload.rmatmat(probe)
    spread = Merged(reduced, strategy.groups).rmatmat(probe)
    if not np.allclose(spread, actual, rtol=0, atol=1e-9 * np.abs(actual).max()):
        raise unsupported(workload, strategy)
    return reduced


@known_gain.rule(Kronecker)
def _(workload: QueryMatrix, strategy: Kronecker) -> float | None:
    terms = normal_form(workload).products
    sizes = [factor.shape[1] for factor in strategy.factors]
    if terms is None or any(
        [factor.shape[1] for factor in factors] != sizes for _, factors in terms
    ):
        return None
    terms = [term for term in terms if not _is_zero_product(*term)]
    total = 0.0
    for weight, factors in terms:
        gains = map(gain, factors, strategy.factors)
        total += weight**2 * math.prod(gains)
    return total


@known_rows.rule(Kronecker)
def _(workload: QueryMatrix, strategy: Kronecker) -> Floats | None:
    weight, factors = factored(workload)
    sizes = [factor.shape[1] for factor in strategy.factors]
    if [factor.shape[1] for factor in factors] != sizes:
        return _repeated_rows(workload, strategy)
    if _is_zero_product(weight, factors):
        return np.zeros(workload.shape[0])
    gains = np.array([weight**2], np.float64)
    for query, part in zip(factors, strategy.factors, strict=True):
        gains = np.outer(gains, row_gains(query, part)).ravel()
    return gains


@known_rows.rule(VStack)
def _repeated_rows(workload: QueryMatrix, strategy: QueryMatrix) -> Floats | None:
    """Return the norms for one query that is moved along blocks with one strategy.

    They repeat from block to block, but near the cells where the query is cut off, and
    for cells behind the blocks.
    """
    query, found = moved(workload), equal_blocks(strategy)
    if query is None or found is None:
        return None
    count, part, last = found
    (m, n), size = workload.shape, part.shape[1]
    few = 1 + query.around(size)
    if few >= count or (last is not None and query.is_circular):
        return None
    over = n - (count - few) * size
    gains = row_gains(query.over(over), in_equal_blocks(few, part, last))
    # Rows of a whole block, which cells around it do not cut off.
    stop = size if query.cut_last or m < n else few * size
    again = np.tile(gains[stop - size : stop], count - few)
    return np.concatenate([gains[:stop], again, gains[stop:]])


def _is_zero_product(weight: float, factors: tuple[QueryMatrix, ...]) -> bool:
    return weight == 0 or any(frobenius_squared(factor) == 0 for factor in factors)


@known_gain.rule(VStack)
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
            energies = np.einsum("ab,ab->b", vectors, rotated)
            energy = np.multiply.outer(energy, energies)
        total += float((energy / inverse.spectrum).sum())
    return total


@known_rows.rule(Product)
def _(workload: QueryMatrix, strategy: Product) -> Floats | None:
    """Take L⁻¹, which is W A⁺, for A = L W of regular L and independent queries."""
    left, *others = strategy.factors
    m = workload.shape[0]
    if left.shape != (m, m) or [q.shape for q in others] != [workload.shape]:
        return None
    weights = np.random.default_rng(0).standard_normal((m, 2))
    asked, measured = workload.rmatmat(weights), others[0].rmatmat(weights)
    alike = np.allclose(asked, measured, rtol=0, atol=1e-9 * np.abs(asked).max())
    if not isinstance(left, Dense) or not alike or rank(workload) < m:
        return None
    return np.asarray(np.square(np.linalg.inv(left._array)).sum(axis=1))


# Strategies that see a workload by its energies on subsets of attributes.


@missing_attributes.rule(Tables)
def _(workload: QueryMatrix, strategy: Tables) -> list[Subset] | None:
    asked = mean_spectrum(workload, strategy.domain_shape)
    if asked is None:
        return None
    precisions = _precisions(strategy, asked)
    return [s for s, k in zip(asked, precisions, strict=True) if k <= 0]


@known_rows.rule(Tables)
def _(workload: QueryMatrix, strategy: Tables) -> Floats | None:
    if is_uniform(workload):
        value = gain_by_subsets(workload, strategy)
        if value is not None:
            return np.full(workload.shape[0], value / workload.shape[0])
    spectra = query_spectra(workload, strategy.domain_shape)
    if spectra is None:
        return None
    precisions = _precisions(strategy, spectra.subsets)
    if (precisions <= 0).any():
        raise unsupported(workload, strategy)
    return spectra.weighted(1.0 / precisions)


def _precisions(strategy: Tables, subsets: Iterable[tuple[int, ...]]) -> Floats:
    if isinstance(strategy, Residuals):
        weights = [strategy.weights.get(subset, 0.0) for subset in subsets]
        return np.square(weights)
    terms = marginal_terms(strategy)
    assert terms is not None
    return marginal_precisions(terms, tuple(subsets), strategy.domain_shape)


@known_gain.rule(Tables)
def gain_by_subsets(workload: QueryMatrix, strategy: Tables) -> float | None:
    """Return Σ_s m_s τ_s / k_s over the subsets asked for."""
    asked = mean_spectrum(workload, strategy.domain_shape)
    if asked is None:
        return None
    precisions = _precisions(strategy, asked)
    energies = ranks_of(asked, strategy.domain_shape) * list(asked.values())
    seen = precisions > 0
    if energies[~seen].max(initial=0.0) > SUPPORT_TOLERANCE**2 * energies.sum():
        raise unsupported(workload, strategy)
    return float((energies[seen] / precisions[seen]).sum())


# ---- without a rule --------------------------------------------------------------


def _dense_gain(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    gram = strategy.gram()._dense().astype(np.float64)
    factor = regular_factor(gram)
    if factor is not None:
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


@singledispatch
def computed_rows(workload: QueryMatrix, strategy: QueryMatrix) -> Floats:
    """Return the squared row norms of W A⁺ from A⁺, query by query."""
    check_work(workload, strategy, workload.shape[0])
    pinv = strategy.pinv()
    gains = np.empty(workload.shape[0])
    height = max(1, LIMITS.block_entries // max(*workload.shape, strategy.shape[0]))
    for start in range(0, workload.shape[0], height):
        stop = min(start + height, workload.shape[0])
        rows = np.ascontiguousarray(workload._rows(start, stop).T, np.float64)
        coefficients = pinv.rmatmat(rows)
        if not rows_supported(rows, strategy, coefficients):
            raise unsupported(workload, strategy)
        gains[start:stop] = np.einsum("ij,ij->j", coefficients, coefficients)
    return gains
