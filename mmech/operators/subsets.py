"""Lists of subsets of attributes, where all 2^d are too many, and their tables.

A pass over the whole domain for every table costs tables times cells. Tables of few
attributes share intermediate ones instead. Every set of h attributes misses at least
one of h + 1 groups of attributes. So h + 1 passes over the domain, each of which sums
one group out, leave tables that together contain all that is asked; so on inside each.
The transposed product walks the same tree from the leaves to the root.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, combinations
from operator import or_

import numpy as np

from mmech.arrays import Floats, Subset
from mmech.exceptions import DomainTooLargeError
from mmech.limits import LIMITS
from mmech.operators.base import Array


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
    inside = chain.from_iterable(combinations(block, k) for k in range(most + 1))
    return [numbers[subset] for subset in inside if subset in numbers]


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


# ---- tables, each summed from a smaller one ----------------------------------


class TableTree:
    """A plan of which table is summed from which.

    Parameters
    ----------
    domain_shape : sequence of int
        Number of values of every attribute.
    subsets : iterable of (sequence of int)
        Attributes of the tables that are asked for, numbered by position.

    Attributes
    ----------
    work : int
        Entries that are read to sum all tables, one column of counts.

    Examples
    --------
    >>> import numpy as np
    >>> from mmech.operators.subsets import TableTree
    >>> tree = TableTree((2, 2), [(0,), ()])
    >>> {number: table.ravel().tolist() for number, table in tree.sums(np.eye(4)[:1].T)}
    {0: [1.0, 0.0], 1: [1.0]}
    """

    def __init__(
        self, domain_shape: Sequence[int], subsets: Iterable[Sequence[int]]
    ) -> None:
        open_attributes = [i for i, n in enumerate(domain_shape) if n > 1]
        places = {i: 1 << bit for bit, i in enumerate(open_attributes)}
        self._sizes = [domain_shape[i] for i in open_attributes]
        self._numbers: dict[int, list[int]] = defaultdict(list)
        for number, subset in enumerate(subsets):
            self._numbers[sum(places.get(i, 0) for i in subset)].append(number)
        self._root = (1 << len(self._sizes)) - 1
        self._children = self._plan()
        self.work = sum(
            self._cells(table) * len(below) for table, below in self._children.items()
        )

    def _plan(self) -> dict[int, list[int]]:
        """Return the tables summed from every table, as bit masks."""
        children: dict[int, list[int]] = defaultdict(list)
        asked = defaultdict(set, {self._root: set(self._numbers) - {self._root}})
        by_order: list[list[int]] = [[] for _ in range(len(self._sizes) + 1)]
        by_order[-1].append(self._root)
        for tables in reversed(by_order):  # children have fewer attributes
            for table in tables:
                for child, inside in self._split(table, asked.pop(table, set())):
                    if child not in asked:
                        children[table].append(child)
                        by_order[child.bit_count()].append(child)
                    asked[child] |= inside
        return dict(children)

    def _split(self, table: int, asked: set[int]) -> Iterator[tuple[int, set[int]]]:
        """Yield the tables to sum from one, and what each of them has to answer."""
        if not asked:
            return
        union = reduce(or_, asked)
        if union != table:
            yield union, asked - {union}
            return
        groups = self._groups(table, 1 + max(map(int.bit_count, asked)))
        missing = {group: sum(not mask & group for mask in asked) for group in groups}
        left = asked
        for group in sorted(groups, key=missing.__getitem__, reverse=True):
            inside = {mask for mask in left if not mask & group}
            if inside:
                left = left - inside
                child = reduce(or_, inside)
                yield child, inside - {child}

    def _groups(self, table: int, count: int) -> list[int]:
        """Split the attributes of a table into runs of about as many cells each."""
        bits = attributes_of(table)
        logs = [math.log(self._sizes[bit]) for bit in bits]
        groups, filled, total = [0], 0.0, sum(logs)
        for place, (bit, log) in enumerate(zip(bits, logs, strict=True)):
            needed = count - len(groups)
            full = filled + log / 2 > total * len(groups) / count
            if groups[-1] and needed and (full or len(bits) - place <= needed):
                groups.append(0)
            groups[-1] |= 1 << bit
            filled += log
        return groups

    def _cells(self, table: int) -> int:
        return math.prod(self._sizes[bit] for bit in attributes_of(table))

    def _axes(
        self, table: int, child: int, columns: int
    ) -> tuple[list[int], list[int]]:
        """Return the shape of a table with runs of axes joined, and which ones stay."""
        shape, kept = [1], [True]
        for bit in attributes_of(table):
            stays = bool(child >> bit & 1)
            if kept[-1] == stays:
                shape[-1] *= self._sizes[bit]
            else:
                shape.append(self._sizes[bit])
                kept.append(stays)
        if kept[-1]:
            shape[-1] *= columns
        else:
            shape.append(columns)
            kept.append(True)
        return shape, [axis for axis, stays in enumerate(kept) if stays]

    def sums(self, x: Array) -> Iterator[tuple[int, Array]]:
        """Yield the number and the table (n_a, k) of everything that is asked for.

        Of C-contiguous counts of the cells (n, k), in their dtype: exact for integers.
        """
        columns = x.shape[1]
        stack = [(self._root, self._root, x)]
        while stack:
            parent, mask, table = stack.pop()
            if parent != mask:
                shape, kept = self._axes(parent, mask, columns)
                axes = list(range(len(shape)))
                table = np.einsum(table.reshape(shape), axes, kept)
                table = table.reshape(self._cells(mask), columns)
            for number in self._numbers.get(mask, ()):
                yield number, table
            stack += [(mask, child, table) for child in self._children.get(mask, ())]

    def spread(self, tables: Mapping[int, Array] | Sequence[Array]) -> Array:
        """Return the sum over tables of what a cell finds in its entry of each, (n, k).

        `tables` are arrays of one dtype and of shape (n_a, k), one for every number.
        """
        return self._collect(self._root, tables)

    def _collect(
        self, mask: int, tables: Mapping[int, Array] | Sequence[Array]
    ) -> Array:
        asked = [tables[number] for number in self._numbers.get(mask, ())]
        total = reduce(np.add, asked[1:], asked[0].copy()) if asked else None
        for child in self._children.get(mask, ()):
            part = self._collect(child, tables)
            columns = part.shape[1]
            shape, kept = self._axes(mask, child, columns)
            part = part.reshape([n if i in kept else 1 for i, n in enumerate(shape)])
            if total is None:
                total = np.array(np.broadcast_to(part, shape), order="C")
                total = total.reshape(self._cells(mask), columns)
            else:
                view = total.reshape(shape)
                view += part
        assert total is not None
        return total


def mask_of(attributes: Iterable[int]) -> int:
    """Return the bit mask of a subset of attributes."""
    return sum(1 << i for i in attributes)


def attributes_of(mask: int) -> tuple[int, ...]:
    """Return the subset of attributes of a bit mask."""
    return tuple(i for i, bit in enumerate(reversed(f"{int(mask):b}")) if bit == "1")
