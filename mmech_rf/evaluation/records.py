"""Records for a comparison: a built-in data set, or a csv file and its schema."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import NDArray

from mmech.domain.csv_files import CsvFormat
from mmech.domain.parts import read_whole
from mmech.exceptions import ParameterError, located
from mmech_rf import datasets
from mmech_rf.data.catalogue import CATALOGUE, INFORMED_SCHEMAS
from mmech_rf.schema import Schema


@dataclass(frozen=True)
class Records:
    """Labelled records that a schema can read.

    Attributes
    ----------
    name : str
    X : ndarray, shape (N, d)
        Raw values.
    y : ndarray, shape (N,)
        Raw class labels.
    schema : Schema
    n_dropped : int
        How many records with missing values were left out.
    """

    name: str
    X: NDArray[Any]
    y: NDArray[Any]
    schema: Schema
    n_dropped: int = 0

    @property
    def caveat(self) -> str | None:
        """Why the schema is not wholly public, for the sets where it is not."""
        reason = INFORMED_SCHEMAS.get(self.schema.name or "")
        return reason and (
            f"The public schema of {self.schema.name} is not wholly independent of "
            f"the data: {reason}."
        )


def load_records(
    source: Any,
    schema_file: str | None = None,
    *,
    missing: str = "error",
    **form: Unpack[CsvFormat],
) -> Records:
    """Load a data set by name, or a csv file with its schema.

    Parameters
    ----------
    source : str or file object
        Name of a set that `datasets.fetch` loads; path of a csv or Parquet file, or of
        a folder of them; or the bytes of a csv file.
    schema_file : str, optional
        Path of a JSON schema, see `Schema.from_json`; needed for a csv file.
    missing : {"error", "drop"}, default="error"
        What to do with records that have missing values.
    multiline, sep, encoding, decimal, thousands, na
        How a csv file is written, see `read`.

    Returns
    -------
    Records
        All of them readable by the schema.

    Raises
    ------
    OSError
        If a file cannot be opened, or OpenML not be reached.
    ValueError
        If the name is unknown, or file and schema do not match.

    Examples
    --------
    >>> records = load_records("car")
    >>> records.X.shape, records.schema.n_cells
    ((1728, 6), 1728)
    """
    path = getattr(source, "name", source)
    named = source in CATALOGUE
    if named and schema_file is not None:
        raise ValueError(
            f"the data set {source!r} brings its own schema; leave the schema file out"
        )
    if named:
        bunch = datasets.fetch(source)
        schema, X, y = bunch.schema, bunch.data, bunch.target
    elif schema_file is not None:
        schema = read_schema(schema_file)
        X, y, _ = read_whole(source, schema, **form)
    elif path is not source or Path(path).exists():
        raise ParameterError(
            "schema_file",
            "must name the public attributes and classes, in a schema, of the file "
            f"{path!r}",
        )
    else:
        raise ValueError(
            f"there is no data set and no file named {source!r}; choose from "
            f"{', '.join(CATALOGUE)}, or give the path of a csv file"
        )
    with located(f"cannot use the data {path!r}"):
        _, class_codes, index = schema.encode(
            X, y, handle_missing=missing, return_index=True
        )
    if index.size < 5:
        raise ValueError(
            f"comparing needs at least 5 complete records, got {index.size} in "
            f"{path!r}; use a larger file"
        )
    # Columns after the attributes only decide which records to drop, as is done now.
    X, n_dropped = X[index, : schema.n_features], len(X) - index.size
    schema = replace(schema, required=())
    name = source if named else Path(path).name
    return Records(name, X, schema.decode_target(class_codes), schema, n_dropped)


def read_schema(path: str, *, n_bins: int = 10) -> Schema:
    """Read a schema file; errors name it."""
    with located(f"cannot use the schema {path!r}"):
        return Schema.from_json(Path(path), n_bins=n_bins)
