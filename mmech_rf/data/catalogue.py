"""The table of data sets: what each is called, and where its records come from.

Plain data that imports nothing else of the package, so that the command line can list
the names at once. `mmech_rf.datasets.fetch` loads a set by its name. The schema of a
set is ``schemas/NAME.json``, from its documentation; where there is
``schemas/NAME.paper.json``, that one is the default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class OpenML:
    """Where a set lies on OpenML, and what its names mean in our schema."""

    name: str
    version: int = 1
    # Our name of a column to OpenML's, where they differ.
    columns: Mapping[str, str] = field(default_factory=dict)
    # By our name of a column, OpenML's texts to ours.
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what a person looks for on OpenML."""
        return f"data set {self.name!r}, version {self.version}, of OpenML"


@dataclass(frozen=True)
class DataSet:
    """How to obtain a set: without a download, or with one."""

    function: str | None = None  # in `mmech_rf.data.generated`, which makes the records
    arguments: Sequence[Any] = ()  # what it is called with
    openml: OpenML | None = None
    numeric: bool = False  # whether it has numbers, so that `n_bins` may be chosen
    informed: str = ""  # why the schema is not wholly independent of the data, if so

    @classmethod
    def of(cls, openml: Mapping[str, Any] | None = None, **row: Any) -> DataSet:
        """Return the entry of a row of the file."""
        return cls(openml=None if openml is None else OpenML(**openml), **row)


_FILE = resources.files("mmech_rf") / "data" / "catalogue.toml"
_ROWS = tomllib.loads(_FILE.read_text(encoding="utf-8"))

CATALOGUE = {name: DataSet.of(**row) for name, row in _ROWS.items()}
"""All sets by name, those that need no download first."""

BUILT_IN = tuple(name for name, entry in CATALOGUE.items() if entry.function)
"""Names of the sets that need no download."""

INFORMED_SCHEMAS = {name: one.informed for name, one in CATALOGUE.items()}
"""Why a public schema is not wholly independent of the data, or nothing, by name."""
