"""Data sets of the table: built in, or files in the folder of ``MMECH_DATA_DIR``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.utils import Bunch

from mmech_rf import Attribute, Schema, datasets

GRID = 64
"""Cells of equal width that numbers are put in: fine, and the same everywhere."""

PAPER_FEATURES = (
    "age", "workclass", "education", "marital-status", "occupation", "race", "sex",
    "hours-per-week",
)  # fmt: skip
"""The eight attributes of Adult that the paper looks at."""

ACS_FEATURES = (
    "age",
    "workclass",
    "education",
    "marital-status",
    "occupation",
    "native-country",
    "relationship",
    "hours-per-week",
    "sex",
    "race",
)
"""The ten attributes of Folktables' ACSIncome (Ding et al. 2021), as Adult has them."""


@dataclass(frozen=True)
class Source:
    """Where records come from.

    Attributes
    ----------
    file : str
        Name of the files, without what follows the first dot.
    paper : bool
        Whether cells are those of the paper; otherwise raw categories, and numbers on
        the grid between the public bounds of the schema.
    features : tuple of str, optional
        Attributes that are kept; all by default.
    built_in : callable, optional
        What loads the set where there is no file: rules, and scikit-learn's own.
    complete : bool
        Whether records with a missing value are left out.
    """

    file: str
    paper: bool = False
    features: tuple[str, ...] | None = None
    built_in: Callable[[], Any] | None = None
    complete: bool = False


SOURCES = {
    "car": Source("car", paper=True, built_in=datasets.load_car),
    "balance-scale": Source(
        "balance-scale", paper=True, built_in=datasets.load_balance_scale
    ),
    "iris": Source("iris", paper=True, built_in=datasets.load_iris),
    "heart": Source("heart", paper=True),
    "mushroom": Source("mushroom", paper=True),
    "adult": Source("adult", features=PAPER_FEATURES),
    "adult-14": Source("adult"),
    "adult-acs": Source("adult", features=ACS_FEATURES),
    "adult-binary": Source("adult-binary"),
    "nursery": Source("nursery", built_in=datasets.load_nursery),
    "tic-tac-toe": Source("tic-tac-toe", built_in=datasets.load_tic_tac_toe),
    "banknote": Source("banknote"),
    "blood-transfusion": Source("blood-transfusion"),
    "bank-marketing": Source("bank-marketing"),
    "magic": Source("magic"),
    "wall-robot": Source("wall-robot"),
    "claves": Source("claves"),
    "student-por": Source("student-por"),
    "iris-grid": Source("iris", built_in=partial(datasets.load_iris, n_bins=GRID)),
    "heart-grid": Source("heart"),
    "adult-paper-bins": Source("adult", paper=True),
}

DATA_SETS = tuple(SOURCES)

PARITY_ATTRIBUTES = 10
PARITY_FLIPPED = 0.05
"""Number of attributes of 0 and 1, and share of labels that are wrong."""


def parity(order: int, n_records: int) -> Any:
    """Return records whose label is the parity of some attributes among noise.

    Any fewer of these attributes tell nothing of the label, so that methods which add
    one attribute after the other have nothing to go by.

    Parameters
    ----------
    order : int
        Number of attributes that the label depends on.
    n_records : int
    """
    rng = np.random.default_rng([order, n_records])
    data = rng.integers(0, 2, (n_records, PARITY_ATTRIBUTES))
    flipped = rng.random(n_records) < PARITY_FLIPPED
    target = data[:, :order].sum(axis=1) % 2 ^ flipped
    names = [f"a{i}" for i in range(PARITY_ATTRIBUTES)]
    schema = Schema([Attribute.categorical(name, [0, 1]) for name in names], [0, 1])
    return Bunch(
        data=data,
        target=target,
        schema=schema,
        feature_names=names,
        name=f"parity of {order}",
    )


def synthetic(informative: int, noise: int, n_records: int, seed: int = 0) -> Any:
    """Return records of ``sklearn.datasets.make_classification``, two even classes.

    Fletcher and Islam 2017 say which features are informative and which are noise, all
    else by default; seeds are ours. Bounds are public, -8 and 8: others are clipped.
    """
    data, target = make_classification(
        n_records, informative + noise, n_informative=informative, n_redundant=0,
        random_state=seed,
    )  # fmt: skip
    names = [f"x{i}" for i in range(informative + noise)]
    schema = Schema(
        [Attribute.numeric(n, lower=-8, upper=8, n_bins=GRID) for n in names], [0, 1]
    )
    return Bunch(data=data, target=target, schema=schema, feature_names=names)


