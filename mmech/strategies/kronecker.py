"""Kronecker strategies for products and unions of products.

A union W = [w_1 ⊗_i W_1i; w_2 ⊗_i W_2i; ...] with a strategy A = ⊗_i A_i of
unit sensitivity has loss Σ_j w_j² Π_i t_ij with t_ij = tr(W_jiᵀW_ji (A_iᵀA_i)⁻¹).
With the other factors fixed, factor i sees the surrogate gram
Σ_j w_j² (Π_{l≠i} t_lj) W_jiᵀW_ji (McKenna et al., VLDB 2018, Theorem 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmech.arrays import Floats
from mmech.checks import check_integer
from mmech.error import expected as error
from mmech.error.bounds import cheap_loss_bound
from mmech.error.pairs import gain
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators.base import QueryMatrix
from mmech.operators.basic import Identity
from mmech.operators.compose import Scaled, Sum, VStack
from mmech.operators.explicit import Dense
from mmech.operators.known import Term, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.pidentity import PIdentity
from mmech.operators.pinv import distinct_grams
from mmech.strategies.closed_form import has_closed_form, optimum_under_l2
from mmech.strategies.marginals import is_beyond_lattices
from mmech.strategies.ordered import BlockLevel, random_starts
from mmech.strategies.pidentity import (
    LARGE_DOMAIN,
    better_than_cells,
    default_p,
    descend,
    pidentity_l2_strategy,
    pidentity_strategy,
    without_idle_rows,
)
from mmech.strategies.registry import (
    TOO_LARGE,
    Request,
    Skip,
    Template,
    time_is_up,
    try_all,
)
from mmech.strategies.spectral import spectral_strategy, suits_waves
from mmech.structure.shape import frobenius_squared
from mmech.structure.spectrum import box_terms, is_uniform

NAME = "kronecker"

EXPLICIT_FACTOR = 512
"""Up to this factor size the surrogate grams are formed explicitly."""

UNION_STARTS = 4
"""Default number of starts for a union of products."""

MAX_SWEEPS = 50

MOST_CELLS = 2**16
"""Values of an attribute above which "auto" leaves p-Identities out under L1: these
take 20 s on all ranges of them."""

LONG_AXIS = 1024
"""Above this size attributes of unions take waves under L2, or else a p-Identity."""

LONGEST_AXIS = 4096
FAR = 2.0
"""Up to this size of all factors p-Identities are tried, too, where waves are so many
times above the bound."""

AXIS_SWEEPS = 4
AXIS_TOLERANCE = 1e-3
"""Limits of the sweeps there; every one of them is near the optimum of an attribute."""


def kronecker_strategy(
    workload: QueryMatrix,
    *,
    p: int | Sequence[int] | None = None,
    n_starts: int | None = None,
    max_iter: int = 500,
    tolerance: float = 1e-7,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Optimize one p-Identity factor per attribute; never worse than the identity.

    For a single product the factors are independent, and those of more than 4,096
    values take what "auto" finds for them. For a union every factor in turn
    descends on its surrogate, warm-started from where it stands, so the loss never
    increases from sweep to sweep.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        A `Kronecker`, a `VStack` of (scaled) Kroneckers with equal factor sizes, or
        partitions into boxes: the leaves of a forest.
    p : int or sequence of int, default=None
        Extra queries per factor.
    n_starts : int, default=None
        Number of starts; 4 for a union, and as many as template "pidentity" takes for
        each factor of a single product.
    max_iter : int, default=500
        Iterations per factor and sweep.
    tolerance : float, default=1e-7
        Relative decrease per sweep at which to stop.
    seed, callback
        As in `optimize`.
    """
    terms = product_terms(workload, NAME, 1, "template 'pidentity'")
    sizes = [factor.shape[1] for factor in terms[0][1]]
    p_list = _p_per_factor(p, sizes)
    if n_starts is not None:
        check_integer(n_starts, "n_starts")
    rng = np.random.default_rng(seed)
    if len(terms) == 1:
        limits: dict[str, Any] = {"max_iter": max_iter, "tolerance": tolerance}
        weight, factors = terms[0]
        parts = [
            try_all(f, Request("L1", seed=rng))
            if p is None and f.shape[1] > LARGE_DOMAIN
            else pidentity_strategy(f, p=k, n_starts=n_starts, seed=rng, **limits)
            for f, k in zip(factors, p_list, strict=True)
        ]
        return _product(weight, parts, callback)
    squares = np.square([weight for weight, _ in terms])
    surrogates = [
        SurrogateGrams([factors[i] for _, factors in terms]) for i in range(len(sizes))
    ]
    cells = Kronecker([Identity(size) for size in sizes])
    note = "no start improved on the identity"
    best = StrategyResult(cells, NAME, frobenius_squared(workload), message=note)
    thetas: list[Floats] = []

    def improve(i: int, asked: Floats, roughly: bool) -> Floats:
        level = BlockLevel.of(surrogates[i].weighted(asked))
        thetas[i] = descend(level, thetas[i], max_iter, tolerance).point
        return surrogates[i].traces(thetas[i])

    for _ in range(UNION_STARTS if n_starts is None else n_starts):
        kind = int(rng.integers(1, 4))
        thetas[:] = [
            list(random_starts(size, rows, rng, kind))[-1]
            for size, rows in zip(sizes, p_list, strict=True)
        ]
        pairs = zip(surrogates, thetas, strict=True)
        errors = np.stack([grams.traces(theta) for grams, theta in pairs])
        history, success = _sweep(errors, squares, improve, MAX_SWEEPS, tolerance)
        strategy = Kronecker([without_idle_rows(theta) for theta in thetas])
        result = StrategyResult(
            strategy,
            NAME,
            error.loss(workload, strategy),
            n_iter=len(history),
            success=success,
            message=f"{len(history)} sweeps over {len(sizes)} factors",
            history=history,
        )
        if result.loss < best.loss:
            best = result
        if time_is_up() or (callback is not None and callback(best)):
            break
    return best


