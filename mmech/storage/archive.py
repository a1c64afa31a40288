"""Files of this project: a ZIP archive of a JSON description and NumPy arrays.

Data only, never pickle: reading one runs no code from it. What the description means
is decided by those who write and read it (strategies here, models in `mmech_rf`).
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmech.writing import replacing

__all__ = ["ArchiveError", "position", "read_archive", "write_archive"]

DESCRIPTION = "description.json"

Loaded = TypeVar("Loaded")


class ArchiveError(ValueError):
    """A file that is refused for a reason worth a sentence of its own."""


def write_archive(
    path: str | os.PathLike[str],
    description: Mapping[str, Any],
    arrays: Sequence[NDArray[Any]],
) -> None:
    """Write a file, or leave the old one where the writing is interrupted."""
    text = json.dumps({**description, "arrays": len(arrays)}, indent=1, allow_nan=False)
    with replacing(path) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        _write_member(archive, DESCRIPTION, text.encode())
        for index, array in enumerate(arrays):
            _write_member(archive, f"array_{index}.npy", _npy(array))


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _write_member(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Write with a fixed date, so that equal content gives equal files."""
    member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    member.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(member, content)


def read_archive(
    path: str | os.PathLike[str],
    build: Callable[[dict[str, Any], list[NDArray[Any]]], Loaded],
    *,
    what: str,
    form: str,
    version: int,
    dtypes: Collection[str],
) -> Loaded:
    """Read a file and build from its description and arrays.

    Parameters
    ----------
    path : path-like
        File to read.
    build : callable
        Takes the description and the arrays. What it raises means damage, but for
        an `ArchiveError`, which is passed on.
    what : str
        What the file holds, for messages, such as ``"strategy"``.
    form, version : str and int
        Value of ``format`` in the description, and the newest version that is read.
    dtypes : collection of str
        Types that arrays may have.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is damaged, of another format or newer.
    """
    source = Path(path)
    with source.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                description = json.loads(archive.read(DESCRIPTION))
                _check_header(description, source, what, form, version)
                arrays = [
                    _read_array(archive, index, dtypes)
                    for index in range(position(description["arrays"]))
                ]
            return build(description, arrays)
        except ArchiveError:
            raise
        except Exception as failure:
            raise ValueError(
                f"{source} is not a {what} file or is damaged; save the {what} again "
                f"({type(failure).__name__})"
            ) from failure


def _check_header(
    description: Any, source: Path, what: str, form: str, version: int
) -> None:
    if not isinstance(description, dict) or description.get("format") != form:
        raise ArchiveError(f"{source} is not a {what} file: its format is not {form!r}")
    found = description.get("version")
    if not isinstance(found, int) or found > version:
        raise ArchiveError(
            f"{source} has version {found} of the file format but this mmech reads "
            f"up to {version}; update mmech"
        )


def _read_array(
    archive: zipfile.ZipFile, index: int, dtypes: Collection[str]
) -> NDArray[Any]:
    content = io.BytesIO(archive.read(f"array_{index}.npy"))
    array = np.load(content, allow_pickle=False)
    if str(array.dtype) not in dtypes:
        raise ValueError(f"an array of dtype {array.dtype}")
    return np.asarray(array)


def position(value: Any) -> int:
    """Return a position in a list, as a file gives it, or raise."""
    if not isinstance(value, int) or value < 0:
        raise ValueError("a reference that is not a position")
    return value
