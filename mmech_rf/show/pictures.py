"""A picture of a model: importances, and its trees from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mmech_rf.show.trees import EVERYONE, Node, ShownTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_trees"]

MOST_LEAVES = 30
"""Legibility: leaves of a tree that are drawn, and attributes that are listed."""

COLOURS = ("#1b6ca8", "#c0561f", "#3a7d44", "#7b4fa3", "#a3872b", "#7a7a7a")


def draw_trees(
    trees: Sequence[ShownTree],
    named_importances: Sequence[tuple[str, float]],
    *,
    title: str,
) -> Figure:
    """Return a figure of importances, the largest first, and trees."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "drawing a model needs matplotlib, which is not installed; run "
            '`python -m pip install "mmech[plot]"`, or use describe() or to_html()'
        ) from None
    bars = [pair for pair in named_importances if pair[1] > 0][:MOST_LEAVES]
    heights = [max(1, len(bars)), *(min(_size(t.root), MOST_LEAVES) for t in trees)]
    inches = 1.2 + sum(0.26 * height + 0.7 for height in heights)
    figure = Figure(figsize=(11, inches), layout="constrained")
    figure.suptitle(title, parse_math=False)
    axes = figure.subplots(
        len(heights), 1, height_ratios=[h + 2 for h in heights], squeeze=False
    )[:, 0]
    _draw_bars(axes[0], bars)
    for ax, tree in zip(axes[1:], trees, strict=True):
        _draw_tree(ax, tree)
    return figure


def _draw_bars(ax: Any, bars: Sequence[tuple[str, float]]) -> None:
    places = range(len(bars))
    ax.barh(places, [share for _, share in bars], color=COLOURS[0])
    ax.set_yticks(places, [name for name, _ in bars], parse_math=False)
    ax.invert_yaxis()
    ax.set_title("importances, from the released model alone", loc="left")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_tree(ax: Any, tree: ShownTree) -> None:
    """Draw the root left, leaves right, one below the other."""
    depth = max(_depth(tree.root), 1)
    row = 0.0

    def draw(node: Node, level: int) -> float | None:
        """Draw what is below a node, and return its height; None if left out."""
        nonlocal row
        if row >= MOST_LEAVES:
            return None
        if not node.branches:
            colour = COLOURS[node.label % len(COLOURS)]
            ax.text(level + 0.02, row, node.outcome, color=colour, **look)
            row += 1
            return row - 1
        drawn = []
        for test, child in node.branches:
            place = draw(child, level + 1)
            if place is None:
                break
            drawn.append((test, place))
        own = sum(place for _, place in drawn) / len(drawn)
        for test, place in drawn:
            xs = [level, level + 0.12, level + 1]
            ax.plot(xs, [own, place, place], color="#b5b5b5", linewidth=1)
            shown = _shortened(test, int(120 / (depth + 0.5)))
            ax.text(level + 0.16, place - 0.12, shown, fontsize=8, **above)
        return own

    look = {"verticalalignment": "center", "fontsize": 9, "parse_math": False}
    above = {"verticalalignment": "bottom", "parse_math": False}
    if tree.root.branches:
        draw(tree.root, 0)
    else:
        ax.text(0, 0, f"{EVERYONE}: {tree.root.outcome}", **look)
    left_out = _size(tree.root) > MOST_LEAVES
    ax.set_title(
        tree.title + " (first leaves)" * left_out, loc="left", parse_math=False
    )
    ax.set_xlim(-0.05, depth + 0.5)
    ax.set_ylim(max(row, 1) - 0.4, -0.9)
    ax.axis("off")


def _shortened(text: str, most: int) -> str:
    """Return text with its middle left out: names begin and values end it."""
    half = most // 2
    return text if len(text) <= most else f"{text[: half - 1]}…{text[-half:]}"


def _size(node: Node) -> int:
    return sum(_size(child) for _, child in node.branches) or 1


def _depth(node: Node) -> int:
    return max((1 + _depth(child) for _, child in node.branches), default=0)
