"""Sums, means, histograms and quantiles on Adult, beside diffprivlib and OpenDP.

Everybody gets the same numbers, public bounds and pure epsilon for one statistic: all
three quartiles together, or all ten bins. The error is the mean absolute one over its
numbers, averaged over runs, with a standard error. diffprivlib takes the number of
records for public, which neighbours that are replaced share, and counts histograms for
records that are added or removed; OpenDP is used for records that are added or removed.
Its mean is a sum over a count at half of epsilon each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

EPSILONS, RELEASES = ["0.1", "1"], 50
COLUMNS = {
    "hours-per-week": (1, 99, 1),
    "age": (17, 90, 1),
    "capital-gain": (0, 99999, 123),
}
"""Public bounds, and the step of candidates of quantiles."""

QUARTILES = [0.25, 0.5, 0.75]
KINDS = ("mean", "sum", "histogram", "quantiles")
RIVALS = {"diffprivlib": "replace", "opendp": "add_remove"}


def edges(name: str) -> np.ndarray:
    low, high, _ = COLUMNS[name]
    return np.linspace(low, high, 11)


def exact(kind: str, name: str, x: np.ndarray) -> np.ndarray:
    if kind == "histogram":
        return np.bincount(np.searchsorted(edges(name)[1:-1], x), minlength=10)
    if kind == "quantiles":
        return np.quantile(x, QUARTILES, method="inverted_cdf")
    return np.array([getattr(x, kind)()])


def diffprivlib(kind: str, name: str, x: np.ndarray, epsilon: float) -> object:
    from diffprivlib import tools

    bounds = COLUMNS[name][:2]
    if kind == "histogram":  # its bins hold their left ends, ours their right ones
        ends = np.append(-np.inf, edges(name)[1:-1])
        places = np.searchsorted(ends[1:], x)
        return tools.histogram(places, epsilon=epsilon, bins=10, range=(0, 9))[0]
    if kind == "quantiles":
        try:
            return tools.quantile(x, QUARTILES, epsilon=epsilon, bounds=bounds)
        except RuntimeError:  # all its weights underflow
            return np.full(len(QUARTILES), np.nan)
    return getattr(tools, kind)(x, epsilon=epsilon, bounds=bounds)


def opendp(kind: str, name: str, x: np.ndarray, epsilon: float) -> object:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    low, high, step = COLUMNS[name]
    whole = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    total = whole >> dp.t.then_clamp((low, high)) >> dp.t.then_sum()

    def paid(make, cost: float):
        scale = dp.binary_search_param(make, d_in=1, d_out=cost, T=float)
        return make(scale)

    if kind == "sum":
        return paid(lambda s: total >> dp.m.then_laplace(s), epsilon)(x.tolist())
    if kind == "mean":
        count = whole >> dp.t.then_count()
        parts = [
            paid(lambda s, own=own: own >> dp.m.then_laplace(s), epsilon / 2)(
                x.tolist()
            )
            for own in (total, count)
        ]
        return parts[0] / parts[1]
    if kind == "histogram":
        places = np.searchsorted(edges(name)[1:-1], x)
        bins = dp.t.then_count_by_categories(list(range(10)), null_category=False)
        counts = whole >> bins
        return paid(lambda s: counts >> dp.m.then_laplace(s), epsilon)(places.tolist())
    candidates = list(range(low, high + 1, step))
    return [
        paid(
            lambda s, p=p: (
                whole
                >> dp.m.then_private_quantile(dp.max_divergence(), candidates, p, s)
            ),
            epsilon / 3,
        )(x.tolist())
        for p in QUARTILES
    ]


@cache
def planned(kind: str, name: str, epsilon: float, rival: str):
    from mmech import Attribute, Domain
    from mmech.privacy.neighbours import Relation
    from mmech.tables.statistic_plans import StatisticPlan
    from mmech.tables.statistics import Histogram, Mean, Quantiles, Sum

    low, high, step = COLUMNS[name]
    domain = Domain([Attribute.numeric(name, lower=low, upper=high, integer=True)])
    statistic = {
        "mean": Mean(name),
        "sum": Sum(name),
        "histogram": Histogram(name),
        "quantiles": Quantiles(name, QUARTILES, step=step),
    }[kind]
    relation = Relation("add_remove" if kind == "histogram" else RIVALS[rival])
    return StatisticPlan(
        statistic, domain, "epsilon", Fraction(epsilon), relation, True
    )


def ours(kind: str, name: str, x: np.ndarray, epsilon: float, rival: str) -> object:
    from mmech import PrivacyLedger
    from mmech.session import Session
    from mmech.tables.statistic_plans import MeasuredStatistic

    plan = planned(kind, name, epsilon, rival)
    places = plan.statistic.places(plan, x.astype(float))
    session = Session(PrivacyLedger(plan.cost, neighbours=plan.relation.neighbours))
    made = MeasuredStatistic(plan, *plan.measure(session, places[:, None]))
    return made.columns(0.95)[plan.statistic.value]


def measured(rival: str, make: str, data: dict, runs: int, epsilons: list) -> dict:
    """Return the errors of every run, by statistic, column and epsilon."""
    found = {}
    for name, values in data.items():
        x = np.array(values)
        for kind in KINDS:
            truth = exact(kind, name, x)
            for epsilon in epsilons:
                own = ours if make == "mmech" else globals()[rival]
                more = (rival,) if make == "mmech" else ()
                answers = [own(kind, name, x, epsilon, *more) for _ in range(runs)]
                errors = [float(np.abs(np.asarray(a) - truth).mean()) for a in answers]
                found[f"{kind} | {name} | {epsilon}"] = errors
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add none."""


def main(options: argparse.Namespace) -> None:
    import pandas as pd

    path = Path(os.environ["MMECH_DATA_DIR"]) / "adult.csv.gz"
    data = {
        name: own.tolist() for name, own in pd.read_csv(path)[list(COLUMNS)].items()
    }
    text, epsilons = json.dumps(data), [float(own) for own in options.epsilon]
    print("| statistic | column | ε | peer | its error | ours | 2 std. errors |")
    print("|---|---|---:|---|---:|---:|---:|")
    for rival in RIVALS:
        line = [options.peers or sys.executable, __file__, rival, str(options.releases)]
        line += map(str, epsilons)
        told = subprocess.run(line, input=text, text=True, check=True, stdout=-1)
        theirs = json.loads(told.stdout)
        own = measured(rival, "mmech", data, options.releases, epsilons)
        for row, errors in own.items():
            a, b = np.array(theirs[row]), np.array(errors)
            wide = 2 * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / len(a))
            flag = " above" if b.mean() - a.mean() > wide else ""
            cells = f"{a.mean():.4g} | {b.mean():.4g}{flag} | {wide:.2g}"
            print(f"| {row} | {rival} | {cells} |", flush=True)


def as_peer(rival: str, releases: str, *epsilons: str) -> None:
    """Print errors of a peer, in its interpreter."""
    warnings.simplefilter("ignore")
    data, budgets = json.load(sys.stdin), [float(own) for own in epsilons]
    print(json.dumps(measured(rival, rival, data, int(releases), budgets)))


if __name__ == "__main__":
    as_peer(*sys.argv[1:])
