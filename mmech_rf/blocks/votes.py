"""How the trees of a forest on blocks of attributes vote, from released tables."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mmech import Marginals, MaximumEntropy, Measurement, ShrunkEstimate
from mmech.operators.base import product_of
from mmech.storage.codec import storable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.blocks.settings import BlockSettings
from mmech_rf.private.votes import Experts, check_that

__all__ = [
    "Differences",
    "Distribution",
    "LogOdds",
    "Weights",
    "cells_of",
    "check_estimate",
    "measured_tables",
]

Subset = tuple[int, ...]


NEGLIGIBLE = 1e-6
"""Numerical guard: least variance of noise in a count. That of a huge epsilon rounds to
zero."""


def measured_tables(
    strategy: Marginals, measurement: Measurement
) -> tuple[Marginals, Floats]:
    """Return the tables that marginals measure, and the variances of their noise."""
    tables = Marginals(strategy.domain_shape, dict.fromkeys(strategy.weights, 1))
    variance = np.broadcast_to(measurement.variance, (tables.shape[0],))
    return tables, np.maximum(variance, NEGLIGIBLE)


def cells_of(codes: Integers, domain_shape: tuple[int, ...], block: Subset) -> Integers:
    """Return the cell of a block, in C order, that every record is in, shape (N,)."""
    out = np.zeros(codes.shape[0], np.int64)
    for i in block:
        out = out * domain_shape[i] + codes[:, i]
    return out


def check_estimate(
    estimate: ShrunkEstimate, domain_shape: tuple[int, ...], n_columns: int
) -> None:
    """Raise unless an estimate, of a file that anyone may have written, fits."""
    of = estimate.domain_shape, estimate.n_columns
    check_that(of == (domain_shape, n_columns), "estimates")
    contrasted = estimate.common.keys() if n_columns > 1 else set()
    check_that(estimate.contrasts.keys() == contrasted, "estimates")
    for parts in (estimate.common, estimate.contrasts):
        for s, part in parts.items():
            check_that(list(s) == sorted({i for i in s if i >= 0}), "sets")
            shape = (*(domain_shape[i] for i in s), n_columns)
            check_that(part.table.shape == shape, "tables")
            check_that(0 <= part.rank <= part.table.size, "ranks")
            shrunk = 0 <= part.factor <= 1 + 1e-9 and 0 < part.noise < math.inf
            check_that(shrunk and math.isfinite(part.evidence), "factors")


@storable("LogOdds")
@dataclass(frozen=True, eq=False)
class LogOdds(Experts):
    """Product of experts: log p(c) + Σ_a log p(x_a | c) from shrunk tables."""

    estimate: ShrunkEstimate  # of the tables of all blocks, by class
    blocks: tuple[Subset, ...]  # disjoint
    settings: BlockSettings = field(default_factory=BlockSettings)

    voting = "log-odds"

    @cached_property
    def class_shares(self) -> Floats:
        """Shares of the classes, shape (k,)."""
        totals = self.estimate.marginal(())[0]
        total = max(float(totals.sum()), 1.0)
        totals = np.maximum(totals, self.settings.prior_floor * total / totals.size)
        return np.asarray(totals / totals.sum())

    @cached_property
    def log_tables(self) -> list[Floats]:
        """Tables of log p(x_a | c) of all blocks, each of shape (n_a, k)."""
        return [self._log_table(block) for block in self.blocks]

    def _log_table(self, block: Subset) -> Floats:
        """Return log p(x_a | c), smoothed by the deviation of the counts, (n_a, k)."""
        deviation = np.sqrt(self.estimate.variance(block))
        added = np.maximum(deviation, self.settings.smoothing) * self.class_shares
        smooth = np.maximum(self.estimate.marginal(block), 0.0) + added
        return np.log(smooth / smooth.sum(axis=0))

    def cells(self) -> Floats:
        """Return expected counts of all cells, shape (n, k): the product of experts."""
        sizes = self.estimate.domain_shape
        axes = {i: n for i, n in enumerate(sizes) if n > 1}  # NumPy has 64
        k = self.class_shares.size
        out = np.broadcast_to(np.log(self.class_shares), (*axes.values(), k))
        for block, table in zip(self.blocks, self.log_tables, strict=True):
            shape = [n if i in block else 1 for i, n in axes.items()]
            out = out + table.reshape(*shape, -1)
        raised = np.exp(out - out.max()).reshape(-1, k)
        total = max(float(self.estimate.marginal(()).sum()), 1.0)
        return np.asarray(raised * (total / raised.sum()))

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless the tables are those of the classes."""
        check_estimate(self.estimate, domain_shape, n_classes)

    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        out = np.tile(np.log(self.class_shares), (codes.shape[0], 1))
        for block, table in zip(self.blocks, self.log_tables, strict=True):
            out += table[cells_of(codes, self.estimate.domain_shape, block)]
        return out


@storable("Weights")
@dataclass(frozen=True, eq=False)
class Weights(Experts):
    """Shrunk contrasts between the classes, for attributes taken as evenly spread.

    With n times the contrast of a cell over N the excess of a class's probability over
    1/k, the log-odds are k times that, to first order.
    """

    estimate: ShrunkEstimate  # of tables by class
    n_records: float

    voting = "weight"

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless the tables are those of the classes."""
        check_estimate(self.estimate, domain_shape, n_classes)
        check_that(0 < self.n_records < math.inf, "numbers of records")

    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        contrasts = self.estimate.contrast_scores(codes)
        return contrasts * (contrasts.shape[1] / self.n_records)


@storable("Differences")
class Differences(Weights):
    """`Weights` of the first of two classes less the second, of a signed release."""

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless the tables are differences of two classes."""
        check_that(n_classes == 2, "differences")
        super().check(domain_shape, 1)

    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, 2)."""
        margin = self.estimate.contrast_scores(codes) / self.n_records
        return np.hstack([margin, -margin])


@storable("Distribution")
@dataclass(frozen=True, eq=False)
class Distribution(Experts):
    """The joint distribution of cells and classes of maximum entropy."""

    fit: MaximumEntropy  # to tables by class, of blocks that share no attribute

    voting = "maximum-entropy"

    def check(self, domain_shape: tuple[int, ...], n_classes: int) -> None:
        """Raise unless the tables are distributions of separate blocks."""
        fit, listed = self.fit, [i for group in self.fit.groups for i in group]
        check_that(fit.domain_shape == domain_shape and not any(fit.separators), "sets")
        check_that(len(set(listed)) == len(listed) and min(listed) >= 0, "sets")
        check_that(0 < fit.total < math.inf, "totals")
        sizes = [product_of(domain_shape[i] for i in group) for group in fit.groups]
        shapes = [(size, n_classes) for size in sizes]
        check_that([table.shape for table in fit.log_tables] == shapes, "tables")
        check_that(fit.log_columns.shape == (n_classes,), "tables")
        for table in (fit.log_columns, *fit.log_tables):
            check_that(np.allclose(np.exp(table).sum(axis=0), 1), "probabilities")

    def log_odds(self, codes: Integers) -> Floats:
        """Return log probabilities of the classes up to a constant, shape (b, k)."""
        return self.fit.log_joint(codes)
