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

from mmech.checks import number_of
from mmech.exceptions import ParameterError

PAGE, WORKBOOK = "index.html", "tables.xlsx"
"""What people open first, and the workbook."""

SHEET_ROWS = 2**17
"""Rows of a table above which its sheet of the workbook only names its csv file."""

CHARTED = 5000
"""Most numbers of a chart; larger tables are named without one."""

COLOURS = np.array([[247, 251, 255], [33, 113, 181]])
"""Colours of the least and the largest count of a heat map."""

ACROSS = 4
"""Most columns of a heat map that fits a screen of 400 pixels; wider ones are bars."""

OPEN = 40
"""Most rows of a chart that is not folded."""

STYLE = """body{font:15px/1.45 sans-serif;max-width:40em;margin:1em auto;padding:0 1em}
svg,table{font:12px sans-serif;width:100%;max-width:36em}svg{display:block}
body{overflow-wrap:anywhere}h2{margin-top:2em}summary{cursor:pointer}
table{table-layout:fixed}th,td{padding:4px 2px}td{text-align:center}"""

OUTWARDS = {"lower": ROUND_FLOOR, "upper": ROUND_CEILING}
"""How ends of intervals are rounded, so that what was held is held."""

STEM = 200
"""Most bytes of the stem of a csv file: names end by 255, with all that is added."""

READ = (
    "Standard errors (±) stand beside published numbers, also in percent of them. "
    "A line, or what is in brackets, is an interval that holds the exact "
    "number with probability {:g}, by itself."
)
"""How charts are read, for intervals of a level."""

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
    taken, files = {"synthetic"}, []
    for parts in names:
        plain = "_x_".join(map(_plain, parts))
        if RESERVED.match(_folded(plain)):
            plain = f"_{plain}"
        for number in count():
            end = f"_{number}" if number else ""
            stem = f"{_cut_bytes(plain, STEM - len(end))}{end}"
            if _folded(stem) not in taken:
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
        taken.add(_folded(stem))
        files.append(f"{stem}.csv")
    return files


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
    except ImportError:  # of a part of it, too
        if excel:
            raise ParameterError(
                "excel",
                "needs openpyxl, which is not installed",
                remedy=("pip install 'mmech[excel]'", "leave it out"),
            ) from None
        return False
    return True


def write_files(
    folder: Path,
    sheets: Sequence[Sheet],
    title: str,
    statement: str,
    level: float,
    *,
    excel: bool,
) -> None:
    """Write csv files with their metadata, the page, and the workbook if wanted."""
    for sheet in sheets:
        write_csv(folder / sheet.file, sheet.columns, sheet.title, sheet.keys)
    page = "\n".join(_page(sheets, title, statement, level))
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
            "datatype": {"i": "integer", "f": "number"}.get(cells.dtype.kind, "string"),
        }
        for name, cells in columns.items()
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
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    path.with_name(f"{path.name}-metadata.json").write_text(text, encoding="utf-8")


def _cells(columns: Columns) -> Iterator[list[Any]]:
    """Yield columns whose numbers have few digits, and none where a number is NaN.

    Sums have more, so that they add up.
    """
    for name, column in columns.items():
        values, least = column.tolist(), 0.0 if name == "sum" else 1e5
        if column.dtype.kind == "f":
            values = [
                None
                if math.isnan(x)
                else _rounded(x, 6 if abs(x) < least else 12, name)
                for x in values
            ]
        yield values


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


def _page(
    sheets: Sequence[Sheet], title: str, statement: str, level: float
) -> Iterator[str]:
    lines, title = statement.splitlines(), escape(title)
    yield '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
    yield from (f"<p><b>{escape(x)}</b></p>" for x in lines if x.startswith("NOT "))
    yield f"<p>{READ.format(level)}</p><ul>"
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
        rows = f"{number_of(n, 'row')}, {link}"
        yield f"<details{' open' * (n <= OPEN)}><summary>{rows}</summary>"
        yield from (_heat_map if grid else _bars)(sheet)
        yield "</details>"
    yield "<h2>Privacy</h2>"
    yield from (f"<p>{escape(x[9:])}</p>" for x in lines if x.startswith("Privacy: "))
    yield "<details><summary>Mechanisms, and all that is promised</summary>"
    yield from (f"<p>{escape(line)}</p>" for line in lines)
    yield "</details></body></html>\n"


def _number(value: float, name: str = "") -> str:
    shown = _rounded(value, max(4, Decimal(value).adjusted() + 1), name)
    return f"{shown:,.0f}" if shown % 1 == 0 or abs(shown) >= 1e3 else f"{shown:.4g}"


