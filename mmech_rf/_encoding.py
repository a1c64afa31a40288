"""Raw records to codes of cells and back, by what a schema says.

Each value is read by itself, so that a record's codes never depend on another
record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mmech.checks import check_choice
from mmech.domain import values as io
from mmech.domain.attribute import Attribute
from mmech.exceptions import ParameterError

if TYPE_CHECKING:
    from mmech_rf.schema import Schema

__all__ = ["Misfit", "decode", "decode_target", "encode", "encode_target", "misfits"]

_POLICIES = ("error", "category", "drop")

_PROBLEMS = {
    io.MISSING: "a missing value (empty, None or NaN)",
    io.UNKNOWN: "a value outside the domain of the attribute",
    io.OUTSIDE: "a number outside the bounds of the attribute, or infinity",
}
_LABEL_PROBLEMS = {
    io.MISSING: _PROBLEMS[io.MISSING],
    io.UNKNOWN: "a label that is not one of the classes",
}
_LOOK = "look at all that do not fit with {Schema.check}"


class Misfit(NamedTuple):
    """A cell of a table that a schema cannot read. Sensitive: it holds the value."""

    row: int
    column: str
    value: Any
    problem: str


def encode(
    schema: Schema,
    X: Any,
    y: Any,
    *,
    columns: Iterable[str] | None,
    handle_unknown: str,
    handle_missing: str,
    return_index: bool,
) -> Any:
    """Return the cell of every record along every attribute, see `Schema.encode`."""
    check_choice(handle_unknown, "handle_unknown", (*_POLICIES, "clip"))
    check_choice(handle_missing, "handle_missing", _POLICIES)
    for option, choice in (
        ("handle_unknown", handle_unknown),
        ("handle_missing", handle_missing),
    ):
        _check_policy(schema, option, choice, counting=y is not None)
    if return_index and y is None:
        raise ValueError(
            "return_index=True needs y, because no query is ever dropped; leave it out"
        )
    table = io.read_table(X, columns)
    features, required = table.locate(
        schema.feature_names,
        schema.required,
        read_required=y is not None and handle_missing != "category",
    )
    keep = np.ones(table.n_rows, dtype=bool)
    codes = np.empty((table.n_rows, schema.n_features), dtype=np.int64)
    for j, (attribute, column) in enumerate(
        zip(schema.attributes, features, strict=True)
    ):
        found = attribute._codes(table.column(column), clip=handle_unknown == "clip")
        if found.size and found.min() < 0:
            _settle(attribute, found, keep, handle_unknown, handle_missing)
        codes[:, j] = found
    for name, column in zip(schema.required, required, strict=False):
        missing = np.fromiter(
            map(io.is_missing, table.column(column)), bool, table.n_rows
        )
        if handle_missing == "error" and missing.any():
            raise _cell_error(int(missing.argmax()), name, io.MISSING)
        keep &= ~missing
    if y is None:
        return codes
    _, class_codes = _read_labels(schema, y, table.n_rows)
    for marker, choice in (
        (io.MISSING, handle_missing),
        (io.UNKNOWN, handle_unknown),
    ):
        bad = class_codes == marker
        if choice == "drop":
            keep &= ~bad
        elif bad.any():
            raise _label_error(int(bad.argmax()), marker)
    index = np.flatnonzero(keep)
    if index.size < table.n_rows:
        codes, class_codes = codes[index], class_codes[index]
    return (codes, class_codes, index) if return_index else (codes, class_codes)


def _check_policy(schema: Schema, option: str, choice: str, *, counting: bool) -> None:
    if choice == "drop" and not counting:
        raise ParameterError(
            option,
            f"{{{option}='drop'}} needs y, because every query needs an answer",
            remedy=("give y for training records", "choose another way for queries"),
        )
    if choice == "category" and all(
        attribute.other_code is None for attribute in schema.attributes
    ):
        raise ParameterError(
            option,
            f"{{{option}='category'}} needs a designated category, and no attribute "
            "of this schema declares one",
            remedy=(
                "add a category '?' to the attributes that need it",
                "set {other=} there",
            ),
        )


def _settle(
    attribute: Attribute,
    codes: NDArray[np.int64],
    keep: NDArray[np.bool_],
    handle_unknown: str,
    handle_missing: str,
) -> None:
    """Replace the markers in codes (N,), or clear keep (N,), as the user chose."""
    for marker in (io.MISSING, io.UNKNOWN, io.OUTSIDE):
        choice = handle_missing if marker == io.MISSING else handle_unknown
        bad = codes == marker
        if not bad.any():
            continue
        if choice == "drop":
            keep &= ~bad
        elif choice == "category" and attribute.other_code is not None:
            codes[bad] = attribute.other_code
        else:
            row = int(bad.argmax())
            undeclared = choice == "category"
            raise _cell_error(row, attribute.name, marker, undeclared=undeclared)


def _cell_error(
    row: int, name: str, marker: int, *, undeclared: bool = False
) -> ParameterError:
    remedy = {
        io.MISSING: (f"{_LOOK}, then fill it in", "choose {handle_missing=}"),
        io.UNKNOWN: (
            f"{_LOOK}, then correct it",
            "extend the {schema}",
            "choose {handle_unknown=}",
        ),
        io.OUTSIDE: (
            f"{_LOOK}, then correct it",
            "widen the bounds of the {schema}",
            "choose {handle_unknown=}",
        ),
    }[marker]
    problem = _PROBLEMS[marker]
    if undeclared:
        problem += ", and the attribute declares no category for it"
        remedy = ("add '?' to its categories", "set {other=}")
    need = f"row {row}, column {name!r} of {{X}} holds {problem}"
    return ParameterError("X", need, remedy=remedy)


def encode_target(schema: Schema, y: Any) -> NDArray[np.int64]:
    """Return the position in `class_labels` of every label."""
    codes = schema._class_table.codes(io.read_vector(y))
    if codes.size and codes.min() < 0:
        row = int((codes < 0).argmax())
        marker = int(codes[row])
        remedy = {
            io.MISSING: ("fill it in", "leave its record out"),
            io.UNKNOWN: ("correct it", "add it to {class_labels} of the schema"),
        }[marker]
        need = f"row {row} of {{y}} holds {_LABEL_PROBLEMS[marker]}"
        raise ParameterError("y", need, remedy=remedy)
    return codes


def _read_labels(
    schema: Schema, y: Any, n_rows: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return raw labels and their codes, with a negative marker where there is none."""
    labels = io.read_vector(y)
    if labels.shape[0] != n_rows:
        raise ValueError(
            f"X has {n_rows} rows but y has {labels.shape[0]} labels; "
            "give one label per row"
        )
    return labels, schema._class_table.codes(labels)


