"""Unions: two groups of queries with a Kronecker strategy each, solved jointly.

A = [c₁ ⊗A_i; c₂ ⊗B_i] with p-Identity factors and c₁ + c₂ = 1 has sensitivity one. All
measurements answer all queries: the loss is tr(WᵀW (AᵀA)⁻¹) of the whole stack, by a
generalized eigenproblem per attribute. The start splits the budget in proportion to
the cube roots of the groups' own losses (the optimum if each group answered its own
queries only); descent on all weights then makes use of what the groups share.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from mmech import error
from mmech._validation import check_integer
from mmech.exceptions import UnsupportedWorkloadError
from mmech.operators._base import QueryMatrix
from mmech.operators._compose import Scaled, VStack
from mmech.operators._kronecker import Kronecker
from mmech.operators._pair import MAX_FACTOR, PairInverseGram
from mmech.operators._pidentity import PIdentity
from mmech.strategies._deadline import time_is_up
from mmech.strategies._kronecker import kronecker_strategy
from mmech.strategies._pidentity import MAX_WEIGHT, Callback, check_tolerance
from mmech.strategies._result import StrategyResult

__all__ = ["union_strategy"]

Floats = NDArray[np.float64]
Term = tuple[float, tuple[QueryMatrix, ...]]

TRIAL = 60
"""Iterations of every start; only the best goes on."""

TILT = 2.5
"""Factor by which the first shares of a start favour one group."""

MAX_CELLS = 2**22
"""Largest domain whose joint spectrum is formed."""


def union_strategy(
    workload: QueryMatrix,
    *,
    p: int | None = None,
    n_starts: int = 10,
    max_iter: int = 500,
    tolerance: float = 1e-7,
    seed: Any = None,
    callback: Callback | None = None,
) -> StrategyResult:
    """Optimize one Kronecker strategy for each of two groups, jointly.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        A `VStack` of at least two (scaled) Kroneckers with equal factor sizes.
        Terms are put in two groups by which attribute their queries are richest in.
    p : int, default=None
        Extra queries per factor; about n_i / 32, at least 4, when omitted.
    n_starts : int, default=10
        Number of starts: random walks, and last the groups' own strategies.
    max_iter : int, default=500
        Iterations of the joint descent; the first 60 are run from every start.
    tolerance : float, default=1e-7
        Relative decrease at which to stop.
    seed : int, SeedSequence or Generator, default=None
        Seed of the starts.
    callback : callable, default=None
        Called with a `StrategyResult` after every start; stops if it returns True.

    Returns
    -------
    StrategyResult

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is not a union of products, or its domain is too large for
        the joint spectrum.
    """
    terms = error.kronecker_terms(workload)
    if terms is None or len(terms) < 2:
        raise UnsupportedWorkloadError(
            f"template 'union' needs a VStack of Kroneckers with equal factor sizes, "
            f"got {workload!r}; use template='kronecker' or 'pidentity'"
        )
    sizes = [factor.shape[1] for factor in terms[0][1]]
    if workload.shape[1] > MAX_CELLS or max(sizes) > MAX_FACTOR:
        raise UnsupportedWorkloadError(
            f"template 'union' forms spectra of {MAX_CELLS} cells and factors of "
            f"{MAX_FACTOR} at most, got sizes {sizes}; use template='kronecker'"
        )
    check_integer(n_starts, "n_starts")
    check_integer(max_iter, "max_iter")
    check_tolerance(tolerance)
    rng = np.random.default_rng(seed)
    groups = _two_groups(terms)
    objective = _JointObjective(terms)
    own, shares = _separate(groups, p, rng)
    runs: list[_Run] = []
    for index in range(n_starts):
        if index == n_starts - 1 and n_starts > 1:
            start, begin = own, shares
        else:
            start = [[_walk(theta, rng) for theta in rows] for rows in own]
            begin = _tilt(shares, index)
        runs.append(objective.minimize(start, begin, TRIAL, tolerance))
        if time_is_up() or (
            callback is not None and callback(_result(workload, runs[-1]))
        ):
            break
    best = min(runs, key=lambda run: run.loss)
    if max_iter > TRIAL and not time_is_up():
        final = objective.minimize(
            best.thetas, best.shares, max_iter - TRIAL, tolerance
        )
        best = replace(final, history=best.history + final.history)
    return _result(workload, best)


def _result(workload: QueryMatrix, run: _Run) -> StrategyResult:
    strategy = _stack(run)
    return StrategyResult(
        strategy,
        "union",
        error.loss(workload, strategy),
        n_iter=len(run.history),
        success=run.success,
        message=f"two groups with budget {run.shares[0]:.3f}, {run.shares[1]:.3f}",
        history=run.history,
    )


def _tilt(shares: tuple[float, float], index: int) -> tuple[float, float]:
    """Favour one group or the other in turn: good unions are seldom symmetric."""
    odds = shares[0] / shares[1] * (TILT if index % 2 == 0 else 1 / TILT)
    return (odds / (1 + odds), 1 / (1 + odds))


def _two_groups(terms: list[Term]) -> list[list[Term]]:
    """Split the terms by the attribute whose queries need a strategy the most."""

    def spread(term: Term) -> int:
        rows = [f.shape[0] / f.shape[1] for f in term[1]]
        rough = [
            factor.sensitivity() * r for factor, r in zip(term[1], rows, strict=True)
        ]
        return int(np.argmax(rough))

    keys = [spread(term) for term in terms]
    first = [term for term, key in zip(terms, keys, strict=True) if key == keys[0]]
    rest = [term for term, key in zip(terms, keys, strict=True) if key != keys[0]]
    if not rest:
        first, rest = terms[: len(terms) // 2], terms[len(terms) // 2 :]
    return [first, rest]


def _separate(
    groups: list[list[Term]], p: int | None, rng: np.random.Generator
) -> tuple[list[list[Floats]], tuple[float, float]]:
    """Optimize every group by itself; shares by the cube roots of the losses."""
    thetas, roots = [], []
    for group in groups:
        sizes = [factor.shape[1] for factor in group[0][1]]
        rows = [max(min(n, 4), n // 32) if p is None else p for n in sizes]
        blocks: list[QueryMatrix] = [
            Scaled(weight, Kronecker(factors)) for weight, factors in group
        ]
        own = kronecker_strategy(VStack(blocks), p=rows, n_starts=1, seed=rng)
        roots.append(own.loss ** (1 / 3))
        assert isinstance(own.strategy, Kronecker)
        thetas.append(
            [
                factor._theta if isinstance(factor, PIdentity) else np.zeros((0, n))
                for factor, n in zip(own.strategy.factors, sizes, strict=True)
            ]
        )
    total = sum(roots)
    return thetas, (roots[0] / total, roots[1] / total)


def _walk(theta: Floats, rng: np.random.Generator) -> Floats:
    """Return random walks in place of the rows; a factor without rows keeps none."""
    rows, n = theta.shape
    steps = rng.standard_normal((rows, n))
    return np.maximum(0.0, 2.0 * np.cumsum(steps, axis=1) / np.sqrt(n))


def _stack(run: _Run) -> VStack:
    blocks = []
    for share, rows in zip(run.shares, run.thetas, strict=True):
        kept = [theta[(theta > 1e-9).any(axis=1)] for theta in rows]
        blocks.append(Scaled(float(share), Kronecker([PIdentity(t) for t in kept])))
    return VStack(blocks)


@dataclass(frozen=True)
class _Run:
    thetas: list[list[Floats]]
    shares: tuple[float, float]
    loss: float
    history: tuple[float, ...]
    success: bool


class _JointObjective:
    """tr(WᵀW (AᵀA)⁻¹) of the stack, with its gradient in all rows and the shares."""

    def __init__(self, terms: list[Term]) -> None:
        self.sizes = [factor.shape[1] for factor in terms[0][1]]
        self.squares = np.array([weight**2 for weight, _ in terms])
        self.grams = [
            np.stack([f[i].gram()._dense().astype(np.float64) for _, f in terms])
            for i in range(len(self.sizes))
        ]

    def __call__(
        self, thetas: list[list[Floats]], shares: tuple[float, float]
    ) -> tuple[float, list[list[Floats]], tuple[float, float]]:
        """Return the loss, its gradients in the rows, and those in the shares."""
        grams = [[_gram(theta) for theta in rows] for rows in thetas]
        inverse = PairInverseGram(shares, grams[0], grams[1])
        transforms, eigenvalues = inverse.factorisation
        spectrum = inverse.spectrum
        rotated = [
            np.einsum("ab,kbc,cd->kad", t.T, v, t, optimize=True)
            for t, v in zip(transforms, self.grams, strict=True)
        ]
        diagonals = [np.einsum("kaa->ka", r) for r in rotated]
        energy = np.zeros(self.sizes)
        for k, square in enumerate(self.squares):
            energy += square * reduce(np.multiply.outer, [d[k] for d in diagonals])
        value = float((energy * spectrum).sum())
        pull = energy * np.square(spectrum)
        joint = reduce(np.multiply.outer, eigenvalues)
        share_gradient = (
            -2.0 * shares[0] * float(pull.sum()),
            -2.0 * shares[1] * float((pull * joint).sum()),
        )
        gradients: list[list[Floats]] = [[], []]
        for i, theta_pair in enumerate(zip(*thetas, strict=True)):
            for g in (0, 1):
                if theta_pair[g].size == 0:
                    gradients[g].append(theta_pair[g])
                    continue
                sensitivity = -(shares[g] ** 2) * self._partial(
                    i, g, spectrum, rotated, diagonals, eigenvalues
                )
                in_cells = transforms[i] @ sensitivity @ transforms[i].T
                gradients[g].append(_through_gram(theta_pair[g], grams[g][i], in_cells))
        return value, gradients, share_gradient

    def _partial(
        self,
        i: int,
        g: int,
        spectrum: Floats,
        rotated: list[Floats],
        diagonals: list[Floats],
        eigenvalues: list[Floats],
    ) -> Floats:
        """Partial trace over all attributes but i of X⁻¹VX⁻¹ times their grams."""
        d = len(self.sizes)
        flat = np.moveaxis(spectrum, i, 0).reshape(self.sizes[i], -1)
        total = np.zeros((self.sizes[i], self.sizes[i]))
        for k, square in enumerate(self.squares):
            others = [
                diagonals[j][k] * (eigenvalues[j] if g == 1 else 1.0)
                for j in range(d)
                if j != i
            ]
            weight = reduce(np.multiply.outer, others, np.array(square)).ravel()
            total += rotated[i][k] * ((flat * weight) @ flat.T)
        return total

    def minimize(
        self,
        thetas: list[list[Floats]],
        shares: tuple[float, float],
        max_iter: int,
        tolerance: float,
    ) -> _Run:
        shapes = [[theta.shape for theta in rows] for rows in thetas]
        unit = float(
            sum(
                square * np.prod([np.trace(v[k]) for v in self.grams])
                for k, square in enumerate(self.squares)
            )
        )
        history: list[float] = []

        def unpack(flat: Floats) -> tuple[list[list[Floats]], tuple[float, float]]:
            rows, at = [], 1
            for group in shapes:
                parts = []
                for shape in group:
                    size = shape[0] * shape[1]
                    parts.append(flat[at : at + size].reshape(shape))
                    at += size
                rows.append(parts)
            return rows, (float(flat[0]), 1.0 - float(flat[0]))

        def function(flat: Floats) -> tuple[float, Floats]:
            value, gradients, in_shares = self(*unpack(flat))
            parts = [np.array([in_shares[0] - in_shares[1]])]
            parts += [gradient.ravel() for rows in gradients for gradient in rows]
            return value / unit, np.concatenate(parts) / unit

        def record(intermediate_result: scipy.optimize.OptimizeResult) -> None:
            history.append(float(intermediate_result.fun) * unit)
            if time_is_up():
                raise StopIteration

        start = np.concatenate(
            [np.array([shares[0]]), *(t.ravel() for rows in thetas for t in rows)]
        )
        lower = np.zeros(start.size)
        upper = np.full(start.size, MAX_WEIGHT)
        lower[0], upper[0] = 0.01, 0.99
        run = scipy.optimize.minimize(
            function,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(lower, upper),
            callback=record,
            options={
                "maxiter": max_iter,
                "maxfun": 2 * max_iter,
                "ftol": tolerance,
                "gtol": 0.0,
            },
        )
        final, final_shares = unpack(run.x)
        return _Run(
            final,
            final_shares,
            float(run.fun) * unit,
            tuple(history),
            bool(run.success),
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