def _product(
    weight: float, parts: list[StrategyResult], callback: Callback | None
) -> StrategyResult:
    """Return the product of strategies for the factors of a product."""
    result = StrategyResult(
        Kronecker([part.strategy for part in parts]),
        NAME,
        weight**2 * math.prod(part.loss for part in parts),
        n_iter=sum(part.n_iter for part in parts),
        success=all(part.success for part in parts),
        message="product of: " + "; ".join(part.message for part in parts),
    )
    if callback is not None:
        callback(result)
    return result


def product_terms(
    workload: QueryMatrix, template: str, least: int, others: str
) -> list[Term]:
    """Return a union of products as terms, at least so many; raise for others."""
    terms = normal_form(workload).products or box_terms(workload) or ()
    if len(terms) < least:
        products = "a VStack of" if least > 1 else "a Kronecker, a VStack of"
        raise UnsupportedWorkloadError(
            f"template {template!r} needs {products} Kroneckers with equal factor "
            "sizes, or partitions into boxes of a known domain_shape, got "
            f"{workload!r}; use {others}"
        )
    return list(terms)


def _p_per_factor(p: int | Sequence[int] | None, sizes: list[int]) -> list[int]:
    if p is None:
        return [default_p(size) for size in sizes]
    given = [p] * len(sizes) if isinstance(p, (int, np.integer)) else list(p)
    if len(given) != len(sizes):
        raise ValueError(
            f"p must be one integer or {len(sizes)} integers, one per factor, got "
            f"{len(given)}"
        )
    return [check_integer(value, "p") for value in given]


class SurrogateGrams:
    """Weighted sums of one factor's grams over the terms of a union."""

    def __init__(self, factors: list[QueryMatrix]) -> None:
        self.size = factors[0].shape[1]
        self.grams = [factor.gram() for factor in factors]
        self._explicit: Floats | None = None
        self._kind = np.arange(len(factors))
        if self.size <= EXPLICIT_FACTOR:
            distinct, places = distinct_grams(factors)
            self._explicit, self._kind = np.stack(distinct), np.array(places)

    def weighted(self, weights: Floats) -> QueryMatrix:
        """Return Σ_j weights_j V_j as an operator."""
        if self._explicit is None:
            pairs = zip(weights.tolist(), self.grams, strict=True)
            return Sum([Scaled(weight, gram) for weight, gram in pairs])
        totals = np.bincount(self._kind, weights, minlength=len(self._explicit))
        return Dense(np.einsum("j,jab->ab", totals, self._explicit))

    def traces(self, theta: Floats) -> Floats:
        """Return tr(V_j (AᵀA)⁻¹) for every term j."""
        strategy = PIdentity(theta.T)
        if self._explicit is not None:
            dense = strategy.inverse_gram()._dense()
            distinct = np.einsum("jab,ab->j", self._explicit, dense)
            return np.asarray(distinct[self._kind])
        scales = strategy.column_scales
        directions = strategy.orthonormal_factors[0] * scales[:, None]
        explained = [np.vdot(directions, g.matmat(directions)) for g in self.grams]
        totals = [np.square(scales) @ gram.diag() for gram in self.grams]
        return np.subtract(totals, explained)


Improve = Callable[[int, Floats, bool], ArrayLike]
"""(attribute, weight of every term, whether roughly) -> new errors of its terms."""


def _sweep(
    errors: Floats, squares: Floats, improve: Improve, most: int, tolerance: float
) -> tuple[tuple[float, ...], bool]:
    """Improve one factor after the other until the loss stops decreasing.

    `errors` (attributes, terms) are those of the factors of every term, in place, and
    `squares` the squared weights of the terms. Every factor sees its queries weighed by
    the errors along the others. Returns the loss after every sweep, and whether its
    relative decrease fell to the tolerance.
    """
    history: list[float] = []
    for _ in range(most):
        for i in range(len(errors)):
            others = squares * np.prod(np.delete(errors, i, axis=0), axis=0)
            errors[i] = improve(i, others, not history)
        history.append(float(squares @ np.prod(errors, axis=0)))
        if len(history) > 1 and history[-2] - history[-1] <= tolerance * history[-2]:
            return tuple(history), True
        if time_is_up():
            break
    return tuple(history), False


