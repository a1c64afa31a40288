"""Real data sets from OpenML, with public schemas that come with this package.

Each set is pinned to a name and version on OpenML, downloaded once by scikit-learn's
`fetch_openml` and kept in its data home. Names and codes are translated to those of
the UCI Machine Learning Repository, which the schemas use. Schemas are written from
the documentation of the sets and never read from the downloaded records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from mmech.checks import check_integer
from mmech_rf.schema import Attribute, Schema

__all__ = [
    "FETCHERS",
    "fetch_adult",
    "fetch_adult_binary",
    "fetch_balance_scale",
    "fetch_car",
    "fetch_heart",
    "fetch_iris",
    "fetch_mushroom",
    "fetch_nursery",
    "fetch_tic_tac_toe",
    "load_schema",
]


@dataclass(frozen=True)
class _Source:
    """Where a set lies on OpenML, and what its names mean in our schemas.

    Attributes
    ----------
    name : str
        Name on OpenML.
    version : int
        Version of that name.
    columns : mapping
        Our name of a column to OpenML's, where they differ.
    values : mapping
        By our name of a column, OpenML's texts to ours.
    """

    name: str
    version: int = 1
    columns: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return what a person looks for on OpenML."""
        return f"data set {self.name!r}, version {self.version}, of OpenML"


