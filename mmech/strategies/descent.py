"""Descent in a box for many variables: projected L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats
from mmech.strategies.registry import time_is_up

Singles = NDArray[np.float32]
Pairs = tuple[Singles, Singles, Floats, Floats]
"""Steps, changes of the gradient, and the products of both and of changes."""

WINDOW = 5
"""Iterations over which a decrease is judged: single steps may be short."""

SUFFICIENT = 1e-4
"""Share of the predicted decrease that a step must reach (Armijo)."""

MAX_BACKTRACKS = 30

HOPELESS = 50
"""Iterations after which a descent may be given up."""

PAIRS = 10
TRIANGLE = np.triu(np.ones((PAIRS, PAIRS)))
"""Number of steps that are remembered, and the triangle of their products in use."""

LARGE = 2**22
"""From this number of variables on, fewer steps are remembered."""


@dataclass(frozen=True)
class BoxDescent:
    """End point of a descent in a box.

    `history` is the value after every iteration, never increasing; `success` whether
    the values settled, rather than a limit being hit.
    """

    point: Floats
    value: float
    history: tuple[float, ...]
    success: bool
    message: str


class _Memory:
    """The inverse Hessian of the last steps, in compact form.

    Pairs are scaled to gradient changes of length one, which leaves the matrix as it
    is, and stored in single precision: they shape a direction, no value.

    References
    ----------
    .. [1] Byrd, Nocedal, Schnabel, "Representations of quasi-Newton matrices and
       their use in limited memory methods", Math. Programming 63, 1994, eq. 3.1.
    """

    def __init__(self, size: int, n_pairs: int) -> None:
        self.steps = np.zeros((n_pairs, size), np.float32)
        self.changes = np.zeros((n_pairs, size), np.float32)
        self.step_change = np.zeros((n_pairs, n_pairs))
        self.change_change = np.zeros((n_pairs, n_pairs))
        self.newest_last: list[int] = []

    def clear(self) -> None:
        self.newest_last = []

    def add(self, step: Floats, change: Floats) -> None:
        """Remember a step and the change of the gradient along it."""
        slope = float(step @ change)
        square = float(change @ change)
        if not slope > 1e-10 * square:
            return
        n_pairs = len(self.steps)
        row = len(self.newest_last)
        if row == n_pairs:
            row = self.newest_last.pop(0)
        self.newest_last.append(row)
        length = np.sqrt(square)
        np.divide(step, length, out=self.steps[row], casting="same_kind")
        np.divide(change, length, out=self.changes[row], casting="same_kind")
        products = self.changes @ self.changes[row]
        self.change_change[row] = self.change_change[:, row] = products
        self.step_change[:, row] = self.steps @ self.changes[row]
        self.step_change[row, row] = slope / square
        self.change_change[row, row] = 1.0

    def apply(self, gradient: Floats, stuck: NDArray[np.bool_]) -> Floats | None:
        """Return the inverse Hessian times the gradient, for the variables not stuck.

        Steps and changes are restricted to the variables that may move: what the others
        did says nothing about the curvature along the face of the box. ``None`` if no
        step is left with a positive curvature there.
        """
        if not stuck.any():
            pairs = self.steps, self.changes, self.step_change, self.change_change
            return _newton(gradient, pairs, self.newest_last)
        free, used = np.flatnonzero(~stuck), self.newest_last
        steps = self.steps.take(free, axis=1)[used]  # in half the time of the reverse
        changes = self.changes.take(free, axis=1)[used]
        step_change = (steps @ changes.T).astype(np.float64)
        change_change = (changes @ changes.T).astype(np.float64)
        slopes = step_change.diagonal()
        convex = np.flatnonzero(slopes > 1e-10 * change_change.diagonal()).tolist()
        if not convex:
            return None
        result = np.zeros_like(gradient)
        pairs = steps, changes, step_change, change_change
        result[free] = _newton(gradient[free], pairs, convex)
        return result


def _newton(gradient: Floats, pairs: Pairs, used: list[int]) -> Floats:
    """Return the inverse Hessian times a gradient by the pairs that are used."""
    steps, changes, step_change, change_change = pairs
    single = gradient.astype(np.float32)
    by_steps = (steps @ single)[used]
    by_changes = (changes @ single)[used]
    upper = step_change[used][:, used] * TRIANGLE[: len(used), : len(used)]
    last = used[-1]
    scale = step_change[last, last] / change_change[last, last]
    inverse = np.linalg.inv(upper)
    inner = inverse @ by_steps
    middle = scale * change_change[used][:, used]
    middle.flat[:: len(used) + 1] += upper.diagonal()
    along_steps = np.zeros(len(steps), np.float32)
    along_changes = np.zeros(len(steps), np.float32)
    along_steps[used] = inverse.T @ (middle @ inner - scale * by_changes)
    along_changes[used] = -scale * inner
    result: Floats = scale * gradient
    result += along_steps @ steps
    result += along_changes @ changes
    return result


def minimize_in_box(
    objective: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    *,
    lower: float = 0.0,
    upper: float,
    max_iter: int,
    tolerance: float,
    worst: float = math.inf,
) -> BoxDescent:
    """Descend on lower <= x <= upper by projected L-BFGS.

    The quasi-Newton direction of the variables that are free to move, followed by
    backtracking along its projection on the box. Variables at a bound that the gradient
    pushes against stay there. Every iteration costs about one evaluation and four
    passes over the last `PAIRS` steps; memory is 8 bytes per variable and step.

    Parameters
    ----------
    objective : callable
        Maps a point to the value and the gradient, of the shape of the point.
    start : ndarray of float64
        Start, moved into the box.
    lower, upper : float
        Bounds of every variable.
    max_iter : int
        Most iterations.
    tolerance : float
        Relative decrease per iteration, on average over five, at which to stop.
    worst : float, default=inf
        Value above which the descent is given up after `HOPELESS` iterations.

    References
    ----------
    .. [1] Bertsekas, "Projected Newton methods for optimization problems with simple
       constraints", SIAM J. Control and Optimization 20, 1982.
    """
    shape = start.shape
    x = np.clip(start, lower, upper).ravel()
    memory = _Memory(x.size, PAIRS if x.size < LARGE else PAIRS // 2)
    value, gradient = objective(x.reshape(shape))
    gradient = gradient.ravel()
    values = [value]

    def step() -> tuple[Floats, float, Floats] | None:
        """Return a point lower than `x`, its value and gradient, or None."""
        stuck = ((x <= lower) & (gradient > 0)) | ((x >= upper) & (gradient < 0))
        direction = free = np.where(stuck, 0.0, gradient)
        if memory.newest_last:
            with np.errstate(over="ignore", invalid="ignore"):  # judged below
                newton = memory.apply(free, stuck)
            if newton is None or not 0 < newton @ free < np.inf:
                return None
            direction, length = newton, 1.0
        else:
            length = 1.0 / max(1.0, float(np.abs(free).sum()))
        for _ in range(MAX_BACKTRACKS):
            moved = x - length * direction
            np.clip(moved, lower, upper, out=moved)
            predicted = float(gradient @ (moved - x))
            if not predicted < 0:
                return None
            new_value, new_gradient = objective(moved.reshape(shape))
            if new_value <= value + SUFFICIENT * predicted:
                return moved, new_value, new_gradient.ravel()
            excess = 2.0 * (new_value - value - predicted)
            shrink = -predicted / excess if excess > 0 else 0.1
            length *= min(0.5, max(0.1, shrink))
        return None

    success, message = False, "the limit of iterations was reached"
    while len(values) <= max_iter:
        descended = step()
        if descended is None:
            if memory.newest_last:
                memory.clear()
                continue
            success, message = True, "no step decreases the loss"
            break
        moved, value, new_gradient = descended
        memory.add(moved - x, new_gradient - gradient)
        x, gradient = moved, new_gradient
        values.append(value)
        if time_is_up():
            message = "the time was up"
            break
        if len(values) == HOPELESS and value > worst:
            message = "another start is far ahead"
            break
        if len(values) > WINDOW:
            decrease = values[-1 - WINDOW] - value
            if decrease <= tolerance * WINDOW * abs(value):
                success, message = True, "the loss has settled"
                break
    return BoxDescent(x.reshape(shape), value, tuple(values[1:]), success, message)
