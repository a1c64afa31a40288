r"""Simulated tasks: records with known class probabilities, drawn from a public prior.

What follows from public numbers alone, such as shares of a budget, can be fitted on
tasks like these in place of real records. The prior, in the order in which it is drawn:

* **attributes**: 4 to 30, evenly in their logarithm; all of 2 values, all of one number
  of values, of 2 to 16 each, or of 2 to 64; attributes of 24 values or more are numbers
  between wide public bounds, with most records near one end;
* **records**: a mixture of one to three clusters, in each of which attributes are
  independent, with even or uneven shares of their values; a third of the tasks spread
  evenly over the whole domain;
* **classes**: 2 in half of the tasks, otherwise 3 to 8, few more often than many;
* **what they follow**, each as likely as the others: *additive* scores of some
  attributes, in the order of their values or in none; a *tree* of 2 to 6 levels;
  *interactions*, sums of parities of 2 to 4 attributes; *rules*, as experts write them:
  tables, ordered but for some exceptions, make one grade out of two or three, down to
  the class; or a mixture of two of these;
* **imbalance**: shares of classes from a flat Dirichlet distribution with parameter 2,
  as far as what they follow allows;
* **noise**: in half of the tasks the class is a function of the record, in the others
  the scores are log-odds; and none, or up to a fifth, of the labels are drawn anew
  from the shares of classes.

Tasks whose attributes tell next to nothing of the class are drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, softmax

from mmech_rf import Attribute, Schema

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Scores = Callable[[Codes], Floats]

KINDS = ("additive", "tree", "interactions", "rules", "mixed")

SCORECARD = "scorecard"
"""What classes follow on request: log-odds that are a sum over all attributes."""

REFERENCE = 2000
"""Records of a task that shares of its classes are set by."""

NUMBER = 24
"""Cells from which an attribute is a number between wide bounds."""

LEAST_GAIN = 0.03
"""Accuracy that attributes are worth at least."""


@dataclass(frozen=True, eq=False)
class SimulatedTask:
    """A task with known class probabilities.

    Attributes
    ----------
    schema : Schema
    kind : {"additive", "tree", "interactions", "rules", "mixed", "scorecard"}
        What classes follow.
    """

    schema: Schema
    kind: str
    _clusters: Floats = field(repr=False)
    _shares: tuple[Floats, ...] = field(repr=False)
    _scores: Scores = field(repr=False)
    _redrawn: float = field(repr=False)
    _background: Floats = field(repr=False)
    _loadings: Floats | None = field(default=None, repr=False)

    def records(self, n_records: int, rng: np.random.Generator) -> Codes:
        """Return encoded records, shape (N, d)."""
        law = self._clusters, self._shares, self._loadings
        return _drawn_records(*law, n_records, rng)

    def labels(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Return a class code for every record, drawn anew, shape (N,)."""
        return _choose(self.probabilities(codes), rng)

    def probabilities(self, codes: Codes) -> Floats:
        """Return the probability of every class, shape (N, k)."""
        clear = softmax(self._scores(codes), axis=1)
        return (1 - self._redrawn) * clear + self._redrawn * self._background


def simulate_task(
    rng: np.random.Generator, kind: str | None = None, *, dependent: bool = False
) -> SimulatedTask:
    """Return a task drawn from the prior, which the module describes.

    Parameters
    ----------
    rng : numpy.random.Generator
    kind : {"additive", "tree", "interactions", "rules", "mixed", "scorecard"}, optional
        What classes follow; one of the first five is drawn by default.
    dependent : bool, default=False
        Whether attributes depend on each other within a cluster.

    Returns
    -------
    SimulatedTask

    Raises
    ------
    ValueError
        If the kind is unknown.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> task = simulate_task(rng, "tree")
    >>> codes = task.records(4, rng)
    >>> codes.shape == (4, task.schema.n_features)
    True
    >>> task.probabilities(codes).sum(axis=1)
    array([1., 1., 1., 1.])
    """
    if kind not in (None, *KINDS, SCORECARD):
        known = ", ".join((*KINDS, SCORECARD))
        raise ValueError(f"there is no kind {kind!r}; choose from {known}")
    kind = kind or str(rng.choice(KINDS))
    sizes = _sizes(rng)
    clusters, shares = _attributes(sizes, rng)
    loadings = _loadings(len(sizes), rng) if dependent else None
    k = 2 if rng.random() < 0.5 else int(rng.integers(3, rng.integers(4, 10)))
    background = rng.dirichlet(np.full(k, 2.0))
    codes = _drawn_records(clusters, shares, loadings, REFERENCE, rng)
    if kind == "mixed":
        first, second = rng.choice(KINDS[:-1], 2, replace=False)
        parts = [
            _standard(_SCORES[one](sizes, background, codes, rng), codes)
            for one in (first, second)
        ]
        weight = rng.uniform(0.5, 2)
        raw: Scores = lambda x: parts[0](x) + weight * parts[1](x)  # noqa: E731
    else:
        raw = _SCORES[kind](sizes, background, codes, rng)
    scores = _standard(raw, codes)
    is_clear = rng.random() < 0.5 and kind != SCORECARD
    sharpness = 100.0 if is_clear else float(rng.uniform(1, 6))
    redrawn = 0.0 if rng.random() < 0.3 else float(rng.uniform(0, 0.2))
    attributes = tuple(
        Attribute.ordinal(f"a{i}", range(n)) for i, n in enumerate(sizes)
    )
    task = SimulatedTask(
        Schema(attributes, tuple(range(k)), name=kind),
        kind,
        clusters,
        shares,
        lambda x: sharpness * scores(x),
        redrawn,
        background,
        loadings,
    )
    chances = task.probabilities(codes)
    gain = chances.max(axis=1).mean() - chances.mean(axis=0).max()
    return task if gain >= LEAST_GAIN else simulate_task(rng, kind, dependent=dependent)