_NO_YES = {"no": "0", "yes": "1"}
_SOURCES = {
    "adult": _Source("adult", 2),
    "balance-scale": _Source(
        "balance-scale",
        1,
        {
            f"{side}_{what}": f"{side}-{what}"
            for side in ("left", "right")
            for what in ("weight", "distance")
        },
    ),
    "car": _Source("car"),
    "heart": _Source(
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
    "iris": _Source(
        "iris",
        1,
        {
            f"{part}_{what}": part + what
            for part in ("sepal", "petal")
            for what in ("length", "width")
        },
    ),
    "mushroom": _Source("mushroom"),
    "nursery": _Source("nursery"),
    "tic-tac-toe": _Source(
        "tic-tac-toe",
        1,
        {
            "class": "Class",
            **{
                f"{row}-{column}": f"{row}-{column}-square"
                for row in ("top", "middle", "bottom")
                for column in ("left", "middle", "right")
            },
        },
    ),
}


def load_schema(name: str, *, n_bins: int | None = None) -> Schema:
    """Return a public schema that comes with this package.

    Parameters
    ----------
    name : str
        One of adult, adult-binary, balance-scale, car, heart, iris, mushroom, nursery,
        tic-tac-toe.
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
    if name not in FETCHERS:
        raise ValueError(
            f"there is no schema of {name!r}; choose from {', '.join(FETCHERS)}"
        )
    if name == "adult-binary":
        return _adult_binary_schema()
    folder = resources.files("mmech_rf") / "schemas"
    paper = folder / f"{name}.paper.json"
    if n_bins is None:
        file = paper if paper.is_file() else folder / f"{name}.json"
        return Schema.from_json(file.read_text(encoding="utf-8"))
    n_bins = check_integer(n_bins, "n_bins")
    text = (folder / f"{name}.json").read_text(encoding="utf-8")
    return Schema.from_json(text, n_bins=n_bins)


def _fetch(name: str, *, n_bins: int | None, data_home: Any, cache: bool) -> Any:
    schema, source = load_schema(name, n_bins=n_bins), _SOURCES[name]
    try:
        found = fetch_openml(
            name=source.name,
            version=source.version,
            target_column=None,
            as_frame=False,
            parser="liac-arff",
            data_home=data_home,
            cache=cache,
        )
    except OSError as error:  # also what urllib raises
        raise ConnectionError(
            f"cannot fetch {name!r}, {source}: {error}; "
            "connect to the internet for the first time (later calls use the cache), "
            "or read a csv file of your own with datasets.load_csv"
        ) from error
    names = [*schema.feature_names, *schema.required]
    data = np.empty((found.data.shape[0], len(names)), dtype=object)
    for j, column in enumerate(names):
        data[:, j] = _column(found, column, source)
    target = _column(found, schema.target, source)
    return Bunch(
        data=data,
        target=schema.decode_target(schema.encode_target(target)),
        schema=schema,
        feature_names=names,
        name=schema.name,
    )


def _column(found: Any, name: str, source: _Source) -> NDArray[np.object_]:
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


def fetch_adult(
    *, n_bins: int | None = None, data_home: Any = None, cache: bool = True
) -> Any:
    """Fetch the adult census data: 48,842 persons, 14 attributes, 2 classes.

    By default the schema is that of the matrix-random-forest paper: 8 attributes in
    168,000 cells, and 4 more columns that only decide which records have a missing
    value; with ``handle_missing="drop"`` 45,222 records remain.

    Parameters
    ----------
    n_bins : int, optional
        Use all attributes, numeric ones in that many bins of equal width.
    data_home : path, optional
        Folder for downloads, scikit-learn's data home by default.
    cache : bool, default=True
        Whether to keep the download there.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, an object array (N, d) of text and numbers, the attributes in schema
        order followed by the schema's required columns; missing values are empty.
        ``target`` (N,), ``schema``, ``feature_names`` of all columns, and ``name``.

    Raises
    ------
    ConnectionError
        Where OpenML cannot be reached and nothing is cached.

    References
    ----------
    .. [1] R. Kohavi, Scaling up the accuracy of naive-Bayes classifiers, KDD 1996.
       OpenML data set "adult", version 2.
    """
    return _fetch("adult", n_bins=n_bins, data_home=data_home, cache=cache)


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
        Raw values, as of `fetch_adult` with `n_bins`; missing values are empty.

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


def fetch_adult_binary(*, data_home: Any = None, cache: bool = True) -> Any:
    """Fetch the adult census data as 123 binary attributes: 48,842 persons, 2 classes.

    The encoding of the LIBSVM sets a1a to a9a, computed from `fetch_adult`: a column
    for every category and every bin of a numeric attribute. A missing value has no
    column with a 1. Class 1 is an income above 50,000 dollars, class -1 the other.

    Parameters
    ----------
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`, with columns named "0" to "122".

    Notes
    -----
    The cut points of fnlwgt, age and hours are near quintiles of the data.

    References
    ----------
    .. [1] J. Platt, Fast training of support vector machines using sequential minimal
       optimization, Advances in Kernel Methods, 1998.
    """
    raw = fetch_adult(n_bins=2, data_home=data_home, cache=cache)
    schema = _adult_binary_schema()
    return Bunch(
        data=one_hot_adult(raw.data[:, : raw.schema.n_features]),
        target=np.where(raw.target == ">50K", "1", "-1"),
        schema=schema,
        feature_names=list(schema.feature_names),
        name=schema.name,
    )


def fetch_balance_scale(*, data_home: Any = None, cache: bool = True) -> Any:
    """Fetch the balance scale data: 625 scales, 4 attributes, 3 classes.

    `datasets.load_balance_scale` generates the same records without a download.

    Parameters
    ----------
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`. OpenML data set "balance-scale", version 1.
    """
    return _fetch("balance-scale", n_bins=None, data_home=data_home, cache=cache)


def fetch_car(*, data_home: Any = None, cache: bool = True) -> Any:
    """Fetch the car evaluation data: 1,728 cars, 6 attributes, 4 classes.

    `datasets.load_car` generates the same records without a download.

    Parameters
    ----------
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`. OpenML data set "car", version 1.
    """
    return _fetch("car", n_bins=None, data_home=data_home, cache=cache)


def fetch_heart(
    *, n_bins: int | None = None, data_home: Any = None, cache: bool = True
) -> Any:
    """Fetch the Cleveland heart disease data: 303 patients, 13 attributes, 2 classes.

    Values are the codes of the UCI repository; class 1 is any narrowing above 50 %.
    With ``handle_missing="drop"`` the records without missing values remain.

    Parameters
    ----------
    n_bins : int, optional
        Number of bins of equal width of numeric attributes, inside round clinical
        bounds. By default the cut points of the matrix-random-forest paper are used:
        1,119,744 cells.
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`.

    References
    ----------
    .. [1] R. Detrano et al., International application of a new probability algorithm
       for the diagnosis of coronary artery disease, American Journal of Cardiology
       64, 1989. OpenML data set "heart-c", version 1.
    """
    return _fetch("heart", n_bins=n_bins, data_home=data_home, cache=cache)


def fetch_iris(
    *, n_bins: int | None = None, data_home: Any = None, cache: bool = True
) -> Any:
    """Fetch Fisher's iris data as in the UCI repository: 150 flowers, 3 classes.

    `datasets.load_iris` needs no download and differs in two flowers.

    Parameters
    ----------
    n_bins : int, optional
        As in `datasets.load_iris`.
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`. OpenML data set "iris", version 1.
    """
    return _fetch("iris", n_bins=n_bins, data_home=data_home, cache=cache)


def fetch_mushroom(*, data_home: Any = None, cache: bool = True) -> Any:
    """Fetch the mushroom data: 8,124 mushrooms, 22 attributes, 2 classes.

    Where the root of the stalk is not known it is empty, which the schema reads as the
    category ``"?"``.

    Parameters
    ----------
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`. OpenML data set "mushroom", version 1.

    References
    ----------
    .. [1] J. Schlimmer, Concept acquisition through representational adjustment,
       University of California, Irvine, 1987.
    """
    return _fetch("mushroom", n_bins=None, data_home=data_home, cache=cache)


def fetch_nursery(*, data_home: Any = None, cache: bool = True) -> Any:
    """Fetch the nursery data: 12,960 applications, 8 attributes, 5 classes.

    `datasets.load_nursery` generates the same records without a download.

    Parameters
    ----------
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`. OpenML data set "nursery", version 1.
    """
    return _fetch("nursery", n_bins=None, data_home=data_home, cache=cache)


def fetch_tic_tac_toe(*, data_home: Any = None, cache: bool = True) -> Any:
    """Fetch the tic-tac-toe data: 958 final boards, 9 fields, 2 classes.

    `datasets.load_tic_tac_toe` generates the same boards without a download.

    Parameters
    ----------
    data_home, cache
        As in `fetch_adult`.

    Returns
    -------
    sklearn.utils.Bunch
        As in `fetch_adult`. OpenML data set "tic-tac-toe", version 1.
    """
    return _fetch("tic-tac-toe", n_bins=None, data_home=data_home, cache=cache)


#: Functions by the name of the set.
FETCHERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "adult": fetch_adult,
        "adult-binary": fetch_adult_binary,
        "balance-scale": fetch_balance_scale,
        "car": fetch_car,
        "heart": fetch_heart,
        "iris": fetch_iris,
        "mushroom": fetch_mushroom,
        "nursery": fetch_nursery,
        "tic-tac-toe": fetch_tic_tac_toe,
    }
)
