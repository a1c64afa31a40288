"""Answers from marginals: products with a vector of which only tables are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech.arrays import Subset
from mmech.limits import LIMITS
from mmech.operators.base import Array, QueryMatrix
from mmech.operators.basic import Identity, Ones
from mmech.operators.compose import Product, Sum
from mmech.operators.known import normal_form
from mmech.operators.kronecker import Kronecker
from mmech.structure.spectrum import BoxGroup, box_groups

Answers = NDArray[Any]

Tables = Callable[[Subset], Array]
"""Function from sorted attributes a to the marginal over them, shape (n_a, k)."""


def answers_by_marginals(
    operator: QueryMatrix, domain_shape: Subset, tables: Tables
) -> Answers | None:
    """Return A X (m, k) from marginals of X, without its cells, or ``None``.

    For marginals, products of attributes and boxes, and for their sums, stacks and
    combinations. Exact for integer operators and tables. Every table that is
    asked for is over the attributes that some query of the operator restricts.
    """
    found = normal_form(operator).ask(_answers, domain_shape, tables)
    if found is None:
        return None
    return np.concatenate([answers * c for c, answers in found])


@singledispatch
def _answers(
    operator: QueryMatrix, domain_shape: Subset, tables: Tables
) -> Answers | None:
    """Return the answers of one block of a union."""
    groups = box_groups(operator, domain_shape)
    return None if groups is None else _boxes(operator.shape[0], groups, tables)


@_answers.register(Sum)
def _(operator: Sum, domain_shape: Subset, tables: Tables) -> Answers | None:
    parts = [answers_by_marginals(a, domain_shape, tables) for a in operator.terms]
    known = [part for part in parts if part is not None]
    return np.asarray(sum(known)) if len(known) == len(parts) else None


@_answers.register(Identity)
def _(operator: Identity, domain_shape: Subset, tables: Tables) -> Answers | None:
    return tables(tuple(range(len(domain_shape))))


@_answers.register(Ones)
def _(operator: Ones, domain_shape: Subset, tables: Tables) -> Answers | None:
    return np.repeat(tables(()), operator.m, axis=0)


@_answers.register(Product)
def _product(operator: Product, domain_shape: Subset, tables: Tables) -> Answers | None:
    """Boxes that no query adds up, such as leaves without a query, are left out."""
    *left, last = operator.factors
    groups = box_groups(last, domain_shape)
    if groups is None:
        answers = answers_by_marginals(last, domain_shape, tables)
    else:
        asked = left[-1].column_abs_sums() > 0
        groups = [part for group in groups for part in group.restricted(asked)]
        answers = _boxes(last.shape[0], groups, tables)
    if answers is not None:
        for factor in reversed(left):
            answers = factor.matmat(answers)
    return answers


@_answers.register(Kronecker)
def _kronecker(
    operator: Kronecker, domain_shape: Subset, tables: Tables
) -> Answers | None:
    """Totals of an attribute need no axis: they only repeat rows."""
    factors = operator.factors
    if tuple(factor.shape[1] for factor in factors) != domain_shape:
        return None
    kept = tuple(i for i, f in enumerate(factors) if not isinstance(f, Ones))
    answers = tables(kept)
    own = [
        factor if i in kept else Ones(factor.shape[0], 1)
        for i, factor in enumerate(factors)
        if i in kept or factor.shape[0] > 1
    ]
    return Kronecker(own).matmat(answers) if own else answers


def _boxes(m: int, groups: list[BoxGroup], tables: Tables) -> NDArray[Any]:
    total = tables(())
    out = np.zeros((m, total.shape[1]), total.dtype)
    for group in groups:
        table = tables(group.attributes)
        height = max(1, LIMITS.block_entries // table.size)
        for start in range(0, group.rows.size, height):
            part = slice(start, start + height)
            rows = group.rows[part]
            sums = np.broadcast_to(table.reshape(1, -1), (rows.size, table.size))
            for mask in group.masks:
                own = mask[part].astype(table.dtype)
                cut = sums.reshape(rows.size, mask.shape[1], -1)
                sums = np.einsum("ri,rij->rj", own, cut)
            out[rows] = sums
    return out
