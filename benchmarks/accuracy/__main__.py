"""Table and pictures of accuracy against epsilon: ``python -m benchmarks.accuracy``.

Every fit is written to ``trials.csv`` at once, and a later run goes on from there.
``accuracy.md`` holds the table with the floors that the classifier should reach, and
``accuracy.png`` the pictures, where matplotlib is installed. Splits are the same for
all methods; noise has no seed.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.accuracy._data import DATA_SETS, load, split
from benchmarks.accuracy._methods import METHODS, accuracy

EPSILONS = (0.1, 0.5, 1.0, 2.0)

FLOORS = {
    "car": (0.72, 0.83, 0.87, 0.90),
    "balance-scale": (0.65, 0.83, 0.88, 0.905),
    "iris": (0.68, 0.90, 0.935, 0.945),
    "heart": (0.66, 0.78, 0.82, 0.84),
    "mushroom": (0.95, 0.985, 0.99, 0.995),
    "adult": (0.822, 0.824, 0.826, 0.828),
}
"""What to reach at each epsilon: a little above the best of all peers in hindsight."""

FIELDS = ("dataset", "method", "epsilon", "repetition", "accuracy")
Key = tuple[str, str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, then write the table and the pictures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy")
    parser.add_argument("--quick", action="store_true", help="3 splits instead of 20")
    parser.add_argument("--output", type=Path, default=Path("accuracy-results"))
    parser.add_argument("--datasets", nargs="+", choices=DATA_SETS, default=DATA_SETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    trials = options.output / "trials.csv"
    known = _read(trials)
    repetitions = 3 if options.quick else 20
    with open(trials, "a", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, FIELDS)
        if stream.tell() == 0:
            writer.writeheader()
        for name in tqdm(options.datasets, desc="data sets"):
            bunch = load(name)
            if bunch is None:
                tqdm.write(f"{name}: no file in the folder of MMECH_DATA_DIR, left out")
                continue
            plan = [
                (method, epsilon, i)
                for i in range(repetitions)
                for method in options.methods
                for epsilon in EPSILONS
                if (name, method, epsilon, i) not in known
            ]
            for method, epsilon, i in tqdm(plan, desc=name, leave=False):
                parts = split(len(bunch.target), i)
                found = accuracy(method, bunch, epsilon, parts)
                if found is None:
                    continue
                known[name, method, epsilon, i] = found
                row = (name, method, epsilon, i, round(found, 6))
                writer.writerow(dict(zip(FIELDS, row, strict=True)))
                stream.flush()
    grouped: dict[Key, list[float]] = defaultdict(list)
    for (name, method, epsilon, _), value in known.items():
        grouped[name, method, epsilon].append(value)
    text = table(grouped)
    (options.output / "accuracy.md").write_text(text, encoding="utf-8")
    print(text)
    _draw(grouped, options.output / "accuracy.png")


def _read(path: Path) -> dict[tuple[str, str, float, int], float]:
    if not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as stream:
        return {
            (r["dataset"], r["method"], float(r["epsilon"]), int(r["repetition"])): (
                float(r["accuracy"])
            )
            for r in csv.DictReader(stream)
        }


def table(grouped: dict[Key, list[float]]) -> str:
    """Return the Markdown table: means, and what is missing to the floors."""
    heads = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    lines = [
        "| data set | method | " + " | ".join(heads) + " | splits |",
        "|---|---|" + "---|" * (len(EPSILONS) + 1),
    ]
    for name in dict.fromkeys(key[0] for key in grouped):
        for method in dict.fromkeys(key[1] for key in grouped if key[0] == name):
            cells, splits = [], 0
            for j, epsilon in enumerate(EPSILONS):
                values = grouped.get((name, method, epsilon), [])
                splits = max(splits, len(values))
                cells.append(_cell(values, name, method, j))
            lines.append(
                f"| {name} | {method} | " + " | ".join(cells) + f" | {splits} |"
            )
        if name in FLOORS:
            floors = " | ".join(f"{floor:.3f}" for floor in FLOORS[name])
            lines.append(f"| {name} | *floor* | {floors} | |")
    lines.append("")
    lines.append("In brackets: how far below the floor; ± is two standard errors.")
    return "\n".join(lines) + "\n"


def _cell(values: list[float], name: str, method: str, j: int) -> str:
    if not values:
        return ""
    mean = float(np.mean(values))
    error = 2 * float(np.std(values)) / math.sqrt(len(values))
    text = f"{mean:.3f} ± {error:.3f}"
    if method.startswith("private forest") and name in FLOORS:
        missing = FLOORS[name][j] - mean
        text += f" (−{missing:.3f})" if missing > 0.0005 else ""
    return text


def _draw(grouped: dict[Key, list[float]], path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    names = list(dict.fromkeys(key[0] for key in grouped))
    if not names:
        return
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.4 * columns, 2.8 * rows), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    for ax, name in zip(axes.flat, names, strict=False):
        for number, method in enumerate(METHODS):
            points = [
                (epsilon, float(np.mean(grouped[name, method, epsilon])))
                for epsilon in EPSILONS
                if (name, method, epsilon) in grouped
            ]
            if points:
                x, y = zip(*points, strict=True)
                ax.plot(x, y, f"C{number}o-", ms=3, label=method)
        if name in FLOORS:
            ax.plot(EPSILONS, FLOORS[name], "k:", label="floor")
        ax.set(xscale="log", title=name, xlabel="ε", ylabel="accuracy")
    axes.flat[0].legend(fontsize=7)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
