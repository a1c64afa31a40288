"""Lossless reduction of boxes over domains that are too large to list.

Two cells have equal columns where they lie in the same boxes. The sets of boxes that
occur are found attribute by attribute: after the first i attributes of a cell all that
matters is which boxes are still possible. Few sets occur where the boxes test few
attributes, whatever the number of cells. The transitions from set to set are kept, so
that the group of any cell is looked up in d steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_codes
from mmech.exceptions import DomainTooLargeError, UnsupportedWorkloadError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.compose import Product, Scaled
from mmech.operators.explicit import Matrix, Sparse, as_query_matrix
from mmech.operators.partition import Conjunctions
from mmech.reduction.columns import distinct_rows, reduce_columns

Bits = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class CellGroups:
    """The merged cell of every cell of a large product domain, looked up when asked.

    Parameters
    ----------
    domain_shape : tuple of int
        Number of values of every attribute.
    order : tuple of int
        Attributes in the order of the steps.
    steps : tuple of ndarray of int64
        Entry (s, v) of step i is the state after state s and value v.

    See Also
    --------
    reduce_boxes : makes these.

    Examples
    --------
    >>> from mmech import Conjunctions, reduce_boxes
    >>> either = Conjunctions([[[True, False, False]], [[True, True]]])
    >>> reduced, groups = reduce_boxes(either)
    >>> groups([[0, 0], [0, 1], [2, 1]])
    array([ 0,  0, -1])
    """

    domain_shape: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[NDArray[np.int64], ...]

    def __call__(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Return the merged cells of records, -1 for none.

        Parameters
        ----------
        codes : array_like of int, shape (N, d)
            Values of the attributes of every record.

        Returns
        -------
        ndarray of int64, shape (N,)

        Raises
        ------
        TypeError, ValueError
            If a value lies outside the domain.
        """
        cells = check_codes(codes, self.domain_shape)
        state = np.zeros(len(cells), np.int64)
        for attribute, step in zip(self.order, self.steps, strict=True):
            state = step[state, cells[:, attribute]]
        return state

    def expand(self) -> NDArray[np.int64]:
        """Return the merged cell of every cell in C order, shape (n,).

        Raises
        ------
        DomainTooLargeError
            If the domain is too large to list.
        """
        if product_of(self.domain_shape) > LIMITS.merged_cells:
            raise DomainTooLargeError(
                "the domain is too large to list its cells; look up the codes of the "
                "records instead"
            )
        state = np.zeros((), np.int64)
        for step in self.steps:
            state = step[state]
        places = np.argsort(self.order)
        return np.ascontiguousarray(state.transpose(places)).ravel()


def reduce_boxes(workload: Matrix) -> tuple[QueryMatrix, CellGroups]:
    """Merge cells that lie in the same boxes, over a domain of any size.

    The number of cells never enters. The cost is one bit per box and set of boxes that
    occurs, times the number of attribute values.

    Parameters
    ----------
    workload : QueryMatrix, shape (m, n)
        `Conjunctions`, or a multiple of them, or a product whose last factor they
        are: the training and the prediction workload of a large domain.

    Returns
    -------
    reduced : QueryMatrix, shape (m, n')
        One column of the workload for every set of boxes that occurs.
    groups : CellGroups
        Column of every cell, looked up from its attribute values; -1 for cells that
        no query asks about.

    Raises
    ------
    UnsupportedWorkloadError
        If the workload is none of these.
    DomainTooLargeError
        If more than 200 000 sets of boxes occur on the way, or more than memory is
        meant to hold: then the workload hardly gets smaller.

    See Also
    --------
    reduce_domain : workloads of any structure over domains that can be listed.

    Notes
    -----
    Counts over the merged cells are ``numpy.bincount`` of the groups of the records
    that have one. Where another attribute order would give fewer sets on the way,
    the limit may be met without need.

    Examples
    --------
    >>> from mmech import Conjunctions, reduce_boxes
    >>> value = [[True, False, False]]
    >>> every = [[True, True, True]]
    >>> boxes = Conjunctions([value] + 19 * [every])  # 3^20 cells
    >>> reduced, groups = reduce_boxes(boxes)
    >>> reduced.to_dense(), groups([[0] * 20, [1] * 20])
    (array([[1]]), array([ 0, -1]))
    """
    workload = as_query_matrix(workload, "workload")
    left, boxes, weight = _split(workload)
    kept = np.arange(boxes.shape[0])
    if left is not None:
        kept = np.flatnonzero(np.asarray(left.column_abs_sums()) > 0)
    masks = [mask[kept] for mask in boxes._masks]
    possible = np.all([mask.any(axis=1) for mask in masks], axis=0)
    kept, masks = kept[possible], [mask[possible] for mask in masks]
    order = _order(masks)
    states, steps = _refine(masks, order)
    inside = np.unpackbits(
        states.view(np.uint8), axis=1, count=len(kept), bitorder="little"
    )
    places, signatures = np.nonzero(inside.T)
    ones = np.ones(places.size, np.int64)
    shape = (boxes.shape[0], len(states))
    reduced: QueryMatrix = Sparse(
        sp.csr_array((ones, (kept[places], signatures)), shape=shape)
    )
    own = np.arange(len(states))
    if left is not None:
        reduced = Sparse(sp.csr_array((left @ reduced).to_sparse()))
    final, found = reduce_columns(reduced)
    if final is not reduced:
        reduced, own = final, found
    steps[-1] = own[steps[-1]]
    if weight != 1:
        reduced = Scaled(weight, reduced)
    return reduced, CellGroups(boxes.domain_shape, tuple(order), tuple(steps))


