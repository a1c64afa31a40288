"""The commands that help to write a domain, or a schema, and to see what does not fit.

A schema is a domain with classes. `Described` says which of the two a program is for.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from mmech.checks import nearest, number_of
from mmech.cli.files import (
    FILLED_IN,
    add_csv,
    check_output,
    check_readable,
    csv_format,
    opened,
    read_header,
    writing,
)
from mmech.terminal import Help, InputError, Parser, printable
from mmech.threads import say

if TYPE_CHECKING:
    from mmech.domain.domain import Domain
    from mmech.domain.encoding import Misfit


class Described(NamedTuple):
    """What a program describes records by.

    Attributes
    ----------
    prog : str
        Name of the program.
    noun : {"domain", "schema"}
        What the file is called.
    read : callable
        Reads it from a path; errors name it.
    classes : mapping
        What help says of classes.
    """

    prog: str
    noun: str
    read: Callable[[str], Domain]
    classes: Mapping[str, str]

    @property
    def has_classes(self) -> bool:
        """Whether one column is the class."""
        return self.noun == "schema"


MAX_SHOWN = 80
"""A longer value of a cell is cut off where it is printed."""

MOST_VALUES = 8
"""Distinct values that are shown of a column; with what frames them, ten lines."""

_FOR_THE_OWNER = (
    "for the owner of the records only: what follows shows single records, outside the "
    "privacy guarantee"
)


def add_schema(
    commands: argparse._SubParsersAction[Parser], described: Described
) -> None:
    """Add ``schema`` and its own commands."""
    prog, noun, _, classes = described
    texts = Help("mmech", prog=prog, noun=noun, **FILLED_IN, **classes)
    schema = texts.command(commands, "schema", lambda args: schema.print_help())
    inner: argparse._SubParsersAction[Parser] = schema.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=Parser
    )
    suggest = texts.command(inner, "suggest", _suggest)
    texts.add(suggest, "data", metavar="CSV")
    if described.has_classes:
        texts.add(suggest, "--target", metavar="NAME")
    texts.add(suggest, "--out", metavar="FILE")
    texts.add(suggest, "--force", action="store_true")
    check = texts.command(inner, "check", _check)
    texts.add(check, "data", metavar="CSV")
    texts.add(check, noun, metavar=noun.upper())
    if described.has_classes:
        texts.add(check, "--queries", action="store_true")
    for command in (suggest, check):
        add_csv(command)
        command.set_defaults(described=described)


# ---- suggest ---------------------------------------------------------------


def _suggest(args: argparse.Namespace) -> None:
    check_output(args)
    described: Described = args.described
    kinds = _declared(args.data) if args.data.endswith(".parquet") else {}
    header = list(kinds) or read_header(args, args.data)
    if len(header) > 1 and not header[0]:  # names of rows, as R and pandas write them
        del header[0]
    target = None
    if described.has_classes:
        target = header[-1] if args.target is None else args.target
        if target not in header:
            hint = nearest(target, header, f"choose from {', '.join(header)}")
            raise InputError(f"{args.data!r} has no column named {target!r}; {hint}")
    repeated = [name for name in header if header.count(name) > 1 or not name]
    if repeated or len(header) < 1 + described.has_classes:
        columns = "two columns, each" if described.has_classes else "one column,"
        got = f"got {', '.join(map(repr, header)):.80}"
        raise InputError(
            f"{args.data!r} needs at least {columns} with a name of its own, {got}; "
            "correct the first line"
        )
    document = _template(kinds, header, target, described.prog)
    with writing(args.out) as stream:
        stream.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _template(
    kinds: Mapping[str, str],
    header: Sequence[str],
    target: str | None,
    prog: str,
) -> dict[str, Any]:
    rest = [name for name in header if name != target]
    places = _places(rest) if target is None else []
    features = [
        _entry(name, kinds.get(name, "categorical"))
        for name in rest
        if name not in places
    ]
    if places:
        place = {"name": "place", "type": "hierarchy", "columns": places, "tree": {}}
        features.insert(min(map(rest.index, places)), place)
    document: dict[str, Any] = {
        "note": "Fill in every list and bound from public documentation, never from "
        f"the records; `{prog} schema suggest --help` shows all kinds of entries.",
        "features": features,
    }
    if target is not None:
        document["target"] = {"name": target, "categories": []}
    return document


_PLACES = (
    *("continent", "country", "region", "state", "province", "county", "district"),
    *("municipality", "city", "town", "village"),
)
"""Names of columns that say together where something is, largest places first."""


def _places(header: Sequence[str]) -> list[str]:
    """Return the columns that one hierarchy may be in, or none."""
    named = {name.lower(): name for name in header}
    places = [named[word] for word in _PLACES if word in named]
    distinct = len(named) == len(header) and "place" not in named
    return places if distinct and len(places) > 1 else []


def _entry(name: str, kind: str) -> dict[str, Any]:
    """Return a template of an attribute."""
    if kind == "date":
        bounds = {"lower": None, "upper": None, "unit": "month"}
        return {"name": name, "type": kind, **bounds}
    if kind == "numeric":
        return {"name": name, "type": kind, "lower": None, "upper": None}
    return {"name": name, "type": kind, "categories": []}


def _declared(path: str) -> dict[str, str]:
    """Return the columns of a Parquet file and the kinds that its schema declares.

    Only the schema is read: a dictionary of values is data, as records are.
    """
    from mmech.domain.parts import parquet_schema
    from mmech.exceptions import located

    with located(f"cannot use the data {path!r}"):
        declared = parquet_schema(path)
    from pyarrow import types

    numbers = (types.is_integer, types.is_floating, types.is_decimal)

    def kind_of(type_: Any) -> str:
        if types.is_date(type_) or types.is_timestamp(type_):
            return "date"
        return "numeric" if any(f(type_) for f in numbers) else "categorical"

    return {field.name: kind_of(field.type) for field in declared}


# ---- check -----------------------------------------------------------------


def _check(args: argparse.Namespace) -> None:
    check_readable(args)
    from mmech.domain.csv_files import CsvFormat
    from mmech.domain.encoding import CLIPPED
    from mmech.domain.parts import read_whole

    described: Described = args.described
    path = getattr(args, described.noun)
    domain = described.read(path)
    with_target = not getattr(args, "queries", False)
    form = csv_format(args)
    features, target = domain._columns(with_target=with_target)
    reading = partial(read_whole, with_target=with_target)
    records = reading(opened(args, args.data), domain, **form)
    if not with_target:
        domain = replace(domain, required=())  # type: ignore[call-arg]
    labels = () if records.y is None else (records.y,)
    misfits = domain.check(records.X, *labels, handle_unknown="error")
    if misfits and not CsvFormat(**form).is_usual:
        # They are shown as they stand in the file, whatever its marks mean.
        form |= {"decimal": ".", "thousands": None, "na": ()}
        raw = reading(opened(args, args.data), domain, **form)
        cells = dict(zip([*features, target], [*raw.X.T, raw.y], strict=True))
        misfits = [m._replace(value=cells[m.column][m.row]) for m in misfits]
    clipped = [misfit for misfit in misfits if misfit.problem in CLIPPED]
    misfits = [misfit for misfit in misfits if misfit.problem not in CLIPPED]
    say(f"{described.prog}: {_FOR_THE_OWNER}")
    for line in (*_summary(misfits), *_beyond(clipped)):
        print(printable(line))
    n, n_fit = len(records.X), len(records.X) - len({m.row for m in misfits})
    print(f"{n_fit:,} of {n:,} records fit the {described.noun} {path!r}.")
    if misfits:
        sys.stdout.flush()
        raise SystemExit(1)


def _summary(misfits: Iterable[Misfit]) -> list[str]:
    """Return lines on every column and problem, most frequent values first."""
    problems: dict[tuple[str, str], dict[str, list[int]]] = {}
    for row, column, value, problem in misfits:
        values = problems.setdefault((column, problem), {})
        values.setdefault(_shown(value), []).append(row)
    lines = ["Rows are counted from 0, below the header."] if problems else []
    for (column, problem), values in problems.items():
        number = sum(map(len, values.values()))
        lines.append(f"column {column!r}: {problem}, in {number_of(number, 'row')}")
        ordered = sorted(values.items(), key=lambda entry: -len(entry[1]))
        for value, rows in ordered[:MOST_VALUES]:
            where = f"row {rows[0]}"
            if len(rows) > 1:
                where = f"{number_of(len(rows), 'row')}, first in row {rows[0]}"
            lines.append(f"  {value} in {where}")
        if len(values) > MOST_VALUES:
            lines.append(f"  and {len(values) - MOST_VALUES:,} other values")
    return lines


def _beyond(clipped: Iterable[Misfit]) -> list[str]:
    """Return a line on every column that has numbers outside its bounds."""
    numbers = Counter(misfit.column for misfit in clipped)
    return [
        f"column {column!r}: {number_of(number, 'row')} outside the bounds count as "
        "the nearest number within"
        for column, number in numbers.items()
    ]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
