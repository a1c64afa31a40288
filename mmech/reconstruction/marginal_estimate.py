"""Least squares from noisy marginals, one subset of attributes at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy
from functools import partial, singledispatch
from itertools import combinations
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from mmech.arrays import Floats, Subset
from mmech.checks import check_codes, magnitude
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.explicit import Matrix, as_query_matrix
from mmech.operators.marginals import (
    Marginals,
    Residuals,
    check_attributes,
    marginals_of,
)
from mmech.operators.subsets import TableTree, downward_closure
from mmech.structure.spectrum import answers_by_marginals, mean_spectrum


def is_lazy(strategy: QueryMatrix) -> bool:
    """Whether the cells of an estimate from this strategy are too many to list."""
    measured = _tables_of(strategy)
    return measured is not None and (
        measured.shape[1] > LIMITS.listed_cells
        or len(measured.domain_shape) > LIMITS.lattice_attributes
    )


@singledispatch
def _tables_of(strategy: QueryMatrix) -> Marginals | Residuals | None:
    """Return marginals, or residuals of them, as what they are."""
    return marginals_of(strategy)


_tables_of.register(Residuals, lambda strategy: strategy)


class MarginalEstimate:
    r"""Estimated counts x^ = A⁺ y of a domain of any size, from noisy marginals.

    With the measured tables :math:`y_a` of weight :math:`\theta_a` and the centring
    :math:`C_s` (means along every axis taken off), the interactions of a subset s are

    .. math:: \alpha_s = C_s \sum_{a \supseteq s} \frac{\theta_a}{n_a}
              \sum_{a \setminus s} y_a \Big/ \sum_{a \supseteq s}
              \frac{\theta_a^2}{n_a} , \qquad
              \hat y_t = \sum_{s \subseteq t} \alpha_s \, n_s / n_t .

    Tables are computed when they are first asked for, and kept. Residuals measure one
    :math:`\alpha_s` each. Post-processing: free of privacy cost.

    Parameters
    ----------
    strategy : Marginals, Marginal, Residuals or StrategyResult, shape (p, n)
        What was measured; weights of any sign.
    values : array_like, shape (p,) or (p, k)
        Noisy answers y.

    Attributes
    ----------
    domain_shape : tuple of int
        Number of values of every attribute.
    shape : tuple of int
        (n,) or (n, k), Python integers of any size.

    See Also
    --------
    MatrixMechanism.reconstruct : returns one where the cells are too many to list.

    References
    ----------
    .. [1] Xiao, He, Zhang, Kifer, "An optimal and scalable matrix mechanism for
       noisy marginals under convex loss functions", NeurIPS 2023, Section 5.

    Examples
    --------
    >>> from mmech import MarginalEstimate, Marginals
    >>> strategy = Marginals((2,) * 100, {(0, 1): 1, (1, 2): 1})
    >>> estimate = MarginalEstimate(strategy, [3, 1, 0, 4, 2, 1, 2, 3])
    >>> estimate.marginal([1]), estimate.marginal([0])
    (array([3., 5.]), array([4., 4.]))
    """

    __slots__ = ("_alphas", "_blocks", "_columns", "_holders", "domain_shape", "shape")

    domain_shape: tuple[int, ...]
    shape: tuple[int, ...]

    def __init__(self, strategy: Matrix, values: ArrayLike) -> None:
        operator = as_query_matrix(strategy, "strategy")
        measured = _tables_of(operator)
        if measured is None:
            raise TypeError(
                "strategy must be Marginals or Residuals, got "
                f"{type(operator).__name__}; use least_squares for other strategies"
            )
        strategy = measured
        array = np.asarray(values, dtype=np.float64)
        if array.ndim not in (1, 2) or array.shape[0] != strategy.shape[0]:
            raise ValueError(
                f"values must have shape ({strategy.shape[0]},) or "
                f"({strategy.shape[0]}, k), one row per strategy query, got "
                f"{array.shape}"
            )
        self.domain_shape = strategy.domain_shape
        self.shape = (strategy.shape[1], *array.shape[1:])
        self._columns = math.prod(array.shape[1:])
        self._blocks: list[tuple[Subset, float, float, Floats]] = []
        self._alphas: dict[Subset, Floats | None] = {}
        tables = np.split(array, np.cumsum(strategy.counts)[:-1])
        pairs = zip(strategy.weights.items(), tables, strict=True)
        for (attributes, weight), rows in pairs:
            if weight != 0:
                kept = tuple(i for i in attributes if self.domain_shape[i] > 1)
                table = rows.reshape(*self._sizes(kept), self._columns)
                self._blocks.append((kept, float(weight), float(len(rows)), table))
        if marginals_of(operator) is None:  # each residual has its own interactions
            for kept, weight, _, table in self._blocks:
                self._alphas[kept] = _centred(table / weight, len(kept))
            self._blocks = []
        # The numbers of the blocks that contain an attribute.
        self._holders: list[set[int]] = [set() for _ in self.domain_shape]
        for number, (kept, *_) in enumerate(self._blocks):
            for i in kept:
                self._holders[i].add(number)

    def __repr__(self) -> str:
        return (
            f"MarginalEstimate({len(self._blocks)} marginals of "
            f"{len(self.domain_shape)} attributes, shape={self.shape})"
        )

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            "an estimate from marginals is implicit; ask for .answer(workload), "
            ".marginal(attributes) or .cells(codes)"
        )

    def given(self, tables: Mapping[Subset, ArrayLike]) -> MarginalEstimate:
        """Return the estimate with the interactions of other tables in place of some.

        Parameters
        ----------
        tables : mapping of tuple of int to array_like
            Tables over sorted attributes, one axis for each, and one more where
            columns differ. Only their interactions of exactly these attributes count.

        Returns
        -------
        MarginalEstimate

        Examples
        --------
        >>> from mmech import MarginalEstimate, Marginals
        >>> estimate = MarginalEstimate(Marginals((2, 2), {(0, 1): 1}), [3, 1, 0, 4])
        >>> estimate.given({(): 10}).marginal([0])
        array([5., 5.])
        """
        made = copy(self)
        made._alphas = dict(self._alphas)
        for subset, table in tables.items():
            centred = _centred(np.asarray(table, np.float64), len(subset))
            if centred.ndim == len(subset):
                centred = np.repeat(centred[..., None], self._columns, axis=-1)
            if all(self.domain_shape[i] > 1 for i in subset):
                made._alphas[subset] = centred
        return made

    def _subsets(self) -> list[Subset]:
        """Return the subsets whose interactions were measured or given."""
        blocks = [attributes for attributes, *_ in self._blocks]
        found = dict.fromkeys(downward_closure(blocks, self.domain_shape))
        return list(found | {s: None for s, a in self._alphas.items() if a is not None})

    def _sizes(self, subset: Subset) -> list[int]:
        return [self.domain_shape[i] for i in subset]

    def _alpha(self, subset: Subset) -> Floats | None:
        """Return α_s with one axis per attribute and one of columns, or ``None``."""
        if subset not in self._alphas:
            self._alphas[subset] = self._interactions(subset)
        return self._alphas[subset]

    def _interactions(self, subset: Subset) -> Floats | None:
        holders = sorted((self._holders[i] for i in subset), key=len)
        holding = set.intersection(*holders) if holders else range(len(self._blocks))
        if not holding:
            return None
        total = np.zeros((*self._sizes(subset), self._columns))
        precision = 0.0
        for number in sorted(holding):
            attributes, weight, cells, table = self._blocks[number]
            axes = tuple(i for i, a in enumerate(attributes) if a not in subset)
            total += (weight / cells) * table.sum(axis=axes)
            precision += weight**2 / cells
        return _centred(total, len(subset)) / precision

    def _check_table(self, kept: Subset) -> None:
        entries = product_of(self._sizes(kept)) * self._columns
        if entries > LIMITS.table_entries:
            raise DomainTooLargeError(
                f"a table over {len(kept)} attributes has {magnitude(entries)} "
                f"entries, too many (at most {LIMITS.table_entries}); ask for fewer "
                "attributes"
            )

    def _table(self, attributes: Subset, *, exact: bool = True) -> Floats:
        """Return Σ_s α_s n_s / n_t over the subsets s of the attributes t, (n_t, k).

        Interactions that were not measured are refused, or zero.
        """
        kept = tuple(i for i in attributes if self.domain_shape[i] > 1)
        self._check_table(kept)
        sizes = self._sizes(kept)
        out = np.zeros((*sizes, self._columns))
        for size in range(len(kept) + 1):
            for subset in combinations(kept, size):
                alpha = self._alpha(subset)
                if alpha is not None:
                    inside = zip(kept, sizes, strict=True)
                    shape = [n if i in subset else 1 for i, n in inside]
                    removed = product_of(sizes) // product_of(shape)
                    out += alpha.reshape(*shape, self._columns) / removed
                elif exact:
                    raise UnsupportedWorkloadError(
                        f"no measured marginal contains the attributes {subset} "
                        "together; measure a marginal over them"
                    )
        return out.reshape(-1, self._columns)

    def _out(self, table: Floats) -> Floats:
        return table if len(self.shape) == 2 else table[:, 0]

    def marginal(self, attributes: Iterable[int] | int) -> Floats:
        """Return the estimated table of counts over some attributes.

        Parameters
        ----------
        attributes : sequence of int
            Positions of the attributes that are kept, in any order; cells come in
            C order of the sorted ones. Empty for the total.

        Returns
        -------
        ndarray of float64, shape (n_a,) or (n_a, k)

        Raises
        ------
        UnsupportedWorkloadError
            If no measured marginal contains some of the attributes together.
        """
        kept = check_attributes(attributes, len(self.domain_shape))
        return self._out(self._table(kept))

    def answer(self, workload: QueryMatrix) -> Floats:
        """Return W x^.

        Parameters
        ----------
        workload : QueryMatrix, shape (m, n)
            Marginals, boxes (`Conjunctions`), products of attributes, and sums,
            stacks and combinations of these (QTᵀT).

        Returns
        -------
        ndarray of float64, shape (m,) or (m, k)

        Raises
        ------
        UnsupportedWorkloadError
            If a query restricts attributes that no measured marginal contains
            together, or the workload is of another kind.
        """
        workload = as_query_matrix(workload, "workload")
        if workload.shape[1] != self.shape[0]:
            raise ValueError(
                f"the workload has {magnitude(workload.shape[1])} columns but the "
                f"estimate {magnitude(self.shape[0])} cells; both must be the same "
                "domain"
            )
        try:
            answers = answers_by_marginals(workload, self.domain_shape, self._table)
        except UnsupportedWorkloadError:
            asked = mean_spectrum(workload, self.domain_shape)
            if asked is None or any(self._alpha(subset) is None for subset in asked):
                raise
            # What is not measured cancels in sums of boxes.
            known = partial(self._table, exact=False)
            answers = answers_by_marginals(workload, self.domain_shape, known)
        if answers is None:
            raise UnsupportedWorkloadError(
                f"{workload!r} is not answered from marginals; use marginals, boxes "
                "(Conjunctions) or products of the attributes"
            )
        return self._out(np.asarray(answers, dtype=np.float64))

    def cells(self, codes: ArrayLike) -> Floats:
        """Return the estimated counts of single cells.

        The estimate of least norm: what was not measured counts as evenly spread.

        Parameters
        ----------
        codes : array_like of int, shape (b, d)
            Value of every attribute of every cell. Public.

        Returns
        -------
        ndarray of float64, shape (b,) or (b, k)

        Raises
        ------
        DomainTooLargeError
            If the subsets of the measured marginals are too many to list.
        """
        array = check_codes(codes, self.domain_shape)
        out = np.zeros((array.shape[0], self._columns))
        for subset in self._subsets():
            alpha = self._alpha(subset)
            assert alpha is not None
            share = product_of(self._sizes(subset)) / self.shape[0]
            out += alpha[tuple(array[:, i] for i in subset)] * share
        return self._out(out)

    def to_dense(self) -> Floats:
        """Return the estimate of every cell, shape (n,) or (n, k).

        Raises
        ------
        DomainTooLargeError
            If there are more than about 10^8 of them.
        """
        self._check_table(tuple(range(len(self.domain_shape))))
        closure = self._subsets()
        parts = []
        for subset in closure:
            alpha = self._alpha(subset)
            assert alpha is not None
            share = product_of(self._sizes(subset)) / self.shape[0]
            parts.append(alpha.reshape(-1, self._columns) * share)
        return self._out(TableTree(self.domain_shape, closure).spread(parts))


def _centred(table: Floats, axes: int) -> Floats:
    """Return a table with the means along its first axes taken off."""
    for axis in range(axes):
        table = table - table.mean(axis=axis, keepdims=True)
    return table
