"""Whole numbers from fractional ones, with the margins that they must keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Floats, Integers, Mask

SWEEPS, TOLERANCE = 500, 1e-4
"""Most sweeps of a projection on tables with given margins, and the largest error of a
margin at which they end earlier."""

NEAR, FAR = 1e20, 1e30
"""Beyond all counts: multipliers are less far, and closed cells farther."""

OVERSHOOT = 1e3
"""Cost of moving a count by a whole unit, in units of a rounding: only done where the
margins of the fractional table are not exact."""


def nearest_with_sums(values: Floats, sums: Floats) -> Floats:
    """Return the nearest non-negative numbers with given sums along the last axis.

    Parameters
    ----------
    values : ndarray, shape (..., n)
    sums : ndarray, shape (...)
        At least 0.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.rounding import nearest_with_sums
    >>> nearest_with_sums(np.array([5.0, 3.0, -4.0]), np.array(6.0))
    array([4., 2., 0.])
    """
    return np.maximum(values - _thresholds(values, sums)[..., None], 0.0)


def _thresholds(values: Floats, sums: NDArray[Any]) -> Floats:
    """Return t with Σ max(values - t, 0) = sums, along the last axis."""
    falling = -np.sort(-values, axis=-1)
    apart = np.cumsum(falling, axis=-1) - np.asarray(sums)[..., None]
    means = apart / np.arange(1, values.shape[-1] + 1)
    # The number of positive entries: a prefix of the falling ones, and at least one.
    positive = np.maximum((falling > means).sum(axis=-1), 1)
    return np.take_along_axis(means, positive[..., None] - 1, axis=-1)[..., 0]


def with_margins(
    table: Floats, rows: NDArray[Any], columns: NDArray[Any], closed: Mask | None = None
) -> Floats:
    """Return the nearest non-negative table with given margins.

    Alternates exact minimisation of the dual problem over the multipliers of the rows
    and of the columns; a last sweep of proportional fitting takes off what is left.

    Parameters
    ----------
    table : ndarray, shape (a, b)
    rows, columns : ndarray, shapes (a,) and (b,)
        Non-negative, of the same total.
    closed : ndarray of bool, shape (a, b), optional
        Cells that stay zero.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.rounding import with_margins
    >>> table = np.array([[9.0, -3.0], [0.0, 4.0]])
    >>> fitted = with_margins(table, np.array([6.0, 4.0]), np.array([7.0, 3.0]))
    >>> fitted.round(3)
    array([[6., 0.],
           [1., 3.]])
    """
    right = np.zeros(table.shape[1])
    fitted = np.maximum(table, 0.0)
    below = 0.0 if closed is None else np.where(closed, FAR, 0.0)
    for _ in range(SWEEPS):
        left = np.maximum(_thresholds(table - right - below, rows), -NEAR)
        right = _thresholds((table - left[:, None] - below).T, columns)
        fitted = np.maximum(table - left[:, None] - right - below, 0.0)
        if np.abs(fitted.sum(axis=1) - rows).max() <= TOLERANCE:
            break
    for axis, sums in ((1, rows), (0, columns)):
        margins = fitted.sum(axis=axis)
        factor = np.divide(sums, margins, out=np.zeros_like(margins), where=margins > 0)
        fitted = fitted * np.expand_dims(factor, axis)
    return fitted


def rounded(shares: Floats, total: int) -> Integers:
    """Return whole numbers near shares of a total, by largest remainders.

    The first of equal remainders is rounded up.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.rounding import rounded
    >>> rounded(np.array([1.4, 2.4, 0.2]), 4)
    array([2, 2, 0])
    """
    mass = float(shares.sum())
    exact = (
        shares * (total / mass)
        if mass > 0
        else np.full(shares.size, total / shares.size)
    )
    return _filled(exact, total)


def _filled(numbers: Floats, total: int) -> Integers:
    """Return numbers of a sum, rounded up where most is left; of equal ones the first.

    Numbers too large for exact floats may miss it by more than one each.
    """
    whole = np.floor(numbers).astype(np.int64)
    left = total - int(whole.sum())
    if 0 <= left <= numbers.size:
        whole[np.argsort(whole - numbers, kind="stable")[:left]] += 1
    else:
        whole[numbers.argmax()] += left
    return whole


def rounded_table(
    table: Floats, rows: Integers, columns: Integers, closed: Mask | None = None
) -> Integers:
    """Return a whole, non-negative table near another, with exactly the given margins.

    A transport problem, whose optimum is whole [1]_: every count is rounded down or up,
    so that the changes are smallest in sum.

    Parameters
    ----------
    table : ndarray, shape (a, b)
        Non-negative, with these margins up to rounding errors.
    rows, columns : ndarray of int64, shapes (a,) and (b,)
    closed : ndarray of bool, shape (a, b), optional
        Cells that stay zero, and leave a table with these margins.

    References
    ----------
    .. [1] Cox, "A constructive procedure for unbiased controlled rounding", Journal of
       the American Statistical Association 82(398), 1987.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.rounding import rounded_table
    >>> table = np.array([[0.6, 1.4], [1.4, 0.6]])
    >>> rounded_table(table, np.array([2, 2]), np.array([2, 2]))
    array([[1, 1],
           [1, 1]])
    """
    whole = np.floor(table + 1e-9).astype(np.int64)
    for axis, sums in ((1, rows), (0, columns)):  # where margins are not quite exact
        for line in np.flatnonzero(whole.sum(axis=axis) > sums).tolist():
            cells = whole[line] if axis == 1 else whole[:, line]
            cells[...] = rounded(cells.astype(np.float64), int(sums[line]))
    if closed is not None:
        whole[closed] = 0
    left, above = rows - whole.sum(axis=1), columns - whole.sum(axis=0)
    if not (left.any() or above.any()):
        return whole
    fractions = np.clip(table - whole, 0.0, 1.0)
    if closed is None:
        reached, fewer = np.outer(left > 0, above > 0), None
    else:  # margins may be out of reach without taking units off
        reached, fewer = ~closed, whole
    whole += _transport(fractions, left, above, reached, fewer)
    return whole


def _transport(
    fractions: Floats,
    rows: Integers,
    columns: Integers,
    reached: Mask,
    fewer: Integers | None,
) -> Integers:
    """Return the units, mostly 0 or 1 per cell, that fill the margins best.

    They go to cells that are `reached`, which may lose as many as `fewer` says.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    i, j = np.nonzero(reached)
    n = i.size
    # Every cell has a first unit, dearer for smaller fractions, and further units.
    costs = [1.0 - 2.0 * fractions[i, j], np.full(n, OVERSHOOT)]
    most, signs = [np.ones(n), np.full(n, np.inf)], [1, 1]
    if fewer is not None:
        costs.append(costs[1])
        most.append(fewer[i, j])
        signs.append(-1)
    k = len(signs)
    lines = np.concatenate([i] * k + [fractions.shape[0] + j] * k)
    cells = np.concatenate([np.arange(k * n)] * 2)
    shape = (sum(fractions.shape), k * n)
    balance = csr_array((np.tile(np.repeat(signs, n), 2), (lines, cells)), shape=shape)
    optimum = linprog(
        np.concatenate(costs),
        A_eq=balance,
        b_eq=np.concatenate([rows, columns]),
        bounds=np.column_stack([np.zeros(k * n), np.concatenate(most)]),
        method="highs-ds",
    )
    units = np.zeros(fractions.shape, np.int64)
    amounts = np.rint(optimum.x).astype(np.int64).reshape(k, n)
    units[i, j] = np.tensordot(signs, amounts, axes=1)
    return units


