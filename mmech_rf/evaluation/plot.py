"""A picture of accuracy against the privacy budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from mmech.writing import replacing
from mmech_rf.evaluation.trials import Summary

__all__ = ["accuracy_figure", "check_plot_path", "plot_accuracy"]

_KINDS = ("png", "pdf", "svg")
_DODGE = 1.02
_LINE_HEIGHT = 0.045  # of a label, as a share of the height of the axes


def check_plot_path(path: str | os.PathLike[str]) -> None:
    """Raise unless matplotlib is there and can write this kind of file."""
    if _ending(path) not in _KINDS:
        raise ValueError(
            f"a picture cannot be written as {os.fspath(path)!r}; its name must end "
            "in .png, .pdf or .svg"
        )
    try:
        import matplotlib.backend_bases  # noqa: F401
    except ImportError:
        raise ValueError(
            "drawing a picture needs matplotlib, which is not installed; run "
            '`python -m pip install "mmech[plot]"` or leave the picture out'
        ) from None


def plot_accuracy(
    summaries: Sequence[Summary], path: str | os.PathLike[str], *, title: str = ""
) -> None:
    """Draw accuracy against epsilon, with one standard deviation up and down.

    The ending of `path` chooses the kind of file: .png, .pdf or .svg. Anything else,
    and a missing matplotlib, is a `ValueError`.
    """
    check_plot_path(path)
    figure = accuracy_figure(summaries, title=title)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=_ending(path))


def accuracy_figure(summaries: Sequence[Summary], *, title: str = "") -> Any:
    """Return the figure that `plot_accuracy` writes."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    budgets = sorted({float(s.epsilon) for s in summaries if s.epsilon is not None})
    lines: dict[str, list[Summary]] = {}
    for summary in summaries:
        lines.setdefault(summary.method.name, []).append(summary)
    private = [name for name, line in lines.items() if line[0].method.is_private]
    ends: list[tuple[float, str, str]] = []
    for name, line in lines.items():
        colour, marker, dashes = line[0].method.style
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes}
        if name in private:
            place = private.index(name) - (len(private) - 1) / 2
            line = sorted(line, key=lambda s: s.epsilon or 0)
            axes.errorbar(
                [float(s.epsilon or 0) * _DODGE**place for s in line],
                [s.accuracy for s in line],
                yerr=[s.accuracy_std or 0.0 for s in line],
                **look,
                markersize=6,
                linewidth=1.8,
                elinewidth=1.0,
                capsize=2.5,
            )
        else:
            axes.axhline(line[0].accuracy, **look, zorder=1)
        ends.append((line[-1].accuracy, line[0].method.label, colour))
    if budgets:
        axes.set_xscale("log")
        axes.set_xlim(budgets[0] / 1.25, budgets[-1] * 1.25)
        axes.xaxis.set_major_locator(FixedLocator(budgets))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{epsilon:g}" for epsilon in budgets])
    _label_ends(axes, ends)
    repeats = max(s.repeats for s in summaries)
    spread = f"mean ± std over {repeats} splits" if repeats > 1 else "one split"
    axes.set_xlabel("ε, privacy budget of one release (log scale)")
    axes.set_ylabel(f"test accuracy, {spread}")
    axes.set_title(title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure


def _ending(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower().lstrip(".")


def _label_ends(axes: Any, ends: list[tuple[float, str, str]]) -> None:
    """Write the names right of the axes, pushed apart where lines end close by."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ends = sorted(ends)
    heights = [(accuracy - low) / (high - low) for accuracy, _, _ in ends]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + _LINE_HEIGHT)
    if heights:
        heights[-1] = min(heights[-1], 1.0)
    for i in range(len(heights) - 2, -1, -1):
        heights[i] = min(heights[i], heights[i + 1] - _LINE_HEIGHT)
    for height, (accuracy, label, colour) in zip(heights, ends, strict=True):
        axes.annotate(
            label,
            xy=(1, (accuracy - low) / (high - low)),
            xytext=(1.05, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.7,
                "relpos": (0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )
