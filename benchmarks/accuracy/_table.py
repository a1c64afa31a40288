"""Floors, and the Markdown table of accuracies beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from benchmarks.accuracy._data import PARITIES
from benchmarks.accuracy._methods import CEILINGS, METHODS, OURS
from benchmarks.results import markdown_table, standard_error

EPSILONS = (0.1, 0.5, 1.0, 2.0)
NO_NOISE = math.inf
"""Stands for epsilon where there is no privacy."""

FLOORS = {
    "car": (0.72, 0.83, 0.87, 0.90),
    "balance-scale": (0.65, 0.83, 0.88, 0.905),
    "iris": (0.68, 0.90, 0.935, 0.945),
    "heart": (0.66, 0.78, 0.82, 0.84),
    "mushroom": (0.95, 0.985, 0.99, 0.995),
    "adult": (0.822, 0.824, 0.826, 0.828),
    "adult-binary": (0.827, 0.838, 0.842, 0.845),
}
"""What to reach at each epsilon: a little above the best of all peers in hindsight."""

Values = Mapping[tuple[str, str, float], list[float]]
"""Accuracies by data set, method and epsilon."""

Means = dict[tuple[str, str], tuple[float | None, ...]]
"""Means of a table by data set and method, for each epsilon."""


def cap(values: Values, name: str) -> float:
    """Return what the best model without privacy reaches, less two standard errors."""
    reached = [
        (float(np.mean(found)), -standard_error(found))
        for method in CEILINGS
        if len(found := values.get((name, method, NO_NOISE), [])) > 1
    ]
    if not reached:
        return math.inf
    mean, minus_error = max(reached)
    return mean + 2 * minus_error


def floors(values: Values, name: str) -> tuple[float, ...] | None:
    """Return what to reach on a data set: never more than is possible at all."""
    if name not in FLOORS:
        return None
    most = cap(values, name)
    return tuple(min(floor, most) for floor in FLOORS[name])


def table(values: Values, seconds: Mapping[tuple[str, str], float]) -> str:
    """Return the Markdown table of means, floors, and what is missing to them.

    Parameters
    ----------
    values : mapping
    seconds : mapping
        Processor time of a fit and its predictions, by data set and method.
    """
    heads = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    names = dict.fromkeys(key[0] for key in values)
    return markdown_table(
        ["data set", "method", *heads, "splits", "seconds"],
        [row for name in names for row in _rows(values, seconds, name)],
    )


def read_table(text: str) -> Means:
    """Return the means of the first table in a text that `table` made.

    Whoever has no budget stands in the last column.
    """
    found: Means = {}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("| data set | method |"):
            break
    next(lines, None)
    for line in lines:
        if not line.startswith("|"):
            break
        name, method, *cells = (cell.strip(" *") for cell in line.strip("|").split("|"))
        if method == "floor reached":
            continue
        method = f"*{method}*" if method == "floor" else method
        found[name, method] = tuple(
            float(cell.split()[0]) if cell else None for cell in cells[: len(EPSILONS)]
        )
    return found


def parity_table(values: Values, epsilon: float) -> str:
    """Return the Markdown table of parities: methods below, orders beside each other.

    Parameters
    ----------
    values : mapping
        Accuracies on the sets of `PARITIES`.
    epsilon : float
        Of the private methods.
    """
    orders = sorted({order for order, _ in PARITIES.values()})
    rows = []
    for n in sorted({n for _, n in PARITIES.values()}):
        names = [name for name, (_, own) in PARITIES.items() if own == n]
        for label, method in METHODS.items():
            budget = epsilon if method.private else NO_NOISE
            found = [values.get((name, label, budget), []) for name in names]
            if any(found):
                cells = [f"{np.mean(part):.3f}" if part else "" for part in found]
                rows.append([f"{n:,}", label, *cells])
    return markdown_table(["records", "method", *map(str, orders)], rows)


def _rows(
    values: Values, seconds: Mapping[tuple[str, str], float], name: str
) -> list[list[str]]:
    present = {key[1] for key in values if key[0] == name}
    rows = []
    for method in (method for method in METHODS if method in present):
        if not METHODS[method].private:
            found = [values[name, method, NO_NOISE]]
            cells = ["", "", "", _mean(found[0])]
        else:
            found = [values.get((name, method, epsilon), []) for epsilon in EPSILONS]
            cells = [_mean(part) for part in found]
        if method == OURS[0]:
            cells = [f"**{cell}**" if cell else "" for cell in cells]
        splits = max(map(len, found))
        taken = f"{seconds[name, method]:.2g}"
        rows.append([name, method, *cells, str(splits), taken])
    wanted = floors(values, name)
    if wanted is not None:
        cells = [f"{floor:.3f}" for floor in wanted]
        rows.append([name, "*floor*", *cells, "", ""])
        cells = [
            verdict(values.get((name, OURS[0], epsilon), []), floor)
            for epsilon, floor in zip(EPSILONS, wanted, strict=True)
        ]
        rows.append([name, "*floor reached*", *cells, "", ""])
    return rows


def verdict(found: list[float], floor: float) -> str:
    """Return "yes", or how much is missing to a floor; of three digits."""
    if not found:
        return ""
    missing = round(floor, 3) - round(float(np.mean(found)), 3)
    return "yes" if missing < 5e-4 else f"no, −{missing:.3f}"


def _mean(found: list[float]) -> str:
    if not found:
        return ""
    text = f"{np.mean(found):.3f}"
    error = 2 * standard_error(found)
    return text if math.isnan(error) else f"{text} ± {error:.3f}"
