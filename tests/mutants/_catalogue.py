"""The mistakes: of ``catalogue.toml`` by what they are about, and of ``drawn.toml``.

The latter were drawn, from all places where an edit of a fixed list of kinds fits
(`mutants._edits`).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ._runner import Mutant


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


TABLE = _read("drawn.toml")

MUTANTS = (
    *(
        Mutant(name, file, find, replace, tuple(tests))
        for rows in _read("catalogue.toml").values()
        for name, (file, find, replace, *tests) in rows.items()
    ),
    *(
        Mutant(f"drawn, {kind} {number}", file, find, replace, (test,))
        for kind, rows in TABLE.items()
        for number, (file, find, replace, test) in enumerate(rows, 1)
    ),
)


OF_COSTS = ("calibration", "neighbours", "charges")
DRAWN_OF_COSTS = (
    "a factor left out", "not divided", "plus for minus", "max for min",
    "floor for ceil", "a relation of one", "not charged", "off by one",
)  # fmt: skip
"""Sections and drawn kinds that change what is measured, drawn or charged."""

UNSEEN: dict[str, str] = _read("unseen.toml")
"""Mistakes that no verifier can see in the releases that are tried, and why."""


def of_costs(mutant: Mutant) -> bool:
    """Return whether a mistake of the engine is about what is measured or charged."""
    rows = _read("catalogue.toml")
    named = any(mutant.name in rows[section] for section in OF_COSTS)
    drawn = mutant.name.startswith(tuple(f"drawn, {k} " for k in DRAWN_OF_COSTS))
    late = mutant.name.endswith("before the charge")
    return (named or drawn) and mutant.file.startswith("mmech/") and not late
