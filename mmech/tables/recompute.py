"""Published tables beside those that their noisy numbers make, cell by cell."""

from __future__ import annotations

import base64
import csv
import os
import tempfile
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from mmech.checks import check_file
from mmech.evidence import Evidence
from mmech.tables.measured import MeasuredTables


def recomputed(folder: str | os.PathLike[str]) -> list[str]:
    """Return what published tables differ in from those that their noisy numbers make.

    Parameters
    ----------
    folder : path
        Of released tables.

    Returns
    -------
    list of str
        A sentence for each cell that differs; none if all follow.

    Raises
    ------
    ValueError
        If the folder holds no evidence of tables.

    Notes
    -----
    All that follows the measurement is a function of its noisy numbers, of the plan and
    of fixed seeds; synthetic records are drawn anew, and not compared. Another
    processor or NumPy may round differently in the last bits. A cell that lies between
    two whole numbers may then fall on the other one.
    """
    published = Path(folder)
    evidence = Evidence.nothing()
    if published.is_dir():
        file = check_file(published / "evidence.json")
        evidence = Evidence(Path(file).read_text(encoding="utf-8"))
    if "measured" not in evidence.content:
        raise ValueError(
            f"{os.fspath(folder)!r} must be a folder of released tables to be made "
            "again; models are checked without --recompute"
        )
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "measured")
        path.write_bytes(base64.b64decode(evidence.content["measured"]))
        measured = MeasuredTables.load(path)
        known = {values.tobytes() for values in evidence.values}
        if not all(own.values.tobytes() in known for own in measured.numbers):
            return ["the noisy numbers of the plan are not those of the evidence"]
        level = evidence.content["about"]["level"]
        again = measured.finish().write(Path(made, "again"), level=level, excel=False)
        files = sorted(again.glob("*.csv"))
        return [words for path in files for words in _differences(published, path)]


def _cells(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def _differences(published: Path, path: Path) -> Iterator[str]:
    """Yield a sentence for each cell of a file that differs from what was published."""
    if not (published / path.name).exists():
        yield f"{path.name} is not there"
        return
    none: list[str] = []
    pairs = zip_longest(_cells(published / path.name), _cells(path), fillvalue=none)
    for number, (own, again) in enumerate(pairs):
        for place, (said, found) in enumerate(zip_longest(own, again)):
            if said != found:
                where = f"{path.name}, row {number}, column {place + 1}"
                yield f"{where}: {said} was published, and {found} follows"