def rounded_by_parents(
    table: Floats, parents: Integers, sums: Integers, rows: Integers | None = None
) -> Integers:
    """Return a whole, non-negative table whose columns add up to the sums of parents.

    Columns are rounded one by one, by largest remainders, which is fast and moves a
    sixth more than `rounded_table`. What rounding left over in a row is added to its
    next column. Units then move within columns until rows are exact.

    Parameters
    ----------
    table : ndarray, shape (a, b)
        Non-negative, with these sums up to rounding errors.
    parents : ndarray of int64, shape (a,)
        Increasing: the parent of every row.
    sums : ndarray of int64, shape (parents, b)
        Of every column, by parent.
    rows : ndarray of int64, shape (a,), optional
        Sums of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.rounding import rounded_by_parents
    >>> table = np.array([[0.6, 1.4], [1.4, 0.6]])
    >>> rounded_by_parents(table, np.array([0, 0]), np.array([[2, 2]]))
    array([[1, 1],
           [1, 1]])
    """
    first = np.flatnonzero(np.diff(parents, prepend=-1))
    place = np.arange(len(table)) - first[parents]
    whole = np.zeros(table.shape, np.int64)
    carried = np.zeros(len(table))
    for j in range(table.shape[1]):
        aim = table[:, j] + carried
        counts = np.maximum(np.floor(aim), 0).astype(np.int64)
        left = sums[:, j] - np.add.reduceat(counts, first)
        while left.any():
            step = np.sign(left)[parents]
            free = (step > 0) | ((step < 0) & (counts > 0))
            order = np.lexsort((np.where(free, step * (counts - aim), np.inf), parents))
            rank = np.empty(len(counts), np.int64)
            rank[order] = place
            counts += step * (free & (rank < np.abs(left)[parents]))
            left = sums[:, j] - np.add.reduceat(counts, first)
        whole[:, j], carried = counts, aim - counts
    if rows is not None:
        apart = whole.sum(axis=1) - rows
        for node in np.flatnonzero(np.add.reduceat(np.abs(apart), first)).tolist():
            below = np.flatnonzero(parents == node)
            while apart[below].any():
                more, less = below[apart[below].argmax()], below[apart[below].argmin()]
                gain = whole[more] - table[more] - (whole[less] - table[less])
                j = int(np.where(whole[more] > 0, gain, -np.inf).argmax())
                for row, unit in ((more, -1), (less, 1)):
                    whole[row, j] += unit
                    apart[row] += unit
    return whole


