r"""Which records train which tree, and what a tree may then cost.

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

from fractions import Fraction

import numpy as np

from mmech.noise import assign_records, poisson_bags
from mmech.privacy.cost import poisson_bag_epsilon
from mmech.privacy.neighbours import Relation
from mmech_rf.arrays import Integers

RECORDS = ("disjoint", "all", "poisson")


def tree_epsilon(
    records: str, epsilon: Fraction, n_trees: int, relation: Relation
) -> Fraction:
    """Return what the releases of one tree may cost in all.

    Costs of bags hold for one record that is added or removed, so that their trees are
    calibrated to that, and neighbours further apart divide epsilon here.
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