def _said(sheet: Sheet) -> tuple[list[str], list[str], list[str]]:
    """Return what rows are called, their numbers with intervals, and their errors."""
    keys = [map(str, sheet.columns[key].tolist()) for key in sheet.keys]
    names = [", ".join(row) for row in zip(*keys, strict=True)]
    parts = [sheet.columns[title].tolist() for title in (sheet.value, "lower", "upper")]

    def said(value: float, low: float, high: float) -> str:
        if math.isnan(low):  # of a table that was not measured
            return f"about {_number(value)}"
        number = _number(value) if math.isfinite(value) else "unknown"
        return f"{number} ({_number(low, 'lower')} to {_number(high, 'upper')})"

    numbers = [said(*row) for row in zip(*parts, strict=True)]
    none = np.full(len(numbers), np.nan)
    errors = sheet.columns.get("standard_error", none).tolist()

    def told(error: float, value: float) -> str:
        share = f", {_number(_rounded(100 * error / abs(value), 2))}%" if value else ""
        return "" if math.isnan(error) else f"± {_number(_rounded(error, 3))}{share}"

    texts = list(map(told, errors, parts[0]))
    return names or ["all"] * len(numbers), numbers, texts


def _cut(text: str, most: int) -> str:
    """Leave out the middle of a text that is too long: names differ at both ends."""
    last = most // 2
    cut = f"{text[: most - 1 - last]}…{text[-last:]}"
    return escape(text if len(text) <= most else cut)


def _bars(sheet: Sheet) -> Iterator[str]:
    """Yield a bar per row, with its interval as a line."""
    names, numbers, errors = _said(sheet)
    value, low, high = (
        np.asarray(sheet.columns[title], np.float64)
        for title in (sheet.value, "lower", "upper")
    )
    least, most = min(0.0, float(low.min())), max(0.0, float(high.max()))
    width = 360 / ((most - least) or 1)
    yield f'<svg viewBox="0 0 360 {36 * len(names)}" role="img">'
    for i, (name, number, error) in enumerate(zip(names, numbers, errors, strict=True)):
        y, ends = 36 * i, (width * (low[i] - least), width * (high[i] - least))
        shown = f"{number.partition(' (')[0]} {error}" if error else number
        yield f"<g><title>{escape(name)}: {number}</title>"
        yield f'<text y="{y + 13}">{_cut(name, max(50 - len(shown), 8))}</text>'
        yield f'<text x="360" y="{y + 13}" text-anchor="end">{shown}</text>'
        if math.isfinite(value[i]):
            start, stop = sorted(width * (x - least) for x in (0.0, value[i]))
            drawn = f'x="{start:.1f}" y="{y + 18}" width="{stop - start:.1f}"'
            yield f'<rect {drawn} height="12" fill="#9ecae1"/>'
        drawn = f'd="M{ends[0]:.1f} {y + 24}H{ends[1]:.1f}" stroke="#08306b"'
        yield f'<path {drawn} stroke-width="2"/></g>'
    yield "</svg>"


def _heat_map(sheet: Sheet) -> Iterator[str]:
    """Yield a table with a coloured cell per row of a sheet.

    Its columns are the values of the last attribute; where they are many, rows are
    bars.
    """
    _, numbers, errors = _said(sheet)
    keys = [list(map(str, sheet.columns[key].tolist())) for key in sheet.keys]
    down, last = keys[: -sheet.across], keys[-sheet.across :]
    across = [", ".join(values) for values in dict.fromkeys(zip(*last, strict=True))]
    if len(across) > ACROSS:
        yield from _bars(sheet)
        return
    counts = sheet.columns["count"]
    shades = np.sqrt(counts / max(int(counts.max()), 1))
    fills = COLOURS[0] + shades[:, None] * (COLOURS[1] - COLOURS[0])
    cells = [
        f'<td style="background:rgb({r:.0f},{g:.0f},{b:.0f});'
        f'color:{"#fff" if shade > 0.9 else "#000"}">{number}<br>{error}</td>'
        for number, error, shade, (r, g, b) in zip(
            numbers, errors, shades, fills, strict=True
        )
    ]
    yield f"<table><tr><td></td>{''.join(f'<th>{escape(x)}</th>' for x in across)}</tr>"
    for k, row in enumerate(list(zip(*down, strict=True))[:: len(across)]):
        line = "".join(cells[k * len(across) : (k + 1) * len(across)])
        yield f"<tr><th>{escape(', '.join(row))}</th>{line}</tr>"
    yield "</table>"
