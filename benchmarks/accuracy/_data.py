"""Data sets of the table: built in, or files in the folder of ``MMECH_DATA_DIR``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmech_rf import Schema, datasets

BUILT_IN: dict[str, Callable[[], Any]] = {
    "car": datasets.load_car,
    "balance-scale": datasets.load_balance_scale,
    "iris": datasets.load_iris,
    "nursery": datasets.load_nursery,
    "tic-tac-toe": datasets.load_tic_tac_toe,
}
"""Rules and scikit-learn's own; a file of the same name goes first."""

FROM_FILES = (
    "heart",
    "mushroom",
    "adult",
    "banknote",
    "blood-transfusion",
    "bank-marketing",
    "magic",
    "wall-robot",
    "claves",
    "student-por",
)

DATA_SETS = (*BUILT_IN, *FROM_FILES)


def load(name: str) -> Any | None:
    """Return data, target and schema of a data set; ``None`` where it has no file.

    Rows with a missing value that the schema does not know are left out.
    """
    folder = os.environ.get("MMECH_DATA_DIR", "")
    table = Path(folder, f"{name}.csv.gz")
    if not folder or not table.exists():
        return BUILT_IN[name]() if name in BUILT_IN else None
    own, plain = (
        Path(folder, f"{name}.{kind}.json") for kind in ("mrf_schema", "schema")
    )
    schema = Schema.from_json(own if own.exists() else plain)
    bunch = datasets.load_csv(table, schema)
    try:
        schema.encode(bunch.data, bunch.target)
    except ValueError:
        whole = (bunch.data != "").all(axis=1)
        bunch.data, bunch.target = bunch.data[whole], bunch.target[whole]
    return bunch


def split(n: int, repetition: int) -> tuple[Any, Any]:
    """Return positions of 80 % and 20 % of n records, the same for all methods."""
    order = np.random.default_rng(repetition).permutation(n)
    cut = round(0.8 * n)
    return order[:cut], order[cut:]
