"""A forest of which nothing but the labels of its leaves is released.

Every record trains one tree, drawn for it by the system's entropy and independently of
all others, and stands in one leaf of that tree. A label is drawn by permute-and-flip
from the class counts of its leaf. One record more changes one count of one leaf, so
that by parallel composition all labels together cost what one costs: its epsilon. A
replaced record may leave one leaf and enter another; permute-and-flip takes that for a
removal and an addition, at half the rate each.

References
----------
.. [1] Fletcher, Islam, "Differentially private random decision forests using smooth
   sensitivity", Expert Systems with Applications 2017 (labels of disjoint data).
.. [2] McKenna, Sheldon, "Permute-and-flip: a new mechanism for differentially private
   selection", NeurIPS 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mmech.noise import assign_records
from mmech.operators.base import product_of
from mmech.privacy.neighbours import Relation
from mmech.selection import flip
from mmech.storage.codec import storable
from mmech.strategies import block_partitions
from mmech_rf.arrays import Floats, Integers
from mmech_rf.blocks.settings import BlockSettings
from mmech_rf.blocks.votes import cells_of
from mmech_rf.private.votes import Experts, check_labels, check_that

__all__ = ["LABELS", "LabelForest", "draw_labels", "label_blocks"]

Subset = tuple[int, ...]

LABELS = "labels of the leaves of a disjoint forest"
"""Name of the release in ledgers and privacy statements."""


def label_blocks(
    domain_shape: Sequence[int],
    *,
    epsilon: float,
    n_records: float,
    settings: BlockSettings | None = None,
) -> list[Subset]:
    """Return the attributes of every tree: the longest blocks with records enough.

    Blocks of neighbours, a partition of the attributes; single attributes where the
    public number of records times epsilon is small. Settings say how many a leaf needs.
    """
    needed = (settings or BlockSettings()).label_records
    finest, *coarser = block_partitions(domain_shape)
    chosen = finest
    for blocks in coarser:
        leaves = max(product_of(domain_shape[i] for i in b) for b in blocks)
        if n_records * epsilon >= needed * len(blocks) * leaves:
            chosen = blocks
    return chosen


@storable("LabelForest")
@dataclass(frozen=True, eq=False)
class LabelForest(Experts):
    """Trees on blocks of attributes, each with one vote."""

    domain_shape: tuple[int, ...]
    blocks: tuple[Subset, ...]  # attributes of every tree
    labels: tuple[Integers, ...]  # class of every cell of the block, in C order
    n_classes: int

    voting = "labels"

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless there is a class for every cell of the blocks."""
        same = self.domain_shape == domain_shape and self.n_classes == n_classes
        check_that(same and min(map(min, self.blocks)) >= 0, "blocks")
        for block, labels in zip(self.blocks, self.labels, strict=True):
            size = product_of(domain_shape[i] for i in block)
            check_labels(labels, size, n_classes)

    def log_odds(self, codes: Integers) -> Floats:
        """Return log(1 + votes) of every class: Laplace's rule of succession."""
        votes = np.ones((codes.shape[0], self.n_classes))
        rows = np.arange(codes.shape[0])
        for block, labels in zip(self.blocks, self.labels, strict=True):
            votes[rows, labels[cells_of(codes, self.domain_shape, block)]] += 1
        return np.log(votes)


def draw_labels(
    codes: Integers,
    class_codes: Integers,
    *,
    domain_shape: tuple[int, ...],
    n_classes: int,
    blocks: Sequence[Subset],
    epsilon: Fraction,
    relation: Relation,
    noise: np.random.Generator | None,
) -> LabelForest:
    """Assign every record to one tree, and draw the labels of all leaves.

    The caller has paid epsilon for all labels together. Labels of empty leaves are
    drawn like all others, so that nothing shows which are empty. Proof:
    ``notebooks/proofs/leaf_labels.md``.
    """
    trees = assign_records(codes.shape[0], len(blocks), insecure_rng=noise)
    labels = []
    for number, block in enumerate(blocks):
        here = trees == number
        counts = np.zeros((product_of(domain_shape[i] for i in block), n_classes), int)
        leaves = cells_of(codes[here], domain_shape, block)
        np.add.at(counts, (leaves, class_codes[here]), 1)
        drawn = [
            flip(row, epsilon, monotone=True, relation=relation, noise=noise)
            for row in counts
        ]
        labels.append(np.array(drawn, np.int64))
    return LabelForest(domain_shape, tuple(blocks), tuple(labels), n_classes)
