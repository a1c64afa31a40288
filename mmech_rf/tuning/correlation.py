"""The prior on the signal and the closed forms that judge a setting by it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from mmech import Marginals, optimize
from mmech.operators.subsets import marginal_precisions
from mmech_rf.arrays import Floats, Integers
from mmech_rf.forest.ensembles import draw_features, spawn
from mmech_rf.schema import Schema

__all__ = ["Ensembles", "Prior", "View", "views_of"]

LARGEST = 1e290
"""Arithmetic: larger numbers of cells, and of subsets, count as this one."""

SEARCH = 400
"""Evaluations of the search for marginals, as a bound on the time."""


@dataclass(frozen=True)
class Prior:
    """What is assumed of the signal, see `tune`."""

    shape: tuple[int, ...]
    n_classes: int
    n_records: int
    gamma: float
    decay: float
    contrast: float

    @property
    def cells(self) -> float:
        """Number n of cells, at most what floats hold."""
        return min(math.prod(float(size) for size in self.shape), LARGEST)

    @property
    def n_open(self) -> int:
        """Number of attributes with more than one value."""
        return sum(size > 1 for size in self.shape)

    @cached_property
    def energies(self) -> Floats:
        """Energy of every order of interaction of a class contrast, squared counts."""
        shares = self.decay ** np.arange(self.n_open + 1.0)
        spread = self.contrast / self.cells**self.gamma * shares / shares.sum()
        # No table of N records has more than N² / n for every one of their ranks.
        most = np.zeros(self.n_open + 1)
        most[0] = 1.0
        for size in self.shape:
            more = most[1:] + (size - 1.0) * most[:-1]
            most[1:] = np.minimum(more, LARGEST)
        energies = np.minimum(spread, most / self.cells)
        return self.n_records**2 / (self.n_classes - 1) * energies

    def signal(self, orders: Integers) -> Floats:
        """Return g_s m_s of subsets of these orders."""
        counts = [
            min(math.comb(self.n_open, j), LARGEST) for j in range(self.n_open + 1)
        ]
        return (self.energies / np.array(counts, float))[orders]


@dataclass(frozen=True)
class View:
    """The attributes that an ensemble sees, those with more than one value."""

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def m(self) -> int:
        """How many they are."""
        return len(self.sizes)


def views_of(schema: Schema, q: int, size: int, seed: int) -> list[View]:
    """Return what the ensembles of a classifier with this seed would see."""
    views = []
    for word in spawn(seed, q):
        drawn = draw_features(np.random.default_rng(word), schema.n_features, size)
        kept = tuple(i for i in drawn.tolist() if schema.domain_shape[i] > 1)
        views.append(View(kept, tuple(schema.domain_shape[i] for i in kept)))
    return views


def _supersets(values: Floats, m: int) -> Floats:
    """Return the sum over all supersets, for every one of the 2^m subsets."""
    sums = values.copy()
    for i in range(m):
        pairs = sums.reshape(-1, 2, 2**i)
        pairs[:, 0] += pairs[:, 1]
    return sums


@dataclass(frozen=True, eq=False)
class _Lattice:
    """All subsets of the attributes of an ensemble, as bits."""

    orders: Integers
    ranks: Floats
    cells: Floats


@cache
def _lattice(sizes: tuple[int, ...]) -> _Lattice:
    orders, ranks, cells = np.zeros(1, np.int64), np.ones(1), np.ones(1)
    for size in sizes:
        orders = np.concatenate([orders, orders + 1])
        ranks = np.concatenate([ranks, ranks * (size - 1.0)])
        cells = np.concatenate([cells, cells * size])
    return _Lattice(orders, ranks, cells)


@cache
def _searched(sizes: tuple[int, ...], depth: int) -> tuple[Floats, float]:
    """Return k_s of optimized marginals of unit sensitivity, and their loss."""
    subsets = [s for s in _subsets(len(sizes)) if len(s) == depth]
    asked = Marginals(sizes, dict.fromkeys(subsets, 1))
    found = optimize(asked, template="marginals", seed=0, max_evaluations=SEARCH)
    weights = getattr(found.strategy, "weights", {tuple(range(len(sizes))): 1.0})
    total = sum(weights.values())
    terms = [(subset, (w / total) ** 2) for subset, w in weights.items()]
    return marginal_precisions(terms, _subsets(len(sizes)), sizes), found.loss


@cache
def _subsets(m: int) -> list[tuple[int, ...]]:
    return [tuple(i for i in range(m) if bits >> i & 1) for bits in range(2**m)]


class Ensembles:
    """Closed forms of ensembles of trees of one depth."""

    def __init__(
        self, views: list[View], depth: int, prior: Prior, epsilon: float
    ) -> None:
        self.views = views
        self.depth = depth
        self.prior = prior
        self.variance = 2.0 * (len(views) / epsilon) ** 2  # of a unit measurement
        used = sorted(set().union(*(view.attributes for view in views)))
        place = {attribute: i for i, attribute in enumerate(used)}
        names = []
        for view in views:
            bits = np.zeros(1, np.int64)
            for attribute in view.attributes:
                bits = np.concatenate([bits, bits | (1 << place[attribute])])
            names.append(bits)
        self.subsets, places = np.unique(np.concatenate(names), return_inverse=True)
        ends = np.cumsum([bits.size for bits in names])[:-1]
        self.places = np.split(places.ravel(), ends)
        # Mean over the trees of 1 / n_a and of its square, for the subsets inside a.
        self.first, self.second = [], []
        for view in views:
            lattice = _lattice(view.sizes)
            h = min(depth, view.m)
            inverse = np.where(lattice.orders == h, 1.0 / lattice.cells, 0.0)
            count = math.comb(view.m, h)
            self.first.append(_supersets(inverse, view.m) / count)
            self.second.append(_supersets(inverse**2, view.m) / count)
        self.judged: dict[tuple[int, float, str], tuple[str, Floats]] = {}

    def judge(
        self, mode: str, n_trees: float, template: str
    ) -> tuple[str, float, float]:
        """Return what is measured, the correlation and the expected error."""
        prior, q = self.prior, len(self.views)
        n, k = prior.cells, prior.n_classes
        mean = np.zeros(self.subsets.size)
        variance = np.zeros(self.subsets.size)
        # Votes are in units of n, and their variance in units of its square.
        noise = error = 0.0
        measured: list[str] = []
        for i, view in enumerate(self.views):
            lattice = _lattice(view.sizes)
            first, second = self.first[i], self.second[i]
            if n_trees == math.inf:
                trees = float(math.comb(view.m, min(self.depth, view.m)))
                own = (trees * first, np.zeros_like(first))
            else:
                trees = float(n_trees // q + (i < n_trees % q))
                own = (trees * first, trees * (second - first**2))
            if mode == "subsample":
                # A tree has 1 / τ of the records, leaves are measured one by one.
                own = (own[0] / trees, own[1] / trees**2)
                measured.append("identity")
                noise += trees * self.variance / n
                noise += first[0] * prior.n_records / k / n
                error += k * trees * self.variance
            else:
                name, precisions = self._strategy(i, trees, template)
                measured.append(name)
                gains = np.divide(
                    lattice.cells * lattice.ranks * self.variance,
                    precisions,
                    out=np.zeros_like(precisions),
                    where=first > 0,
                )
                votes = ((own[0] ** 2 + own[1]) * gains).sum()
                noise += votes / n
                leaves = trees * (first * gains).sum()
                error += k * (leaves if mode == "training" else votes)
            np.add.at(mean, self.places[i], own[0])
            np.add.at(variance, self.places[i], own[1])
        orders = np.zeros(self.subsets.size, np.int64)
        for i, view in enumerate(self.views):
            orders[self.places[i]] = _lattice(view.sizes).orders
        signal = prior.signal(orders)
        if mode != "subsample":
            ranks = np.zeros(self.subsets.size)
            for i, view in enumerate(self.views):
                ranks[self.places[i]] = _lattice(view.sizes).ranks
            sampling = prior.n_records / (n * k)
            noise += ((mean**2 + variance) * ranks).sum() * sampling
        spread = ((mean**2 + variance) * signal).sum() + noise
        total = float(prior.energies.sum())
        both = math.sqrt(total) * math.sqrt(spread)
        correlation = float((mean * signal).sum() / both)
        return "+".join(sorted(set(measured))), correlation, float(error)

    def _strategy(self, i: int, trees: float, template: str) -> tuple[str, Floats]:
        """Return a strategy of unit sensitivity as k_s, see `marginal_precisions`."""
        key = (i, trees, template)
        if key not in self.judged:
            self.judged[key] = self._find(i, trees, template)
        return self.judged[key]

    def _find(self, i: int, trees: float, template: str) -> tuple[str, Floats]:
        view, first = self.views[i], self.first[i]
        lattice = _lattice(view.sizes)
        cells = ("identity", lattice.cells / lattice.cells[-1])
        if template == "workload":
            return "workload", lattice.cells * first / trees
        h = min(self.depth, view.m)
        if template == "identity" or h == view.m:
            return cells
        if template == "auto" and 2 * h > view.m:
            return cells  # marginals of that order are never cheaper than the cells
        precisions, loss = _searched(view.sizes, h)
        identity = math.comb(view.m, h) * lattice.cells[-1]
        if template == "marginals" or loss < identity * (1 - 1e-6):
            return "marginals", precisions
        return cells
