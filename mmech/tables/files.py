"""Files of released tables: csv with metadata, an Excel workbook, a page with charts.

The page is one file with its charts inside, without scripts and without anything from
the network. All text of the domain is escaped.
"""

from __future__ import annotations

import csv
import importlib
import json
import math
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from html import escape
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmech.exceptions import ParameterError

PAGE, WORKBOOK = "index.html", "tables.xlsx"
"""What people open first, and the workbook."""

SHEET_ROWS = 2**17
"""Rows of a table above which its sheet of the workbook only names its csv file."""

CHARTED = 5000
"""Most numbers of a chart; larger tables are named without one."""

COLOURS = np.array([[247, 251, 255], [33, 113, 181]])
"""Colours of the least and the largest count of a heat map."""

STYLE = """body{font:15px/1.45 sans-serif;max-width:1100px;margin:2em auto}
body{padding:0 1em}svg{font:12px sans-serif;display:block}
div{overflow-x:auto}h2{margin-top:2em}
th,td{font-size:12px;padding:6px}td{text-align:center;white-space:nowrap}"""

OUTWARDS = {"lower": ROUND_FLOOR, "upper": ROUND_CEILING}
"""How ends of intervals are rounded, so that what was held is held."""

STEM = 200
"""Most bytes of the stem of a csv file: names end by 255, with all that is added."""

RESERVED = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9])(\.|$)")
"""Names of devices, which Windows writes no file of, whatever follows the dot."""

Columns = Mapping[str, NDArray[Any]]


class Sheet(NamedTuple):
    """A table or statistic that is written.

    Attributes
    ----------
    file : str
        Name of its csv file.
    title : str
    keys : tuple of str
        Columns that name a row.
    value : str
        Column of what was released; intervals are in ``lower`` and ``upper``.
    columns : mapping of str to ndarray
    across : int
        How many of the last keys tell the columns of a heat map apart.
    """

    file: str
    title: str
    keys: tuple[str, ...]
    value: str
    columns: Columns
    across: int = 1


def file_names(names: Sequence[Sequence[str]]) -> list[str]:
    """Return names of csv files that every file system tells apart, or raise.

    Equal for equal tables on every machine.
    """
    known, found = {"synthetic"}, []
    for parts in names:
        plain = "_x_".join(map(_plain, parts))
        if RESERVED.match(_folded(plain)):
            plain = f"_{plain}"
        for number in count():
            end = f"_{number}" if number else ""
            stem = f"{_cut_bytes(plain, STEM - len(end))}{end}"
            if _folded(stem) not in known:
                break
        try:
            os.fsencode(stem)
        except UnicodeEncodeError as error:
            raise ParameterError(
                "domain",
                "must have names that this system can name files by, in "
                f"{error.encoding}",
                repr(stem),
                ("set PYTHONUTF8=1 in the environment", "rename attributes"),
            ) from None
        known.add(_folded(stem))
        found.append(f"{stem}.csv")
    return found


def _plain(name: str) -> str:
    """Return a name with only the characters that are safe in file names."""
    composed = unicodedata.normalize("NFC", name)
    kept = "".join(c if c.isalnum() or c in "-_." else "_" for c in composed)
    return kept.strip(".")[:60].strip(".") or "_"


def _folded(stem: str) -> str:
    """Return what stems have in common that some file systems take for one."""
    return unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", stem).casefold())


def _cut_bytes(text: str, most: int) -> str:
    """Return the first characters of a text, in so many bytes, without a last dot."""
    return text.encode()[:most].decode(errors="ignore").rstrip(".")


def check_excel(excel: bool | None) -> bool:
    """Return whether a workbook is written; raise where it is asked for and cannot."""
    if excel is False:
        return False
    try:
        importlib.import_module("openpyxl")
        there = True
    except ImportError:  # of a part of it, too
        there = False
    if excel and not there:
        raise ParameterError(
            "excel",
            "needs openpyxl, which is not installed",
            remedy=("pip install 'mmech[excel]'", "leave it out"),
        )
    return there


def write_files(
    folder: Path, sheets: Sequence[Sheet], statement: str, level: float, *, excel: bool
) -> None:
    """Write csv files with their metadata, the page, and the workbook if wanted."""
    for sheet in sheets:
        write_csv(folder / sheet.file, sheet.columns, sheet.title, sheet.keys)
    page = "\n".join(_page(sheets, statement, level))
    (folder / PAGE).write_text(page, encoding="utf-8")
    if excel:
        _write_workbook(folder / WORKBOOK, sheets, statement)


