"""Real data sets, most of them from OpenML, with public schemas of this package.

Each set of OpenML is pinned to a name and version there, downloaded once by
scikit-learn's `fetch_openml` and kept in its data home. Names and codes are translated
to those of the UCI Machine Learning Repository, which the schemas use. Sets that only
that repository has under its own names are those of `uci`. Schemas are written from
the documentation of the sets and never read from the downloaded records.
"""

from __future__ import annotations

import math
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

from mmech.checks import check_integer
from mmech.exceptions import ParameterError
from mmech_rf.data import uci
from mmech_rf.data.catalogue import CATALOGUE, OpenML
from mmech_rf.data.generated import bunch
from mmech_rf.schema import Attribute, Schema

__all__ = ["binary_adult", "check_binned", "download", "load_schema", "one_hot_adult"]


def load_schema(name: str, *, n_bins: int | None = None) -> Schema:
    """Return a public schema that comes with this package.

    Parameters
    ----------
    name : str
        A set that is downloaded: adult, adult-binary, heart, ...
    n_bins : int, optional
        Number of bins of equal width inside public bounds, for numeric attributes. By
        default the discretisation of the matrix-random-forest paper is returned, where
        there is one.

    Returns
    -------
    Schema

    Examples
    --------
    >>> load_schema("adult").n_cells
    168000
    >>> load_schema("heart", n_bins=4).domain_shape
    (4, 2, 4, 4, 4, 2, 3, 4, 2, 4, 3, 4, 3)
    """
    if name == "adult-binary":
        return _adult_binary_schema()
    folder = resources.files("mmech_rf") / "data" / "schemas"
    paper = folder / f"{name}.paper.json"
    if n_bins is None:
        file = paper if paper.is_file() else folder / f"{name}.json"
        return Schema.from_json(file.read_text(encoding="utf-8"))
    n_bins = check_integer(n_bins, "n_bins")
    text = (folder / f"{name}.json").read_text(encoding="utf-8")
    return Schema.from_json(text, n_bins=n_bins)


def download(
    name: str, *, n_bins: int | None = None, data_home: Any = None, cache: bool = True
) -> Any:
    """Return a set that is not made here, as `mmech_rf.datasets.fetch` does."""
    entry = CATALOGUE[name]
    check_binned(name, n_bins)
    if entry.derived is not None:
        return globals()[entry.derived](data_home=data_home, cache=cache)
    schema = load_schema(name, n_bins=n_bins)
    source = entry.openml or entry.uci
    assert source is not None
    home = {"data_home": data_home, "cache": cache}
    try:
        if isinstance(source, OpenML):
            data, target = _of_openml(source, schema, **home)
        else:
            data, target = uci.records(source, schema.class_labels, **home)
    except OSError as error:  # also what urllib raises
        raise ConnectionError(
            f"cannot fetch {name!r}, {source}: {error}; "
            "connect to the internet for the first time (later calls use the cache), "
            "or read a csv file of your own with datasets.load_csv"
        ) from error
    return bunch(data, schema.decode_target(schema.encode_target(target)), schema)


def _of_openml(source: OpenML, schema: Schema, **home: Any) -> Any:
    """Return records and classes, in our names and the order of our schema."""
    found = fetch_openml(
        name=source.name,
        version=source.version,
        target_column=None,
        as_frame=False,
        parser="liac-arff",
        **home,
    )
    names = [*schema.feature_names, *schema.required]
    data = np.empty((found.data.shape[0], len(names)), dtype=object)
    for j, column in enumerate(names):
        data[:, j] = _column(found, column, source)
    return data, _column(found, schema.target, source)


def check_binned(name: str, n_bins: int | None) -> None:
    """Raise where bins are chosen for a set that has no numbers."""
    if n_bins is not None and not CATALOGUE[name].numeric:
        raise ParameterError(
            "n_bins",
            f"is for sets with numbers, and {name!r} has none",
            n_bins,
            "leave it out",
        )


def _column(found: Any, name: str, source: OpenML) -> NDArray[np.object_]:
    """Return a column as text or numbers in our names; missing values are empty."""
    theirs = source.columns.get(name, name)
    if theirs not in found.feature_names:
        raise ValueError(
            f"{source} has no column {theirs!r}, although this version had; clear the "
            "cache of scikit-learn and fetch it again"
        )
    values = found.data[:, found.feature_names.index(theirs)]
    texts = found.categories.get(theirs)
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


_BINARY_CUTS = {
    "age": (25, 32, 40, 49),
    "fnlwgt": (106627, 158656, 196332, 259865),
    "education-num": (8, 9, 10, 12),
    "capital-gain": (0,),
    "capital-loss": (0,),
    "hours-per-week": (34, 39, 40, 47),
}
"""Cut points of the numeric attributes; a value above a cut is in the next bin."""


def _adult_binary_schema() -> Schema:
    width = sum(_binary_widths())
    columns = [Attribute.categorical(str(i), ["0", "1"]) for i in range(width)]
    return Schema(tuple(columns), ("-1", "1"), name="adult-binary")


def _binary_widths() -> list[int]:
    attributes = load_schema("adult", n_bins=2).attributes
    cuts = ((a, _BINARY_CUTS.get(a.name)) for a in attributes)
    return [a.size if own is None else len(own) + 1 for a, own in cuts]


def one_hot_adult(data: Any) -> NDArray[np.object_]:
    """Return records of Adult as 123 texts "0" and "1" each.

    Parameters
    ----------
    data : array, shape (N, 14)
        Raw values, as of the set adult with `n_bins`; missing values are empty.

    Returns
    -------
    ndarray of object, shape (N, 123)
        One column per bin or category, in the order of the attributes; a missing
        value has no "1".
    """
    attributes = load_schema("adult", n_bins=2).attributes
    blocks = []
    for attribute, column, width in zip(
        attributes, np.asarray(data, dtype=object).T, _binary_widths(), strict=True
    ):
        if attribute.name in _BINARY_CUTS:
            cuts = _BINARY_CUTS[attribute.name]
            codes = np.searchsorted(cuts, column.astype(np.float64))
        else:
            places = {text: i for i, text in enumerate(attribute.categories)}
            codes = np.array([places.get(text, -1) for text in column])
        blocks.append(codes[:, None] == np.arange(width))
    return np.where(np.hstack(blocks), "1", "0").astype(object)


def binary_adult(*, data_home: Any, cache: bool) -> Any:
    """Return the adult census data as 123 binary attributes.

    The encoding of the LIBSVM sets a1a to a9a: a column for every category and every
    bin of a numeric attribute. A missing value has no column with a 1. Class 1 is an
    income above 50,000 dollars, class -1 the other.

    Notes
    -----
    The cut points of fnlwgt, age and hours are near quintiles of the data.

    References
    ----------
    .. [1] J. Platt, Fast training of support vector machines using sequential minimal
       optimization, Advances in Kernel Methods, 1998.
    """
    raw = download("adult", n_bins=2, data_home=data_home, cache=cache)
    data = one_hot_adult(raw.data[:, : raw.schema.n_features])
    target = np.where(raw.target == ">50K", "1", "-1")
    return bunch(data, target, _adult_binary_schema())
