"""Unions: groups of queries with a Kronecker strategy each, solved jointly.

A = [c_1 ⊗A_1i; c_2 ⊗A_2i; ...] with p-Identity factors and Σ c_g = 1 has sensitivity
one. All measurements answer all queries: the loss is tr(WᵀW (AᵀA)⁻¹) of the whole
stack. A generalized eigenproblem per attribute makes it exact at any size, where no
attribute has more than two different factors. Two groups have factors of their own;
more than two share them: on every attribute a group takes the factor of the plain
queries or the factor of the rich ones. The start splits the budget in proportion to the
cube roots of the groups' own losses. This is the optimum if each group answered its own
queries only; descent on all weights then makes use of what the groups share. Its
derivatives are partial traces by attribute: nothing of size n x n is formed.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import reduce
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from mmech.arrays import Floats
from mmech.checks import check_integer, check_nonnegative
from mmech.error import expected as error
from mmech.error.result import Callback, StrategyResult
from mmech.exceptions import UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix
from mmech.operators.compose import Scaled, VStack
from mmech.operators.known import Term, normal_form
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import marginals_of
from mmech.operators.pidentity import PIdentity
from mmech.operators.pinv import JointInverseGram, distinct_grams
from mmech.strategies.kronecker import kronecker_strategy, product_terms
from mmech.strategies.pidentity import MAX_WEIGHT
from mmech.strategies.registry import TOO_LARGE, Request, Skip, Template, time_is_up
from mmech.structure.spectrum import is_uniform

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

NAME = "union"

Thetas = list[list[Floats]]
"""Extra queries by attribute and kind of factor."""
Masks = list[tuple[int, ...]]
"""Kind of factor, 0 or 1, by group and attribute."""

TRIAL = 60
"""Iterations of every start."""

FURTHER = 4
"""Starts that go on to four times as many, of which only the best goes to the end."""

MAX_TERMS = 16
"""Largest union that "auto" optimizes jointly."""

MAX_GROUPS = 12
"""More groups than these are merged."""

NEAR_TOTAL = 200.0
"""Weight of the total in a factor of cells that measures next to nothing else."""

NEGLIGIBLE = 1e-3
"""Share of the budget below which a group is not measured."""


def union_strategy(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    n_starts: int = 10,
    max_iter: int = 1000,
    tolerance: float = 1e-9,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Optimize one Kronecker strategy for each of several groups, jointly.

    A group are terms with rich queries on the same attributes, at most 12 groups. Every
    term is answered from the measurements of all groups.

    With the exact loss of the joint least squares. The message gives the budgets and
    the loss of the same groups answered one by one.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        A `VStack` of at least two (scaled) Kroneckers with equal factor sizes, or
        partitions into boxes: the leaves of a forest.
    p : int, default=None
        Extra queries per factor; about n_i / 32, at least 4, when omitted.
    n_starts : int, default=10
        Number of starts: random walks, last the groups' own strategies, and first of
        more than two groups plain factors close to a total. Where more than two
        groups are found, half of the starts try two groups. Where a group asks for
        totals of an attribute, one more start measures nearly these.
    max_iter : int, default=1000
        Iterations of the joint descent; the first 60 are run from every start.
    tolerance : float, default=1e-9
        Relative decrease at which to stop.
    seed, callback
        As in `optimize`.
    """
    terms = product_terms(workload, NAME, 2, "template 'pidentity'")
    sizes = [factor.shape[1] for factor in terms[0][1]]
    if workload.shape[1] > LIMITS.union_cells or max(sizes) > LIMITS.spectrum_factor:
        raise UnsupportedWorkloadError(
            f"template 'union' forms spectra of {LIMITS.union_cells} cells and factors "
            f"of {LIMITS.spectrum_factor} at most, got sizes {sizes}; use template "
            "'kronecker'"
        )
    check_integer(n_starts, "n_starts")
    check_integer(max_iter, "max_iter")
    check_nonnegative(tolerance, "tolerance")
    rng = np.random.default_rng(seed)
    designs = _designs(_richness(terms))
    runs: list[JointRun] = []
    # Two designs share the starts: both have at least one.
    n_starts = -(-n_starts // len(designs))
    for members, masks in designs:
        groups = [[terms[j] for j in part] for part in members]
        alone, losses = _separate(groups, p, rng)
        objective = JointObjective(terms, masks)
        shared = objective.shared(alone)
        near = [_near_totals(*pair) for pair in zip(groups, alone, strict=True)]
        pairs = zip(itertools.chain(*near), itertools.chain(*alone), strict=True)
        asks_totals = any(theta is not mine for theta, mine in pairs)
        roots = np.cbrt(losses)
        for index in range(n_starts + asks_totals):
            if index == n_starts:
                start = objective.shared(near)
            elif index == n_starts - 1 and n_starts > 1:
                start = shared
            elif index == 0 and len(masks) > 2:
                start = objective.coarse(shared, rng)
            else:
                start = objective.walks(shared, rng)
            run = objective.minimize(start, roots / roots.sum(), TRIAL, tolerance)
            runs.append(replace(run, split=float(roots.sum() ** 3)))
            if time_is_up() or (
                callback is not None and callback(_result(workload, run))
            ):
                return _result(workload, min(runs, key=attrgetter("loss")))
    stages = [(FURTHER, min(4 * TRIAL, max_iter)), (1, max_iter)]
    for kept, until in stages if workload.shape[1] <= LARGE else stages[1:]:
        best = sorted(runs, key=attrgetter("loss"))[:kept]
        runs = [_further(terms, run, until, tolerance) for run in best]
    return _result(workload, runs[0])


def _further(
    terms: list[Term], run: JointRun, until: int, tolerance: float
) -> JointRun:
    """Go on with a descent until so many iterations, unless it came to its end."""
    rest = until - len(run.history)
    if run.success or rest <= 0 or time_is_up():
        return run
    further = JointObjective(terms, run.masks).minimize(
        run.thetas, run.shares, rest, tolerance
    )
    history = run.history + further.history
    return replace(further, split=run.split, history=history)


def _result(workload: QueryMatrix, run: JointRun) -> StrategyResult:
    """Return the strategy of all groups, with their budgets in words."""
    kept = run.shares > NEGLIGIBLE
    shares = (run.shares[kept] / run.shares[kept].sum()).tolist()
    factors = [
        [PIdentity(theta[(theta > 1e-9).any(axis=1)]) for theta in kinds]
        for kinds in run.thetas
    ]
    products = [
        Kronecker([kinds[k] for kinds, k in zip(factors, mask, strict=True)])
        for mask, keep in zip(run.masks, kept, strict=True)
        if keep
    ]
    pairs = zip(shares, products, strict=True)
    strategy: QueryMatrix = VStack([Scaled(share, product) for share, product in pairs])
    budgets = ", ".join(f"{share:.3f}" for share in shares)
    message = f"{len(shares)} groups with budget {budgets}, solved jointly"
    loss = error.loss(workload, strategy)
    # A descent stays where equal groups share the budget equally.
    for product in products:
        alone = error.loss(workload, product)
        if len(products) == 1 or alone < loss:
            strategy, loss = product, alone
            message = "one of the groups takes all of the budget"
    return StrategyResult(
        strategy,
        NAME,
        loss,
        n_iter=len(run.history),
        success=run.success,
        message=f"{message}; loss {run.split:.6g} if each answered its own queries",
        history=run.history,
    )


# ---- groups ------------------------------------------------------------------


_Design = tuple[list[list[int]], Masks]
"""Terms of every group, and the kind of factor of every group on every attribute."""


def _designs(richness: Floats) -> list[_Design]:
    """Return two groups, and the groups by where their queries are rich if more."""
    by_kind: dict[tuple[int, ...], list[int]] = {}
    for j, kind in enumerate(_kinds(richness)):
        by_kind.setdefault(kind, []).append(j)
    designs = [_design(_two_groups(richness), richness)]
    if len(by_kind) > 2:
        designs.append(_design(list(by_kind.values()), richness))
    return designs


def _design(members: list[list[int]], richness: Floats) -> _Design:
    """Choose the kind of factor that every group takes on every attribute."""
    n_attributes = richness.shape[1]
    if len(members) < 3:  # each has factors of its own
        masks = [(index,) * n_attributes for index in range(len(members))]
        return members, masks
    kinds = _kinds(richness)
    merged: dict[tuple[int, ...], list[int]] = {}
    for part in members:
        votes = np.mean([kinds[j] for j in part], axis=0)
        mask = tuple((votes > 0.5).astype(int).tolist())
        merged[mask] = merged.get(mask, []) + part
    if len(merged) < 3:
        return _design(list(merged.values()), richness)
    while len(merged) > MAX_GROUPS:
        first, second = min(
            itertools.combinations(merged, 2),
            key=lambda pair: (
                sum(a != b for a, b in zip(*pair, strict=True)),
                len(merged[pair[0]]) + len(merged[pair[1]]),
            ),
        )
        merged[first] += merged.pop(second)
    return list(merged.values()), list(merged)


def _richness(terms: list[Term]) -> Floats:
    """Return how much the queries of every term need a strategy, by attribute."""
    factors = [f for _, term in terms for f in term]
    richness = [f.sensitivity() * (f.shape[0] / f.shape[1]) for f in factors]
    return np.reshape(richness, (len(terms), -1))


def _kinds(richness: Floats) -> Masks:
    """Split the queries on every attribute in plain (0) and rich (1) ones."""
    kinds = np.zeros(richness.shape, int)
    for i, column in enumerate(np.log(np.maximum(richness.T, 1e-300))):
        levels = np.unique(column)
        if levels.size > 1:
            widest = int(np.argmax(np.diff(levels)))
            kinds[:, i] = column > levels[widest]
    return [tuple(row) for row in kinds.tolist()]


def _two_groups(richness: Floats) -> list[list[int]]:
    """Split the terms by the attribute whose queries need a strategy the most."""
    keys = richness.argmax(axis=1)
    every = range(len(keys))
    first = [j for j in every if keys[j] == keys[0]]
    rest = [j for j in every if keys[j] != keys[0]]
    if not rest:
        half = len(keys) // 2
        first, rest = list(every[:half]), list(every[half:])
    return [first, rest]


def _separate(
    groups: list[list[Term]], p: int | None, rng: np.random.Generator
) -> tuple[list[list[Floats]], Floats]:
    """Optimize every group by itself; return its factors and its loss."""
    thetas, losses = [], []
    for group in groups:
        sizes = [factor.shape[1] for factor in group[0][1]]
        rows = [max(min(n, 4), n // 32) if p is None else p for n in sizes]
        blocks: list[QueryMatrix] = [
            Scaled(weight, Kronecker(factors)) for weight, factors in group
        ]
        result = kronecker_strategy(VStack(blocks), p=rows, n_starts=1, seed=rng)
        losses.append(result.loss)
        terms = normal_form(result.strategy).products
        assert terms is not None
        none = [np.zeros((0, n)) for n in sizes]  # of the cells
        pairs = zip(terms[0][1], none, strict=True)
        thetas.append([getattr(factor, "_theta", cells) for factor, cells in pairs])
    return thetas, np.array(losses)


def _near_totals(group: list[Term], thetas: list[Floats]) -> list[Floats]:
    """Return the factors of a group, nearly totals where these are asked for."""
    asked = zip(*(factors for _, factors in group), strict=True)
    return [
        np.full((1, theta.shape[1]), NEAR_TOTAL)
        if all(len(factor) == 1 and is_uniform(factor) for factor in factors)
        else theta
        for theta, factors in zip(thetas, asked, strict=True)
    ]


def look_at_union(workload: QueryMatrix, found: Request) -> Skip | None:
    """Keep unions of a few products over several attributes."""
    products = normal_form(workload).products
    if products is None or not 2 <= len(products) <= MAX_TERMS:
        return Skip("not a union of a few products")
    if len(products[0][1]) < 2 or marginals_of(workload) is not None:
        return Skip("marginals and single attributes are not optimized as unions")
    if workload.shape[1] > LIMITS.union_cells:
        return Skip(f"{TOO_LARGE}more than {LIMITS.union_cells} cells")
    return None


UNION = Template(NAME, union_strategy, 80, look=look_at_union)


# ---- the loss of stacked products, solved jointly ----------------------------

TOTAL_WEIGHT = 3.0
"""Weight of a total against the cells, in a plain factor to start from."""

LARGE = 2**14
"""Cells above which one start goes on at once: an iteration takes long there."""

STEPS, FEW_STEPS = 60, 10
"""Steps that a descent remembers, and those above `LARGE`.

With 60, all three seeds end lower on two workloads of small domains. Both seeds end
higher on Prefix ⊗ I with I ⊗ Prefix of 256 x 256 cells: 7.50e6 and 7.57e6 beside 7.38e6
and 7.48e6.
"""

LEAST_SHARE = 1e-4
"""Lower bound on the budgets of a descent, whose groups start below one."""


@dataclass(frozen=True)
class JointRun:
    """One descent over the strategies of all groups together."""

    thetas: Thetas
    shares: Floats
    loss: float
    history: tuple[float, ...]
    success: bool
    masks: Masks
    split: float = math.inf
    """Loss of the groups when each answers its own queries only."""


class JointObjective:
    """tr(WᵀW (AᵀA)⁻¹) of the stack, with its gradient in all rows and the shares."""

    def __init__(self, terms: list[Term], masks: Masks) -> None:
        self.sizes = [factor.shape[1] for factor in terms[0][1]]
        self.squares = np.array([weight**2 for weight, _ in terms])
        pairs = [
            distinct_grams([f[i] for _, f in terms]) for i in range(len(self.sizes))
        ]
        self.grams = [np.stack(grams) for grams, _ in pairs]
        self.places = [np.array(places) for _, places in pairs]
        self.masks = masks
        # Kinds that some group uses, in the order of the groups.
        self.used = list(
            dict.fromkeys((i, kind) for mask in masks for i, kind in enumerate(mask))
        )
        self.n_kinds = [
            1 + max(mask[i] for mask in masks) for i in range(len(masks[0]))
        ]

    def shared(self, separate: list[list[Floats]]) -> Thetas:
        """Return one factor per kind, from the first group which has any rows."""
        empty = [np.zeros((0, n)) for n in self.sizes]
        thetas = [[empty[i]] * count for i, count in enumerate(self.n_kinds)]
        for mask, factors in zip(self.masks, separate, strict=True):
            for i, kind in enumerate(mask):
                if thetas[i][kind].size == 0:
                    thetas[i][kind] = factors[i]
        return thetas

    def walks(self, thetas: Thetas, rng: np.random.Generator) -> Thetas:
        """Return random walks in place of the rows."""
        walks = [list(kinds) for kinds in thetas]
        for i, kind in self.used:
            sums = np.cumsum(rng.standard_normal(thetas[i][kind].shape), axis=1)
            walks[i][kind] = np.maximum(0.0, 2.0 * sums / np.sqrt(self.sizes[i]))
        return walks

    def coarse(self, thetas: Thetas, rng: np.random.Generator) -> Thetas:
        """Return plain factors that are mostly a total, and the rich ones as given.

        A group then learns little but what is asked on its own attributes, at little
        noise: hard to find from afar where the plain queries are totals.
        """
        starts = [list(kinds) for kinds in thetas]
        for i, kind in self.used:
            if kind == 0:
                rows = 0.1 * rng.random((max(len(thetas[i][0]), 1), self.sizes[i]))
                rows[0] = TOTAL_WEIGHT
                starts[i][0] = rows
        return starts

    def __call__(self, thetas: Thetas, shares: Floats) -> tuple[float, Thetas, Floats]:
        """Return the loss, its gradients in the rows, and those in the shares."""
        grams = [[_gram(theta) for theta in kinds] for kinds in thetas]
        inverse = JointInverseGram(shares.tolist(), grams, self.masks)
        transforms, values = inverse.transforms, inverse.eigenvalues
        rotated = [t.T @ v @ t for t, v in zip(transforms, self.grams, strict=True)]
        diagonals = [np.einsum("kaa->ka", r) for r in rotated]
        energy = np.zeros(self.sizes)
        for j, square in enumerate(self.squares):
            rows = [d[at[j]] for d, at in zip(diagonals, self.places, strict=True)]
            energy += square * reduce(np.multiply.outer, rows)
        spectrum = 1.0 / inverse.spectrum
        value = float((energy * spectrum).sum())
        pull = energy * np.square(spectrum)
        groups = map(inverse.spectrum_of, range(len(shares)))
        in_shares = -2.0 * shares * [float((pull * group).sum()) for group in groups]

        def outer(rows: list[Floats], start: float) -> Floats:
            return reduce(np.multiply.outer, rows, np.array(start)).ravel()

        def partial(i: int, kind: int) -> Floats:
            """Partial trace over all attributes but i of X⁻¹VX⁻¹ times their grams."""
            others = [j for j in range(len(self.sizes)) if j != i]
            flat = np.moveaxis(spectrum, i, 0).reshape(self.sizes[i], -1)
            measured = np.zeros(flat.shape[1])
            for share, mask in zip(shares, self.masks, strict=True):
                if mask[i] == kind:
                    rows = [values[j][mask[j]] for j in others]
                    measured += outer(rows, share**2)
            asked = np.zeros((len(rotated[i]), flat.shape[1]))
            for t, square in enumerate(self.squares):
                rows = [diagonals[j][self.places[j][t]] for j in others]
                asked[self.places[i][t]] += outer(rows, square)
            total = np.zeros_like(rotated[i][0])
            for queries, weight in zip(rotated[i], asked, strict=True):
                total += queries * ((flat * (weight * measured)) @ flat.T)
            return total

        gradients = [[np.zeros_like(theta) for theta in kinds] for kinds in thetas]
        for i, kind in self.used:
            if thetas[i][kind].size:
                in_cells = -(transforms[i] @ partial(i, kind) @ transforms[i].T)
                gradients[i][kind] = _through_gram(
                    thetas[i][kind], grams[i][kind], in_cells
                )
        return value, gradients, in_shares

    def minimize(
        self, thetas: Thetas, shares: Floats, max_iter: int, tolerance: float
    ) -> JointRun:
        """Descend on (Σ c_g)² tr(WᵀW (AᵀA)⁻¹), which does not ask for Σ c_g = 1."""
        from scipy.optimize import Bounds, minimize

        shapes = [thetas[i][kind].shape for i, kind in self.used]
        sizes = zip(self.grams, self.places, strict=True)
        traces = [np.trace(v, axis1=1, axis2=2)[at] for v, at in sizes]
        unit = float(sum(self.squares * np.prod(traces, axis=0))) or 1.0
        n_groups = len(self.masks)
        large = math.prod(self.sizes) > LARGE
        history: list[float] = []

        def unpack(flat: Floats) -> tuple[Thetas, Floats]:
            rows = [list(kinds) for kinds in thetas]
            at = n_groups
            for (i, kind), shape in zip(self.used, shapes, strict=True):
                size = shape[0] * shape[1]
                rows[i][kind] = flat[at : at + size].reshape(shape)
                at += size
            return rows, flat[:n_groups]

        def function(flat: Floats) -> tuple[float, Floats]:
            rows, budgets = unpack(flat)
            value, gradients, in_shares = self(rows, budgets)
            total = float(budgets.sum())
            parts = [total**2 * in_shares + 2.0 * total * value]
            parts += [total**2 * gradients[i][kind].ravel() for i, kind in self.used]
            return total**2 * value / unit, np.concatenate(parts) / unit

        def record(intermediate_result: OptimizeResult) -> None:
            history.append(float(intermediate_result.fun) * unit)
            if time_is_up():
                raise StopIteration

        start = np.concatenate([shares, *(thetas[i][k].ravel() for i, k in self.used)])
        lower = np.zeros(start.size)
        upper = np.full(start.size, MAX_WEIGHT)
        lower[:n_groups], upper[:n_groups] = LEAST_SHARE, 1.0
        limits = {"maxiter": max_iter, "maxfun": 2 * max_iter, "ftol": tolerance}
        run = minimize(
            function,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(lower, upper),
            callback=record,
            options=limits | {"maxcor": FEW_STEPS if large else STEPS, "gtol": 0.0},
        )
        final, budgets = unpack(np.clip(run.x, lower, upper))  # rounding leaves the box
        shares, loss = budgets / budgets.sum(), float(run.fun) * unit
        return JointRun(
            final, shares, loss, tuple(history), bool(run.success), self.masks
        )


def _gram(theta: Floats) -> Floats:
    scales = 1.0 + theta.sum(axis=0)
    inner = np.eye(theta.shape[1]) + theta.T @ theta
    return np.asarray(inner / np.outer(scales, scales))


def _through_gram(theta: Floats, gram: Floats, in_gram: Floats) -> Floats:
    """Chain rule from ∂f/∂(AᵀA) to ∂f/∂Θ for a p-Identity A."""
    scales = 1.0 + theta.sum(axis=0)
    in_inner = in_gram / np.outer(scales, scales)
    in_scales = -2.0 * (in_gram * gram).sum(axis=1) / scales
    return np.asarray(2.0 * theta @ in_inner + in_scales)
