"""The table of data sets: what each is called, and which function makes its records.

Plain data that imports nothing else of the package, so that the command line can list
the names at once. `mmech_rf.datasets.fetch` loads a set by its name.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CATALOGUE", "INFORMED_SCHEMAS"]

CATALOGUE: dict[str, tuple[str, tuple[int, ...]]] = {
    "car": ("load_car", ()),
    "nursery": ("load_nursery", ()),
    "balance-scale": ("load_balance_scale", ()),
    "tic-tac-toe": ("load_tic_tac_toe", ()),
    "monks-1": ("load_monks", (1,)),
    "monks-2": ("load_monks", (2,)),
    "monks-3": ("load_monks", (3,)),
    "iris": ("load_iris", ()),
}
"""Functions of `mmech_rf.data.generated`, and their arguments, by name of the set."""

INFORMED_SCHEMAS: Mapping[str, str] = {
    "iris": "its bounds and cut points were chosen with knowledge of the data",
}
"""Why a public schema is not wholly independent of the data, by name of the schema."""
