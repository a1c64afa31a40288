"""Cliques in a tree, so that messages between them add up a distribution exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from mmech.arrays import Subset
from mmech.operators.base import product_of


@dataclass(frozen=True)
class Clique:
    """Attributes that are listed together, sorted.

    `separator` holds those in common with the clique before it in the tree.
    """

    attributes: Subset
    separator: Subset = ()


def junction_tree(blocks: Iterable[Subset], sizes: Sequence[int]) -> list[Clique]:
    """Return cliques, parents first, of which one holds every block of attributes.

    Attributes that are connected by blocks become one tree. An attribute that is in two
    cliques is in all of those between them: running intersection, by which sums over
    the tree are exact [1]_ [2]_. Cliques come from eliminating attributes one by one,
    that with the fewest cells among its neighbours first.

    References
    ----------
    .. [1] Lauritzen, Spiegelhalter, "Local computations with probabilities on graphical
       structures", Journal of the Royal Statistical Society B 50(2), 1988.
    .. [2] Koller, Friedman, "Probabilistic graphical models", 2009, Chapter 10.

    Examples
    --------
    >>> from mmech.marginals.junction_tree import junction_tree
    >>> [c.attributes for c in junction_tree([(0, 1), (1, 2), (3,)], (2, 2, 2, 2))]
    [(0, 1), (1, 2), (3,)]
    """
    found = _maximal_cliques(list(blocks), sizes)
    waiting = sorted(found, key=sorted)
    placed: list[Clique] = []
    while waiting:
        # The next one has most in common with one that is placed (Prim).
        pairs = [(i, j) for i in range(len(waiting)) for j in range(len(placed))]
        i, parent = max(
            pairs,
            key=lambda pair: len(waiting[pair[0]] & set(placed[pair[1]].attributes)),
            default=(0, -1),
        )
        clique = waiting.pop(i)
        shared = clique & set(placed[parent].attributes) if placed else set()
        placed.append(Clique(tuple(sorted(clique)), tuple(sorted(shared))))
    return placed


def _maximal_cliques(blocks: list[Subset], sizes: Sequence[int]) -> list[set[int]]:
    """Return the maximal cliques of a triangulation of the graph of blocks."""
    near: dict[int, set[int]] = {i: set() for block in blocks for i in block}
    for block in blocks:
        for i, j in combinations(block, 2):
            near[i].add(j)
            near[j].add(i)
    found: list[set[int]] = []
    while near:
        i = min(near, key=lambda a: (product_of(sizes[b] for b in near[a] | {a}), a))
        clique = near.pop(i) | {i}
        for j in clique - {i}:
            near[j] = (near[j] | clique) - {i, j}
        if not any(clique <= other for other in found):
            found.append(clique)
    return found
