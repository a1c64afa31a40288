r"""Expected errors: closed forms, no noise.

All functions are for one column of counts and continuous noise calibrated to the
sensitivity under adding or removing one record: Laplace noise for a pure epsilon, to
the L1 sensitivity, and Gaussian noise for rho of zCDP, to the L2 sensitivity. With the
loss :math:`\|A\|^2 \, \|W A^+\|_F^2` of a workload W and a strategy A, the expected
total squared error is :math:`2\,\mathrm{loss}/\epsilon^2` (Li, Miklau, Hay, McGregor,
Rastogi, "The matrix mechanism", VLDB Journal 2015, Prop. 7), or
:math:`\mathrm{loss}/(2 \rho)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice
from mmech.exceptions import UnsupportedWorkloadError
from mmech.noise import law_and_cost
from mmech.operators.base import BLOCK_ENTRIES, QueryMatrix
from mmech.operators.basic import AllRange, Diagonal, Identity
from mmech.operators.checks import check_same_domain
from mmech.operators.compose import Scaled
from mmech.operators.hierarchy import Hierarchy
from mmech.operators.joint import MAX_CELLS, joint_inverse_gram
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import (
    MAX_LATTICE_ATTRIBUTES,
    Anova,
    Marginal,
    Marginals,
    attributes_of,
)
from mmech.operators.merged import Merged
from mmech.operators.pidentity import PIdentity
from mmech.operators.ranges import WidthRange
from mmech.operators.residuals import Residuals
from mmech.operators.stack import VStack
from mmech.operators.subsets import marginal_precisions, ranks_of
from mmech.reduction.cells import reduce_domain
from mmech.reduction.columns import restrict_columns
from mmech.structure.blocks import block_energies, tree_components
from mmech.structure.energies import anova_energies
from mmech.structure.shape import (
    DENSE_CELLS,
    frobenius_squared,
    has_full_column_rank,
    is_uniform,
    kronecker_terms,
    rank,
)
from mmech.structure.spectrum import marginal_terms, mean_spectrum, query_spectra

__all__ = [
    "expected_error",
    "loss",
    "per_query_error",
    "rmse",
    "supports",
]

NORMS = {"pure": "L1", "zcdp": "L2"}
"""Kind of privacy to the norm of sensitivities."""

CANCELLATION = 1e-7
"""Relative size of a difference below which it is computed another way."""

RANGE_CANCELLATION = 1e-4
"""The same for the variance of a range as a difference of two prefix sums."""

SUPPORT_TOLERANCE = 1e-6
"""Relative part of a query outside the row space that counts as rounding."""


def expected_error(
    workload: QueryMatrix,
    strategy: QueryMatrix,
    *,
    epsilon: Any = None,
    rho: Any = None,
) -> float:
    r"""Return the expected total squared error of all queries.

    For pure epsilon :math:`\frac{2}{\epsilon^2} \|A\|_1^2 \, \|W A^+\|_F^2`, for rho of
    zCDP :math:`\frac{1}{2 \rho} \|A\|_2^2 \, \|W A^+\|_F^2`.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries A that are measured.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.

    Returns
    -------
    float
        Sum over the m queries of the variance, in squared counts, for one column of
        counts.

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.
    DomainTooLargeError
        If the pair has no closed form and n is too large for a dense one.

    Examples
    --------
    >>> from mmech import Identity, Prefix, expected_error
    >>> expected_error(Prefix(4), Identity(4), epsilon=1.0)
    20.0
    >>> expected_error(Prefix(4), Identity(4), rho=0.5)
    10.0
    """
    law, cost = law_and_cost(epsilon, rho)
    check_same_domain(workload, strategy)
    size = sensitivity_in(strategy, law.norm)
    return law.continuous(cost) * size**2 * _gain(workload, strategy)


def rmse(
    workload: QueryMatrix,
    strategy: QueryMatrix,
    *,
    epsilon: Any = None,
    rho: Any = None,
) -> float:
    """Return the root mean squared error of a query, in counts.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries that are measured.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two. At rho = 1/2 Gaussian
        noise has the scale of the L2 sensitivity.

    Returns
    -------
    float

    Examples
    --------
    >>> from mmech import Identity, Prefix, rmse
    >>> round(rmse(Prefix(4), Identity(4), epsilon=1.0), 3)
    2.236
    """
    total = expected_error(workload, strategy, epsilon=epsilon, rho=rho)
    return math.sqrt(total / workload.shape[0])


def per_query_error(
    workload: QueryMatrix,
    strategy: QueryMatrix,
    *,
    epsilon: Any = None,
    rho: Any = None,
) -> NDArray[np.float64]:
    """Return the expected squared error of every query.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries that are measured.
    epsilon, rho : float, str or Fraction
        Privacy parameter > 0 in nats; exactly one of the two.

    Returns
    -------
    ndarray of float64, shape (m,)
        Squared counts; the sum equals `expected_error`.

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.

    Examples
    --------
    >>> from mmech import Identity, Prefix, per_query_error
    >>> per_query_error(Prefix(4), Identity(4), epsilon=1.0)
    array([2., 4., 6., 8.])
    >>> per_query_error(Prefix(4), Identity(4), rho=0.5)
    array([1., 2., 3., 4.])
    """
    law, cost = law_and_cost(epsilon, rho)
    check_same_domain(workload, strategy)
    factor = law.continuous(cost) * sensitivity_in(strategy, law.norm) ** 2
    return factor * _row_gains(workload, strategy)


def loss(
    workload: QueryMatrix, strategy: QueryMatrix, *, privacy: str = "pure"
) -> float:
    r"""Return :math:`\|A\|^2 \, \|W A^+\|_F^2`, the error without the budget.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries W to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries A that are measured.
    privacy : {"pure", "zcdp"}, default="pure"
        Whether :math:`\|A\|` is the L1 sensitivity, for Laplace noise, or the L2
        sensitivity, for Gaussian noise.

    Returns
    -------
    float

    Raises
    ------
    UnsupportedWorkloadError
        If a query lies outside the row space of the strategy.

    Examples
    --------
    >>> from mmech import Prefix, loss
    >>> loss(Prefix(4), Prefix(4))
    64.0
    >>> round(loss(Prefix(4), Prefix(4), privacy="zcdp"), 9)
    16.0
    """
    norm = NORMS[check_choice(privacy, "privacy", tuple(NORMS))]
    check_same_domain(workload, strategy)
    return sensitivity_in(strategy, norm) ** 2 * _gain(workload, strategy)


def sensitivity_in(strategy: QueryMatrix, norm: str) -> float:
    """Return the sensitivity of a strategy in a norm, "L1" or "L2"."""
    return strategy.l2_sensitivity() if norm == "L2" else strategy.sensitivity()


def supports(workload: QueryMatrix, strategy: QueryMatrix) -> bool:
    """Return whether every query lies in the row space of the strategy.

    Tests random combinations of the queries: a query outside the row space is
    missed with probability zero, up to rounding.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        Queries to answer.
    strategy : QueryMatrix, shape (p, n)
        Queries that are measured.

    Returns
    -------
    bool

    Examples
    --------
    >>> from mmech import Identity, Prefix, Total, supports
    >>> supports(Prefix(4), Identity(4)), supports(Prefix(4), Total(4))
    (True, False)
    """
    check_same_domain(workload, strategy)
    if strategy is workload or has_full_column_rank(strategy):
        return True
    if isinstance(strategy, Merged):
        try:
            return supports(_merged_workload(workload, strategy), strategy.operator)
        except UnsupportedWorkloadError:
            return False
    if isinstance(strategy, Residuals):
        asked = mean_spectrum(workload, strategy.domain_shape)
        if asked is not None:
            return all(strategy.weights.get(subset, 0.0) != 0 for subset in asked)
    if isinstance(strategy, (Marginals, Marginal)):
        asked = mean_spectrum(workload, strategy.domain_shape)
        if asked is not None:
            return bool((_precisions(strategy, asked) > 0).all())
    weights = np.random.default_rng(0).standard_normal((workload.shape[0], 4))
    norms = np.sqrt(workload.row_square_sums())[:, None]
    weights = np.divide(weights, norms, out=np.zeros_like(weights), where=norms > 0)
    combined = workload.rmatmat(weights)
    return _rows_supported(combined, strategy, strategy.pinv().rmatmat(combined))


def _unsupported(
    workload: QueryMatrix,
    strategy: QueryMatrix,
    missing: tuple[int, ...] | None = None,
) -> UnsupportedWorkloadError:
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


def unsupported(
    workload: QueryMatrix, strategy: QueryMatrix
) -> UnsupportedWorkloadError:
    """Return the error for a pair that `supports` refuses, as specific as can be."""
    missing = None
    if isinstance(strategy, (Marginals, Marginal)):
        asked = mean_spectrum(workload, strategy.domain_shape)
        if asked is not None:
            precisions = _precisions(strategy, asked)
            missing = next(
                (s for s, k in zip(asked, precisions, strict=True) if k <= 0), None
            )
    return _unsupported(workload, strategy, missing)


def _rows_supported(
    rows: NDArray[Any], strategy: QueryMatrix, coefficients: NDArray[Any]
) -> bool:
    """Whether queries (as columns of `rows`) equal Aᵀ times their coefficients."""
    residual = np.linalg.norm(rows - strategy.rmatmat(coefficients), axis=0)
    return bool((residual <= SUPPORT_TOLERANCE * np.linalg.norm(rows, axis=0)).all())


# ---- ‖W A⁺‖_F² -------------------------------------------------------------


def _gain(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    """Return ‖W A⁺‖_F² by the first rule that knows the pair."""
    if strategy is workload:  # W W⁺ projects on the row space
        return float(rank(workload))
    for strategy_type, rule in _GAIN_RULES:
        if isinstance(strategy, strategy_type):
            value = rule(workload, strategy)
            if value is not None:
                return value
    if strategy.shape[1] <= DENSE_CELLS:
        return _dense_gain(workload, strategy)
    return float(_row_gains(workload, strategy).sum())


def _scaled_gain(workload: QueryMatrix, strategy: Scaled) -> float | None:
    if strategy.weight == 0:
        return None
    return _gain(workload, strategy.operator) / strategy.weight**2


def _diagonal_gain(workload: QueryMatrix, strategy: Diagonal) -> float:
    squares = np.square(strategy.diag().astype(np.float64))
    columns = workload.column_square_sums()
    if (columns[squares == 0] != 0).any():
        raise _unsupported(workload, strategy)
    return float((columns[squares > 0] / squares[squares > 0]).sum())


def _pidentity_gain(workload: QueryMatrix, strategy: PIdentity) -> float:
    gram = workload.gram()
    scales = strategy.column_scales
    total = float(np.square(scales) @ gram.diag())
    if strategy.p == 0:
        return total
    directions = strategy.orthonormal_factors[0] * scales[:, None]
    gain = total - float(np.vdot(directions, gram.matmat(directions)))
    if gain < CANCELLATION * total:  # most digits are lost: take squares instead
        return float(_row_gains(workload, strategy).sum())
    return gain


def _precisions(
    strategy: Marginals | Marginal, subsets: Iterable[tuple[int, ...]]
) -> NDArray[np.float64]:
    terms = marginal_terms(strategy)
    assert terms is not None
    return marginal_precisions(terms, tuple(subsets), strategy.domain_shape)


def _marginals_gain(
    workload: QueryMatrix, strategy: Marginals | Marginal
) -> float | None:
    """Return Σ_s m_s τ_s / k_s: over the lattice, or over the subsets asked for."""
    shape = strategy.domain_shape
    if len(shape) <= MAX_LATTICE_ATTRIBUTES and isinstance(strategy, Marginals):
        energies = anova_energies(workload, shape)
        if energies is not None:
            gram = strategy.gram()
            assert isinstance(gram, Anova)
            eigenvalues = np.asarray(gram.eigenvalues)
            used = energies > SUPPORT_TOLERANCE**2 * energies.sum()
            missing = np.flatnonzero(used & (eigenvalues <= 0))
            if missing.size:
                raise _unsupported(workload, strategy, attributes_of(int(missing[0])))
            return float((energies[used] / eigenvalues[used]).sum())
    asked = mean_spectrum(workload, shape)
    if asked is None:
        return None
    precisions = _precisions(strategy, asked)
    if (precisions <= 0).any():
        raise unsupported(workload, strategy)
    energies = ranks_of(asked, shape) * list(asked.values())
    return float((energies / precisions).sum())


def _residuals_gain(workload: QueryMatrix, strategy: Residuals) -> float | None:
    asked = mean_spectrum(workload, strategy.domain_shape)
    if asked is None:
        return None
    gain = 0.0
    for subset, value in asked.items():
        weight = strategy.weights.get(subset, 0.0)
        if weight == 0:
            raise _unsupported(workload, strategy)
        gain += strategy.rank(subset) * value / weight**2
    return gain


def _hierarchy_gain(workload: QueryMatrix, strategy: Hierarchy) -> float | None:
    blocks = block_energies(workload)
    if blocks is None:
        return None
    energies, variances = tree_components(blocks, strategy)
    measured = np.isfinite(variances)
    if energies[~measured].max(initial=0) > SUPPORT_TOLERANCE**2 * energies.sum():
        raise unsupported(workload, strategy)
    return float(energies[measured] @ variances[measured])


def _merged_workload(workload: QueryMatrix, strategy: Merged) -> QueryMatrix:
    """Return the workload on the merged cells of a strategy."""
    groups, weights = np.asarray(strategy.groups), strategy.weights
    if weights is None and kronecker_terms(workload) is not None:
        reduced, own = reduce_domain(workload)
        if np.array_equal(own, groups):
            return reduced
    reduced = restrict_columns(workload, strategy.representatives)
    probe = np.random.default_rng(0).standard_normal((workload.shape[0], 2))
    actual = workload.rmatmat(probe)
    if weights is not None:
        largest = np.asarray(weights)[strategy.representatives]
        reduced = reduced @ Diagonal(1.0 / largest)
    spread = Merged(reduced, groups, weights).rmatmat(probe)
    if not np.allclose(spread, actual, rtol=0, atol=1e-9 * np.abs(actual).max()):
        raise _unsupported(workload, strategy)
    return reduced


def _merged_gain(workload: QueryMatrix, strategy: Merged) -> float:
    return _gain(_merged_workload(workload, strategy), strategy.operator)


def _is_zero_product(weight: float, factors: tuple[QueryMatrix, ...]) -> bool:
    return weight == 0 or any(frobenius_squared(factor) == 0 for factor in factors)


def _kronecker_gain(workload: QueryMatrix, strategy: Kronecker) -> float | None:
    terms = kronecker_terms(workload)
    sizes = [factor.shape[1] for factor in strategy.factors]
    if terms is None or any(
        [factor.shape[1] for factor in factors] != sizes for _, factors in terms
    ):
        return None
    terms = [term for term in terms if not _is_zero_product(*term)]
    return sum(
        weight**2
        * math.prod(
            _gain(query, measured)
            for query, measured in zip(factors, strategy.factors, strict=True)
        )
        for weight, factors in terms
    )


def _joint_gain(workload: QueryMatrix, strategy: VStack) -> float | None:
    """Stacked Kroneckers: exact by a generalized eigenproblem per attribute."""
    terms = kronecker_terms(workload)
    inverse = None if terms is None else joint_inverse_gram(strategy)
    if terms is None or inverse is None:
        return None
    sizes = [len(transform) for transform in inverse.transforms]
    if math.prod(sizes) > MAX_CELLS or any(
        [factor.shape[1] for factor in factors] != sizes for _, factors in terms
    ):
        return None
    gain = 0.0
    for weight, factors in terms:
        energy = np.array(weight**2)
        for factor, vectors in zip(factors, inverse.transforms, strict=True):
            rotated = factor.gram().matmat(vectors)
            own = np.einsum("ab,ab->b", vectors, rotated)
            energy = np.multiply.outer(energy, own)
        gain += float((energy / inverse.spectrum).sum())
    return gain


_GAIN_RULES: list[
    tuple[type | tuple[type, ...], Callable[[Any, Any], float | None]]
] = [
    (Identity, lambda workload, strategy: frobenius_squared(workload)),
    (Scaled, _scaled_gain),
    (Diagonal, _diagonal_gain),
    (PIdentity, _pidentity_gain),
    (Kronecker, _kronecker_gain),
    ((Marginals, Marginal), _marginals_gain),
    (Residuals, _residuals_gain),
    (Merged, _merged_gain),
    (Hierarchy, _hierarchy_gain),
    (VStack, _joint_gain),
]
"""(type of strategy, rule), tried in this order; ``None`` means 'not mine'."""


def _dense_gain(workload: QueryMatrix, strategy: QueryMatrix) -> float:
    values, vectors = np.linalg.eigh(strategy.gram()._dense().astype(np.float64))
    keep = values > strategy.shape[1] * np.finfo(float).eps * values[-1]
    products = workload.gram().matmat(vectors)
    energies = np.einsum("ij,ij->j", vectors, products)
    if not supports(workload, strategy):
        raise _unsupported(workload, strategy)
    return float((energies[keep] / values[keep]).sum())


# ---- row norms of W A⁺ ------------------------------------------------------


def _row_gains(workload: QueryMatrix, strategy: QueryMatrix) -> NDArray[np.float64]:
    """Return the squared row norms of W A⁺, shape (m,)."""
    if isinstance(strategy, Scaled) and strategy.weight != 0:
        return _row_gains(workload, strategy.operator) / strategy.weight**2
    if isinstance(strategy, Identity):
        return workload.row_square_sums().astype(np.float64)
    if isinstance(strategy, Merged):
        return _row_gains(_merged_workload(workload, strategy), strategy.operator)
    if isinstance(workload, Scaled) and workload.weight != 0:
        return _row_gains(workload.operator, strategy) * workload.weight**2
    if isinstance(workload, VStack):
        return np.concatenate([_row_gains(b, strategy) for b in workload.blocks])
    if isinstance(workload, Kronecker) and isinstance(strategy, Kronecker):
        pairs = list(zip(workload.factors, strategy.factors, strict=False))
        aligned = all(query.shape[1] == part.shape[1] for query, part in pairs)
        if aligned and len(workload.factors) == len(strategy.factors):
            if _is_zero_product(1.0, tuple(workload.factors)):
                return np.zeros(workload.shape[0])
            gains = np.ones(1)
            for query, part in pairs:
                gains = np.outer(gains, _row_gains(query, part)).ravel()
            return gains
    if isinstance(strategy, (Marginals, Marginal, Residuals)) and is_uniform(workload):
        if isinstance(strategy, Residuals):
            gain = _residuals_gain(workload, strategy)
        else:
            gain = _marginals_gain(workload, strategy)
        if gain is not None:
            return np.full(workload.shape[0], gain / workload.shape[0])
    if isinstance(strategy, (Marginals, Marginal)):
        spectra = query_spectra(workload, strategy.domain_shape)
        if spectra is not None:
            precisions = _precisions(strategy, spectra.subsets)
            if (precisions <= 0).any():
                raise unsupported(workload, strategy)
            return spectra.weighted(1.0 / precisions)
    if isinstance(workload, (AllRange, WidthRange)):
        distances = _range_gains(workload, strategy)
        if distances is not None:
            return distances
    return _row_gains_by_blocks(workload, strategy)


def _range_gains(
    workload: AllRange | WidthRange, strategy: QueryMatrix
) -> NDArray[np.float64] | None:
    """Row norms for ranges: distances between the coefficients of prefix sums.

    With C = S A⁺ for the matrix S of the sums over the first 0..n cells, range
    (lo, hi) has the coefficients C[hi + 1] - C[lo], so that all norms follow from
    C Cᵀ. Differences that lose most digits are taken before they are squared.
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
    height = max(1, BLOCK_ENTRIES // coefficients.shape[1])
    for start in range(0, lost.size, height):
        rows = lost[start : start + height]
        steps = coefficients[upper[rows] + 1] - coefficients[lower[rows]]
        gains[rows] = np.einsum("ij,ij->i", steps, steps)
    return np.asarray(gains)


def _row_gains_by_blocks(
    workload: QueryMatrix, strategy: QueryMatrix
) -> NDArray[np.float64]:
    pinv = strategy.pinv()
    gains = np.empty(workload.shape[0])
    height = max(1, BLOCK_ENTRIES // max(*workload.shape, strategy.shape[0]))
    for start in range(0, workload.shape[0], height):
        stop = min(start + height, workload.shape[0])
        rows = np.ascontiguousarray(workload._rows(start, stop).T, np.float64)
        coefficients = pinv.rmatmat(rows)
        if not _rows_supported(rows, strategy, coefficients):
            raise _unsupported(workload, strategy)
        gains[start:stop] = np.einsum("ij,ij->j", coefficients, coefficients)
    return gains
