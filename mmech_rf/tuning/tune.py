"""The search over a grid of settings, and its outcome in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mmech import DomainTooLargeError
from mmech.checks import check_choice, check_epsilon, check_integer
from mmech.threads import one_blas_thread
from mmech_rf.forest.ensembles import check_n_jobs, trees_of
from mmech_rf.limits import LIMITS
from mmech_rf.methods import METHODS
from mmech_rf.schema import Schema, check_schema
from mmech_rf.tuning.correlation import Ensembles, Prior, View, views_of
from mmech_rf.tuning.result import TunedSetting, Tuning

__all__ = ["tune"]

MODES = ("training", "prediction", "subsample")
TEMPLATES = ("auto", "identity", "marginals", "workload")
CRITERIA = ("correlation", "expected_error")

MAX_USED = 62
"""Largest number of attributes of all ensembles together: bits of a word."""


@one_blas_thread()
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
    n_jobs: int | None = None,
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
    n_jobs : int, default=None
        Processes that judge the settings, see ``joblib.Parallel``; the result is the
        same for any number.

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
    The prior: the table of one class contrast has the energy :math:`E = N^2
    \delta^2 / n^\gamma` (`contrast` is :math:`\delta^2`), shared out among the orders j
    of interaction in proportion to :math:`\mathrm{decay}^j` and equally among the
    subsets of an order; no order gets more than N records can have. The criterion is
    derived for weight votes; hard votes behave alike. Mode "prediction" assumes a
    strategy that does not depend on the queries, mode "subsample" leaves that are
    measured one by one: a batch of few queries does better in both.

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
    check_schema(schema)
    budget = check_epsilon(epsilon)
    check_choice(criterion, "criterion", CRITERIA)
    seed = check_integer(random_state, "random_state", minimum=0)
    check_n_jobs(n_jobs)
    prior = Prior(
        schema.domain_shape,
        schema.n_classes,
        check_integer(n_records, "n_records"),
        _check_share(gamma, "gamma"),
        _check_share(decay, "decay"),
        _check_share(contrast, "contrast"),
    )
    grid = _grid(schema, candidates)
    if criterion == "expected_error" and len(grid["mode"]) > 1:
        raise ValueError(
            "the expected error compares settings of one mode only; name it with "
            'candidates={"mode": ["training"]}'
        )
    settings, skipped = _evaluate(schema, budget, prior, grid, seed, n_jobs)
    if not settings:
        raise ValueError(
            "no setting is possible: "
            + ("; ".join(sorted(skipped)) or "more ensembles than trees")
        )
    order = sorted(settings, key=lambda setting: _rank(setting, criterion))
    reasons = _reasons(order, criterion, prior, budget, skipped)
    return Tuning(tuple(order), reasons, criterion, schema, budget, seed)


def _check_share(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    if not 0 < value <= 1:
        raise ValueError(f"{name} must lie in (0, 1], got {value}")
    return float(value)


def _grid(
    schema: Schema, candidates: Mapping[str, Iterable[Any]] | None
) -> dict[str, list[Any]]:
    """Return what to compare, checked."""
    d = schema.n_features
    shares = {None, math.ceil(2 * d / 3), math.ceil(d / 2), math.ceil(d / 3)}
    if min(size or d for size in shares) > LIMITS.tuned_attributes:
        shares.add(LIMITS.tuned_attributes)
    grid: dict[str, list[Any]] = {
        "n_trees": [4, 16, 64, 128, math.inf],
        "depth": list(range(1, min(d, 8) + 1)),
        "n_ensembles": [1, 2, 3, 5],
        "max_features": list(shares),
        "mode": list(MODES),
        "template": ["auto"],
    }
    if not isinstance(candidates, Mapping | None):
        raise TypeError(
            "candidates must be a mapping of a parameter to the values to try, got "
            f"{type(candidates).__name__}"
        )
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
    n_jobs: int | None,
) -> tuple[list[TunedSetting], set[str]]:
    """Return all settings that are possible, judged, and what was left out and why."""
    from joblib import Parallel, delayed

    d, k = schema.n_features, schema.n_classes
    tasks = []
    skipped: set[str] = set()
    for q in grid["n_ensembles"]:
        for size in grid["max_features"]:
            if size == d and q > 1:
                continue  # the same attributes q times at ε / q: never better
            views = views_of(schema, q, size, seed)
            cells = max(math.prod(view.sizes) for view in views)
            if any(view.m > LIMITS.tuned_attributes for view in views) or (
                len(set().union(*(view.attributes for view in views))) > MAX_USED
            ):
                skipped.add(
                    f"ensembles of {size} attributes were left out: their subsets are "
                    "too many to list"
                )
                continue
            modes = grid["mode"]
            if cells * k > LIMITS.count_entries:
                modes = [mode for mode in modes if mode == "subsample"]
                skipped.add(
                    f"{size} attributes make tables too large for batch training and "
                    "prediction"
                )
            own = {**grid, "mode": modes}
            for depth in sorted({min(h, size) for h in grid["depth"]}):
                tasks.append((schema, epsilon, prior, own, size, views, depth))
    settings: list[TunedSetting] = []
    for judged, left_out in Parallel(n_jobs=n_jobs)(
        delayed(_judged)(*task) for task in tasks
    ):
        settings += judged
        skipped |= left_out
    return settings, skipped


def _judged(
    schema: Schema,
    epsilon: Fraction,
    prior: Prior,
    grid: dict[str, list[Any]],
    size: int,
    views: list[View],
    depth: int,
) -> tuple[list[TunedSetting], set[str]]:
    """Return the settings of ensembles of one depth, as `_evaluate` does for all."""
    q = len(views)
    settings: list[TunedSetting] = []
    skipped: set[str] = set()
    forest = Ensembles(views, depth, prior, float(epsilon))
    for n_trees in grid["n_trees"]:
        if n_trees < q:
            continue
        for mode in grid["mode"]:
            if not _fits(schema, views, mode, depth, n_trees):
                skipped.add(
                    f"{mode} with ensembles of {size} attributes was left out where "
                    "leaves or cells are too many to count"
                )
                continue
            for template in grid["template"]:
                judged = forest.judge(mode, n_trees, template)
                settings.append(
                    TunedSetting(mode, n_trees, depth, q, size, template, *judged)
                )
    return settings, skipped


def _fits(
    schema: Schema, views: list[View], mode: str, depth: int, n_trees: float
) -> bool:
    """Whether the classifier of a mode takes ensembles of this size."""
    for view, trees in zip(views, trees_of(n_trees, len(views)), strict=True):
        if view.m > 0:
            try:
                seen = schema.select(list(view.attributes))
                METHODS[mode].factory._check_size(seen, trees, depth, "multiway")
            except DomainTooLargeError:
                return False
    return True


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
