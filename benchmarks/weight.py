"""Lines of code by folder, and how far a fit travels: ``python benchmarks/weight.py``.

Docstrings, comments and blank lines do not count. CONTRIBUTING.md has the limits.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
LIMITS = {"mmech": 25_100, "mmech_rf": 8_500, "tests": 29_000, "benchmarks": 6_600}
PARTS = {
    "engine": (
        "operators structure reduction error strategies reconstruction families "
        "integer_strategy mechanism _kernels checks limits lazy arrays",
        11_700,
    ),
    "products": (
        "tables domain marginals cli storage audit stream quantiles terminal writing",
        9_500,
    ),
    "trust": (
        "noise privacy release selection session evidence verify threads testing "
        "exceptions __main__",
        3_900,
    ),
}
"""Parts of `mmech`: folders and files, and how many lines they may have together."""
THIN = ("schema", "forest", "paper", "workloads.py")
THIN += ("estimator/base.py", "estimator/records.py")
"""A forest becomes T, QTᵀT and QTᵀ; the methods of the paper; the estimators' face."""

QUIET = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}
QUIET |= {tokenize.INDENT, tokenize.DEDENT}


def lines_of_code(path: Path) -> int:
    """Return the number of lines that hold code."""
    text = path.read_text(encoding="utf-8")
    said = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    lines = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in QUIET
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(lines - said)


def lines_of_part(names: str) -> int:
    """Return the lines of folders and files of `mmech`."""
    return sum(
        lines_of_code(path)
        for name in names.split()
        for path in (
            *(ROOT / "mmech" / name).rglob("*.py"),
            *(ROOT / "mmech").glob(f"{name}.py"),
        )
    )


def purpose(folder: Path) -> str:
    """Return what a folder is for: the first line of its docstring."""
    path = folder / "__init__.py"
    said = (
        ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.exists() else ""
    )
    return (said or "").partition("\n")[0]


def files_entered(call: Callable[[], Any]) -> int:
    """Return how many files of the packages a call has a frame in."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    packages = tuple(str(ROOT / name) for name in ("mmech", "mmech_rf"))
    return sum(name.startswith(packages) for name in seen)


def main() -> None:
    """Print the table, and the numbers of files."""
    for package, limit in LIMITS.items():
        folders: Counter[str] = Counter()
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT / package).parts
            folders[parts[0] if len(parts) > 1 else "."] += lines_of_code(path)
        print(f"{package:12}{folders.total():8,} of {limit:,}")
        for folder, count in folders.most_common():
            print(f"    {folder:15}{count:6,}  {purpose(ROOT / package / folder)}")
    for part, (names, limit) in PARTS.items():
        print(f"{part:12}{lines_of_part(names):8,} of {limit:,}")
    thin = sum(
        lines_of_code(file)
        for name in THIN
        for file in (ROOT / "mmech_rf").glob(
            f"{name}/*.py" if "." not in name else name
        )
    )
    print(f"thin layer of mmech_rf: {thin:,} of 3,500")

    sys.path.insert(0, str(ROOT))
    from mmech import Domain, release_tables
    from mmech_rf import DrawnSettings, PrivateForestClassifier, datasets

    print(f"fields of DrawnSettings: {len(fields(DrawnSettings))} of 9")
    car = datasets.load_car()
    records = car.data[:100], car.target[:100]
    model = PrivateForestClassifier(car.schema, epsilon=1)
    entered = files_entered(lambda: model.fit(*records))
    print(f"files that a fit of 100 records enters: {entered} of 32")
    domain = Domain(car.schema.attributes)
    entered = files_entered(
        lambda: release_tables(car.data[:100], domain, ways=1, epsilon=1)
    )
    print(f"files that release_tables enters: {entered} of 25")


if __name__ == "__main__":
    main()
