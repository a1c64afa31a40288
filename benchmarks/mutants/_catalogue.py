"""The mistakes: of ``catalogue.toml`` by what they are about, and of ``drawn.toml``.

The latter were drawn, from all places where an edit of a fixed list of kinds fits
(`benchmarks.mutants._edits`).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from benchmarks.mutants._runner import Mutant

__all__ = ["MUTANTS", "TABLE"]


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
