"""A picture of accuracy against the privacy budget."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmech.writing import replacing
from mmech_rf.evaluation.trials import Trial, lines_of

_KINDS = ("png", "pdf", "svg")
_DODGE = 1.02


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
    trials: Sequence[Trial], path: str | os.PathLike[str], *, title: str = ""
) -> None:
    """Draw accuracy against epsilon, with one standard deviation up and down.

    The ending of `path` chooses the kind of file, see `check_plot_path`.
    """
    figure = accuracy_figure(trials, title=title)
    with replacing(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=_ending(path))


def accuracy_figure(trials: Sequence[Trial], *, title: str = "") -> Any:
    """Return the figure that `plot_accuracy` writes."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.add_subplot()
    budgets = sorted({float(t.epsilon) for t in trials if t.epsilon is not None})
    lines = lines_of(trials)
    private = [line for line in lines if line.method.is_private]
    for line in lines:
        colour, marker, dashes = line.method.style
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": dashes}
        look["label"] = line.method.label
        if line not in private:
            axes.axhline(float(np.mean(line.accuracies[None])), **look, zorder=1)
            continue
        place = private.index(line) - (len(private) - 1) / 2
        found = sorted((float(e or 0), own) for e, own in line.accuracies.items())
        axes.errorbar(
            [epsilon * _DODGE**place for epsilon, _ in found],
            [np.mean(own) for _, own in found],
            yerr=[float(np.std(own, ddof=len(own) > 1)) for _, own in found],
            **look,
            elinewidth=1.0,
            capsize=2.5,
        )
    if budgets:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(budgets))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xticklabels([f"{epsilon:g}" for epsilon in budgets])
    repeats = 1 + max(t.repeat for t in trials)
    spread = f"mean ± std over {repeats} splits" if repeats > 1 else "one split"
    axes.set_xlabel("ε, privacy budget of one release (log scale)")
    axes.set_ylabel(f"test accuracy, {spread}")
    axes.set_title(title, loc="left")
    axes.grid(axis="y", color="#e5e5e5")
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def _ending(path: str | os.PathLike[str]) -> str:
    return os.path.splitext(os.fspath(path))[1].lower().lstrip(".")