Split = tuple[QueryMatrix | None, Conjunctions, float | int]


@singledispatch
def _split(workload: QueryMatrix) -> Split:
    """Return the left factor of boxes, the boxes, and a weight."""
    raise UnsupportedWorkloadError(
        f"reduce_boxes needs Conjunctions, or a product that ends in them, got "
        f"{workload!r}; use reduce_domain"
    )


@_split.register(Conjunctions)
def _(workload: Conjunctions) -> Split:
    return None, workload, 1


@_split.register(Scaled)
def _(workload: Scaled) -> Split:
    left, boxes, weight = _split(workload.operator)
    return left, boxes, weight * workload.weight


@_split.register(Product)
def _(workload: Product) -> Split:
    *left, last = workload.factors
    inner, boxes, weight = _split(last)
    left += [] if inner is None else [inner]
    return left[0] if len(left) == 1 else Product(*left), boxes, weight


def _order(masks: list[NDArray[np.bool_]]) -> list[int]:
    """Attributes that most boxes test come first: they rule out most boxes."""
    tested = [int((~mask).any(axis=1).sum()) for mask in masks]
    return sorted(range(len(masks)), key=lambda i: (-tested[i], i))


def _refine(
    masks: list[NDArray[np.bool_]], order: list[int]
) -> tuple[Bits, list[NDArray[np.int64]]]:
    """Return the sets of boxes that occur, as bits, and the steps that lead there."""
    states = _packed(np.ones((1, masks[0].shape[0]), np.bool_))
    steps = []
    for attribute in order:
        allowed = _packed(np.ascontiguousarray(masks[attribute].T))
        values, value_of = _unique_rows(allowed)
        parts, places, size = states[:0], [], 0
        for value in values:
            # The sets found so far and those of this value, without repetition.
            both = np.concatenate([parts, states & value])
            parts, inverse = _unique_rows(both, size)
            places.append(inverse[size:])
            size = len(parts)
            if size > LIMITS.box_sets or parts.nbytes > LIMITS.box_set_bytes:
                raise DomainTooLargeError(
                    f"more than {size - 1} sets of boxes occur; the workload hardly "
                    "gets smaller"
                )
        states = parts
        steps.append(np.stack(places, axis=1)[:, value_of])
    return states, steps


def _packed(rows: NDArray[np.bool_]) -> Bits:
    """Pack boolean rows into words of 64 bits."""
    words = max(1, -(-rows.shape[1] // 64))
    padded = np.zeros((len(rows), 8 * words), np.uint8)
    bits = np.packbits(rows, axis=1, bitorder="little")
    padded[:, : bits.shape[1]] = bits
    return padded.view(np.uint64)


def _unique_rows(rows: Bits, known: int = 0) -> tuple[Bits, NDArray[np.int64]]:
    """Return distinct rows in order of occurrence, and the place of every row.

    The first `known` rows are distinct already and keep their places.
    """
    first, places = distinct_rows(rows)
    assert known == 0 or np.array_equal(places[:known], np.arange(known))
    return rows[first], places
