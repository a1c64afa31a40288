r"""What a tree may cost, by its records, and exact shares of that for every level.

Node levels are numbered from the root, 0, to the leaves, `n_levels`. A rule says which
weight the tests of levels 0 .. n_levels - 1 and the class counts of levels 0 ..
n_levels have; shares are weights over their sum, so that they add up exactly.

Every record goes to trees by itself, so that an added or removed record moves no other
one. `multiplicities` says how often each record is in each tree; `tree_epsilon` says
what a tree may cost so that all trees together cost epsilon:

========  ==========================================  ========================
disjoint  each record in one tree, drawn for it       epsilon
all       each record in each tree                    epsilon / trees
poisson   a bag per tree, each record K ~ Poisson(1)  log(1 + epsilon / trees)
========  ==========================================  ========================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from mmech.noise import assign_records, poisson_bags
from mmech.privacy.cost import poisson_bag_epsilon
from mmech.privacy.neighbours import Relation
from mmech_rf.arrays import Integers

ROOT_BITS = 40
"""Powers of the cube root of two are rounded down to multiples of 2**-40."""


@dataclass(frozen=True)
class Budget:
    """What the releases of one tree cost, level by level, in nats."""

    tests: tuple[Fraction, ...]  # of every level, from the root
    # for every level, from the root; the last are the leaves'
    counts: tuple[Fraction, ...]

    @property
    def total(self) -> Fraction:
        """Cost of the tree."""
        return sum((*self.tests, *self.counts), Fraction(0))


Weights = Sequence[Fraction]
Rule = Callable[[int, Fraction], tuple[Weights, Weights]]


def _at_leaves(n_levels: int, weight: Fraction) -> Weights:
    return [Fraction(0)] * n_levels + [weight]


def _powers(
    n_levels: int, leaves: Fraction, ratio: Fraction = Fraction(1)
) -> tuple[Weights, Weights]:
    raw = [ratio**level for level in range(n_levels)]
    tests = [(1 - leaves) * weight / sum(raw) for weight in raw]
    return tests, _at_leaves(n_levels, leaves)


def _hou(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    # Level i of d has 2 / (d - i + 1), half of it for a count, half for a choice; the
    # leaves have no choice.
    halves = [Fraction(1, n_levels + 1 - level) for level in range(n_levels + 1)]
    return halves[:-1], halves


def _liu(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    weights = [Fraction(1, n_levels + 1 - level) for level in range(n_levels + 1)]
    return weights[:-1], _at_leaves(n_levels, weights[-1])


def _guan(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    roots = [_cube_root(2**level) for level in range(n_levels)] or [Fraction(1)]
    counts = [leaves * root / sum(roots) for root in roots]
    counts = [Fraction(0)] * (n_levels + 1 - len(counts)) + counts
    return _powers(n_levels, leaves)[0], counts


def _alternating(n_levels: int, leaves: Fraction) -> tuple[Weights, Weights]:
    one = Fraction(1)
    return [one] * n_levels, [one * (n_levels == 0)] + [one] * n_levels


def _cube_root(number: int) -> Fraction:
    """Return the cube root of a whole number, rounded down to 2**-40."""
    scaled, low, high = number << 3 * ROOT_BITS, 0, number << ROOT_BITS + 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**3 <= scaled else (low, middle - 1)
    return Fraction(low, 2**ROOT_BITS)


RULES: dict[str, Rule] = {
    "uniform": _powers,
    "geometric": partial(_powers, ratio=Fraction(3, 2)),
    "hou": _hou,
    "liu": _liu,
    "guan": _guan,
    "alternating": _alternating,
}
"""Rules by name: weights of the tests and of the counts. Their arguments are the number
of levels with tests and the share of the leaves, which only some rules use."""


def shares(rule: str, n_levels: int, leaves: Fraction) -> Budget:
    """Return the share of every release of a tree; they sum to one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from mmech_rf.literature.budgets import shares
    >>> shares("liu", 2, Fraction(1, 2))  # doctest: +NORMALIZE_WHITESPACE
    Budget(tests=(Fraction(2, 11), Fraction(3, 11)),
           counts=(Fraction(0, 1), Fraction(0, 1), Fraction(6, 11)))
    """
    tests, counts = RULES[rule](n_levels, leaves)
    total = sum((*tests, *counts), Fraction(0))
    return Budget(tuple(w / total for w in tests), tuple(w / total for w in counts))


# ---- which records train which tree ---------------------------------------------


def tree_epsilon(
    records: str, epsilon: Fraction, n_trees: int, relation: Relation
) -> Fraction:
    """Return what the releases of one tree may cost in all.

    Costs of bags hold for one added or removed record, and trees of bags are calibrated
    to that. For neighbours further apart, epsilon is divided here.
    """
    if records == "disjoint":
        return epsilon
    if records == "all":
        return epsilon / n_trees
    return poisson_bag_epsilon(epsilon / (n_trees * relation.factor))


def multiplicities(
    records: str,
    n_records: int,
    n_trees: int,
    noise: np.random.Generator | None,
) -> Integers:
    """Draw how often each record is in each tree, shape (n_records, n_trees).

    Sensitive, because its length is.
    """
    if records == "disjoint":
        trees = assign_records(n_records, n_trees, insecure_rng=noise)
        return (trees[:, None] == np.arange(n_trees)).astype(np.int64)
    if records == "all":
        return np.ones((n_records, n_trees), np.int64)
    return poisson_bags(n_records, n_trees, insecure_rng=noise)