def _label_error(row: int, marker: int) -> ParameterError:
    remedy = {
        io.MISSING: (f"{_LOOK}, then fill it in", "choose {handle_missing=}"),
        io.UNKNOWN: (
            f"{_LOOK}, then correct it",
            "add it to {class_labels} of the schema",
            "choose {handle_unknown=}",
        ),
    }[marker]
    need = f"row {row} of {{y}} holds {_LABEL_PROBLEMS[marker]}"
    return ParameterError("y", need, remedy=remedy)


def misfits(
    schema: Schema, X: Any, y: Any, *, columns: Iterable[str] | None
) -> list[Misfit]:
    """Return every cell that the schema cannot read, see `Schema.check`."""
    table = io.read_table(X, columns)
    features, required = table.locate(
        schema.feature_names, schema.required, read_required=y is not None
    )
    found = []
    for attribute, position in zip(schema.attributes, features, strict=True):
        values = table.column(position)
        codes = attribute._codes(values, clip=False)
        found += _listed(attribute.name, values, codes, _PROBLEMS)
    for name, position in zip(schema.required, required, strict=False):
        values = table.column(position)
        missing = [io.MISSING if io.is_missing(value) else 0 for value in values]
        found += _listed(name, values, np.array(missing, np.int64), _PROBLEMS)
    if y is not None:
        labels, codes = _read_labels(schema, y, table.n_rows)
        found += _listed(schema.target, labels, codes, _LABEL_PROBLEMS)
    return sorted(found, key=lambda misfit: misfit.row)


def _listed(
    name: str,
    values: NDArray[Any],
    codes: NDArray[np.int64],
    problems: dict[int, str],
) -> list[Misfit]:
    return [
        Misfit(int(row), name, values[row], problems[int(codes[row])])
        for row in np.flatnonzero(codes < 0)
    ]


def decode(schema: Schema, codes: ArrayLike) -> NDArray[np.object_]:
    """Return what the cells are called, see `Schema.decode`."""
    array = np.asarray(codes)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"codes must be integers, got dtype {array.dtype}; pass what encode returns"
        )
    if array.ndim not in (1, 2) or array.shape[-1] != schema.n_features:
        raise ValueError(
            f"codes must have shape (N, {schema.n_features}) or "
            f"({schema.n_features},), got {array.shape}; pass what encode returns"
        )
    out = np.empty(array.shape, dtype=object)
    for j, attribute in enumerate(schema.attributes):
        column = array[..., j].astype(np.int64)
        if column.size and not (column.min() >= 0 and column.max() < attribute.size):
            raise ValueError(
                f"codes of attribute {attribute.name!r} must be at least 0 and "
                f"below {attribute.size}; pass what encode returns"
            )
        names = np.empty(attribute.size, dtype=object)
        names[:] = attribute.labels
        out[..., j] = names[column]
    return out


def decode_target(schema: Schema, class_codes: ArrayLike) -> NDArray[Any]:
    """Return the raw class labels of class codes."""
    kinds = {type(label) for label in schema.class_labels}
    labels = np.empty(schema.n_classes, dtype=object)
    labels[:] = schema.class_labels
    if len(kinds) == 1:
        labels = np.array(schema.class_labels)
    codes = np.asarray(class_codes, dtype=np.int64)
    if codes.size and not (codes.min() >= 0 and codes.max() < schema.n_classes):
        raise ValueError(
            f"class codes must be at least 0 and below {schema.n_classes}; "
            "pass what encode_target returns"
        )
    return labels[codes]
