"""Data sets by name, and reading of csv files.

`fetch` loads every set of one table; each has a function of its own, too.
"""

from __future__ import annotations

import os
from typing import Any, Unpack

from numpy.typing import NDArray

from mmech.domain.csv_files import CsvFormat, Source, read_cells
from mmech.exceptions import located
from mmech_rf.data import generated
from mmech_rf.data.catalogue import CATALOGUE
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
    "fetch",
    "load_balance_scale",
    "load_car",
    "load_csv",
    "load_iris",
    "load_monks",
    "load_nursery",
    "load_tic_tac_toe",
]


def fetch(name: str) -> Any:
    """Load a data set by name; nothing is downloaded.

    Parameters
    ----------
    name : str
        car, nursery, balance-scale, tic-tac-toe, monks-1, monks-2, monks-3 or iris.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, an array (N, d) of raw values, the attributes in schema order;
        ``target`` (N,), ``schema``, ``feature_names`` and ``name``.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> fetch("monks-2").data.shape
    (432, 6)
    """
    if not isinstance(name, str) or name not in CATALOGUE:
        raise ValueError(
            f"there is no data set {name!r}; choose from {', '.join(CATALOGUE)}"
        )
    function, arguments = CATALOGUE[name]
    return getattr(generated, function)(*arguments)


def load_csv(
    path: Source,
    schema: Schema,
    *,
    with_target: bool = True,
    decode: bool = True,
    **form: Unpack[CsvFormat],
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
    decode : bool, default=True
        False leaves labels as text, which may be missing or wrong.
    multiline, sep, encoding, decimal, thousands, na
        How the file is written, as in `read`.

    Returns
    -------
    sklearn.utils.Bunch
        ``data``, an object array (N, d) of text, the attributes in schema order
        followed by the schema's required columns, if any; ``target`` (N,), raw
        class labels of the schema; ``schema``; ``feature_names``, the names of all
        columns of ``data``; and ``name``.

    Raises
    ------
    ValueError
        If a column is missing, or a line does not parse (too many or too few fields, a
        quote that is not closed, bytes of another encoding), or a label is not one of
        the classes. It names file and line or row, not what stands there.

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
    if not isinstance(path, (str, os.PathLike)) and not hasattr(path, "read"):
        raise TypeError(
            f"path must be a path or an open binary file, got {type(path).__name__}"
        )
    names = [*schema.feature_names, *schema.required]
    wanted = [*names, schema.target] if with_target else names
    numbers = [a.name for a in schema.attributes if a.kind == "numeric"]
    name = getattr(path, "name", "csv") if hasattr(path, "read") else os.fspath(path)
    with located(f"cannot use the data {name!r}"):
        cells = read_cells(path, wanted, numbers, **form)
        target: NDArray[Any] | None = cells[:, -1] if with_target else None
        if with_target and decode:
            target = schema.decode_target(schema.encode_target(target))
    return generated.bunch(cells[:, : len(names)], target, schema)
