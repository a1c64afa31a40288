"""The loss of stacked Kronecker strategies, solved jointly, and its gradient.

The gram of the stack is diagonal in a basis that an attribute with at most two
different factors has; derivatives are partial traces in that basis. Nothing of size
n x n is formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from mmech.arrays import Floats
from mmech.operators.known import Term
from mmech.operators.pinv import JointInverseGram, distinct_grams
from mmech.strategies.pidentity import MAX_WEIGHT
from mmech.strategies.registry import time_is_up

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Thetas = list[list[Floats]]
"""Extra queries by attribute and kind of factor."""
Masks = list[tuple[int, ...]]
"""Kind of factor, 0 or 1, by group and attribute."""

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

    def shared(self, own: list[list[Floats]]) -> Thetas:
        """Return one factor per kind, from the first group which has any rows."""
        empty = [np.zeros((0, n)) for n in self.sizes]
        thetas = [[empty[i]] * count for i, count in enumerate(self.n_kinds)]
        for mask, factors in zip(self.masks, own, strict=True):
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
        in_shares = -2.0 * shares * [float((pull * own).sum()) for own in groups]

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
