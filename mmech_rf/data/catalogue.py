"""The table of data sets: what each is called, and where its records come from.

Plain data that imports nothing else of the package, so that the command line can list
the names at once. `mmech_rf.datasets.fetch` loads a set by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    arguments: tuple[Any, ...] = ()  # what it is called with
    # The schema is ``schemas/NAME.json``, from the documentation of the set; where
    # there is ``schemas/NAME.paper.json``, that one is the default.
    openml: OpenML | None = None
    numeric: bool = False  # whether it has numbers, so that `n_bins` may be chosen


_NO_YES = {"no": "0", "yes": "1"}

CATALOGUE: Mapping[str, DataSet] = {
    "car": DataSet("load_car"),
    "nursery": DataSet("load_nursery"),
    "balance-scale": DataSet("load_balance_scale"),
    "tic-tac-toe": DataSet("load_tic_tac_toe"),
    "monks-1": DataSet("load_monks", (1,)),
    "monks-2": DataSet("load_monks", (2,)),
    "monks-3": DataSet("load_monks", (3,)),
    "iris": DataSet("load_iris", numeric=True),
    "adult": DataSet(openml=OpenML("adult", 2), numeric=True),
    "heart": DataSet(
        openml=OpenML(
            "heart-c",
            1,
            {"class": "num"},
            {
                "sex": {"female": "0", "male": "1"},
                "cp": {
                    "typ_angina": "1",
                    "atyp_angina": "2",
                    "non_anginal": "3",
                    "asympt": "4",
                },
                "fbs": {"f": "0", "t": "1"},
                "restecg": {
                    "normal": "0",
                    "st_t_wave_abnormality": "1",
                    "left_vent_hyper": "2",
                },
                "exang": _NO_YES,
                "slope": {"up": "1", "flat": "2", "down": "3"},
                "thal": {"normal": "3", "fixed_defect": "6", "reversable_defect": "7"},
                "class": {"<50": "0", **{f">50_{degree}": "1" for degree in "1234"}},
            },
        ),
        numeric=True,
    ),
    "mushroom": DataSet(openml=OpenML("mushroom")),
}
"""All sets by name, those that need no download first."""

BUILT_IN = tuple(name for name, entry in CATALOGUE.items() if entry.function)
"""Names of the sets that need no download."""

INFORMED_SCHEMAS: Mapping[str, str] = {
    "iris": "its bounds and cut points were chosen with knowledge of the data",
}
"""Why a public schema is not wholly independent of the data, by name of the schema."""
