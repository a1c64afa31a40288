"""A model as one HTML file, without scripts and without anything from elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape as escape_markup
from typing import Any

from mmech.terminal import printable
from mmech_rf.show.trees import EVERYONE, Node, ShownTree, any_of

MOST_NODES = 2000
"""Legibility: nodes of a tree that are written out."""

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
    date = f" on {card['date']}" if card["date"] else ""
    costs = [f"{name} = {card[name]:g}" for name in ("epsilon", "rho") if card[name]]
    costs += [f"delta = {card['delta']:g}"] if card["delta"] else []
    lines = [
        f"Predicts {printable(card['target'])}, one of {any_of(classes)}, from "
        f"{', '.join(attributes)}.",
        f"Released{date} by mmech {card['version']}: {', '.join(costs) or 'no cost'}, "
        f"for {card['unit']}.",
    ]
    if card["evidence"]:
        checked = f"Evidence, checked on {card['evidence_checked']}"
        lines.append(f"{checked}: {printable(card['evidence'])}.")
    if not card["private"]:
        lines[1] = "NOT PRIVATE, or not covered by a promise: see the statement."
    if found := card["accuracy"]:
        lower = math.floor(1e3 * found["lower"]) / 1e3
        upper = math.ceil(1e3 * found["upper"]) / 1e3
        lines.append(
            f"Accuracy on new records: {found['estimate']:.1%}, {found['level']:.0%} "
            f"interval {lower:.1%} to {upper:.1%}."
        )
    return lines


def html_page(
    title: str,
    trees: Sequence[ShownTree],
    named_importances: Sequence[tuple[str, float]],
    card: Mapping[str, Any],
    *,
    notes: Sequence[str],
    statement: str,
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
        f"<details open><summary>{escape(tree.title)}</summary>{_node(tree.root)}"
        "</details>"
        for tree in trees
    )
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">',
            f"<title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body>",
            f"<h1>{title}</h1>",
            *(f"<p>{escape(line)}</p>" for line in opening(card)),
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


def _node(node: Node) -> str:
    """Return nested lists, cut off where they are too long."""
    left = MOST_NODES

    def parts(node: Node) -> Iterator[str]:
        nonlocal left
        if not node.branches:
            yield f" <b>{escape(node.outcome)}</b>"
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
