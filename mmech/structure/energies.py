"""What a workload asks of the interactions of every subset, over the whole lattice."""

from __future__ import annotations

from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import QueryMatrix, product_of
from mmech.operators.basic import Identity, Ones
from mmech.operators.kronecker import Kronecker
from mmech.operators.marginals import (
    Anova,
    Marginals,
    check_lattice,
    lattice_product,
    subset_ranks,
)
from mmech.operators.partition import Conjunctions, PartitionStack
from mmech.operators.ranges import Ranges
from mmech.operators.stack import VStack, through_wrappers
from mmech.operators.table_tree import attributes_of

__all__ = ["anova_energies"]

MANY_QUERIES = 64
"""Queries per cell above which sums of their answers go by the gram."""

Sizes = tuple[int, ...]
Floats = NDArray[np.float64]


def anova_energies(workload: QueryMatrix, domain_shape: Sizes) -> Floats | None:
    """Return v_s = tr(P_s WᵀW) for all 2^d subsets s, or ``None`` if out of reach.

    Exact for every workload, symmetric or not: the loss of a marginal strategy depends
    on the gram only through these numbers.
    """
    check_lattice(len(domain_shape))
    return _energies(workload, domain_shape)


@singledispatch
def _energies(workload: QueryMatrix, sizes: Sizes) -> Floats | None:
    return None


through_wrappers(_energies, scaled=lambda found, c: found * c**2, stacked=sum)


@_energies.register(Marginals)
def _(workload: Marginals, sizes: Sizes) -> Floats | None:
    if workload.domain_shape != sizes:
        return _energies.dispatch(VStack)(workload, sizes)
    gram = workload.gram()
    assert isinstance(gram, Anova)
    return gram._values * subset_ranks(sizes)


@_energies.register(Anova)
def _(workload: Anova, sizes: Sizes) -> Floats | None:
    if workload.domain_shape != sizes:
        return None
    return np.square(workload._values) * subset_ranks(sizes)


_energies.register(Identity, lambda workload, sizes: subset_ranks(sizes))


@_energies.register(Ones)
def _(workload: Ones, sizes: Sizes) -> Floats | None:
    energies = np.zeros(2 ** len(sizes))
    energies[0] = float(workload.m) * workload.n
    return energies


@_energies.register(Conjunctions)
def _(workload: Conjunctions, sizes: Sizes) -> Floats | None:
    if workload.domain_shape != sizes:
        return None
    widths = np.stack([mask.sum(axis=1) for mask in workload._masks], axis=1)
    return _box_energies(widths, sizes)


@_energies.register(Ranges)
def _(workload: Ranges, sizes: Sizes) -> Floats | None:
    same = workload.domain_shape == sizes
    return _box_energies(workload.widths, sizes) if same else None


@_energies.register(PartitionStack)
def _(workload: PartitionStack, sizes: Sizes) -> Floats | None:
    if workload.domain_shape != sizes:
        return None
    boxes = workload.boxes()
    if boxes is None:
        return _partition_energies(workload, sizes)
    widths = np.stack([mask.sum(axis=1) for mask in boxes], axis=1)
    return _box_energies(widths, sizes)


@_energies.register(Kronecker)
def _kronecker_energies(
    workload: Kronecker, domain_shape: tuple[int, ...]
) -> Floats | None:
    if tuple(factor.shape[1] for factor in workload.factors) != domain_shape:
        return None
    inside, outside = [], []
    for factor in workload.factors:
        m, n = factor.shape
        ones = np.ones(n)
        if m > MANY_QUERIES * n:
            mean = float(ones @ factor.gram().matvec(ones)) / n
        else:
            mean = float(np.square(factor.matvec(ones)).sum()) / n
        outside.append(mean)
        total = float(factor.column_square_sums().sum())
        rounding = 1e-13 * total  # of equal entries that are no integers, say
        inside.append(total - mean if total - mean > rounding else 0.0)
    return lattice_product(inside, outside)


def _box_energies(widths: NDArray[np.int64], sizes: tuple[int, ...]) -> Floats:
    """Σ over boxes of r_i values of Π_{i∈s} r_i (1 - r_i / n_i) Π_{i∉s} r_i² / n_i."""
    kinds, counts = np.unique(widths, axis=0, return_counts=True)
    cells = np.array(sizes, np.float64)
    tested = kinds < cells
    orders = tested.sum(axis=1)
    if (2.0**orders).sum() > LIMITS.box_terms:
        raise DomainTooLargeError(
            "the boxes and the subsets of the attributes that they restrict are more "
            f"than {LIMITS.box_terms} pairs; ask for boxes over fewer attributes"
        )
    inside = kinds * (1 - kinds / cells)
    outside = np.square(kinds) / cells
    # Interactions with an attribute that a box does not restrict are zero.
    shared = counts * np.where(tested, 1.0, outside).prod(axis=1)
    total = np.zeros(2 ** len(sizes))
    for order in np.unique(orders).tolist():
        alike = np.flatnonzero(orders == order)
        for rows in np.array_split(
            alike, -(-alike.size * 2**order // LIMITS.block_entries)
        ):
            attributes = np.nonzero(tested[rows])[1].reshape(rows.size, order)
            masks = np.zeros((rows.size, 1), np.int64)
            values = shared[rows, None]
            for i in attributes.T:
                without, within = outside[rows, i][:, None], inside[rows, i][:, None]
                masks = np.hstack([masks, masks | (1 << i[:, None])])
                values = np.hstack([values * without, values * within])
            total += np.bincount(masks.ravel(), values.ravel(), total.size)
    return total


def _partition_energies(
    workload: PartitionStack, domain_shape: tuple[int, ...]
) -> Floats | None:
    """From ‖W M_aᵀ‖² = c_a Σ_{s⊆a} v_s, by inclusion and exclusion over subsets."""
    from mmech import _kernels

    d, n = len(domain_shape), workload.shape[1]
    if 2**d * workload._labels.size > 2**31:
        return None
    energies = np.empty(2**d)
    cells = np.unravel_index(np.arange(n), domain_shape)
    for mask in range(2**d):
        kept = attributes_of(mask)
        size = product_of(domain_shape[i] for i in kept)
        place = np.zeros(n, np.int64)
        for i in kept:
            place = place * domain_shape[i] + cells[i]
        squares = 0.0
        for labels in workload._labels:
            table = np.bincount(labels * size + place)
            squares += float(np.square(table.astype(np.float64)).sum())
        energies[mask] = squares * size / n
    _kernels.subset_differences(energies)
    scale = energies.sum()
    energies[energies < 1e-12 * scale] = 0.0
    return energies
