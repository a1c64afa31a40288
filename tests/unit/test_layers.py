"""Imports go one way: operators import nothing above, the engine no forests."""

import ast
from pathlib import Path

import pytest

import mmech

ENGINE = Path(mmech.__file__).parent
OPERATORS = sorted(ENGINE.glob("operators/*.py"))
BELOW_OPERATORS = {"_kernels", "_validation", "exceptions", "operators"}


def imported_by(path):
    """Return the modules that a file names in imports, those in functions included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            if node.module == "mmech":
                names.update(f"mmech.{alias.name}" for alias in node.names)
            else:
                names.add(node.module)
    return names


def test_lazy_and_grouped_imports_are_seen(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("from mmech import error\ndef f():\n    import sklearn.base\n")
    assert imported_by(file) == {"mmech.error", "sklearn.base"}


@pytest.mark.parametrize("path", OPERATORS, ids=lambda p: p.stem)
def test_operators_import_nothing_above_them(path):
    parts = [name.split(".") for name in imported_by(path)]
    used = {part[1] for part in parts if part[0] == "mmech"}
    assert used <= BELOW_OPERATORS


def test_the_engine_knows_nothing_of_forests():
    for path in ENGINE.rglob("*.py"):
        tops = {name.split(".")[0] for name in imported_by(path)}
        assert not tops & {"mmech_rf", "sklearn"}, path
