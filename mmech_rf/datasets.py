"""Data sets by name, and reading of csv files.

`fetch` loads every set of one table. The sets that follow exact rules, and iris, need
no download and have functions of their own; the others come from OpenML.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from mmech.domain.csv_files import Source
from mmech.domain.parts import read_whole
from mmech.exceptions import located
from mmech_rf.data import generated, openml
from mmech_rf.data.catalogue import BUILT_IN, CATALOGUE
from mmech_rf.data.generated import (
    load_balance_scale,
    load_car,
    load_iris,
    load_monks,
    load_nursery,
    load_tic_tac_toe,
)
from mmech_rf.schema import Schema, check_schema

__all__ = [
    "DATASETS",
    "fetch",
    "load_balance_scale",
    "load_car",
    "load_csv",
    "load_iris",
    "load_monks",
    "load_nursery",
    "load_tic_tac_toe",
]


def fetch(
    name: str, *, n_bins: int | None = None, data_home: Any = None, cache: bool = True
) -> Any:
    """Load a data set by name; only what cannot be made is downloaded, once.

    Parameters
    ----------
    name : str
        Made without a download: car, nursery, balance-scale, tic-tac-toe, monks-1,
        monks-2, monks-3, iris. From OpenML: adult, heart, mushroom.
    n_bins : int, optional
        Number of bins of equal width inside public bounds, for the sets with numbers:
        adult, heart, iris. By default the discretisation
        of the matrix-random-forest paper is used, where there is one, else 10.
    data_home : path, optional
        Folder for downloads, scikit-learn's data home by default.
    cache : bool, default=True
        Whether to keep the download there.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, an array (N, d) of raw values, the attributes in schema order followed
        by the schema's required columns, if any; missing values are empty. ``target``
        (N,), ``schema``, ``feature_names`` of all columns, and ``name``.

    Raises
    ------
    ConnectionError
        Where the servers cannot be reached and nothing is cached.
    ValueError
        If the name is unknown, or bins are chosen for a set without numbers.

    Examples
    --------
    >>> fetch("monks-2").data.shape
    (432, 6)
    >>> fetch("iris", n_bins=4).schema.domain_shape
    (4, 4, 4, 4)
    """
    if not isinstance(name, str) or name not in CATALOGUE:
        raise ValueError(
            f"there is no data set {name!r}; choose from {', '.join(CATALOGUE)}"
        )
    entry = CATALOGUE[name]
    if entry.function is None:
        return openml.download(name, n_bins=n_bins, data_home=data_home, cache=cache)
    openml.check_binned(name, n_bins)
    options = {} if n_bins is None else {"n_bins": n_bins}
    return getattr(generated, entry.function)(*entry.arguments, **options)


def load_csv(
    path: Source,
    schema: Schema,
    *,
    with_target: bool = True,
    **form: Any,
) -> Any:
    r"""Read a csv file with a header row, plain or compressed with gzip.

    Columns are found by the names in the schema; others are ignored. Values stay
    text, as `Schema.encode` reads them; an empty field is a missing value. Reading is
    strict, so that no line can change what another one is: every line is one record,
    with as many fields as the header, also in columns that are ignored. Empty lines are
    skipped.

    Parameters
    ----------
    path : path or open binary file
        Compressed where its name ends in ``.gz``.
    schema : Schema
    with_target : bool, default=True
        Set it to False for records without a class column: ``target`` is then None.
    multiline, sep, encoding, decimal, thousands, na
        How the file is written, as in `read`.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, an object array (N, d) of text: the attributes in schema order, then
        the required columns, if any; ``target`` (N,), raw class labels of the schema;
        ``schema``; ``feature_names``, the names of all columns of ``data``; and
        ``name``.

    Raises
    ------
    ValueError
        If a column is missing, a line does not parse, or a label is not one of the
        classes. A line does not parse if it has too many or too few fields, an open
        quote, or bytes of another encoding. The message names file and line or row, not
        their text.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from mmech_rf import Attribute, Schema
    >>> schema = Schema([Attribute.categorical("a", ["x", "y"])], ["0", "1"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.csv")
    ...     _ = path.write_text("class,a\n1,x\n0,y\n")
    ...     bunch = load_csv(path, schema)
    >>> bunch.data.tolist(), bunch.target.tolist()
    ([['x'], ['y']], ['1', '0'])
    """
    check_schema(schema)
    X, y, _ = read_whole(path, schema, with_target=with_target, **form)
    if y is not None:
        name: Any = getattr(path, "name", path)
        with located(f"cannot use the data {os.fspath(name)!r}"):
            y = schema.decode_target(schema.encode_target(y))
    return generated.bunch(X, y, schema)


DATASETS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {name: partial(fetch, name) for name in BUILT_IN}
)
"""Loaders of the sets that need no download, by name, each called without arguments."""
