"""A model as one HTML file, without scripts and without anything from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape as escape_markup
from typing import Any

import numpy as np

from mmech.terminal import printable
from mmech_rf.arrays import Floats, Integers
from mmech_rf.show.trees import EVERYONE, Node, ShownTree, any_of

MOST_NODES = 2000
"""Legibility: nodes of a tree that are written out."""

NEVER = (
    "{} is never predicted; {:.1%} of the records have it. Whoever looks for it can "
    "set a threshold for its probability (set_threshold). A threshold that is chosen "
    "on training records, and recall on them, are not private."
)

BY_LEAVES = (
    "By released noisy counts of the first tree's leaves. Shares predicted take the "
    "records of a leaf to be spread evenly over its cells."
)

STYLE = """\
body { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { padding: .1em .8em .1em 0; }
td, th { text-align: left; vertical-align: top; }
ul { border-left: 1px solid #bbb; list-style: none; margin: 0; padding-left: 1.2em; }
meter { width: 16em; } b { color: #1b6ca8; }
"""


def escape(text: object) -> str:
    """Return text for a page: neither markup nor characters that turn its direction."""
    return escape_markup(printable(text))


def opening(card: Mapping[str, Any]) -> list[str]:
    """Return what a model is for, when and at what cost it was released, in words."""
    classes, attributes = (
        [*map(printable, card[k])] for k in ("classes", "attributes")
    )
    saved = f" on {card['date']} by mmech {card['version']}" if card["date"] else ""
    costs = [f"{name} = {card[name]:g}" for name in ("epsilon", "rho") if card[name]]
    lines = [
        f"Predicts {printable(card['target'])}, one of {any_of(classes)}, from "
        f"{', '.join(attributes)}.",
        f"Released{saved}: {', '.join(costs) or 'no cost'}, for {card['unit']}.",
    ]
    if card["evidence"]:
        checked = f"Evidence, checked on {card['evidence_checked']}"
        lines.append(f"{checked}: {printable(card['evidence'])}.")
    if not card["private"]:
        lines[1] = "NOT PRIVATE, or not covered by a promise: see the statement."
    if bounds := card["accuracy"]:
        lower = math.floor(1e3 * bounds["lower"]) / 1e3
        upper = math.ceil(1e3 * bounds["upper"]) / 1e3
        lines.append(
            f"Accuracy on new records: {bounds['estimate']:.1%}, {bounds['level']:.0%} "
            f"interval {lower:.1%} to {upper:.1%}."
        )
    return lines


@dataclass(frozen=True)
class ClassShare:
    """How common a class is, by released counts: among records, among predictions."""

    name: str
    records: float
    predicted: float


def class_shares(
    classes: Sequence[object], counts: Floats, leaves: Integers, predicted: Integers
) -> list[ClassShare]:
    """Return how common each class is, by released counts of leaves.

    Parameters
    ----------
    classes : sequence
        Names of the k classes.
    counts : ndarray of shape (n, k)
        Released class counts of leaves.
    leaves, predicted : ndarray of shape (M,)
        Leaf and predicted class of made-up records; together they stand for as many
        records as their leaf has.
    """
    known = np.maximum(counts.sum(axis=0), 0)
    sizes = np.maximum(counts.sum(axis=1), 0)
    weights = (sizes / np.maximum(np.bincount(leaves, minlength=sizes.size), 1))[leaves]
    given = np.bincount(predicted, weights, minlength=known.size)
    shares = (part / max(float(part.sum()), 1) for part in (known, given))
    return [
        ClassShare(printable(name), *map(float, pair))
        for name, *pair in zip(classes, *shares, strict=True)
    ]


def _classes(shares: Sequence[ClassShare]) -> Iterator[str]:
    """Yield a table of classes, and a sentence on each that is never predicted."""
    if not shares:
        return
    yield "<h2>Classes</h2>\n<table><tr><th>class</th><th>share of records</th>"
    yield "<th>share predicted</th></tr>"
    for share in shares:
        cells = (share.name, f"{share.records:.1%}", f"about {share.predicted:.1%}")
        yield f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
    yield f"</table>\n<p>{BY_LEAVES}</p>"
    for share in shares:
        if share.predicted == 0:
            yield f"<p>{escape(NEVER.format(share.name, share.records))}</p>"


def html_page(
    title: str,
    trees: Sequence[ShownTree],
    named_importances: Sequence[tuple[str, float]],
    card: Mapping[str, Any],
    *,
    notes: Sequence[str],
    statement: str,
    shares: Sequence[ClassShare] = (),
) -> str:
    """Return the page; everything that comes from names is escaped.

    Importances come with the largest first; notes explain the words of trees.
    """
    title = escape(title)
    facts = (
        f"<tr><th>{escape(name)}</th><td>{escape(_fact(value))}</td></tr>"
        for name, value in card.items()
        if name not in ("releases", "statement")
    )
    bars = (
        f'<tr><td>{escape(name)}</td><td><meter value="{share:.3f}"></meter></td>'
        f"<td>{share:.1%}</td></tr>"
        for name, share in named_importances
    )
    drawn = (
        f"<details open><summary>{escape(tree.title)}</summary>"
        f"{_node(tree.root.frequent(tree.least))}{_on_sizes(tree)}</details>"
        for tree in trees
    )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">',
            f"<title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>",
            f"<h1>{title}</h1>",
            *(f"<p>{escape(line)}</p>" for line in opening(card)),
            *_classes(shares),
            "<h2>Rules</h2>",
            *drawn,
            *(f"<p>{escape(note)}</p>" for note in notes),
            "<h2>Importances</h2>",
            "<p>How far predictions move with each attribute, for made-up records that "
            "are spread evenly over the schema: from the released model alone.</p>",
            f"<table>{''.join(bars)}</table>",
            "<h2>Privacy</h2>",
            "<details><summary>Statement: what was released, by which mechanisms"
            "</summary>",
            *(f"<p>{escape(line.strip())}</p>" for line in statement.splitlines()),
            "</details>\n<details><summary>Card: the same as fields</summary>",
            f"<table>{''.join(facts)}</table></details>",
            "</body>\n</html>\n",
        ]
    )


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _on_sizes(tree: ShownTree) -> str:
    if math.isnan(tree.error):
        return ""
    return (
        f"<p>Numbers of records are noisy: give or take {2 * tree.error:,.0f} for a "
        f"leaf. Branches for fewer than {tree.least:,.0f} are left out.</p>"
    )


def _node(node: Node) -> str:
    """Return nested lists, cut off where they are too long."""
    left = MOST_NODES

    def parts(node: Node) -> Iterator[str]:
        nonlocal left
        if not node.branches:
            size = "" if math.isnan(node.size) else f", {node.size:,.0f} records"
            yield f" <b>{escape(node.outcome)}</b>{size}"
            return
        yield "<ul>"
        for test, child in node.branches:
            left -= 1
            if left < 0:
                yield "<li>...</li>"
                break
            yield f"<li>{escape(test)}"
            yield from parts(child)
            yield "</li>"
        yield "</ul>"

    start = "" if node.branches else EVERYONE
    return start + "".join(parts(node))
