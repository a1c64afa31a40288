"""Imports go one way and not in circles; the engine knows no forests."""

import ast
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import mmech
import mmech_rf
from mmech.operators.base import QueryMatrix

ENGINE = Path(mmech.__file__).parent
FORESTS = Path(mmech_rf.__file__).parent

PAGE = Path(__file__).parents[2] / "notebooks" / "architecture.md"
LAYER = re.compile(r"^\| (\d+) \| `([\w.]+)/?` \| .+ \|$", re.MULTILINE)

DEFAULT_FORMS = {
    ("mmech.operators.base", f"mmech.operators.{name}")
    for name in ("algebra", "compose", "known", "pinv")
}
"""Imports inside of methods of the protocol, whose default forms are operators.
Nothing else may close a circle."""

METHODS = {"paper", "drawn", "literature"}
"""Folders of `mmech_rf` with one method of private forests each."""

OPERATOR_CHECKS = 5
"""Calls of ``isinstance`` that tell operators apart and are left outside of the tables
of rules. To be lowered, and never raised: an operator that is added must not have to
be named in many places."""

ANSWERING = ("structure", "families", "error/pairs.py")
"""Places that are meant to tell operators apart, beside the tables of rules."""


# ---- circles and type checks ---------------------------------------------------


@cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def modules_of(*packages):
    """Return files by the dotted name of their module."""
    files = {}
    for package in packages:
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            files[".".join(parts).removesuffix(".__init__")] = path
    return files


def guarded(tree):
    """Return the nodes that only a type checker runs."""
    tests = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    typing = [node for node in tests if "TYPE_CHECKING" in ast.dump(node.test)]
    return {inner for node in typing for inner in ast.walk(node)}


def imports_of(path, known):
    """Return the known modules that a file imports, also inside of functions."""
    tree = parsed(path)
    found = set()
    for node in set(ast.walk(tree)) - guarded(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return found & known.keys()


def circles(files):
    """Return the sets of modules that import each other, largest first.

    A package's own file, which only collects the names of its modules, has no part.
    """
    plain = {name: path for name, path in files.items() if path.stem != "__init__"}
    place = {name: i for i, name in enumerate(plain)}
    graph = np.zeros((len(plain), len(plain)), bool)
    for name, path in plain.items():
        for other in imports_of(path, plain):
            graph[place[name], place[other]] = (name, other) not in DEFAULT_FORMS
    count, circle = connected_components(graph, connection="strong")
    members = [set() for _ in range(count)]
    for name, number in zip(plain, circle, strict=True):
        members[number].add(name)
    return sorted((c for c in members if len(c) > 1), key=len, reverse=True)


def layers_of(package):
    """Return the layer of every file and folder of a package, by the page."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.split(f"### {package}\n", 1)[1].split("\n#", 1)[0]
    return {name.removesuffix(".py"): int(n) for n, name in LAYER.findall(table)}


def test_no_import_goes_in_a_circle():
    assert circles(modules_of(ENGINE, FORESTS)) == []


@pytest.mark.parametrize("package", [ENGINE, FORESTS], ids=lambda path: path.name)
def test_imports_go_one_way(package):
    """The architecture page names every room in its layer."""
    layers, files = layers_of(package.name), modules_of(package)
    rooms = {name.split(".")[1] for name in files if "." in name}
    assert layers.keys() == rooms - {"__main__"}
    for name, path in files.items():
        if "." not in name or path.stem == "__main__":  # lists of names
            continue
        room = name.split(".")[1]
        used = {
            other.split(".")[1] for other in imports_of(path, files) if "." in other
        }
        upward = {other for other in used if layers[other] > layers[room]}
        assert not upward, f"{name} imports from {upward}"


def test_the_engine_knows_nothing_of_forests():
    for name, path in modules_of(ENGINE).items():
        tree = parsed(path)
        named = {
            alias.name if isinstance(node, ast.Import) else node.module
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names
        }
        tops = {str(module).split(".")[0] for module in named}
        assert not tops & {"mmech_rf", "sklearn"}, name


def test_json_is_read_in_one_place_which_refuses_names_that_occur_twice():
    """And in the verifier, which imports nothing of the package."""
    found = {
        name
        for name, path in modules_of(ENGINE, FORESTS).items()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and node.attr in ("load", "loads")
        and getattr(node.value, "id", "") == "json"
    }
    assert found == {"mmech.checks", "mmech.verify"}


@pytest.mark.parametrize("home", sorted(METHODS))
def test_methods_know_nothing_of_each_other(home):
    files = modules_of(FORESTS)
    others = tuple(f"mmech_rf.{other}." for other in METHODS - {home})
    for name, path in files.items():
        if name.startswith(f"mmech_rf.{home}."):
            assert not [i for i in imports_of(path, files) if i.startswith(others)]


def test_the_protocol_imports_operators_for_its_default_forms_only():
    files = modules_of(ENGINE)
    base = "mmech.operators.base"
    found = {(base, other) for other in imports_of(files[base], files)}
    assert {pair for pair in found if ".operators." in pair[1]} == DEFAULT_FORMS


def kinds_of(base):
    """Return the names of a class and of all that are derived from it."""
    return {base.__name__}.union(*map(kinds_of, base.__subclasses__()))


def operator_checks(path):
    """Return the calls of ``isinstance`` in a file that name a kind of operator."""
    kinds = kinds_of(QueryMatrix) - {QueryMatrix.__name__}
    return [
        ast.unparse(node)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "isinstance"
        and kinds & {getattr(n, "id", "") for n in ast.walk(node.args[1])}
    ]


def test_a_check_for_a_kind_of_operator_is_seen(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        "isinstance(a, VStack)\nisinstance(a, (int, Dense))\n"
        "isinstance(a, QueryMatrix)\nisinstance(a, int)\n"
    )
    assert len(operator_checks(file)) == 2


def test_kinds_of_operators_are_told_apart_by_rules():
    left = [
        f"{name}: {call}"
        for path in ENGINE.rglob("*.py")
        if not (name := path.relative_to(ENGINE).as_posix()).startswith(ANSWERING)
        for call in operator_checks(path)
    ]
    assert len(left) <= OPERATOR_CHECKS, left


def test_a_circle_is_found_through_a_function_but_not_through_a_type_hint(tmp_path):
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("from pkg.a import one\n")
    (package / "a.py").write_text("def one():\n    from pkg import b\n")
    (package / "b.py").write_text("import pkg.a\n")
    (package / "c.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pkg.d import x\n"
    )
    (package / "d.py").write_text("from pkg.c import y\nfrom pkg import a\n")
    assert circles(modules_of(package)) == [{"pkg.a", "pkg.b"}]
