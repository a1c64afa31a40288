"""Files of this project: a ZIP archive of a JSON description and NumPy arrays.

Data only, never pickle: reading one runs no code from it. What the description means
is decided by `mmech.storage.codec`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_file, magnitude, parsed_json
from mmech.limits import LIMITS
from mmech.writing import replacing

DESCRIPTION = "description.json"

FORMAT = "mmech"
VERSION = 1
"""Version of the layout of files; those of stored classes are their own."""

DTYPES = frozenset({"bool", "int32", "int64", "float64"})
"""Types that arrays may have."""

Loaded = TypeVar("Loaded")


class ArchiveError(ValueError):
    """A refusal of a file: a sentence whose subject, the file, is put before it."""


class EvidenceError(ArchiveError):
    """A file whose numbers are not those of its evidence."""


def write_archive(
    path: str | os.PathLike[str],
    what: str,
    content: Mapping[str, Any],
    arrays: Sequence[NDArray[Any]],
) -> None:
    """Write a file, or leave the old one where the writing is interrupted."""
    header = {"format": FORMAT, "version": VERSION, "holds": what}
    description = {**header, "arrays": len(arrays), **content}
    packed = [_npy(array) for array in arrays]
    description["sha256"] = _digest(description, packed)
    text = json.dumps(description, allow_nan=False)
    with replacing(path) as unfinished, zipfile.ZipFile(unfinished, "w") as archive:
        _write_member(archive, DESCRIPTION, text.encode())
        for index, array in enumerate(packed):
            _write_member(archive, f"array_{index}.npy", array)


def _digest(description: Mapping[str, Any], packed: Sequence[bytes]) -> str:
    """Return the SHA-256 of all content, keys sorted; it tells of damage and edits."""
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for array in packed:
        digest.update(array)
    return digest.hexdigest()


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
    what: str,
    build: Callable[[dict[str, Any], list[NDArray[Any]]], Loaded],
) -> Loaded:
    """Read a file that holds `what`, and build from its description and arrays.

    An `ArchiveError` refuses a file that is too large, was changed, holds something
    else, or is of another format or version; `build` may raise it as well. Any other
    exception, also of `build`, means damage: a `ValueError`.
    """
    source = Path(check_file(path))
    with source.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_sizes(archive)
                description = parsed_json(archive.read(DESCRIPTION))
                _check_header(description, what)
                packed = [
                    archive.read(f"array_{index}.npy")
                    for index in range(description["arrays"])
                ]
            if description.pop("sha256", None) != _digest(description, packed):
                raise ArchiveError(
                    "was changed after it was written: its checksum is another; ask "
                    f"for the original file, or save the {what} again"
                )
            return build(description, [_array(content) for content in packed])
        except zipfile.BadZipFile:
            raise ValueError(
                f"{source} is not a {what} file or is damaged: it is not a whole ZIP "
                f"archive; save the {what} again, or name the file that it is in"
            ) from None
        except ArchiveError as refusal:
            raise type(refusal)(f"{source} {refusal}") from None
        except Exception as failure:
            raise ValueError(
                f"{source} is not a {what} file or is damaged; save the {what} again "
                f"({type(failure).__name__})"
            ) from failure


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """Raise before anything is unpacked that would take all memory.

    Unpacking stops at the size that a member states.
    """
    methods = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    if any(member.compress_type not in methods for member in archive.infolist()):
        raise ValueError("packed in another way")
    for size, name in (
        (archive.getinfo(DESCRIPTION).file_size, "description_bytes"),
        (sum(member.file_size for member in archive.infolist()), "file_bytes"),
    ):
        limit = getattr(LIMITS, name)
        if size > limit:
            raise ArchiveError(
                f"unpacks to {magnitude(size)} bytes, too many (at most {limit}); if "
                f"you trust it, read it with mmech.limits.changed({name}=...)"
            )


def _check_header(description: Any, what: str) -> None:
    if not isinstance(description, dict) or "format" not in description:
        raise ValueError("a description of something else")
    form, version = description["format"], description.get("version")
    if form != FORMAT or type(version) is not int or version != VERSION:
        raise ArchiveError(
            f"has version {version!r:.60} of the format {form!r:.60} but this mmech "
            f"reads {VERSION} of {FORMAT!r}; use the mmech that wrote it, or write it "
            "again"
        )
    if description.get("holds") != what:
        raise ArchiveError(f"holds a {description.get('holds')!r:.60}, not a {what}")


def _array(content: bytes) -> NDArray[Any]:
    """Return the array of a ``.npy`` member, whose header must not promise more."""
    stream = io.BytesIO(content)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("a header of another version")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    start = stream.tell()
    if str(dtype) not in DTYPES or fortran:
        raise ValueError(f"an array of dtype {dtype}")
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise ValueError("not as many numbers as the shape says")
    array = np.frombuffer(content, dtype, offset=start).reshape(shape).copy()
    if not np.isfinite(array).all():
        raise ValueError("numbers that are not finite")
    return array
