"""Data sets to download by name, and the public schemas that come with this package.

Each function is `mmech_rf.datasets.fetch` for one set, downloaded even where the same
records can be made without. Its keywords are ``data_home`` and ``cache``,
and ``n_bins`` for sets with numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mmech_rf.data.catalogue import DOWNLOADABLE
from mmech_rf.data.openml import download, load_schema, one_hot_adult

__all__ = [
    "FETCHERS",
    "fetch_adult",
    "fetch_adult_binary",
    "fetch_balance_scale",
    "fetch_banknote",
    "fetch_car",
    "fetch_claves",
    "fetch_heart",
    "fetch_iris",
    "fetch_magic",
    "fetch_mushroom",
    "fetch_nursery",
    "fetch_tic_tac_toe",
    "fetch_wall_robot",
    "load_schema",
    "one_hot_adult",
]

FETCHERS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {name: partial(download, name) for name in sorted(DOWNLOADABLE)}
)
"""Functions by the name of the set."""


def fetch_adult(**options: Any) -> Any:
    """Fetch the adult census data: 48,842 persons, 14 attributes, 2 classes.

    By default the schema follows the matrix-random-forest paper: 8 attributes in
    168,000 cells, and 4 more columns that only decide which records have a missing
    value; with ``handle_missing="drop"`` 45,222 records remain. With ``n_bins`` all
    attributes are used.

    References
    ----------
    .. [1] R. Kohavi, Scaling up the accuracy of naive-Bayes classifiers, KDD 1996.
       OpenML data set "adult", version 2.
    """
    return download("adult", **options)


def fetch_adult_binary(**options: Any) -> Any:
    """Fetch the adult census data as the 123 binary attributes of LIBSVM's a1a."""
    return download("adult-binary", **options)


def fetch_balance_scale(**options: Any) -> Any:
    """Fetch the balance scale data: 625 scales, 4 attributes, 3 classes."""
    return download("balance-scale", **options)


def fetch_banknote(**options: Any) -> Any:
    """Fetch the banknote data: 1,372 pictures, 4 wavelet statistics, 2 classes.

    Class 1 is a forged note. Bounds of the numbers are round, chosen with knowledge of
    the data.

    References
    ----------
    .. [1] V. Lohweg, Banknote Authentication, UCI Machine Learning Repository, 2012.
    """
    return download("banknote", **options)


def fetch_car(**options: Any) -> Any:
    """Fetch the car evaluation data: 1,728 cars, 6 attributes, 4 classes."""
    return download("car", **options)


def fetch_claves(**options: Any) -> Any:
    """Fetch the clave data: 10,796 rhythms of 16 binary notes, 4 directions.

    Four lines of the file have no direction, or two, and are left out.

    References
    ----------
    .. [1] M. Vurkaç, Firm-Teacher Clave-Direction Classification, UCI Machine Learning
       Repository, 2015.
    """
    return download("claves", **options)


def fetch_heart(**options: Any) -> Any:
    """Fetch the Cleveland heart disease data: 303 patients, 13 attributes, 2 classes.

    Values are the codes of the UCI repository; class 1 is any narrowing above 50 %.
    With ``handle_missing="drop"`` the records without missing values remain. By
    default numbers have the cut points of the matrix-random-forest paper, 1,119,744
    cells; with ``n_bins``, bins of equal width inside round clinical bounds.

    References
    ----------
    .. [1] R. Detrano et al., International application of a new probability algorithm
       for the diagnosis of coronary artery disease, American Journal of Cardiology
       64, 1989. OpenML data set "heart-c", version 1.
    """
    return download("heart", **options)


def fetch_iris(**options: Any) -> Any:
    """Fetch Fisher's iris data as the UCI repository has them: 150 flowers, 3 classes.

    `datasets.load_iris` needs no download and differs in two flowers.
    """
    return download("iris", **options)


def fetch_magic(**options: Any) -> Any:
    """Fetch the MAGIC telescope data: 19,020 simulated showers, 10 numbers, 2 classes.

    Class g is a gamma ray, h the background of hadrons.

    References
    ----------
    .. [1] R. Bock, MAGIC Gamma Telescope, UCI Machine Learning Repository, 2007.
    """
    return download("magic", **options)


def fetch_mushroom(**options: Any) -> Any:
    """Fetch the mushroom data: 8,124 mushrooms, 22 attributes, 2 classes.

    Where the root of the stalk is not known it is empty, which the schema reads as the
    category ``"?"``.

    References
    ----------
    .. [1] J. Schlimmer, Concept acquisition through representational adjustment,
       University of California, Irvine, 1987.
    """
    return download("mushroom", **options)


def fetch_nursery(**options: Any) -> Any:
    """Fetch the nursery data: 12,960 applications, 8 attributes, 5 classes."""
    return download("nursery", **options)


def fetch_tic_tac_toe(**options: Any) -> Any:
    """Fetch the tic-tac-toe data: 958 final boards, 9 fields, 2 classes."""
    return download("tic-tac-toe", **options)


def fetch_wall_robot(**options: Any) -> Any:
    """Fetch the wall-following robot: 5,456 readings of 4 distances, 4 movements.

    The records are a time series.

    References
    ----------
    .. [1] A. Freire, M. Veloso, G. Barreto, Wall-Following Robot Navigation Data, UCI
       Machine Learning Repository, 2010.
    """
    return download("wall-robot", **options)
