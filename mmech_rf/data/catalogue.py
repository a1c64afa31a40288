"""The table of data sets: what each is called, and where its records come from.

Plain data that imports nothing else of the package, so that the command line can list
the names at once. `mmech_rf.datasets.fetch` loads a set by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "BUILT_IN",
    "CATALOGUE",
    "INFORMED_SCHEMAS",
    "DataSet",
    "OpenML",
    "UCI",
]


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
class UCI:
    """Where a set lies in the UCI repository: a text file without a header."""

    path: str  # of the file, within the repository
    n_lines: int  # by which a wrong or broken file is known
    width: int  # values to take from every line; the last is the class
    separator: str | None = ","  # between values; None for blanks
    # Whether the class is a column for each of the schema's, one of them "1"; lines
    # with none or several are left out.
    one_hot: bool = False

    @property
    def address(self) -> str:
        """Address of the file."""
        base = "https://archive.ics.uci.edu/ml/machine-learning-databases"
        return f"{base}/{self.path}"

    def __str__(self) -> str:
        """Return what a person looks for in a browser."""
        return f"file {self.address}"


@dataclass(frozen=True)
class DataSet:
    """How to obtain a set: without a download, or with one."""

    function: str | None = None  # in `mmech_rf.data.generated`, which makes the records
    arguments: tuple[Any, ...] = ()  # what it is called with
    # The schema is ``schemas/NAME.json``, from the documentation of the set; where
    # there is ``schemas/NAME.paper.json``, that one is the default.
    openml: OpenML | None = None
    uci: UCI | None = None
    # Function in `mmech_rf.data.openml` that computes the set from another one.
    derived: str | None = None
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
    "adult-binary": DataSet(derived="binary_adult"),
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
    "banknote": DataSet(
        uci=UCI("00267/data_banknote_authentication.txt", 1372, 5), numeric=True
    ),
    "wall-robot": DataSet(
        uci=UCI("00194/sensor_readings_4.data", 5456, 5), numeric=True
    ),
    "magic": DataSet(uci=UCI("magic/magic04.data", 19020, 11), numeric=True),
    "claves": DataSet(
        uci=UCI(
            "00324/ClaveVectors_Firm-Teacher_Model.txt", 10800, 20, None, one_hot=True
        )
    ),
}
"""All sets by name, those that need no download first."""

BUILT_IN = tuple(name for name, entry in CATALOGUE.items() if entry.function)
"""Names of the sets that need no download."""

INFORMED_SCHEMAS: Mapping[str, str] = {
    "adult-binary": "its quintiles were computed from the data",
    "banknote": "its bounds are round numbers chosen with knowledge of the data",
    "iris": "its bounds and cut points were chosen with knowledge of the data",
}
"""Why a public schema is not wholly independent of the data, by name of the schema."""
