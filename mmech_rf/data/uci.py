"""Real data sets from the UCI Machine Learning Repository, as it has them.

For sets that OpenML has under other names of columns and classes, or not at all. A file
is downloaded once, and kept in scikit-learn's data home as the repository sent it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import get_data_home

from mmech_rf.data.catalogue import UCI

__all__ = ["records"]

SECONDS = 60
"""How long to wait for the server."""


def records(
    source: UCI, classes: tuple[Any, ...], *, data_home: Any, cache: bool
) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """Return the rows of a file as text (N, d), and their classes (N,)."""
    lines = _text(source, data_home, cache).splitlines()
    rows = [line.split(source.separator)[: source.width] for line in lines if line]
    if len(rows) != source.n_lines or any(len(row) != source.width for row in rows):
        raise ValueError(
            f"{source} must have {source.n_lines} lines of {source.width} values, got "
            f"{len(rows)} lines; clear the folder 'uci' in scikit-learn's data home "
            "and fetch it again"
        )
    table = np.array(rows, dtype=object)
    if not source.one_hot:
        return table[:, :-1], table[:, -1]
    codes = table[:, -len(classes) :] == "1"
    kept = codes.sum(axis=1) == 1
    target = np.array(classes, dtype=object)[codes[kept].argmax(axis=1)]
    return table[kept, : -len(classes)], target


def _text(source: UCI, data_home: Any, cache: bool) -> str:
    folder = Path(get_data_home(data_home)) / "uci"
    path = folder / source.path.replace("/", "-")
    if cache and path.is_file():
        return path.read_text(encoding="utf-8")
    with urlopen(source.address, timeout=SECONDS) as answer:
        content: bytes = answer.read()
    if cache:
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_bytes(content)
        part.replace(path)
    return content.decode("utf-8")
