r"""Choosing trees, depth, ensembles, mode and strategy without spending privacy.

Nothing here looks at records: a setting is judged by what is public, the schema, the
budget and a public number of records. The error of the matrix mechanism alone cannot
judge a forest. Measured on the cells, the leaf counts of n_trees trees have the same
expected error :math:`2 \tau n k / \varepsilon^2` at every depth, and the error of a
vote always prefers the deepest trees, which have the least to say. So a prior on the
signal is needed, and the criterion is how well the noisy votes are expected to
correlate with the exact class frequencies of the cells.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmech import Marginals, optimize
from mmech._validation import check_choice, check_epsilon, check_integer
from mmech.operators._spectrum import marginal_precisions
from mmech_rf.classifiers._base import MAX_TABLE_ENTRIES
from mmech_rf.classifiers._ensembles import draw_features, spawn
from mmech_rf.schema import Schema

__all__ = ["TunedSetting", "Tuning", "tune"]

MODES = ("training", "prediction", "subsample")
TEMPLATES = ("auto", "identity", "marginals", "workload")
CRITERIA = ("correlation", "expected_error")

MAX_LISTED = 16
"""Largest number of attributes of an ensemble whose subsets are listed."""
MAX_USED = 62
"""Largest number of attributes of all ensembles together: bits of a word."""
SEARCH = 400
"""Evaluations of the search for marginals, as a bound on the time."""
ROWS = 12
"""Settings that a table shows."""

Floats = NDArray[np.float64]


# ---- what comes out ------------------------------------------------------------


@dataclass(frozen=True)
class TunedSetting:
    """One setting of a private forest, with what is publicly known of it.

    Attributes
    ----------
    mode : {"training", "prediction", "subsample"}
        Which classifier: `BatchTrainingClassifier`, `BatchPredictionClassifier` or
        `SubsampleAggregateClassifier`.
    n_trees : int or inf
        Trees in all.
    depth : int
        Tests on a path.
    n_ensembles : int
        Number q of ensembles.
    max_features : int
        Attributes per ensemble.
    template : str
        Strategy template that the classifier is given.
    measured : str
        What that comes to: ``"identity"``, ``"marginals"`` or ``"workload"``.
    correlation : float
        Predicted correlation between the noisy votes and the exact class
        frequencies, over the cells of the domain.
    expected_error : float
        Expected squared error, continuous Laplace noise: of all released leaf counts
        in mode "training", else of the votes of one query, summed over the classes.
        Comparable within a mode only.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> tune(datasets.load_car().schema, epsilon=1, n_records=1400).best.n_trees
    inf
    """

    mode: str
    n_trees: float
    depth: int
    n_ensembles: int
    max_features: int
    template: str
    measured: str
    correlation: float
    expected_error: float


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Settings from best to worst, and why the first one was chosen.

    Prints as text and shows as HTML in notebooks.

    Attributes
    ----------
    settings : tuple of TunedSetting
        All that were compared, best first.
    reasons : tuple of str
        The choice in sentences.
    criterion : str
        What they are ordered by.
    schema : Schema
        Public attributes and classes.
    epsilon : Fraction
        Privacy budget, in nats; none of it is spent.
    random_state : int
        Seed that draws the attributes of the ensembles.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> found = tune(datasets.load_car().schema, epsilon=1, n_records=1400)
    >>> found.best.mode, found.parameters["n_ensembles"]
    ('training', 2)
    """

    settings: tuple[TunedSetting, ...]
    reasons: tuple[str, ...]
    criterion: str
    schema: Schema
    epsilon: Fraction
    random_state: int

    @property
    def best(self) -> TunedSetting:
        """The setting that comes first."""
        return self.settings[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the classifier of the best setting, without schema, epsilon."""
        best = self.best
        return {
            "n_trees": best.n_trees,
            "depth": best.depth,
            "n_ensembles": best.n_ensembles,
            "max_features": best.max_features,
            "template": best.template,
            "voting": "weight",
            "random_state": self.random_state,
        }

    def classifier(self, **parameters: Any) -> Any:
        """Return an unfitted classifier of the best setting.

        Parameters
        ----------
        **parameters
            Further parameters, such as `ledger` or `neighbours`; they win over the
            tuned ones.

        Returns
        -------
        BatchTrainingClassifier, BatchPredictionClassifier or \
SubsampleAggregateClassifier

        Examples
        --------
        >>> from mmech_rf import datasets, tune
        >>> found = tune(datasets.load_iris().schema, epsilon=2, n_records=120)
        >>> type(found.classifier()).__name__
        'BatchTrainingClassifier'
        """
        from mmech_rf import classifiers

        classes: dict[str, Any] = {
            "training": classifiers.BatchTrainingClassifier,
            "prediction": classifiers.BatchPredictionClassifier,
            "subsample": classifiers.SubsampleAggregateClassifier,
        }
        given = {"epsilon": self.epsilon} | self.parameters | parameters
        return classes[self.best.mode](self.schema, **given)

    def _table(self) -> list[tuple[str, ...]]:
        binary = self.schema.n_classes == 2
        rows = [HEAD + (("accuracy",) if binary else ())]
        for s in self.settings[:ROWS]:
            trees = "∞" if s.n_trees == math.inf else str(s.n_trees)
            row: tuple[str, ...] = (
                s.mode,
                trees,
                str(s.depth),
                str(s.n_ensembles),
                str(s.max_features),
                s.measured,
                f"{s.correlation:.4f}",
                f"{s.expected_error:.5g}",
            )
            if binary:  # of Gaussian votes and truths with this correlation
                row += (f"{0.5 + math.asin(min(1.0, s.correlation)) / math.pi:.3f}",)
            rows.append(row)
        return rows

    def __str__(self) -> str:
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                f"{cell:<{width}}" if i in TEXT_COLUMNS else f"{cell:>{width}}"
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]
        left = len(self.settings) - ROWS
        if left > 0:
            lines.append(f"... and {left} more")
        return "\n".join([*lines, "", *self.reasons])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the same content as an HTML table, for notebooks."""

        def line(cells: Sequence[str], tag: str) -> str:
            inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{inner}</tr>"

        head, *rows = self._table()
        parts = ["<table>", line(head, "th"), *(line(row, "td") for row in rows)]
        left = len(self.settings) - ROWS
        if left > 0:
            parts.append(line([f"... and {left} more"], "td"))
        parts.append("</table>")
        parts += [f"<p>{html.escape(reason)}</p>" for reason in self.reasons]
        return "\n".join(parts)


HEAD = (
    "mode",
    "trees",
    "depth",
    "q",
    "d̄",
    "measured",
    "correlation",
    "expected error",
)
TEXT_COLUMNS = (0, 5)


# ---- the search ----------------------------------------------------------------


def tune(
    schema: Schema,
    *,
    epsilon: Any,
    n_records: int,
    candidates: Mapping[str, Iterable[Any]] | None = None,
    criterion: str = "correlation",
    gamma: float = 0.7,
    decay: float = 0.35,
    contrast: float = 0.25,
    random_state: int = 0,
) -> Tuning:
    r"""Choose trees, depth, ensembles, mode and strategy from public facts alone.

    With the projector :math:`P_s` on the interactions of exactly the attributes s, of
    rank :math:`m_s`, the votes of a multiway forest are :math:`\sum_s \lambda_s P_s D`
    in expectation over the draw of the trees, the noise has the variance
    :math:`v_s` per coordinate that the strategy gives it, and a record more or less in
    a cell is sampling noise of variance :math:`u = N / (n k)`. With a prior variance
    :math:`g_s` of the signal, the predicted correlation of votes and truth is

    .. math:: \rho = \frac{\sum_s E[\lambda_s] g_s m_s}{\sqrt{\sum_s g_s m_s \;
              \sum_s E[\lambda_s^2] (g_s + u + v_s) m_s}}

    over the cells of the domain. Everything is in closed form for the marginal
    algebra: no data, no noise, and no forest is drawn. Time O(2^d̄) per setting.

    Parameters
    ----------
    schema : Schema
        Public attributes and classes.
    epsilon : float, str or Fraction
        Privacy budget that the forest will have, in nats. Nothing is spent here.
    n_records : int
        About how many records there are. A public statement of yours: never pass the
        number of sensitive records that you counted without paying for it.
    candidates : dict of lists, optional
        What to compare, by "n_trees" (``math.inf`` allowed), "depth", "n_ensembles",
        "max_features" (``None`` for all), "mode" and "template"; defaults for
        whatever is left out.
    criterion : {"correlation", "expected_error"}, default="correlation"
        The second is what the paper proposes [1]_. It orders settings of one mode
        only, and under Identity it cannot tell depths apart: the result says so.
    gamma : float, default=0.7
        The records are thought to lie in about :math:`n^\gamma` of the n cells.
        Smaller values for data that are known to be concentrated (0.4 for Iris).
    decay : float, default=0.35
        Interactions of one attribute more have this share of the energy of the
        signal. Smaller values trust low orders, and so shallow trees.
    contrast : float, default=0.25
        How pure the cells are: squared difference of class frequencies in a cell
        with records, 1 where the class is a function of the cell.
    random_state : int, default=0
        Draws the attributes of the ensembles, the same as the classifiers with this
        ``random_state`` do.

    Returns
    -------
    Tuning
        With `settings` in order, the `best` one, `reasons`, and a `classifier()`.

    Raises
    ------
    ValueError
        If a parameter is not valid or no setting is possible.

    Notes
    -----
    The prior: the table of one class contrast has the energy
    :math:`E = N^2 \delta^2 / n^\gamma` (`contrast` is :math:`\delta^2`), shared out
    among the orders j of interaction in proportion to :math:`\mathrm{decay}^j` and
    equally among the subsets of an order; no order gets more than N records can have.
    The criterion is that of weight voting; hard votes behave alike. The noise of mode
    "prediction" is that of a strategy which does not depend on the queries, and that
    of "subsample" the noise of leaves measured one by one: a batch of few queries does
    better in both.

    References
    ----------
    .. [1] Tajima, Wu, Houmansadr, "Improving Private Random Forest Prediction
       Using Matrix Representation", AAAI 2025, Section on hyperparameters.

    Examples
    --------
    >>> from mmech_rf import datasets, tune
    >>> car = datasets.load_car().schema
    >>> small = {"n_trees": [8, 128], "depth": [2, 4], "n_ensembles": [1],
    ...          "max_features": [None], "mode": ["training"]}
    >>> tune(car, epsilon=0.1, n_records=1400, candidates=small).best.depth
    2
    >>> tune(car, epsilon=8, n_records=1400, candidates=small).best.depth
    4
    """
    if not isinstance(schema, Schema):
        raise TypeError(f"schema must be a Schema, got {type(schema).__name__}")
    budget = check_epsilon(epsilon)
    check_choice(criterion, "criterion", CRITERIA)
    seed = check_integer(random_state, "random_state", minimum=0)
    prior = Prior(
        schema.domain_shape,
        schema.n_classes,
        check_integer(n_records, "n_records"),
        _check_number(gamma, "gamma", 0.0, 1.0),
        _check_number(decay, "decay", 0.0, 1.0),
        _check_number(contrast, "contrast", 0.0, 1.0),
    )
    grid = _grid(schema, candidates)
    if criterion == "expected_error" and len(grid["mode"]) > 1:
        raise ValueError(
            "the expected error compares settings of one mode only; name it with "
            'candidates={"mode": ["training"]}'
        )
    settings, skipped = _evaluate(schema, budget, prior, grid, seed)
    if not settings:
        raise ValueError(
            "no setting is possible: "
            + ("; ".join(sorted(skipped)) or "more ensembles than trees")
        )
    order = sorted(settings, key=lambda setting: _rank(setting, criterion))
    reasons = _reasons(order, criterion, prior, budget, skipped)
    return Tuning(tuple(order), reasons, criterion, schema, budget, seed)


def _check_number(value: Any, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    if not low < value <= high:
        raise ValueError(f"{name} must lie in ({low:g}, {high:g}], got {value}")
    return float(value)


def _grid(
    schema: Schema, candidates: Mapping[str, Iterable[Any]] | None
) -> dict[str, list[Any]]:
    """Return what to compare, checked."""
    d = schema.n_features
    shares = {None, math.ceil(2 * d / 3), math.ceil(d / 2), math.ceil(d / 3)}
    grid: dict[str, list[Any]] = {
        "n_trees": [4, 16, 64, 128, math.inf],
        "depth": list(range(1, min(d, 8) + 1)),
        "n_ensembles": [1, 2, 3, 5],
        "max_features": list(shares),
        "mode": list(MODES),
        "template": ["auto"],
    }
    for name, values in (candidates or {}).items():
        if name not in grid:
            raise ValueError(
                f"candidates has no parameter {name!r}; it may name {', '.join(grid)}"
            )
        grid[name] = list(values)
        if not grid[name]:
            raise ValueError(f"candidates[{name!r}] is empty; leave it out instead")
    for n_trees in grid["n_trees"]:
        if n_trees != math.inf:
            check_integer(n_trees, "n_trees")
    for depth in grid["depth"]:
        check_integer(depth, "depth", minimum=0)
    for q in grid["n_ensembles"]:
        check_integer(q, "n_ensembles")
    for mode in grid["mode"]:
        check_choice(mode, "mode", MODES)
    for template in grid["template"]:
        check_choice(template, "template", TEMPLATES)
    sizes = {d if size is None else size for size in grid["max_features"]}
    for size in sizes:
        check_integer(size, "max_features")
        if size > d:
            raise ValueError(
                f"max_features must be at most {d}, the number of attributes, got "
                f"{size}"
            )
    grid["max_features"] = sorted(sizes)
    return grid


def _rank(setting: TunedSetting, criterion: str) -> tuple[Any, ...]:
    """Order by the criterion to nine digits, then by what is simpler to use."""
    value = (
        -setting.correlation if criterion == "correlation" else setting.expected_error
    )
    scale = 10.0 ** (8 - math.floor(math.log10(abs(value)))) if value else 1.0
    return (
        round(value * scale) / scale,
        MODES.index(setting.mode),
        setting.n_ensembles,
        -setting.max_features,
        setting.n_trees,
        setting.depth,
        TEMPLATES.index(setting.template),
    )


def _evaluate(
    schema: Schema,
    epsilon: Fraction,
    prior: Prior,
    grid: dict[str, list[Any]],
    seed: int,
) -> tuple[list[TunedSetting], set[str]]:
    d, k = schema.n_features, schema.n_classes
    settings: list[TunedSetting] = []
    skipped: set[str] = set()
    for q in grid["n_ensembles"]:
        for size in grid["max_features"]:
            if size == d and q > 1:
                continue  # the same attributes q times at ε / q: never better
            views = _views(schema, q, size, seed)
            cells = max(math.prod(view.sizes) for view in views)
            if any(view.m > MAX_LISTED for view in views) or (
                len(set().union(*(view.attributes for view in views))) > MAX_USED
            ):
                skipped.add(
                    f"ensembles of {size} attributes were left out: their subsets are "
                    "too many to list"
                )
                continue
            modes = grid["mode"]
            if cells * k > MAX_TABLE_ENTRIES:
                modes = [mode for mode in modes if mode == "subsample"]
                skipped.add(
                    f"{size} attributes make tables too large for batch training and "
                    "prediction"
                )
            for depth in sorted({min(h, size) for h in grid["depth"]}):
                forest = _Ensembles(views, depth, prior, float(epsilon))
                for n_trees in grid["n_trees"]:
                    if n_trees < q:
                        continue
                    for mode in modes:
                        for template in grid["template"]:
                            judged = forest.judge(mode, n_trees, template)
                            settings.append(
                                TunedSetting(
                                    mode, n_trees, depth, q, size, template, *judged
                                )
                            )
    return settings, skipped


# ---- the prior and the closed forms ----------------------------------------------


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
        """Number n of cells."""
        return math.prod(float(size) for size in self.shape)

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
            most[1:] += (size - 1.0) * most[:-1]
        energies = np.minimum(spread, most / self.cells)
        return self.n_records**2 / (self.n_classes - 1) * energies

    def signal(self, orders: NDArray[np.int64]) -> Floats:
        """Return g_s m_s of subsets of these orders."""
        counts = [math.comb(self.n_open, j) for j in range(self.n_open + 1)]
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


def _views(schema: Schema, q: int, size: int, seed: int) -> list[View]:
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

    orders: NDArray[np.int64]
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


class _Ensembles:
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
        noise = error = 0.0
        measured: list[str] = []
        for i, view in enumerate(self.views):
            lattice = _lattice(view.sizes)
            first, second = self.first[i], self.second[i]
            if n_trees == math.inf:
                trees = float(math.comb(view.m, min(self.depth, view.m)))
                own = (n * trees * first, np.zeros_like(first))
            else:
                trees = float(n_trees // q + (i < n_trees % q))
                own = (n * trees * first, n**2 * trees * (second - first**2))
            if mode == "subsample":
                # A tree has 1 / τ of the records, leaves are measured one by one.
                own = (own[0] / trees, own[1] / trees**2)
                measured.append("identity")
                noise += n * trees * self.variance
                noise += n * first[0] * prior.n_records / k
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
                votes = ((own[0] ** 2 + own[1]) * gains).sum() / n
                noise += votes
                leaves = trees * (first * gains).sum()
                error += k * (leaves if mode == "training" else votes / n)
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
        correlation = float((mean * signal).sum() / math.sqrt(total * spread))
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


# ---- in words --------------------------------------------------------------------


def _reasons(
    order: list[TunedSetting],
    criterion: str,
    prior: Prior,
    epsilon: Fraction,
    skipped: set[str],
) -> tuple[str, ...]:
    best = order[0]
    what = (
        f"predicted correlation {best.correlation:.4f}"
        if criterion == "correlation"
        else f"expected error {best.expected_error:.5g}"
    )
    reasons = [
        f"Best of {len(order)} settings at ε = {float(epsilon):g} and about "
        f"{prior.n_records} records: {_words(best)}; {what}.",
        f"Assumed of the data: gamma = {prior.gamma:g}, decay = {prior.decay:g}, "
        f"contrast = {prior.contrast:g}. No record was looked at.",
    ]
    for mode in MODES:
        first = next((s for s in order if s.mode == mode), None)
        if first is None or mode == best.mode or criterion != "correlation":
            continue
        if math.isclose(first.correlation, best.correlation, rel_tol=1e-9):
            reasons.append(
                f"Mode {mode!r} has the same noise here; {best.mode!r} is preferred, "
                "because its release answers any number of queries."
            )
        else:
            reasons.append(
                f"Best of mode {mode!r}: {_words(first)}, {first.correlation:.4f}."
            )
    tied = _tied_depths(order)
    if tied is not None:
        depths, example = tied
        reasons.append(
            "The expected error alone cannot choose a depth: measured on the cells, "
            f"depths {', '.join(map(str, depths))} all have {example:.5g} "
            "(2 τ n k q² / ε²)."
        )
    if criterion == "expected_error" and best.mode != "training":
        reasons.append(
            "The expected error of a vote falls with depth, because deep leaves hold "
            "few cells; it says nothing about how much they tell."
        )
    reasons += [reason[0].upper() + reason[1:] + "." for reason in sorted(skipped)]
    return tuple(reasons)


def _words(setting: TunedSetting) -> str:
    trees = "all" if setting.n_trees == math.inf else str(setting.n_trees)
    ensembles = (
        f"{setting.n_ensembles} ensembles of {setting.max_features} attributes"
        if setting.n_ensembles > 1
        else f"one ensemble of {setting.max_features} attributes"
    )
    return (
        f"{setting.mode}, {trees} trees of depth {setting.depth}, {ensembles}, "
        f"measuring {setting.measured}"
    )


def _tied_depths(order: list[TunedSetting]) -> tuple[list[int], float] | None:
    """Return depths that the expected error of leaf counts does not tell apart."""
    groups: dict[tuple[Any, ...], list[TunedSetting]] = {}
    for s in order:
        if s.mode == "training" and s.n_trees != math.inf:
            key = (s.n_trees, s.n_ensembles, s.max_features, s.measured)
            same = groups.setdefault((*key, s.template), [])
            if not same or math.isclose(
                same[0].expected_error, s.expected_error, rel_tol=1e-9
            ):
                same.append(s)
    longest = max(groups.values(), key=len, default=[])
    if len(longest) < 2:
        return None
    return sorted(s.depth for s in longest), longest[0].expected_error
