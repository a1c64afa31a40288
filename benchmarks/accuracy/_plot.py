"""Pictures of accuracy against epsilon, drawn from the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.accuracy._methods import CEILINGS
from benchmarks.accuracy._table import EPSILONS, Means, read_table

STYLES: dict[str, dict[str, Any]] = {
    "private forest": {"color": "#c1272d", "lw": 2.4, "marker": "o", "zorder": 5},
    "batch training": {"color": "#0072b2", "marker": "s"},
    "naive Bayes": {"color": "#009e73", "marker": "^"},
    "diffprivlib forest": {"color": "#8c6bb1", "marker": "v"},
    "diffprivlib GaussianNB": {"color": "#b8860b", "marker": "D"},
    "DP-EBM (ε, δ)": {"color": "#444444", "marker": "x"},
}
"""Lines of the pictures, in the order of the legend."""


FRONT = ("car", "heart", "mushroom", "adult-binary")
"""Data sets of the picture that the first pages show."""


def draw(text: str, folder: Path) -> None:
    """Draw `accuracy.png`, all data sets of a table, and `front.png`, four of them.

    Nothing is drawn without matplotlib.
    """
    means = read_table(text)
    names = list(dict.fromkeys(name for name, _ in means))
    _draw(means, names, 4, folder / "accuracy.png")
    _draw(means, [name for name in FRONT if name in names], 2, folder / "front.png")


def _draw(means: Means, names: Sequence[str], most: int, path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    if not names:
        return
    columns = min(most, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.1 * columns, 2.5 * rows + 0.6), layout="constrained")
    axes: Any = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    handles: dict[str, Any] = {}
    for ax, name in zip(axes.flat, names, strict=False):
        handles |= _panel(ax, means, name)
    for ax in axes[:, 0]:
        ax.set_ylabel("test accuracy")
    for j in range(columns):
        last = max(i for i in range(rows) if i * columns + j < len(names))
        axes[last, j].set_xlabel("ε")
    order = [label for label in (*STYLES, "floor", "not private") if label in handles]
    figure.legend(
        [handles[label] for label in order],
        order,
        loc="outside lower center",
        ncols=columns + 1,
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path, dpi=130)


def _panel(ax: Any, means: Means, name: str) -> dict[str, Any]:
    handles = {}
    for method, style in STYLES.items():
        points = [
            (epsilon, mean)
            for epsilon, mean in zip(
                EPSILONS, means.get((name, method), ()), strict=False
            )
            if mean is not None
        ]
        if points:
            x, y = zip(*points, strict=True)
            style = {"lw": 1.2, "ms": 4} | style
            (handles[method],) = ax.plot(x, y, **style)
    if found := means.get((name, "*floor*")):
        (handles["floor"],) = ax.plot(EPSILONS, found, "k_", ms=11, mew=1.6, zorder=4)
    best = [means[name, method][-1] for method in CEILINGS if (name, method) in means]
    if best:
        handles["not private"] = ax.axhline(max(best), color="0.6", ls="--", lw=1)
    ax.set_xscale("log")
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ax.minorticks_off()
    ax.set_title(name, fontsize=10)
    ax.grid(axis="y", color="0.92")
    ax.tick_params(labelsize=8)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return handles
