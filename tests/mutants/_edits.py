"""Kinds of mistakes that fit anywhere: every place of a source where one can be made.

Mistakes that somebody thinks of are those that somebody tests. So the places of the
catalogue's table are drawn: ``python -m tests.mutants --draw 9 --seed 1``.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

from ._runner import Mutant

KINDS = {
    "a factor left out": "one side of a product",
    "not divided": "a quotient without its divisor",
    "off by one": "a sum or difference of one without the one",
    "plus for minus": "or the other way round",
    "max for min": "or the other way round",
    "floor for ceil": "or the other way round",
    "less for at most": "or the other way round, of all comparisons of size",
    "a relation of one": "one for how far apart neighbours are, or for their records",
    "not charged": "no charge, or a charge of nobody",
    "charged after the draw": "a charge and what is drawn next change places",
    "exact for noisy": "the values in place of those that noise was added to",
    "the same noise every time": "a source of noise that starts anew with every call",
    "another condition": "the condition of a branch or of a choice, negated",
    "another flag": "True for False in what is handed on, or the other way round",
}
"""What an edit changes, by name."""

FILES = (
    "mmech/noise/*.py", "mmech/privacy/*.py", "mmech/release.py", "mmech/selection.py",
    "mmech/quantiles.py", "mmech/noise/tails.py", "mmech_rf/literature/*.py",
    "mmech_rf/drawn/draw.py",
)  # fmt: skip
"""Where what is private is drawn and paid for."""

OTHER = {
    "max": "min", "maximum": "minimum", "amax": "amin", "ceil": "floor",
    "min": "max", "minimum": "maximum", "amin": "amax", "floor": "ceil",
}  # fmt: skip
SIZES = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
PAYING = ("charge", "_charge", "pay", "_pay", "spend")
NOISY = ("release", "_noisy")
DRAWING = ("drawn", "flip", "choose_rows", "draw_leaf_labels", *NOISY)


def _called(node: ast.AST) -> str:
    """Return the last part of the name of what is called, or nothing."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def _calls(node: ast.AST, names: tuple[str, ...]) -> bool:
    if isinstance(node, ast.FunctionDef):
        return False
    return any(_called(inner) in names for inner in ast.walk(node))


def _changes(
    node: ast.AST, of: Callable[[ast.AST], str]
) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield kinds, what is replaced, and by what; ``of(node)`` is the source of it."""
    if isinstance(node, ast.BinOp):
        left, right = of(node.left), of(node.right)
        if isinstance(node.op, ast.Mult):
            yield "a factor left out", node, left
            yield "a factor left out", node, right
        elif isinstance(node.op, (ast.Div, ast.FloorDiv)):
            yield "not divided", node, left
        elif isinstance(node.op, (ast.Add, ast.Sub)):
            other = "-" if isinstance(node.op, ast.Add) else "+"
            if getattr(node.right, "value", None) == 1:
                yield "off by one", node, left
            yield "plus for minus", node, f"{left} {other} {right}"
    elif isinstance(node, ast.Call):
        if (other := OTHER.get(_called(node))) is not None:
            kind = "floor for ceil" if other in ("floor", "ceil") else "max for min"
            name = of(node.func).removesuffix(_called(node)) + other
            yield kind, node.func, name
        if _called(node) in NOISY and node.args:
            yield "exact for noisy", node, of(node.args[0])
        for keyword in node.keywords:
            value = getattr(keyword.value, "value", None)
            if keyword.arg in ("insecure_rng", "noise"):
                yield (
                    "the same noise every time", keyword.value,
                    "__import__('numpy').random.default_rng(0)",
                )  # fmt: skip
            elif keyword.arg == "ledger" and value is not False:
                yield "not charged", keyword.value, "None"
            elif isinstance(value, bool):
                yield "another flag", keyword.value, str(not value)
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SIZES:
        if len(node.ops) == 1:
            sign, right = SIZES[type(node.ops[0])], of(node.comparators[0])
            yield "less for at most", node, f"{of(node.left)} {sign} {right}"
    elif isinstance(node, ast.Attribute):
        if node.attr in ("factor", "records_per_person"):
            yield "a relation of one", node, "1"
    elif isinstance(node, (ast.If, ast.IfExp)):
        yield "another condition", node.test, f"not ({of(node.test)})"
    elif isinstance(node, ast.Expr) and _called(node.value) in PAYING:
        yield "not charged", node, "pass"


def edits(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield all edits of a source: the kind, lines that occur once, and theirs."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def span(node: ast.AST) -> tuple[int, int]:
        first = starts[node.lineno - 1] + node.col_offset
        return first, starts[node.end_lineno - 1] + node.end_col_offset

    def of(node: ast.AST) -> str:
        return source[slice(*span(node))]

    def edit(kind: str, start: int, stop: int, text: str) -> tuple[str, str, str]:
        first = max(i for i, place in enumerate(starts) if place <= start)
        last = min(i for i, place in enumerate(starts) if place >= stop)
        while source.count(source[starts[first] : starts[last]]) > 1:
            first -= 1
        before, after = source[starts[first] : start], source[stop : starts[last]]
        return kind, source[starts[first] : starts[last]], before + text + after

    for node in ast.walk(ast.parse(source)):
        for kind, part, text in _changes(node, of):
            whole = f"({text})" if isinstance(part, ast.BinOp) else text
            if whole != of(part):
                yield edit(kind, *span(part), whole)
        for name in ("body", "orelse"):
            body = getattr(node, name, None)
            for one, other in pairwise(body if isinstance(body, list) else []):
                if _calls(one, PAYING) and _calls(other, DRAWING):
                    gap = source[span(one)[1] : span(other)[0]]
                    text = of(other) + gap + of(one)
                    yield edit(
                        "charged after the draw", span(one)[0], span(other)[1], text
                    )


def draw(root: Path, number: int, seed: int) -> Iterator[Mutant]:
    """Draw a kind, then a place, so often; without tests, which are to be found."""
    places: dict[str, list[tuple[str, str, str]]] = {kind: [] for kind in KINDS}
    for file in sorted(path for pattern in FILES for path in root.glob(pattern)):
        name = file.relative_to(root).as_posix()
        for kind, find, replace in edits(file.read_text(encoding="utf-8")):
            places[kind].append((name, find, replace))
    rng = random.Random(seed)
    for _ in range(number):
        kind = rng.choice([kind for kind in KINDS if places[kind]])
        file, find, replace = places[kind].pop(rng.randrange(len(places[kind])))
        yield Mutant(kind, file, find, replace, ())