# ---- csv -----------------------------------------------------------------------------


def write_csv(
    path: Path, columns: Columns, title: str, keys: Sequence[str] = ()
) -> None:
    """Write a csv file, and beside it what its columns are (CSVW, a W3C format)."""
    with open(path, "w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(columns)
        rows.writerows(zip(*_cells(columns), strict=True))
    names = {name: f"c{number}" for number, name in enumerate(columns, 1)}
    described = [
        {
            "name": names[name],
            "titles": name,
            "datatype": {"i": "integer", "f": "number"}.get(own.dtype.kind, "string"),
        }
        for name, own in columns.items()
    ]
    schema: dict[str, Any] = {"columns": described}
    if keys:
        schema["primaryKey"] = [names[key] for key in keys]
    document = {
        "@context": "http://www.w3.org/ns/csvw",
        "url": path.name,
        "dc:title": title,
        "tableSchema": schema,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.with_name(f"{path.name}-metadata.json").write_text(
        text + "\n", encoding="utf-8"
    )


def _cells(columns: Columns) -> Iterator[list[Any]]:
    """Yield columns whose numbers have few digits, and none where a number is NaN."""
    for name, column in columns.items():
        own = column.tolist()
        if column.dtype.kind == "f":
            own = [
                None if math.isnan(x) else _rounded(x, 6 if abs(x) < 1e5 else 12, name)
                for x in own
            ]
        yield own


def _rounded(value: float, digits: int, name: str = "") -> float:
    """Return a number of so many digits; of an end of an interval, outwards."""
    if value % 1 == 0 or name not in OUTWARDS:
        return value if value % 1 == 0 else float(f"{value:.{digits}g}")
    return float(Context(digits, OUTWARDS[name]).create_decimal(repr(value)))


# ---- workbook ------------------------------------------------------------------------


def _write_workbook(path: Path, sheets: Sequence[Sheet], statement: str) -> None:
    from openpyxl import Workbook
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook()
    first = book.active
    first.title = "statement"
    known = {"statement", "history"}  # which Excel keeps for itself

    def fill(page: Any, rows: Iterator[Sequence[Any]]) -> None:
        for i, row in enumerate(rows, 1):
            for j, value in enumerate(row, 1):
                if isinstance(value, float) and not math.isfinite(value):
                    continue
                cell = page.cell(i, j)
                if isinstance(value, str):
                    cell.value = ILLEGAL_CHARACTERS_RE.sub("?", value)
                    cell.data_type = "s"  # never a formula
                else:
                    cell.value = value

    fill(first, ([line] for line in statement.splitlines()))
    for sheet in sheets:
        stem = "".join(c for c in sheet.file[:-4] if c not in "[]:*?/\\'")
        number, name = 1, stem[:31]
        while name.lower() in known:
            number += 1
            name = f"{stem[: 30 - len(str(number))]}_{number}"
        known.add(name.lower())
        page, n = book.create_sheet(name), len(sheet.columns[sheet.value])
        if n > SHEET_ROWS:
            fill(page, iter([[f"{n:,} rows are too many for a sheet: {sheet.file}"]]))
            continue
        rows = zip(*_cells(sheet.columns), strict=True)
        fill(page, chain([list(sheet.columns)], rows))
    book.save(path)


# ---- page ----------------------------------------------------------------------------


def _page(sheets: Sequence[Sheet], statement: str, level: float) -> Iterator[str]:
    yield '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    yield "<title>Released tables</title>"
    yield f"<style>{STYLE}</style></head><body><h1>Released tables</h1>"
    yield from (f"<p>{escape(line)}</p>" for line in statement.splitlines())
    yield "<ul>"
    for i, sheet in enumerate(sheets):
        yield f'<li><a href="#s{i}">{escape(sheet.title)}</a></li>'
    yield "</ul>"
    for i, sheet in enumerate(sheets):
        link = f'<a href="{escape(sheet.file)}">{escape(sheet.file)}</a>'
        yield f'<h2 id="s{i}">{escape(sheet.title)}</h2>'
        n = len(sheet.columns[sheet.value])
        if n > CHARTED:
            yield f"<p>{n:,} rows are too many for a chart: {link}</p>"
            continue
        if sheet.columns[sheet.value].dtype.kind == "U":  # dates have no bars
            yield f"<p>Intervals of dates at level {level:g}: {link}</p>"
            continue
        grid = sheet.value == "count" and len(sheet.keys) > sheet.across
        text = "\n".join(_heat_map(sheet) if grid else _bars(sheet))
        yield f"<p>Intervals at level {level:g}. {link}</p><div>{text}</div>"
    yield "</body></html>\n"


def _number(value: float, name: str = "") -> str:
    shown = _rounded(value, max(4, Decimal(value).adjusted() + 1), name)
    return f"{shown:,.0f}" if shown % 1 == 0 or abs(shown) >= 1e3 else f"{shown:.4g}"


def _said(sheet: Sheet) -> tuple[list[str], list[str]]:
    """Return what every row is called, and its number with the interval."""
    keys = [map(str, sheet.columns[key].tolist()) for key in sheet.keys]
    names = [", ".join(row) for row in zip(*keys, strict=True)]
    parts = [sheet.columns[own].tolist() for own in (sheet.value, "lower", "upper")]

    def said(value: float, low: float, high: float) -> str:
        if math.isnan(low):  # of a table that was not measured
            return f"about {_number(value)}"
        known = _number(value) if math.isfinite(value) else "unknown"
        return f"{known} ({_number(low, 'lower')} to {_number(high, 'upper')})"

    numbers = [said(*row) for row in zip(*parts, strict=True)]
    return names or ["all"] * len(numbers), numbers


def _cut(text: str, most: int) -> str:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")


def _bars(sheet: Sheet) -> Iterator[str]:
    """Yield a bar per row, with its interval as a line."""
    names, numbers = _said(sheet)
    value, low, high = (
        np.asarray(sheet.columns[own], np.float64)
        for own in (sheet.value, "lower", "upper")
    )
    least, most = min(0.0, float(low.min())), max(0.0, float(high.max()))
    width = 480 / ((most - least) or 1)

    def x(at: float) -> float:
        return 250 + width * (at - least)

    across, down = 750 + 8 * max(map(len, numbers)), 22 * len(names) + 6
    yield f'<svg width="{across}" height="{down}" role="img">'
    for i, (name, number) in enumerate(zip(names, numbers, strict=True)):
        y = 22 * i + 4
        yield f"<g><title>{escape(name)}: {number}</title>"
        yield f'<text x="242" y="{y + 13}" text-anchor="end">{_cut(name, 36)}</text>'
        if math.isfinite(value[i]):
            start, stop = sorted((x(0.0), x(value[i])))
            yield (
                f'<rect x="{start:.1f}" y="{y}" width="{stop - start:.1f}" '
                'height="16" fill="#9ecae1"/>'
            )
        yield (
            f'<path d="M{x(low[i]):.1f} {y + 8}H{x(high[i]):.1f}" stroke="#08306b" '
            'stroke-width="2"/>'
        )
        yield f'<text x="740" y="{y + 13}">{number}</text></g>'
    yield "</svg>"


def _heat_map(sheet: Sheet) -> Iterator[str]:
    """Yield a table with a coloured cell per row of a sheet.

    Its columns are the values of the last attribute.
    """
    _, numbers = _said(sheet)
    keys = [list(map(str, sheet.columns[key].tolist())) for key in sheet.keys]
    down, last = keys[: -sheet.across], keys[-sheet.across :]
    across = [", ".join(own) for own in dict.fromkeys(zip(*last, strict=True))]
    counts = sheet.columns["count"]
    shades = np.sqrt(counts / max(int(counts.max()), 1))
    fills = COLOURS[0] + shades[:, None] * (COLOURS[1] - COLOURS[0])
    cells = [
        f'<td style="background:rgb({r:.0f},{g:.0f},{b:.0f});'
        f'color:{"#fff" if shade > 0.9 else "#000"}">{number}</td>'
        for number, shade, (r, g, b) in zip(numbers, shades, fills, strict=True)
    ]
    yield f"<table><tr><td></td>{''.join(f'<th>{escape(x)}</th>' for x in across)}</tr>"
    for k, row in enumerate(list(zip(*down, strict=True))[:: len(across)]):
        own = "".join(cells[k * len(across) : (k + 1) * len(across)])
        yield f"<tr><th>{escape(', '.join(row))}</th>{own}</tr>"
    yield "</table>"
