"""What is known of an operator by its class: normal form, rank, norms.

A class without a rule gets the answer that is always right: not known. Everything that
`mmech.structure` tells beyond that, it tells by these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from itertools import chain
from typing import Any

import numpy as np

from mmech.operators.base import QueryMatrix, once
from mmech.operators.basic import Diagonal, Identity, Ones, SeparableGram, Total
from mmech.operators.compose import (
    Gram,
    Merged,
    MergedGram,
    Product,
    Scaled,
    Sum,
    Transpose,
    VStack,
)
from mmech.operators.explicit import Dense, Sparse
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import Marginal, Marginals
from mmech.operators.partition import (
    Conjunctions,
    Partition,
    PartitionGram,
    PartitionStack,
)
from mmech.operators.pidentity import PIdentity
from mmech.operators.tau import Tau

Factors = tuple[QueryMatrix, ...]
Term = tuple[float, Factors]

Bounds = tuple[int, int]
"""Upper bounds on the largest L1 norm of a row, and of a column."""

Parts = tuple[int, ...]
"""Bounds of every part of an operator."""


# ---- unions of products ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NormalForm:
    """A workload as a union of weighted blocks, with unions and weights inside undone.

    Attributes
    ----------
    blocks : tuple of (int or float, QueryMatrix)
        Weights and blocks in order; no block is a `VStack` or a `Scaled`.
    """

    blocks: tuple[tuple[float, QueryMatrix], ...]

    @cached_property
    def products(self) -> list[Term] | None:
        """The blocks as (weight, one factor per attribute), ``None`` for other ones."""
        terms = self.ask(_factors)
        if terms is None or len({tuple(f.shape[1] for f in t) for _, t in terms}) > 1:
            return None
        return [(float(weight), factors) for weight, factors in terms]

    @cached_property
    def domain_shape(self) -> tuple[int, ...] | None:
        """The attribute sizes that all blocks know, else ``None``."""
        shapes = {_attribute_sizes(block) for _, block in self.blocks}
        return shapes.pop() if len(shapes) == 1 else None

    @property
    def is_product(self) -> bool:
        """Whether the only block is a product of attributes."""
        return len(self.blocks) == 1 and self.products is not None

    def ask(self, question: Callable[..., Any], *rest: Any) -> list[Any] | None:
        """Return (weight, answer) of every block, ``None`` if one is not known."""
        found = []
        for weight, block in self.blocks:
            answer = question(block, *rest)
            if answer is None:
                return None
            found.append((weight, answer))
        return found

    def total(self, question: Callable[..., Any], *rest: Any) -> Any:
        """Return the sum of answers, by squared weights, ``None`` if not known."""
        found = self.ask(question, *rest)
        return found and sum(float(weight) ** 2 * answer for weight, answer in found)


@singledispatch
def normal_form(workload: QueryMatrix) -> NormalForm:
    """Return what all questions about unions start from; unions keep theirs."""
    return NormalForm(((1, workload),))


@normal_form.register(Scaled)
@once
def _(workload: Scaled) -> NormalForm:
    inner = normal_form(workload.operator).blocks
    return NormalForm(tuple((workload.weight * c, block) for c, block in inner))


@normal_form.register(VStack)
@once
def _(workload: VStack) -> NormalForm:
    parts = map(normal_form, workload.blocks)
    return NormalForm(tuple(chain.from_iterable(part.blocks for part in parts)))


def factored(workload: QueryMatrix) -> tuple[float, tuple[QueryMatrix, ...]]:
    """Return the weight and the factors of the only block of a workload, or itself."""
    form = normal_form(workload)
    if form.is_product and form.products:
        return form.products[0]
    weight, block = form.blocks[0] if len(form.blocks) == 1 else (1, workload)
    return weight, (block,)


@singledispatch
def _factors(block: QueryMatrix) -> Factors | None:
    """Return the factors of a product of attributes, else ``None``."""
    return None


_factors.register(Kronecker, lambda block: tuple(block.factors))


@singledispatch
def _attribute_sizes(block: QueryMatrix) -> tuple[int, ...] | None:
    """Return the attribute sizes that a block is over, as far as it knows."""
    known = getattr(block, "domain_shape", None)
    return None if known is None else tuple(known)


_attribute_sizes.register(Marginal, lambda block: block.domain_shape)
_attribute_sizes.register(
    Kronecker, lambda block: tuple([factor.shape[1] for factor in block.factors])
)
_attribute_sizes.register(
    Product, lambda block: normal_form(block.factors[-1]).domain_shape
)


# ---- rank ------------------------------------------------------------------------


@singledispatch
def has_full_column_rank(strategy: QueryMatrix) -> bool:
    """Return whether full column rank is known from the structure alone."""
    return False


has_full_column_rank.register(Identity | PIdentity, lambda strategy: True)
has_full_column_rank.register(
    Merged, lambda merged: merged.reorders and has_full_column_rank(merged.operator)
)


@has_full_column_rank.register(Scaled)
def _(strategy: Scaled) -> bool:
    return strategy.weight != 0 and has_full_column_rank(strategy.operator)


has_full_column_rank.register(Tau, lambda strategy: strategy.is_regular)
has_full_column_rank.register(
    Diagonal, lambda strategy: bool((strategy.diag() != 0).all())
)


@has_full_column_rank.register(Kronecker)
def _(strategy: Kronecker) -> bool:
    return all(has_full_column_rank(factor) for factor in strategy.factors)


@has_full_column_rank.register(VStack)
def _(strategy: VStack) -> bool:
    return any(has_full_column_rank(block) for block in strategy.blocks)


# ---- norms -----------------------------------------------------------------------


def norm_bounds(operator: QueryMatrix) -> Bounds | None:
    """Return upper bounds on the largest L1 norms of rows and columns.

    ``None`` if the operator, or one that it is made of, is of an unknown class. Ask
    ``operator._norm_bounds``, which keeps them.

    Examples
    --------
    >>> from mmech import Dense, Prefix, Product
    >>> from mmech.operators.known import norm_bounds
    >>> norm_bounds(Prefix(4))
    (4, 4)
    >>> norm_bounds(Product(Prefix(4), 2**62 * Prefix(4))) == (2**66, 2**66)
    True
    """
    if not is_known(operator):
        return None
    kind = type(operator)
    if kind not in PARTS:
        return BOUNDS[kind](operator)
    known = [part._norm_bounds or (0, 0) for part in PARTS[kind](operator)]
    rows, columns = zip(*known, strict=True)
    return _JOINT_BOUNDS[kind](operator, rows, columns)


def is_known(operator: QueryMatrix) -> bool:
    """Return whether the class of an operator, and of all its parts, has rules here."""
    kind = type(operator)
    if kind in PARTS:
        return all(is_known(part) for part in PARTS[kind](operator))
    return kind in BOUNDS


def _explicit(entries: Any) -> Bounds:
    magnitudes = abs(entries.astype(np.float64))
    rows, columns = (magnitudes.sum(axis=axis).max(initial=0.0) for axis in (1, 0))
    # More than the rounding errors of sums of up to 2^32 terms.
    return tuple(math.ceil(float(s) * (1 + 2**-20)) for s in (rows, columns))  # type: ignore[return-value]


def power_sum(entries: Any, power: int) -> int:
    """Return the sum of magnitudes of whole numbers to a power, exactly."""
    if float((np.abs(entries.astype(np.float64)) ** power).sum()) < 2.0**53:
        return int((np.abs(entries) ** power).sum())
    return sum(abs(entry) ** power for entry in entries.tolist())


def _separable(operator: SeparableGram) -> Bounds:
    vectors = operator._rising, operator._falling, operator._diagonal
    a, b, d = (int(np.abs(v).max(initial=0)) for v in vectors)
    return (operator.shape[0] * a * b + d,) * 2


BOUNDS: dict[type, Callable[[Any], Bounds]] = {
    Identity: lambda a: (1, 1),
    Ones: lambda a: (a.n, a.m),
    Total: lambda a: (a.n, 1),
    Conjunctions: lambda a: (a.shape[1], a.shape[0]),
    Partition: lambda a: (a.shape[1], 1),
    PartitionStack: lambda a: (a.shape[1], a.n_partitions),
    PartitionGram: lambda a: (a.shape[0] * a.partitions.n_partitions,) * 2,
    Marginal: lambda a: (a.shape[1], 1),
    SeparableGram: _separable,
    Diagonal: lambda a: (int(np.abs(a._values).max(initial=0)),) * 2,
    Tau: lambda a: (power_sum(a.period, 1) * int(np.abs(a._scales).max()),) * 2,
    Dense: lambda a: _explicit(a._array),
    Sparse: lambda a: _explicit(a.matrix),
    Marginals: lambda a: (
        max(abs(int(weight)) for weight in a.weights.values()) * a.shape[1],
        sum(abs(int(weight)) for weight in a.weights.values()),
    ),
}
"""Class to the rule for `norm_bounds`, of operators that are not made of others."""

PARTS: dict[type, Callable[[Any], Sequence[QueryMatrix]]] = {
    **dict.fromkeys(
        (Scaled, Transpose, Gram, Merged, MergedGram), lambda a: (a.operator,)
    ),
    **dict.fromkeys((Kronecker, Product), lambda a: a.factors),
    VStack: lambda a: a.blocks,
    Sum: lambda a: a.terms,
}
"""Class to the operators that one is made of."""

_JOINT_BOUNDS: dict[type, Callable[[Any, Parts, Parts], Bounds]] = {
    Scaled: lambda a, r, c: (abs(int(a.weight)) * r[0], abs(int(a.weight)) * c[0]),
    Transpose: lambda a, r, c: (c[0], r[0]),
    **dict.fromkeys((Gram, MergedGram), lambda a, r, c: (r[0] * c[0],) * 2),
    Merged: lambda a, r, c: (r[0] * int(a.sizes.max(initial=1)), c[0]),
    **dict.fromkeys((Kronecker, Product), lambda a, r, c: (math.prod(r), math.prod(c))),
    Sum: lambda a, r, c: (sum(r), sum(c)),
    VStack: lambda a, r, c: (max(r), sum(c)),
}
"""Class to the rule for `norm_bounds`, of operators that are made of others."""