def added_up(values: Integers, parents: Integers) -> Integers:
    """Return the sums of numbers by their parents, of which each has some."""
    sums = np.zeros(parents.max(initial=0) + 1, np.int64)
    np.add.at(sums, parents, values)
    return sums


def divided(
    values: Floats, parents: Integers, sums: Integers, low: Any, high: Any
) -> Integers:
    """Return whole numbers near others, that add up to the sums of their parents.

    Parameters
    ----------
    values : ndarray, shape (a,)
    parents : ndarray of int64, shape (a,)
        The parent of every number.
    sums : ndarray of int64
        Of each parent, that numbers between the bounds can have.
    low, high : float, or ndarray of shape (a,)
        Whole bounds, or infinite ones.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.tables.rounding import divided
    >>> divided(np.array([5.2, -1.0, 4.6]), np.array([0, 0, 0]), [9], 0, np.inf)
    array([5, 0, 4])
    """
    whole = np.zeros(parents.size, np.int64)
    low, high = (np.broadcast_to(end, parents.size) for end in (low, high))
    order = np.argsort(parents, kind="stable")
    blocks = np.split(order, np.flatnonzero(np.diff(parents[order])) + 1)
    for block, total in zip(blocks, map(int, sums), strict=True):
        near = _nearest_between(values[block], total, low[block], high[block])
        whole[block] = _filled(near, total)
    return whole


def _nearest_between(values: Floats, total: int, low: Any, high: Any) -> Floats:
    """Return the nearest numbers between bounds with a sum.

    All move by the same amount. Those on the side that is passed by more stay at their
    bound, and the others go on.
    """
    near, free = values.copy(), np.ones(values.size, bool)
    while free.any():
        apart = total - near[~free].sum() - values[free].sum()
        near[free] = values[free] + apart / free.sum()
        under, over = np.maximum(low - near, 0), np.maximum(near - high, 0)
        if under.sum() == over.sum():
            break
        end, beyond = (low, under) if under.sum() > over.sum() else (high, over)
        near[beyond > 0] = end[beyond > 0]
        free &= beyond == 0
    return np.clip(near, low, high)
