"""Columns of raw values to codes of cells: the policies, and what does not fit.

Each value is read by itself, so that a record's codes never depend on another
record. Messages call the description of the attributes by a `noun`, such as
``"domain"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmech.checks import check_choice
from mmech.domain.attribute import Attribute
from mmech.domain.frames import Table
from mmech.domain.values import (
    INFINITE,
    MISSING,
    NO_DATE,
    NO_NUMBER,
    NO_PATH,
    OTHER_TIME,
    OUTSIDE,
    UNKNOWN,
)
from mmech.exceptions import ParameterError

_POLICIES = ("error", "category", "drop")

PROBLEMS = {
    MISSING: "a missing value (empty, None or NaN)",
    UNKNOWN: "a value outside the domain of the attribute",
    OUTSIDE: "a number outside the bounds of the attribute, or infinity",
    INFINITE: "infinity, or a number beyond all doubles",
    NO_NUMBER: "a value that is not a number",
    NO_DATE: "a value that is not a date",
    OTHER_TIME: "a date outside the bounds of the attribute",
    NO_PATH: "a value that the tree does not have below those of the columns above",
}
"""What is wrong with a value, by the marker that stands for its code."""


_CHANGES = dict.fromkeys((UNKNOWN, NO_PATH), "extend the {domain}")
_CHANGES |= dict.fromkeys((OUTSIDE, OTHER_TIME), "widen the bounds of the {domain}")
_CHANGES |= {
    NO_DATE: "write dates as 2026-01-31",
    NO_NUMBER: "read the file with the {decimal=}, {thousands=} or {na=} that it is "
    "written with",
}
"""What else may be done about it."""

DECLARE = ("add '?' to its categories", "set {other=}")
"""What to do where an attribute has no category for a value."""

CLIPPED = (PROBLEMS[OUTSIDE], PROBLEMS[INFINITE], PROBLEMS[OTHER_TIME])
"""Problems of numbers and dates that ``handle_unknown="clip"`` moves into bounds."""


class Misfit(NamedTuple):
    """A cell of a table that cannot be read. Sensitive: it holds the value."""

    row: int
    column: str
    value: Any
    problem: str


class CellError(ParameterError):
    """A cell of the records cannot be read.

    Ways to mend the table or its reading stand between the first remedy and the last.
    """


def check_policies(attributes: Sequence[Attribute], **policies: str) -> None:
    """Raise unless ``handle_unknown`` and ``handle_missing`` can be followed."""
    for option, choice in policies.items():
        clip = ("clip",) if option == "handle_unknown" else ()
        check_choice(choice, option, (*_POLICIES, *clip))
        if choice == "category" and all(a.other_code is None for a in attributes):
            need = (
                f"{{{option}='category'}} needs a category, which no attribute declares"
            )
            raise ParameterError(option, need, remedy=DECLARE)


def encode_columns(
    attributes: Sequence[Attribute],
    table: Table,
    positions: Sequence[int],
    noun: str,
    *,
    handle_unknown: str,
    handle_missing: str,
    narrow: bool = False,
    first_row: int = 0,
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the codes (N, d) of all records, and which of them are kept (N,).

    `positions` are those of the columns in the table; an attribute may have several.
    `narrow` asks for the narrowest type of codes, column by column in memory. Messages
    count rows from `first_row`.
    """
    keep = np.ones(table.n_rows, dtype=bool)
    narrowest = narrow_type([attribute.size for attribute in attributes])
    dtype = narrowest if narrow else np.dtype(np.int64)
    shape = table.n_rows, len(attributes)
    codes = np.empty(shape, dtype, order="F" if narrow else "C")
    columns, clip = map(table.read, positions), handle_unknown == "clip"
    for j, attribute in enumerate(attributes):
        others = []
        for name, read in attribute._read(
            islice(columns, len(attribute._parts)), clip=clip
        ):
            codes[:, j] = read
            for marker in PROBLEMS if read.min(initial=0) < 0 else ():
                choice = handle_missing if marker == MISSING else handle_unknown
                bad = read == marker
                if not bad.any():
                    continue
                if choice == "drop":
                    keep &= ~bad
                elif choice == "category" and attribute.other_code is not None:
                    others.append(bad)
                else:
                    row = first_row + int(bad.argmax())
                    undeclared = choice == "category"
                    raise cell_error(row, name, marker, noun, undeclared=undeclared)
        for bad in others:
            codes[bad, j] = attribute.other_code
    return codes, keep


def narrow_type(domain_shape: Sequence[int]) -> np.dtype[Any]:
    """Return the narrowest type of unsigned integers that holds all codes."""
    return np.min_scalar_type(max(domain_shape) - 1)


def look(noun: str) -> str:
    """Return the first remedy for a table that does not fit."""
    return f"look at all that do not fit with {{{noun.capitalize()}.check}}"


def cell_error(
    row: int, name: str, marker: int, noun: str, *, undeclared: bool = False
) -> CellError:
    """Return the error for a cell; it names row and column, never the value."""
    need = f"row {row}, column {name!r} of {{X}} holds {PROBLEMS[marker]}"
    if undeclared:
        need += ", and the attribute declares no category for it"
        return CellError("X", need, remedy=DECLARE)
    if marker == MISSING:
        remedy = [f"{look(noun)}, then fill it in", "choose {handle_missing=}"]
    else:
        remedy = [f"{look(noun)}, then correct it", "choose {handle_unknown=}"]
    if marker in _CHANGES:
        remedy.insert(1, _CHANGES[marker].replace("domain", noun))
    return CellError("X", need, remedy=tuple(remedy))


def list_misfits(
    name: str,
    values: NDArray[Any],
    codes: NDArray[np.signedinteger[Any]],
    problems: Mapping[int, str] = PROBLEMS,
) -> list[Misfit]:
    """Return the cells of a column (N,) whose codes (N,) are markers of problems."""
    return [
        Misfit(int(row), name, values[row], problems[int(codes[row])])
        for row in np.flatnonzero(codes < 0)
    ]
