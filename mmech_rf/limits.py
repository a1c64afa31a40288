"""Size limits of forests; `mmech.limits` has those of the engine.

>>> from mmech_rf import limits
>>> with limits.changed(forest_nodes=2**30):
...     limits.LIMITS.forest_nodes
1073741824
"""

from __future__ import annotations

from dataclasses import dataclass

from mmech.limits import ChangeableLimits, limit


@dataclass
class Limits(ChangeableLimits):
    """Size limits of forests, their workloads and their classifiers.

    Attributes
    ----------
    forest_nodes : int
        Most nodes of a forest that is grown: 2 GiB, well inside int32. More is refused.
    complete_trees, complete_leaves : int
        Most trees and leaves of a complete forest: every leaf is a query to be
        answered, every tree a table. More is refused.
    cut_values : int
        Most values of all attributes with two-way tests: 1 GiB of tables while growing.
        More is refused.
    label_entries : int
        Most labels, trees times cells, that are listed for all cells: 2 GiB of int32.
        More is refused.
    mask_entries : int
        Most entries of leaf masks: 1 GiB. More is refused.
    routed_records : int
        Records routed through a forest at a time, so that memory stays bounded.
    counted_records : int
        Records of an array that are encoded and counted at a time.
    voting_records : int
        Records whose votes are collected at a time.
    stored_labels : int
        Most labels that a training workload stores: 512 MiB. Above it boxes stand for
        leaves.
    explicit_nonzeros : int
        Most nonzeros of an aggregation or prediction workload that is multiplied out.
    explicit_labels : int
        Labels listed at once on the way there.
    count_entries : int
        Most counts of a classifier, cells or leaves times classes: 256 MiB. More is
        refused.
    tree_cells : int
        Most cells times trees of a model that is released once, each of which the
        optimization visits a few times. More is refused.
    batch_tree_cells : int
        The same where every query of a batch visits them.
    explicit_visits : int
        Queries times trees times cells of a batch above which its workload is
        multiplied out.
    batch_visits : int
        The same above which a batch is refused where that takes too much memory.
    inferred_cells : int
        Most cells of a domain that is read from the records: numeric attributes get
        fewer bins.
    tuned_attributes : int
        Most attributes whose subsets a tuning lists. More is refused.
    monotone_cells : int
        Most cells of all monotone attributes together: a prediction looks at all of
        them, for all records that differ from each other in nothing else. More is
        refused.
    monotone_numbers : int
        Cells of monotone attributes, of all records of a prediction, per block.
    draw_visits : int
        Records that the draw of a tree looks at, counted once for each pair of a view
        and one below it. Views beyond that do not come first in a tree.
    coarse_visits : int
        The same for coarse single attributes, of distinct records, which are counted
        many at a time.
    """

    forest_nodes: int = limit(2**28, most=2**31 - 1)
    complete_trees: int = 100_000
    complete_leaves: int = 2**24
    cut_values: int = 2**27
    label_entries: int = 2**29
    mask_entries: int = 2**30
    routed_records: int = limit(2**16, least=1)
    counted_records: int = limit(2**20, least=1)
    voting_records: int = limit(2**15, least=1)
    stored_labels: int = 2**27
    explicit_nonzeros: int = 2**25
    explicit_labels: int = 2**24
    count_entries: int = 2**25
    tree_cells: int = 2**27
    batch_tree_cells: int = 2**25
    explicit_visits: int = 2**28
    batch_visits: int = 2**32
    inferred_cells: int = 10**6
    tuned_attributes: int = 16
    monotone_cells: int = 2**16
    monotone_numbers: int = 2**20
    draw_visits: int = 3 * 10**8
    coarse_visits: int = 2 * 10**10


LIMITS = Limits()
"""Limits in force."""

changed = LIMITS.changed
