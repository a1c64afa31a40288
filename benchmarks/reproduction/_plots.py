"""Pictures: measured lines with their spread, published ones dashed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STYLES = {
    "batch-training": ("#0072B2", "o"),
    "batch-prediction": ("#D55E00", "s"),
    "subsample": ("#009E73", "^"),
    "laplace-shared": ("#B4578F", "v"),
    "laplace-disjoint": ("#A67800", "D"),
    "per-query": ("#555555", "x"),
    "per-query-subsample": ("#56B4E9", "+"),
    "non-private": ("#222222", ""),
    "extra-trees": ("#777777", "."),
    "exact": ("#222222", "*"),
}
"""Colour and mark of every method."""


@dataclass(frozen=True)
class Line:
    """One method along an axis."""

    method: str
    label: str
    x: Sequence[float]
    mean: Sequence[float]
    std: Sequence[float]
    published: Sequence[float]
    faint: bool = False


def draw(
    path: Path,
    panels: Sequence[tuple[str, str, Sequence[Line]]],
    *,
    y_label: str = "test accuracy",
    known_label: str = "published (same colours)",
    log_y: bool = False,
) -> None:
    """Draw panels (title, x label, lines) in rows, with one legend below."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = 2 if len(panels) == 4 else min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    alone = len(panels) == 1
    size = (9.2, 3.8) if alone else (4.3 * columns, 3.3 * rows + 0.9)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for axes, (title, x_label, lines) in zip(grid.flat, panels, strict=False):
        for line in lines:
            _draw_line(axes, line, handles)
        _finish(axes, lines, title)
        axes.set_xlabel(x_label)
        if log_y:
            axes.set_yscale("log")
    known = (y for *_, lines in panels for line in lines for y in line.published)
    if not all(math.isnan(y) for y in known):
        handles[known_label] = Line2D(
            [], [], color="#777777", linestyle="--", linewidth=1.0, marker="."
        )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[:, 0]:
        axes.set_ylabel(y_label)
    place = "outside right center" if alone else "outside lower center"
    wide = 1 if alone else columns
    figure.legend(handles.values(), handles, loc=place, ncols=wide, fontsize=9)
    figure.savefig(path, dpi=90)


def draw_stages(
    path: Path, panels: Sequence[tuple[str, Mapping[str, Mapping[str, float]]]]
) -> None:
    """Draw panels (title, seconds of stages by method) as bars of stacked stages."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.9, 3.3), layout="constrained")
    grid = figure.subplots(1, len(panels))
    handles: dict[str, Any] = {}
    for axes, (title, methods) in zip(grid, panels, strict=True):
        bottoms = dict.fromkeys(methods, 0.0)
        stages = next(iter(methods.values()))
        for stage, colour in zip(stages, STAGE_COLOURS, strict=True):
            heights = [methods[method][stage] for method in methods]
            below = list(bottoms.values())
            drawn = axes.bar([*methods], heights, bottom=below, color=colour)
            handles.setdefault(stage, drawn)
            for method in methods:
                bottoms[method] += methods[method][stage]
        axes.set_title(title, loc="left", fontsize=10)
        axes.tick_params("x", labelrotation=35)
        axes.spines[["top", "right"]].set_visible(False)
    grid[0].set_ylabel("seconds of processor time")
    place = "outside lower center"
    figure.legend(handles.values(), handles, loc=place, ncols=len(handles), fontsize=9)
    figure.savefig(path, dpi=90)


STAGE_COLOURS = ("#444444", "#D55E00", "#0072B2", "#009E73")


def _draw_line(axes: Any, line: Line, handles: dict[str, Any]) -> None:
    colour, mark = STYLES[line.method]
    if list(line.x) == [0]:  # one level for the whole axis
        dashes = ":" if line.method == "non-private" else "-"
        drawn = axes.axhline(
            line.mean[0], color=colour, linestyle=dashes, linewidth=1.2
        )
        handles.setdefault(line.label, drawn)
        return
    alpha, dashes = (0.5, "-.") if line.faint else (1.0, "-")
    style = {"color": colour, "alpha": alpha, "linestyle": dashes, "marker": mark}
    sizes = {"markersize": 4.5, "linewidth": 1.6, "elinewidth": 0.9, "capsize": 2}
    drawn = axes.errorbar(line.x, line.mean, yerr=line.std, **style, **sizes)
    handles.setdefault(line.label, drawn)
    known = [
        (x, y) for x, y in zip(line.x, line.published, strict=True) if not math.isnan(y)
    ]
    if known:
        xs, ys = zip(*known, strict=True)
        axes.plot(xs, ys, "--", color=colour, linewidth=1.0, marker=".", alpha=0.8)


def _finish(axes: Any, lines: Sequence[Line], title: str) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    ticks = sorted({x for line in lines for x in line.x if x > 0 and x != math.inf})
    if ticks and ticks[-1] / ticks[0] > 4:
        axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{x:g}" for x in ticks])
    axes.set_title(title, loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
