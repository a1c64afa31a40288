"""Releases of tables and of a stream, stage by stage, beside explicit matrices.

Contenders add NumPy's noise in floating point, which gives no guarantee for the bits.
"""

import warnings
from itertools import combinations
from unittest.mock import patch

import numpy as np

from mmech import (
    Attribute,
    Counts,
    Domain,
    PrivacyLeakWarning,
    Stream,
    all_marginals,
    release_tables,
)
from mmech.tables import MeasuredTables
from mmech.tables.release import release

from ._common import check, dense_pinv

SIZE, RECORDS = 4, 10_000


class ReleaseTables:
    """All pairs of attributes of four values: planned, measured, finished.

    Four attributes are measured at once, six in steps. The contender has one scale of
    noise, and finishes by a pseudoinverse that it has planned.
    """

    params = ([4, 6],)
    param_names = ("attributes",)

    def setup(self, d):
        rng = np.random.default_rng(0)
        names = [f"a{i}" for i in range(d)]
        values = list(range(SIZE))
        self.domain = Domain([Attribute.categorical(name, values) for name in names])
        first = rng.integers(0, SIZE, (RECORDS, 1))
        self.codes = (first + rng.integers(0, 2, (RECORDS, d))) % SIZE
        self.records = Counts(self.codes, self.domain.shape)
        self.matrix = all_marginals((SIZE,) * d, 2).to_dense().astype(float)
        self.plan, self.pinv = self.time_plan_mmech(d), self.time_plan_dense(d)
        self.measured, self.noisy = self.time_measure_mmech(d), self.measure_numpy()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            exact = release_tables(self.codes, self.domain, ways=2, epsilon=10**6)
        counts = [exact.table(pair, frame="dict")["count"] for pair in self.plan.tables]
        check(np.concatenate(counts), self.finish_dense(self.measure_numpy(0)))

    def measure_numpy(self, scale=1.0):
        tables = []
        for i, j in combinations(range(self.codes.shape[1]), 2):
            place = self.codes[:, i] * SIZE + self.codes[:, j]
            tables.append(np.bincount(place, minlength=SIZE**2))
        noise = np.random.default_rng().laplace(size=len(tables) * SIZE**2)
        return np.concatenate(tables) + scale * len(tables) * noise

    def finish_dense(self, noisy):
        return np.maximum(np.rint(self.matrix @ (self.pinv @ noisy)), 0)

    def time_plan_mmech(self, d):
        return release_tables(None, self.domain, ways=2, epsilon=1, dry_run=True)

    def time_plan_dense(self, d):
        return dense_pinv(self.matrix)

    def time_measure_mmech(self, d):
        own = {"ledger": None, "say": str, "insecure_rng": None}
        with patch.object(MeasuredTables, "finish", lambda measured, say: measured):
            return release(self.plan, self.records, **own)

    def time_measure_numpy(self, d):
        self.measure_numpy()

    def time_finish_mmech(self, d):
        return self.measured.finish()

    def time_finish_dense(self, d):
        self.finish_dense(self.noisy)


class PlanLevels:
    """Tables by levels of two hierarchies in one plan, beside one call for each.

    Calls have the best shares of the budget: cube roots of their errors.
    """

    tables = ("city", "region", ("job", "sex"), "field", ("region", "field"), "sex")

    def setup(self):
        tree = {f"r{i}": [f"r{i}.{j}" for j in range(9 - i)] for i in range(6)}
        levels = ("city", "region"), ("job", "field")
        places = [Attribute.hierarchy(name, tree, [up]) for name, up in levels]
        self.domain = Domain([*places, Attribute.categorical("sex", ["f", "m"])])
        calls = sum(plan.squared_error ** (1 / 3) for plan in self.time_plan_calls())
        assert self.time_plan_mmech().squared_error < calls**3

    def plan(self, tables):
        return release_tables(None, self.domain, tables=tables, epsilon=1, dry_run=True)

    def time_plan_mmech(self):
        return self.plan(self.tables)

    def time_plan_calls(self):
        return [self.plan([table]) for table in self.tables]


class Tree:
    """Sums over time by a binary tree of counts, with noise in floating point."""

    def __init__(self, n, scale):
        self.sums, self.time = np.zeros(n.bit_length()), 0
        self.noisy = np.zeros(n.bit_length())
        self.rng, self.scale = np.random.default_rng(), scale * n.bit_length()

    def push(self, count):
        self.time += 1
        level = (self.time & -self.time).bit_length() - 1
        self.sums[level] = self.sums[:level].sum() + count
        self.noisy[level] = self.sums[level] + self.rng.laplace() * self.scale
        self.sums[:level] = self.noisy[:level] = 0
        return self.noisy.sum()


class ToeplitzRoot:
    """Sums over time by the square root of prefix sums, which DP-FTRL measures."""

    def __init__(self, n, scale):
        steps = 1 - 0.5 / np.arange(1, n)
        self.row = np.cumprod(np.append(1.0, steps))
        self.noise = np.random.default_rng().normal(
            size=n, scale=scale * np.linalg.norm(self.row)
        )
        self.sum = self.time = 0

    def push(self, count):
        self.sum += count
        self.time += 1
        return self.sum + self.row[: self.time] @ self.noise[self.time - 1 :: -1]


class Streams:
    """A stream that is made, and then takes 256 counts, one by one."""

    params = (["epsilon", "rho"],)
    param_names = ("currency",)
    number = 1  # a stream answers each time once

    def setup(self, currency):
        self.peer = {"epsilon": Tree, "rho": ToeplitzRoot}[currency]
        self.counts = np.random.default_rng(0).integers(0, 100, 256).tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyLeakWarning)
            exact = Stream(horizon=256, **{currency: 10**9})
            ours = [exact.push(count) for count in self.counts]
        sums = np.cumsum(self.counts)
        check(ours, sums, rtol=1e-6)
        peer = self.peer(256, 0.0)
        check([peer.push(count) for count in self.counts], sums)
        self.stream = self.time_make_mmech(currency)
        self.contender = self.time_make_numpy(currency)

    def time_make_mmech(self, currency):
        cost = {"epsilon": 1, "rho": "1/2"}[currency]
        return Stream(horizon=256, **{currency: cost})

    def time_make_numpy(self, currency):
        return self.peer(256, 1.0)

    def time_push_mmech(self, currency):
        for count in self.counts:
            self.stream.push(count)

    def time_push_numpy(self, currency):
        for count in self.counts:
            self.contender.push(count)