def _sizes(rng: np.random.Generator) -> tuple[int, ...]:
    d = round(float(np.exp(rng.uniform(np.log(4), np.log(30)))))
    style = rng.integers(4)
    if style == 0:
        return (2,) * d
    if style == 1:
        return (int(rng.integers(3, 9)),) * d
    most = 16.99 if style == 2 else 64.99
    return tuple(np.exp(rng.uniform(np.log(2), np.log(most), d)).astype(int).tolist())


def _attributes(
    sizes: tuple[int, ...], rng: np.random.Generator
) -> tuple[Floats, tuple[Floats, ...]]:
    """Return shares of clusters, and of the values of each attribute in these."""
    if rng.random() < 1 / 3:
        return np.ones(1), tuple(np.full((1, n), 1 / n) for n in sizes)
    clusters = rng.dirichlet(np.full(rng.integers(1, 4), 2.0))
    evenness = float(np.exp(rng.uniform(0, 2)))
    tables = []
    for n in sizes:
        shares = rng.dirichlet(np.full(n, evenness), clusters.size)
        if n >= NUMBER:
            shares *= np.exp(-np.outer(rng.uniform(0, 20, clusters.size), range(n)) / n)
            shares /= shares.sum(axis=1, keepdims=True)
        tables.append(shares)
    return clusters, tuple(tables)


def _loadings(d: int, rng: np.random.Generator) -> Floats:
    """Return what attributes have of common factors: correlations, shape (d, f)."""
    weights = rng.normal(size=(d, int(rng.integers(1, 4))))
    weights /= np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    return np.asarray(weights * np.sqrt(rng.beta(1.0, 1.0, (d, 1))))


def _drawn_records(
    clusters: Floats,
    shares: tuple[Floats, ...],
    loadings: Floats | None,
    n: int,
    rng: np.random.Generator,
) -> Codes:
    of = rng.choice(clusters.size, n, p=clusters)
    if loadings is None:
        return np.column_stack([_choose(table[of], rng) for table in shares])
    own = np.sqrt(1 - np.square(loadings).sum(axis=1))
    factors = rng.normal(size=(n, loadings.shape[1])) @ loadings.T
    places = ndtr(factors + own * rng.normal(size=(n, len(shares))))
    return np.column_stack(
        [_at(table[of], place) for table, place in zip(shares, places.T, strict=True)]
    )


def _choose(shares: Floats, rng: np.random.Generator) -> Codes:
    """Return a column for every row, by its shares."""
    return _at(shares, rng.random(len(shares)))


def _at(shares: Floats, places: Floats) -> Codes:
    """Return the column of every row whose share holds a place from 0 to 1."""
    below = np.cumsum(shares, axis=1)[:, :-1]
    return np.asarray((places[:, None] > below).sum(axis=1), np.int64)


def _standard(scores: Scores, codes: Codes) -> Scores:
    """Return scores whose best class is ahead of the next by one, on average."""
    ordered = np.sort(scores(codes), axis=1)
    lead = max(float((ordered[:, -1] - ordered[:, -2]).mean()), 1e-6)
    return lambda x: scores(x) / lead


# ---------------------------------------------------------------- what classes follow
def _additive(
    sizes: tuple[int, ...],
    background: Floats,
    codes: Codes,
    rng: np.random.Generator,
    *,
    every: bool = False,
) -> Scores:
    """Return a sum over some attributes, or over every one."""
    places = np.arange(len(sizes)) if every else _some(sizes, rng)
    k, ordered = background.size, rng.random() < 0.5
    strengths = rng.exponential(1.0, len(places))
    tables = []
    for i, strength in zip(places, strengths, strict=True):
        if ordered:
            position = np.linspace(-1, 1, sizes[i]) * rng.choice((-1, 1))
            tables.append(strength * position[:, None])
        else:
            tables.append(strength * rng.normal(size=(sizes[i], k)))

    def total(x: Codes) -> Floats:
        terms = zip(places, tables, strict=True)
        return np.asarray(sum(table[x[:, i]] for i, table in terms))

    found = total(codes)
    if ordered:
        # Classes are ranges of one sum, as of grades.
        cuts = np.quantile(found[:, 0], np.cumsum(background)[:-1])
        middle = np.concatenate([[found.min()], cuts, [found.max()]])
        centres = (middle[1:] + middle[:-1]) / 2
        offsets = np.concatenate([[0.0], np.cumsum(np.diff(centres) * cuts)])
        return lambda x: total(x) * centres - offsets
    bias = _bias(found, background)
    return lambda x: total(x) + bias


