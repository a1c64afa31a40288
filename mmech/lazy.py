"""Public names of a package, imported when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from types import ModuleType
from typing import Any


@cache
def _homes(package: str) -> dict[str, str]:
    """Return the public names of a package with their modules."""
    stub = resources.files(package).joinpath("__init__.pyi").read_bytes()
    return {
        alias.name: line.module or ""
        for line in ast.parse(stub).body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }


def lazy_names(
    package: str,
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Names and their modules are the imports of ``__init__.pyi``, which type checkers
    and editors read. Modules of the package are found as attributes, too, and the
    version in the metadata of the installation.
    """
    module = sys.modules[package]
    homes = _homes(package)

    def find(name: str) -> Any:
        if name == "__version__":
            setattr(module, name, _installed_version())
            return vars(module)[name]
        if homes.get(name, package) != package:
            found = getattr(import_module(homes[name]), name)
            setattr(module, name, found)
            return found
        if not name.startswith("_") and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return sorted({*vars(module), *homes})

    return list(homes), find, listed


@cache
def load_families() -> tuple[ModuleType, ...]:
    """Import the modules of `mmech.families` that ``mmech/__init__.pyi`` lists.

    Tables of rules and of templates ask for them when they are first read.
    """
    homes = dict.fromkeys(_homes("mmech").values())
    return tuple(import_module(h) for h in homes if h.startswith("mmech.families."))


def _installed_version() -> str:
    from importlib import metadata  # slow to import

    try:
        return metadata.version("mmech")
    except metadata.PackageNotFoundError:  # sources on the path
        return "0+unknown"