SYNTHETIC = {
    "synth-a": (5, 0, 30_000),
    "synth-b": (10, 0, 30_000),
    "synth-c": (15, 0, 30_000),
    "synth-d": (10, 5, 30_000),
    "synth-e": (5, 10, 30_000),
    "synth-f": (5, 5, 30_000),
    "synth-g": (10, 10, 30_000),
    "syn5d": (5, 0, 3_000),
    "syn10d": (10, 0, 3_000),
    "syn15d": (15, 0, 3_000),
}
"""Sets of Fletcher and Islam 2017, and of Huang et al. 2022, whose sources leave open
what is informative: informative features, noise, records."""

SOURCES["mushroom-complete"] = Source("mushroom", paper=True, complete=True)
SOURCES |= {name: Source(name) for name in SYNTHETIC}

PARITIES = {
    f"parity of {order}, {n} records": (order, n)
    for n in (1_000, 10_000, 100_000)
    for order in range(1, 8)
}
"""Sets of the stress table: number of attributes of the parity, and of records."""

SOURCES |= {
    name: Source(name, built_in=partial(parity, *sizes))
    for name, sizes in PARITIES.items()
}


def load(name: str, seed: int = 0) -> Any | None:
    """Return data, target and schema of a data set; ``None`` where it has no file.

    Rows with a missing value that the schema does not know are left out. Seeds are of
    synthetic sets.
    """
    source = SOURCES[name]
    if name in SYNTHETIC:
        return synthetic(*SYNTHETIC[name], seed)
    folder = os.environ.get("MMECH_DATA_DIR", "")
    table = Path(folder, f"{source.file}.csv.gz")
    if not folder or not table.exists():
        return None if source.built_in is None else source.built_in()
    kind = "mrf_schema" if source.paper else "schema"
    path = Path(folder, f"{source.file}.{kind}.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    bunch = datasets.load_csv(table, Schema.from_json(on_grid(document), n_bins=GRID))
    if groups := document.get("one_hot_groups"):
        bunch = merged(bunch, groups)
    try:
        bunch.schema.encode(bunch.data, bunch.target)
        readable = True
    except ValueError:
        readable = False
    if source.complete or not readable:
        whole = (bunch.data != "").all(axis=1)
        bunch.data, bunch.target = bunch.data[whole], bunch.target[whole]
    if source.features is not None:
        columns = [bunch.feature_names.index(name) for name in source.features]
        bunch.data = bunch.data[:, columns]
        bunch.schema = bunch.schema.select(source.features)
    return bunch


def on_grid(document: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose whole numbers, where they are few, have a cell each."""
    features = [
        entry | {"lower": entry["lower"] - 0.5, "upper": entry["upper"] + 0.5}
        | {"n_bins": entry["upper"] - entry["lower"] + 1}
        if entry.get("integer") and entry["upper"] - entry["lower"] < GRID
        else entry
        for entry in document.get("features", ())
    ]  # fmt: skip
    return document | {"features": features} if features else document


def merged(bunch: Any, groups: Sequence[dict[str, Any]]) -> Any:
    """Return the records with one attribute for each group of 0/1 columns.

    A record without a 1 in a group is missing there, which is a category of its own.

    Parameters
    ----------
    bunch : Bunch
        Data of 0/1 columns, target and schema.
    groups : sequence of dict
        Name, first column and number of columns of every attribute; public.

    Raises
    ------
    ValueError
        If a record has several ones in a group.
    """
    ones = bunch.schema.encode(bunch.data)
    columns, attributes = [], []
    for group in groups:
        first, count, name = group["first"], group["count"], group["attribute"]
        part = ones[:, first : first + count]
        if (part.sum(axis=1) > 1).any():
            raise ValueError(f"a record has several ones among the columns of {name!r}")
        labels = np.array([*map(str, range(count)), "missing"], dtype=object)
        columns.append(labels[np.where(part.any(axis=1), part.argmax(axis=1), count)])
        attributes.append(Attribute.categorical(name, labels.tolist()))
    schema = Schema(
        tuple(attributes), bunch.schema.class_labels, name=bunch.schema.name
    )
    return Bunch(
        data=np.stack(columns, axis=1),
        target=bunch.target,
        schema=schema,
        feature_names=list(schema.feature_names),
        name=schema.name,
    )


def split(n: int, repetition: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions of 80 % and 20 % of n records, the same for all methods."""
    order = np.random.default_rng(repetition).permutation(n)
    cut = round(0.8 * n)
    return order[:cut], order[cut:]
