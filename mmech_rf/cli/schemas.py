"""The commands that help to write a schema, and to see what does not fit it."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmech.limits import LIMITS
from mmech.terminal import InputError, Parser, add_command, say, whole
from mmech_rf.cli.common import PROG, add, check_readable
from mmech_rf.cli.files import (
    add_csv,
    add_output,
    check_output,
    csv_format,
    opened,
    read_header,
    writing,
)

if TYPE_CHECKING:
    from mmech_rf.schema import Attribute

__all__ = ["add_schema"]

MAX_NUMERIC_CATEGORIES = 10
"""A column of more distinct numbers becomes numeric where values are read."""

MAX_SHOWN = 80
"""A longer value of a cell is cut off where it is printed."""

_SCHEMA = {
    "short": "write a schema: what is public about the records",
    "description": """\
Schemas list what is public about records: attributes with their categories, or bounds
and cut points, and the classes.
""",
    "epilog": f"""\
examples:
  {PROG} schema suggest mine.csv
  {PROG} schema check mine.csv mine.json
""",
}
_SUGGEST = {
    "short": "print a template from the names of the columns",
    "description": """\
Print a schema to fill in, as JSON, from the names of the columns, which also tell
whether one may be numeric, and the types that a Parquet file declares. The records are
not read: categories, bounds and classes must come from public documentation, and the
template is refused until they are filled in.
""",
    "epilog": f"""\
How to fill it in, by entry of "features":
  categories
      {{"name": "sex", "type": "categorical", "categories": ["f", "m"]}}
  with an order
      {{"name": "size", "type": "ordinal", "categories": ["s", "m", "l"]}}
  bins of equal width between public bounds
      {{"name": "age", "type": "numeric", "lower": 0, "upper": 120, "n_bins": 6}}
  cut points, (c1, c2] and so on
      {{"name": "age", "type": "numeric", "cut_points": [25, 45, 65]}}
  bins of equal public probability, from published quantiles
      {{"name": "income", "type": "numeric", "lower": 0, "upper": 1e6,
       "n_bins": 4, "quantiles": [[0.1, 9e3], [0.5, 3e4], [0.9, 8e4]]}}
The classes are written as they are here: text, numbers, or true and false. A
"type" of "target", "int", "bool" or "str", converts them: {{"name": "sold",
"type": "int", "categories": ["0", "1"]}}.

An entry may have "other": a name for one more cell, or one of the categories,
that takes unknown or missing values (--handle-unknown category). One with an
order may have "monotone": 1 where later classes are known to get no less likely
from value to value, or -1 where they get no more likely; predictions keep to
it.

examples:
  {PROG} schema suggest mine.csv --target sold --out mine.json
  {PROG} schema suggest public.csv --read-values --out public.json
      categories and bounds as the file has them, for public data only
""",
}
_CHECK = {
    "short": "list all cells of a file that do not fit; for the owner's eyes",
    "description": """\
List every cell of a csv file that does not fit a schema, with its row, its column and
its value, and say how many of the records fit.

For the eyes of the owner of the records: what is printed holds values of single records
and is outside the privacy guarantee. It spends no budget.
""",
    "epilog": f"""\
Exit status: 0 if all records fit, 1 if some do not, 2 if the check is not
possible.

examples:
  {PROG} schema check mine.csv mine.json
  {PROG} schema check new.csv mine.json --queries
      records to predict, without a column for the class
""",
}
_FOR_THE_OWNER = (
    "for the owner of the records only: what follows shows single records, outside the "
    "privacy guarantee"
)
_LEAK = (
    "PrivacyLeakWarning: categories, bounds and classes are read from the records, "
    "which voids the privacy guarantee unless the records are public; write them from "
    "documentation instead"
)


def add_schema(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add ``schema`` and its own commands."""
    command = add_command(
        commands, "schema", lambda args: command.print_help(), **_SCHEMA
    )
    inner: argparse._SubParsersAction[Parser] = command.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=Parser
    )
    suggest = add_command(inner, "suggest", _suggest, **_SUGGEST)
    add(suggest, "data", metavar="CSV")
    add(suggest, "--target", metavar="NAME")
    add(suggest, "--read-values", action="store_true")
    add(suggest, "--bins", type=whole(1, LIMITS.bins), default=10, metavar="N")
    add_output(suggest)
    add_csv(suggest)
    check = add_command(inner, "check", _check, **_CHECK)
    add(check, "data", metavar="CSV")
    add(check, "schema", metavar="SCHEMA")
    add(check, "--queries", action="store_true")
    add_csv(check)


def _suggest(args: argparse.Namespace) -> None:
    check_output(args)
    kinds = _declared(args.data) if args.data.endswith(".parquet") else {}
    if kinds and args.read_values:
        raise InputError(
            "--read-values reads csv files only, got a Parquet file; leave it out"
        )
    header = list(kinds) or read_header(args, args.data)
    target = header[-1] if args.target is None else args.target
    if target not in header:
        raise InputError(
            f"{args.data!r} has no column named {target!r}; choose from "
            f"{', '.join(header)}"
        )
    repeated = [name for name in header if header.count(name) > 1 or not name]
    if repeated or len(header) < 2:
        raise InputError(
            f"{args.data!r} needs at least two columns, each with a name of its own; "
            "correct the first line"
        )
    text = (
        _read(args, header, target)
        if args.read_values
        else _template(kinds or dict.fromkeys(header), target)
    )
    with writing(args.out) as stream:
        stream.write(text + "\n")


