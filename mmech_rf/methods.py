"""All methods, one row of ``methods.toml`` each: for comparisons and the command line.

Nothing is imported before a method is built, so that ``--help`` is quick.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, resources
from types import MappingProxyType
from typing import Any

SPLITS = ("multiway", "binary", "threshold")
"""Kinds of split that a random forest may have."""

VOTINGS = ("hard", "weight", "log-odds")
"""Kinds of vote; an estimator without one of these refuses it."""


@dataclass(frozen=True)
class Method:
    """A classifier with settings, and how it is shown.

    Attributes
    ----------
    name : str
        Key in `METHODS`, and value of ``--method`` and ``--methods``.
    estimator, home : str
        Name of the class, and the module in `mmech_rf` that has it.
    label : str
        Name for people.
    released : str
        What is released: labelled trees, counts, votes; or "not private".
    summary : str
        What it does, for ``--help``.
    command : {"fit", "predict-batch"}, optional
        Command that releases it, if any.
    options : tuple of str
        Parameters that may be set from outside.
    parameters : mapping of str
        Parameters as they are set.
    """

    name: str
    estimator: str
    home: str
    label: str
    released: str
    summary: str
    command: str | None = None
    options: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_private(self) -> bool:
        """Whether the method has a privacy budget."""
        return self.released != "not private"

    @property
    def factory(self) -> Any:
        """The class, which is imported now."""
        return getattr(import_module(f"mmech_rf.{self.home}"), self.estimator)

    def make(self, schema: Any, **parameters: Any) -> Any:
        """Return an unfitted classifier; parameters win over those that are set."""
        return self.factory(schema, **{**self.parameters, **parameters})


_FILE = resources.files("mmech_rf") / "methods.toml"
_ROWS = [
    Method(name, **row | {"options": tuple(row.get("options", ()))})
    for name, row in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
]

METHODS: Mapping[str, Method] = MappingProxyType({row.name: row for row in _ROWS})
"""Methods by name, in the order of tables."""

ESTIMATORS: Mapping[str, str] = MappingProxyType(
    {row.estimator: row.home for row in _ROWS if row.home != "evaluation"}
)
"""Modules by the name of a public classifier."""
