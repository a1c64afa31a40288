"""Lists of subsets of attributes, where all 2^d of them would be too many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from mmech.arrays import Floats, Subset
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS


def downward_closure(
    subsets: Iterable[Subset], domain_shape: tuple[int, ...]
) -> dict[Subset, int]:
    """Return all subsets of sorted ones, less attributes of size one, numbered.

    Smaller ones first. Raises `DomainTooLargeError` for more than 2^22.
    """
    found: set[Subset] = set()
    for subset in subsets:
        kept = tuple(i for i in subset if domain_shape[i] > 1)
        if len(kept) > LIMITS.lattice_attributes or len(found) > LIMITS.listed_subsets:
            raise DomainTooLargeError(
                f"the subsets of the marginals are too many to list (more than "
                f"{LIMITS.listed_subsets}); ask for marginals over fewer attributes"
            )
        for size in range(len(kept) + 1):
            found.update(combinations(kept, size))
    ordered = sorted(found, key=lambda subset: (len(subset), subset))
    return {subset: i for i, subset in enumerate(ordered)}


def ranks_of(subsets: Iterable[Subset], domain_shape: tuple[int, ...]) -> Floats:
    """Return m_s = Π_{i∈s} (n_i - 1) for the listed subsets."""
    return _products(subsets, [n - 1.0 for n in domain_shape])


def sizes_of(subsets: Iterable[Subset], domain_shape: tuple[int, ...]) -> Floats:
    """Return n_s = Π_{i∈s} n_i for the listed subsets."""
    return _products(subsets, [float(n) for n in domain_shape])


def _products(subsets: Iterable[Subset], factors: Sequence[float]) -> Floats:
    """Return the product of the factors of every subset."""
    return np.array([math.prod([factors[i] for i in subset]) for subset in subsets])


def subsets_inside(
    block: Subset, numbers: Mapping[Subset, int], order: int
) -> list[int]:
    """Return the numbers of the listed subsets in a block, of at most `order`.

    By going through the subsets of the block, or through the list, whichever is
    shorter.
    """
    most = min(order, len(block))
    if sum(math.comb(len(block), size) for size in range(most + 1)) > len(numbers):
        whole = set(block)
        return [i for subset, i in numbers.items() if whole.issuperset(subset)]
    return [
        numbers[subset]
        for size in range(most + 1)
        for subset in combinations(block, size)
        if subset in numbers
    ]


def marginal_precisions(
    terms: Iterable[tuple[Subset, float]],
    subsets: Sequence[Subset],
    domain_shape: tuple[int, ...],
) -> Floats:
    """Return k_s = Σ_{a⊇s} θ_a² n_s / n_a, zero where no marginal contains s.

    The gram of the weighted marginals has the eigenvalue k_s n / n_s on the
    interactions of s. A query costs Σ_s ‖W_s‖² / k_s. `terms` are the
    attributes a and the squared weight θ_a² of every marginal; `subsets` are the s, of
    attributes with at least two values.
    """
    numbers = {subset: i for i, subset in enumerate(subsets)}
    order = max(map(len, subsets), default=0)
    precisions = np.zeros(len(subsets))
    for block, square in terms:
        if square > 0:
            kept = tuple(i for i in block if domain_shape[i] > 1)
            cells = math.prod(float(domain_shape[i]) for i in kept)
            precisions[subsets_inside(kept, numbers, order)] += square / cells
    return precisions * sizes_of(subsets, domain_shape)