def _bias(scores: Floats, background: Floats) -> Floats:
    """Return what makes classes as frequent as they should be, about."""
    bias, spread = np.zeros(background.size), float(scores.std()) + 1e-9
    for _ in range(40):
        best = (scores + bias).argmax(axis=1)
        found = np.bincount(best, minlength=background.size) / len(best)
        bias += 0.3 * spread * (background - found)
    return bias


def _tree(
    sizes: tuple[int, ...], background: Floats, codes: Codes, rng: np.random.Generator
) -> Scores:
    k, levels = background.size, int(rng.integers(2, 7))
    places = _some(sizes, rng)

    def grow(level: int) -> tuple[int, Codes, list[object]] | int:
        if level == 0 or (level < levels and rng.random() < 0.2):
            return int(rng.choice(k, p=background))
        i = int(rng.choice(places))
        way = rng.integers(3)
        if way == 0:  # a threshold
            branch = (np.arange(sizes[i]) >= rng.integers(1, sizes[i])).astype(np.int64)
        elif way == 1:  # one value against the others
            branch = (np.arange(sizes[i]) == rng.integers(sizes[i])).astype(np.int64)
        else:  # any two groups
            branch = rng.permutation(np.arange(sizes[i]) % 2)
        return i, branch, [grow(level - 1) for _ in range(2)]

    tree = grow(levels)

    def classes(node: object, x: Codes) -> Codes:
        if not isinstance(node, tuple):
            return np.full(len(x), node, np.int64)
        i, branch, below = node
        side = branch[x[:, i]]
        return np.where(side == 0, classes(below[0], x), classes(below[1], x))

    return lambda x: np.eye(k)[classes(tree, x)]


def _interactions(
    sizes: tuple[int, ...], background: Floats, codes: Codes, rng: np.random.Generator
) -> Scores:
    k, parts = background.size, []
    for _ in range(int(rng.integers(1, 4))):
        order = min(int(rng.integers(2, 5)), len(sizes))
        places = rng.choice(len(sizes), order, replace=False)
        halves = [rng.permutation(np.arange(sizes[i]) % 2) for i in places]
        parts.append((places, halves, rng.exponential(1.0) * rng.normal(size=(2, k))))

    def total(x: Codes) -> Floats:
        out = np.zeros((len(x), k))
        for places, halves, table in parts:
            bits = [half[x[:, i]] for i, half in zip(places, halves, strict=True)]
            out += table[np.sum(bits, axis=0) % 2]
        return out

    # Both sides of the strongest parity are classes of their own.
    strongest = max(parts, key=lambda part: float(np.abs(part[2]).max()))[2]
    strongest[:] = 0.0
    strongest[[0, 1], rng.choice(k, 2, replace=False)] = 2.0
    return total


def _rules(
    sizes: tuple[int, ...], background: Floats, codes: Codes, rng: np.random.Generator
) -> Scores:
    k, exceptions = background.size, float(rng.choice((0.0, 0.1)))
    steps: list[tuple[Codes, NDArray[np.int64]]] = []

    def grades(x: Codes) -> Codes:
        columns = list(x.T)
        for places, table in steps:
            columns.append(table[tuple(columns[i] for i in places)])
        return np.asarray(columns[-1])

    most = list(sizes)
    free = [int(i) for i in _some(sizes, rng)]
    columns = list(codes.T)
    while len(free) > 1:
        places = np.array(
            [free.pop(0) for _ in range(min(len(free), int(rng.integers(2, 4))))]
        )
        n = int(rng.integers(2, 5)) if free else k
        shape = [most[i] for i in places]
        grid = np.indices(shape).reshape(len(places), -1).T / (np.array(shape) - 1)
        weights = rng.dirichlet(np.ones(len(places))) * rng.choice((-1, 1), len(places))
        # The worst part counts more than the others, or all count alike.
        total = grid @ weights + rng.choice((0.0, 1.0)) * grid.min(axis=1)
        found = total.reshape(shape)[tuple(columns[i] for i in places)]
        shares = background if not free else np.full(n, 1 / n)
        cuts = np.quantile(found, np.cumsum(shares)[:-1])
        table = np.searchsorted(cuts, total)
        other = rng.random(table.size) < exceptions
        table[other] = rng.integers(0, n, int(other.sum()))
        steps.append((places, table.reshape(shape)))
        columns.append(steps[-1][1][tuple(columns[i] for i in places)])
        most.append(n)
        free.append(len(most) - 1)
    return lambda x: np.eye(k)[grades(x)]


def _some(sizes: tuple[int, ...], rng: np.random.Generator) -> Codes:
    """Return attributes that matter: two at least, all at most."""
    number = round(float(np.exp(rng.uniform(np.log(2), np.log(len(sizes))))))
    return rng.choice(len(sizes), number, replace=False)


_SCORES = {
    "additive": _additive,
    "tree": _tree,
    "interactions": _interactions,
    "rules": _rules,
    SCORECARD: partial(_additive, every=True),
}
