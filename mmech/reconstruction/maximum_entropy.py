"""Maximum entropy: the flattest distribution that explains noisy marginals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from mmech.checks import check_integer, check_positive, magnitude
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.marginals.junction_tree import Clique, junction_tree
from mmech.operators.base import product_of
from mmech.operators.explicit import Matrix
from mmech.operators.marginals import Marginals, check_attributes
from mmech.reconstruction.marginal_estimate import as_marginals, check_measured
from mmech.storage.codec import storable
from mmech.threads import one_blas_thread

__all__ = ["MaximumEntropy", "maximum_entropy"]

Floats = NDArray[np.float64]
Subset = tuple[int, ...]

GROWTH = 1.3
"""Steps grow by this factor while the objective falls."""

HALVINGS = 60
"""Times that a step is halved before the descent is said to have ended."""


@storable("MaximumEntropy")
@dataclass(frozen=True, eq=False)
class MaximumEntropy:
    r"""A distribution over cells and columns.

    :math:`p(c) \prod_b p(x_b \mid x_{s_b}, c)` over groups b of attributes, with
    separators :math:`s_b` that they share with a group before them.

    Attributes
    ----------
    domain_shape : tuple of int
        Number of values of every attribute.
    total : float
        Number of records that tables are scaled to.
    groups : tuple of tuple of int
        Sets of attributes that measured marginals link.
    log_columns : ndarray of float64, shape (k,)
        :math:`\log p(c)`.
    log_tables : tuple of ndarray of float64, each of shape (n_b, k)
        :math:`\log p(x_b \mid x_{s_b}, c)` of every group.
    history : tuple of float
        Objective at the start and after every step, falling.
    stopped : bool
        Whether the tables were explained up to their noise.
    separators : tuple of tuple of int
        What each group shares with one before it; empty where there is nothing: groups
        are then independent given the column.

    Examples
    --------
    >>> from mmech import Marginals, maximum_entropy
    >>> fit = maximum_entropy(
    ...     Marginals((2, 2), {(0,): 1}), [8, 2], variance=1, total=10
    ... )
    >>> fit.groups, fit.marginal([1])[:, 0].round(6)
    (((0,),), array([5., 5.]))
    """

    domain_shape: tuple[int, ...]
    total: float
    groups: tuple[Subset, ...]
    log_columns: Floats
    log_tables: tuple[Floats, ...]
    history: tuple[float, ...]
    stopped: bool
    separators: tuple[Subset, ...] = ()

    def log_joint(self, codes: NDArray[np.int64]) -> Floats:
        """Return log p(x, c) of single cells, shape (b, k).

        Parameters
        ----------
        codes : ndarray of int64, shape (b, d)
            Value of every attribute.
        """
        out = np.tile(self.log_columns, (codes.shape[0], 1))
        linked = {i for group in self.groups for i in group}
        free = [n for i, n in enumerate(self.domain_shape) if i not in linked]
        out -= math.fsum(map(math.log, free))
        for group, table in zip(self.groups, self.log_tables, strict=True):
            place = np.zeros(codes.shape[0], np.int64)
            for i in group:
                place = place * self.domain_shape[i] + codes[:, i]
            out += table[place]
        return out

    def marginal(self, attributes: Iterable[int] | int) -> Floats:
        """Return the expected table of counts over some attributes, shape (n_a, k)."""
        kept = check_attributes(attributes, len(self.domain_shape))
        sizes = [self.domain_shape[i] for i in kept]
        if product_of(sizes) * self.log_columns.size > LIMITS.joint_entries:
            raise _too_large(product_of(sizes) * self.log_columns.size)
        linked = {i for group in self.groups for i in group}
        labels = {i: place for place, i in enumerate(sorted(linked))}
        column = len(labels)
        operands: list[Any] = [np.exp(self.log_columns), [column]]
        for group, table in self._needed(set(kept)):
            shape = [self.domain_shape[i] for i in group]
            operands += [np.exp(table).reshape(*shape, -1)]
            operands += [[*(labels[i] for i in group), column]]
        inside = [i for i in kept if i in linked]
        out = np.einsum(
            *operands, [*(labels[i] for i in inside), column], optimize="greedy"
        )
        shape = [n if i in linked else 1 for i, n in zip(kept, sizes, strict=True)]
        out = np.broadcast_to(out.reshape(*shape, -1), (*sizes, out.shape[-1]))
        free = product_of(
            n for i, n in zip(kept, sizes, strict=True) if i not in linked
        )
        return np.asarray(self.total / free * out).reshape(-1, self.log_columns.size)

    def _needed(self, kept: set[int]) -> list[tuple[Subset, Floats]]:
        """Return groups on which a marginal depends; others sum to one."""
        found: list[tuple[Subset, Floats]] = []
        wanted = set(kept)
        separators = self.separators or ((),) * len(self.groups)
        together = zip(self.groups, separators, self.log_tables, strict=True)
        for group, separator, table in reversed(list(together)):
            if (set(group) - set(separator)) & wanted:
                found.append((group, table))
                wanted |= set(separator)
        return found


@one_blas_thread()
def maximum_entropy(
    strategy: Matrix,
    values: ArrayLike,
    *,
    variance: ArrayLike,
    total: float,
    max_iter: int = 100,
    factorise: bool = True,
) -> MaximumEntropy:
    r"""Fit a non-negative, consistent distribution to noisy marginals.

    Minimises :math:`\sum_a \lVert N M_a p - y_a \rVert^2 / (2 \sigma_a^2)` by
    entropic mirror descent from the uniform distribution. Every step multiplies p by
    a function of measured tables, so that p stays the distribution of largest entropy
    with its own tables; steps stop as soon as the tables are explained up to their
    noise, because later ones would explain the noise.

    Marginals without common attributes are independent given the column, and only
    attributes that marginals link are listed together: disjoint blocks cost what
    their tables cost, at any number of attributes. Where linked attributes have too
    many cells to list, messages are passed in a junction tree, whose cliques are
    listed: chains and trees of marginals cost little more than their tables.

    Parameters
    ----------
    strategy : Marginals, Marginal or StrategyResult, shape (p, n)
        What was measured; weights above 0.
    values : array_like, shape (p,) or (p, k)
        Noisy answers.
    variance : array_like, shape () or (p,)
        Variance of the noise on every row.
    total : float
        Number of records N, public or a noisy count.
    max_iter : int, default=100
        Largest number of steps.
    factorise : bool, default=True
        Whether unlinked attributes are kept apart; ``False`` lists the whole domain.

    Returns
    -------
    MaximumEntropy

    Raises
    ------
    DomainTooLargeError
        If a clique of linked attributes has more than 2^23 cells times columns.
    ValueError
        If shapes do not match, or a variance or the total is not above 0.

    References
    ----------
    .. [1] McKenna, Sheldon, Miklau, "Graphical-model based estimation and inference
       for differential privacy", ICML 2019, Section 4.
    .. [2] Beck, Teboulle, "Mirror descent and nonlinear projected subgradient methods
       for convex optimization", Operations Research Letters 2003.

    Examples
    --------
    >>> from mmech import Marginals
    >>> from mmech.reconstruction import maximum_entropy
    >>> noisy = Marginals((2, 2), {(0,): 1, (1,): 1})
    >>> fit = maximum_entropy(noisy, [60, -4, 30, 30], variance=8, total=60)
    >>> bool((fit.marginal([0, 1]) >= 0).all()), round(float(fit.marginal([]).sum()), 6)
    (True, 60.0)
    """
    strategy = as_marginals(strategy)
    check_integer(max_iter, "max_iter", minimum=0)
    total = check_positive(total, "total")
    array, rows = check_measured(strategy, values, variance)
    return _Fit(strategy, array, rows, total, factorise).run(max_iter)


class _Fit:
    """The descent: natural parameters per clique, explicit inside a clique."""

    def __init__(
        self,
        strategy: Marginals,
        values: Floats,
        variance: Floats,
        total: float,
        factorise: bool,
    ) -> None:
        self.sizes, self.total = strategy.domain_shape, float(total)
        self.k = values.shape[1]
        measured = [(a, w) for a, w in strategy.weights.items()]
        everything = tuple(range(len(self.sizes)))
        blocks = [a for a, _ in measured]
        groups = (_linked(blocks) if factorise else [everything]) or [()]
        self.cliques: list[Clique] = []
        for group in groups:
            cliques = [Clique(group)]
            if factorise and self._entries(group) > LIMITS.joint_entries:
                inside = [a for a in blocks if a and set(a) <= set(group)]
                cliques = junction_tree(inside, self.sizes)
            before = len(self.cliques)
            self.cliques += [
                replace(c, parent=None if c.parent is None else c.parent + before)
                for c in cliques
            ]
        self.groups = [clique.attributes for clique in self.cliques]
        self.tables: list[tuple[int, Subset, float, Floats, Floats]] = []
        start = 0
        for a, weight in measured:
            shape = [self.sizes[i] for i in a]
            stop = start + product_of(shape)
            home = next(j for j, g in enumerate(self.groups) if set(a) <= set(g))
            self.tables.append(
                (
                    home,
                    a,
                    float(weight),
                    values[start:stop].reshape(*shape, self.k),
                    variance[start:stop].reshape(*shape, 1),
                )
            )
            start = stop
        largest = max(map(self._entries, self.groups))
        if largest > LIMITS.joint_entries:
            raise _too_large(largest)

    def _entries(self, group: Subset) -> int:
        return product_of(self.sizes[i] for i in group) * self.k

    def _shape(self, group: Subset) -> list[int]:
        return [self.sizes[i] for i in group]

    def _settle(self, parameters: list[Floats]) -> tuple[Floats, list[Floats]]:
        """Return log p(c) and log p(x_b | x_s, c) of unnormalised log parameters.

        Each clique sums out what its parent does not have, and tells it the rest.
        """
        potentials = list(parameters)
        tables = list(parameters)
        columns = np.zeros(self.k)
        for j in reversed(range(len(self.cliques))):
            clique = self.cliques[j]
            mass = logsumexp(potentials[j], axis=self._summed(clique), keepdims=True)
            tables[j] = potentials[j] - mass
            if clique.parent is None:
                columns = columns + mass.reshape(self.k)
                continue
            above = self.groups[clique.parent]
            shape = [self.sizes[i] if i in clique.separator else 1 for i in above]
            message = mass.reshape(*shape, self.k)
            potentials[clique.parent] = potentials[clique.parent] + message
        return columns - logsumexp(columns), tables

    @staticmethod
    def _summed(clique: Clique) -> tuple[int, ...]:
        """Return the axes of a clique that are not in its separator."""
        attributes = enumerate(clique.attributes)
        return tuple(j for j, i in attributes if i not in clique.separator)

    def _joint(self, columns: Floats, tables: list[Floats]) -> list[Floats]:
        """Return p(x_b, c) of every clique, parents first."""
        joint: list[Floats] = []
        for clique, table in zip(self.cliques, tables, strict=True):
            if clique.parent is None:
                joint.append(np.exp(table + columns))
                continue
            above = self.groups[clique.parent]
            axes = tuple(j for j, i in enumerate(above) if i not in clique.separator)
            shared = joint[clique.parent].sum(axis=axes)
            shape = [
                self.sizes[i] if i in clique.separator else 1 for i in clique.attributes
            ]
            joint.append(np.exp(table) * shared.reshape(*shape, self.k))
        return joint

    def _residuals(
        self, columns: Floats, tables: list[Floats]
    ) -> tuple[float, list[Floats]]:
        """Return the objective and its residuals, table by table."""
        objective, residuals = 0.0, []
        joint = self._joint(columns, tables)
        for home, a, weight, values, variance in self.tables:
            group = self.groups[home]
            axes = tuple(j for j, i in enumerate(group) if i not in a)
            fitted = weight * self.total * joint[home].sum(axis=axes)
            residual = fitted - values
            objective += 0.5 * float((np.square(residual) / variance).sum())
            residuals.append(weight * self.total * residual / variance)
        return objective, residuals

    def run(self, max_iter: int) -> MaximumEntropy:
        parameters = [np.zeros((*self._shape(g), self.k)) for g in self.groups]
        columns, tables = self._settle(parameters)
        objective, residuals = self._residuals(columns, tables)
        history = [objective]
        target = 0.5 * sum(values.size for *_, values, _ in self.tables)
        steepness = sum(
            weight**2 / float(variance.min()) for *_, weight, _, variance in self.tables
        )
        step = 1.0 / (self.total**2 * steepness)
        for _ in range(max_iter):
            if objective <= target:
                break
            slopes = [np.zeros(theta.shape) for theta in parameters]
            for (home, a, *_), residual in zip(self.tables, residuals, strict=True):
                group = self.groups[home]
                shape = [self.sizes[i] if i in a else 1 for i in group]
                slopes[home] += residual.reshape(*shape, self.k)
            for _ in range(HALVINGS):
                moved = [
                    theta - step * slope
                    for theta, slope in zip(parameters, slopes, strict=True)
                ]
                new_columns, new_tables = self._settle(moved)
                lower, residuals = self._residuals(new_columns, new_tables)
                if lower < objective:
                    break
                step /= 2
            else:
                break
            columns, tables, objective = new_columns, new_tables, lower
            parameters = [theta - theta.max() for theta in moved]
            history.append(objective)
            step *= GROWTH
        return MaximumEntropy(
            self.sizes,
            self.total,
            tuple(self.groups),
            columns,
            tuple(table.reshape(-1, self.k) for table in tables),
            tuple(history),
            objective <= target,
            tuple(clique.separator for clique in self.cliques),
        )


def _linked(blocks: list[Subset]) -> list[Subset]:
    """Return the attributes in sets that share no block, each sorted."""
    groups: list[set[int]] = []
    for block in blocks:
        joined = set(block)
        apart = []
        for group in groups:
            if group & joined:
                joined |= group
            else:
                apart.append(group)
        groups = [*apart, joined] if joined else apart
    ordered = [tuple(sorted(group)) for group in groups]
    if any(not block for block in blocks) and not ordered:
        return [()]
    return sorted(ordered)


def _too_large(entries: int) -> DomainTooLargeError:
    return DomainTooLargeError(
        f"a distribution over linked attributes has {magnitude(entries)} entries, too "
        f"many (at most {LIMITS.joint_entries}); measure marginals that share fewer "
        "attributes"
    )