def _template(columns: Mapping[str, str | None], target: str) -> str:
    document = {
        "note": "Fill in every list and bound from public documentation, never from "
        f"the records; `{PROG} schema suggest --help` shows all kinds of entries. "
        "Types are guessed from names.",
        "features": [
            _entry(name, kind) for name, kind in columns.items() if name != target
        ],
        "target": {"name": target, "categories": []},
    }
    return json.dumps(document, indent=1, ensure_ascii=False)


_NUMERIC = re.compile(
    "age|amount|area|balance|capital|count|distance|duration|height|hours|income|length"
    "|gain|loss|minutes|months|number|num|price|pressure|rate|ratio|salary|score|speed"
    "|temperature|time|total|volume|wage|weight|width|years?"
)
_ORDINAL = re.compile("degree|education|grade|level|rank|stage")
"""Words of names that mean a number, or an order; who fills it in decides."""


def _entry(name: str, kind: str | None) -> dict[str, Any]:
    """Return a template of an attribute; without a declared kind its name tells."""
    if kind is None:
        words = re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", name).lower())
        is_number, has_order = (
            any(map(pattern.fullmatch, words)) for pattern in (_NUMERIC, _ORDINAL)
        )
        kind = "numeric" if is_number else "ordinal" if has_order else "categorical"
    if kind == "numeric":
        return {"name": name, "type": kind, "lower": None, "upper": None}
    return {"name": name, "type": kind, "categories": []}


def _declared(path: str) -> dict[str, str | None]:
    """Return the columns of a Parquet file and the kinds that its schema declares.

    Only the schema is read: a dictionary of values is data, as records are.
    """
    try:
        import pyarrow as arrow
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            'reading the schema of a Parquet file needs pyarrow; pip install "mmech'
            '[arrow]"'
        ) from None
    try:
        declared = parquet.read_schema(path)
    except arrow.ArrowInvalid:
        raise InputError(f"{path!r} is not a Parquet file, or is damaged") from None
    kinds = arrow.types
    numbers = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
    return {
        field.name: "numeric" if any(f(field.type) for f in numbers) else "categorical"
        for field in declared
    }


def _read(args: argparse.Namespace, header: list[str], target: str) -> str:
    say(f"{PROG}: {_LEAK}")
    from mmech.domain.attribute import distinct_values
    from mmech.domain.readers import read_cells
    from mmech.exceptions import located
    from mmech_rf.schema import Schema

    with located(f"cannot use the data {args.data!r}"):
        cells = read_cells(opened(args, args.data), header, **csv_format(args))
    columns = dict(zip(header, cells.T, strict=True))
    labels, has_missing = distinct_values(columns[target], f"column {target!r}")
    if has_missing:
        raise InputError(
            f"column {target!r} of {args.data!r}, the class, has empty fields; remove "
            "such records"
        )
    attributes = [
        _attribute(name, columns[name], args.bins) for name in header if name != target
    ]
    text = Schema(
        tuple(attributes), tuple(labels), target=target, read_from_records=True
    ).to_json()
    assert text is not None
    return text


def _attribute(name: str, values: Any, n_bins: int) -> Attribute:
    """Describe a column of text: numeric where it is many numbers."""
    import numpy as np

    from mmech.domain.attribute import infer_attribute
    from mmech.domain.values import number_values

    numbers, bad = number_values(values)
    present = numbers[~np.isnan(numbers)]
    many = len(set(present.tolist())) > MAX_NUMERIC_CATEGORIES
    if bad.any() or not many or math.isinf(np.abs(present).max()):
        return infer_attribute(name, values, n_bins)
    attribute = infer_attribute(name, present, n_bins)
    return attribute if present.size == numbers.size else replace(attribute, other="?")


def _check(args: argparse.Namespace) -> None:
    check_readable(args)
    from mmech_rf.datasets import load_csv
    from mmech_rf.evaluation import read_schema

    schema = read_schema(args.schema)
    if args.queries:
        schema = replace(schema, required=())
    bunch = load_csv(
        opened(args, args.data),
        schema,
        with_target=not args.queries,
        decode=False,
        **csv_format(args),
    )
    misfits = schema.check(bunch.data, bunch.target)
    say(f"{PROG}: {_FOR_THE_OWNER}")
    if misfits:
        print("Rows are counted from 0, below the header.")
    for row, column, value, problem in misfits:
        print(f"row {row}, column {column!r}: {_shown(value)} is {problem}")
    n, n_fit = len(bunch.data), len(bunch.data) - len({m.row for m in misfits})
    print(f"{n_fit:,} of {n:,} records fit the schema {args.schema!r}.")
    if misfits:
        sys.stdout.flush()
        raise SystemExit(1)


def _shown(value: str) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
