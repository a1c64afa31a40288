"""Published tables beside those that their noisy numbers make, cell by cell."""

from __future__ import annotations

import base64
import csv
import tempfile
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from reprlib import repr as short
from typing import Any

from mmech.checks import parsed_json
from mmech.evidence import Evidence
from mmech.tables.columns import OF_STATISTICS
from mmech.tables.measured import MeasuredTables
from mmech.tables.published import versions
from mmech.verify import FILE, REFUTED, UNCHECKED, RefutedError, UncheckedError


def recomputed(published: Path, say: Callable[[str, str], None]) -> list[str]:
    """Make the files of released tables again, and say which of them differ.

    Parameters
    ----------
    published : path
        Folder of the tables and their evidence.
    say : callable
        Told a title of `mmech.verify` and a sentence for every file that differs.

    Returns
    -------
    list of str
        Names of files that are alike.

    Raises
    ------
    RefutedError
        If the evidence has other noisy numbers than the plan of the tables.
    UncheckedError
        If there is no plan.

    Notes
    -----
    All that follows the measurement is a function of its noisy numbers, of the plan and
    of fixed seeds; synthetic records and workbooks are not made again. Another
    processor or NumPy may round differently in the last bits, and no versions that a
    file states are believed. So tables that differ are refuted under the same versions
    and by more than a unit of rounding; or else nothing is said for or against them.
    """
    evidence = Evidence((published / FILE).read_text(encoding="utf-8"))
    if "measured" not in evidence.content:
        raise UncheckedError("the evidence has no plan by which to make tables again")
    stated = evidence.content["published"]
    same, alike = stated.get("versions") == versions(), []
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "measured")
        path.write_bytes(base64.b64decode(evidence.content["measured"]))
        measured = MeasuredTables.load(path)
        _check_plan(measured, evidence)
        tables = replace(measured, evidence=evidence).finish()
        level = float(Fraction(stated["level"]))
        options: Any = {"level": level, "title": stated.get("title"), "excel": False}
        again = tables.write(Path(made, "again"), **options)
        for path in sorted(again.iterdir()):
            words, little = _difference(published / path.name, path)
            if not words:
                alike.append(path.name)
            elif same:
                end = ": by one unit, as another processor may round" * little
                say(UNCHECKED if little else REFUTED, words + end)
            elif path.suffix == ".csv":
                say(UNCHECKED, f"{words}: made with other versions of NumPy or mmech")
    return alike


def _check_plan(measured: MeasuredTables, evidence: Evidence) -> None:
    """Refuse a plan with other noisy numbers, or other costs, than the evidence."""
    known = {values.tobytes() for values in evidence.values}
    if not all(noisy.values.tobytes() in known for noisy in measured.numbers):
        words = "the noisy numbers of the plan are not those of the evidence"
        raise RefutedError(words)
    currency = measured.plan.currency
    paid = {(entry.released, getattr(entry, currency)) for entry in evidence.entries}
    of_tables: list[tuple[Any, Any]] = [(measured.measurement, measured.plan)]
    of_tables += [(each.measurement, each.plan) for each in measured.statistics]
    if not {(noisy.entry.released, plan.cost) for noisy, plan in of_tables} <= paid:
        raise RefutedError("the costs of the plan are not those of the evidence")


def _difference(published: Path, path: Path) -> tuple[str, bool]:
    """Return how a file differs from what was published, and if by a unit at most.

    In words, which are empty where it does not.
    """
    name = short(path.name)
    if not published.exists():
        return f"{name} follows from the noisy numbers, and is not there", False
    words = "do not follow from the noisy numbers"
    if path.name == FILE:
        alike = _facts(published) == _facts(path)
        return "" if alike else f"facts of {name} {words}", False
    if path.suffix != ".csv":
        alike = published.read_bytes() == path.read_bytes()
        return "" if alike else f"all words of {name} {words}", False
    differences: list[tuple[bool, str]] = []
    rows = zip_longest(_cells(published), again := _cells(path), fillvalue=())
    for number, row in enumerate(rows):
        for title, *pair in zip_longest(again[0], *row, fillvalue=""):
            if pair[0] != pair[1]:
                said, follows = map(short, pair)
                where = f"row {number}, {short(title)}: {said} for {follows}"
                differences.append((title in OF_STATISTICS and _are_near(*pair), where))
    if not differences:
        return "", False
    little, where = min(differences)
    return f"{len(differences)} cells of {name} {words} ({where})", little


def _facts(path: Path) -> Any:
    """Return what evidence says about tables, but for hashes and versions."""
    content = parsed_json(path.read_text(encoding="utf-8"))
    stated = {**content["published"], "files": None, "versions": None}
    return content["about"], stated


def _cells(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8-sig", newline="") as stream:
        return list(csv.reader(stream))


def _are_near(said: str, follows: str) -> bool:
    """Return whether numbers differ by one unit of the last digit of either at most."""
    try:
        pair = Decimal(said), Decimal(follows)
    except InvalidOperation:
        return False
    units = [int(number.as_tuple().exponent) for number in pair if number.is_finite()]
    return len(units) == 2 and abs(pair[0] - pair[1]) <= Decimal(10) ** min(units)