# ---- under L2 ------------------------------------------------------------------


def kronecker_l2_strategy(
    workload: QueryMatrix,
    *,
    max_iter: int = 300,
    tolerance: float = 2e-5,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Multiply optimal factors; for a union, take the best for one after another.

    Bounds and losses of a product under L2 are the products of those of its factors,
    and so are optima. A union of products has no closed form: every attribute in turn
    takes the best strategy for its own queries. These are weighed by the errors along
    the others. Attributes of more than 1,024 values take waves, or a p-Identity. Never
    worse than the identity.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        A `Kronecker`, a `VStack` of (scaled) Kroneckers with equal factor sizes, or
        partitions into boxes: the leaves of a forest.
    max_iter : int, default=300
        Iterations per factor of a single product.
    tolerance : float, default=2e-5
        Relative gap to the optimum of a single product at which to stop.
    seed, callback
        As in `optimize`; `callback` is called once.
    """
    terms = product_terms(workload, NAME, 1, "template='pidentity' or 'dense'")
    if len(terms) == 1:
        weight, factors = terms[0]
        options = {"max_iter": max_iter, "tolerance": tolerance / len(factors)}
        parts = [try_all(f, Request("L2", options, seed=seed)) for f in factors]
        return _product(weight, parts, callback)
    result = _alternate(workload, terms, True, seed)
    longest = max(factor.shape[1] for factor in terms[0][1])
    if LONG_AXIS < longest <= LONGEST_AXIS:
        bound, _ = cheap_loss_bound(workload)
        if result.loss > FAR * bound:
            other = _alternate(workload, terms, False, seed)
            result = min(result, other, key=lambda found: found.loss)
    if callback is not None:
        callback(result)
    return result


def _alternate(
    workload: QueryMatrix, terms: list[Term], waves: bool, seed: Any
) -> StrategyResult:
    """Optimize every attribute for its queries, weighed by the errors of the others."""
    squares = np.square([weight for weight, _ in terms])
    columns = list(zip(*(factors for _, factors in terms), strict=True))
    strategies: list[QueryMatrix] = [Identity(kinds[0].shape[1]) for kinds in columns]
    errors = np.array([list(map(frobenius_squared, queries)) for queries in columns])

    def improve(i: int, asked: Floats, roughly: bool) -> list[float]:
        weights = np.sqrt(asked / (asked.max() or 1.0)).tolist()
        pairs = zip(weights, columns[i], strict=True)
        union = VStack([weight * factor for weight, factor in pairs])
        best = _best_factor(union, waves, roughly, seed).strategy
        strategies[i] = best
        return [best.l2_sensitivity() ** 2 * gain(query, best) for query in columns[i]]

    # The first sweep is rough.
    most = AXIS_SWEEPS + waves
    history, _ = _sweep(errors, squares, improve, most, AXIS_TOLERANCE)
    return better_than_cells(
        workload,
        Kronecker(strategies),
        NAME,
        n_iter=len(history),
        success=True,
        history=history,
        ended=f"{len(history)} sweeps over {len(strategies)} factors",
    )


def _best_factor(
    union: QueryMatrix, waves: bool, roughly: bool, seed: Any
) -> StrategyResult:
    """Return the best strategy for one attribute, in little time where that is long."""
    long = union.shape[1] > LONG_AXIS
    if waves and (roughly or long) and suits_waves(union):
        return spectral_strategy(union)
    if long:
        return pidentity_l2_strategy(union, seed=seed)
    return try_all(union, Request("L2", {"tolerance": AXIS_TOLERANCE}, seed=seed))


# ---- in "auto" -----------------------------------------------------------------


def look_at_products(workload: QueryMatrix, found: Request) -> Skip | None:
    """Keep unions of products that have no better template."""
    products = normal_form(workload).products
    if products is None or len(products[0][1]) < 2:
        return Skip("not a union of products")
    if found.norm == "L2":
        optimum = optimum_under_l2(workload, found)
        return Skip(optimum) if optimum else None
    searched = [f for _, factors in products for f in factors if not is_uniform(f)]
    if max((factor.shape[1] for factor in searched), default=0) > MOST_CELLS:
        return Skip(f"{TOO_LARGE}an attribute of more than {MOST_CELLS} values")
    if found.runs and is_beyond_lattices(workload) and has_closed_form(workload):
        return Skip("marginals are optimized by 'marginals'")
    return None


KRONECKER = Template(NAME, kronecker_strategy, 70, look=look_at_products)
KRONECKER_L2 = Template(NAME, kronecker_l2_strategy, 40, ("L2",), look_at_products)
