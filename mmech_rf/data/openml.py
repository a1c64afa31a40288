"""Real data sets from OpenML, with public schemas of this package.

Each set is pinned to a name and version there, downloaded once by scikit-learn's
`fetch_openml` and kept in its data home. Names and codes are translated to those of
the UCI Machine Learning Repository, which the schemas use. Schemas are written from
the documentation of the sets and never read from the downloaded records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

from mmech.exceptions import ParameterError
from mmech_rf.data.catalogue import CATALOGUE, OpenML
from mmech_rf.data.generated import bunch, load_schema
from mmech_rf.schema import Schema


def download(
    name: str, *, n_bins: int | None = None, data_home: Any = None, cache: bool = True
) -> Any:
    """Return a set that is not made here, as `mmech_rf.datasets.fetch` does."""
    entry = CATALOGUE[name]
    check_binned(name, n_bins)
    schema = load_schema(name, n_bins=n_bins)
    source = entry.openml
    assert source is not None
    try:
        data, target = _records(source, schema, data_home=data_home, cache=cache)
    except OSError as error:  # also what urllib raises
        raise ConnectionError(
            f"cannot fetch {name!r}, {source}: {error}; "
            "connect to the internet for the first time (later calls use the cache), "
            "or read a csv file of your own with datasets.load_csv"
        ) from error
    return bunch(data, schema.decode_target(schema.encode_target(target)), schema)


def _records(source: OpenML, schema: Schema, **home: Any) -> Any:
    """Return records and classes, in our names and the order of our schema."""
    fetched = fetch_openml(
        name=source.name,
        version=source.version,
        target_column=None,
        as_frame=False,
        parser="liac-arff",
        **home,
    )
    names = [*schema.feature_names, *schema.required]
    data = np.empty((fetched.data.shape[0], len(names)), dtype=object)
    for j, column in enumerate(names):
        data[:, j] = _column(fetched, column, source)
    return data, _column(fetched, schema.target, source)


def check_binned(name: str, n_bins: int | None) -> None:
    """Raise where bins are chosen for a set that has no numbers."""
    if n_bins is not None and not CATALOGUE[name].numeric:
        raise ParameterError(
            "n_bins",
            f"is for sets with numbers, and {name!r} has none",
            n_bins,
            "leave it out",
        )


def _column(fetched: Any, name: str, source: OpenML) -> NDArray[np.object_]:
    """Return a column as text or numbers in our names; missing values are empty."""
    theirs = source.columns.get(name, name)
    if theirs not in fetched.feature_names:
        raise ValueError(
            f"{source} has no column {theirs!r}, although this version had; clear the "
            "cache of scikit-learn and fetch it again"
        )
    values = fetched.data[:, fetched.feature_names.index(theirs)]
    texts = fetched.categories.get(theirs)
    words = source.values.get(name, {})
    out = np.empty(values.shape, dtype=object)
    for row, value in enumerate(values.tolist()):
        if isinstance(value, float) and math.isnan(value):
            out[row] = ""
        elif texts is None:
            out[row] = value
        else:
            text = texts[int(value)]
            out[row] = words.get(text, text)
    return out
