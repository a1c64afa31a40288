"""Public names of a package, imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    The package imports the same names under ``TYPE_CHECKING``, where type checkers and
    editors see them. `homes` are the modules of the package that public names come
    from; an empty string stands for a module itself, all of which are found as
    attributes, too.
    """
    own = sys.modules[package]

    def find(name: str) -> Any:
        if homes.get(name):
            found = getattr(import_module(f"{package}.{homes[name]}"), name)
            setattr(own, name, found)
            return found
        if not name.startswith("_") and find_spec(f"{package}.{name}"):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def listed() -> list[str]:
        return sorted({*vars(own), *homes})

    return list(homes), find, listed
